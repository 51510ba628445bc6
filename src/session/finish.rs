//! The end of a turn, however it came. The message in progress is kept, every call gets its one result (I4), and
//! `TurnEnded` is the last event of its turn (I3).
//!
//! The same rules repair a turn that a crash has cut. This module must not decide why a turn ends; it settles what is
//! open.

use std::cmp::Reverse;
use std::iter;
use std::sync::Arc;

use super::active_turn::ActiveTurn;
use super::actor::Actor;
use super::command::{PartialMessage, TurnOutcome};
use super::commands::user_message;
use crate::base::spawn::TaskError;
use crate::context::OpenCall;
use crate::domain::{
    AgentError, Approval, Block, Decision, DecisionKind, ErrorCode, Event, Inquiry, Message, ResolvedBy,
    Role, TerminalReason, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult, TurnEnd, TurnId, TurnState,
};
use crate::store::{LossReason, StoreError, StoreHealth};
use crate::turn::{TurnFinish, TurnStopped};

/// Precedes the text of a lost message.
const UNSETTLED: &str = "input sent to an earlier turn was lost; send it again if it still matters";

impl Actor {
    /// Settles the end of a turn whose task has returned.
    pub(super) fn turn_ended(&mut self, ended: Result<Result<TurnFinish, TurnStopped>, TaskError>) {
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
        let (reason, error) = match (stopping, ended) {
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
            (None, Err(TaskError::Panicked(why))) => internal_error_end(&why),
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
            _ => AgentError::new(code, "cancelled by the user"),
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
        if reason != TerminalReason::ServerStopped || self.state.is_compaction {
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
                (ToolCallStatus::Cancelled, "cancelled by the user")
            }
            _ => (ToolCallStatus::Cancelled, "interrupted"),
        };
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open {
            let asked = self.state.question_about(&call.id).cloned();
            if stays_open && self.state.find_inquiry_of_call(&call.id).is_some() {
                continue;
            }
            match asked {
                Some(_) if stays_open => continue,
                Some(approval) => self.deny_approval(&approval, ResolvedBy::Cancel),
                None => {}
            }
            self.answer_call(&call, status, text);
        }
    }

    /// Settles what sub-agents have open when their turn ends. Nobody could continue it.
    fn settle_subagents(&mut self, turn: Option<TurnId>) {
        self.settle_below(turn, None);
    }

    /// Settles what the sub-agents of a call have open before the call itself ends.
    pub(super) fn settle_subagents_of(&mut self, call: &ToolCallId) {
        let Some(turn) = self.turn.as_ref().map(|turn| turn.id.clone()) else {
            return;
        };
        self.settle_below(Some(turn), Some(call));
    }

    fn settle_below(&mut self, turn: Option<TurnId>, top: Option<&ToolCallId>) {
        let calls = &self.state.calls;
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
        let asked = self.state.inquiries.iter().map(|open| &open.inquiry);
        let nested = asked.filter(|inquiry| is_below(&above(&inquiry.parent)));
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
                status: ToolCallStatus::Cancelled,
                input: None,
                result: Some(Arc::new(ToolResult::error("interrupted"))),
                diff: None,
                locations: Vec::new(),
                duration_ms: None,
                exit_code: None,
                ..call
            }));
        }
        for event in settled {
            match &event {
                Event::ApprovalResolved { approval, .. } => _ = self.questions.decisions.remove(approval),
                Event::InquiryResolved { inquiry, .. } => _ = self.questions.replies.remove(&inquiry.id),
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
        let title = self
            .state
            .calls
            .get(&call.id)
            .map_or_else(|| call.name.clone(), |c| c.title.clone());
        self.record_event(Event::ToolCall(ToolCallUpdate {
            id: call.id.clone(),
            name: call.name.clone(),
            title,
            status,
            input: None,
            result: Some(Arc::new(ToolResult::error(text))),
            diff: None,
            locations: Vec::new(),
            duration_ms: None,
            exit_code: None,
            parent: None,
        }));
    }

    /// Repairs what a crash has cut, or what a full store has lost.
    pub(super) fn repair_after_crash(&mut self, partials: Vec<PartialMessage>) {
        self.repair_turn(partials);
        self.repair_strays();
    }

    /// Settles records that no turn waits for, because a full store lost the records that settled them.
    ///
    /// A steer is returned as a warning, never sent in a turn that it was not meant for (I16). A question about a
    /// finished call is closed. A call without a question may have run, and must not run twice.
    fn repair_strays(&mut self) {
        self.settle_subagents(None);
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open {
            if self.state.question_about(&call.id).is_none()
                && self.state.find_inquiry_of_call(&call.id).is_none()
            {
                self.answer_call(
                    &call,
                    ToolCallStatus::Cancelled,
                    "interrupted; what it did was not stored",
                );
            }
        }
        let (keys, steers) = self.take_unused_steers();
        for (key, content) in keys.into_iter().zip(steers) {
            let said = user_message(content).text();
            let warning = Event::Warning {
                code: "steer_unsettled".to_owned(),
                message: format!("{UNSETTLED}: {said}"),
            };
            self.record_with(warning, None, vec![key], Vec::new(), None);
        }
        let waits = |approval: &Approval| {
            let mut open = self.state.history.open_calls();
            open.any(|call| call.id == approval.tool_call)
        };
        let over: Vec<Approval> = (self.state.approvals.iter().map(|open| &open.approval))
            .filter(|approval| !waits(approval))
            .cloned()
            .collect();
        for approval in over {
            self.questions.decisions.remove(&approval.id);
            self.deny_approval(&approval, ResolvedBy::Cancel);
        }
        // Only the server's end leaves inquiries open.
        let stopped = (self.state.last_end.as_ref()).map(|(_, reason)| *reason);
        if stopped != Some(TerminalReason::ServerStopped) {
            self.drop_inquiries(ResolvedBy::Cancel);
        }
    }

    /// Gives a turn that a crash has cut its end (R-CANCEL): the unfinished message, the results, the end.
    fn repair_turn(&mut self, partials: Vec<PartialMessage>) {
        let Some(turn) = self.state.open_turn.clone() else {
            return;
        };
        for message in partials.into_iter().filter_map(incomplete_message) {
            self.record_in_turn(
                Some(turn.clone()),
                Event::Message(Arc::new(message)),
                None,
                vec![],
                vec![],
                None,
            );
        }
        self.settle_subagents(Some(turn.clone()));
        // Calls with an open question stay open, so that a resumed turn can ask again (R-APPR-4).
        let mut asked: Vec<_> = self
            .state
            .approvals
            .iter()
            .map(|open| open.approval.tool_call.clone())
            .collect();
        let own = self.state.inquiries.iter().map(|open| open.inquiry.tool_call());
        asked.extend(own.flatten().cloned());
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open.iter().filter(|call| !asked.contains(&call.id)) {
            self.repair_call(&turn, call);
        }
        if self.state.is_compaction {
            self.repair_inquiries(&turn);
        }
        let (drops, unused_steers) = self.take_unused_steers();
        let reason = TerminalReason::ServerStopped;
        let (usage, cost) = self.state.turn_spent;
        let end = TurnEnd {
            reason,
            state: reason.to_turn_state(false),
            usage,
            cost,
            error: None,
            unused_steers,
        };
        self.record_in_turn(Some(turn), Event::TurnEnded(end), None, drops, vec![], None);
    }

    /// Settles what a compaction has asked; it ends with the compaction.
    fn repair_inquiries(&mut self, turn: &crate::domain::TurnId) {
        let open: Vec<_> = (self.state.inquiries.iter())
            .map(|open| open.inquiry.clone())
            .collect();
        for inquiry in open {
            self.questions.replies.remove(&inquiry.id);
            let resolved = Event::InquiryResolved {
                reply: inquiry.default_reply(),
                inquiry,
                by: ResolvedBy::Rule,
            };
            self.record_in_turn(Some(turn.clone()), resolved, None, vec![], vec![], None);
        }
    }

    fn repair_call(&mut self, turn: &crate::domain::TurnId, call: &OpenCall) {
        let title = self
            .state
            .calls
            .get(&call.id)
            .map_or_else(|| call.name.clone(), |c| c.title.clone());
        let update = ToolCallUpdate {
            id: call.id.clone(),
            name: call.name.clone(),
            title,
            status: ToolCallStatus::Cancelled,
            input: None,
            result: Some(Arc::new(ToolResult::error("interrupted"))),
            diff: None,
            locations: Vec::new(),
            duration_ms: None,
            exit_code: None,
            parent: None,
        };
        self.record_in_turn(
            Some(turn.clone()),
            Event::ToolCall(update),
            None,
            vec![],
            vec![],
            None,
        );
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

fn incomplete_message(partial: PartialMessage) -> Option<Message> {
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

fn internal_error_end(why: &str) -> (TerminalReason, Option<AgentError>) {
    let error = AgentError::new(ErrorCode::Internal, "a bug in agentls ended the turn")
        .with_cause(why)
        .with_user_action("send the prompt again; if it happens twice, please report it with the log");
    (TerminalReason::InternalError, Some(error))
}

/// Returns the reason of a canceled turn, depending on what it was doing.
pub(super) fn cancel_reason(in_tools: bool) -> TerminalReason {
    if in_tools {
        TerminalReason::AbortedTools
    } else {
        TerminalReason::AbortedStreaming
    }
}
