//! The words of a `sed` command that may run a program or write a file: scripts with `e`, `w`, or `W`, and options.
//!
//! Pure. It knows a few forms of scripts that surely only change the text. A rule must spell any other script out, because
//! implementations of `sed` disagree about where a command of a script ends.

use super::read_only::may_become_option;
use super::shell::ShellWord;
use crate::base::word_list::WordList;

/// Letters of options that only change how the text is read and printed.
const SAFE_LETTERS: &str = "nErsuz";

/// Long options that only change how the text is read and printed.
const SAFE_LONG: WordList =
    WordList("--quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox");

/// Returns the arguments that a rule must spell out before it allows the command.
pub(super) fn find_dangerous_sed_words(arguments: &[ShellWord]) -> Vec<String> {
    let mut found = Vec::new();
    // The first argument that is not an option is a script, unless `-e` or `-f` names one.
    let (mut has_script, mut is_script_next, mut options_ended) = (false, false, false);
    for word in arguments {
        let Some(text) = word.as_literal() else { continue };
        let is_option = !options_ended && !is_script_next && text.len() > 1 && text.starts_with('-');
        let is_harmless = if is_option {
            options_ended = text == "--";
            match text
                .strip_prefix("--expression=")
                .or_else(|| script_in_cluster(text))
            {
                Some(script) => {
                    has_script = true;
                    is_script_next = script.is_empty();
                    script.is_empty() || is_harmless_script(script)
                }
                None => options_ended || is_harmless_option(text),
            }
        } else if is_script_next || !has_script {
            has_script = true;
            is_script_next = false;
            is_harmless_script(text)
        } else {
            options_ended || !may_become_option(word)
        };
        if !is_harmless {
            found.extend(word.to_rule_text());
        }
    }
    found
}

/// Returns what follows the `e` of a cluster such as `-ne`; empty if the script is the next word.
fn script_in_cluster(text: &str) -> Option<&str> {
    let cluster = text.strip_prefix('-')?;
    cluster
        .trim_start_matches(|letter| SAFE_LETTERS.contains(letter))
        .strip_prefix('e')
}

fn is_harmless_option(text: &str) -> bool {
    SAFE_LONG.contains(text) || text[1..].chars().all(|letter| SAFE_LETTERS.contains(letter))
}

/// Returns whether a script is one command that prints, deletes, or replaces text, and nothing else.
fn is_harmless_script(script: &str) -> bool {
    let Some(mut rest) = skip_address(script) else {
        return false;
    };
    if let Some(second) = rest.strip_prefix(',') {
        let Some(after) = skip_address(second) else {
            return false;
        };
        rest = after;
    }
    rest = rest.strip_prefix('!').unwrap_or(rest);
    match rest.strip_prefix('s') {
        Some(replacement) => is_harmless_replacement(replacement),
        None => matches!(rest, "p" | "d" | "q" | "="),
    }
}

/// Returns what follows an address; everything if there is none. `None` if its end is not certain.
fn skip_address(script: &str) -> Option<&str> {
    let Some(pattern) = script.strip_prefix('/') else {
        let rest = script.trim_start_matches(|c: char| c.is_ascii_digit());
        return Some(rest.strip_prefix('$').unwrap_or(rest));
    };
    let (pattern, rest) = pattern.split_once('/')?;
    // In brackets, and behind a backslash, a `/` may belong to the pattern.
    let is_certain = !pattern.contains(['[', '\n']) && !pattern.ends_with('\\');
    is_certain.then_some(rest)
}

/// Returns whether `/a/b/g` has no more than three delimiters, wherever they are, and only flags that print.
fn is_harmless_replacement(text: &str) -> bool {
    let Some(delimiter) = text.chars().next().filter(|c| "/|,#:@!%".contains(*c)) else {
        return false;
    };
    let parts: Vec<&str> = text.split(delimiter).collect();
    let [_, pattern, replacement, flags] = parts[..] else {
        return false;
    };
    let flags_are_safe = flags
        .chars()
        .all(|flag| flag.is_ascii_digit() || "gpI".contains(flag));
    flags_are_safe && !pattern.ends_with('\\') && !replacement.ends_with('\\') && !text.contains('\n')
}

#[cfg(test)]
mod tests {
    use crate::approval::{Policy, Rule, Verdict, judge_tool_call};
    use crate::domain::Effect;

    fn allows(rule: &str, command: &str) -> bool {
        let policy = Policy {
            allow: vec![Rule::parse(rule).unwrap()],
            ..Policy::default()
        };
        let verdict = judge_tool_call(&policy, "bash", &Effect::from_command(command));
        matches!(verdict, Verdict::Allow { .. })
    }

    #[test]
    fn a_star_covers_scripts_that_only_change_the_text() {
        for command in [
            "sed -n 1,5p x",
            "sed -n '/a.b/,/c/p' x",
            "sed -E 's/(a|b) +c/\\1/gI' x",
            "sed 's|a/b|c|2p' x y",
            "sed -ne '$!d' x",
            "sed -e s/a/b/ -e s/e/w/ x",
            "sed --expression=s/a/b/ x",
            "sed -n -- 1p -i",
        ] {
            assert!(allows("bash(sed *)", command), "{command}");
        }
    }

    #[test]
    fn a_star_does_not_cover_scripts_and_options_that_run_or_write() {
        for command in [
            "sed -n '1e ./evil.sh' x",
            "sed -n e x",
            "sed 's/a/b/e' x",
            "sed 's/a/b/w out' x",
            "sed -n 'w out' x",
            "sed -n '1p;e ./x' x",
            "sed -n '1{e ./x\n}' x",
            "sed '/[/s/]/w x/' x",
            "sed '/a\\/p;e x/p' x",
            "sed 's/a\\/b/e/' x",
            "sed 's/[/]/w x/' x",
            "sed -i 1d x",
            "sed 1p x -i.bak",
            "sed -ni 1p x",
            "sed --in-place=x 1p x",
            "sed --in-pl 1p x",
            "sed -f x y",
            "sed -e 1p -e e x",
            "sed -ee x",
            "sed --expression=e x",
            "sed --expr=e x",
            "sed 1p *",
            "gsed e x",
        ] {
            assert!(!allows("bash(sed *)", command), "{command}");
            assert!(!allows("bash(gsed *)", command), "{command}");
            assert!(!allows("bash(sed -n *)", command), "{command}");
        }
    }

    #[test]
    fn a_rule_may_spell_a_script_out() {
        assert!(allows("bash(sed -i 's/a b/c/;1d' *)", "sed -i 's/a b/c/;1d' x"));
        assert!(allows("bash(sed -n '1e date' x)", "sed -n '1e date' x"));
        assert!(!allows("bash(sed -i 's/a b/c/;1d' *)", "sed -i 's/a b/c/;1e' x"));
    }
}
