//! Visible recovery: retries and retractions.

use std::time::Duration;

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::Scenario;
use crate::domain::*;

#[test]
fn text_of_a_broken_attempt_is_retracted() {
    for (name, cut) in [
        ("cut", Reply::text("half of the an").close()),
        ("reset", Reply::text("half of the an").reset()),
        (
            "error event",
            Reply::text("half of the an").fail("api_error", "broke"),
        ),
        ("no stop", Reply::text("half of the an").without_stop()),
    ] {
        let scenario = Scenario::new();
        scenario.push(cut);
        scenario.push(Reply::text("the whole answer"));
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "the whole answer", "{name}");
        let of_deltas: Vec<MessageId> = client
            .deltas(&session)
            .into_iter()
            .filter_map(|delta| match delta {
                Delta::Text { message, .. } => Some(message),
                _ => None,
            })
            .collect();
        let (first, last) = (of_deltas.first().unwrap(), of_deltas.last().unwrap());
        assert_ne!(first, last, "{name}: the next attempt has a new id");
        let retracted = client.next(&session, |event| match event {
            Event::MessageRetracted { message, .. } => Some(message.clone()),
            _ => None,
        });
        assert_eq!(retracted, *first, "{name}");
        let messages = client.all(&session, |event| match event {
            Event::Message(message) => Some(message.clone()),
            _ => None,
        });
        let [prompt, note, answer] = &messages[..] else {
            panic!("{name}: {messages:?}")
        };
        assert_eq!((prompt.role, note.role), (Role::User, Role::User), "{name}");
        assert!(note.hidden, "the note about the environment");
        assert_eq!(answer.id, *last, "{name}");
        // The retracted text is in neither the stored history nor the next request.
        client.ask(&session, "and now?");
        let raw = scenario.wait_for_request(2).raw.clone();
        assert!(!String::from_utf8_lossy(&raw).contains("half of"), "{name}");
    }
}

#[test]
fn tool_calls_of_a_broken_attempt_are_retracted_and_never_run() {
    let scenario = Scenario::new();
    scenario.push(
        Reply::text("I write.")
            .call("write_file", json!({"path": "x", "content": "x"}))
            .close(),
    );
    scenario.push(Reply::text("no, I don't"));
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    assert_eq!(client.ask(&session, "hello").text, "no, I don't");
    let call = client.next_delta(&session, |delta| match delta {
        Delta::ToolInput { tool_call, .. } => Some(tool_call.clone()),
        _ => None,
    });
    let retracted = client.next(&session, |event| match event {
        Event::MessageRetracted { tool_calls, .. } => Some(tool_calls.clone()),
        _ => None,
    });
    assert_eq!(retracted, [call]);
    assert_eq!(
        client.count(&session, |event| matches!(event, Event::ToolCall(_))),
        0
    );
    assert_eq!(scenario.read("x"), None);
}

#[test]
fn retries_are_limited_and_each_wait_matches_its_announcement() {
    let scenario = Scenario::new();
    scenario
        .mock()
        .default_reply(Reply::error(503, "api_error", "down"));
    let client = scenario.start();
    let session = client.session();
    let end = client.ask(&session, "hello").end;
    assert_eq!(end.reason, TerminalReason::ModelError);
    let error = end.error.unwrap();
    assert_eq!((error.attempts, error.status), (Some(4), Some(503)));
    assert_eq!(scenario.requests(), 4);
    let attempts = client.all(&session, |event| match event {
        Event::Retry { attempt, .. } => Some(*attempt),
        _ => None,
    });
    assert_eq!(attempts, [1, 2, 3]);
    let delays = client.retry_delays(&session);
    for (at, (delay, floor)) in delays.into_iter().zip([20, 40, 50]).enumerate() {
        assert!(
            (floor..=floor + floor / 4 + 1).contains(&delay),
            "wait {at}: {delay}"
        );
        let gap = scenario.wait_for_request(at + 1).at - scenario.wait_for_request(at).at;
        // The announcement rounds the delay down, and a timer rounds up to the next millisecond.
        let (least, most) = (Duration::from_millis(delay), Duration::from_millis(delay + 2));
        assert!(gap >= least && gap <= most, "wait {at}: {gap:?} for {delay} ms");
    }
}

#[test]
fn waits_without_jitter_are_exact() {
    let scenario = Scenario::with_provider("backoff_jitter = 0");
    for _ in 0..3 {
        scenario.push(Reply::error(503, "overloaded_error", "try later"));
    }
    scenario.push(Reply::text("ok"));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(client.retry_delays(&session), [20, 40, 50]);
}

#[test]
fn max_timeout_retries_limits_retries_after_timeouts() {
    let scenario =
        Scenario::with_provider("first_event_timeout_s = 60\nmax_retries = 3\nmax_timeout_retries = 2");
    for _ in 0..2 {
        scenario.push(Reply::silent());
    }
    let client = scenario.start();
    let session = client.session();
    let begun_ms = scenario.wall_ms();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(client.retry_delays(&session).len(), 2);
    let took_ms = scenario.wall_ms() - begun_ms;
    assert!((120_000..121_000).contains(&took_ms), "{took_ms}");
    // A third timeout in a row is one too many.
    for _ in 0..3 {
        scenario.push(Reply::silent());
    }
    let end = client.ask(&session, "again").end;
    assert_eq!(end.reason, TerminalReason::ModelError);
    assert_eq!(end.error.unwrap().attempts, Some(3));
}
