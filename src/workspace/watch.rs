//! Takes snapshots of files by size and time (R-SESS-3): comparing two shows what a command changed.
//!
//! Blocks. Reads no contents, and must not decide who changed what; `tool::command_snapshot` does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::Stat;

use super::tree::{Walk, WalkOptions};
use super::write::is_unfinished;
use crate::base::clock;
use crate::base::nofollow::{self, FileKind};
use crate::domain::FileState;

/// Most files watched while a command runs (R-SESS-3).
pub const MAX_WATCHED: usize = 20_000;

/// Time limit for taking a snapshot.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Most git work trees that are checked for clean files.
const MAX_TREES: usize = 64;

/// Distinguishes a changed file from an unchanged one without reading it.
#[derive(Clone, Copy, Debug)]
pub struct FileStamp {
    bytes: u64,
    modified: u128,
    link: bool,
    mode: u32,
    /// The inode number, 0 if unknown. Comparisons ignore it.
    node: u64,
    /// Time of the last change of anything, including its place, in nanoseconds since 1970. Comparisons ignore it.
    touched: u128,
}

impl PartialEq for FileStamp {
    fn eq(&self, other: &Self) -> bool {
        let of = |stamp: &Self| (stamp.bytes, stamp.modified, stamp.link, stamp.mode);
        of(self) == of(other)
    }
}

impl Eq for FileStamp {}

impl FileStamp {
    /// Returns the file's length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns when the file was last written, in nanoseconds since 1970.
    pub fn modified(&self) -> u128 {
        self.modified
    }

    /// Returns whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.link
    }

    /// Returns the permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Returns the inode number, 0 if unknown.
    pub fn inode_number(&self) -> u64 {
        self.node
    }

    /// Returns whether both are the same file on disk, not written in between: it was moved.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.node != 0 && self.node == other.node && self == other
    }
}

/// Reads the stamp of a regular file or link; `None` if a folder on the way has become a link.
pub fn read_stamp(path: &Path) -> Option<FileStamp> {
    stamp_of(&nofollow::status_of(path).ok()?)
}

#[expect(clippy::allow_attributes, reason = "needed on some systems only")]
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
fn stamp_of(status: &Stat) -> Option<FileStamp> {
    let nanos = |seconds: i64, nanos: i64| {
        u128::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).unwrap_or(0)
    };
    let link = match nofollow::kind_of(status) {
        FileKind::Regular => false,
        FileKind::Link => true,
        _ => return None,
    };
    Some(FileStamp {
        bytes: u64::try_from(status.st_size).unwrap_or(0),
        modified: nanos(status.st_mtime as i64, status.st_mtime_nsec as i64),
        link,
        mode: status.st_mode as u32 & 0o7777,
        node: status.st_ino as u64,
        touched: nanos(status.st_ctime as i64, status.st_ctime_nsec as i64),
    })
}

/// How far a file's times may lag behind the clock, in nanoseconds.
const LAG: u128 = 20_000_000;

/// A snapshot of the files in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedTree {
    /// When it was taken, in nanoseconds since 1970.
    taken_at_ns: u128,
    files: BTreeMap<PathBuf, FileStamp>,
    /// Git work trees among them.
    trees: Vec<PathBuf>,
    /// The `info/exclude` file of each work tree, which excludes files besides its `.gitignore` files.
    excludes: BTreeMap<PathBuf, Option<FileStamp>>,
    /// There are more files than were examined.
    pub partial: bool,
}

/// Takes a snapshot of up to `most` files below `roots`, without what `.gitignore` and similar files exclude. Blocks.
pub fn scan_watched_files<'a>(roots: impl IntoIterator<Item = &'a Path>, most: usize) -> WatchedTree {
    let mut watched = WatchedTree {
        taken_at_ns: u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000,
        ..WatchedTree::default()
    };
    let until = clock::now() + MAX_TIME;
    for root in roots {
        // The repository may begin above the workspace folder.
        let around = root
            .ancestors()
            .find(|folder| nofollow::kind(&folder.join(".git")).is_some());
        watched.trees.extend(around.map(Path::to_owned));
        watched.look_below(root, most, until);
        if watched.partial {
            break;
        }
    }
    watched.trees.sort();
    watched.trees.dedup();
    let excludes = |tree: &PathBuf| (tree.clone(), read_stamp(&tree.join(".git/info/exclude")));
    watched.excludes = watched.trees.iter().map(excludes).collect();
    watched
}

impl WatchedTree {
    fn look_below(&mut self, root: &Path, most: usize, until: clock::Instant) {
        let options = WalkOptions {
            hidden: true,
            max_depth: None,
            with_status: true,
        };
        let mut walk = Walk::new(root, None, options, || clock::now() >= until);
        for entry in walk.by_ref() {
            let Some(stamp) = entry.status.as_ref().and_then(stamp_of) else {
                continue;
            };
            // A temporary file of a write in progress is not a change of its own.
            if entry.path.file_name().is_some_and(is_unfinished) {
                continue;
            }
            if self.files.len() >= most {
                self.partial = true;
                break;
            }
            self.files.insert(entry.path, stamp);
        }
        self.partial |= walk.is_halted();
        let available = MAX_TREES.saturating_sub(self.trees.len());
        self.trees
            .extend(walk.repositories().iter().take(available).cloned());
    }

    /// Adds `paths` to the snapshot, even if they are excluded or beyond the limit. Blocks.
    pub fn look_at<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) {
        for path in paths {
            if !self.files.contains_key(path)
                && let Some(stamp) = read_stamp(path)
            {
                self.files.insert(path.clone(), stamp);
            }
        }
    }

    /// Returns the git work trees that contain the files, inner ones after those around them.
    pub fn work_trees(&self) -> &[PathBuf] {
        &self.trees
    }

    /// Iterates over the links, with their stamps.
    pub fn iter_links(&self) -> impl Iterator<Item = (&PathBuf, FileStamp)> {
        self.files
            .iter()
            .filter(|(_, stamp)| stamp.link)
            .map(|(path, stamp)| (path, *stamp))
    }

    /// Iterates over all files, in the order of their paths, with their stamps.
    pub fn iter_files(&self) -> impl Iterator<Item = (&PathBuf, FileStamp)> {
        self.files.iter().map(|(path, stamp)| (path, *stamp))
    }

    /// Returns whether the snapshot has a file below `folder`.
    pub fn has_files_below(&self, folder: &Path) -> bool {
        let mut from = self
            .files
            .range::<Path, _>((Bound::Included(folder), Bound::Unbounded));
        from.next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    /// Iterates over the paths of all files.
    pub fn iter_paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// Returns what is different in `now`.
    ///
    /// A file that existed before is not new only because a changed `.gitignore` makes it visible. It is new if it came
    /// with its folder.
    pub fn find_changed_files(&self, now: &Self) -> Vec<ChangedFile> {
        let mut changed = Vec::new();
        for (path, was) in &self.files {
            let is = match now.files.get(path) {
                Some(is) => Some(*is),
                // Not examined this time does not mean gone.
                None if now.partial => read_stamp(path),
                None => None,
            };
            if is != Some(*was) {
                changed.push(ChangedFile {
                    path: path.clone(),
                    was: Some(*was),
                    is,
                    is_before_known: true,
                });
            }
        }
        // A file that disappears at one path and appears at another was moved.
        let removed: HashMap<u64, FileStamp> = changed
            .iter()
            .filter(|change| change.is.is_none())
            .filter_map(|change| change.was.map(|was| (was.node, was)))
            .collect();
        let check_appeared = |is: &FileStamp| {
            let moved = removed.get(&is.node).is_some_and(|was| was.is_same_file(is));
            // The change time tells when a file came here, even if its modification time is old.
            let young = is.touched.saturating_add(LAG) >= self.taken_at_ns;
            (moved || young).then_some(moved)
        };
        let uncovered = self.find_unignored_folders(now, &changed);
        // After a partial snapshot, an unknown file may have existed before.
        if !self.partial {
            let new = now
                .files
                .iter()
                .filter(|(path, _)| !self.files.contains_key(*path));
            let new = new.filter_map(|(path, is)| Some((path, is, check_appeared(is)?)));
            let new: Vec<ChangedFile> = new
                .map(|(path, is, moved)| ChangedFile {
                    path: path.clone(),
                    was: None,
                    is: Some(*is),
                    is_before_known: moved || !uncovered.iter().any(|folder| path.starts_with(folder)),
                })
                .collect();
            changed.extend(new);
        }
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        changed
    }

    /// Returns the folders in which files may be visible now that were excluded before.
    fn find_unignored_folders(&self, now: &Self, changed: &[ChangedFile]) -> Vec<PathBuf> {
        let rules = |change: &&ChangedFile| {
            [".gitignore", ".ignore"]
                .iter()
                .any(|name| change.path.ends_with(name))
        };
        let folders = changed
            .iter()
            .filter(rules)
            .filter_map(|change| change.path.parent());
        let trees = (self.excludes.iter()).filter(|(tree, was)| now.excludes.get(*tree) != Some(*was));
        folders
            .chain(trees.map(|(tree, _)| tree.as_path()))
            .map(Path::to_owned)
            .collect()
    }

    /// Returns the stamp of a file.
    pub fn get_stamp(&self, path: &Path) -> Option<FileStamp> {
        self.files.get(path).copied()
    }
}

/// A file that differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: PathBuf,
    /// The stamp before; `None` if nothing was there.
    pub was: Option<FileStamp>,
    /// The stamp now; `None` if nothing is there.
    pub is: Option<FileStamp>,
    /// Whether the state before is known. It is not if the file is visible only now, was written, and may have existed.
    pub is_before_known: bool,
}

/// Files whose content is kept, in their last known state.
#[derive(Debug, Default)]
pub struct KnownFiles {
    known: Mutex<HashMap<PathBuf, (FileStamp, FileState)>>,
    /// The states that commands left, whose contents are not kept.
    left_states: Mutex<HashMap<PathBuf, (FileStamp, FileState)>>,
    recalled: AtomicBool,
}

impl KnownFiles {
    /// Records that the content of `path` under this stamp is kept as `state`.
    pub fn record_state(&self, path: &Path, stamp: FileStamp, state: FileState) {
        lock(&self.known).insert(path.to_owned(), (stamp, state));
    }

    /// Returns the kept state of `path` if its stamp is still the same.
    pub fn get(&self, path: &Path, stamp: FileStamp) -> Option<FileState> {
        let known = lock(&self.known);
        let (at, state) = known.get(path)?;
        (*at == stamp).then(|| state.clone())
    }

    /// Records the state in which a command left `path`; its content is not kept.
    pub fn record_left_state(&self, path: &Path, stamp: FileStamp, state: FileState) {
        lock(&self.left_states).insert(path.to_owned(), (stamp, state));
    }

    /// Returns the state of `path` if a command left it with this stamp.
    pub fn find_state_after_command(&self, path: &Path, stamp: FileStamp) -> Option<FileState> {
        let left_states = lock(&self.left_states);
        let (at, state) = left_states.get(path)?;
        (*at == stamp).then(|| state.clone())
    }

    /// Lists all paths whose content is kept.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        lock(&self.known).keys().cloned().collect()
    }

    /// Returns true once: what was kept before this view existed must then be recalled.
    pub fn start_recall_once(&self) -> bool {
        !self.recalled.swap(true, Ordering::Relaxed)
    }
}

/// Announces writes of files by the editor, as a user saves them, and by tools of this server.
#[derive(Debug, Default)]
pub struct ExternalWrites {
    watching: Mutex<Vec<std::sync::Weak<Mutex<BTreeSet<PathBuf>>>>>,
}

/// The files that others have written since this watch started.
#[derive(Debug)]
pub struct ExternalWriteWatch {
    wrote: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl ExternalWrites {
    /// Starts a watch.
    pub fn start_watch(&self) -> ExternalWriteWatch {
        let wrote = Arc::default();
        lock(&self.watching).push(Arc::downgrade(&wrote));
        ExternalWriteWatch { wrote }
    }

    /// Records that someone writes the resolved `path`.
    pub fn write(&self, path: &Path) {
        // Also removes watches that have ended.
        lock(&self.watching).retain(|watch| match watch.upgrade() {
            Some(wrote) => {
                lock(&wrote).insert(path.to_owned());
                true
            }
            None => false,
        });
    }
}

impl ExternalWriteWatch {
    /// Returns whether someone has written `path`.
    pub fn has_external_write(&self, path: &Path) -> bool {
        lock(&self.wrote).contains(path)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn create_temp_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    /// Names, with whether each existed before and exists now.
    fn summarize_changes(changed: &[ChangedFile]) -> Vec<(&str, bool, bool)> {
        let name = |path: &'_ Path| path.file_name().unwrap().to_str().unwrap().len();
        changed
            .iter()
            .map(|change| {
                let path = change.path.to_str().unwrap();
                (
                    &path[path.len() - name(&change.path)..],
                    change.was.is_some(),
                    change.is.is_some(),
                )
            })
            .collect()
    }

    #[test]
    fn changes_of_a_command_are_found() {
        let (_dir, dir) = create_temp_dir();
        // The last one is a write in progress of another call.
        for name in ["same", "changed", "gone", "linked", ".agentls-x.tmp"] {
            fs::write(dir.join(name), name).unwrap();
        }
        let before = scan_watched_files([dir.as_path()], 100);
        assert!(!before.partial);
        fs::write(dir.join("changed"), "longer than before").unwrap();
        fs::remove_file(dir.join(".agentls-x.tmp")).unwrap();
        fs::remove_file(dir.join("gone")).unwrap();
        fs::remove_file(dir.join("linked")).unwrap();
        symlink("same", dir.join("linked")).unwrap();
        fs::write(dir.join("new"), "").unwrap();
        let changed = before.find_changed_files(&scan_watched_files([dir.as_path()], 100));
        assert_eq!(
            summarize_changes(&changed),
            [
                ("changed", true, true),
                ("gone", true, false),
                ("linked", true, true),
                ("new", false, true)
            ]
        );
        let part = scan_watched_files([dir.as_path()], 2);
        assert!(part.partial);
        assert_eq!(part.find_changed_files(&part), []);
        // A file that was not examined before does not count as new.
        assert_eq!(
            part.find_changed_files(&scan_watched_files([dir.as_path()], 100)),
            []
        );
    }

    #[test]
    fn a_file_behind_a_new_link_is_gone_from_its_old_place() {
        let (_dir, dir) = create_temp_dir();
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/x"), "x").unwrap();
        let before = scan_watched_files([dir.as_path()], 100);
        fs::rename(dir.join("d"), dir.join("e")).unwrap();
        symlink("e", dir.join("d")).unwrap();
        let mut now = scan_watched_files([dir.as_path()], 100);
        now.look_at(before.iter_paths());
        let changed = before.find_changed_files(&now);
        assert_eq!(
            summarize_changes(&changed),
            [("d", false, true), ("x", true, false), ("x", false, true)]
        );
        let [_, removed, new] = changed.as_slice() else {
            panic!("{changed:?}")
        };
        assert!(removed.was.unwrap().is_same_file(&new.is.unwrap()));
    }

    #[test]
    fn ignored_files_are_skipped_and_work_trees_are_found() {
        let (_dir, dir) = create_temp_dir();
        fs::create_dir_all(dir.join(".git")).unwrap();
        fs::create_dir_all(dir.join("sub/inner/.git")).unwrap();
        fs::write(dir.join(".gitignore"), "secret\n").unwrap();
        fs::write(dir.join("secret"), "x").unwrap();
        let mut watched = scan_watched_files([dir.join("sub").as_path()], 100);
        assert_eq!(watched.work_trees(), [dir.clone(), dir.join("sub/inner")]);
        watched = scan_watched_files([dir.as_path()], 100);
        assert_eq!(watched.get_stamp(&dir.join("secret")), None);
        watched.look_at(&[dir.join("secret"), dir.join("none")]);
        assert!(watched.get_stamp(&dir.join("secret")).is_some());
        assert_eq!(watched.iter_paths().count(), 2);
    }

    /// A revert must not delete `.env` because a command changed `.gitignore`.
    #[test]
    fn files_no_longer_ignored_are_not_new_and_files_now_ignored_are_not_gone() {
        let (_dir, dir) = create_temp_dir();
        fs::write(dir.join(".gitignore"), ".env\n").unwrap();
        for name in [".env", "a", "b"] {
            fs::write(dir.join(name), name).unwrap();
        }
        fs::create_dir(dir.join("old")).unwrap();
        fs::write(dir.join("old/x"), "x").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let before = scan_watched_files([dir.as_path()], 100);
        fs::write(dir.join(".gitignore"), "b\n").unwrap();
        fs::write(dir.join("new"), "").unwrap();
        fs::write(dir.join("old/.ignore"), "").unwrap();
        // This touches only the folder.
        fs::rename(dir.join("old"), dir.join("young")).unwrap();
        let mut now = scan_watched_files([dir.as_path()], 100);
        now.look_at(before.iter_paths());
        assert_eq!(
            summarize_changes(&before.find_changed_files(&now)),
            [
                (".gitignore", true, true),
                ("new", false, true),
                ("x", true, false),
                (".ignore", false, true),
                ("x", false, true)
            ]
        );
        let surely: Vec<bool> = before
            .find_changed_files(&now)
            .iter()
            .map(|change| change.is_before_known)
            .collect();
        assert_eq!(surely, [true, false, true, false, true]);
    }

    #[test]
    fn a_changed_exclude_file_may_uncover_files() {
        let (_dir, dir) = create_temp_dir();
        fs::create_dir_all(dir.join(".git/info")).unwrap();
        fs::write(dir.join(".git/info/exclude"), "a\n").unwrap();
        fs::write(dir.join("a"), "").unwrap();
        let before = scan_watched_files([dir.as_path()], 100);
        fs::write(dir.join("a"), "1").unwrap();
        fs::write(dir.join("b"), "1").unwrap();
        let new = |surely| {
            before
                .find_changed_files(&scan_watched_files([dir.as_path()], 100))
                .iter()
                .filter(|new| new.is_before_known == surely)
                .count()
        };
        assert_eq!((new(true), new(false)), (1, 0));
        fs::remove_file(dir.join(".git/info/exclude")).unwrap();
        assert_eq!((new(true), new(false)), (0, 2));
    }

    #[test]
    fn a_watch_learns_of_writes_after_its_start() {
        let external_writes = ExternalWrites::default();
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        external_writes.write(a);
        let first = external_writes.start_watch();
        external_writes.write(b);
        let second = external_writes.start_watch();
        assert!(first.has_external_write(b) && !first.has_external_write(a) && !second.has_external_write(b));
        drop(first);
        external_writes.write(a);
        assert!(second.has_external_write(a));
        assert_eq!(lock(&external_writes.watching).len(), 1);
    }
}
