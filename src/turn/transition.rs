//! The decision core of the loop (R-LOOP-1): a pure, exhaustive function from a step's outcome to the next transition.
//!
//! It performs no I/O, and reads neither a clock nor a random source. The driver in `run` gathers the [`TransitionFacts`] and
//! acts on the result.
//!
//! Keeps I13: every continue reason has a counter or a limit, so every turn ends. The property test below checks that
//! bound.

use crate::domain::{ContinueReason, TerminalReason, Transition};

/// Continuations of an answer that is still truncated at the larger output limit (R-LOOP-1).
const MAX_RECOVERIES: u32 = 3;

/// Repeated requests after an answer with neither text nor a tool call (R-LOOP-1).
const MAX_EMPTY_RETRIES: u32 = 2;

/// Times that a provider may pause one turn (R-LOOP-1).
const MAX_PAUSES: u32 = 5;

/// Times that the model is told that a tool call in its text was not recognized.
const MAX_CALL_QUESTIONS: u32 = 1;

/// Times that refused images are shrunk or replaced by text (R-LOOP-1).
const MAX_IMAGE_RETRIES: u32 = 1;

/// Times that a stop hook may object; after that the turn completes with a warning (R-LOOP-1).
const MAX_STOP_BLOCKS: u32 = 3;

/// Nudges in a row that may bring fewer than [`VAIN_TOKENS`] each (R-LOOP-1).
const MAX_VAIN_NUDGES: u32 = 3;

/// A nudge that brings fewer output tokens than this was in vain.
const VAIN_TOKENS: u64 = 500;

/// Fallbacks along the route in one turn. A real route is shorter; this bound does not depend on its length.
const MAX_HOPS: u32 = 32;

/// The result of one step of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The model requested tools, and each call has its result.
    ToolsRan,
    /// The model answered and requested no tools.
    Answered,
    /// The model answered with a tool call as text, which nobody runs.
    CallInText,
    /// The model's output limit cut the answer.
    Truncated,
    /// Our own limit of 8 MiB cut the answer (R-WIRE-3).
    Overlong,
    /// No text and no tool call, or only reasoning.
    Empty,
    Paused,
    /// The model or a content filter declined.
    Refused,
    PromptTooLong,
    WindowFull,
    ImageRefused,
    /// The call failed, and retries cannot help.
    ProviderFailed,
    /// No provider is configured.
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
    /// Fewer sub-agents succeeded than the join policy requires.
    JoinViolated,
    /// A limit of R-BUDGET was reached, and the user did not raise it.
    LimitReached(Limit),
    /// The user chose "stop" at a limit or at a doom-loop question.
    StoppedByUser,
    /// The model repeats calls that lead nowhere, whatever it is told (R-LOOP-6).
    Looping,
}

/// The limits of R-BUDGET that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// A spending limit of the session, the day, the turn or the provider account.
    Money,
    ToolCalls,
    WallTime,
    Steps,
}

impl Limit {
    /// Returns the reason with which a turn ends at this limit.
    pub fn to_terminal_reason(self) -> TerminalReason {
        match self {
            Self::Money => TerminalReason::BudgetExceeded,
            Self::ToolCalls => TerminalReason::MaxToolCalls,
            Self::WallTime => TerminalReason::WallTime,
            Self::Steps => TerminalReason::MaxTurns,
        }
    }
}

/// The configured limits of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Steps in one turn, counting only model calls that led on; 50 by default.
    pub max_steps: u32,
    /// How often the output limit may be raised: once to the large limit, or three times by doubling.
    pub max_escalations: u32,
    /// Output tokens that the user wants the turn to use. With `None` the model ends when it likes.
    pub token_target: Option<u64>,
    /// Tool calls in one turn; unlimited by default.
    pub max_tool_calls: Option<u32>,
    /// Sub-agents of one turn, at all depths together; 100 by default.
    pub max_subagents: u32,
    /// At the step or tool-call limit the turn ends with a summary as degraded, instead of failed.
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

/// The facts at the end of a step that decide, together with its outcome, what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitionFacts {
    /// The user sent a message that the model has not seen.
    pub steer_waits: bool,
    /// The model's own limit and the window leave room for a larger output limit.
    pub larger_output: bool,
    /// There are old, large tool results that stubs can replace.
    pub collapsible: bool,
    /// There are long results among the newest messages, of which the start and the end can stay.
    pub shortenable: bool,
    /// The provider refuses a request far below the known window, and does not name its own.
    pub window_unknown: bool,
    /// The history may be summarized.
    pub compactable: bool,
    /// The request contained images.
    pub pictures: bool,
    /// The route has another provider or model.
    pub next_on_route: bool,
    /// The user set a token target, and the turn has used less than 90 % of it.
    pub under_target: bool,
    pub output_tokens: u64,
    /// A reflection prompt is due (R-LOOP-3).
    pub reflects: bool,
    /// The answer has a tool call as text.
    pub call_in_text: bool,
}

/// What has made the history smaller since the last step that led on. Each is tried once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reductions {
    old_results: bool,
    summary: bool,
    newest_results: bool,
}

/// The counters of a turn, which bound its continuations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnProgress {
    /// Completed steps: model calls that led on or ended the turn.
    pub steps: u32,
    escalations: u32,
    recoveries: u32,
    reduced: Reductions,
    image_retries: u32,
    empty_retries: u32,
    call_questions: u32,
    pauses: u32,
    hops: u32,
    stop_blocks: u32,
    /// Nudges in a row that were in vain, not counting the last one.
    vain_nudges: u32,
    /// Output tokens since the last nudge, before this step; `None` before the first nudge.
    since_nudge: Option<u64>,
}

impl TurnProgress {
    /// Returns how often a stop hook has objected.
    pub fn stop_blocks(&self) -> u32 {
        self.stop_blocks
    }

    /// Returns whether recent results were shortened since the last step that led on.
    pub(super) fn has_shortened(&self) -> bool {
        self.reduced.newest_results
    }

    /// Returns whether a summary was tried since the last step that led on.
    pub(super) fn has_summarized(&self) -> bool {
        self.reduced.summary
    }

    /// Returns whether a history that is too long can be made smaller in this step.
    pub(super) fn may_reduce(&self, facts: &TransitionFacts) -> bool {
        self.may_collapse(facts) || self.may_summarize(facts) || self.may_shorten(facts)
    }

    fn may_collapse(&self, facts: &TransitionFacts) -> bool {
        facts.collapsible && self.reduced == Reductions::default()
    }

    fn may_summarize(&self, facts: &TransitionFacts) -> bool {
        // What was shortened after a summary is the last resort.
        let is_last = self.reduced.newest_results && !facts.window_unknown;
        facts.compactable && !self.reduced.summary && !is_last
    }

    fn may_shorten(&self, facts: &TransitionFacts) -> bool {
        facts.shortenable && !self.reduced.newest_results
    }

    /// Whether a stop hook may object again.
    fn may_object(&self) -> bool {
        self.stop_blocks < MAX_STOP_BLOCKS
    }

    /// Returns the number of nudges in a row that were in vain, including the last one.
    fn vain_nudges(&self, facts: &TransitionFacts) -> u32 {
        match self.since_nudge {
            Some(brought) if brought + facts.output_tokens < VAIN_TOKENS => self.vain_nudges + 1,
            Some(_) | None => 0,
        }
    }

    /// Counts a decision that continues the turn. Terminal decisions change nothing.
    pub fn record_transition(&mut self, transition: Transition, facts: &TransitionFacts) {
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
                self.call_questions += u32::from(facts.call_in_text);
                // Compaction is allowed again only after a step that led on. Otherwise an overflowing turn would
                // compact forever.
                // The raised output limit stays for the turn: learning it again costs one truncated answer per step.
                self.reduced = Reductions::default();
            }
            ContinueReason::MaxOutputTokensEscalate => self.escalations += 1,
            ContinueReason::MaxOutputTokensRecovery => self.recoveries += 1,
            ContinueReason::CollapseDrainRetry if self.may_collapse(facts) => {
                self.reduced.old_results = true;
            }
            ContinueReason::CollapseDrainRetry => self.reduced.newest_results = true,
            ContinueReason::ReactiveCompactRetry => self.reduced.summary = true,
            ContinueReason::ImageRetry => self.image_retries += 1,
            ContinueReason::EmptyResponseRetry => self.empty_retries += 1,
            ContinueReason::PauseTurn => self.pauses += 1,
            ContinueReason::ModelFallback => self.hops += 1,
            // Planning is reported before the first step and takes none.
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

/// Decides what the outcome of a step does to the turn.
pub fn next_transition(
    progress: &TurnProgress,
    limits: &TurnLimits,
    outcome: Outcome,
    facts: &TransitionFacts,
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
        Outcome::CallInText if progress.call_questions < MAX_CALL_QUESTIONS => {
            next(progress, limits, Go::NextTurn)
        }
        Outcome::CallInText => Transition::Terminal(End::ModelError),
        Outcome::Truncated => {
            // R-LOOP-1: only the first truncation escalates. After a continuation the pieces are already in the
            // history.
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
        // R-WIRE-3: the answer is kept, without escalation and without continuation.
        Outcome::Overlong => Transition::Terminal(End::MaxOutputTokens),
        Outcome::Empty => continue_or_end(
            progress.empty_retries < MAX_EMPTY_RETRIES,
            Go::EmptyResponseRetry,
            End::EmptyResponse,
        ),
        Outcome::Paused => continue_or_end(progress.pauses < MAX_PAUSES, Go::PauseTurn, End::MaxOutputTokens),
        Outcome::Refused => Transition::Terminal(End::Refused),
        // Stubs for old results cost no model call, so they come before a summary, which does.
        Outcome::PromptTooLong if progress.may_collapse(facts) => {
            Transition::Continue(Go::CollapseDrainRetry)
        }
        // If nobody knows how much must go, the request for a summary may be too long as well.
        Outcome::PromptTooLong if facts.window_unknown && progress.may_shorten(facts) => {
            Transition::Continue(Go::CollapseDrainRetry)
        }
        Outcome::PromptTooLong if progress.may_summarize(facts) => {
            Transition::Continue(Go::ReactiveCompactRetry)
        }
        // The model needs its newest results, so they are shortened only if nothing else helps.
        Outcome::PromptTooLong => continue_or_end(
            progress.may_shorten(facts),
            Go::CollapseDrainRetry,
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
        // The hook has used up its objections: the turn would complete here, unless the user has sent a message.
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
        Outcome::Looping => Transition::Terminal(End::ModelError),
    }
}

fn continue_or_end(may: bool, go: ContinueReason, end: TerminalReason) -> Transition {
    if may {
        Transition::Continue(go)
    } else {
        Transition::Terminal(end)
    }
}

/// Continues with another step, unless the current one was the last.
fn next(progress: &TurnProgress, limits: &TurnLimits, go: ContinueReason) -> Transition {
    // The step that has just ended is not counted yet.
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
        Outcome::CallInText,
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
        Outcome::Looping,
    ];

    /// Every fact allows its continuation.
    const RICH: TransitionFacts = TransitionFacts {
        steer_waits: true,
        larger_output: true,
        collapsible: true,
        shortenable: true,
        window_unknown: false,
        compactable: true,
        pictures: true,
        next_on_route: true,
        under_target: true,
        output_tokens: 1_000,
        reflects: false,
        call_in_text: false,
    };

    /// Returns the decisions of a turn whose steps all have this `outcome`.
    fn state(outcome: Outcome, facts: &TransitionFacts) -> Vec<&'static str> {
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
    fn every_outcome_ends_the_turn_when_no_recovery_is_possible() {
        let ends: Vec<&str> = ALL
            .iter()
            .map(|outcome| *state(*outcome, &TransitionFacts::default()).last().unwrap())
            .collect();
        assert_eq!(
            ends,
            [
                "max_turns",
                "completed",
                "max_turns",
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
                "model_error",
            ]
        );
    }

    #[test]
    fn each_outcome_continues_up_to_its_bound() {
        let cut = ["max_output_tokens_recovery"; 3];
        assert_eq!(
            state(Outcome::Truncated, &RICH),
            [&["max_output_tokens_escalate"][..], &cut, &["max_output_tokens"]].concat()
        );
        assert_eq!(
            state(Outcome::Truncated, &TransitionFacts::default()),
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
                "collapse_drain_retry",
                "prompt_too_long"
            ]
        );
        let unknown = TransitionFacts {
            window_unknown: true,
            ..RICH
        };
        assert_eq!(
            state(Outcome::PromptTooLong, &unknown),
            [
                "collapse_drain_retry",
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
        let reflecting = TransitionFacts {
            reflects: true,
            ..RICH
        };
        assert_eq!(
            state(Outcome::ToolsRan, &reflecting),
            ["reflection", "reflection", "max_turns"]
        );
        let written = TransitionFacts {
            call_in_text: true,
            ..RICH
        };
        assert_eq!(state(Outcome::CallInText, &written), ["next_turn", "model_error"]);
        let alone = TransitionFacts {
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
    fn the_output_limit_doubles_at_most_three_times() {
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
    fn compaction_is_allowed_again_only_after_a_next_turn_step() {
        let limits = TurnLimits::default();
        let mut progress = TurnProgress::default();
        let mut names = Vec::new();
        for outcome in [
            Outcome::PromptTooLong,
            Outcome::PromptTooLong,
            Outcome::Truncated,
            Outcome::PromptTooLong,
            Outcome::PromptTooLong,
        ] {
            let next = next_transition(&progress, &limits, outcome, &RICH);
            progress.record_transition(next, &RICH);
            names.push(next.reason_name());
        }
        assert_eq!(names[4], "prompt_too_long", "{names:?}");
        progress.record_transition(Transition::Continue(ContinueReason::NextTurn), &RICH);
        let next = next_transition(&progress, &limits, Outcome::PromptTooLong, &RICH);
        assert_eq!(next.reason_name(), "collapse_drain_retry");
    }

    #[test]
    fn three_vain_nudges_in_a_row_end_the_turn() {
        let limits = TurnLimits::default();
        let (ran, answered) = (Outcome::ToolsRan, Outcome::Answered);
        // (outcome and tokens of each step, nudges before the turn ends)
        let cases: [(&[(Outcome, u64)], u32); 6] = [
            (&[(answered, 10); 9], 3),
            // No nudge preceded the first answer.
            (
                &[
                    (answered, 600),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                ],
                3,
            ),
            (
                &[
                    (answered, 10),
                    (answered, 10),
                    (answered, 600),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                ],
                5,
            ),
            (
                &[
                    (answered, 10),
                    (answered, 499),
                    (answered, 499),
                    (answered, 499),
                    (answered, 10),
                ],
                3,
            ),
            (
                &[
                    (answered, 10),
                    (answered, 500),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                ],
                4,
            ),
            // Output tokens of tool steps in between count.
            (
                &[
                    (answered, 10),
                    (ran, 490),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                    (answered, 10),
                ],
                4,
            ),
        ];
        for (steps, nudges) in cases {
            let mut progress = TurnProgress::default();
            let mut nudge_count = 0;
            for (outcome, output_tokens) in steps {
                let facts = TransitionFacts {
                    under_target: true,
                    output_tokens: *output_tokens,
                    ..TransitionFacts::default()
                };
                let next = next_transition(&progress, &limits, *outcome, &facts);
                nudge_count += u32::from(next.reason_name() == "token_budget_continuation");
                if next == Transition::Terminal(TerminalReason::Completed) {
                    break;
                }
                progress.record_transition(next, &facts);
            }
            assert_eq!(nudge_count, nudges, "{steps:?}");
        }
    }

    proptest! {
        /// I13: for any outcomes a turn takes at most its step limit, and only a few more calls than that.
        #[test]
        fn every_turn_ends(
            outcomes in prop::collection::vec((0usize..ALL.len(), any::<[bool; 8]>(), 0u64..1_000), 0..300),
            max_steps in 1u32..60,
        ) {
            let limits = TurnLimits { max_steps, ..TurnLimits::default() };
            let mut progress = TurnProgress::default();
            let mut calls = 0;
            let for_ever = std::iter::repeat_n((0, [true; 8], 0), 100);
            for (n, [steer, larger, collapse, shorten, compact, picture, hop, target], tokens) in
                outcomes.into_iter().chain(for_ever)
            {
                let facts = TransitionFacts {
                    steer_waits: steer,
                    larger_output: larger,
                    collapsible: collapse,
                    shortenable: shorten,
                    window_unknown: tokens % 3 == 0,
                    compactable: compact,
                    pictures: picture,
                    next_on_route: hop,
                    under_target: target,
                    output_tokens: tokens,
                    reflects: tokens % 2 == 0,
                    call_in_text: ALL[n] == Outcome::CallInText,
                };
                calls += 1;
                let next = next_transition(&progress, &limits, ALL[n], &facts);
                if let Transition::Terminal(_) = next {
                    prop_assert!(progress.steps < max_steps);
                    prop_assert!(calls <= 4 * max_steps + 1 + 3 + 2 + 5 + 1 + MAX_HOPS + 1);
                    return Ok(());
                }
                progress.record_transition(next, &facts);
            }
            prop_assert!(false, "it never ended");
        }
    }
}
