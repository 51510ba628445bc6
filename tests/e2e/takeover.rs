//! Unusual cases of fallback (R-PROV-4, -5): unsuitable models, returns to the first provider, several sessions at a
//! half-open circuit, and cancels, exits and reloads in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Config, World, now};
use crate::mock_llm::{Gate, Reply};
use crate::route::{chain, event_summary, overloaded, requested_models, unavailable};

fn push(world: &World, model: &str, replies: impl IntoIterator<Item = Reply>) {
    for reply in replies {
        world.mock().push_for(&format!("\"{model}\""), reply);
    }
}

fn unavailable_replies(n: usize) -> impl Iterator<Item = Reply> {
    std::iter::repeat_with(unavailable).take(n)
}

fn overloads(n: usize) -> impl Iterator<Item = Reply> {
    std::iter::repeat_with(overloaded).take(n)
}

/// Advances the clock until the open circuit of a session allows a trial.
fn pass_cooldown(client: &Client, session: &str) {
    let open = client.next_matching(session, "agent/circuit", |notification| {
        notification.text("state") == "open"
    });
    client.advance_to(open.params["until"].as_i64().unwrap() + 1);
}

fn assert_within_a_second(before: Instant) {
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
}

#[test]
fn fallback_without_a_key_is_skipped() {
    let world = chain(["", "", ""]);
    let text = std::fs::read_to_string(world.path("config/agentls/config.toml")).unwrap();
    world.configure(Config {
        full_text: Some(text.replace("api_key = \"key-of-two\"\n", "")),
        ..Config::default()
    });
    push(&world, "model-one", unavailable_replies(2));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        requested_models(&world),
        ["model-one", "model-one", "model-three"]
    );
    insta::assert_snapshot!(event_summary(&client, &session), @r#"
      retry 1 of 1; eachlabs/model-three takes over
    model_fallback
      warning skipping openrouter: the provider "openrouter" has no API key
      anthropic/model-one -> eachlabs/model-three: anthropic failed 2 times: down
    completed
    completed / no error
    "#);
}

#[test]
fn unsuitable_fallback_model_is_skipped() {
    let small = "max_retries = 9\nfallback_model = \"model-small\"";
    let no_tools = "\n[model.\"model-small\"]\ntools = false";
    let world = chain([small, "", no_tools]);
    push(&world, "model-one", overloads(5));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(requested_models(&world)[5..], ["model-two"]);
    assert!(!requested_models(&world).contains(&"model-small".to_owned()));

    let tiny = "\n[model.\"model-small\"]\ncontext_window = 900";
    let world = chain([small, "", tiny]);
    push(&world, "model-one", overloads(3));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "word ".repeat(2_000)).text, "ok");
    assert_eq!(
        requested_models(&world),
        ["model-one", "model-one", "model-one", "model-two"]
    );
    insta::assert_snapshot!(event_summary(&client, &session), @r"
      retry 1 of 9; one more attempt, then model-small takes over
      retry 2 of 9; model-small takes over
    model_fallback
      warning skipping anthropic/model-small: the conversation exceeds its window of 900 tokens
      anthropic/model-one -> openrouter/model-two: anthropic is overloaded
    completed
    completed / no error
    ");
}

#[test]
fn turn_returns_to_the_first_provider_when_its_circuit_allows_a_trial() {
    // The first model opens the circuit, or its fallback model does.
    let alone = "max_retries = 9\ncircuit_cooldown_s = 0.5";
    let stood_in = "max_retries = 9\ncircuit_cooldown_s = 0.5\nfallback_model = \"model-small\"";
    for (lines, failures) in [
        (alone, ["model-one"; 5]),
        (
            stood_in,
            [
                "model-one",
                "model-one",
                "model-one",
                "model-small",
                "model-small",
            ],
        ),
    ] {
        let world = chain([lines, "", ""]);
        world.write("a.txt", "a\n");
        let first = failures.iter().filter(|name| **name == "model-one").count();
        push(&world, "model-one", overloads(first));
        push(&world, "model-small", overloads(5 - first));
        let gate = Gate::new();
        let read = Reply::tool("read_file", json!({"path": "a.txt"}));
        push(&world, "model-two", [read.gate_first(&gate)]);
        let client = world.start();
        let session = client.session();
        let id = client.prompt(&session, "hello");
        world.wait_at_gate(&gate);
        pass_cooldown(&client, &session);
        gate.release();
        assert_eq!(client.prompt_result(&id).text, "ok");
        assert_eq!(requested_models(&world)[..5], failures);
        assert_eq!(requested_models(&world)[5..], ["model-two", "model-one"]);
        let back = client.all(&session, "agent/modelSwitched");
        let back = back.last().unwrap();
        assert_eq!(
            (back.text("from"), back.text("to"), back.text("why")),
            (
                "openrouter/model-two",
                "anthropic/model-one",
                "trying anthropic again"
            )
        );
    }
}

#[test]
fn only_one_of_several_sessions_makes_the_trial() {
    let world = chain(["max_retries = 4\ncircuit_cooldown_s = 0.5", "", ""]);
    push(&world, "model-one", unavailable_replies(5));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    pass_cooldown(&client, &session);
    let gate = Gate::new();
    push(&world, "model-one", [Reply::text("well again").gate_first(&gate)]);
    let trial = client.prompt(&session, "two");
    world.wait_at_gate(&gate);
    let others: Vec<String> = (0..5).map(|_| client.session()).collect();
    for other in &others {
        assert_eq!(client.ask(other, "three").text, "ok");
    }
    let models = requested_models(&world);
    assert_eq!(
        models[6..],
        [
            "model-one",
            "model-two",
            "model-two",
            "model-two",
            "model-two",
            "model-two"
        ]
    );
    insta::assert_snapshot!(event_summary(&client, &others[4]), @r"
      circuit of anthropic halfOpen
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed too often in a row and is paused
    completed
    completed / no error
    ");
    gate.release();
    assert_eq!(client.prompt_result(&trial).text, "well again");
    assert_eq!(client.ask(&others[0], "four").text, "ok");
    assert_eq!(requested_models(&world)[12..], ["model-one"]);
}

#[test]
fn throttled_trial_is_repeated() {
    let world = World::with(Config {
        provider: "max_retries = 9".to_owned(),
        ..Config::default()
    });
    (0..5).for_each(|_| world.mock().push(unavailable()));
    let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after-ms", "30");
    world.mock().push(busy);
    let client = world.start();
    let session = client.session();
    assert_eq!(
        json!(client.ask(&session, "one"))["error"]["code"],
        "circuit_open"
    );
    let line_count = event_summary(&client, &session).lines().count();
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(world.requests(), 7);
    let event_summary = event_summary(&client, &session);
    let event_summary: Vec<&str> = event_summary.lines().skip(line_count).collect();
    insta::assert_snapshot!(event_summary.join("\n"), @r"
      circuit of mock halfOpen
      circuit of mock open
      retry 1 of 9; 8 more attempts
      circuit of mock halfOpen
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn cancel_and_exit_end_a_wait_for_a_circuit() {
    let world = World::with(Config {
        provider: "retry = \"persistent\"\ncircuit_cooldown_s = 60".to_owned(),
        ..Config::default()
    });
    (0..5).for_each(|_| world.mock().push(unavailable()));
    let client = world.start();
    let (session, other) = (client.session(), client.session());
    let id = client.prompt(&session, "one");
    let retry = client.next_matching(&session, "agent/retry", |notification| {
        notification.params["attempt"] == 5
    });
    assert!(retry.params["delayMs"].as_u64().unwrap() > 50_000, "{retry:?}");
    let before = now();
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id))["reason"], "aborted_streaming");
    assert_within_a_second(before);
    // The second prompt is the trial; after it fails, it waits as well.
    world.mock().push(unavailable());
    let second = client.prompt(&other, "two");
    client.next(&other, "agent/retry");
    let before = now();
    client.close_input();
    assert_eq!(json!(client.prompt_result(&second))["reason"], "server_stopped");
    client.wait_for_exit();
    assert!(
        before.elapsed() < Duration::from_secs(2),
        "{:?}",
        before.elapsed()
    );
    drop(client);
    let client = world.start();
    let loaded = json!(client.load(&other));
    let last = loaded["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["method"], &last["params"]["reason"]),
        (&json!("agent/turnEnded"), &json!("server_stopped"))
    );
    assert_eq!(world.requests(), 6);
}

#[test]
fn patient_profile_waits_a_day_visibly_and_a_cancel_ends_it() {
    let world = World::with(Config {
        provider: "retry = \"patient\"".to_owned(),
        ..Config::default()
    });
    let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "86400");
    world.mock().push(busy);
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "one");
    let retry = client.next(&session, "agent/retry");
    let delay = retry.params["delayMs"].as_u64().unwrap();
    assert!((86_400_000..=86_400_250).contains(&delay), "{delay}");
    let until = retry.params["resumeAt"].as_i64().unwrap() - agentls::base::clock::wall_ms();
    assert!((86_390_000..=86_400_250).contains(&until), "{until}");
    let before = now();
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id))["reason"], "aborted_streaming");
    assert_within_a_second(before);
    assert_eq!(client.ask(&session, "two").text, "ok");
}

#[test]
fn reload_applies_to_the_next_turn_only() {
    let world = chain(["", "", ""]);
    let gate = Gate::new();
    push(
        &world,
        "model-one",
        [unavailable().gate_first(&gate), unavailable()],
    );
    let client = world.start();
    let (session, other) = (client.session(), client.session());
    let id = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    // Remove the second provider, so that the first falls back to the third.
    let text = std::fs::read_to_string(world.path("config/agentls/config.toml")).unwrap();
    let (before, rest) = text.split_once("[provider.openrouter]").unwrap();
    let (_, after) = rest.split_once("[provider.eachlabs]").unwrap();
    let text = format!("{before}[provider.eachlabs]{after}").replace("\"openrouter\"", "\"eachlabs\"");
    world.configure(Config {
        full_text: Some(text),
        ..Config::default()
    });
    let reloaded: Value = client.call("agent/reloadConfig", json!({}));
    assert_eq!(reloaded["problems"], json!([]), "{reloaded}");
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(requested_models(&world), ["model-one", "model-one", "model-two"]);
    push(&world, "model-one", unavailable_replies(2));
    assert_eq!(client.ask(&other, "two").text, "ok");
    assert_eq!(
        requested_models(&world)[3..],
        ["model-one", "model-one", "model-three"]
    );
    // The session whose last answer came from the removed provider continues with the first.
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(requested_models(&world)[6..], ["model-one"]);
}

#[test]
fn retry_of_a_summary_announces_what_follows_without_one() {
    let world = World::with(Config {
        tables:
            "[provider.small]\nkind = \"anthropic\"\nbase_url = \"URL\"\napi_key = \"k\"\nmodel = \"small\"\n\
                 initial_backoff_ms = 1\nmax_retries = 2\n[model.small]\ncontext_window = 14000\n"
                .to_owned(),
        ..Config::default()
    });
    let file = world.path("config/agentls/config.toml");
    let text = std::fs::read_to_string(file)
        .unwrap()
        .replace("URL", &world.mock().anthropic_url());
    world.configure(Config {
        full_text: Some(text),
        ..Config::default()
    });
    world.mock().allow_rewrites();
    world.mock().respond_with(|request| {
        let summary =
            String::from_utf8_lossy(&request.raw).contains("You write the notes with which a coding agent");
        summary.then(unavailable)
    });
    let client = world.start();
    let session = client.session_with(json!({"model": "small/small"}));
    let mut rounds = 0;
    while client.all(&session, "agent/compacted").is_empty() {
        client.ask(&session, "word ".repeat(800));
        rounds += 1;
        assert!(rounds < 20, "the window never fills");
    }
    let next_actions = |from: usize| -> Vec<String> {
        let retries = client.all(&session, "agent/retry");
        retries[from..]
            .iter()
            .map(|notification| notification.text("next").to_owned())
            .collect()
    };
    let goes_on = "the conversation continues without a summary";
    assert_eq!(
        next_actions(0),
        [format!("one more attempt, then {goes_on}"), goes_on.to_owned()]
    );
    // A manual compaction has nothing to continue without. It keeps the prompts, so there must be long answers.
    for _ in 0..5 {
        world.mock().push(Reply::text("word ".repeat(800)));
        client.ask(&session, "go on");
    }
    let from = client.all(&session, "agent/retry").len();
    let compact = client.send("agent/compact", json!({"sessionId": session}));
    let _ = client.answer(&compact);
    let next = next_actions(from);
    assert!(
        !next.is_empty() && next.iter().all(|text| !text.contains("without a summary")),
        "{next:?}"
    );
}

#[test]
fn text_is_retracted_when_a_late_fallback_takes_over() {
    let world = chain(["max_retries = 0", "max_retries = 9\ncircuit_cooldown_s = 0.5", ""]);
    let text = std::fs::read_to_string(world.path("config/agentls/config.toml")).unwrap();
    world.configure(Config {
        full_text: Some(text.replace("api_key = \"key-of-three\"\n", "")),
        ..Config::default()
    });
    let gate = Gate::new();
    let cut = Reply::new().with_text("half of it").gate(&gate).reset();
    push(&world, "model-one", [unavailable(), cut]);
    push(&world, "model-two", unavailable_replies(5));
    let client = world.start();
    let session = client.session();
    assert_eq!(
        json!(client.ask(&session, "one"))["error"]["code"],
        "circuit_open"
    );
    // No fallback is available when the second turn makes its call.
    let id = client.prompt(&session, "two");
    let delta = client.next_matching(&session, "agent/textDelta", |notification| {
        notification.text("text").contains("half")
    });
    pass_cooldown(&client, &session);
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "ok");
    let retracted = client.all(&session, "agent/messageRetracted");
    assert_eq!(
        retracted.last().unwrap().text("messageId"),
        delta.text("messageId")
    );
    assert_eq!(requested_models(&world).last().unwrap(), "model-two");
}
