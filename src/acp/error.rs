//! Refusals in the words of this protocol: JSON-RPC codes, and the methods that help.

use serde_json::json;
use tower_lsp::jsonrpc::{Error, ErrorCode};

use crate::domain::AgentError;
use crate::session::{CommandError, NewSessionError};
use crate::store::StoreError;

/// The protocol's code for a resource that does not exist.
const NOT_FOUND: i64 = -32002;

/// Builds an error with a code of JSON-RPC.
pub(super) fn refusal(code: ErrorCode, message: impl Into<String>) -> Error {
    Error {
        code,
        message: message.into().into(),
        data: None,
    }
}

/// Builds the error for a wrong parameter.
pub(super) fn invalid_param(message: impl Into<String>) -> Error {
    refusal(ErrorCode::InvalidParams, message)
}

/// Builds the error for a prompt while another one runs.
pub(super) fn prompt_running() -> Error {
    refusal(
        ErrorCode::InvalidRequest,
        "a prompt is running in this session; wait for its end, or cancel it with session/cancel",
    )
}

/// Converts a session's refusal.
pub(super) fn command_refusal(refused: CommandError) -> Error {
    match refused {
        CommandError::UnknownSession(session) => refusal(
            ErrorCode::from(NOT_FOUND),
            format!("unknown session {session}; see session/list"),
        ),
        CommandError::TurnRunning(_) => prompt_running(),
        CommandError::UnknownModel(_) | CommandError::NeedsModelList(_) | CommandError::BadCommand(_) => {
            invalid_param(refused.to_string())
        }
        CommandError::Store(error) => agent_error(&error),
        CommandError::Locked { .. } | CommandError::Ending | CommandError::Busy => {
            refusal(ErrorCode::InvalidRequest, refused.to_string())
        }
        CommandError::Canceled
        | CommandError::NoTurn
        | CommandError::OtherTurn { .. }
        | CommandError::NothingToResume
        | CommandError::UnknownTurn(_)
        | CommandError::NothingToRedo(_)
        | CommandError::NothingToFork(_)
        | CommandError::UnknownPrompt(_)
        | CommandError::QueueFull
        | CommandError::UnknownApproval(_)
        | CommandError::UnknownInquiry(_)
        | CommandError::BadReply(_)
        | CommandError::NoRule
        | CommandError::BadRule(_) => refusal(ErrorCode::InvalidRequest, refused.to_string()),
    }
}

/// Converts an error of the store.
pub(super) fn store_refusal(error: StoreError) -> Error {
    match error {
        StoreError::BadCursor(_) | StoreError::BadName(_) => invalid_param(error.to_string()),
        error => agent_error(&AgentError::from(error)),
    }
}

/// Converts the refusal of a new session.
pub(super) fn new_session_refusal(error: NewSessionError) -> Error {
    invalid_param(error.to_string())
}

/// Converts an error of a turn, with what the user can do.
pub(super) fn agent_error(error: &AgentError) -> Error {
    let mut message = error.message.clone();
    if let Some(cause) = &error.cause {
        message = format!("{message}: {cause}");
    }
    if let Some(action) = &error.user_action {
        message = format!("{message}\n{action}");
    }
    let message = crate::base::text::strip_control_characters(&message).into_owned();
    Error {
        code: ErrorCode::InternalError,
        message: message.into(),
        data: Some(json!({"agentls": {
            "code": error.code.name(),
            "class": error.class.name(),
            "provider": error.provider,
            "model": error.model,
            "status": error.status,
            "retryAfterMs": error.retry_after_ms,
        }})),
    }
}
