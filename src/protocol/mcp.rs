//! MCP servers: their state, and what a client can do about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an MCP server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerState {
    /// The configuration disables it.
    Disabled,
    /// A file of the folder names it, and the folder is not trusted; see `agent/describeTrust`.
    Untrusted,
    /// Its configuration cannot be used; see `reason`.
    Invalid,
    /// No session has needed it yet.
    Idle,
    /// It was started, and has not listed its tools yet.
    Starting,
    /// The agent can use its tools.
    Ready,
    /// It did not start, or it ended; see `reason`.
    Failed,
    /// It refuses requests until the user has logged in.
    NeedsLogin,
}

/// An MCP server and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerInfo {
    /// The NAME of `[mcp.NAME]`.
    pub name: String,
    /// The workspace folder whose sessions use it, as an absolute path.
    pub folder: String,
    /// What it is doing.
    pub state: McpServerState,
    /// The program that runs, or the address; empty in the state `invalid`.
    pub target: String,
    /// Where it is configured: a file, relative to the folder if it is in it, or an editor's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it calls itself, with its version; absent before it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it failed or is invalid, or why the last login failed or does not suffice, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The address at which a user logs in, while a login waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_url: Option<String>,
    /// Whether there are tokens of a login that are still valid as far as known, which `agent/logoutMcpServer` removes;
    /// only in `agent/listMcpServers`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logged_in: bool,
    /// Number of tools that the agent may use.
    pub tool_count: u64,
    /// Their names, as the server gives them; only in `agent/listMcpServers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The last lines that it wrote to its standard error, if it failed; always in `agent/listMcpServers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// Params of `agent/listMcpServers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMcpServersParams {
    /// The session whose folder's servers are listed; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listMcpServers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMcpServersResult {
    /// The servers, by name.
    pub servers: Vec<McpServerInfo>,
}

/// Params of `agent/restartMcpServer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartMcpServerParams {
    /// The server's name.
    pub name: String,
    /// The session whose folder's server is meant; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Params of `agent/loginMcpServer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginMcpServerParams {
    /// The server's name.
    pub name: String,
    /// The session whose folder's server is meant; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/loginMcpServer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginMcpServerResult {
    /// The address to open in a browser, after the user agrees. It works once, and for ten minutes.
    pub url: String,
}

/// Params of `agent/cancelMcpLogin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelMcpLoginParams {
    /// The server's name.
    pub name: String,
    /// The session whose folder's server is meant; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Params of `agent/logoutMcpServer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogoutMcpServerParams {
    /// The server's name.
    pub name: String,
    /// The session whose folder's server is meant; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/logoutMcpServer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogoutMcpServerResult {
    /// There were tokens of a login, which are removed now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_logged_in: bool,
    /// Why the authorization server did not revoke the tokens, for the user. They are removed from this machine all the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_problem: Option<String>,
}

/// Params of `agent/mcpServerUpdated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerUpdatedNotification {
    /// The server as it is now.
    pub server: McpServerInfo,
}

/// The state of an MCP server, for a status bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerHealth {
    /// The server's name.
    pub name: String,
    /// What it is doing.
    pub state: McpServerState,
}
