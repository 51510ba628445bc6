//! What keys mean while a turn runs: which question is open, and what may answer it.

use serde_json::Value;

use super::super::keys::{Key, parse_approval_key};
use super::{SentRequest, TurnInputState};
use crate::protocol::{APPROVAL_KEYS, ApprovalAction};

impl TurnInputState {
    /// Returns whether a reason, a held letter or a field of a form is being typed.
    pub(super) fn has_text(&self) -> bool {
        self.reason.is_some() || self.held_key.due_at().is_some() || self.inquiries.draft_text().is_some()
    }

    /// Returns whether a text for the model has no answer yet.
    pub(super) fn has_sent_text(&self) -> bool {
        self.sent
            .values()
            .any(|sent| matches!(sent, SentRequest::Text(_)))
    }

    /// Returns what was typed for the open question and not sent: a reason, or words in a field of a form.
    pub(super) fn typed_answer(&self) -> Option<String> {
        let typed = match &self.reason {
            Some(reason) => Some(reason.text.as_str()),
            None => self.inquiries.shown_at.and(self.inquiries.draft_text()),
        };
        typed.filter(|text| !text.trim().is_empty()).map(str::to_owned)
    }

    /// Returns the id of the question that keys answer now.
    pub(super) fn open_question(&self) -> Option<String> {
        match self.questions.front() {
            Some(approval) => self.shown_at.map(|_| approval.approval_id.clone()),
            None => self.inquiries.shown_at.and(self.inquiries.first_id()),
        }
    }

    /// Returns whether this key may answer the open question.
    pub(super) fn may_answer(&self, key: &Key) -> bool {
        match key {
            Key::Char(letter) if !self.questions.is_empty() => {
                match parse_approval_key(*letter, self.has_rule()) {
                    Some(ApprovalAction::ShowDiff) => self.can_show,
                    action => action.is_some(),
                }
            }
            Key::Char(letter) => self.inquiries.may_answer(*letter),
            _ => false,
        }
    }

    /// Describes the held letter and what it is about to do.
    pub(super) fn format_held_key_hint(&self, letter: char) -> String {
        let entry = APPROVAL_KEYS
            .iter()
            .find(|entry| entry.key == letter.to_ascii_lowercase());
        match entry.filter(|_| !self.questions.is_empty()) {
            Some(entry) => format!("{letter} · {}, unless you type on ", entry.label.to_lowercase()),
            None => letter.to_string(),
        }
    }

    /// Returns whether the first approval offers an "always" rule. Edited input offers none.
    pub(super) fn has_rule(&self) -> bool {
        let first = self.questions.front();
        first.is_some_and(|approval| approval.rule.is_some()) && self.edited_input().is_none()
    }

    /// Returns the first approval's edited input.
    pub(super) fn edited_input(&self) -> Option<&Value> {
        self.edited.as_ref()?.input.as_ref()
    }
}
