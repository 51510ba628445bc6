//! Resolves the settings of MCP servers: which of them are usable, and who names them.

use std::collections::BTreeMap;

use secrecy::SecretString;
use url::Url;

use super::resolver::Resolver;
use crate::config::location::ValueSource;
use crate::config::settings::McpServerSettings;
use crate::config::tree::{Node, SpannedValue};

/// The longest name of a server, so that its tools have names that all providers accept.
const MAX_NAME: usize = 32;

impl Resolver<'_> {
    /// Keeps the servers that can be used. One that cannot be read completely must not start as something else.
    pub(super) fn resolve_mcp(&mut self, servers: &mut BTreeMap<String, McpServerSettings>) {
        servers.retain(|name, server| {
            server.name.clone_from(name);
            let path = |key| ["mcp", name.as_str(), key];
            let failed = [
                "command",
                "args",
                "env",
                "cwd",
                "url",
                "headers",
                "bearer_token_env",
                "tools",
                "deny_tools",
                "sandbox",
                "enabled",
            ];
            if failed.iter().any(|key| self.has_failed_below(&path(key))) {
                return false;
            }
            let is_usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_usable) || name.contains("__") {
                let message = "the name of an MCP server has at most 32 letters, digits, `-` and single `_`; not available";
                self.report_error(&["mcp", name], message);
                return false;
            }
            match (&server.command, &server.url) {
                (Some(_), Some(_)) => {
                    self.report_error(&path("url"), "has `command` too; remove one of them");
                    return false;
                }
                // It only adjusts a server that a workspace may name.
                (None, None) => return false,
                (Some(command), None) if command.is_empty() => {
                    self.report_error(&path("command"), "needs the name of a program");
                    return false;
                }
                (Some(_), None) => {}
                (None, Some(url)) => {
                    let usable = Url::parse(url).is_ok_and(|url| {
                        matches!(url.scheme(), "http" | "https") && url.host().is_some()
                    });
                    if !usable {
                        self.report_error(&path("url"), "must be an address such as https://example.com/mcp");
                        return false;
                    }
                }
            }
            if let Some(variable) = &server.bearer_token_env {
                server.bearer_token = self.inputs.env.non_empty(variable).map(SecretString::from);
                if server.bearer_token.is_none() {
                    let message = format!("the environment variable {variable} is not set");
                    self.report_error(&path("bearer_token_env"), message);
                    return false;
                }
            }
            server.is_from_folder = self.is_from_folder(&["mcp", name]);
            true
        });
    }

    /// Returns whether the setting, or something in it, was stated but could not be used.
    fn has_failed_below(&self, path: &[&str]) -> bool {
        let key = crate::config::tree::join_keys(path);
        let below = format!("{key}.");
        self.failed
            .iter()
            .any(|failed| *failed == key || failed.starts_with(&below))
    }

    /// Returns whether a file of the root states the setting or a part of it.
    fn is_from_folder(&self, path: &[&str]) -> bool {
        let Some(root) = self.inputs.root else { return false };
        self.merged
            .find(path)
            .is_some_and(|value| has_value_below(value, root))
    }
}

/// Returns whether a plain value in the tree is written in a file below `root`.
fn has_value_below(value: &SpannedValue, root: &std::path::Path) -> bool {
    match &value.node {
        Node::Table(entries) => entries.values().any(|value| has_value_below(value, root)),
        _ => matches!(&*value.at.origin, ValueSource::File(file) if file.starts_with(root)),
    }
}
