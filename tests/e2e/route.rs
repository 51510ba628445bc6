//! The route, the circuit breaker and the pacer (R-PROV-4 to -6): which provider takes over, when no call is made,
//! when a call waits, and that clients see all of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World, now};
use crate::mock_llm::{Gate, Reply};
use crate::reading::DOT;

/// Time that a busy machine may add to a wait.
const SLACK: Duration = Duration::from_millis(1_500);

/// Creates a world with three preset providers, each falling back to the next. Each gets extra `lines`.
pub fn chain(lines: [&str; 3]) -> World {
    let world = World::new();
    configure(&world, lines);
    world
}

fn configure(world: &World, [first, second, third]: [&str; 3]) {
    let mock = world.mock();
    let backoff = "initial_backoff_ms = 20\nmax_backoff_ms = 50\nmax_retries = 1";
    let usual = |lines: &str| {
        if lines.contains("max_retries") {
            backoff.replace("\nmax_retries = 1", "")
        } else {
            backoff.to_owned()
        }
    };
    let text = format!(
        r#"
[provider.anthropic]
base_url = "{anthropic}"
api_key = "key-of-one"
model = "model-one"
fallback = "openrouter"
{first_wait_count}
{first}

[provider.openrouter]
base_url = "{openai}"
api_key = "key-of-two"
model = "model-two"
fallback = ["eachlabs"]
{second_waits}
{second}

[provider.eachlabs]
base_url = "{openai}"
api_key = "key-of-three"
model = "model-three"
{third_waits}
{third}

[agent.default]
provider = "anthropic"

[logging]
filter = "debug"
"#,
        anthropic = mock.anthropic_url(),
        openai = mock.openai_url(),
        first_wait_count = usual(first),
        second_waits = usual(second),
        third_waits = usual(third),
    );
    world.configure(Config {
        full_text: Some(text),
        ..Config::default()
    });
}

/// Returns the models of all requests, in order.
pub fn requested_models(world: &World) -> Vec<String> {
    let mut models = Vec::new();
    for index in 0..world.requests() {
        models.push(
            world.wait_for_request(index).body["model"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    models
}

/// A model and its answer.
type Answers = (&'static str, fn() -> Reply);

/// Makes these models always answer in the same way.
fn always_answer(world: &World, answers: &'static [Answers]) {
    world.mock().respond_with(move |request| {
        let model = request.body["model"].as_str().unwrap_or_default();
        let found = answers.iter().find(|(name, _)| *name == model);
        found.map(|(_, reply)| reply())
    });
}

pub fn unavailable() -> Reply {
    Reply::error(503, "api_error", "down")
}

pub fn overloaded() -> Reply {
    Reply::error(529, "overloaded_error", "Overloaded")
}

/// Returns a session's transitions, retries, switches, circuits, waits, warnings, retractions and turn ends, one
/// line each.
pub fn event_summary(client: &Client, session: &str) -> String {
    let mut lines = Vec::new();
    for notification in client.notes() {
        if notification.text("sessionId") != session {
            continue;
        }
        let text = |field| notification.text(field);
        lines.push(match notification.method.as_str() {
            "agent/transition" => text("reason").to_owned(),
            "agent/retry" => format!(
                "  retry {} of {}; {}",
                notification.params["attempt"],
                notification.params["maxRetries"],
                text("next")
            ),
            "agent/modelSwitched" => format!("  {} -> {}: {}", text("from"), text("to"), text("why")),
            "agent/circuit" => format!("  circuit of {} {}", text("name"), text("state")),
            "agent/wait" => "  wait".to_owned(),
            "agent/warning" => format!("  warning {}", text("message")),
            "agent/messageRetracted" => "  retracted".to_owned(),
            "agent/turnEnded" => {
                let code = notification.params["error"]["code"]
                    .as_str()
                    .unwrap_or("no error");
                format!("{} / {code}", text("state"))
            }
            _ => continue,
        });
    }
    lines.join("\n")
}

/// Asserts that each gap between two requests to one model matches the retry announced between them.
fn assert_waits_match(world: &World, client: &Client, session: &str) {
    let retries = client.all(session, "agent/retry");
    let mut retries = retries.iter();
    let models = requested_models(world);
    for at in 1..models.len() {
        if models[at] != models[at - 1] {
            continue;
        }
        let retry = &retries.next().expect("a retry for each second request").params;
        let delay = Duration::from_millis(retry["delayMs"].as_u64().unwrap());
        let gap = world.wait_for_request(at).at - world.wait_for_request(at - 1).at;
        assert!(gap >= delay && gap < delay + SLACK, "{at}: {gap:?} for {retry}");
    }
    assert!(retries.next().is_none());
}

#[test]
fn fallback_chain_of_three_presets() {
    let world = chain(["", "", ""]);
    always_answer(&world, &[("model-one", unavailable), ("model-two", unavailable)]);
    let client = world.start();
    let session = client.session();
    let result = client.ask(&session, "hello");
    assert_eq!(result.text, "ok");
    insta::assert_snapshot!(event_summary(&client, &session), @r"
      retry 1 of 1; openrouter/model-two takes over
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed 2 times: down
      retry 1 of 1; eachlabs/model-three takes over
    model_fallback
      openrouter/model-two -> eachlabs/model-three: openrouter failed 2 times: down
    completed
    completed / no error
    ");
    let models = requested_models(&world);
    assert_eq!(
        models,
        ["model-one", "model-one", "model-two", "model-two", "model-three"]
    );
    let paths: Vec<String> = (0..5).map(|at| world.wait_for_request(at).path.clone()).collect();
    assert_eq!(paths[0], "/v1/messages");
    assert!(
        paths[2..].iter().all(|path| path == "/v1/chat/completions"),
        "{paths:?}"
    );
    assert_eq!(world.wait_for_request(0).header("x-api-key"), Some("key-of-one"));
    assert_eq!(
        world.wait_for_request(2).header("authorization"),
        Some("Bearer key-of-two")
    );
    assert_eq!(
        world.wait_for_request(4).header("authorization"),
        Some("Bearer key-of-three")
    );
    assert_waits_match(&world, &client, &session);
}

#[test]
fn next_turn_returns_to_the_first_provider() {
    let world = chain(["", "", ""]);
    world.mock().push_for("model-one", unavailable());
    world.mock().push_for("model-one", unavailable());
    let client = world.start();
    let session = client.session();
    for prompt in ["one", "two", "three"] {
        assert_eq!(client.ask(&session, prompt).text, "ok");
    }
    assert_eq!(
        requested_models(&world),
        ["model-one", "model-one", "model-two", "model-one", "model-one"]
    );
    insta::assert_snapshot!(event_summary(&client, &session), @r"
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
    world.mock().push_for("model-one", unavailable());
    world.mock().push_for("model-one", unavailable());
    client.ask(&session, "four");
    drop(client);
    let client = world.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "five").text, "ok");
    let back = client.next(&session, "agent/modelSwitched");
    assert_eq!(back.text("to"), "anthropic/model-one");
}

#[test]
fn three_overloads_in_a_row_switch_to_the_fallback_model() {
    let world = chain(["max_retries = 9\nfallback_model = \"model-small\"", "", ""]);
    always_answer(&world, &[("model-one", overloaded)]);
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        requested_models(&world),
        ["model-one", "model-one", "model-one", "model-small"]
    );
    insta::assert_snapshot!(event_summary(&client, &session), @r"
      retry 1 of 9; one more attempt, then model-small takes over
      retry 2 of 9; model-small takes over
    model_fallback
      anthropic/model-one -> anthropic/model-small: Switched to model-small due to high demand
    completed
    completed / no error
    ");
    let switched = client.next(&session, "agent/modelSwitched");
    assert_eq!(switched.text("why"), "Switched to model-small due to high demand");
    assert_waits_match(&world, &client, &session);
}

#[test]
fn success_resets_the_overload_count() {
    let world = chain(["max_retries = 9\nfallback_model = \"model-small\"", "", ""]);
    for reply in [
        overloaded(),
        overloaded(),
        Reply::text("well"),
        overloaded(),
        unavailable(),
        overloaded(),
    ] {
        world.mock().push_for("model-one", reply);
    }
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "well");
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(requested_models(&world), ["model-one"; 7]);
    assert!(client.all(&session, "agent/modelSwitched").is_empty());
}

#[test]
fn open_circuit_falls_back_without_a_call_until_its_trial() {
    let world = chain(["max_retries = 4\ncircuit_cooldown_s = 3", "", ""]);
    for _ in 0..5 {
        world.mock().push_for("model-one", unavailable());
    }
    let client = world.start();
    let (session, other) = (client.session(), client.session());
    assert_eq!(client.ask(&session, "one").text, "ok");
    let open = client.next(&session, "agent/circuit");
    let until = open.params["until"].as_i64().unwrap();
    // Circuits are per account: another session sees it open, too, and makes no call.
    assert_eq!(client.ask(&other, "two").text, "ok");
    let models: Vec<String> = requested_models(&world);
    assert_eq!(models[..5], ["model-one"; 5]);
    assert_eq!(models[5..], ["model-two"; 2]);
    let circuit = json!({"subject": "provider", "name": "anthropic", "state": "open", "until": until});
    let listed: Value = client.call("agent/listModels", json!({}));
    let of = |name: &str| {
        let providers = listed["providers"].as_array().unwrap();
        providers
            .iter()
            .find(|provider| provider["provider"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(of("anthropic")["circuit"], circuit, "{listed}");
    assert_eq!(of("anthropic")["health"], "failing");
    assert_eq!(
        (
            of("openrouter")["circuit"].clone(),
            of("openrouter")["health"].clone()
        ),
        (Value::Null, json!("ok"))
    );
    let metrics: Value = client.call("agent/metrics", json!({}));
    assert_eq!(metrics["circuits"][0], circuit, "{metrics}");
    let status = |is: &dyn Fn(&Value) -> bool| {
        client
            .notes()
            .iter()
            .any(|notification| notification.method == "agent/status" && is(&notification.params))
    };
    world.wait_until(|| status(&|params| params["circuits"][0] == circuit));
    // The cooldown is over: one call is the trial.
    client.advance_to(until + 1);
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(requested_models(&world)[7..], ["model-one"]);
    assert_eq!(client.ask(&other, "four").text, "ok");
    insta::assert_snapshot!(event_summary(&client, &session), @r"
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
      circuit of anthropic halfOpen
      circuit of anthropic closed
    completed
    completed / no error
    ");
    insta::assert_snapshot!(event_summary(&client, &other), @r"
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
    let last = || {
        client
            .notes()
            .iter()
            .rev()
            .find(|notification| notification.method == "agent/status")
            .cloned()
    };
    world.wait_until(|| last().is_some_and(|notification| notification.params.get("circuits").is_none()));
}

#[test]
fn prompt_is_the_trial_without_a_fallback_but_retries_are_not() {
    let world = World::with(Config {
        provider: "max_retries = 9".to_owned(),
        ..Config::default()
    });
    for _ in 0..6 {
        world.mock().push(unavailable());
    }
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "one"));
    assert_eq!(world.requests(), 5);
    assert_eq!(result["reason"], "model_error");
    let error = &result["error"];
    assert_eq!(
        (&error["code"], &error["attempts"]),
        (&json!("circuit_open"), &json!(5)),
        "{error}"
    );
    assert_eq!(error["class"], "terminal");
    let until = client.next(&session, "agent/circuit").params["until"].clone();
    assert_eq!(error["resetAt"], until, "{error}");
    assert!(error["retryAfterMs"].as_u64().unwrap() > 20_000, "{error}");
    // A failed trial makes exactly one call.
    let result = json!(client.ask(&session, "two"));
    assert_eq!(
        (&result["error"]["code"], world.requests()),
        (&json!("circuit_open"), 6)
    );
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(world.requests(), 7);
    insta::assert_snapshot!(event_summary(&client, &session), @r"
      retry 1 of 9; 3 more attempts
      retry 2 of 9; 2 more attempts
      retry 3 of 9; one more attempt
      retry 4 of 9; the turn will fail: the circuit breaker will be open
      circuit of mock open
    model_error
    failed / circuit_open
      circuit of mock halfOpen
      circuit of mock open
    model_error
    failed / circuit_open
      circuit of mock halfOpen
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn persistent_profile_waits_visibly_for_the_trial() {
    let world = World::with(Config {
        provider: "retry = \"persistent\"\ncircuit_cooldown_s = 0.4".to_owned(),
        ..Config::default()
    });
    for _ in 0..5 {
        world.mock().push(unavailable());
    }
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    let retries = client.all(&session, "agent/retry");
    // The retry waits for the end of the circuit's cooldown, whenever the wait began.
    let opened = &client.all(&session, "agent/circuit")[0].params["until"];
    let late = retries[4].params["resumeAt"].as_i64().unwrap() - opened.as_i64().unwrap();
    assert!((0..250).contains(&late), "{late}");
    assert_waits_match(&world, &client, &session);
    insta::assert_snapshot!(event_summary(&client, &session), @r"
      retry 1 of 10; 9 more attempts
      retry 2 of 10; 8 more attempts
      retry 3 of 10; 7 more attempts
      retry 4 of 10; 6 more attempts
      circuit of mock open
      retry 5 of 10; 5 more attempts
      circuit of mock halfOpen
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn provider_circuit_can_be_reset() {
    let world = chain(["max_retries = 4", "", ""]);
    for _ in 0..5 {
        world.mock().push_for("model-one", unavailable());
    }
    let client = world.start();
    let session = client.session();
    client.ask(&session, "one");
    let reset = |name: &str| json!({"subject": "provider", "name": name});
    let done: Value = client.call("agent/resetCircuit", reset("anthropic"));
    assert_eq!(done, json!({"wasOpen": true}));
    let done: Value = client.call("agent/resetCircuit", reset("anthropic"));
    assert_eq!(done, json!({"wasOpen": false}));
    client.ask(&session, "two");
    assert_eq!(requested_models(&world)[6..], ["model-one"]);
    insta::assert_snapshot!(event_summary(&client, &session), @r"
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
    let refused = client.refused("agent/resetCircuit", reset("nobody"));
    assert_eq!(refused.data["refusal"], "unknownCircuit", "{refused:?}");
}

#[test]
fn exhausted_quota_falls_back_immediately() {
    let quota = || Reply::error(429, "insufficient_quota", "You exceeded your current quota");
    let credit = || Reply::error(402, "billing", "Insufficient credits");
    let forbidden = || Reply::error(403, "permission_error", "Your credit balance is too low");
    for (name, reply) in [("429", quota()), ("402", credit()), ("403", forbidden())] {
        let world = chain(["", "", ""]);
        world.mock().push_for("model-one", reply);
        let client = world.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "ok", "{name}");
        assert_eq!(requested_models(&world), ["model-one", "model-two"], "{name}");
        assert_eq!(
            client.reasons(&session),
            ["model_fallback", "completed"],
            "{name}"
        );
        assert!(client.all(&session, "agent/retry").is_empty());
    }
    let world = World::new();
    world.mock().push(quota());
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "hello"));
    assert_eq!(result["error"]["code"], "quota_exhausted", "{result}");
}

#[test]
fn overlong_wait_falls_back_even_with_the_patient_profile() {
    for profile in ["interactive", "patient"] {
        let lines = format!("retry = \"{profile}\"");
        let world = chain([&lines, "", ""]);
        let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "3600");
        world.mock().push_for("model-one", busy);
        let client = world.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "ok");
        assert_eq!(requested_models(&world), ["model-one", "model-two"], "{profile}");
        let reason = client
            .next(&session, "agent/modelSwitched")
            .text("why")
            .to_owned();
        assert_eq!(reason, "anthropic asks to wait for 3600 s: slow down");
    }
}

#[test]
fn permanent_errors_do_not_fall_back() {
    for status in [400, 401, 404] {
        let world = chain(["", "", ""]);
        world
            .mock()
            .push_for("model-one", Reply::error(status, "error", "no"));
        let client = world.start();
        let session = client.session();
        let result = json!(client.ask(&session, "hello"));
        assert_eq!(result["reason"], "model_error", "{status}");
        assert_eq!(requested_models(&world), ["model-one"], "{status}");
    }
}

#[test]
fn exhausted_route_reports_the_last_error() {
    let world = chain(["", "", ""]);
    always_answer(
        &world,
        &[
            ("model-one", unavailable),
            ("model-two", unavailable),
            ("model-three", unavailable),
        ],
    );
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "hello"));
    assert_eq!(result["error"]["provider"], "eachlabs", "{result}");
    assert_eq!(world.requests(), 6);
    insta::assert_snapshot!(event_summary(&client, &session), @r"
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
    let world = chain(["max_retries = 0", "", ""]);
    world.write("a.txt", "what the file says");
    let read = Reply::new()
        .reasoning("a thought of one")
        .call("read_file", json!({"path": "a.txt"}));
    world.mock().push_for("model-one", read);
    world
        .mock()
        .push_for("model-one", Reply::text("half of the an").close());
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(requested_models(&world), ["model-one", "model-one", "model-two"]);
    insta::assert_snapshot!(event_summary(&client, &session), @r"
    next_turn
      retracted
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed: the connection ended in the middle of the answer
    completed
    completed / no error
    ");
    // The next provider gets the tool result, but neither foreign reasoning nor retracted text.
    let raw = String::from_utf8_lossy(&world.wait_for_request(2).raw).into_owned();
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
    let raw = String::from_utf8_lossy(&world.wait_for_request(3).raw).into_owned();
    assert_eq!(requested_models(&world)[3], "model-one");
    assert!(
        raw.contains("what the file says") && !raw.contains("half of"),
        "{raw}"
    );
}

#[test]
fn unsuitable_fallback_is_skipped_with_a_warning() {
    let small = "\n[model.\"model-two\"]\ncontext_window = 900";
    let no_tools = "\n[model.\"model-two\"]\ntools = false";
    for (tables, expected) in [
        (small, "exceeds its window of 900 tokens"),
        (no_tools, "model-two cannot use tools"),
    ] {
        let world = chain(["", "", tables]);
        always_answer(&world, &[("model-one", unavailable)]);
        let client = world.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "word ".repeat(2_000)).text, "ok");
        assert_eq!(
            requested_models(&world),
            ["model-one", "model-one", "model-three"],
            "{expected}"
        );
        let warning = client.next(&session, "agent/warning");
        assert_eq!(warning.text("code"), "route_skipped");
        assert!(warning.text("message").contains(expected), "{warning:?}");
    }
}

#[test]
fn conversation_is_summarized_before_a_fallback_to_a_smaller_window() {
    let world = chain(["", "", "\n[model.\"model-two\"]\ncontext_window = 14000"]);
    let client = world.start();
    let session = client.session();
    for _ in 0..9 {
        client.ask(&session, "word ".repeat(800));
    }
    world.mock().push_for("model-one", unavailable());
    world.mock().push_for("model-one", unavailable());
    world.mock().push_for("model-two", Reply::text("they said words"));
    assert_eq!(client.ask(&session, "go on").text, "ok");
    assert_eq!(
        requested_models(&world)[9..],
        ["model-one", "model-one", "model-two", "model-two"]
    );
    let relevant_methods = ["agent/compacted", "agent/modelSwitched", "agent/transition"];
    let notes = client.notes();
    let methods: Vec<&str> = notes
        .iter()
        .map(|notification| notification.method.as_str())
        .collect();
    let methods: Vec<&str> = methods
        .into_iter()
        .filter(|method| relevant_methods.contains(method))
        .collect();
    assert_eq!(
        methods[9..],
        [
            "agent/transition",
            "agent/compacted",
            "agent/modelSwitched",
            "agent/transition"
        ]
    );
    assert!(world.wait_for_request(12).raw.len() < world.wait_for_request(10).raw.len());
}

#[test]
fn fallback_without_image_support_gets_a_placeholder() {
    let world = chain(["", "", "\n[model.\"model-two\"]\nimages = false"]);
    world.mock().push_for("model-one", unavailable());
    world.mock().push_for("model-one", unavailable());
    let client = world.start();
    let session = client.session();
    let picture = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "mediaType": "image/png", "data": DOT}
    ]);
    assert_eq!(client.ask(&session, picture).text, "ok");
    let raw = |at: usize| String::from_utf8_lossy(&world.wait_for_request(at).raw).into_owned();
    assert!(raw(1).contains(DOT));
    assert!(
        !raw(2).contains(DOT) && raw(2).contains("a picture is here"),
        "{}",
        raw(2)
    );
    let warning = client.next(&session, "agent/warning");
    assert_eq!(warning.text("code"), "pictures_left_out");
    client.ask(&session, "and now?");
    assert!(raw(3).contains(DOT));
}

#[test]
fn a_model_that_is_known_not_to_see_gets_a_placeholder_at_once() {
    let world = chain(["\n[model.\"model-one\"]\nimages = false", "", ""]);
    let client = world.start();
    let session = client.session();
    let picture = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "mediaType": "image/png", "data": DOT}
    ]);
    assert_eq!(client.ask(&session, picture).text, "ok");
    let raw = |at: usize| String::from_utf8_lossy(&world.wait_for_request(at).raw).into_owned();
    assert!(
        !raw(0).contains(DOT) && raw(0).contains("a picture is here"),
        "{}",
        raw(0)
    );
    let warning = client.next(&session, "agent/warning");
    assert_eq!(warning.text("code"), "pictures_left_out");
    // Whoever does not attach another picture is not warned again.
    client.ask(&session, "and now?");
    assert!(!raw(1).contains(DOT));
    let warnings = client.all(&session, "agent/warning");
    let codes = warnings.iter().map(|warning| warning.text("code"));
    assert_eq!(codes.filter(|code| *code == "pictures_left_out").count(), 1);
    // A model that the catalogue knows needs no setting; an unknown one is given the picture.
    let known = client.session_with(json!({"model": "anthropic/o3-mini"}));
    client.ask(
        &known,
        json!([{"type": "image", "mediaType": "image/png", "data": DOT}]),
    );
    assert!(raw(2).contains("a picture is here"), "{}", raw(2));
}

#[test]
fn turn_fails_if_no_fallback_fits() {
    let world = chain([
        "",
        "",
        "\n[model.\"model-two\"]\ncontext_window = 900\n[model.\"model-three\"]\ncontext_window = 900",
    ]);
    always_answer(&world, &[("model-one", unavailable)]);
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "word ".repeat(2_000)));
    assert_eq!(result["error"]["status"], 503, "{result}");
    assert_eq!(requested_models(&world), ["model-one"; 2]);
}

/// An answer whose rate limit is exhausted until `reset`.
fn exhausted_rate_limit(reset: &str) -> Reply {
    Reply::text("ok")
        .header("anthropic-ratelimit-requests-limit", "100")
        .header("anthropic-ratelimit-requests-remaining", "0")
        .header("anthropic-ratelimit-requests-reset", reset)
}

#[test]
fn pacer_delays_calls_of_all_sessions() {
    let world = World::new();
    world.mock().push(exhausted_rate_limit("700ms"));
    world.mock().push(exhausted_rate_limit("700ms"));
    let client = world.start();
    let (session, other) = (client.session(), client.session());
    client.ask(&session, "one");
    client.ask(&other, "two");
    client.ask(&session, "three");
    assert!(client.all(&session, "agent/wait").len() == 1 && client.all(&other, "agent/wait").len() == 1);
    for (at, session) in [(1, &other), (2, &session)] {
        let wait = client.next(session, "agent/wait");
        let until = wait.params["until"].as_i64().unwrap() - wait.params["at"].as_i64().unwrap();
        assert!((300..=700).contains(&until), "{wait:?}");
        assert!(wait.text("why").contains("0 of 100 requests left"), "{wait:?}");
        let gap = world.wait_for_request(at).at - world.wait_for_request(at - 1).at;
        let least = Duration::from_millis(690);
        assert!(gap >= least && gap < least + SLACK, "{gap:?}");
    }
}

#[test]
fn cancel_ends_a_pacer_wait_immediately() {
    let world = World::new();
    world.mock().push(exhausted_rate_limit("60s"));
    let client = world.start();
    let session = client.session();
    client.ask(&session, "one");
    let id = client.prompt(&session, "two");
    client.next(&session, "agent/wait");
    let before = now();
    client.cancel(&session);
    let result = json!(client.prompt_result(&id));
    assert_eq!(result["reason"], "aborted_streaming");
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(world.requests(), 1);
}

#[test]
fn turn_after_a_cancelled_fallback_starts_with_the_first_provider() {
    let world = chain(["max_retries = 0", "", ""]);
    world.mock().push_for("model-one", unavailable());
    let gate = Gate::new();
    world.mock().push_for("model-two", Reply::text("hm").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "one");
    client.next(&session, "agent/modelSwitched");
    client.next(&session, "agent/textDelta");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id))["reason"], "aborted_streaming");
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(requested_models(&world), ["model-one", "model-two", "model-one"]);
}

#[test]
fn cancelled_trial_allows_another_trial() {
    let world = World::with(Config {
        provider: "max_retries = 9".to_owned(),
        ..Config::default()
    });
    for _ in 0..5 {
        world.mock().push(unavailable());
    }
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").gate_first(&gate));
    let client = world.start();
    let session = client.session();
    client.ask(&session, "one");
    let id = client.prompt(&session, "two");
    world.wait_at_gate(&gate);
    client.cancel(&session);
    client.prompt_result(&id);
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(world.requests(), 7);
}
