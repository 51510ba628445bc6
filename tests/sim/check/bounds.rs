//! I13: every reason to continue the loop has its own bound (R-LOOP-1).

use super::memory::ShownTurn;
use agentls::domain::{ContinueReason, Transition};

/// The maximum number of model fallbacks in one turn.
const HOPS: u32 = 32;
/// How many consecutive low-yield nudges are a violation, and below how many output tokens a nudge counts
/// as low-yield.
const LOW_YIELD_NUDGES: (u32, u64) = (3, 500);

/// The limits that a world sets for its turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) steps: u32,
    pub(super) escalations: u32,
}

impl ShownTurn {
    /// Counts a decision to continue, and fails if it exceeds its bound.
    pub(super) fn count_transition(&mut self, transition: Transition, bounds: Bounds) -> Result<(), String> {
        use ContinueReason as Go;
        let Transition::Continue(reason) = transition else {
            return Ok(());
        };
        self.transitions += 1;
        let count = self.took.entry(reason.name()).or_default();
        *count += 1;
        let count = *count;
        let limit = match reason {
            Go::MaxOutputTokensEscalate => bounds.escalations,
            Go::MaxOutputTokensRecovery => 3,
            Go::EmptyResponseRetry => 2,
            Go::PauseTurn => 5,
            Go::ImageRetry => 1,
            Go::ModelFallback => HOPS,
            // These counts restart at each step that leads to another. Old results come before a summary, and the newest
            // after it.
            Go::CollapseDrainRetry => 2,
            Go::ReactiveCompactRetry => 1,
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
                self.low_yield_nudges = match self.nudge_tokens.replace(0) {
                    Some(nudge_tokens) if nudge_tokens < LOW_YIELD_NUDGES.1 => self.low_yield_nudges + 1,
                    Some(_) | None => 0,
                };
            }
            _ => {}
        }
        if count > limit || self.low_yield_nudges >= LOW_YIELD_NUDGES.0 {
            return Err(format!(
                "I13: turn continued with {} {count} times, after {} low-yield nudges",
                reason.name(),
                self.low_yield_nudges
            ));
        }
        // The step that ends the turn counts as well, so one fewer may lead to another.
        let extra_steps = u32::try_from(self.more_steps).unwrap_or(u32::MAX);
        let limit = bounds.steps.max(1).saturating_add(extra_steps);
        if self.steps >= limit {
            Err(format!(
                "I13: turn continued after {} steps; the limit is {limit}",
                self.steps
            ))
        } else {
            Ok(())
        }
    }
}
