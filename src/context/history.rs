//! The history: a fold over events. It is the same fold for live events, for loading, and in tests.
//!
//! Keeps R-LOOP-4 (I4): in what [`History::to_messages`] returns, every tool use has exactly one result, in order,
//! directly after the message that asks, and nothing is empty. Knows no store and no provider's API: `provider`
//! translates the messages.

use std::sync::Arc;

use serde_json::Value;

use super::compact;
use crate::domain::{
    Block, Event, Message, MessageId, Role, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult,
};
use crate::provider::HistoryItem;

/// The messages of a session as the model should see them.
#[derive(Debug, Default)]
pub struct History {
    items: Vec<Arc<HistoryItem>>,
    open: Vec<OpenCall>,
    /// User messages that arrived while tool calls were open; they follow the results.
    waiting: Vec<Arc<HistoryItem>>,
}

/// A tool call of the last assistant message, with its result once it has one.
#[derive(Clone, Debug)]
pub struct OpenCall {
    pub id: ToolCallId,
    pub name: String,
    /// The arguments as the model gave them or as the user edited them.
    pub input: Arc<Value>,
    /// `None` while the call is open.
    pub result: Option<Arc<ToolResult>>,
}

impl History {
    /// Applies an event. Events that do not concern the history are ignored.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Message(message) => self.apply_message(message),
            Event::MessageRetracted { message, .. } => self.retract_message(message),
            Event::ToolCall(update) => self.tool_call(update),
            Event::Compacted(compaction) => compact::apply(&mut self.items, compaction),
            // No wildcard: a new event must decide here whether it concerns the history.
            Event::TurnStarted { .. }
            | Event::TurnEnded(_)
            | Event::ApprovalRequested(_)
            | Event::ApprovalResolved { .. }
            | Event::InquiryRequested(_)
            | Event::InquiryResolved { .. }
            | Event::Plan { .. }
            | Event::Transition { .. }
            | Event::Retry { .. }
            | Event::Wait { .. }
            | Event::ModelSwitched { .. }
            | Event::Circuit { .. }
            | Event::Usage { .. }
            | Event::Warning { .. }
            | Event::Instructions { .. }
            | Event::SessionUpdated { .. }
            | Event::QueueChanged(_)
            | Event::TurnDiff(_)
            | Event::Nested(_) => {}
        }
    }

    /// Returns the messages to send to a model: valid at any time, even while calls are open.
    pub fn to_messages(&self) -> Vec<Arc<HistoryItem>> {
        let mut messages = Vec::with_capacity(self.items.len() + 1 + self.waiting.len());
        messages.extend(self.items.iter().cloned());
        if !self.open.is_empty() {
            messages.push(HistoryItem::new(build_results_message(&self.open)));
        }
        messages.extend(self.waiting.iter().cloned());
        messages
    }

    /// Returns the calls of the last assistant message that have no result yet, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = &OpenCall> {
        self.open.iter().filter(|call| call.result.is_none())
    }

    /// Returns whether the session has no messages yet.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn apply_message(&mut self, message: &Arc<Message>) {
        match message.role {
            Role::User => {
                let item = HistoryItem::new(Message::clone(message));
                if self.open.is_empty() {
                    self.items.push(item)
                } else {
                    // The results must directly follow the message that asks (I4), so the user's words wait.
                    self.waiting.push(item)
                }
            }
            Role::Assistant => {
                // A message cannot follow open calls. If one does all the same, the calls are closed first.
                self.close();
                // An empty message is not valid for every API (R-LOOP-4), so it is omitted.
                if !has_content(message) {
                    return;
                }
                self.open = message
                    .tool_uses()
                    .map(|(id, name, input)| OpenCall {
                        id: id.clone(),
                        name: name.to_owned(),
                        input: input.clone(),
                        result: None,
                    })
                    .collect();
                self.items.push(HistoryItem::new(Message::clone(message)));
            }
            // Tool messages are built from the results of tool calls; none arrives as an event.
            Role::Tool => {}
        }
    }

    fn retract_message(&mut self, id: &MessageId) {
        let is_last = self.items.last().is_some_and(|item| item.message.id == *id);
        // Only the last message can be an attempt that broke; its calls never ran (R-PROV-3).
        if is_last {
            self.open.clear();
            self.items.pop();
            self.items.append(&mut self.waiting);
        }
    }

    fn tool_call(&mut self, update: &ToolCallUpdate) {
        if update.parent.is_some() {
            // The call belongs to a sub-agent, which has a history of its own.
            return;
        }
        let Some(call) = self.open.iter_mut().find(|call| call.id == update.id) else {
            return;
        };
        if let Some(input) = &update.input {
            call.input = input.clone();
        }
        // The first result wins: each call has exactly one (I4), even if a record is repeated.
        if update.status.is_final() && call.result.is_none() {
            call.result = Some(
                update
                    .result
                    .clone()
                    .unwrap_or_else(|| Arc::new(synthesize_missing_result(update.status))),
            );
        }
        if self.open.iter().all(|call| call.result.is_some()) {
            self.close();
        }
    }

    /// Moves the results of the open calls into the history, followed by the messages that waited for them.
    fn close(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.items.push(HistoryItem::new(build_results_message(&open)));
        }
        self.items.append(&mut self.waiting);
    }
}

/// Returns whether a message contains anything that every API accepts: reasoning alone is not enough.
fn has_content(message: &Message) -> bool {
    message.content.iter().any(|block| match block {
        Block::Text(text) => !text.trim().is_empty(),
        Block::Reasoning { .. } => false,
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Image(_) | Block::Reference(_) => true,
    })
}

fn build_results_message(calls: &[OpenCall]) -> Message {
    let content = calls
        .iter()
        .map(|call| Block::ToolResult {
            id: call.id.clone(),
            result: call
                .result
                .clone()
                // A call without a result is sent as interrupted, so that the history is valid at any time.
                .unwrap_or_else(|| Arc::new(synthesize_missing_result(ToolCallStatus::Cancelled))),
        })
        .collect();
    Message {
        id: MessageId::new_random(),
        role: Role::Tool,
        content,
        incomplete: false,
        hidden: false,
    }
}

/// Returns the result of a call that ended without one.
fn synthesize_missing_result(status: ToolCallStatus) -> ToolResult {
    match status {
        ToolCallStatus::Denied => ToolResult::error("Denied by user"),
        ToolCallStatus::Completed => ToolResult::ok("(no output)"),
        _ => ToolResult::error("interrupted"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(text: &str) -> Event {
        Event::Message(Arc::new(Message::user_text(text)))
    }

    fn assistant(text: &str, calls: &[&str]) -> Event {
        let mut content = vec![Block::Text(text.to_owned())];
        content.extend(calls.iter().map(|id| Block::ToolUse {
            id: ToolCallId::from(*id),
            name: "bash".to_owned(),
            input: Arc::new(Value::Null),
            attached: None,
        }));
        Event::Message(Arc::new(Message {
            role: Role::Assistant,
            content,
            ..Message::user_text(String::new())
        }))
    }

    fn result(id: &str, text: &str) -> Event {
        let (name, status) = ("bash".to_owned(), ToolCallStatus::Completed);
        Event::ToolCall(ToolCallUpdate {
            result: Some(Arc::new(ToolResult::ok(text))),
            ..ToolCallUpdate::new(ToolCallId::from(id), name, String::new(), status)
        })
    }

    fn fold(events: &[Event]) -> History {
        let mut history = History::default();
        events.iter().for_each(|event| history.apply(event));
        history
    }

    /// Asserts I4, as the mock LLM checks it on the wire.
    fn assert_valid(messages: &[Arc<HistoryItem>]) {
        let mut expected: Vec<&ToolCallId> = Vec::new();
        for item in messages {
            let message = &item.message;
            assert!(!message.content.is_empty());
            if message.role == Role::Tool {
                let got: Vec<_> = message
                    .content
                    .iter()
                    .map(|block| match block {
                        Block::ToolResult { id, .. } => id,
                        other => panic!("{other:?} in a tool message"),
                    })
                    .collect();
                assert_eq!(got, expected);
                expected.clear();
            } else {
                assert!(expected.is_empty(), "calls without results: {expected:?}");
                expected = message.tool_uses().map(|(id, _, _)| id).collect();
            }
        }
        assert!(expected.is_empty());
    }

    #[test]
    fn results_are_sent_in_call_order_before_a_waiting_steer() {
        let history = fold(&[
            user("go"),
            assistant("", &["a", "b"]),
            result("b", "2"),
            user("steer"),
            result("a", "1"),
        ]);
        let messages = history.to_messages();
        assert_valid(&messages);
        assert_eq!(messages.len(), 4);
        assert_eq!(messages[3].message.text(), "steer");
    }

    #[test]
    fn open_calls_get_a_result_when_the_history_is_sent() {
        let history = fold(&[user("go"), assistant("", &["a", "b"]), result("a", "1")]);
        assert_valid(&history.to_messages());
        assert_eq!(
            history
                .open_calls()
                .map(|call| call.id.as_str())
                .collect::<Vec<_>>(),
            ["b"]
        );
    }

    #[test]
    fn a_message_of_reasoning_alone_is_omitted() {
        let empty = Message {
            role: Role::Assistant,
            content: vec![Block::Reasoning {
                text: "hm".into(),
                signature: None,
                redacted: false,
            }],
            ..Message::user_text("")
        };
        let history = fold(&[user("go"), Event::Message(Arc::new(empty))]);
        assert_eq!(history.to_messages().len(), 1);
    }

    proptest! {
        #[test]
        fn the_history_is_valid_after_any_sequence_of_events(steps in prop::collection::vec(0u8..6, 0..60)) {
            let mut history = History::default();
            let mut calls = Vec::new();
            history.apply(&user("start"));
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    0 => history.apply(&user(&format!("u{n}"))),
                    1 => {
                        calls = vec![format!("c{n}a"), format!("c{n}b")];
                        let ids: Vec<&str> = calls.iter().map(String::as_str).collect();
                        history.apply(&assistant("t", &ids));
                    }
                    2 => history.apply(&assistant("plain", &[])),
                    3 => if let Some(id) = calls.pop() { history.apply(&result(&id, "r")) },
                    4 => if let Some(id) = calls.first() { history.apply(&result(id, "again")) },
                    _ => history.apply(&result("nobody", "r")),
                }
                assert_valid(&history.to_messages());
            }
        }
    }
}
