//! What all sessions of a server share, and the settings that each turn reads.
//!
//! It only holds handles; it must not contain logic of a session or know the wire. [`SettingsSource`] is how sessions
//! reach the configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::command::{CommandError, SessionInfo};
use super::models::ModelVerdict;
use crate::approval::Rule;
use crate::base::backpressure::ByteBudget;
use crate::base::counters::Totals;
use crate::config::{Redactor, StringList, ToolChoice};
use crate::domain::{Attendance, Mode};
use crate::mcp::McpFolder;
use crate::provider::CallSlots;
use crate::store::{ContentChoice, Store, StoreError, StoreHandle, StoreHealth};
use crate::tool::apply_patch::ApplyPatch;
use crate::tool::ask_user::AskUser;
use crate::tool::diagnostics::Diagnostics;
use crate::tool::edit_file::EditFile;
use crate::tool::find_references::FindReferences;
use crate::tool::find_symbol::FindSymbol;
use crate::tool::fix_code::FixCode;
use crate::tool::go_to_definition::GoToDefinition;
use crate::tool::present_plan::PresentPlan;
use crate::tool::rename_symbol::RenameSymbol;
use crate::tool::write_file::WriteFile;
use crate::tool::{DynTool, EditorLink, McpToolSource, Registry, Tool, ToolRecords, ToolSource, TurnTools};
use crate::turn::{Budgets, Ledger, TurnLimits, TurnSettings};
use crate::workspace::prompts::Sources;
use crate::workspace::{OnCancel, Workspace};

/// The steps of a turn if nobody can raise the limit and the configuration does not set it.
const UNATTENDED_STEPS: u32 = 200;

/// Handles that all sessions of a server share.
pub struct Services {
    /// Stores events and reads them back.
    pub store: Store,
    /// Provides each session's settings.
    pub profiles: Arc<dyn SettingsSource>,
    /// Limits model calls to 256 at once (R-WIRE-2).
    pub slots: Arc<CallSlots>,
    pub tools: Arc<Registry>,
    pub editor: Arc<dyn EditorLink>,
    /// Knows the API keys that tool output must not reveal (I15).
    pub redactor: Redactor,
    pub totals: Arc<Totals>,
    /// Bounds the bytes on their way to the client.
    pub pool: Arc<ByteBudget>,
    /// Names the client as the holder of a session's lock.
    pub client_name: Arc<dyn Fn() -> String + Send + Sync>,
    /// Knows what turns have spent and may spend (R-BUDGET).
    pub ledger: Arc<Ledger>,
    /// Who answers at the client.
    pub attendance: Arc<dyn Fn() -> Attendance + Send + Sync>,
    /// How long a session without a turn stays loaded (R-SESS-6); 30 min by default.
    pub idle: Duration,
}

impl Services {
    /// Returns whether the client takes questions (R-BUDGET): then limits can be raised, and the agent can ask.
    pub fn takes_questions(&self) -> bool {
        (self.attendance)() == Attendance::Questions
    }

    /// Returns the names of all tools that a rule may name.
    pub fn tool_names<'a>(&'a self, profile: &'a SessionSettings) -> Vec<&'a str> {
        let own = profile.own_tools.iter().map(|tool| tool.name());
        self.tools.tool_names().into_iter().chain(own).collect()
    }

    /// Returns the limits of a turn. Where nobody can be asked for more steps, there are more from the start.
    pub fn adjust_limits(&self, settings: &SessionSettings) -> TurnLimits {
        let mut limits = settings.turn.limits;
        if !settings.names_max_steps && !self.takes_questions() {
            limits.max_steps = UNATTENDED_STEPS;
        }
        limits
    }

    /// Returns the tools for this client, including the configuration's `own` tools. Tools that the client cannot
    /// support are left out.
    pub fn client_tools(&self, own: &[Arc<dyn DynTool>]) -> Arc<Registry> {
        let tools = match own {
            [] => self.tools.clone(),
            own => Arc::new(self.tools.with_tools(own)),
        };
        let mut missing = Vec::new();
        // R-BUDGET: the flag for questions about limits governs the tools that ask too.
        if !self.takes_questions() {
            missing.extend([AskUser::NAME, PresentPlan::NAME]);
        }
        let abilities = self.editor.abilities();
        if !abilities.diagnostics {
            missing.push(Diagnostics::NAME);
        }
        if !abilities.language {
            missing.extend([
                FindSymbol::NAME,
                FindReferences::NAME,
                GoToDefinition::NAME,
                RenameSymbol::NAME,
            ]);
        }
        if !abilities.code_fixes {
            missing.push(FixCode::NAME);
        }
        if missing.iter().any(|name| tools.get(name).is_some()) {
            Arc::new(tools.filter_by_name(|tool| !missing.contains(&tool)))
        } else {
            tools
        }
    }
}

/// The model that a named agent uses as a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubagentModel {
    /// The one that it names.
    Own,
    /// The one of the agent that delegates.
    Inherited,
    /// The cheapest current model of that one's provider.
    Cheapest,
}

/// The settings of one session, read at the start of each turn.
pub struct SessionSettings {
    /// What the turn itself needs to know.
    pub turn: TurnSettings,
    /// Tools of this configuration: the user's own, and those that it sets up.
    pub own_tools: Arc<[Arc<dyn DynTool>]>,
    /// The MCP servers of the session's folder, if it has any. They run as long as the session holds this.
    pub mcp: Option<Arc<McpFolder>>,
    /// Which of the tools the agent has.
    pub tools: ToolChoice,
    /// The model that the agent uses as a sub-agent.
    pub subagent_model: SubagentModel,
    /// The configuration sets `max_steps`, so the client's abilities do not change it.
    pub names_max_steps: bool,
    /// The agent only reads, as a sub-agent too and in any mode.
    pub read_only: bool,
    /// Spending limits.
    pub budgets: Budgets,
    /// How long a turn may run, not counting the time in which it waits for people.
    pub wall_time: Option<Duration>,
    pub rules: Rules,
    /// How long an approval waits before it is denied; forever if `None`.
    pub approval_timeout: Option<Duration>,
    /// What a cancel does to a running command.
    pub on_cancel: OnCancel,
}

impl SessionSettings {
    /// Returns the tools of a turn: `fixed` and those of MCP servers that the agent may use. `denied` are those that it
    /// must not have for another reason.
    pub(super) fn build_turn_tools(
        &self,
        fixed: &Registry,
        denied: &StringList,
        records: &ToolRecords,
    ) -> TurnTools {
        let choice = ToolChoice {
            only: self.tools.only.clone(),
            never: StringList(self.tools.never.iter().chain(denied.iter()).cloned().collect()),
        };
        // Such a hook reads the arguments of these tools, so a patch would get past it.
        let hooks = &self.turn.hooks;
        let has_patches = !hooks.tell_apart(&[EditFile::NAME, WriteFile::NAME], ApplyPatch::NAME);
        let fixed =
            fixed.filter_by_name(|tool| choice.is_allowed(tool) && (has_patches || tool != ApplyPatch::NAME));
        // No server starts for an agent that has none of its tools.
        let folder = self.mcp.as_ref();
        let folder = folder.map(|folder| folder.filter_servers(|server| choice.may_have_tools_of(server)));
        let source =
            folder.map(|folder| Arc::new(McpToolSource::new(folder, records.clone())) as Arc<dyn ToolSource>);
        // An agent's list may name a tool as rules do.
        let filter = move |tool: &dyn DynTool| choice.is_allowed_by_either(tool.name(), tool.rule_name());
        TurnTools::new(Arc::new(fixed), source, Arc::new(filter))
    }
}

/// The configured approval rules (R-APPR-1). Deny wins.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Always ask.
    pub require_approval: Vec<Rule>,
    /// Do not ask.
    pub allow: Vec<Rule>,
    /// Never allow.
    pub deny: Vec<Rule>,
    /// Whether commands in the sandbox need approval; by the mode if `None`.
    pub sandboxed_needs_approval: Option<bool>,
    /// Why rules that deny or ask could not be read, for people. Then everything but plain reading asks.
    pub unreadable: Vec<String>,
}

/// Provides sessions with their settings and files.
pub trait SettingsSource: Send + Sync {
    /// Returns the current settings of a session.
    fn session_settings(&self, session: &SessionInfo) -> SessionSettings;

    /// Returns the names of the configured agents. None by default.
    fn agent_names(&self, session: &SessionInfo) -> Vec<String> {
        let _ = session;
        Vec::new()
    }

    /// Returns where to look for the session's slash commands. `None`, the default, disables them.
    fn command_sources(&self, session: &SessionInfo) -> Option<Sources> {
        let _ = session;
        None
    }

    /// Returns the MCP servers of the session's folder, if it has any. Starts none.
    fn mcp_folder(&self, session: &SessionInfo) -> Option<Arc<McpFolder>> {
        let _ = session;
        None
    }

    /// Judges whether a name can be a model of the session, without contacting a provider. Accepts every name by
    /// default.
    fn judge_model(&self, session: &SessionInfo, model: &str) -> ModelVerdict {
        let (_, _) = (session, model);
        ModelVerdict::Accept
    }

    /// Returns a model's name with its provider, as it is remembered. By default the name itself.
    fn full_model_name(&self, session: &SessionInfo, model: &str) -> String {
        let _ = session;
        model.to_owned()
    }

    /// Returns what counts of the last choice for an agent, and a text for the user if its model cannot be called any
    /// more. By default all counts.
    fn recall_choice(
        &self,
        folder: &Path,
        agent: Option<&str>,
        last: ContentChoice,
    ) -> (ContentChoice, Option<String>) {
        let (_, _) = (folder, agent);
        (last, None)
    }

    /// Returns the mode of a new session.
    fn default_mode(&self, folder: &Path, agent: Option<&str>) -> Mode;

    /// Opens the session's view of files and processes. Called once while the session is live.
    fn open_workspace(&self, session: &SessionInfo) -> Arc<Workspace>;
}

/// Waits until everything that was sent is on the disk.
///
/// # Errors
/// The disk fails, or the store has ended.
pub(super) async fn wait_until_stored(writes: &StoreHandle) -> Result<(), CommandError> {
    all_stored(writes.flush_writes().await?)
}

/// Rejects an operation that needs the data on the disk while the store is not healthy.
pub(super) fn all_stored(health: StoreHealth) -> Result<(), CommandError> {
    match health {
        StoreHealth::Ok => Ok(()),
        StoreHealth::Degraded { .. } => Err(StoreError::NotWritable.into()),
        StoreHealth::Gone(loss) => Err(StoreError::from(loss).into()),
    }
}
