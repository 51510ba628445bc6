//! A deadline whose clock is paused while a user is asked, and the steps that wait for the answer.
//!
//! Turns and sub-agents use it for their time limits (R-BUDGET). It must not know the turn or decide what a reached
//! limit means.

use std::time::Duration;

use crate::base::clock::Instant;
use tokio::sync::oneshot;

use crate::base::clock;
use crate::domain::InquiryId;
use crate::turn::StepInput;

/// A deadline whose clock can be paused.
#[derive(Debug, Default)]
pub(super) struct PausableDeadline {
    /// The limit; `None` never runs out.
    limit: Option<Duration>,
    used: Duration,
    /// When the clock was last started; `None` while it is paused.
    since: Option<Instant>,
    /// The inquiry that asks about the reached limit.
    inquiry: Option<InquiryId>,
    /// The step that waits for the answer.
    held_step: Option<oneshot::Sender<StepInput>>,
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

    pub(super) fn limit(&self) -> Duration {
        self.limit.unwrap_or_default()
    }

    /// The time that has counted, as of the last pause.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Notes the inquiry that asks for more time.
    pub(super) fn ask(&mut self, inquiry: InquiryId) {
        self.inquiry = Some(inquiry);
    }

    /// Returns whether a user is asked for more time.
    pub(super) fn is_asked(&self) -> bool {
        self.inquiry.is_some()
    }

    /// Returns whether this inquiry asks for more time.
    pub(super) fn is_asked_through(&self, inquiry: &InquiryId) -> bool {
        self.inquiry.as_ref() == Some(inquiry)
    }

    /// Holds a step back while a user is asked for more time. Returns the step if it may begin.
    pub(super) fn hold_step(
        &mut self,
        step: oneshot::Sender<StepInput>,
    ) -> Option<oneshot::Sender<StepInput>> {
        if self.inquiry.is_none() {
            return Some(step);
        }
        self.held_step = Some(step);
        None
    }

    /// Holds a sub-agent's step back in the same way.
    pub(super) fn hold_nested_step(&mut self, step: oneshot::Sender<()>) {
        if self.inquiry.is_some() {
            self.held_nested.push(step);
        } else {
            // The sub-agent may have been stopped meanwhile.
            let _ = step.send(());
        }
    }

    /// Adds time that another question has granted.
    pub(super) fn extend(&mut self, time: Duration) {
        if let Some(limit) = self.limit.as_mut() {
            *limit += time;
        }
    }

    /// Ends the question with this much more time. It counts from now, even if the last step overran the limit. Lets
    /// the steps of sub-agents begin, and returns the turn's own.
    pub(super) fn grant(&mut self, time: Duration) -> Option<oneshot::Sender<StepInput>> {
        self.inquiry = None;
        for step in self.held_nested.drain(..) {
            // The sub-agent may have been stopped meanwhile.
            let _ = step.send(());
        }
        self.limit = Some(self.used + time);
        self.held_step.take()
    }

    /// Ends the question without more time. The steps that wait do not begin.
    pub(super) fn refuse(&mut self) {
        self.inquiry = None;
        self.held_step = None;
        self.held_nested.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_count() {
        let mut clock = PausableDeadline::start_with_limit(Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(4)).await;
        clock.pause();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((clock.deadline(), clock.used()), (None, Duration::from_secs(4)));
        clock.resume();
        assert_eq!(clock.deadline(), Some(clock::now() + Duration::from_secs(6)));
    }

    #[tokio::test(start_paused = true)]
    async fn steps_wait_until_the_question_is_answered() {
        let mut clock = PausableDeadline::start_with_limit(Some(Duration::from_secs(1)));
        assert!(clock.hold_step(oneshot::channel().0).is_some());
        clock.ask(InquiryId::from("inq_1"));
        assert!(clock.hold_step(oneshot::channel().0).is_none());
        let (step, mut begins) = oneshot::channel();
        clock.hold_nested_step(step);
        assert!(begins.try_recv().is_err());
        assert!(clock.grant(Duration::from_secs(5)).is_some());
        assert!(begins.try_recv().is_ok());
        assert_eq!(clock.limit(), Duration::from_secs(5));
    }
}
