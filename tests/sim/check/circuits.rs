//! Provider circuits (R-PROV-5): from what a provider answered, infers whether its circuit may, must or
//! cannot be open.
//!
//! The model is independent of the real one and coarser: after a trial call that may have closed the circuit,
//! it accepts both states.

use super::Checker;
use agentls::domain::CircuitState;

/// How a provider handled a call, as the simulator observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedCall {
    /// The provider started to answer.
    Begins,
    /// The provider answered in full.
    Well,
    /// The provider failed in a way that counts toward its circuit.
    Failed,
}

/// A circuit, as inferred from outside.
#[derive(Default)]
pub(super) struct ShownCircuit {
    /// Counted failures since the last complete answer.
    failures: u32,
    may_be_open: bool,
    must_be_open: bool,
}

impl Checker {
    /// The server calls a provider whose circuit is in this state.
    pub(crate) fn check_circuit_state(&mut self, provider: &str, state: CircuitState) {
        let known = self.circuits.entry(provider.to_owned()).or_default();
        let is_closed = state == CircuitState::Closed;
        let is_consistent = if is_closed {
            !known.must_be_open
        } else {
            known.may_be_open
        };
        if state == CircuitState::Open || !is_consistent {
            let failures = known.failures;
            self.record_violation(format!(
                "R-PROV-5: {provider} was called while its circuit was {state:?}, after {failures} failures"
            ));
        }
    }

    /// Records the result of a provider call.
    pub(crate) fn observe_call_end(&mut self, provider: &str, observed: ObservedCall) {
        let bound = self.circuit_failures;
        let known = self.circuits.entry(provider.to_owned()).or_default();
        match observed {
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
