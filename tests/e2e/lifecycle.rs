//! The handshake and every way in which a server ends (R-WIRE lifecycle, R-CANCEL end).

use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Client, Options, World};
use crate::mock_llm::{Gate, Reply};

#[test]
fn handshake_announces_existing_methods() {
    let world = World::new();
    let client = world.launch(Options::default());
    let answer = client.handshake(None);
    assert_eq!(answer["serverInfo"]["name"], "agentls");
    let agent = &answer["capabilities"]["experimental"]["agent"];
    assert_eq!(agent["protocolVersion"], json!({"major": 1, "minor": 0}));
    let methods = agent["methods"].as_array().unwrap();
    assert!(methods.contains(&json!("agent/prompt")) && methods.contains(&json!("agent/cancel")));
    // Every announced method exists.
    for method in methods
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| *name != "agent/cancel")
    {
        let id = client.send(method, json!({}));
        if let Err(error) = client.answer(&id) {
            assert_ne!(error.code, -32601, "{method}");
        }
    }
}

#[test]
fn requests_before_initialize_are_refused_and_harmless() {
    let world = World::new();
    let client = world.launch(Options::default());
    for method in ["agent/newSession", "agent/listTools", "agent/prompt", "shutdown"] {
        let error = client.refused(method, json!({}));
        assert_eq!(error.code, -32002, "{method}: {error:?}");
        assert_eq!(error.data["refusal"], "notInitialized", "{method}: {error:?}");
    }
    client.notify("agent/cancel", json!({"sessionId": "ses_none"}));
    client.handshake(None);
    client.ping();
}

#[test]
fn invalid_process_id_counts_as_null() {
    for process_id in [
        json!(-1),
        json!(u64::MAX),
        json!(4_294_967_296u64),
        json!(1.5),
        json!("17"),
        json!([1]),
    ] {
        let world = World::new();
        let client = world.launch(Options::default());
        let mut params = client.initialize_params(None);
        params["processId"] = process_id.clone();
        let answer: Value = client.call("initialize", params);
        assert_eq!(answer["serverInfo"]["name"], "agentls", "{process_id}");
        client.initialized();
        client.ping();
    }
}

#[test]
fn second_initialize_is_refused() {
    let world = World::new();
    let client = world.start();
    let error = client.refused("initialize", client.initialize_params(None));
    assert_eq!(error.code, -32600, "{error:?}");
    assert_eq!(error.data["code"], "protocol", "{error:?}");
    assert!(error.message.contains("once"), "{error:?}");
    client.ping();
}

#[test]
fn agent_methods_are_refused_before_initialized() {
    let world = World::new();
    let client = world.launch(Options::default());
    let assert_not_initialized = || {
        for (method, params) in [
            ("agent/newSession", json!({})),
            (
                "agent/prompt",
                json!({"sessionId": "ses_none", "prompt": "hello"}),
            ),
            ("agent/listTools", json!({})),
        ] {
            let error = client.refused(method, params);
            assert_eq!(error.code, -32002, "{method}: {error:?}");
            assert_eq!(error.data["refusal"], "notInitialized", "{method}: {error:?}");
            assert!(
                error.message.contains("send `initialize` and `initialized`"),
                "{error:?}"
            );
        }
    };
    assert_not_initialized();
    // Sent too early, `initialized` has no effect.
    client.notify("initialized", json!({}));
    assert_not_initialized();
    let _: Value = client.call("initialize", client.initialize_params(None));
    assert_not_initialized();
    client.initialized();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
}

#[test]
fn shutdown_then_exit_is_0_and_later_requests_are_refused() {
    for params in [Value::Null, json!({}), json!([])] {
        let world = World::new();
        let client = world.start();
        let _: Value = client.call("shutdown", params);
        for method in ["agent/newSession", "shutdown", "initialize"] {
            let error = client.refused(method, json!({}));
            assert_eq!(error.code, -32600, "{method}: {error:?}");
            assert_eq!(error.data["refusal"], "shuttingDown", "{method}: {error:?}");
            assert!(error.message.contains("send `exit`"), "{error:?}");
        }
        client.notify("exit", Value::Null);
        assert_eq!(client.wait_for_exit().0, Some(0));
    }
}

#[test]
fn shutdown_and_exit_in_one_write_both_take_effect() {
    let world = World::new();
    let client = world.start();
    let (id, mut bytes) = client.request("shutdown", Value::Null);
    bytes.extend(b"Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}");
    client.raw(&bytes);
    assert!(client.answer(&id).is_ok());
    assert_eq!(client.wait_for_exit().0, Some(0));
}

/// The event that ends a server.
#[derive(Clone, Copy, Debug)]
enum EndCause {
    EndOfInput,
    Exit,
    Terminate,
    Interrupt,
    ParentGone,
}

#[test]
fn server_ends_and_stores_the_end_of_a_running_turn() {
    for cause in [
        EndCause::EndOfInput,
        EndCause::Exit,
        EndCause::Terminate,
        EndCause::Interrupt,
        EndCause::ParentGone,
    ] {
        let world = World::new();
        let mut parent = start_idle_process();
        let client = world.start_with(Options {
            process_id: Some(i64::from(parent.id())),
            ..Options::default()
        });
        let gate = Gate::new();
        world.mock().push(Reply::text("some words").gate(&gate));
        let session = client.session();
        let id = client.prompt(&session, "hello");
        world.wait_at_gate(&gate);
        client.next_matching(&session, "agent/textDelta", |notification| {
            notification.text("text").contains("words")
        });
        match cause {
            EndCause::EndOfInput => client.close_input(),
            EndCause::Exit => client.notify("exit", Value::Null),
            EndCause::Terminate => client.signal(Signal::TERM),
            EndCause::Interrupt => client.signal(Signal::INT),
            EndCause::ParentGone => {
                parent.kill().unwrap();
                parent.wait().unwrap();
            }
        }
        let (code, _) = client.wait_for_exit();
        assert_eq!(code, Some(1), "{cause:?}: without shutdown");
        let turn_result = client.prompt_result(&id);
        assert_eq!(json!(turn_result.reason), "server_stopped", "{cause:?}");
        assert_eq!(json!(turn_result.state), "interrupted", "{cause:?}");
        assert_eq!(turn_result.text, "some words");
        drop(client);
        // The store has the shown text and the end of the turn, and the session is unlocked.
        let client = world.start();
        let loaded = client.load(&session);
        assert_eq!(loaded.events.last().unwrap().params["reason"], "server_stopped");
        assert!(
            loaded
                .events
                .iter()
                .any(|event| event.params["incomplete"] == true)
        );
        assert_eq!(client.ask(&session, "and now?").text, "ok");
        let _ = parent.kill();
        let _ = parent.wait();
    }
}

#[test]
fn server_ends_although_commands_ignore_signals() {
    for cause in [EndCause::EndOfInput, EndCause::Exit, EndCause::Terminate] {
        let world = World::new();
        let client = world.start();
        let session = client.session_with(json!({"mode": "full"}));
        let stubborn = "trap '' TERM; echo started; while :; do sleep 0.05; done";
        let in_background = json!({"command": stubborn, "background": true});
        world
            .mock()
            .push(Reply::text("first").call("bash", in_background));
        world
            .mock()
            .push(Reply::text("then").call("bash", json!({"command": stubborn})));
        let id = client.prompt(&session, "hello");
        client.next_matching(&session, "agent/toolOutputDelta", |notification| {
            notification.text("text").contains("started")
        });
        assert!(client.processes() > 2, "both commands run");
        match cause {
            EndCause::EndOfInput => client.close_input(),
            EndCause::Exit => client.notify("exit", Value::Null),
            _ => client.signal(Signal::TERM),
        }
        let (code, _) = client.wait_for_exit();
        assert_eq!(code, Some(1), "{cause:?}: without shutdown");
        let turn_result = client.prompt_result(&id);
        assert_eq!(json!(turn_result.reason), "server_stopped", "{cause:?}");
        drop(client);
        let client = world.start();
        let loaded = client.load(&session);
        let end = loaded.events.last().unwrap();
        assert_eq!(end.params["reason"], "server_stopped");
        // The ending server stored the result itself: a repair by this server would lack the output.
        let mut events = loaded.events.iter();
        let result = events
            .find(|event| event.params["status"] == "cancelled")
            .unwrap();
        assert_eq!(
            result.params["output"],
            "started\ncanceled while it ran\nkilled by signal 9"
        );
        assert_eq!(client.ask(&session, "and now?").text, "ok");
    }
}

#[test]
fn idle_server_ends() {
    for (cause, code) in [
        (EndCause::EndOfInput, 1),
        (EndCause::Exit, 1),
        (EndCause::Terminate, 1),
    ] {
        let world = World::new();
        let client = world.start();
        client.ping();
        match cause {
            EndCause::EndOfInput => client.close_input(),
            EndCause::Exit => client.notify("exit", Value::Null),
            _ => client.signal(Signal::TERM),
        }
        let (got, _) = client.wait_for_exit();
        assert_eq!(got, Some(code), "{cause:?}");
    }
}

#[test]
fn end_of_input_before_initialize_ends_the_server() {
    let world = World::new();
    let client = world.launch(Options::default());
    client.close_input();
    assert_eq!(client.wait_for_exit().0, Some(1));
}

#[test]
fn process_id_of_a_missing_process_is_ignored() {
    for pid in [0, i64::from(i32::MAX), i64::from(u32::MAX)] {
        let world = World::new();
        let client = world.start_with(Options {
            process_id: Some(pid),
            ..Options::default()
        });
        let session = client.session();
        assert_eq!(client.ask(&session, "hello").text, "ok", "{pid}");
    }
}

#[test]
fn frames_may_be_split_or_joined_across_writes() {
    let world = World::new();
    let client: Client = world.start();
    let (id, frame) = client.request("agent/listTools", json!({}));
    for byte in frame {
        client.raw(&[byte]);
    }
    assert!(client.answer(&id).is_ok());
    let pairs: Vec<_> = (0..20)
        .map(|_| client.request("agent/listTools", json!({})))
        .collect();
    let bytes: Vec<u8> = pairs.iter().flat_map(|(_, frame)| frame.clone()).collect();
    client.raw(&bytes);
    for (id, _) in pairs {
        assert!(client.answer(&id).is_ok());
    }
}

/// Starts an idle process that serves as the parent in `processId`.
#[expect(clippy::disallowed_methods, reason = "the test plays an editor's process")]
fn start_idle_process() -> Child {
    Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
