//! `agentls sandbox`: runs a command as the agent's commands run, and tests what confines them.
//!
//! Needs no server: it starts the command through the same launcher and with the same plan.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::SandboxCommand;
use super::sandbox_test;
use super::sandbox_tools::{SandboxTools, confine};
use super::screen::Screen;
use crate::base::text::reveal_hidden_characters;
use crate::config::{ConfigSource, SandboxSettings, Trust};
use crate::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};
use crate::proxy::{CommandProxy, NoPrompt};
use crate::sandbox::{SandboxScope, name_reader, visit_steering_files};
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::process::{
    Command, ExitStatus, Launcher, SpawnError, Stream, adopt_orphans, sweep_orphans,
};
use crate::workspace::{ReadDeny, Workspace, WorkspaceShared};

/// The exit code of a shell for a program that does not exist.
const NOT_FOUND: i32 = 127;

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
    let tools = SandboxTools::prepare(source).await?;
    match command {
        SandboxCommand::Test { json } => sandbox_test::test_sandbox(&tools, source, json, screen).await,
        SandboxCommand::Run {
            read_only,
            network,
            command,
        } => {
            if tools.detected.method == SandboxMethod::None {
                return Err(format!("no sandbox works here: {}", tools.detected.explain()).into());
            }
            let all_settings = source.load_settings(Some(&folder), trust).settings;
            let settings = all_settings.sandbox.clone();
            let refused = |reason| format!("cannot set up the sandbox: {reason}");
            tools
                .detected
                .check_required(settings.required)
                .map_err(refused)?;
            let scope = SandboxScope {
                policy: if read_only {
                    SandboxPolicy::ReadOnly
                } else {
                    // In `full`, no command is confined; this one is, since that is what it is for.
                    all_settings
                        .default_agent()
                        .mode
                        .sandbox_policy()
                        .min(SandboxPolicy::Workspace)
                },
                network: if network {
                    SandboxNetwork::Open
                } else {
                    settings.network
                },
                extra_write: settings.write.iter().map(|path| folder.join(path)).collect(),
                extra_hide: ReadDeny::new(settings.read_deny.iter().map(|path| folder.join(path)))
                    .list_paths()
                    .ok_or("the patterns in [sandbox] read_deny match too many files")?,
                extra_read_only: list_git_names(source, &folder, Arc::new(settings.clone())).await,
                ..tools.scope(source, &folder)
            };
            let command = confine(Command::from_argv(command).current_dir(&folder), &scope, source);
            let command = if command.needs_proxy() {
                // Nobody is asked: this is for trying what a command may do without a question.
                let proxy = CommandProxy::new(settings.host_rules(), Arc::default(), Arc::new(NoPrompt));
                command.proxy(Arc::new(proxy))
            } else {
                command
            };
            let (known, has_closed_submodules) = list_steering_files(&folder, true);
            let stripped = all_settings.secret_env_names(&source.env);
            let launcher = tools.launcher.with_stripped_env(stripped);
            let code = run_command(&launcher, command).await?;
            let (now, _) = list_steering_files(&folder, has_closed_submodules);
            now.difference(&known)
                .for_each(|path| report_created(&folder, path));
            Ok(code)
        }
    }
}

/// Lists what git's settings name in the folder, as for a command of the agent.
async fn list_git_names(
    source: &ConfigSource,
    folder: &Path,
    settings: Arc<SandboxSettings>,
) -> Vec<PathBuf> {
    let home = source.env.home_dir().map(Path::to_owned);
    let sandbox = CallSandbox {
        settings,
        policy: SandboxPolicy::ReadOnly,
    };
    let workspace = Workspace::new(WorkspaceShared::new(&[], home));
    workspace.list_git_names(&[folder.to_owned()], &sandbox).await
}

/// Lists the files that make programs run, as [`visit_steering_files`] does.
fn list_steering_files(folder: &Path, closes_submodules: bool) -> (BTreeSet<PathBuf>, bool) {
    let mut found = BTreeSet::new();
    let has_closed_submodules = visit_steering_files(folder, closes_submodules, &mut |path, steers| {
        found.extend(steers.then_some(path));
    });
    (found, has_closed_submodules)
}

/// Says that a file that makes programs run is new. A command of the agent has it renamed; this one is the user's own.
fn report_created(folder: &Path, path: &Path) {
    let shown = path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let (shown, reader) = (reveal_hidden_characters(&shown).into_owned(), name_reader(path));
    // Nobody may read it, as below.
    let _ = writeln!(
        std::io::stderr(),
        "agentls: created {shown}, obeyed by {reader}; a command of the agent would have it renamed"
    );
}

/// Runs a command, passes its output on, and returns its exit code as a shell would.
async fn run_command(launcher: &Launcher, command: Command) -> Result<i32, Box<dyn Error>> {
    let network = command.proxy_report();
    let mut child = match launcher.spawn(command).await {
        Err(error @ SpawnError::NotFound { .. }) => {
            writeln!(std::io::stderr(), "agentls: {error}")?;
            return Ok(NOT_FOUND);
        }
        spawned => spawned?,
    };
    while let Some(chunk) = child.output.next().await {
        let passed_on = match chunk.stream {
            Stream::Stdout => std::io::stdout().write_all(&chunk.bytes),
            Stream::Stderr => std::io::stderr().write_all(&chunk.bytes),
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
        let _ = writeln!(std::io::stderr(), "agentls: {refusal}");
    }
    Ok(match ending.status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
        ExitStatus::Unknown => 1,
    })
}
