//! The pacer: calls wait where the provider's headers say that a limit is exhausted.

use std::time::Duration;

use super::mock_llm::Reply;
use super::scenario::Scenario;
use crate::domain::*;

/// An answer whose rate limit is exhausted until `reset`.
fn exhausted_rate_limit(reset: &str) -> Reply {
    Reply::text("ok")
        .header("anthropic-ratelimit-requests-limit", "100")
        .header("anthropic-ratelimit-requests-remaining", "0")
        .header("anthropic-ratelimit-requests-reset", reset)
}

#[test]
fn pacer_delays_calls_of_all_sessions() {
    let scenario = Scenario::new();
    scenario.push_all([exhausted_rate_limit("700ms"), exhausted_rate_limit("700ms")]);
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    client.ask(&session, "one");
    client.ask(&other, "two");
    client.ask(&session, "three");
    for (at, session) in [(1, &other), (2, &session)] {
        let waits: Vec<_> = client
            .events(session)
            .into_iter()
            .filter_map(|logged| match logged.event {
                Event::Wait { why, until } => Some((why, until.unwrap() - logged.at_ms)),
                _ => None,
            })
            .collect();
        let [(why, wait_ms)] = &waits[..] else {
            panic!("{waits:?}")
        };
        assert!((690..=700).contains(wait_ms), "{wait_ms}");
        assert!(why.contains("0 of 100 requests left"), "{why}");
        let gap = scenario.wait_for_request(at).at - scenario.wait_for_request(at - 1).at;
        let (least, most) = (Duration::from_millis(690), Duration::from_millis(702));
        assert!(gap >= least && gap <= most, "{gap:?}");
    }
}

#[test]
fn cancel_ends_a_pacer_wait_immediately() {
    let scenario = Scenario::new();
    scenario.push(exhausted_rate_limit("60s"));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "one");
    let turn = client.prompt(&session, "two");
    client.wait_until(&session, |event| matches!(event, Event::Wait { .. }));
    let before_ms = scenario.wall_ms();
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::AbortedStreaming);
    assert!(scenario.wall_ms() - before_ms < 1_000);
    assert_eq!(scenario.requests(), 1);
}
