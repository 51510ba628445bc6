//! Deltas as bytes that can be merged: a head up to the opening quote of `text`, the escaped text, and a constant tail.
//!
//! Two deltas of one item merge by appending the second text to the first (R-WIRE-3). The offset in the first head
//! stays valid. A test holds the bytes equal to those of the wire types.

use crate::base::text::prefix_within;
use crate::domain::{Delta, DeltaEnvelope, MessageId, ToolCallId};
use crate::protocol::table::method;

/// The bytes after the text.
pub const TAIL: &[u8] = b"\"}}";

/// Longest escaped text of one delta, in bytes. A longer delta is split; merging should stop here too.
pub const MAX_TEXT: usize = 64 * 1024;

/// Bytes of a tool's name that are sent at most: models make names up.
const MAX_NAME: usize = 1024;

/// Identifies deltas that may merge: those of one kind and one item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeltaKey {
    Text(MessageId),
    Reasoning(MessageId),
    ToolInput(ToolCallId),
    ToolOutput(ToolCallId),
}

/// A delta's frame in pieces. The body is `head`, `text` and [`TAIL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaFrame {
    /// Frames of the same key may merge.
    pub key: DeltaKey,
    /// The body up to and including the opening quote of the text.
    pub head: Vec<u8>,
    /// The escaped text.
    pub text: Vec<u8>,
}

impl DeltaFrame {
    /// Joins the pieces to the body of the frame.
    pub fn into_body(mut self) -> Vec<u8> {
        self.head.reserve(self.text.len() + TAIL.len());
        self.head.extend_from_slice(&self.text);
        self.head.extend_from_slice(TAIL);
        self.head
    }
}

/// Encodes a delta: one frame, or several if it is longer than [`MAX_TEXT`].
pub fn to_frames(envelope: &DeltaEnvelope) -> Vec<DeltaFrame> {
    let delta = &envelope.delta;
    let mut frames = Vec::with_capacity(1);
    let (mut rest, mut done) = (delta.text(), 0);
    loop {
        let mut text = Vec::with_capacity(rest.len().min(MAX_TEXT) + 16);
        let used = escape_up_to(&mut text, rest, MAX_TEXT);
        frames.push(DeltaFrame {
            key: to_delta_key(delta),
            head: build_head(envelope, done),
            text,
        });
        done += used as u64;
        rest = &rest[used..];
        if rest.is_empty() {
            return frames;
        }
    }
}

fn to_delta_key(delta: &Delta) -> DeltaKey {
    match delta {
        Delta::Text { message, .. } => DeltaKey::Text(message.clone()),
        Delta::Reasoning { message, .. } => DeltaKey::Reasoning(message.clone()),
        Delta::ToolInput { tool_call, .. } => DeltaKey::ToolInput(tool_call.clone()),
        Delta::ToolOutput { tool_call, .. } => DeltaKey::ToolOutput(tool_call.clone()),
    }
}

/// Builds the head of the piece that starts `done` bytes into the delta.
///
/// The fields have the order of the wire types, which end with `text`; a test holds the two together.
fn build_head(envelope: &DeltaEnvelope, done: u64) -> Vec<u8> {
    let delta = &envelope.delta;
    let method = match delta {
        Delta::Text { .. } => method::TEXT_DELTA,
        Delta::Reasoning { .. } => method::REASONING_DELTA,
        Delta::ToolInput { .. } => method::TOOL_INPUT_DELTA,
        Delta::ToolOutput { .. } => method::TOOL_OUTPUT_DELTA,
    };
    let turn = envelope.turn.as_ref().map_or("", |turn| turn.as_str());
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"");
    head.extend_from_slice(method.as_bytes());
    head.extend_from_slice(b"\",\"params\":{\"sessionId\":\"");
    escape_json(&mut head, envelope.session.as_str());
    start_field(&mut head, "turnId", turn);
    match delta {
        Delta::Text { message, offset, .. } | Delta::Reasoning { message, offset, .. } => {
            start_field(&mut head, "messageId", message.as_str());
            head.extend_from_slice(b"\",\"offset\":");
            head.extend_from_slice((offset + done).to_string().as_bytes());
            head.extend_from_slice(b",\"text\":\"");
            return head;
        }
        Delta::ToolInput {
            message,
            tool_call,
            name,
            ..
        } => {
            start_field(&mut head, "messageId", message.as_str());
            start_field(&mut head, "toolCallId", tool_call.as_str());
            start_field(&mut head, "name", prefix_within(name, MAX_NAME));
        }
        Delta::ToolOutput { tool_call, .. } => start_field(&mut head, "toolCallId", tool_call.as_str()),
    }
    head.extend_from_slice(b"\",\"text\":\"");
    head
}

/// Ends the previous string and starts the next field.
fn start_field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    escape_json(out, value);
}

/// Appends `text` as it appears inside a JSON string, without the quotes. Equals the bytes of serde_json.
pub fn escape_json(out: &mut Vec<u8>, text: &str) {
    escape_up_to(out, text, usize::MAX);
}

/// Appends as much of the escaped `text` as fits into `available` bytes: whole characters, but at least one.
///
/// Returns the number of bytes of `text` that were used.
fn escape_up_to(out: &mut Vec<u8>, text: &str, available: usize) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let limit = out.len().saturating_add(available);
    let mut at = 0;
    while at < bytes.len() {
        // Text that needs no escape is copied in one piece.
        let plain = bytes[at..]
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
            .unwrap_or(bytes.len() - at);
        if plain > limit.saturating_sub(out.len()) {
            let mut end = text.floor_char_boundary(at + limit.saturating_sub(out.len()));
            if end == 0 {
                end = text.ceil_char_boundary(1);
            }
            out.extend_from_slice(&bytes[at..end]);
            return end;
        }
        out.extend_from_slice(&bytes[at..at + plain]);
        at += plain;
        let Some(&byte) = bytes.get(at) else {
            break;
        };
        // The longest escape takes 6 bytes.
        if at > 0 && limit.saturating_sub(out.len()) < 6 {
            return at;
        }
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 0xf)]);
            }
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{SessionId, TurnId};
    use crate::protocol::{self as wire, ServerNotification};
    use crate::server::to_wire;

    fn envelope(delta: Delta) -> DeltaEnvelope {
        DeltaEnvelope {
            session: SessionId::from("ses_\"1"),
            turn: Some(TurnId::from("turn_1")),
            delta,
            permit: None,
            in_page: false,
        }
    }

    /// Converts a delta by the wire types, which the frames have to equal.
    fn to_notification(envelope: &DeltaEnvelope) -> ServerNotification {
        let session_id = envelope.session.to_string();
        let turn_id = envelope
            .turn
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        match &envelope.delta {
            Delta::Text {
                message,
                offset,
                text,
            } => wire::TextDeltaNotification {
                session_id,
                turn_id,
                message_id: message.to_string(),
                offset: *offset,
                text: text.clone(),
            }
            .into(),
            Delta::Reasoning {
                message,
                offset,
                text,
            } => wire::ReasoningDeltaNotification {
                session_id,
                turn_id,
                message_id: message.to_string(),
                offset: *offset,
                text: text.clone(),
            }
            .into(),
            Delta::ToolInput {
                message,
                tool_call,
                name,
                text,
            } => wire::ToolInputDeltaNotification {
                session_id,
                turn_id,
                message_id: message.to_string(),
                tool_call_id: tool_call.to_string(),
                name: prefix_within(name, MAX_NAME).to_owned(),
                text: text.clone(),
            }
            .into(),
            Delta::ToolOutput { tool_call, text } => wire::ToolOutputDeltaNotification {
                session_id,
                turn_id,
                tool_call_id: tool_call.to_string(),
                text: text.clone(),
            }
            .into(),
        }
    }

    fn deltas(text: &str, offset: u64) -> [Delta; 4] {
        let message = MessageId::from("msg_1");
        let tool_call = ToolCallId::from("call_1");
        let text = text.to_owned();
        [
            Delta::Text {
                message: message.clone(),
                offset,
                text: text.clone(),
            },
            Delta::Reasoning {
                message: message.clone(),
                offset,
                text: text.clone(),
            },
            Delta::ToolInput {
                message,
                tool_call: tool_call.clone(),
                name: "od\\d".to_owned(),
                text: text.clone(),
            },
            Delta::ToolOutput { tool_call, text },
        ]
    }

    proptest! {
        /// The joined pieces equal the frame of the wire types, byte for byte.
        #[test]
        fn the_joined_pieces_equal_the_wire_types_frame(text in ".*|[\\x00-\\x7f]*", offset in any::<u64>()) {
            for delta in deltas(&text, offset) {
                let envelope = envelope(delta);
                let mut frames = to_frames(&envelope);
                prop_assert_eq!(frames.len(), 1);
                let whole = to_wire::encode_frame(&to_notification(&envelope));
                prop_assert_eq!(frames.remove(0).into_body(), whole);
            }
        }

        /// Appending the text of later deltas to the first yields the delta of the joined text.
        #[test]
        fn merging_deltas_appends_their_texts(texts in prop::collection::vec("\\PC*|[\\x00-\\x7f]*", 1..6)) {
            let whole = texts.concat();
            let (mut merged, mut offset) = (None::<DeltaFrame>, 0);
            for text in &texts {
                let [delta, ..] = deltas(text, offset);
                let frame = to_frames(&envelope(delta)).remove(0);
                offset += text.len() as u64;
                match &mut merged {
                    Some(first) => first.text.extend_from_slice(&frame.text),
                    None => merged = Some(frame),
                }
            }
            let [delta, ..] = deltas(&whole, 0);
            let expected = to_wire::encode_frame(&to_notification(&envelope(delta)));
            prop_assert_eq!(merged.unwrap().into_body(), expected);
        }

        /// A text cut at any size loses nothing, and no character is split.
        #[test]
        fn escaping_in_pieces_loses_nothing(text in ".{0,40}|[\\x00-\\x7f]{0,40}", room in 1_usize..20) {
            let (mut joined, mut rest) = (Vec::new(), text.as_str());
            while !rest.is_empty() {
                let mut piece = Vec::new();
                let used = escape_up_to(&mut piece, rest, room);
                prop_assert!(used > 0);
                prop_assert!(piece.len() <= room.max(6));
                joined.extend_from_slice(&piece);
                rest = &rest[used..];
            }
            let quoted = serde_json::to_vec(&text).unwrap();
            prop_assert_eq!(&joined[..], &quoted[1..quoted.len() - 1]);
        }
    }

    #[test]
    fn a_huge_delta_becomes_several_with_the_right_offsets() {
        let text = "é\u{1}".repeat(100_000);
        let [delta, ..] = deltas(&text, 5);
        let mut joined = String::new();
        for frame in to_frames(&envelope(delta)) {
            assert!(frame.text.len() <= MAX_TEXT);
            let body: serde_json::Value = serde_json::from_slice(&frame.into_body()).unwrap();
            assert_eq!(body["params"]["offset"], 5 + joined.len() as u64);
            joined += body["params"]["text"].as_str().unwrap();
        }
        assert_eq!(joined, text);
    }
}
