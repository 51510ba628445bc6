//! The `ask_user` tool: questions of the agent that a user answers, even after a crash.

use std::sync::Arc;

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Client, Scenario, answers};
use crate::domain::*;

fn ask() -> Reply {
    Reply::tool(
        "ask_user",
        json!({"question": "Which one?", "detail": "Both fit.", "choices": ["first", "second"]}),
    )
}

#[test]
fn answers_and_dismissals_reach_the_model() {
    let scenario = Scenario::new();
    scenario.push(ask());
    scenario.push(ask());
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let turn = client.prompt(&session, "do it");
    let question = client.next_inquiry(&session);
    let RequestSubject::Question(asked) = &question.subject else {
        panic!("{question:?}")
    };
    assert_eq!(
        (asked.text.as_str(), asked.detail.as_deref()),
        ("Which one?", Some("Both fit."))
    );
    // A user may give an answer that was not offered.
    client.reply(&question, answers("a third"));
    let second = client.next_inquiry(&session);
    assert_ne!(second.id, question.id);
    client.reply(&second, InquiryReply::Dismissed);
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    assert!(scenario.tool_results(1).concat().contains("a third"));
    assert!(scenario.tool_results(2).concat().contains("did not answer"));
}

#[test]
fn tool_is_missing_without_a_user() {
    for can_ask in [true, false] {
        let scenario = Scenario::new();
        let client = if can_ask {
            scenario.start_asking()
        } else {
            scenario.start()
        };
        client.ask(&client.session(), "hello");
        let tools = scenario.wait_for_request(0).body["tools"].to_string();
        assert_eq!(tools.contains("ask_user"), can_ask, "{tools}");
    }
}

#[test]
fn cancel_settles_a_question() {
    let scenario = Scenario::new();
    scenario.push(ask());
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.next_inquiry(&session);
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.state, TurnState::Cancelled);
    let (_, reply, by) = client.next_reply(&session);
    assert_eq!((reply, by), (InquiryReply::Dismissed, ResolvedBy::Cancel));
    assert_eq!(client.ask(&session, "again").text, "ok");
}

/// Ends a server abruptly that waits for the answer to a question. Returns the next server, the loaded session, and
/// the question.
fn crash_at_question(scenario: &Scenario) -> (Client, SessionId, Arc<Inquiry>) {
    scenario.push(ask());
    let client = scenario.start_asking();
    let session = client.session();
    let _turn = client.prompt(&session, "do it");
    let question = client.next_inquiry(&session);
    client.kill();
    let client = scenario.start_asking();
    client.load(&session);
    (client, session, question)
}

#[test]
fn question_survives_a_crash_under_its_id() {
    let scenario = Scenario::new();
    let (client, session, question) = crash_at_question(&scenario);
    let turn = client.resume(&session);
    let reopened = client.next_inquiry(&session);
    assert_eq!(reopened.id, question.id);
    client.reply(&question, answers("second"));
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    assert!(scenario.tool_results(1).concat().contains("second"));
}

#[test]
fn an_answer_to_an_interrupted_question_reaches_the_model_with_a_new_prompt() {
    let scenario = Scenario::new();
    let (client, session, question) = crash_at_question(&scenario);
    client.reply(&question, answers("second"));
    let turn = client.prompt(&session, "and quickly");
    let (_, reply, by) = client.next_reply(&session);
    assert_eq!((reply, by), (answers("second"), ResolvedBy::Person));
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    let messages = json!(scenario.wait_for_request(1).messages()).to_string();
    assert!(messages.contains("the user had answered: second"), "{messages}");
}
