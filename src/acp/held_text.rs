//! The streamed text of one message: held back while its attempt may still be retried away (R-ACP).
//!
//! The protocol cannot take text back. So the start of a message may wait until the message is complete, but at most for
//! the configured time, which is none by default; from then on text passes at once. Pure: time comes as an argument.

use std::time::Duration;

use crate::base::backpressure::Permit;
use crate::base::clock::Instant;
use crate::domain::{Block, Message, MessageId};

/// Bytes of text that are held at most; more is released early. Less than a session may have on its way to the client,
/// so that held text never stops the provider.
const MAX_HELD: usize = 32 << 10;

/// What a piece of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ChunkKind {
    Text,
    Thought,
}

/// A piece of a message that may be shown.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) kind: ChunkKind,
    pub(super) text: String,
    /// Bytes reserved until the text is written.
    pub(super) permit: Option<Permit>,
}

/// The text of a message in progress.
#[derive(Debug)]
pub(super) struct HeldText {
    message: MessageId,
    /// When text passes at once.
    due: Instant,
    passes: bool,
    is_paused: bool,
    held: Vec<Chunk>,
    /// Bytes of text and of reasoning that have arrived.
    arrived: (u64, u64),
}

impl HeldText {
    /// Starts a message whose text is held for `hold`.
    pub(super) fn new(message: MessageId, now: Instant, hold: Duration) -> Self {
        Self {
            message,
            // A hold beyond the clock's range never ends by itself.
            due: now.checked_add(hold).unwrap_or(now + Duration::from_secs(86_400)),
            passes: hold.is_zero(),
            is_paused: false,
            held: Vec::new(),
            arrived: (0, 0),
        }
    }

    pub(super) fn message(&self) -> &MessageId {
        &self.message
    }

    /// Returns when held text must leave; `None` if none is held.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.held.is_empty() && !self.is_paused).then_some(self.due)
    }

    /// Takes an increment that begins at byte `offset` of its kind. Returns what may be shown.
    pub(super) fn add(&mut self, chunk: Chunk, offset: u64) -> Vec<Chunk> {
        let end = offset + chunk.text.len() as u64;
        match chunk.kind {
            ChunkKind::Text => self.arrived.0 = end,
            ChunkKind::Thought => self.arrived.1 = end,
        }
        match self.held.last_mut().filter(|last| last.kind == chunk.kind) {
            Some(last) => {
                last.text.push_str(&chunk.text);
                match (&mut last.permit, chunk.permit) {
                    (Some(mine), Some(other)) => mine.merge(other),
                    (mine @ None, other) => *mine = other,
                    (Some(_), None) => {}
                }
            }
            None => self.held.push(chunk),
        }
        let held: usize = self.held.iter().map(|chunk| chunk.text.len()).sum();
        if !self.is_paused && (self.passes || held > MAX_HELD) {
            self.release()
        } else {
            Vec::new()
        }
    }

    /// Holds all text, or none longer than usual: a replay shows what comes before it.
    pub(super) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Releases what is held, if its time has come.
    pub(super) fn release_if_due(&mut self, now: Instant) -> Vec<Chunk> {
        if now >= self.due && !self.is_paused {
            self.release()
        } else {
            Vec::new()
        }
    }

    /// Releases what is held; later text passes at once.
    fn release(&mut self) -> Vec<Chunk> {
        self.passes = true;
        std::mem::take(&mut self.held)
    }

    /// Returns whether text has been shown.
    pub(super) fn is_shown(&self) -> bool {
        self.passes
    }

    /// Ends a replay that has shown the first `(text, reasoning)` bytes of the message. Returns the rest.
    pub(super) fn release_after(&mut self, shown: (usize, usize)) -> Vec<Chunk> {
        let mut chunks = self.release();
        let (mut text, mut thought) = (self.arrived.0, self.arrived.1);
        for chunk in chunks.iter_mut().rev() {
            let (end, shown) = match chunk.kind {
                ChunkKind::Text => (&mut text, shown.0),
                ChunkKind::Thought => (&mut thought, shown.1),
            };
            *end = end.saturating_sub(chunk.text.len() as u64);
            let known = shown.saturating_sub(usize::try_from(*end).unwrap_or(usize::MAX));
            chunk.text = chunk.text.get(known..).unwrap_or_default().to_owned();
        }
        chunks
    }

    /// Ends with the complete message: returns what is held, and what the increments lacked.
    pub(super) fn complete(mut self, message: &Message) -> Vec<Chunk> {
        let mut chunks = self.release();
        let missing = |kind, text: &str, arrived: u64| {
            let rest = usize::try_from(arrived)
                .ok()
                .and_then(|arrived| text.get(arrived..))?;
            (!rest.is_empty()).then(|| Chunk {
                kind,
                text: rest.to_owned(),
                permit: None,
            })
        };
        let thought = reasoning_text(message);
        chunks.extend(missing(ChunkKind::Thought, &thought, self.arrived.1));
        chunks.extend(missing(ChunkKind::Text, &message.text(), self.arrived.0));
        chunks
    }
}

/// Returns the reasoning of a message, as far as it is readable.
pub(super) fn reasoning_text(message: &Message) -> String {
    let readable = |block: &Block| match block {
        Block::Reasoning {
            text,
            redacted: false,
            ..
        } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(readable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    fn chunk(kind: ChunkKind, text: &str) -> Chunk {
        Chunk {
            kind,
            text: text.to_owned(),
            permit: None,
        }
    }

    fn texts(chunks: Vec<Chunk>) -> Vec<String> {
        chunks.into_iter().map(|chunk| chunk.text).collect()
    }

    fn start(hold: u64) -> (HeldText, Instant) {
        let now = clock::now();
        let held = HeldText::new(MessageId::from("msg_1"), now, Duration::from_millis(hold));
        (held, now)
    }

    #[tokio::test]
    async fn text_is_held_until_its_time_and_then_passes() {
        let (mut held, now) = start(100);
        assert!(held.due().is_none());
        assert!(held.add(chunk(ChunkKind::Text, "a"), 0).is_empty());
        assert!(held.add(chunk(ChunkKind::Text, "b"), 1).is_empty());
        assert!(held.release_if_due(now + Duration::from_millis(99)).is_empty());
        let due = held.due().unwrap();
        assert_eq!(texts(held.release_if_due(due)), ["ab"]);
        assert!(held.due().is_none());
        assert_eq!(texts(held.add(chunk(ChunkKind::Text, "c"), 2)), ["c"]);
    }

    #[tokio::test]
    async fn a_complete_message_releases_the_rest_in_order() {
        let (mut held, _) = start(60_000);
        assert!(held.add(chunk(ChunkKind::Thought, "hm"), 0).is_empty());
        assert!(held.add(chunk(ChunkKind::Text, "do"), 0).is_empty());
        let message = Message {
            content: vec![Block::Text("done".to_owned())],
            role: crate::domain::Role::Assistant,
            ..Message::user_text("")
        };
        assert_eq!(texts(held.complete(&message)), ["hm", "do", "ne"]);
    }

    #[tokio::test]
    async fn text_that_a_replay_shows_is_not_repeated() {
        let (mut held, now) = start(0);
        assert_eq!(texts(held.add(chunk(ChunkKind::Thought, "hm"), 0)), ["hm"]);
        assert_eq!(texts(held.add(chunk(ChunkKind::Text, "one "), 0)), ["one "]);
        held.set_paused(true);
        assert!(held.add(chunk(ChunkKind::Text, "two "), 4).is_empty());
        assert!(held.add(chunk(ChunkKind::Text, "three"), 8).is_empty());
        assert!(held.release_if_due(now).is_empty() && held.due().is_none());
        held.set_paused(false);
        let rest: String = texts(held.release_after((8, 2))).concat();
        assert_eq!(rest, "three");
        assert_eq!(texts(held.add(chunk(ChunkKind::Text, "!"), 13)), ["!"]);
    }

    #[tokio::test]
    async fn a_flood_is_not_held() {
        let (mut held, _) = start(60_000);
        let long = "x".repeat(MAX_HELD + 1);
        assert_eq!(held.add(chunk(ChunkKind::Text, &long), 0).len(), 1);
    }
}
