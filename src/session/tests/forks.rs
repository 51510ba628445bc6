//! Forks: what they copy, and what stays with the original. While the disk fails, changes that only memory has are
//! neither forked nor reverted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Client, Scenario, bash, fake_bash};
use super::turns::{TurnFixture, scripted};
use crate::domain::*;
use crate::session::*;
use crate::store::{FaultHook, StoreHealth, StoredEvent, WriteFault};

#[tokio::test(start_paused = true)]
async fn changes_that_are_not_on_disk_are_neither_forked_nor_reverted() {
    let fails = Arc::new(AtomicBool::new(false));
    let disk = fails.clone();
    let fault: FaultHook = Box::new(move || disk.load(Ordering::Relaxed).then_some(WriteFault::DiskFull));
    let model = scripted(json!([{"events": [{"text": "ok"}], "repeat": true}]));
    let fixture = TurnFixture::with(Mode::Full, model, Vec::new(), None, Some(fault));
    let session = fixture.session();
    let (empty, _) = fixture.sessions.fork_session(&session, None).await.unwrap();
    assert_ne!(empty, session);
    fixture.ask(&session, "one").await;

    fails.store(true, Ordering::Relaxed);
    let unsaved_turn = fixture.ask(&session, "two").await.turn;
    let refused = fixture.sessions.fork_session(&session, None).await.unwrap_err();
    assert!(matches!(refused, CommandError::Store(_)), "{refused:?}");
    let revert = |reply| SessionCommand::Revert {
        turn: unsaved_turn.clone(),
        dry_run: true,
        redo: false,
        reply,
    };
    let refused = fixture.sessions.send_request(&session, revert).await.unwrap_err();
    assert!(matches!(refused, CommandError::Store(_)), "{refused:?}");

    fails.store(false, Ordering::Relaxed);
    let store = &fixture.sessions.services().store;
    store
        .writes
        .until_health(|health| health == StoreHealth::Ok)
        .await;
    let (fork, _) = fixture.sessions.fork_session(&session, None).await.unwrap();
    let mut pages = fixture.sessions.services().store.reader.walk_events(&fork, 0);
    let mut ends = 0;
    while let Some(page) = pages.next().await.unwrap() {
        let is_turn_end = |stored: &&StoredEvent| matches!(stored.event, Event::TurnEnded(_));
        ends += page.events.iter().filter(is_turn_end).count();
    }
    assert_eq!(ends, 2);
    fixture.end().await;
}

/// Forks a session, at the end of a turn or of its last one.
fn fork(client: &Client, session: &SessionId, turn: Option<&TurnId>) -> (SessionId, Option<String>) {
    let fork = client.sessions.fork_session(session, turn.cloned());
    client.wait_for(fork).unwrap()
}

#[test]
fn fork_copies_history_up_to_a_turn_and_is_independent() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "a\n");
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    assert_ne!(fork(&client, &session, None).0, session);
    let edits = json!({"path": "a.txt", "edits": [{"old_text": "a", "new_text": "b"}]});
    scenario.push_all([Reply::tool("edit_file", edits), Reply::text("changed")]);
    let first = client.ask(&session, "change a").turn;
    client.ask(&session, "say more");
    let (forked, title) = fork(&client, &session, Some(&first));
    assert_eq!(title.as_deref(), Some("change a (fork)"));
    assert_eq!(client.load(&forked).snapshot.choice.mode, Mode::Full);
    let events = client.stored_events(&forked);
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::TurnStarted { .. })), 1);
    assert_eq!(count(|event| matches!(event, Event::TurnEnded(_))), 1);
    assert_eq!(client.ask(&forked, "and now?").text, "ok");
    let sent = scenario.raw_request(scenario.requests() - 1);
    assert!(sent.contains("change a") && sent.contains("changed"), "{sent}");
    assert!(!sent.contains("say more"), "{sent}");
    // The original session is independent and can be deleted.
    let seq = client.load(&session).snapshot.seq;
    assert_eq!(client.stored_events(&session).len() as u64, seq);
    let delete = |reply| SessionCommand::Delete { reply };
    client.request(&session, delete).unwrap();
    let revert = |reply| SessionCommand::Revert {
        turn: first,
        dry_run: false,
        redo: false,
        reply,
    };
    let reverted = client.request(&forked, revert).unwrap();
    assert_eq!(reverted.files[0].1, "a.txt", "{reverted:?}");
    assert_eq!(scenario.read("a.txt").unwrap(), "a\n");
    let unknown = TurnId::from("turn_none");
    let refused = client.wait_for(client.sessions.fork_session(&forked, Some(unknown.clone())));
    assert_eq!(refused, Err(CommandError::UnknownTurn(unknown)));
    let refused = client.wait_for(client.sessions.fork_session(&session, None));
    assert_eq!(refused, Err(CommandError::UnknownSession(session)));
}

/// An answer for the session does not reach forks.
#[test]
fn session_grants_do_not_apply_to_forks() {
    let scenario = Scenario::new();
    let client = scenario.start_with_tools([fake_bash()]);
    let session = client.session();
    client.call_asking(&session, bash("touch made"), DecisionKind::AllowSession);
    let (fork, _) = fork(&client, &session, None);
    // The copy of the question that the original has answered.
    client.next_approval(&fork);
    client.call_asking(&fork, bash("touch made"), DecisionKind::Deny);
}

/// An open approval stays with its session: in the fork the call is canceled, and the fork takes prompts.
#[test]
fn open_approvals_are_cancelled_in_a_fork() {
    let scenario = Scenario::new();
    scenario.push(bash("touch made"));
    let client = scenario.start_with_tools([fake_bash()]);
    let session = client.session();
    let turn = client.prompt(&session, "make it");
    client.next_approval(&session);
    client.shut_down();
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::ServerStopped);
    drop(client);

    let client = scenario.start_with_tools([fake_bash()]);
    let (fork, _) = fork(&client, &session, None);
    let open = |session| {
        client
            .load(session)
            .snapshot
            .questions
            .undecided_approvals()
            .count()
    };
    assert_eq!(open(&fork), 0);
    let events = client.stored_events(&fork);
    let mut calls = events.iter().rev().filter_map(|event| match event {
        Event::ToolCall(update) => Some(update),
        _ => None,
    });
    let last = calls.next().unwrap();
    assert_eq!(last.status, ToolCallStatus::Cancelled, "{last:?}");
    let reason = &last.result.as_ref().unwrap().text;
    assert!(reason.starts_with("not run: it awaits approval"), "{reason}");
    assert_eq!(client.ask(&fork, "and now?").text, "ok");
    assert_eq!(open(&session), 1);
    assert_eq!(scenario.read("made"), None);
}
