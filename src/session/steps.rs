//! Which step an operation needs next, and what its result changes.
//!
//! Synchronous: deciding reads only the actor's state, and a step itself is a future of `io` or `revert`. What an
//! operation does once it has everything is in `commands` and `queue`.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};

use super::actor::{Actor, IoResult};
use super::command::{CommandError, QueueAction, SessionCommand};
use super::command_queue::{Gathered, IoStep, Operation, PendingOperation};
use super::io::{self, ChosenName, ExpansionCancel, GrantsRead, IoOutcome};
use super::models::ModelVerdict;
use super::residency::LoadState;
use super::revert::{RevertRequest, revert_context, revert_files};
use crate::base::CancellationToken;
use crate::domain::{Block, Event, TurnId};
use crate::store::{LockError, SessionLock, StoreError};

/// How long to wait for a session that another server is releasing (R-SESS-1).
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The next step of an operation, `None` if it has everything, or why it is refused.
type NextStep = Result<Option<IoStep>, CommandError>;

impl Actor {
    /// Performs what waits, as far as nothing must be read for it first.
    pub(super) fn perform_waiting(&mut self) {
        while let Some(pending) = self.mailbox.queue.take_next(self.turn.is_some()) {
            self.advance(pending);
        }
    }

    /// Takes an operation's next step, or performs it.
    fn advance(&mut self, pending: PendingOperation) {
        match self.next_step(&pending) {
            Ok(None) => {
                let mut gathered = pending.gathered;
                let problems = std::mem::take(&mut gathered.problems);
                self.perform(pending.operation, gathered);
                for message in problems {
                    let code = "mention_not_attached".to_owned();
                    self.record_event(Event::Warning { code, message });
                }
            }
            Ok(Some(step)) => {
                let id = pending.id;
                let step_future = self.start_step(step, &pending);
                let posted = step_future.map(move |outcome| IoResult::Step(id, step, Box::new(outcome)));
                self.mailbox.io.push(posted.boxed());
                self.mailbox.queue.hold(pending, step);
            }
            Err(refused) => self.refuse(pending.operation, refused),
        }
    }

    /// Applies the result of an operation's step, and goes on with it.
    pub(super) fn finish_step(&mut self, id: u64, step: IoStep, outcome: IoOutcome) {
        let Some(mut pending) = self.mailbox.queue.take_started(id) else {
            return;
        };
        pending.gathered.steps.push(step);
        match self.apply_outcome(outcome, &mut pending) {
            Ok(()) => self.advance(pending),
            Err(refused) => self.refuse(pending.operation, refused),
        }
        self.perform_waiting();
    }

    fn refuse(&mut self, operation: Operation, refused: CommandError) {
        match operation {
            Operation::Command(command) => command.refuse(refused),
            Operation::StartQueued => self.pause_queue(&refused),
            Operation::Unload => {}
        }
    }

    fn next_step(&self, pending: &PendingOperation) -> NextStep {
        let gathered = &pending.gathered;
        let command = match &pending.operation {
            Operation::Command(command) => command,
            Operation::StartQueued if self.is_prompt_due() => return self.next_for_turn(gathered),
            Operation::StartQueued => return Ok(None),
            Operation::Unload => return Ok(self.next_for_unload(gathered)),
        };
        match command {
            SessionCommand::Prompt { content, .. } => {
                let step = self.next_for_start(gathered)?;
                let step = step.or_else(|| next_for_message(content, gathered));
                Ok(step.or_else(|| next_for_settings(gathered)))
            }
            SessionCommand::Resume { .. } => match self.next_for_start(gathered)? {
                Some(step) => Ok(Some(step)),
                None => self.resumable_turn().map(|_| next_for_settings(gathered)),
            },
            SessionCommand::Compact { .. } => self.next_for_turn(gathered),
            SessionCommand::Steer {
                content, expected, ..
            } => self.next_for_steer(content, expected.as_ref(), gathered),
            SessionCommand::Queue { action, .. } => self.next_for_queue(action, gathered),
            SessionCommand::Revert { .. } => {
                let step = self.next_for_start(gathered)?;
                let reverted = gathered.reverted.is_some();
                Ok(step.or((!reverted).then_some(IoStep::RevertFiles)))
            }
            SessionCommand::Decide { decision, .. } => {
                let step = self.next_for_answer(gathered)?;
                // The names of the tools are needed to check a rule that the user edited.
                let checks_rule = self.turn.is_none() && decision.rule.is_some();
                Ok(step.or_else(|| checks_rule.then(|| next_for_settings(gathered)).flatten()))
            }
            SessionCommand::Answer { .. } => self.next_for_answer(gathered),
            SessionCommand::SetMode { .. } | SessionCommand::Rename { .. } => self.next_for_change(gathered),
            SessionCommand::SetModel { model, .. } => self.next_for_name(model.is_some(), gathered),
            SessionCommand::SetAgent { .. } => self.next_for_name(true, gathered),
            SessionCommand::Load { read_only: false, .. } => Ok(self.next_for_display(gathered)),
            SessionCommand::Load { read_only: true, .. } | SessionCommand::Inspect { .. } => {
                Ok(self.next_for_row(gathered))
            }
            SessionCommand::Measure { .. } => {
                let is_open = matches!(self.residency.stage, LoadState::New | LoadState::Open);
                let counts = !is_open && !gathered.has_taken(IoStep::CountEvents);
                Ok(self
                    .next_for_row(gathered)
                    .or(counts.then_some(IoStep::CountEvents)))
            }
            SessionCommand::Delete { .. } => Ok(self.next_for_deletion(gathered)),
            SessionCommand::Close { .. } if self.turn.is_some() => Ok(None),
            SessionCommand::Close { .. } => Ok(self.next_for_unload(gathered)),
            SessionCommand::ResetCircuit { .. }
            | SessionCommand::RevokeGrant { .. }
            | SessionCommand::End => Ok(None),
            #[cfg(feature = "sim")]
            SessionCommand::Settle { .. } | SessionCommand::Panic => Ok(None),
        }
    }

    fn next_for_lock(&self, gathered: &Gathered) -> Option<IoStep> {
        let is_free = self.residency.lock.is_none() && !gathered.has_taken(IoStep::Lock);
        is_free.then_some(IoStep::Lock)
    }

    /// Makes the session live, unless it is.
    fn next_for_open(&self, gathered: &Gathered) -> Option<IoStep> {
        let is_open = matches!(self.residency.stage, LoadState::New | LoadState::Open);
        let step = self.next_for_lock(gathered);
        step.or((!is_open).then_some(IoStep::Fold))
    }

    /// Takes the session over to show it. Its events are folded only if something must be repaired, because the page
    /// must contain the repair. So a long session shows immediately (R-SESS-2).
    fn next_for_display(&self, gathered: &Gathered) -> Option<IoStep> {
        let step = self
            .next_for_lock(gathered)
            .or_else(|| self.next_for_row(gathered));
        step.or(gathered.is_unsettled.then_some(IoStep::Fold))
            .filter(|step| *step == IoStep::Lock || self.residency.stage == LoadState::Stored)
    }

    /// Reads the session's own data without taking it over.
    fn next_for_row(&self, gathered: &Gathered) -> Option<IoStep> {
        let is_unread = self.residency.stage == LoadState::Stored && !gathered.has_taken(IoStep::ReadRow);
        is_unread.then_some(IoStep::ReadRow)
    }

    /// Checks whether a turn, or something that excludes one, may start.
    fn next_for_start(&self, gathered: &Gathered) -> NextStep {
        if self.residency.is_ending() {
            return Err(CommandError::Ending);
        }
        if let Some(turn) = &self.turn {
            return Err(CommandError::TurnRunning(turn.id.clone()));
        }
        // If nothing can be stored, a refused prompt stays with the client; an accepted one would be lost (I16).
        self.check_writable()?;
        if let Some(step) = self.next_for_open(gathered) {
            return Ok(Some(step));
        }
        match &gathered.start_error {
            Some(refused) => Err(refused.clone()),
            None => Ok((!gathered.has_taken(IoStep::ReadGrants)).then_some(IoStep::ReadGrants)),
        }
    }

    fn next_for_turn(&self, gathered: &Gathered) -> NextStep {
        let step = self.next_for_start(gathered)?;
        Ok(step.or_else(|| next_for_settings(gathered)))
    }

    fn next_for_steer(&self, content: &[Block], expected: Option<&TurnId>, gathered: &Gathered) -> NextStep {
        let running = match &self.turn {
            Some(turn) if turn.control.takes_steers() => &turn.id,
            // Distinguish a session that does not exist from one without a turn.
            _ => {
                let step = self.next_for_row(gathered).ok_or(CommandError::NoTurn)?;
                return Ok(Some(step));
            }
        };
        match expected.filter(|expected| *expected != running) {
            Some(expected) => Err(CommandError::OtherTurn {
                expected: expected.clone(),
                running: running.clone(),
            }),
            None => Ok(next_for_message(content, gathered)),
        }
    }

    fn next_for_queue(&self, action: &QueueAction, gathered: &Gathered) -> NextStep {
        if *action == QueueAction::List {
            return Ok(self.next_for_row(gathered));
        }
        if self.residency.is_ending() {
            return Err(CommandError::Ending);
        }
        self.check_writable()?;
        if self.turn.is_none()
            && let Some(step) = self.next_for_open(gathered)
        {
            return Ok(Some(step));
        }
        self.check_queue_action(action)?;
        let (message, starts) = match action {
            QueueAction::Add(content) => (next_for_message(content, gathered), !self.state.queue_paused),
            QueueAction::Edit(_, content) => (next_for_message(content, gathered), false),
            QueueAction::SendNow(_) => (None, true),
            QueueAction::List | QueueAction::Remove(_) => (None, false),
        };
        let is_leaving = !self.residency.deleting.is_empty() || !self.residency.closing.is_empty();
        let starts = starts && self.turn.is_none() && !is_leaving;
        // The action still succeeds: the prompt waits in the queue.
        let start = || {
            starts
                .then(|| self.next_for_turn(gathered).ok().flatten())
                .flatten()
        };
        Ok(message.or_else(start))
    }

    /// Checks whether an answer to an open question can be taken.
    fn next_for_answer(&self, gathered: &Gathered) -> NextStep {
        if self.turn.is_some() {
            return Ok(None);
        }
        // Without a turn the question belongs to an interrupted one, which only an opened session knows.
        self.check_writable()?;
        Ok(self.next_for_open(gathered))
    }

    fn next_for_change(&self, gathered: &Gathered) -> NextStep {
        let step = self
            .turn
            .is_none()
            .then(|| self.next_for_open(gathered))
            .flatten();
        if step.is_none() {
            self.check_writable()?;
        }
        Ok(step)
    }

    fn next_for_name(&self, has_name: bool, gathered: &Gathered) -> NextStep {
        if let Some(step) = self.next_for_row(gathered) {
            return Ok(Some(step));
        }
        match gathered.name.as_ref().map(|name| &name.verdict) {
            None if has_name => Ok(Some(IoStep::JudgeName)),
            Some(ModelVerdict::Refuse(reason)) => Err(CommandError::UnknownModel(reason.clone())),
            Some(ModelVerdict::NeedsList) => Err(CommandError::NeedsModelList(
                Box::new(self.info.clone()),
                gathered.number.unwrap_or_default(),
            )),
            Some(ModelVerdict::Accept) | None => self.next_for_change(gathered),
        }
    }

    fn next_for_deletion(&self, gathered: &Gathered) -> Option<IoStep> {
        if self.turn.is_some() || gathered.has_taken(IoStep::Delete) {
            return None;
        }
        // Deleting needs the session's lock, so that no other server is working in it.
        let opens = self.residency.stage == LoadState::Stored;
        let step = opens.then(|| self.next_for_open(gathered)).flatten();
        step.or(Some(IoStep::Delete))
    }

    fn next_for_unload(&self, gathered: &Gathered) -> Option<IoStep> {
        // In the other states nothing was recorded, so nothing can be missing.
        let has_recorded = self.residency.stage == LoadState::Open;
        (has_recorded && !gathered.has_taken(IoStep::CheckStored)).then_some(IoStep::CheckStored)
    }

    fn start_step(&mut self, step: IoStep, pending: &PendingOperation) -> BoxFuture<'static, IoOutcome> {
        let (services, id) = (self.services.clone(), self.info.id.clone());
        match step {
            IoStep::Lock => {
                // No other server can know a session that was just created.
                let is_stored = self.residency.stage == LoadState::Stored;
                let wait = if is_stored { LOCK_WAIT } else { Duration::ZERO };
                io::lock_session(services, id, wait).map(IoOutcome::Lock).boxed()
            }
            IoStep::ReadRow => {
                let is_locked = self.residency.lock.is_some();
                io::read_row(services, id, is_locked).map(IoOutcome::Row).boxed()
            }
            IoStep::Fold => io::fold_session(services, id).map(IoOutcome::Folded).boxed(),
            IoStep::ReadGrants => {
                let flushed = self.questions.has_new_grants().then(|| self.journal.flush());
                let folder = self.info.folder.display().to_string();
                let read = io::read_grants(services, id, folder, flushed);
                read.map(IoOutcome::Grants).boxed()
            }
            IoStep::ExpandMessage => {
                let content = message_of(&pending.operation).unwrap_or_default();
                let number = pending.gathered.number.unwrap_or(u64::MAX);
                let canceled = self.mailbox.cancels.wait_for_cancel_of(number);
                let of_request = match &pending.operation {
                    Operation::Command(
                        SessionCommand::Prompt { canceled, .. }
                        | SessionCommand::Steer { canceled, .. }
                        | SessionCommand::Queue { canceled, .. },
                    ) => canceled.clone(),
                    _ => CancellationToken::new(),
                };
                let of_request = Box::pin(of_request.cancelled_owned());
                let cancel = ExpansionCancel {
                    starts_turn: matches!(
                        pending.operation,
                        Operation::Command(SessionCommand::Prompt { .. })
                    ),
                    canceled: future::select(canceled, of_request).map(drop).boxed(),
                };
                let expanded = io::expand_message(
                    services,
                    self.info.clone(),
                    self.session_workspace(),
                    content,
                    cancel,
                );
                expanded.map(IoOutcome::Message).boxed()
            }
            IoStep::ReadSettings => {
                let read = io::read_settings(services, self.info.clone());
                read.map(IoOutcome::Settings).boxed()
            }
            IoStep::JudgeName => {
                let name = chosen_name(&pending.operation);
                let judged = io::judge_name(services, self.info.clone(), name);
                judged.map(IoOutcome::Name).boxed()
            }
            IoStep::CountEvents => {
                let counted = io::count_events(services, id, self.state.counts.clone());
                counted.map(IoOutcome::Counts).boxed()
            }
            IoStep::RevertFiles => self.start_revert(&pending.operation),
            IoStep::Delete => {
                let workspace = self.resources.workspace.clone();
                let deleted = io::delete_session(services, id, workspace, self.journal.flush());
                deleted.map(IoOutcome::Deleted).boxed()
            }
            IoStep::CheckStored => {
                let stored = io::is_session_stored(services, id, self.journal.seq(), self.journal.flush());
                stored.map(IoOutcome::Stored).boxed()
            }
        }
    }

    fn start_revert(&mut self, operation: &Operation) -> BoxFuture<'static, IoOutcome> {
        let Operation::Command(SessionCommand::Revert {
            turn, dry_run, redo, ..
        }) = operation
        else {
            return std::future::ready(IoOutcome::Reverted(Ok(Default::default()))).boxed();
        };
        let (workspace, content_sink) = (self.session_workspace(), self.content_sink());
        let request = RevertRequest {
            turn: turn.clone(),
            dry_run: *dry_run,
            redo: *redo,
            services: self.services.clone(),
            cx: revert_context(&self.services, &self.info, workspace, content_sink),
            flushed: self.journal.flush(),
        };
        revert_files(request).map(IoOutcome::Reverted).boxed()
    }

    fn apply_outcome(
        &mut self,
        outcome: IoOutcome,
        pending: &mut PendingOperation,
    ) -> Result<(), CommandError> {
        let gathered = &mut pending.gathered;
        match outcome {
            IoOutcome::Lock(lock_result) => self.apply_lock(lock_result)?,
            IoOutcome::Row(read) => {
                gathered.is_unsettled = self.apply_row(read, shows_session(&pending.operation))?;
            }
            IoOutcome::Folded(read) => self.apply_fold(read, shows_session(&pending.operation))?,
            IoOutcome::Grants(Ok(GrantsRead::All(stored))) => {
                self.questions.set_stored_permissions(Some(stored))
            }
            IoOutcome::Grants(Ok(GrantsRead::Unread)) => self.questions.set_stored_permissions(None),
            IoOutcome::Grants(Ok(GrantsRead::OnlyInMemory)) => {}
            IoOutcome::Grants(Err(refused)) => gathered.start_error = Some(refused),
            IoOutcome::Message(expanded) => {
                let expanded = expanded?;
                gathered.message = Some(expanded.content);
                gathered.problems = expanded.problems;
                // Held until the turn holds them, so that they do not end in between.
                self.resources.mcp = expanded.mcp.or_else(|| self.resources.mcp.take());
            }
            IoOutcome::Settings(read) => gathered.settings = Some(*read?),
            IoOutcome::Name(judged) => gathered.name = Some(judged?),
            IoOutcome::Counts(counts) => self.state.counts = counts,
            IoOutcome::Reverted(reverted) => gathered.reverted = Some(reverted?),
            IoOutcome::Deleted(deleted) => gathered.deleted = Some(deleted),
            IoOutcome::Stored(is_stored) => gathered.is_stored = is_stored,
        }
        Ok(())
    }

    fn apply_lock(&mut self, lock_result: Result<SessionLock, LockError>) -> Result<(), CommandError> {
        match lock_result {
            Ok(lock) => self.residency.lock = Some(lock),
            // A disk that takes no lock file does not stop work in memory (R-ERR-2). The next command tries again.
            Err(LockError::Store(error)) if self.residency.stage != LoadState::Stored => {
                self.warn_unlocked(&error)
            }
            Err(LockError::Held { holder }) => {
                return Err(CommandError::Locked {
                    session: self.info.id.clone(),
                    holder,
                });
            }
            Err(LockError::Store(StoreError::BadName(_))) => {
                return Err(CommandError::UnknownSession(self.info.id.clone()));
            }
            Err(LockError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Returns whether the operation shows the session to a client that may work in it.
fn shows_session(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Command(SessionCommand::Load { read_only: false, .. })
    )
}

fn message_of(operation: &Operation) -> Option<Vec<Block>> {
    match operation {
        Operation::Command(
            SessionCommand::Prompt { content, .. }
            | SessionCommand::Steer { content, .. }
            | SessionCommand::Queue {
                action: QueueAction::Add(content) | QueueAction::Edit(_, content),
                ..
            },
        ) => Some(content.clone()),
        _ => None,
    }
}

fn chosen_name(operation: &Operation) -> ChosenName {
    match operation {
        Operation::Command(SessionCommand::SetAgent { agent, .. }) => ChosenName::Agent(agent.clone()),
        Operation::Command(SessionCommand::SetModel { model, .. }) => {
            ChosenName::Model(model.clone().unwrap_or_default())
        }
        _ => ChosenName::Model(String::new()),
    }
}

fn next_for_message(content: &[Block], gathered: &Gathered) -> Option<IoStep> {
    (gathered.message.is_none() && io::needs_expansion(content)).then_some(IoStep::ExpandMessage)
}

fn next_for_settings(gathered: &Gathered) -> Option<IoStep> {
    gathered.settings.is_none().then_some(IoStep::ReadSettings)
}
