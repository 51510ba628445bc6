//! Deltas: output while it appears. They flow the way of events, but are shown only, and never stored.
//!
//! A delta is never the only carrier of a fact: a client that misses deltas is still right once the completing event
//! arrives (R-WIRE).

use super::ids::{MessageId, SessionId, ToolCallId, TurnId};
use crate::base::backpressure::Permit;

/// An increment to a message or an output in progress. Offsets let a client detect that it missed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text of a message.
    Text {
        message: MessageId,
        /// Bytes of the message's text before this increment.
        offset: u64,
        text: String,
    },
    /// Reasoning of a message, with its own offset count.
    Reasoning {
        message: MessageId,
        /// Bytes of the message's reasoning before this increment.
        offset: u64,
        text: String,
    },
    /// A tool call's input while the model writes it.
    ToolInput {
        /// The message that contains the call.
        message: MessageId,
        tool_call: ToolCallId,
        name: String,
        /// The next piece of its JSON, incomplete on its own.
        text: String,
    },
    /// Live output of a running tool, already safe to show.
    ToolOutput { tool_call: ToolCallId, text: String },
}

impl Delta {
    /// Returns the added text, whatever the kind of increment.
    pub fn text(&self) -> &str {
        match self {
            Self::Text { text, .. }
            | Self::Reasoning { text, .. }
            | Self::ToolInput { text, .. }
            | Self::ToolOutput { text, .. } => text,
        }
    }

    /// Returns a rough size in bytes, for back pressure. Mostly the text counts: when deltas merge, only it remains.
    pub fn estimate_size(&self) -> usize {
        const MERGED: usize = 16;
        MERGED + self.text().len()
    }
}

/// A delta with its address, on its way to the clients. It has no number, because it is not stored.
#[derive(Debug)]
pub struct DeltaEnvelope {
    pub session: SessionId,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    pub delta: Delta,
    /// The reserved bytes in the output pipe; dropping it releases them once the delta is written.
    pub permit: Option<Permit>,
    /// Whether the client is loading the session, so that the page will contain what the delta completes.
    pub in_page: bool,
}
