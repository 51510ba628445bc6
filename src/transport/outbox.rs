//! The only way out: everything sent leaves in push order (R-WIRE-1, R-WIRE-3).
//!
//! [`Outbox::push`] works from any thread and never waits. Large senders reserve bytes first (`base::backpressure`),
//! which are released once written. This module owns locks and wake-ups; order and merging belong to [`super::queue`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tower_lsp::jsonrpc::Response;

use super::queue::{OutboundQueue, WakeHint};
pub use super::queue::{Outgoing, QueuedFrame};
use crate::base::clock::{self, Instant};

/// Input is not read while this many bytes without a permit wait. This presses back on a client that sends requests
/// and does not read its answers.
const UNBOUNDED_LIMIT: usize = 8 << 20;

/// A handle to the outbox; clones share it.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<OutboxShared>,
}

#[derive(Debug)]
struct OutboxShared {
    state: Mutex<OutboxState>,
    /// Wakes a writer that sleeps on its own thread.
    thread: Condvar,
    /// Wakes a writer that is a task.
    task: Notify,
    /// Signals that the outbox is below [`UNBOUNDED_LIMIT`] again, or closed.
    capacity: Notify,
}

#[derive(Debug)]
struct OutboxState {
    queue: OutboundQueue,
    phase: OutboxPhase,
    sleeper: Option<Sleeper>,
    /// A caller waits for room.
    awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutboxPhase {
    /// Accepts items and delivers them.
    Running,
    /// Delivers what it has and accepts no more.
    Finishing,
    /// Neither accepts nor delivers.
    Closed,
}

/// A writer that waits, and when it wakes by itself.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    until: Option<Instant>,
    kind: SleeperKind,
}

#[derive(Clone, Copy, Debug)]
enum SleeperKind {
    Thread,
    Task,
}

/// What a writer finds in the outbox.
enum OutboxFrame {
    Slots,
    Nothing { until: Option<Instant> },
    End,
}

impl Outbox {
    /// Creates an outbox with frames (R-WIRE-3) of `delta_frame`; zero turns rate limiting off.
    ///
    /// Until [`Self::open`], only answers leave.
    pub fn new(delta_frame: Duration) -> Self {
        Self {
            shared: Arc::new(OutboxShared {
                state: Mutex::new(OutboxState {
                    queue: OutboundQueue::new(delta_frame),
                    phase: OutboxPhase::Running,
                    sleeper: None,
                    awaited: false,
                }),
                thread: Condvar::new(),
                task: Notify::new(),
                capacity: Notify::new(),
            }),
        }
    }

    /// Queues an item; never waits. After [`Self::finish`] or [`Self::close`] the item is dropped.
    pub fn push(&self, item: Outgoing) {
        let now = clock::now();
        let mut state = self.lock();
        if state.phase != OutboxPhase::Running {
            // Dropping the item releases its permit and wakes waiters: not under the lock.
            drop(state);
            drop(item);
            return;
        }
        let effect = state.queue.push(item, now);
        self.wake_writer(state, effect);
    }

    /// Serializes and queues the answer to a request.
    pub fn push_response(&self, response: &Response, group: Option<u64>) {
        let body = serde_json::to_vec(response).unwrap_or_else(|error| {
            tracing::error!(%error, "answer cannot be serialised");
            // The request still gets its one answer (I1).
            let failed = super::message::internal_error("answer cannot be serialised");
            serde_json::to_vec(&Response::from_error(response.id().clone(), failed)).unwrap_or_default()
        });
        self.push(Outgoing::Response { body, group });
    }

    /// Lets notifications leave, once the client has sent `initialized`.
    pub fn open(&self) {
        let now = clock::now();
        let mut state = self.lock();
        state.queue.open(now);
        self.wake_writer(state, WakeHint::Ready);
    }

    /// Changes the frame length from now on.
    pub fn set_delta_frame(&self, delta_frame: Duration) {
        self.lock().queue.set_frame(delta_frame);
    }

    /// Accepts no more items. The writer ends once it has written the rest.
    pub fn finish(&self) {
        let mut state = self.lock();
        if state.phase == OutboxPhase::Running {
            state.phase = OutboxPhase::Finishing;
            // No later push will release what is held.
            state.queue.release_all();
        }
        self.wake_writer(state, WakeHint::Ready);
    }

    /// Drops everything because the pipe is gone, and releases all bytes so that no sender waits for a reader.
    pub fn close(&self) {
        let mut state = self.lock();
        state.phase = OutboxPhase::Closed;
        state.queue.clear();
        self.wake_writer(state, WakeHint::Ready);
        // A closed outbox always has room, so callers that wait must look again.
        self.shared.capacity.notify_waiters();
    }

    /// Whether [`Self::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.lock().phase == OutboxPhase::Closed
    }

    /// Waits until fewer than 8 MiB without a permit are queued, or the outbox is closed.
    pub async fn wait_for_room(&self) {
        loop {
            let mut freed = std::pin::pin!(self.shared.capacity.notified());
            // Registers before the check: a notification between check and wait would be lost otherwise.
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Whether [`Self::wait_for_room`] would return immediately.
    pub fn has_room(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.phase == OutboxPhase::Closed || state.queue.unbounded_bytes() < UNBOUNDED_LIMIT;
        // Remembered, so that the writer notifies only if a caller waits.
        state.awaited |= !has_room;
        has_room
    }

    /// Blocks the calling thread until there is something to write.
    ///
    /// Takes at least one slot, and more up to `max` bytes. Returns false at the end. There may be only one writer.
    pub fn take_blocking(&self, batch: &mut Vec<QueuedFrame>, max: usize) -> bool {
        let mut state = self.lock();
        loop {
            let now = clock::now();
            match self.fill_batch(&mut state, batch, max, now) {
                OutboxFrame::Slots => return true,
                OutboxFrame::End => return false,
                OutboxFrame::Nothing { until } => {
                    // Set under the lock that the wait releases, so that no push in between is missed.
                    state.sleeper = Some(Sleeper {
                        until,
                        kind: SleeperKind::Thread,
                    });
                    state = match until {
                        None => self
                            .shared
                            .thread
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner),
                        Some(until) => {
                            let wait = until.saturating_duration_since(now);
                            let woken = self.shared.thread.wait_timeout(state, wait);
                            woken.unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                    state.sleeper = None;
                }
            }
        }
    }

    /// Does the same as [`Self::take_blocking`], for a writer that is a task.
    pub async fn take(&self, batch: &mut Vec<QueuedFrame>, max: usize) -> bool {
        loop {
            let until = {
                let mut state = self.lock();
                match self.fill_batch(&mut state, batch, max, clock::now()) {
                    OutboxFrame::Slots => return true,
                    OutboxFrame::End => return false,
                    OutboxFrame::Nothing { until } => {
                        state.sleeper = Some(Sleeper {
                            until,
                            kind: SleeperKind::Task,
                        });
                        until
                    }
                }
            };
            // A `notify_one` before this line leaves a permit, so the wake-up is not lost.
            let woken = self.shared.task.notified();
            match until {
                None => woken.await,
                Some(until) => {
                    tokio::select! {
                        biased;
                        () = woken => {}
                        () = clock::sleep_until(until) => {}
                    }
                }
            }
        }
    }

    fn fill_batch(
        &self,
        state: &mut OutboxState,
        batch: &mut Vec<QueuedFrame>,
        max: usize,
        now: Instant,
    ) -> OutboxFrame {
        let mut remaining = max;
        while let Some(slot) = state
            // The first slot is taken whatever its size; otherwise a large one would never leave.
            .queue
            .pop_within(if batch.is_empty() { usize::MAX } else { remaining }, now)
        {
            remaining = remaining.saturating_sub(slot.len());
            batch.push(slot);
        }
        if state.awaited && state.queue.unbounded_bytes() < UNBOUNDED_LIMIT {
            state.awaited = false;
            self.shared.capacity.notify_waiters();
        }
        match state.phase {
            // Frames from before the end still leave.
            _ if !batch.is_empty() => OutboxFrame::Slots,
            OutboxPhase::Running => OutboxFrame::Nothing {
                until: state.queue.next_due(),
            },
            OutboxPhase::Finishing | OutboxPhase::Closed => OutboxFrame::End,
        }
    }

    /// Wakes the writer if it sleeps and would otherwise wake too late.
    fn wake_writer(&self, mut state: MutexGuard<'_, OutboxState>, effect: WakeHint) {
        let Some(sleeper) = state.sleeper else {
            return;
        };
        let wakes_in_time = match effect {
            WakeHint::Ready => false,
            WakeHint::ReadyAt(due) => sleeper.until.is_some_and(|until| until <= due),
            WakeHint::Nothing => true,
        };
        if wakes_in_time {
            return;
        }
        // Cleared here, so that further pushes do not wake the writer again.
        state.sleeper = None;
        // Unlocked before the notification, so that the writer does not wake up to a held lock.
        drop(state);
        match sleeper.kind {
            SleeperKind::Thread => self.shared.thread.notify_one(),
            SleeperKind::Task => self.shared.task.notify_one(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tower_lsp::jsonrpc::Id;

    use super::*;
    use crate::base::backpressure::ByteBudget;
    use crate::base::spawn::spawn;

    fn build_notification(text: &str) -> Outgoing {
        Outgoing::Notification {
            body: text.as_bytes().to_vec(),
            group: Some(1),
            permit: None,
        }
    }

    fn delta(offset: usize) -> Outgoing {
        Outgoing::Mergeable {
            key: (1, 1),
            head: offset.to_string().into_bytes(),
            text: b"x".to_vec(),
            tail: b"",
            permit: None,
        }
    }

    fn text(batch: &mut Vec<QueuedFrame>) -> String {
        let mut buffer = Vec::new();
        batch.drain(..).for_each(|slot| slot.write_to(&mut buffer));
        String::from_utf8(buffer)
            .unwrap()
            .replace("\r\n\r\n", " ")
            .replace("Content-Length: ", "|")
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_wakes_for_pushed_items_and_due_deltas() {
        let outbox = Outbox::new(Duration::from_millis(16));
        outbox.open();
        let mut batch = Vec::new();
        for offset in 0..2 {
            outbox.push(delta(offset));
            assert!(outbox.take(&mut batch, 1_000).await);
        }
        batch.clear();
        let pusher = spawn({
            let outbox = outbox.clone();
            async move {
                clock::sleep(Duration::from_millis(3)).await;
                outbox.push(delta(2));
                outbox.push(delta(3));
            }
        });
        let start = clock::now();
        assert!(outbox.take(&mut batch, 1_000).await);
        assert_eq!(clock::now() - start, Duration::from_millis(16));
        assert_eq!(text(&mut batch), "|3 2xx");
        pusher.await.unwrap();
    }

    #[tokio::test]
    async fn a_batch_respects_its_size_limit() {
        let outbox = Outbox::new(Duration::ZERO);
        outbox.open();
        for text in ["1", "22", "333", "a long one", "5"] {
            outbox.push(build_notification(text));
        }
        let mut batches = Vec::new();
        let mut batch = Vec::new();
        outbox.finish();
        while outbox.take(&mut batch, 6).await {
            batches.push(text(&mut batch));
        }
        assert_eq!(batches, ["|1 1|2 22|3 333", "|10 a long one", "|1 5"]);
        outbox.push(build_notification("late"));
        assert!(!outbox.take(&mut batch, 6).await);
    }

    #[test]
    fn finish_releases_held_deltas() {
        let outbox = Outbox::new(Duration::from_secs(60));
        outbox.open();
        let mut batch = Vec::new();
        for offset in 0..3 {
            outbox.push(delta(offset));
            if offset < 2 {
                assert!(outbox.take_blocking(&mut batch, 1_000));
            }
        }
        batch.clear();
        outbox.finish();
        assert!(outbox.take_blocking(&mut batch, 1_000));
        assert_eq!(text(&mut batch), "|2 2x");
        assert!(!outbox.take_blocking(&mut batch, 1_000));
    }

    #[tokio::test]
    async fn close_releases_all_reserved_bytes() {
        let pool = ByteBudget::new(10);
        let account = pool.open_session(10);
        let outbox = Outbox::new(Duration::ZERO);
        let full = |outbox: &Outbox| {
            outbox.push(Outgoing::Notification {
                body: vec![b'x'; 10],
                group: None,
                permit: Some(account.take(10)),
            });
        };
        full(&outbox);
        outbox.push_response(
            &Response::from_ok(Id::Number(1), "x".repeat(9 << 20).into()),
            None,
        );
        assert!(!outbox.has_room());
        let mut waiting = Box::pin(account.acquire_bytes(1));
        let mut pressed = Box::pin(outbox.wait_for_room());
        assert!(futures::poll!(&mut waiting).is_pending());
        assert!(futures::poll!(&mut pressed).is_pending());
        outbox.close();
        waiting.await;
        pressed.await;
        full(&outbox);
        assert_eq!(pool.bytes_in_flight(), 0, "what comes late takes no room");
    }

    #[tokio::test]
    async fn unread_answers_cause_backpressure() {
        let outbox = Outbox::new(Duration::ZERO);
        let answer = Response::from_ok(Id::Number(1), "x".repeat(1 << 20).into());
        for _ in 0..9 {
            outbox.push_response(&answer, None);
        }
        let mut waiting = Box::pin(outbox.wait_for_room());
        assert!(futures::poll!(&mut waiting).is_pending());
        let mut batch = Vec::new();
        assert!(outbox.take(&mut batch, 3 << 20).await);
        waiting.await;
    }

    #[test]
    fn pushes_from_many_threads_all_reach_the_writer() {
        const EACH: usize = 20_000;
        let outbox = Outbox::new(Duration::from_micros(200));
        outbox.open();
        let counts = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut batch, mut counts) = (Vec::new(), [0; 4]);
                while outbox.take_blocking(&mut batch, 128 << 10) {
                    let mut buffer = Vec::new();
                    batch.drain(..).for_each(|slot| slot.write_to(&mut buffer));
                    for byte in buffer {
                        if let Some(at) = b"abcd".iter().position(|letter| *letter == byte) {
                            counts[at] += 1;
                        }
                    }
                }
                counts
            });
            let pushers: Vec<_> = (0..4_u64)
                .map(|group| {
                    let outbox = outbox.clone();
                    scope.spawn(move || {
                        for _ in 0..EACH {
                            outbox.push(Outgoing::Mergeable {
                                key: (group, group),
                                head: b"=".to_vec(),
                                text: vec![b"abcd"[usize::try_from(group).unwrap()]],
                                tail: b"",
                                permit: None,
                            });
                        }
                    })
                })
                .collect();
            pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
            outbox.finish();
            writer.join().unwrap()
        });
        // The letters of "Content-Length" include none of a, b, c and d.
        assert_eq!(counts, [EACH; 4]);
    }
}
