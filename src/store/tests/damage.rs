//! Damaged databases: what is saved, what is moved aside, and what is told.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::*;
use crate::base::clock;
use crate::store::{recovery, salvage};

const SESSIONS: u64 = 20;
const EVENTS: u64 = 40;
/// The size of a database's page.
const PAGE: usize = 4_096;

/// A closed store with sessions of equal length.
async fn build_store() -> Arc<tempfile::TempDir> {
    let rig = StoreFixture::new();
    for session in 0..SESSIONS {
        let id = format!("ses_{session}");
        rig.create(&[&id]).await;
        for seq in 1..=EVENTS {
            let text = format!("{seq} needle {}", "x".repeat(500));
            rig.send(append(
                &id,
                seq,
                build_message(&format!("m{seq}"), Role::User, &text),
            ))
            .await;
        }
    }
    rig.barrier().await;
    rig.close().await.0
}

fn files_aside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_str().unwrap().contains("store.db.damaged-"))
        .collect()
}

async fn list(rig: &StoreFixture) -> Result<Vec<SessionRow>, StoreError> {
    let query = SessionQuery {
        limit: 99,
        ..SessionQuery::default()
    };
    Ok(rig
        .store
        .reader
        .list_sessions(query)
        .await?
        .sessions
        .into_iter()
        .map(|hit| hit.session)
        .collect())
}

/// Damages the database, and returns the notice and the numbers of whole and of cut sessions then.
async fn recover_from(damage: impl FnOnce(&Path)) -> (String, usize, usize) {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    damage(&path);
    let damaged = fs::read(&path).unwrap();
    let rig = StoreFixture::in_folder(folder);
    // Damage that does not prevent opening shows when it is met, which a check of the whole file is here.
    let notice = recovery::replace_damaged(&path).unwrap().unwrap();
    assert!(notice.contains(path.to_str().unwrap()), "{notice}");
    let aside = files_aside(rig.folder.path());
    assert!(
        aside.iter().any(|path| fs::read(path).unwrap() == damaged),
        "{aside:?}"
    );
    // The next start finds nothing to do.
    assert_eq!(recovery::replace_damaged(&path).unwrap(), None);

    let (mut whole, mut cut) = (0, 0);
    for session in list(&rig).await.unwrap() {
        let page = rig
            .store
            .reader
            .read_events(&session.id, EventWindow::Tail, 99)
            .await
            .unwrap();
        assert_eq!(page.skipped, []);
        let expected: Vec<u64> = (1..=session.last_seq).collect();
        assert_eq!(seqs(&page), expected);
        if session.last_seq == EVENTS {
            whole += 1;
        } else {
            cut += 1;
        }
    }
    // The new store works.
    rig.create(&["ses_new"]).await;
    rig.send(append("ses_new", 1, build_warning("a"))).await;
    rig.barrier().await;
    assert_eq!(rig.published.take(), ["stored 1"]);
    (notice, whole, cut)
}

fn overwrite(path: &Path, range: std::ops::Range<usize>) {
    let mut bytes = fs::read(path).unwrap();
    bytes[range].fill(0xa5);
    fs::write(path, bytes).unwrap();
}

/// Damages what no row needs: the number of free pages.
fn overwrite_free_count(path: &Path) {
    overwrite(path, 36..40);
}

/// Returns where the first page of a table or an index starts.
fn find_root(path: &Path, name: &str) -> usize {
    let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = ?";
    let connection = Connection::open(path).unwrap();
    let page: i64 = connection.query_row(sql, [name], |row| row.get(0)).unwrap();
    page as usize * PAGE
}

fn count(path: &Path, from: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {from}");
    let connection = Connection::open(path).unwrap();
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn readable_sessions_survive_garbage_in_the_middle() {
    let (notice, whole, cut) = recover_from(|path| {
        let length = fs::metadata(path).unwrap().len() as usize;
        overwrite(path, length / 2..length / 2 + 8_192);
    })
    .await;
    assert!(whole > 10 && whole + cut < 21, "{whole} {cut} {notice}");
    assert!(
        notice.contains(&format!("what could be read was saved: {} session", whole + cut)),
        "{notice}"
    );
}

#[tokio::test]
async fn readable_sessions_survive_a_lost_half() {
    let (notice, whole, cut) = recover_from(|path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    })
    .await;
    assert!(
        whole + cut > 3 && whole < SESSIONS as usize,
        "{whole} {cut} {notice}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_gives_way_to_a_new_store() {
    let (notice, whole, cut) =
        recover_from(|path| fs::write(path, "# my notes, saved under the wrong name\n").unwrap()).await;
    assert_eq!((whole, cut), (0, 0));
    assert!(notice.contains("no session in it could be read"), "{notice}");
}

#[tokio::test]
async fn sessions_survive_damage_to_the_first_page() {
    // The list of tables, and with it the header.
    for range in [100..PAGE, 0..PAGE] {
        let (notice, whole, cut) = recover_from(|path| overwrite(path, range)).await;
        assert_eq!((whole, cut), (SESSIONS as usize, 0), "{notice}");
        assert!(notice.contains("permissions, trusted folders, "), "{notice}");
    }
}

/// Builds the database again as one of the first version that was filled, and then updated.
fn grow_from_first_version(path: &Path) {
    let recent = path.with_extension("recent");
    fs::rename(path, &recent).unwrap();
    let mut store = Connection::open(path).unwrap();
    schema::migrate_into(&mut store, &schema::MIGRATIONS[..1]).unwrap();
    store.execute("ATTACH ? AS recent", [recent.to_str()]).unwrap();
    for table in ["sessions", "events"] {
        let sql = "SELECT group_concat(name) FROM pragma_table_info(?, 'main')";
        let columns: String = store.query_row(sql, [table], |row| row.get(0)).unwrap();
        let sql = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM recent.{table}");
        store.execute(&sql, []).unwrap();
    }
    drop(store);
    drop(schema::open(path, schema::BUSY).unwrap());
}

#[tokio::test]
async fn sessions_of_a_store_that_was_updated_survive_damage_to_the_first_page() {
    for range in [100..PAGE, 0..PAGE] {
        let (notice, whole, cut) = recover_from(|path| {
            grow_from_first_version(path);
            overwrite(path, range);
        })
        .await;
        assert_eq!((whole, cut), (SESSIONS as usize, 0), "{notice}");
    }
}

/// Returns where the pages are that have the list of tables.
fn find_list_pages(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let read = |at: usize, size: usize| {
        let bytes = &bytes[at..at + size];
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | usize::from(*byte))
    };
    // The first page has only the numbers of others.
    assert_eq!(bytes[100], 5);
    let cells = (0..read(103, 2)).map(|cell| read(read(112 + 2 * cell, 2), 4));
    let pages = cells.chain([read(108, 4)]);
    pages.map(|page| (page - 1) * PAGE).collect()
}

#[tokio::test]
async fn a_damaged_page_of_the_list_of_tables_hides_only_what_is_listed_there() {
    let all = [
        ("grants", "permissions"),
        ("trust", "trusted folders"),
        ("redirects", "accepted addresses"),
        ("tools", "accepted tools"),
    ];
    for page in 0..2 {
        let folder = build_store().await;
        let path = folder.path().join("store.db");
        let store = Connection::open(&path).unwrap();
        let rows = "INSERT INTO grants (id, folder, rule, at_ms) VALUES ('all', '/w', 'bash(b)', 1);
             INSERT INTO trust (folder, trusted, at_ms) VALUES ('/w', 1, 1);
             INSERT INTO redirects VALUES ('/w', 'p', 't', 1);
             INSERT INTO tools VALUES ('/w', 'n', '{}', 1);";
        store.execute_batch(rows).unwrap();
        drop(store);
        let at = find_list_pages(&path)[page];
        overwrite(&path, at..at + PAGE);
        let notice = recovery::replace_damaged(&path).unwrap().unwrap();
        assert_eq!(count(&path, "sessions") as u64, SESSIONS, "{notice}");
        assert_eq!(count(&path, "events") as u64, SESSIONS * EVENTS, "{notice}");
        let kept = all.map(|(table, _)| count(&path, table) == 1);
        assert!(kept.contains(&true) && kept.contains(&false), "{notice}");
        assert_eq!((kept[1], kept[3]), (page == 1, page == 0), "{notice}");
        for ((_, content), kept) in all.into_iter().zip(kept) {
            assert_eq!(notice.contains(content), !kept, "{notice}");
        }
    }
}

/// An earlier version stored them with their addresses.
#[tokio::test]
async fn windows_are_not_copied_from_a_damaged_store() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let sql = "INSERT INTO windows (provider, address, model, tokens, at_ms) VALUES ('p', 'a', 'm', 1, 1)";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    overwrite_free_count(&path);
    let notice = recovery::replace_damaged(&path).unwrap().unwrap();
    assert!(notice.ends_with(&format!("{SESSIONS} sessions")), "{notice}");
    assert_eq!(count(&path, "windows"), 0);
}

/// The last sessions are in the log only.
#[tokio::test]
async fn sessions_in_the_log_survive_damage_to_the_first_page() {
    let rig = StoreFixture::in_folder(build_store().await);
    rig.create(&["ses_last"]).await;
    rig.send(append("ses_last", 1, build_warning("a"))).await;
    rig.barrier().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for suffix in ["", "-wal"] {
        let from = rig.folder.path().join(format!("store.db{suffix}"));
        fs::copy(from, folder.path().join(format!("store.db{suffix}"))).unwrap();
    }
    overwrite(&path, 0..PAGE);
    let notice = recovery::replace_damaged(&path).unwrap().unwrap();
    assert!(notice.contains("21 sessions"), "{notice}");
    let names = fs::read_dir(folder.path()).unwrap();
    let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !names.iter().any(|name| name.to_str().unwrap().contains(".copy")),
        "{names:?}"
    );
}

#[tokio::test]
async fn a_store_is_read_without_changing_anything() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let before = (
        fs::read(&path).unwrap(),
        fs::metadata(&path).unwrap().modified().unwrap(),
    );
    let connection = schema::open_read_only(&path, schema::BUSY).unwrap();
    let count: i64 = connection
        .query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count as u64, SESSIONS);
    connection.execute("DELETE FROM sessions", []).unwrap_err();
    drop(connection);
    let after = (
        fs::read(&path).unwrap(),
        fs::metadata(&path).unwrap().modified().unwrap(),
    );
    assert!(before == after);
}

#[tokio::test]
async fn the_first_write_or_read_replaces_a_damaged_store_and_says_so() {
    for reads_first in [true, false] {
        let folder = build_store().await;
        fs::write(folder.path().join("store.db"), "not a database").unwrap();
        let rig = StoreFixture::in_folder(folder);
        if reads_first {
            let error = list(&rig).await.unwrap_err().to_string();
            assert!(error.contains(" is damaged "), "{error}");
            assert_eq!(list(&rig).await.unwrap(), []);
        }
        let row = SessionRow::new("ses_new".into(), "/w", "/w", 1_000);
        rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))))
            .await;
        assert_eq!(rig.barrier().await, StoreHealth::Ok);
        rig.send(append("ses_new", 1, build_warning("a"))).await;
        rig.barrier().await;
        let published = rig.published.take();
        let notices = published.iter().filter(|word| word.contains(" is damaged "));
        assert_eq!(notices.count(), usize::from(!reads_first), "{published:?}");
        assert_eq!(list(&rig).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn servers_that_start_together_replace_a_damaged_store_once() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    overwrite(&path, 0..100);
    let open = || {
        let path = path.clone();
        std::thread::spawn(move || recovery::open(&path, schema::BUSY).unwrap().1)
    };
    let threads: Vec<_> = (0..8).map(|_| open()).collect();
    let notices = threads.into_iter().filter_map(|thread| thread.join().unwrap());
    assert_eq!(notices.count(), 1);
    assert_eq!(files_aside(folder.path()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_other_failure_moves_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let before = files::identify_file(&path);
    assert_eq!(recovery::replace_damaged(&path).unwrap(), None);
    clock::sleep(Duration::from_secs(61)).await;
    // The disk is full.
    let rig = StoreFixture::in_folder(folder);
    rig.set_fault(Some(WriteFault::DiskFull));
    rig.send(append("ses_1", EVENTS + 1, build_warning("a"))).await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { .. }));
    rig.set_fault(None);
    let folder = rig.close().await.0;
    // Permissions are missing. The superuser needs none.
    fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    if !rustix::process::geteuid().is_root() {
        recovery::open(&path, schema::BUSY).unwrap_err();
        recovery::replace_damaged(&path).unwrap_err();
        clock::sleep(Duration::from_secs(61)).await;
    }
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    // Another program has it for itself.
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;")
        .unwrap();
    let error = recovery::open(&path, Duration::ZERO).unwrap_err();
    assert!(
        matches!(&error, StoreError::Sqlite(error) if schema::is_busy(error)),
        "{error}"
    );
    drop(holder);
    // A newer agentls wrote it.
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 9_999).unwrap();
    drop(newer);
    let error = recovery::open(&path, schema::BUSY).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{error}");
    let error = recovery::replace_damaged(&path).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{error}");
    assert!(files_aside(folder.path()).is_empty());
    assert_eq!(files::identify_file(&path), before);
}

/// Closing any descriptor of a file releases all locks of the process on it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn opening_the_store_again_keeps_the_locks_of_an_open_connection() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let connection = schema::open(&path, schema::BUSY).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let list_locks = || {
        let (process, inode) = (format!(" {} ", std::process::id()), format!(":{inode} "));
        // The kernel gives the list in pieces, so one reading may lack a lock while others come and go.
        let readings = (0..20).map(|_| fs::read_to_string("/proc/locks").unwrap());
        readings
            .flat_map(|locks| locks.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.contains(&process) && line.contains(&inode))
            // Without its number.
            .filter_map(|line| Some(line.split_once(": ")?.1.to_owned()))
            .collect::<BTreeSet<String>>()
    };
    let held = list_locks();
    assert!(!held.is_empty());
    let second = schema::open(&path, schema::BUSY).unwrap();
    recovery::replace_damaged(&path).unwrap();
    assert_eq!(list_locks(), held);
    // A copy of a damaged one does not release them either.
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    second.query_row(checkpoint, [], |_| Ok(())).unwrap();
    let copy = salvage::SchemaCopy::make(&path, &salvage::TablePages::new(), &second).unwrap();
    drop(copy.unwrap());
    assert_eq!(list_locks(), held);
    drop((connection, second));
}

#[tokio::test]
async fn a_text_that_is_not_utf8_hides_no_other_session() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let sql = "UPDATE sessions SET title = CAST(x'ff41' AS TEXT) WHERE id = 'ses_1'";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let rig = StoreFixture::in_folder(folder);
    assert_eq!(list(&rig).await.unwrap().len() as u64, SESSIONS - 1);
    // Nor does a page end at it.
    let (mut query, mut found) = (SessionQuery::default(), 0);
    query.limit = 5;
    loop {
        let page = rig.store.reader.list_sessions(query.clone()).await.unwrap();
        found += page.sessions.len() as u64;
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, SESSIONS - 1);
    let folder = rig.close().await.0;
    overwrite_free_count(&path);
    recovery::replace_damaged(&path).unwrap().unwrap();
    let rig = StoreFixture::in_folder(folder);
    let sessions = list(&rig).await.unwrap();
    assert_eq!(sessions.len() as u64, SESSIONS);
    assert!(
        sessions
            .iter()
            .any(|session| session.title.as_deref() == Some("\u{fffd}A"))
    );
}

#[tokio::test]
async fn damage_to_an_index_does_not_stop_the_store() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let at = find_root(&path, "sessions_recent");
    let mut bytes = fs::read(&path).unwrap();
    // Another time of the last event than in the table.
    let time = (2_000 + EVENTS as u16).to_be_bytes();
    for entry in at..at + PAGE - 1 {
        if bytes[entry..entry + 2] == time {
            bytes[entry + 1] -= 1;
        }
    }
    fs::write(&path, bytes).unwrap();
    let before = files::identify_file(&path);
    let rig = StoreFixture::in_folder(folder);
    rig.send(append("ses_3", EVENTS + 1, build_warning("a"))).await;
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    let published = rig.published.take();
    assert!(published[0].contains(" is damaged "), "{published:?}");
    assert_eq!(published[1..], [format!("stored {}", EVENTS + 1)]);
    assert_eq!(list(&rig).await.unwrap().len(), SESSIONS as usize);
    // Only the index was built again.
    assert!(published[0].contains("nothing is lost"), "{published:?}");
    assert!(files_aside(rig.folder.path()).is_empty());
    assert_eq!(files::identify_file(&path), before);
}

#[tokio::test]
async fn a_store_that_the_disk_has_no_room_to_copy_is_left_as_it_is() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    overwrite_free_count(&path);
    let bytes = fs::read(&path).unwrap();
    // No disk has room for a copy of it, but it takes no room itself.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 << 40).unwrap();
    let error = recovery::replace_damaged(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("failed: it needs 8388608 MB of free disk space"),
        "{error}"
    );
    assert!(files_aside(folder.path()).is_empty());
    assert!(!folder.path().join("store.db.new").exists());
    file.set_len(bytes.len() as u64).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

/// SQLite deletes a log next to an empty database when it opens that.
#[tokio::test]
async fn a_log_next_to_an_emptied_database_is_kept() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, "").unwrap();
    let log = folder.path().join("store.db-wal");
    fs::copy(rig.folder.path().join("store.db-wal"), &log).unwrap();
    let kept = fs::read(&log).unwrap();
    let notice = recovery::open(&path, schema::BUSY).unwrap().1.unwrap();
    assert!(notice.contains("it is empty"), "{notice}");
    let aside = files_aside(folder.path());
    assert!(
        aside.iter().any(|path| fs::read(path).unwrap() == kept),
        "{aside:?}"
    );
    // Without a log, nothing is lost.
    let path = folder.path().join("new.db");
    fs::write(&path, "").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(recovery::open(&path, schema::BUSY).unwrap().1, None);
}

/// The rows of other tables refer to sessions by number.
#[tokio::test]
async fn a_new_session_inherits_nothing_from_a_lost_one() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    let last: i64 = 300;
    {
        let connection = Connection::open(&path).unwrap();
        for num in SESSIONS as i64 + 1..=last {
            let sql = "INSERT INTO sessions (num, id, folder, cwd, mode, title, created_ms, updated_ms)
                       VALUES (?1, 'ses_n' || ?1, '/w', '/w', 'ask', ?2, 1, 1)";
            connection.execute(sql, (num, "x".repeat(200))).unwrap();
        }
        for num in [1, last] {
            for sql in [
                "INSERT INTO pending (session, kind, key, json) VALUES (?, 'queued', 'k', '{}')",
                "INSERT INTO changes (session, cause, path, json) VALUES (?, 'turn_1', '/w/a', '{}')",
                "INSERT INTO grants (session, id, folder, rule, at_ms) VALUES (?1, ?1, '/w', 'bash(a)', 1)",
            ] {
                connection.execute(sql, [num]).unwrap();
            }
        }
        let sql = "INSERT INTO grants (id, folder, rule, at_ms) VALUES ('all', '/w', 'bash(b)', 1)";
        connection.execute_batch(sql).unwrap();
        connection
            .execute_batch("UPDATE sqlite_sequence SET seq = 0")
            .unwrap();
    }
    // The page of the last sessions is the one that the root names in its header.
    let root = find_root(&path, "sessions");
    let bytes = fs::read(&path).unwrap();
    let page = u32::from_be_bytes(bytes[root + 8..root + 12].try_into().unwrap()) as usize;
    overwrite(&path, (page - 1) * PAGE..page * PAGE);
    let notice = recovery::replace_damaged(&path).unwrap().unwrap();
    assert!(notice.contains("; some sessions could not be read"), "{notice}");
    assert_eq!(count(&path, &format!("sessions WHERE num = {last}")), 0);
    for (table, kept) in [("pending", 1), ("changes", 1), ("grants", 2)] {
        assert_eq!(count(&path, table), kept, "{table}");
    }
    let rig = StoreFixture::in_folder(folder);
    rig.create(&["ses_new"]).await;
    let new = format!("sessions WHERE id = 'ses_new' AND num > {last}");
    assert_eq!(count(&path, &new), 1);
}

#[tokio::test]
async fn a_write_waits_for_a_replacement_and_goes_to_the_new_file() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let path = rig.folder.path().join("store.db");
    let copy = rig.folder.path().join("copy.db");
    let mut options = fs::File::options();
    options.create(true).append(true);
    let lock = options.open(rig.folder.path().join("store.db.lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
    rig.database().execute("VACUUM INTO ?", [copy.to_str()]).unwrap();
    rig.send(append("ses_1", 1, build_warning("a"))).await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { .. }));
    for suffix in ["-wal", "-shm"] {
        // The last connection to a database removes them.
        let _ = fs::remove_file(rig.folder.path().join(format!("store.db{suffix}")));
    }
    fs::rename(&copy, &path).unwrap();
    drop(lock);
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    assert_eq!(count(&path, "events"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_fails_moves_nothing_and_is_tried_again_after_a_minute() {
    let folder = build_store().await;
    let path = folder.path().join("store.db");
    overwrite_free_count(&path);
    let before = fs::read(&path).unwrap();
    // In place of a full disk: nothing can be written there.
    let obstacle = folder.path().join("store.db.new");
    fs::create_dir(&obstacle).unwrap();
    let error = recovery::replace_damaged(&path).unwrap_err().to_string();
    assert!(error.starts_with("replacing "), "{error}");
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!(recovery::replace_damaged(&path).unwrap(), None);
    assert!(files_aside(folder.path()).is_empty());
    assert_eq!(fs::read(&path).unwrap(), before);
    clock::sleep(Duration::from_secs(61)).await;
    assert!(recovery::replace_damaged(&path).unwrap().is_some());
    assert!(!files_aside(folder.path()).is_empty());
}
