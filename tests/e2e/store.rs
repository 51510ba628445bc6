//! A defective store: unwritable, of a newer version, or with a corrupt record (R-ERR-2, R-SESS-4, R-SESS-5).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agentls::protocol::LoadSessionResult;
use serde_json::{Value, json};

use crate::harness::{Client, Options, World};
use crate::mock_llm::{Gate, Reply};

/// Returns the messages of all warnings with this code.
fn warnings(client: &Client, code: &str) -> Vec<String> {
    let notes = client.notes();
    let warnings = notes
        .iter()
        .filter(|notification| notification.method == "agent/warning");
    warnings
        .filter(|notification| notification.text("code") == code)
        .map(|notification| notification.text("message").to_owned())
        .collect()
}

#[test]
fn new_session_works_without_a_lock_and_an_old_one_is_refused() {
    let world = World::new();
    let client = world.start();
    let old = client.session();
    client.ask(&old, "hello");
    drop(client);
    // A file in place of the folder prevents lock files.
    let _ = std::fs::remove_dir(world.data().join("locks"));
    std::fs::write(world.data().join("locks"), "").unwrap();
    let client = world.start();
    let new = client.session();
    assert_eq!(client.ask(&new, "hello").text, "ok");
    assert_eq!(client.ask(&new, "and again").text, "ok");
    let reported = warnings(&client, "session_unlocked");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains(&new), "{reported:?}");
    // Another server may have the old session open, so it is not touched.
    let error = client.refused("agent/prompt", json!({"sessionId": old, "prompt": "hello"}));
    assert_eq!(error.data["code"], "store");
    assert!(
        error.data["userAction"].as_str().unwrap().contains("disk"),
        "{error:?}"
    );
    // Once the disk works again, the session gets its lock.
    std::fs::remove_file(world.data().join("locks")).unwrap();
    assert_eq!(client.ask(&new, "and now").text, "ok");
    let other = world.start();
    let error = other.refused("agent/loadSession", json!({"sessionId": new}));
    assert_eq!(error.data["refusal"], "sessionLocked", "{error:?}");
    let loaded: Value = other.call("agent/loadSession", json!({"sessionId": new, "readOnly": true}));
    assert_eq!(loaded["events"].as_array().unwrap().len() as u64, loaded["seq"]);
}

#[test]
fn corrupt_record_is_reported_at_each_load_and_never_stored() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    drop(client);
    let store = rusqlite::Connection::open(world.data().join("store.db")).unwrap();
    let torn = store
        .execute(
            "UPDATE events SET json = '{' WHERE id = (SELECT min(id) FROM events)",
            [],
        )
        .unwrap();
    assert_eq!(torn, 1);
    drop(store);
    let mut seq = None;
    for read_only in [true, false, true, false] {
        let client = world.start();
        let load = |tail: u32| -> LoadSessionResult {
            client.call(
                "agent/loadSession",
                json!({"sessionId": session, "readOnly": read_only, "tail": tail}),
            )
        };
        let loaded = load(1_000);
        assert_eq!(*seq.get_or_insert(loaded.seq), loaded.seq, "nothing is added");
        assert_eq!(loaded.events.len() as u64, loaded.seq - 1);
        assert!(loaded.events.iter().all(|event| event.method != "agent/warning"));
        client.settled();
        let reported = warnings(&client, "store_record_skipped");
        assert_eq!(reported.len(), 1, "readOnly: {read_only}: {reported:?}");
        assert!(
            reported[0].contains(&session) && reported[0].contains("event 1"),
            "{reported:?}"
        );
        load(1_000);
        client.settled();
        assert_eq!(warnings(&client, "store_record_skipped").len(), 2);
    }
    // Without a load, the warning comes when a prompt opens the session.
    let client = world.start();
    assert_eq!(client.ask(&session, "go on").text, "ok");
    assert_eq!(warnings(&client, "store_record_skipped").len(), 1);
}

#[test]
fn newer_store_is_refused_before_and_during_a_turn() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    let gate = Gate::new();
    world
        .mock()
        .push(Reply::text("half").gate(&gate).with_text(" and half").stall());
    let id = client.prompt(&session, "hello");
    world.wait_at_gate(&gate);
    let store = rusqlite::Connection::open(world.data().join("store.db")).unwrap();
    store
        .execute_batch("CREATE TABLE newer (x); PRAGMA user_version = 99;")
        .unwrap();
    gate.release();
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        crate::transitions::course(&client, &session, &result),
        ["completed", "store_failed / failed / store"]
    );
    let error = &result["error"];
    assert!(
        error["message"].as_str().unwrap().contains("schema 99"),
        "{error}"
    );
    assert!(
        error["userAction"]
            .as_str()
            .unwrap()
            .starts_with("update agentls"),
        "{error}"
    );
    let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": "hello"}));
    assert!(error.message.contains("schema 99"), "{error:?}");
    assert_eq!(warnings(&client, "store").len(), 1);
    client.ping();
    // A server that has not written yet starts no turn.
    let other = world.start();
    let new = other.session();
    let error = other.refused("agent/prompt", json!({"sessionId": new, "prompt": "hello"}));
    assert!(error.message.contains("schema 99"), "{error:?}");
    assert_eq!(error.data["code"], "store");
    assert!(
        error.data["userAction"]
            .as_str()
            .unwrap()
            .starts_with("update agentls"),
        "{error:?}"
    );
    assert_eq!(world.requests(), 2);
}

fn as_ordinary_user(env: Vec<(String, String)>) -> Options {
    Options {
        ordinary_user: true,
        env,
        ..Options::default()
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_store_where_nothing_can_be_written_is_read() {
    let world = World::new();
    if !world.has_ordinary_user() {
        println!("NOT TESTED: this namespace has no user but root");
        return;
    }
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    drop(client);
    // What is in the log only cannot be read without a place for its index.
    let store = rusqlite::Connection::open(world.data().join("store.db")).unwrap();
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: bool = store.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(!is_busy);
    drop(store);
    // It belongs to the superuser.
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("agentls");
    std::fs::create_dir(&data).unwrap();
    std::fs::copy(world.data().join("store.db"), data.join("store.db")).unwrap();
    for folder in [home.path(), &data] {
        set_mode(folder, 0o555);
    }
    set_mode(&data.join("store.db"), 0o444);
    let client = world.start_with(as_ordinary_user(vec![(
        "XDG_DATA_HOME".to_owned(),
        home.path().display().to_string(),
    )]));
    for _ in 0..2 {
        let listed: Value = client.call("agent/listSessions", json!({}));
        assert_eq!(listed["sessions"][0]["sessionId"], session, "{listed}");
    }
    let params = json!({"sessionId": session, "readOnly": true});
    let loaded: LoadSessionResult = client.call("agent/loadSession", params);
    assert_eq!(loaded.events.len() as u64, loaded.seq);
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    set_mode(home.path(), 0o755);
    set_mode(&data, 0o755);
}

#[test]
fn a_damaged_store_that_cannot_be_repaired_in_place_is_moved_aside() {
    let world = World::new();
    if !world.has_ordinary_user() {
        println!("NOT TESTED: this namespace has no user but root");
        return;
    }
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    drop(client);
    let path = world.data().join("store.db");
    let store = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions_recent'";
    let page: i64 = store.query_row(sql, [], |row| row.get(0)).unwrap();
    let page = page as usize;
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(page - 1) * 4_096..page * 4_096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    set_mode(&path, 0o444);
    let client = world.start_with(as_ordinary_user(Vec::new()));
    let error = client.refused("agent/listSessions", json!({}));
    assert!(
        error.message.contains("is damaged") && error.message.contains("was moved to"),
        "{error:?}"
    );
    let listed: Value = client.call("agent/listSessions", json!({}));
    assert_eq!(listed["sessions"][0]["sessionId"], session, "{listed}");
}
