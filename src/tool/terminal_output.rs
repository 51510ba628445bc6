//! Turns the raw output of a command into what the model reads.
//!
//! Removes escape sequences, folds overwritten lines to their last state, and cuts the middle; if it cuts, the complete
//! output is kept elsewhere. Memory is bounded for any input. Must not start or read anything itself. Where the complete
//! output can be read is [`super::stored_output`]'s business.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{ContentSink, ContentWriter, ToolContext};
use crate::base::text::{prefix_within, strip_control_characters, suffix_within};
use crate::domain::ContentRef;
use crate::workspace::{GatheredOutput, MakeCollector, OutputCollector};

/// Bytes of output that the model receives (R-TOOL-1), half from the start and half from the end. All of it stays in the
/// history, so every later step pays for it; the rest can be read on demand.
///
/// A final line end and the status lines below the output do not count.
const MAX_BYTES: usize = 11_000;
/// Longest line folded as one, in bytes.
const MAX_LINE: usize = 16 << 10;
/// Size in bytes of the pieces in which long output is kept. Shorter output is kept only if it is cut at the end.
const KEEP_PIECE: usize = 256 << 10;

/// Collects the output of a command.
pub(super) struct CommandText {
    fold: LineFold,
    bytes: u64,
    /// The number of U+FFFD in it: pieces of bytes that are no text.
    unreadable: u64,
    /// Output that was not handed over for keeping yet.
    pending: String,
    storage: OutputStorage,
}

/// The state of keeping the complete output.
enum OutputStorage {
    Idle {
        keep: Arc<dyn ContentSink>,
        name: String,
    },
    Writing(tokio::task::JoinHandle<Writer>),
}

/// The content being written, or the reason why it is not.
type Writer = Result<Box<dyn ContentWriter>, String>;

impl CommandText {
    /// Starts with no output. The model receives at most `max_bytes` of it; the complete output would be kept in `keep`
    /// as `name`.
    pub(super) fn new(keep: Arc<dyn ContentSink>, name: String, max_bytes: usize) -> Self {
        Self {
            fold: LineFold::new(max_bytes.min(MAX_BYTES)),
            bytes: 0,
            unreadable: 0,
            pending: String::new(),
            storage: OutputStorage::Idle { keep, name },
        }
    }

    /// Adds the next output.
    pub(super) fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        if !is_plain(text) {
            self.unreadable += text.matches(char::REPLACEMENT_CHARACTER).count() as u64;
        }
        self.fold.push(text);
        self.pending.push_str(text);
    }

    /// Waits until there is room for more: not at all unless the disk is slower than the command.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn wait_for_room(&mut self) {
        if self.pending.len() >= KEEP_PIECE {
            self.write_pending().await;
        }
    }

    /// Ends the output: returns what the model receives, and where the complete output is.
    pub(super) async fn finish(mut self) -> GatheredOutput {
        let fold = std::mem::replace(&mut self.fold, LineFold::new(0));
        let (mut text, mut cut) = fold.into_text(self.bytes);
        // A tenth. A few may be in the names of files.
        if self.unreadable > 16 && self.unreadable * 30 > self.bytes {
            (text, cut) = (describe_binary(&text, self.bytes - 2 * self.unreadable), true);
        }
        // The model has the complete output, so no copy is needed.
        if !cut && matches!(self.storage, OutputStorage::Idle { .. }) {
            return GatheredOutput { text, full: None };
        }
        self.write_pending().await;
        match self.end_keeping().await {
            Ok(full) => GatheredOutput {
                text,
                full: Some(full),
            },
            // The output is useful without the copy, so this is not a failure of the call.
            Err(reason) => GatheredOutput {
                text: format!("{text}\n[could not keep the whole output: {reason}]"),
                full: None,
            },
        }
    }

    /// Waits for the previous write and starts writing what is pending.
    async fn write_pending(&mut self) {
        let writing = match &mut self.storage {
            // No await between taking the piece and storing the new task: a dropped future would lose the piece.
            OutputStorage::Writing(before) => {
                let writer = before.await.unwrap_or_else(|error| Err(error.to_string()));
                let piece = std::mem::take(&mut self.pending);
                tokio::task::spawn_blocking(move || append_piece(writer?, &piece))
            }
            OutputStorage::Idle { keep, name } => {
                let (keep, name) = (keep.clone(), name.clone());
                let piece = std::mem::take(&mut self.pending);
                tokio::task::spawn_blocking(move || append_piece(keep.create_writer(&name)?, &piece))
            }
        };
        self.storage = OutputStorage::Writing(writing);
    }

    async fn end_keeping(self) -> Result<ContentRef, String> {
        let OutputStorage::Writing(last) = self.storage else {
            return Err("nothing was written".to_owned());
        };
        let writer = last.await.map_err(|error| error.to_string())??;
        tokio::task::spawn_blocking(move || writer.finish())
            .await
            .map_err(|error| error.to_string())?
    }
}

impl OutputCollector for CommandText {
    fn push(&mut self, text: &str) {
        self.push(text);
    }

    fn wait_for_room(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait_for_room())
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, GatheredOutput> {
        Box::pin((*self).finish())
    }
}

/// Returns what collects the output of the background process that this call starts.
pub(super) fn collect_in_background(cx: &ToolContext) -> MakeCollector {
    let (sink, call) = (cx.content_sink.clone(), cx.call.clone());
    let max_bytes = cx.max_result_bytes(MAX_BYTES);
    let mut reads = 0_u32;
    MakeCollector(Box::new(move || {
        reads += 1;
        Box::new(CommandText::new(
            sink.clone(),
            format!("{call}-background-{reads}.txt"),
            max_bytes,
        ))
    }))
}

/// Returns the lines before the first one that is no text, and says what is missing.
fn describe_binary(text: &str, bytes: u64) -> String {
    let is_text = |line: &&str| !line.contains(char::REPLACEMENT_CHARACTER);
    let readable: String = text.split_inclusive('\n').take_while(is_text).collect();
    format!(
        "{readable}[binary output, about {bytes} bytes, not shown; look at it with a command such as file, xxd, or strings]"
    )
}

fn append_piece(mut writer: Box<dyn ContentWriter>, piece: &str) -> Writer {
    writer.append_text(piece)?;
    Ok(writer)
}

/// Cuts the middle out of `text`, at ends of lines where they are near, so that about `max` bytes remain.
///
/// Returns `None` if `text` fits uncut.
pub fn cut_long_text(text: &str, max: usize) -> Option<String> {
    let mut ends = OutputEnds::new(max);
    ends.push(text);
    let (cut, is_cut) = ends.into_text(text.len() as u64);
    is_cut.then_some(cut)
}

/// Folds lines and keeps both ends of the result.
#[derive(Debug)]
struct LineFold {
    ends: OutputEnds,
    /// The line so far, since its start or the last carriage return.
    line: String,
    /// What the line showed before that carriage return.
    before: String,
    /// The start of an overlong line has already been passed on.
    is_continuation: bool,
}

impl LineFold {
    fn new(max_bytes: usize) -> Self {
        Self {
            ends: OutputEnds::new(max_bytes),
            line: String::new(),
            before: String::new(),
            is_continuation: false,
        }
    }

    fn push(&mut self, text: &str) {
        let mut parts = text.split('\r');
        self.push_part(parts.next().unwrap_or_default());
        for part in parts {
            self.carriage_return();
            self.push_part(part);
        }
    }

    /// Adds text without carriage returns.
    fn push_part(&mut self, part: &str) {
        let Some((first, rest)) = part.split_once('\n') else {
            self.extend_line(part);
            return;
        };
        self.extend_line(first);
        self.end_line();
        let (lines, last) = rest.rsplit_once('\n').unwrap_or(("", rest));
        if rest.len() > last.len() {
            // Most output is plain, so whole blocks of lines skip the work per line.
            if is_plain(lines) {
                self.ends.push(lines);
                self.ends.push("\n");
            } else if lines.contains(['\u{1b}', '\u{9b}', '\u{8}']) {
                // Line by line: an unterminated sequence must not swallow the lines after it.
                for line in lines.split('\n') {
                    self.extend_line(line);
                    self.end_line();
                }
            } else {
                self.ends.push(&strip_control_characters(lines));
                self.ends.push("\n");
            }
        }
        self.extend_line(last);
    }

    fn extend_line(&mut self, mut text: &str) {
        while self.line.len() + text.len() > MAX_LINE {
            let available = MAX_LINE - self.line.len();
            let (now, later) = text.split_at(text.floor_char_boundary(available));
            self.line.push_str(now);
            self.ends.push(&render_line(&self.line));
            self.line.clear();
            self.before.clear();
            self.is_continuation = true;
            text = later;
        }
        self.line.push_str(text);
    }

    /// Starts overwriting the line.
    fn carriage_return(&mut self) {
        let now = render_line(&self.line);
        if !now.trim().is_empty() {
            self.before = now.into_owned();
        }
        self.line.clear();
        // The start of an overlong line is out already and cannot be overwritten.
        if self.is_continuation {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        self.flush_line();
        self.ends.push("\n");
    }

    fn flush_line(&mut self) {
        let now = render_line(&self.line);
        // If nothing visible was written over the line, it still shows what was there before.
        let last = if now.trim().is_empty() && !self.before.is_empty() {
            self.before.as_str()
        } else {
            &now
        };
        self.ends.push(last);
        self.line.clear();
        self.before.clear();
        self.is_continuation = false;
    }

    /// Returns the text, and whether it was cut. `bytes` is the length of all output.
    fn into_text(mut self, bytes: u64) -> (String, bool) {
        self.flush_line();
        self.ends.into_text(bytes)
    }
}

/// Returns whether nothing has to be removed from `text` for certain. Fast, since most output is plain.
fn is_plain(text: &str) -> bool {
    let harmless = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
    text.as_bytes().iter().all(harmless)
}

/// Renders a line approximately as a terminal shows it.
fn render_line(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{8}') {
        return strip_control_characters(line);
    }
    let mut rubbed = String::with_capacity(line.len());
    for ch in line.chars() {
        if ch == '\u{8}' {
            rubbed.pop();
        } else {
            rubbed.push(ch);
        }
    }
    strip_control_characters(&rubbed).into_owned().into()
}

/// The start and the end of a text; the part in between is dropped.
#[derive(Debug, Default)]
struct OutputEnds {
    /// The longest text that is not cut, in bytes.
    max: usize,
    head: String,
    tail: String,
    bytes: u64,
    line_feeds: u64,
}

impl OutputEnds {
    fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.line_feeds += count_line_feeds(text);
        let mut rest = text;
        // Nothing may join the head once the tail has started.
        if self.tail.is_empty() {
            let (head, later) = rest.split_at(rest.floor_char_boundary(self.max / 2 - self.head.len()));
            self.head.push_str(head);
            rest = later;
        }
        let most = self.max_tail();
        self.tail.push_str(suffix_within(rest, most));
        // Shortened only at twice the length, so that not every push copies the tail.
        if self.tail.len() > 2 * most {
            self.tail = suffix_within(&self.tail, most).to_owned();
        }
    }

    /// Returns the longest tail that is kept, in bytes: what the head leaves, plus a final line end.
    fn max_tail(&self) -> usize {
        self.max - self.head.len() + 1
    }

    fn into_text(self, all: u64) -> (String, bool) {
        let most = self.max_tail() - usize::from(!self.tail.ends_with('\n'));
        let tail = suffix_within(&self.tail, most);
        if self.bytes == (self.head.len() + tail.len()) as u64 {
            return (self.head + tail, false);
        }
        // Cut at line ends if they are near.
        let head_end = self.head.rfind('\n').filter(|at| self.head.len() - at < NEAR);
        let head = prefix_within(&self.head, head_end.unwrap_or(self.head.len()));
        let tail_start = tail.find('\n').filter(|at| *at < NEAR);
        let tail = &tail[tail_start.map_or(0, |at| at + 1)..];
        let bytes = self.bytes - (head.len() + tail.len()) as u64;
        // The line feed between the head and the note is one of the text if the head was cut there.
        let lines =
            self.line_feeds - count_line_feeds(head) - count_line_feeds(tail) - u64::from(head_end.is_some());
        (
            format!("{head}\n[… {bytes} bytes of {all} left out here, {lines} lines …]\n{tail}"),
            true,
        )
    }
}

fn count_line_feeds(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// How far a cut may move to a line end, in bytes.
const NEAR: usize = 1_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::ToolHarness;
    use super::*;

    fn fold(pieces: &[&str]) -> (String, bool) {
        let mut fold = LineFold::new(MAX_BYTES);
        pieces.iter().for_each(|piece| fold.push(piece));
        fold.into_text(pieces.iter().map(|piece| piece.len() as u64).sum())
    }

    #[test]
    fn lines_are_folded_to_their_last_state() {
        for (raw, want) in [
            ("", ""),
            ("a\nb", "a\nb"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("10%\r20%\r30%\nok\n", "30%\nok\n"),
            ("10%\r20%\r30%", "30%"),
            ("10%\r20%\r", "20%"),
            ("20%\r\u{1b}[K\nok", "20%\nok"),
            ("20%\r   \rok\n", "ok\n"),
            ("\r\n\r\n", "\n\n"),
            ("\u{1b}[32mgreen\u{1b}[0m\n", "green\n"),
            ("a\n\u{1b}[1mb\nc\u{1b}]0;never ended\nd\n", "a\nb\nc\nd\n"),
            ("|\u{8}/\u{8}-\u{8}done\n", "done\n"),
            ("N\u{8}NA\u{8}A\n", "NA\n"),
            ("null\0bell\u{7}\n", "nullbell\n"),
            ("é\r\u{fffd}\n", "\u{fffd}\n"),
        ] {
            assert_eq!(fold(&[raw]), (want.to_owned(), false), "{raw:?}");
            // The same result in pieces of one character.
            let chars: Vec<String> = raw.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            assert_eq!(fold(&chars), (want.to_owned(), false), "{raw:?} in pieces");
        }
    }

    #[tokio::test]
    async fn output_that_is_mostly_no_text_is_called_binary() {
        let show = async |text: &str| {
            let harness = ToolHarness::new();
            let sink = harness.cx.content_sink.clone();
            let mut collected = CommandText::new(sink, "call".to_owned(), MAX_BYTES);
            text.split_inclusive('\n').for_each(|line| collected.push(line));
            collected.finish().await.text
        };
        let noise = "\u{fffd}PNG\u{fffd}\u{fffd}\n".repeat(20);
        let shown = show(&format!("first\n{noise}")).await;
        assert!(
            shown.starts_with("first\n[binary output, about 146 bytes, not shown; look at it with"),
            "{shown}"
        );
        for text in [
            "a\0b\0c\0".repeat(50),
            "Stra\u{fffd}e und weiter und weiter\n".repeat(50),
            "\u{fffd}\n".repeat(16),
            "日本語\n".repeat(50),
        ] {
            assert!(!show(&text).await.contains("binary"), "{text:?}");
        }
    }

    #[test]
    fn a_progress_bar_costs_one_line() {
        let bar: String = (0..100_000).map(|n| format!("\r{n} of 99999")).collect();
        assert_eq!(
            fold(&[&bar, "\ndone\n"]),
            ("99999 of 99999\ndone\n".to_owned(), false)
        );
    }

    #[test]
    fn the_middle_is_cut_on_lines_and_the_cut_is_stated() {
        let lines: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let (text, cut) = fold(&[&lines]);
        assert!(cut && text.starts_with("line 0\nline 1\n") && text.ends_with("line 9998\nline 9999\n"));
        assert!(text.len() <= MAX_BYTES + 100);
        let marker = text.lines().find(|line| line.starts_with('[')).unwrap();
        let omitted: usize = marker.split(' ').nth(1).unwrap().parse().unwrap();
        let shown = text.lines().count() - 1;
        assert_eq!(
            marker,
            format!(
                "[… {omitted} bytes of {} left out here, {} lines …]",
                lines.len(),
                10_000 - shown
            )
        );
        assert_eq!(text.len() - marker.len() - 2 + omitted, lines.len());
        assert!(
            text.lines()
                .all(|line| line == marker || line.starts_with("line "))
        );
    }

    #[test]
    fn output_within_the_limit_is_complete() {
        for fits in ["é".repeat(MAX_BYTES / 2), "x".repeat(MAX_BYTES)] {
            assert_eq!(fold(&[&fits]), (fits.clone(), false));
            assert_eq!(fold(&[&fits, "\n"]), (fits.clone() + "\n", false));
            assert!(fold(&[&fits, "x"]).1);
            assert!(fold(&[&fits, "\n\n"]).1);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_split_into_pieces_does_not_matter(raw in "([a-cé\r\n\u{8}]|\u{1b}\\[[0-9]m){0,60}", times in 1_usize..2_000, size in 1_usize..9_000) {
            let raw = raw.repeat(times);
            let mut pieces = Vec::new();
            let mut rest = raw.as_str();
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
                pieces.push(piece);
                rest = later;
            }
            prop_assert_eq!(fold(&pieces), fold(&[&raw]));
        }

        #[test]
        fn arbitrary_text_neither_panics_nor_exceeds_the_limit(pieces in prop::collection::vec(any::<String>(), 0..20), times in 1_usize..2_000) {
            let pieces: Vec<String> = pieces.iter().map(|piece| piece.repeat(times)).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (text, _) = fold(&pieces);
            prop_assert!(text.len() <= MAX_BYTES + 150);
            let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
            prop_assert!(text.chars().all(harmless));
        }
    }
}
