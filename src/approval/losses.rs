//! What a command line deletes or overwrites, as far as its text shows: by program, subcommand, and redirection.
//!
//! Pure: `tool` looks up what is there, and what of it is kept. It names what a careful reader would see in the line, through
//! wrappers, `sh -c`, and `find -exec`; a program or a script may do more.

mod documents;
mod expansion;
mod writers;

use super::programs::{SHELLS, WRAPPERS, base_name, takes_arguments_from_input};
use super::shell::{ParsedCommand, ShellWord, SimpleCommand, WordTemplate};
use crate::base::word_list::WordList;
use crate::domain::{CommandLosses, LossReach, LossTarget};
use expansion::{ANY, Choice, INNER, LineVariables, find_name_filter};

/// How many scripts in arguments are read.
const MAX_SCRIPTS: usize = 16;

/// How many targets are looked up. With more, anything may be lost.
const MAX_TARGETS: usize = 500;

/// How many pieces of a line are read that cannot be parsed.
const MAX_PIECES: usize = 500;

/// How many words after a wrapper are read as programs.
const MAX_STARTS: usize = 500;

/// Words of the shell that may come before a program.
const KEYWORDS: WordList = WordList("! do then else elif if while until time");

/// How many folders words may be relative to.
const MAX_FOLDERS: usize = 8;

/// Programs that change each file they name.
const FILE_PROGRAMS: WordList = WordList("rm grm unlink shred truncate gtruncate tee");

/// Programs that put files at the place that they name last.
const COPY_PROGRAMS: WordList = WordList("cp gcp mv gmv install ginstall ln gln rsync scp");

/// Returns what a command line deletes or overwrites.
pub fn find_command_losses(command: &str) -> CommandLosses {
    let mut reader = LossReader {
        targets: Vec::new(),
        scripts: Vec::new(),
        folders: Vec::new(),
        folder: FolderKnowledge::Known,
        variables: LineVariables::new(),
        reads_script: false,
    };
    reader.read_text(command);
    let mut budget = MAX_SCRIPTS;
    while let Some(script) = reader.scripts.pop() {
        if budget == 0 {
            reader.add(LossTarget::Unknown);
            break;
        }
        budget -= 1;
        reader.read_text(&script);
    }
    if !reader.variables.count_work(0) {
        reader.add(LossTarget::Unknown);
    }
    CommandLosses {
        folders: reader.folders,
        targets: reader.targets,
    }
}

struct LossReader {
    targets: Vec<LossTarget>,
    scripts: Vec<String>,
    /// The folders of each `cd` so far. Which one counts depends on subshells and failures.
    folders: Vec<String>,
    folder: FolderKnowledge,
    variables: LineVariables,
    /// Whether a shell of the line reads its script from the input.
    reads_script: bool,
}

/// Where each `cd` so far leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FolderKnowledge {
    Known,
    /// One leads to a folder below that of the command, whose name only the shell knows.
    Inner,
    Unknown,
}

/// The arguments of a program, sorted.
struct Arguments<'a> {
    /// The short options, one letter each.
    letters: String,
    /// The long options, with their values.
    long: Vec<&'a str>,
    operands: Vec<&'a ShellWord>,
}

impl<'a> Arguments<'a> {
    fn new(words: &'a [ShellWord]) -> Self {
        let mut arguments = Self {
            letters: String::new(),
            long: Vec::new(),
            operands: Vec::new(),
        };
        let mut ended = false;
        for word in words {
            match word.as_literal() {
                Some("--") if !ended => ended = true,
                Some(text) if !ended && text.starts_with("--") => arguments.long.push(text),
                Some(text) if !ended && text.len() > 1 && text.starts_with('-') => {
                    arguments.letters.push_str(&text[1..]);
                }
                _ => arguments.operands.push(word),
            }
        }
        arguments
    }

    /// Returns whether one of these short or long options is there.
    fn has(&self, letters: &[char], long: &[&str]) -> bool {
        self.letters.contains(letters)
            || (self.long.iter()).any(|option| long.contains(&option.split('=').next().unwrap_or(option)))
    }

    fn operand(&self, at: usize) -> Option<&'a str> {
        self.operands.get(at).and_then(|word| word.as_literal())
    }
}

impl LossReader {
    fn add(&mut self, target: LossTarget) {
        let target = if self.targets.len() < MAX_TARGETS {
            target
        } else {
            LossTarget::Unknown
        };
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }

    fn read_line(&mut self, line: &ParsedCommand) {
        self.variables.add_line(line);
        self.reads_script = false;
        for part in &line.commands {
            self.read_part(part);
        }
        if self.reads_script {
            self.scripts.extend(line.input_texts.iter().cloned());
            // `echo … | sh`, `sh <(echo …)`
            for part in &line.commands {
                let printed = part
                    .words
                    .iter()
                    .skip_while(|word| !is_printing_program(word))
                    .skip(1);
                self.scripts
                    .extend((printed.clone().next().is_some()).then(|| join_words(printed)));
            }
        }
    }

    /// Reads a line that was not parsed to its end: each piece between operators, as if nothing were quoted.
    fn read_pieces(&mut self, text: &str) {
        let pieces = text.split(['\n', ';', '&', '|', '(', ')', '`', '{', '}']);
        for (at, piece) in pieces.enumerate() {
            if at == MAX_PIECES || !self.variables.count_work(1 + piece.len() / 8) {
                return self.add(LossTarget::Unknown);
            }
            let words = piece.split_whitespace();
            let words = words.map(|word| {
                if word.contains('$') {
                    to_word(&ANY.to_string())
                } else {
                    to_word(&word.replace(['\'', '"', '\\'], ""))
                }
            });
            let mut words: Vec<ShellWord> = words.collect();
            for at in 0..words.len() {
                let target = match words[at].as_literal() {
                    // `>>` keeps what is there.
                    Some(text) if text.contains(">>") => None,
                    Some(text) if text.ends_with('>') => words.get(at + 1).cloned(),
                    Some(text) => text
                        .rsplit_once('>')
                        .map(|(_, file)| ShellWord::from_plain_text(file)),
                    None => None,
                };
                if let Some(target) = target {
                    self.add_files(&target, &LossReach::Content);
                }
            }
            let is_keyword = |word: &ShellWord| {
                (word.as_literal()).is_none_or(|word| word.contains('=') || KEYWORDS.contains(word))
            };
            words.drain(..words.iter().take_while(|word| is_keyword(word)).count());
            self.read_words(&words);
        }
    }

    /// Reads a simple command, with each combination of values that its variables may have.
    fn read_part(&mut self, part: &SimpleCommand) {
        let mut choice = Choice::default();
        loop {
            let redirects = part.redirects.iter().filter(|redirect| redirect.truncates);
            let targets = self.expand_words(redirects.map(|redirect| &redirect.target), &mut choice);
            let words = self.expand_words(part.words.iter(), &mut choice);
            if choice.has_too_many() {
                choice.forget();
                continue;
            }
            for target in &targets {
                self.add_files(target, &LossReach::Content);
            }
            self.read_words(&words);
            if !choice.advance() || !self.variables.count_work(1) {
                return;
            }
        }
    }

    fn expand_words<'a>(
        &self,
        words: impl Iterator<Item = &'a ShellWord>,
        choice: &mut Choice,
    ) -> Vec<ShellWord> {
        let mut expanded = Vec::new();
        for word in words {
            if word.as_literal().is_some() {
                expanded.push(word.clone());
                continue;
            }
            let texts = self.variables.expand(word, choice);
            if !self.variables.count_work(texts.len()) {
                return Vec::new();
            }
            expanded.extend(texts.iter().map(|text| to_word(text)));
        }
        expanded
    }

    fn read_words(&mut self, words: &[ShellWord]) {
        let from_input = (words.iter())
            .filter_map(ShellWord::as_literal)
            .any(|word| takes_arguments_from_input(base_name(word)));
        let first = words.first().and_then(ShellWord::as_literal);
        let is_wrapped = first.is_some_and(|name| WRAPPERS.contains(base_name(name)));
        // After a wrapper, any word may be the program.
        let starts = if is_wrapped { words.len() } else { 1 };
        if starts > MAX_STARTS {
            self.add(LossTarget::Unknown);
            return;
        }
        self.read_outputs(words, is_wrapped);
        for at in 0..starts.min(words.len()) {
            if !self.variables.count_work(words.len() - at) {
                return;
            }
            if let Some(name) = words[at].as_literal().map(base_name) {
                self.read_program(name, &words[at + 1..], from_input);
            }
        }
    }

    fn read_program(&mut self, name: &str, words: &[ShellWord], from_input: bool) {
        let arguments = Arguments::new(words);
        self.read_writer(name, words, &arguments);
        match name {
            "git" => self.read_git(words),
            "find" | "gfind" => self.read_find(words),
            "fd" | "fdfind" if arguments.has(&['x', 'X'], &["--exec", "--exec-batch"]) => {
                self.read_executed(words);
            }
            "cd" | "pushd" => self.change_folder(arguments.operands.first().copied()),
            "eval" => self.add_script(&arguments.operands),
            "trap" => self.add_script(arguments.operands.get(..1).unwrap_or_default()),
            "." | "source" => self.reads_script |= reads_input(&arguments),
            "dd" => self.add_prefixed(words, "of="),
            "sed" | "gsed" if arguments.has(&['i'], &["--in-place"]) => {
                self.add_operands(&arguments, &LossReach::Entry);
            }
            "perl" | "ruby" if arguments.has(&['i'], &[]) => {
                self.add_operands(&arguments, &LossReach::Entry);
            }
            _ if SHELLS.contains(name) && arguments.letters.contains('c') => {
                self.add_script(arguments.operands.get(..1).unwrap_or_default());
            }
            _ if SHELLS.contains(name) => self.reads_script |= reads_input(&arguments),
            _ if FILE_PROGRAMS.contains(name) => {
                let reach = match name {
                    "rm" | "grm" if arguments.has(&['r', 'R'], &["--recursive"]) => {
                        LossReach::Tree { named: None }
                    }
                    "rm" | "grm" | "unlink" => LossReach::Entry,
                    _ => LossReach::Content,
                };
                self.add_operands(&arguments, &reach);
                if from_input && matches!(reach, LossReach::Tree { .. }) {
                    self.add(LossTarget::Unknown);
                } else if from_input {
                    self.add(find_pattern_target(&ANY.to_string()));
                }
            }
            _ if COPY_PROGRAMS.contains(name) => self.read_copy(name, &arguments),
            _ => {}
        }
    }

    fn change_folder(&mut self, to: Option<&ShellWord>) {
        let to = match to {
            None => Some("~"),
            Some(ShellWord::Literal {
                text, glob: false, ..
            }) => Some(text.as_str()),
            Some(ShellWord::Dynamic { known, .. }) if is_inner_pattern(known) => {
                self.folder = self.folder.max(FolderKnowledge::Inner);
                return;
            }
            Some(_) => None,
        };
        // One of the folders so far.
        if to == Some("-") {
            return;
        }
        let Some(to) = to.filter(|_| self.folders.len() < MAX_FOLDERS) else {
            self.folder = FolderKnowledge::Unknown;
            return;
        };
        let mut folders = vec![to.to_owned()];
        if !to.starts_with(['/', '~']) {
            folders.extend(self.folders.iter().map(|folder| format!("{folder}/{to}")));
        }
        for folder in folders {
            if self.folders.len() == MAX_FOLDERS {
                self.folder = FolderKnowledge::Unknown;
            } else if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    /// Adds a script in arguments. Where only the shell knows how it goes on, the rest is one unknown word.
    fn add_script(&mut self, words: &[&ShellWord]) {
        if self.scripts.len() > MAX_SCRIPTS {
            return;
        }
        let script = join_words(words.iter().copied());
        // What is unknown would not be seen in single quotes.
        self.scripts.push(if script.contains("$UNKNOWN") {
            script.replace('\'', "\"")
        } else {
            script
        });
    }

    fn add_prefixed(&mut self, words: &[ShellWord], prefix: &str) {
        for word in words {
            if let Some(text) = word.as_literal().and_then(|text| text.strip_prefix(prefix)) {
                self.add_files(&ShellWord::from_plain_text(text), &LossReach::Content);
            }
        }
    }

    fn add_operands(&mut self, arguments: &Arguments<'_>, reach: &LossReach) {
        for word in &arguments.operands {
            self.add_files(word, reach);
        }
    }

    fn add_files(&mut self, word: &ShellWord, reach: &LossReach) {
        let text = match word {
            ShellWord::Literal { text, .. } => text,
            ShellWord::Dynamic { known, .. } => known,
        };
        let is_tree = matches!(reach, LossReach::Tree { .. });
        if self.folder != FolderKnowledge::Known && !text.starts_with(['/', '~', ANY]) {
            self.add(if is_tree {
                LossTarget::Unknown
            } else {
                LossTarget::AnyFile {
                    named: find_name_pattern(text),
                    is_inner: self.folder == FolderKnowledge::Inner,
                }
            });
        }
        self.add(match word {
            ShellWord::Literal { text, glob, .. } => LossTarget::Files {
                text: text.clone(),
                glob: *glob,
                reach: reach.clone(),
            },
            ShellWord::Dynamic { .. } if is_tree => LossTarget::Unknown,
            ShellWord::Dynamic { known, .. } => find_pattern_target(known),
        });
    }

    /// Reads `cp`, `mv`, and others like them.
    fn read_copy(&mut self, name: &str, arguments: &Arguments<'_>) {
        let may_be_remote = matches!(name, "rsync" | "scp");
        let with_folders = name == "rsync" || arguments.has(&['r', 'R', 'a'], &["--recursive", "--archive"]);
        let given = arguments
            .long
            .iter()
            .find_map(|option| option.strip_prefix("--target-directory="));
        let (sources, place) = match (given, arguments.operands.split_last()) {
            (Some(place), _) => (arguments.operands.as_slice(), Some(place)),
            // `-t FOLDER` stands first.
            (None, Some(_)) if arguments.letters.contains('t') && name != "rsync" => (
                arguments.operands.get(1..).unwrap_or_default(),
                arguments.operand(0),
            ),
            (None, Some((last, sources))) if !sources.is_empty() => {
                if let (ShellWord::Dynamic { known, .. }, false) = (last, with_folders) {
                    // It may be a folder.
                    return self.add(find_pattern_target(&format!("{known}/{INNER}")));
                }
                (sources, last.as_literal())
            }
            (None, _) => return,
        };
        // `host:path` is on another machine.
        let Some(place) = place.filter(|place| !may_be_remote || !place.contains(':')) else {
            return self.add(LossTarget::Unknown);
        };
        let is_pattern = arguments
            .operands
            .iter()
            .any(|word| matches!(word, ShellWord::Literal { text, glob: true, .. } if text == place));
        if is_pattern {
            self.add_copies_to_pattern(sources, place, with_folders);
        }
        let mut names = Vec::new();
        let leaves = matches!(name, "mv" | "gmv") && is_temporary(place);
        for source in sources {
            if leaves {
                self.add_files(source, &LossReach::Tree { named: None });
            }
            match source {
                ShellWord::Literal {
                    text, glob: false, ..
                } => names.push(base_name(text).to_owned()),
                // Only bash knows the names.
                _ if is_pattern => {}
                _ => self.add(LossTarget::Files {
                    text: place.to_owned(),
                    glob: false,
                    reach: LossReach::Tree { named: None },
                }),
            }
        }
        if self.folder != FolderKnowledge::Known && !place.starts_with(['/', '~']) {
            let is_named = names.len() == sources.len();
            let names = names.iter().map(String::as_str).filter(|_| is_named);
            self.add_copies_elsewhere(names, is_named.then(|| base_name(place)), with_folders);
        }
        self.add(LossTarget::Into {
            names,
            place: place.to_owned(),
            with_folders,
        });
    }

    /// Adds files with these names in any folder, as copies overwrite them; without a place, files with any name.
    fn add_copies_elsewhere<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        place: Option<&'a str>,
        with_folders: bool,
    ) {
        if with_folders {
            return self.add(LossTarget::Unknown);
        }
        let is_inner = self.folder == FolderKnowledge::Inner;
        for named in [place].into_iter().chain(names.map(Some)) {
            let named = named.and_then(find_name_pattern);
            self.add(LossTarget::AnyFile { named, is_inner });
        }
    }

    /// Adds the files that match a pattern, and those in folders that match it.
    fn add_copies_to_pattern(&mut self, sources: &[&ShellWord], pattern: &str, with_folders: bool) {
        let names = sources.iter().map(|source| match source {
            ShellWord::Literal { text, .. } => base_name(text.trim_end_matches('/')),
            ShellWord::Dynamic { .. } => "*",
        });
        let inside = names.map(|name| format!("{}/{name}", pattern.trim_end_matches('/')));
        for text in [pattern.to_owned()].into_iter().chain(inside) {
            let reach = if with_folders && text != pattern {
                LossReach::Tree { named: None }
            } else {
                LossReach::Content
            };
            self.add(LossTarget::Files {
                text,
                glob: true,
                reach,
            });
        }
    }

    /// Reads `find`: what it deletes lies below the folders before its first option.
    fn read_find(&mut self, words: &[ShellWord]) {
        let is_start = |word: &&ShellWord| {
            !word
                .as_literal()
                .is_some_and(|text| text.starts_with(['-', '(', '!']))
        };
        let starts: Vec<&ShellWord> = words.iter().take_while(is_start).collect();
        for pair in words.windows(2) {
            if matches!(
                pair[0].as_literal(),
                Some("-fprint" | "-fprint0" | "-fprintf" | "-fls")
            ) {
                self.add_files(&pair[1], &LossReach::Content);
            }
        }
        let before = self.targets.len();
        self.read_executed(words);
        let destroys = self.targets.len() > before;
        self.targets.truncate(before);
        if !destroys && !words.iter().any(|word| word.as_literal() == Some("-delete")) {
            return;
        }
        let here = ShellWord::from_plain_text(".");
        let reach = LossReach::Tree {
            named: find_name_filter(words).map(str::to_owned),
        };
        for start in if starts.is_empty() { vec![&here] } else { starts } {
            self.add_files(start, &reach);
        }
    }

    /// Reads the command in the arguments of `find` or `fd`, whose files only that program knows.
    fn read_executed(&mut self, words: &[ShellWord]) {
        const EXECUTES: WordList = WordList("-exec -execdir -ok -okdir -x -X --exec --exec-batch");
        let starts = (words.iter().enumerate())
            .filter(|(_, word)| word.as_literal().is_some_and(|word| EXECUTES.contains(word)));
        for (at, _) in starts {
            if let Some(name) = words.get(at + 1).and_then(ShellWord::as_literal) {
                let before = self.targets.len() + self.scripts.len();
                let is_end = |word: &ShellWord| matches!(word.as_literal(), Some(";" | "+"));
                let end = (words[at + 1..].iter().position(is_end)).map_or(words.len(), |end| at + 1 + end);
                self.read_outputs(&words[at + 1..end], WRAPPERS.contains(base_name(name)));
                self.read_program(base_name(name), words.get(at + 2..end).unwrap_or_default(), false);
                if self.targets.len() + self.scripts.len() > before {
                    self.add(LossTarget::Workspace { ignored: true });
                }
            }
        }
    }

    fn read_git(&mut self, words: &[ShellWord]) {
        let mut at = 0;
        let mut folder = self.variables.find_value("GIT_WORK_TREE");
        let mut is_known =
            self.folder != FolderKnowledge::Unknown && folder.as_deref().is_none_or(is_known_text);
        let mut expires = false;
        while let Some(word) = words.get(at).and_then(ShellWord::as_literal) {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value)),
                _ => (word, words.get(at + 1).and_then(ShellWord::as_literal)),
            };
            match option {
                "-C" | "--work-tree" => {
                    is_known &= value.is_some();
                    folder = value.map(|value| match &folder {
                        Some(folder) if !value.starts_with(['/', '~']) => format!("{folder}/{value}"),
                        _ => value.to_owned(),
                    });
                }
                "-c" => {
                    expires |= value.is_none_or(|setting| {
                        let setting = setting.to_ascii_lowercase();
                        setting.starts_with("gc.") && setting.contains("expire")
                    });
                }
                "--git-dir" | "--namespace" | "--config-env" => {}
                _ if word.starts_with('-') => {
                    at += 1;
                    continue;
                }
                _ => break,
            }
            at += if word == option { 2 } else { 1 };
        }
        let Some(subcommand) = words.get(at).and_then(ShellWord::as_literal) else {
            return;
        };
        let arguments = Arguments::new(&words[at + 1..]);
        if let Some(target) = find_git_target(subcommand, &arguments) {
            if matches!(target, LossTarget::Workspace { .. }) {
                self.add_work_tree(folder.as_deref(), is_known, subcommand, &arguments);
            }
            self.add(target);
        }
        if expires && matches!(subcommand, "gc" | "reflog" | "maintenance") {
            self.add(LossTarget::Other("commits that no branch has"));
        }
        let named = match subcommand {
            "rm" => &arguments.operands[..],
            "worktree" if arguments.operand(0) == Some("remove") => &arguments.operands[1..],
            "submodule" if arguments.operand(0) == Some("deinit") => &arguments.operands[1..],
            _ => &[],
        };
        for word in named {
            match (&folder, word.as_literal()) {
                (Some(folder), Some(text)) if !text.starts_with('/') => self.add(LossTarget::Files {
                    text: format!("{folder}/{text}"),
                    glob: false,
                    reach: LossReach::Tree { named: None },
                }),
                _ => self.add_files(word, &LossReach::Tree { named: None }),
            }
        }
    }

    /// Adds the work tree that git changes, if it may be another one than that of the workspace.
    fn add_work_tree(
        &mut self,
        folder: Option<&str>,
        is_known: bool,
        subcommand: &str,
        arguments: &Arguments<'_>,
    ) {
        if !is_known {
            self.add(LossTarget::AnyFile {
                named: None,
                is_inner: false,
            });
        } else if folder.is_some() || !self.folders.is_empty() {
            self.add(LossTarget::WorkTree {
                folder: folder.unwrap_or(".").to_owned(),
                with_untracked: subcommand == "clean"
                    || subcommand == "stash" && arguments.has(&['u', 'a'], &["--include-untracked", "--all"]),
            });
        }
    }
}

/// Returns a word for a text in which marks stand for what is unknown.
fn to_word(text: &str) -> ShellWord {
    if !is_known_text(text) {
        return ShellWord::Dynamic {
            reason: "a variable",
            known: text.to_owned(),
            template: WordTemplate::default(),
        };
    }
    ShellWord::Literal {
        text: text.to_owned(),
        glob: text.contains(['*', '?', '[']),
        quoted: false,
    }
}

/// Returns the words as the text of a script.
fn join_words<'a>(words: impl Iterator<Item = &'a ShellWord>) -> String {
    let texts = words.map(|word| match word {
        ShellWord::Dynamic { known, .. } if known.contains([ANY, INNER]) => {
            known.replace([ANY, INNER], "$UNKNOWN")
        }
        _ => word.to_script(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn is_printing_program(word: &ShellWord) -> bool {
    matches!(word.as_literal().map(base_name), Some("echo" | "printf"))
}

/// Returns whether a shell reads its script from the input, or from the output of a command.
fn reads_input(arguments: &Arguments<'_>) -> bool {
    let script = arguments.operands.first();
    let is_input = script.is_none_or(|script| {
        script
            .as_literal()
            .is_none_or(|name| name == "-" || name.starts_with("/dev/"))
    });
    is_input || arguments.letters.contains('s')
}

/// Returns whether a text with unknown pieces names something in the current folder or below it.
fn is_inner_pattern(text: &str) -> bool {
    !text.contains(ANY) && !text.starts_with(['/', '~']) && !goes_up(text)
}

fn is_known_text(text: &str) -> bool {
    !text.contains([ANY, INNER])
}

fn goes_up(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// Returns the pattern of the names that a text with unknown pieces may have; `None` for any name. An unknown piece may
/// contain slashes.
fn find_name_pattern(text: &str) -> Option<String> {
    let (is_whole, end) = match text.rsplit_once([ANY, INNER]) {
        Some((_, end)) => (false, end),
        None => (true, text),
    };
    match end.rsplit_once('/') {
        Some((_, name)) => Some(name.to_owned()),
        None if is_whole => Some(end.to_owned()),
        None => Some(format!("*{end}")),
    }
    // Whether these are quoted is not known.
    .filter(|name| !matches!(name.as_str(), "" | "*") && !name.contains(['[', '{', '\\']))
}

/// Returns the files that a text with unknown pieces may name.
fn find_pattern_target(text: &str) -> LossTarget {
    let known = text.split([ANY, INNER]).next().unwrap_or_default();
    let named = find_name_pattern(text);
    match known.rsplit_once('/') {
        Some((folder, _)) if !matches!(folder, "" | "~") && !goes_up(&text[folder.len()..]) => {
            LossTarget::Files {
                text: folder.to_owned(),
                glob: folder.contains(['*', '?', '[']),
                reach: LossReach::Inside { named },
            }
        }
        Some(_) => LossTarget::AnyFile {
            named,
            is_inner: false,
        },
        None => LossTarget::AnyFile {
            named,
            is_inner: !known.starts_with('~') && !known.trim_matches('.').is_empty() && !goes_up(text)
                || is_inner_pattern(text),
        },
    }
}

/// Returns whether a place is in a folder for temporary files. In the sandbox, these end with the session.
fn is_temporary(place: &str) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|folder| {
        (place.strip_prefix(folder)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns what a subcommand of git destroys besides files that it names.
fn find_git_target(subcommand: &str, arguments: &Arguments<'_>) -> Option<LossTarget> {
    let has = |letters: &[char], long: &[&str]| arguments.has(letters, long);
    let first = arguments.operand(0);
    let workspace = |ignored| Some(LossTarget::Workspace { ignored });
    let other = |what| Some(LossTarget::Other(what));
    match subcommand {
        "reset" if has(&[], &["--hard", "--merge", "--keep"]) => workspace(false),
        // It also stands for a branch, which git leaves only where nothing is lost.
        "checkout" | "switch" => workspace(false),
        "restore" if !has(&['S'], &["--staged"]) || has(&['W'], &["--worktree"]) => workspace(false),
        "checkout-index" | "read-tree" => workspace(false),
        "clean" if !has(&['n'], &["--dry-run"]) => workspace(has(&['x', 'X'], &[])),
        "stash" => match first {
            Some("drop") => other("an entry of the stash"),
            Some("clear") => other("all entries of the stash"),
            Some("list" | "show" | "create" | "apply" | "pop" | "branch") => None,
            _ => workspace(has(&['a'], &["--all"])),
        },
        "branch" if has(&['D'], &[]) || has(&['d'], &["--delete"]) && has(&['f'], &["--force"]) => {
            other("the commits that only this branch has")
        }
        "branch" if has(&['f', 'M', 'C'], &["--force"]) => other("what the branch pointed to"),
        "update-ref"
            if has(&['d'], &["--stdin"]) || first.is_some_and(|name| name.starts_with("refs/tags/")) =>
        {
            other("what the reference pointed to")
        }
        "tag" if has(&['d', 'f'], &["--delete", "--force"]) => other("what the tag pointed to"),
        "repack" if has(&['d'], &[]) && has(&['a'], &[]) => other("commits that no branch has"),
        "reflog" if matches!(first, Some("expire" | "delete")) => {
            other("the way back to earlier commits (the reflog)")
        }
        "gc" if has(&[], &["--prune"]) => other("commits that no branch has"),
        "prune" => other("commits that no branch has"),
        "filter-branch" | "filter-repo" => other("the history as it is"),
        "push"
            if has(&['f', 'd'], &["--force", "--mirror", "--delete", "--prune"])
                || (arguments.operands.iter())
                    .any(|word| word.as_literal().is_some_and(|word| word.starts_with(['+', ':']))) =>
        {
            other("what the remote repository has there")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the targets of a line in short.
    fn describe(command: &str) -> String {
        let losses = find_command_losses(command);
        let targets = losses.targets.into_iter().map(|target| match target {
            LossTarget::Files { text, glob, reach } => {
                let reach = match reach {
                    LossReach::Content => " content".to_owned(),
                    LossReach::Entry => String::new(),
                    LossReach::Inside { named } => format!(" inside {}", named.unwrap_or_default()),
                    LossReach::Tree { named: None } => " all".to_owned(),
                    LossReach::Tree { named: Some(named) } => format!(" all {named}"),
                };
                format!("{text}{}{reach}", if glob { " glob" } else { "" })
            }
            LossTarget::Into {
                names,
                place,
                with_folders,
            } => format!(
                "{} into {place}{}",
                names.join("+"),
                if with_folders { " all" } else { "" }
            ),
            LossTarget::Workspace { ignored: false } => "workspace".to_owned(),
            LossTarget::Workspace { ignored: true } => "workspace and ignored".to_owned(),
            LossTarget::AnyFile { named, is_inner } => {
                let place = if is_inner { "in" } else { "any" };
                format!("{place} {}", named.unwrap_or_else(|| "file".to_owned()))
            }
            LossTarget::Unpacked { place } => format!("into {place}"),
            LossTarget::WorkTree {
                folder,
                with_untracked,
            } => format!("tree {folder}{}", if with_untracked { " and new" } else { "" }),
            LossTarget::Other(what) => what.to_owned(),
            LossTarget::Unknown => "unknown".to_owned(),
        });
        targets.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_commands_destroy_is_seen() {
        for (command, want) in [
            ("rm a 'b c'", "a, b c"),
            ("rm -rf -- -x *.o", "-x all, *.o glob all"),
            ("cd sub && rm a", "a"),
            ("cd \"$x\"; rm a; rm -r b; rm /c", "any a, a, unknown, b all, /c"),
            (
                "mv a b/* /tmp/x",
                "a all, b/* glob all, /tmp/x all, a into /tmp/x",
            ),
            ("mv a /tmpx", "a into /tmpx"),
            ("sudo nice rm -r a", "a all"),
            ("sh -c 'rm a; > b'", "a, b content"),
            ("eval \"rm -r a\"", "a all"),
            ("sh -c \"rm -r $DIR\"", "unknown"),
            ("sh -c \"until test -e $x; do sleep 1; done\"", ""),
            ("find src -name '*.o' -delete", "src all *.o"),
            ("find src -name '*.o' -o -name x -delete", "src all"),
            ("find . -type f -exec rm {} +", ". all"),
            ("find -execdir sh -c 'rm $1' {} ;", ". all, any file"),
            ("find . -name x", ""),
            ("ls | xargs rm", "any file"),
            ("ls | xargs rm -r", "unknown"),
            ("rm -rf \"$DIR\"", "unknown"),
            ("rm \"$file\"", "any file"),
            ("echo x > a; echo y >> b; cat < c", "a content"),
            ("echo x | tee a b", "a content, b content"),
            ("truncate -s 0 a", "0 content, a content"),
            ("dd if=x of=y", "y content"),
            ("sed -i s/a/b/ x", "s/a/b/, x"),
            ("sed s/a/b/ x", ""),
            ("perl -pi -e s/a/b/ x", "s/a/b/, x"),
            ("cp a b", "a into b"),
            ("cp -r a/x b", "x into b all"),
            ("mv a b c", "a+b into c"),
            ("cp -t c a b", "a+b into c"),
            ("mv *.c d", "d all,  into d"),
            ("rsync -a --delete a/ b", " into b all"),
            ("git reset --hard HEAD~1", "workspace"),
            ("git reset HEAD a", ""),
            ("git checkout -- .", "workspace"),
            ("git checkout main -f", "workspace"),
            ("git restore a", "workspace"),
            ("git restore --staged a", ""),
            ("git restore --staged --worktree a", "workspace"),
            ("git clean -fd", "workspace"),
            ("git clean -fdx", "workspace and ignored"),
            ("git clean -n", ""),
            ("git stash", "workspace"),
            ("git stash push -u", "workspace"),
            ("git stash drop", "an entry of the stash"),
            ("git stash clear", "all entries of the stash"),
            ("git branch -D x", "the commits that only this branch has"),
            ("git branch -d x", ""),
            ("git tag -d v1", "what the tag pointed to"),
            ("git tag v1", ""),
            (
                "git update-ref refs/tags/x HEAD~1",
                "what the reference pointed to",
            ),
            ("git update-ref refs/heads/x HEAD~1", ""),
            ("git -c gc.auto=0 gc", ""),
            ("cd \"$x\"; cp a b", "any b, any a, a into b"),
            (
                "cd \"$(git rev-parse --show-toplevel)\" && cp x/a b",
                "any b, any a, a into b",
            ),
            (
                "for f in *.new; do mv \"$f\" \"${f%.new}\"; done",
                "* glob content, */*.new glob content,  into *",
            ),
            (
                "for d in */; do cp .env \"$d\"; done",
                "*/ glob content, */.env glob content, .env into */",
            ),
            (
                "for f in *; do cp -r \"$f\" \"$f.d\"; done",
                "*.d glob content, *.d/* glob all,  into *.d all",
            ),
            (
                "cp a b*; cp *.c '[id]'",
                "b* glob content, b*/a glob content, a into b*, [id] all,  into [id]",
            ),
            ("cp -t */ a", "*/ glob content, */a glob content, a into */"),
            ("n=$((n+1)); t=$(mktemp); rm \"$t\"", "/tmp/.made-by-mktemp"),
            ("p=$((p+1)); echo \"P=$p\" >> .env", ""),
            ("echo $[1] >> .env; echo $[1] 2>>a >>b", ""),
            ("git repack -ad", "commits that no branch has"),
            ("git -c gc.pruneExpire=now gc", "commits that no branch has"),
            ("git -c core.pager=cat gc", ""),
            ("git -C sub rm a", "sub/a all"),
            ("git filter-branch --all", "the history as it is"),
            (
                "git push --force origin main",
                "what the remote repository has there",
            ),
            ("git push origin +main", "what the remote repository has there"),
            ("git push origin main", ""),
            ("git status && cargo test", ""),
        ] {
            assert_eq!(describe(command), want, "{command}");
        }
    }

    #[test]
    fn words_are_expanded_as_far_as_the_line_determines_them() {
        for (command, want) in [
            ("rm \"$PWD/.env\"", "./.env"),
            ("rm \"$HOME/a\" ~/b ${HOME}/c", "~/a, ~/b, ~/c"),
            ("f=.env; rm \"$f\"", ".env"),
            ("f=.env g=$f; rm $g.local", ".env.local"),
            ("f='a b'; rm $f", "a b, a, b"),
            ("export F=a; env G=b sh -c 'rm $F $G'", "a, any file"),
            ("a=(x 'y z'); rm \"${a[@]}\"", "x, y z, y, z"),
            (
                "for f in *.o a/*.log; do rm \"$f\"; done",
                "*.o glob, a/*.log glob",
            ),
            (
                "for f in *.c; do mv \"$f\" \"${f%.c}.h\"; done",
                "*.h glob content, *.h/*.c glob content,  into *.h",
            ),
            ("rm {a,b}.o x{1..3}", "a.o, b.o, x1, x2, x3"),
            ("rm a{,.bak}", "a, a.bak"),
            (
                "f=$(mktemp); echo x > \"$f\"; rm \"$f\"",
                "/tmp/.made-by-mktemp content, /tmp/.made-by-mktemp",
            ),
            (
                "d=`mktemp -d`; trap 'rm -rf \"$d\"' EXIT",
                "/tmp/.made-by-mktemp all",
            ),
            ("rm \"$TMPDIR/x\" \"${TMPDIR:-/tmp}/y\"", "/tmp/x, /tmp/y"),
            (
                "for d in dev prod; do for f in .env notes; do cp \"$f\" \"$d/\"; done; done",
                ".env into dev/, .env into prod/, notes into dev/, notes into prod/",
            ),
            (
                "F=\"a b\"; for f in $F; do rm \"/srv/d/$f\"; done",
                "/srv/d/a b, any file, /srv/d/a, /srv/d/b",
            ),
            ("args=(-rf data); rm \"${args[@]}\"", "data all"),
            ("RM=\"rm -rf\"; $RM data", "data all"),
            ("cmd=(rm -rf data); \"${cmd[@]}\"", "data all"),
            ("o=-rf; rm $o data", "data all"),
            ("f=a; rm \"${f%.gz}.gz\"", "a.gz"),
            ("rm $(ls *.local)", "*.local glob"),
            ("rm $(ls -t *.local)", "in file"),
            ("rm $(find . -name '*.o')", "in *.o"),
            ("rm $(git ls-files -o)", "in file"),
            ("rm $(cat list)", "any file"),
            ("while read f; do rm \"$f\"; done", "any file"),
            ("read f; f=a; rm \"$f\"", "any file"),
            ("f=a; eval \"$x\"; rm \"$f\"", "any file"),
            ("f=$f$f; rm \"$f\"", "any file"),
            (
                "rm \"build/$x.o\" \"/srv/x/$y\" log-$z",
                "build inside *.o, /srv/x inside , in file",
            ),
            ("f() { rm \"$1\"; }; f .env", "any file"),
            ("cd \"$(git rev-parse --show-toplevel)\" && rm a", "any a, a"),
            ("x=rm; $x .env", ".env"),
            ("echo x > \"$x\"", "any file"),
            ("cp a \"$x\"", "any file"),
            ("sh -c \"rm '$x'\"", "any file"),
            ("rm .env $[1]", ".env, , any file"),
            ("x=$[1]; rm -r dir; echo a >b", "dir all, b content"),
        ] {
            assert_eq!(describe(command), want, "{command}");
        }
    }

    #[test]
    fn words_that_bash_may_expand_otherwise_are_unknown() {
        for (command, want) in [
            ("rm -rf $(find . -name data)", "unknown"),
            ("rm $(find . -name .env)", "in .env"),
            ("rm $(find . -name .env -exec cat {} \\;)", "any file"),
            ("rm $(find ../x -name .env)", "any file"),
            (
                "args=(); args+=(-rf data); rm \"${args[@]}\"",
                "any file, unknown",
            ),
            (
                "o=-r; o=\"$o -f\"; rm $o data",
                "any file, data, unknown, data all",
            ),
            ("F='a b'; rm /srv/$F", "/srv/a b, any file"),
            ("F='*.o'; rm \"$F\"", "any file"),
            ("rm backup{01..12}.sql", "in *.sql"),
            ("rm {x}{a,b}", "any file"),
            ("rm -r {{a,b},c}", "unknown"),
            ("rm x{1..1000}", "in file"),
            ("declare -A m=([a]=.env); rm \"${m[a]}\"", "any file"),
            ("m=([0]=.env); rm \"${m[@]}\"", "any file, unknown"),
            ("f=a; . ./config.sh; rm \"$f\"", "any file"),
            ("f=a; source config.sh; rm \"$HOME/b\"", "any b"),
            ("f=a; let f=1; rm \"$f\"", "any file"),
            ("f=1; ((f++)); rm \"$f\"", "any file"),
            ("f=a,b; IFS=,; rm $f", "any file"),
            ("f=; rm \"${f:=.env}\"", "any file"),
            ("f=a; printf -v f %s .env; rm \"$f\"", "any file"),
            ("f=a; mapfile f < list; rm \"$f\"", "any file"),
            ("f=a; read \"$x\"; rm \"$f\"", "any file"),
            ("f=a; f=b; rm \"$f\"", "any file"),
            ("f=a rm \"$f\"", "any file"),
            (
                "a='-rf data'; for f in {1..8}; do for g in {1..9}; do rm $a $f$g; done; done",
                "unknown",
            ),
            (
                "for f in {1..8}; do for g in {1..9}; do rm $f$g; done; done",
                "any file",
            ),
            ("f=(a b); f=c; rm \"${f[1]}\"", "any file"),
            ("x=$(ls); rm \"${x#file://}\"", "any file"),
            ("for f in src/a; do rm \"${f/src/$DEST}\"; done", "any file"),
            ("rm $(grep -v '^#' list)", "any file"),
            ("rm $(ls; cat list)", "any file"),
            ("rm $(ls | xargs readlink -f)", "any file"),
            ("rm $(ls -l)", "any file"),
            ("rm $(date +/srv/%F)", "any file"),
            ("rm $(date +%F).log", "in *.log"),
            ("rm \"$(printf 'a\\nb').log\"", "in *.log"),
            ("rm \"$(printf '\\057srv')\"", "any file"),
            ("rm \"$(printf ..)/a\"", "any file"),
            ("rm \"$(git rev-parse --show-toplevel)/.env\"", "any .env"),
            ("cd \"../$(basename \"$x\")\"; rm a", "any a, a"),
            ("cd \"../$(date +%F)\"; rm a", "any a, a"),
            ("rm \"$PWD.bak\" \"/srv$HOME/a\"", "any file"),
            ("d=$(mktemp -d ./x.XXX); rm -rf \"$d/../a\"", "unknown"),
            ("rm \"build/$x/../../.env\"", "any .env"),
        ] {
            assert_eq!(describe(command), want, "{command}");
        }
    }

    #[test]
    fn scripts_in_the_input_of_a_shell_are_read() {
        for (command, want) in [
            ("bash <<< \"rm .env\"", ".env"),
            ("f=.env; bash <<< \"rm $f\"", ".env"),
            ("sh <<E\nrm .env\nE", ".env"),
            ("sudo bash -s <<'E'\nrm $HOME/a\nE", "~/a"),
            ("cat <<E | sh\nrm .env\nE", ".env"),
            ("echo 'rm .env' | sh -x", ".env"),
            ("bash <(echo rm .env)", ".env"),
            (". /dev/stdin <<< 'rm .env'", ".env"),
            ("cat <<E\nrm .env\nE", ""),
            ("sh a.sh <<< 'rm .env'", ""),
        ] {
            assert_eq!(describe(command), want, "{command}");
        }
    }

    #[test]
    fn files_that_programs_write_by_their_options_are_seen() {
        for (command, want) in [
            ("sort -u a -o b", "b content"),
            ("curl -sSLo a https://x/b", "a content"),
            (
                "curl --output=a https://x/b; curl -O https://x/c?d",
                "a content, c content",
            ),
            (
                "wget -O a https://x; wget -qOb https://x; curl -sob https://x",
                "a content, b content",
            ),
            ("wget https://x; grep -o .env a; ls -o .env", ""),
            ("curl https://host/v1/test -o a", "a content"),
            (
                "go test -c -o a; sudo curl -so b https://host/v1/ls",
                "a content, b content",
            ),
            ("sudo grep -e x -o a", ""),
            ("find . -exec openssl x509 -noout -in {} \\; -o -name x", ""),
            ("find . -exec identify -format %w {} \\;", ""),
            ("gcc -O2 a.c -o a", "a content"),
            ("gzip a; gzip -c a; gunzip a.gz", ""),
            ("gzip -f a; xz -df b.xz", "a.gz content, b content"),
            ("tar xzf a.tgz -C /srv/b", "into /srv/b"),
            ("tar -czf a.tgz b", "a.tgz content"),
            (
                "tar --remove-files -cf a.tar b",
                "a.tar content, a.tar all, b all",
            ),
            ("tar tf a.tar", ""),
            ("unzip -o a.zip -d /srv/b; unzip a.zip", "into /srv/b"),
            ("ed -s a; ex -sc x b", "a content, x content, b content"),
            ("uniq a b", "b content"),
            ("find . -fprint a", "a content"),
            ("git -C /srv/b reset --hard", "tree /srv/b, workspace"),
            ("cd /srv/b && git stash -u", "tree . and new, workspace"),
            ("git --work-tree=/srv/b checkout -f", "tree /srv/b, workspace"),
            ("GIT_WORK_TREE=/srv/b git checkout -f", "tree /srv/b, workspace"),
            ("git -C \"$x\" checkout -f", "any file, workspace"),
        ] {
            assert_eq!(describe(command), want, "{command}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a bound is measured")]
    fn a_hostile_line_is_read_in_bounded_time() {
        let values = "x".repeat(100);
        let assignments: String = (0..60)
            .map(|at| format!("v{at}=$v{}$v{}; ", at + 1, at + 2))
            .collect();
        let loops: String = (0..60)
            .map(|at| format!("for f in a{at} b{at} {{c,d}}{{e,f}}{{g,h}}; do rm $f$f; done; "))
            .collect();
        for line in [
            format!("{assignments} v61={values}; rm $v0$v1$v2"),
            loops,
            format!("rm {}", "{a,b}".repeat(1_000)),
            format!("a=$a{}; rm $a", "$a".repeat(5_000)),
            format!("v='{}'; rm {}", "a ".repeat(15_000), "$v ".repeat(10_000)),
            format!("v='{}'; rm {}", "a ".repeat(60), "$v ".repeat(10_000)),
            format!("v=$(ls {}); rm {}", "a ".repeat(2_000), "$v ".repeat(10_000)),
            format!("sudo {}; ", "a ".repeat(490)).repeat(65),
            format!("{}>a", "sudo sh -c a; ".repeat(4_000)),
            format!("echo $[1]; {} rm -r a", "b; ".repeat(600)),
        ] {
            let since = std::time::Instant::now();
            assert!(!find_command_losses(&line).targets.is_empty());
            let took = since.elapsed();
            // Most take a few milliseconds; the rest is for a busy machine.
            assert!(
                took < std::time::Duration::from_secs(30),
                "{took:?}: {}",
                &line[..20]
            );
        }
    }

    #[test]
    fn words_are_relative_to_the_folder_of_each_cd() {
        for (command, want) in [
            ("rm a", ""),
            ("cd sub && rm a", "sub"),
            ("cd ..; (cd a/b && rm -r c); pushd /x", "..; a/b; ../a/b; /x"),
            ("(cd a && make); (cd b && rm -rf data)", "a; b; a/b"),
            ("cd; rm a", "~"),
            ("sh -c 'cd sub; rm a'", "sub"),
        ] {
            assert_eq!(find_command_losses(command).folders.join("; "), want, "{command}");
        }
    }
}
