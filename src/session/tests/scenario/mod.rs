//! A server's sessions in one process and on one paused clock, with the real configuration, providers and tools.
//!
//! A [`Scenario`] is what a test sets up: configuration, files, and the scripted answers of a mock LLM. A [`Client`]
//! is a running server. Both are as synchronous as in the end-to-end tests: every method runs the sessions until its
//! result is there. Nothing happens between two calls.
//!
//! Time is tokio's paused clock: it advances by itself, to the next timer, once nothing else is left to do. There is no
//! reactor for sockets and processes, because time would leap while one of them is busy.

mod chain;
mod client;
mod event_log;
mod questions;
mod tools;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

pub(super) use chain::{overloaded, unavailable};
pub(super) use client::{Client, PendingTurn};
pub(super) use questions::answers;
pub(super) use tools::{TestTool, bash, change_tool, fake_bash, read_file, write_file};

use super::mock_llm::{Gate, MockLlm, RecordedRequest, Reply};
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::{clock, random};
use crate::domain::{Block, MediaData};
use crate::provider::testing::{ClientStream, InProcessServer};
use crate::store::FaultHook;
use crate::tool::DynTool;

/// When a scenario begins: 2026-12-01, 12:00 UTC.
pub(super) const START_MS: i64 = 1_796_126_400_000;

/// A picture of one pixel: a PNG in base64.
pub(super) const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the block of a prompt that shows [`DOT`].
pub(super) fn picture() -> Block {
    Block::Image(MediaData {
        media_type: "image/png".to_owned(),
        data: DOT.into(),
    })
}

/// How much later a server starts after a crash.
const RESTART_PAUSE_MS: i64 = 1_000;

/// Pieces of the configuration file that a test adds.
#[derive(Default)]
pub(super) struct Config {
    /// Lines of `[provider.mock]`.
    pub(super) provider: String,
    /// Lines of `[agent.default]`.
    pub(super) agent: String,
    /// Complete tables.
    pub(super) tables: String,
    /// Replaces the whole file.
    pub(super) full_text: Option<String>,
}

impl Config {
    /// Replaces the whole file.
    pub(super) fn from_text(text: impl Into<String>) -> Self {
        Self {
            full_text: Some(text.into()),
            ..Self::default()
        }
    }
}

/// Options for starting a server.
#[derive(Default)]
pub(super) struct Options {
    /// The client announces that a user answers limits and questions.
    pub(super) questions: bool,
    /// Tools beyond the built-in ones.
    pub(super) tools: Vec<Arc<dyn DynTool>>,
    /// Makes the disk fail.
    pub(super) disk_fault: Option<FaultHook>,
}

/// The world of one test. Clones share it.
#[derive(Clone)]
pub(super) struct Scenario(Rc<Shared>);

struct Shared {
    mock: MockLlm,
    dir: tempfile::TempDir,
    /// `None` only while it is replaced after a crash.
    runtime: RefCell<Option<tokio::runtime::Runtime>>,
    /// The number of running servers.
    servers: Cell<usize>,
    _address: InProcessServer,
}

impl Scenario {
    /// Creates a scenario whose provider is the mock, with short backoffs.
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    /// Creates a scenario with these lines of `[agent.default]`.
    pub(super) fn with_agent(agent: &str) -> Self {
        Self::with(Config {
            agent: agent.to_owned(),
            ..Config::default()
        })
    }

    /// Creates a scenario with these lines of `[provider.mock]`.
    pub(super) fn with_provider(provider: &str) -> Self {
        Self::with(Config {
            provider: provider.to_owned(),
            ..Config::default()
        })
    }

    /// Creates a scenario with these complete tables.
    pub(super) fn with_tables(tables: &str) -> Self {
        Self::with(Config {
            tables: tables.to_owned(),
            ..Config::default()
        })
    }

    /// Creates a scenario with additions to the configuration.
    pub(super) fn with(config: Config) -> Self {
        // The same ids and delays in every run.
        random::seed_thread(1);
        let mock = MockLlm::in_process();
        let address = serve_in_process(&mock);
        let scenario = Self(Rc::new(Shared {
            mock,
            dir: tempfile::tempdir().unwrap(),
            runtime: RefCell::new(Some(build_runtime(START_MS))),
            servers: Cell::new(0),
            _address: address,
        }));
        for folder in ["work", "config/agentls", "data", "state"] {
            std::fs::create_dir_all(scenario.path(folder)).unwrap();
        }
        scenario.configure(config);
        scenario
    }

    /// Rewrites the configuration file. A running server reads it at [`Client::reload_config`].
    pub(super) fn configure(&self, config: Config) {
        let text = config
            .full_text
            .clone()
            .unwrap_or_else(|| self.build_config(&config));
        std::fs::write(self.path("config/agentls/config.toml"), text).unwrap();
    }

    /// Edits the configuration file.
    pub(super) fn edit_config(&self, edit: impl FnOnce(String) -> String) {
        let text = std::fs::read_to_string(self.path("config/agentls/config.toml")).unwrap();
        self.configure(Config::from_text(edit(text)));
    }

    fn build_config(&self, config: &Config) -> String {
        format!(
            r#"
[provider.mock]
kind = "anthropic"
base_url = "{anthropic}"
api_key = "sk-mock"
model = "mock-model"
initial_backoff_ms = 20
max_backoff_ms = 50
{provider}

[provider.other]
kind = "openai"
base_url = "{openai}"
api_key = "sk-other"
model = "other-model"
initial_backoff_ms = 20
max_backoff_ms = 50

[provider.responses]
kind = "openai-responses"
base_url = "{openai}"
api_key = "sk-responses"
model = "responses-model"
initial_backoff_ms = 20
max_backoff_ms = 50

[model."mock-model"]
input = 3.0
output = 15.0
cache_read = 0.3
cache_write = 3.75
context_window = 200000
max_output_tokens = 64000

[agent.default]
provider = "mock"
{agent}

{sandbox}
{tables}
"#,
            anthropic = self.mock().anthropic_url(),
            openai = self.mock().openai_url(),
            provider = config.provider,
            agent = config.agent,
            // No command runs here, and what the system prompt says about a sandbox depends on the machine.
            sandbox = if config.tables.contains("[sandbox]") {
                ""
            } else {
                "[sandbox]\nenabled = false"
            },
            tables = config.tables,
        )
    }

    /// Starts a server.
    pub(super) fn start(&self) -> Client {
        self.start_with(Options::default())
    }

    /// Starts a server whose client answers questions and limits.
    pub(super) fn start_asking(&self) -> Client {
        self.start_with(Options {
            questions: true,
            ..Options::default()
        })
    }

    /// Starts a server with tools beyond the built-in ones, or in place of them.
    pub(super) fn start_with_tools(&self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Client {
        self.start_with(Options {
            tools: tools.into_iter().collect(),
            ..Options::default()
        })
    }

    /// Starts a server with options.
    pub(super) fn start_with(&self, options: Options) -> Client {
        self.0.servers.set(self.0.servers.get() + 1);
        Client::start(self.clone(), options)
    }

    /// Returns the mock LLM.
    pub(super) fn mock(&self) -> &MockLlm {
        &self.0.mock
    }

    /// Scripts the answer to the next request that matches no marker.
    pub(super) fn push(&self, reply: Reply) {
        self.mock().push(reply);
    }

    /// Scripts the answers to the next requests that match no marker.
    pub(super) fn push_all(&self, replies: impl IntoIterator<Item = Reply>) {
        replies.into_iter().for_each(|reply| self.mock().push(reply));
    }

    /// Waits for request number `index` at the mock.
    pub(super) fn wait_for_request(&self, index: usize) -> Arc<RecordedRequest> {
        self.block_on(self.mock().request(index))
    }

    /// Waits until a stream has reached the gate.
    pub(super) fn wait_at_gate(&self, gate: &Gate) {
        self.block_on(self.mock().wait_gate(gate));
    }

    /// Waits for request number `index` at the mock, and returns its body as text.
    pub(super) fn raw_request(&self, index: usize) -> String {
        let request = self.wait_for_request(index);
        String::from_utf8_lossy(&request.raw).into_owned()
    }

    /// Returns the latest tool results in a request to the mock, in order.
    pub(super) fn tool_results(&self, request: usize) -> Vec<String> {
        let recorded = self.wait_for_request(request);
        let mut messages = recorded.messages().iter().rev();
        let last = messages.find(|message| message.to_string().contains("tool_result"));
        let blocks = last.unwrap()["content"].as_array().unwrap();
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        results
            .map(|block| match &block["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
                _ => String::new(),
            })
            .collect()
    }

    /// Waits until the connection of request number `index` is closed. Returns whether the client closed it early.
    pub(super) fn is_dropped(&self, index: usize) -> bool {
        let request = self.wait_for_request(index);
        self.block_on(self.mock().wait_closed(&request)).dropped
    }

    /// Returns the number of requests to the mock.
    pub(super) fn requests(&self) -> usize {
        self.mock().requests().len()
    }

    /// Returns a path in the scenario's folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.dir.path().join(name)
    }

    /// Returns the workspace folder.
    pub(super) fn workspace(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a workspace file and returns its path.
    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Reads a workspace file; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace().join(name)).ok()
    }

    /// Lets time pass. Timers that are due fire, in order.
    pub(super) fn advance(&self, time: Duration) {
        // A timer needs the runtime already when it is created.
        self.block_on(async { clock::sleep(time).await });
    }

    /// Lets time pass until this wall time, in ms since the epoch.
    pub(super) fn advance_to(&self, wall_ms: i64) {
        let missing_ms = wall_ms.saturating_sub(self.wall_ms()).max(0);
        self.advance(Duration::from_millis(missing_ms.unsigned_abs()));
    }

    /// Returns the wall time in ms since the epoch.
    pub(super) fn wall_ms(&self) -> i64 {
        self.block_on(async { clock::wall_ms() })
    }

    /// Runs a future, and everything else meanwhile.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.0.runtime.borrow();
        runtime.as_ref().unwrap().block_on(future)
    }

    /// Drops everything that runs, and starts over a second later.
    fn crash(&self) {
        let wall_ms = self.wall_ms();
        drop(self.0.runtime.take());
        let runtime = build_runtime(wall_ms + RESTART_PAUSE_MS);
        self.0.runtime.replace(Some(runtime));
    }
}

fn build_runtime(wall_ms: i64) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async { clock::set_virtual(wall_ms) });
    runtime
}

fn serve_in_process(mock: &MockLlm) -> InProcessServer {
    let connector = mock.connector();
    // A connection is served until its client leaves; the runtime's end drops what is left.
    let serving: Mutex<Vec<AbortOnDrop<()>>> = Mutex::default();
    let connect = move || {
        let (client, server) = connector.connect();
        let mut serving = serving.lock().unwrap();
        serving.retain(|task| !task.is_finished());
        serving.push(spawn(server));
        Box::new(client) as Box<dyn ClientStream>
    };
    InProcessServer::register(mock.hosts().to_vec(), Arc::new(connect))
}
