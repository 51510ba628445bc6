//! A client that does not read: nothing is lost, memory is bounded, and backpressure reaches the provider (R-WIRE-3).

use std::sync::Arc;

use serde_json::json;

use crate::harness::{World, now, resident};
use crate::mock_llm::{RecordedRequest, Reply};

const MIB: u64 = 1 << 20;

/// Waits until the mock's socket accepts no more data, and returns the number of accepted bytes. Nothing shows that. A
/// pause that a busy machine makes can only hide an error, since more is accepted later.
fn wait_until_stalled(request: &Arc<RecordedRequest>) -> u64 {
    crate::harness::wait_until_stable("the provider's socket", || request.accepted())
}

#[test]
fn stopped_reader_applies_backpressure_and_loses_nothing() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::flood(100 << 20, 1_000));
    let id = client.prompt(&session, "flood me");
    client.next(&session, "agent/textDelta");
    client.stop_reading();
    let request = world.wait_for_request(0);
    let accepted = wait_until_stalled(&request);
    assert!(
        accepted < 64 * MIB,
        "{} MiB were taken from the provider",
        accepted / MIB
    );
    let (now, highest) = resident(client.pid());
    assert!(
        highest < 64 * MIB,
        "{} MiB resident, {} at most",
        now / MIB,
        highest / MIB
    );
    client.resume_reading();
    let result = client.prompt_result(&id);
    assert_eq!(
        (json!(result.reason), json!(result.state)),
        (json!("max_output_tokens"), json!("degraded"))
    );
    // R-WIRE-3: an answer ends at 8 MiB, so the rest of the 100 MiB is never read.
    assert_eq!(result.text.len() as u64, 8 * MIB, "the first 8 MiB arrive whole");
    assert!(client.streamed_text(&session) == result.text);
    assert!(world.closed(&request).dropped);
    let (_, highest) = resident(client.pid());
    eprintln!(
        "flood: {} MiB resident at most, {} MiB taken while not reading",
        highest / MIB,
        accepted / MIB
    );
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn cancel_takes_effect_while_the_client_does_not_read() {
    let world = World::new();
    let client = world.start();
    let (session, other) = (client.session(), client.session());
    world.mock().push(Reply::flood(100 << 20, 1_000));
    let id = client.prompt(&session, "flood me");
    client.next(&session, "agent/textDelta");
    client.stop_reading();
    let request = world.wait_for_request(0);
    wait_until_stalled(&request);
    client.cancel(&session);
    // The cancel takes effect although the client does not read: the provider's connection closes.
    assert!(world.closed(&request).dropped);
    client.resume_reading();
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    assert_eq!(client.ask(&other, "hello").text, "ok");
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn server_exits_although_the_client_does_not_read() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::flood(100 << 20, 1_000));
    let id = client.prompt(&session, "flood me");
    client.next(&session, "agent/textDelta");
    client.stop_reading();
    wait_until_stalled(&world.wait_for_request(0));
    client.close_input();
    client.wait_until_gone();
    client.abandon(id);
    client.kill();
    let client = world.start();
    let loaded = client.load(&session);
    assert_eq!(loaded.events.last().unwrap().params["reason"], "server_stopped");
}

#[test]
fn flood_of_deltas_is_merged_into_few_notifications() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let pieces: Vec<String> = (0..20_000).map(|n| format!("{n} ")).collect();
    let full_text = pieces.concat();
    world.mock().push(Reply::deltas(pieces));
    // Before the first one is sent: this client may be late to read it.
    let start = now();
    let result = client.ask(&session, "count");
    assert!(result.text == full_text);
    let deltas = client.all(&session, "agent/textDelta");
    let took = deltas.last().unwrap().at - start;
    // At most two per 16 ms interval, and a few more at both ends.
    let most = 2 * (took.as_millis() as usize / 16 + 1) + 4;
    assert!(deltas.len() <= most, "{} deltas in {took:?}", deltas.len());
    eprintln!(
        "flood: {} pieces became {} notifications in {took:?}",
        20_000,
        deltas.len()
    );
}

#[test]
fn flood_in_one_session_does_not_block_others() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::flood(100 << 20, 50));
    let id = client.prompt(&session, "flood me");
    client.next(&session, "agent/textDelta");
    let other = client.session();
    for n in 0..5 {
        assert_eq!(client.ask(&other, format!("question {n}")).text, "ok");
    }
    client.cancel(&session);
    let result = client.prompt_result(&id);
    assert!(["cancelled", "degraded"].contains(&json!(result.state).as_str().unwrap()));
}
