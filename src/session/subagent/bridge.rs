//! What stands between a child and its parent: it plays the session for the one and a tool for the other. It folds the
//! child's history, hands its calls and troubles on as nested ones, its questions to the person, and its words to
//! whoever watches; and it adds up what the child used.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::wall_time::PausableDeadline;
use crate::approval::{Policy, Verdict, judge_tool_call};
use crate::base::text;
use crate::context::History;
use crate::domain::{
    ContinueReason, Cost, Delta, Effect, Event, FinalAnswer, Message, MessageId, Mode, RequestSubject, Role,
    SubagentEvent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult, Transition, Usage,
};
use crate::tool::{ChildState, SubagentJob, SubagentReport, ToolProgress};
use crate::turn::{COMPACTION_FAILED, Inquire, Judgement, MODEL_CHOSEN, SessionLink, StepInput, TurnRequest};

/// So much of a child's words is told while it works, in characters.
const LIVE: usize = 30_000;

/// See the module.
pub(super) struct SubagentBridge {
    up: SessionLink,
    /// The call that delegated.
    call: ToolCallId,
    label: Option<String>,
    /// Its agent only reads, whatever the session may do.
    read_only: bool,
    history: History,
    failed_compactions: u32,
    answer: FinalAnswer,
    /// The message in progress.
    partial: Option<(MessageId, String)>,
    /// Calls without an end, its own and those of its own sub-agents, in the order in which they began.
    open: Vec<ToolCallUpdate>,
    usage: Usage,
    /// Known as long as every call's is.
    cost: Option<Cost>,
    /// Answers that it waits for; whether it still wanted each.
    answers: FuturesUnordered<BoxFuture<'static, bool>>,
    clock: PausableDeadline,
    timed_out: bool,
    live: ShownSubagent,
}

impl SubagentBridge {
    pub(super) fn new(job: &SubagentJob, up: SessionLink, read_only: bool) -> Self {
        Self {
            up,
            call: job.call.clone(),
            label: job.label.clone(),
            read_only,
            history: History::default(),
            failed_compactions: 0,
            answer: FinalAnswer::default(),
            partial: None,
            open: Vec::new(),
            usage: Usage::default(),
            cost: Some(Cost(0)),
            answers: FuturesUnordered::new(),
            clock: PausableDeadline::start_with_limit(Some(job.limit)),
            timed_out: false,
            live: ShownSubagent {
                news: job.news.clone(),
                label: job.label.clone(),
                left: LIVE,
                line: String::new(),
            },
        }
    }

    /// Something is said to the child.
    pub(super) fn push_user_message(&mut self, message: Message) {
        self.history.apply(&Event::Message(message.into()));
    }

    /// When the child's time is up, or that of its last words.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clock.deadline()
    }

    /// The time is up; there is so much more for last words.
    pub(super) fn wraps_up(&mut self, limit: Duration) {
        self.timed_out = true;
        self.clock = PausableDeadline::start_with_limit(Some(limit));
    }

    /// That time is up too.
    pub(super) fn is_cut(&mut self) {
        self.clock = PausableDeadline::default();
    }

    /// Whether its time was up before it was done.
    pub(super) fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Waits until an answer has come that the child waits for. While a person is waited for, its time stands.
    pub(super) async fn wait_for_answer(&mut self) {
        match self.answers.next().await {
            Some(wanted) => {
                if !wanted {
                    self.nobody_waits().await;
                }
                if self.answers.is_empty() {
                    self.clock.resume();
                }
            }
            None => std::future::pending().await,
        }
    }

    /// What somebody beyond answers, at the child's cost of no time.
    fn wait_for<T: Send + 'static>(&mut self, mut reply: oneshot::Sender<T>) -> oneshot::Sender<T> {
        let (asked, answer) = oneshot::channel();
        self.clock.pause();
        let waiting = async move {
            tokio::select! { biased;
                answer = answer => {
                    if let Ok(answer) = answer {
                        // It may have been stopped meanwhile.
                        let _ = reply.send(answer);
                    }
                    true
                }
                () = reply.closed() => false,
            }
        };
        self.answers.push(waiting.boxed());
        asked
    }

    async fn nobody_waits(&mut self) {
        // The turn is over when nobody listens.
        let _ = self.up.forward_request(TurnRequest::Gone).await;
    }

    /// Takes in what the child tells or asks.
    pub(super) async fn take(&mut self, message: crate::turn::TurnMessage) {
        let crate::turn::TurnMessage { body, permit } = message;
        match body {
            TurnRequest::Event(event) => self.handle_event(event).await,
            TurnRequest::BeginStep(reply) => self.begin_step(reply).await,
            // No person speaks to it.
            TurnRequest::Hear(reply) => _ = reply.send(Vec::new()),
            TurnRequest::InputVerdict { .. } => {}
            TurnRequest::MayEnd(reply) => _ = reply.send(true),
            TurnRequest::Judge {
                tool,
                effect,
                approval,
                reply,
            } => match self.denial_reason(&tool, &effect) {
                Some(why) => _ = reply.send(Judgement::Deny(why)),
                None => {
                    self.forward_request(TurnRequest::Judge {
                        tool,
                        effect,
                        approval,
                        reply,
                    })
                    .await;
                }
            },
            TurnRequest::Ask { question, reply } => {
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::Ask { question, reply }).await;
            }
            TurnRequest::PersonRequest { asked, reply } => {
                let asked = self.of_child(asked);
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::PersonRequest { asked, reply })
                    .await;
            }
            TurnRequest::MayStep(reply) => {
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::MayStep(reply)).await;
            }
            TurnRequest::WaitsBeside(over) => {
                let (waits, over_above) = oneshot::channel::<()>();
                self.clock.pause();
                let waiting = async move {
                    // Nothing is ever sent: it is dropped when the wait is over.
                    let _ = over.await;
                    drop(waits);
                    true
                };
                self.answers.push(waiting.boxed());
                self.forward_request(TurnRequest::WaitsBeside(over_above)).await;
            }
            TurnRequest::Gone => self.nobody_waits().await,
        }
        drop(permit);
    }

    async fn forward_request(&mut self, body: TurnRequest) {
        // The turn is over when nobody listens; then the child is, too.
        let _ = self.up.forward_request(body).await;
    }

    /// What its agent may not do, though the session may.
    fn denial_reason(&self, tool: &str, effect: &Effect) -> Option<String> {
        let plan = Policy {
            mode: Mode::Plan,
            ..Policy::default()
        };
        match judge_tool_call(&plan, tool, effect) {
            Verdict::Deny { why } if self.read_only => Some(why),
            Verdict::Deny { .. } | Verdict::Allow { .. } | Verdict::Ask { .. } => None,
        }
    }

    fn of_child(&self, asked: Inquire) -> Inquire {
        match asked {
            Inquire::New(mut subject) => {
                if let RequestSubject::Limit(reached) = &mut subject {
                    let who = self
                        .label
                        .as_deref()
                        .map_or(String::new(), |label| format!(" {label}"));
                    reached.message = format!("sub-agent{who}: {}", reached.message);
                }
                Inquire::Nested {
                    parent: self.call.clone(),
                    subject,
                }
            }
            asked @ (Inquire::Nested { .. } | Inquire::Again(_)) => asked,
        }
    }

    /// The history for the next request, as soon as the turn goes on.
    async fn begin_step(&mut self, reply: oneshot::Sender<StepInput>) {
        // Its work was cut, and what it has left open is no history to go on with.
        self.settle_open_items().await;
        let begun = StepInput {
            items: self.history.to_messages(),
            failed_compactions: self.failed_compactions,
        };
        let (may_step, goes_on) = oneshot::channel();
        self.clock.pause();
        let waiting = async move {
            if goes_on.await.is_ok() {
                let _ = reply.send(begun);
            }
            true
        };
        self.answers.push(waiting.boxed());
        self.forward_request(TurnRequest::MayStep(may_step)).await;
    }

    async fn handle_event(&mut self, event: Event) {
        if let Event::Transition { transition, .. } = &event {
            self.answer.record_transition(*transition);
        }
        match event {
            Event::Message(message) => {
                if message.role == Role::Assistant {
                    self.partial = None;
                    let text = message.text();
                    if !text.trim().is_empty() {
                        self.answer.push_message(&text);
                    }
                    self.live.finish_message().await;
                }
                self.history.apply(&Event::Message(message));
            }
            Event::MessageRetracted { .. } => {
                self.history.apply(&event);
                if self.partial.take().is_some_and(|(_, text)| !text.is_empty()) {
                    self.live
                        .push_text("\n(taken back: the answer broke off)\n")
                        .await;
                }
            }
            Event::ToolCall(update) => self.tool_call(update).await,
            Event::Delta(Delta::Text { message, text, .. }) => {
                self.live.push_text(&text).await;
                match &mut self.partial {
                    Some((id, partial)) if *id == message => partial.push_str(&text),
                    _ => self.partial = Some((message, text)),
                }
            }
            // Live output of its tools; a cancel may drop what is nobody's only carrier.
            Event::Delta(Delta::ToolOutput { .. }) => _ = self.up.emit_event(event).await,
            Event::Compacted(_) => {
                self.history.apply(&event);
                if let Event::Compacted(compaction) = &event
                    && compaction.summary.as_ref().is_some_and(|summary| !summary.digest)
                {
                    self.failed_compactions = 0;
                }
                self.emit_nested_event(event).await;
            }
            Event::Usage { step, step_cost, .. } => {
                self.record_usage(step, step_cost);
                self.emit_nested_event(event).await;
            }
            Event::Nested(nested) => {
                if let Event::Usage { step, step_cost, .. } = nested.event {
                    self.record_usage(step, step_cost);
                }
                self.hand_on(Event::Nested(nested)).await;
            }
            // Of the session nobody chose a model, and each step that just leads on is no news.
            Event::Warning { ref code, .. } if code == MODEL_CHOSEN => {}
            Event::Transition { transition, .. } if !is_recovery(transition) => {}
            Event::Warning { ref code, .. } => {
                self.failed_compactions += u32::from(code == COMPACTION_FAILED);
                self.emit_nested_event(event).await;
            }
            Event::Transition { .. }
            | Event::Retry { .. }
            | Event::Wait { .. }
            | Event::ModelSwitched { .. }
            | Event::Circuit { .. } => self.emit_nested_event(event).await,
            // The plan and the session's data are the person's own agent's to change.
            Event::Plan(_)
            | Event::SessionUpdated { .. }
            | Event::Instructions(_)
            | Event::Delta(Delta::Reasoning { .. } | Delta::ToolInput { .. })
            | Event::TurnStarted { .. }
            | Event::TurnEnded(_)
            | Event::ApprovalRequested(_)
            | Event::ApprovalResolved { .. }
            | Event::InquiryRequested(_)
            | Event::InquiryResolved { .. }
            | Event::QueueChanged(_)
            | Event::TurnDiff(_) => {}
        }
    }

    async fn tool_call(&mut self, mut update: ToolCallUpdate) {
        if update.parent.is_none() {
            self.history.apply(&Event::ToolCall(update.clone()));
            update.parent = Some(self.call.clone());
        }
        if update.status.is_final() {
            // Sub-agents that were cut with the call that made them end nothing themselves.
            let below = self.take_below(&update.id);
            self.end_open_calls(below).await;
            self.open.retain(|call| call.id != update.id);
        } else {
            match self.open.iter_mut().find(|call| call.id == update.id) {
                Some(call) => call.clone_from(&update),
                None => self.open.push(update.clone()),
            }
        }
        self.hand_on(Event::ToolCall(update)).await;
    }

    /// Takes out the open calls of sub-agents that `call` made, and of theirs.
    fn take_below(&mut self, call: &ToolCallId) -> Vec<ToolCallUpdate> {
        let mut above = vec![call.clone()];
        // Each stands behind the one that made it.
        let is_below = |open: &ToolCallUpdate| {
            let below = open.parent.as_ref().is_some_and(|parent| above.contains(parent));
            above.extend(below.then(|| open.id.clone()));
            below
        };
        let (below, others) = std::mem::take(&mut self.open).into_iter().partition(is_below);
        self.open = others;
        below
    }

    fn record_usage(&mut self, usage: Usage, cost: Option<Cost>) {
        self.usage += usage;
        self.cost = match (self.cost, cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            (Some(_) | None, _) => None,
        };
    }

    async fn emit_nested_event(&mut self, event: Event) {
        let parent = self.call.clone();
        self.hand_on(Event::Nested(Box::new(SubagentEvent { parent, event })))
            .await;
    }

    async fn hand_on(&mut self, event: Event) {
        // The turn is over when nobody listens.
        let _ = self.up.hand_on(event).await;
    }

    /// What the child has left open ends here: the message in progress is cut, calls are cancelled.
    pub(super) async fn settle_open_items(&mut self) {
        if let Some((id, text)) = self.partial.take()
            && !text.trim().is_empty()
        {
            let cut = Message {
                id,
                role: Role::Assistant,
                incomplete: true,
                ..Message::user_text(text.clone())
            };
            self.history.apply(&Event::Message(cut.into()));
            self.answer.push_message(&text);
        }
        let open = std::mem::take(&mut self.open);
        self.end_open_calls(open).await;
    }

    /// Ends calls that nobody ends any more.
    async fn end_open_calls(&mut self, open: Vec<ToolCallUpdate>) {
        let why = if self.timed_out {
            "the time of the sub-agent is up"
        } else {
            "cancelled"
        };
        // A sub-agent's own calls begin after the call that made it, and end before it.
        for call in open.into_iter().rev() {
            let own = call.parent.as_ref() == Some(&self.call);
            let mut ended = ToolCallUpdate {
                status: ToolCallStatus::Cancelled,
                input: None,
                result: Some(ToolResult::error(why).into()),
                diff: None,
                locations: Vec::new(),
                duration_ms: None,
                exit_code: None,
                parent: None,
                ..call
            };
            if own {
                self.history.apply(&Event::ToolCall(ended.clone()));
                ended.parent = Some(self.call.clone());
            } else {
                ended.parent = call.parent;
            }
            self.hand_on(Event::ToolCall(ended)).await;
        }
    }

    /// What became of the child, which has ended.
    pub(super) fn into_report(self, state: ChildState, why: Option<String>) -> SubagentReport {
        SubagentReport {
            state,
            why,
            text: self.answer.into_text(),
            usage: self.usage,
            cost: self.cost,
        }
    }
}

/// Whether a decision of the child's loop is about something that went wrong, or is asked of it beside its task.
fn is_recovery(transition: Transition) -> bool {
    match transition {
        Transition::Continue(ContinueReason::NextTurn) | Transition::Terminal(_) => false,
        Transition::Continue(_) => true,
    }
}

/// What a child says, as live output of the call that delegated to it. Where several speak at once, line by line.
struct ShownSubagent {
    news: mpsc::Sender<ToolProgress>,
    label: Option<String>,
    /// So many characters more.
    left: usize,
    /// The line in progress, where lines are kept together.
    line: String,
}

impl ShownSubagent {
    async fn push_text(&mut self, piece: &str) {
        if self.left == 0 {
            return;
        }
        let piece = text::prefix_within(piece, self.left);
        self.left -= piece.len();
        let mut out = match &self.label {
            None => piece.to_owned(),
            Some(label) => {
                self.line.push_str(piece);
                let end = self.line.rfind('\n').map_or(0, |at| at + 1);
                let rest = self.line.split_off(end);
                label_lines(label, &std::mem::replace(&mut self.line, rest))
            }
        };
        if self.left == 0 {
            out.push_str("\n… (its answer is told at its end)\n");
        }
        self.send(out).await;
    }

    /// A message is complete.
    async fn finish_message(&mut self) {
        let out = match &self.label {
            None => "\n".to_owned(),
            Some(label) => label_lines(label, &std::mem::take(&mut self.line)),
        };
        if self.left > 0 {
            self.send(out).await;
        }
    }

    async fn send(&self, out: String) {
        if !out.is_empty() {
            // Nobody listens after a cancel.
            let _ = self.news.send(ToolProgress::Output(out)).await;
        }
    }
}

fn label_lines(label: &str, lines: &str) -> String {
    lines.lines().map(|line| format!("[{label}] {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(label: Option<&str>, pieces: &[&str]) -> String {
        let (news, mut heard) = mpsc::channel(1_000);
        let mut live = ShownSubagent {
            news,
            label: label.map(str::to_owned),
            left: LIVE,
            line: String::new(),
        };
        for piece in pieces {
            match *piece {
                "END" => live.finish_message().await,
                piece => live.push_text(piece).await,
            }
        }
        drop(live);
        let mut all = String::new();
        while let Some(ToolProgress::Output(piece)) = heard.recv().await {
            all.push_str(&piece);
        }
        all
    }

    #[tokio::test]
    async fn one_is_told_as_it_speaks_and_several_line_by_line() {
        assert_eq!(told(None, &["a", "b\nc", "END"]).await, "ab\nc\n");
        let lines = told(Some("2 reader"), &["a", "b\nc", "END", "d"]).await;
        assert_eq!(lines, "[2 reader] ab\n[2 reader] c\n");
    }

    #[tokio::test]
    async fn so_much_and_no_more_is_told_live() {
        let long = "ä".repeat(20_000);
        let told = told(None, &[&long, "more", "END"]).await;
        assert_eq!(
            told,
            format!("{}\n… (its answer is told at its end)\n", "ä".repeat(15_000))
        );
    }

    #[test]
    fn only_what_went_wrong_is_told_of_a_childs_loop() {
        assert!(!is_recovery(Transition::Continue(ContinueReason::NextTurn)));
        assert!(is_recovery(Transition::Continue(
            ContinueReason::MaxOutputTokensEscalate
        )));
    }
}
