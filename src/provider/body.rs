//! Builds a request body from pieces that were serialized earlier. Long pieces are shared, so that no step
//! serializes or copies a long history again (R-CTX-5).
//!
//! Knows JSON bytes, not the shape of any API. It also removes configured keys from what goes out (I15).

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::extra_fields::{ExtraFields, merge_fields};
use super::request_part::{OptionalField, RequestPart, RequestParts};
use crate::config::Redactor;

/// Pieces below this size in bytes are joined, because one write for each costs more than the copy.
const COPIED: usize = 4 * 1024;

/// A request body as a list of byte pieces.
#[derive(Debug, Default)]
pub(crate) struct BodyPieces {
    pieces: Vec<Bytes>,
    tail: BytesMut,
    len: usize,
    /// The optional parts that it has.
    parts: RequestParts,
    /// The short fields at the beginning of the body. They are written last, because configured ones join them.
    fields: Map<String, Value>,
}

impl BodyPieces {
    /// Appends bytes that are JSON already. Shares them without a copy if they are long.
    pub(crate) fn push(&mut self, piece: &Bytes) {
        self.len += piece.len();
        if piece.len() < COPIED {
            self.tail.extend_from_slice(piece);
        } else {
            self.flush();
            self.pieces.push(piece.clone());
        }
    }

    /// Appends text that is JSON already.
    pub(crate) fn push_raw(&mut self, text: &str) {
        self.len += text.len();
        self.tail.extend_from_slice(text.as_bytes());
    }

    /// Appends a value as JSON.
    pub(crate) fn push_json(&mut self, value: &impl Serialize) {
        let before = self.tail.len();
        let written = serde_json::to_writer((&mut self.tail).writer(), value);
        debug_assert!(written.is_ok(), "values of ours can always be written");
        self.len += self.tail.len() - before;
    }

    /// Adds a short field to the beginning of the body. What is pushed follows these fields, so it begins with a comma.
    pub(crate) fn add_field(&mut self, key: &str, value: Value) {
        self.fields.insert(key.to_owned(), value);
    }

    /// Adds the fields that are not `omitted`.
    pub(crate) fn add_options(
        &mut self,
        omitted: &RequestParts,
        options: impl IntoIterator<Item = OptionalField>,
    ) {
        for (part, key, value) in options {
            if self.admit_part(omitted, part) {
                self.add_field(key, value);
            }
        }
    }

    /// Adds the configured fields that are not `omitted`. They override ours. `temperature_in` is the field of the API
    /// that contains the temperature; `None` for the body itself.
    pub(crate) fn add_extras(
        &mut self,
        omitted: &RequestParts,
        extras: &ExtraFields,
        temperature_in: Option<&str>,
    ) {
        if let Some(temperature) = extras.temperature
            && self.admit_part(omitted, RequestPart::Temperature)
        {
            let temperature = json!({"temperature": temperature});
            let nested = temperature_in.map(|key| json!({key: temperature}));
            merge_fields(&mut self.fields, nested.unwrap_or(temperature), "", &mut |_| true);
        }
        let mut fields = std::mem::take(&mut self.fields);
        let body = Value::Object(extras.body.clone());
        merge_fields(&mut fields, body, "", &mut |path| {
            self.admit_part(omitted, RequestPart::ExtraField(path.into()))
        });
        self.fields = fields;
    }

    /// Returns whether the caller shall add `part`, and notes that the body has it then.
    pub(crate) fn admit_part(&mut self, omitted: &RequestParts, part: RequestPart) -> bool {
        let is_admitted = !omitted.contains(&part);
        if is_admitted {
            self.parts.insert(part);
        }
        is_admitted
    }

    /// Returns the optional parts that the body has.
    pub(crate) fn parts(&self) -> &RequestParts {
        &self.parts
    }

    /// Removes every configured key, however it came into the history, so that none reaches a model (I15). Each piece
    /// holds whole values, so a key never spans two pieces.
    pub(crate) fn without_keys(mut self, redactor: &Redactor) -> Self {
        self.complete();
        for piece in &mut self.pieces {
            // A piece without a key stays shared with the cached encoding.
            if let Some(clean) = redactor.redact_bytes(piece) {
                self.len = self.len - piece.len() + clean.len();
                *piece = clean.into();
            }
        }
        self
    }

    /// Returns the length in bytes. Only a completed body knows it; see [`BodyPieces::without_keys`].
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Converts the pieces to the HTTP client's body. A streamed body has no length of its own, so the caller sets
    /// `Content-Length` from [`BodyPieces::len`].
    pub(crate) fn into_stream(mut self) -> reqwest::Body {
        self.complete();
        reqwest::Body::wrap_stream(futures::stream::iter(
            self.pieces.into_iter().map(Ok::<_, Infallible>),
        ))
    }

    /// Returns the whole body as text.
    #[cfg(test)]
    pub(crate) fn text(mut self) -> String {
        self.complete();
        String::from_utf8(self.pieces.concat()).unwrap()
    }

    /// Writes the fields before everything that was pushed.
    fn complete(&mut self) {
        self.flush();
        let fields = std::mem::take(&mut self.fields);
        if !fields.is_empty() {
            let mut text = Value::Object(fields).to_string();
            text.pop();
            self.len += text.len();
            self.pieces.insert(0, text.into());
        }
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_fields_join_and_override_those_of_the_body() {
        let extras = ExtraFields {
            temperature: Some(0.5),
            body:
                json!({"store": true, "options": {"top_k": 20, "num_ctx": 9}, "think": {"a": 1}, "list": [1]})
                    .as_object()
                    .cloned()
                    .unwrap(),
        };
        let build = |omitted: &[RequestPart], temperature_in| {
            let mut body = BodyPieces::default();
            body.add_field("model", json!("m"));
            body.add_field("options", json!({"num_ctx": 8, "seed": 1}));
            body.add_field("think", json!(true));
            body.add_extras(&omitted.iter().cloned().collect(), &extras, temperature_in);
            body.push_raw(",\"messages\":[]}");
            // The order of the fields does not matter.
            serde_json::from_str::<Value>(&body.text()).unwrap()
        };
        assert_eq!(
            build(&[], None),
            json!({"model":"m","options":{"num_ctx":9,"seed":1,"top_k":20},"think":{"a":1},"temperature":0.5,"store":true,"list":[1],"messages":[]})
        );
        let omitted = ["store", "options.top_k", "think"].map(|path| RequestPart::ExtraField(path.into()));
        assert_eq!(
            build(&omitted, Some("options")),
            json!({"model":"m","options":{"num_ctx":9,"seed":1,"temperature":0.5},"think":true,"list":[1],"messages":[]})
        );
        assert_eq!(
            build(
                &[
                    RequestPart::Temperature,
                    RequestPart::ExtraField("options".into())
                ],
                None
            ),
            json!({"model":"m","options":{"num_ctx":8,"seed":1},"think":{"a":1},"store":true,"list":[1],"messages":[]})
        );
    }

    #[test]
    fn body_keeps_order_and_length_and_shares_long_pieces() {
        let long = Bytes::from("x".repeat(COPIED));
        let mut body = BodyPieces::default();
        body.push_raw("[");
        body.push(&Bytes::from_static(b"1"));
        body.push_raw(",");
        body.push(&long);
        body.push_json(&"a\"b");
        assert_eq!(body.len(), 3 + COPIED + 6);
        assert_eq!(body.pieces[1].as_ptr(), long.as_ptr());
        assert_eq!(body.text(), format!("[1,{}\"a\\\"b\"", "x".repeat(COPIED)));
    }
}
