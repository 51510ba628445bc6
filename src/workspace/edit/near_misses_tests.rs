//! Edits that miss by one thing that models do, by kind, for both tools: made right or refused, never made wrong.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use similar::DiffTag;

use super::*;
use crate::workspace::line_diff::compare_lines;

const RUST: &str = r#"/// Rates — in percent.
pub fn first(rates: &Map<String, u8>) -> Option<u8> {
    if rates.len() > 1 && !rates.is_empty() {
        log("first: it's set - or not");
        return rates.get("first").copied();
    }
    None
}

pub fn second(rates: &Map<String, u8>) -> Option<u8> {
    if rates.len() > 2 && !rates.is_empty() {
        log("second: it's set - or not");
        return rates.get("second").copied();
    }
    None
}
"#;

const PYTHON: &str = r#"class Cart:
    def total(self, rate: int = 3) -> int:
        """The cart's total - net."""
        if rate < 4 and self.kind == "plain":
            return self.net & 0xff
        return self.net

    def weight(self, rate: int = 3) -> int:
        """The cart's weight - net."""
        if rate > 5 and self.kind == "heavy":
            return self.grams & 0xff
        return self.net
"#;

const SCRIPT: &str = r#"export function open(panel) {
  if (panel.width < 300 && panel.name !== "side") {
    panel.title = "It's open - now";
    return panel.show("wide");
  }
  return null;
}

export function close(panel) {
  if (panel.width < 200 && panel.name !== "side") {
    panel.title = "It's closed - now";
    return panel.hide("wide");
  }
  return null;
}
"#;

const MARKDOWN: &str = r#"# Rules

- A rule says "allow" or "ask" - the first counts.
- It's read from <config> & the folder.
  - Folders are "inside" if they're below it.

# Modes

- A mode says "allow" or "deny" - the last counts.
- It's read from <session> & the client.
  - Clients are "known" if they're listed.
"#;

/// Whole lines of a file, and what replaces them.
const EDITS: [(&str, &[(&str, &str)]); 4] = [
    (
        RUST,
        &[
            (
                "        return rates.get(\"first\").copied();",
                "        return rates.get(\"other\").copied();",
            ),
            (
                "        log(\"first: it's set - or not\");\n        return rates.get(\"first\").copied();\n    }\n    None",
                "        None\n    }\n    None",
            ),
            (
                "    if rates.len() > 2 && !rates.is_empty() {\n        log(\"second: it's set - or not\");",
                "    if rates.len() > 2 && !rates.is_empty() {\n        if rates.len() < 9 {\n            count();\n        }\n        log(\"second: it's set - or not\");",
            ),
        ],
    ),
    (
        PYTHON,
        &[
            (
                "        if rate < 4 and self.kind == \"plain\":",
                "        if rate < 5 and self.kind == \"plain\":",
            ),
            (
                "        if rate > 5 and self.kind == \"heavy\":\n            return self.grams & 0xff\n        return self.net",
                "        return self.grams",
            ),
            (
                "        \"\"\"The cart's weight - net.\"\"\"\n        if rate > 5 and self.kind == \"heavy\":",
                "        \"\"\"The cart's weight - net.\"\"\"\n        rate += 1\n        if rate > 5 and self.kind == \"heavy\":\n            rate -= 1",
            ),
        ],
    ),
    (
        SCRIPT,
        &[
            (
                "    return panel.show(\"wide\");\n  }",
                "    return panel.show(\"slim\");\n  }",
            ),
            (
                "  if (panel.width < 200 && panel.name !== \"side\") {\n    panel.title = \"It's closed - now\";\n    return panel.hide(\"wide\");\n  }",
                "  panel.hide(1);",
            ),
            (
                "    panel.title = \"It's open - now\";\n    return panel.show(\"wide\");",
                "    panel.title = \"It's open - now\";\n    for (const part of parts) {\n      part.show();\n    }\n    return panel.show(\"wide\");",
            ),
        ],
    ),
    (
        MARKDOWN,
        &[
            (
                "- It's read from <config> & the folder.\n  - Folders are \"inside\" if they're below it.",
                "- It's read from <config> & the folder.\n  - Files are \"inside\" if they're below it.",
            ),
            (
                "- A mode says \"allow\" or \"deny\" - the last counts.\n- It's read from <session> & the client.",
                "- A mode counts.",
            ),
            (
                "- A rule says \"allow\" or \"ask\" - the first counts.",
                "- A rule says \"allow\" or \"ask\" - the first counts.\n  - Below it\n  - Above it",
            ),
        ],
    ),
];

/// A call that misses, and the text that is meant.
#[derive(Clone)]
struct NearMiss {
    text: String,
    old: String,
    new: String,
    /// `None` if it must be refused.
    expected: Option<String>,
}

impl NearMiss {
    fn new(text: &str, old: &str, new: &str) -> Self {
        assert_eq!(text.matches(old).count(), 1, "{old}");
        Self {
            text: text.to_owned(),
            old: old.to_owned(),
            new: new.to_owned(),
            expected: Some(text.replace(old, new)),
        }
    }

    /// The number of the first line of the old text.
    fn line(&self) -> usize {
        self.text
            .find(&self.old)
            .map_or(1, |at| line_number(&self.text, at))
    }

    fn send(self, bend: impl Fn(&str) -> String) -> Self {
        let (old, new) = (bend(&self.old), bend(&self.new));
        Self { old, new, ..self }
    }

    fn file(self, bend: impl Fn(&str) -> String) -> Self {
        let (text, expected) = (bend(&self.text), self.expected.as_deref().map(bend));
        Self {
            text,
            expected,
            ..self
        }
    }

    /// The lines of the file are there twice.
    fn twice(self) -> Self {
        let text = format!("{}\n{}", self.text, self.text);
        Self {
            text,
            expected: None,
            ..self
        }
    }

    fn number(self, format: impl Fn(usize, &str) -> String) -> Self {
        let first = self.line();
        self.send(|text| {
            let lines = (first..).zip(text.split('\n'));
            lines
                .map(|(number, line)| format(number, line))
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    fn hunk(&self) -> Hunk {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (self.old.split('\n').collect(), self.new.split('\n').collect());
        let mut hunk = Hunk::default();
        for change in compare_lines(&old, &new, None) {
            let (tag, from, to) = change.as_tag_tuple();
            for line in &old[from] {
                let line = (*line).to_owned();
                let is_kept = tag == DiffTag::Equal;
                hunk.lines.push(if is_kept {
                    HunkLine::Keep(line)
                } else {
                    HunkLine::Remove(line)
                });
            }
            let added = if tag == DiffTag::Equal { &[][..] } else { &new[to] };
            hunk.lines
                .extend(added.iter().map(|line| HunkLine::Add((*line).to_owned())));
        }
        hunk
    }

    /// Returns whether a result is right; the typography of changed lines is free.
    fn accepts(&self, result: &str) -> bool {
        let Some(expected) = &self.expected else {
            return false;
        };
        let (lines, meant): (Vec<&str>, Vec<&str>) =
            (result.split('\n').collect(), expected.split('\n').collect());
        let is_kept = |line: &&str| self.text.split('\n').any(|there| there == *line);
        let are_equal = |(line, meant): (&&str, &&str)| {
            line == meant || !is_kept(meant) && plain(line.trim_end()) == plain(meant.trim_end())
        };
        lines.len() == meant.len() && lines.iter().zip(&meant).all(are_equal)
    }
}

fn plain(text: &str) -> String {
    text.replace(['“', '”'], "\"")
        .replace('’', "'")
        .replace('–', "-")
        .replace('\u{a0}', " ")
}

fn curl(text: &str) -> String {
    let text = text.replace(" \"", " “").replace("(\"", "(“");
    text.replace('"', "”").replace('\'', "’")
}

fn by_line(text: &str, bend: impl Fn(&str) -> String) -> String {
    let lines = text.split('\n').map(|line| {
        if line.is_empty() {
            String::new()
        } else {
            bend(line)
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn use_tabs(text: &str) -> String {
    by_line(text, |line| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        "\t".repeat(depth) + line.trim_start()
    })
}

fn dedent(miss: NearMiss) -> NearMiss {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines = miss.old.split('\n').chain(miss.new.split('\n'));
    let shared = lines
        .filter(|line| !line.is_empty())
        .map(indent)
        .min()
        .unwrap_or(0);
    miss.send(|text| by_line(text, |line| line[shared..].to_owned()))
}

fn encode(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn inner_blanks(text: &str, blank: &str) -> String {
    by_line(text, |line| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        indent.to_owned() + &rest.replace(' ', blank)
    })
}

type Bend = fn(NearMiss) -> NearMiss;

/// What models do, by kind.
const KINDS: [(&str, Bend); 33] = [
    ("blanks at the ends of lines", |miss| {
        miss.send(|text| by_line(text, |line| format!("{line}  ")))
    }),
    ("tabs sent", |miss| miss.send(use_tabs)),
    ("tabs in the file", |miss| miss.file(use_tabs)),
    ("indentation missing", dedent),
    ("indentation added", |miss| {
        miss.send(|text| by_line(text, |line| format!("    {line}")))
    }),
    ("empty lines around", |miss| {
        miss.send(|text| format!("\n{text}\n\n"))
    }),
    ("CRLF sent, with blanks", |miss| {
        miss.send(|text| text.replace('\n', " \r\n") + " \r\n")
    }),
    ("CRLF in the file, tabs sent", |miss| {
        miss.send(use_tabs).file(|text| text.replace('\n', "\r\n"))
    }),
    ("curly quotes sent", |miss| miss.send(curl)),
    ("curly quotes in the file", |miss| miss.file(curl)),
    ("dashes sent", |miss| miss.send(|text| text.replace(" - ", " – "))),
    ("dashes in the file", |miss| {
        miss.file(|text| text.replace(" - ", " – "))
    }),
    ("no-break spaces sent", |miss| {
        miss.send(|text| inner_blanks(text, "\u{a0}"))
    }),
    ("no-break spaces in the file", |miss| {
        miss.file(|text| inner_blanks(text, "\u{a0}"))
    }),
    ("no-break indentation sent", |miss| {
        miss.send(|text| text.replace("  ", "\u{a0}\u{a0}"))
    }),
    ("part of a line, curly quotes", |miss| {
        let end = |text: &str| {
            text.split_once(' ')
                .map_or(text, |(_, end)| end)
                .trim_start()
                .to_owned()
        };
        let is_short = !miss.old.contains('\n') && !miss.new.contains('\n');
        if is_short {
            miss.send(|text| curl(&end(text.trim_start())))
        } else {
            miss
        }
    }),
    ("numbers with tabs", |miss| {
        miss.number(|number, line| format!("{number:>6}\t{line}"))
    }),
    ("numbers `374: `", |miss| {
        miss.number(|number, line| format!("{number}: {line}"))
    }),
    ("numbers `374:`", |miss| {
        miss.number(|number, line| format!("{number}:{line}"))
    }),
    ("numbers `374| `", |miss| {
        miss.number(|number, line| format!("{number}| {line}"))
    }),
    ("numbers `  374 | `", |miss| {
        miss.number(|number, line| format!("{number:>5} | {line}"))
    }),
    ("numbers `374→`", |miss| {
        miss.number(|number, line| format!("{number:>6}→{line}"))
    }),
    ("numbers of old lines only", |miss| {
        let new = miss.new.clone();
        NearMiss {
            new,
            ..miss.number(|number, line| format!("{number}: {line}"))
        }
    }),
    ("a fence", |miss| miss.send(|text| format!("```\n{text}\n```"))),
    ("a fence with a language", |miss| {
        miss.send(|text| format!("```text\n{text}\n```\n"))
    }),
    ("escaped as JSON", |miss| {
        miss.send(|text| serde_json::to_string(text).unwrap().trim_matches('"').to_owned())
    }),
    ("escaped quotes", |miss| {
        miss.send(|text| text.replace('"', "\\\""))
    }),
    ("escaped quotes in the old text", |miss| {
        let old = miss.old.replace('"', "\\\"");
        NearMiss { old, ..miss }
    }),
    ("entities", |miss| miss.send(encode)),
    ("entities, quotes too", |miss| {
        miss.send(|text| encode(text).replace('"', "&quot;").replace('\'', "&#x27;"))
    }),
    // What must be refused.
    ("two places", |miss| {
        miss.twice().send(|text| by_line(text, |line| format!("{line} ")))
    }),
    ("two places, escaped quotes", |miss| {
        miss.twice().send(|text| text.replace('"', "\\\""))
    }),
    ("numbers of other lines", |miss| NearMiss {
        expected: None,
        ..miss.number(|number, line| format!("{}: {line}", number + 1))
    }),
];

/// How many were right, were refused although they are clear, and were made wrong.
type Counts = BTreeMap<&'static str, [usize; 3]>;

fn judge(counts: &mut Counts, kind: &'static str, miss: &NearMiss, result: Option<EditedText>) {
    let counts = counts.entry(kind).or_default();
    match result {
        None => counts[usize::from(miss.expected.is_some())] += 1,
        Some(edited) if edited.places > 0 && miss.accepts(&edited.text) => {
            assert!(!edited.notes.is_empty(), "{kind} is not told");
            counts[0] += 1;
        }
        Some(edited) => {
            println!(
                "wrong: {kind}\n{}\nbecame\n{}\nnotes: {:?}\n",
                miss.old, edited.text, edited.notes
            );
            counts[2] += 1;
        }
    }
}

fn sum(counts: &Counts) -> [usize; 3] {
    let sum = |at: usize| counts.values().map(|counts| counts[at]).sum();
    [sum(0), sum(1), sum(2)]
}

#[test]
fn near_misses_are_made_right_or_refused() {
    let (mut by_edit, mut by_hunk) = (Counts::new(), Counts::new());
    for (text, edits) in EDITS {
        for (old, new) in edits {
            let plain = NearMiss::new(text, old, new);
            for (kind, bend) in KINDS {
                let miss = bend(plain.clone());
                // An exact match is taken at its word.
                if miss.expected.is_some() && unix_lines(&miss.text).contains(&unix_lines(&miss.old)) {
                    continue;
                }
                let edit = Replacement {
                    old: miss.old.clone(),
                    new: miss.new.clone(),
                    all: false,
                };
                judge(&mut by_edit, kind, &miss, apply(&miss.text, &[edit]).ok());
                judge(
                    &mut by_hunk,
                    kind,
                    &miss,
                    apply_hunks(&miss.text, &[miss.hunk()]).ok(),
                );
            }
        }
    }
    println!(
        "{:34} {:>16} {:>16}",
        "right, refused, wrong", "edit_file", "apply_patch"
    );
    for (kind, counts) in &by_edit {
        println!(
            "{kind:34} {:>16} {:>16}",
            format!("{counts:?}"),
            format!("{:?}", by_hunk[kind])
        );
    }
    println!("{:34} {:?} {:?}", "", sum(&by_edit), sum(&by_hunk));
    for (counts, floor) in [(by_edit, 330), (by_hunk, 320)] {
        let [right, _, wrong] = sum(&counts);
        assert_eq!(wrong, 0, "{counts:?}");
        assert!(right >= floor, "only {right}: {counts:?}");
    }
}

/// Lines that are easily confused, with what the readings leave out.
const LINES: [&str; 12] = [
    "    say(\"first\");",
    "    say(\"second\");",
    "say('it’s – x');",
    "\tsay('it's - x');",
    "  if a < b && c {",
    "&lt;b&gt; &amp; bold",
    "print(\"a\\n\", \"\\\"b\\\"\");",
    "2: value of it",
    "    2: value of it",
    "```",
    "}",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// Whatever the old text is read as, no other lines change than as many as it has.
    #[test]
    fn only_the_lines_that_match_change(
        lines in vec(select(&LINES[..]), 1..9),
        at in any::<Index>(),
        count in 1..4_usize,
        new in vec(select(&LINES[..]), 0..4),
        kind in select(&KINDS[..]),
    ) {
        let start = at.index(lines.len());
        let old = &lines[start..(start + count).min(lines.len())];
        let miss = kind.1(NearMiss {
            text: lines.join("\n"),
            old: old.join("\n"),
            new: new.join("\n"),
            expected: None,
        });
        let edit = Replacement { old: miss.old.clone(), new: miss.new.clone(), all: false };
        let results = [apply(&miss.text, &[edit]).ok(), apply_hunks(&miss.text, &[miss.hunk()]).ok()];
        for edited in results.into_iter().flatten() {
            let (before, after): (Vec<&str>, Vec<&str>) = (miss.text.split('\n').collect(), edited.text.split('\n').collect());
            let head = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
            let rest = before[head..].iter().rev().zip(after[head..].iter().rev());
            let tail = rest.take_while(|(before, after)| before == after).count();
            let most = 1 + miss.old.matches('\n').count() + miss.old.matches("\\n").count();
            prop_assert!(before.len() - head - tail <= most, "{}: {:?} became {:?}", kind.0, miss.text, edited);
        }
    }
}
