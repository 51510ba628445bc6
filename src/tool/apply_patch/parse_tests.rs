//! The text of patches: what is accepted and refused, and that a patch gives exactly the new text.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::workspace::edit::apply_hunks;

fn keep(line: &str) -> HunkLine {
    HunkLine::Keep(line.to_owned())
}

fn remove(line: &str) -> HunkLine {
    HunkLine::Remove(line.to_owned())
}

fn add(line: &str) -> HunkLine {
    HunkLine::Add(line.to_owned())
}

fn update(path: &str, hunks: Vec<Hunk>) -> FilePatch {
    FilePatch {
        path: path.to_owned(),
        action: FileAction::Update { to: None, hunks },
    }
}

fn hunk(headers: &[&str], lines: Vec<HunkLine>) -> Hunk {
    Hunk {
        headers: headers.iter().map(|header| (*header).to_owned()).collect(),
        lines,
        is_at_end: false,
    }
}

#[test]
fn a_patch_has_every_kind_of_change() {
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@ impl Cart\n@@ fn total\n one\n-two\n+2\n\
                 @@\n three\n+four\n*** End of File\n*** Add File: c.txt\n+new\n+\n+ file\n*** Delete File: d e.txt\n*** End Patch";
    let last = Hunk {
        is_at_end: true,
        ..hunk(&[], vec![keep("three"), add("four")])
    };
    let first = hunk(
        &["impl Cart", "fn total"],
        vec![keep("one"), remove("two"), add("2")],
    );
    assert_eq!(
        parse_patch(patch).unwrap(),
        [
            FilePatch {
                path: "src/a.rs".to_owned(),
                action: FileAction::Update {
                    to: Some("src/b.rs".to_owned()),
                    hunks: vec![first, last],
                },
            },
            FilePatch {
                path: "c.txt".to_owned(),
                action: FileAction::Add("new\n\n file\n".to_owned()),
            },
            FilePatch {
                path: "d e.txt".to_owned(),
                action: FileAction::Delete,
            },
        ]
    );
}

#[test]
fn what_can_mean_only_one_thing_is_accepted() {
    let expected = [update(
        "a.rs",
        vec![hunk(&[], vec![keep("x"), remove("y"), add("z")])],
    )];
    let body = "*** Update File: a.rs\n@@\n x\n-y\n+z";
    for patch in [
        body.to_owned(),
        body.replace('\n', "\r\n"),
        format!("*** Begin Patch\n{body}"),
        format!("{body}\n*** End Patch\n"),
        format!("```\n*** Begin Patch\n{body}\n*** End Patch\n```\n"),
        format!("```diff\n{body}\n```"),
        format!("apply_patch <<'EOF'\n*** Begin Patch\n{body}\n*** End Patch\nEOF\n"),
        format!("cat <<EOF\n{body}\n\nEOF"),
        format!("Here is the patch:\n\n*** Begin Patch\n{body}\n*** End Patch\n\nDone."),
        "*** Begin Patch\n*** Update File: `a.rs`\n x\n-y\n+z\n\n*** End Patch".to_owned(),
        "*** Update File: a.rs\n\n@@ -1,2 +1,2 @@\n\n x\n-y\n+z\n\n".to_owned(),
        "*** Update File: a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1,2\nx\n-y\n+z\n\\ No newline at end of file"
            .to_owned(),
    ] {
        assert_eq!(parse_patch(&patch).unwrap(), expected, "{patch}");
    }
    for (line, header) in [
        ("@@ -3,4 +3,5 @@ fn a()", "fn a()"),
        ("@@ fn a() @@", "fn a()"),
        ("@@fn a()", "fn a()"),
        ("@@ -x", "-x"),
    ] {
        let parsed = parse_patch(&format!("*** Update File: a\n{line}\n-x\n")).unwrap();
        assert_eq!(
            parsed,
            [update("a", vec![hunk(&[header], vec![remove("x")])])],
            "{line}"
        );
    }
    // An empty line within a hunk is one of the file; others only separate.
    let parsed = parse_patch("*** Update File: a\n@@\n\n-x\n\n y\n\n*** Update File: b\n \n+x\n").unwrap();
    assert_eq!(
        parsed,
        [
            update("a", vec![hunk(&[], vec![remove("x"), keep(""), keep("y")])]),
            update("b", vec![hunk(&[], vec![keep(""), add("x")])]),
        ]
    );
    let parsed =
        parse_patch("*** Add File: a\nno marks\n\nat all\n\n*** Add File: b\n*** Delete File: c\n-gone\n")
            .unwrap();
    assert_eq!(
        parsed[0].action,
        FileAction::Add("no marks\n\nat all\n".to_owned())
    );
    assert_eq!(parsed[1].action, FileAction::Add(String::new()));
    assert_eq!(parsed[2].action, FileAction::Delete);
}

#[test]
fn what_has_no_clear_meaning_is_refused() {
    for (patch, problem) in [
        ("", "names no file"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("just text", "belongs to no file"),
        ("*** Update File:\n-x", "line 1 of the patch: the path is missing"),
        ("*** Update File: a\n", "the update of `a` has no hunks"),
        ("*** Update File: a\n@@ fn b\n", "a hunk of `a` has no lines"),
        ("*** Update File: a\n-x\n*** Move to: b\n", "must directly follow"),
        ("*** Add File: a\n*** Move to: b\n", "must directly follow"),
        (
            "*** Update File: a\n*** End of File\n",
            "must follow the lines of a hunk",
        ),
        (
            "*** Update File: a\n@@\n+x\n\n*** End of File\n",
            "decides where the new lines go",
        ),
        (
            "*** Update File: a\n@@\n-\n+x\n\n*** End of File\n",
            "decides where the new lines go",
        ),
        (
            "*** Update File: a\n-x\n*** Rename: b\n",
            "line 3 of the patch: `*** Rename: b` means nothing",
        ),
        (
            "*** Add File: a\n+one\ntwo\n",
            "must begin with `+`; this one does not: two",
        ),
        ("*** Delete File: a\n+x\n", "a deletion has no lines"),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore\n*** Delete File: b",
            "belongs to no file",
        ),
    ] {
        let refused = parse_patch(patch).unwrap_err();
        assert!(refused.contains(problem), "{patch:?}: {refused}");
    }
}

/// What becomes of a line.
type Op = (char, String);

/// Lines that are alike, or look like parts of a patch.
const LINES: [&str; 14] = [
    "a",
    "b",
    "c",
    "  a",
    "\tb",
    "",
    "x y",
    "}",
    "*** End Patch",
    "+a",
    "-b",
    "@@ a",
    "```",
    "fn a() {",
];

/// How a patch is written.
#[derive(Clone, Copy, Debug)]
struct Style {
    /// How many lines around a change are kept.
    radius: usize,
    marks_end: bool,
    /// Empty kept lines have no blank before them.
    has_bare_blanks: bool,
    has_headers: bool,
}

/// Writes a patch that makes a text of the kept and removed lines into one of the kept and new lines.
fn render_patch(ops: &[Op], style: Style) -> Option<String> {
    let changed = |at: usize| ops[at].0 != ' ';
    let mut shown = vec![false; ops.len()];
    for at in (0..ops.len()).filter(|at| changed(*at)) {
        let end = (at + style.radius + 1).min(ops.len());
        shown[at.saturating_sub(style.radius)..end].fill(true);
    }
    let mut patch = "*** Begin Patch\n*** Update File: a\n".to_owned();
    let mut was_shown = false;
    for (at, (mark, line)) in ops.iter().enumerate() {
        if shown[at] {
            if !was_shown {
                let length = shown[at..].iter().take_while(|shown| **shown).count();
                let header = find_enclosing_line(ops, at, at + length).filter(|_| style.has_headers);
                patch.push_str(&format!("@@ {}\n", header.unwrap_or_default()));
            }
            let is_bare = style.has_bare_blanks && *mark == ' ' && line.is_empty();
            patch.push_str(&if is_bare {
                "\n".to_owned()
            } else {
                format!("{mark}{line}\n")
            });
        }
        was_shown = shown[at];
    }
    if style.marks_end && was_shown {
        patch.push_str("*** End of File\n");
    }
    patch.push_str("*** End Patch\n");
    shown.contains(&true).then_some(patch)
}

/// Returns the line above some lines that is indented less than all lines from there to their end.
fn find_enclosing_line(ops: &[Op], start: usize, end: usize) -> Option<&str> {
    let old = |(mark, line): &'_ &Op| *mark != '+' && line.chars().any(char::is_alphanumeric);
    let width = |line: &str| line.len() - line.trim_start().len();
    let least = ops[start..end]
        .iter()
        .filter(old)
        .map(|(_, line)| width(line))
        .min()?;
    let mut above = ops[..start].iter().rev().filter(old);
    above
        .find(|(_, line)| width(line) < least)
        .map(|(_, line)| line.as_str())
}

/// A random edit of a random text, as a patch, gives exactly the new text or is refused.
#[test]
fn a_patch_gives_exactly_the_new_text_or_is_refused() {
    let config = Config {
        cases: 4_000,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..Config::default()
    };
    let lines = prop::collection::vec((any::<Index>(), 0..12_u8, any::<Index>()), 0..14);
    let style = (0..4_usize, any::<bool>(), any::<bool>(), any::<bool>());
    let made = std::cell::Cell::new([0, 0]);
    let outcome = TestRunner::new(config).run(
        &(lines, style, any::<bool>(), any::<bool>()),
        |(lines, style, crlf, ends)| {
            let (radius, marks_end, has_bare_blanks, has_headers) = style;
            let style = Style {
                radius,
                marks_end,
                has_bare_blanks,
                has_headers,
            };
            let mut ops: Vec<Op> = Vec::new();
            for (line, kind, other) in &lines {
                let (line, other) = ((*line.get(&LINES)).to_owned(), (*other.get(&LINES)).to_owned());
                match kind {
                    0 => ops.push(('-', line)),
                    1 => ops.extend([('-', line), ('+', other)]),
                    2 => ops.extend([('+', other), (' ', line)]),
                    3 => ops.push(('+', line)),
                    _ => ops.push((' ', line)),
                }
            }
            let side = |without: char| -> Vec<&str> {
                let lines = ops.iter().filter(|(mark, _)| *mark != without);
                lines.map(|(_, line)| line.as_str()).collect()
            };
            let (old, new) = (side('+'), side('-'));
            // A last line that is empty and has no line feed is no line.
            prop_assume!(ends || old.last().is_none_or(|line| !line.is_empty()));
            prop_assume!(!crlf || old.len() > 1);
            let feed = if crlf { "\r\n" } else { "\n" };
            let join = |lines: &[&str]| lines.join(feed) + if lines.is_empty() || !ends { "" } else { feed };
            let expected = if old.is_empty() {
                // An empty text has no kind of line feed yet.
                new.iter().map(|line| format!("{line}\n")).collect()
            } else {
                join(&new)
            };
            let Some(patch) = render_patch(&ops, style) else {
                return Ok(());
            };
            // A hunk of empty lines alone is refused at once.
            let Ok(parsed) = parse_patch(&patch) else {
                return Ok(());
            };
            let FileAction::Update { hunks, .. } = &parsed[0].action else {
                panic!("{parsed:?}")
            };
            let mut counts = made.get();
            counts[0] += 1;
            if let Ok(edited) = apply_hunks(&join(&old), hunks) {
                counts[1] += 1;
                prop_assert_eq!(edited.text, expected, "{}", patch);
            }
            made.set(counts);
            Ok(())
        },
    );
    outcome.unwrap();
    let [all, made] = made.get();
    assert!(made * 2 > all, "only {made} of {all} were made");
}

proptest! {
    /// Any text parses or is refused, without a panic.
    #[test]
    fn any_text_parses_or_is_refused(lines in prop::collection::vec(any::<Index>(), 0..12), more in "\\PC{0,20}") {
        const MARKS: [&str; 12] = [
            "*** Begin Patch", "*** End Patch", "*** Update File: a", "*** Add File: b", "*** Delete File: c",
            "*** Move to: d", "*** End of File", "@@", "@@ -1 +1 @@", "+x", " x", "",
        ];
        let mut lines: Vec<&str> = lines.iter().map(|line| *line.get(&MARKS)).collect();
        lines.push(&more);
        let _ = parse_patch(&lines.join("\n"));
    }
}
