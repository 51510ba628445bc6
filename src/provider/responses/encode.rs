//! Encodes a request for the Responses API.
//!
//! Messages carry no server ids, because the server stores nothing. Reasoning keeps its id, which some servers require
//! together with the encrypted text, and so do calls.

use bytes::Bytes;
use serde_json::{Value, json};

use super::decode::{BREAK, EncryptedReasoning, TextPhase};
use super::freeform::FreeformFields;
use crate::domain::{Block, FreeformInput, MediaData, Message, Role, ToolCallId, ToolSpec};
use crate::provider::body::BodyPieces;
use crate::provider::models::is_thinking_enabled;
use crate::provider::openai::{is_openai_host, result_text, takes_cache_key};
use crate::provider::request::{CallIds, Effort, ModelRequest, RequestShape, object_input, safe_name};
use crate::provider::request_part::{OptionalField, RequestPart};

/// The longest call id that OpenAI accepts.
const LONGEST_ID: usize = 64;

/// Encodes the whole request. `origin` is the mark of the called model; see `Provider::model_origin`.
pub(super) fn build_body(
    request: &ModelRequest,
    origin: &str,
    verbosity: Option<&'static str>,
) -> BodyPieces {
    let mut body = BodyPieces::default();
    body.add_field("model", json!(request.model));
    body.add_field("stream", json!(true));
    let verbosity =
        verbosity.map(|verbosity| (RequestPart::Verbosity, "text", json!({"verbosity": verbosity})));
    let options = build_options(request, origin, &mut body);
    body.add_options(&request.omitted, options.into_iter().chain(verbosity));
    if request.web_search {
        body.push_raw(",\"tools\":[{\"type\":\"web_search\"}]");
    } else if !request.tools.is_empty() {
        body.push_raw(",\"tools\":[");
        let has_flag = body.admit_part(&request.omitted, RequestPart::StrictFlag);
        for (at, tool) in request.tools.iter().enumerate() {
            body.push_raw(if at > 0 { "," } else { "" });
            body.push_json(&encode_tool(tool, has_flag));
        }
        body.push_raw("]");
    }
    if !request.system.trim().is_empty() {
        body.push_raw(",\"instructions\":");
        body.push_json(&&*request.system);
    }
    body.push_raw(",\"input\":[");
    let freeform = FreeformFields::from_tools(&request.tools);
    let mut first = true;
    for (item, calls) in request.with_calls() {
        let accepts = if is_openai(origin) {
            |id: &str| id.len() <= LONGEST_ID
        } else {
            |_: &str| true
        };
        let (shape, ids) = if calls.is_from_origin(origin) {
            (
                RequestShape::Responses,
                CallIds::from_answer(&calls.message, accepts),
            )
        } else {
            (RequestShape::ResponsesBare, CallIds::with_own_ids())
        };
        // Calls return as the tools are defined now, so that they are valid after a change of the model.
        let custom = CustomCalls(
            freeform
                .has_call(&calls.message)
                .then_some((&calls.message, &freeform)),
        );
        let shape = if custom.0.is_some() {
            shape.with_custom_calls()
        } else {
            shape
        };
        let bytes = item.get_or_encode(shape, |message| encode_message(message, shape, &ids, &custom));
        if !bytes.is_empty() {
            body.push_raw(if std::mem::take(&mut first) { "" } else { "," });
            body.push(bytes);
        }
    }
    body.push_raw("]}");
    body
}

fn encode_tool(tool: &ToolSpec, has_strict_flag: bool) -> Value {
    let (name, description) = (&tool.name, &tool.description);
    match tool.freeform {
        Some(FreeformInput { grammar, .. }) => {
            let format = json!({"type": "grammar", "syntax": "lark", "definition": grammar});
            json!({"type": "custom", "name": name, "description": description, "format": format})
        }
        None => {
            let mut encoded = json!({"type": "function", "name": name, "description": description,
                "parameters": tool.schema});
            if has_strict_flag {
                // Without it the API rewrites schemas into its strict form.
                encoded["strict"] = json!(false);
            }
            encoded
        }
    }
}

/// The answer that defines the calls of a message, and the tools of the request that take plain text; `None` if the
/// message has no calls of such tools.
struct CustomCalls<'a>(Option<(&'a Message, &'a FreeformFields)>);

impl CustomCalls<'_> {
    /// Returns the text of a call if it is one of a custom tool.
    fn text_of<'v>(&self, tool: &str, input: &'v Value) -> Option<&'v str> {
        self.0?.1.text_of(tool, input)
    }

    /// Reports whether the call with this id is one of a custom tool.
    fn contains(&self, call: &ToolCallId) -> bool {
        self.0.is_some_and(|(answer, fields)| {
            answer.content.iter().any(|block| match block {
                Block::ToolUse { id, name, input, .. } => id == call && fields.text_of(name, input).is_some(),
                _ => false,
            })
        })
    }
}

fn build_options(request: &ModelRequest, origin: &str, body: &mut BodyPieces) -> Vec<OptionalField> {
    let mut options = vec![(RequestPart::NoStorage, "store", json!(false))];
    if !request.is_limit_assumed {
        let limit = json!(request.max_output_tokens);
        options.push((RequestPart::OutputLimit, "max_output_tokens", limit));
    }
    if let Some(key) = &request.cache_key
        && takes_cache_key(origin, &request.model)
    {
        options.push((RequestPart::CacheKey, "prompt_cache_key", json!(key)));
    }
    // Models that do not reason refuse this option ("Encrypted content is not supported with this model").
    if is_thinking_enabled(&request.model, request.effort) {
        let include = json!(["reasoning.encrypted_content"]);
        options.push((RequestPart::EncryptedReasoning, "include", include));
    }
    // Without them, people see nothing for minutes. Only verified accounts get them; others leave them out.
    let summary = json!("auto");
    match request.effort {
        Some(effort) => {
            let mut reasoning = json!({"effort": effort.name()});
            if effort != Effort::None && body.admit_part(&request.omitted, RequestPart::ReasoningSummary) {
                reasoning["summary"] = summary;
            }
            options.push((RequestPart::Effort, "reasoning", reasoning));
        }
        None if is_thinking_enabled(&request.model, None) => {
            let reasoning = json!({"summary": summary});
            options.push((RequestPart::ReasoningSummary, "reasoning", reasoning));
        }
        None => {}
    }
    options
}

/// Encodes a message as one or more items, separated by commas; empty if none of it can be sent.
fn encode_message(
    message: &Message,
    shape: RequestShape,
    ids: &CallIds<'_>,
    custom: &CustomCalls<'_>,
) -> Bytes {
    let items = match message.role {
        Role::User => encode_user_message(message).into_iter().collect(),
        Role::Assistant => encode_assistant_message(message, shape, ids, custom),
        Role::Tool => encode_tool_results(message, ids, custom),
    };
    Bytes::from(items.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
}

/// Recognizes OpenAI's own API, also on Azure. Other servers accept the ids that they gave.
fn is_openai(origin: &str) -> bool {
    let host = origin.split(['/', ':']).next().unwrap_or_default();
    is_openai_host(host)
}

fn encode_user_message(message: &Message) -> Option<Value> {
    let content: Vec<Value> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Text(block_text) => text("input_text", block_text),
            Block::Reference(reference) => text("input_text", &reference.to_prompt_text()),
            Block::Image(data) => Some(encode_media(data)),
            Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => None,
        })
        .collect();
    build_message_item("user", content)
}

fn build_message_item(role: &str, content: Vec<Value>) -> Option<Value> {
    (!content.is_empty()).then(|| json!({"type": "message", "role": role, "content": content}))
}

fn text(kind: &str, text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": kind, "text": text}))
}

fn encode_media(media: &MediaData) -> Value {
    let url = format!("data:{};base64,{}", media.media_type, media.data);
    if media.is_document() {
        json!({"type": "input_file", "filename": "document.pdf", "file_data": url})
    } else {
        json!({"type": "input_image", "image_url": url})
    }
}

fn encode_assistant_message(
    message: &Message,
    shape: RequestShape,
    ids: &CallIds<'_>,
    custom: &CustomCalls<'_>,
) -> Vec<Value> {
    // The phase of the texts that follow, and whether any text came before.
    let mut phase = None;
    let mut has_message = false;
    let mut items: Vec<Value> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Text(message_text) => {
                // The decoder inserted a break between the texts of two messages.
                let message_text = match &phase {
                    Some(_) if std::mem::replace(&mut has_message, true) => {
                        message_text.strip_prefix(BREAK).unwrap_or(message_text)
                    }
                    _ => message_text,
                };
                has_message = true;
                let mut item = build_message_item(
                    "assistant",
                    text("output_text", message_text).into_iter().collect(),
                )?;
                if let Some(phase) = phase.as_ref().and_then(Option::as_ref) {
                    item["phase"] = json!(phase);
                }
                Some(item)
            }
            Block::Reasoning { .. } if shape.is_bare_responses() => None,
            Block::Reasoning { .. } => match phase_of(block) {
                Some(next) => {
                    phase = Some(next.phase);
                    None
                }
                None => encode_reasoning(block),
            },
            Block::ToolUse { id, name, input, .. } => Some(encode_call(ids.wire_id(id), name, input, custom)),
            Block::Image(_) | Block::Reference(_) | Block::ToolResult { .. } => None,
        })
        .collect();
    // The API refuses reasoning without the item that followed it.
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    items
}

fn encode_call(id: &str, name: &str, input: &Value, custom: &CustomCalls<'_>) -> Value {
    if let Some(text) = custom.text_of(name, input) {
        return json!({"type": "custom_tool_call", "call_id": id, "name": name, "input": text});
    }
    json!({"type": "function_call", "call_id": id, "name": safe_name(name),
        "arguments": object_input(input).to_string()})
}

/// Returns the phase that the decoder stored as opaque reasoning before a text.
fn phase_of(block: &Block) -> Option<TextPhase> {
    match block {
        Block::Reasoning {
            signature: Some(signature),
            redacted: true,
            ..
        } => TextPhase::read(&signature.value),
        _ => None,
    }
}

fn encode_reasoning(block: &Block) -> Option<Value> {
    let Block::Reasoning {
        text,
        signature: Some(signature),
        ..
    } = block
    else {
        return None;
    };
    let proof = EncryptedReasoning::read(&signature.value)?;
    let summary: Vec<Value> = self::text("summary_text", text).into_iter().collect();
    let mut item = json!({"type": "reasoning", "summary": summary, "encrypted_content": proof.encrypted});
    if !proof.id.is_empty() {
        item["id"] = json!(proof.id);
    }
    Some(item)
}

/// Encodes tool results, then their media in a user message, because not every server accepts media in results.
fn encode_tool_results(message: &Message, ids: &CallIds<'_>, custom: &CustomCalls<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    let mut media = Vec::new();
    for block in &message.content {
        if let Block::ToolResult { id, result } = block {
            let output = result_text(result);
            let kind = if custom.contains(id) {
                "custom_tool_call_output"
            } else {
                "function_call_output"
            };
            items.push(json!({"type": kind, "call_id": ids.wire_id(id), "output": output}));
            media.extend(result.media.iter().map(encode_media));
        }
    }
    if !media.is_empty() {
        let content = text("input_text", "What the tools show:")
            .into_iter()
            .chain(media);
        items.extend(build_message_item("user", content.collect()));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{MediaData, Signature};
    use crate::provider::request::tests::{
        ORIGIN, build_call_history, build_message, build_request, every_block,
    };

    fn json_of(request: &ModelRequest) -> Value {
        serde_json::from_str(&build_body(request, ORIGIN, None).text()).unwrap()
    }

    fn thought(text: &str, proof: &str, origin: &str) -> Block {
        Block::Reasoning {
            text: text.into(),
            signature: Some(Signature {
                value: proof.into(),
                origin: Some(origin.into()),
            }),
            redacted: text.is_empty(),
        }
    }

    fn proof() -> String {
        let proof = EncryptedReasoning {
            id: "rs_1".into(),
            encrypted: "opaque".into(),
        };
        proof.write()
    }

    #[test]
    fn writes_every_kind_of_block() {
        let mut messages = every_block();
        messages[1].content.insert(0, thought("hm", &proof(), ORIGIN));
        let body = json_of(&build_request("gpt-5", messages));
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn a_search_has_no_other_tool() {
        let mut request = build_request("gpt-5", vec![Message::user_text("hats")]);
        request.web_search = true;
        assert_eq!(json_of(&request)["tools"], json!([{"type": "web_search"}]));
    }

    fn kinds(body: &Value) -> Vec<&str> {
        let items = body["input"].as_array().unwrap().iter();
        items.map(|item| item["type"].as_str().unwrap()).collect()
    }

    #[test]
    fn reasoning_returns_only_to_its_origin_and_never_alone() {
        let assistant_request =
            |content| build_request("gpt-5", vec![build_message(Role::Assistant, content)]);
        let text = || Block::Text("so".into());
        let (own, foreign) = (
            thought("", &proof(), ORIGIN),
            thought("", &proof(), "elsewhere/gpt-5"),
        );
        let both = json_of(&assistant_request(vec![own.clone(), text()]));
        assert_eq!(kinds(&both), ["reasoning", "message"]);
        assert_eq!(
            both["input"][0],
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"})
        );
        for content in [
            vec![foreign, text()],
            vec![text(), own.clone()],
            // A signature of another API under the same origin is ignored.
            vec![thought("hm", "EqQB", ORIGIN), text()],
        ] {
            assert_eq!(kinds(&json_of(&assistant_request(content))), ["message"]);
        }
        assert_eq!(json_of(&assistant_request(vec![own]))["input"], json!([]));
    }

    #[test]
    fn tool_calls_return_under_the_id_of_their_origin() {
        let long = "x".repeat(65);
        for (id, stored_origin, target_origin, sent) in [
            ("functions.bash:0", ORIGIN, ORIGIN, "functions.bash:0"),
            (&*long, ORIGIN, ORIGIN, &*long),
            (
                &*long,
                "api.openai.com/responses/m",
                "api.openai.com/responses/m",
                "call_a",
            ),
            ("functions.bash:0", "elsewhere/m", ORIGIN, "call_a"),
        ] {
            let body: Value = serde_json::from_str(
                &build_body(
                    &build_request("m", build_call_history(id, stored_origin)),
                    target_origin,
                    None,
                )
                .text(),
            )
            .unwrap();
            let input = body["input"].as_array().unwrap().iter();
            let ids: Vec<&str> = input.filter_map(|item| item["call_id"].as_str()).collect();
            assert_eq!(ids, [sent, "call_b", sent, "call_b"]);
        }
    }

    #[test]
    fn phases_return_with_their_messages() {
        let phase =
            |phase: Option<&str>, origin: &str| thought("", &json!({"phase": phase}).to_string(), origin);
        let encoded_input = |origin: &str| {
            let content = vec![
                phase(Some("commentary"), origin),
                Block::Text("I look.".into()),
                phase(Some("final_answer"), origin),
                Block::Text("\n\nDone.".into()),
            ];
            json_of(&build_request(
                "gpt-5",
                vec![build_message(Role::Assistant, content)],
            ))["input"]
                .take()
        };
        let item = |text: &str, phase: Option<&str>| {
            let mut item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
            if let Some(phase) = phase {
                item["phase"] = json!(phase);
            }
            item
        };
        let own = json!([
            item("I look.", Some("commentary")),
            item("Done.", Some("final_answer"))
        ]);
        assert_eq!(encoded_input(ORIGIN), own);
        assert_eq!(
            encoded_input("elsewhere/m"),
            json!([item("I look.", None), item("\n\nDone.", None)])
        );
    }

    #[test]
    fn reasoning_is_requested_only_from_models_that_reason() {
        let reasoning_fields = |model: &str, effort| {
            let mut request = build_request(model, vec![Message::user_text("hello")]);
            request.effort = effort;
            let body = json_of(&request);
            (body["include"].is_array(), body["reasoning"].clone())
        };
        assert_eq!(reasoning_fields("gpt-4o", None), (false, Value::Null));
        let summary = json!({"summary": "auto"});
        assert_eq!(reasoning_fields("gpt-5", None), (true, summary));
        let low = json!({"effort": "low", "summary": "auto"});
        assert_eq!(reasoning_fields("made-up", Some(Effort::Low)), (true, low));
    }

    #[test]
    fn cache_key_goes_to_openai_only_and_verbosity_where_requested() {
        let mut request = build_request("gpt-5", vec![Message::user_text("hello")]);
        request.cache_key = Some("ses_1".into());
        let body = |origin: &str, verbosity| -> Value {
            serde_json::from_str(&build_body(&request, origin, verbosity).text()).unwrap()
        };
        let own = body("api.openai.com/responses/gpt-5", Some("low"));
        assert_eq!(own["prompt_cache_key"], "ses_1");
        assert_eq!(own["text"], json!({"verbosity": "low"}));
        let other = body(ORIGIN, None);
        assert!(other["prompt_cache_key"].is_null() && other["text"].is_null());
        assert_eq!(
            body("me.openai.azure.com/responses/gpt-5", None)["prompt_cache_key"],
            "ses_1"
        );
    }

    #[test]
    fn tool_images_follow_all_results_in_a_user_message() {
        let mut messages = every_block();
        messages[0].content.push(Block::Image(MediaData {
            media_type: "image/gif".into(),
            data: "R0lG".into(),
        }));
        let body = json_of(&build_request("gpt-5", messages));
        let tail = &kinds(&body)[2..];
        assert_eq!(
            tail,
            [
                "function_call",
                "function_call",
                "function_call_output",
                "function_call_output",
                "message",
                "message"
            ]
        );
        assert_eq!(body["input"][6]["content"][1]["type"], "input_image");
    }

    #[test]
    fn documents_are_sent_as_files() {
        let document = MediaData {
            media_type: crate::domain::PDF.into(),
            data: "JVBE".into(),
        };
        assert_eq!(
            encode_media(&document),
            json!({"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"})
        );
    }

    /// Returns a request with a custom tool, in whose history `origin` called that tool and another one.
    fn build_patch_request(origin: &str) -> ModelRequest {
        let mut messages = build_call_history("their_id", origin);
        for block in &mut messages[1].content {
            if let Block::ToolUse { name, input, .. } = block
                && name == "read_file"
            {
                (*name, *input) = ("apply_patch".into(), json!({"patch": "+\"a\"\n"}).into());
            }
        }
        let mut request = build_request("gpt-5", messages);
        let plain = request.tools[0].clone();
        let custom = ToolSpec {
            name: "apply_patch".into(),
            freeform: Some(FreeformInput {
                field: "patch",
                grammar: "start: /x/",
            }),
            ..plain.clone()
        };
        request.tools = [custom, plain].into();
        request
    }

    #[test]
    fn custom_tools_and_their_calls_are_plain_text() {
        for (origin, id) in [(ORIGIN, "their_id"), ("elsewhere/m", "call_a")] {
            let body = json_of(&build_patch_request(origin));
            assert_eq!(
                body["tools"][0],
                json!({"type": "custom", "name": "apply_patch", "description": "Reads a file.",
                    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}})
            );
            assert_eq!(body["tools"][1]["type"], "function");
            let calls: Vec<&Value> = body["input"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|item| item["call_id"].is_string())
                .collect();
            assert_eq!(
                calls[0],
                &json!({"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": "+\"a\"\n"})
            );
            assert_eq!(calls[1]["type"], "function_call");
            assert_eq!(
                calls[2],
                &json!({"type": "custom_tool_call_output", "call_id": id, "output": "a picture"})
            );
            assert_eq!(calls[3]["type"], "function_call_output");
        }
    }

    #[test]
    fn calls_of_custom_tools_are_ordinary_where_the_tool_is() {
        let mut request = build_patch_request(ORIGIN);
        json_of(&request);
        // The same messages, whose encoding is cached.
        request.tools = request.tools[1..].to_vec().into();
        let body = json_of(&request);
        let calls: Vec<&Value> = body["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["call_id"].is_string())
            .collect();
        assert_eq!(
            calls[0],
            &json!({"type": "function_call", "call_id": "their_id", "name": "apply_patch",
                "arguments": "{\"patch\":\"+\\\"a\\\"\\n\"}"})
        );
        assert_eq!(calls[2]["type"], "function_call_output");
    }
}
