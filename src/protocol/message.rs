//! Messages: completed and retracted ones, and the deltas of one in progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::is_false;
use super::{EventHeader, TruncatedFields};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The results of the tool calls that the previous message requested.
    Tool,
}

/// The kind of a reference's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReferenceKind {
    /// A file or a range of it.
    File,
    /// The user's selection.
    Selection,
    /// A diagnostic from the editor.
    Diagnostic,
    /// A resource of an MCP server.
    Resource,
    /// A prompt of an MCP server, which the user has called as a slash command.
    Prompt,
}

/// A part of a message in the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MessageBlock {
    /// Text; the model writes Markdown.
    Text {
        /// The text.
        text: String,
        /// References to the full text of cut fields.
        #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
        more: TruncatedFields,
    },
    /// The model's reasoning, as far as its provider reveals it.
    Reasoning {
        /// The text; empty if the provider hides it.
        text: String,
        /// References to the full text of cut fields.
        #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
        more: TruncatedFields,
    },
    /// The model requests a tool. `agent/toolCall` reports the progress.
    ToolUse {
        /// The call.
        tool_call_id: String,
        /// The tool's name.
        name: String,
        /// The arguments; long strings in them may be cut.
        input: Value,
        /// References to the full text of cut fields.
        #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
        more: TruncatedFields,
    },
    /// A tool call has its result, which is in that call's `agent/toolCall`.
    ToolResult {
        /// The tool call.
        tool_call_id: String,
        /// Whether the result is an error to the model.
        is_error: bool,
    },
    /// An image.
    Image(Image),
    /// A place in a file that the user points at, or content of an MCP server, with its text at that time.
    Reference {
        /// The kind of the target.
        kind: ReferenceKind,
        /// The file's path: relative to the session's folder, `rootName/path` in another root, absolute elsewhere. Not
        /// a path for content of an MCP server: `server:uri` of a resource, `server/name` of a prompt.
        path: String,
        /// The first line, from 1; absent for the whole file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_line: Option<u32>,
        /// The last line, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_line: Option<u32>,
        /// The text, or the message of a diagnostic.
        text: String,
        /// References to the full text of cut fields.
        #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
        more: TruncatedFields,
    },
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The bytes in Base64. Absent if they are too long; then `more.data` refers to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The message.
    pub message_id: String,
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub content: Vec<MessageBlock>,
    /// Whether a cancel, a crash or an error cut the message.
    #[serde(default, skip_serializing_if = "is_false")]
    pub incomplete: bool,
    /// Whether it is for the model only (continuation prompts, nudges). Do not show it in the chat.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Reference to the whole `content` as a JSON array, if there were too many blocks.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/messageRetracted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageRetractedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The retracted message.
    pub message_id: String,
    /// The tool calls that it had started to request.
    pub tool_call_ids: Vec<String>,
}

/// Params of `agent/textDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextDeltaNotification {
    /// The session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The message.
    pub message_id: String,
    /// Length of this message's text before this piece, in UTF-8 bytes.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// Params of `agent/reasoningDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningDeltaNotification {
    /// The session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The message.
    pub message_id: String,
    /// Length of this message's reasoning before this piece, in UTF-8 bytes. The text is counted separately.
    pub offset: u64,
    /// The piece.
    pub text: String,
}
