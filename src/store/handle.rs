//! The queue into the writer, and what drives the writer: a thread, or a future that the caller polls.
//!
//! Both drivers run the same code. Knows no SQL and no files.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use super::error::StoreError;
use super::files::DataDir;
use super::health::{HealthWatch, StoreHealth};
use super::rows::{ContentChoice, PendingEvent, PendingKey, SessionChange, SessionRow};
use super::writer::StoreWriter;
use crate::domain::{DeltaEnvelope, Envelope, EventSink, FileChange, Grant, SessionId};

/// Capacity of the queue in writes. A full queue delays turns, but never the command side of an actor.
const QUEUE: usize = 1_024;

/// A write. Writes are applied, and events published, in the order they were sent.
#[derive(Debug)]
pub enum StoreWrite {
    /// Creates a session; an existing one stays unchanged.
    CreateSession(Box<SessionRow>),
    /// Stores an event, and publishes it.
    Append {
        /// Numbered by its session.
        envelope: Envelope,
        /// Pending rows that it settles, besides those that the writer derives from the event: the partial text of a
        /// completed or retracted message, and the request and decision of a resolved approval.
        drops: Vec<PendingKey>,
        /// Pending rows to write in the same transaction.
        puts: Vec<PendingEvent>,
        /// Signaled once the event has been published.
        done: Option<oneshot::Sender<()>>,
    },
    /// Publishes a delta in its place among the events, without storing it.
    Delta(DeltaEnvelope),
    /// Writes a pending row, or replaces the one with the same key.
    Put {
        session: SessionId,
        pending: PendingEvent,
        /// Signaled once it is stored, or kept in memory because the disk fails.
        done: Option<oneshot::Sender<()>>,
    },
    /// Removes a pending row.
    Drop { session: SessionId, key: PendingKey },
    /// Changes a session's row without an event.
    UpdateSession {
        session: SessionId,
        change: SessionChange,
    },
    /// Stores changes of files.
    Changes {
        session: SessionId,
        /// The turn or the revert that made them.
        cause: String,
        /// Whether to remove earlier changes of this cause.
        replaces_earlier: bool,
        /// For a file that this cause has changed before, the first original state stays.
        changes: Vec<FileChange>,
        /// Signaled once they are stored, or kept in memory because the disk fails.
        done: oneshot::Sender<()>,
    },
    /// Removes a session with all its data. The caller holds its lock.
    DeleteSession {
        session: SessionId,
        /// Receives the result.
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Stores a grant, or replaces the one with its id.
    AddGrant {
        grant: Grant,
        /// The session it applies to; `None` for all sessions of its folder.
        session: Option<SessionId>,
    },
    /// Removes a grant.
    RevokeGrant { id: String },
    /// Stores whether a folder is trusted. Without trust, its accepted redirects are removed.
    SetTrust {
        folder: String,
        trusted: bool,
        /// Newly accepted redirects: provider and target.
        redirects: Vec<(String, String)>,
        /// Time of the decision, in ms since the epoch.
        at_ms: i64,
    },
    /// Stores the user's choice; absent values in `choice` keep their old value.
    RememberChoice {
        folder: String,
        /// Name of the agent; empty for the default agent.
        agent: String,
        choice: ContentChoice,
        /// Time of the choice, in ms since the epoch.
        at_ms: i64,
    },
    /// Publishes a warning in its place among the events, without storing it.
    Warn {
        /// Its subject, as a stable code.
        code: &'static str,
        /// The text for the user.
        message: String,
    },
    /// Writes that are stored together or not at all, in this order. Must not contain a deletion.
    Together(Vec<StoreWrite>),
    /// Signaled once everything before it is stored, or kept in memory, and published.
    Barrier(oneshot::Sender<StoreHealth>),
}

/// A failure that tests and the simulator inject instead of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    DiskFull,
    Io,
    /// Another process holds the database.
    Busy,
}

/// Called before each commit and each opening of the database.
pub type FaultHook = Box<dyn FnMut() -> Option<WriteFault> + Send>;

/// Sends writes to the writer. Cheap to clone; the writer ends once all clones are dropped.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    queue: mpsc::Sender<StoreWrite>,
    health: HealthWatch,
}

/// Reserved space in the queue for one write.
#[derive(Debug)]
pub struct WritePermit(mpsc::OwnedPermit<StoreWrite>);

impl WritePermit {
    /// Sends a write in the reserved space; never waits.
    pub fn send(self, write: StoreWrite) {
        self.0.send(write);
    }
}

impl StoreHandle {
    /// Waits for space in the queue; callers are served in order.
    ///
    /// The future borrows nothing, so that an actor can poll it next to its commands.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the writer has ended.
    pub fn reserve(&self) -> impl Future<Output = Result<WritePermit, StoreError>> + Send + 'static {
        let queue = self.queue.clone();
        async move {
            let permit = queue.reserve_owned().await;
            permit.map(WritePermit).map_err(|_| StoreError::Closed)
        }
    }

    /// Waits for space and sends a write.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the writer has ended.
    pub async fn send(&self, write: StoreWrite) -> Result<(), StoreError> {
        self.queue.send(write).await.map_err(|_| StoreError::Closed)
    }

    /// Sends a write if there is space now.
    ///
    /// # Errors
    /// Returns the write if the queue is full or the writer has ended.
    pub fn try_send(&self, write: StoreWrite) -> Result<(), Box<StoreWrite>> {
        self.queue
            .try_send(write)
            .map_err(|error| Box::new(error.into_inner()))
    }

    /// Waits until everything sent before is stored, or kept in memory, and published.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the writer has ended.
    pub async fn flush_writes(&self) -> Result<StoreHealth, StoreError> {
        let (done, told) = oneshot::channel();
        self.send(StoreWrite::Barrier(done)).await?;
        told.await.map_err(|_| StoreError::Closed)
    }

    /// Removes a session with its events, pending rows, grants, search texts and kept content.
    ///
    /// The caller holds its lock. Removing an unknown session succeeds.
    ///
    /// # Errors
    /// [`StoreError::NotWritable`] while the disk fails, because a deletion is not kept for later. Otherwise the error
    /// of the database or the file system.
    pub async fn delete_session(&self, session: SessionId) -> Result<(), StoreError> {
        let (done, told) = oneshot::channel();
        self.send(StoreWrite::DeleteSession { session, done }).await?;
        told.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns whether writes reach the disk now.
    pub fn health(&self) -> StoreHealth {
        self.health.get()
    }

    /// Waits until `wanted` accepts the value of [`StoreHandle::health`].
    pub async fn until_health(&self, wanted: impl Fn(StoreHealth) -> bool) {
        self.health.wait_until(wanted).await;
    }
}

/// The thread of the writer.
#[derive(Debug)]
pub struct StoreThread {
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl StoreThread {
    /// Waits until everything is written and the database is closed. All [`StoreHandle`]s must be dropped first.
    ///
    /// Returns false if the thread panicked.
    pub async fn wait_until_ended(self) -> bool {
        // An error means that the thread unwound without sending, so the join below does not block.
        let _ = self.ended.await;
        self.thread.join().is_ok()
    }
}

pub(super) fn start(folder: DataDir, outlet: Box<dyn EventSink>) -> io::Result<(StoreHandle, StoreThread)> {
    let (handle, writes, health) = new_queue();
    // A runtime of its own gives the thread a timer next to the queue. It costs nothing while both are quiet.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (tell, ended) = oneshot::channel();
    let writer = StoreWriter::new(folder, outlet, health).with_checkpoint_thread();
    let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
        runtime.block_on(drive_writer(writer, writes));
        // The receiver may be gone: waiting for the end is optional.
        let _ = tell.send(());
    })?;
    Ok((handle, StoreThread { ended, thread }))
}

pub(super) fn start_inline(
    folder: DataDir,
    outlet: Box<dyn EventSink>,
    faults: Option<FaultHook>,
) -> (StoreHandle, impl Future<Output = ()> + Send + 'static) {
    let (handle, writes, health) = new_queue();
    let writer = StoreWriter::new(folder, outlet, health).with_faults(faults);
    (handle, drive_writer(writer, writes))
}

fn new_queue() -> (StoreHandle, mpsc::Receiver<StoreWrite>, HealthWatch) {
    let (queue, writes) = mpsc::channel(QUEUE);
    let health = HealthWatch::default();
    let handle = StoreHandle {
        queue,
        health: health.clone(),
    };
    (handle, writes, health)
}

/// Returns the largest batch. The simulator varies it.
fn choose_batch_limit() -> usize {
    #[cfg(any(test, feature = "sim"))]
    return crate::base::sim_schedule::at_most(QUEUE);
    #[cfg(not(any(test, feature = "sim")))]
    QUEUE
}

/// Feeds all queued writes to the writer in batches, until all handles are dropped.
async fn drive_writer(mut writer: StoreWriter, mut writes: mpsc::Receiver<StoreWrite>) {
    let mut batch = Vec::new();
    loop {
        let received = match writer.retry_at() {
            None => writes.recv_many(&mut batch, choose_batch_limit()).await,
            Some(at) => tokio::select! {
                // New writes come first: the writer retries by itself when a batch arrives after the deadline.
                biased;
                received = writes.recv_many(&mut batch, choose_batch_limit()) => received,
                () = sleep_until(at) => {
                    writer.retry();
                    continue;
                }
            },
        };
        // Zero means that all handles are dropped.
        if received == 0 {
            break;
        }
        writer.handle_batch(&mut batch);
    }
    writer.finish();
}
