//! What the user sent during a turn, until a model reads it. The status line shows it until the log has a place for it.
//!
//! Must not draw or send anything.

use super::style::fit_line;

/// The lines that no model has read yet, in the order of sending.
#[derive(Default)]
pub(super) struct SentLines {
    lines: Vec<SentLine>,
}

struct SentLine {
    text: String,
    /// The server has accepted it.
    is_accepted: bool,
    /// The log shows it, so the status line does not.
    is_in_log: bool,
}

impl SentLines {
    /// Returns whether the status line shows none.
    pub(super) fn is_empty(&self) -> bool {
        self.shown().next().is_none()
    }

    pub(super) fn push(&mut self, text: &str) {
        self.lines.push(SentLine {
            text: text.to_owned(),
            is_accepted: false,
            is_in_log: false,
        });
    }

    pub(super) fn remove(&mut self, text: &str) {
        self.lines.retain(|line| line.text.trim() != text.trim());
    }

    /// Notes that the model read a message. A hook or a command may have changed its text; then it is the oldest one.
    pub(super) fn note_read(&mut self, text: &str) {
        let same = self.lines.iter().position(|line| line.text.trim() == text.trim());
        let oldest = || self.lines.iter().position(|line| line.is_accepted);
        if let Some(at) = same.or_else(oldest) {
            self.lines.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Notes that the server has accepted a line, and whether the log shows it.
    pub(super) fn accept(&mut self, text: &str, is_in_log: bool) {
        for line in self.lines.iter_mut().filter(|line| line.text == text) {
            line.is_accepted = true;
            line.is_in_log = is_in_log;
        }
    }

    /// Returns the lines that the server has accepted.
    pub(super) fn list_unread(&self) -> Vec<String> {
        let accepted = self.lines.iter().filter(|line| line.is_accepted);
        accepted.map(|line| line.text.clone()).collect()
    }

    fn shown(&self) -> impl DoubleEndedIterator<Item = &SentLine> {
        self.lines.iter().filter(|line| !line.is_in_log)
    }

    /// Describes the last line in at most `width` columns, to follow an activity of `before` columns; empty without one.
    pub(super) fn describe_last(&self, before: usize, width: usize) -> String {
        let Some(sent) = self.shown().next_back() else {
            return String::new();
        };
        let state = if sent.is_accepted { "sent" } else { "sending" };
        let more = match self.shown().count() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let room = width.saturating_sub(before + more.len() + 18);
        let separator = if before == 0 { "" } else { " · " };
        format!("{separator}› {} · {state}{more}", fit_line(&sent.text, room))
    }
}
