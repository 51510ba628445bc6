//! Lets git commands leave out secrets that they do not name, in place of a question.
//!
//! Pure: adds pathspecs to the text of a command line, and accepts the new line only if the parser reads it as the old one
//! with these words added. Names decide, since git can show files of all commits. The look at the files says which further
//! ones are tracked now.

use super::command::find_secret_word;
use super::read_only::{GitLimits, reading_parts, review_command};
use super::shell::{self, ParsedCommand, ShellWord, SimpleCommand};
use crate::base::secret_path::git_exclusions;
use crate::domain::{FileFinding, FindingKind, HiddenCommits, NarrowedCommand};

/// Longest line that is narrowed, in bytes. It is read once or twice for each of its commands.
const MAX_LINE: usize = 4_000;
/// The most commands of a line that are narrowed. Each gets several kilobytes of pathspecs.
const MAX_PARTS: usize = 8;

/// Returns the line that leaves out the secrets which its git commands would show of any commit, and takes the findings
/// about these out of the findings.
///
/// Returns `None` if no command of the line can leave them out. What remains in the findings needs a question.
pub fn leave_out_secrets(line: &str, findings: &mut Vec<FileFinding>) -> Option<NarrowedCommand> {
    let can_be_left_out = |finding: &FileFinding| {
        matches!(finding.kind, FindingKind::History | FindingKind::Tag) || finding.tracked_as.is_some()
    };
    let is_general = |finding: &FileFinding| finding.kind == FindingKind::LeftOut;
    if line.len() > MAX_LINE || !findings.iter().any(can_be_left_out) {
        return None;
    }
    let parsed = shell::parse(line);
    let parts = parsed.commands.iter().zip(reading_parts(&parsed, line));
    let mut limited = line.to_owned();
    let mut narrowed_parts: Vec<NarrowedPart> = Vec::new();
    for (part, (command, is_read_only)) in parts.enumerate() {
        let found: Vec<&FileFinding> = findings.iter().filter(|finding| finding.part == part).collect();
        let shows_history = found.iter().any(|finding| finding.kind == FindingKind::History);
        // What the command names is asked about, and shown once that is allowed.
        let names_secret = find_secret_word(command).is_some()
            || (found.iter()).any(|of| of.kind == FindingKind::Secret && of.tracked_as.is_none());
        if !shows_history || names_secret || !is_read_only || narrowed_parts.len() == MAX_PARTS {
            continue;
        }
        let Some(mut limits) = review_command(command).and_then(|review| review.limits) else {
            continue;
        };
        let tags = found.iter().filter(|finding| finding.kind == FindingKind::Tag);
        limits
            .commits
            .extend(tags.map(|tag| (tag.file.clone(), format!("{}^0", tag.file))));
        let Some(line) = limit(&limited, part, &limits) else {
            continue;
        };
        limited = line;
        let names = found.iter().filter_map(|finding| finding.tracked_as.clone());
        let others = found.iter().filter(|finding| is_general(finding));
        narrowed_parts.push(NarrowedPart {
            part,
            names: names.collect(),
            others: others.map(|finding| finding.file.clone()).collect(),
            shows_commits: limits.shows_commits,
            hidden_commits: limits.hidden_commits,
        });
    }
    if narrowed_parts.is_empty() {
        return None;
    }
    let line = append_pathspecs(&limited, &narrowed_parts)?;
    let is_narrowed = |part: usize| narrowed_parts.iter().any(|narrowed| narrowed.part == part);
    findings
        .retain(|finding| !is_narrowed(finding.part) || !can_be_left_out(finding) && !is_general(finding));
    let mut left_out: Vec<String> = Vec::new();
    let names = |narrowed: &'_ NarrowedPart| [narrowed.names.clone(), narrowed.others.clone()].concat();
    for name in narrowed_parts.iter().flat_map(names) {
        if !left_out.contains(&name) {
            left_out.push(name);
        }
    }
    Some(NarrowedCommand {
        line,
        left_out,
        shows_commits: narrowed_parts.iter().any(|narrowed| narrowed.shows_commits),
        hidden_commits: (narrowed_parts.iter().map(|narrowed| narrowed.hidden_commits))
            .max()
            .unwrap_or_default(),
    })
}

/// A command of a line that leaves out secrets.
struct NarrowedPart {
    part: usize,
    /// What git tracks and its names do not cover.
    names: Vec<String>,
    /// What else git tracks and the general pathspecs leave out, in words.
    others: Vec<String>,
    shows_commits: bool,
    hidden_commits: HiddenCommits,
}

/// Returns the line with one of its commands prepared for pathspecs at its end; `None` if they cannot be there.
fn limit(line: &str, part: usize, limits: &GitLimits) -> Option<String> {
    let mut line = replace_words(line, part, &limits.commits)?;
    if !limits.options.is_empty() {
        let options = limits.options.iter();
        let options: Vec<ShellWord> = options
            .map(|option| ShellWord::from_plain_text(*option))
            .collect();
        let parsed = shell::parse(&line);
        let place = find_place(&line, &parsed, part, limits.options_at)?;
        let mut wanted = parsed.commands;
        let words = &mut wanted.get_mut(part)?.words;
        words.splice(limits.options_at..limits.options_at, options.iter().cloned());
        line = read_as(put(&line, place, &options)?, &wanted)?;
    }
    let parsed = shell::parse(&line);
    find_place(&line, &parsed, part, parsed.commands.get(part)?.words.len())?;
    Some(line)
}

/// Returns the line with pathspecs at the end of some of its commands, which leave out what is a secret by its name, and
/// the names of each. The places are sought before any of them is there: they are long.
fn append_pathspecs(line: &str, parts: &[NarrowedPart]) -> Option<String> {
    let parsed = shell::parse(line);
    let mut wanted = parsed.commands.clone();
    let mut additions = Vec::new();
    for NarrowedPart { part, names, .. } in parts {
        let words = &mut wanted.get_mut(*part)?.words;
        let pathspecs: Vec<ShellWord> = list_pathspecs(names).collect();
        additions.push((find_place(line, &parsed, *part, words.len())?, pathspecs.clone()));
        words.extend(pathspecs);
    }
    additions.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    let mut line = line.to_owned();
    for (place, pathspecs) in &additions {
        line = put(&line, *place, pathspecs)?;
    }
    read_as(line, &wanted)
}

fn list_pathspecs(names: &[String]) -> impl Iterator<Item = ShellWord> {
    let names = names.iter().map(|name| format!(":(top,exclude,literal){name}"));
    let all = git_exclusions().iter().cloned().chain(names);
    all.map(|text| ShellWord::from_plain_text(&text))
}

/// Returns the line with words of one of its commands replaced; `None` if it is not clear which ones are meant.
fn replace_words(line: &str, part: usize, replacements: &[(String, String)]) -> Option<String> {
    if replacements.is_empty() {
        return Some(line.to_owned());
    }
    let parsed = shell::parse(line);
    let ends = parsed.word_ends.get(part)?;
    let mut wanted = parsed.commands;
    let words = &mut wanted.get_mut(part)?.words;
    let mut places = Vec::new();
    for (old, new) in replacements {
        let mut same = (0..words.len()).filter(|index| words[*index].as_literal() == Some(old));
        let index = same.next().filter(|_| same.next().is_none())?;
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        let at = start + line.get(start..*ends.get(index)?)?.rfind(old.as_str())?;
        places.push((at, old.len(), ShellWord::from_plain_text(new), index));
    }
    places.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    let mut line = line.to_owned();
    for (at, length, word, index) in places {
        line.replace_range(at..at + length, &word.to_rule_text()?);
        words[index] = word;
    }
    read_as(line, &wanted)
}

/// Returns the place in the line at which a word comes before another one of a command, or at its end.
fn find_place(line: &str, parsed: &ParsedCommand, part: usize, before: usize) -> Option<usize> {
    let place = *parsed.word_ends.get(part)?.get(before.checked_sub(1)?)?;
    // What is inside a substitution has its place in another text.
    let word = ShellWord::from_plain_text(git_exclusions().first()?);
    let mut wanted = parsed.commands.clone();
    wanted.get_mut(part)?.words.insert(before, word.clone());
    line.is_char_boundary(place)
        .then(|| read_as(put(line, place, &[word])?, &wanted))?
        .map(|_| place)
}

/// Returns the line with words at a place; `None` if one of them cannot be written.
fn put(line: &str, place: usize, words: &[ShellWord]) -> Option<String> {
    let texts: Option<Vec<String>> = words.iter().map(ShellWord::to_rule_text).collect();
    Some(format!(
        "{} {}{}",
        &line[..place],
        texts?.join(" "),
        &line[place..]
    ))
}

/// Returns a line if the parser reads it as these commands.
fn read_as(line: String, wanted: &[SimpleCommand]) -> Option<String> {
    let parsed = shell::parse(&line);
    let is_clear = parsed.unparsed_reason.is_none() && !parsed.defines_function;
    (is_clear && parsed.commands == wanted).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the new line with `…` in place of the general pathspecs, and how many findings remain.
    fn narrow(line: &str, found: &[(usize, Option<&str>)]) -> Option<(String, usize)> {
        let mut findings = Vec::new();
        for (part, name) in found {
            let finding = FileFinding {
                part: *part,
                kind: FindingKind::History,
                file: ".git".to_owned(),
                tracked_as: None,
            };
            findings.push(finding.clone());
            findings.extend(name.map(|name| FileFinding {
                kind: FindingKind::Secret,
                file: name.to_owned(),
                tracked_as: Some(name.to_owned()),
                ..finding
            }));
        }
        let narrowed = leave_out_secrets(line, &mut findings)?;
        let quote = |text: &String| format!("'{text}'");
        let general: Vec<String> = git_exclusions().iter().map(quote).collect();
        assert!(narrowed.line.contains(&general.join(" ")), "{}", narrowed.line);
        Some((narrowed.line.replace(&general.join(" "), "…"), findings.len()))
    }

    #[test]
    fn exclusions_go_where_the_command_ends() {
        for (line, part, want) in [
            ("git diff", 0, "git diff … ENV"),
            (
                "git diff HEAD -- src # all",
                0,
                "git diff HEAD -- src … ENV # all",
            ),
            ("git diff 2>&1 | head -5", 0, "git diff … ENV 2>&1 | head -5"),
            (
                "cd sub && git grep 'a b;' && ls",
                1,
                "cd sub && git grep 'a b;' … ENV && ls",
            ),
            ("(git log -p)", 0, "(git log --full-history --sparse -p … ENV)"),
            (
                "git log -p -3 HEAD~2..",
                0,
                "git log --full-history --sparse -p -3 HEAD~2.. … ENV",
            ),
            ("git log -p -- src/*.rs", 0, "git log -p -- src/*.rs … ENV"),
            ("git log -p src", 0, "git log -p src … ENV"),
            (
                "git log -p main --",
                0,
                "git log --full-history --sparse -p main -- … ENV",
            ),
            ("git grep -c x main", 0, "git grep -c x main … ENV"),
            ("git grep -lq x", 0, "git grep -lq x … ENV"),
            ("git grep -L x", 0, "git grep -L x … ENV"),
            (
                "if git show; then ls; fi",
                0,
                "if git show --sparse … ENV; then ls; fi",
            ),
            (
                "git -C sub show HEAD~2 README.md",
                0,
                "git -C sub show --sparse HEAD~2 ':(literal)README.md' … ENV",
            ),
            ("git show 1234abcd", 0, "git show --sparse 1234abcd^0 … ENV"),
            // A tag may name a content.
            ("git show --stat v1", 0, "git show --sparse --stat v1^0 … ENV"),
            ("echo \"$(git diff)\"", 0, "echo \"$(git diff … ENV)\""),
            ("git show main~2", 0, "git show --sparse main~2 … ENV"),
            (
                "git diff 1234abc..def5678 -- feed",
                0,
                "git diff 1234abc^0..def5678^0 -- feed … ENV",
            ),
        ] {
            let want = want.replace("ENV", "':(top,exclude,literal).env'");
            assert_eq!(
                narrow(line, &[(part, Some(".env"))]),
                Some((want.clone(), 0)),
                "{line}"
            );
            let want = want.replace(" ':(top,exclude,literal).env'", "");
            assert_eq!(narrow(line, &[(part, None)]), Some((want, 0)), "{line}");
        }
        let history = FileFinding {
            part: 0,
            kind: FindingKind::History,
            file: ".git".to_owned(),
            tracked_as: None,
        };
        let tag = FileFinding {
            kind: FindingKind::Tag,
            file: "gone".to_owned(),
            ..history.clone()
        };
        let mut findings = vec![history, tag];
        let narrowed = leave_out_secrets("git grep -c x gone src", &mut findings).unwrap();
        assert!(
            narrowed.line.starts_with("git grep -c x gone^0 src "),
            "{}",
            narrowed.line
        );
        assert_eq!(findings, []);
        let both = narrow("git diff; git diff", &[(0, None), (1, Some("it's.pem"))]);
        let want = r"git diff …; git diff … ':(top,exclude,literal)it'\''s.pem'".to_owned();
        assert_eq!(both, Some((want, 0)));
        // The part that cannot leave it out still has its findings.
        let one = narrow("git diff; git stash show -p", &[(0, None), (1, Some(".env"))]);
        assert_eq!(one, Some(("git diff …; git stash show -p".to_owned(), 2)));
    }

    #[test]
    fn a_narrowed_line_says_what_it_leaves_out() {
        use HiddenCommits::{None, OfSecrets, WithMerges};
        for (line, shows_commits, hidden_commits) in [
            ("git diff", false, None),
            ("git grep -c x", false, None),
            ("git grep -c x main", true, None),
            ("git show main", true, None),
            ("git log -p", true, None),
            ("git log -p HEAD~3..", true, None),
            ("git log -p main --", true, None),
            ("git log -p main", true, WithMerges),
            ("git log -p -- src", true, OfSecrets),
            ("git log -p main -- src", true, OfSecrets),
        ] {
            let find = |kind, file: &str| FileFinding {
                part: 0,
                kind,
                file: file.to_owned(),
                tracked_as: Option::None,
            };
            let mut findings = vec![
                find(FindingKind::LeftOut, "notes~, and 2 more"),
                find(FindingKind::History, ".git"),
            ];
            let narrowed = leave_out_secrets(line, &mut findings).unwrap();
            assert_eq!(findings, [], "{line}");
            assert_eq!(narrowed.left_out, ["notes~, and 2 more"], "{line}");
            assert_eq!(
                (narrowed.shows_commits, narrowed.hidden_commits),
                (shows_commits, hidden_commits),
                "{line}"
            );
        }
    }

    #[test]
    fn as_many_commands_as_allowed_fit_into_a_line() {
        let line = [
            ["git log -p HEAD~2.."; 4].join("; "),
            ["git diff"; 4].join(" && "),
        ]
        .join("; ");
        let found: Vec<_> = (0..MAX_PARTS).map(|part| (part, Some("src/.env"))).collect();
        assert_eq!(narrow(&line, &found).unwrap().1, 0);
        let words = format!("git diff {}{}", "1234 ".repeat(2), "feed7 ".repeat(600));
        assert_eq!(narrow(&words, &[(0, None)]), None, "one word twice");
    }

    #[test]
    fn what_pathspecs_do_not_limit_is_left_as_it_is() {
        for line in [
            "git show feed",
            "git show notes.md",
            "git show HEAD:a HEAD",
            "git diff HEAD -- .env",
            "git diff --exit-code",
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
                assert_eq!(narrow(line, &[(part, Some(".env"))]), None, "{line}");
            }
        }
        // Such a name cannot be written in a line.
        assert_eq!(narrow("git diff", &[(0, Some("a\u{7}.env"))]), None);
    }
}
