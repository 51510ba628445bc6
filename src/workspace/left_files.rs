//! Finds what commands leave in the temporary folder of their session, which nobody else sees and which goes with it.
//!
//! Looks only at the top of the folder, and at what is next to the paths that are mounted into it. Reports each entry
//! once. Must not know tools; they word the report.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::base::nofollow::{FileKind, OpenFolder};

/// Most folders that are looked at after a command.
const MAX_FOLDERS: usize = 16;
/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 256;
/// Most entries that are reported in a session. What comes later is litter of programs.
const MAX_REPORTED: usize = 500;

/// What commands left in their temporary folder since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFiles {
    /// Below the folder, sorted; the path of a folder ends with a slash. Never empty.
    pub names: Vec<OsString>,
    /// Where the commands find the folder.
    pub folder: PathBuf,
    /// Whether it replaces the machine's `/tmp`.
    pub has_own_tmp: bool,
    /// Whether the session has had no such report before.
    pub is_first: bool,
}

/// What is known of a session's temporary folder.
#[derive(Debug, Default)]
pub(super) struct LeftFilesLog {
    inner: Mutex<LogInner>,
}

#[derive(Debug, Default)]
struct LogInner {
    /// Paths below the folder where others are mounted, or links lead to them.
    mounted: BTreeSet<PathBuf>,
    reported: BTreeSet<PathBuf>,
}

impl LeftFilesLog {
    /// Records paths below the folder that are those of the machine.
    pub(super) fn add_mounted(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.lock().mounted.extend(paths);
    }

    /// Takes the entries of `temp` that were not taken before, and returns whether they are the first. Blocks.
    pub(super) fn take_new(&self, temp: &Path) -> (Vec<OsString>, bool) {
        let mut inner = self.lock();
        let is_first = inner.reported.is_empty();
        let mut names = Vec::new();
        for folder in inner.list_folders() {
            // Commands could have put links there.
            let opened = OpenFolder::open(&temp.join(&folder));
            let Ok(entries) = opened.and_then(|opened| opened.read_entries()) else {
                continue;
            };
            for entry in entries.take(MAX_ENTRIES).flatten() {
                let path = folder.join(&entry.name);
                let is_mounted = inner.mounted.iter().any(|mounted| mounted.starts_with(&path));
                if is_mounted || inner.reported.len() >= MAX_REPORTED || !inner.reported.insert(path.clone())
                {
                    continue;
                }
                let mut name = path.into_os_string();
                if entry.kind == FileKind::Folder {
                    name.push("/");
                }
                names.push(name);
            }
        }
        names.sort();
        (names, is_first)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogInner {
    /// Lists the folders that commands can fill: the top, and those around what is mounted.
    fn list_folders(&self) -> Vec<PathBuf> {
        let around = self.mounted.iter().flat_map(|path| path.ancestors().skip(1));
        let is_own = |folder: &&Path| !self.mounted.iter().any(|mounted| folder.starts_with(mounted));
        let own: BTreeSet<&Path> = around.filter(is_own).chain([Path::new("")]).collect();
        own.into_iter().take(MAX_FOLDERS).map(Path::to_path_buf).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn take(log: &LeftFilesLog, temp: &Path) -> (Vec<String>, bool) {
        let (names, is_first) = log.take_new(temp);
        let names = names.into_iter().map(|name| name.into_string().unwrap());
        (names.collect(), is_first)
    }

    #[test]
    fn each_entry_is_reported_once_and_no_deeper_than_at_the_top() {
        let temp = tempfile::tempdir().unwrap();
        let log = LeftFilesLog::default();
        assert_eq!(take(&log, temp.path()), (Vec::new(), true));
        fs::create_dir(temp.path().join("out")).unwrap();
        fs::write(temp.path().join("out/deep"), "").unwrap();
        fs::write(temp.path().join("a.txt"), "").unwrap();
        let names = ["a.txt", "out/"].map(str::to_owned).to_vec();
        assert_eq!(take(&log, temp.path()), (names, true));
        fs::write(temp.path().join("out/more"), "").unwrap();
        assert_eq!(take(&log, temp.path()), (Vec::new(), false));
        fs::write(temp.path().join("b"), "").unwrap();
        assert_eq!(take(&log, temp.path()), (vec!["b".to_owned()], false));
    }

    #[test]
    fn what_is_mounted_is_not_reported_but_what_is_next_to_it() {
        let temp = tempfile::tempdir().unwrap();
        let log = LeftFilesLog::default();
        log.add_mounted(["tools", "work/ws", "tools/cache/npm"].map(PathBuf::from));
        for folder in ["tools/cache", "work/ws", "work/other"] {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        fs::write(temp.path().join("work/ws/file"), "").unwrap();
        assert_eq!(take(&log, temp.path()), (vec!["work/other/".to_owned()], true));
        // A command that exchanges the folder around the workspace learns nothing of others.
        fs::rename(temp.path().join("work"), temp.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("/usr", temp.path().join("work")).unwrap();
        assert_eq!(take(&log, temp.path()), (vec!["moved/".to_owned()], false));
    }

    #[test]
    fn a_folder_full_of_files_costs_a_bounded_time() {
        let temp = tempfile::tempdir().unwrap();
        for number in 0..MAX_ENTRIES + 50 {
            fs::write(temp.path().join(number.to_string()), "").unwrap();
        }
        let log = LeftFilesLog::default();
        assert_eq!(take(&log, temp.path()).0.len(), MAX_ENTRIES);
    }
}
