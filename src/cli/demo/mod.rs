//! `agentls demo`: the complete workflow without a key or a network, and a check that it really happened.
//!
//! A real server process over real stdio works in a scratch workspace. Its model is a loopback HTTP server in this
//! process. The demo claims only what it measured: [`DemoEvidence`] collects it from the wire and the disk.

mod model;
mod scratch;

use std::sync::atomic::Ordering;

use model::DemoModel;
use scratch::Scratch;

use super::client::{ClientError, Launch, ServerClient};
use super::keys::Draft;
use super::notification::read_seq;
use super::screen::Screen;
use super::session_lookup::load_session;
use super::signals::Signals;
use super::style::{Color, Styler};
use super::turn::{ApprovalMode, TurnEndReport, TurnInputState, TurnRunner, UserIntent, WaitFor};
use super::view::View;
use crate::base::clock::{self, Instant};
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{
    ChangeState, Decision, NewSessionParams, NewSessionResult, PromptContent, PromptParams, RevertParams,
    RevertResult, ServerNotification, ToolCallStatus, TurnState,
};

const TITLE: &str = "agentls demo";
const FIX: &str = "total() in cart.py is wrong when there is a discount. Why? Please fix it.";
const STORY: &str = "Now tell me a very long story about a shopping cart.";
/// The story is canceled after this many bytes.
const CANCEL_AFTER_BYTES: usize = 260;
const AUTOMATIC: &str = "  allowed automatically: --yes, or nobody is at a terminal";

/// What the wire and the disk showed.
#[derive(Default)]
struct DemoEvidence {
    deltas: u32,
    read: bool,
    asked_with_diff: bool,
    unchanged_when_asked: bool,
    decision: Option<Decision>,
    retracted: u32,
    retries: Vec<Option<u16>>,
    states: Vec<TurnState>,
    /// Bytes of the story so far.
    story: usize,
    cancelled_at: Option<Instant>,
    cancel_took_us: Option<u128>,
    after_the_end: u32,
    /// The turn whose changes are reverted and restored.
    changed: String,
    /// How many reverts and restores had the expected effect on the file.
    put_back: u32,
    last_seq: u64,
    gaps: u32,
}

/// Runs the demo. Returns the exit code: 0 only if everything really happened.
pub(super) async fn run_demo(yes: bool, env: &Env, terminal: bool) -> i32 {
    let styler = Styler::from_env(env, terminal);
    let mut view = View::new(Screen::with_stdout(terminal, styler));
    let answers = if yes || !terminal {
        ApprovalMode::Yes(AUTOMATIC)
    } else {
        ApprovalMode::Person
    };
    match try_run_demo(&mut view, &answers, env).await {
        Ok(code) => code,
        Err(error) => {
            view.set_idle();
            view.show_note(Color::Red, &format!("✗ the demo failed: {error}"));
            1
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot create a scratch folder: {0}")]
    Scratch(std::io::Error),
    #[error("cannot start a loopback server: {0}")]
    Model(std::io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

async fn try_run_demo(view: &mut View, answers: &ApprovalMode, env: &Env) -> Result<i32, DemoError> {
    let mut signals = Signals::install_handlers().map_err(DemoError::Signals)?;
    let scratch = Scratch::new().map_err(DemoError::Scratch)?;
    let model = DemoModel::start().await.map_err(DemoError::Model)?;
    scratch.write_config(model.port).map_err(DemoError::Scratch)?;
    let launch = Launch {
        folder: scratch.workspace_path(),
        args: Vec::new(),
        env: Some(scratch.build_env(env)),
        name: TITLE,
        mode: None,
        model: None,
        options: serde_json::Value::Null,
        effort: None,
        questions: false,
        approves: matches!(answers, ApprovalMode::Yes(_)),
        interruptible: true,
    };
    let mut client = ServerClient::start(&launch).await?;
    show_intro(view, &client, &scratch, model.port);

    let created: NewSessionResult = client
        .request(method::NEW_SESSION, &NewSessionParams::default())
        .await?;
    let mut stage = DemoStage {
        client: &mut client,
        view,
        signals: &mut signals,
        session: &created.session_id,
        answers,
        scratch: &scratch,
        evidence: DemoEvidence::default(),
    };
    let mut stopped = stage.run_prompt(FIX).await?.was_stopped();
    if !stopped && stage.evidence.states == [TurnState::Completed] {
        stage
            .view
            .show_hint("One more, to be canceled in the middle of the answer:");
        stopped = stage.run_prompt(STORY).await?.was_stopped();
    }
    if !stopped && !stage.evidence.changed.is_empty() {
        stage.take_back().await?;
    }
    let mut evidence = stage.evidence;
    // Counts what the store holds: an event on the wire that is not stored counts as a gap (I7).
    let loaded = load_session(&mut client, &created.session_id, None, 1_000).await?;
    let stored = loaded.events.len() as u64;
    // The first event has number 1, so the last number is also the count.
    if stored != evidence.last_seq {
        evidence.gaps += 1;
    }
    let is_fixed =
        std::fs::read_to_string(scratch.file_path()).is_ok_and(|text| text.contains(scratch::RIGHT));
    client.close().await;
    if stopped {
        view.show_warning("You stopped the demo before its end.");
        return Ok(130);
    }
    Ok(show_verdict(view, &evidence, &model, is_fixed, stored))
}

fn show_intro(view: &mut View, client: &ServerClient, scratch: &Scratch, port: u16) {
    let styler = view.screen.styler;
    view.screen.write_line(&styler.paint_text(Color::Bold, TITLE));
    let pid = client.pid().unwrap_or_default();
    for line in [
        format!("server     a real process ({pid}) over stdio, as an editor starts it"),
        format!("model      a script behind http://127.0.0.1:{port}: no key, no network"),
        format!("workspace  {}, removed at the end", scratch.path().display()),
    ] {
        view.show_hint(line);
    }
}

/// The connections and the record that the turns of the demo share.
struct DemoStage<'a> {
    client: &'a mut ServerClient,
    view: &'a mut View,
    signals: &'a mut Signals,
    session: &'a str,
    answers: &'a ApprovalMode,
    scratch: &'a Scratch,
    evidence: DemoEvidence,
}

impl DemoStage<'_> {
    async fn run_prompt(&mut self, prompt: &str) -> Result<TurnEndReport, ClientError> {
        self.view.show_prompt(prompt);
        let params = PromptParams {
            session_id: self.session.to_owned(),
            prompt: PromptContent::Text(prompt.to_owned()),
        };
        let id = self.client.start_request(method::PROMPT, &params).await?;
        let (evidence, scratch) = (&mut self.evidence, self.scratch);
        let story = prompt == STORY;
        let mut watch = |notification: &ServerNotification| evidence.take(notification, scratch, story);
        let turn = TurnRunner {
            client: self.client,
            view: self.view,
            signals: self.signals,
            session: self.session,
            answers: self.answers.clone(),
            draft: &mut Draft::default(),
            // Everyone must see the same demo, so it offers no editing.
            editor: None,
            watch: &mut watch,
            input: TurnInputState::default(),
        };
        turn.run_to_end(WaitFor::Answered(id)).await
    }
}

impl DemoStage<'_> {
    /// Reverts the first turn's changes, then restores them.
    async fn take_back(&mut self) -> Result<(), ClientError> {
        self.view
            .show_hint("Reverting the first turn's changes, then restoring them:");
        for redo in [false, true] {
            let params = RevertParams {
                session_id: self.session.to_owned(),
                turn_id: self.evidence.changed.clone(),
                dry_run: false,
                redo,
            };
            let done: RevertResult = self.client.request(method::REVERT, &params).await?;
            let text = std::fs::read_to_string(self.scratch.file_path()).unwrap_or_default();
            let wanted = if redo { scratch::RIGHT } else { scratch::WRONG };
            self.evidence.put_back += u32::from(done.files.len() == 1 && text.contains(wanted));
        }
        while let Some(notification) = self.client.pop_notification() {
            self.evidence.take(&notification, self.scratch, false);
            self.view.handle_event(&notification);
        }
        Ok(())
    }
}

impl DemoEvidence {
    fn take(&mut self, notification: &ServerNotification, scratch: &Scratch, story: bool) -> UserIntent {
        use ServerNotification as N;
        self.count_gaps(notification);
        match notification {
            N::TextDelta(delta) => {
                self.deltas += 1;
                if story && self.cancel_took_us.is_some() {
                    self.after_the_end += 1;
                }
                if story && self.cancelled_at.is_none() {
                    self.story += delta.text.len();
                    if self.story >= CANCEL_AFTER_BYTES {
                        self.cancelled_at = Some(clock::now());
                        return UserIntent::Cancel;
                    }
                }
            }
            N::ToolCall(call) if call.status == ToolCallStatus::Completed && call.name == "read_file" => {
                self.read = true;
            }
            N::ApprovalRequested(approval) => {
                self.asked_with_diff = approval.diff.as_ref().is_some_and(|diff| diff.contains("\n+"));
                let text = std::fs::read_to_string(scratch.file_path());
                self.unchanged_when_asked = text.is_ok_and(|text| text.contains(scratch::WRONG));
            }
            N::ApprovalResolved(resolved) => self.decision = Some(resolved.decision),
            N::MessageRetracted(_) => self.retracted += 1,
            N::TurnDiff(diff) if diff.standing == ChangeState::Made => {
                self.changed.clone_from(&diff.of_turn_id)
            }
            N::Retry(retry) => self.retries.push(retry.error.status),
            N::TurnEnded(ended) => {
                self.states.push(ended.state);
                let took = self
                    .cancelled_at
                    .map(|at| clock::now().saturating_duration_since(at));
                self.cancel_took_us = took.map(|took| took.as_micros());
            }
            _ => {}
        }
        UserIntent::Continue
    }

    /// Checks that durable events have no gap and no repeat (I6).
    fn count_gaps(&mut self, notification: &ServerNotification) {
        if let Some(seq) = read_seq(notification) {
            self.gaps += u32::from(seq != self.last_seq + 1);
            self.last_seq = seq;
        }
    }

    /// Returns the claims: whether each one holds, and its text.
    fn check_claims(&self, model: &DemoModel, is_fixed: bool, stored: u64) -> Vec<(bool, String)> {
        let allowed = matches!(
            self.decision,
            Some(Decision::Allow | Decision::AllowSession | Decision::AllowAlways)
        );
        // Only the canceled story: the model itself breaks off the other answer.
        let hung_up = model.stats.hung_up.load(Ordering::Relaxed) == 1;
        let cancelled = self.states.last() == Some(&TurnState::Cancelled);
        let took = self.cancel_took_us.unwrap_or_default() as f64 / 1_000.0;
        vec![
            (
                self.deltas > 20,
                format!("the answer streamed: {} pieces", self.deltas),
            ),
            (self.read, "the agent read a file".to_owned()),
            (
                self.asked_with_diff && self.unchanged_when_asked,
                "you were asked first, with the diff, before anything was written".to_owned(),
            ),
            if allowed {
                (
                    is_fixed && self.put_back == 2,
                    "the edit was written to disk, reverted and restored".to_owned(),
                )
            } else {
                (
                    !is_fixed && self.decision.is_some(),
                    "you said no, and nothing was written".to_owned(),
                )
            },
            (
                // The broken stream has no HTTP status; the overloaded model answers with 529.
                self.retracted == 1 && self.retries == [None, Some(529)],
                "a broken stream and an overloaded provider were recovered in plain sight".to_owned(),
            ),
            (
                self.states == [TurnState::Completed, TurnState::Cancelled],
                "the first turn still completed".to_owned(),
            ),
            (
                cancelled && hung_up && self.after_the_end == 0,
                format!("the cancel took {took:.1} ms and closed the model's connection"),
            ),
            (
                self.gaps == 0 && stored > 0,
                format!("{stored} events of the session are stored, without a gap"),
            ),
        ]
    }
}

fn show_verdict(
    view: &mut View,
    evidence: &DemoEvidence,
    model: &DemoModel,
    is_fixed: bool,
    stored: u64,
) -> i32 {
    let styler = view.screen.styler;
    let claims = evidence.check_claims(model, is_fixed, stored);
    view.screen.write_gap();
    view.screen
        .write_line(&styler.paint_text(Color::Bold, "What you have seen"));
    for (true_, claim) in &claims {
        let mark = if *true_ {
            styler.paint_text(Color::Green, "✓")
        } else {
            styler.paint_text(Color::BoldRed, "✗ missing:")
        };
        let columns = if *true_ { 4 } else { 13 };
        view.screen.write_entry(&format!("  {mark} "), columns, claim);
    }
    let missing = claims.iter().filter(|(true_, _)| !true_).count();
    if missing > 0 {
        view.screen.write_gap();
        view.show_note(
            Color::Red,
            "The demo did not show everything. This is a bug; please report it.",
        );
        return 1;
    }
    view.screen.write_gap();
    view.screen
        .write_line(&styler.paint_text(Color::Bold, "What next"));
    for (label, command) in [
        (
            "with a key",
            "export ANTHROPIC_API_KEY=…  (or OPENAI_API_KEY, OPENROUTER_API_KEY)",
        ),
        (
            "without one",
            "ollama pull qwen3  (a local Ollama is found by itself)",
        ),
        (
            "then",
            "agentls chat  (here in the terminal; for your editor see README.md)",
        ),
        ("in doubt", "agentls doctor"),
    ] {
        let label = styler.dim_text(&format!("  {label:<12} "));
        view.screen.write_entry(&label, 15, command);
    }
    0
}
