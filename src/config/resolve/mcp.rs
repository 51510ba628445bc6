//! Resolves the settings of MCP servers: which of them are usable, and who names them.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::resolver::Resolver;
use crate::config::diagnostics::Diagnostic;
use crate::config::folder_code::is_package_runner;
use crate::config::mcp_names::is_mcp_name;
use crate::config::settings::McpServerSettings;
use crate::config::tree::join_keys;

impl Resolver<'_> {
    /// Removes the servers that cannot be used, and returns them. One that cannot be read completely must not start as
    /// something else.
    pub(super) fn resolve_mcp(
        &mut self,
        servers: &mut BTreeMap<String, McpServerSettings>,
    ) -> BTreeMap<String, McpServerSettings> {
        let is_unusable = |name: &String, server: &mut McpServerSettings| !self.resolve_server(name, server);
        servers.extract_if(.., is_unusable).collect()
    }

    /// Completes the settings of a server. Returns whether it can be used.
    fn resolve_server(&mut self, name: &str, server: &mut McpServerSettings) -> bool {
        name.clone_into(&mut server.name);
        let path = |key| ["mcp", name, key];
        let failed = [
            "command",
            "args",
            "env",
            "env_file",
            "cwd",
            "in_workspace",
            "url",
            "headers",
            "bearer_token_env",
            "oauth_client_id",
            "oauth_client_secret_env",
            "oauth_scopes",
            "oauth_callback_port",
            "tools",
            "deny_tools",
            "sandbox",
            "enabled",
        ];
        if failed.iter().any(|key| self.has_failed_below(&path(key))) {
            return false;
        }
        if !is_mcp_name(name) {
            let message =
                "the name of an MCP server has at most 32 letters, digits, `-` and single `_`; not available";
            self.report_error(&["mcp", name], message);
            return false;
        }
        match (&server.command, &server.url) {
            (Some(_), Some(_)) => {
                self.report_error(&path("url"), "has `command` too; remove one of them");
                return false;
            }
            // It only adjusts a server that a workspace or a client may name.
            (None, None) => {
                server.source = Some(self.format_source(&["mcp", name]));
                return false;
            }
            (Some(command), None) if command.is_empty() => {
                self.report_error(&path("command"), "needs the name of a program");
                return false;
            }
            (Some(_), None) => {}
            (None, Some(url)) => {
                let usable = Url::parse(url)
                    .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
                if !usable {
                    self.report_error(&path("url"), "must be an address such as https://example.com/mcp");
                    return false;
                }
            }
        }
        self.drop_foreign_login(name, server);
        let secret = self.read_variable(&path("bearer_token_env"), server.bearer_token_env.as_deref());
        let Ok(bearer_token) = secret else { return false };
        server.bearer_token = bearer_token;
        let variable = server.oauth_client_secret_env.as_deref();
        let Ok(client_secret) = self.read_variable(&path("oauth_client_secret_env"), variable) else {
            return false;
        };
        server.oauth_client_secret = client_secret;
        self.drop_foreign_sampling(name, server);
        server.env_file.take_if(|path| path.as_os_str().is_empty());
        let is_from_folder = |path: &[&str]| self.is_set(path) && self.is_from_folder(path);
        let stated = if server.command.is_some() {
            "command"
        } else {
            "url"
        };
        server.source = Some(self.format_source(&path(stated)));
        // Whoever states a part of it decides what runs.
        server.is_from_folder = ["command", "args", "env_file", "cwd", "in_workspace", "url"]
            .iter()
            .any(|key| is_from_folder(&path(key)))
            || (server.env.keys()).any(|variable| is_from_folder(&["mcp", name, "env", variable]));
        self.warn_of_runner(name, server);
        true
    }

    /// Warns of a program of the user's that a repository can replace: it would run in the workspace folder.
    fn warn_of_runner(&mut self, name: &str, server: &McpServerSettings) {
        let command = server.command.as_deref().unwrap_or_default();
        let program = command.rsplit('/').next().unwrap_or_default();
        let looks_here = is_package_runner(program, server.args.iter().map(String::as_str));
        if server.in_workspace && !server.is_from_folder && looks_here {
            let message = format!(
                "{program} looks for its program in the workspace folder first, so a repository can replace it; remove \
                 `in_workspace`, or name the program itself"
            );
            let at = self.find_location(&["mcp", name, "in_workspace"]);
            let key = join_keys(&["mcp", name, "in_workspace"]);
            self.problems.push(Diagnostic::new_warning(&at, key, message));
        }
    }

    /// Returns the value of the environment variable that a setting names. Reports an error if it is not set.
    fn read_variable(&mut self, path: &[&str], variable: Option<&str>) -> Result<Option<SecretString>, ()> {
        let Some(variable) = variable else { return Ok(None) };
        let value = self.inputs.env.non_empty(variable).map(SecretString::from);
        if value.is_none() {
            self.report_error(path, format!("the environment variable {variable} is not set"));
        }
        value.map(Some).ok_or(())
    }

    /// Returns where a setting is written, for people.
    fn format_source(&self, path: &[&str]) -> String {
        let root = self.inputs.root.unwrap_or(Path::new(""));
        self.find_location(path).format_source(root)
    }

    /// Drops what a project's file says about the login at a server of the user's: it could make the user grant another
    /// program more than they know. It can have no client secret at all: that would go to an address of its choice.
    fn drop_foreign_login(&mut self, name: &str, server: &mut McpServerSettings) {
        let secret = ["mcp", name, "oauth_client_secret_env"];
        let url = ["mcp", name, "url"];
        let is_foreign = self.is_from_folder(&secret) || (self.is_set(&url) && self.is_from_folder(&url));
        if self.is_set(&secret) && is_foreign {
            server.oauth_client_secret_env = None;
            let message = "ignored: only your own config file can state it, together with the `url`";
            self.report_error(&secret, message);
        }
        let is_from_folder = |path: &[&str]| self.is_set(path) && self.is_from_folder(path);
        if is_from_folder(&url) {
            return;
        }
        let keys = ["oauth_client_id", "oauth_scopes", "oauth_callback_port"];
        let foreign = keys.map(|key| is_from_folder(&["mcp", name, key]));
        let [has_client_id, has_scopes, has_port] = foreign;
        if has_client_id {
            server.oauth_client_id = None;
        }
        if has_scopes {
            server.oauth_scopes.clear();
        }
        if has_port {
            server.oauth_callback_port = None;
        }
        let message = "ignored: only the file that states the `url` decides how to log in there";
        for (key, _) in keys.iter().zip(foreign).filter(|(_, is_foreign)| *is_foreign) {
            self.report_error(&["mcp", name, key], message);
        }
    }

    /// Drops the permission of a project's file to ask the model: it would spend the user's money.
    fn drop_foreign_sampling(&mut self, name: &str, server: &mut McpServerSettings) {
        let path = ["mcp", name, "sampling"];
        if server.sampling && self.is_from_folder(&path) {
            server.sampling = false;
            self.report_error(&path, "ignored: only your own config file can allow it");
        }
    }

    /// Returns whether the setting, or something in it, was stated but could not be used.
    fn has_failed_below(&self, path: &[&str]) -> bool {
        // Paths are built only if something failed: each server asks for sixteen of them at the start.
        if self.failed.is_empty() {
            return false;
        }
        let key = join_keys(path);
        let below = format!("{key}.");
        self.failed
            .iter()
            .any(|failed| *failed == key || failed.starts_with(&below))
    }
}
