//! Records what the model has seen of files (R-TOOL-3): the hash of each file's text when it last read or wrote it.
//!
//! One log per session and sub-agent. It is not stored, so after them all files count as unread. Only hashes decide,
//! not time stamps: every edit reads the file anyway, and a stamp misses a change within its resolution.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::text_file::unix_lines;

/// A 64-bit hash of a text that ignores line ends, since an editor may report others than the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextHash(u64);

impl TextHash {
    /// Computes the hash of `text`.
    pub(super) fn from_text(text: &str) -> Self {
        // The hash is never stored, so it may differ between runs.
        let mut hasher = DefaultHasher::new();
        unix_lines(text).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// How a file's text compares with what the model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenVersion {
    /// The model has never read the file.
    Never,
    /// The text is as the model last saw it.
    Same,
    /// The text is not what the model saw.
    Changed,
}

/// The texts that the model knows, by resolved path.
#[derive(Debug, Default)]
pub struct ReadLog {
    text_hashes: Mutex<HashMap<PathBuf, TextHash>>,
}

impl ReadLog {
    /// Records that the model knows `text` as the text of `path`: it read or wrote it.
    pub fn record_text(&self, path: &Path, text: &str) {
        self.lock().insert(path.to_owned(), TextHash::from_text(text));
    }

    /// Compares the current `text` of `path` with what the model knows.
    pub fn compare_text(&self, path: &Path, text: &str) -> SeenVersion {
        match self.lock().get(path) {
            None => SeenVersion::Never,
            Some(hash) if *hash == TextHash::from_text(text) => SeenVersion::Same,
            Some(_) => SeenVersion::Changed,
        }
    }

    /// Lists all files that the model has seen.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, TextHash>> {
        self.text_hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_a_text_with_what_was_seen() {
        let log = ReadLog::default();
        let path = Path::new("/a");
        assert_eq!(log.compare_text(path, "x"), SeenVersion::Never);
        log.record_text(path, "x");
        assert_eq!(log.compare_text(path, "x"), SeenVersion::Same);
        assert_eq!(log.compare_text(path, "y"), SeenVersion::Changed);
        log.record_text(path, "a\r\nb");
        assert_eq!(log.compare_text(path, "a\nb"), SeenVersion::Same);
    }
}
