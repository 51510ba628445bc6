//! Resolves the settings of tools and hooks: reachable hosts, the user's own tools, and which hooks run.
//!
//! `command_tools` knows what an own tool may look like; this module only decides whether its table is usable.

use std::collections::BTreeMap;

use url::Url;

use super::resolver::Resolver;
use crate::base::glob::GlobPattern;
use crate::config::command_tools;
use crate::config::diagnostics::{Diagnostic, nearest_name};
use crate::config::folder_code::find_folder_code;
use crate::config::settings::{
    CommandToolSettings, HookMoment, HookSettings, SandboxSettings, ToolSettings, ToolTable,
};
use crate::config::tree::join_keys;
use crate::config::values::CommandLine;
use crate::domain::{HostRule, SandboxPolicy};

impl Resolver<'_> {
    pub(super) fn resolve_tools(&mut self, tools: &mut ToolSettings) {
        let hosts = std::mem::take(&mut tools.web_fetch.private_hosts);
        tools.web_fetch.private_hosts = self.private_hosts(hosts);
        let known = self.inputs.tools;
        for (name, table) in &tools.others {
            let is_own = command_tools::is_command_tool(table);
            if is_own {
                tools.commands.extend(self.command_tool(name, table));
            } else if table.sandbox.is_some() {
                let message = "has no effect here; it applies to tools with a `command`";
                self.report_error(&["tool", name, "sandbox"], message);
            }
            if !is_own && name != "default" && !known.is_empty() && !known.contains(name) {
                let suggestion = nearest_name(name, known.iter().map(String::as_str));
                self.report_misspelling(&["tool", name], "unknown tool", suggestion);
            }
        }
    }

    /// Reports hosts that are not understood, and patterns that have no effect. They allow nothing.
    pub(super) fn check_sandbox(&mut self, sandbox: &SandboxSettings) {
        for entry in sandbox.allow_hosts.iter() {
            if let Err(problem) = HostRule::parse(entry) {
                self.report_error(&["sandbox", "allow_hosts"], format!("{entry:?} {problem}"));
            }
        }
        for (key, entries) in [("write", &sandbox.write), ("read_allow", &sandbox.read_allow)] {
            for entry in entries.iter().filter(|entry| entry.contains(['*', '?'])) {
                let message = format!("{entry:?} is a pattern, which has no effect here; name the folder");
                self.report_error(&["sandbox", key], message);
            }
        }
        for entry in sandbox.read_deny.iter().filter(|entry| entry.contains("**")) {
            let message = format!(
                "in {entry:?}, `**` covers one folder, as `*` does; to cover all below a folder, name it"
            );
            self.report_error(&["sandbox", "read_deny"], message);
        }
        for entry in sandbox.read_deny.iter() {
            if let Err(problem) = GlobPattern::for_names(entry) {
                let message = format!("{entry:?} is not a valid pattern, so it covers too much: {problem}");
                self.report_error(&["sandbox", "read_deny"], message);
            }
        }
    }

    /// Keeps the hooks that run. One that cannot be read completely must not run as something else.
    pub(super) fn resolve_hooks(&mut self, hooks: &mut BTreeMap<String, HookSettings>) {
        hooks.retain(|name, hook| {
            hook.name.clone_from(name);
            let path = |key| ["hook", name.as_str(), key];
            // An unreadable `tool` must not make the hook run for all tools.
            if ["on", "command", "tool", "enabled", "sandbox"]
                .iter()
                .any(|key| self.has_failed(&path(key)))
            {
                return false;
            }
            if !self.is_set(&path("on")) {
                let message = "needs `on`: `prompt`, `pre_tool`, `post_tool` or `stop`";
                self.report_error(&path("on"), message);
                return false;
            }
            if hook.command.is_empty() {
                self.report_error(&path("command"), "needs a `command`");
                return false;
            }
            if !hook.tool.is_empty() && matches!(hook.on, HookMoment::Prompt | HookMoment::Stop) {
                let message = "has no effect here; it applies to `pre_tool` and `post_tool`";
                self.report_error(&path("tool"), message);
            }
            hook.is_from_folder = self.is_from_folder(&path("command"));
            hook.sandbox = self.confine_folder_command("hook", name, hook.sandbox);
            if !hook.is_from_folder {
                self.warn_of_folder_code(&path("command"), &hook.command, hook.sandbox);
            }
            // Last, so that the problems of a disabled hook are reported too.
            hook.enabled
        });
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
        let has_failed = |key: &&str| self.has_failed(&["tool", name, key]);
        if ["command", "description", "schema", "effect", "sandbox"]
            .iter()
            .any(has_failed)
        {
            return None;
        }
        let tool = command_tools::command_tool(name, table)
            .inspect_err(|wrong| self.report_error(&["tool", name, wrong.key], wrong.reason.as_str()))
            .ok()?;
        let sandbox = self.confine_folder_command("tool", name, tool.sandbox);
        let is_from_folder = self.is_from_folder(&["tool", name, "command"]);
        if !is_from_folder {
            self.warn_of_folder_code(&["tool", name, "command"], &tool.command, sandbox);
        }
        Some(CommandToolSettings {
            sandbox,
            is_from_folder,
            ..tool
        })
    }

    /// Returns what the command of a hook or tool may do in the sandbox. A folder's own command is always confined:
    /// what the user states is meant for the user's command.
    fn confine_folder_command(
        &self,
        table: &str,
        name: &str,
        stated: Option<SandboxPolicy>,
    ) -> Option<SandboxPolicy> {
        if self.is_from_folder(&[table, name, "command"]) {
            Some(stated.unwrap_or_default().min(SandboxPolicy::Workspace))
        } else {
            stated
        }
    }

    /// Warns of a command of the user's that runs code of the session's folder, in some mode outside of the sandbox.
    fn warn_of_folder_code(&mut self, path: &[&str], command: &CommandLine, sandbox: Option<SandboxPolicy>) {
        let outside = match sandbox {
            Some(SandboxPolicy::Off) => "outside of the sandbox",
            None => "in the mode `full` outside of the sandbox",
            Some(SandboxPolicy::ReadOnly | SandboxPolicy::Workspace) => return,
        };
        if let Some(program) = find_folder_code(command) {
            let message = format!(
                "`{program}` is, or looks for, code of the session's folder, so what is in a repository would run \
                 {outside}"
            );
            let at = self.find_location(path);
            let problem = Diagnostic::new_warning(&at, join_keys(path), message);
            let hint = "set `sandbox = \"workspace\"`, or name a program elsewhere by its path";
            self.problems.push(problem.with_hint(hint));
        }
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
