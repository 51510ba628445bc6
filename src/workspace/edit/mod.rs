//! Replacements in a text: several in one call, all or nothing. Pure. `hunks` are those of a patch.
//!
//! An old text must be at one place exactly, or, if it is nowhere, by whole lines that differ in white space and
//! typography only (`whole_lines`), perhaps without what models add to a text (`unwrap`). The result tells of each
//! that was not exact. Whatever is not certain is refused, with the place that may be meant (`closest`).
//!
//! A model writes `\n` whatever the file contains, so both sides are compared with `\r\n` read as `\n`. Only what
//! differs between old and new text is replaced, with the line ends of the place it goes to. All other bytes stay the
//! same, including mixed line ends and a missing final line feed.

mod closest;
mod hunks;
mod indentation;
mod replacement;
mod unwrap;
mod whole_lines;

use std::ops::Range;

use super::text_file::{MAX_TEXT, unix_lines};
use closest::EarlierEdit;
pub use hunks::{Hunk, HunkError, HunkLine, apply_hunks};
pub use replacement::Replacement;
use unwrap::{Reading, apply_readings, describe_closest, list_readings};
use whole_lines::WholeLines;

/// The result of a set of replacements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    pub text: String,
    /// The number of occurrences replaced.
    pub places: usize,
    /// What the model should know about edits that were skipped or did not match exactly, one for each.
    pub notes: Vec<String>,
}

/// The replacement that cannot be made. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", self.format_position_prefix())]
pub struct EditError {
    /// Its position, from 1; 0 if there was none.
    pub number: usize,
    /// The number of replacements in the call.
    pub of: usize,
    pub problem: EditProblem,
}

/// The reason why a replacement cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditProblem {
    #[error("no edits were given")]
    Nothing,
    /// An empty old text would match everywhere.
    #[error("old_text is empty; give the text to replace, or use write_file to write a whole file")]
    Empty,
    #[error("old_text was not found{hint}")]
    NotFound {
        /// The closest lines, or another hint, as the end of the sentence; may be empty.
        hint: String,
    },
    #[error(
        "old_text was found {count} times (lines {lines}); add lines round it until it is unique, or set \
         replace_all{places}"
    )]
    Ambiguous {
        count: usize,
        /// The line numbers of the first five.
        lines: String,
        /// The lines at these places.
        places: String,
    },
    #[error("old_text was found in cells {cells}; add lines round it until it is unique, or set replace_all")]
    InCells {
        /// The numbers of the cells, from 1.
        cells: String,
    },
    #[error("the file would no longer be a notebook ({reason})")]
    NotebookBroken {
        /// What a reader of notebooks would complain about.
        reason: String,
    },
    #[error(
        "new_text contains `{heading}`, which only read_file shows, and which is not in the source of a cell; to add a \
         cell, edit the file's JSON, which grep and bash show"
    )]
    CellHeading { heading: String },
    /// The result would exceed [`MAX_TEXT`].
    #[error("the result would be larger than {} MiB", MAX_TEXT >> 20)]
    TooLarge,
}

impl EditError {
    fn format_position_prefix(&self) -> String {
        match self.of {
            0 | 1 => String::new(),
            of => format!("edit {} of {of} (none was made): ", self.number),
        }
    }
}

/// Applies all replacements in order, each to the result of those before it; or none of them.
///
/// # Errors
/// The first replacement that cannot be made, and the reason.
pub fn apply(text: &str, edits: &[Replacement]) -> Result<EditedText, EditError> {
    let failed = |number, problem| EditError {
        number,
        of: edits.len(),
        problem,
    };
    if edits.is_empty() {
        return Err(failed(0, EditProblem::Nothing));
    }
    let mut edited = EditedText {
        text: text.to_owned(),
        places: 0,
        notes: Vec::new(),
    };
    for (number, edit) in (1..).zip(edits) {
        let outcome = apply_one(&edited.text, edit).map_err(|problem| failed(number, problem))?;
        if let Some((text, places)) = outcome.made {
            edited.text = text;
            edited.places += places;
        }
        let which = if edits.len() > 1 {
            format!("edit {number}: ")
        } else {
            String::new()
        };
        edited.notes.extend(outcome.note.map(|note| which + &note));
    }
    Ok(edited)
}

/// What became of one edit.
struct Outcome {
    /// The new text and the number of places; `None` if there was nothing to do.
    made: Option<(String, usize)>,
    note: Option<String>,
}

impl Outcome {
    fn skipped(note: impl Into<String>) -> Self {
        Self {
            made: None,
            note: Some(note.into()),
        }
    }
}

fn apply_one(text: &str, edit: &Replacement) -> Result<Outcome, EditProblem> {
    let edit = Replacement {
        old: unix_lines(&edit.old),
        new: unix_lines(&edit.new),
        all: edit.all,
    };
    if edit.old.is_empty() && text.is_empty() && !edit.new.is_empty() {
        return Ok(Outcome {
            made: Some((edit.new, 1)),
            note: Some("old_text is empty, and so was the file; new_text is its content now".to_owned()),
        });
    }
    if edit.old.is_empty() {
        return Err(EditProblem::Empty);
    }
    let unix = UnixText::from_original(text);
    if edit.old == edit.new && unix.text.contains(&edit.old) {
        return Ok(Outcome::skipped("skipped: old_text and new_text are the same"));
    }
    let whole = 0..unix.text.len();
    if let Some(made) = replace_exact(&unix, &edit, whole.clone())? {
        return Ok(Outcome {
            made: Some(made),
            note: None,
        });
    }
    if let Some((edit, last)) = without_final_newline(&unix.text, &edit)
        && let Some(made) = replace_exact(&unix, &edit, last)?
    {
        return Ok(Outcome {
            made: Some(made),
            note: Some("made without the final line break, which the file does not have".to_owned()),
        });
    }
    let edit = whole_lines::plain_blanks(&unix.text, edit);
    let readings = list_readings(edit);
    let apply = |reading: &Reading, scope| replace_similar(&unix, reading, scope);
    let is_same = |one: &Outcome, other: &Outcome| one.made == other.made;
    let conflict = || EditProblem::NotFound {
        hint: " exactly, and what was added to it can be left out in two ways, with different results"
            .to_owned(),
    };
    match apply_readings(&readings, &unix.text, apply, is_same, conflict)? {
        Some(outcome) => Ok(outcome),
        None => explain_unfound(&unix.text, &readings),
    }
}

/// Replaces an old text that is not exactly there as it is written.
fn replace_similar(
    unix: &UnixText,
    reading: &Reading,
    scope: Range<usize>,
) -> Result<Option<Outcome>, EditProblem> {
    let edit = &reading.edit;
    let mut found = None;
    if !reading.is_literal() && reading.may_be_within(&unix.text[scope.clone()]) {
        let made = replace_exact(unix, edit, scope.clone())?;
        found = made.map(|made| Outcome {
            made: Some(made),
            note: None,
        });
    }
    if found.is_none() && !edit.all {
        found = replace_whole_lines(unix, edit, scope)?;
    }
    if found.is_none() && !edit.all && reading.is_literal() {
        found = replace_part_of_line(unix, edit);
    }
    Ok(found.map(|outcome| Outcome {
        note: reading.complete_note(outcome.note),
        ..outcome
    }))
}

/// Returns the replacement of the end of a text that lacks the line break at the end of the old text.
fn without_final_newline(text: &str, edit: &Replacement) -> Option<(Replacement, Range<usize>)> {
    let old = edit.old.strip_suffix('\n').filter(|old| !old.is_empty())?;
    let start = text.strip_suffix(old)?.len();
    let new = edit.new.strip_suffix('\n').unwrap_or(&edit.new);
    let (old, new, all) = (old.to_owned(), new.to_owned(), edit.all);
    (!text.ends_with('\n')).then_some((Replacement { old, new, all }, start..text.len()))
}

/// Says that the edit was made before, or where the old text is most similar.
fn explain_unfound(text: &str, readings: &[Reading]) -> Result<Outcome, EditProblem> {
    let edit = &readings[0].edit;
    let made = EarlierEdit::find(text, &edit.old, &edit.new);
    if let Some(EarlierEdit {
        line,
        is_certain: true,
    }) = made
    {
        return Ok(Outcome::skipped(format!(
            "skipped: old_text is not in the file, and new_text is already there (line {line})"
        )));
    }
    let made = made.map_or_else(String::new, |made| {
        format!(", but new_text is at line {}", made.line)
    });
    Err(EditProblem::NotFound {
        hint: made + &describe_closest(text, readings, "old_text"),
    })
}

/// Replaces an old text that is exactly in the scope; `None` if it is not.
fn replace_exact(
    unix: &UnixText,
    edit: &Replacement,
    scope: Range<usize>,
) -> Result<Option<(String, usize)>, EditProblem> {
    let there = &unix.text[..scope.end];
    let found = there[scope.start..].match_indices(&edit.old);
    let found: Vec<usize> = found.map(|(at, _)| scope.start + at).collect();
    let Some(&first) = found.first() else {
        return Ok(None);
    };
    if !edit.all && occurs_twice(there, &edit.old, first) {
        let lines: Vec<usize> = found.iter().map(|at| line_number(&unix.text, *at)).collect();
        // `found` has no overlapping matches, but an overlap is ambiguous too.
        return Err(build_ambiguity(unix, &lines, found.len().max(2), &edit.old));
    }
    // Checked before the result is built. Twice, for the line feeds that may become `\r\n`.
    if unix.original.len() + found.len().saturating_mul(2 * edit.new.len()) > 2 * MAX_TEXT {
        return Err(EditProblem::TooLarge);
    }
    let end = found.last().map_or(first, |at| at + edit.old.len());
    // The last line may be one more place, without its line break.
    let last = without_final_newline(&unix.text, edit)
        .filter(|(_, last)| edit.all && last.start >= end && last.end == scope.end);
    let places = found
        .iter()
        .map(|at| (*at..at + edit.old.len(), edit.new.as_str()));
    let places = places.chain(last.iter().map(|(edit, last)| (last.clone(), edit.new.as_str())));
    let count = found.len() + usize::from(last.is_some());
    Ok(Some((unix.replace_each(places), count)))
}

/// Replaces an old text that is in the scope by whole lines; `None` if it is not.
fn replace_whole_lines(
    unix: &UnixText,
    edit: &Replacement,
    scope: Range<usize>,
) -> Result<Option<Outcome>, EditProblem> {
    match whole_lines::find_within(&unix.text, scope, &edit.old, &edit.new) {
        WholeLines::Nowhere => Ok(None),
        WholeLines::Once(fitted) => {
            let note = format!(
                "old_text differs from the file in white space or typography; made at line {} in the file's own form",
                fitted.line
            );
            if unix.text[fitted.range.clone()] == fitted.new {
                return Ok(Some(Outcome::skipped(
                    "skipped: the file already has this text, in its own form",
                )));
            }
            let text = unix.replace(std::iter::once(fitted.range), &fitted.new);
            Ok(Some(Outcome {
                made: Some((text, 1)),
                note: Some(note),
            }))
        }
        WholeLines::Unclear(reason) => Err(EditProblem::NotFound {
            hint: format!(
                " exactly, and {reason}{}",
                closest::describe(&unix.text, [(edit.old.as_str(), "old_text".to_owned())])
            ),
        }),
        WholeLines::Often { lines, .. } => Err(build_ambiguity(unix, &lines, lines.len(), &edit.old)),
    }
}

/// Replaces a part of a line that differs in typography only; `None` unless it is at one place.
fn replace_part_of_line(unix: &UnixText, edit: &Replacement) -> Option<Outcome> {
    let part = whole_lines::find_part(&unix.text, &edit.old, &edit.new)?;
    let note = format!(
        "old_text differs from the file in typography; made at line {} in the file's own form",
        part.line
    );
    let text = unix.replace(std::iter::once(part.range), &part.new);
    Some(Outcome {
        made: Some((text, 1)),
        note: Some(note),
    })
}

fn build_ambiguity(unix: &UnixText, lines: &[usize], count: usize, old: &str) -> EditProblem {
    const MOST_NAMED: usize = 5;
    let named = lines.iter().take(MOST_NAMED).map(usize::to_string);
    let more = if lines.len() > MOST_NAMED { ", …" } else { "" };
    EditProblem::Ambiguous {
        count,
        lines: named.collect::<Vec<_>>().join(", ") + more,
        places: closest::list_places(&unix.text, lines, old.trim_end().lines().count()),
    }
}

/// A text with `\r\n` as `\n`, and the mapping back to offsets in the original.
struct UnixText<'a> {
    original: &'a str,
    text: String,
    /// Offsets in `text` of each `\n` that was `\r\n`.
    crlf: Vec<usize>,
}

impl<'a> UnixText<'a> {
    fn from_original(original: &'a str) -> Self {
        let crlf = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(nth, (at, _))| at - nth)
            .collect();
        Self {
            original,
            text: unix_lines(original),
            crlf,
        }
    }

    fn to_original_offset(&self, offset: usize) -> usize {
        offset + self.crlf.partition_point(|at| *at < offset)
    }

    /// Returns the original with `new` at each place, in order.
    ///
    /// What the place and `new` share at their ends is kept, so that its line ends stay as the file has them.
    fn replace(&self, places: impl Iterator<Item = Range<usize>>, new: &str) -> String {
        self.replace_each(places.map(|place| (place, new)))
    }

    /// Returns the original with other text at each place, in order, as in [`UnixText::replace`].
    fn replace_each<'n>(&self, edits: impl Iterator<Item = (Range<usize>, &'n str)>) -> String {
        let mut result = String::with_capacity(self.original.len());
        let mut done = 0;
        for (place, new) in edits {
            let (head, tail) = common_ends(&self.text[place.clone()], new);
            let from = self.to_original_offset(place.start + head);
            let to = self.to_original_offset(place.end - tail);
            let fresh = &new[head..new.len() - tail];
            result.push_str(&self.original[done..from]);
            if crlf_at(self.original, from, to) {
                result.push_str(&fresh.replace('\n', "\r\n"));
            } else {
                result.push_str(fresh);
            }
            done = to;
        }
        result.push_str(&self.original[done..]);
        result
    }
}

fn occurs_twice(text: &str, old: &str, first: usize) -> bool {
    // Continue one character later, so that overlapping occurrences count.
    let step = text[first..].chars().next().map_or(1, char::len_utf8);
    text[first + step..].contains(old)
}

/// Returns how many bytes the two texts share at the start and at the end, without overlap.
pub(super) fn common_ends(a: &str, b: &str) -> (usize, usize) {
    let same = |pair: &(char, char)| pair.0 == pair.1;
    let len = |pair: (char, char)| pair.0.len_utf8();
    let head: usize = a.chars().zip(b.chars()).take_while(same).map(len).sum();
    let rest = a[head..].chars().rev().zip(b[head..].chars().rev());
    (head, rest.take_while(same).map(len).sum())
}

/// Returns whether a line end that replaces `from..to` becomes `\r\n`.
///
/// It follows the line end that it replaces, else the end of its own line, else that of the line before.
fn crlf_at(text: &str, from: usize, to: usize) -> bool {
    let ends_crlf = |at: usize| text[..at].ends_with('\r');
    let (before, within) = (&text[..from], &text[from..to]);
    if let Some(at) = within.find('\n') {
        return ends_crlf(from + at);
    }
    if let Some(at) = text[to..].find('\n') {
        return ends_crlf(to + at);
    }
    before.rfind('\n').is_some_and(ends_crlf)
}

fn line_number(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

#[cfg(test)]
mod bent_edits_tests;
#[cfg(test)]
mod near_misses_tests;
#[cfg(test)]
mod tests;
