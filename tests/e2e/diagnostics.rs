//! The `diagnostics` tool: the editor's problems, if the client answers `agent/getDiagnostics` (R-TOOL-3).

use serde_json::{Value, json};

use crate::harness::{Client, Options, World};
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
