//! The turn's wall-time limit (R-BUDGET). The clock is paused while a user is asked; at the limit the turn ends, or
//! the user is asked for more.
//!
//! The clock is a [`super::pausable_deadline`].

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;

use super::actor::Actor;
use crate::domain::{
    AgentError, ErrorCode, Event, Inquiry, InquiryId, InquiryReply, LimitName, LimitReached, RequestSubject,
    TerminalReason, Transition,
};

impl Actor {
    /// Returns when the turn's time is up.
    pub(super) fn clock_deadline(&self) -> Option<Instant> {
        let turn = self
            .turn
            .as_ref()
            .filter(|turn| turn.control.stopping.is_none())?;
        turn.clock.deadline()
    }

    /// Pauses the turn's clock, because a user is asked.
    pub(super) fn pause_clock(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.clock.pause();
        }
    }

    /// Restarts the turn's clock, unless another question is still open.
    pub(super) fn run_clock(&mut self) {
        let awaits_any = self.questions.awaits_any();
        if let Some(turn) = self.turn.as_mut()
            && !awaits_any
            && !turn.clock.is_asked()
        {
            turn.clock.resume();
        }
    }

    /// Handles the reached limit. If the client takes questions, the user is asked for more time. The current step may
    /// finish meanwhile, but no further step begins.
    pub(super) fn clock_ran_out(&mut self) {
        let can_ask = self.services.takes_questions();
        let Some(turn) = self.turn.as_mut() else { return };
        // Otherwise the passed deadline would wake the actor again and again until the answer comes.
        turn.clock.pause();
        let most = turn.clock.limit();
        // R-BUDGET: without a client that takes questions, the limit ends the turn.
        if !can_ask {
            self.stop_turn(TerminalReason::WallTime);
            return;
        }
        let id = InquiryId::new_random();
        turn.clock.ask(id.clone());
        let message = self.time_is_up();
        let Some(turn) = self.turn.as_mut() else { return };
        let reached = LimitReached {
            limit: LimitName::WallTime,
            used: turn.clock.used().as_secs(),
            most: most.as_secs(),
            provider: None,
            model: None,
            message,
        };
        let subject = RequestSubject::Limit(reached);
        let parent = None;
        self.record_event(Event::InquiryRequested(Arc::new(Inquiry { id, subject, parent })));
    }

    /// Reports the end as a decision of the loop, if the turn ended at its time limit and not by a cancel.
    pub(super) fn record_stop(&mut self, reason: TerminalReason) {
        let detail = match reason {
            TerminalReason::WallTime => self.time_is_up(),
            TerminalReason::StoppedByUser => "stopped by the user: max_wall_time_s".to_owned(),
            _ => return,
        };
        self.record_event(Event::Transition {
            transition: Transition::Terminal(reason),
            detail: Some(detail),
        });
    }

    /// Builds the error of a turn that reached its time limit.
    pub(super) fn wall_time_error(&self) -> AgentError {
        AgentError::new(ErrorCode::WallTimeExceeded, self.time_is_up())
            .with_user_action("continue with agent/resumeTurn, or raise max_wall_time_s in the configuration")
    }

    fn time_is_up(&self) -> String {
        let limit = self
            .turn
            .as_ref()
            .map(|turn| turn.clock.limit())
            .unwrap_or_default();
        format!("the turn has run for {} s, its limit", limit.as_secs_f64())
    }

    /// Applies the user's answer to a question about time.
    pub(super) fn clock_answered(&mut self, inquiry: &Inquiry, reply: &InquiryReply) {
        let Some(turn) = self.turn.as_mut() else { return };
        if !turn.clock.is_asked_through(&inquiry.id) {
            // The previous turn asked and has stopped; this turn gets the additional time.
            if let (RequestSubject::Limit(reached), InquiryReply::Raise(seconds)) = (&inquiry.subject, reply)
                && reached.limit == LimitName::WallTime
            {
                turn.clock.extend(Duration::from_secs(*seconds));
            }
            return;
        }
        if let InquiryReply::Raise(seconds) = reply {
            if let Some(held_step) = turn.clock.grant(Duration::from_secs(*seconds)) {
                self.begin_step(held_step);
            }
            return;
        }
        turn.clock.refuse();
        if turn.control.stopping.is_none() {
            self.stop_turn(TerminalReason::StoppedByUser);
        }
    }
}
