//! A scripted answer of the mock: a list of parts that is rendered in advance into the real events of each API.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Api;
use super::render::Renderer;

/// Holds a stream until the test releases it. Clones share their state.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    reached: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self {
            open: Arc::new(watch::channel(false).0),
            reached: Arc::new(watch::channel(false).0),
        }
    }

    /// Lets the stream continue.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    /// Waits until a stream has reached the gate.
    pub async fn reached(&self) {
        let mut reached = self.reached.subscribe();
        let _ = reached.wait_for(|reached| *reached).await;
    }

    pub(super) async fn pass(&self) {
        self.reached.send_replace(true);
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
}

/// How a connection ends before its answer is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// With a FIN in the middle of the chunked body.
    Close,
    /// With an RST.
    Reset,
}

/// Tokens that a reply reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Deltas(Arc<[String]>),
    Reasoning {
        text: String,
        signature: Option<String>,
    },
    Redacted(String),
    Search(Vec<(String, String)>),
    Tool {
        name: String,
        input: String,
        pieces: usize,
    },
    Custom {
        name: String,
        text: String,
    },
    Flood {
        total: usize,
        chunk: usize,
    },
    Raw(Bytes),
    Ping,
    Error {
        kind: String,
        message: String,
    },
    Delay(Duration),
    Gate(Gate),
    Stall,
    Cut(Cut),
}

/// A scripted answer. Its parts run in the order of the calls that added them.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// Headers whose values are computed when the answer begins.
    pub(super) late_headers: Vec<(String, fn() -> String)>,
    pub(super) body: Option<Bytes>,
    pub(super) before: Vec<PreludeStep>,
    pub(super) every: Option<Duration>,
    pub(super) drip: Option<usize>,
    pub(super) headless: bool,
    parts: Vec<Part>,
    piece: Option<usize>,
    tokens: Tokens,
    cost: Option<f64>,
    pub(super) stop: Option<String>,
    cut_after: Option<(usize, Cut)>,
    no_stop: bool,
}

/// A step before the head of the response.
#[derive(Clone, Debug)]
pub(super) enum PreludeStep {
    Delay(Duration),
    Gate(Gate),
    Stall,
    Cut(Cut),
}

/// A rendered step of an answer's body.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// One SSE event, sent `times` times.
    Event {
        bytes: Bytes,
        times: usize,
    },
    Delay(Duration),
    Gate(Gate),
    Stall,
    Cut(Cut),
}

impl Reply {
    /// Creates an empty streamed answer.
    pub fn new() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            late_headers: Vec::new(),
            body: None,
            before: Vec::new(),
            every: None,
            drip: None,
            headless: false,
            parts: Vec::new(),
            piece: None,
            tokens: Tokens {
                input: 100,
                output: 10,
                cache_read: 0,
                cache_write: 0,
            },
            cost: None,
            stop: None,
            cut_after: None,
            no_stop: false,
        }
    }

    /// Creates a streamed answer with `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().with_text(text)
    }

    /// Creates a streamed answer that calls one tool.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::new().call(name, input)
    }

    /// Creates a plain response, usually an error. See [`Reply::header`] and [`Reply::body`].
    pub fn status(status: u16) -> Self {
        Self {
            status,
            body: Some(Bytes::new()),
            ..Self::new()
        }
    }

    /// Creates an error in the usual form of the APIs: `{"error": {"type": …, "message": …}}`.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "code": kind, "message": message}});
        Self::status(status)
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    /// Creates a web page with status 200, which a wrong address may return.
    pub fn html() -> Self {
        Self::status(200)
            .header("content-type", "text/html; charset=utf-8")
            .body("<!doctype html><html><body><h1>Welcome</h1></body></html>")
    }

    /// Accepts the request and never answers.
    pub fn silent() -> Self {
        Self {
            before: vec![PreludeStep::Stall],
            ..Self::new()
        }
    }

    /// Closes the connection instead of answering.
    pub fn hang_up(cut: Cut) -> Self {
        Self {
            before: vec![PreludeStep::Cut(cut)],
            ..Self::new()
        }
    }

    /// Streams `total` bytes of text in events of `chunk` bytes each, to test backpressure.
    pub fn flood(total: usize, chunk: usize) -> Self {
        let mut reply = Self::new();
        reply.parts.push(Part::Flood { total, chunk });
        reply
    }

    /// Streams one text delta for each item, in order.
    pub fn deltas(deltas: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut reply = Self::new();
        reply
            .parts
            .push(Part::Deltas(deltas.into_iter().map(Into::into).collect()));
        reply
    }

    /// Adds text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds signed reasoning.
    #[must_use]
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Reasoning {
            text: text.into(),
            signature: Some("c2lnbmVk".into()),
        });
        self
    }

    /// Adds reasoning without a signature.
    #[must_use]
    pub fn unsigned_reasoning(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Reasoning {
            text: text.into(),
            signature: None,
        });
        self
    }

    /// Adds redacted reasoning; Chat Completions has none.
    #[must_use]
    pub fn redacted(mut self, data: impl Into<String>) -> Self {
        self.parts.push(Part::Redacted(data.into()));
        self
    }

    /// Adds a search of the provider that finds these pages, each with its address and title.
    #[must_use]
    pub fn search(mut self, pages: &[(&str, &str)]) -> Self {
        let pages = pages.iter().map(|(url, title)| ((*url).into(), (*title).into()));
        self.parts.push(Part::Search(pages.collect()));
        self
    }

    /// Returns the signatures of its reasoning.
    pub(super) fn proofs(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reasoning { signature, .. } => signature.as_deref(),
            Part::Redacted(data) => Some(data),
            _ => None,
        })
    }

    /// Adds a tool call with its input in one piece.
    #[must_use]
    pub fn call(self, name: &str, input: Value) -> Self {
        self.call_raw(name, input.to_string(), usize::MAX)
    }

    /// Adds a tool call with `input` verbatim, valid or not, in pieces of `piece` characters.
    #[must_use]
    pub fn call_raw(mut self, name: &str, input: impl Into<String>, piece: usize) -> Self {
        self.parts.push(Part::Tool {
            name: name.into(),
            input: input.into(),
            pieces: piece.max(1),
        });
        self
    }

    /// Creates a streamed answer of the Responses API that calls a custom tool with plain text, in several pieces.
    pub fn custom(name: &str, text: &str) -> Self {
        let mut reply = Self::new();
        reply.parts.push(Part::Custom {
            name: name.into(),
            text: text.into(),
        });
        reply
    }

    /// Adds a delay. As the first part, it comes before the head of the response.
    #[must_use]
    pub fn delay(mut self, wait: Duration) -> Self {
        if self.parts.is_empty() {
            self.before.push(PreludeStep::Delay(wait))
        } else {
            self.parts.push(Part::Delay(wait))
        }
        self
    }

    /// Adds a gate, at which the stream waits until the test releases it. As the first part, it comes before the head
    /// of the response.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        if self.parts.is_empty() && self.body.is_none() {
            self.before.push(PreludeStep::Gate(gate.clone()))
        } else {
            self.parts.push(Part::Gate(gate.clone()))
        }
        self
    }

    /// Adds a gate before the head of the response, whatever was added before.
    #[must_use]
    pub fn gate_first(mut self, gate: &Gate) -> Self {
        self.before.push(PreludeStep::Gate(gate.clone()));
        self
    }

    /// Adds a ping event or comment.
    #[must_use]
    pub fn ping(mut self) -> Self {
        self.parts.push(Part::Ping);
        self
    }

    /// Adds raw bytes to the stream.
    #[must_use]
    pub fn raw(mut self, bytes: impl Into<Bytes>) -> Self {
        self.parts.push(Part::Raw(bytes.into()));
        self
    }

    /// Adds an error event; the API's closing events do not follow.
    #[must_use]
    pub fn fail(mut self, kind: &str, message: &str) -> Self {
        self.parts.push(Part::Error {
            kind: kind.into(),
            message: message.into(),
        });
        self.no_stop = true;
        self
    }

    /// Adds a stall that never ends.
    #[must_use]
    pub fn stall(mut self) -> Self {
        self.parts.push(Part::Stall);
        self
    }

    /// Adds a reset of the connection.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.parts.push(Part::Cut(Cut::Reset));
        self
    }

    /// Adds a close of the connection in the middle of the stream.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.parts.push(Part::Cut(Cut::Close));
        self
    }

    /// Closes the connection after `n` SSE events, whatever they are.
    #[must_use]
    pub fn cut_after(mut self, n: usize) -> Self {
        self.cut_after = Some((n, Cut::Close));
        self
    }

    /// Resets the connection after `n` SSE events.
    #[must_use]
    pub fn reset_after(mut self, n: usize) -> Self {
        self.cut_after = Some((n, Cut::Reset));
        self
    }

    /// Ends the body properly, but without the API's closing events.
    #[must_use]
    pub fn without_stop(mut self) -> Self {
        self.no_stop = true;
        self
    }

    /// Splits text and reasoning into deltas of `chars` characters. Default: words.
    #[must_use]
    pub fn pieces(mut self, chars: usize) -> Self {
        self.piece = Some(chars.max(1));
        self
    }

    /// Waits after each event.
    #[must_use]
    pub fn every(mut self, wait: Duration) -> Self {
        self.every = Some(wait);
        self
    }

    /// Sends at most `bytes` bytes per write.
    #[must_use]
    pub fn drip(mut self, bytes: usize) -> Self {
        self.drip = Some(bytes.max(1));
        self
    }

    /// Sends no headers at all: the end of the connection ends the body.
    #[must_use]
    pub fn without_headers(mut self) -> Self {
        self.headless = true;
        self
    }

    /// Sets the reported tokens. Default: 100 in, 10 out.
    #[must_use]
    pub fn tokens(mut self, input: u64, output: u64) -> Self {
        self.tokens.input = input;
        self.tokens.output = output;
        self
    }

    /// Sets the reported tokens read from and written to the prompt cache. Default: none.
    #[must_use]
    pub fn cached(mut self, read: u64, write: u64) -> Self {
        self.tokens.cache_read = read;
        self.tokens.cache_write = write;
        self
    }

    /// Sets the reported cost in US dollars (Chat Completions only).
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost = Some(usd);
        self
    }

    /// Sets the stop reason: `end_turn`, `tool_use`, `max_tokens`, `refusal`, or the API's own word. Default:
    /// `tool_use` if there is a tool call, otherwise `end_turn`.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.into());
        self
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a header whose value is computed when the answer begins, such as a date.
    #[must_use]
    pub fn late_header(mut self, name: &str, value: fn() -> String) -> Self {
        self.late_headers.push((name.into(), value));
        self
    }

    /// Sets the body of a plain response.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Renders the body as frames.
    pub(super) fn render(&self, api: Api) -> Vec<Frame> {
        let mut out = Renderer::new(api, self.tokens);
        out.start();
        for part in &self.parts {
            self.render_part(part, &mut out);
        }
        if !self.no_stop {
            let called = self
                .parts
                .iter()
                .any(|part| matches!(part, Part::Tool { .. } | Part::Custom { .. }));
            let default = if called { "tool_use" } else { "end_turn" };
            out.stop(self.stop.as_deref().unwrap_or(default), self.cost);
        }
        match self.cut_after {
            Some((n, cut)) => cut_frames(out.frames, n, cut),
            None => out.frames,
        }
    }

    fn render_part(&self, part: &Part, out: &mut Renderer) {
        match part {
            Part::Text(text) => out.text(&split(text, self.piece)),
            Part::Deltas(deltas) => out.text(&deltas.iter().map(String::as_str).collect::<Vec<_>>()),
            Part::Reasoning { text, signature } => {
                out.reasoning(&split(text, self.piece), signature.as_deref())
            }
            Part::Redacted(data) => out.redacted(data),
            Part::Search(pages) => out.search(pages),
            Part::Tool { name, input, pieces } => out.tool(name, input, *pieces),
            Part::Custom { name, text } => out.custom(name, text),
            Part::Flood { total, chunk } => out.flood(*total, *chunk),
            Part::Raw(bytes) => out.frames.push(Frame::Event {
                bytes: bytes.clone(),
                times: 1,
            }),
            Part::Ping => out.ping(),
            Part::Error { kind, message } => out.error(kind, message),
            Part::Delay(wait) => out.frames.push(Frame::Delay(*wait)),
            Part::Gate(gate) => out.frames.push(Frame::Gate(gate.clone())),
            Part::Stall => out.frames.push(Frame::Stall),
            Part::Cut(cut) => out.frames.push(Frame::Cut(*cut)),
        }
    }
}

fn cut_frames(frames: Vec<Frame>, mut remaining: usize, cut: Cut) -> Vec<Frame> {
    let mut kept = Vec::new();
    for frame in frames {
        match frame {
            Frame::Event { bytes, times } if times >= remaining => {
                kept.push(Frame::Event {
                    bytes,
                    times: remaining,
                });
                break;
            }
            Frame::Event { times, .. } => {
                remaining -= times;
                kept.push(frame);
            }
            _ => kept.push(frame),
        }
    }
    kept.push(Frame::Cut(cut));
    kept
}

/// Splits `text` into pieces of `chars` characters, or into words with the space before them.
pub(super) fn split(text: &str, chars: Option<usize>) -> Vec<&str> {
    let mut cuts = vec![0];
    match chars {
        Some(chars) => {
            let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            cuts.extend(starts.iter().copied().step_by(chars).skip(1));
        }
        None => {
            let spaces = text.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
            cuts.extend(spaces.filter(|at| *at > 0));
        }
    }
    cuts.push(text.len());
    cuts.windows(2)
        .map(|w| &text[w[0]..w[1]])
        .filter(|piece| !piece.is_empty())
        .collect()
}
