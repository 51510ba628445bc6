//! When a server that has failed starts again, and whether a turn waits for that. Time is paused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending, ready};
use serde_json::{Map, Value};

use super::connection::{
    McpCall, McpCallResult, McpClient, McpConnection, McpConnector, McpError, McpPeer, McpPrompt,
    McpResource, McpTool, McpWait, PromptReply,
};
use super::{McpContent, McpFolder, McpManager, McpRegistration, ReportedFailures};
use crate::base::clock;
use crate::config::McpServerSettings;
use crate::domain::McpServerState;
use crate::workspace::WorkspaceShared;

/// How long a start takes.
const START: Duration = Duration::from_secs(5);
/// How long the end of a connection takes.
const END: Duration = Duration::from_secs(2);
/// Longer than the pause after a failure, and shorter than the rest after three.
const PAUSE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Connector {
    works: AtomicBool,
    /// How long the server takes to list its only prompt; it has none if that takes no time.
    prompts: Duration,
    /// How the server lists its tools; it has none by default.
    tools: Option<Arc<ToolList>>,
}

/// A list of tools without an entry.
#[derive(Default)]
struct ToolList {
    is_stale: AtomicBool,
    hangs: AtomicBool,
    reads: AtomicUsize,
}

impl McpConnector for Connector {
    fn connect<'a>(
        &'a self,
        _settings: &'a McpServerSettings,
        _client: Arc<dyn McpClient>,
    ) -> BoxFuture<'a, Result<Arc<dyn McpConnection>, McpError>> {
        async {
            clock::sleep(START).await;
            if !self.works.load(Ordering::Relaxed) {
                return Err(McpError::Failed("no database".to_owned()));
            }
            let peer = McpPeer {
                has_prompts: !self.prompts.is_zero(),
                has_tools: self.tools.is_some(),
                ..McpPeer::default()
            };
            let tools = self.tools.clone().unwrap_or_default();
            Ok(Arc::new(Connection(peer, self.prompts, tools)) as Arc<dyn McpConnection>)
        }
        .boxed()
    }
}

/// A connection to a server that offers nothing but a prompt, after a while.
struct Connection(McpPeer, Duration, Arc<ToolList>);

impl McpConnection for Connection {
    fn peer(&self) -> &McpPeer {
        &self.0
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>> {
        self.2.reads.fetch_add(1, Ordering::Relaxed);
        if self.2.hangs.load(Ordering::Relaxed) {
            pending().boxed()
        } else {
            ready(Ok(Vec::new())).boxed()
        }
    }

    fn are_lists_stale(&self) -> bool {
        self.2.is_stale.load(Ordering::Relaxed)
    }

    fn call_tool(&self, _call: McpCall) -> BoxFuture<'_, Result<McpCallResult, McpError>> {
        ready(Err(McpError::Closed)).boxed()
    }

    fn list_prompts(&self) -> BoxFuture<'_, Result<Vec<McpPrompt>, McpError>> {
        let prompt = McpPrompt {
            name: "hello".to_owned(),
            description: None,
            arguments: Vec::new(),
        };
        clock::sleep(self.1).map(|()| Ok(vec![prompt])).boxed()
    }

    fn get_prompt(&self, _name: &str, _arguments: Map<String, Value>, _wait: McpWait) -> PromptReply<'_> {
        ready(Err(McpError::Closed)).boxed()
    }

    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<McpResource>, McpError>> {
        ready(Err(McpError::Closed)).boxed()
    }

    fn read_resource(&self, _uri: &str, _wait: McpWait) -> BoxFuture<'_, Result<Vec<McpContent>, McpError>> {
        ready(Err(McpError::Closed)).boxed()
    }

    fn notify_roots_changed(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn wait_until_closed(&self) -> BoxFuture<'_, ()> {
        pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        clock::sleep(END).boxed()
    }
}

struct Fixture {
    connector: Arc<Connector>,
    manager: Arc<McpManager>,
    folder: Arc<McpFolder>,
    reported: ReportedFailures,
}

impl Fixture {
    fn new() -> Self {
        Self::with_connector(Connector::default())
    }

    fn with_connector(connector: Connector) -> Self {
        let connector = Arc::new(connector);
        let manager = McpManager::with_connector(WorkspaceShared::new(&[], None), connector.clone());
        let server = McpServerSettings {
            name: "peer".to_owned(),
            command: Some("peer".to_owned()),
            required: true,
            ..McpServerSettings::default()
        };
        let registration = McpRegistration {
            servers: vec![server].into(),
            ..McpRegistration::default()
        };
        let folder = manager.open_folder(Path::new("/w"), &registration).unwrap();
        Self {
            connector,
            manager,
            folder,
            reported: ReportedFailures::default(),
        }
    }

    /// Creates a server whose third failure in a row was a while ago.
    async fn resting() -> Self {
        let fixture = Self::new();
        for _ in 0..3 {
            assert_eq!(fixture.start_turn().await.0, START);
            clock::sleep(PAUSE).await;
        }
        fixture
    }

    /// Returns the failures that a turn reports now.
    fn take_failures(&self) -> Vec<String> {
        let failures = self.folder.take_new_failures(&self.reported);
        failures.into_iter().map(|(_, reason)| reason).collect()
    }

    /// Does what a turn does first. Returns how long it waits, and why it cannot go on.
    async fn start_turn(&self) -> (Duration, Option<String>) {
        let started = clock::now();
        self.reported.lock().unwrap().clear();
        self.folder.need_servers();
        self.folder.wait_until_started().await;
        let missing = self.folder.find_missing_required();
        (started.elapsed(), missing.map(|(_, reason)| reason))
    }
}

#[tokio::test(start_paused = true)]
async fn the_turn_that_starts_a_failed_server_again_waits_for_it() {
    let fixture = Fixture::new();
    let reason = Some("no database".to_owned());
    assert_eq!(fixture.start_turn().await, (START, reason.clone()));
    assert_eq!(fixture.take_failures(), ["no database"]);
    // Within the pause, a turn waits for the next start, and says again what it lacks.
    fixture.folder.need_servers();
    assert_eq!(fixture.folder.names_of_starting(), ["peer"]);
    let (took, missing) = fixture.start_turn().await;
    assert!(took > START && took < START * 2 && missing == reason, "{took:?}");
    assert_eq!(fixture.take_failures(), ["no database"]);
    assert_eq!(fixture.take_failures(), [""; 0]);
    // So does a turn of another session at the same time.
    let of_other = fixture.folder.take_new_failures(&ReportedFailures::default());
    assert_eq!(of_other, [("peer".to_owned(), "no database".to_owned())]);
    clock::sleep(PAUSE).await;
    fixture.connector.works.store(true, Ordering::Relaxed);
    fixture.folder.need_servers();
    assert_eq!(fixture.folder.names_of_starting(), ["peer"]);
    assert_eq!(fixture.start_turn().await, (START, None));
    assert_eq!(fixture.start_turn().await, (Duration::ZERO, None));
}

#[tokio::test(start_paused = true)]
async fn a_turn_after_the_pause_says_again_what_it_lacks() {
    let fixture = Fixture::new();
    for _ in 0..2 {
        assert_eq!(fixture.start_turn().await.0, START);
        assert_eq!(fixture.take_failures(), ["no database"]);
        clock::sleep(PAUSE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rests_after_three_failures_is_not_waited_for() {
    let fixture = Fixture::resting().await;
    let rests = "no database; after three failures in a row, it is tried again in 40 s at the earliest";
    for _ in 0..2 {
        assert_eq!(fixture.start_turn().await.0, Duration::ZERO);
        // Each turn says once that it lacks the server.
        assert_eq!(fixture.take_failures(), [rests]);
        assert_eq!(fixture.take_failures(), [""; 0]);
    }
    let reason = rests.to_owned();
    assert_eq!(
        fixture.manager.list_live()[0].state,
        McpServerState::Failed { reason }
    );
    // The next turn after the rest starts it.
    let changes = fixture.manager.subscribe_changes();
    clock::sleep(PAUSE * 2 + START).await;
    assert!(changes.has_changed().unwrap());
    let reason = "no database".to_owned();
    assert_eq!(
        fixture.manager.list_live()[0].state,
        McpServerState::Failed { reason }
    );
    fixture.connector.works.store(true, Ordering::Relaxed);
    assert_eq!(fixture.start_turn().await, (START, None));
}

#[tokio::test(start_paused = true)]
async fn a_person_does_not_wait_for_the_end_of_a_rest() {
    let fixture = Fixture::resting().await;
    fixture.connector.works.store(true, Ordering::Relaxed);
    assert!(fixture.manager.restart_server(Path::new("/w"), "peer"));
    assert_eq!(fixture.start_turn().await, (START, None));
    // Nor if a prompt names the server, within a rest or a pause.
    let failed_once = Fixture::new();
    failed_once.start_turn().await;
    for fixture in [Fixture::resting().await, failed_once] {
        fixture.connector.works.store(true, Ordering::Relaxed);
        let connected = fixture.folder.connect_server("peer", START * 2).await;
        assert_eq!(connected.err(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_waited_for_from_its_request_on() {
    let fixture = Fixture::new();
    fixture.connector.works.store(true, Ordering::Relaxed);
    assert_eq!(fixture.start_turn().await, (START, None));
    let restart = || assert!(fixture.manager.restart_server(Path::new("/w"), "peer"));
    restart();
    assert_eq!(fixture.folder.names_of_starting(), ["peer"]);
    // So is another one that is requested while the server starts.
    let restart_again = async {
        clock::sleep(END * 2).await;
        restart();
    };
    let (waited, ()) = tokio::join!(fixture.start_turn(), restart_again);
    assert_eq!(waited, ((END + START) * 2, None));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_keeps_no_turn_waiting() {
    let fixture = Fixture::new();
    fixture.manager.close_folder(Path::new("/w"));
    assert_eq!(fixture.start_turn().await.0, Duration::ZERO);
    tokio::task::yield_now().await;
    assert_eq!(fixture.start_turn().await.0, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn prompts_that_are_late_count_when_they_come() {
    for (takes, expected) in [(6, vec!["mcp__peer__hello"]), (3_600, vec![])] {
        let fixture = Fixture::with_connector(Connector {
            works: AtomicBool::new(true),
            prompts: Duration::from_secs(takes),
            ..Connector::default()
        });
        let mut changes = fixture.manager.subscribe_changes();
        // The start waits for them only briefly.
        assert_eq!(fixture.start_turn().await, (START + Duration::from_secs(2), None));
        assert!(fixture.folder.list_prompts().is_empty());
        changes.mark_unchanged();
        let started = clock::now();
        let link = fixture
            .folder
            .connect_server("peer", Duration::from_secs(60))
            .await
            .unwrap();
        let names = |prompts: Vec<super::ServedPrompt>| -> Vec<String> {
            prompts.into_iter().map(|served| served.name).collect()
        };
        assert_eq!(names(link.list_prompts().collect()), expected);
        assert_eq!(names(fixture.folder.list_prompts()), expected);
        // Their whole time is that of a start.
        assert_eq!(started.elapsed(), Duration::from_secs(takes.min(10) - 2));
        assert!(changes.has_changed().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_cannot_be_read_again_are_waited_for_and_reported_once() {
    let list = Arc::<ToolList>::default();
    let fixture = Fixture::with_connector(Connector {
        works: AtomicBool::new(true),
        tools: Some(list.clone()),
        ..Connector::default()
    });
    let begin_step = async || {
        let started = clock::now();
        fixture.folder.wait_until_lists_current().await;
        (started.elapsed(), fixture.take_failures())
    };
    let reads = || list.reads.load(Ordering::Relaxed);
    let nothing = (Duration::ZERO, Vec::<String>::new());
    assert_eq!(fixture.start_turn().await, (START, None));
    for fault in 1..3 {
        let before = reads();
        assert_eq!(begin_step().await, nothing);
        list.is_stale.store(true, Ordering::Relaxed);
        list.hangs.store(true, Ordering::Relaxed);
        assert_eq!(begin_step().await, (Duration::from_secs(2), Vec::new()));
        assert_eq!(begin_step().await, nothing);
        clock::sleep(Duration::from_secs(10)).await;
        let said = "it did not list its tools again, so those from before stay in use: no answer within 10 s";
        assert_eq!(
            begin_step().await,
            (Duration::ZERO, vec![said.to_owned()]),
            "{fault}"
        );
        assert_eq!(begin_step().await, nothing);
        assert_eq!(reads(), before + 1);
        // It is tried again in the background, and by then works.
        clock::sleep(Duration::from_secs(75)).await;
        assert_eq!((begin_step().await, reads()), (nothing.clone(), before + 2));
        list.is_stale.store(false, Ordering::Relaxed);
        list.hangs.store(false, Ordering::Relaxed);
        clock::sleep(Duration::from_secs(75)).await;
        assert_eq!((begin_step().await, reads()), (nothing.clone(), before + 3));
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_not_wanted_do_not_start() {
    let fixture = Fixture::new();
    let none = fixture.folder.filter_servers(|name| name != "peer");
    none.need_servers();
    assert_eq!(fixture.folder.names_of_starting(), [""; 0]);
    assert_eq!(fixture.start_turn().await.1.as_deref(), Some("no database"));
    assert_eq!(
        (
            none.find_missing_required(),
            none.take_new_failures(&fixture.reported)
        ),
        (None, Vec::new())
    );
    let all = fixture.folder.filter_servers(|_| true);
    assert!(Arc::ptr_eq(&all, &fixture.folder));
}
