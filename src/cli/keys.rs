//! Single keys while a turn runs: bytes to keys, and a line typed meanwhile.
//!
//! Pure but for [`RawKeys`], which reads the terminal. Sequences that are no keys of ours are skipped whole, and
//! pasted text is text: neither can ever answer a question. When a letter answers is `held_key`'s affair.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use crate::base::clock::{self, Instant};
use crate::protocol::{ApprovalAction, Decision, approval_action};

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// With Alt, or behind an Esc in the same moment: a terminal sends both alike.
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

/// Bytes to keys, however they are cut.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: VecDeque<u8>,
    pasted: Option<Vec<u8>>,
}

/// How long the rest of a sequence may take after its Esc.
const ESCAPE: Duration = Duration::from_millis(50);
/// How long the rest of a sequence may take that surely is one: its end must not be read as a letter that answers.
const SEQUENCE: Duration = Duration::from_secs(1);
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

impl Parser {
    /// Takes bytes; gives the keys that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend(bytes);
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// How long to wait for more of what has begun with Esc.
    fn wait(&self) -> Option<Duration> {
        let has_escape = self.pasted.is_none() && self.bytes.front() == Some(&0x1b);
        has_escape.then_some(if self.bytes.len() == 1 { ESCAPE } else { SEQUENCE })
    }

    /// No more comes of what has begun with Esc.
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
        loop {
            if let Some(pasted) = &mut self.pasted {
                pasted.push(self.bytes.pop_front()?);
                if pasted.ends_with(PASTE_END) {
                    pasted.truncate(pasted.len() - PASTE_END.len());
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

/// The length of the escape sequence at the beginning; none: it is not complete.
fn measure_escape_sequence(bytes: &[u8]) -> Option<usize> {
    match *bytes.get(1)? {
        // A function key of Linux's own terminal.
        b'[' if *bytes.get(2)? == b'[' => bytes.get(3).map(|_| 4),
        b'[' => {
            let end = bytes[2..].iter().position(|byte| matches!(byte, 0x40..=0x7e))?;
            Some(end + 3)
        }
        b'O' => bytes.get(2).map(|_| 3),
        b'\r' | b'\n' | 0x7f | 0x08 => Some(2),
        // Esc, and a key of its own.
        0x00..=0x1f => Some(1),
        first => Some(1 + char_length(first)),
    }
}

/// The length in bytes of the character that begins with this one.
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

/// What a letter does at a question. Without a rule to keep, the keys that keep one do nothing.
pub(super) fn answer_of(letter: char, has_rule: bool) -> Option<ApprovalAction> {
    let keeps_rule = |action: &ApprovalAction| {
        matches!(
            action,
            ApprovalAction::Decide(Decision::AllowSession | Decision::AllowAlways)
        )
    };
    approval_action(letter).filter(|action| has_rule || !keeps_rule(action))
}

/// A key this soon after typed text was meant for the text.
const HASTE: Duration = Duration::from_millis(600);

/// Whether a key pressed `now` may be meant for a question, when a line was typed at `typed`.
pub(super) fn is_deliberate(now: Instant, typed: Option<Instant>) -> bool {
    typed.is_none_or(|typed| now.saturating_duration_since(typed) >= HASTE)
}

/// A line typed while a turn runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    /// What was typed.
    pub(super) text: String,
    /// When a key was last pressed.
    pub(super) touched: Option<Instant>,
}

impl Draft {
    /// Takes a key; the line when Enter ended it.
    pub(super) fn take(&mut self, key: &Key, now: Instant) -> Option<String> {
        match key {
            Key::Char(ch) => self.text.push(*ch),
            Key::Paste(text) => self.text.push_str(text),
            Key::Backspace => drop(self.text.pop()),
            Key::CtrlU | Key::Esc => self.text.clear(),
            Key::CtrlW | Key::Alt('\u{7f}' | '\u{8}') => {
                let kept = self
                    .text
                    .trim_end()
                    .rfind(char::is_whitespace)
                    .map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            Key::Alt('\r' | '\n') => self.text.push('\n'),
            Key::Alt(ch) => self.text.push(*ch),
            Key::Enter => {
                self.touched = (!self.text.is_empty()).then_some(now);
                return Some(std::mem::take(&mut self.text));
            }
            Key::CtrlC | Key::CtrlD | Key::Other => return None,
        }
        // Who emptied the line is done with it.
        self.touched = (!self.text.is_empty()).then_some(now);
        None
    }
}

/// The terminal's keys, raw, until it is dropped.
pub(super) struct RawKeys {
    input: AsyncFd<OwnedFd>,
    parser: Parser,
    ready: VecDeque<Key>,
    /// When what has begun with Esc is complete as it is. Kept here, because the wait itself is dropped often.
    due: Option<Instant>,
    _raw: Raw,
}

struct Raw {
    dumb: bool,
}

impl Raw {
    fn enter_mode(dumb: bool) -> std::io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        if !dumb {
            write_sequence("\u{1b}[?2004h\u{1b}[?25l");
        }
        Ok(Self { dumb })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if !self.dumb {
            write_sequence("\u{1b}[?25h\u{1b}[?2004l");
        }
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

fn write_sequence(sequence: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = out.write_all(sequence.as_bytes());
    let _ = out.flush();
}

impl RawKeys {
    /// Takes the terminal over; a dumb one is told nothing.
    pub(super) fn open(dumb: bool) -> std::io::Result<Self> {
        #[expect(
            deprecated,
            reason = "sound for an owned descriptor; its successor is unsafe to call"
        )]
        let input = AsyncFd::new(rustix::io::dup(std::io::stdin())?)?;
        Ok(Self {
            input,
            parser: Parser::default(),
            ready: VecDeque::new(),
            due: None,
            _raw: Raw::enter_mode(dumb)?,
        })
    }

    /// The next key; none when the terminal is gone. Safe to drop at any time.
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
            // The descriptor blocks (it is shared with whoever started us), so it is read only when it is ready.
            if !is_ready(self.input.get_ref())? {
                guard.clear_ready();
                continue;
            }
            let mut bytes = [0; 1_024];
            match rustix::io::read(self.input.get_ref(), &mut bytes) {
                Ok(0) => return None,
                Ok(n) => {
                    self.ready.extend(self.parser.push(&bytes[..n]));
                    self.due = self.parser.wait().map(|wait| clock::now() + wait);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Waits until then; for ever without a time.
pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
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
    fn bytes_become_keys_however_they_are_cut() {
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
            // An arrow key is `ESC [ A`, which starts like "other" and ends like a letter.
            assert_eq!(got, keys, "cut at {cut}");
        }
    }

    #[test]
    fn esc_is_a_key_and_eats_no_other() {
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
        // The rest of an arrow key is no letter, however late it comes.
        assert_eq!(parser.push(b"\x1b["), []);
        assert_eq!(parser.wait(), Some(SEQUENCE));
        assert_eq!(parser.push(b"A"), [Key::Other]);
        assert_eq!(parser.push(b"\x1b[1;"), []);
        assert_eq!(parser.flush(), Key::Other);
        assert_eq!(parser.wait(), None);
    }

    #[test]
    fn the_one_table_answers_a_question() {
        for letter in (0..=255u8).map(char::from) {
            for has_rule in [false, true] {
                let action = answer_of(letter, has_rule);
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

    #[tokio::test(start_paused = true)]
    async fn who_types_does_not_answer_by_accident() {
        let start = clock::now();
        let after = |ms| start + Duration::from_millis(ms);
        assert!(is_deliberate(start, None));
        assert!(!is_deliberate(after(100), Some(start)));
        assert!(is_deliberate(after(600), Some(start)));
        // A line that was emptied is not being typed any more.
        let mut draft = Draft::default();
        for (key, touched) in [
            (Key::Char('a'), true),
            (Key::Backspace, false),
            (Key::Paste("b".into()), true),
            (Key::Esc, false),
            (Key::Char('c'), true),
            (Key::CtrlU, false),
            (Key::Enter, false),
            (Key::Char('d'), true),
            (Key::Enter, true),
        ] {
            draft.take(&key, start);
            assert_eq!(draft.touched.is_some(), touched, "{key:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_typed_and_mended() {
        let mut draft = Draft::default();
        let now = clock::now();
        for ch in "add a tst".chars() {
            assert_eq!(draft.take(&Key::Char(ch), now), None);
        }
        draft.take(&Key::CtrlW, now);
        draft.take(&Key::Paste("testt".into()), now);
        draft.take(&Key::Backspace, now);
        // What begins with Esc empties no line that is being typed.
        for key in [Key::Alt('\r'), Key::Alt('b'), Key::Alt('\u{7f}')] {
            draft.take(&key, now);
        }
        assert_eq!(draft.text, "add a test\n");
        draft.take(&Key::Backspace, now);
        assert_eq!(draft.take(&Key::Enter, now).unwrap(), "add a test");
        assert_eq!(draft.text, "");
    }
}
