//! Cancels on the wire, and of processes and connections (I3, I8). Every phase of a turn is canceled in
//! `session::tests::cancel`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Id, World};
use crate::mock_llm::{Gate, Reply};

/// The message that cancels.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CancelMessage {
    Notification,
    Request,
}

/// Starts a turn and waits until its answer streams.
fn start_streaming(world: &World, client: &Client, session: &str) -> Id {
    let gate = Gate::new();
    world.mock().push(Reply::text("some words").gate(&gate));
    let id = client.prompt(session, "do it");
    world.wait_at_gate(&gate);
    client.next_matching(session, "agent/textDelta", |notification| {
        notification.text("text").ends_with("words")
    });
    id
}

/// Starts a turn and waits until a call asks.
fn start_asking(world: &World, client: &Client, session: &str) -> Id {
    let call = json!({"path": "x", "content": "x"});
    world.mock().push(Reply::tool("write_file", call));
    let id = client.prompt(session, "do it");
    client.next_approval(session);
    id
}

#[test]
fn a_canceled_request_is_answered_with_the_end_of_its_turn() {
    let world = World::new();
    let client = world.start();
    for (start, reason) in [
        (
            start_streaming as fn(&World, &Client, &str) -> Id,
            "aborted_streaming",
        ),
        (start_asking, "aborted_tools"),
    ] {
        let session = client.session();
        let at = world.requests();
        let id = start(&world, &client, &session);
        client.cancel_request(&id);
        let result = client.cancelled(&id);
        assert_eq!(json!(result.state), "cancelled");
        assert_eq!(json!(result.reason), reason);
        if reason == "aborted_streaming" {
            let request = world.wait_for_request(at);
            assert!(world.closed(&request).dropped, "the connection is closed");
        }
        // The history stays valid (the mock checks it), and the next prompt works.
        assert_eq!(client.ask(&session, "go on").text, "ok");
    }
    let metrics: Value = client.call("agent/metrics", json!({}));
    assert_eq!(metrics["totals"]["cancels"], 2);
    assert_eq!(world.read("x"), None);
}

/// A port with a full backlog: a further connection is neither accepted nor refused.
struct FullBacklog {
    port: u16,
    _listener: rustix::fd::OwnedFd,
    _waiting: Vec<rustix::fd::OwnedFd>,
}

impl FullBacklog {
    fn new() -> Self {
        use rustix::net::{
            AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
        };
        let any_port = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = socket();
        bind(&listener, &any_port).unwrap();
        listen(&listener, 0).unwrap();
        let address: std::net::SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        // Non-blocking: the first connections fill the backlog, the last get no place.
        let waiting = (0..8).map(|_| {
            let one = socket();
            let _ = connect(&one, &address);
            one
        });
        Self {
            port: address.port(),
            _waiting: waiting.collect(),
            _listener: listener,
        }
    }

    /// Returns the number of connections in progress to it.
    fn pending_connections(&self) -> usize {
        let end = format!(":{:04X}", self.port);
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let rows = table
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<_>>());
        // 02 is SYN_SENT; the port is that of the remote end.
        rows.filter(|row| row.len() > 3 && row[2].ends_with(&end) && row[3] == "02")
            .count()
    }
}

#[test]
fn cancel_takes_effect_while_connecting() {
    let full_backlog = FullBacklog::new();
    let world = World::with(Config {
        tables: format!(
            "[provider.deaf]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:{}\"\n\
             api_key = \"sk-unused-key\"\nmodel = \"mock-model\"\nconnect_timeout_s = 600\n",
            full_backlog.port
        ),
        ..Config::default()
    });
    let client = world.start();
    for by in [CancelMessage::Notification, CancelMessage::Request] {
        let session = client.session_with(json!({"model": "deaf"}));
        let before = full_backlog.pending_connections();
        let id = client.prompt(&session, "hello");
        world.wait_until(|| full_backlog.pending_connections() > before);
        let result = match by {
            CancelMessage::Notification => {
                client.cancel(&session);
                client.prompt_result(&id)
            }
            CancelMessage::Request => {
                client.cancel_request(&id);
                client.cancelled(&id)
            }
        };
        assert_eq!(json!(result.reason), "aborted_streaming");
        world.wait_until(|| full_backlog.pending_connections() <= before);
    }
}

#[test]
fn cancel_stops_a_read_only_tool() {
    let world = World::new();
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let command = json!({"command": "echo started; sleep 1000", "background": true});
    world.mock().push(Reply::tool("bash", command));
    world
        .mock()
        .push(Reply::tool("bash_output", json!({"id": "bg1", "wait_s": 600})));
    let id = client.prompt(&session, "wait for it");
    client.next_matching(&session, "agent/toolCall", |notification| {
        notification.text("name") == "bash_output" && notification.text("status") == "running"
    });
    client.cancel(&session);
    let result = client.prompt_result(&id);
    assert_eq!(json!(result.reason), "aborted_tools");
    let cut = client.tool_call(&session, "cancelled");
    assert_eq!(cut.text("name"), "bash_output");
    // The background process belongs to the session, not to the turn.
    assert!(client.processes() > 1);
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn second_cancel_kills_immediately() {
    let world = World::with(Config {
        tables: "[tool.bash]\non_cancel = \"finish\"\nfinish_timeout_s = 600\n".to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let command = "trap '' INT TERM; echo started; while :; do sleep 0.05; done";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let id = client.prompt(&session, "run it");
    client.next_matching(&session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("started")
    });
    client.cancel(&session);
    client.cancel(&session);
    // The graceful stop would take ten minutes.
    assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
    assert_eq!(client.processes(), 1);
    let cut = client.tool_call(&session, "cancelled");
    assert_eq!(
        cut.text("output"),
        "started\ncanceled while it ran\nkilled by signal 9"
    );
}

#[test]
fn command_that_exceeds_its_finish_timeout_is_interrupted() {
    let world = World::with(Config {
        tables: "[tool.bash]\non_cancel = \"finish\"\nfinish_timeout_s = 500\n".to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let command = "trap 'echo interrupted; exit 9' INT; echo started; while :; do sleep 0.05; done";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let id = client.prompt(&session, "run it");
    client.next_matching(&session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("started")
    });
    client.cancel(&session);
    // Nothing shows that the command's time begins to run. The tool was woken before the first answer was sent.
    for _ in 0..10 {
        client.settled();
    }
    client.advance(Duration::from_secs(400));
    client.settled();
    assert!(client.all(&session, "agent/turnEnded").is_empty());
    client.advance(Duration::from_secs(100));
    assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
    let cut = client.tool_call(&session, "cancelled");
    assert!(cut.text("output").contains("started\ninterrupted\n"), "{cut:?}");
    assert_eq!(client.processes(), 1);
}

#[test]
fn cancelling_the_resume_request_cancels_the_turn() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let id = start_streaming(&world, &client, &session);
    client.cancel(&session);
    let first = client.prompt_result(&id);
    let gate = Gate::new();
    world.mock().push(Reply::text("and more").gate(&gate));
    let resumed = client.send("agent/resumeTurn", json!({"sessionId": session}));
    world.wait_at_gate(&gate);
    client.cancel_request(&resumed);
    let result = client.cancelled(&resumed);
    assert_eq!(json!(result.reason), "aborted_streaming");
    assert_ne!(result.turn_id, first.turn_id);
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn prompt_and_cancel_in_one_write_cancel_the_turn() {
    let world = World::new();
    world.mock().default_reply(Reply::silent());
    let client = world.start();
    for round in 0..20 {
        let session = client.session();
        let (id, mut bytes) =
            client.request("agent/prompt", json!({"sessionId": session, "prompt": "hello"}));
        let cancel = match round % 2 {
            0 => json!({"jsonrpc": "2.0", "method": "agent/cancel", "params": {"sessionId": session}}),
            _ => json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id.number()}}),
        };
        bytes.extend(crate::harness::framed(cancel.to_string().as_bytes()));
        client.raw(&bytes);
        let result = match round % 2 {
            0 => client.prompt_result(&id),
            _ => client.cancelled(&id),
        };
        assert_eq!(json!(result.state), "cancelled", "round {round}");
    }
}

#[test]
fn unknown_and_malformed_cancels_do_nothing() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let gate = Gate::new();
    let half = Reply::text("half").gate(&gate);
    world.mock().push(half.with_text(" whole"));
    let id = client.prompt(&session, "do it");
    world.wait_at_gate(&gate);
    client.cancel("ses_none");
    client.notify("$/cancelRequest", json!({"id": 123_456}));
    let other_turn = json!({"sessionId": session, "turnId": "turn_none"});
    for params in [
        other_turn,
        json!({}),
        json!({"sessionId": 7}),
        Value::Null,
        json!([]),
    ] {
        client.notify("agent/cancel", params);
    }
    client.settled();
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "half whole");
}

#[test]
fn repeated_cancels_end_a_turn_once() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let id = start_asking(&world, &client, &session);
    for _ in 0..20 {
        client.cancel(&session);
    }
    client.cancel_request(&id);
    // The first cancel decides the form of the answer; the test client checks that the turn ends once.
    let answer = client.answer(&id);
    let state = match answer {
        Ok(result) => result["state"].clone(),
        Err(error) => error.data["state"].clone(),
    };
    assert_eq!(state, "cancelled");
    assert_eq!(client.ask(&session, "go on").text, "ok");
}
