//! What the actor does for each command, except for approvals, loading, reverting and queueing.
//!
//! A handler answers through the command's reply, and only after what it confirms is stored (I16). It must not wait for
//! the network, and it runs inside the actor, so it needs no lock.

use std::path::Path;
use std::sync::PoisonError;

use tokio::sync::oneshot;

use super::actor::Actor;
use super::command::{
    CommandError, LoadReply, PromptReply, Reply, SessionCommand, SessionSnapshot, TurnHandle,
};
use super::finish::cancel_reason;
use super::manager::remembered_choice_write;
use super::models::ModelVerdict;
use super::residency::LoadState;
use crate::base::random;
use crate::base::{clock, text};
use crate::domain::{
    Block, CircuitState, CircuitSubject, Event, GrantScope, Message, ResolvedBy, Role, TerminalReason,
    ToolCallStatus, TurnId, TurnTrigger,
};
use crate::store::{ContentChoice, PendingEvent, StoreWrite};
use crate::turn::{CarriedCall, TurnTask};

/// The characters to which a title made from the first prompt is cut.
const TITLE_CHARS: usize = 80;

/// The message to the model in a resumed turn, if the model spoke last.
const GO_ON: &str = "Go on where you stopped.";

impl Actor {
    pub(super) async fn handle_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Prompt { content, reply } => self.handle_prompt(content, reply).await,
            SessionCommand::Resume { reply } => self.resume_turn(reply).await,
            SessionCommand::Compact { instructions, reply } => {
                self.start_compaction(instructions, reply).await
            }
            SessionCommand::Steer {
                content,
                expected,
                reply,
            } => self.steer_turn(content, expected, reply).await,
            SessionCommand::Revert {
                turn,
                dry_run,
                redo,
                reply,
            } => {
                let done = self.revert_turn(&turn, dry_run, redo).await;
                // The caller may be gone.
                let _ = reply.send(done);
            }
            SessionCommand::Queue { action, reply } => self.handle_queue_action(action, reply).await,
            SessionCommand::Decide {
                approval,
                decision,
                reply,
            } => {
                self.decide_approval(approval, decision, reply).await;
            }
            SessionCommand::Answer { inquiry, said, reply } => {
                self.reply_inquiry(inquiry, said, reply).await;
            }
            SessionCommand::SetMode { mode, reply } => {
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
                self.apply_choice(choice, event, reply).await;
                // A looser mode may answer questions that are open.
                self.rejudge_open_approvals();
            }
            SessionCommand::SetModel { model, effort, reply } => {
                if let Err(refused) = self.check_model(model.as_deref()).await {
                    let _ = reply.send(Err(refused));
                    return;
                }
                let effort = effort.map(|effort| effort.name().to_owned());
                let profiles = self.services.profiles.clone();
                let full_name = |model: &String| profiles.full_model_name(&self.info, model);
                let choice = ContentChoice {
                    model: model.as_ref().map(full_name),
                    effort: effort.clone(),
                    mode: None,
                };
                let event = Event::SessionUpdated {
                    title: None,
                    mode: None,
                    model,
                    effort,
                };
                self.apply_choice(choice, event, reply).await;
            }
            SessionCommand::Rename { title, reply } => {
                let event = Event::SessionUpdated {
                    title: Some(title),
                    mode: None,
                    model: None,
                    effort: None,
                };
                self.apply_update(event, reply).await;
            }
            SessionCommand::Load { read_only, reply } => self.load_session(read_only, reply).await,
            SessionCommand::Inspect { reply } => {
                let looked = self.ensure_row_loaded().await;
                let _ = reply.send(looked.map(|()| self.to_snapshot()));
            }
            SessionCommand::Measure { reply } => {
                let looked = self.ensure_row_loaded().await;
                self.count_stored_events().await;
                let _ = reply.send(looked.map(|()| self.to_snapshot()));
            }
            SessionCommand::ResetCircuit { tool, reply } => {
                let was_open = self.reset_circuit(&tool);
                let _ = reply.send(Ok(was_open));
            }
            SessionCommand::RevokeGrant { id, reply } => {
                let before = self.questions.grants.len();
                self.questions.grants.retain(|grant| grant.id != id);
                let _ = reply.send(self.questions.grants.len() < before);
            }
            SessionCommand::Delete { reply } => self.delete_session(reply).await,
            SessionCommand::End => {
                self.residency.is_ending = true;
                self.end_background();
                self.stop_turn(TerminalReason::ServerStopped);
            }
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

    async fn handle_prompt(&mut self, content: Vec<Block>, reply: PromptReply) {
        if let Err(refused) = self.may_start().await {
            let _ = reply.send(Err(refused));
            return;
        }
        // The title is what the user typed, not what a slash command expands to.
        let title = make_title(&content);
        let content = match self.expand_slash_command(content).await {
            Ok(content) => self.rewrite_references(content),
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let handle = self.start_prompt(TurnTrigger::Prompt, title, content, |_| {});
        self.return_handle(handle, reply);
    }

    /// Starts the turn of a prompt. `title` is used if the session has none; `then` records what belongs to the start.
    pub(super) fn start_prompt(
        &mut self,
        by: TurnTrigger,
        title: String,
        content: Vec<Block>,
        then: impl FnOnce(&mut Self),
    ) -> TurnHandle {
        let title = Some(title).filter(|title| self.state.title.is_none() && !title.is_empty());
        self.start_turn(TurnTask::Answer, Vec::new(), Vec::new(), |actor| {
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

    /// Rewrites file references relative to the session's cwd, as tools print them.
    pub(super) fn rewrite_references(&mut self, mut content: Vec<Block>) -> Vec<Block> {
        for block in &mut content {
            if let Block::Reference(reference) = block {
                reference.path = self
                    .session_workspace()
                    .format_for_model(&self.info.cwd, Path::new(&reference.path));
            }
        }
        content
    }

    async fn resume_turn(&mut self, reply: PromptReply) {
        let resumes = match self.may_start().await {
            Ok(()) => self.resumable_turn(),
            Err(refused) => Err(refused),
        };
        let resumes = match resumes {
            Ok(turn) => turn,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
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
        let handle = self.start_turn(TurnTask::Answer, carried, inquiries, |actor| {
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
        self.return_handle(handle, reply);
    }

    async fn start_compaction(&mut self, instructions: Option<String>, reply: PromptReply) {
        if let Err(refused) = self.may_start().await {
            let _ = reply.send(Err(refused));
            return;
        }
        let handle = self.start_turn(
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
        self.return_handle(handle, reply);
    }

    pub(super) async fn may_start(&mut self) -> Result<(), CommandError> {
        if self.residency.is_ending {
            return Err(CommandError::Ending);
        }
        if let Some(turn) = &self.turn {
            return Err(CommandError::TurnRunning(turn.id.clone()));
        }
        // If nothing can be stored, a refused prompt stays with the client; an accepted one would be lost (I16).
        self.check_writable()?;
        self.open().await?;
        self.refresh_grants().await
    }

    fn resumable_turn(&self) -> Result<TurnId, CommandError> {
        match &self.state.last_end {
            Some((
                turn,
                TerminalReason::AbortedStreaming
                | TerminalReason::AbortedTools
                | TerminalReason::ServerStopped
                | TerminalReason::WallTime
                | TerminalReason::StoppedByUser,
            )) if self.residency.stage != LoadState::Open || !self.state.history.is_empty() => {
                Ok(turn.clone())
            }
            _ => Err(CommandError::NothingToResume),
        }
    }

    /// Returns the calls that an interrupted turn left open, with their approvals.
    fn carried_calls(&self) -> Vec<CarriedCall> {
        let asked = |call: &crate::context::OpenCall| {
            let question = self.state.question_about(&call.id);
            question.map(|approval| approval.id.clone())
        };
        self.state
            .history
            .open_calls()
            .map(|call| CarriedCall {
                call: call.clone(),
                approval: asked(call),
            })
            .collect()
    }

    /// Denies the calls that an interrupted turn left open, because a new turn starts instead of a resume (R-APPR-4).
    fn deny_carried(&mut self) {
        for carried in self.carried_calls() {
            let approval = carried
                .approval
                .and_then(|id| self.state.open_approval(&id).cloned());
            if let Some(approval) = approval {
                self.questions.decisions.remove(&approval.id);
                self.deny_approval(&approval, ResolvedBy::NewPrompt);
            }
            self.answer_call(
                &carried.call,
                ToolCallStatus::Denied,
                "Denied by user: a new prompt was sent instead of an answer",
            );
        }
    }

    fn return_handle(&mut self, handle: TurnHandle, reply: PromptReply) {
        if let Err(Ok(handle)) = reply.send(Ok(handle)) {
            // The caller went away before the turn began, so nobody wants it.
            self.cancel_turn(Some(handle.turn));
        }
    }

    async fn steer_turn(&mut self, content: Vec<Block>, expected: Option<TurnId>, reply: Reply<TurnId>) {
        let running = match &self.turn {
            Some(turn) if turn.control.takes_steers() => turn.id.clone(),
            _ => {
                // Distinguish a session that does not exist from one without a turn.
                let why = self
                    .ensure_row_loaded()
                    .await
                    .err()
                    .unwrap_or(CommandError::NoTurn);
                let _ = reply.send(Err(why));
                return;
            }
        };
        if let Some(expected) = expected.filter(|expected| *expected != running) {
            let _ = reply.send(Err(CommandError::OtherTurn { expected, running }));
            return;
        }
        let content = match self.expand_slash_command(content).await {
            Ok(content) => self.rewrite_references(content),
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
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
        self.inbox.steers.push_back((key, content));
    }

    pub(super) fn cancel_turn(&mut self, only: Option<TurnId>) {
        let Some(turn) = &self.turn else { return };
        if only.is_some_and(|only| only != turn.id) {
            return;
        }
        self.stop_turn(cancel_reason(self.state.in_tools()));
    }

    /// Checks whether a name can be a model here. It must not contact a provider: commands never wait for the network.
    async fn check_model(&mut self, model: Option<&str>) -> Result<(), CommandError> {
        self.ensure_row_loaded().await?;
        let verdict = model.map(|model| self.services.profiles.judge_model(&self.info, model));
        match verdict {
            None | Some(ModelVerdict::Accept) => Ok(()),
            Some(ModelVerdict::Refuse(why)) => Err(CommandError::UnknownModel(why)),
            Some(ModelVerdict::NeedsList) => Err(CommandError::NeedsModelList(Box::new(self.info.clone()))),
        }
    }

    /// Applies the user's choice to the session, and remembers it for new sessions of the folder.
    async fn apply_choice(&mut self, choice: ContentChoice, event: Event, reply: Reply<()>) {
        self.update_with(remembered_choice_write(&self.info, choice), event, reply)
            .await;
    }

    async fn apply_update(&mut self, event: Event, reply: Reply<()>) {
        self.update_with(None, event, reply).await;
    }

    /// Records `event` after `write`, so that whoever has the answer also finds the write in the store.
    async fn update_with(&mut self, write: Option<StoreWrite>, event: Event, reply: Reply<()>) {
        let ready = match &self.turn {
            Some(_) => Ok(()),
            None => self.open().await,
        };
        if let Err(refused) = ready.and_then(|()| self.check_writable()) {
            let _ = reply.send(Err(refused));
            return;
        }
        if let Some(write) = write {
            self.journal.push(write);
        }
        let done = self.journal.answer_stored(reply, ());
        // The turn did not cause this event, so it carries no turn id.
        self.record_in_turn(None, event, None, Vec::new(), Vec::new(), Some(done));
    }

    async fn load_session(&mut self, read_only: bool, reply: Reply<LoadReply>) {
        let ready = if read_only {
            self.ensure_row_loaded().await
        } else {
            // Events that repair the session are in the loaded page and must not be sent as notifications too.
            self.journal.is_loading_page = true;
            let opened = self.load_for_display().await;
            self.journal.is_loading_page = false;
            opened
        };
        if let Err(refused) = ready {
            let _ = reply.send(Err(refused));
            return;
        }
        let (tell, passed) = oneshot::channel();
        // The reply's `passed` fires when everything recorded so far is stored and sent.
        self.journal.push(StoreWrite::Barrier(tell));
        let _ = reply.send(Ok(LoadReply {
            snapshot: self.to_snapshot(),
            partial: self.partial.message.clone(),
            skipped: std::mem::take(&mut self.journal.skipped),
            passed,
        }));
    }

    /// Returns the running turn and the resumable one. A turn that a crash cut has no end yet.
    fn running_and_resumable_turns(&self) -> (Option<TurnId>, Option<TurnId>) {
        if let Some(turn) = &self.turn {
            return (Some(turn.id.clone()), None);
        }
        match &self.state.open_turn {
            Some(open) if self.residency.is_running_elsewhere => (Some(open.clone()), None),
            Some(open) => (None, Some(open.clone())),
            None => (None, self.resumable_turn().ok()),
        }
    }

    fn to_snapshot(&self) -> SessionSnapshot {
        let (turn, resumable) = self.running_and_resumable_turns();
        let mut metrics = self.metrics.clone();
        metrics.usage = self.state.usage;
        metrics.cost = self.state.cost;
        let counts = self.state.counts.clone();
        // Calls of this process are counted where they are made, including those that left no event.
        metrics.requests = match self.resources.statistics.requests.get() {
            0 => counts.requests,
            requests => requests,
        };
        metrics.retries = counts.retries;
        metrics.compactions = counts.compactions;
        metrics.cancels = counts.cancels;
        metrics.tool_calls = counts.tool_calls;
        metrics.errors = counts.errors;
        SessionSnapshot {
            info: self.info.clone(),
            title: self.state.title.clone(),
            mode: self.state.mode,
            model: self.state.model.clone(),
            effort: self.state.effort,
            seq: self.journal.seq,
            turn,
            resumable,
            approvals: self.state.approvals.clone(),
            decided: self.questions.decisions.keys().cloned().collect(),
            inquiries: self.state.inquiries.clone(),
            replied: self.questions.replies.keys().cloned().collect(),
            queue: self.queue_state(),
            instructions: self.state.instructions.clone(),
            grants: self
                .questions
                .grants
                .iter()
                .filter(|g| g.scope == GrantScope::Session)
                .cloned()
                .collect(),
            metrics,
            circuits: {
                let circuits = self
                    .resources
                    .statistics
                    .circuits
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                circuits.open_circuit_views(clock::now(), clock::wall_ms())
            },
        }
    }

    /// Deletes the session. If a turn is running, cancels it first and deletes at its end.
    pub(super) async fn delete_session(&mut self, reply: Reply<()>) {
        if self.turn.is_some() {
            self.cancel_turn(None);
            self.residency.deleting.push(reply);
            return;
        }
        let ready = match self.residency.stage {
            // Deleting needs the session's lock, so that no other server is working in it.
            LoadState::Stored => self.open().await,
            LoadState::New | LoadState::Held | LoadState::Open => Ok(()),
        };
        if let Err(refused) = ready {
            let _ = reply.send(Err(refused));
            return;
        }
        let flushed = self.flush().await.map(|_| ());
        let deleted = match flushed {
            Ok(()) => {
                self.services
                    .store
                    .writes
                    .delete_session(self.info.id.clone())
                    .await
            }
            Err(error) => Err(error),
        };
        if deleted.is_ok() {
            // I8: background processes do not outlive their session.
            if let Some(workspace) = self.resources.workspace.take() {
                workspace.background().end_all().await;
            }
            self.mark_deleted();
        }
        let deleted = deleted.map_err(super::load::to_command_error);
        for waiting in self.residency.deleting.drain(..).chain([reply]) {
            let _ = waiting.send(deleted.clone());
        }
    }

    /// Resets the actor of a deleted session. Later requests find nothing in the store. Ending the actor immediately
    /// would drop requests that are already waiting.
    fn mark_deleted(&mut self) {
        let state = std::mem::take(&mut self.state);
        for open in &state.approvals {
            self.residency
                .live_sessions
                .set_approval_session(&open.approval.id, None);
        }
        for open in &state.inquiries {
            self.residency
                .live_sessions
                .set_inquiry_session(&open.inquiry.id, None);
        }
        self.residency.stage = LoadState::Stored;
        self.residency.lock = None;
        self.journal.seq = 0;
        (self.partial.message, self.partial.due) = (None, None);
        self.inbox.steers.clear();
        self.inbox.queue.clear();
        self.questions.decisions.clear();
        self.questions.replies.clear();
        self.questions.grants.clear();
    }
}

/// Wraps what the user wrote into a message.
pub(super) fn user_message(content: Vec<Block>) -> Message {
    Message {
        content,
        ..Message::user_text("")
    }
}

pub(super) fn make_title(content: &[Block]) -> String {
    let said: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    text::one_line(&text::strip_control_characters(&said.join(" ")), TITLE_CHARS)
}
