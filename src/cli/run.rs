//! `agentls run`: one prompt, for scripts. The answer goes to stdout, everything else to stderr.
//!
//! Piped input becomes context of the prompt. The exit code reports how the run ended. With `--json`, every last line
//! of the stream names the session. It never prompts: approvals are all allowed or all denied.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::{RunArguments, TurnArgs};
use super::client::{ClientError, Launch, ServerClient};
use super::keys::Draft;
use super::markdown::Markdown;
use super::piped::{PipedError, read_stdin, wrap_in_tag};
use super::screen::{Screen, print_json, print_to_stdout};
use super::session_lookup::{
    NO_SESSION, apply_named_choice, describe_resumption, find_session, load_session, newest_session,
};
use super::signals::Signals;
use super::style::Styler;
use super::turn::{ApprovalMode, TurnEndReport, TurnInputState, TurnRunner, UserIntent, WaitFor};
use super::view::View;
use crate::base::text;
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{
    NewSessionParams, NewSessionResult, PromptBlock, PromptContent, PromptParams, PromptResult,
    ServerNotification, ToolCallStatus, TurnState,
};

const ALLOWED: &str = "allowed by --yes";
/// Read by the user and by the model.
const DENIED: &str = "nobody approves calls in `agentls run`. The user can allow it with --yes, and most calls also with a mode that asks less, or with a rule in [approvals] allow";

/// The exit code after SIGINT: 128 + 2, the convention of shells.
const INTERRUPTED: i32 = 130;
const USAGE_ERROR: i32 = 2;
const SOMETHING_DENIED: i32 = 3;
const DEGRADED: i32 = 4;

/// Where the prompt comes from.
#[derive(Debug, PartialEq, Eq)]
enum PromptSource {
    Text(String),
    Stdin,
}

/// The options of one run, validated.
#[derive(Debug)]
pub(super) struct RunOptions {
    prompt: PromptSource,
    json: bool,
    yes: bool,
    /// The agent of a new session; `None` selects the configured default.
    agent: Option<String>,
    session: Option<String>,
    r#continue: bool,
    max_steps: Option<u32>,
    turn: TurnArgs,
    /// The folder to work in; `None` is the current one.
    pub(super) folder: Option<PathBuf>,
    /// Only errors go to stderr.
    quiet: bool,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Stdin(#[from] PipedError),
    #[error("cannot write the output: {0}")]
    Stdout(io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    #[error("interrupted before the turn ended")]
    Interrupted,
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl RunError {
    pub(super) fn exit_code(&self) -> i32 {
        match self {
            Self::Interrupted
            | Self::Stdin(PipedError::Interrupted)
            | Self::Client(ClientError::Interrupted(_)) => INTERRUPTED,
            Self::Usage(_) | Self::Stdin(_) | Self::Client(ClientError::NoSession(_)) => USAGE_ERROR,
            Self::Stdout(_) | Self::Signals(_) | Self::Client(_) => 1,
        }
    }
}

impl RunOptions {
    /// Validates the command line.
    ///
    /// # Errors
    ///
    /// [`RunError::Usage`] if the prompt is missing, empty or ambiguous, or if two folders are given.
    pub(super) fn from_arguments(arguments: RunArguments) -> Result<Self, RunError> {
        let usage = |message: &str| Err(RunError::Usage(message.to_owned()));
        let mut words = arguments.words.into_iter();
        let (prompt, folder) = match arguments.prompt {
            Some(prompt) => (Some(prompt), words.next().map(PathBuf::from)),
            None => (words.next(), None),
        };
        if words.next().is_some() {
            return usage("quote a prompt of several words: agentls run \"…\"");
        }
        if folder.is_some() && arguments.cwd.is_some() {
            return usage("two working folders given: --cwd and the one after -p");
        }
        let prompt = match prompt.as_deref().map(str::trim) {
            Some("-") => PromptSource::Stdin,
            Some("") => return usage("the prompt is empty"),
            Some(prompt) => PromptSource::Text(prompt.to_owned()),
            None if io::stdin().is_terminal() => {
                return usage("no prompt; use agentls run \"…\", or `-` to type it here");
            }
            None => PromptSource::Stdin,
        };
        Ok(Self {
            prompt,
            json: arguments.json,
            yes: arguments.yes,
            agent: arguments.agent,
            session: arguments.session,
            r#continue: arguments.r#continue,
            max_steps: arguments.max_steps,
            turn: arguments.turn,
            folder: arguments.cwd.or(folder),
            quiet: arguments.quiet,
        })
    }

    /// Returns who answers approvals: never a user, because a script has none.
    fn approval_mode(&self) -> ApprovalMode {
        if self.yes {
            ApprovalMode::Yes(ALLOWED)
        } else {
            ApprovalMode::No(DENIED)
        }
    }
}

/// Runs the prompt. Returns the exit code.
///
/// # Errors
///
/// If the command line, stdin, stdout or the server fails, or if a signal ends the run before the turn does.
pub(super) async fn run_headless(
    options: RunOptions,
    mut launch: Launch,
    env: &Env,
) -> Result<i32, RunError> {
    // This client handles signals itself, so nothing else would end a wait for the server.
    launch.interruptible = true;
    launch.approves = options.yes;
    launch.apply_turn_args(&options.turn, options.max_steps);
    let json = options.json;
    let mut session = options.session.clone();
    let done = run_prompt(options, &launch, env, &mut session).await;
    if let (true, Err(error)) = (json, &done) {
        let error = json!({"message": error.to_string(), "sessionId": session});
        // A lost line is acceptable here: `run_command` prints the error to stderr as well.
        let _ = print_line(&json!({ "error": error }));
    }
    done
}

/// Runs the prompt. Sets `session` as soon as its id is known, so that an error can name it.
async fn run_prompt(
    options: RunOptions,
    launch: &Launch,
    env: &Env,
    session: &mut Option<String>,
) -> Result<i32, RunError> {
    // First: from here on, a Ctrl-C ends the run with its exit code instead of killing the process.
    let mut signals = Signals::install_handlers().map_err(RunError::Signals)?;
    let progress = io::stderr().is_terminal();
    let styler = Styler::from_env(env, progress);
    let mut view = open_view(options.json || options.quiet, progress, styler);
    // On stderr even with --json: a user who waits for stdin must know why.
    let mut notices = Screen::with_stderr(progress, styler);
    let prompt = read_prompt(&options.prompt, &mut signals, &mut notices).await?;
    drop(notices);
    let mut client = ServerClient::start(launch).await?;
    let id = open(&mut client, &options, launch, &mut view).await?;
    let session_id = session.insert(id).clone();
    let params = PromptParams {
        session_id: session_id.clone(),
        prompt,
    };
    let request = client.start_request(method::PROMPT, &params).await?;
    let mut observer = RunObserver {
        json: options.json,
        written: Ok(true),
        denied: 0,
        has_started: false,
    };
    let mut watch = |notification: &ServerNotification| observer.observe(notification);
    let turn = TurnRunner {
        client: &mut client,
        view: &mut view,
        signals: &mut signals,
        session: &session_id,
        answers: options.approval_mode(),
        draft: &mut Draft::default(),
        editor: None,
        watch: &mut watch,
        input: TurnInputState::default(),
    };
    let report = turn.run_to_end(WaitFor::Answered(request)).await;
    // A new session is stored with its first turn.
    if observer.has_started || options.session.is_some() || options.r#continue {
        // On stderr and before the error check, so that a failed run also says how to resume.
        view.show_hint(describe_resumption(&mut client, &session_id).await);
    }
    drop(view);
    client.close().await;
    let TurnEndReport { result, .. } = report?;
    let result = result.ok_or(RunError::Interrupted)??;
    let RunObserver { written, denied, .. } = observer;
    written.map_err(RunError::Stdout)?;
    if options.json {
        print_line(&json!({"result": with_session(&result, &session_id, denied)}))
    } else {
        print_answer(&result, env)
    }
    .map_err(RunError::Stdout)?;
    Ok(exit_code(result.state, denied))
}

/// Opens the view of the progress on stderr. With `--json` the notifications on stdout replace it; `--quiet` shows none.
fn open_view(hidden: bool, progress: bool, styler: Styler) -> View {
    let mut view = View::new(if hidden {
        Screen::with_output(Box::new(io::sink()), false, || (81, 24), styler)
    } else {
        Screen::with_stderr(progress, styler)
    });
    view.only_progress();
    view
}

/// Prints the notifications of a run as JSON, and counts the denied calls.
struct RunObserver {
    json: bool,
    /// Whether standard output still has a reader.
    written: io::Result<bool>,
    denied: u64,
    has_started: bool,
}

impl RunObserver {
    fn observe(&mut self, notification: &ServerNotification) -> UserIntent {
        match notification {
            ServerNotification::ToolCall(call) => {
                self.denied += u64::from(call.status == ToolCallStatus::Denied);
            }
            ServerNotification::TurnStarted(_) => self.has_started = true,
            _ => {}
        }
        if !self.json || !matches!(self.written, Ok(true)) {
            return UserIntent::Continue;
        }
        self.written = print_line(&json!({"method": notification.method(), "params": notification}));
        // The reader of the output is gone: cancel instead of working unseen.
        match self.written {
            Ok(true) => UserIntent::Continue,
            Ok(false) | Err(_) => UserIntent::Cancel,
        }
    }
}

/// Returns the exit code for the end of a turn.
fn exit_code(state: TurnState, denied: u64) -> i32 {
    match state {
        TurnState::Completed if denied > 0 => SOMETHING_DENIED,
        TurnState::Completed => 0,
        TurnState::Failed => 1,
        TurnState::Degraded => DEGRADED,
        TurnState::Cancelled | TurnState::Interrupted => INTERRUPTED,
    }
}

/// Returns the result for programs, with the session's id and the number of denied calls.
fn with_session(result: &PromptResult, session_id: &str, denied: u64) -> Value {
    let mut value = json!({"sessionId": session_id, "denied": denied});
    if let (Value::Object(all), Ok(Value::Object(result))) = (&mut value, serde_json::to_value(result)) {
        all.extend(result);
    }
    value
}

/// Returns the prompt to send: its text and the piped input.
async fn read_prompt(
    source: &PromptSource,
    signals: &mut Signals,
    notices: &mut Screen,
) -> Result<PromptContent, RunError> {
    let mut piped = String::new();
    if *source == PromptSource::Stdin || !io::stdin().is_terminal() {
        let announce = || {
            notices.write_line(
                "agentls: reading stdin until it ends (Ctrl-C stops; use `< /dev/null` for none)",
            );
        };
        let (text, broken) = read_stdin(signals, announce).await?;
        if broken > 0 {
            notices.write_line(&format!(
                "! stdin is not UTF-8 in {broken} places; replaced with \u{fffd}"
            ));
        }
        piped = text;
    }
    let has_piped = !piped.trim().is_empty();
    match source {
        PromptSource::Stdin if has_piped => Ok(PromptContent::Text(piped.trim().to_owned())),
        PromptSource::Stdin => Err(RunError::Usage("the prompt on stdin is empty".to_owned())),
        PromptSource::Text(prompt) => {
            let text = prompt.clone();
            if !has_piped {
                return Ok(PromptContent::Text(text));
            }
            // Only the first text may mention files: the second is not the user's own.
            Ok(PromptContent::Blocks(vec![
                PromptBlock::Text { text },
                PromptBlock::Text {
                    text: wrap_in_tag(&piped),
                },
            ]))
        }
    }
}

/// Opens the chosen session, or creates one. Returns its id.
async fn open(
    client: &mut ServerClient,
    options: &RunOptions,
    launch: &Launch,
    view: &mut View,
) -> Result<String, ClientError> {
    let chosen = match &options.session {
        Some(id) => Some(find_session(client, id).await?),
        None if options.r#continue => newest_session(client, &launch.folder).await?,
        None => None,
    };
    let Some(session_id) = chosen else {
        if options.r#continue {
            view.show_hint(NO_SESSION);
        }
        let params = NewSessionParams {
            cwd: Some(launch.folder.display().to_string()),
            agent: options.agent.clone(),
            effort: launch.effort,
            ..NewSessionParams::default()
        };
        let created: NewSessionResult = client.request(method::NEW_SESSION, &params).await?;
        return Ok(created.session_id);
    };
    // Only the session is needed, none of its events.
    let loaded = load_session(client, &session_id, None, 0).await?;
    apply_named_choice(client, &session_id, loaded.state.mode, launch).await?;
    Ok(session_id)
}

/// Prints the answer: rendered for a terminal, else as the model wrote it.
fn print_answer(result: &PromptResult, env: &Env) -> io::Result<bool> {
    if result.text.is_empty() {
        return Ok(true);
    }
    let text = if io::stdout().is_terminal() {
        let styler = Styler::from_env(env, true);
        let screen = Screen::with_stdout(true, styler);
        let mut markdown = Markdown::new(styler, screen.width(), screen.full_width());
        markdown.push(&result.text) + &markdown.finish()
    } else {
        format!(
            "{}\n",
            text::strip_control_characters(result.text.trim_end_matches('\n'))
        )
    };
    print_to_stdout(&text)
}

fn print_line(value: &Value) -> io::Result<bool> {
    print_json(&format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_reports_how_the_turn_ended() {
        for (state, denied, code) in [
            (TurnState::Completed, 0, 0),
            (TurnState::Completed, 2, 3),
            (TurnState::Failed, 1, 1),
            (TurnState::Degraded, 1, 4),
            (TurnState::Cancelled, 1, 130),
            (TurnState::Interrupted, 0, 130),
        ] {
            assert_eq!(exit_code(state, denied), code, "{state:?} {denied}");
        }
    }
}
