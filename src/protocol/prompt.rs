//! What a person says: `agent/prompt`, `agent/steer`, `agent/resumeTurn`, `agent/compact` and the cancel.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ErrorData, Range, TerminalReason, TokenUsage, TurnState};

/// What a person says: plain text, or a list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PromptContent {
    /// Plain text.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<PromptBlock>),
}

// By hand, because a derived untagged enum says of every mistake only that nothing matched.
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

/// A part of what a person says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PromptBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file or a part of it; the server reads it, with the editor's unsaved text.
    Reference {
        /// The file's URI.
        uri: String,
        /// The part; absent: the whole file. It is widened to whole lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<Range>,
    },
    /// What the person has selected in the editor.
    Selection {
        /// The file's URI.
        uri: String,
        /// The selected part.
        range: Range,
        /// The selected text; absent: the server reads the lines of `range`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A diagnostic that the editor shows.
    Diagnostic {
        /// The file's URI.
        uri: String,
        /// The part that it is about.
        range: Range,
        /// Its message.
        message: String,
        /// How grave it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        severity: Option<Severity>,
        /// Who found it: a compiler, a linter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A picture.
    Image {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The bytes in Base64, with padding, without line breaks.
        data: String,
    },
}

/// How grave a diagnostic or a problem is.
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
    /// What the person says.
    pub prompt: PromptContent,
}

/// How a turn ended; the answer to `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and the `data` of the
/// error that answers them after `$/cancelRequest`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResult {
    /// The turn.
    pub turn_id: String,
    /// Why it ended.
    pub reason: TerminalReason,
    /// How it ended, in one word.
    pub state: TurnState,
    /// The text of the final answer, whole; empty when there is none.
    pub text: String,
    /// The turn's tokens.
    pub usage: TokenUsage,
    /// What the turn cost, in US dollars; absent when the model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorData>,
    /// Only of `agent/compact`: tokens of the conversation before, as estimated; absent when nothing was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// And after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}

/// Params of `agent/steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerParams {
    /// The session.
    pub session_id: String,
    /// What the person adds.
    pub prompt: PromptContent,
    /// The turn that it is meant for; when another or none is running, it is refused. Absent: whichever
    /// is running.
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
    /// What the summary shall keep, for the model that writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Params of `agent/resumeTurn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeTurnParams {
    /// The session whose last turn was interrupted or cancelled.
    pub session_id: String,
}

/// Params of the client's notification `agent/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelNotification {
    /// The session.
    pub session_id: String,
    /// The turn that is meant; when another is running, nothing happens. Absent: whichever is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}
