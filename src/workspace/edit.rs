//! Exact replacements in a text: several in one call, all or nothing. Pure.
//!
//! A model writes `\n` whatever the file contains, so both sides are compared with `\r\n` read as `\n`. Only what
//! differs between old and new text is replaced, with the line ends of the place it goes to. All other bytes stay the
//! same, including mixed line ends and a missing final line feed.

use std::fmt::Write as _;

use super::text_file::{MAX_TEXT, unix_lines};

/// A text to replace and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub old: String,
    pub new: String,
    /// Replaces every occurrence. Otherwise the old text must occur exactly once.
    pub all: bool,
}

/// The result of a set of replacements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    pub text: String,
    /// The number of occurrences replaced.
    pub places: usize,
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
    #[error("old_text and new_text are the same (line ends are kept as they are in the file)")]
    Identical,
    #[error("old_text was not found; it must match the file exactly, white space included{hint}")]
    NotFound {
        /// A guess at the reason, as the end of the sentence; may be empty.
        hint: String,
    },
    #[error(
        "old_text was found {count} times (lines {lines}); add lines round it until it is unique, or set replace_all"
    )]
    Ambiguous {
        count: usize,
        /// The line numbers of the first five.
        lines: String,
    },
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
    };
    for (number, edit) in (1..).zip(edits) {
        let (text, places) = apply_one(&edited.text, edit).map_err(|problem| failed(number, problem))?;
        edited.text = text;
        edited.places += places;
    }
    Ok(edited)
}

fn apply_one(text: &str, edit: &Replacement) -> Result<(String, usize), EditProblem> {
    let (old, new) = (unix_lines(&edit.old), unix_lines(&edit.new));
    if old.is_empty() {
        return Err(EditProblem::Empty);
    }
    if old == new {
        return Err(EditProblem::Identical);
    }
    let unix = UnixText::from_original(text);
    let found: Vec<usize> = unix.text.match_indices(&old).map(|(at, _)| at).collect();
    let Some(&first) = found.first() else {
        return Err(EditProblem::NotFound {
            hint: build_mismatch_hint(&unix.text, &old),
        });
    };
    if !edit.all && occurs_twice(&unix.text, &old, first) {
        let lines: Vec<String> = found
            .iter()
            .take(5)
            .map(|at| line_number(&unix.text, *at).to_string())
            .collect();
        return Err(EditProblem::Ambiguous {
            // `found` has no overlapping matches, but an overlap is ambiguous too.
            count: found.len().max(2),
            lines: lines.join(", ") + if found.len() > 5 { ", …" } else { "" },
        });
    }
    // Checked before the result is built. Twice, for the line feeds that may become `\r\n`.
    if text.len() + found.len().saturating_mul(2 * new.len()) > 2 * MAX_TEXT {
        return Err(EditProblem::TooLarge);
    }
    // Keep what both texts share: its line ends stay as the file has them.
    let (head, tail) = common_ends(&old, &new);
    let mut result = String::with_capacity(text.len() + new.len());
    let mut done = 0;
    for at in &found {
        let (from, to) = (
            unix.to_original_offset(at + head),
            unix.to_original_offset(at + old.len() - tail),
        );
        let fresh = &new[head..new.len() - tail];
        result.push_str(&text[done..from]);
        if crlf_at(text, from, to) {
            result.push_str(&fresh.replace('\n', "\r\n"))
        } else {
            result.push_str(fresh)
        }
        done = to;
    }
    result.push_str(&text[done..]);
    Ok((result, found.len()))
}

/// A text with `\r\n` as `\n`, and the mapping back to offsets in the original.
struct UnixText {
    text: String,
    /// Offsets in `text` of each `\n` that was `\r\n`.
    crlf: Vec<usize>,
}

impl UnixText {
    fn from_original(original: &str) -> Self {
        let crlf = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(nth, (at, _))| at - nth)
            .collect();
        Self {
            text: unix_lines(original),
            crlf,
        }
    }

    fn to_original_offset(&self, offset: usize) -> usize {
        offset + self.crlf.partition_point(|at| *at < offset)
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

/// Guesses why `old` is not in `text`, as the end of a sentence.
fn build_mismatch_hint(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().collect();
    let numbered = |line: &&str| {
        line.split_once('\t')
            .is_some_and(|(n, _)| !n.trim().is_empty() && n.trim().bytes().all(|b| b.is_ascii_digit()))
    };
    if wanted.iter().filter(|line| !line.trim().is_empty()).all(numbered) {
        return ". Leave out the line numbers that read_file puts before each line".to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    if let Some(at) = find_ignoring_whitespace(&lines, &wanted) {
        let last = at + wanted.len();
        let mut hint = format!(". Lines {} to {last} differ from it in white space only:", at + 1);
        for line in lines[at..last].iter().take(20) {
            let _ = write!(hint, "\n{line}");
        }
        return hint;
    }
    match nearest_line(&lines, &wanted) {
        Some((number, line)) => format!(". The nearest line is {number}: {line}"),
        None => String::new(),
    }
}

fn find_ignoring_whitespace(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = wanted.iter().copied().map(squeezed).collect();
    if wanted.iter().all(String::is_empty) {
        return None;
    }
    let lines: Vec<String> = lines.iter().copied().map(squeezed).collect();
    lines.windows(wanted.len()).position(|window| window == wanted)
}

/// Finds the line most similar to the first nonblank line of `wanted`, within a bound of work.
fn nearest_line<'a>(lines: &[&'a str], wanted: &[&str]) -> Option<(usize, &'a str)> {
    const WORK: usize = 20_000_000;
    const MAX_LINE: usize = 300;
    const LIKE: f64 = 0.6;
    let wanted = wanted
        .iter()
        .map(|line| line.trim())
        .find(|line| !line.is_empty())?;
    // The comparison takes time proportional to the product of the lengths.
    if wanted.len() > MAX_LINE {
        return None;
    }
    let mut work = 0;
    let mut best = (LIKE, None);
    for (number, line) in (1..).zip(lines) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.len() > MAX_LINE {
            continue;
        }
        work += trimmed.len() * wanted.len();
        if work > WORK {
            break;
        }
        let like = strsim::normalized_levenshtein(trimmed, wanted);
        if like > best.0 {
            best = (like, Some((number, *line)));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str) -> Replacement {
        Replacement {
            old: old.to_owned(),
            new: new.to_owned(),
            all: false,
        }
    }

    fn all(old: &str, new: &str) -> Replacement {
        Replacement {
            all: true,
            ..edit(old, new)
        }
    }

    #[test]
    fn replaces_and_keeps_line_ends() {
        for (text, edits, expected) in [
            ("a b c", vec![edit("b", "B")], "a B c"),
            ("a b", vec![edit("a", "x"), edit("x b", "y")], "y"),
            ("a a", vec![all("a", "bb")], "bb bb"),
            ("a\r\nb\r\n", vec![edit("a\nb", "a\nx\nb")], "a\r\nx\r\nb\r\n"),
            ("a\r\nb\r\n", vec![edit("a\r\nb", "c")], "c\r\n"),
            ("a\r\nb", vec![edit("b", "b\nc")], "a\r\nb\r\nc"),
            ("a\nb\n", vec![edit("a", "1\r\n2")], "1\n2\nb\n"),
            // Mixed: untouched line ends stay, a new one follows its neighbor.
            ("a\nb\r\nc\n", vec![edit("a\nb\nc", "a\nB\nc")], "a\nB\r\nc\n"),
            ("a\nb\r\nc\n", vec![edit("b", "b\nb")], "a\nb\r\nb\r\nc\n"),
            ("a\r\nb\r\n", vec![edit("a\n", "")], "b\r\n"),
            ("no end", vec![edit("end", "END")], "no END"),
        ] {
            assert_eq!(apply(text, &edits).unwrap().text, expected, "{text:?}");
        }
        assert_eq!(apply("a a a", &[all("a", "b")]).unwrap().places, 3);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = |text: &str, edits: &[Replacement]| apply(text, edits).unwrap_err().to_string();
        assert!(error("a", &[]).contains("no edits"));
        assert!(error("a", &[edit("", "x")]).contains("old_text is empty"));
        assert!(error("a", &[edit("a\n", "a\r\n")]).contains("are the same"));
        let ambiguous = error("x\ny\nx\n", &[edit("x", "z")]);
        assert!(
            ambiguous.contains("found 2 times (lines 1, 3)") && ambiguous.contains("replace_all"),
            "{ambiguous}"
        );
        assert!(error("aaa", &[edit("aa", "b")]).contains("found 2 times"));
        assert!(error(&"a".repeat(9_000), &[all("a", &"b".repeat(9_000))]).contains("larger than"));
        let second = error("a b", &[edit("a", "c"), edit("zzz", "d")]);
        assert!(
            second.starts_with("edit 2 of 2 (none was made): old_text was not found"),
            "{second}"
        );
    }

    #[test]
    fn a_missing_text_is_explained_by_a_hint() {
        let text = "fn main() {\n    let answer = 42;\n}\n";
        let hint = |old: &str| apply(text, &[edit(old, "x")]).unwrap_err().to_string();
        let spaces = hint("fn main() {\n\tlet answer = 42;");
        assert!(spaces.ends_with(
            "Lines 1 to 2 differ from it in white space only:\nfn main() {\n    let answer = 42;"
        ));
        assert!(hint("let anwser = 42;").ends_with("The nearest line is 2:     let answer = 42;"));
        assert!(hint("2\t    let answer = 42;").contains("Leave out the line numbers"));
        assert!(hint("nothing of the kind at all").ends_with("white space included"));
    }

    proptest! {
        /// Read with `\n`, the result equals that of a plain replacement; everything outside stays the same.
        #[test]
        fn equals_a_plain_replacement(text in "([ab]|\r\n|\n){0,20}", old in "([ab]|\n){1,3}", new in "([abc]|\n){0,3}") {
            match apply(&text, &[all(&old, &new)]) {
                Ok(edited) => prop_assert_eq!(unix_lines(&edited.text), unix_lines(&text).replace(&old, &new)),
                Err(error) => match error.problem {
                    EditProblem::NotFound { .. } => prop_assert!(!unix_lines(&text).contains(&old)),
                    other => prop_assert_eq!(other, EditProblem::Identical),
                },
            }
        }

        /// A file with one kind of line end keeps that kind.
        #[test]
        fn a_uniform_line_end_is_kept(text in "([ab]{0,2}\r\n){1,6}", old in "([ab]|\n){1,3}", new in "([abc]|\n){0,3}") {
            if let Ok(edited) = apply(&text, &[all(&old, &new)]) {
                prop_assert_eq!(edited.text.matches('\n').count(), edited.text.matches("\r\n").count());
            }
        }

        /// All or nothing, and the opposite edit undoes an edit.
        #[test]
        fn the_opposite_edit_undoes_an_edit(text in "([abü]|\r\n|\n){0,16}", old in "[abü]{1,2}", new in "[c-e]{1,3}") {
            if let Ok(edited) = apply(&text, &[all(&old, &new)]) {
                prop_assert_eq!(apply(&edited.text, &[all(&new, &old)]).unwrap().text, text);
            }
        }
    }
}
