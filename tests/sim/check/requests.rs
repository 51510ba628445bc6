//! Provider requests: I4, and that each request contains the history that was shown and stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Checker;
use super::memory::ShownSession;
use super::typed::label_of;
use crate::model::is_from_subagent;
use agentls::base::sim_schedule;
use agentls::context::compact::{self, SUMMARY_SYSTEM};
use agentls::domain::{Block, CompactTrigger, Compaction, Cost, Message, Role, SessionId, ToolCallId};
use agentls::provider::{HistoryItem, ModelRequest};

impl Checker {
    /// The server calls a provider. Returns the call's minimum cost, which counts as in flight until the call
    /// settles.
    pub(crate) fn check_request(
        &mut self,
        session: &SessionId,
        request: &ModelRequest,
        provider: &str,
    ) -> Cost {
        if sim_schedule::is_frozen() {
            return Cost(0);
        }
        let about = self.money.least_cost(request);
        if let Err(violation) = self.may_spend(session, provider, (request, about)) {
            self.record_violation(violation);
        }
        self.takes_off(provider, about);
        self.check_history_sent(session, request);
        about
    }

    fn check_history_sent(&mut self, session: &SessionId, request: &ModelRequest) {
        self.log_line(format!("request {session} {} messages", request.messages.len()));
        if is_from_subagent(request) {
            return self.sent_by_child(request);
        }
        self.note_provider_call(session);
        if request.tools.is_empty() && *request.system != *SUMMARY_SYSTEM {
            // A turn at its limit requests a summary, with the history as plain text.
            self.count_case("summary at a limit");
            if !matches!(&request.messages[..], [item] if item.message.role == Role::User) {
                self.record_violation("a summary request contains more than one user message".to_owned());
            }
            return;
        }
        if *request.system == *SUMMARY_SYSTEM {
            self.note_compaction_call(session);
            let is_transcript_only =
                matches!(&request.messages[..], [item] if item.message.role == Role::User);
            if !is_transcript_only || !request.tools.is_empty() {
                self.record_violation("a compaction request contains more than one transcript".to_owned());
            }
            return;
        }
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return self.record_violation(format!(
                "a provider request belongs to the unknown session {session}"
            ));
        };
        // If the store lost records, those between two model messages may be missing.
        let mut checked = check_history(
            &request.messages,
            self.paused.contains(session) || shown_session.is_cut_off,
        );
        let is_repeat = is_same_history(&request.messages, &shown_session.last_sent);
        shown_session.last_sent.clone_from(&request.messages);
        if !is_repeat {
            shown_session.sent.push_back(request.messages.clone());
            checked = checked.and(shown_session.match_sent());
        }
        if let Err(violation) = checked {
            let messages: Vec<&Message> = request.messages.iter().map(|item| &item.message).collect();
            self.log_line(format!("{messages:?}"));
            self.record_violation(format!("I4: {violation}"));
        }
    }

    /// A sub-agent calls a provider: its request contains a valid history, or one rendered as text.
    fn sent_by_child(&mut self, request: &ModelRequest) {
        self.count_case("request of a sub-agent");
        if let Err(violation) = check_history(&request.messages, true) {
            self.record_violation(format!("I4: a sub-agent: {violation}"));
        }
    }

    /// The next answer of the provider may end with a pause.
    pub(crate) fn may_pause(&mut self, session: &SessionId) {
        self.paused.insert(session.clone());
    }
}

impl ShownSession {
    /// The history shown catches up with each request: at some moment the two are equal. Each request extends
    /// the one before, unless a compaction came between.
    pub(super) fn match_sent(&mut self) -> Result<(), String> {
        while let Some(sent) = self.sent.front() {
            if self.fold.history.open_calls().next().is_some()
                || !is_same_history(&self.fold.history.to_messages(), sent)
            {
                return Ok(());
            }
            if !self.is_cut_off && !begins_with(sent, &self.matched) {
                return Err("the request does not begin with the history of the previous request".to_owned());
            }
            self.matched = self.sent.pop_front().unwrap_or_default();
        }
        Ok(())
    }

    /// At a turn's end every request of the turn has matched. The next turn may already have sent a request;
    /// it extends the current history.
    pub(super) fn only_the_next_asks(&self) -> Result<(), String> {
        let history = self.fold.history.to_messages();
        let is_next_turn =
            |sent: &Vec<Arc<HistoryItem>>| sent.len() > history.len() && begins_with(sent, &history);
        match self.sent.iter().find(|sent| !is_next_turn(sent)) {
            None => Ok(()),
            Some(sent) => Err(format!(
                "a provider received a history that never existed ({} messages; the session has {})",
                sent.len(),
                history.len()
            )),
        }
    }

    /// A compaction keeps the first message and what the model has not answered, and reports correct counts. After an
    /// overflow, it may keep only the last prompt and what follows it. A summary in the first place becomes a part of the
    /// next one.
    pub(super) fn check_compaction(&mut self, compaction: &Compaction) -> Result<(), String> {
        self.matched.clear();
        let before = self.fold.history.to_messages();
        let after = compact::apply_to_copy(&before, compaction);
        let counts = (
            compaction.messages_before as usize,
            compaction.messages_after as usize,
        );
        if !self.is_cut_off && counts != (before.len(), after.len()) {
            return Err(format!(
                "the compaction reports {counts:?} messages before and after; the history has {} and {}",
                before.len(),
                after.len()
            ));
        }
        if compaction.tokens_after > compaction.tokens_before {
            return Err(format!("a compaction made the history larger: {compaction:?}"));
        }
        let is_prompt = |item: &Arc<HistoryItem>| item.message.role == Role::User && !item.message.hidden;
        let last_prompt = before.iter().rposition(is_prompt).unwrap_or(0);
        let earlier_summary = before.first().filter(|item| compact::is_summary(&item.message));
        let stays =
            |old: &Arc<HistoryItem>| after.first().is_some_and(|new| new.message.id == old.message.id);
        if compaction.summary.is_some() && earlier_summary.is_some_and(stays) {
            return Err("a compaction kept an earlier summary in the first place".to_owned());
        }
        let ids = |items: &[Arc<HistoryItem>], first: usize, n: usize| -> Vec<_> {
            let ends = items.iter().take(first).chain(items.iter().rev().take(n));
            ends.filter(|item| item.message.role != Role::Tool)
                .map(|item| item.message.id.clone())
                .collect()
        };
        let keeps = |first: usize, n: usize| ids(&before, first, n) == ids(&after, first, n);
        let first = usize::from(earlier_summary.is_none());
        let is_answer = |item: &Arc<HistoryItem>| item.message.role == Role::Assistant;
        let answered = before.iter().rposition(is_answer).map_or(0, |at| at + 1);
        let unanswered = (before.len() - answered).min(before.len().saturating_sub(1));
        let keeps_what_must_stay = keeps(first, unanswered)
            || (compaction.trigger == CompactTrigger::Overflow && keeps(0, before.len() - last_prompt));
        if self.is_cut_off || keeps_what_must_stay {
            check_history(&after, true).or_else(|violation| {
                if self.is_cut_off {
                    Ok(())
                } else {
                    Err(format!("I4 after a compaction: {violation}"))
                }
            })
        } else {
            Err("a compaction removed a message that has to stay".to_owned())
        }
    }
}

fn is_same_history(a: &[Arc<HistoryItem>], b: &[Arc<HistoryItem>]) -> bool {
    a.len() == b.len() && begins_with(a, b)
}

fn begins_with(items: &[Arc<HistoryItem>], start: &[Arc<HistoryItem>]) -> bool {
    let equal = |(a, b): (&Arc<HistoryItem>, &Arc<HistoryItem>)| {
        // A message of tool results gets a new id each time it is built.
        Arc::ptr_eq(a, b)
            || a.message.role == b.message.role
                && a.message.content == b.message.content
                && (a.message.role == Role::Tool || a.message.id == b.message.id)
    };
    items.len() >= start.len() && items.iter().zip(start).all(equal)
}

/// Checks I4 and R-LOOP-4 for a complete history.
fn check_history(items: &[Arc<HistoryItem>], pauses: bool) -> Result<(), String> {
    let mut due: Vec<ToolCallId> = Vec::new();
    let (mut ids, mut calls, mut labels) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut before = None;
    for (at, item) in items.iter().enumerate() {
        let message = &item.message;
        if message.role != Role::Tool && !ids.insert(message.id.clone()) {
            return Err(format!("message {at} appears twice"));
        }
        if !says_something(message) {
            return Err(format!("message {at} is empty"));
        }
        match message.role {
            Role::Tool => check_results(message, &std::mem::take(&mut due))
                .map_err(|violation| format!("{at}: {violation}"))?,
            _ if !due.is_empty() => return Err(format!("the calls before message {at} have no results")),
            Role::Assistant if before == Some(Role::Assistant) && !pauses => {
                return Err(format!("message {at} of the model follows another one"));
            }
            Role::Assistant => due = message.tool_uses().map(|(id, _, _)| id.clone()).collect(),
            Role::User => {
                if let Some(label) = label_of(&message.content)
                    && !labels.insert(label)
                {
                    return Err(format!("I16: the history contains #{label} twice"));
                }
            }
        }
        if let Some(id) = due.iter().find(|id| !calls.insert((*id).clone())) {
            return Err(format!("call {id} is requested twice"));
        }
        before = Some(message.role);
    }
    match (items.first(), before) {
        _ if !due.is_empty() => Err("the last calls have no results".to_owned()),
        (Some(first), _) if first.message.role != Role::User => {
            Err("the history does not begin with a user message".to_owned())
        }
        (_, Some(Role::User | Role::Tool)) => Ok(()),
        (_, Some(Role::Assistant)) if pauses => Ok(()),
        _ => Err("the history does not end with a user message or tool results".to_owned()),
    }
}

fn check_results(message: &Message, due: &[ToolCallId]) -> Result<(), String> {
    let mut got = Vec::new();
    for block in &message.content {
        match block {
            Block::ToolResult { id, result } if !result.text.is_empty() => got.push(id.clone()),
            other => return Err(format!("a tool message contains {other:?}")),
        }
    }
    if got == due {
        Ok(())
    } else {
        Err(format!(
            "the tool message has the results {got:?}; expected {due:?}"
        ))
    }
}

fn says_something(message: &Message) -> bool {
    message.content.iter().any(|block| match block {
        Block::Text(text) => !text.trim().is_empty(),
        Block::Reasoning { .. } => false,
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Image(_) | Block::Reference(_) => true,
    })
}
