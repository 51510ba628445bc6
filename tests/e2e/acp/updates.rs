//! What the updates of a session say, as it happens and again after a load.

use serde_json::{Value, json};

use super::client::{AcpClient, chunk_text};
use super::{choose, load_text};
use crate::harness::{Config, World};
use crate::mock_llm::Reply;
use crate::revert::{edit, revert};

fn notices() -> Value {
    json!({"session": {"notices": {}}})
}

fn open(client: &AcpClient, world: &World, session: &str) -> Value {
    let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
    client.call("session/load", params)
}

fn set(client: &AcpClient, session: &str, option: &str, value: &str) {
    let params = json!({"sessionId": session, "configId": option, "value": value});
    client.call("session/set_config_option", params);
}

/// Returns the current value of an option.
fn option_value<'a>(options: &'a Value, id: &str) -> &'a Value {
    let mut options = options.as_array().unwrap().iter();
    &options.find(|option| option["id"] == id).unwrap()["currentValue"]
}

/// Returns the last update of a kind.
fn last<'a>(updates: &'a [Value], kind: &str) -> &'a Value {
    let update = updates.iter().rfind(|update| update["sessionUpdate"] == kind);
    update.unwrap_or_else(|| panic!("no {kind} in {updates:#?}"))
}

#[test]
fn a_plan_a_title_and_options_are_shown_live_and_after_a_load() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    set(&client, &session, "effort", "high");
    let options = client.update("config_option_update");
    assert_eq!(option_value(&options["configOptions"], "effort"), "high");
    let items = json!([{"text": "one", "status": "completed"}, {"text": "two", "status": "in_progress"}]);
    world
        .mock()
        .push(Reply::tool("update_plan", json!({"items": items})));
    world.mock().push(Reply::text("planned"));
    client.answer(client.prompt(&session, "make a plan"));
    let live = client.taken_updates();
    drop(client);
    let client = AcpClient::start(&world, json!({}));
    let answer = open(&client, &world, &session);
    let loaded = client.taken_updates();
    for updates in [live, loaded] {
        assert_eq!(
            last(&updates, "plan")["entries"],
            json!([
                {"content": "one", "priority": "medium", "status": "completed"},
                {"content": "two", "priority": "medium", "status": "in_progress"},
            ])
        );
        assert_eq!(last(&updates, "session_info_update")["title"], "make a plan");
    }
    assert_eq!(option_value(&answer["configOptions"], "effort"), "high");
}

#[test]
fn a_wait_and_a_switch_of_the_model_are_notices() {
    let world = World::with(Config {
        provider: "max_retries = 9\nfallback_model = \"model-small\"".to_owned(),
        ..Config::default()
    });
    for capabilities in [notices(), json!({})] {
        let client = AcpClient::start(&world, capabilities.clone());
        let session = client.new_session(&world);
        // The next call waits until the provider's limit is reset.
        let exhausted = Reply::text("ok")
            .header("anthropic-ratelimit-requests-limit", "100")
            .header("anthropic-ratelimit-requests-remaining", "0")
            .header("anthropic-ratelimit-requests-reset", "700ms");
        world.mock().push(exhausted);
        client.answer(client.prompt(&session, "one"));
        for _ in 0..3 {
            let overloaded = Reply::error(529, "overloaded_error", "Overloaded");
            world.mock().push_for("mock-model", overloaded);
        }
        client.answer(client.prompt(&session, "two"));
        let updates = client.taken_updates();
        for (event, severity, title) in [
            ("wait", "info", "Waiting: "),
            (
                "modelSwitched",
                "warning",
                "mock/model-small answers from now on, instead of mock/mock-model: ",
            ),
        ] {
            let of_event = |update: &&Value| update["_meta"]["agentls"]["event"] == event;
            let update = updates.iter().find(of_event).unwrap();
            let text = if capabilities == json!({}) {
                assert_eq!(update["sessionUpdate"], "agent_thought_chunk");
                &update["content"]["text"]
            } else {
                assert_eq!(
                    (&update["sessionUpdate"], &update["severity"]),
                    (&json!("notice"), &json!(severity))
                );
                &update["title"]
            };
            assert!(text.as_str().unwrap().starts_with(title), "{update}");
        }
    }
}

#[test]
fn each_end_of_a_turn_has_its_stop_reason_or_is_an_error() {
    let read = || Reply::tool("read_file", json!({"path": "a.txt"}));
    let paused = || Reply::text("hm").stop("pause_turn");
    let refused = || Reply::text("no").stop("refusal");
    for (agent, replies, reason) in [
        ("", vec![Reply::text("done")], Ok("end_turn")),
        ("", (0..6).map(|_| paused()).collect(), Ok("max_tokens")),
        ("max_steps = 1", vec![read()], Ok("max_turn_requests")),
        (
            "max_tool_calls = 1",
            vec![read(), read()],
            Ok("max_turn_requests"),
        ),
        // The protocol's `refusal` takes the prompt out of the history, where it stays here.
        (
            "",
            vec![refused()],
            Err([
                "the model or a content filter declined to answer",
                "rephrase the request",
            ]),
        ),
    ] {
        let world = World::with(Config {
            agent: agent.to_owned(),
            ..Config::default()
        });
        world.write("a.txt", "a\n");
        replies.into_iter().for_each(|reply| world.mock().push(reply));
        let client = AcpClient::start(&world, json!({}));
        let session = client.new_session(&world);
        let answer = client.answer(client.prompt(&session, "go"));
        match reason {
            Ok(reason) => assert_eq!(answer["result"]["stopReason"], reason, "{answer}"),
            Err(parts) => {
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(parts.iter().all(|part| message.contains(part)), "{answer}");
            }
        }
    }
}

#[test]
fn a_long_list_of_sessions_has_pages() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    for _ in 0..51 {
        let session = client.new_session(&world);
        // A session in which nothing has happened is not listed.
        set(&client, &session, "mode", "plan");
    }
    let first = client.call("session/list", json!({"cwd": world.workspace()}));
    let cursor = &first["nextCursor"];
    let second = client.call(
        "session/list",
        json!({"cwd": world.workspace(), "cursor": cursor}),
    );
    assert!(cursor.is_string() && second["nextCursor"].is_null(), "{second}");
    let pages = [first, second].map(|page| page["sessions"].as_array().unwrap().clone());
    assert_eq!(pages.each_ref().map(Vec::len), [50, 1]);
    let times: Vec<String> = pages
        .concat()
        .iter()
        .map(|session| session["updatedAt"].as_str().unwrap().to_owned())
        .collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    assert!(times[0].starts_with("20") && times[0].ends_with('Z'), "{times:?}");
    let mut ids: Vec<String> = pages
        .concat()
        .iter()
        .map(|session| session["sessionId"].to_string())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 51);
}

#[test]
fn a_call_names_the_line_that_it_is_about() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\nthree\n");
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt", "offset": 2})));
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "read"));
    let wanted = json!([{"path": world.workspace().join("a.txt"), "line": 2}]);
    for updates in [client.taken_updates(), {
        open(&client, &world, &session);
        client.taken_updates()
    }] {
        let places: Vec<&Value> = updates.iter().map(|update| &update["locations"]).collect();
        assert!(places.contains(&&wanted), "{places:?}");
    }
}

#[test]
fn a_patch_shows_the_diff_of_each_file() {
    let world = World::new();
    for (path, text) in [("a.txt", "one\n"), ("sub/b.txt", "two"), ("old.txt", "x\n")] {
        world.write(path, text);
    }
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    set(&client, &session, "model", "responses/gpt-5.3-codex");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: sub/b.txt\n@@\n-two\n+2\n\
                 *** Add File: new.txt\n+new\n*** Update File: old.txt\n*** Move to: moved.txt\n@@\n-x\n+y\n*** End Patch\n";
    world.mock().push(Reply::custom("apply_patch", patch));
    let prompt = client.prompt(&session, "patch it");
    let asked = client.asked("session/request_permission");
    let asked_content = asked["params"]["toolCall"]["content"].clone();
    choose(&client, &asked, "allow");
    client.answer(prompt);
    let updates = client.taken_updates();
    let done = updates
        .iter()
        .find(|update| update["status"] == "completed")
        .unwrap();
    let item = |path: &str, old: Value, new: &str| {
        let path = world.workspace().join(path);
        json!({"type": "diff", "path": path, "oldText": old, "newText": new})
    };
    for content in [&asked_content, &done["content"]] {
        let content = content.as_array().unwrap();
        assert_eq!(content[0], item("a.txt", json!("one\n"), "1\n"));
        assert_eq!(
            (&content[1]["path"], &content[1]["oldText"]),
            (&json!(world.workspace().join("sub/b.txt")), &json!("two"))
        );
        assert_eq!(content[2], item("new.txt", json!(null), "new\n"));
        let moved = content[3]["content"]["text"].as_str().unwrap();
        assert!(moved.contains("--- a/old.txt\n+++ b/moved.txt\n"), "{moved}");
    }
}

#[test]
fn a_model_that_is_gone_is_named_after_the_sessions_id() {
    let world = World::with(Config {
        tables: "[provider.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/\"\napi_key = \"k\""
            .to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, notices());
    set(&client, &client.new_session(&world), "model", "gone/model");
    drop(client);
    world.configure(Config::default());
    let client = AcpClient::start(&world, notices());
    let id = client.request("session/new", json!({"cwd": world.workspace(), "mcpServers": []}));
    // Clients drop what comes before they know the session.
    let first = client.take(|message| message["id"] == id || message["method"] == "session/update");
    assert_eq!(first["id"], id, "{first}");
    let notice = client.update("notice");
    let title = notice["title"].as_str().unwrap();
    assert!(
        title.starts_with("gone/model, the model of your last session, is not used"),
        "{title}"
    );
}

#[test]
fn an_agent_and_a_model_that_are_gone_are_named_at_each_opening_and_in_the_turn() {
    const REVIEWER: &str = "[agent.reviewer]\nmode = \"plan\"\n";
    const GONE: &str =
        "[provider.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/\"\napi_key = \"k\"\n";
    let configured = |tables: &str| Config {
        tables: tables.to_owned(),
        ..Config::default()
    };
    let world = World::with(configured(&format!("{REVIEWER}{GONE}")));
    let client = AcpClient::start(&world, notices());
    let [session, live] = [(); 2].map(|()| client.new_session(&world));
    for session in [&session, &live] {
        set(&client, session, "agent", "reviewer");
        set(&client, session, "model", "gone/model");
    }
    client.call("session/close", json!({"sessionId": session}));
    world.configure(Config::default());
    let gone = |update: &Value, parts: &[&str]| {
        let title = update["title"].as_str().unwrap();
        let has_all = parts.iter().all(|part| title.contains(part));
        assert!(update["severity"] == "warning" && has_all, "{title}");
    };
    let both = [
        "reviewer, is not configured",
        "gone/model",
        "mock/mock-model is used",
    ];
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
        let opened = client.call(method, params);
        // What only reads does not begin to write.
        assert_eq!(opened["modes"]["currentModeId"], "plan");
        let values = ["mode", "model", "agent"].map(|id| option_value(&opened["configOptions"], id));
        assert_eq!(values, ["plan", "mock/mock-model", "default"]);
        gone(&client.update("notice"), &both);
    }
    let write = json!({"path": "b.txt", "content": "x"});
    for session in [&session, &live] {
        // The limits of the agent are gone too, so even this mode asks.
        for (mode, asks) in [("plan", false), ("full", true)] {
            set(&client, session, "mode", mode);
            world.mock().push(Reply::tool("write_file", write.clone()));
            world.mock().push(Reply::text("done"));
            let prompt = client.prompt(session, "write");
            if asks {
                let asked = client.asked("session/request_permission");
                let why = asked["params"]["_meta"]["agentls"]["why"].as_str().unwrap();
                assert!(why.contains("reviewer"), "{why}");
                choose(&client, &asked, "deny");
            }
            assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
            assert_eq!(
                world.wait_for_request(world.requests() - 1).body["model"],
                "mock-model"
            );
        }
        let mut updates = client.taken_updates();
        updates.retain(|update| update["sessionUpdate"] == "notice");
        gone(&updates[0], &both);
    }
    assert_eq!(world.read("b.txt"), None);
}

#[test]
fn a_compaction_moves_the_meter_of_the_context() {
    let world = World::new();
    world.mock().allow_rewrites();
    let client = AcpClient::start(&world, notices());
    let session = client.new_session(&world);
    for round in 0..6 {
        let answer = format!("fine: {}", "lorem ipsum ".repeat(330));
        world.mock().push(Reply::text(answer).tokens(0, 0));
        client.answer(client.prompt(&session, &format!("q{round}")));
    }
    client.taken_updates();
    world.mock().push(Reply::text("the user wants lorem ipsum"));
    client.answer(client.prompt(&session, "/compact"));
    let live = client.taken_updates();
    let compacted = last(&live, "notice")["_meta"]["agentls"].clone();
    assert_eq!(compacted["event"], "compacted");
    open(&client, &world, &session);
    for updates in [live, client.taken_updates()] {
        let usage = last(&updates, "usage_update");
        assert_eq!(usage["used"], compacted["tokensAfter"]);
        assert_eq!(
            (&usage["size"], &usage["cost"]["currency"]),
            (&json!(200_000), &json!("USD"))
        );
    }
}

#[test]
fn a_load_says_which_changes_were_undone_elsewhere() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    set(&client, &session, "mode", "full");
    let (tool, input) = edit("a.txt", "one", "1");
    world.mock().push(Reply::tool(tool, input));
    world.mock().push(Reply::text("done"));
    let answer = client.answer(client.prompt(&session, "edit"));
    let turn = answer["result"]["_meta"]["agentls"]["turnId"].as_str().unwrap();
    drop(client);
    let mut expected = "done".to_owned();
    for (more, line) in [
        (json!({}), "\n\n> The agent's changes were undone in: a.txt.\n\n"),
        (
            json!({"redo": true}),
            "\n\n> The agent's changes were redone in: a.txt.\n\n",
        ),
    ] {
        let other = world.start();
        other.load(&session);
        revert(&other, &session, turn, more);
        drop(other);
        expected += line;
        let client = AcpClient::start(&world, json!({}));
        assert_eq!(load_text(&client, &world, &session), expected);
        assert_eq!(chunk_text(&client.taken_updates(), "agent_message_chunk"), "");
    }
}
