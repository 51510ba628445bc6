//! Repairs a damaged database. If only indexes are damaged, it builds them again in place. Otherwise it saves what can be
//! read into a new database, and moves the old files aside.
//!
//! Only damage of the file itself counts ([`is_damage`]): a full disk, missing permissions, another server's lock, or a
//! newer version never move a file. Nothing is deleted. A lock file next to the database makes sure that one process
//! replaces it, and that no other opens it, or commits to it, meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Row, Transaction, TransactionBehavior, ffi, params_from_iter,
};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::de::IgnoredAny;

use super::apply::{event_id, event_ids};
use super::error::StoreError;
use super::files::{self, FileIdentity, with_suffix};
use super::ops::extract_search_text;
use super::row_reading::stored_event;
use super::salvage::{self, SchemaCopy, TablePages};
use super::schema;
use crate::base::clock::{self, Instant};
use crate::domain::{Event, TurnId};

/// The files next to a database that belong to it.
const LOGS: [&str; 2] = ["-wal", "-shm"];

/// The tables that are copied row by row, whether their rows have numbers, and what is in them besides sessions. Windows are
/// not copied: an earlier version stored their addresses with passwords.
const TABLES: [(&str, bool, &str); 9] = [
    ("sessions", true, ""),
    ("pending", true, ""),
    ("changes", true, "what reverts need"),
    ("grants", true, "permissions"),
    ("trust", true, "trusted folders"),
    ("days", false, "today's spending"),
    ("redirects", false, "accepted addresses"),
    ("choices", false, "last choices"),
    ("tools", false, "accepted tools"),
];

/// Time that others wait for a replacement, and a replacement for them.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// Time between two attempts to replace a database.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(60);

/// The highest number of a session; see [`event_id`].
const MAX_NUMBER: i64 = i32::MAX as i64;

/// The farthest that a copy skips at once to get past damaged rows.
const MAX_SKIP: i64 = 1 << 24;

/// What was saved.
#[derive(Debug, Default)]
struct SavedSessions {
    whole: usize,
    cut: usize,
    left_out: usize,
    /// Whether rows of the list of sessions could not be read, so that others may be missing.
    is_list_cut: bool,
    /// What else could not be read, after damage to the list of tables.
    unread: Vec<&'static str>,
}

/// Returns whether an error means that the file is damaged, or is not a database.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// A database that is open, and the file that it is.
pub(super) type OpenDatabase = (Connection, FileIdentity);

/// Opens the database like [`schema::open`], but replaces a damaged one first. Also returns what to tell about that.
pub(super) fn open(path: &Path, busy: Duration) -> Result<(OpenDatabase, Option<String>), StoreError> {
    match open_as_is(path, busy) {
        Err(StoreError::Sqlite(error)) if is_damage(&error) => {
            let notice = repair(path)?;
            Ok((open_as_is(path, busy)?, notice))
        }
        opened => Ok((opened?, None)),
    }
}

/// Opens the database for reading only, where nothing can be written. It has no identity, so it is opened each time.
pub(super) fn open_read_only(path: &Path) -> Result<OpenDatabase, StoreError> {
    Ok((schema::open_read_only(path, schema::BUSY)?, None))
}

/// Replaces the database like [`replace_damaged`]. An error names the damage.
pub(super) fn repair(path: &Path) -> Result<Option<String>, StoreError> {
    replace_damaged(path).map_err(|error| match error {
        StoreError::Sqlite(error) if schema::is_busy(&error) => error.into(),
        StoreError::Sqlite(_) | StoreError::Io { .. } => StoreError::Unrepaired {
            path: path.to_owned(),
            source: Box::new(error),
        },
        other => other,
    })
}

/// Opens the database like [`schema::open`], while no other process replaces it.
pub(super) fn open_as_is(path: &Path, busy: Duration) -> Result<OpenDatabase, StoreError> {
    if let Some(parent) = path.parent() {
        files::private_folder(parent).map_err(|e| StoreError::from_io("making the folder", parent, e))?;
    }
    // Whoever has no time for another server's transaction has none for its replacement either.
    let wait = if busy.is_zero() { busy } else { LOCK_WAIT };
    let _lock = lock_shared(path, wait)?;
    let connection = schema::open(path, busy)?;
    Ok((connection, files::identify_file(path)))
}

/// Keeps the file of the database in its place for as long as the result exists. Waits for a replacement.
pub(super) fn lock_shared(path: &Path, wait: Duration) -> Result<Option<File>, StoreError> {
    match acquire_lock(path, FlockOperation::NonBlockingLockShared, wait) {
        // Whoever may not create the lock may not replace the database either.
        Err(StoreError::Io { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(None)
        }
        locked => locked.map(Some),
    }
}

fn acquire_lock(path: &Path, operation: FlockOperation, wait: Duration) -> Result<File, StoreError> {
    const STEP: Duration = Duration::from_millis(20);
    let failed = |error| StoreError::from_io("locking", path, error);
    let mut options = files::private_file();
    let lock = options.create(true).append(true).open(with_suffix(path, ".lock"));
    let lock = lock.map_err(failed)?;
    // Counts attempts and does not check the clock, which may be paused in tests.
    let mut attempts = wait.as_millis() / STEP.as_millis();
    loop {
        match rustix::fs::flock(&lock, operation) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if attempts > 0 => std::thread::sleep(STEP),
            Err(Errno::WOULDBLOCK) => {
                let busy = ffi::Error::new(ffi::SQLITE_BUSY);
                let reason = "another agentls replaces the damaged database".to_owned();
                return Err(rusqlite::Error::SqliteFailure(busy, Some(reason)).into());
            }
            Err(error) => return Err(failed(error.into())),
        }
        attempts -= 1;
    }
}

/// Replaces the database if it is damaged, and returns what to tell about that. `None` if it is not, such as when another
/// process has replaced it, or if an attempt failed less than a minute ago.
pub(super) fn replace_damaged(path: &Path) -> Result<Option<String>, StoreError> {
    // An attempt reads the whole file, while all writes wait.
    static ATTEMPTS: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());
    let attempts = || ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
    let last = attempts().get(path).copied();
    if last.is_some_and(|last| clock::now() < last + ATTEMPT_INTERVAL) {
        return Ok(None);
    }
    let replaced = try_replacing(path);
    if !matches!(replaced, Ok(Some(_))) {
        attempts().insert(path.to_owned(), clock::now());
    }
    replaced
}

fn try_replacing(path: &Path) -> Result<Option<String>, StoreError> {
    let failed = |error| StoreError::from_io("replacing", path, error);
    // Whoever writes holds the lock until the commit, so that nothing is stored in the old file after it was copied.
    let _lock = acquire_lock(path, FlockOperation::NonBlockingLockExclusive, LOCK_WAIT)?;
    let Some(damage) = find_damage(path)? else {
        return Ok(None);
    };
    if rebuild_indexes(path)? {
        let notice = format!(
            "the session store {} is damaged ({damage}); its indexes were built again, and nothing is lost",
            path.display()
        );
        tracing::warn!("{notice}");
        return Ok(Some(notice));
    }
    let fresh = with_suffix(path, ".new");
    // A crash may have left one.
    files::remove_database(&fresh).map_err(failed)?;
    files::check_free_space("replacing", path, measure_database(path))?;
    let aside = choose_aside_path(path);
    let saved = save_readable(path, &fresh).and_then(|saved| {
        swap_files(path, &fresh, &aside).map_err(failed)?;
        salvage::close_original(&aside);
        Ok(saved)
    });
    if saved.is_err() {
        // On a full disk, others need the space.
        let _ = files::remove_database(&fresh);
    }
    let saved = saved?;
    let notice = format!(
        "the session store {} is damaged ({damage}) and was moved to {}; {}",
        path.display(),
        aside.display(),
        saved.describe()
    );
    tracing::warn!("{notice}");
    Ok(Some(notice))
}

/// Moves a database aside, and a new one into its place. There is always one at `path`.
fn swap_files(path: &Path, fresh: &Path, aside: &Path) -> io::Result<()> {
    // Not every file system has hard links.
    fs::hard_link(path, aside).or_else(|_| fs::rename(path, aside))?;
    // The log goes first: it would be applied to the new database.
    let swapped = rename_logs(path, aside).and_then(|()| fs::rename(fresh, path));
    // After an error, all is as before. Of two names of one file, renaming keeps both.
    if swapped.is_err() && rename_logs(aside, path).is_ok() && fs::rename(aside, path).is_ok() {
        let _ = fs::remove_file(aside);
    }
    swapped
}

fn rename_logs(from: &Path, to: &Path) -> io::Result<()> {
    for suffix in LOGS {
        match fs::rename(with_suffix(from, suffix), with_suffix(to, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl SavedSessions {
    fn describe(&self) -> String {
        let kept = self.whole + self.cut;
        if kept == 0 {
            return "no session in it could be read, so a new store was started".to_owned();
        }
        let count = |n: usize| {
            if n == 1 {
                "1 session".to_owned()
            } else {
                format!("{n} sessions")
            }
        };
        let mut text = format!("what could be read was saved: {}", count(kept));
        if self.cut > 0 {
            text += &format!(", {} of them without their last part", self.cut);
        }
        text += &match (self.left_out, self.is_list_cut) {
            (0, false) => String::new(),
            (0, true) => "; some sessions could not be read".to_owned(),
            (left_out, false) => format!("; {} could not be read", count(left_out)),
            (left_out, true) => format!("; at least {} could not be read", count(left_out)),
        };
        if !self.unread.is_empty() {
            text += &format!("; what could not be read: {}", self.unread.join(", "));
        }
        text
    }
}

/// Returns what is wrong with the file, if anything is.
fn find_damage(path: &Path) -> Result<Option<String>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    if schema::is_emptied(path) {
        return Ok(Some("it is empty".to_owned()));
    }
    let check = || -> Result<String, StoreError> {
        let connection = open_source(path)?;
        let found = schema::read_schema_version(&connection)?;
        if found > schema::VERSION {
            return Err(StoreError::NewerSchema {
                found,
                known: schema::VERSION,
            });
        }
        // The quick check does not compare indexes with their tables.
        Ok(connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?)
    };
    match check() {
        Ok(verdict) if verdict == "ok" => Ok(None),
        Ok(verdict) => Ok(Some(crate::base::text::one_line(&verdict, 200))),
        Err(StoreError::Sqlite(error)) if is_damage(&error) => Ok(Some(error.to_string())),
        Err(other) => Err(other),
    }
}

/// Builds all indexes again. Returns false, and changes nothing, if that does not repair the database.
fn rebuild_indexes(path: &Path) -> Result<bool, StoreError> {
    if schema::is_emptied(path) {
        return Ok(false);
    }
    let rebuild = || -> Result<bool, rusqlite::Error> {
        let mut connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(schema::BUSY)?;
        // The log of a database that is replaced moves with it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch("REINDEX")?;
        let verdict: String = transaction.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        let is_whole = verdict == "ok";
        if is_whole {
            transaction.commit()?;
        }
        Ok(is_whole)
    };
    match rebuild() {
        // The copy that follows may still work, or says why not.
        Err(error) if !schema::is_busy(&error) => {
            tracing::debug!(%error, "the indexes of the session store cannot be built again");
            Ok(false)
        }
        rebuilt => Ok(rebuilt?),
    }
}

/// Returns the bytes of a database with its log: at most as many as a copy needs.
fn measure_database(path: &Path) -> u64 {
    let log = with_suffix(path, LOGS[0]);
    let files = [path, &log].into_iter();
    files
        .map(|path| path.metadata().map_or(0, |meta| meta.len()))
        .sum()
}

/// Opens a database that may be damaged. The connection changes neither it nor its log.
fn open_source(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(schema::BUSY)?;
    Ok(connection)
}

/// Creates a database at `fresh` with what can be read.
fn save_readable(path: &Path, fresh: &Path) -> Result<SavedSessions, StoreError> {
    let mut target = schema::open(fresh, schema::BUSY)?;
    let mut saved = SavedSessions::default();
    // To open an emptied one would delete its log.
    if !schema::is_emptied(path) {
        let transaction = target.transaction()?;
        let source = open_source(path)?;
        let copy = if has_tables(&source)? {
            None
        } else {
            SchemaCopy::make(path, &list_pages(&source)?, &transaction)?
        };
        if let Some(copy) = copy {
            copy_readable(&open_source(copy.path())?, &transaction, &mut saved)?;
        } else {
            copy_readable(&source, &transaction, &mut saved)?;
            // An earlier version lacks some tables.
            saved.unread.clear();
        }
        transaction.commit()?;
    }
    // The file is complete without its log, which closing would move into it anyway.
    target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    target.close().map_err(|(_, error)| error)?;
    Ok(saved)
}

/// Returns whether the list of tables can be read.
fn has_tables(source: &Connection) -> Result<bool, rusqlite::Error> {
    // Accepts a list with unreadable entries.
    let _ = source.pragma_update(None, "writable_schema", true);
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN ('sessions', 'events')";
    let count = skip_damage(source.query_row(sql, [], |row| row.get::<_, i64>(0)))?;
    Ok(count == Some(2))
}

/// Returns where tables begin, as far as the list of tables can be read.
fn list_pages(source: &Connection) -> Result<TablePages, StoreError> {
    let mut pages = TablePages::new();
    // From both ends: a damaged page hides what is behind it.
    for order in ["ASC", "DESC"] {
        let sql =
            format!("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table' ORDER BY rowid {order}");
        for_each_row(source, &sql, [], &mut |row| {
            if let (Ok(name), Ok(page)) = (row.get(0), row.get(1)) {
                pages.insert(name, page);
            }
            Ok(true)
        })?;
    }
    Ok(pages)
}

fn copy_readable(
    source: &Connection,
    target: &Transaction<'_>,
    saved: &mut SavedSessions,
) -> Result<(), StoreError> {
    // All tables as of one moment, whoever writes.
    source.execute_batch("BEGIN")?;
    // Accepts a file that is shorter than its header says. A file that is no database has nothing to save.
    let _ = source.pragma_update(None, "writable_schema", true);
    for (table, has_numbers, content) in TABLES {
        let is_whole = copy_table(source, target, table, has_numbers)?;
        saved.is_list_cut |= table == "sessions" && !is_whole;
        saved
            .unread
            .extend(Some(content).filter(|content| !is_whole && !content.is_empty()));
    }
    // Damage may have made other numbers, from which no ids of events can be built.
    let sql = "DELETE FROM sessions WHERE num NOT BETWEEN 1 AND ?";
    saved.left_out += target.execute(sql, [MAX_NUMBER])?;
    let sessions: Vec<(i64, u64, Option<String>)> = target
        .prepare("SELECT num, last_seq, title FROM sessions")?
        .query_map([], |row| {
            let title = row.get::<_, Option<String>>(2).unwrap_or_default();
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs(), title))
        })?
        .collect::<Result<_, _>>()?;
    for (num, last_seq, title) in sessions {
        copy_session(source, target, num, last_seq, saved)?;
        if let Some(title) = title {
            let id = event_id(num, 0);
            target.execute(
                "INSERT OR REPLACE INTO search (rowid, text) VALUES (?, ?)",
                (id, title),
            )?;
        }
    }
    forget_lost_sessions(source, target)?;
    Ok(())
}

/// Removes what belongs to sessions that are lost, and keeps a new session from getting the number of one.
fn forget_lost_sessions(source: &Connection, target: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    for table in ["pending", "changes", "grants"] {
        // A grant without a session is one for its folder.
        let lost = "session IS NOT NULL AND session NOT IN (SELECT num FROM sessions)";
        target.execute(&format!("DELETE FROM {table} WHERE {lost}"), [])?;
    }
    let mut highest = 0;
    for sql in [
        "SELECT seq FROM sqlite_sequence WHERE name = 'sessions'",
        "SELECT max(num) FROM sessions",
        "SELECT max(id) >> 32 FROM events",
        "SELECT max(session) FROM pending",
        "SELECT max(session) FROM changes",
        "SELECT max(session) FROM grants",
    ] {
        for connection in [source, target] {
            let found = skip_damage(connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)))?;
            highest = highest.max(found.flatten().filter(|num| *num <= MAX_NUMBER).unwrap_or(0));
        }
    }
    target.execute("DELETE FROM sqlite_sequence WHERE name = 'sessions'", [])?;
    let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('sessions', ?)";
    target.execute(sql, [highest])?;
    Ok(())
}

/// Copies the events of a session up to the first that cannot be read. Removes a session without any.
fn copy_session(
    source: &Connection,
    target: &Transaction<'_>,
    num: i64,
    last_seq: u64,
    saved: &mut SavedSessions,
) -> Result<(), StoreError> {
    let (mut last, mut open_turn) = (0, None);
    let mut store_row = |row: &Row<'_>| -> Result<bool, rusqlite::Error> {
        // A lost page leaves bytes that are not what was written.
        let json = row.get_ref(4)?.as_str().unwrap_or_default();
        if serde_json::from_str::<IgnoredAny>(json).is_err() {
            return Ok(false);
        }
        let values = read_values(row, 5)?;
        if let Ok(event) = stored_event(row) {
            last = event.seq;
            match &event.event {
                Event::TurnStarted { .. } => open_turn = event.turn,
                Event::TurnEnded(_) => open_turn = None,
                Event::Message(message) => {
                    if let Some(text) = extract_search_text(message) {
                        let id = event_id(num, event.seq);
                        let sql = "INSERT INTO search (rowid, text) VALUES (?, ?)";
                        target.prepare_cached(sql)?.execute((id, text))?;
                    }
                }
                _ => {}
            }
        }
        insert(
            target,
            "INSERT INTO events (id, turn, at_ms, kind, json) VALUES (?, ?, ?, ?, ?)",
            values,
        )
    };
    let sql = "SELECT id, turn, at_ms, kind, json FROM events WHERE id BETWEEN ? AND ? ORDER BY id";
    let is_whole = for_each_row(source, sql, event_ids(num), &mut store_row)?;
    if is_whole && last >= last_seq {
        saved.whole += 1;
        return Ok(());
    }
    // What waits belongs to the part that is missing.
    target.execute("DELETE FROM pending WHERE session = ?", [num])?;
    if last == 0 {
        saved.left_out += 1;
        target.execute("DELETE FROM sessions WHERE num = ?", [num])?;
    } else {
        saved.cut += 1;
        let sql = "UPDATE sessions SET last_seq = ?, open_turn = ? WHERE num = ?";
        let turn = open_turn.as_ref().map(TurnId::as_str);
        target.execute(sql, (i64::try_from(last).unwrap_or(i64::MAX), turn, num))?;
    }
    Ok(())
}

/// Copies the rows of a table that can be read, in the columns that both databases have. Returns whether these are all.
fn copy_table(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
    has_numbers: bool,
) -> Result<bool, StoreError> {
    let known = list_columns(target, table)?;
    // An earlier version lacks some tables and columns.
    let mut columns = skip_damage(list_columns(source, table))?.unwrap_or_default();
    columns.retain(|column| known.contains(column));
    if columns.is_empty() {
        return Ok(false);
    }
    let (list, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
    let sql = format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({marks})");
    let select = if has_numbers {
        format!("SELECT {list}, rowid FROM {table} WHERE rowid > ? ORDER BY rowid")
    } else {
        format!("SELECT {list}, 0 FROM {table} WHERE ? = 0")
    };
    let (mut after, mut skip) = (0_i64, 1);
    let mut has_skipped = false;
    loop {
        let mut last = None;
        let is_whole = for_each_row(source, &select, [after], &mut |row| {
            last = Some(row.get(columns.len())?);
            insert(target, &sql, read_values(row, columns.len())?)
        })?;
        if is_whole || !has_numbers || skip > MAX_SKIP {
            return Ok(is_whole && !has_skipped);
        }
        has_skipped = true;
        // The next row is damaged. Rows beyond its page can be read again.
        skip = if last.is_some() { 1 } else { skip * 2 };
        after = last.unwrap_or(after) + skip;
    }
}

/// Passes the rows of a query to `store`, until that returns false. Returns false if it or the source ended early.
fn for_each_row(
    source: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    store: &mut dyn FnMut(&Row<'_>) -> Result<bool, rusqlite::Error>,
) -> Result<bool, StoreError> {
    let Some(mut statement) = skip_damage(source.prepare(sql))? else {
        return Ok(false);
    };
    let Some(mut rows) = skip_damage(statement.query(parameters))? else {
        return Ok(false);
    };
    loop {
        match skip_damage(rows.next())? {
            Some(Some(row)) if store(row)? => {}
            Some(None) => return Ok(true),
            Some(Some(_)) | None => return Ok(false),
        }
    }
}

/// Returns `None` in place of an error that damage explains. Any other, such as a lack of memory, must end the copy.
fn skip_damage<T>(result: Result<T, rusqlite::Error>) -> Result<Option<T>, rusqlite::Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.sqlite_error_code() {
            // Values of another type; missing tables; lengths beyond the limit.
            None | Some(ErrorCode::Unknown | ErrorCode::TooBig) => Ok(None),
            Some(_) if is_damage(&error) => Ok(None),
            Some(_) => Err(error),
        },
    }
}

/// Returns the first values of a row. Text that is not UTF-8 could never be read again, so it is repaired.
fn read_values<'r>(row: &'r Row<'_>, count: usize) -> Result<Vec<ToSqlOutput<'r>>, rusqlite::Error> {
    let read_value = |at| {
        Ok(match row.get_ref(at)? {
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
            other => ToSqlOutput::Borrowed(other),
        })
    };
    (0..count).map(read_value).collect()
}

/// Inserts a row. One that violates the schema is damaged, and is left out.
fn insert(
    target: &Transaction<'_>,
    sql: &str,
    values: Vec<ToSqlOutput<'_>>,
) -> Result<bool, rusqlite::Error> {
    match target.prepare_cached(sql)?.execute(params_from_iter(values)) {
        Err(error) if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) => Err(error),
        _ => Ok(true),
    }
}

fn list_columns(connection: &Connection, table: &str) -> Result<Vec<String>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

/// Returns a path next to the database that no file has.
fn choose_aside_path(path: &Path) -> PathBuf {
    let day = chrono::DateTime::from_timestamp_millis(clock::wall_ms()).unwrap_or_default();
    let base = with_suffix(path, &format!(".damaged-{}", day.format("%Y%m%d-%H%M%S")));
    let others = (2..).map(|n| with_suffix(&base, &format!("-{n}")));
    let is_free =
        |path: &PathBuf| !path.exists() && LOGS.iter().all(|suffix| !with_suffix(path, suffix).exists());
    std::iter::once(base.clone())
        .chain(others)
        .find(is_free)
        .unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_no_damage_ends_the_copy() {
        let source = Connection::open_in_memory().unwrap();
        source
            .execute_batch("CREATE TABLE a (x); INSERT INTO a VALUES (1), (2), (3);")
            .unwrap();
        let sql = "SELECT x FROM a";
        assert!(for_each_row(&source, sql, [], &mut |_| Ok(true)).unwrap());
        // A table that damage hides.
        assert!(!for_each_row(&source, "SELECT x FROM b", [], &mut |_| Ok(true)).unwrap());
        let handle = source.get_interrupt_handle();
        let error = for_each_row(&source, sql, [], &mut |_| {
            handle.interrupt();
            Ok(true)
        })
        .unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
    }

    #[test]
    fn a_swap_that_fails_leaves_the_files_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let [path, fresh, aside] = ["a", "b", "c"].map(|name| folder.path().join(name));
        let list = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let files = entries.map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            });
            files.collect::<std::collections::BTreeMap<_, _>>()
        };
        fs::write(&path, "old").unwrap();
        fs::write(with_suffix(&path, "-wal"), "log").unwrap();
        let before = list();
        // There is no new file.
        swap_files(&path, &fresh, &aside).unwrap_err();
        assert_eq!(list(), before);
        fs::write(&fresh, "new").unwrap();
        swap_files(&path, &fresh, &aside).unwrap();
        let after = [("a", "new"), ("c", "old"), ("c-wal", "log")];
        assert_eq!(
            list(),
            after.map(|(name, text)| (name.into(), text.into())).into()
        );
    }
}
