//! The events that several parts of a turn emit in the same way.

use std::sync::Arc;

use super::context::TurnContext;
use super::outcome::StreamedOutput;
use super::session_link::TurnStopped;
use crate::domain::{Event, Message, Transition};

pub(super) async fn emit_transition(
    cx: &TurnContext,
    transition: Transition,
    detail: Option<String>,
) -> Result<(), TurnStopped> {
    cx.link.emit_event(Event::Transition { transition, detail }).await
}

/// Sends a message to the model that clients do not show.
pub(super) async fn push_hidden_message(cx: &TurnContext, text: String) -> Result<(), TurnStopped> {
    let message = Message {
        hidden: true,
        ..Message::user_text(text)
    };
    cx.link.emit_event(Event::Message(Arc::new(message))).await
}

/// Makes `model` the session's, unless the user has chosen another since the turn began.
pub(super) async fn emit_session_model(cx: &TurnContext, model: String) -> Result<(), TurnStopped> {
    let model_changed = Event::SessionUpdated {
        title: None,
        mode: None,
        model: Some(model),
        effort: None,
    };
    cx.link.emit_event(model_changed).await
}

pub(super) async fn retract_output(
    cx: &TurnContext,
    streamed: Option<StreamedOutput>,
) -> Result<(), TurnStopped> {
    let Some(streamed) = streamed else { return Ok(()) };
    cx.link
        .emit_event(Event::MessageRetracted {
            message: streamed.message,
            tool_calls: streamed.tool_calls,
        })
        .await
}

/// Warns the user. `code` identifies the kind of warning for clients.
pub(super) async fn emit_warning(cx: &TurnContext, code: &str, message: String) -> Result<(), TurnStopped> {
    let code = code.to_owned();
    cx.link.emit_event(Event::Warning { code, message }).await
}

/// Warns the user even while the turn is being stopped.
pub(super) async fn emit_late_warning(
    cx: &TurnContext,
    code: &str,
    message: String,
) -> Result<(), TurnStopped> {
    let code = code.to_owned();
    cx.link.emit_late(Event::Warning { code, message }).await
}
