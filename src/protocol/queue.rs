//! Prompts that wait for the end of the running turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MessageBlock, PromptContent};

/// An action on the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueueAction {
    /// Changes nothing and returns the queue.
    List,
    /// Appends `prompt`. It starts immediately if no turn is running, nothing else waits and the queue is not paused.
    Add,
    /// Replaces the prompt named by `promptId` with `prompt`.
    Edit,
    /// Removes the prompt named by `promptId`.
    Remove,
    /// Sends the prompt named by `promptId`, or the next one, now, and resumes the queue. A running turn gets it as a
    /// steer; otherwise it starts a turn of its own. If a turn is being canceled, the prompt waits for its end.
    SendNow,
}

/// Params of `agent/queue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueParams {
    /// The session.
    pub session_id: String,
    /// The action.
    pub action: QueueAction,
    /// The prompt; required by `edit` and `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// The user's prompt; required by `add` and `edit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptContent>,
}

/// Result of `agent/queue`: the queue after the action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResult {
    /// Whether the queue waits for `sendNow`, because the last turn was canceled, failed or was interrupted. A later
    /// turn that completes also resumes it.
    pub paused: bool,
    /// The waiting prompts, the next one first.
    pub prompts: Vec<QueuedContent>,
    /// The prompt that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// The turn that took the prompt: one that it started, or the running one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// A waiting prompt with its full content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedContent {
    /// The id to edit, remove or send it by.
    pub prompt_id: String,
    /// The user's prompt.
    pub content: Vec<MessageBlock>,
}

/// The queue as clients show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Whether it starts nothing by itself, because the last turn was canceled, failed or was interrupted.
    pub paused: bool,
    /// The waiting prompts, the next one first.
    pub prompts: Vec<QueuedPrompt>,
}

/// A waiting prompt as clients show it. `agent/queue` returns its full content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedPrompt {
    /// The id to edit, remove or send it by.
    pub prompt_id: String,
    /// The start of its text, on one line.
    pub text: String,
}
