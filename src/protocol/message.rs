//! Messages: completed, retracted, and the deltas of one in progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::is_false;
use super::{EventHeader, MoreFields};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// Results of the tool calls that the message before asked for.
    Tool,
}

/// What a reference points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReferenceKind {
    /// A file or a range of it.
    File,
    /// What the person had selected.
    Selection,
    /// A diagnostic of the editor.
    Diagnostic,
}

/// A part of a message in the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MessageBlock {
    /// Text: Markdown when the model speaks.
    Text {
        /// The text.
        text: String,
        /// Where the whole of a cut field is.
        #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
        more: MoreFields,
    },
    /// The model's reasoning, as far as its provider shows it.
    Reasoning {
        /// The text; empty when the provider hides it.
        text: String,
        /// Where the whole of a cut field is.
        #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
        more: MoreFields,
    },
    /// The model asks for a tool. How that goes is told by `agent/toolCall`.
    ToolUse {
        /// The call.
        tool_call_id: String,
        /// The tool's name.
        name: String,
        /// Its arguments; long strings in it may be cut.
        input: Value,
        /// Where the whole of a cut field is.
        #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
        more: MoreFields,
    },
    /// A tool call has its result; what it is stands in that call's `agent/toolCall`.
    ToolResult {
        /// The call.
        tool_call_id: String,
        /// Whether the result is an error to the model.
        is_error: bool,
    },
    /// A picture.
    Image(Image),
    /// Something in a file that the person points at, with the text it had then.
    Reference {
        /// What it is.
        kind: ReferenceKind,
        /// The file's path from the session's folder, `rootName/path` in another root, absolute outside of all.
        path: String,
        /// The first line, from 1; absent: the whole file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_line: Option<u32>,
        /// The last line, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_line: Option<u32>,
        /// The text, or the diagnostic's message.
        text: String,
        /// Where the whole of a cut field is.
        #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
        more: MoreFields,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The bytes in Base64; absent when they are too long, then `more.data` says where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The message.
    pub message_id: String,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<MessageBlock>,
    /// Cut by a cancel, a crash or an error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub incomplete: bool,
    /// Meant for the model only (continuation prompts, nudges): not shown in the chat.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Where the whole of `content` is, as a JSON array, when there were too many blocks.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/messageRetracted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageRetractedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The message that is void.
    pub message_id: String,
    /// The tool calls that it had begun to ask for.
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
    /// UTF-8 bytes of this message's text before this piece.
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
    /// UTF-8 bytes of this message's reasoning before this piece; counted apart from its text.
    pub offset: u64,
    /// The piece.
    pub text: String,
}
