//! Recognizes secrets by the file itself: a hard link shows one under a harmless name.
//!
//! Only a file with several names is compared, so that most files cost one look at their status. The secrets are those in
//! the known places of the home folder, those that `read_deny` names, our own keys, and the files below a workspace folder
//! whose names look like secrets. Fails closed: if these are too many to look at, every file with several names is a
//! secret. A copy is another file, and is not recognized.
//!
//! What was collected is used again, for a while, for files that got no further name since: that changes their status.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::file_stamp::{FileStamp, read_stamp, stamp_of};
use super::real_path::real_path;
use crate::base::clock;
use crate::base::nofollow::{FileKind, OpenFolder};
use crate::base::secret_path::is_secret_like;
use crate::sandbox::list_secret_places;

/// The most names that are looked at in each known place, and in the workspace folder.
const MAX_NAMES: usize = 100_000;
/// The time limit for collecting.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Folders of a workspace with many files and, usually, no secrets.
const SKIPPED: [&str; 2] = ["node_modules", "target"];
/// How long what was collected counts. A folder that was moved does not change the status of its files.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Most collections that are kept: one for each folder with a session.
const MAX_COLLECTIONS: usize = 8;

/// Where secrets are that may have further names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SecretSources {
    pub(super) home: Option<PathBuf>,
    /// The workspace folder: names decide which of its files are secrets.
    pub(super) folder: Option<PathBuf>,
    /// Further files and folders that are secrets.
    pub(super) places: Vec<PathBuf>,
    /// Whether there may be more places.
    pub(super) is_partial: bool,
}

/// The secrets that have several names.
#[derive(Debug)]
pub(super) struct CollectedSecrets {
    sources: SecretSources,
    nodes: HashSet<u64>,
    is_complete: bool,
    /// When collecting began, in ns since 1970.
    since_ns: u128,
    until: Instant,
}

/// What was collected lately, for all sessions.
pub(super) type SecretLinkCache = Mutex<VecDeque<Arc<CollectedSecrets>>>;

/// Compares files with the secrets. Collects them when the first file with several names is compared.
#[derive(Clone, Debug)]
pub(super) struct SecretLinks {
    sources: SecretSources,
    max_names: usize,
    cache: Arc<SecretLinkCache>,
}

impl Default for SecretLinks {
    fn default() -> Self {
        Self::new(SecretSources::default(), Arc::default())
    }
}

impl SecretLinks {
    pub(super) fn new(sources: SecretSources, cache: Arc<SecretLinkCache>) -> Self {
        Self {
            sources,
            max_names: MAX_NAMES,
            cache,
        }
    }

    /// Returns whether the file is a secret under another name, or may be one. Blocks.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.sources != SecretSources::default()
            && read_stamp(path).is_some_and(|stamp| self.covers_stamp(&stamp))
    }

    /// As [`Self::covers`], for a file with this stamp.
    pub(super) fn covers_stamp(&self, stamp: &FileStamp) -> bool {
        let Some(node) = stamp.shared_inode_number() else {
            return false;
        };
        if self.sources == SecretSources::default() {
            return false;
        }
        let secrets = self.find_collected(stamp).unwrap_or_else(|| self.collect());
        // The inode numbers of another disk may be the same, which is one question too many.
        !secrets.is_complete || secrets.nodes.contains(&node)
    }

    /// Returns what was collected since the file got its last name.
    fn find_collected(&self, stamp: &FileStamp) -> Option<Arc<CollectedSecrets>> {
        let now = clock::now().into_std();
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_sources = cache.iter().filter(|kept| kept.sources == self.sources);
        // A status from the future, of another clock, says nothing.
        let wall_ns = u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000;
        let is_older =
            |since| !stamp.was_touched_since(since) || stamp.was_touched_since(wall_ns + 1_000_000_000);
        let kept = of_sources.find(|kept| now < kept.until && is_older(kept.since_ns));
        kept.cloned()
    }

    fn collect(&self) -> Arc<CollectedSecrets> {
        let since_ns = u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000;
        let until = clock::now().into_std() + MAX_AGE;
        let SecretSources {
            home,
            folder,
            places,
            is_partial,
        } = &self.sources;
        let mut search = LinkSearch::new(self.max_names);
        let known = home.iter().flat_map(|home| list_secret_places(home));
        for place in known.chain(places.iter().cloned()) {
            search.names = self.max_names;
            search.add_files(place, false);
        }
        search.names = self.max_names;
        if let Some(folder) = folder {
            search.add_files(folder.clone(), true);
        }
        let collected = Arc::new(CollectedSecrets {
            sources: self.sources.clone(),
            nodes: search.nodes,
            is_complete: search.is_complete && !is_partial,
            since_ns,
            until,
        });
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|kept| kept.sources != self.sources);
        cache.truncate(MAX_COLLECTIONS - 1);
        cache.push_front(collected.clone());
        collected
    }
}

/// Looks for the files with several names at and below places.
struct LinkSearch {
    nodes: HashSet<u64>,
    /// Names that may still be looked at.
    names: usize,
    until: Instant,
    is_complete: bool,
}

impl LinkSearch {
    fn new(names: usize) -> Self {
        Self {
            nodes: HashSet::new(),
            names,
            until: clock::now().into_std() + MAX_TIME,
            is_complete: true,
        }
    }

    /// Adds the files at and below a place. In the workspace, only those with names of secrets.
    fn add_files(&mut self, place: PathBuf, in_workspace: bool) {
        // People link such files to where they keep their settings.
        let Ok(place) = real_path(&place) else { return };
        let is_secret = |path: &Path| !in_workspace || is_secret_like(path);
        let is_skipped = |name: &OsStr| {
            if in_workspace {
                SKIPPED.iter().any(|skipped| name == *skipped)
            } else {
                is_cache(name)
            }
        };
        let mut open = VecDeque::from([place]);
        while let Some(path) = open.pop_front() {
            // What we may not list, nobody who acts for us has linked.
            let Ok(folder) = OpenFolder::open(&path) else {
                self.add(read_stamp(&path).filter(|_| is_secret(&path)));
                continue;
            };
            let is_git = in_workspace && path.file_name() == Some(OsStr::new(".git"));
            for entry in folder.read_entries().into_iter().flatten().flatten() {
                let names = self.names.checked_sub(1);
                let is_late =
                    |names: &usize| names.is_multiple_of(256) && clock::now().into_std() >= self.until;
                let Some(names) = names.filter(|names| !is_late(names)) else {
                    self.is_complete = false;
                    return;
                };
                self.names = names;
                let path = path.join(&entry.name);
                match entry.kind {
                    // Git's own files are many. Those directly in its folder may have passwords.
                    FileKind::Folder if is_git || is_skipped(&entry.name) => {}
                    FileKind::Folder => open.push_back(path),
                    FileKind::Regular if is_secret(&path) => {
                        let status = folder.entry_status(&entry.name);
                        self.add(status.ok().and_then(|status| stamp_of(&status)));
                    }
                    FileKind::Link if is_secret(&path) => {
                        let target = real_path(&path).ok();
                        self.add(target.and_then(|target| read_stamp(&target)));
                    }
                    _ => {}
                }
            }
        }
    }

    fn add(&mut self, stamp: Option<FileStamp>) {
        self.nodes
            .extend(stamp.and_then(|stamp| stamp.shared_inode_number()));
    }
}

/// Returns whether a folder of a program has no keys, but many files: its cache, or games.
fn is_cache(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    name.contains("cache") || name == "steamapps"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Makes the files, and a second name for each.
    fn make_links(base: &Path, files: &[(&str, &str)]) {
        for (file, link) in files {
            for path in [file, link] {
                fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            }
            fs::write(base.join(file), file).unwrap();
            fs::hard_link(base.join(file), base.join(link)).unwrap();
        }
    }

    fn sources(base: &Path) -> SecretSources {
        SecretSources {
            home: Some(base.join("home")),
            folder: Some(base.join("ws")),
            places: vec![base.join("data/keys.json"), base.join("missing")],
            is_partial: false,
        }
    }

    #[test]
    fn a_hard_link_of_a_secret_is_recognized_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        make_links(
            &base,
            &[
                ("home/.ssh/keys/id", "ws/src/notes.txt"),
                ("home/.netrc", "ws/netrc.md"),
                ("home/Documents/all.kdbx", "ws/all.txt"),
                ("settings/pgpass", "ws/linked.txt"),
                ("data/keys.json", "ws/keys.txt"),
                ("ws/deep/er/.env", "ws/a.txt"),
                ("ws/.git/config", "ws/b.txt"),
                ("ws/deep/.git/credentials", "ws/c.txt"),
                ("ws/plain.rs", "ws/copy.rs"),
                ("ws/.git/objects/secrets.json", "ws/object"),
            ],
        );
        std::os::unix::fs::symlink("../settings/pgpass", base.join("home/.pgpass")).unwrap();
        fs::write(base.join("ws/single.txt"), "").unwrap();
        let links = SecretLinks::new(sources(&base), Arc::default());
        for (name, is_covered) in [
            ("ws/src/notes.txt", true),
            ("ws/netrc.md", true),
            ("ws/all.txt", true),
            ("ws/linked.txt", true),
            ("ws/keys.txt", true),
            ("ws/a.txt", true),
            ("ws/b.txt", true),
            ("ws/c.txt", true),
            ("ws/copy.rs", false),
            ("ws/object", false),
            ("ws/single.txt", false),
            ("ws/src", false),
            ("ws/missing", false),
        ] {
            assert_eq!(links.covers(&base.join(name)), is_covered, "{name}");
        }
    }

    #[test]
    fn with_too_many_names_every_file_with_several_names_may_be_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        make_links(
            &base,
            &[("ws/plain.rs", "ws/copy.rs"), ("home/.ssh/id", "other/id")],
        );
        fs::write(base.join("ws/single.txt"), "").unwrap();
        let look = |max_names: usize, is_partial: bool| {
            let sources = SecretSources {
                is_partial,
                ..sources(&base)
            };
            let links = SecretLinks {
                max_names,
                ..SecretLinks::new(sources, Arc::default())
            };
            ["ws/copy.rs", "ws/single.txt"].map(|name| links.covers(&base.join(name)))
        };
        assert_eq!(look(3, false), [false, false]);
        assert_eq!(look(2, false), [true, false]);
        assert_eq!(look(3, true), [true, false]);
    }

    #[test]
    fn secrets_are_collected_again_for_a_file_with_a_new_name() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        make_links(&base, &[("ws/plain.rs", "ws/copy.rs")]);
        let old = read_stamp(&base.join("ws/copy.rs")).unwrap();
        let cache = Arc::<SecretLinkCache>::default();
        let links = || SecretLinks::new(sources(&base), cache.clone());
        // Until then the file may just have got its names.
        while old.was_touched_since(u128::try_from(clock::wall_ms()).unwrap() * 1_000_000) {
            std::thread::yield_now();
        }
        assert!(!links().covers(&base.join("ws/copy.rs")));
        let first = cache.lock().unwrap()[0].clone();
        assert!(!links().covers(&base.join("ws/copy.rs")));
        assert!(Arc::ptr_eq(&first, &cache.lock().unwrap()[0]), "collected twice");
        make_links(&base, &[("home/.ssh/id", "ws/notes.txt")]);
        assert!(links().covers(&base.join("ws/notes.txt")));
        assert_eq!(cache.lock().unwrap().len(), 1);
    }
}
