//! Reads a database whose list of tables is damaged: a copy of it gets a new list.
//!
//! The first migration makes its tables in the same places in every database, so the new list has those that sessions
//! need. It has others only if the damaged list still shows where they are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::files::{self, FileIdentity, remove_database, with_suffix};

/// The size of a page, which is that of every new database.
const PAGE: usize = 4_096;
/// The first byte of a list of tables, and its value if the list is on the first page only.
const LIST: usize = 100;
const LEAF: u8 = 13;
/// Where the first page has the number of pages, and after it where free pages begin and how many there are.
const PAGE_COUNT: usize = 28;
const FREE_PAGES: std::ops::Range<usize> = 32..40;
/// Where it has the number of changes, and that as of which the number of pages is right.
const CHANGES: std::ops::Range<usize> = 24..28;
const VALID_FOR: std::ops::Range<usize> = 92..96;

/// The tables that sessions need. They are in the same places in every database.
const FIXED: [&str; 4] = ["sessions", "events", "pending", "sqlite_sequence"];

/// The originals of copies. Closing one would release all locks of this process on it.
static ORIGINALS: Mutex<Vec<(FileIdentity, File)>> = Mutex::new(Vec::new());

/// Where the tables of a database begin, by name.
pub(super) type TablePages = BTreeMap<String, i64>;

/// A copy of a database with a new list of tables. Dropping it removes it.
pub(super) struct SchemaCopy(PathBuf);

impl SchemaCopy {
    /// Makes the copy of a database; `listed` are the tables that it still lists, and `model` is a new database. `None` if
    /// it has no pages besides the first.
    pub(super) fn make(
        path: &Path,
        listed: &TablePages,
        model: &Connection,
    ) -> Result<Option<Self>, StoreError> {
        let failed = |error| StoreError::from_io("copying", path, error);
        let length = path.metadata().map_err(failed)?.len();
        if length < 2 * PAGE as u64 {
            return Ok(None);
        }
        files::check_free_space("copying", path, 2 * length)?;
        let copy = Self(with_suffix(path, ".copy"));
        remove_database(&copy.0).map_err(failed)?;
        let mut page = copy.make_first_page(listed, model)?;
        if page[LIST] != LEAF {
            return Ok(None);
        }
        remove_database(&copy.0).map_err(failed)?;
        copy.write(path, &mut page).map_err(failed)?;
        if with_suffix(&copy.0, "-wal").exists() {
            copy.apply_log()?;
            // The log may have had another first page.
            let file = File::options().write(true).open(&copy.0);
            file.and_then(|file| write_first_page(&file, &mut page))
                .map_err(failed)?;
        }
        Ok(Some(copy))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the first page of a database with these tables.
    fn make_first_page(&self, listed: &TablePages, model: &Connection) -> Result<[u8; PAGE], StoreError> {
        let failed = |error| StoreError::from_io("reading", &self.0, error);
        let created = files::private_file().write(true).create_new(true).open(&self.0);
        created.map(drop).map_err(failed)?;
        let created = open(&self.0)?;
        // The first table sets the encoding.
        created.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE first (x);
             PRAGMA writable_schema = ON;
             DELETE FROM sqlite_schema;",
        )?;
        let mut tables =
            model.prepare("SELECT name, rootpage, sql FROM sqlite_schema WHERE type = 'table'")?;
        let mut tables = tables.query([])?;
        while let Some(table) = tables.next()? {
            let (name, own): (String, i64) = (table.get(0)?, table.get(1)?);
            let is_fixed = FIXED.contains(&name.as_str());
            let Some(page) = is_fixed.then_some(own).or_else(|| listed.get(&name).copied()) else {
                continue;
            };
            // All of them must fit on the page.
            let sql: String = table.get(2)?;
            let sql = Vec::from_iter(sql.split_whitespace()).join(" ");
            created.execute(
                "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('table', ?1, ?1, ?2, ?3)",
                (name, page, sql),
            )?;
        }
        created.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        created.close().map_err(|(_, error)| error)?;
        let mut page = [0; PAGE];
        let read = File::open(&self.0).and_then(|mut file| file.read_exact(&mut page));
        read.map_err(failed)?;
        Ok(page)
    }

    fn write(&self, path: &Path, first_page: &mut [u8; PAGE]) -> io::Result<()> {
        let mut file = files::private_file().write(true).create_new(true).open(&self.0)?;
        copy_original(path, &mut file)?;
        write_first_page(&file, first_page)?;
        match fs::copy(with_suffix(path, "-wal"), with_suffix(&self.0, "-wal")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn apply_log(&self) -> Result<(), StoreError> {
        let connection = open(&self.0)?;
        // Accepts a list that cannot be read.
        connection.pragma_update(None, "writable_schema", true)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

/// Closes the original of a copy, once nobody uses it.
pub(super) fn close_original(path: &Path) {
    let identity = files::identify_file(path);
    let mut originals = ORIGINALS.lock().unwrap_or_else(PoisonError::into_inner);
    originals.retain(|(known, _)| *known != identity);
}

fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
}

fn copy_original(path: &Path, target: &mut File) -> io::Result<()> {
    let mut originals = ORIGINALS.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = files::identify_file(path);
    if !originals.iter().any(|(known, _)| *known == identity) {
        originals.push((identity, File::open(path)?));
    }
    for (_, original) in originals.iter().filter(|(known, _)| *known == identity) {
        let mut original = original;
        original.seek(SeekFrom::Start(0))?;
        io::copy(&mut original, target)?;
    }
    Ok(())
}

/// Replaces the first page of a file, and sets how many pages that has.
fn write_first_page(mut file: &File, page: &mut [u8; PAGE]) -> io::Result<()> {
    let pages = u32::try_from(file.metadata()?.len() / PAGE as u64).unwrap_or(u32::MAX);
    page[PAGE_COUNT..PAGE_COUNT + 4].copy_from_slice(&pages.to_be_bytes());
    page[FREE_PAGES].fill(0);
    page.copy_within(CHANGES, VALID_FOR.start);
    file.seek(SeekFrom::Start(0))?;
    file.write_all(page)
}

impl Drop for SchemaCopy {
    fn drop(&mut self) {
        if let Err(error) = remove_database(&self.0) {
            tracing::warn!(%error, "a copy of the session store is left");
        }
    }
}
