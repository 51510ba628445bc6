//! Counts what a session has done, from its events: the same live and after a restart (R-OBS).
//!
//! Pure. `actor` adds the errors to the server's totals and logs them.

use std::collections::BTreeMap;

use crate::domain::{ErrorCode, Event, TerminalReason, ToolCallStatus, TurnEnd};
use crate::turn::COMPACTION_FAILED;

/// Warnings that report a failure. Each is counted under its own code.
const FAILURES: [&str; 3] = [COMPACTION_FAILED, "hook_failed", "recording_failed"];

/// The counts of a session's events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventCounts {
    /// The number of the last counted event.
    pub through: u64,
    /// Model calls that left an event.
    pub requests: u64,
    pub retries: u64,
    pub compactions: u64,
    pub cancels: u64,
    /// How often the mode was chosen.
    pub mode_changes: u64,
    /// How often the model was chosen.
    pub model_changes: u64,
    /// How often the effort was chosen.
    pub effort_changes: u64,
    /// By tool name.
    pub tool_calls: BTreeMap<String, u64>,
    /// By error code, including errors that ended no turn.
    pub errors: BTreeMap<&'static str, u64>,
}

impl EventCounts {
    /// Counts an event.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        self.through = self.through.max(seq);
        if let Some(code) = error_code(event) {
            *self.errors.entry(code).or_default() += 1;
        }
        match event {
            Event::Usage { .. } => self.requests += 1,
            Event::Retry { .. } => self.count_retry(),
            Event::Nested(nested) if matches!(nested.event, Event::Retry { .. }) => self.count_retry(),
            Event::Compacted(compaction) if compaction.summary.is_some() => self.compactions += 1,
            Event::ToolCall(update) if update.status == ToolCallStatus::Running => {
                *self.tool_calls.entry(update.name.clone()).or_default() += 1;
            }
            Event::SessionUpdated {
                mode, model, effort, ..
            } => {
                self.mode_changes += u64::from(mode.is_some());
                self.model_changes += u64::from(model.is_some());
                self.effort_changes += u64::from(effort.is_some());
            }
            Event::TurnEnded(end) => self.count_end(end),
            _ => {}
        }
    }

    fn count_retry(&mut self) {
        // A failed attempt is a call too.
        self.retries += 1;
        self.requests += 1;
    }

    fn count_end(&mut self, end: &TurnEnd) {
        // The last, failed attempt is reported only by the turn's error.
        let tried = end.error.as_ref().and_then(|error| error.attempts);
        self.requests += u64::from(tried.is_some_and(|attempts| attempts > 0));
        self.cancels += u64::from(matches!(
            end.reason,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
        ));
    }
}

/// Returns the code of the error that an event reports. What the user wanted is not an error.
pub(super) fn error_code(event: &Event) -> Option<&'static str> {
    match event {
        Event::Nested(nested) => match &nested.event {
            // A sub-agent's end is the result of its call, which is counted there.
            event @ (Event::Retry { .. } | Event::ToolCall(_) | Event::Warning { .. }) => error_code(event),
            _ => None,
        },
        Event::Retry { error, .. } => Some(error.code.name()),
        Event::ToolCall(update) => {
            (update.status == ToolCallStatus::Failed).then(|| ErrorCode::ToolExecution.name())
        }
        Event::Warning { code, .. } => FAILURES.into_iter().find(|known| known == code),
        // The call that ended the turn was counted when it failed.
        Event::TurnEnded(end) if end.reason == TerminalReason::ToolFailed => None,
        Event::TurnEnded(end) => {
            let error = end.error.as_ref()?;
            (error.code != ErrorCode::Cancelled).then(|| error.code.name())
        }
        _ => None,
    }
}
