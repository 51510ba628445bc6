//! Tool calls as clients see them, and their results as the model sees them.

use std::sync::Arc;

use serde_json::Value;

use super::ids::ToolCallId;
use super::message::ImageData;

/// Where a tool call stands. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl ToolCallStatus {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::AwaitingApproval | Self::Running => false,
            Self::Completed | Self::Failed | Self::Denied | Self::Cancelled => true,
        }
    }
}

/// A change of a tool call: the status and whatever else changed since the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallUpdate {
    /// Which call.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// A line for people.
    pub title: String,
    /// The status now.
    pub status: ToolCallStatus,
    /// The input, when it is new or was edited by the person.
    pub input: Option<Arc<Value>>,
    /// The result; present exactly when the status is final.
    pub result: Option<Arc<ToolResult>>,
    /// A unified diff of what it would change or has changed.
    pub diff: Option<Arc<str>>,
    /// Files it concerns.
    pub locations: Vec<Location>,
    /// How long it ran, without the wait for a person.
    pub duration_ms: Option<u64>,
    /// How the command ended that the call ran: its exit code, or 128 plus the number of the signal that killed it.
    pub exit_code: Option<i32>,
    /// The tool call of the parent that delegated to the sub-agent which made this one.
    pub parent: Option<ToolCallId>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's URI.
    pub uri: String,
    /// Line, from 1.
    pub line: Option<u32>,
}

/// What a tool call gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// What the model reads; cut in the middle beyond 30,000 characters (R-TOOL-1).
    pub text: String,
    /// Pictures for the model.
    pub images: Vec<ImageData>,
    /// Whether it is an error to the model.
    pub is_error: bool,
    /// Where the whole output is kept when `text` was cut.
    pub full: Option<ContentRef>,
}

/// Content kept aside, to be read back in pieces with `agent/readContent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRef {
    /// Its name within the session.
    pub name: String,
    /// Its whole length.
    pub bytes: u64,
}

impl ToolResult {
    /// A good result.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// An error result.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its input.
    pub schema: Value,
}
