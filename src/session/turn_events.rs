//! What the running turn reports and requests, and how it is started and stopped.
//!
//! It receives [`TurnMessage`]s, records their events, and answers their requests. The end of a turn is `finish`'s;
//! inquiries are in `inquiries`, the turn's time limit in `wall_time`.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::active_turn::{ActiveTurn, OpenRequests, PromptReview, TurnControl, TurnReport, TurnSpending};
use super::actor::{Actor, partial_due};
use super::checkpoints::TurnCheckpoints;
use super::command::{PartialMessage, TurnHandle};
use super::services::SessionSettings;
use super::subagent::SubagentFactory;
use super::wall_time::PausableDeadline;
use crate::base::CancellationToken;
use crate::base::backpressure::Permit;
use crate::base::clock;
use crate::base::spawn::spawn;
use crate::config::HookMoment;
use crate::domain::{
    ApprovalId, Block, Delta, Event, FinalAnswer, Inquiry, InquiryId, ResolvedBy, Role, TerminalReason,
    ToolCallId, TurnId, Usage,
};
use crate::store::{PendingEvent, PendingKey};
use crate::tool::{NoSpawner, Registry};
use crate::turn::{
    CarriedCall, HookedMessage, MODEL_CHOSEN, ModelChoice, PendingInput, Resumption, SessionLink, StepInput,
    SystemPrompt, TurnContext, TurnMessage, TurnRequest, TurnServices, TurnSettings, TurnSpend, TurnTask,
    UNKNOWN_PRICE, load_system_prompt, run_turn,
};
use crate::workspace::Workspace;

/// Messages of a turn that may wait for the actor; beyond it the turn waits.
const TURN_QUEUE: usize = 64;

impl Actor {
    /// Returns the session's workspace, which is opened when it is first needed.
    pub(super) fn session_workspace(&mut self) -> Arc<Workspace> {
        let (profiles, info) = (&self.services.profiles, &self.info);
        self.resources
            .workspace
            .get_or_insert_with(|| profiles.open_workspace(info))
            .clone()
    }

    /// Returns the tools that the session's agent may use.
    fn select_tools(&self, profile: &SessionSettings) -> Arc<Registry> {
        let tools = self.services.client_tools(&profile.own_tools);
        let choice = &profile.tools;
        if choice.is_all() {
            tools
        } else {
            Arc::new(tools.filter_by_name(|tool| choice.is_allowed(tool)))
        }
    }

    /// Starts a turn's task. `begin` records `TurnStarted` and the events that belong to the start.
    pub(super) fn start_turn(
        &mut self,
        task: TurnTask,
        carried: Vec<CarriedCall>,
        inquiries: Vec<Arc<Inquiry>>,
        begin: impl FnOnce(&mut Self),
    ) -> TurnHandle {
        let id = TurnId::new_random();
        let (messages, inbox) = mpsc::channel(TURN_QUEUE);
        let (cancel, hurry) = (CancellationToken::new(), CancellationToken::new());
        // A turn's settings are fixed at its start, so a reload never changes a running turn.
        let profile = self.services.profiles.session_settings(&self.info);
        let workspace = self.session_workspace();
        workspace.set_on_cancel(profile.on_cancel);
        let answers = task == TurnTask::Answer;
        let tree = TurnSpend {
            budgets: profile.budgets.clone(),
            session: self.state.known_cost,
            session_raised: self.state.raised,
            unpriced: self.state.accepted_unpriced.clone(),
            ..TurnSpend::default()
        };
        let checkpoints = Arc::new(TurnCheckpoints::new(&self.services, &self.info.id, &id));
        let mut context = TurnContext {
            session: self.info.id.clone(),
            turn: id.clone(),
            depth: 0,
            link: SessionLink::new(messages, self.journal.byte_budget.clone(), cancel.clone()),
            cancel: cancel.clone(),
            workspace,
            tools: self.select_tools(&profile),
            spawner: Arc::new(NoSpawner),
            prompt: SystemPrompt::default(),
            services: Arc::new(TurnServices {
                force_cancel: hurry.clone(),
                cwd: self.info.cwd.clone(),
                slots: self.services.slots.clone(),
                totals: self.services.totals.clone(),
                redactor: self.services.redactor.clone(),
                editor: self.services.editor.clone(),
                content_sink: self.content_sink(),
                checkpoints: checkpoints.clone(),
                budget: Arc::new(
                    self.services
                        .ledger
                        .open(tree, profile.turn.limits.max_tool_calls),
                ),
                statistics: self.resources.statistics.clone(),
            }),
            settings: TurnSettings {
                choice: ModelChoice {
                    agent: self.info.agent.clone(),
                    model: self.state.model.clone(),
                    effort: self.state.effort,
                },
                ..profile.turn.clone()
            },
            resumption: Resumption {
                is_first_turn: self.state.history.is_empty(),
                announced_instructions: self.state.instructions.clone(),
                answering: self.state.answering.clone(),
                open_circuits: self.state.open_circuits.iter().cloned().collect(),
                carried,
                inquiries,
            },
        };
        let subagents = SubagentFactory::new(&self.services, &self.info, &profile);
        let judges = context.settings.hooks.has_hooks_for(HookMoment::Prompt);
        let wall_time = profile.wall_time.filter(|_| answers);
        let (waiter, ended) = oneshot::channel();
        let (tell_passed, passed) = oneshot::channel();
        self.turn = Some(ActiveTurn {
            id: id.clone(),
            settings: profile,
            model_at_start: self.state.model.clone(),
            control: TurnControl {
                task: spawn(async move {
                    load_system_prompt(&mut context).await?;
                    subagents.install_subagent_tools(&mut context);
                    run_turn(&context, &task).await
                }),
                messages: inbox,
                cancel,
                force_cancel: hurry,
                stopping: None,
                is_closing: false,
            },
            review: PromptReview {
                has_prompt_hooks: judges,
                prompt: None,
            },
            waiting: OpenRequests::default(),
            clock: PausableDeadline::start_with_limit(wall_time),
            checkpoints,
            spending: TurnSpending::default(),
            report: TurnReport {
                waiter: Some(waiter),
                end_forwarded: Some(tell_passed),
                answer: FinalAnswer::default(),
                compacted: None,
            },
        });
        // Before `turnStarted` is recorded, so that a cancel that names the turn is never taken for a stale one.
        self.mailbox.cancels.note_turn_started(&id);
        self.residency.live_sessions.set_running(&self.info.id, true);
        let mark = self.journal.mark();
        begin(self);
        // All or nothing: a crash must not leave a turn without its prompt (I16).
        self.journal.join_writes_since(mark);
        TurnHandle {
            turn: id,
            ended,
            passed,
        }
    }

    /// Stops the running turn from outside. Its end is settled when its task has returned. A second call skips graceful
    /// shutdown.
    pub(super) fn stop_turn(&mut self, reason: TerminalReason) {
        let Some(turn) = self.turn.as_mut() else { return };
        if turn.control.stopping.is_some() {
            turn.control.force_cancel.cancel();
            return;
        }
        turn.control.stopping = Some((reason, clock::now()));
        // R-CANCEL: at the server's end there is no time for `on_cancel`.
        if reason == TerminalReason::ServerStopped {
            turn.control.force_cancel.cancel();
        }
        turn.control.cancel.cancel();
    }

    /// Handles one message of the turn.
    pub(super) fn handle_turn_message(&mut self, message: TurnMessage) {
        match message.body {
            TurnRequest::Event(event) => self.handle_turn_event(event, message.permit),
            TurnRequest::Delta(delta) => self.handle_turn_delta(delta, message.permit),
            TurnRequest::BeginStep(reply) => {
                if let Some(reply) = self.hold_step(reply) {
                    self.begin_step(reply);
                }
            }
            TurnRequest::MayStep(reply) => self.nested_step(reply),
            TurnRequest::WaiterGone => self.settle_abandoned_requests(),
            // The question itself has already paused the turn's own clock.
            TurnRequest::PauseClock(_) => {}
            TurnRequest::FetchPendingInputs { closes, reply } => {
                let waiting = self.unreviewed_inputs();
                if closes && let Some(turn) = self.turn.as_mut() {
                    // In the same step as the answer, so that no steer slips in between.
                    turn.control.is_closing = waiting.is_empty();
                }
                let _ = reply.send(waiting);
            }
            TurnRequest::InputVerdict { key, heard } => self.apply_input_verdict(&key, heard),
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
                let _ = reply.send(verdict);
            }
            TurnRequest::Approve { request, reply } => self.open_approval(*request, reply),
            TurnRequest::Inquire { asked, reply } => self.open_inquiry(asked, reply),
        }
    }

    /// Lets waiting steers join, and hands over the history.
    pub(super) fn begin_step(&mut self, reply: oneshot::Sender<StepInput>) {
        if let Some(turn) = self.turn.as_mut() {
            // The turn continues after all.
            turn.control.is_closing = false;
        }
        // A compaction answers nothing: messages that arrive meanwhile are returned at its end.
        if !self.state.is_compaction {
            self.join_steers();
            self.record_restore_note();
        }
        // The turn may have been stopped meanwhile; then nobody needs the answer.
        let _ = reply.send(StepInput {
            items: self.state.history.to_messages(),
            failed_compactions: self.state.failed_compactions,
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
                if let Some(turn) = self.turn.as_mut().filter(|_| self.state.is_compaction) {
                    turn.report.compacted = Some((compaction.tokens_before, compaction.tokens_after));
                }
            }
            Event::SessionUpdated {
                title: None,
                mode: None,
                model: Some(model),
                effort: None,
            } if self.state.model.as_ref() == Some(model) || self.model_was_set() => {
                return;
            }
            Event::Warning { code, message }
                if code == MODEL_CHOSEN && self.state.model_reason.as_ref() == Some(message) =>
            {
                return;
            }
            // Every turn warns; people read it once per session.
            Event::Warning { code, .. } if code == UNKNOWN_PRICE && self.state.warned_unpriced => return,
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
            .is_some_and(|turn| turn.model_at_start != self.state.model)
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
                (*context_used, *window) = self.state.context;
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
        *session = self.state.usage + *step;
        *session_cost = match (self.state.cost, *step_cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            // Only the first call sets the cost. Once a total is unknown it stays unknown: unknown is not zero
            // (R-PROV-7).
            (None, cost) if self.state.usage == Usage::default() => cost,
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
            return self.record_event(Event::Message(super::commands::user_message(content).into()));
        };
        let key = crate::base::random::random_token(12);
        turn.review.prompt = Some(key.clone());
        let pending = PendingEvent::Steer {
            key: key.clone(),
            turn: Some(turn.id.clone()),
            content: content.clone(),
        };
        self.journal.put_pending(pending, None);
        self.inbox.steers.push_back((key, content));
    }

    /// Returns the messages that no model has seen.
    fn unreviewed_inputs(&self) -> Vec<PendingInput> {
        let prompt = self.turn.as_ref().and_then(|turn| turn.review.prompt.as_ref());
        let waiting = |(key, content): &(String, Vec<Block>)| PendingInput {
            key: key.clone(),
            content: content.clone(),
            prompt: prompt == Some(key),
        };
        self.inbox.steers.iter().map(waiting).collect()
    }

    /// Applies the hooks' verdict on a message.
    fn apply_input_verdict(&mut self, key: &str, heard: HookedMessage) {
        let Some(at) = self.inbox.steers.iter().position(|(known, _)| known == key) else {
            return;
        };
        let Some((key, said)) = self.inbox.steers.remove(at) else {
            return;
        };
        match heard {
            HookedMessage::Joins(content) => self.record_with(
                Event::Message(super::commands::user_message(content).into()),
                None,
                vec![PendingKey::for_steer(&key)],
                Vec::new(),
                None,
            ),
            HookedMessage::GivenBack => self.inbox.held_back.push((key, said)),
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
        while let Some((key, content)) = self.inbox.steers.pop_front() {
            self.record_with(
                Event::Message(super::commands::user_message(content).into()),
                None,
                vec![PendingKey::for_steer(&key)],
                Vec::new(),
                None,
            );
        }
    }

    /// Tells the model which files were restored since it last spoke (R-SESS-3).
    fn record_restore_note(&mut self) {
        let told = std::mem::take(&mut self.state.restored_files);
        if told.is_empty() {
            return;
        }
        let note = crate::domain::Message {
            hidden: true,
            ..crate::domain::Message::user_text(super::checkpoints::format_restore_note(&told))
        };
        self.record_event(Event::Message(note.into()));
    }

    /// Closes the open questions of a call that ends.
    fn close_question(&mut self, call: &ToolCallId) {
        if let Some(approval) = self.state.question_about(call).cloned() {
            self.questions.decisions.remove(&approval.id);
            if let Some(turn) = self.turn.as_mut() {
                turn.waiting.approvals.remove(&approval.id);
            }
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
        let Some(turn) = self.turn.as_mut() else { return };
        let mut asks: Vec<ApprovalId> = (turn.waiting.approvals.iter())
            .filter(|(_, asked)| asked.reply.is_closed())
            .map(|(id, _)| id.clone())
            .collect();
        let mut inquiries: Vec<InquiryId> = (turn.waiting.inquiries.iter())
            .filter(|(_, reply)| reply.is_closed())
            .map(|(id, _)| id.clone())
            .collect();
        // The maps have no order; sorting makes runs reproducible.
        asks.sort();
        inquiries.sort();
        for id in asks {
            if let Some(approval) = self.state.open_approval(&id).cloned() {
                self.deny_approval(&approval, ResolvedBy::Cancel);
            }
            if let Some(turn) = self.turn.as_mut() {
                turn.waiting.approvals.remove(&id);
            }
        }
        for id in inquiries {
            if let Some(inquiry) = self.state.open_inquiry(&id).cloned() {
                let unanswered = inquiry.default_reply();
                self.settle_inquiry(inquiry, unanswered, ResolvedBy::Cancel, None);
            }
        }
        self.run_clock();
    }

    /// Aborts the task of a turn that did not stop in time. Its processes die with it.
    pub(super) fn drop_turn(&mut self) {
        tracing::error!(session = %self.info.id, "a stopped turn did not end in time and was aborted");
        if let Some(turn) = self.turn.as_mut() {
            turn.control.task.abort();
            // Restart the limit, so that it does not fire again while the aborted task is being dropped.
            if let Some((_, since)) = turn.control.stopping.as_mut() {
                *since = clock::now();
            }
        }
    }

    /// Takes the messages of this turn that no model has seen.
    pub(super) fn take_unused_steers(&mut self) -> (Vec<PendingKey>, Vec<Vec<Block>>) {
        let held_back = self.inbox.held_back.drain(..);
        held_back
            .chain(self.inbox.steers.drain(..))
            .map(|(key, content)| (PendingKey::for_steer(&key), content))
            .unzip()
    }
}
