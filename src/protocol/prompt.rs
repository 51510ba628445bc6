//! The user's input: `agent/prompt`, `agent/steer`, `agent/resumeTurn`, `agent/compact`, and the cancel.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ErrorData, Range, TerminalReason, TokenUsage, TurnState};

/// The user's input: plain text, or a list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PromptContent {
    /// Plain text.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<PromptBlock>),
}

// Written by hand: a derived untagged enum reports each mistake only as "no variant matched".
impl<'de> Deserialize<'de> for PromptContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;
        impl<'de> Visitor<'de> for Content {
            type Value = PromptContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of content blocks in `prompt`")
            }

            fn visit_str<E>(self, text: &str) -> Result<PromptContent, E> {
                Ok(PromptContent::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<PromptContent, E> {
                Ok(PromptContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<PromptContent, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(blocks)).map(PromptContent::Blocks)
            }
        }
        deserializer.deserialize_any(Content)
    }
}

/// A part of the user's input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PromptBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file or a part of it. The server reads it, including the editor's unsaved text.
    Reference {
        /// The file's URI.
        uri: String,
        /// The part, extended to whole lines; absent for the whole file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<Range>,
    },
    /// The user's selection in the editor.
    Selection {
        /// The file's URI.
        uri: String,
        /// The selected range.
        range: Range,
        /// The selected text; if absent, the server reads the lines of `range`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A diagnostic that the editor shows.
    Diagnostic {
        /// The file's URI.
        uri: String,
        /// The range that it is about.
        range: Range,
        /// Its message.
        message: String,
        /// Its severity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        severity: Option<Severity>,
        /// Its source: a compiler or a linter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// An image.
    Image {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The bytes in Base64, with padding, without line breaks.
        data: String,
    },
}

/// The severity of a diagnostic or a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It is wrong.
    Error,
    /// It is doubtful.
    Warning,
    /// It is worth knowing.
    Information,
    /// It could be better.
    Hint,
}

/// Params of `agent/prompt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// The session.
    pub session_id: String,
    /// The user's input.
    pub prompt: PromptContent,
}

/// The end of a turn. It answers `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and is the `data` of the error
/// that answers them after `$/cancelRequest`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResult {
    /// The turn.
    pub turn_id: String,
    /// The reason why it ended.
    pub reason: TerminalReason,
    /// The outcome in one word.
    pub state: TurnState,
    /// The full text of the final answer; empty if there is none.
    pub text: String,
    /// Tokens of the turn.
    pub usage: TokenUsage,
    /// Cost of the turn in US dollars; absent if the model's price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorData>,
    /// Only for `agent/compact`: estimated tokens of the conversation before; absent if nothing was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Only for `agent/compact`: estimated tokens of the conversation after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}

/// Params of `agent/steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerParams {
    /// The session.
    pub session_id: String,
    /// The user's addition.
    pub prompt: PromptContent,
    /// The turn that it is meant for; the request fails if that turn is not running. Absent for any running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<String>,
}

/// Result of `agent/steer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerResult {
    /// The turn that it joins.
    pub turn_id: String,
}

/// Params of `agent/compact`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactParams {
    /// The session.
    pub session_id: String,
    /// What the summary should keep, for the model that writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Params of `agent/resumeTurn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeTurnParams {
    /// The session whose last turn was interrupted or canceled.
    pub session_id: String,
}

/// Params of the client's notification `agent/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelNotification {
    /// The session.
    pub session_id: String,
    /// The turn to cancel; nothing happens if another one is running. Absent for any running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}
