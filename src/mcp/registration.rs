//! What the settings of a folder say about its servers, those that cannot start included.

use std::path::Path;
use std::sync::Arc;

use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::{LoadedConfig, McpServerSettings, NetworkSettings, SandboxSettings};
use crate::domain::{McpServerState, McpServerStatus};

/// The longest reason, in characters.
const MAX_TEXT: usize = 500;

/// What the settings of a folder say about its servers.
#[derive(Clone, Default)]
pub struct McpRegistration {
    /// All servers whose settings can be used, disabled ones too.
    pub servers: Arc<[McpServerSettings]>,
    /// The other ones.
    pub unusable: Arc<[McpServerStatus]>,
    pub sandbox: Arc<SandboxSettings>,
    pub network: NetworkSettings,
}

/// A server that is configured, but never starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnusableServer {
    pub(super) name: String,
    /// Why, for people.
    pub(super) reason: String,
    pub(super) required: bool,
}

impl McpRegistration {
    /// Takes over the servers of a folder's configuration.
    pub fn new(loaded: &LoadedConfig, folder: &Path, sandbox: Arc<SandboxSettings>) -> Self {
        Self {
            servers: loaded.settings.mcp.values().cloned().collect(),
            unusable: loaded.list_unusable_mcp_servers(folder).into(),
            sandbox,
            network: loaded.settings.network.clone(),
        }
    }

    /// Finds a server that can start.
    ///
    /// # Errors
    /// There is none of this name. The reason, for people.
    pub fn find_usable(&self, name: &str) -> Result<&McpServerSettings, String> {
        let mut enabled = self.servers.iter().filter(|server| server.enabled);
        enabled.find(|server| server.name == name).ok_or_else(|| {
            let unusable = self.list_unusable();
            let known = unusable.into_iter().find(|server| server.name == name);
            known.map_or_else(
                || format!("{name:?} is not an enabled MCP server; see agent/listMcpServers"),
                |server| server.explain(),
            )
        })
    }

    /// Lists the servers that never start: disabled ones, those of an untrusted folder, and those whose settings cannot
    /// be used.
    pub(super) fn list_unusable(&self) -> Vec<UnusableServer> {
        let disabled = self.servers.iter().filter(|server| !server.enabled);
        let disabled = disabled.map(|server| UnusableServer {
            name: server.name.clone(),
            reason: "`enabled = false` disables it".to_owned(),
            required: false,
        });
        let others = self.unusable.iter().map(|server| UnusableServer {
            name: server.name.clone(),
            reason: match &server.state {
                McpServerState::Invalid { reason } => {
                    let reason = one_line(&reveal_hidden_characters(reason), MAX_TEXT);
                    format!("its settings cannot be used: {reason}")
                }
                _ => "the folder is not trusted".to_owned(),
            },
            required: server.required,
        });
        disabled.chain(others).collect()
    }
}

impl UnusableServer {
    /// Names the server and the reason.
    pub(super) fn explain(&self) -> String {
        format!("the MCP server {} does not start: {}", self.name, self.reason)
    }
}
