//! Recognizes secrets by the file itself: a hard link shows one under a harmless name.
//!
//! Only a file with several names is compared, so that most files cost one look at their status. The secrets are those in
//! the known places of the home folder, and the files below a workspace folder whose names look like secrets. A copy is
//! another file, and is not recognized.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::file_stamp::read_stamp;
use crate::base::nofollow::{FileKind, OpenFolder};
use crate::base::secret_path::is_secret_like;
use crate::sandbox::list_secret_places;

/// The most names that are looked at in all known places of the home folder, and in the workspace folder.
const MAX_NAMES: usize = 20_000;
/// Folders of a workspace with many files and, usually, no secrets.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// The secrets that may have further names. Collects them when the first file with several names is compared.
#[derive(Clone, Debug, Default)]
pub(super) struct SecretLinks {
    home: Option<PathBuf>,
    folder: Option<PathBuf>,
    known: OnceLock<HashSet<u64>>,
}

impl SecretLinks {
    pub(super) fn new(home: Option<&Path>, folder: Option<&Path>) -> Self {
        Self {
            home: home.map(Path::to_owned),
            folder: folder.map(Path::to_owned),
            known: OnceLock::new(),
        }
    }

    /// Returns whether the file is a secret under another name. Blocks.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let node = read_stamp(path).and_then(|stamp| stamp.shared_inode_number());
        node.is_some_and(|node| self.known.get_or_init(|| self.collect()).contains(&node))
    }

    /// Collects the inode numbers. Those of another disk may be the same, which is one question too many.
    fn collect(&self) -> HashSet<u64> {
        let mut known = HashSet::new();
        let mut names = MAX_NAMES;
        for place in self.home.iter().flat_map(|home| list_secret_places(home)) {
            add_files(&mut known, place, &mut names, |_| true);
        }
        let mut names = MAX_NAMES;
        if let Some(folder) = &self.folder {
            add_files(&mut known, folder.clone(), &mut names, |path| {
                is_secret_like(path)
            });
        }
        known
    }
}

/// Adds the files with several names at and below a place.
fn add_files(known: &mut HashSet<u64>, place: PathBuf, names: &mut usize, is_secret: impl Fn(&Path) -> bool) {
    let mut open = VecDeque::from([place]);
    while let Some(path) = open.pop_front() {
        let Ok(folder) = OpenFolder::open(&path) else {
            let node = read_stamp(&path).and_then(|stamp| stamp.shared_inode_number());
            known.extend(node.filter(|_| is_secret(&path)));
            continue;
        };
        for entry in folder.read_entries().into_iter().flatten().flatten() {
            if *names == 0 {
                return;
            }
            *names -= 1;
            let path = path.join(&entry.name);
            let is_skipped = SKIPPED.iter().any(|name| entry.name == *name);
            match entry.kind {
                FileKind::Folder if !is_skipped => open.push_back(path),
                FileKind::Regular if is_secret(&path) => {
                    known.extend(read_stamp(&path).and_then(|stamp| stamp.shared_inode_number()));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_hard_link_of_a_secret_is_recognized_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let path = |name: &str| base.join(name);
        for folder in ["home/.ssh/keys", "ws/deep/er", "ws/src"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        for (secret, link) in [
            ("home/.ssh/keys/id", "ws/src/notes.txt"),
            ("home/.netrc", "ws/netrc.md"),
            ("ws/deep/er/.env", "ws/a.txt"),
            ("ws/plain.rs", "ws/copy.rs"),
        ] {
            fs::write(path(secret), secret).unwrap();
            fs::hard_link(path(secret), path(link)).unwrap();
        }
        fs::write(path("ws/single.txt"), "").unwrap();
        let links = SecretLinks::new(Some(&path("home")), Some(&path("ws")));
        for (name, is_covered) in [
            ("ws/src/notes.txt", true),
            ("ws/netrc.md", true),
            ("ws/a.txt", true),
            ("ws/copy.rs", false),
            ("ws/single.txt", false),
            ("ws/src", false),
            ("ws/missing", false),
        ] {
            assert_eq!(links.covers(&path(name)), is_covered, "{name}");
        }
    }
}
