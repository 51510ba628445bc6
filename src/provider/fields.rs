//! Reads fields of a provider's events leniently: an optional field can never end an answer.
//!
//! A field with an unexpected type counts as absent and is logged at debug level. Text, a
//! tool's input and their containers are the exception: losing one would leave a hole in the answer. A wrong type
//! there is an error, so that the call is retried.
//! Knows JSON, not the APIs.

use serde_json::Value;

use super::decode::{DecodeError, DecodeResult};
use super::sse::SseEvent;
use super::stream::{SearchReport, StreamEvent};
use crate::base::text::one_line;
use crate::domain::WebSource;

/// How much of a malformed event an error quotes, in characters.
const EXCERPT: usize = 300;

/// Parses the JSON object of an event; `None` if the event carries nothing. An error in any shape keeps its message.
pub(super) fn parse_event(event: &SseEvent) -> DecodeResult<Option<Value>> {
    let data = event.data.trim();
    if event.name == "error" {
        return Err(DecodeError::Reported(data.to_owned()));
    }
    if data.is_empty() || data == "[DONE]" {
        return Ok(None);
    }
    match serde_json::from_str(data) {
        Ok(value @ Value::Object(_)) => Ok(Some(value)),
        Ok(Value::Null) => Ok(None),
        // Text in place of an event can only be an error message.
        Ok(Value::String(words)) => Err(DecodeError::Reported(words)),
        // Google wraps its errors in a list.
        Ok(value) if !value[0]["error"].is_null() => Err(DecodeError::Reported(data.to_owned())),
        Ok(_) => Err(malformed_event_error(data, "not an object")),
        Err(error) if data.starts_with(['{', '[', '"']) => {
            Err(malformed_event_error(data, &error.to_string()))
        }
        // Plain text instead of JSON is usually a gateway's error message, so `classify` interprets it.
        Err(_) => Err(DecodeError::Reported(data.to_owned())),
    }
}

fn malformed_event_error(data: &str, reason: &str) -> DecodeError {
    DecodeError::broken_stream(format!(
        "malformed stream event ({reason}): {}",
        one_line(data, EXCERPT)
    ))
}

/// Returns the kind of an event: its `type`, otherwise its SSE name.
pub(super) fn kind<'e>(value: &'e Value, event: &'e SseEvent) -> DecodeResult<&'e str> {
    match text(value, "type") {
        Some(kind) => Ok(kind),
        None if !value["error"].is_null() => Err(DecodeError::Reported(event.data.clone())),
        None if !event.name.is_empty() => Ok(&event.name),
        None => Err(malformed_event_error(&event.data, "no type")),
    }
}

/// Returns an optional text.
pub(super) fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    let value = &object[field];
    value.as_str().or_else(|| ignore_unexpected_type(value, field))
}

/// Returns an optional number. Some servers write whole numbers as floats.
pub(super) fn optional_number(object: &Value, field: &str) -> Option<u64> {
    let value = &object[field];
    let to_integer = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
    value
        .as_u64()
        .or_else(|| value.as_f64().and_then(to_integer))
        .or_else(|| ignore_unexpected_type(value, field))
}

/// Returns an optional list; empty if absent.
pub(super) fn optional_list<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    let value = &object[field];
    value
        .as_array()
        .or_else(|| ignore_unexpected_type(value, field))
        .map_or(&[], Vec::as_slice)
}

/// Reads a source of a web search whose URL is in `field`; `None` if it has no URL.
pub(super) fn read_source(page: &Value, field: &str) -> Option<StreamEvent> {
    let url = text(page, field).filter(|url| !url.is_empty())?;
    let title = text(page, "title").unwrap_or_default();
    Some(StreamEvent::Search(SearchReport::Source(WebSource {
        url: url.to_owned(),
        title: title.to_owned(),
    })))
}

/// Returns a text without which the answer would have a hole; empty if the field is null or absent.
pub(super) fn needed_text<'v>(object: &'v Value, field: &str) -> DecodeResult<&'v str> {
    match &object[field] {
        Value::String(text) => Ok(text),
        Value::Null => Ok(""),
        other => Err(unexpected_type_error(other, field)),
    }
}

/// Returns a piece of a tool's input. Some servers send the whole object instead of its text.
pub(super) fn needed_input(object: &Value, field: &str) -> DecodeResult<String> {
    match &object[field] {
        input @ Value::Object(_) => Ok(input.to_string()),
        _ => needed_text(object, field).map(str::to_owned),
    }
}

/// Returns an object that contains parts of the answer; `None` if the field is null or absent.
pub(super) fn needed_object<'v>(object: &'v Value, field: &str) -> DecodeResult<Option<&'v Value>> {
    match &object[field] {
        value @ Value::Object(_) => Ok(Some(value)),
        Value::Null => Ok(None),
        other => Err(unexpected_type_error(other, field)),
    }
}

/// Returns a list of objects that contain parts of the answer. A single object counts as a list of one.
pub(super) fn needed_objects<'v>(object: &'v Value, field: &str) -> DecodeResult<Vec<&'v Value>> {
    let items = match &object[field] {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).collect(),
        one @ Value::Object(_) => vec![one],
        Value::Null => Vec::new(),
        other => return Err(unexpected_type_error(other, field)),
    };
    match items.iter().find(|item| !item.is_object()) {
        Some(other) => Err(unexpected_type_error(other, field)),
        None => Ok(items),
    }
}

fn unexpected_type_error(value: &Value, field: &str) -> DecodeError {
    malformed_event_error(&value.to_string(), &format!("unexpected type of `{field}`"))
}

fn ignore_unexpected_type<T>(value: &Value, field: &str) -> Option<T> {
    if !value.is_null() {
        tracing::debug!(
            field,
            "ignored a field of an unexpected type in the provider's stream"
        );
    }
    None
}
