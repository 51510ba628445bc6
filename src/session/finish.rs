//! The end of a turn, however it came. The message in progress is kept, every call gets its one result (I4), and
//! `TurnEnded` is the last event of its turn (I3).
//!
//! The same rules repair a turn that a crash has cut. This module must not decide why a turn ends; it settles what is
//! open.

use std::cmp::Reverse;
use std::iter;
use std::sync::Arc;

use futures::FutureExt;

use super::active_turn::{ActiveTurn, TurnResult};
use super::actor::{Actor, IoResult};
use super::checkpoints::CHECKPOINT_PARTIAL;
use super::command::{PartialMessage, SessionCommand, TurnOutcome};
use super::command_queue::Operation;
use crate::base::spawn::TaskError;
use crate::base::{clock, memory};
use crate::context::OpenCall;
use crate::domain::{
    AgentError, Approval, Block, Decision, DecisionKind, ErrorCode, Event, Inquiry, Message, ResolvedBy,
    Role, TerminalReason, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult, TurnDiff, TurnEnd, TurnId,
    TurnState,
};
use crate::store::{LossReason, StoreError, StoreHealth};
use crate::turn::TurnStopped;

impl Actor {
    /// Reports what the turn has changed, whose task has returned, then settles its end: nothing may follow `turnEnded`
    /// (I3).
    pub(super) fn turn_returned(&mut self, result: TurnResult) {
        let Some(turn) = self.turn.as_mut() else { return };
        let (checkpoints, id) = (turn.checkpoints.clone(), turn.id.clone());
        let mut changes = checkpoints.take_changes();
        if let Some(message) = changes.warning.take() {
            self.record_event(Event::Warning {
                code: CHECKPOINT_PARTIAL.to_owned(),
                message,
            });
        }
        if changes.is_empty() {
            return self.end_turn(result);
        }
        if let Some(turn) = self.turn.as_mut() {
            turn.control.returned = Some((result, clock::now()));
        }
        let compared = changes.compare(checkpoints, self.session_workspace(), self.info.cwd.clone());
        let posted = compared.map(move |diff| IoResult::TurnDiff(id, diff));
        self.mailbox.io.push(posted.boxed());
    }

    /// Takes the list of what the turn has changed, and settles its end.
    pub(super) fn turn_compared(&mut self, id: &TurnId, diff: Option<TurnDiff>) {
        let turn = self.turn.as_mut().filter(|turn| turn.id == *id);
        let Some((result, _)) = turn.and_then(|turn| turn.control.returned.take()) else {
            return;
        };
        if let Some(diff) = diff {
            self.record_event(Event::TurnDiff(Arc::new(diff)));
        }
        self.end_turn(result);
    }

    /// Settles the end of the turn, then does what waits for it.
    pub(super) fn end_turn(&mut self, result: TurnResult) {
        self.settle_end(result);
        let freed = memory::release_freed_memory();
        self.mailbox
            .io
            .push(freed.map(|()| IoResult::FreedMemory).boxed());
        if let Some(reply) = self.residency.closing.pop() {
            let close = SessionCommand::Close { reply };
            self.mailbox.queue.push_first(Operation::Command(close));
        }
        self.mailbox.queue.push_first(Operation::StartQueued);
        // A pending deletion comes first: it leaves no session to run a queued prompt in.
        if let Some(reply) = self.residency.deleting.pop() {
            let deletion = SessionCommand::Delete { reply };
            self.mailbox.queue.push_first(Operation::Command(deletion));
        }
        self.perform_waiting();
    }

    pub(super) fn settle_end(&mut self, result: TurnResult) {
        // Everything that the turn reported must be recorded before its end (I3).
        while let Some(message) = self
            .turn
            .as_mut()
            .and_then(|turn| turn.control.messages.try_recv().ok())
        {
            self.handle_turn_message(message);
        }
        let stopping = self.turn.as_ref().and_then(|turn| turn.control.stopping);
        let (mut degraded, mut summed_up) = (false, false);
        let (reason, error) = match (stopping, result) {
            // The turn was done before it noticed the cancel, so its own end counts.
            (_, Ok(Ok(finish))) => {
                (degraded, summed_up) = (finish.degraded, finish.summed_up);
                (finish.reason, finish.error)
            }
            (Some((reason, since)), _) => {
                self.services.totals.cancel.record(since.elapsed());
                self.record_stop(reason);
                (reason, self.stop_error(reason))
            }
            (None, Ok(Err(TurnStopped))) => internal_error_end("the turn stopped without a reason"),
            (None, Err(TaskError::Panicked(panic_message))) => internal_error_end(&panic_message),
            (None, Err(TaskError::Aborted)) => internal_error_end("the turn's task was dropped"),
        };
        let state = reason.to_turn_state(summed_up);
        // R-ERR-3: after a failure under `degrade` the turn can end no better than degraded.
        let state = if degraded { state.after_failure() } else { state };
        self.settle_turn(reason, state, error);
    }

    fn stop_error(&self, reason: TerminalReason) -> Option<AgentError> {
        let code = reason.to_error_code()?;
        Some(match (reason, self.services.store.writes.health()) {
            (TerminalReason::StoreFailed, StoreHealth::Gone(loss @ LossReason::Newer { .. })) => {
                StoreError::from(loss).into()
            }
            (TerminalReason::StoreFailed, _) => AgentError::new(code, "the session store cannot be written")
                .with_user_action("free disk space; unsaved data is kept in memory as far as it fits"),
            (TerminalReason::WallTime, _) => self.wall_time_error(),
            _ => AgentError::new(code, "canceled by the user"),
        })
    }

    /// Ends the running turn for `reason`.
    fn settle_turn(&mut self, reason: TerminalReason, state: TurnState, error: Option<AgentError>) {
        // The order of R-CANCEL: the unfinished message, the results of open calls, `turnEnded`.
        self.store_partial_message();
        let turn = self.turn.as_ref().map(|turn| turn.id.clone());
        self.settle_subagents(turn);
        self.settle_calls(reason);
        // A compaction cannot be resumed, so its questions are never asked again.
        if reason != TerminalReason::ServerStopped || self.state.turns.is_compaction {
            self.drop_inquiries(match reason {
                TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => ResolvedBy::Cancel,
                // Time ran out in the last step and the user was asked; the turn is done.
                _ => ResolvedBy::Rule,
            });
        }
        let (drops, unused_steers) = self.take_unused_steers();
        let Some(turn) = self.turn.as_mut() else { return };
        let end = TurnEnd {
            reason,
            state,
            usage: turn.spending.usage,
            cost: turn.spending.cost,
            error,
            unused_steers,
        };
        self.count_turn_end(&end);
        // The waiter is notified only when the client has received `turnEnded` (R-WIRE-1).
        let passed = self
            .turn
            .as_mut()
            .and_then(|turn| turn.report.end_forwarded.take());
        self.record_with(Event::TurnEnded(end.clone()), None, drops, Vec::new(), passed);
        self.residency.live_sessions.set_running(&self.info.id, false);
        if let Some(turn) = self.turn.take() {
            send_turn_end(turn, end);
        }
        self.questions.end_turn();
        self.partial.due = None;
    }

    fn count_turn_end(&mut self, end: &TurnEnd) {
        if matches!(
            end.reason,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
        ) {
            self.services.totals.cancels.add(1);
        }
        let (session, reason, state) = (&self.info.id, end.reason.name(), end.state.name());
        let failure = end.error.as_ref();
        match failure.filter(|error| error.code != ErrorCode::Cancelled) {
            Some(error) => {
                let attempt = error.attempts;
                tracing::warn!(%session, reason, state, attempt, %error, "turn failed");
            }
            None => tracing::info!(%session, reason, state, "turn ended"),
        }
    }

    /// Keeps what was shown of the message in progress, marked as incomplete. Tool calls alone are retracted.
    fn store_partial_message(&mut self) {
        let Some(partial) = self.partial.message.take() else {
            return;
        };
        let (id, text) = (partial.message.clone(), partial.text.clone());
        let tool_calls = partial.tool_calls.clone();
        let Some(message) = incomplete_message(partial) else {
            return self.record_event(Event::MessageRetracted {
                message: id,
                tool_calls,
            });
        };
        if let Some(turn) = self.turn.as_mut() {
            turn.report.answer.push_message(&text);
        }
        self.record_event(Event::Message(Arc::new(message)));
    }

    /// Gives every open call its result, except one whose approval outlives the server's end (R-APPR-4).
    fn settle_calls(&mut self, reason: TerminalReason) {
        let stays_open = reason == TerminalReason::ServerStopped;
        let (status, text) = match reason {
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => {
                (ToolCallStatus::Cancelled, "canceled by the user")
            }
            _ => (ToolCallStatus::Cancelled, "interrupted"),
        };
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open {
            let pending_approval = self.state.question_about(&call.id).cloned();
            if stays_open && self.state.find_inquiry_of_call(&call.id).is_some() {
                continue;
            }
            match pending_approval {
                Some(_) if stays_open => continue,
                Some(approval) => self.deny_approval(&approval, ResolvedBy::Cancel),
                None => {}
            }
            self.answer_call(&call, status, text);
        }
    }

    /// Settles what sub-agents have open when their turn ends. Nobody could continue it.
    pub(super) fn settle_subagents(&mut self, turn: Option<TurnId>) {
        self.settle_below(turn, None);
    }

    /// Settles what the sub-agents of a call have open before the call itself ends.
    pub(super) fn settle_subagents_of(&mut self, call: &ToolCallId) {
        let Some(turn) = self.turn.as_ref().map(|turn| turn.id.clone()) else {
            return;
        };
        let open = &self.state.open;
        let is_child = |parent: &Option<ToolCallId>| parent.as_ref() == Some(call);
        // Thousands of calls may end at once, and few have sub-agents. What is open further below has a child above it.
        if open.calls.values().any(|call| is_child(&call.parent))
            || open.inquiries.iter().any(|open| is_child(&open.inquiry.parent))
        {
            self.settle_below(Some(turn), Some(call));
        }
    }

    fn settle_below(&mut self, turn: Option<TurnId>, top: Option<&ToolCallId>) {
        let calls = &self.state.open.calls;
        // The call that started the sub-agent, the call that started its parent, and so on.
        let above = |parent: &Option<ToolCallId>| -> Vec<ToolCallId> {
            let of = |id: &ToolCallId| calls.get(id)?.parent.clone();
            iter::successors(parent.clone(), of).collect()
        };
        let is_below = |above: &[ToolCallId]| match top {
            Some(top) => above.contains(top),
            None => !above.is_empty(),
        };
        let nested = calls.values().map(|call| (above(&call.parent), call));
        let mut open: Vec<_> = nested.filter(|(above, _)| is_below(above)).collect();
        // A sub-agent works while the call that started it runs, so the innermost calls end first.
        open.sort_by_key(|(above, _)| Reverse(above.len()));
        let open: Vec<ToolCallUpdate> = open.into_iter().map(|(_, call)| call.clone()).collect();
        let inquiries = self.state.open.inquiries.iter().map(|open| &open.inquiry);
        let nested = inquiries.filter(|inquiry| is_below(&above(&inquiry.parent)));
        let mut settled: Vec<Event> = nested.map(unanswered_inquiry_event).collect();
        for call in open {
            if let Some(approval) = self.state.question_about(&call.id) {
                settled.push(Event::ApprovalResolved {
                    approval: approval.id.clone(),
                    tool_call: approval.tool_call.clone(),
                    decision: Decision::from_kind(DecisionKind::Deny),
                    by: ResolvedBy::Cancel,
                });
            }
            settled.push(Event::ToolCall(ToolCallUpdate {
                result: Some(Arc::new(ToolResult::error("interrupted"))),
                parent: call.parent,
                ..ToolCallUpdate::new(call.id, call.name, call.title, ToolCallStatus::Cancelled)
            }));
        }
        for event in settled {
            match &event {
                Event::ApprovalResolved { approval, .. } => _ = self.questions.take_decision(approval),
                Event::InquiryResolved { inquiry, .. } => _ = self.questions.take_reply(&inquiry.id),
                _ => {}
            }
            self.record_in_turn(turn.clone(), event, None, vec![], vec![], None);
        }
    }

    /// Denies an open approval.
    pub(super) fn deny_approval(&mut self, approval: &Approval, by: ResolvedBy) {
        self.record_event(Event::ApprovalResolved {
            approval: approval.id.clone(),
            tool_call: approval.tool_call.clone(),
            decision: Decision::from_kind(DecisionKind::Deny),
            by,
        });
    }

    /// Gives a call that will not run (again) its one result.
    pub(super) fn answer_call(&mut self, call: &OpenCall, status: ToolCallStatus, text: &str) {
        self.record_event(self.build_call_end(call, status, text));
    }

    /// Builds the end of a call that will not run (again).
    pub(super) fn build_call_end(&self, call: &OpenCall, status: ToolCallStatus, text: &str) -> Event {
        let announced = self.state.open.calls.get(&call.id);
        let title = announced.map_or_else(|| call.name.clone(), |announced| announced.title.clone());
        Event::ToolCall(ToolCallUpdate {
            result: Some(Arc::new(ToolResult::error(text))),
            ..ToolCallUpdate::new(call.id.clone(), call.name.clone(), title, status)
        })
    }
}

/// Returns the resolution of an inquiry that is dropped with the sub-agent that asked.
fn unanswered_inquiry_event(inquiry: &Arc<Inquiry>) -> Event {
    Event::InquiryResolved {
        inquiry: inquiry.clone(),
        reply: inquiry.default_reply(),
        by: ResolvedBy::Cancel,
    }
}

fn send_turn_end(turn: ActiveTurn, end: TurnEnd) {
    if let Some(waiter) = turn.report.waiter {
        // The caller may be gone; everyone else learns of the end from the event.
        let _ = waiter.send(TurnOutcome {
            turn: turn.id,
            end,
            text: turn.report.answer.into_text(),
            compacted: turn.report.compacted,
        });
    }
}

pub(super) fn incomplete_message(partial: PartialMessage) -> Option<Message> {
    let mut content = Vec::new();
    if !partial.reasoning.is_empty() {
        content.push(Block::Reasoning {
            text: partial.reasoning,
            signature: None,
            redacted: false,
        });
    }
    if !partial.text.is_empty() {
        content.push(Block::Text(partial.text));
    }
    (!content.is_empty()).then_some(Message {
        id: partial.message,
        role: Role::Assistant,
        content,
        incomplete: true,
        hidden: false,
    })
}

fn internal_error_end(cause: &str) -> (TerminalReason, Option<AgentError>) {
    let error = AgentError::new(ErrorCode::Internal, "a bug in agentls ended the turn")
        .with_cause(cause)
        .with_user_action("send the prompt again; if it happens twice, please report it with the log");
    (TerminalReason::InternalError, Some(error))
}
