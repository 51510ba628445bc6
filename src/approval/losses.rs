//! What a command line deletes or overwrites, as far as its text shows: by program, subcommand, and redirection.
//!
//! Pure: `tool` looks up what is there, and what of it is kept. It names what a careful reader would see in the line, through
//! wrappers, `sh -c`, and `find -exec`; a program or a script may do more.

use super::programs::{SHELLS, WRAPPERS, base_name, takes_arguments_from_input};
use super::shell::{self, ParsedCommand, ShellWord, SimpleCommand};
use crate::base::word_list::WordList;
use crate::domain::{CommandLosses, LossReach, LossTarget};

/// How many scripts in arguments are read.
const MAX_SCRIPTS: usize = 16;

/// How many folders words may be relative to.
const MAX_FOLDERS: usize = 8;

/// Programs that change each file they name.
const FILE_PROGRAMS: WordList = WordList("rm grm unlink shred truncate gtruncate tee");

/// Programs that put files at the place that they name last.
const COPY_PROGRAMS: WordList = WordList("cp gcp mv gmv install ginstall ln gln rsync");

/// Returns what a command line deletes or overwrites.
pub fn find_command_losses(command: &str) -> CommandLosses {
    let line = shell::parse(command);
    let mut reader = LossReader {
        targets: Vec::new(),
        scripts: Vec::new(),
        folders: Vec::new(),
        knows_folder: true,
    };
    reader.read_line(&line);
    let mut budget = MAX_SCRIPTS;
    while let Some(script) = reader.scripts.pop() {
        if budget == 0 {
            reader.add(LossTarget::Unknown);
            break;
        }
        budget -= 1;
        reader.read_line(&shell::parse(&script));
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
    /// No `cd` so far goes to a folder that only the shell knows.
    knows_folder: bool,
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
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }

    fn read_line(&mut self, line: &ParsedCommand) {
        for part in &line.commands {
            self.read_part(part);
        }
    }

    fn read_part(&mut self, part: &SimpleCommand) {
        for redirect in part.redirects.iter().filter(|redirect| redirect.truncates) {
            self.add_files(&redirect.target, &LossReach::Content);
        }
        let from_input = (part.words.iter())
            .filter_map(ShellWord::as_literal)
            .any(|word| takes_arguments_from_input(base_name(word)));
        let first = part.words.first().and_then(ShellWord::as_literal);
        let is_wrapped = first.is_some_and(|name| WRAPPERS.contains(base_name(name)));
        // After a wrapper, any word may be the program.
        let starts = if is_wrapped { part.words.len() } else { 1 };
        for at in 0..starts.min(part.words.len()) {
            if let Some(name) = part.words[at].as_literal().map(base_name) {
                self.read_program(name, &part.words[at + 1..], from_input);
            }
        }
    }

    fn read_program(&mut self, name: &str, words: &[ShellWord], from_input: bool) {
        let arguments = Arguments::new(words);
        match name {
            "git" => self.read_git(words),
            "find" | "gfind" => self.read_find(words),
            "fd" | "fdfind" if arguments.has(&['x', 'X'], &["--exec", "--exec-batch"]) => {
                self.read_executed(words);
            }
            "cd" | "pushd" => self.change_folder(arguments.operands.first().copied()),
            "eval" => self.add_script(&arguments.operands),
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
            _ if FILE_PROGRAMS.contains(name) => {
                let reach = match name {
                    "rm" | "grm" if arguments.has(&['r', 'R'], &["--recursive"]) => {
                        LossReach::Tree { named: None }
                    }
                    "rm" | "grm" | "unlink" => LossReach::Entry,
                    _ => LossReach::Content,
                };
                self.add_operands(&arguments, &reach);
                if from_input {
                    self.add(LossTarget::Unknown);
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
            }) if text != "-" => Some(text.as_str()),
            Some(_) => None,
        };
        let Some(to) = to.filter(|_| self.folders.len() < MAX_FOLDERS) else {
            self.knows_folder = false;
            return;
        };
        let mut folders = vec![to.to_owned()];
        if !to.starts_with(['/', '~']) {
            folders.extend(self.folders.iter().map(|folder| format!("{folder}/{to}")));
        }
        for folder in folders {
            if self.folders.len() == MAX_FOLDERS {
                self.knows_folder = false;
            } else if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    /// Adds a script in arguments. Where only the shell knows how it goes on, the rest is one unknown word.
    fn add_script(&mut self, words: &[&ShellWord]) {
        let texts = words.iter().map(|word| match word {
            ShellWord::Literal { text, .. } => text.clone(),
            ShellWord::Dynamic { known, .. } => format!("{known}$UNKNOWN"),
        });
        self.scripts.push(texts.collect::<Vec<_>>().join(" "));
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
        let is_elsewhere = word.as_literal().is_some_and(|text| text.starts_with(['/', '~']));
        if !self.knows_folder && !is_elsewhere {
            self.add(match reach {
                LossReach::Tree { .. } => LossTarget::Unknown,
                _ => LossTarget::Workspace { ignored: false },
            });
        }
        self.add(match (word, reach) {
            (ShellWord::Literal { text, glob, .. }, _) => LossTarget::Files {
                text: text.clone(),
                glob: *glob,
                reach: reach.clone(),
            },
            (ShellWord::Dynamic { .. }, LossReach::Tree { .. }) => LossTarget::Unknown,
            // One file with an unknown name is mostly a temporary one of the line itself.
            (ShellWord::Dynamic { .. }, _) => LossTarget::Workspace { ignored: false },
        });
    }

    /// Reads `cp`, `mv`, and others like them.
    fn read_copy(&mut self, name: &str, arguments: &Arguments<'_>) {
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
            (None, Some((last, sources))) if !sources.is_empty() => (sources, last.as_literal()),
            (None, _) => return,
        };
        // `host:path` is on another machine.
        let Some(place) = place.filter(|place| name != "rsync" || !place.contains(':')) else {
            return self.add(LossTarget::Unknown);
        };
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
                _ => self.add(LossTarget::Files {
                    text: place.to_owned(),
                    glob: false,
                    reach: LossReach::Tree { named: None },
                }),
            }
        }
        if !self.knows_folder && !place.starts_with(['/', '~']) {
            self.add(if with_folders {
                LossTarget::Unknown
            } else {
                LossTarget::Workspace { ignored: false }
            });
        }
        self.add(LossTarget::Into {
            names,
            place: place.to_owned(),
            with_folders,
        });
    }

    /// Reads `find`: what it deletes lies below the folders before its first option.
    fn read_find(&mut self, words: &[ShellWord]) {
        let is_start = |word: &&ShellWord| {
            !word
                .as_literal()
                .is_some_and(|text| text.starts_with(['-', '(', '!']))
        };
        let starts: Vec<&ShellWord> = words.iter().take_while(is_start).collect();
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
                self.read_program(base_name(name), &words[at + 2..], false);
                if self.targets.len() + self.scripts.len() > before {
                    self.add(LossTarget::Workspace { ignored: true });
                }
            }
        }
    }

    fn read_git(&mut self, words: &[ShellWord]) {
        let mut at = 0;
        let mut folder = None;
        let mut expires = false;
        while let Some(word) = words.get(at).and_then(ShellWord::as_literal) {
            match word {
                "-C" => folder = words.get(at + 1).and_then(ShellWord::as_literal),
                "-c" => {
                    let setting = words.get(at + 1).and_then(ShellWord::as_literal);
                    expires |= setting.is_none_or(|setting| {
                        let setting = setting.to_ascii_lowercase();
                        setting.starts_with("gc.") && setting.contains("expire")
                    });
                }
                "--git-dir" | "--work-tree" | "--namespace" | "--config-env" => {}
                _ if word.starts_with('-') => {
                    at += 1;
                    continue;
                }
                _ => break,
            }
            at += 2;
        }
        let Some(subcommand) = words.get(at).and_then(ShellWord::as_literal) else {
            return;
        };
        let arguments = Arguments::new(&words[at + 1..]);
        if let Some(target) = find_git_target(subcommand, &arguments) {
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
            match (folder, word.as_literal()) {
                (Some(folder), Some(text)) if !text.starts_with('/') => self.add(LossTarget::Files {
                    text: format!("{folder}/{text}"),
                    glob: false,
                    reach: LossReach::Tree { named: None },
                }),
                _ => self.add_files(word, &LossReach::Tree { named: None }),
            }
        }
    }
}

/// Returns whether a place is in a folder for temporary files. In the sandbox, these end with the session.
fn is_temporary(place: &str) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|folder| {
        (place.strip_prefix(folder)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns the pattern of names that limits what `find` acts on, if there is one and nothing widens it again.
fn find_name_filter(words: &[ShellWord]) -> Option<&str> {
    let widens = |word: &ShellWord| {
        word.as_literal()
            .is_none_or(|word| matches!(word, "-o" | "-or" | "," | "!" | "-not"))
    };
    if words.iter().any(widens) {
        return None;
    }
    let at = words.iter().position(|word| word.as_literal() == Some("-name"))?;
    words.get(at + 1).and_then(ShellWord::as_literal)
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
            (
                "cd \"$x\"; rm a; rm -r b; rm /c",
                "workspace, a, unknown, b all, /c",
            ),
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
            ("find -execdir sh -c 'rm $1' {} ;", ". all, workspace"),
            ("find . -name x", ""),
            ("ls | xargs rm", "unknown"),
            ("rm -rf \"$DIR\"", "unknown"),
            ("rm \"$file\"", "workspace"),
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
            ("cd \"$x\"; cp a b", "workspace, a into b"),
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
