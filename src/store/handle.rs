//! The queue into the writer, and what drives the writer: a thread of its own, or a future where the caller
//! runs it. Both run the same code.

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
use crate::domain::{Envelope, EventSink, FileChange, Grant, SessionId};

/// How many writes wait at most. A full queue makes turns wait, never the actor's command side.
const QUEUE: usize = 1_024;

/// One write. Writes are done, and events passed on, in the order they were sent.
#[derive(Debug)]
pub enum StoreWrite {
    /// A new session; one that exists is left as it is.
    CreateSession(Box<SessionRow>),
    /// An event, to be stored if it is durable, and then passed on.
    Append {
        /// The event; numbered by its session if it is durable.
        envelope: Envelope,
        /// Pending rows that it settles, besides those that the writer knows by itself: the partial text of
        /// a message it completes or retracts, the question and decision of an approval it resolves.
        drops: Vec<PendingKey>,
        /// Pending rows to write in the same transaction.
        puts: Vec<PendingEvent>,
        /// Told when the event has been passed on.
        done: Option<oneshot::Sender<()>>,
    },
    /// Writes a pending row, in place of one with the same key.
    Put {
        /// The session.
        session: SessionId,
        /// The row.
        pending: PendingEvent,
        /// Told when it is stored, or kept in memory because the disk fails.
        done: Option<oneshot::Sender<()>>,
    },
    /// Removes a pending row.
    Drop {
        /// The session.
        session: SessionId,
        /// The row.
        key: PendingKey,
    },
    /// Changes a session's row.
    UpdateSession {
        /// The session.
        session: SessionId,
        /// What changes.
        change: SessionChange,
    },
    /// What was made of files.
    Changes {
        /// The session.
        session: SessionId,
        /// The turn, or the revert.
        cause: String,
        /// What it has changed before is forgotten.
        anew: bool,
        /// The changes. Of a file that it has changed before, what it was then stays.
        changes: Vec<FileChange>,
        /// Told when they are stored, or kept in memory because the disk fails.
        done: oneshot::Sender<()>,
    },
    /// Removes a session with all that belongs to it. The caller holds its lock.
    DeleteSession {
        /// The session.
        session: SessionId,
        /// Told how it went.
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Stores a grant, or changes the one with its id.
    AddGrant {
        /// The grant.
        grant: Grant,
        /// The session that it is for; none for all sessions of its folder.
        session: Option<SessionId>,
    },
    /// Takes a grant back.
    RevokeGrant {
        /// Its id.
        id: String,
    },
    /// Remembers whether a folder is trusted. Where it is not, no redirect of it stays accepted.
    SetTrust {
        /// The folder.
        folder: String,
        /// Whether it is.
        trusted: bool,
        /// Redirects that were accepted now: provider and target.
        redirects: Vec<(String, String)>,
        /// When it was said, in ms since the epoch.
        at_ms: i64,
    },
    /// Remembers what a person chose; what is absent in `choice` stays as it was.
    RememberChoice {
        /// The folder.
        folder: String,
        /// The agent's name; empty for the default agent.
        agent: String,
        /// What was chosen.
        choice: ContentChoice,
        /// When, in ms since the epoch.
        at_ms: i64,
    },
    /// A warning that is told and not stored, in its place among the events.
    Warn {
        /// What it is about, as a stable word.
        code: &'static str,
        /// What a person should know.
        message: String,
    },
    /// Writes that are stored all or none, in this order. Not for deletions.
    Together(Vec<StoreWrite>),
    /// Told when all before is stored, or kept in memory, and passed on.
    Barrier(oneshot::Sender<StoreHealth>),
}

/// A failure that tests and the simulator inject in place of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The disk is full.
    DiskFull,
    /// The disk fails.
    Io,
    /// Another process holds the database.
    Busy,
}

/// Asked before each commit and each opening.
pub type FaultHook = Box<dyn FnMut() -> Option<WriteFault> + Send>;

/// Sends writes. Cheap to clone; the writer ends when all clones are gone.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    queue: mpsc::Sender<StoreWrite>,
    health: HealthWatch,
}

/// Room for one write.
#[derive(Debug)]
pub struct WritePermit(mpsc::OwnedPermit<StoreWrite>);

impl WritePermit {
    /// Uses it; never waits.
    pub fn send(self, write: StoreWrite) {
        self.0.send(write);
    }
}

impl StoreHandle {
    /// Waits for room. The future borrows nothing, so that an actor can hold it beside its commands; rooms
    /// are given in the order they were asked for.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn reserve(&self) -> impl Future<Output = Result<WritePermit, StoreError>> + Send + 'static {
        let queue = self.queue.clone();
        async move {
            let permit = queue.reserve_owned().await;
            permit.map(WritePermit).map_err(|_| StoreError::Closed)
        }
    }

    /// Waits for room and sends.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub async fn send(&self, write: StoreWrite) -> Result<(), StoreError> {
        self.queue.send(write).await.map_err(|_| StoreError::Closed)
    }

    /// Sends if there is room now.
    ///
    /// # Errors
    /// The write, when the queue is full or has ended.
    pub fn try_send(&self, write: StoreWrite) -> Result<(), Box<StoreWrite>> {
        self.queue
            .try_send(write)
            .map_err(|error| Box::new(error.into_inner()))
    }

    /// Waits until all that was sent before is stored, or kept in memory, and passed on.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub async fn flush_writes(&self) -> Result<StoreHealth, StoreError> {
        let (done, told) = oneshot::channel();
        self.send(StoreWrite::Barrier(done)).await?;
        told.await.map_err(|_| StoreError::Closed)
    }

    /// Removes a session with its events, pending rows, grants, texts and kept content. The caller holds its
    /// lock. Removing what is not there is no error.
    ///
    /// # Errors
    /// [`StoreError::NotWritable`] while the disk fails; nothing is kept for later.
    pub async fn delete_session(&self, session: SessionId) -> Result<(), StoreError> {
        let (done, told) = oneshot::channel();
        self.send(StoreWrite::DeleteSession { session, done }).await?;
        told.await.map_err(|_| StoreError::Closed)?
    }

    /// Whether writes reach the disk now.
    pub fn health(&self) -> StoreHealth {
        self.health.get()
    }

    /// Waits until [`StoreHandle::health`] is as `wanted` says.
    pub async fn until_health(&self, wanted: impl Fn(StoreHealth) -> bool) {
        self.health.wait_until(wanted).await;
    }
}

/// The writer's thread.
#[derive(Debug)]
pub struct StoreThread {
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl StoreThread {
    /// Waits until all is written and the database is closed; all [`StoreHandle`]s must be dropped for that.
    /// `false` when the thread had panicked.
    pub async fn wait_until_ended(self) -> bool {
        // An error means that the thread has unwound without sending, so that joining does not block.
        let _ = self.ended.await;
        self.thread.join().is_ok()
    }
}

pub(super) fn start(folder: DataDir, outlet: Box<dyn EventSink>) -> io::Result<(StoreHandle, StoreThread)> {
    let (handle, writes, health) = new_queue();
    // A runtime of its own gives the thread a timer beside the queue, at no cost while both are quiet.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (tell, ended) = oneshot::channel();
    let writer = StoreWriter::new(folder, outlet, health).with_checkpoint_thread();
    let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
        runtime.block_on(drive_writer(writer, writes));
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

/// How much is taken at once: all there is.
fn choose_batch_limit() -> usize {
    #[cfg(any(test, feature = "sim"))]
    return crate::base::sim_schedule::at_most(QUEUE);
    #[cfg(not(any(test, feature = "sim")))]
    QUEUE
}

/// Feeds the writer whatever is queued, all at once, until all handles are gone.
async fn drive_writer(mut writer: StoreWriter, mut writes: mpsc::Receiver<StoreWrite>) {
    let mut batch = Vec::new();
    loop {
        let received = match writer.retry_at() {
            None => writes.recv_many(&mut batch, choose_batch_limit()).await,
            Some(at) => tokio::select! {
                biased;
                received = writes.recv_many(&mut batch, choose_batch_limit()) => received,
                () = sleep_until(at) => {
                    writer.retry();
                    continue;
                }
            },
        };
        if received == 0 {
            break;
        }
        writer.handle_batch(&mut batch);
    }
    writer.finish();
}
