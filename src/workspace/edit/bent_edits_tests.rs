//! Edits of this repository's own files, bent as models bend them: each is made right or refused, never made wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Files in several languages.
static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folders = [
        "src/workspace",
        "editors/nvim/lua/agentls",
        "editors/vscode/src",
        "tests/peers",
    ];
    let mut files = Vec::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut paths: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        files.extend(
            paths
                .iter()
                .filter(|path| path.is_file())
                .map(|path| fs::read_to_string(path).unwrap()),
        );
    }
    files
});

/// What a model does to a text that it copies.
type Bend = fn(&str) -> String;

/// The ways to bend, with their names. Each is applied to both texts.
const BENDS: [(&str, Bend); 10] = [
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

fn number_lines(text: &str, first: usize) -> String {
    let lines = (first..).zip(text.split('\n'));
    let lines = lines.map(|(number, line)| format!("{number:>6}\t{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Changes some of the lines, as an edit would.
fn change_lines(lines: &[&str], kind: usize, at: usize) -> String {
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let line = lines[at].clone();
    let indent = &line[..line.len() - line.trim_start().len()];
    match kind {
        0 => lines[at] = line.replacen(|letter: char| letter.is_ascii_lowercase(), "q", 1),
        1 => lines.insert(at, format!("{indent}inserted(line);")),
        2 => {
            lines.insert(at + 1, format!("{indent}    deeper(line);"));
            lines.insert(at + 2, format!("{indent}end(line);"));
        }
        3 => drop(lines.remove(at)),
        _ => lines[at] = line + " // more",
    }
    lines.join("\n")
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
    let strategy = (
        any::<Index>(),
        any::<Index>(),
        1..8_usize,
        0..5_usize,
        any::<Index>(),
        any::<Index>(),
    );
    let made = std::cell::Cell::new([0, 0]);
    let outcome = TestRunner::new(config).run(&strategy, |(file, start, count, kind, at, bend)| {
        let text = file.get(&FILES);
        let lines: Vec<&str> = text.split('\n').collect();
        let start = start.index(lines.len().saturating_sub(count).max(1));
        let region = &lines[start..(start + count).min(lines.len())];
        prop_assume!(!region[at.index(region.len())].trim().is_empty());
        let (old, new) = (
            region.join("\n"),
            change_lines(region, kind, at.index(region.len())),
        );
        prop_assume!(old != new && !old.trim().is_empty() && !new.trim().is_empty());
        let mut expected = lines[..start].to_vec();
        expected.extend(new.split('\n'));
        expected.extend(&lines[start + region.len()..]);
        let expected = expected.join("\n");

        let (name, bend) = bend.get(&BENDS);
        let bend = |text: &str| match *name {
            "line numbers" => number_lines(text, start + 1),
            _ => bend(text),
        };
        let bent = Replacement {
            old: bend(&old),
            new: bend(&new),
            all: false,
        };
        prop_assume!(*name == "line numbers" || count_indents(&bent.new) == count_indents(&new));
        // Half of an odd number is none.
        let is_even = |line: &&str| (line.len() - line.trim_start().len()).is_multiple_of(2);
        prop_assume!(*name != "half the indentation" || region.iter().all(is_even));
        // An exact match is taken at its word, and what is bent in new lines alone cannot be known.
        prop_assume!(!text.contains(&bent.old));
        let has_curly = |text: &str| ['“', '”', '’'].map(|letter| text.contains(letter));
        prop_assume!(
            *name != "curly quotes"
                || has_curly(&bent.new) == has_curly(&bent.old) && !old.contains(['“', '”', '’'])
        );
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
