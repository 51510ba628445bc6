//! Finds the files that git does not have as they are, looking again only at what has changed since the last time.
//!
//! Blocks. Compares sizes and times, as git does. Must not keep files, or judge commands.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::file_stamp::FileStamp;
use super::git_index::GitIndex;
use super::watch::WatchedTree;

/// Remembers what was found the last time.
#[derive(Debug, Default)]
pub struct OwnFiles(Mutex<Option<LastLook>>);

#[derive(Debug)]
struct LastLook {
    watched: WatchedTree,
    /// The versions of the indexes.
    versions: Vec<Vec<u8>>,
    own: Vec<PathBuf>,
}

impl OwnFiles {
    /// Returns the files of a snapshot that git does not have as they are, with their stamps.
    pub fn find(&self, watched: &WatchedTree, indexes: &[GitIndex]) -> Vec<(PathBuf, FileStamp)> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let versions: Vec<Vec<u8>> = indexes.iter().map(GitIndex::version).collect();
        let mut candidates = match last.as_ref().filter(|last| last.versions == versions) {
            Some(last) => watched.list_differing_files(&last.watched, &last.own),
            None => watched
                .iter_files()
                .map(|(path, stamp)| (path.clone(), stamp))
                .collect(),
        };
        remove_clean_files(&mut candidates, indexes);
        *last = Some(LastLook {
            watched: watched.clone(),
            versions,
            own: candidates.iter().map(|(path, _)| path.clone()).collect(),
        });
        candidates
    }
}

fn remove_clean_files(files: &mut Vec<(PathBuf, FileStamp)>, indexes: &[GitIndex]) {
    if files.is_empty() {
        return;
    }
    let mut in_git: HashSet<PathBuf> = HashSet::new();
    for index in indexes {
        let below = files.iter().filter(|(path, _)| path.starts_with(index.root()));
        let below = below.map(|(path, stamp)| (path.as_path(), *stamp));
        let clean = index.find_clean_files(below);
        in_git.extend(clean.into_iter().map(|file| file.path));
    }
    files.retain(|(path, _)| !in_git.contains::<Path>(path));
}
