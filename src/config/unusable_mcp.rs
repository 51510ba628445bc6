//! The MCP servers that the configuration names, but that cannot start: files of an untrusted folder name them, or their
//! settings cannot be used. Pure.

use std::path::Path;

use super::diagnostics::Diagnostic;
use super::layers::LoadedConfig;
use super::tree::{join_keys, split_keys};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{McpServerState, McpServerStatus};

/// The longest name of a server in a list, in characters.
const MAX_NAME: usize = 100;

impl LoadedConfig {
    /// Lists the MCP servers of a folder that cannot start. None of them has the name of one that can.
    pub fn list_unusable_mcp_servers(&self, folder: &Path) -> Vec<McpServerStatus> {
        let new = |name: &str, state, source| McpServerStatus {
            name: name.to_owned(),
            folder: folder.to_path_buf(),
            state,
            source,
            ..McpServerStatus::default()
        };
        let untrusted = self.untrusted_mcp.iter();
        let untrusted = untrusted.filter(|named| !self.settings.mcp.contains_key(&named.name));
        let mut servers: Vec<McpServerStatus> = untrusted
            .map(|named| McpServerStatus {
                target: named.target.clone(),
                ..new(&named.name, McpServerState::Untrusted, Some(named.source.clone()))
            })
            .collect();
        for problem in &self.diagnostics {
            let keys = split_keys(&problem.key);
            let [table, name, setting @ ..] = keys.as_slice() else {
                continue;
            };
            if table != "mcp" || self.settings.mcp.contains_key(name) {
                continue;
            }
            let text = format_reason(problem, setting);
            let shown = one_line(&reveal_hidden_characters(name), MAX_NAME);
            match servers.iter_mut().find(|server| server.name == shown) {
                Some(known) => {
                    if let McpServerState::Invalid { reason } = &mut known.state {
                        reason.push_str(&format!("; {text}"));
                    }
                }
                None => {
                    let file = Path::new(&problem.file);
                    let source = file.strip_prefix(folder).unwrap_or(file).display().to_string();
                    let settings = self.settings.unusable_mcp.get(name);
                    servers.push(McpServerStatus {
                        required: settings.is_some_and(|settings| settings.enabled && settings.required),
                        ..new(&shown, McpServerState::Invalid { reason: text }, Some(source))
                    });
                }
            }
        }
        // Without a problem: such an entry may adjust a server that another folder names.
        for (name, settings) in &self.settings.unusable_mcp {
            if servers.iter().all(|server| server.name != *name) {
                let reason = "it has neither `command` nor `url`, and no project names it".to_owned();
                servers.push(new(
                    name,
                    McpServerState::Invalid { reason },
                    settings.source.clone(),
                ));
            }
        }
        servers
    }
}

/// Formats a problem of a server for a list, which names the server and the file itself.
fn format_reason(problem: &Diagnostic, setting: &[String]) -> String {
    let setting: Vec<&str> = setting.iter().map(String::as_str).collect();
    let mut text = problem.message.clone();
    if !setting.is_empty() {
        text = format!("{}: {text}", join_keys(&setting));
    }
    if let Some(hint) = &problem.hint {
        text.push_str(&format!(" ({hint})"));
    }
    text
}
