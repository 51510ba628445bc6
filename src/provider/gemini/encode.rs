//! Encodes a request for the Gemini API.
//!
//! The API checks that the first call of each answer has its thought signature. Signatures go back only to the model
//! that gave them, each in the part in which it came (R-LOOP-4).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::decode::{SIGNATURE, TextSignature};
use super::schema::reduce_parameters;
use crate::domain::{Block, MediaData, Message, Role, ToolCallId, ToolResult};
use crate::provider::body::BodyPieces;
use crate::provider::models::{is_thinking_enabled, plain_name};
use crate::provider::openai::result_text;
use crate::provider::request::{CallIds, Effort, ModelRequest, RequestShape, object_input, safe_name};
use crate::provider::request_part::RequestPart;

/// Google's own value for a call that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The bounds of the thinking budgets of Gemini 2.5, in tokens: Pro cannot stop thinking, and Flash thinks less.
const LEAST_PRO_BUDGET: u32 = 128;
const MOST_PRO_BUDGET: u32 = 32_768;
const MOST_FLASH_BUDGET: u32 = 24_576;

/// Encodes the whole request. `origin` is the mark of the called model; see `Provider::model_origin`.
pub(super) fn build_body(request: &ModelRequest, origin: &str) -> BodyPieces {
    let mut body = BodyPieces::default();
    let config = build_config(request, &mut body);
    body.add_field("generationConfig", config);
    if request.web_search {
        body.push_raw(",\"tools\":[{\"googleSearch\":{}}]");
    } else if !request.tools.is_empty() {
        let declare = |tool: &crate::domain::ToolSpec| {
            let mut declaration = json!({"name": tool.name, "description": tool.description});
            if let Some(schema) = reduce_parameters(&tool.schema) {
                declaration["parametersJsonSchema"] = schema;
            }
            declaration
        };
        let declarations: Vec<Value> = request.tools.iter().map(declare).collect();
        body.push_raw(",\"tools\":");
        body.push_json(&json!([{"functionDeclarations": declarations}]));
    }
    if !request.system.trim().is_empty() {
        body.push_raw(",\"systemInstruction\":");
        body.push_json(&json!({"parts": [{"text": &*request.system}]}));
    }
    body.push_raw(",\"contents\":[");
    let is_current = is_current(&request.model);
    let mut first = true;
    for (item, calls) in request.with_calls() {
        let is_own = calls.is_from_origin(origin);
        let shape = match (is_current, is_own) {
            (true, true) => RequestShape::Gemini,
            (true, false) => RequestShape::GeminiBare,
            (false, true) => RequestShape::GeminiOld,
            (false, false) => RequestShape::GeminiOldBare,
        };
        let encoder = Encoder {
            ids: if is_own {
                CallIds::from_answer(&calls.message, |_| true)
            } else {
                CallIds::with_own_ids()
            },
            answer: &calls.message,
            is_own,
            is_current,
        };
        let bytes = item.get_or_encode(shape, |message| encoder.encode(message));
        if !bytes.is_empty() {
            body.push_raw(if std::mem::take(&mut first) { "" } else { "," });
            body.push(bytes);
        }
    }
    body.push_raw("]}");
    body
}

/// Reports whether the model is Gemini 3 or later, which has thinking levels, checks signatures, and takes media in
/// results. An unknown name counts as a current model.
fn is_current(model: &str) -> bool {
    let name = plain_name(model);
    let is_old = ["gemini-1", "gemini-2", "gemma"]
        .iter()
        .any(|old| name.starts_with(old));
    !is_old
}

fn build_config(request: &ModelRequest, body: &mut BodyPieces) -> Value {
    let mut config = Map::new();
    if !request.is_limit_assumed && body.admit_part(&request.omitted, RequestPart::OutputLimit) {
        config.insert("maxOutputTokens".to_owned(), json!(request.max_output_tokens));
    }
    let has_budget = !is_current(&request.model);
    let thinking = match request.effort {
        Some(effort) if has_budget => {
            let budget = compute_budget(&request.model, effort);
            Some(json!({"includeThoughts": effort != Effort::None, "thinkingBudget": budget}))
        }
        Some(effort) => Some(json!({"includeThoughts": true, "thinkingLevel": nearest_level(effort)})),
        None if is_thinking_enabled(&request.model, None) => Some(json!({"includeThoughts": true})),
        None => None,
    };
    if let Some(thinking) = thinking
        && body.admit_part(&request.omitted, RequestPart::Thinking)
    {
        if request.effort.is_some() {
            body.admit_part(&request.omitted, RequestPart::Effort);
        }
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    Value::Object(config)
}

/// Returns the nearest of the API's levels, for a model that the catalogue does not know.
fn nearest_level(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::XHigh | Effort::Max => "high",
    }
}

fn compute_budget(model: &str, effort: Effort) -> u32 {
    let is_pro = plain_name(model).contains("pro");
    match effort {
        Effort::None if is_pro => LEAST_PRO_BUDGET,
        Effort::None => 0,
        Effort::Minimal => 1_024,
        Effort::Low => 4_096,
        Effort::Medium => 10_240,
        Effort::High | Effort::XHigh | Effort::Max if is_pro => MOST_PRO_BUDGET,
        Effort::High | Effort::XHigh | Effort::Max => MOST_FLASH_BUDGET,
    }
}

/// Encodes one message.
struct Encoder<'m> {
    ids: CallIds<'m>,
    /// The answer that made the calls; it has the names of the called tools.
    answer: &'m Message,
    is_own: bool,
    is_current: bool,
}

impl Encoder<'_> {
    /// Returns the message; empty if none of it can be sent to this API.
    fn encode(&self, message: &Message) -> Bytes {
        let parts = match message.role {
            Role::User => message.content.iter().filter_map(encode_user_block).collect(),
            Role::Assistant => self.encode_answer(message),
            Role::Tool => self.encode_results(message),
        };
        if parts.is_empty() {
            return Bytes::new();
        }
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "model",
        };
        Bytes::from(json!({"role": role, "parts": parts}).to_string())
    }

    fn encode_answer(&self, message: &Message) -> Vec<Value> {
        let mut parts = Vec::new();
        let mut text_signature = None;
        let mut needs_signature = self.is_current;
        for block in &message.content {
            match block {
                Block::Text(words) => {
                    if let Some(mut part) = text(words) {
                        if let Some(signature) = text_signature.take() {
                            part[SIGNATURE] = json!(signature);
                        }
                        parts.push(part);
                    }
                }
                Block::Reasoning {
                    signature: Some(signature),
                    redacted: true,
                    ..
                } if self.is_own => match TextSignature::read(&signature.value) {
                    Some(own) if own.has_text => text_signature = Some(own.value),
                    Some(own) => parts.push(json!({"text": "", SIGNATURE: own.value})),
                    None => {}
                },
                Block::Reasoning {
                    text: words,
                    signature: Some(signature),
                    redacted: false,
                } if self.is_own => {
                    parts.push(json!({"text": words, "thought": true, SIGNATURE: signature.value}));
                }
                Block::ToolUse { id, name, input, .. } => {
                    let mut part =
                        json!({"functionCall": {"name": safe_name(name), "args": object_input(input)}});
                    self.set_id(&mut part["functionCall"], id);
                    let is_first = std::mem::take(&mut needs_signature);
                    let own = self
                        .ids
                        .find_provider_call(id)
                        .and_then(|call| call.extra.as_deref());
                    let own = own.and_then(|extra| extra[SIGNATURE].as_str());
                    if let Some(signature) = own.or(is_first.then_some(FOREIGN_SIGNATURE)) {
                        part[SIGNATURE] = json!(signature);
                    }
                    parts.push(part);
                }
                Block::Reasoning { .. }
                | Block::Image(_)
                | Block::Reference(_)
                | Block::ToolResult { .. } => {}
            }
        }
        // Signatures alone are not an answer.
        let is_content =
            |part: &Value| !part["functionCall"].is_null() || part["text"] != "" && part["thought"].is_null();
        if parts.iter().any(is_content) {
            parts
        } else {
            Vec::new()
        }
    }

    fn encode_results(&self, message: &Message) -> Vec<Value> {
        let mut parts = Vec::new();
        let mut media = Vec::new();
        for block in &message.content {
            if let Block::ToolResult { id, result } = block {
                parts.push(self.encode_result(id, result));
                if !self.is_current {
                    media.extend(result.media.iter().map(encode_media));
                }
            }
        }
        // Older models take no media in a result, so they follow all results.
        parts.extend(media);
        parts
    }

    fn encode_result(&self, id: &ToolCallId, result: &ToolResult) -> Value {
        let mut calls = self.answer.tool_uses();
        let name = calls
            .find(|(known, ..)| *known == id)
            .map_or("unknown", |(_, name, _)| name);
        let key = if result.is_error { "error" } else { "output" };
        let mut response = json!({"name": safe_name(name), "response": {key: result_text(result)}});
        self.set_id(&mut response, id);
        if self.is_current && !result.media.is_empty() {
            response["parts"] = result.media.iter().map(encode_media).collect();
        }
        json!({"functionResponse": response})
    }

    /// Sets the id that the API gave a call. Without one, it matches results to calls by their order.
    fn set_id(&self, value: &mut Value, id: &ToolCallId) {
        if let Some(theirs) = self.ids.provider_id(id) {
            value["id"] = json!(theirs);
        }
    }
}

fn encode_user_block(block: &Block) -> Option<Value> {
    match block {
        Block::Text(words) => text(words),
        Block::Reference(reference) => text(&reference.to_prompt_text()),
        Block::Image(data) => Some(encode_media(data)),
        Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => None,
    }
}

fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"text": text}))
}

fn encode_media(media: &MediaData) -> Value {
    json!({"inlineData": {"mimeType": media.media_type, "data": media.data}})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::Signature;
    use crate::provider::request::tests::{
        ORIGIN, build_call_history, build_message, build_request, every_block,
    };

    fn json_of(request: &ModelRequest) -> Value {
        serde_json::from_str(&build_body(request, ORIGIN).text()).unwrap()
    }

    #[test]
    fn writes_every_kind_of_block() {
        let body = json_of(&build_request("gemini-3.8-flash", every_block()));
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    fn signed_history(origin: &str) -> Vec<Message> {
        let mut messages = build_call_history("theirs", origin);
        for block in &mut messages[1].content {
            if let Block::ToolUse {
                attached: Some(call), ..
            } = block
            {
                let call = Arc::make_mut(call);
                call.extra = call.extra.take().map(|_| Arc::new(json!({SIGNATURE: "sig"})));
            }
        }
        messages
    }

    #[test]
    fn signatures_and_ids_of_calls_return_only_to_their_origin() {
        let own = json_of(&build_request("gemini-3.8-flash", signed_history(ORIGIN)));
        let calls = &own["contents"][1]["parts"];
        assert_eq!(
            (&calls[1][SIGNATURE], &calls[1]["functionCall"]["id"]),
            (&json!("sig"), &json!("theirs"))
        );
        assert!(calls[2][SIGNATURE].is_null() && calls[2]["functionCall"]["id"].is_null());
        let results = &own["contents"][2]["parts"];
        assert_eq!(results[0]["functionResponse"]["id"], "theirs");
        assert_eq!(results[0]["functionResponse"]["name"], "read_file");
        assert_eq!(
            results[1]["functionResponse"]["response"],
            json!({"error": "Error: unknown tool"})
        );
        let foreign = json_of(&build_request("gemini-3.8-flash", signed_history("elsewhere/m")));
        let calls = &foreign["contents"][1]["parts"];
        assert_eq!(calls[1][SIGNATURE], FOREIGN_SIGNATURE);
        assert!(calls[2][SIGNATURE].is_null() && calls[1]["functionCall"]["id"].is_null());
        let old = json_of(&build_request("gemini-2.5-pro", signed_history("elsewhere/m")));
        assert!(old["contents"][1]["parts"][1][SIGNATURE].is_null());
    }

    #[test]
    fn images_of_results_are_in_the_result_or_after_all_results() {
        let parts =
            |model: &str| json_of(&build_request(model, every_block()))["contents"][2]["parts"].take();
        let current = parts("gemini-flash-latest");
        assert_eq!(
            current[0]["functionResponse"]["parts"][0]["inlineData"]["data"],
            "iVBO"
        );
        assert_eq!(current.as_array().unwrap().len(), 2);
        let old = parts("gemini-2.5-flash");
        assert!(old[0]["functionResponse"]["parts"].is_null());
        assert_eq!(old[2]["inlineData"]["mimeType"], "image/png");
    }

    #[test]
    fn signatures_of_texts_return_in_their_parts() {
        let signature = |value: &str, has_text| Block::Reasoning {
            text: String::new(),
            signature: Some(Signature {
                value: json!(TextSignature {
                    value: value.into(),
                    has_text
                })
                .to_string(),
                origin: Some(ORIGIN.into()),
            }),
            redacted: true,
        };
        let content = vec![
            signature("a", true),
            Block::Text("Hello.".into()),
            signature("b", false),
        ];
        let request = build_request("gemini-3.8-flash", vec![build_message(Role::Assistant, content)]);
        assert_eq!(
            json_of(&request)["contents"][0]["parts"],
            json!([{"text": "Hello.", SIGNATURE: "a"}, {"text": "", SIGNATURE: "b"}])
        );
        let alone = vec![build_message(Role::Assistant, vec![signature("b", false)])];
        assert_eq!(
            json_of(&build_request("gemini-3.8-flash", alone))["contents"],
            json!([])
        );
    }

    #[test]
    fn thinking_is_requested_in_the_words_of_the_model() {
        let config = |model: &str, effort| {
            let mut request = build_request(model, vec![Message::user_text("hello")]);
            request.effort = effort;
            json_of(&request)["generationConfig"]["thinkingConfig"].take()
        };
        let summary = json!({"includeThoughts": true});
        for (model, effort, expected) in [
            ("gemini-3.8-flash", None, summary.clone()),
            (
                "gemini-3.8-flash",
                Some(Effort::Low),
                json!({"includeThoughts": true, "thinkingLevel": "low"}),
            ),
            ("gemini-2.5-pro", None, summary),
            (
                "gemini-2.5-pro",
                Some(Effort::High),
                json!({"includeThoughts": true, "thinkingBudget": 32_768}),
            ),
            (
                "gemini-2.5-pro",
                Some(Effort::None),
                json!({"includeThoughts": false, "thinkingBudget": 128}),
            ),
            (
                "gemini-2.5-flash",
                Some(Effort::None),
                json!({"includeThoughts": false, "thinkingBudget": 0}),
            ),
            (
                "gemini-4-argon",
                Some(Effort::Max),
                json!({"includeThoughts": true, "thinkingLevel": "high"}),
            ),
            (
                "gemini-4-argon",
                Some(Effort::None),
                json!({"includeThoughts": true, "thinkingLevel": "minimal"}),
            ),
            ("made-up", None, Value::Null),
        ] {
            assert_eq!(config(model, effort), expected, "{model} {effort:?}");
        }
    }
}
