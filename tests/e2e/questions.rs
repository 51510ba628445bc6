//! The `ask_user` tool: questions of the agent that a user answers, even after a crash.

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::Reply;

fn ask() -> Reply {
    Reply::tool(
        "ask_user",
        json!({"question": "Which one?", "detail": "Both fit.", "choices": ["first", "second"]}),
    )
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
fn answers_and_dismissals_reach_the_model() {
    let world = World::new();
    world.mock().push(ask());
    world.mock().push(ask());
    let client = world.start_asking();
    let session = client.session_with(json!({"mode": "plan"}));
    let id = client.prompt(&session, "do it");
    let question_request = client.next(&session, "agent/questionRequested");
    assert_eq!(
        (question_request.text("text"), question_request.text("detail")),
        ("Which one?", "Both fit."),
        "{}",
        question_request.params
    );
    let question = question_request.text("questionId").to_owned();
    // A user may give an answer that was not offered.
    let answer = json!({"questionId": question, "answers": {"answer": ["a third"]}});
    let _: Value = client.call("agent/questionRespond", answer);
    let second_request = client.next_matching(&session, "agent/questionRequested", |notification| {
        notification.text("questionId") != question
    });
    let dismissed = json!({"questionId": second_request.text("questionId"), "dismissed": true});
    let _: Value = client.call("agent/questionRespond", dismissed);
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    assert!(result(&world, 1).contains("a third"));
    assert!(result(&world, 2).contains("did not answer"));
}

#[test]
fn tool_is_missing_without_a_user() {
    let world = World::new();
    let client = world.start();
    client.ask(&client.session(), "hello");
    assert!(
        !world.wait_for_request(0).body["tools"]
            .to_string()
            .contains("ask_user")
    );
}

#[test]
fn cancel_settles_a_question() {
    let world = World::new();
    world.mock().push(ask());
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    client.next(&session, "agent/questionRequested");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    let resolved = client.next(&session, "agent/questionResolved");
    assert!(resolved.params["answers"].is_null(), "{}", resolved.params);
    assert_eq!(client.ask(&session, "again").text, "ok");
}

/// Kills a server that waits for the answer to a question. Returns the next client, the loaded session, and the question.
fn crash_at_question(world: &World) -> (Client, String, String) {
    world.mock().push(ask());
    let client = world.start_asking();
    let session = client.session();
    client.prompt(&session, "do it");
    let request = client.next(&session, "agent/questionRequested");
    client.kill();
    let client = world.start_asking();
    client.load(&session);
    (client, session, request.text("questionId").to_owned())
}

#[test]
fn question_survives_a_crash_under_its_id() {
    let world = World::new();
    let (client, session, question) = crash_at_question(&world);
    let id = client.send("agent/resumeTurn", json!({"sessionId": session}));
    let reopened = client.next(&session, "agent/questionRequested");
    assert_eq!(reopened.text("questionId"), question);
    let answer = json!({"questionId": question, "answers": {"answer": ["second"]}});
    let _: Value = client.call("agent/questionRespond", answer);
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    assert!(result(&world, 1).contains("second"));
}

#[test]
fn an_answer_to_an_interrupted_question_reaches_the_model_with_a_new_prompt() {
    let world = World::new();
    let (client, session, question) = crash_at_question(&world);
    let answer = json!({"questionId": question, "answers": {"answer": ["second"]}});
    let _: Value = client.call("agent/questionRespond", answer);
    let id = client.prompt(&session, "and quickly");
    let settled = client.next(&session, "agent/questionResolved");
    assert_eq!(settled.text("by"), "person");
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let messages = json!(world.wait_for_request(1).messages()).to_string();
    assert!(messages.contains("the user had answered: second"), "{messages}");
}
