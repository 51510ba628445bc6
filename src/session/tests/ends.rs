//! Ends of a turn that no client can cause: a lost store, a bug of ours, a tool that takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use super::turns::{Endless, FaultPlace, TurnFixture, scripted};
use crate::base::backpressure::{ByteBudget, Permit};
use crate::base::clock;
use crate::domain::circuit::CircuitPolicy;
use crate::domain::*;
use crate::provider::{
    AccountHealth, EventStream, ModelRequest, Provider, ProviderError, ProviderFault, StreamEvent,
};
use crate::session::*;
use crate::store::{FaultHook, WriteFault as DiskFault};
use crate::tool::{Tool, ToolContext, ToolError, ToolOutput};

/// Returns the final updates of tool calls so far: status and text.
fn results(fixture: &TurnFixture) -> Vec<(ToolCallStatus, String)> {
    let events = fixture.events.all().into_iter();
    let updates = events.filter_map(|event| match event {
        Event::ToolCall(update) => update.result.map(|result| (update.status, result.text.clone())),
        _ => None,
    });
    updates.collect()
}

#[tokio::test]
async fn a_lost_store_ends_running_turns() {
    let started = Arc::new(Notify::new());
    let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
    let model = scripted(json!([
        {"when": {"prompt": "go"}, "events": [call]},
        {"events": [{"text": "ok"}], "repeat": true},
    ]));
    let fails = Arc::new(AtomicBool::new(false));
    let disk = fails.clone();
    let fault: FaultHook = Box::new(move || disk.load(Ordering::Relaxed).then_some(DiskFault::DiskFull));
    let fixture = TurnFixture::with(
        Mode::Full,
        model,
        vec![Arc::new(Endless(started.clone()))],
        None,
        Some(fault),
    );
    let session = fixture.session();
    let mut running = fixture.post(&session, "go").await.unwrap().unwrap();
    started.notified().await;
    fails.store(true, Ordering::Relaxed);
    // Events of another session fill the memory.
    let other = fixture.session();
    let long = "x".repeat(9 << 20);
    let mut prompt_count = 0;
    let outcome = loop {
        match fixture.post(&other, &long).await.unwrap() {
            Ok(handle) => drop(handle.wait_for_outcome().await),
            Err(refused) => assert!(matches!(refused, CommandError::Store(_)), "{refused:?}"),
        }
        prompt_count += 1;
        assert!(prompt_count < 10, "the store is never gone");
        if let Ok(outcome) = running.outcome.try_recv() {
            break outcome;
        }
    };
    assert_eq!(outcome.end.reason, TerminalReason::StoreFailed);
    assert_eq!(outcome.end.state, TurnState::Failed);
    assert_eq!(outcome.end.error.unwrap().code, ErrorCode::Store);
    assert_eq!(
        results(&fixture),
        [(ToolCallStatus::Cancelled, "interrupted".to_owned())]
    );
    fails.store(false, Ordering::Relaxed);
    fixture.end().await;
}

/// A provider that panics.
struct Panics;

impl Provider for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn open_stream(&self, _: Arc<ModelRequest>) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        Box::pin(async { panic!("a bug in the provider") })
    }
}

#[tokio::test]
async fn a_panicking_provider_ends_only_its_turn() {
    let fixture = TurnFixture::with(Mode::Full, Arc::new(Panics), Vec::new(), None, None);
    let session = fixture.session();
    for _ in 0..2 {
        let end = fixture.ask(&session, "go").await.end;
        assert_eq!(
            (end.reason, end.state),
            (TerminalReason::InternalError, TurnState::Failed)
        );
        let error = end.error.unwrap();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(
            error.cause.as_deref().unwrap().contains("a bug in the provider"),
            "{error:?}"
        );
    }
    fixture.end().await;
}

/// A provider that reports usage and then breaks off, while the client is slow.
struct BreaksOff {
    health: Arc<AccountHealth>,
    pool: OnceLock<Arc<ByteBudget>>,
    broke: Arc<Notify>,
    behind: Arc<Mutex<Option<Permit>>>,
}

impl Provider for BreaksOff {
    fn name(&self) -> &str {
        "breaks"
    }

    fn account_health(&self) -> Option<&Arc<AccountHealth>> {
        Some(&self.health)
    }

    fn open_stream(&self, _: Arc<ModelRequest>) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let usage = Usage {
            input: 500,
            ..Usage::default()
        };
        let error = ProviderError {
            fault: ProviderFault::Connection,
            provider: "breaks".to_owned(),
            model: "one".to_owned(),
            message: "gone".to_owned(),
            status: None,
            request_id: None,
            retry_after: None,
            user_action: None,
            should_retry: None,
        };
        let (health, broke, behind) = (self.health.clone(), self.broke.clone(), self.behind.clone());
        let pool = self.pool.get().unwrap().clone();
        let breaks = move |event: Result<StreamEvent, ProviderError>| {
            event.inspect_err(|error| {
                health.record_failure(error);
                *behind.lock().unwrap() = Some(pool.open_session(2 << 20).take(2 << 20));
                broke.notify_one();
            })
        };
        let events = [Ok(StreamEvent::Usage { usage, cost: None }), Err(error)];
        let events = futures::stream::iter(events).map(breaks).boxed();
        Box::pin(async move { Ok(events) })
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_counted_if_a_cancel_precedes_the_circuit_event() {
    let policy = CircuitPolicy {
        failures: 1,
        rest: Duration::from_secs(60),
    };
    let behind: Arc<Mutex<Option<Permit>>> = Arc::default();
    let model = Arc::new(BreaksOff {
        health: AccountHealth::new("breaks", policy),
        pool: OnceLock::new(),
        broke: Arc::default(),
        behind: behind.clone(),
    });
    let fixture = TurnFixture::with(Mode::Full, model.clone(), Vec::new(), None, None);
    model.pool.set(fixture.pool.clone()).unwrap();
    let session = fixture.session();
    let running = fixture.post(&session, "go").await.unwrap().unwrap();
    model.broke.notified().await;
    fixture.sessions.cancel_turn(&session, None);
    let end = running.wait_for_outcome().await.unwrap().end;
    assert_eq!(end.reason, TerminalReason::AbortedStreaming);
    assert_eq!(end.usage.input, 500);
    drop(behind.lock().unwrap().take());
    fixture.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_stopped_at_its_time_limit() {
    for (limit, after, expected) in [
        (None, 120, "timed out after 120 s"),
        (Some(Duration::from_secs(5)), 5, "timed out after 5 s"),
    ] {
        let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
        let model = scripted(json!([
            {"when": {"step": 0}, "events": [call]},
            {"when": {"step": 1}, "events": [{"text": "it took too long"}]},
        ]));
        let tools: Vec<Arc<dyn crate::tool::DynTool>> = vec![Arc::new(Endless(Arc::default()))];
        let fixture = TurnFixture::with(Mode::Full, model, tools, limit, None);
        let start = clock::now();
        let outcome = fixture.ask(&fixture.session(), "go").await;
        let took = start.elapsed();
        assert_eq!(outcome.text, "it took too long");
        assert_eq!(results(&fixture), [(ToolCallStatus::Failed, expected.to_owned())]);
        let after = Duration::from_secs(after);
        assert!(took >= after && took < after + Duration::from_secs(1), "{took:?}");
        fixture.end().await;
    }
}

/// A tool that asks first and then takes 100 s.
struct Slow;

impl Tool for Slow {
    type Input = FaultPlace;
    const NAME: &'static str = "slow";
    const DESCRIPTION: &'static str = "Takes its time.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "slow".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::from_command("slow"))
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        clock::sleep(Duration::from_secs(100)).await;
        Ok(ToolOutput::text("done at last"))
    }
}

#[tokio::test(start_paused = true)]
async fn the_tool_time_limit_is_paused_while_a_person_is_asked() {
    let call = json!({"tool": {"name": "slow", "input": {"at": "x"}}});
    let exchanges = json!([
        {"when": {"step": 0}, "events": [call]},
        {"when": {"step": 1}, "events": [{"text": "fine"}]},
    ]);
    let fixture = TurnFixture::new(Mode::Ask, exchanges, vec![Arc::new(Slow)]);
    let session = fixture.session();
    let handle = fixture.post(&session, "go").await.unwrap().unwrap();
    // The user takes an hour.
    clock::sleep(Duration::from_secs(3_600)).await;
    let approval_id = fixture.events.all().into_iter().find_map(|event| match event {
        Event::ApprovalRequested(approval) => Some(approval.id),
        _ => None,
    });
    let approval = approval_id.expect("a question");
    let decided = fixture
        .sessions
        .send_request(&session, |reply| SessionCommand::Decide {
            approval,
            decision: Decision::from_kind(DecisionKind::Allow),
            reply,
        });
    decided.await.unwrap();
    assert_eq!(handle.wait_for_outcome().await.unwrap().text, "fine");
    assert_eq!(
        results(&fixture),
        [(ToolCallStatus::Completed, "done at last".to_owned())]
    );
    fixture.end().await;
}

/// The reason of the choice is announced once per session.
#[tokio::test(start_paused = true)]
async fn each_session_announces_once_why_its_model_was_chosen() {
    let exchanges = json!([{"events": [{"text": "ok"}], "repeat": true}]);
    let fixture = TurnFixture::new(Mode::Ask, exchanges, Vec::new());
    let count_announcements = || {
        let events = fixture.events.all().into_iter();
        let announcements = events.filter(|event| {
            matches!(event, Event::Warning { code, message }
                if code == "model_chosen" && message == "it is the only one")
        });
        announcements.count()
    };
    let (one, other) = (fixture.session(), fixture.session());
    for (session, times) in [(&one, 1), (&one, 1), (&other, 2), (&one, 2)] {
        fixture.ask(session, "hello").await;
        assert_eq!(count_announcements(), times);
    }
    // Nor again after it is reloaded.
    clock::sleep(Duration::from_secs(2_000)).await;
    assert_eq!(fixture.sessions.live_session_count(), 0);
    fixture.ask(&one, "hello").await;
    assert_eq!(count_announcements(), 2);
    fixture.end().await;
}

#[tokio::test]
async fn closing_a_session_drops_no_command_and_no_event() {
    let started = Arc::new(Notify::new());
    let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
    let model = scripted(json!([{"events": [call]}, {"events": [{"text": "ok"}], "repeat": true}]));
    let fails = Arc::new(AtomicBool::new(false));
    let disk = fails.clone();
    let fault: FaultHook = Box::new(move || disk.load(Ordering::Relaxed).then_some(DiskFault::DiskFull));
    let tools: Vec<Arc<dyn crate::tool::DynTool>> = vec![Arc::new(Endless(started.clone()))];
    let fixture = TurnFixture::with(Mode::Full, model, tools, None, Some(fault));
    let session = fixture.session();
    let rename = |title: &str| {
        let title = title.to_owned();
        let sessions = &fixture.sessions;
        sessions.send_request(&session, |reply| SessionCommand::Rename { title, reply })
    };
    let running = fixture.post(&session, "go").await.unwrap().unwrap();
    started.notified().await;
    // A command that arrives while the turn ends is performed.
    let (_, renamed) = tokio::join!(fixture.sessions.close_session(&session), rename("meanwhile"));
    renamed.unwrap();
    assert_eq!(
        running.wait_for_outcome().await.unwrap().end.reason,
        TerminalReason::AbortedTools
    );
    assert_eq!(fixture.sessions.close_session(&session).await, Ok(true));
    assert_eq!(fixture.sessions.live_session_count(), 0);

    // While the disk fails, closing it would lose what only the memory has.
    rename("before").await.unwrap();
    fails.store(true, Ordering::Relaxed);
    assert!(matches!(
        rename("in memory").await,
        Ok(()) | Err(CommandError::Store(_))
    ));
    assert_eq!(fixture.sessions.close_session(&session).await, Ok(false));
    assert_eq!(fixture.sessions.live_session_count(), 1);
    fails.store(false, Ordering::Relaxed);
    while !fixture.sessions.close_session(&session).await.unwrap() {}
    let inspect = |reply| SessionCommand::Inspect { reply };
    let loaded = fixture.sessions.send_request(&session, inspect).await.unwrap();
    assert_eq!(loaded.choice.title.as_deref(), Some("in memory"));
    fixture.end().await;
}
