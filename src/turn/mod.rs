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
mod calibration;
mod call_budget;
mod call_order;
mod calls;
mod circuit;
mod command_failures;
mod compact;
mod context;
mod created_files;
mod current_model;
mod emit;
mod environment;
mod environment_state;
mod failure_policy;
mod hook_command;
mod hook_output;
mod hook_runs;
mod hooks;
mod ledger;
mod left_in_text;
mod limits;
mod live_output;
mod loop_guard;
mod loop_state;
mod model_call;
mod model_choice;
mod outcome;
mod permission;
mod policy;
mod prompt_hooks;
mod redact;
mod refused_parts;
mod reopen_inquiries;
mod route;
mod routing;
mod run;
mod sampling;
mod search_findings;
mod session_link;
mod settings;
mod step;
mod system_prompt;
mod tool_execution;
mod tool_guard;
mod tool_limit;
mod tool_refresh;
mod tool_run;
mod tool_step;
mod transition;
mod unconfined;
mod usage_meter;
mod web_search;
mod wrap_up;

pub use accumulate::MAX_MESSAGE_BYTES;
pub use budget::{Budgets, SpendSheet, TurnSpend};
pub use calibration::TokenCalibration;
pub use call_budget::UNKNOWN_PRICE;
pub use circuit::ToolCircuits;
pub use command_failures::CommandFailures;
pub use compact::COMPACTION_FAILED;
pub use context::{CarriedCall, Resumption, SessionStatistics, TurnContext, TurnServices, TurnTask};
pub use created_files::NEW_STEERING_FILES;
pub use hook_command::HookCommands;
pub use hooks::{HookContext, HookExit, HookRunner, Hooks};
pub use ledger::{DailySpendSource, Ledger, TurnBudget, day_of};
pub use model_choice::{Fallbacks, ModelChoice, ModelSource, ResolvedModel};
pub use outcome::TurnFinish;
pub use run::{MODEL_CHOSEN, run_turn};
pub use session_link::{
    HookedMessage, InquiryRequest, Judgement, LimitAnswer, PendingInput, QuestionOutcome, SessionLink,
    StepInput, TurnMessage, TurnRequest, TurnStopped,
};
pub use settings::{
    AgentPolicy, ContextPolicy, SystemPrompt, SystemPromptReader, SystemPromptSource, ToolCooldowns,
    ToolTimeouts, TurnSettings,
};
pub use system_prompt::load_system_prompt;
pub use transition::{Limit, Outcome, TransitionFacts, TurnLimits, TurnProgress, next_transition};
pub use wrap_up::wrap_up;
