//! Single keys while a turn runs: decodes the terminal's bytes, and edits the line that is typed meanwhile.
//!
//! Pure except for [`RawKeys`], which reads the terminal. Unknown sequences are skipped as a whole and pasted text is
//! only text, so neither can answer a question. `held_key` decides when a letter answers.
//!
//! The parser is our own for that reason. Event readers such as crossterm's take the end of a read for the end of a
//! sequence: an arrow key in two reads becomes Esc, `[` and `A`, and `A` allows a call for good. They also keep parsed
//! keys in a static, where neither the line editor nor the next question may find them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;

use crate::base::clock::{self, Instant};
use crate::protocol::{ApprovalAction, Decision, approval_action};

/// A key press or a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// Alt with a character, or Esc right before it: terminals send the same bytes for both.
    Alt(char),
    Paste(String),
    Enter,
    Esc,
    Backspace,
    CtrlC,
    CtrlD,
    CtrlU,
    CtrlW,
    Other,
}

/// Decodes bytes into keys, independent of how the reads split them.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The bytes of a bracketed paste that has not ended.
    bytes: VecDeque<u8>,
    pasted: Option<Vec<u8>>,
}

/// How long to wait after a lone Esc byte before it counts as the Esc key.
const ESCAPE: Duration = Duration::from_millis(50);
/// How long to wait for the rest of a longer sequence. Generous, because its last byte must not be read as a letter
/// that answers.
const SEQUENCE: Duration = Duration::from_secs(1);
/// The sequences around a bracketed paste.
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

impl Parser {
    /// Adds bytes and returns the keys that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend(bytes);
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// Returns how long to wait for the rest of a pending escape sequence.
    fn wait(&self) -> Option<Duration> {
        // Inside a paste, Esc is data until the end mark arrives.
        let has_escape = self.pasted.is_none() && self.bytes.front() == Some(&0x1b);
        has_escape.then_some(if self.bytes.len() == 1 { ESCAPE } else { SEQUENCE })
    }

    /// Turns a pending escape sequence into a key when nothing more arrived in time.
    fn flush(&mut self) -> Key {
        let key = if self.bytes.len() == 1 {
            Key::Esc
        } else {
            Key::Other
        };
        self.bytes.clear();
        key
    }

    fn pop(&mut self) -> Option<Key> {
        // Inside a paste nothing is a key, not even Ctrl-C.
        loop {
            if let Some(pasted) = &mut self.pasted {
                pasted.push(self.bytes.pop_front()?);
                if pasted.ends_with(PASTE_END) {
                    pasted.truncate(pasted.len() - PASTE_END.len());
                    // Terminals send CR for a line break in a paste.
                    let text = String::from_utf8_lossy(pasted).replace('\r', "\n");
                    self.pasted = None;
                    return Some(Key::Paste(text));
                }
                continue;
            }
            let first = *self.bytes.front()?;
            let length = match first {
                0x1b => measure_escape_sequence(self.bytes.make_contiguous())?,
                first => char_length(first),
            };
            if self.bytes.len() < length {
                return None;
            }
            let key: Vec<u8> = self.bytes.drain(..length).collect();
            if key == PASTE {
                self.pasted = Some(Vec::new());
                continue;
            }
            return Some(match first {
                0x1b if length == 1 => Key::Esc,
                0x1b if matches!(key[1], b'[' | b'O') => Key::Other,
                0x1b => decode_char(&key[1..]).map_or(Key::Other, Key::Alt),
                b'\r' | b'\n' => Key::Enter,
                0x7f | 0x08 => Key::Backspace,
                0x03 => Key::CtrlC,
                0x04 => Key::CtrlD,
                0x15 => Key::CtrlU,
                0x17 => Key::CtrlW,
                0x00..=0x1f => Key::Other,
                _ => decode_char(&key).map_or(Key::Other, Key::Char),
            });
        }
    }
}

/// Returns the length of the leading escape sequence, or `None` if it is incomplete.
fn measure_escape_sequence(bytes: &[u8]) -> Option<usize> {
    match *bytes.get(1)? {
        // The Linux console encodes its function keys as `ESC [ [ A`.
        b'[' if *bytes.get(2)? == b'[' => bytes.get(3).map(|_| 4),
        b'[' => {
            let end = bytes[2..].iter().position(|byte| matches!(byte, 0x40..=0x7e))?;
            Some(end + 3)
        }
        b'O' => bytes.get(2).map(|_| 3),
        b'\r' | b'\n' | 0x7f | 0x08 => Some(2),
        // Esc, followed by a control key of its own, such as Ctrl-C.
        0x00..=0x1f => Some(1),
        first => Some(1 + char_length(first)),
    }
}

/// Returns the length in bytes of the UTF-8 character that starts with this byte.
fn char_length(first: u8) -> usize {
    match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

fn decode_char(bytes: &[u8]) -> Option<char> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.chars().next()
}

/// Returns what a letter does at an approval. Keys that remember a rule do nothing if there is no rule to remember.
pub(super) fn parse_approval_key(letter: char, has_rule: bool) -> Option<ApprovalAction> {
    let keeps_rule = |action: &ApprovalAction| {
        matches!(
            action,
            ApprovalAction::Decide(Decision::AllowSession | Decision::AllowAlways)
        )
    };
    approval_action(letter).filter(|action| has_rule || !keeps_rule(action))
}

/// A line being typed while a turn runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) text: String,
    /// Texts that the user cleared, for the history.
    pub(super) cleared: Vec<String>,
    /// Texts that were sent to a server that ended before it answered.
    pub(super) unanswered: Vec<String>,
}

impl Draft {
    /// Applies a key. Returns the line if Enter ended it.
    pub(super) fn take(&mut self, key: &Key) -> Option<String> {
        match key {
            Key::Char(ch) => self.text.push(*ch),
            Key::Paste(text) => self.text.push_str(text),
            Key::Backspace => drop(self.text.pop()),
            Key::CtrlU | Key::Esc => {
                let cleared = std::mem::take(&mut self.text);
                if !cleared.trim().is_empty() {
                    self.cleared.push(cleared);
                }
            }
            Key::CtrlW | Key::Alt('\u{7f}' | '\u{8}') => {
                let end = self
                    .text
                    .trim_end()
                    .rfind(char::is_whitespace)
                    .map_or(0, |at| at + 1);
                self.text.truncate(end);
            }
            Key::Alt('\r' | '\n') => self.text.push('\n'),
            // Possibly Esc right before a letter, and no typed letter may get lost.
            Key::Alt(ch) => self.text.push(*ch),
            Key::Enter => return Some(std::mem::take(&mut self.text)),
            Key::CtrlC | Key::CtrlD | Key::Other => return None,
        }
        None
    }
}

/// The terminal's keys in raw mode. Dropping this value restores the mode.
pub(super) struct RawKeys {
    input: AsyncFd<OwnedFd>,
    parser: Parser,
    ready: VecDeque<Key>,
    /// When the pending escape sequence counts as complete. Stored here, because callers drop the wait itself often.
    due: Option<Instant>,
    _raw: RawMode,
}

/// Raw mode. Dropping this value restores the terminal's settings.
struct RawMode {
    saved: Termios,
    dumb: bool,
}

impl RawMode {
    fn enter(dumb: bool) -> std::io::Result<Self> {
        let saved = tcgetattr(std::io::stdin())?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        // Bracketed paste on, cursor hidden. A dumb terminal would print the sequence as text.
        if !dumb {
            write_sequence("\u{1b}[?2004h\u{1b}[?25l");
        }
        Ok(Self { saved, dumb })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if !self.dumb {
            write_sequence("\u{1b}[?25h\u{1b}[?2004l");
        }
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.saved);
    }
}

fn write_sequence(sequence: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = out.write_all(sequence.as_bytes());
    let _ = out.flush();
}

impl RawKeys {
    /// Takes over the terminal; sends no sequences to a dumb one.
    pub(super) fn open(dumb: bool) -> std::io::Result<Self> {
        #[expect(
            deprecated,
            reason = "sound for an owned descriptor; its successor is unsafe to call"
        )]
        // A duplicate, because `AsyncFd` closes its descriptor when it drops.
        let input = AsyncFd::new(rustix::io::dup(std::io::stdin())?)?;
        Ok(Self {
            input,
            parser: Parser::default(),
            ready: VecDeque::new(),
            due: None,
            _raw: RawMode::enter(dumb)?,
        })
    }

    /// Waits for the next key; `None` when the terminal is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.ready.pop_front() {
                return Some(key);
            }
            let readable = tokio::select! { biased;
                readable = self.input.readable() => readable,
                () = sleep_until(self.due) => {
                    self.due = None;
                    return Some(self.parser.flush());
                }
            };
            let mut guard = readable.ok()?;
            // The parent process shares this blocking descriptor, so it must stay blocking: read only when poll
            // reports input.
            if !is_ready(self.input.get_ref())? {
                guard.clear_ready();
                continue;
            }
            let mut bytes = [0; 1_024];
            match rustix::io::read(self.input.get_ref(), &mut bytes) {
                Ok(0) => return None,
                Ok(n) => {
                    self.ready.extend(self.parser.push(&bytes[..n]));
                    // A deadline, not a duration: during a stream each event restarts the wait, and Esc would never
                    // complete.
                    self.due = self.parser.wait().map(|wait| clock::now() + wait);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Sleeps until `due`; forever if it is `None`.
pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => clock::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn is_ready(input: &OwnedFd) -> Option<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(input, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&now)) {
        Ok(count) => Some(count > 0),
        Err(rustix::io::Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys_however_reads_split_them() {
        let bytes =
            "yé\r\u{7f}\u{3}\u{4}\u{15}\u{17}\u{1b}[A\u{1b}[1;5C\u{1b}OP\u{1b}x\u{1b}é\u{1b}[[A\u{1b}[200~n\ra\u{1b}[201~z"
                .as_bytes();
        let keys = [
            Key::Char('y'),
            Key::Char('é'),
            Key::Enter,
            Key::Backspace,
            Key::CtrlC,
            Key::CtrlD,
            Key::CtrlU,
            Key::CtrlW,
            Key::Other,
            Key::Other,
            Key::Other,
            Key::Alt('x'),
            Key::Alt('é'),
            Key::Other,
            Key::Paste("n\na".into()),
            Key::Char('z'),
        ];
        for cut in 0..=bytes.len() {
            let mut parser = Parser::default();
            let mut got = parser.push(&bytes[..cut]);
            got.extend(parser.push(&bytes[cut..]));
            // An arrow key is `ESC [ A`: it starts like an unknown sequence and ends like a letter.
            assert_eq!(got, keys, "cut at {cut}");
        }
    }

    #[test]
    fn esc_is_a_key_and_does_not_swallow_others() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"\x1b"), []);
        assert_eq!(parser.wait(), Some(ESCAPE));
        assert_eq!(parser.flush(), Key::Esc);
        assert_eq!(parser.push(b"\x03"), [Key::CtrlC]);
        assert_eq!(
            parser.push(b"\x1b\x03\x1b\x1b[A\x1b\r\x1b\x7f"),
            [
                Key::Esc,
                Key::CtrlC,
                Key::Esc,
                Key::Other,
                Key::Alt('\r'),
                Key::Alt('\u{7f}')
            ]
        );
        // The last byte of an arrow key is not a letter, however late it arrives.
        assert_eq!(parser.push(b"\x1b["), []);
        assert_eq!(parser.wait(), Some(SEQUENCE));
        assert_eq!(parser.push(b"A"), [Key::Other]);
        assert_eq!(parser.push(b"\x1b[1;"), []);
        assert_eq!(parser.flush(), Key::Other);
        assert_eq!(parser.wait(), None);
    }

    #[test]
    fn letters_answer_according_to_the_shared_table() {
        for letter in (0..=255u8).map(char::from) {
            for has_rule in [false, true] {
                let action = parse_approval_key(letter, has_rule);
                let known = approval_action(letter);
                let keeps = matches!(letter, 's' | 'S' | 'a' | 'A');
                assert_eq!(
                    action,
                    known.filter(|_| has_rule || !keeps),
                    "{letter} {has_rule}"
                );
            }
        }
    }

    #[test]
    fn line_is_typed_and_edited() {
        let mut draft = Draft::default();
        for ch in "add a tst".chars() {
            assert_eq!(draft.take(&Key::Char(ch)), None);
        }
        draft.take(&Key::CtrlW);
        draft.take(&Key::Paste("testt".into()));
        draft.take(&Key::Backspace);
        // Alt keys edit the line; they do not empty it like Esc.
        for key in [Key::Alt('\r'), Key::Alt('b'), Key::Alt('\u{7f}')] {
            draft.take(&key);
        }
        assert_eq!(draft.text, "add a test\n");
        draft.take(&Key::Backspace);
        assert_eq!(draft.take(&Key::Enter).unwrap(), "add a test");
        assert_eq!(draft.text, "");
    }
}
