//! What a provider yields.

use futures::stream::BoxStream;
use serde_json::Value;

use super::error::ProviderError;
use crate::domain::{Cost, Usage};

/// The events of one call.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Text.
    Text(String),
    /// Reasoning that may be shown.
    Reasoning(String),
    /// Proof of the reasoning before; closes that reasoning block.
    ReasoningSignature(String),
    /// Reasoning that is opaque; a block of its own.
    RedactedReasoning(String),
    /// The model begins to ask for a tool. `index` is unique within the answer.
    ToolUseStarted {
        /// Which tool use of this answer.
        index: u32,
        /// The tool's name.
        name: String,
    },
    /// What the provider attached to that tool use; it gets both back as they are.
    ToolUseAttached {
        /// Which tool use of this answer.
        index: u32,
        /// The provider's id of it.
        id: Option<String>,
        /// Opaque data.
        extra: Option<Value>,
    },
    /// A piece of that tool use's JSON input.
    ToolInput {
        /// Which tool use of this answer.
        index: u32,
        /// The piece.
        json: String,
    },
    /// That tool use's input is complete. Never sent for one that was cut off.
    ToolUseCompleted {
        /// Which tool use of this answer.
        index: u32,
    },
    /// What the call has used so far; the last one counts.
    Usage {
        /// Tokens.
        usage: Usage,
        /// What the provider says it costs; wins over our price table.
        cost: Option<Cost>,
    },
    /// The end; nothing follows.
    Stop(StopReason),
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It has said all.
    EndTurn,
    /// It wants tools to be run.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// It or a filter declined; the provider's words, where there are any.
    Refusal(Option<String>),
    /// The provider paused a long turn.
    PauseTurn,
    /// The window was full in the middle of the answer.
    WindowFull,
}
