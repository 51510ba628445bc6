//! Connects a sub-agent to its parent: it acts as the session for the child, and as a tool for the parent.
//!
//! It folds the child's history, forwards its calls and problems as nested events, its questions to the user, and its
//! text as live output. It also adds up the child's usage. It must not decide when the child ends; `run_child` does.

use std::time::Duration;

use crate::base::clock::Instant;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::super::pausable_deadline::PausableDeadline;
use crate::approval::{Policy, Verdict, judge_tool_call};
use crate::base::text;
use crate::context::History;
use crate::domain::{
    ContinueReason, Cost, Delta, Effect, Event, FinalAnswer, Message, MessageId, Mode, RequestSubject, Role,
    SandboxPolicy, SubagentEvent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult, Transition, Usage,
};
use crate::tool::{ChildState, SubagentJob, SubagentReport, ToolProgress};
use crate::turn::{
    COMPACTION_FAILED, InquiryRequest, Judgement, MODEL_CHOSEN, SessionLink, StepInput, TurnRequest,
};

/// The characters of a child's text that are streamed while it works.
const LIVE: usize = 30_000;

/// The bridge of one sub-agent.
pub(super) struct SubagentBridge {
    up: SessionLink,
    /// The call that delegated.
    call: ToolCallId,
    label: Option<String>,
    /// Its agent only reads, whatever the session's mode is.
    read_only: bool,
    transcript: ChildTranscript,
    /// Calls without an end, its own and those of its own sub-agents, in the order in which they began.
    open: Vec<ToolCallUpdate>,
    usage: Usage,
    /// Known as long as the cost of every call is known.
    cost: Option<Cost>,
    /// Answers that the child waits for. Each yields whether the child still wanted it.
    answers: FuturesUnordered<BoxFuture<'static, bool>>,
    clock: PausableDeadline,
    timed_out: bool,
    live: ShownSubagent,
}

/// What a child was told and has said.
#[derive(Default)]
struct ChildTranscript {
    history: History,
    failed_compactions: u32,
    answer: FinalAnswer,
    /// The message that the model is writing.
    partial: Option<(MessageId, String)>,
}

impl SubagentBridge {
    pub(super) fn new(job: &SubagentJob, up: SessionLink, read_only: bool) -> Self {
        Self {
            up,
            call: job.call.clone(),
            label: job.label.clone(),
            read_only,
            transcript: ChildTranscript::default(),
            open: Vec::new(),
            usage: Usage::default(),
            // A child without calls costs nothing; only an unpriced call makes the sum unknown.
            cost: Some(Cost(0)),
            answers: FuturesUnordered::new(),
            clock: PausableDeadline::start_with_limit(Some(job.limit)),
            timed_out: false,
            live: ShownSubagent {
                progress: job.progress.clone(),
                label: job.label.clone(),
                remaining: LIVE,
                line: String::new(),
            },
        }
    }

    /// Adds a message to the child's history.
    pub(super) fn push_user_message(&mut self, message: Message) {
        self.transcript.history.apply(&Event::Message(message.into()));
    }

    /// Returns when the time of the child, or of its last step, is up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clock.deadline()
    }

    /// Records that the time is up, and gives the last step `limit`.
    pub(super) fn wraps_up(&mut self, limit: Duration) {
        self.timed_out = true;
        self.clock = PausableDeadline::start_with_limit(Some(limit));
    }

    /// Stops the clock: the last step's time is up too.
    pub(super) fn is_cut(&mut self) {
        self.clock = PausableDeadline::default();
    }

    /// Returns whether the time was up before the child was done.
    pub(super) fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Waits for the next answer to the child. The child's clock is paused while a user is asked.
    pub(super) async fn wait_for_answer(&mut self) {
        match self.answers.next().await {
            Some(wanted) => {
                if !wanted {
                    self.report_waiter_gone().await;
                }
                if self.answers.is_empty() {
                    self.clock.resume();
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Wraps a reply that comes from further up, so that waiting for it costs the child no time.
    fn wait_for<T: Send + 'static>(&mut self, mut reply: oneshot::Sender<T>) -> oneshot::Sender<T> {
        let (sender, answer) = oneshot::channel();
        self.clock.pause();
        let waiting = async move {
            tokio::select! { biased;
                answer = answer => {
                    if let Ok(answer) = answer {
                        // The child may have been stopped meanwhile.
                        let _ = reply.send(answer);
                    }
                    true
                }
                () = reply.closed() => false,
            }
        };
        self.answers.push(waiting.boxed());
        sender
    }

    async fn report_waiter_gone(&mut self) {
        // An error means that the turn is over and nobody is left to notify.
        let _ = self.up.forward_request(TurnRequest::WaiterGone).await;
    }

    /// Handles one message of the child.
    pub(super) async fn take(&mut self, message: crate::turn::TurnMessage) {
        let crate::turn::TurnMessage { body, permit } = message;
        match body {
            TurnRequest::Event(event) => self.handle_event(event).await,
            TurnRequest::Delta(delta) => self.handle_delta(delta).await,
            TurnRequest::BeginStep(reply) => self.begin_step(reply).await,
            // No user sends a sub-agent messages.
            TurnRequest::FetchPendingInputs { reply, .. } => _ = reply.send(Vec::new()),
            TurnRequest::InputVerdict { .. } => {}
            TurnRequest::Judge {
                tool,
                effect,
                approval,
                reply,
            } => match self.denial_reason(&tool, &effect) {
                Some(reason) => {
                    let _ = reply.send(Judgement {
                        verdict: Verdict::Deny { reason },
                        sandbox: SandboxPolicy::ReadOnly,
                    });
                }
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
            TurnRequest::Approve {
                approval,
                effect,
                needs_person,
                reply,
            } => {
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::Approve {
                    approval,
                    effect,
                    needs_person,
                    reply,
                })
                .await;
            }
            TurnRequest::Inquire { inquiry, reply } => {
                let child_request = self.of_child(inquiry);
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::Inquire {
                    inquiry: child_request,
                    reply,
                })
                .await;
            }
            TurnRequest::MayStep(reply) => {
                let reply = self.wait_for(reply);
                self.forward_request(TurnRequest::MayStep(reply)).await;
            }
            TurnRequest::PauseClock(resumed) => {
                let (guard, over_above) = oneshot::channel::<()>();
                self.clock.pause();
                let waiting = async move {
                    // Nothing is ever sent; the sender is dropped when the wait is over.
                    let _ = resumed.await;
                    drop(guard);
                    true
                };
                self.answers.push(waiting.boxed());
                self.forward_request(TurnRequest::PauseClock(over_above)).await;
            }
            TurnRequest::WaiterGone => self.report_waiter_gone().await,
        }
        drop(permit);
    }

    async fn forward_request(&mut self, body: TurnRequest) {
        // An error means that the turn is over, and with it the child.
        let _ = self.up.forward_request(body).await;
    }

    /// Returns why the child's agent may not do this, even if the session may.
    fn denial_reason(&self, tool: &str, effect: &Effect) -> Option<String> {
        let plan = Policy {
            mode: Mode::Plan,
            ..Policy::default()
        };
        match judge_tool_call(&plan, tool, effect) {
            Verdict::Deny { reason } if self.read_only => Some(reason),
            Verdict::Deny { .. } | Verdict::Allow { .. } | Verdict::Ask { .. } => None,
        }
    }

    fn of_child(&self, request: InquiryRequest) -> InquiryRequest {
        match request {
            InquiryRequest::New(mut subject) => {
                if let RequestSubject::Limit(reached) = &mut subject {
                    let label_suffix = self
                        .label
                        .as_deref()
                        .map_or(String::new(), |label| format!(" {label}"));
                    reached.message = format!("sub-agent{label_suffix}: {}", reached.message);
                }
                InquiryRequest::Nested {
                    parent: self.call.clone(),
                    subject,
                }
            }
            request @ (InquiryRequest::Nested { .. } | InquiryRequest::Again(_)) => request,
        }
    }

    /// Returns the history for the next request, as soon as the turn allows a step.
    async fn begin_step(&mut self, reply: oneshot::Sender<StepInput>) {
        // If the work was cut, items are still open, and such a history is not valid for a provider (I4).
        self.settle_open_items().await;
        let input = StepInput {
            items: self.transcript.history.to_messages(),
            failed_compactions: self.transcript.failed_compactions,
            mode: self.read_only.then_some(Mode::Plan),
        };
        let (may_step, goes_on) = oneshot::channel();
        self.clock.pause();
        let waiting = async move {
            if goes_on.await.is_ok() {
                let _ = reply.send(input);
            }
            true
        };
        self.answers.push(waiting.boxed());
        self.forward_request(TurnRequest::MayStep(may_step)).await;
    }

    async fn handle_delta(&mut self, delta: Delta) {
        match delta {
            Delta::Text { message, text, .. } => {
                self.live.push_text(&text).await;
                match &mut self.transcript.partial {
                    Some((id, partial)) if *id == message => partial.push_str(&text),
                    _ => self.transcript.partial = Some((message, text)),
                }
            }
            // Live output of its tools. A cancel may drop it, because it is never the only carrier of a fact.
            Delta::ToolOutput { .. } => _ = self.up.emit_delta(delta).await,
            Delta::Reasoning { .. } | Delta::ToolInput { .. } => {}
        }
    }

    async fn handle_event(&mut self, event: Event) {
        if let Event::Transition { transition, .. } = &event {
            self.transcript.answer.record_transition(*transition);
        }
        match event {
            Event::Message(message) => {
                if message.role == Role::Assistant {
                    self.transcript.partial = None;
                    let text = message.text();
                    if !text.trim().is_empty() {
                        self.transcript.answer.push_message(&text);
                    }
                    self.live.finish_message().await;
                }
                self.transcript.history.apply(&Event::Message(message));
            }
            Event::MessageRetracted { .. } => {
                self.transcript.history.apply(&event);
                if self
                    .transcript
                    .partial
                    .take()
                    .is_some_and(|(_, text)| !text.is_empty())
                {
                    self.live.push_text("\n(discarded: the answer broke off)\n").await;
                }
            }
            Event::ToolCall(update) => self.tool_call(update).await,
            Event::Compacted(_) => {
                self.transcript.history.apply(&event);
                if let Event::Compacted(compaction) = &event
                    && compaction.summary.as_ref().is_some_and(|summary| !summary.digest)
                {
                    self.transcript.failed_compactions = 0;
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
                self.forward_event(Event::Nested(nested)).await;
            }
            // The child's model is not the session's, and steps that only lead on are not news.
            Event::Warning { ref code, .. } if code == MODEL_CHOSEN => {}
            Event::Transition { transition, .. } if !is_recovery(transition) => {}
            Event::Warning { ref code, .. } => {
                self.transcript.failed_compactions += u32::from(code == COMPACTION_FAILED);
                self.emit_nested_event(event).await;
            }
            Event::Transition { .. }
            | Event::Retry { .. }
            | Event::Wait { .. }
            | Event::ModelSwitched { .. }
            | Event::Circuit { .. } => self.emit_nested_event(event).await,
            // Only the user's own agent may change the plan and the session's data.
            Event::Plan { .. }
            | Event::SessionUpdated { .. }
            | Event::Instructions { .. }
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
            self.transcript.history.apply(&Event::ToolCall(update.clone()));
            update.parent = Some(self.call.clone());
            // Several sub-agents of a call share its place, so each call tells whose it is.
            if let Some(label) = &self.label {
                update.title = format!("[{label}] {}", update.title);
            }
        }
        if update.status.is_final() {
            // Sub-agents that were cut with the call that started them do not end their own calls.
            let below = self.take_below(&update.id);
            self.end_open_calls(below).await;
            if let Some(at) = self.open.iter().position(|call| call.id == update.id) {
                self.open.remove(at);
            }
        } else {
            match self.open.iter_mut().find(|call| call.id == update.id) {
                Some(call) => call.clone_from(&update),
                None => self.open.push(update.clone()),
            }
        }
        self.forward_event(Event::ToolCall(update)).await;
    }

    /// Removes and returns the open calls of sub-agents below `call`, at all depths.
    fn take_below(&mut self, call: &ToolCallId) -> Vec<ToolCallUpdate> {
        // Thousands of calls may end at once, and few have sub-agents.
        if self.open.iter().all(|open| open.parent.as_ref() != Some(call)) {
            return Vec::new();
        }
        let mut above = vec![call.clone()];
        // Each call follows the one that started its sub-agent, so one pass finds all.
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
        self.forward_event(Event::Nested(Box::new(SubagentEvent { parent, event })))
            .await;
    }

    async fn forward_event(&mut self, event: Event) {
        // An error means that the turn is over and nobody listens.
        let _ = self.up.forward_event(event).await;
    }

    /// Settles what the child has left open: cuts the message in progress, and cancels its calls.
    pub(super) async fn settle_open_items(&mut self) {
        if let Some((id, text)) = self.transcript.partial.take()
            && !text.trim().is_empty()
        {
            let cut = Message {
                id,
                role: Role::Assistant,
                incomplete: true,
                ..Message::user_text(text.clone())
            };
            self.transcript.history.apply(&Event::Message(cut.into()));
            self.transcript.answer.push_message(&text);
        }
        let open = std::mem::take(&mut self.open);
        self.end_open_calls(open).await;
    }

    /// Ends calls that no one else will end.
    async fn end_open_calls(&mut self, open: Vec<ToolCallUpdate>) {
        let reason = if self.timed_out {
            "the time of the sub-agent is up"
        } else {
            "canceled"
        };
        // A sub-agent's calls begin after the call that started it and end before it.
        for call in open.into_iter().rev() {
            let own = call.parent.as_ref() == Some(&self.call);
            let mut update = ToolCallUpdate {
                result: Some(ToolResult::error(reason).into()),
                ..ToolCallUpdate::new(call.id, call.name, call.title, ToolCallStatus::Cancelled)
            };
            if own {
                self.transcript.history.apply(&Event::ToolCall(update.clone()));
                update.parent = Some(self.call.clone());
            } else {
                update.parent = call.parent;
            }
            self.forward_event(Event::ToolCall(update)).await;
        }
    }

    /// Returns the report of a child that has ended.
    pub(super) fn into_report(self, state: ChildState, reason: Option<String>) -> SubagentReport {
        SubagentReport {
            state,
            reason,
            text: self.transcript.answer.into_text(),
            usage: self.usage,
            cost: self.cost,
        }
    }
}

/// Returns whether a decision of the child's loop reports a problem, or work beyond its task.
fn is_recovery(transition: Transition) -> bool {
    match transition {
        Transition::Continue(ContinueReason::NextTurn) | Transition::Terminal(_) => false,
        Transition::Continue(_) => true,
    }
}

/// Streams a child's text as live output of the call that delegated. Parallel children are shown line by line.
struct ShownSubagent {
    progress: mpsc::Sender<ToolProgress>,
    label: Option<String>,
    /// Characters that may still be shown.
    remaining: usize,
    /// The unfinished line of a labeled child.
    line: String,
}

impl ShownSubagent {
    async fn push_text(&mut self, piece: &str) {
        if self.remaining == 0 {
            return;
        }
        let piece = text::prefix_within(piece, self.remaining);
        self.remaining -= piece.len();
        let mut out = match &self.label {
            None => piece.to_owned(),
            Some(label) => {
                self.line.push_str(piece);
                let end = self.line.rfind('\n').map_or(0, |at| at + 1);
                let rest = self.line.split_off(end);
                label_lines(label, &std::mem::replace(&mut self.line, rest))
            }
        };
        if self.remaining == 0 {
            out.push_str("\n… (the full answer follows at the end)\n");
        }
        self.send(out).await;
    }

    /// Flushes the rest when a message is complete.
    async fn finish_message(&mut self) {
        let out = match &self.label {
            None => "\n".to_owned(),
            Some(label) => label_lines(label, &std::mem::take(&mut self.line)),
        };
        if self.remaining > 0 {
            self.send(out).await;
        }
    }

    async fn send(&self, out: String) {
        if !out.is_empty() {
            // After a cancel nobody listens.
            let _ = self.progress.send(ToolProgress::Output(out)).await;
        }
    }
}

fn label_lines(label: &str, lines: &str) -> String {
    lines.lines().map(|line| format!("[{label}] {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collect_live_output(label: Option<&str>, pieces: &[&str]) -> String {
        let (progress, mut receiver) = mpsc::channel(1_000);
        let mut live = ShownSubagent {
            progress,
            label: label.map(str::to_owned),
            remaining: LIVE,
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
        while let Some(ToolProgress::Output(piece)) = receiver.recv().await {
            all.push_str(&piece);
        }
        all
    }

    #[tokio::test]
    async fn a_single_child_streams_and_several_are_shown_line_by_line() {
        assert_eq!(collect_live_output(None, &["a", "b\nc", "END"]).await, "ab\nc\n");
        let lines = collect_live_output(Some("2 reader"), &["a", "b\nc", "END", "d"]).await;
        assert_eq!(lines, "[2 reader] ab\n[2 reader] c\n");
    }

    #[tokio::test]
    async fn live_output_of_a_child_is_limited() {
        let long = "ä".repeat(20_000);
        let output = collect_live_output(None, &[&long, "more", "END"]).await;
        assert_eq!(
            output,
            format!("{}\n… (the full answer follows at the end)\n", "ä".repeat(15_000))
        );
    }

    #[test]
    fn only_recoveries_of_a_child_are_reported() {
        assert!(!is_recovery(Transition::Continue(ContinueReason::NextTurn)));
        assert!(is_recovery(Transition::Continue(
            ContinueReason::MaxOutputTokensEscalate
        )));
    }
}
