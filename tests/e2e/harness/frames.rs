//! Reads stdout as a strict peer does: frames and nothing else (I11).

use std::io::Read;

/// Splits a stream into frames. Any other bytes are an error.
#[derive(Default)]
pub struct Frames {
    buffer: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Reads once. Returns `Ok(false)` at the end of the stream.
    pub fn fill(&mut self, from: &mut impl Read) -> std::io::Result<bool> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let before = self.buffer.len();
        self.buffer.resize(before + (64 << 10), 0);
        let read = from.read(&mut self.buffer[before..]);
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// Returns the next complete body, or `None` if more bytes are needed.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        const NAME: &[u8] = b"Content-Length: ";
        let rest = &self.buffer[self.start..];
        let known = rest.len().min(NAME.len());
        if rest[..known] != NAME[..known] {
            let excerpt = String::from_utf8_lossy(&rest[..rest.len().min(200)]).into_owned();
            return Err(format!("stray bytes on stdout: {excerpt:?}"));
        }
        let Some(end) = rest.windows(4).take(64).position(|window| window == b"\r\n\r\n") else {
            return if rest.len() > 64 {
                Err("a header without its end on stdout".to_owned())
            } else {
                Ok(None)
            };
        };
        let digits = std::str::from_utf8(&rest[NAME.len()..end]).unwrap_or_default();
        let length: usize = digits
            .parse()
            .map_err(|_| format!("a length of {digits:?} on stdout"))?;
        let from = end + 4;
        if rest.len() < from + length {
            return Ok(None);
        }
        let body = rest[from..from + length].to_vec();
        self.start += from + length;
        Ok(Some(body))
    }

    /// Returns the number of bytes of an incomplete frame.
    pub fn incomplete_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }
}
