//! Reading the rest of fields that a notification cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `agent/readContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadContentParams {
    /// The session.
    pub session_id: String,
    /// The `ref` of a cut field.
    #[serde(rename = "ref")]
    pub reference: String,
    /// First byte to read; 0 by default.
    #[serde(default)]
    pub offset: u64,
    /// Largest number of bytes: 65,536 by default, at most 1,048,576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Result of `agent/readContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadContentResult {
    /// The piece. It consists of whole characters, so it may be a few bytes shorter than `limit`.
    pub text: String,
    /// The `offset` of the next piece; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Length of the full content, in bytes.
    pub bytes: u64,
}
