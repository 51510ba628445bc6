//! The history of a session as updates, for `session/load`. Each call appears once, in its last state.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::feed::build_call;
use super::held_text::{ChunkKind, reasoning_text};
use super::updates;
use crate::domain::{ChangeState, Cost, Event, Message, Role, ToolCallId, ToolCallUpdate, TurnDiff};
use crate::store::StoredEvent;

/// Collects the updates of a history, event by event.
pub(super) struct Replay<'a> {
    cwd: &'a Path,
    /// Calls that have not ended.
    open: BTreeMap<ToolCallId, ToolCallUpdate>,
    plan: Option<Value>,
    usage: Option<Value>,
    /// The window and the cost of the last call.
    last_usage: Option<(u64, Option<Cost>)>,
    title: Option<Value>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(cwd: &'a Path) -> Self {
        Self {
            cwd,
            open: BTreeMap::new(),
            plan: None,
            usage: None,
            last_usage: None,
            title: None,
        }
    }

    /// Takes the next event. Returns its updates.
    pub(super) fn add_event(&mut self, stored: &StoredEvent) -> Vec<Value> {
        self.usage = updates::usage(&stored.event, &mut self.last_usage).or(self.usage.take());
        match &stored.event {
            Event::Message(message) if !message.hidden => self.show_message(message),
            Event::ToolCall(update) => self.add_call(update),
            Event::Plan { items } => {
                self.plan = Some(updates::plan(items));
                Vec::new()
            }
            Event::SessionUpdated {
                title: Some(title), ..
            } => {
                self.title = Some(updates::title(title));
                Vec::new()
            }
            Event::TurnDiff(diff) if diff.state != ChangeState::Made => {
                let id = format!("note_{}", stored.seq);
                vec![updates::text_chunk(
                    "agent_message_chunk",
                    &id,
                    &describe_restored(diff),
                )]
            }
            _ => Vec::new(),
        }
    }

    /// Ends the history: returns the last plan, title and usage.
    pub(super) fn finish(self) -> impl Iterator<Item = Value> {
        [self.plan, self.title, self.usage].into_iter().flatten()
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

/// Says which changes another client has undone, or made again.
fn describe_restored(diff: &TurnDiff) -> String {
    let is_redone = diff.state == ChangeState::Redone;
    let done = if is_redone { "redone" } else { "undone" };
    let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
    let more = match diff.unlisted {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\n\n> The agent's changes were {done} in: {}{more}.\n\n",
        paths.join(", ")
    )
}
