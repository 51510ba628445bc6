//! Builds a request body from pieces that were serialized earlier. Long pieces are shared, so that no step
//! serializes or copies a long history again (R-CTX-5).
//!
//! Knows JSON bytes, not the shape of any API. It also removes configured keys from what goes out (I15).

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

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

    /// Appends the fields that are not `omitted`, behind another field.
    pub(crate) fn push_options(
        &mut self,
        omitted: &RequestParts,
        options: impl IntoIterator<Item = OptionalField>,
    ) {
        for (part, key, value) in options {
            if self.admit_part(omitted, part) {
                self.push_raw(&format!(",\"{key}\":{value}"));
            }
        }
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
        self.flush();
        for piece in &mut self.pieces {
            // A piece without a key stays shared with the cached encoding.
            if let Some(clean) = redactor.redact_bytes(piece) {
                self.len = self.len - piece.len() + clean.len();
                *piece = clean.into();
            }
        }
        self
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Converts the pieces to the HTTP client's body. A streamed body has no length of its own, so the caller sets
    /// `Content-Length` from [`BodyPieces::len`].
    pub(crate) fn into_stream(mut self) -> reqwest::Body {
        self.flush();
        reqwest::Body::wrap_stream(futures::stream::iter(
            self.pieces.into_iter().map(Ok::<_, Infallible>),
        ))
    }

    /// Returns the whole body as text.
    #[cfg(test)]
    pub(crate) fn text(mut self) -> String {
        self.flush();
        String::from_utf8(self.pieces.concat()).unwrap()
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
