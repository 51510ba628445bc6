//! SQLite: durable events, partial text, search. One writer, many readers, one live holder per session.
//!
//! Owns the data folder: `store.db`, `locks/`, `content/`. Knows nothing of actors, turns and wire shapes.
//! Keeps I6 and I7: an event that reaches the [`EventSink`] was committed before, in order, or a warning went ahead
//! of it (R-SESS-1, R-SESS-4, R-ERR-2). In reading order:
//!
//! - `rows` and `write`: inputs and results; `records`: the form of events on disk; `schema`: the tables.
//! - `handle`: the queue, and what drives the writer; `health`: whether the disk accepts writes.
//! - `writer`: commits, publishes, survives a failing disk; `ops`: prepared writes; `apply`: prepared writes as SQL;
//!   `wal`: checkpoints of the log, off the writer's path; `recovery`: what becomes of a damaged database.
//! - `reader` and `search`: pages, lists, text, by `row_reading`; `lock`: the holder of a session; `content`: long outputs;
//!   `file_snapshots`: earlier contents of files.

mod apply;
mod content;
mod error;
mod file_snapshots;
mod files;
mod handle;
mod health;
mod lock;
mod ops;
mod reader;
mod records;
mod recovery;
mod row_reading;
mod rows;
mod salvage;
mod schema;
mod search;
mod wal;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use content::{ContentPiece, OutputStore, Spool};
pub use error::StoreError;
pub use file_snapshots::FileSnapshots;
pub use handle::{StoreHandle, StoreThread, WritePermit};
pub use health::{LossReason, StoreHealth};
pub use lock::{Holder, LockError, Locks, SessionLock};
pub use reader::{EventCursor, StoreReader};
pub use rows::{
    ContentChoice, EventPage, EventWindow, LoadedSession, PendingEvent, PendingKey, SearchHit, SessionChange,
    SessionHit, SessionPage, SessionQuery, SessionRow, SkippedRow, StoredEvent, StoredPermissions,
};
pub use write::{FaultHook, ModelKey, NamedWindow, RowWrite, StoreWrite, WriteFault};

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use crate::domain::EventSink;
use files::{DataDir, StorePlace};

/// All parts of the data folder. Cheap to clone; opens nothing before its first use.
#[derive(Clone, Debug)]
pub struct Store {
    /// Accepts writes.
    pub writes: StoreHandle,
    /// Reads committed data.
    pub reader: StoreReader,
    /// Ensures one live holder per session.
    pub locks: Locks,
    /// Long outputs of tools.
    pub content: OutputStore,
    /// Contents of files from before a turn changed them.
    pub file_snapshots: FileSnapshots,
}

/// Redirects that the user accepted: folder, provider and target.
pub type AcceptedRedirects = BTreeSet<(PathBuf, String, String)>;

/// Folders that the user trusts, with the fingerprints of what was accepted.
pub type TrustedFolders = BTreeMap<PathBuf, Option<String>>;

/// Reads the folders that the user trusts and the accepted redirects from the store in `data`.
///
/// For callers that only read. A missing store trusts nothing.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn stored_trust(data: PathBuf) -> Result<(TrustedFolders, AcceptedRedirects), StoreError> {
    let reader = StoreReader::new(DataDir::new(data), StorePlace::Inline);
    Ok((reader.trusted_folders().await?, reader.list_redirects().await?))
}

/// Reads the ids and titles of the sessions in `data` that were used last; none if the store cannot be read at once.
///
/// For callers that must not change anything, such as the version of the store.
pub fn list_recent_sessions(data: &Path) -> Vec<(String, Option<String>)> {
    let path = DataDir::new(data.to_path_buf()).database_path();
    search::list_recent(&path).unwrap_or_default()
}

impl Store {
    /// Opens the store in the folder `data` and starts its writer on a thread. Stored events go to `outlet`.
    ///
    /// Dropping all clones of [`Store::writes`] ends the thread.
    ///
    /// # Errors
    /// An I/O error if the thread cannot start. An unusable folder is reported later, as [`StoreHealth`].
    pub fn start(data: PathBuf, outlet: Box<dyn EventSink>) -> io::Result<(Self, StoreThread)> {
        let folder = DataDir::new(data);
        let (writes, thread) = handle::start(folder.clone(), outlet)?;
        Ok((Self::from_parts(folder, StorePlace::BlockingPool, writes), thread))
    }

    /// Opens the store without any thread: the returned future is the writer, and reads run in the caller.
    ///
    /// For the simulator and tests: with paused time, a thread would let the clock leap ahead.
    pub fn start_inline(
        data: PathBuf,
        outlet: Box<dyn EventSink>,
        faults: Option<FaultHook>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let folder = DataDir::new(data);
        let (writes, driver) = handle::start_inline(folder.clone(), outlet, faults);
        (Self::from_parts(folder, StorePlace::Inline, writes), driver)
    }

    fn from_parts(folder: DataDir, executor: StorePlace, writes: StoreHandle) -> Self {
        let warnings = writes.downgrade();
        Self {
            writes,
            reader: StoreReader::new(folder.clone(), executor).with_warnings(warnings),
            locks: Locks::new(folder.clone()),
            file_snapshots: FileSnapshots::new(folder.clone()),
            content: OutputStore::new(folder, executor),
        }
    }
}
