//! The Gemini API: rendering of its events, and checks of its requests.

use serde_json::{Value, json};

use super::check::{check_tools, is_name};
use super::render::Renderer;
use super::reply::Frame;

/// The signature of the first call of each answer.
const SIGNATURE: &str = "c2lnbmVk";

/// Google's value for calls that another model made.
const FOREIGN: &str = "skip_thought_signature_validator";

/// Returns the model that a path names; `None` if it is not a streaming call.
pub(super) fn model_in(path: &str) -> Option<&str> {
    let (_, call) = path.split_once("/models/")?;
    call.strip_suffix(":streamGenerateContent?alt=sse")
}

impl Renderer {
    pub(super) fn candidate(&self, parts: Value) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "modelVersion": "mock-model", "responseId": "resp_mock"})
    }

    pub(super) fn gemini_call(&mut self, number: usize, name: &str, input: &str) {
        let mut part = json!({"functionCall": {"name": name, "args": {}, "id": format!("mock{number}")}});
        if number == 0 {
            part["thoughtSignature"] = json!(SIGNATURE);
        }
        match serde_json::from_str::<Value>(input) {
            Ok(args) => {
                part["functionCall"]["args"] = args;
                self.event(&self.candidate(json!([part])));
            }
            // A call arrives whole, so a cut one is half an event.
            Err(_) => {
                let whole = self.sse(&self.candidate(json!([part])));
                let bytes = whole.slice(..whole.len() / 2);
                self.frames.push(Frame::Event { bytes, times: 1 });
            }
        }
    }

    pub(super) fn end_candidate(&mut self, reason: &str) {
        let finish = match reason {
            "end_turn" | "tool_use" => "STOP",
            "max_tokens" => "MAX_TOKENS",
            "refusal" => "SAFETY",
            other => other,
        };
        let mut last = self.candidate(json!([{"text": ""}]));
        last["candidates"][0]["finishReason"] = json!(finish);
        let tokens = self.tokens;
        let prompt = tokens.input + tokens.cache_read + tokens.cache_write;
        last["usageMetadata"] = json!({"promptTokenCount": prompt, "cachedContentTokenCount": tokens.cache_read,
            "candidatesTokenCount": tokens.output, "totalTokenCount": prompt + tokens.output});
        self.event(&last);
    }
}

/// Checks a request: each call has exactly one result in order (I4), nothing is empty, and the first call of each answer
/// has a signature.
pub(super) fn check(body: &Value, contents: &[Value], wrong: &mut Vec<String>) {
    let declarations = body["tools"][0]["functionDeclarations"].as_array();
    let any = json!({"type": "object"});
    check_tools(
        declarations,
        |tool| {
            let schema = &tool["parametersJsonSchema"];
            (&tool["name"], if schema.is_null() { &any } else { schema })
        },
        wrong,
    );
    let mut unanswered: Vec<(Value, Value)> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = content["role"].as_str().unwrap_or_default();
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() || !["user", "model"].contains(&role) || (at == 0 && role != "user") {
            wrong.push(format!("content {at} of role {role:?} is empty or out of place"));
        }
        let mut calls = Vec::new();
        for part in parts {
            let call = &part["functionCall"];
            let response = &part["functionResponse"];
            let signature = part["thoughtSignature"].as_str();
            if signature.is_some_and(|signature| ![SIGNATURE, FOREIGN].contains(&signature)) {
                wrong.push(format!("content {at}: a signature that this model never gave"));
            }
            if call.is_object() {
                if calls.is_empty() && signature.is_none() {
                    wrong.push(format!("content {at}: the first call has no signature"));
                }
                if role != "model"
                    || !call["args"].is_object()
                    || !call["name"].as_str().is_some_and(|name| is_name(name, 64))
                {
                    wrong.push(format!("content {at}: call {call} is invalid"));
                }
                calls.push((call["name"].clone(), call["id"].clone()));
            } else if response.is_object() {
                let answered = (response["name"].clone(), response["id"].clone());
                match unanswered.first() {
                    Some(first) if *first == answered => drop(unanswered.remove(0)),
                    _ => wrong.push(format!(
                        "content {at}: result for {answered:?}, owed were {unanswered:?}"
                    )),
                }
                let results = [&response["response"]["output"], &response["response"]["error"]];
                if !results
                    .iter()
                    .any(|text| text.as_str().is_some_and(|text| !text.is_empty()))
                {
                    wrong.push(format!("content {at}: empty result"));
                }
            } else if part["inlineData"].is_object() {
                if part["inlineData"]["data"].as_str().is_none_or(str::is_empty) {
                    wrong.push(format!("content {at}: an image without data"));
                }
            } else if signature.is_none() && part["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                wrong.push(format!("content {at}: empty text"));
            }
        }
        if !unanswered.is_empty() {
            wrong.push(format!("content {at}: calls {unanswered:?} have no result"));
        }
        unanswered = calls;
    }
    if !unanswered.is_empty() {
        wrong.push(format!("calls {unanswered:?} have no result"));
    }
}
