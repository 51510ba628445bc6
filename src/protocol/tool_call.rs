//! Tool calls: their progress, live input and output, and the list of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventHeader, Image, TruncatedFields};

/// The state of a tool call. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallStatus {
    /// Its input is complete.
    Pending,
    /// It waits for the user's approval, or was allowed and waits for the end of earlier calls.
    AwaitingApproval,
    /// It is running.
    Running,
    /// It returned a result.
    Completed,
    /// It returned an error.
    Failed,
    /// The user or a policy denied it.
    Denied,
    /// A cancel, a crash or the end of the server came first.
    Cancelled,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// The file's URI.
    pub uri: String,
    /// The line, from 1; absent for the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Params of `agent/toolCall`: the status, and what changed since the previous one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The call.
    pub tool_call_id: String,
    /// The tool's name.
    pub name: String,
    /// One line for the user.
    pub title: String,
    /// Its state now.
    pub status: ToolCallStatus,
    /// Its arguments, if they are new or the user edited them; long strings in them may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Its output, safe to show; present exactly if the status is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Images in its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Its planned or finished changes, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The files it affects; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// Its duration in ms, without the wait for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Exit code of a command, or 128 plus the number of the signal that killed it. Any value but 0 makes the status
    /// `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The call that delegated to the sub-agent which made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/toolInputDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInputDeltaNotification {
    /// The session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The message that requests it. Once it is complete, a call that it does not contain is void.
    pub message_id: String,
    /// The call.
    pub tool_call_id: String,
    /// The tool's name.
    pub name: String,
    /// A piece of the JSON of its arguments.
    pub text: String,
}

/// Params of `agent/toolOutputDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutputDeltaNotification {
    /// The session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The call.
    pub tool_call_id: String,
    /// A piece of its output, safe to show.
    pub text: String,
}

/// Params of `agent/listTools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsParams {
    /// The session whose agent's tools are listed; absent for all tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listTools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsResult {
    /// The tools, by name.
    pub tools: Vec<ToolInfo>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}
