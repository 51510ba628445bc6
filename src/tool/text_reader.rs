//! Reads a file for `grep`: notices binary content, and ends once the search must end.

use std::io::{self, Read};

use super::walk::WalkBound;

/// How many bytes of a file decide whether it is binary from its start, as in git.
const HEAD: usize = 8_000;

/// A file whose reads fail once the search must end.
pub(super) struct TextReader<'a, R> {
    rest: R,
    head: Vec<u8>,
    /// How many bytes of the head were read.
    position: usize,
    bound: &'a WalkBound,
    /// Whether a mark at the start declares UTF-16, in which NUL bytes are part of the text.
    is_utf16: bool,
    has_nul: bool,
    utf8: Utf8Check,
}

/// Whether bytes that arrive in pieces are UTF-8.
#[derive(Default)]
struct Utf8Check {
    is_broken: bool,
    /// The start of a character whose end has not arrived.
    partial: Vec<u8>,
}

impl Utf8Check {
    fn add(&mut self, bytes: &[u8]) {
        if self.is_broken || self.partial.is_empty() && bytes.is_ascii() {
            return;
        }
        self.partial.extend_from_slice(bytes);
        match std::str::from_utf8(&self.partial) {
            Ok(_) => self.partial.clear(),
            Err(error) if error.error_len().is_none() => _ = self.partial.drain(..error.valid_up_to()),
            Err(_) => self.is_broken = true,
        }
    }
}

impl<'a, R: Read> TextReader<'a, R> {
    /// Reads the start of the file.
    ///
    /// # Errors
    /// The file cannot be read, or the search must end.
    pub(super) fn new(mut rest: R, bound: &'a WalkBound) -> io::Result<Self> {
        check(bound)?;
        let mut head = Vec::with_capacity(HEAD);
        rest.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let is_utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
        let mut utf8 = Utf8Check::default();
        utf8.add(&head);
        Ok(Self {
            has_nul: !is_utf16 && memchr::memchr(0, &head).is_some(),
            rest,
            head,
            position: 0,
            bound,
            is_utf16,
            utf8,
        })
    }

    /// Returns whether what was read so far contains NUL bytes; right after [`Self::new`], the start of the file.
    pub(super) fn has_binary_content(&self) -> bool {
        self.has_nul
    }

    /// Returns whether what was read so far is text in an encoding other than UTF-8, or broken; right after
    /// [`Self::new`], the start of the file.
    pub(super) fn has_other_encoding(&self) -> bool {
        self.utf8.is_broken
    }
}

fn check(bound: &WalkBound) -> io::Result<()> {
    match bound.check_end() {
        Some(_) => Err(io::Error::other("stopped")),
        None => Ok(()),
    }
}

impl<R: Read> Read for TextReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        check(self.bound)?;
        let mut head = &self.head[self.position..];
        if !head.is_empty() {
            let length = head.read(buffer)?;
            self.position += length;
            return Ok(length);
        }
        // A short head is the whole file.
        if self.head.len() < HEAD {
            return Ok(0);
        }
        let length = self.rest.read(buffer)?;
        self.utf8.add(&buffer[..length]);
        self.has_nul |= !self.is_utf16 && memchr::memchr(0, &buffer[..length]).is_some();
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::MAX_TIME;
    use super::*;
    use crate::base::CancellationToken;

    /// A cancel reaches into the middle of a file.
    #[test]
    fn a_cancel_ends_a_search_within_a_file() {
        let stop = CancellationToken::new();
        let bound = WalkBound::new(&stop, MAX_TIME);
        let mut watched = TextReader::new(b"text".as_slice(), &bound).unwrap();
        assert_eq!(watched.read(&mut [0; 2]).unwrap(), 2);
        stop.cancel();
        assert!(watched.read(&mut [0; 2]).is_err());
        assert!(TextReader::new(b"text".as_slice(), &bound).is_err());
    }
}
