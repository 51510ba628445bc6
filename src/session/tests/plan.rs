//! Plan mode: the question that ends it, and what its answer decides. And the plan that the model keeps.

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Client, Scenario, answers, bash, write_file};
use crate::domain::*;
use crate::session::*;

fn present() -> Reply {
    Reply::tool("present_plan", json!({"plan": "# Plan\n\n1. Write x."}))
}

fn answer_next(client: &Client, session: &SessionId, reply: InquiryReply) {
    client.reply(&client.next_inquiry(session), reply);
}

fn mode(client: &Client, session: &SessionId) -> Mode {
    client.inspect(session).choice.mode
}

#[test]
fn only_an_approval_ends_plan_mode() {
    for (reply, expected) in [
        (answers("use tabs"), "says: use tabs"),
        (answers("keep"), "did not approve the plan yet"),
        (InquiryReply::Dismissed, "did not answer"),
    ] {
        let scenario = Scenario::new();
        scenario.push(present());
        let client = scenario.start_asking();
        let session = client.session_in_mode(Mode::Plan);
        let turn = client.prompt(&session, "plan it");
        answer_next(&client, &session, reply.clone());
        client.outcome(turn);
        let result = scenario.tool_results(1).concat();
        assert!(result.contains(expected), "{result}");
        assert_eq!(mode(&client, &session), Mode::Plan, "{reply:?}");
    }
}

#[test]
fn a_question_of_another_tool_leaves_the_mode() {
    let scenario = Scenario::new();
    let question = json!({"question": "Which mode?", "choices": ["autoEdit", "ask"]});
    scenario.push(Reply::tool("ask_user", question));
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let turn = client.prompt(&session, "plan it");
    answer_next(&client, &session, answers("autoEdit"));
    client.outcome(turn);
    assert_eq!(mode(&client, &session), Mode::Plan);
}

#[test]
fn an_answer_after_a_crash_still_ends_plan_mode() {
    let scenario = Scenario::new();
    scenario.push(present());
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let _turn = client.prompt(&session, "plan it");
    client.next_inquiry(&session);
    client.kill();
    let client = scenario.start_asking();
    client.load(&session);
    let turn = client.resume(&session);
    answer_next(&client, &session, answers("ask"));
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    assert_eq!(mode(&client, &session), Mode::Ask);
    assert!(scenario.tool_results(1).concat().contains("chose the mode ask"));
    // The mode ends with the session: nobody has chosen it for others.
    let next = client.session_with(NewSession {
        remembered: true,
        ..NewSession::default()
    });
    assert_eq!(mode(&client, &next), Mode::Plan);
}

#[test]
fn an_answer_to_the_plan_counts_more_than_a_mode_set_before_it() {
    let scenario = Scenario::new();
    scenario.push(present());
    scenario.push(bash("touch made"));
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let turn = client.prompt(&session, "plan it");
    let question = client.next_inquiry(&session);
    client.set_mode(&session, Mode::Full);
    client.reply(&question, answers("ask"));
    let approval = client.next_approval(&session);
    assert_eq!(mode(&client, &session), Mode::Ask);
    assert_eq!(scenario.read("made"), None);
    client.decide(&approval, DecisionKind::Deny);
    client.outcome(turn);
    assert!(scenario.tool_results(1).concat().contains("chose the mode ask"));
}

#[test]
fn of_two_plans_in_one_step_the_later_answer_counts() {
    let scenario = Scenario::new();
    let plan = json!({"plan": "1. Write x."});
    scenario.push(
        Reply::new()
            .call("present_plan", plan.clone())
            .call("present_plan", plan),
    );
    scenario.push(write_file("x", "x"));
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let turn = client.prompt(&session, "plan it");
    for (answer, chosen) in [("autoEdit", Mode::AutoEdit), ("ask", Mode::Ask)] {
        answer_next(&client, &session, answers(answer));
        assert_eq!(mode(&client, &session), chosen);
    }
    client.decide(&client.next_approval(&session), DecisionKind::Deny);
    client.outcome(turn);
    assert_eq!(scenario.read("x"), None);
}

#[test]
fn a_mode_set_after_an_answer_to_an_interrupted_plan_stays() {
    let scenario = Scenario::new();
    scenario.push(present());
    let client = scenario.start_asking();
    let session = client.session_in_mode(Mode::Plan);
    let _turn = client.prompt(&session, "plan it");
    let question = client.next_inquiry(&session);
    client.kill();
    let client = scenario.start_asking();
    client.load(&session);
    client.reply(&question, answers("autoEdit"));
    assert_eq!(mode(&client, &session), Mode::AutoEdit);
    client.set_mode(&session, Mode::Ask);
    let turn = client.resume(&session);
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    assert_eq!(mode(&client, &session), Mode::Ask);
    assert!(
        scenario
            .tool_results(1)
            .concat()
            .contains("chose the mode autoEdit")
    );
}

#[test]
fn plan_event_contains_the_whole_plan() {
    let scenario = Scenario::new();
    let items = json!([{"text": "look", "status": "completed"}, {"text": "change", "status": "in_progress"}]);
    let client = scenario.start();
    let session = client.session();
    client.call_freely(&session, Reply::tool("update_plan", json!({"items": items})));
    let plan = client.next(&session, |event| match event {
        Event::Plan { items } => Some(items.clone()),
        _ => None,
    });
    assert_eq!(json!(plan), items);
}
