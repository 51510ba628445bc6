//! Messages from a server: read on a separate thread, checked on arrival, and kept for the test.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::ChildStdout;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agentls::protocol::{LoadSessionResult, PromptResult};
use serde_json::Value;

use super::checker::Checker;
use super::folders;
use super::frames::Frames;
use super::now;

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub(super) String);

impl Id {
    /// Returns the id as a JSON value.
    pub fn number(&self) -> Value {
        serde_json::from_str(&self.0).expect("an id")
    }
}

/// A notification that arrived.
#[derive(Debug)]
pub struct Notification {
    pub method: String,
    pub params: Value,
    pub at: Instant,
}

impl Notification {
    /// Returns a string field of the params; empty if it is missing or not a string.
    pub fn text(&self, field: &str) -> &str {
        self.params[field].as_str().unwrap_or_default()
    }
}

/// A request of the server.
#[derive(Debug)]
pub struct ServerRequest {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

pub type Answer = Result<Value, RpcError>;

#[derive(Default)]
pub(super) struct State {
    pub(super) notes: Vec<Arc<Notification>>,
    pub(super) answers: HashMap<Id, (Answer, Instant)>,
    /// Errors with id null, in order of arrival.
    pub(super) nulls: VecDeque<RpcError>,
    /// Requests without an answer, with method and session.
    pub(super) waiting: HashMap<Id, (String, String)>,
    pub(super) checker: Checker,
    /// The index after the last notification that `next` returned, by session and method.
    pub(super) cursors: HashMap<(String, String), usize>,
    /// Unexpected answers are ignored.
    pub(super) tolerant: bool,
    /// Requests of the server, in order; `None` if it must not send any.
    pub(super) requests: Option<VecDeque<ServerRequest>>,
    /// The reader thread must not read.
    pub(super) paused: bool,
    pub(super) ended: bool,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Summarizes what has arrived, for a failed test.
pub(super) fn report(state: &State) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for notification in &state.notes {
        *counts.entry(&notification.method).or_default() += 1;
    }
    let last = state.notes.iter().rev().take(12).rev();
    let last: Vec<String> = last
        .map(|notification| {
            let mut line = format!("  {} {}", notification.method, notification.params);
            line.truncate(line.floor_char_boundary(400));
            line
        })
        .collect();
    let wrong = state.checker.violations.join("\n  ");
    format!(
        "waiting: {:?}\nseen: {counts:?}\nlast:\n{}\nwrong so far: {wrong}",
        state.waiting,
        last.join("\n")
    )
}

pub(super) fn read_all(mut stdout: ChildStdout, shared: &Shared, secrets: &[String]) {
    let mut frames = Frames::default();
    loop {
        let mut state = shared.lock();
        while state.paused {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Unlock first: the read blocks until the server writes, and tests look at the state meanwhile.
        drop(state);
        let more = frames.fill(&mut stdout).unwrap_or(false);
        let mut bodies = Vec::new();
        let broken = loop {
            match frames.next() {
                Ok(Some(body)) => bodies.push(body),
                Ok(None) => break None,
                Err(violation) => break Some(violation),
            }
        };
        let at = now();
        let leaked: Vec<String> = bodies
            .iter()
            .flat_map(|body| folders::holds(body, secrets))
            .collect();
        let parsed: Vec<(usize, Result<Value, _>)> = bodies
            .iter()
            .map(|body| (body.len(), serde_json::from_slice(body)))
            .collect();
        let mut state = shared.lock();
        let leaked = leaked
            .into_iter()
            .map(|secret| format!("{secret} was sent to the client"));
        state.checker.violations.extend(leaked);
        for (bytes, body) in parsed {
            match body {
                Ok(body) => state.take(body, bytes, at),
                Err(error) => state
                    .checker
                    .violations
                    .push(format!("a frame that is no JSON: {error}")),
            }
        }
        let stop = broken.is_some() || !more;
        if let Some(violation) = broken {
            state.checker.violations.push(violation);
        } else if !more && frames.incomplete_bytes() > 0 {
            let violation = format!(
                "{} bytes of a frame that was not finished",
                frames.incomplete_bytes()
            );
            state.checker.cut(violation);
        }
        state.ended |= !more;
        drop(state);
        shared.changed.notify_all();
        if stop {
            // Drain the pipe: a server that writes invalid frames must not block on it.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
            shared.lock().ended = true;
            shared.changed.notify_all();
            return;
        }
    }
}

impl State {
    fn take(&mut self, mut body: Value, bytes: usize, at: Instant) {
        if let Some(method) = body["method"].as_str() {
            let method = method.to_owned();
            let params = body["params"].take();
            if let Some(id) = body.get("id").cloned() {
                match &mut self.requests {
                    Some(requests) => requests.push_back(ServerRequest { id, method, params }),
                    None => self.checker.violations.push(format!("the server asks {method}")),
                }
                return;
            }
            let is_cancel = self.requests.is_some() && method == "$/cancelRequest";
            if is_cancel || self.checker.notification(&method, &params, bytes).is_some() {
                self.notes.push(Arc::new(Notification { method, params, at }));
            }
            return;
        }
        let answer = match (body.get("result"), body.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (None, Some(error)) => Err(RpcError {
                code: error["code"].as_i64().unwrap_or(0),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["data"].clone(),
            }),
            _ => {
                return self
                    .checker
                    .violations
                    .push(format!("neither question nor answer: {body}"));
            }
        };
        if let Err(error) = &answer {
            self.check_error(error);
        }
        if body["id"].is_null() {
            match answer {
                Err(error) => self.nulls.push_back(error),
                Ok(result) => self
                    .checker
                    .violations
                    .push(format!("a result with id null: {result}")),
            }
            return;
        }
        let id = Id(body["id"].to_string());
        let Some((method, session)) = self.waiting.remove(&id) else {
            if self.tolerant {
                return;
            }
            return self
                .checker
                .violations
                .push(format!("an unexpected or repeated answer: {body}"));
        };
        self.check_answer(&method, &session, &answer);
        self.answers.insert(id, (answer, at));
    }

    /// Checks that an error has the data of R-WIRE-6.
    fn check_error(&mut self, error: &RpcError) {
        let is = |field: &str| error.data[field].as_str().is_some_and(|text| !text.is_empty());
        let has_all = is("code") && is("message") && is("class");
        let cancelled = error.code == -32800 && is("reason") && is("state");
        if !(has_all || cancelled) || error.message.is_empty() {
            self.checker
                .violations
                .push(format!("an error without its data: {error:?}"));
        }
    }

    fn check_answer(&mut self, method: &str, session: &str, answer: &Answer) {
        let turn = match (method, answer) {
            ("agent/newSession", Ok(result)) => {
                let id = result["sessionId"].as_str().unwrap_or_default();
                return self
                    .checker
                    .created(id, result["seq"].as_u64().unwrap_or(u64::MAX));
            }
            ("agent/loadSession", Ok(result)) => {
                match serde_json::from_value::<LoadSessionResult>(result.clone()) {
                    Ok(result) => return self.checker.loaded(session, &result),
                    Err(error) => return self.checker.violations.push(format!("loadSession: {error}")),
                }
            }
            ("agent/prompt" | "agent/resumeTurn" | "agent/compact", Ok(result)) => result,
            ("agent/prompt" | "agent/resumeTurn" | "agent/compact", Err(error)) if error.code == -32800 => {
                &error.data
            }
            _ => return,
        };
        match serde_json::from_value::<PromptResult>(turn.clone()) {
            Ok(result) => self.checker.check_prompt_result(session, &result),
            Err(error) => self.checker.violations.push(format!("{method}: {error}: {turn}")),
        }
    }
}
