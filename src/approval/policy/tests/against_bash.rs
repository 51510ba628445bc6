//! The judge against the real bash: generated lines that it allows run in an empty folder.
//!
//! The only programs there are markers, which record that they ran.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// Pieces of lines: ordinary words, and everything that may hide a command or change what a name means.
const PIECES: &[&str] = &[
    "ls ",
    "ls ",
    "ls ",
    "ls -l ",
    "cat x ",
    "evil ",
    "touch x ",
    "; ",
    "; ",
    "&& ",
    "| ",
    "& ",
    "\n",
    "( ",
    ") ",
    "{ ",
    "} ",
    "if ls; then ",
    "fi; ",
    "for PATH in 11; do ",
    "for x in 1; do ",
    "done; ",
    "case x in x) ",
    ";; esac ",
    "! ",
    "{PATH}>/dev/null ",
    "{PATH}>out ",
    "{PATH}<<<1 ",
    "{PATH}</dev/null ",
    "{x}>&1 ",
    "> out ",
    "2>&1 ",
    "< x ",
    "[[ ",
    " ]]",
    " ]]; ",
    "(a)]]; ",
    "a\t]]; ",
    "[[ a ",
    "[[ x -eq y ",
    "=~ ",
    "-v ",
    "$((x)) ",
    "((x)); ",
    "((PATH=11)); ",
    "${a[x]} ",
    "${x@P} ",
    "\"${x[@]@P}\" ",
    "\"${p[@]@P}\" ",
    "${!x} ",
    "${PATH:=x} ",
    "${y:=z} ",
    "$y ",
    "${y:-z} ",
    "${y:x} ",
    "<<E\n$((x))\nE\n",
    "<<E\n$(evil)\nE\n",
    "<<< $((PATH=11)) ",
    "$(evil) ",
    "`evil` ",
    "<(evil) ",
    "'a b' ",
    "\"a; evil\" ",
    "'; evil ;' ",
    "\\; ",
    "# ",
    "a#b ",
    "$'\\x3b' ",
    "* ",
    "l? ",
    "11/ls ",
    "ls/evil ",
    "./evil ",
    "~ ",
    "PATH=11 ",
    "a=1 ",
    "a=(1) ",
    "a[x]=1 ",
    "read PATH ",
    "printf -v PATH 11 ",
    "test -v x ",
    "test -v 'a[$(evil)]' ",
    "[ -v x ] ",
    "let x ",
    "export PATH=11 ",
    "eval evil ",
    "command evil ",
    "exec ls ",
    "trap evil EXIT; ",
    "f() { evil; }; ",
    "ls() { evil; }; ",
    "alias ls=evil; ",
    "time ",
    "coproc evil ",
    "echo a ",
    "-x ",
    "wait -p PATH ",
    "jobs -x evil ",
    "compgen -C evil ",
    "source x ",
    ". x ",
];

/// A folder of markers, and a workspace with folders named like the numbers that bash assigns (file descriptors).
struct BashRunner {
    folder: tempfile::TempDir,
}

impl BashRunner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (subfolder, name, marker) in [
            ("bin", "ls", "ls"),
            ("bin", "cat", "cat"),
            ("bin", "touch", "touch"),
            ("bin", "evil", "evil"),
            ("ws", "evil", "evil"),
            ("ws/ls", "evil", "evil"),
            ("ws/1", "ls", "evil"),
            ("ws/10", "ls", "evil"),
            ("ws/11", "ls", "evil"),
            ("ws/12", "ls", "evil"),
        ] {
            let path = folder.path().join(subfolder);
            fs::create_dir_all(&path).unwrap();
            let log_path = folder.path().join("ran");
            let script = format!("#!/bin/sh\necho {marker} >>'{}'\n", log_path.display());
            fs::write(path.join(name), script).unwrap();
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.path().join("ws/x"), "evil\n").unwrap();
        Self { folder }
    }

    /// Runs the line and returns the markers that recorded themselves.
    #[expect(clippy::disallowed_methods, reason = "the real bash, in a folder of its own")]
    fn run(&self, line: &str) -> Vec<String> {
        let log_path = self.folder.path().join("ran");
        fs::write(&log_path, "").unwrap();
        let mut child = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", line])
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", self.folder.path())
            // What a variable of the environment may contain.
            .env("x", "a[$(evil)]")
            .env("p", "$(evil)")
            .env("y", "$(evil)")
            .current_dir(self.folder.path().join("ws"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        fs::read_to_string(log_path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

thread_local! {
    static BASH: BashRunner = BashRunner::new();
}

fn is_allowed(policy: &Policy, line: &str) -> bool {
    matches!(
        judge_tool_call(policy, "bash", &Effect::from_command(line)),
        Verdict::Allow { .. }
    )
}

fn policies() -> [Policy; 2] {
    [
        Policy {
            allow: rules(&[
                "bash(ls*)",
                "bash(cat *)",
                "bash([[ *)",
                "bash(echo *)",
                "bash(read *)",
                "bash(test *)",
            ]),
            ..Policy::default()
        },
        Policy {
            mode: Mode::Full,
            deny: rules(&["bash(evil*)"]),
            ..Policy::default()
        },
    ]
}

fn check(line: &str) -> Result<(), String> {
    for policy in policies() {
        if is_allowed(&policy, line) {
            let markers = BASH.with(|bash| bash.run(line));
            if markers.iter().any(|name| name == "evil") {
                return Err(format!(
                    "{line:?} ran {markers:?} although it was allowed by {policy:?}"
                ));
            }
        }
    }
    Ok(())
}

/// The markers work: the properties below would notice a command that runs.
#[test]
fn markers_record_what_runs() {
    for line in [
        "evil",
        "{ ls; } {PATH}>/dev/null; ls",
        "[[ (a)]]; evil; [[ b ]]",
        "[[ a\t]]; evil; [[ b ]]",
        "ls \"${p[@]@P}\"",
        "((x))",
        "ls $((x))",
        "ls ${a[x]}",
        "[[ x -eq 1 ]]",
        "test -v 'a[$(evil)]'",
        "ls/evil",
        "jobs -x evil",
        ". x",
        "source /dev/stdin <<< evil",
        "PATH=11; ls",
        "read PATH <<< 11; ls",
    ] {
        assert!(
            BASH.with(|bash| bash.run(line)).contains(&"evil".to_owned()),
            "{line:?}"
        );
        assert!(
            policies().iter().all(|policy| !is_allowed(policy, line)),
            "{line:?}"
        );
    }
    for line in ["ls", "ls -l; cat x", "[[ a ]] && ls", "{ ls; } >/dev/null"] {
        assert_eq!(check(line), Ok(()), "{line:?}");
        assert!(is_allowed(&policies()[0], line), "{line:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn an_allowed_line_runs_nothing_else(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..7)) {
        let line = pieces.concat();
        prop_assert_eq!(check(&line), Ok(()));
    }
}
