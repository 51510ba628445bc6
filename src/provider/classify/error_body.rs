//! Reads error bodies, in any of the usual forms.
//!
//! It knows where texts and codes are, not what they mean.

use std::time::Duration;

use serde_json::Value;

use super::retry_after;
use crate::base::{half_characters, text};

/// What is before a value of the request, or before all of it, that an error repeats: pydantic and FastAPI, LiteLLM,
/// and llama.cpp.
const ECHOES: [&str; 7] = [
    "'input': ",
    "\"input\":",
    "\\\"input\\\":",
    "input_value=",
    "passed in {",
    "; messages = ",
    "; tools = ",
];

/// The contents of an error body, in any of the usual forms.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    pub(super) is_error: bool,
    /// Code, type and status words in lower case, separated by spaces.
    pub(super) code: String,
    pub(super) message: String,
    /// The parameter that the error is about, in lower case (OpenAI).
    pub(super) parameter: String,
    /// The message, and the upstream error that a gateway passes on, in lower case.
    pub(super) text: String,
    /// The text without what it repeats of the request, where anything may be written. Each source has lines of its own.
    pub(super) statement: String,
    /// A status in the body.
    pub(super) status: Option<u16>,
    /// The context window in a separate field (llama.cpp).
    pub(super) window: Option<u64>,
    /// The limit refills within a minute. Google calls that a quota too.
    pub(super) per_minute: bool,
    /// A wait in the body (Google, OpenAI).
    pub(super) retry_after: Option<Duration>,
    pub(super) request_id: Option<String>,
}

impl ErrorBody {
    pub(super) fn read(body: &str) -> Self {
        let Ok(value) = half_characters::parse_json::<Value>(body) else {
            return Self::from_plain_text(body);
        };
        let value = match value {
            // Google's compatible API wraps its error in a list.
            Value::Array(mut items) if !items.is_empty() => items.swap_remove(0),
            value => value,
        };
        let error = &value["error"];
        let nested = match error {
            Value::Object(_) => error,
            Value::String(_) => &Value::Null,
            _ => &value,
        };
        let message = error
            .as_str()
            .map(str::to_owned)
            .or_else(|| extract_text(&nested["message"]))
            .or_else(|| extract_text(&nested["detail"]))
            .or_else(|| extract_text(&value["message"]))
            .or_else(|| extract_text(&value["detail"]))
            .or_else(|| extract_text(error))
            .unwrap_or_default();
        let behind = extract_text(&nested["metadata"]["raw"]).unwrap_or_default();
        let reasons = extract_text(&nested["metadata"]["reasons"]).unwrap_or_default();
        let code = ["code", "type", "status"]
            .iter()
            .filter_map(|key| match &nested[*key] {
                Value::String(word) => Some(word.to_ascii_lowercase()),
                _ => None,
            })
            .collect::<Vec<_>>()
            .join(" ");
        let known = |value: &Value| value.as_u64().and_then(|n| u16::try_from(n).ok());
        let status = known(&nested["code"]).or_else(|| known(&nested["status"]));
        let is_error = !error.is_null() || value["object"] == "error" || value["type"] == "error";
        // "Provider returned error" says nothing; the upstream error does.
        let message = if message.to_ascii_lowercase().contains("returned error") && !behind.is_empty() {
            format!("{message}: {}", text::one_line(&behind, 500))
        } else {
            message
        };
        // An error in an unknown form is better than none.
        let says_anything = value.as_object().is_some_and(|fields| !fields.is_empty());
        let message = if message.is_empty() && says_anything {
            text::one_line(body, 500)
        } else {
            message
        };
        let text = format!("{message} {behind} {reasons}").to_ascii_lowercase();
        let statements = [&message, &behind, &reasons].map(|source| extract_statement(source));
        Self {
            is_error,
            code,
            parameter: nested["param"].as_str().unwrap_or_default().to_ascii_lowercase(),
            retry_after: retry_after::parse_google_delay(body)
                .or_else(|| retry_after::parse_delay_text(&text)),
            text,
            statement: statements.join("\n"),
            message,
            // `code` may also be a number of the vendor's own.
            status: status.filter(|status| (400..600).contains(status)),
            window: nested["n_ctx"].as_u64(),
            per_minute: body.contains("PerMinute"),
            request_id: value["request_id"].as_str().map(str::to_owned),
        }
    }

    fn from_plain_text(body: &str) -> Self {
        let trimmed = body.trim_start();
        let message = if trimmed.starts_with('<') {
            page_title(trimmed).unwrap_or_default()
        } else {
            text::one_line(trimmed, 500)
        };
        Self {
            text: message.to_ascii_lowercase(),
            statement: extract_statement(&message),
            message,
            ..Self::default()
        }
    }

    pub(super) fn contains_any(&self, any: &[&str]) -> bool {
        let fields = [&self.text, &self.code, &self.parameter];
        any.iter()
            .any(|words| fields.iter().any(|field| field.contains(words)))
    }
}

/// Returns what an error says in lower case, up to what it repeats of the request.
fn extract_statement(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let end = ECHOES.iter().filter_map(|mark| lower.find(mark)).min();
    lower[..end.unwrap_or(lower.len())].to_owned()
}

/// Returns the title of a web page.
fn page_title(page: &str) -> Option<String> {
    // ASCII lower case keeps the byte offsets, so they are valid in the original text.
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title>")? + "<title>".len();
    let to = from + lower[from..].find("</title>")?;
    Some(text::one_line(page.get(from..to)?, 200))
}

/// Returns a text in any shape: a string, or strings somewhere in a list (FastAPI).
fn extract_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => {
            let parts: Vec<String> = items
                .iter()
                .filter_map(|item| extract_text(item).or_else(|| extract_located_text(item)))
                .collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
        Value::Object(map) => ["message", "detail"]
            .iter()
            .find_map(|key| map.get(*key).and_then(extract_text)),
        _ => None,
    }
}

/// Returns the text of FastAPI's errors, after the path of the field: `{"loc": ["body", "store"], "msg": "…"}`.
fn extract_located_text(item: &Value) -> Option<String> {
    let text = extract_text(&item["msg"])?;
    let names = item["loc"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| match name {
            Value::String(name) => name.clone(),
            other => other.to_string(),
        });
    let path: Vec<String> = names.skip_while(|name| name == "body").collect();
    Some(if path.is_empty() {
        text
    } else {
        format!("{}: {text}", path.join("."))
    })
}
