//! The turn's wall time (R-BUDGET): it stands while a person is waited for, and ends the turn, or asks.

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

/// How long a turn has run, less what it waited for people.
#[derive(Debug, Default)]
pub(super) struct PausableDeadline {
    /// The limit; none: for ever.
    pub(super) limit: Option<Duration>,
    used: Duration,
    /// Since when it runs; none while it stands.
    since: Option<Instant>,
    /// The limit is reached, and this inquiry asks about it.
    pub(super) asked: Option<InquiryId>,
    /// The step that waits for the answer.
    held: Option<oneshot::Sender<StepInput>>,
    /// Steps of sub-agents that wait for it.
    held_nested: Vec<oneshot::Sender<()>>,
}

impl PausableDeadline {
    /// One that runs from now on.
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
    /// When the turn's time is up.
    pub(super) fn clock_deadline(&self) -> Option<Instant> {
        let turn = self.turn.as_ref().filter(|turn| turn.stopping.is_none())?;
        turn.clock.deadline()
    }

    /// A person is waited for.
    pub(super) fn pause_clock(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.clock.pause();
        }
    }

    /// A person has answered; the time runs on when that was the last that is waited for.
    pub(super) fn run_clock(&mut self) {
        if let Some(turn) = self.turn.as_mut()
            && turn.asks.is_empty()
            && turn.inquiries.is_empty()
            && turn.clock.asked.is_none()
        {
            turn.clock.resume();
        }
    }

    /// The time is up. Where the client takes questions the person is asked for more; what runs meanwhile goes on
    /// to the end of its step, and no further.
    pub(super) fn clock_ran_out(&mut self) {
        let asks = (self.services.questions)();
        let Some(turn) = self.turn.as_mut() else { return };
        turn.clock.pause();
        let most = turn.clock.limit.unwrap_or_default();
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

    /// The turn was stopped at its time, not by a cancel: that is a decision of the loop.
    pub(super) fn tell_stop(&mut self, reason: TerminalReason) {
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

    /// The error of a turn that has run for too long.
    pub(super) fn wall_time_error(&self) -> AgentError {
        AgentError::new(ErrorCode::WallTimeExceeded, self.time_is_up())
            .with_user_action("continue with agent/resumeTurn, or raise max_wall_time_s in the configuration")
    }

    fn time_is_up(&self) -> String {
        let clock = self.turn.as_ref().map(|turn| &turn.clock);
        let limit = clock.and_then(|clock| clock.limit).unwrap_or_default();
        format!("the turn has run for {} s, its limit", limit.as_secs_f64())
    }

    /// A step begins: it waits while the person is asked for more time. Gives back what need not wait.
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

    /// A sub-agent's step begins: it waits as the turn's own do.
    pub(super) fn nested_step(&mut self, step: oneshot::Sender<()>) {
        match self.turn.as_mut() {
            Some(turn) if turn.clock.asked.is_some() => turn.clock.held_nested.push(step),
            // It may have been stopped meanwhile.
            Some(_) | None => _ = step.send(()),
        }
    }

    /// What the person said to a question about time.
    pub(super) fn clock_answered(&mut self, inquiry: &Inquiry, said: &InquiryReply) {
        let Some(turn) = self.turn.as_mut() else { return };
        if turn.clock.asked.as_ref() != Some(&inquiry.id) {
            // Asked by the turn before, which has stopped: this one has so much more.
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
                turn.clock.limit = Some(used + Duration::from_secs(*seconds));
                if let Some(held) = held {
                    self.begin_step(held);
                }
            }
            InquiryReply::Accept
            | InquiryReply::Stop
            | InquiryReply::Answers(_)
            | InquiryReply::Dismissed
                if turn.stopping.is_none() =>
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
