//! The outputs of the last calls, so that a person can see all of what was shown in part.
//!
//! Knows no server: what was cut for the wire is named by its reference.

use std::collections::VecDeque;

use crate::protocol::ToolCallNotification;

/// Calls that are kept.
const KEPT: usize = 20;

/// The last calls that had an output.
#[derive(Debug, Default)]
pub(super) struct RecentCalls {
    calls: VecDeque<CallOutput>,
    /// How a person sees all of an output; none where that is not possible.
    pub(super) hint: Option<&'static str>,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallOutput {
    pub(super) title: String,
    /// All of it, or its beginning.
    pub(super) text: String,
    /// Where all of it is, when `text` is its beginning.
    pub(super) reference: Option<String>,
}

impl RecentCalls {
    /// Keeps what an ended call gave.
    pub(super) fn record_output(&mut self, call: &ToolCallNotification) {
        let Some(text) = call.output.clone().filter(|text| !text.is_empty()) else {
            return;
        };
        if self.calls.len() == KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back(CallOutput {
            title: call.title.clone(),
            text,
            reference: call.more.get("output").map(|more| more.reference.clone()),
        });
    }

    /// The Nth from the end, from 1.
    pub(super) fn nth_last(&self, number: usize) -> Option<&CallOutput> {
        self.calls.get(self.calls.len().checked_sub(number)?)
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }
}
