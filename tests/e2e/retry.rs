//! Visible recovery: retries and retractions, and the secrets they must not leak (R-PROV-1 to -3). `faults` covers
//! every fault over every kind of API.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Config, World};
use crate::mock_llm::{Gate, Reply};

/// Time that a busy machine may add to a wait.
const SLACK: Duration = Duration::from_millis(1_500);

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
        let world = World::new();
        world.mock().push(cut);
        world.mock().push(Reply::text("the whole answer"));
        let client = world.start();
        let session = client.session();
        let result = client.ask(&session, "hello");
        assert_eq!(result.text, "the whole answer", "{name}");
        let deltas = client.all(&session, "agent/textDelta");
        let first = deltas.first().unwrap().text("messageId").to_owned();
        let last = deltas.last().unwrap().text("messageId").to_owned();
        assert_ne!(first, last, "{name}: the next attempt has a new id");
        let retracted = client.next(&session, "agent/messageRetracted");
        assert_eq!(retracted.text("messageId"), first, "{name}");
        let sent = [(); 2].map(|()| client.next(&session, "agent/message"));
        assert!(sent.iter().all(|message| message.text("role") == "user"));
        assert_eq!(sent[1].params["hidden"], true, "the note about the environment");
        let message = client.next(&session, "agent/message");
        assert_eq!(message.text("messageId"), last, "{name}");
        // The retracted text is in neither the stored history nor the next request.
        client.ask(&session, "and now?");
        let raw = world.wait_for_request(2).raw.clone();
        assert!(!String::from_utf8_lossy(&raw).contains("half of"), "{name}");
    }
}

#[test]
fn tool_calls_of_a_broken_attempt_are_retracted_and_never_run() {
    let world = World::new();
    world.mock().push(
        Reply::text("I write.")
            .call("write_file", json!({"path": "x", "content": "x"}))
            .close(),
    );
    world.mock().push(Reply::text("no, I don't"));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    assert_eq!(client.ask(&session, "hello").text, "no, I don't");
    let input_deltas = client.all(&session, "agent/toolInputDelta");
    let call = input_deltas.first().unwrap().text("toolCallId").to_owned();
    let retracted = client.next(&session, "agent/messageRetracted");
    assert_eq!(retracted.params["toolCallIds"], json!([call]));
    assert!(client.all(&session, "agent/toolCall").is_empty());
    assert_eq!(world.read("x"), None);
}

#[test]
fn retries_are_limited_and_each_wait_matches_its_announcement() {
    let world = World::new();
    world.mock().default_reply(Reply::error(503, "api_error", "down"));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "hello"));
    assert_eq!(result["reason"], "model_error");
    assert_eq!(result["error"]["attempts"], 4);
    assert_eq!(result["error"]["status"], 503);
    assert_eq!(world.requests(), 4);
    let retries = client.all(&session, "agent/retry");
    let attempts: Vec<_> = retries
        .iter()
        .map(|notification| notification.params["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [1, 2, 3]);
    for (at, (notification, floor)) in retries.iter().zip([20, 40, 50]).enumerate() {
        let delay = notification.params["delayMs"].as_u64().unwrap();
        assert!(
            (floor..=floor + floor / 4 + 1).contains(&delay),
            "wait {at}: {delay}"
        );
        let gap = world.wait_for_request(at + 1).at - world.wait_for_request(at).at;
        assert!(
            gap >= Duration::from_millis(delay) && gap < Duration::from_millis(delay) + SLACK,
            "wait {at}: {gap:?} for {delay} ms"
        );
    }
}

#[test]
fn waits_without_jitter_are_exact() {
    let world = World::with(Config {
        provider: "backoff_jitter = 0".to_owned(),
        ..Config::default()
    });
    for _ in 0..3 {
        world
            .mock()
            .push(Reply::error(503, "overloaded_error", "try later"));
    }
    world.mock().push(Reply::text("ok"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    let delays: Vec<_> = client
        .all(&session, "agent/retry")
        .iter()
        .map(|notification| notification.params["delayMs"].clone())
        .collect();
    assert_eq!(delays, [20, 40, 50]);
}

#[test]
fn secrets_in_provider_errors_are_not_leaked() {
    // The test client searches all messages, the log and the store for the secrets.
    let world = World::with(Config {
        tables: String::new(),
        ..Config::default()
    });
    let all = world.secrets().join(" and ");
    world.mock().push(Reply::error(
        401,
        "authentication_error",
        &format!("wrong key: {all}"),
    ));
    world
        .mock()
        .push(Reply::error(500, "api_error", &format!("trouble with {all}")));
    world
        .mock()
        .push(Reply::new().fail("api_error", &format!("trouble with {all}")));
    let client = world.start();
    let session = client.session();
    assert_eq!(json!(client.ask(&session, "hello").reason), "model_error");
    assert_eq!(client.ask(&session, "again").text, "ok");
    assert_eq!(client.all(&session, "agent/retry").len(), 2);
}

#[test]
fn trace_log_contains_no_secrets() {
    let world = World::new();
    let client = world.start_with(crate::harness::Options {
        // Directives: a mere level would leave the filter of the configuration.
        args: vec!["--log".to_owned(), "trace,agentls=trace".to_owned()],
        ..Default::default()
    });
    for model in [
        "mock/mock-model",
        "other/other-model",
        "responses/responses-model",
    ] {
        let session = client.session_with(json!({"model": model}));
        assert_eq!(client.ask(&session, "hello").text, "ok");
    }
    assert!(client.log().contains(" TRACE "));
}

#[test]
fn metrics_of_the_server_and_its_only_session_agree() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::error(503, "api_error", "down"));
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "none"})));
    assert_eq!(client.ask(&session, "one").text, "ok");
    world
        .mock()
        .push(Reply::error(401, "authentication_error", "who are you?"));
    assert!(client.ask(&session, "two").error.is_some());
    let gate = Gate::new();
    world.mock().push(Reply::text("half").gate(&gate));
    let id = client.prompt(&session, "three");
    // Wait for the answer to begin: a call that is canceled earlier leaves no event, so a restart would not count it.
    client.next_matching(&session, "agent/textDelta", |notification| {
        notification.text("text") == "half"
    });
    client.cancel(&session);
    client.prompt_result(&id);
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    for (name, total) in metrics["totals"].as_object().unwrap() {
        assert_eq!(metrics["session"][name], *total, "{name}: {metrics}");
    }
    let totals = &metrics["totals"];
    let counted = ["requests", "retries", "errors", "cancels", "toolCalls"].map(|name| totals[name].as_u64());
    assert_eq!(counted, [5, 1, 3, 1, 1].map(Some), "{metrics}");
    let errors = json!({"provider_error": 2, "tool_execution": 1});
    assert_eq!(metrics["session"]["errorsByCode"], errors);
    // Start time and counts survive a restart, whether or not the session is loaded.
    let before = metrics["session"].clone();
    let began = before["startedAt"].clone();
    drop(client);
    let client = world.start();
    for loads in [false, true] {
        if loads {
            client.load(&session);
        }
        let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
        assert_eq!(metrics["session"], before, "loaded: {loads}");
    }
    let listed: Value = client.call("agent/listSessions", json!({}));
    assert_eq!(listed["sessions"][0]["createdAt"], began);
}

#[test]
fn failures_are_logged_at_level_warn() {
    let world = World::new();
    let client = world.start_with(crate::harness::Options {
        // Directives: a mere level would leave the filter of the configuration.
        args: vec!["--log".to_owned(), "warn,agentls=warn".to_owned()],
        ..Default::default()
    });
    let session = client.session();
    world
        .mock()
        .push(Reply::error(429, "rate_limit_error", "slow down"));
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "none"})));
    world
        .mock()
        .push(Reply::error(401, "authentication_error", "who are you?"));
    assert!(client.ask(&session, "one").error.is_some());
    world.wait_until(|| client.log().contains("turn failed"));
    let log = client.log();
    for (line, details) in [
        ("provider call failed", "slow down"),
        ("tool call failed", "read_file"),
        ("turn failed", "who are you?"),
    ] {
        let lines: Vec<&str> = log.lines().filter(|text| text.contains(line)).collect();
        assert_eq!(lines.len(), 1, "{line}: {log}");
        assert!(lines[0].contains("WARN") && lines[0].contains(details), "{log}");
    }
    assert!(!log.contains("INFO") && !log.contains("DEBUG"), "{log}");
}

#[test]
fn max_timeout_retries_limits_retries_after_timeouts() {
    let world = World::with(crate::harness::Config {
        provider: "first_event_timeout_s = 0.2\nmax_retries = 3\nmax_timeout_retries = 2".to_owned(),
        ..Default::default()
    });
    for _ in 0..2 {
        world.mock().push(Reply::silent());
    }
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(client.all(&session, "agent/retry").len(), 2);
}
