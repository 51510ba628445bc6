//! Knowledge about commands: wrappers that run another command, interpreters, and the rule that "always" may offer.
//!
//! Tables and pure functions; knows no modes and no order of rules (`policy` does). Read-only commands are in
//! `read_only`, options that start programs in `dangerous_flags`. For `deny` rules, [`look_through`] searches wrappers
//! and scripts; what it cannot see makes the line `blind`, so that the rule asks.

use super::dangerous_flags;
use super::programs::{
    SHELLS, STATE_BUILTINS, WRAPPERS, base_name, is_interpreter, runs_arguments, takes_arguments_from_input,
};
use super::read_only;
use super::rule::Rule;
use super::secret;
use super::shell::{self, ParsedCommand, ShellWord, SimpleCommand};
use crate::base::text::reveal_hidden_characters;
use crate::base::word_list::WordList;

/// A word that a rule must spell out before it may allow the command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// The pattern's first word must be this one.
    First(String),
    /// The pattern must contain this word.
    Anywhere(String),
}

impl Requirement {
    /// Returns whether the rule's pattern meets the requirement.
    pub(crate) fn is_matched_by(&self, rule: &Rule) -> bool {
        match self {
            Self::First(word) => rule.spells_first(word),
            Self::Anywhere(word) => rule.spells_word(word),
        }
    }
}

/// Returns what a rule must spell out to allow this command.
///
/// A `*` alone never allows assignments, wrappers, interpreters, or options that run programs.
pub(crate) fn collect_requirements(part: &SimpleCommand) -> Vec<Requirement> {
    let mut demands: Vec<Requirement> = part
        .assignments
        .iter()
        .filter_map(ShellWord::to_rule_text)
        .map(Requirement::Anywhere)
        .collect();
    let words = &part.words;
    let Some((first_word, name)) = words
        .first()
        .and_then(|word| Some((word.to_rule_text()?, base_name(word.as_literal()?))))
    else {
        return demands;
    };
    // After an assignment, the command is not the pattern's first word.
    if runs_arguments(name) && part.assignments.is_empty() {
        demands.push(Requirement::First(first_word));
    } else if runs_arguments(name) {
        demands.push(Requirement::Anywhere(first_word));
    }
    // A variable or a setting in the place of a `*` would change what follows: `read PATH`, `export PATH=x`.
    let spells_out = STATE_BUILTINS.contains(name);
    // The shell evaluates the operand of `-v`: `test -v 'a[$(command)]'`.
    let evaluates = |word: &&ShellWord| {
        matches!(name, "test" | "[" | "[[")
            && word.as_literal().is_some_and(|word| matches!(word, "-v" | "-R"))
    };
    demands.extend(
        words[1..]
            .iter()
            .filter(|word| spells_out || evaluates(word))
            .filter_map(ShellWord::to_rule_text)
            .map(Requirement::Anywhere),
    );
    let unreviewed = match read_only::review_command(part) {
        Some(review) => review.unreviewed,
        None => dangerous_flags::find_dangerous_words(name, words),
    };
    let open = read_only::has_open_subcommand(name, words);
    demands.extend(unreviewed.into_iter().chain(open).map(Requirement::Anywhere));
    demands
}

/// Returns whether the rule names this very command, so that its author knew what it may run.
///
/// The rule must name the whole command or its program, and for an interpreter also the script's file.
pub(crate) fn is_explicit_match(rule: &Rule, part: &SimpleCommand) -> bool {
    if rule.is_exact() {
        return true;
    }
    let literal = |at: usize| part.words.get(at).and_then(ShellWord::as_literal);
    let Some(first) = literal(0).filter(|first| rule.spells_first(first)) else {
        return false;
    };
    let name = base_name(first);
    let is_script = |file: &str| !file.starts_with('-') && rule.spells_word(file);
    if SHELLS.contains(name) || is_interpreter(name) {
        literal(1).is_some_and(is_script)
    } else {
        !runs_arguments(name)
    }
}

/// A command that may run, in the forms that deny rules match.
#[derive(Debug)]
pub(crate) struct RuleCandidate {
    /// The ways a rule may write it. A NUL stands for text that is unknown.
    pub(crate) texts: Vec<String>,
    /// Whether it surely is a command, instead of an argument that could be one.
    pub(crate) certain: bool,
}

/// Everything that a line runs, as far as it can be seen through wrappers and scripts in arguments.
#[derive(Debug, Default)]
pub(crate) struct VisitedCommand {
    /// The commands that run, or may run.
    pub(crate) candidates: Vec<RuleCandidate>,
    /// Whether the line runs something that cannot be seen.
    pub(crate) has_unseen_commands: bool,
    /// Secret-like files, each with the index of the simple command that names it (`None`: text that was not parsed).
    pub(crate) secrets: Vec<(Option<usize>, String)>,
}

/// How many words of one command are tried as the start of another command.
const MAX_SUFFIXES: usize = 64;
/// How many scripts in arguments (and scripts inside those) are parsed. Any further script makes the line `blind`.
const MAX_SCRIPTS: usize = 16;

/// Collects what deny rules and the check for secrets must look at in a line.
pub(crate) fn look_through(command: &str, line: &ParsedCommand) -> VisitedCommand {
    let mut visited = VisitedCommand {
        has_unseen_commands: line.unparsed_reason.is_some(),
        ..VisitedCommand::default()
    };
    for (index, part) in line.commands.iter().enumerate() {
        if let Some(secret) = find_secret_word(part) {
            visited.secrets.push((Some(index), secret));
        }
    }
    // The parser gave up on a part of the line, so search the whole text for secrets.
    if line.unparsed_reason.is_some()
        && let Some(secret) = secret::named_in(command)
    {
        visited.secrets.push((None, secret.to_owned()));
    }
    // A work list with a budget instead of recursion: hostile nesting must stay cheap.
    let mut scripts: Vec<(Vec<SimpleCommand>, MatchCertainty)> =
        vec![(line.commands.clone(), MatchCertainty::Sure)];
    let mut budget = MAX_SCRIPTS;
    while let Some((parts, certainty)) = scripts.pop() {
        for part in &parts {
            let mut look = CommandReview {
                visited: &mut visited,
                scripts: Vec::new(),
            };
            look.visit_command(part, certainty);
            for (script, certainty) in look.scripts {
                if budget == 0 {
                    visited.has_unseen_commands = true;
                    break;
                }
                budget -= 1;
                let inner = shell::parse(&script);
                // A text that only may be a script hides nothing if it does not parse.
                visited.has_unseen_commands |=
                    inner.unparsed_reason.is_some() && certainty == MatchCertainty::Sure;
                scripts.push((inner.commands, certainty));
            }
        }
    }
    visited
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchCertainty {
    Sure,
    Perhaps,
}

struct CommandReview<'a> {
    visited: &'a mut VisitedCommand,
    scripts: Vec<(String, MatchCertainty)>,
}

impl CommandReview<'_> {
    fn visit_command(&mut self, part: &SimpleCommand, certainty: MatchCertainty) {
        let mut words = part.words.clone();
        if words
            .iter()
            .filter_map(ShellWord::as_literal)
            .map(base_name)
            .any(takes_arguments_from_input)
        {
            // Its input adds words that the line does not show.
            words.push(ShellWord::new_dynamic("its input"));
        }
        let words = &words;
        if !part.assignments.is_empty() {
            let with: Vec<ShellWord> = part.assignments.iter().chain(words).cloned().collect();
            self.push_candidate(&with, certainty);
        }
        let count = words.len().min(MAX_SUFFIXES);
        // For each word, how certain it is that a command begins there; `None` if it does not.
        let mut starts = vec![None; words.len().max(1)];
        starts[0] = Some(certainty);
        for at in 0..count {
            let Some(certainty) = starts[at] else { continue };
            // An unknown word that may be a command would match every rule.
            if certainty == MatchCertainty::Sure || words[at].as_literal().is_some() {
                self.push_candidate(&words[at..], certainty);
            }
            let Some(name) = words[at].as_literal().map(base_name) else {
                continue;
            };
            if WRAPPERS.contains(name) {
                self.visit_wrapper(words, at, certainty, &mut starts[..count]);
            } else if matches!(name, "find" | "gfind" | "fd" | "fdfind") {
                for next in at + 1..count {
                    let before = words[next - 1].as_literal();
                    if before.is_some_and(|word| dangerous_flags::runs_next(name, word)) {
                        starts[next] = Some(certainty);
                    }
                }
            } else if SHELLS.contains(name) {
                self.visit_shell(&words[at + 1..], certainty);
            } else if name == "eval" {
                self.visit_eval(&words[at + 1..], certainty);
            }
        }
    }

    /// Marks the words after a wrapper as commands: surely those after its options, assignments, and numbers.
    ///
    /// Which options take a value is unknown, so every later word may be the command.
    fn visit_wrapper(
        &mut self,
        words: &[ShellWord],
        at: usize,
        certainty: MatchCertainty,
        starts: &mut [Option<MatchCertainty>],
    ) {
        let mut sure = certainty == MatchCertainty::Sure;
        for next in at + 1..starts.len() {
            let now = if sure {
                MatchCertainty::Sure
            } else {
                MatchCertainty::Perhaps
            };
            if starts[next] != Some(MatchCertainty::Sure) {
                starts[next] = Some(now);
            }
            let Some(text) = words[next].as_literal() else {
                sure = false;
                continue;
            };
            // Some wrappers take a whole command line as one word: `watch 'rm x'`.
            if text.contains(char::is_whitespace) {
                self.scripts.push((text.to_owned(), now));
            }
            let passed_over =
                text.starts_with('-') || text.contains('=') || text.starts_with(|c: char| c.is_ascii_digit());
            sure &= passed_over;
        }
    }

    fn visit_shell(&mut self, arguments: &[ShellWord], certainty: MatchCertainty) {
        let mut takes_script = false;
        for word in arguments {
            // An unknown word may be `-c` or the script itself.
            let Some(text) = word.as_literal() else {
                self.visited.has_unseen_commands = true;
                return;
            };
            if takes_script && !text.starts_with('-') {
                self.scripts.push((text.to_owned(), certainty));
                return;
            }
            if text.starts_with(['-', '+']) {
                takes_script |= text.starts_with('-') && !text.starts_with("--") && text.contains('c');
            } else {
                // A script file: approval does not read files.
                return;
            }
        }
        // Without a script or a file, it reads commands from its input.
        self.visited.has_unseen_commands = true;
    }

    fn visit_eval(&mut self, arguments: &[ShellWord], certainty: MatchCertainty) {
        let texts: Option<Vec<&str>> = arguments.iter().map(ShellWord::as_literal).collect();
        match texts {
            Some(texts) => self.scripts.push((texts.join(" "), certainty)),
            None => self.visited.has_unseen_commands = true,
        }
    }

    fn push_candidate(&mut self, words: &[ShellWord], certainty: MatchCertainty) {
        let mut texts = vec![join(words, ShellWord::to_rule_text)];
        let mut add = |text: String| {
            if !texts.contains(&text) {
                texts.push(text);
            }
        };
        // A rule may spell the command with or without quotes, and up to a glob.
        add(join(words, |word| word.as_literal().map(str::to_owned)));
        add(join(words, up_to_glob));
        // `/bin/rm` is also what a rule for `rm` means.
        if let Some((first, rest)) = words.split_first()
            && let Some(path) = first.as_literal()
            && path.contains('/')
        {
            let name = ShellWord::Literal {
                text: base_name(path).to_owned(),
                glob: false,
                quoted: false,
            };
            let words: Vec<ShellWord> = std::iter::once(name).chain(rest.iter().cloned()).collect();
            add(join(&words, ShellWord::to_rule_text));
            add(join(&words, up_to_glob));
        }
        self.visited.candidates.push(RuleCandidate {
            texts,
            certain: certainty == MatchCertainty::Sure,
        });
    }
}

fn join(words: &[ShellWord], show: impl Fn(&ShellWord) -> Option<String>) -> String {
    let texts: Vec<String> = words
        .iter()
        .map(|word| match word {
            ShellWord::Dynamic { known, .. } => format!("{known}\0"),
            ShellWord::Literal { .. } => show(word).unwrap_or_default(),
        })
        .collect();
    texts.join(" ")
}

fn up_to_glob(word: &ShellWord) -> Option<String> {
    match word {
        ShellWord::Literal { text, glob: true, .. } => {
            let end = text.find(['*', '?', '[']).unwrap_or(text.len());
            Some(format!("{}\0", &text[..end]))
        }
        ShellWord::Literal { .. } | ShellWord::Dynamic { .. } => word.to_rule_text(),
    }
}

/// Returns a secret-like file that the command names in a word, an assignment, or a redirection.
pub(super) fn find_secret_word(part: &SimpleCommand) -> Option<String> {
    let targets = part.redirects.iter().map(|redirect| &redirect.target);
    part.words
        .iter()
        .chain(&part.assignments)
        .chain(targets)
        .find_map(|word| {
            let ShellWord::Literal { text, glob, .. } = word else {
                return None;
            };
            if *glob && secret::glob_may_name(text) {
                return Some(text.clone());
            }
            secret::named_in(text).map(str::to_owned)
        })
}

/// The longest command, in bytes, that "always" offers to remember.
const MAX_OFFERED: usize = 200;

/// The prefixes that "always" may offer: whatever follows, within the reviewed options, builds, checks, or tests the
/// same project, or shows what its repository contains. Even `cat *` would also read outside the workspace.
const OFFERED_PREFIXES: &[(&str, WordList)] = &[
    ("cargo", WordList("test build check clippy doc bench fmt")),
    ("go", WordList("test build vet")),
    ("git", WordList("status log show")),
];

/// Returns the rule that "always" would store for this command: the exact command, or one of a few prefixes.
///
/// `exact` means that something about this very command is special, so that no prefix is offered.
pub(crate) fn offer_command_rule(tool: &str, part: &SimpleCommand, exact: bool) -> Option<Rule> {
    // No rule with a pattern covers these, except what an assignment spells out.
    if part.find_dynamic_reason().is_some()
        || part.find_written_file().is_some()
        || !part.assignments.is_empty()
    {
        return None;
    }
    let words: Vec<&str> = part
        .words
        .iter()
        .map(ShellWord::as_literal)
        .collect::<Option<_>>()?;
    let text = part.text()?;
    let name = base_name(words.first()?);
    // The user must see everything that the rule will allow.
    let is_legible = !text.contains('\n') && reveal_hidden_characters(&text) == text;
    if text.len() > MAX_OFFERED || !is_legible || WRAPPERS.contains(name) || STATE_BUILTINS.contains(name) {
        return None;
    }
    if SHELLS.contains(name) || is_interpreter(name) {
        // Offer only a script file directly after the interpreter, and only the exact command.
        let second = words.get(1);
        let file = second.is_some_and(|word| word.contains(['.', '/']) && !word.starts_with('-'));
        return if file {
            Rule::with_exact_pattern(tool, &text)
        } else {
            None
        };
    }
    let Some(review) = read_only::review_command(part) else {
        let starts = !dangerous_flags::find_dangerous_words(name, &part.words).is_empty();
        return if starts {
            None
        } else {
            Rule::with_exact_pattern(tool, &text)
        };
    };
    // A glob expands to today's files; tomorrow's may be other options.
    if !review.unreviewed.is_empty() && part.words.iter().any(read_only::may_become_option) {
        return None;
    }
    // A prefix would also cover other secrets, and other forms than the special one.
    if let [program, subcommand, ..] = words[..]
        && OFFERED_PREFIXES
            .iter()
            .any(|(of, subcommands)| *of == program && subcommands.contains(subcommand))
        && !exact
        && review.unreviewed.is_empty()
        && find_secret_word(part).is_none()
    {
        return Rule::parse(&format!("{tool}({program} {subcommand} *)")).ok();
    }
    Rule::with_exact_pattern(tool, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_exact_commands_or_reviewed_prefixes() {
        for (command, offered) in [
            ("git status -s", Some("bash(git status *)")),
            ("cargo test --lib x", Some("bash(cargo test *)")),
            ("cargo build", Some("bash(cargo build *)")),
            ("npm run build", Some("bash(npm run build)")),
            ("npm test", Some("bash(npm test)")),
            ("npm run", Some("bash(npm run)")),
            ("uv run pytest -q", Some("bash(uv run pytest -q)")),
            ("uv run python x.py", Some("bash(uv run python x.py)")),
            ("git clone a b", Some("bash(git clone a b)")),
            ("git remote -v", Some("bash(git remote -v)")),
            ("git remote show origin", Some("bash(git remote show origin)")),
            ("gh repo view", Some("bash(gh repo view)")),
            ("gh alias list", Some("bash(gh alias list)")),
            ("gh status", Some("bash(gh status)")),
            ("go vet ./...", Some("bash(go vet *)")),
            ("ls", Some("bash(ls)")),
            ("ls -la src", Some("bash(ls -la src)")),
            ("grep 'a.*b' src -r", Some("bash(grep a.\\*b src -r)")),
            ("git log -3 src", Some("bash(git log *)")),
            ("git diff", Some("bash(git diff)")),
            ("make", Some("bash(make)")),
            ("make test", Some("bash(make test)")),
            ("prettier --check .", Some("bash(prettier --check .)")),
            ("./gradlew test", Some("bash(./gradlew test)")),
            ("rm a.txt", Some("bash(rm a.txt)")),
            ("rm *.o", Some("bash(rm \\*.o)")),
            ("git push origin main", Some("bash(git push origin main)")),
            ("curl https://x.org", Some("bash(curl https://x.org)")),
            (
                "python3 tools/gen.py --all",
                Some("bash(python3 tools/gen.py --all)"),
            ),
            ("echo 'a (b)'", Some("bash(echo 'a \\(b\\)')")),
            ("mytool 'a (b)'", Some("bash(mytool 'a \\(b\\)')")),
            ("cat .env", Some("bash(cat .env)")),
            ("python3", None),
            ("python3 -c 'x'", None),
            ("sh -c 'git status'", None),
            ("sudo apt update", None),
            ("env A=1 git status", None),
            ("xargs rm", None),
            ("eval ls", None),
            ("export A=1", None),
            ("A=1 git status", None),
            ("git status > out", None),
            ("git show $x", None),
            (
                "pylint evil --init-hook=x",
                Some("bash(pylint evil --init-hook=x)"),
            ),
            ("nix develop", Some("bash(nix develop)")),
            ("meson test", Some("bash(meson test)")),
            ("nm a", Some("bash(nm a)")),
            ("rubocop src", Some("bash(rubocop src)")),
            ("git tag -l", Some("bash(git tag -l)")),
            ("git branch -a", Some("bash(git branch -a)")),
            ("git help log", Some("bash(git help log)")),
            ("git cat-file -p x", Some("bash(git cat-file -p x)")),
            ("test -f x", Some("bash(test -f x)")),
            ("cd docs", Some("bash(cd docs)")),
            ("jq . x", Some("bash(jq . x)")),
            ("ps aux", Some("bash(ps aux)")),
            ("git --no-pager log", Some("bash(git --no-pager log)")),
            ("/usr/bin/ls x", Some("bash(/usr/bin/ls x)")),
            ("cargo test --config x", Some("bash(cargo test --config x)")),
            ("sort *", None),
            ("git log *", None),
            ("rg x *", None),
            (
                "find . -name '*.o' -delete",
                Some("bash(find . -name \\*.o -delete)"),
            ),
            ("git -c core.pager=x log", Some("bash(git -c core.pager=x log)")),
            ("fd -Hx rm", None),
            ("sort -uo a b", Some("bash(sort -uo a b)")),
            ("go vet -vettool=x ./...", Some("bash(go vet -vettool=x ./...)")),
        ] {
            let line = shell::parse(command);
            let rule = offer_command_rule("bash", &line.commands[0], false).map(|rule| rule.to_string());
            assert_eq!(rule.as_deref(), offered, "{command}");
        }
    }

    #[test]
    fn finds_commands_inside_wrappers_and_scripts() {
        for (command, inner, certain) in [
            ("sudo rm x", "rm x", true),
            ("sudo -n env A=1 rm x", "rm x", true),
            ("sudo -u root rm x", "rm x", false),
            ("timeout 5 rm x", "rm x", true),
            ("find . -exec rm x {} +", "rm x {} +", true),
            ("fd -Hx rm x", "rm x", true),
            ("fd --exec-batch rm x", "rm x", true),
            ("sh -c 'a; rm x'", "rm x", true),
            ("bash -lc 'rm x'", "rm x", true),
            ("eval 'rm' x", "rm x", true),
            ("sudo sh -c 'rm x'", "rm x", true),
            ("xargs -0 rm x", "rm x \0", true),
            ("watch 'rm x'", "rm x", true),
            ("/bin/rm x", "rm x", true),
            ("A=1 rm x", "rm x", true),
            ("sh -c \"sh -c 'rm x'\"", "rm x", true),
        ] {
            let visited = look_through(command, &shell::parse(command));
            let found = visited
                .candidates
                .iter()
                .any(|c| c.certain == certain && c.texts.iter().any(|text| text == inner));
            assert!(found, "{command}: {visited:?}");
        }
        for command in ["cat x | sh", "sh -c $x", "eval $x", "bash -s", "sh $x", "echo 'a"] {
            assert!(
                look_through(command, &shell::parse(command)).has_unseen_commands,
                "{command}"
            );
        }
        assert!(!look_through("sh x.sh", &shell::parse("sh x.sh")).has_unseen_commands);
    }
}
