//! Messages: the units of history, independent of any provider's format.
//!
//! Plain values. `provider` translates them for each API, and leaves out what an API cannot carry (R-PROV-4).

use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::ids::{MessageId, ToolCallId};
use super::media::MediaData;
use super::optional::deserialize_present;
use super::tool_call::ToolResult;
use super::words::word_enum;

word_enum! {
    /// The author of a message.
    pub enum Role {
        User = "user",
        Assistant = "assistant",
        /// The results of the tool calls in the previous message.
        Tool = "tool",
    }
}

/// A message of the history. Its content is never empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Message {
    /// Unique in the store.
    pub id: MessageId,
    pub role: Role,
    /// The blocks, in the order they were written.
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub content: Vec<Block>,
    /// Whether a cancel, a crash, or an error cut it.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub incomplete: bool,
    /// Whether only the model sees it (continuation prompts, nudges); clients do not show it in the chat.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub hidden: bool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Plain or Markdown text.
    Text(String),
    /// The model's reasoning, as far as its provider reveals it.
    Reasoning {
        /// The text; empty if the provider sent only the signature.
        text: String,
        /// The provider's proof of authenticity, without which it rejects reasoning that is sent back.
        #[serde(flatten, deserialize_with = "deserialize_signature")]
        signature: Option<Signature>,
        /// Whether the reasoning is opaque: it is sent back unchanged, and the signature's value is its data.
        #[serde(default, skip_serializing_if = "Not::not")]
        redacted: bool,
    },
    /// A tool call that the model requests.
    ToolUse {
        /// Our id of the call, not the provider's.
        id: ToolCallId,
        name: String,
        /// The arguments.
        #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_json()"))]
        input: Arc<Value>,
        /// What the provider attached to the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        attached: Option<Arc<ProviderCall>>,
    },
    /// The result of a tool call, for the model.
    ToolResult {
        /// The call that this answers.
        id: ToolCallId,
        result: Arc<ToolResult>,
    },
    Image(MediaData),
    /// Something in a file that the user points at.
    Reference(Reference),
}

/// The proof or the opaque data that a provider sends with its reasoning. No other provider or model accepts it
/// (R-LOOP-4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Signature {
    /// The proof, or the opaque reasoning itself.
    #[serde(rename = "signature")]
    pub value: String,
    /// The provider and model that sent it; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<str>>,
}

/// Reads the fields of a signature, which are stored among those of its block. Early records have no origin.
fn deserialize_signature<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Signature>, D::Error> {
    #[derive(Deserialize)]
    struct SignatureFields {
        signature: Option<String>,
        origin: Option<Arc<str>>,
    }
    let SignatureFields { signature, origin } = SignatureFields::deserialize(deserializer)?;
    Ok(signature.map(|value| Signature { value, origin }))
}

impl Signature {
    /// Returns whether `origin` accepts the signature back.
    pub fn is_from(&self, origin: &str) -> bool {
        !self.value.is_empty() && self.origin.as_deref() == Some(origin)
    }
}

/// What a provider attached to a tool call. Only its origin gets it back; all others receive our id (R-LOOP-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ProviderCall {
    /// The provider's id of the call, unique in the history that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Opaque data that the provider requires with the call (Gemini's `extra_content`).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_optional_json()"))]
    pub extra: Option<Arc<Value>>,
    /// The provider and model, as in [`Signature::origin`].
    pub origin: Arc<str>,
}

word_enum! {
    /// The kind of thing that a [`Reference`] points at.
    pub enum ReferenceKind {
        /// A whole file or a range of lines.
        File = "file",
        /// The text that the user selected in the editor.
        Selection = "selection",
        /// A diagnostic of the editor.
        Diagnostic = "diagnostic",
        /// A resource of an MCP server.
        Resource = "resource",
        /// A prompt of an MCP server, which the user has called.
        Prompt = "prompt",
    }
}

impl ReferenceKind {
    /// Returns whether the text comes from an MCP server.
    pub fn is_from_server(self) -> bool {
        match self {
            Self::Resource | Self::Prompt => true,
            Self::File | Self::Selection | Self::Diagnostic => false,
        }
    }
}

/// Something that the user points at, with its text at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Reference {
    pub kind: ReferenceKind,
    /// The path as tools print it: relative to the session's folder, or with the name of another root. Of an MCP
    /// server, `server:uri` of a resource or `server/name` of a prompt.
    pub path: String,
    /// The first and last line, from 1, if it is a range of lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// The referenced text, or the diagnostic's message.
    pub text: String,
}

impl Message {
    /// Returns a visible user message of plain text, with a new id.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self {
            id: MessageId::new_random(),
            role: Role::User,
            content: vec![Block::Text(text.into())],
            incomplete: false,
            hidden: false,
        }
    }

    /// Returns all text blocks, joined without a separator.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = (&ToolCallId, &str, &Arc<Value>)> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some((id, name.as_str(), input)),
            _ => None,
        })
    }
}

impl Reference {
    /// Formats the reference as the model receives it.
    pub fn to_prompt_text(&self) -> String {
        let tag = self.kind.name();
        let lines = self
            .lines
            .map(|(from, to)| format!(" lines=\"{from}-{to}\""))
            .unwrap_or_default();
        format!("<{tag} path=\"{}\"{lines}>\n{}\n</{tag}>", self.path, self.text)
    }
}
