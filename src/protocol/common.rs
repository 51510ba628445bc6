//! Types that many messages share: the header of a durable event, who settled a question, cut fields, positions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to a request that returns no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyResult {}

/// The header of every durable notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventHeader {
    /// The session that it belongs to.
    pub session_id: String,
    /// Its number in the session. Numbers start at 1, without gaps or repeats.
    pub seq: u64,
    /// The turn that caused it; absent if no turn did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// When it happened, in ms since the Unix epoch.
    pub at: i64,
}

/// What settled an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SettledBy {
    /// The user answered.
    Person,
    /// A rule or a grant was added in the meantime.
    Rule,
    /// A cancel denied it.
    Cancel,
    /// It timed out.
    Timeout,
    /// The user sent a new prompt instead.
    NewPrompt,
}

/// A reference to the full text of a cut field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TruncatedField {
    /// The `ref` for `agent/readContent`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Length of the full text, in UTF-8 bytes.
    pub bytes: u64,
    /// The end of the full text, at most 64 KiB; only for output. It never overlaps with the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// The cut fields of an object: the name of each, and the reference to its full text.
pub type TruncatedFields = BTreeMap<String, TruncatedField>;

/// A position in a document, as in LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// The character in the line, from 0, in the units of the negotiated position encoding.
    pub character: u32,
}

/// A range in a document, as in LSP: the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The start of the range.
    pub start: Position,
    /// The position after its last character.
    pub end: Position,
}

/// Tokens of one or several model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Input tokens that were neither read from nor written to a prompt cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write_tokens: u64,
}

/// Whether a flag is unset, for `skip_serializing_if`.
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}
