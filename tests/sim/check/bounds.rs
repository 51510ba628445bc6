//! I13: every continue of the loop has its bound, each reason its own (R-LOOP-1).

use super::seen::ShownTurn;
use agentls::domain::{ContinueReason, Transition};

/// Hops of one turn along its route.
const HOPS: u32 = 32;
/// So many nudges in a row may bring next to nothing, and how many tokens that is.
const VAIN: (u32, u64) = (3, 500);

/// What a world's turns may go on for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) steps: u32,
    pub(super) escalations: u32,
}

impl ShownTurn {
    /// Counts a decision; whether it is one too many.
    pub(super) fn count_transition(&mut self, transition: Transition, bounds: Bounds) -> Result<(), String> {
        use ContinueReason as Go;
        let Transition::Continue(reason) = transition else {
            return Ok(());
        };
        self.transitions += 1;
        let taken = self.took.entry(reason.name()).or_default();
        *taken += 1;
        let taken = *taken;
        let most = match reason {
            Go::MaxOutputTokensEscalate => bounds.escalations,
            Go::MaxOutputTokensRecovery => 3,
            Go::EmptyResponseRetry => 2,
            Go::PauseTurn => 5,
            Go::ImageRetry => 1,
            Go::ModelFallback => HOPS,
            // Once in each step that leads on.
            Go::CollapseDrainRetry | Go::ReactiveCompactRetry => 1,
            Go::StopHookBlocking => 3,
            Go::Planning => 1,
            Go::NextTurn | Go::Reflection | Go::TokenBudgetContinuation => u32::MAX,
        };
        match reason {
            Go::NextTurn | Go::Reflection => {
                for smaller in [Go::CollapseDrainRetry, Go::ReactiveCompactRetry] {
                    self.took.remove(smaller.name());
                }
                self.steps += 1;
            }
            Go::StopHookBlocking => self.steps += 1,
            Go::TokenBudgetContinuation => {
                self.steps += 1;
                self.vain = match self.brought.replace(0) {
                    Some(brought) if brought < VAIN.1 => self.vain + 1,
                    Some(_) | None => 0,
                };
            }
            _ => {}
        }
        if taken > most || self.vain >= VAIN.0 {
            return Err(format!(
                "I13: {} for the {taken}th time, {} in vain",
                reason.name(),
                self.vain
            ));
        }
        // The step that ends the turn is one too.
        let given = u32::try_from(self.more_steps).unwrap_or(u32::MAX);
        let most = bounds.steps.max(1).saturating_add(given);
        if self.steps >= most {
            Err(format!("I13: {} steps of {most} led on", self.steps))
        } else {
            Ok(())
        }
    }
}
