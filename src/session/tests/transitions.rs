//! Every reason of the turn loop, as the transitions that a client sees.

use std::sync::Arc;

use serde_json::{Value, json};

use super::mock_llm::{Cut, Gate, Reply};
use super::scenario::{Client, Config, Scenario, read_file, write_file};
use crate::domain::*;

/// Returns the messages that were retracted.
fn retracted(client: &Client, session: &SessionId) -> Vec<MessageId> {
    client.all(session, |event| match event {
        Event::MessageRetracted { message, .. } => Some(message.clone()),
        _ => None,
    })
}

/// Answers, and the course of the turn that they make.
type OutcomeCase = (&'static str, Vec<Reply>, Vec<&'static str>);

fn truncated_text() -> Reply {
    Reply::text("half an ans").stop("max_tokens")
}

fn truncated_call(leading_text: &str) -> Reply {
    let call = "{\"path\": \"x\"";
    Reply::new()
        .with_text(leading_text)
        .call_raw("write_file", call, 100)
        .stop("max_tokens")
}

fn overloaded() -> Reply {
    Reply::error(529, "overloaded_error", "Overloaded")
}

fn truncated_outcomes() -> Vec<OutcomeCase> {
    let completed = "completed / completed / no error";
    vec![
        (
            "truncated once",
            vec![truncated_text(), Reply::text("whole")],
            vec!["max_output_tokens_escalate", "completed", completed],
        ),
        (
            "truncated twice",
            vec![truncated_text(), truncated_text(), Reply::text("the rest")],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                completed,
            ],
        ),
        (
            "truncated forever",
            (0..5).map(|_| truncated_text()).collect(),
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
                completed,
            ],
        ),
        (
            "truncated before any text",
            vec![truncated_call(""), truncated_call(""), Reply::text("in pieces")],
            vec![
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                completed,
            ],
        ),
        (
            "paused",
            vec![
                Reply::text("first").stop("pause_turn"),
                Reply::text("second").stop("pause_turn"),
                Reply::text("third"),
            ],
            vec!["pause_turn", "pause_turn", "completed", completed],
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
    ]
}

/// A call that the server has not recognized.
const CALL_IN_TEXT: &str =
    "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"touch x\"}}\n</tool_call>";

fn answered_outcomes() -> Vec<OutcomeCase> {
    let completed = "completed / completed / no error";
    vec![
        ("an answer", vec![Reply::text("hi")], vec!["completed", completed]),
        (
            "a tool, then an answer",
            vec![read_file("a.txt"), Reply::text("hi")],
            vec!["next_turn", "completed", completed],
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
            vec!["next_turn", "next_turn", "completed", completed],
        ),
        (
            "blank text before a tool",
            vec![
                Reply::new()
                    .with_text("\n\n")
                    .call("read_file", json!({"path": "a.txt"})),
                Reply::text("\n hi"),
            ],
            vec!["next_turn", "completed", completed],
        ),
        (
            "a tool call as text",
            vec![Reply::text(CALL_IN_TEXT), Reply::text("hi")],
            vec!["next_turn", "completed", completed],
        ),
        (
            "empty once",
            vec![Reply::new(), Reply::text("hi")],
            vec!["empty_response_retry", "completed", completed],
        ),
    ]
}

fn failed_outcomes() -> Vec<OutcomeCase> {
    vec![
        (
            "refused",
            vec![Reply::text("no").stop("refusal")],
            vec!["refused", "refused / failed / provider_error"],
        ),
        (
            "refused with a tool call",
            vec![read_file("a.txt").stop("refusal")],
            vec!["refused", "refused / failed / provider_error"],
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
            "a tool call as text again",
            vec![Reply::text(CALL_IN_TEXT), Reply::text(CALL_IN_TEXT)],
            vec![
                "next_turn",
                "model_error",
                "model_error / failed / provider_error",
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
    ]
}

#[test]
fn each_outcome_has_its_reason() {
    let cases = [answered_outcomes(), truncated_outcomes(), failed_outcomes()];
    for (name, replies, wanted) in cases.into_iter().flatten() {
        let scenario = Scenario::new();
        scenario.write("a.txt", "a\n");
        let count = replies.len();
        for reply in replies {
            scenario.push(reply);
        }
        let client = scenario.start();
        let session = client.session();
        let outcome = client.ask(&session, "do it");
        assert_eq!(client.course(&session, &outcome), wanted, "{name}: {outcome:?}");
        assert_eq!(scenario.requests(), count, "{name}");
        assert_eq!(scenario.read("x"), None, "{name}");
        // Whatever happened, the history is valid for the next call (the mock checks it).
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
    }
}

#[test]
fn a_call_as_text_is_warned_of_once_and_asked_about_in_each_turn() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    for _ in 0..2 {
        scenario.push(Reply::text(CALL_IN_TEXT));
        scenario.push(Reply::text("hi"));
        assert_eq!(client.ask(&session, "do it").text, "hi");
    }
    assert_eq!(scenario.read("x"), None);
    let warnings = client.warnings(&session, "call_in_text");
    assert!(
        warnings.len() == 1 && warnings[0].contains("--tool-call-parser"),
        "{warnings:?}"
    );
    let questions = client.all(&session, |event| match event {
        Event::Message(message) if message.text().contains("not recognized as a call") => {
            Some(message.hidden)
        }
        _ => None,
    });
    assert_eq!(questions, [true, true]);
}

#[test]
fn a_thought_whose_start_is_in_the_prompt_is_warned_of_once() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    for _ in 0..2 {
        scenario.push(Reply::text("Hm.\n</think>\n\nhi"));
        client.ask(&session, "do it");
    }
    let warnings = client.warnings(&session, "thought_in_text");
    assert!(
        warnings.len() == 1 && warnings[0].contains("--reasoning-parser"),
        "{warnings:?}"
    );
}

#[test]
fn cut_answer_is_retried_with_a_larger_limit_then_continued() {
    let scenario = Scenario::new();
    for text in ["one", "two", " three"] {
        scenario.push(Reply::text(text).stop("max_tokens"));
    }
    scenario.push(Reply::text(" four"));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "count").text, "two three four");
    assert_eq!(
        output_limits(&scenario),
        [32_000, 64_000, 64_000, 64_000].map(Some)
    );
    // The first answer is retracted, the others stay, and the model is asked to continue where it stopped.
    let deltas = client.deltas(&session);
    let Some(Delta::Text { message: first, .. }) = deltas.first() else {
        panic!("{deltas:?}")
    };
    assert_eq!(retracted(&client, &session), std::slice::from_ref(first));
    let messages = client.all(&session, |event| match event {
        Event::Message(message) if !message.text().contains("<environment>") => Some(message.clone()),
        _ => None,
    });
    let starts: Vec<String> = messages
        .iter()
        .map(|message| message.text().chars().take(15).collect())
        .collect();
    let described: Vec<(Role, &str, bool)> = messages
        .iter()
        .zip(&starts)
        .map(|(message, start)| (message.role, start.as_str(), message.hidden))
        .collect();
    let ask = (Role::User, "Your answer was", true);
    assert_eq!(
        described,
        [
            (Role::User, "count", false),
            (Role::Assistant, "two", false),
            ask,
            (Role::Assistant, " three", false),
            ask,
            (Role::Assistant, " four", false),
        ]
    );
}

#[test]
fn result_contains_the_whole_answer_of_a_continued_turn() {
    let cut = |text: &str| Reply::text(text).stop("max_tokens");
    let paused = |text: &str| Reply::text(text).stop("pause_turn");
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
        (
            vec![paused("look "), read_file("a.txt"), Reply::text("seen")],
            "seen",
        ),
    ] {
        let scenario = Scenario::new();
        scenario.write("a.txt", "one\n");
        for reply in replies {
            scenario.push(reply);
        }
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "count").text, text);
    }
}

#[test]
fn output_escalation_double_doubles_the_limit() {
    let scenario = Scenario::with(Config {
        agent: "output_escalation = \"double\"".to_owned(),
        tables: "[model.\"other-model\"]\nmax_output_tokens = 256000\ncontext_window = 1000000".to_owned(),
        ..Config::default()
    });
    for _ in 0..5 {
        scenario.push(Reply::text("half").stop("max_tokens"));
    }
    let client = scenario.start();
    let session = client.session_of_model("other/other-model");
    assert_eq!(client.ask(&session, "count").text, "halfhalfok");
    assert_eq!(
        output_limits(&scenario),
        [32_000, 64_000, 128_000, 256_000, 256_000, 256_000].map(Some)
    );
}

#[test]
fn token_target_keeps_the_model_working() {
    let scenario = Scenario::with_agent("token_target = 2000");
    for tokens in [600, 100, 1_200] {
        scenario.push(Reply::text("done").tokens(10, tokens));
    }
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "work");
    assert_eq!(
        client.course(&session, &outcome),
        [
            "token_budget_continuation",
            "token_budget_continuation",
            "completed",
            "completed / completed / no error"
        ]
    );
    for (request, percent) in [(1, "30 %"), (2, "35 %")] {
        let text = scenario.wait_for_request(request).last_text();
        assert!(text.starts_with(percent), "{text}");
    }
}

#[test]
fn three_fruitless_nudges_in_a_row_end_the_turn() {
    let scenario = Scenario::with_agent("token_target = 20000");
    // The first answer does not count: no nudge preceded it.
    for tokens in [600, 499, 10, 10] {
        scenario.push(Reply::text("done").tokens(10, tokens));
    }
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "work");
    let nudge = "token_budget_continuation";
    assert_eq!(
        client.course(&session, &outcome),
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
    let scenario = Scenario::with_tables("[model.\"other-model\"]\nmax_output_tokens = 8192");
    scenario.push(Reply::text("one").stop("max_tokens"));
    scenario.push(Reply::text(" two"));
    let client = scenario.start();
    let session = client.session_of_model("other/other-model");
    let outcome = client.ask(&session, "count");
    assert_eq!(
        client.course(&session, &outcome),
        [
            "max_output_tokens_recovery",
            "completed",
            "completed / completed / no error"
        ]
    );
    assert_eq!(retracted(&client, &session), []);
}

#[test]
fn the_model_learns_which_call_was_cut_off() {
    let scenario = Scenario::new();
    for reply in [truncated_call(""), truncated_call(""), Reply::text("in pieces")] {
        scenario.push(reply);
    }
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    assert_eq!(client.ask(&session, "write it").text, "in pieces");
    let asked = scenario.mock().requests()[2]
        .messages()
        .last()
        .unwrap()
        .to_string();
    assert!(
        asked.contains("while it called write_file (after 12 characters of its input)"),
        "{asked}"
    );
}

#[test]
fn step_limit_ends_a_turn() {
    let scenario = Scenario::with_agent("max_iterations = 3");
    scenario.write("a.txt", "a\n");
    scenario.mock().default_reply(read_file("a.txt"));
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        [
            "next_turn",
            "next_turn",
            "max_turns",
            "max_turns / failed / max_iterations"
        ]
    );
    assert_eq!(
        outcome.end.error.unwrap().message,
        "reached 3 iterations without completion"
    );
    assert_eq!(scenario.requests(), 3);
    scenario.mock().default_reply(Reply::text("done"));
    assert_eq!(client.ask(&session, "go on").text, "done");
}

#[test]
fn missing_key_error_names_the_provider() {
    let scenario = Scenario::with(Config {
        full_text: Some(
            "[provider.anthropic]\nmodel = \"m\"\n[agent.default]\nprovider = \"anthropic\"\n".to_owned(),
        ),
        ..Config::default()
    });
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        ["not_configured", "not_configured / failed / config"]
    );
    let message = outcome.end.error.unwrap().message;
    assert!(message.contains("anthropic"), "{message}");
}

#[test]
fn unreachable_provider_is_a_model_error() {
    let scenario = Scenario::with_provider("max_retries = 1");
    scenario.mock().default_reply(Reply::hang_up(Cut::Reset));
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        ["model_error", "model_error / failed / provider_error"]
    );
    assert_eq!(outcome.end.error.unwrap().attempts, Some(2));
}

#[test]
fn cancel_reason_distinguishes_streaming_and_tools() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    scenario.push(Reply::text("hm").gate(&gate));
    scenario.push(write_file("x", "x"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.next_text(&session);
    client.cancel(&session);
    let outcome = client.outcome(turn);
    assert_eq!(
        client.course(&session, &outcome),
        ["aborted_streaming / cancelled / cancelled"]
    );
    let turn = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.cancel(&session);
    let outcome = client.outcome(turn);
    assert_eq!(
        client.course(&session, &outcome),
        ["aborted_tools / cancelled / cancelled"]
    );
    assert_eq!(scenario.read("x"), None);
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

/// Returns the output limits of all requests so far.
fn output_limits(scenario: &Scenario) -> Vec<Option<u64>> {
    let limit = |body: &Value| {
        let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        names.iter().find_map(|name| body[*name].as_u64())
    };
    let requests: Vec<Arc<_>> = scenario.mock().requests();
    requests.iter().map(|request| limit(&request.body)).collect()
}

#[test]
fn unknown_output_limit_escalates_to_the_default() {
    for model in ["other/other-model", "responses/responses-model"] {
        let scenario = Scenario::new();
        scenario.push(Reply::text("half").stop("max_tokens"));
        scenario.push(Reply::text("whole"));
        let client = scenario.start();
        let session = client.session_of_model(model);
        let outcome = client.ask(&session, "count");
        assert_eq!(
            client.course(&session, &outcome),
            [
                "max_output_tokens_escalate",
                "completed",
                "completed / completed / no error"
            ],
            "{model}"
        );
        assert_eq!(outcome.text, "whole", "{model}");
        // What is only assumed is not requested, so the server's own limit holds.
        assert_eq!(output_limits(&scenario), [None, Some(64_000)], "{model}");
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
        let scenario = Scenario::new();
        scenario.push(Reply::text("half").stop("max_tokens"));
        scenario.push(Reply::error(status, "invalid_request_error", words));
        scenario.push(Reply::text("one").stop("max_tokens"));
        scenario.push(Reply::text(" two"));
        let client = scenario.start();
        let session = client.session_of_model("other/other-model");
        let outcome = client.ask(&session, "count");
        assert_eq!(
            client.course(&session, &outcome),
            [
                "max_output_tokens_escalate",
                "max_output_tokens_recovery",
                "completed",
                "completed / completed / no error"
            ],
            "{words}"
        );
        assert_eq!(
            output_limits(&scenario),
            [None, Some(64_000), Some(lowered), Some(lowered)],
            "{words}"
        );
        assert_eq!(client.retry_delays(&session), [0; 0], "{words}");
        // The next turn remembers the lower limit.
        scenario.push(Reply::text("half").stop("max_tokens"));
        client.ask(&session, "again");
        let later = &output_limits(&scenario)[4..];
        assert!(
            later
                .iter()
                .all(|limit| limit.is_some_and(|limit| limit <= lowered)),
            "{words}: {later:?}"
        );
        assert_eq!(client.warnings(&session, "output_limit").len(), 1, "{words}");
    }
}
