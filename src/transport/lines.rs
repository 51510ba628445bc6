//! Newline-delimited JSON: turns any bytes into lines or reported errors (R-ACP).
//!
//! [`LineDecoder`] is pure: its items depend on the bytes alone. It keeps at most one line within its limit; a longer
//! one is dropped as it arrives. Knows no JSON; [`super::message`] reads the lines.

use bytes::{Buf, BytesMut};

use super::frame::{BadFrame, FrameItem};

/// Bytes that one read takes at most.
const READ: usize = 64 << 10;

/// Line length in bytes above which the buffer is released after the line.
const KEEP_BUFFER: usize = 256 << 10;

/// How messages are separated on a byte stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// LSP's base protocol: a header with the length.
    #[default]
    Header,
    /// One message a line.
    Lines,
}

/// Decodes lines from pushed bytes.
#[derive(Debug)]
pub struct LineDecoder {
    /// Longest line that is kept, in bytes.
    limit: u64,
    buffer: BytesMut,
    /// Bytes of the buffer known to contain no line feed.
    scanned: usize,
    /// The current line is too long: it is reported and its rest is dropped.
    skips: bool,
}

impl LineDecoder {
    /// Creates a decoder that keeps lines of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            buffer: BytesMut::new(),
            scanned: 0,
            skips: false,
        }
    }

    /// Returns the buffer for the next read. Its capacity grows with arrived bytes.
    pub fn reserve_read_buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ / 4);
        &mut self.buffer
    }

    /// Returns the next item if its bytes have arrived. Blank lines are skipped.
    pub fn pop(&mut self) -> Option<FrameItem> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            let length = self.scanned + found.unwrap_or(self.buffer.len() - self.scanned);
            if self.skips {
                self.buffer.advance(length + usize::from(found.is_some()));
                self.scanned = 0;
                found?;
                self.skips = false;
                continue;
            }
            if length as u64 > self.limit {
                self.skips = true;
                self.scanned = length;
                return Some(FrameItem::Bad(BadFrame::LongLine { limit: self.limit }));
            }
            if found.is_none() {
                self.scanned = length;
                return None;
            }
            let mut line = self.buffer.split_to(length + 1);
            self.scanned = 0;
            // A copy of the rest releases the large buffer.
            if length > KEEP_BUFFER {
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            line.truncate(line.trim_ascii_end().len());
            if !line.trim_ascii().is_empty() {
                return Some(FrameItem::Frame(line.freeze()));
            }
        }
    }

    /// Whether the stream can end here without loss.
    pub fn is_at_boundary(&self) -> bool {
        self.buffer.is_empty() && !self.skips
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(limit: u64, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = LineDecoder::new(limit);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.reserve_read_buffer().extend_from_slice(chunk);
            while let Some(item) = decoder.pop() {
                items.push(match item {
                    FrameItem::Frame(line) => String::from_utf8_lossy(&line).into_owned(),
                    FrameItem::Bad(bad) => format!("bad: {bad}"),
                });
            }
        }
        items
    }

    #[test]
    fn lines_are_found_and_long_ones_are_dropped() {
        let input = b"{\"a\":1}\r\n\n  \n0123456789abcdef\n{}\nrest";
        let found = decode(10, [&input[..]]);
        assert_eq!(
            found,
            ["{\"a\":1}", "bad: line exceeds the limit of 10 bytes", "{}"]
        );
    }

    #[test]
    fn a_long_line_is_not_held() {
        let mut decoder = LineDecoder::new(100);
        for _ in 0..1_000 {
            decoder.reserve_read_buffer().extend_from_slice(&[b'x'; 1_000]);
            while decoder.pop().is_some() {}
        }
        assert!(decoder.buffer.capacity() < 1 << 20);
        assert!(!decoder.is_at_boundary());
    }

    proptest! {
        #[test]
        fn items_do_not_depend_on_reads(input in "[a\n\r ]{0,60}", cut in 1_usize..7) {
            let whole = decode(8, [input.as_bytes()]);
            prop_assert_eq!(decode(8, input.as_bytes().chunks(cut)), whole);
        }
    }
}
