//! From bytes to events: the common part. An API's decoder gets whole SSE events and knows nothing of
//! sockets, so that recorded streams can be tested cut at every byte.

use std::collections::VecDeque;

use super::classify;
use super::error::ProviderFault;
use super::sse::{SseDecoder, SseEvent};
use super::stream::{StopReason, StreamEvent};

/// Pieces of one kind that came together are joined up to this many bytes.
const JOINED: usize = 64 * 1024;

/// What a piece of the stream was, for the time limits (R-PROV-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamProgress {
    /// Nothing, a comment or a ping.
    Nothing,
    /// An event without content.
    Event,
    /// Text, reasoning or a piece of a tool's input.
    Content,
}

/// What is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The provider sent an error: the event's data, yet to be classified.
    Told(String),
    /// It is not what it should be.
    Failed(ProviderFault, String),
}

impl DecodeError {
    pub(crate) fn broken_stream(what: impl Into<String>) -> Self {
        Self::Failed(ProviderFault::BrokenStream, what.into())
    }
}

/// The events so far that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(VecDeque<StreamEvent>);

impl EventQueue {
    pub(crate) fn take(&mut self) -> Option<StreamEvent> {
        self.0.pop_front()
    }

    /// Adds an event. What arrived together is joined: it saves everyone behind us work.
    pub(crate) fn push(&mut self, event: StreamEvent) {
        match (self.0.back_mut(), &event) {
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
            _ => self.0.push_back(event),
        }
    }
}

/// An API's way to say things.
pub(crate) trait ApiDecoder: Send {
    /// Takes the next event of the stream.
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue)
    -> Result<StreamProgress, DecodeError>;

    /// The body has ended in order.
    fn finish_stream(&mut self, out: &mut EventQueue) -> Result<(), DecodeError>;

    /// [`StreamEvent::Stop`] was pushed; nothing more is wanted.
    fn has_stopped(&self) -> bool;

    /// All was said; only a closing formality is missing that some servers forget.
    fn may_end(&self) -> bool {
        false
    }
}

/// SSE and an API's decoder together.
pub(crate) struct StreamDecoder {
    sse: SseDecoder,
    api: Box<dyn ApiDecoder>,
}

impl StreamDecoder {
    pub(crate) fn new(api: impl ApiDecoder + 'static) -> Self {
        Self {
            sse: SseDecoder::default(),
            api: Box::new(api),
        }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn push(&mut self, chunk: &[u8], out: &mut EventQueue) -> Result<StreamProgress, DecodeError> {
        let Self { sse, api } = self;
        let mut result = Ok(StreamProgress::Nothing);
        let pushed = sse.push(chunk, |event| feed_event(api.as_mut(), &event, out, &mut result));
        if let Err(too_large) = pushed
            && result.is_ok()
            && !api.has_stopped()
        {
            return Err(DecodeError::broken_stream(too_large.to_string()));
        }
        result
    }

    /// The body has ended in order.
    pub(crate) fn finish_stream(&mut self, out: &mut EventQueue) -> Result<(), DecodeError> {
        let Self { sse, api } = self;
        let mut result = Ok(StreamProgress::Nothing);
        sse.finish(|event| feed_event(api.as_mut(), &event, out, &mut result));
        result?;
        if self.api.has_stopped() {
            return Ok(());
        }
        let stray = self.sse.stray_lines();
        self.api.finish_stream(out).map_err(|wrong| {
            if classify::has_message(stray) {
                DecodeError::Told(stray.to_owned())
            } else {
                wrong
            }
        })
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.api.has_stopped()
    }

    pub(crate) fn may_end(&self) -> bool {
        self.api.may_end()
    }
}

fn feed_event(
    api: &mut dyn ApiDecoder,
    event: &SseEvent,
    out: &mut EventQueue,
    result: &mut Result<StreamProgress, DecodeError>,
) {
    let Ok(so_far) = *result else { return };
    if !api.has_stopped() {
        *result = api.decode_event(event, out).map(|progress| progress.max(so_far));
    }
}

/// The input of a tool call as it comes in, with the question whether it is whole.
#[derive(Debug, Default)]
pub(crate) struct ToolInput {
    json: String,
}

impl ToolInput {
    pub(crate) fn push(&mut self, piece: &str) {
        self.json.push_str(piece);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.json.trim().is_empty()
    }

    /// Whether it is what the server later sent as the whole. Some send nothing or an empty object there.
    pub(crate) fn agrees_with(&self, whole: &str) -> bool {
        let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
        match parse(whole) {
            Some(whole) if whole != serde_json::json!({}) => parse(&self.json) == Some(whole),
            _ => true,
        }
    }

    /// It is a whole JSON value. An empty input is not: it may be whole or cut before its first byte.
    pub(crate) fn is_whole(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.json).is_ok()
    }
}

/// Ends the tool calls of an answer. Those whose input is not whole are completed only if the answer was
/// not cut (then the model itself wrote no valid JSON, and is told so by whoever runs tools).
pub(crate) fn complete_tools<'t>(
    tools: impl Iterator<Item = (u32, &'t ToolInput)>,
    stop: &StopReason,
    out: &mut EventQueue,
) {
    for (index, input) in tools {
        let whole = match stop {
            StopReason::EndTurn | StopReason::ToolUse => true,
            StopReason::MaxTokens
            | StopReason::WindowFull
            | StopReason::PauseTurn
            | StopReason::Refusal(_) => input.is_whole(),
        };
        if !whole {
            continue;
        }
        if input.is_empty() {
            out.push(StreamEvent::ToolInput {
                index,
                json: "{}".to_owned(),
            });
        }
        out.push(StreamEvent::ToolUseCompleted { index });
    }
}
