//! Residency: how far a session is loaded, who holds it, and when it may be unloaded.
//!
//! It reads and writes nothing itself: [`super::load`] takes the lock and reads the store.

use std::sync::Arc;

use super::command::Reply;
use super::manager::LiveSessions;
use crate::base::clock;
use crate::store::SessionLock;
use tokio::time::Instant;

/// How far a session has been loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadState {
    /// Made by `newSession`. The store knows nothing of it until something happens.
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
    pub(super) warned_unlocked: bool,
    /// Its turn runs in another server, and it was only inspected here.
    pub(super) is_running_elsewhere: bool,
    pub(super) last_used: Instant,
    pub(super) is_ending: bool,
    /// Callers that wait for the turn's end before the session is deleted.
    pub(super) deleting: Vec<Reply<()>>,
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
            is_ending: false,
            deleting: Vec::new(),
        }
    }
}
