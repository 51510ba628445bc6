//! What a provider is asked: independent of any API's shape, and cheap to make at every step.

use std::sync::{Arc, OnceLock};

use crate::domain::{Message, ToolSpec};
use bytes::Bytes;

/// One call's content.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model's name as the API knows it.
    pub model: String,
    /// The system prompt.
    pub system: Arc<str>,
    /// The history, valid for every API (R-LOOP-4): it begins with a user message, every tool use is
    /// followed by a tool message with exactly one result for it, and nothing is empty.
    pub messages: Vec<Arc<Item>>,
    /// The tools the model may ask for, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The output limit in tokens.
    pub max_output_tokens: u32,
    /// How hard the model shall think; none leaves it to the API.
    pub effort: Option<Effort>,
}

/// How hard a model shall think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    /// Its name in protocol, config and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The effort of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High]
            .into_iter()
            .find(|effort| effort.name() == name)
    }
}

/// The APIs' shapes, each with its own way to write a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Anthropic's Messages API.
    Anthropic,
    /// Chat Completions.
    OpenAi,
}

/// A message of the history with its serialised forms, made once and kept (R-CTX-5).
#[derive(Debug)]
pub struct Item {
    /// The message.
    pub message: Message,
    encoded: [OnceLock<Bytes>; 2],
}

impl Item {
    /// Wraps a message.
    pub fn new(message: Message) -> Arc<Self> {
        Arc::new(Self {
            message,
            encoded: Default::default(),
        })
    }

    /// The message in `shape`, made by `encode` at the first call.
    pub fn encoded(&self, shape: Shape, encode: impl FnOnce(&Message) -> Bytes) -> Bytes {
        let slot = match shape {
            Shape::Anthropic => &self.encoded[0],
            Shape::OpenAi => &self.encoded[1],
        };
        slot.get_or_init(|| encode(&self.message)).clone()
    }
}
