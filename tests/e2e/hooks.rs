//! Hooks (R-CONF): every moment, every answer and every failure; trust; cancel and kill while a hook runs.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Config, WAIT_LIMIT, World};
use crate::mock_llm::{Gate, Reply};
use crate::transitions::course;

const MOMENTS: [&str; 4] = ["prompt", "pre_tool", "post_tool", "stop"];

/// The table of one hook; `command` is a shell script.
fn hook(on: &str, command: &str) -> String {
    named_hook("h", on, command)
}

fn named_hook(name: &str, on: &str, command: &str) -> String {
    format!("[hook.{name}]\non = \"{on}\"\ncommand = '''\n{command}\n'''\n")
}

fn world(tables: &str) -> World {
    World::with(Config {
        tables: tables.to_owned(),
        ..Config::default()
    })
}

fn write(path: &str) -> Reply {
    Reply::tool("write_file", json!({"path": path, "content": "x"}))
}

/// Returns code and message of a session's warnings.
fn warnings(client: &Client, session: &str) -> Vec<(String, String)> {
    client
        .all(session, "agent/warning")
        .iter()
        .map(|notification| {
            (
                notification.text("code").to_owned(),
                notification.text("message").to_owned(),
            )
        })
        .collect()
}

/// Returns the texts that a session's last turn gave back at its end.
fn returned_steers(client: &Client, session: &str) -> Vec<String> {
    let ends = client.all(session, "agent/turnEnded");
    let steers = ends.last().unwrap().params["unusedSteers"].clone();
    let steers = steers.as_array().cloned().unwrap_or_default();
    steers
        .iter()
        .map(|steer| steer[0]["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the last notification about a tool call.
fn last_call(client: &Client, session: &str) -> Value {
    client
        .all(session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone()
}

#[expect(clippy::disallowed_methods, reason = "a bound is measured")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn hooks_get_their_event_and_the_sessions_folder_but_no_keys() {
    let tables: String = MOMENTS
        .iter()
        .map(|on| {
            named_hook(
                on,
                on,
                "cat >> ../input.log; echo >> ../input.log; pwd >> ../pwd; env >> ../env",
            )
        })
        .collect();
    let world = world(&tables);
    world.write("a.txt", "hello\n");
    world.write("sub/b", "");
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "../a.txt"})));
    world.mock().push(Reply::text("it says hello"));
    let client = world.start();
    let sub = world.workspace().join("sub");
    let session = client.session_with(json!({"cwd": sub, "mode": "full"}));
    let result = json!(client.ask(&session, "read it"));
    assert_eq!(
        course(&client, &session, &result),
        ["next_turn", "completed", "completed / completed / no error"]
    );
    let input_log = std::fs::read_to_string(world.workspace().join("input.log")).unwrap();
    let inputs: Vec<Value> = input_log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<&str> = inputs
        .iter()
        .map(|hook_input| hook_input["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, MOMENTS);
    for hook_input in &inputs {
        assert_eq!(hook_input["hook"], hook_input["event"]);
        assert_eq!(hook_input["sessionId"], session.as_str());
        assert_eq!(hook_input["turnId"], result["turnId"]);
        assert_eq!(hook_input["cwd"], sub.to_str().unwrap());
    }
    assert_eq!(inputs[0]["prompt"], "read it");
    assert_eq!(
        (&inputs[0]["steer"], &inputs[0]["references"]),
        (&json!(false), &json!([]))
    );
    let input = json!({"path": "../a.txt"});
    for call in &inputs[1..3] {
        assert_eq!((&call["tool"], &call["input"]), (&json!("read_file"), &input));
        assert!(
            call["toolCallId"].as_str().unwrap().starts_with("call_"),
            "{call}"
        );
    }
    assert!(inputs[2]["output"].as_str().unwrap().contains("hello"));
    assert_eq!(inputs[2]["isError"], false);
    assert_eq!(
        (&inputs[3]["answer"], &inputs[3]["objections"]),
        (&json!("it says hello"), &json!(0))
    );
    let pwd = std::fs::read_to_string(world.workspace().join("pwd")).unwrap();
    assert!(pwd.lines().all(|line| Path::new(line) == sub), "{pwd}");
    let env = std::fs::read_to_string(world.workspace().join("env")).unwrap();
    assert!(env.contains("PATH=") && !env.contains("E2E_SECRET_KEY"), "{env}");
    for file in ["input.log", "pwd", "env"] {
        std::fs::remove_file(world.workspace().join(file)).unwrap();
    }
    assert_eq!(warnings(&client, &session), []);
}

#[test]
fn blocked_prompt_reaches_no_model_and_is_returned() {
    let world = world(&hook(
        "prompt",
        "if grep -q secret; then echo 'no secrets, please' >&2; exit 2; fi",
    ));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "the secret is 42"));
    assert_eq!(
        course(&client, &session, &result),
        ["hook_stopped", "hook_stopped / completed / no error"]
    );
    assert_eq!(world.requests(), 0);
    assert_eq!(returned_steers(&client, &session), ["the secret is 42"]);
    let warning = "the hook `h` blocked your message: no secrets, please";
    assert_eq!(
        warnings(&client, &session),
        [("hook_blocked".to_owned(), warning.to_owned())]
    );
    // A later turn does not send it either, even after a load.
    drop(client);
    let client = world.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "hello").text, "ok");
    let sent = String::from_utf8_lossy(&world.wait_for_request(0).raw).into_owned();
    assert!(!sent.contains("42") && sent.contains("hello"), "{sent}");
}

#[test]
fn blocked_steer_is_returned_and_the_turn_continues() {
    let world = world(&hook("prompt", "if grep -q magenta; then exit 2; fi"));
    let gate = Gate::new();
    world.mock().push(Reply::text("one").gate(&gate));
    world.mock().push(Reply::text("two"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "count");
    client.next(&session, "agent/textDelta");
    for text in ["a magenta", "go on"] {
        let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": text}));
    }
    gate.release();
    let done = client.prompt_result(&id);
    assert_eq!(done.text, "two");
    assert_eq!(json!(done.state), "completed");
    assert_eq!(world.wait_for_request(1).last_text(), "go on");
    assert!(!String::from_utf8_lossy(&world.wait_for_request(1).raw).contains("magenta"));
    assert_eq!(returned_steers(&client, &session), ["a magenta"]);
}

#[test]
fn turn_ends_if_its_only_steer_is_blocked() {
    let tables = format!(
        "{}{}",
        named_hook("a", "prompt", "if grep -q magenta; then exit 2; fi"),
        named_hook("b", "stop", "touch stopped")
    );
    let world = world(&tables);
    let gate = Gate::new();
    world.mock().push(Reply::text("one").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "count");
    client.next(&session, "agent/textDelta");
    let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": "magenta"}));
    gate.release();
    assert_eq!(client.prompt_result(&id).text, "one");
    assert_eq!(client.reasons(&session), ["completed"]);
    assert_eq!(returned_steers(&client, &session), ["magenta"]);
    assert!(world.workspace().join("stopped").exists(), "stop hooks ran");
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn prompt_hook_may_rewrite_the_prompt_or_end_the_turn() {
    let world = world(&format!(
        "{}{}",
        named_hook(
            "a",
            "prompt",
            r#"grep -q '"prompt":"one"' && echo '{"prompt": "two"}' || true"#
        ),
        named_hook(
            "b",
            "prompt",
            r#"grep -q '"prompt":"stop"' && echo '{"endTurn": true, "reason": "closed today"}' || true"#
        ),
    ));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    assert_eq!(world.wait_for_request(0).last_text(), "two");
    let message = client.next_matching(&session, "agent/message", |notification| {
        notification.text("role") == "user"
    });
    assert_eq!(
        message.params["content"][0]["text"], "two",
        "people see what is sent"
    );
    let result = json!(client.ask(&session, "stop"));
    assert_eq!(result["reason"], "hook_stopped");
    assert_eq!(returned_steers(&client, &session), ["stop"]);
    let last = client.all(&session, "agent/transition").last().unwrap().clone();
    assert_eq!(last.text("detail"), "hook `b`: closed today");
    assert_eq!(world.requests(), 1);
}

#[test]
fn blocked_tool_call_neither_runs_nor_asks() {
    let world = world(
        &hook("pre_tool", "echo 'not today' >&2; exit 2").replace("command", "tool = [\"write_*\"]\ncommand"),
    );
    world.write("a.txt", "a\n");
    let both = Reply::new()
        .call("write_file", json!({"path": "x", "content": "x"}))
        .call("read_file", json!({"path": "a.txt"}));
    world.mock().push(both);
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "write"));
    assert_eq!(
        course(&client, &session, &result),
        ["next_turn", "completed", "completed / completed / no error"]
    );
    assert_eq!(world.read("x"), None);
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    let content = world.wait_for_request(1).body["messages"][2]["content"].clone();
    assert_eq!(
        content[0]["content"][0]["text"], "Blocked: [the hook `h` says: not today]",
        "{content}"
    );
    assert!(
        content[1]["content"][0]["text"].as_str().unwrap().contains('a'),
        "the other one ran"
    );
    let denied = client.tool_call(&session, "denied");
    assert_eq!(denied.text("name"), "write_file");
}

#[test]
fn a_hook_may_name_tools_of_mcp_servers_as_rules_do() {
    for name in ["mcp:peer/*", "mcp__peer__*"] {
        let hook = hook("pre_tool", "echo 'not today' >&2; exit 2");
        let hook = hook.replace("command", &format!("tool = [\"{name}\"]\ncommand"));
        let world = crate::mcp::world_with(&[], &format!("[approvals]\nallow = [\"mcp:*\"]\n{hook}"));
        let client = world.start();
        let session = client.session();
        let result = crate::mcp::call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
        assert!(
            result.contains("Blocked: [the hook `h` says: not today]"),
            "{result}"
        );
    }
}

#[test]
fn call_rewritten_by_a_hook_is_what_is_approved_and_run() {
    let other = r#"echo '{"input": {"path": "y", "content": "theirs"}}'"#;
    let world = world(&hook("pre_tool", other));
    world.mock().push(write("x"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    assert_eq!(
        approval.params["input"],
        json!({"path": "y", "content": "theirs"})
    );
    assert!(approval.text("title").contains('y'), "{approval:?}");
    let tool_call = client.tool_call(&session, "awaitingApproval");
    assert_eq!(tool_call.params["input"]["path"], "y");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert_eq!(
        (world.read("x"), world.read("y")),
        (None, Some("theirs".to_owned()))
    );
    let body = String::from_utf8_lossy(&world.wait_for_request(1).raw).into_owned();
    assert!(body.contains("the hook `h` changed the arguments to"), "{body}");
    // Without an approval, the notification still shows the changed input.
    let session = client.session_with(json!({"mode": "full"}));
    world.mock().push(write("x"));
    client.ask(&session, "write");
    assert_eq!(client.tool_call(&session, "running").params["input"]["path"], "y");
}

#[test]
fn call_rewritten_by_a_hook_must_match_the_tools_schema() {
    let world = world(&hook("pre_tool", r#"echo '{"input": {"target": "y"}}'"#));
    world.mock().push(write("x"));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    client.ask(&session, "write");
    assert_eq!(world.read("x"), None);
    let call = last_call(&client, &session);
    assert_eq!(call["status"], "failed");
    assert!(
        call["output"]
            .as_str()
            .unwrap()
            .contains("`target`: unknown field"),
        "{call}"
    );
}

#[test]
fn resumed_approval_of_a_rewritten_call_is_unchanged() {
    // A second run of the hook would return another path.
    let script = r#"n=$(ls | grep -c count-); touch count-$n
        echo "{\"input\": {\"path\": \"y$n\", \"content\": \"x\"}}""#;
    let world = world(&hook("pre_tool", script));
    world.mock().push(write("x"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    assert_eq!(approval.params["input"]["path"], "y0");
    client.abandon(id);
    client.kill();
    let client = world.start();
    client.load(&session);
    let id = client.send("agent/resumeTurn", json!({"sessionId": session}));
    let reopened = client.next_approval(&session);
    assert_eq!(reopened.params["input"]["path"], "y0");
    client.decide(&reopened, "allow");
    client.prompt_result(&id);
    assert_eq!(world.read("y0").as_deref(), Some("x"));
    assert_eq!(world.read("y1"), None);
}

#[test]
fn tool_hooks_may_end_the_turn() {
    for on in ["pre_tool", "post_tool"] {
        let world = world(&hook(on, r#"echo '{"endTurn": true, "reason": "enough"}'"#));
        world.mock().push(write("x"));
        let client = world.start();
        let session = client.session_with(json!({"mode": "full"}));
        let result = json!(client.ask(&session, "write"));
        assert_eq!(
            course(&client, &session, &result),
            ["hook_stopped", "hook_stopped / completed / no error"],
            "{on}"
        );
        assert_eq!(world.requests(), 1);
        assert_eq!(world.read("x").is_some(), on == "post_tool");
        let call = last_call(&client, &session);
        assert!(
            call["output"]
                .as_str()
                .unwrap()
                .contains("[the hook `h` says: enough]"),
            "{call}"
        );
        // The history is valid (the mock checks it).
        assert_eq!(client.ask(&session, "go on").text, "ok", "{on}");
    }
}

#[test]
fn post_tool_hook_adds_to_the_result() {
    let world = world(&hook("post_tool", "echo 'the linter is unhappy' >&2; exit 2"));
    world.mock().push(write("x"));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    client.ask(&session, "write");
    assert_eq!(world.read("x").as_deref(), Some("x"));
    let body = String::from_utf8_lossy(&world.wait_for_request(1).raw).into_owned();
    assert!(
        body.contains("[the hook `h` says: the linter is unhappy]"),
        "{body}"
    );
    assert_eq!(last_call(&client, &session)["status"], "completed");
}

#[test]
fn stop_hook_is_overruled_after_three_objections() {
    let world = world(&hook(
        "stop",
        "cat >> input.log; echo >> input.log; echo 'the tests fail' >&2; exit 2",
    ));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "stop_hook_blocking",
            "stop_hook_blocking",
            "stop_hook_blocking",
            "completed",
            "completed / completed / no error"
        ]
    );
    assert_eq!(world.requests(), 4);
    for n in 1..4 {
        let last_text = world.wait_for_request(n).last_text();
        assert!(
            last_text.contains("(`h`) objects to ending here: the tests fail"),
            "{last_text}"
        );
    }
    let warning = "the turn ends although a stop hook still objects (hook `h`: the tests fail)";
    assert_eq!(
        warnings(&client, &session),
        [("stop_hook_overruled".to_owned(), warning.to_owned())]
    );
    let input_log = std::fs::read_to_string(world.workspace().join("input.log")).unwrap();
    let counts: Vec<Value> = input_log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["objections"].clone())
        .collect();
    assert_eq!(counts, [0, 1, 2, 3]);
    let hidden: Vec<bool> = client
        .all(&session, "agent/message")
        .iter()
        .filter(|notification| notification.text("role") == "user")
        .map(|notification| notification.params["hidden"] == true)
        .collect();
    // The first one is the note about the environment.
    assert_eq!(hidden, [false, true, true, true, true]);
}

#[test]
fn turn_ends_when_the_stop_hook_no_longer_objects() {
    let world = world(&hook("stop", "test -e ready || { touch ready; exit 2; }"));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "stop_hook_blocking",
            "completed",
            "completed / completed / no error"
        ]
    );
    assert_eq!(warnings(&client, &session), []);
}

#[test]
fn stop_hook_may_end_the_turn() {
    let world = world(&hook("stop", r#"echo '{"endTurn": true, "reason": "closed"}'"#));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "stop_hook_prevented",
            "stop_hook_prevented / completed / no error"
        ]
    );
    assert_eq!(result["text"], "ok");
}

#[test]
fn steers_are_taken_while_a_stop_hook_runs() {
    let world = world(&hook(
        "stop",
        "touch runs; while [ ! -e go ]; do sleep 0.01; done",
    ));
    world.mock().push(Reply::text("one"));
    world.mock().push(Reply::text("two"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "count");
    world.wait_until(|| world.workspace().join("runs").exists());
    let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": "and on"}));
    std::fs::write(world.workspace().join("go"), "").unwrap();
    assert_eq!(client.prompt_result(&id).text, "two");
    assert_eq!(client.reasons(&session), ["next_turn", "completed"]);
}

/// The user's message goes on; what the hook has said is no longer wanted.
#[test]
fn an_overruled_objection_does_not_follow_a_steer() {
    let world = world(&hook(
        "stop",
        "echo x >> runs; until [ $(wc -l < runs) -lt 4 ] || [ -e go ]; do sleep 0.01; done; \
         echo 'the tests fail' >&2; exit 2",
    ));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "work");
    let runs = world.workspace().join("runs");
    world.wait_until(|| std::fs::read_to_string(&runs).is_ok_and(|runs| runs.lines().count() == 4));
    let _: Value = client.call("agent/steer", json!({"sessionId": session, "prompt": "and on"}));
    std::fs::write(world.workspace().join("go"), "").unwrap();
    client.prompt_result(&id);
    assert_eq!(
        client.reasons(&session),
        [
            "stop_hook_blocking",
            "stop_hook_blocking",
            "stop_hook_blocking",
            "next_turn",
            "completed"
        ]
    );
    let body = world.wait_for_request(4).body.to_string();
    assert_eq!(body.matches("objects to ending here").count(), 3, "{body}");
}

#[test]
fn failing_hooks_warn_once_and_change_nothing() {
    let cases = [
        ("echo 'oh no' >&2; exit 1", "exit code 1: oh no"),
        ("kill -9 $BASHPID", "killed by signal 9"),
        ("echo '{\"endTurn\": 1}'", "its output is malformed"),
        (
            "echo '{\"reason\": \"'; head -c 3000000 /dev/zero | tr '\\0' x; echo '\"}'",
            "its output exceeds 256 KiB",
        ),
        (
            "(setsid sleep 60 &) ; sleep 60",
            "timed out after 0.3 s and was killed",
        ),
    ];
    for on in MOMENTS {
        for (script, reason) in cases {
            let limit = if reason.starts_with("timed") { "0.3" } else { "60" };
            let table = format!("{}timeout_s = {limit}\n", hook(on, script));
            let world = world(&table);
            world.mock().push(write("x"));
            let client = world.start();
            let session = client.session_with(json!({"mode": "full"}));
            let result = json!(client.ask(&session, "write"));
            assert_eq!(
                course(&client, &session, &result),
                ["next_turn", "completed", "completed / completed / no error"],
                "{on} {script}"
            );
            assert_eq!(world.read("x").as_deref(), Some("x"));
            let reported = warnings(&client, &session);
            assert_eq!(reported.len(), 1, "{reported:?}");
            let begins = format!("the hook `h` ({on}) failed and was skipped: {reason}");
            assert!(
                reported[0].0 == "hook_failed" && reported[0].1.starts_with(&begins),
                "{reported:?}"
            );
            assert_eq!(client.processes(), 1, "{on} {script}");
        }
    }
}

#[test]
fn long_hook_output_is_cut() {
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x";
    let world = world(&hook(
        "stop",
        &format!("{flood}; {flood} >&2; test -e done || {{ touch done; exit 2; }}"),
    ));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "work"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "stop_hook_blocking",
            "completed",
            "completed / completed / no error"
        ]
    );
    let last_text = world.wait_for_request(1).last_text();
    assert!(
        (8_000..9_000).contains(&last_text.len()) && last_text.contains("xxx"),
        "{}",
        last_text.len()
    );
    assert_eq!(warnings(&client, &session), []);
}

#[test]
fn missing_hook_program_is_a_warning() {
    let world = world("[hook.h]\non = \"stop\"\ncommand = [\"no-such-program\", \"x\"]\n");
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "work").text, "ok");
    let reported = warnings(&client, &session);
    assert!(
        reported.len() == 1 && reported[0].1.contains("cannot find program `no-such-program`"),
        "{reported:?}"
    );
}

#[test]
fn cancel_ends_a_hook_and_all_its_processes() {
    for on in MOMENTS {
        let command = "(setsid sleep 1000 &); (sleep 1000 &); trap '' INT TERM; touch runs; sleep 1000";
        let world = world(&format!("{}timeout_s = 600\n", hook(on, command)));
        world.mock().push(write("x"));
        let client = world.start();
        let session = client.session_with(json!({"mode": "full"}));
        client.wait_for_sandbox();
        let id = client.prompt(&session, "write");
        world.wait_until(|| world.workspace().join("runs").exists());
        client.cancel(&session);
        let result = json!(client.prompt_result(&id));
        assert_eq!(result["state"], "cancelled", "{on}: {result}");
        // I8: the processes are gone before the end is reported.
        assert_eq!(client.processes(), 1, "{on}");
        match on {
            "prompt" => assert_eq!(returned_steers(&client, &session), ["write"]),
            "post_tool" => assert_eq!(last_call(&client, &session)["status"], "completed"),
            _ => {}
        }
        assert_eq!(
            world.read("x").is_some(),
            matches!(on, "post_tool" | "stop"),
            "{on}"
        );
    }
}

#[test]
fn cancel_while_a_hook_starts_leaves_no_process() {
    let world = world(&hook("prompt", "(setsid sleep 60 &); echo ran >> runs; sleep 60"));
    let client = world.start();
    let session = client.session();
    client.wait_for_sandbox();
    // The delay moves to the moment at which the hook starts, until cancels came shortly before and after it.
    let limit = now() + WAIT_LIMIT;
    let (mut delay, mut before, mut after) = (Duration::ZERO, 0, 0);
    while before + after < 30 || before < 5 || after < 5 {
        assert!(now() < limit, "no race: {before} cancels before, {after} after");
        let known = world.read("runs");
        let id = client.prompt(&session, "go");
        client.next(&session, "agent/turnStarted");
        std::thread::sleep(delay);
        client.cancel(&session);
        client.prompt_result(&id);
        let ran = world.read("runs");
        assert_eq!(client.processes(), 1, "{delay:?}");
        assert_eq!(world.read("runs"), ran, "{delay:?}: it ran after the end");
        if ran == known {
            before += 1;
            delay += Duration::from_millis(1);
        } else {
            after += 1;
            delay = delay * 3 / 4;
        }
    }
}

#[test]
fn killed_server_ends_its_hook_and_returns_the_prompt() {
    let world = world(&hook("prompt", "test -e runs || { touch runs; sleep 60; }"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "precious words");
    // An event that was shown is already stored.
    client.next(&session, "agent/turnStarted");
    world.wait_until(|| world.workspace().join("runs").exists());
    client.abandon(id);
    // The test client checks for survivors.
    client.kill();
    let client = world.start();
    let loaded = client.load(&session);
    let end = loaded.events.last().unwrap();
    assert_eq!(end.method, "agent/turnEnded");
    assert_eq!(end.params["reason"], "server_stopped");
    assert_eq!(
        end.params["unusedSteers"][0][0]["text"], "precious words",
        "{end:?}"
    );
    assert_eq!(client.ask(&session, "again").text, "ok");
}

#[test]
fn workspace_hooks_run_only_in_trusted_folders() {
    let world = world(&named_hook("mine", "stop", "touch mine"));
    world.write(
        ".agentls/config.toml",
        named_hook("theirs", "stop", "touch theirs"),
    );
    let client = world.start();
    let session = client.session();
    for (trusted, mine, theirs) in [(false, true, false), (true, true, true), (false, true, false)] {
        let folder = world.workspace().display().to_string();
        let _: Value = client.call("agent/setTrust", json!({"folder": folder, "trusted": trusted}));
        client.ask(&session, "work");
        for (name, wanted) in [("mine", mine), ("theirs", theirs)] {
            let path = world.workspace().join(name);
            assert_eq!(path.exists(), wanted, "{name}, trusted: {trusted}");
            let _ = std::fs::remove_file(path);
        }
    }
    let notifications = client.notes();
    let is_ignored_warning = |params: &Value| params.to_string().contains("hook: ignored: the folder");
    assert!(
        notifications
            .iter()
            .any(|notification| is_ignored_warning(&notification.params)),
        "the warning says why"
    );
}

#[test]
fn slow_hook_is_reported_as_a_wait() {
    let world = world(&hook("stop", "touch runs; until [ -e go ]; do sleep 0.01; done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "work");
    world.wait_until(|| world.workspace().join("runs").exists());
    assert!(client.all(&session, "agent/wait").is_empty());
    client.advance(Duration::from_secs(2));
    let wait = client.next(&session, "agent/wait");
    assert_eq!(wait.text("why"), "waiting for the hook `h` (stop)");
    world.write("go", "");
    client.prompt_result(&id);
}
