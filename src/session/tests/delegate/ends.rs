//! The end of a sub-agent before its time: a time limit, a cancel, a crash.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Scenario, TestTool};
use super::{
    ScriptedAgents, delegate, delegate_output, delegate_result, requests_of, start, tool_calls, write,
};
use crate::domain::*;

/// Starts a server with a tool `wait` that never ends.
fn start_with_wait(scenario: &Scenario) -> Client {
    scenario.start_with_tools([Arc::new(TestTool::endless("wait")) as _])
}

#[test]
fn timed_out_child_reports_its_partial_result() {
    let (scenario, agents) = start("mode = \"full\"", "[tool.delegate]\ntimeout_s = 0.5\n");
    agents
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", Reply::text("I wait.").call("wait", json!({})))
        .push_reply("me", Reply::text("done"));
    scenario.mock().respond_with(move |request| {
        // The final step offers no tools.
        let is_last = request.body["tools"].as_array().is_none_or(Vec::is_empty);
        if is_last && request.last_text().contains("The time for this task is up") {
            return Some(Reply::text("half of it"));
        }
        agents.take_reply(request)
    });
    let client = start_with_wait(&scenario);
    let session = client.session();
    let began_ms = scenario.wall_ms();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    assert!(scenario.wall_ms() - began_ms < 20_000);
    let call = delegate_result(&client, &session);
    assert_eq!(call.status, ToolCallStatus::Failed);
    let output = &call.result.unwrap().text;
    assert!(
        output.contains("timed out") && output.ends_with("half of it"),
        "{output}"
    );
    let mut calls = tool_calls(&client, &session);
    calls.retain(|update| update.name == "wait");
    assert_eq!(calls.last().unwrap().status, ToolCallStatus::Cancelled);
    assert_eq!(scenario.requests(), 4);
}

#[test]
fn waiting_for_an_approval_does_not_use_the_childs_time() {
    let (scenario, agents) = start("", "[tool.delegate]\ntimeout_s = 1.0\n");
    agents
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", write("b.txt"))
        .push_reply("child", Reply::text("written"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    // Longer than the limit: the child must not time out while the approval is open.
    scenario.advance(Duration::from_secs(3_600));
    client.decide(&approval, DecisionKind::Allow);
    assert_eq!(client.outcome(turn).text, "done");
    let output = delegate_output(&client, &session);
    assert!(
        output.contains("completed") && output.ends_with("written"),
        "{output}"
    );
    assert_eq!(scenario.read("b.txt").as_deref(), Some("b"));
    // A change by a child belongs to the turn.
    let diff = client.next(&session, |event| match event {
        Event::TurnDiff(diff) => Some(diff.clone()),
        _ => None,
    });
    assert!(
        diff.files.iter().any(|file| file.path.contains("b.txt")),
        "{diff:?}"
    );
}

/// What two children do when they are canceled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Streaming,
    Approval,
    Tool,
    Retry,
}

impl Phase {
    fn reply(self, child: &str, gate: &Gate) -> Reply {
        match self {
            Self::Streaming => Reply::text("some words\nand").gate(gate),
            Self::Approval => {
                Reply::text("I write").call("write_file", json!({"path": child, "content": "x"}))
            }
            Self::Tool => Reply::text("I run").call("wait", json!({})),
            Self::Retry => Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "900"),
        }
    }

    /// Waits until both children have reached the phase.
    fn wait_for_both(self, client: &Client, session: &SessionId) {
        let mut busy = 0;
        while busy < 2 {
            busy += match self {
                // One delta may contain the text of both children.
                Self::Streaming => client.next_delta(session, |delta| match delta {
                    Delta::ToolOutput { text, .. } => Some(text.matches("some words").count()),
                    _ => None,
                }),
                Self::Approval => {
                    client.next_approval(session);
                    1
                }
                Self::Tool => client.next(session, |event| match event {
                    Event::ToolCall(update) => {
                        let is_running = update.status == ToolCallStatus::Running;
                        (update.name == "wait" && is_running).then_some(1)
                    }
                    _ => None,
                }),
                Self::Retry => client.next(session, |event| match event {
                    Event::Nested(nested) => matches!(nested.event, Event::Retry { .. }).then_some(1),
                    _ => None,
                }),
            };
        }
    }
}

#[test]
fn cancel_reaches_children_in_every_phase() {
    for phase in [Phase::Streaming, Phase::Approval, Phase::Tool, Phase::Retry] {
        let scenario = Scenario::with_provider("max_retry_after_s = 1000");
        let agents = ScriptedAgents::of(&scenario);
        let gate = Gate::new();
        let tasks = json!([{"prompt": "a: x"}, {"prompt": "b: x"}]);
        agents.push_reply("me", delegate(json!({"prompt": "", "tasks": tasks})));
        for name in ["a", "b"] {
            agents.push_reply(name, phase.reply(name, &gate));
        }
        let client = start_with_wait(&scenario);
        let session = client.session();
        let turn = client.prompt(&session, "me: do it");
        phase.wait_for_both(&client, &session);
        let began_ms = scenario.wall_ms();
        client.cancel(&session);
        let end = client.outcome(turn).end;
        assert_eq!(
            (end.reason, end.state),
            (TerminalReason::AbortedTools, TurnState::Cancelled),
            "{phase:?}"
        );
        let took_ms = scenario.wall_ms() - began_ms;
        assert!(took_ms < 600, "{phase:?}: {took_ms}");
        let call = delegate_result(&client, &session);
        assert_eq!(call.status, ToolCallStatus::Cancelled, "{phase:?}");
        let output = &call.result.unwrap().text;
        assert!(output.contains("## 2: cancelled"), "{phase:?}: {output}");
        // The session still works.
        agents.push_reply("me", Reply::text("fine"));
        assert_eq!(client.ask(&session, "me: again").text, "fine", "{phase:?}");
    }
}

#[test]
fn crash_closes_a_childs_calls_and_the_turn_can_resume() {
    let (scenario, agents) = start("", "");
    let writing = Reply::text("I write").call("write_file", json!({"path": "b.txt", "content": "b"}));
    agents
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", writing);
    let client = scenario.start();
    let session = client.session();
    let _turn = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    assert_eq!(approval.name, "write_file");
    client.kill();

    agents.push_reply("me", Reply::text("I do it myself"));
    let client = scenario.start();
    let questions = client.load(&session).snapshot.questions;
    assert!(questions.approvals.is_empty(), "{questions:?}");
    let mut last_status = HashMap::new();
    for event in client.stored_events(&session) {
        if let Event::ToolCall(update) = event {
            last_status.insert(update.name, update.status);
        }
    }
    assert_eq!(last_status["write_file"], ToolCallStatus::Cancelled);
    assert_eq!(last_status["delegate"], ToolCallStatus::Cancelled);
    let turn = client.resume(&session);
    assert_eq!(client.outcome(turn).text, "I do it myself");
    assert_eq!(client.approval_count(&session), 0);
    assert_eq!(scenario.read("b.txt"), None);
    let resumed = requests_of(&scenario, "me")[1].body.to_string();
    assert!(resumed.contains("interrupted"), "{resumed}");
}
