//! The decision core (R-LOOP-1): pure, exhaustive, no I/O, no clock, no randomness.

use crate::domain::{ContinueReason, TerminalReason, Transition};

/// What one step of the loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The model asked for tools, and each has its result.
    ToolsRan,
    /// The model answered and asked for nothing.
    Answered,
    /// The answer was cut at the output limit (the model's, or 8 MiB of ours).
    Truncated,
    /// No text and no tool call, or reasoning only.
    Empty,
    /// The model or a filter declined.
    Refused,
    /// The call failed for good.
    ProviderFailed,
    /// There is no provider to ask.
    NotConfigured,
}

/// What a turn may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps (model calls that count) in one turn; 50 by default.
    pub max_steps: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_steps: 50 }
    }
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps taken.
    pub steps: u32,
}

/// What the outcome of a step does to the turn. `steer_waits`: the person said something that the model
/// has not seen.
pub fn transition(progress: &Progress, limits: &Limits, outcome: Outcome, steer_waits: bool) -> Transition {
    match outcome {
        Outcome::ToolsRan => next_turn(progress, limits),
        Outcome::Answered if steer_waits => next_turn(progress, limits),
        Outcome::Answered => Transition::Terminal(TerminalReason::Completed),
        Outcome::Truncated => Transition::Terminal(TerminalReason::MaxOutputTokens),
        Outcome::Empty => Transition::Terminal(TerminalReason::EmptyResponse),
        Outcome::Refused => Transition::Terminal(TerminalReason::Refused),
        Outcome::ProviderFailed => Transition::Terminal(TerminalReason::ModelError),
        Outcome::NotConfigured => Transition::Terminal(TerminalReason::NotConfigured),
    }
}

fn next_turn(progress: &Progress, limits: &Limits) -> Transition {
    if progress.steps >= limits.max_steps {
        Transition::Terminal(TerminalReason::MaxTurns)
    } else {
        Transition::Continue(ContinueReason::NextTurn)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Outcome; 7] = [
        Outcome::ToolsRan,
        Outcome::Answered,
        Outcome::Truncated,
        Outcome::Empty,
        Outcome::Refused,
        Outcome::ProviderFailed,
        Outcome::NotConfigured,
    ];

    #[test]
    fn the_table() {
        let names = |steer| -> Vec<&str> {
            let progress = Progress { steps: 1 };
            ALL.iter()
                .map(|o| transition(&progress, &Limits::default(), *o, steer).reason())
                .collect()
        };
        assert_eq!(
            names(false),
            [
                "next_turn",
                "completed",
                "max_output_tokens",
                "empty_response",
                "refused",
                "model_error",
                "not_configured"
            ]
        );
        assert_eq!(names(true)[1], "next_turn");
    }

    proptest! {
        /// I13: whatever comes, a turn takes no more steps than its limit.
        #[test]
        fn every_turn_ends(
            outcomes in prop::collection::vec((0usize..ALL.len(), any::<bool>()), 200),
            max_steps in 1u32..60,
        ) {
            let limits = Limits { max_steps };
            let mut progress = Progress::default();
            let mut ended = false;
            for (n, steer) in outcomes.into_iter().chain(std::iter::repeat_n((0, true), 100)) {
                progress.steps += 1;
                if let Transition::Terminal(_) = transition(&progress, &limits, ALL[n], steer) {
                    ended = true;
                    break;
                }
            }
            prop_assert!(ended);
            prop_assert!(progress.steps <= max_steps);
        }
    }
}
