//! What a session shows of itself: its state, its open questions, and what it has counted.

use std::sync::PoisonError;

use super::actor::Actor;
use super::command::{CommandError, OpenQuestions, SessionSnapshot};
use super::residency::LoadState;
use crate::base::clock;
use crate::domain::{TerminalReason, TurnId};

impl Actor {
    pub(super) fn resumable_turn(&self) -> Result<TurnId, CommandError> {
        match &self.state.turns.last_end {
            Some((
                turn,
                TerminalReason::AbortedStreaming
                | TerminalReason::AbortedTools
                | TerminalReason::ServerStopped
                | TerminalReason::WallTime
                | TerminalReason::StoppedByUser,
            )) if self.residency.stage != LoadState::Open || !self.state.history.is_empty() => {
                Ok(turn.clone())
            }
            _ => Err(CommandError::NothingToResume),
        }
    }

    /// Returns the running turn and the resumable one. A turn that a crash cut has no end yet.
    fn running_and_resumable_turns(&self) -> (Option<TurnId>, Option<TurnId>) {
        if let Some(turn) = &self.turn {
            return (Some(turn.id.clone()), None);
        }
        match &self.state.turns.open_turn {
            Some(open) if self.residency.is_running_elsewhere => (Some(open.clone()), None),
            Some(open) => (None, Some(open.clone())),
            None => (None, self.resumable_turn().ok()),
        }
    }

    /// Returns whether a turn has started.
    pub(super) fn has_begun(&self) -> bool {
        let turns = &self.state.turns;
        self.turn.is_some() || turns.open_turn.is_some() || turns.last_end.is_some()
    }

    pub(super) fn to_snapshot(&self) -> SessionSnapshot {
        let (turn, resumable) = self.running_and_resumable_turns();
        let mut metrics = self.metrics.clone();
        metrics.usage = self.state.spending.usage;
        metrics.cost = self.state.spending.cost;
        let counts = self.state.counts.clone();
        // Calls of this process are counted where they are made, including those that left no event.
        metrics.requests = match self.resources.statistics.requests.get() {
            0 => counts.requests,
            requests => requests,
        };
        metrics.retries = counts.retries;
        metrics.compactions = counts.compactions;
        metrics.cancels = counts.cancels;
        metrics.tool_calls = counts.tool_calls;
        metrics.errors = counts.errors;
        SessionSnapshot {
            info: self.info.clone(),
            choice: self.state.choice.clone(),
            seq: self.journal.seq(),
            has_begun: self.has_begun(),
            turn,
            resumable,
            questions: OpenQuestions {
                approvals: self.state.open.approvals.clone(),
                decided: self.questions.decided_ids(),
                inquiries: self.state.open.inquiries.clone(),
                replied: self.questions.replied_ids(),
            },
            queue: self.queue_state(),
            instructions: self.state.instructions.clone(),
            grants: self.questions.session_grants(),
            metrics,
            circuits: {
                let circuits = self
                    .resources
                    .statistics
                    .circuits
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                circuits.open_circuit_views(clock::now(), clock::wall_ms())
            },
        }
    }
}
