//! File changes of turns are recorded, reported, reverted and redone (R-SESS-3).

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{Gate, Reply};

/// Opens a session in mode `full`, in which no call needs approval.
pub(crate) fn free(client: &Client) -> String {
    client.session_with(json!({"mode": "full"}))
}

/// Runs a turn that makes these calls one after the other, and returns its id.
pub(crate) fn turn(world: &World, client: &Client, session: &str, calls: &[(&str, Value)]) -> String {
    for (name, input) in calls {
        world.mock().push(Reply::new().call(name, input.clone()));
    }
    world.mock().push(Reply::text("done"));
    client.ask(session, "do it").turn_id
}

pub(crate) fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    let edits = json!([{"old_text": old, "new_text": new}]);
    ("edit_file", json!({"path": path, "edits": edits}))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

pub(crate) fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

pub(crate) fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"path": path}))
}

pub(crate) fn revert(client: &Client, session: &str, turn: &str, more: Value) -> Value {
    let mut params = json!({"sessionId": session, "turnId": turn});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.call("agent/revert", params)
}

/// Returns the path and the field `what` of each entry in `list`, sorted.
pub(crate) fn entry_fields<'a>(answer: &'a Value, list: &str, field: &str) -> Vec<(&'a str, &'a str)> {
    let mut entries: Vec<_> = answer[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file[field].as_str().unwrap()))
        .collect();
    entries.sort_unstable();
    entries
}

#[test]
fn edits_are_reported_reverted_and_redone() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    let client = world.start();
    let session = free(&client);
    let id = turn(
        &world,
        &client,
        &session,
        &[
            edit("a.txt", "two", "2"),
            edit("a.txt", "one", "1"),
            write("new/b.txt", "b\n"),
        ],
    );
    let diff = client.next(&session, "agent/turnDiff");
    assert_eq!(diff.text("ofTurnId"), id);
    assert_eq!(diff.text("standing"), "made");
    assert_eq!(
        entry_fields(&diff.params, "files", "kind"),
        [("a.txt", "modified"), ("new/b.txt", "created")]
    );
    assert_eq!(
        diff.params["files"][0]["diff"],
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n"
    );
    let end = client.next(&session, "agent/turnEnded");
    assert!(
        diff.params["seq"].as_u64() < end.params["seq"].as_u64(),
        "the end is the last of its turn"
    );
    let would = revert(&client, &session, &id, json!({"dryRun": true}));
    assert_eq!(
        entry_fields(&would, "files", "kind"),
        [("a.txt", "modified"), ("new/b.txt", "deleted")]
    );
    assert_eq!(world.read("a.txt").unwrap(), "1\n2\n");
    assert_eq!(revert(&client, &session, &id, json!({})), would);
    assert_eq!(would["turnIds"], json!([id]));
    assert_eq!(world.read("a.txt").unwrap(), "one\ntwo\n");
    assert_eq!(world.read("new/b.txt"), None);
    let back = client.next(&session, "agent/turnDiff");
    assert_eq!(
        (back.text("standing"), back.text("ofTurnId")),
        ("reverted", id.as_str())
    );
    // A second revert changes nothing.
    assert_eq!(revert(&client, &session, &id, json!({}))["files"], json!([]));
    // The model learns of the revert before it continues.
    client.ask(&session, "go on");
    let last = world.requests() - 1;
    let sent = String::from_utf8_lossy(&world.wait_for_request(last).raw).into_owned();
    assert!(sent.contains("undone in: a.txt, new/b.txt"), "{sent}");
    client.ask(&session, "and on");
    let redone = revert(&client, &session, &id, json!({"redo": true}));
    assert_eq!(
        entry_fields(&redone, "files", "kind"),
        [("a.txt", "modified"), ("new/b.txt", "created")]
    );
    assert_eq!(world.read("a.txt").unwrap(), "1\n2\n");
    assert_eq!(world.read("new/b.txt").unwrap(), "b\n");
    assert_eq!(client.next(&session, "agent/turnDiff").text("standing"), "redone");
    let error = client.refused(
        "agent/revert",
        json!({"sessionId": session, "turnId": id, "redo": true}),
    );
    assert_eq!(error.data["refusal"], "nothingToRedo");
    let error = client.refused(
        "agent/revert",
        json!({"sessionId": session, "turnId": "turn_none"}),
    );
    assert_eq!(error.data["refusal"], "unknownTurn");
    // Only the owner can read kept contents, and they are deleted with the session.
    let content_folder = world.data().join("content").join(&session).join("files");
    for file in std::fs::read_dir(&content_folder).unwrap() {
        assert_eq!(
            file.unwrap().metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let _: Value = client.call("agent/deleteSession", json!({"sessionId": session}));
    assert!(!content_folder.exists());
}

#[test]
fn later_changes_by_a_user_are_kept_and_reported() {
    let world = World::new();
    world.write("a.txt", "a\n");
    world.write("b.txt", "b\n");
    world.write("c.txt", "c\n");
    let client = world.start();
    let session = free(&client);
    let edits = [
        edit("a.txt", "a", "A"),
        edit("b.txt", "b", "B"),
        edit("c.txt", "c", "C"),
        write("d.txt", "d"),
    ];
    let id = turn(&world, &client, &session, &edits);
    world.write("b.txt", "a user's\n");
    std::fs::remove_file(world.path("work/c.txt")).unwrap();
    std::fs::rename(world.path("work/d.txt"), world.path("work/e.txt")).unwrap();
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(entry_fields(&done, "files", "kind"), [("a.txt", "modified")]);
    let since = "it has changed since";
    assert_eq!(
        entry_fields(&done, "conflicts", "why"),
        [("b.txt", since), ("c.txt", since)]
    );
    assert_eq!(world.read("a.txt").unwrap(), "a\n");
    assert_eq!(world.read("b.txt").unwrap(), "a user's\n");
    assert_eq!(world.read("c.txt"), None);
    assert_eq!(world.read("e.txt").unwrap(), "d");
}

#[test]
fn revert_includes_later_turns_and_keeps_earlier_ones() {
    let world = World::new();
    world.write("a.txt", "1\n");
    world.write("b.txt", "b\n");
    let client = world.start();
    let session = free(&client);
    let first = turn(&world, &client, &session, &[edit("a.txt", "1", "2")]);
    let second = turn(
        &world,
        &client,
        &session,
        &[edit("a.txt", "2", "3"), edit("b.txt", "b", "B")],
    );
    let done = revert(&client, &session, &second, json!({}));
    assert_eq!(done["turnIds"], json!([second]));
    assert_eq!(world.read("a.txt").unwrap(), "2\n");
    let third = turn(
        &world,
        &client,
        &session,
        &[read("b.txt"), edit("b.txt", "b", "bb")],
    );
    let done = revert(&client, &session, &first, json!({}));
    assert_eq!(done["turnIds"], json!([first, second, third]));
    assert_eq!(
        entry_fields(&done, "files", "kind"),
        [("a.txt", "modified"), ("b.txt", "modified")]
    );
    assert_eq!(world.read("a.txt").unwrap(), "1\n");
    assert_eq!(world.read("b.txt").unwrap(), "b\n");
    revert(&client, &session, &first, json!({"redo": true}));
    assert_eq!(world.read("a.txt").unwrap(), "2\n");
    assert_eq!(world.read("b.txt").unwrap(), "bb\n");
}

#[test]
fn revert_keeps_a_users_change_between_two_turns() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = world.start();
    let session = free(&client);
    let first = turn(&world, &client, &session, &[edit("a.txt", "one", "agent")]);
    world.write("a.txt", "person\n");
    let second = turn(
        &world,
        &client,
        &session,
        &[read("a.txt"), edit("a.txt", "person", "agent again")],
    );
    let answer = revert(&client, &session, &first, json!({}));
    assert_eq!(
        entry_fields(&answer, "conflicts", "why"),
        [("a.txt", "it was changed by someone else between these changes")]
    );
    assert_eq!(world.read("a.txt").unwrap(), "agent again\n");
    // Reverting the later turn alone restores the user's text.
    revert(&client, &session, &second, json!({}));
    assert_eq!(world.read("a.txt").unwrap(), "person\n");
}

#[test]
fn revert_is_refused_while_a_turn_runs() {
    let world = World::new();
    let gate = Gate::new();
    let client = world.start();
    let session = free(&client);
    let id = turn(&world, &client, &session, &[write("a.txt", "a")]);
    world.mock().push(Reply::text("slow").gate(&gate));
    let running = client.prompt(&session, "go on");
    world.wait_at_gate(&gate);
    let error = client.refused("agent/revert", json!({"sessionId": session, "turnId": id}));
    assert_eq!(error.data["refusal"], "turnRunning");
    gate.release();
    client.prompt_result(&running);
    assert_eq!(world.read("a.txt").unwrap(), "a");
}

#[test]
fn command_changes_are_reverted() {
    let world = World::new();
    for name in [
        "read.txt",
        "gone.txt",
        "moved.txt",
        "unread.txt",
        "mode.sh",
        "linked.txt",
    ] {
        world.write(name, format!("{name}\n"));
    }
    symlink("read.txt", world.path("work/link")).unwrap();
    let client = world.start();
    let session = free(&client);
    let command = "printf changed > read.txt; rm gone.txt; mv moved.txt sub.txt; printf x > unread.txt; \
                   chmod +x mode.sh; rm linked.txt; ln -s read.txt linked.txt; printf 'a\\0b' > binary";
    let calls = [
        read("read.txt"),
        read("gone.txt"),
        read("moved.txt"),
        read("mode.sh"),
        read("linked.txt"),
        bash(command),
    ];
    let id = turn(&world, &client, &session, &calls);
    let diff = client.next(&session, "agent/turnDiff");
    let changed = [
        ("binary", "created"),
        ("gone.txt", "deleted"),
        ("linked.txt", "modified"),
        ("mode.sh", "modified"),
        ("moved.txt", "deleted"),
        ("read.txt", "modified"),
        ("sub.txt", "created"),
        ("unread.txt", "modified"),
    ];
    assert_eq!(entry_fields(&diff.params, "files", "kind"), changed);
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    for name in [
        "read.txt",
        "gone.txt",
        "moved.txt",
        "unread.txt",
        "mode.sh",
        "linked.txt",
    ] {
        assert_eq!(world.read(name).as_deref(), Some(format!("{name}\n").as_str()));
    }
    let mode = |name: &str| world.path(name).symlink_metadata().unwrap();
    assert_eq!(mode("work/mode.sh").permissions().mode() & 0o111, 0);
    assert!(mode("work/linked.txt").is_file());
    assert!(!world.path("work/binary").exists());
    revert(&client, &session, &id, json!({"redo": true}));
    assert_eq!(std::fs::read(world.path("work/binary")).unwrap(), b"a\0b");
    assert!(mode("work/linked.txt").is_symlink());
    assert_eq!(world.read("gone.txt"), None);
    assert_eq!(mode("work/mode.sh").permissions().mode() & 0o111, 0o111);
}

#[test]
fn kill_during_a_revert_of_ten_thousand_files_loses_nothing() {
    let world = World::new();
    let client = world.start();
    let session = free(&client);
    let command = "mkdir many; cd many; seq 1 10000 | while read n; do echo $n > f$n; done";
    let id = turn(&world, &client, &session, &[bash(command)]);
    let count = || std::fs::read_dir(world.path("work/many")).unwrap().count();
    assert_eq!(count(), 10_000);
    let diff = client.next(&session, "agent/turnDiff");
    let listed = diff.params["files"].as_array().unwrap().len() as u64;
    assert_eq!(listed + diff.params["unlisted"].as_u64().unwrap(), 10_000);
    client.send("agent/revert", json!({"sessionId": session, "turnId": id}));
    world.wait_until(|| count() < 10_000);
    client.kill();
    let remaining = count();
    let client = world.start();
    client.load(&session);
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!((done["conflicts"].as_array().unwrap().len(), count()), (0, 0));
    assert_eq!(done["files"].as_array().unwrap().len(), remaining);
    revert(&client, &session, &id, json!({"redo": true}));
    assert_eq!(count(), 10_000);
    assert_eq!(world.read("many/f777").unwrap(), "777\n");
}

#[test]
fn edit_without_a_checkpoint_asks_for_approval() {
    let world = World::new();
    world.write("a.txt", "a\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "autoEdit"}));
    // A file in place of the folder keeps the server from storing contents.
    let content_folder = world.data().join("content").join(&session);
    std::fs::create_dir_all(&content_folder).unwrap();
    std::fs::write(content_folder.join("files"), "in the way").unwrap();
    world
        .mock()
        .push(Reply::new().call("edit_file", edit("a.txt", "a", "b").1));
    world.mock().push(Reply::text("done"));
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert!(
        approval.text("why").contains("cannot be kept"),
        "{:?}",
        approval.params
    );
    assert_eq!(world.read("a.txt").unwrap(), "a\n");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert_eq!(world.read("a.txt").unwrap(), "b\n");
    std::fs::remove_file(content_folder.join("files")).unwrap();
    world
        .mock()
        .push(Reply::new().call("edit_file", edit("a.txt", "b", "c").1));
    world.mock().push(Reply::text("done"));
    client.ask(&session, "again");
    assert_eq!(world.read("a.txt").unwrap(), "c\n");
}
