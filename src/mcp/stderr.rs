//! The last lines of a server's standard error, for people who look for the reason of a failure.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::base::text::{one_line_of_words, reveal_hidden_characters};
use crate::base::utf8::Decoder;

/// The most lines that are kept.
const MAX_LINES: usize = 20;
/// The most bytes of a line that are kept.
const MAX_LINE: usize = 300;
/// Bytes of an unfinished line beyond which the rest of it is dropped.
const MAX_PARTIAL: usize = 4_096;

/// The newest lines; clones of the handle share them.
#[derive(Debug, Default)]
pub(super) struct StderrTail(Mutex<TailState>);

#[derive(Debug, Default)]
struct TailState {
    lines: VecDeque<String>,
    partial: String,
    /// The rest of the line is dropped.
    is_cut: bool,
    decoder: Decoder,
}

impl StderrTail {
    /// Adds what the program wrote.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = state.decoder.push(bytes);
        state.partial.push_str(&text);
        while let Some(end) = state.partial.find('\n') {
            let line: String = state.partial.drain(..=end).collect();
            if !std::mem::take(&mut state.is_cut) {
                state.push_line(&line);
            }
        }
        if state.partial.len() > MAX_PARTIAL {
            let line = std::mem::take(&mut state.partial);
            if !std::mem::replace(&mut state.is_cut, true) {
                state.push_line(&line);
            }
        }
    }

    /// Returns the lines, safe to show.
    pub(super) fn lines(&self) -> Vec<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let partial = Some(&state.partial).filter(|partial| !state.is_cut && !partial.trim().is_empty());
        let lines = state.lines.iter().cloned();
        lines.chain(partial.map(|line| clean_line(line))).collect()
    }
}

impl TailState {
    fn push_line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(clean_line(line));
    }
}

fn clean_line(line: &str) -> String {
    one_line_of_words(&reveal_hidden_characters(line.trim_end()), MAX_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_are_safe_to_show() {
        let tail = StderrTail::default();
        for number in 0..100 {
            tail.push(format!("line {number}\n\n").as_bytes());
        }
        tail.push(b"\x1b[31mred");
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (MAX_LINES + 1, "line 80"));
        assert!(!lines[MAX_LINES].contains('\x1b'), "{lines:?}");
        // A key that is cut would not be recognized, and so not be hidden.
        let key = format!("{}secret-key", "x ".repeat(140));
        tail.push(format!("\n{key} and {}", "more ".repeat(30)).as_bytes());
        assert!(
            tail.lines().last().unwrap().contains("secret-key"),
            "{:?}",
            tail.lines()
        );
        tail.push(format!("\nx{key}-which-is-longer {}", "more ".repeat(30)).as_bytes());
        assert!(
            !tail.lines().last().unwrap().contains("secret"),
            "{:?}",
            tail.lines()
        );
        tail.push(&[b'x'; 1 << 20]);
        assert!(
            tail.lines()
                .iter()
                .all(|line| line.chars().count() <= MAX_LINE + 1)
        );
    }
}
