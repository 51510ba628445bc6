//! What a user has seen of one session, over all lives of its servers, and what must therefore exist after each
//! kill. It knows nothing about how the work is scheduled.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use agentls::protocol::LoadSessionResult;
use serde_json::Value;

use super::Figures;
use crate::harness::{KilledOutput, Notification};

/// The most text that a kill may lose, by the time for which it was shown. The server stores partial text every 250 ms
/// (R-SESS-1). The test measures from the reading of a delta to just before the signal. The server's timer, its
/// commit and a busy machine therefore get another 250 ms. The test prints the greatest loss.
const LOSS: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Ledger {
    /// Durable events that were shown, in a page or as notifications.
    shown_events: BTreeMap<u64, (String, Value)>,
    /// Messages that were in progress in the last server life.
    open_messages: HashMap<String, ShownMessage>,
    /// Prompts and steers: the text, and whether the server certainly accepted it.
    inputs: BTreeMap<String, bool>,
    /// Approvals that were allowed or denied.
    decided: BTreeMap<String, Decision>,
    /// References to content that have not been read yet.
    refs: BTreeSet<String>,
}

#[derive(Default)]
struct Decision {
    tried: Vec<bool>,
    accepted: Option<bool>,
}

#[derive(Default)]
struct ShownMessage {
    text: ShownText,
    reasoning: ShownText,
}

#[derive(Default)]
struct ShownText {
    text: String,
    /// Time and length after each delta.
    grown: Vec<(Instant, usize)>,
}

impl ShownText {
    fn grow(&mut self, text: &str, at: Instant) {
        self.text.push_str(text);
        self.grown.push((at, self.text.len()));
    }

    /// Returns how long the first byte missing in `stored` had been shown at the kill; `None` if nothing is missing.
    fn lost(&self, stored: &str, killed: Instant) -> Option<Duration> {
        let (at, _) = self.grown.iter().find(|(_, length)| *length > stored.len())?;
        Some(killed.saturating_duration_since(*at))
    }
}

impl Ledger {
    pub(super) fn record_input(&mut self, input: &str) {
        self.inputs.insert(input.to_owned(), false);
    }

    pub(super) fn accepted(&mut self, input: &str) {
        self.inputs.insert(input.to_owned(), true);
    }

    pub(super) fn decides(&mut self, approval: &str, allow: bool) {
        self.decided
            .entry(approval.to_owned())
            .or_default()
            .tried
            .push(allow);
    }

    pub(super) fn decision_accepted(&mut self, approval: &str, allow: bool) {
        self.decided.entry(approval.to_owned()).or_default().accepted = Some(allow);
    }

    /// Returns whether the user has allowed a call that `of` accepts.
    pub(super) fn allowed(&self, of: impl Fn(&Value) -> bool) -> bool {
        let allowed = |id: &str| {
            self.decided
                .get(id)
                .is_some_and(|decided| decided.tried.contains(&true))
        };
        self.shown_events.values().any(|(method, params)| {
            let id = params["approvalId"].as_str().unwrap_or_default();
            method == "agent/approvalRequested" && of(params) && allowed(id)
        })
    }

    pub(super) fn has_input(&self, input: &str) -> bool {
        self.inputs.contains_key(input)
    }

    /// Returns the last `seq` that was shown.
    pub(super) fn last(&self) -> u64 {
        self.shown_events.keys().next_back().copied().unwrap_or(0)
    }

    /// Takes the references to read now.
    pub(super) fn take_refs(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.refs)
    }

    /// Records what a killed server had shown.
    pub(super) fn record_killed_output(
        &mut self,
        session: &str,
        killed_output: &KilledOutput,
        wrong: &mut Vec<String>,
    ) {
        self.open_messages.clear();
        for notification in killed_output
            .notes
            .iter()
            .filter(|notification| notification.text("sessionId") == session)
        {
            self.record_notification(notification, wrong);
        }
    }

    fn record_notification(&mut self, notification: &Notification, wrong: &mut Vec<String>) {
        if let Some(seq) = notification.params["seq"].as_u64() {
            return self.record_event(seq, &notification.method, &notification.params, wrong);
        }
        let message_id = || notification.text("messageId").to_owned();
        match notification.method.as_str() {
            "agent/textDelta" => {
                let shown_message = self.open_messages.entry(message_id()).or_default();
                shown_message
                    .text
                    .grow(notification.text("text"), notification.at);
            }
            "agent/reasoningDelta" => {
                let shown_message = self.open_messages.entry(message_id()).or_default();
                shown_message
                    .reasoning
                    .grow(notification.text("text"), notification.at);
            }
            _ => {}
        }
    }

    fn record_event(&mut self, seq: u64, method: &str, params: &Value, wrong: &mut Vec<String>) {
        if let Some(more) = params["more"].as_object() {
            let refs = more.values().filter_map(|more| more["ref"].as_str());
            self.refs.extend(refs.map(str::to_owned));
        }
        match self.shown_events.get(&seq) {
            None => {
                self.shown_events.insert(seq, (method.to_owned(), params.clone()));
            }
            Some((was, before)) if was != method || before != params => {
                wrong.push(format!("event {seq} was {was} {before} and is {method} {params}"));
            }
            Some(_) => {}
        }
    }

    /// Records a page, and checks that it contains every shown event of its range.
    pub(super) fn page(&mut self, loaded: &LoadSessionResult, wrong: &mut Vec<String>) {
        let seq_of = |event: &agentls::protocol::EventRecord| event.params["seq"].as_u64().unwrap_or(0);
        let page: BTreeSet<u64> = loaded.events.iter().map(seq_of).collect();
        if let (Some(first), Some(last)) = (page.first(), page.last()) {
            let missing: Vec<u64> = self
                .shown_events
                .range(first..=last)
                .map(|(seq, _)| *seq)
                .filter(|seq| !page.contains(seq))
                .collect();
            if !missing.is_empty() {
                wrong.push(format!("events {missing:?} were shown and are not in the page"));
            }
        }
        for event in &loaded.events {
            self.record_event(seq_of(event), &event.method, &event.params, wrong);
        }
    }

    /// Checks the first load of the session after a kill.
    pub(super) fn check(
        &mut self,
        loaded: &LoadSessionResult,
        killed: Instant,
        figures: &mut Figures,
        wrong: &mut Vec<String>,
    ) {
        if self.last() > loaded.seq {
            wrong.push(format!(
                "event {} was shown, the last is {}",
                self.last(),
                loaded.seq
            ));
        }
        let before = self.last();
        self.page(loaded, wrong);
        if !self.shown_events.keys().copied().eq(1..=loaded.seq) {
            let known: Vec<u64> = self.shown_events.keys().copied().collect();
            wrong.push(format!("seq is {}, known are {known:?}", loaded.seq));
        }
        if loaded.state.running_turn_id.is_some() {
            wrong.push("a running turn was never started".to_owned());
        }
        let cut_turns = self
            .shown_events
            .range(before + 1..)
            .filter(|(_, (method, params))| {
                method == "agent/turnEnded" && params["reason"] == "server_stopped"
            });
        figures.cut_turns += cut_turns.count();
        for (id, shown_message) in std::mem::take(&mut self.open_messages) {
            self.check_message(&id, &shown_message, killed, figures, wrong);
        }
        self.check_turns(loaded, wrong);
        self.check_delivered(wrong);
        self.check_decisions(loaded, wrong);
        figures.open_approvals += loaded.open_approvals.len();
    }

    fn check_message(
        &self,
        id: &str,
        shown_message: &ShownMessage,
        killed: Instant,
        figures: &mut Figures,
        wrong: &mut Vec<String>,
    ) {
        let of_it = |params: &Value| params["messageId"] == id;
        let mut retracted = self
            .shown_events
            .values()
            .filter(|(method, _)| method == "agent/messageRetracted");
        if retracted.any(|(_, params)| of_it(params)) {
            return;
        }
        let message = self
            .shown_events
            .values()
            .find(|(method, params)| method == "agent/message" && of_it(params))
            .map(|(_, params)| params);
        let incomplete = message.is_none_or(|message| message["incomplete"] == true);
        figures.incomplete += usize::from(message.is_some() && incomplete);
        for (kind, stream) in [
            ("text", &shown_message.text),
            ("reasoning", &shown_message.reasoning),
        ] {
            let stored = message.map(|message| joined(message, kind)).unwrap_or_default();
            if !stored.starts_with(&stream.text) && !stream.text.starts_with(&stored) {
                wrong.push(format!(
                    "the {kind} of message {id} is {stored:?}, shown was {:?}",
                    stream.text
                ));
            }
            let Some(lost) = stream.lost(&stored, killed) else {
                continue;
            };
            figures.lost = figures.lost.max(lost);
            if !incomplete || lost > LOSS {
                wrong.push(format!(
                    "of {} bytes of {kind} of message {id} {} are there, incomplete: {incomplete}; \
                     the next had been shown for {lost:?}",
                    stream.text.len(),
                    stored.len()
                ));
            }
        }
    }

    /// Checks that every turn has exactly one end with no later events, and that the usage adds up. Every call has
    /// exactly one result unless its approval is open.
    fn check_turns(&self, loaded: &LoadSessionResult, wrong: &mut Vec<String>) {
        let open: HashSet<&str> = loaded
            .open_approvals
            .iter()
            .map(|open| open.tool_call_id.as_str())
            .collect();
        let mut running: Option<&str> = None;
        let mut prompted = true;
        let mut ended_turns = HashSet::new();
        let mut messages = HashSet::new();
        let mut calls: BTreeMap<&str, bool> = BTreeMap::new();
        let mut spent = [0; 4];
        for (seq, (method, params)) in &self.shown_events {
            let text = |field: &str| params[field].as_str().unwrap_or_default();
            let turn = params["turnId"].as_str();
            let mut bad = |problem: &str| wrong.push(format!("event {seq}: {problem}: {method} {params}"));
            match method.as_str() {
                "agent/turnStarted" => {
                    if running.is_some() || ended_turns.contains(text("turnId")) {
                        bad("a turn begins in another or again");
                    }
                    running = turn;
                    prompted = params["resumes"].is_string();
                }
                _ if turn.is_some() && turn != running => bad("not of the running turn"),
                "agent/turnEnded" => {
                    if !prompted {
                        bad("a turn without its prompt");
                    }
                    running = None;
                    ended_turns.insert(text("turnId"));
                    for (sum, of) in spent.iter_mut().zip(tokens(&params["usage"])) {
                        *sum += of;
                    }
                }
                "agent/message" => {
                    prompted |= params["role"] == "user";
                    if !messages.insert(text("messageId")) {
                        bad("a message comes twice");
                    }
                    let blocks = params["content"].as_array().into_iter().flatten();
                    let blocks = blocks.filter(|block| block["type"] == "toolUse");
                    for id in blocks.filter_map(|block| block["toolCallId"].as_str()) {
                        calls.entry(id).or_insert(false);
                    }
                }
                "agent/toolCall" => {
                    let is_finished = params.get("output").is_some();
                    if calls.insert(text("toolCallId"), is_finished) == Some(true) {
                        bad("a tool call goes on after its result");
                    }
                }
                _ => {}
            }
        }
        if let Some(turn) = running {
            wrong.push(format!("turn {turn} has no end"));
        }
        let unfinished: Vec<_> = calls
            .iter()
            .filter(|(id, is_finished)| !**is_finished && !open.contains(**id))
            .collect();
        if !unfinished.is_empty() {
            wrong.push(format!("tool calls without a result: {unfinished:?}"));
        }
        let usage = serde_json::to_value(loaded.state.usage).expect("usage");
        if tokens(&usage) != spent {
            wrong.push(format!("the session has spent {usage}, its turns {spent:?}"));
        }
    }

    /// Checks I16: an accepted text is stored somewhere, and no text is stored twice.
    fn check_delivered(&self, wrong: &mut Vec<String>) {
        let mut found: HashMap<&str, usize> = HashMap::new();
        for (method, params) in self.shown_events.values() {
            let blocks: Vec<&Value> = match method.as_str() {
                "agent/message" if params["role"] == "user" => {
                    params["content"].as_array().into_iter().flatten().collect()
                }
                "agent/turnEnded" => {
                    let steers = params["unusedSteers"].as_array().into_iter().flatten();
                    steers.filter_map(Value::as_array).flatten().collect()
                }
                _ => continue,
            };
            for text in blocks.iter().filter_map(|block| block["text"].as_str()) {
                *found.entry(text).or_default() += 1;
            }
        }
        for (input, accepted) in &self.inputs {
            let times = found.get(input.as_str()).copied().unwrap_or(0);
            if times > 1 || *accepted && times == 0 {
                wrong.push(format!("{input:?} is there {times} times, accepted: {accepted}"));
            }
        }
    }

    fn check_decisions(&self, loaded: &LoadSessionResult, wrong: &mut Vec<String>) {
        let mut open = BTreeSet::new();
        let mut settled = BTreeMap::new();
        for (method, params) in self.shown_events.values() {
            let id = params["approvalId"].as_str().unwrap_or_default();
            match method.as_str() {
                "agent/approvalRequested" => {
                    open.insert(id);
                }
                "agent/approvalResolved" => {
                    open.remove(id);
                    settled.insert(id, (params["decision"] == "allow", params["by"] == "person"));
                }
                _ => {}
            }
        }
        let listed: BTreeSet<&str> = loaded
            .open_approvals
            .iter()
            .map(|open| open.approval_id.as_str())
            .collect();
        if listed != open {
            wrong.push(format!("open approvals are {listed:?}, they should be {open:?}"));
        }
        for (id, decided) in &self.decided {
            let Decision { tried, accepted } = decided;
            match settled.get(id.as_str()) {
                Some((decision, true))
                    if !tried.contains(decision) || accepted.is_some_and(|it| it != *decision) =>
                {
                    wrong.push(format!(
                        "{id} was answered with {tried:?}, {accepted:?}, and taken as {decision}"
                    ));
                }
                None if accepted.is_some() && !open.contains(id.as_str()) => {
                    wrong.push(format!("the answer to {id} is lost"));
                }
                _ => {}
            }
        }
    }
}

fn tokens(usage: &Value) -> [u64; 4] {
    [
        "inputTokens",
        "outputTokens",
        "cacheReadTokens",
        "cacheWriteTokens",
    ]
    .map(|field| usage[field].as_u64().unwrap_or(0))
}

/// Joins the texts of a message's blocks of one kind.
fn joined(message: &Value, kind: &str) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    let blocks = blocks.filter(|block| block["type"] == kind);
    blocks.filter_map(|block| block["text"].as_str()).collect()
}
