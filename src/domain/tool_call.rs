//! Tool calls as clients see them, and their results as the model sees them.
//!
//! Plain values; `tool` runs the calls, and `turn` decides in which order.

use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::ToolCallId;
use super::media::MediaData;
use super::optional::deserialize_present;
use super::words::word_enum;

word_enum! {
    /// The progress of a tool call. The last four are final.
    pub enum ToolCallStatus {
        /// The input is complete, and nothing has started.
        Pending = "pending",
        /// The user is asked for approval.
        AwaitingApproval = "awaiting_approval",
        Running = "running",
        /// Returned a result.
        Completed = "completed",
        /// Returned an error result.
        Failed = "failed",
        /// Rejected by the user or by a policy.
        Denied = "denied",
        /// Ended by a cancel, a crash, or the end of the server.
        Cancelled = "cancelled",
    }
}

impl ToolCallStatus {
    /// Returns whether no other status can follow.
    pub fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::AwaitingApproval | Self::Running => false,
            Self::Completed | Self::Failed | Self::Denied | Self::Cancelled => true,
        }
    }
}

/// A change of a tool call: its status, and whatever else changed since the last update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ToolCallUpdate {
    pub id: ToolCallId,
    pub name: String,
    /// A one-line summary for users.
    pub title: String,
    pub status: ToolCallStatus,
    /// The input, if it is new or was edited by the user.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_optional_json()"))]
    pub input: Option<Arc<Value>>,
    /// The result; present exactly when the status is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<ToolResult>>,
    /// A unified diff of the change that it would make or has made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Arc<str>>,
    /// The files that it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub locations: Vec<FileLocation>,
    /// How long it ran, without the wait for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The exit code of the command that the call ran, or 128 plus the number of the signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// For a call made by a sub-agent: the parent's tool call that started the sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ToolCallId>,
}

impl ToolCallUpdate {
    /// Creates a change of nothing but the status.
    pub fn new(id: ToolCallId, name: String, title: String, status: ToolCallStatus) -> Self {
        Self {
            id,
            name,
            title,
            status,
            input: None,
            result: None,
            diff: None,
            locations: Vec::new(),
            duration_ms: None,
            exit_code: None,
            parent: None,
        }
    }

    /// Adds what an earlier change of the same call says and this one does not repeat.
    #[must_use]
    pub fn merge_earlier(mut self, earlier: &Self) -> Self {
        self.input = self.input.or_else(|| earlier.input.clone());
        self.diff = self.diff.or_else(|| earlier.diff.clone());
        if self.locations.is_empty() {
            self.locations.clone_from(&earlier.locations);
        }
        self
    }
}

/// A place in a file that a client can open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FileLocation {
    pub uri: String,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ToolResult {
    /// What the model reads; long output is cut in the middle (R-TOOL-1).
    pub text: String,
    /// What the model sees besides the text.
    #[serde(default, rename = "images", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub media: Vec<MediaData>,
    /// Whether the model receives it as an error.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_error: bool,
    /// The complete output, if `text` was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<ContentRef>,
}

/// A reference to stored content that clients read in pieces with `agent/readContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ContentRef {
    /// The name, unique within the session.
    pub name: String,
    /// The length of the complete content.
    pub bytes: u64,
}

impl ToolResult {
    /// Returns the media that every client and every model with pictures can show.
    pub fn pictures(&self) -> impl Iterator<Item = &MediaData> {
        self.media.iter().filter(|media| !media.is_document())
    }

    /// Returns a successful result of plain text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Returns an error result of plain text.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }
}

/// The description of a tool that the model receives.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    /// What the tool does and when to use it.
    pub description: String,
    /// The JSON Schema of the input, generated once.
    pub schema: Arc<Value>,
    /// How models call it with plain text instead of JSON, where the API allows that.
    pub freeform: Option<FreeformInput>,
}

/// An input that models write as plain text, by a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeformInput {
    /// The only field of the JSON input, which holds the text.
    pub field: &'static str,
    /// The grammar of the text, in the notation of Lark.
    pub grammar: &'static str,
}
