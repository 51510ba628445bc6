//! Plan mode: what is free in it, and the question that ends it.

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

fn answer_next(client: &Client, session: &str, answer: &Value) {
    answer_question(client, &client.next(session, "agent/questionRequested"), answer);
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

#[test]
fn only_an_approval_ends_plan_mode() {
    for (reply, expected) in [
        (json!({"answers": {"answer": ["use tabs"]}}), "says: use tabs"),
        (
            json!({"answers": {"answer": ["keep"]}}),
            "did not approve the plan yet",
        ),
        (json!({"dismissed": true}), "did not answer"),
    ] {
        let world = World::new();
        world.mock().push(present());
        let client = world.start_asking();
        let session = client.session_with(json!({"mode": "plan"}));
        let prompt = client.prompt(&session, "plan it");
        answer_next(&client, &session, &reply);
        client.prompt_result(&prompt);
        assert!(result(&world, 1).contains(expected), "{}", result(&world, 1));
        assert_eq!(mode(&client, &session), "plan", "{reply}");
    }
}

#[test]
fn a_question_of_another_tool_leaves_the_mode() {
    let world = World::new();
    let question = json!({"question": "Which mode?", "choices": ["autoEdit", "ask"]});
    world.mock().push(Reply::tool("ask_user", question));
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    let prompt = client.prompt(&session, "plan it");
    answer_next(&client, &session, &json!({"answers": {"answer": ["autoEdit"]}}));
    client.prompt_result(&prompt);
    assert_eq!(mode(&client, &session), "plan");
}

#[test]
fn an_answer_after_a_crash_still_ends_plan_mode() {
    let world = World::new();
    world.mock().push(present());
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    client.prompt(&session, "plan it");
    client.next(&session, "agent/questionRequested");
    client.kill();
    let client = world.start_asking();
    client.load(&session);
    let id = client.send("agent/resumeTurn", json!({"sessionId": session}));
    answer_next(&client, &session, &json!({"answers": {"answer": ["ask"]}}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    assert_eq!(mode(&client, &session), "ask");
    assert!(result(&world, 1).contains("chose the mode ask"));
    // The mode ends with the session: nobody has chosen it for others.
    let next = client.session_with(json!({"remembered": true}));
    assert_eq!(mode(&client, &next), "plan");
}

fn set_mode(client: &Client, session: &str, mode: &str) {
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": mode}));
}

#[test]
fn an_answer_to_the_plan_counts_more_than_a_mode_set_before_it() {
    let world = World::new();
    world.mock().push(present());
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "touch made"})));
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    let prompt = client.prompt(&session, "plan it");
    let question = client.next(&session, "agent/questionRequested");
    set_mode(&client, &session, "full");
    answer_question(&client, &question, &json!({"answers": {"answer": ["ask"]}}));
    let approval = client.next_approval(&session);
    assert_eq!(mode(&client, &session), "ask");
    assert_eq!(world.read("made"), None);
    client.decide(&approval, "deny");
    client.prompt_result(&prompt);
    assert!(result(&world, 1).contains("chose the mode ask"));
}

#[test]
fn of_two_plans_in_one_step_the_later_answer_counts() {
    let world = World::new();
    let plan = json!({"plan": "1. Write x."});
    world.mock().push(
        Reply::new()
            .call("present_plan", plan.clone())
            .call("present_plan", plan),
    );
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    let prompt = client.prompt(&session, "plan it");
    for answer in ["autoEdit", "ask"] {
        answer_next(&client, &session, &json!({"answers": {"answer": [answer]}}));
        assert_eq!(mode(&client, &session), answer);
    }
    client.decide(&client.next_approval(&session), "deny");
    client.prompt_result(&prompt);
    assert_eq!(world.read("x"), None);
}

#[test]
fn a_mode_set_after_an_answer_to_an_interrupted_plan_stays() {
    let world = World::new();
    world.mock().push(present());
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    client.prompt(&session, "plan it");
    let question = client.next(&session, "agent/questionRequested");
    client.kill();
    let client = world.start_asking();
    client.load(&session);
    answer_question(&client, &question, &json!({"answers": {"answer": ["autoEdit"]}}));
    assert_eq!(mode(&client, &session), "autoEdit");
    set_mode(&client, &session, "ask");
    let id = client.send("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    assert_eq!(mode(&client, &session), "ask");
    assert!(result(&world, 1).contains("chose the mode autoEdit"));
}
