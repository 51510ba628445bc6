//! Records the phase of each turn and the faults it met, for the coverage table. Checks nothing.

use super::Checker;
use crate::coverage::{SeenConditions, SimFault, TurnPhase};
use agentls::domain::{
    DecisionKind, Delta, Event, Inquiry, LimitName, RequestSubject, ResolvedBy, SessionId, ToolCallStatus,
    Transition, TurnId,
};
use agentls::store::StoredEvent;

impl Checker {
    /// Records a durable event of a turn. `was_cut`: a crash cut the turn.
    pub(super) fn goes_on(&mut self, session: &SessionId, stored: &StoredEvent, was_cut: bool) {
        let (degraded, ending) = (self.degraded, self.ending);
        let Some(turn) = &stored.turn else { return };
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        let known = shown_session.turns.entry(turn.clone()).or_default();
        // Calls run in parallel: the result of one does not end the hook of another.
        let tools = match known.hooks {
            0 => TurnPhase::Tools,
            _ => TurnPhase::Hook,
        };
        let conditions = &mut known.conditions;
        if degraded {
            conditions.add_fault(SimFault::Disk);
        }
        match &stored.event {
            // A wait for a slow hook.
            Event::Wait { .. } if conditions.phase == TurnPhase::Hook => {}
            Event::Retry { .. } | Event::Wait { .. } => conditions.phase = TurnPhase::Waiting,
            // An inquiry about a time limit does not pause the turn before its next step.
            Event::InquiryRequested(inquiry) if !is_wall_time_limit(inquiry) && inquiry.parent.is_none() => {
                conditions.phase = TurnPhase::Question;
            }
            // The results of a sub-agent's calls leave the turn in its tool phase.
            Event::ToolCall(update) if update.parent.is_some() => {}
            Event::ToolCall(update) => match update.status {
                // A denied or canceled call does not change the turn's phase.
                ToolCallStatus::Pending | ToolCallStatus::Denied | ToolCallStatus::Cancelled => {}
                ToolCallStatus::AwaitingApproval => conditions.phase = TurnPhase::Question,
                ToolCallStatus::Running | ToolCallStatus::Completed => conditions.phase = tools,
                ToolCallStatus::Failed => {
                    conditions.phase = tools;
                    conditions.add_fault(SimFault::Tool);
                }
            },
            Event::ApprovalResolved { decision, by, .. }
                if decision.kind == DecisionKind::Deny && *by == ResolvedBy::Person =>
            {
                conditions.add_fault(SimFault::Denied);
            }
            Event::Transition {
                transition: decision @ Transition::Continue(_),
                ..
            } => self.coverage.record_decision(*decision, conditions),
            Event::Transition {
                transition: Transition::Terminal(reason),
                ..
            } => conditions.note_closing(*reason),
            Event::TurnEnded(end) => {
                if was_cut {
                    conditions.add_fault(SimFault::Crashed);
                }
                if ending {
                    conditions.add_fault(SimFault::Ended);
                }
                conditions.note_end(end.reason);
                self.coverage
                    .record_decision(Transition::Terminal(end.reason), conditions);
            }
            _ => {}
        }
    }

    /// Records a delta of a turn's message.
    pub(super) fn note_delta(&mut self, session: &SessionId, turn: &TurnId, delta: &Delta) {
        if matches!(delta, Delta::ToolOutput { .. }) {
            return;
        }
        if let Some(conditions) = self.satisfied_joins(session, Some(turn)) {
            conditions.phase = TurnPhase::Streaming;
        }
    }

    /// The session's running turn calls a provider.
    pub(super) fn note_provider_call(&mut self, session: &SessionId) {
        if let Some(conditions) = self.satisfied_joins(session, None) {
            conditions.phase = TurnPhase::Asking;
        }
    }

    /// The session's running turn calls a provider for a compaction summary.
    pub(super) fn note_compaction_call(&mut self, session: &SessionId) {
        if let Some(conditions) = self.satisfied_joins(session, None) {
            conditions.phase = TurnPhase::Compacting;
        }
    }

    /// A fault affects the session's running turn.
    pub(crate) fn note_fault(&mut self, session: &SessionId, fault: SimFault) {
        if let Some(conditions) = self.satisfied_joins(session, None) {
            conditions.add_fault(fault);
        }
    }

    fn satisfied_joins(&mut self, session: &SessionId, turn: Option<&TurnId>) -> Option<&mut SeenConditions> {
        let shown_session = self.sessions.get_mut(session)?;
        let turn = turn.or(shown_session.fold.turns.open_turn.as_ref())?;
        Some(&mut shown_session.turns.get_mut(turn)?.conditions)
    }
}

fn is_wall_time_limit(inquiry: &Inquiry) -> bool {
    matches!(&inquiry.subject, RequestSubject::Limit(reached) if reached.limit == LimitName::WallTime)
}
