//! Messages: the units of history, independent of any provider's shape.

use std::sync::Arc;

use serde_json::Value;

use super::ids::{MessageId, ToolCallId};
use super::tool_call::ToolResult;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// Results of the tool calls that the message before asked for.
    Tool,
}

/// A message of the history. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id, unique in the store.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
    /// Cut by a cancel, a crash or an error.
    pub incomplete: bool,
    /// Meant for the model only (continuation prompts, nudges); clients do not show it in the chat.
    pub hidden: bool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text.
    Text(String),
    /// The model's reasoning, as far as its provider shows it.
    Reasoning {
        /// The text; may be empty where only the signature was given.
        text: String,
        /// The provider's proof, without which it takes no reasoning back; of opaque reasoning all there is.
        signature: Option<Signature>,
        /// Opaque reasoning, sent back as it came: the signature's value is its data.
        redacted: bool,
    },
    /// The model asks for a tool.
    ToolUse {
        /// Our id of the call.
        id: ToolCallId,
        /// The tool's name.
        name: String,
        /// Its arguments.
        input: Arc<Value>,
        /// What its provider attached to the call.
        attached: Option<Arc<ProviderCall>>,
    },
    /// What a tool call gave, for the model.
    ToolResult {
        /// The call that this answers.
        id: ToolCallId,
        /// The result.
        result: Arc<ToolResult>,
    },
    /// A picture.
    Image(ImageData),
    /// Something in a file that the person points at.
    Reference(Reference),
}

/// What a provider gave with its reasoning. No other provider or model takes it (R-LOOP-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The proof, or opaque reasoning itself.
    pub value: String,
    /// Who gave it, as the provider names itself and the model; none when that is not known.
    pub origin: Option<Arc<str>>,
}

impl Signature {
    /// Whether `origin` takes it back.
    pub fn is_of(&self, origin: &str) -> bool {
        !self.value.is_empty() && self.origin.as_deref() == Some(origin)
    }
}

/// What a provider attached to a tool call. Only its origin gets it back; every other provider sees our id (R-LOOP-4).
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderCall {
    /// The provider's id of the call, unique in the history that led to it.
    pub id: Option<String>,
    /// Opaque data that the provider requires with the call (Gemini's `extra_content`).
    pub extra: Option<Arc<Value>>,
    /// The provider and model, as in [`Signature::origin`].
    pub origin: Arc<str>,
}

/// A picture's bytes, in the form that every provider takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageData {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Base64.
    pub data: Arc<str>,
}

/// What kind of thing a [`Reference`] points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// A whole file or a range of it.
    File,
    /// What the person has selected.
    Selection,
    /// A diagnostic of the editor.
    Diagnostic,
}

/// Something in a file that the person points at, with the text it had then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it is.
    pub kind: ReferenceKind,
    /// The file's path as the tools tell it: from the session's folder, or with the name of another root.
    pub path: String,
    /// First and last line, from 1.
    pub lines: Option<(u32, u32)>,
    /// The text, or the diagnostic's message.
    pub text: String,
}

impl Message {
    /// A user's message of plain text.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self {
            id: MessageId::new_random(),
            role: Role::User,
            content: vec![Block::Text(text.into())],
            incomplete: false,
            hidden: false,
        }
    }

    /// All text of the message, joined by nothing.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tool calls that the message asks for, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = (&ToolCallId, &str, &Arc<Value>)> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some((id, name.as_str(), input)),
            _ => None,
        })
    }
}

impl Reference {
    /// How the reference reads to the model.
    pub fn to_prompt_text(&self) -> String {
        let what = match self.kind {
            ReferenceKind::File => "file",
            ReferenceKind::Selection => "selection",
            ReferenceKind::Diagnostic => "diagnostic",
        };
        let lines = self
            .lines
            .map(|(from, to)| format!(" lines=\"{from}-{to}\""))
            .unwrap_or_default();
        format!("<{what} path=\"{}\"{lines}>\n{}\n</{what}>", self.path, self.text)
    }
}
