//! The agent loop of one turn: pure transitions, and the driver that does the I/O.
//!
//! A turn owns nothing global. It gets a [`TurnContext`], reports by [`TurnMessage`]s through its [`SessionLink`],
//! and returns how it ended; what the end *means* for the session (partial text, open calls, the single
//! `turnEnded`) is the session actor's to settle, so that a panic or a cancel ends a turn as surely as
//! success. Knows no store, no wire, no client.

mod accumulate;
mod admission;
mod attempt;
mod budget;
mod calls;
mod circuit;
mod compact;
mod failure_policy;
mod hook_command;
mod hook_output;
mod hooks;
mod ledger;
mod limits;
mod loop_guard;
mod loop_state;
mod policy;
mod prompt_hooks;
mod redact;
mod reopen_inquiries;
mod route;
mod run;
mod session_link;
mod step;
mod system_prompt;
mod tool_guard;
mod tool_step;
mod transition;
mod wrap_up;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;

pub use accumulate::MAX_MESSAGE_BYTES;
pub use budget::{Budgets, SpendSheet, TurnSpend};
pub use circuit::ToolCircuits;
pub use compact::{COMPACTION_FAILED, ContextPolicy};
pub use hook_command::HookCommands;
pub use hooks::{HookExit, HookRunner, Hooks};
pub use ledger::{DailySpendSource, Ledger, TurnBudget, day_of};
pub use limits::UNKNOWN_PRICE;
pub use loop_state::TokenCalibration;
pub use policy::AgentPolicy;
pub use run::{MODEL_CHOSEN, run_turn};
pub use session_link::{
    ApprovalOutcome, ApprovalQuestion, HookedMessage, Inquire, Judgement, LimitOutcome, PendingInput,
    QuestionOutcome, SessionLink, StepInput, Stopped, TurnMessage, TurnRequest,
};
pub use system_prompt::{SystemPrompt, SystemPromptSource, load_system_prompt};
pub use transition::{Facts, Limit, Outcome, TurnLimits, TurnProgress, next_transition};
pub use wrap_up::wrap_up;

use crate::base::CancellationToken;
use crate::base::counters::{Counter, Totals};
use crate::config::Redactor;
use crate::domain::{
    AgentError, ApprovalId, ErrorCode, Inquiry, InstructionFile, SessionId, TerminalReason, TurnId,
};
use crate::provider::{CallSlots, Effort, ModelInfo, Provider, RetryPolicy};
use crate::tool::{Checkpoints, ContentSink, EditorLink, Registry, Spawner};
use crate::workspace::Workspace;
use crate::workspace::prompts::Skills;

/// All that one turn needs, or a sub-agent within one.
#[derive(Clone)]
pub struct TurnContext {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The way to the session's actor.
    pub port: SessionLink,
    /// Cancelled when the turn shall stop.
    pub cancel: CancellationToken,
    /// Cancelled when it shall stop without patience.
    pub hurry: CancellationToken,
    /// Finds the provider and the model to ask.
    pub models: Arc<dyn ModelSource>,
    /// What the session asks for.
    pub choice: ModelChoice,
    /// The server's limit of calls at once (R-WIRE-2).
    pub slots: Arc<CallSlots>,
    /// The tools.
    pub tools: Arc<Registry>,
    /// Files and processes.
    pub workspace: Arc<Workspace>,
    /// The editor, where files are changed that are open there.
    pub editor: Arc<dyn EditorLink>,
    /// Where relative paths and commands start.
    pub cwd: PathBuf,
    /// Where long output is kept.
    pub keep: Arc<dyn ContentSink>,
    /// Runs sub-agents.
    pub spawner: Arc<dyn Spawner>,
    /// How deep a sub-agent this is; 0 for the turn itself.
    pub depth: u32,
    /// Keeps what files were.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Knows the keys that tools' output must not carry on.
    pub redactor: Redactor,
    /// Gives the system prompt.
    pub briefing: SystemPromptSource,
    /// What files of instructions the session was told of last.
    pub briefed: Option<Arc<[InstructionFile]>>,
    /// The system prompt; empty until [`load_system_prompt`] has asked for it.
    pub system: Arc<str>,
    /// The skills; as the system prompt.
    pub skills: Arc<Skills>,
    /// The turn's limits.
    pub limits: TurnLimits,
    /// What it may spend; a turn and its sub-agents share one.
    pub budget: Arc<TurnBudget>,
    /// Time limit of a tool by name, where the configuration sets one.
    pub tool_timeouts: ToolTimeouts,
    /// How long a tool that keeps failing is left alone.
    pub tool_cooldowns: ToolCooldowns,
    /// Commands of the person's that run at moments of the turn.
    pub hooks: Hooks,
    /// Planning, reflection, what failures do.
    pub conducts: AgentPolicy,
    /// The session's first turn: nothing was said before its prompt.
    pub first: bool,
    /// The circuits of the session's tools.
    pub circuits: Arc<Mutex<ToolCircuits>>,
    /// Counters.
    pub totals: Arc<Totals>,
    /// What is done about a full window.
    pub context: ContextPolicy,
    /// What the session's providers count.
    pub counting: Arc<TokenCalibration>,
    /// What the turn is for.
    pub task: TurnTask,
    /// Calls that the session made to models.
    pub requests: Arc<Counter>,
    /// Calls that an earlier turn left open, to be settled first.
    pub carried: Vec<CarriedCall>,
    /// The model that answered last, as `provider/model`, if there was a switch since one was chosen.
    pub answering: Option<String>,
    /// Providers whose circuits the session was told of and that were not closed then.
    pub met: Vec<String>,
    /// What an earlier turn left open that a person is to be asked again first.
    pub inquiries: Vec<Arc<Inquiry>>,
}

/// What a turn is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnTask {
    /// To answer what was said.
    Answer,
    /// To make the history smaller (`agent/compact`).
    Compact {
        /// What the person wants to be kept.
        instructions: Option<String>,
    },
}

/// The configured time limit of a tool by its name.
pub type ToolTimeouts = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// The configured cool-down of a tool's circuit by its name.
pub type ToolCooldowns = Arc<dyn Fn(&str) -> Duration + Send + Sync>;

/// An open call of an interrupted turn, whose approval keeps its id.
#[derive(Clone, Debug)]
pub struct CarriedCall {
    /// The call.
    pub call: crate::context::OpenCall,
    /// Its open approval.
    pub approval: Option<ApprovalId>,
}

/// What a session asks for; what is not set is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// The named agent of the configuration.
    pub agent: Option<String>,
    /// `provider/model`, `provider` or `model`.
    pub model: Option<String>,
    /// How hard the model shall think.
    pub effort: Option<Effort>,
}

/// A provider and a model, ready to be asked.
#[derive(Clone)]
pub struct ResolvedModel {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model's name as the API knows it.
    pub model: String,
    /// Window, output limit, price.
    pub info: ModelInfo,
    /// How failed calls are made again.
    pub retry: RetryPolicy,
    /// How hard the model shall think.
    pub effort: Option<Effort>,
    /// Why it was chosen, when nobody named it; shown once in a session.
    pub why: Option<String>,
    /// Who takes over when it cannot be asked.
    pub fallbacks: Fallbacks,
}

/// Who takes over from a model (R-PROV-4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    /// Another model of the same provider, while the provider is overloaded.
    pub model: Option<String>,
    /// Other providers, in order, with their own models.
    pub providers: Vec<String>,
}

impl ResolvedModel {
    /// `provider/model`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider.name(), self.model)
    }
}

/// Finds the provider and the model to ask.
pub trait ModelSource: Send + Sync {
    /// May ask a local server whether it is there. The error says what to do.
    fn resolve_model(&self, choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>>;

    /// Another `provider` takes over for the rest of the turn, with its own model, or with `model`.
    fn take_over(
        &self,
        choice: &ModelChoice,
        provider: &str,
        model: Option<&str>,
    ) -> Result<ResolvedModel, AgentError> {
        let (_, _) = (choice, model);
        Err(AgentError::new(
            ErrorCode::Config,
            format!("the provider {provider:?} is not configured"),
        ))
    }

    /// The provider named the real window of a model (R-CTX-3).
    fn learn_window(&self, model: &ResolvedModel, window: u64) {
        let _ = (model, window);
    }
}

/// How a turn that was not stopped ended.
#[derive(Debug)]
pub struct TurnFinish {
    /// Why.
    pub reason: TerminalReason,
    /// What went wrong.
    pub error: Option<AgentError>,
    /// It was at a limit with policy `degrade`, and has summed up.
    pub summed_up: bool,
    /// A tool or a sub-agent failed under policy `degrade`.
    pub degraded: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{EventStream, ModelRequest, ProviderError};

    struct SilentProvider;

    impl Provider for SilentProvider {
        fn name(&self) -> &str {
            "silent"
        }

        fn open_stream(
            &self,
            _request: Arc<ModelRequest>,
        ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
            Box::pin(std::future::pending())
        }
    }

    /// A model that never answers.
    pub(super) fn model(window: u64, max_output: u32) -> ResolvedModel {
        ResolvedModel {
            provider: Arc::new(SilentProvider),
            model: "m".to_owned(),
            info: ModelInfo {
                window,
                max_output,
                knows_max_output: true,
                ..crate::provider::models::lookup_model("m")
            },
            retry: RetryPolicy::default(),
            effort: None,
            why: None,
            fallbacks: Fallbacks::default(),
        }
    }
}
