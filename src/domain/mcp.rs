//! The state of MCP servers in plain values, for status lists (R-MCP).

use std::path::PathBuf;

/// What an MCP server is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum McpServerState {
    /// The settings disable it.
    Disabled,
    /// A file of the folder names it, and the folder is not trusted.
    Untrusted,
    /// Its settings cannot be used.
    Invalid {
        /// What is wrong, for people.
        reason: String,
    },
    /// No session has needed it yet.
    #[default]
    Idle,
    /// It was started, and has not listed its tools yet.
    Starting,
    /// The agent can use its tools.
    Ready {
        /// The number of tools that the agent may use.
        tools: usize,
    },
    /// It did not start, or it ended.
    Failed {
        /// The reason, for people.
        reason: String,
    },
    /// It refuses requests until the user has logged in.
    NeedsLogin,
}

/// An MCP server and its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpServerStatus {
    /// The NAME of `[mcp.NAME]`.
    pub name: String,
    /// The workspace folder whose sessions use it.
    pub folder: PathBuf,
    pub state: McpServerState,
    /// The program that runs, or the address; empty if it is invalid.
    pub target: String,
    /// Where it is configured: a file, relative to the folder if it is in it, or an editor's setting.
    pub source: Option<String>,
    /// What it calls itself, and its version.
    pub title: Option<String>,
    /// The last lines that it wrote to its standard error.
    pub stderr: Vec<String>,
    /// The tools that the agent may use, by the names that the server gives them.
    pub tools: Vec<String>,
    pub login: McpLoginStatus,
    /// A turn fails without it.
    pub required: bool,
}

/// The login at an MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpLoginStatus {
    /// The address at which the user logs in, while a login waits for that.
    pub url: Option<String>,
    /// Why the last login failed or does not suffice, for people.
    pub problem: Option<String>,
    /// There are tokens of a login, which work or can be refreshed as far as known.
    pub has_tokens: bool,
}
