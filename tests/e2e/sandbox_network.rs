//! Sandboxed commands with `network = "proxy"` (R-BOX): which hosts they reach, and what is asked.
//!
//! Real programs that use it are in `sandbox_real_work`.
//!
//! The servers are on the loopback addresses of this machine. `127.0.0.2` is one that programs do not exclude from their
//! proxy, and `localhost` is a name that is asked about like any other.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "runs the program as a user would")]

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Config, FileServer, World};
use crate::mcp::{call_tool, peer_table};
use crate::mock_llm::Reply;
use crate::sandbox::{Confined, ConfinedSession, last_result, session_in};

/// Returns the settings for these allowed hosts.
fn allow(hosts: &[String]) -> String {
    format!("network = \"proxy\"\nallow_hosts = {hosts:?}")
}

/// Starts a session with these allowed hosts.
fn proxied(hosts: &[String]) -> Option<ConfinedSession> {
    ConfinedSession::start(&allow(hosts), Vec::new())
}

#[test]
fn an_allowed_server_on_localhost_is_reached() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    let Some(case) = proxied(&[format!("localhost:{port}")]) else {
        return;
    };
    let result = case.run(&format!("curl -sS http://localhost:{port}/hello; echo $no_proxy"));
    assert!(result.contains("hello from outside"), "{result}");
    assert!(
        result.contains("127.0.0.1,::1") && !result.contains("localhost,"),
        "{result}"
    );
}

/// Requests a page through the proxy, whatever the variables exclude.
fn curl(url: &str) -> String {
    format!("curl -sS --noproxy '' {url}")
}

#[test]
fn an_allowed_host_is_reached_through_the_proxy_and_nothing_else_is() {
    let server = FileServer::hello("127.0.0.2");
    let port = server.port;
    let udp = UdpSocket::bind("127.0.0.2:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let Some(case) = proxied(&[format!("127.0.0.2:{port}")]) else {
        return;
    };
    let url = format!("http://127.0.0.2:{port}/hello");
    let result = case.run(&format!("curl -sS {url}; curl -sSp {url}; echo status $?"));
    assert_eq!(result.matches("hello from outside").count(), 2, "{result}");
    assert!(result.contains("status 0"), "{result}");
    assert_eq!(server.requests(), ["/hello", "/hello"]);
    let direct = format!(
        "curl -sS --noproxy '*' {url} && echo OPEN\n\
         (: <> /dev/tcp/127.0.0.2/{port}) && echo OPEN\n\
         echo x > /dev/udp/127.0.0.2/{udp_port}\n\
         curl -sS --noproxy '*' http://example.com/ && echo OPEN\n\
         getent hosts example.com && echo OPEN\n\
         curl -sS http://10.1.2.3/ http://169.254.169.254/ && echo status $?"
    );
    let result = case.run(&direct);
    assert!(!result.contains("\\nOPEN"), "{result}");
    assert!(result.contains("Could not resolve host"), "{result}");
    for refused in [
        "10.1.2.3:80 was refused: its address is in a private network",
        "169.254.169.254:80 was refused: its address is a link-local address",
    ] {
        // In the answer of the proxy, and in the note.
        assert_eq!(result.matches(refused).count(), 2, "{result}");
    }
    assert_eq!(server.requests().len(), 2, "nothing went around the proxy");
    let received = udp.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(received.kind(), ErrorKind::WouldBlock);
    assert_eq!(case.count_questions(), 0);
    assert_eq!(case.count_approvals(), 0);
}

#[test]
fn another_host_is_asked_about_once_and_remembered_for_the_session() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    // The entry opens the address, but does not name `localhost`.
    let Some(case) = proxied(&[format!("127.0.0.1:{port}")]) else {
        return;
    };
    let page = curl(&format!("http://localhost:{port}/hello"));
    let turn = case.start_command(&format!("{page} & {page} & wait; {page}"));
    let question = case.next_question();
    assert_eq!(
        question.text("text"),
        format!("The command wants to connect to localhost:{port}. Allow it?")
    );
    assert!(question.text("detail").contains("curl"), "{}", question.params);
    case.answer(&question, "allow");
    let result = case.finish(&turn);
    assert_eq!(result.matches("hello from outside").count(), 3, "{result}");
    let result = case.run(&page);
    assert!(!result.contains("was refused"), "{result}");
    assert_eq!(server.requests().len(), 4);
    assert_eq!(case.count_questions(), 1);
    // Another session asks for itself.
    let other = session_in(&case.client, "autoEdit");
    let input = json!({"command": page});
    case.world().mock().push(Reply::tool("bash", input));
    let turn = case.client.prompt(&other, "fetch it");
    let question = case.client.next(&other, "agent/questionRequested");
    case.answer(&question, "deny");
    case.client.prompt_result(&turn);
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_denied_host_is_reported_to_the_command_and_to_the_model() {
    let Some(case) = proxied(&[]) else { return };
    let command = "curl -sS -w 'code %{http_code}' http://denied.invalid/; curl -sS https://denied.invalid/";
    let turn = case.start_command(command);
    let question = case.next_question();
    case.answer(&question, "deny");
    let result = case.finish(&turn);
    for expected in [
        "agentls sandbox: denied.invalid:80 was refused",
        "code 403",
        "[the sandbox refused connections:",
        "denied.invalid:443 was refused: the user has denied it",
        "allow_hosts",
    ] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    case.run("curl -sS http://denied.invalid/");
    assert_eq!(case.count_questions(), 1);
}

#[test]
fn without_an_answer_other_hosts_are_denied() {
    let Some(case) = proxied(&["*.example.invalid".to_owned()]) else {
        return;
    };
    for _ in 0..2 {
        let turn = case.start_command("curl -sS http://dismissed.invalid/ http://dismissed.invalid/");
        // What nobody decided is asked again, but not within one command.
        let question = case.next_question();
        let dismissed = json!({"questionId": question.text("questionId"), "dismissed": true});
        let _: Value = case.client.call("agent/questionRespond", dismissed);
        let result = case.finish(&turn);
        assert!(result.contains("dismissed.invalid:80 was refused"), "{result}");
    }
}

#[test]
fn without_a_user_other_hosts_are_denied() {
    let Some(confined) = Confined::new(&allow(&["*.example.invalid".to_owned()])) else {
        return;
    };
    let client = confined.world.start();
    let session = session_in(&client, "autoEdit");
    let input = json!({"command": "for i in $(seq 12); do curl -s http://nobody$i.invalid/; done"});
    confined.world.mock().push(Reply::tool("bash", input));
    client.ask(&session, "fetch it");
    let result = last_result(&confined.world);
    assert_eq!(
        result.matches("nobody answered a question").count(),
        20,
        "{result}"
    );
    assert_eq!(result.matches("about 10 hosts only").count(), 4, "{result}");
    assert!(!result.contains("was asked"), "{result}");
}

#[test]
fn a_command_cannot_flood_the_user_with_hosts() {
    let Some(case) = proxied(&[]) else { return };
    let turn = case.start_command(
        "for i in $(seq 14); do curl -s -o /dev/null -w '%{http_code}\\n' http://h$i.invalid/ & done; wait",
    );
    for number in 1..=10 {
        let question = case.next_question();
        assert_eq!(case.count_questions(), number, "one at a time");
        case.answer(&question, "deny");
    }
    let result = case.finish(&turn);
    assert_eq!(case.count_questions(), 10);
    assert_eq!(result.matches("403").count(), 14, "{result}");
    assert_eq!(
        result
            .matches("a command may cause questions about 10 hosts only")
            .count(),
        4,
        "{result}"
    );
}

#[test]
fn a_cancel_ends_a_command_whose_question_is_open() {
    let Some(case) = proxied(&[]) else { return };
    let turn = case.start_command("curl -sS http://waiting.invalid/; sleep 1000");
    case.next_question();
    case.client.cancel(&case.id);
    assert_eq!(json!(case.client.prompt_result(&turn).reason), "aborted_tools");
    case.client.next(&case.id, "agent/questionResolved");
    assert_eq!(case.client.processes(), 1, "only the server is left");
}

#[test]
fn a_question_is_withdrawn_when_its_command_ends() {
    let Some(case) = proxied(&[]) else { return };
    let turn = case.start_command("curl -sS -m 1 http://waiting.invalid/");
    case.next_question();
    let resolved = case.client.next(&case.id, "agent/questionResolved");
    assert!(resolved.params["answers"].is_null(), "{}", resolved.params);
    assert_eq!(json!(case.client.prompt_result(&turn).state), "completed");
}

#[test]
fn the_time_limit_does_not_count_the_wait_for_an_answer() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    let Some(case) = proxied(&[format!("127.0.0.1:{port}")]) else {
        return;
    };
    let page = curl(&format!("http://localhost:{port}/hello"));
    // The file appears when the limit is over.
    let command = format!("(sleep 1.05; echo > passed) & {page}; wait");
    let turn = case.start_tool("bash", json!({"command": command, "timeout_s": 1}));
    let question = case.next_question();
    case.world().wait_until(|| case.world().read("passed").is_some());
    case.answer(&question, "allow");
    let result = case.finish(&turn);
    assert!(result.contains("hello from outside"), "{result}");
    assert!(!result.contains("timed out"), "{result}");
}

#[test]
fn a_background_command_that_outlives_its_turn_asks_nobody() {
    let Some(case) = proxied(&[]) else { return };
    let command =
        "while [ ! -e go ]; do sleep 0.05; done; curl -sS http://late.invalid/; echo > gone; sleep 1000";
    let turn = case.start_tool("bash", json!({"command": command, "background": true}));
    case.finish(&turn);
    case.world().write("go", "");
    case.world().wait_until(|| case.world().read("gone").is_some());
    let turn = case.start_tool("bash_output", json!({"id": "bg1"}));
    let result = case.finish(&turn);
    assert!(
        result.contains("[the sandbox refused connections:\\nlate.invalid:80"),
        "{result}"
    );
    assert_eq!(case.count_questions(), 0);
}

#[test]
fn a_background_command_asks_while_its_turn_runs() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    let Some(case) = proxied(&[format!("127.0.0.1:{port}")]) else {
        return;
    };
    let page = curl(&format!("http://localhost:{port}/hello"));
    for reply in [
        Reply::tool("bash", json!({"command": page, "background": true})),
        Reply::tool("bash_output", json!({"id": "bg1", "wait_s": 60})),
    ] {
        case.world().mock().push(reply);
    }
    let turn = case.client.prompt(&case.id, "fetch it");
    case.answer(&case.next_question(), "allow");
    let result = case.finish(&turn);
    assert!(result.contains("hello from outside"), "{result}");
    assert_eq!(case.count_questions(), 1);
}

#[test]
fn hooks_reach_the_allowed_hosts_and_ask_about_no_other() {
    let server = FileServer::hello("127.0.0.2");
    let port = server.port;
    let hook = |name: &str, url: &str| {
        format!(
            "[hook.{name}]\non = 'prompt'\nsandbox = 'workspace'\n\
             command = \"cat > /dev/null; curl -sS {url} > {name} 2>&1; true\"\n"
        )
    };
    let tables = format!(
        "{}\n{}{}",
        allow(&[format!("127.0.0.2:{port}")]),
        hook("allowed", &format!("http://127.0.0.2:{port}/hello")),
        hook("other", "http://other.invalid/"),
    );
    let Some(case) = ConfinedSession::start(&tables, Vec::new()) else {
        return;
    };
    case.world().mock().push(Reply::text("done"));
    case.client.ask(&case.id, "hello");
    let read = |name: &str| case.world().read(name).unwrap();
    assert_eq!(read("allowed"), "hello from outside\n");
    let other = read("other");
    assert!(other.contains("other.invalid:80 was refused"), "{other}");
    assert_eq!(case.count_questions(), 0);
}

/// Starts a session with a confined MCP server that may reach these hosts.
fn with_mcp_server(hosts: &[String]) -> Option<ConfinedSession> {
    let server = peer_table(&[], "sandbox = 'workspace'");
    let approvals = "[approvals]\nallow = [\"mcp:*\"]";
    ConfinedSession::start(&format!("{}\n{server}{approvals}", allow(hosts)), Vec::new())
}

#[test]
fn an_mcp_server_reaches_an_allowed_host_without_a_question() {
    let server = FileServer::hello("127.0.0.2");
    let Some(case) = with_mcp_server(&[format!("127.0.0.2:{}", server.port)]) else {
        return;
    };
    let url = format!("http://127.0.0.2:{}/hello", server.port);
    let result = call_tool(case.world(), &case.client, &case.id, "fetch", json!({"url": url}));
    assert!(result.contains("hello from outside"), "{result}");
    assert_eq!(server.requests(), ["/hello"]);
    assert_eq!(case.count_questions(), 0);
}

#[test]
fn an_mcp_server_asks_about_other_hosts_during_a_call() {
    let Some(case) = with_mcp_server(&[]) else { return };
    let fetch = |host: &str| case.start_tool("mcp__peer__fetch", json!({"url": format!("http://{host}/")}));
    let turn = fetch("denied.invalid");
    let question = case.next_question();
    assert_eq!(
        question.text("text"),
        "The MCP server peer wants to connect to denied.invalid:80. Allow it?"
    );
    let detail = question.text("detail");
    assert!(detail.contains("a call of peer/fetch"), "{detail}");
    case.answer(&question, "deny");
    let result = case.finish(&turn);
    assert!(result.contains("HTTP Error 403"), "{result}");
    let result = case.finish(&fetch("denied.invalid"));
    assert!(result.contains("HTTP Error 403"), "{result}");
    assert_eq!(case.count_questions(), 1, "an answer holds while the server runs");
    // The proxy tries to reach what the user allows.
    let turn = fetch("allowed.invalid");
    case.answer(&case.next_question(), "allow");
    let result = case.finish(&turn);
    assert!(result.contains("HTTP Error 502"), "{result}");
}

#[test]
fn the_command_line_denies_other_hosts_with_a_message() {
    let server = FileServer::hello("127.0.0.2");
    let Some(confined) = Confined::new(&allow(&[format!("127.0.0.2:{}", server.port)])) else {
        return;
    };
    let world = &confined.world;
    let script = format!(
        "curl -sS http://127.0.0.2:{}/hello; curl -sS http://other.invalid/",
        server.port
    );
    let output = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["sandbox", "run", "--", "bash", "-c", &script])
        .current_dir(world.workspace())
        .env_clear()
        .envs(world.env())
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(stdout.starts_with("hello from outside\n"), "{stdout}{stderr}");
    assert!(
        stderr.contains("agentls: other.invalid:80 was refused"),
        "{stdout}{stderr}"
    );
}

#[test]
fn without_a_network_of_their_own_commands_have_none() {
    let server = FileServer::hello("127.0.0.2");
    let url = format!("http://127.0.0.2:{}/hello", server.port);
    let settings = allow(&[format!("127.0.0.2:{}", server.port)]);
    let method = ("AGENTLS_SANDBOX_METHOD".to_owned(), "landlock".to_owned());
    let Some(case) = ConfinedSession::start(&settings, vec![method]) else {
        return;
    };
    let turn = case.start_command(&format!("curl -sS {url}; echo end $HTTP_PROXY."));
    // Such a sandbox does not replace an approval.
    case.client.decide(&case.client.next_approval(&case.id), "allow");
    let result = case.finish(&turn);
    assert!(result.contains("end ."), "{result}");
    assert!(server.requests().is_empty(), "{result}");
}

#[test]
fn entries_that_are_not_understood_are_errors_and_allow_nothing() {
    let world = World::with(Config {
        tables: "[sandbox]\nnetwork = \"proxy\"\nallow_hosts = [\"*\", \"http://a.example\", \"b.example\"]"
            .to_owned(),
        ..Config::default()
    });
    let output = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["config", "check"])
        .current_dir(world.workspace())
        .env_clear()
        .envs(world.env())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        stdout.matches("error: sandbox.allow_hosts").count(),
        2,
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(1), "{stdout}");
}

#[test]
fn a_question_about_a_host_ends_with_the_server() {
    for killed in [true, false] {
        let Some(case) = proxied(&[]) else { return };
        let turn = case.start_command("curl -sS http://waiting.invalid/");
        case.next_question();
        let ConfinedSession { confined, client, id } = case;
        if killed {
            client.kill();
        } else {
            client.close_input();
            client.prompt_result(&turn);
            client.wait_for_exit();
            drop(client);
        }
        let client = confined.world.start_asking();
        let loaded = client.load(&id);
        assert!(loaded.open_questions.is_empty(), "killed: {killed}");
        let resumed = client.send("agent/resumeTurn", json!({"sessionId": id}));
        client.prompt_result(&resumed);
        let asked = client.all(&id, "agent/questionRequested");
        assert!(
            asked.is_empty(),
            "killed: {killed}: an answer would change nothing"
        );
    }
}
