//! What the user sent during a turn, for the status line, until the log has a place for it.
//!
//! Must not draw or send anything.

use super::style::fit_line;

/// The lines that are not in the log yet, in the order of sending.
#[derive(Default)]
pub(super) struct SentLines {
    /// Each with whether the server has accepted it.
    lines: Vec<(String, bool)>,
}

impl SentLines {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn push(&mut self, text: &str) {
        self.lines.push((text.to_owned(), false));
    }

    pub(super) fn remove(&mut self, text: &str) {
        self.lines.retain(|(line, _)| line != text);
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Notes that the server has accepted a line.
    pub(super) fn accept(&mut self, text: &str) {
        for (_, is_accepted) in self.lines.iter_mut().filter(|(line, _)| line == text) {
            *is_accepted = true;
        }
    }

    /// Returns the lines that the server has accepted.
    pub(super) fn list_accepted(&self) -> Vec<String> {
        let accepted = self.lines.iter().filter(|(_, is_accepted)| *is_accepted);
        accepted.map(|(line, _)| line.clone()).collect()
    }

    /// Describes the last line in at most `width` columns, to follow an activity of `before` columns; empty without one.
    pub(super) fn describe_last(&self, before: usize, width: usize) -> String {
        let [rest @ .., (sent, is_accepted)] = self.lines.as_slice() else {
            return String::new();
        };
        let state = if *is_accepted { "sent" } else { "sending" };
        let more = match rest.len() {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let room = width.saturating_sub(before + more.len() + 18);
        let separator = if before == 0 { "" } else { " · " };
        format!("{separator}› {} · {state}{more}", fit_line(sent, room))
    }
}
