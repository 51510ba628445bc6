//! A client of `agentls acp` over real pipes. Dropping it closes the pipe and checks that the program ends well.
//!
//! If `AGENTLS_ACP_FRAMES` names a folder, it writes all frames there, and `tests/acp_client` checks them against the
//! official schema.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::harness::{WAIT_LIMIT, World, now, pause};

/// A running `agentls acp`.
pub struct AcpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last_id: Cell<i64>,
    /// Messages that no test has taken, in order.
    seen: RefCell<Vec<Value>>,
    secrets: Vec<String>,
    /// Where the frames are written: what was sent after `>`, and what was received after `<`.
    frames: Option<File>,
}

impl AcpClient {
    /// Starts the program and initializes it.
    pub fn start(world: &World, capabilities: Value) -> Self {
        let client = Self::launch(world);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let answer = client.call("initialize", params);
        assert_eq!(answer["protocolVersion"], 1);
        client
    }

    /// Starts the program.
    pub fn launch(world: &World) -> Self {
        Self::launch_with(world, &[])
    }

    /// Starts the program with more variables.
    #[expect(clippy::disallowed_methods, reason = "the test plays the editor")]
    pub fn launch_with(world: &World, env: &[(String, String)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_agentls"))
            .arg("acp")
            .env_clear()
            .envs(world.env())
            .envs(env.iter().cloned())
            .current_dir(world.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            last_id: Cell::new(0),
            seen: RefCell::default(),
            secrets: world.secrets().to_vec(),
            frames: open_frames(),
        }
    }

    /// Writes raw bytes.
    pub fn raw(&self, bytes: &[u8]) {
        let mut pipe = self.stdin.as_ref().expect("stdin is open");
        pipe.write_all(bytes).expect("the program reads");
    }

    /// Sends a message.
    pub fn send(&self, message: &Value) {
        self.record_frame('>', &message.to_string());
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub fn request(&self, method: &str, params: Value) -> i64 {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and returns its result.
    pub fn call(&self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for the answer to a request. Messages before it stay untaken.
    pub fn answer(&self, id: i64) -> Value {
        self.take(|message| message["id"] == id && message["method"].is_null())
    }

    /// Waits for a request of the program.
    pub fn asked(&self, method: &str) -> Value {
        self.take(|message| message["method"] == method)
    }

    /// Returns whether a request of the program has arrived that is untaken.
    pub fn has_been_asked(&self, method: &str) -> bool {
        self.seen
            .borrow()
            .iter()
            .any(|message| message["method"] == method)
    }

    /// Answers a request of the program.
    pub fn respond(&self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Waits for an update of a kind.
    pub fn update(&self, kind: &str) -> Value {
        let message = self.take(|message| message["params"]["update"]["sessionUpdate"] == kind);
        message["params"]["update"].clone()
    }

    /// Waits for the first untaken message that fits, and takes it.
    pub fn take(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = now() + WAIT_LIMIT;
        loop {
            let mut seen = self.seen.borrow_mut();
            if let Some(at) = seen.iter().position(&fits) {
                return seen.remove(at);
            }
            let left = deadline.saturating_duration_since(now());
            match self.lines.recv_timeout(left) {
                Ok(line) => seen.push(self.check_line(&line)),
                Err(_) => panic!("the message never came; there are {seen:#?}"),
            }
        }
    }

    fn record_frame(&self, direction: char, line: &str) {
        if let Some(mut frames) = self.frames.as_ref() {
            writeln!(frames, "{direction}{line}").expect("the frame is written");
        }
    }

    fn check_line(&self, line: &str) -> Value {
        self.record_frame('<', line);
        assert!(!self.secrets.iter().any(|secret| line.contains(secret)), "{line}");
        let message: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Takes all updates that have arrived so far.
    pub fn taken_updates(&self) -> Vec<Value> {
        let updates = self.taken_session_updates();
        updates.into_iter().map(|(_, update)| update).collect()
    }

    /// Takes all updates that have arrived so far, each with its session.
    pub fn taken_session_updates(&self) -> Vec<(String, Value)> {
        let mut seen = self.seen.borrow_mut();
        let (updates, rest) = std::mem::take(&mut *seen)
            .into_iter()
            .partition(|message| message["method"] == "session/update");
        *seen = rest;
        let updates: Vec<Value> = updates;
        updates
            .into_iter()
            .map(|message| {
                let params = &message["params"];
                let session = params["sessionId"].as_str().expect("a session");
                (session.to_owned(), params["update"].clone())
            })
            .collect()
    }

    /// Creates a session in the world's workspace.
    pub fn new_session(&self, world: &World) -> String {
        let params = json!({"cwd": world.workspace(), "mcpServers": []});
        let answer = self.call("session/new", params);
        answer["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a prompt of plain text and returns the request's id.
    pub fn prompt(&self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }
}

#[expect(clippy::disallowed_methods, reason = "the script that runs all tests sets it")]
fn open_frames() -> Option<File> {
    let folder = std::env::var_os("AGENTLS_ACP_FRAMES")?;
    let file = tempfile::Builder::new().prefix("acp-").tempfile_in(folder);
    let (file, _) = file.expect("a file").keep().expect("a file that stays");
    Some(file)
}

/// Returns the text of all chunks of a kind, in order.
pub fn chunk_text(updates: &[Value], kind: &str) -> String {
    updates
        .iter()
        .filter(|update| update["sessionUpdate"] == kind)
        .map(|update| update["content"]["text"].as_str().unwrap_or_default())
        .collect()
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = now() + WAIT_LIMIT;
        let status = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break Some(status),
                None if now() > deadline => break None,
                None => pause(),
            }
        };
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if !std::thread::panicking() {
            assert!(
                status.is_some_and(|status| status.success()),
                "ended with {status:?}"
            );
            for line in self.lines.try_iter() {
                self.check_line(&line);
            }
        }
    }
}
