//! The file changes of a turn (R-SESS-3). Contents are stored before a change, and changes with their results; a diff
//! is reported at the turn's end.
//!
//! It implements [`Checkpoints`] for tools. Restoring is `revert`'s.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::content_reader::ContentReader;
use super::services::Services;
use crate::base::spawn::run_blocking;
use crate::config::Redactor;
use crate::domain::{ChangeKind, ChangeState, FileChange, FileDiff, FileState, SessionId, TurnDiff, TurnId};
use crate::store::{StoreHandle, StoreReader, StoreWrite};
use crate::tool::{Checkpoints, PartialReason, RoomKind};
use crate::workspace::Workspace;
use crate::workspace::checkpoint::{ChangeOrigin, classify_origin, inspect_file, same_content};
use crate::workspace::diff::{DiffSides, build_unified_diff};
use crate::workspace::text_file::TextFile;
use crate::workspace::watch::MAX_WATCHED;

/// The code of the warning that some changes of a command may be unknown.
pub(super) const CHECKPOINT_PARTIAL: &str = "checkpoint_partial";
/// Separates a turn's id from the number of a part of its changes.
const PART_SEPARATOR: char = '/';
/// The files of a turn that the diff lists.
const MAX_LISTED_FILES: usize = 300;
/// The total size of a turn's diffs, in bytes.
const MAX_DIFF_BYTES: usize = 96 << 10;

/// Most bytes kept per turn of files that a command could destroy.
const MAX_KEPT_BYTES: u64 = 64 << 20;
/// Most files kept per turn that a command could destroy.
const MAX_KEPT_FILES: u64 = 5_000;
/// Most bytes and files that may be kept per turn, besides, of those that ignore files exclude.
const EXCLUDED_ROOM: KeepingRoom = KeepingRoom {
    bytes: 16 << 20,
    files: 2_000,
};

/// The checkpoints of one turn.
pub(super) struct TurnCheckpoints {
    contents: ContentReader,
    redactor: Redactor,
    writes: StoreHandle,
    reader: StoreReader,
    session: SessionId,
    turn: TurnId,
    changes: Mutex<TurnChanges>,
    room: Mutex<KeepingRoom>,
    excluded_room: Mutex<KeepingRoom>,
    partial: AtomicBool,
    cut_short: AtomicBool,
}

/// How much more of what commands could destroy the turn may keep.
struct KeepingRoom {
    bytes: u64,
    files: u64,
}

/// The changes in the order of each file's first change. If somebody else changed a file in between, later changes form
/// a separate entry.
#[derive(Default)]
struct TurnChanges {
    list: Vec<FileChange>,
    places: HashMap<String, ChangePlace>,
}

/// The last change of a file, its known states, and how often somebody else changed it in between.
struct ChangePlace {
    at: usize,
    known: Vec<FileState>,
    breaks: u32,
}

impl TurnChanges {
    /// Records a change. Returns how often somebody else changed the file before it.
    fn record_change(&mut self, change: &FileChange) -> u32 {
        let Self { list, places } = self;
        match places.get_mut(&change.path) {
            Some(entry) if classify_origin(&entry.known, change) == ChangeOrigin::FromKnown => {
                list[entry.at].after.clone_from(&change.after);
                entry.known.push(change.after.clone());
                entry.breaks
            }
            Some(entry) => {
                *entry = ChangePlace {
                    at: list.len(),
                    known: vec![change.before.clone(), change.after.clone()],
                    breaks: entry.breaks + 1,
                };
                list.push(change.clone());
                entry.breaks
            }
            None => {
                let entry = ChangePlace {
                    at: list.len(),
                    known: vec![change.before.clone(), change.after.clone()],
                    breaks: 0,
                };
                places.insert(change.path.clone(), entry);
                list.push(change.clone());
                0
            }
        }
    }

    /// Returns the changes, merged to one per file.
    fn take(&mut self) -> Vec<FileChange> {
        let mut merged: Vec<FileChange> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for change in std::mem::take(self).list {
            match places.get(&change.path) {
                Some(at) => merged[*at].after = change.after,
                None => {
                    places.insert(change.path.clone(), merged.len());
                    merged.push(change);
                }
            }
        }
        merged
    }
}

/// Returns the key under which a turn's changes are stored after this many breaks.
fn checkpoint_cause(turn: &TurnId, breaks: u32) -> String {
    match breaks {
        0 => turn.to_string(),
        breaks => format!("{turn}{PART_SEPARATOR}{breaks}"),
    }
}

/// Returns whether `cause` is a key of the changes of `turn`.
pub(super) fn is_of(cause: &str, turn: &TurnId) -> bool {
    let rest = cause.strip_prefix(turn.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(PART_SEPARATOR))
}

impl TurnCheckpoints {
    pub(super) fn new(services: &Services, session: &SessionId, turn: &TurnId) -> Self {
        Self {
            contents: ContentReader::new(services, session),
            redactor: services.redactor.clone(),
            writes: services.store.writes.clone(),
            reader: services.store.reader.clone(),
            session: session.clone(),
            turn: turn.clone(),
            changes: Mutex::default(),
            room: Mutex::new(KeepingRoom {
                bytes: MAX_KEPT_BYTES,
                files: MAX_KEPT_FILES,
            }),
            excluded_room: Mutex::new(EXCLUDED_ROOM),
            partial: AtomicBool::new(false),
            cut_short: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TurnChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checkpoints for TurnCheckpoints {
    fn store_content(&self, bytes: &[u8]) -> Result<(), String> {
        self.contents
            .store_content(bytes)
            .map_err(|error| error.to_string())
    }

    fn record_changes(&self, changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>> {
        let mut by_breaks: BTreeMap<u32, Vec<FileChange>> = BTreeMap::new();
        for change in changes {
            let breaks = self.lock().record_change(&change);
            by_breaks.entry(breaks).or_default().push(change);
        }
        let write = |(breaks, changes)| {
            let (done, stored) = oneshot::channel();
            let write = StoreWrite::Changes {
                session: self.session.clone(),
                // A key of its own after each break, so that a revert leaves alone what somebody else did in between.
                cause: checkpoint_cause(&self.turn, breaks),
                replaces_earlier: false,
                changes,
                done,
            };
            (write, stored)
        };
        let writes: Vec<_> = by_breaks.into_iter().map(write).collect();
        let handle = self.writes.clone();
        Box::pin(async move {
            for (write, stored) in writes {
                handle.send(write).await.map_err(|error| error.to_string())?;
                stored
                    .await
                    .map_err(|_| "the session store has ended".to_owned())?;
            }
            Ok(())
        })
    }

    fn load_earlier_changes(&self) -> BoxFuture<'static, Vec<FileChange>> {
        let (reader, session) = (self.reader.clone(), self.session.clone());
        Box::pin(async move {
            // If the store cannot be read, fewer old contents are known, and fewer changes can be reverted (R-SESS-3).
            let changes = reader.read_changes(&session).await.unwrap_or_default();
            changes.into_iter().map(|(_, change)| change).collect()
        })
    }

    fn take_room(&self, kind: RoomKind, bytes: u64) -> bool {
        let room = match kind {
            RoomKind::OwnWork => &self.room,
            RoomKind::Excluded => &self.excluded_room,
        };
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        match (room.bytes.checked_sub(bytes), room.files.checked_sub(1)) {
            (Some(bytes), Some(files)) => {
                *room = KeepingRoom { bytes, files };
                true
            }
            _ => false,
        }
    }

    fn mark_partial(&self, reason: PartialReason) {
        let flag = match reason {
            PartialReason::TooMany => &self.partial,
            PartialReason::CutShort => &self.cut_short,
        };
        flag.store(true, Ordering::Relaxed);
    }
}

/// What a turn that ends has changed.
pub(super) struct TurnReportedChanges {
    changes: Vec<FileChange>,
    partial: bool,
    /// Why changes of commands may be unknown, for users.
    pub(super) warning: Option<String>,
}

impl TurnCheckpoints {
    /// Takes the changes of the turn, which ends.
    pub(super) fn take_changes(&self) -> TurnReportedChanges {
        let too_many = self.partial.load(Ordering::Relaxed);
        let cut_short = self.cut_short.load(Ordering::Relaxed);
        let warning = if too_many {
            Some(format!(
                "there are more than {MAX_WATCHED} files; command changes to the others are unknown and cannot be reverted"
            ))
        } else if cut_short {
            Some("the turn was canceled before the command's changes were recorded; they are unknown and cannot be reverted".to_owned())
        } else {
            None
        };
        TurnReportedChanges {
            changes: self.lock().take(),
            partial: warning.is_some(),
            warning,
        }
    }
}

impl TurnReportedChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.partial
    }

    /// Compares the files before and after the turn. Returns `None` after a panic, which has been reported.
    pub(super) async fn compare(
        self,
        checkpoints: Arc<TurnCheckpoints>,
        workspace: Arc<Workspace>,
        cwd: PathBuf,
    ) -> Option<TurnDiff> {
        let compared = run_blocking(move || {
            let diff_context = ShownChange {
                workspace: &workspace,
                cwd: &cwd,
                contents: &checkpoints.contents,
                redactor: &checkpoints.redactor,
            };
            diff_context.to_turn_diff(checkpoints.turn.clone(), &self.changes, self.partial)
        });
        compared.await.ok()
    }
}

/// Renders changes for clients.
struct ShownChange<'a> {
    workspace: &'a Workspace,
    cwd: &'a Path,
    contents: &'a ContentReader,
    redactor: &'a Redactor,
}

impl ShownChange<'_> {
    fn to_turn_diff(&self, turn: TurnId, changes: &[FileChange], partial: bool) -> TurnDiff {
        // R-WIRE-3: no notification exceeds 256 KiB, so the files and their diffs are bounded.
        let mut available = MAX_DIFF_BYTES;
        let mut files = Vec::new();
        let mut unlisted = 0;
        for change in changes {
            let Some(kind) = change.kind() else { continue };
            if files.len() >= MAX_LISTED_FILES {
                unlisted += 1;
                continue;
            }
            files.push(self.to_file_diff(change, kind, &mut available));
        }
        TurnDiff {
            turn,
            state: ChangeState::Made,
            files,
            unlisted,
            partial,
        }
    }

    fn to_file_diff(&self, change: &FileChange, kind: ChangeKind, available: &mut usize) -> FileDiff {
        let mut file = FileDiff {
            path: self.workspace.format_for_model(self.cwd, Path::new(&change.path)),
            kind,
            added: 0,
            removed: 0,
            diff: None,
            restorable: match &change.before {
                FileState::Absent | FileState::Link { .. } => true,
                FileState::File { hash, .. } => self.contents.has_content(hash),
                FileState::Unknown => false,
            },
        };
        let (Some(before), Some(after)) = (
            self.text(change, &change.before),
            self.text(change, &change.after),
        ) else {
            return file;
        };
        let sides = match kind {
            ChangeKind::Created => DiffSides::OnlyNew,
            ChangeKind::Modified => DiffSides::Both,
            ChangeKind::Deleted => DiffSides::OnlyOld,
        };
        if *available == 0 {
            return file;
        }
        let diff = build_unified_diff(&file.path, sides, &before, &after);
        (file.added, file.removed) = (diff.added as u64, diff.removed as u64);
        match available.checked_sub(diff.text.len()) {
            Some(remaining) => {
                *available = remaining;
                // Contents that are read back hold their keys again, so the diff must be redacted (I15).
                let clean = self.redactor.redact_content(&diff.text);
                file.diff = Some(clean.unwrap_or(diff.text).into());
            }
            None => *available = 0,
        }
        file
    }

    /// Returns the text of one side of the change, or `None` if it is not text.
    fn text(&self, change: &FileChange, state: &FileState) -> Option<String> {
        // The new content may not be stored; the disk still has it unless somebody has changed it since.
        let now = || {
            let found = inspect_file(Path::new(&change.path)).ok()?;
            same_content(&found.state, &change.after).then_some(found.bytes)?
        };
        match state {
            FileState::Absent => Some(String::new()),
            FileState::Link { target } => Some(format!("{target}\n")),
            FileState::Unknown => None,
            FileState::File { hash, .. } => {
                let bytes = (self.contents.read(hash)).or_else(|| (state == &change.after).then(now)?)?;
                Some(TextFile::from_any_bytes(bytes).ok()?.text)
            }
        }
    }
}

/// Returns what the model reads about restored files.
pub(super) fn format_restore_note(restored: &[(ChangeState, String)]) -> String {
    const NAMED: usize = 50;
    let mut note = String::from(
        "[The user has put files back since you last spoke; read them again before you rely on them.",
    );
    for (state, head) in [
        (ChangeState::Reverted, "Your changes were undone in"),
        (ChangeState::Redone, "Your changes were redone in"),
    ] {
        let mut paths: Vec<&str> = Vec::new();
        for (_, path) in restored.iter().filter(|(of, _)| *of == state) {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            continue;
        }
        let more = paths.len().saturating_sub(NAMED);
        paths.truncate(NAMED);
        note.push_str(&format!(" {head}: {}", paths.join(", ")));
        if more > 0 {
            note.push_str(&format!(" and {more} more"));
        }
        note.push('.');
    }
    note.push(']');
    note
}
