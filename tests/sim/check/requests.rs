//! What providers are sent: I4, and that it is the history which is shown and stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Checker;
use super::seen::ShownSession;
use super::typed::label_of;
use crate::model::is_childs;
use agentls::base::sim_schedule;
use agentls::context::compact::{self, SUMMARY_SYSTEM};
use agentls::domain::{Block, Compaction, Cost, Message, Role, SessionId, ToolCallId};
use agentls::provider::{HistoryItem, ModelRequest};

impl Checker {
    /// A provider is asked; what that costs at least, until it lands.
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
        if let Err(why) = self.may_spend(session, provider, (request, about)) {
            self.record_violation(why);
        }
        self.takes_off(provider, about);
        self.check_history_sent(session, request);
        about
    }

    fn check_history_sent(&mut self, session: &SessionId, request: &ModelRequest) {
        self.log_line(format!("request {session} {} messages", request.messages.len()));
        if is_childs(request) {
            return self.sent_by_child(request);
        }
        self.note_provider_call(session);
        if request.tools.is_empty() && *request.system != *SUMMARY_SYSTEM {
            // At a limit: a summary, of the history as a text.
            self.count_case("summary at a limit");
            if !matches!(&request.messages[..], [item] if item.message.role == Role::User) {
                self.record_violation("a summary is asked for with more than a text".to_owned());
            }
            return;
        }
        if *request.system == *SUMMARY_SYSTEM {
            self.note_compaction_call(session);
            let asks = matches!(&request.messages[..], [item] if item.message.role == Role::User);
            if !asks || !request.tools.is_empty() {
                self.record_violation("notes are asked for with more than a transcript".to_owned());
            }
            return;
        }
        let Some(seen) = self.sessions.get_mut(session) else {
            return self.record_violation(format!("a request of {session}, which is not there"));
        };
        // Where records were lost, what stood between two messages of the model may be gone.
        let mut checked = check_history(&request.messages, self.paused.contains(session) || seen.torn);
        let again = is_same_history(&request.messages, &seen.last_sent);
        seen.last_sent.clone_from(&request.messages);
        if !again {
            seen.sent.push_back(request.messages.clone());
            checked = checked.and(seen.match_sent());
        }
        if let Err(why) = checked {
            let messages: Vec<&Message> = request.messages.iter().map(|item| &item.message).collect();
            self.log_line(format!("{messages:?}"));
            self.record_violation(format!("I4: {why}"));
        }
    }

    /// A sub-agent asks: what it sends is a valid history, or one that is told as a text.
    fn sent_by_child(&mut self, request: &ModelRequest) {
        self.count_case("request of a sub-agent");
        if let Err(why) = check_history(&request.messages, true) {
            self.record_violation(format!("I4: a sub-agent: {why}"));
        }
    }

    /// The answer that comes may end with a pause.
    pub(crate) fn may_pause(&mut self, session: &SessionId) {
        self.paused.insert(session.clone());
    }
}

impl ShownSession {
    /// What is shown catches up with what was sent: at some moment both are the same. What was sent before is its
    /// beginning, unless it was made smaller since.
    pub(super) fn match_sent(&mut self) -> Result<(), String> {
        while let Some(sent) = self.sent.front() {
            if self.fold.history.open_calls().next().is_some()
                || !is_same_history(&self.fold.history.to_messages(), sent)
            {
                return Ok(());
            }
            if !self.torn && !begins_with(sent, &self.matched) {
                return Err("the history that was sent before is no longer its beginning".to_owned());
            }
            self.matched = self.sent.pop_front().unwrap_or_default();
        }
        Ok(())
    }

    /// At a turn's end all that it sent is matched. The next turn may have asked before the end is shown: what it sent
    /// goes on where the history ends now.
    pub(super) fn only_the_next_asks(&self) -> Result<(), String> {
        let history = self.fold.history.to_messages();
        let of_next =
            |sent: &Vec<Arc<HistoryItem>>| sent.len() > history.len() && begins_with(sent, &history);
        match self.sent.iter().find(|sent| !of_next(sent)) {
            None => Ok(()),
            Some(sent) => Err(format!(
                "a provider was sent a history that never was ({} messages; there are {})",
                sent.len(),
                history.len()
            )),
        }
    }

    /// What a compaction does to the history: it keeps its first message and its last six, and says what it is.
    pub(super) fn check_compaction(&mut self, compaction: &Compaction) -> Result<(), String> {
        self.matched.clear();
        let before = self.fold.history.to_messages();
        let after = compact::apply_to_copy(&before, compaction);
        let counts = (
            compaction.messages_before as usize,
            compaction.messages_after as usize,
        );
        if !self.torn && counts != (before.len(), after.len()) {
            return Err(format!(
                "{counts:?} messages are told, there are {} and {}",
                before.len(),
                after.len()
            ));
        }
        if compaction.tokens_after > compaction.tokens_before {
            return Err(format!("a compaction made it larger: {compaction:?}"));
        }
        let ids = |items: &[Arc<HistoryItem>], n: usize| -> Vec<_> {
            let ends = items.iter().take(1).chain(items.iter().rev().take(n));
            ends.filter(|item| item.message.role != Role::Tool)
                .map(|item| item.message.id.clone())
                .collect()
        };
        let n = 6.min(before.len().saturating_sub(1));
        if self.torn || ids(&before, n) == ids(&after, n) {
            check_history(&after, true).or_else(|why| {
                if self.torn {
                    Ok(())
                } else {
                    Err(format!("I4 after a compaction: {why}"))
                }
            })
        } else {
            Err("a compaction took the first message or one of the last six".to_owned())
        }
    }
}

fn is_same_history(a: &[Arc<HistoryItem>], b: &[Arc<HistoryItem>]) -> bool {
    a.len() == b.len() && begins_with(a, b)
}

fn begins_with(items: &[Arc<HistoryItem>], start: &[Arc<HistoryItem>]) -> bool {
    let equal = |(a, b): (&Arc<HistoryItem>, &Arc<HistoryItem>)| {
        // A message of results has a new id each time that it is made.
        Arc::ptr_eq(a, b)
            || a.message.role == b.message.role
                && a.message.content == b.message.content
                && (a.message.role == Role::Tool || a.message.id == b.message.id)
    };
    items.len() >= start.len() && items.iter().zip(start).all(equal)
}

/// I4 and R-LOOP-4, strictly.
fn check_history(items: &[Arc<HistoryItem>], pauses: bool) -> Result<(), String> {
    let mut due: Vec<ToolCallId> = Vec::new();
    let (mut ids, mut calls, mut labels) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut before = None;
    for (at, item) in items.iter().enumerate() {
        let message = &item.message;
        if message.role != Role::Tool && !ids.insert(message.id.clone()) {
            return Err(format!("message {at} is there twice"));
        }
        if !says_something(message) {
            return Err(format!("message {at} is empty"));
        }
        match message.role {
            Role::Tool => {
                check_results(message, &std::mem::take(&mut due)).map_err(|why| format!("{at}: {why}"))?
            }
            _ if !due.is_empty() => return Err(format!("the calls before message {at} have no results")),
            Role::Assistant if before == Some(Role::Assistant) && !pauses => {
                return Err(format!("message {at} follows one of the model"));
            }
            Role::Assistant => due = message.tool_uses().map(|(id, _, _)| id.clone()).collect(),
            Role::User => {
                if let Some(label) = label_of(&message.content)
                    && !labels.insert(label)
                {
                    return Err(format!("I16: #{label} is there twice"));
                }
            }
        }
        if let Some(id) = due.iter().find(|id| !calls.insert((*id).clone())) {
            return Err(format!("{id} is asked for twice"));
        }
        before = Some(message.role);
    }
    match (items.first(), before) {
        _ if !due.is_empty() => Err("the last calls have no results".to_owned()),
        (Some(first), _) if first.message.role != Role::User => {
            Err("it does not begin with a user".to_owned())
        }
        (_, Some(Role::User | Role::Tool)) => Ok(()),
        (_, Some(Role::Assistant)) if pauses => Ok(()),
        _ => Err("it does not end with a user or results".to_owned()),
    }
}

fn check_results(message: &Message, due: &[ToolCallId]) -> Result<(), String> {
    let mut got = Vec::new();
    for block in &message.content {
        match block {
            Block::ToolResult { id, result } if !result.text.is_empty() => got.push(id.clone()),
            other => return Err(format!("{other:?} among results")),
        }
    }
    if got == due {
        Ok(())
    } else {
        Err(format!("results {got:?} for the calls {due:?}"))
    }
}

fn says_something(message: &Message) -> bool {
    message.content.iter().any(|block| match block {
        Block::Text(text) => !text.trim().is_empty(),
        Block::Reasoning { .. } => false,
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Image(_) | Block::Reference(_) => true,
    })
}
