//! Records what the model has seen of files (R-TOOL-3): the hash of each file's text when it last read or wrote it.
//!
//! One log per session and sub-agent. It is not stored, so after them all files count as unread. Only hashes decide,
//! not time stamps: every edit reads the file anyway, and a stamp misses a change within its resolution. The texts of
//! the last files are kept too, to tell the model what has changed.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Largest text that is kept, in bytes.
const LARGEST_KEPT: usize = 128 << 10;
/// Most bytes of kept texts in a log.
const MOST_KEPT: usize = 1 << 20;

/// The texts that the model knows, by resolved path.
#[derive(Debug, Default)]
pub struct ReadLog {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    text_hashes: HashMap<PathBuf, TextHash>,
    /// The latest last.
    kept: VecDeque<(PathBuf, Arc<str>)>,
}

impl ReadLog {
    /// Records that the model knows `text` as the text of `path`: it read or wrote it.
    pub fn record_text(&self, path: &Path, text: &str) {
        let mut seen = self.lock();
        seen.text_hashes
            .insert(path.to_owned(), TextHash::from_text(text));
        seen.kept.retain(|(kept, _)| kept != path);
        if text.len() <= LARGEST_KEPT {
            seen.kept.push_back((path.to_owned(), text.into()));
        }
        while seen.kept.iter().map(|(_, text)| text.len()).sum::<usize>() > MOST_KEPT {
            seen.kept.pop_front();
        }
    }

    /// Returns the text of `path` that the model knows, if it is kept.
    pub fn find_text(&self, path: &Path) -> Option<Arc<str>> {
        let seen = self.lock();
        let mut kept = seen.kept.iter();
        kept.find(|(kept, _)| kept == path).map(|(_, text)| text.clone())
    }

    /// Compares the current `text` of `path` with what the model knows.
    pub fn compare_text(&self, path: &Path, text: &str) -> SeenVersion {
        match self.lock().text_hashes.get(path) {
            None => SeenVersion::Never,
            Some(hash) if *hash == TextHash::from_text(text) => SeenVersion::Same,
            Some(_) => SeenVersion::Changed,
        }
    }

    /// Lists all files that the model has seen.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        self.lock().text_hashes.keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn keeps_the_latest_texts_within_a_bound() {
        let log = ReadLog::default();
        let text = |number: usize| number.to_string().repeat(LARGEST_KEPT / 2);
        for number in 0..9 {
            log.record_text(Path::new(&number.to_string()), &text(number));
            log.record_text(Path::new(&number.to_string()), &text(number).repeat(2));
        }
        let kept = (0..9).filter(|number| log.find_text(Path::new(&number.to_string())).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Too large: the older text is not what the model knows.
        log.record_text(Path::new("8"), &text(8).repeat(3));
        assert_eq!(log.find_text(Path::new("8")), None);
    }
}
