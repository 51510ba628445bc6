//! A bug that makes a session's actor panic: the turn fails with the reason, and the session goes on.

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Scenario, write_file};
use crate::domain::*;
use crate::session::*;

/// Makes the session's actor panic.
fn panic(client: &Client, session: &SessionId) {
    let posted = client.sessions.post_command(session, SessionCommand::Panic);
    assert!(posted.is_ok());
}

#[test]
fn a_panic_fails_the_turn_with_the_reason_and_the_next_one_works() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    scenario.push(Reply::text("kept"));
    scenario.push(Reply::text("lost").gate(&gate));
    scenario.push(Reply::text("after it"));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "one");
    let turn = client.prompt(&session, "two");
    scenario.wait_at_gate(&gate);
    panic(&client, &session);
    // Taken after the panic: the session performs it as if nothing had happened.
    client.set_mode(&session, Mode::Plan);
    let end = client.outcome(turn).end;
    assert_eq!(end.reason, TerminalReason::InternalError);
    let error = end.error.unwrap();
    assert_eq!(error.message, "a bug in agentls ended the turn");
    let cause = error.cause.unwrap().to_string();
    assert!(cause.contains("a test asks for this"), "{cause}");
    assert!(client.sessions.running_sessions().is_empty());

    assert_eq!(client.ask(&session, "three").text, "after it");
    let messages = scenario.wait_for_request(2).messages().to_vec();
    let history = json!(messages).to_string();
    for text in ["one", "kept", "two", "three"] {
        assert!(history.contains(text), "{text}: {history}");
    }
    assert_eq!(client.inspect(&session).choice.mode, Mode::Plan);
}

#[test]
fn a_panic_closes_an_open_question_and_another_session_is_untouched() {
    let scenario = Scenario::new();
    scenario.push(write_file("a", "x"));
    let gate = Gate::new();
    scenario.push(Reply::text("the other").gate(&gate));
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    let turn = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    let other_turn = client.prompt(&other, "hello");
    scenario.wait_at_gate(&gate);
    panic(&client, &session);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::InternalError);
    assert_eq!(client.wait_for(client.sessions.open_approvals()).unwrap(), []);
    let late = client.try_decide(&approval.id, Decision::from_kind(DecisionKind::Allow));
    assert_eq!(late, Err(CommandError::UnknownApproval(approval.id.clone())));
    gate.release();
    assert_eq!(client.outcome(other_turn).text, "the other");
    assert_eq!(scenario.read("a"), None);
    assert_eq!(client.ask(&session, "again").end.state, TurnState::Completed);
}

#[test]
fn a_session_in_which_nothing_happened_keeps_its_choices() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Plan);
    panic(&client, &session);
    panic(&client, &session);
    assert_eq!(client.inspect(&session).choice.mode, Mode::Plan);
    assert_eq!(client.ask(&session, "hello").text, "ok");
}
