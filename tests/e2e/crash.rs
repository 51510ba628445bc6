//! `kill -9` at bad moments: shown text survives, the turn has its end, and the next prompt works (R-SESS-1, R-CANCEL,
//! R-APPR-4). `kills` does the same at random moments.

use std::time::Duration;

use agentls::protocol::LoadSessionResult;
use serde_json::{Value, json};

use crate::harness::{Client, WAIT_LIMIT, World, now};
use crate::mock_llm::{Gate, Reply};

/// Asserts that the store is intact, whatever happened to its server.
pub fn check_store(world: &World) {
    let files = std::fs::read_dir(world.data()).unwrap();
    let databases: Vec<_> = files
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| ["db", "sqlite", "sqlite3"].iter().any(|known| end == *known))
        })
        .collect();
    assert!(!databases.is_empty(), "no database in {}", world.data().display());
    for path in databases {
        let store = rusqlite::Connection::open(&path).unwrap();
        let verdict: String = store
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
    }
}

/// Loads a session. Returns the reason of its last event, and each text of the model with its `incomplete` flag.
fn look(client: &Client, session: &str) -> (String, Vec<(String, bool)>) {
    let loaded = client.load(session);
    let texts = loaded
        .events
        .iter()
        .filter(|event| event.method == "agent/message" && event.params["role"] == "assistant")
        .map(|event| {
            let text: String = event.params["content"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|block| block["text"].as_str())
                .collect();
            (text, event.params["incomplete"] == true)
        })
        .collect();
    let last = loaded.events.last().unwrap();
    assert_eq!(last.method, "agent/turnEnded", "{last:?}");
    assert!(loaded.state.running_turn_id.is_none());
    (last.params["reason"].as_str().unwrap().to_owned(), texts)
}

#[test]
fn kill_during_a_stream_loses_at_most_the_last_250_ms() {
    let world = World::new();
    let words: Vec<String> = (0..200).map(|n| format!("w{n} ")).collect();
    let shown = words.concat();
    let gate = Gate::new();
    world.mock().push(Reply::text("an answer before"));
    world.mock().push(Reply::deltas(words).gate(&gate));
    let client = world.start_frozen();
    let session = client.session();
    client.ask(&session, "hello");
    let _abandoned = client.prompt(&session, "count");
    world.wait_until(|| {
        // The answer to a request brings the deltas that a frame holds back.
        client.settled();
        client.streamed_text(&session).ends_with(&shown)
    });
    client.advance(Duration::from_millis(250));
    // The session takes commands before it looks at its timers, so one round may come before the text is stored.
    client.settled();
    client.settled();
    client.kill();
    check_store(&world);
    let client = world.start();
    let (reason, texts) = look(&client, &session);
    assert_eq!(reason, "server_stopped");
    assert_eq!(texts[0], ("an answer before".to_owned(), false));
    let (text, incomplete) = &texts[1];
    assert!(incomplete, "{texts:?}");
    assert!(text.starts_with("w0 w1 w2 "), "{text}");
    assert_eq!(*text, shown);
    assert_eq!(client.ask(&session, "go on").text, "ok");
    let body = world.wait_for_request(2).raw.clone();
    assert!(
        String::from_utf8_lossy(&body).contains("w0 w1 w2 "),
        "the model knows what it said"
    );
}

/// The events that repair a cut turn reach the client once: in the page if it loads the session, otherwise as
/// notifications.
#[test]
fn repair_of_a_cut_turn_is_reported_once() {
    for load in [true, false] {
        let world = World::new();
        world
            .mock()
            .push(Reply::deltas(vec!["some ".to_owned(), "words".to_owned()]).stall());
        let client = world.start();
        let session = client.session();
        let _abandoned = client.prompt(&session, "count");
        client.next_matching(&session, "agent/textDelta", |notification| {
            notification.text("text").contains("words")
        });
        client.kill();
        let client = world.start();
        let before = if load {
            let loaded = client.load(&session);
            assert_eq!(loaded.events.last().unwrap().method, "agent/turnEnded");
            assert_eq!(
                client
                    .notes()
                    .iter()
                    .filter(|notification| notification.params["seq"].is_u64())
                    .count(),
                0
            );
            loaded.seq
        } else {
            0
        };
        assert_eq!(client.ask(&session, "go on").text, "ok");
        let ends: Vec<String> = client
            .all(&session, "agent/turnEnded")
            .iter()
            .map(|end| end.text("reason").to_owned())
            .collect();
        let first = client
            .notes()
            .iter()
            .find_map(|notification| notification.params["seq"].as_u64())
            .unwrap();
        if load {
            assert_eq!((ends, first), (vec!["completed".to_owned()], before + 1));
        } else {
            assert_eq!(ends, ["server_stopped", "completed"]);
        }
    }
}

#[test]
fn open_approval_is_asked_again_under_its_id() {
    for killed in [true, false] {
        let world = World::new();
        world
            .mock()
            .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
        let client = world.start();
        let session = client.session();
        let id = client.prompt(&session, "do it");
        let approval = client.next_approval(&session);
        if killed {
            client.kill();
        } else {
            client.close_input();
            assert_eq!(json!(client.prompt_result(&id).reason), "server_stopped");
            client.wait_for_exit();
            drop(client);
        }
        let client = world.start();
        let loaded = client.load(&session);
        assert_eq!(loaded.open_approvals.len(), 1, "killed: {killed}");
        assert_eq!(loaded.open_approvals[0].approval_id, approval.text("approvalId"));
        assert!(loaded.state.resumable_turn_id.is_some());
        let resumed = client.send("agent/resumeTurn", json!({"sessionId": session}));
        let reopened = client.next_approval(&session);
        assert_eq!(reopened.text("approvalId"), approval.text("approvalId"));
        assert_eq!(reopened.text("toolCallId"), approval.text("toolCallId"));
        assert_eq!(world.read("x"), None, "nothing runs without an answer");
        client.decide(&reopened, "allow");
        let result = client.prompt_result(&resumed);
        assert_eq!(result.text, "ok");
        assert_eq!(
            client.next(&session, "agent/approvalResolved").text("turnId"),
            result.turn_id
        );
        assert_eq!(world.read("x").unwrap(), "x");
    }
}

#[test]
fn new_prompt_after_a_crash_denies_the_open_approval() {
    let world = World::new();
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let _abandoned = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.kill();
    let client = world.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "something else").text, "ok");
    let resolved = client.next(&session, "agent/approvalResolved");
    assert_eq!(
        (resolved.text("decision"), resolved.text("by")),
        ("deny", "newPrompt")
    );
    assert!(String::from_utf8_lossy(&world.wait_for_request(1).raw).contains("Denied by user"));
    assert_eq!(world.read("x"), None);
}

#[test]
fn new_prompt_keeps_the_words_of_an_earlier_decision() {
    for (answer, expected, status) in [
        (
            json!({"decision": "allow"}),
            "Not run: the user allowed it",
            "cancelled",
        ),
        (
            json!({"decision": "deny", "feedback": "use tabs"}),
            "Denied by user: use tabs",
            "denied",
        ),
    ] {
        let world = World::new();
        world
            .mock()
            .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
        let client = world.start();
        let session = client.session();
        let _abandoned = client.prompt(&session, "do it");
        let approval = client.next_approval(&session);
        client.kill();
        let client = world.start();
        client.load(&session);
        let mut params = answer.clone();
        params["approvalId"] = approval.text("approvalId").into();
        client.respond(params);
        assert_eq!(client.ask(&session, "something else").text, "ok");
        let resolved = client.next(&session, "agent/approvalResolved");
        assert_eq!(
            (resolved.text("decision"), resolved.text("by")),
            (answer["decision"].as_str().unwrap(), "person")
        );
        client.tool_call(&session, status);
        let sent = String::from_utf8_lossy(&world.wait_for_request(1).raw).into_owned();
        assert!(sent.contains(expected), "{sent}");
        assert_eq!(world.read("x"), None);
    }
}

#[test]
fn decision_before_the_resume_survives_another_crash() {
    let world = World::new();
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let _abandoned = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.kill();
    let client = world.start();
    client.load(&session);
    client.decide(&approval, "allow");
    assert_eq!(world.read("x"), None, "only a resume acts on it");
    let error = client.refused(
        "agent/approvalRespond",
        json!({"approvalId": approval.text("approvalId"), "decision": "deny"}),
    );
    assert_eq!(error.data["refusal"], "unknownApproval", "the first answer wins");
    client.kill();
    let client = world.start();
    client.load(&session);
    let result: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(result["text"], "ok");
    assert_eq!(world.read("x").unwrap(), "x");
}

#[test]
fn open_approval_can_be_answered_before_its_session_is_loaded() {
    let world = World::new();
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let _abandoned = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    let listed = |client: &Client| {
        let open: Value = client.call("agent/listApprovals", json!({}));
        open["approvals"].clone()
    };
    let other = world.start();
    assert_eq!(listed(&other), json!([]), "another server asks it");
    client.kill();
    assert_eq!(listed(&other), json!([approval.params]));
    drop(other);
    let client = world.start();
    assert_eq!(listed(&client), json!([approval.params]));
    client.decide(&approval, "allow");
    assert_eq!(listed(&client), json!([]), "it is decided");
    assert_eq!(world.read("x"), None, "only a resume acts on it");
    client.kill();
    let client = world.start();
    assert_eq!(listed(&client), json!([]), "it stays decided");
    assert_eq!(client.load(&session).open_approvals, []);
    let result: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(result["text"], "ok");
    assert_eq!(world.read("x").unwrap(), "x");
}

#[test]
fn read_only_load_shows_a_cut_turn_without_repairing_it() {
    let world = World::new();
    let gate = Gate::new();
    world
        .mock()
        .push(Reply::deltas(["some ".to_owned(), "words".to_owned()]).gate(&gate));
    let client = world.start();
    let session = client.session();
    let _abandoned = client.prompt(&session, "count");
    let turn = client
        .next(&session, "agent/turnStarted")
        .text("turnId")
        .to_owned();
    world.wait_at_gate(&gate);
    let other = world.start();
    let look = || -> LoadSessionResult {
        other.call(
            "agent/loadSession",
            json!({"sessionId": session, "readOnly": true}),
        )
    };
    let text = |loaded: &LoadSessionResult| loaded.partial.as_ref().map(|partial| partial.text.clone());
    let until = now() + WAIT_LIMIT;
    let running = loop {
        let loaded = look();
        if text(&loaded).as_deref() == Some("some words") {
            break loaded;
        }
        assert!(now() < until, "{loaded:?}");
    };
    assert_eq!(
        (running.state.running_turn_id, running.state.resumable_turn_id),
        (Some(turn.clone()), None)
    );
    client.kill();
    for _ in 0..2 {
        let cut = look();
        assert_eq!(text(&cut).as_deref(), Some("some words"));
        assert_eq!(
            (cut.state.running_turn_id, cut.state.resumable_turn_id),
            (None, Some(turn.clone()))
        );
        assert_eq!(cut.seq, running.seq, "loading read-only repairs nothing");
    }
    assert!(show_session(&world, &session).contains("some words"));
    let repaired = other.load(&session);
    assert_eq!(repaired.partial, None);
    assert_eq!(repaired.state.resumable_turn_id, Some(turn));
    let last = repaired
        .events
        .iter()
        .rev()
        .find(|event| event.method == "agent/message");
    assert_eq!(last.unwrap().params["content"][0]["text"], "some words");
    assert_eq!(look().partial, None);
}

/// Returns the output of `agentls sessions show`.
#[expect(clippy::disallowed_methods, reason = "the test plays the user")]
fn show_session(world: &World, session: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["sessions", "show", session])
        .env_clear()
        .envs(world.env())
        .current_dir(world.workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
