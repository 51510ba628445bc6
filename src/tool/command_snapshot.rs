//! Finds what a command changed in the workspace's files, by comparing sizes and times before and after.
//!
//! A change can be undone if the old content is known. That is so for a file that this session has read or written
//! (even before a restart of the server), that git has, that was kept before the command, that only has another name now,
//! or that is new.
//! What someone else writes meanwhile is not the command's: files that a user saves in the editor, or that tools of
//! other sessions change. Must not fail a command: what cannot be recorded is logged.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::own_work::{self, is_secret, store_file_state};
use super::{PartialReason, ToolContext, git_blobs};
use crate::base::secret_path::is_secret_like;
use crate::base::spawn::run_blocking;
use crate::base::text::one_line;
use crate::domain::{FileChange, FileState};
use crate::workspace::ReadDeny;
use crate::workspace::checkpoint::{self, MAX_FILE_BYTES};
use crate::workspace::file_stamp::FileStamp;
use crate::workspace::git_index::GitIndex;
use crate::workspace::git_traces::{GitTraces, HeadMove};
use crate::workspace::running_commands::CommandBase;
use crate::workspace::watch::{ChangedFile, WatchedTree};

/// Largest content left by a command that is kept for the diff, in bytes.
const MAX_STORED_AFTER: u64 = 1 << 20;

/// Most bytes read of what a command left.
const READ_AFTER: u64 = 512 << 20;

/// Most bytes read to recognize what was kept before the server was started.
const READ_TO_RECALL: u64 = 64 << 20;

/// Most moves of HEAD that are reported: a command may update many submodules.
const MAX_HEAD_MOVES: usize = 5;

/// The files before a command.
pub(super) struct FilesBefore {
    pub(super) base: CommandBase,
    pub(super) git_traces: Arc<GitTraces>,
}

/// Takes a snapshot before a command, and keeps the files that the session knows. `text` is the command's, which starts in
/// `folder`.
pub(super) async fn snapshot_files(cx: &ToolContext, text: String, folder: PathBuf) -> Option<FilesBefore> {
    let earlier = if cx.workspace.known_files().start_recall_once() {
        cx.checkpoints.load_earlier_changes().await
    } else {
        Vec::new()
    };
    let inner = cx.clone();
    let looked = run_blocking(move || {
        // Before the scan, so that no write of others during it is missed.
        let external_writes = inner.workspace.external_writes().start_watch();
        let mut watched = inner.workspace.live_tree(&inner.cwd).take_snapshot();
        restore_known_states(&inner, &watched, &earlier);
        own_work::keep_mentioned_files(&inner, &watched, &text, &folder);
        // Known files may be excluded from the scan, or beyond its limit.
        let known = collect_known_paths(&inner);
        watched.look_at(&known);
        let stamps = known
            .iter()
            .filter_map(|path| Some((path, watched.get_stamp(path)?)));
        let denied = own_work::read_denied(&inner);
        for (path, stamp) in watched.iter_links().chain(stamps) {
            let is_secret = !stamp.is_link() && is_secret(&denied, path, &stamp);
            if !is_secret && !inner.workspace.known_files().is_kept(path, stamp) {
                store_file_state(&inner, path, stamp);
            }
        }
        let indexes = own_work::read_indexes(&inner, &watched);
        own_work::keep_own_work(&inner, &watched, &indexes);
        own_work::keep_excluded_files(&inner, &mut watched);
        FilesBefore {
            git_traces: Arc::new(GitTraces::read(watched.work_trees())),
            base: CommandBase {
                known: inner.workspace.known_files().copy_states(),
                watched,
                indexes: indexes.into(),
                external_writes,
            },
        }
    });
    // A panic has been reported; the command runs anyway.
    looked.await.ok()
}

/// Notes what a command has left in git's folders, and removes the locks of a git that was stopped with it.
pub(super) async fn note_git_traces(
    cx: &ToolContext,
    traces: Arc<GitTraces>,
    was_stopped: bool,
) -> Vec<String> {
    let cwd = cx.cwd.clone();
    let looked = run_blocking(move || {
        let shorten = |path: &Path| {
            one_line(
                &path.strip_prefix(&cwd).unwrap_or(path).display().to_string(),
                120,
            )
        };
        let moves = traces
            .find_head_moves()
            .into_iter()
            .take(MAX_HEAD_MOVES)
            .map(|moved| {
                let place = shorten(&moved.tree);
                let place = if place.is_empty() {
                    String::new()
                } else {
                    format!(" of {place}")
                };
                let HeadMove {
                    from,
                    to,
                    reason,
                    steps,
                    ..
                } = moved;
                let former =
                    steps.map_or_else(String::new, |steps| format!("; HEAD@{{{steps}}} is the former"));
                format!("[HEAD{place} moved from {from} to {to} ({reason}){former}]")
            });
        let mut notes: Vec<String> = moves.collect();
        if was_stopped {
            let locks = traces.remove_new_locks();
            notes.extend(
                locks
                    .iter()
                    .map(|lock| format!("[removed {}, which the stopped command left]", shorten(lock))),
            );
        }
        notes
    });
    looked.await.unwrap_or_default()
}

/// Compares a command's base with the files as they are now. Returns the changes, and the base for the next comparison;
/// `None` after a panic, which has been reported. Unless it is the last comparison, files that are written just now are
/// left for the next one.
pub(super) async fn find_changes(
    cx: &ToolContext,
    base: CommandBase,
    now: &WatchedTree,
    is_last: bool,
) -> Option<(Vec<FileChange>, CommandBase)> {
    let inner = cx.clone();
    let indexes = base.indexes.clone();
    let scanned = now.clone();
    let mut watched = now.clone();
    let looked = run_blocking(move || {
        // A file that a changed `.gitignore` now excludes must not look deleted.
        watched.look_at_all_of(&base.watched);
        watched.look_at(&collect_known_paths(&inner));
        if base.watched.partial || watched.partial {
            inner.checkpoints.mark_partial(PartialReason::TooMany);
        }
        let mut changed = base.watched.find_changed_files(&watched);
        for change in &mut changed {
            // Only because an agent has read it meanwhile: nobody looked at it when the command began.
            change.is_before_known &= change.was.is_some() || scanned.get_stamp(&change.path).is_some();
        }
        // Not the command's own changes.
        changed.retain(|change| !base.external_writes.has_external_write(&change.path));
        let found = collect_changes(&inner, &changed, &base);
        forget_made_files(&inner, &mut watched, &base);
        let next = CommandBase {
            watched,
            known: inner.workspace.known_files().copy_states(),
            ..base
        };
        (found, next)
    });
    let (mut found, mut next) = looked.await.ok()?;
    find_in_git(cx, &mut found, &indexes).await;
    if !is_last {
        found.retain(|(change, record)| {
            let is_unsettled = record.after == FileState::Unknown && change.is.is_some();
            if is_unsettled {
                leave_for_next(&mut next, change, record);
            }
            !is_unsettled
        });
    }
    let changes = found
        .into_iter()
        .filter(|(change, record)| record.kind().is_some() && !is_change_doubtful(change, &record.before))
        .map(|(_, record)| record)
        .collect();
    Some((changes, next))
}

/// Takes the excluded files that a command has made out of a snapshot, and remembers them: they are not a person's work.
fn forget_made_files(cx: &ToolContext, watched: &mut WatchedTree, base: &CommandBase) {
    let appeared = watched
        .iter_excluded_files()
        .filter(|(path, _)| base.watched.get_stamp(path).is_none());
    let made: Vec<_> = appeared
        .filter(|(path, stamp)| {
            base.watched.has_seen_making(path, *stamp) && !base.external_writes.has_external_write(path)
        })
        .map(|(path, stamp)| (path.clone(), stamp))
        .collect();
    for (path, stamp) in &made {
        cx.workspace.known_files().record_made_file(path, *stamp);
    }
    watched.forget_excluded_files(made.iter().map(|(path, _)| path));
}

/// Puts a file back into a base as it was before.
fn leave_for_next(next: &mut CommandBase, change: &ChangedFile, record: &FileChange) {
    next.watched.set_stamp(&change.path, change.was);
    if let Some(was) = change.was
        && record.before != FileState::Unknown
    {
        next.known.record_state(&change.path, was, record.before.clone());
    }
}

/// Returns the files below the roots that this session has read or written.
fn collect_known_paths(cx: &ToolContext) -> BTreeSet<PathBuf> {
    let roots = cx.workspace.resolve_roots(&cx.cwd);
    let known = cx.workspace.known_files().list_paths();
    let paths = cx.workspace.read_log().list_paths().into_iter().chain(known);
    paths
        .filter(|path| roots.iter().any(|root| path.starts_with(root.path())))
        .collect()
}

/// Recognizes files whose content was kept before this server was started, if they are unchanged.
fn restore_known_states(cx: &ToolContext, watched: &WatchedTree, earlier: &[FileChange]) {
    let mut states: HashMap<&Path, Vec<&FileState>> = HashMap::new();
    for change in earlier {
        states
            .entry(Path::new(&change.path))
            .or_default()
            .extend([&change.before, &change.after]);
    }
    let mut available = READ_TO_RECALL;
    for (path, states) in states {
        let Some(stamp) = watched.get_stamp(path) else {
            continue;
        };
        let could_be =
            |state: &&FileState| matches!(state, FileState::File { bytes, .. } if *bytes == stamp.bytes());
        if !states.iter().any(could_be) {
            continue;
        }
        // The limit for reading is used up.
        let Some(remaining) = available.checked_sub(stamp.bytes()) else {
            return;
        };
        available = remaining;
        if let Ok(found) = checkpoint::inspect_file(path)
            && states
                .iter()
                .any(|state| checkpoint::same_content(state, &found.state))
        {
            // The content is already kept under this hash; if it is gone, this keeps it again.
            store_file_state(cx, path, stamp);
        }
    }
}

/// Whether only details of the stamps speak for a change, and no known content.
fn is_change_doubtful(change: &ChangedFile, before: &FileState) -> bool {
    let ends = change.was.zip(change.is);
    *before == FileState::Unknown && ends.is_some_and(|(was, is)| was.looks_like(&is))
}

/// The changes found, each with the stamps by which an unknown old content can still be found.
type FoundChanges = Vec<(ChangedFile, FileChange)>;

fn collect_changes(cx: &ToolContext, changed: &[ChangedFile], base: &CommandBase) -> FoundChanges {
    let mut available = READ_AFTER;
    let denied = own_work::read_denied(cx);
    let mut created = HashMap::new();
    let mut found = FoundChanges::new();
    for change in changed {
        // Changes are stored with UTF-8 paths.
        let Some(path) = change.path.to_str() else {
            continue;
        };
        // To undo its change would delete what may be the only copy.
        let was_moved_in = base.watched.was_moved_in(change);
        let before = match change.was {
            None if was_moved_in || !change.is_before_known => FileState::Unknown,
            None => FileState::Absent,
            Some(was) => (base.known.find(&change.path, was)).unwrap_or(FileState::Unknown),
        };
        let is_same_file = change
            .was
            .zip(change.is)
            .is_some_and(|(was, is)| was.is_same_file(&is));
        // Programs such as chmod touch many files that they do not change. Looking git up for each takes long.
        if is_same_file && before == FileState::Unknown {
            continue;
        }
        // Programs change many of these. One that is gone, or was a secret, may be missed.
        if before == FileState::Unknown
            && change.is.is_some()
            && base.watched.is_excluded(&change.path)
            && !is_secret_like(&change.path)
        {
            continue;
        }
        let after = match change.is {
            None => FileState::Absent,
            Some(_) if was_moved_in && change.was.is_some() => FileState::Unknown,
            Some(is) => read_current_state(cx, &denied, (&change.path, is), &mut available),
        };
        if let Some(is) = change.is
            && change
                .was
                .is_none_or(|was| was.inode_number() != is.inode_number())
        {
            created.insert(is.inode_number(), change);
        }
        let path = path.to_owned();
        found.push((change.clone(), FileChange { path, before, after }));
    }
    // A file that only has another name now still has its old content.
    for (change, record) in &mut found {
        if let (Some(was), None, FileState::Unknown) = (change.was, change.is, &record.before)
            && let Some(ChangedFile {
                path, is: Some(is), ..
            }) = created.get(&was.inode_number())
            && is.is_same_file(&was)
            && was.bytes() <= available.min(MAX_FILE_BYTES)
            && !is_secret(&denied, &change.path, &was)
            && let Some(state) = store_file_state(cx, path, *is)
        {
            available -= was.bytes();
            record.before = state;
        }
    }
    found
}

/// Returns what is at `path`, within the limit for reading. Of a secret, no copy is made.
fn read_current_state(
    cx: &ToolContext,
    denied: &ReadDeny,
    (path, stamp): (&Path, FileStamp),
    available: &mut u64,
) -> FileState {
    let Some(remaining) = available.checked_sub(stamp.bytes()) else {
        return FileState::Unknown;
    };
    *available = remaining;
    if stamp.bytes() <= MAX_STORED_AFTER && !is_secret(denied, path, &stamp) {
        return store_file_state(cx, path, stamp).unwrap_or(FileState::Unknown);
    }
    match checkpoint::inspect_file(path) {
        Ok(found) => {
            cx.workspace
                .known_files()
                .record_left_state(path, stamp, found.state.clone());
            found.state
        }
        Err(_) => FileState::Unknown,
    }
}

/// Looks in git for old contents that the session does not know.
async fn find_in_git(cx: &ToolContext, found: &mut FoundChanges, indexes: &[GitIndex]) {
    // Inner work trees first: their files do not belong to the trees around them.
    for index in indexes.iter().rev() {
        let mut here = found
            .iter()
            .filter(|(change, _)| change.path.starts_with(index.root()));
        // The attributes before the command are unknown, and with them whether git converts the file.
        if here
            .clone()
            .any(|(change, _)| change.path.ends_with(".gitattributes"))
        {
            continue;
        }
        let mut sought: Vec<(PathBuf, FileStamp)> = Vec::new();
        sought.extend(here.by_ref().filter_map(|(change, record)| match record.before {
            FileState::Unknown => Some((change.path.clone(), change.was?)),
            _ => None,
        }));
        if sought.is_empty() {
            continue;
        }
        let inner = index.clone();
        let matched = run_blocking(move || {
            inner.find_clean_files(sought.iter().map(|(path, stamp)| (path.as_path(), *stamp)))
        });
        let Ok(clean) = matched.await else { continue };
        if clean.is_empty() {
            continue;
        }
        let mut stored = git_blobs::store_clean_files(cx, index.root(), clean).await;
        for (change, record) in found.iter_mut() {
            if let Some(state) = stored.remove(&change.path) {
                record.before = state;
            }
        }
    }
}
