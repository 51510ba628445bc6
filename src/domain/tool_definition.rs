//! What a tool of an MCP server is: how its server is reached, and what the server says of it.
//!
//! A permission for such a tool is for this definition. Plain values; `approval` compares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A tool of an MCP server as it was when the user allowed it. The texts are for people, and may be cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Differs if anything of the definition does, also what the texts leave out.
    pub hash: String,
    /// The command line or address of the server, without secrets.
    pub server: String,
    /// The name for people; empty if there is none. `None` if the permission is older than the record of titles and
    /// results: then its hash leaves these out.
    #[serde(default)]
    pub title: Option<String>,
    pub description: String,
    /// The JSON Schema of each argument.
    pub arguments: BTreeMap<String, String>,
    /// What the server claims of the effects of calls, such as `readOnlyHint`.
    pub annotations: BTreeMap<String, bool>,
}

/// The tool of an MCP server whose call a grant was given at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedTool {
    /// The name that rules use: `mcp:server/tool`.
    pub name: String,
    pub definition: Arc<ToolDefinition>,
}

/// The definitions of tools at their first use by a rule, by the names that rules use.
pub type FirstUses = BTreeMap<String, Arc<ToolDefinition>>;
