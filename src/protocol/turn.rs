//! A turn's course: its start and end, what the loop decides, waits and retries, usage, the plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ErrorData, EventHeader, MessageBlock, MoreFields, TokenUsage};

/// How a turn has ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnState {
    /// As asked.
    Completed,
    /// It could not.
    Failed,
    /// There is an answer, but less than was asked for.
    Degraded,
    /// Stopped by a limit, by a person's choice at a question, or by the server's end.
    Interrupted,
    /// Stopped by the person.
    Cancelled,
}

/// Why the loop calls the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContinueReason {
    /// Tool calls were run, or a steer waits.
    NextTurn,
    /// The output was cut for the first time: the same request with a larger limit.
    MaxOutputTokensEscalate,
    /// The output was cut again: what came is kept, and the model is asked to go on.
    MaxOutputTokensRecovery,
    /// The prompt was too long: old tool results became stubs.
    CollapseDrainRetry,
    /// The prompt was still too long: the history was summarised.
    ReactiveCompactRetry,
    /// The API refused an image: it was shrunk or taken out.
    ImageRetry,
    /// Nothing came: asked again.
    EmptyResponseRetry,
    /// The provider paused a long turn.
    PauseTurn,
    /// The provider or the model was switched.
    ModelFallback,
    /// A stop hook objected.
    StopHookBlocking,
    /// The token target is not reached.
    TokenBudgetContinuation,
    /// The session's first prompt: the model is asked for a plan before it acts.
    Planning,
    /// Tool calls were run, and the model is asked to judge its progress.
    Reflection,
}

/// Why a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalReason {
    /// Nothing more to do.
    Completed,
    /// The prompt does not fit the window.
    PromptTooLong,
    /// The answer was cut at the output limit; what came is kept.
    MaxOutputTokens,
    /// The provider failed for good.
    ModelError,
    /// The model said nothing.
    EmptyResponse,
    /// The image is still refused.
    ImageError,
    /// The model or a filter declined.
    Refused,
    /// The person cancelled while the model streamed, or before.
    AbortedStreaming,
    /// The person cancelled while tools ran.
    AbortedTools,
    /// A stop hook ended the turn.
    StopHookPrevented,
    /// A hook ended the turn.
    HookStopped,
    /// A tool failed, and the policy ends the turn then.
    ToolFailed,
    /// A sub-agent failed, and the policy ends the turn then.
    SubagentFailed,
    /// Too few sub-agents succeeded.
    JoinViolated,
    /// The window is full, and nothing may be summarised.
    BlockingLimit,
    /// The limit of steps.
    MaxTurns,
    /// A money limit.
    BudgetExceeded,
    /// The limit of tool calls.
    MaxToolCalls,
    /// The time limit.
    WallTime,
    /// The person chose to stop at a question.
    StoppedByUser,
    /// There is no provider to ask.
    NotConfigured,
    /// The store is gone.
    StoreFailed,
    /// The server ended or crashed.
    ServerStopped,
    /// A bug of the server.
    InternalError,
}

/// What a step's outcome does to the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TransitionKind {
    /// The model is called again.
    Continue,
    /// The turn ends.
    Terminal,
}

/// The reason of a transition; the two lists have no word in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TransitionReason {
    /// Why it goes on.
    Continue(ContinueReason),
    /// Why it ends.
    Terminal(TerminalReason),
}

/// By what a turn was asked for. Later versions may know more words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnAsker {
    /// `agent/prompt`.
    Prompt,
    /// `agent/resumeTurn`.
    Resume,
    /// `agent/compact`.
    Compact,
    /// A prompt of `agent/queue`, whose turn had come.
    Queue,
}

/// Params of `agent/turnStarted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// By what it was asked for; absent from servers that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<TurnAsker>,
    /// The turn that it goes on with, after `agent/resumeTurn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
}

/// Params of `agent/turnEnded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEndedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Why it ended.
    pub reason: TerminalReason,
    /// How it ended, in one word.
    pub state: TurnState,
    /// The turn's tokens.
    pub usage: TokenUsage,
    /// What the turn cost, in US dollars; absent when the model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorData>,
    /// What was said and no model has seen, to be given back to the person: steers of a turn that was cut, failed or
    /// compacted, and prompts and steers that a hook held back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_steers: Vec<Vec<MessageBlock>>,
    /// Where the whole of `unusedSteers` is, when it had to be cut.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/transition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Whether the turn goes on.
    pub kind: TransitionKind,
    /// Why.
    pub reason: TransitionReason,
    /// More, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// How many retries there are in all, of failures like this one.
    pub max_retries: u32,
    /// The wait before the next attempt, in ms.
    pub delay_ms: u64,
    /// When the wait ends, in ms since the Unix epoch.
    pub resume_at: i64,
    /// What failed.
    pub error: ErrorData,
    /// What happens if the next attempt fails too, for people.
    pub next: String,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Why a history was made smaller for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CompactTrigger {
    /// The estimate passed the threshold.
    Threshold,
    /// The provider said that the prompt is too long.
    Overflow,
    /// The provider refused a picture.
    Picture,
    /// A person asked for it.
    Manual,
}

/// Params of `agent/compacted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Why.
    pub trigger: CompactTrigger,
    /// Estimated tokens of the whole request before.
    pub tokens_before: u64,
    /// The same after.
    pub tokens_after: u64,
    /// Messages before.
    pub messages_before: u32,
    /// Messages after.
    pub messages_after: u32,
    /// What the model is told of the messages that it is no longer sent; absent when only large results or
    /// pictures became stubs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// No model wrote the summary: its call failed, and a digest made by rules stands in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digest: bool,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// Where the whole of `summary` is, when it had to be cut.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// What is waited for, for people.
    pub why: String,
    /// Until when, in ms since the Unix epoch; absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/modelSwitched`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSwitchedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The model that was asked until now, as `provider/model`.
    pub from: String,
    /// The model that is asked from now on, as `provider/model`.
    pub to: String,
    /// Why, for people.
    pub why: String,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/circuit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// What the circuit guards.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// How it stands.
    pub state: CircuitState,
    /// When an open one lets a trial through, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// A circuit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitInfo {
    /// What it guards.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// How it stands.
    pub state: CircuitState,
    /// When an open one lets a trial through, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// Params of `agent/resetCircuit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResetCircuitParams {
    /// What the circuit guards.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// For a tool: the session whose circuit is meant; absent: that of every loaded session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/resetCircuit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResetCircuitResult {
    /// Whether it was not closed before.
    pub was_open: bool,
}

/// What a circuit guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CircuitSubject {
    /// The account of a provider.
    Provider,
    /// A tool.
    Tool,
}

/// How a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes; the provider or the tool failed too often in a row.
    Open,
    /// One call passes as a trial: its outcome closes the circuit or opens it again.
    HalfOpen,
}

/// Params of `agent/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The step's tokens and cost.
    pub step: Spent,
    /// The turn's so far.
    pub turn: Spent,
    /// The session's so far.
    pub session: Spent,
    /// Tokens of context used.
    pub context_used: u64,
    /// The model's window, in tokens.
    pub context_window: u64,
    /// The provider that was asked; absent in sessions of the first days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// Tokens, and what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// Tokens.
    #[serde(flatten)]
    pub tokens: TokenUsage,
    /// What they cost, in US dollars; absent when the cost of one of the calls is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Params of `agent/plan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The plan, whole.
    pub items: Vec<PlanItem>,
    /// Where the whole of `items` is, when there were too many.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a line of the plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}
