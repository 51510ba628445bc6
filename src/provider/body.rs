//! A request's body out of pieces that were serialised before: long ones are passed on as they are, so
//! that a long history is neither serialised nor copied at every step (R-CTX-5).

use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::config::Redactor;

/// Shorter pieces are copied together: a write each would cost more.
const COPIED: usize = 4 * 1024;

/// The pieces of a body.
#[derive(Debug, Default)]
pub(crate) struct BodyPieces {
    pieces: Vec<Bytes>,
    tail: BytesMut,
    len: usize,
}

impl BodyPieces {
    /// Adds bytes.
    pub(crate) fn push(&mut self, piece: &Bytes) {
        self.len += piece.len();
        if piece.len() < COPIED {
            self.tail.extend_from_slice(piece);
        } else {
            self.flush();
            self.pieces.push(piece.clone());
        }
    }

    /// Adds text that is JSON already.
    pub(crate) fn push_raw(&mut self, text: &str) {
        self.len += text.len();
        self.tail.extend_from_slice(text.as_bytes());
    }

    /// Adds a value as JSON.
    pub(crate) fn push_json(&mut self, value: &impl Serialize) {
        let before = self.tail.len();
        let written = serde_json::to_writer((&mut self.tail).writer(), value);
        debug_assert!(written.is_ok(), "values of ours can always be written");
        self.len += self.tail.len() - before;
    }

    /// The same without any key: whatever way one came into a history, it goes to no model (I15). A key is never
    /// spread over two pieces, each of which holds whole values.
    pub(crate) fn without_keys(mut self, redactor: &Redactor) -> Self {
        self.flush();
        for piece in &mut self.pieces {
            if let Some(clean) = redactor.redact_bytes(piece) {
                self.len = self.len - piece.len() + clean.len();
                *piece = clean.into();
            }
        }
        self
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The body for the client, which sends it with the length that [`BodyPieces::len`] told.
    pub(crate) fn into_stream(mut self) -> reqwest::Body {
        self.flush();
        reqwest::Body::wrap_stream(futures::stream::iter(
            self.pieces.into_iter().map(Ok::<_, Infallible>),
        ))
    }

    /// All of it in one piece.
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
    fn keeps_order_and_length_and_does_not_copy_what_is_long() {
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
