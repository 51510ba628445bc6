//! What a command leaves in git's folders: a moved HEAD, and the locks of a git that was killed.
//!
//! Reads names, times, and the log of HEAD; removes only locks. Starts nothing. Blocks.

use std::path::{Path, PathBuf};

use super::git_folder::{find_common_folder, find_git_folder};
use crate::base::clock;
use crate::base::nofollow::{self, FileKind, OpenFolder, RegularFile};
use crate::base::text::one_line;

/// Longest part of the log of HEAD that is read, in bytes. A rebase writes a line for each commit.
const MAX_LOG: u64 = 256 << 10;
/// Most names below `refs` that are looked at for locks.
const MAX_NAMES: usize = 20_000;
/// Longest description in the log that is shown, in characters.
const MAX_REASON: usize = 80;
/// Characters of an object name that are shown.
const SHOWN: usize = 9;

/// The state of git's folders before a command.
#[derive(Debug)]
pub struct GitTraces {
    repositories: Vec<RepositoryTrace>,
    /// In ns since 1970.
    read_at: u128,
}

#[derive(Debug)]
struct RepositoryTrace {
    tree: PathBuf,
    folder: PathBuf,
    /// Length of the log of HEAD in bytes.
    logged: u64,
}

/// A move of HEAD that a command made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadMove {
    pub tree: PathBuf,
    /// The first characters of the commits' names.
    pub from: String,
    pub to: String,
    /// What git says about the last step, such as `reset: moving to HEAD~1`.
    pub reason: String,
    /// Number of steps: the former commit is `HEAD@{steps}`.
    pub steps: usize,
}

impl GitTraces {
    /// Reads the state of the repositories of these work trees.
    pub fn read(trees: &[PathBuf]) -> Self {
        let repositories = trees.iter().filter_map(|tree| {
            let folder = find_git_folder(tree)?;
            let logged = log_length(&folder);
            Some(RepositoryTrace {
                tree: tree.clone(),
                folder,
                logged,
            })
        });
        Self {
            repositories: repositories.collect(),
            read_at: u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000,
        }
    }

    /// Finds the HEADs that have moved since then.
    pub fn find_head_moves(&self) -> Vec<HeadMove> {
        self.repositories
            .iter()
            .filter_map(RepositoryTrace::find_head_move)
            .collect()
    }

    /// Removes the locks that were made since then and that no process has open. Returns their paths.
    ///
    /// Only call it after all processes of the command have ended: git removes its locks unless it is killed.
    pub fn remove_new_locks(&self) -> Vec<PathBuf> {
        let mut locks = Vec::new();
        for repository in &self.repositories {
            let mut folders = vec![repository.folder.clone()];
            folders
                .extend(find_common_folder(&repository.folder).filter(|common| *common != repository.folder));
            for folder in &folders {
                locks.extend(self.find_new_locks(folder, false));
                locks.extend(self.find_new_locks(&folder.join("refs"), true));
            }
        }
        if locks.is_empty() {
            return locks;
        }
        let open = list_open_files();
        locks.retain(|lock| !open.contains(lock) && remove(lock));
        locks
    }

    fn find_new_locks(&self, top: &Path, with_folders: bool) -> Vec<PathBuf> {
        let mut locks = Vec::new();
        let mut folders = vec![top.to_owned()];
        let mut names = 0;
        while let Some(folder) = folders.pop() {
            let entries = OpenFolder::open(&folder).and_then(|folder| folder.read_entries());
            for entry in entries.into_iter().flatten().flatten() {
                names += 1;
                if names > MAX_NAMES {
                    return locks;
                }
                let path = folder.join(&entry.name);
                match entry.kind {
                    FileKind::Folder if with_folders => folders.push(path),
                    FileKind::Regular
                        if path.extension().is_some_and(|end| end == "lock") && self.is_new(&path) =>
                    {
                        locks.push(path);
                    }
                    _ => {}
                }
            }
        }
        locks
    }

    fn is_new(&self, path: &Path) -> bool {
        super::watch::read_stamp(path).is_some_and(|stamp| stamp.was_touched_since(self.read_at))
    }
}

impl RepositoryTrace {
    fn find_head_move(&self) -> Option<HeadMove> {
        let length = log_length(&self.folder);
        let added = length
            .checked_sub(self.logged)
            .filter(|added| *added > 0 && *added <= MAX_LOG)?;
        let text = read_end(&self.folder.join("logs/HEAD"), self.logged, added)?;
        let first = text.lines().next()?;
        let last = text.lines().last()?;
        // OLD NEW NAME <ADDRESS> TIME ZONE TAB REASON (gitformat-reflog).
        let old = first.split(' ').next()?;
        let (head, reason) = last.split_once('\t').unwrap_or((last, ""));
        let new = head.split(' ').nth(1)?;
        (old != new).then(|| HeadMove {
            tree: self.tree.clone(),
            from: old.chars().take(SHOWN).collect(),
            to: new.chars().take(SHOWN).collect(),
            reason: one_line(reason, MAX_REASON),
            steps: text.lines().count(),
        })
    }
}

fn log_length(folder: &Path) -> u64 {
    let status = nofollow::status_of(&folder.join("logs/HEAD"));
    status.map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0))
}

fn read_end(path: &Path, from: u64, most: u64) -> Option<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = RegularFile::open(path).ok()?.into_file().ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn remove(lock: &Path) -> bool {
    let removed = OpenFolder::open_parent(lock).and_then(|(folder, name)| folder.remove_file(name));
    removed.is_ok()
}

/// Lists the files that processes of this user have open.
fn list_open_files() -> Vec<PathBuf> {
    let list = |folder: &Path| {
        let entries = OpenFolder::open(folder).and_then(|folder| folder.read_entries());
        entries.into_iter().flatten().flatten()
    };
    let processes = list(Path::new("/proc")).filter(|entry| entry.kind == FileKind::Folder);
    let tables = processes.map(|process| Path::new("/proc").join(process.name).join("fd"));
    let links = tables.flat_map(|table| {
        let folder = OpenFolder::open(&table).ok();
        list(&table).filter_map(move |entry| folder.as_ref()?.read_link(&entry.name).ok())
    });
    links.map(PathBuf::from).collect()
}
