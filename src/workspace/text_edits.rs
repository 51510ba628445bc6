//! Computes the edits that an editor makes to change a text (R-TOOL-3). Pure.
//!
//! The edits are small replacements where the texts differ, not the whole text, so that cursors and marks stay in
//! place. Must not know documents or the protocol.

use std::time::Duration;

use similar::DiffTag;

use super::edit::common_ends;
use super::line_diff::compare_lines;
use super::text_file::{mostly_crlf, unix_lines};
use crate::base::position::{Position, PositionEncoding, Range};

/// Time limit; after it, the edits are correct but not the smallest.
const TIME: Duration = Duration::from_millis(300);

/// One replacement. The edits of a document do not overlap, and all positions refer to the text before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    pub range: Range,
    /// With the line ends that the text mostly has.
    pub text: String,
}

/// Computes the replacements that turn `before` into `after`, in order; line ends are ignored.
///
/// `None` if the two sides may count lines differently: a text has a `\r` outside of `\r\n`. The protocol counts it as
/// a line end, and many editors do not.
pub fn compute_text_edits(before: &str, after: &str, encoding: PositionEncoding) -> Option<Vec<TextEdit>> {
    let (old, new) = (unix_lines(before), unix_lines(after));
    if old.contains('\r') || new.contains('\r') {
        return None;
    }
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let changes = compare_lines(&old_lines, &new_lines, Some(TIME));
    let mut hunks: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    for op in changes.iter().filter(|op| op.tag() != DiffTag::Equal) {
        match hunks.last_mut() {
            // A deletion and an insertion at the same place are one replacement.
            Some((removed, come))
                if removed.end == op.old_range().start && come.end == op.new_range().start =>
            {
                removed.end = op.old_range().end;
                come.end = op.new_range().end;
            }
            _ => hunks.push((op.old_range(), op.new_range())),
        }
    }
    let crlf = mostly_crlf(before);
    let edits = hunks.into_iter().map(|(removed, come)| {
        let (first, removed, come) = (
            removed.start,
            old_lines[removed].concat(),
            new_lines[come].concat(),
        );
        let (head, tail) = common_ends(&removed, &come);
        let (mut first, mut passed) = (first, &removed[..head]);
        let mut end_prefix = &removed[..removed.len() - tail];
        let mut fresh = come[head..come.len() - tail].to_owned();
        // For the protocol there is a line after the last line end; for many editors there is not.
        if first > 0 && first == old_lines.len() && fresh.ends_with('\n') {
            fresh.pop();
            first -= 1;
            passed = old_lines[first].trim_end_matches('\n');
            end_prefix = passed;
            fresh.insert(0, '\n');
        }
        TextEdit {
            range: Range {
                start: compute_position(first, passed, encoding),
                end: compute_position(first, end_prefix, encoding),
            },
            text: if crlf { fresh.replace('\n', "\r\n") } else { fresh },
        }
    });
    Some(edits.collect())
}

/// Returns the position after `passed`, which begins with line `first`.
fn compute_position(first: usize, passed: &str, encoding: PositionEncoding) -> Position {
    let lines = memchr::memchr_iter(b'\n', passed.as_bytes()).count();
    let line = passed.rsplit('\n').next().unwrap_or_default();
    let character = match encoding {
        PositionEncoding::Utf8 => line.len(),
        PositionEncoding::Utf16 => line.encode_utf16().count(),
    };
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: number(first + lines),
        character: number(character),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PositionEncoding::{Utf8, Utf16};
    use super::*;
    use crate::base::position::{DocumentChange, apply_changes};

    fn short(edits: &[TextEdit]) -> Vec<(u32, u32, u32, u32, &str)> {
        let parts = |edit: &'_ TextEdit| (edit.range.start, edit.range.end);
        edits
            .iter()
            .map(|edit| {
                let (start, end) = parts(edit);
                (
                    start.line,
                    start.character,
                    end.line,
                    end.character,
                    edit.text.as_str(),
                )
            })
            .collect()
    }

    #[test]
    fn edits_are_small_and_in_place() {
        let edits = compute_text_edits(
            "ä one\ntwo\nthree\nfour\n",
            "ä ONE\ntwo\nthree\n4our\nfive\n",
            Utf16,
        )
        .unwrap();
        assert_eq!(short(&edits), [(0, 2, 0, 5, "ONE"), (3, 0, 3, 4, "4our\nfive")]);
        let edits = compute_text_edits("ä😀 one\n", "ä😀 1\n", Utf8).unwrap();
        assert_eq!(short(&edits), [(0, 7, 0, 10, "1")]);
        let edits = compute_text_edits("ä😀 one\n", "ä😀 1\n", Utf16).unwrap();
        assert_eq!(short(&edits), [(0, 4, 0, 7, "1")]);
        let edits = compute_text_edits("a\r\nb\r\n", "a\nnew\nb\n", Utf16).unwrap();
        assert_eq!(short(&edits), [(1, 0, 1, 0, "new\r\n")]);
        assert_eq!(
            short(&compute_text_edits("a", "a\n", Utf16).unwrap()),
            [(0, 1, 0, 1, "\n")]
        );
        assert_eq!(
            short(&compute_text_edits("a\n", "a\nb", Utf16).unwrap()),
            [(1, 0, 1, 0, "b")]
        );
        assert_eq!(
            short(&compute_text_edits("a\nb\n", "", Utf16).unwrap()),
            [(0, 0, 2, 0, "")]
        );
        assert_eq!(
            short(&compute_text_edits("", "a\n", Utf16).unwrap()),
            [(0, 0, 0, 0, "a\n")]
        );
        assert_eq!(compute_text_edits("a\nb", "a\r\nb", Utf16), Some(Vec::new()));
        assert_eq!(compute_text_edits("a\rb\n", "c", Utf16), None);
        assert_eq!(compute_text_edits("a\n", "a\rb\n", Utf16), None);
    }

    proptest! {
        #[test]
        fn edits_turn_one_text_into_the_other(
            before in "([aü😀]{0,3}\r?\n?){0,6}",
            after in "([aü😀]{0,3}\n?){0,6}",
            utf8 in any::<bool>(),
        ) {
            let encoding = if utf8 { Utf8 } else { Utf16 };
            let Some(edits) = compute_text_edits(&before, &after, encoding) else {
                prop_assert!(unix_lines(&before).contains('\r'));
                return Ok(());
            };
            let mut text = before.clone();
            // Last to first, since all positions refer to the text before.
            for edit in edits.into_iter().rev() {
                let change = DocumentChange { range: Some(edit.range), text: edit.text };
                apply_changes(&mut text, &[change], encoding);
            }
            prop_assert_eq!(unix_lines(&text), unix_lines(&after));
        }
    }
}
