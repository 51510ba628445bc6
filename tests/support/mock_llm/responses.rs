//! The Responses API: rendering of its events, and checks of its requests.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::check::{check_tools, count_empty_text, is_name};
use super::render::Renderer;
use super::reply::Frame;

impl Renderer {
    pub(super) fn begin_response(&mut self) {
        let response = json!({"id": "resp_mock", "object": "response", "status": "in_progress",
            "model": "mock-model", "output": [], "usage": null});
        self.event(&json!({"type": "response.created", "response": response}));
        self.event(&json!({"type": "response.in_progress", "response": response}));
    }

    /// Renders an item from its `added` event to its `done` event.
    fn item(&mut self, added: Value, deltas: Vec<Value>, done: Value) {
        let at = self.index;
        self.index += 1;
        self.event(&json!({"type": "response.output_item.added", "output_index": at, "item": added}));
        for mut delta in deltas {
            delta["output_index"] = json!(at);
            delta["item_id"] = added["id"].clone();
            self.event(&delta);
        }
        self.event(&json!({"type": "response.output_item.done", "output_index": at, "item": done}));
    }

    pub(super) fn item_text(&mut self, pieces: &[&str]) {
        let id = format!("msg_mock{}", self.index);
        let (part, text) = (
            json!({"type": "output_text", "text": "", "annotations": []}),
            pieces.concat(),
        );
        let mut deltas =
            vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part})];
        deltas.extend(
            pieces.iter().map(
                |delta| json!({"type": "response.output_text.delta", "content_index": 0, "delta": delta}),
            ),
        );
        deltas.push(json!({"type": "response.output_text.done", "content_index": 0, "text": text}));
        let message =
            |content: Value| json!({"id": id, "type": "message", "role": "assistant", "content": content});
        let full_content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        self.item(message(json!([])), deltas, message(full_content));
    }

    /// Renders a search, and a message that cites its pages.
    pub(super) fn item_search(&mut self, pages: &[(String, String)]) {
        let id = format!("ws_mock{}", self.index);
        let call = |status: &str| {
            json!({"id": id, "type": "web_search_call", "status": status,
            "action": {"type": "search", "query": "mock"}})
        };
        self.item(call("in_progress"), Vec::new(), call("completed"));
        let id = format!("msg_mock{}", self.index);
        let cite = |(url, title): &(String, String)| {
            json!({"type": "url_citation", "url": url, "title": title,
            "start_index": 0, "end_index": 1})
        };
        let annotations: Vec<Value> = pages.iter().map(cite).collect();
        let added = annotations.iter().map(|annotation| {
            json!({"type": "response.output_text.annotation.added",
            "content_index": 0, "annotation": annotation})
        });
        let message =
            |content: Value| json!({"id": id, "type": "message", "role": "assistant", "content": content});
        let full_content = json!([{"type": "output_text", "text": "", "annotations": annotations}]);
        self.item(message(json!([])), added.collect(), message(full_content));
    }

    pub(super) fn item_flood(&mut self, text: &str, times: usize) {
        let at = self.index;
        self.index += 1;
        let item = json!({"id": "msg_mock", "type": "message", "role": "assistant", "content": []});
        self.event(&json!({"type": "response.output_item.added", "output_index": at, "item": item}));
        let bytes =
            self.sse(&json!({"type": "response.output_text.delta", "output_index": at, "delta": text}));
        self.frames.push(Frame::Event { bytes, times });
    }

    pub(super) fn item_reasoning(&mut self, pieces: &[&str], signature: Option<&str>) {
        let id = format!("rs_mock{}", self.index);
        let mut deltas = Vec::new();
        let mut summary = Vec::new();
        if !pieces.is_empty() {
            let part = json!({"type": "summary_text", "text": ""});
            deltas.push(
                json!({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part}),
            );
            summary.push(json!({"type": "summary_text", "text": pieces.concat()}));
        }
        deltas.extend(pieces.iter().map(
            |delta| json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": delta}),
        ));
        let added = json!({"id": id, "type": "reasoning", "summary": []});
        let done = json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": signature});
        self.item(added, deltas, done);
    }

    pub(super) fn item_call(&mut self, call_id: &str, name: &str, pieces: &[&str]) {
        let id = format!("fc_mock{}", self.index);
        let deltas = pieces
            .iter()
            .map(|delta| json!({"type": "response.function_call_arguments.delta", "delta": delta}))
            .collect();
        let arguments = pieces.concat();
        let is_complete = serde_json::from_str::<Value>(&arguments).is_ok();
        let call = |arguments: &str, status: &str| {
            json!({"id": id, "type": "function_call", "call_id": call_id, "name": name,
                "arguments": arguments, "status": status})
        };
        let status = if is_complete { "completed" } else { "incomplete" };
        self.item(call("", "in_progress"), deltas, call(&arguments, status));
    }

    pub(super) fn item_custom(&mut self, call_id: &str, name: &str, pieces: &[&str]) {
        let id = format!("ctc_mock{}", self.index);
        let kind = "response.custom_tool_call_input";
        let mut deltas: Vec<Value> = pieces
            .iter()
            .map(|delta| json!({"type": format!("{kind}.delta"), "delta": delta}))
            .collect();
        deltas.push(json!({"type": format!("{kind}.done"), "input": pieces.concat()}));
        let call = |input: &str, status: &str| {
            json!({"id": id, "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input,
                "status": status})
        };
        self.item(
            call("", "in_progress"),
            deltas,
            call(&pieces.concat(), "completed"),
        );
    }

    pub(super) fn end_response(&mut self, reason: &str) {
        let (status, details) = match reason {
            "max_tokens" => ("incomplete", json!({"reason": "max_output_tokens"})),
            "refusal" => ("incomplete", json!({"reason": "content_filter"})),
            _ => ("completed", Value::Null),
        };
        let tokens = self.tokens;
        let input = tokens.input + tokens.cache_read + tokens.cache_write;
        let response = json!({
            "id": "resp_mock", "object": "response", "status": status, "model": "mock-model",
            "error": null, "incomplete_details": details, "output": [],
            "usage": {
                "input_tokens": input,
                "input_tokens_details": {
                    "cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write,
                },
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input + tokens.output,
            },
        });
        self.event(&json!({"type": format!("response.{status}"), "response": response}));
    }
}

/// Checks a request: each call has exactly one result in order (I4), nothing is empty, and nothing refers to state that
/// the provider would have to store.
pub(super) fn check(body: &Value, items: &[Value], wrong: &mut Vec<String>) {
    if body["store"] != json!(false) {
        wrong.push("store is not false".to_owned());
    }
    // The limit is optional.
    if body["max_output_tokens"] == json!(0) {
        wrong.push("max_output_tokens is 0".to_owned());
    }
    if body["instructions"]
        .as_str()
        .is_some_and(|text| text.trim().is_empty())
    {
        wrong.push("empty instructions".to_owned());
    }
    let (functions, custom): (Vec<Value>, Vec<Value>) = (body["tools"].as_array().into_iter().flatten())
        .cloned()
        .partition(|tool| tool["type"] != "custom");
    check_tools(
        Some(&functions),
        |tool| (&tool["name"], &tool["parameters"]),
        wrong,
    );
    for tool in &custom {
        let format = &tool["format"];
        if format["type"] != "grammar" || format["syntax"] != "lark" || !format["definition"].is_string() {
            wrong.push(format!("custom tool {}: format {format}", tool["name"]));
        }
    }
    let mut unanswered: Vec<(String, bool)> = Vec::new();
    let mut answering = false;
    let mut call_ids = HashSet::new();
    let mut user_has_spoken = false;
    for (at, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or_default();
        let role = item["role"].as_str().unwrap_or_default();
        let of_answer = matches!(
            (kind, role),
            ("function_call" | "custom_tool_call" | "reasoning", _) | ("message", "assistant")
        );
        let is_output = matches!(kind, "function_call_output" | "custom_tool_call_output");
        if !is_output && !unanswered.is_empty() && (answering || !of_answer) {
            wrong.push(format!("item {at}: function calls {unanswered:?} have no output"));
            unanswered.clear();
        }
        if kind != "reasoning" && !item["id"].is_null() {
            wrong.push(format!("item {at}: an id, but nothing is stored"));
        }
        if of_answer && !user_has_spoken {
            wrong.push(format!("item {at}: an answer before any question"));
        }
        answering = is_output;
        match kind {
            "message" => {
                user_has_spoken |= role == "user";
                message(at, item, role, wrong);
            }
            "reasoning" => {
                if item["encrypted_content"].as_str().is_none_or(str::is_empty) || !item["summary"].is_array()
                {
                    wrong.push(format!("item {at}: reasoning without its proof"));
                }
                let next = items[at..].iter().find(|item| item["type"] != "reasoning");
                if !next.is_some_and(|next| {
                    next["type"] == "function_call"
                        || next["type"] == "custom_tool_call"
                        || next["role"] == "assistant"
                }) {
                    wrong.push(format!("item {at}: reasoning without what came of it"));
                }
            }
            "function_call" | "custom_tool_call" => {
                let is_custom = kind == "custom_tool_call";
                let id = item["call_id"].as_str().unwrap_or_default().to_owned();
                if !is_name(&id, 64) || !call_ids.insert(id.clone()) {
                    wrong.push(format!("item {at}: call id {id:?} is invalid or used twice"));
                }
                if !item["name"].as_str().is_some_and(|name| is_name(name, 64)) {
                    wrong.push(format!("item {at}: tool name {} is invalid", item["name"]));
                }
                let arguments = item["arguments"].as_str().unwrap_or_default();
                if is_custom && !item["input"].is_string() {
                    wrong.push(format!("item {at}: a custom call without input"));
                } else if !is_custom && serde_json::from_str::<Value>(arguments).is_err() {
                    wrong.push(format!("item {at}: arguments are not JSON"));
                }
                unanswered.push((id, is_custom));
            }
            "function_call_output" | "custom_tool_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                match unanswered.first() {
                    Some((first, is_custom)) if first == id && *is_custom == kind.starts_with("custom") => {
                        drop(unanswered.remove(0))
                    }
                    _ => wrong.push(format!("item {at}: output for {id:?}, owed were {unanswered:?}")),
                }
                if item["output"].as_str().is_none_or(str::is_empty) {
                    wrong.push(format!("item {at}: empty output"));
                }
            }
            other => wrong.push(format!("item {at}: type {other:?}")),
        }
    }
    if !unanswered.is_empty() {
        wrong.push(format!("function calls {unanswered:?} have no output"));
    }
    if !user_has_spoken {
        wrong.push("no user message".to_owned());
    }
}

fn message(at: usize, item: &Value, role: &str, wrong: &mut Vec<String>) {
    let allowed: &[&str] = match role {
        "user" => &["input_text", "input_image", "input_file"],
        "assistant" => &["output_text"],
        _ => return wrong.push(format!("item {at}: role {role:?}")),
    };
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_empty = |part: &Value| match part["type"].as_str() {
        Some("input_file") => part["file_data"].as_str().is_none_or(str::is_empty),
        Some("input_image") => part["image_url"].as_str().is_none_or(str::is_empty),
        _ => part["text"].as_str().is_none_or(|text| text.trim().is_empty()),
    };
    if parts.is_empty() || parts.iter().any(is_empty) || count_empty_text(&item["content"]) > 0 {
        wrong.push(format!("item {at} is empty"));
    }
    for part in parts {
        if !part["type"].as_str().is_some_and(|kind| allowed.contains(&kind)) {
            wrong.push(format!("item {at}: part {} of role {role:?}", part["type"]));
        }
    }
}
