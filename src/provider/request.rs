//! The request to a provider, independent of any API's shape.
//!
//! Building one is cheap at every step: history items are shared, and each caches its encoding for every shape
//! (R-CTX-5). It holds our own ids; [`CallIds`] maps them to the provider's. The encoders live in the API folders.

use std::sync::{Arc, OnceLock};

use super::request_part::RequestParts;
use crate::domain::words::word_enum;
use crate::domain::{Block, Message, ProviderCall, Role, ToolCallId, ToolSpec};
use bytes::Bytes;

/// The content of one call.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The name of the model as the API knows it.
    pub model: String,
    pub system: Arc<str>,
    /// The history, valid for every API (R-LOOP-4): it begins with a user message, and nothing in it is empty. After
    /// each message with tool uses comes a tool message with exactly one result for each (I4).
    pub messages: Vec<Arc<HistoryItem>>,
    /// The tools that the model may call, in a stable order, so that prompt caches hit.
    pub tools: Arc<[ToolSpec]>,
    /// In tokens.
    pub max_output_tokens: u32,
    /// The limit is only assumed, so it is left out where the API allows that. A model then writes as much as it can.
    pub is_limit_assumed: bool,
    /// How much the model reasons; `None` leaves that to the API.
    pub effort: Option<Effort>,
    /// The session, so that its steps share a prompt cache where the API has a key for one; `None` for other calls.
    pub cache_key: Option<Arc<str>>,
    /// The model's window in tokens, for servers that must be told; `None` leaves it to the server.
    pub context_window: Option<u64>,
    /// Offers the provider's own web search, for APIs that have one; see `ModelInfo::search`.
    pub web_search: bool,
    /// What the provider has refused.
    pub omitted: RequestParts,
}

impl ModelRequest {
    /// Reports whether a tool call in the history already has this id, ours or its provider's.
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

    /// Iterates over the messages, each with the message that defines its call ids. For tool results that is the answer
    /// that requested them.
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

word_enum! {
    /// How much a model reasons before it answers, in ascending order. Models accept different ones. The words are those
    /// of protocol, configuration, and documentation.
    pub enum Effort {
        /// Not at all. Unlike an absent effort, this is sent.
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
        Max = "max",
    }
}

/// The shapes in which a message can be encoded. A dialect is its own shape, because a session may switch between
/// dialects and both encodings stay cached. A `Bare` shape omits what another model attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestShape {
    /// The Messages API of Anthropic.
    Anthropic,
    /// Without the reasoning of another model.
    AnthropicBare,
    /// The Messages API of DeepSeek, with reasoning before each call.
    AnthropicThought,
    /// Without the reasoning of another model.
    AnthropicThoughtBare,
    /// The Chat Completions API.
    OpenAi,
    /// Without what another model attached.
    OpenAiBare,
    /// Chat Completions with Mistral's short call ids.
    Mistral,
    /// Without what another model attached.
    MistralBare,
    /// Chat Completions that also sends reasoning back.
    DeepSeek,
    /// Without what another model attached.
    DeepSeekBare,
    /// The Responses API of OpenAI.
    Responses,
    /// Without the reasoning of another model.
    ResponsesBare,
    /// The Responses API, with calls of custom tools.
    ResponsesCustom,
    /// Without the reasoning of another model, and with calls of custom tools.
    ResponsesBareCustom,
    /// The Gemini API.
    Gemini,
    /// Without what another model attached.
    GeminiBare,
    /// The Gemini API, for models before Gemini 3.
    GeminiOld,
    /// Without what another model attached.
    GeminiOldBare,
    /// Ollama's own API.
    Ollama,
    /// Without what another model attached.
    OllamaBare,
}

impl RequestShape {
    /// The number of variants: the index of the last one plus 1.
    const COUNT: usize = Self::OllamaBare as usize + 1;

    /// Returns the same shape with calls of custom tools. Only the Responses API has them.
    pub(crate) fn with_custom_calls(self) -> Self {
        match self {
            Self::Responses => Self::ResponsesCustom,
            Self::ResponsesBare => Self::ResponsesBareCustom,
            other => other,
        }
    }

    /// Reports whether this shape of the Responses API omits the reasoning of another model.
    pub(crate) fn is_bare_responses(self) -> bool {
        matches!(self, Self::ResponsesBare | Self::ResponsesBareCustom)
    }
}

/// A message of the history with its serialized forms, each made once and kept (R-CTX-5).
#[derive(Debug)]
pub struct HistoryItem {
    pub message: Message,
    /// Whether it contains reasoning or calls; only those have an origin to compare.
    has_origin: bool,
    /// One slot for each shape, so that switching between providers does not encode the history again.
    encoded: [OnceLock<Bytes>; RequestShape::COUNT],
    tokens: OnceLock<u64>,
}

impl HistoryItem {
    /// Wraps a message without encoding it yet.
    pub fn new(message: Message) -> Arc<Self> {
        let has_origin = |block: &Block| matches!(block, Block::Reasoning { .. } | Block::ToolUse { .. });
        Arc::new(Self {
            has_origin: message.content.iter().any(has_origin),
            message,
            encoded: Default::default(),
            tokens: OnceLock::new(),
        })
    }

    /// Returns the estimated tokens; only the first call runs `count`.
    pub fn estimated_tokens(&self, count: impl FnOnce(&Message) -> u64) -> u64 {
        *self.tokens.get_or_init(|| count(&self.message))
    }

    /// Returns the message in `shape`; only the first call for a shape runs `encode`.
    pub fn get_or_encode(&self, shape: RequestShape, encode: impl FnOnce(&Message) -> Bytes) -> &Bytes {
        self.encoded[shape as usize].get_or_init(|| encode(&self.message))
    }

    /// Reports whether everything that a provider attached to the message came from `origin`.
    pub(crate) fn is_from_origin(&self, origin: &str) -> bool {
        !self.has_origin || gives_back(&self.message, origin)
    }
}

/// Returns the messages after which Anthropic's prompt cache is marked (R-LOOP-5): the ends of the last two runs of user
/// and tool messages, the last one first.
pub(crate) fn find_cache_breakpoints(roles: &[Role]) -> Vec<usize> {
    let is_user = |at: usize| matches!(roles.get(at), Some(Role::User | Role::Tool));
    (0..roles.len())
        .rev()
        .filter(|at| is_user(*at) && !is_user(at + 1))
        .take(2)
        .collect()
}

/// Reports whether all reasoning and everything attached to calls came from `origin` (R-LOOP-4). A message is one
/// answer, so it counts as a whole or not at all.
pub(crate) fn gives_back(message: &Message, origin: &str) -> bool {
    message.content.iter().all(|block| match block {
        Block::Reasoning {
            signature: Some(signature),
            ..
        } => signature.is_from(origin),
        Block::ToolUse {
            attached: Some(call), ..
        } => &*call.origin == origin,
        // Texts, images and unsigned reasoning are bound to no origin.
        _ => true,
    })
}

/// Maps our ids of an answer's calls to the ids that the called provider knows.
pub(crate) struct CallIds<'m> {
    /// The answer that requested the calls; `None` if another provider gave it.
    answer: Option<&'m Message>,
    accepts: fn(&str) -> bool,
}

impl<'m> CallIds<'m> {
    /// Uses the ids that came with `answer`, as far as the API `accepts` them.
    pub(crate) fn from_answer(answer: &'m Message, accepts: fn(&str) -> bool) -> Self {
        Self {
            answer: Some(answer),
            accepts,
        }
    }

    /// Uses our own ids throughout.
    pub(crate) fn with_own_ids() -> Self {
        Self {
            answer: None,
            accepts: |_| false,
        }
    }

    /// Returns what the provider attached to a call.
    pub(crate) fn find_provider_call(&self, id: &ToolCallId) -> Option<&'m ProviderCall> {
        self.answer?.content.iter().find_map(|block| match block {
            Block::ToolUse {
                id: ours, attached, ..
            } if ours == id => attached.as_deref(),
            _ => None,
        })
    }

    /// Returns the provider's id of a call; `None` if it gave none that it accepts back.
    pub(crate) fn provider_id(&self, id: &ToolCallId) -> Option<&'m str> {
        let theirs = self.find_provider_call(id)?.id.as_deref()?;
        (self.accepts)(theirs).then_some(theirs)
    }

    /// Returns the id to send: the provider's, otherwise ours.
    pub(crate) fn wire_id<'i>(&self, id: &'i ToolCallId) -> &'i str
    where
        'm: 'i,
    {
        self.provider_id(id).unwrap_or_else(|| id.as_str())
    }
}

/// Makes a tool name valid for every API. Models invent names that would make the history invalid.
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

/// Makes a tool input valid for every API: an object, whatever the model wrote.
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
    use crate::domain::{MediaData, MessageId, Reference, ReferenceKind, Signature, ToolResult};
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

    fn build_image() -> MediaData {
        MediaData {
            media_type: "image/png".into(),
            data: "iVBO".into(),
        }
    }

    /// The origin of the reasoning in [`every_block`].
    pub(crate) const ORIGIN: &str = "api.example/model";

    fn build_signature(value: &str) -> Option<Signature> {
        Some(Signature {
            value: value.into(),
            origin: Some(ORIGIN.into()),
        })
    }

    /// Returns a history with every kind of block.
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
        let image_result = ToolResult {
            media: vec![build_image()],
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
                    result("call_a", image_result),
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
                freeform: None,
                name: "read_file".into(),
                description: "Reads a file.".into(),
                schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}).into(),
            }]),
            max_output_tokens: 4_096,
            is_limit_assumed: false,
            effort: None,
            cache_key: None,
            context_window: None,
            web_search: false,
            omitted: RequestParts::new(),
        }
    }

    /// Returns a history in which `origin` called two tools, the first under its own `id` and with opaque data.
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
    fn tool_calls_are_found_by_our_id_and_the_providers() {
        let request = build_request("m", build_call_history("functions.bash:0", ORIGIN));
        for id in ["functions.bash:0", "call_a", "call_b"] {
            assert!(request.has_call(id), "{id}");
        }
        assert!(!request.has_call("functions.bash:1"));
    }

    #[test]
    fn tool_names_are_made_valid_for_every_api() {
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
