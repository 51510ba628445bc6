//! The pure core of the outbox: what leaves next, in which order, and what merges (R-WIRE-1, R-WIRE-3).
//!
//! There is one queue, in push order. A delta merges into the waiting delta of its stream if that one is the newest of
//! its group. Above two notifications per stream and frame, the delta is held outside the queue. It leaves when the
//! frame ends, or when something other than a delta is pushed for its group.
//!
//! Invariants: a stream has at most one held slot, and a group leaves in push order. Only deltas of different streams
//! may pass each other. Knows no threads and no clock: time comes as an argument.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::lines::Framing;
use crate::base::backpressure::Permit;
use crate::base::clock::Instant;

/// Body length in bytes at which a merged delta stops growing.
pub const MAX_MERGED: usize = 64 << 10;

/// Notifications of one stream that leave without delay in a frame (R-WIRE-3).
const PER_FRAME: u8 = 2;

/// Number of groups at which ended groups are first removed. Afterwards, each doubling triggers the next sweep.
const FIRST_SWEEP_AT: usize = 64;

/// A message to send.
#[derive(Debug)]
pub enum Outgoing {
    /// The serialized answer to a request. It leaves after everything pushed before it for its group, or for all
    /// groups if it has none.
    Response {
        body: Vec<u8>,
        /// The group whose order applies.
        group: Option<u64>,
    },
    /// A serialized notification or request to the client.
    Notification {
        body: Vec<u8>,
        /// The group (a session) whose order applies; without one, only its own.
        group: Option<u64>,
        /// Bytes reserved until the frame is written.
        permit: Option<Permit>,
    },
    /// An increment that may merge with the next of its stream.
    Mergeable {
        /// The stream (a message or an output) and its group (a session). A stream belongs to one group.
        key: (u64, u64),
        /// The body up to the text; contains the offset of this text.
        head: Vec<u8>,
        /// The text, JSON-escaped.
        text: Vec<u8>,
        /// The body after the text; the same for all deltas of a stream.
        tail: &'static [u8],
        /// Bytes reserved until the frame is written.
        permit: Option<Permit>,
    },
}

/// A body on its way out. Dropping it releases its bytes, so drop it only once they are written.
#[derive(Debug)]
pub struct QueuedFrame {
    body: Vec<u8>,
    tail: &'static [u8],
    permit: Option<Permit>,
    stream: Option<u64>,
}

impl QueuedFrame {
    /// Length of the body in bytes, without the header.
    pub fn len(&self) -> usize {
        self.body.len() + self.tail.len()
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends header and body to `buffer`.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        self.write_framed(buffer, Framing::Header);
    }

    /// Appends the body to `buffer`, with what separates it from its neighbors.
    pub fn write_framed(&self, buffer: &mut Vec<u8>, framing: Framing) {
        use std::io::Write as _;
        if framing == Framing::Header {
            // Writing to a Vec cannot fail.
            let _ = write!(buffer, "Content-Length: {}\r\n\r\n", self.len());
        }
        buffer.extend_from_slice(&self.body);
        buffer.extend_from_slice(self.tail);
        if framing == Framing::Lines {
            // JSON escapes line feeds, so a body is one line.
            buffer.push(b'\n');
        }
    }

    fn can_merge(&self, stream: u64, text: &[u8]) -> bool {
        self.stream == Some(stream) && self.len() + text.len() <= MAX_MERGED
    }

    fn merge_text(&mut self, text: &[u8], permit: Option<Permit>) {
        self.body.extend_from_slice(text);
        match (&mut self.permit, permit) {
            (Some(mine), Some(other)) => mine.merge(other),
            (mine @ None, other) => *mine = other,
            (Some(_), None) => {}
        }
    }
}

/// How often a stream was notified in its current frame.
#[derive(Debug)]
struct Frame {
    stream: u64,
    start: Instant,
    sent: u8,
}

#[derive(Debug, Default)]
struct StreamGroup {
    /// Position of its newest slot, counted like [`OutboundQueue::first`].
    newest: Option<u64>,
    /// At most one slot per stream, newer than all of that stream in the queue; each leaves at its time.
    held_slots: Vec<(Instant, QueuedFrame)>,
    /// Streams that may have an unfinished frame.
    frames: Vec<Frame>,
}

/// What a push means for a writer that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeHint {
    /// There is something to write now.
    Ready,
    /// There is something to write at that time.
    ReadyAt(Instant),
    /// Nothing new for the writer.
    Nothing,
}

/// Orders and merges everything that leaves.
#[derive(Debug)]
pub struct OutboundQueue {
    frame: Duration,
    ready: VecDeque<QueuedFrame>,
    /// Position of the first entry of `ready`; grows with every pop, so positions stay valid.
    first: u64,
    groups: HashMap<u64, StreamGroup>,
    /// When each group releases its held slots.
    release_times: BTreeSet<(Instant, u64)>,
    /// Notifications pushed before the client was ready; `None` once it is.
    unopened: Option<Vec<Outgoing>>,
    /// Bytes in `ready` without a permit.
    unbounded: usize,
    sweep_at: usize,
}

impl OutboundQueue {
    /// Creates an empty queue. A zero `frame` turns rate limiting off.
    pub fn new(frame: Duration) -> Self {
        Self {
            frame,
            ready: VecDeque::new(),
            first: 0,
            groups: HashMap::new(),
            release_times: BTreeSet::new(),
            unopened: Some(Vec::new()),
            unbounded: 0,
            sweep_at: FIRST_SWEEP_AT,
        }
    }

    /// Changes the frame length; slots that are already held keep their time.
    pub fn set_frame(&mut self, frame: Duration) {
        self.frame = frame;
    }

    /// Releases notifications once the client is ready for them.
    pub fn open(&mut self, now: Instant) {
        for item in self.unopened.take().unwrap_or_default() {
            self.push(item, now);
        }
    }

    /// Queues, merges or holds an item.
    pub fn push(&mut self, item: Outgoing, now: Instant) -> WakeHint {
        if let Some(waiting) = &mut self.unopened
            && should_wait(waiting, &item)
        {
            waiting.push(item);
            return WakeHint::Nothing;
        }
        match item {
            Outgoing::Response { body, group } => {
                // Held deltas were pushed earlier, so they leave first (R-WIRE-1).
                match group {
                    Some(group) => self.release_group(group),
                    None => self.release_all(),
                }
                self.enqueue_frame(new_full_frame(body, None), group);
                WakeHint::Ready
            }
            Outgoing::Notification { body, group, permit } => {
                // Held deltas of the group were pushed earlier, so they leave first.
                group.into_iter().for_each(|group| self.release_group(group));
                self.enqueue_frame(new_full_frame(body, permit), group);
                WakeHint::Ready
            }
            Outgoing::Mergeable {
                key: (stream, group),
                head,
                text,
                tail,
                permit,
            } => {
                let slot = QueuedFrame {
                    body: head,
                    tail,
                    permit,
                    stream: Some(stream),
                };
                self.push_delta(stream, group, slot, &text, now)
            }
        }
    }

    /// Removes and returns the next slot to write.
    pub fn pop(&mut self, now: Instant) -> Option<QueuedFrame> {
        self.pop_within(usize::MAX, now)
    }

    /// Removes and returns the next slot to write, if it is at most `available` bytes long.
    pub fn pop_within(&mut self, available: usize, now: Instant) -> Option<QueuedFrame> {
        self.release_due(now);
        let slot = self.ready.pop_front_if(|slot| slot.len() <= available)?;
        self.first += 1;
        if slot.permit.is_none() {
            self.unbounded -= slot.len();
        }
        Some(slot)
    }

    /// Returns when the next held slot leaves.
    pub fn next_due(&self) -> Option<Instant> {
        self.release_times.first().map(|(due, _)| *due)
    }

    /// Moves all held slots to the queue now.
    pub fn release_all(&mut self) {
        while let Some((_, group)) = self.release_times.first() {
            self.release_group(*group);
        }
    }

    /// Bytes in the queue without a permit: answers and messages that belong to no session.
    pub fn unbounded_bytes(&self) -> usize {
        self.unbounded
    }

    /// Drops everything and releases all permits.
    pub fn clear(&mut self) {
        let frame = self.frame;
        *self = Self::new(frame);
    }

    fn push_delta(
        &mut self,
        stream: u64,
        group: u64,
        mut slot: QueuedFrame,
        text: &[u8],
        now: Instant,
    ) -> WakeHint {
        // Sweeps only before a group is added: known groups pay nothing.
        if self.groups.len() >= self.sweep_at && !self.groups.contains_key(&group) {
            self.sweep_groups(now);
        }
        let entry = self.groups.entry(group).or_default();
        if let Some(at) = entry.find_held(stream) {
            if entry.held_slots[at].1.can_merge(stream, text) {
                entry.held_slots[at].1.merge_text(text, slot.permit);
                return WakeHint::Nothing;
            }
            // The held slot is full, so it leaves first; the new text gets a slot of its own.
            self.release_one(group, at);
        }
        let entry = self.groups.entry(group).or_default();
        if let Some(newest) = entry.newest
            // A newest slot that has left is below `first`, and takes no more text.
            && let Some(at) = newest.checked_sub(self.first)
            && let Some(waiting) = usize::try_from(at).ok().and_then(|at| self.ready.get_mut(at))
            && waiting.can_merge(stream, text)
        {
            if waiting.permit.is_none() {
                // With a permit the slot counts as bounded from now on; without one it grows.
                match slot.permit {
                    Some(_) => self.unbounded -= waiting.len(),
                    None => self.unbounded += text.len(),
                }
            }
            waiting.merge_text(text, slot.permit);
            return WakeHint::Nothing;
        }
        slot.body.extend_from_slice(text);
        if let Some(due) = entry.hold_until(stream, self.frame, now) {
            entry.held_slots.push((due, slot));
            self.release_times.insert((due, group));
            return WakeHint::ReadyAt(due);
        }
        self.enqueue_frame(slot, Some(group));
        WakeHint::Ready
    }

    /// Appends a slot to the queue.
    fn enqueue_frame(&mut self, slot: QueuedFrame, group: Option<u64>) {
        if slot.permit.is_none() {
            self.unbounded += slot.len();
        }
        // A group without deltas has no entry: nothing in it can merge.
        if let Some(group) = group
            && let Some(group) = self.groups.get_mut(&group)
        {
            group.newest = Some(self.first + self.ready.len() as u64);
        }
        self.ready.push_back(slot);
    }

    /// Moves a group's held slots to the end of the queue, oldest first.
    fn release_group(&mut self, group: u64) {
        while self
            .groups
            .get(&group)
            .is_some_and(|entry| !entry.held_slots.is_empty())
        {
            self.release_one(group, 0);
        }
    }

    /// Moves one of a group's held slots to the end of the queue.
    fn release_one(&mut self, group: u64, at: usize) {
        let Some(entry) = self.groups.get_mut(&group) else {
            return;
        };
        let (due, slot) = entry.held_slots.remove(at);
        // Other slots of the group may be due at the same time; the set keeps one entry for all of them.
        if !entry.held_slots.iter().any(|(other, _)| *other == due) {
            self.release_times.remove(&(due, group));
        }
        if let Some(frame) = entry.find_frame(slot.stream) {
            frame.sent = frame.sent.saturating_add(1);
        }
        self.enqueue_frame(slot, Some(group));
    }

    fn release_due(&mut self, now: Instant) {
        while let Some((due, group)) = self.release_times.first().copied()
            && due <= now
        {
            let entry = self.groups.get_mut(&group);
            let at = entry.and_then(|entry| {
                let at = entry.held_slots.iter().position(|(other, _)| *other == due)?;
                let stream = entry.held_slots[at].1.stream;
                // The slot leaves at the end of its frame, so it opens and counts in the next one.
                if let Some(frame) = entry.find_frame(stream) {
                    (frame.start, frame.sent) = (now, 0);
                }
                Some(at)
            });
            match at {
                Some(at) => self.release_one(group, at),
                None => {
                    self.release_times.remove(&(due, group));
                }
            }
        }
    }

    /// Removes groups without queued slots, held slots or an unfinished frame.
    fn sweep_groups(&mut self, now: Instant) {
        let (first, frame) = (self.first, self.frame);
        self.groups.retain(|_, group| {
            !group.held_slots.is_empty()
                || group.newest.is_some_and(|newest| newest >= first)
                || group
                    .frames
                    .iter()
                    .any(|stream_frame| now < stream_frame.start + frame)
        });
        self.sweep_at = (self.groups.len() * 2).max(FIRST_SWEEP_AT);
    }
}

impl StreamGroup {
    fn find_held(&self, stream: u64) -> Option<usize> {
        self.held_slots
            .iter()
            .position(|(_, slot)| slot.stream == Some(stream))
    }

    fn find_frame(&mut self, stream: Option<u64>) -> Option<&mut Frame> {
        self.frames.iter_mut().find(|frame| Some(frame.stream) == stream)
    }

    /// Counts a notification of `stream`, or returns the time until which it must be held.
    fn hold_until(&mut self, stream: u64, length: Duration, now: Instant) -> Option<Instant> {
        if length.is_zero() {
            return None;
        }
        self.frames.retain(|frame| now < frame.start + length);
        let Some(frame) = self.frames.iter_mut().find(|frame| frame.stream == stream) else {
            self.frames.push(Frame {
                stream,
                start: now,
                sent: 1,
            });
            return None;
        };
        if frame.sent >= PER_FRAME {
            return Some(frame.start + length);
        }
        frame.sent += 1;
        None
    }
}

/// Whether an item must wait for `open`. An answer waits only behind earlier items of its group.
fn should_wait(waiting: &[Outgoing], item: &Outgoing) -> bool {
    match item {
        Outgoing::Response { group: None, .. } => false,
        Outgoing::Response { group, .. } => waiting.iter().any(|earlier| group_of(earlier) == *group),
        Outgoing::Notification { .. } | Outgoing::Mergeable { .. } => true,
    }
}

fn group_of(item: &Outgoing) -> Option<u64> {
    match item {
        Outgoing::Response { group, .. } | Outgoing::Notification { group, .. } => *group,
        Outgoing::Mergeable { key, .. } => Some(key.1),
    }
}

fn new_full_frame(body: Vec<u8>, permit: Option<Permit>) -> QueuedFrame {
    QueuedFrame {
        body,
        tail: b"",
        permit,
        stream: None,
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
