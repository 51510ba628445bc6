//! Invalid input of every kind gets the proper error and does not disturb running turns (R-WIRE-4).

use serde_json::json;

use crate::harness::{Client, Config, Id, World};
use crate::mock_llm::{Gate, Reply};

/// A turn that runs during a test and proves afterwards that it was not disturbed.
struct OpenTurn {
    session: String,
    prompt: Id,
    gate: Gate,
}

impl OpenTurn {
    fn start(world: &World, client: &Client) -> Self {
        let gate = Gate::new();
        let reply = Reply::text("the first half")
            .gate(&gate)
            .with_text(" and the second");
        world.mock().push_for("stay open", reply);
        let session = client.session();
        let prompt = client.prompt(&session, "stay open");
        client.next_matching(&session, "agent/textDelta", |notification| {
            notification.text("text").ends_with("half")
        });
        world.wait_at_gate(&gate);
        Self {
            session,
            prompt,
            gate,
        }
    }

    fn finish(self, client: &Client) {
        client.ping();
        self.gate.release();
        let result = client.prompt_result(&self.prompt);
        assert_eq!(result.text, "the first half and the second");
        assert_eq!(client.streamed_text(&self.session), result.text);
        client.ping();
    }
}

#[test]
fn garbage_between_frames_is_an_error_and_harmless() {
    let world = World::new();
    let client = world.start();
    let running = OpenTurn::start(&world, &client);
    let garbage: Vec<(&str, Vec<u8>)> = vec![
        ("a line", b"hello, is this LSP?\r\n\r\n".to_vec()),
        (
            "JSON without a header",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}\n".to_vec(),
        ),
        ("no number", b"Content-Length: many\r\n\r\n".to_vec()),
        ("negative", b"Content-Length: -5\r\n\r\n".to_vec()),
        ("4 GB", b"Content-Length: 4294967296\r\n\r\n".to_vec()),
        ("10^12", b"Content-Length: 1000000000000\r\n\r\n".to_vec()),
        (
            "10^30",
            b"Content-Length: 1000000000000000000000000000000\r\n\r\n".to_vec(),
        ),
        (
            "no length",
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n".to_vec(),
        ),
        ("binary", (0..=255u8).chain(0..=255).chain(*b"\r\n\r\n").collect()),
        (
            "a long header",
            [b"X-Nothing: ".as_slice(), &[b'x'; 10_000], b"\r\n\r\n"].concat(),
        ),
        (
            "charset",
            b"Content-Length: 2\r\nContent-Type: text/plain; charset=latin-1\r\n\r\n{}".to_vec(),
        ),
    ];
    for (name, bytes) in garbage {
        client.raw(&bytes);
        client.ping();
        let errors = client.take_null_errors();
        assert!(!errors.is_empty(), "{name}: no error");
        for error in errors {
            assert!([-32700, -32600].contains(&error.code), "{name}: {error:?}");
        }
    }
    running.finish(&client);
}

#[test]
fn header_variants_are_accepted() {
    let world = World::new();
    let client = world.start();
    for (n, (before, after)) in [
        ("Content-Length: ", "\n\n"),
        ("content-length: ", "\r\n\r\n"),
        ("CONTENT-LENGTH:", "\r\n\r\n"),
        ("\nContent-Length: ", "\r\n\r\n"),
        (
            "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: ",
            "\r\n\r\n",
        ),
        (
            "Content-Type: application/vscode-jsonrpc; charset=UTF8\r\nContent-Length: ",
            "\r\n\r\n",
        ),
        ("X-Other: 1\r\nContent-Length: ", "\r\nX-More: 2\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = json!(format!("habit-{n}"));
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "agent/listTools"}).to_string();
        let wanted = client.expect_answer(&id, "agent/listTools", "");
        client.raw(format!("{before}{}{after}{body}", body.len()).as_bytes());
        assert!(client.answer(&wanted).is_ok(), "{before:?}");
    }
}

#[test]
fn oversized_frame_is_skipped_without_buffering() {
    let world = World::new();
    let client = world.start();
    let running = OpenTurn::start(&world, &client);
    let size = 100 << 20;
    client.raw(format!("Content-Length: {size}\r\n\r\n").as_bytes());
    let error = client.null_error();
    assert!(
        error.code == -32600 && error.message.contains("limit"),
        "{error:?}"
    );
    let block = vec![b'x'; 1 << 20];
    for _ in 0..size / block.len() {
        client.raw(&block);
    }
    client.ping();
    let (_, highest) = crate::harness::resident(client.pid());
    assert!(highest < 64 << 20, "{} MiB", highest >> 20);
    running.finish(&client);
}

#[test]
fn large_prompt_is_accepted() {
    // The prompt needs a larger window than the default.
    let world = World::with(Config {
        tables: "[model.roomy]\ncontext_window = 2000000".to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session_with(json!({"model": "mock/roomy"}));
    let prompt = "0123456789".repeat(300_000);
    assert_eq!(client.ask(&session, prompt.clone()).text, "ok");
    assert!(world.wait_for_request(0).last_text() == prompt);
}

/// Returns bodies that a server does not expect.
fn invalid_bodies(session: &str) -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut text = |text: &str| bodies.push(text.as_bytes().to_vec());
    // Not JSON, or not an object.
    for body in [
        "",
        " ",
        "{",
        "}",
        "[",
        "nul",
        "null",
        "true",
        "0",
        "\"text\"",
        "[]",
        "[1,2]",
        "{}",
        "{\"a\":}",
        "{'a':1}",
        "{\"jsonrpc\":\"2.0\"}",
        "\u{feff}{}",
        "NaN",
        "{\"id\":1e999}",
        "{} {}",
        "/* */{}",
        "{\"a\":1,}",
        "-",
        "\\",
    ] {
        text(body);
    }
    // Invalid envelopes.
    for id in [
        "1.5",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "1e3",
        "null",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"\\ud800\"",
    ] {
        for method in [
            "\"agent/listTools\"",
            "\"\"",
            "null",
            "7",
            "[]",
            "\"no/such\"",
            "\"$/unknown\"",
            "\"rpc.discover\"",
        ] {
            text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method}}}"
            ));
        }
    }
    for version in ["1.0", "2", "", "2.0 "] {
        text(&format!(
            "{{\"jsonrpc\":\"{version}\",\"id\":5001,\"method\":\"agent/listTools\"}}"
        ));
    }
    text("{\"id\":5002,\"method\":\"agent/listTools\"}");
    text("{\"jsonrpc\":2.0,\"id\":5003,\"method\":\"agent/listTools\"}");
    text("{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"id\":5004,\"method\":\"agent/listTools\"}");
    text("{\"jsonrpc\":\"2.0\",\"id\":5005,\"id\":5006,\"method\":\"agent/listTools\"}");
    text("{\"jsonrpc\":\"2.0\",\"id\":5007,\"method\":\"agent/listTools\",\"result\":1}");
    text("[{\"jsonrpc\":\"2.0\",\"id\":5008,\"method\":\"agent/listTools\"}]");
    text("[{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}]");
    // Answers to requests that were never sent.
    for answer in [
        "\"result\":null",
        "\"result\":{}",
        "\"error\":{\"code\":1,\"message\":\"x\"}",
        "\"error\":null",
        "\"error\":7",
    ] {
        for id in ["1", "\"x\"", "null", "99999"] {
            text(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}"));
        }
    }
    // Deep nesting and long strings.
    for depth in [100, 127, 128, 1_000, 100_000] {
        text(&"[".repeat(depth));
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":6001,\"method\":\"agent/prompt\",\"params\":{nested}}}"
        ));
    }
    text(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":6002,\"method\":\"{}\"}}",
        "m".repeat(100_000)
    ));
    text(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"agent/listTools\"}}",
        "i".repeat(100_000)
    ));
    text(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":6003,\"{}\":1}}",
        "k".repeat(100_000)
    ));
    // Wrong types in params, requests and notifications alike.
    let values = [
        "null",
        "0",
        "-1",
        "1e300",
        "\"\"",
        "\"x\"",
        "\"\\u0000\"",
        "[]",
        "[[]]",
        "{}",
        "{\"a\":{}}",
        "true",
        "\"../../etc/passwd\"",
        "18446744073709551616",
    ];
    let fields = [
        ("agent/newSession", "cwd"),
        ("agent/newSession", "mode"),
        ("agent/prompt", "prompt"),
        ("agent/prompt", "sessionId"),
        ("agent/steer", "prompt"),
        ("agent/approvalRespond", "approvalId"),
        ("agent/listSessions", "limit"),
        ("agent/listSessions", "cursor"),
        ("agent/loadSession", "sessionId"),
        ("agent/loadSession", "tail"),
        ("agent/loadSession", "afterSeq"),
        ("agent/renameSession", "title"),
        ("agent/setMode", "mode"),
        ("agent/setTrust", "folder"),
        ("agent/readContent", "ref"),
        ("agent/readContent", "offset"),
        ("agent/deleteSession", "sessionId"),
        ("agent/revokeGrant", "grantId"),
        ("agent/metrics", "sessionId"),
        ("agent/resumeTurn", "sessionId"),
        ("agent/compact", "sessionId"),
        ("agent/compact", "instructions"),
    ];
    let mut id = 7_000;
    for (method, field) in fields {
        for value in values {
            id += 1;
            text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"{field}\":{value}}}}}"
            ));
        }
    }
    for (method, field) in [
        ("agent/cancel", "sessionId"),
        ("agent/cancel", "turnId"),
        ("$/cancelRequest", "id"),
        ("$/setTrace", "value"),
        ("textDocument/didOpen", "textDocument"),
        ("textDocument/didChange", "contentChanges"),
        ("workspace/didChangeConfiguration", "settings"),
        ("workspace/didChangeWorkspaceFolders", "event"),
        ("initialized", "x"),
        ("no/such", "x"),
    ] {
        for value in values {
            text(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"{field}\":{value}}}}}"
            ));
        }
    }
    // Invalid prompts for the running session.
    for value in values {
        id += 1;
        text(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"agent/prompt\",\"params\":{{\"sessionId\":\"{session}\",\"prompt\":{value}}}}}"
        ));
    }
    for bytes in [
        &b"\xff\xfe"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
        b"\0\0\0",
        b"{\"a\":\"\x01\"}",
    ] {
        bodies.push(bytes.to_vec());
    }
    bodies
}

#[test]
fn hundreds_of_invalid_bodies_are_harmless() {
    let world = World::new();
    let client = world.start();
    let running = OpenTurn::start(&world, &client);
    let bodies = invalid_bodies(&running.session);
    assert!(bodies.len() >= 300, "{}", bodies.len());
    // The client cannot match the answers to these handwritten ids; it only checks their form.
    client.tolerate_answers();
    for batch in bodies.chunks(20) {
        for body in batch {
            client.frame(body);
        }
        client.ping();
        for error in client.take_null_errors() {
            assert!(
                [-32700, -32600, -32601, -32602].contains(&error.code),
                "{error:?}"
            );
        }
    }
    // Sessions that some bodies created have no running turns; the test's own turn is unharmed.
    running.finish(&client);
}

#[test]
fn unknown_methods_and_ids_get_their_errors() {
    let world = World::new();
    let client = world.start();
    for method in ["agent/nothing", "textDocument/nothing", "$/nothing", ""] {
        let error = client.refused(method, json!({}));
        assert!([-32601, -32600].contains(&error.code), "{method}: {error:?}");
    }
    client.notify("agent/nothing", json!({}));
    client.notify("$/nothing", json!({}));
    for (method, params) in [
        ("agent/prompt", json!({"prompt": "x"})),
        ("agent/steer", json!({"prompt": "x"})),
        ("agent/resumeTurn", json!({})),
        ("agent/compact", json!({})),
        ("agent/loadSession", json!({})),
        ("agent/loadSession", json!({"readOnly": true})),
        ("agent/renameSession", json!({"title": "x"})),
        ("agent/deleteSession", json!({})),
        ("agent/setMode", json!({"mode": "full"})),
        ("agent/setModel", json!({"model": "mock/x"})),
        ("agent/metrics", json!({})),
        ("agent/listApprovals", json!({})),
        ("agent/listGrants", json!({})),
        ("agent/listModels", json!({})),
    ] {
        for session in ["ses_none", "", "../../x", &"x".repeat(10_000), "\u{0}"] {
            let mut params = params.clone();
            params["sessionId"] = session.into();
            let error = client.refused(method, params);
            assert_eq!(
                (error.code, error.data["refusal"].as_str()),
                (-32602, Some("unknownSession")),
                "{method} {session:.20}: {error:?}"
            );
        }
    }
    assert!(!world.path("x").exists());
}

#[test]
fn invalid_params_name_the_field() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    for (method, params, field) in [
        ("agent/prompt", json!({"sessionId": session}), "prompt"),
        (
            "agent/prompt",
            json!({"sessionId": session, "prompt": 7}),
            "prompt",
        ),
        (
            "agent/prompt",
            json!({"sessionId": session, "prompt": ""}),
            "prompt",
        ),
        (
            "agent/prompt",
            json!({"sessionId": session, "prompt": [{"type": "txt"}]}),
            "prompt",
        ),
        ("agent/prompt", json!({"prompt": "x"}), "sessionId"),
        (
            "agent/prompt",
            json!({"prompt": "x", "sessionId": 1}),
            "sessionId",
        ),
        ("agent/newSession", json!({"mode": "yolo"}), "mode"),
        ("agent/newSession", json!({"cwd": "relative"}), "cwd"),
        ("agent/newSession", json!({"cwd": 7}), "cwd"),
        (
            "agent/setMode",
            json!({"sessionId": session, "mode": "yolo"}),
            "mode",
        ),
        ("agent/setMode", json!({"sessionId": session}), "mode"),
        (
            "agent/setModel",
            json!({"sessionId": session, "model": " "}),
            "model",
        ),
        (
            "agent/loadSession",
            json!({"sessionId": session, "tail": 1001}),
            "tail",
        ),
        (
            "agent/loadSession",
            json!({"sessionId": session, "tail": -1}),
            "tail",
        ),
        (
            "agent/loadSession",
            json!({"sessionId": session, "afterSeq": "1"}),
            "afterSeq",
        ),
        ("agent/listSessions", json!({"limit": 0}), "limit"),
        (
            "agent/renameSession",
            json!({"sessionId": session, "title": "a\nb"}),
            "title",
        ),
        (
            "agent/readContent",
            json!({"sessionId": session, "ref": "c:x", "limit": 0}),
            "limit",
        ),
        (
            "agent/setTrust",
            json!({"folder": "relative", "trusted": true}),
            "folder",
        ),
        ("agent/setTrust", json!({"folder": "/x"}), "trusted"),
        ("agent/prompt", json!(["text"]), "params"),
    ] {
        let error = client.refused(method, params.clone());
        assert_eq!(
            (error.code, error.data["field"].as_str()),
            (-32602, Some(field)),
            "{method} {params}: {error:?}"
        );
        assert_eq!(error.data["refusal"], "badParams");
    }
    let error = client.refused("agent/newSession", json!({"agent": "nobody"}));
    assert_eq!(error.data["refusal"], "unknownAgent", "{error:?}");
}

#[test]
fn reused_id_is_refused_and_the_first_request_continues() {
    let world = World::new();
    let client = world.start();
    let gate = Gate::new();
    world.mock().push(Reply::text("one").gate(&gate));
    let session = client.session();
    let id = json!("twice");
    let wanted = client.expect_answer(&id, "agent/prompt", &session);
    let params = json!({"sessionId": session, "prompt": "hello"});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "agent/prompt", "params": params}).to_string();
    client.frame(body.as_bytes());
    world.wait_at_gate(&gate);
    client.frame(
        json!({"jsonrpc": "2.0", "id": id, "method": "agent/listTools"})
            .to_string()
            .as_bytes(),
    );
    let error = client.refusal(&wanted);
    assert_eq!(error.code, -32600, "{error:?}");
    let wanted = client.expect_answer(&id, "agent/prompt", &session);
    gate.release();
    assert_eq!(client.prompt_result(&wanted).text, "one");
    client.ping();
}

#[test]
fn optional_lsp_notifications_are_ignored_silently() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    // The log is in order: once the second failure is logged, so is everything about the notifications.
    let fail = |marker: &str| {
        world
            .mock()
            .push(Reply::error(400, "invalid_request_error", marker));
        client.ask(&session, "hello");
        world.wait_until(|| client.log().contains(marker));
    };
    fail("first-marker");
    for method in ["$/setTrace", "$/logTrace", "$/progress", "$/of/somebody"] {
        client.notify(method, json!({"value": "off"}));
    }
    fail("second-marker");
    let log = client.log();
    let second = log.find("second-marker").unwrap();
    // Exclude the line of the second failure, which is itself a warning.
    let end = log[..second].rfind('\n').unwrap();
    let between = &log[log.rfind("first-marker").unwrap()..end];
    for word in ["WARN", "ERROR", "$/", "not implemented"] {
        assert!(!between.contains(word), "{between}");
    }
}
