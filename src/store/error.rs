//! Errors of the store, grouped by what the caller can do.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode as SqliteCode;

use crate::domain::{AgentError, ErrorCode};

/// The reason why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer agentls has migrated the store (R-SESS-5).
    #[error(
        "this store was written by a newer agentls (schema {found}, supported: {known}); update agentls or set another data folder"
    )]
    NewerSchema {
        /// The schema version of the store.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    #[error("the session store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// An operation on a file or folder of the store failed.
    #[error("{what} {path} failed: {source}", path = path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// An id or name that cannot name a file. It may come from a client.
    #[error("`{0}` is not the name of anything stored")]
    BadName(String),
    /// A cursor that this store did not issue.
    #[error("`{0}` is not a cursor of this list; start again without one")]
    BadCursor(String),
    /// The store cannot be written now, and this operation cannot wait (R-ERR-2).
    #[error("cannot write the session store")]
    NotWritable,
    /// The database was damaged and was replaced. The text says what was saved.
    #[error("{0}")]
    Replaced(String),
    /// The database is damaged, and could not be repaired.
    #[error("the session store {path} is damaged, and repairing it failed: {source}", path = path.display())]
    Unrepaired { path: PathBuf, source: Box<StoreError> },
    /// The store's writer or its runtime has ended.
    #[error("the session store has ended")]
    Closed,
}

impl StoreError {
    /// Returns what the user can do, or `None` if the message says it.
    fn suggest_remedy(&self) -> Option<&'static str> {
        match self {
            Self::NewerSchema { .. } => Some("update agentls or set another data folder"),
            Self::Sqlite(_) | Self::Io { .. } | Self::NotWritable => {
                Some("free disk space or repair the data folder, then try again")
            }
            Self::Unrepaired { .. } => {
                Some("make the data folder writable, and free disk space, then try again")
            }
            Self::Replaced(_) => Some("try again"),
            Self::Closed => Some("start agentls again"),
            Self::BadName(_) | Self::BadCursor(_) => None,
        }
    }

    /// Returns whether nothing may be written there.
    pub(super) fn is_denied(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ),
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(SqliteCode::ReadOnly | SqliteCode::CannotOpen | SqliteCode::PermissionDenied)
            ),
            Self::Unrepaired { source, .. } => source.is_denied(),
            _ => false,
        }
    }

    pub(super) fn from_io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            what: action,
            path: path.into(),
            source,
        }
    }
}

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        let agent_error = Self::new(ErrorCode::Store, error.to_string());
        match error.suggest_remedy() {
            Some(remedy) => agent_error.with_user_action(remedy),
            None => agent_error,
        }
    }
}
