//! Every reason of the turn loop, as the transitions that a client sees (R-LOOP-1).

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::{Cut, Gate, Reply};

/// Returns the reasons of a turn's transitions, then reason, state and error code of its end.
pub fn course(client: &Client, session: &str, result: &Value) -> Vec<String> {
    let mut course = client.reasons(session);
    let code = result["error"]["code"].as_str().unwrap_or("no error");
    course.push(format!(
        "{} / {} / {code}",
        result["reason"].as_str().unwrap(),
        result["state"].as_str().unwrap()
    ));
    course
}

#[test]
fn each_outcome_has_its_reason() {
    let read = || Reply::tool("read_file", json!({"path": "a.txt"}));
    let truncated_text = || Reply::text("half an ans").stop("max_tokens");
    let truncated_call = |leading_text: &str| {
        let call = "{\"path\": \"x\"";
        Reply::new()
            .with_text(leading_text)
            .call_raw("write_file", call, 100)
            .stop("max_tokens")
    };
    let overloaded = || Reply::error(529, "overloaded_error", "Overloaded");
    let cases: Vec<(&str, Vec<Reply>, Vec<&str>)> = vec![
        (
            "an answer",
            vec![Reply::text("hi")],
            vec!["completed", "completed / completed / no error"],
        ),
        (
            "a tool, then an answer",
            vec![read(), Reply::text("hi")],
            vec!["next_turn", "completed", "completed / completed / no error"],
        ),
        (
            "an unknown tool and bad input are for the model",
            vec![
                Reply::new()
                    .call("no_such_tool", json!({}))
                    .call("read_file", json!({"wrong": 1})),
                Reply::new().call_raw("read_file", "{\"path\": ", 4),
                Reply::text("hi"),
            ],
            vec![
                "next_turn",
                "next_turn",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "truncated once",
            vec![truncated_text(), Reply::text("whole")],
            vec![
                "max_output_tokens_escalate",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "truncated twice",
            vec![truncated_text(), truncated_text(), Reply::text("the rest")],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "truncated forever",
            vec![
                truncated_text(),
                truncated_text(),
                truncated_text(),
                truncated_text(),
                truncated_text(),
            ],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "max_output_tokens_recovery",
                "max_output_tokens_recovery",
                "max_output_tokens",
                "max_output_tokens / degraded / no error",
            ],
        ),
        (
            "a truncated tool call never runs",
            vec![truncated_call("I"), truncated_call("I"), Reply::text("in pieces")],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "truncated before any text",
            vec![truncated_call(""), truncated_call(""), Reply::text("in pieces")],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "paused",
            vec![
                Reply::text("first").stop("pause_turn"),
                Reply::text("second").stop("pause_turn"),
                Reply::text("third"),
            ],
            vec![
                "pause_turn",
                "pause_turn",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "paused forever",
            (0..6).map(|_| Reply::text("hm").stop("pause_turn")).collect(),
            vec![
                "pause_turn",
                "pause_turn",
                "pause_turn",
                "pause_turn",
                "pause_turn",
                "max_output_tokens",
                "max_output_tokens / degraded / no error",
            ],
        ),
        (
            "refused",
            vec![Reply::text("no").stop("refusal")],
            vec!["refused", "refused / failed / provider_error"],
        ),
        (
            "refused with a tool call",
            vec![Reply::tool("read_file", json!({"path": "a.txt"})).stop("refusal")],
            vec!["refused", "refused / failed / provider_error"],
        ),
        (
            "blank text before a tool",
            vec![
                Reply::new()
                    .with_text("\n\n")
                    .call("read_file", json!({"path": "a.txt"})),
                Reply::text("\n hi"),
            ],
            vec!["next_turn", "completed", "completed / completed / no error"],
        ),
        (
            "empty once",
            vec![Reply::new(), Reply::text("hi")],
            vec![
                "empty_response_retry",
                "completed",
                "completed / completed / no error",
            ],
        ),
        (
            "empty, blank, reasoning alone",
            vec![
                Reply::new(),
                Reply::text("  \n "),
                Reply::new().reasoning("hm, hm"),
            ],
            vec![
                "empty_response_retry",
                "empty_response_retry",
                "empty_response",
                "empty_response / failed / empty_response",
            ],
        ),
        (
            "retries used up",
            vec![overloaded(), overloaded(), overloaded(), overloaded()],
            vec!["model_error", "model_error / failed / provider_error"],
        ),
        (
            "a permanent error",
            vec![Reply::error(400, "invalid_request_error", "messages: nonsense")],
            vec!["model_error", "model_error / failed / provider_error"],
        ),
        (
            "quota used up",
            vec![Reply::error(
                429,
                "insufficient_quota",
                "You exceeded your current quota, please check your plan and billing details.",
            )],
            vec!["model_error", "model_error / failed / quota_exhausted"],
        ),
    ];
    for (name, replies, wanted) in cases {
        let world = World::new();
        world.write("a.txt", "a\n");
        let count = replies.len();
        replies.into_iter().for_each(|reply| world.mock().push(reply));
        let client = world.start();
        let session = client.session();
        let result = json!(client.ask(&session, "do it"));
        assert_eq!(course(&client, &session, &result), wanted, "{name}: {result}");
        assert_eq!(world.requests(), count, "{name}");
        assert_eq!(world.read("x"), None, "{name}");
        // Whatever happened, the history is valid for the next call (the mock checks it).
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
    }
}

#[test]
fn cut_answer_is_retried_with_a_larger_limit_then_continued() {
    let world = World::new();
    for text in ["one", "two", " three"] {
        world.mock().push(Reply::text(text).stop("max_tokens"));
    }
    world.mock().push(Reply::text(" four"));
    let client = world.start();
    let session = client.session();
    let done = client.ask(&session, "count");
    assert_eq!(done.text, "two three four");
    let limits: Vec<u64> = (0..4)
        .map(|n| world.wait_for_request(n).body["max_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(limits, [32_000, 64_000, 64_000, 64_000]);
    // The first answer is retracted, the others stay, and the model is asked to continue where it stopped.
    let first = client.all(&session, "agent/textDelta")[0]
        .text("messageId")
        .to_owned();
    let retracted = client.all(&session, "agent/messageRetracted");
    assert_eq!(retracted.len(), 1);
    assert_eq!(retracted[0].text("messageId"), first);
    let messages: Vec<(String, String, bool)> = client
        .all(&session, "agent/message")
        .iter()
        .filter(|notification| !notification.params.to_string().contains("<environment>"))
        .map(|notification| {
            let text = notification.params["content"][0]["text"].as_str().unwrap();
            let text = text.chars().take(15).collect();
            (
                notification.text("role").to_owned(),
                text,
                notification.params["hidden"] == true,
            )
        })
        .collect();
    let messages: Vec<_> = messages
        .iter()
        .map(|(role, text, hidden)| (&**role, &**text, *hidden))
        .collect();
    let ask = ("user", "Your answer was", true);
    assert_eq!(
        messages,
        [
            ("user", "count", false),
            ("assistant", "two", false),
            ask,
            ("assistant", " three", false),
            ask,
            ("assistant", " four", false),
        ]
    );
}

#[test]
fn result_contains_the_whole_answer_of_a_continued_turn() {
    let cut = |text: &str| Reply::text(text).stop("max_tokens");
    let paused = |text: &str| Reply::text(text).stop("pause_turn");
    let read = || Reply::tool("read_file", json!({"path": "a.txt"}));
    for (replies, text) in [
        (
            vec![cut("void"), cut("P1 "), cut("P2 "), Reply::text("P3")],
            "P1 P2 P3",
        ),
        (
            vec![paused("BBB "), paused("CCC "), Reply::text("DDD")],
            "BBB CCC DDD",
        ),
        (
            vec![cut("void"), cut("P1 "), cut("P2 "), cut("P3 "), cut("P4")],
            "P1 P2 P3 P4",
        ),
        (vec![paused("look "), read(), Reply::text("seen")], "seen"),
    ] {
        let world = World::new();
        world.write("a.txt", "one\n");
        for reply in replies {
            world.mock().push(reply);
        }
        let client = world.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "count").text, text);
    }
}

#[test]
fn output_escalation_double_doubles_the_limit() {
    let world = World::with(Config {
        agent: "output_escalation = \"double\"".to_owned(),
        tables: "[model.\"other-model\"]\nmax_output_tokens = 256000\ncontext_window = 1000000".to_owned(),
        ..Config::default()
    });
    for _ in 0..5 {
        world.mock().push(Reply::text("half").stop("max_tokens"));
    }
    let client = world.start();
    let session = client.session_with(json!({"model": "other/other-model"}));
    assert_eq!(client.ask(&session, "count").text, "halfhalfok");
    assert_eq!(
        output_limits(&world),
        [32_000, 64_000, 128_000, 256_000, 256_000, 256_000].map(Some)
    );
}

#[test]
fn token_target_keeps_the_model_working() {
    let world = World::with(Config {
        agent: "token_target = 2000".to_owned(),
        ..Config::default()
    });
    for tokens in [600, 100, 1_200] {
        world.mock().push(Reply::text("done").tokens(10, tokens));
    }
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "token_budget_continuation",
            "token_budget_continuation",
            "completed",
            "completed / completed / no error"
        ]
    );
    for (request, percent) in [(1, "30 %"), (2, "35 %")] {
        assert!(
            world.wait_for_request(request).last_text().starts_with(percent),
            "{:?}",
            world.wait_for_request(request).last_text()
        );
    }
}

#[test]
fn three_fruitless_nudges_in_a_row_end_the_turn() {
    let world = World::with(Config {
        agent: "token_target = 20000".to_owned(),
        ..Config::default()
    });
    // The first answer does not count: no nudge preceded it.
    for tokens in [600, 499, 10, 10] {
        world.mock().push(Reply::text("done").tokens(10, tokens));
    }
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    let nudge = "token_budget_continuation";
    assert_eq!(
        course(&client, &session, &result),
        [
            nudge,
            nudge,
            nudge,
            "completed",
            "completed / completed / no error"
        ]
    );
}

#[test]
fn slightly_larger_limit_continues_instead_of_retrying() {
    let world = World::with(Config {
        tables: "[model.\"other-model\"]\nmax_output_tokens = 8192".to_owned(),
        ..Config::default()
    });
    world.mock().push(Reply::text("one").stop("max_tokens"));
    world.mock().push(Reply::text(" two"));
    let client = world.start();
    let session = client.session_with(json!({"model": "other/other-model"}));
    let result = json!(client.ask(&session, "count"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "max_output_tokens_recovery",
            "completed",
            "completed / completed / no error"
        ]
    );
    assert!(client.all(&session, "agent/messageRetracted").is_empty());
}

#[test]
fn step_limit_ends_a_turn() {
    let world = World::with(Config {
        agent: "max_iterations = 3".to_owned(),
        ..Config::default()
    });
    world.write("a.txt", "a\n");
    world
        .mock()
        .default_reply(Reply::tool("read_file", json!({"path": "a.txt"})));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "next_turn",
            "next_turn",
            "max_turns",
            "max_turns / failed / max_iterations"
        ]
    );
    assert_eq!(
        result["error"]["message"],
        "reached 3 iterations without completion"
    );
    assert_eq!(world.requests(), 3);
    world.mock().default_reply(Reply::text("done"));
    assert_eq!(client.ask(&session, "go on").text, "done");
}

#[test]
fn missing_provider_error_lists_the_options() {
    let world = World::with(Config {
        full_text: Some(String::new()),
        ..Config::default()
    });
    if std::net::TcpStream::connect(("127.0.0.1", 11434)).is_ok() {
        eprintln!("an Ollama is running here: nothing to see");
        return;
    }
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["not_configured", "not_configured / failed / config"]
    );
    let user_action = result["error"]["userAction"].as_str().unwrap();
    for keyword in ["key", "Ollama", "agentls demo"] {
        assert!(
            user_action.to_lowercase().contains(&keyword.to_lowercase()),
            "{user_action}"
        );
    }
    // Once a provider is configured, the session works.
    world.configure(Config::default());
    let _: Value = client.call("agent/reloadConfig", json!({}));
    assert_eq!(client.ask(&session, "again").text, "ok");
}

#[test]
fn missing_key_error_names_the_provider() {
    let world = World::with(Config {
        full_text: Some(
            "[provider.anthropic]\nmodel = \"m\"\n[agent.default]\nprovider = \"anthropic\"\n".to_owned(),
        ),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["not_configured", "not_configured / failed / config"]
    );
    assert!(
        result["error"]["message"].as_str().unwrap().contains("anthropic"),
        "{result}"
    );
}

#[test]
fn unreachable_provider_is_a_model_error() {
    let world = World::with(Config {
        provider: "max_retries = 1".to_owned(),
        ..Config::default()
    });
    world.mock().default_reply(Reply::hang_up(Cut::Reset));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["model_error", "model_error / failed / provider_error"]
    );
    assert_eq!(result["error"]["attempts"], 2, "{result}");
}

#[test]
fn cancel_reason_distinguishes_streaming_and_tools() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").gate(&gate));
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    client.next(&session, "agent/textDelta");
    client.cancel(&session);
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        course(&client, &session, &result),
        ["aborted_streaming / cancelled / cancelled"]
    );
    let id = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.cancel(&session);
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        course(&client, &session, &result),
        ["aborted_tools / cancelled / cancelled"]
    );
    assert_eq!(world.read("x"), None);
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

/// Returns the output limits of all requests so far.
fn output_limits(world: &World) -> Vec<Option<u64>> {
    let limit = |body: &Value| {
        let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        names.iter().find_map(|name| body[*name].as_u64())
    };
    (0..world.requests())
        .map(|n| limit(&world.wait_for_request(n).body))
        .collect()
}

#[test]
fn unknown_output_limit_escalates_to_the_default() {
    for model in ["other/other-model", "responses/responses-model"] {
        let world = World::new();
        world.mock().push(Reply::text("half").stop("max_tokens"));
        world.mock().push(Reply::text("whole"));
        let client = world.start();
        let session = client.session_with(json!({"model": model}));
        let result = json!(client.ask(&session, "count"));
        assert_eq!(
            course(&client, &session, &result),
            [
                "max_output_tokens_escalate",
                "completed",
                "completed / completed / no error"
            ],
            "{model}"
        );
        assert_eq!(result["text"], "whole", "{model}");
        // What is only assumed is not requested, so the server's own limit holds.
        assert_eq!(output_limits(&world), [None, Some(64_000)], "{model}");
    }
}

#[test]
fn refused_output_limit_is_lowered_and_reported_once() {
    let refusals = [
        (
            400,
            "max_tokens is too large: 64000. This model supports at most 16384 completion tokens.",
            16_384,
        ),
        (
            400,
            "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens",
            32_000,
        ),
        (422, "max_tokens 64000 is too large", 8_000),
        (400, "this model writes short answers only", 8_000),
        (
            400,
            "This model's maximum context length is 65536 tokens. However, you requested 66000 tokens",
            8_000,
        ),
        (
            402,
            "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens.",
            8_000,
        ),
    ];
    for (status, words, lowered) in refusals {
        let world = World::new();
        world.mock().push(Reply::text("half").stop("max_tokens"));
        world
            .mock()
            .push(Reply::error(status, "invalid_request_error", words));
        world.mock().push(Reply::text("one").stop("max_tokens"));
        world.mock().push(Reply::text(" two"));
        let client = world.start();
        let session = client.session_with(json!({"model": "other/other-model"}));
        let result = json!(client.ask(&session, "count"));
        assert_eq!(
            course(&client, &session, &result),
            [
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                "completed / completed / no error"
            ],
            "{words}"
        );
        assert_eq!(
            output_limits(&world),
            [None, Some(64_000), Some(lowered), Some(lowered)],
            "{words}"
        );
        assert!(client.all(&session, "agent/retry").is_empty(), "{words}");
        // The next turn remembers the lower limit.
        world.mock().push(Reply::text("half").stop("max_tokens"));
        client.ask(&session, "again");
        assert!(
            output_limits(&world)[4..]
                .iter()
                .all(|limit| limit.is_some_and(|limit| limit <= lowered)),
            "{words}"
        );
        let warnings = client.all(&session, "agent/warning");
        let warnings = warnings
            .iter()
            .filter(|notification| notification.text("code") == "output_limit");
        assert_eq!(warnings.count(), 1, "{words}");
    }
}
