//! Command tools: tools that the configuration defines by a command and a schema (R-TOOL, R-CONF).

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::Reply;

fn world(tables: &str) -> World {
    World::with(Config {
        tables: tables.to_owned(),
        ..Config::default()
    })
}

/// The table of one tool; `command` is a shell script.
fn tool(name: &str, command: &str, more: &str) -> String {
    format!(
        "[tool.{name}]\ndescription = \"Greets.\"\ncommand = '''\n{command}\n'''\n{more}\n\
         [tool.{name}.schema]\nrequired = [\"who\"]\nadditionalProperties = false\n\
         properties.who = {{ type = \"string\", pattern = \"^[a-z']+$\", description = \"Whom.\" }}\n"
    )
}

/// Calls `greet` and returns the result as the model reads it.
fn result(world: &World, client: &Client, session: &str, input: Value) -> String {
    world.mock().push(Reply::tool("greet", input));
    client.ask(session, "greet");
    let request = world.wait_for_request(world.requests() - 1);
    request.messages().last().unwrap()["content"][0].to_string()
}

fn last_call(client: &Client, session: &str) -> Value {
    client
        .all(session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone()
}

#[test]
fn command_tool_reads_arguments_from_stdin_and_returns_its_output() {
    let world = world(&tool(
        "greet",
        "read line; echo \"read $line in $(pwd)\"; env | grep -c E2E_SECRET_KEY; echo aside >&2",
        "",
    ));
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::tool("greet", json!({"who": "o'b"})));
    let id = client.prompt(&session, "greet");
    let approval = client.next_approval(&session);
    assert_eq!(approval.params["input"], json!({"who": "o'b"}));
    assert_eq!(approval.text("title"), r#"greet {"who":"o'b"}"#);
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    let specs = world.wait_for_request(0).body["tools"].clone();
    let spec = specs.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&spec["name"], &spec["description"]),
        (&json!("greet"), &json!("Greets."))
    );
    assert_eq!(spec["input_schema"]["required"], json!(["who"]));
    let text = world.wait_for_request(1).messages().last().unwrap()["content"][0]["content"].to_string();
    let workspace = world.workspace().canonicalize().unwrap();
    assert!(text.contains(r#"read {\"who\":\"o'b\"} in "#), "{text}");
    assert!(text.contains(&workspace.display().to_string()), "{text}");
    // grep counts 0 lines, then comes stderr. grep's exit code is not the tool's.
    assert!(text.contains("\\n0\\naside"), "{text}");
    let listed: Value = client.call("agent/listTools", json!({"sessionId": session}));
    assert!(listed.to_string().contains("\"greet\""), "{listed}");
}

#[test]
fn invalid_arguments_and_failures_are_errors_for_the_model() {
    let world = world(&tool("greet", "cat; echo; exit 3", "effect = \"read\""));
    let client = world.start();
    // With `effect = "read"` it needs no approval, even in mode `plan`.
    let session = client.session_with(json!({"mode": "plan"}));
    let wrong = result(&world, &client, &session, json!({"who": "O"}));
    assert!(wrong.contains("`who`: must match the pattern"), "{wrong}");
    let failed = result(&world, &client, &session, json!({"who": "o"}));
    assert!(
        failed.contains("exit code: 3") && failed.contains("\"is_error\":true"),
        "{failed}"
    );
    assert_eq!(last_call(&client, &session)["status"], "failed");
}

#[test]
fn timeout_and_cancel_end_the_tool_and_all_its_processes() {
    let script = "(setsid sleep 1000 &); echo started; sleep 1000";
    let world = world(&tool("greet", script, "effect = \"read\"\ntimeout_s = 300"));
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::tool("greet", json!({"who": "o"})));
    let id = client.prompt(&session, "greet");
    client.next(&session, "agent/toolOutputDelta");
    client.advance(Duration::from_secs(300));
    client.prompt_result(&id);
    let text = world.wait_for_request(1).messages().last().unwrap()["content"][0].to_string();
    assert!(
        text.contains("started") && text.contains("timed out after 300 s"),
        "{text}"
    );
    assert_eq!(client.processes(), 1, "only the server is left");
    world.configure(Config {
        tables: tool("greet", script, "effect = \"read\""),
        ..Config::default()
    });
    let _: Value = client.call("agent/reloadConfig", json!({}));
    world.mock().push(Reply::tool("greet", json!({"who": "o"})));
    let id = client.prompt(&session, "greet");
    client.next(&session, "agent/toolOutputDelta");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    assert_eq!(client.processes(), 1, "only the server is left");
}

#[test]
fn workspace_tools_are_available_only_in_trusted_folders() {
    let world = world(&tool("mine", "echo mine", "effect = \"read\""));
    world.write(
        ".agentls/config.toml",
        tool("theirs", "echo theirs", "") + "[tool.mine]\ncommand = \"echo stolen\"\neffect = \"read\"\n",
    );
    let client = world.start();
    for (trusted, theirs, line) in [(false, false, "mine"), (true, true, "stolen")] {
        let folder = world.workspace().display().to_string();
        let _: Value = client.call("agent/setTrust", json!({"folder": folder, "trusted": trusted}));
        world.mock().push(Reply::tool("mine", json!({"who": "o"})));
        client.ask(&client.session(), "work");
        let last = world.wait_for_request(world.requests() - 1);
        let tools = last.body["tools"].to_string();
        assert_eq!(tools.contains("\"theirs\""), theirs, "trusted: {trusted}");
        let text = last.messages().last().unwrap().to_string();
        assert!(text.contains(line), "trusted: {trusted}: {text}");
    }
    let notifications = client.notes();
    let is_ignored_warning = |params: &Value| {
        params
            .to_string()
            .contains("tool.theirs.command: ignored: the folder")
    };
    assert!(
        notifications
            .iter()
            .any(|notification| is_ignored_warning(&notification.params)),
        "the warning says why"
    );
}

#[test]
fn invalid_tool_tables_are_reported_and_not_offered() {
    let tables = "[tool.bash]\ntimeout_s = 300\n[tool.grep]\ncommand = \"x\"\n[tool.nothing]\ndescription = \"x\"\n\
                  [tool.odd]\ncommand = \"x\"\ndescription = \"x\"\nschema.oneOf = []\n\
                  [tool.\"a b\"]\ncommand = \"x\"\ndescription = \"x\"\n[tool.silent]\ncommand = [\"x\"]\n";
    let world = world(tables);
    let client = world.start();
    client.ask(&client.session(), "work");
    let offered = world.wait_for_request(0).body["tools"].to_string();
    for name in ["\"nothing\"", "\"odd\"", "\"a b\"", "\"silent\""] {
        assert!(!offered.contains(name), "{offered}");
    }
    let reloaded: Value = client.call("agent/reloadConfig", json!({}));
    let problems = reloaded.to_string();
    for expected in [
        "tool.grep: is a tool of agentls: its `command` cannot be set",
        "tool.nothing.command: needs a `command`",
        "tool.odd.schema: `oneOf` is not supported in a tool's schema; the tool is not available",
        "a tool's name has at most 64 letters",
        "tool.silent.description: needs a `description`",
    ] {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
}
