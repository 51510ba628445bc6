//! The decision core (R-LOOP-1): pure, exhaustive, no I/O, no clock, no randomness.
//!
//! Keeps I13: every continue has a bound, so every turn ends.

use crate::domain::{ContinueReason, TerminalReason, Transition};

/// Continuations after an answer that was cut although the limit was raised.
const MAX_RECOVERIES: u32 = 3;

/// An answer with nothing in it is asked for again so often.
const MAX_EMPTY_RETRIES: u32 = 2;

/// So often a provider may pause one turn.
const MAX_PAUSES: u32 = 5;

/// So often a refused picture is shrunk or taken out.
const MAX_IMAGE_RETRIES: u32 = 1;

/// So often a stop hook may object.
const MAX_STOP_BLOCKS: u32 = 3;

/// So many nudges in a row may bring next to nothing.
const MAX_VAIN_NUDGES: u32 = 3;

/// Fewer output tokens than this is next to nothing.
const VAIN_TOKENS: u64 = 500;

/// Hops along a route in one turn. A route is shorter; this is the bound that does not depend on it.
const MAX_HOPS: u32 = 32;

/// What one step of the loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The model asked for tools, and each has its result.
    ToolsRan,
    /// The model answered and asked for nothing.
    Answered,
    /// The answer was cut at the model's output limit.
    Truncated,
    /// The answer was cut at our 8 MiB (R-WIRE-3).
    Overlong,
    /// No text and no tool call, or reasoning only.
    Empty,
    /// The provider paused a long turn.
    Paused,
    /// The model or a filter declined.
    Refused,
    /// The prompt does not fit the window.
    PromptTooLong,
    /// The window is full, and automatic compaction is off.
    WindowFull,
    /// The API refused a picture.
    ImageRefused,
    /// The call failed for good.
    ProviderFailed,
    /// There is no provider to ask.
    NotConfigured,
    /// The model answered, and a stop hook objected.
    StopBlocked,
    /// The model answered, and a stop hook ended the turn.
    StopPrevented,
    /// A hook ended the turn.
    HookStopped,
    /// A tool failed under policy `fail`.
    ToolFailed,
    /// A sub-agent failed under policy `fail`.
    SubagentFailed,
    /// Too few sub-agents succeeded for what had to come of them.
    JoinViolated,
    /// A limit of R-BUDGET was reached, and nobody raised it.
    LimitReached(Limit),
    /// The person said stop at a limit or at a doom-loop question.
    StoppedByUser,
}

/// The limits of R-BUDGET that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Money, of the session, the day or the turn.
    Money,
    /// Tool calls.
    ToolCalls,
    /// Time.
    WallTime,
    /// Steps.
    Steps,
}

impl Limit {
    /// Why a turn ends at it.
    pub fn to_terminal_reason(self) -> TerminalReason {
        match self {
            Self::Money => TerminalReason::BudgetExceeded,
            Self::ToolCalls => TerminalReason::MaxToolCalls,
            Self::WallTime => TerminalReason::WallTime,
            Self::Steps => TerminalReason::MaxTurns,
        }
    }
}

/// What a turn may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Steps (model calls that led on) in one turn; 50 by default.
    pub max_steps: u32,
    /// How often the output limit may be raised: once to the large one, or three times to twice the last.
    pub max_escalations: u32,
    /// Output tokens that the person wants a turn to use; none lets the model end when it likes.
    pub token_target: Option<u64>,
    /// Tool calls of one turn; none by default.
    pub max_tool_calls: Option<u32>,
    /// Sub-agents of one turn, in all depths together; 100 by default.
    pub max_subagents: u32,
    /// At the limit of steps or tool calls the turn sums up, and ends degraded.
    pub degrade: bool,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            max_steps: 50,
            max_escalations: 1,
            token_target: None,
            max_tool_calls: None,
            max_subagents: 100,
            degrade: false,
        }
    }
}

/// What is possible at the end of a step, besides what the outcome says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The person said something that the model has not seen.
    pub steer_waits: bool,
    /// The model's cap and the window leave room for a larger output limit.
    pub larger_output: bool,
    /// There are old, large tool results to be replaced by stubs.
    pub collapsible: bool,
    /// The history may be summarised.
    pub compactable: bool,
    /// What was sent held pictures.
    pub pictures: bool,
    /// The route goes on.
    pub next_on_route: bool,
    /// The person set a token target, and under 90 % of it is used.
    pub under_target: bool,
    /// Output tokens of the step.
    pub output_tokens: u64,
    /// It is time to judge the progress (R-LOOP-3).
    pub reflects: bool,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnProgress {
    /// Steps taken: model calls that led on or ended the turn.
    pub steps: u32,
    escalations: u32,
    recoveries: u32,
    collapsed: bool,
    compacted: bool,
    image_retries: u32,
    empty_retries: u32,
    pauses: u32,
    hops: u32,
    stop_blocks: u32,
    /// Nudges in a row, before the last one, that brought next to nothing.
    vain_nudges: u32,
    /// Output tokens since the last nudge, before this step; none before the first.
    since_nudge: Option<u64>,
}

impl TurnProgress {
    /// How often a stop hook has objected.
    pub fn stop_blocks(&self) -> u32 {
        self.stop_blocks
    }

    /// Whether a stop hook may object once more.
    fn may_object(&self) -> bool {
        self.stop_blocks < MAX_STOP_BLOCKS
    }

    /// Nudges in a row that brought next to nothing, after this step.
    fn vain_nudges(&self, facts: &Facts) -> u32 {
        match self.since_nudge {
            Some(brought) if brought + facts.output_tokens < VAIN_TOKENS => self.vain_nudges + 1,
            Some(_) | None => 0,
        }
    }

    /// Counts a decision.
    pub fn record_transition(&mut self, transition: Transition, facts: &Facts) {
        let Transition::Continue(reason) = transition else {
            return;
        };
        let vain_nudges = self.vain_nudges(facts);
        if let Some(brought) = &mut self.since_nudge {
            *brought = brought.saturating_add(facts.output_tokens);
        }
        match reason {
            ContinueReason::NextTurn | ContinueReason::Reflection => {
                self.steps += 1;
                // Only a step that led on gives the right to make the history smaller back. The larger output
                // limit stays for the rest of the turn: to learn it anew at each step costs an answer each.
                (self.collapsed, self.compacted) = (false, false);
            }
            ContinueReason::MaxOutputTokensEscalate => self.escalations += 1,
            ContinueReason::MaxOutputTokensRecovery => self.recoveries += 1,
            ContinueReason::CollapseDrainRetry => self.collapsed = true,
            ContinueReason::ReactiveCompactRetry => self.compacted = true,
            ContinueReason::ImageRetry => self.image_retries += 1,
            ContinueReason::EmptyResponseRetry => self.empty_retries += 1,
            ContinueReason::PauseTurn => self.pauses += 1,
            ContinueReason::ModelFallback => self.hops += 1,
            // Told before the first step; it takes none.
            ContinueReason::Planning => {}
            ContinueReason::StopHookBlocking => {
                self.steps += 1;
                self.stop_blocks += 1;
            }
            ContinueReason::TokenBudgetContinuation => {
                self.steps += 1;
                (self.vain_nudges, self.since_nudge) = (vain_nudges, Some(0));
            }
        }
    }
}

/// What the outcome of a step does to the turn.
pub fn next_transition(
    progress: &TurnProgress,
    limits: &TurnLimits,
    outcome: Outcome,
    facts: &Facts,
) -> Transition {
    use ContinueReason as Go;
    use TerminalReason as End;
    match outcome {
        Outcome::ToolsRan if facts.reflects => next(progress, limits, Go::Reflection),
        Outcome::ToolsRan => next(progress, limits, Go::NextTurn),
        Outcome::Answered if facts.steer_waits => next(progress, limits, Go::NextTurn),
        Outcome::Answered if facts.under_target && progress.vain_nudges(facts) < MAX_VAIN_NUDGES => {
            next(progress, limits, Go::TokenBudgetContinuation)
        }
        Outcome::Answered => Transition::Terminal(End::Completed),
        Outcome::Truncated => {
            let escalates = facts.larger_output && progress.recoveries == 0;
            if escalates && progress.escalations < limits.max_escalations {
                Transition::Continue(Go::MaxOutputTokensEscalate)
            } else {
                continue_or_end(
                    progress.recoveries < MAX_RECOVERIES,
                    Go::MaxOutputTokensRecovery,
                    End::MaxOutputTokens,
                )
            }
        }
        Outcome::Overlong => Transition::Terminal(End::MaxOutputTokens),
        Outcome::Empty => continue_or_end(
            progress.empty_retries < MAX_EMPTY_RETRIES,
            Go::EmptyResponseRetry,
            End::EmptyResponse,
        ),
        Outcome::Paused => continue_or_end(progress.pauses < MAX_PAUSES, Go::PauseTurn, End::MaxOutputTokens),
        Outcome::Refused => Transition::Terminal(End::Refused),
        Outcome::PromptTooLong if facts.collapsible && !progress.collapsed => {
            Transition::Continue(Go::CollapseDrainRetry)
        }
        Outcome::PromptTooLong => continue_or_end(
            facts.compactable && !progress.compacted,
            Go::ReactiveCompactRetry,
            End::PromptTooLong,
        ),
        Outcome::WindowFull => Transition::Terminal(End::BlockingLimit),
        Outcome::ImageRefused => continue_or_end(
            facts.pictures && progress.image_retries < MAX_IMAGE_RETRIES,
            Go::ImageRetry,
            End::ImageError,
        ),
        Outcome::ProviderFailed => continue_or_end(
            facts.next_on_route && progress.hops < MAX_HOPS,
            Go::ModelFallback,
            End::ModelError,
        ),
        Outcome::NotConfigured => Transition::Terminal(End::NotConfigured),
        Outcome::StopBlocked if !progress.may_object() && facts.steer_waits => {
            next(progress, limits, Go::NextTurn)
        }
        Outcome::StopBlocked if !progress.may_object() => Transition::Terminal(End::Completed),
        Outcome::StopBlocked => next(progress, limits, Go::StopHookBlocking),
        Outcome::StopPrevented => Transition::Terminal(End::StopHookPrevented),
        Outcome::HookStopped => Transition::Terminal(End::HookStopped),
        Outcome::ToolFailed => Transition::Terminal(End::ToolFailed),
        Outcome::SubagentFailed => Transition::Terminal(End::SubagentFailed),
        Outcome::JoinViolated => Transition::Terminal(End::JoinViolated),
        Outcome::LimitReached(limit) => Transition::Terminal(limit.to_terminal_reason()),
        Outcome::StoppedByUser => Transition::Terminal(End::StoppedByUser),
    }
}

fn continue_or_end(may: bool, go: ContinueReason, end: TerminalReason) -> Transition {
    if may {
        Transition::Continue(go)
    } else {
        Transition::Terminal(end)
    }
}

/// Goes on with a further step, unless that was the last.
fn next(progress: &TurnProgress, limits: &TurnLimits, go: ContinueReason) -> Transition {
    // The step that has just ended counts.
    continue_or_end(
        progress.steps + 1 < limits.max_steps,
        go,
        TerminalReason::MaxTurns,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: &[Outcome] = &[
        Outcome::ToolsRan,
        Outcome::Answered,
        Outcome::Truncated,
        Outcome::Overlong,
        Outcome::Empty,
        Outcome::Paused,
        Outcome::Refused,
        Outcome::PromptTooLong,
        Outcome::WindowFull,
        Outcome::ImageRefused,
        Outcome::ProviderFailed,
        Outcome::NotConfigured,
        Outcome::StopBlocked,
        Outcome::StopPrevented,
        Outcome::HookStopped,
        Outcome::ToolFailed,
        Outcome::SubagentFailed,
        Outcome::JoinViolated,
        Outcome::LimitReached(Limit::Money),
        Outcome::LimitReached(Limit::ToolCalls),
        Outcome::LimitReached(Limit::WallTime),
        Outcome::LimitReached(Limit::Steps),
        Outcome::StoppedByUser,
    ];

    /// All that is possible is possible.
    const RICH: Facts = Facts {
        steer_waits: true,
        larger_output: true,
        collapsible: true,
        compactable: true,
        pictures: true,
        next_on_route: true,
        under_target: true,
        output_tokens: 1_000,
        reflects: false,
    };

    /// The decisions of a turn whose steps all come to `outcome`.
    fn state(outcome: Outcome, facts: &Facts) -> Vec<&'static str> {
        let limits = TurnLimits {
            max_steps: 3,
            ..TurnLimits::default()
        };
        let mut progress = TurnProgress::default();
        let mut names = Vec::new();
        loop {
            let next = next_transition(&progress, &limits, outcome, facts);
            names.push(next.reason_name());
            if let Transition::Terminal(_) = next {
                return names;
            }
            progress.record_transition(next, facts);
        }
    }

    #[test]
    fn with_nothing_to_mend_it_with() {
        let ends: Vec<&str> = ALL
            .iter()
            .map(|outcome| *state(*outcome, &Facts::default()).last().unwrap())
            .collect();
        assert_eq!(
            ends,
            [
                "max_turns",
                "completed",
                "max_output_tokens",
                "max_output_tokens",
                "empty_response",
                "max_output_tokens",
                "refused",
                "prompt_too_long",
                "blocking_limit",
                "image_error",
                "model_error",
                "not_configured",
                "max_turns",
                "stop_hook_prevented",
                "hook_stopped",
                "tool_failed",
                "subagent_failed",
                "join_violated",
                "budget_exceeded",
                "max_tool_calls",
                "wall_time",
                "max_turns",
                "stopped_by_user",
            ]
        );
    }

    #[test]
    fn each_row_goes_on_as_often_as_it_may() {
        let cut = ["max_output_tokens_recovery"; 3];
        assert_eq!(
            state(Outcome::Truncated, &RICH),
            [&["max_output_tokens_escalate"][..], &cut, &["max_output_tokens"]].concat()
        );
        assert_eq!(
            state(Outcome::Truncated, &Facts::default()),
            [&cut[..], &["max_output_tokens"]].concat()
        );
        assert_eq!(
            state(Outcome::Empty, &RICH),
            ["empty_response_retry", "empty_response_retry", "empty_response"]
        );
        assert_eq!(
            state(Outcome::Paused, &RICH),
            [&["pause_turn"; 5][..], &["max_output_tokens"]].concat()
        );
        assert_eq!(
            state(Outcome::PromptTooLong, &RICH),
            [
                "collapse_drain_retry",
                "reactive_compact_retry",
                "prompt_too_long"
            ]
        );
        assert_eq!(
            state(Outcome::ImageRefused, &RICH),
            ["image_retry", "image_error"]
        );
        assert_eq!(state(Outcome::ProviderFailed, &RICH).len(), 33);
        assert_eq!(
            state(Outcome::ToolsRan, &RICH),
            ["next_turn", "next_turn", "max_turns"]
        );
        let reflecting = Facts {
            reflects: true,
            ..RICH
        };
        assert_eq!(
            state(Outcome::ToolsRan, &reflecting),
            ["reflection", "reflection", "max_turns"]
        );
        let alone = Facts {
            steer_waits: false,
            ..RICH
        };
        assert_eq!(
            state(Outcome::Answered, &alone),
            [
                "token_budget_continuation",
                "token_budget_continuation",
                "max_turns"
            ]
        );
    }

    #[test]
    fn doubling_is_three_times() {
        let limits = TurnLimits {
            max_escalations: 3,
            ..TurnLimits::default()
        };
        let mut progress = TurnProgress::default();
        for _ in 0..3 {
            let next = next_transition(&progress, &limits, Outcome::Truncated, &RICH);
            assert_eq!(next.reason_name(), "max_output_tokens_escalate");
            progress.record_transition(next, &RICH);
        }
        let next = next_transition(&progress, &limits, Outcome::Truncated, &RICH);
        assert_eq!(next.reason_name(), "max_output_tokens_recovery");
    }

    #[test]
    fn the_right_to_compact_returns_only_after_a_step_that_led_on() {
        let limits = TurnLimits::default();
        let mut progress = TurnProgress::default();
        let mut names = Vec::new();
        for outcome in [
            Outcome::PromptTooLong,
            Outcome::PromptTooLong,
            Outcome::Truncated,
            Outcome::PromptTooLong,
        ] {
            let next = next_transition(&progress, &limits, outcome, &RICH);
            progress.record_transition(next, &RICH);
            names.push(next.reason_name());
        }
        assert_eq!(names[3], "prompt_too_long", "{names:?}");
        progress.record_transition(Transition::Continue(ContinueReason::NextTurn), &RICH);
        let next = next_transition(&progress, &limits, Outcome::PromptTooLong, &RICH);
        assert_eq!(next.reason_name(), "collapse_drain_retry");
    }

    #[test]
    fn three_vain_nudges_in_a_row_are_enough() {
        let limits = TurnLimits::default();
        let (ran, said) = (Outcome::ToolsRan, Outcome::Answered);
        // (what the steps come to, with their tokens; nudges before the turn ends)
        let cases: [(&[(Outcome, u64)], u32); 6] = [
            (&[(said, 10); 9], 3),
            // The first answer was brought by no nudge.
            (&[(said, 600), (said, 10), (said, 10), (said, 10), (said, 10)], 3),
            (
                &[
                    (said, 10),
                    (said, 10),
                    (said, 600),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                ],
                5,
            ),
            (
                &[(said, 10), (said, 499), (said, 499), (said, 499), (said, 10)],
                3,
            ),
            (
                &[
                    (said, 10),
                    (said, 500),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                ],
                4,
            ),
            // What was done with tools on the way counts.
            (
                &[
                    (said, 10),
                    (ran, 490),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                    (said, 10),
                ],
                4,
            ),
        ];
        for (steps, nudges) in cases {
            let mut progress = TurnProgress::default();
            let mut told = 0;
            for (outcome, output_tokens) in steps {
                let facts = Facts {
                    under_target: true,
                    output_tokens: *output_tokens,
                    ..Facts::default()
                };
                let next = next_transition(&progress, &limits, *outcome, &facts);
                told += u32::from(next.reason_name() == "token_budget_continuation");
                if next == Transition::Terminal(TerminalReason::Completed) {
                    break;
                }
                progress.record_transition(next, &facts);
            }
            assert_eq!(told, nudges, "{steps:?}");
        }
    }

    proptest! {
        /// I13: whatever comes, a turn takes no more steps than its limit, and no more calls than a few for each.
        #[test]
        fn every_turn_ends(
            outcomes in prop::collection::vec((0usize..ALL.len(), any::<[bool; 7]>(), 0u64..1_000), 0..300),
            max_steps in 1u32..60,
        ) {
            let limits = TurnLimits { max_steps, ..TurnLimits::default() };
            let mut progress = TurnProgress::default();
            let mut calls = 0;
            let for_ever = std::iter::repeat_n((0, [true; 7], 0), 100);
            for (n, [steer, larger, collapse, compact, picture, hop, target], tokens) in
                outcomes.into_iter().chain(for_ever)
            {
                let facts = Facts {
                    steer_waits: steer,
                    larger_output: larger,
                    collapsible: collapse,
                    compactable: compact,
                    pictures: picture,
                    next_on_route: hop,
                    under_target: target,
                    output_tokens: tokens,
                    reflects: tokens % 2 == 0,
                };
                calls += 1;
                let next = next_transition(&progress, &limits, ALL[n], &facts);
                if let Transition::Terminal(_) = next {
                    prop_assert!(progress.steps < max_steps);
                    prop_assert!(calls <= 3 * max_steps + 1 + 3 + 2 + 5 + 1 + MAX_HOPS + 1);
                    return Ok(());
                }
                progress.record_transition(next, &facts);
            }
            prop_assert!(false, "it never ended");
        }
    }
}
