//! The one table from refusals to JSON-RPC codes and `data` (R-WIRE-6).
//!
//! A JSON-RPC error means that a request was not accepted. Later failures are reported by `agent/turnEnded`. The one
//! exception is -32800 of a request that started a turn: its `data` is the result of the canceled turn.

use tower_lsp::jsonrpc;

use super::to_wire::error_data;
use crate::domain::{AgentError, ApprovalId, ErrorClass, ErrorCode, InquiryId, SessionId, TurnId};
use crate::protocol::{ErrorData, PromptResult, Refusal};

/// LSP's code `ServerNotInitialized`.
pub(super) const NOT_INITIALIZED: i64 = -32002;

/// LSP's code `RequestFailed`: the request is well formed, but the state does not allow it.
const REQUEST_FAILED: i64 = -32803;

/// The reason why a request was not accepted. The messages are the user-visible texts.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the server is not initialized; send `initialize` and `initialized` first")]
    NotInitialized,
    #[error("the server is already initialized; send `initialize` only once, first")]
    AlreadyInitialized,
    #[error("the server is shutting down; send `exit` and start a new one")]
    ShuttingDown,
    #[error("{field}: {problem}")]
    BadParams {
        /// Path of the parameter, such as `prompt[2].mediaType`.
        field: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    #[error("unknown session {0}; see agent/listSessions")]
    UnknownSession(SessionId),
    /// The session is open in another server process.
    #[error(
        "session {session} is open in another server ({holder}); close it there, or load it with readOnly"
    )]
    SessionLocked { session: SessionId, holder: String },
    /// The session was loaded with `readOnly`.
    #[error("session {0} is read-only; reload it without `readOnly`")]
    SessionReadOnly(SessionId),
    #[error(
        "turn {turn} is running in session {session}; use agent/steer or agent/queue, or cancel it first"
    )]
    TurnRunning { session: SessionId, turn: TurnId },
    #[error("no turn is running in session {0}; start one with agent/prompt")]
    NoTurn(SessionId),
    /// The request expects another turn than the running one.
    #[error("turn {expected} is not running; turn {running} is")]
    StaleTurn { expected: String, running: TurnId },
    /// The last turn ended on its own.
    #[error("the last turn of session {0} was not interrupted or canceled; start one with agent/prompt")]
    NothingToResume(SessionId),
    #[error("approval {0} is unknown or settled; see agent/listApprovals")]
    UnknownApproval(ApprovalId),
    #[error("{0} is unknown or settled; see agent/listApprovals")]
    UnknownQuestion(InquiryId),
    #[error("unknown grant {0}; see agent/listGrants")]
    UnknownGrant(String),
    #[error("{0}")]
    UnknownModel(String),
    #[error("unknown agent {0}; the configuration has no [agent.{0}]")]
    UnknownAgent(String),
    #[error("unknown circuit {0}; see agent/metrics")]
    UnknownCircuit(String),
    #[error("unknown ref {0}; use one from `more` in a notification of this session")]
    UnknownContent(String),
    #[error("turn {0} does not belong to this session")]
    UnknownTurn(TurnId),
    #[error("turn {0} was not reverted, or was already redone")]
    NothingToRedo(TurnId),
    /// No turn of the session has ended.
    #[error("session {0} has no finished turn to fork")]
    NothingToFork(SessionId),
    #[error("no queued prompt {prompt} in session {session}; list them with agent/queue")]
    UnknownPrompt {
        session: SessionId,
        /// Empty if the request meant the next prompt.
        prompt: String,
    },
    /// The queue holds this many prompts, its maximum.
    #[error("the queue is full with {0} prompts; remove one, or wait until one was sent")]
    QueueFull(usize),
    /// The client canceled the request. Contains the result of the turn, if one was started.
    #[error("the request was canceled")]
    Cancelled(Option<Box<PromptResult>>),
    /// An error of the store or the configuration, with its own message.
    #[error(transparent)]
    Agent(Box<AgentError>),
}

impl From<AgentError> for RequestError {
    fn from(error: AgentError) -> Self {
        Self::Agent(Box::new(error))
    }
}

impl RequestError {
    /// Builds the error for a wrong parameter.
    pub fn invalid_param(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::BadParams {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Returns the JSON-RPC code, the error code and the machine-readable refusal.
    fn to_refusal(&self) -> (i64, ErrorCode, Option<Refusal>) {
        use jsonrpc::ErrorCode as Rpc;
        let params = Rpc::InvalidParams.code();
        match self {
            Self::NotInitialized => (
                NOT_INITIALIZED,
                ErrorCode::Protocol,
                Some(Refusal::NotInitialized),
            ),
            Self::AlreadyInitialized => (Rpc::InvalidRequest.code(), ErrorCode::Protocol, None),
            Self::ShuttingDown => (
                Rpc::InvalidRequest.code(),
                ErrorCode::Protocol,
                Some(Refusal::ShuttingDown),
            ),
            Self::BadParams { .. } => (params, ErrorCode::Protocol, Some(Refusal::BadParams)),
            Self::UnknownSession(_) => (params, ErrorCode::Session, Some(Refusal::UnknownSession)),
            Self::UnknownApproval(_) => (params, ErrorCode::Session, Some(Refusal::UnknownApproval)),
            Self::UnknownQuestion(_) => (params, ErrorCode::Session, Some(Refusal::UnknownQuestion)),
            Self::UnknownGrant(_) => (params, ErrorCode::Session, Some(Refusal::UnknownGrant)),
            Self::UnknownContent(_) => (params, ErrorCode::Session, Some(Refusal::UnknownContent)),
            Self::UnknownModel(_) => (params, ErrorCode::Config, Some(Refusal::UnknownModel)),
            Self::UnknownAgent(_) => (params, ErrorCode::Config, Some(Refusal::UnknownAgent)),
            Self::UnknownCircuit(_) => (params, ErrorCode::Config, Some(Refusal::UnknownCircuit)),
            Self::SessionLocked { .. } => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::SessionLocked)),
            Self::SessionReadOnly(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::SessionReadOnly)),
            Self::TurnRunning { .. } => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::TurnRunning)),
            Self::NoTurn(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::NoTurn)),
            Self::StaleTurn { .. } => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::StaleTurn)),
            Self::NothingToResume(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::NothingToResume)),
            Self::UnknownTurn(_) => (params, ErrorCode::Session, Some(Refusal::UnknownTurn)),
            Self::NothingToRedo(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::NothingToRedo)),
            Self::NothingToFork(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::NothingToFork)),
            Self::UnknownPrompt { .. } => (params, ErrorCode::Session, Some(Refusal::UnknownPrompt)),
            Self::QueueFull(_) => (REQUEST_FAILED, ErrorCode::Session, Some(Refusal::QueueFull)),
            Self::Cancelled(_) => (Rpc::RequestCancelled.code(), ErrorCode::Cancelled, None),
            Self::Agent(error) => (rpc_code(error.code), error.code, None),
        }
    }

    fn class(&self) -> ErrorClass {
        match self {
            Self::Agent(error) => error.class,
            // These pass once the other turn or server is done, or the queue has room.
            Self::SessionLocked { .. } | Self::TurnRunning { .. } | Self::QueueFull(_) => {
                ErrorClass::Retryable
            }
            Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::ShuttingDown
            | Self::BadParams { .. }
            | Self::UnknownSession(_)
            | Self::SessionReadOnly(_)
            | Self::NoTurn(_)
            | Self::StaleTurn { .. }
            | Self::NothingToResume(_)
            | Self::UnknownApproval(_)
            | Self::UnknownQuestion(_)
            | Self::UnknownGrant(_)
            | Self::UnknownModel(_)
            | Self::UnknownAgent(_)
            | Self::UnknownCircuit(_)
            | Self::UnknownContent(_)
            | Self::UnknownPrompt { .. }
            | Self::UnknownTurn(_)
            | Self::NothingToRedo(_)
            | Self::NothingToFork(_)
            | Self::Cancelled(_) => ErrorClass::Terminal,
        }
    }

    fn to_data(&self, code: ErrorCode, refusal: Option<Refusal>) -> ErrorData {
        let plain = AgentError {
            class: self.class(),
            ..AgentError::new(code, self.to_string())
        };
        let data = error_data(match self {
            Self::Agent(error) => error,
            _ => &plain,
        });
        ErrorData {
            refusal,
            field: match self {
                Self::BadParams { field, .. } => Some(field.clone()),
                _ => None,
            },
            holder: match self {
                Self::SessionLocked { holder, .. } => Some(holder.clone()),
                _ => None,
            },
            ..data
        }
    }
}

/// Returns the JSON-RPC code of an error with its own message.
fn rpc_code(code: ErrorCode) -> i64 {
    match code {
        ErrorCode::Protocol => jsonrpc::ErrorCode::InvalidRequest.code(),
        ErrorCode::Internal => jsonrpc::ErrorCode::InternalError.code(),
        ErrorCode::MaxIterations
        | ErrorCode::ProviderError
        | ErrorCode::ToolExecution
        | ErrorCode::ContextLimit
        | ErrorCode::BudgetExceeded
        | ErrorCode::Cancelled
        | ErrorCode::CircuitOpen
        | ErrorCode::QuotaExhausted
        | ErrorCode::EmptyResponse
        | ErrorCode::ToolCallsExceeded
        | ErrorCode::WallTimeExceeded
        | ErrorCode::Config
        | ErrorCode::Session
        | ErrorCode::Store => REQUEST_FAILED,
    }
}

impl From<RequestError> for jsonrpc::Error {
    fn from(error: RequestError) -> Self {
        let (rpc, code, refusal) = error.to_refusal();
        let message = error.to_string();
        let data = match &error {
            RequestError::Cancelled(Some(result)) => serde_json::to_value(result),
            _ => serde_json::to_value(error.to_data(code, refusal)),
        };
        Self {
            code: rpc.into(),
            message: message.into(),
            data: data.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_object_and_the_next_step() {
        let session = || SessionId::from("ses_1");
        for (error, code, refusal, expected) in [
            (
                RequestError::TurnRunning {
                    session: session(),
                    turn: TurnId::from("turn_1"),
                },
                -32803,
                "turnRunning",
                "agent/steer",
            ),
            (
                RequestError::UnknownSession(session()),
                -32602,
                "unknownSession",
                "ses_1",
            ),
            (
                RequestError::NotInitialized,
                -32002,
                "notInitialized",
                "initialize",
            ),
            (
                RequestError::UnknownApproval(ApprovalId::from("appr_1")),
                -32602,
                "unknownApproval",
                "settled",
            ),
        ] {
            let error = jsonrpc::Error::from(error);
            assert_eq!(error.code.code(), code);
            assert!(error.message.contains(expected), "{}", error.message);
            let data = error.data.unwrap();
            assert_eq!(data["refusal"], refusal);
            assert_eq!(data["class"] == "retryable", refusal == "turnRunning");
            assert_eq!(data["message"], *error.message);
        }
    }

    #[test]
    fn data_carries_the_field_and_the_holder() {
        let error = jsonrpc::Error::from(RequestError::invalid_param("tail", "must be at most 1000"));
        assert_eq!(error.message, "tail: must be at most 1000");
        assert_eq!(error.data.unwrap()["field"], "tail");
        let error = jsonrpc::Error::from(RequestError::SessionLocked {
            session: SessionId::from("ses_1"),
            holder: "process 7".to_owned(),
        });
        let data = error.data.unwrap();
        assert_eq!(
            (&data["holder"], &data["class"]),
            (&"process 7".into(), &"retryable".into())
        );
    }

    #[test]
    fn an_agent_error_keeps_its_message_and_cause() {
        let error =
            AgentError::new(ErrorCode::Store, "the store cannot be read").with_cause("disk I/O error");
        let error = jsonrpc::Error::from(RequestError::from(error));
        assert_eq!(error.code.code(), -32803);
        let data = error.data.unwrap();
        assert_eq!(
            (&data["code"], &data["message"], &data["cause"]),
            (
                &"store".into(),
                &"the store cannot be read".into(),
                &"disk I/O error".into()
            )
        );
    }

    #[test]
    fn a_cancelled_request_carries_its_result() {
        let result = PromptResult {
            turn_id: "turn_1".to_owned(),
            reason: crate::protocol::TerminalReason::AbortedTools,
            state: crate::protocol::TurnState::Cancelled,
            text: String::new(),
            usage: crate::protocol::TokenUsage::default(),
            cost_usd: None,
            error: None,
            tokens_before: None,
            tokens_after: None,
        };
        let error = jsonrpc::Error::from(RequestError::Cancelled(Some(Box::new(result))));
        assert_eq!(error.code.code(), -32800);
        assert_eq!(error.data.unwrap()["state"], "cancelled");
    }
}
