//! The tables, their migrations, and how a connection is opened.
//!
//! Invariant: migrations only add (R-SESS-5), so that an older reader still understands the columns it knows.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};
use url::Url;

use super::error::StoreError;
use super::files;
use crate::base::nofollow::{self, FileKind};

/// Time that a healthy connection waits for another server's transaction.
pub(super) const BUSY: Duration = Duration::from_secs(2);

/// Each entry raises the schema by one version; `user_version` counts them. Never change a released entry.
pub(super) const MIGRATIONS: &[&str] = &[
    // 1. An event's id combines the numbers of its session and of the event: `session << 32 | seq`. The events of a
    // session are thus adjacent and in order, with one B-tree and no second index. The search table uses the same
    // ids, with seq 0 for the title. Money is in nano-dollars, times are in ms since the epoch.
    "
    CREATE TABLE sessions (
        num INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        folder TEXT NOT NULL,
        cwd TEXT NOT NULL,
        title TEXT,
        agent TEXT,
        mode TEXT NOT NULL,
        model TEXT,
        effort TEXT,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        last_seq INTEGER NOT NULL DEFAULT 0,
        open_turn TEXT,
        input INTEGER NOT NULL DEFAULT 0,
        output INTEGER NOT NULL DEFAULT 0,
        cache_read INTEGER NOT NULL DEFAULT 0,
        cache_write INTEGER NOT NULL DEFAULT 0,
        cost INTEGER
    ) STRICT;
    CREATE INDEX sessions_recent ON sessions (updated_ms, num);
    CREATE INDEX sessions_cwd ON sessions (cwd, updated_ms, num);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        turn TEXT,
        at_ms INTEGER NOT NULL,
        kind TEXT NOT NULL,
        json TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_turn ON events (turn) WHERE turn IS NOT NULL;
    CREATE TABLE pending (
        num INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        json TEXT NOT NULL,
        UNIQUE (session, kind, key)
    ) STRICT;
    CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        session INTEGER,
        folder TEXT NOT NULL,
        rule TEXT NOT NULL,
        at_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE trust (
        folder TEXT PRIMARY KEY,
        trusted INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE search USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );
    ",
    // 2. Spending of a day (UTC, numbered since the epoch) by provider and by server. A running server knows its own
    // share best, and reads only the others'. The empty account holds the raise of the limit over all providers.
    "
    CREATE TABLE days (
        day INTEGER NOT NULL,
        account TEXT NOT NULL,
        server TEXT NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0,
        raised INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (day, account, server)
    ) STRICT, WITHOUT ROWID;
    ",
    // 3. File changes of turns; the contents are files next to the database. A revert is recorded like a turn, under
    // a name of its own, so that it can be undone.
    "
    CREATE TABLE changes (
        num INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        cause TEXT NOT NULL,
        path TEXT NOT NULL,
        json TEXT NOT NULL,
        UNIQUE (session, cause, path)
    ) STRICT;
    ",
    // 4. The addresses to which a trusted folder may send a provider's key: one per provider, exactly as accepted.
    "
    CREATE TABLE redirects (
        folder TEXT NOT NULL,
        provider TEXT NOT NULL,
        target TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        PRIMARY KEY (folder, provider)
    ) STRICT, WITHOUT ROWID;
    ",
    // 5. The user's last choice in a folder, by name of the agent; empty for the default agent.
    "
    CREATE TABLE choices (
        folder TEXT NOT NULL,
        agent TEXT NOT NULL,
        model TEXT,
        effort TEXT,
        mode TEXT,
        at_ms INTEGER NOT NULL,
        PRIMARY KEY (folder, agent)
    ) STRICT, WITHOUT ROWID;
    ",
    // 6. A hash of what a trusted folder's files activated when the user accepted it. Without one, everything counts as
    // accepted.
    "
    ALTER TABLE trust ADD COLUMN accepted TEXT;
    ",
    // 7. The model of a session as an earlier version stored it: perhaps without its provider.
    "
    ALTER TABLE sessions ADD COLUMN bare_model TEXT;
    UPDATE sessions SET bare_model = model;
    ",
    // 8. The tool of an MCP server that a grant was given for, and those that a rule allowed for the first time in a
    // folder: what they were then, as JSON. A grant of an earlier version has none, and covers no such tool.
    "
    ALTER TABLE grants ADD COLUMN tool TEXT;
    CREATE TABLE tools (
        folder TEXT NOT NULL,
        name TEXT NOT NULL,
        tool TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        PRIMARY KEY (folder, name)
    ) STRICT, WITHOUT ROWID;
    ",
    // 9. The windows in tokens that providers have named when they refused a request as too long.
    "
    CREATE TABLE windows (
        provider TEXT NOT NULL,
        address TEXT NOT NULL,
        model TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        PRIMARY KEY (provider, address, model)
    ) STRICT, WITHOUT ROWID;
    ",
    // 10. The windows that providers reported when they named a smaller one. Addresses were stored as they are, perhaps
    // with a password, and are hashes now.
    "
    PRAGMA secure_delete = ON;
    DELETE FROM windows;
    PRAGMA secure_delete = FAST;
    ALTER TABLE windows ADD COLUMN reported INTEGER;
    ",
];

/// The free disk space that a migration of a store needs, in bytes. Migrations only add, so they change few pages.
const MIGRATION_BYTES: u64 = 4 << 20;

/// Schema version that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Opens the database, and creates or migrates it if necessary.
pub(super) fn open(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    // Two servers that start together on a new store can collide where SQLite does not wait by itself: at the change to
    // a write-ahead log. The loop counts attempts and does not check the clock, which may be paused in tests.
    const TRIES: u32 = 100;
    for _ in 1..TRIES {
        match try_open(path, busy) {
            Err(StoreError::Sqlite(error)) if is_busy(&error) && !busy.is_zero() => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
    try_open(path, busy)
}

/// Returns the current version of the file.
pub(super) fn read_schema_version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection
        .prepare_cached("PRAGMA user_version")?
        .query_row([], |row| row.get(0))
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Opens the database for reading only, and changes nothing, so that it works where nothing can be written.
pub(super) fn open_read_only(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    check_kind(path)?;
    let open = |name: &Path| -> Result<(Connection, i64), rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)?;
        connection.busy_timeout(busy)?;
        let found = read_schema_version(&connection)?;
        Ok((connection, found))
    };
    let has_log = files::with_suffix(path, "-wal")
        .metadata()
        .is_ok_and(|meta| meta.len() > 0);
    let (connection, found) = match (open(path), Url::from_file_path(path)) {
        // SQLite cannot make the index of the log, and needs none if there is no log.
        (Err(error), Ok(mut url)) if is_unopened(&error) && !has_log => {
            url.set_query(Some("immutable=1"));
            open(Path::new(url.as_str()))?
        }
        (opened, _) => opened?,
    };
    if found > VERSION {
        return Err(StoreError::NewerSchema {
            found,
            known: VERSION,
        });
    }
    Ok(connection)
}

fn is_unopened(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn try_open(path: &Path, busy: Duration) -> Result<Connection, StoreError> {
    if let Some(parent) = path.parent() {
        files::private_folder(parent).map_err(|e| StoreError::from_io("making the folder", parent, e))?;
    }
    check_kind(path)?;
    create_if_missing(path).map_err(|e| StoreError::from_io("opening", path, e))?;
    if is_emptied(path) {
        let error = ffi::Error::new(ffi::SQLITE_NOTADB);
        let reason = "the database is empty, but has a log".to_owned();
        return Err(rusqlite::Error::SqliteFailure(error, Some(reason)).into());
    }
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(busy)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Otherwise each new value of a parameter prepares a statement again if a partial index might fit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let found = read_schema_version(&connection)?;
    if (1..VERSION).contains(&found) {
        files::check_free_space("updating", path, MIGRATION_BYTES)?;
    }
    migrate_into(&mut connection, MIGRATIONS)?;
    Ok(connection)
}

/// Refuses what is not a file.
fn check_kind(path: &Path) -> Result<(), StoreError> {
    // A link could lead the store's data out of its private folder.
    if path.is_symlink() {
        let link = std::io::Error::other("it is a symbolic link; move the file here, or link its folder");
        return Err(StoreError::from_io("opening", path, link));
    }
    // Opening a pipe would wait for somebody at its other end.
    if nofollow::kind(path).is_some_and(|kind| kind != FileKind::Regular) {
        let other = std::io::Error::other("it is not a file; remove it");
        return Err(StoreError::from_io("opening", path, other));
    }
    Ok(())
}

/// Creates an empty database for the owner only. SQLite gives its log files the same mode.
///
/// Never opens an existing one: closing any descriptor of a file drops all locks of the process on it. Other programs
/// would then take the database for unused, and delete its log.
fn create_if_missing(path: &Path) -> io::Result<()> {
    // No other thread may open the new file before this one has closed it.
    static CREATION: Mutex<()> = Mutex::new(());
    let _creation = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    let created = files::private_file().write(true).create_new(true).open(path);
    match created.map(drop) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Returns whether the database lost its content, but not its log. SQLite would delete the log.
pub(super) fn is_emptied(path: &Path) -> bool {
    let measure = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
    measure(path) == 0 && measure(&files::with_suffix(path, "-wal")) > 0
}

/// Configures the connection and migrates the schema to the last of `migrations`.
pub(super) fn migrate_into(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let known = migrations.len() as i64;
    let found = read_schema_version(connection)?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    // NORMAL can lose the last transactions on power loss, but never consistency, and nothing on `kill -9`. Checkpoints
    // use a connection of their own; the size limit shrinks the log once they are done.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 1048576;
         PRAGMA secure_delete = FAST;
         PRAGMA temp_store = MEMORY;",
    )?;
    if found == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another server may have migrated in the meantime.
    let found = read_schema_version(&transaction)?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    for migration in &migrations[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_symbolic_link_in_place_of_the_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("store.db"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = try_open(&path, Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains("symbolic link") && !target.exists(), "{error}");
    }

    #[test]
    fn a_pipe_in_place_of_the_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let error = try_open(&path, Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains("not a file"), "{error}");
    }

    #[test]
    fn migration_runs_step_by_step_and_refuses_a_newer_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let mut connection = Connection::open(&path).unwrap();
        let steps = [
            "CREATE TABLE a (x)",
            "ALTER TABLE a ADD COLUMN y",
            "CREATE TABLE b (z)",
        ];
        migrate_into(&mut connection, &steps[..1]).unwrap();
        connection.execute("INSERT INTO a VALUES (1)", []).unwrap();
        migrate_into(&mut connection, &steps).unwrap();
        migrate_into(&mut connection, &steps).unwrap();
        assert_eq!(read_schema_version(&connection).unwrap(), 3);
        let stored_row: (i64, Option<i64>) = connection
            .query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(stored_row, (1, None));
        let error = migrate_into(&mut connection, &steps[..2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this store was written by a newer agentls (schema 3, supported: 2); update agentls or set another data folder"
        );
    }

    #[test]
    fn migration_keeps_trust_and_accepts_no_redirect() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("x.db")).unwrap();
        migrate_into(&mut connection, &MIGRATIONS[..3]).unwrap();
        connection
            .execute("INSERT INTO trust VALUES ('/w', 1, 1)", [])
            .unwrap();
        migrate_into(&mut connection, MIGRATIONS).unwrap();
        let count = |table: &str| -> i64 {
            let query = format!("SELECT count(*) FROM {table}");
            connection.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((count("trust"), count("redirects")), (1, 0));
    }

    #[test]
    fn migration_adds_a_table_for_choices() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("x.db")).unwrap();
        migrate_into(&mut connection, &MIGRATIONS[..4]).unwrap();
        connection
            .execute("INSERT INTO redirects VALUES ('/w', 'p', 't', 1)", [])
            .unwrap();
        migrate_into(&mut connection, MIGRATIONS).unwrap();
        let count = |table: &str| -> i64 {
            let query = format!("SELECT count(*) FROM {table}");
            connection.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((count("redirects"), count("choices")), (1, 0));
    }

    #[test]
    fn migration_adds_a_table_for_windows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_into(&mut connection, &MIGRATIONS[..8]).unwrap();
        drop(connection);
        let connection = open(&path, BUSY).unwrap();
        let count = connection.query_row("SELECT count(*) FROM windows", [], |row| row.get::<_, i64>(0));
        assert_eq!(
            (count.unwrap(), read_schema_version(&connection).unwrap()),
            (0, VERSION)
        );
    }

    #[test]
    fn a_failed_migration_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("x.db")).unwrap();
        assert!(migrate_into(&mut connection, &["CREATE TABLE a (x)", "nonsense"]).is_err());
        assert_eq!(read_schema_version(&connection).unwrap(), 0);
        migrate_into(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/store.db");
        let connection = open(&path, BUSY).unwrap();
        connection
            .execute(
                "INSERT INTO trust (folder, trusted, at_ms) VALUES ('x', 1, 1)",
                [],
            )
            .unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}
