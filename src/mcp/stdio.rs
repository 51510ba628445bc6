//! The transport to a server that is a program: one JSON message per line on its standard input and output.
//!
//! A line that is not a message is skipped, as is one that is too long. Standard error goes to a [`StderrTail`].
//! Starting and stopping the program is `server`'s job.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::stderr::StderrTail;
use crate::workspace::process::{Output, Stream};

/// The longest message, in bytes. It limits what a server can make us keep.
const MAX_LINE: usize = 16 << 20;
/// Size in bytes from which a chunk counts as full: more is waiting behind it.
const FULL_CHUNK: usize = 64 << 10;
/// Pause after each full chunk, so that a flood does not take a whole core.
const FLOOD_PAUSE: Duration = Duration::from_millis(1);

/// The standard streams of a running program.
pub(super) struct StdioTransport {
    /// `None` once our side has been closed.
    stdin: Arc<Mutex<Option<pipe::Sender>>>,
    output: Output,
    stderr: Arc<StderrTail>,
    lines: LineBuffer,
    needs_pause: bool,
}

impl StdioTransport {
    pub(super) fn new(stdin: Option<pipe::Sender>, output: Output, stderr: Arc<StderrTail>) -> Self {
        Self {
            stdin: Arc::new(Mutex::new(stdin)),
            output,
            stderr,
            lines: LineBuffer::default(),
            needs_pause: false,
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let stdin = self.stdin.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            // Held for the whole line, so that messages never mix.
            let mut stdin = stdin.lock().await;
            let pipe = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            match pipe.write_all(&line).await {
                // A program that reads no more is about to end. An error would drop what it has written until then, such
                // as the reason; the end of its output ends the connection.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    stdin.take();
                    Ok(())
                }
                written => written,
            }
        }
    }

    /// Cancel-safe: what was read is kept in `self` before anything is awaited again.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(line) = self.lines.next_line() {
                match serde_json::from_slice(&line) {
                    Ok(message) => return Some(message),
                    // Some programs print a greeting.
                    Err(error) => tracing::debug!(%error, "a line of an MCP server is not a message"),
                }
            }
            if std::mem::take(&mut self.needs_pause) {
                tokio::time::sleep(FLOOD_PAUSE).await;
            }
            let chunk = self.output.next().await?;
            self.needs_pause = chunk.bytes.len() >= FULL_CHUNK;
            match chunk.stream {
                Stream::Stdout => self.lines.push(&chunk.bytes),
                Stream::Stderr => self.stderr.push(&chunk.bytes),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A server that does not read must not keep us: then its stop closes the pipe.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            stdin.take();
        }
        Ok(())
    }
}

/// Splits bytes into lines, and drops those that are too long.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// Everything before this offset was returned.
    start: usize,
    /// There is no line end between `start` and this offset.
    searched: usize,
    /// The current line is too long.
    is_discarding: bool,
}

impl LineBuffer {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
                self.searched = self.bytes.len();
                if self.searched - self.start > MAX_LINE || self.is_discarding {
                    self.is_discarding = true;
                    self.bytes = Vec::new();
                    (self.start, self.searched) = (0, 0);
                }
                return None;
            };
            let end = self.searched + end;
            let line = self.bytes[self.start..end].to_vec();
            (self.start, self.searched) = (end + 1, end + 1);
            let was_too_long = std::mem::take(&mut self.is_discarding);
            if !was_too_long && !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            lines.extend(std::iter::from_fn(|| buffer.next_line()));
        }
        lines
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text: &[u8] = b"{\"a\":1}\n\n  \nsecond line\r\nthird";
        let whole = lines_of(&[text]);
        assert_eq!(whole, [&b"{\"a\":1}"[..], b"second line\r"]);
        for size in 1..text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines_of(&chunks), whole, "{size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_counts() {
        let chunk = vec![b'x'; 1 << 20];
        let mut buffer = LineBuffer::default();
        for _ in 0..40 {
            buffer.push(&chunk);
            assert_eq!(buffer.next_line(), None);
            assert!(buffer.bytes.len() <= MAX_LINE + (2 << 20));
        }
        buffer.push(b"x\n{}\n");
        assert_eq!(buffer.next_line().as_deref(), Some(&b"{}"[..]));
    }
}
