//! The actor: one task that owns a session's state, and the one `select!` that drives it.
//!
//! Cancels and commands come before the turn's messages, so that a cancel never waits behind deltas. Only this loop
//! awaits: handlers are synchronous, and what they must read or write is a future of `io` that the loop polls.
//!
//! Everything it records goes through [`Actor::record_in_turn`], which keeps I6 and I7. Commands are in `steps` and
//! `commands`, the turn's messages in `turn_events`, its end in `finish`. `panic_recovery` runs it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::active_turn::{ActiveTurn, TurnResult};
use super::cancel_queue::CancelQueue;
use super::command::{CommandError, PartialMessage, SessionCommand, SessionInfo, SessionMetrics};
use super::command_queue::{CommandQueue, IoStep, Operation};
use super::inbox::Inbox;
use super::io::IoOutcome;
use super::journal::Journal;
use super::live_sessions::LiveSessions;
use super::questions::Questions;
use super::residency::{LoadState, Residency};
use super::services::Services;
use super::state::SessionState;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::{TerminalReason, TurnDiff, TurnId};
use crate::mcp::McpFolder;
use crate::store::{StoreError, StoreHealth, WritePermit};
use crate::tool::LoadedTools;
use crate::turn::{SessionStatistics, TurnMessage};
use crate::workspace::{OnCancel, Workspace};

/// The bytes of one session that may be on their way to the client (architecture §3).
const SESSION_BYTES: usize = 64 << 10;
/// The interval at which partial text is stored at most (R-SESS-1).
const PARTIAL_EVERY: Duration = Duration::from_millis(250);
/// How long a stopped turn may take to end before it is dropped. The tools' own bounds are tighter (R-CANCEL). The wait
/// of `finish` for a command is added.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(12);
/// How long the list of a stopped turn's changes may take before the turn ends without it.
const DIFF_LIMIT: Duration = Duration::from_secs(2);

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
    /// The commands that were taken and are not done.
    pub(super) queue: CommandQueue,
    pub(super) cancels: Arc<CancelQueue>,
    /// The reads and writes that are on their way.
    pub(super) io: FuturesUnordered<BoxFuture<'static, IoResult>>,
}

/// The result of something that was read or written next to the loop.
pub(super) enum IoResult {
    /// A step of the operation with this id.
    Step(u64, IoStep, Box<IoOutcome>),
    /// What a turn has changed; `None` if that could not be found out.
    TurnDiff(TurnId, Option<TurnDiff>),
    /// A warning about what background processes may have created.
    NewFiles(Option<String>),
    /// What the turn no longer needs has gone back to the system.
    FreedMemory,
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
    /// Keeps the MCP servers running.
    pub(super) mcp: Option<Arc<McpFolder>>,
    /// The deferred tools that the model has loaded.
    pub(super) loaded_tools: Arc<LoadedTools>,
    /// Ends the background processes, in parallel to the turn's own end.
    pub(super) background_ends: Option<AbortOnDrop<()>>,
}

/// A pending reservation of room in the store's queue.
type PendingPermit = Pin<Box<dyn Future<Output = Result<WritePermit, StoreError>> + Send>>;

/// What wakes the actor.
enum ActorEvent {
    Cancel(Option<TurnId>),
    Io(IoResult),
    Command(Option<SessionCommand>),
    Room(Result<WritePermit, StoreError>),
    Answered,
    Message(TurnMessage),
    TurnEnded(TurnResult),
    BackgroundEnded,
    Partial,
    ApprovalTimeout,
    ClockRanOut,
    StopLimit,
    EndLimit,
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
                queue: CommandQueue::default(),
                cancels: Arc::default(),
                io: FuturesUnordered::new(),
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
    pub(super) async fn run(&mut self) {
        let mut permit: Option<PendingPermit> = None;
        while !self.is_done() {
            if self.journal.has_writes() && permit.is_none() {
                permit = Some(Box::pin(self.services.store.writes.reserve()));
            }
            match self.next_event(&mut permit).await {
                ActorEvent::Command(None) => break,
                ActorEvent::Room(granted) => {
                    permit = None;
                    self.journal.send_writes(granted, &self.services.store.writes);
                }
                event => self.handle_event(event),
            }
        }
    }

    /// Returns whether the session has left, or has settled everything at the server's end.
    fn is_done(&self) -> bool {
        let is_settled = self.turn.is_none() && self.mailbox.queue.is_empty();
        self.residency.has_retired || (self.residency.is_ending() && is_settled)
    }

    fn handle_event(&mut self, event: ActorEvent) {
        match event {
            ActorEvent::Cancel(turn) => self.cancel_turn(turn),
            ActorEvent::Io(IoResult::Step(id, step, outcome)) => self.finish_step(id, step, *outcome),
            ActorEvent::Io(IoResult::TurnDiff(turn, diff)) => self.turn_compared(&turn, diff),
            ActorEvent::Io(IoResult::NewFiles(warning)) => self.warn_of_new_files(warning),
            ActorEvent::Io(IoResult::FreedMemory) => {}
            ActorEvent::BackgroundEnded => self.look_for_new_files(),
            ActorEvent::Command(Some(command)) => {
                // A look is no use, or it would keep the session loaded.
                if !matches!(command, SessionCommand::Inspect { .. }) {
                    self.residency.last_used = clock::now();
                }
                self.handle_command(command);
            }
            // The loop handles these.
            ActorEvent::Command(None) | ActorEvent::Room(_) | ActorEvent::Answered => {}
            ActorEvent::Message(message) => self.handle_turn_message(message),
            ActorEvent::TurnEnded(result) => self.turn_returned(result),
            ActorEvent::Partial => self.store_partial(),
            ActorEvent::ApprovalTimeout => self.approvals_timed_out(),
            ActorEvent::ClockRanOut => self.clock_ran_out(),
            ActorEvent::StopLimit => self.drop_turn(),
            ActorEvent::EndLimit => self.drop_operations(),
            ActorEvent::StoreGone => self.stop_turn(TerminalReason::StoreFailed),
            ActorEvent::Idle => {
                self.mailbox.queue.push_first(Operation::Unload);
                self.perform_waiting();
            }
        }
    }

    /// Drops the operations that the server's end cannot wait for any longer.
    fn drop_operations(&mut self) {
        tracing::error!(session = %self.info.id, "commands did not finish in time and were dropped");
        self.mailbox.queue.clear();
    }

    /// Returns when a stopped turn is dropped.
    fn stop_limit(&self) -> Option<Instant> {
        let control = &self.turn.as_ref()?.control;
        let (_, since) = control.stopping?;
        Some(match &control.returned {
            Some((_, at)) => since.max(*at) + DIFF_LIMIT,
            None => since + STOP_LIMIT + self.finish_limit(),
        })
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

    async fn next_event(&mut self, permit: &mut Option<PendingPermit>) -> ActorEvent {
        let approval_deadline = self.questions.next_deadline();
        let (stop_limit, end_limit) = (self.stop_limit(), self.end_limit());
        let idle_at = self.idle_at();
        let clock_deadline = self.clock_deadline();
        let is_waiting_for_room = permit.is_some();
        let store = &self.services.store.writes;
        let can_stop = self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.control.stopping.is_none());
        // The turn's messages are taken only while nothing waits for the store, so the store's queue bounds the memory.
        let listen = !self.journal.has_writes();
        let commands_wait = !self.mailbox.queue.is_empty();
        let held_up = self
            .turn
            .as_ref()
            .filter(|_| commands_wait)
            .map(|turn| turn.id.clone());
        let (messages, task) = match self.turn.as_mut() {
            Some(turn) => {
                let runs = turn.control.returned.is_none();
                (
                    Some(&mut turn.control.messages),
                    Some(&mut turn.control.task).filter(|_| runs),
                )
            }
            None => (None, None),
        };
        let workspace = self.resources.workspace.as_deref();
        let has_answers = self.journal.has_answers();
        let has_io = !self.mailbox.io.is_empty();
        let (has_messages, has_task) = (messages.is_some() && listen, task.is_some() && listen);
        let done = self.mailbox.queue.done_through();
        tokio::select! { biased;
            // Biased: a cancel overtakes everything, and commands overtake the turn's messages (R-CANCEL).
            turn = self.mailbox.cancels.next(done, held_up) => ActorEvent::Cancel(turn),
            Some(result) = self.mailbox.io.next(), if has_io => ActorEvent::Io(result),
            command = self.mailbox.commands.recv() => ActorEvent::Command(command),
            granted = await_or_pend(permit.as_mut()), if is_waiting_for_room => ActorEvent::Room(granted),
            Some(()) = self.journal.next_answer(), if has_answers => ActorEvent::Answered,
            Some(message) = receive_turn_message(messages), if has_messages => ActorEvent::Message(message),
            // After its messages: a turn's end is handled only when everything it reported is recorded.
            ended = await_or_pend(task), if has_task => ActorEvent::TurnEnded(ended),
            () = store.until_health(|health| matches!(health, StoreHealth::Gone(_))), if can_stop => ActorEvent::StoreGone,
            () = wait_for_background_end(workspace) => ActorEvent::BackgroundEnded,
            () = sleep_until_deadline(self.partial.due) => ActorEvent::Partial,
            () = sleep_until_deadline(approval_deadline) => ActorEvent::ApprovalTimeout,
            () = sleep_until_deadline(clock_deadline) => ActorEvent::ClockRanOut,
            () = sleep_until_deadline(stop_limit) => ActorEvent::StopLimit,
            () = sleep_until_deadline(end_limit) => ActorEvent::EndLimit,
            () = sleep_until_deadline(idle_at) => ActorEvent::Idle,
        }
    }

    /// Ends the session's task.
    pub(super) async fn shut_down(mut self) {
        self.release().await;
        self.residency
            .live_sessions
            .remove_departed(&self.info.id, self.residency.number);
    }

    /// Stores what the session recorded, then releases the lock.
    pub(super) async fn release(&mut self) {
        self.end_background();
        if self.journal.flush_now(&self.services.store.writes).await.is_err() {
            tracing::warn!(session = %self.info.id, "the store ended before the session");
        }
        if let Some(background_end) = self.resources.background_ends.take() {
            // A panic has been reported, and its processes die with it.
            let _ = background_end.await;
            self.warn_before_departure().await;
        }
        // Callers still get their answers: what these confirm is stored by now.
        while self.journal.next_answer().await.is_some() {}
        if self.residency.stage == LoadState::Open {
            // Before another actor can open the session and register them again.
            for open in &self.state.open.approvals {
                self.residency
                    .live_sessions
                    .set_approval_session(&open.approval.id, None);
            }
            for open in &self.state.open.inquiries {
                self.residency
                    .live_sessions
                    .set_inquiry_session(&open.inquiry.id, None);
            }
        }
        // Released only when the last event is stored, so that the next server sees all of it (R-SESS-1).
        drop(self.residency.lock.take());
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

    /// Returns when the session is unloaded, if nothing happens until then.
    fn idle_at(&self) -> Option<Instant> {
        // A live background process keeps its session loaded (R-SESS-6).
        let background = self
            .resources
            .workspace
            .as_ref()
            .is_some_and(|w| !w.background().is_empty());
        let is_quiet = self.turn.is_none() && self.journal.is_idle() && self.mailbox.queue.is_empty();
        let unload_at = self.residency.unload_at(self.services.idle);
        unload_at.filter(|_| is_quiet && !background)
    }

    /// Returns when the server's end no longer waits for operations.
    fn end_limit(&self) -> Option<Instant> {
        let has_operations = !self.mailbox.queue.is_empty();
        self.residency
            .ending_since
            .filter(|_| has_operations)
            .map(|since| since + STOP_LIMIT)
    }

    /// Checks that the session can still be written.
    ///
    /// # Errors
    /// The store has failed for good.
    pub(super) fn check_writable(&self) -> Result<(), CommandError> {
        match self.services.store.writes.health() {
            StoreHealth::Gone(loss) => Err(StoreError::from(loss).into()),
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

async fn wait_for_background_end(workspace: Option<&Workspace>) {
    match workspace {
        Some(workspace) => workspace.background().wait_for_any_end().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => clock::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns when the partial text that begins now is stored.
pub(super) fn partial_due() -> Instant {
    clock::now() + PARTIAL_EVERY
}
