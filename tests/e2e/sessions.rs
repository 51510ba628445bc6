//! Sessions: list, search, paged load, rename, delete, fork, export, and sharing between servers (R-SESS).

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{Gate, Reply};

fn listed(client: &Client, params: Value) -> Vec<Value> {
    let page: Value = client.call("agent/listSessions", params);
    page["sessions"].as_array().unwrap().clone()
}

#[test]
fn sessions_are_listed_searched_renamed_and_deleted() {
    let world = World::new();
    let client = world.start();
    let (first, second) = (client.session(), client.session());
    let empty = client.session();
    world
        .mock()
        .push_for("zebra", Reply::text("An animal with stripes."));
    client.ask(&first, "tell me of the zebra, please");
    client.ask(&second, "and what about cats?");
    let all = listed(&client, json!({}));
    let ids: Vec<_> = all
        .iter()
        .map(|session| session["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        [second.as_str(), first.as_str()],
        "newest first; nothing happened in {empty}"
    );
    assert_eq!(all[1]["title"], "tell me of the zebra, please");
    assert_eq!(all[1]["cwd"], json!(world.workspace()));
    for (query, wanted) in [
        ("zebra", vec![&first]),
        ("stripes", vec![&first]),
        ("cats", vec![&second]),
        ("dogs", vec![]),
        ("\"'*(", vec![]),
    ] {
        let found = listed(&client, json!({"query": query}));
        let ids: Vec<_> = found
            .iter()
            .map(|session| session["sessionId"].as_str().unwrap())
            .collect();
        assert_eq!(ids, wanted, "{query}");
    }
    let page: Value = client.call("agent/listSessions", json!({"limit": 1}));
    let next: Value = client.call(
        "agent/listSessions",
        json!({"limit": 1, "cursor": page["nextCursor"]}),
    );
    assert_eq!(
        (
            &page["sessions"][0]["sessionId"],
            &next["sessions"][0]["sessionId"]
        ),
        (&json!(second), &json!(first))
    );
    assert!(listed(&client, json!({"cwd": "/nowhere"})).is_empty());
    let _: Value = client.call(
        "agent/renameSession",
        json!({"sessionId": first, "title": "Stripes"}),
    );
    client.next_matching(&first, "agent/sessionUpdated", |notification| {
        notification.text("title") == "Stripes"
    });
    assert_eq!(
        listed(&client, json!({"query": "Stripes"}))[0]["title"],
        "Stripes"
    );
    let _: Value = client.call("agent/deleteSession", json!({"sessionId": first}));
    assert_eq!(listed(&client, json!({})).len(), 1);
    let error = client.refused("agent/loadSession", json!({"sessionId": first}));
    assert_eq!(error.data["refusal"], "unknownSession");
    let error = client.refused("agent/prompt", json!({"sessionId": first, "prompt": "hello"}));
    assert_eq!(error.data["refusal"], "unknownSession");
}

#[test]
fn deleted_session_is_unknown_immediately() {
    let world = World::new();
    let client = world.start();
    for round in 0..30 {
        let session = client.session();
        client.ask(&session, "hello");
        let (deleted, mut bytes) = client.request("agent/deleteSession", json!({"sessionId": session}));
        let (request_id, more) =
            client.request("agent/prompt", json!({"sessionId": session, "prompt": "hello"}));
        bytes.extend(more);
        client.raw(&bytes);
        assert!(client.answer(&deleted).is_ok());
        for _ in 0..3 {
            let error = client.refused("agent/loadSession", json!({"sessionId": session}));
            assert_eq!(
                error.data["refusal"], "unknownSession",
                "round {round}: {error:?}"
            );
        }
        assert_eq!(
            client.refusal(&request_id).data["refusal"],
            "unknownSession",
            "round {round}"
        );
    }
}

#[test]
fn deleting_a_running_session_cancels_it_first() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("half").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "hello");
    world.wait_at_gate(&gate);
    let _: Value = client.call("agent/deleteSession", json!({"sessionId": session}));
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    assert!(listed(&client, json!({})).is_empty());
    assert!(world.closed(&world.wait_for_request(0)).dropped);
}

#[test]
fn session_can_be_loaded_in_pages() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    for n in 0..10 {
        client.ask(&session, format!("question {n}"));
    }
    let live: Vec<(u64, String)> = client
        .notes()
        .iter()
        .filter(|notification| notification.text("sessionId") == session)
        .filter_map(|notification| Some((notification.params["seq"].as_u64()?, notification.method.clone())))
        .collect();
    let count = live.len() as u64;
    drop(client);
    let client = world.start();
    let load = |params: Value| -> Vec<(u64, String)> {
        let mut params = params;
        params["sessionId"] = json!(session);
        let loaded: agentls::protocol::LoadSessionResult = client.call("agent/loadSession", params);
        assert_eq!(loaded.seq, count);
        let seq = |event: &agentls::protocol::EventRecord| event.params["seq"].as_u64().unwrap();
        loaded
            .events
            .iter()
            .map(|event| (seq(event), event.method.clone()))
            .collect()
    };
    assert_eq!(load(json!({})), live, "the loaded events equal the shown ones");
    assert_eq!(load(json!({"tail": 7})), live[live.len() - 7..]);
    assert_eq!(load(json!({"beforeSeq": 10, "tail": 4})), live[5..9]);
    assert_eq!(load(json!({"afterSeq": count - 3})), live[live.len() - 3..]);
    assert_eq!(load(json!({"afterSeq": count})), []);
    assert_eq!(load(json!({"tail": 0})), []);
    assert_eq!(load(json!({"readOnly": true})), live);
    // All pages, read backwards, form the whole history.
    let (mut history, mut before) = (Vec::new(), count + 1);
    while before > 1 {
        let page = load(json!({"beforeSeq": before, "tail": 6}));
        before = page[0].0;
        history.splice(0..0, page);
    }
    assert_eq!(history, live);
    // The session continues where it stopped.
    assert_eq!(client.ask(&session, "one more").text, "ok");
    let messages = world.wait_for_request(10).body["messages"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(messages, 21);
}

#[test]
fn read_only_load_does_not_disturb_prompts() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    drop(client);
    // A session that was only viewed is unloaded immediately; a prompt in between is not lost.
    for round in 0..20 {
        let client = world.start();
        let look = client.send(
            "agent/loadSession",
            json!({"sessionId": session, "readOnly": true}),
        );
        if round % 2 == 0 {
            assert!(client.answer(&look).is_ok());
        }
        let id = client.prompt(&session, format!("round {round}"));
        assert_eq!(client.prompt_result(&id).text, "ok", "round {round}");
        if round % 2 == 1 {
            assert!(client.answer(&look).is_ok());
        }
    }
}

#[test]
fn load_includes_the_message_in_progress() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(
        Reply::text("the first half")
            .gate(&gate)
            .with_text(" and the second"),
    );
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "hello");
    world.wait_at_gate(&gate);
    client.next_matching(&session, "agent/textDelta", |notification| {
        notification.text("text").ends_with("half")
    });
    let loaded = client.load(&session);
    let partial = loaded.partial.unwrap();
    assert_eq!((partial.text.as_str(), partial.offset), ("the first half", 0));
    assert!(loaded.state.running_turn_id.is_some());
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "the first half and the second");
}

#[test]
fn servers_share_a_store_but_only_one_holds_a_session() {
    let world = World::new();
    let first = world.start();
    let session = first.session();
    first.ask(&session, "hello");
    let second = world.start();
    // Both servers list the session and can read its events.
    assert_eq!(listed(&second, json!({})).len(), 1);
    let loaded: Value = second.call(
        "agent/loadSession",
        json!({"sessionId": session, "readOnly": true}),
    );
    assert_eq!(
        loaded["events"].as_array().unwrap().len() as u64,
        loaded["seq"].as_u64().unwrap()
    );
    // Only one server can work in it.
    let error = second.refused("agent/loadSession", json!({"sessionId": session}));
    assert_eq!(
        (error.code, error.data["refusal"].as_str()),
        (-32803, Some("sessionLocked")),
        "{error:?}"
    );
    let holder = error.data["holder"].as_str().unwrap();
    assert!(holder.contains(&first.pid().to_string()), "{holder}");
    // Another session is not locked.
    let other = second.session();
    assert_eq!(second.ask(&other, "hello").text, "ok");
    // A waiting load succeeds as soon as the other server exits.
    let waiting = second.send("agent/loadSession", json!({"sessionId": session}));
    drop(first);
    assert!(second.answer(&waiting).is_ok());
    assert_eq!(second.ask(&session, "and now?").text, "ok");
}

#[test]
fn killed_server_holds_no_lock() {
    let world = World::new();
    let first = world.start();
    let session = first.session();
    first.ask(&session, "hello");
    first.kill();
    let second = world.start();
    assert_eq!(second.ask(&session, "and now?").text, "ok");
    assert_eq!(
        world.wait_for_request(1).body["messages"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn model_and_mode_of_a_session_survive_a_restart() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let _: Value = client.call(
        "agent/setModel",
        json!({"sessionId": session, "model": "other/other-model"}),
    );
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "plan"}));
    client.ask(&session, "hello");
    assert_eq!(world.wait_for_request(0).body["model"], "other-model");
    drop(client);
    let client = world.start();
    let state = client.load(&session).state;
    assert_eq!(
        (json!(state.mode), state.model.as_deref()),
        (json!("plan"), Some("other/other-model"))
    );
    assert_eq!(state.title.as_deref(), Some("hello"));
    client.ask(&session, "again");
    assert_eq!(world.wait_for_request(1).body["model"], "other-model");
    let models: Value = client.call("agent/listModels", json!({"sessionId": session}));
    let current: Vec<_> = models["models"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["current"] == true)
        .collect();
    assert_eq!(current.len(), 1, "{models}");
    assert_eq!(current[0]["model"], "other/other-model");
}

#[test]
fn fork_copies_history_up_to_a_turn_and_is_independent() {
    let world = World::new();
    world.write("a.txt", "a\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let empty: Value = client.call("agent/forkSession", json!({"sessionId": session}));
    assert_ne!(empty["sessionId"], session.as_str());
    let edits = json!({"path": "a.txt", "edits": [{"old_text": "a", "new_text": "b"}]});
    world.mock().push(Reply::new().call("edit_file", edits));
    world.mock().push(Reply::text("changed"));
    let first = client.ask(&session, "change a").turn_id;
    client.ask(&session, "say more");
    let forked: Value = client.call(
        "agent/forkSession",
        json!({"sessionId": session, "turnId": first}),
    );
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(forked["title"], "change a (fork)");
    let loaded = client.load(&fork);
    let count = |method: &str| {
        loaded
            .events
            .iter()
            .filter(|event| event.method == method)
            .count()
    };
    assert_eq!((count("agent/turnStarted"), count("agent/turnEnded")), (1, 1));
    assert_eq!(json!(loaded.state.mode), "full");
    assert_eq!(client.ask(&fork, "and now?").text, "ok");
    let sent = String::from_utf8_lossy(&world.wait_for_request(world.requests() - 1).raw).into_owned();
    assert!(sent.contains("change a") && sent.contains("changed"), "{sent}");
    assert!(!sent.contains("say more"), "{sent}");
    // The original session is independent and can be deleted.
    assert_eq!(
        client.load(&session).events.len() as u64,
        client.load(&session).seq
    );
    let _: Value = client.call("agent/deleteSession", json!({"sessionId": session}));
    let reverted: Value = client.call("agent/revert", json!({"sessionId": fork, "turnId": first}));
    assert_eq!(reverted["files"][0]["path"], "a.txt", "{reverted}");
    assert_eq!(world.read("a.txt").unwrap(), "a\n");
    let error = client.refused(
        "agent/forkSession",
        json!({"sessionId": fork, "turnId": "turn_none"}),
    );
    assert_eq!(error.data["refusal"], "unknownTurn");
    let error = client.refused("agent/forkSession", json!({"sessionId": session}));
    assert_eq!(error.data["refusal"], "unknownSession");
}

/// R-APPR-3: `allowSession` does not reach forks.
#[test]
fn session_grants_do_not_apply_to_forks() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let call = || Reply::tool("bash", json!({"command": "touch made"}));
    world.mock().push(call());
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "make it");
    client.decide(&client.next_approval(&session), "allowSession");
    client.prompt_result(&prompt);
    let forked: Value = client.call("agent/forkSession", json!({"sessionId": session}));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    client.load(&fork);
    world.mock().push(call());
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&fork, "make it again");
    client.decide(&client.next_approval(&fork), "deny");
    client.prompt_result(&prompt);
}

/// An open approval stays with its session: in the fork the call is canceled, and the fork takes prompts.
#[test]
fn open_approvals_are_cancelled_in_a_fork() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let call = json!({"command": "touch made"});
    world.mock().push(Reply::tool("bash", call));
    let prompt = client.prompt(&session, "make it");
    client.next_approval(&session);
    client.close_input();
    assert_eq!(json!(client.prompt_result(&prompt).reason), "server_stopped");
    client.wait_for_exit();
    drop(client);

    let client = world.start();
    let forked: Value = client.call("agent/forkSession", json!({"sessionId": session}));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    let loaded = client.load(&fork);
    assert!(loaded.open_approvals.is_empty());
    let mut calls = loaded
        .events
        .iter()
        .filter(|event| event.method == "agent/toolCall");
    let last = calls.next_back().unwrap();
    assert_eq!(last.params["status"], "cancelled", "{last:?}");
    let reason = last.params["output"].as_str().unwrap();
    assert!(reason.starts_with("not run: it awaits approval"), "{reason}");
    assert_eq!(client.ask(&fork, "and now?").text, "ok");
    assert_eq!(client.load(&session).open_approvals.len(), 1);
    assert!(world.read("made").is_none());
}

#[test]
fn session_exports_as_markdown_and_json() {
    let world = World::new();
    world.write("a.txt", "a\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let edits = json!({"path": "a.txt", "edits": [{"old_text": "a", "new_text": "b"}]});
    world.mock().push(Reply::new().call("edit_file", edits));
    let long = "long ".repeat(20_000);
    world.mock().push(Reply::text(long.clone()));
    client.ask(&session, "change a");
    let export: Value = client.call("agent/exportSession", json!({"sessionId": session}));
    let text = export["text"].as_str().unwrap();
    for part in [
        "# change a\n",
        "## You\n\nchange a\n",
        "**Edit a.txt** (completed)\n\n```diff\n",
        "-a\n+b\n```",
        "## Agent\n\nlong long",
    ] {
        assert!(text.contains(part), "{part} in {}", &text[..1_000]);
    }
    let export: Value = client.call(
        "agent/exportSession",
        json!({"sessionId": session, "format": "json"}),
    );
    let exported: Value = serde_json::from_str(export["text"].as_str().unwrap()).unwrap();
    assert_eq!(exported["session"]["sessionId"], session.as_str());
    let events = exported["events"].as_array().unwrap();
    assert_eq!(events.len() as u64, client.load(&session).seq);
    let mut messages = events
        .iter()
        .rev()
        .filter(|event| event["method"] == "agent/message");
    assert_eq!(
        messages.next().unwrap()["params"]["content"][0]["text"],
        long.as_str()
    );
}
