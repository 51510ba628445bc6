//! `agentls run -p "…"`: one prompt, for scripts. The answer on stdout, all else on stderr.

use std::io::{self, IsTerminal, Read};

use serde_json::{Value, json};

use super::chat::slash::content;
use super::client::{Client, ClientError, Launch};
use super::keys::Draft;
use super::markdown::Markdown;
use super::screen::{Screen, print, print_json};
use super::signals::Signals;
use super::style::Painter;
use super::turn::{Answers, Turn, Until, Wish};
use super::view::View;
use crate::base::text;
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{
    LoadSessionParams, LoadSessionResult, NewSessionParams, NewSessionResult, PromptParams, PromptResult,
    ServerNotification, TurnState,
};

const ALLOWED: &str = "allowed by --yes";
const DENIED: &str = "denied: `agentls run` asks nobody. Allow it with --yes, with --mode autoEdit or full, or with \
a rule under [approvals] allow in the configuration";

/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// What to run.
#[derive(Debug)]
pub(super) struct Options {
    /// `-` reads it from stdin.
    pub(super) prompt: String,
    pub(super) json: bool,
    pub(super) yes: bool,
    /// The agent of a new session.
    pub(super) agent: Option<String>,
    pub(super) session: Option<String>,
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("the prompt cannot be read from stdin: {0}")]
    Stdin(io::Error),
    #[error("the prompt on stdin is not UTF-8 text")]
    NotText,
    #[error("the output cannot be written: {0}")]
    Stdout(io::Error),
    #[error("the prompt is empty")]
    Empty,
    #[error("signals cannot be listened to: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Runs it; the exit code.
pub(super) async fn run(options: Options, launch: Launch, env: &Env) -> Result<i32, RunError> {
    // First: a Ctrl-C while it is typed ends this as usual.
    let prompt = read_prompt(options.prompt)?;
    let mut signals = Signals::listen().map_err(RunError::Signals)?;
    let mut client = Client::start(&launch).await?;
    let session = open(&mut client, (options.session, options.agent), &launch).await?;
    let progress = io::stderr().is_terminal();
    let painter = Painter::of(env, progress);
    let mut view = View::new(match options.json {
        true => Screen::over(Box::new(io::sink()), false, || (81, 24), painter),
        false => Screen::stderr(progress, painter),
    });
    view.only_progress();
    let params = PromptParams {
        session_id: session.clone(),
        prompt: content(&prompt, &launch.folder),
    };
    let id = client.begin(method::PROMPT, &params).await?;
    let mut written = Ok(true);
    let mut watch = |told: &ServerNotification| {
        if !options.json || !matches!(written, Ok(true)) {
            return Wish::GoOn;
        }
        written = print_line(&json!({"method": told.method(), "params": told}));
        // Whoever followed it is gone, so it does not go on unseen.
        match written {
            Ok(true) => Wish::GoOn,
            Ok(false) | Err(_) => Wish::Cancel,
        }
    };
    let turn = Turn {
        client: &mut client,
        view: &mut view,
        signals: &mut signals,
        session: &session,
        answers: if options.yes {
            Answers::Yes(ALLOWED)
        } else {
            Answers::No(DENIED)
        },
        draft: &mut Draft::default(),
        editor: None,
        watch: &mut watch,
    };
    let ended = turn.run(Until::Answered(id)).await?;
    drop(view);
    client.close().await;
    let Some(result) = ended.result else {
        return Ok(INTERRUPTED);
    };
    let result = result?;
    written.map_err(RunError::Stdout)?;
    match options.json {
        true => print_line(&json!({ "result": result })),
        false => print_answer(&result, env),
    }
    .map_err(RunError::Stdout)?;
    Ok(exit_code(result.state))
}

/// The exit code of a turn's end.
pub(super) fn exit_code(state: TurnState) -> i32 {
    match state {
        TurnState::Completed => 0,
        TurnState::Failed => 1,
        TurnState::Degraded => 2,
        TurnState::Cancelled | TurnState::Interrupted => INTERRUPTED,
    }
}

fn read_prompt(prompt: String) -> Result<String, RunError> {
    let prompt = match prompt.as_str() {
        "-" => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData => RunError::NotText,
                    _ => RunError::Stdin(error),
                })?;
            text
        }
        _ => prompt,
    };
    match prompt.trim() {
        "" => Err(RunError::Empty),
        prompt => Ok(prompt.to_owned()),
    }
}

async fn open(
    client: &mut Client,
    (session, agent): (Option<String>, Option<String>),
    launch: &Launch,
) -> Result<String, ClientError> {
    let Some(session_id) = session else {
        let params = NewSessionParams {
            cwd: Some(launch.folder.display().to_string()),
            agent,
            ..NewSessionParams::default()
        };
        let created: NewSessionResult = client.request(method::NEW_SESSION, &params).await?;
        return Ok(created.session_id);
    };
    let params = LoadSessionParams {
        session_id: session_id.clone(),
        after_seq: None,
        before_seq: None,
        tail: Some(0),
        read_only: false,
    };
    let _: LoadSessionResult = client.request(method::LOAD_SESSION, &params).await?;
    Ok(session_id)
}

/// For people it is drawn; for programs it is what the model wrote.
fn print_answer(result: &PromptResult, env: &Env) -> io::Result<bool> {
    if result.text.is_empty() {
        return Ok(true);
    }
    let text = match io::stdout().is_terminal() {
        true => {
            let width = Screen::stdout(
                true,
                Painter {
                    colour: false,
                    dumb: false,
                },
            )
            .width();
            let mut markdown = Markdown::new(Painter::of(env, true), width);
            markdown.push(&result.text) + &markdown.finish()
        }
        false => format!("{}\n", text::neutralise(result.text.trim_end_matches('\n'))),
    };
    print(&text)
}

fn print_line(value: &Value) -> io::Result<bool> {
    print_json(&format!("{value}\n"))
}
