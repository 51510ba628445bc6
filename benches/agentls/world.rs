//! The environment of a measurement: a mock provider, its own folders, and the two programs to compare.
//!
//! It also reads CPU time, wake-ups and memory of a process from `/proc`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use crate::client::Client;
use crate::mock_llm::{MockLlm, RecordedRequest};

/// The argument that makes this program the pass-through.
pub const PASSTHROUGH: &str = "passthrough";

/// The program to measure.
#[derive(Clone, Debug)]
pub enum Target {
    Agentls(PathBuf),
    /// The pass-through.
    PassThrough,
}

/// A provider, folders, and one running program.
pub struct World {
    pub mock: MockLlm,
    pub client: Client,
    dir: tempfile::TempDir,
    target: Target,
    /// Waits for the mock, whose interface is async.
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// Starts the mock and the program.
    pub fn start(target: &Target) -> Self {
        Self::start_with(target, "")
    }

    /// Starts the mock and the program, with more in its configuration.
    pub fn start_with(target: &Target, more_config: &str) -> Self {
        let mock = MockLlm::start();
        mock.unchecked();
        let dir = tempfile::Builder::new()
            .prefix("agentls-bench-")
            .tempdir()
            .expect("a folder");
        for folder in ["work", "config/agentls", "data", "state"] {
            std::fs::create_dir_all(dir.path().join(folder)).expect("a folder");
        }
        let config = format!(
            "[provider.mock]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"sk-bench\"\n\
             model = \"mock-model\"\nmax_retry_after_s = 1000\n\n\
             [model.\"mock-model\"]\ninput = 3.0\noutput = 15.0\ncache_read = 0.3\ncache_write = 3.75\n\
             context_window = 200000\nmax_output_tokens = 32000\n\n\
             [agent.default]\nprovider = \"mock\"\nmode = \"full\"\n{more_config}",
            mock.anthropic_url()
        );
        std::fs::write(dir.path().join("config/agentls/config.toml"), config).expect("a config file");
        Self {
            client: launch(target, dir.path(), &mock),
            mock,
            dir,
            target: target.clone(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
        }
    }

    /// Starts a second instance of the program.
    pub fn start_another(&self) -> Client {
        launch(&self.target, self.dir.path(), &self.mock)
    }

    /// Returns a path in the world's folder.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Opens a session.
    pub fn session(&mut self) -> String {
        let created = self.client.call("agent/newSession", json!({}));
        created["sessionId"].as_str().expect("a session").to_owned()
    }

    /// Sends a prompt and returns the request's id and the time of the write.
    pub fn prompt(&mut self, session: &str, prompt: &str) -> (u64, Instant) {
        self.prompt_like(session, prompt, "")
    }

    /// Sends a prompt; the pass-through's request to the provider also carries the file `like`.
    pub fn prompt_like(&mut self, session: &str, prompt: &str, like: &str) -> (u64, Instant) {
        let params = json!({"sessionId": session, "prompt": prompt, "like": like});
        self.client.send_at("agent/prompt", params)
    }

    /// Sends a prompt and waits until its turn ends.
    pub fn run_prompt(&mut self, session: &str, prompt: &str, like: &str) {
        let (id, _) = self.prompt_like(session, prompt, like);
        self.client.answer(id);
        self.client.discard_kept();
    }

    /// Waits for the provider's request number `index`.
    pub fn wait_for_request(&self, index: usize) -> Arc<RecordedRequest> {
        self.runtime.block_on(self.mock.request(index))
    }

    /// Returns the number of requests to the provider.
    pub fn requests(&self) -> usize {
        self.mock.requests().len()
    }

    /// Waits until the connection of a request is closed and returns that time.
    pub fn wait_for_close(&self, request: &Arc<RecordedRequest>) -> Instant {
        let progress = self.runtime.block_on(self.mock.wait_closed(request));
        progress.closed.expect("it is closed")
    }
}

fn launch(target: &Target, dir: &Path, mock: &MockLlm) -> Client {
    let mut command = match target {
        Target::Agentls(binary) => Command::new(binary),
        Target::PassThrough => {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args([PASSTHROUGH, &mock.address().to_string()]);
            command
        }
    };
    let workspace = dir.join("work");
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", dir)
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .env("XDG_DATA_HOME", dir.join("data"))
        .env("XDG_STATE_HOME", dir.join("state"))
        .current_dir(&workspace);
    Client::start(command, &workspace.display().to_string())
}

/// The CPU time that a process has used.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Nanoseconds of each thread.
    threads: BTreeMap<u32, u64>,
    /// User and system time of the whole process, including ended threads, in units of 10 ms.
    ticks: u64,
}

impl Cpu {
    /// Reads the times of a process now.
    pub fn of(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse::<u64>().ok());
        let threads = threads(pid).filter_map(|thread| {
            let path = format!("/proc/{pid}/task/{thread}/schedstat");
            let text = std::fs::read_to_string(path).ok()?;
            Some((thread, text.split(' ').next()?.parse().ok()?))
        });
        Self {
            threads: threads.collect(),
            ticks: ticks.sum(),
        }
    }

    /// Returns the microseconds since an earlier reading: exact, but in steps of 10 ms if a thread has ended since.
    pub fn since(&self, earlier: &Self) -> f64 {
        if earlier
            .threads
            .keys()
            .any(|thread| !self.threads.contains_key(thread))
        {
            return (self.ticks - earlier.ticks) as f64 * 10_000.0;
        }
        let before = |thread| earlier.threads.get(thread).copied().unwrap_or(0);
        let spent = self.threads.iter().map(|(thread, now)| now - before(thread));
        spent.sum::<u64>() as f64 / 1_000.0
    }
}

/// Returns how often the threads of a process have gone to sleep.
pub fn sleeps(pid: u32) -> u64 {
    let each = threads(pid).map(|thread| {
        let path = format!("/proc/{pid}/task/{thread}/status");
        field(&path, "voluntary_ctxt_switches:").unwrap_or(0)
    });
    each.sum()
}

/// Returns the resident and the proportional memory of a process in MB.
pub fn memory(pid: u32) -> (f64, f64) {
    let path = format!("/proc/{pid}/smaps_rollup");
    let megabytes = |name| field(&path, name).unwrap_or(0) as f64 / 1_024.0;
    (megabytes("Rss:"), megabytes("Pss:"))
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn field(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
