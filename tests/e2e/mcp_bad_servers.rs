//! MCP servers that hang, crash, flood, or lie. None of them may hurt a turn, the server, or another MCP server
//! (R-MCP).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World, resident};
use crate::mcp::{call_tool, servers, world_with};
use crate::mcp_login::world_at;
use crate::mcp_peer::{HttpPeer, visit};
use crate::mock_llm::{RecordedRequest, Reply};

/// Allows every call, so that no question is asked.
const ALLOW: &str = "[approvals]\nallow = [\"mcp:*\"]";

/// Why an answer over several lines fails.
const SPLIT: &str = "it writes its answer over several lines, but MCP demands one message a line";

/// Returns a world with the scripted server over stdio, and one with it over HTTP, where it ends with the second value.
fn worlds(more: &str) -> [(World, Option<HttpPeer>); 2] {
    let peer = HttpPeer::start(&[]);
    let stdio = world_with(&[], &format!("{more}\n{ALLOW}"));
    [(stdio, None), (world_at(&peer, more), Some(peer))]
}

/// Runs a turn with a plain answer.
fn plain_turn(world: &World, client: &Client, session: &str) {
    world.mock().push(Reply::text("done"));
    let result = client.ask(session, "go");
    assert_eq!(json!(result.state), "completed");
}

fn warnings(client: &Client, session: &str) -> String {
    let warnings = client.all(session, "agent/warning");
    warnings
        .iter()
        .map(|warning| warning.text("message").to_owned() + "\n")
        .collect()
}

#[test]
fn a_server_that_ends_before_it_reads_is_reported_with_its_exit_code() {
    let world = World::with(Config {
        // It reads nothing, so that the first message may meet a closed pipe.
        tables: "[mcp.peer]\ncommand = \"sh\"\nargs = [\"-c\", \"exec 0<&-; echo no database >&2; sleep 0.2; exit 3\"]"
            .to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let server = &servers(&client)[0];
    assert_eq!(
        (&server["reason"], &server["stderr"]),
        (&json!("it ended with exit code 3"), &json!(["no database"]))
    );
}

/// Lets the server fail in two turns. Returns how often it has started by the end of each; `script` continues a shell
/// script that counts that.
fn count_starts(script: &str) -> [usize; 2] {
    let world = World::new();
    let log = world.path("starts.log");
    let words = format!("echo started >> {}; {script}", log.display());
    world.configure(Config {
        tables: format!("[mcp.peer]\ncommand = \"sh\"\nargs = [\"-c\", {words:?}]"),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    std::array::from_fn(|_| {
        plain_turn(&world, &client, &session);
        std::fs::read_to_string(&log).unwrap().lines().count()
    })
}

#[test]
fn a_server_that_fails_by_itself_starts_once_in_each_attempt() {
    // It ends before it reads anything, or at any request: then the first attempt tries both.
    assert_eq!(count_starts("exit 3"), [1, 2]);
    assert_eq!(count_starts("read line; exit 3"), [2, 3]);
}

/// Closes its output when a file appears, and ends only when it is told to.
const CLOSES_OUTPUT: &str = "\
import os, signal, sys, time
def log(word):
    with open(sys.argv[1], 'a') as file:
        file.write(word)
def end(*_):
    log('ended')
    os._exit(0)
signal.signal(signal.SIGTERM, end)
sys.stdin.buffer.readline()
log('read')
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
os.close(1)
log('closed')
while True:
    time.sleep(0.02)
";

#[test]
fn a_program_that_shall_start_in_another_way_is_stopped_properly_even_if_the_time_is_over() {
    let world = World::new();
    let (log, go) = (world.path("end.log"), world.path("go"));
    let words = ["-c", CLOSES_OUTPUT, log.to_str().unwrap(), go.to_str().unwrap()];
    world.configure(Config {
        tables: format!("[mcp.peer]\ncommand = \"python3\"\nargs = {words:?}\nstartup_timeout_s = 60"),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    client.wait_for_sandbox();
    client.freeze();
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    let has_logged = |word: &str| std::fs::read_to_string(&log).is_ok_and(|text| text.contains(word));
    world.wait_until(|| has_logged("read"));
    client.advance(Duration::from_millis(59_500));
    std::fs::write(&go, "").unwrap();
    world.wait_until(|| has_logged("closed"));
    client.settled();
    // The time for the start ends, and then the time in which the program may end by itself.
    client.advance(Duration::from_millis(600));
    world.wait_until(|| {
        client.settled();
        client.advance(Duration::from_millis(600));
        has_logged("ended")
    });
    client.thaw();
    client.prompt_result(&prompt);
}

#[test]
fn a_server_that_does_not_start_delays_the_first_call_within_its_limit_and_visibly() {
    let world = world_with(&["--start", "hang"], "startup_timeout_s = 300");
    let client = world.start();
    let session = client.session();
    client.wait_for_sandbox();
    // A running program shows that its time to start runs, if the one before it has ended.
    let turn_until_limit = || {
        world.wait_until(|| client.processes() == 1);
        world.mock().push(Reply::text("done"));
        let id = client.prompt(&session, "go");
        world.wait_until(|| client.processes() > 1);
        client.advance(Duration::from_secs(200));
        client.settled();
        assert!(client.take_answer(&id).is_none(), "it waits for the server");
        client.advance(Duration::from_secs(100));
        assert_eq!(json!(client.prompt_result(&id).state), "completed");
    };
    turn_until_limit();
    let waits = client.all(&session, "agent/wait");
    assert!(
        waits[0].text("why").contains("MCP servers are starting: peer"),
        "{:?}",
        waits[0]
    );
    let said = warnings(&client, &session);
    assert!(
        said.contains("MCP server peer: it did not start within 300 s"),
        "{said}"
    );
    // Turns within the pauses after that wait for it again, and say that they lack it.
    for _ in 0..2 {
        turn_until_limit();
    }
    let said = warnings(&client, &session);
    assert_eq!(said.matches("it did not start within 300 s").count(), 3, "{said}");
    // A turn of any session within the rest says so at once.
    let rests = "; after three failures in a row, it is tried again in ";
    let session = client.session();
    plain_turn(&world, &client, &session);
    let said = warnings(&client, &session);
    assert!(
        said.contains(&format!(
            "it did not start within 300 s (startup_timeout_s){rests}"
        )),
        "{said}"
    );
    let listed = &servers(&client)[0];
    assert!(
        listed["state"] == "failed" && listed["reason"].to_string().contains(rests),
        "{listed}"
    );
}

#[test]
fn a_changed_list_that_does_not_come_delays_a_step_only_briefly() {
    let world = world_with(&[], &format!("startup_timeout_s = 3600\n{ALLOW}"));
    let client = world.start();
    let session = client.session();
    let called = call_tool(&world, &client, &session, "stall_lists", json!({}));
    assert!(called.contains("stalled"), "{called}");
    assert_eq!(servers(&client)[0]["state"], "ready");
}

#[test]
fn a_cancel_while_servers_start_ends_the_turn() {
    let world = world_with(&["--start", "hang"], "startup_timeout_s = 3600");
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "go");
    client.next(&session, "agent/wait");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
}

#[test]
fn a_required_server_that_fails_ends_the_turn_with_the_reason() {
    let world = world_with(&["--start", "error"], "required = true");
    let client = world.start();
    let session = client.session();
    let result = client.ask(&session, "go");
    assert_eq!(json!(result.state), "failed");
    let ended = client.all(&session, "agent/turnEnded")[0].params.to_string();
    assert!(
        ended.contains("peer is required") && ended.contains("the database is gone"),
        "{ended}"
    );
    assert_eq!(world.requests(), 0);
}

#[test]
fn a_required_server_whose_settings_cannot_be_used_ends_the_turn_with_the_reason() {
    let world = World::with(Config {
        tables: "[mcp.peer]\ncommand = \"python3\"\nargs = [\"${NOT_SET}\"]\nrequired = true\n\
                 [mcp.adjusted]\nrequired = true\n"
            .to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    assert_eq!(json!(client.ask(&session, "go").state), "failed");
    let ended = client.all(&session, "agent/turnEnded")[0].params.to_string();
    assert!(
        ended.contains("peer is required") && ended.contains("the environment variable NOT_SET is not set"),
        "{ended}"
    );
    assert_eq!(world.requests(), 0);
}

#[test]
fn a_server_that_chooses_an_unknown_version_of_the_protocol_is_refused() {
    let world = world_with(&["--start", "version"], "");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let said = warnings(&client, &session);
    assert!(
        said.contains("it chose the protocol version 1999-01-01, which agentls does not support"),
        "{said}"
    );
}

#[test]
fn an_answer_that_is_too_long_fails_its_call_with_the_reason() {
    for (world, _peer) in worlds("") {
        let client = world.start();
        let session = client.session();
        let failed = call_tool(&world, &client, &session, "flood", json!({"count": 20}));
        assert!(failed.contains("its answer has more than 16 MiB"), "{failed}");
        assert_eq!(servers(&client)[0]["state"], "ready");
        let next = call_tool(&world, &client, &session, "echo", json!({"text": "still here"}));
        assert!(next.contains("still here"), "{next}");
    }
}

#[test]
fn an_answer_that_is_not_valid_json_fails_its_call_with_the_reason() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for (world, peer) in worlds("") {
        let client = world.start();
        for result in ["NaN", r#"{"content":["\u00zz"]}"#, "{\"a\":\"caf\u{e9}\"}", &deep] {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#);
            // Each in its own session, because a tool that fails three times rests.
            let session = client.session();
            let failed = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
            let reason = match peer {
                Some(_) if result.contains('\u{e9}') => "its answer broke off: invalid utf-8",
                _ => "its answer is not valid JSON",
            };
            assert!(failed.contains(reason), "{result}: {failed}");
        }
        assert_eq!(servers(&client)[0]["state"], "ready");
    }
}

#[test]
fn a_reply_over_http_that_is_no_answer_fails_its_call_at_once() {
    let peer = HttpPeer::start(&["--no-stream"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let none = "it took the request without an answer (HTTP 202 or 204)";
    let other = "its answer does not belong to the request";
    let batch = r#"[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]"#;
    let list = "its answer is a list of messages, which agentls does not support over HTTP";
    for (status, body, reason) in [
        (202, "", none),
        (204, "", none),
        (
            200,
            r#"{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}"#,
            other,
        ),
        (
            200,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
            other,
        ),
        (200, batch, list),
        (
            200,
            "{bad",
            "its answer is not valid JSON-RPC (key must be a string",
        ),
        (
            200,
            r#"{"jsonrpc":"2.0","id":ID}"#,
            "its answer is not valid JSON-RPC (unrecognized",
        ),
        (200, "", "its answer is not valid JSON-RPC (EOF"),
    ] {
        // Each in its own session, because a tool that fails three times rests.
        let session = client.session();
        let failed = call_tool(
            &world,
            &client,
            &session,
            "garbage",
            json!({"status": status, "body": body}),
        );
        assert!(failed.contains(reason), "{body}: {failed}");
    }
    for (answer, reason) in [
        (
            r#"{"jsonrpc":"2.0",bad"#,
            "its answer is not valid JSON-RPC (key must be a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":ID}"#,
            "its answer is not valid JSON-RPC (unrecognized",
        ),
        (batch, list),
    ] {
        let session = client.session();
        let failed = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
        assert!(failed.contains(reason), "{answer}: {failed}");
    }
    let session = client.session();
    let next = call_tool(&world, &client, &session, "echo", json!({"text": "still here"}));
    assert!(next.contains("still here"), "{next}");
}

/// An answer with this id to a call of `garbage`.
fn proper_answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"the answer"}}]}}}}"#)
}

#[test]
fn an_answer_over_http_may_write_its_id_in_another_way_or_come_in_the_stream_of_the_server() {
    let peer = HttpPeer::start(&[]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    let call = |input: Value| {
        let answered = call_tool(&world, &client, &session, "garbage", input.clone());
        assert!(answered.contains("the answer"), "{input}: {answered}");
    };
    for id in ["\"ID\"", "ID.0"] {
        call(json!({"status": 200, "body": proper_answer(id)}));
    }
    // The official SDK for TypeScript accepts that too.
    world.wait_until(|| peer.events().iter().any(|event| event["http"] == "GET"));
    call(json!({"status": 202, "body": "", "later": proper_answer("ID")}));
}

#[test]
fn what_is_no_answer_before_the_answer_in_a_stream_is_ignored() {
    let peer = HttpPeer::start(&[]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    for event in [
        "event: ping\ndata: {bad",
        "event: message\ndata: {\"type\":\"keepalive\"}",
        "event: message\ndata: {bad",
        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"status\":\"processing\"}",
    ] {
        let answer = format!("{event}\n\ndata: {}\n", proper_answer("ID"));
        let answered = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
        assert!(answered.contains("the answer"), "{event}: {answered}");
    }
}

#[test]
fn an_answer_of_a_program_that_is_no_message_fails_its_call_unless_it_is_a_log() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    for answer in [
        r#"{"jsonrpc":"2.0","id":ID}"#,
        "{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}",
    ] {
        let session = client.session();
        let failed = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
        assert!(
            failed.contains("its answer is not valid JSON-RPC"),
            "{answer}: {failed}"
        );
        let answer = format!("{answer}\n{}", proper_answer("ID"));
        let answered = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
        assert!(answered.contains("the answer"), "{answer}: {answered}");
    }
    // The peer encodes these letters as the bytes of a byte order mark.
    let answer = format!("\u{ef}\u{bb}\u{bf}{}", proper_answer("ID"));
    let session = client.session();
    let answered = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
    assert!(answered.contains("the answer"), "{answered}");
}

#[test]
fn a_server_that_writes_over_several_lines_is_reported_at_once() {
    let world = world_with(&["--start", "indent"], "startup_timeout_s = 3600");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let said = warnings(&client, &session);
    assert!(said.contains(SPLIT), "{said}");
}

#[test]
fn an_answer_over_several_lines_fails_its_call_unless_it_is_a_log() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let call = |answer: String| {
        let session = client.session();
        call_tool(&world, &client, &session, "garbage", json!({"answer": answer}))
    };
    let answer = |text: &str, id: &str| {
        let content = json!([{"type": "text", "text": text}]);
        format!(r#"{{"result":{{"content":{content}}},"jsonrpc":"2.0","id":{id}}}"#)
    };
    let indented = |line: &str| {
        let parsed: Value = serde_json::from_str(&line.replace("ID", "0")).unwrap();
        let text = serde_json::to_string_pretty(&parsed).unwrap();
        text.replace("\"id\": 0", "\"id\": ID")
    };
    let (whole, log) = (answer("the answer", "ID"), json!({"port": 1, "id": 7}));
    let failed = call(indented(&whole));
    assert!(failed.contains(SPLIT), "{failed}");
    let log = serde_json::to_string_pretty(&log).unwrap();
    for before in [log, indented(&whole)] {
        let answered = call(format!("{before}\n{whole}"));
        assert!(answered.contains("the answer"), "{before}: {answered}");
    }
}

#[test]
fn a_list_of_messages_is_read() {
    let world = world_with(&["--start", "batch"], ALLOW);
    let client = world.start();
    let session = client.session();
    let read = call_tool(&world, &client, &session, "echo", json!({"text": "from a list"}));
    assert!(read.contains("from a list"), "{read}");
    // One bad message spoils no other.
    let logged =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\ud800"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"the last"}]}}"#;
    let answer = format!("[{logged},null,{answer}]");
    let last = call_tool(&world, &client, &session, "garbage", json!({"answer": answer}));
    assert!(last.contains("the last"), "{last}");
}

#[test]
fn a_server_with_too_many_tools_is_reported_once() {
    let world = world_with(&["--tools", "1000"], "startup_timeout_s = 600");
    let client = world.start();
    let session = client.session();
    for _ in 0..2 {
        plain_turn(&world, &client, &session);
    }
    let said = warnings(&client, &session);
    assert_eq!(
        said,
        "MCP server peer: it lists more than 1000 tools; the others are not used\n"
    );
    assert_eq!(servers(&client)[0]["tools"].as_array().unwrap().len(), 1_000);
}

#[test]
fn tools_on_many_pages_are_all_used() {
    let world = world_with(&["--tools", "600", "--page", "10"], "startup_timeout_s = 600");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let tools = servers(&client)[0]["tools"].to_string();
    assert!(tools.contains("extra_599"), "{tools}");
}

#[test]
fn prompts_that_come_late_are_waited_for_where_they_are_used() {
    let world = world_with(&["--slow-prompts", "3"], ALLOW);
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::text("done"));
    client.ask(&session, "go");
    world.mock().push(Reply::text("done"));
    client.ask(&session, "/mcp__peer__plain");
    let sent = world.wait_for_request(1).messages().to_vec();
    assert!(json!(sent).to_string().contains("A plain prompt."), "{sent:?}");
}

/// A server that answers works, so its tool's circuit stays closed.
#[test]
fn wrong_input_opens_no_circuit() {
    let world = world_with(&["--more"], ALLOW);
    let client = world.start();
    let session = client.session();
    for kind in ["result", "error"] {
        for number in 0..4 {
            let input = json!({"text": format!("{kind} {number}")});
            let refused = call_tool(&world, &client, &session, "wrong_input", input);
            assert!(refused.contains("no such file"), "{refused}");
        }
    }
    let right = call_tool(&world, &client, &session, "wrong_input", json!({"text": "right"}));
    assert!(!right.contains("not run"), "{right}");
}

#[test]
fn a_server_that_closes_its_output_is_lost_at_once() {
    let world = world_with(&["--more"], ALLOW);
    let client = world.start();
    let session = client.session();
    let lost = call_tool(&world, &client, &session, "close_output", json!({}));
    assert!(lost.contains("MCP server peer: it closed its output"), "{lost}");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "again"}));
    assert!(echo.contains("again"), "{echo}");
}

#[test]
fn a_program_that_does_not_exist_is_reported() {
    let world = World::with(crate::harness::Config {
        tables: "[mcp.peer]\ncommand = \"no-such-program-anywhere\"\n".to_owned(),
        ..crate::harness::Config::default()
    });
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let said = warnings(&client, &session);
    assert!(
        said.contains("cannot find program `no-such-program-anywhere`"),
        "{said}"
    );
}

#[test]
fn a_call_that_hangs_ends_by_its_limit_or_by_a_cancel_and_the_next_one_works() {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(crate::harness::Config {
        tables: crate::mcp::peer_table(
            &["--log", log.to_str().unwrap()],
            &format!("timeout_s = 300\n{ALLOW}"),
        ),
        ..crate::harness::Config::default()
    });
    let client = world.start();
    let session = client.session();
    let calls_of_hang = || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches("tools/call").count()
    };
    world.mock().push(Reply::tool("mcp__peer__hang", json!({})));
    let id = client.prompt(&session, "go");
    world.wait_until(|| calls_of_hang() == 1);
    client.advance(Duration::from_secs(300));
    client.prompt_result(&id);
    let late = world.wait_for_request(1).messages().last().unwrap()["content"][0].to_string();
    assert!(late.contains("timed out after 300 s"), "{late}");
    world.mock().push(Reply::tool("mcp__peer__hang", json!({})));
    let id = client.prompt(&session, "go");
    world.wait_until(|| calls_of_hang() == 2);
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    world.wait_until(|| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches("notifications/cancelled").count() == 2
    });
    let next = call_tool(&world, &client, &session, "echo", json!({"text": "still here"}));
    assert!(next.contains("still here"), "{next}");
}

#[test]
fn a_server_that_crashes_in_a_call_starts_again() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let crashed = call_tool(&world, &client, &session, "crash", json!({}));
    assert!(
        crashed.contains("MCP server peer: it ended with exit code 3")
            && crashed.contains("\\nthe peer crashes on purpose"),
        "{crashed}"
    );
    // The person learns of it in the same turn.
    let said = warnings(&client, &session);
    assert!(
        said.contains("MCP server peer: it ended with exit code 3"),
        "{said}"
    );
    world.wait_until(|| {
        let failed = client.notes().into_iter().find(|note| {
            note.method == "agent/mcpServerUpdated" && note.params["server"]["state"] == "failed"
        });
        failed.is_some_and(|failed| {
            let server = failed.params["server"].to_string();
            server.contains("exit code 3") && server.contains("the peer crashes on purpose")
        })
    });
    // Its tools are still offered, and a call waits for the restart.
    let next = call_tool(&world, &client, &session, "echo", json!({"text": "again"}));
    assert!(next.contains("again"), "{next}");
    assert_eq!(servers(&client)[0]["state"], "ready");
    // A second crash is news too, although it has the same reason.
    call_tool(&world, &client, &session, "crash", json!({}));
    let said = warnings(&client, &session);
    assert_eq!(said.matches("it ended with exit code 3").count(), 2, "{said}");
}

#[test]
fn a_server_rests_after_three_crashes_between_which_it_did_nothing() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let state = || servers(&client)[0]["state"].clone();
    for _ in 0..3 {
        call_tool(&world, &client, &session, "echo", json!({"text": "well"}));
        let crashed = call_tool(&world, &client, &session, "crash", json!({}));
        assert!(crashed.contains("exit code 3"), "{crashed}");
    }
    // It worked before each crash, so it starts once more.
    world.wait_until(|| state() == "ready");
    // The tools of a server that rests are gone.
    world.mock().allow_rewrites();
    // Another session, because a tool that fails three times rests too.
    let session = client.session();
    for _ in 0..2 {
        call_tool(&world, &client, &session, "crash", json!({}));
    }
    let before = warnings(&client, &session).len();
    let rests = call_tool(&world, &client, &session, "echo", json!({"text": "again"}));
    let reason =
        "the MCP server peer does not run: it ended with exit code 3; after three failures in a row, it is ";
    assert!(
        rests.contains(reason) && !rests.contains("the tools are"),
        "{rests}"
    );
    let said = warnings(&client, &session).split_off(before);
    assert!(
        said.contains("exit code 3; after three failures in a row, it is tried again in "),
        "{said}"
    );
    assert_eq!(state(), "failed");
}

#[test]
fn floods_and_lies_of_every_kind_are_bounded() {
    for (world, _peer) in worlds("timeout_s = 600") {
        let client = world.start();
        let session = client.session();
        let call = |tool: &str, input: Value| call_tool(&world, &client, &session, tool, input);
        call("echo", json!({"text": "warm"}));
        let (before, _) = resident(client.pid());
        let flood = call("flood", json!({"count": 8}));
        assert!(flood.len() < 80_000 && flood.contains("bytes"), "{}", flood.len());
        let notified = call("flood_notifications", json!({"count": 50_000}));
        assert!(notified.contains("50000 notifications sent"), "{notified}");
        assert!(call("flood_errors", json!({"count": 100_000})).contains("100000 lines written"));
        assert!(call("garbage", json!({})).contains("garbage sent"));
        assert!(call("wrong_id", json!({})).contains("the right answer"));
        assert!(call("twice", json!({})).contains("the first answer"));
        let shape = call("wrong_shape", json!({}));
        assert!(shape.contains("\"is_error\":true"), "{shape}");
        call("wrong_structure", json!({}));
        let sampled = call("sample", json!({}));
        assert!(sampled.contains("error"), "{sampled}");
        assert!(call("echo", json!({"text": "alive"})).contains("alive"));
        // Over HTTP there is none.
        let stderr = servers(&client)[0]["stderr"].clone();
        assert!(
            stderr.as_array().is_none_or(|lines| lines.len() <= 21),
            "{stderr}"
        );
        let (after, _) = resident(client.pid());
        assert!(after < before + (200 << 20), "{before} {after}");
    }
}

#[test]
fn a_line_without_an_end_is_dropped() {
    let world = world_with(&[], &format!("timeout_s = 300\n{ALLOW}"));
    let client = world.start();
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("mcp__peer__flood_line", json!({"count": 64})));
    let id = client.prompt(&session, "go");
    // The peer says on stderr that the server has read it all.
    world.wait_until(|| {
        servers(&client)[0]["stderr"]
            .to_string()
            .contains("the line is written")
    });
    client.advance(Duration::from_secs(300));
    client.prompt_result(&id);
    let endless = world.wait_for_request(1).messages().last().unwrap()["content"][0].to_string();
    assert!(endless.contains("timed out"), "{endless}");
    let (resident, _) = resident(client.pid());
    assert!(resident < 200 << 20, "{resident}");
    plain_turn(&world, &client, &session);
}

#[test]
fn odd_tools_are_named_and_described_as_providers_demand() {
    let world = world_with(&["--lie"], ALLOW);
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let request = world.wait_for_request(0);
    let tools = request.body["tools"].as_array().unwrap();
    let odd: Vec<&Value> = tools
        .iter()
        .filter(|tool| tool["name"].as_str().unwrap().starts_with("mcp__"))
        .collect();
    assert!(odd.len() > 30, "{}", odd.len());
    let mut names = std::collections::BTreeSet::new();
    for tool in odd {
        let name = tool["name"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        assert!(
            name.len() <= 64
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
            "{name}"
        );
        let schema = &tool["input_schema"];
        assert!(
            schema["type"] == "object" && schema["properties"].is_object(),
            "{name}: {schema}"
        );
        assert!(!schema.to_string().contains("$ref"), "{name}: {schema}");
        let description = tool["description"].as_str().unwrap_or_default();
        assert!(
            description.len() <= 4_200 && !description.contains('\u{1b}'),
            "{name}"
        );
    }
    let echo = call_tool(
        &world,
        &client,
        &session,
        "echo",
        json!({"text": "the first one"}),
    );
    assert!(echo.contains("the first one"), "{echo}");
}

#[test]
fn a_tool_that_the_provider_refuses_is_left_out_and_named_with_its_server() {
    fn find_image(request: &RecordedRequest) -> Option<usize> {
        let mut tools = request.body["tools"].as_array().unwrap().iter();
        tools.position(|tool| tool["name"] == "mcp__peer__image")
    }
    let world = world_with(&[], ALLOW);
    world.mock().allow_rewrites();
    world.mock().respond_with(move |request| {
        let words = format!(
            "tools.{}.custom.input_schema: JSON schema is invalid.",
            find_image(request)?
        );
        Some(Reply::error(400, "invalid_request_error", &words))
    });
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    plain_turn(&world, &client, &session);
    let offered = [0, 1, 2].map(|at| find_image(&world.wait_for_request(at)).is_some());
    assert_eq!(offered, [true, false, false]);
    let warnings = warnings(&client, &session);
    let words = "rejected the tool mcp__peer__image of the MCP server peer (tools.";
    assert_eq!(warnings.matches(words).count(), 1, "{warnings}");
}

/// The mock refuses other names as Messages does.
#[test]
fn arguments_with_refused_names_have_others_for_models_and_their_own_for_the_server() {
    let world = world_with(&["--lie"], ALLOW);
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let request = world.wait_for_request(0);
    let mut tools = request.body["tools"].as_array().unwrap().iter();
    let tool = tools
        .find(|tool| tool["name"] == "mcp__peer__odd_arguments")
        .unwrap();
    let name_of = |own: &str| {
        let properties = tool["input_schema"]["properties"].as_object().unwrap();
        let is_own = |schema: &&Value| {
            schema["description"]
                .as_str()
                .unwrap()
                .starts_with(&format!("`{own}`"))
        };
        let (name, _) = properties.iter().find(|(_, schema)| is_own(schema)).unwrap();
        name.clone()
    };
    let (first, second) = (name_of("$.xgafv"), name_of("rule_name[]"));
    let input = json!({first.as_str(): "1", second.as_str(): ["a"]});
    let answer = call_tool(&world, &client, &session, "odd_arguments", input.clone());
    assert!(answer.contains("$.xgafv=1 rule_name[]=['a']"), "{answer}");
    // The history keeps the names that the model knows.
    let request = world.wait_for_request(world.requests() - 1);
    let calls = request.messages().iter().rev().nth(1).unwrap();
    assert_eq!(calls["content"][0]["input"], input);
}

#[test]
fn a_list_without_an_end_is_read_in_part() {
    let world = world_with(&["--endless-pages"], "startup_timeout_s = 600");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    assert_eq!(servers(&client)[0]["state"], "ready");
}

/// The definitions of 300 tools would take most of a request; `search_tools` loads those that are needed.
#[test]
fn many_tools_are_deferred_and_loaded_on_demand() {
    let world = world_with(&["--tools", "300"], ALLOW);
    // A loaded tool joins the definitions.
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::tool(
        "search_tools",
        json!({"query": "mcp__peer__extra_217"}),
    ));
    world
        .mock()
        .push(Reply::tool("mcp__peer__extra_217", json!({"text": "x"})));
    world.mock().push(Reply::text("done"));
    client.ask(&session, "use it");
    let tools = |index: usize| {
        world.wait_for_request(index).body["tools"]
            .as_array()
            .unwrap()
            .clone()
    };
    let has = |tools: &[Value], name: &str| tools.iter().any(|tool| tool["name"] == name);
    let first = tools(0);
    assert!(has(&first, "search_tools") && !has(&first, "mcp__peer__extra_217"));
    let search = first.iter().find(|tool| tool["name"] == "search_tools").unwrap();
    assert!(
        search["description"]
            .as_str()
            .unwrap()
            .contains("mcp__peer__extra_299")
    );
    assert!(has(&tools(1), "mcp__peer__extra_217"));
    let answer = world.wait_for_request(2).messages().last().unwrap()["content"][0].to_string();
    assert!(answer.contains("extra_217 ran"), "{answer}");
    // About four characters are a token: the list of names against all definitions.
    let deferred = json!(first).to_string().len() / 4;
    let all: Value = client.call("agent/listTools", json!({"sessionId": session}));
    let complete = all["tools"].to_string().len() / 4;
    assert!(
        complete > 25_000 && deferred * 3 < complete,
        "{deferred} of {complete} tokens"
    );
}

#[test]
fn a_few_tools_are_deferred_where_all_take_a_tenth_of_the_window() {
    let more = "tools = [\"echo\"]\n[model.small]\ncontext_window = 30000";
    let world = world_with(&[], more);
    let client = world.start();
    for (model, is_deferred) in [("mock/mock-model", false), ("mock/small", true)] {
        let session = client.session_with(json!({"model": model}));
        plain_turn(&world, &client, &session);
        let request = world.wait_for_request(world.requests() - 1);
        let tools = request.body["tools"].as_array().unwrap();
        let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
        assert_eq!(
            (has("search_tools"), has("mcp__peer__echo")),
            (is_deferred, !is_deferred),
            "{model}"
        );
    }
}

#[test]
fn malformed_entries_over_http_hide_no_other() {
    let peer = HttpPeer::start(&["--lie"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    let echoed = call_tool(&world, &client, &session, "echo", json!({"text": "over HTTP"}));
    assert!(echoed.contains("over HTTP"), "{echoed}");
    let listed = &servers(&client)[0];
    let tools: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        tools.contains(&"environment") && tools.contains(&"no_schema"),
        "{tools:?}"
    );
    let commands: Value = client.call("agent/listCommands", json!({"sessionId": session}));
    let names: Vec<&str> = commands["commands"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|command| command["name"].as_str())
        .collect();
    assert!(
        names.contains(&"mcp__peer__plain") && names.contains(&"mcp__peer__hidden"),
        "{names:?}"
    );
    assert!(!names.contains(&"mcp__peer__bad_arguments"), "{names:?}");
}

#[test]
fn a_refusal_over_http_that_names_no_request_ends_the_call_at_once() {
    let peer = HttpPeer::start(&["--anonymous-errors"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    let refused = call_tool(&world, &client, &session, "refuse", json!({}));
    assert!(refused.contains("MCP server peer: not today"), "{refused}");
    let next = call_tool(&world, &client, &session, "echo", json!({"text": "still here"}));
    assert!(next.contains("still here"), "{next}");
}

#[test]
fn a_call_ends_soon_when_its_server_over_http_is_gone() {
    for (resumable, reason) in [
        (true, "the connection was lost"),
        (false, "its answer broke off: "),
    ] {
        let peer = HttpPeer::start(&[]);
        let world = world_at(&peer, "");
        let client = world.start();
        let session = client.session();
        let lost = call_tool(
            &world,
            &client,
            &session,
            "crash",
            json!({"resumable": resumable}),
        );
        assert!(lost.contains(&format!("MCP server peer: {reason}")), "{lost}");
    }
}

/// Starts a proxy that answers every request with this status line. Returns its address.
fn start_refusing_proxy(status: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {}
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    address.to_string()
}

#[test]
fn a_failure_of_the_proxy_on_the_way_to_a_server_names_it() {
    let asking = start_refusing_proxy("407 Proxy Authentication Required");
    let refusing = start_refusing_proxy("403 Forbidden");
    for (scheme, proxy, failure) in [
        ("https", "127.0.0.1:1", "refused the connection"),
        (
            "https",
            &asking,
            "asks for a user name and password in [network] proxy",
        ),
        (
            "http",
            &asking,
            "asks for a user name and password in [network] proxy",
        ),
        (
            "https",
            &refusing,
            "did not connect to mcp.example.invalid: it answered 403 Forbidden",
        ),
    ] {
        let world = World::with(Config {
            tables: format!(
                "[network]\nproxy = \"http://{proxy}\"\n[mcp.peer]\nurl = \"{scheme}://mcp.example.invalid/mcp\""
            ),
            ..Config::default()
        });
        let client = world.start();
        let session = client.session();
        plain_turn(&world, &client, &session);
        let said = warnings(&client, &session);
        assert!(
            said.contains(&format!("the proxy {proxy} ([network] proxy) {failure}"))
                && said.contains("check [network] proxy, or add mcp.example.invalid to NO_PROXY"),
            "{scheme} {said}"
        );
    }
}

#[test]
fn a_refused_introduction_over_http_is_reported_with_the_answer() {
    let peer = HttpPeer::start(&["--refuse", "notifications/initialized"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let said = warnings(&client, &session);
    assert!(
        said.contains("MCP server peer: ") && said.contains("HTTP 400"),
        "{said}"
    );
}

#[test]
fn a_redirect_is_reported_with_its_target() {
    let peer = HttpPeer::start(&["--fail-status", "307"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    plain_turn(&world, &client, &session);
    let (said, target) = (warnings(&client, &session), peer.url.join("/mcp/").unwrap());
    let expected = format!("MCP server peer: the server redirects to {target}, which is not followed");
    assert!(said.contains(&expected) && said.contains("`url`"), "{said}");
}

#[test]
fn a_session_that_the_server_has_forgotten_begins_anew() {
    for status in [
        "400",
        "404",
        "400-plain",
        "410-plain",
        "400-id",
        "200-id",
        "400-first",
        "200-events",
    ] {
        let peer = HttpPeer::start(&["--unknown-session", status]);
        let world = world_at(&peer, "");
        let client = world.start();
        let session = client.session();
        call_tool(&world, &client, &session, "echo", json!({"text": "before"}));
        let forget = peer.url.join("/forget-sessions").unwrap();
        visit(forget.as_str());
        let next = call_tool(&world, &client, &session, "echo", json!({"text": "after"}));
        assert!(
            next.contains("after") && !next.contains("\"is_error\":true"),
            "{status}: {next}"
        );
    }
}

#[test]
fn a_call_that_may_have_run_is_not_repeated_in_a_new_session() {
    let peer = HttpPeer::start(&["--unknown-session", "200-words"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let session = client.session();
    call_tool(&world, &client, &session, "echo", json!({"text": "before"}));
    visit(peer.url.join("/forget-sessions").unwrap().as_str());
    let refused = call_tool(&world, &client, &session, "echo", json!({"text": "after"}));
    assert!(
        refused.contains("the session of the browser was not found"),
        "{refused}"
    );
    let next = call_tool(&world, &client, &session, "echo", json!({"text": "at last"}));
    assert!(
        next.contains("at last") && !next.contains("\"is_error\":true"),
        "{next}"
    );
}
