//! Refusals in the words of this protocol: JSON-RPC codes, and the methods that help.

use serde_json::json;
use tower_lsp::jsonrpc::{Error, ErrorCode};

use crate::config::HOW_TO_TRUST;
use crate::domain::AgentError;
use crate::session::{CommandError, NewSessionError};
use crate::store::StoreError;

/// The protocol's code for a resource that does not exist.
const NOT_FOUND: i64 = -32002;

/// The protocol's code for a request that needs a login.
const AUTH_REQUIRED: i64 = -32000;

/// Names of the main protocol in messages, and what a person in an editor with this one uses instead.
const EDITOR_NAMES: [(&str, &str); 6] = [
    (HOW_TO_TRUST, "`/trust` in `agentls chat`"),
    ("see the list of MCP servers, or run", "run"),
    (
        "with /model, agent/setModel or",
        "with the editor's list of models or",
    ),
    (
        "choose one with agent/setModel",
        "choose one in the editor's list of models",
    ),
    ("see agent/listModels", "see the editor's list of models"),
    ("continue with agent/resumeTurn", "continue with another prompt"),
];

/// Rewrites a message for a person in an editor: replaces the names of methods that only the main protocol has.
pub(super) fn translate_method_names(message: &str) -> String {
    EDITOR_NAMES
        .iter()
        .fold(message.to_owned(), |message, (theirs, ours)| {
            message.replace(theirs, ours)
        })
}

/// Builds an error with a code of JSON-RPC.
pub(super) fn refusal(code: ErrorCode, message: impl Into<String>) -> Error {
    Error {
        code,
        message: translate_method_names(&message.into()).into(),
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
        CommandError::UnknownModel(_) | CommandError::NeedsModelList(..) | CommandError::BadCommand(_) => {
            invalid_param(refused.to_string())
        }
        CommandError::Store(error) => agent_error(&error),
        CommandError::Locked { .. } | CommandError::Ending | CommandError::Busy | CommandError::Bug => {
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
    let mut message = error.describe();
    if let Some(action) = &error.user_action {
        message = format!("{message}\n{action}");
    }
    let message = crate::base::text::strip_control_characters(&message);
    let message = translate_method_names(&message);
    Error {
        code: if error.needs_login {
            ErrorCode::from(AUTH_REQUIRED)
        } else {
            ErrorCode::InternalError
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_an_editor_has() {
        for message in [
            "see the list of MCP servers, or run `agentls mcp login x`",
            &format!("to trust a folder later, use {HOW_TO_TRUST}"),
            "with /model, agent/setModel or [provider.x] model",
            "choose one with agent/setModel",
            "see agent/listModels",
            "continue with agent/resumeTurn, or raise max_wall_time_s",
        ] {
            let translated = translate_method_names(message);
            for foreign in ["agent/", "the list of MCP", "Neovim"] {
                assert!(!translated.contains(foreign), "{translated}");
            }
        }
        let path = "cannot read src/agent/setModel.ts";
        assert_eq!(translate_method_names(path), path);
    }
}
