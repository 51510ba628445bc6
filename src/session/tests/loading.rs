//! Sessions over a real store, without a model: what loading one finds, and what remains when it is unloaded.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::base::CancellationToken;
use crate::base::backpressure::ByteBudget;
use crate::base::clock;
use crate::base::counters::Totals;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::Attendance;
use crate::domain::*;
use crate::provider::CallSlots;
use crate::session::*;
use crate::store::{
    ContentChoice, FaultHook, PendingEvent, RowWrite, SessionRow, Store, StoreHealth, StoreWrite, WriteFault,
};
use crate::tool::Registry;
use crate::turn::{
    AgentPolicy, Budgets, HookCommands, Hooks, ModelChoice, ModelSource, ResolvedModel, TurnLimits,
    TurnSettings,
};
use crate::workspace::{Workspace, WorkspaceShared};

const IDLE: Duration = Duration::from_secs(60);

/// A server's sessions, over a store in a folder of its own.
struct LoadingFixture {
    sessions: SessionManager,
    passed: Passed,
    fails: Arc<AtomicBool>,
    _driver: AbortOnDrop<()>,
    folder: tempfile::TempDir,
}

/// Collects what clients receive.
#[derive(Clone, Default)]
struct Passed(Arc<Mutex<Vec<Event>>>);

impl EventSink for Passed {
    fn publish_event(&mut self, envelope: Envelope) {
        self.0.lock().unwrap().push(envelope.event);
    }

    fn publish_delta(&mut self, _envelope: DeltaEnvelope) {}

    fn publish_warning(&mut self, _code: &str, message: &str) {
        assert!(message.contains("the session store failed"), "{message}");
    }
}

struct NoModels;

impl ModelSource for NoModels {
    fn resolve_model(&self, _choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>> {
        async { Err(AgentError::new(ErrorCode::Config, "no model")) }.boxed()
    }
}

struct Plain;

impl SettingsSource for Plain {
    fn session_settings(&self, _session: &SessionInfo) -> SessionSettings {
        SessionSettings {
            turn: TurnSettings {
                models: Arc::new(NoModels),
                choice: ModelChoice::default(),
                prompt_source: "".into(),
                limits: TurnLimits {
                    max_steps: 1,
                    ..TurnLimits::default()
                },
                context: crate::turn::ContextPolicy::default(),
                tool_timeouts: Arc::new(|_| None),
                tool_cooldowns: Arc::new(|_| Duration::from_secs(60)),
                sandbox: Arc::default(),
                mode: Mode::default(),
                describes_environment: false,
                hooks: Hooks::new(Arc::new([]), Arc::new(HookCommands::default())),
                policy: AgentPolicy::default(),
            },
            mcp: None,
            own_tools: Default::default(),
            tools: Default::default(),
            subagent_model: SubagentModel::Inherited,
            names_max_steps: true,
            read_only: false,
            budgets: Budgets::default(),
            wall_time: None,
            rules: Rules::default(),
            approval_timeout: None,
            on_cancel: crate::workspace::OnCancel::default(),
        }
    }

    fn default_mode(&self, _folder: &Path, _agent: Option<&str>) -> Mode {
        Mode::Ask
    }

    fn open_workspace(&self, _session: &SessionInfo) -> Arc<Workspace> {
        Arc::new(Workspace::new(WorkspaceShared::new(&[], None)))
    }
}

impl LoadingFixture {
    /// Stores the session `ses_1` with `events` of `turn_1` and `pending`.
    async fn with(events: Vec<Event>, pending: Vec<PendingEvent>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let passed = Passed::default();
        let fails = Arc::new(AtomicBool::new(false));
        let disk = fails.clone();
        let fault: FaultHook = Box::new(move || disk.load(Ordering::Relaxed).then_some(WriteFault::DiskFull));
        let outlet = Box::new(passed.clone());
        let (store, driver) = Store::start_inline(folder.path().to_owned(), outlet, Some(fault));
        let driver = spawn(driver);
        let row = SessionRow::new("ses_1".into(), "/w", "/w", 1);
        let mut writes = vec![StoreWrite::Row(RowWrite::CreateSession(Box::new(row)))];
        writes.extend(
            events
                .into_iter()
                .zip(1..)
                .map(|(event, seq)| StoreWrite::Append {
                    envelope: Envelope {
                        session: "ses_1".into(),
                        turn: Some("turn_1".into()),
                        seq,
                        at_ms: 1,
                        event,
                        permit: None,
                        in_page: false,
                    },
                    drops: Vec::new(),
                    puts: Vec::new(),
                    done: None,
                }),
        );
        writes.extend(pending.into_iter().map(|pending| StoreWrite::Put {
            session: "ses_1".into(),
            pending,
            done: None,
        }));
        store.writes.send(StoreWrite::Together(writes)).await.unwrap();
        store.writes.flush_writes().await.unwrap();
        passed.0.lock().unwrap().clear();
        let services = Services {
            ledger: build_ledger(&store),
            store,
            profiles: Arc::new(Plain),
            slots: Arc::new(CallSlots::new(1)),
            tools: Arc::new(Registry::new(Vec::new())),
            editor: Arc::new(crate::tool::NoEditor),
            redactor: crate::config::Redactor::default(),
            totals: Arc::new(Totals::default()),
            pool: ByteBudget::new(1 << 20),
            client_name: Arc::new(|| "test".to_owned()),
            attendance: Arc::new(|| Attendance::Approvals),
            idle: IDLE,
        };
        Self {
            sessions: SessionManager::new(Arc::new(services)),
            passed,
            fails,
            _driver: driver,
            folder,
        }
    }

    /// Loads the session. Returns its open approvals and the events that were published meanwhile.
    async fn load(&self) -> (Vec<ApprovalId>, Vec<Event>) {
        let loaded = self
            .sessions
            .send_request(&"ses_1".into(), |reply| SessionCommand::Load {
                read_only: false,
                reply,
            })
            .await
            .unwrap();
        loaded.passed.await.unwrap();
        let open = loaded
            .snapshot
            .questions
            .approvals
            .into_iter()
            .map(|open| open.approval.id);
        (open.collect(), std::mem::take(&mut self.passed.0.lock().unwrap()))
    }

    async fn pending(&self) -> usize {
        let reader = &self.sessions.services().store.reader;
        reader.read_pending(&"ses_1".into()).await.unwrap().0.len()
    }
}

fn started() -> Event {
    Event::TurnStarted {
        resumes: None,
        by: TurnTrigger::Prompt,
    }
}

fn wants_a_tool() -> Event {
    Event::Message(Arc::new(Message {
        role: Role::Assistant,
        content: vec![Block::ToolUse {
            id: "call_1".into(),
            name: "bash".to_owned(),
            input: Arc::new(serde_json::json!({})),
            attached: None,
        }],
        ..Message::user_text("")
    }))
}

fn approval_requested() -> Event {
    Event::ApprovalRequested(Approval {
        id: "appr_1".into(),
        tool_call: "call_1".into(),
        name: "bash".to_owned(),
        input: Arc::new(serde_json::json!({})),
        title: "bash".to_owned(),
        cwd: "/w".to_owned(),
        diff: None,
        risk: Risk::Medium,
        why: "mode".to_owned(),
        sandbox: None,
        rule: None,
        losses: None,
    })
}

fn turn_ended(reason: TerminalReason) -> Event {
    Event::TurnEnded(TurnEnd {
        reason,
        state: reason.to_turn_state(false),
        usage: Usage::default(),
        cost: None,
        error: None,
        unused_steers: Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn an_open_approval_is_counted_while_live_and_found_afterwards() {
    let events = vec![
        started(),
        wants_a_tool(),
        approval_requested(),
        turn_ended(TerminalReason::ServerStopped),
    ];
    let rig = LoadingFixture::with(events, Vec::new()).await;
    let activity = rig.sessions.subscribe_activity();
    let found = async || rig.sessions.find_asking_session(&"appr_1".into()).await.unwrap();
    assert_eq!(activity.borrow().approvals, 0);
    assert_eq!(found().await, Some("ses_1".into()), "though nothing is loaded");
    assert_eq!(rig.load().await.0, ["appr_1".into()]);
    assert_eq!(activity.borrow().approvals, 1);

    clock::sleep(IDLE * 2).await;
    assert_eq!(rig.sessions.live_session_count(), 0);
    assert_eq!(activity.borrow().approvals, 0, "unloaded");
    assert_eq!(found().await, Some("ses_1".into()));

    // A decision makes the session live again, and is kept until the turn is resumed.
    let decide = |reply| SessionCommand::Decide {
        approval: "appr_1".into(),
        decision: Decision::from_kind(DecisionKind::Deny),
        reply,
    };
    rig.sessions.send_request(&"ses_1".into(), decide).await.unwrap();
    assert_eq!(activity.borrow().approvals, 1);
    assert_eq!(rig.pending().await, 2);
    assert_eq!(
        rig.sessions.find_asking_session(&"appr_2".into()).await.unwrap(),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_steer_of_a_lost_turn_is_returned_and_not_sent_to_another_turn() {
    let steer = PendingEvent::Steer {
        key: "s".to_owned(),
        turn: Some("turn_1".into()),
        content: vec![Block::Text("and the tests".to_owned())],
    };
    let rig = LoadingFixture::with(
        vec![started(), turn_ended(TerminalReason::StoreFailed)],
        vec![steer],
    )
    .await;
    let (_, events) = rig.load().await;
    assert!(
        matches!(&events[..], [Event::Warning { code, message }]
            if code == "steer_unsettled" && message.ends_with(": and the tests")),
        "{events:?}"
    );
    assert_eq!(rig.pending().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_steer_of_a_crashed_turn_is_returned_by_its_end() {
    let steer = PendingEvent::Steer {
        key: "s".to_owned(),
        turn: Some("turn_1".into()),
        content: vec![Block::Text("and the tests".to_owned())],
    };
    let rig = LoadingFixture::with(vec![started()], vec![steer]).await;
    let (_, events) = rig.load().await;
    assert!(
        matches!(&events[..], [Event::TurnEnded(end)] if end.unused_steers.len() == 1),
        "{events:?}"
    );
    assert_eq!(rig.pending().await, 0);
}

#[tokio::test(start_paused = true)]
async fn partial_text_of_an_earlier_turn_does_not_leak_into_a_crashed_turn() {
    let partial = |message: &str, turn: &str| PendingEvent::Partial {
        message: message.into(),
        before: 0,
        turn: Some(turn.into()),
        text: "half".to_owned(),
        reasoning: String::new(),
    };
    let partials = vec![partial("msg_0", "turn_0"), partial("msg_1", "turn_1")];
    let (_, events) = LoadingFixture::with(vec![started()], partials).await.load().await;
    assert!(
        matches!(&events[..], [Event::Message(message), Event::TurnEnded(_)] if message.id == "msg_1".into()),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_result_was_lost_does_not_run_again() {
    let rig = LoadingFixture::with(
        vec![
            started(),
            wants_a_tool(),
            turn_ended(TerminalReason::StoppedByUser),
        ],
        Vec::new(),
    )
    .await;
    let resume = |reply| SessionCommand::Resume { reply };
    rig.sessions.send_request(&"ses_1".into(), resume).await.unwrap();
    let (_, events) = rig.load().await;
    assert!(
        matches!(&events[..], [Event::ToolCall(update), Event::TurnStarted { .. }, ..]
            if update.status == ToolCallStatus::Cancelled),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_finished_call_is_closed() {
    let rig = LoadingFixture::with(
        vec![
            started(),
            approval_requested(),
            turn_ended(TerminalReason::StoreFailed),
        ],
        Vec::new(),
    )
    .await;
    let (open, events) = rig.load().await;
    assert!(open.is_empty());
    assert!(
        matches!(
            &events[..],
            [Event::ApprovalResolved {
                by: ResolvedBy::Cancel,
                ..
            }]
        ),
        "{events:?}"
    );
    assert_eq!(rig.sessions.subscribe_activity().borrow().approvals, 0);
    assert_eq!(rig.pending().await, 0);
}

#[tokio::test(start_paused = true)]
async fn commands_are_rejected_when_neither_disk_nor_memory_can_store_them() {
    let events = vec![
        started(),
        wants_a_tool(),
        approval_requested(),
        turn_ended(TerminalReason::ServerStopped),
    ];
    let rig = LoadingFixture::with(events, Vec::new()).await;
    rig.load().await;
    rig.fails.store(true, Ordering::Relaxed);
    let writes = &rig.sessions.services().store.writes;
    let pending = PendingEvent::Steer {
        key: "s".to_owned(),
        turn: None,
        content: vec![Block::Text("x".repeat(33 << 20))],
    };
    let big = StoreWrite::Put {
        session: "ses_1".into(),
        pending,
        done: None,
    };
    writes.send(big).await.unwrap();
    assert!(matches!(
        writes.flush_writes().await.unwrap(),
        StoreHealth::Gone(_)
    ));
    let prompt = |reply| SessionCommand::Prompt {
        content: vec![Block::Text("hello".to_owned())],
        canceled: CancellationToken::new(),
        reply,
    };
    let refused = rig.sessions.send_request(&"ses_1".into(), prompt).await.err();
    assert!(matches!(refused, Some(CommandError::Store(_))), "{refused:?}");
    let decide = |reply| SessionCommand::Decide {
        approval: "appr_1".into(),
        decision: Decision::from_kind(DecisionKind::Allow),
        reply,
    };
    let refused = rig.sessions.send_request(&"ses_1".into(), decide).await.err();
    assert!(matches!(refused, Some(CommandError::Store(_))), "{refused:?}");
    assert_eq!(rig.passed.0.lock().unwrap().len(), 0);
}

/// What a load answers without the events is what they say.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "how long it really takes is printed")]
async fn a_long_session_loads_before_its_events_are_folded() {
    const EVENTS: usize = 100_000;
    for (end, resumable) in [
        (TerminalReason::Completed, None),
        (TerminalReason::ServerStopped, Some("turn_1".into())),
    ] {
        let usage = |n: u64| Usage {
            input: n,
            ..Usage::default()
        };
        let settings = Event::SessionUpdated {
            title: Some("long".to_owned()),
            mode: Some(Mode::Plan),
            model: Some("p/m".to_owned()),
            effort: Some("high".to_owned()),
        };
        let spent = Event::Usage {
            step: usage(1),
            turn: usage(2),
            session: usage(3),
            step_cost: None,
            turn_cost: None,
            session_cost: Some(Cost(4)),
            context_used: 1,
            window: 2,
            provider: None,
        };
        let message = Event::Message(Arc::new(Message::user_text("some words, and some more")));
        let mut events = vec![settings];
        while events.len() < EVENTS - 4 {
            events.extend([started(), message.clone(), turn_ended(TerminalReason::Completed)]);
        }
        events.extend([started(), message, spent, turn_ended(end)]);
        let last = events.len() as u64;
        assert!(last >= EVENTS as u64);
        let rig = LoadingFixture::with(events, Vec::new()).await;
        let session = SessionId::from("ses_1");
        let inspect = || {
            rig.sessions
                .send_request(&session, |reply| SessionCommand::Measure { reply })
        };
        let began = std::time::Instant::now();
        assert_eq!(rig.load().await, (Vec::new(), Vec::new()));
        let load_time = began.elapsed();
        let snapshot = inspect().await.unwrap();
        assert_eq!(
            (snapshot.seq, &snapshot.resumable, snapshot.turn.as_ref()),
            (last, &resumable, None)
        );
        assert_eq!(
            (snapshot.choice.title.as_deref(), snapshot.choice.mode),
            (Some("long"), Mode::Plan)
        );
        assert_eq!(snapshot.metrics.usage, usage(3));
        // The first write folds it.
        let began = std::time::Instant::now();
        let rename = |reply| SessionCommand::Rename {
            title: "long".to_owned(),
            reply,
        };
        rig.sessions.send_request(&"ses_1".into(), rename).await.unwrap();
        let folded = inspect().await.unwrap();
        println!("shown after {load_time:?}, written after {:?}", began.elapsed());
        assert_eq!(folded.seq, last + 1);
        assert_eq!(SessionSnapshot { seq: last, ..folded }, snapshot);
    }
}

/// R-SESS-6.
#[tokio::test(start_paused = true)]
async fn idle_sessions_are_unloaded_and_used_ones_stay() {
    const COUNT: usize = 1_000;
    let rig = LoadingFixture::with(vec![started(), turn_ended(TerminalReason::Completed)], Vec::new()).await;
    rig.load().await;
    let mut ids: Vec<SessionId> = vec!["ses_1".into()];
    let rename = async |id: &SessionId| {
        let title = format!("of {id}");
        rig.sessions
            .send_request(id, |reply| SessionCommand::Rename { title, reply })
            .await
            .unwrap();
    };
    while ids.len() < COUNT {
        let info = SessionInfo {
            id: SessionId::new_random(),
            folder: "/w".into(),
            cwd: "/w".into(),
            agent: None,
        };
        let (id, _) = rig.sessions.create_session(info, ContentChoice::default());
        rename(&id).await;
        ids.push(id);
    }
    let locks = || {
        std::fs::read_dir(rig.folder.path().join("locks"))
            .unwrap()
            .count()
    };
    clock::sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!((rig.sessions.live_session_count(), locks()), (COUNT, COUNT));
    rename(&ids[7]).await;
    assert!(rig.sessions.inspect_live(&ids[0]).await.is_some());
    clock::sleep(Duration::from_secs(2)).await;
    // A look neither keeps a session loaded nor loads it.
    assert!(rig.sessions.inspect_live(&ids[0]).await.is_none());
    assert_eq!(
        (rig.sessions.live_session_count(), locks()),
        (1, 1),
        "one was used meanwhile"
    );
    clock::sleep(IDLE).await;
    assert_eq!((rig.sessions.live_session_count(), locks()), (0, 0));
    // They are loaded again on demand.
    rename(&ids[COUNT - 1]).await;
    let inspect = |reply| SessionCommand::Inspect { reply };
    let found = rig.sessions.send_request(&ids[COUNT - 1], inspect).await.unwrap();
    assert_eq!(found.choice.title, Some(format!("of {}", ids[COUNT - 1])));
    assert_eq!((found.seq, rig.sessions.live_session_count()), (2, 1));
}
