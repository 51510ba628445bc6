//! A cancel takes effect in every phase, and nothing happens afterwards (R-CANCEL, I3, I8).

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Id, World};
use crate::mock_llm::{Gate, Reply};

/// The phase of a turn in which the cancel arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    BeforeTheHead,
    BeforeTheFirstEvent,
    Streaming,
    InAToolsInput,
    RetryWait,
    Approval,
    TwoApprovals,
}

const PHASES: [Phase; 7] = [
    Phase::BeforeTheHead,
    Phase::BeforeTheFirstEvent,
    Phase::Streaming,
    Phase::InAToolsInput,
    Phase::RetryWait,
    Phase::Approval,
    Phase::TwoApprovals,
];

/// The message that cancels.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CancelMessage {
    Notification,
    Request,
}

fn slow_retries() -> Config {
    Config {
        // The mock asks for a wait of 900 s, so only a cancel can end it in time.
        provider: "max_retry_after_s = 1000".to_owned(),
        ..Config::default()
    }
}

/// Starts a turn and waits until it has reached a phase.
fn start_turn_in(world: &World, client: &Client, session: &str, phase: Phase) -> Id {
    let write = |path: &str| ("write_file".to_owned(), json!({"path": path, "content": "x"}));
    let gate = Gate::new();
    let reply = match phase {
        Phase::BeforeTheHead => Reply::silent(),
        Phase::BeforeTheFirstEvent => Reply::new().ping().gate(&gate),
        Phase::Streaming => Reply::text("some words").gate(&gate),
        Phase::InAToolsInput => Reply::text("I write")
            .call_raw("write_file", "{\"path\": \"x\", ", 4)
            .gate(&gate),
        Phase::RetryWait => Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "900"),
        Phase::Approval => Reply::tool(&write("x").0, write("x").1),
        Phase::TwoApprovals => Reply::new()
            .call(&write("x").0, write("x").1)
            .call(&write("y").0, write("y").1),
    };
    let before = world.requests();
    world.mock().push(reply);
    let id = client.prompt(session, "do it");
    match phase {
        Phase::BeforeTheHead => drop(world.wait_for_request(before)),
        Phase::BeforeTheFirstEvent => world.wait_at_gate(&gate),
        Phase::Streaming => {
            world.wait_at_gate(&gate);
            client.next_matching(session, "agent/textDelta", |notification| {
                notification.text("text").ends_with("words")
            });
        }
        Phase::InAToolsInput => {
            client.next_matching(session, "agent/toolInputDelta", |notification| {
                notification.text("text").ends_with(", ")
            });
        }
        Phase::RetryWait => drop(client.next(session, "agent/retry")),
        Phase::Approval => drop(client.next_approval(session)),
        Phase::TwoApprovals => drop((client.next_approval(session), client.next_approval(session))),
    }
    id
}

#[test]
fn cancel_takes_effect_in_every_phase() {
    let world = World::with(slow_retries());
    let client = world.start();
    for phase in PHASES {
        for by in [CancelMessage::Notification, CancelMessage::Request] {
            let session = client.session();
            let at = world.requests();
            let id = start_turn_in(&world, &client, &session, phase);
            let request = world.wait_for_request(at);
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
            let name = format!("{phase:?} by {by:?}");
            assert_eq!(json!(result.state), "cancelled", "{name}");
            let tools = matches!(phase, Phase::Approval | Phase::TwoApprovals);
            let reason = if tools {
                "aborted_tools"
            } else {
                "aborted_streaming"
            };
            assert_eq!(json!(result.reason), reason, "{name}");
            if !tools && phase != Phase::RetryWait {
                assert!(
                    world.closed(&request).dropped,
                    "{name}: the provider's connection is closed"
                );
            }
            if phase == Phase::Streaming {
                assert_eq!(result.text, "some words");
                let message = client.all(&session, "agent/message").pop().unwrap();
                assert_eq!(message.params["incomplete"], true);
            }
            for resolved in client.all(&session, "agent/approvalResolved") {
                assert_eq!(
                    (resolved.text("decision"), resolved.text("by")),
                    ("deny", "cancel"),
                    "{name}"
                );
            }
            // The history stays valid (the mock checks it), and the next prompt works.
            assert_eq!(client.ask(&session, "go on").text, "ok", "{name}");
            assert_eq!((world.read("x"), world.read("y")), (None, None), "{name}");
        }
    }
    let metrics: Value = client.call("agent/metrics", json!({}));
    assert_eq!(metrics["totals"]["cancels"], 2 * PHASES.len());
    assert_eq!(world.mock().pending(), 0);
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
    let id = start_turn_in(&world, &client, &session, Phase::Streaming);
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
fn a_cancelled_turn_can_be_resumed() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let id = start_turn_in(&world, &client, &session, Phase::Streaming);
    client.cancel(&session);
    let cancelled = client.prompt_result(&id);
    world.mock().push(Reply::text("and more"));
    let resumed: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(resumed["text"], "and more");
    let started = client.all(&session, "agent/turnStarted").pop().unwrap();
    assert_eq!(started.text("resumes"), cancelled.turn_id);
    let error = client.refused("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(error.data["refusal"], "nothingToResume", "{error:?}");
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
fn cancels_for_other_turns_and_sessions_do_nothing() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let first = client.ask(&session, "first").turn_id;
    // No turn is running.
    client.cancel(&session);
    client.cancel("ses_none");
    client.notify("$/cancelRequest", json!({"id": 123_456}));
    let gate = Gate::new();
    world
        .mock()
        .push(Reply::text("half").gate(&gate).with_text(" whole"));
    let id = client.prompt(&session, "second");
    world.wait_at_gate(&gate);
    let other = client.session();
    client.notify("agent/cancel", json!({"sessionId": session, "turnId": first}));
    client.notify(
        "agent/cancel",
        json!({"sessionId": session, "turnId": "turn_none"}),
    );
    client.cancel(&other);
    for params in [json!({}), json!({"sessionId": 7}), Value::Null, json!([])] {
        client.notify("agent/cancel", params);
    }
    client.ping();
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "half whole");
    // A cancel with the right turn id takes effect.
    let id = start_turn_in(&world, &client, &session, Phase::Streaming);
    let turn = client.all(&session, "agent/turnStarted").pop().unwrap();
    client.notify(
        "agent/cancel",
        json!({"sessionId": session, "turnId": turn.text("turnId")}),
    );
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
}

#[test]
fn repeated_cancels_end_a_turn_once() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let id = start_turn_in(&world, &client, &session, Phase::Approval);
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

#[test]
fn cancel_affects_only_its_session_among_a_hundred() {
    let world = World::new();
    world.mock().default_reply(Reply::text("working").stall());
    let client = world.start();
    let turns: Vec<(String, Id)> = (0..100)
        .map(|n| {
            let session = client.session();
            let id = client.prompt(&session, format!("work {n}"));
            (session, id)
        })
        .collect();
    for (session, _) in &turns {
        client.next(session, "agent/textDelta");
    }
    for (session, id) in &turns {
        client.cancel(session);
        assert_eq!(json!(client.prompt_result(id).state), "cancelled");
    }
    world.mock().default_reply(Reply::text("ok"));
    for (session, _) in &turns {
        assert_eq!(client.ask(session, "go on").text, "ok");
    }
}

#[test]
fn thousand_pending_prompts_do_not_delay_a_cancel() {
    let world = World::new();
    world.mock().default_reply(Reply::silent());
    let client = world.start();
    let turns: Vec<(String, Id)> = (0..1_000)
        .map(|n| {
            let session = client.session();
            let id = client.prompt(&session, format!("work {n}"));
            (session, id)
        })
        .collect();
    // The last prompt reports its wait, so every free call is taken by then.
    client.next(&turns[999].0, "agent/wait");
    // One prompt is with the provider, the other waits for a free call.
    for at in [10, 990] {
        let (session, id) = &turns[at];
        client.cancel(session);
        assert_eq!(json!(client.prompt_result(id).state), "cancelled", "{at}");
    }
    client.ping();
    for (session, id) in turns
        .iter()
        .enumerate()
        .filter(|(at, _)| ![10, 990].contains(at))
        .map(|(_, turn)| turn)
    {
        client.cancel(session);
        assert_eq!(json!(client.prompt_result(id).state), "cancelled");
    }
}

#[test]
fn call_257_reports_its_wait_and_gets_the_next_free_place() {
    let world = World::new();
    let gate = Gate::new();
    world
        .mock()
        .default_reply(Reply::new().gate(&gate).with_text("done"));
    let client = world.start();
    let turns: Vec<(String, Id)> = (0..256)
        .map(|n| {
            let session = client.session();
            let id = client.prompt(&session, format!("work {n}"));
            (session, id)
        })
        .collect();
    world.wait_for_request(255);
    let session = client.session();
    let last = client.prompt(&session, "one more");
    let wait = client.next(&session, "agent/wait");
    assert!(!wait.text("why").is_empty());
    // A canceled wait must not use up a free place.
    let canceled_session = client.session();
    let id = client.prompt(&canceled_session, "never mind");
    client.next(&canceled_session, "agent/wait");
    client.cancel(&canceled_session);
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        (&result["state"], &result["reason"]),
        (&json!("cancelled"), &json!("aborted_streaming"))
    );
    assert_eq!(world.requests(), 256);
    client.cancel(&turns[0].0);
    assert_eq!(json!(client.prompt_result(&turns[0].1).state), "cancelled");
    world.wait_for_request(256);
    gate.release();
    assert_eq!(client.prompt_result(&last).text, "done");
    for (_, id) in &turns[1..] {
        assert_eq!(client.prompt_result(id).text, "done");
    }
}
