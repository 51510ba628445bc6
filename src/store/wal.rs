//! Folding the write-ahead log back into the database, off the writer's path: this is where the disk is
//! waited for (`fsync`), which may take long.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

/// The log is folded back each time it has grown by this much.
const STEP: u64 = 4 << 20;

/// Beyond this the writer folds it back itself, so that a steady stream cannot make it grow for ever.
const MOST: u64 = 64 << 20;

/// Looks after the log of one database.
#[derive(Debug)]
pub(super) struct WalCheckpointer {
    log: PathBuf,
    next: u64,
    threaded: bool,
    running: Option<JoinHandle<()>>,
}

impl WalCheckpointer {
    /// For the database `path`; inline until told otherwise.
    pub(super) fn new(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self {
            log: log.into(),
            next: STEP,
            threaded: false,
            running: None,
        }
    }

    /// Lets them happen on threads.
    pub(super) fn enable_threads(&mut self) {
        self.threaded = true;
    }

    /// To be called after each commit. A failure is nothing: the log is whole, and the next one tries again.
    pub(super) fn after_commit(&mut self, path: &Path, writer: &Connection) {
        let size = self.log.metadata().map_or(0, |meta| meta.len());
        if size < self.next {
            // The log starts over, and is cut, by itself once all of it was folded back.
            self.next = self.next.min(size + STEP);
            return;
        }
        if self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.next = size + STEP;
        if size > MOST {
            let _ = checkpoint_wal(writer, "TRUNCATE");
        } else if !self.threaded {
            let _ = checkpoint_wal(writer, "PASSIVE");
        } else {
            self.join();
            let path = path.to_owned();
            self.running = std::thread::Builder::new()
                .name("store-log".into())
                .spawn(move || {
                    let _ = fold_apart(&path);
                })
                .ok();
        }
    }

    /// Waits for one that runs.
    pub(super) fn join(&mut self) {
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

fn checkpoint_wal(connection: &Connection, how: &str) -> Result<(), rusqlite::Error> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
}

fn fold_apart(path: &Path) -> Result<(), rusqlite::Error> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL;")?;
    checkpoint_wal(&connection, "PASSIVE")
}
