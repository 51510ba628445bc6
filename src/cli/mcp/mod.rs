//! `agentls mcp`: lists, tries and changes MCP servers, and logs in to them.
//!
//! Needs no server of our own: it reads the configuration, and starts MCP servers as a session does. `edit` changes
//! the text of a config file. Values of variables and headers are never printed.

mod checks;
mod edit;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::args::{McpAddArguments, McpCommand};
use super::screen::{Screen, print_json};
use super::style::{Color, format_path};
use crate::base::clock;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::{
    ConfigSeverity, ConfigSource, Diagnostic, LoadedConfig, McpServerSettings, Redactor, Trust,
};
use crate::domain::{McpServerState, McpServerStatus};
use crate::mcp::{McpFolder, McpLogout, McpManager, McpRegistration, hide_secrets};
use crate::workspace::process::{adopt_orphans, sweep_orphans};
use crate::workspace::{Folder, WorkspaceShared};

/// The exit code of a command.
type CommandResult = Result<i32, Box<dyn std::error::Error>>;

/// How long a server may take to list its resources.
const RESOURCES: Duration = Duration::from_secs(10);
/// The longest text of a line, in characters.
const MAX_TEXT: usize = 300;

/// What every command needs: the configuration of the folder, and the servers that it names.
pub(super) struct McpCommands<'a> {
    source: &'a ConfigSource,
    trust: &'a Trust,
    folder: PathBuf,
    loaded: LoadedConfig,
    redactor: Redactor,
    manager: Arc<McpManager>,
    registration: McpRegistration,
}

impl<'a> McpCommands<'a> {
    /// Reads the configuration; starts nothing.
    pub(super) fn load(source: &'a ConfigSource, trust: &'a Trust, folder: PathBuf) -> Self {
        let loaded = source.load_settings(Some(&folder), trust);
        let redactor = Redactor::from_settings(&loaded.settings);
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let root = Folder {
            name,
            path: folder.clone(),
        };
        let workspace = WorkspaceShared::new(&[root], source.env.home_dir().map(Path::to_owned));
        workspace.set_stripped_env(loaded.settings.secret_env_names(&source.env));
        workspace.set_trusted(&folder, loaded.trusted);
        let data = source.places.as_ref().map(|places| places.data_dir.as_path());
        let sandbox = Arc::new(source.sandbox_settings(&loaded.settings.sandbox));
        Self {
            manager: McpManager::new(workspace, data, redactor.clone()),
            registration: McpRegistration::new(&loaded, &folder, sandbox),
            source,
            trust,
            folder,
            loaded,
            redactor,
        }
    }

    /// Runs a command and returns its exit code.
    pub(super) async fn run(self, command: McpCommand, screen: &mut Screen) -> CommandResult {
        match command {
            McpCommand::List { json: true } => self.print_servers(),
            McpCommand::List { json: false } => Ok(self.list_servers(screen)),
            McpCommand::Get { name, json: true } => self.print_server(&name),
            McpCommand::Get { name, json: false } => self.show_server(&name, screen),
            McpCommand::Add(arguments) => self.add_server(&arguments, screen),
            McpCommand::Remove { name } => self.remove_server(&name, screen).await,
            McpCommand::Test { name } => self.test_server(&name, screen).await,
            McpCommand::Login { name } => self.log_in(&name, screen).await,
            McpCommand::Logout { name } => {
                self.find_server(&name)?;
                let logout = self
                    .manager
                    .log_out(&self.folder, &self.registration, &name)
                    .await?;
                screen.write_line(if logout.had_tokens {
                    "removed the tokens"
                } else {
                    "there were no tokens"
                });
                self.report_revocation(&logout, screen);
                Ok(0)
            }
        }
    }

    fn print_servers(&self) -> CommandResult {
        let servers = self.manager.list_servers(&self.folder, &self.registration);
        let listed = servers.iter().map(|server| {
            json!({
                "name": server.name, "target": self.clean_target(&server.target),
                "from": self.source_of(server.source.as_deref()), "state": self.describe_state(server),
            })
        });
        let problems = self.find_problems(None);
        let texts = problems.iter().map(|problem| self.clean(&problem.to_string()));
        let report = json!({
            "servers": listed.collect::<Vec<_>>(), "problems": texts.collect::<Vec<_>>(),
        });
        print_json(&format!("{report:#}\n"))?;
        Ok(i32::from(problems.iter().any(|problem| problem.key.is_empty())))
    }

    fn print_server(&self, name: &str) -> CommandResult {
        let mut report = serde_json::Map::from_iter([("name".to_owned(), json!(name))]);
        for (key, value) in self.describe_server(name)? {
            let value = self.clean(&value);
            // What a server can have several of is always a list.
            if matches!(key, "argument" | "env" | "header") {
                let list = report.entry(key).or_insert_with(|| json!([]));
                list.as_array_mut()
                    .into_iter()
                    .for_each(|list| list.push(json!(value)));
            } else {
                report.insert(key.to_owned(), json!(value));
            }
        }
        print_json(&format!("{:#}\n", serde_json::Value::Object(report)))?;
        // The error of one that cannot be used says why.
        self.find_server(name)?;
        Ok(0)
    }

    fn list_servers(&self, screen: &mut Screen) -> i32 {
        let servers = self.manager.list_servers(&self.folder, &self.registration);
        let styler = screen.styler;
        for server in &servers {
            let color = match server.state {
                McpServerState::Untrusted | McpServerState::Invalid { .. } => Color::Yellow,
                _ => Color::Bold,
            };
            let name = format!("{:<20} ", server.name);
            let target = self.clean_target(&server.target);
            let from = self.source_of(server.source.as_deref());
            let text = format!("{target}  ({from}; {})", self.describe_state(server));
            screen.write_entry(&styler.paint_text(color, &name), 21, text.trim_start());
        }
        let problems = self.find_problems(None);
        if servers.is_empty() && problems.is_empty() {
            screen.write_line("no MCP server is configured; `agentls mcp add --help` shows how to add one");
        }
        self.show_problems(&problems, screen);
        i32::from(problems.iter().any(|problem| problem.key.is_empty()))
    }

    /// Returns what is wrong with the settings of a server, or of all; then also which files cannot be read at all.
    fn find_problems(&self, name: Option<&str>) -> Vec<&Diagnostic> {
        let prefix = name.map_or_else(|| "mcp.".to_owned(), |name| format!("mcp.{name}."));
        let problems = self.loaded.diagnostics.iter();
        // In an untrusted folder, each server says that it does not start.
        problems
            .filter(|problem| {
                let is_file = problem.key.is_empty() && problem.severity == ConfigSeverity::Error;
                name.is_none() && is_file || format!("{}.", problem.key).starts_with(&prefix)
            })
            .filter(|problem| {
                problem.key != "mcp" || problem.severity == ConfigSeverity::Error || self.loaded.trusted
            })
            .collect()
    }

    fn show_problems(&self, problems: &[&Diagnostic], screen: &mut Screen) {
        for problem in problems {
            let text = format!("! {}", self.clean(&problem.to_string()));
            screen.write_line(&screen.styler.paint_text(Color::Yellow, &text));
        }
    }

    /// Finds a server that never starts, unless it is only disabled.
    fn find_unusable(&self, name: &str) -> Option<&McpServerStatus> {
        let mut unusable = self.registration.unusable.iter();
        unusable.find(|server| server.name == name)
    }

    fn describe_state(&self, server: &McpServerStatus) -> String {
        let mut parts = Vec::new();
        if let Some(settings) = self.loaded.settings.mcp.get(&server.name) {
            parts.push(describe_transport(settings));
            parts.push(if settings.enabled { "enabled" } else { "disabled" });
            if settings.is_from_folder {
                parts.push("trusted");
            }
        }
        match server.state {
            McpServerState::Untrusted => parts.push("the folder is not trusted"),
            McpServerState::Invalid { .. } => parts.push("its settings cannot be used"),
            McpServerState::NeedsLogin => parts.push("needs a new login"),
            _ if server.login.has_tokens => parts.push("logged in"),
            _ => {}
        }
        parts.join(", ")
    }

    fn show_server(&self, name: &str, screen: &mut Screen) -> CommandResult {
        if let Some(server) = self.find_unusable(name)
            && server.state == McpServerState::Untrusted
        {
            let from = self.source_of(server.source.as_deref());
            screen.write_line(&format!("{name}  {}", self.clean_target(&server.target)));
            screen.write_line(&format!(
                "from: {from}; the folder is not trusted, so it does not start"
            ));
            return Ok(0);
        }
        let lines = self.describe_server(name)?;
        screen.write_line(&screen.styler.paint_text(Color::Bold, name));
        for (key, value) in lines {
            screen.write_entry(&format!("  {key:<14} "), 17, &self.clean(&value));
        }
        // The error of one that cannot be used says why.
        self.find_server(name)?;
        Ok(0)
    }

    /// Returns the settings of a server for people. Values of variables and headers are hidden.
    fn describe_server(&self, name: &str) -> Result<Vec<(&'static str, String)>, String> {
        let unusable = self.loaded.settings.unusable_mcp.get(name);
        let server = unusable.map_or_else(|| self.find_server(name), Ok)?;
        let listed = self.find_unusable(name);
        let source = listed.map_or(&server.source, |listed| &listed.source);
        let mut lines = vec![
            ("transport", describe_transport(server).to_owned()),
            ("from", self.source_of(source.as_deref())),
            ("enabled", server.enabled.to_string()),
        ];
        match (&server.command, &server.url) {
            (Some(command), _) => {
                lines.push(("command", command.clone()));
                lines.extend(server.args.iter().map(|arg| ("argument", arg.clone())));
                let env_file = server.env_file.iter();
                lines.extend(env_file.map(|file| ("env file", file.display().to_string())));
                lines.extend(server.cwd.iter().map(|cwd| ("cwd", cwd.display().to_string())));
                lines.push(("sandbox", server.sandbox_policy().to_string()));
            }
            (None, url) => lines.extend(url.iter().map(|url| ("url", self.clean_target(url)))),
        }
        let hide = |name: &String| format!("{name} (hidden)");
        lines.extend(server.env.keys().map(|name| ("env", hide(name))));
        lines.extend(server.headers.keys().map(|name| ("header", hide(name))));
        let token = server.bearer_token_env.iter();
        lines.extend(token.map(|name| ("bearer token", format!("from {name}"))));
        lines.extend(server.oauth_client_id.iter().map(|id| ("client id", id.clone())));
        if !server.oauth_scopes.0.is_empty() {
            lines.push(("scopes", server.oauth_scopes.0.join(", ")));
        }
        let port = server.oauth_callback_port.iter();
        lines.extend(port.map(|port| ("callback port", port.to_string())));
        let status = self.manager.list_servers(&self.folder, &self.registration);
        let status = status.iter().find(|status| status.name == name);
        if server.login_address().is_some() {
            let login = match status {
                Some(status) if status.login.has_tokens => "yes",
                Some(status) if status.state == McpServerState::NeedsLogin => "needs a new one",
                _ => "no",
            };
            lines.push(("login", login.to_owned()));
        }
        let tools = server.tools.iter();
        lines.extend(tools.map(|tools| ("tools", tools.0.join(", "))));
        if !server.deny_tools.0.is_empty() {
            lines.push(("deny tools", server.deny_tools.0.join(", ")));
        }
        lines.push((
            "start limit",
            format!("{} s", server.startup_timeout_s.0.as_secs_f64()),
        ));
        lines.push(("call limit", format!("{} s", server.timeout_s.0.as_secs_f64())));
        if server.required {
            lines.push(("required", "a turn fails without it".to_owned()));
        }
        if server.trust_annotations {
            lines.push(("annotations", "calls that only read need no approval".to_owned()));
        }
        if server.sampling {
            lines.push(("sampling", "it may ask your model".to_owned()));
        }
        Ok(lines)
    }

    fn add_server(&self, arguments: &McpAddArguments, screen: &mut Screen) -> CommandResult {
        let path = self.config_file()?;
        let table = edit::build_table(arguments)?;
        edit::change_file(path, |text| edit::add_server(text, &arguments.name, &table))?;
        let shown = self.shorten(path);
        screen.write_line(&format!("added {} to {shown}", arguments.name));
        let loaded = self.source.load_settings(Some(&self.folder), self.trust);
        let key = format!("mcp.{}", arguments.name);
        let problems = loaded.diagnostics.iter();
        let problems: Vec<_> = problems.filter(|problem| problem.key.starts_with(&key)).collect();
        self.show_problems(&problems, screen);
        Ok(0)
    }

    async fn remove_server(&self, name: &str, screen: &mut Screen) -> CommandResult {
        let path = self.config_file()?;
        let server = self.loaded.settings.mcp.get(name);
        let of_folder = server.filter(|server| server.is_from_folder);
        let of_folder = of_folder.map(|server| self.source_of(server.source.as_deref()));
        let removed = edit::change_file(path, |text| edit::remove_server(text, name));
        removed.map_err(|problem| match &of_folder {
            Some(from) => format!("{problem}; the server of this name is in {from}"),
            None => problem,
        })?;
        screen.write_line(&format!("removed {name} from {}", self.shorten(path)));
        if let Some(from) = of_folder {
            screen.write_line(&format!("the server of this name in {from} stays"));
            return Ok(0);
        }
        // A server without a login has nothing to remove.
        let logout = self.manager.log_out(&self.folder, &self.registration, name).await;
        if let Some(logout) = logout.ok().filter(|logout| logout.had_tokens) {
            screen.write_line("removed its tokens too");
            self.report_revocation(&logout, screen);
        }
        Ok(0)
    }

    fn report_revocation(&self, logout: &McpLogout, screen: &mut Screen) {
        if let Some(problem) = &logout.revocation_problem {
            let text = format!(
                "! the authorization server did not revoke them: {}",
                self.clean(problem)
            );
            screen.write_line(&screen.styler.paint_text(Color::Yellow, &text));
        }
    }

    async fn test_server(&self, name: &str, screen: &mut Screen) -> CommandResult {
        self.find_server(name)?;
        // What a program leaves behind ends with us.
        adopt_orphans();
        screen.set_status(&format!("starting {name} …"));
        let folder = self.manager.open_folder(&self.folder, &self.registration);
        self.manager.restart_server(&self.folder, name);
        if let Some(folder) = &folder {
            folder.wait_until_started().await;
        }
        let code = self.report_start(name, screen);
        if let Some(folder) = folder.filter(|_| code == 0) {
            self.report_more(name, &folder, screen).await;
        }
        self.manager.shut_down().await;
        sweep_orphans();
        Ok(code)
    }

    /// Prints how many prompts and resources a server has that has started.
    async fn report_more(&self, name: &str, folder: &McpFolder, screen: &mut Screen) {
        let Ok(server) = folder.connect_server(name, RESOURCES).await else {
            return;
        };
        let prompts = server.list_prompts().count();
        let listed = clock::timeout(RESOURCES, server.list_resources()).await;
        let resources = match listed {
            Ok(Ok(resources)) => resources.len().to_string(),
            Ok(Err(_)) => "no".to_owned(),
            Err(_) => "an unknown number of".to_owned(),
        };
        screen.write_entry(
            "                 ",
            17,
            &format!("{prompts} prompts, {resources} resources"),
        );
    }

    /// Prints whether a server has started. Returns the exit code.
    fn report_start(&self, name: &str, screen: &mut Screen) -> i32 {
        screen.set_status("");
        let servers = self.manager.list_servers(&self.folder, &self.registration);
        let Some(server) = servers.into_iter().find(|server| server.name == name) else {
            return 1;
        };
        let styler = screen.styler;
        let (text, code) = match &server.state {
            McpServerState::Ready { .. } => {
                let title = server.title.as_deref().unwrap_or("a server without a name");
                (self.clean(title), 0)
            }
            McpServerState::Disabled => ("`enabled = false` disables it".to_owned(), 1),
            McpServerState::NeedsLogin => (format!("it needs a login; run `agentls mcp login {name}`"), 1),
            McpServerState::Failed { reason } => (self.clean(reason), 1),
            _ => ("it did not start".to_owned(), 1),
        };
        let mark = match code {
            0 => styler.paint_text(Color::Green, "✓"),
            _ => styler.paint_text(Color::BoldRed, "✗"),
        };
        screen.write_entry(&format!("{mark} {name:<14} "), 17, &text);
        if code == 0 {
            let folder = self.manager.find_folder(&self.folder);
            let tools = folder.iter().flat_map(|folder| folder.list_tools());
            let tools = tools.filter(|tool| tool.settings.name == name);
            let names: Vec<String> = tools.map(|tool| self.clean(&tool.name)).collect();
            let separator = if names.is_empty() { "" } else { ": " };
            let tools = format!("{} tools{separator}{}", names.len(), names.join(", "));
            screen.write_entry("  offers         ", 17, &tools);
        } else {
            for line in &server.stderr {
                screen.write_entry("  stderr         ", 17, &self.clean(line));
            }
        }
        code
    }

    async fn log_in(&self, name: &str, screen: &mut Screen) -> CommandResult {
        self.find_server(name)?;
        let mut changes = self.manager.subscribe_changes();
        let address = self
            .manager
            .begin_login(&self.folder, &self.registration, name)
            .await
            .map_err(|error| self.clean(&error.to_string()))?;
        screen.write_line(
            "Open this address in your browser. It works once, and for ten minutes; Ctrl-C ends the login.",
        );
        screen.write_line(address.as_str());
        screen.set_status("waiting …");
        loop {
            let servers = self.manager.list_servers(&self.folder, &self.registration);
            let server = servers.into_iter().find(|server| server.name == name);
            let waits = server.is_some_and(|server| {
                let has_started = matches!(
                    server.state,
                    McpServerState::Ready { .. } | McpServerState::Failed { .. }
                );
                server.login.url.is_some() || server.login.problem.is_none() && !has_started
            });
            // An error means that the manager is gone, and nothing more will happen.
            if !waits || changes.changed().await.is_err() {
                break;
            }
        }
        screen.set_status("");
        let servers = self.manager.list_servers(&self.folder, &self.registration);
        let server = servers.into_iter().find(|server| server.name == name);
        if let Some(problem) = server.and_then(|server| server.login.problem) {
            return Err(self.clean(&problem).into());
        }
        screen.write_line("logged in");
        let code = self.report_start(name, screen);
        self.manager.shut_down().await;
        Ok(code)
    }

    fn find_server(&self, name: &str) -> Result<&McpServerSettings, String> {
        if let Some(server) = self.loaded.settings.mcp.get(name) {
            return Ok(server);
        }
        Err(match self.find_unusable(name).map(|server| &server.state) {
            None => {
                format!("no MCP server is called {name:?}; see `agentls mcp list` and `agentls config check`")
            }
            Some(McpServerState::Invalid { reason }) => {
                let problems = self.find_problems(Some(name)).into_iter();
                let mut problems: Vec<String> = problems.map(ToString::to_string).collect();
                if problems.is_empty() {
                    problems.push(reason.clone());
                }
                let problems = problems.iter();
                let problems: String = problems
                    .map(|problem| format!("\n  {}", self.clean(problem)))
                    .collect();
                format!("the MCP server {name} is not used because of its settings:{problems}")
            }
            Some(_) => format!(
                "{name} does not start, since the folder is not trusted; run `/trust` in a chat to review it"
            ),
        })
    }

    fn config_file(&self) -> Result<&Path, String> {
        let places = self.source.places.as_ref();
        let file = places.map(|places| places.config_file.as_path());
        file.ok_or_else(|| "no home folder: set HOME, or XDG_CONFIG_HOME".to_owned())
    }

    fn source_of(&self, source: Option<&str>) -> String {
        match source {
            Some(source) => self.shorten(Path::new(source)),
            None => "an editor's setting".to_owned(),
        }
    }

    fn shorten(&self, path: &Path) -> String {
        format_path(path, self.source.env.home_dir())
    }

    /// Returns a command or an address without what may be a secret.
    fn clean_target(&self, target: &str) -> String {
        self.clean(&hide_secrets(&self.redactor.redact_text(target)))
    }

    /// Returns a text in one line, without secrets and invisible characters.
    fn clean(&self, text: &str) -> String {
        one_line(
            &reveal_hidden_characters(&self.redactor.redact_text(text)),
            MAX_TEXT,
        )
    }
}

fn describe_transport(server: &McpServerSettings) -> &'static str {
    if server.command.is_some() { "stdio" } else { "http" }
}
