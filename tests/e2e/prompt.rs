//! Prompts and their answers: streaming, steers, references, images, usage (R-WIRE, R-WIRE-1, R-WIRE-3).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::World;
use crate::mock_llm::{Gate, Reply};
use crate::reading::DOT;

#[test]
fn answer_streams_and_completes_the_prompt() {
    let world = World::new();
    world.mock().push(Reply::text(
        "Hello, dear world: ünïcödé 🦀 and \u{1b}[31mred\u{1b}[0m.",
    ));
    let client = world.start();
    let session = client.session();
    let result = client.ask(&session, "hello");
    assert_eq!(
        result.text,
        "Hello, dear world: ünïcödé 🦀 and \u{1b}[31mred\u{1b}[0m."
    );
    assert_eq!(
        (json!(result.reason), json!(result.state)),
        (json!("completed"), json!("completed"))
    );
    assert_eq!(client.streamed_text(&session), result.text);
    assert_eq!(client.reasons(&session), ["completed"]);
    let methods: Vec<String> = client
        .notes()
        .iter()
        .filter(|notification| {
            notification.text("sessionId") == session && !notification.method.ends_with("Delta")
        })
        .map(|notification| notification.method.clone())
        .collect();
    assert_eq!(
        methods,
        [
            "agent/turnStarted",
            "agent/sessionUpdated",
            "agent/message",
            "agent/sessionUpdated",
            // The hidden note about the environment.
            "agent/message",
            "agent/usage",
            "agent/message",
            "agent/transition",
            "agent/turnEnded",
        ],
    );
}

#[test]
fn both_apis_serve_a_turn_with_a_tool() {
    for model in ["mock/mock-model", "other/other-model"] {
        let world = World::new();
        world.write("a.txt", "the content of a\n");
        world.mock().push(
            Reply::new()
                .with_text("I look.")
                .call("read_file", json!({"path": "a.txt"})),
        );
        world.mock().push(Reply::text("It says: the content of a."));
        let client = world.start();
        let session = client.session_with(json!({"model": model}));
        let result = client.ask(&session, "what is in a.txt?");
        assert_eq!(result.text, "It says: the content of a.", "{model}");
        assert_eq!(client.reasons(&session), ["next_turn", "completed"], "{model}");
        let second = world.wait_for_request(1);
        assert!(
            String::from_utf8_lossy(&second.raw).contains("the content of a"),
            "{model}"
        );
    }
}

#[test]
fn answer_follows_all_notifications_of_its_turn() {
    // For every answer the test client checks that the turn's end came first, with the same text.
    let world = World::new();
    let client = world.start();
    let session = client.session();
    for round in 0..200 {
        let text = format!("answer {round} of many words, in pieces");
        world.mock().push(Reply::text(text.clone()).pieces(3));
        assert_eq!(client.ask(&session, format!("round {round}")).text, text);
    }
    assert_eq!(client.all(&session, "agent/turnEnded").len(), 200);
}

#[test]
fn second_prompt_is_refused_and_suggests_steer() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("first").gate(&gate));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": "two"}));
    assert_eq!(error.code, -32803);
    assert!(error.message.contains("agent/steer"), "{error:?}");
    assert_eq!(error.data["refusal"], "turnRunning");
    assert_eq!(error.data["class"], "retryable");
    // Another session is unaffected.
    let other = client.session();
    assert_eq!(client.ask(&other, "two").text, "ok");
    gate.release();
    assert_eq!(client.prompt_result(&first).text, "first");
    assert_eq!(client.ask(&session, "three").text, "ok");
}

#[test]
fn steer_joins_before_the_next_call_and_continues_the_turn() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("I am done").gate(&gate));
    world.mock().push(Reply::text("Now really"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    world.wait_at_gate(&gate);
    let turn = client
        .next(&session, "agent/turnStarted")
        .text("turnId")
        .to_owned();
    let steered: Value = client.call(
        "agent/steer",
        json!({"sessionId": session, "prompt": "and mind the tests", "expectedTurnId": turn}),
    );
    assert_eq!(steered["turnId"], json!(turn));
    let error = client.refused(
        "agent/steer",
        json!({"sessionId": session, "prompt": "x", "expectedTurnId": "turn_other"}),
    );
    assert_eq!(error.data["refusal"], "staleTurn", "{error:?}");
    gate.release();
    let result = client.prompt_result(&id);
    assert_eq!(result.text, "Now really");
    assert_eq!(client.reasons(&session), ["next_turn", "completed"]);
    assert_eq!(world.wait_for_request(1).last_text(), "and mind the tests");
    let end = client.next(&session, "agent/turnEnded");
    assert_eq!(end.params.get("unusedSteers"), None);
    let error = client.refused("agent/steer", json!({"sessionId": session, "prompt": "late"}));
    assert_eq!(error.data["refusal"], "noTurn", "{error:?}");
}

#[test]
fn steer_during_a_tool_joins_after_its_results() {
    let world = World::new();
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": "quickly"}));
    client.decide(&approval, "allow");
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(client.reasons(&session), ["next_turn", "completed"]);
    assert!(world.wait_for_request(1).last_text().ends_with("quickly"));
}

#[test]
fn unused_steers_are_returned_on_cancel() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("some").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    world.wait_at_gate(&gate);
    for text in ["one more thing", "and another"] {
        let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": text}));
    }
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    let end = client.next(&session, "agent/turnEnded");
    assert_eq!(
        end.params["unusedSteers"],
        json!([
            [{"type": "text", "text": "one more thing"}],
            [{"type": "text", "text": "and another"}],
        ])
    );
    assert_eq!(client.ask(&session, "go on").text, "ok");
    let raw = world.wait_for_request(1).raw.clone();
    assert!(
        !String::from_utf8_lossy(&raw).contains("one more thing"),
        "given back, not sent"
    );
}

#[test]
fn reference_through_a_link_includes_unsaved_text() {
    let world = World::new();
    world.write("a.rs", "saved\n");
    std::os::unix::fs::symlink(world.workspace(), world.path("link")).unwrap();
    let linked = format!("file://{}", world.path("link/a.rs").display());
    let client = world.start();
    let session = client.session();
    for (opened, referred) in [
        (&linked, &linked),
        (&linked, &world.uri("a.rs")),
        (&world.uri("a.rs"), &linked),
    ] {
        client.notify(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": opened, "languageId": "rust", "version": 1, "text": "unsaved\n"}}),
        );
        client.ask(&session, json!([{"type": "reference", "uri": referred}]));
        let request = world.wait_for_request(world.requests() - 1);
        let last = request.body["messages"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .to_string();
        assert!(last.contains("unsaved"), "{opened} {referred}: {last}");
        client.notify("textDocument/didClose", json!({"textDocument": {"uri": opened}}));
    }
}

#[test]
fn references_include_the_editors_unsaved_text() {
    let world = World::new();
    world.write("src/a.rs", "saved line 1\nsaved line 2\nsaved line 3\n");
    let uri = world.uri("src/a.rs");
    let client = world.start();
    let session = client.session();
    let range = |from: u32, to: u32| json!({"start": {"line": from, "character": 0}, "end": {"line": to, "character": 0}});
    let cases: [(&str, Value, &[&str], &[&str]); 5] = [
        (
            "closed",
            json!({"type": "reference", "uri": uri}),
            &["saved line 1", "saved line 3"],
            &[],
        ),
        (
            "part",
            json!({"type": "reference", "uri": uri, "range": range(1, 2)}),
            &["saved line 2"],
            &["saved line 1", "saved line 3"],
        ),
        (
            "opened",
            json!({"type": "reference", "uri": uri}),
            &["unsaved one"],
            &["saved line"],
        ),
        (
            "changed",
            json!({"type": "selection", "uri": uri, "range": range(1, 2)}),
            &["changed two"],
            &["unsaved", "changed one"],
        ),
        (
            "said",
            json!({"type": "diagnostic", "uri": uri, "range": range(0, 0), "message": "unused import", "severity": "warning", "source": "rustc"}),
            &["unused import", "rustc"],
            &["changed one"],
        ),
    ];
    for (name, block, holds, lacks) in cases {
        match name {
            "opened" => client.notify(
                "textDocument/didOpen",
                json!({"textDocument": {"uri": uri, "languageId": "rust", "version": 1, "text": "unsaved one\n"}}),
            ),
            "changed" => client.notify(
                "textDocument/didChange",
                json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "changed one\nchanged two\n"}]}),
            ),
            _ => {}
        }
        // Sent right after the change of the document: the server keeps the order of the wire.
        client.ask(
            &session,
            json!([{"type": "text", "text": format!("look at {name}")}, block]),
        );
        let request = world.wait_for_request(world.requests() - 1);
        let messages = request.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap().to_string();
        for text in holds {
            assert!(last.contains(text), "{name}: {text} is missing in {last}");
        }
        for text in lacks {
            assert!(!last.contains(text), "{name}: {text} is too much in {last}");
        }
        // The model and people see the path as tools print it.
        assert!(last.contains("path=\\\"src/a.rs\\\""), "{name}: {last}");
        let shown_messages = client.all(&session, "agent/message");
        let message = shown_messages
            .iter()
            .rfind(|notification| {
                notification.params["role"] == "user" && notification.params["hidden"] != true
            })
            .unwrap();
        assert_eq!(message.params["content"][1]["path"], "src/a.rs", "{name}");
    }
    // The tool reads the same text.
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "src/a.rs"})));
    client.ask(&session, "read it");
    let raw = world.wait_for_request(world.requests() - 1).raw.clone();
    assert!(String::from_utf8_lossy(&raw).contains("changed two"));
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "src/a.rs"})));
    client.ask(&session, "read it again");
    let call = client.all(&session, "agent/toolCall").pop().unwrap();
    assert!(call.text("output").contains("saved line 2"), "{}", call.params);
}

#[test]
fn images_reach_the_model_and_invalid_ones_are_refused() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let image = json!({"type": "image", "mediaType": "image/png", "data": DOT});
    client.ask(&session, json!([image, {"type": "text", "text": "what is it?"}]));
    let raw = world.wait_for_request(0).raw.clone();
    assert!(String::from_utf8_lossy(&raw).contains(DOT));
    let mut large = Vec::new();
    let mut encoder = png::Encoder::new(&mut large, 3_136, 10);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[7; 31_360]).unwrap();
    writer.finish().unwrap();
    let data = STANDARD.encode(&large);
    let image = json!({"type": "image", "mediaType": "image/jpeg", "data": data});
    client.ask(&session, json!([image, {"type": "text", "text": "and this?"}]));
    let request: Value = serde_json::from_slice(&world.wait_for_request(1).raw).unwrap();
    let source = &request["messages"].as_array().unwrap().last().unwrap()["content"][0]["source"];
    assert_eq!(source["media_type"], "image/png", "its bytes say what it is");
    let sent = STANDARD.decode(source["data"].as_str().unwrap()).unwrap();
    // Width and height in the header.
    assert_eq!(sent[16..24], [0, 0, 6, 32, 0, 0, 0, 5], "scaled down to 1568 × 5");
    for (block, field) in [
        (
            json!({"type": "image", "mediaType": "image/tiff", "data": DOT}),
            "prompt[0].mediaType",
        ),
        (
            json!({"type": "image", "mediaType": "image/png", "data": "no base64!"}),
            "prompt[0].data",
        ),
        (
            json!({"type": "image", "mediaType": "image/png", "data": ""}),
            "prompt[0].data",
        ),
        (json!({"type": "reference", "uri": "no uri"}), "prompt[0].uri"),
        (json!({"type": "text", "text": "  "}), "prompt"),
    ] {
        let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": [block]}));
        assert_eq!(
            (error.code, error.data["field"].as_str()),
            (-32602, Some(field)),
            "{error:?}"
        );
    }
    let picture = |data: &str| json!({"type": "image", "mediaType": "image/png", "data": data});
    let half = &DOT[..60];
    world.write("half.png", STANDARD.decode(half).unwrap());
    let reference = |name: &str| json!({"type": "reference", "uri": world.uri(name)});
    for (prompt, reason) in [
        (json!([reference("nowhere.rs")]), "nowhere.rs"),
        (
            json!([picture(DOT), picture(half)]),
            "picture 2 of the message cannot be sent: its end is missing",
        ),
        (
            json!([picture("aGVsbG8=")]),
            "picture 1 of the message cannot be sent: it cannot be decoded",
        ),
        (
            json!([reference("half.png")]),
            "half.png: the picture cannot be sent: its end is missing",
        ),
    ] {
        let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": prompt}));
        assert!(error.message.contains(reason), "{error:?}");
    }
    assert_eq!(world.mock().requests().len(), 2, "no turn has started");
}

#[test]
fn usage_and_cost_add_up() {
    let world = World::new();
    world.write("a.txt", "a\n");
    world.mock().push(
        Reply::tool("read_file", json!({"path": "a.txt"}))
            .tokens(1_000, 100)
            .cached(500, 200),
    );
    world.mock().push(Reply::text("done").tokens(2_000, 50));
    world.mock().push(Reply::text("again").tokens(10, 20));
    let client = world.start();
    let session = client.session();
    let result = client.ask(&session, "hello");
    let usage =
        json!({"inputTokens": 3000, "outputTokens": 150, "cacheReadTokens": 500, "cacheWriteTokens": 200});
    assert_eq!(json!(result.usage), usage);
    // 3000 × 3 + 150 × 15 + 500 × 0.3 + 200 × 3.75 dollars per million.
    let cost = (9_000.0 + 2_250.0 + 150.0 + 750.0) / 1e6;
    assert!(
        (result.cost_usd.unwrap() - cost).abs() < 1e-9,
        "{:?}",
        result.cost_usd
    );
    client.ask(&session, "more");
    let usage_events = client.all(&session, "agent/usage");
    let spent: Vec<u64> = usage_events
        .iter()
        .map(|notification| notification.params["session"]["inputTokens"].as_u64().unwrap())
        .collect();
    assert_eq!(spent, [1_000, 3_000, 3_010]);
    let steps: Vec<u64> = usage_events
        .iter()
        .map(|notification| notification.params["turn"]["outputTokens"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, [100, 150, 20]);
    assert_eq!(usage_events[2].params["contextUsed"], 30);
    assert_eq!(usage_events[2].params["contextWindow"], 200_000);
    // A canceled call costs what the provider has reported so far.
    let gate = Gate::new();
    world.mock().push(Reply::text("half").tokens(700, 50).gate(&gate));
    let id = client.prompt(&session, "and more");
    world.wait_at_gate(&gate);
    client.next_matching(&session, "agent/textDelta", |notification| {
        notification.text("text") == "half"
    });
    client.cancel(&session);
    let cut = client.prompt_result(&id);
    assert_eq!(json!(cut.state), "cancelled");
    assert_eq!(
        (
            json!(cut.usage)["inputTokens"].clone(),
            json!(cut.usage)["outputTokens"].clone()
        ),
        (json!(700), json!(1))
    );
    assert!(
        (cut.cost_usd.unwrap() - (2_100.0 + 15.0) / 1e6).abs() < 1e-9,
        "{:?}",
        cut.cost_usd
    );
    let usage_events = client.all(&session, "agent/usage");
    assert_eq!(usage_events[3].params["session"]["inputTokens"], 3_710);
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    assert_eq!(metrics["totals"]["requests"], 4);
    assert_eq!(metrics["totals"]["outputTokens"], 171);
    assert_eq!(metrics["session"]["toolCallsByName"]["read_file"], 1);
    assert_eq!(metrics["totals"]["toolCalls"], 1);
}

#[test]
fn first_delta_is_sent_without_delay() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let mut delays: Vec<Duration> = Vec::new();
    for round in 0..10 {
        let gate = Gate::new();
        world
            .mock()
            .push(Reply::text("first").gate(&gate).with_text(" rest"));
        let id = client.prompt(&session, format!("round {round}"));
        let delta = client.next(&session, "agent/textDelta");
        assert_eq!(delta.text("text"), "first");
        world.wait_at_gate(&gate);
        let sent = world.wait_for_request(round).progress().first_byte.unwrap();
        delays.push(delta.at.saturating_duration_since(sent));
        gate.release();
        client.prompt_result(&id);
        client.next_matching(&session, "agent/textDelta", |notification| {
            notification.text("text").contains("rest")
        });
    }
    // The merge interval is 16 ms: a held-back delta shows in every round, a busy machine only in some.
    delays.sort();
    assert!(delays[0] < Duration::from_millis(12), "{delays:?}");
}

#[test]
fn long_fields_are_cut_and_can_be_read_by_reference() {
    let world = World::new();
    let long: String = (0..30_000).map(|n| format!("line {n} é\n")).collect();
    world.mock().push(Reply::deltas([long.clone()]));
    let client = world.start();
    let session = client.session();
    let prompt: String = (0..20_000).map(|n| format!("word{n} ")).collect();
    let result = client.ask(&session, prompt.clone());
    assert_eq!(result.text, long, "the answer is complete");
    for (role, full_text) in [("user", &prompt), ("assistant", &long)] {
        let message = client.next_matching(&session, "agent/message", |notification| {
            notification.text("role") == role
        });
        let block = &message.params["content"][0];
        let head = block["text"].as_str().unwrap();
        let more = &block["more"]["text"];
        assert!(head.len() <= 64 << 10 && full_text.starts_with(head), "{role}");
        assert_eq!(more["bytes"], full_text.len() as u64, "{role}");
        let (mut read, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let piece: Value = client.call(
                "agent/readContent",
                json!({"sessionId": session, "ref": more["ref"], "offset": from, "limit": 50_000}),
            );
            read.push_str(piece["text"].as_str().unwrap());
            offset = piece["nextOffset"].as_u64();
        }
        assert!(
            read == *full_text,
            "{role}: {} of {} bytes were read",
            read.len(),
            full_text.len()
        );
    }
    for (reference, word) in [
        ("nothing", "unknownContent"),
        ("c:none", "unknownContent"),
        ("e:999:content", "unknownContent"),
    ] {
        let error = client.refused(
            "agent/readContent",
            json!({"sessionId": session, "ref": reference}),
        );
        assert_eq!(error.data["refusal"], word, "{reference}: {error:?}");
    }
}

#[test]
fn fifty_sessions_run_concurrently() {
    let world = World::new();
    let client = world.start();
    let turns: Vec<_> = (0..50)
        .map(|n| {
            let marker = format!("question-{n}-");
            world.mock().push_for(
                &marker,
                Reply::text(format!("answer {n} in several words")).pieces(2),
            );
            let session = client.session();
            let id = client.prompt(&session, marker);
            (n, id)
        })
        .collect();
    for (n, id) in turns {
        assert_eq!(
            client.prompt_result(&id).text,
            format!("answer {n} in several words")
        );
    }
}
