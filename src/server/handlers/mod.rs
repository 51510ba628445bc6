//! The `agent/*` methods, by resource. Each converts its params, posts a command, waits, and converts the result.
//!
//! Handlers know no session internals: errors come from [`super::error`], shapes from `from_wire` and `to_wire`.

mod approvals;
mod info;
pub(super) mod mcp;
mod sessions;
mod trust;
mod turns;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::Result;

use super::error::RequestError;
use super::from_wire;
use super::service::Service;
use crate::domain::{AgentError, ErrorCode, SessionId};
use crate::session::{CommandError, SessionCommand};
use crate::store::StoreError;

impl Service {
    /// Parses params and removes known keys from all their strings.
    ///
    /// A key that the user types or pastes must reach no model and no store (I15).
    fn parse_params<T: DeserializeOwned>(&self, mut params: Value) -> Result<T> {
        self.state.sessions.redactor().redact_json(&mut params);
        Ok(from_wire::parse_params(params)?)
    }

    /// Posts a command before the first await, then waits for the session's answer.
    async fn ask_session<T>(
        &self,
        session: &SessionId,
        command: impl FnOnce(oneshot::Sender<std::result::Result<T, CommandError>>) -> SessionCommand,
    ) -> Result<T> {
        let answer = self.state.sessions.send_request(session, command).await;
        Ok(answer.map_err(|refused| request_error(session, refused))?)
    }
}

/// Converts a session's refusal for the client.
fn request_error(session: &SessionId, refused: CommandError) -> RequestError {
    let session = session.clone();
    match refused {
        CommandError::UnknownSession(session) => RequestError::UnknownSession(session),
        CommandError::TurnRunning(turn) => RequestError::TurnRunning { session, turn },
        CommandError::NoTurn => RequestError::NoTurn(session),
        CommandError::OtherTurn { expected, running } => RequestError::StaleTurn {
            expected: expected.to_string(),
            running,
        },
        CommandError::NothingToResume => RequestError::NothingToResume(session),
        CommandError::UnknownApproval(approval) => RequestError::UnknownApproval(approval),
        CommandError::UnknownInquiry(inquiry) => RequestError::UnknownQuestion(inquiry),
        CommandError::UnknownTurn(turn) => RequestError::UnknownTurn(turn),
        CommandError::NothingToRedo(turn) => RequestError::NothingToRedo(turn),
        CommandError::NothingToFork(session) => RequestError::NothingToFork(session),
        CommandError::UnknownPrompt(prompt) => RequestError::UnknownPrompt { session, prompt },
        CommandError::QueueFull => RequestError::QueueFull(crate::session::MAX_QUEUED),
        CommandError::BadReply(problem) => RequestError::invalid_param("answer", problem),
        CommandError::NoRule => RequestError::invalid_param("decision", refused.to_string()),
        CommandError::BadCommand(_) => RequestError::invalid_param("prompt", refused.to_string()),
        CommandError::Canceled => RequestError::Cancelled(None),
        CommandError::UnknownModel(reason) => RequestError::UnknownModel(reason),
        CommandError::NeedsModelList(..) => RequestError::UnknownModel(refused.to_string()),
        CommandError::BadRule(_) => RequestError::invalid_param("rule", refused.to_string()),
        CommandError::Locked { session, holder } => RequestError::SessionLocked {
            session,
            holder: holder.to_string(),
        },
        CommandError::Ending => RequestError::ShuttingDown,
        CommandError::Store(error) => (*error).into(),
        CommandError::Busy => AgentError::new(ErrorCode::Session, refused.to_string()).into(),
        CommandError::Bug => AgentError::new(ErrorCode::Internal, refused.to_string()).into(),
    }
}

/// Converts a store error for the client.
fn store_failed(error: StoreError) -> RequestError {
    match error {
        StoreError::BadCursor(_) => RequestError::invalid_param("cursor", error.to_string()),
        StoreError::BadName(_) => RequestError::invalid_param("sessionId", error.to_string()),
        StoreError::NewerSchema { .. }
        | StoreError::Sqlite(_)
        | StoreError::Io { .. }
        | StoreError::NotWritable
        | StoreError::Replaced(_)
        | StoreError::Unrepaired { .. }
        | StoreError::Closed => AgentError::from(error).into(),
    }
}
