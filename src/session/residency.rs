//! Residency: how far a session is loaded, who holds it, and when it may be unloaded.
//!
//! It reads and writes nothing itself: [`super::load`] takes the lock and reads the store.

use std::sync::Arc;
use std::time::Duration;

use super::command::Reply;
use super::live_sessions::LiveSessions;
use crate::base::clock;
use crate::base::clock::Instant;
use crate::store::SessionLock;

/// How far a session has been loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadState {
    /// Made by `newSession`. Nothing has happened in it; its row may be missing, or removed once it is old.
    New,
    /// In the store, not read yet.
    Stored,
    /// Locked, and shown to a client from its row and its page. Its events are folded only when something is done with
    /// it.
    Held,
    /// Locked, folded and repaired; events may be added.
    Open,
}

/// A session's place in this server.
pub(super) struct Residency {
    /// Distinguishes this actor from later ones of the same session.
    pub(super) number: u64,
    /// The registry of live sessions.
    pub(super) live_sessions: Arc<LiveSessions>,
    pub(super) stage: LoadState,
    pub(super) lock: Option<SessionLock>,
    /// The user was warned that the session continues without its lock.
    warned_unlocked: bool,
    /// Its turn runs in another server, and it was only inspected here.
    pub(super) is_running_elsewhere: bool,
    pub(super) last_used: Instant,
    /// When the server's end was announced.
    pub(super) ending_since: Option<Instant>,
    /// The session was unloaded: no command reaches it any more.
    pub(super) has_retired: bool,
    /// Callers that wait for the turn's end before the session is deleted.
    pub(super) deleting: Vec<Reply<()>>,
    /// Callers that wait for the turn's end before the session is unloaded.
    pub(super) closing: Vec<Reply<bool>>,
}

impl Residency {
    pub(super) fn new(live_sessions: Arc<LiveSessions>, stage: LoadState) -> Self {
        Self {
            number: 0,
            live_sessions,
            stage,
            lock: None,
            warned_unlocked: false,
            is_running_elsewhere: false,
            last_used: clock::now(),
            ending_since: None,
            has_retired: false,
            deleting: Vec::new(),
            closing: Vec::new(),
        }
    }

    /// Returns whether the server ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ending_since.is_some()
    }

    /// Notes that the session continues without its lock. Returns whether that is new.
    pub(super) fn note_unlocked(&mut self) -> bool {
        !std::mem::replace(&mut self.warned_unlocked, true)
    }

    /// Returns when an idle session is unloaded: after `idle` (R-SESS-6), or immediately if it was only inspected. A new
    /// session stays, because its row may be missing.
    pub(super) fn unload_at(&self, idle: Duration) -> Option<Instant> {
        match self.stage {
            LoadState::New => None,
            LoadState::Stored => Some(self.last_used),
            LoadState::Held | LoadState::Open => Some(self.last_used + idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inspected_session_is_unloaded_immediately_and_a_new_one_never() {
        let idle = Duration::from_secs(60);
        let unload_after = |stage| {
            let residency = Residency::new(Arc::default(), stage);
            let at = residency.unload_at(idle);
            at.map(|at| at - residency.last_used)
        };
        assert_eq!(unload_after(LoadState::New), None);
        assert_eq!(unload_after(LoadState::Stored), Some(Duration::ZERO));
        assert_eq!(unload_after(LoadState::Held), Some(idle));
        assert_eq!(unload_after(LoadState::Open), Some(idle));
    }

    #[test]
    fn a_missing_lock_is_reported_once() {
        let mut residency = Residency::new(Arc::default(), LoadState::New);
        assert!(residency.note_unlocked());
        assert!(!residency.note_unlocked());
    }
}
