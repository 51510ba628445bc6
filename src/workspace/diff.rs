//! Builds unified diffs for people, bounded in time and size for any input.
//!
//! Must not know files or buffers: it compares two texts. A cut is stated in the diff, and a file name cannot forge
//! lines of it.

use std::fmt::Write as _;
use std::time::Duration;

use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, group_diff_ops};

use super::line_diff::compare_lines;
use crate::base::text;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Time limit; after it, the diff is correct but not the shortest.
const TIME: Duration = Duration::from_millis(300);
/// Longest texts that are compared, both together, in bytes.
const MAX_INPUT: usize = 16 << 20;
/// Longest diff, in bytes; the rest is cut.
const MAX_OUTPUT: usize = 256 << 10;

/// A unified diff and its line counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Empty if nothing has changed. The last line states a cut.
    pub text: String,
    /// Added lines, including those that a cut hides.
    pub added: usize,
    /// Removed lines, including those that a cut hides.
    pub removed: usize,
}

/// Which sides of a diff exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffSides {
    Both,
    OnlyNew,
    OnlyOld,
}

/// Builds the unified diff of a file's texts. The header shows `path` as `a/path` and `b/path`.
pub fn build_unified_diff(path: &str, sides: DiffSides, old: &str, new: &str) -> Diff {
    if old == new {
        return Diff::default();
    }
    let mut out = build_file_header(path, sides);
    if old.len() + new.len() > MAX_INPUT {
        let _ = writeln!(
            out,
            "[… too large to compare: {} bytes became {} …]",
            old.len(),
            new.len()
        );
        return Diff {
            text: out,
            ..Diff::default()
        };
    }
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let changes = compare_lines(&old_lines, &new_lines, Some(TIME));
    let mut diff = Diff::default();
    let mut unshown = 0;
    for hunk in group_diff_ops(changes, CONTEXT) {
        if unshown == 0 {
            let _ = writeln!(out, "{}", UnifiedHunkHeader::new(&hunk));
        }
        for change in hunk.iter().flat_map(|op| op.iter_changes(&old_lines, &new_lines)) {
            match change.tag() {
                ChangeTag::Insert => diff.added += 1,
                ChangeTag::Delete => diff.removed += 1,
                ChangeTag::Equal => {}
            }
            let line = change.value();
            // Go on after the cut: the line counts cover the whole diff.
            if unshown > 0 || out.len() + line.len() > MAX_OUTPUT {
                unshown += 1;
                continue;
            }
            let _ = write!(out, "{}{line}", change.tag());
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    if unshown > 0 {
        let _ = writeln!(out, "[… {unshown} more lines of this diff are not shown …]");
    }
    diff.text = out;
    diff
}

/// Builds the lines that name the file of a unified diff.
pub fn build_file_header(path: &str, sides: DiffSides) -> String {
    // A line feed in a name must not forge a line of the diff.
    let path = text::reveal_hidden_characters(path).replace(['\n', '\t'], "?");
    // An absolute path would become `a//path`.
    let path = path.trim_start_matches('/');
    match sides {
        DiffSides::Both => format!("--- a/{path}\n+++ b/{path}\n"),
        DiffSides::OnlyNew => format!("--- /dev/null\n+++ b/{path}\n"),
        DiffSides::OnlyOld => format!("--- a/{path}\n+++ /dev/null\n"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_is_a_standard_unified_diff() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9";
        let diff = build_unified_diff("src/a.rs", DiffSides::Both, old, new);
        assert_eq!(
            diff.text,
            "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n\
             \\ No newline at end of file\n"
        );
        assert_eq!((diff.added, diff.removed), (2, 2));
        assert_eq!(
            build_unified_diff("n", DiffSides::OnlyNew, "", "x\n").text,
            "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n"
        );
        assert_eq!(
            build_unified_diff("n", DiffSides::Both, "x", "x"),
            Diff::default()
        );
    }

    #[test]
    fn a_file_name_forges_no_diff_lines() {
        let diff = build_unified_diff("a\n+++ b/evil\u{1b}[2J", DiffSides::Both, "x\n", "y\n");
        assert!(
            diff.text
                .starts_with("--- a/a?+++ b/evil␛[2J\n+++ b/a?+++ b/evil␛[2J\n"),
            "{}",
            diff.text
        );
    }

    #[test]
    fn large_diffs_are_cut() {
        let old: String = (0..200_000).map(|n| format!("{}\n", n * 7 % 1_000)).collect();
        let new: String = (0..200_000).map(|n| format!("{}\n", n * 11 % 1_000)).collect();
        let diff = build_unified_diff("big", DiffSides::Both, &old, &new);
        assert!(diff.text.len() < MAX_OUTPUT + 200);
        assert!(diff.text.ends_with("more lines of this diff are not shown …]\n"));
        let huge = "x".repeat(MAX_INPUT);
        assert!(
            build_unified_diff("huge", DiffSides::Both, &huge, "y")
                .text
                .contains("too large to compare")
        );
    }

    /// Applies one of our diffs the way `patch` does.
    fn patch(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            let ends = lines.peek().is_some_and(|next| next.starts_with('\\'));
            let body = || {
                if ends {
                    line[1..].trim_end_matches('\n')
                } else {
                    &line[1..]
                }
            };
            match line.as_bytes()[0] {
                b'@' => {
                    let range = line[4..].split_once(' ').unwrap().0;
                    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
                    let start: usize = start.parse().unwrap();
                    let first = if count == "0" { start } else { start - 1 };
                    new.extend(old[at..first].iter().copied());
                    at = first;
                }
                b' ' => {
                    new.push_str(body());
                    at += 1;
                }
                b'-' => at += 1,
                b'+' => new.push_str(body()),
                _ => {}
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn patching_the_old_text_returns_the_new_text(old in "([abc]\r?\n){0,14}[ab]?", new in "([abc]\r?\n){0,14}[ab]?") {
            let diff = build_unified_diff("f", DiffSides::Both, &old, &new);
            let patched = if diff.text.is_empty() { old.clone() } else { patch(&old, &diff.text) };
            prop_assert_eq!(patched, new);
        }
    }
}
