//! The route, the circuit breaker and the pacer: which provider takes over, when no call is made, when a call waits,
//! and that clients see all of it.

mod chain;
mod circuits;
mod pacing;
mod suitability;

use std::time::Duration;

use super::mock_llm;
use super::scenario::{self, Client, Scenario};
use crate::domain::*;

/// Asserts that each gap between two requests to one model matches the retry announced between them.
fn assert_waits_match(scenario: &Scenario, client: &Client, session: &SessionId) {
    let mut delays = client.retry_delays(session).into_iter();
    let models = scenario.requested_models();
    for at in 1..models.len() {
        if models[at] != models[at - 1] {
            continue;
        }
        let delay = delays.next().expect("a retry for each second request");
        let gap = scenario.wait_for_request(at).at - scenario.wait_for_request(at - 1).at;
        // The announcement rounds the delay down, and a timer rounds up to the next millisecond.
        let (least, most) = (Duration::from_millis(delay), Duration::from_millis(delay + 2));
        assert!(gap >= least && gap <= most, "{at}: {gap:?} for {delay} ms");
    }
    assert_eq!(delays.next(), None);
}
