//! What is known of commands: wrappers that run another command, interpreters, and which rule "always" may
//! offer. Tables and pure functions; no modes, no rules' order. Options that start programs: `options`.

use super::options;
use super::rule::Rule;
use super::secret;
use super::shell::{self, Line, Part, Word};

/// Commands that run the command in their arguments.
const WRAPPERS: &[&str] = &[
    "sudo",
    "doas",
    "su",
    "runuser",
    "env",
    "nohup",
    "nice",
    "ionice",
    "time",
    "timeout",
    "command",
    "builtin",
    "exec",
    "xargs",
    "stdbuf",
    "setsid",
    "chroot",
    "watch",
    "strace",
    "ltrace",
    "unbuffer",
    "parallel",
    "busybox",
    "toybox",
    "script",
    "flock",
    "chrt",
    "taskset",
    "unshare",
    "nsenter",
    "entr",
    "caffeinate",
    "systemd-run",
    "setarch",
    "firejail",
    "bwrap",
    "proxychains",
    "proxychains4",
    "gtimeout",
    "gxargs",
    "genv",
    "pkexec",
    "run0",
    "trap",
    "prlimit",
    "setpriv",
    "chpst",
    "daemonize",
    "ssh-agent",
    "dbus-run-session",
    "xvfb-run",
    "perf",
    "valgrind",
    "gdb",
    "linux32",
    "linux64",
    "i386",
    "x86_64",
    "uname26",
    "fakeroot",
    "fakechroot",
    "capsh",
    "sg",
    "newgrp",
    "watchexec",
    "start-stop-daemon",
];

/// Shells: `-c` takes a script, without a file they read one.
const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash", "csh", "tcsh",
];

/// Programs whose argument or input is a program.
const INTERPRETERS: &[&str] = &[
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "expect",
    "Rscript",
    "julia",
    "osascript",
    "pwsh",
    "powershell",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "gsed",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "m4",
    "jshell",
    "ghci",
    "scala",
    "groovy",
    "irb",
];

/// Commands of the shell that change what later commands mean, or run a text.
const STATE: &[&str] = &[
    "eval",
    "source",
    ".",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "alias",
    "unalias",
    "hash",
    "enable",
    "set",
    "shopt",
    "unset",
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "let",
    "bind",
    "complete",
    "fc",
    "history",
    "compgen",
    "compopt",
    "jobs",
    "wait",
];

/// Commands that only look: "always" offers them with any arguments.
const READERS: &[&str] = &[
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "find",
    "fd",
    "wc",
    "file",
    "stat",
    "pwd",
    "echo",
    "which",
    "type",
    "tree",
    "du",
    "df",
    "diff",
    "cmp",
    "cut",
    "sort",
    "tr",
    "nl",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "date",
    "whoami",
    "uname",
    "id",
    "jq",
    "true",
    "false",
    "cd",
    "test",
    "sleep",
    "man",
    "column",
    "comm",
    "od",
    "hexdump",
    "sha256sum",
    "md5sum",
    "cksum",
    "seq",
    "ps",
    "tokei",
];

/// Commands whose arguments decide how grave they are: "always" offers exactly this one.
const GRAVE: &[&str] = &[
    "rm",
    "rmdir",
    "mv",
    "cp",
    "dd",
    "ln",
    "install",
    "shred",
    "truncate",
    "chmod",
    "chown",
    "chgrp",
    "chattr",
    "setfacl",
    "kill",
    "killall",
    "pkill",
    "curl",
    "wget",
    "http",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "nc",
    "ncat",
    "socat",
    "telnet",
    "ftp",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "pacman",
    "brew",
    "snap",
    "dpkg",
    "rpm",
    "systemctl",
    "service",
    "mount",
    "umount",
    "mkfs",
    "fdisk",
    "parted",
    "crontab",
    "at",
    "batch",
    "tee",
    "tar",
    "zip",
    "unzip",
    "docker",
    "podman",
    "kubectl",
    "helm",
    "terraform",
    "ansible",
    "aws",
    "gcloud",
    "az",
    "npx",
    "uvx",
    "bunx",
    "pipx",
    "make",
    "tmux",
    "screen",
    "launchctl",
    "reboot",
    "shutdown",
    "useradd",
    "usermod",
    "passwd",
    "iptables",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "mongo",
    "mongosh",
    "patch",
    "printf",
    "uniq",
    "xxd",
];

/// Subcommands that are grave likewise.
const GRAVE_SUBCOMMANDS: &[&str] = &[
    "push",
    "reset",
    "clean",
    "checkout",
    "restore",
    "rebase",
    "filter-branch",
    "config",
    "publish",
    "exec",
    "dlx",
    "install",
    "uninstall",
    "add",
    "remove",
    "rm",
    "delete",
    "login",
    "api",
    "deploy",
    "merge",
    "gc",
    "stash",
    "yank",
    "update-ref",
    "submodule",
    "bisect",
    "difftool",
    "mergetool",
    "daemon",
    "upload",
    "secret",
    "auth",
    "x",
    "script",
    "clone",
    "init",
    "create",
    "apply",
    "am",
    "mv",
    "worktree",
    "bundle",
    "archive",
    "format-patch",
    "send-email",
    "hook",
    "instaweb",
    "for-each-repo",
    "alias",
    "extension",
    "env",
    "get",
    "tool",
    "set",
    "pkg",
    "explore",
    "edit",
    "download",
    "wheel",
];

/// Subcommands that say little before the word behind them: a script, or a verb.
const HALF_SUBCOMMANDS: &[&str] = &[
    "run", "compose", "pr", "issue", "repo", "release", "workflow", "gist", "remote", "notes", "lfs",
];

/// A word that a rule must spell before it may allow the command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// As the pattern's first word.
    First(String),
    /// Anywhere in the pattern.
    Anywhere(String),
}

impl Demand {
    /// Whether the rule meets it.
    pub(crate) fn met_by(&self, rule: &Rule) -> bool {
        match self {
            Self::First(word) => rule.spells_first(word),
            Self::Anywhere(word) => rule.spells(word),
        }
    }
}

/// What a rule must spell out to allow this part: assignments, wrappers, interpreters, and options that
/// run programs are never allowed by a `*` alone.
pub(crate) fn demands(part: &Part) -> Vec<Demand> {
    let mut demands: Vec<Demand> = part
        .assignments
        .iter()
        .filter_map(Word::shown)
        .map(Demand::Anywhere)
        .collect();
    let words = &part.words;
    let Some((shown, name)) = words
        .first()
        .and_then(|word| Some((word.shown()?, base_name(word.literal()?))))
    else {
        return demands;
    };
    if hands_on(name) && part.assignments.is_empty() {
        demands.push(Demand::First(shown));
    } else if hands_on(name) {
        demands.push(Demand::Anywhere(shown));
    }
    // A variable or a setting that a `*` stands for would steer what follows: `read PATH`, `export PATH=x`.
    let spells_out = STATE.contains(&name);
    // The operand of `-v` is evaluated: `test -v 'a[$(command)]'`.
    let evaluates = |word: &&Word| {
        matches!(name, "test" | "[" | "[[") && word.literal().is_some_and(|word| matches!(word, "-v" | "-R"))
    };
    demands.extend(
        words[1..]
            .iter()
            .filter(|word| spells_out || evaluates(word))
            .filter_map(Word::shown)
            .map(Demand::Anywhere),
    );
    demands.extend(options::started(name, words).into_iter().map(Demand::Anywhere));
    demands
}

/// Whether the rule speaks of this very command, so that its writer knew what it may run: the whole command, or its
/// program, and for an interpreter also the script's file.
pub(crate) fn settles(rule: &Rule, part: &Part) -> bool {
    if rule.is_exact() {
        return true;
    }
    let literal = |at: usize| part.words.get(at).and_then(Word::literal);
    let Some(first) = literal(0).filter(|first| rule.spells_first(first)) else {
        return false;
    };
    let name = base_name(first);
    let is_script = |file: &str| !file.starts_with('-') && rule.spells(file);
    if SHELLS.contains(&name) || is_interpreter(name) {
        literal(1).is_some_and(is_script)
    } else {
        !hands_on(name)
    }
}

/// Whether the command's effect is that of a program in its arguments or input.
fn hands_on(name: &str) -> bool {
    WRAPPERS.contains(&name) || SHELLS.contains(&name) || STATE.contains(&name) || is_interpreter(name)
}

/// `python3.12` too.
fn is_interpreter(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name) || INTERPRETERS.contains(&stem)
}

/// Commands that append what they read to the command they run.
fn takes_arguments_from_input(name: &str) -> bool {
    matches!(name, "xargs" | "gxargs" | "parallel")
}

fn base_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

/// A command that is run, perhaps: as deny rules look at it.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Its text, written in the ways a rule may have it. A NUL stands for what is not known.
    pub(crate) texts: Vec<String>,
    /// It surely is a command, not just an argument that could be one.
    pub(crate) certain: bool,
}

/// All that a line runs as far as it can be seen, looking through wrappers and scripts in arguments.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What is run.
    pub(crate) candidates: Vec<Candidate>,
    /// Something is run that cannot be seen.
    pub(crate) blind: bool,
    /// A secret-like file that is named, and by which part (`None`: by text that was not taken apart).
    pub(crate) secrets: Vec<(Option<usize>, String)>,
}

/// The most words of one command that are looked at as possible commands.
const MAX_SUFFIXES: usize = 64;
/// Scripts in arguments, within scripts in arguments.
const MAX_SCRIPTS: usize = 16;

/// Looks through a line for deny rules and secrets.
pub(crate) fn look_through(command: &str, line: &Line) -> Seen {
    let mut seen = Seen {
        blind: line.hidden.is_some(),
        ..Seen::default()
    };
    for (index, part) in line.parts.iter().enumerate() {
        if let Some(secret) = secret_of(part) {
            seen.secrets.push((Some(index), secret));
        }
    }
    if line.hidden.is_some()
        && let Some(secret) = secret::named_in(command)
    {
        seen.secrets.push((None, secret.to_owned()));
    }
    let mut scripts: Vec<(Vec<Part>, Certainty)> = vec![(line.parts.clone(), Certainty::Sure)];
    let mut budget = MAX_SCRIPTS;
    while let Some((parts, certainty)) = scripts.pop() {
        for part in &parts {
            let mut look = Look {
                seen: &mut seen,
                scripts: Vec::new(),
            };
            look.part(part, certainty);
            for (script, certainty) in look.scripts {
                if budget == 0 {
                    seen.blind = true;
                    break;
                }
                budget -= 1;
                let inner = shell::parse(&script);
                // A text that only may be a script, and is none, hides nothing.
                seen.blind |= inner.hidden.is_some() && certainty == Certainty::Sure;
                scripts.push((inner.parts, certainty));
            }
        }
    }
    seen
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Sure,
    Perhaps,
}

struct Look<'a> {
    seen: &'a mut Seen,
    scripts: Vec<(String, Certainty)>,
}

impl Look<'_> {
    fn part(&mut self, part: &Part, certainty: Certainty) {
        let mut words = part.words.clone();
        if words
            .iter()
            .filter_map(Word::literal)
            .map(base_name)
            .any(takes_arguments_from_input)
        {
            words.push(Word::dynamic("its input"));
        }
        let words = &words;
        if !part.assignments.is_empty() {
            let with: Vec<Word> = part.assignments.iter().chain(words).cloned().collect();
            self.candidate(&with, certainty);
        }
        let count = words.len().min(MAX_SUFFIXES);
        // How sure it is that a command begins at each word.
        let mut starts = vec![None; words.len().max(1)];
        starts[0] = Some(certainty);
        for at in 0..count {
            let Some(certainty) = starts[at] else { continue };
            // What perhaps is a command and is not known either would be anything.
            if certainty == Certainty::Sure || words[at].literal().is_some() {
                self.candidate(&words[at..], certainty);
            }
            let Some(name) = words[at].literal().map(base_name) else {
                continue;
            };
            if WRAPPERS.contains(&name) {
                self.wrapper(words, at, certainty, &mut starts[..count]);
            } else if matches!(name, "find" | "gfind" | "fd" | "fdfind") {
                for next in at + 1..count {
                    let before = words[next - 1].literal();
                    if before.is_some_and(|word| options::runs_next(name, word)) {
                        starts[next] = Some(certainty);
                    }
                }
            } else if SHELLS.contains(&name) {
                self.shell(&words[at + 1..], certainty);
            } else if name == "eval" {
                self.eval(&words[at + 1..], certainty);
            }
        }
    }

    /// Words after a wrapper: those right after options, assignments and numbers are commands for sure.
    fn wrapper(&mut self, words: &[Word], at: usize, certainty: Certainty, starts: &mut [Option<Certainty>]) {
        let mut sure = certainty == Certainty::Sure;
        for next in at + 1..starts.len() {
            let now = if sure { Certainty::Sure } else { Certainty::Perhaps };
            if starts[next] != Some(Certainty::Sure) {
                starts[next] = Some(now);
            }
            let Some(text) = words[next].literal() else {
                sure = false;
                continue;
            };
            if text.contains(char::is_whitespace) {
                self.scripts.push((text.to_owned(), now));
            }
            let passed_over =
                text.starts_with('-') || text.contains('=') || text.starts_with(|c: char| c.is_ascii_digit());
            sure &= passed_over;
        }
    }

    fn shell(&mut self, arguments: &[Word], certainty: Certainty) {
        let mut takes_script = false;
        for word in arguments {
            let Some(text) = word.literal() else {
                self.seen.blind = true;
                return;
            };
            if takes_script && !text.starts_with('-') {
                self.scripts.push((text.to_owned(), certainty));
                return;
            }
            if text.starts_with(['-', '+']) {
                takes_script |= text.starts_with('-') && !text.starts_with("--") && text.contains('c');
            } else {
                // A file: not ours to read.
                return;
            }
        }
        // It reads commands from its input.
        self.seen.blind = true;
    }

    fn eval(&mut self, arguments: &[Word], certainty: Certainty) {
        let texts: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
        match texts {
            Some(texts) => self.scripts.push((texts.join(" "), certainty)),
            None => self.seen.blind = true,
        }
    }

    fn candidate(&mut self, words: &[Word], certainty: Certainty) {
        let mut texts = vec![join(words, Word::shown)];
        let mut add = |text: String| {
            if !texts.contains(&text) {
                texts.push(text);
            }
        };
        add(join(words, |word| word.literal().map(str::to_owned)));
        add(join(words, up_to_glob));
        if let Some((first, rest)) = words.split_first()
            && let Some(path) = first.literal()
            && path.contains('/')
        {
            let name = Word::Literal {
                text: base_name(path).to_owned(),
                glob: false,
                quoted: false,
            };
            let words: Vec<Word> = std::iter::once(name).chain(rest.iter().cloned()).collect();
            add(join(&words, Word::shown));
            add(join(&words, up_to_glob));
        }
        self.seen.candidates.push(Candidate {
            texts,
            certain: certainty == Certainty::Sure,
        });
    }
}

fn join(words: &[Word], show: impl Fn(&Word) -> Option<String>) -> String {
    let shown: Vec<String> = words
        .iter()
        .map(|word| match word {
            Word::Dynamic { known, .. } => format!("{known}\0"),
            Word::Literal { .. } => show(word).unwrap_or_default(),
        })
        .collect();
    shown.join(" ")
}

fn up_to_glob(word: &Word) -> Option<String> {
    match word {
        Word::Literal { text, glob: true, .. } => {
            let end = text.find(['*', '?', '[']).unwrap_or(text.len());
            Some(format!("{}\0", &text[..end]))
        }
        Word::Literal { .. } | Word::Dynamic { .. } => word.shown(),
    }
}

/// A secret-like file that a part names.
fn secret_of(part: &Part) -> Option<String> {
    let targets = part.redirects.iter().map(|redirect| &redirect.target);
    part.words
        .iter()
        .chain(&part.assignments)
        .chain(targets)
        .find_map(|word| {
            let Word::Literal { text, glob, .. } = word else {
                return None;
            };
            if *glob && secret::glob_may_name(text) {
                return Some(text.clone());
            }
            secret::named_in(text).map(str::to_owned)
        })
}

/// The rule that "always" would store for this part: a command and its subcommand with any arguments
/// where that is harmless enough, else exactly this command, else none.
pub(crate) fn offer(tool: &str, part: &Part) -> Option<Rule> {
    if part.dynamic().is_some() || part.writes().is_some() || !part.assignments.is_empty() {
        return None;
    }
    let words: Vec<&str> = part.words.iter().map(Word::literal).collect::<Option<_>>()?;
    let text = part.text()?;
    let (first, second) = (*words.first()?, words.get(1).copied());
    let name = base_name(first);
    if text.len() > 200 || WRAPPERS.contains(&name) || STATE.contains(&name) {
        return None;
    }
    if SHELLS.contains(&name) || is_interpreter(name) {
        // Only a script's file right behind it, exactly as it is.
        let file = second.is_some_and(|word| word.contains(['.', '/']) && !word.starts_with('-'));
        return if file { Rule::exact(tool, &text) } else { None };
    }
    if !options::started(name, &part.words).is_empty() {
        return None;
    }
    if secret_of(part).is_some() {
        return Rule::exact(tool, &text);
    }
    let with_any = |head: &[&str]| {
        let head = super::rule::escape(&head.join(" "));
        Rule::parse(&format!("{tool}({head} *)")).ok()
    };
    if READERS.contains(&first) {
        return with_any(&[first]);
    }
    let (Some(second), true) = (second, is_plain(first) && !GRAVE.contains(&name)) else {
        return Rule::exact(tool, &text);
    };
    if !is_plain(second) || GRAVE_SUBCOMMANDS.contains(&second) {
        return Rule::exact(tool, &text);
    }
    if !HALF_SUBCOMMANDS.contains(&second) && first != "gh" {
        return with_any(&[first, second]);
    }
    // `uv run python *` would be any program.
    match words.get(2) {
        Some(third) if is_plain(third) && !GRAVE_SUBCOMMANDS.contains(third) && !hands_on(third) => {
            with_any(&[first, second, third])
        }
        _ => Rule::exact(tool, &text),
    }
}

/// Whether a word may be a subcommand or a program's name, rather than a file or an option.
fn is_plain(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers() {
        for (command, offered) in [
            ("git status -s", Some("bash(git status *)")),
            ("cargo test --lib x", Some("bash(cargo test *)")),
            ("cargo build", Some("bash(cargo build *)")),
            ("npm run build", Some("bash(npm run build *)")),
            ("npm test", Some("bash(npm test *)")),
            ("npm run", Some("bash(npm run)")),
            ("uv run pytest -q", Some("bash(uv run pytest *)")),
            ("uv run python x.py", Some("bash(uv run python x.py)")),
            ("git clone a b", Some("bash(git clone a b)")),
            ("git remote -v", Some("bash(git remote -v)")),
            ("git remote show origin", Some("bash(git remote show *)")),
            ("gh repo view", Some("bash(gh repo view *)")),
            ("gh alias list", Some("bash(gh alias list)")),
            ("gh status", Some("bash(gh status)")),
            ("go vet ./...", Some("bash(go vet *)")),
            ("ls", Some("bash(ls *)")),
            ("ls -la src", Some("bash(ls *)")),
            ("grep 'a.*b' src -r", Some("bash(grep *)")),
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
            ("echo 'a (b)'", Some("bash(echo *)")),
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
            ("find . -name '*.o' -delete", None),
            ("git -c core.pager=x log", None),
            ("fd -Hx rm", None),
            ("sort -uo a b", None),
            ("go vet -vettool=x ./...", None),
        ] {
            let line = shell::parse(command);
            let rule = offer("bash", &line.parts[0]).map(|rule| rule.to_string());
            assert_eq!(rule.as_deref(), offered, "{command}");
        }
    }

    #[test]
    fn looks_through_wrappers() {
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
            let seen = look_through(command, &shell::parse(command));
            let found = seen
                .candidates
                .iter()
                .any(|c| c.certain == certain && c.texts.iter().any(|text| text == inner));
            assert!(found, "{command}: {seen:?}");
        }
        for command in ["cat x | sh", "sh -c $x", "eval $x", "bash -s", "sh $x", "echo 'a"] {
            assert!(look_through(command, &shell::parse(command)).blind, "{command}");
        }
        assert!(!look_through("sh x.sh", &shell::parse("sh x.sh")).blind);
    }
}
