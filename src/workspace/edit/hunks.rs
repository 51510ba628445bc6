//! The hunks of a patch: lines to keep, to remove, and to add, found in a text by their lines. Pure.
//!
//! A hunk must fit at one place by whole lines, exactly or as in `whole_lines`. `@@` lines and the mark of the file's
//! end only choose among places. All hunks are found in the same text and must not overlap. Whatever is not certain is
//! refused, with the place that may be meant.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::closest::{self, EarlierEdit};
use super::replacement::Replacement;
use super::unwrap::{Reading, apply_readings, describe_closest, list_readings};
use super::whole_lines::{self, FoldedText, WholeLines, find_run, fold, is_blank, split};
use super::{EditedText, UnixText, common_ends};
use crate::workspace::text_file::MAX_TEXT;

/// Some lines of a file and what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines above the place, from the outermost: a class, then its method. Each may be only the start of the line.
    pub headers: Vec<String>,
    pub lines: Vec<HunkLine>,
    /// Its lines are the last ones of the file.
    pub is_at_end: bool,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkLine {
    Keep(String),
    Remove(String),
    Add(String),
}

impl Hunk {
    /// Returns whether no line of the file with text in it says where the hunk belongs.
    pub(crate) fn has_no_text_of_the_file(&self) -> bool {
        self.old_lines().iter().all(|line| line.trim().is_empty())
    }

    fn old_lines(&self) -> Vec<&str> {
        let old = self.lines.iter().filter_map(|line| match line {
            HunkLine::Keep(line) | HunkLine::Remove(line) => Some(line.as_str()),
            HunkLine::Add(_) => None,
        });
        old.collect()
    }

    fn new_lines(&self) -> Vec<&str> {
        let new = self.lines.iter().filter_map(|line| match line {
            HunkLine::Keep(line) | HunkLine::Add(line) => Some(line.as_str()),
            HunkLine::Remove(_) => None,
        });
        new.collect()
    }
}

/// The hunk that cannot be applied. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", self.format_position_prefix())]
pub struct HunkError {
    /// Its position, from 1; 0 if several are meant.
    pub number: usize,
    /// The number of hunks in the file's part of the patch.
    pub of: usize,
    pub problem: String,
}

impl HunkError {
    fn format_position_prefix(&self) -> String {
        match (self.number, self.of) {
            (0, _) => String::new(),
            (_, 1) => "the hunk ".to_owned(),
            (number, of) => format!("hunk {number} of {of} "),
        }
    }
}

/// A replacement of bytes.
type Run = (Range<usize>, String);

/// Applies all hunks to a text, or none of them.
///
/// # Errors
/// The first hunk that does not fit at exactly one place, and the reason.
pub fn apply_hunks(text: &str, hunks: &[Hunk]) -> Result<EditedText, HunkError> {
    let failed = |number, problem| HunkError {
        number,
        of: hunks.len(),
        problem,
    };
    let unix = UnixText::from_original(text);
    let indexed = IndexedText::new(&unix.text);
    let (mut runs, mut notes, mut places): (Vec<Run>, Vec<String>, usize) = Default::default();
    for (number, hunk) in (1..).zip(hunks) {
        let placed = place_hunk(&indexed, hunk).map_err(|problem| failed(number, problem))?;
        let which = if hunks.len() > 1 {
            format!("hunk {number} ")
        } else {
            "the hunk ".to_owned()
        };
        notes.extend(placed.note.map(|note| which + &note));
        places += usize::from(!placed.runs.is_empty());
        runs.extend(placed.runs);
    }
    runs.sort_by_key(|(range, _)| (range.start, range.end));
    // Two insertions at the same place have no order.
    let overlaps = |pair: &[Run]| pair[0].0.end > pair[1].0.start || pair[0].0.start == pair[1].0.start;
    if runs.windows(2).any(overlaps) {
        let problem = "two hunks change the same lines; make them one hunk".to_owned();
        return Err(failed(0, problem));
    }
    let added: usize = runs.iter().map(|(_, new)| 2 * new.len()).sum();
    if text.len() + added > 2 * MAX_TEXT {
        return Err(failed(
            0,
            format!("the result would be larger than {} MiB", MAX_TEXT >> 20),
        ));
    }
    let edits = runs.iter().map(|(range, new)| (range.clone(), new.as_str()));
    Ok(EditedText {
        text: unix.replace_each(edits),
        places,
        notes,
    })
}

/// A text with its lines, looked through once for all hunks.
struct IndexedText<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    /// Where each line begins, and at last the text's end.
    starts: Vec<usize>,
    by_line: HashMap<&'t str, Vec<usize>>,
    folded: OnceCell<FoldedText<'t>>,
}

impl<'t> IndexedText<'t> {
    fn new(text: &'t str) -> Self {
        let lines = split(text);
        let (mut starts, mut by_line) = (vec![0], HashMap::<_, Vec<usize>>::new());
        let mut next = 0;
        for (at, line) in lines.iter().enumerate() {
            next += line.len() + 1;
            starts.push(next.min(text.len()));
            by_line.entry(*line).or_default().push(at);
        }
        Self {
            text,
            lines,
            starts,
            by_line,
            folded: OnceCell::new(),
        }
    }

    fn folded(&self) -> &FoldedText<'t> {
        self.folded.get_or_init(|| FoldedText::new(self.text))
    }
}

/// Where a hunk fits, as replacements.
#[derive(Default)]
struct PlacedHunk {
    runs: Vec<Run>,
    note: Option<String>,
}

impl PlacedHunk {
    fn skipped(reason: &str) -> Self {
        Self {
            runs: Vec::new(),
            note: Some(format!("was skipped: {reason}")),
        }
    }
}

fn place_hunk(indexed: &IndexedText, hunk: &Hunk) -> Result<PlacedHunk, String> {
    let (text, lines) = (indexed.text, &indexed.lines);
    if hunk.old_lines() == hunk.new_lines() {
        return Ok(PlacedHunk::skipped("it changes nothing"));
    }
    if hunk.old_lines().is_empty() {
        if !lines.is_empty() && !hunk.is_at_end {
            return Err(
                "has only new lines; add the lines around them, so that their place is clear".to_owned(),
            );
        }
        return Ok(PlacedHunk {
            runs: build_runs(indexed, hunk, lines.len()),
            note: None,
        });
    }
    if let Some(at) = find_exact(indexed, hunk)? {
        return Ok(PlacedHunk {
            runs: build_runs(indexed, hunk, at),
            note: None,
        });
    }
    let edit = Replacement {
        old: hunk.old_lines().join("\n"),
        new: hunk.new_lines().join("\n"),
        all: false,
    };
    let readings = list_readings(whole_lines::plain_blanks(text, edit));
    let apply = |reading: &Reading, scope| find_similar(indexed, hunk, reading, scope);
    let is_same = |one: &PlacedHunk, other: &PlacedHunk| one.runs == other.runs;
    let conflict =
        || "fits in two ways, with different results; copy the lines as the file has them".to_owned();
    if let Some(placed) = apply_readings(&readings, text, apply, is_same, conflict)? {
        return Ok(placed);
    }
    let edit = &readings[0].edit;
    let made = EarlierEdit::find(text, &edit.old, &edit.new);
    if let Some(EarlierEdit {
        line,
        is_certain: true,
    }) = made
    {
        let reason =
            format!("its old lines are not in the file, and its new ones are already there (line {line})");
        return Ok(PlacedHunk::skipped(&reason));
    }
    let made = made.map_or_else(String::new, |made| {
        format!(", but its new lines are at line {}", made.line)
    });
    let hint = describe_closest(text, &readings, "the patch");
    Err(format!("was not found{made}{hint}"))
}

/// Returns the line at which the old lines stand exactly; `None` if they stand nowhere.
fn find_exact(indexed: &IndexedText, hunk: &Hunk) -> Result<Option<usize>, String> {
    let old = hunk.old_lines();
    let find_line = |line: &&str| indexed.by_line.get(*line).map_or(&[][..], Vec::as_slice);
    let places = find_run(&indexed.lines, &old, find_line);
    choose_place(indexed, hunk, places, old.len())
}

/// Chooses among the lines at which the old lines fit; `None` if there is none.
fn choose_place(
    indexed: &IndexedText,
    hunk: &Hunk,
    mut places: Vec<usize>,
    count: usize,
) -> Result<Option<usize>, String> {
    let lines = indexed.lines.as_slice();
    if places.is_empty() {
        return Ok(None);
    }
    if hunk.is_at_end {
        let ends_text = |at: &usize| {
            lines
                .get(at + count..)
                .unwrap_or_default()
                .iter()
                .all(|line| is_blank(line))
        };
        places.retain(ends_text);
        if places.is_empty() {
            return Err("says that it is at the end of the file, but more lines follow there".to_owned());
        }
    }
    let headers = find_headers(indexed, &hunk.headers);
    if let Some(first) = headers.first() {
        places.retain(|at| first <= at);
        if places.is_empty() {
            let name = hunk.headers.join(" / ");
            return Err(format!("fits only above the line that its `@@ {name}` names"));
        }
        if places.len() > 1 {
            let sections = headers.iter().map(|header| find_section(lines, *header));
            let sections: Vec<Range<usize>> = sections.collect();
            let is_inside = |at: &usize| {
                let mut sections = sections.iter();
                sections.any(|section| section.contains(at) && at + count <= section.end)
            };
            let inside: Vec<usize> = places.iter().copied().filter(is_inside).collect();
            if inside.len() == 1 {
                places = inside;
            }
        }
    }
    match places[..] {
        [at] => Ok(Some(at)),
        _ => Err(describe_ambiguity(lines, &places, count)),
    }
}

fn describe_ambiguity(lines: &[&str], places: &[usize], count: usize) -> String {
    const MOST_NAMED: usize = 5;
    let numbers: Vec<usize> = places.iter().map(|at| at + 1).collect();
    let named: Vec<String> = numbers.iter().take(MOST_NAMED).map(usize::to_string).collect();
    let more = if numbers.len() > MOST_NAMED { ", …" } else { "" };
    format!(
        "fits at {} places (lines {}{more}); add lines, or a line `@@ ` with the function or class, until only one \
         fits{}",
        numbers.len(),
        named.join(", "),
        closest::list_places(&lines.join("\n"), &numbers, count)
    )
}

/// Returns the lines that the last of the headers names, in order, each below one for the header before it. Empty if a
/// header is not in the text: then it tells nothing.
fn find_headers(indexed: &IndexedText, headers: &[String]) -> Vec<usize> {
    let headers: Vec<String> = headers.iter().map(|header| fold(header)).collect();
    if headers.iter().all(String::is_empty) {
        return Vec::new();
    }
    let folded = indexed.folded();
    let mut found: Option<Vec<usize>> = None;
    for header in headers.iter().filter(|header| !header.is_empty()) {
        let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let is_start = |line: &str| {
            let rest = line.strip_prefix(header.as_str());
            rest.is_some_and(|rest| !rest.starts_with(is_of_word))
        };
        let mut next = folded.find_key(header).to_vec();
        if next.is_empty() {
            let begun = folded.iter_keys(header).filter(|(line, _)| is_start(line));
            next = begun.flat_map(|(_, lines)| lines).copied().collect();
            next.sort_unstable();
        }
        if let Some(above) = &found {
            next.retain(|at| above.first().is_some_and(|above| above < at));
        }
        found = Some(next);
    }
    found.unwrap_or_default()
}

/// Returns the lines from a header to the next line that is not indented more and has words.
fn find_section(lines: &[&str], header: usize) -> Range<usize> {
    let width = |line: &str| line.len() - line.trim_start().len();
    let is_end = |line: &&str| {
        width(line) <= width(lines[header]) && line.chars().any(|letter| letter.is_alphanumeric())
    };
    let length = lines[header + 1..].iter().position(is_end);
    header..length.map_or(lines.len(), |length| header + 1 + length)
}

/// Finds a hunk, as it is read, whose lines differ from the file in white space or typography; `None` if it is nowhere.
fn find_similar(
    indexed: &IndexedText,
    hunk: &Hunk,
    reading: &Reading,
    scope: Range<usize>,
) -> Result<Option<PlacedHunk>, String> {
    let (text, edit) = (indexed.text, &reading.edit);
    let found = if scope.len() == text.len() {
        indexed.folded().find(&edit.old, &edit.new)
    } else {
        whole_lines::find_within(text, scope, &edit.old, &edit.new)
    };
    let fitted = match found {
        WholeLines::Nowhere => return Ok(None),
        WholeLines::Unclear(reason) => {
            let hint = closest::describe(text, [(edit.old.as_str(), "the patch".to_owned())]);
            return Err(format!("was not found exactly, and {reason}{hint}"));
        }
        WholeLines::Once(fitted) => {
            // Blank lines around the old ones may be missing in the file.
            let count = split(&text[fitted.range.clone()]).len();
            choose_place(indexed, hunk, vec![fitted.line - 1], count)?;
            fitted
        }
        WholeLines::Often { lines, count } => {
            let places = lines.iter().map(|number| number - 1).collect();
            let Some(at) = choose_place(indexed, hunk, places, count)? else {
                return Ok(None);
            };
            // The last line may be the empty one behind the text's end.
            let start_of = |line: usize| indexed.starts.get(line).map_or(text.len(), |start| *start);
            let (start, end) = (start_of(at), start_of(at + count));
            let WholeLines::Once(found) = whole_lines::find_within(text, start..end, &edit.old, &edit.new)
            else {
                return Ok(None);
            };
            found
        }
    };
    let there = &text[fitted.range.clone()];
    if there == fitted.new {
        return Ok(Some(PlacedHunk::skipped(
            "the file already has this text, in its own form",
        )));
    }
    let (head, tail) = common_ends(there, &fitted.new);
    let range = fitted.range.start + head..fitted.range.end - tail;
    let new = fitted.new[head..fitted.new.len() - tail].to_owned();
    let is_exact = !reading.is_literal() && there.strip_suffix('\n').unwrap_or(there) == edit.old;
    let note = (!is_exact).then(|| {
        let line = fitted.line;
        format!(
            "differs from the file in white space or typography; made at line {line} in the file's own form"
        )
    });
    let note = reading.complete_note(note);
    Ok(Some(PlacedHunk {
        runs: vec![(range, new)],
        note,
    }))
}

/// Returns the replacements of a hunk whose old lines stand exactly at line `at`. Kept lines are in none.
fn build_runs(indexed: &IndexedText, hunk: &Hunk, at: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut next = at;
    let mut rest = hunk.lines.as_slice();
    while let Some(first) = rest.first() {
        if matches!(first, HunkLine::Keep(_)) {
            next += 1;
            rest = &rest[1..];
            continue;
        }
        let is_kept = |line: &HunkLine| matches!(line, HunkLine::Keep(_));
        let length = rest.iter().position(is_kept).unwrap_or(rest.len());
        let (mut removed, mut added) = (0, Vec::new());
        for line in &rest[..length] {
            match line {
                HunkLine::Add(line) => added.push(line.as_str()),
                HunkLine::Remove(_) | HunkLine::Keep(_) => removed += 1,
            }
        }
        runs.push(replace_lines(indexed, next..next + removed, &added));
        next += removed;
        rest = &rest[length..];
    }
    runs.retain(|(range, new)| indexed.text[range.clone()] != **new);
    runs
}

/// Returns the replacement of whole lines. A text without a line feed at its end stays so.
fn replace_lines(indexed: &IndexedText, replaced: Range<usize>, added: &[&str]) -> Run {
    let IndexedText {
        text, lines, starts, ..
    } = indexed;
    let (start, end) = (starts[replaced.start], starts[replaced.end]);
    let is_open_end = replaced.end == lines.len() && !text.is_empty() && !text.ends_with('\n');
    let joined = added.join("\n");
    match (is_open_end, added.is_empty()) {
        (false, true) => (start..end, String::new()),
        (false, false) => (start..end, joined + "\n"),
        // The line feed before it goes too.
        (true, true) => (start.saturating_sub(1)..end, String::new()),
        (true, false) if replaced.is_empty() => (start..end, format!("\n{joined}")),
        (true, false) => (start..end, joined),
    }
}

#[cfg(test)]
#[path = "hunks_tests.rs"]
mod tests;
