//! What must hold for any command line and any rule. Fuzz targets call [`check_command`] and [`check_rule`]; so do
//! tests, with their seeds.
//!
//! The checks compare the parser with itself on changed lines, and with a far simpler reading of the same line
//! ([`masked_line`]).

mod masked_line;

use std::path::PathBuf;

use super::policy::{Policy, Verdict, judge_tool_call};
use super::read_only::only_reads;
use super::rule::Rule;
use super::shell::{ParsedCommand, SimpleCommand, parse};
use crate::domain::{Confinement, Effect, EffectKind, Mode};
use masked_line::MaskedLine;

const MODES: [Mode; 4] = [Mode::Plan, Mode::Ask, Mode::AutoEdit, Mode::Full];

/// The longest text that is checked, in bytes.
const MAX_TEXT: usize = 4 * 1024;

/// A command that no reading may miss.
const MARK: &str = "rm -rf x";

/// Lines that may enclose a command, before and after it.
const ENCLOSURES: &[(&str, &str)] = &[
    ("(\n", "\n)"),
    ("{\n", "\n}"),
    ("echo \"$(\n", "\n)\""),
    ("diff <(\n", "\n) x"),
    ("if true; then\n", "\nfi"),
    ("while true; do\n", "\ndone | cat"),
];

/// Checks the parser of command lines, and what approval derives from it, with any text.
///
/// # Panics
/// Panics if a command is lost when others precede, follow, or enclose it, if quotes change a word, if a line that
/// counts as reading has an operator that the parser did not see, or if a denied command is allowed.
pub fn check_command(bytes: &[u8]) {
    let Some(command) = expand_repeats(bytes) else {
        return;
    };
    let line = parse(&command);
    for part in &line.commands {
        check_quotes(part);
    }
    check_before(&command, &line);
    // A final backslash would join the next line.
    if !command.ends_with('\\') {
        if line.unparsed_reason.is_none() {
            check_after(&command, &line);
            check_enclosed(&command, &line);
        }
        check_denied(&command);
    }
    if only_reads(&command) {
        MaskedLine::new(&command).check_reading(&command, line.commands.len());
    }
}

/// Checks rules: the first line of the text is a rule, the rest is what it judges.
///
/// # Panics
/// Panics if the rule's text changes when it is parsed and printed, if a rule allows what it would not also deny, if a
/// deny rule loosens a verdict or is evaded by blanks, or if an invalid rule allows anything.
pub fn check_rule(bytes: &[u8]) {
    let Some(text) = expand_repeats(bytes) else { return };
    let (rule, subject) = text.split_once('\n').unwrap_or((&text, "ls -l"));
    let _ = Rule::parse_list(rule);
    let calls = calls_about(subject);
    let Ok(rule) = Rule::parse(rule) else {
        for mode in MODES {
            let policy = Policy {
                mode,
                allow: Rule::parse("*").into_iter().collect(),
                invalid_rules: vec!["a rule is not valid".to_owned()],
                ..Policy::default()
            };
            for (tool, effect) in &calls {
                assert!(
                    !is_allowed(&policy, tool, effect),
                    "an invalid rule allows {effect:?}"
                );
            }
        }
        return;
    };
    assert_eq!(
        Rule::parse(&rule.to_string()).as_ref(),
        Ok(&rule),
        "printed and parsed"
    );
    for (tool, effect) in &calls {
        check_strength(&rule, tool, effect);
    }
    check_blanks(&rule, subject);
}

/// Returns the text of an input. Each byte from 1 to 8 repeats the character before it 2, 4, … 256 times, since no
/// fuzzer would find deep nesting byte by byte. `None` if it is not UTF-8 or too long.
fn expand_repeats(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    for ch in std::str::from_utf8(bytes).ok()?.chars() {
        match (ch, text.chars().next_back()) {
            ('\u{1}'..='\u{8}', Some(last)) => {
                text.extend(std::iter::repeat_n(last, (1 << u32::from(ch)) - 1));
            }
            _ => text.push(ch),
        }
        if text.len() > MAX_TEXT {
            return None;
        }
    }
    Some(text)
}

fn texts_of(part: &SimpleCommand) -> String {
    format!("{:?} {:?} {:?}", part.assignments, part.words, part.redirects)
}

fn texts_of_line(line: &ParsedCommand) -> Vec<String> {
    line.commands.iter().map(texts_of).collect()
}

/// Checks that each word stays what it is in quotes.
fn check_quotes(part: &SimpleCommand) {
    let words: Option<Vec<&str>> = part.words.iter().map(|word| word.as_literal()).collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        return;
    };
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    let line = parse(&quoted.join(" "));
    let expected: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
    let found: Vec<Vec<Option<&str>>> = line
        .commands
        .iter()
        .map(|part| part.words.iter().map(|word| word.as_literal()).collect())
        .collect();
    assert_eq!(found, [expected], "quotes change a word: {line:?}");
    assert_eq!(line.unparsed_reason, None, "quotes hide {words:?}");
}

fn check_before(command: &str, line: &ParsedCommand) {
    let both = parse(&format!("{MARK}\n{command}"));
    // A line that is refused as a whole, such as one with control characters, hides nothing.
    if both.unparsed_reason.is_some() && both.commands.is_empty() {
        return;
    }
    let texts = texts_of_line(&both);
    assert_eq!(
        texts.first(),
        texts_of_line(&parse(MARK)).first(),
        "the first command is lost: {both:?}"
    );
    // With one command more, the line may exceed the limit on commands.
    if line.commands.len() < 200 {
        assert_eq!(
            texts[1..],
            texts_of_line(line),
            "a command changes behind another"
        );
        assert_eq!(both.unparsed_reason, line.unparsed_reason);
    }
}

fn check_after(command: &str, line: &ParsedCommand) {
    let both = parse(&format!("{command}\n{MARK}"));
    if both.unparsed_reason.is_some() {
        return;
    }
    let mut expected = texts_of_line(line);
    expected.extend(texts_of_line(&parse(MARK)));
    assert_eq!(
        texts_of_line(&both),
        expected,
        "a command is lost or changes before another"
    );
}

fn check_enclosed(command: &str, line: &ParsedCommand) {
    for (start, end) in ENCLOSURES {
        let outer = parse(&format!("{start}{command}{end}"));
        if outer.unparsed_reason.is_some() {
            continue;
        }
        let found = texts_of_line(&outer);
        let mut rest = found.iter();
        for text in texts_of_line(line) {
            assert!(
                rest.any(|found| *found == text),
                "{start:?} hides {text}: {outer:?}"
            );
        }
    }
}

/// Checks that a denied command on a line of its own is never allowed, whatever precedes it.
fn check_denied(command: &str) {
    let rules = |text: &str| Rule::parse(text).into_iter().collect();
    let mut policy = Policy {
        allow: rules("*"),
        deny: rules("bash(rm *)"),
        sandboxed_needs_approval: Some(false),
        ..Policy::default()
    };
    for confinement in [Confinement::None, Confinement::Sandboxed] {
        let effect = Effect {
            confinement,
            findings: Some(Vec::new()),
            ..Effect::from_command(format!("{command}\n{MARK}"))
        };
        for mode in MODES {
            policy.mode = mode;
            assert!(
                !is_allowed(&policy, "bash", &effect),
                "a denied command is allowed in {mode:?}"
            );
        }
    }
}

/// Returns calls whose subject is this text: a command, a change of a file, and a request.
fn calls_about(subject: &str) -> [(&'static str, Effect); 3] {
    let on_file = Effect {
        kind: EffectKind::Write,
        paths: vec![PathBuf::from("/work").join(subject)],
        subject: subject.to_owned(),
        ..Effect::none()
    };
    let on_network = Effect {
        kind: EffectKind::Network,
        subject: subject.to_owned(),
        ..Effect::none()
    };
    [
        ("bash", Effect::from_command(subject)),
        ("edit_file", on_file),
        ("web_fetch", on_network),
    ]
}

fn is_allowed(policy: &Policy, tool: &str, effect: &Effect) -> bool {
    matches!(judge_tool_call(policy, tool, effect), Verdict::Allow { .. })
}

/// Returns how strict a verdict is.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow { .. } => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

fn check_strength(rule: &Rule, tool: &str, effect: &Effect) {
    let allowing = Policy {
        allow: vec![rule.clone()],
        ..Policy::default()
    };
    let allows = is_allowed(&allowing, tool, effect);
    for mode in MODES {
        let mut policy = Policy {
            mode,
            ..Policy::default()
        };
        let before = judge_tool_call(&policy, tool, effect);
        policy.deny.push(rule.clone());
        let after = judge_tool_call(&policy, tool, effect);
        assert!(
            rank(&before) <= rank(&after),
            "denying {rule} loosens {before:?} to {after:?}"
        );
        assert!(
            !allows || matches!(after, Verdict::Deny { .. }),
            "{rule} allows {effect:?}, but does not deny it: {after:?}"
        );
    }
}

/// Checks that more blanks between the words of a command do not evade a deny rule.
fn check_blanks(rule: &Rule, command: &str) {
    let denying = Policy {
        mode: Mode::Full,
        deny: vec![rule.clone()],
        ..Policy::default()
    };
    let judge = |command: &str| judge_tool_call(&denying, "bash", &Effect::from_command(command));
    if let (Verdict::Deny { .. }, Some(spaced)) =
        (judge(command), MaskedLine::new(command).with_more_blanks(command))
    {
        let verdict = judge(&spaced);
        assert!(
            matches!(verdict, Verdict::Deny { .. }),
            "blanks evade {rule}: {spaced:?} is {verdict:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::base::testing::read_fuzz_seeds;

    #[test]
    fn every_seed_of_the_shell_parser_passes() {
        for (name, seed) in read_fuzz_seeds("shell_parser") {
            println!("{name}");
            super::check_command(&seed);
        }
    }

    #[test]
    fn every_seed_of_the_permission_rules_passes() {
        for (name, seed) in read_fuzz_seeds("permission_rules") {
            println!("{name}");
            super::check_rule(&seed);
        }
    }

    #[test]
    fn low_bytes_repeat_the_character_before_them() {
        assert_eq!(super::expand_repeats(b"a{\x02b").as_deref(), Some("a{{{{b"));
        assert_eq!(super::expand_repeats(b"\x01").as_deref(), Some("\x01"));
    }
}
