//! What the running turn reports and requests.
//!
//! It receives [`TurnMessage`]s, records their events, and answers their requests. A turn starts in `turn_start` and
//! ends in `finish`; inquiries are in `inquiries`, the turn's time limit in `wall_time`.

use tokio::sync::oneshot;

use super::actor::{Actor, partial_due};
use super::command::PartialMessage;
use super::messages::user_message;
use crate::approval::choose_sandbox_policy;
use crate::base::backpressure::Permit;
use crate::domain::{Block, Delta, Event, ResolvedBy, Role, ToolCallId, Usage};
use crate::store::{PendingEvent, PendingKey};
use crate::turn::{
    HookedMessage, Judgement, MODEL_CHOSEN, StepInput, TurnMessage, TurnRequest, UNKNOWN_PRICE,
};

impl Actor {
    /// Handles one message of the turn.
    pub(super) fn handle_turn_message(&mut self, message: TurnMessage) {
        match message.body {
            TurnRequest::Event(event) => self.handle_turn_event(event, message.permit),
            TurnRequest::Delta(delta) => self.handle_turn_delta(delta, message.permit),
            TurnRequest::BeginStep(reply) => {
                let step = match self.turn.as_mut() {
                    Some(turn) => turn.clock.hold_step(reply),
                    None => Some(reply),
                };
                if let Some(reply) = step {
                    self.begin_step(reply);
                }
            }
            TurnRequest::MayStep(reply) => match self.turn.as_mut() {
                Some(turn) => turn.clock.hold_nested_step(reply),
                None => _ = reply.send(()),
            },
            TurnRequest::WaiterGone => self.settle_abandoned_requests(),
            // The question itself has already paused the turn's own clock.
            TurnRequest::PauseClock(_) => {}
            TurnRequest::FetchPendingInputs { closes, reply } => {
                let prompt = self.turn.as_ref().and_then(|turn| turn.review.prompt.as_ref());
                let waiting = self.inbox.unreviewed_inputs(prompt);
                if closes && let Some(turn) = self.turn.as_mut() {
                    // In the same step as the answer, so that no steer slips in between.
                    turn.control.is_closing = waiting.is_empty();
                }
                let _ = reply.send(waiting);
            }
            TurnRequest::InputVerdict { key, hooked_message } => {
                self.apply_input_verdict(&key, hooked_message)
            }
            TurnRequest::Judge {
                tool,
                effect,
                approval,
                reply,
            } => {
                let verdict = self.judge_effect(&tool, &effect);
                let verdict = match approval {
                    Some(open) => self.judge_carried(&open, verdict),
                    None => verdict,
                };
                let sandbox = choose_sandbox_policy(self.state.choice.mode, &effect);
                let _ = reply.send(Judgement { verdict, sandbox });
            }
            TurnRequest::Approve {
                approval,
                effect,
                needs_person,
                reply,
            } => self.open_approval(*approval, effect, needs_person, reply),
            TurnRequest::Inquire { inquiry, reply } => self.open_inquiry(inquiry, reply),
        }
    }

    /// Lets waiting steers join, and hands over the history.
    pub(super) fn begin_step(&mut self, reply: oneshot::Sender<StepInput>) {
        if let Some(turn) = self.turn.as_mut() {
            // The turn continues after all.
            turn.control.is_closing = false;
        }
        // A compaction answers nothing: messages that arrive meanwhile are returned at its end.
        if !self.state.turns.is_compaction {
            self.join_steers();
            self.record_restore_note();
        }
        // The turn may have been stopped meanwhile; then nobody needs the answer.
        let _ = reply.send(StepInput {
            items: self.state.history.to_messages(),
            failed_compactions: self.state.turns.failed_compactions,
            mode: Some(self.state.choice.mode),
        });
    }

    /// Keeps what a message in progress has so far, and shows it.
    fn handle_turn_delta(&mut self, delta: Delta, permit: Option<Permit>) {
        match &delta {
            Delta::Text { message, text, .. } => {
                self.partial_mut(message).text.push_str(text);
                self.partial.due.get_or_insert_with(partial_due);
            }
            Delta::Reasoning { message, text, .. } => {
                self.partial_mut(message).reasoning.push_str(text);
                self.partial.due.get_or_insert_with(partial_due);
            }
            Delta::ToolInput {
                message, tool_call, ..
            } => {
                let calls = &mut self.partial_mut(message).tool_calls;
                if !calls.contains(tool_call) {
                    calls.push(tool_call.clone());
                }
            }
            Delta::ToolOutput { .. } => {}
        }
        self.show_delta(delta, permit);
    }

    fn handle_turn_event(&mut self, event: Event, permit: Option<Permit>) {
        let event = self.fold_subagent_event(event);
        match &event {
            Event::Message(message) => {
                self.drop_partial();
                if let Some(turn) = self.turn.as_mut()
                    && message.role == Role::Assistant
                {
                    turn.report.answer.push_message(&message.text());
                }
            }
            Event::MessageRetracted { .. } => self.drop_partial(),
            Event::Transition { transition, .. } => {
                if let Some(turn) = self.turn.as_mut() {
                    turn.report.answer.record_transition(*transition);
                }
            }
            // Before the final status is recorded: a call's sub-agents and questions end before the call does.
            Event::ToolCall(update) if update.status.is_final() => {
                self.settle_subagents_of(&update.id);
                self.close_question(&update.id);
            }
            Event::Compacted(compaction) if compaction.summary.is_some() => {
                if let Some(turn) = self.turn.as_mut().filter(|_| self.state.turns.is_compaction) {
                    turn.report.compacted = Some((compaction.tokens_before, compaction.tokens_after));
                }
            }
            Event::SessionUpdated {
                title: None,
                mode: None,
                model: Some(model),
                effort: None,
            } => {
                if self.state.choice.model.as_ref() == Some(model) || self.model_was_set() {
                    return;
                }
                if let Some(turn) = self.turn.as_mut() {
                    turn.known_model = Some(model.clone());
                }
            }
            Event::Warning { code, message }
                if code == MODEL_CHOSEN && self.state.choice.model_reason.as_ref() == Some(message) =>
            {
                return;
            }
            // Every turn warns; people read it once per session.
            Event::Warning { code, .. } if code == UNKNOWN_PRICE && self.state.spending.warned_unpriced => {
                return;
            }
            _ => {}
        }
        let event = self.with_session_sums(event);
        self.record_with(event, permit, Vec::new(), Vec::new(), None);
    }

    /// Returns whether the user has chosen another model since the turn began. The turn's model is then no longer the
    /// session's choice.
    fn model_was_set(&self) -> bool {
        self.turn
            .as_ref()
            .is_some_and(|turn| turn.known_model != self.state.choice.model)
    }

    /// Adapts a sub-agent's event. Its usage counts for the turn, but occupies none of the session's window. An unknown
    /// price is announced once per session.
    fn fold_subagent_event(&mut self, event: Event) -> Event {
        let Event::Nested(mut nested) = event else {
            return event;
        };
        match &mut nested.event {
            Event::Usage {
                context_used, window, ..
            } => {
                (*context_used, *window) = self.state.spending.context;
                nested.event
            }
            Event::Warning { code, .. } if code == UNKNOWN_PRICE => nested.event,
            _ => Event::Nested(nested),
        }
    }

    /// Completes a usage event: the turn knows only its own usage, and the session's totals are added here.
    fn with_session_sums(&mut self, mut event: Event) -> Event {
        let Event::Usage {
            step,
            turn,
            session,
            step_cost,
            turn_cost,
            session_cost,
            ..
        } = &mut event
        else {
            return event;
        };
        *session = self.state.spending.usage + *step;
        *session_cost = match (self.state.spending.cost, *step_cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            // Only the first call sets the cost. Once a total is unknown it stays unknown: unknown is not zero
            // (R-PROV-7).
            (None, cost) if self.state.spending.usage == Usage::default() => cost,
            (Some(_), None) | (None, _) => None,
        };
        if let Some(running) = self.turn.as_mut() {
            // Includes the usage of sub-agents, which the turn itself does not know.
            running.spending.add_call(*step, *step_cost);
            (*turn, *turn_cost) = (running.spending.usage, running.spending.cost);
        }
        event
    }

    fn partial_mut(&mut self, message: &crate::domain::MessageId) -> &mut PartialMessage {
        let same = self
            .partial
            .message
            .as_ref()
            .is_some_and(|partial| partial.message == *message);
        if !same {
            self.partial.message = None;
        }
        self.partial
            .message
            .get_or_insert_with(|| PartialMessage::from_message_id(message.clone()))
    }

    fn drop_partial(&mut self) {
        self.partial.message = None;
        self.partial.due = None;
    }

    /// Stores the part of the message in progress that the store does not have yet.
    pub(super) fn store_partial(&mut self) {
        self.partial.due = None;
        let Some(partial) = &mut self.partial.message else {
            return;
        };
        let (text, reasoning) = partial.stored;
        let pending = PendingEvent::Partial {
            message: partial.message.clone(),
            before: (text + reasoning) as u64,
            turn: self.turn.as_ref().map(|turn| turn.id.clone()),
            text: partial.text[text..].to_owned(),
            reasoning: partial.reasoning[reasoning..].to_owned(),
        };
        partial.stored = (partial.text.len(), partial.reasoning.len());
        self.journal.put_pending(pending, None);
    }

    /// Takes the user's prompt: it joins the history, or waits for the hooks as a steer does. It is stored either way
    /// (I16).
    pub(super) fn take_prompt(&mut self, content: Vec<Block>) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.review.has_prompt_hooks) else {
            return self.record_event(Event::Message(user_message(content).into()));
        };
        let key = crate::base::random::random_token(12);
        turn.review.prompt = Some(key.clone());
        let pending = PendingEvent::Steer {
            key: key.clone(),
            turn: Some(turn.id.clone()),
            content: content.clone(),
        };
        self.journal.put_pending(pending, None);
        self.inbox.push_steer(key, content);
    }

    /// Applies the hooks' verdict on a message.
    fn apply_input_verdict(&mut self, key: &str, verdict: HookedMessage) {
        let Some((key, steer_content)) = self.inbox.take_steer(key) else {
            return;
        };
        match verdict {
            HookedMessage::Joins(content) => self.record_with(
                Event::Message(user_message(content).into()),
                None,
                vec![PendingKey::for_steer(&key)],
                Vec::new(),
                None,
            ),
            HookedMessage::GivenBack => self.inbox.hold_back((key, steer_content)),
        }
    }

    /// Turns waiting steers into messages of the history, unless hooks must judge them first.
    fn join_steers(&mut self) {
        if self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.review.has_prompt_hooks)
        {
            return;
        }
        for (key, content) in self.inbox.take_steers() {
            self.record_with(
                Event::Message(user_message(content).into()),
                None,
                vec![PendingKey::for_steer(&key)],
                Vec::new(),
                None,
            );
        }
    }

    /// Tells the model which files were restored since it last spoke (R-SESS-3).
    fn record_restore_note(&mut self) {
        let restored = std::mem::take(&mut self.state.restored_files);
        if restored.is_empty() {
            return;
        }
        let message = crate::domain::Message {
            hidden: true,
            ..crate::domain::Message::user_text(super::checkpoints::format_restore_note(&restored))
        };
        self.record_event(Event::Message(message.into()));
    }

    /// Closes the open questions of a call that ends.
    fn close_question(&mut self, call: &ToolCallId) {
        if let Some(approval) = self.state.question_about(call).cloned() {
            self.questions.forget_approval(&approval.id);
            self.deny_approval(&approval, ResolvedBy::Cancel);
            self.run_clock();
        }
        if let Some(inquiry) = self.state.find_inquiry_of_call(call).cloned() {
            let unanswered = inquiry.default_reply();
            self.settle_inquiry(inquiry, unanswered, ResolvedBy::Cancel, None);
        }
    }

    /// Settles the questions of a sub-agent that was stopped and no longer waits for answers.
    fn settle_abandoned_requests(&mut self) {
        let (approvals, inquiries) = self.questions.find_abandoned();
        for id in approvals {
            if let Some(approval) = self.state.open_approval(&id).cloned() {
                self.deny_approval(&approval, ResolvedBy::Cancel);
            }
            self.questions.forget_approval(&id);
        }
        for id in inquiries {
            if let Some(inquiry) = self.state.open_inquiry(&id).cloned() {
                let unanswered = inquiry.default_reply();
                self.settle_inquiry(inquiry, unanswered, ResolvedBy::Cancel, None);
            }
        }
        self.run_clock();
    }

    /// Takes the messages of this turn that no model has seen.
    pub(super) fn take_unused_steers(&mut self) -> (Vec<PendingKey>, Vec<Vec<Block>>) {
        let unused = self.inbox.take_unused();
        unused
            .into_iter()
            .map(|(key, content)| (PendingKey::for_steer(&key), content))
            .unzip()
    }
}
