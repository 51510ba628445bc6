//! The actor: one task that owns a session's state, and the one `select!` that drives it.
//!
//! Commands come before the turn's messages, so that a cancel is never behind deltas; the store's queue
//! is waited for only where the turn can wait too, so that commands never wait for the disk.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::cancel_queue::CancelQueue;
use super::checkpoints::TurnCheckpoints;
use super::command::{
    CommandError, PartialMessage, Reply, SessionCommand, SessionInfo, SessionMetrics, TurnOutcome,
};
use super::counts::error_code;
use super::manager::LiveSessions;
use super::services::{Services, TurnSettings};
use super::state::SessionState;
use super::wall_time::PausableDeadline;
use crate::base::CancellationToken;
use crate::base::backpressure::{Permit, SessionBudget};
use crate::base::clock;
use crate::base::counters::Counter;
use crate::base::spawn::{AbortOnDrop, TaskError, spawn};
use crate::base::text::one_line;
use crate::domain::{
    ApprovalId, Block, Cost, Decision, Effect, Envelope, Event, FinalAnswer, Grant, InquiryId, InquiryReply,
    TerminalReason, TurnId, Usage,
};
use crate::store::{
    PendingEvent, PendingKey, SessionLock, SessionRow, Skipped, StoreError, StoreHealth, StoreWrite,
    StoredEvent, WritePermit,
};
use crate::turn::{ApprovalOutcome, Stopped, TokenCalibration, ToolCircuits, TurnFinish, TurnMessage};
use crate::workspace::{OnCancel, Workspace};

/// At most this much of one session is on its way to the client (architecture §3).
const SESSION_BYTES: usize = 64 << 10;
/// Partial text is stored at most this often (R-SESS-1).
const PARTIAL_EVERY: Duration = Duration::from_millis(250);
/// A stopped turn that has not ended by then is dropped; tools' own bounds are tighter (R-CANCEL). What `finish` waits
/// for a command comes on top.
/// Characters of a failed call that are logged.
const LOGGED_CHARS: usize = 300;
const STOP_LIMIT: Duration = Duration::from_secs(12);

/// One session's task.
pub(super) struct Actor {
    pub(super) info: SessionInfo,
    /// Which actor of this server it is.
    pub(super) number: u64,
    pub(super) services: Arc<Services>,
    /// Where it is listed as live.
    pub(super) roll: Arc<LiveSessions>,
    pub(super) commands: mpsc::Receiver<SessionCommand>,
    /// How many commands were taken.
    pub(super) taken: u64,
    pub(super) cancels: Arc<CancelQueue>,
    pub(super) state: SessionState,
    /// The number of the last event.
    pub(super) seq: u64,
    pub(super) stage: LoadState,
    pub(super) lock: Option<SessionLock>,
    /// It was told that the session goes on without its lock.
    pub(super) unlocked: bool,
    /// Its turn runs in another server: it was looked at only.
    pub(super) elsewhere: bool,
    /// Writes that wait for room in the store's queue.
    pub(super) out: VecDeque<StoreWrite>,
    pub(super) turn: Option<ActiveTurn>,
    /// Steers that no model has seen, with their keys in the store.
    pub(super) steers: VecDeque<(String, Vec<Block>)>,
    /// Prompts that wait for the turn's end, with their keys in the store.
    pub(super) queue: VecDeque<(String, Vec<Block>)>,
    /// The first of them starts at the turn's end, however it comes: the person said so.
    pub(super) next_is_due: bool,
    /// What hooks held back; given back at the turn's end.
    pub(super) held_back: Vec<(String, Vec<Block>)>,
    /// The circuits of its tools.
    pub(super) circuits: Arc<Mutex<ToolCircuits>>,
    /// What the session's providers count.
    pub(super) counting: Arc<TokenCalibration>,
    /// Decisions on approvals of an interrupted turn, until it is resumed.
    pub(super) decisions: HashMap<ApprovalId, Decision>,
    /// Answers to inquiries of an interrupted turn, until it is resumed.
    pub(super) replies: HashMap<InquiryId, InquiryReply>,
    /// Grants: this session's, and the folder's as of the turn's start.
    pub(super) grants: Vec<Grant>,
    pub(super) account: Arc<SessionBudget>,
    /// The message in progress.
    pub(super) partial: Option<PartialMessage>,
    /// When the partial text is to be stored.
    pub(super) partial_due: Option<Instant>,
    pub(super) metrics: SessionMetrics,
    /// Model calls, counted where they are made.
    pub(super) requests: Arc<Counter>,
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) last_used: Instant,
    /// Answers that wait until what they confirm is stored (I16).
    pub(super) answers: FuturesUnordered<BoxFuture<'static, ()>>,
    /// What could not be read of it and was not told yet.
    pub(super) skipped: Vec<Skipped>,
    /// What is recorded now is read by the client in the page that it is loading.
    pub(super) in_page: bool,
    /// Something was granted since the grants were read.
    pub(super) granted: bool,
    /// The server ends.
    pub(super) ending: bool,
    /// Ends the background processes, beside the turn's own end.
    pub(super) background_ends: Option<AbortOnDrop<()>>,
    /// Who waits for the turn's end to see the session deleted.
    pub(super) deleting: Vec<Reply<()>>,
}

/// How far a session has been made live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadState {
    /// Made by `newSession`; the store knows nothing of it until something happens.
    New,
    /// In the store, not looked at yet.
    Stored,
    /// Locked and shown to a client from its row and its page. Folding all its events waits until something is
    /// done with it.
    Held,
    /// Locked, folded, mended; events may be added.
    Open,
}

/// The running turn.
pub(super) struct ActiveTurn {
    pub(super) id: TurnId,
    pub(super) task: AbortOnDrop<Result<TurnFinish, Stopped>>,
    pub(super) messages: mpsc::Receiver<TurnMessage>,
    pub(super) cancel: CancellationToken,
    pub(super) hurry: CancellationToken,
    pub(super) profile: TurnSettings,
    /// The model that the session asked for when it began.
    pub(super) asked_for: Option<String>,
    /// Why it was stopped from outside, and when.
    pub(super) stopping: Option<(TerminalReason, Instant)>,
    /// It has been told that it may end: no more steers.
    pub(super) closing: bool,
    /// Hooks judge what is said before it joins the history.
    pub(super) judges: bool,
    /// The prompt that waits for them.
    pub(super) prompt: Option<String>,
    /// Whoever asked for the turn.
    pub(super) waiter: Option<oneshot::Sender<TurnOutcome>>,
    /// Told when the turn's end has been passed on.
    pub(super) passed: Option<oneshot::Sender<()>>,
    pub(super) asks: HashMap<ApprovalId, PendingApproval>,
    /// Inquiries that the turn waits for.
    pub(super) inquiries: HashMap<InquiryId, oneshot::Sender<Option<InquiryReply>>>,
    pub(super) clock: PausableDeadline,
    /// What it has changed of files.
    pub(super) checkpoints: Arc<TurnCheckpoints>,
    pub(super) usage: Usage,
    pub(super) cost: Option<Cost>,
    /// Something was spent.
    pub(super) charged: bool,
    pub(super) answer: FinalAnswer,
    /// Tokens of the conversation before and after it was made smaller by hand.
    pub(super) compacted: Option<(u64, u64)>,
}

/// An approval that the turn waits for.
pub(super) struct PendingApproval {
    pub(super) reply: oneshot::Sender<ApprovalOutcome>,
    pub(super) tool: String,
    pub(super) effect: Effect,
    pub(super) deadline: Option<Instant>,
    /// Rules that allow it do not settle it.
    pub(super) insists: bool,
}

/// Room in the store's queue, asked for.
type PendingPermit = Pin<Box<dyn Future<Output = Result<WritePermit, StoreError>> + Send>>;

/// What wakes the actor.
enum ActorEvent {
    Cancel(Option<TurnId>),
    Command(Option<SessionCommand>),
    Room(Result<WritePermit, StoreError>),
    Answered,
    Message(TurnMessage),
    TurnEnded(Result<Result<TurnFinish, Stopped>, TaskError>),
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
        let account = services.pool.open_session(SESSION_BYTES);
        let metrics = SessionMetrics {
            started_at: clock::wall_ms(),
            ..SessionMetrics::default()
        };
        Self {
            info,
            number: 0,
            services,
            roll,
            commands,
            taken: 0,
            cancels: Arc::default(),
            state: SessionState::default(),
            seq: 0,
            stage,
            lock: None,
            unlocked: false,
            elsewhere: false,
            out: VecDeque::new(),
            turn: None,
            steers: VecDeque::new(),
            queue: VecDeque::new(),
            next_is_due: false,
            held_back: Vec::new(),
            circuits: Arc::default(),
            counting: Arc::default(),
            decisions: HashMap::new(),
            replies: HashMap::new(),
            grants: Vec::new(),
            account,
            partial: None,
            partial_due: None,
            metrics,
            requests: Arc::default(),
            workspace: None,
            last_used: clock::now(),
            answers: FuturesUnordered::new(),
            skipped: Vec::new(),
            in_page: false,
            granted: false,
            ending: false,
            background_ends: None,
            deleting: Vec::new(),
        }
    }

    /// Runs until the session is left idle, deleted, or the server ends.
    pub(super) async fn run(mut self) {
        let mut room: Option<PendingPermit> = None;
        while !(self.ending && self.turn.is_none()) {
            if !self.out.is_empty() && room.is_none() {
                room = Some(Box::pin(self.services.store.writes.reserve()));
            }
            let wake = self.next_event(&mut room).await;
            match wake {
                ActorEvent::Cancel(turn) => self.cancel_turn(turn),
                ActorEvent::Command(Some(command)) => {
                    self.taken += 1;
                    self.last_used = clock::now();
                    self.handle_command(command).await;
                }
                ActorEvent::Command(None) => break,
                ActorEvent::Room(granted) => {
                    room = None;
                    self.send_out(granted);
                }
                ActorEvent::Answered => {}
                ActorEvent::Message(message) => self.handle_turn_message(message),
                ActorEvent::TurnEnded(ended) => {
                    self.tell_changes().await;
                    self.turn_ended(ended);
                    if let Some(reply) = self.deleting.pop() {
                        self.delete_session(reply).await;
                    }
                    self.queue_goes_on().await;
                }
                ActorEvent::Partial => self.store_partial(),
                ActorEvent::ApprovalTimeout => self.approvals_timed_out(),
                ActorEvent::ClockRanOut => self.clock_ran_out(),
                ActorEvent::StopLimit => self.drop_turn(),
                ActorEvent::StoreGone => self.stop_turn(TerminalReason::StoreFailed),
                ActorEvent::Idle => {
                    if self.is_stored().await && self.roll.try_retire(&self.info.id, &self.commands) {
                        break;
                    }
                    self.last_used = clock::now();
                }
            }
        }
        self.shut_down().await;
    }

    /// How long a cancelled command may go on.
    fn finish_limit(&self) -> Duration {
        match self.workspace.as_ref().map(|workspace| workspace.on_cancel()) {
            Some(OnCancel::Finish(limit)) => limit,
            Some(OnCancel::Interrupt) | None => Duration::ZERO,
        }
    }

    async fn next_event(&mut self, room: &mut Option<PendingPermit>) -> ActorEvent {
        let approval_deadline = self.approval_deadline();
        let stop_limit = self
            .turn
            .as_ref()
            .and_then(|turn| turn.stopping)
            .map(|(_, since)| since + STOP_LIMIT + self.finish_limit());
        let idle_at = self.idle_at();
        let clock_deadline = self.clock_deadline();
        let room_waits = room.is_some();
        let store = &self.services.store.writes;
        let can_stop = self.turn.as_ref().is_some_and(|turn| turn.stopping.is_none());
        // The turn's messages are taken only while nothing waits for the store: its queue is the bound.
        let listen = self.out.is_empty();
        let (messages, task) = match self.turn.as_mut() {
            Some(turn) => (Some(&mut turn.messages), Some(&mut turn.task)),
            None => (None, None),
        };
        let (has_messages, has_task) = (messages.is_some() && listen, task.is_some() && listen);
        tokio::select! { biased;
            turn = self.cancels.next(self.taken) => ActorEvent::Cancel(turn),
            command = self.commands.recv() => ActorEvent::Command(command),
            granted = await_or_pend(room.as_mut()), if room_waits => ActorEvent::Room(granted),
            Some(()) = self.answers.next(), if !self.answers.is_empty() => ActorEvent::Answered,
            Some(message) = receive_turn_message(messages), if has_messages => ActorEvent::Message(message),
            ended = await_or_pend(task), if has_task => ActorEvent::TurnEnded(ended),
            () = store.until_health(|health| matches!(health, StoreHealth::Gone(_))), if can_stop => ActorEvent::StoreGone,
            () = sleep_until_deadline(self.partial_due) => ActorEvent::Partial,
            () = sleep_until_deadline(approval_deadline) => ActorEvent::ApprovalTimeout,
            () = sleep_until_deadline(clock_deadline) => ActorEvent::ClockRanOut,
            () = sleep_until_deadline(stop_limit) => ActorEvent::StopLimit,
            () = sleep_until_deadline(idle_at) => ActorEvent::Idle,
        }
    }

    /// Answers with `answer` when the write that is given the returned sender is stored.
    pub(super) fn answer_stored<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        answer: T,
    ) -> oneshot::Sender<()> {
        let (done, stored) = oneshot::channel();
        self.answer_after(stored, reply, answer);
        done
    }

    /// Answers with `answer` once `stored` is told.
    pub(super) fn answer_after<T: Send + 'static>(
        &mut self,
        stored: oneshot::Receiver<()>,
        reply: Reply<T>,
        answer: T,
    ) {
        let answering = async move {
            let answer = match stored.await {
                Ok(()) => Ok(answer),
                Err(_) => Err(super::load::to_command_error(StoreError::Closed)),
            };
            // Whoever asked may have gone.
            let _ = reply.send(answer);
        };
        self.answers.push(answering.boxed());
    }

    /// Numbers an event, folds it, and sends it on its way.
    pub(super) fn record_event(&mut self, event: Event) {
        self.record_with(event, None, Vec::new(), Vec::new(), None);
    }

    /// The same, with what the store shall do in the same transaction.
    pub(super) fn record_with(
        &mut self,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let turn = self.turn.as_ref().map(|turn| turn.id.clone());
        self.record_of(turn, event, permit, drops, puts, done);
    }

    /// Errors are counted and logged when they happen. Provider calls, hooks and turns that fail are logged where more
    /// is known of them.
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

    pub(super) fn record_of(
        &mut self,
        turn: Option<TurnId>,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        if self.stage == LoadState::New {
            self.stage = LoadState::Open;
            let row = self.session_row();
            self.out.push_back(StoreWrite::CreateSession(Box::new(row)));
        }
        let durable = event.is_durable();
        self.seq += u64::from(durable);
        let stored = StoredEvent {
            seq: self.seq,
            turn,
            at_ms: clock::wall_ms(),
            event,
        };
        self.state.apply(&stored);
        self.note_error(&stored.event);
        let StoredEvent {
            seq,
            turn,
            at_ms,
            event,
        } = stored;
        match &event {
            Event::ApprovalRequested(approval) => {
                self.roll.set_approval_session(&approval.id, Some(&self.info.id))
            }
            Event::ApprovalResolved { approval, .. } => self.roll.set_approval_session(approval, None),
            Event::InquiryRequested(inquiry) => {
                self.roll.set_inquiry_session(&inquiry.id, Some(&self.info.id))
            }
            Event::InquiryResolved { inquiry, .. } => self.roll.set_inquiry_session(&inquiry.id, None),
            _ => {}
        }
        let envelope = Envelope {
            session: self.info.id.clone(),
            turn,
            seq: durable.then_some(seq),
            at_ms,
            event,
            permit,
            in_page: self.in_page,
        };
        self.out.push_back(StoreWrite::Append {
            envelope,
            drops,
            puts,
            done,
        });
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

    /// Uses the room, and whatever more there is.
    fn send_out(&mut self, granted: Result<WritePermit, StoreError>) {
        let Ok(room) = granted else {
            // The store has ended with the server: nothing can be stored or shown any more.
            self.out.clear();
            return;
        };
        if let Some(write) = self.out.pop_front() {
            room.send(write);
        }
        while let Some(write) = self.out.pop_front() {
            if let Err(write) = self.services.store.writes.try_send(write) {
                self.out.push_front(*write);
                break;
            }
        }
    }

    /// Waits until all that was recorded is stored and passed on.
    pub(super) async fn flush(&mut self) -> Result<StoreHealth, StoreError> {
        while let Some(write) = self.out.pop_front() {
            self.services.store.writes.send(write).await?;
        }
        self.services.store.writes.flush_writes().await
    }

    /// Whether the store has all of the session: what it keeps in memory while the disk fails, or has lost,
    /// would be missing when the session is loaded again.
    async fn is_stored(&mut self) -> bool {
        if matches!(self.stage, LoadState::Stored | LoadState::Held) {
            return true;
        }
        if !matches!(self.flush().await, Ok(StoreHealth::Ok)) {
            return false;
        }
        let row = self.services.store.reader.read_session(&self.info.id).await;
        matches!(row, Ok(Some(row)) if row.last_seq >= self.seq)
    }

    /// The session ends here: what it recorded is stored, then its lock is free.
    async fn shut_down(mut self) {
        self.end_background();
        if self.flush().await.is_err() {
            tracing::warn!(session = %self.info.id, "the store ended before the session");
        }
        if let Some(ended) = self.background_ends.take() {
            // What panicked has been told of, and its processes die with it.
            let _ = ended.await;
        }
        while self.answers.next().await.is_some() {}
        if self.stage == LoadState::Open {
            // Before another actor can open the session: it lists them anew.
            for open in &self.state.approvals {
                self.roll.set_approval_session(&open.approval.id, None);
            }
            for open in &self.state.inquiries {
                self.roll.set_inquiry_session(&open.inquiry.id, None);
            }
        }
        drop(self.lock.take());
        self.roll.remove_departed(&self.info.id, self.number);
    }

    /// Begins to end the background processes: they take as long as a turn's command may, and the server's end
    /// has no time for one after the other.
    pub(super) fn end_background(&mut self) {
        if let Some(workspace) = self.workspace.clone()
            && self.background_ends.is_none()
        {
            self.background_ends = Some(spawn(async move { workspace.background().end_all().await }));
        }
    }

    /// When the session is unloaded: after half an hour, or at once if it was only looked at, or for. Never
    /// before anything of it is stored: it would be gone.
    fn idle_at(&self) -> Option<Instant> {
        let background = self
            .workspace
            .as_ref()
            .is_some_and(|w| !w.background().is_empty());
        let quiet = self.turn.is_none() && self.out.is_empty() && self.answers.is_empty() && !background;
        let quiet = quiet && self.stage != LoadState::New;
        let patience = if self.stage == LoadState::Stored {
            Duration::ZERO
        } else {
            self.services.idle
        };
        quiet.then(|| self.last_used + patience)
    }

    fn approval_deadline(&self) -> Option<Instant> {
        self.turn
            .as_ref()?
            .asks
            .values()
            .filter_map(|asked| asked.deadline)
            .min()
    }

    /// Refuses with `error` unless the session can be written.
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

/// When the partial text that begins now is to be stored.
pub(super) fn partial_due() -> Instant {
    clock::now() + PARTIAL_EVERY
}
