//! Order, groups, durability, and the effects of events on other rows.

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_commit_and_is_published_in_order_after_it() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1", "ses_2"]).await;
    for write in [
        append("ses_1", 1, build_warning("a")),
        delta("ses_1", "b"),
        append("ses_2", 1, build_warning("c")),
        delta("ses_2", "d"),
        append("ses_1", 2, build_warning("e")),
    ] {
        rig.store.writes.try_send(write).unwrap();
    }
    rig.barrier().await;
    assert_eq!(rig.commits(), 1);
    assert_eq!(
        rig.published.take(),
        ["stored 1", "+b", "stored 1", "+d", "stored 2"]
    );
}

#[tokio::test(start_paused = true)]
async fn deltas_alone_do_not_open_the_database() {
    let rig = StoreFixture::new();
    rig.send(delta("ses_1", "a")).await;
    rig.send(delta("ses_1", "b")).await;
    rig.barrier().await;
    assert_eq!(rig.commits(), 0);
    assert_eq!(rig.published.take(), ["+a", "+b"]);
    assert!(
        !rig.folder.path().join("store.db").exists(),
        "opened without need"
    );
}

#[tokio::test(start_paused = true)]
async fn done_is_signaled_after_the_event_is_published() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let (done, reply) = oneshot::channel();
    rig.send(StoreWrite::Append {
        envelope: envelope("ses_1", 1, build_warning("a")),
        drops: Vec::new(),
        puts: Vec::new(),
        done: Some(done),
    })
    .await;
    reply.await.unwrap();
    assert_eq!(rig.published.take(), ["stored 1"]);
}

#[tokio::test(start_paused = true)]
async fn reserved_permits_count_against_the_queue() {
    let rig = StoreFixture::new();
    let mut permits = Vec::new();
    for _ in 0..1_024 {
        permits.push(rig.store.writes.reserve().await.unwrap());
    }
    let mut waiting = Box::pin(rig.store.writes.reserve());
    assert!(futures::poll!(&mut waiting).is_pending());
    assert!(rig.store.writes.try_send(delta("ses_1", "x")).is_err());
    permits.pop().unwrap().send(delta("ses_1", "a"));
    waiting.await.unwrap().send(delta("ses_1", "b"));
    drop(permits);
    rig.barrier().await;
    assert_eq!(rig.published.take(), ["+a", "+b"]);
}

#[tokio::test(start_paused = true)]
async fn published_events_survive_a_kill() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    for seq in 1..=10 {
        rig.send(append("ses_1", seq, build_warning("a"))).await;
    }
    rig.barrier().await;
    let reopened = StoreFixture::in_folder(rig.kill());
    let page = reopened
        .store
        .reader
        .read_events(&"ses_1".into(), EventWindow::Tail, 100)
        .await
        .unwrap();
    assert_eq!(seqs(&page), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn queued_writes_are_stored_when_all_handles_are_dropped() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    for seq in 1..=500 {
        rig.store
            .writes
            .try_send(append("ses_1", seq, build_warning("a")))
            .unwrap();
    }
    let (folder, published) = rig.close().await;
    assert_eq!(published.take().len(), 500);
    assert!(!folder.path().join("store.db-wal").exists(), "not closed");
    let reopened = StoreFixture::in_folder(folder);
    let row = reopened
        .store
        .reader
        .read_session(&"ses_1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.last_seq, 500);
}

#[tokio::test(start_paused = true)]
async fn events_update_the_sessions_row() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let id = SessionId::from("ses_1");
    let usage = Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write: 4,
    };
    let events = [
        Event::TurnStarted {
            by: TurnTrigger::Prompt,
            resumes: None,
        },
        Event::SessionUpdated {
            title: Some("first".into()),
            mode: Some(Mode::Full),
            model: None,
            effort: None,
        },
        Event::SessionUpdated {
            title: None,
            mode: None,
            model: Some("p/m".into()),
            effort: Some("high".into()),
        },
        Event::Usage {
            step: usage,
            turn: usage,
            session: usage,
            step_cost: None,
            turn_cost: None,
            session_cost: Some(Cost(7)),
            context_used: 1,
            window: 2,
            provider: None,
        },
    ];
    for (at, event) in events.into_iter().enumerate() {
        rig.send(append("ses_1", at as u64 + 1, event)).await;
    }
    rig.barrier().await;
    let expected = SessionRow {
        title: Some("first".into()),
        mode: Mode::Full,
        model: Some("p/m".into()),
        effort: Some("high".into()),
        updated_ms: 2_004,
        last_seq: 4,
        open_turn: Some("turn_1".into()),
        usage,
        cost: Some(Cost(7)),
        ..SessionRow::new(id.clone(), "/w", "/w", 1_000)
    };
    assert_eq!(
        rig.store.reader.read_session(&id).await.unwrap(),
        Some(expected.clone())
    );
    let end = Event::TurnEnded(TurnEnd {
        reason: TerminalReason::Completed,
        state: TurnState::Completed,
        usage,
        cost: None,
        error: None,
        unused_steers: Vec::new(),
    });
    rig.send(append("ses_1", 5, end)).await;
    rig.send(StoreWrite::Row(RowWrite::UpdateSession {
        session: id.clone(),
        change: SessionChange {
            title: Some("second".into()),
            ..SessionChange::default()
        },
    }))
    .await;
    rig.barrier().await;
    let expected = SessionRow {
        title: Some("second".into()),
        updated_ms: 2_005,
        last_seq: 5,
        open_turn: None,
        ..expected
    };
    assert_eq!(rig.store.reader.read_session(&id).await.unwrap(), Some(expected));
}

fn question() -> Approval {
    Approval {
        id: "appr_1".into(),
        tool_call: "call_1".into(),
        name: "bash".into(),
        input: Arc::new(serde_json::json!({})),
        title: "ls".into(),
        cwd: "/w".into(),
        diff: None,
        risk: Risk::High,
        why: "a command".into(),
        sandbox: None,
        rule: None,
        losses: None,
    }
}

#[tokio::test(start_paused = true)]
async fn pending_rows_live_until_an_event_settles_them() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let id = SessionId::from("ses_1");
    let partial = |message: &str, before: u64, text: &str| PendingEvent::Partial {
        message: message.into(),
        before,
        turn: Some("turn_1".into()),
        text: text.into(),
        reasoning: String::new(),
    };
    let steer = PendingEvent::Steer {
        key: "1".into(),
        turn: None,
        content: vec![Block::Text("also".into())],
    };
    let decision = PendingEvent::Decision {
        approval: "appr_1".into(),
        decision: Decision::from_kind(DecisionKind::Allow),
    };
    for pending in [
        partial("msg_1", 0, "a"),
        steer.clone(),
        partial("msg_2", 0, "x"),
        partial("msg_1", 1, "b"),
        partial("msg_12", 0, "other"),
    ] {
        let (done, reply) = oneshot::channel();
        rig.send(StoreWrite::Put {
            session: id.clone(),
            pending,
            done: Some(done),
        })
        .await;
        reply.await.unwrap();
    }
    rig.send(append("ses_1", 1, Event::ApprovalRequested(question())))
        .await;
    rig.send(StoreWrite::Put {
        session: id.clone(),
        pending: decision.clone(),
        done: None,
    })
    .await;
    rig.barrier().await;
    let open_approval = PendingEvent::Approval(OpenApproval {
        approval: question(),
        seq: 1,
        turn: Some("turn_1".into()),
        at_ms: 2_001,
    });
    let (pending, skipped) = rig.store.reader.read_pending(&id).await.unwrap();
    let expected = vec![
        partial("msg_1", 0, "a"),
        steer,
        partial("msg_2", 0, "x"),
        partial("msg_1", 1, "b"),
        partial("msg_12", 0, "other"),
        open_approval,
        decision,
    ];
    assert_eq!((pending, skipped), (expected, vec![]));

    let resolved = Event::ApprovalResolved {
        approval: "appr_1".into(),
        tool_call: "call_1".into(),
        decision: Decision::from_kind(DecisionKind::Allow),
        by: ResolvedBy::Person,
    };
    rig.send(append("ses_1", 2, resolved)).await;
    rig.send(append("ses_1", 3, build_message("msg_1", Role::Assistant, "abc")))
        .await;
    let retracted = Event::MessageRetracted {
        message: "msg_2".into(),
        tool_calls: Vec::new(),
    };
    rig.send(StoreWrite::Append {
        envelope: envelope("ses_1", 4, retracted),
        drops: vec![PendingKey::for_steer("1")],
        puts: vec![partial("msg_3", 0, "new")],
        done: None,
    })
    .await;
    rig.barrier().await;
    let loaded = rig
        .store
        .reader
        .load_session(&id, EventWindow::Tail, 10)
        .await
        .unwrap()
        .unwrap();
    let remaining = [partial("msg_12", 0, "other"), partial("msg_3", 0, "new")];
    assert_eq!(loaded.pending, remaining);
    assert_eq!(loaded.session.last_seq, 4);
    for message in ["msg_3", "msg_12"] {
        rig.send(StoreWrite::Row(RowWrite::Drop {
            session: id.clone(),
            key: PendingKey::for_partial(&message.into()),
        }))
        .await;
    }
    rig.barrier().await;
    assert_eq!(rig.store.reader.read_pending(&id).await.unwrap().0, []);
}

#[tokio::test(start_paused = true)]
async fn deletion_removes_everything_and_late_writes_restore_nothing() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1", "ses_2"]).await;
    for id in ["ses_1", "ses_2"] {
        let session = SessionId::from(id);
        rig.send(append(id, 1, build_message("m", Role::User, "needle")))
            .await;
        rig.send(append(id, 2, Event::ApprovalRequested(question())))
            .await;
        rig.send(StoreWrite::Row(RowWrite::UpdateSession {
            session: session.clone(),
            change: SessionChange {
                title: Some("haystack".into()),
                ..SessionChange::default()
            },
        }))
        .await;
        rig.send(StoreWrite::Row(RowWrite::AddGrant {
            grant: Grant {
                id: format!("g_{id}"),
                rule: "bash(ls)".into(),
                scope: GrantScope::Session,
                folder: "/w".into(),
                at_ms: 1,
                tool: None,
            },
            session: Some(session.clone()),
        }))
        .await;
        let mut spool = rig.store.content.open_spool(&session, "out").unwrap();
        spool.append_text("text").unwrap();
        spool.finish().unwrap();
    }
    rig.store.writes.delete_session("ses_1".into()).await.unwrap();
    rig.store.writes.delete_session("never".into()).await.unwrap();
    rig.published.take();
    rig.send(append("ses_1", 3, build_warning("late"))).await;
    rig.send(StoreWrite::Put {
        session: "ses_1".into(),
        pending: PendingEvent::Queued {
            key: "1".into(),
            content: Vec::new(),
        },
        done: None,
    })
    .await;
    rig.barrier().await;
    assert_eq!(
        rig.published.take(),
        ["unstored 3"],
        "an event of a deleted session is still passed on"
    );
    let counts: Vec<i64> = ["sessions", "events", "pending", "grants", "search"]
        .iter()
        .map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            rig.database().query_row(&sql, [], |row| row.get(0)).unwrap()
        })
        .collect();
    assert_eq!(counts, [1, 2, 1, 1, 2], "what is left is the other session's");
    assert!(!rig.folder.path().join("content/ses_1").exists());
    assert!(rig.folder.path().join("content/ses_2/out").exists());
    assert!(rig.store.writes.delete_session("../x".into()).await.is_err());
    rig.set_fault(Some(WriteFault::DiskFull));
    assert!(rig.store.writes.delete_session("ses_2".into()).await.is_err());
    rig.set_fault(None);
    assert!(
        rig.store
            .reader
            .read_session(&"ses_2".into())
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_with_a_used_number_is_not_stored() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    rig.send(append("ses_1", 1, build_warning("first"))).await;
    rig.send(append("ses_1", 1, build_warning("second"))).await;
    rig.send(append("ses_1", 2, build_warning("third"))).await;
    rig.barrier().await;
    assert_eq!(
        rig.published.take(),
        [
            "!store: a record was not stored: event 1 of ses_1 was there before",
            "stored 1",
            "stored 1",
            "stored 2"
        ]
    );
    let page = rig
        .store
        .reader
        .read_events(&"ses_1".into(), EventWindow::Tail, 9)
        .await
        .unwrap();
    assert_eq!(page.events[0].event, build_warning("first"));
}

#[tokio::test]
async fn two_servers_can_write_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let start = |published: &PublishedWords| {
        let witness = Witness {
            published: published.clone(),
            database: folder.path().join("store.db"),
        };
        Store::start(folder.path().to_owned(), Box::new(witness)).unwrap()
    };
    let published = [PublishedWords::default(), PublishedWords::default()];
    let servers = [start(&published[0]), start(&published[1])];
    for (at, (store, _)) in servers.iter().enumerate() {
        let row = SessionRow::new(format!("ses_{at}").into(), "/w", "/w", 1);
        store
            .writes
            .send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))))
            .await
            .unwrap();
    }
    for seq in 1..=300 {
        for (at, (store, _)) in servers.iter().enumerate() {
            store
                .writes
                .send(append(&format!("ses_{at}"), seq, build_warning("x")))
                .await
                .unwrap();
        }
    }
    for (at, (store, thread)) in servers.into_iter().enumerate() {
        assert_eq!(store.writes.flush_writes().await.unwrap(), StoreHealth::Ok);
        let page = store
            .reader
            .read_events(&format!("ses_{at}").into(), EventWindow::Tail, 1_000)
            .await
            .unwrap();
        assert_eq!(page.events.len(), 300);
        drop(store);
        assert!(thread.wait_until_ended().await);
        let published = published[at].take();
        assert_eq!(published.len(), 300);
        assert!(
            published.iter().all(|word| word.starts_with("stored")),
            "{published:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Events of any batches are published in the order sent, and read back unchanged.
    #[test]
    fn events_are_published_in_order_and_read_back_unchanged(
        events in prop::collection::vec(any::<Event>(), 1..40),
        group in 1_usize..10,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let rig = StoreFixture::new();
            rig.create(&["ses_1"]).await;
            for (at, event) in events.iter().enumerate() {
                rig.send(append("ses_1", at as u64 + 1, event.clone())).await;
                if at % group == 0 {
                    rig.barrier().await;
                }
            }
            rig.barrier().await;
            let expected: Vec<_> = (1..=events.len()).map(|seq| format!("stored {seq}")).collect();
            assert_eq!(rig.published.take(), expected);
            let mut walk = rig.store.reader.walk_events(&"ses_1".into(), 0);
            let mut read = Vec::new();
            while let Some(page) = walk.next().await.unwrap() {
                assert_eq!(page.skipped, []);
                read.extend(page.events.into_iter().map(|stored| stored.event));
            }
            assert_eq!(read, events);
        });
    }
}

/// Spending of a day is stored by provider, and each server reads only the share of the others.
#[tokio::test(start_paused = true)]
async fn spending_of_a_day_is_kept_by_provider_and_server() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let spent = |provider: &str, cost| Event::Usage {
        step: Usage::default(),
        turn: Usage::default(),
        session: Usage::default(),
        step_cost: Some(Cost(cost)),
        turn_cost: None,
        session_cost: None,
        context_used: 0,
        window: 0,
        provider: Some(provider.to_owned()),
    };
    let raised = |limit, provider: Option<&str>| Event::InquiryResolved {
        inquiry: Arc::new(Inquiry {
            id: "ask_1".into(),
            parent: None,
            subject: RequestSubject::Limit(LimitReached {
                limit,
                used: 2,
                most: 1,
                provider: provider.map(str::to_owned),
                model: None,
                message: String::new(),
            }),
        }),
        reply: InquiryReply::Raise(9),
        by: ResolvedBy::Person,
    };
    let events = [
        spent("p", 3),
        spent("q", 4),
        spent("p", 5),
        spent("r", u64::MAX),
        spent("r", 1),
        raised(LimitName::DayCost, Some("p")),
        raised(LimitName::ProviderDayCost, Some("q")),
        raised(LimitName::SessionCost, Some("q")),
    ];
    for (at, event) in events.into_iter().enumerate() {
        rig.send(append("ses_1", at as u64 + 1, event)).await;
    }
    rig.barrier().await;
    let published = rig.published.take();
    assert!(
        published.iter().all(|word| word.starts_with("stored")),
        "{published:?}"
    );
    assert_eq!(rig.store.reader.spent_elsewhere(0).await.unwrap(), []);
    // Another server, or this one after a restart.
    let reopened = StoreFixture::in_folder(rig.kill());
    let row = |account: &str, spent, raised| (account.to_owned(), Cost(spent), Cost(raised));
    assert_eq!(
        reopened.store.reader.spent_elsewhere(0).await.unwrap(),
        [
            row("", 0, 9),
            row("p", 8, 0),
            row("q", 4, 9),
            // A sum that is too large for the database ends at its largest integer.
            row("r", i64::MAX.cast_unsigned(), 0)
        ]
    );
    assert_eq!(reopened.store.reader.spent_elsewhere(1).await.unwrap(), []);
}

/// After a crash, the last change may not have been made: then the file is in the state before it.
#[tokio::test]
async fn the_last_of_several_changes_of_a_file_is_reported_separately() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let file = |hash: &str| FileState::File {
        hash: hash.to_owned(),
        bytes: 1,
        mode: 0o644,
    };
    let change = |before: &FileState, after: &FileState| FileChange {
        path: "/w/a".to_owned(),
        before: before.clone(),
        after: after.clone(),
    };
    let (none, one, two, three) = (FileState::Absent, file("1"), file("2"), file("3"));
    let steps = [
        (change(&none, &one), vec![change(&none, &one)]),
        (change(&one, &two), vec![change(&none, &one), change(&one, &two)]),
        (
            change(&two, &three),
            vec![change(&none, &two), change(&two, &three)],
        ),
        // The change had no effect.
        (change(&two, &two), vec![change(&none, &two)]),
        (
            change(&two, &none),
            vec![change(&none, &two), change(&two, &none)],
        ),
    ];
    for (new_change, found) in steps {
        let (done, stored) = tokio::sync::oneshot::channel();
        let write = StoreWrite::Changes {
            session: "ses_1".into(),
            cause: "turn_1".to_owned(),
            replaces_earlier: false,
            changes: vec![new_change],
            done,
        };
        rig.send(write).await;
        stored.await.unwrap();
        rig.barrier().await;
        let changes = rig.store.reader.read_changes(&"ses_1".into()).await.unwrap();
        let changes: Vec<FileChange> = changes.into_iter().map(|(_, change)| change).collect();
        assert_eq!(changes, found);
    }
}
