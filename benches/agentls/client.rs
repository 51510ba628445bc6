//! A small client of a framed JSON-RPC server.
//!
//! One thread reads, stamps each frame when it is complete, and hands it on unparsed, so that parsing is not
//! measured. It knows nothing about the measurements.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for anything.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// A frame that arrived.
pub struct ReceivedFrame {
    /// The time at which its last byte was read.
    pub at: Instant,
    raw: Vec<u8>,
}

impl std::fmt::Debug for ReceivedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.raw))
    }
}

impl ReceivedFrame {
    /// Returns whether it is a notification of `method`, without parsing it.
    pub fn is(&self, method: &str) -> bool {
        const KEY: &[u8] = b"\"method\":\"";
        let at = memchr::memmem::find(&self.raw, KEY);
        at.is_some_and(|at| {
            let rest = &self.raw[at + KEY.len()..];
            rest.starts_with(method.as_bytes()) && rest.get(method.len()) == Some(&b'"')
        })
    }

    /// Parses the whole message.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.raw).expect("the server writes JSON")
    }

    /// Parses the message and returns its params.
    pub fn params(&self) -> Value {
        self.json()["params"].take()
    }

    fn answers(&self, id: u64) -> bool {
        !self.raw.windows(8).take(64).any(|window| window == b"\"method\"") && self.json()["id"] == id
    }
}

/// A running server and the pipes to it.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    notes: Receiver<ReceivedFrame>,
    /// Frames that arrived while the client waited for another one.
    deferred: VecDeque<ReceivedFrame>,
    next_id: u64,
    /// Time from the start of the process to the answer to `initialize`.
    pub start: Duration,
}

impl Client {
    /// Starts the server and completes the handshake.
    pub fn start(mut command: Command, workspace: &str) -> Self {
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the server starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, notes) = channel();
        std::thread::spawn(move || read_all(stdout, &sender));
        let mut client = Self {
            stdin: child.stdin.take(),
            child,
            notes,
            deferred: VecDeque::new(),
            next_id: 1,
            start: Duration::ZERO,
        };
        let folder = json!({"uri": format!("file://{workspace}"), "name": "work"});
        let greeting = json!({"processId": null, "capabilities": {}, "workspaceFolders": [folder]});
        let id = client.send("initialize", greeting);
        client.start = client.answer(id).at - started;
        client.notify("initialized", json!({}));
        client
    }

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a notification and returns the time of the write.
    pub fn notify(&mut self, method: &str, params: Value) -> Instant {
        self.frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.send_at(method, params).0
    }

    /// Sends a request and returns its id and the time of the write.
    pub fn send_at(&mut self, method: &str, params: Value) -> (u64, Instant) {
        let id = self.next_id;
        self.next_id += 1;
        let at = self.frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        (id, at)
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> ReceivedFrame {
        let frame = self.until(&format!("the answer to request {id}"), |frame| frame.answers(id));
        let json = frame.json();
        assert!(json.get("error").is_none(), "refused: {json}");
        frame
    }

    /// Sends a request and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).json()["result"].take()
    }

    /// Waits for a notification.
    pub fn next(&mut self, method: &str) -> ReceivedFrame {
        self.until(method, |frame| frame.is(method))
    }

    /// Waits for a frame; keeps the ones that come before it.
    pub fn until(&mut self, description: &str, is: impl Fn(&ReceivedFrame) -> bool) -> ReceivedFrame {
        if let Some(at) = self.deferred.iter().position(&is) {
            return self.deferred.remove(at).expect("it is there");
        }
        loop {
            let frame = self.read(description);
            if is(&frame) {
                return frame;
            }
            self.deferred.push_back(frame);
        }
    }

    /// Returns the next frame, whatever it is.
    pub fn next_frame(&mut self, description: &str) -> ReceivedFrame {
        self.deferred
            .pop_front()
            .unwrap_or_else(|| self.read(description))
    }

    /// Waits for the answer to the last request.
    pub fn next_answer(&mut self) {
        let last = self.next_id - 1;
        self.answer(last);
    }

    /// Drops the frames that `until` kept.
    pub fn discard_kept(&mut self) {
        self.deferred.clear();
    }

    fn read(&mut self, description: &str) -> ReceivedFrame {
        self.notes
            .recv_timeout(WAIT_LIMIT)
            .unwrap_or_else(|error| panic!("waited for {description}: {error}; had {:?}", self.deferred))
    }

    fn frame(&mut self, message: &Value) -> Instant {
        let body = message.to_string();
        let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let stdin = self.stdin.as_mut().expect("stdin is open");
        let at = Instant::now();
        stdin.write_all(frame.as_bytes()).expect("the server reads");
        at
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server exits at the end of its input.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn read_all(stdout: ChildStdout, sender: &Sender<ReceivedFrame>) {
    let mut input = BufReader::with_capacity(64 << 10, stdout);
    let mut line = Vec::new();
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&line);
            match text.trim_end().split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        let mut raw = vec![0; length];
        if input.read_exact(&mut raw).is_err() {
            return;
        }
        let frame = ReceivedFrame {
            at: Instant::now(),
            raw,
        };
        if sender.send(frame).is_err() {
            return;
        }
    }
}
