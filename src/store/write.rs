//! What callers ask the writer to do, and the failures that tests inject. Knows no queue and no SQL.

use tokio::sync::oneshot;

use super::error::StoreError;
use super::health::StoreHealth;
use super::rows::{ContentChoice, PendingEvent, PendingKey, SessionChange, SessionRow};
use crate::domain::{DeltaEnvelope, Envelope, FileChange, Grant, GrantedTool, SessionId};

/// A write. Writes are applied, and events published, in the order they were sent.
#[derive(Debug)]
pub enum StoreWrite {
    /// Stores a row.
    Row(RowWrite),
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

/// A write of a row that is stored as it is. It publishes nothing.
#[derive(Debug)]
pub enum RowWrite {
    /// Creates a session; an existing one stays unchanged.
    CreateSession(Box<SessionRow>),
    /// Changes a session's row without an event.
    UpdateSession {
        session: SessionId,
        change: SessionChange,
    },
    /// Removes a pending row.
    Drop { session: SessionId, key: PendingKey },
    /// Stores a grant, or replaces the one with its id.
    AddGrant {
        grant: Grant,
        /// The session it applies to; `None` for all sessions of its folder.
        session: Option<SessionId>,
    },
    /// Stores what a tool of an MCP server is when a rule allows it for the first time in a folder. What is known stays.
    NoteFirstUse {
        folder: String,
        tool: GrantedTool,
        /// Time of the use, in ms since the epoch.
        at_ms: i64,
    },
    /// Removes a grant.
    RevokeGrant { id: String },
    /// Stores whether a folder is trusted. Without trust, its accepted redirects are removed.
    SetTrust {
        folder: String,
        trusted: bool,
        /// The fingerprint of what the user accepted.
        accepted: Option<String>,
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
    /// Stores the window that a provider has named for a model; `None` deletes it.
    NoteWindow {
        model: ModelKey,
        window: Option<NamedWindow>,
        /// Time of the refusal, in ms since the epoch.
        at_ms: i64,
    },
    /// Deletes the windows that were named before this time, in ms since the epoch.
    ForgetWindows { before_ms: i64 },
}

/// A window that a provider has named, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedWindow {
    pub tokens: u64,
    /// The window that the provider reported at that time, if it did.
    pub reported: Option<u64>,
}

/// A model of a provider at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelKey {
    pub provider: String,
    pub address: String,
    pub model: String,
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
