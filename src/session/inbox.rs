//! The inbox: what the user said that no model has seen yet.
//!
//! It keeps messages in order and says which is next. It must not store or send them.

use std::collections::VecDeque;

use crate::domain::Block;
use crate::turn::PendingInput;

/// The prompts of a session that may wait. More are rejected (R-ERR-2).
pub const MAX_QUEUED: usize = 100;

/// A message with its key in the store.
pub(super) type KeyedMessage = (String, Vec<Block>);

/// Steers, queued prompts, and what hooks blocked.
#[derive(Default)]
pub(super) struct Inbox {
    /// Steers that no model has seen.
    steers: VecDeque<KeyedMessage>,
    /// Prompts that wait for the turn's end.
    queue: VecDeque<KeyedMessage>,
    /// The first queued prompt starts at the turn's end, even if the turn is canceled, because the user asked for it.
    sends_next_now: bool,
    /// Messages that hooks blocked; returned at the turn's end.
    held_back: Vec<KeyedMessage>,
}

impl Inbox {
    pub(super) fn push_steer(&mut self, key: String, content: Vec<Block>) {
        self.steers.push_back((key, content));
    }

    pub(super) fn set_steers(&mut self, steers: VecDeque<KeyedMessage>) {
        self.steers = steers;
    }

    /// Takes all steers, which join the history.
    pub(super) fn take_steers(&mut self) -> VecDeque<KeyedMessage> {
        std::mem::take(&mut self.steers)
    }

    /// Takes a steer that hooks have judged.
    pub(super) fn take_steer(&mut self, key: &str) -> Option<KeyedMessage> {
        let at = self.steers.iter().position(|(known, _)| known == key)?;
        self.steers.remove(at)
    }

    /// Keeps a message that hooks blocked until the turn's end.
    pub(super) fn hold_back(&mut self, message: KeyedMessage) {
        self.held_back.push(message);
    }

    /// Returns the steers that no model has seen. `prompt` is the key of the turn's prompt, if it waits among them.
    pub(super) fn unreviewed_inputs(&self, prompt: Option<&String>) -> Vec<PendingInput> {
        let waiting = |(key, content): &KeyedMessage| PendingInput {
            key: key.clone(),
            content: content.clone(),
            prompt: prompt == Some(key),
        };
        self.steers.iter().map(waiting).collect()
    }

    /// Takes the messages of the turn that no model has seen.
    pub(super) fn take_unused(&mut self) -> Vec<KeyedMessage> {
        self.held_back.drain(..).chain(self.steers.drain(..)).collect()
    }

    pub(super) fn queued(&self) -> &VecDeque<KeyedMessage> {
        &self.queue
    }

    pub(super) fn is_queue_full(&self) -> bool {
        self.queue.len() >= MAX_QUEUED
    }

    /// Takes over the queue from the store.
    pub(super) fn set_queue(&mut self, queue: VecDeque<KeyedMessage>) {
        self.queue = queue;
    }

    pub(super) fn enqueue(&mut self, key: String, content: Vec<Block>) {
        self.queue.push_back((key, content));
    }

    /// Returns whether the queue has a prompt with this id, or with `None` any.
    pub(super) fn has_queued(&self, id: Option<&str>) -> bool {
        self.find_queued(id).is_some()
    }

    fn find_queued(&self, id: Option<&str>) -> Option<usize> {
        match id {
            Some(id) => self.queue.iter().position(|(known, _)| known == id),
            None => (!self.queue.is_empty()).then_some(0),
        }
    }

    /// Changes a queued prompt. Returns whether it is there.
    pub(super) fn edit_queued(&mut self, id: &str, content: &[Block]) -> bool {
        let entry = self.queue.iter_mut().find(|(known, _)| known == id);
        entry.map(|(_, stored)| *stored = content.to_vec()).is_some()
    }

    /// Takes the queued prompt with this id, or with `None` the next one.
    pub(super) fn take_queued(&mut self, id: Option<&str>) -> Option<KeyedMessage> {
        let at = self.find_queued(id)?;
        self.queue.remove(at)
    }

    /// Puts a prompt first, to start as soon as no turn runs.
    pub(super) fn send_next(&mut self, message: KeyedMessage) {
        self.queue.push_front(message);
        self.sends_next_now = true;
    }

    /// Returns whether the next prompt starts now that no turn runs.
    pub(super) fn is_due(&self, is_paused: bool) -> bool {
        !self.queue.is_empty() && (self.sends_next_now || !is_paused)
    }

    /// Ends the user's wish to send the next prompt now, because its moment has come.
    pub(super) fn forget_send_now(&mut self) {
        self.sends_next_now = false;
    }

    /// Forgets what waits, because the session was deleted.
    pub(super) fn clear(&mut self) {
        self.steers.clear();
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox_with_queue(keys: &[&str]) -> Inbox {
        let mut inbox = Inbox::default();
        for key in keys {
            inbox.enqueue((*key).to_owned(), Vec::new());
        }
        inbox
    }

    fn keys(messages: &[KeyedMessage]) -> Vec<&str> {
        messages.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn a_paused_queue_starts_only_what_the_user_sends_now() {
        let mut inbox = inbox_with_queue(&["a", "b"]);
        assert!(inbox.is_due(false));
        assert!(!inbox.is_due(true));
        let wanted = inbox.take_queued(Some("b")).unwrap();
        inbox.send_next(wanted);
        assert!(inbox.is_due(true));
        inbox.forget_send_now();
        assert_eq!(inbox.take_queued(None).unwrap().0, "b");
        assert!(!inbox.is_due(true));
    }

    #[test]
    fn an_empty_queue_is_never_due() {
        assert!(!Inbox::default().is_due(false));
        assert!(!Inbox::default().has_queued(None));
    }

    #[test]
    fn blocked_messages_come_back_before_unseen_ones() {
        let mut inbox = Inbox::default();
        for key in ["a", "b", "c"] {
            inbox.push_steer(key.to_owned(), Vec::new());
        }
        let blocked = inbox.take_steer("b").unwrap();
        inbox.hold_back(blocked);
        assert_eq!(keys(&inbox.take_unused()), ["b", "a", "c"]);
        assert!(inbox.take_steers().is_empty());
    }

    #[test]
    fn the_prompt_is_marked_among_the_inputs() {
        let mut inbox = Inbox::default();
        inbox.push_steer("a".to_owned(), Vec::new());
        inbox.push_steer("b".to_owned(), Vec::new());
        let marked: Vec<bool> = inbox
            .unreviewed_inputs(Some(&"b".to_owned()))
            .iter()
            .map(|input| input.prompt)
            .collect();
        assert_eq!(marked, [false, true]);
    }
}
