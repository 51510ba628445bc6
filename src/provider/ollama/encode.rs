//! Encodes a request for Ollama's API.
//!
//! `num_ctx` is in every request, because Ollama loads the model again when it changes. Reasoning goes back within a tool
//! loop, to the model that gave it (R-LOOP-4).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::domain::{Block, MediaData, Message, Role};
use crate::provider::body::BodyPieces;
use crate::provider::models::plain_name;
use crate::provider::openai::{own_reasoning, result_text, write_tools};
use crate::provider::request::{CallIds, Effort, ModelRequest, RequestShape, object_input, safe_name};
use crate::provider::request_part::RequestPart;

/// Encodes the whole request. `origin` is the mark of the called model; see `Provider::model_origin`.
pub(super) fn build_body(request: &ModelRequest, origin: &str) -> BodyPieces {
    let mut body = BodyPieces::default();
    body.add_field("model", json!(request.model));
    body.add_field("stream", json!(true));
    body.add_field("options", build_options(request));
    let think = build_think(request).map(|think| (RequestPart::Thinking, "think", think));
    // Without these, Ollama drops the start of what does not fit, in silence.
    let whole = ["truncate", "shift"].map(|key| (RequestPart::NoTruncation, key, json!(false)));
    body.add_options(&request.omitted, whole.into_iter().chain(think));
    write_tools(&mut body, request);
    body.push_raw(",\"messages\":[");
    let mut first = true;
    let mut comma = |body: &mut BodyPieces| body.push_raw(if std::mem::take(&mut first) { "" } else { "," });
    if !request.system.trim().is_empty() {
        comma(&mut body);
        body.push_json(&json!({"role": "system", "content": &*request.system}));
    }
    for (item, calls) in request.with_calls() {
        let is_own = calls.is_from_origin(origin);
        let (shape, ids) = if is_own {
            (
                RequestShape::Ollama,
                CallIds::from_answer(&calls.message, |_| true),
            )
        } else {
            (RequestShape::OllamaBare, CallIds::with_own_ids())
        };
        let bytes = item.get_or_encode(shape, |message| {
            encode_message(message, &calls.message, is_own, &ids)
        });
        if !bytes.is_empty() {
            comma(&mut body);
            body.push(bytes);
        }
    }
    body.push_raw("]}");
    body
}

fn build_options(request: &ModelRequest) -> Value {
    let mut options = Map::new();
    if let Some(window) = request.context_window {
        options.insert("num_ctx".to_owned(), json!(window));
    }
    if !request.is_limit_assumed {
        options.insert("num_predict".to_owned(), json!(request.max_output_tokens));
    }
    Value::Object(options)
}

/// Returns whether or how much the model shall think. Only gpt-oss has levels, and it cannot stop thinking.
fn build_think(request: &ModelRequest) -> Option<Value> {
    let effort = request.effort?;
    if !plain_name(&request.model).starts_with("gpt-oss") {
        return Some(json!(effort != Effort::None));
    }
    Some(json!(match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::XHigh | Effort::Max => "high",
    }))
}

/// Encodes a message as one or more messages of the API, separated by commas; empty if none of it can be sent. `answer`
/// has the calls that a tool message answers.
fn encode_message(message: &Message, answer: &Message, is_own: bool, ids: &CallIds<'_>) -> Bytes {
    let values = match message.role {
        Role::User => encode_user_message(message).into_iter().collect(),
        Role::Assistant => encode_answer(message, is_own, ids).into_iter().collect(),
        Role::Tool => encode_tool_results(message, answer, ids),
    };
    Bytes::from(values.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
}

fn encode_user_message(message: &Message) -> Option<Value> {
    let words = |block: &Block| match block {
        Block::Text(words) => Some(words.clone()),
        Block::Reference(reference) => Some(reference.to_prompt_text()),
        _ => None,
    };
    let texts: Vec<String> = message
        .content
        .iter()
        .filter_map(words)
        .filter(|words| !words.trim().is_empty())
        .collect();
    let images = message.content.iter().filter_map(|block| match block {
        Block::Image(data) => Some(data),
        _ => None,
    });
    build_user_message(texts.join("\n\n"), images)
}

/// Builds a user message; `None` if it would be empty.
fn build_user_message<'i>(text: String, images: impl Iterator<Item = &'i MediaData>) -> Option<Value> {
    let images: Vec<&str> = images.map(|image| &*image.data).collect();
    if text.is_empty() && images.is_empty() {
        return None;
    }
    let mut value = json!({"role": "user", "content": text});
    if !images.is_empty() {
        value["images"] = json!(images);
    }
    Some(value)
}

fn encode_answer(message: &Message, is_own: bool, ids: &CallIds<'_>) -> Option<Value> {
    let text = message.text();
    let calls: Vec<Value> = message
        .tool_uses()
        .map(|(id, name, input)| {
            let mut call = json!({"function": {"name": safe_name(name), "arguments": object_input(input)}});
            if let Some(theirs) = ids.provider_id(id) {
                call["id"] = json!(theirs);
            }
            call
        })
        .collect();
    if text.trim().is_empty() && calls.is_empty() {
        return None;
    }
    let mut value = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        if let Some(thought) = own_reasoning(message).filter(|_| is_own) {
            value["thinking"] = json!(thought);
        }
        value["tool_calls"] = json!(calls);
    }
    Some(value)
}

/// Encodes tool results, then their images in a user message, because models take images from users only.
fn encode_tool_results(message: &Message, answer: &Message, ids: &CallIds<'_>) -> Vec<Value> {
    let mut values = Vec::new();
    let mut images = Vec::new();
    for block in &message.content {
        if let Block::ToolResult { id, result } = block {
            let mut calls = answer.tool_uses();
            let name = calls
                .find(|(known, ..)| *known == id)
                .map_or("unknown", |(_, name, _)| name);
            let mut value =
                json!({"role": "tool", "tool_name": safe_name(name), "content": result_text(result)});
            if let Some(theirs) = ids.provider_id(id) {
                value["tool_call_id"] = json!(theirs);
            }
            values.push(value);
            images.extend(result.pictures());
        }
    }
    if !images.is_empty() {
        values.extend(build_user_message(
            "What the tools show:".to_owned(),
            images.into_iter(),
        ));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::request::tests::{ORIGIN, build_call_history, build_request, every_block};

    fn json_of(request: &ModelRequest) -> Value {
        serde_json::from_str(&build_body(request, ORIGIN).text()).unwrap()
    }

    #[test]
    fn writes_every_kind_of_block() {
        let mut request = build_request("qwen3:8b", every_block());
        request.context_window = Some(40_960);
        insta::assert_snapshot!(serde_json::to_string_pretty(&json_of(&request)).unwrap());
    }

    #[test]
    fn prompts_are_not_truncated_unless_that_is_refused() {
        let mut request = build_request("qwen3:8b", every_block());
        let body = json_of(&request);
        assert_eq!(
            (&body["truncate"], &body["shift"]),
            (&json!(false), &json!(false))
        );
        request.omitted.insert(RequestPart::NoTruncation);
        let body = json_of(&request);
        assert_eq!((&body["truncate"], &body["shift"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn results_name_their_tool_and_the_id_of_their_origin() {
        for (origin, id) in [(ORIGIN, json!("theirs")), ("elsewhere/m", Value::Null)] {
            let body = json_of(&build_request("qwen3", build_call_history("theirs", origin)));
            let messages = &body["messages"];
            assert_eq!(messages[2]["tool_calls"][0]["id"], id);
            assert_eq!(messages[3]["tool_name"], "read_file");
            assert_eq!(messages[3]["tool_call_id"], id);
            assert_eq!(messages[4]["tool_name"], "made_up_name");
        }
    }

    #[test]
    fn thinking_is_switched_or_has_a_level() {
        let think = |model: &str, effort| {
            let mut request = build_request(model, vec![Message::user_text("hello")]);
            request.effort = effort;
            json_of(&request)["think"].take()
        };
        for (model, effort, expected) in [
            ("qwen3:8b", None, Value::Null),
            ("qwen3:8b", Some(Effort::None), json!(false)),
            ("qwen3:8b", Some(Effort::High), json!(true)),
            ("gpt-oss:20b", Some(Effort::Max), json!("high")),
            ("gpt-oss:20b", Some(Effort::None), json!("low")),
        ] {
            assert_eq!(think(model, effort), expected, "{model} {effort:?}");
        }
    }
}
