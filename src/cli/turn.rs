//! Drives one turn at a terminal: shows what the server reports, obeys keys and signals, answers questions.
//!
//! `chat`, `demo` and `run` use it. It ends with the answer to the prompt, which the server sends after
//! `agent/turnEnded`. Typed text that reaches no turn returns to the draft (I16). Rendering belongs to [`View`],
//! limits and questions to [`Inquiries`].

mod edit_input;
mod hang;
mod input_state;
mod refused_answer;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hang::{HangStep, HangWatch};
use serde::Serialize;
use serde_json::Value;

use super::blocks;
use super::client::{ClientError, ServerClient, ServerMessage};
use super::external_editor::ExternalEditor;
use super::held_key::{HeldKey, KeyRole};
use super::inquiry::{Inquiries, InquiryStep};
use super::keys::{Draft, Key, RawKeys, parse_approval_key, sleep_until};
use super::notification::join_text_blocks;
use super::signals::{SignalAction, Signals};
use super::slash::{self, QueueCommand, Slash};
use super::view::View;
use crate::base::clock::{self, Instant};
use crate::protocol::table::method;
use crate::protocol::{
    ApprovalAction, ApprovalRequestedNotification, ApprovalRespondParams, CancelNotification, Decision,
    ListApprovalsParams, PromptContent, PromptResult, QueueAction, QueueParams, Risk, ServerNotification,
    SteerParams, TurnEndedNotification,
};

/// Two Ctrl-C within this time leave the chat when no turn runs.
pub(super) const DOUBLE_PRESS: Duration = Duration::from_secs(2);
/// The prompt for the reason of a denial.
const REASON: &str = "no, because (Enter: no reason; Esc: back)";
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

/// The outcome of a step of the turn.
type StepResult = Result<(), ClientError>;

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
    /// Starts empty.
    pub(super) input: TurnInputState,
}

/// How the turn ended for this client.
#[derive(Debug)]
pub(super) struct TurnEndReport {
    /// The answer to the prompt; `None` when the user left first, or when no request was made.
    pub(super) result: Option<Result<PromptResult, ClientError>>,
    /// The user wants to leave the program.
    pub(super) wants_to_leave: bool,
    /// When the user pressed Ctrl-C.
    pub(super) cancelled: Option<Instant>,
    stopped: bool,
}

impl TurnEndReport {
    /// Returns whether the user canceled the turn or left.
    pub(super) fn was_stopped(&self) -> bool {
        self.wants_to_leave || self.stopped
    }
}

/// The input side of a running turn: open questions, typed text and requests under way.
#[derive(Default)]
pub(super) struct TurnInputState {
    /// Open approvals; only the first is shown.
    questions: VecDeque<ApprovalRequestedNotification>,
    /// When the first approval was shown; `None` while no key may answer it.
    shown_at: Option<Instant>,
    /// Limits and questions; approvals precede them.
    inquiries: Inquiries,
    /// The reason for a denial while it is typed.
    reason: Option<Draft>,
    /// A letter that may answer a question.
    held_key: HeldKey,
    /// `d` would show more of the first approval.
    can_show: bool,
    /// The user asked to edit the input of the first approval.
    edit: bool,
    /// The edited input of the first approval.
    edited: Option<EditedInput>,
    /// Unanswered requests.
    sent: BTreeMap<u64, SentRequest>,
    cancelled: Option<Instant>,
    /// The user stopped the turn with Ctrl-C or Esc.
    stopped: bool,
    wants_to_leave: bool,
}

/// A request without an answer yet.
enum SentRequest {
    /// A text for the model.
    Text(String),
    /// The decision on the approval with this id, with the reason that was typed.
    Decision(String, Option<String>),
    /// The answer to the limit or question with this id, with the texts that were typed.
    Answer(Option<String>, Vec<String>),
}

impl SentRequest {
    /// Returns the text that a model should see.
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Decision(..) | Self::Answer(..) => None,
        }
    }
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
        let result = self.run_loop(until).await;
        prepend_all_to_draft(self.draft, self.input.typed_answer().into_iter().collect());
        if let Some((letter, _)) = self.input.held_key.release_letter(None) {
            self.draft.text.push(letter);
        }
        if self.input.wants_to_leave {
            // The turn ends with the chat, so no model will see them (I16). The session keeps its queue.
            let mut unread = self.view.live.sent_lines.list_unread();
            unread.retain(|line| !line.starts_with("/queue "));
            prepend_all_to_draft(self.draft, unread);
        }
        self.view.set_idle();
        // Without an answer the text may not have arrived (I16).
        let unanswered = self.input.sent.into_values().filter_map(SentRequest::into_text);
        if matches!(result, Err(ClientError::Ended(_))) {
            // The session may contain it, which only another server can say.
            self.draft.unanswered.extend(unanswered);
        } else {
            prepend_all_to_draft(self.draft, unanswered.collect());
        }
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error| ClientError::InvalidResponse {
                method: method::PROMPT,
                error,
            })
        };
        Ok(TurnEndReport {
            result: result?.map(|result| result.and_then(read)),
            wants_to_leave: self.input.wants_to_leave,
            cancelled: self.input.cancelled,
            stopped: self.input.stopped,
        })
    }

    /// Runs until the turn's end and until all steers are answered. Returns the answer to the request.
    async fn run_loop(&mut self, until: WaitFor) -> Result<Option<Result<Value, ClientError>>, ClientError> {
        // Without a terminal to read from, raw mode fails and there are no keys.
        let dumb = self.view.screen.styler.dumb;
        let mut keys = match self.answers {
            ApprovalMode::Person => RawKeys::open(dumb).ok(),
            ApprovalMode::Yes(_) | ApprovalMode::No(_) => None,
        };
        let mut next_tick = clock::now();
        // What sent the prompt was mostly this key, which was not seen here.
        self.input.held_key.note_key(&Key::Enter, next_tick, None);
        let animated = self.view.screen.is_terminal();
        self.view.live.can_stop = keys.is_some();
        self.view.live.note_message();
        self.view.wait_for_model("thinking");
        let mut hang = HangWatch::new();
        let mut ended = None;
        // An unanswered steer may still be refused. Then its text returns to the draft (I16).
        while ended.is_none() || self.input.has_sent_text() {
            tokio::select! { biased;
                action = self.signals.next() => match action {
                    SignalAction::Cancel => self.handle_ctrl_c().await?,
                    SignalAction::Leave => self.input.wants_to_leave = true,
                },
                // After the turn ends, keys belong to the next prompt.
                key = next_key(&mut keys), if ended.is_none() => match key {
                    Some(key) => self.handle_key(&key).await?,
                    None => { keys = None; self.input.wants_to_leave = true; }
                },
                incoming = self.client.next() => {
                    hang.note_message();
                    match incoming? {
                    ServerMessage::Notification(notification) => {
                        self.handle_notification(&notification).await?;
                        let turn_ended = matches!(*notification, ServerNotification::TurnEnded(_));
                        if turn_ended && until == WaitFor::TurnEnds {
                            ended.get_or_insert(None);
                        }
                    }
                    ServerMessage::Answer(request, result) if until == WaitFor::Answered(request) => {
                        ended = Some(Some(result));
                    }
                    ServerMessage::Answer(request, result) => self.handle_response(request, result).await?,
                    }
                },
                () = sleep_until(self.input.held_key.due_at()), if ended.is_none() => self.answer_held().await?,
                () = clock::sleep_until(next_tick), if animated => {
                    next_tick = clock::now() + TICK;
                    self.check_server(&mut hang).await?;
                    self.view.refresh_status();
                }
            }
            if std::mem::take(&mut self.input.edit) {
                // Raw mode and reading stop here: the editor needs the terminal for itself.
                drop(keys.take());
                self.edit_input().await?;
                keys = RawKeys::open(dumb).ok();
            }
            if self.input.wants_to_leave {
                break;
            }
        }
        Ok(ended.flatten())
    }

    async fn handle_notification(&mut self, notification: &ServerNotification) -> StepResult {
        if (self.watch)(notification) == UserIntent::Cancel {
            self.send_cancel().await?;
        }
        // False for an event that was shown before, such as one from a replay.
        if !self.view.handle_event(notification) {
            return Ok(());
        }
        let (typed, is_reason) = (self.input.typed_answer(), self.input.reason.is_some());
        let another = self.input.inquiries.handle_notification(notification);
        match notification {
            ServerNotification::ApprovalRequested(approval) => {
                self.input.questions.push_back(approval.clone());
                match self.input.questions.front() {
                    Some(first) if self.input.questions.len() > 1 => {
                        let head = self.view.question_head(first, self.input.questions.len() - 1);
                        self.view.live.update_head(head);
                    }
                    _ => self.show_question(false).await?,
                }
            }
            ServerNotification::ApprovalResolved(resolved) => {
                let is_resolved =
                    |approval: &ApprovalRequestedNotification| approval.approval_id == resolved.approval_id;
                let was_first = self.input.questions.front().is_some_and(is_resolved);
                self.input.questions.retain(|approval| !is_resolved(approval));
                if was_first {
                    (self.input.reason, self.input.edited) = (None, None);
                    self.show_question(false).await?;
                }
            }
            ServerNotification::TurnEnded(ended) => {
                self.input.questions.clear();
                (self.input.reason, self.input.edited) = (None, None);
                self.view.close_question();
                return_steers(self.draft, ended);
            }
            _ => {}
        }
        // Its question is gone.
        if let Some(typed) = typed.filter(|_| self.input.typed_answer().is_none()) {
            if is_reason {
                prepend_to_draft(self.draft, &typed);
            } else {
                // It is not for the model, which the next Enter would send it to.
                self.draft.cleared.push(typed);
            }
        }
        if another && self.input.questions.is_empty() {
            self.show_inquiry();
        } else if self.input.open_question().is_none() {
            // It may have been settled elsewhere.
            self.view.close_question();
        }
        if !self.input.has_text() {
            self.view.set_draft(&self.draft.text);
        }
        Ok(())
    }

    /// Shows the first limit or question. Only a user answers these, so other modes do not show them.
    fn show_inquiry(&mut self) {
        if let Some(lines) = self.input.inquiries.render_first(self.view.screen.styler)
            && matches!(self.answers, ApprovalMode::Person)
        {
            // Before it is shown, so that whoever waits for it and then for a while has waited long enough.
            self.input.inquiries.shown_at = Some(clock::now());
            let is_new = self.input.inquiries.announce_first();
            self.view.show_inquiry(&lines, is_new);
            if let Some(line) = self.input.inquiries.typed_line() {
                self.view.set_field(&line);
            }
        }
    }

    async fn inquiry_key(&mut self, key: &Key) -> StepResult {
        if *key == Key::Esc {
            self.draft.cleared.extend(self.input.typed_answer());
        }
        match self.input.inquiries.handle_key(key) {
            InquiryStep::Nothing => {}
            InquiryStep::Typing(line) => self.view.set_field(&line),
            InquiryStep::Show => {
                // What was typed for the previous field.
                self.view.set_draft("");
                self.show_inquiry();
            }
            InquiryStep::Wrong(reason, line) => {
                self.view.show_warning(format!("! {reason}"));
                if line.is_empty() {
                    self.view.set_draft("");
                } else {
                    self.view.set_field(&line);
                }
            }
            InquiryStep::Answer(method, params) => {
                // It stays first until the server reports its resolution, but no key may answer it twice.
                self.input.inquiries.shown_at = None;
                self.view.close_question();
                let inquiries = &self.input.inquiries;
                let sent = SentRequest::Answer(inquiries.first_id(), inquiries.list_typed());
                self.send_answer(method, &params, sent).await?;
            }
        }
        Ok(())
    }

    /// Shows the first approval, or answers it in a mode without a user.
    async fn show_question(&mut self, show_all: bool) -> StepResult {
        let Some(mut approval) = self.input.questions.front().cloned() else {
            self.input.shown_at = None;
            self.view.close_question();
            self.show_inquiry();
            return Ok(());
        };
        if let Some(input) = self.input.edited_input() {
            // No rule checked the edited input: show it in full, at high risk, and offer no "always".
            approval.title = format!("{}, with your changes", approval.name);
            approval.why = "your edited arguments were not checked by any rule".to_owned();
            approval.risk = Risk::High;
            approval.input = input.clone();
            (approval.diff, approval.rule, approval.shown) = (None, None, None);
            approval.options.clear();
        }
        let show = match self.answers {
            // Nobody can look at it: the line of the call says the rest.
            ApprovalMode::Yes(_) | ApprovalMode::No(_) if self.view.is_progress_only() => false,
            _ => self.view.show_approval(&approval, show_all),
        };
        match self.answers {
            ApprovalMode::Person => {
                let screen = &self.view.screen;
                let edit = self.editor.is_some();
                let more = blocks::OptionalKeys { edit, show };
                let keys =
                    blocks::question_keys(screen.styler, screen.width(), approval.rule.as_deref(), more);
                let head = self.view.question_head(&approval, self.input.questions.len() - 1);
                self.view.ask(head.clone(), keys);
                if self.input.questions.len() > 1 {
                    self.view.live.update_head(head);
                    self.view.refresh_status();
                }
                self.input.can_show = show;
                self.input.shown_at = Some(clock::now());
                Ok(())
            }
            ApprovalMode::Yes(reason) => {
                self.view.show_hint(reason);
                self.send_decision(Decision::Allow, None).await
            }
            ApprovalMode::No(reason) => {
                let subject = blocks::question_subject(&approval);
                self.view.show_warning(format!("denied: {subject}: {reason}"));
                self.send_decision(Decision::Deny, Some(reason.to_owned())).await
            }
        }
    }

    /// Checks that the server still answers, and says so if it does not.
    async fn check_server(&mut self, hang: &mut HangWatch) -> StepResult {
        match hang.check(clock::now()) {
            HangStep::Nothing => {}
            HangStep::Ping => {
                let params = ListApprovalsParams {
                    session_id: Some(self.session.to_owned()),
                };
                // Every server answers this at once.
                self.client.start_request(method::LIST_APPROVALS, &params).await?;
            }
            HangStep::Tell => self.view.live.note_hang(),
        }
        Ok(())
    }

    async fn handle_key(&mut self, key: &Key) -> StepResult {
        let now = clock::now();
        let question = self.input.open_question();
        let is_deliberate = self.input.held_key.note_key(key, now, question.as_deref());
        if *key == Key::CtrlC {
            // A letter held before the Ctrl-C must not answer a question afterwards.
            self.input.held_key.release_letter(None);
            return self.handle_ctrl_c().await;
        }
        // Terminals send Alt+key as Esc and the key: an Esc right before another key looks the same.
        if let Key::Alt(letter) = key
            && self.is_line_empty()
        {
            if is_deliberate {
                self.handle_escape().await?;
            }
            if letter.is_control() {
                return Ok(());
            }
            self.draft.take(key);
            self.view.set_draft(&self.draft.text);
            return Ok(());
        }
        if self.input.reason.is_some() {
            return self.reason_key(key).await;
        }
        if self.input.questions.is_empty()
            && self.input.inquiries.shown_at.is_some()
            && self.input.inquiries.draft_text().is_some()
        {
            return self.inquiry_key(key).await;
        }
        // Keys answer only on an empty line and after a pause: a user who types text must not answer by accident.
        if let Some(question) = question
            && self.draft.text.is_empty()
            && self.answer_by_key(key, now, &question, is_deliberate).await?
        {
            return Ok(());
        }
        if *key == Key::Esc && self.draft.text.is_empty() {
            return if is_deliberate {
                self.handle_escape().await
            } else {
                Ok(())
            };
        }
        match self.draft.take(key) {
            Some(line) if !line.trim().is_empty() => return self.handle_typed_line(line).await,
            _ => self.view.set_draft(&self.draft.text),
        }
        Ok(())
    }

    /// Applies a key to the open question. Returns false if the key is text for the model.
    async fn answer_by_key(
        &mut self,
        key: &Key,
        now: Instant,
        question: &str,
        is_deliberate: bool,
    ) -> Result<bool, ClientError> {
        let input = &mut self.input;
        let is_free = input.questions.is_empty() && input.held_key.due_at().is_none();
        if is_deliberate && is_free && input.inquiries.acts_immediately(key) {
            self.inquiry_key(key).await?;
            return Ok(true);
        }
        let may_answer = is_deliberate && input.may_answer(key);
        match input.held_key.take(key, now, question, may_answer) {
            KeyRole::Held => {
                if let Key::Char(letter) = key {
                    self.view.set_field(&input.format_held_key_hint(*letter));
                }
            }
            KeyRole::Answer(letter) => self.answer_by_letter(letter).await?,
            KeyRole::Dropped => self.view.set_draft(""),
            KeyRole::Text(first) => {
                let begins_text = match key {
                    // A command.
                    Key::Char('/') if first.is_none() => false,
                    Key::Char(_) | Key::Paste(_) => true,
                    _ => false,
                };
                // What is typed at a question for a text is its answer, visibly; the model must not get it.
                if begins_text && is_deliberate && input.questions.is_empty() && input.inquiries.begin_text()
                {
                    for key in first.map(Key::Char).iter().chain([key]) {
                        self.inquiry_key(key).await?;
                    }
                    return Ok(true);
                }
                if let Some(first) = first {
                    self.draft.take(&Key::Char(first));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the user is typing nothing: no draft, reason, held letter or field.
    fn is_line_empty(&self) -> bool {
        self.draft.text.is_empty() && !self.input.has_text()
    }

    /// Handles Esc on an empty line: denies or dismisses the open question, else cancels the turn.
    async fn handle_escape(&mut self) -> StepResult {
        if self.input.shown_at.is_some() {
            return self.send_decision(Decision::Deny, None).await;
        }
        if self.input.questions.is_empty() && self.input.inquiries.shown_at.is_some() {
            return self.inquiry_key(&Key::Esc).await;
        }
        self.input.stopped = true;
        self.send_cancel().await
    }

    async fn reason_key(&mut self, key: &Key) -> StepResult {
        if *key == Key::Esc {
            self.draft.cleared.extend(self.input.typed_answer());
            self.input.reason = None;
            self.view.set_draft("");
            return self.show_question(false).await;
        }
        let reason = self.input.reason.as_mut();
        let Some(feedback) = reason.and_then(|reason| reason.take(key)) else {
            self.show_reason();
            return Ok(());
        };
        self.input.reason = None;
        let feedback = Some(feedback.trim().to_owned()).filter(|feedback| !feedback.is_empty());
        self.send_decision(Decision::Deny, feedback).await
    }

    /// The held letter's time is over: it answers the question it was pressed at, or becomes text.
    async fn answer_held(&mut self) -> StepResult {
        let question = self.input.open_question();
        match self.input.held_key.release_letter(question.as_deref()) {
            Some((letter, true)) => self.answer_by_letter(letter).await?,
            Some((letter, false)) => {
                self.draft.take(&Key::Char(letter));
                self.view.set_draft(&self.draft.text);
            }
            None => {}
        }
        Ok(())
    }

    /// Applies a letter to the open question.
    async fn answer_by_letter(&mut self, letter: char) -> StepResult {
        self.view.set_draft("");
        if self.input.questions.is_empty() {
            return self.inquiry_key(&Key::Char(letter)).await;
        }
        match parse_approval_key(letter, self.input.has_rule()) {
            Some(ApprovalAction::Decide(Decision::Deny)) => {
                self.input.reason = Some(Draft::default());
                // A dumb terminal has no status line, so it shows the prompt for the reason as a note.
                if self.view.screen.styler.dumb {
                    self.view.show_hint(REASON);
                }
                self.show_reason();
            }
            Some(ApprovalAction::Decide(decision)) => self.send_decision(decision, None).await?,
            Some(ApprovalAction::Edit) => self.input.edit = self.editor.is_some(),
            Some(ApprovalAction::ShowDiff) if self.input.can_show => self.show_question(true).await?,
            Some(ApprovalAction::ShowDiff) | None => {}
        }
        Ok(())
    }

    /// Handles a line typed during the turn: text steers, a few commands act now, the others return to the draft.
    async fn handle_typed_line(&mut self, line: String) -> StepResult {
        match slash::parse(&line) {
            None | Some(Ok(Slash::Own(_))) => return self.send_steer(line).await,
            Some(Ok(Slash::Queue(QueueCommand::Add(words)))) => return self.queue_prompt(&words).await,
            Some(Ok(Slash::Quit)) => self.input.wants_to_leave = true,
            refused => {
                let later = "! commands work after the turn ends; Ctrl-C cancels it";
                let message = refused.and_then(Result::err);
                self.view.show_warning(message.as_deref().unwrap_or(later));
                prepend_to_draft(self.draft, &line);
            }
        }
        self.view.set_draft(&self.draft.text);
        Ok(())
    }

    fn show_reason(&mut self) {
        let reason = self.input.reason.as_ref();
        let typed = reason.map_or("", |reason| reason.text.as_str());
        self.view.set_field(&format!("{REASON} {typed}"));
    }

    async fn send_decision(&mut self, decision: Decision, feedback: Option<String>) -> StepResult {
        let Some(approval) = self.input.questions.front() else {
            return Ok(());
        };
        let edited = self.input.edited_input();
        let edited = edited.filter(|_| decision != Decision::Deny);
        let sent = SentRequest::Decision(approval.approval_id.clone(), feedback.clone());
        let params = ApprovalRespondParams {
            approval_id: approval.approval_id.clone(),
            decision,
            feedback,
            input: edited.cloned(),
            rule: None,
        };
        // The approval stays first until the server reports its resolution, but no key may answer it twice.
        self.input.shown_at = None;
        self.view.close_question();
        self.send_answer(method::APPROVAL_RESPOND, &params, sent).await
    }

    /// Sends the answer to a question.
    async fn send_answer<P: Serialize>(
        &mut self,
        method: &'static str,
        params: &P,
        sent: SentRequest,
    ) -> StepResult {
        let id = self.client.start_request(method, params).await?;
        self.input.sent.insert(id, sent);
        self.view.set_draft("");
        Ok(())
    }

    async fn send_steer(&mut self, text: String) -> StepResult {
        let params = SteerParams {
            session_id: self.session.to_owned(),
            prompt: PromptContent::Text(text.clone()),
            expected_turn_id: None,
        };
        self.send(method::STEER, &params, text).await
    }

    /// Adds a prompt to the session's queue; it runs after the turn.
    async fn queue_prompt(&mut self, words: &str) -> StepResult {
        let params = QueueParams {
            session_id: self.session.to_owned(),
            action: QueueAction::Add,
            prompt_id: None,
            prompt: Some(PromptContent::Text(words.to_owned())),
        };
        let typed = format!("/queue {words}");
        self.send(method::QUEUE, &params, typed).await
    }

    /// Sends a request for what was `typed`. If the connection fails, the text returns to the draft.
    async fn send<P: Serialize>(&mut self, method: &'static str, params: &P, typed: String) -> StepResult {
        match self.client.start_request(method, params).await {
            Ok(id) => {
                self.view.begin_sending(&typed);
                self.input.sent.insert(id, SentRequest::Text(typed));
                Ok(())
            }
            Err(error) => {
                prepend_to_draft(self.draft, &typed);
                Err(error)
            }
        }
    }

    async fn handle_response(&mut self, id: u64, result: Result<Value, ClientError>) -> StepResult {
        match (self.input.sent.remove(&id), result) {
            (Some(SentRequest::Text(text)), Ok(_)) => self.view.show_sent(&text),
            (Some(SentRequest::Text(text)), Err(error)) => {
                self.view.forget_sent(&text);
                self.view.show_warning(format!("! not sent: {error}"));
                prepend_to_draft(self.draft, &text);
                self.view.set_draft(&self.draft.text);
            }
            (Some(sent), Err(error)) => {
                self.view.show_warning(format!("! {error}"));
                // Still undecided, so ask again. If someone else settled it, the notification follows.
                if matches!(self.answers, ApprovalMode::Person) {
                    self.restore_answer(sent);
                    self.show_question(false).await?;
                    if self.input.reason.is_some() {
                        self.show_reason();
                    }
                }
            }
            (Some(SentRequest::Decision(..) | SentRequest::Answer(..)), Ok(_)) | (None, _) => {}
        }
        Ok(())
    }

    /// Handles Ctrl-C: the first cancels the turn, the second leaves even if the server does not react.
    async fn handle_ctrl_c(&mut self) -> StepResult {
        if self.input.cancelled.is_some() {
            self.input.wants_to_leave = true;
            return Ok(());
        }
        self.input.cancelled = Some(clock::now());
        self.input.stopped = true;
        self.send_cancel().await
    }

    async fn send_cancel(&mut self) -> StepResult {
        let params = CancelNotification {
            session_id: self.session.to_owned(),
            turn_id: None,
        };
        self.view.wait_for("canceling; Ctrl-C leaves");
        self.client.send_notification(method::CANCEL, &params).await
    }
}

/// Returns to the draft what the server accepted, but no model saw (I16).
fn return_steers(draft: &mut Draft, ended: &TurnEndedNotification) {
    let steers = ended.unused_steers.iter();
    prepend_all_to_draft(draft, steers.map(|steer| join_text_blocks(steer)).collect());
}

/// Puts texts, in this order, in front of the draft.
pub(super) fn prepend_all_to_draft(draft: &mut Draft, texts: Vec<String>) {
    for text in texts.into_iter().rev() {
        prepend_to_draft(draft, &text);
    }
}

/// Puts text in front of the draft, so that typed text is never lost (I16).
pub(super) fn prepend_to_draft(draft: &mut Draft, text: &str) {
    if !draft.text.is_empty() {
        draft.text.insert(0, ' ');
    }
    draft.text.insert_str(0, text);
}

async fn next_key(keys: &mut Option<RawKeys>) -> Option<Key> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}
