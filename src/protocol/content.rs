//! Reading on where a notification was cut.

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
    /// Where to begin, in bytes; 0 when absent.
    #[serde(default)]
    pub offset: u64,
    /// How many bytes at most; 65,536 when absent, at most 1,048,576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Result of `agent/readContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadContentResult {
    /// The piece. It begins and ends on whole characters, so it may be a few bytes shorter than `limit`.
    pub text: String,
    /// Where to read on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The length of the whole, in bytes.
    pub bytes: u64,
}
