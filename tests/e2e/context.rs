//! A full context window (R-CTX): the request shrinks, the client sees it, and the stored history loses nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Id, Notification, World, now};
use crate::mock_llm::{Gate, RecordedRequest, Reply};
use crate::reading::DOT;

/// About 500 tokens.
fn long_prompt(name: &str) -> String {
    format!("{name}: {}", "lorem ipsum ".repeat(165))
}

/// An answer without a token count, so that it does not correct the estimate.
fn uncounted_ok() -> Reply {
    Reply::text("ok").tokens(0, 0)
}

fn notes() -> Reply {
    Reply::text("the user wants lorem ipsum").tokens(0, 0)
}

fn too_long() -> Reply {
    Reply::error(400, "invalid_request_error", "prompt is too long")
}

fn image_refused() -> Reply {
    Reply::error(400, "invalid_request_error", "Could not process image")
}

fn asks_for_notes(request: &RecordedRequest) -> bool {
    let raw = String::from_utf8_lossy(&request.raw);
    raw.contains("You write the notes with which a coding agent continues")
}

/// Returns one line per message of a request: its role and the start of its text.
fn message_outline(request: &RecordedRequest) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| {
            let first = &message["content"][0];
            let text = match first["type"].as_str() {
                Some("text") => first["text"].as_str().unwrap(),
                Some(other) => other,
                None => message["content"].as_str().unwrap_or("?"),
            };
            let text: String = text.chars().take(31).collect();
            let text = text.split(':').next().unwrap().to_owned();
            format!("{} {text}", message["role"].as_str().unwrap())
        })
        .collect()
}

/// Opens a session and holds `rounds` rounds of talk. The mock answers unscripted requests with "ok".
fn session_with_rounds(world: &World, client: &Client, rounds: usize, params: Value) -> String {
    world.mock().default_reply(uncounted_ok());
    let session = client.session_with(params);
    for round in 0..rounds {
        assert_eq!(client.ask(&session, long_prompt(&format!("q{round}"))).text, "ok");
    }
    session
}

/// Opens a session and holds six rounds of talk with short prompts and answers of about 1,000 tokens.
fn session_with_long_answers(world: &World, client: &Client) -> String {
    let session = client.session();
    add_long_answers(world, client, &session, "q", 6);
    world.mock().default_reply(uncounted_ok());
    session
}

fn add_long_answers(world: &World, client: &Client, session: &str, name: &str, rounds: usize) {
    for round in 0..rounds {
        let answer = format!("fine: {}", "lorem ipsum ".repeat(330));
        world.mock().push(Reply::text(&answer).tokens(0, 0));
        assert_eq!(client.ask(session, format!("{name}{round}")).text, answer);
    }
}

/// Holds three more rounds of talk.
fn add_rounds(client: &Client, session: &str) {
    for round in 0..3 {
        client.ask(session, long_prompt(&format!("more{round}")));
    }
}

/// A configuration with extra tables, for example the window of a model.
fn config_with(tables: &str, agent: &str) -> Config {
    Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        ..Config::default()
    }
}

fn describe_end(result: &Value) -> String {
    format!(
        "{} / {} / {}",
        result["reason"].as_str().unwrap(),
        result["state"].as_str().unwrap(),
        result["error"]["code"].as_str().unwrap_or("no error")
    )
}

/// Returns the reasons of all transitions from index `from` on, then the end of the turn.
fn course(client: &Client, session: &str, from: usize, result: &Value) -> Vec<String> {
    let mut course = client.reasons(session).split_off(from);
    course.push(describe_end(result));
    course
}

fn compactions(client: &Client, session: &str) -> Vec<Arc<Notification>> {
    client.all(session, "agent/compacted")
}

fn warnings(client: &Client, session: &str, code: &str) -> usize {
    let all = client.all(session, "agent/warning");
    all.iter()
        .filter(|notification| notification.text("code") == code)
        .count()
}

fn compact(client: &Client, session: &str) -> Id {
    client.send("agent/compact", json!({"sessionId": session}))
}

#[test]
fn each_recovery_from_a_full_window_has_its_reason() {
    let done = "completed / completed / no error";
    let full = "prompt_too_long / failed / context_limit";
    let read = || Reply::tool("read_file", json!({"path": "a.txt"})).tokens(0, 0);
    let cases: Vec<(&str, bool, Vec<Reply>, Vec<&str>)> = vec![
        (
            "old results become stubs",
            true,
            vec![too_long(), uncounted_ok()],
            vec!["collapse_drain_retry", "completed", done],
        ),
        (
            "without old results it is summarized",
            false,
            vec![too_long(), notes(), uncounted_ok()],
            vec!["reactive_compact_retry", "completed", done],
        ),
        (
            "stubs, then a summary",
            true,
            vec![too_long(), too_long(), notes(), uncounted_ok()],
            vec![
                "collapse_drain_retry",
                "reactive_compact_retry",
                "completed",
                done,
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
                full,
            ],
        ),
        (
            "a successful step allows another compaction",
            false,
            vec![too_long(), notes(), read(), too_long(), notes(), uncounted_ok()],
            vec![
                "reactive_compact_retry",
                "next_turn",
                "reactive_compact_retry",
                "completed",
                done,
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
                full,
            ],
        ),
    ];
    for (name, with_results, replies, wanted) in cases {
        let world = World::new();
        world.write("a.txt", "0123456789\n".repeat(1_000));
        world.mock().allow_rewrites();
        if with_results {
            world.mock().push(read());
        }
        let client = world.start();
        let session = session_with_rounds(&world, &client, 6, json!({}));
        let (before, from) = (world.requests(), client.reasons(&session).len());
        let count = replies.len();
        replies.into_iter().for_each(|reply| world.mock().push(reply));
        let result = json!(client.ask(&session, "and now?"));
        assert_eq!(
            course(&client, &session, from, &result),
            wanted,
            "{name}: {result}"
        );
        assert_eq!(world.requests() - before, count, "{name}");
        // Every request keeps the first message and the current prompt.
        for at in before..world.requests() {
            let request = world.wait_for_request(at);
            if !asks_for_notes(&request) {
                let outline = message_outline(&request);
                assert_eq!(outline[0], "user q0", "{name}");
                assert!(
                    String::from_utf8_lossy(&request.raw).contains("and now?"),
                    "{name}: {outline:?}"
                );
            }
        }
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
    }
}

#[test]
fn a_new_result_that_fits_no_window_is_shortened_before_the_turn_fails() {
    let read = || Reply::tool("read_file", json!({"path": "long.txt"})).tokens(0, 0);
    let named = || {
        let message = "prompt is too long: 12345 tokens > 9000 maximum";
        Reply::error(400, "invalid_request_error", message)
    };
    let done = "completed / completed / no error";
    let full = "prompt_too_long / failed / context_limit";
    let cases: [(&str, Vec<Reply>, Vec<&str>); 3] = [
        (
            "unknown window",
            vec![read(), too_long(), uncounted_ok()],
            vec!["next_turn", "collapse_drain_retry", "completed", done],
        ),
        (
            "named window",
            vec![read(), named(), uncounted_ok()],
            vec!["next_turn", "collapse_drain_retry", "completed", done],
        ),
        (
            "only once",
            vec![read(), too_long(), too_long()],
            vec!["next_turn", "collapse_drain_retry", "prompt_too_long", full],
        ),
    ];
    for (name, replies, wanted) in cases {
        let world = World::new();
        let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
        world.write("long.txt", lines);
        world.mock().allow_rewrites();
        replies.into_iter().for_each(|reply| world.mock().push(reply));
        let client = world.start();
        let session = client.session();
        let result = json!(client.ask(&session, "read it"));
        assert_eq!(course(&client, &session, 0, &result), wanted, "{name}: {result}");
        let results = |at: usize| world.wait_for_request(at).messages().last().unwrap().to_string();
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
        let client = world.start();
        client.load(&session);
        world.mock().push(Reply::tool(
            "grep",
            json!({"pattern": "line 1500$", "path": path}),
        ));
        assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
        assert!(results(4).contains("line 1500"), "{name}: {}", results(4));
    }
}

#[test]
fn large_prompts_and_a_small_window_never_block_a_session() {
    let world = World::with(config_with(
        "[model.\"other-model\"]\ncontext_window = 32768\n",
        "",
    ));
    world.mock().allow_rewrites();
    world
        .mock()
        .respond_with(|request| (request.raw.len() > 120_000).then(too_long));
    world.mock().default_reply(uncounted_ok());
    let client = world.start();
    let session = client.session_with(json!({"model": "other/other-model"}));
    for round in 0..6 {
        let words = if round < 3 {
            "word ".repeat(9_400)
        } else {
            "short".to_owned()
        };
        let result = json!(client.ask(&session, format!("q{round}: {words}")));
        assert_eq!(
            describe_end(&result),
            "completed / completed / no error",
            "{round}"
        );
    }
    assert!(!compactions(&client, &session).is_empty());
    assert_eq!(warnings(&client, &session, "compaction_failed"), 0);
}

#[test]
fn stubs_of_old_results_say_how_to_get_them_back() {
    let world = World::new();
    world.write("a.txt", "0123456789\n".repeat(1_000));
    world.mock().allow_rewrites();
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt"})).tokens(0, 0));
    let client = world.start();
    let session = session_with_rounds(&world, &client, 6, json!({}));
    world.mock().push(too_long());
    client.ask(&session, "and now?");
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "overflow");
    assert!(compaction.params["tokensAfter"].as_u64() < compaction.params["tokensBefore"].as_u64());
    assert_eq!(
        compaction.params["messagesAfter"],
        compaction.params["messagesBefore"]
    );
    assert_eq!(compaction.params.get("summary"), None);
    let stubbed = |request: &RecordedRequest| {
        let raw = String::from_utf8_lossy(&request.raw).into_owned();
        raw.contains("left out to save room")
            && raw.contains("make the call again")
            && !raw.contains("0123456789")
    };
    let last = || world.wait_for_request(world.requests() - 1);
    assert!(stubbed(&last()));
    client.ask(&session, "more");
    assert!(stubbed(&last()));
    // The stubs survive a restart; the stored history keeps the full results (R-CTX-4).
    drop(client);
    let client = world.start();
    let loaded = json!(client.load(&session).events).to_string();
    assert!(loaded.contains("0123456789") && !loaded.contains("left out to save room"));
    client.ask(&session, "still?");
    assert!(stubbed(&last()));
}

#[test]
fn conversation_above_the_threshold_is_summarized_before_the_call() {
    // The threshold of a window of 30,000 tokens is 16,356.
    let world = World::with(config_with("[model.small]\ncontext_window = 30000", ""));
    let client = world.start();
    world
        .mock()
        .respond_with(|request| asks_for_notes(request).then(notes));
    let session = session_with_rounds(&world, &client, 0, json!({"model": "mock/small"}));
    let mut rounds = 0;
    while compactions(&client, &session).is_empty() {
        assert_eq!(
            client
                .ask(&session, long_prompt(&format!("q{rounds}")).repeat(2))
                .text,
            "ok"
        );
        rounds += 1;
        assert!(rounds < 40, "it is never made smaller");
    }
    let last = rounds - 1;
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "threshold");
    // All of the summarized part but its last three.
    let dropped = last - 6;
    assert_eq!(
        compaction.text("summary"),
        format!(
            "the user wants lorem ipsum\n\n[{dropped} messages of the user from this part are only in these notes]"
        )
    );
    assert!(compaction.params["tokensBefore"].as_u64().unwrap() > 16_356);
    assert!(compaction.params["tokensAfter"].as_u64().unwrap() < 13_000);
    // The note about the environment is one more.
    assert_eq!(compaction.params["messagesBefore"], 2 * last + 2);
    let request = world.wait_for_request(world.requests() - 1);
    // Of what was summarized, the user's newest messages stay, up to an eighth of the window.
    let expected = [
        "user q0".to_owned(),
        format!("user q{}", last - 5),
        format!("user q{}", last - 4),
        format!("user q{}", last - 3),
        "user [Previous conversation summary]".to_owned(),
        "assistant ok".to_owned(),
        format!("user q{}", last - 2),
        "assistant ok".to_owned(),
        format!("user q{}", last - 1),
        "assistant ok".to_owned(),
        format!("user q{last}"),
    ];
    assert_eq!(message_outline(&request), expected);
    let notes_request = world.wait_for_request(world.requests() - 2);
    assert!(asks_for_notes(&notes_request));
    let text = notes_request.last_text();
    let (before, transcript) = text.split_once("Transcript:").unwrap();
    assert!(before.contains("User: q0: lorem"), "{before}");
    assert!(transcript.contains("User: q1: lorem") && !transcript.contains("User: q0"));
    // The summary is not part of the conversation: its usage counts, but its answer is not a message.
    assert_eq!(client.streamed_text(&session), "ok".repeat(rounds));
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    assert_eq!(metrics["session"]["compactions"], 1, "{metrics}");
    assert_eq!(metrics["totals"]["compactions"], 1, "{metrics}");
    // The stored history is complete (R-CTX-4), and a restarted server sends the same request.
    drop(client);
    let client = world.start();
    let loaded = client.load(&session);
    let message_count = loaded
        .events
        .iter()
        .filter(|event| event.method == "agent/message" && event.params["hidden"] != true)
        .count();
    assert_eq!(message_count, 2 * rounds);
    client.ask(&session, "next");
    let second_outline = message_outline(&world.wait_for_request(world.requests() - 1));
    assert_eq!(second_outline[..expected.len()], expected);
}

#[test]
fn provider_token_count_corrects_the_next_estimate() {
    // The threshold of a window of 30,000 tokens is 16,356; the conversation is estimated at half of that.
    let world = World::with(config_with("[model.small]\ncontext_window = 30000", ""));
    let client = world.start();
    world
        .mock()
        .respond_with(|request| asks_for_notes(request).then(notes));
    let session = session_with_rounds(&world, &client, 8, json!({"model": "mock/small"}));
    // If the provider counts nothing, the usage shows the estimate.
    let usage = client.all(&session, "agent/usage").pop().unwrap();
    let used = usage.params["contextUsed"].as_u64().unwrap();
    assert!((4_500..16_356).contains(&used), "{usage:?}");
    world.mock().push(Reply::text("ok").tokens(17_000, 0));
    client.ask(&session, "count");
    assert!(compactions(&client, &session).is_empty());
    client.ask(&session, "next");
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "threshold");
    let before = compaction.params["tokensBefore"].as_u64().unwrap();
    assert!((17_000..17_500).contains(&before), "{compaction:?}");
}

#[test]
fn compaction_threshold_follows_the_settings() {
    let window = "[model.small]\ncontext_window = 40000";
    for (agent, compacts) in [
        ("", false),
        ("compaction_threshold = 0.6", true),
        ("compaction_limit = 22000", true),
        ("output_reserve = 10000", true),
        ("output_reserve = 10000\ncompaction_threshold = 0.9", false),
    ] {
        let world = World::with(config_with(window, agent));
        let client = world.start();
        world
            .mock()
            .respond_with(|request| asks_for_notes(request).then(notes));
        let session = session_with_rounds(&world, &client, 8, json!({"model": "mock/small"}));
        world.mock().push(Reply::text("ok").tokens(22_800, 0));
        client.ask(&session, "count");
        client.ask(&session, "next");
        assert_eq!(!compactions(&client, &session).is_empty(), compacts, "{agent:?}");
    }
}

#[test]
fn prompt_larger_than_the_window_fails_without_a_call() {
    let world = World::with(config_with("[model.small]\ncontext_window = 20000", ""));
    let client = world.start();
    let session = session_with_rounds(&world, &client, 6, json!({"model": "mock/small"}));
    let (before, from) = (world.requests(), client.reasons(&session).len());
    let result = json!(client.ask(&session, "x".repeat(100_000)));
    assert_eq!(
        course(&client, &session, from, &result),
        ["prompt_too_long", "prompt_too_long / failed / context_limit"]
    );
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .contains("20000 tokens"),
        "{result}"
    );
    assert_eq!(world.requests(), before, "no provider is called");
}

#[test]
fn full_window_blocks_without_auto_compact() {
    let world = World::with(config_with(
        "[model.small]\ncontext_window = 20000",
        "auto_compact = false",
    ));
    let client = world.start();
    let session = session_with_rounds(&world, &client, 6, json!({"model": "mock/small"}));
    world.mock().push(too_long());
    let from = client.reasons(&session).len();
    let blocked = ["blocking_limit", "blocking_limit / failed / context_limit"];
    let result = json!(client.ask(&session, "refused"));
    assert_eq!(
        course(&client, &session, from, &result),
        blocked,
        "the provider says so"
    );
    let mut rounds = 0;
    let result = loop {
        let before = world.requests();
        let result = json!(client.ask(&session, long_prompt("more")));
        if world.requests() == before {
            break result;
        }
        rounds += 1;
        assert!(rounds < 40, "the window never fills");
    };
    assert_eq!(describe_end(&result), blocked[1]);
    assert!(
        result["error"]["userAction"]
            .as_str()
            .unwrap()
            .contains("auto_compact"),
        "{result}"
    );
    assert!(compactions(&client, &session).is_empty());
    // `agent/compact` still works.
    world.mock().push(notes());
    assert_eq!(
        describe_end(&client.answer(&compact(&client, &session)).unwrap()),
        "completed / completed / no error"
    );
    assert_eq!(client.ask(&session, "now?").text, "ok");
}

#[test]
fn refused_picture_is_removed_once_and_stays_removed() {
    let world = World::new();
    world.mock().allow_rewrites();
    world.mock().default_reply(uncounted_ok());
    let client = world.start();
    let session = client.session();
    let image_prompt =
        || json!([{"type": "image", "mediaType": "image/png", "data": DOT}, {"type": "text", "text": "see"}]);
    world.mock().push(image_refused());
    let result = json!(client.ask(&session, image_prompt()));
    let done = "completed / completed / no error";
    assert_eq!(
        course(&client, &session, 0, &result),
        ["image_retry", "completed", done]
    );
    let holds = |at: usize| String::from_utf8_lossy(&world.wait_for_request(at).raw).contains("iVBOR");
    assert_eq!([holds(0), holds(1)], [true, false]);
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "picture");
    client.ask(&session, "and?");
    assert!(!holds(2));
    drop(client);
    // Later pictures are tried again; a second refusal in one turn ends the turn.
    let client = world.start();
    client.load(&session);
    world.mock().push(image_refused());
    world.mock().push(image_refused());
    let result = json!(client.ask(&session, image_prompt()));
    assert_eq!(
        course(&client, &session, 0, &result),
        [
            "image_retry",
            "image_error",
            "image_error / failed / provider_error"
        ]
    );
    assert_eq!([holds(3), holds(4)], [true, false]);
    assert_eq!(client.ask(&session, "go on").text, "ok");
    assert!(!holds(5));
}

#[test]
fn overflow_error_teaches_the_window_size_to_all_sessions() {
    let openai = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error"}});
    let cases: Vec<(&str, u16, Value, u64)> = vec![
        (
            "anthropic",
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 150000 maximum"}}),
            150_000,
        ),
        (
            "openai",
            400,
            openai(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            ),
            128_000,
        ),
        (
            "openrouter",
            400,
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "{\"error\":{\"message\":\"This endpoint's maximum context length is 131,072 tokens.\"}}"}}}),
            131_072,
        ),
        (
            "vllm",
            400,
            json!({"object": "error", "message": "This model's maximum context length is 32768 tokens. However, you requested 50000 tokens", "type": "BadRequestError", "code": 400}),
            32_768,
        ),
        (
            "llama.cpp",
            400,
            json!({"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 50000, "n_ctx": 40960}}),
            40_960,
        ),
        (
            "ollama",
            400,
            json!({"error": "input length exceeds the context length"}),
            200_000,
        ),
        (
            "bedrock",
            400,
            json!({"message": "Input is too long for requested model."}),
            200_000,
        ),
    ];
    let world = World::new();
    let client = world.start();
    let window = |session: &str| {
        let usage = client.all(session, "agent/usage");
        usage.last().unwrap().params["contextWindow"].as_u64().unwrap()
    };
    for (name, status, body, learnt) in cases {
        for provider in ["mock", "other", "responses"] {
            let model = format!("{provider}/{name}-model");
            let session = session_with_rounds(&world, &client, 6, json!({"model": model}));
            assert_eq!(window(&session), 200_000, "{model}");
            let reply = Reply::status(status)
                .header("content-type", "application/json")
                .body(body.to_string());
            world.mock().push(reply);
            world.mock().push(notes());
            let result = json!(client.ask(&session, "and now?"));
            assert_eq!(
                describe_end(&result),
                "completed / completed / no error",
                "{model}"
            );
            assert_eq!(window(&session), learnt, "{model}");
            let other = session_with_rounds(&world, &client, 1, json!({"model": model}));
            assert_eq!(window(&other), learnt, "{model}");
        }
    }
}

#[test]
fn failed_summaries_fall_back_to_a_digest_and_disable_compaction_after_three() {
    let world = World::new();
    let client = world.start();
    let session = session_with_rounds(&world, &client, 6, json!({}));
    // An empty summary, one that is not shorter, and an error each count as a failure.
    let failures = [
        Reply::new().tokens(0, 0),
        Reply::text("blah ".repeat(4_000)).tokens(0, 0),
        Reply::error(401, "authentication_error", "no such key"),
    ];
    for (n, failure) in failures.into_iter().enumerate() {
        world.mock().push(too_long());
        world.mock().push(failure);
        assert_eq!(
            client.ask(&session, long_prompt(&format!("p{n}"))).text,
            "ok",
            "{n}"
        );
        let all = compactions(&client, &session);
        assert_eq!(all.len(), n + 1);
        let compaction = &all[n].params;
        assert_eq!(compaction["digest"], true, "{n}: {compaction}");
        assert!(
            compaction["summary"]
                .as_str()
                .unwrap()
                .contains("the user said: q1"),
            "{compaction}"
        );
        assert_eq!(warnings(&client, &session, "compaction_failed"), n + 1);
        assert_eq!(
            warnings(&client, &session, "compaction_rests"),
            usize::from(n == 2)
        );
        for more in 0..3 {
            client.ask(&session, long_prompt(&format!("p{n}{more}")));
        }
    }
    let (before, from) = (world.requests(), client.reasons(&session).len());
    world.mock().push(too_long());
    let result = json!(client.ask(&session, "again"));
    assert_eq!(
        course(&client, &session, from, &result),
        ["prompt_too_long", "prompt_too_long / failed / context_limit"]
    );
    assert_eq!(world.requests(), before + 1, "no summary is requested");
    // It stays disabled after a restart; a successful manual compaction enables it again.
    drop(client);
    let client = world.start();
    client.load(&session);
    world.mock().push(too_long());
    let result = json!(client.ask(&session, "again"));
    assert_eq!(describe_end(&result), "prompt_too_long / failed / context_limit");
    world.mock().push(notes());
    client.answer(&compact(&client, &session)).unwrap();
    for more in 0..3 {
        client.ask(&session, long_prompt(&format!("r{more}")));
    }
    world.mock().push(too_long());
    world.mock().push(notes());
    assert_eq!(client.ask(&session, "and now?").text, "ok");
}

#[test]
fn overflowing_summary_request_shrinks_at_most_three_times() {
    let world = World::new();
    let client = world.start();
    for (refusals, digest) in [(3, false), (4, true)] {
        let session = session_with_rounds(&world, &client, 20, json!({}));
        let before = world.requests();
        world.mock().push(too_long());
        for _ in 0..refusals {
            world.mock().push(too_long());
        }
        if !digest {
            world.mock().push(notes());
        }
        assert_eq!(client.ask(&session, "and now?").text, "ok");
        let sizes: Vec<usize> = (before + 1..world.requests() - 1)
            .map(|at| world.wait_for_request(at))
            .inspect(|request| assert!(asks_for_notes(request)))
            .map(|request| request.raw.len())
            .collect();
        assert_eq!(sizes.len(), 4);
        assert!(
            sizes.windows(2).all(|pair| pair[1] < pair[0] * 2 / 3),
            "{sizes:?}"
        );
        let compaction = &compactions(&client, &session)[0].params;
        assert_eq!(compaction.get("digest").is_some(), digest, "{compaction}");
        // A digest covers the part that the model could not read.
        assert!(
            compaction["summary"]
                .as_str()
                .unwrap()
                .contains("the user said: q1"),
            "{compaction}"
        );
    }
}

#[test]
fn another_model_may_write_the_summary() {
    for (named, model, path) in [
        ("other/cheap", "cheap", "/chat/completions"),
        // The first part is no provider, so it belongs to the name.
        ("Org/model", "Org/model", "/messages"),
    ] {
        let world = World::with(config_with("", &format!("compaction_model = {named:?}")));
        let client = world.start();
        let session = session_with_long_answers(&world, &client);
        world.mock().push(notes());
        client.answer(&compact(&client, &session)).unwrap();
        let request = world.wait_for_request(world.requests() - 1);
        assert_eq!(request.body["model"], model);
        assert!(request.path.ends_with(path), "{}", request.path);
        let usage = client.all(&session, "agent/usage");
        assert_eq!(usage.last().unwrap().params["contextWindow"], 200_000);
    }
}

#[test]
fn manual_compaction_summarizes_on_request() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    world.mock().push(notes());
    let before = world.requests();
    let params = json!({"sessionId": session, "instructions": "keep the numbers"});
    let result: Value = client.call("agent/compact", params);
    assert_eq!(describe_end(&result), "completed / completed / no error");
    assert_eq!(result["text"], "");
    assert_eq!(world.requests(), before + 1);
    let request = world.wait_for_request(before);
    assert!(asks_for_notes(&request) && request.last_text().contains("keep the numbers"));
    let started = client.all(&session, "agent/turnStarted");
    assert_eq!(started.last().unwrap().text("by"), "compact");
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "manual");
    for tokens in ["tokensBefore", "tokensAfter"] {
        assert_eq!(result[tokens], compaction.params[tokens], "{result}");
    }
    assert_eq!(client.ask(&session, "next").text, "ok");
    let sent = message_outline(&world.wait_for_request(before + 1));
    // The user's own words stay.
    assert_eq!(
        sent[..5],
        [
            "user q0",
            "user q1",
            "user q2",
            "user [Previous conversation summary]",
            "user q3"
        ]
    );
    // A short conversation stays unchanged, and the transition says why.
    let short = session_with_rounds(&world, &client, 1, json!({}));
    let result = client.answer(&compact(&client, &short)).unwrap();
    assert_eq!(describe_end(&result), "completed / completed / no error");
    let transition = client.next(&short, "agent/transition");
    assert_eq!(transition.text("reason"), "completed");
    let transition = client.next(&short, "agent/transition");
    assert!(transition.text("detail").contains("short"), "{transition:?}");
    assert_eq!(
        (&result["tokensBefore"], &result["tokensAfter"]),
        (&Value::Null, &Value::Null)
    );
    assert!(compactions(&client, &short).is_empty());
    // So does an empty one.
    let empty = client.session();
    let result = client.answer(&compact(&client, &empty)).unwrap();
    assert_eq!(describe_end(&result), "completed / completed / no error");
}

#[test]
fn manual_compaction_pays_for_no_summary_that_cannot_help() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    for short in ["a", "b", "c"] {
        client.ask(&session, short);
    }
    add_rounds(&client, &session);
    let before = world.requests();
    let result = client.answer(&compact(&client, &session)).unwrap();
    assert_eq!(describe_end(&result), "completed / completed / no error");
    assert_eq!(world.requests(), before);
    assert!(compactions(&client, &session).is_empty());
    let transitions = client.all(&session, "agent/transition");
    let detail = transitions.last().unwrap().text("detail");
    assert!(detail.contains("nothing to compact"), "{detail}");
}

#[test]
fn manual_compaction_drops_nothing_that_the_user_said() {
    let world = World::new();
    let client = world.start();
    let session = session_with_rounds(&world, &client, 6, json!({}));
    let before = world.requests();
    let result = client.answer(&compact(&client, &session)).unwrap();
    assert_eq!(describe_end(&result), "completed / completed / no error");
    assert_eq!(world.requests(), before);
    let transitions = client.all(&session, "agent/transition");
    let detail = transitions.last().unwrap().text("detail");
    assert!(detail.contains("what you said yourself"), "{detail}");
}

#[test]
fn manual_compaction_error_is_reported_and_changes_nothing() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    world
        .mock()
        .push(Reply::error(400, "invalid_request_error", "messages: nonsense"));
    let from = client.reasons(&session).len();
    let result = client.answer(&compact(&client, &session)).unwrap();
    assert_eq!(
        course(&client, &session, from, &result),
        ["model_error", "model_error / failed / provider_error"]
    );
    assert!(compactions(&client, &session).is_empty());
    let before = world.requests();
    client.ask(&session, "next");
    assert_eq!(message_outline(&world.wait_for_request(before)).len(), 13);
}

#[test]
fn manual_compaction_falls_back_to_a_digest() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    let from = client.reasons(&session).len();
    for unusable in [Reply::text(" "), Reply::text("no").stop("refusal")] {
        world.mock().push(unusable.tokens(0, 0));
        let result = client.answer(&compact(&client, &session)).unwrap();
        assert_eq!(describe_end(&result), "completed / completed / no error");
        add_long_answers(&world, &client, &session, "more", 3);
    }
    assert_eq!(client.reasons(&session)[from..], ["completed"; 8]);
    assert_eq!(warnings(&client, &session, "compaction_failed"), 2);
    let notifications = compactions(&client, &session);
    assert!(
        notifications.len() == 2
            && notifications
                .iter()
                .all(|notification| notification.params["digest"] == true),
        "{notifications:?}"
    );
}

#[test]
fn prompt_and_compaction_exclude_each_other() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").tokens(0, 0).gate(&gate));
    let prompt = client.prompt(&session, "wait");
    world.wait_at_gate(&gate);
    let error = client.refused("agent/compact", json!({"sessionId": session}));
    assert_eq!(error.data["refusal"], "turnRunning", "{error:?}");
    gate.release();
    client.prompt_result(&prompt);
    let gate = Gate::new();
    world.mock().push(notes().gate(&gate));
    let id = compact(&client, &session);
    world.wait_at_gate(&gate);
    let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": "x"}));
    assert_eq!(error.data["refusal"], "turnRunning", "{error:?}");
    // A steer during a compaction is returned.
    let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": "and this"}));
    gate.release();
    client.answer(&id).unwrap();
    let end = client.all(&session, "agent/turnEnded").pop().unwrap();
    assert_eq!(
        end.params["unusedSteers"],
        json!([[{"type": "text", "text": "and this"}]])
    );
}

#[test]
fn cancel_ends_a_compaction_immediately() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    for by_request in [false, true] {
        let gate = Gate::new();
        world.mock().push(notes().gate(&gate));
        let at = world.requests();
        let id = compact(&client, &session);
        world.wait_at_gate(&gate);
        let start = now();
        let result = if by_request {
            client.cancel_request(&id);
            client.cancelled(&id)
        } else {
            client.cancel(&session);
            client.prompt_result(&id)
        };
        let took = start.elapsed();
        assert_eq!(
            describe_end(&json!(result)),
            "aborted_streaming / cancelled / cancelled"
        );
        assert!(took < Duration::from_millis(100), "{took:?}");
        assert!(world.closed(&world.wait_for_request(at)).dropped);
        assert!(compactions(&client, &session).is_empty());
        // A canceled compaction cannot be resumed.
        let error = client.refused("agent/resumeTurn", json!({"sessionId": session}));
        assert_eq!(error.data["refusal"], "nothingToResume", "{error:?}");
    }
    // The same within a turn, before its call.
    world.mock().push(too_long());
    let gate = Gate::new();
    world.mock().push(notes().gate(&gate));
    let id = client.prompt(&session, "and now?");
    world.wait_at_gate(&gate);
    client.cancel(&session);
    assert_eq!(
        describe_end(&json!(client.prompt_result(&id))),
        "aborted_streaming / cancelled / cancelled"
    );
    assert!(compactions(&client, &session).is_empty());
    let result: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(result["text"], "ok");
}

#[test]
fn kill_during_a_compaction_loses_only_the_compaction() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    // An earlier canceled turn must stay resumable.
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").tokens(0, 0).gate(&gate));
    let id = client.prompt(&session, "wait");
    world.wait_at_gate(&gate);
    // Text that has arrived stays in the history, so wait for it.
    client.next_matching(&session, "agent/textDelta", |notification| {
        notification.text("text") == "hm"
    });
    client.cancel(&session);
    client.prompt_result(&id);
    let gate = Gate::new();
    world.mock().push(notes().gate(&gate));
    let _cut = compact(&client, &session);
    world.wait_at_gate(&gate);
    client.kill();
    let client = world.start();
    let loaded = client.load(&session);
    assert!(loaded.state.running_turn_id.is_none());
    assert!(loaded.state.resumable_turn_id.is_some());
    let text = json!(loaded.events).to_string();
    assert!(text.contains("server_stopped") && !text.contains("agent/compacted"));
    let before = world.requests();
    let result: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(result["text"], "ok");
    assert_eq!(message_outline(&world.wait_for_request(before)).len(), 15);
    world.mock().push(notes());
    client.answer(&compact(&client, &session)).unwrap();
    assert_eq!(compactions(&client, &session).len(), 1);
    assert_eq!(client.ask(&session, "next").text, "ok");
}
