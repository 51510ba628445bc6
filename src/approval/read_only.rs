//! Commands that only read, by an allow-list of programs, options, and operands (`table`). Anything else is never free.
//!
//! Pure: collects the files that a command names; `workspace` looks them up. The same list says which options a rule
//! such as `bash(sort *)` covers, and which prefixes "always" may offer.

mod table;

use super::shell::{self, ParsedCommand, ShellWord, SimpleCommand};
use crate::domain::{CommandFiles, FileUsage, FileWord};
use table::{COMMANDS, OperandRule, OptionStyle, ReadOnlyCommand};

/// What the table says about a simple command.
#[derive(Debug)]
pub(super) struct ReadOnlyReview {
    /// Words that the table does not know, as a rule must spell them out to cover the command.
    pub(super) unreviewed: Vec<String>,
    /// Whether it only reads, as far as its text shows.
    pub(super) reads: bool,
    /// The first words, up to the subcommand; `None` if a rule must not leave the rest open.
    pub(super) prefix: Option<String>,
    /// The files that it names.
    files: Vec<ReadFile>,
    /// Whether `git -C` was read.
    moved: bool,
}

#[derive(Debug)]
struct ReadFile {
    text: String,
    glob: bool,
    usage: FileUsage,
}

/// Judges a simple command by the table. Returns `None` if the table does not list it.
pub(super) fn review_command(part: &SimpleCommand) -> Option<ReadOnlyReview> {
    let first = as_known_literal(part.words.first()?)?;
    let program = first.rsplit('/').next()?;
    let mut at = 1;
    let mut globals = Vec::new();
    if program == "git" {
        at += skip_git_globals(&part.words[1..], &mut globals);
    }
    let subcommand = part.words.get(at).and_then(as_known_literal);
    let command = COMMANDS.iter().find(|command| {
        command
            .names
            .iter()
            .any(|name| match (name.split_once(' '), subcommand) {
                (Some((of, name)), Some(subcommand)) => of == program && name == subcommand,
                (Some(_), None) => false,
                (None, _) => *name == program,
            })
    })?;
    let has_subcommand = command.names[0].contains(' ');
    let arguments = &part.words[at + usize::from(has_subcommand)..];
    let mut reader = ArgumentReader::new(command, program, subcommand.filter(|_| has_subcommand));
    for word in arguments {
        reader.read_word(word);
    }
    reader.finish_review();
    let spelled_out = at > 1 || first.contains('/');
    let mut review = reader.review;
    // A program with a path may be the repository's own, such as `./ls`.
    review.reads &= command.reads
        && !first.contains('/')
        && part.assignments.is_empty()
        && part.find_dynamic_reason().is_none()
        && part.find_written_file().is_none();
    // After the arguments: `-C` also applies to the files they name.
    for global in globals {
        review.review_git_global(global);
    }
    // One more word would make these do something else, so no prefix may leave the rest open.
    let one_form = matches!(
        command.operands,
        OperandRule::OnlyWithList | OperandRule::NeedsVerb(_) | OperandRule::Verbs(_)
    );
    if !spelled_out && !one_form {
        review.prefix = Some(match subcommand {
            Some(subcommand) if has_subcommand => format!("{program} {subcommand}"),
            Some(_) | None => program.to_owned(),
        });
    }
    review.add_redirects(part);
    Some(review)
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
    fn mark_unreviewed(&mut self, word: &ShellWord) {
        self.reads = false;
        self.unreviewed.extend(word.to_rule_text());
    }

    fn review_git_global(&mut self, (word, value): (&ShellWord, Option<&ShellWord>)) {
        let text = as_known_literal(word).unwrap_or_default();
        match value.and_then(as_known_literal) {
            // A second `-C` would be relative to the first.
            Some(folder) if text == "-C" && !is_glob(value) && !self.moved => {
                self.moved = true;
                // git resolves the paths of its arguments relative to that folder.
                let below: Vec<ReadFile> = (self.files.iter())
                    .filter(|file| !file.text.starts_with(['/', '~']))
                    .map(|file| ReadFile {
                        text: format!("{folder}/{}", file.text),
                        ..*file
                    })
                    .collect();
                self.files.extend(below);
                self.add_file(folder, false, FileUsage::List);
            }
            _ if table::GIT_GLOBAL.contains(&text) => {}
            _ => self.mark_unreviewed(word),
        }
    }

    fn add_file(&mut self, text: &str, glob: bool, usage: FileUsage) {
        self.files.push(ReadFile {
            text: text.to_owned(),
            glob,
            usage,
        });
    }

    fn add_redirects(&mut self, part: &SimpleCommand) {
        for redirect in &part.redirects {
            match as_known_literal(&redirect.target) {
                Some(text) => self.add_file(text, is_glob(Some(&redirect.target)), FileUsage::Read),
                None => self.reads = false,
            }
        }
    }
}

/// The state while the arguments of one command are read, word by word.
struct ArgumentReader<'a> {
    command: &'a ReadOnlyCommand,
    subcommand: Option<&'a str>,
    review: ReadOnlyReview,
    /// What the next word is, if the last option takes a value.
    value_of: Option<OptionValueKind>,
    /// Whether `--` was read.
    ended: bool,
    operands: usize,
    /// Whether an option already supplied what the first operand would be: a pattern, or the wish to list.
    has_pattern: bool,
    has_list: bool,
    has_lookup: bool,
    recursive: bool,
    hidden: bool,
    urls: bool,
    /// Whether the word belongs to the command of `find -exec`.
    in_action: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValueKind {
    Text,
    File,
}

impl<'a> ArgumentReader<'a> {
    fn new(command: &'a ReadOnlyCommand, program: &str, subcommand: Option<&'a str>) -> Self {
        Self {
            command,
            subcommand,
            review: ReadOnlyReview {
                unreviewed: Vec::new(),
                reads: true,
                prefix: None,
                files: Vec::new(),
                moved: false,
            },
            value_of: None,
            ended: false,
            operands: 0,
            has_pattern: false,
            has_list: false,
            // Without `-v` or `-V`, `command` runs its operand.
            has_lookup: program != "command",
            recursive: false,
            // By default `rg` skips hidden files.
            hidden: program != "rg",
            urls: false,
            in_action: false,
        }
    }

    fn read_word(&mut self, word: &ShellWord) {
        let Some(text) = as_known_literal(word) else {
            // Fails closed: an unknown word may be an option or a path outside the workspace.
            self.value_of = None;
            self.review.reads = false;
            return;
        };
        if self.in_action {
            self.in_action = !matches!(text, ";" | "+");
            return;
        }
        if let Some(value) = self.value_of.take() {
            return self.read_value(word, text, value);
        }
        let project = self.command.operands == OperandRule::Any;
        if text.len() > 1 && text.starts_with('-') && !self.ended {
            return self.read_option(word, text);
        }
        if may_become_option(word) && !self.command.harmless && (project || !self.ended) {
            // A file name may begin with a dash when bash expands the word.
            return self.review.mark_unreviewed(word);
        }
        if project {
            let option = text.split_once('=').map_or(text, |(name, _)| name);
            // Options after `--` go to the project's own program; only known ones are safe.
            if text.starts_with('-') && !table::BEHIND_DASHES.contains(&option) {
                self.review.mark_unreviewed(word);
            }
            return;
        }
        if matches!(self.command.operands, OperandRule::Grep | OperandRule::Ripgrep) && !self.has_pattern {
            self.has_pattern = true;
            if is_glob(Some(word)) {
                self.review.mark_unreviewed(word);
            }
            return;
        }
        self.read_operand(word, text);
        self.operands += 1;
    }

    fn read_value(&mut self, word: &ShellWord, text: &str, value: OptionValueKind) {
        if is_glob(Some(word)) {
            // The glob may expand to several words, and only the first of them would be the value.
            return self.review.mark_unreviewed(word);
        }
        self.judge_value(word, text, value);
    }

    fn judge_value(&mut self, word: &ShellWord, text: &str, value: OptionValueKind) {
        if value == OptionValueKind::File {
            self.review.add_file(text, is_glob(Some(word)), FileUsage::Read);
        }
        // These make git run gpg.
        if text.contains("%G") || text.contains("signature") {
            self.review.mark_unreviewed(word);
        }
    }

    fn read_option(&mut self, word: &ShellWord, text: &str) {
        // `--include=*.rs` remains this option, whatever the files are called.
        let only_value = self.command.style == OptionStyle::Getopt
            && text.starts_with("--")
            && text
                .split_once('=')
                .is_some_and(|(name, _)| !name.contains(['*', '?', '[']));
        if is_glob(Some(word)) && !only_value {
            return self.review.mark_unreviewed(word);
        }
        if text == "--" && self.command.style != OptionStyle::Find {
            self.ended = true;
            return;
        }
        let known = match (self.command.style, text.strip_prefix("--")) {
            (OptionStyle::Getopt, Some(name)) => self.read_long_option(word, name),
            (OptionStyle::Getopt, None) => self.read_short_options(word, &text[1..]),
            (OptionStyle::OneDash, Some(name)) => self.read_long_option(word, name),
            (OptionStyle::OneDash, None) => self.read_long_option(word, &text[1..]),
            (OptionStyle::Find, _) => self.operands_are_over() && self.read_long_option(word, &text[1..]),
        };
        if !known {
            self.review.mark_unreviewed(word);
            self.in_action = self.command.style == OptionStyle::Find
                && matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir");
        }
    }

    /// Records that an expression begins: `find` takes paths only before it. Always returns `true`.
    fn operands_are_over(&mut self) -> bool {
        self.has_pattern = true;
        true
    }

    fn read_long_option(&mut self, word: &ShellWord, text: &str) -> bool {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let mut entries = self.command.long.iter().flat_map(|list| list.split_whitespace());
        let Some(entry) = entries.find(|entry| entry.trim_end_matches([':', '<', '?']) == name) else {
            return false;
        };
        self.record_option(name);
        let wants = match entry.as_bytes().last() {
            Some(b':') => Some(OptionValueKind::Text),
            Some(b'<') => Some(OptionValueKind::File),
            Some(b'?') => return value.is_none_or(|value| self.judge_attached_value(word, value)),
            _ if self.command.style == OptionStyle::OneDash => return true,
            _ => None,
        };
        match (wants, value) {
            (Some(wants), Some(value)) => self.judge_value(word, value, wants),
            (Some(wants), None) => self.value_of = Some(wants),
            (None, Some(_)) => return false,
            (None, None) => {}
        }
        true
    }

    fn judge_attached_value(&mut self, word: &ShellWord, value: &str) -> bool {
        self.judge_value(word, value, OptionValueKind::Text);
        true
    }

    fn read_short_options(&mut self, word: &ShellWord, letters: &str) -> bool {
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let Some(known) = self
                .command
                .short
                .find(letter)
                .filter(|_| letter.is_ascii_alphanumeric() || letter == '.')
            else {
                return false;
            };
            self.record_option(&letters[at..at + letter.len_utf8()]);
            let wants = match self.command.short.as_bytes().get(known + 1) {
                Some(b':') => OptionValueKind::Text,
                Some(b'<') => OptionValueKind::File,
                Some(b'?') => return self.judge_attached_value(word, rest),
                _ => continue,
            };
            if rest.is_empty() {
                self.value_of = Some(wants);
            } else {
                self.judge_value(word, rest, wants);
            }
            return true;
        }
        true
    }

    /// Records options that change the meaning of operands.
    fn record_option(&mut self, option: &str) {
        let is = |names: &[&str]| names.contains(&option);
        match self.command.operands {
            OperandRule::Grep | OperandRule::Ripgrep => {
                self.has_pattern |= is(&["e", "f", "regexp", "file", "files", "type-list"]);
                self.recursive |= is(&["r", "recursive"]);
                self.hidden |= is(&["u", "unrestricted", "hidden", "."]);
            }
            OperandRule::OnlyWithList => {
                self.has_list |= is(&["l", "list"]) && self.subcommand != Some("remote");
                self.urls |= is(&["v", "verbose"]) && self.subcommand == Some("remote");
            }
            OperandRule::Text => self.has_lookup |= is(&["v", "V"]),
            _ => {}
        }
    }

    fn read_operand(&mut self, word: &ShellWord, text: &str) {
        let glob = is_glob(Some(word));
        match self.command.operands {
            OperandRule::List if self.command.style == OptionStyle::Find => self.find_operand(word, text),
            OperandRule::List => self.add_file_operand(text, glob, FileUsage::List),
            OperandRule::Read => self.add_file_operand(text, glob, FileUsage::Read),
            OperandRule::Compare => self.add_file_operand(text, glob, FileUsage::Search { hidden: true }),
            OperandRule::Grep | OperandRule::Ripgrep => {
                self.add_file_operand(text, glob, FileUsage::Search { hidden: true })
            }
            OperandRule::Text if glob => self.add_file_operand(text, true, FileUsage::List),
            OperandRule::Text | OperandRule::Any => {}
            OperandRule::AtMost(most) if self.operands < most && !glob => {
                self.add_file_operand(text, false, FileUsage::Read)
            }
            OperandRule::AtMost(_) => self.review.mark_unreviewed(word),
            OperandRule::DateFormat if text.starts_with('+') && self.operands == 0 => {}
            OperandRule::DateFormat => self.review.mark_unreviewed(word),
            OperandRule::PrintFormat => self.print_format(word, text),
            OperandRule::OnlyWithList => self.review.reads &= self.has_list,
            OperandRule::Verbs(verbs) | OperandRule::NeedsVerb(verbs) if self.operands == 0 => {
                self.review.reads &= verbs.contains(&text) && !glob;
            }
            OperandRule::Revisions | OperandRule::Verbs(_) | OperandRule::NeedsVerb(_) => {
                self.add_revision(text, glob)
            }
        }
    }

    fn add_file_operand(&mut self, text: &str, glob: bool, usage: FileUsage) {
        if text != "-" {
            self.review.add_file(text, glob, usage);
        }
    }

    fn find_operand(&mut self, word: &ShellWord, text: &str) {
        let glob = is_glob(Some(word));
        if matches!(text, "(" | ")" | "!" | ",") {
            self.has_pattern = true;
        } else if !self.has_pattern {
            self.add_file_operand(text, glob, FileUsage::List);
        } else {
            // An argument of an action that the table does not list: a rule has to spell that action out.
            self.review.reads = false;
        }
    }

    /// Judges the operands of `printf`. bash's `printf` writes a variable for `%n`, so only known conversions pass.
    fn print_format(&mut self, word: &ShellWord, text: &str) {
        let mut rest = text;
        while self.operands == 0
            && let Some(at) = rest.find('%')
        {
            rest = rest[at + 1..]
                .trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.*'hljztL".contains(c));
            match rest.chars().next() {
                Some(c) if "sdiouxXfFeEgGcb%".contains(c) => rest = &rest[1..],
                _ => return self.review.mark_unreviewed(word),
            }
        }
        if is_glob(Some(word)) {
            self.review.mark_unreviewed(word);
        }
    }

    /// Adds a revision, a path, or `revision:path`. git refuses paths outside its repository, except in `git diff`.
    fn add_revision(&mut self, text: &str, glob: bool) {
        self.add_file_operand(text, glob, FileUsage::Read);
        if let Some((_, path)) = text.split_once(':') {
            self.add_file_operand(path, glob, FileUsage::Read);
        }
    }

    fn finish_review(&mut self) {
        let here = |usage| (".", usage);
        let implied = match self.command.operands {
            OperandRule::List if self.operands == 0 => Some(here(FileUsage::List)),
            OperandRule::Ripgrep if self.operands == 0 => {
                Some(here(FileUsage::Search { hidden: self.hidden }))
            }
            OperandRule::Grep if self.operands == 0 && self.recursive => {
                Some(here(FileUsage::Search { hidden: true }))
            }
            OperandRule::NeedsVerb(_) => {
                self.review.reads &= self.operands > 0;
                None
            }
            OperandRule::Text => {
                self.review.reads &= self.has_lookup;
                None
            }
            _ => None,
        };
        if let Some((text, usage)) = implied {
            self.review.add_file(text, false, usage);
        }
        // Only now is it known whether `-r` or `--hidden` was given: options may follow operands.
        for file in &mut self.review.files {
            file.usage = match (self.command.operands, file.usage) {
                (OperandRule::Grep, FileUsage::Search { .. }) if !self.recursive => FileUsage::Read,
                (OperandRule::Ripgrep, FileUsage::Search { .. }) => FileUsage::Search { hidden: self.hidden },
                (_, usage) => usage,
            };
        }
        if self.subcommand.is_some() && self.command.reads {
            self.review
                .add_file(".", false, FileUsage::Repository { urls: self.urls });
        }
    }
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
        words: Vec::new(),
    };
    for (part, simple) in line.commands.iter().enumerate() {
        let review = review_command(simple);
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
            !changes_state && (cd && index == 0 || review_command(part).is_some_and(|review| review.reads))
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
            ) && review_command(part).is_none_or(|review| !review.reads)
                || super::command::STATE_BUILTINS.contains(&name)
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
        [cd, folder] if as_known_literal(cd) == Some("cd") && !is_glob(Some(folder)) => {
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
    (table::WITH_SUBCOMMANDS.contains(&program) && is_glob(Some(word))).then(|| word.to_rule_text())?
}

fn is_glob(word: Option<&ShellWord>) -> bool {
    matches!(word, Some(ShellWord::Literal { glob: true, .. }))
}

#[cfg(test)]
mod tests;
