//! The turn's wall-time limit (R-BUDGET). The clock is paused while a user is asked; at the limit the turn ends, or
//! the user is asked for more.
//!
//! It owns the clock and the steps that wait for the answer. Sub-agents use the same [`PausableDeadline`] for their own
//! limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::Actor;
use crate::base::clock;
use crate::domain::{
    AgentError, ErrorCode, Event, Inquiry, InquiryId, InquiryReply, LimitName, LimitReached, RequestSubject,
    TerminalReason, Transition,
};
use crate::turn::StepInput;

/// A deadline whose clock can be paused.
#[derive(Debug, Default)]
pub(super) struct PausableDeadline {
    /// The limit; `None` never runs out.
    pub(super) limit: Option<Duration>,
    used: Duration,
    /// When the clock was last started; `None` while it is paused.
    since: Option<Instant>,
    /// The inquiry that asks about the reached limit.
    pub(super) asked: Option<InquiryId>,
    /// The step that waits for the answer.
    held: Option<oneshot::Sender<StepInput>>,
    /// Steps of sub-agents that wait for the answer.
    held_nested: Vec<oneshot::Sender<()>>,
}

impl PausableDeadline {
    /// Starts a clock with this limit.
    pub(super) fn start_with_limit(limit: Option<Duration>) -> Self {
        Self {
            limit,
            since: Some(clock::now()),
            ..Self::default()
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.since? + self.limit?.saturating_sub(self.used))
    }

    pub(super) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.used += clock::now().saturating_duration_since(since);
        }
    }

    pub(super) fn resume(&mut self) {
        self.since.get_or_insert_with(clock::now);
    }
}

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
        if let Some(turn) = self.turn.as_mut()
            && turn.waiting.approvals.is_empty()
            && turn.waiting.inquiries.is_empty()
            && turn.clock.asked.is_none()
        {
            turn.clock.resume();
        }
    }

    /// Handles the reached limit. If the client takes questions, the user is asked for more time. The current step may
    /// finish meanwhile, but no further step begins.
    pub(super) fn clock_ran_out(&mut self) {
        let asks = (self.services.questions)();
        let Some(turn) = self.turn.as_mut() else { return };
        // Otherwise the passed deadline would wake the actor again and again until the answer comes.
        turn.clock.pause();
        let most = turn.clock.limit.unwrap_or_default();
        // R-BUDGET: without a client that takes questions, the limit ends the turn.
        if !asks {
            self.stop_turn(TerminalReason::WallTime);
            return;
        }
        let id = InquiryId::new_random();
        turn.clock.asked = Some(id.clone());
        let message = self.time_is_up();
        let Some(turn) = self.turn.as_mut() else { return };
        let reached = LimitReached {
            limit: LimitName::WallTime,
            used: turn.clock.used.as_secs(),
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
        let clock = self.turn.as_ref().map(|turn| &turn.clock);
        let limit = clock.and_then(|clock| clock.limit).unwrap_or_default();
        format!("the turn has run for {} s, its limit", limit.as_secs_f64())
    }

    /// Holds a step back while the user is asked for more time. Returns the step if it may begin.
    pub(super) fn hold_step(
        &mut self,
        step: oneshot::Sender<StepInput>,
    ) -> Option<oneshot::Sender<StepInput>> {
        let Some(turn) = self.turn.as_mut() else {
            return Some(step);
        };
        if turn.clock.asked.is_none() {
            return Some(step);
        }
        turn.clock.held = Some(step);
        None
    }

    /// Holds a sub-agent's step back in the same way.
    pub(super) fn nested_step(&mut self, step: oneshot::Sender<()>) {
        match self.turn.as_mut() {
            Some(turn) if turn.clock.asked.is_some() => turn.clock.held_nested.push(step),
            // The sub-agent may have been stopped meanwhile.
            Some(_) | None => _ = step.send(()),
        }
    }

    /// Applies the user's answer to a question about time.
    pub(super) fn clock_answered(&mut self, inquiry: &Inquiry, said: &InquiryReply) {
        let Some(turn) = self.turn.as_mut() else { return };
        if turn.clock.asked.as_ref() != Some(&inquiry.id) {
            // The previous turn asked and has stopped; this turn gets the additional time.
            if let (RequestSubject::Limit(reached), InquiryReply::Raise(seconds)) = (&inquiry.subject, said)
                && reached.limit == LimitName::WallTime
                && let Some(limit) = turn.clock.limit.as_mut()
            {
                *limit += Duration::from_secs(*seconds);
            }
            return;
        }
        turn.clock.asked = None;
        let held = turn.clock.held.take();
        let held_nested = std::mem::take(&mut turn.clock.held_nested);
        match said {
            InquiryReply::Raise(seconds) => {
                for step in held_nested {
                    let _ = step.send(());
                }
                let used = turn.clock.used;
                // The granted time counts from now, even if the last step overran the limit.
                turn.clock.limit = Some(used + Duration::from_secs(*seconds));
                if let Some(held) = held {
                    self.begin_step(held);
                }
            }
            InquiryReply::Accept
            | InquiryReply::Stop
            | InquiryReply::Answers(_)
            | InquiryReply::Dismissed
                if turn.control.stopping.is_none() =>
            {
                self.stop_turn(TerminalReason::StoppedByUser);
            }
            InquiryReply::Accept
            | InquiryReply::Stop
            | InquiryReply::Answers(_)
            | InquiryReply::Dismissed => {}
        }
    }
}
