//! What can go wrong with the store, by what the caller can do.

use std::io;
use std::path::PathBuf;

use crate::domain::{AgentError, ErrorCode};

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer agentls has migrated it (R-SESS-5).
    #[error(
        "this store was written by a newer agentls (schema {found}, supported: {known}); update agentls or set another data folder"
    )]
    NewerSchema {
        /// Its version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// SQLite failed.
    #[error("the session store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A file or folder of the store failed.
    #[error("{what} {path} failed: {source}", path = path.display())]
    Io {
        /// What was done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An id or name that cannot name a file; it may have come from a client.
    #[error("`{0}` is not the name of anything stored")]
    BadName(String),
    /// A cursor that this store did not give.
    #[error("`{0}` is not a cursor of this list; start again without one")]
    BadCursor(String),
    /// The store cannot be written now, so that this cannot be done (R-ERR-2).
    #[error("cannot write the session store")]
    NotWritable,
    /// The store has ended with the server, or its thread has.
    #[error("the session store has ended")]
    Closed,
}

impl StoreError {
    /// What a person can do about it; none where the message says it.
    fn suggest_remedy(&self) -> Option<&'static str> {
        match self {
            Self::NewerSchema { .. } => Some("update agentls or set another data folder"),
            Self::Sqlite(_) | Self::Io { .. } | Self::NotWritable => {
                Some("free disk space or repair the data folder, then try again")
            }
            Self::Closed => Some("start agentls again"),
            Self::BadName(_) | Self::BadCursor(_) => None,
        }
    }

    pub(super) fn from_io(what: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            what,
            path: path.into(),
            source,
        }
    }
}

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        let told = Self::new(ErrorCode::Store, error.to_string());
        match error.suggest_remedy() {
            Some(remedy) => told.with_user_action(remedy),
            None => told,
        }
    }
}
