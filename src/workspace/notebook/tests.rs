//! Tests of reading notebooks and of edits in their cells.

use proptest::prelude::*;

use super::*;
use crate::workspace::edit::{Hunk, HunkLine, Replacement};

/// As Jupyter writes it.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": [
    "# Prices\n",
    "All in \u20ac."
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "2\n"
     ]
    }
   ],
   "source": [
    "print(\"a\")\n",
    "total = 1\n",
    "print(total)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": null,
   "metadata": {},
   "outputs": [],
   "source": []
  }
 ],
 "metadata": {
  "language_info": {
   "name": "python"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn replacement(old: &str, new: &str) -> Replacement {
    Replacement {
        old: old.to_owned(),
        new: new.to_owned(),
        all: false,
    }
}

fn edit(old: &str, new: &str) -> Result<String, String> {
    let edited = apply(NOTEBOOK, &[replacement(old, new)]);
    edited
        .map(|edited| edited.text)
        .map_err(|error| error.to_string())
}

#[test]
fn cells_are_read() {
    let notebook = Notebook::parse(NOTEBOOK).unwrap();
    assert_eq!(notebook.language.as_deref(), Some("python"));
    let sources: Vec<&str> = notebook.cells.iter().map(|cell| &*cell.source).collect();
    assert_eq!(
        sources,
        ["# Prices\nAll in €.", "print(\"a\")\ntotal = 1\nprint(total)", ""]
    );
    assert_eq!(notebook.cells[1].execution_count, Some(3));
    for text in [
        "",
        "[]",
        r#"{"worksheets": []}"#,
        r#"{"cells": [{"cell_type": "code", "source": 1}]}"#,
    ] {
        assert!(Notebook::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_edit_of_a_source_changes_only_its_lines() {
    let edited = edit("total = 1\nprint(total)", "total = \"é\"\nx\nprint(total)\n").unwrap();
    let expected = NOTEBOOK.replace(
        "    \"total = 1\\n\",\n    \"print(total)\"\n",
        "    \"total = \\\"é\\\"\\n\",\n    \"x\\n\",\n    \"print(total)\\n\"\n",
    );
    assert_eq!(edited, expected);
    // A line that stays keeps its escapes.
    let edited = edit("# Prices", "# Costs").unwrap();
    assert_eq!(edited, NOTEBOOK.replace("# Prices", "# Costs"));
    let windows = NOTEBOOK.replace('\n', "\r\n");
    let edited = apply(&windows, &[replacement("total = 1\n", "")]).unwrap();
    assert_eq!(edited.text, windows.replace("    \"total = 1\\n\",\r\n", ""));
}

#[test]
fn other_layouts_are_kept() {
    for (before, after) in [
        (r#"["a\n", "b"]"#, r#"["a\n", "c\n", "d"]"#),
        (r#"["a\n","b"]"#, r#"["a\n","c\n","d"]"#),
        (r#""a\nb""#, r#""a\nc\nd""#),
    ] {
        let file = |source: &str| format!(r#"{{"cells": [{{"cell_type": "code", "source": {source}}}]}}"#);
        let edited = apply(&file(before), &[replacement("b", "c\nd")]).unwrap();
        assert_eq!(edited.text, file(after));
    }
    let notebook = Notebook::parse(NOTEBOOK).unwrap();
    let filled = notebook.cells[2].replace_source(NOTEBOOK, "x\ny");
    let list = "\"source\": [\n    \"x\\n\",\n    \"y\"\n   ]";
    assert_eq!(filled, NOTEBOOK.replace("\"source\": []", list));
    assert_eq!(
        Notebook::parse(&filled).unwrap().cells[2].replace_source(&filled, ""),
        NOTEBOOK
    );
}

#[test]
fn what_is_in_no_source_may_be_json() {
    let cell = "{\"cell_type\": \"raw\", \"source\": \"x\"}";
    let edited = edit("\"outputs\": [],", "\"outputs\": [], \"x\": 1,").unwrap();
    assert!(edited.contains("\"x\": 1"));
    let edited = edit(" \"cells\": [\n", &format!(" \"cells\": [\n  {cell},\n")).unwrap();
    assert_eq!(Notebook::parse(&edited).unwrap().cells.len(), 4);
    let broken = edit("\"outputs\": [],", "\"outputs\": [").unwrap_err();
    assert!(broken.contains("would no longer be a notebook"), "{broken}");
}

#[test]
fn what_is_not_certain_is_refused() {
    for (old, words) in [
        ("print", "found 2 times"),
        ("i", "found in cells 1, 2"),
        (
            "nothing like it at all",
            "in the source of any cell, and nothing is similar",
        ),
        (
            "print(\"a\")\ntotal = 2\nprint(total)",
            "in the source of any cell; see cell 2. The closest lines",
        ),
        ("", "old_text is empty"),
    ] {
        let error = edit(old, "new").unwrap_err();
        assert!(error.contains(words), "{old}: {error}");
    }
    let error = edit("total = 1", "total = 1\n=== cell 4, code ===\nx = 2").unwrap_err();
    assert!(
        error.contains("`=== cell 4, code ===`") && error.contains("to add a cell, edit the file's JSON")
    );
    let all = Replacement {
        all: true,
        ..replacement("i", "I")
    };
    let edited = apply(NOTEBOOK, &[all]).unwrap();
    assert_eq!(edited.places, 4);
    assert!(edited.text.contains("# PrIces") && edited.text.contains("prInt(total)"));
    assert!(edited.text.contains("\"cell_type\""));
}

#[test]
fn inexact_and_needless_edits_are_told_with_their_cell() {
    let edits = [
        replacement("total = 1  ", "total = 2"),
        replacement("total = 2\nprint(sum)", "total = 2\nprint(total)"),
        replacement("x", "x"),
    ];
    let edited = apply(NOTEBOOK, &edits).unwrap();
    assert_eq!(edited.text, NOTEBOOK.replace("total = 1", "total = 2"));
    let starts = [
        "edit 1: cell 2: old_text differs from the file",
        "edit 2: cell 2: skipped: old_text is not in the file",
        "edit 3: skipped: old_text and new_text are the same",
    ];
    for (note, start) in edited.notes.iter().zip(starts) {
        assert!(note.starts_with(start), "{note}");
    }
    // What is not a notebook is a text.
    assert_eq!(apply("{ x", &[replacement("x", "y")]).unwrap().text, "{ y");
}

fn patch(hunks: &[(&str, &[(char, &str)])]) -> Result<String, String> {
    let hunks: Vec<Hunk> = (hunks.iter())
        .map(|(header, lines)| Hunk {
            headers: vec![(*header).to_owned()],
            lines: (lines.iter())
                .map(|(sign, line)| match sign {
                    '-' => HunkLine::Remove((*line).to_owned()),
                    '+' => HunkLine::Add((*line).to_owned()),
                    _ => HunkLine::Keep((*line).to_owned()),
                })
                .collect(),
            is_at_end: false,
        })
        .collect();
    let edited = apply_hunks(Path::new("a.ipynb"), NOTEBOOK, &hunks);
    edited
        .map(|edited| edited.text)
        .map_err(|error| error.to_string())
}

#[test]
fn a_patch_changes_sources_as_they_are_read() {
    let edited = patch(&[
        ("", &[('-', "# Prices"), ('+', "# Costs")]),
        (
            "",
            &[
                (' ', "total = 1"),
                ('-', "print(total)"),
                ('+', "print(2)"),
                ('+', "x"),
            ],
        ),
        ("", &[(' ', "=== cell 3, code ==="), ('+', "y = \"é\"")]),
    ]);
    let expected = NOTEBOOK
        .replace("# Prices", "# Costs")
        .replace("    \"print(total)\"\n", "    \"print(2)\\n\",\n    \"x\"\n")
        .replace("\"source\": []", "\"source\": [\n    \"y = \\\"é\\\"\"\n   ]");
    assert_eq!(edited.unwrap(), expected);
    // The line above a cell tells which of two is meant.
    let removed = patch(&[("=== cell 2, code, run as [3] ===", &[('-', "total = 1")])]);
    assert_eq!(removed.unwrap(), NOTEBOOK.replace("    \"total = 1\\n\",\n", ""));
    let json = patch(&[(
        "",
        &[('-', "    \"total = 1\\n\","), ('+', "    \"total = 5\\n\",")],
    )]);
    assert_eq!(json.unwrap(), NOTEBOOK.replace("total = 1", "total = 5"));
}

#[test]
fn a_patch_that_breaks_a_notebook_is_refused() {
    let added: &[(char, &str)] = &[
        (' ', "print(total)"),
        ('+', "=== cell 4, code ==="),
        ('+', "x = 1"),
    ];
    let heading: &[(char, &str)] = &[('-', "=== cell 1, markdown ==="), ('+', "x")];
    let before: &[(char, &str)] = &[('+', "x"), (' ', "=== cell 1, markdown ===")];
    for lines in [added, heading, before] {
        let error = patch(&[("", lines)]).unwrap_err();
        assert!(error.contains("the line above a cell"), "{error}");
    }
    let error = patch(&[("", &[('-', "total = 2"), ('+', "total = 3")])]).unwrap_err();
    assert!(error.contains("was not found"), "{error}");
    let broken: &[(char, &str)] = &[('-', " \"nbformat\": 4,"), ('+', " nbformat")];
    let error = patch(&[("", broken)]).unwrap_err();
    assert!(error.contains("would no longer be a notebook"), "{error}");
}

proptest! {
    #[test]
    fn every_source_can_be_written(source in "(?s).{0,12}(\n.{0,6}){0,3}", at in 0..3_usize) {
        let before = Notebook::parse(NOTEBOOK).unwrap();
        let text = before.cells[at].replace_source(NOTEBOOK, &source);
        let after = Notebook::parse(&text).unwrap();
        for (index, (old, new)) in before.cells.iter().zip(&after.cells).enumerate() {
            prop_assert_eq!(&new.source, if index == at { &source } else { &old.source });
        }
    }
}
