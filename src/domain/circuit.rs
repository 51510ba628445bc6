//! The circuit breaker (R-PROV-5, R-TOOL-4): a pure state machine whose caller passes the clock in.
//!
//! Consecutive failures open it. While it is open, no automatic call is made. After its rest one call passes as a
//! trial, whose outcome closes the circuit or opens it again. A user may try at any time.
//! The owner decides what counts as a failure: `provider::account_health` for providers, `turn::circuit` for tools.

use std::time::Duration;

use super::event::CircuitState;
use crate::base::clock::Instant;

/// When a circuit opens, and for how long (R-PROV-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitPolicy {
    /// Consecutive failures that open it. Default 5.
    pub failures: u32,
    /// How long it stays open before a trial. Default 30 s.
    pub rest: Duration,
}

impl Default for CircuitPolicy {
    fn default() -> Self {
        Self {
            failures: 5,
            rest: Duration::from_secs(30),
        }
    }
}

/// Who asks to make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user's new prompt with no other provider to go to. It is itself the trial.
    Person,
    /// Every other caller, including automatic retries.
    Machine,
}

/// The circuit's answer to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call may proceed.
    Pass,
    /// The call may proceed as the trial with this number.
    Trial(u64),
    Refused {
        /// When a trial is due; `None` while one is running.
        until: Option<Instant>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CircuitPhase {
    Closed,
    Open { until: Instant },
    Trial { number: u64 },
}

/// The breaker of one account or other peer.
#[derive(Clone, Debug)]
pub struct Circuit {
    policy: CircuitPolicy,
    state: CircuitPhase,
    /// Consecutive failures.
    failures: u32,
    /// Trials so far; numbers them, so that an abandoned one cannot end a later one.
    trials: u64,
}

impl Circuit {
    /// Creates a closed circuit.
    pub fn new(policy: CircuitPolicy) -> Self {
        Self {
            policy,
            state: CircuitPhase::Closed,
            failures: 0,
            trials: 0,
        }
    }

    /// Replaces the policy. The state stays, but a running rest is cut to the new length.
    pub fn set_policy(&mut self, policy: CircuitPolicy, now: Instant) {
        self.policy = policy;
        if let CircuitPhase::Open { until } = &mut self.state {
            *until = (*until).min(now + policy.rest);
        }
    }

    /// Returns the state, and when an open circuit admits a trial.
    pub fn state(&self) -> (CircuitState, Option<Instant>) {
        match self.state {
            CircuitPhase::Closed => (CircuitState::Closed, None),
            CircuitPhase::Open { until } => (CircuitState::Open, Some(until)),
            CircuitPhase::Trial { .. } => (CircuitState::HalfOpen, None),
        }
    }

    /// Returns how many more consecutive failures open it; 0 when it is not closed.
    pub fn failures_left(&self) -> u32 {
        match self.state {
            CircuitPhase::Closed => self.policy.failures.saturating_sub(self.failures),
            CircuitPhase::Open { .. } | CircuitPhase::Trial { .. } => 0,
        }
    }

    /// Reports whether an automatic call would be admitted now. Does not start a trial.
    pub fn would_admit(&self, now: Instant) -> bool {
        match self.state {
            CircuitPhase::Closed => true,
            CircuitPhase::Open { until } => until <= now,
            CircuitPhase::Trial { .. } => false,
        }
    }

    /// Admits or refuses a call. The caller must follow a trial with [`Self::record_success`],
    /// [`Self::record_failure`] or [`Self::abandon_trial`]; otherwise the circuit stays half open.
    pub fn admit_call(&mut self, caller: Caller, now: Instant) -> Admission {
        match (self.state, caller) {
            (CircuitPhase::Closed, _) => Admission::Pass,
            (CircuitPhase::Open { until }, Caller::Machine) if until > now => {
                Admission::Refused { until: Some(until) }
            }
            (CircuitPhase::Trial { .. }, Caller::Machine) => Admission::Refused { until: None },
            // A user is never refused without a call (R-PROV-5). A later trial replaces an earlier one.
            (CircuitPhase::Open { .. } | CircuitPhase::Trial { .. }, _) => {
                self.trials += 1;
                self.state = CircuitPhase::Trial { number: self.trials };
                Admission::Trial(self.trials)
            }
        }
    }

    /// Records a completed call and closes the circuit, for any call: each one shows that the peer works.
    pub fn record_success(&mut self) {
        self.failures = 0;
        self.state = CircuitPhase::Closed;
    }

    /// Records that a trial has begun to be answered: other calls may proceed, rather than wait for a long answer.
    /// One more failure opens the circuit again.
    pub fn record_answer_start(&mut self) {
        // In a closed circuit only the end of an answer counts, because the answer may still break off.
        if let CircuitPhase::Trial { .. } = self.state {
            self.failures = self.policy.failures.saturating_sub(1);
            self.state = CircuitPhase::Closed;
        }
    }

    /// Records a failed call. Opens the circuit if the call was a trial or the last of the allowed failures.
    pub fn record_failure(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            CircuitPhase::Closed => self.failures >= self.policy.failures,
            // The call began before the circuit opened, so it says nothing new and must not extend the rest.
            CircuitPhase::Open { .. } => false,
            CircuitPhase::Trial { .. } => true,
        };
        if opens {
            self.state = CircuitPhase::Open {
                until: now + self.policy.rest,
            };
        }
    }

    /// Ends a trial without an outcome (a cancel, or a failure that is not the peer's), so that the next call may try.
    /// Does nothing if that trial has had its outcome or was replaced.
    pub fn abandon_trial(&mut self, trial: u64, now: Instant) {
        if self.state == (CircuitPhase::Trial { number: trial }) {
            self.state = CircuitPhase::Open { until: now };
        }
    }

    /// Closes the circuit on a user's request. Returns whether it was not closed before.
    pub fn reset(&mut self) -> bool {
        let was_closed = self.state == CircuitPhase::Closed;
        self.record_success();
        !was_closed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(now: Instant) -> Circuit {
        let mut circuit = Circuit::new(CircuitPolicy::default());
        for _ in 0..5 {
            circuit.record_failure(now);
        }
        circuit
    }

    #[test]
    fn the_fifth_consecutive_failure_opens_the_circuit() {
        let now = clock::now();
        let mut circuit = Circuit::new(CircuitPolicy::default());
        for remaining in [5, 4, 3, 2] {
            assert_eq!(circuit.failures_left(), remaining);
            circuit.record_failure(now);
        }
        circuit.record_success();
        for _ in 0..4 {
            circuit.record_failure(now);
            assert_eq!(circuit.admit_call(Caller::Machine, now), Admission::Pass);
        }
        circuit.record_failure(now);
        let until = Some(now + 30 * SECOND);
        assert_eq!(circuit.state(), (CircuitState::Open, until));
        assert_eq!(
            circuit.admit_call(Caller::Machine, now),
            Admission::Refused { until }
        );
    }

    #[test]
    fn one_trial_passes_after_the_rest_and_decides_the_state() {
        let now = clock::now();
        let later = now + 30 * SECOND;
        type Outcome = fn(&mut Circuit, Instant);
        // (name, outcome of the trial, the state after it, until)
        let cases: [(&str, Outcome, _, _); 3] = [
            (
                "succeeds",
                |circuit, _| circuit.record_success(),
                CircuitState::Closed,
                None,
            ),
            (
                "fails",
                |circuit, now| circuit.record_failure(now),
                CircuitState::Open,
                Some(later + 30 * SECOND),
            ),
            (
                "is cancelled",
                |circuit, now| circuit.abandon_trial(1, now),
                CircuitState::Open,
                Some(later),
            ),
        ];
        for (name, outcome, state, until) in cases {
            let mut circuit = open(now);
            assert!(!circuit.would_admit(later - SECOND), "{name}");
            assert!(circuit.would_admit(later), "{name}");
            assert_eq!(
                circuit.admit_call(Caller::Machine, later),
                Admission::Trial(1),
                "{name}"
            );
            assert_eq!(circuit.state().0, CircuitState::HalfOpen, "{name}");
            let refused = Admission::Refused { until: None };
            assert_eq!(circuit.admit_call(Caller::Machine, later), refused, "{name}");
            outcome(&mut circuit, later);
            assert_eq!(circuit.state(), (state, until), "{name}");
        }
    }

    #[test]
    fn a_person_may_try_while_the_circuit_is_open_or_half_open() {
        let now = clock::now();
        let mut circuit = open(now);
        assert_eq!(circuit.admit_call(Caller::Person, now), Admission::Trial(1));
        assert_eq!(circuit.admit_call(Caller::Person, now), Admission::Trial(2));
        // The second trial replaced the first, whose end no longer matters.
        circuit.abandon_trial(1, now);
        assert_eq!(circuit.state().0, CircuitState::HalfOpen);
        circuit.abandon_trial(2, now);
        assert_eq!(circuit.admit_call(Caller::Machine, now), Admission::Trial(3));
    }

    #[test]
    fn a_trial_that_breaks_after_its_start_reopens_the_circuit() {
        let now = clock::now();
        let mut circuit = open(now);
        circuit.admit_call(Caller::Person, now);
        circuit.record_answer_start();
        assert_eq!(circuit.admit_call(Caller::Machine, now), Admission::Pass);
        circuit.record_failure(now);
        assert_eq!(circuit.state().0, CircuitState::Open);
    }

    #[test]
    fn a_late_failure_does_not_extend_the_rest_and_a_late_success_closes() {
        let now = clock::now();
        let mut circuit = open(now);
        circuit.record_failure(now + 20 * SECOND);
        assert_eq!(circuit.state().1, Some(now + 30 * SECOND));
        circuit.record_success();
        assert_eq!(circuit.state().0, CircuitState::Closed);
    }

    #[test]
    fn reset_reports_whether_the_circuit_was_not_closed() {
        let now = clock::now();
        assert!(open(now).reset());
        let mut circuit = Circuit::new(CircuitPolicy::default());
        circuit.record_failure(now);
        assert!(!circuit.reset());
        assert_eq!(circuit.failures_left(), 5);
    }

    proptest! {
        /// For any sequence of calls, no machine calls during a rest, and every rest ends.
        #[test]
        fn machines_never_call_during_a_rest_and_every_rest_ends(steps in prop::collection::vec((0_u8..6, 0_u64..40), 0..80)) {
            let mut now = clock::now();
            let mut circuit = Circuit::new(CircuitPolicy::default());
            let mut trial = 0;
            for (what, seconds) in steps {
                now += Duration::from_secs(seconds);
                match what {
                    0 => circuit.record_failure(now),
                    1 => circuit.record_success(),
                    2 => circuit.abandon_trial(trial, now),
                    3 => circuit.record_answer_start(),
                    _ => {
                        let caller = if what == 4 { Caller::Person } else { Caller::Machine };
                        let before = circuit.state();
                        let admission = circuit.admit_call(caller, now);
                        if let Admission::Trial(number) = admission {
                            trial = number;
                        }
                        match before {
                            (CircuitState::Closed, _) => prop_assert_eq!(admission, Admission::Pass),
                            (CircuitState::Open, Some(until)) if until > now && caller == Caller::Machine => {
                                prop_assert_eq!(admission, Admission::Refused { until: Some(until) });
                            }
                            (CircuitState::HalfOpen, _) if caller == Caller::Machine => {
                                prop_assert_eq!(admission, Admission::Refused { until: None });
                            }
                            _ => prop_assert!(matches!(admission, Admission::Trial(_))),
                        }
                    }
                }
                if let (CircuitState::Open, Some(until)) = circuit.state() {
                    prop_assert!(until <= now + 30 * SECOND);
                }
            }
            circuit.abandon_trial(trial, now);
            prop_assert!(circuit.would_admit(now + 30 * SECOND));
        }
    }
}
