//! Edits from this repository's history, bent as models bend them: each is made right or refused, never made wrong.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use serde::Deserialize;

use super::*;

/// A change that a commit made to a file.
#[derive(Debug, Deserialize)]
struct HistoricalEdit {
    before: String,
    /// The first line that it replaced, from 0.
    line: usize,
    /// How many lines it replaced.
    count: usize,
    /// The lines in their place.
    new: Vec<String>,
}

/// Changes of commits, in several languages, each with the whole file. A checkout may lack the history.
static EDITS: LazyLock<Vec<HistoricalEdit>> = LazyLock::new(|| {
    let packed = include_bytes!("../../../tests/corpus/edits.json.gz").as_slice();
    serde_json::from_reader(GzDecoder::new(packed)).unwrap()
});

/// What a model does to a text that it copies.
type Bend = fn(&str) -> String;

/// The ways to bend, with their names. Each is applied to both texts.
const BENDS: [(&str, Bend); 15] = [
    ("indentation removed", |text| {
        by_line(text, |line| line.strip_prefix("    ").unwrap_or(line).to_owned())
    }),
    ("indentation added", |text| {
        by_line(text, |line| format!("  {line}"))
    }),
    ("tabs", |text| {
        by_line(text, |line| {
            let depth = (line.len() - line.trim_start().len()) / 4;
            "\t".repeat(depth) + &line[4 * depth..]
        })
    }),
    ("half the indentation", |text| {
        by_line(text, |line| {
            let indent = line.len() - line.trim_start().len();
            line[indent / 2..].to_owned()
        })
    }),
    ("no indentation", |text| {
        by_line(text, |line| line.trim_start().to_owned())
    }),
    ("blanks at the end", |text| {
        by_line(text, |line| format!("{line}  "))
    }),
    ("curly quotes", |text| {
        text.replace(" \"", " “").replace('"', "”").replace('\'', "’")
    }),
    // With those of the place: see `number_lines`.
    ("line numbers", str::to_owned),
    ("numbers and colons", str::to_owned),
    ("escaped quotes", |text| text.replace('"', "\\\"")),
    ("quotes and backslashes", |text| {
        text.replace('\\', "\\\\").replace('"', "\\\"")
    }),
    ("entities", |text| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    }),
    ("no-break spaces", |text| text.replace(' ', "\u{a0}")),
    ("a fence", |text| format!("```\n{text}\n```")),
    ("escapes", |text| {
        serde_json::to_string(text).unwrap().trim_matches('"').to_owned()
    }),
];

fn by_line(text: &str, bend: impl Fn(&str) -> String) -> String {
    text.split('\n')
        .map(|line| {
            if line.is_empty() {
                String::new()
            } else {
                bend(line)
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn number_lines(text: &str, first: usize, separator: &str) -> String {
    let lines = (first..).zip(text.split('\n'));
    let lines = lines.map(|(number, line)| format!("{number:>6}{separator}{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Counts the different indentations of a text, some of which a bend may lose.
fn count_indents(text: &str) -> usize {
    let lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let indents = lines.map(|line| &line[..line.len() - line.trim_start().len()]);
    indents.collect::<BTreeSet<_>>().len()
}

/// Compares by lines, without white space at their ends: a new line keeps what the model wrote there.
fn without_ends(text: &str) -> Vec<&str> {
    text.split('\n').map(str::trim_end).collect()
}

#[test]
fn bent_edits_are_made_right_or_refused() {
    let config = Config {
        cases: 1_000,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..Config::default()
    };
    let strategy = (any::<Index>(), 0..4_usize, 0..4_usize, any::<Index>());
    let made = std::cell::Cell::new([0, 0]);
    let outcome = TestRunner::new(config).run(&strategy, |(edit, lines_before, lines_after, bend)| {
        let edit = edit.get(&EDITS);
        let text = &edit.before;
        let lines: Vec<&str> = text.split('\n').collect();
        let start = edit.line.saturating_sub(lines_before);
        let end = (edit.line + edit.count + lines_after).min(lines.len());
        let region = &lines[start..end];
        let mut new_lines = lines[start..edit.line].to_vec();
        new_lines.extend(edit.new.iter().map(String::as_str));
        new_lines.extend(&lines[edit.line + edit.count..end]);
        let (old, new) = (region.join("\n"), new_lines.join("\n"));
        prop_assume!(!old.trim().is_empty() && !new.trim().is_empty());
        let mut expected = lines[..start].to_vec();
        expected.extend(new.split('\n'));
        expected.extend(&lines[start + region.len()..]);
        let expected = expected.join("\n");

        if text.matches(&old).count() == 1 {
            let exact = Replacement {
                old: old.clone(),
                new: new.clone(),
                all: false,
            };
            prop_assert_eq!(&apply(text, &[exact]).unwrap().text, &expected);
        }
        let (name, bend) = bend.get(&BENDS);
        let bend = |text: &str| match *name {
            "line numbers" => number_lines(text, start + 1, "\t"),
            "numbers and colons" => number_lines(text, start + 1, ": "),
            _ => bend(text),
        };
        let bent = Replacement {
            old: bend(&old),
            new: bend(&new),
            all: false,
        };
        prop_assume!(name.contains("numbers") || count_indents(&bent.new) == count_indents(&new));
        // Half of an odd number is none.
        let is_even = |line: &&str| (line.len() - line.trim_start().len()).is_multiple_of(2);
        prop_assume!(*name != "half the indentation" || region.iter().all(is_even));
        // An exact match is taken at its word, and what is bent in new lines alone cannot be known.
        prop_assume!(!text.contains(&bent.old));
        let has_curly = |text: &str| text.contains(['“', '”', '’']);
        prop_assume!(*name != "curly quotes" || !has_curly(&old) && !has_curly(&new));
        let mut counts = made.get();
        counts[0] += 1;
        if let Ok(edited) = apply(text, std::slice::from_ref(&bent)) {
            counts[1] += 1;
            if edited.places > 0 {
                let is_right = without_ends(&edited.text) == without_ends(&expected);
                prop_assert!(is_right, "{name}: {bent:?}, {:?}", region);
            } else {
                prop_assert_eq!(&edited.text, text);
            }
        }
        made.set(counts);
        Ok(())
    });
    outcome.unwrap();
    let [all, made] = made.get();
    assert!(made * 2 > all, "only {made} of {all} were made");
}
