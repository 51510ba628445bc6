//! The actor: one task that owns a session's state, and the one `select!` that drives it.
//!
//! Cancels and commands come before the turn's messages, so that a cancel never waits behind deltas. The actor waits
//! for the store's queue only where the turn can wait too, so commands never wait for the disk.
//!
//! Everything it records goes through [`Actor::record_in_turn`], which keeps I6 and I7. Commands are in `commands`, the
//! turn's messages in `turn_events`, its end in `finish`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::active_turn::ActiveTurn;
use super::cancel_queue::CancelQueue;
use super::command::{CommandError, PartialMessage, SessionCommand, SessionInfo, SessionMetrics};
use super::counts::error_code;
use super::inbox::Inbox;
use super::journal::Journal;
use super::manager::LiveSessions;
use super::questions::Questions;
use super::residency::{LoadState, Residency};
use super::services::Services;
use super::state::SessionState;
use crate::base::backpressure::Permit;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, TaskError, spawn};
use crate::base::text::one_line;
use crate::domain::{Delta, DeltaEnvelope, Envelope, Event, TerminalReason, TurnId};
use crate::store::{
    PendingEvent, PendingKey, SessionRow, StoreError, StoreHealth, StoreWrite, StoredEvent, WritePermit,
};
use crate::turn::{SessionStatistics, TurnFinish, TurnMessage, TurnStopped};
use crate::workspace::{OnCancel, Workspace};

/// The bytes of one session that may be on their way to the client (architecture §3).
const SESSION_BYTES: usize = 64 << 10;
/// The interval at which partial text is stored at most (R-SESS-1).
const PARTIAL_EVERY: Duration = Duration::from_millis(250);
/// The characters of a failed call's result that are logged.
const LOGGED_CHARS: usize = 300;
/// How long a stopped turn may take to end before it is dropped. The tools' own bounds are tighter (R-CANCEL). The wait
/// of `finish` for a command is added.
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// The task of one session: coordinates the parts, none of which sees another.
pub(super) struct Actor {
    pub(super) info: SessionInfo,
    pub(super) services: Arc<Services>,
    pub(super) mailbox: Mailbox,
    pub(super) residency: Residency,
    pub(super) journal: Journal,
    /// What follows from the session's events.
    pub(super) state: SessionState,
    pub(super) inbox: Inbox,
    pub(super) questions: Questions,
    pub(super) turn: Option<ActiveTurn>,
    pub(super) partial: PartialText,
    pub(super) resources: Resources,
    pub(super) metrics: SessionMetrics,
}

/// What the actor is asked to do.
pub(super) struct Mailbox {
    pub(super) commands: mpsc::Receiver<SessionCommand>,
    /// The number of commands taken so far.
    pub(super) commands_taken: u64,
    pub(super) cancels: Arc<CancelQueue>,
}

/// The message that the model is writing.
#[derive(Default)]
pub(super) struct PartialText {
    pub(super) message: Option<PartialMessage>,
    /// When the partial text is stored next.
    pub(super) due: Option<Instant>,
}

/// What a session's turns share.
#[derive(Default)]
pub(super) struct Resources {
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) statistics: Arc<SessionStatistics>,
    /// Ends the background processes, in parallel to the turn's own end.
    pub(super) background_ends: Option<AbortOnDrop<()>>,
}

/// A pending reservation of room in the store's queue.
type PendingPermit = Pin<Box<dyn Future<Output = Result<WritePermit, StoreError>> + Send>>;

/// What wakes the actor.
enum ActorEvent {
    Cancel(Option<TurnId>),
    Command(Option<SessionCommand>),
    Room(Result<WritePermit, StoreError>),
    Answered,
    Message(TurnMessage),
    TurnEnded(Result<Result<TurnFinish, TurnStopped>, TaskError>),
    Partial,
    ApprovalTimeout,
    ClockRanOut,
    StopLimit,
    StoreGone,
    Idle,
}

impl Actor {
    pub(super) fn new(
        info: SessionInfo,
        services: Arc<Services>,
        roll: Arc<LiveSessions>,
        commands: mpsc::Receiver<SessionCommand>,
        stage: LoadState,
    ) -> Self {
        // R-WIRE-3: a slow client presses back on the provider instead of filling the memory.
        let account = services.pool.open_session(SESSION_BYTES);
        let metrics = SessionMetrics {
            started_at: clock::wall_ms(),
            ..SessionMetrics::default()
        };
        let journal = Journal::new(info.id.clone(), account);
        Self {
            info,
            services,
            mailbox: Mailbox {
                commands,
                commands_taken: 0,
                cancels: Arc::default(),
            },
            residency: Residency::new(roll, stage),
            journal,
            state: SessionState::default(),
            inbox: Inbox::default(),
            questions: Questions::default(),
            turn: None,
            partial: PartialText::default(),
            resources: Resources::default(),
            metrics,
        }
    }

    /// Runs until the session is idle, deleted, or the server ends.
    pub(super) async fn run(mut self) {
        let mut room: Option<PendingPermit> = None;
        while !(self.residency.is_ending && self.turn.is_none()) {
            if self.journal.has_writes() && room.is_none() {
                room = Some(Box::pin(self.services.store.writes.reserve()));
            }
            let wake = self.next_event(&mut room).await;
            match wake {
                ActorEvent::Cancel(turn) => self.cancel_turn(turn),
                ActorEvent::Command(Some(command)) => {
                    self.mailbox.commands_taken += 1;
                    self.residency.last_used = clock::now();
                    self.handle_command(command).await;
                }
                ActorEvent::Command(None) => break,
                ActorEvent::Room(granted) => {
                    room = None;
                    self.journal.send_writes(granted, &self.services.store.writes);
                }
                ActorEvent::Answered => {}
                ActorEvent::Message(message) => self.handle_turn_message(message),
                ActorEvent::TurnEnded(ended) => {
                    self.record_turn_changes().await;
                    // The turn's file changes are reported first: nothing may follow `turnEnded` (I3).
                    self.turn_ended(ended);
                    if let Some(reply) = self.residency.deleting.pop() {
                        self.delete_session(reply).await;
                    }
                    // After a pending deletion, which leaves no session to run a queued prompt in.
                    self.start_next_queued().await;
                }
                ActorEvent::Partial => self.store_partial(),
                ActorEvent::ApprovalTimeout => self.approvals_timed_out(),
                ActorEvent::ClockRanOut => self.clock_ran_out(),
                ActorEvent::StopLimit => self.drop_turn(),
                ActorEvent::StoreGone => self.stop_turn(TerminalReason::StoreFailed),
                ActorEvent::Idle => {
                    // The registry decides atomically with new arrivals, so that no command is lost to an actor that
                    // leaves.
                    if self.is_stored().await
                        && self
                            .residency
                            .live_sessions
                            .try_retire(&self.info.id, &self.mailbox.commands)
                    {
                        break;
                    }
                    self.residency.last_used = clock::now();
                }
            }
        }
        self.shut_down().await;
    }

    /// Returns how long a canceled command may continue.
    fn finish_limit(&self) -> Duration {
        match self
            .resources
            .workspace
            .as_ref()
            .map(|workspace| workspace.on_cancel())
        {
            Some(OnCancel::Finish(limit)) => limit,
            Some(OnCancel::Interrupt) | None => Duration::ZERO,
        }
    }

    async fn next_event(&mut self, room: &mut Option<PendingPermit>) -> ActorEvent {
        let approval_deadline = self.approval_deadline();
        let stop_limit = self
            .turn
            .as_ref()
            .and_then(|turn| turn.control.stopping)
            .map(|(_, since)| since + STOP_LIMIT + self.finish_limit());
        let idle_at = self.idle_at();
        let clock_deadline = self.clock_deadline();
        let room_waits = room.is_some();
        let store = &self.services.store.writes;
        let can_stop = self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.control.stopping.is_none());
        // The turn's messages are taken only while nothing waits for the store, so the store's queue bounds the memory.
        let listen = !self.journal.has_writes();
        let (messages, task) = match self.turn.as_mut() {
            Some(turn) => (Some(&mut turn.control.messages), Some(&mut turn.control.task)),
            None => (None, None),
        };
        let has_answers = self.journal.has_answers();
        let (has_messages, has_task) = (messages.is_some() && listen, task.is_some() && listen);
        tokio::select! { biased;
            // Biased: a cancel overtakes everything, and commands overtake the turn's messages (R-CANCEL).
            turn = self.mailbox.cancels.next(self.mailbox.commands_taken) => ActorEvent::Cancel(turn),
            command = self.mailbox.commands.recv() => ActorEvent::Command(command),
            granted = await_or_pend(room.as_mut()), if room_waits => ActorEvent::Room(granted),
            Some(()) = self.journal.next_answer(), if has_answers => ActorEvent::Answered,
            Some(message) = receive_turn_message(messages), if has_messages => ActorEvent::Message(message),
            // After its messages: a turn's end is handled only when everything it reported is recorded.
            ended = await_or_pend(task), if has_task => ActorEvent::TurnEnded(ended),
            () = store.until_health(|health| matches!(health, StoreHealth::Gone(_))), if can_stop => ActorEvent::StoreGone,
            () = sleep_until_deadline(self.partial.due) => ActorEvent::Partial,
            () = sleep_until_deadline(approval_deadline) => ActorEvent::ApprovalTimeout,
            () = sleep_until_deadline(clock_deadline) => ActorEvent::ClockRanOut,
            () = sleep_until_deadline(stop_limit) => ActorEvent::StopLimit,
            () = sleep_until_deadline(idle_at) => ActorEvent::Idle,
        }
    }

    /// Numbers an event, folds it into the state, and queues it for the store.
    pub(super) fn record_event(&mut self, event: Event) {
        self.record_with(event, None, Vec::new(), Vec::new(), None);
    }

    /// Records an event, with what the store does in the same transaction.
    pub(super) fn record_with(
        &mut self,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let turn = self.turn.as_ref().map(|turn| turn.id.clone());
        self.record_in_turn(turn, event, permit, drops, puts, done);
    }

    /// Counts and logs errors when they happen. Failures of provider calls, hooks and turns are logged where more is
    /// known.
    fn note_error(&self, event: &Event) {
        let Some(code) = error_code(event) else { return };
        self.services.totals.errors.add(1);
        let session = &self.info.id;
        let event = match event {
            Event::Nested(nested) => &nested.event,
            event => event,
        };
        match event {
            Event::ToolCall(update) => {
                let said = update
                    .result
                    .as_ref()
                    .map(|result| one_line(&result.text, LOGGED_CHARS));
                tracing::warn!(%session, code, tool = update.name, call = %update.id, error = said, "tool call failed");
            }
            Event::Warning { message, .. } => {
                tracing::warn!(%session, code, error = message, "operation failed")
            }
            _ => {}
        }
    }

    pub(super) fn record_in_turn(
        &mut self,
        turn: Option<TurnId>,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        // A session that never does anything leaves no row behind.
        if self.residency.stage == LoadState::New {
            self.residency.stage = LoadState::Open;
            let row = self.session_row();
            self.journal.push(StoreWrite::CreateSession(Box::new(row)));
        }
        let stored = StoredEvent {
            seq: self.journal.next_seq(),
            turn,
            at_ms: clock::wall_ms(),
            event,
        };
        // The same fold as on load, so that a loaded session is what it was.
        self.state.apply(&stored);
        self.note_error(&stored.event);
        let StoredEvent {
            seq,
            turn,
            at_ms,
            event,
        } = stored;
        match &event {
            Event::ApprovalRequested(approval) => self
                .residency
                .live_sessions
                .set_approval_session(&approval.id, Some(&self.info.id)),
            Event::ApprovalResolved { approval, .. } => {
                self.residency.live_sessions.set_approval_session(approval, None)
            }
            Event::InquiryRequested(inquiry) => self
                .residency
                .live_sessions
                .set_inquiry_session(&inquiry.id, Some(&self.info.id)),
            Event::InquiryResolved { inquiry, .. } => self
                .residency
                .live_sessions
                .set_inquiry_session(&inquiry.id, None),
            _ => {}
        }
        let envelope = Envelope {
            session: self.info.id.clone(),
            turn,
            seq,
            at_ms,
            event,
            permit,
            in_page: self.journal.is_loading_page,
        };
        self.journal.push(StoreWrite::Append {
            envelope,
            drops,
            puts,
            done,
        });
    }

    /// Passes a delta on in its place among the events. It is neither numbered nor stored.
    pub(super) fn show_delta(&mut self, delta: Delta, permit: Option<Permit>) {
        self.journal.push(StoreWrite::Delta(DeltaEnvelope {
            session: self.info.id.clone(),
            turn: self.turn.as_ref().map(|turn| turn.id.clone()),
            delta,
            permit,
            in_page: self.journal.is_loading_page,
        }));
    }

    fn session_row(&self) -> SessionRow {
        let mut row = SessionRow::new(
            self.info.id.clone(),
            self.info.folder.display().to_string(),
            self.info.cwd.display().to_string(),
            self.metrics.started_at,
        );
        row.agent.clone_from(&self.info.agent);
        row.mode = self.state.mode;
        row.model.clone_from(&self.state.model);
        row.effort = self.state.effort.map(|effort| effort.name().to_owned());
        row
    }

    /// Waits until everything that was recorded is stored and sent.
    pub(super) async fn flush(&mut self) -> Result<StoreHealth, StoreError> {
        self.journal.flush(&self.services.store.writes).await
    }

    /// Returns whether the store has the whole session. What it only holds in memory while the disk fails, or has lost,
    /// would be missing after the next load.
    async fn is_stored(&mut self) -> bool {
        // Nothing was recorded in these states, so nothing can be missing.
        if matches!(self.residency.stage, LoadState::Stored | LoadState::Held) {
            return true;
        }
        if !matches!(self.flush().await, Ok(StoreHealth::Ok)) {
            return false;
        }
        let row = self.services.store.reader.read_session(&self.info.id).await;
        matches!(row, Ok(Some(row)) if row.last_seq >= self.journal.seq)
    }

    /// Ends the session's task: stores what it recorded, then releases the lock.
    async fn shut_down(mut self) {
        self.end_background();
        if self.flush().await.is_err() {
            tracing::warn!(session = %self.info.id, "the store ended before the session");
        }
        if let Some(ended) = self.resources.background_ends.take() {
            // A panic has been reported, and its processes die with it.
            let _ = ended.await;
        }
        // Callers still get their answers: what these confirm is stored by now.
        while self.journal.next_answer().await.is_some() {}
        if self.residency.stage == LoadState::Open {
            // Before another actor can open the session and register them again.
            for open in &self.state.approvals {
                self.residency
                    .live_sessions
                    .set_approval_session(&open.approval.id, None);
            }
            for open in &self.state.inquiries {
                self.residency
                    .live_sessions
                    .set_inquiry_session(&open.inquiry.id, None);
            }
        }
        // Released only when the last event is stored, so that the next server sees all of it (R-SESS-1).
        drop(self.residency.lock.take());
        self.residency
            .live_sessions
            .remove_departed(&self.info.id, self.residency.number);
    }

    /// Starts to end the background processes, without waiting. They take as long as a turn's command, and the server's
    /// end has no time for one after the other.
    pub(super) fn end_background(&mut self) {
        if let Some(workspace) = self.resources.workspace.clone()
            && self.resources.background_ends.is_none()
        {
            self.resources.background_ends =
                Some(spawn(async move { workspace.background().end_all().await }));
        }
    }

    /// Returns when the session is unloaded: after 30 min idle (R-SESS-6), or immediately if it was only inspected. A
    /// new session stays, because nothing of it is stored yet.
    fn idle_at(&self) -> Option<Instant> {
        // A live background process keeps its session loaded (R-SESS-6).
        let background = self
            .resources
            .workspace
            .as_ref()
            .is_some_and(|w| !w.background().is_empty());
        let quiet = self.turn.is_none() && self.journal.is_idle() && !background;
        let quiet = quiet && self.residency.stage != LoadState::New;
        let patience = if self.residency.stage == LoadState::Stored {
            Duration::ZERO
        } else {
            self.services.idle
        };
        quiet.then(|| self.residency.last_used + patience)
    }

    fn approval_deadline(&self) -> Option<Instant> {
        self.turn
            .as_ref()?
            .waiting
            .approvals
            .values()
            .filter_map(|asked| asked.deadline)
            .min()
    }

    /// Checks that the session can still be written.
    ///
    /// # Errors
    /// The store has failed for good.
    pub(super) fn check_writable(&self) -> Result<(), CommandError> {
        match self.services.store.writes.health() {
            StoreHealth::Gone(loss) => Err(super::load::to_command_error(loss.into())),
            StoreHealth::Ok | StoreHealth::Degraded { .. } => Ok(()),
        }
    }
}

async fn await_or_pend<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn receive_turn_message(messages: Option<&mut mpsc::Receiver<TurnMessage>>) -> Option<TurnMessage> {
    match messages {
        Some(messages) => messages.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns when the partial text that begins now is stored.
pub(super) fn partial_due() -> Instant {
    clock::now() + PARTIAL_EVERY
}
