//! Loads a file's current text: the editor's if it has unsaved text, else the disk's (R-TOOL-3).
//!
//! Tools and prompts open workspace files only through [`open`], which accepts nothing but regular files. Must not
//! resolve paths: callers pass resolved ones.

use std::io;
use std::path::{Path, PathBuf};

use super::overlay::{Buffer, Overlay};
use super::text_file::{MAX_TEXT, NotText, TextFile};
use crate::base::nofollow::{FileKind, OpenError, RegularFile};

/// The current text of a file.
#[derive(Clone, Debug)]
pub struct LoadedFile {
    /// A buffer's encoding on disk is unknown, so its text counts as UTF-8.
    pub file: TextFile,
    pub buffer: Buffer,
}

/// The reason why a file has no text.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("`{0}` does not exist")]
    Missing(PathBuf),
    #[error("`{0}` is a folder")]
    Folder(PathBuf),
    /// A pipe, a socket, a device, or a link that was created after the path was resolved.
    #[error("`{0}` is {1}; only regular files are read")]
    Special(PathBuf, FileKind),
    /// Longer than [`MAX_TEXT`].
    #[error("`{path}` is too large ({} MiB, at most {} MiB)", .bytes >> 20, MAX_TEXT >> 20)]
    TooLarge { path: PathBuf, bytes: u64 },
    /// It is not text, or not text that can be written back.
    #[error("`{path}` cannot be read as text: {source}")]
    NotText { path: PathBuf, source: NotText },
    #[error("cannot read `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Loads the current text of the resolved `path`. Blocks.
///
/// # Errors
/// There is no regular file, or it is larger than [`MAX_TEXT`], not text, or not readable.
pub fn load_file(overlay: &Overlay, path: &Path) -> Result<LoadedFile, LoadError> {
    let buffer = overlay.lookup_buffer(path);
    let file = match &buffer {
        Buffer::Unsaved(document) => TextFile {
            text: document.text.to_string(),
            ..TextFile::default()
        },
        // An unknown buffer may differ from the disk; the caller sees that in `buffer`.
        Buffer::Saved | Buffer::Unknown => from_disk(path)?,
    };
    Ok(LoadedFile { file, buffer })
}

/// Opens the regular file at the resolved `path`: the only way for a tool or a prompt to read a workspace file.
///
/// # Errors
/// There is no regular file, or it cannot be opened.
pub fn open(path: &Path) -> Result<RegularFile, LoadError> {
    RegularFile::open(path).map_err(|error| LoadError::from_open_error(path, error))
}

/// Reads the text of `path` from the disk. Blocks.
///
/// # Errors
/// As for [`load_file`].
pub fn from_disk(path: &Path) -> Result<TextFile, LoadError> {
    from_file(path, &mut open(path)?)
}

/// Reads the text of `file`, which was opened at `path`. Guesses an old encoding. Blocks.
///
/// # Errors
/// The file is larger than [`MAX_TEXT`], not text, or not readable.
pub fn from_file(path: &Path, file: &mut RegularFile) -> Result<TextFile, LoadError> {
    let bytes = file
        .read(MAX_TEXT as u64)
        .map_err(|error| LoadError::from_open_error(path, error))?;
    TextFile::from_any_bytes(bytes).map_err(|source| LoadError::NotText {
        path: path.to_owned(),
        source,
    })
}

impl LoadError {
    fn from_open_error(path: &Path, error: OpenError) -> Self {
        let path = path.to_owned();
        match error {
            OpenError::Missing => Self::Missing(path),
            OpenError::NotRegular(FileKind::Folder) => Self::Folder(path),
            OpenError::NotRegular(kind) => Self::Special(path, kind),
            OpenError::TooLarge { bytes, .. } => Self::TooLarge { path, bytes },
            OpenError::Io(source) => Self::Io { path, source },
        }
    }
}
#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn errors_say_why_there_is_no_text() {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("binary"), b"a\0b").unwrap();
        fs::write(path("mixed"), b"\xc3\xa4 \xc3\xa4 \xe4").unwrap();
        fs::File::create(path("large"))
            .unwrap()
            .set_len(MAX_TEXT as u64 + 1)
            .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for (name, text) in [
            ("missing", "does not exist"),
            ("", "is a folder"),
            ("binary", "it is a binary file"),
            ("mixed", "not UTF-8 (line 1)"),
            ("large", "too large (32 MiB, at most 32 MiB)"),
            ("socket", "is a socket; only regular files are read"),
        ] {
            let error = load_file(&Overlay::default(), &path(name))
                .unwrap_err()
                .to_string();
            assert!(error.contains(text), "{name}: {error}");
        }
    }
}
