//! What tests rely on in a `Scenario`: its clock, its crashes, and that it runs the real configuration and tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Config, Options, START_MS, Scenario, TestTool};
use crate::base::clock;
use crate::domain::*;
use crate::session::*;
use crate::store::WriteFault;
use crate::tool::ToolOutput;

#[test]
fn time_passes_only_while_everything_waits() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    scenario.push(Reply::text("a").delay(Duration::from_secs(30)).with_text("b"));
    assert_eq!(client.ask(&session, "hello").text, "ab");
    assert_eq!(scenario.wall_ms(), START_MS + 30_000);
    scenario.advance(Duration::from_secs(3_600));
    assert_eq!(scenario.wall_ms(), START_MS + 3_630_000);
    let events = client.events(&session);
    assert!(events.iter().map(|logged| logged.seq).eq(1..=events.len() as u64));
    let last = events.last().unwrap();
    assert_eq!(last.at_ms, START_MS + 30_000, "{last:?}");
}

#[test]
fn crash_interrupts_a_turn_and_keeps_what_was_shown() {
    let scenario = Scenario::new();
    scenario.push(Reply::text("half").gate(&Gate::new()));
    let client = scenario.start();
    let session = client.session();
    let _turn = client.prompt(&session, "hello");
    client.next_text(&session);
    let shown = client.events(&session).len() as u64;
    client.kill();
    let client = scenario.start();
    let loaded = client.load(&session).snapshot;
    assert!(loaded.seq > shown, "the turn's end follows");
    assert!(loaded.resumable.is_some());
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
}

#[test]
fn steer_joins_the_running_turn() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    scenario.push(Reply::text("done").gate(&gate));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "hello");
    scenario.wait_at_gate(&gate);
    let steered = client.steer(&session, "and more").unwrap();
    gate.release();
    let outcome = client.outcome(turn);
    assert_eq!((outcome.turn, outcome.text.as_str()), (steered, "ok"));
    assert_eq!(scenario.wait_for_request(1).last_text(), "and more");
}

#[test]
fn configuration_is_read_as_by_a_server() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.set_model(&session, "other/other-model").unwrap();
    client.ask(&session, "hello");
    assert_eq!(scenario.wait_for_request(0).body["model"], "other-model");
    let unknown = NewSession {
        agent: Some("nobody".to_owned()),
        ..NewSession::default()
    };
    let refused = client.try_session(unknown).map(|created| created.id);
    assert_eq!(refused, Err(NewSessionError::UnknownAgent("nobody".to_owned())));
    scenario.configure(Config {
        agent: "max_steps = 1".to_owned(),
        ..Config::default()
    });
    client.reload_config();
    scenario.push(Reply::tool("list_dir", json!({})));
    let end = client.ask(&session, "hello").end;
    assert_eq!(end.reason, TerminalReason::MaxTurns);
}

#[test]
fn failing_disk_is_reported() {
    let scenario = Scenario::new();
    let fails = Arc::new(AtomicBool::new(false));
    let disk = fails.clone();
    let client = scenario.start_with(Options {
        disk_fault: Some(Box::new(move || {
            disk.load(Ordering::Relaxed).then_some(WriteFault::DiskFull)
        })),
        ..Options::default()
    });
    let session = client.session();
    client.ask(&session, "hello");
    assert_eq!(client.server_warnings(), []);
    fails.store(true, Ordering::Relaxed);
    client.ask(&session, "hello");
    let warnings = client.server_warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    fails.store(false, Ordering::Relaxed);
}

#[test]
fn tools_of_a_test_work_like_built_in_ones() {
    let scenario = Scenario::new();
    let slow = TestTool::new("slow", |_, cx| async move {
        cx.cancel.cancelled().await;
        clock::sleep(Duration::from_secs(1)).await;
        Ok(ToolOutput::text("finished"))
    });
    let quick = TestTool::succeeding("quick", "it worked");
    let client = scenario.start_with_tools([
        Arc::new(quick) as _,
        Arc::new(slow.that_finishes_on_cancel()) as _,
    ]);
    let session = client.session();
    let both = Reply::new()
        .call("quick", json!({"any": 1}))
        .call("slow", json!({}));
    scenario.push(both);
    let turn = client.prompt(&session, "hello");
    let quick = client.next_call(&session, ToolCallStatus::Completed);
    assert_eq!(quick.result.unwrap().text, "it worked");
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::AbortedTools);
    let slow = client.next_call(&session, ToolCallStatus::Completed);
    assert_eq!(slow.result.unwrap().text, "finished");
}
