//! Sub-agents: their results, what clients see of them, and what they share with the parent turn.

mod ends;
mod joins;
mod limits;
mod settings;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::mock_llm::{self, RecordedRequest, Reply};
use super::scenario::{self, Client, Config, Scenario, write_file};
use crate::domain::*;

/// Scripted replies by agent name: the first message of each conversation starts with `name:`.
#[derive(Clone, Default)]
struct ScriptedAgents(Arc<Mutex<HashMap<String, VecDeque<Reply>>>>);

impl ScriptedAgents {
    fn of(scenario: &Scenario) -> Self {
        let agents = Self::default();
        let scripted = agents.clone();
        scenario
            .mock()
            .respond_with(move |request| scripted.take_reply(request));
        agents
    }

    fn push_reply(&self, agent: &str, reply: Reply) -> &Self {
        let mut replies = self.0.lock().unwrap();
        replies.entry(agent.to_owned()).or_default().push_back(reply);
        self
    }

    fn take_reply(&self, request: &RecordedRequest) -> Option<Reply> {
        let mut replies = self.0.lock().unwrap();
        replies.get_mut(&agent_name(request))?.pop_front()
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
fn requests_of(scenario: &Scenario, name: &str) -> Vec<Arc<RecordedRequest>> {
    let mut all = scenario.mock().requests();
    all.retain(|request| agent_name(request) == name);
    all
}

fn start(agent: &str, tables: &str) -> (Scenario, ScriptedAgents) {
    let scenario = Scenario::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        // Without retries a failure is final immediately.
        provider: "max_retries = 0".to_owned(),
        ..Config::default()
    });
    scenario.write("a.txt", "one\n");
    let agents = ScriptedAgents::of(&scenario);
    (scenario, agents)
}

fn delegate(input: Value) -> Reply {
    Reply::tool("delegate", input)
}

fn write(path: &str) -> Reply {
    write_file(path, "b")
}

/// A permanent model error.
fn permanent_error() -> Reply {
    Reply::error(400, "invalid_request_error", "no such thing")
}

/// Returns the last update with the result of a `delegate` call.
fn delegate_result(client: &Client, session: &SessionId) -> ToolCallUpdate {
    let mut calls = client.all(session, |event| match event {
        Event::ToolCall(update) if update.name == "delegate" && update.result.is_some() => {
            Some(update.clone())
        }
        _ => None,
    });
    calls.pop().unwrap()
}

/// Returns the text of the last result of a `delegate` call.
fn delegate_output(client: &Client, session: &SessionId) -> String {
    delegate_result(client, session).result.unwrap().text.clone()
}

/// Returns all updates of tool calls so far, those of sub-agents included.
fn tool_calls(client: &Client, session: &SessionId) -> Vec<ToolCallUpdate> {
    client.all(session, |event| match event {
        Event::ToolCall(update) => Some(update.clone()),
        _ => None,
    })
}

/// Returns what `pick` takes of the events of sub-agents.
fn nested_events<T>(
    client: &Client,
    session: &SessionId,
    mut pick: impl FnMut(&Event) -> Option<T>,
) -> Vec<T> {
    client.all(session, |event| match event {
        Event::Nested(nested) => pick(&nested.event),
        _ => None,
    })
}

#[test]
fn final_answer_of_a_child_becomes_the_call_result() {
    let (scenario, agents) = start("", "");
    agents
        .push_reply(
            "me",
            Reply::text("I ask another. ")
                .call("delegate", json!({"prompt": "child: look"}))
                .tokens(100, 10),
        )
        .push_reply(
            "child",
            Reply::text("Reading.")
                .call("read_file", json!({"path": "a.txt"}))
                .tokens(20, 2),
        )
        .push_reply("child", Reply::text("It says one.").tokens(30, 3))
        .push_reply("me", Reply::text("done").tokens(200, 20));
    let client = scenario.start();
    let session = client.session();
    let done = client.ask(&session, "me: do it");
    assert_eq!(
        (done.text.as_str(), done.end.state),
        ("done", TurnState::Completed)
    );
    assert_child_is_nested(&client, &session);
    assert_child_has_its_own_history(&scenario);

    // The child's usage counts for the turn, but takes nothing of its context.
    let figures = client.all(&session, |event| match event {
        Event::Usage {
            turn, context_used, ..
        } => Some((turn.input, *context_used)),
        Event::Nested(nested) => match &nested.event {
            Event::Usage {
                turn, context_used, ..
            } => Some((turn.input, *context_used)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(figures, [(100, 110), (120, 110), (150, 110), (350, 220)]);
    assert_eq!((done.end.usage.input, done.end.usage.output), (350, 35));
    assert!(done.end.cost.unwrap() > Cost(0));

    // A loaded session includes the child's usage; the parent's history does not include its text.
    let loaded = client.load(&session).snapshot;
    assert_eq!(loaded.metrics.usage.input, 350);
    client.ask(&session, "me: more");
    let body = requests_of(&scenario, "me").last().unwrap().body.to_string();
    assert!(
        body.contains("It says one.") && !body.contains("Reading."),
        "{body}"
    );
}

/// Asserts that the child's calls are nested, its text is streamed as output of the call, and it is not shown as a
/// message.
fn assert_child_is_nested(client: &Client, session: &SessionId) {
    let call = delegate_result(client, session);
    assert_eq!(call.status, ToolCallStatus::Completed);
    let output = &call.result.as_ref().unwrap().text;
    assert!(
        output.starts_with("[the sub-agent: completed; 50 tokens in, 5 out, $0.000")
            && output.ends_with("]\n\nIt says one."),
        "{output}"
    );
    let parent = Some(call.id.clone());
    let nested: Vec<ToolCallStatus> = tool_calls(client, session)
        .iter()
        .filter(|update| update.parent == parent)
        .map(|update| update.status)
        .collect();
    assert_eq!(
        nested,
        [
            ToolCallStatus::Pending,
            ToolCallStatus::Running,
            ToolCallStatus::Completed
        ]
    );
    let (mut shown, mut live) = (String::new(), String::new());
    for delta in client.deltas(session) {
        match delta {
            Delta::Text { text, .. } => shown.push_str(&text),
            Delta::ToolOutput { tool_call, text } if tool_call == call.id => live.push_str(&text),
            _ => {}
        }
    }
    assert!(!shown.contains("Reading"), "{shown}");
    assert_eq!(live, "Reading.\nIt says one.\n");
}

/// Asserts that the child has its own history, but the same tools and instructions.
fn assert_child_has_its_own_history(scenario: &Scenario) {
    let (own, of_child) = (requests_of(scenario, "me"), requests_of(scenario, "child"));
    assert_eq!((own.len(), of_child.len()), (2, 2));
    for key in ["tools", "system", "model"] {
        assert_eq!(own[0].body[key], of_child[0].body[key], "{key}");
    }
    assert_eq!(of_child[0].messages().len(), 1);
    assert!(
        of_child[0]
            .last_text()
            .starts_with("child: look\n\n[You work for another agent")
    );
}

#[test]
fn continued_answer_of_a_child_reaches_its_parent_in_full() {
    let (scenario, agents) = start("", "");
    agents
        .push_reply("me", delegate(json!({"prompt": "child: count"})))
        .push_reply("child", Reply::text("void").stop("max_tokens"))
        .push_reply("child", Reply::text("first half, ").stop("max_tokens"))
        .push_reply("child", Reply::text("second half").stop("pause_turn"))
        .push_reply("child", Reply::text(", end"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "me: do it");
    let output = delegate_output(&client, &session);
    assert!(output.contains("\n\nfirst half, second half, end"), "{output}");
}

#[test]
fn delegation_stops_at_depth_three() {
    let (scenario, agents) = start("", "");
    for (name, next) in [("me", "one"), ("one", "two"), ("two", "three")] {
        agents.push_reply(name, delegate(json!({"prompt": format!("{next}: go on")})));
    }
    agents.push_reply("three", delegate(json!({"prompt": "four: go on"})));
    for name in ["three", "two", "one", "me"] {
        agents.push_reply(name, Reply::text(format!("{name} is done")));
    }
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "me is done");
    let delegates = |name: &str| {
        let tools = requests_of(&scenario, name)[0].body["tools"].to_string();
        tools.contains("\"delegate\"")
    };
    assert_eq!(
        ["me", "one", "two", "three"].map(delegates),
        [true, true, true, false]
    );
    assert!(requests_of(&scenario, "four").is_empty());
    let refused = requests_of(&scenario, "three")[1].body.to_string();
    assert!(refused.contains("unknown tool"), "{refused}");
    // Each call names the call that caused it as its parent.
    let calls = tool_calls(&client, &session).into_iter();
    let parents: HashMap<ToolCallId, Option<ToolCallId>> =
        calls.map(|update| (update.id, update.parent)).collect();
    let depth = |call: &ToolCallId| {
        let (mut id, mut depth) = (call.clone(), 0);
        while let Some(parent) = parents[&id].clone() {
            (id, depth) = (parent, depth + 1);
        }
        depth
    };
    let mut depths: Vec<usize> = parents.keys().map(depth).collect();
    depths.sort_unstable();
    assert_eq!(depths, [0, 1, 2, 3]);
}
