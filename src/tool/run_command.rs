//! Runs a command for a tool: its output as it arrives, its time limit, and the stages of a stop.
//!
//! Enforces the time limit and stops the processes itself, so that a cancel still returns the output so far (R-CANCEL).
//! Once there is a result, no process of the command is left (I8), unless the command went on in the background at its
//! time limit. Must not judge commands; approval does that before.

use std::time::Duration;

use futures::FutureExt;

use super::command_network;
use super::command_record::RecordedCommand;
use super::created_files::{self, CreatedFiles};
use super::left_files;
use super::refusal::{CommandOrigin, Refusals};
use super::terminal_output::{CommandText, collect_in_background};
use super::{PartialReason, ToolContext, ToolError, ToolOutput, ToolProgress};
use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::utf8::Decoder;
use crate::proxy::ProxyReport;
use crate::workspace::process::{Child, Command, CommandEnd, ExitStatus, Output, SpawnError, StopMode};
use crate::workspace::{
    CommandConfinement, EarlierChanges, StartedCommand, StopOnCancel, WatchedCommand, explain_other_folder,
};

/// The signal that kills, and the exit code that shells make of it.
const KILL: i32 = 9;
const KILLED: i32 = 128 + KILL;

/// How long the changes of a canceled command are looked for.
const LOOKING_AFTER_CANCEL: Duration = Duration::from_millis(500);

/// Prepares a command to run in the session's directory, with standard error merged into standard output.
pub(super) fn prepare_command(command: Command, cx: &ToolContext) -> Command {
    command
        .current_dir(&cx.cwd)
        .merge_stderr()
        .harden_git()
        .unattended()
}

/// The result of a command that was not canceled.
pub(super) struct CommandDone {
    /// The output, with the way it ended if that is worth reporting.
    pub(super) output: ToolOutput,
    /// `None` if it goes on in the background.
    pub(super) status: Option<ExitStatus>,
}

/// What happens to a command that reaches its time limit.
pub(super) enum Overtime {
    Stop,
    /// It goes on in the background if there is room, else it is stopped.
    GoOn {
        /// For the list of background processes.
        title: String,
        /// The longest time limit that a call may set.
        max_limit: Duration,
    },
}

/// Runs a command from [`prepare_command`] to its end, for at most `limit`.
pub(super) async fn run_to_end(
    command: Command,
    limit: Duration,
    overtime: Overtime,
    origin: CommandOrigin,
    cx: &ToolContext,
) -> Result<CommandDone, ToolError> {
    let launcher = cx.workspace.shared().launcher();
    // The snapshot of a large workspace on a slow disk takes time, and a cancel must not wait for it.
    let recorded = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        begun = RecordedCommand::begin(cx, command.to_line(), command.folder().to_owned()) => begun.map(|(command, _)| command),
    };
    // After the snapshot: git may list settings here, and the command starts next.
    let shared = cx.workspace.shared();
    let command = shared.guard_git(&cx.cwd, &cx.sandbox.settings, command).await;
    let mut earlier = cx.workspace.list_steering_changes(&cx.cwd).await;
    let (mut command, watched) = confine_command(command, cx, false).await?;
    let named_folder = command.folder().to_owned();
    if origin
        == (CommandOrigin::Configured {
            is_from_folder: false,
        })
    {
        command = shared.shield_own_command(&cx.cwd, command);
    }
    let is_elsewhere = command.folder() != named_folder;
    if !watched.is_watched() {
        // Nothing is attributed to it.
        earlier = EarlierChanges::default();
    }
    let closed_submodules = cx.workspace.explain_closed_submodules(&watched);
    let confinement = command.confinement();
    let network = command.proxy_report();
    // After a cancel here, nothing of the command is left (I8).
    let child = launcher.spawn_until(&cx.cancel, command).await;
    let started = watched.finish_unless_started(child).await;
    let (child, watched) = started.map_err(|error| match not_started(error, named_folder != cx.cwd) {
        ToolError::Reported(reason) if is_elsewhere => {
            ToolError::Reported(format!("{reason}. {}", explain_other_folder(&cx.cwd)))
        }
        error => error,
    })?;
    let time_limit = command_network::sleep_unless_asking(limit, network.as_deref());
    let mut result = RunningCommand::new(child, watched, confinement.clone(), cx)
        .wait_with_limit((limit, overtime), time_limit, cx)
        .await;
    let access = confinement.as_ref().map(|confinement| confinement.access.clone());
    if let (Some(confinement), Ok(done)) = (confinement, &mut result) {
        let refused = confinement.network.as_deref().map(ProxyReport::take_refusals);
        let refusals = Refusals::new(origin, confinement.access, &cx.sandbox, done.status);
        let note = refusals
            .explain(&done.output.text, refused.unwrap_or_default())
            .await;
        append_notes(&mut done.output, note.into_iter().collect());
    }
    if let (true, Ok(done)) = (is_elsewhere, &mut result)
        && done.status != Some(ExitStatus::Code(0))
    {
        let note = format!("[{}]", explain_other_folder(&cx.cwd));
        append_notes(&mut done.output, vec![note]);
    }
    let mut created = settle_created_files(cx, earlier).await;
    created.notes.extend(closed_submodules);
    if let Some(access) = access
        && matches!(result, Ok(_) | Err(ToolError::CutShort(_)))
    {
        created
            .notes
            .extend(left_files::note_left_files(cx, &access).await);
    }
    created.notes.extend(explain_ownership(cx, &result));
    created
        .notes
        .extend(note_git_traces(cx, recorded.as_ref(), was_stopped(&result)).await);
    let notes = std::mem::take(&mut created.notes);
    match &mut result {
        Ok(done) => append_notes(&mut done.output, notes),
        Err(ToolError::CutShort(output)) => append_notes(output, notes),
        // The next check reports them.
        Err(_) => created = CreatedFiles::default(),
    }
    if let Some(recorded) = recorded {
        tokio::select! { biased;
            () = out_of_patience(cx) => cx.checkpoints.mark_partial(PartialReason::CutShort),
            _ = recorded.record_changes(cx) => {}
        }
    }
    // Only now, as a call that takes too long after a cancel has no result.
    created.mark_reported();
    result
}

/// Settles the files that make other programs run, for a limited time after a cancel.
async fn settle_created_files(cx: &ToolContext, earlier: EarlierChanges) -> CreatedFiles {
    tokio::select! { biased;
        settled = created_files::settle_created_files(cx, earlier) => settled,
        // A second cancel does not skip the check: what the command has left may run.
        () = look_after_cancel(cx) => {
            let mut created = CreatedFiles::default();
            created.notes.push(
                "[the check for files that make other programs run was cut short; it goes on with the next command]".to_owned()
            );
            created
        }
    }
}

/// Returns whether a program may have been killed: the command was stopped, or killed one itself, as `timeout -s KILL` does.
fn was_stopped(result: &Result<CommandDone, ToolError>) -> bool {
    let Ok(done) = result else { return true };
    let is_killed = matches!(
        done.status,
        Some(ExitStatus::Signal(KILL) | ExitStatus::Code(KILLED))
    );
    // Bash names the program of a longer script.
    done.output.timed_out || is_killed || done.output.text.contains("Killed")
}

/// Explains why git refuses repositories in a folder that the user does not trust. Its own advice helps nobody there.
fn explain_ownership(cx: &ToolContext, result: &Result<CommandDone, ToolError>) -> Option<String> {
    let Ok(done) = result else { return None };
    let is_refused = done.output.text.contains("detected dubious ownership");
    (is_refused && !cx.workspace.shared().is_trusted(&cx.cwd)).then(|| {
        "[the user does not trust this folder, so git accepts only the repository around it, and a new one where the \
         command runs `git init` in its own folder; safe.directory does not change that, but the user can trust the folder]"
            .to_owned()
    })
}

/// Returns notes on what the command did to git, within a limited time after a cancel.
async fn note_git_traces(
    cx: &ToolContext,
    recorded: Option<&RecordedCommand>,
    was_stopped: bool,
) -> Vec<String> {
    let Some(recorded) = recorded else {
        return Vec::new();
    };
    tokio::select! { biased;
        notes = recorded.note_git_traces(cx, was_stopped) => notes,
        () = look_after_cancel(cx) => Vec::new(),
    }
}

/// Confines a command as its call was judged. Returns the watch for files that it creates.
pub(super) async fn confine_command(
    command: Command,
    cx: &ToolContext,
    is_background: bool,
) -> Result<(Command, WatchedCommand), ToolError> {
    let confined = cx.workspace.confine_command(&cx.cwd, &cx.sandbox, command).await;
    let command = confined.map_err(|error| not_started(error, false))?;
    if command.confinement().is_none() {
        return Ok((command, cx.workspace.count_unconfined_command()));
    }
    let command = command_network::connect_command(command, cx);
    let watched = cx
        .workspace
        .watch_command(&cx.cwd, &cx.sandbox, &command, is_background);
    let watched = watched.await.map_err(|error| not_started(error, false))?;
    Ok((command, watched))
}

fn append_notes(output: &mut ToolOutput, notes: Vec<String>) {
    if !notes.is_empty() {
        output.text = with_notes(&output.text, notes);
    }
}

/// Resolves when the changes of a stopped command have been looked for long enough (R-CANCEL).
async fn out_of_patience(cx: &ToolContext) {
    tokio::select! { biased;
        () = cx.force_cancel.cancelled() => {}
        () = look_after_cancel(cx) => {}
    }
}

async fn look_after_cancel(cx: &ToolContext) {
    cx.cancel.cancelled().await;
    clock::sleep(LOOKING_AFTER_CANCEL).await;
}

/// Converts the error of a command that did not start. `names_folder` says whether the call named the folder that it was
/// to run in.
pub(super) fn not_started(error: SpawnError, names_folder: bool) -> ToolError {
    match error {
        SpawnError::WorkingDirectory { .. } | SpawnError::HiddenDirectory { .. } if names_folder => {
            ToolError::WrongInput(error.to_string())
        }
        SpawnError::Arguments { .. } => ToolError::WrongInput(error.to_string()),
        SpawnError::WorkingDirectory { .. }
        | SpawnError::HiddenDirectory { .. }
        | SpawnError::NotFound { .. }
        | SpawnError::Refused { .. }
        | SpawnError::Sandbox { .. } => ToolError::Reported(error.to_string()),
        SpawnError::Helper { .. } => ToolError::Internal(error.to_string()),
        SpawnError::Cancelled => ToolError::Cancelled,
    }
}

/// A running command.
struct RunningCommand {
    started: StartedCommand,
    text: CommandText,
}

/// The event that came first.
enum FirstEvent {
    Ended(CommandEnd),
    TimedOut,
    Cancelled,
}

impl RunningCommand {
    fn new(
        child: Child,
        watched: WatchedCommand,
        confinement: Option<CommandConfinement>,
        cx: &ToolContext,
    ) -> Self {
        Self {
            started: StartedCommand {
                process: child.process,
                output: child.output,
                decoder: Decoder::default(),
                watched,
                confinement,
            },
            text: CommandText::new(
                cx.content_sink.clone(),
                format!("{}-output.txt", cx.call),
                cx.max_result_bytes(usize::MAX),
            ),
        }
    }

    /// Waits until it ends, or until `time_limit` does, which is `limit` without pauses.
    async fn wait_with_limit(
        mut self,
        (limit, overtime): (Duration, Overtime),
        time_limit: impl Future<Output = ()>,
        cx: &ToolContext,
    ) -> Result<CommandDone, ToolError> {
        let first = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => FirstEvent::Cancelled,
            () = time_limit => match self.started.process.wait_until_gone().now_or_never() {
                // It ended in time; only its output still waits for a slow client.
                Some(ending) => {
                    self.drain_output().await;
                    FirstEvent::Ended(ending)
                }
                None => FirstEvent::TimedOut,
            },
            ending = self.pass_on(cx) => FirstEvent::Ended(ending),
        };
        match first {
            FirstEvent::Ended(ending) => Ok(CommandDone {
                output: self.into_output(None, ending).await,
                status: Some(ending.status),
            }),
            FirstEvent::TimedOut => match overtime {
                Overtime::Stop => Ok(self.stop_overtime(limit, "", cx).await),
                Overtime::GoOn { title, max_limit } => {
                    Ok(self.go_on_in_background(limit, (&title, max_limit), cx).await)
                }
            },
            FirstEvent::Cancelled => {
                let ending = self.stop(cx.workspace.on_cancel().into(), cx).await;
                let note = "canceled while it ran".to_owned();
                Err(ToolError::CutShort(Box::new(
                    self.into_output(Some(note), ending).await,
                )))
            }
        }
    }

    /// Stops it at its time limit. `reason` says why it was not moved to the background, if it was to be.
    async fn stop_overtime(mut self, limit: Duration, reason: &str, cx: &ToolContext) -> CommandDone {
        let ending = self.stop(StopMode::Interrupt, cx).await;
        let note = format!(
            "timed out after {} s and was stopped{reason}",
            limit.as_secs_f64()
        );
        let result = self.into_output(Some(note), ending).await;
        CommandDone {
            output: ToolOutput {
                timed_out: true,
                ..result
            },
            status: Some(ending.status),
        }
    }

    /// Moves it to the background at its time limit, or stops it if it cannot go on there.
    async fn go_on_in_background(
        self,
        limit: Duration,
        (title, max_limit): (&str, Duration),
        cx: &ToolContext,
    ) -> CommandDone {
        // Nobody asked for it to outlive the turn, so a user who cancels the turn ends it too.
        let stop = StopOnCancel {
            cancel: cx.cancel.clone(),
            mode: cx.workspace.on_cancel().into(),
        };
        let Self { started, text } = self;
        let collect = collect_in_background(cx);
        let adopted = cx
            .workspace
            .background()
            .adopt(started, (title, collect), Some(stop));
        let status = match adopted {
            Ok(status) => status,
            Err((error, started)) => {
                let running = Self {
                    started: *started,
                    text,
                };
                let reason = format!(
                    ", because it could not go on in the background: {error}. For more time set timeout_s (at most {})",
                    max_limit.as_secs_f64()
                );
                return running.stop_overtime(limit, &reason, cx).await;
            }
        };
        let gathered = text.finish().await;
        let note = format!(
            "[still running after {limit} s, so it goes on in the background as {id} (process {pid}). Read what it \
             writes from now on with bash_output, whose wait_s waits for its end; end it with bash_kill. It ends with \
             {owner} at the latest, or if this turn is canceled. For more time in the foreground set timeout_s (at \
             most {most})]",
            limit = limit.as_secs_f64(),
            id = status.id,
            pid = status.pid,
            owner = cx.workspace.background_owner(),
            most = max_limit.as_secs_f64(),
        );
        CommandDone {
            output: ToolOutput {
                text: with_notes(&gathered.text, [note]),
                paged: true,
                full: gathered.full,
                ..ToolOutput::default()
            },
            status: None,
        }
    }

    /// Passes the output on until nothing of the command is left. A slow client makes the command wait.
    ///
    /// Dropping the future loses nothing of the result.
    async fn pass_on(&mut self, cx: &ToolContext) -> CommandEnd {
        let mut listening = true;
        loop {
            self.text.wait_for_room().await;
            let chunk = self.started.output.next().await;
            let text = match &chunk {
                Some(chunk) => self.started.decoder.push(&chunk.bytes),
                None => self.started.decoder.finish_text().to_owned(),
            };
            // Into the result first: the send below may be canceled while it waits.
            self.text.push(&text);
            // Once the turn has ended nobody listens, but the command must still be read to its end.
            if listening && !text.is_empty() {
                listening = cx.send_progress(ToolProgress::Output(text)).await.is_ok();
            }
            if chunk.is_none() {
                // The command may have closed its output and still run.
                return self.started.process.wait_until_gone().await;
            }
            yield_to_other_work().await;
        }
    }

    /// Stops the command in stages.
    ///
    /// Output that arrives meanwhile is in the result but not sent live: a slow client must not delay the end.
    async fn stop(&mut self, mode: StopMode, cx: &ToolContext) -> CommandEnd {
        let never = CancellationToken::new();
        // If `force_cancel` is already canceled, the server ends, which has its own stages.
        let (mode, force_cancel) = if cx.force_cancel.is_cancelled() {
            (StopMode::ServerEnd, &never)
        } else {
            (mode, &cx.force_cancel)
        };
        let Self { started, text } = self;
        let StartedCommand {
            process,
            output,
            decoder,
            ..
        } = started;
        let ending = {
            let mut stop = std::pin::pin!(process.stop(mode, force_cancel));
            tokio::select! {
                biased;
                ending = &mut stop => ending,
                // The output is read meanwhile: a command that writes to a full pipe could not finish.
                () = drain_into_text(output, decoder, text) => stop.await,
            }
        };
        // A process that is left would keep the output open.
        if ending.is_gone {
            self.drain_output().await;
        }
        ending
    }

    async fn drain_output(&mut self) {
        let started = &mut self.started;
        drain_into_text(&mut started.output, &mut started.decoder, &mut self.text).await;
    }

    async fn into_output(mut self, note: Option<String>, ending: CommandEnd) -> ToolOutput {
        self.text.push(self.started.decoder.finish_text());
        let gathered = self.text.finish().await;
        let is_error = note.is_some();
        let notes = note.into_iter().chain(end_notes(ending));
        ToolOutput {
            text: with_notes(&gathered.text, notes),
            is_error,
            // `CommandText` has already cut the text; the status lines must not cause a second cut.
            paged: true,
            exit_code: exit_code(ending.status),
            full: gathered.full,
            ..ToolOutput::default()
        }
    }
}

async fn drain_into_text(output: &mut Output, decoder: &mut Decoder, text: &mut CommandText) {
    loop {
        text.wait_for_room().await;
        let Some(chunk) = output.next().await else {
            return;
        };
        text.push(&decoder.push(&chunk.bytes));
        yield_to_other_work().await;
    }
}

/// Yields to other work.
///
/// Otherwise a pipe that is never empty is read for a hundred chunks before anything else runs, such as the next stage
/// of a stop.
async fn yield_to_other_work() {
    tokio::task::yield_now().await;
}

/// Returns the exit code as a shell reports it; `None` if it is unknown.
fn exit_code(status: ExitStatus) -> Option<i32> {
    match status {
        ExitStatus::Code(code) => Some(code),
        ExitStatus::Signal(signal) => Some(128 + signal),
        ExitStatus::Unknown => None,
    }
}

/// Returns notes about an end; none for a normal one.
pub(super) fn end_notes(ending: CommandEnd) -> impl Iterator<Item = String> {
    let status = match ending.status {
        ExitStatus::Code(0) => None,
        ExitStatus::Code(code) => Some(format!("exit code: {code}")),
        ExitStatus::Signal(signal) => Some(format!("killed by signal {signal}")),
        ExitStatus::Unknown => Some("exit status unknown".to_owned()),
    };
    let leftover = (!ending.is_gone).then(|| "some of its processes could not be ended".to_owned());
    status.into_iter().chain(leftover)
}

/// Formats output with a line below it for each note.
pub(super) fn with_notes(output: &str, notes: impl IntoIterator<Item = String>) -> String {
    let output = output.trim_end();
    let mut text = if output.is_empty() { "(no output)" } else { output }.to_owned();
    for note in notes {
        text.push('\n');
        text.push_str(&note);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_call_names_makes_a_failed_start_its_wrong_input() {
        let (program, reason) = (String::new, String::new);
        let path = std::path::PathBuf::new;
        let is_wrong_input =
            |error, names_folder| matches!(not_started(error, names_folder), ToolError::WrongInput(_));
        for names_folder in [false, true] {
            for (error, want) in [
                (
                    SpawnError::Arguments {
                        program: program(),
                        reason: reason(),
                    },
                    true,
                ),
                (
                    SpawnError::WorkingDirectory {
                        path: path(),
                        reason: reason(),
                    },
                    names_folder,
                ),
                (SpawnError::HiddenDirectory { path: path() }, names_folder),
                (
                    SpawnError::NotFound {
                        program: program(),
                        reason: reason(),
                    },
                    false,
                ),
                (
                    SpawnError::Refused {
                        program: program(),
                        reason: reason(),
                    },
                    false,
                ),
                (SpawnError::Sandbox { reason: reason() }, false),
            ] {
                let text = error.to_string();
                assert_eq!(is_wrong_input(error, names_folder), want, "{text} {names_folder}");
            }
        }
    }

    #[test]
    fn abnormal_ends_are_reported() {
        let text = |status, is_gone| with_notes(" \n", end_notes(CommandEnd { status, is_gone }));
        assert_eq!(text(ExitStatus::Code(0), true), "(no output)");
        assert_eq!(text(ExitStatus::Code(2), true), "(no output)\nexit code: 2");
        assert_eq!(
            text(ExitStatus::Signal(9), false),
            "(no output)\nkilled by signal 9\nsome of its processes could not be ended"
        );
    }
}
