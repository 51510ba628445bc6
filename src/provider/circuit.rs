//! The circuit breaker (R-PROV-5): a pure state machine, the clock is passed in.
//!
//! So many failures in a row open it; while it is open nothing is called; after its rest one call passes as a
//! trial, whose outcome closes it or opens it again. A person may try at any time. What counts as a failure is
//! its owner's matter: see `standing` for providers.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::domain::CircuitState;

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitPolicy {
    /// Failures in a row that open it. Default 5.
    pub failures: u32,
    /// How long nothing is called. Default 30 s.
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

/// Who wants to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A person's new prompt, with nowhere else to go: it is itself the trial.
    Person,
    /// Everything else.
    Machine,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Pass,
    /// It may, as a trial of that number.
    Trial(u64),
    /// It may not.
    Refused {
        /// When a trial is due; none while one is under way.
        until: Option<Instant>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CircuitPhase {
    Closed,
    Open { until: Instant },
    Trial { number: u64 },
}

/// A circuit.
#[derive(Clone, Debug)]
pub struct Circuit {
    policy: CircuitPolicy,
    state: CircuitPhase,
    /// Failures in a row.
    failures: u32,
    trials: u64,
}

impl Circuit {
    /// A closed one.
    pub fn new(policy: CircuitPolicy) -> Self {
        Self {
            policy,
            state: CircuitPhase::Closed,
            failures: 0,
            trials: 0,
        }
    }

    /// The policy changes; the state stays, and no rest is longer than the new one.
    pub fn set_policy(&mut self, policy: CircuitPolicy, now: Instant) {
        self.policy = policy;
        if let CircuitPhase::Open { until } = &mut self.state {
            *until = (*until).min(now + policy.rest);
        }
    }

    /// How it stands, and when an open one lets a trial through.
    pub fn state(&self) -> (CircuitState, Option<Instant>) {
        match self.state {
            CircuitPhase::Closed => (CircuitState::Closed, None),
            CircuitPhase::Open { until } => (CircuitState::Open, Some(until)),
            CircuitPhase::Trial { .. } => (CircuitState::HalfOpen, None),
        }
    }

    /// Failures in a row so far.
    pub fn failure_count(&self) -> u32 {
        self.failures
    }

    /// So many further failures in a row open it; 0 when it is not closed.
    pub fn failures_left(&self) -> u32 {
        match self.state {
            CircuitPhase::Closed => self.policy.failures.saturating_sub(self.failures),
            CircuitPhase::Open { .. } | CircuitPhase::Trial { .. } => 0,
        }
    }

    /// Whether a machine's call would be let through now.
    pub fn would_admit(&self, now: Instant) -> bool {
        match self.state {
            CircuitPhase::Closed => true,
            CircuitPhase::Open { until } => until <= now,
            CircuitPhase::Trial { .. } => false,
        }
    }

    /// Asks whether a call may be made. A trial must be followed by [`Self::record_success`], [`Self::record_failure`] or
    /// [`Self::abandon_trial`].
    pub fn admit_call(&mut self, caller: Caller, now: Instant) -> Admission {
        match (self.state, caller) {
            (CircuitPhase::Closed, _) => Admission::Pass,
            (CircuitPhase::Open { until }, Caller::Machine) if until > now => {
                Admission::Refused { until: Some(until) }
            }
            (CircuitPhase::Trial { .. }, Caller::Machine) => Admission::Refused { until: None },
            // A person is never refused without a call; a later trial takes the place of an earlier one.
            (CircuitPhase::Open { .. } | CircuitPhase::Trial { .. }, _) => {
                self.trials += 1;
                self.state = CircuitPhase::Trial { number: self.trials };
                Admission::Trial(self.trials)
            }
        }
    }

    /// A call has come to its end, whichever: what was called works.
    pub fn record_success(&mut self) {
        self.failures = 0;
        self.state = CircuitPhase::Closed;
    }

    /// A trial has begun to be answered: others may call again. Should it break after all, that one failure
    /// opens the circuit again.
    pub fn record_answer_start(&mut self) {
        if let CircuitPhase::Trial { .. } = self.state {
            self.failures = self.policy.failures.saturating_sub(1);
            self.state = CircuitPhase::Closed;
        }
    }

    /// A call has failed.
    pub fn record_failure(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            CircuitPhase::Closed => self.failures >= self.policy.failures,
            // A call that was begun before it opened: it says nothing new.
            CircuitPhase::Open { .. } => false,
            CircuitPhase::Trial { .. } => true,
        };
        if opens {
            self.state = CircuitPhase::Open {
                until: now + self.policy.rest,
            };
        }
    }

    /// A trial was given up without an outcome (a cancel, a failure that is not the other side's): the next call
    /// may try.
    pub fn abandon_trial(&mut self, trial: u64, now: Instant) {
        if self.state == (CircuitPhase::Trial { number: trial }) {
            self.state = CircuitPhase::Open { until: now };
        }
    }

    /// A person says that it is well again; whether it was not closed.
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
    fn the_fifth_failure_in_a_row_opens_it() {
        let now = clock::now();
        let mut circuit = Circuit::new(CircuitPolicy::default());
        for left in [5, 4, 3, 2] {
            assert_eq!(circuit.failures_left(), left);
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
    fn after_its_rest_one_call_tries() {
        let now = clock::now();
        let later = now + 30 * SECOND;
        type Outcome = fn(&mut Circuit, Instant);
        // (what becomes of the trial, the state after it, until)
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
    fn a_person_may_try_at_once_and_again() {
        let now = clock::now();
        let mut circuit = open(now);
        assert_eq!(circuit.admit_call(Caller::Person, now), Admission::Trial(1));
        assert_eq!(circuit.admit_call(Caller::Person, now), Admission::Trial(2));
        // The first is not waited for any more.
        circuit.abandon_trial(1, now);
        assert_eq!(circuit.state().0, CircuitState::HalfOpen);
        circuit.abandon_trial(2, now);
        assert_eq!(circuit.admit_call(Caller::Machine, now), Admission::Trial(3));
    }

    #[test]
    fn a_trial_that_breaks_in_the_middle_opens_it_again_at_once() {
        let now = clock::now();
        let mut circuit = open(now);
        circuit.admit_call(Caller::Person, now);
        circuit.record_answer_start();
        assert_eq!(circuit.admit_call(Caller::Machine, now), Admission::Pass);
        circuit.record_failure(now);
        assert_eq!(circuit.state().0, CircuitState::Open);
    }

    #[test]
    fn what_was_begun_before_it_opened_neither_lengthens_its_rest_nor_decides_for_the_trial() {
        let now = clock::now();
        let mut circuit = open(now);
        circuit.record_failure(now + 20 * SECOND);
        assert_eq!(circuit.state().1, Some(now + 30 * SECOND));
        circuit.record_success();
        assert_eq!(circuit.state().0, CircuitState::Closed);
    }

    #[test]
    fn a_reset_tells_whether_it_mattered() {
        let now = clock::now();
        assert!(open(now).reset());
        let mut circuit = Circuit::new(CircuitPolicy::default());
        circuit.record_failure(now);
        assert!(!circuit.reset());
        assert_eq!(circuit.failures_left(), 5);
    }

    proptest! {
        /// However calls come and go: a machine never calls while it rests, and a rest always ends.
        #[test]
        fn it_rests_and_its_rest_ends(steps in prop::collection::vec((0_u8..6, 0_u64..40), 0..80)) {
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
