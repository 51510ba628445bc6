//! Sub-agents and real processes: commands, hooks and MCP servers; and sub-agents on the wire. What they decide and
//! share is tested in `session::tests::delegate`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Notification, World};
use crate::mock_llm::{RecordedRequest, Reply};

/// Scripted replies by agent name: the first message of each conversation starts with `name:`.
#[derive(Clone, Default)]
struct ScriptedAgents(Arc<Mutex<HashMap<String, VecDeque<Reply>>>>);

impl ScriptedAgents {
    fn of(world: &World) -> Self {
        let cast = Self::default();
        let replies = cast.clone();
        world.mock().respond_with(move |request| {
            let mut replies = replies.0.lock().unwrap();
            replies.get_mut(&agent_name(request))?.pop_front()
        });
        cast
    }

    fn push_reply(&self, agent: &str, reply: Reply) -> &Self {
        let mut replies = self.0.lock().unwrap();
        replies.entry(agent.to_owned()).or_default().push_back(reply);
        self
    }
}

/// Returns the name of the agent that made a request.
fn agent_name(request: &RecordedRequest) -> String {
    let first = &request.messages()[0]["content"];
    let text = first
        .as_str()
        .or_else(|| first[0]["text"].as_str())
        .unwrap_or_default();
    text.split(':').next().unwrap_or_default().to_owned()
}

/// Returns the requests of one agent.
fn requests_of(world: &World, name: &str) -> Vec<Arc<RecordedRequest>> {
    let mut all = world.mock().requests();
    all.retain(|request| agent_name(request) == name);
    all
}

fn world_with(agent: &str, tables: &str) -> (World, ScriptedAgents) {
    let world = World::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        // Without retries a failure is final immediately.
        provider: "max_retries = 0".to_owned(),
        ..Config::default()
    });
    world.write("a.txt", "one\n");
    let cast = ScriptedAgents::of(&world);
    (world, cast)
}

fn world() -> (World, ScriptedAgents) {
    world_with("", "")
}

fn delegate(input: Value) -> Reply {
    Reply::tool("delegate", input)
}

/// Returns the last notification with the result of a `delegate` call.
fn result(client: &Client, session: &str) -> Arc<Notification> {
    let calls = client.all(session, "agent/toolCall");
    let of_it = |notification: &&Arc<Notification>| {
        notification.text("name") == "delegate" && !notification.params["output"].is_null()
    };
    calls.iter().rev().find(of_it).unwrap().clone()
}

#[test]
fn calls_and_retries_of_a_child_name_the_call_that_started_it() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let cast = ScriptedAgents::of(&world);
    cast.push_reply("me", delegate(json!({"prompt": "child: look"})))
        .push_reply("child", Reply::error(503, "api_error", "down"))
        .push_reply(
            "child",
            Reply::text("Reading.").call("read_file", json!({"path": "a.txt"})),
        )
        .push_reply("child", Reply::text("It says one."))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let call = result(&client, &session);
    assert_eq!(call.text("status"), "completed");
    assert!(call.text("output").ends_with("It says one."), "{call:?}");
    let parent = call.text("toolCallId");
    let calls = client.all(&session, "agent/toolCall");
    let nested: Vec<&str> = (calls.iter())
        .filter(|notification| notification.text("parentToolCallId") == parent)
        .map(|notification| notification.text("status"))
        .collect();
    assert_eq!(nested, ["pending", "running", "completed"]);
    let retry = client.next(&session, "agent/retry");
    assert_eq!(retry.text("parentToolCallId"), parent);
    let live: String = (client.all(&session, "agent/toolOutputDelta").iter())
        .filter(|notification| notification.text("toolCallId") == parent)
        .map(|notification| notification.text("text").to_owned())
        .collect();
    assert_eq!(live, "Reading.\nIt says one.\n");
    assert!(!client.streamed_text(&session).contains("Reading"));
}

/// Waits until the next command of a session runs.
fn wait_for_command(client: &Client, session: &str) {
    client.next_matching(session, "agent/toolCall", |notification| {
        notification.text("name") == "bash" && notification.text("status") == "running"
    });
}

#[test]
fn commands_of_children_end_with_them() {
    let endless_command = || Reply::tool("bash", json!({"command": "sleep 60"}));
    let last_bash = |client: &Client, session: &str| {
        let calls = client.all(session, "agent/toolCall");
        let bash = calls.iter().rfind(|call| call.text("name") == "bash");
        bash.unwrap().text("status").to_owned()
    };
    // At the time limit of the child.
    let (world, cast) = world_with("mode = \"full\"", "[tool.delegate]\ntimeout_s = 100\n");
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", endless_command())
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    wait_for_command(&client, &session);
    client.advance(Duration::from_secs(101));
    assert_eq!(client.prompt_result(&id).text, "done");
    assert_eq!(last_bash(&client, &session), "cancelled");
    assert_eq!(client.processes(), 1, "the command is gone");
    drop(client);
    // At a cancel.
    let (world, cast) = world_with("mode = \"full\"", "");
    let tasks = json!([{"prompt": "a: x"}, {"prompt": "b: x"}]);
    cast.push_reply("me", delegate(json!({"prompt": "", "tasks": tasks})))
        .push_reply("a", endless_command())
        .push_reply("b", endless_command());
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    for _ in 0..2 {
        wait_for_command(&client, &session);
    }
    let calls = client.all(&session, "agent/toolCall");
    for label in ["[1] ", "[2] "] {
        assert!(
            calls.iter().any(|call| call.text("title").starts_with(label)),
            "{label}"
        );
    }
    client.cancel(&session);
    let done = json!(client.prompt_result(&id));
    assert_eq!(done["reason"], "aborted_tools");
    assert_eq!(result(&client, &session).text("status"), "cancelled");
    assert_eq!(client.processes(), 1);
}

#[test]
fn failed_mcp_server_is_reported_once_for_a_turn_and_its_subagents() {
    let (world, cast) = world_with(
        "",
        "[agent.plain]\n[mcp.peer]\ncommand = 'no-such-program-anywhere'\n",
    );
    let client = world.start();
    let session = client.session();
    for turn in 1..=2 {
        let tasks = ["one", "two"].map(|name| json!({"prompt": format!("{name}: look"), "agent": "plain"}));
        cast.push_reply("me", delegate(json!({"tasks": tasks})))
            .push_reply("one", Reply::text("seen"))
            .push_reply("two", Reply::text("seen"))
            .push_reply("me", Reply::text("done"));
        assert_eq!(client.ask(&session, "me: do it").text, "done");
        let mut warnings = client.all(&session, "agent/warning");
        warnings.retain(|warning| warning.text("code") == "mcp_failed");
        assert_eq!(warnings.len(), turn);
    }
}

#[test]
fn tool_hooks_apply_to_children() {
    let (world, cast) = world_with(
        "mode = \"full\"",
        "[hook.no]\non = 'pre_tool'\ntool = 'write_file'\ncommand = 'echo never >&2; exit 2'\n\
         [hook.stop]\non = 'stop'\ncommand = 'echo stop >> stops; exit 0'\n",
    );
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::tool("write_file", json!({"path": "b.txt", "content": "b"})),
        )
        .push_reply("child", Reply::text("I may not"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    assert_eq!(world.read("b.txt"), None);
    assert!(requests_of(&world, "child")[1].body.to_string().contains("never"));
    // The stop hook runs for the turn, not for its child.
    assert_eq!(world.read("stops").as_deref(), Some("stop\n"));
}

#[test]
fn a_child_learns_that_its_background_commands_end_with_it() {
    let (world, cast) = world();
    let command = json!({"command": "sleep 1000", "background": true});
    for agent in ["me", "child"] {
        cast.push_reply(agent, Reply::tool("bash", command.clone()));
    }
    cast.push_reply("me", delegate(json!({"prompt": "child: serve"})));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    client.ask(&session, "me: do it");
    for (agent, owner) in [("me", "the session"), ("child", "this agent")] {
        let told = requests_of(&world, agent)[1]
            .messages()
            .last()
            .unwrap()
            .to_string();
        assert!(
            told.contains(&format!("it ends with {owner} at the latest")),
            "{told}"
        );
    }
}
