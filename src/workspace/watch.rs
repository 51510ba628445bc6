//! Takes snapshots of files by size and time: comparing two shows what a command changed.
//!
//! Blocks. Reads no contents, and must not decide who changed what; `tool::command_snapshot` does.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::excluded_files::{CACHE_TAG, ExcludedFiles};
use super::file_stamp::{FileStamp, LAG, read_stamp, stamp_of};
use super::folder_watch::{FolderWatch, NameChanges};
use super::ignore_rules::{IGNORE_FILES, exclude_file};
use super::tree::{Walk, WalkOptions};
use super::write::is_unfinished;
use crate::base::clock;
use crate::base::nofollow::{self, FileKind};
use crate::domain::FileState;

/// Most files watched while a command runs. They take about 50 MB.
pub const MAX_WATCHED: usize = 200_000;

/// Time limit for taking a snapshot.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Most git work trees that are checked for clean files.
const MAX_TREES: usize = 64;

/// Finds everything, and tells what ignore files exclude.
const WALK: WalkOptions = WalkOptions {
    hidden: true,
    max_depth: None,
    with_status: true,
    with_folders: true,
    with_left_out: true,
};

/// Most changed folders that are read one by one. With more, a scan is cheaper.
const MAX_CHANGED_FOLDERS: usize = 200;

fn read_excludes(trees: &[PathBuf]) -> BTreeMap<PathBuf, Option<FileStamp>> {
    let exclude = |tree: &PathBuf| {
        let file = exclude_file(tree).and_then(|file| read_stamp(&file));
        (tree.clone(), file)
    };
    trees.iter().map(exclude).collect()
}

/// A snapshot of the files in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedTree {
    /// When it was taken, in nanoseconds since 1970.
    taken_at_ns: u128,
    /// Shared, so that a copy costs nothing until one of both changes.
    files: Arc<Files>,
    /// Of these, only what was there before a command counts.
    excluded: ExcludedFiles,
    /// Git work trees among them.
    trees: Vec<PathBuf>,
    /// The `info/exclude` file of each work tree, which excludes files besides its `.gitignore` files.
    excludes: BTreeMap<PathBuf, Option<FileStamp>>,
    /// There are more files than were examined.
    pub partial: bool,
}

/// Takes a snapshot of up to `most` files below `roots`, and of the excluded files that people may have made. Watches each
/// folder before it is read. Blocks.
pub(super) fn scan_watched_files(
    roots: &[PathBuf],
    most: usize,
    mut watch: Option<&mut FolderWatch>,
) -> WatchedTree {
    let mut watched = WatchedTree {
        taken_at_ns: now_ns(),
        ..WatchedTree::default()
    };
    let until = clock::now() + MAX_TIME;
    for root in roots {
        // The repository may begin above the workspace folder.
        let around = root
            .ancestors()
            .find(|folder| nofollow::kind(&folder.join(".git")).is_some());
        watched.trees.extend(around.map(Path::to_owned));
        watched.look_below(root, None, most, until, watch.as_deref_mut());
        if watched.partial {
            break;
        }
    }
    // A folder of the workspace may be below what another one excludes.
    let twice: Vec<PathBuf> = watched
        .iter_excluded_files()
        .map(|(path, _)| path.clone())
        .filter(|path| watched.files.contains_key(path))
        .collect();
    watched.forget_excluded_files(&twice);
    watched.settle_trees();
    watched
}

fn now_ns() -> u128 {
    u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000
}

impl WatchedTree {
    /// Adds the files below `folder`, with the ignore files from `top` on.
    fn look_below(
        &mut self,
        folder: &Path,
        top: Option<&Path>,
        most: usize,
        until: clock::Instant,
        mut watch: Option<&mut FolderWatch>,
    ) {
        let mut excluded = Vec::new();
        let mut walk = Walk::new(folder, top, WALK, || clock::now() >= until);
        for entry in walk.by_ref() {
            if entry.left_out.is_some() {
                excluded.extend(self.excluded.add_entry(entry));
                continue;
            }
            if entry.kind == FileKind::Folder {
                if let Some(watch) = &mut watch {
                    watch.add(&entry.path);
                }
                continue;
            }
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
            Arc::make_mut(&mut self.files).insert(entry.path, stamp);
        }
        self.partial |= walk.is_halted();
        let available = MAX_TREES.saturating_sub(self.trees.len());
        self.trees
            .extend(walk.repositories().iter().take(available).cloned());
        if !self.partial {
            self.excluded.look_below(excluded, until, watch);
        }
    }

    fn settle_trees(&mut self) {
        self.trees.sort();
        self.trees.dedup();
        self.excludes = read_excludes(&self.trees);
    }

    /// Brings the snapshot up to date after `changes` below the `roots`. Returns false if only another scan can. Blocks.
    pub(super) fn apply_changes(
        &mut self,
        roots: &[PathBuf],
        changes: &NameChanges,
        watch: &mut FolderWatch,
    ) -> bool {
        let is_rule = |name: &OsString| name == ".git" || IGNORE_FILES.iter().any(|file| name == file);
        if changes.names.values().flatten().any(is_rule)
            || changes.folders.iter().any(|folder| folder.ends_with(".git"))
            || self.is_tagged(changes)
            || changes.folders.len() > MAX_CHANGED_FOLDERS
            || read_excludes(&self.trees) != self.excludes
        {
            return false;
        }
        let mut to_read = self.forget_folders(&changes.folders, watch);
        for (folder, names) in &changes.names {
            for name in names.iter().filter(|name| !is_unfinished(name)) {
                let path = folder.join(name);
                // Only the rules of its folder tell whether a new file counts.
                if !self.excluded.update_file(folder, &path)
                    && !self.update_file(&path)
                    && nofollow::kind(&path).is_some()
                {
                    to_read.insert(folder.clone());
                }
            }
        }
        self.update_files_with_other_names();
        let until = clock::now() + MAX_TIME;
        let is_read = to_read.len() <= MAX_CHANGED_FOLDERS
            && to_read
                .iter()
                .all(|folder| self.read_folder_again(folder, roots, until, watch));
        self.settle_trees();
        is_read && watch.is_complete() && !self.partial && self.files.len() <= MAX_WATCHED
    }

    /// Returns whether an excluded folder may now be one that a program makes again.
    fn is_tagged(&self, changes: &NameChanges) -> bool {
        let is_tag = |name: &OsString| name == CACHE_TAG;
        let mut changed = changes.names.iter();
        changed.any(|(folder, names)| names.iter().any(is_tag) && self.excluded.has_folder(folder))
    }

    /// Reads the stamp of a file again. Returns false if the snapshot does not have the file.
    fn update_file(&mut self, path: &Path) -> bool {
        if !self.files.contains_key(path) {
            return false;
        }
        let files = Arc::make_mut(&mut self.files);
        match read_stamp(path) {
            Some(stamp) => files.insert(path.to_owned(), stamp),
            None => files.remove(path),
        };
        true
    }

    /// A file that is written by a name elsewhere is not reported as changed.
    fn update_files_with_other_names(&mut self) {
        let named_twice = self.files.iter().filter(|(_, stamp)| stamp.has_other_names);
        let differs = |(path, stamp): &(&PathBuf, &FileStamp)| read_stamp(path) != Some(**stamp);
        let differing: Vec<PathBuf> = named_twice
            .filter(differs)
            .map(|(path, _)| path.clone())
            .collect();
        for path in differing {
            self.update_file(&path);
        }
        let excluded = self.excluded.files().iter();
        let differing: Vec<PathBuf> = excluded
            .filter(|(path, stamp)| stamp.has_other_names && read_stamp(path) != Some(**stamp))
            .map(|(path, _)| path.clone())
            .collect();
        for path in differing {
            self.excluded.update_file(Path::new(""), &path);
        }
    }

    /// Removes all that is below `folders`. Returns the folders that contained them.
    fn forget_folders(&mut self, folders: &BTreeSet<PathBuf>, watch: &mut FolderWatch) -> BTreeSet<PathBuf> {
        let mut parents = BTreeSet::new();
        for folder in folders {
            parents.extend(folder.parent().map(Path::to_owned));
            watch.forget_below(folder);
            self.excluded.forget_below(folder);
            self.trees.retain(|tree| !tree.starts_with(folder));
            let from = (Bound::Included(folder.as_path()), Bound::Unbounded);
            let below = self.files.range::<Path, _>(from).map(|(path, _)| path.clone());
            let below: Vec<PathBuf> = below.take_while(|path| path.starts_with(folder)).collect();
            for path in below {
                Arc::make_mut(&mut self.files).remove(&path);
            }
        }
        parents
    }

    /// Adds the files in a folder, and all below its new folders. Returns false if only another scan can.
    fn read_folder_again(
        &mut self,
        folder: &Path,
        roots: &[PathBuf],
        until: clock::Instant,
        watch: &mut FolderWatch,
    ) -> bool {
        let Some(root) = roots.iter().find(|root| folder.starts_with(root)) else {
            return false;
        };
        if !watch.has(folder) {
            return true;
        }
        if self.excluded.has_folder(folder) {
            watch.forget_below(folder);
            self.excluded.forget_below(folder);
            self.excluded
                .look_below(vec![folder.to_owned()], until, Some(&mut *watch));
            return true;
        }
        // A scan applies the `.ignore` files around an inner repository too.
        let mut inner = self
            .trees
            .iter()
            .filter(|tree| *tree != root && tree.starts_with(root));
        if inner.any(|tree| folder.starts_with(tree)) {
            return false;
        }
        let options = WalkOptions {
            max_depth: Some(1),
            ..WALK
        };
        let (mut new, mut excluded) = (Vec::new(), Vec::new());
        let mut walk = Walk::new(folder, Some(root), options, || clock::now() >= until);
        for entry in walk.by_ref() {
            if entry.left_out.is_some() {
                let folder = self.excluded.add_entry(entry);
                excluded.extend(folder.filter(|folder| !self.excluded.has_folder(folder)));
            } else if entry.kind == FileKind::Folder {
                new.extend((!watch.has(&entry.path)).then_some(entry.path));
            } else if let Some(stamp) = entry.status.as_ref().and_then(stamp_of)
                && !entry.path.file_name().is_some_and(is_unfinished)
            {
                Arc::make_mut(&mut self.files).insert(entry.path, stamp);
            }
        }
        let is_read = !walk.is_halted();
        for folder in new {
            self.look_below(&folder, Some(root), MAX_WATCHED, until, Some(&mut *watch));
        }
        self.excluded.look_below(excluded, until, Some(watch));
        is_read
    }

    /// Records that the snapshot describes the present.
    pub(super) fn mark_taken_now(&mut self) {
        self.taken_at_ns = now_ns();
    }

    /// Adds `paths` to the snapshot, even if they are excluded or beyond the limit. Blocks.
    pub fn look_at<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) {
        for path in paths {
            if self.get_stamp(path).is_none()
                && let Some(stamp) = read_stamp(path)
            {
                Arc::make_mut(&mut self.files).insert(path.clone(), stamp);
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

    /// Iterates over the excluded files that people may have made, with their stamps.
    pub fn iter_excluded_files(&self) -> impl Iterator<Item = (&PathBuf, FileStamp)> {
        self.excluded.files().iter().map(|(path, stamp)| (path, *stamp))
    }

    /// Returns whether the snapshot has a file only because people may have made it: ignore files exclude it.
    pub fn is_excluded(&self, path: &Path) -> bool {
        self.excluded.files().contains_key(path)
    }

    /// Takes excluded files out of the snapshot.
    pub fn forget_excluded_files<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) {
        for path in paths {
            self.excluded.remove(path);
        }
    }

    /// Iterates over all files that are not excluded, in the order of their paths, with their stamps.
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

    /// Lists the files that are not the same in `last`, and those of `others` that exist.
    pub fn list_differing_files(&self, last: &Self, others: &[PathBuf]) -> Vec<(PathBuf, FileStamp)> {
        let mut listed: BTreeMap<&PathBuf, FileStamp> = BTreeMap::new();
        listed.extend(
            others
                .iter()
                .filter_map(|path| Some((path, self.get_stamp(path)?))),
        );
        let differing = find_differences(&last.files, &self.files).into_iter();
        listed.extend(differing.filter_map(|(path, _, is)| Some((path, is?))));
        listed
            .into_iter()
            .map(|(path, stamp)| (path.clone(), stamp))
            .collect()
    }

    /// Adds the files of `other` that are not in the snapshot, even if they are excluded. Blocks.
    pub fn look_at_all_of(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.files, &other.files) {
            self.look_at(other.iter_paths());
        }
        if !self.excluded.is_same(&other.excluded) {
            self.look_at(other.excluded.files().keys());
        }
    }

    /// Returns whether a file came from a place that the snapshot does not have, such as an ignored one: its content may
    /// exist nowhere else. A copy is new, even if it has the old times.
    pub fn was_moved_in(&self, change: &ChangedFile) -> bool {
        let Some(is) = change.is.filter(|is| !is.link && !is.has_other_names) else {
            return false;
        };
        let is_in_place = change.was.is_some_and(|was| was.node == is.node);
        !is_in_place
            && self.is_older(&change.path, &is)
            && !self.stamps().any(|(_, stamp)| stamp.node == is.node)
    }

    /// Returns whether a file that the snapshot does not have, with the stamp that it has now, was made after the snapshot.
    pub fn has_seen_making(&self, path: &Path, is: FileStamp) -> bool {
        !self.partial && is.was_touched_since(self.taken_at_ns) && !self.is_older(path, &is)
    }

    /// Returns whether a file was there before the snapshot, maybe elsewhere, and not written since.
    fn is_older(&self, path: &Path, is: &FileStamp) -> bool {
        let is_written = is.modified.saturating_add(LAG) >= self.taken_at_ns;
        // Where the system does not say, nothing may be lost.
        !is_written && nofollow::birth_ns(path).is_none_or(|born| born + LAG < self.taken_at_ns)
    }

    /// Returns what is different in `now`.
    ///
    /// A file that existed before is not new only because a changed `.gitignore` makes it visible. It is new if it came
    /// with its folder.
    pub fn find_changed_files(&self, now: &Self) -> Vec<ChangedFile> {
        let (mut changed, mut appeared) = (Vec::new(), Vec::new());
        let excluded = find_differences(self.excluded.files(), now.excluded.files());
        let gone = excluded.into_iter().filter(|(_, was, _)| was.is_some());
        for (path, was, is) in find_differences(&self.files, &now.files).into_iter().chain(gone) {
            let Some(was) = was else {
                appeared.extend(is.map(|is| (path, is)));
                continue;
            };
            let is = match is.or_else(|| now.get_stamp(path)) {
                // Not examined this time does not mean gone.
                None if now.partial => read_stamp(path),
                is => is,
            };
            if is != Some(was) {
                changed.push(ChangedFile {
                    path: path.clone(),
                    was: Some(was),
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
            let young = is.was_touched_since(self.taken_at_ns);
            (moved || young).then_some(moved)
        };
        let uncovered = self.find_unignored_folders(now, &changed);
        // After a partial snapshot, an unknown file may have existed before.
        if !self.partial {
            appeared.retain(|(path, _)| self.get_stamp(path).is_none());
            let new = appeared
                .into_iter()
                .filter_map(|(path, is)| Some((path, is, check_appeared(&is)?)));
            let new: Vec<ChangedFile> = new
                .map(|(path, is, moved)| ChangedFile {
                    path: path.clone(),
                    was: None,
                    is: Some(is),
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

    /// Replaces the stamp of a file; `None` removes the file.
    pub fn set_stamp(&mut self, path: &Path, stamp: Option<FileStamp>) {
        match stamp {
            Some(stamp) if self.is_excluded(path) => self.excluded.set_stamp(path, stamp),
            Some(stamp) => {
                Arc::make_mut(&mut self.files).insert(path.to_owned(), stamp);
            }
            None => {
                self.excluded.remove(path);
                Arc::make_mut(&mut self.files).remove(path);
            }
        }
    }

    /// Returns the stamp of a file, excluded or not.
    pub fn get_stamp(&self, path: &Path) -> Option<FileStamp> {
        let stamp = self.files.get(path).or_else(|| self.excluded.files().get(path));
        stamp.copied()
    }

    fn stamps(&self) -> impl Iterator<Item = (&PathBuf, &FileStamp)> {
        self.files.iter().chain(self.excluded.files())
    }
}

type Files = BTreeMap<PathBuf, FileStamp>;

/// Returns the files that differ, with both stamps, in order. Goes through both maps at once: to look each path up takes
/// ten times as long.
fn find_differences<'m>(
    was: &'m Files,
    is: &'m Files,
) -> Vec<(&'m PathBuf, Option<FileStamp>, Option<FileStamp>)> {
    let mut differing = Vec::new();
    if std::ptr::eq(was, is) {
        return differing;
    }
    let (mut was, mut is) = (was.iter().peekable(), is.iter().peekable());
    loop {
        let order = match (was.peek(), is.peek()) {
            (None, None) => return differing,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((was, _)), Some((is, _))) => was.cmp(is),
        };
        let old = was.next_if(|_| order.is_le());
        let new = is.next_if(|_| order.is_ge());
        if let Some((path, _)) = old.or(new) {
            let [old, new] = [old, new].map(|file| file.map(|(_, stamp)| *stamp));
            differing.extend((old != new).then_some((path, old, new)));
        }
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
    states: Mutex<KnownStates>,
    /// Excluded files that commands have made, as they left them.
    made: Mutex<HashMap<PathBuf, FileStamp>>,
    recalled: AtomicBool,
}

/// The states of files at some moment. A copy costs nothing until the original changes.
#[derive(Clone, Debug, Default)]
pub struct KnownStates {
    kept: Arc<StampedStates>,
    /// The states that commands left, whose contents are not kept.
    left: Arc<StampedStates>,
}

type StampedStates = HashMap<PathBuf, (FileStamp, FileState)>;

impl KnownStates {
    /// Records that the content of `path` under this stamp is kept as `state`.
    pub fn record_state(&mut self, path: &Path, stamp: FileStamp, state: FileState) {
        Arc::make_mut(&mut self.kept).insert(path.to_owned(), (stamp, state));
    }

    /// Returns the state of `path` if it is known under this stamp, with or without its content.
    pub fn find(&self, path: &Path, stamp: FileStamp) -> Option<FileState> {
        find_state(&self.kept, path, stamp).or_else(|| find_state(&self.left, path, stamp))
    }
}

fn find_state(states: &StampedStates, path: &Path, stamp: FileStamp) -> Option<FileState> {
    let (at, state) = states.get(path)?;
    (*at == stamp).then(|| state.clone())
}

impl KnownFiles {
    /// Returns what is known now. Another command may soon know a file in a later state only.
    pub fn copy_states(&self) -> KnownStates {
        lock(&self.states).clone()
    }

    /// Records that the content of `path` under this stamp is kept as `state`.
    pub fn record_state(&self, path: &Path, stamp: FileStamp, state: FileState) {
        lock(&self.states).record_state(path, stamp, state);
    }

    /// Returns whether the content of `path` is kept, and its stamp is still the same.
    pub fn is_kept(&self, path: &Path, stamp: FileStamp) -> bool {
        find_state(&lock(&self.states).kept, path, stamp).is_some()
    }

    /// Returns whether the content of `path` is most likely kept, although details of its stamp differ.
    pub fn is_probably_kept(&self, path: &Path, stamp: FileStamp) -> bool {
        let states = lock(&self.states);
        let known = states.kept.get(path).or_else(|| states.left.get(path));
        known.is_some_and(|(at, _)| at.looks_like(&stamp))
    }

    /// Records the state in which a command left `path`; its content is not kept.
    pub fn record_left_state(&self, path: &Path, stamp: FileStamp, state: FileState) {
        Arc::make_mut(&mut lock(&self.states).left).insert(path.to_owned(), (stamp, state));
    }

    /// Records that a command has made an excluded file and left it with this stamp.
    pub fn record_made_file(&self, path: &Path, stamp: FileStamp) {
        lock(&self.made).insert(path.to_owned(), stamp);
    }

    /// Returns whether a file is as the command left it that made it.
    pub fn is_made(&self, path: &Path, stamp: FileStamp) -> bool {
        lock(&self.made).get(path) == Some(&stamp)
    }

    /// Lists all paths whose content is kept.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        lock(&self.states).kept.keys().cloned().collect()
    }

    /// Returns true once: what was kept before this view existed must then be recalled.
    pub fn start_recall_once(&self) -> bool {
        !self.recalled.swap(true, atomic::Ordering::Relaxed)
    }
}

/// Announces writes of files by the editor, as a user saves them, and by tools of this server.
#[derive(Debug, Default)]
pub struct ExternalWrites {
    watching: Mutex<Vec<std::sync::Weak<AnnouncedWrites>>>,
    last: AtomicU64,
}

/// The numbers of the announcements for each file.
type AnnouncedWrites = Mutex<BTreeMap<PathBuf, BTreeSet<u64>>>;

/// The files that others have written since this watch started. A copy sees the same.
#[derive(Clone, Debug)]
pub struct ExternalWriteWatch {
    wrote: Arc<AnnouncedWrites>,
}

impl ExternalWrites {
    /// Starts a watch.
    pub fn start_watch(&self) -> ExternalWriteWatch {
        let wrote = Arc::default();
        lock(&self.watching).push(Arc::downgrade(&wrote));
        ExternalWriteWatch { wrote }
    }

    /// Records that someone writes the resolved `path`. Returns the number of this announcement.
    pub fn write(&self, path: &Path) -> u64 {
        let number = self.last.fetch_add(1, atomic::Ordering::Relaxed) + 1;
        // Also removes watches that have ended.
        lock(&self.watching).retain(|watch| match watch.upgrade() {
            Some(wrote) => {
                lock(&wrote).entry(path.to_owned()).or_default().insert(number);
                true
            }
            None => false,
        });
        number
    }
}

impl ExternalWriteWatch {
    /// Returns whether someone has written `path`.
    pub fn has_external_write(&self, path: &Path) -> bool {
        lock(&self.wrote).contains_key(path)
    }

    /// Forgets one announcement for `path`.
    pub fn forget(&self, path: &Path, number: u64) {
        let mut wrote = lock(&self.wrote);
        if let Some(numbers) = wrote.get_mut(path) {
            numbers.remove(&number);
            if numbers.is_empty() {
                wrote.remove(path);
            }
        }
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

    fn scan(root: &Path, most: usize) -> WatchedTree {
        scan_watched_files(&[root.to_owned()], most, None)
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
        let before = scan(&dir, 100);
        assert!(!before.partial);
        fs::write(dir.join("changed"), "longer than before").unwrap();
        fs::remove_file(dir.join(".agentls-x.tmp")).unwrap();
        fs::remove_file(dir.join("gone")).unwrap();
        fs::remove_file(dir.join("linked")).unwrap();
        symlink("same", dir.join("linked")).unwrap();
        fs::write(dir.join("new"), "").unwrap();
        let changed = before.find_changed_files(&scan(&dir, 100));
        assert_eq!(
            summarize_changes(&changed),
            [
                ("changed", true, true),
                ("gone", true, false),
                ("linked", true, true),
                ("new", false, true)
            ]
        );
        let part = scan(&dir, 2);
        assert!(part.partial);
        assert_eq!(part.find_changed_files(&part), []);
        // A file that was not examined before does not count as new.
        assert_eq!(part.find_changed_files(&scan(&dir, 100)), []);
    }

    #[test]
    fn a_file_behind_a_new_link_is_gone_from_its_old_place() {
        let (_dir, dir) = create_temp_dir();
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/x"), "x").unwrap();
        let before = scan(&dir, 100);
        fs::rename(dir.join("d"), dir.join("e")).unwrap();
        symlink("e", dir.join("d")).unwrap();
        let mut now = scan(&dir, 100);
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
        fs::write(dir.join(".gitignore"), "*.o\n").unwrap();
        fs::write(dir.join("secret.o"), "x").unwrap();
        let mut watched = scan(&dir.join("sub"), 100);
        assert_eq!(watched.work_trees(), [dir.clone(), dir.join("sub/inner")]);
        watched = scan(&dir, 100);
        assert_eq!(watched.get_stamp(&dir.join("secret.o")), None);
        watched.look_at(&[dir.join("secret.o"), dir.join("none")]);
        assert!(watched.get_stamp(&dir.join("secret.o")).is_some());
        assert_eq!(watched.iter_paths().count(), 2);
    }

    #[test]
    fn excluded_files_of_people_are_seen() {
        let (_dir, dir) = create_temp_dir();
        let rules = "*.local\n*.o\ndata/\nmany/\ntagged/\nnode_modules/\n";
        fs::write(dir.join(".gitignore"), rules).unwrap();
        for name in ["data/deep/.git", "many", "tagged", "node_modules/a"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        for name in [
            "a.local",
            "b.o",
            "data/deep/c",
            "data/deep/.git/HEAD",
            "data/d.o",
            "tagged/CACHEDIR.TAG",
            "tagged/e",
            "node_modules/a/f",
        ] {
            fs::write(dir.join(name), "").unwrap();
        }
        for number in 0..1_001 {
            fs::write(dir.join("many").join(number.to_string()), "").unwrap();
        }
        let watched = scan(&dir, 100);
        let excluded: Vec<&PathBuf> = watched.iter_excluded_files().map(|(path, _)| path).collect();
        assert_eq!(excluded, [&dir.join("a.local"), &dir.join("data/deep/c")]);
        assert_eq!(watched.iter_paths().count(), 1);
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
        let before = scan(&dir, 100);
        fs::write(dir.join(".gitignore"), "b\n").unwrap();
        fs::write(dir.join("new"), "").unwrap();
        fs::write(dir.join("old/.ignore"), "").unwrap();
        // This touches only the folder.
        fs::rename(dir.join("old"), dir.join("young")).unwrap();
        let mut now = scan(&dir, 100);
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
        fs::write(dir.join(".git/info/exclude"), "a.o\n").unwrap();
        fs::write(dir.join("a.o"), "").unwrap();
        let before = scan(&dir, 100);
        fs::write(dir.join("a.o"), "1").unwrap();
        fs::write(dir.join("b"), "1").unwrap();
        let new = |surely| {
            before
                .find_changed_files(&scan(&dir, 100))
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
        let own = external_writes.write(b);
        let of_others = external_writes.write(b);
        second.forget(b, own);
        assert!(second.has_external_write(b));
        second.forget(b, of_others);
        assert!(!second.has_external_write(b));
    }
}
