//! A client of a server that it starts: the same binary, over its stdin and stdout, as an editor starts it.
//!
//! Knows frames and JSON-RPC; rendering and turns belong to its callers. It has one owner and no task of its own:
//! only a
//! caller that awaits [`ServerClient::next`] or a request reads the pipe. Messages that arrive during a request are
//! kept for the next call of `next`. Dropping the client kills the server.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::args::{GlobalArgs, TurnArgs};
use super::signals::{SignalAction, Signals};
use crate::base::clock;
use crate::base::{text, uri};
use crate::protocol::table::method;
use crate::protocol::{
    Effort, ErrorData, Mode, PROTOCOL_VERSION, ReadContentParams, ReadContentResult, ServerCapability,
    ServerNotification,
};
use crate::transport::frame::{FrameItem, FrameLimits};
use crate::transport::reader::FrameReader;

/// The longest wait for the answer to a request other than a prompt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for an orderly shutdown. The server itself takes up to 2 s (R-CANCEL).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// How much of the end of the server's stderr is kept to explain an exit, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// The size of one `agent/readContent` request, in bytes.
const READ_CHUNK_BYTES: u64 = 1 << 20;

/// How to start a server, and how to introduce this client to it.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// The folder to work in; the only workspace folder.
    pub(super) folder: PathBuf,
    /// Arguments that precede `serve`.
    pub(super) args: Vec<OsString>,
    /// The complete environment of the server; `None` inherits ours.
    pub(super) env: Option<Vec<(OsString, OsString)>>,
    /// The client's name, as it appears in the server's log and locks.
    pub(super) name: &'static str,
    /// The mode and model that the user named for this run. They win over what a session or a folder remembers.
    pub(super) mode: Option<Mode>,
    pub(super) model: Option<String>,
    /// How hard the model thinks, if the user named that for this run.
    pub(super) effort: Option<Effort>,
    /// Settings that win over the files, in the shape of a config file; null for none.
    pub(super) options: Value,
    /// Whether this client lets a user answer limits and questions.
    pub(super) questions: bool,
    /// Whether this client allows every call that needs approval.
    pub(super) approves: bool,
    /// Whether a signal ends the wait for an answer. Needed where the client handles signals: nothing else ends that
    /// wait.
    pub(super) interruptible: bool,
}

/// Why a request got no usable result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("the server could not be started: {0}")]
    Start(std::io::Error),
    /// The server is gone. Holds what it last wrote to stderr, or its exit status.
    #[error("the server exited{}", format_complaint(.0))]
    Ended(String),
    #[error("{}", format_refusal(.0))]
    Refused(Box<ErrorData>),
    /// The server refused without structured error data, or it speaks another protocol version.
    #[error("{0}")]
    Failed(String),
    /// No answer to this method within [`REQUEST_TIMEOUT`].
    #[error("the server did not answer {0} within {n} s", n = REQUEST_TIMEOUT.as_secs())]
    Timeout(&'static str),
    /// A signal arrived before the answer.
    #[error("interrupted before the server answered")]
    Interrupted(SignalAction),
    /// No session has this id, or several do.
    #[error("{0}")]
    NoSession(String),
    /// The answer does not match the protocol.
    #[error("cannot parse the server's answer to {method}: {error}")]
    InvalidResponse {
        method: &'static str,
        error: serde_json::Error,
    },
}

fn format_complaint(complaint: &str) -> String {
    match complaint.trim() {
        "" => String::new(),
        complaint => format!(": {complaint}"),
    }
}

/// Protocol names in server messages, and what a user at a terminal types instead.
const TERMINAL_NAMES: [(&str, &str); 10] = [
    ("agent/listSessions", "`agentls sessions`"),
    ("agent/listModels", "`agentls models`, or /model in a chat"),
    ("agent/setModel", "--model, or /model in a chat"),
    ("agent/listGrants", "/grants"),
    ("agent/listMcpServers", "/mcp"),
    ("agent/resumeTurn", "/resume"),
    ("agent/compact", "/compact"),
    ("agent/prompt", "a prompt"),
    ("agent/steer", "what you type meanwhile"),
    ("agent/cancel", "Ctrl-C"),
];

/// Rewrites a server message for a user at a terminal: replaces the names of protocol methods.
pub(super) fn translate_method_names(line: &str) -> String {
    TERMINAL_NAMES
        .iter()
        .fold(line.to_owned(), |line, (theirs, ours)| line.replace(theirs, ours))
}

fn format_refusal(error: &ErrorData) -> String {
    let mut line = error.message.clone();
    if let Some(cause) = &error.cause {
        line += &format!(": {cause}");
    }
    if let Some(action) = &error.user_action {
        line += &format!("\n{action}");
    }
    translate_method_names(&line)
}

/// A message from the server.
#[derive(Debug)]
pub(super) enum ServerMessage {
    Notification(Box<ServerNotification>),
    /// The answer to a request sent by [`ServerClient::start_request`].
    Answer(u64, Result<Value, ClientError>),
}

/// A running server and the connection to it.
#[derive(Debug)]
pub(super) struct ServerClient {
    child: Child,
    input: ChildStdin,
    frames: FrameReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    stderr_tail: Vec<u8>,
    last_id: u64,
    pending_messages: VecDeque<ServerMessage>,
    /// Bytes that the pipe has not accepted yet.
    unsent: Vec<u8>,
    interruptible: bool,
}

impl Launch {
    /// Describes a server for `folder` with our own environment and the given options.
    pub(super) fn new(shared: &GlobalArgs, folder: PathBuf, name: &'static str) -> Self {
        let mut args = Vec::new();
        let mut add = |flag: &str, value: Option<OsString>| {
            if let Some(value) = value {
                args.extend([OsString::from(flag), value]);
            }
        };
        add("--config", shared.config.as_ref().map(|path| path.clone().into()));
        add("--provider", shared.provider.as_ref().map(Into::into));
        add("--model", shared.model.as_ref().map(Into::into));
        add("--mode", shared.mode.as_ref().map(Into::into));
        add("--log", shared.log.as_ref().map(Into::into));
        Self {
            folder,
            args,
            env: None,
            name,
            mode: shared.mode.as_deref().and_then(parse_mode),
            model: shared.model.clone(),
            effort: None,
            options: Value::Null,
            questions: false,
            approves: false,
            interruptible: false,
        }
    }

    /// Applies the options of a command that sends prompts.
    pub(super) fn apply_turn_args(&mut self, turn: &TurnArgs, max_steps: Option<u32>) {
        self.effort = turn.effort.as_deref().and_then(parse_name);
        let settings = [
            ("max_steps", max_steps.map(Value::from)),
            ("max_turn_cost", turn.max_cost.map(Value::from)),
        ];
        let settings: Map<String, Value> = settings
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        if !settings.is_empty() {
            self.options = json!({"agent": {"default": settings}});
        }
    }
}

/// Parses a mode's protocol name.
pub(super) fn parse_mode(name: &str) -> Option<Mode> {
    parse_name(name)
}

fn parse_name<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::from(name)).ok()
}

impl ServerClient {
    /// Starts a server and completes the `initialize` handshake.
    ///
    /// # Errors
    ///
    /// If the server cannot start, refuses `initialize`, or speaks another major protocol version.
    pub(super) async fn start(launch: &Launch) -> Result<Self, ClientError> {
        let mut child = build_command(launch)?.spawn().map_err(ClientError::Start)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ClientError::Start(std::io::ErrorKind::BrokenPipe.into()));
        };
        let stderr = child.stderr.take();
        let mut client = Self {
            child,
            input,
            frames: FrameReader::new(output, FrameLimits::default()),
            stderr,
            stderr_tail: Vec::new(),
            last_id: 0,
            pending_messages: VecDeque::new(),
            unsent: Vec::new(),
            interruptible: launch.interruptible,
        };
        client.shake_hands(launch).await?;
        Ok(client)
    }

    async fn shake_hands(&mut self, launch: &Launch) -> Result<(), ClientError> {
        let folder = uri::uri_of(&launch.folder);
        let name = launch.folder.file_name().unwrap_or_default().to_string_lossy();
        let params = json!({
            // The server ends when this process dies (R-WIRE), so a killed client leaves no server behind.
            "processId": std::process::id(),
            "clientInfo": {"name": launch.name, "version": env!("CARGO_PKG_VERSION")},
            "rootUri": folder,
            "workspaceFolders": [{"uri": folder, "name": name}],
            "initializationOptions": launch.options,
            "capabilities": {
                "general": {"positionEncodings": ["utf-8"]},
                "experimental": {"agent": {"client": {"questions": launch.questions, "approves": launch.approves}}},
            },
        });
        let answer: Value = self.request("initialize", &params).await?;
        let capability = &answer["capabilities"]["experimental"]["agent"];
        let theirs: ServerCapability =
            serde_json::from_value(capability.clone()).map_err(|error| ClientError::InvalidResponse {
                method: "initialize",
                error,
            })?;
        // Refuse, because another major version may mean something else by the same messages (R-WIRE).
        if theirs.protocol_version.major != PROTOCOL_VERSION.major {
            return Err(ClientError::Failed(format!(
                "the server uses protocol version {}, this client version {}; update the older one",
                theirs.protocol_version.major, PROTOCOL_VERSION.major
            )));
        }
        self.send_notification("initialized", &json!({})).await
    }

    /// Sends a request and waits for its answer. Notifications that arrive in the meantime are kept.
    ///
    /// # Errors
    ///
    /// If the server is gone, refuses, answers something unexpected, or takes longer than [`REQUEST_TIMEOUT`]. If the client
    /// is
    /// interruptible, also when a signal arrives first.
    pub(super) async fn request<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &P,
    ) -> Result<R, ClientError> {
        // Before the write, so that a Ctrl-C during the write is not lost.
        let mut signals = self
            .interruptible
            .then(Signals::install_handlers)
            .and_then(Result::ok);
        let id = self.start_request(method, params).await?;
        let response = tokio::select! { biased;
            response = clock::timeout(REQUEST_TIMEOUT, self.wait_for_response(id)) => response,
            // Second, so that an answer that is already there wins.
            action = next_signal(signals.as_mut()) => return Err(ClientError::Interrupted(action)),
        };
        let value = response.map_err(|_| ClientError::Timeout(method))??;
        serde_json::from_value(value).map_err(|error| ClientError::InvalidResponse { method, error })
    }

    async fn wait_for_response(&mut self, wanted: u64) -> Result<Value, ClientError> {
        loop {
            match self.read().await? {
                ServerMessage::Answer(id, result) if id == wanted => return result,
                other => self.pending_messages.push_back(other),
            }
        }
    }

    /// Reads the full text behind a reference to content that was cut for the wire.
    pub(super) async fn read_full_content(
        &mut self,
        session_id: &str,
        reference: &str,
    ) -> Result<String, ClientError> {
        let mut text = String::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            let params = ReadContentParams {
                session_id: session_id.to_owned(),
                reference: reference.to_owned(),
                offset: from,
                limit: Some(READ_CHUNK_BYTES),
            };
            let piece: ReadContentResult = self.request(method::READ_CONTENT, &params).await?;
            text.push_str(&piece.text);
            offset = piece.next_offset;
        }
        Ok(text)
    }

    /// Sends a request without waiting. Its answer arrives through [`Self::next`] under the returned id.
    pub(super) async fn start_request<P: Serialize>(
        &mut self,
        method: &'static str,
        params: &P,
    ) -> Result<u64, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        Ok(id)
    }

    /// Sends a notification.
    pub(super) async fn send_notification<P: Serialize>(
        &mut self,
        method: &'static str,
        params: &P,
    ) -> Result<(), ClientError> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await
    }

    /// Waits for the next message of the server. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<ServerMessage, ClientError> {
        match self.pending_messages.pop_front() {
            Some(message) => Ok(message),
            None => self.read().await,
        }
    }

    /// Removes the next notification that arrived during a request; `None` when there are no more.
    pub(super) fn pop_notification(&mut self) -> Option<Box<ServerNotification>> {
        loop {
            match self.pending_messages.pop_front()? {
                ServerMessage::Notification(notification) => return Some(notification),
                // The request that this answers has no waiter left, because its caller was interrupted or timed out.
                ServerMessage::Answer(..) => {}
            }
        }
    }

    /// Puts messages back that [`Self::next`] returned. They come again, before everything that arrived later.
    pub(super) fn give_back(&mut self, messages: impl IntoIterator<Item = ServerMessage>) {
        let later = std::mem::replace(&mut self.pending_messages, messages.into_iter().collect());
        self.pending_messages.extend(later);
    }

    /// Returns the server's process id, or `None` after its end.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Shuts the server down in order. Kills it if that takes longer than [`SHUTDOWN_TIMEOUT`].
    pub(super) async fn close(mut self) {
        let end = async {
            let _: Value = self.request("shutdown", &Value::Null).await?;
            self.send_notification("exit", &Value::Null).await?;
            drop(self.input);
            // Drain its output: a full pipe would block the server and delay its exit.
            while let Ok(Some(_)) = self.frames.read().await {}
            self.child.wait().await.map_err(ClientError::Start)
        };
        // The result is irrelevant: on a failure or timeout, dropping the client kills the child.
        let _ = clock::timeout(SHUTDOWN_TIMEOUT, end).await;
    }

    async fn send(&mut self, message: &Value) -> Result<(), ClientError> {
        let body = message.to_string();
        let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.unsent.extend_from_slice(frame.as_bytes());
        // A hanging server must not block this client. `read` writes later what the pipe does not accept now.
        let sent = clock::timeout(Duration::ZERO, async {
            while !self.unsent.is_empty() {
                write_some(&mut self.input, &mut self.unsent).await?;
            }
            Ok::<(), std::io::Error>(())
        });
        match sent.await {
            Ok(Err(_)) => Err(self.collect_exit_error().await),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    /// Reads the next message for a caller. Cancel-safe: partial frames stay in the reader.
    async fn read(&mut self) -> Result<ServerMessage, ClientError> {
        loop {
            let mut line = [0; 512];
            let item = tokio::select! { biased;
                item = self.frames.read() => item,
                // Read all the time: a full stderr pipe would block the server.
                read = read_some(self.stderr.as_mut(), &mut line) => {
                    self.record_stderr(read, &line);
                    continue;
                }
                written = write_some(&mut self.input, &mut self.unsent), if !self.unsent.is_empty() => {
                    if written.is_err() {
                        return Err(self.collect_exit_error().await);
                    }
                    continue;
                }
            };
            let body = match item {
                Ok(Some(FrameItem::Frame(body))) => body,
                // The decoder finds the next frame by itself.
                Ok(Some(FrameItem::Bad(_))) => continue,
                Ok(None) | Err(_) => return Err(self.collect_exit_error().await),
            };
            let Ok(mut message) = serde_json::from_slice::<Value>(&body) else {
                continue;
            };
            let method = message["method"].as_str().map(str::to_owned);
            match (message["id"].as_u64(), method) {
                (Some(id), None) => return Ok(ServerMessage::Answer(id, parse_result(message))),
                (None, Some(method)) => {
                    let params = message["params"].take();
                    // The protocol lets clients ignore notifications that they do not know.
                    if let Some(Ok(notification)) = ServerNotification::parse(&method, params) {
                        return Ok(ServerMessage::Notification(Box::new(notification)));
                    }
                }
                // This client announced no capability that permits requests, but each request still needs an answer.
                (_, Some(_)) if !message["id"].is_null() => {
                    let refusal = json!({"code": -32601, "message": "this client does not handle requests"});
                    let id = message["id"].take();
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "error": refusal}))
                        .await?;
                }
                _ => {}
            }
        }
    }

    fn record_stderr(&mut self, read: std::io::Result<usize>, line: &[u8]) {
        match read {
            Ok(n) if n > 0 => {
                self.stderr_tail.extend_from_slice(&line[..n]);
                let excess = self.stderr_tail.len().saturating_sub(MAX_STDERR_BYTES);
                self.stderr_tail.drain(..excess);
            }
            _ => self.stderr = None,
        }
    }

    /// Builds the error of a server that is gone, from its last stderr output or its exit status.
    async fn collect_exit_error(&mut self) -> ClientError {
        let mut rest = Vec::new();
        // Both waits have a limit: a server that closed its stdout may still be alive.
        if let Some(stderr) = self.stderr.take() {
            let mut stderr = stderr.take(MAX_STDERR_BYTES as u64);
            let _ = clock::timeout(Duration::from_millis(500), stderr.read_to_end(&mut rest)).await;
        }
        self.stderr_tail.extend(rest);
        let status = clock::timeout(Duration::from_millis(500), self.child.wait()).await;
        let output = String::from_utf8_lossy(&self.stderr_tail);
        let mut reason =
            text::strip_control_characters(output.trim().trim_start_matches("agentls: ")).into_owned();
        if reason.is_empty()
            && let Ok(Ok(status)) = status
        {
            reason = status.to_string();
        }
        ClientError::Ended(reason)
    }
}

/// Writes as much as the pipe accepts. Cancel-safe.
async fn write_some(input: &mut ChildStdin, unsent: &mut Vec<u8>) -> std::io::Result<()> {
    match input.write(unsent).await? {
        0 => Err(std::io::ErrorKind::WriteZero.into()),
        written => {
            unsent.drain(..written);
            Ok(())
        }
    }
}

async fn next_signal(signals: Option<&mut Signals>) -> SignalAction {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

async fn read_some(stderr: Option<&mut ChildStderr>, into: &mut [u8]) -> std::io::Result<usize> {
    match stderr {
        Some(stderr) => stderr.read(into).await,
        None => std::future::pending().await,
    }
}

fn parse_result(mut message: Value) -> Result<Value, ClientError> {
    let error = message["error"].take();
    if error.is_null() {
        return Ok(message["result"].take());
    }
    match serde_json::from_value::<ErrorData>(error["data"].clone()) {
        Ok(data) => Err(ClientError::Refused(Box::new(data))),
        Err(_) => Err(ClientError::Failed(translate_method_names(
            error["message"].as_str().unwrap_or("no reason given"),
        ))),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one child of this module: the server, started as an editor starts it"
)]
fn build_command(launch: &Launch) -> Result<Command, ClientError> {
    let program = if cfg!(target_os = "linux") {
        // Refers to the running program even if an update replaced its file.
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().map_err(ClientError::Start)?
    };
    let mut command = Command::new(program);
    command
        // Process lists would show `/proc/self/exe` otherwise.
        .arg0(env!("CARGO_PKG_NAME"))
        .args(&launch.args)
        .arg("serve")
        .current_dir(&launch.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Keeps a Ctrl-C at the terminal away from the server: this client cancels the turn, and the server continues.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(env) = &launch.env {
        command
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)));
    }
    Ok(command)
}
