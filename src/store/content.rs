//! Long outputs of tools whose results were cut: one file each, read back in pieces.
//!
//! The files of a session are deleted with it. Knows nothing of tools or references.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::PathBuf;

use super::error::StoreError;
use super::files::{self, DataDir, StorePlace};
use crate::base::text;
use crate::domain::{ContentRef, SessionId};

/// Largest size of one file in bytes, without the note about a cut.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Longest piece that one read returns, in bytes.
const PIECE: usize = 1 << 20;

/// Stores and reads long outputs.
#[derive(Clone, Debug)]
pub struct OutputStore {
    folder: DataDir,
    executor: StorePlace,
}

/// A growing file of at most 64 MiB. The rest is dropped, which a note at the end of the file says.
#[derive(Debug)]
pub struct Spool {
    name: String,
    path: PathBuf,
    file: File,
    bytes: u64,
    most: u64,
    cut: u64,
}

/// A piece of stored content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPiece {
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Start of the piece: the requested offset, or up to 3 bytes before.
    pub offset: u64,
    /// Start of the next piece.
    pub next: u64,
    /// Length of the whole content, in bytes.
    pub total: u64,
}

impl OutputStore {
    pub(super) fn new(folder: DataDir, executor: StorePlace) -> Self {
        Self { folder, executor }
    }

    /// Creates a file, or empties an existing one of that name. Blocks briefly.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for a name that cannot be a file name, or an I/O error.
    pub fn open_spool(&self, session: &SessionId, name: &str) -> Result<Spool, StoreError> {
        let folder = self.folder.content_dir(session)?;
        let path = folder.join(files::validate_name(name)?);
        files::private_folder(&folder).map_err(|e| StoreError::from_io("making the folder", &folder, e))?;
        let file = files::private_file()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| StoreError::from_io("opening", &path, e))?;
        Ok(Spool {
            name: name.to_owned(),
            path,
            file,
            bytes: 0,
            most: MAX_FILE_BYTES,
            cut: 0,
        })
    }

    /// Opens a stored content. Returns `None` if there is none. Blocks briefly.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for a name that cannot be a file name, or an I/O error.
    pub fn open_file(&self, session: &SessionId, name: &str) -> Result<Option<File>, StoreError> {
        let path = self
            .folder
            .content_dir(session)?
            .join(files::validate_name(name)?);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
        match opened {
            Ok((is_file, file)) => Ok(is_file.then_some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::from_io("opening", path, error)),
        }
    }

    /// Makes everything stored for `from` available to `to`.
    ///
    /// Each file gets a second name, which outlives the first one.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for an id that cannot be a file name, or an I/O error.
    pub async fn share_files(&self, from: &SessionId, to: &SessionId) -> Result<(), StoreError> {
        let (from, to) = (self.folder.content_dir(from)?, self.folder.content_dir(to)?);
        let work = move || link_all(&from, &to).map_err(|e| StoreError::from_io("sharing", from, e));
        self.executor.run_work(work).await
    }

    /// Reads up to `limit` bytes (at most 1 MiB, at least one character) from `offset`.
    ///
    /// Returns `None` if there is no such content.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for a name that cannot be a file name, or an I/O error.
    pub async fn read(
        &self,
        session: &SessionId,
        name: &str,
        offset: u64,
        limit: usize,
    ) -> Result<Option<ContentPiece>, StoreError> {
        let path = self
            .folder
            .content_dir(session)?
            .join(files::validate_name(name)?);
        self.executor
            .run_work(move || match read_piece(&path, offset, limit) {
                Ok(piece) => Ok(Some(piece)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StoreError::from_io("reading", path, error)),
            })
            .await
    }
}

impl Spool {
    /// Appends `text`. Blocks as long as a write into the page cache.
    ///
    /// # Errors
    /// An I/O error of the file.
    pub fn append_text(&mut self, text: &str) -> Result<(), StoreError> {
        // The note at the end is not counted, so `bytes` never exceeds `most` here.
        let available = usize::try_from(self.most - self.bytes).unwrap_or(usize::MAX);
        let fits = match self.cut {
            0 => text::prefix_within(text, available),
            // Nothing may follow a gap.
            _ => "",
        };
        self.write(fits)?;
        self.bytes += fits.len() as u64;
        self.cut += (text.len() - fits.len()) as u64;
        Ok(())
    }

    /// Ends the file, with a note about the dropped part.
    ///
    /// # Errors
    /// An I/O error of the file.
    pub fn finish(mut self) -> Result<ContentRef, StoreError> {
        if self.cut > 0 {
            let truncation_notice = format!("\n[… {} bytes more were not kept …]\n", self.cut);
            self.write(&truncation_notice)?;
            self.bytes += truncation_notice.len() as u64;
        }
        Ok(ContentRef {
            name: self.name,
            bytes: self.bytes,
        })
    }

    fn write(&mut self, text: &str) -> Result<(), StoreError> {
        self.file
            .write_all(text.as_bytes())
            .map_err(|e| StoreError::from_io("writing", &self.path, e))
    }
}

/// Creates a second name below `to` for all files below `from`. A missing `from` is not an error.
fn link_all(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    files::private_folder(to)?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link_all(&path, &name)?;
        } else if fs::hard_link(&path, &name).is_err() {
            // Some file systems do not support hard links.
            fs::copy(&path, &name)?;
        }
    }
    Ok(())
}

fn read_piece(path: &std::path::Path, offset: u64, limit: usize) -> io::Result<ContentPiece> {
    // A character has at most 4 bytes: read three before the offset to find its start, and three after the end.
    const AROUND: u64 = 3;
    let limit = limit.clamp(1, PIECE);
    let mut file = fs::File::open(path)?;
    let total = file.metadata()?.len();
    let wanted = offset.min(total);
    let from = wanted.saturating_sub(AROUND);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(wanted - from + limit as u64 + AROUND)
        .read_to_end(&mut bytes)?;
    let mut start = (wanted - from) as usize;
    while start > 0 && start < bytes.len() && is_inside(bytes[start]) {
        start -= 1;
    }
    let mut end = (start + limit).min(bytes.len());
    while end > start && end < bytes.len() && is_inside(bytes[end]) {
        end -= 1;
    }
    if end == start {
        // Not even one character fits: return that one completely.
        end = (start + 1).min(bytes.len());
        while end < bytes.len() && is_inside(bytes[end]) {
            end += 1;
        }
    }
    Ok(ContentPiece {
        text: String::from_utf8_lossy(&bytes[start..end]).into_owned(),
        offset: from + start as u64,
        next: from + end as u64,
        total,
    })
}

/// Whether the byte continues a character that started before it.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> (tempfile::TempDir, OutputStore, SessionId) {
        let folder = tempfile::tempdir().unwrap();
        let content = OutputStore::new(DataDir::new(folder.path().to_owned()), StorePlace::Inline);
        (folder, content, SessionId::from("ses_1"))
    }

    #[tokio::test]
    async fn a_spool_stops_at_its_limit_and_notes_the_rest() {
        let (_folder, content, session) = content();
        let mut spool = content.open_spool(&session, "call_1").unwrap();
        spool.most = 8;
        for piece in ["abcdef", "éé", "x"] {
            spool.append_text(piece).unwrap();
        }
        assert_eq!(spool.cut, 3);
        let reference = spool.finish().unwrap();
        let piece = content.read(&session, "call_1", 0, 1_000).await.unwrap().unwrap();
        assert_eq!(piece.text, "abcdefé\n[… 3 bytes more were not kept …]\n");
        assert_eq!((piece.next, piece.total), (reference.bytes, reference.bytes));
    }

    #[tokio::test]
    async fn pieces_start_and_end_on_character_boundaries() {
        let (_folder, content, session) = content();
        let mut spool = content.open_spool(&session, "x").unwrap();
        spool.append_text("aé😀z").unwrap();
        spool.finish().unwrap();
        for (offset, limit, text, at, next) in [
            (0, 1, "a", 0, 1),
            (0, 2, "a", 0, 1),
            (1, 1, "é", 1, 3),
            (2, 2, "é", 1, 3),
            (5, 1, "😀", 3, 7),
            (3, 4, "😀", 3, 7),
            (7, 100, "z", 7, 8),
            (8, 100, "", 8, 8),
            (99, 100, "", 8, 8),
        ] {
            let piece = content.read(&session, "x", offset, limit).await.unwrap().unwrap();
            assert_eq!(
                (piece.text.as_str(), piece.offset, piece.next),
                (text, at, next),
                "{offset} {limit}"
            );
        }
        assert_eq!(content.read(&session, "y", 0, 1).await.unwrap(), None);
        assert!(content.read(&session, "../x", 0, 1).await.is_err());
    }

    #[test]
    fn only_stored_outputs_of_the_session_open() {
        let (folder, content, session) = content();
        content.open_spool(&session, "x").unwrap().finish().unwrap();
        std::fs::create_dir(folder.path().join("content/ses_1/files")).unwrap();
        std::fs::write(folder.path().join("store.db"), "").unwrap();
        let opens = |name: &str| content.open_file(&session, name).map(|file| file.is_some());
        assert!(opens("x").unwrap());
        for name in ["files", "y"] {
            assert!(!opens(name).unwrap(), "{name}");
        }
        for name in ["../../store.db", "..", "", "/etc/passwd", "files/x"] {
            assert!(opens(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn pieces_join_to_the_whole_text(whole in "\\PC{0,40}", limit in 1_usize..9) {
            let (_folder, content, session) = content();
            let mut spool = content.open_spool(&session, "x").unwrap();
            spool.append_text(&whole).unwrap();
            spool.finish().unwrap();
            let path = content.folder.content_dir(&session).unwrap().join("x");
            let (mut at, mut joined) = (0, String::new());
            loop {
                let piece = read_piece(&path, at, limit).unwrap();
                prop_assert_eq!(piece.offset, at);
                if piece.next == at {
                    break;
                }
                joined += &piece.text;
                at = piece.next;
            }
            prop_assert_eq!(joined, whole);
        }
    }
}
