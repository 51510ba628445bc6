//! The inbox: what the user said that no model has seen yet.

use std::collections::VecDeque;

use crate::domain::Block;

/// A message with its key in the store.
pub(super) type KeyedMessage = (String, Vec<Block>);

/// Steers, queued prompts, and what hooks blocked.
#[derive(Default)]
pub(super) struct Inbox {
    /// Steers that no model has seen.
    pub(super) steers: VecDeque<KeyedMessage>,
    /// Prompts that wait for the turn's end.
    pub(super) queue: VecDeque<KeyedMessage>,
    /// The first queued prompt starts at the turn's end, even if the turn is canceled, because the user asked for it.
    pub(super) send_next_now: bool,
    /// Messages that hooks blocked; returned at the turn's end.
    pub(super) held_back: Vec<KeyedMessage>,
}
