//! SQLite: durable events, partial text, search; one writer, many readers, one live holder per session.
//!
//! Owns the data folder: `store.db`, `locks/`, `content/`. Knows nothing of actors, turns and wire shapes.
//! Keeps I6 and I7: what is passed to the [`EventSink`] was committed before, in order, or a warning went ahead
//! of it (R-SESS-1, R-SESS-4, R-ERR-2). In reading order:
//!
//! - `rows`: what goes in and comes out; `records`: how events look on disk; `schema`: the tables.
//! - `handle`: the queue and what drives the writer; `health`: whether the disk takes what is written; `writer`: commit, pass on, survive a bad disk;
//!   `ops`: writes made ready; `apply`: ready writes as SQL; `checkpoint`: the log folded back, off the
//!   writer's path.
//! - `reader` and `search`: pages, lists, text; `lock`: who holds a session; `content`: long outputs; `kept`: files as they were.

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
mod rows;
mod schema;
mod search;
mod wal;
mod writer;

#[cfg(test)]
mod tests;

pub use content::{ContentPiece, OutputStore, Spool};
pub use error::StoreError;
pub use file_snapshots::KeptFiles;
pub use handle::{FaultHook, StoreHandle, StoreThread, StoreWrite, WriteFault, WritePermit};
pub use health::{Loss, StoreHealth};
pub use lock::{Holder, LockError, Locks, SessionLock};
pub use reader::{EventCursor, StoreReader};
pub use rows::{
    ContentChoice, EventPage, LoadedSession, PendingEvent, PendingKey, SearchHit, SessionChange, SessionHit,
    SessionPage, SessionQuery, SessionRow, Skipped, StoredEvent, Window,
};

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::PathBuf;

use crate::domain::EventSink;
use files::{DataDir, StorePlace};

/// All that the data folder offers. Cheap to clone; nothing is opened before it is used.
#[derive(Clone, Debug)]
pub struct Store {
    /// Takes writes.
    pub writes: StoreHandle,
    /// Reads what was committed.
    pub reader: StoreReader,
    /// One live holder per session.
    pub locks: Locks,
    /// Long outputs kept aside.
    pub content: OutputStore,
    /// Contents of files before they were changed.
    pub kept: KeptFiles,
}

/// Redirects that a person accepted: folder, provider and target.
pub type AcceptedRedirects = BTreeSet<(PathBuf, String, String)>;

/// Folders that a person said to trust, and the redirects that were accepted, as the store in `data` has
/// them; for those who only look.
///
/// # Errors
/// The store cannot be read. One that is not there trusts nothing.
pub async fn stored_trust(data: PathBuf) -> Result<(BTreeSet<PathBuf>, AcceptedRedirects), StoreError> {
    let reader = StoreReader::new(DataDir::new(data), StorePlace::Here);
    Ok((reader.trusted_folders().await?, reader.list_redirects().await?))
}

impl Store {
    /// The store in the folder `data`, with its writer on a thread of its own. Stored events go to `outlet`.
    /// Dropping all clones of [`Store::writes`] ends the thread.
    ///
    /// # Errors
    /// The thread cannot be started. A folder that cannot be used shows later, as [`StoreHealth`].
    pub fn start(data: PathBuf, outlet: Box<dyn EventSink>) -> io::Result<(Self, StoreThread)> {
        let folder = DataDir::new(data);
        let (writes, thread) = handle::start(folder.clone(), outlet)?;
        Ok((Self::from_parts(folder, StorePlace::Pool, writes), thread))
    }

    /// The same without any thread: the returned future is the writer, and reads happen where they are asked
    /// for. For the simulator and tests, whose paused time a thread would let leap.
    pub fn start_inline(
        data: PathBuf,
        outlet: Box<dyn EventSink>,
        faults: Option<FaultHook>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let folder = DataDir::new(data);
        let (writes, driver) = handle::start_inline(folder.clone(), outlet, faults);
        (Self::from_parts(folder, StorePlace::Here, writes), driver)
    }

    fn from_parts(folder: DataDir, place: StorePlace, writes: StoreHandle) -> Self {
        Self {
            writes,
            reader: StoreReader::new(folder.clone(), place),
            locks: Locks::new(folder.clone()),
            kept: KeptFiles::new(folder.clone()),
            content: OutputStore::new(folder, place),
        }
    }
}
