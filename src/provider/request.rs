//! What a provider is asked: independent of any API's shape, and cheap to make at every step.

use std::sync::{Arc, OnceLock};

use crate::domain::{Block, Message, ProviderCall, Role, ToolCallId, ToolSpec};
use bytes::Bytes;

/// One call's content.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model's name as the API knows it.
    pub model: String,
    /// The system prompt.
    pub system: Arc<str>,
    /// The history, valid for every API (R-LOOP-4): it begins with a user message, every tool use is
    /// followed by a tool message with exactly one result for it, and nothing is empty.
    pub messages: Vec<Arc<HistoryItem>>,
    /// The tools the model may ask for, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The output limit in tokens.
    pub max_output_tokens: u32,
    /// How hard the model shall think; none leaves it to the API.
    pub effort: Option<Effort>,
}

impl ModelRequest {
    /// Whether a call of the history already has this id, ours or its provider's.
    pub fn has_call(&self, id: &str) -> bool {
        let blocks = self.messages.iter().flat_map(|item| &item.message.content);
        blocks.into_iter().any(|block| match block {
            Block::ToolUse {
                id: ours, attached, ..
            } => {
                ours.as_str() == id
                    || attached
                        .as_ref()
                        .is_some_and(|call| call.id.as_deref() == Some(id))
            }
            _ => false,
        })
    }

    /// The messages, each with the answer that its call ids come from: of results the one that asked for them.
    pub(crate) fn with_calls(&self) -> impl Iterator<Item = (&HistoryItem, &HistoryItem)> {
        let mut asking: Option<&HistoryItem> = None;
        self.messages.iter().map(move |item| {
            match item.message.role {
                Role::Assistant => asking = Some(item),
                Role::User | Role::Tool => {}
            }
            let calls = match item.message.role {
                Role::Tool => asking.unwrap_or(item),
                Role::User | Role::Assistant => item,
            };
            (&**item, calls)
        })
    }
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

/// The APIs' shapes, each with its own way to write a message. A dialect is a shape of its own, because
/// a session may hop between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestShape {
    /// Anthropic's Messages API.
    Anthropic,
    /// The same without reasoning: another model gave it.
    AnthropicBare,
    /// Chat Completions.
    OpenAi,
    /// The same without what another model attached.
    OpenAiBare,
    /// Chat Completions with Mistral's short ids.
    Mistral,
    /// The same without what another model attached.
    MistralBare,
    /// Chat Completions with the reasoning given back.
    DeepSeek,
    /// The same without what another model attached.
    DeepSeekBare,
    /// The Responses API.
    Responses,
    /// The same without reasoning: another model gave it.
    ResponsesBare,
}

impl RequestShape {
    const COUNT: usize = 10;

    fn cache_index(self) -> usize {
        match self {
            Self::Anthropic => 0,
            Self::OpenAi => 1,
            Self::Mistral => 2,
            Self::DeepSeek => 3,
            Self::AnthropicBare => 4,
            Self::Responses => 5,
            Self::ResponsesBare => 6,
            Self::OpenAiBare => 7,
            Self::MistralBare => 8,
            Self::DeepSeekBare => 9,
        }
    }
}

/// A message of the history with its serialised forms, made once and kept (R-CTX-5).
#[derive(Debug)]
pub struct HistoryItem {
    /// The message.
    pub message: Message,
    /// It contains reasoning or calls: only then its origin has to be looked up.
    has_origin: bool,
    encoded: [OnceLock<Bytes>; RequestShape::COUNT],
    tokens: OnceLock<u64>,
}

impl HistoryItem {
    /// Wraps a message.
    pub fn new(message: Message) -> Arc<Self> {
        let has_origin = |block: &Block| matches!(block, Block::Reasoning { .. } | Block::ToolUse { .. });
        Arc::new(Self {
            has_origin: message.content.iter().any(has_origin),
            message,
            encoded: Default::default(),
            tokens: OnceLock::new(),
        })
    }

    /// Its estimated tokens, counted by `count` at the first call.
    pub fn estimated_tokens(&self, count: impl FnOnce(&Message) -> u64) -> u64 {
        *self.tokens.get_or_init(|| count(&self.message))
    }

    /// The message in `shape`, made by `encode` at the first call.
    pub fn get_or_encode(&self, shape: RequestShape, encode: impl FnOnce(&Message) -> Bytes) -> &Bytes {
        self.encoded[shape.cache_index()].get_or_init(|| encode(&self.message))
    }

    /// Whether everything that a provider attached to it is from `origin`.
    pub(crate) fn gives_back(&self, origin: &str) -> bool {
        !self.has_origin || gives_back(&self.message, origin)
    }
}

/// Whether all reasoning and everything attached to calls is from `origin`. It is one answer's: all or nothing.
pub(crate) fn gives_back(message: &Message, origin: &str) -> bool {
    message.content.iter().all(|block| match block {
        Block::Reasoning {
            signature: Some(signature),
            ..
        } => signature.is_of(origin),
        Block::ToolUse {
            attached: Some(call), ..
        } => &*call.origin == origin,
        _ => true,
    })
}

/// Our ids of an answer's calls, as the provider that is asked knows them.
pub(crate) struct CallIds<'m> {
    /// The answer that asked for the calls; none where its ids are not this provider's.
    answer: Option<&'m Message>,
    accepts: fn(&str) -> bool,
}

impl<'m> CallIds<'m> {
    /// The ids that came with `answer`, as far as the API `accepts` them.
    pub(crate) fn from_answer(answer: &'m Message, accepts: fn(&str) -> bool) -> Self {
        Self {
            answer: Some(answer),
            accepts,
        }
    }

    /// Our own ids.
    pub(crate) fn with_own_ids() -> Self {
        Self {
            answer: None,
            accepts: |_| false,
        }
    }

    /// What the provider attached to a call.
    pub(crate) fn find_provider_call(&self, id: &ToolCallId) -> Option<&'m ProviderCall> {
        self.answer?.content.iter().find_map(|block| match block {
            Block::ToolUse {
                id: ours, attached, ..
            } if ours == id => attached.as_deref(),
            _ => None,
        })
    }

    /// The provider's id of a call; none where it gave none that it takes back.
    pub(crate) fn provider_id(&self, id: &ToolCallId) -> Option<&'m str> {
        let theirs = self.find_provider_call(id)?.id.as_deref()?;
        (self.accepts)(theirs).then_some(theirs)
    }

    /// The id to send.
    pub(crate) fn send<'i>(&self, id: &'i ToolCallId) -> &'i str
    where
        'm: 'i,
    {
        self.provider_id(id).unwrap_or_else(|| id.as_str())
    }
}

/// A tool's name as every API takes it: models invent names that would make the history invalid.
pub(crate) fn safe_name(name: &str) -> String {
    let safe: String = name
        .chars()
        .take(64)
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        })
        .collect();
    if safe.is_empty() {
        "unknown".to_owned()
    } else {
        safe
    }
}

/// A tool's input as every API takes it: an object, whatever the model wrote.
pub(crate) fn object_input(input: &serde_json::Value) -> serde_json::Value {
    if input.is_object() {
        input.clone()
    } else {
        serde_json::json!({"input": input})
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::{ImageData, MessageId, Reference, ReferenceKind, Signature, ToolResult};
    use serde_json::json;

    pub(crate) fn build_message(role: Role, content: Vec<Block>) -> Message {
        Message {
            id: MessageId::from("msg_1"),
            role,
            content,
            incomplete: false,
            hidden: false,
        }
    }

    fn build_image() -> ImageData {
        ImageData {
            media_type: "image/png".into(),
            data: "iVBO".into(),
        }
    }

    /// Who gave the reasoning in [`every_block`].
    pub(crate) const ORIGIN: &str = "api.example/model";

    fn build_signature(value: &str) -> Option<Signature> {
        Some(Signature {
            value: value.into(),
            origin: Some(ORIGIN.into()),
        })
    }

    /// A history with every kind of block.
    pub(crate) fn every_block() -> Vec<Message> {
        let reference = Reference {
            kind: ReferenceKind::Selection,
            path: "src/a.rs".into(),
            lines: Some((3, 4)),
            text: "fn a() {}".into(),
        };
        let signed = Block::Reasoning {
            text: "think".into(),
            signature: build_signature("sig"),
            redacted: false,
        };
        let foreign = Block::Reasoning {
            text: "foreign".into(),
            signature: None,
            redacted: false,
        };
        let hidden = Block::Reasoning {
            text: String::new(),
            signature: build_signature("opaque"),
            redacted: true,
        };
        let call = |id: &str, name: &str, input| Block::ToolUse {
            id: id.into(),
            name: name.into(),
            input: Arc::new(input),
            attached: None,
        };
        let result = |id: &str, result| Block::ToolResult {
            id: id.into(),
            result: Arc::new(result),
        };
        let shown = ToolResult {
            images: vec![build_image()],
            ..ToolResult::ok("a picture")
        };
        vec![
            build_message(
                Role::User,
                vec![
                    Block::Text("look".into()),
                    Block::Reference(reference),
                    Block::Image(build_image()),
                ],
            ),
            build_message(
                Role::Assistant,
                vec![
                    signed,
                    foreign,
                    hidden,
                    Block::Text("I look.".into()),
                    call("call_a", "read_file", json!({"path": "a"})),
                    call("call_b", "made up.name", json!("not an object")),
                ],
            ),
            build_message(
                Role::Tool,
                vec![
                    result("call_a", shown),
                    result("call_b", ToolResult::error("unknown tool")),
                ],
            ),
            build_message(
                Role::User,
                vec![Block::Text(" ".into()), Block::Text("and now?".into())],
            ),
        ]
    }

    pub(crate) fn build_request(model: &str, messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: model.into(),
            system: "Be brief.".into(),
            messages: messages.into_iter().map(HistoryItem::new).collect(),
            tools: Arc::new([ToolSpec {
                name: "read_file".into(),
                description: "Reads a file.".into(),
                schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            }]),
            max_output_tokens: 4_096,
            effort: None,
        }
    }

    /// A history in which `origin` called two tools, the first under its own `id` and with opaque data.
    pub(crate) fn build_call_history(id: &str, origin: &str) -> Vec<Message> {
        let mut messages = every_block();
        messages[1]
            .content
            .retain(|block| !matches!(block, Block::Reasoning { .. }));
        for block in &mut messages[1].content {
            if let Block::ToolUse {
                id: ours, attached, ..
            } = block
            {
                let first = ours.as_str() == "call_a";
                *attached = Some(Arc::new(ProviderCall {
                    id: first.then(|| id.to_owned()),
                    extra: first.then(|| Arc::new(json!({"google": {"thought_signature": "s"}}))),
                    origin: origin.into(),
                }));
            }
        }
        messages
    }

    #[test]
    fn calls_of_the_history_are_found_by_either_id() {
        let request = build_request("m", build_call_history("functions.bash:0", ORIGIN));
        for id in ["functions.bash:0", "call_a", "call_b"] {
            assert!(request.has_call(id), "{id}");
        }
        assert!(!request.has_call("functions.bash:1"));
    }

    #[test]
    fn names_are_made_safe() {
        for (name, safe) in [
            ("read_file", "read_file"),
            ("a.b c", "a_b_c"),
            ("", "unknown"),
            ("é", "_"),
        ] {
            assert_eq!(safe_name(name), safe);
        }
        assert_eq!(safe_name(&"x".repeat(100)).len(), 64);
    }

    #[test]
    fn a_message_is_encoded_once_for_each_shape() {
        let item = HistoryItem::new(Message::user_text("a"));
        let first = item.get_or_encode(RequestShape::OpenAi, |_| Bytes::from_static(b"1"));
        assert_eq!(
            item.get_or_encode(RequestShape::OpenAi, |_| Bytes::from_static(b"2")),
            first
        );
        assert_eq!(
            item.get_or_encode(RequestShape::Mistral, |_| Bytes::from_static(b"3")),
            "3"
        );
    }
}
