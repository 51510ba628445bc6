//! `agentls sandbox`: runs a command as the agent's commands run, and tests what confines them.
//!
//! Needs no server: it confines and starts the command as a session's workspace does.

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, fstat};

use super::args::SandboxCommand;
use super::sandbox_test;
use super::sandbox_tools::SandboxTools;
use super::screen::Screen;
use crate::base::nofollow;
use crate::base::text::reveal_hidden_characters;
use crate::config::{ConfigSource, Diagnostic, Trust};
use crate::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};
use crate::sandbox::name_reader;
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::process::{
    Command, ExitStatus, Launcher, SpawnError, Stdin, Stream, adopt_orphans, sweep_orphans,
};
use crate::workspace::{NoPrompt, Workspace, WorkspaceShared};

/// The exit code of a shell for a program that does not exist.
const NOT_FOUND: i32 = 127;

/// What follows after a command of the agent.
const RENAMED: &str = "; a command of the agent would have it renamed";

/// Runs one of the commands and returns the exit code.
pub(super) async fn run_sandbox_command(
    command: SandboxCommand,
    source: &ConfigSource,
    trust: &Trust,
    folder: PathBuf,
    screen: Screen,
) -> Result<i32, Box<dyn Error>> {
    // A command can kill the helper that supervises it, unless it has a PID namespace.
    adopt_orphans();
    let loaded = source.load_settings(Some(&folder), trust);
    report_problems(&loaded.diagnostics)?;
    match command {
        SandboxCommand::Test { json } => {
            let tools = SandboxTools::prepare(source).await?;
            let home = loaded.settings.sandbox.read;
            sandbox_test::test_sandbox(&tools, source, home, json, screen).await
        }
        SandboxCommand::Run {
            read_only,
            network,
            command,
        } => {
            let home = source.env.home_dir().map(Path::to_owned);
            let workspace = Workspace::new(WorkspaceShared::new(&[], home));
            let detected = workspace.shared().sandbox().detect().await;
            if detected.method == SandboxMethod::None {
                return Err(format!("no sandbox works here: {}", detected.explain()).into());
            }
            let all_settings = loaded.settings;
            let mut settings = source.sandbox_settings(&all_settings.sandbox);
            // Although the settings may confine no command; this one is, since that is what it is for.
            settings.enabled = true;
            let most = if read_only {
                SandboxPolicy::ReadOnly
            } else {
                SandboxPolicy::Workspace
            };
            if network {
                settings.network = SandboxNetwork::Open;
            }
            let sandbox = CallSandbox {
                policy: all_settings.default_agent().mode.sandbox_policy().min(most),
                settings: Arc::new(settings),
            };
            let command = Command::from_argv(command)
                .current_dir(&folder)
                .stdin(read_stdin()?);
            let command = workspace.confine_command(&folder, &sandbox, command).await?;
            // Nobody is asked: this is for trying what a command may do without a question.
            let command = workspace.connect_command(&sandbox.settings, Arc::new(NoPrompt), command);
            let watched = workspace
                .watch_command(&folder, &sandbox, &command, false)
                .await?;
            let stripped = all_settings.secret_env_names(&source.env);
            let code = run_command(&Launcher::new(stripped), command).await?;
            watched.finish().await;
            let changes = workspace.list_steering_changes(&folder).await;
            for (path, existed) in changes.list_outermost() {
                report_change(&folder, path, existed);
            }
            Ok(code)
        }
    }
}

/// Prints the problems of the configuration that concern the sandbox.
///
/// # Errors
/// One of them could leave the command less confined than the user meant.
fn report_problems(problems: &[Diagnostic]) -> Result<(), Box<dyn Error>> {
    let concerns_sandbox =
        |problem: &&Diagnostic| problem.loosens_sandbox() || problem.key.starts_with("sandbox");
    for problem in problems.iter().filter(concerns_sandbox) {
        writeln!(io::stderr(), "agentls: {problem}")?;
    }
    if problems.iter().any(Diagnostic::loosens_sandbox) {
        return Err(
            "nothing runs until the settings of the sandbox are correct; see `agentls config check`".into(),
        );
    }
    Ok(())
}

/// Returns what the command reads: what was piped in, or a file, of which it gets a copy. It could write the file itself
/// through the descriptor, and a terminal belongs to this program.
fn read_stdin() -> io::Result<Stdin> {
    match FileType::from_raw_mode(fstat(io::stdin())?.st_mode) {
        FileType::Fifo => Ok(Stdin::Inherited),
        FileType::RegularFile => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            Ok(Stdin::Bytes(bytes))
        }
        _ => Ok(Stdin::Null),
    }
}

/// Says that a file that makes programs run has changed. A command of the agent has it renamed; this one is the user's
/// own.
fn report_change(folder: &Path, path: &Path, existed: bool) {
    let shown = path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let (shown, reader) = (reveal_hidden_characters(&shown).into_owned(), name_reader(path));
    let (verb, consequence) = match (existed, nofollow::kind(path).is_some()) {
        (_, false) => ("removed", ""),
        (true, true) => ("changed", RENAMED),
        (false, true) => ("created", RENAMED),
    };
    // Nobody may read it, as below.
    let _ = writeln!(
        io::stderr(),
        "agentls: {verb} {shown}, obeyed by {reader}{consequence}"
    );
}

/// Runs a command, passes its output on, and returns its exit code as a shell would.
async fn run_command(launcher: &Launcher, command: Command) -> Result<i32, Box<dyn Error>> {
    let network = command.proxy_report();
    let mut child = match launcher.spawn(command).await {
        Err(error @ SpawnError::NotFound { .. }) => {
            writeln!(io::stderr(), "agentls: {error}")?;
            return Ok(NOT_FOUND);
        }
        spawned => spawned?,
    };
    while let Some(chunk) = child.output.next().await {
        let passed_on = match chunk.stream {
            Stream::Stdout => io::stdout().write_all(&chunk.bytes),
            Stream::Stderr => io::stderr().write_all(&chunk.bytes),
        };
        // Nobody reads any more, as in `| head`.
        if passed_on.is_err() {
            break;
        }
    }
    let ending = child.process.wait_until_gone().await;
    sweep_orphans();
    for refusal in network.iter().flat_map(|network| network.take_refusals()) {
        // Nobody may read it any more, as above.
        let _ = writeln!(io::stderr(), "agentls: {refusal}");
    }
    Ok(match ending.status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
        ExitStatus::Unknown => 1,
    })
}
