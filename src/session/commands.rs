//! What the actor does for each command once it has everything that it needs, except for approvals, inquiries and the
//! queue.
//!
//! Synchronous: what must be read first is decided in `steps` and read in `io`. A handler answers through the command's
//! reply, and only after what it confirms is stored (I16).

use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use super::actor::Actor;
use super::choices::remembered_choice_write;
use super::command::{
    CommandError, EffortChoice, LoadReply, PromptReply, Reply, RevertReply, SessionCommand, TurnHandle,
};
use super::command_queue::{Gathered, Operation};
use super::messages::make_title;
use super::residency::LoadState;
use super::revert::{revert_cause, to_revert_diff};
use super::services::SessionSettings;
use crate::base::{CancellationToken, clock, random};
use crate::domain::{
    Block, ChangeState, CircuitState, CircuitSubject, DecisionKind, Event, Message, Mode, ResolvedBy, Role,
    TerminalReason, ToolCallStatus, TurnId, TurnTrigger,
};
use crate::provider::Effort;
use crate::store::{ContentChoice, PendingEvent, RowWrite, SessionChange, StoreWrite};
use crate::turn::{CarriedCall, TurnTask};

/// The result of a call that nobody has decided about before the next prompt.
const UNANSWERED: &str = "Denied by user: a new prompt was sent instead of an answer";
/// The result of a call that the user allowed, but whose turn was never resumed.
const NOT_RESUMED: &str = "Not run: the user allowed it, but sent a new prompt before the turn was resumed";

/// Precedes the user's answer to the question of a call whose turn was never resumed.
const ANSWERED: &str = "The turn was not resumed, but the user had answered: ";

/// The message to the model in a resumed turn, if the model spoke last.
const GO_ON: &str = "Go on where you stopped.";

impl Actor {
    /// Takes a command, and performs it as soon as it has everything and its turn comes.
    pub(super) fn handle_command(&mut self, command: SessionCommand) {
        if matches!(command, SessionCommand::End) {
            return self.begin_end();
        }
        match self.mailbox.queue.push_command(command) {
            Ok(()) => self.perform_waiting(),
            Err(command) => command.refuse(CommandError::Busy),
        }
    }

    fn begin_end(&mut self) {
        self.residency.ending_since = Some(clock::now());
        self.end_background();
        self.stop_turn(TerminalReason::ServerStopped);
    }

    /// Performs an operation that has everything.
    pub(super) fn perform(&mut self, operation: Operation, mut gathered: Gathered) {
        let command = match operation {
            Operation::Command(command) => command,
            Operation::StartQueued => {
                self.start_next_queued(gathered);
                return;
            }
            Operation::Unload => return self.unload(&gathered),
        };
        match command {
            SessionCommand::Prompt {
                content,
                canceled,
                reply,
            } => self.handle_prompt(content, &canceled, gathered, reply),
            SessionCommand::Resume { reply } => self.resume_turn(gathered, reply),
            SessionCommand::Compact { instructions, reply } => {
                self.start_compaction(instructions, gathered, reply)
            }
            SessionCommand::Steer { content, reply, .. } => {
                self.steer_turn(gathered.message.unwrap_or(content), reply)
            }
            SessionCommand::Revert {
                turn,
                dry_run,
                redo,
                reply,
            } => {
                let reverted = gathered.reverted.unwrap_or_default();
                self.finish_revert(&turn, reverted, (dry_run, redo), reply);
            }
            SessionCommand::Queue { action, reply, .. } => self.handle_queue_action(action, gathered, reply),
            SessionCommand::Decide {
                approval,
                decision,
                reply,
            } => self.decide_approval(approval, decision, gathered.settings.as_ref(), reply),
            SessionCommand::Answer {
                inquiry,
                answer,
                reply,
            } => self.reply_inquiry(inquiry, answer, reply),
            SessionCommand::SetMode { mode, reply } => self.set_mode(mode, reply),
            SessionCommand::SetModel {
                effort,
                refused,
                reply,
                ..
            } => {
                let model = gathered.name.take().and_then(|name| name.full_name);
                let number = refused.or(gathered.number).unwrap_or_default();
                if model.is_some() && number < self.mailbox.queue.model_choice {
                    // Another one was chosen since.
                    let _ = reply.send(Ok(()));
                    return;
                }
                if model.is_some() {
                    self.mailbox.queue.model_choice = number;
                }
                self.set_model(model, effort, reply);
            }
            SessionCommand::SetAgent { agent, reply } => {
                let name = gathered.name.take();
                let (start, gone) = name.map(|name| (name.start, name.model_gone)).unwrap_or_default();
                self.set_agent(agent, (start, gone), reply);
            }
            SessionCommand::Rename { title, reply } => self.rename(title, reply),
            SessionCommand::Load { reply, .. } => self.load_session(reply),
            SessionCommand::Inspect { reply } | SessionCommand::Measure { reply } => {
                let _ = reply.send(Ok(self.to_snapshot()));
            }
            SessionCommand::ResetCircuit { tool, reply } => {
                let was_open = self.reset_circuit(&tool);
                let _ = reply.send(Ok(was_open));
            }
            SessionCommand::RevokeGrant { id, reply } => {
                let _ = reply.send(self.questions.revoke_grant(&id));
            }
            SessionCommand::Delete { reply } => self.delete_session(gathered.deleted, reply),
            SessionCommand::Close { reply } => self.close_session(&gathered, reply),
            #[cfg(feature = "sim")]
            SessionCommand::Settle { reply } => _ = reply.send(()),
            #[cfg(feature = "sim")]
            SessionCommand::Panic => panic!("a test asks for this"),
            SessionCommand::End => {}
        }
    }

    /// Closes the circuit of a tool. Returns whether it was open.
    fn reset_circuit(&mut self, tool: &str) -> bool {
        let circuits = self.resources.statistics.circuits.lock();
        let open = circuits.unwrap_or_else(PoisonError::into_inner).reset(Some(tool));
        for name in &open {
            self.record_event(Event::Circuit {
                subject: CircuitSubject::Tool,
                name: name.clone(),
                state: CircuitState::Closed,
                until: None,
            });
        }
        !open.is_empty()
    }

    fn handle_prompt(
        &mut self,
        content: Vec<Block>,
        canceled: &CancellationToken,
        gathered: Gathered,
        reply: PromptReply,
    ) {
        // Without settings the reply is dropped, as when the session has ended.
        let Some(settings) = gathered.settings else { return };
        // The title is what the user typed, not what a slash command expands to.
        let title = make_title(&content);
        let content = gathered.message.unwrap_or(content);
        let handle = self.start_prompt(TurnTrigger::Prompt, title, content, settings, |_| {});
        self.mailbox.cancels.note_started_by(gathered.number);
        if canceled.is_cancelled() {
            self.cancel_turn(Some(handle.turn.clone()));
        }
        self.return_handle(handle, reply);
    }

    /// Starts the turn of a prompt. `title` is used if the session has none; `then` records what belongs to the start.
    pub(super) fn start_prompt(
        &mut self,
        by: TurnTrigger,
        title: String,
        content: Vec<Block>,
        settings: SessionSettings,
        then: impl FnOnce(&mut Self),
    ) -> TurnHandle {
        let title = Some(title).filter(|title| self.state.choice.title.is_none() && !title.is_empty());
        self.start_turn(settings, TurnTask::Answer, Vec::new(), Vec::new(), |actor| {
            actor.record_event(Event::TurnStarted { by, resumes: None });
            then(actor);
            // A new prompt instead of a resume denies what the interrupted turn left open (R-APPR-4).
            actor.deny_carried();
            actor.drop_inquiries(ResolvedBy::NewPrompt);
            if let Some(title) = title {
                actor.record_event(Event::SessionUpdated {
                    title: Some(title),
                    mode: None,
                    model: None,
                    effort: None,
                });
            }
            actor.take_prompt(content);
        })
    }

    fn resume_turn(&mut self, gathered: Gathered, reply: PromptReply) {
        let (resumes, settings) = match (self.resumable_turn(), gathered.settings) {
            (Ok(turn), Some(settings)) => (turn, settings),
            (Err(refused), _) => {
                let _ = reply.send(Err(refused));
                return;
            }
            (Ok(_), None) => return,
        };
        // Without carried calls nothing would follow the model's last message, so the turn adds a nudge.
        let carried = self.carried_calls();
        let model_spoke_last = carried.is_empty()
            && self
                .state
                .history
                .to_messages()
                .last()
                .is_some_and(|i| i.message.role == Role::Assistant);
        let inquiries = self.carried_inquiries();
        let handle = self.start_turn(settings, TurnTask::Answer, carried, inquiries, |actor| {
            actor.record_event(Event::TurnStarted {
                by: TurnTrigger::Resume,
                resumes: Some(resumes),
            });
            if model_spoke_last {
                let nudge = Message {
                    hidden: true,
                    ..Message::user_text(GO_ON)
                };
                actor.record_event(Event::Message(nudge.into()));
            }
        });
        self.mailbox.cancels.note_started_by(gathered.number);
        self.return_handle(handle, reply);
    }

    fn start_compaction(&mut self, instructions: Option<String>, gathered: Gathered, reply: PromptReply) {
        let Some(settings) = gathered.settings else { return };
        let handle = self.start_turn(
            settings,
            TurnTask::Compact { instructions },
            Vec::new(),
            Vec::new(),
            |actor| {
                actor.record_event(Event::TurnStarted {
                    by: TurnTrigger::Compact,
                    resumes: None,
                });
                actor.deny_carried();
                actor.drop_inquiries(ResolvedBy::NewPrompt);
            },
        );
        self.mailbox.cancels.note_started_by(gathered.number);
        self.return_handle(handle, reply);
    }

    /// Returns the calls that an interrupted turn left open, with their approvals.
    fn carried_calls(&self) -> Vec<CarriedCall> {
        let find_approval_id = |call: &crate::context::OpenCall| {
            let question = self.state.question_about(&call.id);
            question.map(|approval| approval.id.clone())
        };
        self.state
            .history
            .open_calls()
            .map(|call| CarriedCall {
                call: call.clone(),
                approval: find_approval_id(call),
            })
            .collect()
    }

    /// Denies the calls that an interrupted turn left open, because a new turn starts instead of a resume (R-APPR-4).
    fn deny_carried(&mut self) {
        for carried in self.carried_calls() {
            let approval = carried
                .approval
                .and_then(|id| self.state.open_approval(&id).cloned());
            let decision = (approval.as_ref()).and_then(|open| self.questions.take_decision(&open.id));
            let answer = self.kept_answer(&carried.call.id);
            let (status, text) = match (&decision, answer) {
                (None, Some(answer)) => (ToolCallStatus::Cancelled, format!("{ANSWERED}{answer}")),
                (None, None) => (ToolCallStatus::Denied, UNANSWERED.to_owned()),
                (Some(given), _) if given.kind == DecisionKind::Deny => {
                    (ToolCallStatus::Denied, given.describe_denial())
                }
                (Some(_), _) => (ToolCallStatus::Cancelled, NOT_RESUMED.to_owned()),
            };
            match (approval, decision) {
                // The user's own decision counts, also for a grant that comes with it.
                (Some(open), Some(given)) => self.resolve_approval(&open.id, given, ResolvedBy::Person, None),
                (Some(open), None) => self.deny_approval(&open, ResolvedBy::NewPrompt),
                (None, _) => {}
            }
            self.answer_call(&carried.call, status, &text);
        }
    }

    fn return_handle(&mut self, handle: TurnHandle, reply: PromptReply) {
        if let Err(Ok(handle)) = reply.send(Ok(handle)) {
            // The caller went away before the turn began, so nobody wants it.
            self.cancel_turn(Some(handle.turn));
        }
    }

    fn steer_turn(&mut self, content: Vec<Block>, reply: Reply<TurnId>) {
        let Some(running) = self.turn.as_ref().map(|turn| turn.id.clone()) else {
            let _ = reply.send(Err(CommandError::NoTurn));
            return;
        };
        let key = random::random_token(12);
        let pending = PendingEvent::Steer {
            key: key.clone(),
            turn: Some(running.clone()),
            content: content.clone(),
        };
        // Stored before it is confirmed, so that a crash cannot lose it (I16).
        let done = self.journal.answer_stored(reply, running);
        self.journal.put_pending(pending, Some(done));
        self.inbox.push_steer(key, content);
    }

    pub(super) fn cancel_turn(&mut self, only: Option<TurnId>) {
        let Some(turn) = &self.turn else { return };
        if only.is_some_and(|only| only != turn.id) {
            return;
        }
        self.stop_turn(cancel_reason(self.state.in_tools()));
    }

    fn set_mode(&mut self, mode: Mode, reply: Reply<()>) {
        let choice = ContentChoice {
            mode: Some(mode),
            ..ContentChoice::default()
        };
        let event = Event::SessionUpdated {
            title: None,
            mode: Some(mode),
            model: None,
            effort: None,
        };
        self.update_session(Some(choice), event, reply);
        // A looser mode may answer questions that are open.
        self.rejudge_open_approvals();
    }

    fn rename(&mut self, title: String, reply: Reply<()>) {
        let event = Event::SessionUpdated {
            title: Some(title),
            mode: None,
            model: None,
            effort: None,
        };
        self.update_session(None, event, reply);
    }

    /// Changes the model, by its name with its provider, and the effort.
    fn set_model(&mut self, model: Option<String>, effort: Option<EffortChoice>, reply: Reply<()>) {
        let effort = effort.map(|effort| effort.name().to_owned());
        let choice = ContentChoice {
            model: model.clone(),
            effort: effort.clone(),
            mode: None,
        };
        let event = Event::SessionUpdated {
            title: None,
            mode: None,
            model,
            effort,
        };
        self.update_session(Some(choice), event, reply);
    }

    /// Changes the agent. What the user has not chosen in this session is then as in new sessions of the agent. `gone` says
    /// why their model is not the one that was chosen last.
    fn set_agent(
        &mut self,
        agent: Option<String>,
        (start, gone): (ContentChoice, Option<String>),
        reply: Reply<()>,
    ) {
        if self.has_begun() {
            let reason = "the agent can be chosen only before the first prompt".to_owned();
            let _ = reply.send(Err(CommandError::BadCommand(reason)));
            return;
        }
        if self.info.agent != agent {
            self.info.agent = agent;
            let (choice, counts) = (&mut self.state.choice, &self.state.counts);
            if counts.mode_changes == 0 {
                choice.mode = start.mode.unwrap_or(choice.mode);
            }
            if counts.model_changes == 0 {
                choice.model = start.model;
            }
            if counts.effort_changes == 0 {
                choice.effort = start.effort.as_deref().and_then(Effort::from_name);
            }
            self.create_row();
            let row = self.session_row();
            let change = SessionChange {
                title: None,
                agent: Some(row.agent.unwrap_or_default()),
                mode: Some(row.mode),
                model: Some(row.model.unwrap_or_default()),
                effort: Some(row.effort.unwrap_or_default()),
            };
            self.journal.push(StoreWrite::Row(RowWrite::UpdateSession {
                session: self.info.id.clone(),
                change,
            }));
            if let Some(message) = gone.filter(|_| self.state.counts.model_changes == 0) {
                let code = "model_gone".to_owned();
                self.record_event(Event::Warning { code, message });
            }
        }
        let stored = self.journal.flush();
        self.journal.answer_after(stored, reply, ());
    }

    /// Records a change of the session, and remembers the user's choice for new sessions of the folder. The choice
    /// comes first, so that whoever has the answer also finds it in the store.
    fn update_session(&mut self, choice: Option<ContentChoice>, event: Event, reply: Reply<()>) {
        let write = choice.and_then(|choice| remembered_choice_write(&self.info, choice));
        if let Some(write) = write {
            self.journal.push(write);
        }
        let done = self.journal.answer_stored(reply, ());
        // The turn did not cause this event, so it carries no turn id.
        self.record_in_turn(None, event, None, Vec::new(), Vec::new(), Some(done));
    }

    fn load_session(&mut self, reply: Reply<LoadReply>) {
        // It fires when everything recorded so far is stored and sent.
        let passed = self.journal.flush();
        let _ = reply.send(Ok(LoadReply {
            snapshot: self.to_snapshot(),
            open_calls: self.state.open.calls.values().cloned().collect(),
            partial: self.partial.message.clone(),
            skipped: self.journal.take_skipped(),
            passed,
        }));
    }

    /// Records what a revert has restored, and answers once that is stored.
    fn finish_revert(
        &mut self,
        turn: &TurnId,
        reverted: RevertReply,
        (dry_run, redo): (bool, bool),
        reply: Reply<RevertReply>,
    ) {
        if dry_run || reverted.files.is_empty() {
            let _ = reply.send(Ok(reverted));
            return;
        }
        self.services.totals.reverts.add(1);
        self.metrics.reverts += 1;
        let state = if redo {
            ChangeState::Redone
        } else {
            ChangeState::Reverted
        };
        let diff = to_revert_diff(turn, state, &reverted);
        let event = Event::TurnDiff(Arc::new(diff));
        // A complete redo leaves nothing to redo.
        let is_over = redo && reverted.conflicts.is_empty();
        let (done, stored) = oneshot::channel();
        if is_over {
            self.record_in_turn(None, event, None, Vec::new(), Vec::new(), None);
            self.journal.push(StoreWrite::Changes {
                session: self.info.id.clone(),
                cause: revert_cause(turn),
                replaces_earlier: true,
                changes: Vec::new(),
                done,
            });
        } else {
            self.record_in_turn(None, event, None, Vec::new(), Vec::new(), Some(done));
        }
        self.journal.answer_after(stored, reply, reverted);
    }

    /// Ends the deletion of the session with its result. If a turn is running, cancels it first and deletes at its end.
    fn delete_session(&mut self, deleted: Option<Result<(), CommandError>>, reply: Reply<()>) {
        let Some(deleted) = deleted else {
            self.cancel_turn(None);
            self.residency.deleting.push(reply);
            return;
        };
        if deleted.is_ok() {
            self.mark_deleted();
        }
        for waiting in self.residency.deleting.drain(..).chain([reply]) {
            let _ = waiting.send(deleted.clone());
        }
    }

    /// Unloads the session at a client's wish. If a turn is running, cancels it first and unloads at its end.
    fn close_session(&mut self, gathered: &Gathered, reply: Reply<bool>) {
        if let Some(turn) = &self.turn {
            // A second cancel would kill what is being ended gracefully.
            if turn.control.stopping.is_none() {
                self.cancel_turn(None);
            }
            self.residency.closing.push(reply);
            return;
        }
        self.unload(gathered);
        let waiting: Vec<_> = self.residency.closing.drain(..).chain([reply]).collect();
        for reply in waiting {
            let _ = reply.send(Ok(self.residency.has_retired));
        }
        if !self.residency.has_retired {
            self.mailbox.queue.push_first(Operation::StartQueued);
        }
    }

    /// Unloads the idle session. The registry decides atomically with new arrivals, so that no command is lost to an
    /// actor that leaves.
    fn unload(&mut self, gathered: &Gathered) {
        let has_recorded = self.residency.stage == LoadState::Open;
        let may_leave = (gathered.is_stored || !has_recorded) && self.mailbox.queue.is_empty();
        let live = &self.residency.live_sessions;
        if may_leave && live.try_retire(&self.info.id, &self.mailbox.commands) {
            self.residency.has_retired = true;
        } else {
            self.residency.last_used = clock::now();
        }
    }

    /// Resets the actor of a deleted session. Later requests find nothing in the store. Ending the actor immediately
    /// would drop requests that are already waiting.
    fn mark_deleted(&mut self) {
        let state = std::mem::take(&mut self.state);
        for open in &state.open.approvals {
            self.residency
                .live_sessions
                .set_approval_session(&open.approval.id, None);
        }
        for open in &state.open.inquiries {
            self.residency
                .live_sessions
                .set_inquiry_session(&open.inquiry.id, None);
        }
        // Its background processes have ended with it.
        self.resources.workspace = None;
        // Its MCP servers end, unless another session uses them.
        self.resources.mcp = None;
        self.residency.stage = LoadState::Stored;
        self.residency.lock = None;
        self.journal.restart_at(0, Vec::new());
        (self.partial.message, self.partial.due) = (None, None);
        self.inbox.clear();
        self.questions.clear();
    }
}

/// Returns the reason of a canceled turn, depending on what it was doing.
fn cancel_reason(in_tools: bool) -> TerminalReason {
    if in_tools {
        TerminalReason::AbortedTools
    } else {
        TerminalReason::AbortedStreaming
    }
}
