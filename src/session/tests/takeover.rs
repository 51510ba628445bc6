//! Unusual cases of fallback: unsuitable models, returns to the first provider, several sessions at a half-open
//! circuit, and cancels, exits and reloads in between.

use std::iter::repeat_with;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Config, Scenario, overloaded, read_file, unavailable};
use crate::domain::*;

/// Lets time pass until the open circuit of a session allows a trial.
fn pass_cooldown(client: &Client, session: &SessionId) {
    client.scenario.advance_to(client.next_open_circuit(session) + 1);
}

/// Waits for the next retry of a session: its attempt, its delay in ms, and the wall time of its end.
fn next_retry(client: &Client, session: &SessionId) -> (u32, u64, i64) {
    client.next(session, |event| match event {
        Event::Retry {
            attempt,
            delay_ms,
            resume_at,
            ..
        } => Some((*attempt, *delay_ms, *resume_at)),
        _ => None,
    })
}

/// Cancels a turn, which must end at once.
fn cancel_at_once(client: &Client, session: &SessionId, turn: super::scenario::PendingTurn) {
    let before_ms = client.scenario.wall_ms();
    client.cancel(session);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::AbortedStreaming);
    assert_eq!(client.scenario.wall_ms(), before_ms);
}

#[test]
fn fallback_without_a_key_is_skipped() {
    let scenario = Scenario::chain(["", "", ""]);
    scenario.edit_config(|text| text.replace("api_key = \"key-of-two\"\n", ""));
    scenario.push_for_model("model-one", repeat_with(unavailable).take(2));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-three"]
    );
    insta::assert_snapshot!(client.event_summary(&session), @r#"
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
    let scenario = Scenario::chain([small, "", no_tools]);
    scenario.push_for_model("model-one", repeat_with(overloaded).take(5));
    let client = scenario.start();
    assert_eq!(client.ask(&client.session(), "hello").text, "ok");
    let models = scenario.requested_models();
    assert_eq!(models[5..], ["model-two"]);
    assert!(!models.contains(&"model-small".to_owned()));

    let tiny = "\n[model.\"model-small\"]\ncontext_window = 900";
    let scenario = Scenario::chain([small, "", tiny]);
    scenario.push_for_model("model-one", repeat_with(overloaded).take(3));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "word ".repeat(2_000)).text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-one", "model-two"]
    );
    insta::assert_snapshot!(client.event_summary(&session), @r"
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
    for (lines, failures_of_first) in [(alone, 5), (stood_in, 3)] {
        let scenario = Scenario::chain([lines, "", ""]);
        scenario.write("a.txt", "a\n");
        scenario.push_for_model("model-one", repeat_with(overloaded).take(failures_of_first));
        scenario.push_for_model("model-small", repeat_with(overloaded).take(5 - failures_of_first));
        let gate = Gate::new();
        let read = read_file("a.txt");
        scenario.push_for_model("model-two", [read.gate_first(&gate)]);
        let client = scenario.start();
        let session = client.session();
        let turn = client.prompt(&session, "hello");
        scenario.wait_at_gate(&gate);
        pass_cooldown(&client, &session);
        gate.release();
        assert_eq!(client.outcome(turn).text, "ok");
        let models = scenario.requested_models();
        let (first, second) = models[..5].split_at(failures_of_first);
        assert!(first.iter().all(|model| model == "model-one"), "{models:?}");
        assert!(second.iter().all(|model| model == "model-small"), "{models:?}");
        assert_eq!(models[5..], ["model-two", "model-one"]);
        let switches = client.model_switches(&session);
        let (from, to, why) = switches.last().unwrap();
        assert_eq!(
            (from.as_str(), to.as_str()),
            ("openrouter/model-two", "anthropic/model-one")
        );
        assert_eq!(why, "trying anthropic again");
    }
}

#[test]
fn only_one_of_several_sessions_makes_the_trial() {
    let scenario = Scenario::chain(["max_retries = 4\ncircuit_cooldown_s = 0.5", "", ""]);
    scenario.push_for_model("model-one", repeat_with(unavailable).take(5));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    pass_cooldown(&client, &session);
    let gate = Gate::new();
    scenario.push_for_model("model-one", [Reply::text("well again").gate_first(&gate)]);
    let trial = client.prompt(&session, "two");
    scenario.wait_at_gate(&gate);
    let others: Vec<SessionId> = (0..5).map(|_| client.session()).collect();
    for other in &others {
        assert_eq!(client.ask(other, "three").text, "ok");
    }
    assert_eq!(
        scenario.requested_models()[6..],
        [
            "model-one",
            "model-two",
            "model-two",
            "model-two",
            "model-two",
            "model-two"
        ]
    );
    insta::assert_snapshot!(client.event_summary(&others[4]), @r"
      circuit of anthropic half_open
    model_fallback
      anthropic/model-one -> openrouter/model-two: anthropic failed too often in a row and is paused
    completed
    completed / no error
    ");
    gate.release();
    assert_eq!(client.outcome(trial).text, "well again");
    assert_eq!(client.ask(&others[0], "four").text, "ok");
    assert_eq!(scenario.requested_models()[12..], ["model-one"]);
}

#[test]
fn throttled_trial_is_repeated() {
    let scenario = Scenario::with_provider("max_retries = 9");
    scenario.push_all(repeat_with(unavailable).take(5));
    let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after-ms", "30");
    scenario.push(busy);
    let client = scenario.start();
    let session = client.session();
    let error = client.ask(&session, "one").end.error.unwrap();
    assert_eq!(error.code, ErrorCode::CircuitOpen);
    let line_count = client.event_summary(&session).lines().count();
    assert_eq!(client.ask(&session, "two").text, "ok");
    assert_eq!(scenario.requests(), 7);
    let summary = client.event_summary(&session);
    let summary: Vec<&str> = summary.lines().skip(line_count).collect();
    insta::assert_snapshot!(summary.join("\n"), @r"
      circuit of mock half_open
      circuit of mock open
      retry 1 of 9; 8 more attempts
      circuit of mock half_open
      circuit of mock closed
    completed
    completed / no error
    ");
}

#[test]
fn cancel_and_exit_end_a_wait_for_a_circuit() {
    let scenario = Scenario::with_provider("retry = \"persistent\"\ncircuit_cooldown_s = 60");
    scenario.push_all(repeat_with(unavailable).take(5));
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    let turn = client.prompt(&session, "one");
    let delay_ms = loop {
        let (attempt, delay_ms, _) = next_retry(&client, &session);
        if attempt == 5 {
            break delay_ms;
        }
    };
    assert!(delay_ms > 50_000, "{delay_ms}");
    cancel_at_once(&client, &session, turn);
    // The second prompt is the trial; after it fails, it waits as well.
    scenario.push(unavailable());
    let second = client.prompt(&other, "two");
    next_retry(&client, &other);
    let before_ms = scenario.wall_ms();
    client.shut_down();
    assert_eq!(client.outcome(second).end.reason, TerminalReason::ServerStopped);
    assert_eq!(scenario.wall_ms(), before_ms);
    drop(client);
    let client = scenario.start();
    client.load(&other);
    let stored = client.stored_events(&other);
    let Some(Event::TurnEnded(end)) = stored.last() else {
        panic!("{stored:?}")
    };
    assert_eq!(end.reason, TerminalReason::ServerStopped);
    assert_eq!(scenario.requests(), 6);
}

#[test]
fn patient_profile_waits_a_day_visibly_and_a_cancel_ends_it() {
    let scenario = Scenario::with_provider("retry = \"patient\"");
    let busy = Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "86400");
    scenario.push(busy);
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "one");
    let (_, delay_ms, resume_at) = next_retry(&client, &session);
    assert!((86_400_000..=86_400_250).contains(&delay_ms), "{delay_ms}");
    let remaining_ms = resume_at - scenario.wall_ms();
    assert!(
        (86_400_000..=86_400_250).contains(&remaining_ms),
        "{remaining_ms}"
    );
    cancel_at_once(&client, &session, turn);
    assert_eq!(client.ask(&session, "two").text, "ok");
}

#[test]
fn reload_applies_to_the_next_turn_only() {
    let scenario = Scenario::chain(["", "", ""]);
    let gate = Gate::new();
    scenario.push_for_model("model-one", [unavailable().gate_first(&gate), unavailable()]);
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    let turn = client.prompt(&session, "one");
    scenario.wait_at_gate(&gate);
    // Remove the second provider, so that the first falls back to the third.
    scenario.edit_config(|text| {
        let (before, rest) = text.split_once("[provider.openrouter]").unwrap();
        let (_, after) = rest.split_once("[provider.eachlabs]").unwrap();
        format!("{before}[provider.eachlabs]{after}").replace("\"openrouter\"", "\"eachlabs\"")
    });
    assert_eq!(client.reload_config(), []);
    gate.release();
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(
        scenario.requested_models(),
        ["model-one", "model-one", "model-two"]
    );
    scenario.push_for_model("model-one", repeat_with(unavailable).take(2));
    assert_eq!(client.ask(&other, "two").text, "ok");
    assert_eq!(
        scenario.requested_models()[3..],
        ["model-one", "model-one", "model-three"]
    );
    // The session whose last answer came from the removed provider continues with the first.
    assert_eq!(client.ask(&session, "three").text, "ok");
    assert_eq!(scenario.requested_models()[6..], ["model-one"]);
}

#[test]
fn retry_of_a_summary_announces_what_follows_without_one() {
    let scenario = Scenario::new();
    scenario.configure(Config {
        tables: format!(
            "[provider.small]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"k\"\nmodel = \"small\"\n\
             initial_backoff_ms = 1\nmax_retries = 2\n[model.small]\ncontext_window = 14000\n",
            scenario.mock().anthropic_url()
        ),
        ..Config::default()
    });
    scenario.mock().allow_rewrites();
    scenario.mock().respond_with(|request| {
        let text = String::from_utf8_lossy(&request.raw);
        text.contains("You write the notes with which a coding agent")
            .then(unavailable)
    });
    let client = scenario.start();
    let session = client.session_of_model("small/small");
    let is_compacted = || client.count(&session, |event| matches!(event, Event::Compacted(_))) > 0;
    let mut rounds = 0;
    while !is_compacted() {
        client.ask(&session, "word ".repeat(800));
        rounds += 1;
        assert!(rounds < 20, "the window never fills");
    }
    let next_actions = || {
        client.all(&session, |event| match event {
            Event::Retry { next, .. } => Some(next.clone()),
            _ => None,
        })
    };
    let goes_on = "the conversation continues without a summary";
    assert_eq!(
        next_actions(),
        [format!("one more attempt, then {goes_on}"), goes_on.to_owned()]
    );
    // A manual compaction has nothing to continue without. It keeps the prompts, so there must be long answers.
    for _ in 0..5 {
        scenario.push(Reply::text("word ".repeat(800)));
        client.ask(&session, "go on");
    }
    let known = next_actions().len();
    client.outcome(client.compact(&session));
    let next = &next_actions()[known..];
    assert!(
        !next.is_empty() && next.iter().all(|text| !text.contains("without a summary")),
        "{next:?}"
    );
}

#[test]
fn text_is_retracted_when_a_late_fallback_takes_over() {
    let second = "max_retries = 9\ncircuit_cooldown_s = 0.5";
    let scenario = Scenario::chain(["max_retries = 0", second, ""]);
    scenario.edit_config(|text| text.replace("api_key = \"key-of-three\"\n", ""));
    let gate = Gate::new();
    let cut = Reply::new().with_text("half of it").gate(&gate).reset();
    scenario.push_for_model("model-one", [unavailable(), cut]);
    scenario.push_for_model("model-two", repeat_with(unavailable).take(5));
    let client = scenario.start();
    let session = client.session();
    let error = client.ask(&session, "one").end.error.unwrap();
    assert_eq!(error.code, ErrorCode::CircuitOpen);
    // No fallback is available when the second turn makes its call.
    let turn = client.prompt(&session, "two");
    let cut_message = client.next_delta(&session, |delta| match delta {
        Delta::Text { message, text, .. } if text.contains("half") => Some(message.clone()),
        _ => None,
    });
    pass_cooldown(&client, &session);
    gate.release();
    assert_eq!(client.outcome(turn).text, "ok");
    let retracted = client.all(&session, |event| match event {
        Event::MessageRetracted { message, .. } => Some(message.clone()),
        _ => None,
    });
    assert_eq!(retracted.last(), Some(&cut_message));
    assert_eq!(scenario.requested_models().last().unwrap(), "model-two");
}
