//! What a turn tries when the provider refuses a request as too long, or refuses a picture.

use serde_json::{Value, json};

use super::mock_llm::{RecordedRequest, Reply};
use super::scenario::{Scenario, picture, read_file};
use super::*;

fn image_refused() -> Reply {
    Reply::error(400, "invalid_request_error", "Could not process image")
}

fn read(file: &str) -> Reply {
    read_file(file).tokens(0, 0)
}

/// What the case shows, whether there are old results, the answers, and the course of the turn.
type RecoveryCase = (&'static str, bool, Vec<Reply>, Vec<&'static str>);

fn recovery_cases() -> Vec<RecoveryCase> {
    vec![
        (
            "old results become stubs",
            true,
            vec![too_long(), uncounted_ok()],
            vec!["collapse_drain_retry", "completed", DONE],
        ),
        (
            "without old results it is summarized",
            false,
            vec![too_long(), notes(), uncounted_ok()],
            vec!["reactive_compact_retry", "completed", DONE],
        ),
        (
            "stubs, then a summary",
            true,
            vec![too_long(), too_long(), notes(), uncounted_ok()],
            vec![
                "collapse_drain_retry",
                "reactive_compact_retry",
                "completed",
                DONE,
            ],
        ),
        (
            "still too long after both",
            true,
            vec![too_long(), too_long(), notes(), too_long()],
            vec![
                "collapse_drain_retry",
                "reactive_compact_retry",
                "prompt_too_long",
                FULL,
            ],
        ),
    ]
}

fn repeated_recovery_cases() -> Vec<RecoveryCase> {
    vec![
        (
            "a successful step allows another compaction",
            false,
            vec![
                too_long(),
                notes(),
                read("b0.txt"),
                read("b1.txt"),
                read("b2.txt"),
                read("b3.txt"),
                too_long(),
                notes(),
                uncounted_ok(),
            ],
            vec![
                "reactive_compact_retry",
                "next_turn",
                "next_turn",
                "next_turn",
                "next_turn",
                "reactive_compact_retry",
                "completed",
                DONE,
            ],
        ),
        (
            "a new result is shortened if little else can go",
            false,
            vec![too_long(), notes(), read("a.txt"), too_long(), uncounted_ok()],
            vec![
                "reactive_compact_retry",
                "next_turn",
                "collapse_drain_retry",
                "completed",
                DONE,
            ],
        ),
        (
            "an empty answer in between does not restore it",
            false,
            vec![too_long(), notes(), Reply::new().tokens(0, 0), too_long()],
            vec![
                "reactive_compact_retry",
                "empty_response_retry",
                "prompt_too_long",
                FULL,
            ],
        ),
    ]
}

#[test]
fn each_recovery_from_a_full_window_has_its_reason() {
    let cases = recovery_cases().into_iter().chain(repeated_recovery_cases());
    for (name, with_results, replies, wanted) in cases {
        let scenario = Scenario::new();
        scenario.write("a.txt", "0123456789\n".repeat(1_000));
        for short in 0..4 {
            scenario.write(&format!("b{short}.txt"), "0123456789\n".repeat(120));
        }
        scenario.mock().allow_rewrites();
        if with_results {
            scenario.push(read("a.txt"));
        }
        let client = scenario.start();
        let session = session_with_rounds(&client, 6);
        let (before, from) = (scenario.requests(), client.reasons(&session).len());
        let count = replies.len();
        scenario.push_all(replies);
        let outcome = client.ask(&session, "and now?");
        assert_eq!(
            course(&client, &session, from, &outcome),
            wanted,
            "{name}: {outcome:?}"
        );
        assert_eq!(scenario.requests() - before, count, "{name}");
        // Every request keeps the first message and the current prompt.
        for at in before..scenario.requests() {
            let request = scenario.wait_for_request(at);
            if !asks_for_notes(&request) {
                let outline = message_outline(&request);
                assert_eq!(outline[0], "user q0", "{name}");
                assert!(
                    scenario.raw_request(at).contains("and now?"),
                    "{name}: {outline:?}"
                );
            }
        }
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
    }
}

#[test]
fn a_new_result_that_fits_no_window_is_shortened_before_the_turn_fails() {
    let named = || {
        let message = "prompt is too long: 12345 tokens > 9000 maximum";
        Reply::error(400, "invalid_request_error", message)
    };
    let cases: [(&str, [Reply; 2], Vec<&str>); 3] = [
        (
            "unknown window",
            [too_long(), uncounted_ok()],
            vec!["next_turn", "collapse_drain_retry", "completed", DONE],
        ),
        (
            "named window",
            [named(), uncounted_ok()],
            vec!["next_turn", "collapse_drain_retry", "completed", DONE],
        ),
        (
            "only once",
            [too_long(), too_long()],
            vec!["next_turn", "collapse_drain_retry", "prompt_too_long", FULL],
        ),
    ];
    for (name, replies, wanted) in cases {
        let scenario = Scenario::new();
        let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
        scenario.write("long.txt", lines);
        scenario.mock().allow_rewrites();
        scenario.push(read("long.txt"));
        scenario.push_all(replies);
        let client = scenario.start();
        let session = client.session();
        let outcome = client.ask(&session, "read it");
        assert_eq!(
            course(&client, &session, 0, &outcome),
            wanted,
            "{name}: {outcome:?}"
        );
        let results = |at: usize| json!(scenario.wait_for_request(at).messages().last()).to_string();
        assert!(results(1).len() > 30_000, "{name}: {}", results(1));
        let shortened = results(2);
        assert!(shortened.len() < 6_000, "{name}: {shortened}");
        for part in ["line 0\\n", "line 1", "characters cut", "tool-output:"] {
            assert!(shortened.contains(part), "{name}, {part}: {shortened}");
        }
        // The path leads to all of it, also after a restart.
        let path = shortened.split("`tool-output:").nth(1).unwrap();
        let path = format!("tool-output:{}", path.split('`').next().unwrap());
        drop(client);
        let client = scenario.start();
        client.load(&session);
        let grep = json!({"pattern": "line 1500$", "path": path});
        scenario.push(Reply::tool("grep", grep));
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
        assert!(results(4).contains("line 1500"), "{name}: {}", results(4));
    }
}

#[test]
fn the_biggest_results_are_shortened_before_a_summary_if_nobody_knows_the_window() {
    let scenario = Scenario::new();
    let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
    scenario.write("long.txt", lines);
    scenario.mock().allow_rewrites();
    let client = scenario.start();
    let session = session_with_rounds(&client, 6);
    let from = client.reasons(&session).len();
    scenario.push_all([read("long.txt"), too_long(), uncounted_ok()]);
    let outcome = client.ask(&session, "and now?");
    assert_eq!(
        course(&client, &session, from, &outcome),
        ["next_turn", "collapse_drain_retry", "completed", DONE]
    );
    let sent = String::from_utf8_lossy(&last_request(&scenario).raw).into_owned();
    assert!(
        sent.contains("line 0\\n") && sent.contains("characters cut"),
        "{}",
        sent.len()
    );
    assert!(sent.contains("q1: lorem"), "nothing is summarized");
}

#[test]
fn stubs_of_old_results_say_how_to_get_them_back() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "0123456789\n".repeat(1_000));
    scenario.mock().allow_rewrites();
    scenario.push(read("a.txt"));
    let client = scenario.start();
    let session = session_with_rounds(&client, 6);
    scenario.push(too_long());
    client.ask(&session, "and now?");
    let compaction = compactions(&client, &session).swap_remove(0);
    assert_eq!(compaction.trigger, CompactTrigger::Overflow);
    assert!(compaction.tokens_after < compaction.tokens_before);
    assert_eq!(compaction.messages_after, compaction.messages_before);
    assert_eq!(compaction.summary, None);
    let is_stubbed = |request: &RecordedRequest| {
        let raw = String::from_utf8_lossy(&request.raw);
        raw.contains("left out to save room")
            && raw.contains("make the call again")
            && !raw.contains("0123456789")
    };
    assert!(is_stubbed(&last_request(&scenario)));
    client.ask(&session, "more");
    assert!(is_stubbed(&last_request(&scenario)));
    // The stubs survive a restart; the stored history keeps the full results.
    drop(client);
    let client = scenario.start();
    client.load(&session);
    let stored = json!(client.stored_events(&session)).to_string();
    assert!(stored.contains("0123456789") && !stored.contains("left out to save room"));
    client.ask(&session, "still?");
    assert!(is_stubbed(&last_request(&scenario)));
}

#[test]
fn refused_picture_is_removed_once_and_stays_removed() {
    let scenario = Scenario::new();
    scenario.mock().allow_rewrites();
    scenario.mock().default_reply(uncounted_ok());
    let client = scenario.start();
    let session = client.session();
    let image_prompt = || vec![picture(), Block::Text("see".to_owned())];
    scenario.push(image_refused());
    let outcome = client.outcome(client.prompt_blocks(&session, image_prompt()));
    assert_eq!(
        course(&client, &session, 0, &outcome),
        ["image_retry", "completed", DONE]
    );
    let has_picture = |at: usize| scenario.raw_request(at).contains("iVBOR");
    assert_eq!([has_picture(0), has_picture(1)], [true, false]);
    let compaction = compactions(&client, &session).swap_remove(0);
    assert_eq!(compaction.trigger, CompactTrigger::Picture);
    client.ask(&session, "and?");
    assert!(!has_picture(2));
    drop(client);
    // Later pictures are tried again; a second refusal in one turn ends the turn.
    let client = scenario.start();
    client.load(&session);
    scenario.push_all([image_refused(), image_refused()]);
    let outcome = client.outcome(client.prompt_blocks(&session, image_prompt()));
    assert_eq!(
        course(&client, &session, 0, &outcome),
        [
            "image_retry",
            "image_error",
            "image_error / failed / provider_error"
        ]
    );
    assert_eq!([has_picture(3), has_picture(4)], [true, false]);
    assert_eq!(client.ask(&session, "go on").text, "ok");
    assert!(!has_picture(5));
}

/// A provider, the body of its error for a prompt that is too long, and the window that it names.
fn overflow_bodies() -> Vec<(&'static str, Value, u64)> {
    let openai = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error"}});
    vec![
        (
            "anthropic",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 150000 maximum"}}),
            150_000,
        ),
        (
            "openai",
            openai(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            ),
            128_000,
        ),
        (
            "openrouter",
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "{\"error\":{\"message\":\"This endpoint's maximum context length is 131,072 tokens.\"}}"}}}),
            131_072,
        ),
        (
            "vllm",
            json!({"object": "error", "message": "This model's maximum context length is 32768 tokens. However, you requested 50000 tokens", "type": "BadRequestError", "code": 400}),
            32_768,
        ),
        (
            "llama.cpp",
            json!({"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 50000, "n_ctx": 40960}}),
            40_960,
        ),
        (
            "ollama",
            json!({"error": "input length exceeds the context length"}),
            200_000,
        ),
        (
            "bedrock",
            json!({"message": "Input is too long for requested model."}),
            200_000,
        ),
    ]
}

#[test]
fn overflow_error_teaches_the_window_size_to_all_sessions() {
    let scenario = Scenario::new();
    let client = scenario.start();
    for (name, body, learned) in overflow_bodies() {
        for provider in ["mock", "other", "responses"] {
            let model = format!("{provider}/{name}-model");
            let session = session_of_model_with_rounds(&client, &model, 6);
            assert_eq!(last_window(&client, &session), 200_000, "{model}");
            let refusal = Reply::status(400)
                .header("content-type", "application/json")
                .body(body.to_string());
            scenario.push_all([refusal, notes()]);
            let outcome = client.ask(&session, "and now?");
            assert_eq!(describe_end(&outcome), DONE, "{model}");
            assert_eq!(last_window(&client, &session), learned, "{model}");
            let other = session_of_model_with_rounds(&client, &model, 1);
            assert_eq!(last_window(&client, &other), learned, "{model}");
        }
    }
}
