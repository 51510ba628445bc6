//! Failures in the log and in the metrics, and the secrets that they must not leak. Retries and retractions are tested
//! in `session::tests::retry`; `faults` covers every fault over every kind of API.

use serde_json::{Value, json};

use crate::harness::{Config, World};
use crate::mock_llm::{Gate, Reply};

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
    world.wait_until(|| client.log().contains(" TRACE "));
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
