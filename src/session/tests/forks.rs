//! Forks and reverts while the disk fails: changes that only memory has are neither forked nor reverted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

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
