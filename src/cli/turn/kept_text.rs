//! Brings typed text back to the person that no model saw or that the server refused (I16).

use super::{SentRequest, TurnRunner};
use crate::cli::keys::Draft;
use crate::cli::notification::join_text_blocks;
use crate::protocol::TurnEndedNotification;

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

/// Returns to the draft what the server accepted, but no model saw (I16).
pub(super) fn return_steers(draft: &mut Draft, ended: &TurnEndedNotification) {
    let steers = ended.unused_steers.iter();
    prepend_all_to_draft(draft, steers.map(|steer| join_text_blocks(steer)).collect());
}

/// Puts texts, in this order, in front of the draft.
pub(in crate::cli) fn prepend_all_to_draft(draft: &mut Draft, texts: Vec<String>) {
    for text in texts.into_iter().rev() {
        prepend_to_draft(draft, &text);
    }
}

/// Puts text in front of the draft, so that typed text is never lost (I16).
pub(in crate::cli) fn prepend_to_draft(draft: &mut Draft, text: &str) {
    if !draft.text.is_empty() {
        draft.text.insert(0, ' ');
    }
    draft.text.insert_str(0, text);
}
