//! The supervisor of one MCP server: it starts the server, follows its lists, and starts it again after a crash.
//!
//! It ends when the last handle is gone, and then stops what it has started. It must not know who uses the server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crate::base::clock::{timeout, timeout_at};
use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use secrecy::ExposeSecret;

use super::authorize::EndReason;
use super::connection::{McpClient, McpConnection, McpError, McpPrompt, McpTool};
use super::environment::collect_variables;
use super::http;
use super::opening::{Opening, ProgramInput, SilentServer};
use super::program_folder::choose_folder;
use super::request_router::{CallHostPrompt, RequestRouter};
use super::rmcp_connection::{ConnectOptions, OpenAttempt, RmcpConnection};
use super::server_state::{ListRead, NextStart, Phase, ReadyServer, ServerShared};
use super::stdio::StdioTransport;
use crate::base::backoff::{Backoff, JITTER};
use crate::base::{CancellationToken, clock, random};
use crate::domain::SandboxPolicy;
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::process::{Command, ExitStatus, Process, Stdin, StopMode};
use crate::workspace::{EarlierChanges, WatchedCommand, Workspace};

/// Waits between a crash and the next start.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    factor: 3.0,
    max: Duration::from_secs(30),
    jitter: JITTER,
};
/// Failures in a row after which the server rests, as with any tool (R-TOOL-4).
const TRIP: u32 = 3;
/// How long it rests, after which the next turn starts it again, and how long after a failure its lists are read again.
const COOLDOWN: Duration = Duration::from_secs(60);
/// A server that worked this long has recovered.
const HEALTHY: Duration = Duration::from_secs(60);
/// How long a program may take to end after the end of its input.
const ENDS_BY_ITSELF: Duration = Duration::from_secs(1);
/// How long a start waits for the first list of prompts. A server whose prompts are late starts without them.
const PROMPTS: Duration = Duration::from_secs(2);
/// How long anyone waits for lists that are read again.
const LATE_LISTS: Duration = Duration::from_secs(2);
/// The shortest time between two reads of a list that changes.
const LIST_PAUSE: Duration = Duration::from_millis(200);

/// How often a start opens a server: by either request, by the old one if it ignores the new one, and by the new one alone
/// if it was only slow and refuses the old one.
const MAX_OPENINGS: u32 = 3;

/// Why a running server is not served any more.
enum ServiceEnd {
    Stopped,
    Restarted,
    Lost(McpError),
}

/// Runs a server for as long as someone holds its handle.
pub(super) async fn supervise(shared: Arc<ServerShared>) {
    run_until_stopped(&shared).await;
    // Nobody waits for it, and nobody uses it, from here on.
    shared.set_last_ready(None);
    shared.set_phase(Phase::Idle);
}

async fn run_until_stopped(shared: &Arc<ServerShared>) {
    tokio::select! { biased;
        () = shared.stop.cancelled() => return,
        () = shared.wait_until_needed() => {}
    }
    let mut failures = 0;
    loop {
        // This start is the one that an earlier request wants.
        let _ = shared.restart.notified().now_or_never();
        shared.set_phase(Phase::Starting);
        let started = clock::now();
        let (error, was_ready) = match start(shared).await {
            Ok(running) => match serve(shared, running).await {
                ServiceEnd::Stopped => return,
                ServiceEnd::Restarted => {
                    failures = 0;
                    continue;
                }
                ServiceEnd::Lost(error) => (error, true),
            },
            Err(McpError::Cancelled) => return,
            Err(error) => (error, false),
        };
        let needs_login = error.needs_login();
        let has_worked = shared.has_answered.swap(false, Ordering::Relaxed) || started.elapsed() >= HEALTHY;
        failures = match (needs_login, has_worked) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => failures + 1,
        };
        tracing::warn!(server = shared.setup.settings.name, %error, failures, "an MCP server failed");
        let tokens = shared.find_token_change().await;
        // A server that crashed at work starts again by itself; one that does not even start waits for the next turn.
        let is_needed = was_ready && !needs_login && failures < TRIP;
        if !is_needed {
            shared.set_last_ready(None);
        }
        let (pause, next_start) = match failures {
            _ if needs_login => (Duration::ZERO, NextStart::WhenNeeded),
            TRIP.. => (COOLDOWN, NextStart::AfterRest(clock::now() + COOLDOWN)),
            _ => (
                BACKOFF.delay_after(failures, random::random_unit()),
                NextStart::AfterPause { is_needed },
            ),
        };
        shared.set_phase(Phase::Failed(error, next_start));
        let next = async {
            if needs_login {
                return wait_for_other_tokens(shared, tokens).await;
            }
            clock::sleep(pause).await;
            shared.set_startable();
            shared.wait_until_needed().await;
        };
        tokio::select! { biased;
            () = shared.stop.cancelled() => return,
            () = shared.restart.notified() => failures = 0,
            () = next => {}
        }
    }
}

/// Waits until someone wants to use the server, and another process has logged in.
async fn wait_for_other_tokens(shared: &ServerShared, known: Option<SystemTime>) {
    loop {
        shared.wait_until_needed().await;
        if shared.find_token_change().await != known {
            return;
        }
        shared.set_startable();
    }
}

/// A server that has started.
struct RunningServer {
    connection: Arc<dyn McpConnection>,
    late_prompts: LatePrompts,
    program: Option<RunningProgram>,
    end_reason: EndReason,
}

/// The first list of prompts; pending forever if the start did not wait for it in vain.
type LatePrompts = BoxFuture<'static, Vec<Arc<McpPrompt>>>;

/// The program of a server.
struct RunningProgram {
    process: Process,
    /// Its temporary folder ends with this.
    workspace: Workspace,
    cwd: PathBuf,
    watched: WatchedCommand,
}

impl RunningProgram {
    /// Lists the changes from before it is stopped.
    async fn list_changes(&self) -> EarlierChanges {
        self.workspace.list_steering_changes(&self.cwd).await
    }
}

/// What a start has begun, and what its end has to know.
#[derive(Default)]
struct StartAttempt {
    program: Option<RunningProgram>,
    end_reason: EndReason,
    /// How the connection is being opened; `None` before and after that.
    opening: Option<Opening>,
    /// The opening failed, but may work in another way, which is remembered.
    can_open_otherwise: bool,
}

/// Starts the server and lists its tools, within the time limit of the settings. A server that the question for its
/// revision has confused is started again, without the question.
async fn start(shared: &Arc<ServerShared>) -> Result<RunningServer, McpError> {
    let limit = shared.setup.settings.startup_timeout_s.0;
    let due = clock::now() + limit;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut attempt = StartAttempt::default();
        let connecting = connect(shared, &mut attempt, attempts);
        let started = tokio::select! { biased;
            () = shared.stop.cancelled() => Err(McpError::Cancelled),
            started = timeout_at(due, connecting) => started.unwrap_or(Err(McpError::TimedOut(limit))),
        };
        let StartAttempt {
            program,
            end_reason,
            opening,
            can_open_otherwise,
        } = attempt;
        let error = match started {
            Ok((connection, late_prompts)) => {
                return Ok(RunningServer {
                    connection,
                    late_prompts,
                    program,
                    end_reason,
                });
            }
            Err(error) => error,
        };
        if let (McpError::TimedOut(_), Some(opening)) = (&error, opening) {
            let server = shared.setup.settings.connection_fingerprint();
            shared.host.openings.remember(server, opening.after_silence());
        }
        // Nothing cancels this: no program stays, and its new files are checked.
        let status = match program {
            Some(program) => {
                let earlier = program.list_changes().await;
                stop_program(shared, program, earlier, error == McpError::Closed).await
            }
            None => None,
        };
        let is_over = attempts >= MAX_OPENINGS || clock::now() >= due;
        if !can_open_otherwise || is_over || end_reason.get().is_some() {
            return Err(explain_end(shared, end_reason.get().unwrap_or(error), status));
        }
        tracing::debug!(server = shared.setup.settings.name, %error, "an MCP server is opened in another way");
    }
}

async fn connect(
    shared: &Arc<ServerShared>,
    attempt: &mut StartAttempt,
    attempts: u32,
) -> Result<(Arc<dyn McpConnection>, LatePrompts), McpError> {
    let client: Arc<dyn McpClient> = shared.clone();
    let connection = match &shared.host.connector {
        Some(connector) => connector.connect(&shared.setup.settings, client).await?,
        None => Arc::new(connect_by_settings(shared, client, attempt, attempts).await?),
    };
    let list_changes = shared.list_changes();
    let limit = shared.setup.settings.startup_timeout_s.0;
    let mut listing = list_first_prompts(connection.clone(), limit).boxed();
    let (tools, prompts) = tokio::join!(list_tools(&*connection), timeout(PROMPTS, &mut listing));
    let (tools, prompts) = (tools?, prompts.ok());
    let awaits_prompts = prompts.is_none();
    shared.set_phase(Phase::Ready(Arc::new(ReadyServer {
        connection: connection.clone(),
        tools,
        prompts: prompts.unwrap_or_default(),
        awaits_prompts,
        list_changes,
        last_read: ListRead::Done,
    })));
    if !awaits_prompts {
        listing = pending().boxed();
    }
    Ok((connection, listing))
}

/// Lists the prompts of a server that has just started; none if that fails. Its tools are worth the start.
async fn list_first_prompts(connection: Arc<dyn McpConnection>, limit: Duration) -> Vec<Arc<McpPrompt>> {
    let listed = timeout(limit, list_prompts(&*connection)).await;
    listed
        .unwrap_or(Err(McpError::TimedOut(limit)))
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "an MCP server did not list its prompts");
            Vec::new()
        })
}

/// Opens a connection once, and remembers what that has shown about the server.
async fn connect_by_settings(
    shared: &Arc<ServerShared>,
    client: Arc<dyn McpClient>,
    attempt: &mut StartAttempt,
    attempts: u32,
) -> Result<RmcpConnection, McpError> {
    let (server, openings) = (
        shared.setup.settings.connection_fingerprint(),
        &shared.host.openings,
    );
    let opening = openings.get(server);
    attempt.opening = Some(opening);
    let OpenAttempt { result, next } = try_opening(shared, client, attempt, opening).await?;
    attempt.opening = None;
    let next = match (&result, next) {
        (Ok(_), None) => opening.after_success(),
        // Both ways failed, so the reason is another one.
        (Err(_), Some(Opening::Either)) if attempts > 1 => Some(Opening::InitializeAgain),
        (_, next) => next,
    };
    if let Some(next) = next {
        openings.remember(server, next);
    }
    attempt.can_open_otherwise = result.is_err()
        && matches!(next, Some(Opening::Initialize | Opening::Discover))
        && next != Some(opening);
    result
}

/// Starts the program of a server, or turns to its address, and opens the connection.
async fn try_opening(
    shared: &Arc<ServerShared>,
    client: Arc<dyn McpClient>,
    attempt: &mut StartAttempt,
    opening: Opening,
) -> Result<OpenAttempt, McpError> {
    let settings = &shared.setup.settings;
    let (stderr, requests) = (shared.reset_stderr(), Arc::<RequestRouter>::default());
    let options = |silent, input| ConnectOptions {
        opening,
        limit: settings.startup_timeout_s.0,
        silent,
        input,
    };
    match (&settings.command, &settings.url) {
        (Some(program), _) => {
            let ConfinedProgram {
                command,
                workspace,
                cwd,
                watched,
            } = build_command(shared, program, &requests).await?;
            let launcher = shared.host.workspace.launcher();
            let child = launcher.spawn_until(&shared.stop, command).await;
            let started_child = watched.finish_unless_started(child).await;
            let (child, watched) = started_child.map_err(|error| McpError::Failed(error.to_string()))?;
            let input = child.stdin.as_ref().and_then(ProgramInput::of);
            let is_refused = input.as_ref().map(ProgramInput::refusal).unwrap_or_default();
            let transport = StdioTransport::new(child.stdin, child.output, stderr, is_refused);
            attempt.program = Some(RunningProgram {
                process: child.process,
                workspace,
                cwd,
                watched,
            });
            Ok(RmcpConnection::open(transport, client, requests, options(SilentServer::Goes, input)).await)
        }
        (None, Some(url)) => {
            let end_reason = &attempt.end_reason;
            let access = shared.build_access(end_reason, opening);
            let transport = http::build_transport(settings, url, &shared.setup.network, access).await?;
            let mut opened =
                RmcpConnection::open(transport, client, requests, options(SilentServer::Closes, None)).await;
            opened.result = opened.result.map(|connection| connection.watch_end(end_reason));
            Ok(opened)
        }
        // `config` lets no such server through.
        (None, None) => Err(McpError::Failed("it has no command and no address".to_owned())),
    }
}

/// A program that can start.
struct ConfinedProgram {
    command: Command,
    workspace: Workspace,
    cwd: PathBuf,
    watched: WatchedCommand,
}

async fn build_command(
    shared: &ServerShared,
    program: &str,
    requests: &Arc<RequestRouter>,
) -> Result<ConfinedProgram, McpError> {
    let setup = &shared.setup;
    let workspace = Workspace::new(shared.host.workspace.clone());
    let cwd = choose_folder(shared, &workspace).await?;
    let words = std::iter::once(program.to_owned()).chain(setup.settings.args.iter().cloned());
    let mut command = Command::from_argv(words).current_dir(&cwd).stdin(Stdin::Piped);
    if setup.settings.looks_up_outside() {
        command = command.look_up_outside();
    }
    let variables = collect_variables(&setup.settings, &setup.folder, &shared.host.redactor).await?;
    let command = variables.iter().fold(command, |command, (name, value)| {
        command.env(name, value.expose_secret())
    });
    let command = command.show_named_paths();
    let sandbox = CallSandbox {
        settings: setup.sandbox.clone(),
        policy: setup.settings.sandbox_policy(),
    };
    let confined = workspace.confine_command(&cwd, &sandbox, command).await;
    let command = confined.map_err(|error| McpError::Failed(error.to_string()))?;
    let prompt = Arc::new(CallHostPrompt(requests.clone()));
    let command = workspace.connect_command(&sandbox.settings, prompt, command);
    // It reserves no names: it runs as long as the session, and the user would see the empty folders all the time.
    let watched = workspace.watch_command(&cwd, &sandbox, &command, false).await;
    let watched = watched.map_err(|error| McpError::Failed(error.to_string()))?;
    watched.store().await;
    Ok(ConfinedProgram {
        command,
        workspace,
        cwd,
        watched,
    })
}

async fn list_tools(connection: &dyn McpConnection) -> Result<Vec<Arc<McpTool>>, McpError> {
    if !connection.peer().has_tools {
        return Ok(Vec::new());
    }
    Ok(connection.list_tools().await?.into_iter().map(Arc::new).collect())
}

async fn list_prompts(connection: &dyn McpConnection) -> Result<Vec<Arc<McpPrompt>>, McpError> {
    if !connection.peer().has_prompts {
        return Ok(Vec::new());
    }
    let prompts = connection.list_prompts().await?;
    Ok(prompts.into_iter().map(Arc::new).collect())
}

/// Follows a running server until it ends or is stopped.
async fn serve(shared: &Arc<ServerShared>, running: RunningServer) -> ServiceEnd {
    let connection = running.connection.clone();
    let mut roots = shared.host.roots.subscribe();
    let mut late_prompts = running.late_prompts.fuse();
    let mut following = connection.follow_lists().fuse();
    let end = loop {
        tokio::select! { biased;
            () = shared.stop.cancelled() => break ServiceEnd::Stopped,
            () = shared.restart.notified() => {
                // The restart may have been requested during the start. Whoever needs the server waits from here on.
                shared.set_phase(Phase::Starting);
                break ServiceEnd::Restarted;
            }
            reason = running.end_reason.wait() => break ServiceEnd::Lost(reason),
            () = connection.wait_until_closed() => break ServiceEnd::Lost(McpError::Closed),
            changed = roots.changed() => match changed {
                Ok(()) => connection.notify_roots_changed().await,
                // The manager is gone.
                Err(_) => break ServiceEnd::Stopped,
            },
            () = &mut following => {}
            prompts = &mut late_prompts => take_late_prompts(shared, prompts),
            () = shared.wait_until_lists_change() => read_lists_again(shared, &connection).await,
        }
    };
    // What it makes from now on is certainly its own. What it made during calls was checked after each one.
    let mut earlier = EarlierChanges::default();
    if let Some(program) = &running.program {
        earlier = program.list_changes().await;
    }
    connection.close().await;
    let status = match running.program {
        Some(program) => stop_program(shared, program, earlier, true).await,
        None => None,
    };
    match end {
        ServiceEnd::Lost(error) => ServiceEnd::Lost(explain_end(shared, error, status)),
        end => end,
    }
}

/// Offers the prompts that were late, unless all lists were read again since.
fn take_late_prompts(shared: &ServerShared, prompts: Vec<Arc<McpPrompt>>) {
    if let Some(known) = shared.last_ready().filter(|known| known.awaits_prompts) {
        shared.set_phase(Phase::Ready(Arc::new(ReadyServer {
            prompts,
            awaits_prompts: false,
            ..ReadyServer::clone(&known)
        })));
    }
}

/// Reads the lists of tools and prompts again. Meanwhile, and if that fails, the old ones stay in use.
async fn read_lists_again(shared: &ServerShared, connection: &Arc<dyn McpConnection>) {
    let limit = shared.setup.settings.startup_timeout_s.0;
    let list_changes = shared.list_changes();
    let reading = timeout(limit, read_lists(shared, &**connection, list_changes));
    let read = tokio::select! { biased;
        () = shared.stop.cancelled() => return,
        // It shall start again.
        () = shared.wait_until_needed() => return,
        () = connection.wait_until_closed() => return,
        read = reading => read.unwrap_or(Err(McpError::TimedOut(limit))),
    };
    match read {
        Ok((tools, prompts)) => shared.set_phase(Phase::Ready(Arc::new(ReadyServer {
            connection: connection.clone(),
            tools,
            prompts,
            awaits_prompts: false,
            list_changes,
            last_read: ListRead::Done,
        }))),
        Err(error) => {
            tracing::warn!(%error, "an MCP server did not list what it has changed");
            let retry_at = clock::now() + COOLDOWN;
            set_last_read(shared, list_changes, ListRead::Failed { error, retry_at });
        }
    }
    // A server that announces changes all the time must not keep us busy.
    clock::sleep(LIST_PAUSE).await;
}

type Lists = (Vec<Arc<McpTool>>, Vec<Arc<McpPrompt>>);

/// Reads the lists. From a moment on, nobody waits for that any more.
async fn read_lists(
    shared: &ServerShared,
    connection: &dyn McpConnection,
    list_changes: u64,
) -> Result<Lists, McpError> {
    let mut lists = async { tokio::try_join!(list_tools(connection), list_prompts(connection)) }.boxed();
    match timeout(LATE_LISTS, &mut lists).await {
        Ok(read) => read,
        Err(_) => {
            if shared
                .last_ready()
                .is_some_and(|known| known.last_read == ListRead::Done)
            {
                set_last_read(shared, list_changes, ListRead::Late);
            }
            lists.await
        }
    }
}

/// Notes how a read of the lists goes, during which the old ones stay in use.
fn set_last_read(shared: &ServerShared, list_changes: u64, last_read: ListRead) {
    if let Some(known) = shared.last_ready() {
        shared.set_phase(Phase::Ready(Arc::new(ReadyServer {
            list_changes,
            last_read,
            ..ReadyServer::clone(&known)
        })));
    }
}

/// Stops a program, as [`stop_process`] does, and checks what it has created since `earlier`.
async fn stop_program(
    shared: &ServerShared,
    program: RunningProgram,
    earlier: EarlierChanges,
    may_end: bool,
) -> Option<ExitStatus> {
    let status = stop_process(&program.process, may_end).await;
    let is_watched = program.watched.is_watched();
    program.watched.finish().await;
    // Otherwise the user is asked with the next command or call.
    if is_watched && shared.stop.is_cancelled() {
        let settled = program.workspace.settle_steering(&program.cwd, earlier);
        for change in settled.await {
            let (server, path) = (&shared.setup.settings.name, change.path.display());
            tracing::warn!(server, %path, outcome = ?change.outcome, "a file that makes programs run is new");
        }
    }
    status
}

/// Stops the program, and returns how it ended if it did so by itself.
async fn stop_process(process: &Process, may_end: bool) -> Option<ExitStatus> {
    if may_end && let Ok(ended) = timeout(ENDS_BY_ITSELF, process.wait_until_gone()).await {
        return Some(ended.status);
    }
    let ended = process.stop(StopMode::ServerEnd, &CancellationToken::new()).await;
    if !ended.is_gone {
        tracing::warn!("the program of an MCP server could not be stopped");
    }
    None
}

/// Adds to an error what people need to find its reason.
fn explain_end(shared: &ServerShared, error: McpError, status: Option<ExitStatus>) -> McpError {
    let settings = &shared.setup.settings;
    let is_confined = settings.command.is_some()
        && shared.setup.sandbox.enabled
        && settings.sandbox_policy() != SandboxPolicy::Off;
    let mut reason = match (&error, status) {
        // A program that goes on running often ends so after the end of its input.
        (McpError::Closed, Some(ExitStatus::Code(0))) => {
            "it closed its output and ended with exit code 0".to_owned()
        }
        (McpError::Closed, Some(ExitStatus::Code(code))) => format!("it ended with exit code {code}"),
        (McpError::Closed, Some(ExitStatus::Signal(signal))) => format!("signal {signal} ended it"),
        (McpError::Closed, None) if settings.command.is_some() => {
            "it closed its output but did not end".to_owned()
        }
        (McpError::Closed, None) => "it ended the connection".to_owned(),
        (McpError::TimedOut(limit), _) => {
            format!(
                "it did not start within {} s (startup_timeout_s)",
                limit.as_secs_f64()
            )
        }
        (McpError::Cancelled | McpError::Unusable(_), _) => return error,
        (error, _) if error.needs_login() => return error.clone(),
        (other, _) => other.to_string(),
    };
    if is_confined {
        reason.push_str(&format!(
            "; it runs in the sandbox, which `sandbox = \"off\"` under [mcp.{}] in your own config file disables",
            settings.name
        ));
    }
    McpError::Failed(reason)
}
