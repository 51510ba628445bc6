//! Recognizes commands that fail again and again in the same way within a turn: pure, no I/O.
//!
//! `bash` itself works when a command fails, so the circuit of the tool stays closed. Instead, the model learns that the
//! same failure came back. Other calls in between, such as edits, do not matter: they did not help.

use std::collections::VecDeque;

use crate::base::hash::sha256;
use crate::base::text::one_line;
use crate::domain::TurnId;

/// Equal failures that are reported.
const REPORTED: u32 = 3;
/// The failures that are remembered, and the commands of each; the oldest is forgotten first.
const REMEMBERED: usize = 32;
/// How much of a failure is quoted, in characters.
const QUOTED: usize = 200;
/// What lines that name an error contain, in lower case.
#[rustfmt::skip]
const ERROR_WORDS: [&str; 9] = [
    "error", "fail", "not found", "no such", "denied", "fatal", "panicked", "exception", "cannot",
];

/// The failures of commands in a turn.
#[derive(Debug, Default)]
pub struct CommandFailures {
    turn: Option<TurnId>,
    known: Vec<KnownFailure>,
}

#[derive(Debug)]
struct KnownFailure {
    pattern: String,
    /// The last commands that failed so, each by its hash, because a command may be long.
    commands: VecDeque<String>,
    times: u32,
}

/// A failure that came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatedFailure {
    pub(super) times: u32,
    pub(super) is_first_report: bool,
    /// What failed, in one line.
    failure: String,
}

impl RepeatedFailure {
    /// Returns what the model reads after the result.
    pub(super) fn to_note(&self) -> String {
        let Self { times, failure, .. } = self;
        format!(
            "[Commands have failed {times} times in this turn in the same way ({failure}). What you changed in between, \
             if anything, did not help: look for another cause, try another way, or tell the user what is missing.]"
        )
    }

    /// Returns what the user reads.
    pub(super) fn to_warning(&self) -> String {
        let Self { times, failure, .. } = self;
        format!(
            "commands failed {times} times in the same way ({failure}); the model was told to try another way"
        )
    }
}

impl CommandFailures {
    /// Records the end of a command. `failed` is the output of one that failed, with its exit code. Returns the failure
    /// if it came back often enough.
    pub(super) fn record_end(
        &mut self,
        turn: &TurnId,
        command: &str,
        failed: Option<&str>,
    ) -> Option<RepeatedFailure> {
        if self.turn.as_ref() != Some(turn) {
            self.turn = Some(turn.clone());
            self.known.clear();
        }
        let hash = sha256(command.as_bytes());
        let Some(output) = failed else {
            self.known.retain(|known| !known.commands.contains(&hash));
            return None;
        };
        let (failure, pattern) = describe_failure(command, output);
        // Another failure of the same command is progress.
        self.known
            .retain(|known| known.pattern == pattern || !known.commands.contains(&hash));
        let at = self.known.iter().position(|known| known.pattern == pattern);
        let mut known = at.map_or_else(
            || KnownFailure {
                pattern,
                commands: VecDeque::new(),
                times: 0,
            },
            |at| self.known.remove(at),
        );
        known.times += 1;
        known.commands.retain(|other| *other != hash);
        known.commands.push_back(hash);
        if known.commands.len() > REMEMBERED {
            known.commands.pop_front();
        }
        let times = known.times;
        if self.known.len() >= REMEMBERED {
            self.known.remove(0);
        }
        self.known.push(known);
        (times >= REPORTED).then(|| RepeatedFailure {
            times,
            is_first_report: times == REPORTED,
            failure: one_line(failure, QUOTED),
        })
    }
}

/// Returns the line that names the failure, and the pattern that equal failures share: the lines that name an error, and
/// where the first is. Without such lines, the whole output counts, and if there is
/// hardly any, the command too: `grep` and `test` fail without a word.
fn describe_failure<'a>(command: &str, output: &'a str) -> (&'a str, String) {
    let lines: Vec<&str> = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines.last().copied().unwrap_or_default();
    let names_error = |line: &&&str| {
        let line = line.to_lowercase();
        ERROR_WORDS.iter().any(|word| line.contains(word))
    };
    let errors: Vec<&str> = lines.iter().filter(names_error).copied().collect();
    if let Some(at) = lines.iter().position(|line| names_error(&line)) {
        // rustc names the place in the next line.
        let place = lines.get(at + 1).filter(|line| line.starts_with("-->"));
        let pattern = format!("{}\n{}", errors.join("\n"), place.unwrap_or(&""));
        return (lines[at], without_times(&pattern));
    }
    let pattern = without_times(&lines.join("\n"));
    match lines.len() {
        0..=2 => (last, format!("{command}\n{pattern}")),
        _ => (last, pattern),
    }
}

/// Returns the text without what differs in each run: durations, times, addresses, and process ids. Other numbers count:
/// an error in another line is another error.
fn without_times(text: &str) -> String {
    let is_number = |word: &str| {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let is_duration = word
            .trim_end_matches(|ch: char| ch.is_ascii_alphabetic())
            .parse::<f64>()
            .is_ok_and(|_| word.ends_with(['s', 'm']));
        let is_time = word.contains(':') && word.chars().all(|ch| ch.is_ascii_digit() || ":.-T".contains(ch));
        digits > 0 && (is_duration || is_time || word.starts_with("0x") || digits == word.len() && digits > 4)
    };
    let clean = |word: &str| {
        let bare = word.trim_matches(|ch: char| !ch.is_ascii_alphanumeric());
        if is_number(bare) {
            "#".to_owned()
        } else {
            word.to_owned()
        }
    };
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().map(clean).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records failures with these commands and outputs, and returns how often each was said to have come.
    fn record_all(runs: &[(&str, Option<&str>)]) -> Vec<Option<u32>> {
        let mut failures = CommandFailures::default();
        let turn = TurnId::new_random();
        runs.iter()
            .map(|(command, output)| Some(failures.record_end(&turn, command, *output)?.times))
            .collect()
    }

    #[test]
    fn what_is_remembered_of_a_failure_has_a_limit() {
        let mut failures = CommandFailures::default();
        let turn = TurnId::new_random();
        let missing = "bash: line 1: foo: command not found";
        for number in 0..1_000 {
            let command = format!("foo {number} {}", "x".repeat(10_000));
            failures.record_end(&turn, &command, Some(missing));
        }
        assert_eq!((failures.known.len(), failures.known[0].times), (1, 1_000));
        let commands = &failures.known[0].commands;
        assert_eq!(commands.len(), REMEMBERED);
        assert!(commands.iter().map(String::len).sum::<usize>() < 4_096);
    }

    #[test]
    fn the_third_equal_failure_is_reported() {
        let pytest = Some("FAILED test_a.py::test_x - assert 1 == 2\n1 failed in 0.03s\nexit code: 1");
        let later = Some("FAILED test_a.py::test_x - assert 1 == 2\n1 failed in 1.20s\nexit code: 1");
        let missing = Some("bash: line 1: foo: command not found\nexit code: 127");
        let silent = Some("(no output)\nexit code: 1");
        let unlike = [
            Some("error[E0308]: mismatched types\n --> src/a.rs:3:5"),
            Some("error[E0308]: mismatched types\n --> src/a.rs:9:5"),
            Some("error[E0308]: mismatched types\n --> src/b.rs:3:5"),
        ];
        let (none, works) = (None, None);
        for (runs, reported) in [
            (
                &[
                    ("pytest", pytest),
                    ("pytest", later),
                    ("pytest", pytest),
                    ("pytest", later),
                ][..],
                vec![none, none, Some(3), Some(4)],
            ),
            (
                &[
                    ("foo", missing),
                    ("foo --help", missing),
                    ("foo -V | cat", missing),
                ],
                vec![none, none, Some(3)],
            ),
            // Whatever works in between does not mend it, unless it is the same command.
            (
                &[
                    ("a", pytest),
                    ("ls", works),
                    ("b", pytest),
                    ("ls", works),
                    ("c", pytest),
                ],
                vec![none, none, none, none, Some(3)],
            ),
            (
                &[("a", pytest), ("a", pytest), ("a", works), ("a", pytest)],
                vec![none; 4],
            ),
            (
                &[("a", pytest), ("a", pytest), ("a", missing), ("a", pytest)],
                vec![none; 4],
            ),
            (
                &[
                    ("cargo build", unlike[0]),
                    ("cargo build", unlike[1]),
                    ("cargo build", unlike[2]),
                ],
                vec![none; 3],
            ),
            (
                &[
                    ("cargo build", unlike[0]),
                    ("cargo test", unlike[0]),
                    ("cargo check", unlike[0]),
                ],
                vec![none, none, Some(3)],
            ),
            // Durations differ in each run.
            (
                &[
                    ("a", Some("error: gave up after 1.5s")),
                    ("a", Some("error: gave up after 20s")),
                    ("a", Some("error: gave up after 0.25s")),
                ],
                vec![none, none, Some(3)],
            ),
            // Silent failures are equal only for the same command.
            (
                &[("grep a x", silent), ("grep b x", silent), ("grep c x", silent)],
                vec![none; 3],
            ),
            (
                &[("grep a x", silent), ("grep a x", silent), ("grep a x", silent)],
                vec![none, none, Some(3)],
            ),
        ] {
            assert_eq!(record_all(runs), reported, "{runs:?}");
        }
    }

    #[test]
    fn a_new_turn_starts_counting_again_and_memory_is_bounded() {
        let mut failures = CommandFailures::default();
        for _ in 0..4 {
            assert_eq!(
                failures.record_end(&TurnId::new_random(), "a", Some("error: x")),
                None
            );
        }
        let turn = TurnId::new_random();
        for number in 0..200 {
            failures.record_end(&turn, "a", Some(&format!("error: x{number}")));
            failures.record_end(&turn, &format!("b{number}"), Some(&format!("error: y{number}")));
        }
        assert!(failures.known.len() <= REMEMBERED);
    }

    #[test]
    fn the_note_says_how_often_and_what() {
        let mut failures = CommandFailures::default();
        let turn = TurnId::new_random();
        let mut run = || failures.record_end(&turn, "a", Some("begin\n\nfatal: no such ref\nexit code: 128"));
        assert_eq!((run(), run()), (None, None));
        let note = run().unwrap().to_note();
        assert!(
            note.contains("3 times") && note.contains("(fatal: no such ref)"),
            "{note}"
        );
    }
}
