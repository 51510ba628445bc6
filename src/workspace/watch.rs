//! Files as they are at a moment (R-SESS-3), told apart by size and time: what a command changed is found by comparing
//! two such moments. Blocks. Reads no contents, and owns no judgement of who changed what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// So many files are watched while a command runs.
pub const MAX_WATCHED: usize = 20_000;

/// Looking at the files ends after so long.
const MAX_TIME: Duration = Duration::from_secs(10);

/// So many work trees of git are asked at most what was clean.
const MAX_TREES: usize = 64;

/// Tells a file that was not touched from one that was, without reading it.
#[derive(Clone, Copy, Debug)]
pub struct FileStamp {
    bytes: u64,
    modified: u128,
    link: bool,
    mode: u32,
    /// Which file it is on its disk; 0 where that is not known. It does not count when stamps are compared.
    node: u64,
    /// When anything of it last changed, its place too, in nanoseconds since 1970. It does not count either.
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
    /// The file's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When it was last written, in nanoseconds since 1970.
    pub fn modified(&self) -> u128 {
        self.modified
    }

    /// It is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.link
    }

    /// The permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Which file it is on its disk; 0 where that is not known.
    pub fn inode_number(&self) -> u64 {
        self.node
    }

    /// Whether both are one file of the disk, which has not been written between: it has another name.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.node != 0 && self.node == other.node && self == other
    }
}

/// The stamp of a regular file or a link, where none of the folders on the way has become a link.
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

/// A file's times may lag behind the clock by so much, in nanoseconds.
const LAG: u128 = 20_000_000;

/// The files of the workspace at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedTree {
    /// When that was, in nanoseconds since 1970.
    begun: u128,
    files: BTreeMap<PathBuf, FileStamp>,
    /// Work trees of git among them.
    trees: Vec<PathBuf>,
    /// What excludes files of such a tree beside its `.gitignore` files.
    excludes: BTreeMap<PathBuf, Option<FileStamp>>,
    /// There are more than were looked at.
    pub partial: bool,
}

/// Looks at the files below `roots`, up to `most` of them; not at what `.gitignore` and its like exclude. Blocks.
pub fn scan_watched_files<'a>(roots: impl IntoIterator<Item = &'a Path>, most: usize) -> WatchedTree {
    let mut watched = WatchedTree {
        begun: u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000,
        ..WatchedTree::default()
    };
    let until = clock::now() + MAX_TIME;
    for root in roots {
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
        let room = MAX_TREES.saturating_sub(self.trees.len());
        self.trees.extend(walk.repositories().iter().take(room).cloned());
    }

    /// Looks at `paths` too, be they excluded or beyond the limit. Blocks.
    pub fn look_at<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) {
        for path in paths {
            if !self.files.contains_key(path)
                && let Some(stamp) = read_stamp(path)
            {
                self.files.insert(path.clone(), stamp);
            }
        }
    }

    /// The work trees of git that hold them, the inner ones after those around them.
    pub fn work_trees(&self) -> &[PathBuf] {
        &self.trees
    }

    /// Those that are links, with their stamps.
    pub fn iter_links(&self) -> impl Iterator<Item = (&PathBuf, FileStamp)> {
        self.files
            .iter()
            .filter(|(_, stamp)| stamp.link)
            .map(|(path, stamp)| (path, *stamp))
    }

    /// The files.
    pub fn iter_paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// What is different now. A file that has been there for a longer time is not new because it is looked at only now,
    /// when `.gitignore` says something else; it is if it has come there with its folder.
    pub fn find_changed_files(&self, now: &Self) -> Vec<ChangedFile> {
        let mut changed = Vec::new();
        for (path, was) in &self.files {
            let is = match now.files.get(path) {
                Some(is) => Some(*is),
                // Not looked at any more, it is not gone.
                None if now.partial => read_stamp(path),
                None => None,
            };
            if is != Some(*was) {
                changed.push(ChangedFile {
                    path: path.clone(),
                    was: Some(*was),
                    is,
                    surely: true,
                });
            }
        }
        let gone: HashMap<u64, FileStamp> = changed
            .iter()
            .filter(|change| change.is.is_none())
            .filter_map(|change| change.was.map(|was| (was.node, was)))
            .collect();
        let came = |is: &FileStamp| {
            let moved = gone.get(&is.node).is_some_and(|was| was.is_same_file(is));
            let young = is.touched.saturating_add(LAG) >= self.begun;
            (moved || young).then_some(moved)
        };
        let uncovered = self.find_unignored_folders(now, &changed);
        // Where not all was looked at, what is not known may have been there.
        if !self.partial {
            let new = now
                .files
                .iter()
                .filter(|(path, _)| !self.files.contains_key(*path));
            let new = new.filter_map(|(path, is)| Some((path, is, came(is)?)));
            let new: Vec<ChangedFile> = new
                .map(|(path, is, moved)| ChangedFile {
                    path: path.clone(),
                    was: None,
                    is: Some(*is),
                    surely: moved || !uncovered.iter().any(|folder| path.starts_with(folder)),
                })
                .collect();
            changed.extend(new);
        }
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        changed
    }

    /// Folders in which files may be looked at that were excluded before.
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

    /// The stamp of a file.
    pub fn get_stamp(&self, path: &Path) -> Option<FileStamp> {
        self.files.get(path).copied()
    }
}

/// A file that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The file.
    pub path: PathBuf,
    /// As it was; none where there was nothing.
    pub was: Option<FileStamp>,
    /// As it is; none where there is nothing.
    pub is: Option<FileStamp>,
    /// It is known what was there. It is not where a file is looked at only now, was written, and may have been there.
    pub surely: bool,
}

/// Files whose content is kept, as they were last known.
#[derive(Debug, Default)]
pub struct KnownFiles {
    known: Mutex<HashMap<PathBuf, (FileStamp, FileState)>>,
    /// What commands left, which is not kept.
    left: Mutex<HashMap<PathBuf, (FileStamp, FileState)>>,
    recalled: AtomicBool,
}

impl KnownFiles {
    /// The content of `path` under this stamp is kept as `state`.
    pub fn record_state(&self, path: &Path, stamp: FileStamp, state: FileState) {
        lock(&self.known).insert(path.to_owned(), (stamp, state));
    }

    /// What is kept of `path` as it is under this stamp.
    pub fn get(&self, path: &Path, stamp: FileStamp) -> Option<FileState> {
        let known = lock(&self.known);
        let (at, state) = known.get(path)?;
        (*at == stamp).then(|| state.clone())
    }

    /// A command left `path` so; its content is not kept.
    pub fn note_left(&self, path: &Path, stamp: FileStamp, state: FileState) {
        lock(&self.left).insert(path.to_owned(), (stamp, state));
    }

    /// How `path` is as it is under this stamp, where a command has left it so.
    pub fn find_state_after_command(&self, path: &Path, stamp: FileStamp) -> Option<FileState> {
        let left = lock(&self.left);
        let (at, state) = left.get(path)?;
        (*at == stamp).then(|| state.clone())
    }

    /// All paths.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        lock(&self.known).keys().cloned().collect()
    }

    /// Whether what was kept before this view was made is still to be recalled: once.
    pub fn start_recall_once(&self) -> bool {
        !self.recalled.swap(true, Ordering::Relaxed)
    }
}

/// Who else writes files: the editor, as a person saves them, and tools of this server. Told to whoever watches.
#[derive(Debug, Default)]
pub struct ExternalWrites {
    watching: Mutex<Vec<std::sync::Weak<Mutex<BTreeSet<PathBuf>>>>>,
}

/// What others wrote since it was made.
#[derive(Debug)]
pub struct OthersWatch {
    wrote: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl ExternalWrites {
    /// Watches from now on.
    pub fn start_watch(&self) -> OthersWatch {
        let wrote = Arc::default();
        lock(&self.watching).push(Arc::downgrade(&wrote));
        OthersWatch { wrote }
    }

    /// Somebody writes the resolved `path`.
    pub fn write(&self, path: &Path) {
        lock(&self.watching).retain(|watch| match watch.upgrade() {
            Some(wrote) => {
                lock(&wrote).insert(path.to_owned());
                true
            }
            None => false,
        });
    }
}

impl OthersWatch {
    /// Whether somebody wrote `path`.
    pub fn has_external_write(&self, path: &Path) -> bool {
        lock(&self.wrote).contains(path)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn create_temp_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    /// Names, and whether they were there and are there.
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
    fn what_a_command_changed_is_seen() {
        let (_dir, dir) = create_temp_dir();
        // The last is an edit's that another call is making.
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
        // What was not looked at before is not taken for new.
        assert_eq!(
            part.find_changed_files(&scan_watched_files([dir.as_path()], 100)),
            []
        );
    }

    #[test]
    fn what_is_reached_through_a_new_link_is_gone_from_where_it_was() {
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
        let [_, gone, new] = changed.as_slice() else {
            panic!("{changed:?}")
        };
        assert!(gone.was.unwrap().is_same_file(&new.is.unwrap()));
    }

    #[test]
    fn ignored_files_and_work_trees() {
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

    /// `.env` is not to be deleted by a revert because a command has changed `.gitignore`.
    #[test]
    fn what_is_not_ignored_any_more_is_not_new_and_what_is_now_ignored_is_not_gone() {
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
        // Only the folder is touched by that.
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
            .map(|change| change.surely)
            .collect();
        assert_eq!(surely, [true, false, true, false, true]);
    }

    #[test]
    fn who_changes_what_git_excludes_may_uncover_files() {
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
                .filter(|new| new.surely == surely)
                .count()
        };
        assert_eq!((new(true), new(false)), (1, 0));
        fs::remove_file(dir.join(".git/info/exclude")).unwrap();
        assert_eq!((new(true), new(false)), (0, 2));
    }

    #[test]
    fn others_are_told_to_those_who_watch() {
        let others = ExternalWrites::default();
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        others.write(a);
        let first = others.start_watch();
        others.write(b);
        let second = others.start_watch();
        assert!(first.has_external_write(b) && !first.has_external_write(a) && !second.has_external_write(b));
        drop(first);
        others.write(a);
        assert!(second.has_external_write(a));
        assert_eq!(lock(&others.watching).len(), 1);
    }
}
