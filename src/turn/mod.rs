//! The agent loop of one turn: pure transitions, and the driver that does the I/O.
//!
//! A turn owns nothing global. It gets a [`TurnContext`], reports [`TurnMessage`]s through its [`SessionLink`], and
//! returns how it ended. The session's actor settles what that end *means*: partial text, open calls, the single
//! `turnEnded` (I3). So a panic or a cancel ends a turn as reliably as success does.
//!
//! This module must not know the store, the wire or the client. Start reading at [`run_turn`]; the rules are in
//! `transition`.

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
    ApprovalOutcome, ApprovalQuestion, HookedMessage, InquiryRequest, Judgement, LimitAnswer, PendingInput,
    QuestionOutcome, SessionLink, StepInput, TurnMessage, TurnRequest, TurnStopped,
};
pub use system_prompt::{SystemPrompt, SystemPromptSource, load_system_prompt};
pub use transition::{Limit, Outcome, TransitionFacts, TurnLimits, TurnProgress, next_transition};
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

/// Everything that one turn, or a sub-agent within one, needs.
#[derive(Clone)]
pub struct TurnContext {
    pub session: SessionId,
    pub turn: TurnId,
    /// Connects to the session's actor.
    pub link: SessionLink,
    /// Canceled to stop the turn.
    pub cancel: CancellationToken,
    /// Forceful cancel: skip graceful shutdown.
    pub force_cancel: CancellationToken,
    /// Resolves the provider and the model to call.
    pub models: Arc<dyn ModelSource>,
    /// The agent, model and effort that the session selects.
    pub choice: ModelChoice,
    /// The server-wide limit of concurrent provider calls (R-WIRE-2).
    pub slots: Arc<CallSlots>,
    pub tools: Arc<Registry>,
    pub workspace: Arc<Workspace>,
    /// Edits files that are open in the editor.
    pub editor: Arc<dyn EditorLink>,
    /// The directory that relative paths and commands start from.
    pub cwd: PathBuf,
    /// Stores output that is too long for the model.
    pub content_sink: Arc<dyn ContentSink>,
    /// Starts sub-agents.
    pub spawner: Arc<dyn Spawner>,
    /// Nesting depth of a sub-agent; 0 for the turn itself.
    pub depth: u32,
    /// Keeps the contents of files from before the turn changed them.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Knows the API keys that tool output must not reveal (I15).
    pub redactor: Redactor,
    /// Builds the system prompt.
    pub prompt_source: SystemPromptSource,
    /// The instruction files that were last announced to the session.
    pub announced_instructions: Option<Arc<[InstructionFile]>>,
    /// The system prompt; empty until [`load_system_prompt`] fills it.
    pub system: Arc<str>,
    /// The available skills; empty until [`load_system_prompt`] fills them.
    pub skills: Arc<Skills>,
    pub limits: TurnLimits,
    /// What the turn may spend. A turn shares this with its sub-agents (I10).
    pub budget: Arc<TurnBudget>,
    /// The configured time limit of a tool, by name.
    pub tool_timeouts: ToolTimeouts,
    /// How long the circuit of a failing tool stays open, by tool name.
    pub tool_cooldowns: ToolCooldowns,
    /// The user's commands that run at certain points of the turn.
    pub hooks: Hooks,
    /// Planning, reflection and failure policies.
    pub policy: AgentPolicy,
    /// This is the session's first turn.
    pub first: bool,
    /// The circuit breakers of the session's tools.
    pub circuits: Arc<Mutex<ToolCircuits>>,
    pub totals: Arc<Totals>,
    /// How the turn keeps its history within the window.
    pub context: ContextPolicy,
    /// How the session's providers count tokens, learned over its turns.
    pub counting: Arc<TokenCalibration>,
    pub task: TurnTask,
    /// Counts the model calls of the session.
    pub requests: Arc<Counter>,
    /// Calls that an earlier turn left open. This turn settles them first.
    pub carried: Vec<CarriedCall>,
    /// The model that answered last, as `provider/model`, if there was a switch since one was selected.
    pub answering: Option<String>,
    /// Providers whose circuits were announced to the session as not closed.
    pub open_circuits: Vec<String>,
    /// Requests to the user that an earlier turn left open. This turn asks them again first.
    pub inquiries: Vec<Arc<Inquiry>>,
}

/// The purpose of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnTask {
    /// Answer the prompt.
    Answer,
    /// Make the history smaller (`agent/compact`).
    Compact {
        /// What the summary must keep, in the user's words.
        instructions: Option<String>,
    },
}

/// Returns the configured time limit of the named tool, if there is one.
pub type ToolTimeouts = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// Returns the configured cool-down of the named tool's circuit.
pub type ToolCooldowns = Arc<dyn Fn(&str) -> Duration + Send + Sync>;

/// An open call of an interrupted turn. Its approval keeps its id.
#[derive(Clone, Debug)]
pub struct CarriedCall {
    pub call: crate::context::OpenCall,
    pub approval: Option<ApprovalId>,
}

/// The model that a session selects. Fields that are `None` are resolved by the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// A named agent of the configuration.
    pub agent: Option<String>,
    /// `provider/model`, `provider` or `model`.
    pub model: Option<String>,
    /// Reasoning effort.
    pub effort: Option<Effort>,
}

/// A provider and a model, ready to be called.
#[derive(Clone)]
pub struct ResolvedModel {
    pub provider: Arc<dyn Provider>,
    /// The model's name in the provider's API.
    pub model: String,
    /// Window, output limit and price.
    pub info: ModelInfo,
    pub retry: RetryPolicy,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// Why this model was chosen, if the user named none; shown once per session.
    pub why: Option<String>,
    pub fallbacks: Fallbacks,
}

/// The fallbacks of a model (R-PROV-4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    /// Another model of the same provider, used while the provider is overloaded.
    pub model: Option<String>,
    /// Other providers in order, each with its own model.
    pub providers: Vec<String>,
}

impl ResolvedModel {
    /// Returns `provider/model`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider.name(), self.model)
    }
}

/// Resolves the provider and the model to call.
pub trait ModelSource: Send + Sync {
    /// Resolves the selected model. May probe a local server.
    ///
    /// # Errors
    /// No provider is configured or reachable; the error says what to do.
    fn resolve_model(&self, choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>>;

    /// Resolves `provider` as a fallback for the rest of the turn, with `model` or the provider's own default.
    ///
    /// # Errors
    /// The provider is not configured. The default implementation always returns this error.
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

    /// Records the real window of a model, as the provider named it (R-CTX-3). The default implementation ignores it.
    fn learn_window(&self, model: &ResolvedModel, window: u64) {
        let _ = (model, window);
    }
}

/// How a turn ended that was not stopped from outside.
#[derive(Debug)]
pub struct TurnFinish {
    pub reason: TerminalReason,
    pub error: Option<AgentError>,
    /// The turn reached a limit under policy `degrade` and ended with a summary.
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

    /// Returns a model that never answers.
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
