//! Disk shape of the list of waiting prompts, as it was shown; the prompts themselves are pending rows.

use serde::{Deserialize, Serialize};

use crate::domain::{PromptQueue, QueuedPrompt};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QueueRecord {
    paused: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prompts: Vec<QueuedPromptRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct QueuedPromptRecord {
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

impl From<&PromptQueue> for QueueRecord {
    fn from(queue: &PromptQueue) -> Self {
        let PromptQueue { paused, prompts } = queue;
        let prompt = |QueuedPrompt { id, text }: &QueuedPrompt| QueuedPromptRecord {
            id: id.clone(),
            text: text.clone(),
        };
        Self {
            paused: *paused,
            prompts: prompts.iter().map(prompt).collect(),
        }
    }
}

impl From<QueueRecord> for PromptQueue {
    fn from(record: QueueRecord) -> Self {
        let QueueRecord { paused, prompts } = record;
        let prompt = |QueuedPromptRecord { id, text }| QueuedPrompt { id, text };
        Self {
            paused,
            prompts: prompts.into_iter().map(prompt).collect(),
        }
    }
}
