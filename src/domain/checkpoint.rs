//! Checkpoints: what files contained before a turn changed them, and whether those changes still apply (R-SESS-3).
//!
//! Plain values. `workspace` reads and restores the files; `store` keeps their contents by hash.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::TurnId;
use super::words::word_enum;

/// What exists at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FileState {
    /// Nothing exists there.
    Absent,
    /// A regular file.
    File {
        /// The hash under which the content is stored.
        hash: String,
        /// The length of the content.
        bytes: u64,
        /// The permission bits; 0 if unknown.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// The path it points to, as written in the link.
        target: String,
    },
    /// Something whose content was not known before it changed, so it cannot be restored.
    Unknown,
}

/// How a turn changed one file: the first state before it, and the last state after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The resolved path.
    pub path: String,
    /// The state before the turn's first change of this file.
    pub before: FileState,
    /// The state after the turn's last change of this file.
    pub after: FileState,
}

word_enum! {
    /// Whether a turn's changes are applied now.
    pub enum ChangeState {
        /// Applied, and never reverted.
        Made = "made",
        /// Reverted.
        Reverted = "reverted",
        /// Reverted, then applied again.
        Redone = "redone",
    }
}

/// All changes of a turn, file by file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct TurnDiff {
    pub turn: TurnId,
    #[serde(rename = "standing")]
    pub state: ChangeState,
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub files: Vec<FileDiff>,
    /// How many more files changed than `files` lists.
    #[serde(default)]
    pub unlisted: u64,
    /// Whether a command may have changed more files: there were too many to look at.
    #[serde(default)]
    pub partial: bool,
}

word_enum! {
    /// The kind of change that a turn made to a file.
    pub enum ChangeKind {
        Created = "created",
        Modified = "modified",
        Deleted = "deleted",
    }
}

/// A turn's change of one file, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FileDiff {
    /// The path as shown to the model.
    pub path: String,
    pub kind: ChangeKind,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// A unified diff; `None` for a binary file, or if the diffs together grew too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Arc<str>>,
    /// Whether the change can be reverted, because the old content is stored.
    pub restorable: bool,
}

impl FileChange {
    /// Returns the kind of change, or `None` if the file is the same as before.
    pub fn kind(&self) -> Option<ChangeKind> {
        match (&self.before, &self.after) {
            // Two unknown states are equal as values, but their contents may differ: count them as a change.
            (before, after) if before == after && *before != FileState::Unknown => None,
            (FileState::Absent, _) => Some(ChangeKind::Created),
            (_, FileState::Absent) => Some(ChangeKind::Deleted),
            _ => Some(ChangeKind::Modified),
        }
    }
}
