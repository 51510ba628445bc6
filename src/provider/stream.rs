//! The events that a provider yields: one vocabulary for all APIs.
//!
//! Each decoder produces these, `turn` consumes them, and `cassette` stores them. Knows no API and no transport.

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::ProviderError;
use crate::domain::{Cost, Usage, WebSource};

/// The events of one call. Ends after exactly one [`StreamEvent::Stop`] or exactly one error.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    Text(String),
    /// Reasoning that may be displayed.
    Reasoning(String),
    /// The signature of the reasoning before it; closes that reasoning block.
    ReasoningSignature(String),
    /// Opaque reasoning; a separate block.
    RedactedReasoning(String),
    /// The model begins a tool call.
    ToolUseStarted {
        /// Unique within the answer.
        index: u32,
        name: String,
    },
    /// What the provider attached to a tool call; both values go back to it unchanged.
    ToolUseAttached {
        /// The index of the tool call.
        index: u32,
        /// The provider's own id of the call.
        id: Option<String>,
        /// Opaque data, such as Google's thought signature.
        extra: Option<Value>,
    },
    /// A piece of a tool call's JSON input.
    ToolInput {
        /// The index of the tool call.
        index: u32,
        json: String,
    },
    /// The input of a tool call is complete. Never sent for a call that was cut off, so such a call never runs.
    ToolUseCompleted {
        /// The index of the tool call.
        index: u32,
    },
    /// What the provider's own web search does. Only a request with `web_search` leads to it.
    Search(SearchReport),
    /// The usage so far; the last one counts.
    Usage {
        usage: Usage,
        /// The cost that the provider reports; overrides our price table (R-PROV-7).
        cost: Option<Cost>,
    },
    /// The end of the answer; nothing follows.
    Stop(StopReason),
}

/// A report of the provider's own web search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchReport {
    /// The number of searches so far; the last one counts.
    Searches(u32),
    /// A page that was found or cited. Providers may name the same one repeatedly.
    Source(WebSource),
    /// A search failed, with the provider's word for the reason.
    Failed(String),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    MaxTokens,
    /// The model or a filter declined, with the provider's explanation if there is one.
    Refusal(Option<String>),
    /// The provider paused a long turn.
    PauseTurn,
    /// The context window filled up during the answer.
    WindowFull,
}
