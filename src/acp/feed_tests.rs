//! What a session shows, event by event.

use serde_json::json;

use super::*;
use crate::base::backpressure::ByteBudget;
use crate::base::clock;
use crate::domain::{SessionId, ToolCallStatus, ToolResult, TurnState, TurnTrigger, Usage};

fn feed(hold: u64, shows_notices: bool) -> SessionFeed {
    let options = FeedOptions {
        shows_notices,
        hold: Duration::from_millis(hold),
        cwd: "/w".into(),
        client_cwd: "/w".into(),
    };
    SessionFeed::new("ses_1", options)
}

fn event(event: Event) -> Envelope {
    Envelope {
        session: SessionId::from("ses_1"),
        turn: None,
        seq: 7,
        at_ms: 0,
        event,
        permit: None,
        in_page: false,
    }
}

fn delta(delta: Delta) -> DeltaEnvelope {
    DeltaEnvelope {
        session: SessionId::from("ses_1"),
        turn: None,
        delta,
        permit: None,
        in_page: false,
    }
}

fn text(offset: u64, text: &str) -> DeltaEnvelope {
    delta(Delta::Text {
        message: MessageId::from("msg_1"),
        offset,
        text: text.to_owned(),
    })
}

/// Parses what would be written, whatever way it takes through the outbox.
fn read(out: Vec<Outgoing>) -> Vec<Value> {
    let body = |item| match item {
        Outgoing::Notification { body, group, .. } => {
            assert_eq!(group, Some(hash_key("ses_1")));
            body
        }
        Outgoing::Mergeable { head, text, tail, .. } => [head, text, tail.to_vec()].concat(),
        Outgoing::Response { .. } => panic!("no answers come from here"),
    };
    let parse = |item| {
        let frame: Value = serde_json::from_slice(&body(item)).unwrap();
        assert_eq!(frame["params"]["sessionId"], "ses_1");
        frame["params"]["update"].clone()
    };
    out.into_iter().map(parse).collect()
}

#[tokio::test]
async fn merged_chunks_have_the_shape_of_single_ones() {
    let mut feed = feed(0, false);
    let now = clock::now();
    let first = read(feed.handle_delta(text(0, "a\"\u{1b}"), now));
    let second = read(feed.handle_delta(text(3, "b\n"), now));
    for (update, expected) in [(&first[0], "a\""), (&second[0], "b\n")] {
        let shape = json!({
            "sessionUpdate": "agent_message_chunk", "messageId": "msg_1",
            "content": {"type": "text", "text": expected},
        });
        assert_eq!(*update, shape);
    }
}

#[tokio::test]
async fn a_retracted_attempt_leaves_nothing_or_a_line() {
    for (hold, lines) in [(1_000, 0), (0, 1)] {
        let mut feed = feed(hold, false);
        read(feed.handle_delta(text(0, "stale"), clock::now()));
        let retracted = Event::MessageRetracted {
            message: MessageId::from("msg_1"),
            tool_calls: Vec::new(),
        };
        let out = read(feed.handle_event(&mut event(retracted)));
        assert_eq!(out.len(), lines, "{out:?}");
        assert_eq!(feed.next_due(), None);
    }
}

#[tokio::test]
async fn live_output_is_shown_at_intervals() {
    let mut feed = feed(0, false);
    let now = clock::now();
    let output = |text: &str| {
        delta(Delta::ToolOutput {
            tool_call: ToolCallId::from("call_1"),
            text: text.to_owned(),
        })
    };
    assert_eq!(feed.handle_delta(output("1\n"), now).len(), 1);
    assert!(feed.handle_delta(output("2\n"), now).is_empty());
    let due = feed.next_due().unwrap();
    assert!(feed.handle_timer(now).is_empty());
    let shown = read(feed.handle_timer(due));
    assert_eq!(shown[0]["content"][0]["content"]["text"], "1\n2\n");
    assert_eq!(feed.next_due(), None);
}

#[tokio::test]
async fn output_that_is_no_longer_shown_holds_no_bytes() {
    let mut feed = feed(0, false);
    let now = clock::now();
    let budget = ByteBudget::new(1 << 20);
    let session = budget.open_session(64 << 10);
    for _ in 0..100 {
        let output = DeltaEnvelope {
            permit: Some(session.take(4 << 10)),
            ..delta(Delta::ToolOutput {
                tool_call: ToolCallId::from("call_1"),
                text: "x".repeat(4 << 10),
            })
        };
        drop(feed.handle_delta(output, now));
        assert!(budget.bytes_in_flight() <= MAX_OUTPUT);
    }
    // What is shown next is still paid for, so a client that does not read stops the command.
    let due = feed.next_due().unwrap();
    let shown = feed.handle_timer(due);
    assert_eq!(budget.bytes_in_flight(), MAX_OUTPUT);
    drop(shown);
    assert_eq!(budget.bytes_in_flight(), 0);
}

fn call(id: &str, status: ToolCallStatus) -> ToolCallUpdate {
    ToolCallUpdate::new(id.into(), "edit_file".to_owned(), "Edit a.txt".to_owned(), status)
}

/// Returns the kind, the call, and the status of each update.
fn kinds(updates: &[Value]) -> Vec<(&str, &str, Option<&str>)> {
    let updates = updates.iter();
    let kinds = updates.map(|update| {
        let [kind, id] = ["sessionUpdate", "toolCallId"].map(|key| update[key].as_str().unwrap());
        (kind, id, update["status"].as_str())
    });
    kinds.collect()
}

#[tokio::test]
async fn calls_that_change_during_a_replay_are_shown_after_it() {
    let mut feed = feed(0, false);
    let now = clock::now();
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n";
    let open = ToolCallUpdate {
        input: Some(json!({"path": "a.txt"}).into()),
        diff: Some(diff.into()),
        ..call("open", ToolCallStatus::AwaitingApproval)
    };
    let output = |id: &str| {
        delta(Delta::ToolOutput {
            tool_call: ToolCallId::from(id),
            text: format!("of {id}"),
        })
    };
    let change = |id, status, seq| Envelope {
        seq,
        ..event(Event::ToolCall(call(id, status)))
    };
    feed.begin_replay();
    for mut held in [
        change("replayed", ToolCallStatus::Completed, 4),
        change("open", ToolCallStatus::Running, 6),
        change("new", ToolCallStatus::Running, 7),
    ] {
        assert!(feed.handle_event(&mut held).is_empty());
    }
    for id in ["open", "new"] {
        assert!(feed.handle_delta(output(id), now).is_empty());
    }
    assert!(feed.next_due().is_none() && feed.handle_timer(now).is_empty());
    let tail = ReplayTail {
        seq: 5,
        open_calls: vec![open.clone()],
        partial: None,
    };
    // Another request replays the history at the same time.
    feed.begin_replay();
    let first = read(feed.end_replay(&tail, now));
    assert_eq!(
        kinds(&first),
        [
            ("tool_call", "open", Some("in_progress")),
            ("tool_call_update", "open", None)
        ]
    );
    assert_eq!(first[0]["rawInput"]["path"], "a.txt");
    assert_eq!(first[0]["content"][0]["newText"], "y\n");
    let second = read(feed.end_replay(&tail, now));
    assert_eq!(
        kinds(&second),
        [
            ("tool_call", "open", Some("in_progress")),
            ("tool_call_update", "open", None),
            ("tool_call", "new", Some("in_progress")),
            ("tool_call_update", "new", None),
        ]
    );
    // A turn that goes on with the call has not announced another one.
    let resumed = Event::TurnStarted {
        by: TurnTrigger::Prompt,
        resumes: None,
    };
    feed.handle_event(&mut event(resumed));
    let done = read(feed.handle_event(&mut change("open", ToolCallStatus::Completed, 8)));
    assert_eq!(kinds(&done), [("tool_call_update", "open", Some("completed"))]);
}

#[tokio::test]
async fn a_call_keeps_its_diff_and_shows_errors() {
    let mut feed = feed(0, false);
    let call = |status, diff: Option<&str>, result| {
        Event::ToolCall(ToolCallUpdate {
            result,
            diff: diff.map(Into::into),
            ..call("call_1", status)
        })
    };
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n";
    let asked = read(feed.handle_event(&mut event(call(
        ToolCallStatus::AwaitingApproval,
        Some(diff),
        None,
    ))));
    assert_eq!(asked[0]["sessionUpdate"], "tool_call");
    assert_eq!(asked[0]["kind"], "edit");
    assert_eq!(asked[0]["content"][0]["newText"], "y\n");
    let done = Some(ToolResult::ok("edited").into());
    let done = read(feed.handle_event(&mut event(call(ToolCallStatus::Completed, None, done))));
    assert_eq!(done[0]["sessionUpdate"], "tool_call_update");
    assert_eq!(done[0]["content"].as_array().unwrap().len(), 1);
    let failed = Some(ToolResult::error("no").into());
    let failed = read(feed.handle_event(&mut event(call(ToolCallStatus::Failed, None, failed))));
    assert_eq!(failed[0]["content"][1]["content"]["text"], "no");
}

#[tokio::test]
async fn notes_wait_for_a_turn_where_notices_are_unknown() {
    let started = || {
        event(Event::TurnStarted {
            by: TurnTrigger::Prompt,
            resumes: None,
        })
    };
    let note = || Notice::new("warning", "config", "careful; see agent/listModels");
    let mut old = feed(0, false);
    assert!(old.add_note(note()).is_empty());
    let shown = read(old.handle_event(&mut started()));
    assert_eq!(
        shown[0]["content"]["text"],
        "> careful; see the editor's list of models\n\n"
    );
    assert!(old.handle_event(&mut started()).is_empty());
    // The next load and the turn after it say nothing new.
    assert!(old.add_note(note()).is_empty() && old.handle_event(&mut started()).is_empty());
    let warning = Event::Warning {
        code: "model_chosen".to_owned(),
        message: note().title,
    };
    assert!(old.handle_event(&mut event(warning)).is_empty());
    // But a load says it again if one in between did not.
    old.begin_notes(&[note()]);
    assert!(old.add_note(note()).is_empty() && old.handle_event(&mut started()).is_empty());
    old.begin_notes(&[]);
    assert!(old.add_note(note()).is_empty());
    assert_eq!(read(old.handle_event(&mut started())).len(), 1);
    let mut new = feed(0, true);
    assert_eq!(read(new.add_note(note()))[0]["sessionUpdate"], "notice");
}

#[tokio::test]
async fn the_line_at_the_end_of_each_turn_is_a_message_of_its_own() {
    let mut feed = feed(0, false);
    let mut end = |seq| {
        let end = Event::TurnEnded(TurnEnd {
            reason: TerminalReason::WallTime,
            state: TurnState::Interrupted,
            usage: Usage::default(),
            cost: None,
            error: None,
            unused_steers: Vec::new(),
        });
        let shown = read(feed.handle_event(&mut Envelope { seq, ..event(end) }));
        let text = shown[0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("The time limit of the turn was reached."), "{text}");
        shown[0]["messageId"].clone()
    };
    assert_ne!(end(7), end(9));
}
