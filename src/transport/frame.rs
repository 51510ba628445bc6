//! Base protocol frames: turns any bytes into bodies or reported errors (R-WIRE-4).
//!
//! [`FrameDecoder`] is pure: its items depend on the bytes alone, never on how reads cut them. It keeps at most a
//! header and the part of an accepted frame that has arrived. Knows no JSON; [`super::message`] reads the bodies.

use bytes::{Buf, Bytes, BytesMut};

const NAME: &[u8] = b"content-length";

/// Body length in bytes above which the buffer is released after the frame.
const KEEP_BUFFER: usize = 256 << 10;

/// Bytes that one read takes at most.
const READ: usize = 64 << 10;

/// Limits of the decoder, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// Longest header block, with its blank line; 4 KiB by default.
    pub header: usize,
    /// Longest body that is kept; 32 MiB by default.
    pub frame: u64,
    /// Longest body that is skipped; 256 MiB by default. A larger length is a malformed header.
    pub skip: u64,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            header: 4 << 10,
            frame: 32 << 20,
            skip: 256 << 20,
        }
    }
}

/// An item that the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameItem {
    Frame(Bytes),
    /// Bytes to report as an error. The decoder continues by itself.
    Bad(BadFrame),
}

/// The reason why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// There is no usable header. Bytes up to the next `Content-Length:` are dropped.
    #[error("malformed header: {0}")]
    Header(&'static str),
    /// The body exceeds [`FrameLimits::frame`] and is skipped.
    #[error("message of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Length that the header claims.
        bytes: u64,
        limit: u64,
    },
    /// A line exceeds the limit; it is dropped up to its end ([`super::lines`]).
    #[error("line exceeds the limit of {limit} bytes")]
    LongLine { limit: u64 },
}

#[derive(Debug)]
enum FrameState {
    /// At the start of a header line.
    Header(HeaderBlock),
    /// Number of body bytes to keep.
    Body(usize),
    /// Number of body bytes to drop.
    Skip(u64),
    /// In garbage that is already reported: searching for `Content-Length:`.
    Hunt,
}

/// What is known about the header block so far.
#[derive(Clone, Copy, Debug, Default)]
struct HeaderBlock {
    used: usize,
    lines: usize,
    blank_before: bool,
    length: Option<u64>,
    /// The block is bad, but its end and its body can be found.
    reject: Option<&'static str>,
}

enum FrameStep {
    Yield(FrameItem),
    Continue,
    NeedMore,
}

/// A parsed header line.
enum HeaderLine {
    Length(u64),
    BadLength(&'static str),
    BadCharset,
    Other,
    /// `glued`: the line contains a `Content-Length:` after its start.
    Garbage {
        glued: bool,
    },
}

/// Decodes frames from pushed bytes.
#[derive(Debug)]
pub struct FrameDecoder {
    limits: FrameLimits,
    buffer: BytesMut,
    /// Bytes of the buffer known to contain no line feed.
    scanned: usize,
    state: FrameState,
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            scanned: 0,
            state: FrameState::Header(HeaderBlock::default()),
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the buffer for the next read. Its capacity grows with arrived bytes, never with what a header claims.
    pub fn reserve_read_buffer(&mut self) -> &mut BytesMut {
        let want = match self.state {
            FrameState::Body(length) => (length - self.buffer.len()).clamp(READ / 16, READ),
            FrameState::Skip(_) => READ,
            FrameState::Header(_) | FrameState::Hunt => READ / 4,
        };
        self.buffer.reserve(want);
        &mut self.buffer
    }

    /// Returns the next item if its bytes have arrived.
    pub fn pop(&mut self) -> Option<FrameItem> {
        loop {
            let step = match self.state {
                FrameState::Header(block) => self.header_line(block),
                FrameState::Body(length) => self.read_body(length),
                FrameState::Skip(remaining) => self.skip_body(remaining),
                FrameState::Hunt => self.find_next_header(),
            };
            match step {
                FrameStep::Yield(item) => return Some(item),
                FrameStep::Continue => {}
                FrameStep::NeedMore => return None,
            }
        }
    }

    /// Whether the stream can end here without loss.
    pub fn is_at_boundary(&self) -> bool {
        self.buffer.is_empty() && matches!(self.state, FrameState::Header(HeaderBlock { used: 0, .. }))
    }

    fn header_line(&mut self, mut block: HeaderBlock) -> FrameStep {
        // The limit counts bytes of the block, not those that happen to have arrived: items must not depend on reads.
        let available = self.limits.header.saturating_sub(block.used);
        let window = &self.buffer[..self.buffer.len().min(available)];
        let Some(end) = memchr::memchr(b'\n', &window[self.scanned.min(window.len())..]) else {
            self.scanned = window.len();
            if window.len() < available {
                return FrameStep::NeedMore;
            }
            // Within a block the limit may cut the name `Content-Length`: the hunt finds it, however it arrives.
            let reason = "no end of header within 4 KiB";
            return if block.used == 0 {
                self.reject_header_line(reason)
            } else {
                self.report_bad_header(reason)
            };
        };
        let end = self.scanned + end;
        let line = &self.buffer[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.end_of_block(block, end + 1);
        }
        match parse_header_line(line) {
            HeaderLine::Length(length) if length > self.limits.skip => {
                return self.reject_header_line("Content-Length exceeds 256 MiB");
            }
            HeaderLine::Length(length) => {
                if block.length.is_some_and(|earlier| earlier != length) {
                    // The later line is more likely to start a real frame.
                    self.restart_header(HeaderBlock {
                        length: Some(length),
                        ..HeaderBlock::default()
                    });
                    self.consume_line(end + 1);
                    return FrameStep::Yield(FrameItem::Bad(BadFrame::Header(
                        "two Content-Length lines differ",
                    )));
                }
                block.length = Some(length);
            }
            HeaderLine::BadLength(reason) => return self.reject_header_line(reason),
            HeaderLine::BadCharset => block.reject = Some("Content-Type names a charset other than utf-8"),
            HeaderLine::Other => {}
            HeaderLine::Garbage { glued: false } if block.length.is_some() => {
                block.reject = Some("a line is not a header");
            }
            HeaderLine::Garbage { .. } => return self.reject_header_line("a line is not a header"),
        }
        self.state = FrameState::Header(block);
        self.consume_line(end + 1);
        FrameStep::Continue
    }

    /// Removes one line of the block.
    fn consume_line(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
        self.scanned = 0;
        if let FrameState::Header(block) = &mut self.state {
            block.used += bytes;
            block.lines += 1;
        }
    }

    fn end_of_block(&mut self, block: HeaderBlock, bytes: usize) -> FrameStep {
        self.buffer.advance(bytes);
        self.scanned = 0;
        if block.lines == 0 && !block.blank_before {
            // Some clients end a body with a line feed, so one blank line in front is harmless.
            self.state = FrameState::Header(HeaderBlock {
                used: bytes,
                blank_before: true,
                ..block
            });
            return FrameStep::Continue;
        }
        let Some(length) = block.length else {
            return self.report_bad_header(block.reject.unwrap_or("no Content-Length"));
        };
        if let Some(reason) = block.reject {
            self.state = FrameState::Skip(length);
            return FrameStep::Yield(FrameItem::Bad(BadFrame::Header(reason)));
        }
        match usize::try_from(length) {
            Ok(body_length) if length <= self.limits.frame => {
                self.state = FrameState::Body(body_length);
                FrameStep::Continue
            }
            _ => {
                self.state = FrameState::Skip(length);
                FrameStep::Yield(FrameItem::Bad(BadFrame::TooLarge {
                    bytes: length,
                    limit: self.limits.frame,
                }))
            }
        }
    }

    fn read_body(&mut self, length: usize) -> FrameStep {
        if self.buffer.len() < length {
            return FrameStep::NeedMore;
        }
        let body = self.buffer.split_to(length).freeze();
        // A copy of the rest releases the large buffer.
        if length > KEEP_BUFFER {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        self.restart_header(HeaderBlock::default());
        FrameStep::Yield(FrameItem::Frame(body))
    }

    fn skip_body(&mut self, remaining: u64) -> FrameStep {
        let here = usize::try_from(remaining)
            .map_or(self.buffer.len(), |remaining| remaining.min(self.buffer.len()));
        self.buffer.advance(here);
        let remaining = remaining - here as u64;
        if remaining > 0 {
            self.state = FrameState::Skip(remaining);
            return FrameStep::NeedMore;
        }
        self.restart_header(HeaderBlock::default());
        FrameStep::Continue
    }

    fn find_next_header(&mut self) -> FrameStep {
        match find_name(&self.buffer) {
            Some(at) => {
                self.buffer.advance(at);
                self.restart_header(HeaderBlock::default());
                FrameStep::Continue
            }
            None => {
                // The end of the buffer may cut the name, so keep enough bytes for it.
                let keep = self.buffer.len().min(NAME.len());
                self.buffer.advance(self.buffer.len() - keep);
                FrameStep::NeedMore
            }
        }
    }

    /// Refuses the current header line. The hunt searches the rest of it for a real one.
    fn reject_header_line(&mut self, reason: &'static str) -> FrameStep {
        // Skips the name of the bad line itself, so that the hunt makes progress.
        if starts_with_name(&self.buffer) {
            self.buffer.advance(NAME.len() + 1);
        }
        self.report_bad_header(reason)
    }

    /// Reports a bad header and searches for the next one from here.
    fn report_bad_header(&mut self, reason: &'static str) -> FrameStep {
        self.scanned = 0;
        self.state = FrameState::Hunt;
        FrameStep::Yield(FrameItem::Bad(BadFrame::Header(reason)))
    }

    fn restart_header(&mut self, block: HeaderBlock) {
        self.scanned = 0;
        self.state = FrameState::Header(block);
    }
}

fn parse_header_line(line: &[u8]) -> HeaderLine {
    let garbage = || HeaderLine::Garbage {
        glued: find_name(line).is_some_and(|at| at > 0),
    };
    let Some(colon) = memchr::memchr(b':', line) else {
        return garbage();
    };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return garbage();
    }
    if name.eq_ignore_ascii_case(NAME) {
        return parse_content_length(value);
    }
    let glued = name
        .len()
        .checked_sub(NAME.len())
        .is_some_and(|at| name[at..].eq_ignore_ascii_case(NAME));
    if glued {
        return HeaderLine::Garbage { glued };
    }
    if name.eq_ignore_ascii_case(b"content-type") && !is_utf8_charset(value) {
        return HeaderLine::BadCharset;
    }
    HeaderLine::Other
}

fn parse_content_length(value: &[u8]) -> HeaderLine {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return HeaderLine::BadLength("Content-Length is not a number");
    }
    let number = value.iter().try_fold(0_u64, |sum, digit| {
        sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    // A number that overflows is above every limit.
    HeaderLine::Length(number.unwrap_or(u64::MAX))
}

fn is_utf8_charset(content_type: &[u8]) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let Some(at) = memchr::memmem::find(&lower, b"charset=") else {
        return true;
    };
    let charset = lower[at + b"charset=".len()..]
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    matches!(charset, b"utf-8" | b"utf8" | b"\"utf-8\"" | b"\"utf8\"")
}

/// The characters of a header name (RFC 9110).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn starts_with_name(bytes: &[u8]) -> bool {
    bytes.len() > NAME.len() && bytes[NAME.len()] == b':' && bytes[..NAME.len()].eq_ignore_ascii_case(NAME)
}

/// Returns where `Content-Length:` starts.
fn find_name(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b':', bytes)
        .filter_map(|colon| colon.checked_sub(NAME.len()))
        .find(|at| starts_with_name(&bytes[*at..]))
}

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transport::reader::FrameReader;

    const SMALL: FrameLimits = FrameLimits {
        header: 128,
        frame: 64,
        skip: 1_000,
    };

    fn decode<'a>(limits: FrameLimits, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<FrameItem> {
        let mut decoder = FrameDecoder::new(limits);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            items.extend(std::iter::from_fn(|| decoder.pop()));
        }
        items
    }

    /// Abbreviates items: `F…` is a frame with its body, `H` a bad header, `L` a body that is too large.
    fn sketch(items: &[FrameItem]) -> Vec<String> {
        items
            .iter()
            .map(|item| match item {
                FrameItem::Frame(body) => format!("F{}", String::from_utf8_lossy(body)),
                FrameItem::Bad(BadFrame::Header(_)) => "H".to_owned(),
                FrameItem::Bad(BadFrame::TooLarge { .. } | BadFrame::LongLine { .. }) => "L".to_owned(),
            })
            .collect()
    }

    fn cases() -> Vec<(Vec<u8>, Vec<&'static str>)> {
        let big = "b".repeat(100);
        let long_line = "g".repeat(300);
        let text = |text: &str| text.as_bytes().to_vec();
        vec![
            (text("Content-Length: 2\r\n\r\nhi"), vec!["Fhi"]),
            (text("content-LENGTH:2\r\n\r\nhi"), vec!["Fhi"]),
            (text("Content-Length: 2\n\nhi"), vec!["Fhi"]),
            (
                text("Content-Length: 2\r\n\nhiContent-Length: 2\n\r\nho"),
                vec!["Fhi", "Fho"],
            ),
            (text("Content-Length:\t 2 \r\n\r\nhi"), vec!["Fhi"]),
            (
                text("Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["F", "Fhi"],
            ),
            (text("Content-Length: 0002\r\n\r\nhi"), vec!["Fhi"]),
            // Other headers.
            (
                text(
                    "X-Other: 1\r\nContent-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\nhi",
                ),
                vec!["Fhi"],
            ),
            (
                text("Content-Type: a/b; charset=UTF-8\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["Fhi"],
            ),
            (
                text("Content-Type: a/b;charset=\"utf8\";x=y\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["Fhi"],
            ),
            (
                text("Content-Type: a/b\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["Fhi"],
            ),
            (
                text(
                    "Content-Type: a/b; charset=latin1\r\nContent-Length: 2\r\n\r\nhiContent-Length: 2\r\n\r\nho",
                ),
                vec!["H", "Fho"],
            ),
            (
                text(
                    "Content-Length: 2\r\nContent-Type: a/b; charset=utf-16\r\n\r\nhiContent-Length: 2\r\n\r\nho",
                ),
                vec!["H", "Fho"],
            ),
            // Blank lines in front.
            (
                text("\r\nContent-Length: 2\r\n\r\nhi\nContent-Length: 2\r\n\r\nho"),
                vec!["Fhi", "Fho"],
            ),
            (text("\r\n\r\nContent-Length: 2\r\n\r\nhi"), vec!["H", "Fhi"]),
            (text("\n\n\n\n\nContent-Length: 2\r\n\r\nhi"), vec!["H", "Fhi"]),
            // No usable length.
            (
                text("X: y\r\n\r\n{}Content-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length: x\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length: -1\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length: +2\r\n\r\nhiContent-Length: 2\r\n\r\nho"),
                vec!["H", "Fho"],
            ),
            (
                text("Content-Length: 2.0\r\n\r\nhiContent-Length: 2\r\n\r\nho"),
                vec!["H", "Fho"],
            ),
            (
                text("Content-Length: 0x2\r\n\r\nhiContent-Length: 2\r\n\r\nho"),
                vec!["H", "Fho"],
            ),
            (
                text("Content-Length:\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length : 2\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length: 2Content-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            // Each bad header is reported.
            (
                text("Content-Length: x\r\n\r\nContent-Length: y\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "H", "Fhi"],
            ),
            // Garbage: reported once, then skipped.
            (
                text("hello\nworld\n\n\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text("{\"jsonrpc\":\"2.0\"}\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (text("\"}}Content-Length: 2\r\n\r\nhi"), vec!["H", "Fhi"]),
            (text("xxContent-Length: 2\r\n\r\nhi"), vec!["H", "Fhi"]),
            (
                text("GET / HTTP/1.1\r\nHost: x\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                b"\xff\xfe\0\0\r\n\r\nContent-Length: 2\r\n\r\nhi".to_vec(),
                vec!["H", "Fhi"],
            ),
            (
                b"\xef\xbb\xbfContent-Length: 2\r\n\r\nhi".to_vec(),
                vec!["H", "Fhi"],
            ),
            // A body shorter or longer than its header claims.
            (
                text("Content-Length: 2\r\n\r\nhixContent-Length: 2\r\n\r\nho"),
                vec!["Fhi", "H", "Fho"],
            ),
            (
                text("Content-Length: 4\r\n\r\nhiContent-Length: 2\r\n\r\nhoContent-Length: 2\r\n\r\nha"),
                vec!["FhiCo", "H", "Fha"],
            ),
            // A bad line after the length: the body can be skipped.
            (
                text("Content-Length: 2\r\nrubbish\r\n\r\nhiContent-Length: 2\r\n\r\nho"),
                vec!["H", "Fho"],
            ),
            (
                text("Content-Length: 9\r\nxxContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            // Twice.
            (
                text("Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["Fhi"],
            ),
            (
                text("Content-Length: 9\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            // Sizes.
            (
                text(&format!(
                    "Content-Length: 100\r\n\r\n{big}Content-Length: 2\r\n\r\nhi"
                )),
                vec!["L", "Fhi"],
            ),
            (
                text(&format!(
                    "Content-Length: 1001\r\n\r\n{big}Content-Length: 2\r\n\r\nhi"
                )),
                vec!["H", "Fhi"],
            ),
            (
                text("Content-Length: 99999999999999999999999\r\n\r\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "Fhi"],
            ),
            (
                text(&format!("{long_line}\r\n\r\nContent-Length: 2\r\n\r\nhi")),
                vec!["H", "Fhi"],
            ),
            (
                text(&format!("{long_line}Content-Length: 2\r\n\r\nhi")),
                vec!["H", "Fhi"],
            ),
            (
                text(&format!("X: {long_line}\r\nContent-Length: 2\r\n\r\nhi")),
                vec!["H", "Fhi"],
            ),
            (
                text(&format!(
                    "Content-Length: 2\r\nX: {long_line}\r\n\r\nhiContent-Length: 2\r\n\r\nho"
                )),
                vec!["H", "Fho"],
            ),
            (
                text(&format!(
                    "Content-Length:{}2\r\n\r\nhiContent-Length: 2\r\n\r\nho",
                    " ".repeat(300)
                )),
                vec!["H", "Fho"],
            ),
            // The limit cuts the name.
            (
                text(&format!("X: {}\r\nContent-Length: 2\r\n\r\nhi", "x".repeat(115))),
                vec!["H", "Fhi"],
            ),
            // A CR alone does not end a line.
            (
                text(&format!(
                    "Content-Length: 2\r\r{}Content-Length: 2\r\n\r\nhi",
                    "\r".repeat(200)
                )),
                vec!["H", "Fhi"],
            ),
            // The name occurs within garbage, before the real header.
            (
                text("x\nsays Content-Length: nonsense\nContent-Length: 2\r\n\r\nhi"),
                vec!["H", "H", "Fhi"],
            ),
            (text("x\nContent-Lengt"), vec!["H"]),
            (text("Content-Length: 5\r\n\r\nhi"), vec![]),
        ]
    }

    #[test]
    fn every_case_decodes_the_same_cut_at_every_position() {
        for (bytes, expected) in cases() {
            let items = decode(SMALL, [&bytes[..]]);
            assert_eq!(sketch(&items), expected, "{}", String::from_utf8_lossy(&bytes));
            for cut in 0..=bytes.len() {
                let (a, b) = bytes.split_at(cut);
                assert_eq!(
                    decode(SMALL, [a, b]),
                    items,
                    "cut at {cut}: {}",
                    String::from_utf8_lossy(&bytes)
                );
            }
            assert_eq!(decode(SMALL, bytes.chunks(1)), items, "byte by byte");
            assert_eq!(decode(SMALL, bytes.chunks(7)), items, "by sevens");
        }
    }

    #[test]
    fn header_limit_is_exact() {
        let limits = FrameLimits { header: 23, ..SMALL };
        assert_eq!(
            sketch(&decode(limits, [&b"Content-Length: 002\r\n\r\nhi"[..]])),
            ["Fhi"]
        );
        assert_eq!(
            sketch(&decode(limits, [&b"Content-Length: 0002\r\n\r\nhi"[..]])),
            ["H"]
        );
    }

    #[test]
    fn default_limits_apply() {
        let frame = |claim: u64, body: usize| {
            let mut bytes = format!("Content-Length: {claim}\r\n\r\n").into_bytes();
            bytes.resize(bytes.len() + body, b'x');
            bytes.extend_from_slice(b"Content-Length: 2\r\n\r\nhi");
            sketch(&decode(FrameLimits::default(), bytes.chunks(1 << 16)))
        };
        let oversized = (32 << 20) + 1;
        assert_eq!(frame(oversized as u64, oversized), ["L", "Fhi"]);
        assert_eq!(frame((256 << 20) + 1, 1_000), ["H", "Fhi"]);
        assert_eq!(frame(1_000_000_000_000, 1_000), ["H", "Fhi"]);
        let largest = decode(FrameLimits::default(), {
            let mut bytes = format!("Content-Length: {}\r\n\r\n", 32 << 20).into_bytes();
            bytes.resize(bytes.len() + (32 << 20), b'x');
            [bytes.leak() as &[u8]]
        });
        assert!(matches!(&largest[..], [FrameItem::Frame(body)] if body.len() == 32 << 20));
    }

    #[test]
    fn claimed_lengths_reserve_no_memory() {
        let mut decoder = FrameDecoder::new(FrameLimits::default());
        decoder.push(b"Content-Length: 33554432\r\n\r\n");
        assert_eq!(decoder.pop(), None);
        assert!(decoder.reserve_read_buffer().capacity() < 256 << 10);
        decoder.push(&vec![b'x'; 33_554_432]);
        assert!(decoder.pop().is_some());
        assert!(
            decoder.reserve_read_buffer().capacity() < 256 << 10,
            "a large buffer is given back"
        );
        decoder.push(b"Content-Length: 200000000\r\n\r\n");
        assert!(matches!(
            decoder.pop(),
            Some(FrameItem::Bad(BadFrame::TooLarge { .. }))
        ));
        for _ in 0..100 {
            decoder.push(&[b'x'; 1 << 16]);
            assert_eq!(decoder.pop(), None);
            assert!(decoder.buffer.is_empty());
        }
    }

    #[tokio::test]
    async fn reads_to_the_end_of_input() {
        let input = &b"Content-Length: 2\r\n\r\nhirubbish\nContent-Length: 2\r\n\r\nhoContent-Le"[..];
        let mut reader = FrameReader::new(input, FrameLimits::default());
        let mut items = Vec::new();
        while let Some(item) = reader.read().await.unwrap() {
            items.push(item);
        }
        assert_eq!(sketch(&items), ["Fhi", "H", "Fho"]);
    }

    /// Bytes that look like headers more often than random ones.
    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            Just(b"Content-Length".to_vec()),
            Just(b"content-length: ".to_vec()),
            Just(b"Content-Length: 3\r\n\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n".to_vec()),
            Just(b":".to_vec()),
            Just(b"charset=".to_vec()),
            (0_u32..2_000).prop_map(|n| n.to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..40),
        ];
        proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn items_do_not_depend_on_how_reads_cut_the_bytes(bytes in noise(), cuts in proptest::collection::vec(1_usize..50, 1..20)) {
            let whole = decode(SMALL, [&bytes[..]]);
            let mut chunks = Vec::new();
            let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, tail) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                chunks.push(chunk);
                rest = tail;
            }
            prop_assert_eq!(decode(SMALL, chunks), whole);
        }

        #[test]
        fn a_valid_frame_is_found_after_any_noise(bytes in noise()) {
            // A claimed body may swallow up to 1,000 bytes, a header block 128.
            let mut stream = bytes;
            stream.extend(std::iter::repeat_n(b'.', 1_200));
            stream.extend_from_slice(b"\r\n\r\nContent-Length: 4\r\n\r\nlast");
            let seen = sketch(&decode(SMALL, [&stream[..]]));
            prop_assert_eq!(seen.last().map(String::as_str), Some("Flast"));
        }

        #[test]
        fn the_buffer_stays_small(bytes in noise()) {
            let mut decoder = FrameDecoder::new(SMALL);
            for chunk in bytes.chunks(16) {
                decoder.push(chunk);
                while decoder.pop().is_some() {}
                prop_assert!(decoder.buffer.len() <= 128);
            }
        }
    }
}
