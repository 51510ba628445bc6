//! Compactions that the user asks for.

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::scenario::{PendingTurn, Scenario};
use super::*;
use crate::session::{CommandError, SessionCommand};

/// Starts a compaction by hand, and waits until its call is at the gate.
fn start_compaction(client: &Client, session: &SessionId) -> (PendingTurn, Gate) {
    let gate = Gate::new();
    client.scenario.push(notes().gate(&gate));
    let compaction = client.compact(session);
    client.scenario.wait_at_gate(&gate);
    (compaction, gate)
}

#[test]
fn manual_compaction_summarizes_on_request() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    scenario.push(notes());
    let before = scenario.requests();
    let started = client.request(&session, |reply| SessionCommand::Compact {
        instructions: Some("keep the numbers".to_owned()),
        reply,
    });
    let outcome = client.wait_for(started.unwrap().wait_for_outcome()).unwrap();
    assert_eq!(describe_end(&outcome), DONE);
    assert_eq!(outcome.text, "");
    assert_eq!(scenario.requests(), before + 1);
    let request = scenario.wait_for_request(before);
    assert!(asks_for_notes(&request) && request.last_text().contains("keep the numbers"));
    let triggers = client.all(&session, |event| match event {
        Event::TurnStarted { by, .. } => Some(*by),
        _ => None,
    });
    assert_eq!(triggers.last(), Some(&TurnTrigger::Compact));
    let compaction = compactions(&client, &session).swap_remove(0);
    assert_eq!(compaction.trigger, CompactTrigger::Manual);
    assert_eq!(
        outcome.compacted,
        Some((compaction.tokens_before, compaction.tokens_after))
    );
    assert_eq!(client.ask(&session, "next").text, "ok");
    let sent = message_outline(&scenario.wait_for_request(before + 1));
    // The user's own words stay.
    assert_eq!(
        sent[..5],
        [
            "user q0",
            "user q1",
            "user q2",
            "user [Previous conversation summary]",
            "user q3"
        ]
    );
    // A short conversation stays unchanged, and the transition says why.
    let short = session_with_rounds(&client, 1);
    let outcome = compact(&client, &short);
    assert_eq!(describe_end(&outcome), DONE);
    assert_eq!(client.reasons(&short), ["completed"; 2]);
    let detail = last_detail(&client, &short);
    assert!(detail.contains("short"), "{detail}");
    assert_eq!(outcome.compacted, None);
    assert!(compactions(&client, &short).is_empty());
    // So does an empty one.
    let empty = client.session();
    assert_eq!(describe_end(&compact(&client, &empty)), DONE);
}

#[test]
fn manual_compaction_pays_for_no_summary_that_cannot_help() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    for short in ["a", "b", "c"] {
        client.ask(&session, short);
    }
    for round in 0..3 {
        client.ask(&session, long_prompt(&format!("more{round}")));
    }
    let before = scenario.requests();
    assert_eq!(describe_end(&compact(&client, &session)), DONE);
    assert_eq!(scenario.requests(), before);
    assert!(compactions(&client, &session).is_empty());
    let detail = last_detail(&client, &session);
    assert!(detail.contains("nothing to compact"), "{detail}");
}

#[test]
fn manual_compaction_drops_nothing_that_the_user_said() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_rounds(&client, 6);
    let before = scenario.requests();
    assert_eq!(describe_end(&compact(&client, &session)), DONE);
    assert_eq!(scenario.requests(), before);
    let detail = last_detail(&client, &session);
    assert!(detail.contains("what you said yourself"), "{detail}");
}

#[test]
fn manual_compaction_error_is_reported_and_changes_nothing() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    scenario.push(Reply::error(400, "invalid_request_error", "messages: nonsense"));
    let from = client.reasons(&session).len();
    let outcome = compact(&client, &session);
    assert_eq!(
        course(&client, &session, from, &outcome),
        ["model_error", "model_error / failed / provider_error"]
    );
    assert!(compactions(&client, &session).is_empty());
    let before = scenario.requests();
    client.ask(&session, "next");
    assert_eq!(message_outline(&scenario.wait_for_request(before)).len(), 13);
}

#[test]
fn manual_compaction_falls_back_to_a_digest() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    let from = client.reasons(&session).len();
    for unusable in [Reply::text(" "), Reply::text("no").stop("refusal")] {
        scenario.push(unusable.tokens(0, 0));
        assert_eq!(describe_end(&compact(&client, &session)), DONE);
        add_long_answers(&client, &session, "more", 3);
    }
    assert_eq!(client.reasons(&session)[from..], ["completed"; 8]);
    assert_eq!(client.warnings(&session, "compaction_failed").len(), 2);
    let all = compactions(&client, &session);
    let is_digest = |compaction: &Arc<Compaction>| compaction.summary.as_ref().unwrap().digest;
    assert!(all.len() == 2 && all.iter().all(is_digest), "{all:?}");
}

#[test]
fn prompt_and_compaction_exclude_each_other() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    let gate = Gate::new();
    scenario.push(Reply::text("hm").tokens(0, 0).gate(&gate));
    let prompt = client.prompt(&session, "wait");
    scenario.wait_at_gate(&gate);
    let refused = client.started(client.compact(&session)).unwrap_err();
    assert!(matches!(refused, CommandError::TurnRunning(_)), "{refused:?}");
    gate.release();
    client.outcome(prompt);
    let (compaction, gate) = start_compaction(&client, &session);
    let refused = client.started(client.prompt(&session, "x")).unwrap_err();
    assert!(matches!(refused, CommandError::TurnRunning(_)), "{refused:?}");
    // A steer during a compaction is returned.
    client.steer(&session, "and this").unwrap();
    gate.release();
    let end = client.outcome(compaction).end;
    assert_eq!(end.unused_steers, [[Block::Text("and this".to_owned())]]);
}

#[test]
fn cancel_ends_a_compaction_immediately() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    let cancelled = "aborted_streaming / cancelled / cancelled";
    let at = scenario.requests();
    let (compaction, _gate) = start_compaction(&client, &session);
    let before_ms = scenario.wall_ms();
    client.cancel(&session);
    assert_eq!(describe_end(&client.outcome(compaction)), cancelled);
    assert_eq!(scenario.wall_ms(), before_ms);
    let request = scenario.wait_for_request(at);
    assert!(client.wait_for(scenario.mock().wait_closed(&request)).dropped);
    assert!(compactions(&client, &session).is_empty());
    // A canceled compaction cannot be resumed.
    let refused = client.started(client.resume(&session)).unwrap_err();
    assert_eq!(refused, CommandError::NothingToResume);
    // The same within a turn, before its call.
    let gate = Gate::new();
    scenario.push_all([too_long(), notes().gate(&gate)]);
    let turn = client.prompt(&session, "and now?");
    scenario.wait_at_gate(&gate);
    client.cancel(&session);
    assert_eq!(describe_end(&client.outcome(turn)), cancelled);
    assert!(compactions(&client, &session).is_empty());
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
}

#[test]
fn kill_during_a_compaction_loses_only_the_compaction() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_long_answers(&client);
    // An earlier canceled turn must stay resumable.
    scenario.push(Reply::text("hm").tokens(0, 0).gate(&Gate::new()));
    let turn = client.prompt(&session, "wait");
    // Text that has arrived stays in the history, so wait for it.
    client.wait_for_text(&session, "hm");
    client.cancel(&session);
    client.outcome(turn);
    let (_cut, _gate) = start_compaction(&client, &session);
    client.kill();
    let client = scenario.start();
    let loaded = client.load(&session).snapshot;
    assert!(loaded.turn.is_none());
    assert!(loaded.resumable.is_some());
    let stored = json!(client.stored_events(&session)).to_string();
    assert!(stored.contains("server_stopped") && !stored.contains("\"compacted\""));
    let before = scenario.requests();
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
    assert_eq!(message_outline(&scenario.wait_for_request(before)).len(), 15);
    scenario.push(notes());
    compact(&client, &session);
    assert_eq!(compactions(&client, &session).len(), 1);
    assert_eq!(client.ask(&session, "next").text, "ok");
}
