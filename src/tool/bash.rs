//! `bash`: runs a command, to its end or in the background.
//!
//! Keeps its own time and stops its processes itself, so that a cancel still gets what came until then
//! (R-CANCEL). When it gives a result, no process of the command is left (I8).

use std::time::Duration;

use futures::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;

use super::command_changes;
use super::command_text::CommandText;
use super::{DEFAULT_TIMEOUT, Tool, ToolContext, ToolError, ToolNews, ToolOutput, Unseen};
use crate::base::CancellationToken;
use crate::base::text::{one_line, reveal};
use crate::base::utf8::Decoder;
use crate::domain::Effect;
use crate::workspace::BackgroundError;
use crate::workspace::process::{Child, Command, Ending, ExitStatus, Output, Process, SpawnError, Stop};

/// The longest time that a call may ask for; more only where the settings give more.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// The shortest.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// So long what a cancelled command has changed is looked for.
const LOOKING_AFTER_CANCEL: Duration = Duration::from_millis(500);

/// What every command gets, so that none colours, pages or asks.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Runs a command.
pub struct Bash;

/// The arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The command, as bash reads it. Several lines are fine.
    command: String,
    /// Seconds after which it is stopped. Default: 120, or what the settings say; at most 600. Not for
    /// the background.
    timeout_s: Option<f64>,
    /// Start it and go on at once, for what has to run longer, such as a server. Read what it writes
    /// with `bash_output`, end it with `bash_kill`. Default: false.
    background: Option<bool>,
    /// What it does, in 5 to 10 words, for the person who watches.
    description: Option<String>,
}

impl Tool for Bash {
    type Input = Input;

    const NAME: &'static str = "bash";

    const DESCRIPTION: &'static str = "Runs a shell command in the working directory and gives its output \
        (standard output and error together) and its exit code if that is not 0. Every call is a shell of \
        its own: directories and variables do not carry over. There is no terminal and no input, so nothing \
        may ask. Processes that are left when the command ends are killed; for servers and watchers use \
        background. Output beyond about 30,000 characters is cut in the middle: filter it, or send it to a \
        file and read that. To read, find or change files use the tools made for it.";

    fn title(&self, input: &Input) -> String {
        let command = one_line(&reveal(&input.command), 120);
        // Always with the command: a description alone could hide what a person is asked to allow.
        match input.description.as_deref().map(reveal) {
            Some(description) if !description.trim().is_empty() => {
                format!("{}: {command}", one_line(&description, 80))
            }
            Some(_) | None => command,
        }
    }

    fn effect(&self, input: &Input, _cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::execute(&*input.command))
    }

    fn timeout(&self, _input: &Input) -> Option<Duration> {
        None
    }

    fn finishes_on_cancel(&self) -> bool {
        true
    }

    async fn run(&self, input: Input, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if input.background == Some(true) {
            return in_background(&input, &cx).await;
        }
        let limit = time_limit(input.timeout_s, cx.time_limit);
        let launcher = cx.workspace.shared().launcher();
        // A large workspace on a slow disk takes its time; a cancel does not wait for that.
        let before = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            before = command_changes::before(&cx) => before,
        };
        let child = launcher.spawn_until(&cx.cancel, command(&input, &cx)).await;
        let child = child.map_err(not_started)?;
        let result = Running::new(child, &cx).finish(limit, &cx).await;
        tokio::select! { biased;
            () = out_of_patience(&cx) => cx.checkpoints.partial(Unseen::CutShort),
            () = command_changes::after(&cx, before) => {}
        }
        result
    }
}

/// What a stopped command has changed is looked for, but not for long (R-CANCEL).
async fn out_of_patience(cx: &ToolContext) {
    cx.cancel.cancelled().await;
    tokio::select! { biased;
        () = cx.hurry.cancelled() => {}
        () = tokio::time::sleep(LOOKING_AFTER_CANCEL) => {}
    }
}

fn command(input: &Input, cx: &ToolContext) -> Command {
    let command = Command::shell(&*input.command)
        .cwd(&cx.cwd)
        .merge_stderr()
        .harden_git();
    ENVIRONMENT
        .into_iter()
        .fold(command, |command, (name, value)| command.env(name, value))
}

/// How long the command may run.
fn time_limit(asked: Option<f64>, configured: Option<Duration>) -> Duration {
    let usual = configured.unwrap_or(DEFAULT_TIMEOUT);
    let most = MAX_TIMEOUT.max(usual);
    match asked {
        Some(seconds) => Duration::try_from_secs_f64(seconds.max(0.0))
            .unwrap_or(most)
            .clamp(MIN_TIMEOUT, most),
        None => usual,
    }
}

async fn in_background(input: &Input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let title = one_line(&reveal(&input.command), 120);
    let launcher = cx.workspace.shared().launcher();
    let background = cx.workspace.background();
    let command = command(input, cx);
    let started = background.start(&cx.cancel, &launcher, command, &title).await;
    let status = started.map_err(|error| match error {
        BackgroundError::Spawn(error) => not_started(error),
        BackgroundError::TooMany => ToolError::Reported(format!("{error} with bash_kill")),
        BackgroundError::Closed | BackgroundError::Unknown { .. } => ToolError::Reported(error.to_string()),
    })?;
    Ok(ToolOutput::text(format!(
        "started in the background as {id} (process {pid})\nread its output with bash_output, end it with \
         bash_kill; it ends with the session at the latest",
        id = status.id,
        pid = status.pid,
    )))
}

fn not_started(error: SpawnError) -> ToolError {
    match error {
        SpawnError::WorkingDirectory { .. } | SpawnError::NotFound { .. } | SpawnError::Refused { .. } => {
            ToolError::Reported(error.to_string())
        }
        SpawnError::Helper { .. } => ToolError::Internal(error.to_string()),
        SpawnError::Cancelled => ToolError::Cancelled,
    }
}

/// A command that runs.
struct Running {
    process: Process,
    output: Output,
    decoder: Decoder,
    text: CommandText,
}

/// What came first.
enum First {
    Ended(Ending),
    TimedOut,
    Cancelled,
}

impl Running {
    fn new(child: Child, cx: &ToolContext) -> Self {
        Self {
            process: child.process,
            output: child.output,
            decoder: Decoder::default(),
            text: CommandText::new(cx.keep.clone(), format!("{}-output.txt", cx.call)),
        }
    }

    async fn finish(mut self, limit: Duration, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let first = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => First::Cancelled,
            () = tokio::time::sleep(limit) => match self.process.gone().now_or_never() {
                // It was in time; only its output still waits for a slow client.
                Some(ending) => {
                    self.drain().await;
                    First::Ended(ending)
                }
                None => First::TimedOut,
            },
            ending = self.pass_on(cx) => First::Ended(ending),
        };
        match first {
            First::Ended(ending) => Ok(self.result(None, ending).await),
            First::TimedOut => {
                let ending = self.stop(Stop::Interrupt, cx).await;
                let note = format!("timed out after {} s and was stopped", limit.as_secs_f64());
                let result = self.result(Some(note), ending).await;
                Ok(ToolOutput {
                    timed_out: true,
                    ..result
                })
            }
            First::Cancelled => {
                let ending = self.stop(cx.workspace.on_cancel().into(), cx).await;
                let note = "cancelled while it ran".to_owned();
                Err(ToolError::CutShort(Box::new(
                    self.result(Some(note), ending).await,
                )))
            }
        }
    }

    /// Passes the output on until nothing of the command is left. A client that is slow makes the
    /// command wait. Dropping the future loses nothing of the result.
    async fn pass_on(&mut self, cx: &ToolContext) -> Ending {
        let mut listening = true;
        loop {
            self.text.room().await;
            let chunk = self.output.next().await;
            let text = match &chunk {
                Some(chunk) => self.decoder.push(&chunk.bytes),
                None => self.decoder.finish().to_owned(),
            };
            self.text.push(&text);
            if listening && !text.is_empty() {
                listening = cx.tell(ToolNews::Output(text)).await.is_ok();
            }
            if chunk.is_none() {
                // It may have closed its output and run on.
                return self.process.gone().await;
            }
            be_fair().await;
        }
    }

    /// Stops it in stages. Nobody is told live what comes meanwhile, since a slow client must not hold
    /// up the end; it is in the result.
    async fn stop(&mut self, how: Stop, cx: &ToolContext) -> Ending {
        let never = CancellationToken::new();
        // Out of patience from the start means that the server ends, which has stages of its own.
        let (how, hurry) = if cx.hurry.is_cancelled() {
            (Stop::ServerEnd, &never)
        } else {
            (how, &cx.hurry)
        };
        let Self {
            process,
            output,
            decoder,
            text,
        } = self;
        let ending = {
            let mut stop = std::pin::pin!(process.stop(how, hurry));
            tokio::select! {
                biased;
                ending = &mut stop => ending,
                () = drain(output, decoder, text) => stop.await,
            }
        };
        if ending.gone {
            self.drain().await;
        }
        ending
    }

    async fn drain(&mut self) {
        drain(&mut self.output, &mut self.decoder, &mut self.text).await;
    }

    async fn result(mut self, note: Option<String>, ending: Ending) -> ToolOutput {
        self.text.push(self.decoder.finish());
        let gathered = self.text.finish().await;
        let is_error = note.is_some();
        let notes = note.into_iter().chain(end_notes(ending));
        ToolOutput {
            text: with_notes(&gathered.text, notes),
            is_error,
            full: gathered.full,
            ..ToolOutput::default()
        }
    }
}

async fn drain(output: &mut Output, decoder: &mut Decoder, text: &mut CommandText) {
    loop {
        text.room().await;
        let Some(chunk) = output.next().await else {
            return;
        };
        text.push(&decoder.push(&chunk.bytes));
        be_fair().await;
    }
}

/// A pipe that is never empty would be read for a hundred pieces before anything else of this task, such
/// as the next stage of a stop, or another task has its turn.
async fn be_fair() {
    tokio::task::yield_now().await;
}

/// What is worth telling of an end; nothing when all went well.
pub(super) fn end_notes(ending: Ending) -> impl Iterator<Item = String> {
    let status = match ending.status {
        ExitStatus::Code(0) => None,
        ExitStatus::Code(code) => Some(format!("exit code: {code}")),
        ExitStatus::Signal(signal) => Some(format!("killed by signal {signal}")),
        ExitStatus::Unknown => Some("how it ended is not known".to_owned()),
    };
    let left = (!ending.gone).then(|| "some of its processes could not be ended".to_owned());
    status.into_iter().chain(left)
}

/// Output, and below it a line for each note.
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
    fn time_limits_stay_sane() {
        let second = Duration::from_secs;
        for (asked, configured, want) in [
            (None, None, second(120)),
            (None, Some(second(900)), second(900)),
            (Some(5.0), Some(second(900)), second(5)),
            (Some(1e9), None, second(600)),
            (Some(120_000.0), Some(second(900)), second(900)),
            (Some(f64::INFINITY), None, second(600)),
            (Some(-1.0), None, MIN_TIMEOUT),
            (Some(1.5), None, Duration::from_millis(1500)),
        ] {
            assert_eq!(time_limit(asked, configured), want, "{asked:?} {configured:?}");
        }
    }

    #[test]
    fn the_title_always_shows_the_command() {
        let input = |command: &str, description: Option<&str>| Input {
            command: command.to_owned(),
            timeout_s: None,
            background: None,
            description: description.map(str::to_owned),
        };
        for (command, description, want) in [
            ("ls", None, "ls"),
            ("ls", Some(" "), "ls"),
            ("rm -r x\n  echo", Some("List\nfiles"), "List files: rm -r x echo"),
            ("echo \u{1b}[8mhidden", None, "echo ␛[8mhidden"),
            ("true \u{1b}]; rm x; echo \u{7}", None, "true ␛]; rm x; echo ␇"),
        ] {
            assert_eq!(Bash.title(&input(command, description)), want);
        }
        assert!(Bash.title(&input(&"x".repeat(1_000), None)).chars().count() <= 120);
    }

    #[test]
    fn ends_are_told_unless_all_went_well() {
        let text = |status, gone| with_notes(" \n", end_notes(Ending { status, gone }));
        assert_eq!(text(ExitStatus::Code(0), true), "(no output)");
        assert_eq!(text(ExitStatus::Code(2), true), "(no output)\nexit code: 2");
        assert_eq!(
            text(ExitStatus::Signal(9), false),
            "(no output)\nkilled by signal 9\nsome of its processes could not be ended"
        );
    }
}
