//! A plan from its question to its end, with a real command. What its answers decide is tested in
//! `session::tests::plan`.

use serde_json::{Value, json};

use crate::harness::{Client, Notification, World};
use crate::mock_llm::Reply;

fn present() -> Reply {
    Reply::tool("present_plan", json!({"plan": "# Plan\n\n1. Write x."}))
}

/// Returns what the model got as the result of its last call.
fn result(world: &World, request: usize) -> String {
    let request = world.wait_for_request(request);
    let mut messages = request.messages().iter().rev().map(ToString::to_string);
    messages.find(|message| message.contains("tool_result")).unwrap()
}

fn answer_question(client: &Client, question: &Notification, answer: &Value) {
    let mut params = json!({"questionId": question.text("questionId")});
    params
        .as_object_mut()
        .unwrap()
        .extend(answer.as_object().unwrap().clone());
    let _: Value = client.call("agent/questionRespond", params);
}

fn mode(client: &Client, session: &str) -> Value {
    json!(client.load(session).state.mode)
}

#[test]
fn an_approved_plan_is_carried_out_in_the_mode_that_the_person_chose() {
    let world = World::new();
    world.mock().push(Reply::tool("bash", json!({"command": "ls"})));
    world.mock().push(Reply::tool(
        "write_file",
        json!({"path": "x", "content": "too early"}),
    ));
    world.mock().push(present());
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "done"})));
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    let prompt = client.prompt(&session, "plan it");
    let question = client.next(&session, "agent/questionRequested");
    assert!(
        question.text("detail").starts_with("# Plan"),
        "{:?}",
        question.params
    );
    assert_eq!(mode(&client, &session), "plan");
    assert_eq!(world.read("x"), None);
    answer_question(&client, &question, &json!({"answers": {"answer": ["autoEdit"]}}));
    assert_eq!(json!(client.prompt_result(&prompt).state), "completed");
    assert_eq!(world.read("x").as_deref(), Some("done"));
    assert_eq!(mode(&client, &session), "autoEdit");
    assert!(client.all(&session, "agent/approvalRequested").is_empty());

    assert!(world.wait_for_request(0).environment_notes()[0].contains("- mode: plan. "));
    assert!(
        !result(&world, 1).contains("plan mode"),
        "a command that reads is free"
    );
    assert!(
        result(&world, 2).contains("put it into the plan"),
        "{}",
        result(&world, 2)
    );
    assert!(result(&world, 3).contains("approved the plan and chose the mode autoEdit"));
    let notes = world.wait_for_request(3);
    let notes = notes.environment_notes();
    assert!(notes[1].contains("Changed:\n- mode: autoEdit. "), "{notes:?}");
}
