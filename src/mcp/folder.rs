//! The MCP servers of one workspace folder, as its sessions use them, or of one session whose client names more.
//!
//! A session that holds this keeps the servers running. Which of their tools count is decided here, by the settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::timeout;
use futures::future::join_all;
use serde_json::{Map, Value};

use super::connection::{
    MAX_TOOLS, McpCall, McpCallResult, McpError, McpPrompt, McpPromptMessage, McpResource, McpTool, McpWait,
};
use super::content::McpContent;
use super::names::{name_for_models, name_for_rules};
use super::registration::UnusableServer;
use super::server::McpServer;
use super::server_state::{ListRead, NextStart, Phase, ReadyServer};
use crate::base::CancellationToken;
use crate::base::hash::sha256;
use crate::base::text::prefix_within;
use crate::base::web_address::hide_secrets;
use crate::config::McpServerSettings;
use crate::domain::{McpLoginStatus, McpServerState, McpServerStatus, SandboxPolicy, ToolDefinition};

/// The longest wait for a prompt or a resource, while which the user's message waits too.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The longest description in a definition, in bytes.
const MAX_DESCRIPTION: usize = 2_048;
/// The longest command line or address in a definition, in bytes.
const MAX_SERVER: usize = 1_024;
/// The most arguments in a definition, and the longest schema of one, in bytes.
const MAX_ARGUMENTS: usize = 64;
const MAX_SCHEMA: usize = 512;

/// The servers of a folder.
pub struct McpFolder {
    folder: PathBuf,
    servers: Vec<FolderServer>,
    /// Those that never start.
    unusable: Vec<UnusableServer>,
    /// Where some of them come from, which run as long as a session holds it.
    _shared: Option<Arc<Self>>,
    /// What a person must change, and was reported to a session.
    reported: Arc<ReportedFailures>,
}

/// The failures that were reported last, by server, and how often it had been ready before.
pub type ReportedFailures = Mutex<BTreeMap<String, (u64, String)>>;

/// A server with the settings of the folder.
#[derive(Clone)]
pub(super) struct FolderServer {
    pub(super) settings: Arc<McpServerSettings>,
    pub(super) server: Arc<McpServer>,
}

/// A tool of a server that is ready, or starts again.
#[derive(Clone)]
pub struct ServedTool {
    pub settings: Arc<McpServerSettings>,
    pub tool: Arc<McpTool>,
    /// Its name for models: `mcp__server__tool`, at most 64 characters.
    pub name: String,
    server: Arc<McpServer>,
}

/// A prompt of a server that is ready.
#[derive(Clone)]
pub struct ServedPrompt {
    /// The name of the server.
    pub server: String,
    pub prompt: Arc<McpPrompt>,
    /// The name of its slash command: `mcp__server__prompt`, at most 64 characters.
    pub name: String,
}

/// A server that is ready, for requests that are not calls of tools.
pub struct ServerLink {
    settings: Arc<McpServerSettings>,
    ready: Arc<ReadyServer>,
}

impl McpFolder {
    pub(super) fn new(folder: PathBuf, servers: Vec<FolderServer>, unusable: Vec<UnusableServer>) -> Self {
        Self {
            folder,
            servers,
            unusable,
            _shared: None,
            reported: Arc::default(),
        }
    }

    /// Returns the servers that a client names, and those of the folder that have other names.
    pub(super) fn with_named(folder: PathBuf, named: Vec<FolderServer>, shared: Option<Arc<Self>>) -> Self {
        let is_other = |name: &str| named.iter().all(|named| named.settings.name != name);
        let others = shared.iter().flat_map(|shared| shared.servers());
        let others: Vec<_> = others
            .filter(|server| is_other(&server.settings.name))
            .cloned()
            .collect();
        let unusable = shared.iter().flat_map(|shared| shared.unusable());
        let unusable = unusable
            .filter(|server| is_other(&server.name))
            .cloned()
            .collect();
        let servers = named.into_iter().chain(others).collect();
        Self {
            _shared: shared,
            ..Self::new(folder, servers, unusable)
        }
    }

    /// Returns those of the servers whose names are wanted.
    #[must_use]
    pub fn filter_servers(self: &Arc<Self>, is_wanted: impl Fn(&str) -> bool) -> Arc<Self> {
        if self.server_names().all(&is_wanted) {
            return self.clone();
        }
        let mut filtered = Self::new(self.folder.clone(), self.servers.clone(), self.unusable.clone());
        filtered.servers.retain(|server| is_wanted(&server.settings.name));
        filtered.unusable.retain(|server| is_wanted(&server.name));
        filtered._shared = Some(self.clone());
        filtered.reported = self.reported.clone();
        Arc::new(filtered)
    }

    /// Returns whether the other has the same connections with the same settings.
    pub(super) fn has_same_servers(&self, other: &Self) -> bool {
        let mut pairs = self.servers.iter().zip(&other.servers);
        self.unusable == other.unusable
            && self.servers.len() == other.servers.len()
            && pairs.all(|(one, two)| {
                Arc::ptr_eq(&one.server, &two.server) && one.settings.is_same(&two.settings)
            })
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    pub(super) fn servers(&self) -> &[FolderServer] {
        &self.servers
    }

    pub(super) fn unusable(&self) -> &[UnusableServer] {
        &self.unusable
    }

    pub(super) fn find_server(&self, name: &str) -> Option<&FolderServer> {
        self.servers.iter().find(|server| server.settings.name == name)
    }

    /// Starts the servers that do not run yet.
    pub fn need_servers(&self) {
        self.servers.iter().for_each(|server| server.server.need());
    }

    /// Returns the names of the servers that are starting.
    pub fn names_of_starting(&self) -> Vec<String> {
        let servers = self.servers.iter();
        let starting = servers.filter(|server| !server.server.phase().is_settled());
        starting.map(|server| server.settings.name.clone()).collect()
    }

    /// Returns the names of the servers whose programs the sandbox must confine.
    pub fn names_of_confined(&self) -> Vec<String> {
        let settings = self.servers.iter().map(|server| &server.settings);
        let confined = settings
            .filter(|settings| settings.command.is_some() && settings.sandbox_policy() != SandboxPolicy::Off);
        confined.map(|settings| settings.name.clone()).collect()
    }

    /// Waits until no server is starting any more. Each has its own time limit.
    pub async fn wait_until_started(&self) {
        let servers = self.servers.iter();
        join_all(servers.map(|server| server.server.wait_until_settled())).await;
    }

    /// Waits until all changes of lists that servers have announced up to now were read.
    pub async fn wait_until_lists_current(&self) {
        let servers = self.servers.iter();
        join_all(servers.map(|server| server.server.wait_until_lists_current())).await;
    }

    /// Returns the failures that are not in `of_turn` yet, as the name of the server and the reason. A missing login and
    /// too many tools are returned only once for all turns.
    pub fn take_new_failures(&self, of_turn: &ReportedFailures) -> Vec<(String, String)> {
        let mut new = Vec::new();
        for server in &self.servers {
            let name = &server.settings.name;
            let (mut reported, mut more) = (&*self.reported, String::new());
            let (times_ready, mut reason) = match server.server.phase() {
                Phase::Failed(error, _) if error.needs_login() => {
                    let reason = format!("{error}{}", server.describe_login());
                    (server.server.times_ready(), reason)
                }
                Phase::Failed(error, next) => {
                    reported = of_turn;
                    more = next.describe_rest();
                    if let Some(line) = server.server.stderr_lines().pop() {
                        more.push_str(&format!("; the last line of its log: {line}"));
                    }
                    (server.server.times_ready(), error.to_string())
                }
                Phase::Ready(ready) if ready.tools.len().max(ready.prompts.len()) > MAX_TOOLS => {
                    let has_more_tools = ready.tools.len() > MAX_TOOLS;
                    let what = if has_more_tools { "tools" } else { "prompts" };
                    let reason = format!("it lists more than {MAX_TOOLS} {what}; the others are not used");
                    (0, reason)
                }
                Phase::Ready(ref ready) if let ListRead::Failed { error, .. } = &ready.last_read => {
                    let reason =
                        format!("it did not list its tools again, so those from before stay in use: {error}");
                    (server.server.times_ready(), reason)
                }
                Phase::Ready(_) | Phase::Idle | Phase::Starting => continue,
            };
            let failure = (times_ready, reason.clone());
            let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.insert(name.clone(), failure.clone()).as_ref() != Some(&failure) {
                reason.push_str(&more);
                new.push((name.clone(), reason));
            }
        }
        new
    }

    /// Returns the first server that the settings require and that does not work, with the reason.
    pub fn find_missing_required(&self) -> Option<(String, String)> {
        let mut unusable = self.unusable.iter().filter(|server| server.required);
        if let Some(server) = unusable.next() {
            return Some((server.name.clone(), server.reason.clone()));
        }
        self.servers
            .iter()
            .filter(|server| server.settings.required)
            .find_map(|server| match server.server.phase() {
                Phase::Failed(error, _) => Some((server.settings.name.clone(), error.to_string())),
                _ => None,
            })
    }

    /// Returns the tools that the agent may use now, in a stable order. Of two with the same name, the first stays.
    pub fn list_tools(&self) -> Vec<ServedTool> {
        let mut tools: BTreeMap<String, ServedTool> = BTreeMap::new();
        for server in &self.servers {
            let Some(ready) = server.server.find_offer() else {
                continue;
            };
            for tool in usable_tools(&server.settings, &ready) {
                let name = name_for_models(&server.settings.name, &tool.name);
                tools.entry(name.clone()).or_insert_with(|| ServedTool {
                    settings: server.settings.clone(),
                    tool: tool.clone(),
                    name,
                    server: server.server.clone(),
                });
            }
        }
        tools.into_values().collect()
    }

    /// Returns how the servers that are ready want their tools to be used, by the server's name.
    pub fn list_instructions(&self) -> Vec<(String, String)> {
        let instructions = self.servers.iter().filter_map(|server| {
            let Phase::Ready(ready) = server.server.phase() else {
                return None;
            };
            let text = ready
                .peer()
                .instructions
                .clone()
                .filter(|text| !text.is_empty())?;
            Some((server.settings.name.clone(), text))
        });
        instructions.collect()
    }

    /// Returns the names of all servers, those that never start included.
    pub fn server_names(&self) -> impl Iterator<Item = &str> {
        let usable = self.servers.iter().map(|server| &server.settings.name);
        let unusable = self.unusable.iter().map(|server| &server.name);
        usable.chain(unusable).map(String::as_str)
    }

    /// Returns the prompts of the servers that are ready, by name.
    pub fn list_prompts(&self) -> Vec<ServedPrompt> {
        let mut prompts: BTreeMap<String, ServedPrompt> = BTreeMap::new();
        for server in &self.servers {
            let Phase::Ready(ready) = server.server.phase() else {
                continue;
            };
            for served in serve_prompts(&server.settings.name, &ready) {
                prompts.entry(served.name.clone()).or_insert(served);
            }
        }
        prompts.into_values().collect()
    }

    /// Starts a server if it does not run, and waits until it is ready, within `limit`.
    ///
    /// # Errors
    /// The reason why it cannot be used now, with its name.
    pub async fn connect_server(&self, name: &str, limit: Duration) -> Result<ServerLink, String> {
        let known = self.find_server(name).ok_or_else(|| {
            let mut unusable = self.unusable.iter();
            let known = unusable.find(|server| server.name == name);
            known.map_or_else(|| format!("unknown MCP server {name:?}"), UnusableServer::explain)
        })?;
        match known.server.phase() {
            // Whoever names it does not have to wait.
            Phase::Failed(_, NextStart::AfterRest(_)) => known.server.restart(),
            _ => known.server.need(),
        }
        // A server that is still starting after that is an error below.
        let _ = timeout(limit, async {
            known.server.wait_until_settled().await;
            known.server.wait_until_prompts_listed().await;
        })
        .await;
        match known.server.phase() {
            Phase::Ready(ready) => Ok(ServerLink {
                settings: known.settings.clone(),
                ready,
            }),
            phase => Err(known.describe_absence(&phase)),
        }
    }

    /// Returns why a tool is missing that models know by this name: its server does not run, or is starting.
    pub fn explain_missing_tool(&self, name: &str) -> Option<String> {
        let mut absences = self.servers.iter().filter_map(|server| {
            let is_of_server = name.starts_with(&name_for_models(&server.settings.name, ""));
            let phase = server.server.phase();
            (is_of_server && !matches!(phase, Phase::Ready(_))).then(|| server.describe_absence(&phase))
        });
        absences.next()
    }
}

impl FolderServer {
    /// Describes why a server in this phase is not ready.
    fn describe_absence(&self, phase: &Phase) -> String {
        let name = &self.settings.name;
        match phase {
            Phase::Failed(error, next) => {
                let more = if error.needs_login() {
                    self.describe_login()
                } else {
                    next.describe_rest()
                };
                format!("the MCP server {name} does not run: {error}{more}")
            }
            _ => format!("the MCP server {name} is still starting; try again in a moment"),
        }
    }

    /// Continues the reason of a failure with how to log in.
    fn describe_login(&self) -> String {
        let name = &self.settings.name;
        // A login counts for every server at its address, so also for one that the client names.
        match self.settings.source {
            Some(_) => format!("; see the list of MCP servers, or run `agentls mcp login {name}`"),
            None => format!("; run `agentls mcp add {name} --url URL`, then `agentls mcp login {name}`"),
        }
    }
}

impl ServedTool {
    /// Returns the name by which rules know the tool: `mcp:server/tool`.
    pub fn rule_name(&self) -> String {
        name_for_rules(&self.settings.name, &self.tool.name)
    }

    /// Returns what a permission for the tool is for.
    pub fn define(&self) -> ToolDefinition {
        let words = list_target_words(&self.settings);
        let redactor = self.server.redactor();
        let server = hide_secrets(&redactor.redact_text(&words.join(" ")));
        ToolDefinition {
            hash: sha256(format!("{words:?}{}", self.tool.fingerprint).as_bytes()),
            server: prefix_within(&server, MAX_SERVER).to_owned(),
            title: Some(self.tool.title.clone()),
            description: prefix_within(&self.tool.description, MAX_DESCRIPTION).to_owned(),
            arguments: describe_arguments(self.tool.schema.own()),
            annotations: self.tool.annotations.clone(),
        }
    }

    /// Calls the tool. If its server starts again after a crash, it waits for that within the limit of the call.
    ///
    /// # Errors
    /// The call failed; see [`McpError`].
    pub async fn call(&self, call: McpCall) -> Result<McpCallResult, McpError> {
        self.server.call_tool(call).await
    }
}

impl ServerLink {
    /// Returns the prompts of the server.
    pub fn list_prompts(&self) -> impl Iterator<Item = ServedPrompt> {
        serve_prompts(&self.settings.name, &self.ready)
    }

    /// Returns the messages of a prompt, within the time limit of the server's settings.
    ///
    /// # Errors
    /// The request failed or was canceled; see [`McpError`].
    pub async fn get_prompt(
        &self,
        prompt: &McpPrompt,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<Vec<McpPromptMessage>, McpError> {
        let connection = &self.ready.connection;
        connection
            .get_prompt(&prompt.name, arguments, self.limit_wait(cancel))
            .await
    }

    /// Reads a resource, within the time limit of the server's settings.
    ///
    /// # Errors
    /// The request failed or was canceled; see [`McpError`].
    pub async fn read_resource(
        &self,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<McpContent>, McpError> {
        let connection = &self.ready.connection;
        connection.read_resource(uri, self.limit_wait(cancel)).await
    }

    /// Lists the resources that the server names, within the time limit of the server's settings.
    ///
    /// # Errors
    /// The request failed; see [`McpError`].
    pub async fn list_resources(&self) -> Result<Vec<McpResource>, McpError> {
        if !self.ready.peer().has_resources {
            return Ok(Vec::new());
        }
        let limit = self.limit();
        let listed = timeout(limit, self.ready.connection.list_resources()).await;
        listed.unwrap_or(Err(McpError::TimedOut(limit)))
    }

    fn limit(&self) -> Duration {
        self.settings.timeout_s.0.min(MAX_WAIT)
    }

    fn limit_wait(&self, cancel: &CancellationToken) -> McpWait {
        McpWait {
            limit: self.limit(),
            cancel: cancel.clone(),
        }
    }
}

/// Returns the command and its arguments, or the address, and where it runs if the settings say so.
fn list_target_words(settings: &McpServerSettings) -> Vec<String> {
    let mut words: Vec<String> = match (&settings.command, &settings.url) {
        (Some(command), _) => std::iter::once(command).chain(&settings.args).cloned().collect(),
        (None, url) => url.iter().cloned().collect(),
    };
    words.extend(settings.cwd.as_ref().map(|cwd| format!("(in {})", cwd.display())));
    words.extend(settings.in_workspace.then(|| "(in the workspace)".to_owned()));
    words.extend(settings.sandbox.map(|policy| format!("(sandbox: {policy})")));
    words
}

/// Returns the JSON Schemas of the arguments, cut.
fn describe_arguments(schema: &Value) -> BTreeMap<String, String> {
    let arguments = schema.get("properties").and_then(Value::as_object);
    let arguments = arguments.into_iter().flatten().take(MAX_ARGUMENTS);
    arguments
        .map(|(name, schema)| {
            (
                name.clone(),
                prefix_within(&schema.to_string(), MAX_SCHEMA).to_owned(),
            )
        })
        .collect()
}

fn serve_prompts(server: &str, ready: &ReadyServer) -> impl Iterator<Item = ServedPrompt> {
    let prompts = ready.prompts.iter().take(MAX_TOOLS);
    prompts.map(move |prompt| ServedPrompt {
        server: server.to_owned(),
        prompt: prompt.clone(),
        name: name_for_models(server, &prompt.name),
    })
}

fn usable_tools<'a>(
    settings: &'a McpServerSettings,
    ready: &'a ReadyServer,
) -> impl Iterator<Item = &'a Arc<McpTool>> {
    let tools = ready.tools.iter().take(MAX_TOOLS);
    tools.filter(|tool| settings.has_tool(&tool.name))
}

/// Describes a server; one that nobody holds has no handle. Its target may contain secrets.
pub(super) fn describe_server(
    folder: &Path,
    settings: &McpServerSettings,
    server: Option<&McpServer>,
) -> McpServerStatus {
    let (mut tools, mut title, mut login) = (Vec::new(), None, McpLoginStatus::default());
    let state = match server.map(McpServer::phase) {
        _ if !settings.enabled => McpServerState::Disabled,
        None | Some(Phase::Idle) => McpServerState::Idle,
        Some(Phase::Starting) => McpServerState::Starting,
        Some(Phase::Ready(ready)) => {
            tools = usable_tools(settings, &ready)
                .map(|tool| tool.name.clone())
                .collect();
            title.clone_from(&ready.peer().title);
            McpServerState::Ready { tools: tools.len() }
        }
        Some(Phase::Failed(error, _)) if error.needs_login() => {
            login.problem = (error != McpError::NeedsLogin).then(|| error.to_string());
            McpServerState::NeedsLogin
        }
        Some(Phase::Failed(error, next)) => McpServerState::Failed {
            reason: format!("{error}{}", next.describe_rest()),
        },
    };
    let target = list_target_words(settings).join(" ");
    McpServerStatus {
        name: settings.name.clone(),
        folder: folder.to_path_buf(),
        state,
        target,
        source: settings.source.clone(),
        title,
        stderr: server.map(McpServer::stderr_lines).unwrap_or_default(),
        tools,
        login,
        required: settings.required,
    }
}
