//! The circuit breakers of providers: when one opens, what follows then, and how its trial goes.

use super::assert_waits_match;
use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Scenario, unavailable};
use crate::domain::*;
use crate::provider::{CircuitView, Health};
use crate::session::ListedProvider;
use crate::turn::ModelChoice;

/// Returns how a provider is listed.
fn find_provider(client: &Client, name: &str) -> ListedProvider {
    let folder = client.configured.folder_config(&client.scenario.workspace());
    let listed = client.wait_for(folder.models.list_models(&ModelChoice::default(), false));
    let mut providers = listed.providers.into_iter();
    providers.find(|provider| provider.name == name).unwrap()
}

/// Asserts that the lists show the circuit of the first provider as open until then.
fn assert_only_the_first_is_open(client: &Client, until: i64) {
    let circuit = CircuitView {
        state: CircuitState::Open,
        until: Some(until),
    };
    let failing = find_provider(client, "anthropic");
    assert_eq!(
        (&failing.circuit, failing.health),
        (&circuit, Some(Health::Failing))
    );
    let healthy = find_provider(client, "openrouter");
    assert_eq!(
        (healthy.circuit.state, healthy.health),
        (CircuitState::Closed, Some(Health::Ok))
    );
    let circuits = client.configured.accounts().circuit_views();
    assert_eq!(circuits.get("anthropic"), Some(&circuit), "{circuits:?}");
}

#[test]
fn open_circuit_falls_back_without_a_call_until_its_trial() {
    let scenario = Scenario::chain(["max_retries = 4\ncircuit_cooldown_s = 3", "", ""]);
    scenario.push_for_model("model-one", (0..5).map(|_| unavailable()));
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    assert_eq!(client.ask(&session, "one").text, "ok");
    let until = client.next_open_circuit(&session);
    // Circuits are per account: another session sees it open, too, and makes no call.
    assert_eq!(client.ask(&other, "two").text, "ok");
    let models = scenario.requested_models();
    assert_eq!(models[..5], ["model-one"; 5]);
    assert_eq!(models[5..], ["model-two"; 2]);
    assert_only_the_first_is_open(&client, until);
    // The cooldown is over: one call is the trial.
    scenario.advance_to(until + 1);
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(scenario.requested_models()[7..], ["model-one"]);
    assert_eq!(client.ask(&other, "four").text, "ok");
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 4; 3 more attempts, then openrouter/model-two takes over
      retry 2 of 4; 2 more attempts, then openrouter/model-two takes over
      retry 3 of 4; one more attempt, then openrouter/model-two takes over
      retry 4 of 4; openrouter/model-two takes over
      circuit of anthropic open
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 5 times: down
    completed
    completed / no error
      openrouter/model-two -> anthropic/model-one: new turn: back to anthropic
      circuit of anthropic half_open
      circuit of anthropic closed
    completed
    completed / no error
    ");
    insta::assert_snapshot!(client.event_summary(&other), @r"
      circuit of anthropic open
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed too often in a row and is paused
    completed
    completed / no error
      openrouter/model-two -> anthropic/model-one: new turn: back to anthropic
      circuit of anthropic closed
    completed
    completed / no error
    ");
    let circuits = client.configured.accounts().circuit_views();
    let is_closed = |circuit: &CircuitView| circuit.state == CircuitState::Closed;
    assert!(circuits.values().all(is_closed), "{circuits:?}");
}

#[test]
fn prompt_is_the_trial_without_a_fallback_but_retries_are_not() {
    let scenario = Scenario::with_provider("max_retries = 9");
    scenario.push_all((0..6).map(|_| unavailable()));
    let client = scenario.start();
    let session = client.session();
    let end = client.ask(&session, "one").end;
    assert_eq!(scenario.requests(), 5);
    assert_eq!(end.reason, TerminalReason::ModelError);
    let error = end.error.unwrap();
    assert_eq!(
        (error.code, error.attempts),
        (ErrorCode::CircuitOpen, Some(5)),
        "{error:?}"
    );
    assert_eq!(error.class, ErrorClass::Terminal);
    let until = client.next_open_circuit(&session);
    assert_eq!(error.reset_at, Some(until), "{error:?}");
    assert!(error.retry_after_ms.unwrap() > 20_000, "{error:?}");
    // A failed trial makes exactly one call.
    let error = client.ask(&session, "two").end.error.unwrap();
    assert_eq!((error.code, scenario.requests()), (ErrorCode::CircuitOpen, 6));
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(scenario.requests(), 7);
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 9; 3 more attempts
      retry 2 of 9; 2 more attempts
      retry 3 of 9; one more attempt
      retry 4 of 9; the turn will fail: the circuit breaker will be open
      circuit of mock open
    model_error
    failed / circuit_open
      circuit of mock half_open
      circuit of mock open
    model_error
    failed / circuit_open
      circuit of mock half_open
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn persistent_profile_waits_visibly_for_the_trial() {
    let scenario = Scenario::with_provider("retry = \"persistent\"\ncircuit_cooldown_s = 0.4");
    scenario.push_all((0..5).map(|_| unavailable()));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    let resumes = client.all(&session, |event| match event {
        Event::Retry { resume_at, .. } => Some(*resume_at),
        _ => None,
    });
    // The retry waits for the end of the circuit's cooldown, whenever the wait began.
    let late = resumes[4] - client.next_open_circuit(&session);
    assert!((0..250).contains(&late), "{late}");
    assert_waits_match(&scenario, &client, &session);
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 10; 9 more attempts
      retry 2 of 10; 8 more attempts
      retry 3 of 10; 7 more attempts
      retry 4 of 10; 6 more attempts
      circuit of mock open
      retry 5 of 10; 5 more attempts
      circuit of mock half_open
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn provider_circuit_can_be_reset() {
    let scenario = Scenario::chain(["max_retries = 4", "", ""]);
    scenario.push_for_model("model-one", (0..5).map(|_| unavailable()));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "one");
    let reset = |name: &str| client.configured.accounts().reset_circuits(name);
    assert_eq!(reset("anthropic"), Some(true));
    assert_eq!(reset("anthropic"), Some(false));
    client.ask(&session, "two");
    assert_eq!(scenario.requested_models()[6..], ["model-one"]);
    insta::assert_snapshot!(client.event_summary(&session), @r"
      retry 1 of 4; 3 more attempts, then openrouter/model-two takes over
      retry 2 of 4; 2 more attempts, then openrouter/model-two takes over
      retry 3 of 4; one more attempt, then openrouter/model-two takes over
      retry 4 of 4; openrouter/model-two takes over
      circuit of anthropic open
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 5 times: down
    completed
    completed / no error
      openrouter/model-two -> anthropic/model-one: new turn: back to anthropic
      circuit of anthropic closed
    completed
    completed / no error
    ");
    assert_eq!(reset("nobody"), None);
}

#[test]
fn cancelled_trial_allows_another_trial() {
    let scenario = Scenario::with_provider("max_retries = 9");
    scenario.push_all((0..5).map(|_| unavailable()));
    let gate = Gate::new();
    scenario.push(Reply::text("hm").gate_first(&gate));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "one");
    let turn = client.prompt(&session, "two");
    scenario.wait_at_gate(&gate);
    client.cancel(&session);
    client.outcome(turn);
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(scenario.requests(), 7);
}
