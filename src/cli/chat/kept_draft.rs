//! Keeps what was typed but not sent, when the chat ends with its terminal or by a signal, for the next chat (I16).
//!
//! One file for each folder, which only its owner can read. Must not know the server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::base::hash::sha256;

/// The drafts, in the folder of the chat's history.
const FOLDER: &str = "chat_drafts";

/// The place of a folder's draft; `None` without a folder for the state of agentls.
pub(super) struct KeptDraft(Option<PathBuf>);

impl KeptDraft {
    pub(super) fn new(folder: &Path, state_dir: Option<&Path>) -> Self {
        let name = sha256(folder.as_os_str().as_encoded_bytes());
        Self(state_dir.map(|state_dir| state_dir.join(FOLDER).join(name)))
    }

    /// Adds a text to what is kept, unless it is empty.
    ///
    /// # Errors
    /// The disk refuses it.
    pub(super) fn add(&self, text: &str) -> io::Result<()> {
        let Some(path) = self.0.as_deref().filter(|_| !text.trim().is_empty()) else {
            return Ok(());
        };
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // Another chat of this folder may have kept a text in the meantime.
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        let separator = if file.metadata()?.len() > 0 { "\n" } else { "" };
        write!(file, "{separator}{text}")
    }

    /// Takes what is kept; `None` if that is nothing.
    pub(super) fn take(&self) -> Option<String> {
        let path = self.0.as_deref()?;
        let text = fs::read_to_string(path).ok()?;
        // If it cannot be removed, it comes back once more.
        let _ = fs::remove_file(path);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_kept_draft_comes_back_once_in_its_folder() {
        let state = tempfile::tempdir().unwrap();
        let of = |folder: &str| KeptDraft::new(Path::new(folder), Some(state.path()));
        of("/a").add(" ").unwrap();
        assert_eq!(of("/a").take(), None);
        of("/a").add("fix the\ntest").unwrap();
        of("/a").add("and more").unwrap();
        assert_eq!(of("/b").take(), None);
        let file = fs::read_dir(state.path().join(FOLDER))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(of("/a").take().as_deref(), Some("fix the\ntest\nand more"));
        assert_eq!(of("/a").take(), None);
        KeptDraft::new(Path::new("/a"), None).add("x").unwrap();
    }
}
