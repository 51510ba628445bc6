//! The `diagnostics` tool: the editor's problems, if the client answers `agent/getDiagnostics` (R-TOOL-3).

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mock_llm::Reply;

const ASK: &str = "agent/getDiagnostics";

fn start(world: &World) -> Client {
    let client = world.launch(Options::default());
    client.take_requests();
    let mut params = client.initialize_params(None);
    params["capabilities"] = json!({"experimental": {"agent": {"client": {"getDiagnostics": true}}}});
    let answer: Value = client.call("initialize", params);
    let features = &answer["capabilities"]["experimental"]["agent"]["features"];
    assert!(features.to_string().contains("diagnostics"), "{features}");
    client.initialized();
    client
}

fn result(world: &World, request: usize) -> String {
    world
        .wait_for_request(request)
        .messages()
        .last()
        .unwrap()
        .to_string()
}

#[test]
fn diagnostics_come_from_the_editor_and_are_listed_by_line() {
    let world = World::new();
    world.write("a.rs", "fn main() {}\n");
    world.mock().push(Reply::tool("diagnostics", json!({})));
    world
        .mock()
        .push(Reply::tool("diagnostics", json!({"path": "a.rs"})));
    let client = start(&world);
    // Reading diagnostics needs no approval, even in mode `plan`.
    let session = client.session_with(json!({"mode": "plan"}));
    let id = client.prompt(&session, "what is wrong?");
    let request = client.server_asks(ASK);
    assert_eq!(request.params, json!({}));
    let range = json!({"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 7}});
    client.reply(
        &request,
        json!({"diagnostics": [
            {"uri": world.uri("a.rs"), "range": range, "severity": "warning", "message": "never used", "source": "rustc"},
            {"uri": "file:///elsewhere/b.rs", "range": range, "message": "not ours"},
        ]}),
    );
    let request = client.server_asks(ASK);
    assert_eq!(request.params, json!({"uri": world.uri("a.rs")}));
    client.reply(&request, json!({"diagnostics": []}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let first = result(&world, 1);
    assert!(
        first.contains("a.rs:1:4: warning: never used (rustc)\\n[1 warning]") && !first.contains("not ours"),
        "{first}"
    );
    assert!(result(&world, 2).contains("The editor reports nothing."));
}

/// An error in `file`, as the editor reports it.
fn error(world: &World, file: &str, line: u32, message: &str) -> Value {
    let at = json!({"line": line, "character": 0});
    json!({"uri": world.uri(file), "range": {"start": at, "end": at}, "severity": "error", "message": message})
}

#[test]
fn an_edit_reports_the_errors_that_it_brought() {
    let world = World::new();
    world.write("a.rs", "one\n");
    world.write("b.rs", "two\n");
    let edit = json!({"path": "a.rs", "edits": [{"old_text": "one", "new_text": "zero\none"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    let client = start(&world);
    let opened = json!({"uri": world.uri("a.rs"), "languageId": "rust", "version": 0, "text": "one\n"});
    client.notify("textDocument/didOpen", json!({"textDocument": opened}));
    let session = client.session_with(json!({"mode": "full"}));
    let id = client.prompt(&session, "edit it");
    let request = client.server_asks(ASK);
    assert_eq!(request.params, json!({}));
    client.reply(
        &request,
        json!({"diagnostics": [error(&world, "a.rs", 0, "old")]}),
    );
    let request = client.server_asks(ASK);
    assert_eq!(
        request.params,
        json!({"waitFor": world.uri("a.rs"), "waitMs": 2000})
    );
    assert_eq!(world.read("a.rs").as_deref(), Some("zero\none\n"));
    let mut warning = error(&world, "a.rs", 0, "only a warning");
    warning["severity"] = json!("warning");
    let mut all = vec![
        error(&world, "b.rs", 0, "broken too"),
        // The edit has moved it.
        error(&world, "a.rs", 1, "old"),
        error(&world, "a.rs", 1, "new"),
        error(&world, "../elsewhere.rs", 1, "not ours"),
        warning,
    ];
    all.extend((0..9).map(|line| error(&world, "a.rs", line, "again")));
    client.reply(&request, json!({"diagnostics": all}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let text = result(&world, 1);
    assert!(
        text.contains(
            "edited a.rs (+1 −0 lines)\\nThe editor reports 11 new errors:\\na.rs:1:1: error: again\\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("a.rs:2:1: error: new\\n") && text.contains("\\n[1 more]"),
        "{text}"
    );
    assert!(!text.contains("error: old"), "{text}");
    assert!(!text.contains("warning") && !text.contains("not ours"), "{text}");
}

#[test]
fn a_patch_waits_once_for_all_its_files_open_or_not() {
    let world = World::new();
    for file in ["a.rs", "b.rs", ".env"] {
        world.write(file, "one\n");
    }
    let update = |file: &str| format!("*** Update File: {file}\n@@\n-one\n+two\n");
    let patch = format!(
        "*** Begin Patch\n{}{}{}*** Add File: c.rs\n+three\n*** End Patch\n",
        update("a.rs"),
        update("b.rs"),
        update(".env"),
    );
    world
        .mock()
        .push(Reply::tool("apply_patch", json!({"patch": patch})));
    let client = start(&world);
    let opened = json!({"uri": world.uri("a.rs"), "languageId": "rust", "version": 0, "text": "one\n"});
    client.notify("textDocument/didOpen", json!({"textDocument": opened}));
    let session = client.session_with(json!({"mode": "full"}));
    let id = client.prompt(&session, "patch it");
    // Of the open file, the editor knows the errors already, and the new file has none.
    let request = client.server_asks(ASK);
    assert_eq!(
        request.params,
        json!({"waitFor": world.uri("b.rs"), "waitMs": 1000})
    );
    assert_eq!(world.read("b.rs").as_deref(), Some("one\n"));
    client.reply(
        &request,
        json!({"diagnostics": [error(&world, "b.rs", 0, "old")]}),
    );
    let request = client.server_asks(ASK);
    assert_eq!(
        request.params,
        json!({
            "waitFor": world.uri("a.rs"),
            "alsoWaitFor": [world.uri("b.rs"), world.uri("c.rs")],
            "waitMs": 2000,
        })
    );
    assert_eq!(world.read("c.rs").as_deref(), Some("three\n"));
    let all = [
        error(&world, "c.rs", 0, "third"),
        error(&world, "b.rs", 0, "old"),
        error(&world, "b.rs", 0, "second"),
        error(&world, "a.rs", 0, "first"),
    ];
    client.reply(&request, json!({"diagnostics": all}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let text = result(&world, 1);
    assert!(
        text.contains(
            "The editor reports 3 new errors:\\na.rs:1:1: error: first\\nb.rs:1:1: error: second\\n\
             c.rs:1:1: error: third"
        ),
        "{text}"
    );
}

#[test]
fn an_edit_waits_for_errors_as_long_as_the_setting_says() {
    let world = World::new();
    world.write("a.rs", "one\n");
    world.configure(Config {
        agent: "diagnostics_after_edit = 30\n".to_owned(),
        ..Config::default()
    });
    let edit = json!({"path": "a.rs", "edits": [{"old_text": "one", "new_text": "two"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "edit it");
    for wait_ms in [15_000, 30_000] {
        let request = client.server_asks(ASK);
        assert_eq!(
            request.params,
            json!({"waitFor": world.uri("a.rs"), "waitMs": wait_ms})
        );
        client.reply(&request, json!({"diagnostics": []}));
    }
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
}

#[test]
fn errors_that_may_be_older_than_the_edit_are_not_called_new() {
    let world = World::new();
    world.write("a.rs", "one\n");
    let edit = json!({"path": "a.rs", "edits": [{"old_text": "one", "new_text": "two"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    let client = start(&world);
    let session = client.session_with(json!({"mode": "full"}));
    let id = client.prompt(&session, "edit it");
    let request = client.server_asks(ASK);
    client.reply(
        &request,
        json!({"diagnostics": [], "unreported": [world.uri("a.rs")]}),
    );
    let request = client.server_asks(ASK);
    client.reply(
        &request,
        json!({"diagnostics": [error(&world, "a.rs", 0, "whose")]}),
    );
    client.prompt_result(&id);
    let text = result(&world, 1);
    assert!(
        text.contains("The editor reports 1 error, perhaps older than this edit:\\na.rs:1:1: error: whose"),
        "{text}"
    );
}

#[test]
fn an_edit_waits_for_no_errors_if_the_setting_is_off() {
    let world = World::new();
    world.write("a.rs", "two\n");
    world.configure(Config {
        agent: "diagnostics_after_edit = false\n".to_owned(),
        ..Config::default()
    });
    let edit = json!({"path": "a.rs", "edits": [{"old_text": "two", "new_text": "three"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    let client = start(&world);
    let opened = json!({"uri": world.uri("a.rs"), "languageId": "rust", "version": 0, "text": "two\n"});
    client.notify("textDocument/didOpen", json!({"textDocument": opened}));
    client.ask(&client.session_with(json!({"mode": "full"})), "edit it");
    assert_eq!(world.read("a.rs").as_deref(), Some("three\n"));
    assert_eq!(client.server_requests(), 0);
}

#[test]
fn tool_is_missing_without_the_client_capability() {
    let world = World::new();
    let client = world.start();
    client.ask(&client.session(), "hello");
    assert!(
        !world.wait_for_request(0).body["tools"]
            .to_string()
            .contains("\"diagnostics\"")
    );
}

#[test]
fn malformed_answers_and_cancels_are_harmless() {
    let world = World::new();
    let client = start(&world);
    let session = client.session();
    let ask = || world.mock().push(Reply::tool("diagnostics", json!({})));
    ask();
    let id = client.prompt(&session, "what is wrong?");
    let request = client.server_asks(ASK);
    client.reply(&request, json!({"diagnostics": 3}));
    client.prompt_result(&id);
    assert!(
        result(&world, 1).contains("the editor refused"),
        "{}",
        result(&world, 1)
    );
    ask();
    let id = client.prompt(&session, "what is wrong?");
    let request = client.server_asks(ASK);
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    client.reply(&request, json!({"diagnostics": []}));
    assert_eq!(client.ask(&session, "go on").text, "ok");
}
