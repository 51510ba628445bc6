//! Cancels on their way to a session's actor. They bypass the mailbox, so that a full one loses none (R-CANCEL).
//!
//! A cancel that names its turn takes effect immediately: whoever knows the turn's id knows that it has started. A
//! cancel without a turn means the turn of the commands before it, and waits until those are done. If they wait for a
//! folder or the store, it cancels the running turn at once, and later the one that they start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Notify, watch};

use crate::domain::TurnId;

/// The cancels of one session that its actor has not handled yet.
#[derive(Debug, Default)]
pub(super) struct CancelQueue {
    state: Mutex<CancelQueueState>,
    wake: Notify,
    /// The number of commands before the newest cancel without a turn.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct CancelQueueState {
    /// The turn that was started last.
    turn: Option<TurnId>,
    /// The number of the command that started it; 0 if no client asked for it.
    started_by: u64,
    /// In the order in which they become due. Repeated cancels are only counted and stale ones are dropped, so there is
    /// at most one for each waiting command, and one for the turn.
    due: VecDeque<PendingCancel>,
}

#[derive(Debug)]
struct PendingCancel {
    /// The cancel is due once this many commands are done.
    after: u64,
    turn: Option<TurnId>,
    /// It was repeated, so the turn must skip graceful shutdown.
    is_repeated: bool,
    /// The turn that it has canceled before it was due.
    canceled: Option<TurnId>,
}

impl CancelQueue {
    /// Adds a cancel that was sent when `posted` commands had been posted.
    pub(super) fn request_cancel(&self, posted: u64, turn: Option<&TurnId>) {
        let mut state = self.lock();
        // A stale turn id does nothing (R-WIRE).
        if turn.is_some() && state.turn.as_ref() != turn {
            return;
        }
        let after = if turn.is_some() { 0 } else { posted };
        self.newest.send_modify(|newest| *newest = after.max(*newest));
        let same = |due: &&mut PendingCancel| due.after == after && due.turn.as_ref() == turn;
        if let Some(due) = state.due.iter_mut().find(same) {
            due.is_repeated = true;
            return;
        }
        let due = PendingCancel {
            after,
            turn: turn.cloned(),
            is_repeated: false,
            canceled: None,
        };
        match turn {
            Some(_) => state.due.push_front(due),
            None => state.due.push_back(due),
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Waits for a cancel that means the turn of command number `command`.
    pub(super) fn wait_for_cancel_of(&self, command: u64) -> BoxFuture<'static, ()> {
        let mut newest = self.newest.subscribe();
        async move {
            if newest.wait_for(|newest| *newest >= command).await.is_err() {
                // The session has ended, and with it whatever waits here.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    /// Records that a turn has started.
    pub(super) fn note_turn_started(&self, turn: &TurnId) {
        let mut state = self.lock();
        state.turn = Some(turn.clone());
        state.started_by = 0;
    }

    /// Records the number of the command that started the last turn: earlier cancels without a turn do not mean it.
    pub(super) fn note_started_by(&self, command: Option<u64>) {
        self.lock().started_by = command.unwrap_or_default();
    }

    /// Waits for the next cancel that is due when `done` commands are done. `held_up` is the running turn, if commands
    /// wait meanwhile. Dropping the future loses none.
    pub(super) async fn next(&self, done: u64, held_up: Option<TurnId>) -> Option<TurnId> {
        loop {
            let mut notified = std::pin::pin!(self.wake.notified());
            // Enabled before the check, so that a cancel between the check and the wait is not missed.
            notified.as_mut().enable();
            if let Some(turn) = self.take(done, held_up.as_ref()) {
                return turn;
            }
            notified.await;
        }
    }

    fn take(&self, done: u64, held_up: Option<&TurnId>) -> Option<Option<TurnId>> {
        let mut state = self.lock();
        let started_by = state.started_by;
        // Commands need not be done in their order.
        state
            .due
            .retain(|due| due.after > done || due.turn.is_some() || due.after >= started_by);
        while let Some(first) = state.due.front_mut().filter(|due| due.after <= done) {
            if std::mem::take(&mut first.is_repeated) {
                return Some(first.turn.clone());
            }
            let first = state.due.pop_front()?;
            // A second cancel of the same turn would skip graceful shutdown.
            if first.canceled.is_none() || first.canceled != state.turn {
                return Some(first.turn);
            }
        }
        let running = held_up?;
        let is_new = |due: &&mut PendingCancel| {
            due.after >= started_by && (due.is_repeated || due.canceled.as_ref() != Some(running))
        };
        let early = state.due.iter_mut().find(is_new)?;
        if !std::mem::take(&mut early.is_repeated) {
            early.canceled = Some(running.clone());
        }
        Some(Some(running.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, CancelQueueState> {
        // The queue is consistent after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_waits_only_for_the_commands_before_it() {
        let cancels = CancelQueue::default();
        cancels.request_cancel(2, None);
        assert_eq!(cancels.take(1, None), None);
        assert_eq!(cancels.take(2, None), Some(None));
        assert_eq!(cancels.take(9, None), None);
    }

    #[test]
    fn only_a_later_cancel_means_the_turn_of_a_command() {
        let cancels = CancelQueue::default();
        cancels.request_cancel(1, None);
        let has_come = |command| cancels.wait_for_cancel_of(command).now_or_never().is_some();
        assert_eq!([has_come(1), has_come(2)], [true, false]);
        cancels.note_turn_started(&TurnId::from("turn_1"));
        cancels.request_cancel(2, Some(&TurnId::from("turn_1")));
        assert!(!has_come(2), "this one names another turn");
        cancels.request_cancel(2, None);
        assert!(has_come(2));
    }

    #[test]
    fn a_cancel_with_a_turn_is_immediate_and_a_stale_one_is_ignored() {
        let cancels = CancelQueue::default();
        let (old, new) = (TurnId::from("turn_1"), TurnId::from("turn_2"));
        cancels.request_cancel(0, Some(&old));
        cancels.note_turn_started(&new);
        cancels.request_cancel(7, None);
        cancels.request_cancel(7, Some(&old));
        cancels.request_cancel(7, Some(&new));
        assert_eq!(cancels.take(0, None), Some(Some(new)));
        assert_eq!(cancels.take(0, None), None);
        assert_eq!(cancels.take(7, None), Some(None));
    }

    #[test]
    fn a_flood_of_cancels_counts_as_two() {
        let cancels = CancelQueue::default();
        for _ in 0..1_000 {
            cancels.request_cancel(3, None);
            cancels.request_cancel(3, Some(&TurnId::new_random()));
        }
        assert_eq!(cancels.lock().due.len(), 1);
        assert_eq!(
            [
                cancels.take(3, None),
                cancels.take(3, None),
                cancels.take(3, None)
            ],
            [Some(None), Some(None), None]
        );
    }

    #[test]
    fn a_cancel_behind_waiting_commands_reaches_the_running_turn_and_the_one_that_they_start() {
        let cancels = CancelQueue::default();
        let (running, next) = (TurnId::from("turn_1"), TurnId::from("turn_2"));
        cancels.note_turn_started(&running);
        cancels.request_cancel(2, None);
        assert_eq!(cancels.take(1, Some(&running)), Some(Some(running.clone())));
        assert_eq!(
            cancels.take(1, Some(&running)),
            None,
            "one cancel does not count as a second"
        );
        cancels.request_cancel(2, None);
        assert_eq!(cancels.take(1, Some(&running)), Some(Some(running)));
        cancels.note_turn_started(&next);
        assert_eq!(cancels.take(2, None), Some(None));
    }

    /// A slow command holds the cancel up, and a prompt after the cancel starts a turn meanwhile.
    #[test]
    fn a_cancel_does_not_mean_the_turn_of_a_later_command() {
        let cancels = CancelQueue::default();
        let (running, next) = (TurnId::from("turn_1"), TurnId::from("turn_2"));
        cancels.note_turn_started(&running);
        cancels.note_started_by(Some(1));
        cancels.request_cancel(2, None);
        assert_eq!(cancels.take(1, Some(&running)), Some(Some(running)));
        cancels.note_turn_started(&next);
        cancels.note_started_by(Some(3));
        assert_eq!(cancels.take(1, Some(&next)), None);
        assert_eq!(cancels.take(3, None), None);
        cancels.request_cancel(3, None);
        assert_eq!(cancels.take(3, None), Some(None));
    }

    #[test]
    fn a_cancel_that_was_early_does_not_count_twice() {
        let cancels = CancelQueue::default();
        let running = TurnId::from("turn_1");
        cancels.note_turn_started(&running);
        cancels.request_cancel(2, None);
        assert!(cancels.take(1, Some(&running)).is_some());
        assert_eq!(cancels.take(2, None), None);
        assert_eq!(cancels.take(9, None), None);
    }
}
