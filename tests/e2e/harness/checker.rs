//! Checks the invariants of architecture §7, as far as one client can see them, on every message that arrives.
//!
//! It collects violations and never panics; the client reports them when it is dropped.

use std::collections::{HashMap, HashSet};

use agentls::protocol::table::{self, MessageKind};
use agentls::protocol::{
    LoadSessionResult, MAX_NOTIFICATION, MessageBlock, MessageNotification, PromptResult, Role,
    ServerNotification, TerminalReason, ToolCallNotification, ToolCallStatus, TurnAsker,
    TurnEndedNotification,
};
use serde_json::Value;

/// What one client has seen, and the violations in it.
#[derive(Default)]
pub struct Checker {
    /// Whether the client has sent `initialized`.
    pub initialized: bool,
    pub violations: Vec<String>,
    sessions: HashMap<String, SessionView>,
    cut: Option<String>,
}

#[derive(Default)]
struct SessionView {
    /// The last `seq` seen.
    seq: Option<u64>,
    /// Durable events that came as notifications, by `seq`.
    notified: HashMap<u64, (String, Value)>,
    /// The `seq` of every durable event that came in a page.
    paged: HashSet<u64>,
    /// The client has sent a request other than a load: its events may arrive before a page that contains them, too.
    has_sent_request: bool,
    /// Created over this connection, so that the client has seen all of it.
    is_complete: bool,
    running: Option<String>,
    turn_ends: HashMap<String, TurnEndedNotification>,
    /// Messages in progress.
    open: HashMap<String, MessageProgress>,
    /// Messages that were completed or retracted.
    closed: HashSet<String>,
    /// The answer so far, by turn: the last message and the messages that it continues.
    answers: HashMap<String, String>,
    /// The next message of the turn continues its answer.
    continues: bool,
    calls: HashMap<String, ToolCallStatus>,
    /// Tool calls whose input was shown but whose message has not come yet: call id to message id.
    started_calls: HashMap<String, String>,
    /// Tool calls whose input was shown, but which their message does not contain.
    stray_calls: HashSet<String>,
    /// Open approvals, limits and questions.
    approvals: HashSet<String>,
    settled: HashSet<String>,
}

#[derive(Default)]
struct MessageProgress {
    text: String,
    reasoning: String,
}

impl Checker {
    fn wrong(&mut self, violation: impl Into<String>) {
        self.violations.push(violation.into());
    }

    /// Records a session that was created over this connection.
    pub fn created(&mut self, session: &str, seq: u64) {
        let view = self.sessions.entry(session.to_owned()).or_default();
        view.seq = Some(seq);
        view.is_complete = true;
        view.has_sent_request = true;
    }

    /// Records a request that names a session.
    pub fn record_request(&mut self, session: &str, method: &str) {
        if !session.is_empty() && method != "agent/loadSession" {
            self.sessions
                .entry(session.to_owned())
                .or_default()
                .has_sent_request = true;
        }
    }

    /// Checks the result of a load.
    pub fn loaded(&mut self, session: &str, result: &LoadSessionResult) {
        let seqs: Vec<u64> = result
            .events
            .iter()
            .filter_map(|event| event.params["seq"].as_u64())
            .collect();
        if seqs.len() != result.events.len() || seqs.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            self.wrong(format!("{session}: a page with numbers {seqs:?}"));
        }
        if seqs.last().is_some_and(|last| *last > result.seq) {
            self.wrong(format!("{session}: a page beyond seq {}: {seqs:?}", result.seq));
        }
        let view = self.sessions.entry(session.to_owned()).or_default();
        let mut wrong = Vec::new();
        view.page(result, &mut wrong);
        let wrong = wrong.into_iter().map(|message| format!("{session}: {message}"));
        self.violations.extend(wrong);
        match view.seq {
            // The page contains all unseen events: they repaired a session that was only viewed before.
            Some(last_seq)
                if last_seq < result.seq
                    && (last_seq + 1..=result.seq).all(|seq| view.paged.contains(&seq)) =>
            {
                view.seq = Some(result.seq);
            }
            Some(last_seq) if last_seq < result.seq => {
                let violation = format!("{session}: loaded at seq {}, seen was {last_seq}", result.seq);
                self.violations.push(violation);
                return;
            }
            // The client has already seen newer events.
            Some(_) => {}
            None => {
                view.seq = Some(result.seq);
                view.running.clone_from(&result.state.running_turn_id);
            }
        }
        let open = result.open_approvals.iter().map(|open| open.approval_id.clone());
        let open = open.chain(result.open_limits.iter().map(|open| open.limit_id.clone()));
        let open = open.chain(result.open_questions.iter().map(|open| open.question_id.clone()));
        let open: Vec<String> = open.filter(|id| !view.settled.contains(id)).collect();
        view.approvals.extend(open);
        let Some(partial) = &result.partial else { return };
        if view.closed.contains(&partial.message_id) {
            return;
        }
        match view.open.get(&partial.message_id) {
            Some(progress_shown) if !progress_shown.text.starts_with(&partial.text) => {
                let violation = format!("{session}: the partial text is not what was shown");
                self.violations.push(violation);
            }
            Some(_) => {}
            None => {
                let progress = MessageProgress {
                    text: partial.text.clone(),
                    reasoning: partial.reasoning.clone(),
                };
                view.open.insert(partial.message_id.clone(), progress);
            }
        }
    }

    /// Checks a notification. Returns `None` if it is unknown or does not parse.
    pub fn notification(&mut self, method: &str, params: &Value, bytes: usize) -> Option<ServerNotification> {
        if method.starts_with("agent/") && !self.initialized {
            self.wrong(format!("{method} before initialized"));
        }
        if bytes > MAX_NOTIFICATION {
            self.wrong(format!("{method} of {bytes} bytes"));
        }
        let typed = match ServerNotification::parse(method, params.clone()) {
            Some(Ok(typed)) => typed,
            Some(Err(error)) => {
                self.wrong(format!("{method} does not parse: {error}: {params}"));
                return None;
            }
            None => {
                self.wrong(format!("an unknown notification {method}"));
                return None;
            }
        };
        if serde_json::to_value(&typed).ok().as_ref() != Some(params) {
            self.wrong(format!("{method} has more than its type: {params}"));
        }
        let durable = table::SERVER_NOTIFICATIONS
            .iter()
            .any(|entry| entry.method == method && entry.kind == MessageKind::Durable);
        match params["sessionId"].as_str() {
            Some(session) => {
                let mut wrong = Vec::new();
                let view = self.sessions.entry(session.to_owned()).or_default();
                view.check_event(durable, method, params, &typed, &mut wrong);
                let wrong = wrong.into_iter().map(|message| format!("{session}: {message}"));
                self.violations.extend(wrong);
            }
            None if matches!(
                method,
                "agent/status" | "agent/warning" | "agent/mcpServerUpdated"
            ) => {}
            None => self.wrong(format!("{method} without a session")),
        }
        Some(typed)
    }

    /// Checks the answer to a prompt, resume or compaction; a canceled one is the data of a -32800 error.
    pub fn check_prompt_result(&mut self, session: &str, result: &PromptResult) {
        let view = self.sessions.entry(session.to_owned()).or_default();
        let turn = &result.turn_id;
        let Some(end) = view.turn_ends.get(turn) else {
            return self.wrong(format!("{session}: turn {turn} is answered before its end"));
        };
        let same = end.reason == result.reason && end.state == result.state && end.usage == result.usage;
        let answer = view.answers.get(turn).cloned().unwrap_or_default();
        if !same || end.cost_usd != result.cost_usd || end.error != result.error {
            self.wrong(format!(
                "{session}: turn {turn} is answered otherwise than it ended"
            ));
        }
        if view_complete(&self.sessions, session) && answer != result.text {
            self.wrong(format!(
                "{session}: turn {turn} is answered with a text of {} bytes, but {} were streamed",
                result.text.len(),
                answer.len()
            ));
        }
    }

    /// Returns the number of sessions with a running turn.
    pub fn running(&self) -> usize {
        self.sessions
            .values()
            .filter(|view| view.running.is_some())
            .count()
    }

    /// Records that the stream ended within a frame, which only a kill may cause.
    pub fn cut(&mut self, reason: String) {
        self.cut = Some(reason);
    }

    /// Checks the end of the server; after a kill, open turns are fine.
    pub fn end(&mut self, killed: bool) {
        if killed {
            return;
        }
        self.violations.extend(self.cut.take());
        let open: Vec<String> = self
            .sessions
            .iter()
            .filter_map(|(session, view)| {
                Some(format!("{session}: turn {} has no end", view.running.as_ref()?))
            })
            .collect();
        self.violations.extend(open);
    }
}

fn view_complete(sessions: &HashMap<String, SessionView>, session: &str) -> bool {
    sessions.get(session).is_some_and(|view| view.is_complete)
}

impl SessionView {
    /// Checks a page: its events were not sent before, unless the client already had the session; then they are equal.
    fn page(&mut self, result: &LoadSessionResult, wrong: &mut Vec<String>) {
        let known = self.has_sent_request || !self.paged.is_empty();
        for event in &result.events {
            let seq = event.params["seq"].as_u64().unwrap_or(0);
            self.paged.insert(seq);
            // A turn that a read-only load found unfinished has been repaired since.
            match (event.method.as_str(), event.params["turnId"].as_str()) {
                ("agent/turnEnded", turn) if turn == self.running.as_deref() => self.running = None,
                ("agent/message", _) => {
                    let id = event.params["messageId"].as_str().unwrap_or_default();
                    self.open.remove(id);
                }
                _ => {}
            }
            match self.notified.get(&seq) {
                Some(_) if !known => {
                    wrong.push(format!(
                        "{} with seq {seq} is sent and also in the page",
                        event.method
                    ));
                }
                Some((method, params)) if *method != event.method || *params != event.params => {
                    wrong.push(format!(
                        "{method} with seq {seq} is another in the page: {params} {event:?}"
                    ));
                }
                _ => {}
            }
        }
    }

    fn check_event(
        &mut self,
        durable: bool,
        method: &str,
        params: &Value,
        typed: &ServerNotification,
        wrong: &mut Vec<String>,
    ) {
        if durable {
            let seq = params["seq"].as_u64().unwrap_or(0);
            if let Some(last) = self.seq
                && seq != last + 1
            {
                wrong.push(format!("{method} has seq {seq} after {last}"));
            }
            if self.paged.contains(&seq) {
                wrong.push(format!(
                    "{method} with seq {seq} stood in a page and is sent again"
                ));
            }
            self.notified.insert(seq, (method.to_owned(), params.clone()));
            self.seq = Some(seq);
        }
        let turn = params["turnId"].as_str();
        if let Some(turn) = turn {
            if self.turn_ends.contains_key(turn) {
                wrong.push(format!("{method} of turn {turn} after its end"));
            }
            let begins = method == "agent/turnStarted";
            match &self.running {
                Some(running) if running != turn => {
                    wrong.push(format!("{method} of turn {turn} while {running} runs"));
                }
                None if self.is_complete && !begins => {
                    wrong.push(format!("{method} of turn {turn} before its start"));
                }
                _ => {}
            }
        }
        match typed {
            ServerNotification::TurnStarted(started) => {
                let fits = match started.resumes {
                    Some(_) => started.by == Some(TurnAsker::Resume),
                    None => matches!(
                        started.by,
                        Some(TurnAsker::Prompt | TurnAsker::Compact | TurnAsker::Queue)
                    ),
                };
                if !fits {
                    wrong.push(format!(
                        "a turn by {:?} that resumes {:?}",
                        started.by, started.resumes
                    ));
                }
                if let Some(running) = &self.running {
                    wrong.push(format!("a turn begins while {running} runs"));
                }
                self.running = turn.map(str::to_owned);
            }
            ServerNotification::TurnEnded(end) => self.turn_ended(end, wrong),
            ServerNotification::TextDelta(delta) => {
                self.delta(&delta.message_id, delta.offset, &delta.text, false, wrong);
            }
            ServerNotification::ReasoningDelta(delta) => {
                self.delta(&delta.message_id, delta.offset, &delta.text, true, wrong);
            }
            ServerNotification::Message(message) => self.message(message, wrong),
            ServerNotification::Transition(_) if params["parentToolCallId"].is_null() => {
                match params["reason"].as_str() {
                    Some("max_output_tokens_recovery" | "pause_turn") => self.continues = true,
                    Some("next_turn" | "stop_hook_blocking" | "token_budget_continuation" | "reflection") => {
                        self.continues = false;
                    }
                    _ => {}
                }
            }
            ServerNotification::MessageRetracted(retracted) => {
                self.open.remove(&retracted.message_id);
                let named = &retracted.tool_call_ids;
                let unnamed = self.close_started(&retracted.message_id, named);
                if !unnamed.is_empty() && self.is_complete {
                    wrong.push(format!("a retraction does not name {unnamed:?}"));
                }
                self.stray_calls.extend(named.iter().cloned());
                if !self.closed.insert(retracted.message_id.clone()) {
                    wrong.push("a message is retracted that was completed".to_owned());
                }
            }
            ServerNotification::ToolInputDelta(delta) if self.closed.contains(&delta.message_id) => {
                wrong.push("input of a tool call after its message".to_owned());
            }
            ServerNotification::ToolInputDelta(delta) => {
                self.started_calls
                    .insert(delta.tool_call_id.clone(), delta.message_id.clone());
            }
            ServerNotification::ToolCall(call) => self.tool_call(call, wrong),
            ServerNotification::ApprovalRequested(request) => {
                if self.settled.contains(&request.approval_id) {
                    wrong.push("an approval is asked that was settled".to_owned());
                }
                self.approvals.insert(request.approval_id.clone());
            }
            ServerNotification::ApprovalResolved(settled) => {
                if !self.approvals.remove(&settled.approval_id) && self.is_complete {
                    wrong.push("an approval is settled that was not asked".to_owned());
                }
                if !self.settled.insert(settled.approval_id.clone()) {
                    wrong.push("an approval is settled twice".to_owned());
                }
            }
            ServerNotification::LimitRequested(request) => self.has_question(&request.limit_id, wrong),
            ServerNotification::QuestionRequested(request) => self.has_question(&request.question_id, wrong),
            ServerNotification::LimitResolved(settled) => self.question_settled(&settled.limit_id, wrong),
            ServerNotification::QuestionResolved(settled) => {
                self.question_settled(&settled.question_id, wrong)
            }
            _ => {}
        }
    }

    fn has_question(&mut self, id: &str, wrong: &mut Vec<String>) {
        if self.settled.contains(id) {
            wrong.push("a question is asked that was settled".to_owned());
        }
        self.approvals.insert(id.to_owned());
    }

    fn question_settled(&mut self, id: &str, wrong: &mut Vec<String>) {
        if !self.approvals.remove(id) && self.is_complete {
            wrong.push("a question is settled that was not asked".to_owned());
        }
        if !self.settled.insert(id.to_owned()) {
            wrong.push("a question is settled twice".to_owned());
        }
    }

    /// Closes the calls whose input was shown for `message`. Returns the ones that the message does not contain.
    fn close_started(&mut self, message: &str, tool_calls: &[String]) -> Vec<String> {
        let of_it = self.started_calls.extract_if(|_, begun_in| begun_in == message);
        let stray: Vec<String> = of_it
            .map(|(call, _)| call)
            .filter(|call| !tool_calls.contains(call))
            .collect();
        self.stray_calls.extend(stray.iter().cloned());
        stray
    }

    fn turn_ended(&mut self, end: &TurnEndedNotification, wrong: &mut Vec<String>) {
        let turn = end.header.turn_id.clone().unwrap_or_default();
        if self.turn_ends.insert(turn, end.clone()).is_some() {
            wrong.push("a turn ends twice".to_owned());
        }
        self.running = None;
        for (id, progress) in self.open.drain() {
            if !progress.text.is_empty() || !progress.reasoning.is_empty() {
                wrong.push(format!(
                    "message {id} was shown and neither completed nor retracted"
                ));
            }
        }
        if !self.started_calls.is_empty() {
            wrong.push(format!(
                "tool calls without a message at a turn's end: {:?}",
                self.started_calls
            ));
            self.started_calls.clear();
        }
        // Only an open approval may outlive its turn, and only if the server stopped.
        let stopped = end.reason == TerminalReason::ServerStopped;
        if !stopped && !self.approvals.is_empty() {
            wrong.push(format!("open at a turn's end: {:?}", self.approvals));
        }
        let unfinished: Vec<&String> = self
            .calls
            .iter()
            .filter(|(_, status)| !is_final(**status))
            .filter(|(_, status)| !stopped || **status != ToolCallStatus::AwaitingApproval)
            .map(|(id, _)| id)
            .collect();
        if !unfinished.is_empty() {
            wrong.push(format!(
                "tool calls without a result at a turn's end: {unfinished:?}"
            ));
        }
    }

    fn delta(&mut self, id: &str, offset: u64, text: &str, reasoning: bool, wrong: &mut Vec<String>) {
        if self.closed.contains(id) {
            wrong.push(format!("a delta of message {id} after it was closed"));
        }
        let progress = self.open.entry(id.to_owned()).or_default();
        let so_far = if reasoning {
            &mut progress.reasoning
        } else {
            &mut progress.text
        };
        if offset != so_far.len() as u64 && (self.is_complete || !so_far.is_empty()) {
            wrong.push(format!(
                "a delta of message {id} at {offset}, {} bytes were shown",
                so_far.len()
            ));
        }
        if text.is_empty() {
            wrong.push(format!("an empty delta of message {id}"));
        }
        so_far.push_str(text);
    }

    fn message(&mut self, message: &MessageNotification, wrong: &mut Vec<String>) {
        let id = &message.message_id;
        if !self.closed.insert(id.clone()) {
            wrong.push(format!("message {id} comes twice, or was retracted"));
        }
        if message.role != Role::Assistant {
            return;
        }
        let tool_calls = message.content.iter().filter_map(|block| match block {
            MessageBlock::ToolUse { tool_call_id, .. } => Some(tool_call_id.clone()),
            _ => None,
        });
        self.close_started(id, &tool_calls.collect::<Vec<_>>());
        let progress = self.open.remove(id);
        if !self.is_complete && progress.is_none() {
            return;
        }
        let progress = progress.unwrap_or_default();
        if message.more.is_empty() {
            let text = join_blocks(message, |block| match block {
                MessageBlock::Text { text, more } => Some((text, more)),
                _ => None,
            });
            compare_text(id, "text", &text, &progress.text, wrong);
            let reasoning = join_blocks(message, |block| match block {
                MessageBlock::Reasoning { text, more } => Some((text, more)),
                _ => None,
            });
            compare_text(id, "reasoning", &reasoning, &progress.reasoning, wrong);
        }
        if let Some(turn) = &message.header.turn_id {
            let answer = self.answers.entry(turn.clone()).or_default();
            if !std::mem::take(&mut self.continues) {
                answer.clear();
            }
            answer.push_str(&progress.text);
        }
    }

    fn tool_call(&mut self, call: &ToolCallNotification, wrong: &mut Vec<String>) {
        let id = &call.tool_call_id;
        if self.stray_calls.contains(id) || self.started_calls.contains_key(id) {
            wrong.push(format!("tool call {id} is reported, but no message contains it"));
        }
        let before = self.calls.insert(id.clone(), call.status);
        let fine = match (before, call.status) {
            // A cancel, a crash or the end of the message may prevent the announcement of a call.
            (None, ToolCallStatus::Pending | ToolCallStatus::Cancelled) => true,
            // It was announced over another connection.
            (None, _) => !self.is_complete,
            (Some(before), now) => !is_final(before) && rank(now) > rank(before) || asked_again(before, now),
        };
        if !fine {
            wrong.push(format!(
                "tool call {id} goes from {before:?} to {:?}",
                call.status
            ));
        }
        if is_final(call.status) != call.output.is_some() {
            wrong.push(format!(
                "tool call {id} is {:?}, its output is there: {}",
                call.status,
                call.output.is_some()
            ));
        }
    }
}

/// Returns whether a resumed turn asks an open approval again.
fn asked_again(before: ToolCallStatus, now: ToolCallStatus) -> bool {
    before == ToolCallStatus::AwaitingApproval && now == ToolCallStatus::AwaitingApproval
}

fn rank(status: ToolCallStatus) -> u8 {
    match status {
        ToolCallStatus::Pending => 0,
        ToolCallStatus::AwaitingApproval => 1,
        ToolCallStatus::Running => 2,
        ToolCallStatus::Completed
        | ToolCallStatus::Failed
        | ToolCallStatus::Denied
        | ToolCallStatus::Cancelled => 3,
    }
}

fn is_final(status: ToolCallStatus) -> bool {
    rank(status) == 3
}

/// Joins the texts of a message's blocks. Returns the text, the full length in bytes, and whether the text is cut.
fn join_blocks<'m>(
    message: &'m MessageNotification,
    of: impl Fn(&'m MessageBlock) -> Option<(&'m String, &'m agentls::protocol::TruncatedFields)>,
) -> (String, u64, bool) {
    let (mut text, mut bytes, mut cut) = (String::new(), 0, false);
    for (piece, more) in message.content.iter().filter_map(of) {
        let more = more.get("text");
        if !cut {
            text.push_str(piece);
        }
        cut |= more.is_some();
        bytes += more.map_or(piece.len() as u64, |more| more.bytes);
    }
    (text, bytes, cut)
}

/// Checks I5: a message equals its joined deltas.
fn compare_text(
    id: &str,
    kind: &str,
    complete: &(String, u64, bool),
    streamed: &str,
    wrong: &mut Vec<String>,
) {
    let (text, bytes, cut) = complete;
    let same = match cut {
        true => streamed.starts_with(text.as_str()),
        false => streamed == text,
    };
    if !same || *bytes != streamed.len() as u64 {
        let excerpt = |text: &str| text.chars().take(80).collect::<String>();
        wrong.push(format!(
            "message {id} has {kind} of {bytes} bytes ({:?}…), shown were {} ({:?}…)",
            excerpt(text),
            streamed.len(),
            excerpt(streamed)
        ));
    }
}

/// Tests of the checker itself.
mod tests {
    use serde_json::json;

    use super::*;

    const TURN: &str = "turn_1";

    fn event(seq: u64, mut more: Value) -> Value {
        more["sessionId"] = "ses_1".into();
        more["turnId"] = TURN.into();
        more["at"] = 1.into();
        if seq > 0 {
            more["seq"] = seq.into();
        } else {
            more.as_object_mut().expect("an object").remove("at");
        }
        more
    }

    fn end(seq: u64) -> (&'static str, Value) {
        let usage = json!({"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0});
        let end = json!({"reason": "completed", "state": "completed", "usage": usage});
        ("agent/turnEnded", event(seq, end))
    }

    fn start(seq: u64) -> (&'static str, Value) {
        ("agent/turnStarted", event(seq, json!({"by": "prompt"})))
    }

    fn delta(message: &str, offset: u64, text: &str) -> (&'static str, Value) {
        let delta = json!({"messageId": message, "offset": offset, "text": text});
        ("agent/textDelta", event(0, delta))
    }

    fn message(seq: u64, message: &str, text: &str) -> (&'static str, Value) {
        let content = json!([{"type": "text", "text": text}]);
        let params = json!({"messageId": message, "role": "assistant", "content": content});
        ("agent/message", event(seq, params))
    }

    fn input(message: &str) -> (&'static str, Value) {
        let delta = json!({"messageId": message, "toolCallId": "call_1", "name": "x", "text": "{"});
        ("agent/toolInputDelta", event(0, delta))
    }

    fn retracted(seq: u64, message: &str, calls: Value) -> (&'static str, Value) {
        let retracted = json!({"messageId": message, "toolCallIds": calls});
        ("agent/messageRetracted", event(seq, retracted))
    }

    fn call(seq: u64, status: &str) -> (&'static str, Value) {
        let mut call = json!({"toolCallId": "call_1", "name": "x", "title": "x", "status": status});
        if status == "completed" {
            call["output"] = "x".into();
        }
        ("agent/toolCall", event(seq, call))
    }

    fn verdict(events: Vec<(&str, Value)>) -> String {
        let mut checker = Checker {
            initialized: true,
            ..Checker::default()
        };
        checker.created("ses_1", 0);
        for (method, params) in events {
            checker.notification(method, &params, 100);
        }
        checker.end(false);
        checker.violations.join("; ")
    }

    #[test]
    fn valid_stream_has_no_violations() {
        let fine = vec![
            start(1),
            delta("m", 0, "a"),
            delta("m", 1, "b"),
            message(2, "m", "ab"),
            call(3, "pending"),
            call(4, "running"),
            call(5, "completed"),
            end(6),
        ];
        assert_eq!(verdict(fine), "");
    }

    #[test]
    fn each_violation_is_reported() {
        for (events, expected) in [
            (vec![start(1), end(3)], "has seq 3 after 1"),
            (vec![start(1), end(1)], "has seq 1 after 1"),
            (vec![start(1)], "has no end"),
            (vec![start(1), end(2), end(3)], "ends twice"),
            (vec![start(1), end(2), delta("m", 0, "a")], "after its end"),
            (vec![end(1)], "before its start"),
            (
                vec![start(1), delta("m", 1, "a"), message(2, "m", "a"), end(3)],
                "at 1, 0 bytes were shown",
            ),
            (
                vec![start(1), delta("m", 0, "a"), message(2, "m", "b"), end(3)],
                "shown were",
            ),
            (vec![start(1), message(2, "m", "b"), end(3)], "shown were"),
            (
                vec![start(1), delta("m", 0, "a"), end(2)],
                "neither completed nor retracted",
            ),
            (vec![start(1), call(2, "pending"), end(3)], "without a result"),
            (
                vec![
                    start(1),
                    call(2, "pending"),
                    call(3, "completed"),
                    call(4, "running"),
                    end(5),
                ],
                "goes from",
            ),
            (vec![start(1), input("m"), end(2)], "without a message"),
            (
                vec![start(1), input("m"), call(2, "pending")],
                "no message contains it",
            ),
            (
                vec![
                    start(1),
                    delta("m", 0, "a"),
                    input("m"),
                    message(2, "m", "a"),
                    call(3, "pending"),
                ],
                "no message contains it",
            ),
            (
                vec![start(1), input("m"), retracted(2, "m", json!([])), end(3)],
                "does not name",
            ),
            (
                vec![
                    start(1),
                    input("m"),
                    retracted(2, "m", json!(["call_1"])),
                    call(3, "pending"),
                ],
                "no message contains it",
            ),
            (vec![("agent/unknown", json!({}))], "unknown notification"),
            (
                vec![
                    ("agent/turnStarted", event(1, json!({"by": "prompt", "extra": 1}))),
                    end(2),
                ],
                "more than its type",
            ),
            (vec![("agent/turnStarted", json!({}))], "does not parse"),
        ] {
            let verdict = verdict(events);
            assert!(verdict.contains(expected), "{expected:?} is not in {verdict:?}");
        }
    }

    fn loaded(checker: &mut Checker, seq: u64, events: Vec<(&str, Value)>) {
        let events: Vec<Value> = events
            .into_iter()
            .map(|(method, params)| json!({"method": method, "params": params}))
            .collect();
        let usage = json!({"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0});
        let result = json!({"events": events, "hasEarlier": false, "openApprovals": [], "seq": seq,
            "state": {"cwd": "/", "mode": "ask", "usage": usage}});
        checker.loaded("ses_1", &serde_json::from_value(result).expect("a page"));
    }

    #[test]
    fn duplicate_and_differing_events_are_reported() {
        let notify = |checker: &mut Checker, (method, params): (&str, Value)| {
            checker.notification(method, &params, 100);
        };
        type Case = (
            &'static str,
            fn(&mut Checker, &dyn Fn(&mut Checker, (&str, Value))),
        );
        let cases: [Case; 5] = [
            ("", |checker, notify| {
                loaded(checker, 2, vec![start(1), end(2)]);
                notify(checker, call(3, "pending"));
                loaded(checker, 3, vec![call(3, "pending")]);
            }),
            ("is sent and also in the page", |checker, notify| {
                notify(checker, end(2));
                loaded(checker, 2, vec![start(1), end(2)]);
            }),
            ("stood in a page", |checker, notify| {
                loaded(checker, 2, vec![start(1), end(2)]);
                notify(checker, end(2));
            }),
            ("beyond seq 1", |checker, _| {
                loaded(checker, 1, vec![start(1), end(2)])
            }),
            ("is another in the page", |checker, notify| {
                loaded(checker, 1, vec![start(1)]);
                notify(checker, call(2, "pending"));
                loaded(checker, 2, vec![call(2, "running")]);
            }),
        ];
        for (expected, case) in cases {
            let mut checker = Checker {
                initialized: true,
                ..Checker::default()
            };
            case(&mut checker, &notify);
            let verdict = checker.violations.join("; ");
            assert_eq!(verdict.is_empty(), expected.is_empty(), "{verdict:?}");
            assert!(verdict.contains(expected), "{expected:?} is not in {verdict:?}");
        }
    }

    #[test]
    fn stray_bytes_on_stdout_are_reported() {
        for (bytes, good) in [
            (&b"Content-Length: 2\r\n\r\n{}"[..], true),
            (b"Content-Length: 2\r\n\r\n{}\n", false),
            (b"warning: x\nContent-Length: 2\r\n\r\n{}", false),
            (b"content-length: 2\r\n\r\n{}", false),
            (b"Content-Length: x\r\n\r\n{}", false),
        ] {
            let mut frames = super::super::frames::Frames::default();
            let mut from = bytes;
            while frames.fill(&mut from).expect("bytes") {}
            let mut verdict = Ok(());
            loop {
                match frames.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        verdict = Err(error);
                        break;
                    }
                }
            }
            assert_eq!(verdict.is_ok(), good, "{verdict:?}");
        }
    }
}
