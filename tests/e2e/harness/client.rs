//! A typed client of a real server over real pipes.
//!
//! Dropping it shuts the server down and fails the test if anything was wrong: see [`Client::finish`].

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agentls::protocol::{LoadSessionResult, PromptResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::folders;
use super::inbox::{Answer, Id, Notification, RpcError, ServerRequest, Shared, State, read_all, report};
use super::world::{Options, World};
use super::{WAIT_LIMIT, now, pause};

/// A running server and its client.
pub struct Client {
    world: World,
    mark: String,
    stderr: PathBuf,
    is_frozen: bool,
    child: Mutex<Option<Child>>,
    pid: u32,
    stdin: Mutex<Option<ChildStdin>>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    next_id: Mutex<i64>,
    killed: Mutex<bool>,
}

/// Everything that a killed server had written.
pub struct KilledOutput {
    /// The time of the kill.
    pub at: Instant,
    pub notes: Vec<Arc<Notification>>,
    /// Answers that the test had not taken.
    pub answers: HashMap<Id, Answer>,
}

impl Client {
    /// Starts the binary.
    #[expect(clippy::disallowed_methods, reason = "the test plays the editor")]
    pub(super) fn launch(world: World, options: Options, mark: String, number: u32) -> Self {
        let stderr = world.path(&format!("stderr-{number}"));
        let errors = std::fs::File::create(&stderr).expect("a file for stderr");
        let (user, program) = if options.ordinary_user {
            world.give_to_ordinary_user()
        } else {
            (None, PathBuf::from(env!("CARGO_BIN_EXE_agentls")))
        };
        let mut command = Command::new(program);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command
            .args(&options.args)
            // The developer's own keys and proxies must not reach the server.
            .env_clear()
            .envs(world.env())
            .envs(options.env)
            .env("E2E_MARK", &mark)
            .env("AGENTLS_TEST_CLOCK", if options.frozen { "frozen" } else { "" })
            .current_dir(world.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the server starts");
        let shared = Arc::new(Shared::default());
        let stdout = child.stdout.take().expect("a pipe");
        let reader = {
            let shared = shared.clone();
            let secrets = [world.secrets(), &options.secrets].concat();
            std::thread::spawn(move || read_all(stdout, &shared, &secrets))
        };
        Self {
            world,
            mark,
            stderr,
            is_frozen: options.frozen,
            pid: child.id(),
            stdin: Mutex::new(child.stdin.take()),
            child: Mutex::new(Some(child)),
            shared,
            reader: Some(reader),
            next_id: Mutex::new(1),
            killed: Mutex::new(false),
        }
    }

    /// Sends `initialize` and `initialized`; returns the result of `initialize`.
    pub fn handshake(&self, process_id: Option<i64>) -> Value {
        let answer: Value = self.call("initialize", self.initialize_params(process_id));
        self.initialized();
        answer
    }

    /// Returns the params of `initialize` for this world.
    pub fn initialize_params(&self, process_id: Option<i64>) -> Value {
        json!({
            "processId": process_id,
            "clientInfo": {"name": "e2e"},
            "capabilities": {},
            "workspaceFolders": [{"uri": format!("file://{}", self.world.workspace().display()), "name": "work"}],
        })
    }

    /// Sends `initialized`; only after it may the server send notifications.
    pub fn initialized(&self) {
        // Before the write, since the reader thread may see the first notification right after it.
        self.shared.lock().checker.initialized = true;
        self.notify("initialized", json!({}));
    }

    // Sending.

    /// Writes raw bytes.
    pub fn raw(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = stdin.as_mut().expect("stdin is open");
        // If the server is gone, the missing answer shows it; the write error is not needed.
        let _ = pipe.write_all(bytes).and_then(|()| pipe.flush());
    }

    /// Writes a body in a frame.
    pub fn frame(&self, body: &[u8]) {
        self.raw(&framed(body));
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: impl Serialize) {
        self.frame(message(None, method, params).as_bytes());
    }

    /// Sends a request; the test must take its answer.
    pub fn send(&self, method: &str, params: impl Serialize) -> Id {
        let (id, frame) = self.request(method, params);
        self.raw(&frame);
        id
    }

    /// Prepares a request whose frame the caller writes.
    pub fn request(&self, method: &str, params: impl Serialize) -> (Id, Vec<u8>) {
        let number = {
            let mut next = self.next_id.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        let params = serde_json::to_value(params).expect("params");
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let id = self.expect_answer(&json!(number), method, &session);
        (id, framed(message(Some(number), method, params).as_bytes()))
    }

    /// Registers a request that the caller writes itself, so that its answer is expected.
    pub fn expect_answer(&self, id: &Value, method: &str, session: &str) -> Id {
        let id = Id(id.to_string());
        let request = (method.to_owned(), session.to_owned());
        // Registered before the frame is written: an answer that nobody expects is a violation.
        let mut state = self.shared.lock();
        state.checker.record_request(session, method);
        state.waiting.insert(id.clone(), request);
        drop(state);
        id
    }

    /// Waits for the server's next request, which must be `method`.
    pub fn server_asks(&self, method: &str) -> ServerRequest {
        let request = self.wait(&format!("the server's {method}"), |state| {
            state.requests.as_mut().and_then(VecDeque::pop_front)
        });
        assert_eq!(request.method, method, "{request:?}");
        request
    }

    /// Returns the number of server requests that the test has not taken.
    pub fn server_requests(&self) -> usize {
        self.shared.lock().requests.as_ref().map_or(0, VecDeque::len)
    }

    /// Allows the server to send requests; without it, a request is a violation.
    pub fn take_requests(&self) {
        self.shared.lock().requests = Some(VecDeque::new());
    }

    /// Waits for the server's cancel of its request.
    pub fn server_cancels(&self, request: &ServerRequest) {
        self.wait("the server's cancel", |state| {
            let cancels = state.notes.iter().filter(|note| note.method == "$/cancelRequest");
            cancels
                .map(|note| &note.params["id"])
                .find(|id| **id == request.id)
                .map(|_| ())
        });
    }

    /// Answers a request of the server.
    pub fn reply(&self, request: &ServerRequest, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request.id, "result": result});
        self.frame(answer.to_string().as_bytes());
    }

    /// Cancels a request.
    pub fn cancel_request(&self, id: &Id) {
        self.notify("$/cancelRequest", json!({"id": id.number()}));
    }

    /// Cancels what runs in a session.
    pub fn cancel(&self, session: &str) {
        self.notify("agent/cancel", json!({"sessionId": session}));
    }

    // Answers.

    /// Waits for the answer to a request.
    pub fn answer(&self, id: &Id) -> Answer {
        self.answer_at(id).0
    }

    /// Waits for the answer to a request, and returns the time of its arrival, too.
    pub fn answer_at(&self, id: &Id) -> (Answer, Instant) {
        self.wait(&format!("the answer to request {}", id.0), |state| {
            state.answers.remove(id)
        })
    }

    /// Sends a request and parses its result.
    pub fn call<R: DeserializeOwned>(&self, method: &str, params: impl Serialize) -> R {
        let id = self.send(method, params);
        match self.answer(&id) {
            Ok(result) => serde_json::from_value(result.clone())
                .unwrap_or_else(|error| panic!("the result of {method} does not parse: {error}: {result}")),
            Err(error) => panic!("{method} was refused: {error:?}"),
        }
    }

    /// Sends a request that must be refused.
    pub fn refused(&self, method: &str, params: impl Serialize) -> RpcError {
        let id = self.send(method, params);
        self.refusal(&id)
    }

    /// Waits for the refusal of a request.
    pub fn refusal(&self, id: &Id) -> RpcError {
        match self.answer(id) {
            Ok(result) => panic!("request {} should have been refused: {result}", id.0),
            Err(error) => error,
        }
    }

    /// Takes the answer to a request if it has arrived.
    pub fn take_answer(&self, id: &Id) -> Option<Answer> {
        self.shared.lock().answers.remove(id).map(|(answer, _)| answer)
    }

    /// Waits until there are more than `known` notifications, the server has ended, or `until` has passed. Returns the
    /// notifications beyond `known`.
    pub fn arrived(&self, known: usize, until: Instant) -> Vec<Arc<Notification>> {
        let mut state = self.shared.lock();
        loop {
            let remaining = until.saturating_duration_since(now());
            if state.notes.len() > known || state.ended || remaining.is_zero() {
                return state.notes.get(known..).unwrap_or_default().to_vec();
            }
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the next error with id null.
    pub fn null_error(&self) -> RpcError {
        self.wait("an error with id null", |state| state.nulls.pop_front())
    }

    /// Takes all errors with id null so far.
    pub fn take_null_errors(&self) -> Vec<RpcError> {
        self.shared.lock().nulls.drain(..).collect()
    }

    /// Asserts that the server still answers.
    pub fn ping(&self) {
        let tools: Value = self.call("agent/listTools", json!({}));
        assert!(tools["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
    }

    /// Moves the server's clock forward. Timers that are due then fire.
    ///
    /// A timer that starts later counts from the new time, so wait first for what shows that the timer runs.
    pub fn advance(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).expect("a time that fits");
        let _: Value = self.call("$/test/clock", json!({"advanceMs": ms}));
    }

    /// Stops the server's clock; only [`Client::advance`] moves it from now on.
    pub fn freeze(&self) {
        let _: Value = self.call("$/test/clock", json!({"freeze": true}));
    }

    /// Lets a stopped clock run again.
    pub fn thaw(&self) {
        let _: Value = self.call("$/test/clock", json!({"thaw": true}));
    }

    /// Waits until the server has processed everything that it received so far, and the notifications about it are
    /// here. A turn that a prompt started may go on.
    pub fn settled(&self) {
        let _: Value = self.call("$/test/settled", json!({}));
    }

    /// Ignores unexpected answers from now on, for requests in handwritten frames.
    pub fn tolerate_answers(&self) {
        self.shared.lock().tolerant = true;
    }

    /// Stops expecting the answer to a request.
    pub fn abandon(&self, id: Id) {
        self.shared.lock().waiting.remove(&id);
    }

    // Sessions and turns.

    /// Opens a session.
    pub fn session(&self) -> String {
        self.session_with(json!({}))
    }

    /// Opens a session with params.
    pub fn session_with(&self, params: Value) -> String {
        let created: Value = self.call("agent/newSession", params);
        created["sessionId"].as_str().expect("a session id").to_owned()
    }

    /// Loads a session.
    pub fn load(&self, session: &str) -> LoadSessionResult {
        self.call("agent/loadSession", json!({"sessionId": session}))
    }

    /// Sends a prompt.
    pub fn prompt(&self, session: &str, prompt: impl Into<Value>) -> Id {
        self.send(
            "agent/prompt",
            json!({"sessionId": session, "prompt": prompt.into()}),
        )
    }

    /// Sends a prompt and waits for the end of its turn.
    pub fn ask(&self, session: &str, prompt: impl Into<Value>) -> PromptResult {
        let id = self.prompt(session, prompt);
        self.prompt_result(&id)
    }

    /// Waits for the result of a prompt.
    pub fn prompt_result(&self, id: &Id) -> PromptResult {
        match self.answer(id) {
            Ok(result) => serde_json::from_value(result).expect("a prompt's result"),
            Err(error) => panic!("the prompt was refused: {error:?}"),
        }
    }

    /// Waits for the end of a turn whose request was canceled.
    pub fn cancelled(&self, id: &Id) -> PromptResult {
        let error = self.refusal(id);
        assert_eq!(error.code, -32800, "{error:?}");
        serde_json::from_value(error.data).expect("a prompt's result")
    }

    /// Waits for the next notification of `method` in a session that no earlier call has returned.
    pub fn next(&self, session: &str, method: &str) -> Arc<Notification> {
        self.next_matching(session, method, |_| true)
    }

    /// Like `next`, but skips notifications for which `is` returns false.
    pub fn next_matching(
        &self,
        session: &str,
        method: &str,
        is: impl Fn(&Notification) -> bool,
    ) -> Arc<Notification> {
        let key = (session.to_owned(), method.to_owned());
        self.wait(&format!("{method} of {session}"), |state| {
            let from = state.cursors.get(&key).copied().unwrap_or(0);
            let at = state.notes[from..].iter().position(|notification| {
                notification.method == method && notification.text("sessionId") == session && is(notification)
            });
            match at {
                Some(at) => {
                    state.cursors.insert(key.clone(), from + at + 1);
                    Some(state.notes[from + at].clone())
                }
                None => None,
            }
        })
    }

    /// Waits until a tool call has a status.
    pub fn tool_call(&self, session: &str, status: &str) -> Arc<Notification> {
        self.next_matching(session, "agent/toolCall", |notification| {
            notification.text("status") == status
        })
    }

    /// Waits for the next approval request.
    pub fn next_approval(&self, session: &str) -> Arc<Notification> {
        self.next(session, "agent/approvalRequested")
    }

    /// Decides an approval.
    pub fn decide(&self, approval: &Notification, decision: &str) {
        self.respond(json!({"approvalId": approval.text("approvalId"), "decision": decision}));
    }

    /// Decides an approval with all params of `agent/approvalRespond`.
    pub fn respond(&self, params: Value) {
        let _: Value = self.call("agent/approvalRespond", params);
    }

    /// Returns all notifications of a method in a session so far.
    pub fn all(&self, session: &str, method: &str) -> Vec<Arc<Notification>> {
        let state = self.shared.lock();
        let is = |notification: &&Arc<Notification>| {
            notification.method == method && notification.text("sessionId") == session
        };
        state.notes.iter().filter(is).cloned().collect()
    }

    /// Returns all notifications so far.
    pub fn notes(&self) -> Vec<Arc<Notification>> {
        self.shared.lock().notes.clone()
    }

    /// Returns the reasons of a session's transitions so far.
    pub fn reasons(&self, session: &str) -> Vec<String> {
        let transitions = self.all(session, "agent/transition");
        transitions
            .iter()
            .map(|notification| notification.text("reason").to_owned())
            .collect()
    }

    /// Returns the text of all deltas in a session so far, retracted or not.
    pub fn streamed_text(&self, session: &str) -> String {
        let deltas = self.all(session, "agent/textDelta");
        deltas
            .iter()
            .map(|notification| notification.text("text").to_owned())
            .collect()
    }

    // The pipe and the process.

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the number of processes of this server, including itself.
    pub fn processes(&self) -> usize {
        folders::marked_processes(&self.mark, self.pid).len()
    }

    /// Waits for the report of how commands are confined. The processes that try the sandbox have ended then.
    pub fn wait_for_sandbox(&self) {
        self.next_matching("", "agent/status", |status| !status.params["sandbox"].is_null());
    }

    /// Stops reading, after at most one more read.
    pub fn stop_reading(&self) {
        self.shared.lock().paused = true;
    }

    /// Resumes reading.
    pub fn resume_reading(&self) {
        self.shared.lock().paused = false;
        self.shared.changed.notify_all();
    }

    /// Closes the server's input.
    pub fn close_input(&self) {
        drop(self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("the signal is sent");
    }

    /// Kills the server; unanswered requests are no violation then.
    pub fn kill(self) {
        *self.killed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        if self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
        {
            self.signal(rustix::process::Signal::KILL);
        }
        drop(self);
    }

    /// Kills the server and reads everything it had written.
    pub fn killed(self) -> KilledOutput {
        let at = now();
        self.signal(rustix::process::Signal::KILL);
        *self.killed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wait_end();
        let mut state = self.shared.lock();
        let killed_output = KilledOutput {
            at,
            notes: state.notes.clone(),
            answers: state
                .answers
                .drain()
                .map(|(id, (answer, _))| (id, answer))
                .collect(),
        };
        drop(state);
        killed_output
    }

    fn wait_end(&self) {
        let mut state = self.shared.lock();
        while !state.ended {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the server exits on its own. Returns its exit code and the time since this call.
    pub fn wait_for_exit(&self) -> (Option<i32>, Duration) {
        let start = now();
        self.wait("the server's end", |state| state.ended.then_some(()));
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child
            .take()
            .expect("a running server")
            .wait()
            .expect("its status");
        (status.code(), start.elapsed())
    }

    /// Waits until the server's process is gone, even if its output has not been read.
    pub fn wait_until_gone(&self) {
        let deadline = now() + WAIT_LIMIT;
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let running = child.as_mut().expect("a running server");
        // The standard library cannot wait for a process with a timeout.
        while running.try_wait().expect("its status").is_none() {
            assert!(now() < deadline, "the server does not end");
            pause();
        }
        *child = None;
    }

    /// Waits until `found` returns something; panics with a report after [`WAIT_LIMIT`] or at the server's end.
    fn wait<T>(&self, description: &str, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        let deadline = now() + WAIT_LIMIT;
        let mut state = self.shared.lock();
        loop {
            if let Some(found) = found(&mut state) {
                return found;
            }
            let remaining = deadline.saturating_duration_since(now());
            // A server that has ended sends nothing more.
            if remaining.is_zero() || state.ended {
                let reason = if state.ended {
                    "the server ended"
                } else {
                    "timed out"
                };
                let report = report(&state);
                drop(state);
                panic!(
                    "waiting for {description}: {reason}\n{report}\nstderr: {}\nlog: {}",
                    self.stderr(),
                    self.log()
                );
            }
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns what the server wrote to stderr.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Returns the last 4,000 bytes of the log.
    pub fn log(&self) -> String {
        let files = folders::contents(&self.world.path("state"));
        let text: String = files
            .values()
            .map(|bytes| String::from_utf8_lossy(bytes))
            .collect();
        let start = text.ceil_char_boundary(text.len().saturating_sub(4000));
        text[start..].to_owned()
    }

    /// Shuts the server down unless it has ended, and returns all violations.
    fn finish(&mut self) -> Vec<String> {
        let killed = *self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wrong = Vec::new();
        self.resume_reading();
        // Without a running turn, the exit of the server must not change the workspace.
        let quiet = folders::contents(&self.world.workspace());
        let idle = self.shared.lock().checker.running() == 0;
        if !killed
            && self
                .child
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some()
        {
            self.end_in_order(&mut wrong);
        }
        if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take()
            && let Err(error) = child.wait()
        {
            wrong.push(format!("the server's status cannot be read: {error}"));
        }
        drop(self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let mut state = self.shared.lock();
        state.checker.end(killed);
        wrong.append(&mut state.checker.violations);
        if !killed {
            wrong.extend(
                state
                    .waiting
                    .iter()
                    .map(|(id, details)| format!("request {} ({details:?}) was not answered", id.0)),
            );
            wrong.extend(
                state
                    .answers
                    .iter()
                    .map(|(id, details)| format!("a test ignored the answer to {}: {details:?}", id.0)),
            );
            wrong.extend(
                state
                    .requests
                    .iter()
                    .flatten()
                    .map(|request| format!("a test ignored {request:?}")),
            );
            wrong.extend(
                state
                    .nulls
                    .iter()
                    .map(|error| format!("a test ignored {error:?}")),
            );
        }
        wrong.extend(self.survivors());
        if idle && !killed && folders::contents(&self.world.workspace()) != quiet {
            wrong.push("a file changed after the end".to_owned());
        }
        for folder in ["data", "state"] {
            wrong.extend(folders::leaks(&self.world.path(folder), self.world.secrets()));
        }
        if self.stderr().contains("panicked") {
            wrong.push(format!("stderr: {}", self.stderr()));
        }
        wrong
    }

    fn end_in_order(&self, wrong: &mut Vec<String>) {
        if self.is_frozen {
            // What the end waits for has limits.
            self.thaw();
        }
        let (id, frame) = self.request("shutdown", Value::Null);
        self.raw(&frame);
        self.raw(&framed(message(None, "exit", Value::Null).as_bytes()));
        self.close_input();
        let deadline = now() + WAIT_LIMIT;
        let mut state = self.shared.lock();
        while !state.ended && now() < deadline {
            let remaining = deadline.saturating_duration_since(now());
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.answers.remove(&id) {
            Some((Ok(_), _)) => {}
            other => wrong.push(format!("shutdown was answered with {other:?}")),
        }
        drop(state);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut child) = child.take() else { return };
        // A server may close its output and hang nevertheless.
        while now() < deadline && matches!(child.try_wait(), Ok(None)) {
            pause();
        }
        match child.try_wait() {
            Ok(Some(status)) if status.code() == Some(0) => return,
            Ok(None) => wrong.push(format!("the server did not end within {WAIT_LIMIT:?}")),
            status => wrong.push(format!("the server ended with {status:?}")),
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Returns processes that survived the server. Killed ones may take a moment to disappear.
    fn survivors(&self) -> Vec<String> {
        let deadline = now() + WAIT_LIMIT;
        loop {
            let remaining = folders::marked_processes(&self.mark, self.pid);
            if remaining.is_empty() {
                return Vec::new();
            }
            if now() >= deadline {
                return vec![format!("processes that survived: {remaining:?}")];
            }
            pause();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A second panic would abort the process and hide the first one.
        if std::thread::panicking() {
            if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ = child.kill();
                let _ = child.wait();
            }
            return;
        }
        let wrong = self.finish();
        assert!(
            wrong.is_empty(),
            "{} things were wrong:\n{}\n{}\nlog: {}",
            wrong.len(),
            wrong.join("\n"),
            report(&self.shared.lock()),
            self.log()
        );
    }
}

/// Puts a body into a frame.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    frame
}

fn message(id: Option<i64>, method: &str, params: impl Serialize) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    let params = serde_json::to_value(params).expect("params");
    if !params.is_null() {
        message["params"] = params;
    }
    message.to_string()
}
