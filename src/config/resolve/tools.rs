//! Resolves the tool settings: time limits, pauses, reachable hosts, and the user's own tools.
//!
//! `command_tools` knows what an own tool may look like; this module only decides whether its table is usable.

use std::time::Duration;

use url::Url;

use super::super::command_tools::{self, CommandToolSettings};
use super::super::diagnostics::nearest_name;
use super::super::file::{OnCancelName, ToolTable, ToolTables};
use super::super::settings::{OnCancel, ToolSettings};
use super::super::tree::join_keys;
use super::{Resolver, duration_from_secs};

/// How long a canceled command may continue with `on_cancel = "finish"`, unless configured (R-CANCEL).
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

impl Resolver<'_> {
    pub(super) fn resolve_tools(&mut self, tables: ToolTables) -> ToolSettings {
        let mut tools = ToolSettings {
            on_cancel: match tables.bash.on_cancel {
                Some(OnCancelName::Finish) => OnCancel::Finish(
                    tables
                        .bash
                        .finish_timeout_s
                        .map_or(FINISH_TIMEOUT, duration_from_secs),
                ),
                Some(OnCancelName::Interrupt) | None => OnCancel::Interrupt,
            },
            pass_env: tables.bash.pass_env.unwrap_or_default(),
            ..ToolSettings::default()
        };
        if let Some(limit) = tables.bash.timeout_s {
            tools
                .timeouts
                .insert("bash".to_owned(), duration_from_secs(limit));
        }
        if let Some(cooldown) = tables.bash.circuit_cooldown_s {
            tools
                .cooldowns
                .insert("bash".to_owned(), duration_from_secs(cooldown));
        }
        let web = tables.web_fetch;
        if let Some(limit) = web.timeout_s {
            tools
                .timeouts
                .insert("web_fetch".to_owned(), duration_from_secs(limit));
        }
        if let Some(cooldown) = web.circuit_cooldown_s {
            tools
                .cooldowns
                .insert("web_fetch".to_owned(), duration_from_secs(cooldown));
        }
        tools.private_hosts = self.private_hosts(web.private_hosts.unwrap_or_default());
        for (name, table) in tables.others {
            let own = command_tools::is_command_tool(&table);
            if own {
                tools.commands.extend(self.command_tool(&name, &table));
            }
            if name == "default" {
                tools.default_timeout = table.timeout_s.map_or(tools.default_timeout, duration_from_secs);
                tools.default_cooldown = table
                    .circuit_cooldown_s
                    .map_or(tools.default_cooldown, duration_from_secs);
                continue;
            }
            let there = self.inputs.tools;
            if !own && !there.is_empty() && !there.contains(&name) {
                let meant = nearest_name(&name, there.iter().map(String::as_str)).map(str::to_owned);
                self.error_hinted(&["tool", &name], "unknown tool", meant.as_deref());
            }
            if let Some(cooldown) = table.circuit_cooldown_s {
                tools.cooldowns.insert(name.clone(), duration_from_secs(cooldown));
            }
            if let Some(limit) = table.timeout_s {
                tools.timeouts.insert(name, duration_from_secs(limit));
            }
        }
        tools
    }

    /// Resolves one of the user's own tools. One that cannot be read completely must not run as something else.
    fn command_tool(&mut self, name: &str, table: &ToolTable) -> Option<CommandToolSettings> {
        if name == "default" || self.inputs.tools.iter().any(|there| there == name) {
            self.report_error(
                &["tool", name],
                "is a tool of agentls: its `command` cannot be set",
            );
            return None;
        }
        let stated = |key: &&str| self.failed.contains(&join_keys(&["tool", name, key]));
        if ["command", "description", "schema", "effect"].iter().any(stated) {
            return None;
        }
        command_tools::command_tool(name, table)
            .inspect_err(|wrong| self.report_error(&["tool", name, wrong.key], wrong.why.as_str()))
            .ok()
    }

    /// Returns the hosts in the form that addresses have, and reports the others.
    fn private_hosts(&mut self, hosts: Vec<String>) -> Vec<String> {
        let (good, bad): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| parse_host(host).is_some());
        for host in bad {
            self.report_error(
                &["tool", "web_fetch", "private_hosts"],
                format!("{host:?} is not a host; write it like `localhost:3000` or `wiki.example.com`"),
            );
        }
        good.iter().filter_map(|host| parse_host(host)).collect()
    }
}

/// Returns `host` or `host:port` in the form that addresses have; `None` if it is not a host.
fn parse_host(written: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{written}/")).ok()?;
    // URLs allow a star as an ordinary character, but a user who writes one means a pattern.
    let plain =
        !written.contains('*') && url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let host = url.host_str().filter(|_| plain && url.username().is_empty())?;
    // The parser drops 80, the default port of `http`; but here no port would mean all ports.
    match (url.port(), written.ends_with(":80")) {
        (Some(port), _) => Some(format!("{host}:{port}")),
        (None, true) => Some(format!("{host}:80")),
        (None, false) => Some(host.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_normalized_like_in_urls() {
        for (written, host) in [
            ("localhost", Some("localhost")),
            ("LocalHost:3000", Some("localhost:3000")),
            ("127.1", Some("127.0.0.1")),
            ("[::1]:80", Some("[::1]:80")),
            ("wiki.example.com", Some("wiki.example.com")),
            ("http://localhost", None),
            ("localhost/x", None),
            ("user@localhost", None),
            ("", None),
            ("*", None),
        ] {
            assert_eq!(parse_host(written).as_deref(), host, "{written}");
        }
    }
}
