//! A failing disk (R-ERR-2), and stores of other versions of agentls (R-SESS-5).

use std::time::Duration;

use super::*;
use crate::base::clock;
use crate::store::schema::VERSION;
use crate::store::writer::MAX_BUFFERED_BYTES;

#[tokio::test(start_paused = true)]
async fn a_full_disk_warns_once_and_events_are_written_later_in_order() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.set_fault(Some(WriteFault::DiskFull));
    rig.send(append("ses_1", 1, build_warning("a"))).await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { bytes } if bytes > 0));
    rig.send(delta("ses_1", "b")).await;
    rig.send(append("ses_1", 2, build_message("m", Role::User, "kept")))
        .await;
    rig.barrier().await;
    let published = rig.published.take();
    assert_eq!(published.len(), 4, "{published:?}");
    assert!(
        published[0].starts_with("!store: the session store failed: "),
        "{published:?}"
    );
    assert!(published[0].ends_with("; keeping events in memory until the disk works again"));
    assert_eq!(published[1..], ["unstored 1", "+b", "unstored 2"]);

    rig.set_fault(None);
    rig.store
        .writes
        .until_health(|health| health == StoreHealth::Ok)
        .await;
    rig.send(append("ses_1", 3, build_warning("c"))).await;
    rig.barrier().await;
    assert_eq!(
        rig.published.take(),
        ["!store: the session store works again", "stored 3"]
    );
    let page = rig
        .store
        .reader
        .read_events(&"ses_1".into(), EventWindow::Tail, 9)
        .await
        .unwrap();
    assert_eq!(seqs(&page), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_event_missing_from_its_page_is_sent_as_a_notification() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.send(append_in_page("ses_1", 1, build_warning("a"))).await;
    rig.barrier().await;
    assert_eq!(rig.published.take(), ["stored 1 in page"]);
    rig.set_fault(Some(WriteFault::DiskFull));
    rig.send(append_in_page("ses_1", 2, build_warning("b"))).await;
    rig.barrier().await;
    assert_eq!(rig.published.take()[1..], ["unstored 2"]);
    rig.set_fault(None);
    rig.send(append_in_page("ses_1", 3, build_warning("c"))).await;
    rig.barrier().await;
    assert_eq!(rig.published.take()[1..], ["stored 3 in page"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_disk_is_retried_every_second_and_not_with_every_event() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.set_fault(Some(WriteFault::Busy));
    for seq in 1..=100 {
        rig.send(append("ses_1", seq, build_warning("a"))).await;
        clock::sleep(Duration::from_millis(50)).await;
    }
    let tries = rig.commits();
    assert!((5..=7).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_full_memory_drops_low_priority_events_and_keeps_the_rest() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.set_fault(Some(WriteFault::Io));
    let big = "x".repeat(1 << 20);
    let mut seq = 0;
    while rig.store.writes.health() != StoreHealth::Gone(LossReason::Full) {
        seq += 1;
        assert!(seq < 40, "never gone");
        rig.send(append("ses_1", seq, build_warning(&big))).await;
        rig.barrier().await;
        if let StoreHealth::Degraded { bytes } = rig.store.writes.health() {
            assert!(bytes <= MAX_BUFFERED_BYTES);
        }
    }
    assert_eq!(seq, 31, "30 of a bit more than a MiB fit next to the reserve");
    rig.send(append("ses_1", 32, build_message("m", Role::User, "a prompt")))
        .await;
    rig.send(append("ses_1", 33, end_of_turn())).await;
    rig.barrier().await;
    let published = rig.published.take();
    assert_eq!(published.iter().filter(|word| word.starts_with('!')).count(), 1);
    assert_eq!(published.len(), 34, "all are passed on");
    rig.set_fault(None);
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    assert_eq!(
        rig.published.take(),
        ["!store: the session store works again; lost 1 records that did not fit into memory"]
    );
    let page = rig
        .store
        .reader
        .read_events(&"ses_1".into(), EventWindow::Tail, 99)
        .await
        .unwrap();
    let expected: Vec<_> = (1..=30).chain([32, 33]).collect();
    assert_eq!(seqs(&page), expected);
}

#[tokio::test(start_paused = true)]
async fn critical_records_survive_a_full_memory() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.set_fault(Some(WriteFault::Io));
    // Fills the memory to the last record that fits.
    let sizes = [24, 24].into_iter().chain((0..24).rev()).chain([0; 20]);
    for (size, seq) in sizes.zip(1..) {
        let text = "x".repeat(1 << size);
        rig.send(append("ses_1", seq, build_message("m", Role::User, &text)))
            .await;
    }
    assert_eq!(rig.barrier().await, StoreHealth::Gone(LossReason::Full));
    let row = SessionRow::new("ses_2".into(), "/w", "/w", 1);
    rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))))
        .await;
    rig.send(append("ses_2", 1, build_message("m", Role::User, "lost")))
        .await;
    let settled = Event::ApprovalResolved {
        approval: "appr_1".into(),
        tool_call: "call_1".into(),
        decision: Decision::from_kind(DecisionKind::Deny),
        by: ResolvedBy::Cancel,
    };
    rig.send(append("ses_2", 2, settled)).await;
    rig.send(append("ses_2", 3, end_of_turn())).await;
    assert_eq!(rig.barrier().await, StoreHealth::Gone(LossReason::Full));
    rig.set_fault(None);
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    let reader = &rig.store.reader;
    let page = reader
        .read_events(&"ses_2".into(), EventWindow::Tail, 9)
        .await
        .unwrap();
    assert_eq!(seqs(&page), [2, 3]);
}

fn end_of_turn() -> Event {
    Event::TurnEnded(TurnEnd {
        reason: TerminalReason::StoreFailed,
        state: TurnState::Failed,
        usage: Usage::default(),
        cost: None,
        error: None,
        unused_steers: Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn an_unusable_folder_is_a_warning() {
    let rig = StoreFixture::new();
    std::fs::create_dir(rig.folder.path().join("store.db")).unwrap();
    rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(
        SessionRow::new("ses_1".into(), "/w", "/w", 1),
    ))))
    .await;
    rig.send(append("ses_1", 1, build_warning("a"))).await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { .. }));
    assert!(rig.published.take()[0].starts_with("!store: opening "));
    std::fs::remove_dir(rig.folder.path().join("store.db")).unwrap();
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    let row = rig
        .store
        .reader
        .read_session(&"ses_1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.last_seq, 1);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_cannot_be_opened_loses_nothing_that_fits_into_memory() {
    let rig = StoreFixture::new();
    let path = rig.folder.path().join("store.db");
    std::fs::create_dir(&path).unwrap();
    rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(
        SessionRow::new("ses_1".into(), "/w", "/w", 1),
    ))))
    .await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { .. }));
    assert!(rig.store.reader.read_session(&"ses_1".into()).await.is_err());
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    assert!(
        rig.store
            .reader
            .read_session(&"ses_1".into())
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_store_is_refused() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.database().pragma_update(None, "user_version", 99).unwrap();
    let reopened = StoreFixture::in_folder(rig.kill());
    let error = reopened
        .store
        .reader
        .read_session(&"ses_1".into())
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("this store was written by a newer agentls (schema 99,"),
        "{error}"
    );
    reopened.send(append("ses_1", 1, build_warning("a"))).await;
    assert_eq!(
        reopened.barrier().await,
        StoreHealth::Gone(LossReason::Newer {
            found: 99,
            known: VERSION
        })
    );
    assert_eq!(
        reopened.published.take(),
        [format!("!store: {error}"), "unstored 1".to_owned()]
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_server_stops_writing_once_a_newer_one_has_migrated() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.send(append("ses_1", 1, build_warning("a"))).await;
    rig.barrier().await;
    rig.database()
        .execute_batch(&format!(
            "CREATE TABLE newer (x); PRAGMA user_version = {};",
            VERSION + 1
        ))
        .unwrap();
    rig.send(append("ses_1", 2, build_warning("b"))).await;
    rig.send(append("ses_1", 3, build_warning("c"))).await;
    assert_eq!(
        rig.barrier().await,
        StoreHealth::Gone(LossReason::Newer {
            found: VERSION + 1,
            known: VERSION
        })
    );
    assert!(rig.store.writes.delete_session("ses_1".into()).await.is_err());
    let published = rig.published.take();
    assert_eq!(published[0], "stored 1");
    assert!(
        published[1].contains(&format!(
            "newer agentls (schema {}, supported: {VERSION})",
            VERSION + 1
        )),
        "{published:?}"
    );
    assert_eq!(published[2..], ["unstored 2", "unstored 3"]);
    let count: i64 = rig
        .database()
        .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
}

/// A lock of another process lasts longer than the writer waits: the write is kept, then stored once it is free.
#[tokio::test]
async fn a_write_to_a_store_locked_by_another_process_is_stored_later() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let other = rig.database();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    rig.send(append("ses_1", 1, build_warning("a"))).await;
    assert!(matches!(rig.barrier().await, StoreHealth::Degraded { .. }));
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    rig.send(append("ses_1", 2, build_warning("b"))).await;
    rig.barrier().await;
    let page = rig
        .store
        .reader
        .read_events(&"ses_1".into(), EventWindow::Tail, 9)
        .await
        .unwrap();
    assert_eq!(seqs(&page), [1, 2]);
}

/// Pieces of a message in progress stay in memory until the message is complete. A disk that fails for them alone
/// causes one warning.
#[tokio::test(start_paused = true)]
async fn pieces_stay_in_memory_until_their_message_is_complete() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.set_fault(Some(WriteFault::DiskFull));
    let (mut before, mut buffered) = (0, 0);
    for text in ["a", "bc", "def"] {
        rig.send(StoreWrite::Put {
            session: "ses_1".into(),
            pending: PendingEvent::Partial {
                message: "msg_1".into(),
                before,
                turn: None,
                text: text.into(),
                reasoning: String::new(),
            },
            done: None,
        })
        .await;
        before += text.len() as u64;
        let StoreHealth::Degraded { bytes } = rig.barrier().await else {
            panic!("the disk fails");
        };
        assert!(bytes > buffered, "{bytes}");
        buffered = bytes;
        clock::sleep(Duration::from_secs(2)).await;
    }
    rig.send(append(
        "ses_1",
        1,
        build_message("msg_1", Role::Assistant, "abcdef"),
    ))
    .await;
    let StoreHealth::Degraded { bytes } = rig.barrier().await else {
        panic!("the disk fails");
    };
    assert!(bytes < buffered, "the pieces are gone: {bytes} of {buffered}");
    assert_eq!(rig.published.take().len(), 2, "one warning, and the message");
    rig.set_fault(None);
    assert_eq!(rig.barrier().await, StoreHealth::Ok);
    assert_eq!(
        rig.store.reader.read_pending(&"ses_1".into()).await.unwrap().0,
        []
    );
}
