//! What `agentls doctor` says of MCP servers. It starts none, and contacts none.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::McpCommands;
use crate::cli::doctor_models::{Check, CheckState};
use crate::config::McpServerSettings;
use crate::domain::{McpServerState, McpServerStatus};
use crate::workspace::process::find_own_program;

const NAME: &str = "mcp server";

impl McpCommands<'_> {
    /// Checks what can be checked of each server without a start.
    pub(in crate::cli) fn check_servers(&self) -> Vec<Check> {
        let servers = self.manager.list_servers(&self.folder, &self.registration);
        servers.iter().map(|status| self.check_status(status)).collect()
    }

    fn check_status(&self, status: &McpServerStatus) -> Check {
        let name = self.clean(&status.name);
        match &status.state {
            McpServerState::Invalid { reason } => {
                let state = if status.required {
                    CheckState::Fail
                } else if self.find_problems(Some(&status.name)).is_empty() {
                    // It may be meant for another folder.
                    CheckState::Info
                } else {
                    CheckState::Warn
                };
                let text = format!("{name}: its settings cannot be used: {}", self.clean(reason));
                Check::new(state, NAME, text, None)
            }
            McpServerState::Untrusted => {
                let from = self.source_of(status.source.as_deref());
                let target = self.clean_target(&status.target);
                let hint =
                    "the folder is not trusted, so it does not start; run /trust in a chat to review it";
                let text = format!("{name}: {target} ({from})");
                Check::new(CheckState::Info, NAME, text, Some(hint.to_owned()))
            }
            McpServerState::Disabled => Check::new(CheckState::Info, NAME, format!("{name}: disabled"), None),
            _ => self.check_server(status),
        }
    }

    fn check_server(&self, status: &McpServerStatus) -> Check {
        // All others have states of their own.
        let settings = &self.loaded.settings.mcp[&status.name];
        match &settings.command {
            Some(command) => self.check_program(settings, command),
            None => self.check_address(settings, status),
        }
    }

    fn check_program(&self, settings: &McpServerSettings, command: &str) -> Check {
        let name = &settings.name;
        if let Some(found) = self.find_program(settings, command) {
            let words = std::iter::once(self.shorten(&found)).chain(settings.args.iter().cloned());
            let shown = self.clean(&words.collect::<Vec<_>>().join(" "));
            return Check::new(CheckState::Ok, NAME, format!("{name}: {shown}"), None);
        }
        let state = if settings.required {
            CheckState::Fail
        } else {
            CheckState::Warn
        };
        let hint = "install it, or state its full path as `command`".to_owned();
        let text = format!("{name}: {} is not found", self.clean(command));
        Check::new(state, NAME, text, Some(hint))
    }

    /// Returns the path of the program that would run.
    fn find_program(&self, settings: &McpServerSettings, command: &str) -> Option<PathBuf> {
        if command.contains('/') {
            let path = settings.cwd.as_ref().unwrap_or(&self.folder).join(command);
            return path.is_file().then_some(path);
        }
        let path = self.source.env.get("PATH").map(OsStr::new);
        find_own_program(command, path, None)
    }

    fn check_address(&self, settings: &McpServerSettings, status: &McpServerStatus) -> Check {
        let name = &settings.name;
        let address = self.clean_target(&status.target);
        let (access, hint) = match &settings.bearer_token_env {
            Some(variable) => (format!(" with the token of {variable}"), None),
            None if status.login.has_tokens => (", logged in".to_owned(), None),
            None if status.state == McpServerState::NeedsLogin => (
                ", needs a new login".to_owned(),
                Some(format!("agentls mcp login {name}")),
            ),
            None if settings.login_address().is_some() => (
                String::new(),
                Some(format!("if it asks for a login: agentls mcp login {name}")),
            ),
            None => (String::new(), None),
        };
        let text = format!("{name}: {address}{access}");
        Check::new(CheckState::Info, NAME, text, hint)
    }
}
