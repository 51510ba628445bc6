//! Sessions as their callers see them, with a scripted model and tools of the test's own.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::base::CancellationToken;
use crate::base::backpressure::ByteBudget;
use crate::base::clock;
use crate::base::counters::Totals;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::{
    AgentError, Attendance, Block, DeltaEnvelope, Effect, Envelope, Event, EventSink, Mode, SessionId,
    TerminalReason, ToolCallStatus,
};
use crate::provider::{CallSlots, ModelInfo, Provider, RetryPolicy, Script};
use crate::session::*;
use crate::store::{ContentChoice, FaultHook, Store};
use crate::tool::{CallPreview, DynTool, Registry, Tool, ToolContext, ToolError, ToolOutput};
use crate::turn::{
    AgentPolicy, Budgets, HookCommands, Hooks, ModelChoice, ModelSource, ResolvedModel, TurnLimits,
    TurnSettings,
};
use crate::workspace::{OnCancel, Workspace, WorkspaceShared};

/// A server's sessions, without a server.
pub(super) struct TurnFixture {
    pub(super) sessions: SessionManager,
    pub(super) events: SeenEvents,
    /// Bounds what is on its way to the client.
    pub(super) pool: Arc<ByteBudget>,
    /// While it is locked, the settings do not answer questions about models.
    pub(super) judging: Arc<tokio::sync::Mutex<()>>,
    writer: AbortOnDrop<()>,
    _dir: tempfile::TempDir,
}

/// Collects the published events.
#[derive(Clone, Default)]
pub(super) struct SeenEvents(Arc<Mutex<Vec<Event>>>);

impl SeenEvents {
    pub(super) fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

impl EventSink for SeenEvents {
    fn publish_event(&mut self, envelope: Envelope) {
        self.0.lock().unwrap().push(envelope.event);
    }

    fn publish_delta(&mut self, _envelope: DeltaEnvelope) {}

    fn publish_warning(&mut self, code: &str, message: &str) {
        // The test makes the disk fail.
        assert!(message.contains("the session store"), "{code}: {message}");
    }
}

#[derive(Clone)]
struct Fixed {
    model: Arc<dyn Provider>,
    mode: Mode,
    time_limit: Option<Duration>,
    judging: Arc<tokio::sync::Mutex<()>>,
}

impl ModelSource for Fixed {
    fn resolve_model(&self, _: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>> {
        let provider = self.model.clone();
        let info = ModelInfo {
            window: 200_000,
            max_output: 8_000,
            knows_max_output: true,
            price: None,
            reasoning: false,
            images: false,
            documents: false,
            tools: true,
            search: None,
        };
        let resolved = ResolvedModel {
            fallbacks: Default::default(),
            provider,
            model: "one".to_owned(),
            info,
            retry: RetryPolicy::default(),
            effort: None,
            edit_tool: Default::default(),
            choice_reason: Some("it is the only one".to_owned()),
        };
        futures::future::ready(Ok(resolved)).boxed()
    }
}

impl SettingsSource for Fixed {
    fn session_settings(&self, _: &SessionInfo) -> SessionSettings {
        SessionSettings {
            turn: TurnSettings {
                models: Arc::new(self.clone()),
                choice: ModelChoice::default(),
                prompt_source: "test".into(),
                limits: TurnLimits::default(),
                context: crate::turn::ContextPolicy::default(),
                tool_timeouts: {
                    let limit = self.time_limit;
                    Arc::new(move |_| limit)
                },
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
            on_cancel: OnCancel::default(),
        }
    }

    fn judge_model(&self, _: &SessionInfo, _: &str) -> ModelVerdict {
        drop(self.judging.blocking_lock());
        ModelVerdict::Accept
    }

    fn default_mode(&self, _: &Path, _: Option<&str>) -> Mode {
        self.mode
    }

    fn open_workspace(&self, _: &SessionInfo) -> Arc<Workspace> {
        let shared = WorkspaceShared::new(&[], None);
        // This program is no helper: it would run the tests whose names contain the words for one.
        shared.sandbox().assume_none();
        Arc::new(Workspace::new(shared))
    }
}

impl TurnFixture {
    /// Creates sessions whose model plays `exchanges` in order.
    pub(super) fn new(mode: Mode, exchanges: Value, tools: Vec<Arc<dyn DynTool>>) -> Self {
        Self::with(mode, scripted(exchanges), tools, None, None)
    }

    /// Creates sessions with any model, a time limit for tools, and a disk that may fail.
    pub(super) fn with(
        mode: Mode,
        model: Arc<dyn Provider>,
        tools: Vec<Arc<dyn DynTool>>,
        time_limit: Option<Duration>,
        fault: Option<FaultHook>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let events = SeenEvents::default();
        let (store, writer) = Store::start_inline(dir.path().to_path_buf(), Box::new(events.clone()), fault);
        let pool = ByteBudget::new(1 << 20);
        let judging = Arc::default();
        let services = Services {
            ledger: build_ledger(&store),
            store,
            profiles: Arc::new(Fixed {
                model,
                mode,
                time_limit,
                judging: Arc::clone(&judging),
            }),
            slots: Arc::new(CallSlots::default()),
            tools: Arc::new(Registry::new(tools)),
            editor: Arc::new(crate::tool::NoEditor),
            redactor: crate::config::Redactor::default(),
            totals: Arc::new(Totals::default()),
            pool: pool.clone(),
            client_name: Arc::new(|| "test".to_owned()),
            attendance: Arc::new(|| Attendance::Approvals),
            idle: Duration::from_secs(1_800),
        };
        Self {
            sessions: SessionManager::new(Arc::new(services)),
            events,
            pool,
            judging,
            writer: spawn(writer),
            _dir: dir,
        }
    }

    pub(super) fn session(&self) -> SessionId {
        let info = SessionInfo {
            id: SessionId::new_random(),
            folder: "/nowhere".into(),
            cwd: "/nowhere".into(),
            agent: None,
        };
        self.sessions.create_session(info, ContentChoice::default()).0
    }

    /// Posts a prompt without waiting for its result.
    pub(super) fn post(
        &self,
        session: &SessionId,
        text: &str,
    ) -> oneshot::Receiver<Result<TurnHandle, CommandError>> {
        let (reply, answer) = oneshot::channel();
        let content = vec![Block::Text(text.to_owned())];
        let posted = self.sessions.post_command(
            session,
            SessionCommand::Prompt {
                content,
                canceled: CancellationToken::new(),
                reply,
            },
        );
        posted.unwrap();
        answer
    }

    pub(super) async fn ask(&self, session: &SessionId, text: &str) -> TurnOutcome {
        let handle = self.post(session, text).await.unwrap().unwrap();
        handle.wait_for_outcome().await.unwrap()
    }

    pub(super) async fn end(self) {
        self.sessions.shut_down().await;
        drop(self.sessions);
        self.writer.await.unwrap();
    }
}

/// Returns a model that plays `exchanges` in order.
pub(super) fn scripted(exchanges: Value) -> Arc<dyn Provider> {
    let cassette = json!({"cassette": 1, "exchanges": exchanges}).to_string();
    Arc::new(Script::parse("script", &cassette).unwrap())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultPlace {
    at: String,
}

/// A tool that panics at the named place.
struct PanickingTool;

fn panic_at(input: &FaultPlace, here: &str) {
    assert!(input.at != here, "a bug in {here}");
}

impl Tool for PanickingTool {
    type Input = FaultPlace;
    const NAME: &'static str = "bomb";
    const DESCRIPTION: &'static str = "Panics.";

    fn call_title(&self, input: &FaultPlace) -> String {
        panic_at(input, "title");
        format!("bomb {}", input.at)
    }

    fn predict_effect(&self, input: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        panic_at(input, "effect");
        Ok(Effect {
            kind: crate::domain::EffectKind::Execute,
            subject: "boom".to_owned(),
            ..Effect::none()
        })
    }

    async fn preview_change(&self, input: &FaultPlace, _: &ToolContext) -> Result<CallPreview, ToolError> {
        tokio::task::yield_now().await;
        panic_at(input, "preview");
        Ok(CallPreview::default())
    }

    async fn run(&self, input: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        panic_at(&input, "run at once");
        tokio::task::yield_now().await;
        panic_at(&input, "run");
        Ok(ToolOutput::text("no bug here"))
    }
}

/// A tool that runs until it is stopped, and notifies when it has begun.
pub(super) struct Endless(pub(super) Arc<Notify>);

impl Tool for Endless {
    type Input = FaultPlace;
    const NAME: &'static str = "endless";
    const DESCRIPTION: &'static str = "Never ends.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "endless".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_panicking_tool_fails_only_its_call() {
    let places = ["title", "effect", "preview", "run at once", "run"];
    for mode in [Mode::Full, Mode::Ask] {
        for place in places {
            // Without a question there is no preview; with one, nobody answers a good one.
            let asks_first = mode == Mode::Ask;
            if asks_first != (place == "preview") {
                continue;
            }
            let well = json!({"tool": {"name": "fine", "input": {"at": "x"}}});
            let badly = json!({"tool": {"name": "bomb", "input": {"at": place}}});
            let fixture = TurnFixture::new(
                mode,
                json!([
                    {"when": {"step": 0}, "events": [badly, well]},
                    {"when": {"step": 1}, "events": [{"text": "I saw it fail"}]},
                    {"when": {"prompt": "again"}, "events": [{"text": "still here"}]},
                ]),
                vec![Arc::new(PanickingTool), Arc::new(Fine)],
            );
            let session = fixture.session();
            let outcome = fixture.ask(&session, "try").await;
            assert_eq!(outcome.end.reason, TerminalReason::Completed, "{place}");
            assert_eq!(outcome.text, "I saw it fail", "{place}");
            let results: Vec<_> = fixture
                .events
                .all()
                .into_iter()
                .filter_map(|event| match event {
                    Event::ToolCall(update) if update.status.is_final() => {
                        Some((update.name, update.status, update.result.unwrap().text.clone()))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(results.len(), 2, "one result each: {results:?}");
            let of = |name: &str| results.iter().find(|result| result.0 == name).unwrap();
            assert_eq!(of("bomb").1, ToolCallStatus::Failed);
            let error_text = of("bomb").2.as_str();
            assert!(
                error_text.starts_with("the tool failed with an internal error (")
                    && error_text.contains(&format!("a bug in {place}")),
                "{place}: the model reads what happened: {error_text}"
            );
            assert_eq!(
                (of("fine").1, of("fine").2.as_str()),
                (ToolCallStatus::Completed, "fine")
            );
            assert_eq!(fixture.ask(&session, "again").await.text, "still here");
            fixture.end().await;
        }
    }
}

/// A tool that works.
struct Fine;

impl Tool for Fine {
    type Input = FaultPlace;
    const NAME: &'static str = "fine";
    const DESCRIPTION: &'static str = "Works.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "fine".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("fine"))
    }
}

fn endless() -> (TurnFixture, Arc<Notify>) {
    let started = Arc::new(Notify::new());
    let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
    let exchanges = json!([{"events": [call], "repeat": true}]);
    let fixture = TurnFixture::new(Mode::Full, exchanges, vec![Arc::new(Endless(started.clone()))]);
    (fixture, started)
}

#[tokio::test(start_paused = true)]
async fn an_unknown_cost_is_not_zero() {
    let usage = |cost: Option<f64>| match cost {
        Some(cost) => json!({"usage": {"input": 1, "output": 1, "cost": cost}}),
        None => json!({"usage": {"input": 1, "output": 1}}),
    };
    let answer =
        |when: &str, cost| json!({"when": {"prompt": when}, "events": [usage(cost), {"text": "ok"}]});
    let exchanges = [
        answer("one", Some(1.0)),
        answer("two", Some(1.0)),
        answer("three", None),
        answer("four", Some(1.0)),
        answer("five", Some(1.0)),
    ];
    let fixture = TurnFixture::new(Mode::Full, json!(exchanges), Vec::new());
    let session = fixture.session();
    let dollars = |usd: f64| Some(crate::domain::Cost::from_usd(usd));
    for (prompt, turn, sum) in [
        ("one", dollars(1.0), dollars(1.0)),
        ("two", dollars(1.0), dollars(2.0)),
        ("three", None, None),
        ("four", dollars(1.0), None),
        // The session is unloaded and loaded again before this step.
        ("five", dollars(1.0), None),
    ] {
        if prompt == "five" {
            clock::sleep(Duration::from_secs(2_000)).await;
            assert_eq!(fixture.sessions.live_session_count(), 0);
        }
        assert_eq!(fixture.ask(&session, prompt).await.end.cost, turn, "{prompt}");
        let reported_cost = fixture
            .events
            .all()
            .into_iter()
            .rev()
            .find_map(|event| match event {
                Event::Usage { session_cost, .. } => Some(session_cost),
                _ => None,
            });
        assert_eq!(reported_cost, Some(sum), "{prompt}");
    }
    fixture.end().await;
}

/// A tool whose preview never returns, as on a disk that hangs.
struct Unseen(Arc<Notify>);

impl Tool for Unseen {
    type Input = FaultPlace;
    const NAME: &'static str = "unseen";
    const DESCRIPTION: &'static str = "Cannot be previewed.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "unseen".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::from_command("unseen"))
    }

    async fn preview_change(&self, _: &FaultPlace, _: &ToolContext) -> Result<CallPreview, ToolError> {
        self.0.notify_one();
        std::future::pending().await
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("unseen"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_interrupts_a_preview() {
    let started = Arc::new(Notify::new());
    let call = json!({"tool": {"name": "unseen", "input": {"at": "x"}}});
    let exchanges = json!([{"events": [call], "repeat": true}]);
    let fixture = TurnFixture::new(Mode::Ask, exchanges, vec![Arc::new(Unseen(started.clone()))]);
    let session = fixture.session();
    let handle = fixture.post(&session, "go").await.unwrap().unwrap();
    started.notified().await;
    let start = crate::base::clock::now();
    fixture.sessions.cancel_turn(&session, None);
    let outcome = handle.wait_for_outcome().await.unwrap();
    assert_eq!(outcome.end.reason, TerminalReason::AbortedTools);
    assert!(
        start.elapsed() < Duration::from_millis(100),
        "{:?}",
        start.elapsed()
    );
    fixture.end().await;
}

#[tokio::test]
async fn a_cancel_takes_effect_with_a_full_mailbox() {
    for named in [false, true] {
        let (fixture, started) = endless();
        let session = fixture.session();
        let handle = fixture.post(&session, "go").await.unwrap().unwrap();
        started.notified().await;
        // This task does not yield, so the actor takes none of these meanwhile.
        let mut answers = Vec::new();
        loop {
            let (reply, answer) = oneshot::channel();
            match fixture
                .sessions
                .post_command(&session, SessionCommand::Inspect { reply })
            {
                Ok(()) => answers.push(answer),
                Err(refused) => break assert_eq!(refused, CommandError::Busy),
            }
        }
        assert!(answers.len() >= 256);
        fixture
            .sessions
            .cancel_turn(&session, named.then_some(&handle.turn));
        let outcome = handle.wait_for_outcome().await.unwrap();
        assert_eq!(outcome.end.reason, TerminalReason::AbortedTools);
        for answer in answers {
            assert!(answer.await.unwrap().is_ok());
        }
        fixture.end().await;
    }
}

#[tokio::test]
async fn a_model_chosen_while_a_turn_begins_stays_chosen() {
    let exchanges = json!([{"events": [{"text": "ok"}], "repeat": true}]);
    let fixture = TurnFixture::new(Mode::Full, exchanges, Vec::new());
    let session = fixture.session();
    fixture.ask(&session, "one").await;
    let handle = fixture.post(&session, "two");
    // Both are in the mailbox before the turn has announced its model.
    let (reply, set) = oneshot::channel();
    let model = Some("other/two".to_owned());
    let effort = None;
    let posted = fixture.sessions.post_command(
        &session,
        SessionCommand::SetModel {
            model,
            effort,
            refused: None,
            reply,
        },
    );
    posted.unwrap();
    handle.await.unwrap().unwrap().wait_for_outcome().await.unwrap();
    set.await.unwrap().unwrap();
    let announced_models = || {
        let models = fixture.events.all().into_iter().filter_map(|event| match event {
            Event::SessionUpdated { model, .. } => model,
            _ => None,
        });
        models.collect::<Vec<_>>()
    };
    assert_eq!(announced_models(), ["script/one", "other/two"]);
    // The next turn calls the chosen model, and announces it.
    fixture.ask(&session, "three").await;
    assert_eq!(announced_models(), ["script/one", "other/two", "script/one"]);
    fixture.end().await;
}

#[tokio::test]
async fn a_model_that_had_to_be_checked_does_not_replace_a_later_choice() {
    let exchanges = json!([{"events": [{"text": "ok"}], "repeat": true}]);
    let fixture = TurnFixture::new(Mode::Full, exchanges, Vec::new());
    let session = fixture.session();
    let choose = async |model: &str, refused| {
        let model = Some(model.to_owned());
        let command = |reply| SessionCommand::SetModel {
            model,
            effort: None,
            refused,
            reply,
        };
        fixture.sessions.send_request(&session, command).await.unwrap();
        let inspect = |reply| SessionCommand::Inspect { reply };
        let snapshot = fixture.sessions.send_request(&session, inspect).await.unwrap();
        snapshot.choice.model.unwrap()
    };
    assert_eq!(choose("a/one", None).await, "a/one");
    assert_eq!(choose("b/two", None).await, "b/two");
    // The first of these commands was refused before the second came.
    assert_eq!(choose("c/three", Some(1)).await, "b/two");
    assert_eq!(choose("c/three", Some(100)).await, "c/three");
    fixture.end().await;
}

#[tokio::test]
async fn a_cancel_applies_to_the_prompt_before_it() {
    let (fixture, started) = endless();
    let session = fixture.session();
    let first = fixture.post(&session, "one");
    fixture.sessions.cancel_turn(&session, None);
    let stale = first.await.unwrap().unwrap();
    let turn = stale.turn.clone();
    let outcome = stale.wait_for_outcome().await.unwrap();
    assert_eq!(outcome.end.reason, TerminalReason::AbortedStreaming);
    // Without a turn, or with a finished one, it does nothing.
    fixture.sessions.cancel_turn(&session, None);
    let second = fixture.post(&session, "two");
    fixture.sessions.cancel_turn(&session, Some(&turn));
    let second = second.await.unwrap().unwrap();
    started.notified().await;
    fixture.sessions.cancel_turn(&session, None);
    let outcome = second.wait_for_outcome().await.unwrap();
    assert_eq!(outcome.end.reason, TerminalReason::AbortedTools);
    fixture.end().await;
}
