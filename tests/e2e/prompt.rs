//! Prompts on the wire: the order of notifications, references to open documents, and long fields. What a prompt and a
//! steer decide is tested in `session::tests::prompts`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::World;
use crate::mock_llm::Reply;
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
fn a_prompt_with_an_unreadable_reference_is_refused() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.write("half.png", STANDARD.decode(&DOT[..60]).unwrap());
    let half = "half.png: the picture cannot be sent: its end is missing";
    for (name, reason) in [("nowhere.rs", "nowhere.rs"), ("half.png", half)] {
        let prompt = json!([{"type": "reference", "uri": world.uri(name)}]);
        let error = client.refused("agent/prompt", json!({"sessionId": session, "prompt": prompt}));
        assert_eq!(
            (error.code, error.data["field"].as_str()),
            (-32602, Some("prompt"))
        );
        assert!(error.message.contains(reason), "{error:?}");
    }
    assert_eq!(world.requests(), 0);
}
