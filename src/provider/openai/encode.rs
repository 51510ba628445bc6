//! Encodes a request for Chat Completions, in the dialect of the called server.
//!
//! Reasoning and opaque data go only to the server and model that gave them (R-LOOP-4).

use bytes::Bytes;
use serde_json::{Value, json};

use super::flavour::{Flavour, ReasoningSwitch, takes_cache_key};
use super::opaque;
use super::roles::{self, join_messages};
use crate::domain::{Block, MediaData, Message, Role, ToolCallId, ToolResult};
use crate::provider::account::is_openai_model;
use crate::provider::body::BodyPieces;
use crate::provider::models::{ReasoningField, claude_version, is_thinking_enabled};
use crate::provider::request::{
    CallIds, ModelRequest, RequestShape, find_cache_breakpoints, object_input, safe_name,
};
use crate::provider::request_part::{OptionalField, RequestPart};

/// The fields of a model's reasoning, as far as the catalogue knows.
#[derive(Clone, Copy, Default)]
pub(super) struct ReasoningFields {
    /// The field in which the model needs its reasoning back.
    pub(super) gives_back: Option<ReasoningField>,
    /// How its vendor switches it.
    pub(super) switch: Option<ReasoningSwitch>,
}

/// Encodes the whole request. `origin` is the mark of the called model; see `Provider::model_origin`. `verbosity` is sent
/// unchanged.
pub(super) fn build_body(
    request: &ModelRequest,
    flavour: Flavour,
    origin: &str,
    reasoning: ReasoningFields,
    verbosity: Option<&'static str>,
) -> BodyPieces {
    let mut body = BodyPieces::default();
    body.add_field("model", json!(request.model));
    body.add_field("stream", json!(true));
    let verbosity = verbosity.map(|verbosity| (RequestPart::Verbosity, "verbosity", json!(verbosity)));
    let options = build_options(request, flavour, origin, reasoning.switch);
    body.add_options(&request.omitted, options.into_iter().chain(verbosity));
    if body.parts().contains(&RequestPart::OutputLimit) {
        body.admit_part(&request.omitted, RequestPart::OutputLimitName);
    }
    write_tools(&mut body, request);
    body.push_raw(",\"messages\":[");
    write_messages(request, flavour, origin, reasoning.gives_back, &mut body);
    body.push_raw("]}");
    body
}

fn build_options(
    request: &ModelRequest,
    flavour: Flavour,
    origin: &str,
    switch: Option<ReasoningSwitch>,
) -> Vec<OptionalField> {
    let is_current = match flavour {
        // OpenAI's current models refuse `max_tokens`, behind a proxy too.
        Flavour::OpenAi => true,
        Flavour::Other => is_openai_model(&request.model),
        Flavour::OpenRouter | Flavour::Mistral | Flavour::ReasoningBack => false,
    };
    let limit = if is_current == request.omitted.contains(&RequestPart::OutputLimitName) {
        "max_tokens"
    } else {
        "max_completion_tokens"
    };
    let mut options = Vec::new();
    if !request.is_limit_assumed {
        options.push((RequestPart::OutputLimit, limit, json!(request.max_output_tokens)));
    }
    // Mistral always sends the usage, and refuses unknown fields.
    if flavour != Flavour::Mistral {
        options.push((
            RequestPart::TokenCounts,
            "stream_options",
            json!({"include_usage": true}),
        ));
    }
    if flavour == Flavour::OpenRouter {
        // Requests the cost, which overrides our price table (R-PROV-7).
        options.push((RequestPart::CostReport, "usage", json!({"include": true})));
    }
    if let Some(key) = request.cache_key.as_ref()
        && takes_cache_key(origin, &request.model)
    {
        options.push((RequestPart::CacheKey, "prompt_cache_key", json!(key)));
    }
    if request.effort.is_none()
        && flavour == Flavour::OpenRouter
        && claude_version(&request.model).is_some()
        && is_thinking_enabled(&request.model, None)
    {
        // Over OpenRouter, Claude does not think unless told to.
        let switch = json!({"enabled": true});
        options.push((RequestPart::Thinking, "reasoning", switch));
    }
    if let Some(effort) = request.effort {
        match (switch, flavour) {
            (Some(switch), _) => options.extend(switch.build_options(effort)),
            (None, Flavour::OpenRouter) => {
                options.push((RequestPart::Effort, "reasoning", json!({"effort": effort.name()})))
            }
            (None, Flavour::OpenAi | Flavour::Mistral | Flavour::ReasoningBack | Flavour::Other) => {
                options.push((RequestPart::Effort, "reasoning_effort", json!(effort.name())));
            }
        }
    }
    options
}

/// Writes the definitions of the tools, if there are any.
pub(in crate::provider) fn write_tools(body: &mut BodyPieces, request: &ModelRequest) {
    if request.tools.is_empty() {
        return;
    }
    body.push_raw(",\"tools\":[");
    for (at, tool) in request.tools.iter().enumerate() {
        body.push_raw(if at > 0 { "," } else { "" });
        body.push_json(&json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.schema,
        }}));
    }
    body.push_raw("]");
}

fn write_messages(
    request: &ModelRequest,
    flavour: Flavour,
    origin: &str,
    gives_back: Option<ReasoningField>,
    body: &mut BodyPieces,
) {
    let mut first = true;
    let mut comma = |body: &mut BodyPieces| body.push_raw(if std::mem::take(&mut first) { "" } else { "," });
    let marks_cache =
        flavour.marks_cache(&request.model) && body.admit_part(&request.omitted, RequestPart::CacheMarks);
    let has_system = !request.system.trim().is_empty();
    let moves_system = has_system && !body.admit_part(&request.omitted, RequestPart::SystemRole);
    if has_system && !moves_system {
        comma(body);
        let mut system = json!({"role": "system", "content": &*request.system});
        if marks_cache {
            mark_cache_end(&mut system);
        }
        body.push_json(&system);
    }
    // What comes in `reasoning_details` is opaque, and goes back at every server.
    let wants_reasoning = flavour == Flavour::ReasoningBack
        || gives_back == Some(ReasoningField::ReasoningContent)
        || request.omitted.contains(&RequestPart::BareCalls);
    let dialect = if flavour == Flavour::Mistral {
        Dialect::ShortIds
    } else if wants_reasoning && body.admit_part(&request.omitted, RequestPart::ReasoningContent) {
        Dialect::ReasoningBack
    } else {
        body.admit_part(&request.omitted, RequestPart::BareCalls);
        Dialect::Plain
    };
    let mut written = encode_history(request, flavour, origin, dialect);
    if marks_cache {
        let roles: Vec<Role> = written.iter().map(|(role, _)| *role).collect();
        for at in find_cache_breakpoints(&roles) {
            written[at].1 = with_cache_mark(&written[at].1);
        }
    }
    let joins = roles::has_neighbors(written.iter().map(|(role, _)| *role))
        && !body.admit_part(&request.omitted, RequestPart::RepeatedRoles);
    if joins || moves_system {
        let system = Some(&*request.system).filter(|_| moves_system);
        comma(body);
        body.push(&roles::join_roles(&written, system));
        return;
    }
    let mut before = None;
    for (role, bytes) in written {
        // Mistral refuses a user message directly after a tool message.
        if (flavour, before, role) == (Flavour::Mistral, Some(Role::Tool), Role::User) {
            comma(body);
            body.push_json(&build_acknowledgement());
        }
        comma(body);
        body.push(&bytes);
        before = Some(role);
    }
}

/// Encodes the messages that have anything to send.
fn encode_history(
    request: &ModelRequest,
    flavour: Flavour,
    origin: &str,
    dialect: Dialect,
) -> Vec<(Role, Bytes)> {
    let mut written = Vec::new();
    for (item, calls) in request.with_calls() {
        let ids = if calls.is_from_origin(origin) {
            Some(CallIds::from_answer(&calls.message, accepts_id(flavour)))
        } else {
            None
        };
        let shape = dialect.to_shape(ids.is_some());
        let bytes = item.get_or_encode(shape, |message| encode_message(message, dialect, ids.as_ref()));
        if !bytes.is_empty() {
            written.push((item.message.role, bytes.clone()));
        }
    }
    written
}

/// Returns encoded messages with a cache breakpoint in the last one.
fn with_cache_mark(encoded: &Bytes) -> Bytes {
    let list = [b"[", &encoded[..], b"]"].concat();
    let Ok(mut messages) = serde_json::from_slice::<Vec<Value>>(&list) else {
        return encoded.clone();
    };
    messages.last_mut().into_iter().for_each(mark_cache_end);
    join_messages(&messages)
}

/// Puts a cache breakpoint into the last text of a message. OpenRouter takes it in the parts of a content only.
fn mark_cache_end(message: &mut Value) {
    let content = &mut message["content"];
    if let Some(text) = content.as_str() {
        *content = json!([{"type": "text", "text": text}]);
    }
    let mut parts = content.as_array_mut().into_iter().flatten();
    if let Some(part) = parts.rfind(|part| part["type"] == "text") {
        part["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// Returns the filler that separates a tool message from a user message for Mistral.
fn build_acknowledgement() -> Value {
    json!({"role": "assistant", "content": "Understood."})
}

/// The variants in the encoding of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Plain,
    ShortIds,
    ReasoningBack,
}

impl Dialect {
    fn to_shape(self, own: bool) -> RequestShape {
        match (self, own) {
            (Self::Plain, true) => RequestShape::OpenAi,
            (Self::Plain, false) => RequestShape::OpenAiBare,
            (Self::ShortIds, true) => RequestShape::Mistral,
            (Self::ShortIds, false) => RequestShape::MistralBare,
            (Self::ReasoningBack, true) => RequestShape::DeepSeek,
            (Self::ReasoningBack, false) => RequestShape::DeepSeekBare,
        }
    }
}

/// Returns which of its own ids a server accepts back. Strict servers give no other ids, but a gateway in front of
/// them might.
fn accepts_id(flavour: Flavour) -> fn(&str) -> bool {
    match flavour {
        Flavour::OpenAi => |id| id.len() <= 40,
        Flavour::Mistral => |id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        Flavour::OpenRouter | Flavour::ReasoningBack | Flavour::Other => |_| true,
    }
}

/// Encodes a message as one or more messages of the API, separated by commas; empty if none of it can be sent. `own`
/// has the call ids if the message came from the called server.
fn encode_message(message: &Message, dialect: Dialect, own: Option<&CallIds<'_>>) -> Bytes {
    let values = match message.role {
        Role::User => encode_user_message(message),
        Role::Assistant => encode_assistant_message(message, dialect, own),
        Role::Tool => encode_tool_results(message, dialect, own),
    };
    join_messages(&values)
}

fn encode_user_message(message: &Message) -> Vec<Value> {
    let texts: Vec<String> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.clone()),
            Block::Reference(reference) => Some(reference.to_prompt_text()),
            Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Image(_) => {
                None
            }
        })
        .filter(|text| !text.trim().is_empty())
        .collect();
    let images: Vec<Value> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Image(data) => Some(encode_image(data)),
            _ => None,
        })
        .collect();
    with_images(texts.join("\n\n"), images).into_iter().collect()
}

/// Builds a user message. Without images it is a plain string, because small servers accept nothing else.
fn with_images(text: String, images: Vec<Value>) -> Option<Value> {
    if images.is_empty() {
        return (!text.is_empty()).then(|| json!({"role": "user", "content": text}));
    }
    let text_part = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let content: Vec<Value> = text_part.into_iter().chain(images).collect();
    Some(json!({"role": "user", "content": content}))
}

fn encode_image(data: &MediaData) -> Value {
    let url = format!("data:{};base64,{}", data.media_type, data.data);
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn encode_assistant_message(message: &Message, dialect: Dialect, own: Option<&CallIds<'_>>) -> Vec<Value> {
    let text = message.text();
    let calls: Vec<Value> = message
        .tool_uses()
        .map(|(id, name, input)| {
            let mut call = json!({"id": call_id(id, dialect, own), "type": "function",
                "function": {"name": safe_name(name), "arguments": object_input(input).to_string()}});
            if let Some(extra) = own.and_then(|ids| ids.find_provider_call(id)?.extra.as_deref()) {
                call["extra_content"] = extra.clone();
            }
            call
        })
        .collect();
    if text.trim().is_empty() && calls.is_empty() {
        return Vec::new();
    }
    let content = if text.trim().is_empty() {
        // Not an empty string: APIs refuse empty content (R-LOOP-4).
        Value::Null
    } else {
        json!(text)
    };
    let mut value = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        // These servers require reasoning with each call, also if another model made it or there was none. Moonshot
        // takes an empty text for a missing one.
        if dialect == Dialect::ReasoningBack {
            let thought = own.and_then(|_| own_reasoning(message));
            value["reasoning_content"] = json!(thought.as_deref().unwrap_or(" "));
        }
        value["tool_calls"] = json!(calls);
    }
    if own.is_some() {
        for (name, field) in opaque_reasoning(message) {
            value[name] = field;
        }
    }
    vec![value]
}

fn opaque_reasoning(message: &Message) -> impl Iterator<Item = (String, Value)> {
    message.content.iter().flat_map(|block| match block {
        Block::Reasoning {
            signature: Some(signature),
            redacted: true,
            ..
        } => opaque::parse_kept_fields(&signature.value),
        _ => opaque::parse_kept_fields(""),
    })
}

/// Returns reasoning from an API like this one: readable and unsigned.
pub(in crate::provider) fn own_reasoning(message: &Message) -> Option<String> {
    let thought: String = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Reasoning {
                text,
                signature: None,
                redacted: false,
            } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!thought.is_empty()).then_some(thought)
}

/// Encodes tool results, then their images in a user message, because tool messages cannot contain images here.
fn encode_tool_results(message: &Message, dialect: Dialect, own: Option<&CallIds<'_>>) -> Vec<Value> {
    let mut values = Vec::new();
    let mut images = Vec::new();
    for block in &message.content {
        if let Block::ToolResult { id, result } = block {
            let content = result_text(result);
            let id = call_id(id, dialect, own);
            values.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            // This API has no common form of documents; the turn replaces them.
            images.extend(result.pictures().map(encode_image));
        }
    }
    if !images.is_empty() {
        if dialect == Dialect::ShortIds {
            values.push(build_acknowledgement());
        }
        values.extend(with_images("What the tools show:".to_owned(), images));
    }
    values
}

/// Returns the text of a tool result; never empty, and an error begins with "Error".
pub(in crate::provider) fn result_text(result: &ToolResult) -> String {
    let text = match (result.text.trim().is_empty(), result.media.is_empty()) {
        (false, _) => result.text.as_str(),
        (true, true) => "(no output)",
        (true, false) => "(see the picture)",
    };
    let says_so = text
        // `get` because byte 5 may be inside a character.
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so {
        format!("Error: {text}")
    } else {
        text.to_owned()
    }
}

fn call_id(id: &ToolCallId, dialect: Dialect, own: Option<&CallIds<'_>>) -> String {
    if let Some(theirs) = own.and_then(|ids| ids.provider_id(id)) {
        return theirs.to_owned();
    }
    match dialect {
        Dialect::Plain | Dialect::ReasoningBack => id.as_str().to_owned(),
        Dialect::ShortIds => short_id(id.as_str()),
    }
}

/// Hashes `id` to nine letters and digits (FNV-1a). The same id always gives the same result, so calls and results
/// match across requests.
fn short_id(id: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (0..9)
        .map(|_| {
            let digit = ALPHABET[(hash % 62) as usize];
            hash /= 62;
            digit as char
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::request::Effort;
    use crate::provider::request::tests::{ORIGIN, build_call_history, build_request, every_block};

    fn json_of(request: &ModelRequest, flavour: Flavour) -> Value {
        serde_json::from_str(&build_body(request, flavour, ORIGIN, ReasoningFields::default(), None).text())
            .unwrap()
    }

    #[test]
    fn writes_every_kind_of_block() {
        let body = json_of(&build_request("gpt-4o", every_block()), Flavour::OpenAi);
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn mistral_gets_short_ids_and_no_user_message_after_a_tool() {
        let request = build_request("mistral-large", every_block());
        let body = json_of(&request, Flavour::Mistral);
        assert!(body["stream_options"].is_null());
        let messages = body["messages"].as_array().unwrap();
        let call = messages
            .iter()
            .find(|message| message["tool_calls"].is_array())
            .unwrap();
        let id = call["tool_calls"][0]["id"].as_str().unwrap();
        assert!(
            id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "{id}"
        );
        let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
        assert_eq!(result["tool_call_id"], id);
        for pair in messages.windows(2) {
            assert!(
                !(pair[0]["role"] == "tool" && pair[1]["role"] == "user"),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn reasoning_is_sent_only_to_servers_that_require_it() {
        let mut thinking = every_block();
        let open = Block::Reasoning {
            text: "hm".into(),
            signature: None,
            redacted: false,
        };
        thinking[1].content.insert(0, open);
        for (flavour, expected) in [
            (Flavour::ReasoningBack, json!("hmforeign")),
            (Flavour::Other, Value::Null),
            (Flavour::OpenAi, Value::Null),
        ] {
            let body = json_of(&build_request("m", thinking.clone()), flavour);
            assert_eq!(body["messages"][2]["reasoning_content"], expected);
        }
    }

    /// Returns the ids of the calls, and of their results.
    fn ids(body: &Value) -> (Vec<&str>, Vec<&str>) {
        let messages = || body["messages"].as_array().unwrap().iter();
        let calls = messages()
            .filter_map(|message| message["tool_calls"].as_array())
            .flatten();
        (
            calls.map(|call| call["id"].as_str().unwrap()).collect(),
            messages()
                .filter_map(|message| message["tool_call_id"].as_str())
                .collect(),
        )
    }

    #[test]
    fn call_ids_and_extra_data_return_only_to_their_origin() {
        let long = "x".repeat(41);
        for (flavour, id, origin, sent) in [
            (Flavour::Other, "functions.bash:0", ORIGIN, "functions.bash:0"),
            (
                Flavour::ReasoningBack,
                "functions.bash:0",
                ORIGIN,
                "functions.bash:0",
            ),
            (Flavour::OpenRouter, &*long, ORIGIN, &*long),
            (Flavour::OpenAi, &*long, ORIGIN, "call_a"),
            (Flavour::Mistral, "AbCd12345", ORIGIN, "AbCd12345"),
            (Flavour::Other, "functions.bash:0", "elsewhere/model", "call_a"),
        ] {
            let body = json_of(&build_request("m", build_call_history(id, origin)), flavour);
            let (calls, results) = ids(&body);
            assert_eq!((calls[0], results[0]), (sent, sent), "{flavour:?} {id}");
            assert_eq!(calls[1], results[1], "{flavour:?} {id}");
            let extra = &body["messages"][2]["tool_calls"][0]["extra_content"];
            let expected = if origin == ORIGIN {
                json!({"google": {"thought_signature": "s"}})
            } else {
                Value::Null
            };
            assert_eq!(*extra, expected, "{flavour:?} {id}");
        }
    }

    #[test]
    fn opaque_reasoning_returns_only_to_its_origin() {
        let details = json!([{"type": "reasoning.encrypted", "data": "AAA", "id": "1", "index": 0}]);
        let opaque = json!({"reasoning_details": details, "extra_content": {"google": {}}}).to_string();
        for (origin, expected) in [(ORIGIN, details), ("elsewhere/model", Value::Null)] {
            let mut messages = build_call_history("c", origin);
            messages[1].content.push(Block::Reasoning {
                text: String::new(),
                signature: Some(crate::domain::Signature {
                    value: opaque.clone(),
                    origin: Some(origin.into()),
                }),
                redacted: true,
            });
            let body = json_of(&build_request("m", messages), Flavour::OpenRouter);
            assert_eq!(body["messages"][2]["reasoning_details"], expected);
            assert_eq!(body["messages"][2]["extra_content"].is_object(), origin == ORIGIN);
        }
    }

    #[test]
    fn a_call_without_its_readable_reasoning_goes_with_a_blank() {
        for (origin, expected) in [(ORIGIN, json!("hm")), ("elsewhere/model", json!(" "))] {
            let mut messages = build_call_history("c", origin);
            let thought = Block::Reasoning {
                text: "hm".into(),
                signature: None,
                redacted: false,
            };
            messages[1].content.insert(0, thought);
            let body = json_of(&build_request("m", messages), Flavour::ReasoningBack);
            assert_eq!(body["messages"][2]["reasoning_content"], expected);
        }
    }

    #[test]
    fn reasoning_goes_back_if_the_catalogue_says_so() {
        let mut messages = build_call_history("c", ORIGIN);
        let thought = Block::Reasoning {
            text: "hm".into(),
            signature: None,
            redacted: false,
        };
        messages[1].content.insert(0, thought);
        let request = build_request("m", messages);
        for (field, expected) in [
            (Some(ReasoningField::ReasoningContent), json!("hm")),
            (Some(ReasoningField::ReasoningDetails), Value::Null),
            (None, Value::Null),
        ] {
            let reasoning = ReasoningFields {
                gives_back: field,
                ..ReasoningFields::default()
            };
            let text = build_body(&request, Flavour::Other, ORIGIN, reasoning, None).text();
            let body: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(body["messages"][2]["reasoning_content"], expected, "{field:?}");
        }
    }

    #[test]
    fn the_cache_of_claude_is_marked_at_openrouter_only() {
        let body = |model: &str, flavour| json_of(&build_request(model, every_block()), flavour);
        let claude = body("anthropic/claude-sonnet-5.5", Flavour::OpenRouter);
        let messages = claude["messages"].as_array().unwrap();
        // Each breakpoint is in a text part, because a whole message takes none.
        let marked = |message: &&Value| {
            assert!(message["cache_control"].is_null(), "{message}");
            let parts = message["content"].as_array().into_iter().flatten();
            let marks: Vec<&Value> = parts.filter(|part| part["cache_control"].is_object()).collect();
            assert!(marks.iter().all(|part| part["type"] == "text"), "{message}");
            !marks.is_empty()
        };
        let roles: Vec<&Value> = messages
            .iter()
            .filter(marked)
            .map(|message| &message["role"])
            .collect();
        assert_eq!(roles, ["system", "user", "user"]);
        let plain = body("openai/gpt-6.1-sol", Flavour::OpenRouter);
        for body in [plain, body("anthropic/claude-sonnet-5.5", Flavour::Other)] {
            assert!(!body.to_string().contains("cache_control"), "{body}");
        }
    }

    #[test]
    fn a_tool_result_carries_the_cache_breakpoint_in_its_text() {
        let mut history = build_call_history("c", ORIGIN);
        history.truncate(3);
        // The result with a picture, which would follow in a message of its own.
        history[2].content.remove(0);
        let request = build_request("anthropic/claude-sonnet-5.5", history);
        let body = json_of(&request, Flavour::OpenRouter);
        let part =
            json!({"type": "text", "text": "Error: unknown tool", "cache_control": {"type": "ephemeral"}});
        assert_eq!(
            body["messages"][3],
            json!({"role": "tool", "tool_call_id": "call_b", "content": [part]})
        );
        // The cached encoding of the message stays clean.
        assert!(
            !json_of(&request, Flavour::Other)
                .to_string()
                .contains("cache_control")
        );
    }

    #[test]
    fn options_follow_the_flavour() {
        let mut request = build_request("m", vec![Message::user_text("hello")]);
        request.effort = Some(Effort::Low);
        let openai = json_of(&request, Flavour::OpenAi);
        assert_eq!(openai["max_completion_tokens"], request.max_output_tokens);
        for flavour in [
            Flavour::OpenAi,
            Flavour::Mistral,
            Flavour::ReasoningBack,
            Flavour::Other,
        ] {
            assert_eq!(
                json_of(&request, flavour)["reasoning_effort"],
                "low",
                "{flavour:?}"
            );
        }
        assert_eq!(openai["stream_options"]["include_usage"], true);
        let router = json_of(&request, Flavour::OpenRouter);
        assert_eq!(router["reasoning"]["effort"], "low");
        assert_eq!(router["usage"]["include"], true);
        assert_eq!(router["max_tokens"], request.max_output_tokens);
        for (model, limit) in [
            ("gpt-5.5", "max_completion_tokens"),
            ("gpt-oss-120b", "max_tokens"),
        ] {
            let request = build_request(model, vec![Message::user_text("hello")]);
            let body = json_of(&request, Flavour::Other);
            assert_eq!(body[limit], request.max_output_tokens, "{model}");
        }
        request.is_limit_assumed = true;
        for flavour in [Flavour::OpenAi, Flavour::OpenRouter, Flavour::Mistral] {
            let body = json_of(&request, flavour);
            assert!(body.get("max_tokens").is_none() && body.get("max_completion_tokens").is_none());
        }
    }

    #[test]
    fn claude_thinks_by_default_over_openrouter_too() {
        let body =
            |model: &str, flavour| json_of(&build_request(model, vec![Message::user_text("hi")]), flavour);
        let switch = json!({"enabled": true});
        for (model, flavour, reasoning) in [
            ("anthropic/claude-sonnet-4", Flavour::OpenRouter, switch.clone()),
            ("anthropic/claude-opus-4.8", Flavour::OpenRouter, switch.clone()),
            ("anthropic/claude-sonnet-5.5", Flavour::OpenRouter, switch),
            ("anthropic/claude-3.7-sonnet", Flavour::OpenRouter, Value::Null),
            ("openai/gpt-6.1-sol", Flavour::OpenRouter, Value::Null),
            ("anthropic/claude-opus-4.8", Flavour::Other, Value::Null),
        ] {
            assert_eq!(body(model, flavour)["reasoning"], reasoning, "{model}");
        }
        let mut request = build_request("anthropic/claude-opus-4.8", vec![Message::user_text("hi")]);
        request.effort = Some(Effort::None);
        assert_eq!(
            json_of(&request, Flavour::OpenRouter)["reasoning"],
            json!({"effort": "none"})
        );
        request.effort = None;
        request.omitted.insert(RequestPart::Thinking);
        assert!(json_of(&request, Flavour::OpenRouter)["reasoning"].is_null());
    }

    #[test]
    fn a_switch_takes_the_place_of_the_effort() {
        let mut request = build_request("glm-4.7", vec![Message::user_text("hello")]);
        request.effort = Some(Effort::None);
        let reasoning = ReasoningFields {
            switch: ReasoningSwitch::find("zai", "glm-4.7"),
            ..ReasoningFields::default()
        };
        let text = build_body(&request, Flavour::Other, ORIGIN, reasoning, None).text();
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["thinking"], json!({"type": "disabled"}));
        assert!(body["reasoning_effort"].is_null(), "{body}");
    }

    #[test]
    fn the_same_message_can_be_sent_in_every_dialect() {
        let request = build_request("m", every_block());
        let mistral = json_of(&request, Flavour::Mistral);
        let plain = json_of(&request, Flavour::Other);
        assert_ne!(mistral["messages"], plain["messages"]);
        assert_eq!(json_of(&request, Flavour::Mistral), mistral);
    }

    #[test]
    fn error_results_begin_with_error_exactly_once() {
        assert_eq!(
            result_text(&ToolResult::error("no such file")),
            "Error: no such file"
        );
        assert_eq!(result_text(&ToolResult::error("error: x")), "error: x");
        assert_eq!(result_text(&ToolResult::ok(" ")), "(no output)");
        assert_eq!(result_text(&ToolResult::error("é")), "Error: é");
    }
}
