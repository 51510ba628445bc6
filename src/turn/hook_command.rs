//! Runs a hook's command as a child process (architecture §3a).
//!
//! No process outlives its point of the turn, and a cancel kills it immediately. What the output means is
//! `hook_output`'s.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::hook_output::MAX_OUTPUT;
use super::hooks::{HookContext, HookExit, HookRunner};
use super::session_link::TurnStopped;
use crate::base::clock;
use crate::config::{CommandLine, HookSettings, SandboxSettings};
use crate::tool::refusal::{CommandOrigin, Refusals, hook_remedy};
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::process::{
    Child, Command, CommandEnd, ExitStatus, Output, Process, SpawnError, Stdin, Stream,
};
use crate::workspace::{CommandConfinement, NoPrompt, explain_other_folder};

/// How long a killed hook may take to disappear before the turn continues without it (I8). It takes milliseconds,
/// except on a busy machine.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// Runs hooks as commands.
#[derive(Clone, Debug, Default)]
pub struct HookCommands {
    /// The sandbox of the user's own hooks.
    pub own_sandbox: Arc<SandboxSettings>,
}

impl HookRunner for HookCommands {
    fn run_hook<'a>(
        &'a self,
        context: HookContext<'a>,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, TurnStopped>> {
        let settings = if hook.is_from_folder {
            context.sandbox
        } else {
            &self.own_sandbox
        };
        let sandbox = CallSandbox {
            settings: settings.clone(),
            policy: hook.sandbox_policy(context.mode, context.is_trusted()),
        };
        run_hook_command(context, hook, sandbox, input).boxed()
    }

    fn own_sandbox(&self) -> Option<&SandboxSettings> {
        Some(&self.own_sandbox)
    }
}

enum HookRunEnd {
    Ended(CommandEnd),
    TimedOut,
    Cancelled,
}

async fn run_hook_command(
    context: HookContext<'_>,
    hook: &HookSettings,
    sandbox: CallSandbox,
    input: Vec<u8>,
) -> Result<HookExit, TurnStopped> {
    let command = build_command(context, hook, input);
    let shared = context.workspace.shared();
    let command = shared.guard_git(context.cwd, &sandbox.settings, command).await;
    let confined = context.workspace.confine_command(context.cwd, &sandbox, command);
    let command = match confined.await {
        Ok(confined) => confined,
        Err(error) => return Ok(to_failure(hook, &error)),
    };
    let command = if hook.is_from_folder {
        command
    } else {
        context
            .workspace
            .shared()
            .shield_own_command(context.cwd, command)
    };
    let is_elsewhere = command.folder() != context.cwd;
    // Nobody is asked about a hook, so it reaches no other host.
    let command = context
        .workspace
        .connect_command(&sandbox.settings, Arc::new(NoPrompt), command);
    let confinement = command.confinement();
    let watched = context
        .workspace
        .watch_command(context.cwd, &sandbox, &command, false);
    let watched = match watched.await {
        Ok(watched) => watched,
        Err(error) => return Ok(to_failure(hook, &error)),
    };
    let mut exit = run_until_gone(context, hook, command).await;
    watched.finish().await;
    if let (Some(confinement), Ok(exit)) = (confinement, &mut exit) {
        explain_refusal(hook, exit, confinement, &sandbox).await;
    }
    if let (true, Ok(exit)) = (is_elsewhere, &mut exit) {
        explain_folder(exit, context.cwd);
    }
    exit
}

/// Adds to the end of a hook that objected or failed that it did not run in the session's folder.
fn explain_folder(exit: &mut HookExit, cwd: &Path) {
    let note = explain_other_folder(cwd);
    match exit {
        HookExit::Exited { code: 0, .. } => {}
        HookExit::Exited { refused, .. } => *refused = Some(format!("[{note}]")),
        HookExit::Failed(reason) => *reason = format!("{reason}. {note}"),
    }
}

/// Adds what the sandbox refused, or may have refused, to the end of a hook that objected or failed.
async fn explain_refusal(
    hook: &HookSettings,
    exit: &mut HookExit,
    confinement: CommandConfinement,
    sandbox: &CallSandbox,
) {
    if let HookExit::Exited {
        code,
        stderr,
        refused,
        ..
    } = exit
        && *code != 0
    {
        let hosts = confinement.network.map(|report| report.take_refusals());
        let status = Some(ExitStatus::Code(*code));
        let origin = CommandOrigin::Hook {
            is_from_folder: hook.is_from_folder,
        };
        let refusals = Refusals::new(origin, confinement.access, sandbox, status);
        *refused = refusals.explain(stderr, hosts.unwrap_or_default()).await;
    }
}

fn to_failure(hook: &HookSettings, error: &SpawnError) -> HookExit {
    HookExit::Failed(match error {
        SpawnError::Sandbox { .. } | SpawnError::HiddenDirectory { .. } => {
            format!("{error}. {}", hook_remedy(hook.is_from_folder))
        }
        _ => error.to_string(),
    })
}

/// Runs the command until nothing of it is left.
async fn run_until_gone(
    context: HookContext<'_>,
    hook: &HookSettings,
    command: Command,
) -> Result<HookExit, TurnStopped> {
    let launcher = context.workspace.shared().launcher();
    let child = launcher.spawn_until(context.cancel, command).await;
    let Child {
        process,
        mut output,
        stdin,
    } = match child {
        Ok(child) => child,
        Err(SpawnError::Cancelled) => return Err(TurnStopped),
        Err(error) => return Ok(to_failure(hook, &error)),
    };
    drop(stdin);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let first = tokio::select! { biased;
        () = context.cancel.cancelled() => HookRunEnd::Cancelled,
        () = clock::sleep(hook.timeout_s.0) => HookRunEnd::TimedOut,
        ending = collect_output(&process, &mut output, [&mut stdout, &mut stderr]) => HookRunEnd::Ended(ending),
    };
    match first {
        HookRunEnd::Ended(ending) => Ok(to_hook_exit(ending, &stdout, &stderr)),
        HookRunEnd::TimedOut => {
            kill_process(&process, output).await;
            let limit = hook.timeout_s.0.as_secs_f64();
            Ok(HookExit::Failed(format!(
                "timed out after {limit} s and was killed"
            )))
        }
        HookRunEnd::Cancelled => {
            kill_process(&process, output).await;
            Err(TurnStopped)
        }
    }
}

fn build_command(context: HookContext<'_>, hook: &HookSettings, input: Vec<u8>) -> Command {
    let command = match &hook.command {
        CommandLine::Shell(script) => Command::from_script(script),
        CommandLine::Argv(argv) => Command::from_argv(argv),
    };
    command
        .show_named_paths()
        .current_dir(context.cwd)
        .stdin(Stdin::Bytes(input))
        .harden_git()
        .unattended()
}

/// Collects the output until the process and all of its children are gone.
async fn collect_output(
    process: &Process,
    output: &mut Output,
    [stdout, stderr]: [&mut Vec<u8>; 2],
) -> CommandEnd {
    while let Some(chunk) = output.next().await {
        let buffer = match chunk.stream {
            Stream::Stdout => &mut *stdout,
            Stream::Stderr => &mut *stderr,
        };
        // The excess is read and discarded: a full pipe would block the hook forever.
        let fitting_length = chunk.bytes.len().min(MAX_OUTPUT - buffer.len());
        buffer.extend_from_slice(&chunk.bytes[..fitting_length]);
        // A hook that never stops writing must not delay a cancel.
        tokio::task::yield_now().await;
    }
    process.wait_until_gone().await
}

fn to_hook_exit(ending: CommandEnd, stdout: &[u8], stderr: &[u8]) -> HookExit {
    match ending.status {
        ExitStatus::Code(code) => HookExit::Exited {
            code,
            stdout: String::from_utf8_lossy(stdout).into_owned(),
            stderr: String::from_utf8_lossy(stderr).into_owned(),
            refused: None,
        },
        ExitStatus::Signal(signal) => HookExit::Failed(format!("killed by signal {signal}")),
        ExitStatus::Unknown => HookExit::Failed("exit status unknown".to_owned()),
    }
}

/// Kills a hook, and waits until nothing of it is left (I8).
async fn kill_process(process: &Process, output: Output) {
    // Nobody reads the output any more.
    drop(output);
    process.kill();
    if clock::timeout(AFTER_KILL, process.wait_until_gone())
        .await
        .is_err()
    {
        tracing::warn!("a hook that was killed is not gone yet");
    }
}
