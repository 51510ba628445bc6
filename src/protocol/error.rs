//! Errors: the `data` of a JSON-RPC error, and the `error` of a turn's end (R-WIRE-6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The limit of steps was reached.
    MaxIterations,
    /// The provider's API failed.
    ProviderError,
    /// A tool failed, and the policy ends the turn then.
    ToolExecution,
    /// The prompt does not fit the model's window.
    ContextLimit,
    /// A money limit was reached.
    BudgetExceeded,
    /// The person cancelled.
    Cancelled,
    /// The provider's circuit breaker is open.
    CircuitOpen,
    /// The provider's quota or credit is used up.
    QuotaExhausted,
    /// The model said nothing.
    EmptyResponse,
    /// The limit of tool calls was reached.
    ToolCallsExceeded,
    /// The time limit was reached.
    WallTimeExceeded,
    /// The configuration lacks something or is wrong.
    Config,
    /// The session's state does not allow it.
    Session,
    /// The request is not what the protocol asks for.
    Protocol,
    /// The store could not be read or written.
    Store,
    /// A bug of the server.
    Internal,
}

/// What can be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The same again may succeed.
    Retryable,
    /// It will not mend by itself.
    Terminal,
    /// The turn went on.
    NonFatal,
}

/// Why a request was not accepted, as a stable word that programs may test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// `initialize` and `initialized` come first.
    NotInitialized,
    /// The server is ending.
    ShuttingDown,
    /// A parameter is missing or wrong; `field` names it.
    BadParams,
    /// There is no such session.
    UnknownSession,
    /// The session is live in another server; `holder` says which.
    SessionLocked,
    /// The session was loaded with `readOnly`.
    SessionReadOnly,
    /// A turn is running; `agent/steer` talks to it.
    TurnRunning,
    /// No turn is running.
    NoTurn,
    /// Another turn is running than the request expects.
    StaleTurn,
    /// The last turn has nothing to go on with.
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
    /// There is no circuit of that name.
    UnknownCircuit,
    /// There is no content of that name.
    UnknownContent,
    /// The session has no such turn.
    UnknownTurn,
    /// The turn was not reverted.
    NothingToRedo,
    /// No turn of the session has ended yet.
    NothingToFork,
    /// No prompt of that id waits: it was sent or taken out.
    UnknownPrompt,
    /// As many prompts wait as may.
    QueueFull,
}

/// An error with all that a client needs to show it and to say what to do. It is the `data` of a JSON-RPC
/// error and the `error` of a turn's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// What went wrong, as a stable word.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub message: String,
    /// What can be done about it.
    pub class: ErrorClass,
    /// What lies behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The provider's name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The HTTP status that the provider answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider asks to wait, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When a used-up quota is filled again, in ms since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<i64>,
    /// What the person can do; several ways stand on separate lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_action: Option<String>,
    /// How many tries were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Why the request was not accepted; only in the `data` of a JSON-RPC error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The parameter that is wrong, with `badParams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Who holds the session, with `sessionLocked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}
