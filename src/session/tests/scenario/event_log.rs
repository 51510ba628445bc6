//! What a client has received, in order, and how a test waits for more.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::domain::{Delta, DeltaEnvelope, Envelope, Event, EventSink, SessionId, TurnId};

/// An event with its address.
#[derive(Clone, Debug)]
pub(in crate::session::tests) struct LoggedEvent {
    pub(in crate::session::tests) session: SessionId,
    pub(in crate::session::tests) turn: Option<TurnId>,
    pub(in crate::session::tests) seq: u64,
    pub(in crate::session::tests) at_ms: i64,
    pub(in crate::session::tests) event: Event,
}

/// The events and deltas that a client has received. Clones share them.
#[derive(Clone, Default)]
pub(super) struct EventLog(Arc<SharedLog>);

#[derive(Default)]
struct SharedLog {
    entries: Mutex<LogEntries>,
    changed: Notify,
}

#[derive(Default)]
pub(super) struct LogEntries {
    pub(super) events: Vec<LoggedEvent>,
    pub(super) deltas: Vec<(SessionId, Delta)>,
    /// Server-wide warnings: code and message.
    pub(super) warnings: Vec<(String, String)>,
    /// The index after the last event that `take_next` returned, by session and kind.
    event_cursors: HashMap<(SessionId, Discriminant<Event>), usize>,
    /// The same for deltas.
    delta_cursors: HashMap<(SessionId, Discriminant<Delta>), usize>,
}

impl EventLog {
    pub(super) fn lock(&self) -> MutexGuard<'_, LogEntries> {
        self.0.entries.lock().unwrap()
    }

    /// Waits until something arrives after this call.
    pub(super) async fn wait_for_more(&self) {
        self.0.changed.notified().await;
    }

    /// Describes the latest events, for a failed wait.
    pub(super) fn describe(&self) -> String {
        let entries = self.lock();
        let mut text = String::new();
        let first = entries.events.len().saturating_sub(40);
        for logged in &entries.events[first..] {
            let mut line = format!("{:?}", logged.event);
            line.truncate(line.floor_char_boundary(300));
            _ = writeln!(text, "  {} {} {line}", logged.session, logged.seq);
        }
        _ = write!(text, "  and {} deltas", entries.deltas.len());
        text
    }
}

impl LogEntries {
    /// Returns the next event of a session that `pick` takes, after the last one of its kind that was returned.
    pub(super) fn take_next<T>(
        &mut self,
        session: &SessionId,
        pick: &mut impl FnMut(&LoggedEvent) -> Option<T>,
    ) -> Option<T> {
        for (at, logged) in self.events.iter().enumerate() {
            if logged.session != *session {
                continue;
            }
            let cursor = (session.clone(), discriminant(&logged.event));
            if self.event_cursors.get(&cursor).is_some_and(|next| at < *next) {
                continue;
            }
            if let Some(found) = pick(logged) {
                self.event_cursors.insert(cursor, at + 1);
                return Some(found);
            }
        }
        None
    }

    /// Does for deltas what `take_next` does for events.
    pub(super) fn take_next_delta<T>(
        &mut self,
        session: &SessionId,
        pick: &mut impl FnMut(&Delta) -> Option<T>,
    ) -> Option<T> {
        for (at, (of, delta)) in self.deltas.iter().enumerate() {
            let cursor = (session.clone(), discriminant(delta));
            let is_new = self.delta_cursors.get(&cursor).is_none_or(|next| at >= *next);
            if of == session
                && is_new
                && let Some(found) = pick(delta)
            {
                self.delta_cursors.insert(cursor, at + 1);
                return Some(found);
            }
        }
        None
    }
}

impl EventSink for EventLog {
    fn publish_event(&mut self, envelope: Envelope) {
        self.lock().events.push(LoggedEvent {
            session: envelope.session,
            turn: envelope.turn,
            seq: envelope.seq,
            at_ms: envelope.at_ms,
            event: envelope.event,
        });
        self.0.changed.notify_one();
    }

    fn publish_delta(&mut self, envelope: DeltaEnvelope) {
        self.lock().deltas.push((envelope.session, envelope.delta));
        self.0.changed.notify_one();
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        self.lock().warnings.push((code.to_owned(), message.to_owned()));
    }
}
