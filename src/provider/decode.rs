//! Decodes bytes into stream events: the part that all APIs share.
//!
//! An API's decoder gets whole SSE events and knows no sockets or clocks, so tests can cut recorded streams at every
//! byte. A tool call whose input was cut is never completed, so it never runs.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::classify;
use super::error::ProviderFault;
use super::sse::{SseDecoder, SseEvent};
use super::stream::{StopReason, StreamEvent};
use crate::base::half_characters::HalfJoiner;

/// Adjacent pieces of one kind are joined up to this many bytes.
const JOINED: usize = 64 * 1024;

/// What a chunk of the stream contained, for the time limits (R-PROV-2). Ordered: the most important part counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamProgress {
    /// No event, a comment, or a ping.
    Nothing,
    /// An event without content.
    Event,
    /// Text, reasoning or a piece of a tool's input.
    Content,
}

/// Why decoding stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The provider sent an error; contains the event's data, not classified yet.
    Reported(String),
    /// The stream is malformed or ended early.
    Failed(ProviderFault, String),
}

impl DecodeError {
    /// Creates the failure of a malformed or truncated stream.
    pub(crate) fn broken_stream(message: impl Into<String>) -> Self {
        Self::Failed(ProviderFault::BrokenStream, message.into())
    }

    /// Creates the failure of a stream that ended before its answer did.
    pub(crate) fn truncated_stream() -> Self {
        Self::broken_stream("the stream ended in the middle of the answer")
    }
}

/// The result of decoding, usually with the [`StreamProgress`] of what was decoded.
pub(crate) type DecodeResult<T = StreamProgress> = Result<T, DecodeError>;

/// The decoded events that the reader has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: VecDeque<StreamEvent>,
    has_stopped: bool,
}

/// The most tokens of an answer with its request. The largest windows have ten million; what is beyond this is an error
/// of a server, and would cost a fortune.
const MAX_TOKENS: u64 = 100_000_000;

impl EventQueue {
    /// Takes the oldest event.
    pub(crate) fn take(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Reports whether [`StreamEvent::Stop`] was added. Everything after it is ignored.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Adds an event. Joins it to the last one of the same kind, which saves every later stage work.
    pub(crate) fn push(&mut self, event: StreamEvent) {
        if let StreamEvent::Usage { usage, .. } = &event
            && usage.total_input_tokens().saturating_add(usage.output) > MAX_TOKENS
        {
            tracing::warn!(?usage, "a server reports counts that no answer can have");
            return;
        }
        self.has_stopped |= matches!(event, StreamEvent::Stop(_));
        match (self.events.back_mut(), &event) {
            (Some(StreamEvent::Text(so_far)), StreamEvent::Text(more))
            | (Some(StreamEvent::Reasoning(so_far)), StreamEvent::Reasoning(more))
                if so_far.len() + more.len() <= JOINED =>
            {
                so_far.push_str(more);
            }
            (
                Some(StreamEvent::ToolInput { index, json: so_far }),
                StreamEvent::ToolInput {
                    index: same,
                    json: more,
                },
            ) if index == same && so_far.len() + more.len() <= JOINED => so_far.push_str(more),
            _ => self.events.push_back(event),
        }
    }

    /// Adds a piece of content. An empty piece does not count as content.
    pub(crate) fn push_content(&mut self, event: StreamEvent) -> StreamProgress {
        let is_empty = match &event {
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) => text.is_empty(),
            StreamEvent::ToolInput { json, .. } => json.is_empty(),
            _ => false,
        };
        if is_empty {
            return StreamProgress::Event;
        }
        self.push(event);
        StreamProgress::Content
    }
}

/// The decoder of one API.
pub(crate) trait ApiDecoder: Send {
    /// Decodes the next event of the stream into `out`.
    ///
    /// # Errors
    ///
    /// Fails if the event is an error of the provider, or malformed where that would leave a hole in the answer.
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult;

    /// Ends the answer after the body has ended regularly. By default, only a closing event ends an answer.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not complete.
    fn finish_stream(&mut self, _out: &mut EventQueue) -> DecodeResult<()> {
        Err(DecodeError::truncated_stream())
    }

    /// Reports whether the answer is complete except for a closing event, which some servers never send.
    fn may_end(&self) -> bool {
        false
    }
}

/// The SSE decoder and an API's decoder together.
pub(crate) struct StreamDecoder {
    sse: SseDecoder,
    events: EventDecoder,
}

struct EventDecoder {
    api: Box<dyn ApiDecoder>,
    halves: HalfJoiner,
}

impl StreamDecoder {
    /// Creates the decoder of one answer.
    pub(crate) fn new(api: impl ApiDecoder + 'static) -> Self {
        Self {
            sse: SseDecoder::default(),
            events: EventDecoder::new(api),
        }
    }

    /// Creates the decoder of one answer that consists of JSON lines.
    pub(crate) fn for_lines(api: impl ApiDecoder + 'static) -> Self {
        Self {
            sse: SseDecoder::for_lines(),
            events: EventDecoder::new(api),
        }
    }

    /// Decodes the next bytes of the body into `out`. Events before an error stay in `out`.
    ///
    /// # Errors
    ///
    /// Fails like [`ApiDecoder::decode_event`], or if an event is too large.
    pub(crate) fn push(&mut self, chunk: &[u8], out: &mut EventQueue) -> DecodeResult {
        let Self { sse, events } = self;
        let mut result = Ok(StreamProgress::Nothing);
        let pushed = sse.push(chunk, |event| events.feed(event, out, &mut result));
        // An earlier error explains more, and after the stop nothing can break the answer.
        if let Err(too_large) = pushed
            && result.is_ok()
            && !out.has_stopped()
        {
            return Err(DecodeError::broken_stream(too_large.to_string()));
        }
        result
    }

    /// Ends the answer after the body has ended.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not complete; with the message of a gateway if the body ended with one.
    pub(crate) fn finish_stream(&mut self, out: &mut EventQueue) -> DecodeResult<()> {
        let Self { sse, events } = self;
        let mut result = Ok(StreamProgress::Nothing);
        sse.finish(|event| events.feed(event, out, &mut result));
        result?;
        if out.has_stopped() {
            return Ok(());
        }
        let stray = self.sse.stray_lines();
        self.events.api.finish_stream(out).map_err(|wrong| {
            // A gateway's own message explains more than "the stream ended".
            if classify::has_message(stray) {
                DecodeError::Reported(stray.to_owned())
            } else {
                wrong
            }
        })
    }

    /// See [`ApiDecoder::may_end`].
    pub(crate) fn may_end(&self) -> bool {
        self.events.api.may_end()
    }
}

impl EventDecoder {
    fn new(api: impl ApiDecoder + 'static) -> Self {
        Self {
            api: Box::new(api),
            halves: HalfJoiner::default(),
        }
    }

    /// Passes an event to the API's decoder unless the stream has failed or stopped before.
    fn feed(&mut self, mut event: SseEvent, out: &mut EventQueue, result: &mut DecodeResult) {
        let Ok(so_far) = *result else { return };
        if out.has_stopped() {
            return;
        }
        if let Cow::Owned(mended) = self.halves.mend(&event.data) {
            event.data = mended;
        }
        *result = self
            .api
            .decode_event(&event, out)
            .map(|progress| progress.max(so_far));
    }
}

/// The input of a tool call as it arrives.
#[derive(Debug, Default)]
pub(crate) struct ToolInput {
    json: String,
}

impl ToolInput {
    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: &str) {
        self.json.push_str(piece);
    }

    /// Returns what has arrived after the first `length` bytes, all of which must have arrived.
    pub(crate) fn text_from(&self, length: usize) -> &str {
        &self.json[length..]
    }

    /// Reports whether nothing but white space has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.json.trim().is_empty()
    }

    /// Reports whether the pieces match the whole input that the server sent later. Some servers send nothing or an
    /// empty object there, which matches anything.
    pub(crate) fn agrees_with(&self, full_input: &str) -> bool {
        let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
        match parse(full_input) {
            Some(expected) if expected != serde_json::json!({}) => parse(&self.json) == Some(expected),
            _ => true,
        }
    }

    /// Reports whether the input is a complete JSON value. An empty input is not: it may be cut before its first byte.
    pub(crate) fn is_complete_json(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.json).is_ok()
    }
}

/// Ends the tool calls of an answer. A call with incomplete input is completed only if the answer was not cut. In
/// that case the model itself wrote invalid JSON, and the tool runner reports that to it.
pub(crate) fn complete_tools<'t>(
    tools: impl Iterator<Item = (u32, &'t ToolInput)>,
    stop: &StopReason,
    out: &mut EventQueue,
) {
    for (index, input) in tools {
        let is_complete = match stop {
            StopReason::EndTurn | StopReason::ToolUse => true,
            StopReason::MaxTokens
            | StopReason::WindowFull
            | StopReason::PauseTurn
            | StopReason::Refusal(_) => input.is_complete_json(),
        };
        if !is_complete {
            continue;
        }
        if input.is_empty() {
            // A tool without parameters may come with no input at all; every API requires an object.
            out.push(StreamEvent::ToolInput {
                index,
                json: "{}".to_owned(),
            });
        }
        out.push(StreamEvent::ToolUseCompleted { index });
    }
}
