//! The course of a turn: start and end, decisions of the loop, waits and retries, usage, and the plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ErrorData, EventHeader, MessageBlock, TokenUsage, TruncatedFields};

/// The outcome of a turn, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnState {
    /// It did what was requested.
    Completed,
    /// It failed.
    Failed,
    /// There is an answer, but it does less than requested.
    Degraded,
    /// A limit, the user's choice at a question, or the end of the server stopped it.
    Interrupted,
    /// The user canceled it.
    Cancelled,
}

/// The reason why the loop calls the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContinueReason {
    /// Tool calls ran, or a steer is waiting.
    NextTurn,
    /// The output was cut for the first time: the same request follows with a larger limit.
    MaxOutputTokensEscalate,
    /// The output was cut again: the partial text stays, and the model is asked to continue.
    MaxOutputTokensRecovery,
    /// The prompt was too long: stubs replaced old tool results, or the newest ones were shortened.
    CollapseDrainRetry,
    /// The prompt was still too long: the history was summarized.
    ReactiveCompactRetry,
    /// The API refused an image: it was shrunk or removed.
    ImageRetry,
    /// The answer was empty: the same request follows.
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
    /// Tool calls ran, and the model is asked to judge its progress.
    Reflection,
}

/// The reason why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalReason {
    /// There was nothing more to do.
    Completed,
    /// The prompt does not fit the window.
    PromptTooLong,
    /// The answer was cut at the output limit; the partial text is kept.
    MaxOutputTokens,
    /// The provider failed permanently.
    ModelError,
    /// The answer was empty.
    EmptyResponse,
    /// The API still refuses the image.
    ImageError,
    /// The model or a filter declined to answer.
    Refused,
    /// The user canceled while the model streamed, or before.
    AbortedStreaming,
    /// The user canceled while tools ran.
    AbortedTools,
    /// A stop hook ended the turn.
    StopHookPrevented,
    /// A hook ended the turn.
    HookStopped,
    /// A tool failed, and the policy ends the turn in that case.
    ToolFailed,
    /// A sub-agent failed, and the policy ends the turn in that case.
    SubagentFailed,
    /// Too few sub-agents succeeded.
    JoinViolated,
    /// The window is full, and automatic compaction is off.
    BlockingLimit,
    /// The limit of steps was reached.
    MaxTurns,
    /// A money limit was reached.
    BudgetExceeded,
    /// The limit of tool calls was reached.
    MaxToolCalls,
    /// The time limit was reached.
    WallTime,
    /// The user chose to stop at a question.
    StoppedByUser,
    /// No provider is configured.
    NotConfigured,
    /// The store is gone and keeps no more events.
    StoreFailed,
    /// The server ended or crashed.
    ServerStopped,
    /// The server has a bug.
    InternalError,
}

/// The effect of a step's outcome on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TransitionKind {
    /// The model is called again.
    Continue,
    /// The turn ends.
    Terminal,
}

/// The reason of a transition. The two lists share no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TransitionReason {
    /// The reason why it continues.
    Continue(ContinueReason),
    /// The reason why it ends.
    Terminal(TerminalReason),
}

/// The request that started a turn. Later versions may add values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnAsker {
    /// `agent/prompt`.
    Prompt,
    /// `agent/resumeTurn`.
    Resume,
    /// `agent/compact`.
    Compact,
    /// A prompt of `agent/queue` that was next.
    Queue,
}

/// Params of `agent/turnStarted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The request that started it; absent from servers that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<TurnAsker>,
    /// The turn that it continues, after `agent/resumeTurn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
}

/// Params of `agent/turnEnded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEndedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The reason why it ended.
    pub reason: TerminalReason,
    /// The outcome in one word.
    pub state: TurnState,
    /// Tokens of the turn.
    pub usage: TokenUsage,
    /// Cost of the turn in US dollars; absent if the model's price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorData>,
    /// Prompts and steers that no model has seen, to be returned to the user's input. They come from a turn that was
    /// cut, failed or compacted, or from a hook that held them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_steers: Vec<Vec<MessageBlock>>,
    /// Reference to the whole `unusedSteers`, if it had to be cut.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/transition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Whether the turn continues.
    pub kind: TransitionKind,
    /// The reason.
    pub reason: TransitionReason,
    /// More detail, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// Total number of retries for failures of this kind.
    pub max_retries: u32,
    /// Wait before the next attempt, in ms.
    pub delay_ms: u64,
    /// End of the wait, in ms since the Unix epoch.
    pub resume_at: i64,
    /// The error of the failed attempt.
    pub error: ErrorData,
    /// What happens if the next attempt also fails, for the user.
    pub next: String,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// The reason why the history was reduced for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CompactTrigger {
    /// The estimate passed the threshold.
    Threshold,
    /// The provider reported that the prompt is too long.
    Overflow,
    /// The provider refused an image.
    Picture,
    /// The user requested it.
    Manual,
}

/// Params of `agent/compacted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The reason.
    pub trigger: CompactTrigger,
    /// Estimated tokens of the whole request before.
    pub tokens_before: u64,
    /// Estimated tokens of the whole request after.
    pub tokens_after: u64,
    /// Number of messages before.
    pub messages_before: u32,
    /// Number of messages after.
    pub messages_after: u32,
    /// The text that replaces the removed messages for the model; absent if stubs only replaced large results or
    /// images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether the summary is a digest made by rules, because the model's call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digest: bool,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// Reference to the whole `summary`, if it had to be cut.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// What the turn waits for, for the user.
    pub why: String,
    /// End of the wait, in ms since the Unix epoch; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/modelSwitched`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSwitchedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The previous model, as `provider/model`.
    pub from: String,
    /// The model from now on, as `provider/model`.
    pub to: String,
    /// The reason, for the user.
    pub why: String,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/circuit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The kind of the guarded thing.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// Its state.
    pub state: CircuitState,
    /// When an open circuit lets a trial call through, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// The state of a circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitInfo {
    /// The kind of the guarded thing.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// Its state.
    pub state: CircuitState,
    /// When an open circuit lets a trial call through, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// Params of `agent/resetCircuit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResetCircuitParams {
    /// The kind of the guarded thing.
    pub subject: CircuitSubject,
    /// The name of the provider or the tool.
    pub name: String,
    /// For a tool: the session with the circuit; absent for that of every loaded session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/resetCircuit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResetCircuitResult {
    /// Whether it was open or on trial before.
    pub was_open: bool,
}

/// The kind of thing that a circuit breaker guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CircuitSubject {
    /// The account of a provider.
    Provider,
    /// A tool.
    Tool,
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes, because the provider or the tool failed too often in a row.
    Open,
    /// One call passes as a trial. Its outcome closes the circuit or opens it again.
    HalfOpen,
}

/// Params of `agent/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Tokens and cost of the step.
    pub step: UsageTotals,
    /// Tokens and cost of the turn so far.
    pub turn: UsageTotals,
    /// Tokens and cost of the session so far.
    pub session: UsageTotals,
    /// Tokens of the context in use.
    pub context_used: u64,
    /// The model's window, in tokens.
    pub context_window: u64,
    /// The provider that was called; absent in sessions from early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// Tokens and their cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotals {
    /// The tokens.
    #[serde(flatten)]
    pub tokens: TokenUsage,
    /// Their cost in US dollars; absent if the cost of any call is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Params of `agent/plan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The whole plan.
    pub items: Vec<PlanItem>,
    /// Reference to the whole `items`, if there were too many.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanItem {
    /// The task.
    pub text: String,
    /// Its progress.
    pub status: PlanStatus,
}

/// The progress of a line of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanStatus {
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
}
