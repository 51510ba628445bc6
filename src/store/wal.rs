//! Checkpoints of the write-ahead log, off the writer's path.
//!
//! Only a checkpoint waits for the disk (`fsync`), which may take long. Knows nothing of the log's content.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::{files, recovery, schema};

/// Growth of the log, in bytes, that starts the next checkpoint.
const STEP: u64 = 4 << 20;

/// Size of the log, in bytes, above which the writer runs the checkpoint itself. A steady stream cannot outgrow it.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Decides when to checkpoint the log of one database.
#[derive(Debug)]
pub(super) struct WalCheckpointer {
    log: PathBuf,
    next: u64,
    threaded: bool,
    running: Option<JoinHandle<()>>,
}

impl WalCheckpointer {
    /// Creates it for the database `path`, without threads.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            log: files::with_suffix(path, "-wal"),
            next: STEP,
            threaded: false,
            running: None,
        }
    }

    /// Runs checkpoints on threads from now on.
    pub(super) fn enable_threads(&mut self) {
        self.threaded = true;
    }

    /// Runs a checkpoint if one is due; call it after each commit. Failures are ignored: the log is intact, and the
    /// next checkpoint tries again.
    pub(super) fn after_commit(&mut self, path: &Path, writer: &Connection) {
        let size = self.log.metadata().map_or(0, |meta| meta.len());
        if size < self.next {
            // SQLite restarts and truncates the log by itself once a checkpoint has covered all of it.
            self.next = self.next.min(size + STEP);
            return;
        }
        // SQLite runs one checkpoint at a time; a second one would fail as busy.
        if self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.next = size + STEP;
        if size > MAX_LOG_BYTES {
            // On the writer's own connection: it waits here, so the log cannot grow meanwhile.
            let _ = checkpoint_wal(writer, "TRUNCATE");
        } else if !self.threaded {
            let _ = checkpoint_wal(writer, "PASSIVE");
        } else {
            self.join();
            let path = path.to_owned();
            self.running = std::thread::Builder::new()
                .name("store-log".into())
                .spawn(move || {
                    let _ = checkpoint_on_own_connection(&path);
                })
                .ok();
        }
    }

    /// Waits for a running checkpoint.
    pub(super) fn join(&mut self) {
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

fn checkpoint_wal(connection: &Connection, mode: &str) -> Result<(), rusqlite::Error> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

fn checkpoint_on_own_connection(path: &Path) -> Result<(), StoreError> {
    let _lock = recovery::lock_shared(path, Duration::ZERO)?;
    if schema::is_emptied(path) {
        return Ok(());
    }
    // Creates no database: that of a moment when there is none would hide the real one.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A checkpoint that meets a busy database gives up; the next one tries again.
    connection.busy_timeout(Duration::ZERO)?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL;")?;
    checkpoint_wal(&connection, "PASSIVE")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_creates_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        checkpoint_on_own_connection(&path).unwrap_err();
        assert!(!path.exists());
    }
}
