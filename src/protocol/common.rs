//! What many messages share: the head of a durable event, cut fields, positions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to a request that has nothing to tell but that it was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyResult {}

/// What every durable notification begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventHeader {
    /// The session it belongs to.
    pub session_id: String,
    /// Its number in the session: from 1, no gap, no repeat.
    pub seq: u64,
    /// The turn that caused it; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// When it happened, in ms since the Unix epoch.
    pub at: i64,
}

/// Where the whole of a field is that was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct More {
    /// What `agent/readContent` takes as its `ref`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The length of the whole, in UTF-8 bytes.
    pub bytes: u64,
    /// The end of the whole, at most 64 KiB; only of output. It never overlaps with the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// For each field of an object that was cut: its name, and where the whole is.
pub type MoreFields = BTreeMap<String, More>;

/// A place in a document, as in LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// The character in the line, from 0, in the units of the negotiated position encoding.
    pub character: u32,
}

/// A part of a document, as in LSP: the end is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// Where it begins.
    pub start: Position,
    /// The place after its last character.
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

/// For `skip_serializing_if`.
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}
