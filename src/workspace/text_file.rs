//! Converts a file's bytes to text and back without loss: byte order mark, encoding, line ends, and final line feed stay.
//!
//! The encoding of bytes that are neither UTF-8 nor marked UTF-16 is a guess, and only on request. A wrong one
//! costs little: the text turns into the same bytes again, and [`TextFile::with_text`] adds no character that could be
//! another one. Must not touch the disk.

use std::collections::HashSet;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

/// Largest text that is edited, in bytes.
pub const MAX_TEXT: usize = 32 << 20;

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Utf8,
    Utf8Bom,
    /// UTF-16, little-endian, with a byte order mark.
    Utf16Le,
    /// UTF-16, big-endian, with a byte order mark.
    Utf16Be,
    /// Most likely this one of the encodings that were usual before UTF-8.
    Guessed(&'static encoding_rs::Encoding),
}

/// A text that a file in a guessed encoding cannot get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not UTF-8 but most likely {encoding}, where only ASCII and the characters that it has already can be \
     written for certain; {character:?} is neither"
)]
pub struct UncertainCharacter {
    character: char,
    encoding: &'static str,
}

/// The reason why bytes are not a text that could be written back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// The bytes contain a NUL.
    #[error("it is a binary file")]
    Binary,
    /// Another code page.
    #[error("it is not UTF-8 (line {line}); editing it would damage the rest")]
    NotUtf8 {
        /// The first line with an invalid byte, from 1.
        line: usize,
    },
    /// A UTF-16 mark followed by invalid UTF-16.
    #[error("it is marked as UTF-16 but is invalid; editing it would damage the rest")]
    NotUtf16,
}

/// A file's text and its encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextFile {
    /// Without a byte order mark, with the line ends of the file.
    pub text: String,
    pub encoding: Encoding,
}

const BOM: &str = "\u{feff}";

impl TextFile {
    /// Decodes bytes as text.
    ///
    /// # Errors
    /// The bytes contain a NUL or are not valid in their encoding.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, NotText> {
        let (text, encoding) = match bytes.as_slice() {
            // FF FE 00 00 would be UTF-32.
            [0xff, 0xfe, rest @ ..] if !rest.starts_with(&[0, 0]) => {
                (decode_utf16(rest, u16::from_le_bytes)?, Encoding::Utf16Le)
            }
            [0xfe, 0xff, rest @ ..] => (decode_utf16(rest, u16::from_be_bytes)?, Encoding::Utf16Be),
            // After the marks of UTF-16, whose text contains NULs too.
            bytes if is_binary(bytes) => return Err(NotText::Binary),
            [0xef, 0xbb, 0xbf, rest @ ..] => (decode_utf8(rest.to_vec())?, Encoding::Utf8Bom),
            _ => (decode_utf8(bytes)?, Encoding::Utf8),
        };
        Ok(Self { text, encoding })
    }

    /// Decodes bytes as text, also from an old encoding, which is guessed.
    ///
    /// # Errors
    /// As for [`Self::from_bytes`]. No guess turns into the same bytes again, or the bytes are UTF-8 with a few wrong
    /// ones.
    pub fn from_any_bytes(bytes: Vec<u8>) -> Result<Self, NotText> {
        let is_marked = [b"\xff\xfe".as_slice(), b"\xfe\xff", b"\xef\xbb\xbf"]
            .iter()
            .any(|mark| bytes.starts_with(mark));
        if !is_marked
            && !is_binary(&bytes)
            && str::from_utf8(&bytes).is_err()
            && let Some(guessed) = Self::guess(&bytes)
        {
            return Ok(guessed);
        }
        Self::from_bytes(bytes)
    }

    fn guess(bytes: &[u8]) -> Option<Self> {
        let (good, wrong) = bytes.utf8_chunks().fold((0, 0), |(good, wrong), chunk| {
            let characters = chunk.valid().chars().filter(|letter| !letter.is_ascii()).count();
            (
                good + characters,
                wrong + usize::from(!chunk.invalid().is_empty()),
            )
        });
        if good > 0 && good >= wrong {
            return None;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, true);
        let encoding = detector.guess(None, Utf8Detection::Deny);
        let (text, is_malformed) = encoding.decode_without_bom_handling(bytes);
        if is_malformed || *encoding.encode(&text).0 != *bytes {
            return None;
        }
        Some(Self {
            text: text.into_owned(),
            encoding: Encoding::Guessed(encoding),
        })
    }

    /// Returns the file with another text.
    ///
    /// # Errors
    /// The encoding is a guess, and the text has a character that it might turn into another one.
    pub fn with_text(&self, text: String) -> Result<Self, UncertainCharacter> {
        if let Encoding::Guessed(encoding) = self.encoding {
            let known: HashSet<char> = self.text.chars().collect();
            if let Some(character) = text
                .chars()
                .find(|letter| !letter.is_ascii() && !known.contains(letter))
            {
                let encoding = encoding.name();
                return Err(UncertainCharacter { character, encoding });
            }
        }
        // The encoding adds its own mark.
        let text = match text.strip_prefix(BOM) {
            Some(rest) if self.encoding != Encoding::Utf8 => rest.to_owned(),
            _ => text,
        };
        Ok(Self {
            text,
            encoding: self.encoding,
        })
    }

    /// Encodes the text in this file's encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.encoding {
            Encoding::Utf8 => self.text.clone().into_bytes(),
            Encoding::Utf8Bom => [BOM, &self.text].concat().into_bytes(),
            Encoding::Utf16Le => self.encode_utf16_with_bom().flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => self.encode_utf16_with_bom().flat_map(u16::to_be_bytes).collect(),
            Encoding::Guessed(encoding) => encoding.encode(&self.text).0.into_owned(),
        }
    }

    fn encode_utf16_with_bom(&self) -> impl Iterator<Item = u16> {
        BOM.encode_utf16().chain(self.text.encode_utf16())
    }
}

/// Returns whether the bytes contain a NUL, which text does not (UTF-16 is recognized by its mark).
pub fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some()
}

/// Returns whether `text` is how an editor may display `bytes` that are not valid text.
///
/// Editors replace invalid bytes, or display each byte as the character of its number. Line ends are ignored, and so is
/// the number of adjacent replacement characters.
pub fn is_displayed_as(bytes: &[u8], text: &str) -> bool {
    let displayed = unix_lines(text.strip_prefix(BOM).unwrap_or(text));
    let replaced = || {
        let read = String::from_utf8_lossy(bytes);
        let read = unix_lines(read.strip_prefix(BOM).unwrap_or(&read));
        one_mark_each(&read) == one_mark_each(&displayed)
    };
    let by_number = || {
        let read: String = bytes.iter().copied().map(char::from).collect();
        unix_lines(&read) == displayed
    };
    replaced() || by_number()
}

/// Merges adjacent replacement characters: decoders disagree on how many a run of invalid bytes becomes.
fn one_mark_each(text: &str) -> String {
    let mut marked = false;
    let is_first = |&c: &char| {
        let is_repeat = marked && c == char::REPLACEMENT_CHARACTER;
        marked = c == char::REPLACEMENT_CHARACTER;
        !is_repeat
    };
    text.chars().filter(is_first).collect()
}

/// Returns `text` with `\r\n` as `\n`: the form that a model reads and writes.
pub fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Returns whether most line ends of `text` are `\r\n`.
pub fn mostly_crlf(text: &str) -> bool {
    let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let crlf = text.matches("\r\n").count();
    crlf * 2 > all
}

/// Returns `text` with all line ends as `\r\n` if `like` mostly has those, else unchanged.
pub fn with_line_ends_of(text: &str, like: &str) -> String {
    if mostly_crlf(like) {
        unix_lines(text).replace('\n', "\r\n")
    } else {
        text.to_owned()
    }
}

fn decode_utf8(bytes: Vec<u8>) -> Result<String, NotText> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        NotText::NotUtf8 {
            line: memchr::memchr_iter(b'\n', good).count() + 1,
        }
    })
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, []) = bytes.as_chunks::<2>() else {
        return Err(NotText::NotUtf16);
    };
    let text: Result<String, _> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    text.map_err(|_| NotText::NotUtf16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodings_are_detected_and_kept() {
        for (bytes, encoding) in [
            (b"a\r\nb".as_slice(), Encoding::Utf8),
            (b"\xef\xbb\xbfa", Encoding::Utf8Bom),
            (b"\xff\xfea\0\n\0", Encoding::Utf16Le),
            (b"\xfe\xff\0a\0\n", Encoding::Utf16Be),
            (b"", Encoding::Utf8),
        ] {
            let file = TextFile::from_bytes(bytes.to_vec()).unwrap();
            assert_eq!(file.encoding, encoding, "{bytes:?}");
            assert!(!file.text.starts_with(BOM));
            assert_eq!(file.to_bytes(), bytes);
        }
        for (bytes, error) in [
            (b"a\0b".as_slice(), NotText::Binary),
            (b"ok\n\xe4rger", NotText::NotUtf8 { line: 2 }),
            (b"\xff\xfea", NotText::NotUtf16),
            (b"\xff\xfe\0\xd8", NotText::NotUtf16),
            (b"\xff\xfe\0\0a\0\0\0", NotText::Binary),
        ] {
            assert_eq!(TextFile::from_bytes(bytes.to_vec()), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn old_encodings_are_guessed_and_kept() {
        for (text, label) in [
            ("Größe ändern\nfür alle Größen\n", "windows-1252"),
            ("// 合計を計算する\nint total = 0; // 円\n", "shift_jis"),
            ("// 合計を計算する\nint total = 0; // 円\n", "euc-jp"),
            ("// 计算所有商品的总价\nint total = 0;\n", "gbk"),
            ("// 모든 상품의 합계를 계산한다\nint total = 0;\n", "euc-kr"),
            ("// вычислить общую сумму\nint total = 0;\n", "koi8-r"),
            ("// вычислить общую сумму\nint total = 0;\n", "windows-1251"),
        ] {
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let bytes = encoding.encode(text).0;
            let file = TextFile::guess(&bytes).unwrap();
            assert_eq!(file.text, text, "{label}");
            let edited = text.replace("total", "sum") + &text[..text.find('\n').unwrap()];
            let after = file.with_text(edited.clone()).unwrap().to_bytes();
            assert_eq!(after, *encoding.encode(&edited).0, "{label}");
            let refused = file.with_text(format!("{text}“")).unwrap_err();
            assert_eq!(refused.character, '“', "{label}");
        }
        for bytes in [
            "Größe und Länge: \u{fc}"
                .as_bytes()
                .iter()
                .chain(b"\xe4")
                .copied()
                .collect::<Vec<u8>>(),
            b"\x81\x00".to_vec(),
        ] {
            let guessed = TextFile::guess(&bytes);
            assert!(guessed.is_none_or(|file| file.to_bytes() == bytes), "{bytes:?}");
        }
        assert_eq!(
            TextFile::guess(b"Gr\xc3\xb6\xc3\x9fe \xe4"),
            None,
            "UTF-8 with a wrong byte"
        );
    }

    #[test]
    fn non_text_is_recognized_as_editors_display_it() {
        for (bytes, displayed, known) in [
            (b"a\0b\r\n".as_slice(), "a\0b\n", true),
            (b"a\0b\n", "a\0b\ntyped", false),
            (b"T\xf6ne\n", "T\u{fffd}ne\n", true),
            (b"T\xf6ne\n", "T\u{f6}ne\n", true),
            (b"T\xf6ne\n", "Tone\n", false),
            (b"\0\xe2\x82\n", "\0\u{fffd}\n", true),
            (b"\0\xe2\x82\n", "\0\u{fffd}\u{fffd}\n", true),
            (b"\0\xe2\x82\n", "\0\n", false),
            (b"\xef\xbb\xbfa\0", "a\0", true),
        ] {
            assert_eq!(
                is_displayed_as(bytes, displayed),
                known,
                "{bytes:?} as {displayed:?}"
            );
        }
    }

    #[test]
    fn line_ends_follow_the_majority() {
        assert_eq!(with_line_ends_of("a\nb\r\nc", "x\r\n"), "a\r\nb\r\nc");
        assert_eq!(with_line_ends_of("a\nb", "x\r\ny\nz\n"), "a\nb");
        assert_eq!(with_line_ends_of("a\nb", ""), "a\nb");
    }

    proptest! {
        #[test]
        fn decoding_and_encoding_returns_the_same_bytes(
            mark in prop::sample::select(vec![b"".as_slice(), b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
            rest in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            let bytes = [mark, &rest].concat();
            if let Some(guessed) = TextFile::guess(&bytes) {
                prop_assert_eq!(guessed.to_bytes(), bytes.as_slice());
            }
            if let Ok(file) = TextFile::from_bytes(bytes.clone()) {
                prop_assert_eq!(file.to_bytes(), bytes);
            }
        }

        #[test]
        fn text_survives_every_encoding(text in "[^\0\u{feff}]{0,20}") {
            for encoding in [Encoding::Utf8, Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be] {
                let file = TextFile { text: text.clone(), encoding };
                prop_assert_eq!(TextFile::from_bytes(file.to_bytes()).unwrap(), file);
            }
        }
    }
}
