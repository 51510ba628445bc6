//! The arithmetic of retries (R-PROV-1, R-PROV-2): pure, without a clock or randomness of its own.
//!
//! One [`RetryState`] lives while a step requests one answer from one provider. `turn` shows the wait, waits, and
//! makes the call. The route and the circuit are not its concern.

use std::time::Duration;

use super::error::{Disposition, ProviderError};
pub use crate::config::RetryPolicy;

/// The most that jitter adds to a wait that the provider asked for (R-PROV-1).
const RETRY_AFTER_JITTER: Duration = Duration::from_millis(250);

/// What to do after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// Wait, then make the call again.
    Retry {
        /// The number of the failed attempt; counts from 1.
        attempt: u32,
        delay: Duration,
        /// The attempts that follow the next one, if each fails in the same way.
        remaining: u32,
    },
    GiveUp {
        reason: GiveUp,
    },
}

/// Why a failed call is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The same call would fail the same way.
    NotRetryable(Disposition),
    /// All retries are used up.
    Exhausted,
    /// The call reached a time limit more often than `max_timeout_retries` allows.
    TimedOutAgain,
    /// The provider asks for a longer wait than `max_retry_after`. The error keeps that wait for the client.
    WaitTooLong(Duration),
}

/// The failed attempts of one call, and the policy that judges them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryState {
    policy: RetryPolicy,
    failed: u32,
    timed_out: u32,
}

impl RetryState {
    /// Creates the state of a call that was not attempted yet.
    pub fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            failed: 0,
            timed_out: 0,
        }
    }

    /// Returns the number of attempts that failed.
    pub fn failed_attempts(&self) -> u32 {
        self.failed
    }

    /// Counts a failed attempt and returns what to do. `unit` in `0.0..1.0` is the random draw for the jitter.
    pub fn next(&mut self, error: &ProviderError, unit: f64) -> RetryVerdict {
        self.failed = self.failed.saturating_add(1);
        match self.compute_delay(error, unit) {
            Ok(delay) => RetryVerdict::Retry {
                attempt: self.failed,
                delay,
                remaining: self.remaining_retries(error),
            },
            Err(reason) => RetryVerdict::GiveUp { reason },
        }
    }

    /// Returns the attempts after the next one, if each fails with `error`. Must agree with [`Self::compute_delay`].
    fn remaining_retries(&self, error: &ProviderError) -> u32 {
        match error.disposition() {
            Disposition::Retry => self.policy.max_retries.saturating_sub(self.failed),
            Disposition::RetryTimeout => {
                let timeouts = self.policy.max_timeout_retries.saturating_sub(self.timed_out);
                timeouts.min(self.policy.max_retries.saturating_sub(self.failed))
            }
            Disposition::Compact
            | Disposition::ShrinkImage
            | Disposition::NextOnRoute
            | Disposition::Fail => 0,
        }
    }

    fn compute_delay(&mut self, error: &ProviderError, unit: f64) -> Result<Duration, GiveUp> {
        match error.disposition() {
            Disposition::Retry => {}
            Disposition::RetryTimeout => {
                // Time limits have their own budget: each one costs up to minutes of waiting.
                self.timed_out = self.timed_out.saturating_add(1);
                if self.timed_out > self.policy.max_timeout_retries {
                    return Err(GiveUp::TimedOutAgain);
                }
            }
            other @ (Disposition::Compact
            | Disposition::ShrinkImage
            | Disposition::NextOnRoute
            | Disposition::Fail) => return Err(GiveUp::NotRetryable(other)),
        }
        if self.failed > self.policy.max_retries {
            return Err(GiveUp::Exhausted);
        }
        match error.retry_after {
            // A wait beyond the limit fails, so the route can answer sooner (R-PROV-1).
            Some(wait) if wait > self.policy.max_retry_after && !self.policy.patient => {
                Err(GiveUp::WaitTooLong(wait))
            }
            Some(wait) => Ok(wait + RETRY_AFTER_JITTER.mul_f64(unit.clamp(0.0, 1.0))),
            None => Ok(self.policy.backoff.delay_after(self.failed, unit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RetryProfile;
    use crate::provider::error::{ProviderFault, TimeoutPhase};

    fn error(fault: ProviderFault, retry_after_ms: Option<u64>) -> ProviderError {
        ProviderError {
            fault,
            provider: "p".into(),
            model: "m".into(),
            message: "x".into(),
            status: None,
            request_id: None,
            retry_after: retry_after_ms.map(Duration::from_millis),
            user_action: None,
            should_retry: None,
        }
    }

    fn delays(policy: RetryPolicy, unit: f64, tries: usize) -> Vec<Option<u64>> {
        let mut state = RetryState::new(policy);
        let failure = error(ProviderFault::Server, None);
        (0..tries)
            .map(|_| match state.next(&failure, unit) {
                RetryVerdict::Retry { delay, .. } => Some(delay.as_millis() as u64),
                RetryVerdict::GiveUp { .. } => None,
            })
            .collect()
    }

    #[test]
    fn profiles_wait_as_specified() {
        let interactive = RetryPolicy::default();
        assert_eq!(
            delays(interactive, 0.0, 4),
            [Some(1000), Some(2000), Some(4000), None]
        );
        assert_eq!(
            delays(interactive, 1.0, 4),
            [Some(1250), Some(2500), Some(5000), None]
        );
        let persistent = delays(RetryPolicy::from_profile(RetryProfile::Persistent), 0.0, 11);
        let expected = [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000, 32000, 32000];
        assert_eq!(persistent[..10], expected.map(Some));
        assert_eq!(persistent[10], None);
    }

    #[test]
    fn attempts_count_from_one() {
        let mut state = RetryState::new(RetryPolicy::default());
        let verdict = state.next(&error(ProviderFault::Overloaded, None), 0.0);
        let expected = RetryVerdict::Retry {
            attempt: 1,
            delay: Duration::from_secs(1),
            remaining: 2,
        };
        assert_eq!(verdict, expected);
        assert_eq!(state.failed_attempts(), 1);
    }

    #[test]
    fn the_wait_that_the_provider_asks_for_wins() {
        let cases = [
            // (asked for, patient, jitter, expected ms)
            (7_000, false, 0.0, Some(7_000)),
            (7_000, false, 1.0, Some(7_250)),
            (1, false, 0.5, Some(126)),
            (0, false, 0.0, Some(0)),
            (60_000, false, 0.0, Some(60_000)),
            (60_001, false, 0.0, None),
            (60_001, true, 0.0, Some(60_001)),
            (86_400_000, true, 0.0, Some(86_400_000)),
        ];
        for (requested_ms, patient, unit, expected) in cases {
            let mut state = RetryState::new(RetryPolicy {
                patient,
                ..RetryPolicy::default()
            });
            let verdict = state.next(&error(ProviderFault::Throttled, Some(requested_ms)), unit);
            match (verdict, expected) {
                (RetryVerdict::Retry { delay, .. }, Some(ms)) => assert_eq!(delay, Duration::from_millis(ms)),
                (
                    RetryVerdict::GiveUp {
                        reason: GiveUp::WaitTooLong(wait),
                    },
                    None,
                ) => {
                    assert_eq!(wait, Duration::from_millis(requested_ms));
                }
                (verdict, expected) => panic!("{requested_ms}: {verdict:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn timeouts_are_retried_once() {
        let mut state = RetryState::new(RetryPolicy::from_profile(RetryProfile::Persistent));
        assert!(matches!(
            state.next(&error(ProviderFault::TimedOut(TimeoutPhase::Gap), None), 0.0),
            RetryVerdict::Retry { .. }
        ));
        assert!(matches!(
            state.next(&error(ProviderFault::Server, None), 0.0),
            RetryVerdict::Retry { .. }
        ));
        let verdict = state.next(&error(ProviderFault::TimedOut(TimeoutPhase::Connect), None), 0.0);
        assert_eq!(
            verdict,
            RetryVerdict::GiveUp {
                reason: GiveUp::TimedOutAgain
            }
        );
    }

    #[test]
    fn max_timeout_retries_is_bounded_by_max_retries() {
        for (timeouts, retries, expected) in [(0, 3, 0), (1, 3, 1), (2, 3, 2), (9, 3, 3)] {
            let mut state = RetryState::new(RetryPolicy {
                max_retries: retries,
                max_timeout_retries: timeouts,
                ..RetryPolicy::default()
            });
            let silent = error(ProviderFault::TimedOut(TimeoutPhase::FirstEvent), None);
            let lefts: Vec<u32> = std::iter::from_fn(|| match state.next(&silent, 0.0) {
                RetryVerdict::Retry { remaining, .. } => Some(remaining),
                RetryVerdict::GiveUp { .. } => None,
            })
            .take(99)
            .collect();
            assert_eq!(
                lefts,
                (0..expected).rev().collect::<Vec<u32>>(),
                "{timeouts} {retries}"
            );
        }
    }

    #[test]
    fn reported_remaining_attempts_match_those_that_follow() {
        let server = || error(ProviderFault::Server, None);
        let silent = || error(ProviderFault::TimedOut(TimeoutPhase::Gap), None);
        for (before, last) in [
            (vec![], server()),
            (vec![], silent()),
            (vec![silent()], server()),
            (vec![server(), server()], server()),
            (vec![server(), server()], silent()),
            (vec![silent(), server()], server()),
        ] {
            let mut state = RetryState::new(RetryPolicy::default());
            for failure in &before {
                state.next(failure, 0.0);
            }
            let RetryVerdict::Retry { remaining, .. } = state.next(&last, 0.0) else {
                panic!("{before:?}");
            };
            let is_retry = |_: &u32| matches!(state.next(&last, 0.0), RetryVerdict::Retry { .. });
            let followed = (0..99).take_while(is_retry).count();
            assert_eq!(remaining as usize, followed, "{before:?}, then {last:?}");
        }
    }

    #[test]
    fn permanent_failures_are_not_retried() {
        for (fault, disposition) in [
            (ProviderFault::PromptTooLong { limit: None }, Disposition::Compact),
            (ProviderFault::ImageRefused, Disposition::ShrinkImage),
            (
                ProviderFault::QuotaExhausted { reset_at: None },
                Disposition::NextOnRoute,
            ),
            (ProviderFault::Unauthorized, Disposition::Fail),
            (ProviderFault::NotFound, Disposition::Fail),
            (ProviderFault::Tls, Disposition::Fail),
            (ProviderFault::NotTheApi, Disposition::Fail),
        ] {
            let mut state = RetryState::new(RetryPolicy::from_profile(RetryProfile::Persistent));
            let verdict = state.next(&error(fault, Some(1)), 0.0);
            assert_eq!(
                verdict,
                RetryVerdict::GiveUp {
                    reason: GiveUp::NotRetryable(disposition)
                }
            );
        }
    }

    #[test]
    fn zero_retries_give_up_after_the_first_failure() {
        let policy = RetryPolicy {
            max_retries: 0,
            ..RetryPolicy::default()
        };
        let verdict = RetryState::new(policy).next(&error(ProviderFault::Server, Some(1)), 0.0);
        assert_eq!(
            verdict,
            RetryVerdict::GiveUp {
                reason: GiveUp::Exhausted
            }
        );
    }
}
