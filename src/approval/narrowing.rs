//! Lets git commands leave out tracked secrets that they do not name, in place of a question.
//!
//! Pure: adds pathspecs to the text of a command line, and accepts the new line only if the parser reads it as the old one
//! with these words added. The look at the files says which secrets there are.

use super::command::find_secret_word;
use super::read_only::{reading_parts, review_command};
use super::shell::{self, ShellWord};
use crate::domain::{FileFinding, FindingKind, NarrowedCommand};

/// Longest line that is narrowed, in bytes: each place in it may have to be tried.
const MAX_LINE: usize = 4_000;

/// Returns the line that leaves out the tracked secrets among the findings, and takes these out of the findings.
///
/// Returns `None` if no command of the line can leave them out. What remains in the findings needs a question.
pub fn leave_out_secrets(line: &str, findings: &mut Vec<FileFinding>) -> Option<NarrowedCommand> {
    if line.len() > MAX_LINE || findings.iter().all(|finding| finding.tracked_as.is_none()) {
        return None;
    }
    let mut narrowed = NarrowedCommand {
        line: line.to_owned(),
        left_out: Vec::new(),
    };
    let parsed = shell::parse(line);
    let parts = parsed
        .commands
        .iter()
        .zip(reading_parts(&parsed, line))
        .enumerate();
    for (part, (command, is_read_only)) in parts {
        let found = findings.iter().filter(|finding| finding.part == part);
        let names: Vec<String> = found.filter_map(|finding| finding.tracked_as.clone()).collect();
        let takes_pathspecs = || review_command(command).is_some_and(|review| review.takes_pathspecs);
        // What the command names is asked about, and shown once that is allowed.
        let names_secret = find_secret_word(command).is_some()
            || findings.iter().any(|finding| {
                finding.part == part && finding.tracked_as.is_none() && finding.kind == FindingKind::Secret
            });
        if names.is_empty() || names_secret || !is_read_only || !takes_pathspecs() {
            continue;
        }
        let Some(line) = add_exclusions(&narrowed.line, part, &names) else {
            continue;
        };
        narrowed.line = line;
        findings.retain(|finding| finding.part != part || finding.tracked_as.is_none());
        for name in names {
            if !narrowed.left_out.contains(&name) {
                narrowed.left_out.push(name);
            }
        }
    }
    (!narrowed.left_out.is_empty()).then_some(narrowed)
}

/// Returns the line with pathspecs added to one of its commands, so that it leaves out the files of these names.
fn add_exclusions(line: &str, part: usize, names: &[String]) -> Option<String> {
    let names = names.iter().map(|name| format!(":(top,exclude,literal){name}"));
    let added: Vec<ShellWord> = names.map(ShellWord::from_plain_text).collect();
    let texts: Option<Vec<String>> = added.iter().map(ShellWord::to_rule_text).collect();
    let text = format!(" {}", texts?.join(" "));
    let mut wanted = shell::parse(line).commands;
    wanted.get_mut(part)?.words.extend(added);
    let ends = |(_, c): &(usize, char)| c.is_whitespace() || "|&;)<>".contains(*c);
    let places = line.char_indices().filter(ends).map(|(at, _)| at);
    places.chain([line.len()]).find_map(|at| {
        let new = format!("{}{text}{}", &line[..at], &line[at..]);
        let parsed = shell::parse(&new);
        let is_clear = parsed.unparsed_reason.is_none() && !parsed.defines_function;
        (is_clear && parsed.commands == wanted).then_some(new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(line: &str, found: &[(usize, &str)]) -> Option<(String, usize)> {
        let finding = |(part, name): &(usize, &str)| FileFinding {
            part: *part,
            kind: FindingKind::Secret,
            file: (*name).to_owned(),
            tracked_as: Some((*name).to_owned()),
        };
        let mut findings = found.iter().map(finding).collect();
        let narrowed = leave_out_secrets(line, &mut findings)?;
        Some((narrowed.line, findings.len()))
    }

    #[test]
    fn exclusions_go_where_the_command_ends() {
        const ENV: &str = "':(top,exclude,literal).env'";
        for (line, part, want) in [
            ("git diff", 0, "git diff ENV"),
            ("git diff HEAD -- src # all", 0, "git diff HEAD -- src ENV # all"),
            ("git diff 2>&1 | head -5", 0, "git diff ENV 2>&1 | head -5"),
            (
                "cd sub && git grep 'a b;' && ls",
                1,
                "cd sub && git grep 'a b;' ENV && ls",
            ),
            ("(git log -p)", 0, "(git log -p ENV)"),
            ("if git show; then ls; fi", 0, "if git show ENV; then ls; fi"),
            (
                "git -C sub show HEAD~2 README.md",
                0,
                "git -C sub show HEAD~2 README.md ENV",
            ),
        ] {
            let want = want.replace("ENV", ENV);
            assert_eq!(narrow(line, &[(part, ".env")]), Some((want, 0)), "{line}");
        }
        let both = narrow("git diff; git show", &[(0, ".env"), (1, "it's.pem")]);
        let want = format!(r"git diff {ENV}; git show ':(top,exclude,literal)it'\''s.pem'");
        assert_eq!(both, Some((want, 0)));
        // The part that cannot leave it out still has its finding.
        let one = narrow("git diff; git stash show -p", &[(0, ".env"), (1, ".env")]);
        assert_eq!(one, Some((format!("git diff {ENV}; git stash show -p"), 1)));
    }

    #[test]
    fn what_pathspecs_do_not_limit_is_left_as_it_is() {
        for line in [
            "git show 1234abcd",
            "git show x-g1234abcd",
            "git show HEAD:a HEAD",
            "git show --stat a^{b}-g1234abcd^{}^{blob}",
            "git diff HEAD -- .env",
            "git log -p -S x",
            "git diff HEAD:a b",
            "git diff *",
            "git log -L1,2:a",
            "git log -p --follow a",
            "git stash show -p",
            "git cat-file -p HEAD",
            "git --literal-pathspecs diff .",
            "git diff $x",
            "git diff >out",
            "git -c a=b diff",
            "GIT_DIR=x git diff",
            "PATH=x; git diff",
            "./git diff",
            "cat a",
        ] {
            for part in [0, 1] {
                assert_eq!(narrow(line, &[(part, ".env")]), None, "{line}");
            }
        }
        // Such a name cannot be written in a line.
        assert_eq!(narrow("git diff", &[(0, "a\u{7}.env")]), None);
    }
}
