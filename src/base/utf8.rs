//! Incremental UTF-8 decoding: a character that is split between two pieces comes out in one.
//!
//! Pure; the caller reads the bytes and decides when they end.

use std::borrow::Cow;

/// Decodes pieces of UTF-8 into text. Invalid bytes become U+FFFD.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The start of a character whose rest has not arrived yet; at most 3 bytes.
    rest: Vec<u8>,
}

impl Decoder {
    /// Returns the text of the next piece, without an unfinished character at its end.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        // Complete characters and nothing left over: the usual case needs no second buffer.
        if self.rest.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return text.to_owned();
        }
        let input: Cow<'_, [u8]> = if self.rest.is_empty() {
            bytes.into()
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(bytes);
            joined.into()
        };
        let mut text = String::with_capacity(input.len());
        let mut remaining = input.len();
        for chunk in input.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            remaining -= chunk.valid().len() + invalid.len();
            // Only at the very end may the rest of a character still arrive.
            if remaining == 0 && is_unfinished(invalid) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// Returns what is left at the end: one U+FFFD if the last character was never finished.
    pub fn finish_text(&mut self) -> &'static str {
        let unfinished = !std::mem::take(&mut self.rest).is_empty();
        if unfinished { "\u{fffd}" } else { "" }
    }
}

fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
        text.push_str(decoder.finish_text());
        text
    }

    #[test]
    fn a_character_split_between_pieces_is_decoded_once() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"a\xf0\x9f"), "a");
        assert_eq!(decoder.push(b"\x98"), "");
        assert_eq!(decoder.push(b"\x80b"), "😀b");
        assert_eq!(decode(&[b"a\xc3", b"b"]), "a\u{fffd}b");
        assert_eq!(decode(&[b"a\xc3"]), "a\u{fffd}");
    }

    proptest! {
        #[test]
        fn the_split_into_pieces_does_not_change_the_text(
            bytes in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes)],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
