//! Reads a database whose list of tables is lost: a copy of it gets the list of a new database.
//!
//! The first migration makes its tables in the same places in every database. Others may be elsewhere in an old one, so
//! only those tables may be read in the copy, and no permissions.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::files::{self, remove_database, with_suffix};
use super::schema;

/// The size of a page, which is that of every new database.
const PAGE: usize = 4_096;
/// Where the first page has the number of pages, and after it where free pages begin and how many there are.
const PAGE_COUNT: usize = 28;
const FREE_PAGES: std::ops::Range<usize> = 32..40;
/// Where it has the number of changes, and that as of which the number of pages is right.
const CHANGES: std::ops::Range<usize> = 24..28;
const VALID_FOR: std::ops::Range<usize> = 92..96;

/// A copy of a database with a new list of tables. Dropping it removes it.
pub(super) struct SchemaCopy(PathBuf);

impl SchemaCopy {
    /// Makes the copy of a database; `None` if it has no pages besides the first.
    pub(super) fn make(path: &Path) -> Result<Option<Self>, StoreError> {
        let failed = |error| StoreError::from_io("copying", path, error);
        let length = path.metadata().map_err(failed)?.len();
        if length < 2 * PAGE as u64 {
            return Ok(None);
        }
        files::check_free_space("copying", path, 2 * length)?;
        let copy = Self(with_suffix(path, ".copy"));
        remove_database(&copy.0).map_err(failed)?;
        let page = copy.make_first_page(length)?;
        copy.write(path, &page).map_err(failed)?;
        Ok(Some(copy))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the first page of a new database, made for a file of this length.
    fn make_first_page(&self, length: u64) -> Result<[u8; PAGE], StoreError> {
        let created = schema::open(&self.0, schema::BUSY)?;
        created.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        created.close().map_err(|(_, error)| error)?;
        let mut page = [0; PAGE];
        let read = File::open(&self.0).and_then(|mut file| file.read_exact(&mut page));
        read.map_err(|error| StoreError::from_io("reading", &self.0, error))?;
        let pages = u32::try_from(length / PAGE as u64).unwrap_or(u32::MAX);
        page[PAGE_COUNT..PAGE_COUNT + 4].copy_from_slice(&pages.to_be_bytes());
        page[FREE_PAGES].fill(0);
        page.copy_within(CHANGES, VALID_FOR.start);
        Ok(page)
    }

    /// Writes the copy. No connection to the original matters any more, so it may lose its locks.
    fn write(&self, path: &Path, first_page: &[u8]) -> io::Result<()> {
        remove_database(&self.0)?;
        let mut file = files::private_file().write(true).create_new(true).open(&self.0)?;
        io::copy(&mut File::open(path)?, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(first_page)?;
        match fs::copy(with_suffix(path, "-wal"), with_suffix(&self.0, "-wal")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for SchemaCopy {
    fn drop(&mut self) {
        if let Err(error) = remove_database(&self.0) {
            tracing::warn!(%error, "a copy of the session store is left");
        }
    }
}
