//! Checks that apply to every request of every test.
//!
//! A request is valid for its API, each tool call has exactly one result in order (I4), and nothing is empty. The
//! prefix is stable from call to call, so that prompt caches hit.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Api, gemini, ollama, responses};

/// The raw parts of a request that prompt caches depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) fixed: Vec<String>,
    pub(super) messages: Vec<String>,
}

/// Parses a request and describes everything wrong with it. `paused`: the preceding answer paused the turn.
pub(super) fn request(api: Api, body: &[u8], paused: bool) -> (Value, Vec<String>) {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return (Value::Null, vec![format!("the body is not JSON: {error}")]),
    };
    let mut wrong = Vec::new();
    // Gemini has both in the path.
    if api != Api::Gemini && value["model"].as_str().is_none_or(str::is_empty) {
        wrong.push("no model".to_owned());
    }
    if api != Api::Gemini && value["stream"] != Value::Bool(true) {
        wrong.push("stream is not true".to_owned());
    }
    let Some(messages) = value[key(api)].as_array().filter(|messages| !messages.is_empty()) else {
        wrong.push(format!("no {}", key(api)));
        return (value, wrong);
    };
    match api {
        Api::Anthropic => anthropic(&value, messages, paused, &mut wrong),
        Api::OpenAi => openai(&value, messages, &mut wrong),
        Api::Responses => responses::check(&value, messages, &mut wrong),
        Api::Gemini => gemini::check(&value, messages, &mut wrong),
        Api::Ollama => ollama::check(&value, messages, &mut wrong),
    }
    (value, wrong)
}

/// Returns the key of a request's messages.
fn key(api: Api) -> &'static str {
    match api {
        Api::Anthropic | Api::OpenAi | Api::Ollama => "messages",
        Api::Responses => "input",
        Api::Gemini => "contents",
    }
}

fn anthropic(body: &Value, messages: &[Value], paused: bool, wrong: &mut Vec<String>) {
    let limit = body["max_tokens"].as_u64().unwrap_or(0);
    if limit == 0 {
        wrong.push("max_tokens is missing".to_owned());
    }
    if body["thinking"]["budget_tokens"]
        .as_u64()
        .is_some_and(|budget| budget >= limit || budget < 1024)
    {
        wrong.push("thinking budget out of bounds".to_owned());
    }
    let breakpoints = count_key(body, "cache_control");
    if breakpoints > 4 {
        wrong.push(format!("{breakpoints} cache breakpoints, at most 4 are allowed"));
    }
    check_tools(
        body["tools"].as_array(),
        |tool| (&tool["name"], &tool["input_schema"]),
        wrong,
    );
    let last = &messages[messages.len() - 1]["role"];
    if messages[0]["role"] != "user" || !(*last == "user" || paused && *last == "assistant") {
        wrong.push("the first and the last message must be the user's".to_owned());
    }
    let mut unanswered: Vec<String> = Vec::new();
    let mut call_ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = match &message["content"] {
            Value::String(text) if !text.trim().is_empty() => {
                vec![serde_json::json!({"type": "text", "text": text})]
            }
            Value::Array(blocks) if !blocks.is_empty() => blocks.clone(),
            _ => {
                wrong.push(format!("message {at} is empty"));
                continue;
            }
        };
        let mut answers = Vec::new();
        let mut other = false;
        let mut requested = Vec::new();
        for block in &blocks {
            match (message["role"].as_str(), block["type"].as_str()) {
                (Some("user"), Some("tool_result")) => {
                    if other {
                        wrong.push(format!("message {at}: tool results must come first"));
                    }
                    answers.push(block["tool_use_id"].as_str().unwrap_or_default().to_owned());
                    if count_empty_text(&block["content"]) > 0 {
                        wrong.push(format!("message {at}: a tool result holds empty text"));
                    }
                }
                (Some("user" | "assistant"), Some("text")) => {
                    other = true;
                    if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                        wrong.push(format!("message {at}: empty text"));
                    }
                }
                (Some("user"), Some("image" | "document")) => {
                    other = true;
                    if block["source"]["data"].as_str().is_none_or(str::is_empty) {
                        wrong.push(format!("message {at}: media without data"));
                    }
                }
                (Some("assistant"), Some("thinking")) => {
                    if block["signature"].as_str().is_none_or(str::is_empty) {
                        wrong.push(format!("message {at}: reasoning without its signature"));
                    }
                }
                (Some("assistant"), Some("redacted_thinking")) => {
                    if block["data"].as_str().is_none_or(str::is_empty) {
                        wrong.push(format!("message {at}: opaque reasoning without its data"));
                    }
                }
                (Some("assistant"), Some("tool_use")) => {
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    if !is_name(&id, 64) || !call_ids.insert(id.clone()) {
                        wrong.push(format!(
                            "message {at}: tool use id {id:?} is invalid or used twice"
                        ));
                    }
                    if !block["name"].as_str().is_some_and(|name| is_name(name, 128)) {
                        wrong.push(format!("message {at}: tool name {} is invalid", block["name"]));
                    }
                    if !block["input"].is_object() {
                        wrong.push(format!("message {at}: tool input is not an object"));
                    }
                    requested.push(id);
                }
                (role, kind) => wrong.push(format!("message {at}: block {kind:?} of role {role:?}")),
            }
        }
        if answers != unanswered {
            wrong.push(format!(
                "message {at}: tool results {answers:?}, owed were {unanswered:?}"
            ));
        }
        unanswered = requested;
    }
    if !unanswered.is_empty() {
        wrong.push(format!("tool calls {unanswered:?} have no result"));
    }
    if body["thinking"]["type"] == "enabled" && loop_lost_its_reasoning(messages) {
        wrong.push("thinking is on, but the open tool loop does not begin with its reasoning".to_owned());
    }
}

/// Returns whether the last answer called tools and is sent back without the reasoning before them.
fn loop_lost_its_reasoning(messages: &[Value]) -> bool {
    let Some(last) = messages.iter().rfind(|message| message["role"] == "assistant") else {
        return false;
    };
    let blocks = last["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |block: &Value, kinds: &[&str]| block["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    blocks.iter().any(|block| is(block, &["tool_use"]))
        && !blocks
            .first()
            .is_some_and(|block| is(block, &["thinking", "redacted_thinking"]))
}

/// Reports signatures of reasoning that this API never issued for this model: the real APIs refuse them.
pub(super) fn foreign_proofs(api: Api, body: &Value, issued: &HashSet<(String, String)>) -> Vec<String> {
    let model = body["model"].as_str().unwrap_or_default();
    let issuer = format!("{api:?} {model}");
    let messages = body[key(api)].as_array().into_iter().flatten();
    messages
        .flat_map(|message| {
            message["content"]
                .as_array()
                .into_iter()
                .flatten()
                .chain([message])
        })
        .filter_map(|block| match block["type"].as_str()? {
            "thinking" => block["signature"].as_str(),
            "redacted_thinking" => block["data"].as_str(),
            "reasoning" => block["encrypted_content"].as_str(),
            _ => None,
        })
        .filter(|proof| !issued.contains(&(issuer.clone(), (*proof).to_owned())))
        .map(|proof| format!("reasoning with the proof {proof:?}, which {model} never gave"))
        .collect()
}

fn openai(body: &Value, messages: &[Value], wrong: &mut Vec<String>) {
    check_tools(
        body["tools"].as_array(),
        |tool| (&tool["function"]["name"], &tool["function"]["parameters"]),
        wrong,
    );
    let mut unanswered: Vec<String> = Vec::new();
    let mut call_ids = HashSet::new();
    let mut user_has_spoken = false;
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match unanswered.first() {
                Some(first) if first == id => drop(unanswered.remove(0)),
                _ => wrong.push(format!(
                    "message {at}: result for {id:?}, owed were {unanswered:?}"
                )),
            }
            if message["content"].as_str().is_none_or(str::is_empty) {
                wrong.push(format!("message {at}: empty tool result"));
            }
            continue;
        }
        if !unanswered.is_empty() {
            wrong.push(format!("message {at}: tool calls {unanswered:?} have no result"));
            unanswered.clear();
        }
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let empty = match &message["content"] {
            Value::String(text) => text.trim().is_empty(),
            Value::Array(parts) => parts.is_empty() || count_empty_text(&message["content"]) > 0,
            _ => true,
        };
        if empty && calls.is_empty() {
            wrong.push(format!("message {at} is empty"));
        }
        match role {
            "system" | "developer" if !user_has_spoken => {}
            "user" => user_has_spoken = true,
            "assistant" if user_has_spoken => {}
            _ => wrong.push(format!("message {at}: role {role:?} out of place")),
        }
        for call in &calls {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if !is_name(&id, 40) || !call_ids.insert(id.clone()) {
                wrong.push(format!(
                    "message {at}: tool call id {id:?} is invalid or used twice"
                ));
            }
            let function = &call["function"];
            if !function["name"].as_str().is_some_and(|name| is_name(name, 64)) {
                wrong.push(format!("message {at}: tool name {} is invalid", function["name"]));
            }
            let arguments = function["arguments"].as_str().unwrap_or_default();
            if serde_json::from_str::<Value>(arguments).is_err() {
                wrong.push(format!("message {at}: arguments are not JSON"));
            }
            unanswered.push(id);
        }
        if !calls.is_empty() && role != "assistant" {
            wrong.push(format!("message {at}: tool calls of role {role:?}"));
        }
    }
    if !unanswered.is_empty() {
        wrong.push(format!("tool calls {unanswered:?} have no result"));
    }
    if !user_has_spoken {
        wrong.push("no user message".to_owned());
    }
}

pub(super) fn check_tools<'v>(
    tools: Option<&'v Vec<Value>>,
    parts: impl Fn(&'v Value) -> (&'v Value, &'v Value),
    wrong: &mut Vec<String>,
) {
    let mut names = HashSet::new();
    // The provider's own search has no schema.
    let is_ours = |tool: &&Value| {
        !tool["type"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("web_search"))
    };
    for tool in tools.into_iter().flatten().filter(is_ours) {
        let (name, schema) = parts(tool);
        let name = name.as_str().unwrap_or_default();
        if !is_name(name, 64) || !names.insert(name) {
            wrong.push(format!("tool {name:?} is invalid or declared twice"));
        }
        if schema["type"] != "object" {
            wrong.push(format!("tool {name:?}: the schema is not an object's"));
        }
        // As Messages judges: at the top level, `^[a-zA-Z0-9_.-]{1,64}$`.
        let properties = schema["properties"].as_object();
        let is_refused = |name: &&String| !is_name(&name.replace('.', "_"), 64);
        if let Some(property) = properties.and_then(|all| all.keys().find(is_refused)) {
            wrong.push(format!("tool {name:?}: the property {property:?} is refused"));
        }
    }
}

pub(super) fn is_name(text: &str, max: usize) -> bool {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !text.is_empty() && text.len() <= max && text.bytes().all(valid)
}

fn count_key(value: &Value, key: &str) -> usize {
    match value {
        Value::Object(map) => {
            usize::from(map.contains_key(key))
                + map.values().map(|value| count_key(value, key)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|value| count_key(value, key)).sum(),
        _ => 0,
    }
}

pub(super) fn count_empty_text(content: &Value) -> usize {
    let parts = content.as_array().into_iter().flatten();
    parts
        .filter(|part| part["type"] == "text" && part["text"].as_str().is_none_or(|t| t.trim().is_empty()))
        .count()
}

/// Checks the prefix against earlier requests of the same conversation (the same model and first message). A request
/// may repeat or extend one of them; a compacted history starts a new prefix.
pub(super) fn prefix(
    known: &mut HashMap<String, Vec<Prefix>>,
    model: &str,
    prefix: Prefix,
) -> Option<String> {
    const SUMMARY: &str = "[Previous conversation summary]";
    let key = format!("{model}\n{}", prefix.messages.first()?);
    let group = known.entry(key).or_default();
    // Without an answer, it may start another conversation that begins with the same words.
    let is_start = prefix
        .messages
        .iter()
        .all(|message| message.contains("\"role\":\"user\""));
    let fits = group.is_empty()
        || is_start
        || prefix.messages.iter().any(|message| message.contains(SUMMARY))
        || group
            .iter()
            .any(|earlier| earlier.fixed == prefix.fixed && prefix.messages.starts_with(&earlier.messages));
    if !group.contains(&prefix) {
        group.push(prefix);
    }
    (!fits).then(|| "system, tools or earlier messages changed: the prompt cache misses".to_owned())
}

/// Splits a request's raw text into the parts of its cache prefix, without the cache marks.
pub(super) fn raw_prefix(api: Api, body: &str) -> Prefix {
    let members = members(body);
    let member = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw);
    let mut messages: Vec<String> = member(key(api)).map(elements).unwrap_or_default();
    let mut fixed: Vec<String> = ["tools", "system", "instructions", "systemInstruction"]
        .iter()
        .filter_map(|name| member(name))
        .map(without_marks)
        .collect();
    if matches!(api, Api::OpenAi | Api::Ollama)
        && messages
            .first()
            .is_some_and(|first| first.contains("\"role\":\"system\""))
    {
        fixed.push(messages.remove(0));
    }
    Prefix { fixed, messages }
}

fn without_marks(raw: &str) -> String {
    raw.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
        .replace("\"cache_control\":{\"type\":\"ephemeral\"},", "")
}

fn elements(raw: &str) -> Vec<String> {
    let inner = raw.trim().trim_start_matches('[').trim_end_matches(']');
    split_top(inner).into_iter().map(without_marks).collect()
}

/// Returns the members of a JSON object as key and raw value.
fn members(raw: &str) -> Vec<(String, &str)> {
    let inner = raw.trim();
    let inner = inner
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'))
        .unwrap_or("");
    split_top(inner)
        .into_iter()
        .filter_map(|member| {
            let (key, value) = member.split_once("\":")?;
            Some((key.trim().trim_start_matches('"').to_owned(), value.trim()))
        })
        .collect()
}

/// Splits at commas outside strings and brackets.
fn split_top(raw: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    let mut pieces = Vec::new();
    for (at, byte) in raw.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                pieces.push(&raw[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !raw[start..].trim().is_empty() {
        pieces.push(&raw[start..]);
    }
    pieces
}
