//! Keeps what people have and git does not, before a command can change it: uncommitted changes, and new files.
//!
//! Blocks. A content is kept once, by its hash, so a second command costs nothing. Secrets are not copied: files with such
//! names, those that `read_deny` names, and hard links of either. Who deletes one is asked. Must not judge commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{RoomKind, ToolContext};
use crate::base::nofollow::{self, FileKind};
use crate::base::secret_path::is_secret_like;
use crate::domain::FileState;
use crate::workspace::ReadDeny;
use crate::workspace::checkpoint::{self, MAX_FILE_BYTES};
use crate::workspace::excluded_files::has_product_name;
use crate::workspace::file_stamp::{FileStamp, read_stamp};
use crate::workspace::git_index::GitIndex;
use crate::workspace::watch::WatchedTree;

/// Most words of a command that are looked up as names of files.
const MAX_WORDS: usize = 200;
/// Most folders that a command names in which they are looked up, too.
const MAX_FOLDERS: usize = 4;

/// Largest excluded file that is kept without being named by the command, in bytes.
const MAX_EXCLUDED_BYTES: u64 = 4 << 20;

/// Files that are neither kept nor in git, with their sizes in bytes.
pub(super) type UnkeptFiles = BTreeMap<PathBuf, u64>;

/// Reads the indexes of the work trees in a snapshot; none without the program that reads git's store.
pub(super) fn read_indexes(cx: &ToolContext, watched: &WatchedTree) -> Vec<GitIndex> {
    if watched.work_trees().is_empty() || !cx.workspace.shared().launcher().has_outside_program("git") {
        return Vec::new();
    }
    let trees = watched.work_trees().iter();
    trees.filter_map(|tree| GitIndex::read(tree)).collect()
}

/// Keeps the files of a snapshot that git does not have as they are, smallest first. Returns those for which there is no
/// room.
pub(super) fn keep_own_work(cx: &ToolContext, watched: &WatchedTree, indexes: &[GitIndex]) -> UnkeptFiles {
    let mut own = cx.workspace.live_tree(&cx.cwd).own_files().find(watched, indexes);
    own.sort_by_key(|(_, stamp)| stamp.bytes());
    let denied = read_denied(cx);
    own.retain(|(path, stamp)| !keep_file(cx, &denied, (path, *stamp), RoomKind::OwnWork));
    to_sizes(own)
}

/// Keeps the excluded files of a snapshot, smallest first, unless commands have made them: a command may change files that
/// it does not name.
pub(super) fn keep_excluded_files(cx: &ToolContext, watched: &mut WatchedTree) {
    let known = cx.workspace.known_files();
    let files = watched
        .iter_excluded_files()
        .map(|(path, stamp)| (path.clone(), stamp));
    let (made, mut own): (Vec<_>, Vec<_>) = files
        .filter(|(path, stamp)| !known.is_kept(path, *stamp))
        .partition(|(path, stamp)| known.is_made(path, *stamp));
    watched.forget_excluded_files(made.iter().map(|(path, _)| path));
    own.retain(|(_, stamp)| stamp.bytes() <= MAX_EXCLUDED_BYTES);
    own.sort_by_key(|(_, stamp)| stamp.bytes());
    let denied = read_denied(cx);
    for (path, stamp) in own {
        keep_file(cx, &denied, (&path, stamp), RoomKind::Excluded);
    }
}

/// Keeps ignored files whose names are in the text of a command, which starts in `folder`: whatever it does with them.
/// Products of builds are not kept: what a command names of them, it mostly runs.
pub(super) fn keep_mentioned_files(cx: &ToolContext, watched: &WatchedTree, command: &str, folder: &Path) {
    let is_in_name = |c: char| c.is_alphanumeric() || "._-/+@%~".contains(c);
    let words: BTreeSet<&str> = command
        .split(|c| !is_in_name(c))
        .filter(|word| !word.is_empty())
        .take(MAX_WORDS)
        .collect();
    let inside = |path: PathBuf| {
        let resolved = cx.workspace.resolve_path(&cx.cwd, path.to_str()?).ok()?;
        (resolved.inside && !resolved.secret).then_some(resolved.absolute)
    };
    // A command may change to a folder that it names.
    let named = words.iter().filter_map(|word| inside(folder.join(word)));
    let folders = named.filter(|path| nofollow::kind(path) == Some(FileKind::Folder));
    let mut folders: Vec<PathBuf> = folders.take(MAX_FOLDERS).collect();
    folders.push(folder.to_owned());
    let denied = read_denied(cx);
    for folder in &folders {
        for path in words.iter().filter_map(|word| inside(folder.join(word))) {
            let below = path.strip_prefix(&cx.cwd).unwrap_or(&path);
            let is_product = below.iter().any(|part| has_product_name(Path::new(part)));
            if !is_product
                && (watched.is_excluded(&path) || watched.get_stamp(&path).is_none())
                && let Some(stamp) = read_stamp(&path)
            {
                keep_file(cx, &denied, (&path, stamp), RoomKind::OwnWork);
            }
        }
    }
}

/// Lists the files of a snapshot that git does not have as they are, and keeps none.
pub(super) fn list_own_work(cx: &ToolContext, watched: &WatchedTree, indexes: &[GitIndex]) -> UnkeptFiles {
    to_sizes(cx.workspace.live_tree(&cx.cwd).own_files().find(watched, indexes))
}

fn to_sizes(files: Vec<(PathBuf, FileStamp)>) -> UnkeptFiles {
    files
        .into_iter()
        .map(|(path, stamp)| (path, stamp.bytes()))
        .collect()
}

/// Reads which files are secrets whatever their names are.
pub(super) fn read_denied(cx: &ToolContext) -> ReadDeny {
    cx.workspace.shared().read_deny(Some(&cx.cwd))
}

/// Returns whether a file is a secret, of which no copy is made.
pub(super) fn is_secret(denied: &ReadDeny, path: &Path, stamp: &FileStamp) -> bool {
    is_secret_like(path) || denied.covers_stamped(path, stamp)
}

/// Keeps a file, if it is no secret and there is room. Returns whether it is kept.
pub(super) fn keep_file(
    cx: &ToolContext,
    denied: &ReadDeny,
    (path, stamp): (&Path, FileStamp),
    room: RoomKind,
) -> bool {
    cx.workspace.known_files().is_kept(path, stamp)
        || !cx.cancel.is_cancelled()
            && stamp.bytes() <= MAX_FILE_BYTES
            && !is_secret(denied, path, &stamp)
            // Changes are stored with UTF-8 paths.
            && path.to_str().is_some()
            && (cx.workspace.known_files().is_probably_kept(path, stamp)
                || cx.checkpoints.take_room(room, stamp.bytes()))
            && store_file_state(cx, path, stamp).is_some()
}

/// Keeps a file under its stamp, whatever git has. Returns its state; `None` if it cannot be kept, or is written just now.
pub(super) fn store_file_state(cx: &ToolContext, path: &Path, stamp: FileStamp) -> Option<FileState> {
    let found = checkpoint::inspect_file(path).ok()?;
    if let Some(bytes) = &found.bytes {
        cx.checkpoints.store_content(bytes).ok()?;
    }
    // If the file was written while it was read, its content does not belong to the stamp. A new hard link, of which the
    // kernel does not report that it touches the file, does no harm.
    let is_unchanged = read_stamp(path).is_some_and(|now| now == stamp || now.is_same_file(&stamp));
    is_unchanged.then(|| {
        cx.workspace
            .known_files()
            .record_state(path, stamp, found.state.clone());
        found.state
    })
}
