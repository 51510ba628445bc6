//! What git commands show of a repository: whether that is the content of files, and how pathspecs limit it.

use super::{ArgumentReader, is_glob};
use crate::approval::shell::ShellWord;
use crate::base::word_list::WordList;
use crate::domain::{GitContents, HiddenCommits};

/// Options with which git prints names and numbers in place of a difference.
const SHOWS_NO_CONTENT: WordList = WordList(
    "compact-summary dirstat name-only name-status no-patch numstat quiet raw s shortstat stat summary",
);

/// Options that only say which commits or files git lists, and how.
const LIST_OPTIONS: WordList = WordList(
    "abbrev abbrev-commit after all all-match ancestry-path author before branches cached cherry-pick \
    color committer count date date-order decorate diff-filter E exit-code extended-regexp F find-copies \
    find-renames first-parent fixed-strings follow format full-history g graph grep i invert-grep \
    left-only left-right M max-count merge-base merges n no-color no-decorate no-ext-diff no-merges \
    no-renames no-textconv no-walk not oneline P parents perl-regexp pretty r R reflog \
    regexp-ignore-case relative remotes reverse right-only simplify-by-decoration since skip source \
    staged stat-width tags topo-order until walk-reflogs z",
);

/// What makes a git command show only what pathspecs at its end allow, and otherwise the same as before.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::approval) struct GitLimits {
    /// Where the options belong, among the words of the command.
    pub(in crate::approval) options_at: usize,
    pub(in crate::approval) options: &'static [&'static str],
    /// Words before `--` that might name what no pathspec limits, and what to write in their place.
    pub(in crate::approval) commits: Vec<(String, String)>,
    pub(in crate::approval) shows_commits: bool,
    pub(in crate::approval) hidden_commits: HiddenCommits,
}

impl ArgumentReader<'_> {
    /// Returns of which files a command of git may print the content.
    pub(super) fn find_contents(&self, first_operand: Option<&str>, operands: &[&ShellWord]) -> GitContents {
        let has_only = |is_known: &dyn Fn(&str) -> bool| {
            let mut options = self.options.iter();
            options.all(|option| is_known(option) || option.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let only_lists =
            has_only(&|option| SHOWS_NO_CONTENT.contains(option) || LIST_OPTIONS.contains(option));
        let shows_list = only_lists
            && self
                .options
                .iter()
                .any(|option| SHOWS_NO_CONTENT.contains(option));
        let shows_none = match self.subcommand {
            // Whether a line matches, how often, and in which file tells the line, one guess after another.
            Some("grep") => false,
            Some("diff") => shows_list,
            // Whatever the options say, it prints a blob.
            Some("show") => {
                shows_list
                    && operands
                        .iter()
                        .all(|word| as_shown_commit(word, true) == AsCommit::Unchanged)
            }
            Some("cat-file") => self.has_option(&["e", "s", "t"]),
            Some("log" | "whatchanged" | "reflog") => only_lists,
            Some("stash") if first_operand == Some("list") => {
                has_only(&|option| LIST_OPTIONS.contains(option))
            }
            Some("stash") => shows_list,
            // They print the lines of a file that they name, or no lines.
            _ => true,
        };
        let names_files = matches!(self.subcommand, Some("show" | "cat-file"))
            && !operands.is_empty()
            && operands.iter().all(|word| is_file_of_commit(word));
        match (shows_none, names_files) {
            (true, _) => GitContents::None,
            (false, true) => GitContents::Named,
            (false, false) => GitContents::Any,
        }
    }

    /// Returns whether `git grep` may take an operand for the name of a content, which no pathspec limits.
    pub(super) fn may_name_tag(&self, index: usize, word: &ShellWord) -> bool {
        let has_pattern = !self.has_option(&["e", "f"]);
        self.subcommand == Some("grep")
            && index >= usize::from(has_pattern)
            && self.before_dashes.is_none_or(|before| index < before)
            && as_commit(word) == AsCommit::Unchanged
            && word
                .as_literal()
                .is_some_and(|text| !is_commit(text) && !text.starts_with(":("))
    }

    /// Returns how git limits everything that this command shows by pathspecs at its end.
    pub(super) fn find_limits(&self, operands: &[&ShellWord]) -> Option<GitLimits> {
        let subcommand = self.subcommand?;
        let has_pattern = subcommand == "grep" && !self.has_option(&["e", "f"]);
        // These take no pathspecs, or a single one; or the result would depend on what is left out.
        if !matches!(subcommand, "diff" | "grep" | "log" | "show" | "whatchanged")
            || self.has_option(&["follow", "exit-code"])
            || subcommand != "grep" && self.has_option(&["L"])
        {
            return None;
        }
        // What follows `--` names files.
        let (before, after) = operands.split_at(self.before_dashes.unwrap_or(operands.len()));
        let revisions = before.get(usize::from(has_pattern)..).unwrap_or_default();
        let mut commits = Vec::new();
        for (at, word) in revisions.iter().enumerate() {
            // A pattern of the shell may expand to anything.
            if is_glob(word) {
                return None;
            }
            let as_commit = match subcommand {
                "show" => as_shown_commit(word, at == 0),
                _ => as_commit(word),
            };
            match as_commit {
                AsCommit::Unchanged => {}
                AsCommit::Changed(new) => commits.push((word.as_literal()?.to_owned(), new)),
                AsCommit::Unknown => return None,
            }
        }
        let are_commits = self.before_dashes.is_some() || revisions.iter().all(|word| is_surely_commit(word));
        let is_whole = after.is_empty() && !self.has_option(&["simplify-by-decoration"]);
        // Without these, a commit that changes nothing else is missing, as are merges.
        let (options, hidden_commits): (&[&str], _) = match subcommand {
            "show" => (&["--sparse"], HiddenCommits::None),
            "log" | "whatchanged" if !is_whole => (&[], HiddenCommits::OfSecrets),
            "log" | "whatchanged" if are_commits => (&["--full-history", "--sparse"], HiddenCommits::None),
            "log" | "whatchanged" => (&[], HiddenCommits::WithMerges),
            _ => (&[], HiddenCommits::None),
        };
        Some(GitLimits {
            options_at: 0,
            options,
            commits,
            shows_commits: !matches!(subcommand, "diff" | "grep")
                || !revisions.is_empty()
                || self.has_option(&["cached", "staged", "merge-base"]),
            hidden_commits,
        })
    }
}

/// Returns whether the word is the name of what a commit or the index has under a path, such as `HEAD:a` or `:a`, and
/// nothing else.
fn is_file_of_commit(word: &ShellWord) -> bool {
    let text = word.as_literal().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./~^@-".contains(c);
    text.split_once(':').is_some_and(|(commit, path)| {
        !is_glob(word)
            && !text.contains("..")
            && commit.chars().all(is_plain)
            && !path.contains(':')
            // `:/text` is a commit, and `:(…` a pathspec.
            && (!commit.is_empty() || path.starts_with(|c: char| c.is_ascii_alphanumeric() || "._".contains(c)))
    })
}

/// Returns whether the word names commits and no file.
fn is_surely_commit(word: &ShellWord) -> bool {
    is_commit(word.as_literal().unwrap_or_default()) || as_commit(word) != AsCommit::Unchanged
}

/// What to write in place of an operand, so that it can only name commits or files.
#[derive(PartialEq, Eq)]
enum AsCommit {
    /// It cannot name a blob, which pathspecs do not limit.
    Unchanged,
    Changed(String),
    Unknown,
}

/// Decides it for an operand before `--`. Git refuses `NAME^0` if the name is that of a blob or a tree.
fn as_commit(word: &ShellWord) -> AsCommit {
    let Some(text) = word.as_literal() else {
        return AsCommit::Unknown;
    };
    if text.starts_with(":(") {
        return AsCommit::Unchanged;
    }
    // `HEAD:a`, `:a`; and `:/text`, which nobody needs.
    if text.contains(':') {
        return AsCommit::Unknown;
    }
    let separator = ["...", ".."]
        .into_iter()
        .find(|separator| text.contains(separator));
    let ends: Vec<&str> = match separator {
        Some(separator) => text.splitn(2, separator).collect(),
        None => vec![text],
    };
    if !ends.iter().any(|end| may_name_blob(end)) {
        return AsCommit::Unchanged;
    }
    // A word such as `feed` is more likely a file, and git would not find it with that ending.
    if !ends
        .iter()
        .all(|end| !may_name_blob(end) || end.bytes().any(|byte| byte.is_ascii_digit()))
    {
        return AsCommit::Unknown;
    }
    let to_commit = |end: &&str| {
        let suffix = if may_name_blob(end) { "^0" } else { "" };
        format!("{end}{suffix}")
    };
    let ends: Vec<String> = ends.iter().map(to_commit).collect();
    AsCommit::Changed(ends.join(separator.unwrap_or_default()))
}

/// Decides it for an operand of `git show`. A tag may name a blob, so only `HEAD`, a range, and a parent are surely commits.
fn as_shown_commit(word: &ShellWord, is_first: bool) -> AsCommit {
    let text = word.as_literal().unwrap_or_default();
    match as_commit(word) {
        AsCommit::Unchanged if is_commit(text) || text.starts_with(":(") => AsCommit::Unchanged,
        AsCommit::Unchanged if !looks_like_file(text) => AsCommit::Changed(format!("{text}^0")),
        AsCommit::Unchanged if !is_first => AsCommit::Changed(format!(":(literal){text}")),
        AsCommit::Unchanged => AsCommit::Unknown,
        decided => decided,
    }
}

/// Returns whether a text names a commit or a range of commits, and cannot name a file, a tag, or a blob.
fn is_commit(text: &str) -> bool {
    let of_head = text.strip_prefix("HEAD").or_else(|| text.strip_prefix('@'));
    let is_step = |c: char| c.is_ascii_digit() || matches!(c, '~' | '^');
    let steps = text.split_once(['~', '^']).map(|(_, steps)| steps);
    of_head.is_some_and(|rest| rest.starts_with("@{"))
        || of_head.or(steps).is_some_and(|steps| steps.chars().all(is_step))
        || text.contains("..") && !text.contains("../") && !text.contains("/..")
}

/// Returns whether a word has the ending of a file, or of a folder.
fn looks_like_file(text: &str) -> bool {
    let is_ending = |ending: &str| {
        ending.starts_with(|c: char| c.is_ascii_alphabetic())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.ends_with(['/', '.']) || text.rsplit_once('.').is_some_and(|(_, ending)| is_ending(ending))
}

/// Returns whether a revision may be the name of an object, such as `git ls-tree` prints it, and not of a commit.
fn may_name_blob(text: &str) -> bool {
    let text = text.trim_start_matches('^');
    let mut peeled = text;
    while let Some((name, _)) = peeled.strip_suffix('}').and_then(|rest| rest.rsplit_once("^{")) {
        peeled = name;
    }
    let first = text.split_once("^{").map_or(text, |(name, _)| name);
    let is_hex = |name: &str| name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Git takes the end of `ANYTHING-gABBREVIATION` for the name of an object, as `git describe` writes it.
    let is_name = |name: &str| is_hex(name) || name.rsplit_once("-g").is_some_and(|(_, end)| is_hex(end));
    is_name(peeled) || is_name(first)
}
