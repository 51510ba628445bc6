//! Questions about calls, and what their answers do.

use std::time::Duration;

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Scenario, read_file, write_file};
use super::{AFTER_DENIAL, allow_with, edit, next_resolution};
use crate::domain::*;
use crate::session::*;

#[test]
fn reads_run_freely_and_writes_ask_with_a_diff() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "one\ntwo\n");
    scenario.push_all([
        read_file("a.txt"),
        Reply::tool("edit_file", edit("a.txt", "two", "three")),
    ]);
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert_eq!(client.approval_count(&session), 1, "reading did not ask");
    assert_eq!((&*approval.name, approval.risk), ("edit_file", Risk::Medium));
    let diff = approval.diff.as_deref().unwrap();
    assert!(diff.contains("-two") && diff.contains("+three"), "{diff}");
    assert!(!approval.why.is_empty() && !approval.title.is_empty());
    assert_eq!(approval.cwd, scenario.workspace().display().to_string());
    let open = || client.wait_for(client.sessions.open_approvals()).unwrap();
    assert_eq!(open()[0].1.approval, approval);
    let text = scenario.read("a.txt").unwrap();
    assert_eq!(text, "one\ntwo\n", "nothing happens before the answer");
    client.decide(&approval, DecisionKind::Allow);
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(scenario.read("a.txt").unwrap(), "one\nthree\n");
    let statuses = client.all(&session, |event| match event {
        Event::ToolCall(update) if update.name == "edit_file" => Some(update.status.name()),
        _ => None,
    });
    assert_eq!(statuses, ["pending", "awaiting_approval", "running", "completed"]);
    assert_eq!(
        next_resolution(&client, &session),
        (DecisionKind::Allow, ResolvedBy::Person)
    );
    assert_eq!(open(), []);
}

#[test]
fn a_denial_reaches_the_model_with_its_feedback() {
    for (feedback, expected) in [
        (None, "Denied by user"),
        (Some("use tabs"), "Denied by user: use tabs"),
    ] {
        let scenario = Scenario::new();
        let client = scenario.start();
        let session = client.session();
        let decision = Decision {
            feedback: feedback.map(str::to_owned),
            ..Decision::from_kind(DecisionKind::Deny)
        };
        client.call_deciding(&session, write_file("x", "x"), decision);
        let expected = format!("{expected}{AFTER_DENIAL}");
        assert_eq!(scenario.tool_results(1), [expected.as_str()]);
        let denied = client.next_call(&session, ToolCallStatus::Denied);
        assert_eq!(denied.result.unwrap().text, expected);
        assert_eq!(scenario.read("x"), None);
    }
}

#[test]
fn call_runs_with_the_edited_input() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    let edited = json!({"path": "y", "content": "mine"});
    client.call_deciding(&session, write_file("x", "model's"), allow_with(edited.clone()));
    assert_eq!(
        (scenario.read("x"), scenario.read("y").as_deref()),
        (None, Some("mine"))
    );
    let running = client.next_call(&session, ToolCallStatus::Running);
    assert_eq!(*running.input.unwrap(), edited);
    // Invalid edited input fails the call, not the turn.
    client.call_deciding(&session, write_file("x", "x"), allow_with(json!({"nonsense": 1})));
    assert_eq!(scenario.read("x"), None);
    client.next_call(&session, ToolCallStatus::Failed);
}

#[test]
fn waiting_call_does_not_block_others_and_results_keep_their_order() {
    let scenario = Scenario::new();
    scenario.write("a", "content a\n");
    scenario.write("c", "content c\n");
    scenario.push(
        Reply::new()
            .call("read_file", json!({"path": "a"}))
            .call("write_file", json!({"path": "b", "content": "b"}))
            .call("read_file", json!({"path": "c"})),
    );
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.next_call(&session, ToolCallStatus::Completed);
    client.next_call(&session, ToolCallStatus::Completed);
    // Time passes only when everything else waits.
    scenario.advance(Duration::from_secs(1));
    assert_eq!(scenario.requests(), 1, "the model waits for all results");
    client.decide(&approval, DecisionKind::Allow);
    client.outcome(turn);
    let results = scenario.tool_results(1);
    assert_eq!(results.len(), 3);
    assert!(
        results[0].contains("content a") && results[2].contains("content c"),
        "{results:?}"
    );
}

#[test]
fn concurrent_approvals_can_be_answered_in_any_order() {
    let scenario = Scenario::new();
    scenario.push(
        Reply::new()
            .call("write_file", json!({"path": "a", "content": "a"}))
            .call("write_file", json!({"path": "b", "content": "b"})),
    );
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let (a, b) = (client.next_approval(&session), client.next_approval(&session));
    client.decide(&b, DecisionKind::Allow);
    client.decide(&a, DecisionKind::Deny);
    client.outcome(turn);
    assert_eq!(
        (scenario.read("a"), scenario.read("b").as_deref()),
        (None, Some("b"))
    );
    assert!(scenario.tool_results(1)[0].starts_with("Denied by user\n"));
}

#[test]
fn switching_to_an_allowing_mode_settles_open_approvals() {
    let scenario = Scenario::new();
    scenario.push(write_file("a", "a"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.set_mode(&session, Mode::AutoEdit);
    client.outcome(turn);
    assert_eq!(scenario.read("a").unwrap(), "a");
    assert_eq!(next_resolution(&client, &session).1, ResolvedBy::Rule);
    let modes = client.all(&session, |event| match event {
        Event::SessionUpdated { mode, .. } => *mode,
        _ => None,
    });
    assert_eq!(modes.last(), Some(&Mode::AutoEdit));
}

#[test]
fn invalid_rules_and_answers_to_unknown_or_settled_approvals_are_refused() {
    let scenario = Scenario::new();
    scenario.push(write_file("a", "a"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    for (kind, rule) in [
        (DecisionKind::AllowAlways, "((("),
        (DecisionKind::AllowAlways, "bsh(touch *)"),
        (DecisionKind::AllowSession, "write_file(../x)"),
    ] {
        let decision = Decision {
            rule: Some(rule.to_owned()),
            ..Decision::from_kind(kind)
        };
        let refused = client.try_decide(&approval.id, decision).unwrap_err();
        assert!(matches!(refused, CommandError::BadRule(_)), "{rule}: {refused:?}");
    }
    let unknown = ApprovalId::from("appr_none".to_owned());
    let allow = || Decision::from_kind(DecisionKind::Allow);
    assert_eq!(
        client.try_decide(&unknown, allow()),
        Err(CommandError::UnknownApproval(unknown))
    );
    client.decide(&approval, DecisionKind::Deny);
    assert_eq!(
        client.try_decide(&approval.id, allow()),
        Err(CommandError::UnknownApproval(approval.id))
    );
    client.outcome(turn);
    assert_eq!(scenario.read("a"), None);
}

#[test]
fn unanswered_approval_is_denied_after_its_timeout() {
    let scenario = Scenario::with_tables("[approvals]\ntimeout_s = 300\n");
    scenario.push(write_file("a", "a"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.next_approval(&session);
    let before_ms = scenario.wall_ms();
    assert_eq!(client.outcome(turn).text, "ok");
    assert!((300_000..300_100).contains(&(scenario.wall_ms() - before_ms)));
    assert_eq!(next_resolution(&client, &session).1, ResolvedBy::Timeout);
    assert_eq!(scenario.read("a"), None);
}
