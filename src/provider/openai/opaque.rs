//! Opaque reasoning in Chat Completions: OpenRouter's `reasoning_details` and Gemini's `extra_content`.
//!
//! It is stored unchanged, never shown, and returned in the same fields. Whether it may return to a model is decided
//! elsewhere, by its origin.

use serde_json::{Map, Value, json};

/// The fields of an assistant message that contain opaque reasoning.
const DETAILS: &str = "reasoning_details";
const EXTRA: &str = "extra_content";

/// The opaque reasoning of an answer, collected from its pieces.
#[derive(Debug, Default)]
pub(super) struct OpaqueReasoning {
    details: Vec<Value>,
    extra: Value,
}

impl OpaqueReasoning {
    /// Collects the opaque reasoning of one piece.
    pub(super) fn push_delta(&mut self, delta: &Value) {
        for detail in delta[DETAILS].as_array().into_iter().flatten() {
            if !detail.is_object() {
                continue;
            }
            match self.details.last_mut() {
                Some(last) if is_continuation(last, detail) => join(last, detail),
                _ => self.details.push(detail.clone()),
            }
        }
        // Without a signature it only labels this piece.
        if delta[EXTRA]["google"]["thought_signature"].is_string() {
            self.extra = delta[EXTRA].clone();
        }
    }

    /// Takes all of it as one JSON text; `None` if there is none.
    pub(super) fn take(&mut self) -> Option<String> {
        let mut fields = Map::new();
        if !self.details.is_empty() {
            fields.insert(DETAILS.to_owned(), json!(std::mem::take(&mut self.details)));
        }
        if !self.extra.is_null() {
            fields.insert(EXTRA.to_owned(), self.extra.take());
        }
        (!fields.is_empty()).then(|| Value::Object(fields).to_string())
    }
}

/// Returns the message fields that carry `opaque` back; empty for opaque reasoning of another API.
pub(super) fn parse_kept_fields(opaque: &str) -> impl Iterator<Item = (String, Value)> {
    let fields: Map<String, Value> = serde_json::from_str(opaque).unwrap_or_default();
    fields
        .into_iter()
        .filter(|(name, _)| name == DETAILS || name == EXTRA)
}

/// Reports whether a piece continues the last entry. Readable reasoning arrives in pieces, encrypted reasoning whole.
fn is_continuation(last: &Value, next: &Value) -> bool {
    let same = |field: &str| last[field].is_null() || next[field].is_null() || last[field] == next[field];
    let readable = next["text"].is_string() || next["summary"].is_string() || next["signature"].is_string();
    let unsigned = !last["signature"].is_string();
    last["data"].is_null()
        && next["data"].is_null()
        && last["type"] == next["type"]
        && readable
        && unsigned
        && same("index")
        && same("id")
}

fn join(last: &mut Value, next: &Value) {
    let (Some(last), Some(next)) = (last.as_object_mut(), next.as_object()) else {
        return;
    };
    for (field, value) in next {
        match (last.get_mut(field), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if field == "text" || field == "summary" => {
                text.push_str(more);
            }
            _ => {
                last.insert(field.clone(), value.clone());
            }
        }
    }
}
