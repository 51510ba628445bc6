//! A world for one test: its own folders, configuration and mock LLM, and servers started in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::client::Client;
use super::{WAIT_LIMIT, now, pause};
use crate::mock_llm::{Gate, MockLlm, Progress, RecordedRequest};

/// The user id and group id of an unprivileged user (`nobody`).
const NOBODY: u32 = 65_534;

/// Pieces of the configuration file that a test adds.
#[derive(Default)]
pub struct Config {
    /// Lines of `[provider.mock]`.
    pub provider: String,
    /// Lines of `[agent.default]`.
    pub agent: String,
    /// Complete tables.
    pub tables: String,
    /// Replaces the whole file.
    pub full_text: Option<String>,
}

/// Options for starting a server.
#[derive(Default)]
pub struct Options {
    /// Arguments of the command line.
    pub args: Vec<String>,
    /// Variables beyond the usual ones.
    pub env: Vec<(String, String)>,
    /// The server's clock stands still until the test advances it.
    pub frozen: bool,
    /// `processId` of `initialize`.
    pub process_id: Option<i64>,
    /// The client announces that a user answers limits and questions.
    pub questions: bool,
    /// Runs the server as an unprivileged user even if the tests run as root.
    pub ordinary_user: bool,
    /// Texts that no frame may contain, in addition to the world's secrets.
    pub secrets: Vec<String>,
}

/// The world of one test.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    mock: MockLlm,
    dir: tempfile::TempDir,
    secrets: Vec<String>,
    servers: AtomicU32,
    /// Waits for the mock, whose interface is async.
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// Creates a world whose provider is the mock, with short backoffs.
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    /// Creates a world with additions to the configuration.
    pub fn with(config: Config) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("agentls-e2e-")
            // Servers resolve their folders, and tests compare them.
            .tempdir_in(std::fs::canonicalize(std::env::temp_dir()).expect("a folder for temporary files"))
            .expect("a temporary folder");
        let unique: String = dir
            .path()
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name")
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let secrets = ["env", "header", "config", "tool"]
            .map(|source| format!("sk-canary-{source}-{unique}"))
            .to_vec();
        let world = Self {
            inner: Arc::new(Inner {
                mock: MockLlm::start(),
                dir,
                secrets,
                servers: AtomicU32::new(0),
                runtime: tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime"),
            }),
        };
        for folder in ["work", "config/agentls", "data", "state", "tmp"] {
            std::fs::create_dir_all(world.path(folder)).expect("a folder");
        }
        world.configure(config);
        world
    }

    /// Rewrites the configuration file.
    pub fn configure(&self, config: Config) {
        let text = config.full_text.clone().unwrap_or_else(|| self.usual(&config));
        std::fs::write(self.path("config/agentls/config.toml"), text).expect("a config file");
    }

    fn usual(&self, config: &Config) -> String {
        let mock = &self.inner.mock;
        let [_, header, key, printed] = &self.inner.secrets[..] else {
            unreachable!()
        };
        format!(
            r#"
[provider.mock]
kind = "anthropic"
base_url = "{anthropic}"
api_key = "${{E2E_SECRET_KEY}}"
model = "mock-model"
initial_backoff_ms = 20
max_backoff_ms = 50
headers = {{ x-canary = "{header}" }}
{provider}

[provider.other]
kind = "openai"
base_url = "{openai}"
api_key = "{key}"
model = "other-model"
initial_backoff_ms = 20
max_backoff_ms = 50

[provider.responses]
kind = "openai-responses"
base_url = "{openai}"
api_key = "{key}"
model = "responses-model"
initial_backoff_ms = 20
max_backoff_ms = 50

[provider.printed]
kind = "openai"
base_url = "{openai}"
api_key = "{printed}"
model = "other-model"

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

[logging]
filter = "debug"

{tables}
"#,
            anthropic = mock.anthropic_url(),
            openai = mock.openai_url(),
            provider = config.provider,
            agent = config.agent,
            tables = config.tables,
        )
    }

    /// Returns the mock LLM.
    pub fn mock(&self) -> &MockLlm {
        &self.inner.mock
    }

    /// Waits for request number `index` at the mock.
    pub fn wait_for_request(&self, index: usize) -> Arc<RecordedRequest> {
        self.inner.runtime.block_on(self.inner.mock.request(index))
    }

    /// Waits until the connection of a request is closed.
    pub fn closed(&self, request: &Arc<RecordedRequest>) -> Progress {
        self.inner.runtime.block_on(self.inner.mock.wait_closed(request))
    }

    /// Waits until a stream has reached the gate.
    pub fn wait_at_gate(&self, gate: &Gate) {
        self.inner.runtime.block_on(self.inner.mock.wait_gate(gate));
    }

    /// Returns the number of requests to the mock.
    pub fn requests(&self) -> usize {
        self.inner.mock.requests().len()
    }

    /// Returns the secrets that must appear nowhere: from the environment, a header and the configuration. The last one
    /// is also what tools print.
    pub fn secrets(&self) -> &[String] {
        &self.inner.secrets
    }

    /// Returns a path in this world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.inner.dir.path().join(name)
    }

    /// Returns the workspace folder.
    pub fn workspace(&self) -> PathBuf {
        self.path("work")
    }

    /// Returns the folder of the store.
    pub fn data(&self) -> PathBuf {
        self.path("data/agentls")
    }

    /// Writes a workspace file and returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Reads a workspace file; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace().join(name)).ok()
    }

    /// Polls until a condition holds, for states without an event.
    pub fn wait_until(&self, condition: impl Fn() -> bool) {
        let deadline = now() + WAIT_LIMIT;
        while !condition() {
            assert!(now() < deadline, "the condition never held");
            pause();
        }
    }

    /// Returns the URI of a workspace file.
    pub fn uri(&self, name: &str) -> String {
        format!("file://{}", self.workspace().join(name).display())
    }

    /// Starts a server and completes the handshake.
    pub fn start(&self) -> Client {
        self.start_with(Options::default())
    }

    /// Starts a server with options and completes the handshake.
    pub fn start_with(&self, options: Options) -> Client {
        let (process_id, questions) = (options.process_id, options.questions);
        let client = self.launch(options);
        let mut params = client.initialize_params(process_id);
        if questions {
            params["capabilities"] = json!({"experimental": {"agent": {"client": {"questions": true}}}});
        }
        let _: Value = client.call("initialize", params);
        client.initialized();
        client
    }

    /// Starts a server whose client answers questions and limits.
    pub fn start_asking(&self) -> Client {
        self.start_with(Options {
            questions: true,
            ..Options::default()
        })
    }

    /// Starts a server whose clock stands still until the test advances it.
    pub fn start_frozen(&self) -> Client {
        self.start_with(Options {
            frozen: true,
            ..Options::default()
        })
    }

    /// Starts a server without a handshake.
    pub fn launch(&self, options: Options) -> Client {
        let number = self.inner.servers.fetch_add(1, Ordering::Relaxed);
        let mark = format!("e2e-{}-{number}", self.path("").display());
        Client::launch(self.clone(), options, mark, number)
    }

    /// Returns whether a server can run as an unprivileged user here: a user namespace may have only one user.
    pub fn has_ordinary_user(&self) -> bool {
        let probe = self.path("tmp");
        !rustix::process::geteuid().is_root()
            || std::os::unix::fs::lchown(probe, Some(NOBODY), Some(NOBODY)).is_ok()
    }

    /// Gives this world to an unprivileged user, with a copy of the program that the user may run. Returns both.
    /// Changes nothing if the tests do not run as root.
    pub fn give_to_ordinary_user(&self) -> (Option<u32>, PathBuf) {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_agentls"));
        if !rustix::process::geteuid().is_root() {
            return (None, program);
        }
        let copy = self.path("agentls");
        if !copy.exists() && std::fs::hard_link(&program, &copy).is_err() {
            std::fs::copy(&program, &copy).expect("a copy of the program");
        }
        let mut pending = vec![self.path("")];
        while let Some(path) = pending.pop() {
            if path != copy {
                std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).expect("a new owner");
            }
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).expect("a folder");
                pending.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
        }
        (Some(NOBODY), copy)
    }

    /// Returns the environment of a server.
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), path("")),
            ("XDG_CONFIG_HOME".into(), path("config")),
            ("XDG_DATA_HOME".into(), path("data")),
            ("XDG_STATE_HOME".into(), path("state")),
            ("TMPDIR".into(), path("tmp")),
            ("RUST_BACKTRACE".into(), "1".into()),
            ("E2E_SECRET_KEY".into(), self.inner.secrets[0].clone()),
        ]
    }
}
