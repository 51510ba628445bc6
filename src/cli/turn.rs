//! Drives one turn at a terminal: shows what the server reports, obeys keys and signals, answers questions.
//!
//! `chat`, `demo` and `run` use it. It ends with the answer to the prompt, which the server sends after
//! `agent/turnEnded`. Typed text that reaches no turn returns to the draft (I16). Rendering belongs to [`View`],
//! limits and questions to [`Inquiries`].

mod edit_input;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::blocks;
use super::client::{ClientError, ServerClient, ServerMessage};
use super::external_editor::ExternalEditor;
use super::held_key::{HeldKey, KeyRole};
use super::inquiry::{Inquiries, InquiryStep};
use super::keys::{Draft, Key, RawKeys, is_deliberate, parse_approval_key, sleep_until};
use super::signals::{SignalAction, Signals};
use super::slash::{self, QueueCommand, Slash};
use super::style::{Color, Styler};
use super::view::View;
use crate::base::clock::{self, Instant};
use crate::protocol::table::method;
use crate::protocol::{
    APPROVAL_KEYS, ApprovalAction, ApprovalRequestedNotification, ApprovalRespondParams, CancelNotification,
    Decision, MessageBlock, PromptContent, PromptResult, QueueAction, QueueParams, Risk, ServerNotification,
    SteerParams,
};

/// Two Ctrl-C within this time leave the chat when no turn runs.
pub(super) const DOUBLE_PRESS: Duration = Duration::from_secs(2);
/// The redraw interval of the status line.
const TICK: Duration = Duration::from_millis(100);

/// The event that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// The answer to the request with this id.
    Answered(u64),
    /// The end of a turn that no request of this client started.
    TurnEnds,
}

/// Who answers approvals.
#[derive(Clone, Debug)]
pub(super) enum ApprovalMode {
    /// The user at the terminal.
    Person,
    /// Allows everything, and shows this reason.
    Yes(&'static str),
    /// Denies everything; shows this reason and sends it to the model.
    No(&'static str),
}

/// What the observer of a turn wants to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserIntent {
    Continue,
    Cancel,
}

/// Everything that one turn at a terminal needs.
pub(super) struct TurnRunner<'a> {
    pub(super) client: &'a mut ServerClient,
    pub(super) view: &'a mut View,
    pub(super) signals: &'a mut Signals,
    pub(super) session: &'a str,
    pub(super) answers: ApprovalMode,
    /// Text that is typed during the turn and not sent; also receives steers that the turn did not use.
    pub(super) draft: &'a mut Draft,
    /// Opens inputs for editing; `None` disables editing.
    pub(super) editor: Option<&'a ExternalEditor>,
    /// Sees every notification before it is shown; may cancel the turn.
    pub(super) watch: &'a mut (dyn FnMut(&ServerNotification) -> UserIntent + Send),
}

/// How the turn ended for this client.
#[derive(Debug)]
pub(super) struct TurnEndReport {
    /// The answer to the prompt; `None` when the user left first, or when no request was made.
    pub(super) result: Option<Result<PromptResult, ClientError>>,
    /// The user wants to leave the program.
    pub(super) leave: bool,
    /// When the user pressed Ctrl-C.
    pub(super) cancelled: Option<Instant>,
    stopped: bool,
}

impl TurnEndReport {
    /// Returns whether the user canceled the turn or left.
    pub(super) fn was_stopped(&self) -> bool {
        self.leave || self.stopped
    }
}

/// The input side of a running turn: open questions, typed text and requests under way.
#[derive(Default)]
struct TurnInputState {
    /// Open approvals; only the first is shown.
    questions: VecDeque<ApprovalRequestedNotification>,
    /// When the first approval was shown; `None` while no key may answer it.
    shown: Option<Instant>,
    /// Limits and questions; approvals precede them.
    inquiries: Inquiries,
    /// The reason for a denial while it is typed.
    reason: Option<Draft>,
    /// A letter that may answer a question.
    held: HeldKey,
    /// The user asked to edit the input of the first approval.
    edit: bool,
    /// The edited input of the first approval.
    edited: Option<EditedInput>,
    /// Unanswered requests: steers with their text, decisions with `None`.
    sent: BTreeMap<u64, Option<String>>,
    cancelled: Option<Instant>,
    /// The user stopped the turn with Ctrl-C or Esc.
    stopped: bool,
    leave: bool,
}

/// A call's input as the user edited it.
struct EditedInput {
    text: String,
    /// The parsed text; `None` if it is not a JSON object.
    input: Option<Value>,
}

impl TurnRunner<'_> {
    /// Runs until the turn ends, or until the user leaves.
    ///
    /// # Errors
    ///
    /// If the connection to the server fails. A refused prompt is not an error here, but part of the report.
    pub(super) async fn run_to_end(mut self, until: WaitFor) -> Result<TurnEndReport, ClientError> {
        let mut desk = TurnInputState::default();
        let result = self.run_loop(until, &mut desk).await;
        self.view.set_idle();
        // Without an answer the text may not have arrived. In reverse, because each one goes in front of the draft
        // (I16).
        for text in desk.sent.into_values().rev().flatten() {
            prepend_to_draft(self.draft, &text);
        }
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error| ClientError::InvalidResponse {
                method: method::PROMPT,
                error,
            })
        };
        Ok(TurnEndReport {
            result: result?.map(|result| result.and_then(read)),
            leave: desk.leave,
            cancelled: desk.cancelled,
            stopped: desk.stopped,
        })
    }

    /// Runs until the turn's end and until all steers are answered. Returns the answer to the request.
    async fn run_loop(
        &mut self,
        until: WaitFor,
        desk: &mut TurnInputState,
    ) -> Result<Option<Result<Value, ClientError>>, ClientError> {
        // Without a terminal to read from, raw mode fails and there are no keys.
        let dumb = self.view.screen.styler.dumb;
        let mut keys = match self.answers {
            ApprovalMode::Person => RawKeys::open(dumb).ok(),
            ApprovalMode::Yes(_) | ApprovalMode::No(_) => None,
        };
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let animated = self.view.screen.is_terminal();
        self.view.wait_for("thinking");
        let mut ended = None;
        // An unanswered steer may still be refused. Then its text returns to the draft (I16).
        while ended.is_none() || desk.sent.values().any(Option::is_some) {
            tokio::select! { biased;
                action = self.signals.next() => match action {
                    SignalAction::Cancel => self.handle_ctrl_c(desk).await?,
                    SignalAction::Leave => desk.leave = true,
                },
                // After the turn ends, keys belong to the next prompt.
                key = next_key(&mut keys), if ended.is_none() => match key {
                    Some(key) => self.handle_key(&key, desk).await?,
                    None => { keys = None; desk.leave = true; }
                },
                incoming = self.client.next() => match incoming? {
                    ServerMessage::Notification(told) => {
                        self.handle_notification(&told, desk).await?;
                        let turn_ended = matches!(*told, ServerNotification::TurnEnded(_));
                        if turn_ended && until == WaitFor::TurnEnds {
                            ended.get_or_insert(None);
                        }
                    }
                    ServerMessage::Answer(answered, result) if until == WaitFor::Answered(answered) => {
                        ended = Some(Some(result));
                    }
                    ServerMessage::Answer(answered, result) => self.handle_response(answered, result, desk).await?,
                },
                () = sleep_until(desk.held.due_at()), if ended.is_none() => self.answer_held(desk).await?,
                _ = tick.tick(), if animated => self.view.refresh_status(),
            }
            if std::mem::take(&mut desk.edit) {
                // Raw mode and reading stop here: the editor needs the terminal for itself.
                drop(keys.take());
                self.edit_input(desk).await?;
                keys = RawKeys::open(dumb).ok();
            }
            if desk.leave {
                break;
            }
        }
        Ok(ended.flatten())
    }

    async fn handle_notification(
        &mut self,
        told: &ServerNotification,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        if (self.watch)(told) == UserIntent::Cancel {
            self.send_cancel().await?;
        }
        // False for an event that was shown before, such as one from a replay.
        if !self.view.handle_event(told) {
            return Ok(());
        }
        let another = desk.inquiries.handle_notification(told);
        match told {
            ServerNotification::ApprovalRequested(asked) => {
                desk.questions.push_back(asked.clone());
                match desk.questions.front() {
                    Some(first) if desk.questions.len() > 1 => {
                        let line = blocks::question_line(first, desk.questions.len() - 1);
                        self.view.open_question(desk.shown.map(|_| line));
                    }
                    _ => self.show_question(desk, false).await?,
                }
            }
            ServerNotification::ApprovalResolved(resolved) => {
                let first = desk.questions.front().map(|asked| asked.approval_id.clone());
                desk.questions
                    .retain(|asked| asked.approval_id != resolved.approval_id);
                if first.as_ref() == Some(&resolved.approval_id) {
                    desk.reason = None;
                    desk.edited = None;
                    self.show_question(desk, false).await?;
                }
            }
            ServerNotification::TurnEnded(ended) => {
                desk.questions.clear();
                desk.reason = None;
                desk.edited = None;
                self.view.open_question(None);
                // The server accepted these, but no model saw them: the user gets them back (I16).
                for steer in &ended.unused_steers {
                    prepend_to_draft(self.draft, &join_text_blocks(steer));
                }
            }
            _ => {}
        }
        if another && desk.questions.is_empty() {
            self.show_inquiry(desk);
        }
        if desk.reason.is_none() && desk.inquiries.draft_text().is_none() && desk.held.due_at().is_none() {
            self.view.set_draft(&self.draft.text);
        }
        Ok(())
    }

    /// Shows the first limit or question. Only a user answers these, so other modes do not show them.
    fn show_inquiry(&mut self, desk: &mut TurnInputState) {
        let styler: Styler = self.view.screen.styler;
        if let Some(lines) = desk.inquiries.render_first(styler)
            && matches!(self.answers, ApprovalMode::Person)
        {
            self.view.show_inquiry_lines(&lines);
            desk.inquiries.shown = Some(clock::now());
        }
    }

    async fn inquiry_key(
        &mut self,
        key: &Key,
        now: Instant,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        match desk.inquiries.handle_key(key, now) {
            InquiryStep::Nothing => {}
            InquiryStep::Typing(line) => self.view.set_draft(&line),
            InquiryStep::Show => self.show_inquiry(desk),
            InquiryStep::Wrong(why) => {
                self.view.set_draft("");
                self.view.show_note(Color::Yellow, &format!("! {why}"));
            }
            InquiryStep::Answer(method, params) => {
                // It stays first until the server reports its resolution, but no key may answer it twice.
                desk.inquiries.shown = None;
                let id = self.client.start_request(method, &params).await?;
                desk.sent.insert(id, None);
                self.view.set_draft("");
            }
        }
        Ok(())
    }

    /// Shows the first approval, or answers it in a mode without a user.
    async fn show_question(&mut self, desk: &mut TurnInputState, whole: bool) -> Result<(), ClientError> {
        let Some(mut asked) = desk.questions.front().cloned() else {
            desk.shown = None;
            self.view.open_question(None);
            self.show_inquiry(desk);
            return Ok(());
        };
        if let Some(input) = desk.edited_input() {
            // No rule checked the edited input: show it in full, at high risk, and offer no "always".
            asked.title = format!("{}, with your changes", asked.name);
            asked.why = "your edited arguments were not checked by any rule".to_owned();
            asked.risk = Risk::High;
            asked.input = input.clone();
            (asked.diff, asked.rule, asked.shown) = (None, None, None);
            asked.options.clear();
        }
        let show = self.view.show_approval(&asked, whole);
        let styler: Styler = self.view.screen.styler;
        match self.answers {
            ApprovalMode::Person => {
                let (width, rule) = (self.view.screen.width(), asked.rule.as_deref());
                let keys = blocks::question_keys(
                    styler,
                    width,
                    rule,
                    blocks::OptionalKeys {
                        edit: self.editor.is_some(),
                        show,
                    },
                );
                self.view.screen.write_line(&keys);
                self.view
                    .open_question(Some(blocks::question_line(&asked, desk.questions.len() - 1)));
                desk.shown = Some(clock::now());
                Ok(())
            }
            ApprovalMode::Yes(why) => {
                self.view.show_note(Color::Dim, why);
                self.send_decision(desk, Decision::Allow, None).await
            }
            ApprovalMode::No(why) => {
                self.view.show_note(Color::Yellow, why);
                self.send_decision(desk, Decision::Deny, Some(why.to_owned()))
                    .await
            }
        }
    }

    async fn handle_key(&mut self, key: &Key, desk: &mut TurnInputState) -> Result<(), ClientError> {
        let now = clock::now();
        if *key == Key::CtrlC {
            // A letter held before the Ctrl-C must not answer a question afterwards.
            desk.held.release_letter(None);
            return self.handle_ctrl_c(desk).await;
        }
        // Terminals send Alt+key as Esc and the key: an Esc right before another key looks the same.
        if let Key::Alt(letter) = key
            && self.is_line_empty(desk)
        {
            self.handle_escape(desk).await?;
            if letter.is_control() {
                return Ok(());
            }
            self.draft.take(key, now);
            self.view.set_draft(&self.draft.text);
            return Ok(());
        }
        if desk.reason.is_some() {
            return self.reason_key(key, now, desk).await;
        }
        if desk.questions.is_empty()
            && desk.inquiries.shown.is_some()
            && desk.inquiries.draft_text().is_some()
        {
            return self.inquiry_key(key, now, desk).await;
        }
        // Keys answer only on an empty line and after a pause: a user who types text must not answer by accident.
        if let Some(question) = desk.open_question()
            && self.draft.text.is_empty()
            && is_deliberate(now, self.draft.touched)
        {
            let asks_inquiry = desk.questions.is_empty();
            if asks_inquiry && desk.held.due_at().is_none() && desk.inquiries.acts_immediately(key) {
                return self.inquiry_key(key, now, desk).await;
            }
            match desk.held.take(key, now, &question, desk.may_answer(key)) {
                KeyRole::Held => {
                    if let Key::Char(letter) = key {
                        self.view.set_draft(&desk.format_held_key_hint(*letter));
                    }
                    return Ok(());
                }
                KeyRole::Answer(letter) => return self.answer_by_letter(letter, desk).await,
                KeyRole::Dropped => {
                    self.view.set_draft("");
                    return Ok(());
                }
                KeyRole::Text(first) => {
                    if let Some(first) = first {
                        self.draft.take(&Key::Char(first), now);
                    }
                }
            }
        }
        if *key == Key::Esc && self.draft.text.is_empty() {
            return self.handle_escape(desk).await;
        }
        match self.draft.take(key, now) {
            Some(line) if !line.trim().is_empty() => self.handle_typed_line(line, desk).await,
            _ => {
                self.view.set_draft(&self.draft.text);
                Ok(())
            }
        }
    }

    /// Returns whether the user is typing nothing: no draft, reason, held letter or field.
    fn is_line_empty(&self, desk: &TurnInputState) -> bool {
        self.draft.text.is_empty()
            && desk.reason.is_none()
            && desk.held.due_at().is_none()
            && desk.inquiries.draft_text().is_none()
    }

    /// Handles Esc on an empty line: denies or dismisses the open question, else cancels the turn.
    async fn handle_escape(&mut self, desk: &mut TurnInputState) -> Result<(), ClientError> {
        if desk.shown.is_some() {
            return self.send_decision(desk, Decision::Deny, None).await;
        }
        if desk.questions.is_empty() && desk.inquiries.shown.is_some() {
            return self.inquiry_key(&Key::Esc, clock::now(), desk).await;
        }
        desk.stopped = true;
        self.send_cancel().await
    }

    async fn reason_key(
        &mut self,
        key: &Key,
        now: Instant,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        if *key == Key::Esc {
            desk.reason = None;
            self.view.set_draft("");
            return self.show_question(desk, false).await;
        }
        let why = desk.reason.as_mut().and_then(|reason| reason.take(key, now));
        let Some(why) = why else {
            self.show_reason(desk);
            return Ok(());
        };
        desk.reason = None;
        let why = Some(why.trim().to_owned()).filter(|why| !why.is_empty());
        self.send_decision(desk, Decision::Deny, why).await
    }

    /// The held letter's time is over: it answers the question it was pressed at, or becomes text.
    async fn answer_held(&mut self, desk: &mut TurnInputState) -> Result<(), ClientError> {
        let question = desk.open_question();
        match desk.held.release_letter(question.as_deref()) {
            Some((letter, true)) => self.answer_by_letter(letter, desk).await,
            Some((letter, false)) => {
                self.draft.take(&Key::Char(letter), clock::now());
                self.view.set_draft(&self.draft.text);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Applies a letter to the open question.
    async fn answer_by_letter(&mut self, letter: char, desk: &mut TurnInputState) -> Result<(), ClientError> {
        self.view.set_draft("");
        if desk.questions.is_empty() {
            return self.inquiry_key(&Key::Char(letter), clock::now(), desk).await;
        }
        match parse_approval_key(letter, desk.has_rule()) {
            Some(ApprovalAction::Decide(Decision::Deny)) => {
                desk.reason = Some(Draft::default());
                // A dumb terminal has no status line, so it shows the prompt for the reason as a note.
                if self.view.screen.styler.dumb {
                    self.view
                        .show_note(Color::Dim, "no, because (Enter: no reason; Esc: back)");
                }
                self.show_reason(desk);
            }
            Some(ApprovalAction::Decide(decision)) => self.send_decision(desk, decision, None).await?,
            Some(ApprovalAction::Edit) => desk.edit = self.editor.is_some(),
            Some(ApprovalAction::ShowDiff) => self.show_question(desk, true).await?,
            None => {}
        }
        Ok(())
    }

    /// Handles a line typed during the turn: text steers, a few commands act now, the others return to the draft.
    async fn handle_typed_line(
        &mut self,
        line: String,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        match slash::parse(&line) {
            None | Some(Ok(Slash::Own(_))) => return self.send_steer(line, desk).await,
            Some(Ok(Slash::Queue(QueueCommand::Add(words)))) => return self.queue_prompt(&words, desk).await,
            Some(Ok(Slash::Quit)) => desk.leave = true,
            Some(Ok(_)) => {
                let why = "! commands work after the turn ends; Ctrl-C cancels it";
                self.view.show_note(Color::Yellow, why);
                prepend_to_draft(self.draft, &line);
            }
            Some(Err(why)) => {
                self.view.show_note(Color::Yellow, &why);
                prepend_to_draft(self.draft, &line);
            }
        }
        self.view.set_draft(&self.draft.text);
        Ok(())
    }

    fn show_reason(&mut self, desk: &TurnInputState) {
        let typed = desk.reason.as_ref().map_or("", |reason| reason.text.as_str());
        self.view
            .set_draft(&format!("no, because (Enter: no reason; Esc: back) {typed}"));
    }

    async fn send_decision(
        &mut self,
        desk: &mut TurnInputState,
        decision: Decision,
        feedback: Option<String>,
    ) -> Result<(), ClientError> {
        let Some(asked) = desk.questions.front() else {
            return Ok(());
        };
        let params = ApprovalRespondParams {
            approval_id: asked.approval_id.clone(),
            decision,
            feedback,
            input: desk
                .edited_input()
                .filter(|_| decision != Decision::Deny)
                .cloned(),
            rule: None,
        };
        // The approval stays first until the server reports its resolution, but no key may answer it twice.
        desk.shown = None;
        self.view.open_question(None);
        let id = self
            .client
            .start_request(method::APPROVAL_RESPOND, &params)
            .await?;
        desk.sent.insert(id, None);
        self.view.set_draft("");
        Ok(())
    }

    async fn send_steer(&mut self, text: String, desk: &mut TurnInputState) -> Result<(), ClientError> {
        let params = SteerParams {
            session_id: self.session.to_owned(),
            prompt: PromptContent::Text(text.clone()),
            expected_turn_id: None,
        };
        self.send(method::STEER, &params, text, desk).await
    }

    /// Adds a prompt to the session's queue; it runs after the turn.
    async fn queue_prompt(&mut self, words: &str, desk: &mut TurnInputState) -> Result<(), ClientError> {
        let params = QueueParams {
            session_id: self.session.to_owned(),
            action: QueueAction::Add,
            prompt_id: None,
            prompt: Some(PromptContent::Text(words.to_owned())),
        };
        let typed = format!("/queue {words}");
        self.send(method::QUEUE, &params, typed, desk).await
    }

    /// Sends a request for what was `typed`. If the connection fails, the text returns to the draft.
    async fn send<P: Serialize>(
        &mut self,
        method: &'static str,
        params: &P,
        typed: String,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        match self.client.start_request(method, params).await {
            Ok(id) => drop(desk.sent.insert(id, Some(typed))),
            Err(gone) => {
                prepend_to_draft(self.draft, &typed);
                return Err(gone);
            }
        }
        self.view.set_draft("");
        Ok(())
    }

    async fn handle_response(
        &mut self,
        id: u64,
        result: Result<Value, ClientError>,
        desk: &mut TurnInputState,
    ) -> Result<(), ClientError> {
        match (desk.sent.remove(&id), result) {
            (Some(Some(text)), Ok(_)) => self.view.show_note(Color::Cyan, &format!("› {text}")),
            (Some(Some(text)), Err(error)) => {
                self.view
                    .show_note(Color::Yellow, &format!("! not sent: {error}"));
                prepend_to_draft(self.draft, &text);
                self.view.set_draft(&self.draft.text);
            }
            (Some(None), Err(error)) => {
                self.view.show_note(Color::Yellow, &format!("! {error}"));
                // Still undecided, so ask again. If someone else settled it, the notification follows.
                if matches!(self.answers, ApprovalMode::Person) {
                    self.show_question(desk, false).await?;
                }
            }
            (Some(None), Ok(_)) | (None, _) => {}
        }
        Ok(())
    }

    /// Handles Ctrl-C: the first cancels the turn, the second leaves even if the server does not react.
    async fn handle_ctrl_c(&mut self, desk: &mut TurnInputState) -> Result<(), ClientError> {
        if desk.cancelled.is_some() {
            desk.leave = true;
            return Ok(());
        }
        desk.cancelled = Some(clock::now());
        desk.stopped = true;
        self.send_cancel().await
    }

    async fn send_cancel(&mut self) -> Result<(), ClientError> {
        let params = CancelNotification {
            session_id: self.session.to_owned(),
            turn_id: None,
        };
        self.view.wait_for("cancelling; Ctrl-C leaves");
        self.client.send_notification(method::CANCEL, &params).await
    }
}

impl TurnInputState {
    /// Returns the id of the question that keys answer now.
    fn open_question(&self) -> Option<String> {
        match self.questions.front() {
            Some(asked) => self.shown.map(|_| asked.approval_id.clone()),
            None => self.inquiries.shown.and(self.inquiries.first_id()),
        }
    }

    /// Returns whether this key may answer the open question.
    fn may_answer(&self, key: &Key) -> bool {
        match key {
            Key::Char(letter) if !self.questions.is_empty() => {
                parse_approval_key(*letter, self.has_rule()).is_some()
            }
            Key::Char(letter) => self.inquiries.may_answer(*letter),
            _ => false,
        }
    }

    /// Describes the held letter and what it is about to do.
    fn format_held_key_hint(&self, letter: char) -> String {
        let entry = APPROVAL_KEYS
            .iter()
            .find(|entry| entry.key == letter.to_ascii_lowercase());
        match entry.filter(|_| !self.questions.is_empty()) {
            Some(entry) => format!("{letter} · {}, unless you type on ", entry.label.to_lowercase()),
            None => letter.to_string(),
        }
    }

    /// Returns whether the first approval offers an "always" rule. Edited input offers none.
    fn has_rule(&self) -> bool {
        let first = self.questions.front();
        first.is_some_and(|asked| asked.rule.is_some()) && self.edited_input().is_none()
    }

    /// Returns the first approval's edited input.
    fn edited_input(&self) -> Option<&Value> {
        self.edited.as_ref()?.input.as_ref()
    }
}

/// Puts text in front of the draft, so that typed text is never lost (I16).
fn prepend_to_draft(draft: &mut Draft, text: &str) {
    if !draft.text.is_empty() {
        draft.text.insert(0, ' ');
    }
    draft.text.insert_str(0, text);
}

fn join_text_blocks(blocks: &[MessageBlock]) -> String {
    let text = blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text, .. } => Some(text.as_str()),
        MessageBlock::Reasoning { .. }
        | MessageBlock::ToolUse { .. }
        | MessageBlock::ToolResult { .. }
        | MessageBlock::Image(_)
        | MessageBlock::Reference { .. } => None,
    });
    text.collect::<Vec<_>>().join(" ")
}

async fn next_key(keys: &mut Option<RawKeys>) -> Option<Key> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}
