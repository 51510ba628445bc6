//! The demo's model: a loopback HTTP server that speaks Anthropic's streaming format from a script.
//!
//! It reacts to the messages in the request, as a model does, and fails on cue. It runs as one task, which ends when
//! its owner drops it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::scratch::{FILE, RIGHT, WRONG};
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};

/// The pause between two pieces of text.
const PIECE: Duration = Duration::from_millis(24);
/// The largest accepted request, in bytes.
const MAX_REQUEST: usize = 4 << 20;

/// Counters of what the model received.
#[derive(Debug, Default)]
pub(super) struct RequestStats {
    pub(super) requests: AtomicU32,
    /// Answers that the client closed while they streamed.
    pub(super) hung_up: AtomicU32,
    /// Attempts of the step that fails twice.
    tries: AtomicU32,
}

/// The running model server.
pub(super) struct DemoModel {
    /// The port on 127.0.0.1.
    pub(super) port: u16,
    pub(super) stats: Arc<RequestStats>,
    _task: AbortOnDrop<Infallible>,
}

/// A scripted answer.
struct ScriptedReply {
    events: Vec<Value>,
    /// Drops the connection after the events, without a proper end.
    cut: bool,
}

impl DemoModel {
    /// Listens on a free port of the loopback interface.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let stats = Arc::<RequestStats>::default();
        let task = spawn(serve_connections(listener, stats.clone()));
        Ok(Self {
            port,
            stats,
            _task: task,
        })
    }
}

async fn serve_connections(listener: TcpListener, stats: Arc<RequestStats>) -> Infallible {
    // Not one task per connection: all connections must end with this value's owner.
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! { biased;
            Some(_) = connections.next(), if !connections.is_empty() => {}
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let stats = stats.clone();
                connections.push(async move { answer_request(stream, &stats).await });
            }
        }
    }
}

async fn answer_request(mut stream: TcpStream, stats: &RequestStats) -> io::Result<()> {
    let request = read_request(&mut stream).await?;
    stats.requests.fetch_add(1, Ordering::Relaxed);
    match script_reply(&request, stats) {
        Ok(reply) => stream_reply(&mut stream, reply, stats).await,
        Err((status, body)) => {
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(head.as_bytes()).await
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> io::Result<Value> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .and_then(|length| length.trim().parse::<usize>().ok())
                .unwrap_or(0);
            if bytes.len() >= head + 4 + length {
                let body = &bytes[head + 4..head + 4 + length];
                return serde_json::from_slice(body).map_err(io::Error::other);
            }
        }
        if bytes.len() > MAX_REQUEST || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn stream_reply(stream: &mut TcpStream, reply: ScriptedReply, stats: &RequestStats) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for event in &reply.events {
        let name = event["type"].as_str().unwrap_or_default();
        let text = format!("event: {name}\ndata: {event}\n\n");
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        let sent = stream.write_all(chunk.as_bytes()).await;
        // A client that hangs up closes its side, so a read notices it. Writes alone might fail only later.
        let mut byte = [0];
        let pause = if name == "content_block_delta" {
            PIECE
        } else {
            Duration::ZERO
        };
        let is_disconnected = tokio::select! { biased;
            read = stream.read(&mut byte) => !matches!(read, Ok(n) if n > 0),
            () = clock::sleep(pause) => false,
        };
        if sent.is_err() || is_disconnected {
            stats.hung_up.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
    }
    if !reply.cut {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.shutdown().await
}

/// Chooses the answer to this request.
fn script_reply(request: &Value, stats: &RequestStats) -> Result<ScriptedReply, (&'static str, Value)> {
    let blocks: Vec<&Value> = request["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .collect();
    let results: Vec<&&Value> = blocks
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .collect();
    let last = blocks.iter().rev().find(|block| block["type"] == "text");
    let last = last.and_then(|block| block["text"].as_str()).unwrap_or_default();
    if last.contains("story") {
        return Ok(build_reply(&STORY.repeat(40), None));
    }
    match results.as_slice() {
        [] => Ok(build_reply(LOOK, Some(("read_file", json!({"path": FILE}))))),
        [_] => match stats.tries.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let mut reply = build_reply(FOUND, None);
                // The answer breaks off in the middle, so the agent must retract the text.
                reply.events.truncate(reply.events.len() / 3);
                reply.cut = true;
                Ok(reply)
            }
            1 => Err((
                "529 Overloaded",
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            )),
            _ => {
                let edit = json!({"path": FILE, "edits": [{"old_text": WRONG, "new_text": RIGHT}]});
                Ok(build_reply(FOUND, Some(("edit_file", edit))))
            }
        },
        [.., last] => {
            if last.to_string().contains("Denied") {
                Ok(build_reply(REFUSED, None))
            } else {
                Ok(build_reply(DONE, None))
            }
        }
    }
}

const LOOK: &str = "Let me look at the code first.";

const FOUND: &str = "The bug is in the last line of `total`: **`discount` is a percentage**, as the comment \
says, but it is subtracted as if it were an amount of money. For prices of 10 and 20 and a discount of 10 \
percent that happens to look plausible (20), but the right total is **27**. I'll change that one line.";

const DONE: &str = "Done. `total` now takes the discount as a percentage:\n\n```python\n\
total([10, 20], discount=10)  # 27.0\n```\n\n- Without a discount nothing changes.\n\
- A discount of 100 makes everything free, so you may want to *check its range*.";

const REFUSED: &str = "All right, I have changed nothing. The line to look at is `return result - discount`: \
the discount is a percentage, and there it is used as an amount.";

const STORY: &str = "Once upon a time there was a shopping cart that wanted to see the world. It rolled past \
the shelves, past the tills, and out of the door. ";

/// Builds the events of an answer: text in pieces, and optionally a tool call.
fn build_reply(text: &str, call: Option<(&str, Value)>) -> ScriptedReply {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_demo", "type": "message", "role": "assistant",
            "content": [], "model": "demo-model", "usage": {"input_tokens": 1_840, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    let pieces = split_into_pieces(text);
    let output = pieces.len() as u64 * 2 + 40;
    events.extend(pieces.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
    }));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let stop = if call.is_some() { "tool_use" } else { "end_turn" };
    if let Some((name, input)) = call {
        let input = input.to_string();
        events.push(json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "toolu_demo", "name": name, "input": {}}}));
        for at in (0..input.len()).step_by(30) {
            let piece = &input[at..(at + 30).min(input.len())];
            events.push(json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": piece}}));
        }
        events.push(json!({"type": "content_block_stop", "index": 1}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop},
        "usage": {"output_tokens": output}}));
    events.push(json!({"type": "message_stop"}));
    ScriptedReply { events, cut: false }
}

/// Splits the text into pieces of two words.
fn split_into_pieces(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words.chunks(2).map(<[&str]>::concat).collect()
}
