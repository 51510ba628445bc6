//! What a command leaves in git's folders: a moved HEAD, and the locks of a git that was killed.
//!
//! Reads names, times, and the log of HEAD; removes only locks. Starts nothing. Blocks.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::file_stamp::read_stamp;
use super::git_folder::{find_common_folder, find_git_folder};
use crate::base::clock;
use crate::base::nofollow::{self, OpenFolder, RegularFile};
use crate::base::text::one_line;

/// Longest part of the log of HEAD that is read, in bytes. A rebase writes a line for each commit.
const MAX_LOG: u64 = 256 << 10;
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
    /// Where git keeps what belongs to the work tree, and what it shares with others.
    folders: Vec<PathBuf>,
    locks: BTreeSet<PathBuf>,
    /// The last line of the log of HEAD; empty if there is none.
    last_line: String,
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
    /// Number of steps: the former commit is `HEAD@{steps}`. `None` if there was no commit.
    pub steps: Option<usize>,
}

impl GitTraces {
    /// Reads the state of the repositories of these work trees.
    pub fn read(trees: &[PathBuf]) -> Self {
        // Before the locks: one that is made meanwhile is not older.
        let read_at = u128::try_from(clock::wall_ms()).unwrap_or(0) * 1_000_000;
        Self {
            repositories: trees
                .iter()
                .filter_map(|tree| RepositoryTrace::read(tree))
                .collect(),
            read_at,
        }
    }

    /// Finds the HEADs that have moved since then.
    pub fn find_head_moves(&self) -> Vec<HeadMove> {
        self.repositories
            .iter()
            .filter_map(RepositoryTrace::find_head_move)
            .collect()
    }

    /// Removes the locks that were made since then, unless a git runs that may need them. Returns their paths.
    ///
    /// Only call it after all processes of the command have ended: git removes its locks unless it is killed.
    pub fn remove_new_locks(&self) -> Vec<PathBuf> {
        let mut locks = Vec::new();
        for repository in &self.repositories {
            let new = list_locks(&repository.folders).into_iter().filter(|lock| {
                let stamp = read_stamp(lock);
                !repository.locks.contains(lock)
                    && stamp.is_some_and(|stamp| stamp.was_touched_since(self.read_at))
            });
            locks.extend(new);
        }
        // A git of the user does not keep its locks open while it waits for an editor.
        let trees = self.repositories.iter().map(|repository| &repository.tree);
        let folders = self
            .repositories
            .iter()
            .flat_map(|repository| &repository.folders);
        let places: Vec<&Path> = trees.chain(folders).map(PathBuf::as_path).collect();
        if locks.is_empty() || is_git_running(&places) {
            return Vec::new();
        }
        locks.retain(|lock| {
            let removed = OpenFolder::open_parent(lock).and_then(|(folder, name)| folder.remove_file(name));
            removed.is_ok()
        });
        locks
    }
}

impl RepositoryTrace {
    fn read(tree: &Path) -> Option<Self> {
        let own = find_git_folder(tree)?;
        let mut folders = vec![own.clone()];
        folders.extend(find_common_folder(&own).filter(|common| *common != own));
        Some(Self {
            tree: tree.to_owned(),
            locks: list_locks(&folders).into_iter().collect(),
            last_line: read_log(&own).lines().last().unwrap_or_default().to_owned(),
            folders,
        })
    }

    fn find_head_move(&self) -> Option<HeadMove> {
        let log = read_log(self.folders.first()?);
        let lines: Vec<&str> = log.lines().collect();
        // Git may have dropped old lines meanwhile, but not the last one.
        let known = lines.iter().rposition(|line| *line == self.last_line);
        let start = match known {
            Some(at) => at + 1,
            None if self.last_line.is_empty() => 0,
            None => return None,
        };
        let added = lines.get(start..)?;
        // OLD NEW NAME <ADDRESS> TIME ZONE TAB REASON (gitformat-reflog).
        let from = added.first()?.split(' ').next()?;
        let (head, reason) = added.last()?.split_once('\t').unwrap_or((added.last()?, ""));
        let to = head.split(' ').nth(1)?;
        let is_name = |text: &str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let shorten = |name: &str| name.chars().take(SHOWN).collect();
        (is_name(from) && is_name(to) && from != to).then(|| HeadMove {
            tree: self.tree.clone(),
            from: shorten(from),
            to: shorten(to),
            reason: one_line(reason, MAX_REASON),
            steps: from.bytes().any(|byte| byte != b'0').then_some(added.len()),
        })
    }
}

/// Reads the end of the log of HEAD.
fn read_log(folder: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = RegularFile::open(&folder.join("logs/HEAD"))
            .map_err(io::Error::other)?
            .into_file()?;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Lists the locks directly in git's folders. Those of branches are in other ones, and stay.
fn list_locks(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut locks = Vec::new();
    for folder in folders {
        let entries = OpenFolder::open(folder).and_then(|folder| folder.read_entries());
        let paths = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| folder.join(&entry.name));
        locks.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "lock")));
    }
    locks
}

/// Returns whether a git runs in one of the folders, or if that is unknown.
fn is_git_running(folders: &[&Path]) -> bool {
    let processes = OpenFolder::open(Path::new("/proc")).and_then(|folder| folder.read_entries());
    let Ok(processes) = processes else { return true };
    let mut seen = 0;
    for process in processes.flatten() {
        let process = Path::new("/proc").join(process.name);
        let Ok(name) = nofollow::read(&process.join("comm"), 64) else {
            continue;
        };
        seen += 1;
        if !name.starts_with(b"git") {
            continue;
        }
        // Git goes to the top of its work tree. It may have ended meanwhile.
        let place = OpenFolder::open(&process).and_then(|process| process.read_link("cwd".as_ref()));
        let is_elsewhere = match place {
            Ok(place) => !folders.iter().any(|folder| Path::new(&place).starts_with(folder)),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_elsewhere {
            return true;
        }
    }
    seen == 0
}
