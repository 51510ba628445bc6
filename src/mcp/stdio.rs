//! The transport to a server that is a program: one JSON message per line on its standard input and output.
//!
//! A line that is not a message, or too long, is dropped. If it answers a request, the request fails with that reason.
//! Standard error goes to a [`StderrTail`].
//! Starting and stopping the program is `server`'s job.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ErrorCode;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::stderr::StderrTail;
use crate::workspace::process::{Output, Stream};

/// The longest message, in bytes. It limits what a server can make us keep.
const MAX_LINE: usize = 16 << 20;
/// How many bytes of the start and the end of a line that is too long are kept.
const EDGE: usize = 256;
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
            // A server that can answer no more is lost, even if its program lives.
            output: output.ending_with_stdout(),
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
                let message = match line {
                    Line::Complete(line) => serde_json::from_slice(&line).or_else(|error| {
                        let reason = format!("its answer is not valid JSON-RPC ({error})");
                        fail_request(&line, &line, &reason).ok_or(reason)
                    }),
                    Line::TooLong { start, end } => {
                        let reason = format!("its answer has more than {} MiB", MAX_LINE >> 20);
                        fail_request(&start, &end, &reason).ok_or(reason)
                    }
                };
                match message {
                    Ok(message) => return Some(message),
                    // Some programs print a greeting.
                    Err(reason) => tracing::debug!(reason, "a line of an MCP server is not a message"),
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

/// A line of the output.
#[derive(Debug, PartialEq)]
enum Line {
    Complete(Vec<u8>),
    /// Most of it was dropped.
    TooLong {
        start: Vec<u8>,
        end: Vec<u8>,
    },
}

/// Splits bytes into lines, and drops most of those that are too long.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// Everything before this offset was returned.
    start: usize,
    /// There is no line end between `start` and this offset.
    searched: usize,
    /// How the current line starts, if it is too long. Of its rest, the end is kept.
    long_start: Option<Vec<u8>>,
}

impl LineBuffer {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next line that has ended.
    fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
                let line = &self.bytes[self.start..];
                if line.len() > MAX_LINE || self.long_start.is_some() {
                    self.long_start
                        .get_or_insert_with(|| line[..line.len().min(EDGE)].to_vec());
                    self.bytes = line[line.len().saturating_sub(EDGE)..].to_vec();
                    self.start = 0;
                }
                self.searched = self.bytes.len();
                return None;
            };
            let end = self.searched + end;
            let line = self.bytes[self.start..end].to_vec();
            (self.start, self.searched) = (end + 1, end + 1);
            if let Some(start) = self.long_start.take() {
                return Some(Line::TooLong { start, end: line });
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Complete(line));
            }
        }
    }
}

/// Returns an error in the place of an unusable answer, of which `start` and `end` have at least the edges.
fn fail_request(start: &[u8], end: &[u8], reason: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let id = find_answered_id(
        &start[..start.len().min(EDGE)],
        &end[end.len().saturating_sub(EDGE)..],
    )?;
    let error = json!({"code": ErrorCode::INTERNAL_ERROR, "message": reason});
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "error": error})).ok()
}

/// Returns the id of the request that a line answers of which only the edges are known. Servers write it right before
/// the result, or last.
fn find_answered_id(start: &[u8], end: &[u8]) -> Option<u64> {
    let squeeze = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes);
        text.chars().filter(|c| !c.is_whitespace()).collect()
    };
    let is_answer = |rest: &str| rest.starts_with("\"result\":") || rest.starts_with("\"error\":");
    let (start, end) = (squeeze(start), squeeze(end));
    let members = start.strip_prefix('{')?;
    let members = members.strip_prefix("\"jsonrpc\":\"2.0\",").unwrap_or(members);
    if is_answer(members) {
        let members = end.strip_suffix('}')?;
        let members = members.strip_suffix(",\"jsonrpc\":\"2.0\"").unwrap_or(members);
        return members.rsplit_once(",\"id\":")?.1.parse().ok();
    }
    let (id, rest) = members.strip_prefix("\"id\":")?.split_once(',')?;
    // Otherwise it is a request of the server, with an id of its own.
    is_answer(rest).then(|| id.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            lines.extend(std::iter::from_fn(|| match buffer.next_line()? {
                Line::Complete(line) => Some(line),
                Line::TooLong { .. } => panic!("too long"),
            }));
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
        buffer.push(b"y\n{}\n");
        let Some(Line::TooLong { start, end }) = buffer.next_line() else {
            panic!("not too long");
        };
        assert!(start.len() == EDGE && end.ends_with(b"xxy"));
        assert_eq!(buffer.next_line(), Some(Line::Complete(b"{}".to_vec())));
    }

    #[test]
    fn the_request_of_an_answer_that_is_too_long_is_found() {
        for (start, end, expected) in [
            (r#"{"jsonrpc": "2.0", "id": 7, "result": {"a"#, "b\"}}\r", Some(7)),
            (r#"{"id":7,"error":{"a"#, "}}", Some(7)),
            (
                r#"{"result":{"id":3,"a"#,
                r#""}],"id":4},"jsonrpc":"2.0","id":7}"#,
                Some(7),
            ),
            (
                r#"{"jsonrpc":"2.0","result":{"a"#,
                r#""}, "id": 7, "jsonrpc": "2.0"}"#,
                Some(7),
            ),
            (r#"{"result":{"a"#, r#",\"id\":7}"}}"#, None),
            // Requests of the server, and what is no message.
            (r#"{"jsonrpc":"2.0","id":7,"method":"a"#, r#""}}"#, None),
            (
                r#"{"method":"a","params":{"a"#,
                r#"},"jsonrpc":"2.0","id":7}"#,
                None,
            ),
            ("xxxx", "xxxx", None),
        ] {
            let found = find_answered_id(start.as_bytes(), end.as_bytes());
            assert_eq!(found, expected, "{start} … {end}");
        }
    }
}
