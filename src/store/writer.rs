//! The only writer of this server: commits queued writes in one transaction, then publishes the events in order.
//!
//! A failing disk (R-ERR-2) causes one warning. Durable writes then stay in memory, in order, and are retried every
//! second. Invariant (I7): a published event was committed, or the warning went ahead of it. Contains no SQL.

use std::fs::{self, File};
use std::io;
use std::time::Duration;

use rusqlite::{TransactionBehavior, ffi};
use tokio::sync::oneshot;

use super::apply;
use super::error::StoreError;
use super::files::{self, DataDir};
use super::health::{HealthWatch, LossReason, StoreHealth};
use super::ops::{EventOp, Priority, WriteOp};
use super::recovery::{self, OpenDatabase};
use super::rows::{PendingEvent, PendingKey};
use super::schema;
use super::wal::WalCheckpointer;
use super::write::{FaultHook, StoreWrite, WriteFault};
use crate::base::clock::{self, Instant};
use crate::domain::{DeltaEnvelope, Envelope, EventSink, SessionId};

/// Bytes of writes kept in memory while the disk fails.
pub(super) const MAX_BUFFERED_BYTES: usize = 32 << 20;

/// Last part of [`MAX_BUFFERED_BYTES`], reserved for the user's input and small rows ([`Priority::High`]).
pub(super) const RESERVE: usize = 1 << 20;

/// Time between a failure and the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// Commits and publishes writes. Synchronous: its driver decides where it may block.
pub(super) struct StoreWriter {
    folder: DataDir,
    outlet: Box<dyn EventSink>,
    health: HealthWatch,
    connection: Option<OpenDatabase>,
    checkpoints: WalCheckpointer,
    buffered: BufferedWrites,
    retry_at: Option<Instant>,
    /// Set once a newer agentls has migrated the store: this server never writes again (R-SESS-5).
    superseded: Option<LossReason>,
    faults: Option<FaultHook>,
}

/// Durable writes that the disk has not accepted yet.
#[derive(Default)]
struct BufferedWrites {
    ops: Vec<WriteOp>,
    bytes: usize,
    lost: usize,
}

/// Something to publish or signal once the writes before it are done.
#[expect(clippy::large_enum_variant, reason = "nearly all are events")]
enum OutgoingWrite {
    Event(Envelope, Option<oneshot::Sender<()>>),
    Delta(DeltaEnvelope),
    Warning(&'static str, String),
    Done(oneshot::Sender<()>),
    Barrier(oneshot::Sender<StoreHealth>),
}

impl StoreWriter {
    /// Creates a writer that opens the database on first use.
    pub(super) fn new(folder: DataDir, outlet: Box<dyn EventSink>, health: HealthWatch) -> Self {
        Self {
            checkpoints: WalCheckpointer::new(&folder.database_path()),
            folder,
            outlet,
            health,
            connection: None,
            buffered: BufferedWrites::default(),
            retry_at: None,
            superseded: None,
            faults: None,
        }
    }

    /// Runs checkpoints of the log on threads of their own.
    pub(super) fn with_checkpoint_thread(mut self) -> Self {
        self.checkpoints.enable_threads();
        self
    }

    /// Calls `faults` before each commit.
    pub(super) fn with_faults(mut self, faults: Option<FaultHook>) -> Self {
        self.faults = faults;
        self
    }

    /// Returns when [`StoreWriter::retry`] is due; `None` while nothing is kept.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Handles all of `batch`: one transaction for all durable writes, then publishes everything in order.
    ///
    /// A deletion has its own transaction. Items ahead of the first durable write are published before the commit.
    pub(super) fn handle_batch(&mut self, batch: &mut Vec<StoreWrite>) {
        let mut ops = Vec::new();
        let mut outgoing = Vec::new();
        flatten_groups(batch);
        for write in batch.drain(..) {
            match write {
                StoreWrite::Row(row) => ops.push(WriteOp::Row(row)),
                StoreWrite::Append {
                    envelope,
                    drops,
                    puts,
                    done,
                } => {
                    self.prepare_event(&envelope, drops, &puts, &mut ops);
                    outgoing.push(OutgoingWrite::Event(envelope, done));
                }
                StoreWrite::Delta(envelope) => outgoing.push(OutgoingWrite::Delta(envelope)),
                StoreWrite::Put {
                    session,
                    pending,
                    done,
                } => {
                    self.prepare_put(session, &pending, &mut ops);
                    outgoing.extend(done.map(OutgoingWrite::Done));
                }
                StoreWrite::Changes {
                    session,
                    cause,
                    replaces_earlier,
                    changes,
                    done,
                } => {
                    match WriteOp::from_changes(session, cause, replaces_earlier, &changes) {
                        Ok(op) => ops.push(op),
                        Err(error) => self.outlet.publish_warning(
                            "store",
                            &format!("changes of files could not be stored: {error}"),
                        ),
                    }
                    outgoing.push(OutgoingWrite::Done(done));
                }
                // `flatten_groups` has replaced them by their members.
                StoreWrite::Together(_) => {}
                StoreWrite::Warn { code, message } => outgoing.push(OutgoingWrite::Warning(code, message)),
                StoreWrite::Barrier(done) => outgoing.push(OutgoingWrite::Barrier(done)),
                StoreWrite::DeleteSession { session, done } => {
                    // Earlier writes of the batch come first, so that the deletion removes them too.
                    self.store_and_publish(&mut ops, &mut outgoing);
                    // The caller may no longer wait.
                    let _ = done.send(self.delete_session(&session));
                }
            }
            // With nothing durable ahead, there is no commit to wait for.
            if ops.is_empty() {
                self.publish_outgoing(&mut outgoing);
            }
        }
        self.store_and_publish(&mut ops, &mut outgoing);
    }

    /// Tries to write what is kept, in parts and in order.
    ///
    /// A disk that still fails then costs little time, and a disk with little space takes what it can.
    pub(super) fn retry(&mut self) {
        let mut ops = std::mem::take(&mut self.buffered.ops);
        let mut done = 0;
        let outcome = loop {
            let part = retry_batch_len(&ops[done..]);
            if let Err(error) = self.commit_ops(&ops[done..done + part]) {
                break Err(error);
            }
            done += part;
            if done == ops.len() {
                break Ok(());
            }
        };
        match outcome {
            Ok(()) => self.handle_recovery(),
            Err(error) => {
                // Only the committed prefix leaves; the rest keeps its order.
                let written: usize = ops.drain(..done).map(|op| op.estimate_bytes()).sum();
                self.buffered.bytes -= written;
                self.buffered.ops = ops;
                self.handle_failure(&error);
            }
        }
    }

    /// Makes a last attempt and closes everything, once the queue has ended.
    pub(super) fn finish(mut self) {
        if self.retry_at.is_some() {
            self.retry();
        }
        self.checkpoints.join();
    }

    fn prepare_event(
        &mut self,
        envelope: &Envelope,
        drops: Vec<PendingKey>,
        puts: &[PendingEvent],
        ops: &mut Vec<WriteOp>,
    ) {
        match EventOp::new(envelope, drops, puts) {
            Ok(op) => ops.push(WriteOp::Event(Box::new(op))),
            Err(error) => self
                .outlet
                .publish_warning("store", &format!("an event could not be stored: {error}")),
        }
    }

    fn prepare_put(&mut self, session: SessionId, pending: &PendingEvent, ops: &mut Vec<WriteOp>) {
        match WriteOp::from_pending(session, pending) {
            Ok(op) => ops.push(op),
            Err(error) => self
                .outlet
                .publish_warning("store", &format!("a pending row could not be stored: {error}")),
        }
    }

    /// Stores the writes, then publishes.
    fn store_and_publish(&mut self, ops: &mut Vec<WriteOp>, outgoing: &mut Vec<OutgoingWrite>) {
        self.store_ops(std::mem::take(ops));
        self.publish_outgoing(outgoing);
    }

    fn publish_outgoing(&mut self, outgoing: &mut Vec<OutgoingWrite>) {
        for item in outgoing.drain(..) {
            // Waiting callers may be gone; that is their own concern.
            match item {
                OutgoingWrite::Event(mut envelope, done) => {
                    // A page is read from the disk, so it cannot contain what is kept in memory: send it as well.
                    envelope.in_page = envelope.in_page && self.is_all_stored();
                    self.outlet.publish_event(envelope);
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                }
                OutgoingWrite::Delta(mut envelope) => {
                    envelope.in_page = envelope.in_page && self.is_all_stored();
                    self.outlet.publish_delta(envelope);
                }
                OutgoingWrite::Warning(code, message) => self.outlet.publish_warning(code, &message),
                OutgoingWrite::Done(done) => {
                    let _ = done.send(());
                }
                OutgoingWrite::Barrier(done) => {
                    // Tries the disk once more, so that the caller gets the current state.
                    self.is_all_stored();
                    let _ = done.send(self.health.get());
                }
            }
        }
    }

    /// Whether the disk has everything it was given. Makes another attempt if not.
    fn is_all_stored(&mut self) -> bool {
        if self.retry_at.is_some() {
            self.retry();
        }
        self.retry_at.is_none() && self.superseded.is_none()
    }

    fn store_ops(&mut self, ops: Vec<WriteOp>) {
        if ops.is_empty() || self.superseded.is_some() {
            return;
        }
        match self.retry_at {
            None => {
                if let Err(error) = self.commit_ops(&ops) {
                    self.buffer_ops(ops);
                    self.handle_failure(&error);
                }
            }
            Some(at) => {
                // Later writes wait behind the earlier ones, or the order on disk would be wrong.
                self.buffer_ops(ops);
                self.report_degraded();
                if clock::now() >= at {
                    self.retry();
                }
            }
        }
    }

    fn buffer_ops(&mut self, ops: Vec<WriteOp>) {
        let buffered = &mut self.buffered;
        let most = most_kept();
        for op in ops {
            let weight = op.estimate_bytes();
            let limit = match op.priority() {
                // Pieces and other low priorities stop before the reserve; critical writes are never dropped.
                Priority::Low => most - most / (MAX_BUFFERED_BYTES / RESERVE),
                Priority::High => most,
                Priority::Critical => usize::MAX,
            };
            // The pieces of a settled message need no memory any more.
            if op.drops_pieces() {
                buffered.ops.retain(|other| {
                    let settled = other.is_piece() && op.can_supersede(other);
                    buffered.bytes -= if settled { other.estimate_bytes() } else { 0 };
                    !settled
                });
            }
            if buffered.bytes + weight > limit {
                // A lost piece is not counted: the complete message follows.
                buffered.lost += usize::from(!op.is_piece());
                continue;
            }
            buffered.bytes += weight;
            buffered.ops.push(op);
        }
    }

    /// Commits the writes. A database whose damage shows only now is replaced first.
    fn commit_ops(&mut self, ops: &[WriteOp]) -> Result<(), StoreError> {
        match self.try_commit_ops(ops) {
            Err(StoreError::Sqlite(error)) if recovery::is_damage(&error) => {
                self.connection = None;
                match recovery::repair(&self.folder.database_path())? {
                    Some(notice) => self.outlet.publish_warning("store", &notice),
                    None => return Err(error.into()),
                }
                self.try_commit_ops(ops)
            }
            other => other,
        }
    }

    fn try_commit_ops(&mut self, ops: &[WriteOp]) -> Result<(), StoreError> {
        let fault = self.faults.as_mut().and_then(|hook| hook());
        let server = self.folder.server_id().to_owned();
        let (_lock, transaction) = self.begin_transaction()?;
        let applied = apply::apply(&transaction, ops, &server)?;
        if ops.is_empty() {
            // A retry without writes must write something, or it would not see whether the disk works again.
            transaction.pragma_update(None, "user_version", schema::VERSION)?;
        }
        if let Some(fault) = fault {
            return Err(fault.to_sqlite_error().into());
        }
        transaction.commit()?;
        // After the commit only: a write that is retried would otherwise warn each time.
        for reason in applied.refused {
            self.outlet
                .publish_warning("store", &format!("a record was not stored: {reason}"));
        }
        if let Some((connection, _)) = &self.connection {
            self.checkpoints
                .after_commit(&self.folder.database_path(), connection);
        }
        Ok(())
    }

    /// Opens the database if necessary and starts a transaction, unless a newer agentls has migrated the store.
    ///
    /// Until the returned lock is dropped, which must be after the commit, nobody replaces the database.
    fn begin_transaction(&mut self) -> Result<(Option<File>, rusqlite::Transaction<'_>), StoreError> {
        // While the disk fails, each attempt must be short: events wait behind it.
        let busy = match self.retry_at {
            None => schema::BUSY,
            Some(_) => Duration::ZERO,
        };
        let path = self.folder.database_path();
        let mut opened = self.connection.take();
        let (opened, lock) = loop {
            let current = match opened.take() {
                Some(current) => current,
                None => {
                    let (current, notice) = recovery::open(&path, busy)?;
                    if let Some(notice) = notice {
                        self.outlet.publish_warning("store", &notice);
                    }
                    current
                }
            };
            let lock = recovery::lock_shared(&path, busy)?;
            // Another server may have replaced a damaged database.
            if current.1 == files::identify_file(&path) {
                break (current, lock);
            }
        };
        let (connection, _) = self.connection.insert(opened);
        // Takes the write lock now: no newer agentls can migrate between this check and the commit.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = schema::read_schema_version(&transaction)?;
        if found > schema::VERSION {
            return Err(StoreError::NewerSchema {
                found,
                known: schema::VERSION,
            });
        }
        Ok((lock, transaction))
    }

    fn delete_session(&mut self, session: &SessionId) -> Result<(), StoreError> {
        if self.retry_at.is_some() {
            self.retry();
        }
        if let Some(loss) = self.superseded {
            return Err(loss.into());
        }
        if self.retry_at.is_some() {
            return Err(StoreError::NotWritable);
        }
        // Files first: a crash in between leaves a session to delete again, never texts without a session.
        let content = self.folder.content_dir(session)?;
        match fs::remove_dir_all(&content) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::from_io("removing", content, error));
            }
            // A session without kept content has no folder.
            Ok(()) | Err(_) => {}
        }
        if let Some(fault) = self.faults.as_mut().and_then(|hook| hook()) {
            return Err(fault.to_sqlite_error().into());
        }
        let (_lock, transaction) = self.begin_transaction()?;
        apply::delete_session(&transaction, session)?;
        transaction.commit()?;
        Ok(())
    }

    fn handle_failure(&mut self, error: &StoreError) {
        let first = self.retry_at.is_none();
        if let StoreError::NewerSchema { found, known } = *error {
            let loss = LossReason::Newer { found, known };
            self.superseded = Some(loss);
            // The kept writes can never be stored, so their memory is released.
            self.buffered = BufferedWrites::default();
            self.retry_at = None;
            self.connection = None;
            self.health.set(StoreHealth::Gone(loss));
            self.outlet.publish_warning("store", &error.to_string());
            return;
        }
        self.retry_at = Some(clock::now() + RETRY);
        let patient = matches!(error, StoreError::Sqlite(error) if schema::is_busy(error));
        if !patient {
            // The file may have been replaced, or the disk may be back: open it again.
            self.connection = None;
        } else if let Some((connection, _)) = &self.connection {
            // This fails only on a busy connection, and this one is idle.
            let _ = connection.busy_timeout(Duration::ZERO);
        }
        self.report_degraded();
        // One warning per failure, not one per attempt.
        if first {
            self.outlet.publish_warning(
                "store",
                &format!("{error}; keeping events in memory until the disk works again"),
            );
        }
    }

    fn report_degraded(&mut self) {
        let BufferedWrites { bytes, lost, .. } = self.buffered;
        let health = if !(lost > 0 || bytes > most_kept()) {
            StoreHealth::Degraded { bytes }
        } else {
            StoreHealth::Gone(LossReason::Full)
        };
        self.health.set(health);
    }

    fn handle_recovery(&mut self) {
        let lost = std::mem::take(&mut self.buffered).lost;
        self.retry_at = None;
        // The connection may have the zero timeout from the time of the failure.
        if let Some((connection, _)) = &self.connection {
            let _ = connection.busy_timeout(schema::BUSY);
        }
        self.health.set(StoreHealth::Ok);
        let loss = match lost {
            0 => String::new(),
            lost => format!("; lost {lost} records that did not fit into memory"),
        };
        self.outlet
            .publish_warning("store", &format!("the session store works again{loss}"));
    }
}

/// Returns [`MAX_BUFFERED_BYTES`], or less if the simulator tests its limit.
fn most_kept() -> usize {
    #[cfg(feature = "sim")]
    return crate::base::sim_schedule::retained_bytes(MAX_BUFFERED_BYTES);
    #[cfg(not(feature = "sim"))]
    MAX_BUFFERED_BYTES
}

/// Replaces groups by their members: a batch is one transaction anyway.
fn flatten_groups(batch: &mut Vec<StoreWrite>) {
    if !batch.iter().any(|write| matches!(write, StoreWrite::Together(_))) {
        return;
    }
    let folded = std::mem::take(batch);
    for write in folded {
        match write {
            StoreWrite::Together(members) => batch.extend(members),
            other => batch.push(other),
        }
    }
}

/// Returns how many of `ops` are retried together: about 1 MiB, but at least one.
fn retry_batch_len(ops: &[WriteOp]) -> usize {
    const PART: usize = 1 << 20;
    let mut bytes = 0;
    let fit = ops.iter().take_while(|op| {
        bytes += op.estimate_bytes();
        bytes <= PART
    });
    fit.count().max(1).min(ops.len())
}

impl WriteFault {
    /// Returns the error that SQLite would report.
    fn to_sqlite_error(self) -> rusqlite::Error {
        let code = match self {
            Self::DiskFull => ffi::SQLITE_FULL,
            Self::Io => ffi::SQLITE_IOERR,
            Self::Busy => ffi::SQLITE_BUSY,
        };
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }
}
