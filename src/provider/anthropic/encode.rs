//! Encodes a request for the Messages API.
//!
//! Prompt caches: the beginning (tools, system prompt, old messages) never changes between steps. Three breakpoints
//! tell the API where to cache: after the system prompt, and after the last two runs of user and tool messages
//! (R-LOOP-5). A breakpoint goes into a copy of the message's end, so the cached encoding stays clean.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::config::CacheTtl;
use crate::domain::{Block, MediaData, Message, Role, ToolResult};
use crate::provider::body::BodyPieces;
use crate::provider::models::{claude_version, is_thinking_enabled, plain_name};
use crate::provider::request::{
    CallIds, Effort, HistoryItem, ModelRequest, RequestShape, find_cache_breakpoints, gives_back,
    object_input, safe_name,
};
use crate::provider::request_part::{OptionalField, RequestPart};

/// Returns the field that ends a cached part of the request.
fn breakpoint(ttl: CacheTtl) -> &'static str {
    match ttl {
        CacheTtl::FiveMinutes => r#","cache_control":{"type":"ephemeral"}"#,
        CacheTtl::OneHour => r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
    }
}

/// The end of an encoded message: closes the last block, the list of blocks, and the message.
const END: &str = "}]}";

/// The most searches in one answer.
const MAX_SEARCHES: u32 = 5;

/// The effort of models that take a budget, if none is configured: they would not think without one.
const DEFAULT_EFFORT: Effort = Effort::Medium;
/// The smallest thinking budget that the API accepts, in tokens.
const LEAST_BUDGET: u32 = 1_024;

/// Encodes the whole request. `origin` is the mark of the called model; see `Provider::model_origin`.
pub(super) fn build_body(request: &ModelRequest, origin: &str, ttl: CacheTtl) -> BodyPieces {
    let mut body = BodyPieces::default();
    let breakpoint = if body.admit_part(&request.omitted, RequestPart::CacheMarks) {
        let is_long = ttl == CacheTtl::OneHour && body.admit_part(&request.omitted, RequestPart::CacheTtl);
        breakpoint(if is_long { ttl } else { CacheTtl::FiveMinutes })
    } else {
        ""
    };
    body.add_field("model", json!(request.model));
    body.add_field("stream", json!(true));
    body.add_field("max_tokens", json!(request.max_output_tokens));
    body.add_options(&request.omitted, build_thinking_params(request, origin));
    if needs_interleaving(request, origin) {
        body.admit_part(&request.omitted, RequestPart::InterleavedThinking);
    }
    let has_system = !request.system.trim().is_empty();
    if request.web_search {
        body.push_raw(&format!(",\"tools\":[{}]", web_search_tool()));
    } else if !request.tools.is_empty() {
        body.push_raw(",\"tools\":[");
        for (at, tool) in request.tools.iter().enumerate() {
            let mut text =
                json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
                    .to_string();
            // Without a system prompt the breakpoint after it goes to the last tool.
            if !has_system && at + 1 == request.tools.len() {
                text.insert_str(text.len() - 1, breakpoint);
            }
            body.push_raw(if at > 0 { "," } else { "" });
            body.push_raw(&text);
        }
        body.push_raw("]");
    }
    if has_system && body.admit_part(&request.omitted, RequestPart::SystemBlocks) {
        body.push_raw(",\"system\":[{\"type\":\"text\",\"text\":");
        body.push_json(&&*request.system);
        body.push_raw(breakpoint);
        body.push_raw("}]");
    } else if has_system {
        body.push_raw(",\"system\":");
        body.push_json(&&*request.system);
    }
    body.push_raw(",\"messages\":[");
    write_messages(request, origin, breakpoint, &mut body);
    body.push_raw("]}");
    body
}

/// Returns the API's own web search. A request has either it or tools of ours.
fn web_search_tool() -> Value {
    json!({"type": "web_search_20250305", "name": "web_search", "max_uses": MAX_SEARCHES})
}

fn write_messages(request: &ModelRequest, origin: &str, breakpoint: &str, body: &mut BodyPieces) {
    let needs_thoughts = is_deepseek(&request.model, origin) && request.effort != Some(Effort::None);
    let written: Vec<(&HistoryItem, &Bytes)> = request
        .with_calls()
        .map(|(item, calls)| {
            let accepts = if is_anthropic(origin) {
                accepts_id
            } else {
                |_: &str| true
            };
            let is_own = calls.is_from_origin(origin);
            let shape = match (is_own, needs_thoughts) {
                (true, false) => RequestShape::Anthropic,
                (false, false) => RequestShape::AnthropicBare,
                (true, true) => RequestShape::AnthropicThought,
                (false, true) => RequestShape::AnthropicThoughtBare,
            };
            let ids = if is_own {
                CallIds::from_answer(&calls.message, accepts)
            } else {
                CallIds::with_own_ids()
            };
            (
                item,
                item.get_or_encode(shape, |message| encode_message(message, shape, &ids)),
            )
        })
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    let marked = find_cache_breakpoints(
        &written
            .iter()
            .map(|(item, _)| item.message.role)
            .collect::<Vec<_>>(),
    );
    for (at, (_, bytes)) in written.iter().enumerate() {
        if at > 0 {
            body.push_raw(",");
        }
        if marked.contains(&at) {
            body.push(&bytes.slice(..bytes.len() - END.len()));
            body.push_raw(breakpoint);
            body.push_raw(END);
        } else {
            body.push(bytes);
        }
    }
}

/// Returns the parameters that enable thinking, in the form that the model's version understands.
fn build_thinking_params(request: &ModelRequest, origin: &str) -> Vec<OptionalField> {
    let switch = |thinking: Value| (RequestPart::Thinking, "thinking", thinking);
    let version = claude_version(&request.model);
    if version.is_none() && request.effort == Some(Effort::None) {
        // Models of other vendors think unless told otherwise.
        return vec![switch(json!({"type": "disabled"}))];
    }
    if !is_thinking_enabled(&request.model, request.effort) {
        return Vec::new();
    }
    let adaptive = version.is_some_and(|version| version >= (4, 6));
    let effort = request
        .effort
        // Not an effort of this API.
        .filter(|effort| *effort != Effort::None)
        .map(|effort| {
            (
                RequestPart::Effort,
                "output_config",
                json!({"effort": effort.name()}),
            )
        });
    match (request.effort, version) {
        // These versions always think. Without this, their thoughts and their text between tools stay hidden.
        (_, Some((5.., _))) => {
            let thinking = json!({"type": "adaptive", "display": "summarized"});
            std::iter::once(switch(thinking)).chain(effort).collect()
        }
        (None, None) => Vec::new(),
        (_, Some(version)) if adaptive => {
            let mut thinking = json!({"type": "adaptive"});
            if version >= (4, 7) {
                thinking["display"] = json!("summarized");
            }
            std::iter::once(switch(thinking)).chain(effort).collect()
        }
        (Some(_), None) if is_deepseek(&request.model, origin) => {
            let thinking = switch(json!({"type": "enabled"}));
            std::iter::once(thinking).chain(effort).collect()
        }
        (Some(_), None) if takes_no_budget(&request.model) => vec![switch(json!({"type": "adaptive"}))],
        (effort, _) => {
            let effort = effort.unwrap_or(DEFAULT_EFFORT);
            match compute_thinking_budget(effort, request.max_output_tokens) {
                Some(budget) if may_think(&request.messages, origin) => {
                    vec![switch(json!({"type": "enabled", "budget_tokens": budget}))]
                }
                _ => Vec::new(),
            }
        }
    }
}

/// Reports whether the model only switches its thinking: MiniMax's do, by platform.minimax.io (Anthropic API).
fn takes_no_budget(model: &str) -> bool {
    plain_name(model).starts_with("minimax")
}

/// Reports whether the model needs a beta feature to think between tool calls: Claude 4 to 4.5 with a budget.
pub(super) fn needs_interleaving(request: &ModelRequest, origin: &str) -> bool {
    let has_feature = matches!(claude_version(&request.model), Some((4, 0..=5)));
    let is_refused = [RequestPart::InterleavedThinking, RequestPart::Thinking]
        .iter()
        .any(|part| request.omitted.contains(part));
    let mut params = build_thinking_params(request, origin).into_iter();
    has_feature && !is_refused && params.any(|(_, _, value)| value["budget_tokens"].is_number())
}

/// Returns the thinking budget in tokens: at most half of the answer; `None` if that is less than the API accepts.
fn compute_thinking_budget(effort: Effort, max_output: u32) -> Option<u32> {
    let wanted = match effort {
        Effort::None => return None,
        Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 4_096,
        Effort::Medium => 10_240,
        Effort::High => 24_576,
        Effort::XHigh => 49_152,
        Effort::Max => u32::MAX,
    };
    Some(wanted.min(max_output / 2)).filter(|budget| *budget >= LEAST_BUDGET)
}

/// Reports whether the request may have a thinking budget. With one, an answer that called tools must begin with its
/// reasoning when it goes back. If another model gave that answer, its reasoning is lost, and the rest of this tool
/// loop runs without thinking. A user message directly after tool results (a steer, or a prompt after a cancel) does
/// not end the loop: the API joins the two.
fn may_think(messages: &[std::sync::Arc<HistoryItem>], origin: &str) -> bool {
    let mut user_message_follows = false;
    for message in messages.iter().rev().map(|item| &item.message) {
        match message.role {
            Role::User => user_message_follows = true,
            Role::Tool => user_message_follows = false,
            Role::Assistant if user_message_follows => return true,
            Role::Assistant => {
                let has_tool_calls = message.tool_uses().next().is_some();
                let begins = message
                    .content
                    .first()
                    .is_some_and(|block| encode_reasoning(block).is_some());
                if has_tool_calls && !(begins && gives_back(message, origin)) {
                    return false;
                }
            }
        }
    }
    true
}

/// Encodes a message; empty if none of it can be sent to this API.
fn encode_message(message: &Message, shape: RequestShape, ids: &CallIds<'_>) -> Bytes {
    let is_bare = matches!(
        shape,
        RequestShape::AnthropicBare | RequestShape::AnthropicThoughtBare
    );
    let needs_thoughts = matches!(
        shape,
        RequestShape::AnthropicThought | RequestShape::AnthropicThoughtBare
    );
    let blocks = message.content.iter().filter_map(|block| match block {
        Block::Reasoning { .. } if is_bare => None,
        Block::Reasoning { text, .. } if needs_thoughts && encode_reasoning(block).is_none() => {
            (!text.trim().is_empty()).then(|| encode_thought(text))
        }
        _ => encode_block(block, ids),
    });
    let mut blocks: Vec<Value> = blocks.collect();
    let is_of_type = |wanted: &str| blocks.iter().any(|block| block["type"] == wanted);
    if needs_thoughts && is_of_type("tool_use") && !is_of_type("thinking") {
        blocks.insert(0, encode_thought(" "));
    }
    // A message may not consist of reasoning alone.
    let has_content = blocks
        .iter()
        .any(|block| !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")));
    if !has_content {
        return Bytes::new();
    }
    let role = match message.role {
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    // Written by hand, so that the message ends with [`END`] whatever the order of keys.
    let content = Value::Array(blocks);
    Bytes::from(format!("{{\"role\":\"{role}\",\"content\":{content}}}"))
}

/// Builds a block of reasoning that has no signature.
fn encode_thought(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": ""})
}

/// Recognizes Anthropic's own API, which is strict about ids. Other servers accept the ids that they gave.
fn is_anthropic(origin: &str) -> bool {
    has_domain(origin, "anthropic.com")
}

/// Recognizes DeepSeek's API and its models behind gateways. They think unless told otherwise, and refuse a request with
/// a call that lacks the reasoning before it, also if another model made that call or there was none. They need no
/// signature, and ignore a budget. Sources: api-docs.deepseek.com (Thinking Mode); QwenLM/qwen-code, pull request 3788.
fn is_deepseek(model: &str, origin: &str) -> bool {
    has_domain(origin, "deepseek.com")
        || plain_name(model).starts_with("deepseek") && is_thinking_enabled(model, None)
}

/// Returns whether an origin is a server in this domain.
fn has_domain(origin: &str, domain: &str) -> bool {
    let host = origin.split(['/', ':']).next().unwrap_or_default();
    let below = host.strip_suffix(domain);
    below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

/// Reports whether Anthropic's own API accepts a call id.
fn accepts_id(id: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.bytes().all(safe)
}

fn encode_block(block: &Block, ids: &CallIds<'_>) -> Option<Value> {
    match block {
        Block::Text(block_text) => text(block_text),
        Block::Reasoning { .. } => encode_reasoning(block),
        Block::ToolUse { id, name, input, .. } => {
            let input = object_input(input);
            Some(json!({"type": "tool_use", "id": ids.wire_id(id), "name": safe_name(name), "input": input}))
        }
        Block::ToolResult { id, result } => {
            let mut value = json!({"type": "tool_result", "tool_use_id": ids.wire_id(id), "content": result_content(result)});
            if result.is_error {
                value["is_error"] = json!(true);
            }
            Some(value)
        }
        Block::Image(data) => Some(encode_media(data)),
        Block::Reference(reference) => text(&reference.to_prompt_text()),
    }
}

fn text(text: &str) -> Option<Value> {
    // The API refuses empty text blocks (R-LOOP-4).
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn encode_reasoning(block: &Block) -> Option<Value> {
    let Block::Reasoning {
        text,
        signature: Some(signature),
        redacted,
    } = block
    else {
        // Unsigned reasoning came from another API; this one would refuse it.
        return None;
    };
    Some(match redacted {
        true => json!({"type": "redacted_thinking", "data": signature.value}),
        false => json!({"type": "thinking", "thinking": text, "signature": signature.value}),
    })
}

fn result_content(result: &ToolResult) -> Vec<Value> {
    let mut content: Vec<Value> = text(&result.text).into_iter().collect();
    content.extend(result.media.iter().map(encode_media));
    if content.is_empty() {
        // The API refuses empty content (R-LOOP-4).
        content.push(json!({"type": "text", "text": "(no output)"}));
    }
    content
}

fn encode_media(media: &MediaData) -> Value {
    let kind = if media.is_document() { "document" } else { "image" };
    json!({"type": kind, "source": {"type": "base64", "media_type": media.media_type, "data": media.data}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::request::tests::{ORIGIN, build_request, every_block};
    use std::sync::Arc;

    fn json_of(request: &ModelRequest) -> Value {
        serde_json::from_str(&build_body(request, ORIGIN, CacheTtl::default()).text()).unwrap()
    }

    #[test]
    fn tool_calls_return_under_the_id_of_their_origin() {
        const HERE: &str = "api.anthropic.com/m";
        for (id, stored_origin, target_origin, sent) in [
            ("toolu_1", HERE, HERE, "toolu_1"),
            ("functions.bash:0", HERE, HERE, "call_a"),
            ("functions.bash:0", ORIGIN, ORIGIN, "functions.bash:0"),
            ("toolu_1", ORIGIN, HERE, "call_a"),
        ] {
            let history = crate::provider::request::tests::build_call_history(id, stored_origin);
            let body: Value = serde_json::from_str(
                &build_body(&build_request("m", history), target_origin, CacheTtl::default()).text(),
            )
            .unwrap();
            let messages = body["messages"].as_array().unwrap();
            assert_eq!(messages[1]["content"][1]["id"], sent, "{id}");
            assert_eq!(messages[2]["content"][0]["tool_use_id"], sent, "{id}");
            assert_eq!(messages[2]["content"][1]["tool_use_id"], "call_b");
        }
    }

    #[test]
    fn each_call_to_deepseek_begins_with_reasoning() {
        const HERE: &str = "api.deepseek.com/deepseek-v4-pro";
        let thought = |text: &str| json!({"type": "thinking", "thinking": text, "signature": ""});
        let unsigned = Block::Reasoning {
            text: "hm".to_owned(),
            signature: None,
            redacted: false,
        };
        for (origin, has_own, effort, expected) in [
            // None came, or another model made the call.
            (HERE, false, None, Some(" ")),
            ("api.anthropic.com/m", false, None, Some(" ")),
            ("api.anthropic.com/m", true, None, Some(" ")),
            (HERE, true, None, Some("hm")),
            (HERE, true, Some(Effort::High), Some("hm")),
            (HERE, true, Some(Effort::None), None),
        ] {
            let mut history = crate::provider::request::tests::build_call_history("call_x", origin);
            if has_own {
                history[1].content.insert(0, unsigned.clone());
            }
            let mut request = build_request("deepseek-v4-pro", history);
            request.effort = effort;
            let body = build_body(&request, HERE, CacheTtl::default()).text();
            let body: Value = serde_json::from_str(&body).unwrap();
            let first = &body["messages"][1]["content"][0];
            let expected = expected.map(thought);
            assert_eq!(
                (first["type"] == "thinking").then(|| first.clone()),
                expected,
                "{origin} {effort:?}"
            );
            let thoughts = body["messages"].to_string().matches("\"thinking\":").count();
            assert_eq!(
                thoughts,
                usize::from(expected.is_some()),
                "one for each message with calls"
            );
        }
        // Other servers get none that they did not give.
        let history = crate::provider::request::tests::build_call_history("call_x", HERE);
        let body = build_body(&build_request("glm-4.6", history), ORIGIN, CacheTtl::default()).text();
        assert!(!body.contains("\"thinking\""), "{body}");
    }

    #[test]
    fn writes_every_kind_of_block() {
        let body = json_of(&build_request("claude-sonnet-4-20250514", every_block()));
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn a_search_has_no_other_tool() {
        let mut request = build_request("claude-sonnet-4", vec![Message::user_text("hats")]);
        request.web_search = true;
        assert_eq!(
            json_of(&request)["tools"],
            json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}])
        );
    }

    #[test]
    fn breakpoints_follow_the_system_prompt_and_the_last_two_user_runs() {
        let body = json_of(&build_request("claude-sonnet-4-20250514", every_block()));
        assert!(body["system"][0]["cache_control"].is_object());
        let marked: Vec<usize> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .filter(|(_, message)| message.to_string().contains("cache_control"))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(marked, [0, 3]);
        assert_eq!(find_cache_breakpoints(&[Role::User]), [0]);
        let run = [
            Role::User,
            Role::Assistant,
            Role::Tool,
            Role::User,
            Role::Assistant,
            Role::User,
        ];
        assert_eq!(find_cache_breakpoints(&run), [5, 3]);
    }

    #[test]
    fn the_tools_get_the_breakpoint_without_a_system_prompt() {
        let mut request = build_request("claude-sonnet-4", every_block());
        request.system = " ".into();
        let body = json_of(&request);
        assert!(body["system"].is_null());
        assert!(body["tools"][0]["cache_control"].is_object());
    }

    #[test]
    fn cached_encodings_contain_no_breakpoint() {
        let request = build_request("claude-sonnet-4", every_block());
        let _ = build_body(&request, ORIGIN, CacheTtl::default());
        for item in &request.messages {
            let cached = item.get_or_encode(RequestShape::Anthropic, |_| unreachable!("made once"));
            assert!(!String::from_utf8_lossy(cached).contains("cache_control"));
        }
    }

    #[test]
    fn thinking_parameters_follow_the_model_version() {
        let thinking_of = |model: &str, effort, max_output| {
            let mut request = build_request(model, vec![Message::user_text("hello")]);
            request.effort = effort;
            request.max_output_tokens = max_output;
            let body = json_of(&request);
            (body["thinking"].clone(), body["output_config"]["effort"].clone())
        };
        let high = Some(Effort::High);
        let budget = |n: u32| json!({"type": "enabled", "budget_tokens": n});
        let adaptive = json!({"type": "adaptive", "display": "summarized"});
        let off = (Value::Null, Value::Null);
        for (model, effort, max_output, expected) in [
            (
                "claude-sonnet-4-20250514",
                None,
                32_000,
                (budget(10_240), Value::Null),
            ),
            (
                "claude-sonnet-4-20250514",
                Some(Effort::None),
                32_000,
                off.clone(),
            ),
            ("claude-3-7-sonnet-20250219", None, 32_000, off.clone()),
            ("claude-haiku-4-5", None, 64_000, (budget(10_240), Value::Null)),
            (
                "claude-sonnet-4-6",
                None,
                8_192,
                (json!({"type": "adaptive"}), Value::Null),
            ),
            ("claude-opus-4-8", None, 8_192, (adaptive.clone(), Value::Null)),
            ("glm-4.6", None, 64_000, off),
            (
                "claude-sonnet-4-20250514",
                high,
                64_000,
                (budget(24_576), Value::Null),
            ),
            (
                "claude-sonnet-4-20250514",
                Some(Effort::Low),
                64_000,
                (budget(4_096), Value::Null),
            ),
            (
                "claude-sonnet-4-20250514",
                high,
                8_192,
                (budget(4_096), Value::Null),
            ),
            (
                "claude-sonnet-4-20250514",
                high,
                2_000,
                (Value::Null, Value::Null),
            ),
            (
                "claude-3-5-haiku-20241022",
                high,
                8_192,
                (Value::Null, Value::Null),
            ),
            (
                "claude-opus-4-6",
                high,
                8_192,
                (json!({"type": "adaptive"}), json!("high")),
            ),
            ("claude-opus-4-8", high, 8_192, (adaptive.clone(), json!("high"))),
            (
                "claude-opus-4-6",
                Some(Effort::None),
                8_192,
                (Value::Null, Value::Null),
            ),
            ("claude-opus-5-5", None, 8_192, (adaptive.clone(), Value::Null)),
            (
                "claude-new-9",
                Some(Effort::None),
                8_192,
                (adaptive.clone(), Value::Null),
            ),
            (
                "claude-sonnet-5",
                Some(Effort::Low),
                8_192,
                (adaptive, json!("low")),
            ),
            ("glm-4.6", high, 64_000, (budget(24_576), Value::Null)),
            (
                "deepseek-v4-pro",
                high,
                64_000,
                (json!({"type": "enabled"}), json!("high")),
            ),
            ("deepseek-v4-pro", None, 64_000, (Value::Null, Value::Null)),
            (
                "glm-4.6",
                Some(Effort::None),
                64_000,
                (json!({"type": "disabled"}), Value::Null),
            ),
            (
                "MiniMax-M3",
                high,
                64_000,
                (json!({"type": "adaptive"}), Value::Null),
            ),
        ] {
            assert_eq!(
                thinking_of(model, effort, max_output),
                expected,
                "{model} {effort:?}"
            );
        }
    }

    #[test]
    fn a_tool_loop_without_its_reasoning_continues_without_thinking() {
        let mut request = build_request("claude-sonnet-4", every_block());
        request.effort = Some(Effort::High);
        request.max_output_tokens = 32_000;
        assert!(json_of(&request)["thinking"].is_object());
        // Foreign reasoning is unsigned, so it is omitted, and the tool loop is still open.
        let mut foreign = every_block();
        foreign.truncate(3);
        foreign[1]
            .content
            .retain(|block| !matches!(block, Block::Reasoning { .. }));
        request.messages = foreign.into_iter().map(HistoryItem::new).collect();
        assert!(json_of(&request)["thinking"].is_null());
    }

    #[test]
    fn reasoning_returns_only_to_its_origin() {
        let mut request = build_request("claude-sonnet-4", every_block());
        request.effort = Some(Effort::High);
        request.max_output_tokens = 32_000;
        request.messages.truncate(3);
        let sent = |origin: &str| -> (usize, bool) {
            let body: Value =
                serde_json::from_str(&build_body(&request, origin, CacheTtl::default()).text()).unwrap();
            let blocks = body["messages"][1]["content"].as_array().unwrap().iter();
            let thought = |block: &&Value| block["type"].as_str().unwrap().contains("thinking");
            (blocks.filter(thought).count(), body["thinking"].is_object())
        };
        for _ in 0..2 {
            assert_eq!(sent(ORIGIN), (2, true));
            assert_eq!(sent("api.example/another"), (0, false));
        }
        // Reasoning stored without an origin goes to no model.
        let mut old = every_block();
        for block in &mut old[1].content {
            if let Block::Reasoning {
                signature: Some(signature),
                ..
            } = block
            {
                signature.origin = None;
            }
        }
        request.messages = old.into_iter().map(HistoryItem::new).collect();
        request.messages.truncate(3);
        assert!(
            !build_body(&request, ORIGIN, CacheTtl::default())
                .text()
                .contains("sig")
        );
    }

    #[test]
    fn thinking_is_requested_only_from_models_that_think() {
        for model in [
            "claude-3-5-haiku",
            "claude-sonnet-4",
            "claude-opus-4-8",
            "claude-opus-5",
            "glm-4.6",
            "m",
        ] {
            for effort in [None, Some(Effort::High)] {
                let mut request = build_request(model, vec![Message::user_text("hello")]);
                (request.effort, request.max_output_tokens) = (effort, 32_000);
                let is_requested = json_of(&request)["thinking"].is_object();
                assert!(
                    !is_requested || is_thinking_enabled(model, effort),
                    "{model} {effort:?}"
                );
                assert!(
                    is_requested || effort.is_none() || !is_thinking_enabled(model, effort),
                    "{model} {effort:?}"
                );
            }
        }
    }

    #[test]
    fn only_claude_4_with_a_budget_needs_interleaving() {
        for (model, effort, is_needed) in [
            ("claude-sonnet-4-5", Some(Effort::High), true),
            ("claude-opus-4", Some(Effort::Low), true),
            ("claude-sonnet-4-5", None, true),
            ("claude-sonnet-4-5", Some(Effort::None), false),
            ("claude-opus-4-6", Some(Effort::High), false),
            ("claude-3-7-sonnet", Some(Effort::High), false),
            ("claude-sonnet-5-5", Some(Effort::High), false),
            ("glm-5", Some(Effort::High), false),
        ] {
            let mut request = build_request(model, vec![Message::user_text("hello")]);
            (request.effort, request.max_output_tokens) = (effort, 32_000);
            assert_eq!(
                needs_interleaving(&request, ORIGIN),
                is_needed,
                "{model} {effort:?}"
            );
        }
    }

    #[test]
    fn cache_breakpoints_carry_a_long_life_only_on_request() {
        let request = build_request("claude-sonnet-5-5", every_block());
        let count = |ttl| {
            build_body(&request, ORIGIN, ttl)
                .text()
                .matches(r#""ttl":"1h""#)
                .count()
        };
        assert_eq!((count(CacheTtl::FiveMinutes), count(CacheTtl::OneHour)), (0, 3));
    }

    #[test]
    fn a_refused_life_of_the_cache_leaves_its_marks() {
        let mut request = build_request("claude-sonnet-5-5", every_block());
        request.omitted.insert(RequestPart::CacheTtl);
        let body = build_body(&request, ORIGIN, CacheTtl::OneHour);
        assert!(!body.parts().contains(&RequestPart::CacheTtl));
        let marks = r#""cache_control":{"type":"ephemeral"}"#;
        assert_eq!(body.text().matches(marks).count(), 3);
    }

    #[test]
    fn messages_without_sendable_content_are_omitted() {
        let mut silent = Message::user_text(" ");
        silent.role = Role::Assistant;
        silent.content.push(Block::Reasoning {
            text: "x".into(),
            signature: None,
            redacted: false,
        });
        let messages = vec![Message::user_text("a"), silent, Message::user_text("b")];
        let body = json_of(&build_request("claude-sonnet-4", messages));
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn long_messages_are_not_copied() {
        let item = HistoryItem::new(Message::user_text("x".repeat(100_000)));
        let mut long = build_request("claude-sonnet-4", vec![]);
        let answer = HistoryItem::new(Message {
            role: Role::Assistant,
            ..Message::user_text("ok")
        });
        let last = HistoryItem::new(Message::user_text("go on"));
        long.messages = vec![item.clone(), answer, last];
        let first = item.get_or_encode(RequestShape::Anthropic, |message| {
            encode_message(message, RequestShape::Anthropic, &CallIds::with_own_ids())
        });
        let second = item.get_or_encode(RequestShape::Anthropic, |message| {
            encode_message(message, RequestShape::Anthropic, &CallIds::with_own_ids())
        });
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert!(
            Arc::strong_count(&item) == 2 && build_body(&long, ORIGIN, CacheTtl::default()).len() > 100_000
        );
    }
}
