//! The order of the calls of one step: a call waits for earlier ones that it depends on, and for no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::mock_llm::Reply;
use super::scenario::{Client, PendingTurn, Scenario, TestTool, change_tool, read_file};
use crate::base::clock;
use crate::domain::*;
use crate::tool::edit_file::EditFile;
use crate::tool::{DynTool, ToolOutput};

/// A tool like a command: it may change anything, and runs until the test lets it end. Then it writes to `a.txt`.
fn command(ends: &Arc<Notify>) -> Arc<dyn DynTool> {
    let ends = ends.clone();
    let tool = TestTool::new("command", move |_, cx| {
        let ends = ends.clone();
        async move {
            ends.notified().await;
            std::fs::write(cx.cwd.join("a.txt"), "new\n").unwrap();
            Ok(ToolOutput::text("done"))
        }
    });
    Arc::new(tool.with_effect(Effect::from_command("command")))
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a.txt", "edits": [{"old_text": old, "new_text": new}]})
}

/// Returns how many calls of a session have reached the status.
fn count_calls(client: &Client, session: &SessionId, status: ToolCallStatus) -> usize {
    client.count(
        session,
        |event| matches!(event, Event::ToolCall(update) if update.status == status),
    )
}

/// Starts a turn in which an edit, free in its mode, waits for a command. Returns the session and the turn.
fn start_to_wait_and_write(scenario: &Scenario, client: &Client) -> (SessionId, PendingTurn) {
    let session = client.session_in_mode(Mode::AutoEdit);
    scenario.push(
        Reply::new()
            .call("command", json!({}))
            .call("write_file", json!({"path": "b.txt", "content": "b"})),
    );
    let turn = client.prompt(&session, "wait and write");
    client.decide(&client.next_approval(&session), DecisionKind::Allow);
    client.next_call(&session, ToolCallStatus::Running);
    (session, turn)
}

/// The tool `edit_file`, each of whose calls takes a second less than the one before. A call that does not wait for the
/// earlier ones overtakes them.
fn hurrying_edit() -> Arc<dyn DynTool> {
    let started = AtomicU64::new(0);
    change_tool(Arc::new(EditFile), move |call, _, cx| {
        let earlier = started.fetch_add(1, Ordering::Relaxed);
        async move {
            clock::sleep(Duration::from_secs(30 - earlier)).await;
            call.run(cx).await
        }
    })
}

#[test]
fn edits_of_one_file_build_on_each_other() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "0\n");
    let client = scenario.start_with_tools([hurrying_edit()]);
    let session = client.session_in_mode(Mode::AutoEdit);
    let steps = 0..20;
    scenario.push(steps.fold(Reply::new(), |reply, step| {
        reply.call("edit_file", edit(&step.to_string(), &(step + 1).to_string()))
    }));
    client.ask(&session, "count");
    assert_eq!(
        scenario.read("a.txt").unwrap(),
        "20\n",
        "{:?}",
        scenario.tool_results(1)
    );
}

#[test]
fn an_edit_of_the_same_file_asks_with_the_difference_to_the_edited_file() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "one\n");
    let client = scenario.start();
    let session = client.session();
    scenario.push(
        Reply::new()
            .call("edit_file", edit("one", "two"))
            .call("edit_file", edit("two", "three")),
    );
    let turn = client.prompt(&session, "edit");
    client.decide(&client.next_approval(&session), DecisionKind::Allow);
    let second = client.next_approval(&session);
    let diff = second.diff.as_deref().unwrap();
    assert!(diff.contains("-two"), "{diff}");
    client.decide(&second, DecisionKind::Allow);
    client.outcome(turn);
    assert_eq!(scenario.read("a.txt").unwrap(), "three\n");
}

#[test]
fn questions_come_in_the_order_of_the_calls() {
    let scenario = Scenario::new();
    scenario.write("large", "line\n".repeat(1_500));
    let client = scenario.start();
    let session = client.session();
    // The difference of the first takes the longest.
    let files = ["large", "a", "b", "c", "d", "e", "f", "g"];
    let calls = files.iter().fold(Reply::new(), |reply, file| {
        reply.call("write_file", json!({"path": file, "content": "new\n"}))
    });
    scenario.push(read_file("large"));
    scenario.push(calls);
    let turn = client.prompt(&session, "write all");
    for file in files {
        let question = client.next_approval(&session);
        assert_eq!(question.input["path"], file, "{question:?}");
        client.decide(&question, DecisionKind::Deny);
    }
    client.outcome(turn);
}

#[test]
fn a_read_waits_for_an_earlier_command_and_a_plan_does_not() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "old\n");
    let ends = Arc::new(Notify::new());
    let client = scenario.start_with_tools([command(&ends)]);
    let session = client.session_in_mode(Mode::Full);
    let plan = |text: &str, status: &str| json!({"items": [{"text": text, "status": status}]});
    scenario.push(
        Reply::new()
            .call("update_plan", plan("wait", "pending"))
            .call("command", json!({}))
            .call("read_file", json!({"path": "a.txt"}))
            .call("update_plan", plan("read", "completed")),
    );
    let turn = client.prompt(&session, "write and read");
    // The plan does not depend on the command, so it is ready although the command still runs.
    client.next_call(&session, ToolCallStatus::Completed);
    client.next_call(&session, ToolCallStatus::Completed);
    // Time passes only when everything else waits.
    scenario.advance(Duration::from_secs(1));
    assert_eq!(count_calls(&client, &session, ToolCallStatus::Completed), 2);
    ends.notify_one();
    client.outcome(turn);
    let results = scenario.tool_results(1);
    assert!(results[2].contains("new"), "{results:?}");
}

#[test]
fn commands_run_in_order_even_if_the_later_one_is_allowed_first() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "");
    let append = TestTool::new("append", |input, cx| async move {
        let path = cx.cwd.join("a.txt");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{text}{}\n", input["word"].as_str().unwrap())).unwrap();
        Ok(ToolOutput::text("done"))
    });
    let append = append.with_effect(Effect::from_command("append"));
    let client = scenario.start_with_tools([Arc::new(append) as _]);
    let session = client.session();
    scenario.push(
        Reply::new()
            .call("append", json!({"word": "first"}))
            .call("append", json!({"word": "second"})),
    );
    let turn = client.prompt(&session, "run both");
    let (first, second) = (client.next_approval(&session), client.next_approval(&session));
    assert_eq!(
        (&first.input["word"], &second.input["word"]),
        (&json!("first"), &json!("second"))
    );
    client.decide(&second, DecisionKind::Allow);
    client.settle();
    assert_eq!(count_calls(&client, &session, ToolCallStatus::Running), 0);
    client.decide(&first, DecisionKind::Allow);
    client.outcome(turn);
    assert_eq!(scenario.read("a.txt").unwrap(), "first\nsecond\n");
}

#[test]
fn a_call_that_waited_is_judged_by_the_mode_of_that_time() {
    let scenario = Scenario::new();
    let ends = Arc::new(Notify::new());
    let client = scenario.start_with_tools([command(&ends)]);
    let (session, turn) = start_to_wait_and_write(&scenario, &client);
    client.set_mode(&session, Mode::Plan);
    ends.notify_one();
    client.outcome(turn);
    client.next_call(&session, ToolCallStatus::Denied);
    assert_eq!(scenario.read("b.txt"), None);
}

#[test]
fn a_call_that_waited_is_judged_by_the_files_of_that_time() {
    let scenario = Scenario::new();
    let outside = scenario.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "not yours\n").unwrap();
    let link = TestTool::new("link", move |_, cx| {
        std::os::unix::fs::symlink(&outside, cx.cwd.join("inside")).unwrap();
        async { Ok(ToolOutput::text("done")) }
    });
    let link = link.with_effect(Effect::from_command("link"));
    let client = scenario.start_with_tools([Arc::new(link) as _]);
    let session = client.session();
    scenario.push(
        Reply::new()
            .call("link", json!({}))
            .call("read_file", json!({"path": "inside/a.txt"})),
    );
    let turn = client.prompt(&session, "link and read");
    let question = client.next_approval(&session);
    assert_eq!(question.name, "link", "{question:?}");
    client.decide(&question, DecisionKind::Allow);
    let question = client.next_approval(&session);
    assert_eq!(question.name, "read_file", "{question:?}");
    client.decide(&question, DecisionKind::Deny);
    client.outcome(turn);
    let results = scenario.tool_results(1);
    assert!(results[1].starts_with("Denied by user"), "{results:?}");
}

#[test]
fn a_cancel_ends_the_wait_for_an_earlier_call() {
    let scenario = Scenario::new();
    let client = scenario.start_with_tools([command(&Arc::new(Notify::new()))]);
    let (session, turn) = start_to_wait_and_write(&scenario, &client);
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.state, TurnState::Cancelled);
    assert_eq!(scenario.read("b.txt"), None);
    assert_eq!(count_calls(&client, &session, ToolCallStatus::Cancelled), 2);
}
