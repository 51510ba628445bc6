//! The clock of a test build: tests of limits and waits rely on it.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Config, World};
use crate::mock_llm::{Gate, Reply};
use crate::route::overloaded;

#[test]
fn advancing_the_clock_fires_timers_that_are_due_and_no_other() {
    let world = World::with(Config {
        agent: "max_wall_time_s = 3600".to_owned(),
        ..Config::default()
    });
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    world.wait_at_gate(&gate);
    client.advance(Duration::from_secs(1_800));
    client.settled();
    assert!(client.all(&session, "agent/turnEnded").is_empty());
    client.advance(Duration::from_secs(1_800));
    assert_eq!(json!(client.prompt_result(&id))["reason"], "wall_time");
}

#[test]
fn frozen_clock_holds_a_retry_until_its_delay_has_passed() {
    let world = World::new();
    world.mock().push(overloaded());
    let client = world.start_frozen();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let retry = client.next(&session, "agent/retry");
    let delay = Duration::from_millis(retry.params["delayMs"].as_u64().unwrap());
    client.advance(delay - Duration::from_millis(1));
    client.settled();
    assert_eq!(world.requests(), 1, "the delay has not passed");
    // The notification rounds the delay down.
    client.advance(Duration::from_millis(2));
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(world.requests(), 2);
}
