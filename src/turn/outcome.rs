//! How a step, and how a turn, ends.

use super::transition::Outcome;
use crate::domain::{AgentError, ErrorCode, Message, MessageId, TerminalReason, ToolCallId};

/// The result of a step, with its error if there is one.
pub(super) struct StepOutcome {
    pub(super) outcome: Outcome,
    pub(super) error: Option<AgentError>,
    pub(super) detail: Option<String>,
    /// An answer that is kept or retracted, as the next transition decides.
    pub(super) deferred: Option<DeferredMessage>,
    pub(super) output_tokens: u64,
    /// The request was refused as too long, far below the known window.
    pub(super) window_unknown: bool,
    /// The answer's text, if the model requested no tools.
    pub(super) answer: Option<String>,
}

/// An answer whose fate the next transition decides.
pub(super) struct DeferredMessage {
    /// The message, if the answer contains anything to keep.
    pub(super) message: Option<Message>,
    /// What clients have already seen of it.
    pub(super) streamed: Option<StreamedOutput>,
}

impl StepOutcome {
    pub(super) fn from_outcome(outcome: Outcome) -> Self {
        Self {
            outcome,
            error: None,
            detail: None,
            deferred: None,
            output_tokens: 0,
            window_unknown: false,
            answer: None,
        }
    }

    pub(super) fn with_detail(outcome: Outcome, detail: String) -> Self {
        Self {
            detail: Some(detail),
            ..Self::from_outcome(outcome)
        }
    }

    /// Builds the outcome for a limit, or a question, at which the user chose to stop.
    pub(super) fn stopped_at(detail: &str) -> Self {
        Self::with_detail(Outcome::StoppedByUser, format!("stopped by the user: {detail}"))
    }

    /// Builds the outcome for a request that cannot fit the window.
    pub(super) fn no_room(outcome: Outcome, window: u64) -> Self {
        let error = AgentError::new(
            ErrorCode::ContextLimit,
            format!("the next request exceeds the model's window of {window} tokens"),
        )
        .with_user_action("compact the session, start a new one, choose a model with a larger window, or set auto_compact = true");
        Self::from_failure(outcome, error)
    }

    pub(super) fn from_failure(outcome: Outcome, error: AgentError) -> Self {
        Self {
            detail: Some(error.to_string()),
            error: Some(error),
            ..Self::from_outcome(outcome)
        }
    }
}

/// The output of a call that clients have seen.
pub(super) struct StreamedOutput {
    pub(super) message: MessageId,
    pub(super) tool_calls: Vec<ToolCallId>,
    /// Whether it contains text or reasoning.
    pub(super) has_text: bool,
}

/// How a turn ended that was not stopped from outside.
#[derive(Debug)]
pub struct TurnFinish {
    pub reason: TerminalReason,
    pub error: Option<AgentError>,
    /// The turn reached a limit under policy `degrade` and ended with a summary.
    pub summed_up: bool,
    /// A tool or a sub-agent failed under policy `degrade`.
    pub degraded: bool,
}
