//! Decodes server-sent events, or JSON lines, from bytes as they arrive.
//!
//! Takes linear time wherever chunks end, and knows no API. A line and the event data before it are bounded
//! together, so that no server can make us buffer without limit.

use memchr::memchr2;

/// The most bytes in a line and the event data before it.
pub(crate) const LIMIT: usize = 16 * 1024 * 1024;

/// An event with data. Comments, ids and retry times are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Empty if the event has no name.
    pub(crate) name: String,
    /// The data lines, joined by line feeds.
    pub(crate) data: String,
}

/// How many bytes are kept of lines that belong to no event.
const STRAY: usize = 4 * 1024;

/// The error for an event larger than [`LIMIT`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {LIMIT} bytes")]
pub(crate) struct EventTooLarge;

/// The decoder, with its state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_cr: bool,
    has_started: bool,
    stray: String,
    /// Each line is an event.
    is_line_based: bool,
}

impl SseDecoder {
    /// Creates a decoder for a stream in which each line is the data of an event.
    pub(crate) fn for_lines() -> Self {
        Self {
            is_line_based: true,
            ..Self::default()
        }
    }

    /// Decodes the next chunk and passes each complete event to `each`.
    ///
    /// # Errors
    ///
    /// Fails if an event exceeds [`LIMIT`].
    pub(crate) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(SseEvent)) -> Result<(), EventTooLarge> {
        let mut rest = chunk;
        while !rest.is_empty() {
            // A CR LF may be split over two chunks; its LF must not count as a second line end.
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.line.extend_from_slice(rest);
                return self.check_limit();
            };
            self.after_cr = rest[end] == b'\r';
            if self.line.is_empty() {
                // A line that lies within one chunk is decoded without a copy.
                self.take_line(&rest[..end], &mut each);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut each);
                self.line = line;
                self.line.clear();
            }
            self.check_limit()?;
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// Ends the stream and passes on an unfinished event, because some servers omit the blank line after the last one.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(SseEvent)) {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut each);
        self.dispatch_event(&mut each);
    }

    fn check_limit(&self) -> Result<(), EventTooLarge> {
        if self.line.len() + self.event.data.len() > LIMIT {
            Err(EventTooLarge)
        } else {
            Ok(())
        }
    }

    fn take_line(&mut self, line: &[u8], each: &mut impl FnMut(SseEvent)) {
        // A byte order mark counts only at the very beginning; later ones are content.
        let line = if std::mem::replace(&mut self.has_started, true) {
            line
        } else {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch_event(each);
        }
        if self.is_line_based {
            let data = String::from_utf8_lossy(line).into_owned();
            return each(SseEvent {
                name: String::new(),
                data,
            });
        }
        let colon = memchr::memchr(b':', line);
        let (field, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                // An invalid byte must not cost the answer: it becomes U+FFFD, as in browsers.
                self.event.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            // Not in the standard, but llama.cpp reports errors this way.
            b"error" => each(SseEvent {
                name: "error".to_owned(),
                data: String::from_utf8_lossy(value).into_owned(),
            }),
            b"" | b"id" | b"retry" => {}
            _ => self.store_stray_line(line),
        }
    }

    /// Keeps a line that belongs to no event. Gateways end a stream with a bare error, without a field name before it.
    fn store_stray_line(&mut self, line: &[u8]) {
        // The last line of a broken stream may be a truncated field name, which is not an error message.
        let is_cut_field = [b"data".as_slice(), b"event", b"error", b"retry"]
            .iter()
            .any(|field| field.starts_with(line));
        if !is_cut_field && self.stray.len() + line.len() < STRAY {
            self.stray.push_str(&String::from_utf8_lossy(line));
            self.stray.push('\n');
        }
    }

    /// Returns the lines that belong to no event.
    pub(crate) fn stray_lines(&self) -> &str {
        self.stray.trim()
    }

    fn dispatch_event(&mut self, each: &mut impl FnMut(SseEvent)) {
        // Taken even without data, so that a name does not stick to the next event.
        let event = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            each(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder
                .push(chunk, |event| events.push((event.name, event.data)))
                .unwrap();
        }
        decoder.finish(|event| events.push((event.name, event.data)));
        events
    }

    /// A name, the bytes, and the name and data of each event.
    type Case = (
        &'static str,
        &'static [u8],
        &'static [(&'static str, &'static str)],
    );

    const CASES: &[Case] = &[
        ("LF", b"data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
        ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]),
        (
            "CRLF within an event",
            b"event: x\r\ndata: a\r\ndata: b\r\n\r\n",
            &[("x", "a\nb")],
        ),
        ("CR", b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]),
        (
            "mixed",
            b"data: a\r\n\ndata: b\n\rdata: c\r\r\n",
            &[("", "a"), ("", "b"), ("", "c")],
        ),
        ("BOM", b"\xef\xbb\xbfdata: a\n\n", &[("", "a")]),
        (
            "a second BOM is content",
            b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n",
            &[],
        ),
        (
            "a BOM later is content",
            b"data: \xef\xbb\xbf\n\n",
            &[("", "\u{feff}")],
        ),
        ("comments", b": hello\ndata: a\n: between\n\n:\n\n", &[("", "a")]),
        (
            "names",
            b"event: x\ndata: a\n\ndata: b\n\n",
            &[("x", "a"), ("", "b")],
        ),
        ("a name without data", b"event: x\n\ndata: b\n\n", &[("", "b")]),
        (
            "several lines",
            b"data: a\ndata: b\ndata\ndata:\n\n",
            &[("", "a\nb\n\n")],
        ),
        ("no space", b"data:a\n\n", &[("", "a")]),
        ("two spaces", b"data:  a\n\n", &[("", " a")]),
        ("empty data", b"data\n\n", &[("", "")]),
        ("UTF-8", "data: grüße 😀\n\n".as_bytes(), &[("", "grüße 😀")]),
        (
            "bad UTF-8",
            b"data: a\xffb\n\ndata: c\n\n",
            &[("", "a\u{fffd}b"), ("", "c")],
        ),
        (
            "NUL id and retry",
            b"id: a\0b\nretry: 10\ndata: a\n\n",
            &[("", "a")],
        ),
        ("colons in data", b"data: {\"a\": 1}\n\n", &[("", "{\"a\": 1}")]),
        (
            "no blank line at the end",
            b"data: a\n\ndata: b\n",
            &[("", "a"), ("", "b")],
        ),
        (
            "no line end at the end",
            b"data: a\n\ndata: [DONE]",
            &[("", "a"), ("", "[DONE]")],
        ),
        ("unknown fields", b"x: y\nDATA: no\ndata: a\n\n", &[("", "a")]),
        (
            "an error in a field of its own",
            b"data: a\n\nerror: {\"code\":500}\n\n",
            &[("", "a"), ("error", "{\"code\":500}")],
        ),
        ("CR CR at the end", b"data: a\r\r", &[("", "a")]),
        ("nothing", b"", &[]),
        ("only line ends", b"\n\r\n\r\n\n", &[]),
    ];

    #[test]
    fn decodes_every_input_cut_at_every_byte() {
        for (name, input, expected) in CASES {
            let expected: Vec<_> = expected
                .iter()
                .map(|(n, d)| ((*n).to_owned(), (*d).to_owned()))
                .collect();
            assert_eq!(decode([*input]), expected, "{name}");
            assert_eq!(decode(input.chunks(1)), expected, "{name}, byte by byte");
            for cut in 0..input.len() {
                assert_eq!(
                    decode([&input[..cut], &input[cut..]]),
                    expected,
                    "{name}, cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn an_overlong_line_is_an_error() {
        let mut decoder = SseDecoder::default();
        let chunk = vec![b'x'; 1 << 20];
        let failed = (0..32).find(|_| decoder.push(&chunk, |_| {}).is_err());
        assert_eq!(failed, Some(16));
    }

    #[test]
    fn an_event_with_too_much_data_is_an_error() {
        let mut decoder = SseDecoder::default();
        let chunk = [b"data: ".as_slice(), &vec![b'x'; 1 << 20], b"\n"].concat();
        let failed = (0..32).find(|_| decoder.push(&chunk, |_| {}).is_err());
        assert_eq!(failed, Some(15));
    }
}
