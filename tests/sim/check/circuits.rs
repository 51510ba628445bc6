//! Circuits of providers (R-PROV-5): whether one may be, must be or cannot be closed, by what its provider has said.
//! A model of its own, coarser than the real one: where a trial may have closed it, both is right.

use super::Checker;
use agentls::domain::CircuitState;

/// What a provider did with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedCall {
    /// It has begun to answer.
    Begins,
    /// It has answered.
    Well,
    /// It has failed in a way that counts.
    Failed,
}

/// A circuit, from outside.
#[derive(Default)]
pub(super) struct ShownCircuit {
    /// Failures that count since the last answer.
    failures: u32,
    may_be_open: bool,
    must_be_open: bool,
}

impl Checker {
    /// A provider is called whose circuit stands so.
    pub(crate) fn circuit_stands(&mut self, provider: &str, state: CircuitState) {
        let known = self.circuits.entry(provider.to_owned()).or_default();
        let is_closed = state == CircuitState::Closed;
        let fits = if is_closed {
            !known.must_be_open
        } else {
            known.may_be_open
        };
        if state == CircuitState::Open || !fits {
            let failures = known.failures;
            self.record_violation(format!(
                "R-PROV-5: {provider} is called, its circuit is {state:?} after {failures} failures in a row"
            ));
        }
    }

    /// What came of a call.
    pub(crate) fn circuit_hears(&mut self, provider: &str, heard: ObservedCall) {
        let bound = self.circuit_failures;
        let known = self.circuits.entry(provider.to_owned()).or_default();
        match heard {
            ObservedCall::Begins => known.must_be_open = false,
            ObservedCall::Well => *known = ShownCircuit::default(),
            ObservedCall::Failed => {
                known.failures = known.failures.saturating_add(1);
                if known.failures >= bound {
                    (known.may_be_open, known.must_be_open) = (true, true);
                }
            }
        }
    }
}
