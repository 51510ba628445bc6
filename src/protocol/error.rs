//! Errors: the `data` of a JSON-RPC error, and the `error` of a turn's end (R-WIRE-6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stable error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The limit of steps was reached.
    MaxIterations,
    /// The provider's API failed.
    ProviderError,
    /// A tool failed, and the policy ends the turn in that case.
    ToolExecution,
    /// The prompt does not fit the model's window.
    ContextLimit,
    /// A money limit was reached.
    BudgetExceeded,
    /// The user canceled.
    Cancelled,
    /// The provider's circuit breaker is open.
    CircuitOpen,
    /// The provider's quota or credit is used up.
    QuotaExhausted,
    /// The model's answer was empty.
    EmptyResponse,
    /// The limit of tool calls was reached.
    ToolCallsExceeded,
    /// The time limit was reached.
    WallTimeExceeded,
    /// The configuration is incomplete or wrong.
    Config,
    /// The session's state does not allow it.
    Session,
    /// The request violates the protocol.
    Protocol,
    /// The store could not be read or written.
    Store,
    /// The server has a bug.
    Internal,
}

/// The possible reaction to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The same request may succeed later.
    Retryable,
    /// It does not resolve by itself.
    Terminal,
    /// The turn continued.
    NonFatal,
}

/// The reason why a request was not accepted, as a stable value for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// `initialize` and `initialized` must come first.
    NotInitialized,
    /// The server is shutting down.
    ShuttingDown,
    /// A parameter is missing or wrong; `field` names it.
    BadParams,
    /// There is no such session.
    UnknownSession,
    /// The session is open in another server; `holder` names it.
    SessionLocked,
    /// The session was loaded with `readOnly`.
    SessionReadOnly,
    /// A turn is running; use `agent/steer` to talk to it.
    TurnRunning,
    /// No turn is running.
    NoTurn,
    /// The request expects another turn than the running one.
    StaleTurn,
    /// The last turn cannot be continued.
    NothingToResume,
    /// There is no such open approval: it is unknown or settled.
    UnknownApproval,
    /// There is no such open limit or question: it is unknown or settled.
    UnknownQuestion,
    /// There is no such grant.
    UnknownGrant,
    /// There is no such model.
    UnknownModel,
    /// There is no such agent in the configuration.
    UnknownAgent,
    /// No circuit has this name.
    UnknownCircuit,
    /// No content has this name.
    UnknownContent,
    /// The session has no such turn.
    UnknownTurn,
    /// The turn was not reverted.
    NothingToRedo,
    /// No turn of the session has ended.
    NothingToFork,
    /// No prompt with that id is waiting: it was sent or removed.
    UnknownPrompt,
    /// The queue is full.
    QueueFull,
}

/// An error with everything that a client needs to show it and to suggest a remedy. It is the `data` of a JSON-RPC
/// error and the `error` of a turn's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// The error as a stable code.
    pub code: ErrorCode,
    /// The error, for the user.
    pub message: String,
    /// The possible reaction.
    pub class: ErrorClass,
    /// The underlying cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The provider's name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// HTTP status of the provider's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The wait that the provider requests, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When a used-up quota resets, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<i64>,
    /// What the user can do; alternatives are on separate lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_action: Option<String>,
    /// The number of attempts made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The reason why the request was not accepted; only in the `data` of a JSON-RPC error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The wrong parameter, with `badParams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The holder of the session, with `sessionLocked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}
