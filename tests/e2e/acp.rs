//! `agentls acp`: the Agent Client Protocol on the same sessions (R-ACP).
//!
//! Frames are checked against the protocol's schema, and the official client is used, in `tests/acp_client`.

mod cancel;
mod client;
mod faults;
mod folders;
mod login;
mod mcp;
mod updates;

use serde_json::{Value, json};

use crate::harness::{Config, World};
use crate::mock_llm::{Gate, Reply};
use crate::reading::DOT;
use client::{AcpClient, chunk_text};

/// Returns the last message of a request to the model.
fn last_message(world: &World, request: usize) -> String {
    let requests = world.mock().requests();
    let last = requests[request].messages().last().unwrap();
    serde_json::to_string(last).unwrap()
}

fn files() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

#[test]
fn a_prompt_is_answered_after_its_updates() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let commands = client.update("available_commands_update");
    assert_eq!(commands["availableCommands"][0]["name"], "compact");
    world.mock().push(Reply::text("Hello, world"));
    let answer = client.answer(client.prompt(&session, "hello"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let updates = client.taken_updates();
    assert_eq!(chunk_text(&updates, "agent_message_chunk"), "Hello, world");
    assert!(
        updates
            .iter()
            .any(|update| update["sessionUpdate"] == "usage_update" && update["cost"]["currency"] == "USD")
    );
    assert_eq!(world.requests(), 1);
    let workspace = world.workspace();
    let name = workspace.file_name().unwrap().display();
    let folder = format!("- workspace folders: {name} ({})", workspace.display());
    let notes = world.mock().requests()[0].environment_notes().join("\n");
    assert!(notes.contains(&folder), "{notes}");
}

#[test]
fn programs_of_the_repository_run_unasked_in_no_session() {
    for folder in ["", "sub"] {
        let world = World::new();
        let (env, trapped) = crate::keys::trap_programs(&world);
        let client = AcpClient::launch_with(&world, &env);
        client.call(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        let cwd = world.workspace().join(folder);
        let new = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let session = new["sessionId"].as_str().unwrap();
        let workdir = world.workspace().join("sub");
        for reply in [
            Reply::tool("bash", json!({"command": "ls", "workdir": workdir})),
            Reply::tool("bash", json!({"command": "git status --short"})),
        ] {
            world.mock().push(reply);
        }
        client.prompt(session, "go");
        let asked = client.asked("session/request_permission");
        let listed = last_message(&world, 1);
        assert!(listed.contains("a.txt") && !listed.contains("trap"), "{listed}");
        let shown = asked["params"]["toolCall"].to_string();
        assert!(shown.contains("runs a program of the workspace: "), "{shown}");
        assert!(!trapped.exists());
    }
}

#[test]
fn a_closed_session_is_free_for_another_client_whatever_came_with_the_close() {
    let world = World::new();
    world.mock().allow_rewrites();
    let (client, other) = (
        AcpClient::start(&world, json!({})),
        AcpClient::start(&world, json!({})),
    );
    for _ in 0..5 {
        let session = client.new_session(&world);
        world.mock().push(Reply::text("hello"));
        client.answer(client.prompt(&session, "hello"));
        let choice = |value: &str| json!({"sessionId": session, "configId": "effort", "value": value});
        for value in ["high", "low", "medium"] {
            client.request("session/set_config_option", choice(value));
        }
        let close = client.request("session/close", json!({"sessionId": session}));
        assert!(client.answer(close)["error"].is_null());
        other.call(
            "session/load",
            json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
        );
        other.call("session/close", json!({"sessionId": session}));
        // A close waits for a load before it.
        let load = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
        for method in ["session/load", "session/resume"] {
            let opened = client.request(method, load.clone());
            let closed = client.request("session/close", json!({"sessionId": session}));
            assert!(client.answer(opened)["error"].is_null() && client.answer(closed)["error"].is_null());
            other.call(method, load.clone());
            other.call("session/close", json!({"sessionId": session}));
        }
    }
}

#[test]
fn a_permission_carries_the_diff_and_one_option_of_each_kind() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let edit = json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "edit");
    let asked = client.asked("session/request_permission");
    let call = &asked["params"]["toolCall"];
    let diff = &call["content"][0];
    assert_eq!(diff["type"], "diff");
    assert_eq!(diff["newText"], "one\n2\n");
    assert_eq!(
        diff["path"],
        world.workspace().join("a.txt").display().to_string()
    );
    let options: Vec<&str> = asked["params"]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["optionId"].as_str().unwrap())
        .collect();
    assert_eq!(options, ["allow", "allow_always", "deny"]);
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("a.txt").unwrap(), "one\n2\n");
    let updates = client.taken_updates();
    let last = updates
        .iter()
        .rev()
        .find(|update| update["toolCallId"] == call["toolCallId"])
        .unwrap();
    assert_eq!(last["status"], "completed");
}

#[test]
fn always_is_for_the_file_of_the_call_and_says_so_in_words() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let write = |path: &str| Reply::tool("write_file", json!({"path": path, "content": "x\n"}));
    for reply in [
        write("src/a.txt"),
        write("src/a.txt"),
        write("src/b.txt"),
        Reply::text("done"),
    ] {
        world.mock().push(reply);
    }
    let prompt = client.prompt(&session, "write");
    let asked = client.asked("session/request_permission");
    let always = &asked["params"]["options"][1];
    assert_eq!(always["name"], "Allow writing `src/a.txt`, for this session");
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "allow_always"}}),
    );
    // The second call needs no answer, but another file of the folder does.
    let asked = client.asked("session/request_permission");
    let always = &asked["params"]["options"][1];
    assert_eq!(always["name"], "Allow writing `src/b.txt`, for this session");
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "deny"}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(world.read("src/b.txt").is_none());
}

#[test]
fn always_names_the_file_that_a_link_or_a_patch_changes() {
    let world = World::with(Config {
        agent: "model = \"patching-model\"\n".to_owned(),
        tables: "[model.patching-model]\ninput = 3.0\noutput = 15.0\ncontext_window = 200000\nedit_tool = \"apply_patch\"\n"
            .to_owned(),
        ..Config::default()
    });
    world.write("src/real.txt", "one\ntwo\n");
    std::os::unix::fs::symlink("real.txt", world.workspace().join("src/link.txt")).unwrap();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let patch = |lines: &str| {
        let patch = format!("*** Begin Patch\n{lines}\n*** End Patch\n");
        Reply::tool("apply_patch", json!({"patch": patch}))
    };
    for reply in [
        patch("*** Update File: src/link.txt\n-one\n+1"),
        patch("*** Update File: src/link.txt\n-two\n+2"),
        patch("*** Add File: src/a.txt\n+x"),
        patch("*** Add File: src/b.txt\n+x"),
        Reply::text("done"),
    ] {
        world.mock().push(reply);
    }
    let prompt = client.prompt(&session, "edit");
    for (name, chosen) in [
        ("Allow edits of `src/real.txt`, for this session", "allow_always"),
        // The second edit needs no answer.
        ("Allow writing `src/a.txt`, for this session", "allow_always"),
        ("Allow writing `src/b.txt`, for this session", "deny"),
    ] {
        let asked = client.asked("session/request_permission");
        assert_eq!(asked["params"]["options"][1]["name"], name);
        client.respond(
            &asked,
            json!({"outcome": {"outcome": "selected", "optionId": chosen}}),
        );
    }
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("src/real.txt").unwrap(), "1\n2\n");
    assert!(world.read("src/a.txt").is_some() && world.read("src/b.txt").is_none());
}

#[test]
fn an_unclear_answer_denies() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let answers = [
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "whatever"}}}),
        json!({"result": {"outcome": {"outcome": "cancelled"}}}),
        json!({"result": {}}),
        json!({"error": {"code": -32601, "message": "no such method"}}),
    ];
    for mut answer in answers {
        world.mock().push(Reply::tool(
            "write_file",
            json!({"path": "b.txt", "content": "x"}),
        ));
        world.mock().push(Reply::text("well"));
        let prompt = client.prompt(&session, "write");
        let asked = client.asked("session/request_permission");
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = asked["id"].clone();
        client.send(&answer);
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        assert_eq!(world.read("b.txt"), None);
    }
}

#[test]
fn a_cancel_ends_the_turn_and_takes_the_question_back() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let gate = Gate::new();
    world.mock().push(Reply::text("some words").gate(&gate));
    let prompt = client.prompt(&session, "talk");
    world.wait_at_gate(&gate);
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    // What had arrived is kept, so it is shown, although it was held. How much that is, nobody outside can see.
    let shown = chunk_text(&client.taken_updates(), "agent_message_chunk");
    assert_eq!(shown, load_text(&client, &world, &session));

    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "touch never"})));
    let prompt = client.prompt(&session, "run");
    let asked = client.asked("session/request_permission");
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    let back = client.asked("$/cancel_request");
    assert_eq!(back["params"]["requestId"], asked["id"]);
    assert_eq!(world.read("never"), None);

    let gate = Gate::new();
    world.mock().push(Reply::text("more").gate(&gate));
    let prompt = client.prompt(&session, "again");
    world.wait_at_gate(&gate);
    client.notify("$/cancel_request", json!({"requestId": prompt}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
}

#[test]
fn a_question_that_was_asked_again_is_taken_back_too() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "touch never"})));
    let prompt = client.prompt(&session, "run");
    let mut asked = client.asked("session/request_permission");
    for _ in 0..2 {
        load_text(&client, &world, &session);
        let back = client.asked("$/cancel_request");
        assert_eq!(back["params"]["requestId"], asked["id"]);
        asked = client.asked("session/request_permission");
    }
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    let back = client.asked("$/cancel_request");
    assert_eq!(back["params"]["requestId"], asked["id"]);
}

/// Interrupts a turn that asks about a command, and returns another client that is asked again, with the question.
fn load_open_question(world: &World, command: &str) -> (AcpClient, String, Value) {
    let client = AcpClient::start(world, json!({}));
    let session = client.new_session(world);
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    client.prompt(&session, "run");
    client.asked("session/request_permission");
    drop(client);
    let client = AcpClient::start(world, json!({}));
    client.call(
        "session/load",
        json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
    );
    let asked = client.asked("session/request_permission");
    (client, session, asked)
}

/// Returns what was shown of the only call since it was announced, and its last update. It must have been announced
/// once, and before it was updated.
fn read_call(client: &AcpClient) -> (Value, Value) {
    let mut updates = client.taken_updates();
    updates.retain(|update| update["toolCallId"].is_string());
    let kinds: Vec<_> = updates.iter().map(|update| &update["sessionUpdate"]).collect();
    assert!(
        kinds.len() > 1
            && kinds[0] == "tool_call"
            && kinds[1..].iter().all(|kind| *kind == "tool_call_update"),
        "{updates:#?}"
    );
    (updates[0].clone(), updates.pop().unwrap())
}

fn choose(client: &AcpClient, asked: &Value, option: &str) {
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
    client.respond(asked, outcome);
}

#[test]
fn the_answer_to_a_question_that_a_load_repeats_resumes_the_turn() {
    let world = World::new();
    for (option, result) in [("allow", "it ran"), ("deny", "Denied by user")] {
        let (client, session, asked) = load_open_question(&world, "echo it ran; touch made");
        let gate = Gate::new();
        world.mock().push(Reply::text("after the answer").gate(&gate));
        choose(&client, &asked, option);
        world.wait_at_gate(&gate);
        let second = client.answer(client.prompt(&session, "meanwhile"));
        assert!(
            second["error"]["message"]
                .as_str()
                .unwrap()
                .contains("a prompt is running")
        );
        gate.release();
        let mut shown = String::new();
        while shown != "after the answer" {
            let chunk = client.update("agent_message_chunk");
            shown += chunk["content"]["text"].as_str().unwrap();
        }
        let (_, last_call) = read_call(&client);
        assert_eq!(last_call["_meta"]["agentls"]["tool"], "bash");
        assert_eq!(
            last_call["status"],
            if option == "allow" { "completed" } else { "failed" }
        );
        let last = last_message(&world, world.requests() - 1);
        assert!(last.contains(result), "{last}");
        assert_eq!(world.read("made").is_some(), option == "allow");
        std::fs::remove_file(world.workspace().join("made")).ok();
        // The end of the resumed turn frees the session.
        world.mock().push(Reply::text("next"));
        client.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(
            client.answer(client.prompt(&session, "next"))["result"]["stopReason"],
            "end_turn"
        );
        assert!(
            !client.has_been_asked("session/request_permission"),
            "it was answered"
        );
    }
}

#[test]
fn a_repeated_question_names_a_file_outside_of_the_folder() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let input = json!({"path": "../outside.txt", "content": "x\n"});
    world.mock().push(Reply::tool("write_file", input));
    client.prompt(&session, "write");
    let first = client.asked("session/request_permission");
    drop(client);
    // The second time in the same process.
    let client = AcpClient::start(&world, json!({}));
    for method in ["session/resume", "session/load", "session/resume"] {
        client.call(
            method,
            json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
        );
        let again = client.asked("session/request_permission");
        let call = |asked: &Value| asked["params"]["toolCall"].clone();
        assert_eq!(call(&again)["locations"], call(&first)["locations"], "{method}");
        let path = call(&again)["content"][0]["path"].clone();
        assert_eq!(path, call(&first)["content"][0]["path"], "{method}");
        assert!(path.as_str().unwrap().ends_with("/outside.txt"), "{path}");
    }
}

#[test]
fn a_session_without_a_prompt_can_be_opened_by_a_later_process() {
    let world = World::new();
    let first = AcpClient::start(&world, json!({}));
    let session = first.new_session(&world);
    drop(first);
    let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
    for method in ["session/load", "session/resume", "session/fork"] {
        let client = AcpClient::start(&world, json!({}));
        client.call(method, params.clone());
        assert_eq!(client.call("session/list", json!({}))["sessions"], json!([]));
    }
    let second = AcpClient::start(&world, json!({}));
    second.call("session/load", params);
    second.answer(second.prompt(&session, "hello"));
    drop(second);
    let client = AcpClient::start(&world, json!({}));
    let listed = client.call("session/list", json!({}))["sessions"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn each_load_brings_the_commands_again() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    client.update("available_commands_update");
    for method in ["session/load", "session/resume", "session/load"] {
        client.call(
            method,
            json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
        );
        let commands = client.update("available_commands_update");
        assert_eq!(commands["availableCommands"][0]["name"], "compact", "{method}");
    }
}

#[test]
fn a_repeated_question_that_is_dismissed_resumes_nothing() {
    for by_cancel in [false, true] {
        let world = World::new();
        let (client, session, asked) = load_open_question(&world, "touch made");
        if by_cancel {
            client.notify("session/cancel", json!({"sessionId": session}));
            take_back(&client, &asked);
        } else {
            client.respond(&asked, json!({"outcome": {"outcome": "cancelled"}}));
        }
        // Each is answered by the session, which a resume would have reached by then.
        for _ in 0..10 {
            client.call("session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
        }
        assert_eq!(world.requests(), 1);
        world.mock().push(Reply::text("next"));
        client.answer(client.prompt(&session, "next"));
        assert_eq!(world.requests(), 2);
        let denied = world.wait_for_request(1).messages().to_vec();
        assert!(json!(denied).to_string().contains("Denied by user"), "{denied:?}");
        assert!(world.read("made").is_none());
    }
}

/// Waits until the server withdraws a question, and then allows the call.
fn take_back(client: &AcpClient, asked: &Value) {
    let back = client.asked("$/cancel_request");
    assert_eq!(back["params"]["requestId"], asked["id"]);
    choose(client, asked, "allow");
}

#[test]
fn the_end_of_a_session_takes_back_what_a_turn_left_open() {
    let world = World::new();
    for method in ["session/close", "session/delete"] {
        let (client, session, asked) = load_open_question(&world, "touch made");
        client.call(method, json!({"sessionId": session}));
        take_back(&client, &asked);
        let load = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
        let loaded = client.answer(client.request("session/load", load));
        let is_closed = method == "session/close";
        assert_eq!(loaded["result"].is_object(), is_closed, "{loaded}");
        if is_closed {
            client.asked("session/request_permission");
        }
        assert!(world.read("made").is_none());
    }
    assert_eq!(world.requests(), 2, "nothing was resumed");
}

#[test]
fn markdown_hides_nothing_of_what_is_approved() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let command = "ls <!-- x\n````\nrm -rf ./build*/ # -->";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "run");
    let asked = client.asked("session/request_permission");
    let content = &asked["params"]["toolCall"]["content"];
    assert_eq!(content[0]["content"]["text"], format!("`````\n{command}\n`````"));
    let about = content[1]["content"]["text"].as_str().unwrap();
    assert!(about.starts_with("```\n") && about.ends_with("\n```"), "{about}");
    choose(&client, &asked, "deny");
    client.answer(prompt);
}

#[test]
fn a_resumed_turn_says_why_it_stops() {
    let world = World::new();
    let [first, second] = [(); 2].map(|()| {
        let (client, session, asked) = load_open_question(&world, "touch made");
        let gate = Gate::new();
        world.mock().push(Reply::text("never").gate(&gate));
        choose(&client, &asked, "allow");
        world.wait_at_gate(&gate);
        client.notify("session/cancel", json!({"sessionId": session}));
        let note = client.update("agent_thought_chunk");
        let text = note["content"]["text"].as_str().unwrap();
        assert!(text.contains("has stopped: cancelled"), "{note}");
        note["messageId"].clone()
    });
    assert_ne!(first, second);
}

#[test]
fn text_that_was_shown_is_kept_by_a_cancel() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let gate = Gate::new();
    world.mock().push(Reply::text("some words").gate(&gate));
    let prompt = client.prompt(&session, "talk");
    world.wait_at_gate(&gate);
    let mut shown = String::new();
    while shown != "some words" {
        let update = client.update("agent_message_chunk");
        shown += update["content"]["text"].as_str().unwrap();
    }
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(chunk_text(&client.taken_updates(), "agent_message_chunk"), "");
    assert_eq!(load_text(&client, &world, &session), "some words");
}

/// Loads a session, and returns the text of the agent that its history shows.
fn load_text(client: &AcpClient, world: &World, session: &str) -> String {
    client.call(
        "session/load",
        json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
    );
    chunk_text(&client.taken_updates(), "agent_message_chunk")
}

#[test]
fn a_load_during_a_turn_shows_the_answer_from_its_beginning() {
    for (hold_ms, loaded) in [(0, "first words"), (60_000, "")] {
        let world = World::with(Config {
            tables: format!("[acp]\nhold_text_ms = {hold_ms}"),
            ..Config::default()
        });
        let client = AcpClient::start(&world, json!({}));
        let session = client.new_session(&world);
        let gate = Gate::new();
        world
            .mock()
            .push(Reply::text("first words").gate(&gate).with_text(", last words"));
        let prompt = client.prompt(&session, "talk");
        world.wait_at_gate(&gate);
        let mut shown = String::new();
        while shown != loaded {
            let update = client.update("agent_message_chunk");
            shown += update["content"]["text"].as_str().unwrap();
        }
        assert_eq!(load_text(&client, &world, &session), loaded);
        gate.release();
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let rest = chunk_text(&client.taken_updates(), "agent_message_chunk");
        assert_eq!(format!("{loaded}{rest}"), "first words, last words");
    }
}

#[test]
fn a_load_during_a_call_announces_it_with_its_output() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "full"}),
    );
    let command = "echo started; until [ -e go ]; do sleep 0.02; done";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "run");
    let output = json!([{"type": "content", "content": {"type": "text", "text": "started\n"}}]);
    client.take(|message| message["params"]["update"]["content"] == output);
    client.taken_updates();
    client.call(
        "session/load",
        json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
    );
    let (announced, last) = read_call(&client);
    assert_eq!(announced["rawInput"]["command"], command);
    assert_eq!(last["content"], output);
    world.write("go", "");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates = client.taken_updates();
    let mut of_call = updates.iter().filter(|update| update["toolCallId"].is_string());
    assert!(of_call.all(|update| update["sessionUpdate"] == "tool_call_update"));
}

#[test]
fn text_of_a_broken_attempt_is_never_shown_while_it_is_held() {
    let world = World::with(Config {
        tables: "[acp]\nhold_text_ms = 60000".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({"session": {"notices": {}}}));
    let session = client.new_session(&world);
    world.mock().push(Reply::text("stale words").reset());
    world.mock().push(Reply::text("fresh words"));
    let prompt = client.prompt(&session, "talk");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates = client.taken_updates();
    assert_eq!(chunk_text(&updates, "agent_message_chunk"), "fresh words");
    let notice = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "notice")
        .unwrap();
    assert_eq!(notice["_meta"]["agentls"]["event"], "retry");
}

#[test]
fn text_that_was_shown_is_followed_by_a_line_that_it_was_discarded() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let gate = Gate::new();
    world.mock().push(Reply::text("stale words").gate(&gate).reset());
    world.mock().push(Reply::text("fresh words"));
    let prompt = client.prompt(&session, "talk");
    world.wait_at_gate(&gate);
    let first = client.update("agent_message_chunk");
    assert!("stale words".starts_with(first["content"]["text"].as_str().unwrap()));
    gate.release();
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates = client.taken_updates();
    let text = chunk_text(&updates, "agent_message_chunk");
    assert!(text.contains("is discarded"), "{text}");
    assert!(text.ends_with("fresh words"), "{text}");
    assert!(
        updates
            .iter()
            .any(|update| update["sessionUpdate"] == "agent_thought_chunk"
                && update["_meta"]["agentls"]["event"] == "retry")
    );
}

/// Has the model replace `buffer` by `edited` in `a.txt`, which a client shows with the text `buffer`. `save` makes of the
/// new text what the client keeps. Returns what the client shows then, and the result of the edit.
fn edit_buffer(world: &World, save: impl Fn(&str) -> String) -> (String, String) {
    world.write("a.txt", "disk\n");
    let client = AcpClient::start(world, files());
    let session = client.new_session(world);
    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "autoEdit"}),
    );
    let mut buffer = "buffer\n".to_owned();
    let calls = [
        Reply::tool("read_file", json!({"path": "a.txt"})),
        Reply::tool(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "buffer", "new_text": "edited"}]}),
        ),
        Reply::text("done"),
    ];
    calls.into_iter().for_each(|call| world.mock().push(call));
    let prompt = client.prompt(&session, "edit");
    let answer = loop {
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null()
                || message["method"]
                    .as_str()
                    .is_some_and(|method| method.starts_with("fs/"))
        });
        match message["method"].as_str() {
            None => break message,
            Some("fs/read_text_file") => client.respond(&message, json!({"content": buffer})),
            Some(_) => {
                buffer = save(message["params"]["content"].as_str().unwrap());
                world.write("a.txt", &buffer);
                client.respond(&message, json!({}));
            }
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let read = last_message(world, 1);
    assert!(read.contains("buffer"), "{read}");
    (buffer, last_message(world, 2))
}

#[test]
fn unsaved_buffers_are_the_truth() {
    let (buffer, result) = edit_buffer(&World::new(), str::to_owned);
    assert_eq!(buffer, "edited\n");
    assert!(
        !result.contains("not saved") && !result.contains("changed further"),
        "{result}"
    );
}

/// A client that opens a folder through a link may know its documents by their real names.
#[test]
fn documents_are_found_by_their_real_names_too() {
    let world = World::new();
    world.write("a.txt", "disk\n");
    let link = world.path("link");
    std::os::unix::fs::symlink(world.workspace(), &link).unwrap();
    let client = AcpClient::start(&world, files());
    let new = client.call("session/new", json!({"cwd": link, "mcpServers": []}));
    let session = new["sessionId"].as_str().unwrap();
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt"})));
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt", "offset": 1})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(session, "read");
    let real = json!(world.workspace().canonicalize().unwrap().join("a.txt"));
    let mut requested = Vec::new();
    loop {
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null() || message["method"] == "fs/read_text_file"
        });
        if message["method"].is_null() {
            break;
        }
        let path = message["params"]["path"].clone();
        if path == real {
            client.respond(&message, json!({"content": "buffer\n"}));
        } else {
            let refusal = json!({"code": -32002, "message": "no such document"});
            client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": refusal}));
        }
        requested.push(path);
    }
    assert!(last_message(&world, 1).contains("buffer"), "{requested:?}");
    // Once the client has refused the name through the link, it is not asked by it again.
    assert_eq!(requested[0], json!(link.join("a.txt")));
    assert!(requested.len() > 2, "{requested:?}");
    assert!(requested[1..].iter().all(|path| *path == real), "{requested:?}");
}

#[test]
fn documents_are_named_as_the_client_names_its_folder() {
    let world = World::new();
    world.write("a.txt", "disk\n");
    let link = world.path("link");
    std::os::unix::fs::symlink(world.workspace(), &link).unwrap();
    let client = AcpClient::start(&world, files());
    let new = client.call("session/new", json!({"cwd": link, "mcpServers": []}));
    let session = new["sessionId"].as_str().unwrap();
    for reply in [
        Reply::tool("read_file", json!({"path": "a.txt"})),
        Reply::tool(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "buffer", "new_text": "edited"}]}),
        ),
        Reply::text("done"),
    ] {
        world.mock().push(reply);
    }
    let (named, mut buffer) = (json!(link.join("a.txt")), "buffer\n".to_owned());
    let prompt = client.prompt(session, "edit");
    loop {
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null()
                || message["method"]
                    .as_str()
                    .is_some_and(|method| method != "session/update")
        });
        match message["method"].as_str() {
            None => break,
            Some("session/request_permission") => {
                let call = &message["params"]["toolCall"];
                assert_eq!(
                    (&call["locations"][0]["path"], &call["content"][0]["path"]),
                    (&named, &named)
                );
                choose(&client, &message, "allow");
            }
            Some("fs/read_text_file") => {
                assert_eq!(message["params"]["path"], named);
                client.respond(&message, json!({"content": buffer}));
            }
            Some(_) => {
                assert_eq!(message["params"]["path"], named);
                message["params"]["content"]
                    .as_str()
                    .unwrap()
                    .clone_into(&mut buffer);
                client.respond(&message, json!({}));
            }
        }
    }
    assert_eq!(buffer, "edited\n", "{}", last_message(&world, 2));
    for filter in [json!({}), json!({"cwd": link})] {
        assert_eq!(
            client.call("session/list", filter)["sessions"][0]["cwd"],
            json!(link)
        );
    }
    let updates = client.taken_updates();
    let mut places = updates.iter().filter_map(|update| update["locations"].as_array());
    assert!(
        places.all(|places| places.iter().all(|place| place["path"] == named)),
        "{updates:#?}"
    );
}

#[test]
fn what_the_editor_changes_in_a_text_that_it_saves_is_told() {
    let (buffer, result) = edit_buffer(&World::new(), |text| format!("// formatted\n{text}"));
    assert_eq!(buffer, "// formatted\nedited\n");
    assert!(
        result.contains("changed further when the editor saved it") && result.contains("+// formatted"),
        "{result}"
    );
    assert!(!result.contains("is_error\":true"), "{result}");
}

#[test]
fn an_edit_that_the_editor_only_says_to_have_made_fails() {
    let (_, result) = edit_buffer(&World::new(), |_| "buffer\n".to_owned());
    assert!(
        result.contains("was not changed: the editor reported success"),
        "{result}"
    );
}

#[test]
fn an_edit_of_unsaved_text_is_refused_while_the_editor_does_not_answer() {
    let world = World::new();
    world.write("a.txt", "on disk: hello\n");
    let client = AcpClient::start(&world, files());
    let session = client.new_session(&world);
    let calls = [
        Reply::tool("read_file", json!({"path": "a.txt"})),
        Reply::tool(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "hello", "new_text": "bye"}]}),
        ),
        Reply::text("sorry"),
    ];
    calls.into_iter().for_each(|call| world.mock().push(call));
    let prompt = client.prompt(&session, "edit");
    let mut reads = 0;
    let answer = loop {
        let message = client
            .take(|message| message["id"] == prompt && message["method"].is_null() || message["id"].is_i64());
        match message["method"].as_str() {
            None => break message,
            Some("fs/read_text_file") => {
                // For the first call, and before the user is asked about the second one.
                reads += 1;
                let text = if reads < 3 {
                    json!("unsaved hello\n")
                } else {
                    Value::Null
                };
                client.respond(&message, json!({"content": text}));
            }
            Some("session/request_permission") => {
                let shown = message["params"]["toolCall"]["content"][0].to_string();
                assert!(shown.contains("unsaved bye"), "{shown}");
                let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
                client.respond(&message, allow);
            }
            Some(method) => panic!("{method}"),
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("a.txt").unwrap(), "on disk: hello\n");
    let last = last_message(&world, 2);
    assert!(
        last.contains("was not changed") && last.contains("malformed"),
        "{last}"
    );
}

#[test]
fn an_edit_of_a_buffer_that_changed_is_refused_with_its_text() {
    let world = World::new();
    world.write("a.txt", "disk\n");
    let client = AcpClient::start(&world, files());
    let session = client.new_session(&world);
    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "autoEdit"}),
    );
    let calls = [
        Reply::tool("read_file", json!({"path": "a.txt"})),
        Reply::tool(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "typed 1", "new_text": "edited"}]}),
        ),
        Reply::text("sorry"),
    ];
    calls.into_iter().for_each(|call| world.mock().push(call));
    let prompt = client.prompt(&session, "edit");
    let mut reads = 0;
    let answer = loop {
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null()
                || message["method"]
                    .as_str()
                    .is_some_and(|method| method.starts_with("fs/"))
        });
        match message["method"].as_str() {
            None => break message,
            Some("fs/read_text_file") => {
                // The user types before each but the first two reads.
                reads += 1;
                let typed = if reads < 3 { 1 } else { reads };
                client.respond(&message, json!({"content": format!("typed {typed}\n")}));
            }
            Some(method) => panic!("{method}"),
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("a.txt").unwrap(), "disk\n");
    let last = last_message(&world, 2);
    assert!(last.contains("typed 3"), "{last}");
}

#[test]
fn a_session_goes_on_in_the_other_protocol_and_back() {
    let world = World::new();
    // The prompt names the workspace folders, which only the other protocol has.
    world.mock().allow_rewrites();
    let session = {
        let client = AcpClient::start(&world, json!({}));
        let session = client.new_session(&world);
        world.mock().push(Reply::text("first answer"));
        client.answer(client.prompt(&session, "first prompt"));
        session
    };
    {
        let client = world.start();
        let loaded = client.load(&session);
        let text = serde_json::to_string(&loaded.events).unwrap();
        assert!(text.contains("first answer"), "{text}");
        world.mock().push(Reply::text("second answer"));
        client.prompt_result(&client.prompt(&session, "second prompt"));
    }
    let client = AcpClient::start(&world, json!({}));
    let listed = client.call("session/list", json!({"cwd": world.workspace()}));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    let loaded = client.request(
        "session/load",
        json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []}),
    );
    assert_eq!(client.answer(loaded)["result"]["modes"]["currentModeId"], "ask");
    let updates = client.taken_updates();
    assert_eq!(
        chunk_text(&updates, "user_message_chunk"),
        "first promptsecond prompt"
    );
    assert_eq!(
        chunk_text(&updates, "agent_message_chunk"),
        "first answersecond answer"
    );
    world.mock().push(Reply::text("third answer"));
    client.answer(client.prompt(&session, "third prompt"));
    let request = world.mock().requests().pop().unwrap();
    assert!(request.messages().len() >= 5);

    let relative = client.answer(client.request("session/list", json!({"cwd": "."})));
    assert_eq!(relative["error"]["code"], -32602, "{relative}");
    client.call("session/close", json!({"sessionId": session}));
    client.call("session/delete", json!({"sessionId": session}));
    assert_eq!(client.call("session/list", json!({}))["sessions"], json!([]));
}

#[test]
fn a_fork_goes_on_from_the_last_turn_and_leaves_the_original_alone() {
    let world = World::new();
    let client = AcpClient::launch(&world);
    let about = client.call("initialize", json!({"protocolVersion": 1}));
    assert_eq!(
        about["agentCapabilities"]["sessionCapabilities"]["fork"],
        json!({})
    );
    let session = client.new_session(&world);
    let fork_in = |cwd: &std::path::Path| {
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        client.answer(client.request("session/fork", params))
    };
    let early = fork_in(&world.workspace())["result"]["sessionId"].clone();
    assert_ne!(early, session);
    assert_eq!(client.call("session/list", json!({}))["sessions"], json!([]));
    world.mock().push(Reply::text("first answer"));
    client.answer(client.prompt(&session, "first prompt"));
    assert_eq!(fork_in(std::path::Path::new("/"))["error"]["code"], -32602);
    client.taken_updates();

    let answer = fork_in(&world.workspace())["result"].clone();
    let fork = answer["sessionId"].as_str().unwrap();
    assert_ne!(fork, session);
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    client.update("available_commands_update");
    assert_eq!(chunk_text(&client.taken_updates(), "agent_message_chunk"), "");
    world.mock().push(Reply::text("second answer"));
    let prompt = client.prompt(fork, "second prompt");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let request = world.mock().requests().pop().unwrap();
    assert_eq!(request.messages().len(), 3);
    assert_eq!(
        chunk_text(&client.taken_updates(), "agent_message_chunk"),
        "second answer"
    );
    assert_eq!(load_text(&client, &world, fork), "first answersecond answer");
    assert_eq!(load_text(&client, &world, &session), "first answer");
}

/// Some editors set all options of a new session at once, and do not wait for the answers.
#[test]
fn options_that_are_sent_at_once_all_count() {
    let world = World::with(Config {
        tables: "[agent.reviewer]\ntools = [\"read_file\"]".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({}));
    let options = [
        ("agent", "reviewer"),
        ("mode", "full"),
        ("effort", "high"),
        ("model", "mock/mock-model"),
    ];
    for first in 0..options.len() {
        let session = client.new_session(&world);
        let set = |at: usize| {
            let (option, value) = options[(first + at) % options.len()];
            let params = json!({"sessionId": session, "configId": option, "value": value});
            client.request("session/set_config_option", params)
        };
        let sent: Vec<i64> = (0..options.len()).map(set).collect();
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(&session, "go");
        for request in sent {
            let answer = client.answer(request);
            assert!(answer["error"].is_null(), "{first}: {answer}");
        }
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let request = world.wait_for_request(world.requests() - 1);
        let tools = request.body["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 1, "{first}: {tools:?}");
        let resume = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
        let shown = client.call("session/resume", resume)["configOptions"].clone();
        let values: Vec<&Value> = (0..3).map(|at| &shown[at]["currentValue"]).collect();
        assert_eq!(values, ["full", "mock/mock-model", "high"], "{first}");
    }
}

#[test]
fn a_choice_does_not_overtake_the_prompt_before_it() {
    let world = World::with(Config {
        tables: "[agent.reviewer]\ntools = [\"read_file\"]".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({}));
    for (option, value) in [("agent", "reviewer"), ("model", "other/other-model")] {
        let session = client.new_session(&world);
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(&session, "go");
        let params = json!({"sessionId": session, "configId": option, "value": value});
        let chosen = client.answer(client.request("session/set_config_option", params));
        assert_eq!(chosen["error"].is_null(), option == "model", "{chosen}");
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let request = world.wait_for_request(world.requests() - 1);
        assert_eq!(request.body["model"], "mock-model", "{option}");
        assert!(request.body["tools"].as_array().unwrap().len() > 1, "{option}");
    }
}

#[test]
fn a_choice_that_is_canceled_while_it_waits_for_a_prompt_changes_nothing() {
    let world = World::new();
    world.write("a.txt", "x\n");
    let client = AcpClient::start(&world, json!({"fs": {"readTextFile": true}}));
    let session = client.new_session(&world);
    let uri = format!("file://{}", world.workspace().join("a.txt").display());
    let link = json!({"type": "resource_link", "name": "a.txt", "uri": uri});
    let prompt = client.request("session/prompt", json!({"sessionId": session, "prompt": [link]}));
    // The prompt begins once the editor has answered.
    let read = client.asked("fs/read_text_file");
    let params = json!({"sessionId": session, "configId": "model", "value": "other/other-model"});
    let choice = client.request("session/set_config_option", params);
    client.notify("$/cancel_request", json!({"requestId": choice}));
    client.respond(&read, json!({"content": "x\n"}));
    assert_eq!(client.answer(choice)["error"]["code"], -32800);
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    client.answer(client.prompt(&session, "next"));
    let request = world.wait_for_request(world.requests() - 1);
    assert_eq!(request.body["model"], "mock-model");
}

#[test]
fn a_question_spells_out_the_hidden_characters_of_a_name() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    for path in ["n\u{200b}ew\u{202e}.txt", "../n\u{200b}ew\u{202e}.txt"] {
        let write = json!({"path": path, "content": "x"});
        world.mock().push(Reply::tool("write_file", write));
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(&session, "write");
        let asked = client.asked("session/request_permission");
        let call = &asked["params"]["toolCall"];
        let about = call["content"].as_array().unwrap().last().unwrap();
        let why = &asked["params"]["_meta"]["agentls"]["why"];
        for text in [&call["title"], &about["content"]["text"], why] {
            let text = text.as_str().unwrap();
            assert!(text.contains("n<U+200B>ew<U+202E>.txt"), "{text}");
        }
        choose(&client, &asked, "deny");
        client.answer(prompt);
    }
}

#[test]
fn a_chosen_agent_outlives_the_server() {
    let world = World::with(Config {
        tables: "[agent.reviewer]\nmode = \"plan\"".to_owned(),
        ..Config::default()
    });
    let session = {
        let client = AcpClient::start(&world, json!({}));
        let session = client.new_session(&world);
        let params = json!({"sessionId": session, "configId": "agent", "value": "reviewer"});
        client.call("session/set_config_option", params);
        session
    };
    for (agent, mode) in [("reviewer", "plan"), ("default", "ask")] {
        let client = AcpClient::start(&world, json!({}));
        let resume = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
        let options = client.call("session/resume", resume)["configOptions"].clone();
        assert_eq!(options[3]["currentValue"], agent);
        assert_eq!(options[0]["currentValue"], mode);
        let params = json!({"sessionId": session, "configId": "agent", "value": "default"});
        client.call("session/set_config_option", params);
    }
}

/// The choices are remembered for each agent.
#[test]
fn a_chosen_agent_begins_with_what_was_last_chosen_for_it() {
    let world = World::with(Config {
        tables: "[agent.reviewer]\nmode = \"plan\"\nmodel = \"own-model\"".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({}));
    let set = |session: &str, option: &str, value: &str| {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        let options = client.call("session/set_config_option", params)["configOptions"].clone();
        [0, 1, 2].map(|at| options[at]["currentValue"].as_str().unwrap().to_owned())
    };
    let session = client.new_session(&world);
    set(&session, "mode", "autoEdit");
    set(&session, "model", "mock/second-model");
    set(&session, "effort", "high");
    // A choice for the default agent is none for another one.
    let session = client.new_session(&world);
    let own = ["plan", "mock/own-model", "configured"];
    assert_eq!(set(&session, "agent", "reviewer"), own);
    set(&session, "effort", "low");
    set(&session, "mode", "ask");
    let session = client.new_session(&world);
    for _ in 0..2 {
        let remembered = ["ask", "mock/own-model", "low"];
        assert_eq!(set(&session, "agent", "reviewer"), remembered);
        let remembered = ["autoEdit", "mock/second-model", "high"];
        assert_eq!(set(&session, "agent", "default"), remembered);
    }
    set(&session, "agent", "reviewer");
    // Each choice in a session stays, and only that one.
    for (option, value, expected) in [
        ("effort", "max", ["ask", "mock/own-model", "max"]),
        ("model", "mock/third-model", ["ask", "mock/third-model", "low"]),
        ("mode", "plan", ["plan", "mock/own-model", "low"]),
    ] {
        let session = client.new_session(&world);
        set(&session, option, value);
        assert_eq!(set(&session, "agent", "reviewer"), expected);
    }
    drop(client);
    let client = AcpClient::start(&world, json!({}));
    let resume = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
    let options = client.call("session/resume", resume)["configOptions"].clone();
    let values = [0, 1, 2, 3].map(|at| options[at]["currentValue"].as_str().unwrap());
    assert_eq!(values, ["ask", "mock/own-model", "low", "reviewer"]);
}

#[test]
fn a_chosen_agent_does_not_bring_a_model_that_is_gone() {
    let configured = |more: &str| Config {
        tables: format!("[agent.reviewer]\nmodel = \"own-model\"\n{more}"),
        ..Config::default()
    };
    let world = World::with(configured(
        "[provider.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/\"\napi_key = \"k\"",
    ));
    let client = AcpClient::start(&world, json!({}));
    let set = |client: &AcpClient, session: &str, option: &str, value: &str| {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        client.call("session/set_config_option", params)["configOptions"][1]["currentValue"].clone()
    };
    let session = client.new_session(&world);
    set(&client, &session, "agent", "reviewer");
    assert_eq!(set(&client, &session, "model", "gone/model"), "gone/model");
    drop(client);
    world.configure(configured(""));
    let client = AcpClient::start(&world, json!({"session": {"notices": {}}}));
    let session = client.new_session(&world);
    assert_eq!(set(&client, &session, "agent", "reviewer"), "mock/own-model");
    let title = client.update("notice")["title"].clone();
    assert!(
        title.as_str().unwrap().starts_with("gone/model, the model"),
        "{title}"
    );
}

#[test]
fn what_variables_state_wins_over_the_last_choice() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let values = |client: &AcpClient| {
        let new = json!({"cwd": world.workspace(), "mcpServers": []});
        let options = client.call("session/new", new)["configOptions"].clone();
        [0, 1, 2].map(|at| options[at]["currentValue"].as_str().unwrap().to_owned())
    };
    let session = client.new_session(&world);
    for (option, value) in [("mode", "autoEdit"), ("model", "mock/second"), ("effort", "high")] {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        client.call("session/set_config_option", params);
    }
    assert_eq!(values(&client), ["autoEdit", "mock/second", "high"]);
    for (name, value, expected) in [
        ("AGENTLS_MODE", "plan", ["plan", "mock/second", "high"]),
        ("AGENTLS_MODEL", "third", ["autoEdit", "mock/third", "high"]),
    ] {
        let client = AcpClient::launch_with(&world, &[(name.to_owned(), value.to_owned())]);
        client.call(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        assert_eq!(values(&client), expected);
    }
}

#[test]
fn options_behind_a_prompt_count_in_their_order() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let cases = [
        (0, "mode", ["plan", "full", "ask", "autoEdit"]),
        (2, "effort", ["low", "high", "medium", "max"]),
    ];
    for (at, option, values) in cases.repeat(5) {
        let session = client.new_session(&world);
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(&session, "go");
        let set = |value: &&str| {
            let params = json!({"sessionId": session, "configId": option, "value": value});
            client.request("session/set_config_option", params)
        };
        let requests: Vec<i64> = values.iter().map(set).collect();
        let mut last = Value::Null;
        for (request, value) in requests.iter().zip(values) {
            let answered = client.take(|message| {
                message["method"].is_null() && requests.iter().any(|request| message["id"] == *request)
            });
            assert_eq!(answered["id"], *request);
            // A mode applies at once, so the answers may show a later one.
            if option == "effort" {
                assert_eq!(answered["result"]["configOptions"][at]["currentValue"], value);
            }
            last = answered;
        }
        assert_eq!(last["result"]["configOptions"][at]["currentValue"], values[3]);
        client.answer(prompt);
    }
}

#[test]
fn the_option_effort_offers_what_the_model_takes() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let set = |option: &str, value: &str| {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        client.answer(client.request("session/set_config_option", params))
    };
    let effort = |answer: Value| {
        let options = answer["result"]["configOptions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let option = options
            .into_iter()
            .find(|option| option["id"] == "effort")
            .unwrap();
        let values: Vec<String> = option["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value["value"].as_str().unwrap().to_owned())
            .collect();
        (option["currentValue"].as_str().unwrap().to_owned(), values)
    };
    // Of an unknown model, the provider decides.
    let (current, values) = effort(set("effort", "xhigh"));
    assert_eq!((current.as_str(), values.len()), ("xhigh", 8), "{values:?}");
    let (current, values) = effort(set("model", "mock/claude-opus-4-6"));
    assert_eq!(values, ["configured", "none", "low", "medium", "high", "max"]);
    assert_eq!(current, "high", "the nearest one is used");
    let refused = set("effort", "xhigh");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("low, medium, high, max")
    );
    assert_eq!(effort(set("effort", "max")).0, "max");
}

#[test]
fn modes_and_options_can_be_chosen() {
    let world = World::with(Config {
        tables: "[agent.reviewer]\nmode = \"plan\"".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({}));
    let answer = client.call("session/new", json!({"cwd": world.workspace(), "mcpServers": []}));
    let session = answer["sessionId"].clone();
    let ids: Vec<&str> = answer["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["mode", "model", "effort", "agent"]);
    let set = |option: &str, value: &str| {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        client.call("session/set_config_option", params)["configOptions"].clone()
    };
    // The mode is that of the agent until the user chooses one.
    for (agent, mode) in [("reviewer", "plan"), ("default", "ask")] {
        let options = set("agent", agent);
        assert_eq!(
            (&options[3]["currentValue"], &options[0]["currentValue"]),
            (&json!(agent), &json!(mode))
        );
        assert_eq!(client.update("current_mode_update")["currentModeId"], mode);
    }
    assert_eq!(set("mode", "full")[0]["currentValue"], "full");
    assert_eq!(client.update("current_mode_update")["currentModeId"], "full");
    assert_eq!(set("effort", "high")[2]["currentValue"], "high");
    assert_eq!(set("effort", "configured")[2]["currentValue"], "configured");
    let options = set("model", "other/other-model");
    assert_eq!(options[1]["currentValue"], "other/other-model");
    for (option, value) in [
        ("mode", "reckless"),
        ("model", " "),
        ("model", "other/"),
        ("model", "bogus"),
        ("effort", "huge"),
    ] {
        let wrong = json!({"sessionId": session, "configId": option, "value": value});
        let refused = client.answer(client.request("session/set_config_option", wrong));
        assert_eq!(refused["error"]["code"], -32602, "{option}");
    }
    // A new session of the agent begins with the last choice.
    let next = client.call("session/new", json!({"cwd": world.workspace(), "mcpServers": []}));
    let values: Vec<&Value> = next["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["currentValue"])
        .collect();
    assert_eq!(values[1..3], ["other/other-model", "configured"]);
    // The agent can be chosen until the first turn, with all other choices kept.
    let options = set("agent", "reviewer");
    let values: Vec<&Value> = (0..4).map(|at| &options[at]["currentValue"]).collect();
    assert_eq!(values, ["full", "other/other-model", "configured", "reviewer"]);
    set("agent", "default");
    set("model", "mock/mock-model");
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(session.as_str().unwrap(), "go"));
    let late = json!({"sessionId": session, "configId": "agent", "value": "reviewer"});
    let refused = client.answer(client.request("session/set_config_option", late));
    let reason = refused["error"]["message"].as_str().unwrap();
    assert!(reason.contains("before the first prompt"), "{reason}");
}

#[test]
fn questions_are_forms_where_the_client_shows_them() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({"elicitation": {"form": {}}}));
    let session = client.new_session(&world);
    let question = json!({
        "question": "Which one?",
        "choices": ["red", "blue"],
    });
    world.mock().push(Reply::tool("ask_user", question));
    world.mock().push(Reply::text("thanks"));
    let prompt = client.prompt(&session, "ask me");
    let asked = client.asked("elicitation/create");
    client.respond(&asked, json!({"action": "accept", "content": {"answer": "blue"}}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let last = last_message(&world, 1);
    assert!(last.contains("blue"), "{last}");

    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "plan"}),
    );
    let present = || {
        let plan = json!({"plan": "1. Paint it."});
        world.mock().push(Reply::tool("present_plan", plan));
        world.mock().push(Reply::text("well"));
        client.prompt(&session, "plan it")
    };
    let prompt = present();
    for answer in [json!({}), json!({"answer_text": "paint it red"})] {
        let asked = client.asked("elicitation/create");
        let fields = &asked["params"]["requestedSchema"]["properties"];
        let no = json!({"const": "keep", "title": "No, keep planning"});
        assert_eq!(fields["answer"]["oneOf"][2], no);
        client.respond(&asked, json!({"action": "accept", "content": answer}));
    }
    client.answer(prompt);
    let last = last_message(&world, 3);
    assert!(last.contains("says: paint it red"), "{last}");
    let prompt = present();
    let asked = client.asked("elicitation/create");
    client.respond(&asked, json!({"action": "accept", "content": {"answer": "ask"}}));
    client.answer(prompt);
    let last = last_message(&world, 5);
    assert!(last.contains("chose the mode ask"), "{last}");
}

#[test]
fn a_second_prompt_and_another_folder_are_refused() {
    let world = World::new();
    world.write("inner/a.txt", "one\n");
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let open = |method: &str, cwd: std::path::PathBuf| {
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        client.answer(client.request(method, params))
    };
    // Before and after the session is stored.
    for _ in 0..2 {
        for method in ["session/load", "session/resume"] {
            let refused = open(method, world.workspace().join("inner"));
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains(world.workspace().to_str().unwrap()), "{message}");
            assert!(open(method, world.workspace().join("inner/.."))["error"].is_null());
        }
        let gate = Gate::new();
        world.mock().push(Reply::text("done").gate(&gate));
        let first = client.prompt(&session, "first");
        let refused = client.answer(client.prompt(&session, "second"));
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("a prompt is running"), "{message}");
        gate.release();
        assert_eq!(client.answer(first)["result"]["stopReason"], "end_turn");
    }
}

#[test]
fn a_compaction_with_nothing_to_do_says_so() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let answer = client.answer(client.prompt(&session, "/compact"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let text = chunk_text(&client.taken_updates(), "agent_message_chunk");
    assert!(text.contains("nothing to compact"), "{text}");
}

#[test]
fn capabilities_of_an_unexpected_form_count_as_absent() {
    let world = World::new();
    for capabilities in [json!(null), json!([]), json!({"fs": null, "session": "notices"})] {
        let client = AcpClient::launch(&world);
        let params =
            json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": 7}});
        let about = client.call("initialize", params);
        assert_eq!(about["protocolVersion"], 1);
        client.new_session(&world);
    }
}

#[test]
fn bad_lines_are_answered_and_not_echoed() {
    let world = World::new();
    let client = AcpClient::launch(&world);
    client.raw(b"{\"secret\": nonsense\n");
    let answer = client.take(|_| true);
    assert_eq!(answer["error"]["code"], -32700);
    assert!(!answer.to_string().contains("nonsense"), "{answer}");
    let early = client.answer(client.request("session/new", json!({})));
    assert_eq!(early["error"]["code"], -32600);
    client.call("initialize", json!({"protocolVersion": 1}));
    // One byte more than a line may have.
    let long = vec![b'x'; (32 << 20) + 1];
    client.raw(&long);
    client.raw(b"\n");
    let answer = client.take(|message| message["id"].is_null());
    assert!(answer["error"]["message"].as_str().unwrap().contains("limit"));
    for (method, code) in [
        ("no/such", -32601),
        ("session/new", -32602),
        ("authenticate", -32602),
        ("logout", -32600),
    ] {
        let answer = client.answer(client.request(method, json!({"cwd": 3})));
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    for prompt in [json!("hi"), json!(["hi"]), json!([{"type": "text"}])] {
        let params = json!({"sessionId": "ses_x", "prompt": prompt});
        let answer = client.answer(client.request("session/prompt", params));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            !message.contains("struct") && !message.contains("enum"),
            "{message}"
        );
    }
    let answer = client.answer(client.request("session/prompt", json!("hi")));
    assert_eq!(
        answer["error"]["message"],
        "params is neither an object nor an array"
    );
    let unknown = client.request(
        "session/load",
        json!({"sessionId": "ses_x", "cwd": "/", "mcpServers": []}),
    );
    assert_eq!(client.answer(unknown)["error"]["code"], -32002);
}

#[test]
fn an_untrusted_folder_stays_so_and_says_it_once() {
    let world = World::new();
    world.write(".agentls/config.toml", "[agent.default]\nmode = \"autoEdit\"\n");
    let client = AcpClient::start(&world, json!({"session": {"notices": {}}}));
    let answer = client.call("session/new", json!({"cwd": world.workspace(), "mcpServers": []}));
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    let trust = client.update("notice");
    assert!(
        trust["title"].as_str().unwrap().contains("not trusted"),
        "{trust}"
    );
    assert!(trust["description"].as_str().unwrap().contains("/trust"));
    world.mock().push(Reply::text("hello"));
    let session = answer["sessionId"].as_str().unwrap();
    client.answer(client.prompt(session, "hello"));
    let updates = client.taken_updates();
    assert!(
        !updates.iter().any(|update| update.to_string().contains("rust")),
        "{updates:?}"
    );
}

#[test]
fn files_and_resources_of_a_prompt_reach_the_model() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\nthree\n");
    let client = AcpClient::start(&world, json!({}));
    world.write("100% a#b?.txt", "text of an odd name\n");
    let odd = format!("file://{}", world.workspace().join("100% a#b?.txt").display());
    let session = client.new_session(&world);
    world.mock().push(Reply::text("seen"));
    let prompt = json!([
        {"type": "text", "text": "look"},
        {"type": "resource_link", "name": "a.txt", "uri": format!("{}#L2:2", world.uri("a.txt"))},
        {"type": "resource_link", "name": "odd", "uri": odd},
        {"type": "resource_link", "name": "page", "uri": "https://example.org/page"},
        {"type": "resource", "resource": {"uri": "zed:///thread/1", "text": "embedded words"}},
        {"type": "image", "mimeType": "image/png", "data": DOT},
    ]);
    let id = client.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(client.answer(id)["result"]["stopReason"], "end_turn");
    let sent = serde_json::to_string(world.mock().requests()[0].messages()).unwrap();
    for part in [
        "two",
        "text of an odd name",
        "https://example.org/page",
        "embedded words",
        "image/png",
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("three"), "{sent}");
}

#[test]
fn a_failed_turn_is_an_error_with_what_to_do() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    world
        .mock()
        .push(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let answer = client.answer(client.prompt(&session, "hello"));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert_eq!(answer["error"]["data"]["agentls"]["status"], 401);
}
