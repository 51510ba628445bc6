//! Positions of the Language Server Protocol: conversion between line and character and byte offset, and content
//! changes applied to a text (R-WIRE-7).
//!
//! Pure; the encoding is negotiated elsewhere. Lines end with `\n`, `\r\n`, or `\r`. As the protocol demands, positions
//! beyond a line's or the text's end are clamped to it.

/// The unit of a position's `character`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PositionEncoding {
    Utf8,
    /// UTF-16 code units: the protocol's default.
    #[default]
    Utf16,
}

/// A place between two characters; both numbers count from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: u32,
    /// The place in the line, in units of the negotiated encoding.
    pub character: u32,
}

/// The text from `start` up to `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    pub start: Position,
    /// The end, exclusive.
    pub end: Position,
}

/// One change of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// The replaced range; `None` replaces the whole text.
    pub range: Option<Range>,
    /// The new text.
    pub text: String,
}

/// Returns the byte offset of a position: clamped, and never inside a character or a `\r\n`.
pub fn offset_of(text: &str, position: Position, encoding: PositionEncoding) -> usize {
    PositionCursor::default().seek(text, position, encoding)
}

/// A place in a text from which positions are found. Changes are mostly close to each other, so each is found from the
/// last one: a line may have many megabytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PositionCursor {
    line: u32,
    line_start: usize,
    character: usize,
    /// In bytes, and never inside a character or a `\r\n`.
    offset: usize,
}

impl PositionCursor {
    /// Applies changes in order. Each one's range refers to the text after the changes before it.
    ///
    /// The text must be the one that the last call has left.
    pub fn apply_changes(
        &mut self,
        text: &mut String,
        changes: &[DocumentChange],
        encoding: PositionEncoding,
    ) {
        for change in changes {
            match change.range {
                None => {
                    text.clear();
                    text.push_str(&change.text);
                    *self = Self::default();
                }
                Some(range) => self.replace_range(text, range, &change.text, encoding),
            }
        }
    }

    fn replace_range(&mut self, text: &mut String, range: Range, new: &str, encoding: PositionEncoding) {
        let a = self.seek(text, range.start, encoding);
        let mut end = *self;
        let b = end.seek(text, range.end, encoding);
        // A careless client may send a range whose start lies after its end.
        if b < a {
            *self = end;
        }
        text.replace_range(a.min(b)..a.max(b), new);
        // The change may have completed a line end around the cursor. Otherwise, nothing before the cursor has changed.
        if text[..self.offset].ends_with('\r') && text[self.offset..].starts_with('\n') {
            *self = Self::default();
        }
    }

    /// Moves to a position, or to the nearest place before it that exists. Returns the byte offset.
    fn seek(&mut self, text: &str, position: Position, encoding: PositionEncoding) -> usize {
        if position.line < self.line {
            *self = Self::default();
        }
        while self.line < position.line {
            let Some(next) = next_line(text, self.offset) else {
                return text.len();
            };
            *self = Self {
                line: self.line + 1,
                line_start: next,
                character: 0,
                offset: next,
            };
        }
        let wanted = position.character as usize;
        if wanted < self.character / 2 {
            (self.character, self.offset) = (0, self.line_start);
        }
        match encoding {
            PositionEncoding::Utf8 => {
                let target = text.floor_char_boundary(self.line_start + wanted);
                self.offset = match text.get(self.offset..target) {
                    Some(between) => self.offset + line_length(between),
                    None => target,
                };
                self.character = self.offset - self.line_start;
            }
            PositionEncoding::Utf16 => self.seek_utf16(text, wanted),
        }
        self.offset
    }

    /// Moves within the line.
    fn seek_utf16(&mut self, text: &str, wanted: usize) {
        let back = text[self.line_start..self.offset].chars().rev();
        for ch in back {
            if self.character <= wanted {
                break;
            }
            self.character -= ch.len_utf16();
            self.offset -= ch.len_utf8();
        }
        for ch in text[self.offset..].chars() {
            if matches!(ch, '\n' | '\r') || self.character + ch.len_utf16() > wanted {
                break;
            }
            self.character += ch.len_utf16();
            self.offset += ch.len_utf8();
        }
    }
}

/// Returns the position of a byte offset, clamped to the text and to the start of a character.
pub fn position_of(text: &str, offset: usize, encoding: PositionEncoding) -> Position {
    let offset = text.floor_char_boundary(offset);
    let mut line = 0;
    let mut start = 0;
    while let Some(next) = next_line(text, start).filter(|next| *next <= offset) {
        line += 1;
        start = next;
    }
    // An offset between the two bytes of a `\r\n` belongs to the end of its line.
    let before = text[start..offset].trim_end_matches('\r');
    let character = match encoding {
        PositionEncoding::Utf8 => before.len(),
        PositionEncoding::Utf16 => before.encode_utf16().count(),
    };
    Position {
        line,
        character: u32::try_from(character).unwrap_or(u32::MAX),
    }
}

/// Applies changes in order. Each one's range refers to the text after the changes before it.
pub fn apply_changes(text: &mut String, changes: &[DocumentChange], encoding: PositionEncoding) {
    PositionCursor::default().apply_changes(text, changes, encoding);
}

/// Returns the length of the text up to its first line end.
fn line_length(text: &str) -> usize {
    memchr::memchr2(b'\n', b'\r', text.as_bytes()).unwrap_or(text.len())
}

/// Returns where the line after the one at `start` begins.
fn next_line(text: &str, start: usize) -> Option<usize> {
    let bytes = &text.as_bytes()[start..];
    let end = memchr::memchr2(b'\n', b'\r', bytes)?;
    let both = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
    Some(start + end + if both { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PositionEncoding::{Utf8, Utf16};
    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn offsets_are_clamped_to_lines_and_characters() {
        // Bytes: a0 ü1-2 😀3-6 \r7 \n8 b9 \r10 c11 \n12
        let text = "aü😀\r\nb\rc\n";
        for (position, utf8, utf16) in [
            (at(0, 0), 0, 0),
            (at(0, 1), 1, 1),
            (at(0, 2), 1, 3),
            (at(0, 3), 3, 3),
            (at(0, 4), 3, 7),
            (at(0, 99), 7, 7),
            (at(1, 1), 10, 10),
            (at(2, 0), 11, 11),
            (at(3, 0), 13, 13),
            (at(3, 5), 13, 13),
            (at(9, 0), 13, 13),
        ] {
            assert_eq!(offset_of(text, position, Utf8), utf8, "{position:?} as UTF-8");
            assert_eq!(offset_of(text, position, Utf16), utf16, "{position:?} as UTF-16");
        }
        assert_eq!(offset_of("", at(0, 5), Utf16), 0);
    }

    #[test]
    fn changes_apply_in_order() {
        let mut text = String::from("one\ntwo\n");
        let range = |a, b| Some(Range { start: a, end: b });
        let change = |range, text: &str| DocumentChange {
            range,
            text: text.to_owned(),
        };
        apply_changes(
            &mut text,
            &[
                change(range(at(0, 0), at(0, 3)), "1\n1"),
                change(range(at(2, 0), at(2, 3)), "2"),
                change(range(at(9, 9), at(9, 9)), "end"),
                // Start after end, as a careless client may send it.
                change(range(at(0, 1), at(0, 0)), "x"),
            ],
            Utf16,
        );
        assert_eq!(text, "x\n1\n2\nend");
        apply_changes(&mut text, &[change(None, "whole")], Utf16);
        assert_eq!(text, "whole");
    }

    #[test]
    fn positions_are_found_from_the_last_one() {
        // What precedes the cursor is not what it says: whoever reads it counts other lines or characters.
        let text = format!("{}{}", "\n".repeat(1_000), "a".repeat(1_000));
        for encoding in [Utf8, Utf16] {
            let mut cursor = PositionCursor {
                character: 1_000,
                offset: 1_000,
                ..PositionCursor::default()
            };
            for wanted in [1_500, 1_100, 1_900, 1_001] {
                assert_eq!(cursor.seek(&text, at(0, wanted), encoding), wanted as usize);
            }
        }
    }

    #[test]
    fn change_that_completes_a_line_end_moves_later_lines() {
        for encoding in [Utf8, Utf16] {
            let mut text = "a\rb\nc".to_owned();
            let insert = |place, text: &str| DocumentChange {
                range: Some(Range {
                    start: place,
                    end: place,
                }),
                text: text.to_owned(),
            };
            // The first one turns `\r` into `\r\n`, so that `b` stays in line 1.
            let changes = [
                insert(at(1, 0), "\n"),
                insert(at(1, 1), "x"),
                insert(at(2, 0), "y"),
            ];
            apply_changes(&mut text, &changes, encoding);
            assert_eq!(text, "a\r\nbx\nyc");
        }
    }

    #[test]
    fn an_offset_inside_a_crlf_is_at_the_end_of_its_line() {
        assert_eq!(position_of("a\r\nb", 2, Utf8), at(0, 1));
    }

    proptest! {
        #[test]
        fn positions_round_trip_except_inside_a_crlf(text in "([a-zü😀]|\r\n|\n|\r){0,20}", pick in any::<prop::sample::Index>()) {
            let offset = text.floor_char_boundary(pick.index(text.len() + 1));
            for encoding in [Utf8, Utf16] {
                let position = position_of(&text, offset, encoding);
                let back = offset_of(&text, position, encoding);
                let inside_crlf = offset > 0 && text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                prop_assert_eq!(back, if inside_crlf { offset - 1 } else { offset });
            }
        }

        #[test]
        fn edits_by_range_lead_to_the_same_text_as_edits_by_offset(
            text in "([a-zü漢😀]|\r\n|\n|\r){0,30}",
            edits in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>(), "([aü😀]|\r\n|\n){0,4}"),
                1..8,
            ),
        ) {
            for encoding in [Utf8, Utf16] {
                let mut by_offset = text.clone();
                let mut changes = Vec::new();
                for (a, b, new) in &edits {
                    // A position never points between the two bytes of a line end.
                    let snap = |pick: &prop::sample::Index| {
                        let at = by_offset.floor_char_boundary(pick.index(by_offset.len() + 1));
                        let inside = by_offset[..at].ends_with('\r') && by_offset[at..].starts_with('\n');
                        if inside { at - 1 } else { at }
                    };
                    let (from, to) = (snap(a).min(snap(b)), snap(a).max(snap(b)));
                    let range = Range {
                        start: position_of(&by_offset, from, encoding),
                        end: position_of(&by_offset, to, encoding),
                    };
                    changes.push(DocumentChange { range: Some(range), text: new.clone() });
                    by_offset.replace_range(from..to, new);
                }
                let mut by_range = text.clone();
                apply_changes(&mut by_range, &changes, encoding);
                prop_assert_eq!(by_range, by_offset);
            }
        }

        #[test]
        fn any_change_inserts_its_text_and_leaves_valid_text(
            text in "([aü😀]|\r\n|\n){0,10}",
            numbers in prop::array::uniform4(0u32..12),
        ) {
            let [a, b, c, d] = numbers;
            let range = Range { start: at(a, b), end: at(c, d) };
            for encoding in [Utf8, Utf16] {
                let mut changed = text.clone();
                let change = DocumentChange { range: Some(range), text: "·".to_owned() };
                apply_changes(&mut changed, &[change], encoding);
                prop_assert!(changed.contains('·') && changed.len() <= text.len() + 2);
            }
        }
    }
}
