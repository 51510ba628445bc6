//! Repairs JSON with halves of characters: `\u` escapes of unpaired surrogates, which no string can contain.
//!
//! Programs in JavaScript send such escapes where they cut a text by UTF-16 units, or where a document contains them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Parses JSON. Each half of a character becomes U+FFFD.
///
/// # Errors
/// The text is not JSON otherwise, or not a `T`.
pub fn parse_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match replace_halves(text) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    })
}

/// Replaces each half of a character with U+FFFD. Returns `None` if there is none.
///
/// Positions stay valid, because both are one UTF-16 unit.
pub fn replace_halves(text: &str) -> Option<String> {
    rewrite_halves(text, |_, _| REPLACEMENT.to_owned())
}

/// The escape of U+FFFD.
const REPLACEMENT: &str = "\\ufffd";

/// Joins characters that a stream of JSON texts has cut in two.
#[derive(Debug, Default)]
pub struct HalfJoiner {
    /// The escape of the first half, until the second one comes.
    first: Option<String>,
}

impl HalfJoiner {
    /// Repairs the next text of the stream. A first half at the end of a string waits for its second half.
    pub fn mend<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        // Without this escape, there is no half.
        if memchr::memmem::find(text.as_bytes(), b"\\u").is_none() {
            return Cow::Borrowed(text);
        }
        let waiting = self.first.take();
        let (mut is_joined, mut next) = (false, None);
        let rewritten = rewrite_halves(text, |escape, ends_string| {
            if is_first_half(escape) && ends_string {
                next = Some(escape.to_owned());
                return String::new();
            }
            match &waiting {
                // A text can repeat the piece: both get the half.
                Some(first) if !is_first_half(escape) => {
                    is_joined = true;
                    format!("{first}{escape}")
                }
                _ => REPLACEMENT.to_owned(),
            }
        });
        self.first = next.or(waiting.filter(|_| !is_joined));
        rewritten.map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

fn is_first_half(escape: &str) -> bool {
    matches!(parse_utf16_unit(escape, 0), Some(0xd800..=0xdbff))
}

/// Replaces each half of a character with what `replace` returns for its escape, and for whether its string ends there.
/// Returns `None` if there is none.
fn rewrite_halves(text: &str, mut replace: impl FnMut(&str, bool) -> String) -> Option<String> {
    let mut rewritten = String::new();
    let mut copied = 0;
    let mut rest = 0;
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[rest..]) {
        let at = rest + found;
        match parse_utf16_unit(text, at) {
            Some(0xd800..=0xdbff) if matches!(parse_utf16_unit(text, at + 6), Some(0xdc00..=0xdfff)) => {
                rest = at + 12
            }
            Some(0xd800..=0xdfff) => {
                rest = at + 6;
                rewritten.push_str(&text[copied..at]);
                rewritten.push_str(&replace(&text[at..rest], text[rest..].starts_with('"')));
                copied = rest;
            }
            Some(_) => rest = at + 6,
            // Another escape, such as `\\`: its second character must not start an escape.
            None => rest = (at + 2).min(text.len()),
        }
    }
    if copied == 0 {
        return None;
    }
    rewritten.push_str(&text[copied..]);
    Some(rewritten)
}

/// Parses the `\uXXXX` escape at `at` as a UTF-16 unit.
fn parse_utf16_unit(text: &str, at: usize) -> Option<u32> {
    let escape = text.as_bytes().get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits
        .iter()
        .try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads strings from the texts of a stream, and joins them.
    fn join(texts: &[&str]) -> String {
        let mut joiner = HalfJoiner::default();
        texts
            .iter()
            .map(|text| serde_json::from_str::<String>(&joiner.mend(text)).unwrap())
            .collect()
    }

    #[test]
    fn halves_in_two_texts_are_joined() {
        for (texts, joined) in [
            (&[r#""Go \ud83d""#, r#""\ude80 now""#][..], "Go 🚀 now"),
            (&[r#""\ud83d""#, r#""""#, r#""a""#, r#""\ude80""#], "a🚀"),
            (&[r#""\ud83d\ude80""#, r#""\\ud83d""#], "🚀\\ud83d"),
            (&[r#""a\ud83d b""#, r#""\ude80""#], "a\u{fffd} b\u{fffd}"),
            (&[r#""\ud83d""#, r#""\ud83d""#, r#""\ude80""#], "🚀"),
            (&[r#""\ude80""#], "\u{fffd}"),
            (&[r#""\ud83d""#, r#""\ude80 \ude80""#], "🚀 🚀"),
        ] {
            assert_eq!(join(texts), joined, "{texts:?}");
        }
    }

    #[test]
    fn json_with_halves_is_parsed() {
        let parse = |text| parse_json::<serde_json::Value>(text);
        assert_eq!(parse(r#"{"a": "\ud83d end"}"#).unwrap()["a"], "\u{fffd} end");
        assert!(parse(r#"{"a": "\ud83d""#).is_err());
        assert!(parse("{").is_err());
    }
}
