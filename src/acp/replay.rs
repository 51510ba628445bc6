//! The history of a session as updates, for `session/load`. Each call appears once, in its last state.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::feed::build_call;
use super::held_text::{ChunkKind, reasoning_text};
use super::updates;
use crate::domain::{Event, Message, Role, ToolCallId, ToolCallUpdate};

/// Collects the updates of a history, event by event.
pub(super) struct Replay<'a> {
    cwd: &'a Path,
    /// Calls that have not ended.
    open: BTreeMap<ToolCallId, ToolCallUpdate>,
    plan: Option<Value>,
    usage: Option<Value>,
    title: Option<Value>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(cwd: &'a Path) -> Self {
        Self {
            cwd,
            open: BTreeMap::new(),
            plan: None,
            usage: None,
            title: None,
        }
    }

    /// Takes the next event. Returns its updates.
    pub(super) fn add_event(&mut self, event: &Event) -> Vec<Value> {
        match event {
            Event::Message(message) if !message.hidden => self.show_message(message),
            Event::ToolCall(update) => self.add_call(update),
            Event::Plan { items } => {
                self.plan = Some(updates::plan(items));
                Vec::new()
            }
            Event::Usage {
                context_used,
                window,
                session_cost,
                ..
            } => {
                self.usage = Some(updates::usage(*context_used, *window, *session_cost));
                Vec::new()
            }
            Event::SessionUpdated {
                title: Some(title), ..
            } => {
                self.title = Some(updates::title(title));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Ends the history: returns the last plan, title and usage, and the calls that have not ended.
    pub(super) fn finish(self) -> (impl Iterator<Item = Value>, Vec<ToolCallUpdate>) {
        let last = [self.plan, self.title, self.usage].into_iter().flatten();
        (last, self.open.into_values().collect())
    }

    fn show_message(&self, message: &Message) -> Vec<Value> {
        let id = message.id.as_str();
        match message.role {
            Role::User => {
                let blocks = message.content.iter();
                let blocks = blocks.filter_map(|block| updates::user_block(block, self.cwd));
                blocks
                    .map(|block| {
                        serde_json::json!({
                            "sessionUpdate": "user_message_chunk", "messageId": id, "content": block,
                        })
                    })
                    .collect()
            }
            Role::Assistant => {
                let texts = [
                    (ChunkKind::Thought, reasoning_text(message)),
                    (ChunkKind::Text, message.text()),
                ];
                let visible = texts.into_iter().filter(|(_, text)| !text.is_empty());
                visible
                    .map(|(kind, text)| updates::text_chunk(updates::chunk_name(kind), id, &text))
                    .collect()
            }
            // Calls show their results.
            Role::Tool => Vec::new(),
        }
    }

    fn add_call(&mut self, update: &ToolCallUpdate) -> Vec<Value> {
        let call = match self.open.remove(&update.id) {
            Some(known) => update.clone().merge_earlier(&known),
            None => update.clone(),
        };
        if call.status.is_final() {
            return vec![build_call(&call, &mut Vec::new(), true, self.cwd)];
        }
        self.open.insert(call.id.clone(), call);
        Vec::new()
    }
}
