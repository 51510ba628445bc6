//! The queue into the writer, and what drives the writer: a thread, or a future that the caller polls.
//!
//! Both drivers run the same code. Knows no SQL and no files.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::clock::{self, sleep_until};
use tokio::sync::{mpsc, oneshot};

use super::error::StoreError;
use super::files::DataDir;
use super::health::{HealthWatch, StoreHealth};
use super::write::{FaultHook, StoreWrite};
use super::writer::StoreWriter;
use crate::domain::{EventSink, SessionId};

/// Time that the store's thread gets to close the database.
const LAST_COMMIT: Duration = Duration::from_millis(100);
/// Capacity of the queue in writes. A full queue delays turns, but never the command side of an actor.
const QUEUE: usize = 1_024;

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
        let (done, reply) = oneshot::channel();
        self.send(StoreWrite::Barrier(done)).await?;
        reply.await.map_err(|_| StoreError::Closed)
    }

    /// Removes a session with its events, pending rows, grants, search texts and kept content.
    ///
    /// The caller holds its lock. Removing an unknown session succeeds.
    ///
    /// # Errors
    /// [`StoreError::NotWritable`] while the disk fails, because a deletion is not kept for later. Otherwise the error
    /// of the database or the file system.
    pub async fn delete_session(&self, session: SessionId) -> Result<(), StoreError> {
        let (done, reply) = oneshot::channel();
        self.send(StoreWrite::DeleteSession { session, done }).await?;
        reply.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) fn downgrade(&self) -> WarningSender {
        WarningSender(self.queue.downgrade())
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

/// Sends warnings for as long as the writer runs, and does not keep it running.
#[derive(Clone, Debug)]
pub(super) struct WarningSender(mpsc::WeakSender<StoreWrite>);

impl WarningSender {
    /// Sends a warning to the clients.
    pub(super) fn send_warning(&self, message: String) {
        if let Some(queue) = self.0.upgrade() {
            // A full queue loses the warning, which the log contains.
            let _ = queue.try_send(StoreWrite::Warn {
                code: "store",
                message,
            });
        }
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

    /// Gives the thread a moment to close the database at the end of the process.
    pub async fn wait_for_last_commit(self) {
        if clock::timeout(LAST_COMMIT, self.wait_until_ended())
            .await
            .is_err()
        {
            tracing::debug!("the store's thread is left to the system");
        }
    }
}

pub(super) fn start(folder: DataDir, outlet: Box<dyn EventSink>) -> io::Result<(StoreHandle, StoreThread)> {
    let (handle, writes, health) = new_queue();
    // A runtime of its own gives the thread a timer next to the queue. It costs nothing while both are quiet.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (end_sender, ended) = oneshot::channel();
    let writer = StoreWriter::new(folder, outlet, health).with_checkpoint_thread();
    let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
        runtime.block_on(drive_writer(writer, writes));
        // The receiver may be gone: waiting for the end is optional.
        let _ = end_sender.send(());
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
    #[cfg(feature = "sim")]
    return crate::base::sim_schedule::at_most(QUEUE);
    #[cfg(not(feature = "sim"))]
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
