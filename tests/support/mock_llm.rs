//! A mock of the LLM APIs on 127.0.0.1: raw TCP, HTTP/1.1, real event formats, faults as scripted.
//!
//! Answers are scripted ([`Reply`]): pushed to a queue, pushed to a queue for requests that contain a marker, or
//! returned by a closure. Every request is recorded and checked (see `check`); a failed check fails the test when the
//! mock is dropped. The server runs on its own threads, so that it neither follows nor disturbs a test's paused clock.
//! All `wait_…` functions give up after 3 minutes of real time.
//!
//! [`MockLlm::in_process`] has no socket and no thread: it runs on the test's own runtime and follows a paused clock.
//!
//! In tests: `mod support;`. In benches: `#[path = "../tests/support/mock_llm.rs"] mod mock_llm;`.
//! Its modules may use `expect`: a mock that fails fails its test.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "each test crate and bench uses its own part of it"
)]
#![expect(clippy::disallowed_methods, reason = "the mock's clock is the real one")]

#[path = "mock_llm/check.rs"]
mod check;
#[path = "mock_llm/gemini.rs"]
mod gemini;
#[path = "mock_llm/in_process.rs"]
mod in_process;
#[path = "mock_llm/ollama.rs"]
mod ollama;
#[path = "mock_llm/render.rs"]
mod render;
#[path = "mock_llm/reply.rs"]
mod reply;
#[path = "mock_llm/responses.rs"]
mod responses;

pub use reply::{Cut, Gate, Reply};

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use reply::{Frame, PreludeStep};

/// The longest real time that a `wait_…` function waits.
const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// The longest time of a paused clock that a `wait_…` function waits: longer than any limit of a test.
const PAUSED_WAIT_LIMIT: Duration = Duration::from_secs(2 * 86_400);

/// The approximate size of the chunks of events sent at full speed, in bytes.
const BLOCK: usize = 16 * 1024;

/// The API that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    Anthropic,
    OpenAi,
    Responses,
    Gemini,
    Ollama,
}

impl Api {
    /// All APIs, in the order of `Prepared::frames`.
    pub const ALL: [Self; 5] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::Responses,
        Self::Gemini,
        Self::Ollama,
    ];
}

/// A request that the mock received.
#[derive(Debug)]
pub struct RecordedRequest {
    /// Its number, from 0.
    pub index: usize,
    pub api: Api,
    pub path: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The parsed body, without the notes about the environment.
    pub body: Value,
    environment_notes: Vec<String>,
    /// The body as received.
    pub raw: Bytes,
    /// The time at which it was complete.
    pub at: Instant,
    /// The number of its connection; requests with the same number share a kept-alive connection.
    pub connection: usize,
    accepted: AtomicU64,
    sent: Mutex<Vec<Instant>>,
    progress: watch::Sender<Progress>,
}

/// The progress of the answer to a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// When the first byte of the body was handed to the socket.
    pub first_byte: Option<Instant>,
    /// When the whole answer was sent.
    pub answered: Option<Instant>,
    /// When the connection was closed, by either side.
    pub closed: Option<Instant>,
    /// The peer closed the connection before the answer was complete.
    pub dropped: bool,
}

impl RecordedRequest {
    /// Returns the value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the progress of the answer.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Returns the number of body bytes that the socket has accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Returns the time at which each piece of the body was handed to the socket. A piece is one event, or a block of
    /// events sent at full speed.
    pub fn sent(&self) -> Vec<Instant> {
        self.sent.lock().expect("the times of an answer").clone()
    }

    /// Returns the messages of the request; in the Responses API, its items.
    pub fn messages(&self) -> &[Value] {
        self.body[messages_key(self.api)]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Returns the joined text blocks of the last message.
    pub fn last_text(&self) -> String {
        let last = self.messages().last();
        last.map(|message| texts_of(message).concat()).unwrap_or_default()
    }

    /// Returns the notes about the environment.
    pub fn environment_notes(&self) -> &[String] {
        &self.environment_notes
    }
}

fn texts_of(message: &Value) -> Vec<&str> {
    let content = match &message["parts"] {
        Value::Null => &message["content"],
        parts => parts,
    };
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Takes the messages that only tell the model about its environment out of a body.
fn take_environment_notes(api: Api, body: &mut Value) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(messages) = body.get_mut(messages_key(api)).and_then(Value::as_array_mut) {
        messages.retain(|message| match texts_of(message)[..] {
            [text] if text.starts_with("<environment>\nFrom agentls") => {
                notes.push(text.to_owned());
                false
            }
            _ => true,
        });
    }
    notes
}

/// Returns the key of a request's messages.
fn messages_key(api: Api) -> &'static str {
    match api {
        Api::Anthropic | Api::OpenAi | Api::Ollama => "messages",
        Api::Responses => "input",
        Api::Gemini => "contents",
    }
}

type Responder = Box<dyn FnMut(&RecordedRequest) -> Option<Reply> + Send>;

struct State {
    queue: VecDeque<Prepared>,
    marked: Vec<(String, VecDeque<Prepared>)>,
    responder: Option<Responder>,
    default: Option<Prepared>,
    requests: Vec<Arc<RecordedRequest>>,
    known: HashMap<String, Vec<check::Prefix>>,
    /// Signatures of reasoning that were sent, with the API and model that produced them.
    proofs: HashSet<(String, String)>,
    failures: Vec<String>,
    checked: bool,
    rewrites: bool,
    /// The last answer paused the turn, so the next request ends with that answer.
    paused: bool,
    /// The only key that may list models; `None` allows every key.
    right_key: Option<String>,
    /// The listed models, and the number of list requests.
    listed: Vec<String>,
    lists: usize,
    /// What Ollama and lists say about models, by name.
    shown: HashMap<String, Value>,
    served: HashMap<String, (u16, Value)>,
}

struct Shared {
    state: Mutex<State>,
    count: watch::Sender<usize>,
    connections: AtomicUsize,
    open: watch::Sender<usize>,
}

/// A reply with its renderings for all APIs, prepared in advance so that rendering costs no time later.
#[derive(Clone)]
struct Prepared {
    reply: Reply,
    frames: [Arc<[Frame]>; 5],
}

impl Prepared {
    fn new(reply: Reply) -> Self {
        Self {
            frames: Api::ALL.map(|api| reply.render(api).into()),
            reply,
        }
    }

    fn frames(&self, api: Api) -> Arc<[Frame]> {
        self.frames[api as usize].clone()
    }
}

/// The running mock. Dropping it stops it, and fails the test if a request was invalid.
pub struct MockLlm {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// `None` if it runs on the test's runtime.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                marked: Vec::new(),
                responder: None,
                default: Some(Prepared::new(Reply::text("ok"))),
                requests: Vec::new(),
                known: HashMap::new(),
                proofs: HashSet::new(),
                failures: Vec::new(),
                checked: true,
                rewrites: false,
                right_key: None,
                listed: vec!["mock-model".to_owned()],
                lists: 0,
                shown: HashMap::new(),
                served: HashMap::new(),
                paused: false,
            }),
            count: watch::channel(0).0,
            connections: AtomicUsize::new(0),
            open: watch::channel(0).0,
        })
    }
}

impl MockLlm {
    /// Starts a mock. It answers unscripted requests with a short text.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mock-llm")
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let address = listener.local_addr().expect("an address");
        let shared = Shared::new();
        runtime.spawn(accept(listener, shared.clone()));
        Self {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    /// Returns `http://127.0.0.1:PORT`, the `base_url` for kind `anthropic`.
    pub fn anthropic_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns `http://127.0.0.1:PORT/v1`, the `base_url` for the kinds `openai` and `openai-responses`.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns `http://127.0.0.1:PORT/v1beta`, the `base_url` for kind `gemini`.
    pub fn gemini_url(&self) -> String {
        format!("http://{}/v1beta", self.address)
    }

    /// Returns the `base_url` for an API.
    pub fn url_for(&self, api: Api) -> String {
        match api {
            Api::Anthropic => self.anthropic_url(),
            Api::OpenAi | Api::Responses => self.openai_url(),
            Api::Gemini => self.gemini_url(),
            // The address without a path.
            Api::Ollama => self.anthropic_url(),
        }
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scripts the answer to the next request that matches no marker.
    pub fn push(&self, reply: Reply) {
        let prepared = Prepared::new(reply);
        self.state().queue.push_back(prepared);
    }

    /// Scripts the answer to the next request whose body contains `marker` (a session's prompt, a model).
    pub fn push_for(&self, marker: &str, reply: Reply) {
        let prepared = Prepared::new(reply);
        let mut state = self.state();
        match state.marked.iter_mut().find(|(known, _)| known == marker) {
            Some((_, queue)) => queue.push_back(prepared),
            None => state.marked.push((marker.to_owned(), VecDeque::from([prepared]))),
        }
    }

    /// Asks `respond` first for every request; `None` falls through to the queues.
    pub fn respond_with(&self, respond: impl FnMut(&RecordedRequest) -> Option<Reply> + Send + 'static) {
        self.state().responder = Some(Box::new(respond));
    }

    /// Sets the answer to unscripted requests.
    pub fn default_reply(&self, reply: Reply) {
        let prepared = Prepared::new(reply);
        self.state().default = Some(prepared);
    }

    /// Makes an unscripted request a failure.
    pub fn refuse_unscripted(&self) {
        self.state().default = None;
    }

    /// Disables the checks of requests, for benches and for tests that send invalid requests.
    pub fn unchecked(&self) {
        self.state().checked = false;
    }

    /// Allows earlier messages to change from call to call (compaction without a summary).
    pub fn allow_rewrites(&self) {
        self.state().rewrites = true;
    }

    /// Sets the listed models.
    pub fn list_models(&self, names: &[&str]) {
        self.state().listed = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Sets what Ollama's API says about a model, and what lists contain besides its name.
    pub fn show_model(&self, name: &str, facts: Value) {
        self.state().shown.insert(name.to_owned(), facts);
    }

    /// Answers requests whose path ends so with a status and a body, in place of a list of models.
    pub fn serve_path(&self, path: &str, status: u16, body: Value) {
        self.state().served.insert(path.to_owned(), (status, body));
    }

    /// Returns the number of requests for the list of models.
    pub fn lists(&self) -> usize {
        self.state().lists
    }

    /// Lists models for this key only; other keys get a 401.
    pub fn list_for(&self, key: &str) {
        self.state().right_key = Some(key.to_owned());
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.state().requests.clone()
    }

    /// Waits for request number `index`, counting from 0.
    pub async fn request(&self, index: usize) -> Arc<RecordedRequest> {
        let shared = self.shared.clone();
        let name = format!("request {index}");
        self.wait(&name, async move {
            let _ = shared.count.subscribe().wait_for(|count| *count > index).await;
        })
        .await;
        self.state().requests[index].clone()
    }

    /// Waits until the connection of `request` is closed.
    pub async fn wait_closed(&self, request: &Arc<RecordedRequest>) -> Progress {
        self.wait_progress(request, "its connection's close", |progress| {
            progress.closed.is_some()
        })
        .await
    }

    /// Waits until the answer to `request` has been sent.
    pub async fn wait_answered(&self, request: &Arc<RecordedRequest>) -> Progress {
        self.wait_progress(request, "its answer", |progress| progress.answered.is_some())
            .await
    }

    /// Waits until `gate` is reached.
    pub async fn wait_gate(&self, gate: &Gate) {
        let gate = gate.clone();
        self.wait("a gate", async move { gate.reached().await }).await;
    }

    /// Waits until at most `n` connections are open.
    pub async fn wait_open(&self, n: usize) {
        let shared = self.shared.clone();
        self.wait("connections to close", async move {
            let _ = shared.open.subscribe().wait_for(|open| *open <= n).await;
        })
        .await;
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        *self.shared.open.borrow()
    }

    /// Returns the number of scripted answers that no request has used yet.
    pub fn pending(&self) -> usize {
        let state = self.state();
        state.queue.len() + state.marked.iter().map(|(_, queue)| queue.len()).sum::<usize>()
    }

    /// Takes the failures of requests so far, so that dropping the mock does not fail the test.
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.state().failures)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("the mock's state")
    }

    async fn wait_progress(
        &self,
        request: &Arc<RecordedRequest>,
        description: &str,
        is: fn(&Progress) -> bool,
    ) -> Progress {
        let watched = request.clone();
        self.wait(description, async move {
            let _ = watched.progress.subscribe().wait_for(is).await;
        })
        .await;
        request.progress()
    }

    /// Runs `event` on the mock's own runtime, whose clock is real, or on the test's.
    async fn wait(&self, description: &str, event: impl Future<Output = ()> + Send + 'static) {
        let (limit, done) = match &self.runtime {
            Some(runtime) => {
                let waiting = runtime.spawn(tokio::time::timeout(WAIT_LIMIT, event));
                (WAIT_LIMIT, waiting.await.expect("no panic"))
            }
            None => {
                let waiting = tokio::time::timeout(PAUSED_WAIT_LIMIT, event);
                (PAUSED_WAIT_LIMIT, waiting.await)
            }
        };
        assert!(done.is_ok(), "the mock has waited {limit:?} for {description}");
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let failures = self.take_failures();
        if !failures.is_empty() && !std::thread::panicking() {
            panic!("requests were not as they must be:\n{}", failures.join("\n"));
        }
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    let mut tasks = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::AcqRel);
        tasks.spawn(serve(stream, number, shared.clone()));
        while tasks.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let (read, write) = stream.into_split();
    serve_connection(read, write, number, shared).await;
}

async fn serve_connection(
    read: impl AsyncRead + Unpin,
    write: impl ServerWrite,
    number: usize,
    shared: Arc<Shared>,
) {
    shared.open.send_modify(|open| *open += 1);
    let mut connection = Connection {
        read,
        write,
        buffer: BytesMut::new(),
        number,
    };
    let mut connection_requests = Vec::new();
    while let Some(exchanged) = connection.exchange(&shared).await {
        let keeps_alive = exchanged.1;
        connection_requests.push(exchanged.0);
        if !keeps_alive {
            break;
        }
    }
    drop(connection);
    shared.open.send_modify(|open| *open -= 1);
    for request in connection_requests {
        request
            .progress
            .send_modify(|progress| progress.closed = Some(now()));
    }
}

/// The real time, or that of the test's paused clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Where an answer goes.
trait ServerWrite: AsyncWrite + Unpin {
    /// Makes the end of the connection look like a failure.
    fn reset(&mut self);
}

impl ServerWrite for OwnedWriteHalf {
    fn reset(&mut self) {
        // Without lingering, the close sends an RST instead of a FIN.
        let _ = self.as_ref().set_zero_linger();
    }
}

struct Connection<R, W> {
    read: R,
    write: W,
    buffer: BytesMut,
    number: usize,
}

/// Why an answer was not sent completely.
enum AnswerAborted {
    Peer,
    Ordered(Cut),
}

impl From<std::io::Error> for AnswerAborted {
    fn from(_: std::io::Error) -> Self {
        Self::Peer
    }
}

impl<R: AsyncRead + Unpin, W: ServerWrite> Connection<R, W> {
    /// Reads and answers a request. Returns it, and whether the connection stays open.
    async fn exchange(&mut self, shared: &Shared) -> Option<(Arc<RecordedRequest>, bool)> {
        let (path, headers, body) = read_request(&mut self.read, &mut self.buffer).await?;
        let api = match path.trim_end_matches('/') {
            path if path.ends_with("/messages") => Api::Anthropic,
            path if path.ends_with("/chat/completions") => Api::OpenAi,
            path if path.ends_with("/responses") => Api::Responses,
            path if path.ends_with("/api/chat") => Api::Ollama,
            path if path.ends_with("/api/show") => {
                let named: Value = serde_json::from_slice(&body).unwrap_or_default();
                let shown = {
                    let state = shared.state.lock().expect("the mock's state");
                    state
                        .shown
                        .get(named["model"].as_str().unwrap_or_default())
                        .cloned()
                };
                let body = shown
                    .unwrap_or_else(|| json!({"error": "model not found"}))
                    .to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let answer = [head.as_bytes(), body.as_bytes()].concat();
                self.write.write_all(&answer).await.ok()?;
                return Box::pin(self.exchange(shared)).await;
            }
            path if gemini::model_in(path).is_some() => Api::Gemini,
            _ => {
                let (right, listed, shown, served) = {
                    let mut state = shared.state.lock().expect("the mock's state");
                    state.lists += 1;
                    let mut served = state.served.iter();
                    let served = served
                        .find(|(end, _)| path.ends_with(*end))
                        .map(|(_, served)| served.clone());
                    (
                        state.right_key.clone(),
                        state.listed.clone(),
                        state.shown.clone(),
                        served,
                    )
                };
                let entry = |key: &str, name: &String| {
                    let mut entry = shown.get(name).cloned().unwrap_or_else(|| json!({}));
                    entry[key] = json!(name);
                    if !path.ends_with("/api/v0/models") {
                        // Only LM Studio's own API says it.
                        entry["loaded_context_length"] = Value::Null;
                    }
                    entry
                };
                let entries = |key: &str| -> Value { listed.iter().map(|name| entry(key, name)).collect() };
                let given_key = headers
                    .iter()
                    .find(|(name, _)| {
                        ["x-api-key", "x-goog-api-key", "authorization"].contains(&name.as_str())
                    })
                    .map(|(_, value)| value.trim_start_matches("Bearer "));
                let (status, body) = if right.is_none_or(|right| given_key == Some(right.as_str())) {
                    (
                        "200 OK",
                        json!({"data": entries("id"), "models": entries("name")}).to_string(),
                    )
                } else {
                    (
                        "401 Unauthorized",
                        json!({"type": "error", "error": {
                            "type": "authentication_error",
                            "message": format!("invalid x-api-key: {}", given_key.unwrap_or_default()),
                        }})
                        .to_string(),
                    )
                };
                let (status, body) = match served {
                    Some((status, served)) => (format!("{status} X"), served.to_string()),
                    None => (status.to_owned(), body),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                self.write
                    .write_all(&[head.as_bytes(), body.as_bytes()].concat())
                    .await
                    .ok()?;
                // A list of models is not part of the script, so continue with the next request.
                return Box::pin(self.exchange(shared)).await;
            }
        };
        let (request, prepared) = record(shared, api, path, headers, body, self.number);
        let reply = prepared.reply.clone();
        let mut stray = [0; 1];
        let done = tokio::select! {
            biased;
            done = answer(&mut self.write, &prepared, &request) => done,
            // A byte here would be pipelining, which our clients never do: treat it as a disconnect.
            _ = self.read.read(&mut stray) => Err(AnswerAborted::Peer),
        };
        match done {
            Ok(()) => {
                request
                    .progress
                    .send_modify(|progress| progress.answered = Some(now()));
                let close = reply.headers.iter().any(|(name, value)| {
                    name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
                });
                Some((request, !close))
            }
            Err(AnswerAborted::Peer) => {
                request.progress.send_modify(|progress| progress.dropped = true);
                Some((request, false))
            }
            Err(AnswerAborted::Ordered(cut)) => {
                if cut == Cut::Reset {
                    self.write.reset();
                }
                Some((request, false))
            }
        }
    }
}

fn record(
    shared: &Shared,
    api: Api,
    path: String,
    headers: Vec<(String, String)>,
    raw: Bytes,
    connection: usize,
) -> (Arc<RecordedRequest>, Prepared) {
    let mut state = shared.state.lock().expect("the mock's state");
    let (mut body, mut wrong) = if state.checked {
        check::request(api, &raw, state.paused)
    } else {
        (serde_json::from_slice(&raw).unwrap_or(Value::Null), Vec::new())
    };
    // This API has the model in the path.
    let mut model_mark = String::new();
    if let (Api::Gemini, Some(model)) = (api, gemini::model_in(&path)) {
        body["model"] = json!(model);
        model_mark = format!("\"{model}\"");
    }
    let text = std::str::from_utf8(&raw).unwrap_or_default();
    if state.checked && !state.rewrites {
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        wrong.extend(check::prefix(
            &mut state.known,
            &model,
            check::raw_prefix(api, text),
        ));
    }
    if state.checked {
        wrong.extend(check::foreign_proofs(api, &body, &state.proofs));
    }
    let environment_notes = take_environment_notes(api, &mut body);
    let index = state.requests.len();
    let recorded = Arc::new(RecordedRequest {
        index,
        api,
        path,
        headers,
        body,
        environment_notes,
        raw: raw.clone(),
        at: now(),
        connection,
        accepted: AtomicU64::new(0),
        sent: Mutex::new(Vec::new()),
        progress: watch::channel(Progress::default()).0,
    });
    if state.checked {
        let key = match api {
            Api::Anthropic => "x-api-key",
            Api::Gemini => "x-goog-api-key",
            Api::OpenAi | Api::Responses | Api::Ollama => "authorization",
        };
        if api == Api::Anthropic && recorded.header("anthropic-version").is_none() {
            wrong.push("no anthropic-version".to_owned());
        }
        if recorded.header(key).is_none_or(str::is_empty) {
            wrong.push(format!("no {key} header"));
        }
        if recorded.header("content-type") != Some("application/json")
            || recorded.header("content-length").is_none()
        {
            wrong.push("content-type or content-length is not as it must be".to_owned());
        }
    }
    state.failures.extend(
        wrong
            .into_iter()
            .map(|violation| format!("request {index}: {violation}")),
    );
    let prepared = choose(&mut state, &recorded, &(model_mark + text));
    state.paused = prepared.reply.stop.as_deref() == Some("pause_turn");
    let model = recorded.body["model"].as_str().unwrap_or_default();
    // Chat Completions has no signatures, and those of Gemini are checked as such.
    if matches!(api, Api::Anthropic | Api::Responses) {
        let proofs = prepared.reply.proofs();
        state
            .proofs
            .extend(proofs.map(|proof| (format!("{api:?} {model}"), proof.to_owned())));
    }
    state.requests.push(recorded.clone());
    shared.count.send_replace(index + 1);
    (recorded, prepared)
}

fn choose(state: &mut State, request: &RecordedRequest, text: &str) -> Prepared {
    let scripted = state.responder.as_mut().and_then(|respond| respond(request));
    if let Some(reply) = scripted {
        return Prepared::new(reply);
    }
    let marked = state
        .marked
        .iter_mut()
        .find(|(marker, queue)| !queue.is_empty() && text.contains(marker.as_str()));
    if let Some(prepared) = marked.and_then(|(_, queue)| queue.pop_front()) {
        return prepared;
    }
    if let Some(prepared) = state.queue.pop_front() {
        return prepared;
    }
    if let Some(prepared) = state.default.clone() {
        return prepared;
    }
    state
        .failures
        .push(format!("request {}: nothing is scripted for it", request.index));
    Prepared::new(Reply::error(500, "mock_error", "nothing is scripted"))
}

async fn answer<W: ServerWrite>(
    write: &mut W,
    prepared: &Prepared,
    request: &RecordedRequest,
) -> Result<(), AnswerAborted> {
    let reply = &prepared.reply;
    for before in &reply.before {
        match before {
            PreludeStep::Delay(wait) => tokio::time::sleep(*wait).await,
            PreludeStep::Gate(gate) => gate.pass().await,
            PreludeStep::Stall => std::future::pending().await,
            PreludeStep::Cut(cut) => return Err(AnswerAborted::Ordered(*cut)),
        }
    }
    let mut head = format!("HTTP/1.1 {} Mock\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    for (name, value) in &reply.late_headers {
        head.push_str(&format!("{name}: {}\r\n", value()));
    }
    if let Some(body) = &reply.body {
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut out = BytesMut::from(head.as_bytes());
        out.extend_from_slice(body);
        write_all(write, out.freeze(), reply.drip).await?;
        return Ok(());
    }
    let typed = reply
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed {
        let kind = if request.api == Api::Ollama {
            "application/x-ndjson"
        } else {
            "text/event-stream; charset=utf-8"
        };
        head.push_str(&format!("content-type: {kind}\r\n"));
    }
    head.push_str("request-id: req_mock\r\ntransfer-encoding: chunked\r\n\r\n");
    if reply.headless {
        head = format!("HTTP/1.1 {} Mock\r\n\r\n", reply.status);
    }
    write.write_all(head.as_bytes()).await?;
    let mut body = Body {
        write,
        request,
        block: BytesMut::new(),
        drip: reply.drip,
        chunked: !reply.headless,
    };
    for frame in prepared.frames(request.api).iter() {
        body.send(frame, reply.every).await?;
    }
    body.flush().await?;
    if reply.headless {
        return Err(AnswerAborted::Ordered(Cut::Close));
    }
    body.write.write_all(b"0\r\n\r\n").await?;
    Ok(())
}

/// A chunked body that gathers events into blocks until a delay, gate or cut separates them.
struct Body<'a, W> {
    write: &'a mut W,
    request: &'a RecordedRequest,
    block: BytesMut,
    drip: Option<usize>,
    chunked: bool,
}

impl<W: ServerWrite> Body<'_, W> {
    async fn send(&mut self, frame: &Frame, every: Option<Duration>) -> Result<(), AnswerAborted> {
        match frame {
            Frame::Event { bytes, times } => {
                for _ in 0..*times {
                    self.block.extend_from_slice(bytes);
                    if every.is_some() || self.block.len() >= BLOCK {
                        self.flush().await?;
                    }
                    if let Some(wait) = every {
                        tokio::time::sleep(wait).await;
                    }
                }
                return Ok(());
            }
            _ => self.flush().await?,
        }
        match frame {
            Frame::Delay(wait) => tokio::time::sleep(*wait).await,
            Frame::Gate(gate) => gate.pass().await,
            Frame::Stall => std::future::pending().await,
            Frame::Cut(cut) => return Err(AnswerAborted::Ordered(*cut)),
            Frame::Event { .. } => {}
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), AnswerAborted> {
        if self.block.is_empty() {
            return Ok(());
        }
        let bytes = self.block.len();
        let mut chunk = BytesMut::with_capacity(bytes + 16);
        if self.chunked {
            chunk.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
        }
        chunk.extend_from_slice(&self.block);
        if self.chunked {
            chunk.extend_from_slice(b"\r\n");
        }
        self.block.clear();
        if self.request.progress.borrow().first_byte.is_none() {
            self.request
                .progress
                .send_modify(|progress| progress.first_byte = Some(now()));
        }
        self.request
            .sent
            .lock()
            .expect("the times of an answer")
            .push(now());
        write_all(self.write, chunk.freeze(), self.drip).await?;
        self.request.accepted.fetch_add(bytes as u64, Ordering::AcqRel);
        Ok(())
    }
}

async fn write_all(
    write: &mut (impl AsyncWrite + Unpin),
    mut bytes: Bytes,
    drip: Option<usize>,
) -> std::io::Result<()> {
    let Some(step) = drip else {
        return write.write_all(&bytes).await;
    };
    while !bytes.is_empty() {
        let piece = bytes.split_to(step.min(bytes.len()));
        write.write_all(&piece).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

type Head = (String, Vec<(String, String)>, Bytes);

async fn read_request(read: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Option<Head> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if read.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.advance(end + 4);
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    buffer.reserve(length.saturating_sub(buffer.len()));
    while buffer.len() < length {
        if read.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    Some((path, headers, buffer.split_to(length).freeze()))
}
