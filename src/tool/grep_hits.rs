//! What `grep` gives: matching lines, paths, or counts, from an offset on and up to a limit.
//!
//! The result ends where the limit is reached, and says how to go on; its middle is never cut. Must not open files:
//! [`super::grep`] searches, and reports each match here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;

use super::walk::MAX_RESULTS;
use super::{ToolContext, files};

/// Longest result, in bytes, without the last results' rest and the notes at the end.
pub(super) const MAX_BYTES: usize = 12_000;
/// Longest line shown, in characters.
const MAX_LINE: usize = 500;
/// How many characters before a match are shown of a longer line.
const LEAD: usize = 100;

/// What a result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputMode {
    /// A matching line, with its context.
    #[default]
    Content,
    /// A file with a match.
    FilesWithMatches,
    /// A file with the number of its matches.
    Count,
}

/// The results found so far.
pub(super) struct GrepOutput {
    text: String,
    mode: OutputMode,
    /// Whether context lines are shown.
    has_context: bool,
    /// How many results are left out at the start.
    offset: usize,
    limit: usize,
    max_bytes: usize,
    /// All results so far, those left out at the start included.
    results: usize,
    /// All matches in files that were counted.
    matches: usize,
    is_full: bool,
}

impl GrepOutput {
    pub(super) fn new(
        mode: OutputMode,
        has_context: bool,
        offset: usize,
        limit: Option<usize>,
        max_bytes: usize,
    ) -> Self {
        Self {
            max_bytes,
            text: String::new(),
            mode,
            has_context,
            offset,
            limit: limit.unwrap_or(MAX_RESULTS).clamp(1, MAX_RESULTS),
            results: 0,
            matches: 0,
            is_full: false,
        }
    }

    /// Returns whether there are more results than fit.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether there are no results.
    pub(super) fn is_empty(&self) -> bool {
        self.results == 0
    }

    /// Counts a result, and returns whether it is shown; `None` if no more fit.
    fn add_result(&mut self) -> Option<bool> {
        if self.results >= self.offset.saturating_add(self.limit) || self.text.len() > self.max_bytes {
            self.is_full = true;
            return None;
        }
        self.results += 1;
        Some(self.results > self.offset)
    }

    /// Returns the results, and a note about what is missing.
    pub(super) fn into_text(self, is_complete: bool) -> String {
        let mut text = self.text;
        if self.is_full {
            let _ = writeln!(
                text,
                "[results {} to {}; there are more: continue with offset {}, or narrow the search]",
                self.offset + 1,
                self.results,
                self.results
            );
        } else if text.is_empty() && is_complete {
            let _ = match self.results {
                0 => writeln!(text, "no matches"),
                results => writeln!(
                    text,
                    "no matches from offset {} on; there are {results}",
                    self.offset
                ),
            };
        } else if self.mode == OutputMode::Count && is_complete {
            let matches = if self.matches == 1 { "match" } else { "matches" };
            let files = if self.results == 1 { "file" } else { "files" };
            let _ = writeln!(text, "[{} {matches} in {} {files}]", self.matches, self.results);
        }
        text
    }
}

/// Collects the matches in one file.
pub(super) struct HitCollector<'a> {
    out: &'a mut GrepOutput,
    cx: &'a ToolContext,
    matcher: &'a RegexMatcher,
    /// Finds the place in a long line that is shown.
    place_matcher: &'a RegexMatcher,
    path: &'a Path,
    /// The formatted path; `None` before the first line.
    display_path: Option<String>,
    /// Lines and separators before the next match, to show with it.
    pending: String,
    /// Whether the last match was shown, so that the lines after it are, too.
    is_shown: bool,
    /// The matches in this file.
    count: usize,
    /// Bytes and results before this file.
    before: (usize, usize),
}

impl<'a> HitCollector<'a> {
    pub(super) fn new(
        out: &'a mut GrepOutput,
        cx: &'a ToolContext,
        [matcher, place_matcher]: [&'a RegexMatcher; 2],
        path: &'a Path,
    ) -> Self {
        let before = (out.text.len(), out.results);
        Self {
            out,
            cx,
            matcher,
            place_matcher,
            path,
            display_path: None,
            pending: String::new(),
            is_shown: false,
            count: 0,
            before,
        }
    }

    /// Shows `path` as it is.
    pub(super) fn with_display_path(mut self, path: &str) -> Self {
        self.display_path = Some(path.to_owned());
        self
    }

    /// Returns whether this file has results.
    pub(super) fn has_results(&self) -> bool {
        self.out.results > self.before.1
    }

    fn name_path(&mut self) -> String {
        let path = || files::display_path(self.cx, self.path);
        self.display_path.get_or_insert_with(path).clone()
    }

    fn format_lines(&mut self, sign: char, first: Option<u64>, bytes: &[u8]) -> String {
        let matcher = (sign == ':').then_some(self.place_matcher);
        let path = self.name_path();
        let text = String::from_utf8_lossy(bytes);
        let mut lines = String::new();
        for (number, line) in
            (first.unwrap_or_default()..).zip(text.trim_end_matches(['\n', '\r']).split('\n'))
        {
            let line = line.trim_end_matches('\r');
            let line = replace_binary(line);
            let visible = shorten_line(&line, matcher);
            let _ = writeln!(lines, "{path}{sign}{number}{sign}{visible}");
            if lines.len() > self.out.max_bytes {
                lines.push_str("[… the rest of the match is left out …]\n");
                break;
            }
        }
        lines
    }

    /// Adds the lines of a match; `false` if no more fit.
    fn add_match(&mut self, first: Option<u64>, bytes: &[u8]) -> bool {
        if self.out.mode == OutputMode::Count {
            self.count += 1;
            return true;
        }
        let Some(is_shown) = self.out.add_result() else {
            return false;
        };
        self.is_shown = is_shown;
        let mut pending = std::mem::take(&mut self.pending);
        if is_shown {
            if self.out.text.len() == self.before.0 {
                // The first one of this file: what separates it from matches that are left out is not shown.
                if pending.starts_with("--\n") {
                    pending.drain(..3);
                }
                if self.out.has_context && !self.out.text.is_empty() {
                    self.out.text.push_str("--\n");
                }
            }
            self.out.text.push_str(&pending);
            let lines = self.format_lines(':', first, bytes);
            self.out.text.push_str(&lines);
        }
        true
    }
}

/// Returns a line without binary content: `[binary content]` in place of a line with many unreadable characters, and
/// none of them in a line with a NUL character.
fn replace_binary(line: &str) -> Cow<'_, str> {
    // Logs contain the escapes of colors.
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\u{1b}');
    // Text in an old encoding has unreadable characters, but none of these.
    if !line.contains(is_control) {
        return line.into();
    }
    let is_unreadable = |letter: char| letter == char::REPLACEMENT_CHARACTER || is_control(letter);
    let unreadable = line.chars().filter(|letter| is_unreadable(*letter)).count();
    if unreadable * 10 > line.chars().count() {
        return "[binary content]".into();
    }
    if line.contains('\0') {
        return line.replace(is_unreadable, "\u{fffd}").into();
    }
    line.into()
}

/// Returns what is shown of a line: its start, or, if the first match is beyond that, the text round the match.
fn shorten_line<'a>(line: &'a str, matcher: Option<&RegexMatcher>) -> Cow<'a, str> {
    let end_of = |from: usize| line[from..].char_indices().nth(MAX_LINE).map(|(at, _)| from + at);
    let Some(mut end) = end_of(0) else {
        return line.into();
    };
    let mut from = 0;
    let found = matcher.and_then(|matcher| matcher.find(line.as_bytes()).ok().flatten());
    if let Some(found) = found.filter(|found| found.end() > end) {
        let before = &line[..line.floor_char_boundary(found.start())];
        from = before.char_indices().rev().nth(LEAD - 1).map_or(0, |(at, _)| at);
        end = end_of(from).unwrap_or(line.len());
    }
    let skipped = if from > 0 {
        format!("[… {from} bytes …] ")
    } else {
        String::new()
    };
    let cut = if end < line.len() { " [… cut …]" } else { "" };
    format!("{skipped}{}{cut}", &line[from..end]).into()
}

/// Returns the lines of each match in `whole`; those that share a line are one.
fn split_hit(matcher: &RegexMatcher, buffer: &[u8], whole: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let searched = matcher.find_iter_at(buffer, whole.start, |found| {
        if found.start() >= whole.end {
            return false;
        }
        let start = memchr::memrchr(b'\n', &buffer[whole.start..found.start()])
            .map_or(whole.start, |at| whole.start + at + 1);
        // The end of its last line, which it may contain.
        let last = found.end().min(whole.end).saturating_sub(1).max(found.start());
        let end = memchr::memchr(b'\n', &buffer[last..whole.end]).map_or(whole.end, |at| last + at + 1);
        match ranges.last_mut() {
            Some(before) if before.end > start => before.end = before.end.max(end),
            _ => ranges.push(start..end),
        }
        true
    });
    searched.map(|()| ranges).map_err(io::Error::other)
}

impl Sink for HitCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.out.mode {
            OutputMode::Content | OutputMode::Count => {
                let (whole, buffer) = (found.bytes_range_in_buffer(), found.buffer());
                // If a match may span lines, the searcher joins those on adjacent lines.
                let ranges = if searcher.multi_line_with_matcher(self.matcher) {
                    split_hit(self.matcher, buffer, &whole)?
                } else {
                    vec![whole.clone()]
                };
                let (mut line, mut at) = (found.line_number(), whole.start);
                Ok(ranges.into_iter().all(|range| {
                    let skipped = memchr::memchr_iter(b'\n', &buffer[at..range.start]).count();
                    line = line.map(|line| line + skipped as u64);
                    at = range.start;
                    self.add_match(line, &buffer[range])
                }))
            }
            OutputMode::FilesWithMatches => {
                if self.out.add_result() == Some(true) {
                    let path = self.name_path();
                    let _ = writeln!(self.out.text, "{path}");
                }
                // One match is enough, so the search of this file ends.
                Ok(false)
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let lines = self.format_lines('-', context.line_number(), context.bytes());
        match *context.kind() {
            // It leads to a match that may be left out, or may not fit.
            SinkContextKind::Before => self.pending.push_str(&lines),
            SinkContextKind::After | SinkContextKind::Other if self.is_shown => {
                self.out.text.push_str(&lines);
            }
            SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.pending = "--\n".to_owned();
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        if self.out.mode == OutputMode::Count
            && self.count > 0
            && let Some(is_shown) = self.out.add_result()
        {
            self.out.matches += self.count;
            if is_shown {
                let path = self.name_path();
                let _ = writeln!(self.out.text, "{path}:{}", self.count);
            }
        }
        Ok(())
    }
}
