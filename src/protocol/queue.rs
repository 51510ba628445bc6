//! Prompts that wait for the turn's end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MessageBlock, PromptContent};

/// What is done with the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueueAction {
    /// Nothing: it is only told.
    List,
    /// `prompt` is put at its end. Where no turn is running and nothing waits or is paused, it starts at once.
    Add,
    /// `prompt` takes the place of the one named by `promptId`.
    Edit,
    /// The one named by `promptId` is taken out.
    Remove,
    /// The one named by `promptId`, else the next one, is sent now, and the queue goes on from there: while a turn is
    /// running as a steer of it, else as a turn of its own. A turn that is being cancelled is waited for.
    SendNow,
}

/// Params of `agent/queue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueParams {
    /// The session.
    pub session_id: String,
    /// What to do.
    pub action: QueueAction,
    /// Which prompt: needed by `edit` and `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// What the person says: needed by `add` and `edit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptContent>,
}

/// Result of `agent/queue`: what waits after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResult {
    /// Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted. `sendNow`, or a
    /// later turn that completes, sets it going again.
    pub paused: bool,
    /// What waits, the next one first.
    pub prompts: Vec<QueuedContent>,
    /// The prompt that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// The turn that took the prompt: one that it started, or the running one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// A prompt that waits, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedContent {
    /// What it is edited, removed and sent by.
    pub prompt_id: String,
    /// What the person said.
    pub content: Vec<MessageBlock>,
}

/// The queue as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted.
    pub paused: bool,
    /// What waits, the next one first.
    pub prompts: Vec<QueuedPrompt>,
}

/// A prompt that waits, as it is shown. `agent/queue` tells the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedPrompt {
    /// What it is edited, removed and sent by.
    pub prompt_id: String,
    /// The start of its text, on one line.
    pub text: String,
}
