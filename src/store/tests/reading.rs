//! Pages, lists, search, damaged records.

use proptest::prelude::*;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_missing_store_reads_as_empty() {
    let rig = StoreFixture::new();
    let (reader, id) = (&rig.store.reader, SessionId::from("ses_1"));
    assert_eq!(
        reader.list_sessions(SessionQuery::default()).await.unwrap(),
        SessionPage::default()
    );
    assert_eq!(
        reader.load_session(&id, EventWindow::Tail, 200).await.unwrap(),
        None
    );
    assert_eq!(reader.read_event(&id, 1).await.unwrap(), None);
    assert_eq!(reader.read_trust("/w").await.unwrap(), None);
    assert!(!rig.folder.path().join("store.db").exists());
}

#[tokio::test(start_paused = true)]
async fn torn_and_alien_records_are_skipped_and_reported() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let id = SessionId::from("ses_1");
    for seq in 1..=6 {
        rig.send(append("ses_1", seq, build_warning("a"))).await;
    }
    rig.send(StoreWrite::Put {
        session: id.clone(),
        pending: PendingEvent::Queued {
            key: "1".into(),
            content: Vec::new(),
        },
        done: None,
    })
    .await;
    rig.barrier().await;
    rig.database()
        .execute_batch(
            "UPDATE events SET json = '{\"code\": \"x' WHERE id & 15 = 2;
             UPDATE events SET kind = 'hologram' WHERE id & 15 = 4;
             UPDATE events SET json = cast(x'ff' AS TEXT) WHERE id & 15 = 6;
             UPDATE pending SET kind = 'wish';",
        )
        .unwrap();
    let loaded = rig
        .store
        .reader
        .load_session(&id, EventWindow::Tail, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seqs(&loaded.page), [1, 3, 5]);
    assert_eq!(loaded.page.span, Some((1, 6)));
    let broken: Vec<_> = loaded.page.skipped.iter().map(|s| s.record.as_str()).collect();
    assert_eq!(broken, ["event 2", "event 4", "event 6"]);
    assert_eq!(loaded.page.skipped[1].reason, "unknown kind `hologram`");
    assert_eq!(loaded.skipped[0].record, "wish 1");
    assert_eq!(
        SkippedRow::format_warning(&"ses_1".into(), &loaded.skipped).unwrap(),
        "session ses_1: skipped one unreadable record (first: wish 1: unknown kind `wish`)"
    );
    assert!(matches!(
        rig.store.reader.read_event(&id, 2).await.unwrap(),
        Some(Err(_))
    ));
    assert!(matches!(
        rig.store.reader.read_event(&id, 3).await.unwrap(),
        Some(Ok(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn read_turn_returns_only_the_events_of_that_turn() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1", "ses_2"]).await;
    for (session, seq, turn) in [
        ("ses_1", 1, "turn_1"),
        ("ses_1", 2, "turn_2"),
        ("ses_1", 3, "turn_1"),
        ("ses_2", 1, "turn_1"),
    ] {
        rig.send(StoreWrite::Append {
            envelope: Envelope {
                turn: Some(turn.into()),
                ..envelope(session, seq, build_warning("a"))
            },
            drops: Vec::new(),
            puts: Vec::new(),
            done: None,
        })
        .await;
    }
    rig.barrier().await;
    let page = rig
        .store
        .reader
        .read_turn(&"ses_1".into(), &"turn_1".into())
        .await
        .unwrap();
    assert_eq!(seqs(&page), [1, 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Pages in either direction, of any size, join to all events, and report correctly whether there are more.
    #[test]
    fn pages_of_any_size_join_to_all_events(count in 0_u64..40, limit in 1_usize..12) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let rig = StoreFixture::new();
            rig.create(&["ses_0", "ses_1", "ses_2"]).await;
            let id = SessionId::from("ses_1");
            // Neighboring sessions reveal a page that leaves its own session.
            for session in ["ses_0", "ses_1", "ses_2"] {
                let count = if session == "ses_1" { count } else { 3 };
                for seq in 1..=count {
                    rig.send(append(session, seq, build_warning(session))).await;
                }
            }
            rig.barrier().await;
            let all: Vec<u64> = (1..=count).collect();
            let reader = &rig.store.reader;
            let (mut forward, mut after) = (Vec::new(), 0);
            loop {
                let page = reader.read_events(&id, EventWindow::After(after), limit).await.unwrap();
                assert!(page.events.len() <= limit);
                assert_eq!(page.more_before, after > 0);
                forward.extend(seqs(&page));
                assert_eq!(page.more_after, (forward.len() as u64) < count);
                if !page.more_after {
                    break;
                }
                after = page.span.unwrap().1;
            }
            assert_eq!(forward, all);
            let (mut backward, mut window) = (Vec::new(), EventWindow::Tail);
            loop {
                let page = reader.read_events(&id, window, limit).await.unwrap();
                assert_eq!(page.more_after, window != EventWindow::Tail);
                backward.splice(0..0, seqs(&page));
                assert_eq!(page.more_before, (backward.len() as u64) < count);
                if !page.more_before {
                    break;
                }
                window = EventWindow::Before(page.span.unwrap().0);
            }
            assert_eq!(backward, all);
        });
    }

    /// The pages of the list join to all sessions, newest first, even with equal times.
    #[test]
    fn list_pages_of_any_size_join_to_all_sessions(times in prop::collection::vec(0_i64..5, 0..20), limit in 1_usize..6) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let rig = StoreFixture::new();
            for (at, time) in times.iter().enumerate() {
                let mut row = SessionRow::new(format!("ses_{at}").into(), "/w", format!("/w/{}", time % 2), *time);
                row.title = Some("Listed".to_owned());
                rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row)))).await;
            }
            rig.barrier().await;
            for cwd in [None, Some("/w/1".to_owned())] {
                let mut expected: Vec<(i64, usize)> = times
                    .iter()
                    .enumerate()
                    .filter(|(_, time)| cwd.is_none() || *time % 2 == 1)
                    .map(|(at, time)| (*time, at))
                    .collect();
                expected.sort_unstable();
                expected.reverse();
                let expected: Vec<String> = expected.iter().map(|(_, at)| format!("ses_{at}")).collect();
                let mut query = SessionQuery { cwd, limit, ..SessionQuery::default() };
                let mut listed = Vec::new();
                loop {
                    let page = rig.store.reader.list_sessions(query.clone()).await.unwrap();
                    listed.extend(page.sessions.into_iter().map(|hit| hit.session.id.to_string()));
                    query.cursor = page.next_cursor;
                    if query.cursor.is_none() {
                        break;
                    }
                }
                assert_eq!(listed, expected);
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_prompt_is_kept_for_a_time_and_not_listed() {
    const DAY_MS: i64 = 86_400_000;
    let rig = StoreFixture::new();
    let create = async |id: &str, at_ms| {
        let row = SessionRow::new(id.into(), "/w", "/w", at_ms);
        rig.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))))
            .await;
    };
    create("ses_empty", 0).await;
    create("ses_begun", 0).await;
    rig.send(append("ses_begun", 1, build_warning("ses_begun"))).await;
    for (id, day, is_kept) in [("ses_1", 29, true), ("ses_2", 31, false)] {
        create(id, day * DAY_MS).await;
        rig.barrier().await;
        let reader = &rig.store.reader;
        let is_stored = async |id: &str| reader.read_session(&id.into()).await.unwrap().is_some();
        assert_eq!(is_stored("ses_empty").await, is_kept, "{day}");
        assert!(is_stored("ses_begun").await, "{day}");
        let listed = reader.list_sessions(SessionQuery::default()).await.unwrap();
        let listed: Vec<_> = listed
            .sessions
            .iter()
            .map(|hit| hit.session.id.as_str())
            .collect();
        assert_eq!(listed, ["ses_begun"]);
    }
}

#[tokio::test(start_paused = true)]
async fn search_finds_prompts_final_texts_and_titles() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1", "ses_2", "ses_3"]).await;
    let tool_use_message = Event::Message(Arc::new(Message {
        id: "m".into(),
        role: Role::Assistant,
        content: vec![
            Block::Text("interim".into()),
            Block::ToolUse {
                id: "call_1".into(),
                name: "bash".into(),
                input: Arc::new(serde_json::json!({})),
                attached: None,
            },
        ],
        incomplete: false,
        hidden: false,
    }));
    let hidden = Event::Message(Arc::new(Message {
        hidden: true,
        ..Message::user_text("secretive nudge")
    }));
    for write in [
        append(
            "ses_1",
            1,
            build_message("m1", Role::User, "Please fix the flaky parser test"),
        ),
        append("ses_1", 2, tool_use_message),
        append("ses_1", 3, hidden),
        append(
            "ses_1",
            4,
            build_message("m2", Role::Assistant, "The café is fixed."),
        ),
        append("ses_2", 1, build_message("m3", Role::User, "write a parser")),
        append("ses_2", 2, build_message("m4", Role::Tool, "toolish")),
        StoreWrite::Row(RowWrite::UpdateSession {
            session: "ses_3".into(),
            change: SessionChange {
                title: Some("Parser ideas".into()),
                ..SessionChange::default()
            },
        }),
    ] {
        rig.send(write).await;
    }
    rig.barrier().await;
    let find = async |query: &str| {
        let query = SessionQuery {
            query: Some(query.into()),
            ..SessionQuery::default()
        };
        let page = rig.store.reader.list_sessions(query).await.unwrap();
        let found = page.sessions.into_iter().map(|hit| {
            let found = hit.found.unwrap();
            format!(
                "{} {:?} {}",
                hit.session.id,
                found.seq.unwrap_or(0),
                found.excerpt
            )
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(
        find("parser").await,
        [
            "ses_1 1 Please fix the flaky parser test",
            "ses_2 1 write a parser",
            "ses_3 0 Parser ideas"
        ]
    );
    assert_eq!(
        find("FLAKY pars").await.len(),
        1,
        "case, and the beginning of the last word"
    );
    assert_eq!(find("cafe").await, ["ses_1 4 The café is fixed."]);
    for nothing in ["interim", "secretive", "toolish", "flaky café", "\"", "*"] {
        assert_eq!(find(nothing).await, [""; 0], "{nothing}");
    }
    let everything = rig
        .store
        .reader
        .list_sessions(SessionQuery {
            query: Some("  ".into()),
            ..SessionQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(everything.sessions.len(), 3);

    rig.send(StoreWrite::Row(RowWrite::UpdateSession {
        session: "ses_3".into(),
        change: SessionChange {
            title: Some("Lexer ideas".into()),
            ..SessionChange::default()
        },
    }))
    .await;
    rig.barrier().await;
    assert_eq!(find("parser").await.len(), 2, "the old title is forgotten");
    assert_eq!(find("lexer").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_cursor_is_refused() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let query = SessionQuery {
        cursor: Some("x".into()),
        ..SessionQuery::default()
    };
    let error = rig.store.reader.list_sessions(query).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`x` is not a cursor of this list; start again without one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_for_a_changed_tool_replaces_the_earlier_one() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let id = SessionId::from("ses_1");
    let tool = |name: &str, description: &str| GrantedTool {
        name: name.to_owned(),
        definition: Arc::new(ToolDefinition {
            description: description.to_owned(),
            ..ToolDefinition::default()
        }),
    };
    let grant = |id: &str, tool: Option<GrantedTool>, at_ms| Grant {
        id: id.into(),
        rule: "mcp:a/*".into(),
        scope: GrantScope::Workspace,
        folder: "/w".into(),
        at_ms,
        tool,
    };
    let grants = [
        grant("g_1", None, 1),
        grant("g_2", Some(tool("mcp:a/b", "old")), 2),
        grant("g_3", Some(tool("mcp:a/c", "other")), 3),
        grant("g_4", Some(tool("mcp:a/b", "new")), 4),
    ];
    for grant in &grants {
        let grant = grant.clone();
        rig.send(StoreWrite::Row(RowWrite::AddGrant { grant, session: None }))
            .await;
    }
    for description in ["first", "second"] {
        rig.send(StoreWrite::Row(RowWrite::NoteFirstUse {
            folder: "/w".into(),
            tool: tool("mcp:a/b", description),
            at_ms: 1,
        }))
        .await;
    }
    rig.barrier().await;
    let stored = rig.store.reader.read_permissions("/w", &id).await.unwrap();
    assert_eq!(stored.grants, grants[2..]);
    let first = tool("mcp:a/b", "first");
    assert_eq!(stored.first_uses, [(first.name, first.definition)].into());
    let elsewhere = rig.store.reader.read_permissions("/other", &id).await.unwrap();
    assert!(elsewhere.grants.is_empty() && elsewhere.first_uses.is_empty());
}

#[tokio::test(start_paused = true)]
async fn grants_and_trust_are_read_as_written() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let id = SessionId::from("ses_1");
    let grant = |id: &str, scope, at_ms| Grant {
        id: id.into(),
        rule: "bash(ls*)".into(),
        scope,
        folder: "/w".into(),
        at_ms,
        tool: None,
    };
    for (grant, session) in [
        (grant("g_2", GrantScope::Session, 2), Some(id.clone())),
        (grant("g_1", GrantScope::Workspace, 1), Some(id.clone())),
        (grant("g_3", GrantScope::Session, 3), Some("unknown".into())),
        (grant("g_4", GrantScope::Session, 4), None),
    ] {
        rig.send(StoreWrite::Row(RowWrite::AddGrant { grant, session }))
            .await;
    }
    for trusted in [true, false] {
        rig.send(StoreWrite::Row(RowWrite::SetTrust {
            redirects: Vec::new(),
            folder: "/w".into(),
            trusted,
            accepted: Some("print".into()),
            at_ms: 1,
        }))
        .await;
    }
    rig.barrier().await;
    let reader = &rig.store.reader;
    let workspace = [grant("g_1", GrantScope::Workspace, 1)];
    assert_eq!(reader.list_grants("/w", None).await.unwrap(), workspace);
    assert_eq!(
        reader.list_grants("/w", Some(&id)).await.unwrap(),
        [
            grant("g_1", GrantScope::Workspace, 1),
            grant("g_2", GrantScope::Session, 2)
        ]
    );
    assert_eq!(reader.list_grants("/other", None).await.unwrap(), []);
    assert_eq!(reader.read_trust("/w").await.unwrap(), Some(false));
    rig.send(StoreWrite::Row(RowWrite::RevokeGrant { id: "g_1".into() }))
        .await;
    rig.barrier().await;
    assert_eq!(reader.list_grants("/w", None).await.unwrap(), []);
}

/// The cost of a page depends on its size, not on the length of the session: all queries follow a key.
#[tokio::test(start_paused = true)]
async fn page_queries_use_a_key() {
    let rig = StoreFixture::new();
    rig.create(&["ses_1"]).await;
    let database = rig.database();
    for (sql, plan) in [
        (
            reader::FORWARD,
            "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        ),
        (
            reader::BACKWARD,
            "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        ),
        (
            reader::OF_TURN,
            "SEARCH events USING INDEX events_turn (turn=? AND rowid>? AND rowid<?)",
        ),
    ] {
        let mut statement = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps: Vec<String> = statement
            .query_map([1, 2, 3], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(steps, [plan], "{sql}");
    }
}
