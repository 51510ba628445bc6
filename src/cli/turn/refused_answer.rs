//! Brings back what a person typed for an answer that the server refused (I16).

use super::{SentRequest, TurnRunner, prepend_to_draft};
use crate::cli::keys::Draft;

impl TurnRunner<'_> {
    /// Brings back what was typed for an answer that the server refused, but not into the middle of another text.
    pub(super) fn restore_answer(&mut self, sent: SentRequest) {
        let is_free = self.is_line_empty();
        match sent {
            SentRequest::Answer(id, _) if is_free && id == self.input.inquiries.first_id() => {
                self.input.inquiries.restore_typed();
            }
            // Its question is gone, and it is not for the model.
            SentRequest::Answer(_, typed) => self.draft.cleared.extend(typed),
            SentRequest::Decision(_, Some(reason)) if !is_free => self.draft.cleared.push(reason),
            SentRequest::Decision(id, Some(reason)) => {
                let first = self.input.questions.front();
                if first.is_some_and(|approval| approval.approval_id == id) {
                    self.input.reason = Some(Draft {
                        text: reason,
                        ..Draft::default()
                    });
                } else {
                    prepend_to_draft(self.draft, &reason);
                }
            }
            SentRequest::Decision(_, None) | SentRequest::Text(_) => {}
        }
    }
}
