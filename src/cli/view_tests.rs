//! What the screen shows after which notifications.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::screen::testing::Paper;
use super::*;

fn parse_notification(method: &str, params: Value) -> ServerNotification {
    let mut params = params;
    let common = json!({"sessionId": "s", "turnId": "t", "at": 0});
    for (name, value) in common.as_object().unwrap() {
        params
            .as_object_mut()
            .unwrap()
            .entry(name)
            .or_insert(value.clone());
    }
    ServerNotification::parse(method, params).unwrap().unwrap()
}

fn delta(id: &str, offset: usize, text: &str) -> ServerNotification {
    parse_notification(
        "agent/textDelta",
        json!({"messageId": id, "offset": offset, "text": text}),
    )
}

fn message(seq: u64, id: &str, text: &str) -> ServerNotification {
    let content = json!([{"type": "text", "text": text}]);
    let params = json!({"seq": seq, "messageId": id, "role": "assistant", "content": content});
    parse_notification("agent/message", params)
}

fn retracted(seq: u64, id: &str) -> ServerNotification {
    parse_notification(
        "agent/messageRetracted",
        json!({"seq": seq, "messageId": id, "toolCallIds": []}),
    )
}

fn render_events(terminal: bool, events: &[ServerNotification]) -> Vec<String> {
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(terminal));
    for event in events {
        view.handle_event(event);
    }
    view.set_idle();
    drop(view);
    paper.visible_rows()
}

#[test]
fn deltas_and_their_message_are_shown_once() {
    let events = [
        delta("m", 0, "one "),
        delta("m", 4, "two"),
        message(1, "m", "one two"),
    ];
    assert_eq!(render_events(true, &events), ["one two"]);
    assert_eq!(
        render_events(true, &events[2..]),
        ["one two"],
        "also without deltas"
    );
}

#[test]
fn completed_message_repairs_a_lost_delta() {
    let events = [
        delta("m", 0, "one "),
        delta("m", 8, "three"),
        message(1, "m", "one two three"),
    ];
    assert_eq!(render_events(true, &events), ["one two three"]);
}

#[test]
fn repeated_event_is_shown_once() {
    let events = [
        message(1, "m", "once"),
        message(1, "m", "once"),
        message(2, "m", "once"),
    ];
    assert_eq!(render_events(true, &events), ["once"]);
}

#[test]
fn retracted_answer_is_struck_out() {
    let events = [
        message(1, "a", "before"),
        delta("m", 0, "**wrong** answer\n\n- and a list"),
        retracted(2, "m"),
        retracted(3, "unknown"),
        delta("n", 0, "right"),
        message(4, "n", "right"),
    ];
    let lines = render_events(true, &events);
    assert_eq!(lines[..2], ["before", ""]);
    // The text is struck out in place, and a note says why.
    assert_eq!(lines[2..5], ["**wrong** answer", "", "- and a list"]);
    assert!(lines[5].starts_with("↺ discarded"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "right");
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(false));
    for event in &events {
        view.handle_event(event);
    }
    assert!(
        paper.raw_text().contains("and a list\n↺ discarded"),
        "{}",
        paper.raw_text()
    );
}

#[test]
fn model_switch_and_circuit_take_one_line_each() {
    let circuit = |seq, state: &str| {
        let params = json!({"seq": seq, "subject": "provider", "name": "work", "state": state});
        parse_notification("agent/circuit", params)
    };
    let events = [
        circuit(1, "open"),
        parse_notification(
            "agent/modelSwitched",
            json!({"seq": 2, "from": "work/a", "to": "spare/b", "why": "work is down"}),
        ),
        circuit(3, "halfOpen"),
        circuit(4, "closed"),
    ];
    assert_eq!(
        render_events(true, &events),
        [
            "⊘ work failed too often in a row;",
            "pausing calls",
            "⇄ work/a → spare/b: work is down",
            "⊘ trying work again",
            "⊙ work works again",
        ]
    );
}

#[test]
fn an_output_that_was_cut_for_the_wire_shows_its_full_size() {
    let call = |more: Value| {
        let lines: String = (0..40).map(|line| format!("{line}\n")).collect();
        parse_notification(
            "agent/toolCall",
            json!({"seq": 2, "toolCallId": "c", "name": "bash", "title": "seq", "status": "completed", "output": lines,
                "more": more}),
        )
    };
    let cut = json!({"output": {"ref": "r", "bytes": 2_088_895, "tail": "300000"}});
    for (more, expected) in [
        (cut, "… more lines, 2.1 MB in all"),
        (json!({}), "… 34 more lines"),
    ] {
        let lines = render_events(true, &[call(more)]);
        assert!(lines.iter().any(|line| line.ends_with(expected)), "{lines:?}");
    }
}

#[test]
fn note_waits_for_the_end_of_the_message() {
    let events = [
        delta("m", 0, "one "),
        parse_notification("agent/warning", json!({"code": "x", "message": "careful"})),
        delta("m", 4, "two"),
        message(1, "m", "one two"),
    ];
    assert_eq!(render_events(true, &events), ["one two", "! careful"]);
}

#[test]
fn foreign_escape_sequences_do_not_reach_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}x\u{1b}[2J";
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(true));
    for event in [
        delta("m", 0, evil),
        message(1, "m", evil),
        parse_notification("agent/warning", json!({"code": "x", "message": evil})),
        parse_notification(
            "agent/toolCall",
            json!({"seq": 2, "toolCallId": "c", "name": evil, "title": evil, "status": "completed", "output": evil,
                "diff": format!("--- a\n+++ b\n@@ {evil}\n+{evil}\n")}),
        ),
        parse_notification(
            "agent/toolCall",
            json!({"seq": 3, "toolCallId": "d", "name": "x", "title": evil, "status": "failed", "output": evil}),
        ),
        parse_notification(
            "agent/plan",
            json!({"seq": 4, "items": [{"text": evil, "status": "pending"}]}),
        ),
        parse_notification(
            "agent/retry",
            json!({"seq": 5, "provider": evil, "model": evil, "attempt": 1, "maxRetries": 2, "delayMs": 1, "resumeAt": 0,
                "error": {"code": "internal", "message": evil, "class": "terminal"}, "next": evil}),
        ),
        parse_notification("agent/wait", json!({"seq": 6, "why": evil})),
        parse_notification(
            "agent/modelSwitched",
            json!({"seq": 7, "from": evil, "to": evil, "why": evil}),
        ),
        parse_notification(
            "agent/circuit",
            json!({"seq": 8, "subject": "tool", "name": evil, "state": "open", "until": 1}),
        ),
        parse_notification(
            "agent/reasoningDelta",
            json!({"messageId": "n", "offset": 0, "text": evil}),
        ),
        parse_notification("agent/toolOutputDelta", json!({"toolCallId": "d", "text": evil})),
        parse_notification("agent/sessionUpdated", json!({"seq": 9, "model": evil})),
        parse_notification(
            "agent/turnEnded",
            json!({"seq": 10, "reason": "model_error", "state": "failed",
                "usage": {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0},
                "error": {"code": "internal", "message": evil, "class": "terminal", "userAction": evil}}),
        ),
    ] {
        view.handle_event(&event);
        view.refresh_status();
    }
    let approval = parse_notification(
        "agent/approvalRequested",
        json!({"seq": 9, "approvalId": "a", "toolCallId": "c", "name": evil, "input": {"command": evil, "b": evil},
            "title": evil, "cwd": evil, "risk": "high", "why": evil, "rule": evil}),
    );
    let ServerNotification::ApprovalRequested(approval) = approval else {
        panic!("not asked");
    };
    view.show_approval(&approval, true);
    let rule = approval.rule.as_deref();
    let keys = blocks::question_keys(view.screen.styler, 40, rule, blocks::OptionalKeys::default());
    let head = view.question_head(&approval, 1);
    view.ask(head, keys);
    view.show_prompt(evil);
    drop(view);
    let raw = paper.raw_text();
    assert!(!raw.contains("\u{1b}]"), "{raw:?}");
    assert!(!raw.contains("\u{1b}[2J") && !raw.contains('\u{7}'), "{raw:?}");
    // Text to approve keeps its control characters in visible form; elsewhere they are removed.
    assert!(raw.contains("␛]0;owned␇"), "{raw:?}");
}

#[test]
fn approval_is_shown_with_its_rule_and_keys() {
    let styler = super::super::style::Styler {
        use_color: false,
        dumb: false,
    };
    let with = blocks::question_keys(styler, 60, Some("edit_file(a)"), blocks::OptionalKeys::default());
    assert_eq!(
        with,
        "  y allow   n deny   s allow for this session\n  a always allow\n  will remember: edit_file(a)"
    );
    let long = format!("bash(git log *), bash(grep {})", "x".repeat(150));
    let keys = blocks::question_keys(styler, 40, Some(&long), blocks::OptionalKeys::default());
    let pieces: String = keys.lines().map(str::trim).collect();
    assert!(pieces.replace(' ', "").contains(&long.replace(' ', "")), "{keys}");
    assert_eq!(
        blocks::question_keys(styler, 60, None, blocks::OptionalKeys::default()),
        "  y allow   n deny"
    );
    assert_eq!(
        blocks::question_keys(
            styler,
            39,
            Some("edit_file(a)"),
            blocks::OptionalKeys {
                edit: true,
                show: true
            }
        ),
        "  y allow   n deny\n  s allow for this session\n  a always allow   e edit   d show diff\n  will remember: edit_file(a)"
    );
}

#[test]
fn whole_diff_wraps_instead_of_hiding_its_right_side() {
    let render_approvals = |new: &str| {
        let approval = parse_notification(
            "agent/approvalRequested",
            json!({"seq": 1, "approvalId": "a", "toolCallId": "c", "name": "write_file", "input": {}, "title": "Write a",
                "cwd": "/", "risk": "medium", "why": "writes a",
                "diff": format!("--- a\n+++ a\n@@ -1 +1 @@\n+{new}\n")}),
        );
        let ServerNotification::ApprovalRequested(approval) = approval else {
            panic!("not asked");
        };
        let styler = super::super::style::Styler::from_env(&crate::config::Env::default(), false);
        let (brief, cut) = blocks::render_approval(styler, 40, &approval, false);
        let (full, more) = blocks::render_approval(styler, 40, &approval, true);
        assert!(!more);
        (brief, cut, full)
    };
    let (brief, cut, _) = render_approvals("short");
    assert!(!cut && brief.contains("+short"), "{brief}");
    let (brief, cut, full) = render_approvals(&format!("ok{} evil()", " ".repeat(60)));
    assert!(cut && !brief.contains("evil"), "{brief}");
    assert!(full.contains("evil()"), "{full}");
}

#[test]
fn a_long_reason_of_a_question_is_shown_in_full() {
    let render = |why: &str| {
        let approval = parse_notification(
            "agent/approvalRequested",
            json!({"seq": 1, "approvalId": "a", "toolCallId": "c", "name": "x", "input": {}, "title": "x",
                "cwd": "/", "risk": "high", "why": why}),
        );
        let ServerNotification::ApprovalRequested(approval) = approval else {
            panic!("not asked");
        };
        let styler = super::super::style::Styler::from_env(&crate::config::Env::default(), false);
        blocks::render_approval(styler, 40, &approval, false).0
    };
    let shown = render("a short one");
    assert_eq!(shown.matches("a short one").count(), 1, "{shown}");
    let shown = render(&format!("{}the end", "it has changed ".repeat(8)));
    assert!(shown.contains("the end"), "{shown}");
}

#[test]
fn sub_agent_lines_are_indented_under_the_delegating_call() {
    let call = |seq: u64, id: &str, parent: Option<&str>, name: &str, status: &str| {
        let mut call = json!({"seq": seq, "toolCallId": id, "name": name, "title": format!("{name} it"), "status": status});
        if status == "completed" {
            call["output"] = "fine".into();
        }
        if let Some(parent) = parent {
            call["parentToolCallId"] = parent.into();
        }
        parse_notification("agent/toolCall", call)
    };
    let wait = json!({"seq": 5, "why": "the rate limit", "parentToolCallId": "b"});
    let events = [
        call(1, "a", None, "delegate", "running"),
        call(2, "b", Some("a"), "delegate", "running"),
        call(3, "c", Some("b"), "grep", "running"),
        call(4, "c", Some("b"), "grep", "completed"),
        parse_notification("agent/wait", wait),
        call(6, "b", Some("a"), "delegate", "completed"),
    ];
    let lines = render_events(true, &events);
    let starts = [
        "⑂ delegate it",
        "  ↳ ⑂ delegate it",
        "    ↳ ✓ grep it",
        "    ↳ ⧗ waiting: the rate limit",
        "  ↳ ✓ delegate it",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{lines:?}");
    }
}

fn call(seq: u64, more: Value) -> ServerNotification {
    let mut call = json!({"seq": seq, "toolCallId": format!("c{seq}"), "name": "bash", "title": "make", "status": "completed",
        "output": "fine", "durationMs": 5});
    let members = call.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    parse_notification("agent/toolCall", call)
}

#[tokio::test(start_paused = true)]
async fn a_line_says_what_happens_while_text_stalls() {
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(true));
    view.live.can_stop = true;
    view.handle_event(&delta("m", 0, "one "));
    tokio::time::advance(Duration::from_secs(4)).await;
    view.refresh_status();
    let rows = paper.visible_rows();
    assert_eq!(rows[0], "one");
    assert!(rows[1].ends_with("answering · 4 s · Esc stops"), "{rows:?}");
    tokio::time::advance(Duration::from_secs(8)).await;
    view.refresh_status();
    let rows = paper.visible_rows();
    assert!(rows[1].contains("answering · nothing for 12 s"), "{rows:?}");
    view.handle_event(&message(1, "m", "one"));
    assert!(
        !paper.visible_rows().last().unwrap().contains("nothing"),
        "{rows:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_command_does_not_restart_its_clock() {
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(true));
    view.handle_event(&call(1, json!({"status": "running", "output": null})));
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(1)).await;
        view.handle_event(&parse_notification(
            "agent/toolOutputDelta",
            json!({"toolCallId": "c1", "text": "a line\n"}),
        ));
    }
    let rows = paper.visible_rows();
    assert!(rows.last().unwrap().ends_with("a line · 3 s"), "{rows:?}");
}

#[test]
fn results_appear_above_the_open_question() {
    let paper = Paper::default();
    let mut view = View::new(paper.open_screen(true));
    let approval = parse_notification(
        "agent/approvalRequested",
        json!({"seq": 1, "approvalId": "a", "toolCallId": "c", "name": "x", "input": {}, "title": "Edit cart.py",
            "cwd": "/", "risk": "medium", "why": "it edits"}),
    );
    let ServerNotification::ApprovalRequested(approval) = approval else {
        panic!("not asked");
    };
    view.show_approval(&approval, false);
    let head = view.question_head(&approval, 0);
    view.ask(head, "  y allow   n deny".to_owned());
    let rows = paper.visible_rows();
    assert_eq!(rows.last().unwrap(), "  y allow   n deny");
    assert_eq!(
        rows.iter().filter(|row| row.contains("Edit cart.py")).count(),
        1,
        "{rows:?}"
    );
    view.handle_event(&call(2, json!({})));
    let rows = paper.visible_rows();
    let end = &rows[rows.len() - 3..];
    assert_eq!(
        end,
        ["? Edit cart.py", "  it edits", "  y allow   n deny"],
        "{rows:?}"
    );
    assert!(rows.iter().any(|row| row.contains("bash make")), "{rows:?}");
    // What is typed does not hide the question.
    view.set_draft("why");
    assert_eq!(
        paper.visible_rows().last().unwrap(),
        "› why▏ (a message; Esc empties it)"
    );
    view.set_field("no, because (Enter: no reason; Esc: back) x");
    assert!(
        !paper.visible_rows().last().unwrap().contains("a message"),
        "{rows:?}"
    );
    view.close_question();
    view.set_draft("");
    assert!(!paper.visible_rows().iter().any(|row| row.contains("y allow")));
}

#[test]
fn a_result_says_what_it_hides_and_which_errors_an_edit_caused() {
    let styler = super::super::style::Styler::from_env(&crate::config::Env::default(), false);
    let render = |more: Value| {
        let ServerNotification::ToolCall(call) = call(1, more) else {
            panic!("no call");
        };
        blocks::tool_call(styler, 60, &call, false, Some("/output shows all"))
    };
    let long = "line\n".repeat(40);
    assert!(render(json!({"output": long})).contains("/output shows all"));
    assert!(!render(json!({})).contains("/output shows all"));
    let output = "edited a.rs\nThe editor reports 1 new error:\na.rs:3:1 expected `;`";
    let edit = json!({"output": output, "diff": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n"});
    let shown = render(edit);
    assert!(
        shown.contains("1 new error") && shown.contains("expected `;`"),
        "{shown}"
    );
    // The width of the screen is used, also above 100 columns.
    let ServerNotification::ToolCall(wide) = call(1, json!({"output": "x".repeat(150)})) else {
        panic!("no call");
    };
    assert!(blocks::tool_call(styler, 200, &wide, false, None).contains(&"x".repeat(150)));
}

#[test]
fn a_long_question_wraps_in_its_head() {
    let styler = super::super::style::Styler::from_env(&crate::config::Env::default(), false);
    let title = "Move src/a/rather/long/path.rs to src/another/rather/long/path.rs";
    let approval = parse_notification(
        "agent/approvalRequested",
        json!({"seq": 1, "approvalId": "a", "toolCallId": "c", "name": "x", "input": {}, "title": title, "cwd": "/",
            "risk": "medium", "why": "it moves"}),
    );
    let ServerNotification::ApprovalRequested(approval) = approval else {
        panic!("not asked");
    };
    let (shown, _) = blocks::render_approval(styler, 40, &approval, false);
    assert!(
        shown.contains("another/rather/long/path.rs") && !shown.contains('…'),
        "{shown}"
    );
}
