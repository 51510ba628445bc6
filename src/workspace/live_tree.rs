//! Keeps a snapshot of the workspace's files up to date, so that the cost of the next one depends on what has changed.
//!
//! Blocks. Where the kernel does not report changes, each snapshot scans everything. Must not know commands.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::file_stamp::{FileStamp, read_stamp};
use super::folder_watch::FolderWatch;
use super::ignore_rules::list_outer_rules;
use super::own_files::OwnFiles;
use super::watch::{MAX_WATCHED, WatchedTree, scan_watched_files};
use crate::base::clock::{self, Instant};
use crate::base::nofollow;

/// Age after which everything is scanned again. A program that has mapped a file into its memory changes it without a
/// notification.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The files below some roots, for all sessions that work there.
#[derive(Debug)]
pub struct LiveTree {
    roots: Vec<PathBuf>,
    followed: Mutex<Option<FollowedTree>>,
    own_files: OwnFiles,
}

/// The last snapshot, and the watch that reports changes since then.
#[derive(Debug)]
struct FollowedTree {
    scanned_at: Instant,
    surroundings: Surroundings,
    tree: WatchedTree,
    watch: FolderWatch,
}

/// What decides about the files and is outside of the watched folders.
#[derive(Debug, PartialEq, Eq)]
struct Surroundings {
    /// Device and inode number of each root: another folder may have taken its place.
    places: Vec<Option<(u64, u64)>>,
    outer_rules: Vec<(PathBuf, Option<FileStamp>)>,
}

impl Surroundings {
    #[expect(clippy::allow_attributes, reason = "needed on some systems only")]
    #[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
    fn read(roots: &[PathBuf]) -> Self {
        let place = |root: &PathBuf| {
            let status = nofollow::status_of(root).ok()?;
            Some((status.st_dev as u64, status.st_ino as u64))
        };
        let files = roots.iter().flat_map(|root| list_outer_rules(root));
        Self {
            places: roots.iter().map(place).collect(),
            outer_rules: files.map(|file| (file.clone(), read_stamp(&file))).collect(),
        }
    }
}

impl LiveTree {
    /// Returns the resolved folders whose files these are.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns what finds the files that git does not have.
    pub fn own_files(&self) -> &OwnFiles {
        &self.own_files
    }

    /// Returns a snapshot of the files, as [`scan_watched_files`] would take it now.
    pub fn take_snapshot(&self) -> WatchedTree {
        let mut followed = lock(&self.followed);
        // Taken out, so that no half of an update remains. Its watches end before new ones begin.
        if let Some(mut known) = followed.take()
            && known.update(&self.roots)
        {
            let tree = known.tree.clone();
            *followed = Some(known);
            return tree;
        }
        let surroundings = Surroundings::read(&self.roots);
        let mut watch = FolderWatch::for_roots(&self.roots);
        let scanned_at = clock::now();
        let tree = scan_watched_files(&self.roots, MAX_WATCHED, watch.as_mut());
        let watch = watch.filter(|watch| watch.is_complete() && !tree.partial);
        *followed = watch.map(|watch| FollowedTree {
            scanned_at,
            surroundings,
            tree: tree.clone(),
            watch,
        });
        tree
    }
}

impl FollowedTree {
    /// Brings the snapshot up to date. Returns false if only another scan can.
    fn update(&mut self, roots: &[PathBuf]) -> bool {
        self.tree.mark_taken_now();
        if clock::now().saturating_duration_since(self.scanned_at) >= MAX_AGE
            || Surroundings::read(roots) != self.surroundings
        {
            return false;
        }
        let changes = self.watch.read_changes();
        changes.is_some_and(|changes| self.tree.apply_changes(roots, &changes, &mut self.watch))
    }
}

/// The trees that some session uses.
#[derive(Debug, Default)]
pub(super) struct LiveTrees(Mutex<Vec<Weak<LiveTree>>>);

impl LiveTrees {
    /// Returns the tree of the resolved `roots`.
    pub(super) fn get(&self, roots: Vec<PathBuf>) -> Arc<LiveTree> {
        let mut trees = lock(&self.0);
        trees.retain(|tree| tree.strong_count() > 0);
        if let Some(tree) = trees
            .iter()
            .filter_map(Weak::upgrade)
            .find(|tree| tree.roots == roots)
        {
            return tree;
        }
        let tree = Arc::new(LiveTree {
            roots,
            followed: Mutex::default(),
            own_files: OwnFiles::default(),
        });
        trees.push(Arc::downgrade(&tree));
        tree
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn follow(root: &Path) -> Arc<LiveTree> {
        LiveTrees::default().get(vec![root.to_owned()])
    }

    /// Fails if a snapshot differs from a scan.
    fn check(live: &LiveTree) {
        let snapshot = live.take_snapshot();
        let scan = scan_watched_files(live.roots(), MAX_WATCHED, None);
        let list = |tree: &WatchedTree| -> Vec<_> {
            let excluded = tree.iter_excluded_files().map(|file| ("excluded", file));
            let files = tree
                .iter_files()
                .map(|file| ("", file))
                .chain(excluded)
                .map(|(kind, (path, stamp))| (kind, path.clone(), format!("{stamp:?}")));
            files.collect()
        };
        assert_eq!(list(&snapshot), list(&scan));
        assert_eq!(snapshot.work_trees(), scan.work_trees());
    }

    const NAMES: [&str; 9] = [
        "a",
        "b",
        "c",
        "d.o",
        "skip",
        ".git",
        ".gitignore",
        ".ignore",
        ".agentls-x.tmp",
    ];

    /// A path of up to three names.
    fn any_path() -> impl Strategy<Value = PathBuf> {
        prop::collection::vec(prop::sample::select(NAMES.to_vec()), 1..4)
            .prop_map(|names| names.iter().collect())
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Write(PathBuf, u8),
        Append(PathBuf),
        MakeFolder(PathBuf),
        Remove(PathBuf),
        Rename(PathBuf, PathBuf),
        Link(PathBuf, PathBuf),
        SetMode(PathBuf, u32),
        Look,
    }

    fn any_deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            (any_path(), any::<u8>()).prop_map(|(path, kind)| Deed::Write(path, kind)),
            any_path().prop_map(Deed::Append),
            any_path().prop_map(Deed::MakeFolder),
            any_path().prop_map(Deed::Remove),
            (any_path(), any_path()).prop_map(|(from, to)| Deed::Rename(from, to)),
            (any_path(), any_path()).prop_map(|(from, to)| Deed::Link(from, to)),
            (any_path(), prop::sample::select(vec![0o600, 0o644, 0o755]))
                .prop_map(|(path, mode)| Deed::SetMode(path, mode)),
            Just(Deed::Look),
        ]
    }

    /// Does it, if it is possible.
    fn act(root: &Path, deed: &Deed) -> std::io::Result<()> {
        match deed {
            Deed::Write(path, kind) => {
                let text = ["*.o\n", "skip\nc\n", "/a/b\n", "!*.o\n"][usize::from(*kind) % 4];
                fs::create_dir_all(root.join(path).parent().unwrap_or(root))?;
                fs::write(root.join(path), text)
            }
            Deed::Append(path) => {
                use std::io::Write;
                let mut file = fs::OpenOptions::new().append(true).open(root.join(path))?;
                file.write_all(b"b\n")
            }
            Deed::MakeFolder(path) => fs::create_dir_all(root.join(path)),
            Deed::Remove(path) => {
                let path = root.join(path);
                if path.is_dir() && !path.is_symlink() {
                    fs::remove_dir_all(path)
                } else {
                    fs::remove_file(path)
                }
            }
            Deed::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
            Deed::Link(to, at) => symlink(root.join(to), root.join(at)),
            Deed::SetMode(path, mode) => {
                let path = root.join(path);
                // Who may not enter a folder cannot remove it either.
                let mode = if path.is_dir() { mode | 0o700 } else { *mode };
                fs::set_permissions(path, fs::Permissions::from_mode(mode))
            }
            Deed::Look => Ok(()),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_snapshot_is_what_a_scan_finds(deeds in prop::collection::vec(any_deed(), 1..40)) {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let live = follow(&root);
            check(&live);
            for deed in &deeds {
                let _ = act(&root, deed);
                if matches!(deed, Deed::Look) {
                    check(&live);
                }
            }
            check(&live);
        }
    }

    /// Returns how often everything was scanned, as seen by the age of the tree.
    fn scanned_at(live: &LiveTree) -> Option<Instant> {
        lock(&live.followed).as_ref().map(|followed| followed.scanned_at)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_changed_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/a"), "a").unwrap();
        let live = follow(&root);
        let first = live.take_snapshot();
        let scan = scanned_at(&live).expect("followed");
        assert_eq!(first.find_changed_files(&live.take_snapshot()), []);
        fs::write(root.join("src/a"), "longer").unwrap();
        fs::create_dir_all(root.join("new/deep")).unwrap();
        fs::write(root.join("new/deep/b"), "b").unwrap();
        check(&live);
        fs::write(root.join("new/deep/c"), "c").unwrap();
        fs::remove_dir_all(root.join("src")).unwrap();
        check(&live);
        assert_eq!(scanned_at(&live), Some(scan));
        fs::write(root.join("new/.gitignore"), "c\n").unwrap();
        check(&live);
        assert_ne!(scanned_at(&live), Some(scan));
    }

    /// What decides about the files, and is not below the root.
    #[test]
    fn changes_around_the_root_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("package");
        fs::create_dir_all(top.join(".git/info")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a.o"), "a").unwrap();
        let live = follow(&root);
        check(&live);
        fs::write(top.join(".gitignore"), "*.o\n").unwrap();
        check(&live);
        fs::write(top.join(".gitignore"), "").unwrap();
        fs::write(top.join(".git/info/exclude"), "a.o\n").unwrap();
        check(&live);
        // The old folder is still there, so nothing is deleted.
        fs::rename(&top, top.with_extension("old")).unwrap();
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("new"), "n").unwrap();
        check(&live);
        fs::remove_dir_all(top.with_extension("old")).unwrap();
    }

    #[test]
    fn a_file_with_another_name_elsewhere_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("root");
        fs::create_dir(&root).unwrap();
        fs::write(top.join("elsewhere"), "a").unwrap();
        fs::hard_link(top.join("elsewhere"), root.join("here")).unwrap();
        let live = follow(&root);
        check(&live);
        fs::write(top.join("elsewhere"), "longer").unwrap();
        check(&live);
    }

    #[test]
    fn an_inner_repository_obeys_the_ignore_files_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("inner/.git")).unwrap();
        fs::write(root.join(".ignore"), "*.csv\n").unwrap();
        let live = follow(&root);
        check(&live);
        fs::write(root.join("inner/data.csv"), "1").unwrap();
        fs::write(root.join("inner/code"), "1").unwrap();
        check(&live);
    }

    #[test]
    fn roots_inside_others_are_scanned_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("build/gen")).unwrap();
        fs::write(root.join(".ignore"), "build\n").unwrap();
        fs::write(root.join("build/gen/a"), "a").unwrap();
        let live = LiveTrees::default().get(vec![root.clone(), root.join("build/gen")]);
        check(&live);
        assert_eq!(scanned_at(&live), None);
        fs::set_permissions(root.join("build"), fs::Permissions::from_mode(0o755)).unwrap();
        check(&live);
    }

    #[test]
    fn sessions_in_a_folder_share_its_tree() {
        let trees = LiveTrees::default();
        let (here, there) = (vec![PathBuf::from("/a")], vec![PathBuf::from("/b")]);
        let first = trees.get(here.clone());
        assert!(Arc::ptr_eq(&first, &trees.get(here.clone())));
        assert!(!Arc::ptr_eq(&first, &trees.get(there)));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
    }
}
