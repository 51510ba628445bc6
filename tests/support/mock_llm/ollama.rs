//! Ollama's own API: rendering of its lines, and checks of its requests.

use serde_json::{Value, json};

use super::check::{check_tools, is_name};
use super::render::Renderer;
use super::reply::Frame;

impl Renderer {
    pub(super) fn line(&self, message: Value) -> Value {
        json!({"model": "mock-model", "created_at": "2026-11-01T00:00:00Z", "message": message, "done": false})
    }

    pub(super) fn ollama_text(&mut self, text: &str) {
        self.event(&self.line(json!({"role": "assistant", "content": text})));
    }

    pub(super) fn ollama_call(&mut self, number: usize, name: &str, input: &str) {
        let line = |arguments: Value| {
            let call = json!({"id": format!("call_mock{number}"), "function": {"name": name, "arguments": arguments}});
            json!({"role": "assistant", "content": "", "tool_calls": [call]})
        };
        match serde_json::from_str::<Value>(input) {
            Ok(arguments) => self.event(&self.line(line(arguments))),
            // A call arrives whole, so a cut one is half a line.
            Err(_) => {
                let whole = self.sse(&self.line(line(json!({}))));
                let bytes = whole.slice(..whole.len() / 2);
                self.frames.push(Frame::Event { bytes, times: 1 });
            }
        }
    }

    pub(super) fn end_lines(&mut self, reason: &str) {
        let done_reason = match reason {
            "end_turn" | "tool_use" => "stop",
            "max_tokens" => "length",
            other => other,
        };
        let mut last = self.line(json!({"role": "assistant", "content": ""}));
        last["done"] = json!(true);
        last["done_reason"] = json!(done_reason);
        let tokens = self.tokens;
        last["prompt_eval_count"] = json!(tokens.input + tokens.cache_read + tokens.cache_write);
        last["eval_count"] = json!(tokens.output);
        self.event(&last);
    }
}

/// Checks a request: the window is told, each call has exactly one result in order (I4), and nothing is empty.
pub(super) fn check(body: &Value, messages: &[Value], wrong: &mut Vec<String>) {
    if body["options"]["num_ctx"]
        .as_u64()
        .is_none_or(|window| window < 1_024)
    {
        wrong.push("no num_ctx".to_owned());
    }
    check_tools(
        body["tools"].as_array(),
        |tool| (&tool["function"]["name"], &tool["function"]["parameters"]),
        wrong,
    );
    let mut unanswered: Vec<(Value, Value)> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let is_empty = message["content"]
            .as_str()
            .is_none_or(|text| text.trim().is_empty());
        if role == "tool" {
            let answered = (message["tool_name"].clone(), message["tool_call_id"].clone());
            match unanswered.first() {
                Some(first) if *first == answered => drop(unanswered.remove(0)),
                _ => wrong.push(format!(
                    "message {at}: result for {answered:?}, owed were {unanswered:?}"
                )),
            }
            if is_empty {
                wrong.push(format!("message {at}: empty tool result"));
            }
            continue;
        }
        if !unanswered.is_empty() {
            wrong.push(format!("message {at}: tool calls {unanswered:?} have no result"));
            unanswered.clear();
        }
        let calls = message["tool_calls"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if is_empty && calls.is_empty() && message["images"].is_null() {
            wrong.push(format!("message {at} is empty"));
        }
        for call in calls {
            let function = &call["function"];
            let is_valid = function["name"].as_str().is_some_and(|name| is_name(name, 64));
            if role != "assistant" || !is_valid || !function["arguments"].is_object() {
                wrong.push(format!("message {at}: tool call {call} is invalid"));
            }
            unanswered.push((function["name"].clone(), call["id"].clone()));
        }
    }
    if !unanswered.is_empty() {
        wrong.push(format!("tool calls {unanswered:?} have no result"));
    }
}
