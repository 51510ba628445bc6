//! The MCP servers that the configuration names, but whose settings cannot be used. Pure.

use std::path::Path;

use super::layers::LoadedConfig;
use super::tree::{join_keys, split_keys};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{McpServerState, McpServerStatus};

/// The longest name of a server in a list, in characters.
const MAX_NAME: usize = 100;

impl LoadedConfig {
    /// Adds the MCP servers whose settings cannot be used to a list of the others, and sorts it by name.
    pub fn add_invalid_mcp_servers(&self, folder: &Path, servers: &mut Vec<McpServerStatus>) {
        let usable = servers.len();
        for problem in &self.diagnostics {
            let keys = split_keys(&problem.key);
            let [table, name, setting @ ..] = keys.as_slice() else {
                continue;
            };
            let name = one_line(&reveal_hidden_characters(name), MAX_NAME);
            if table != "mcp" || servers[..usable].iter().any(|server| server.name == name) {
                continue;
            }
            let setting: Vec<&str> = setting.iter().map(String::as_str).collect();
            let mut text = problem.message.clone();
            if !setting.is_empty() {
                text = format!("{}: {text}", join_keys(&setting));
            }
            if let Some(hint) = &problem.hint {
                text.push_str(&format!(" ({hint})"));
            }
            let mut added = servers[usable..].iter_mut();
            if let Some(known) = added.find(|server| server.name == name) {
                if let McpServerState::Invalid { reason } = &mut known.state {
                    reason.push_str(&format!("; {text}"));
                }
                continue;
            }
            let file = Path::new(&problem.file);
            let source = file.strip_prefix(folder).unwrap_or(file);
            servers.push(McpServerStatus {
                name,
                folder: folder.to_path_buf(),
                state: McpServerState::Invalid { reason: text },
                source: Some(source.display().to_string()),
                ..McpServerStatus::default()
            });
        }
        servers.sort_by(|a, b| a.name.cmp(&b.name));
    }
}
