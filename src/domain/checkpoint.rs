//! What files were before a turn changed them, and what became of that (R-SESS-3).

use std::sync::Arc;

use super::ids::TurnId;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// The hash of its content, by which that is kept.
        hash: String,
        /// Its length.
        bytes: u64,
        /// Its permission bits; 0 where they are not known.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: String,
    },
    /// Something whose content was not known when it was changed.
    Unknown,
}

/// What a turn made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file's resolved path.
    pub path: String,
    /// What was there before the turn's first change of it.
    pub before: FileState,
    /// What is there by its last one.
    pub after: FileState,
}

/// How a turn's changes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeState {
    /// They were made.
    Made,
    /// They were taken back.
    Reverted,
    /// They were taken back, and made again.
    Redone,
}

/// A turn's changes, file by file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnDiff {
    /// The turn.
    pub turn: TurnId,
    /// How they stand.
    pub standing: ChangeState,
    /// The files.
    pub files: Vec<FileDiff>,
    /// So many more are not listed.
    pub unlisted: u64,
    /// There may be more that a command changed: there were too many files to look at.
    pub partial: bool,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ChangeKind {
    Created,
    Modified,
    Deleted,
}

/// A turn's change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The file, as it is told to the model.
    pub path: String,
    /// What became of it.
    pub kind: ChangeKind,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// A unified diff; none of what is no text, or where the list of diffs grew too long.
    pub diff: Option<Arc<str>>,
    /// Whether it can be taken back: its old content is kept.
    pub restorable: bool,
}

impl FileChange {
    /// What became of the file; none when it is as it was.
    pub fn kind(&self) -> Option<ChangeKind> {
        match (&self.before, &self.after) {
            (before, after) if before == after && *before != FileState::Unknown => None,
            (FileState::Absent, _) => Some(ChangeKind::Created),
            (_, FileState::Absent) => Some(ChangeKind::Deleted),
            _ => Some(ChangeKind::Modified),
        }
    }
}
