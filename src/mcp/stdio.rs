//! The transport to a server that is a program: one JSON message per line on its standard input and output.
//!
//! A line that is not a message, or too long, is dropped. If it answers a request, the request fails with that reason.
//! Programs also log such lines, so a proper answer may still follow.
//! A line may also be a batch: a list of messages, which versions of MCP up to 2025-03-26 allow.
//! Standard error goes to a [`StderrTail`].
//! Starting and stopping the program is `server`'s job.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::clock::timeout_at;
use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::stderr::StderrTail;
use crate::base::clock::{self, Instant};
use crate::base::half_characters::replace_halves;
use crate::workspace::process::{Output, Stream};

/// The longest message, in bytes. It limits what a server can make us keep.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
pub(super) const TOO_LONG: &str = "its answer has more than 16 MiB";
/// How many bytes of the start and the end of a line that is too long are kept.
const EDGE: usize = 256;
/// Size in bytes from which a chunk counts as full: more is waiting behind it.
const FULL_CHUNK: usize = 64 << 10;
/// Pause after each full chunk, so that a flood does not take a whole core.
const FLOOD_PAUSE: Duration = Duration::from_millis(1);
/// How long after an answer that cannot be read, or has several lines, the same answer may follow as a message.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(1);
/// Requests that may wait for that at the same time. Others have only their own limit.
const MAX_UNANSWERED: usize = 32;

/// The standard streams of a running program.
pub(super) struct StdioTransport {
    /// `None` once our side has been closed.
    stdin: Arc<Mutex<Option<pipe::Sender>>>,
    /// Set when the program reads no more.
    is_refused: Arc<AtomicBool>,
    output: Output,
    stderr: Arc<StderrTail>,
    lines: LineBuffer,
    /// The messages of the last line that were not returned yet.
    messages: VecDeque<RxJsonRpcMessage<RoleClient>>,
    split: SplitAnswer,
    needs_pause: bool,
}

impl StdioTransport {
    pub(super) fn new(
        stdin: Option<pipe::Sender>,
        output: Output,
        stderr: Arc<StderrTail>,
        is_refused: Arc<AtomicBool>,
    ) -> Self {
        Self {
            is_refused,
            stdin: Arc::new(Mutex::new(stdin)),
            // A server that can answer no more is lost, even if its program lives.
            output: output.ending_with_stdout(),
            stderr,
            lines: LineBuffer::default(),
            messages: VecDeque::new(),
            split: SplitAnswer::default(),
            needs_pause: false,
        }
    }

    /// Returns the next message of the lines that have ended.
    fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                self.split.note_answer(&message);
                return Some(message);
            }
            match self.lines.next_line()? {
                Line::Complete(line) => match serde_json::from_slice::<Vec<&RawValue>>(&line) {
                    Ok(batch) => {
                        (batch.iter()).for_each(|message| self.read_message(message.get().as_bytes()))
                    }
                    Err(_) => self.read_message(&line),
                },
                Line::TooLong { start, end } => {
                    let id = find_answered_id(&start, &end);
                    (self.messages).extend(id.map(|id| fail_request(id, TOO_LONG.to_owned())));
                }
            }
        }
    }

    fn read_message(&mut self, text: &[u8]) {
        let parsed = serde_json::from_slice(text).or_else(|error| {
            let repaired = str::from_utf8(text).ok().and_then(replace_halves);
            repaired.map_or(Err(error), |text| serde_json::from_str(&text))
        });
        match parsed {
            Ok(message) => self.messages.push_back(message),
            Err(error) => {
                // Some programs print a greeting.
                tracing::debug!(%error, "a line of an MCP server is not a message");
                let reason = format!("its answer is not valid JSON-RPC ({error})");
                match find_unreadable_id(text) {
                    Some(id) => self.split.hold_failure(id, reason),
                    None => self.split.add_line(text),
                }
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (stdin, is_refused) = (self.stdin.clone(), self.is_refused.clone());
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
                    is_refused.store(true, Ordering::Relaxed);
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
            if let Some(message) = self.next_message() {
                return Some(message);
            }
            if std::mem::take(&mut self.needs_pause) {
                clock::sleep(FLOOD_PAUSE).await;
            }
            let next = self.output.next();
            let next = match self.split.due() {
                Some(due) => timeout_at(due, next).await.unwrap_or_default(),
                None => next.await,
            };
            let Some(chunk) = next else {
                return self.split.take_failure();
            };
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
                if line.len() > MAX_MESSAGE || self.long_start.is_some() {
                    self.long_start
                        .get_or_insert_with(|| line[..line.len().min(EDGE)].to_vec());
                    self.bytes = line[line.len().saturating_sub(EDGE)..].to_vec();
                    self.start = 0;
                }
                self.searched = self.bytes.len();
                return None;
            };
            let end = self.searched + end;
            let line = &self.bytes[self.start..end];
            // Some programs start with a byte order mark.
            let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).to_vec();
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

/// Recognizes an answer that is written over several lines, and holds the failures of requests.
///
/// Programs also log such text, even an answer right before they send it. So the request fails only after
/// [`ANSWER_GRACE`].
#[derive(Default)]
struct SplitAnswer {
    /// The start of what follows the last line that begins an object.
    start: Vec<u8>,
    /// The end of it.
    end: Vec<u8>,
    /// The requests of such answers, when they fail, and why.
    unanswered: VecDeque<(i64, Instant, String)>,
}

impl SplitAnswer {
    /// Takes a line that is not a message.
    fn add_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.starts_with(b"{") {
            self.start.clear();
            self.end.clear();
        }
        if self.start.len() < EDGE {
            self.start.extend_from_slice(&line[..line.len().min(EDGE)]);
        }
        self.end
            .extend_from_slice(&line[line.len().saturating_sub(EDGE)..]);
        self.end.drain(..self.end.len().saturating_sub(EDGE));
        // Only the last line of the whole object is not indented.
        let end = if line == b"}" { &self.end[..] } else { b"" };
        if let Some(id) = find_answered_id(&self.start, end) {
            self.start.clear();
            let reason = "it writes its answer over several lines, but MCP demands one message a line";
            self.hold_failure(id, reason.to_owned());
        }
    }

    /// Holds the failure of a request until its time.
    fn hold_failure(&mut self, id: i64, reason: String) {
        self.unanswered.retain(|(held, ..)| *held != id);
        self.unanswered.truncate(MAX_UNANSWERED - 1);
        let due = clock::now() + ANSWER_GRACE;
        self.unanswered.push_back((id, due, reason));
    }

    /// Takes note of a message: the request that it answers does not fail.
    fn note_answer(&mut self, message: &RxJsonRpcMessage<RoleClient>) {
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(answered) = answered.map(ToString::to_string) {
            self.unanswered.retain(|(id, ..)| id.to_string() != answered);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.unanswered.front().map(|(_, due, _)| *due)
    }

    fn take_failure(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (id, _, reason) = self.unanswered.pop_front()?;
        Some(fail_request(id, reason))
    }
}

/// Returns an error in the place of an unusable answer.
pub(super) fn fail_request(id: i64, reason: String) -> RxJsonRpcMessage<RoleClient> {
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, None);
    JsonRpcMessage::error(error, Some(RequestId::Number(id)))
}

/// Returns the id of the request that a text is for which is not a message.
fn find_unreadable_id(text: &[u8]) -> Option<i64> {
    let parsed = serde_json::from_slice::<Value>(text).unwrap_or_default();
    // Neither a result nor an error, or both. What programs log may have an id too.
    let is_answer = parsed.get("jsonrpc").is_some() && parsed.get("method").is_none();
    let id = parsed.get("id").filter(|_| is_answer).and_then(Value::as_i64);
    id.or_else(|| find_answered_id(text, text))
}

/// Returns the id of the request that an answer is for, of which `start` and `end` have at least the edges. Servers
/// write it before the result, or last.
pub(super) fn find_answered_id(start: &[u8], end: &[u8]) -> Option<i64> {
    let (start, end) = (
        &start[..start.len().min(EDGE)],
        &end[end.len().saturating_sub(EDGE)..],
    );
    let squeeze = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes);
        let chars = text.chars().filter(|c| !c.is_whitespace());
        // Programs in Python write an answer with the wrong quotes.
        chars.map(|c| if c == '\'' { '"' } else { c }).collect()
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
    let rest = rest.strip_prefix("\"jsonrpc\":\"2.0\",").unwrap_or(rest);
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
            assert!(buffer.bytes.len() <= MAX_MESSAGE + (2 << 20));
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
            (r#"{"id":7,"jsonrpc":"2.0","result":{"a"#, "}}", Some(7)),
            (r#"{"id":7,"jsonrpc":"2.0","method":"a"#, "}}", None),
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
            ("{'jsonrpc': '2.0', 'id': 7, 'result': {'a", "'}}", Some(7)),
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

    #[test]
    fn the_request_of_what_is_no_message_is_found() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"{"result":{},"error":{},"id":7,"jsonrpc":"2.0"}"#, Some(7)),
            (r#"{"id":7,"jsonrpc":"2.0","result":NaN}"#, Some(7)),
            (r#"{"id":7,"level":"info"}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":7}"#, None),
            (r#"{"jsonrpc":"2.0","id":null}"#, None),
            ("{bad", None),
        ] {
            assert_eq!(find_unreadable_id(text.as_bytes()), expected, "{text}");
        }
    }

    /// Returns the request that fails after these lines.
    fn find_split(split: &mut SplitAnswer, text: &str) -> Option<i64> {
        for line in text.lines() {
            split.add_line(line.as_bytes());
        }
        split.unanswered.back().map(|(id, ..)| *id)
    }

    #[tokio::test]
    async fn the_request_of_an_answer_over_several_lines_is_found() {
        let long = format!("{{\n  \"result\": {{\n    \"a\": \"{}\"\n", "x".repeat(4 * EDGE));
        for (text, expected) in [
            (
                "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 7,\n  \"result\": {",
                Some(7),
            ),
            ("{\r\n\t\"id\": 7,\r\n\t\"error\": {\r\n", Some(7)),
            (
                &format!("{long}  }},\n  \"jsonrpc\": \"2.0\",\n  \"id\": 7\n}}"),
                Some(7),
            ),
            (&format!("{long}  }},\n  \"id\": 7\n}}\r\n"), Some(7)),
            (
                "Started\n{\n  \"port\": 1\n}\n{\n  \"id\": 7,\n  \"result\": {",
                Some(7),
            ),
            // An id in the result, requests of the server, and what programs log.
            (
                &format!("{long},\n    \"b\": {{\n      \"c\": 1,\n      \"id\": 7\n    }}"),
                None,
            ),
            ("{\n  \"id\": 7,\n  \"method\": \"ping\"\n}", None),
            (
                "{\n  \"id\": 7,\n  \"level\": \"info\"\n}\n{}\n\"id\": 7,\n\"result\": {\n}",
                None,
            ),
        ] {
            assert_eq!(find_split(&mut SplitAnswer::default(), text), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_over_several_lines_fails_unless_the_same_follows_as_one() {
        let answer = |id: i64| format!("{{\n \"id\": {id},\n \"result\": {{}}\n}}");
        let mut split = SplitAnswer::default();
        assert_eq!(find_split(&mut split, &answer(1)), Some(1));
        split.note_answer(&fail_request(2, String::new()));
        assert_eq!(split.due(), Some(clock::now() + ANSWER_GRACE));
        split.note_answer(&fail_request(1, String::new()));
        assert!(split.due().is_none() && split.take_failure().is_none());
        // Each has its time, also one that is logged twice. Their number is bounded.
        for id in [3, 3, 4] {
            assert_eq!(find_split(&mut split, &answer(id)), Some(id));
        }
        for id in [3, 4].map(|id| Some(RequestId::Number(id))) {
            match split.take_failure() {
                Some(JsonRpcMessage::Error(error)) => assert_eq!(error.id, id),
                other => panic!("{other:?}"),
            }
        }
        (0..99).for_each(|id| split.hold_failure(id, String::new()));
        assert_eq!(split.unanswered.len(), MAX_UNANSWERED);
    }
}
