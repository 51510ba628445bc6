//! The settings of all folders as sessions use them: read when first needed, and again after a reload.
//!
//! It turns a folder's configuration into [`SessionSettings`], providers and tools. It must not parse files: that is
//! `config`'s. Secrets that it reads are registered with the [`Redactor`] before anyone can use them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt};

use super::command::SessionInfo;
use super::editor_credentials::EditorKeys;
use super::models::{LearntFacts, ModelLists, ModelVerdict, Models};
use super::services::{Rules, SessionSettings, SettingsSource, SubagentModel};
use crate::approval::Rule;
use crate::config::{
    self, ConfigSource, Diagnostic, Env, FolderDescription, KeyFileStamp, LoadedConfig, McpServerSettings,
    Redactor, SandboxSettings, Settings, Trust,
};
use crate::domain::{AgentError, Mode, SessionId};
use crate::mcp::{McpFolder, McpManager, McpRegistration};
use crate::provider::Accounts;
use crate::store::{ContentChoice, Store};
use crate::tool::command_tool::CommandTool;
use crate::tool::web_fetch::WebFetch;
use crate::tool::{DynTool, EditorLink};
use crate::turn::{
    AgentPolicy, Budgets, ContextPolicy, HookCommands, Hooks, ModelChoice, ModelSource, TurnLimits,
    TurnSettings,
};
use crate::workspace::prompts::Sources;
use crate::workspace::{self, Folder, Roots, SessionFolders, Workspace, WorkspaceShared};

/// The configuration of all folders, and what is built from it.
pub struct ConfigStore {
    pub(super) shared: Arc<WorkspaceShared>,
    pub(super) redactor: Redactor,
    accounts: Arc<Accounts>,
    learnt: Arc<LearntFacts>,
    keys: Arc<EditorKeys>,
    lists: Arc<ModelLists>,
    mcp: Arc<McpManager>,
    /// The folders that clients have given single sessions.
    session_folders: Mutex<HashMap<SessionId, SessionFolders>>,
    state: Mutex<ConfigStoreState>,
}

struct ConfigStoreState {
    source: ConfigSource,
    /// The folders that the user trusts, as the store and the editor say.
    trust: Trust,
    loaded: HashMap<PathBuf, Arc<FolderConfig>>,
    /// The stored keys that the loaded settings contain.
    logins: KeyFileStamp,
    /// Environment variables that no child process gets.
    stripped: BTreeSet<String>,
}

/// One folder's configuration.
pub struct FolderConfig {
    /// The settings and their problems.
    pub loaded: LoadedConfig,
    pub models: Arc<Models>,
    /// The user's own tools, and those that the settings set up.
    pub tools: Arc<[Arc<dyn DynTool>]>,
    sandbox: Arc<SandboxSettings>,
    hook_commands: Arc<HookCommands>,
    /// The MCP servers.
    pub mcp: McpRegistration,
    was_reported: AtomicBool,
}

impl FolderConfig {
    /// Returns the problems of the settings on the first call, and none after that.
    pub fn untold_problems(&self) -> &[Diagnostic] {
        if self.was_reported.swap(true, Ordering::Relaxed) {
            &[]
        } else {
            &self.loaded.diagnostics
        }
    }
}

impl ConfigStore {
    /// Creates a store that reads nothing until it is needed. Secrets, including keys from `editor`, are registered
    /// with `redactor`.
    pub fn new(
        source: ConfigSource,
        shared: Arc<WorkspaceShared>,
        redactor: Redactor,
        editor: Arc<dyn EditorLink>,
    ) -> Self {
        let data = source.places.as_ref().map(|places| places.data_dir.as_path());
        let mcp = McpManager::new(shared.clone(), data, redactor.clone());
        let state = ConfigStoreState {
            source,
            trust: Trust::default(),
            loaded: HashMap::new(),
            logins: None,
            stripped: BTreeSet::new(),
        };
        Self {
            keys: Arc::new(EditorKeys::new(editor, redactor.clone())),
            accounts: Arc::default(),
            learnt: Arc::default(),
            lists: Arc::default(),
            mcp,
            redactor,
            shared,
            session_folders: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// Keeps what providers say about windows in this store.
    pub fn with_store(self, store: Store) -> Self {
        Self {
            learnt: Arc::new(LearntFacts::with_store(store)),
            ..self
        }
    }

    /// Uses these MCP servers in place of its own.
    #[cfg(feature = "sim")]
    pub fn with_mcp(self, mcp: Arc<McpManager>) -> Self {
        Self { mcp, ..self }
    }

    /// Returns the health of all provider accounts, whatever folder names them.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns the owner of the MCP servers.
    pub fn mcp(&self) -> &Arc<McpManager> {
        &self.mcp
    }

    /// Sets the MCP servers that a client names for a session. Returns the names of configured ones that they replace.
    pub fn name_mcp_servers(
        &self,
        session: &SessionId,
        folder: &Path,
        servers: &[McpServerSettings],
    ) -> Vec<String> {
        let named = servers.iter().map(|server| (server.name.clone(), server.clone()));
        // Before they can reach a log or content (I15).
        let mut settings = Settings::default();
        settings.mcp = named.collect();
        self.redactor.learn_all(&settings);
        let config = self.folder_config(folder);
        let (registration, own) = (&config.mcp, &config.loaded.mcp_adjustments);
        let adjusted = servers.iter().map(|server| {
            own.get(&server.name)
                .map_or_else(|| server.clone(), |own| server.adjusted_by(own))
        });
        let adjusted: Vec<_> = adjusted.filter(|server| server.enabled).collect();
        self.mcp.name_servers(session, folder, &adjusted, registration);
        let configured = registration.servers.iter().filter(|server| server.enabled);
        configured
            .filter(|known| servers.iter().any(|server| server.name == known.name))
            .map(|known| known.name.clone())
            .collect()
    }

    /// Sets `initializationOptions`. Loaded settings are discarded.
    pub fn set_options(&self, options: Option<serde_json::Value>) {
        let mut state = self.lock();
        state.source.options = options;
        state.loaded.clear();
    }

    /// Sets the editor's later settings, which take precedence over its options.
    pub fn set_editor_settings(&self, settings: Option<serde_json::Value>) {
        let mut state = self.lock();
        state.source.editor = settings;
        state.loaded.clear();
    }

    /// Records whether a folder is trusted, for the files with this fingerprint or for all, and to which address it may
    /// send each provider's key.
    pub fn set_trust(
        &self,
        folder: &Path,
        trusted: bool,
        accepted: Option<String>,
        redirects: &BTreeMap<String, String>,
    ) {
        let mut state = self.lock();
        let folders = &mut state.trust.folders;
        let before = folders.remove(folder);
        if trusted {
            folders.insert(folder.to_path_buf(), accepted);
        }
        let mut changed = folders.get(folder) != before.as_ref();
        let of_folder = |(of, _, _): &(PathBuf, String, String)| of == folder;
        let known: BTreeSet<_> = state
            .trust
            .redirects
            .iter()
            .filter(|known| of_folder(known))
            .cloned()
            .collect();
        let accepted: BTreeSet<_> = redirects
            .iter()
            .map(|(provider, to)| (folder.to_path_buf(), provider.clone(), to.clone()))
            .collect();
        if known != accepted {
            state.trust.redirects.retain(|known| !of_folder(known));
            state.trust.redirects.extend(accepted);
            changed = true;
        }
        if changed && !trusted {
            // What the folder's own files started must not go on running.
            self.mcp.close_folder(folder);
        }
        if changed {
            // Only this folder's settings depend on its trust.
            state.loaded.remove(folder);
        }
    }

    /// Describes what the folder's own files would do if it were trusted. Nothing of it takes effect.
    pub fn describe_folder(&self, folder: &Path) -> FolderDescription {
        let (source, trust) = {
            let state = self.lock();
            (state.source.clone(), state.trust.clone())
        };
        source.describe_folder(folder, &trust)
    }

    /// Reads all configuration again, including keys from the editor. Returns the problems in the files of `folders`,
    /// each once.
    pub fn reload_config(&self, folders: &[PathBuf]) -> Vec<Diagnostic> {
        let mut state = self.lock();
        state.loaded.clear();
        // A variable that `pass_env` names now may reach child processes from here on.
        state.stripped.clear();
        // `folder_config` takes the lock itself.
        drop(state);
        self.learnt.note_reload();
        self.keys.forget_keys();
        let mut problems: Vec<Diagnostic> = Vec::new();
        for folder in folders {
            for problem in &self.folder_config(folder).loaded.diagnostics {
                if !problems.contains(problem) {
                    problems.push(problem.clone());
                }
            }
        }
        problems
    }

    /// Reads the keys again, and checks that the default provider of the user's own configuration can be called. The
    /// error says what is missing.
    pub fn check_default_provider(&self) -> BoxFuture<'static, Result<(), AgentError>> {
        self.reload_config(&[]);
        let (settings, env) = {
            let state = self.lock();
            let loaded = state.source.load_settings(None, &Trust::default());
            (loaded.settings, state.source.env.clone())
        };
        self.redactor.learn_all(&settings);
        let models = self.build_models(settings, env);
        let resolved = models.resolve_model(&ModelChoice::default());
        resolved.map(|resolved| resolved.map(drop)).boxed()
    }

    /// Removes the keys that `agentls login` has stored. Returns whether there were any. Blocks.
    ///
    /// # Errors
    /// Fails if the file of the keys cannot be changed.
    pub fn forget_logins(&self) -> std::io::Result<bool> {
        let file = self.lock().source.places.as_ref().map(|places| places.key_file());
        let Some(file) = file else { return Ok(false) };
        let keys = file.try_load()?;
        let mut names = keys.providers();
        names.try_fold(false, |any, name| Ok(file.remove(name)? || any))
    }

    fn build_models(&self, settings: Arc<Settings>, env: Env) -> Arc<Models> {
        Arc::new(Models::new(
            settings,
            env,
            self.accounts.clone(),
            self.learnt.clone(),
            self.keys.clone(),
            self.lists.clone(),
        ))
    }

    /// Reads all configuration again if a file of the folder has changed.
    pub fn refresh_config(&self, folder: &Path) {
        let state = self.lock();
        let is_changed = state.loaded.get(folder).is_some_and(|known| {
            let loaded = state.source.load_settings(Some(folder), &state.trust);
            loaded.files_hash != known.loaded.files_hash
        });
        drop(state);
        if is_changed {
            self.reload_config(&[]);
        }
    }

    /// Returns a folder's configuration, loading it if necessary.
    pub fn folder_config(&self, folder: &Path) -> Arc<FolderConfig> {
        let mut state = self.lock();
        // A login at a terminal counts from the next turn.
        let logins = state.source.login_stamp();
        if logins != state.logins {
            state.loaded.clear();
            state.logins = logins;
        }
        // The lock is held while the files are read, so that a folder is loaded only once.
        if let Some(known) = state.loaded.get(folder) {
            return known.clone();
        }
        let loaded = state.source.load_settings(Some(folder), &state.trust);
        // Before the settings can reach a provider or a log (I15).
        self.redactor.learn_all(&loaded.settings);
        // Sessions of several folders share the launcher, so a variable that any of them names is withheld from all
        // children.
        let secret = loaded.settings.secret_env_names(&state.source.env);
        state.stripped.extend(secret);
        self.shared.set_stripped_env(state.stripped.clone());
        self.shared.set_trusted(folder, loaded.trusted);
        self.shared.note_session_folder(folder);
        self.shared
            .set_read_deny(folder, loaded.settings.sandbox.read_deny.to_vec());
        for problem in &loaded.diagnostics {
            tracing::warn!(
                file = problem.file,
                line = problem.line,
                "configuration: {}",
                problem.message
            );
        }
        let models = self.build_models(loaded.settings.clone(), state.source.env.clone());
        let sandbox = Arc::new(state.source.sandbox_settings(&loaded.settings.sandbox));
        let own_sandbox = Arc::new(state.source.sandbox_settings(&loaded.own_sandbox));
        let config = Arc::new(FolderConfig {
            tools: build_tools(&loaded.settings),
            mcp: McpRegistration::new(&loaded, folder, sandbox.clone()),
            sandbox,
            hook_commands: Arc::new(HookCommands { own_sandbox }),
            loaded,
            models,
            was_reported: AtomicBool::new(false),
        });
        state.loaded.insert(folder.to_path_buf(), config.clone());
        config
    }

    /// Returns whether the configuration of any loaded folder has a tool of this name.
    pub fn names_tool(&self, name: &str) -> bool {
        let state = self.lock();
        let mut tools = state.loaded.values().flat_map(|folder| folder.tools.iter());
        tools.any(|tool| tool.name() == name)
    }

    /// Gives a session folders besides `cwd`, in place of those that it had. Without any, the workspace folders apply.
    /// Blocks briefly.
    pub fn set_session_folders(&self, session: &SessionId, cwd: &Path, others: &[PathBuf]) {
        let folders = std::iter::once(cwd).chain(others.iter().map(PathBuf::as_path));
        let folders: Vec<Folder> = folders
            .map(|path| Folder {
                name: String::new(),
                path: path.to_owned(),
            })
            .collect();
        for other in others {
            self.shared.note_session_folder(other);
        }
        let roots = (!others.is_empty()).then(|| Roots::new(&folders));
        self.lock_session_folders()
            .entry(session.clone())
            .or_default()
            .set(roots);
    }

    /// Returns the folders of a session whose client names no workspace folders.
    pub fn session_roots(&self, session: &SessionInfo) -> Arc<Roots> {
        let own = self
            .lock_session_folders()
            .get(&session.id)
            .and_then(SessionFolders::get);
        own.unwrap_or_else(|| Arc::new(Roots::of_cwd(&session.cwd)))
    }

    /// Forgets the folders of a session that its client has closed.
    pub fn forget_session_folders(&self, session: &SessionId) {
        self.lock_session_folders().remove(session);
    }

    fn lock_session_folders(&self) -> MutexGuard<'_, HashMap<SessionId, SessionFolders>> {
        self.session_folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the workspace folders as name and path.
    pub(super) fn workspace_roots(&self) -> Vec<(String, PathBuf)> {
        let folders = self.shared.workspace_folders();
        folders
            .iter()
            .map(|root| (root.name().to_owned(), root.path().to_path_buf()))
            .collect()
    }

    /// Returns the user's own configuration folder.
    pub(super) fn user_folder(&self) -> Option<PathBuf> {
        let state = self.lock();
        state
            .source
            .places
            .as_ref()
            .map(|places| places.config_dir.clone())
    }

    fn lock(&self) -> MutexGuard<'_, ConfigStoreState> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the tools that the settings set up, and the user's own.
fn build_tools(settings: &Settings) -> Arc<[Arc<dyn DynTool>]> {
    let web = WebFetch::new(
        settings.network.clone(),
        settings.tools.web_fetch.private_hosts.clone(),
    );
    let own = settings.tools.commands.iter().cloned();
    std::iter::once(Arc::new(web) as Arc<dyn DynTool>)
        .chain(own.map(|settings| Arc::new(CommandTool::new(settings)) as Arc<dyn DynTool>))
        .collect()
}

/// Returns the text; `None` if there is nothing in it.
fn non_blank(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty()).cloned()
}

impl SettingsSource for ConfigStore {
    fn session_settings(&self, session: &SessionInfo) -> SessionSettings {
        let folder = self.folder_config(&session.folder);
        let settings = folder.loaded.settings.clone();
        let agent = folder.models.agent_settings(session.agent.as_deref());
        let system = self.system_prompt_source(session, agent);
        let limits = TurnLimits {
            max_steps: agent.max_steps,
            max_escalations: match agent.output_escalation {
                config::OutputEscalation::Large => 1,
                config::OutputEscalation::Double => 3,
            },
            token_target: agent.token_target,
            max_tool_calls: agent.max_tool_calls,
            max_subagents: agent.max_subagents,
            degrade: agent.limit_reached == config::LimitPolicy::Degrade,
        };
        let of_providers = settings.providers.values();
        let budgets = Budgets {
            turn: agent.max_turn_cost,
            session: agent.max_session_cost,
            day: agent.max_day_cost,
            providers: Arc::new(
                of_providers
                    .filter_map(|provider| Some((provider.name.clone(), provider.max_day_cost?)))
                    .collect(),
            ),
        };
        let tools = settings.tools.clone();
        let mut unreadable = settings.approvals.unreadable.clone();
        // Only the limits of the agent that is gone may have made the session's mode safe.
        let choice = ModelChoice {
            agent: session.agent.clone(),
            ..ModelChoice::default()
        };
        unreadable.extend(folder.models.describe_gone(&choice));
        SessionSettings {
            turn: TurnSettings {
                models: Arc::new(folder.models.clone()),
                choice,
                prompt_source: system,
                limits,
                context: ContextPolicy {
                    auto_compact: agent.auto_compact,
                    compaction_model: agent.compaction_model.clone(),
                    threshold: agent.compaction_threshold,
                    limit: agent.compaction_limit,
                    reserve: agent.output_reserve,
                },
                tool_timeouts: Arc::new({
                    let tools = tools.clone();
                    move |tool| Some(tools.timeout_for(tool))
                }),
                tool_cooldowns: Arc::new(move |tool| tools.cooldown_for(tool)),
                sandbox: folder.sandbox.clone(),
                mode: Mode::default(),
                describes_environment: true,
                hooks: Hooks::new(
                    settings.hooks.values().cloned().collect(),
                    folder.hook_commands.clone(),
                ),
                policy: AgentPolicy {
                    planning: agent.planning,
                    planning_prompt: non_blank(agent.planning_prompt.as_ref()),
                    reflection: agent.reflection.interval(),
                    reflection_prompt: non_blank(agent.reflection_prompt.as_ref()),
                    tool_failure: agent.tool_failure,
                    tool_timeout: agent.tool_timeout,
                    subagent_failure: agent.subagent_failure,
                    new_errors_wait: agent.diagnostics_after_edit.wait(),
                },
            },
            own_tools: folder.tools.clone(),
            mcp: self.mcp_folder(session),
            tools: agent.tool_choice(),
            subagent_model: match (agent.names_model, agent.cheap_model) {
                (true, _) => SubagentModel::Own,
                (false, true) => SubagentModel::Cheapest,
                (false, false) => SubagentModel::Inherited,
            },
            names_max_steps: agent.names_max_steps,
            read_only: agent.mode == Mode::Plan,
            budgets,
            wall_time: agent.max_wall_time_s.map(|limit| limit.0),
            rules: Rules {
                require_approval: parse_rules(&settings.approvals.require_approval),
                allow: parse_rules(&settings.approvals.allow),
                deny: parse_rules(&settings.approvals.deny),
                sandboxed_needs_approval: settings
                    .approvals
                    .sandboxed
                    .map(|choice| choice == config::SandboxedCommands::Ask),
                unreadable,
            },
            approval_timeout: settings.approvals.timeout_s.map(|limit| limit.0),
            on_cancel: match settings.tools.bash.on_cancel {
                config::OnCancel::Interrupt => workspace::OnCancel::Interrupt,
                config::OnCancel::Finish => {
                    workspace::OnCancel::Finish(settings.tools.bash.finish_timeout_s.0)
                }
            },
        }
    }

    fn agent_names(&self, session: &SessionInfo) -> Vec<String> {
        let folder = self.folder_config(&session.folder);
        folder.loaded.settings.agents.keys().cloned().collect()
    }

    fn mcp_folder(&self, session: &SessionInfo) -> Option<Arc<McpFolder>> {
        let folder = self.folder_config(&session.folder);
        self.mcp.open_session(&session.id, &session.folder, &folder.mcp)
    }

    fn command_sources(&self, session: &SessionInfo) -> Option<Sources> {
        Some(self.prompt_sources(session))
    }

    fn default_mode(&self, folder: &Path, name: Option<&str>) -> Mode {
        self.folder_config(folder).models.agent_settings(name).mode
    }

    fn judge_model(&self, session: &SessionInfo, model: &str) -> ModelVerdict {
        let folder = self.folder_config(&session.folder);
        folder.models.judge_model(session.agent.as_deref(), model)
    }

    fn full_model_name(&self, session: &SessionInfo, model: &str) -> String {
        let folder = self.folder_config(&session.folder);
        folder.models.full_name(session.agent.as_deref(), model)
    }

    fn recall_choice(
        &self,
        folder: &Path,
        agent: Option<&str>,
        mut last: ContentChoice,
    ) -> (ContentChoice, Option<String>) {
        // Flags and variables are for the agent `default`, and win.
        if agent.is_none_or(|agent| agent == "default") {
            let stated = self.lock().source.stated_overrides();
            last.mode = last.mode.filter(|_| stated.mode.is_none());
            let has_model = stated.model.is_some() || stated.provider.is_some();
            last.model = last.model.filter(|_| !has_model);
        }
        let Some(model) = last.model.take() else {
            return (last, None);
        };
        let models = self.folder_config(folder).models.clone();
        let gone = models.is_still_there(&model).err().map(|reason| {
            let message = format!(
                "{model}, the model of your last session, is not used: {reason}; choose one with \
                 agent/setModel"
            );
            tracing::warn!("{message}");
            message
        });
        last.model = gone.is_none().then(|| models.full_name(agent, &model));
        (last, gone)
    }

    fn open_workspace(&self, session: &SessionInfo) -> Arc<Workspace> {
        let mut known = self.lock_session_folders();
        known.retain(|_, folders| folders.is_used());
        let folders = known.entry(session.id.clone()).or_default().clone();
        Arc::new(Workspace::with_folders(self.shared.clone(), folders))
    }
}

/// Parses rules. The configuration has already removed unreadable ones and lists them as unreadable.
fn parse_rules(written: &[String]) -> Vec<Rule> {
    written
        .iter()
        .filter_map(|rule| match Rule::parse(rule) {
            Ok(rule) => Some(rule),
            Err(error) => {
                tracing::warn!(rule, %error, "a rule of the configuration cannot be read");
                None
            }
        })
        .collect()
}
