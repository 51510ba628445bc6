//! No command that runs without a question shows a secret: the judge against the real programs.
//!
//! Each command of a table is judged in each of many repositories. Those that are free in `plan` or `ask` run there, as
//! `bash` runs them, and neither what they print nor what they write may contain a canary.

mod commands;
mod repositories;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentls::approval::{Policy, Verdict, command_files, judge_tool_call, leave_out_secrets};
use agentls::domain::{Effect, FileFinding, Mode};
use agentls::workspace::{Workspace, WorkspaceShared};
use serde_json::json;
use tempfile::TempDir;

use crate::bash_tool::Session;
use commands::{Topic, list_commands};
use repositories::{COMMON, FOR_VARIABLES, VARIABLES, list_repositories};

/// Names the script that [`free_commands_role`] runs, and the folder.
const ROLE_SCRIPT: &str = "AGENTLS_TEST_FREE_SCRIPT";
const ROLE_FOLDER: &str = "AGENTLS_TEST_FREE_FOLDER";
/// The start of what a secret contains.
const CANARY: &str = "CANARY";

/// A folder that contains the repository `ws`, the folder `out`, and the home folder.
struct TestWorld {
    base: PathBuf,
    workspace: Workspace,
    _dir: TempDir,
}

impl TestWorld {
    fn new(script: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws", "out", "home", "output"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        let settings = "[user]\n name = a\n email = a@example.org\n[protocol \"file\"]\n allow = always\n";
        fs::write(base.join("home/.gitconfig"), settings).unwrap();
        let shared = WorkspaceShared::new(&[], Some(base.join("home")));
        shared.note_session_folder(&base.join("ws"));
        let workspace = Workspace::new(shared);
        let world = Self {
            base,
            workspace,
            _dir: dir,
        };
        let script = format!("{COMMON}\n{script}\n");
        let done = world.command("bash", &["-c", &script]).output().unwrap();
        assert!(done.status.success(), "{script}: {done:?}");
        world
    }

    fn command(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.base.join("ws"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.base.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    /// Returns the name of the blob with the content of a secret; without one, that of a blob that git does not have.
    fn find_blob(&self) -> String {
        let script = "git rev-parse -q --verify gone:.env || git hash-object .env || git hash-object sub/.env \
                      || git hash-object README.md";
        let done = self.command("bash", &["-c", script]).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Returns what runs if a command is free: itself, or the line that leaves out secrets.
    fn find_free_line(&self, command: &str) -> Option<String> {
        // Most of them are never free.
        if !is_free(command, Vec::new()) {
            return None;
        }
        let files = command_files(command)?;
        let mut findings = self.workspace.look_up_files(&self.base.join("ws"), &files);
        let narrowed = leave_out_secrets(command, &mut findings);
        is_free(command, findings)
            .then(|| narrowed.map_or_else(|| command.to_owned(), |narrowed| narrowed.line))
    }

    /// Runs commands as `bash` does, each with the variables, and returns what each of them printed.
    fn run(&self, commands: &[String], variables: &[(&str, &str)]) -> Vec<String> {
        let path = |at: usize| self.base.join(format!("output/{at}"));
        let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let mut script = String::new();
        for (at, command) in commands.iter().enumerate() {
            let command = quote(command);
            script += &format!("( eval {command} ) </dev/null >{} 2>&1\n", path(at).display());
        }
        let script_path = self.base.join("script");
        fs::write(&script_path, script).unwrap();
        let base = self.base.display().to_string();
        let variables = variables
            .iter()
            .map(|(name, value)| (name, value.replace("{base}", &base)));
        let role = "free_commands::free_commands_role";
        let mut process = self.command(
            std::env::current_exe().unwrap(),
            &["--exact", role, "--nocapture"],
        );
        let done = process
            .env(ROLE_SCRIPT, &script_path)
            .env(ROLE_FOLDER, self.base.join("ws"))
            .envs(variables)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let read = |at| String::from_utf8_lossy(&fs::read(path(at)).unwrap()).into_owned();
        (0..commands.len()).map(read).collect()
    }

    /// Returns the files of the repository, without those of git.
    fn list_files(&self) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        let mut folders = vec![self.base.join("ws")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() && entry.file_name() != ".git" {
                    folders.push(entry.path());
                }
                files.insert(entry.path());
            }
        }
        files
    }

    /// Runs what is free of a topic's commands, and returns how many that were, and those that showed a secret.
    fn find_leaks(&self, name: &str, topic: Topic, variables: &[(&str, &str)]) -> (usize, Vec<String>) {
        let blob = self.find_blob();
        // The variables act on many commands alike.
        let step = if variables.is_empty() { 1 } else { 4 };
        let commands = list_commands(topic).into_iter().step_by(step);
        let free: Vec<String> = commands
            .filter_map(|command| self.find_free_line(&command.replace("{blob}", &blob)))
            .collect();
        let before = self.list_files();
        let outputs = self.run(&free, variables);
        let mut leaks = Vec::new();
        for (command, output) in free.iter().zip(outputs) {
            if output.contains(CANARY) {
                leaks.push(format!("{name}, {variables:?}: {command:?} showed\n{output}"));
            }
        }
        let created: Vec<PathBuf> = self.list_files().difference(&before).cloned().collect();
        if !created.is_empty() {
            leaks.push(format!("{name}, {variables:?}: {created:?} were written"));
        }
        (free.len(), leaks)
    }
}

/// Not a test: with its variables set, this runs a script as the tool `bash` does.
#[tokio::test]
async fn free_commands_role() {
    let Ok(script) = std::env::var(ROLE_SCRIPT) else {
        return;
    };
    let mut session = Session::new();
    session.cx.cwd = PathBuf::from(std::env::var(ROLE_FOLDER).unwrap());
    // The word says that it starts git, as each of the commands would.
    let command = format!(": git; . {script}; true");
    let result = session
        .bash(json!({"command": command, "timeout_s": 600}))
        .await
        .0;
    assert_eq!(result.unwrap().text, "(no output)");
}

/// Returns whether a command is free in `plan` or in `ask`, if this is what the look at its files found.
fn is_free(command: &str, findings: Vec<FileFinding>) -> bool {
    let effect = Effect {
        findings: Some(findings),
        ..Effect::from_command(command)
    };
    [Mode::Plan, Mode::Ask].into_iter().any(|mode| {
        let policy = Policy {
            mode,
            ..Policy::default()
        };
        matches!(judge_tool_call(&policy, "bash", &effect), Verdict::Allow { .. })
    })
}

#[expect(clippy::print_stdout, reason = "who runs the tests should know")]
fn say_what_is_missing() {
    let path = std::env::var_os("PATH").unwrap();
    for program in ["rg", "fd", "fdfind", "tree", "file"] {
        let is_installed =
            std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists());
        if !is_installed {
            println!("SKIPPED: the commands of `{program}`, which is not installed");
        }
    }
}

/// Tries a topic's commands in all repositories about it, and at least as many of them must be free. Several at a time:
/// most of the time is spent on starting programs.
#[track_caller]
fn check_topic(topic: Topic, least: usize) {
    say_what_is_missing();
    let mut repositories = list_repositories();
    repositories.retain(|repository| repository.topics.contains(&topic));
    let share = repositories.len().div_ceil(4);
    let check = |repositories: &[repositories::Repository]| {
        let (mut free, mut leaks) = (0, Vec::new());
        for repository in repositories {
            let world = TestWorld::new(&format!("(\n{}\n)", repository.script));
            let found = world.find_leaks(repository.name, topic, &[]);
            free += found.0;
            leaks.extend(found.1);
        }
        (free, leaks)
    };
    let found = std::thread::scope(|scope| {
        let parts = repositories.chunks(share);
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| check(part))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    let free: usize = found.iter().map(|(free, _)| free).sum();
    let leaks: Vec<String> = found.into_iter().flat_map(|(_, leaks)| leaks).collect();
    assert!(leaks.is_empty(), "{} leaks\n{}", leaks.len(), leaks.join("\n"));
    assert!(free >= least, "only {free} commands are free");
}

#[test]
fn free_commands_that_name_files_show_no_secret() {
    check_topic(Topic::Plain, 300);
}

#[test]
fn free_searches_show_no_secret() {
    check_topic(Topic::Search, 200);
}

#[test]
fn free_searches_of_ripgrep_show_no_secret_that_a_file_includes() {
    check_topic(Topic::Ripgrep, 300);
}

#[test]
fn free_git_commands_show_no_secret() {
    check_topic(Topic::Git, 300);
}

#[test]
fn inherited_variables_make_no_free_command_show_a_secret() {
    let repositories = list_repositories();
    let mut leaks = Vec::new();
    for (name, topics, variables) in VARIABLES {
        let repository = repositories
            .iter()
            .find(|repository| repository.name == *name)
            .unwrap();
        let world = TestWorld::new(&format!("(\n{}\n)\n{FOR_VARIABLES}", repository.script));
        for topic in *topics {
            leaks.extend(world.find_leaks(name, *topic, variables).1);
        }
    }
    assert!(leaks.is_empty(), "{} leaks\n{}", leaks.len(), leaks.join("\n"));
}

/// Whether a search finds something tells what a secret contains, one guess after another.
#[test]
fn free_searches_of_git_find_nothing_in_secrets() {
    let script = "secret .env; commit third; git tag gone; git rm -q .env; commit fourth; secret .env; git add -f .env";
    let world = TestWorld::new(script);
    let options = [
        "-c",
        "-l",
        "-q",
        "-L",
        "-lc",
        "--count",
        "--name-only",
        "--quiet",
        "-n",
        "-z",
    ];
    let mut lines = Vec::new();
    for (option, place) in options.iter().flat_map(|option| [(option, ""), (option, "gone")]) {
        for guess in [CANARY, "NOTHING"] {
            let line = format!("git grep {option} {guess} {place} && echo found");
            lines.push(
                world
                    .find_free_line(&line)
                    .unwrap_or_else(|| panic!("asks: {line}")),
            );
        }
    }
    let outputs = world.run(&lines, &[]);
    for (lines, outputs) in lines.chunks(2).zip(outputs.chunks(2)) {
        assert_eq!(outputs[0], outputs[1], "{}", lines[0]);
    }
}

/// The canaries work: the checks above would notice a secret.
#[test]
fn canaries_are_noticed() {
    let world = TestWorld::new("secret .env; git add -f .env");
    let commands = [
        "cat .env",
        "git stash show -p || git diff --cached",
        "grep -r KEY .",
    ]
    .map(str::to_owned);
    for (command, output) in commands.iter().zip(world.run(&commands, &[])) {
        assert!(output.contains(CANARY), "{command}: {output}");
        assert_eq!(world.find_free_line(command).as_ref(), None, "{command}");
    }
}
