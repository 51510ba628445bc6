//! Tool calls: their course, live input and output, and the list of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventHeader, Image, MoreFields};

/// Where a tool call stands. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallStatus {
    /// Its input is complete.
    Pending,
    /// A person is asked.
    AwaitingApproval,
    /// It runs.
    Running,
    /// It gave a result.
    Completed,
    /// It gave an error result.
    Failed,
    /// A person or a policy said no.
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
    /// The line, from 1; absent: the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Params of `agent/toolCall`: the status, and what changed since the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The call.
    pub tool_call_id: String,
    /// The tool's name.
    pub name: String,
    /// A line for people.
    pub title: String,
    /// Where it stands now.
    pub status: ToolCallStatus,
    /// Its arguments, when they are new or were edited by the person; long strings in it may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What it gave, safe to show; present exactly when the status is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Pictures it gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// What it would change or has changed, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Files it concerns; at most 100 are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// How long it ran, in ms, without the wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How a command ended: its exit code, or 128 plus the number of the signal that killed it. Anything but 0 makes the
    /// status `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The call that delegated to the sub-agent which made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/toolInputDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInputDeltaNotification {
    /// The session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The message that asks. Once it has come, a call that it does not hold is void.
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
    /// The tools that this session's agent has; absent: all.
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

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does and when it is used.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}
