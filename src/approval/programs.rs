//! Programs that run what their arguments or input say, and builtins that change the shell. Lists of names; knows no
//! rules and no options.

use crate::base::word_list::WordList;

/// Commands that run the command in their arguments.
pub(super) const WRAPPERS: WordList = WordList(
    "sudo doas su runuser env nohup nice ionice time timeout command builtin exec xargs stdbuf setsid \
    chroot watch strace ltrace unbuffer parallel busybox toybox script flock chrt taskset unshare \
    nsenter entr caffeinate systemd-run setarch firejail bwrap proxychains proxychains4 gtimeout gxargs \
    genv pkexec run0 trap prlimit setpriv chpst daemonize ssh-agent dbus-run-session xvfb-run perf \
    valgrind gdb linux32 linux64 i386 x86_64 uname26 fakeroot fakechroot capsh sg newgrp watchexec \
    start-stop-daemon",
);

/// Shells: `-c` takes a script, and without a file they read one from their input.
pub(super) const SHELLS: WordList = WordList("sh bash zsh dash ksh ash fish mksh rbash csh tcsh");

/// Programs whose argument or input is a program.
const INTERPRETERS: WordList = WordList(
    "python python2 python3 pypy pypy3 node nodejs deno bun ruby perl php lua luajit tclsh expect Rscript \
    julia osascript pwsh powershell awk gawk mawk nawk sed gsed ed ex vi vim nvim emacs m4 jshell ghci \
    scala groovy irb",
);

/// Further programs that run what their arguments say: scripts, containers, and shell commands of a database; what
/// `make --eval` and `SHELL=` name, and the programs and plugins that a compiler can be told to use.
const OPEN_PROGRAMS: WordList = WordList(
    "tsx ts-node docker podman sqlite3 socat make gmake gcc g++ cc c++ clang clang++ rustc just ninja \
    java javac R dc lldb tmux screen hyperfine ld.so",
);

/// Shell builtins that change what later commands mean, or that run a text.
pub(super) const STATE_BUILTINS: WordList = WordList(
    "eval source . export declare typeset local readonly alias unalias hash enable set shopt unset read \
    mapfile readarray getopts let bind complete fc history compgen compopt jobs wait",
);

/// Programs that fetch or look up the program in their arguments, and run it.
const PACKAGE_RUNNERS: WordList = WordList("npx bunx pnpx uvx pipx");

/// Programs with a subcommand that runs what its arguments name, as (programs, subcommands).
const RUNNING_SUBCOMMANDS: &[(WordList, WordList)] = &[
    (WordList("npm pnpm yarn bun"), WordList("exec x dlx")),
    (
        WordList("uv poetry pipenv rye hatch pipx deno"),
        WordList("run eval"),
    ),
    (WordList("bundle"), WordList("exec")),
    (WordList("go"), WordList("run tool")),
    (WordList("docker podman"), WordList("run exec")),
    (WordList("find gfind"), WordList("-exec -execdir -ok -okdir")),
    (WordList("fd fdfind"), WordList("-x -X --exec --exec-batch")),
];

/// Returns the program by which a pattern with a `*` lets its author's counterpart run anything: it runs what its
/// arguments say, and no literal word before the `*` says what. `words` are the pattern's, up to the one with the `*`.
///
/// A program whose dangerous arguments a rule must spell out, such as `sed`, is not one.
pub(super) fn find_open_runner<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (first, arguments) = words.split_first()?;
    let name = base_name(first);
    let names_what_runs = |word: &&&str| {
        let is_setting = word.starts_with(['-', '+']) || word.contains('=');
        !is_setting && !word.starts_with(|c: char| c.is_ascii_digit())
    };
    let is_user = |at: usize| at > 0 && matches!(arguments[at - 1], "-u" | "-g" | "--user" | "--group");
    let named = (arguments.iter().enumerate())
        .position(|(at, word)| names_what_runs(&word) && !(WRAPPERS.contains(name) && is_user(at)));
    if WRAPPERS.contains(name) || PACKAGE_RUNNERS.contains(name) && arguments.first() != Some(&"run") {
        return match named {
            Some(at) => find_open_runner(&arguments[at..]),
            None => Some(first),
        };
    }
    let subcommands = RUNNING_SUBCOMMANDS.iter().find(|(names, _)| names.contains(name));
    if let Some((_, subcommands)) = subcommands {
        // Options that run something must be spelled out, but a `*` covers subcommands.
        if named.is_none() && arguments.is_empty() && !subcommands.0.starts_with('-') {
            return Some(first);
        }
        let at = arguments.iter().position(|word| subcommands.contains(word))?;
        let rest = &arguments[at + 1..];
        return match rest.iter().position(|word| names_what_runs(&word)) {
            Some(at) => find_open_runner(&rest[at..]),
            None => Some(first),
        };
    }
    let is_open = (SHELLS.contains(name) || is_interpreter(name) || OPEN_PROGRAMS.contains(name))
        && !matches!(name, "sed" | "gsed");
    (is_open && named.is_none()).then_some(*first)
}

/// Returns whether a command's effect is that of a program in its arguments or input.
pub(super) fn runs_arguments(name: &str) -> bool {
    WRAPPERS.contains(name) || SHELLS.contains(name) || STATE_BUILTINS.contains(name) || is_interpreter(name)
}

/// Returns whether this is an interpreter, with or without a version: `python3.12`.
pub(super) fn is_interpreter(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(name) || INTERPRETERS.contains(stem)
}

/// Returns whether a command appends what it reads from its input to the command it runs.
pub(super) fn takes_arguments_from_input(name: &str) -> bool {
    matches!(name, "xargs" | "gxargs" | "parallel")
}

pub(super) fn base_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}
