//! One turn at a terminal: what the server says is shown, keys and signals are obeyed, questions answered.
//!
//! Used by `chat`, `demo` and `run`. It ends with the answer to the prompt, which the server gives after
//! `agent/turnEnded`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::blocks;
use super::chat::queue::Queued;
use super::chat::slash::{self, Slash};
use super::client::{ClientError, ServerClient, ServerMessage};
use super::external_editor::{self, EditError, ExternalEditor};
use super::held_key::{HeldKey, KeyRole};
use super::inquiry::{Inquiries, InquiryStep};
use super::keys::{Draft, Key, RawKeys, answer_of, is_deliberate, sleep_until};
use super::signals::{SignalAction, Signals};
use super::style::{Color, Styler};
use super::view::View;
use crate::base::clock::{self, Instant};
use crate::protocol::table::method;
use crate::protocol::{
    APPROVAL_KEYS, ApprovalAction, ApprovalRequestedNotification, ApprovalRespondParams, CancelNotification,
    Decision, MessageBlock, PromptContent, PromptResult, QueueAction, QueueParams, Risk, ServerNotification,
    SteerParams,
};

/// Two Ctrl-C within this time leave where no turn runs.
pub(super) const TWICE: Duration = Duration::from_secs(2);
/// How often the line that does not stay is drawn.
const TICK: Duration = Duration::from_millis(100);

/// When a turn has been seen through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// The request is answered.
    Answered(u64),
    /// A turn ends; nobody has asked for an answer.
    TurnEnds,
}

/// Who answers questions.
#[derive(Clone, Debug)]
pub(super) enum ApprovalMode {
    /// The person at the terminal.
    Person,
    /// Yes to all, and it is said so.
    Yes(&'static str),
    /// No to all; the reason is told to the model and shown.
    No(&'static str),
}

/// What someone who watches the turn wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserIntent {
    GoOn,
    Cancel,
}

/// A turn to be seen through.
pub(super) struct TurnRunner<'a> {
    pub(super) client: &'a mut ServerClient,
    pub(super) view: &'a mut View,
    pub(super) signals: &'a mut Signals,
    pub(super) session: &'a str,
    pub(super) answers: ApprovalMode,
    /// What is typed meanwhile and not sent; also steers that the turn did not use.
    pub(super) draft: &'a mut Draft,
    /// Opens what is to be changed; none: nothing can be.
    pub(super) editor: Option<&'a ExternalEditor>,
    /// Sees every notification before it is shown.
    pub(super) watch: &'a mut (dyn FnMut(&ServerNotification) -> UserIntent + Send),
}

/// How it went.
#[derive(Debug)]
pub(super) struct TurnEndReport {
    /// The answer; none when the person left before it.
    pub(super) result: Option<Result<PromptResult, ClientError>>,
    /// The person wants to leave.
    pub(super) leave: bool,
    /// When Ctrl-C was pressed.
    pub(super) cancelled: Option<Instant>,
    stopped: bool,
}

impl TurnEndReport {
    /// Whether the person stopped it or left.
    pub(super) fn was_stopped(&self) -> bool {
        self.leave || self.stopped
    }
}

/// What goes on besides showing.
#[derive(Default)]
struct TurnDesk {
    /// Questions that wait, the first is shown.
    questions: VecDeque<ApprovalRequestedNotification>,
    shown: Option<Instant>,
    /// Limits and questions; they come after approvals.
    inquiries: Inquiries,
    /// The reason for a no, being typed.
    reason: Option<Draft>,
    /// A letter that may answer.
    held: HeldKey,
    /// The first question's input is to be edited.
    edit: bool,
    /// It was edited.
    edited: Option<EditedInput>,
    /// Requests under way: steers with their text, decisions with none.
    sent: BTreeMap<u64, Option<String>>,
    cancelled: Option<Instant>,
    /// The person has stopped the turn, by Ctrl-C or Esc.
    stopped: bool,
    leave: bool,
}

/// The input of a call as the person left it.
struct EditedInput {
    text: String,
    /// What it says; none when that is not understood.
    input: Option<Value>,
}

impl TurnRunner<'_> {
    /// Sees a turn through.
    pub(super) async fn run_to_end(mut self, until: WaitFor) -> Result<TurnEndReport, ClientError> {
        let mut desk = TurnDesk::default();
        let result = self.run_loop(until, &mut desk).await;
        self.view.set_idle();
        // What has no answer may not have arrived.
        for text in desk.sent.into_values().rev().flatten() {
            give_back(self.draft, &text);
        }
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error| ClientError::NotUnderstood {
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

    /// Until its end, and until all that was typed before it is answered; what answers the request.
    async fn run_loop(
        &mut self,
        until: WaitFor,
        desk: &mut TurnDesk,
    ) -> Result<Option<Result<Value, ClientError>>, ClientError> {
        // Without a terminal to read from there are no keys.
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
        while ended.is_none() || desk.sent.values().any(Option::is_some) {
            tokio::select! { biased;
                action = self.signals.next() => match action {
                    SignalAction::Cancel => self.handle_ctrl_c(desk).await?,
                    SignalAction::Leave => desk.leave = true,
                },
                // After the end they are for the prompt.
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
                // The terminal is the editor's meanwhile.
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
        desk: &mut TurnDesk,
    ) -> Result<(), ClientError> {
        if (self.watch)(told) == UserIntent::Cancel {
            self.send_cancel().await?;
        }
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
                for steer in &ended.unused_steers {
                    give_back(self.draft, &join_text_blocks(steer));
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

    /// Shows the first limit or question; only a person answers it, and others are not asked.
    fn show_inquiry(&mut self, desk: &mut TurnDesk) {
        let styler: Styler = self.view.screen.styler;
        if let Some(lines) = desk.inquiries.render_first(styler)
            && matches!(self.answers, ApprovalMode::Person)
        {
            self.view.show_inquiry_lines(&lines);
            desk.inquiries.shown = Some(clock::now());
        }
    }

    async fn inquiry_key(&mut self, key: &Key, now: Instant, desk: &mut TurnDesk) -> Result<(), ClientError> {
        match desk.inquiries.handle_key(key, now) {
            InquiryStep::Nothing => {}
            InquiryStep::Typing(line) => self.view.set_draft(&line),
            InquiryStep::Show => self.show_inquiry(desk),
            InquiryStep::Wrong(why) => {
                self.view.set_draft("");
                self.view.show_note(Color::Yellow, &format!("! {why}"));
            }
            InquiryStep::Answer(method, params) => {
                // It stays the first until it is told to be resolved, but no key answers it twice.
                desk.inquiries.shown = None;
                let id = self.client.start_request(method, &params).await?;
                desk.sent.insert(id, None);
                self.view.set_draft("");
            }
        }
        Ok(())
    }

    /// Shows the first question, or answers it where no person does.
    async fn show_question(&mut self, desk: &mut TurnDesk, whole: bool) -> Result<(), ClientError> {
        let Some(mut asked) = desk.questions.front().cloned() else {
            desk.shown = None;
            self.view.open_question(None);
            self.show_inquiry(desk);
            return Ok(());
        };
        if let Some(input) = desk.edited_input() {
            // Its effect is not known here: it is shown as it stands, and no rule goes with it.
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

    async fn handle_key(&mut self, key: &Key, desk: &mut TurnDesk) -> Result<(), ClientError> {
        let now = clock::now();
        if *key == Key::CtrlC {
            desk.held.release_letter(None);
            return self.handle_ctrl_c(desk).await;
        }
        // Esc that is pressed right before another key arrives as one with it.
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
        if let Some(question) = desk.open_question()
            && self.draft.text.is_empty()
            && is_deliberate(now, self.draft.touched)
        {
            let asks_inquiry = desk.questions.is_empty();
            if asks_inquiry && desk.held.due_at().is_none() && desk.inquiries.takes_at_once(key) {
                return self.inquiry_key(key, now, desk).await;
            }
            match desk.held.take(key, now, &question, desk.may_answer(key)) {
                KeyRole::Held => {
                    if let Key::Char(letter) = key {
                        self.view.set_draft(&desk.held_line(*letter));
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

    /// Whether nothing is being typed.
    fn is_line_empty(&self, desk: &TurnDesk) -> bool {
        self.draft.text.is_empty()
            && desk.reason.is_none()
            && desk.held.due_at().is_none()
            && desk.inquiries.draft_text().is_none()
    }

    /// Esc with nothing typed: a no to what is asked now, else the end of the turn.
    async fn handle_escape(&mut self, desk: &mut TurnDesk) -> Result<(), ClientError> {
        if desk.shown.is_some() {
            return self.send_decision(desk, Decision::Deny, None).await;
        }
        if desk.questions.is_empty() && desk.inquiries.shown.is_some() {
            return self.inquiry_key(&Key::Esc, clock::now(), desk).await;
        }
        desk.stopped = true;
        self.send_cancel().await
    }

    async fn reason_key(&mut self, key: &Key, now: Instant, desk: &mut TurnDesk) -> Result<(), ClientError> {
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

    /// The letter that waited has waited long enough: it answers the question it was pressed at, or is text.
    async fn answer_held(&mut self, desk: &mut TurnDesk) -> Result<(), ClientError> {
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

    /// A letter answers what is asked now.
    async fn answer_by_letter(&mut self, letter: char, desk: &mut TurnDesk) -> Result<(), ClientError> {
        self.view.set_draft("");
        if desk.questions.is_empty() {
            return self.inquiry_key(&Key::Char(letter), clock::now(), desk).await;
        }
        match answer_of(letter, desk.has_rule()) {
            Some(ApprovalAction::Decide(Decision::Deny)) => {
                desk.reason = Some(Draft::default());
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

    /// A line typed meanwhile: words steer; of the commands few are obeyed now, the others wait as they stand.
    async fn handle_typed_line(&mut self, line: String, desk: &mut TurnDesk) -> Result<(), ClientError> {
        match slash::parse(&line) {
            None | Some(Ok(Slash::Own(_))) => return self.send_steer(line, desk).await,
            Some(Ok(Slash::Queue(Queued::Add(words)))) => return self.queue_prompt(&words, desk).await,
            Some(Ok(Slash::Quit)) => desk.leave = true,
            Some(Ok(_)) => {
                let why = "! commands work after the turn ends; Ctrl-C cancels it";
                self.view.show_note(Color::Yellow, why);
                give_back(self.draft, &line);
            }
            Some(Err(why)) => {
                self.view.show_note(Color::Yellow, &why);
                give_back(self.draft, &line);
            }
        }
        self.view.set_draft(&self.draft.text);
        Ok(())
    }

    fn show_reason(&mut self, desk: &TurnDesk) {
        let typed = desk.reason.as_ref().map_or("", |reason| reason.text.as_str());
        self.view
            .set_draft(&format!("no, because (Enter: no reason; Esc: back) {typed}"));
    }

    async fn send_decision(
        &mut self,
        desk: &mut TurnDesk,
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
        // The question stays the first until it is told to be resolved, but no key answers it twice.
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

    async fn send_steer(&mut self, text: String, desk: &mut TurnDesk) -> Result<(), ClientError> {
        let params = SteerParams {
            session_id: self.session.to_owned(),
            prompt: PromptContent::Text(text.clone()),
            expected_turn_id: None,
        };
        self.send(method::STEER, &params, text, desk).await
    }

    /// What is typed after `/queue` waits for the turn's end.
    async fn queue_prompt(&mut self, words: &str, desk: &mut TurnDesk) -> Result<(), ClientError> {
        let params = QueueParams {
            session_id: self.session.to_owned(),
            action: QueueAction::Add,
            prompt_id: None,
            prompt: Some(PromptContent::Text(words.to_owned())),
        };
        let typed = format!("/queue {words}");
        self.send(method::QUEUE, &params, typed, desk).await
    }

    /// Sends what was `typed`; it is given back when no answer comes.
    async fn send<P: Serialize>(
        &mut self,
        method: &'static str,
        params: &P,
        typed: String,
        desk: &mut TurnDesk,
    ) -> Result<(), ClientError> {
        match self.client.start_request(method, params).await {
            Ok(id) => drop(desk.sent.insert(id, Some(typed))),
            Err(gone) => {
                give_back(self.draft, &typed);
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
        desk: &mut TurnDesk,
    ) -> Result<(), ClientError> {
        match (desk.sent.remove(&id), result) {
            (Some(Some(text)), Ok(_)) => self.view.show_note(Color::Cyan, &format!("› {text}")),
            (Some(Some(text)), Err(error)) => {
                self.view
                    .show_note(Color::Yellow, &format!("! not sent: {error}"));
                give_back(self.draft, &text);
                self.view.set_draft(&self.draft.text);
            }
            (Some(None), Err(error)) => {
                self.view.show_note(Color::Yellow, &format!("! {error}"));
                // It was not decided, so it is still asked; settled elsewhere, it is told to be in a moment.
                if matches!(self.answers, ApprovalMode::Person) {
                    self.show_question(desk, false).await?;
                }
            }
            (Some(None), Ok(_)) | (None, _) => {}
        }
        Ok(())
    }

    /// The first question's input goes to the editor and comes back; then it is asked again.
    async fn edit_input(&mut self, desk: &mut TurnDesk) -> Result<(), ClientError> {
        let Some(asked) = desk.questions.front().cloned() else {
            return Ok(());
        };
        let whole = self.whole_input(&asked).await?;
        let text = match desk.edited.take() {
            Some(edited) => edited.text,
            None => external_editor::text(&whole),
        };
        match self.in_editor(&asked, &text, desk).await? {
            _ if desk.leave => return Ok(()),
            Err(why) => {
                self.view.show_note(Color::Yellow, &format!("! {why}"));
            }
            Ok(text) => match external_editor::parse_input(&text) {
                Ok(input) if input == whole => self.view.show_note(Color::Dim, "nothing was changed"),
                Ok(input) => {
                    let input = Some(input);
                    desk.edited = Some(EditedInput { text, input });
                }
                Err(why) => {
                    self.view.show_note(Color::Yellow, &format!("! {why}"));
                    if !matches!(why, EditError::Empty) {
                        desk.edited = Some(EditedInput { text, input: None });
                    }
                }
            },
        }
        self.show_question(desk, false).await
    }

    /// What the person makes of `text`; what the server says meanwhile is kept.
    async fn in_editor(
        &mut self,
        asked: &ApprovalRequestedNotification,
        text: &str,
        desk: &mut TurnDesk,
    ) -> Result<Result<String, EditError>, ClientError> {
        let opened = match self.editor {
            Some(editor) => editor.open(&asked.name, text),
            None => Err(EditError::NotChosen),
        };
        let mut open = match opened {
            Ok(open) => open,
            Err(why) => return Ok(Err(why)),
        };
        self.view.show_note(
            Color::Dim,
            &format!("waiting until you close `{}` …", open.command()),
        );
        let mut said = Vec::new();
        let mut ended = None;
        let closed = loop {
            tokio::select! { biased;
                closed = open.wait_until_closed() => break closed,
                // A Ctrl-C there is the editor's.
                signal = self.signals.next() => if signal == SignalAction::Leave {
                    desk.leave = true;
                    break Err(EditError::Empty);
                },
                incoming = self.client.next(), if ended.is_none() => match incoming {
                    Ok(incoming) => said.push(incoming),
                    Err(error) => ended = Some(error),
                },
            }
        };
        if desk.leave {
            open.terminate_editor().await;
        }
        self.client.give_back(said);
        match ended {
            Some(error) => Err(error),
            None => Ok(closed),
        }
    }

    /// The input of the call; what was cut from it is asked for.
    async fn whole_input(&mut self, asked: &ApprovalRequestedNotification) -> Result<Value, ClientError> {
        let Some(more) = asked.more.get("input") else {
            return Ok(asked.input.clone());
        };
        let text = self.client.read_whole(self.session, &more.reference).await?;
        serde_json::from_str(&text).map_err(|error| ClientError::NotUnderstood {
            method: method::READ_CONTENT,
            error,
        })
    }

    /// Ctrl-C. A server that has not obeyed the first one gets no second chance.
    async fn handle_ctrl_c(&mut self, desk: &mut TurnDesk) -> Result<(), ClientError> {
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

impl TurnDesk {
    /// The id of the question that keys answer now.
    fn open_question(&self) -> Option<String> {
        match self.questions.front() {
            Some(asked) => self.shown.map(|_| asked.approval_id.clone()),
            None => self.inquiries.shown.and(self.inquiries.first_id()),
        }
    }

    /// Whether a key may answer what is asked now.
    fn may_answer(&self, key: &Key) -> bool {
        match key {
            Key::Char(letter) if !self.questions.is_empty() => answer_of(*letter, self.has_rule()).is_some(),
            Key::Char(letter) => self.inquiries.may_answer(*letter),
            _ => false,
        }
    }

    /// A letter that waits, and what it will do.
    fn held_line(&self, letter: char) -> String {
        let entry = APPROVAL_KEYS
            .iter()
            .find(|entry| entry.key == letter.to_ascii_lowercase());
        match entry.filter(|_| !self.questions.is_empty()) {
            Some(entry) => format!("{letter} · {}, unless you type on ", entry.label.to_lowercase()),
            None => letter.to_string(),
        }
    }

    /// Whether an answer to the first question may keep a rule.
    fn has_rule(&self) -> bool {
        let first = self.questions.front();
        first.is_some_and(|asked| asked.rule.is_some()) && self.edited_input().is_none()
    }

    /// The first question's input as the person changed it.
    fn edited_input(&self) -> Option<&Value> {
        self.edited.as_ref()?.input.as_ref()
    }
}

/// What was typed is never lost: it stands in the line that is typed next.
fn give_back(draft: &mut Draft, text: &str) {
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
