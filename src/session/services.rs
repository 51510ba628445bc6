//! What all sessions of a server share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::command::SessionInfo;
use super::models::ModelVerdict;
use crate::approval::Rule;
use crate::base::backpressure::ByteBudget;
use crate::base::counters::Totals;
use crate::config::{Redactor, ToolChoice};
use crate::domain::Mode;
use crate::provider::CallSlots;
use crate::store::Store;
use crate::tool::ask_user::AskUser;
use crate::tool::diagnostics::Diagnostics;
use crate::tool::{DynTool, EditorLink, Registry, Tool};
use crate::turn::{
    AgentPolicy, Budgets, ContextPolicy, Hooks, Ledger, ModelSource, SystemPromptSource, ToolCooldowns,
    ToolTimeouts, TurnLimits,
};
use crate::workspace::prompts::Sources;
use crate::workspace::{OnCancel, Workspace};

/// What all sessions of a server share.
pub struct Services {
    /// Where events go, and come from.
    pub store: Store,
    /// What a session's settings say.
    pub profiles: Arc<dyn SettingsSource>,
    /// At most 256 model calls at once.
    pub slots: Arc<CallSlots>,
    /// The tools.
    pub tools: Arc<Registry>,
    /// The client's editor.
    pub editor: Arc<dyn EditorLink>,
    /// Knows the keys that tools' output must not carry on.
    pub redactor: Redactor,
    /// Counters.
    pub totals: Arc<Totals>,
    /// Bytes on their way to the client.
    pub pool: Arc<ByteBudget>,
    /// Who holds a session's lock, for the one who finds it taken.
    pub client_name: Arc<dyn Fn() -> String + Send + Sync>,
    /// What turns spend, and may (R-BUDGET).
    pub ledger: Arc<Ledger>,
    /// Whether the client takes questions (R-BUDGET): limits may be raised, the agent may ask.
    pub questions: Arc<dyn Fn() -> bool + Send + Sync>,
    /// A session without a turn is unloaded after this time (R-SESS-6).
    pub idle: Duration,
}

impl Services {
    /// The names of tools that rules may name.
    pub fn tool_names<'a>(&'a self, profile: &'a TurnSettings) -> Vec<&'a str> {
        let own = profile.own_tools.iter().map(|tool| tool.name());
        self.tools.tool_names().into_iter().chain(own).collect()
    }

    /// The tools that a session can have with this client and `own` of its configuration: where nobody answers, nobody
    /// is asked.
    pub fn client_tools(&self, own: &[Arc<dyn DynTool>]) -> Arc<Registry> {
        let tools = match own {
            [] => self.tools.clone(),
            own => Arc::new(self.tools.with_tools(own)),
        };
        let mut missing = Vec::new();
        if !(self.questions)() {
            missing.push(AskUser::NAME);
        }
        if !self.editor.abilities().diagnostics {
            missing.push(Diagnostics::NAME);
        }
        if missing.iter().any(|name| tools.get(name).is_some()) {
            Arc::new(tools.filter_by_name(|tool| !missing.contains(&tool)))
        } else {
            tools
        }
    }
}

/// What the settings say for one session, read at each turn's start.
pub struct TurnSettings {
    /// Finds the provider and the model.
    pub models: Arc<dyn ModelSource>,
    /// Gives the system prompt.
    pub system: SystemPromptSource,
    /// Tools of this configuration: the person's own, and those that it sets up.
    pub own_tools: Arc<[Arc<dyn DynTool>]>,
    /// Which of the tools it has.
    pub tools: ToolChoice,
    /// The agent names a model of its own: as a sub-agent it asks that, not the session's.
    pub names_model: bool,
    /// The agent only reads: as a sub-agent too, whatever the session's mode.
    pub read_only: bool,
    /// The turn's limits.
    pub limits: TurnLimits,
    /// What turn, session and day may cost.
    pub budgets: Budgets,
    /// How long a turn may run, less what it waits for people.
    pub wall_time: Option<Duration>,
    /// What is done about a full window.
    pub context: ContextPolicy,
    /// Rules of the configuration.
    pub rules: Rules,
    /// An approval is denied after this time; none waits for ever.
    pub approval_timeout: Option<Duration>,
    /// What a cancel does to a running command.
    pub on_cancel: OnCancel,
    /// Time limits of tools.
    pub tool_timeouts: ToolTimeouts,
    /// How long a tool that keeps failing is left alone.
    pub tool_cooldowns: ToolCooldowns,
    /// Commands of the person's that run at moments of the turn.
    pub hooks: Hooks,
    /// Planning, reflection, what failures do.
    pub conducts: AgentPolicy,
}

/// Rules of the configuration (R-APPR-1).
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Ask in any case.
    pub require_approval: Vec<Rule>,
    /// Do not ask.
    pub allow: Vec<Rule>,
    /// Never.
    pub deny: Vec<Rule>,
    /// Why rules that deny or ask may be missing, for people.
    pub unreadable: Vec<String>,
}

/// Where sessions find their settings and their files.
pub trait SettingsSource: Send + Sync {
    /// The settings for a session.
    fn turn_settings(&self, session: &SessionInfo) -> TurnSettings;

    /// The names of the agents that there are.
    fn agent_names(&self, session: &SessionInfo) -> Vec<String> {
        let _ = session;
        Vec::new()
    }

    /// Where the session's slash commands are looked for; nowhere when there is none.
    fn command_sources(&self, session: &SessionInfo) -> Option<Sources> {
        let _ = session;
        None
    }

    /// Whether a name can be a model of the session's; asks nobody.
    fn judge_model(&self, session: &SessionInfo, model: &str) -> ModelVerdict {
        let (_, _) = (session, model);
        ModelVerdict::Accept
    }

    /// A model's name with its provider, as it is remembered.
    fn full_model_name(&self, session: &SessionInfo, model: &str) -> String {
        let _ = session;
        model.to_owned()
    }

    /// A new session's mode.
    fn default_mode(&self, folder: &Path, agent: Option<&str>) -> Mode;

    /// The session's view of files and processes; asked for once while it is live.
    fn open_workspace(&self, session: &SessionInfo) -> Arc<Workspace>;
}
