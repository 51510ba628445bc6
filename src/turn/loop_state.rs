//! The state of a turn in the loop: its progress, and what it has changed about its requests.
//!
//! Pure: no I/O. It owns the output limit (R-LOOP-1), the token estimate with its correction (R-CTX-1). What follows a step is `transition`'s decision.

use std::sync::Arc;

use super::admission::ProviderAccess;
use super::calibration::TokenCalibration;
use super::environment_state::EnvironmentState;
use super::model_choice::ResolvedModel;
use super::policy::PolicyState;
use super::route::Route;
use super::settings::ContextPolicy;
use super::transition::{TransitionFacts, TurnLimits, TurnProgress};
use super::usage_meter::UsageMeter;
use crate::context::{ContextSizes, compact, estimate_text};
use crate::domain::Transition;
use crate::provider::{HistoryItem, ModelRequest, is_thinking_enabled};

/// Failed summaries in a row after which automatic compaction is disabled for the session (R-CTX-2).
pub(super) const MAX_FAILED_COMPACTIONS: u32 = 3;

/// The output limit of a first request, in tokens (R-LOOP-1). The limit itself costs nothing; an answer that was cut off
/// does.
const FIRST_OUTPUT: u32 = 32_000;

/// The output limit after a rejected one, if the provider does not name its own, in tokens.
const SMALL_OUTPUT: u32 = 8_000;

/// The output limit after a truncated answer, and with reasoning on, in tokens (R-LOOP-1).
const LARGE_OUTPUT: u32 = 64_000;

/// The smallest output limit that is requested, however full the window is.
const LEAST_OUTPUT: u32 = 1_024;

/// A larger limit must exceed the current one by more than a quarter (one in `GAIN`). With less gain, the answer would
/// be retracted only to be truncated again a few words later.
const GAIN: u32 = 4;

/// Tokens of the window that stay free in addition to the estimate and the answer (R-LOOP-1).
const SPARE: u64 = 1_000;

/// The percentage of a token target that counts as reached (R-LOOP-1).
const TARGET_PERCENT: u64 = 90;

/// The plausible range of counted tokens per estimated token. A mock server, or usage that omits cached tokens, falls
/// outside.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.25..=4.0;

/// How many tokens a request has, corrected by what the provider has counted.
struct TokenEstimator {
    /// Estimated tokens of the system prompt and the tools.
    prefix: u64,
    /// Counted tokens per estimated token; 1 until the provider has reported usage.
    correction: f64,
    /// The same ratios, shared with the session's other turns.
    calibration: Arc<TokenCalibration>,
}

/// Whether the history may be made smaller.
pub(super) struct CompactionState {
    /// Automatically.
    is_automatic: bool,
    /// Compactions of the session that failed in a row.
    pub(super) failures: u32,
    /// The history was summarized since the last step that led on. Summarizing it again before the call would save
    /// little.
    pub(super) is_recent: bool,
}

/// The mutable state of a running turn.
pub(super) struct LoopState {
    pub(super) model: ResolvedModel,
    pub(super) progress: TurnProgress,
    pub(super) used: Arc<UsageMeter>,
    pub(super) max_output: u32,
    /// Tokens of the last request, as the provider counted them.
    pub(super) context: u64,
    pub(super) conduct: PolicyState,
    tokens: TokenEstimator,
    pub(super) compaction: CompactionState,
    pub(super) environment: EnvironmentState,
    /// Steps that the user granted beyond the limit.
    more_steps: u32,
    pub(super) route: Route,
    pub(super) access: ProviderAccess,
}

impl LoopState {
    pub(super) fn new(model: ResolvedModel, floor: u64, auto_compact: bool) -> Self {
        Self {
            max_output: first_output(&model),
            route: Route::new(model.clone(), None),
            access: ProviderAccess::default(),
            used: Arc::new(UsageMeter::new(model.info.window)),
            model,
            progress: TurnProgress::default(),
            context: 0,
            conduct: PolicyState::default(),
            tokens: TokenEstimator {
                prefix: floor,
                correction: 1.0,
                calibration: Arc::default(),
            },
            environment: EnvironmentState::default(),
            compaction: CompactionState {
                is_automatic: auto_compact,
                failures: 0,
                is_recent: false,
            },
            more_steps: 0,
        }
    }

    /// Adopts what the session has counted before, and keeps it up to date.
    pub(super) fn adopt_calibration(&mut self, counting: Arc<TokenCalibration>) {
        self.tokens.correction = counting.ratio_for(&self.model.label());
        counting.limit_output(&mut self.model);
        // A limit that was learned earlier may be smaller than a first request's.
        self.max_output = first_output(&self.model);
        self.tokens.calibration = counting;
    }

    /// Adds the steps by which the user raised the limit.
    pub(super) fn raise_steps(&mut self, by: u64) {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        self.more_steps = self.more_steps.saturating_add(by);
    }

    /// Returns the limits, including the steps that the user granted.
    pub(super) fn effective_limits(&self, configured: &TurnLimits) -> TurnLimits {
        TurnLimits {
            max_steps: configured.max_steps.saturating_add(self.more_steps),
            ..*configured
        }
    }

    /// Switches to another model for the next requests.
    pub(super) fn switch_model(&mut self, mut model: ResolvedModel) {
        self.tokens.calibration.limit_output(&mut model);
        self.max_output = first_output(&model);
        self.used.update(|used| used.window = model.info.window);
        // Another model has another tokenizer.
        self.tokens.correction = self.tokens.calibration.ratio_for(&model.label());
        self.model = model;
    }

    /// Counts a decision.
    pub(super) fn record_transition(&mut self, transition: Transition, facts: &TransitionFacts) {
        let steps = self.progress.steps;
        self.progress.record_transition(transition, facts);
        // After a new step another compaction may help again.
        self.compaction.is_recent &= steps == self.progress.steps;
    }

    /// Replaces the estimated tokens of the system prompt and the tools.
    pub(super) fn set_prefix_tokens(&mut self, tokens: u64) {
        self.tokens.prefix = tokens;
    }

    /// Returns the estimated tokens of a request with these messages, corrected by earlier counts (R-CTX-1).
    pub(super) fn estimate_tokens(&self, items: &[Arc<HistoryItem>]) -> u64 {
        ((self.tokens.prefix + compact::estimate_total_tokens(items)) as f64 * self.tokens.correction) as u64
    }

    /// Returns the sizes of what the next request contains.
    pub(super) fn context_sizes(&self, policy: &ContextPolicy) -> ContextSizes {
        let window = self.model.info.window;
        let limit = policy.compaction_limit(window);
        ContextSizes::new(window, limit, self.tokens.prefix, self.tokens.correction)
    }

    /// Returns whether a request with these messages leaves no room for even the shortest answer.
    pub(super) fn is_too_long(&self, items: &[Arc<HistoryItem>]) -> bool {
        self.estimate_tokens(items) + u64::from(LEAST_OUTPUT) > self.model.info.window
    }

    /// Returns how many estimated tokens of messages leave a quarter of the window free.
    pub(super) fn room_for_messages(&self) -> u64 {
        let room = self.model.info.window as f64 * 0.75 / self.tokens.correction;
        (room as u64).saturating_sub(self.tokens.prefix)
    }

    /// Returns how many tokens of messages stay of `items`, which have exceeded the window: not so many that they would be
    /// compacted at once. The provider may count more than is estimated, so a quarter goes in any case.
    pub(super) fn overflow_goal(&self, items: &[Arc<HistoryItem>], sizes: &ContextSizes) -> u64 {
        let room = self.room_for_messages().min(sizes.room);
        room.min(compact::estimate_total_tokens(items) / 4 * 3)
    }

    /// Returns whether the window of `model` has room for an auxiliary request and its answer.
    pub(super) fn has_room_for(&self, model: &ResolvedModel, request: &ModelRequest) -> bool {
        let correction = self.tokens.calibration.ratio_for(&model.label());
        let prompt = estimate_text(&request.system) + compact::estimate_total_tokens(&request.messages);
        let answer = u64::from(request.max_output_tokens);
        (prompt as f64 * correction) as u64 + answer + SPARE <= model.info.window
    }

    /// Records that the provider counted `tokens` for a request with these messages.
    pub(super) fn record_token_count(&mut self, items: &[Arc<HistoryItem>], tokens: u64) {
        let estimate = self.tokens.prefix + compact::estimate_total_tokens(items);
        let ratio = tokens as f64 / estimate.max(1) as f64;
        if estimate == 0 || ratio < *PLAUSIBLE.start() {
            // Some servers report no token counts, or far too small ones. The history would outgrow the window.
            self.context = self.estimate_tokens(items);
            return;
        }
        self.context = tokens;
        // Some local servers truncate a prompt that is too long, and count what is left of it. The request had at least
        // as many tokens.
        if is_at_window(tokens, self.model.info.window) && ratio < self.tokens.correction {
            return;
        }
        self.tokens.correction = ratio.clamp(*PLAUSIBLE.start(), *PLAUSIBLE.end());
        // An implausible ratio serves this turn, clamped, but is not passed on to the session's other turns.
        if PLAUSIBLE.contains(&ratio) {
            self.tokens.calibration.record_ratio(self.model.label(), ratio);
        }
    }

    /// Returns the output limit of a request with these messages, capped by what the window leaves.
    pub(super) fn output_for(&self, items: &[Arc<HistoryItem>]) -> u32 {
        let available = self
            .model
            .info
            .window
            .saturating_sub(self.estimate_tokens(items) + SPARE);
        let available = u32::try_from(available).unwrap_or(u32::MAX).max(LEAST_OUTPUT);
        self.max_output.min(available)
    }

    /// Returns whether the output limit is only an assumption about an unknown model.
    pub(super) fn is_output_assumed(&self) -> bool {
        let info = &self.model.info;
        !info.knows_max_output && self.max_output <= info.max_output
    }

    /// Returns whether automatic compaction is on.
    pub(super) fn auto_compact(&self) -> bool {
        self.compaction.is_automatic
    }

    /// Returns whether the history may be compacted automatically: not if that is off, nor after three failures in a
    /// row.
    pub(super) fn may_compact(&self) -> bool {
        self.compaction.is_automatic && self.compaction.failures < MAX_FAILED_COMPACTIONS
    }

    /// Records the real window that the provider named (R-CTX-3). The window only shrinks.
    pub(super) fn learn_window(&mut self, limit: u64) {
        self.model.info.window = self.model.info.window.min(limit.max(1));
    }

    /// Returns the larger output limit for a truncated answer, or `None` if there is no room for one. `escalations`
    /// selects one step to the large limit (0 or 1) or repeated doubling.
    pub(super) fn larger_output(&self, escalations: u32) -> Option<u32> {
        let wanted = match escalations {
            0 | 1 => LARGE_OUTPUT,
            _ => self.max_output.saturating_mul(2),
        };
        let available = self.model.info.window.saturating_sub(self.context + SPARE);
        // An assumed limit is not the model's own. Only a request shows whether the model allows more.
        let most = if self.model.info.knows_max_output {
            self.model.info.max_output
        } else {
            LARGE_OUTPUT
        };
        let limit = wanted.min(most).min(u32::try_from(available).unwrap_or(u32::MAX));
        (limit > self.max_output.saturating_add(self.max_output / GAIN)).then_some(limit)
    }

    /// Uses the larger output limit from now on.
    pub(super) fn raise_output_limit(&mut self, escalations: u32) {
        if let Some(limit) = self.larger_output(escalations) {
            self.max_output = limit;
        }
    }

    /// Records that the provider rejected `requested` output tokens; `named` is the limit that it names, if any.
    ///
    /// Returns the limit to use from now on, in the session's other turns too. Returns `None` if it would not be
    /// smaller.
    pub(super) fn lower_output(&mut self, requested: u32, named: Option<u32>) -> Option<u32> {
        let named = named.filter(|limit| *limit < requested);
        let limit = named.or_else(|| (requested > SMALL_OUTPUT).then_some(SMALL_OUTPUT))?;
        self.model.info.max_output = limit;
        self.model.info.knows_max_output = true;
        self.max_output = limit;
        self.tokens.calibration.learn_output(self.model.label(), limit);
        Some(limit)
    }

    /// Returns the used percentage of the token target while the target is not reached.
    pub(super) fn target_used(&self, target: Option<u64>) -> Option<u64> {
        let target = target.filter(|target| *target > 0)?;
        let percent = self.used.totals().usage.output.saturating_mul(100) / target;
        (percent < TARGET_PERCENT).then_some(percent)
    }
}

/// Returns whether a count of tokens fills the window, to within a percent.
fn is_at_window(tokens: u64, window: u64) -> bool {
    tokens.saturating_add(window / 100) >= window
}

/// Returns the output limit of a model's first request.
fn first_output(model: &ResolvedModel) -> u32 {
    let wanted = if is_thinking_enabled(&model.model, model.effort) {
        LARGE_OUTPUT
    } else {
        FIRST_OUTPUT
    };
    wanted.min(model.info.max_output)
}

/// Returns the prompt that asks for the rest of a truncated answer. `cut_calls` says which calls did not run.
pub(super) fn recovery_prompt(cut_calls: Option<String>) -> String {
    cut_calls.unwrap_or_else(|| {
        "Your answer was cut off at the output limit. Go on exactly where it stopped, in the middle of the thought, \
         without an apology and without a recap. Do what is left in smaller pieces."
            .to_owned()
    })
}

/// Returns the prompt after an answer that was truncated in its calls, given with the length of their input; `None`
/// without calls.
pub(super) fn describe_cut_calls(calls: &[(String, usize)]) -> Option<String> {
    let named: Vec<String> = calls
        .iter()
        .map(|(tool, length)| format!("{tool} (after {length} characters of its input)"))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "Your answer was cut off at the output limit while it called {}. Nothing of that has run, and its input is \
             lost. Call again with less: for a long text, write a part of the file and add the others with further \
             calls. No apology, no recap.",
            named.join(", ")
        )
    })
}

/// Returns the prompt that asks the model to keep working.
pub(super) fn target_prompt(percent: u64) -> String {
    format!(
        "{percent} % of the token target for this task is used. Keep working: go deeper, check your work, do what is \
         still missing. Do not summarise yet."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::model_choice::tests::model;

    #[test]
    fn the_output_limit_grows_as_far_as_model_and_window_allow() {
        // (cap, window, context, escalations, first, then)
        let cases = [
            (128_000, 200_000, 10_000, 1, 32_000, Some(64_000)),
            (32_000, 200_000, 10_000, 1, 32_000, None),
            // The gain is not worth another answer.
            (40_000, 200_000, 10_000, 1, 32_000, None),
            (40_001, 200_000, 10_000, 1, 32_000, Some(40_001)),
            (4_096, 200_000, 10_000, 1, 4_096, None),
            (128_000, 200_000, 150_000, 1, 32_000, Some(49_000)),
            (128_000, 200_000, 159_000, 1, 32_000, None),
            (128_000, 200_000, 199_999, 1, 32_000, None),
            (128_000, 200_000, 10_000, 3, 32_000, Some(64_000)),
        ];
        for (cap, window, context, escalations, first, then) in cases {
            let mut state = LoopState::new(model(window, cap), 0, true);
            assert_eq!(state.max_output, first);
            state.context = context;
            assert_eq!(state.larger_output(escalations), then, "{cap} {window} {context}");
        }
    }

    #[test]
    fn reasoning_models_start_with_the_large_output_limit() {
        let high = Some(crate::provider::Effort::High);
        for (name, effort, thinks) in [
            ("m", None, false),
            ("m", high, true),
            ("claude-3-7-sonnet-20250219", None, false),
            ("claude-sonnet-4-5", None, true),
            ("claude-sonnet-4-5", Some(crate::provider::Effort::None), false),
            ("claude-sonnet-4-5", high, true),
            ("claude-3-5-haiku-20241022", high, false),
            ("claude-opus-5", None, true),
            ("deepseek-reasoner", None, true),
        ] {
            let mut thinking = model(200_000, 128_000);
            (thinking.model, thinking.effort) = (name.to_owned(), effort);
            let state = LoopState::new(thinking, 0, true);
            let (first, then) = if thinks {
                (64_000, None)
            } else {
                (32_000, Some(64_000))
            };
            assert_eq!(state.max_output, first, "{name}");
            assert_eq!(state.larger_output(1), then, "{name}");
        }
    }

    #[test]
    fn the_estimate_follows_the_provider_counts() {
        let mut state = LoopState::new(model(200_000, 8_000), 100, true);
        let items = [HistoryItem::new(crate::domain::Message::user_text(
            "x".repeat(3_584),
        ))];
        assert_eq!(state.estimate_tokens(&items), 1_000);
        for (counted, then) in [(1_500, 1_500), (800, 800), (0, 800), (9, 800), (90_000, 4_000)] {
            state.record_token_count(&items, counted);
            assert_eq!(state.estimate_tokens(&items), then, "{counted}");
        }
        assert_eq!(state.context, 90_000);
        // The next turn starts with the last plausible count. Nothing is known about another model.
        let mut next = LoopState::new(model(200_000, 8_000), 100, true);
        next.adopt_calibration(state.tokens.calibration.clone());
        assert_eq!(next.estimate_tokens(&items), 800);
        next.switch_model(ResolvedModel {
            model: "other".to_owned(),
            ..model(200_000, 8_000)
        });
        assert_eq!(next.estimate_tokens(&items), 1_000);
        state.learn_window(128_000);
        state.learn_window(500_000);
        assert_eq!(state.model.info.window, 128_000);
    }

    #[test]
    fn a_count_at_the_window_may_be_that_of_a_truncated_prompt() {
        let items = [HistoryItem::new(crate::domain::Message::user_text(
            "x".repeat(79_584),
        ))];
        for (counted, then) in [
            (16_384, 20_000),
            (16_300, 20_000),
            // Below the window, a count counts.
            (16_000, 16_000),
            // The estimate was lower: the request has at least as many.
            (16_384, 16_384),
        ] {
            let mut state = LoopState::new(model(16_384, 8_000), 100, true);
            assert_eq!(state.estimate_tokens(&items), 20_000);
            if then == 16_384 {
                state.record_token_count(&items, 10_000);
            }
            state.record_token_count(&items, counted);
            assert_eq!(state.estimate_tokens(&items), then, "{counted}");
            assert_eq!(state.context, counted);
        }
    }

    #[test]
    fn the_requested_output_fits_the_rest_of_the_window() {
        let items = [HistoryItem::new(crate::domain::Message::user_text(
            "x".repeat(3_584),
        ))];
        for (window, limit) in [
            (200_000, 8_000),
            (10_000, 8_000),
            (6_000, 4_000),
            (2_500, 1_024),
            (500, 1_024),
        ] {
            let state = LoopState::new(model(window, 8_000), 100, true);
            assert_eq!(state.output_for(&items), limit, "{window}");
        }
    }

    #[test]
    fn the_token_target_is_measured_in_output_percent() {
        let state = LoopState::new(model(200_000, 8_000), 0, true);
        for (output, used) in [(0, Some(0)), (449, Some(89)), (450, None), (9_999, None)] {
            state.used.update(|used| used.usage.output = output);
            assert_eq!(state.target_used(Some(500)), used);
        }
        assert_eq!(state.target_used(None), None);
        assert_eq!(state.target_used(Some(0)), None);
    }
}
