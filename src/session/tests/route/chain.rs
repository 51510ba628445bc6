//! Fallback from provider to provider: what triggers it, what the next one receives, and the return to the first.

use serde_json::json;

use super::assert_waits_match;
use super::mock_llm::{Gate, Reply};
use super::scenario::{Scenario, overloaded, unavailable};
use crate::domain::*;

#[test]
fn fallback_chain_of_three_presets() {
    let scenario = Scenario::chain(["", "", ""]);
    scenario.always_answer(&[("model-one", unavailable), ("model-two", unavailable)]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 1; openrouter/model-two takes over
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 2 times: down
      retry 1 of 1; eachlabs/model-three takes over
    model_fallback
      openrouter/model-two -> eachlabs/model-three: openrouter failed 2 times: down
    completed
    completed / no error
    ");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-two", "model-two", "model-three"]
    );
    let requests: Vec<_> = (0..5).map(|at| scenario.wait_for_request(at)).collect();
    assert_eq!(requests[0].path, "/v1/messages");
    for request in &requests[2..] {
        assert_eq!(request.path, "/v1/chat/completions");
    }
    assert_eq!(requests[0].header("x-api-key"), Some("key-of-one"));
    assert_eq!(requests[2].header("authorization"), Some("Bearer key-of-two"));
    assert_eq!(requests[4].header("authorization"), Some("Bearer key-of-three"));
    assert_waits_match(&scenario, &client, &session);
}

#[test]
fn next_turn_returns_to_the_first_provider() {
    let scenario = Scenario::chain(["", "", ""]);
    scenario.push_for_model("model-one", [unavailable(), unavailable()]);
    let client = scenario.start();
    let session = client.session();
    for prompt in ["one", "two", "three"] {
        assert_eq!(client.ask(&session, prompt).text, "ok");
    }
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-two", "model-one", "model-one"]
    );
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 1; openrouter/model-two takes over
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 2 times: down
    completed
    completed / no error
      openrouter/model-two -> anthropic/model-one: new turn: back to anthropic
    completed
    completed / no error
    completed
    completed / no error
    ");
    // A loaded session also returns to the first provider.
    scenario.push_for_model("model-one", [unavailable(), unavailable()]);
    client.ask(&session, "four");
    drop(client);
    let client = scenario.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "five").text, "ok");
    let (_, to, _) = client.model_switches(&session).swap_remove(0);
    assert_eq!(to, "anthropic/model-one");
}

#[test]
fn three_overloads_in_a_row_switch_to_the_fallback_model() {
    let scenario = Scenario::chain(["max_retries = 9\nfallback_model = \"model-small\"", "", ""]);
    scenario.always_answer(&[("model-one", overloaded)]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-one", "model-small"]
    );
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 9; one more attempt, then model-small takes over
      retry 2 of 9; model-small takes over
    model_fallback
      anthropic/model-one -> anthropic/model-small: Switched to model-small due to high demand
    completed
    completed / no error
    ");
    assert_waits_match(&scenario, &client, &session);
}

#[test]
fn success_resets_the_overload_count() {
    let scenario = Scenario::chain(["max_retries = 9\nfallback_model = \"model-small\"", "", ""]);
    let replies = [
        overloaded(),
        overloaded(),
        Reply::text("well"),
        overloaded(),
        unavailable(),
        overloaded(),
    ];
    scenario.push_for_model("model-one", replies);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "well");
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(scenario.requested_models(), ["model-one"; 7]);
    assert_eq!(client.model_switches(&session), []);
}

#[test]
fn exhausted_quota_falls_back_immediately() {
    let quota = || Reply::error(429, "insufficient_quota", "You exceeded your current quota");
    let credit = || Reply::error(402, "billing", "Insufficient credits");
    let forbidden = || Reply::error(403, "permission_error", "Your credit balance is too low");
    for (name, reply) in [("429", quota()), ("402", credit()), ("403", forbidden())] {
        let scenario = Scenario::chain(["", "", ""]);
        scenario.push_for_model("model-one", [reply]);
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "ok", "{name}");
        assert_eq!(scenario.requested_models(), ["model-one", "model-two"], "{name}");
        assert_eq!(
            client.reasons(&session),
            ["model_fallback", "completed"],
            "{name}"
        );
        assert_eq!(client.retry_delays(&session), [0; 0]);
    }
    let scenario = Scenario::new();
    scenario.push(quota());
    let client = scenario.start();
    let end = client.ask(&client.session(), "hello").end;
    assert_eq!(end.error.unwrap().code, ErrorCode::QuotaExhausted);
}

#[test]
fn overlong_wait_falls_back_even_with_the_patient_profile() {
    for profile in ["interactive", "patient"] {
        let scenario = Scenario::chain([&format!("retry = \"{profile}\""), "", ""]);
        let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "3600");
        scenario.push_for_model("model-one", [busy]);
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "ok");
        assert_eq!(
            scenario.requested_models(),
            ["model-one", "model-two"],
            "{profile}"
        );
        let (_, _, why) = client.model_switches(&session).swap_remove(0);
        assert_eq!(why, "anthropic asks to wait for 3600 s: slow down");
    }
}

#[test]
fn permanent_errors_do_not_fall_back() {
    for status in [400, 401, 404] {
        let scenario = Scenario::chain(["", "", ""]);
        scenario.push_for_model("model-one", [Reply::error(status, "error", "no")]);
        let client = scenario.start();
        let end = client.ask(&client.session(), "hello").end;
        assert_eq!(end.reason, TerminalReason::ModelError, "{status}");
        assert_eq!(scenario.requested_models(), ["model-one"], "{status}");
    }
}

#[test]
fn exhausted_route_reports_the_last_error() {
    let scenario = Scenario::chain(["", "", ""]);
    scenario.always_answer(&[
        ("model-one", unavailable),
        ("model-two", unavailable),
        ("model-three", unavailable),
    ]);
    let client = scenario.start();
    let session = client.session();
    let error = client.ask(&session, "hello").end.error.unwrap();
    assert_eq!(error.provider.as_deref(), Some("eachlabs"), "{error:?}");
    assert_eq!(scenario.requests(), 6);
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 1; openrouter/model-two takes over
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 2 times: down
      retry 1 of 1; eachlabs/model-three takes over
    model_fallback
      openrouter/model-two -> eachlabs/model-three: openrouter failed 2 times: down
      retry 1 of 1; the turn will fail with this error
    model_error
    failed / provider_error
    ");
}

#[test]
fn fallback_retracts_a_cut_answer_and_keeps_tool_results() {
    let scenario = Scenario::chain(["max_retries = 0", "", ""]);
    scenario.write("a.txt", "what the file says");
    let read = Reply::new()
        .reasoning("a thought of one")
        .call("read_file", json!({"path": "a.txt"}));
    scenario.push_for_model("model-one", [read, Reply::text("half of the an").close()]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-two"]
    );
    insta::assert_snapshot!(client.event_summary(&session), @r"
    next_turn
      retracted
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed: the connection ended in the middle of the answer
    completed
    completed / no error
    ");
    // The next provider gets the tool result, but neither foreign reasoning nor retracted text.
    let raw = scenario.raw_request(2);
    assert!(
        raw.contains("what the file says") && raw.contains("tool_call_id"),
        "{raw}"
    );
    assert!(
        !raw.contains("a thought of one") && !raw.contains("half of"),
        "{raw}"
    );
    // The first provider gets the tool result again, and no retracted text.
    client.ask(&session, "and now?");
    let raw = scenario.raw_request(3);
    assert_eq!(scenario.requested_models()[3], "model-one");
    assert!(
        raw.contains("what the file says") && !raw.contains("half of"),
        "{raw}"
    );
}

#[test]
fn turn_after_a_cancelled_fallback_starts_with_the_first_provider() {
    let scenario = Scenario::chain(["max_retries = 0", "", ""]);
    scenario.push_for_model("model-one", [unavailable()]);
    scenario.push_for_model("model-two", [Reply::text("hm").gate(&Gate::new())]);
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "one");
    client.wait_until(&session, |event| matches!(event, Event::ModelSwitched { .. }));
    client.next_text(&session);
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::AbortedStreaming);
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-two", "model-one"]
    );
}
