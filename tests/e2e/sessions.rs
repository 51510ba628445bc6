//! Sessions on the wire: lists, paged load and export, and a store that servers share. What else happens to
//! stored sessions is tested in `session::tests::sessions` and `forks`.

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::Reply;

fn listed(client: &Client, params: Value) -> Vec<Value> {
    let page: Value = client.call("agent/listSessions", params);
    page["sessions"].as_array().unwrap().clone()
}

#[test]
fn sessions_are_listed_in_pages_with_titles_and_matches() {
    let world = World::new();
    let client = world.start();
    let (first, second) = (client.session(), client.session());
    client.ask(&first, "tell me of the zebra, please");
    client.ask(&second, "and what about cats?");
    let found = listed(&client, json!({"query": "zebra"}));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["sessionId"], first);
    assert_eq!(found[0]["title"], "tell me of the zebra, please");
    assert_eq!(found[0]["cwd"], json!(world.workspace()));
    let page: Value = client.call("agent/listSessions", json!({"limit": 1}));
    assert_eq!(page["sessions"][0]["sessionId"], second);
    let rest = listed(&client, json!({"limit": 1, "cursor": page["nextCursor"]}));
    assert_eq!(rest[0]["sessionId"], first);
    assert!(listed(&client, json!({"cwd": "/nowhere"})).is_empty());
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
