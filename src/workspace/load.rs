//! A file's present text: the editor's where it holds unsaved text, else the disk's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::overlay::{Buffer, Overlay};
use super::text_file::{MAX_TEXT, NotText, TextFile};

/// A file's present text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The text. Of a buffer the encoding is not known and stands as UTF-8.
    pub file: TextFile,
    /// What the editor holds of it.
    pub buffer: Buffer,
}

/// Why a file has no text.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing is there.
    #[error("`{0}` does not exist")]
    Missing(PathBuf),
    /// A folder.
    #[error("`{0}` is a folder")]
    Folder(PathBuf),
    /// A pipe, a socket, a device.
    #[error("`{0}` is not a regular file")]
    Special(PathBuf),
    /// Longer than [`MAX_TEXT`].
    #[error("`{path}` is too large ({} MiB, at most {} MiB)", .bytes >> 20, MAX_TEXT >> 20)]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// It is no text that we can write back.
    #[error("`{path}` cannot be read as text: {source}")]
    NotText {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: NotText,
    },
    /// The disk said no.
    #[error("cannot read `{path}`: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The present text of the resolved `path`. Blocks.
pub fn load(overlay: &Overlay, path: &Path) -> Result<Loaded, LoadError> {
    let buffer = overlay.look(path);
    let file = match &buffer {
        Buffer::Unsaved(document) => TextFile {
            text: document.text.to_string(),
            ..TextFile::default()
        },
        Buffer::Saved | Buffer::Unknown => from_disk(path)?,
    };
    Ok(Loaded { file, buffer })
}

/// What is at `path`, if it is a regular file. Blocks.
pub fn regular_file(path: &Path) -> Result<fs::Metadata, LoadError> {
    let path = || path.to_owned();
    match fs::metadata(path()) {
        Ok(meta) if meta.is_file() => Ok(meta),
        Ok(meta) if meta.is_dir() => Err(LoadError::Folder(path())),
        Ok(_) => Err(LoadError::Special(path())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LoadError::Missing(path())),
        Err(source) => Err(LoadError::Io { path: path(), source }),
    }
}

/// The text of `path` on the disk. Blocks.
pub fn from_disk(path: &Path) -> Result<TextFile, LoadError> {
    // Looked at before it is opened: opening a pipe would wait for ever.
    let bytes = regular_file(path)?.len();
    if bytes > MAX_TEXT as u64 {
        return Err(LoadError::TooLarge {
            path: path.to_owned(),
            bytes,
        });
    }
    let bytes = fs::read(path).map_err(|source| LoadError::Io {
        path: path.to_owned(),
        source,
    })?;
    TextFile::decode(bytes).map_err(|source| LoadError::NotText {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn says_why_there_is_no_text() {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("binary"), b"a\0b").unwrap();
        fs::write(path("latin1"), b"\xe4").unwrap();
        fs::File::create(path("large"))
            .unwrap()
            .set_len(MAX_TEXT as u64 + 1)
            .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for (name, text) in [
            ("missing", "does not exist"),
            ("", "is a folder"),
            ("binary", "it is a binary file"),
            ("latin1", "not UTF-8 (line 1)"),
            ("large", "too large (32 MiB, at most 32 MiB)"),
            ("socket", "not a regular file"),
        ] {
            let error = load(&Overlay::default(), &path(name)).unwrap_err().to_string();
            assert!(error.contains(text), "{name}: {error}");
        }
    }
}
