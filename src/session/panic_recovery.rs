//! A panic of a session's actor, which only a bug can cause: its turn fails with the reason, and the session goes on as
//! the store has it.
//!
//! What the actor had in memory may be inconsistent, so none of it is kept. Commands that it had taken fail; those that
//! wait in its mailbox are performed after the reload. It must not know what an actor does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use futures::stream::FuturesUnordered;

use super::actor::{Actor, STOP_LIMIT};
use super::residency::LoadState;
use crate::base::clock;
use crate::base::spawn::{TaskError, panic_text};

impl Actor {
    /// Runs until the session is idle, deleted, or the server ends, and survives panics.
    pub(super) async fn run_guarded(mut self) {
        while let Err(panic) = AssertUnwindSafe(self.run()).catch_unwind().await {
            self = self.restart_after(panic_text(panic.as_ref())).await;
        }
        self.shut_down().await;
    }

    /// Ends the turn, stores what was recorded, and returns an actor that reads the session from the store.
    async fn restart_after(mut self, panic: String) -> Self {
        tracing::error!(session = %self.info.id, panic, "a bug in agentls stopped the session; it is loaded again");
        self.mailbox.queue.clear();
        self.mailbox.io = FuturesUnordered::new();
        self.abort_turn().await;
        let failed = Err(TaskError::Panicked(panic));
        // What may be wrong again: without an end, the next load ends the turn.
        if catch_unwind(AssertUnwindSafe(|| self.settle_end(failed))).is_err() {
            tracing::error!(session = %self.info.id, "the turn could not be ended");
            self.turn = None;
        }
        let live_sessions = self.residency.live_sessions.clone();
        live_sessions.set_running(&self.info.id, false);
        // The store does not know a session in which nothing has happened.
        let is_new = self.residency.stage == LoadState::New;
        if AssertUnwindSafe(self.release()).catch_unwind().await.is_err() {
            tracing::error!(session = %self.info.id, "the session could not be unloaded in order");
        }
        let stage = if is_new { LoadState::New } else { LoadState::Stored };
        let commands = self.mailbox.commands;
        let mut next = Self::new(self.info, self.services, live_sessions, commands, stage);
        next.mailbox.queue = self.mailbox.queue;
        next.mailbox.cancels = self.mailbox.cancels;
        next.residency.number = self.residency.number;
        next.residency.ending_since = self.residency.ending_since;
        if is_new {
            next.state.choice = self.state.choice;
        }
        next
    }

    /// Stops the turn's task, so that nothing of it happens after the turn's end.
    async fn abort_turn(&mut self) {
        let Some(turn) = self.turn.as_mut() else { return };
        turn.control.task.abort();
        while !turn.control.task.is_finished() {
            // Its messages are not read any more, and it may wait for room to send them.
            let message = clock::timeout(STOP_LIMIT, turn.control.messages.recv()).await;
            if !matches!(message, Ok(Some(_))) {
                break;
            }
        }
    }
}
