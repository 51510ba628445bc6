//! The physical limit: the least that a program between this provider and this client can do.
//!
//! It reads framed requests, makes the same HTTP calls with a plain TCP socket, and copies each delta into a
//! frame. No store, no history, no settings, no retries, no merging, no limits. One blocking thread per session.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};

/// Runs until the end of stdin. The provider listens at `address`.
pub fn run(address: &str) {
    let shared = Arc::new(SharedState {
        address: address.to_owned(),
        idle: Mutex::new(Vec::new()),
    });
    let mut sessions: HashMap<String, (Arc<Cancel>, Sender<Prompt>)> = HashMap::new();
    let mut input = BufReader::new(std::io::stdin());
    while let Some(message) = read_frame(&mut input) {
        let session = message["params"]["sessionId"].as_str().unwrap_or_default();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => answer(&message["id"], json!({"capabilities": {}})),
            "agent/newSession" => {
                let name = format!("ses_{}", sessions.len());
                let (sender, prompts) = channel();
                let cancel = Arc::new(Cancel::default());
                let worker = Worker {
                    session: name.clone(),
                    shared: shared.clone(),
                    cancel: cancel.clone(),
                    like: (String::new(), String::new()),
                };
                std::thread::spawn(move || worker.run(&prompts));
                sessions.insert(name.clone(), (cancel, sender));
                answer(&message["id"], json!({"sessionId": name}));
            }
            "agent/prompt" => {
                let params = &message["params"];
                let text = |field: &str| params[field].as_str().unwrap_or_default().to_owned();
                let prompt = Prompt {
                    id: message["id"].clone(),
                    text: text("prompt"),
                    padding_file: text("like"),
                };
                let (cancel, sender) = &sessions[session];
                *cancel.state.lock().expect("a lock") = ActiveWork::default();
                sender.send(prompt).expect("a worker");
            }
            "agent/cancel" => sessions[session].0.cancel(),
            _ => {}
        }
    }
}

struct SharedState {
    address: String,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

struct Prompt {
    id: Value,
    text: String,
    /// A file whose bytes the request also carries, so that it is as large as the server's request.
    padding_file: String,
}

#[derive(Default)]
struct Cancel {
    state: Mutex<ActiveWork>,
    changed: Condvar,
}

/// The resources that a cancel must stop.
#[derive(Default)]
struct ActiveWork {
    cancelled: bool,
    stream: Option<TcpStream>,
    group: Option<Pid>,
}

impl Cancel {
    fn cancel(&self) {
        let mut state = self.state.lock().expect("a lock");
        state.cancelled = true;
        if let Some(stream) = &state.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(group) = state.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.changed.notify_all();
    }
}

struct Worker {
    session: String,
    shared: Arc<SharedState>,
    cancel: Arc<Cancel>,
    like: (String, String),
}

impl Worker {
    fn run(mut self, prompts: &Receiver<Prompt>) {
        while let Ok(prompt) = prompts.recv() {
            let body = self.body(&prompt);
            // A canceled call ends with a socket error.
            let _ = self.call(&body);
            self.cancel.state.lock().expect("a lock").stream = None;
            let mut out = Vec::new();
            self.push_notification(&mut out, "agent/turnEnded", &json!({"sessionId": self.session}));
            let result = json!({"jsonrpc": "2.0", "id": prompt.id, "result": {}});
            frame(&mut out, &result.to_string());
            write(&out);
        }
    }

    fn body(&mut self, prompt: &Prompt) -> String {
        if !prompt.padding_file.is_empty() && self.like.0 != prompt.padding_file {
            let text = std::fs::read_to_string(&prompt.padding_file).expect("the request to be like");
            self.like = (prompt.padding_file.clone(), text);
        }
        let like = match self.like.1.as_str() {
            "" => "null",
            text => text,
        };
        let message = json!({"role": "user", "content": prompt.text});
        format!(r#"{{"model":"mock-model","stream":true,"messages":[{message}],"like":{like}}}"#)
    }

    fn call(&self, body: &str) -> std::io::Result<()> {
        let idle = self.shared.idle.lock().expect("a lock").pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.shared.address)?;
                stream.set_nodelay(true)?;
                BufReader::with_capacity(64 << 10, stream)
            }
        };
        self.cancel.state.lock().expect("a lock").stream = Some(stream.get_ref().try_clone()?);
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.shared.address,
            body.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        let (status, chunked) = read_head(&mut stream)?;
        if status != 200 {
            return self.wait();
        }
        let mut tool = None;
        if chunked {
            tool = self.copy(&mut stream)?;
        }
        // From here on another session may use the connection: a cancel of this one must not reach it.
        self.cancel.state.lock().expect("a lock").stream = None;
        self.shared.idle.lock().expect("a lock").push(stream);
        match tool {
            Some(command) => self.shell(&command),
            None => Ok(()),
        }
    }

    /// Copies the deltas of a chunked body, with one write per chunk. Returns the command of a tool call, if there is
    /// one.
    fn copy(&self, stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
        let (mut rest, mut chunk, mut line, mut out) = (Vec::new(), Vec::new(), String::new(), Vec::new());
        let (mut offset, mut tool) = (0, String::new());
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            chunk.resize(length + 2, 0);
            stream.read_exact(&mut chunk)?;
            if length == 0 {
                let input: Value = serde_json::from_str(&tool).unwrap_or_default();
                return Ok(input["command"].as_str().map(str::to_owned));
            }
            rest.extend_from_slice(&chunk[..length]);
            let mut done = 0;
            for end in memchr::memchr_iter(b'\n', &rest) {
                let data = rest[done..end].strip_prefix(b"data: ");
                done = end + 1;
                let Some(event) = data.and_then(|data| serde_json::from_slice::<Event>(data).ok()) else {
                    continue;
                };
                let Some(delta) = event.delta else { continue };
                if let Some(text) = delta.text {
                    let params = json!({"sessionId": self.session, "offset": offset, "text": text});
                    offset += text.len();
                    self.push_notification(&mut out, "agent/textDelta", &params);
                }
                tool.push_str(delta.partial_json.as_deref().unwrap_or_default());
            }
            rest.drain(..done);
            if !out.is_empty() {
                write(&out);
                out.clear();
            }
        }
    }

    /// Waits as long as the refused request asks, or until a cancel.
    fn wait(&self) -> std::io::Result<()> {
        let mut out = Vec::new();
        self.push_notification(&mut out, "agent/retry", &json!({"sessionId": self.session}));
        write(&out);
        let state = self.cancel.state.lock().expect("a lock");
        let wait = Duration::from_secs(900);
        drop(
            self.cancel
                .changed
                .wait_timeout_while(state, wait, |state| !state.cancelled),
        );
        Ok(())
    }

    fn shell(&self, command: &str) -> std::io::Result<()> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", command])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        self.cancel.state.lock().expect("a lock").group =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut stdout = child.stdout.take().expect("a pipe");
        let (mut buffer, mut out) = ([0; 4096], Vec::new());
        while let Ok(n @ 1..) = stdout.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..n]);
            let params = json!({"sessionId": self.session, "text": text});
            self.push_notification(&mut out, "agent/toolOutputDelta", &params);
            write(&out);
            out.clear();
        }
        child.wait()?;
        self.cancel.state.lock().expect("a lock").group = None;
        Ok(())
    }

    fn push_notification(&self, out: &mut Vec<u8>, method: &str, params: &Value) {
        frame(
            out,
            &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        );
    }
}

#[derive(Deserialize)]
struct Event {
    delta: Option<Delta>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
}

/// Returns the status and whether the body is chunked. Discards a body that is not.
fn read_head(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, bool)> {
    let (mut line, mut status, mut chunked, mut length) = (String::new(), 0, false, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if status == 0 {
            status = text
                .split(' ')
                .nth(1)
                .and_then(|code| code.parse().ok())
                .unwrap_or(500);
        } else if text.is_empty() {
            break;
        } else if text.starts_with("transfer-encoding") {
            chunked = true;
        } else if let Some(value) = text.strip_prefix("content-length: ") {
            length = value.parse().unwrap_or(0);
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    Ok((status, chunked))
}

fn read_frame(input: &mut impl BufRead) -> Option<Value> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((_, value)) => length = value.parse().ok()?,
            None => break,
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn answer(id: &Value, result: Value) {
    let mut out = Vec::new();
    frame(
        &mut out,
        &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
    );
    write(&out);
}

fn frame(out: &mut Vec<u8>, body: &str) {
    out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    out.extend_from_slice(body.as_bytes());
}

/// Writes at once, bypassing the standard library's line buffer; the lock keeps frames whole.
fn write(mut bytes: &[u8]) {
    let stdout = std::io::stdout().lock();
    while !bytes.is_empty() {
        match rustix::io::write(&stdout, bytes) {
            Ok(n) => bytes = &bytes[n..],
            // The client is gone.
            Err(_) => return,
        }
    }
}
