//! The running turn, as its session sees it: how to stop it, what it waits for, and what it has come to.
//!
//! The turn's own task is [`crate::turn`]; [`super::turn_events`] starts it and handles its messages.

use std::sync::Arc;

use crate::base::clock::Instant;
use tokio::sync::{mpsc, oneshot};

use super::checkpoints::TurnCheckpoints;
use super::command::TurnOutcome;
use super::pausable_deadline::PausableDeadline;
use super::services::SessionSettings;
use crate::base::CancellationToken;
use crate::base::spawn::{AbortOnDrop, TaskError};
use crate::domain::{Cost, FinalAnswer, TerminalReason, TurnId, Usage};
use crate::turn::{TurnFinish, TurnMessage, TurnStopped};

/// The running turn.
pub(super) struct ActiveTurn {
    pub(super) id: TurnId,
    pub(super) settings: SessionSettings,
    /// The session's model, as the turn knows it: when it began, or since it has chosen one itself.
    pub(super) known_model: Option<String>,
    pub(super) control: TurnControl,
    pub(super) review: PromptReview,
    pub(super) clock: PausableDeadline,
    /// The files that the turn has changed.
    pub(super) checkpoints: Arc<TurnCheckpoints>,
    pub(super) spending: TurnSpending,
    pub(super) report: TurnReport,
}

/// How a turn's task returns.
pub(super) type TurnResult = Result<Result<TurnFinish, TurnStopped>, TaskError>;

/// The turn's task, its messages, and the ways to stop it.
pub(super) struct TurnControl {
    pub(super) task: AbortOnDrop<Result<TurnFinish, TurnStopped>>,
    pub(super) messages: mpsc::Receiver<TurnMessage>,
    pub(super) cancel: CancellationToken,
    pub(super) force_cancel: CancellationToken,
    /// Why and when it was stopped from outside.
    pub(super) stopping: Option<(TerminalReason, Instant)>,
    /// The turn may end, so steers are refused.
    pub(super) is_closing: bool,
    /// How its task returned, and when. Only the list of its changes is missing.
    pub(super) returned: Option<(TurnResult, Instant)>,
}

impl TurnControl {
    /// Returns whether the turn still takes steers.
    pub(super) fn takes_steers(&self) -> bool {
        !self.is_closing && self.stopping.is_none() && self.returned.is_none()
    }
}

/// How hooks review what the user says.
pub(super) struct PromptReview {
    /// Hooks judge messages before they join the history.
    pub(super) has_prompt_hooks: bool,
    /// The key of the prompt that waits for the hooks.
    pub(super) prompt: Option<String>,
}

/// What the turn and its sub-agents have used.
#[derive(Default)]
pub(super) struct TurnSpending {
    pub(super) usage: Usage,
    pub(super) cost: Option<Cost>,
    /// Some usage was recorded.
    pub(super) has_spent: bool,
}

impl TurnSpending {
    /// Adds a call. Once a call's cost was unknown, the sum stays unknown: unknown is not zero (R-PROV-7).
    pub(super) fn add_call(&mut self, usage: Usage, cost: Option<Cost>) {
        self.usage += usage;
        self.cost = match (self.has_spent, self.cost, cost) {
            (false, _, cost) => cost,
            (true, Some(sum), Some(cost)) => Some(sum + cost),
            (true, _, _) => None,
        };
        self.has_spent = true;
    }
}

/// What the turn reports to its caller at its end.
pub(super) struct TurnReport {
    /// The caller of the turn.
    pub(super) waiter: Option<oneshot::Sender<TurnOutcome>>,
    /// Notified when the turn's end has been sent.
    pub(super) end_forwarded: Option<oneshot::Sender<()>>,
    pub(super) answer: FinalAnswer,
    /// Tokens of the conversation before and after a compaction by hand.
    pub(super) compacted: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_cost_stays_unknown_once_a_call_has_no_price() {
        let used = Usage::default();
        let mut spending = TurnSpending::default();
        spending.add_call(used, Some(Cost(2)));
        spending.add_call(used, Some(Cost(3)));
        assert_eq!(spending.cost, Some(Cost(5)));
        spending.add_call(used, None);
        spending.add_call(used, Some(Cost(1)));
        assert_eq!(spending.cost, None);
    }

    #[test]
    fn turn_cost_starts_with_the_first_call() {
        let mut spending = TurnSpending::default();
        spending.add_call(Usage::default(), None);
        assert_eq!(spending.cost, None);
        spending.add_call(Usage::default(), Some(Cost(1)));
        assert_eq!(spending.cost, None, "the first call's price was unknown");
    }
}
