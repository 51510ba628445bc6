//! The outputs of recent calls, so that a user can see in full what the screen showed in part.
//!
//! Knows no server: for an output that was cut for the wire it keeps the reference, and `chat` reads the rest.

use std::collections::VecDeque;

use crate::protocol::ToolCallNotification;

/// How many calls are kept.
const MAX_RECENT: usize = 20;

/// The last calls that had an output.
#[derive(Debug, Default)]
pub(super) struct RecentCalls {
    calls: VecDeque<CallOutput>,
    /// How to show a full output, as a hint for people; `None` where that is not possible.
    pub(super) hint: Option<&'static str>,
}

/// The output of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallOutput {
    pub(super) title: String,
    /// The full output, or its start.
    pub(super) text: String,
    /// Where the full output is, if `text` is only its start.
    pub(super) reference: Option<String>,
}

impl RecentCalls {
    /// Records the output of an ended call.
    pub(super) fn record_output(&mut self, call: &ToolCallNotification) {
        let Some(text) = call.output.clone().filter(|text| !text.is_empty()) else {
            return;
        };
        if self.calls.len() == MAX_RECENT {
            self.calls.pop_front();
        }
        self.calls.push_back(CallOutput {
            title: call.title.clone(),
            text,
            reference: call.more.get("output").map(|more| more.reference.clone()),
        });
    }

    /// Returns the nth output from the end; 1 is the last.
    pub(super) fn nth_last(&self, number: usize) -> Option<&CallOutput> {
        self.calls.get(self.calls.len().checked_sub(number)?)
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }
}
