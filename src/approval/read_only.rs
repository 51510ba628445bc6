//! Commands that only read, by an allow-list of programs, options, and operands (`table`). Anything else is never free.
//!
//! Pure: collects the files that a command names; `workspace` looks them up. The same list says which options a rule
//! such as `bash(sort *)` covers.

mod git;
mod table;

pub(super) use git::GitLimits;

use super::shell::{self, ParsedCommand, ShellWord, SimpleCommand};
use crate::base::word_list::WordList;
use crate::domain::{CommandFiles, FileUsage, FileWord, GitContents};
use table::{OperandRule, ReadOnlyCommand, find_command};

/// What the table says about a simple command.
#[derive(Debug)]
pub(super) struct ReadOnlyReview {
    /// Words that the table does not know, as a rule must spell them out to cover the command.
    pub(super) unreviewed: Vec<String>,
    /// Whether it only reads, as far as its text shows.
    pub(super) is_read_only: bool,
    /// The files that it names.
    files: Vec<FileArgument>,
    /// How git limits everything that it shows by pathspecs at its end; `None` if it does not.
    pub(super) limits: Option<GitLimits>,
    /// Whether `git -C` was read.
    moved: bool,
}

#[derive(Debug)]
struct FileArgument {
    text: String,
    glob: bool,
    usage: FileUsage,
}

/// Judges a simple command by the table. Returns `None` if the table does not list it.
pub(super) fn review_command(part: &SimpleCommand) -> Option<ReadOnlyReview> {
    if let Some(review) = review_plain_form(part) {
        return Some(review);
    }
    let first = as_known_literal(part.words.first()?)?;
    let program = first.rsplit('/').next()?;
    let mut at = 1;
    let mut globals = Vec::new();
    if program == "git" {
        at += skip_git_globals(&part.words[1..], &mut globals);
    }
    let subcommand = part.words.get(at).and_then(as_known_literal);
    let (command, has_subcommand) = find_command(program, subcommand)?;
    let subcommand = subcommand.filter(|_| has_subcommand);
    let mut reader = ArgumentReader::new(command, subcommand);
    for word in &part.words[at + usize::from(has_subcommand)..] {
        reader.read_word(word);
    }
    reader.finish_review();
    let mut review = reader.review;
    // A program with a path may be the repository's own, such as `./ls`.
    review.is_read_only &= !first.contains('/')
        && part.assignments.is_empty()
        && part.find_dynamic_reason().is_none()
        && part.find_written_file().is_none();
    if let Some(limits) = &mut review.limits {
        limits.options_at = at + usize::from(has_subcommand);
    }
    // After the arguments: `-C` also applies to the files they name.
    for global in globals {
        review.review_git_global(global);
    }
    review.add_redirects(part);
    Some(review)
}

/// Judges the few forms of `sed`, `test`, and `[` that only read. Returns `None` for all others, as for a program that the
/// table does not list.
fn review_plain_form(part: &SimpleCommand) -> Option<ReadOnlyReview> {
    let is_plain = part.assignments.is_empty()
        && part.find_dynamic_reason().is_none()
        && part.find_written_file().is_none()
        && !part.words.iter().skip(1).any(is_glob);
    let words: Option<Vec<&str>> = part.words.iter().map(as_known_literal).collect();
    let words = words.filter(|_| is_plain)?;
    let (files, usage) = match &words[..] {
        ["sed", "-n", script, files @ ..] if prints_lines(script, files) => (files, FileUsage::Read),
        ["test", flag, file] | ["[", flag, file, "]"] if TESTS_OF_FILES.contains(flag) => {
            (std::slice::from_ref(file), FileUsage::List)
        }
        _ => return None,
    };
    let mut review = ReadOnlyReview::new();
    for file in files {
        review.add_file(file, false, usage);
    }
    review.add_redirects(part);
    Some(review)
}

/// Options of `test` that only look at the file that follows.
const TESTS_OF_FILES: WordList = WordList("-d -e -f -h -L -r -s -w -x");

/// Returns whether a sed script only prints lines, such as `1,5p`, and no option follows: others may run commands.
fn prints_lines(script: &str, files: &[&str]) -> bool {
    let is_printing = script.chars().all(|c| c.is_ascii_digit() || ",$p;".contains(c));
    is_printing && script.ends_with('p') && !files.iter().any(|file| file.starts_with('-'))
}

/// Collects the options between `git` and its subcommand, and returns how many words they are.
fn skip_git_globals<'a>(
    words: &'a [ShellWord],
    globals: &mut Vec<(&'a ShellWord, Option<&'a ShellWord>)>,
) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !as_known_literal(word).is_some_and(|text| text.starts_with('-')) {
            break;
        }
        at += 1;
        let takes_value = matches!(
            as_known_literal(word),
            Some("-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env" | "--exec-path")
        );
        let value = takes_value.then(|| words.get(at)).flatten();
        at += usize::from(value.is_some());
        globals.push((word, value));
    }
    at
}

impl ReadOnlyReview {
    fn new() -> Self {
        Self {
            unreviewed: Vec::new(),
            is_read_only: true,
            files: Vec::new(),
            limits: None,
            moved: false,
        }
    }

    fn mark_unreviewed(&mut self, word: &ShellWord) {
        self.is_read_only = false;
        self.unreviewed.extend(word.to_rule_text());
    }

    fn review_git_global(&mut self, (word, value): (&ShellWord, Option<&ShellWord>)) {
        let text = as_known_literal(word).unwrap_or_default();
        match value.and_then(as_known_literal) {
            // A second `-C` would be relative to the first.
            Some(folder) if text == "-C" && value.is_some_and(|value| !is_glob(value)) && !self.moved => {
                self.moved = true;
                // git resolves the paths of its arguments relative to that folder.
                let below: Vec<FileArgument> = (self.files.iter())
                    .filter(|file| !file.text.starts_with(['/', '~']))
                    .map(|file| FileArgument {
                        text: format!("{folder}/{}", file.text),
                        ..*file
                    })
                    .collect();
                for file in self
                    .files
                    .iter_mut()
                    .filter(|file| file.usage == FileUsage::ReadOrTag)
                {
                    file.usage = FileUsage::Read;
                }
                self.files.extend(below);
                self.add_file(folder, false, FileUsage::List);
            }
            _ if table::GIT_GLOBAL.contains(text) => {
                // With that option, pathspecs have no magic.
                self.limits.take_if(|_| text == "--literal-pathspecs");
            }
            _ => self.mark_unreviewed(word),
        }
    }

    fn add_file(&mut self, text: &str, glob: bool, usage: FileUsage) {
        self.files.push(FileArgument {
            text: text.to_owned(),
            glob,
            usage,
        });
    }

    fn add_redirects(&mut self, part: &SimpleCommand) {
        for redirect in &part.redirects {
            match as_known_literal(&redirect.target) {
                Some(text) => self.add_file(text, is_glob(&redirect.target), FileUsage::Read),
                None => self.is_read_only = false,
            }
        }
    }
}

/// The state while the arguments of one command are read, word by word.
struct ArgumentReader<'a> {
    command: &'a ReadOnlyCommand,
    subcommand: Option<&'a str>,
    review: ReadOnlyReview,
    /// The options so far, without dashes.
    options: Vec<&'a str>,
    /// The words so far that are not options.
    operands: Vec<&'a ShellWord>,
    /// What the next word is, if the last option takes a value.
    value_of: Option<OptionValueKind>,
    /// Whether `--` was read, or the expression of `find` has begun.
    options_ended: bool,
    /// How many operands were before `--`.
    before_dashes: Option<usize>,
    /// Whether the word belongs to the command of `find -exec`.
    in_action: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValueKind {
    Text,
    File,
}

impl<'a> ArgumentReader<'a> {
    fn new(command: &'a ReadOnlyCommand, subcommand: Option<&'a str>) -> Self {
        Self {
            command,
            subcommand,
            review: ReadOnlyReview::new(),
            options: Vec::new(),
            operands: Vec::new(),
            value_of: None,
            options_ended: false,
            before_dashes: None,
            in_action: false,
        }
    }

    fn has_option(&self, names: &[&str]) -> bool {
        self.options.iter().any(|option| names.contains(option))
    }

    fn read_word(&mut self, word: &'a ShellWord) {
        let Some(text) = as_known_literal(word) else {
            // Fails closed: an unknown word may be an option or a path outside the workspace.
            self.value_of = None;
            self.review.is_read_only = false;
            return;
        };
        if self.in_action {
            self.in_action = !matches!(text, ";" | "+");
            return;
        }
        if let Some(value) = self.value_of.take() {
            // The glob may expand to several words, and only the first of them would be the value.
            return if is_glob(word) {
                self.review.mark_unreviewed(word);
            } else {
                self.judge_value(word, text, value);
            };
        }
        let is_find = self.command.operands == OperandRule::Find;
        if text.len() > 1 && text.starts_with('-') && (is_find || !self.options_ended) {
            return self.read_option(word, text);
        }
        let project = self.command.operands == OperandRule::RuleOnly;
        if may_become_option(word)
            && !self.command.has_any_option
            && (project || is_find || !self.options_ended)
        {
            // A file name may begin with a dash when bash expands the word.
            return self.review.mark_unreviewed(word);
        }
        match self.command.operands {
            OperandRule::RuleOnly => {
                let option = text.split_once('=').map_or(text, |(name, _)| name);
                // Options after `--` go to the project's own program; only known ones are safe.
                if text.starts_with('-') && !table::BEHIND_DASHES.contains(option) {
                    self.review.mark_unreviewed(word);
                }
            }
            OperandRule::Find if matches!(text, "(" | ")" | "!" | ",") => self.options_ended = true,
            // An argument of an action that the table does not list: a rule has to spell that action out.
            OperandRule::Find if self.options_ended => self.review.is_read_only = false,
            OperandRule::Find => {
                self.add_operand(word, FileUsage::List);
                self.operands.push(word);
            }
            // Fails closed: only a `-l` before the word counts.
            OperandRule::OnlyWithList => self.review.is_read_only &= self.has_option(&["l", "list"]),
            _ => self.operands.push(word),
        }
    }

    fn judge_value(&mut self, word: &ShellWord, text: &str, value: OptionValueKind) {
        if value == OptionValueKind::File {
            self.review.add_file(text, is_glob(word), FileUsage::Read);
        }
        // These make git run gpg, or print what a tag names.
        if text.contains("%G")
            || text.contains("signature")
            || text.contains("(raw")
            || text.contains("(*raw")
        {
            self.review.mark_unreviewed(word);
        }
    }

    fn read_option(&mut self, word: &'a ShellWord, text: &'a str) {
        let is_long = text.starts_with("--");
        let is_find = self.command.operands == OperandRule::Find;
        // `--include=*.rs` remains this option, whatever the files are called.
        let only_value = !self.command.has_one_dash
            && is_long
            && text
                .split_once('=')
                .is_some_and(|(name, _)| !name.contains(['*', '?', '[']));
        if is_glob(word) && !only_value {
            return self.review.mark_unreviewed(word);
        }
        if text == "--" && !is_find {
            self.options_ended = true;
            self.before_dashes = Some(self.operands.len());
            return;
        }
        // `find` takes paths only before its expression.
        self.options_ended |= is_find;
        let known = if is_long && !is_find {
            self.read_long_option(word, &text[2..])
        } else if self.command.has_one_dash {
            self.read_long_option(word, &text[1..])
        } else {
            self.read_short_options(word, &text[1..])
        };
        if !known {
            self.review.mark_unreviewed(word);
            self.in_action = is_find && matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir");
        }
    }

    fn read_long_option(&mut self, word: &ShellWord, text: &'a str) -> bool {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let mut entries = self.command.long.iter();
        let Some(entry) = entries.find(|entry| entry.trim_end_matches([':', '<', '?']) == name) else {
            return false;
        };
        self.options.push(name);
        let value_kind = match entry.as_bytes().last() {
            Some(b':') => OptionValueKind::Text,
            Some(b'<') => OptionValueKind::File,
            Some(b'?') => {
                self.judge_value(word, value.unwrap_or_default(), OptionValueKind::Text);
                return true;
            }
            _ => {
                return value.is_none()
                    || self.command.has_one_dash && self.command.operands == OperandRule::RuleOnly;
            }
        };
        match value {
            Some(value) => self.judge_value(word, value, value_kind),
            None => self.value_of = Some(value_kind),
        }
        true
    }

    fn read_short_options(&mut self, word: &ShellWord, letters: &'a str) -> bool {
        for (at, letter) in letters.char_indices() {
            let (option, rest) = letters[at..].split_at(letter.len_utf8());
            let Some(known) = self
                .command
                .short
                .find(letter)
                .filter(|_| letter.is_ascii_alphanumeric() || letter == '.')
            else {
                return false;
            };
            self.options.push(option);
            let value_kind = match self.command.short.as_bytes().get(known + 1) {
                Some(b':') => OptionValueKind::Text,
                Some(b'<') => OptionValueKind::File,
                Some(b'?') => {
                    self.judge_value(word, rest, OptionValueKind::Text);
                    return true;
                }
                _ => continue,
            };
            if rest.is_empty() {
                self.value_of = Some(value_kind);
            } else {
                self.judge_value(word, rest, value_kind);
            }
            return true;
        }
        true
    }

    fn add_operand(&mut self, word: &ShellWord, usage: FileUsage) {
        let text = word.as_literal().unwrap_or_default();
        if text != "-" {
            self.review.add_file(text, is_glob(word), usage);
        }
    }

    /// Judges the operands: only now all options are known, which may also follow operands.
    fn finish_review(&mut self) {
        let mut operands = std::mem::take(&mut self.operands);
        let first = operands.first().and_then(|word| word.as_literal());
        let rule = self.command.operands;
        if matches!(rule, OperandRule::Grep | OperandRule::Ripgrep)
            && !self.has_option(&["e", "f", "regexp", "file", "files", "type-list"])
            && !operands.is_empty()
        {
            let pattern = operands.remove(0);
            if is_glob(pattern) {
                self.review.mark_unreviewed(pattern);
            }
        }
        let usage = match rule {
            OperandRule::List | OperandRule::Find => FileUsage::List,
            OperandRule::Compare => FileUsage::Search { hidden: true },
            OperandRule::Grep if self.has_option(&["r", "recursive"]) => FileUsage::Search { hidden: true },
            OperandRule::Ripgrep => FileUsage::Search {
                // By default `rg` skips hidden files, unless a pattern or a type of the command line includes them.
                hidden: self.has_option(&[
                    "u",
                    "unrestricted",
                    "hidden",
                    ".",
                    "g",
                    "glob",
                    "iglob",
                    "t",
                    "type",
                ]),
            },
            // Where git finds no repository that it may use, it compares folders.
            _ if self.subcommand == Some("diff") && operands.len() >= 2 => FileUsage::Search { hidden: true },
            _ => FileUsage::Read,
        };
        match rule {
            OperandRule::VerbOrNone | OperandRule::Verb => {
                let is_verb =
                    |word: &ShellWord, text: &str| self.command.verbs.contains(&text) && !is_glob(word);
                self.review.is_read_only &= match operands.first().zip(first) {
                    Some((word, text)) => is_verb(word, text),
                    None => rule == OperandRule::VerbOrNone,
                };
                operands.drain(..operands.len().min(1));
            }
            OperandRule::Lookup => self.review.is_read_only &= self.has_option(&["v", "V"]),
            OperandRule::RuleOnly => self.review.is_read_only = false,
            _ => {}
        }
        // `ls` and searches without a file look at the folder.
        let here = match rule {
            OperandRule::List | OperandRule::Ripgrep | OperandRule::Find => operands.is_empty(),
            OperandRule::Grep => operands.is_empty() && usage != FileUsage::Read,
            _ => false,
        };
        let contents = self.find_contents(first, &operands);
        if contents == GitContents::Any {
            self.review.limits = self.find_limits(&operands);
        }
        if rule != OperandRule::Find {
            for (index, word) in operands.into_iter().enumerate() {
                let may_be_tag = self.may_name_tag(index, word);
                self.judge_operand(word, index, if may_be_tag { FileUsage::ReadOrTag } else { usage });
            }
        }
        if here {
            self.review.add_file(".", false, usage);
        }
        if self.subcommand.is_some() && rule != OperandRule::RuleOnly {
            let urls = self.subcommand == Some("remote") && self.has_option(&["v", "verbose"]);
            self.review
                .add_file(".", false, FileUsage::Repository { urls, contents });
        }
    }

    fn judge_operand(&mut self, word: &ShellWord, index: usize, usage: FileUsage) {
        let text = word.as_literal().unwrap_or_default();
        let glob = is_glob(word);
        let harmless = match self.command.operands {
            OperandRule::Nothing => false,
            OperandRule::OneFile => index == 0 && !glob,
            OperandRule::DateFormat => index == 0 && text.starts_with('+'),
            OperandRule::PrintFormat => !glob && (index > 0 || has_known_conversions(text)),
            _ => true,
        };
        if !harmless {
            return self.review.mark_unreviewed(word);
        }
        match self.command.operands {
            OperandRule::Text | OperandRule::Lookup if glob => self.add_operand(word, FileUsage::List),
            OperandRule::Text | OperandRule::Lookup | OperandRule::DateFormat | OperandRule::PrintFormat => {}
            OperandRule::Revisions | OperandRule::Verb | OperandRule::VerbOrNone => {
                // git refuses paths outside its repository, except in `git diff`.
                self.add_operand(word, usage);
                if let Some((_, path)) = text.split_once(':') {
                    self.review.add_file(path, glob, usage);
                }
            }
            _ => self.add_operand(word, usage),
        }
    }
}

/// Returns whether bash's `printf` only prints with this format: it writes a variable for `%n`.
fn has_known_conversions(format: &str) -> bool {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = rest[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.*'hljztL".contains(c));
        match rest.strip_prefix(|c| "sdiouxXfFeEgGcb%".contains(c)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

/// Returns the files that a command line names, for `workspace` to look up; `None` if it cannot be fully parsed.
pub fn command_files(command: &str) -> Option<CommandFiles> {
    let line = shell::parse(command);
    // Without all commands, the list of files would be incomplete.
    if line.unparsed_reason.is_some() {
        return None;
    }
    let mut files = CommandFiles {
        folder: leading_cd(&line, command).map(str::to_owned),
        ..CommandFiles::default()
    };
    for (part, simple) in line.commands.iter().enumerate() {
        let review = review_command(simple);
        let name = simple.words.first().and_then(as_known_literal);
        let program = name.filter(|_| review.as_ref().is_some_and(|review| review.is_read_only));
        files.programs.extend(program.map(|name| (part, name.to_owned())));
        let reviewed = review.map_or_else(Vec::new, |review| review.files);
        files.words.extend(reviewed.into_iter().map(|file| FileWord {
            part,
            text: file.text,
            glob: file.glob,
            usage: file.usage,
        }));
        let redirects = simple.redirects.iter().map(|redirect| &redirect.target);
        for word in simple.words.iter().skip(1).chain(redirects) {
            let ShellWord::Literal { glob, .. } = word else {
                continue;
            };
            let Some(text) = as_known_literal(word) else {
                continue;
            };
            // `--file=x` names a file in the second half.
            let value = text.split_once('=').map(|(_, value)| value);
            files
                .words
                .extend([Some(text), value].into_iter().flatten().map(|text| FileWord {
                    part,
                    text: text.to_owned(),
                    glob: *glob,
                    usage: FileUsage::Mention,
                }));
        }
    }
    // The folder itself must be checked too: it may lie outside the workspace.
    if let Some(folder) = &files.folder {
        files.words.push(FileWord {
            part: 0,
            text: folder.clone(),
            glob: false,
            usage: FileUsage::List,
        });
    }
    Some(files)
}

/// Returns whether a command line surely changes nothing. Its text decides, so it says nothing about which files it
/// reads.
pub fn only_reads(command: &str) -> bool {
    let parts = reading_parts(&shell::parse(command), command);
    !parts.is_empty() && parts.into_iter().all(|only_reads| only_reads)
}

/// Returns for each simple command whether it only reads, as far as the text shows.
pub(super) fn reading_parts(line: &ParsedCommand, command: &str) -> Vec<bool> {
    let cd = leading_cd(line, command).is_some();
    // The parser does not keep expansions of these in a word, and `$((PATH=1))` would even assign.
    let expands_unseen = command.contains(['$', '`']) && (command.contains("<<") || command.contains("case"));
    // Once the shell's state may change, the words of later commands prove nothing.
    let changes_state = line.defines_function
        || line.unparsed_reason.is_some()
        || expands_unseen
        || line
            .commands
            .iter()
            .enumerate()
            .any(|(index, part)| changes_shell(part) && !(cd && index == 0));
    (line.commands.iter().enumerate())
        .map(|(index, part)| {
            !changes_state
                && (cd && index == 0 || review_command(part).is_some_and(|review| review.is_read_only))
        })
        .collect()
}

/// Returns whether later commands of the line may mean something else because of this one.
fn changes_shell(part: &SimpleCommand) -> bool {
    let Some(word) = part.words.first() else {
        // An assignment alone stays in the shell; before a command it ends with the command.
        return !part.assignments.is_empty();
    };
    match as_known_literal(word) {
        Some(name) => {
            matches!(
                name,
                "cd" | "pushd" | "popd" | "builtin" | "trap" | "exec" | "coproc" | "command"
            ) && review_command(part).is_none_or(|review| !review.is_read_only)
                || super::programs::STATE_BUILTINS.contains(name)
        }
        None => true,
    }
}

/// Returns the folder of a `cd` that is the line's first command. Elsewhere, `cd` may run many times, in a loop.
fn leading_cd<'l>(line: &'l ParsedCommand, command: &str) -> Option<&'l str> {
    let part = line.commands.first()?;
    if !command.trim_start().starts_with("cd ") || !part.assignments.is_empty() || !part.redirects.is_empty()
    {
        return None;
    }
    match part.words.as_slice() {
        [cd, folder] if as_known_literal(cd) == Some("cd") && !is_glob(folder) => {
            // bash resolves `..` by name and the disk resolves it by links, so the two may differ.
            let is_plain =
                |folder: &&str| !folder.starts_with('-') && !folder.is_empty() && !folder.contains("..");
            as_known_literal(folder).filter(is_plain)
        }
        _ => None,
    }
}

/// Returns a word's text if its meaning as a file name is known: `~name` is another user's home folder.
fn as_known_literal(word: &ShellWord) -> Option<&str> {
    match word {
        ShellWord::Literal { text, quoted, .. } => {
            let home = *quoted || !text.starts_with('~') || text == "~" || text.starts_with("~/");
            // A quoted `~` is an ordinary character, but `workspace` would take it for the home folder.
            (home && !(*quoted && text.starts_with('~'))).then_some(text)
        }
        ShellWord::Dynamic { .. } => None,
    }
}

/// Returns whether bash may expand the word to a file name that begins with `-`.
pub(super) fn may_become_option(word: &ShellWord) -> bool {
    matches!(word, ShellWord::Literal { text, glob: true, .. } if text.starts_with(['*', '?', '[']))
}

/// Returns the word that decides what the program does, if bash may expand it: `git st*`.
pub(super) fn has_open_subcommand(program: &str, words: &[ShellWord]) -> Option<String> {
    let word = words
        .iter()
        .skip(1)
        .find(|word| !word.to_rule_text().is_some_and(|text| text.starts_with('-')))?;
    (table::WITH_SUBCOMMANDS.contains(program) && is_glob(word)).then(|| word.to_rule_text())?
}

fn is_glob(word: &ShellWord) -> bool {
    matches!(word, ShellWord::Literal { glob: true, .. })
}

#[cfg(test)]
mod tests;
