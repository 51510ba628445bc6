//! Commands that surely run no program but themselves, whatever their arguments are. Pure; knows no rules.
//!
//! There are more ways to run a command than anyone can list: `env -S`, `linux64`, `flock -c`, `awk`, `ssh`, a script,
//! a plugin. So this module lists the opposite. It matters where a `deny` or `require_approval` rule watches commands.
//! There, a line runs without a question only if each of its commands is known here, and no word depends on the shell.
//! Everything else asks, also in mode `full`.
//!
//! The trade-off: a harmless program that is missing here asks once more than needed, until a rule or a grant names it.
//! The opposite must not happen, so an entry needs a reason: no argument of the program names another program, or
//! `dangerous_flags` knows all that do. Build tools (`cargo test`, `npm run`, `make`) run what the project says. They
//! are listed because a rule for commands cannot see into a project, and `full` would be useless without them. A
//! command that writes a script, and a later build that runs it, are a matter for the sandbox.

use super::dangerous_flags;
use super::read_only;
use super::shell::{ShellWord, SimpleCommand};
use crate::base::text::one_line;
use crate::base::word_list::WordList;

/// No argument makes these run a program, set a variable of the shell, or evaluate a text.
const INERT: WordList = WordList(
    ": b2sum base32 base64 basename break bunzip2 bzip2 cat cd chgrp chmod chown cksum clear cmp column \
    comm continue cp curl cut date dd df diff dirname du echo egrep exit expand expr false fgrep fmt \
    fold free grep groups gunzip gzip head hexdump hostname iconv id join jq kill ln ls lsof md5sum \
    mkdir mktemp mv nl nproc numfmt od paste pgrep pidof ps pwd readlink realpath return rev rm rmdir \
    seq sha1sum sha256sum sha512sum shuf sleep stat sum sync tac tail tee tokei touch tr true truncate \
    tsort tty type umask uname unexpand uniq unlink unxz unzip uptime wc which who whoami xxd xz zcat \
    zstd",
);

/// These are as harmless, without the options that `dangerous_flags` and `read_only` know.
const CHECKED: WordList = WordList(
    "bat batcat black clang-format eslint fd fdfind file find gofmt prettier pytest rg ruff rustfmt \
    shellcheck sort tar tree tsc wget zip",
);

/// Programs with subcommands that are as harmless, without the options that `dangerous_flags` knows.
const SUBCOMMANDS: &[(WordList, WordList)] = &[
    (
        WordList("git"),
        WordList(
            "add blame branch cat-file check-ignore checkout cherry-pick clean clone commit describe diff \
            fetch grep init log ls-files ls-tree merge merge-base mv pull push rebase reflog remote reset \
            restore rev-list rev-parse revert rm shortlog show stash status switch tag worktree",
        ),
    ),
    (
        WordList("cargo"),
        WordList(
            "add b bench build c check clean clippy doc fetch fmt install metadata publish r remove run \
            search t test tree update version",
        ),
    ),
    (
        WordList("npm pnpm yarn"),
        WordList(
            "add audit ci i install list ls outdated publish remove run run-script start t test uninstall \
            view why",
        ),
    ),
    (
        WordList("go"),
        WordList("build clean doc fmt get list mod run test version vet"),
    ),
];

/// Programs that accept only names of targets here: a variable or an option may contain a command.
const BY_TARGETS: WordList = WordList("make gmake gradle mvn just");

/// Returns why a command may run another program, or change what later commands mean; `None` if it surely does not.
pub(super) fn explain_uncertainty(part: &SimpleCommand) -> Option<String> {
    if let Some(reason) = part.find_dynamic_reason() {
        return Some(format!("part of it is unknown in advance: {reason}"));
    }
    let format_word = |word: &ShellWord| one_line(&word.to_rule_text().unwrap_or_default(), 60);
    if let Some(assignment) = part.assignments.first() {
        return Some(format!("{} may steer programs", format_word(assignment)));
    }
    let first = part.words.first()?;
    // Nothing is dynamic from here on, so every word has a text.
    let words: Vec<&str> = part.words.iter().filter_map(ShellWord::as_literal).collect();
    let name = strip_system_path(words[0]);
    if name.is_some_and(|name| is_known(name, &words[1..], part)) {
        return None;
    }
    Some(format!("{} may run other programs", format_word(first)))
}

/// Returns the program's name, if the path surely leads to the system's own program.
fn strip_system_path(word: &str) -> Option<&str> {
    match word.rsplit_once('/') {
        None => Some(word),
        Some(("/bin" | "/usr/bin", name)) => Some(name),
        Some(_) => None,
    }
}

fn is_known(name: &str, arguments: &[&str], part: &SimpleCommand) -> bool {
    if INERT.contains(name) {
        return true;
    }
    // A glob may become an option by a file's name: `rg x *` in a folder with a file `--pre=sh`.
    if part.words[1..].iter().any(read_only::may_become_option) {
        return false;
    }
    let plain_options = || dangerous_flags::find_dangerous_words(name, &part.words).is_empty();
    if CHECKED.contains(name) {
        // Where options were reviewed, only those are known: `find -exec` runs anything.
        let reviewed = read_only::review_command(part).is_none_or(|review| review.unreviewed.is_empty());
        return reviewed && plain_options();
    }
    if let Some((_, known)) = SUBCOMMANDS.iter().find(|(names, _)| names.contains(name)) {
        let version = matches!(arguments, ["--version" | "-V"]);
        return version || arguments.first().is_some_and(|first| known.contains(first)) && plain_options();
    }
    if BY_TARGETS.contains(name) {
        return arguments.iter().all(|word| is_target(word));
    }
    match name {
        // The shell evaluates the operand of `-v` and `-R`.
        "test" | "[" | "[[" => !arguments.iter().any(|word| matches!(*word, "-v" | "-R")),
        // `printf -v PATH x` sets a variable.
        "printf" => arguments.first().is_some_and(|format| !format.starts_with('-')),
        // `wait -p PATH` sets a variable.
        "wait" => arguments
            .iter()
            .all(|word| word.bytes().all(|b| b.is_ascii_digit())),
        // Only options that control error handling: `set -a` would export variables.
        "set" => arguments.iter().all(|word| is_error_handling(word)),
        "sed" => read_only::review_command(part).is_some_and(|review| review.is_read_only),
        _ => false,
    }
}

fn is_target(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
}

fn is_error_handling(word: &str) -> bool {
    let letters = word.strip_prefix(['-', '+']);
    word == "pipefail"
        || letters.is_some_and(|letters| !letters.is_empty() && letters.chars().all(|c| "euxo".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::shell;

    fn doubts(command: &str) -> bool {
        let line = shell::parse(command);
        line.unparsed_reason.is_some()
            || line
                .commands
                .iter()
                .any(|part| explain_uncertainty(part).is_some())
    }

    #[test]
    fn known_commands_are_certain() {
        for command in [
            "ls -la src",
            "cat a b | head -5",
            "git status -s",
            "git log --oneline -p",
            "git commit -m 'a b'",
            "git push origin main",
            "cargo build --release",
            "cargo test --lib x",
            "npm test",
            "npm run build",
            "go test ./...",
            "make",
            "make test lint",
            "grep -rn 'fn main' src",
            "rg -n a src",
            "find . -name '*.rs'",
            "sort -u a",
            "tar xzf a.tgz",
            "[ -f x ] && ls",
            "[[ -f x ]] && ls",
            "test -d x || mkdir x",
            "printf '%s' x",
            "set -euo pipefail; ls",
            "sed -n 1,5p x",
            "/bin/ls",
            "rm -rf target",
            "cp a b > c",
            "ls *.rs",
            "rm *",
            "cd src && ls",
            "(ls; pwd) 2>&1",
            "ls & wait",
            "pytest -q tests",
            "cat <<E\nx\nE",
        ] {
            assert!(!doubts(command), "{command}");
        }
    }

    #[test]
    fn unknown_programs_and_dynamic_words_are_uncertain() {
        for command in [
            "$x",
            "ls $x",
            "ls ${x}",
            "ls $(ls)",
            "ls > $x",
            "A=1 ls",
            "PATH=x",
            "./ls",
            "bin/ls",
            "/tmp/ls",
            "frobnicate",
            "l* x",
            "/bin/t*uch x",
            "f() { ls; }; f",
            "test -v x",
            "[ -v x ]",
            "[[ -v x ]]",
            "jobs -x a",
            "compgen -W x",
            "compgen -C x",
            "complete -C x y",
            "source /dev/stdin <<< x",
            ". /dev/stdin",
            "linux64 a",
            "linux32 a",
            "i386 a",
            "setarch x a",
            "fakeroot a",
            "capsh -- -c a",
            "sg x -c a",
            "newgrp x",
            "env -S a",
            "env --split-string=a",
            "runuser -c a",
            "su -c a",
            "sudo a",
            "flock -c a x",
            "script -c a",
            "unshare a",
            "nsenter a",
            "chroot x a",
            "ionice a",
            "chrt 1 a",
            "taskset 1 a",
            "stdbuf -o0 a",
            "setpriv a",
            "busybox a",
            "doas a",
            "pkexec a",
            "dbus-run-session a",
            "xvfb-run a",
            "parallel a",
            "entr a",
            "watchexec a",
            "ssh h a",
            "start-stop-daemon -x a",
            "systemd-run a",
            "at now",
            "batch",
            "crontab x",
            "perl -e a",
            "python -c a",
            "python3 x.py",
            "node x.js",
            "sh x.sh",
            "bash",
            "awk a",
            "sed s/a/b/e x",
            "sed -n e x",
            "sed -n -i 1p x",
            "xargs a",
            "nohup a",
            "timeout 5 a",
            "time -p a | time a",
            "command a",
            "builtin a",
            "exec a",
            "eval a",
            "trap a EXIT",
            "alias a=b",
            "hash -p a b",
            "enable -f a b",
            "read PATH",
            "printf -v PATH x",
            "mapfile x",
            "getopts a b",
            "declare x",
            "export x",
            "let x",
            "wait -p x 1",
            "set -a",
            "shopt -s x",
            "unset x",
            "git -c a=b log",
            "git -C x push",
            "git frob",
            "git",
            "git rebase -x a",
            "git grep -Oa b",
            "git config a b",
            "git log *",
            "git conf?g x",
            "cargo frob",
            "cargo +nightly test",
            "cargo --config a build",
            "npm exec a",
            "npx a",
            "make SHELL=a",
            "make --eval=a",
            "make -f a",
            "find . -exec a {} +",
            "fd -x a",
            "rg --pre a b",
            "rg a *",
            "sort --compress-program=a b",
            "tar -Ia -xf b",
            "go test -exec a",
            "vim x",
            "man ls",
            "less x",
            "gh x",
            "docker run a",
            "install --strip-program=a b c",
            "split --filter=a b",
            "patch -i a",
            "gcc -wrapper a b",
            "coproc ls",
            "ls {PATH}>x",
            "ls </dev/tcp/h/1",
            "((x))",
            "[[ x -eq y ]]",
        ] {
            assert!(doubts(command), "{command}");
        }
    }
}
