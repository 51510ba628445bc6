//! The table of live sessions, shared by their manager and their actors: mailboxes, tasks, who runs, and who asks.
//!
//! One lock covers posting and unloading, so that no command is lost to an actor that leaves. It must not know what a
//! session does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use super::cancel_queue::CancelQueue;
use super::command::{CommandError, SessionCommand};
use crate::base::spawn::AbortOnDrop;
use crate::domain::{ApprovalId, InquiryId, SessionId};

/// The table of live sessions, shared with their actors.
#[derive(Default)]
pub(super) struct LiveSessions {
    live: Mutex<LiveSessionTable>,
    /// The live session of each open approval. Clients answer by the approval's id alone.
    approval_sessions: Mutex<HashMap<ApprovalId, SessionId>>,
    /// The live session of each open inquiry.
    inquiry_sessions: Mutex<HashMap<InquiryId, SessionId>>,
    running: Mutex<BTreeSet<SessionId>>,
    activity: watch::Sender<ServerActivity>,
}

/// The server's activity, for a status bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerActivity {
    /// Whether a session was ever loaded.
    pub has_sessions: bool,
    pub turns: usize,
    pub approvals: usize,
}

/// Ordered by id, so that operations on all sessions have a reproducible order.
#[derive(Default)]
pub(super) struct LiveSessionTable {
    pub(super) live: BTreeMap<SessionId, LiveSession>,
    /// The number of the actor that was started last.
    pub(super) started: u64,
    /// The server ends, and no session is loaded any more.
    pub(super) is_shutting_down: bool,
}

pub(super) struct LiveSession {
    pub(super) commands: mpsc::Sender<SessionCommand>,
    /// The number of commands posted so far.
    pub(super) posted: u64,
    pub(super) cancels: Arc<CancelQueue>,
    pub(super) task: AbortOnDrop<()>,
    /// Distinguishes the actor from an earlier one of the same session that is still leaving.
    pub(super) number: u64,
}

impl LiveSession {
    /// Posts a command.
    pub(super) fn post(&mut self, command: SessionCommand) -> Result<(), CommandError> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandError::Busy,
            mpsc::error::TrySendError::Closed(_) => CommandError::Ending,
        })?;
        self.posted += 1;
        Ok(())
    }
}

impl LiveSessions {
    /// Returns the live session that asked an open approval.
    pub(super) fn approval_session(&self, approval: &ApprovalId) -> Option<SessionId> {
        lock_ignoring_poison(&self.approval_sessions)
            .get(approval)
            .cloned()
    }

    /// Returns the live session that asked an open inquiry.
    pub(super) fn inquiry_session(&self, inquiry: &InquiryId) -> Option<SessionId> {
        lock_ignoring_poison(&self.inquiry_sessions).get(inquiry).cloned()
    }

    /// Returns the sessions with a running turn.
    pub(super) fn running_sessions(&self) -> Vec<SessionId> {
        lock_ignoring_poison(&self.running).iter().cloned().collect()
    }

    /// Subscribes to changes in the number of turns and open approvals.
    pub(super) fn subscribe_activity(&self) -> watch::Receiver<ServerActivity> {
        self.activity.subscribe()
    }

    /// Returns the ids of the live sessions, in order.
    pub(super) fn session_ids(&self) -> Vec<SessionId> {
        self.lock().live.keys().cloned().collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LiveSessionTable> {
        lock_ignoring_poison(&self.live)
    }

    /// Records that a session is loaded.
    pub(super) fn record_session(&self) {
        self.activity
            .send_if_modified(|activity| !std::mem::replace(&mut activity.has_sessions, true));
    }

    /// Records that a session has opened an approval, or with `None` that it is settled.
    pub(super) fn set_approval_session(&self, approval: &ApprovalId, session: Option<&SessionId>) {
        let mut approval_sessions = lock_ignoring_poison(&self.approval_sessions);
        match session {
            Some(session) => approval_sessions.insert(approval.clone(), session.clone()),
            None => approval_sessions.remove(approval),
        };
        let approvals = approval_sessions.len() + lock_ignoring_poison(&self.inquiry_sessions).len();
        self.activity
            .send_if_modified(|activity| std::mem::replace(&mut activity.approvals, approvals) != approvals);
    }

    /// Records that a session has opened an inquiry, or with `None` that it is settled.
    pub(super) fn set_inquiry_session(&self, inquiry: &InquiryId, session: Option<&SessionId>) {
        // Always in this order, as in `set_approval_session`: otherwise the two could deadlock.
        let approval_sessions = lock_ignoring_poison(&self.approval_sessions);
        let mut inquiry_sessions = lock_ignoring_poison(&self.inquiry_sessions);
        match session {
            Some(session) => inquiry_sessions.insert(inquiry.clone(), session.clone()),
            None => inquiry_sessions.remove(inquiry),
        };
        let approvals = approval_sessions.len() + inquiry_sessions.len();
        self.activity
            .send_if_modified(|activity| std::mem::replace(&mut activity.approvals, approvals) != approvals);
    }

    /// Records that a session's turn runs or has ended.
    pub(super) fn set_running(&self, session: &SessionId, runs: bool) {
        let mut running = lock_ignoring_poison(&self.running);
        if runs {
            running.insert(session.clone())
        } else {
            running.remove(session)
        };
        let turns = running.len();
        self.activity
            .send_if_modified(|activity| std::mem::replace(&mut activity.turns, turns) != turns);
    }

    /// Removes an idle session, unless a command was posted meanwhile. Posting happens under the same lock.
    pub(super) fn try_retire(&self, id: &SessionId, commands: &mpsc::Receiver<SessionCommand>) -> bool {
        let mut roll = self.lock();
        if !commands.is_empty() {
            return false;
        }
        if let Some(removed) = roll.live.remove(id) {
            // The session's own task calls this. It ends by itself, and dropping the handle must not abort it.
            removed.task.detach();
        }
        true
    }

    /// Removes an actor that left because its session was deleted. A newer actor of the same session stays.
    pub(super) fn remove_departed(&self, id: &SessionId, number: u64) {
        let mut roll = self.lock();
        if roll.live.get(id).is_some_and(|live| live.number == number)
            && let Some(removed) = roll.live.remove(id)
        {
            removed.task.detach();
        }
    }
}

/// Locks a mutex. These values are consistent after every statement, so a panic elsewhere does not spoil them.
fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
