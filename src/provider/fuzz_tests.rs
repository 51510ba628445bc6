//! What must hold for any bytes that a provider sends. A fuzz target calls [`check_stream`]; so do tests, with its seeds.

use super::anthropic::MessagesDecoder;
use super::decode::{DecodeError, EventQueue, StreamDecoder};
use super::gemini::GeminiDecoder;
use super::ollama::OllamaDecoder;
use super::openai::ChatDecoder;
use super::responses::ResponsesDecoder;
use super::sse::{SseDecoder, SseEvent};
use super::stream::StreamEvent;

/// Makes a decoder of each API.
pub(super) const DECODERS: [fn() -> StreamDecoder; 5] = [
    || StreamDecoder::new(MessagesDecoder::default()),
    || StreamDecoder::new(ChatDecoder::default()),
    || StreamDecoder::new(ResponsesDecoder::default()),
    || StreamDecoder::new(GeminiDecoder::default()),
    || StreamDecoder::for_lines(OllamaDecoder::default()),
];

/// Checks the decoders with any bytes.
///
/// # Panics
/// Panics if the events depend on how the bytes are cut into chunks, or if an answer has not exactly one end.
pub fn check_stream(bytes: &[u8]) {
    let cut = usize::from(bytes.first().copied().unwrap_or_default()) % 61 + 2;
    let events = decode_events([bytes]);
    assert_eq!(decode_events(bytes.chunks(1)), events, "byte by byte");
    assert_eq!(
        decode_events(bytes.chunks(cut)),
        events,
        "in chunks of {cut} bytes"
    );
    for make in DECODERS {
        let answer = decode_answer(make(), [bytes]);
        let has_stopped = check_order(&answer.0);
        assert_eq!(
            has_stopped,
            answer.1.is_none(),
            "an answer without an end, or with two: {answer:?}"
        );
        assert_eq!(decode_answer(make(), bytes.chunks(1)), answer, "byte by byte");
        assert_eq!(
            decode_answer(make(), bytes.chunks(cut)),
            answer,
            "in chunks of {cut} bytes"
        );
    }
}

/// Decodes server-sent events.
pub(super) fn decode_events<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
    for chunk in chunks {
        let result = decoder.push(chunk, |event| events.push(event));
        assert_eq!(result, Ok(()), "an event that is too large");
    }
    decoder.finish(|event| events.push(event));
    events
}

/// Decodes a body like `call` does. Returns its events, and the failure that ended them.
pub(super) fn decode_answer<'a>(
    mut decoder: StreamDecoder,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Option<DecodeError>) {
    let mut out = EventQueue::default();
    let mut failure = None;
    for chunk in chunks {
        failure = decoder.push(chunk, &mut out).err();
        if failure.is_some() || out.has_stopped() {
            break;
        }
    }
    if failure.is_none() && !out.has_stopped() {
        failure = decoder.finish_stream(&mut out).err();
    }
    (std::iter::from_fn(|| out.take()).collect(), failure)
}

/// Checks that there is at most one stop, that it is the last event, and that each tool call completes at most once.
/// Returns whether the events end with a stop.
pub(super) fn check_order(events: &[StreamEvent]) -> bool {
    let is_stop = |event: &&StreamEvent| matches!(event, StreamEvent::Stop(_));
    let stops = events.iter().filter(is_stop).count();
    let ends_with_stop = events.last().as_ref().is_some_and(is_stop);
    assert!(stops <= 1 && (stops == 1) == ends_with_stop, "{events:?}");
    let mut completed = Vec::new();
    for event in events {
        if let StreamEvent::ToolUseCompleted { index } = event {
            assert!(!completed.contains(index), "{events:?}");
            completed.push(*index);
        }
    }
    ends_with_stop
}

#[cfg(test)]
mod tests {
    use crate::base::testing::read_fuzz_seeds;

    #[test]
    fn every_seed_of_the_stream_decoders_passes() {
        for (name, seed) in read_fuzz_seeds("stream_decoders") {
            println!("{name}");
            super::check_stream(&seed);
        }
    }
}
