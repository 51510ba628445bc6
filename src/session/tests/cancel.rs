//! A cancel takes effect in every phase, and nothing happens afterwards (I3, I8).

use serde_json::{Value, json};

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, PendingTurn, Scenario};
use crate::domain::*;
use crate::session::*;

/// The phase of a turn in which the cancel arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    BeforeTheHead,
    BeforeTheFirstEvent,
    Streaming,
    InAToolsInput,
    RetryWait,
    Approval,
    TwoApprovals,
}

const PHASES: [Phase; 7] = [
    Phase::BeforeTheHead,
    Phase::BeforeTheFirstEvent,
    Phase::Streaming,
    Phase::InAToolsInput,
    Phase::RetryWait,
    Phase::Approval,
    Phase::TwoApprovals,
];

fn content(path: &str) -> Value {
    json!({"path": path, "content": "x"})
}

/// Starts a turn and waits until it has reached a phase.
fn start_turn_in(client: &Client, session: &SessionId, phase: Phase) -> PendingTurn {
    let scenario = &client.scenario;
    let gate = Gate::new();
    let reply = match phase {
        Phase::BeforeTheHead => Reply::silent(),
        Phase::BeforeTheFirstEvent => Reply::new().ping().gate(&gate),
        Phase::Streaming => Reply::text("some words").gate(&gate),
        Phase::InAToolsInput => Reply::text("I write")
            .call_raw("write_file", "{\"path\": \"x\", ", 4)
            .gate(&gate),
        Phase::RetryWait => Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "900"),
        Phase::Approval => Reply::tool("write_file", content("x")),
        Phase::TwoApprovals => Reply::new()
            .call("write_file", content("x"))
            .call("write_file", content("y")),
    };
    let before = scenario.requests();
    scenario.push(reply);
    let turn = client.prompt(session, "do it");
    match phase {
        Phase::BeforeTheHead => drop(scenario.wait_for_request(before)),
        Phase::BeforeTheFirstEvent => scenario.wait_at_gate(&gate),
        Phase::Streaming => client.wait_for_text(session, "words"),
        Phase::InAToolsInput => client.next_delta(session, |delta| match delta {
            Delta::ToolInput { text, .. } if text.ends_with(", ") => Some(()),
            _ => None,
        }),
        Phase::RetryWait => client.wait_until(session, |event| matches!(event, Event::Retry { .. })),
        Phase::Approval => drop(client.next_approval(session)),
        Phase::TwoApprovals => drop([client.next_approval(session), client.next_approval(session)]),
    }
    turn
}

/// Cancels a turn, which must end at once.
fn cancel(client: &Client, session: &SessionId, turn: PendingTurn) -> TurnOutcome {
    let before_ms = client.scenario.wall_ms();
    client.cancel(session);
    let outcome = client.outcome(turn);
    assert_eq!(outcome.end.state, TurnState::Cancelled);
    assert_eq!(client.scenario.wall_ms(), before_ms);
    outcome
}

#[test]
fn cancel_takes_effect_in_every_phase() {
    // The mock asks for a wait of 900 s, so only a cancel can end it in time.
    let scenario = Scenario::with_provider("max_retry_after_s = 1000");
    let client = scenario.start();
    for phase in PHASES {
        let session = client.session();
        let at = scenario.requests();
        let turn = start_turn_in(&client, &session, phase);
        let outcome = cancel(&client, &session, turn);
        let in_tools = matches!(phase, Phase::Approval | Phase::TwoApprovals);
        let reason = if in_tools {
            TerminalReason::AbortedTools
        } else {
            TerminalReason::AbortedStreaming
        };
        assert_eq!(outcome.end.reason, reason, "{phase:?}");
        if !in_tools && phase != Phase::RetryWait {
            let is_dropped = scenario.is_dropped(at);
            assert!(is_dropped, "{phase:?}: the provider's connection is closed");
        }
        if phase == Phase::Streaming {
            assert_eq!(outcome.text, "some words");
            let messages = client.all(&session, |event| match event {
                Event::Message(message) => Some(message.incomplete),
                _ => None,
            });
            assert_eq!(messages.last(), Some(&true));
        }
        let resolutions = client.all(&session, |event| match event {
            Event::ApprovalResolved { decision, by, .. } => Some((decision.kind, *by)),
            _ => None,
        });
        assert_eq!(resolutions.len(), client.approval_count(&session), "{phase:?}");
        let denied = (DecisionKind::Deny, ResolvedBy::Cancel);
        assert!(resolutions.iter().all(|one| *one == denied), "{phase:?}");
        assert_eq!(client.inspect(&session).metrics.cancels, 1, "{phase:?}");
        // The history stays valid (the mock checks it), and the next prompt works.
        assert_eq!(client.ask(&session, "go on").text, "ok", "{phase:?}");
        let files = (scenario.read("x"), scenario.read("y"));
        assert_eq!(files, (None, None), "{phase:?}");
    }
    assert_eq!(scenario.mock().pending(), 0);
}

#[test]
fn a_cancelled_turn_can_be_resumed() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    let turn = start_turn_in(&client, &session, Phase::Streaming);
    let canceled = cancel(&client, &session, turn);
    scenario.push(Reply::text("and more"));
    assert_eq!(client.outcome(client.resume(&session)).text, "and more");
    let resumed = client.all(&session, |event| match event {
        Event::TurnStarted { resumes, .. } => Some(resumes.clone()),
        _ => None,
    });
    assert_eq!(resumed, [None, Some(canceled.turn)]);
    let refused = client.started(client.resume(&session)).unwrap_err();
    assert_eq!(refused, CommandError::NothingToResume);
}

#[test]
fn cancels_for_other_turns_and_sessions_do_nothing() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    let first = client.ask(&session, "first").turn;
    // No turn is running.
    client.cancel(&session);
    client.cancel(&SessionId::from("ses_none"));
    let gate = Gate::new();
    let half = Reply::text("half").gate(&gate);
    scenario.push(half.with_text(" whole"));
    let turn = client.prompt(&session, "second");
    scenario.wait_at_gate(&gate);
    let cancel_turn = |turn: &TurnId| client.sessions.cancel_turn(&session, Some(turn));
    cancel_turn(&first);
    cancel_turn(&TurnId::from("turn_none"));
    client.cancel(&other);
    client.settle();
    gate.release();
    assert_eq!(client.outcome(turn).text, "half whole");
    // A cancel with the right turn id takes effect.
    let turn = start_turn_in(&client, &session, Phase::Streaming);
    cancel_turn(&client.inspect(&session).turn.unwrap());
    assert_eq!(client.outcome(turn).end.state, TurnState::Cancelled);
}

/// Starts a turn in each of `count` new sessions.
fn start_turns(client: &Client, count: usize) -> Vec<(SessionId, PendingTurn)> {
    let start = |n| {
        let session = client.session();
        let turn = client.prompt(&session, format!("work {n}"));
        (session, turn)
    };
    (0..count).map(start).collect()
}

/// Starts as many turns as can call the provider at the same time, and waits until they do.
fn take_all_places(client: &Client) -> Vec<(SessionId, PendingTurn)> {
    let turns = start_turns(client, 256);
    client.scenario.wait_for_request(255);
    turns
}

/// Waits until a session's turn reports that it waits for a free call, and returns why.
fn next_wait(client: &Client, session: &SessionId) -> String {
    client.next(session, |event| match event {
        Event::Wait { why, .. } => Some(why.clone()),
        _ => None,
    })
}

#[test]
fn cancel_affects_only_its_session_among_a_hundred() {
    let scenario = Scenario::new();
    scenario.mock().default_reply(Reply::text("working").stall());
    let client = scenario.start();
    let turns = start_turns(&client, 100);
    for (session, _) in &turns {
        client.next_text(session);
    }
    let mut sessions = Vec::new();
    for (session, turn) in turns {
        let running = client.sessions.running_sessions().len();
        cancel(&client, &session, turn);
        assert_eq!(client.sessions.running_sessions().len(), running - 1);
        sessions.push(session);
    }
    scenario.mock().default_reply(Reply::text("ok"));
    for session in &sessions {
        assert_eq!(client.ask(session, "go on").text, "ok");
    }
}

#[test]
fn hundreds_of_pending_prompts_do_not_delay_a_cancel() {
    let scenario = Scenario::new();
    scenario.mock().default_reply(Reply::silent());
    let client = scenario.start();
    let mut turns = take_all_places(&client);
    turns.extend(start_turns(&client, 44));
    next_wait(&client, &turns[299].0);
    // One prompt is with the provider, the other waits for a free call.
    for at in [290, 10] {
        let (session, turn) = turns.remove(at);
        cancel(&client, &session, turn);
    }
    for (session, turn) in turns {
        cancel(&client, &session, turn);
    }
}

#[test]
fn call_257_reports_its_wait_and_gets_the_next_free_place() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    let gated = Reply::new().gate(&gate).with_text("done");
    scenario.mock().default_reply(gated);
    let client = scenario.start();
    let mut turns = take_all_places(&client);
    let mut late = start_turns(&client, 2).into_iter();
    let (last_session, last) = late.next().unwrap();
    assert!(!next_wait(&client, &last_session).is_empty());
    // A canceled wait must not use up a free place.
    let (session, turn) = late.next().unwrap();
    next_wait(&client, &session);
    let end = cancel(&client, &session, turn).end;
    assert_eq!(end.reason, TerminalReason::AbortedStreaming);
    assert_eq!(scenario.requests(), 256);
    let (session, turn) = turns.remove(0);
    cancel(&client, &session, turn);
    scenario.wait_for_request(256);
    gate.release();
    for turn in turns.into_iter().map(|(_, turn)| turn).chain([last]) {
        assert_eq!(client.outcome(turn).text, "done");
    }
}
