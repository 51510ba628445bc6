//! Keeps requests within the window (R-CTX): decides when the history is made smaller, and calls the model for
//! summaries.
//!
//! What is removed and what replaces it is decided purely by `context::compact`; this module makes the calls and emits
//! the events.

use std::sync::Arc;

use super::attempt::{ModelAnswer, OutputVisibility};
use super::context::TurnContext;
use super::emit::emit_warning;
use super::loop_state::{LoopState, MAX_FAILED_COMPACTIONS};
use super::model_call::{CallOutcome, build_auxiliary_request, call_auxiliary};
use super::model_choice::{ModelChoice, ResolvedModel};
use super::outcome::StepOutcome;
use super::session_link::TurnStopped;
use super::tool_execution::store_output;
use super::transition::{Outcome, TransitionFacts};
use crate::base::spawn::run_blocking;
use crate::base::text::cut_middle;
use crate::context::compact::{self, CompactionRange, MediaStubs};
use crate::context::{ContextSizes, estimate_text, estimate_tool_tokens, results};
use crate::domain::{
    AgentError, CompactTrigger, Compaction, ErrorCode, Event, Role, Summary, ToolCallId, ToolResult,
};
use crate::provider::{HistoryItem, ModelRequest, StopReason};
use crate::tool::stored_output;

/// Retries of a summary call that is itself too long, each without the older half (R-CTX-2).
const SHORTER: u32 = 3;

/// How many tokens a summary has at least, as a rule.
const NOTES_TOKENS: u64 = 2_000;

/// The tokens of what surrounds the notes of a summary.
const SUMMARY_FRAME: u64 = 50;

/// The code of the warning that a summary failed. The session counts these warnings.
pub const COMPACTION_FAILED: &str = "compaction_failed";

/// The code of the warning that a model gets no images or PDFs.
pub(super) const PICTURES_LEFT_OUT: &str = "pictures_left_out";

/// The code of the warning that automatic compaction is disabled.
const COMPACTION_RESTS: &str = "compaction_rests";

/// Returns the estimated tokens of system prompt and tools, which precede every history.
pub(super) fn estimate_prefix_tokens(cx: &TurnContext, model: &ResolvedModel) -> u64 {
    let tools = cx.tools.specs_for(model.edit_tool);
    estimate_text(&cx.prompt.text.for_model(&model.model)) + estimate_tool_tokens(&tools)
}

/// Returns the history for the next call, compacted before it is too long (R-CTX-1).
pub(super) async fn fit_history(
    cx: &TurnContext,
    state: &mut LoopState,
) -> Result<Vec<Arc<HistoryItem>>, TurnStopped> {
    let mut items = begin(cx, state).await?;
    if state.may_compact() && stub_outdated_results(cx, state, &items).await? {
        items = begin(cx, state).await?;
    }
    if !is_due(cx, state, &items) || !state.may_compact() || lacks_floor(state, &items) {
        return Ok(items);
    }
    if stub_before_summary(cx, state, &items).await? {
        return begin(cx, state).await;
    }
    if state.compaction.is_recent {
        return Ok(items);
    }
    match summarize_history(cx, state, &items, CompactTrigger::Threshold, None).await? {
        // The actor has applied the compaction to its history, so fetch that.
        SummaryOutcome::Smaller => begin(cx, state).await,
        // After a stop at a limit, the budget refuses the step's own call too.
        SummaryOutcome::Same(_) | SummaryOutcome::Failed(_) | SummaryOutcome::Limited(_) => Ok(items),
    }
}

/// Returns whether a request with these messages is made smaller before it is sent.
pub(super) fn is_due(cx: &TurnContext, state: &LoopState, items: &[Arc<HistoryItem>]) -> bool {
    let tokens = state.estimate_tokens(items);
    cx.settings.context.is_due(tokens, state.model.info.window)
}

/// Prepares a fallback (R-PROV-4) with `state.model` already set to the new model. Compacts the history if that model's
/// window requires it, and returns whether it fits.
///
/// The new model, or `compaction_model`, writes the summary. The check before the next call then finds nothing more to
/// do.
pub(super) async fn fits_after_hop(cx: &TurnContext, state: &mut LoopState) -> Result<bool, TurnStopped> {
    let items = fit_history(cx, state).await?;
    let full = cx
        .settings
        .context
        .is_full(state.estimate_tokens(&items), state.model.info.window);
    Ok(!full && !lacks_floor(state, &items))
}

/// Begins a step, and returns the history that it sends.
pub(super) async fn begin(
    cx: &TurnContext,
    state: &mut LoopState,
) -> Result<Vec<Arc<HistoryItem>>, TurnStopped> {
    let step_input = cx.link.begin_step().await?;
    // The failures in a row are the session's, so the actor counts them over its turns (R-CTX-2).
    state.compaction.failures = step_input.failed_compactions;
    state.environment.mode = step_input.mode.unwrap_or(cx.settings.mode);
    let context = state.estimate_tokens(&step_input.items);
    state.used.update(|used| used.context = context);
    Ok(step_input.items)
}

/// Returns whether what compaction cannot remove exceeds the window: system prompt, tools, and the last message.
pub(super) fn lacks_floor(state: &LoopState, items: &[Arc<HistoryItem>]) -> bool {
    // Notes of ours may follow the message that counts.
    let from = items.iter().rposition(|item| !item.message.hidden).unwrap_or(0);
    state.estimate_tokens(&items[from..]) > state.model.info.window
}

/// Returns the outcome of a turn whose next request cannot fit.
pub(super) fn no_room(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Option<StepOutcome> {
    let window = state.model.info.window;
    // What is known to be too long is shortened before the provider refuses or truncates it. If nothing can be shortened,
    // the provider decides: it may count less than is estimated.
    let is_known = || state.may_compact() && state.is_too_long(items) && can_shrink(cx, state, items);
    if lacks_floor(state, items) || is_known() {
        return Some(StepOutcome::no_room(Outcome::PromptTooLong, window));
    }
    let full = !state.may_compact() && cx.settings.context.is_full(state.estimate_tokens(items), window);
    full.then(|| StepOutcome::no_room(Outcome::WindowFull, window))
}

/// Returns whether something can make the history smaller in this step.
fn can_shrink(cx: &TurnContext, state: &LoopState, items: &[Arc<HistoryItem>]) -> bool {
    state.progress.may_reduce(&TransitionFacts {
        collapsible: has_collapsible_results(cx, state, items),
        compactable: find_overflow_range(cx, state, items).is_some(),
        shortenable: can_shorten(cx, state, items, false),
        ..TransitionFacts::default()
    })
}

/// Replaces large old results by stubs, the oldest first, until an overflow is over. Returns whether there were any.
pub(super) async fn collapse_large_results(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<bool, TurnStopped> {
    let sizes = state.context_sizes(&cx.settings.context);
    let stubs = results::choose_stubs(items, &sizes, state.overflow_goal(items, &sizes)).calls;
    replace_by_stubs(cx, state, items, stubs, CompactTrigger::Overflow).await
}

/// Returns whether there are large old results that stubs can replace.
pub(super) fn has_collapsible_results(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> bool {
    let sizes = state.context_sizes(&cx.settings.context);
    !results::choose_stubs(items, &sizes, 0).calls.is_empty()
}

/// Replaces large results that are long past by stubs, many at once. Returns whether there were enough of them.
async fn stub_outdated_results(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<bool, TurnStopped> {
    let sizes = state.context_sizes(&cx.settings.context);
    let outdated = results::outdated_results(items, &sizes);
    replace_by_stubs(cx, state, items, outdated, CompactTrigger::Threshold).await
}

/// Replaces old results of a small conversation by stubs if that spares it a summary. Returns whether it does.
async fn stub_before_summary(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<bool, TurnStopped> {
    let sizes = state.context_sizes(&cx.settings.context);
    let trigger = CompactTrigger::Threshold;
    let summary_helps = compact::find_compaction_range(items, sizes.retained).is_some_and(|middle| {
        let kept = choose_kept(&sizes, items, middle, trigger);
        estimate_staying(items, middle, &kept) + sizes.notes.min(NOTES_TOKENS) <= sizes.room
    });
    let stubs = results::stubs_before_summary(items, &sizes, summary_helps);
    replace_by_stubs(cx, state, items, stubs, trigger).await
}

/// Replaces large old results by stubs, and shortens the long ones among the newest messages until the rest fits; if
/// nobody knows the window, until a quarter is left. If that is not enough, leaves out the oldest pictures, too.
pub(super) async fn shorten_recent_results(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    window_unknown: bool,
) -> Result<(), TurnStopped> {
    let sizes = state.context_sizes(&cx.settings.context);
    let stubs = stub_large_results(state, items, &sizes);
    let rest = compact::apply_to_copy(items, &stubs);
    let plan = plan_shortening(state, &rest, &sizes, window_unknown);
    let mut shortened = Vec::new();
    for (call, result) in plan.results {
        let location = locate_text(cx, call, result.clone()).await;
        shortened.push(results::shorten_result(call, result, plan.characters, location));
    }
    let mut smaller = Compaction { shortened, ..stubs };
    let goal = media_goal(state, items, window_unknown);
    // It applies to all media, and this model may not get some of them.
    let all = cx.link.begin_step().await?.items;
    let unsupported = unsupported_media(state);
    let choice = compact::choose_kept_media(&compact::apply_to_copy(&all, &smaller), unsupported, goal);
    if let Some(choice) = choice {
        (smaller.pictures, smaller.kept_pictures) = (true, choice.kept);
        let message = format!(
            "the window of {} has no room for {} of the pictures and documents; leaving them out",
            state.model.label(),
            choice.left_out
        );
        emit_warning(cx, PICTURES_LEFT_OUT, message).await?;
    }
    let after = compact::apply_to_copy(&all, &smaller);
    let after = compact::replace_media(&after, unsupported).unwrap_or(after);
    emit_reduction(cx, state, &after, smaller).await
}

/// Returns what puts stubs in place of all large old results.
fn stub_large_results(state: &LoopState, items: &[Arc<HistoryItem>], sizes: &ContextSizes) -> Compaction {
    Compaction {
        stubs: results::choose_stubs(items, sizes, 0).calls,
        ..as_it_is(state, items, CompactTrigger::Overflow)
    }
}

/// Chooses which of the newest results become shorter.
fn plan_shortening<'a>(
    state: &LoopState,
    items: &'a [Arc<HistoryItem>],
    sizes: &ContextSizes,
    window_unknown: bool,
) -> results::ShorteningPlan<'a> {
    let goal = if window_unknown {
        compact::estimate_total_tokens(items) / 4
    } else {
        state.overflow_goal(items, sizes)
    };
    results::plan_shortening(items, sizes, goal)
}

/// Returns what the model gets in place of media that it does not support.
fn unsupported_media(state: &LoopState) -> MediaStubs {
    let info = &state.model.info;
    MediaStubs::for_model(info.images, info.documents)
}

/// Returns with how many tokens of messages no picture has to go.
fn media_goal(state: &LoopState, items: &[Arc<HistoryItem>], window_unknown: bool) -> u64 {
    let quarter = compact::estimate_total_tokens(items) / 4;
    if window_unknown {
        quarter
    } else {
        state.room_for_messages().min(quarter * 3)
    }
}

/// Returns whether there are long results among the newest messages that can be shortened, or pictures that can go.
pub(super) fn can_shorten(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    window_unknown: bool,
) -> bool {
    let sizes = state.context_sizes(&cx.settings.context);
    let goal = media_goal(state, items, window_unknown);
    let has_pictures = compact::choose_kept_media(items, unsupported_media(state), goal).is_some();
    if has_pictures && window_unknown && summary_comes_first(cx, state, items, &sizes) {
        return false;
    }
    // The prompt stays whole, so nothing else is of use if its text is too long.
    let may_help = !lacks_floor(state, items) || ends_with_results(items);
    let goal = state.overflow_goal(items, &sizes);
    let has_results = may_help && !results::plan_shortening(items, &sizes, goal).results.is_empty();
    let has_room = || {
        let rest = compact::replace_media(items, MediaStubs::for_model(false, false));
        rest.is_some_and(|rest| !lacks_floor(state, &rest))
    };
    has_results || has_pictures && has_room()
}

/// Returns whether a summary may still help where nobody knows the window, and where all pictures would go in vain.
fn summary_comes_first(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    sizes: &ContextSizes,
) -> bool {
    let can_summarize = state.may_compact()
        && !state.progress.has_summarized()
        && !lacks_floor(state, items)
        && find_overflow_range(cx, state, items).is_some();
    if !can_summarize {
        return false;
    }
    let stubs = stub_large_results(state, items, sizes);
    let rest = compact::apply_to_copy(items, &stubs);
    let plan = plan_shortening(state, &rest, sizes, true);
    let shortened = plan.results.iter();
    let shortened =
        shortened.map(|(call, result)| results::shorten_result(call, result, plan.characters, None));
    let smaller = Compaction {
        shortened: shortened.collect(),
        ..stubs
    };
    let rest = compact::apply_to_copy(items, &smaller);
    let goal = media_goal(state, items, true);
    let choice = compact::choose_kept_media(&rest, unsupported_media(state), goal);
    choice.is_some_and(|choice| !choice.fits)
}

/// Returns whether the last message, apart from notes of ours, consists of tool results.
fn ends_with_results(items: &[Arc<HistoryItem>]) -> bool {
    let last = items.iter().rfind(|item| !item.message.hidden);
    last.is_some_and(|item| item.message.role == Role::Tool)
}

/// Stores the text of a result unless it is stored already, and says where it can be read.
async fn locate_text(cx: &TurnContext, call: &ToolCallId, result: Arc<ToolResult>) -> Option<String> {
    if let Some(location) = results::find_location(&result) {
        return Some(location);
    }
    let full = match result.full.clone() {
        Some(full) => full,
        None => {
            let (sink, name) = (cx.services.content_sink.clone(), call.as_str().to_owned());
            let stored = run_blocking(move || store_output(&*sink, &name, &result.text)).await;
            // Without it, the model makes the call again.
            stored.ok()?.ok()?
        }
    };
    stored_output::describe_location(&full, |tool| cx.tools.get(tool).is_some())
}

async fn replace_by_stubs(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    stubs: Vec<ToolCallId>,
    trigger: CompactTrigger,
) -> Result<bool, TurnStopped> {
    if stubs.is_empty() {
        return Ok(false);
    }
    let smaller = Compaction {
        stubs,
        ..as_it_is(state, items, trigger)
    };
    emit_compaction(cx, state, items, smaller).await?;
    Ok(true)
}

/// Replaces all images by text.
pub(super) async fn drop_pictures(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<(), TurnStopped> {
    let smaller = Compaction {
        pictures: true,
        ..as_it_is(state, items, CompactTrigger::Picture)
    };
    emit_compaction(cx, state, items, smaller).await
}

/// The result of a summary.
pub(super) enum SummaryOutcome {
    Smaller,
    /// It is unchanged, for this reason.
    Same(&'static str),
    /// The model could not be called. Only for a compaction that the user requested, who sees the error.
    Failed(AgentError),
    /// A spending limit forbids the call, or the user chose to stop at one. The history is unchanged.
    Limited(Box<StepOutcome>),
}

/// Why there is no summary.
enum SummaryFailure {
    Failed(AgentError),
    /// The model returned no usable summary.
    Useless(AgentError),
    /// A spending limit forbids the call, or the user chose to stop at one.
    Limited(Box<StepOutcome>),
}

/// What a summary replaces, and what stays.
struct SummaryPlan {
    middle: CompactionRange,
    /// The user's messages of the range that stay.
    kept: Vec<Arc<HistoryItem>>,
    trigger: CompactTrigger,
    /// What follows the notes: how many of the user's messages are only in them, and the state of the work.
    ending: Vec<String>,
    /// The estimated tokens of all messages, and of those that stay.
    before: u64,
    staying: u64,
    /// The most tokens of the notes; 0 if a digest must do.
    most_notes: u64,
}

impl SummaryPlan {
    /// Builds the summary with these notes, and returns its tokens together with those of what stays.
    fn build_summary(&self, items: &[Arc<HistoryItem>], notes: &str, digest: bool) -> (Summary, u64) {
        let ending = self.ending.iter().map(String::as_str);
        let parts: Vec<&str> = std::iter::once(notes.trim())
            .chain(ending)
            .filter(|part| !part.is_empty())
            .collect();
        let text = parts.join("\n\n");
        let after = self.staying + compact::summary_tokens(&text);
        (self.middle.build_summary(items, &self.kept, text, digest), after)
    }
}

/// Plans a summary. Returns why there is none if nothing can be summarized.
fn plan_summary(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    trigger: CompactTrigger,
) -> Result<SummaryPlan, &'static str> {
    let sizes = state.context_sizes(&cx.settings.context);
    let middle = match trigger {
        CompactTrigger::Overflow => find_overflow_range(cx, state, items),
        _ => compact::find_compaction_range(items, sizes.retained),
    };
    let middle = middle.ok_or("the conversation is short; nothing to compact")?;
    let kept = choose_kept(&sizes, items, middle, trigger);
    let dropped = middle.describe_dropped(items, &kept).unwrap_or_default();
    let work = compact::describe_work(items, middle, &describe_processes(cx));
    let ending = [dropped, work].map(|part| part.trim().to_owned()).to_vec();
    let before = compact::estimate_total_tokens(items);
    let staying = estimate_staying(items, middle, &kept);
    let ending_tokens: u64 = ending.iter().map(|part| estimate_text(part)).sum();
    // What the notes may have if the history shall shrink enough.
    let left = (before / 5 * 4).saturating_sub(staying + ending_tokens + SUMMARY_FRAME);
    let (most_notes, is_worthwhile) = match trigger {
        // Something must go, by a digest if no notes could be short enough.
        CompactTrigger::Overflow if left == 0 => (0, true),
        CompactTrigger::Overflow => (sizes.notes, true),
        CompactTrigger::Threshold => (sizes.notes.min(left), left >= sizes.notes.min(NOTES_TOKENS)),
        CompactTrigger::Manual | CompactTrigger::Picture => {
            (sizes.notes, compact::is_sufficient_reduction(before, staying))
        }
    };
    // Notes that could not help have no price that anybody should pay, and their lack is no failure.
    if !is_worthwhile {
        return Err("nearly all of the conversation is recent or what you said yourself; nothing to compact");
    }
    Ok(SummaryPlan {
        middle,
        kept,
        trigger,
        ending,
        before,
        staying,
        most_notes,
    })
}

/// Replaces the middle of the history by a summary, or by a rule-based digest if there is no good summary (R-CTX-2).
pub(super) async fn summarize_history(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    trigger: CompactTrigger,
    instructions: Option<&str>,
) -> Result<SummaryOutcome, TurnStopped> {
    let plan = match plan_summary(cx, state, items, trigger) {
        Ok(plan) => plan,
        Err(reason) => return Ok(SummaryOutcome::Same(reason)),
    };
    // Set even if the summary fails, so that the check before the next call does not repeat it.
    state.compaction.is_recent = true;
    if plan.most_notes == 0 {
        return replace_by_digest(cx, state, items, &plan, None).await;
    }
    let written = write_notes(cx, state, items, &plan, instructions).await?;
    let reason = match written.map(|notes| plan.build_summary(items, &notes, false)) {
        Ok((summary, after)) if compact::is_sufficient_reduction(plan.before, after) => {
            state.compaction.failures = 0;
            replace_middle(cx, state, items, summary, trigger).await?;
            return Ok(SummaryOutcome::Smaller);
        }
        // R-CTX-2: a summary that saves less than a fifth has failed.
        Ok(_) => "the summary would save less than a fifth".to_owned(),
        Err(SummaryFailure::Failed(error)) if trigger == CompactTrigger::Manual => {
            return Ok(SummaryOutcome::Failed(error));
        }
        Err(SummaryFailure::Failed(error) | SummaryFailure::Useless(error)) => error.to_string(),
        Err(SummaryFailure::Limited(end)) => match &end.error {
            // The limit refused the summary call, but the digest costs nothing, and the smaller request may still fit.
            Some(error) if trigger != CompactTrigger::Manual => error.to_string(),
            Some(_) | None => return Ok(SummaryOutcome::Limited(end)),
        },
    };
    replace_by_digest(cx, state, items, &plan, Some(&reason)).await
}

/// Replaces the middle by a digest, if that helps. `failure` is why no model has written a summary; `None` if none should.
async fn replace_by_digest(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    plan: &SummaryPlan,
    failure: Option<&str>,
) -> Result<SummaryOutcome, TurnStopped> {
    let digest = compact::build_digest(plan.middle.slice_items(items), &plan.kept);
    let (digest, after) = plan.build_summary(items, &digest, true);
    let helps = compact::is_digest_worthwhile(plan.before, after);
    if let Some(reason) = failure {
        emit_failure(cx, state, reason, helps).await?;
    }
    if !helps {
        return Ok(SummaryOutcome::Same("no summary made the conversation shorter"));
    }
    replace_middle(cx, state, items, digest, plan.trigger).await?;
    Ok(SummaryOutcome::Smaller)
}

/// Returns the user's messages of the range that stay word for word. If the history must shrink and would not with all of
/// them, some go.
fn choose_kept(
    sizes: &ContextSizes,
    items: &[Arc<HistoryItem>],
    middle: CompactionRange,
    trigger: CompactTrigger,
) -> Vec<Arc<HistoryItem>> {
    let kept = middle.find_kept(items, sizes);
    let before = compact::estimate_total_tokens(items);
    let after = estimate_staying(items, middle, &kept) + NOTES_TOKENS.min(sizes.notes);
    if trigger == CompactTrigger::Manual || compact::is_sufficient_reduction(before, after) {
        kept
    } else {
        middle.find_fewer_kept(items, sizes)
    }
}

/// Returns the estimated tokens of the messages outside the range, and of those within it that are kept.
fn estimate_staying(items: &[Arc<HistoryItem>], middle: CompactionRange, kept: &[Arc<HistoryItem>]) -> u64 {
    compact::estimate_total_tokens(items) - compact::estimate_total_tokens(middle.slice_items(items))
        + compact::estimate_total_tokens(kept)
}

/// Returns what to omit from a history that exceeded the window; `None` if that would save too little.
pub(super) fn find_overflow_range(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Option<CompactionRange> {
    let sizes = state.context_sizes(&cx.settings.context);
    let range = compact::find_overflow_range(items, state.room_for_messages(), sizes.retained)?;
    let kept = choose_kept(&sizes, items, range, CompactTrigger::Overflow);
    let (before, staying) = (
        compact::estimate_total_tokens(items),
        estimate_staying(items, range, &kept),
    );
    compact::is_digest_worthwhile(before, staying).then_some(range)
}

/// Returns a line for each background process that runs.
fn describe_processes(cx: &TurnContext) -> Vec<String> {
    let jobs = cx.workspace.background().list_jobs();
    let running = jobs.into_iter().filter(|job| job.ending.is_none());
    running.map(|job| format!("{}: {}", job.id, job.title)).collect()
}

async fn replace_middle(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    summary: Summary,
    trigger: CompactTrigger,
) -> Result<(), TurnStopped> {
    let smaller = Compaction {
        summary: Some(summary),
        ..as_it_is(state, items, trigger)
    };
    cx.services.totals.compactions.add(1);
    emit_compaction(cx, state, items, smaller).await
}

/// Warns that a summary failed; after the third failure in a row, also that automatic compaction is disabled.
async fn emit_failure(
    cx: &TurnContext,
    state: &mut LoopState,
    reason: &str,
    digest: bool,
) -> Result<(), TurnStopped> {
    let then = if digest {
        "a rule-based digest is used instead"
    } else {
        "it stays as it is"
    };
    let message = format!("could not summarize the conversation: {reason}; {then}");
    emit_warning(cx, COMPACTION_FAILED, message).await?;
    state.compaction.failures += 1;
    if state.compaction.failures == MAX_FAILED_COMPACTIONS {
        let message =
            "three summaries in a row failed; automatic compaction is off for this session. Compact it by hand, or start a new session"
                .to_owned();
        emit_warning(cx, COMPACTION_RESTS, message).await?;
    }
    Ok(())
}

/// Lets a model write the summary.
async fn write_notes(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    plan: &SummaryPlan,
    instructions: Option<&str>,
) -> Result<Result<String, SummaryFailure>, TurnStopped> {
    let mut model = resolve_notes_model(cx, state).await?;
    let (middle, trigger) = (plan.middle, plan.trigger);
    let mut part = middle;
    // A compaction by hand has no alternative: it fails with its error.
    let without =
        (trigger != CompactTrigger::Manual).then_some("the conversation continues without a summary");
    for shorter in 0.. {
        let (fitting, request) = build_notes_request(state, &model, items, part, (plan, instructions));
        part = fitting;
        // An auxiliary call never falls back: what `without` says happens instead.
        let fallbacks = state.access.disable_fallback(without);
        let outcome = call_auxiliary(
            cx,
            &mut model,
            &mut state.access,
            request,
            &state.used,
            OutputVisibility::Nothing,
        )
        .await?;
        state.access.restore_fallback(fallbacks);
        if model.label() == state.model.label() {
            state.learn_window(model.info.window);
        }
        match outcome {
            CallOutcome::Answered(model_answer) => {
                // The part that the model did not read is not lost: a digest of it precedes the summary.
                let unread = middle.slice_items(items).len() - part.slice_items(items).len();
                let unread = compact::build_digest(&middle.slice_items(items)[..unread], &plan.kept);
                return Ok(extract_notes(&model, *model_answer)
                    .map(|text| cut_notes(format!("{unread}\n{text}").trim(), plan.most_notes))
                    .map_err(SummaryFailure::Useless));
            }
            CallOutcome::TooLong { error, .. } => {
                // R-CTX-2: a summary call that itself overflows drops the oldest rounds and tries again, at most 3
                // times.
                match part.without_older_half(items) {
                    Some(smaller) if shorter < SHORTER => part = smaller,
                    _ => return Ok(Err(SummaryFailure::Failed(error))),
                }
            }
            CallOutcome::ImageRefused(error)
            | CallOutcome::OutputRefused { error, .. }
            | CallOutcome::Failed(error) => {
                return Ok(Err(SummaryFailure::Failed(error)));
            }
            CallOutcome::Limited(end) => return Ok(Err(SummaryFailure::Limited(end))),
        }
    }
    unreachable!("it ends by itself")
}

/// Builds the request for notes about `part`, or about as much of its end as the model's window has room for.
fn build_notes_request(
    state: &LoopState,
    model: &ResolvedModel,
    items: &[Arc<HistoryItem>],
    mut part: CompactionRange,
    (plan, instructions): (&SummaryPlan, Option<&str>),
) -> (CompactionRange, Arc<ModelRequest>) {
    // Most notes are shorter than that anyway.
    let words = (plan.most_notes < NOTES_TOKENS).then_some(plan.most_notes * 2 / 3);
    loop {
        let prompt = compact::build_summary_prompt(items, part, instructions, words);
        let request = build_auxiliary_request(model, compact::SUMMARY_SYSTEM, prompt);
        match part.without_older_half(items) {
            Some(smaller) if !state.has_room_for(model, &request) => part = smaller,
            _ => return (part, Arc::new(request)),
        }
    }
}

/// Returns the notes, without their middle if they have more than about this many tokens.
fn cut_notes(notes: &str, most_tokens: u64) -> String {
    let most = usize::try_from(most_tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    cut_middle(notes, most).unwrap_or_else(|| notes.to_owned())
}

/// Returns the text that the model wrote.
fn extract_notes(model: &ResolvedModel, model_answer: ModelAnswer) -> Result<String, AgentError> {
    let text = model_answer
        .answer
        .message
        .map(|message| message.text())
        .unwrap_or_default();
    match model_answer.stop {
        StopReason::Refusal(_) => Err(AgentError::new(
            ErrorCode::ProviderError,
            format!("{} declined to write a summary", model.label()),
        )),
        _ if text.trim().is_empty() => Err(AgentError::new(
            ErrorCode::EmptyResponse,
            format!("{} wrote an empty summary", model.label()),
        )),
        _ => Ok(text.trim().to_owned()),
    }
}

/// Records the real window of the turn's model, which an overflow named (R-CTX-3).
pub(super) fn learn_window(cx: &TurnContext, state: &mut LoopState, limit: u64) {
    cx.settings.models.learn_window(&state.model, limit);
    state.learn_window(limit);
}

/// Resolves the model that writes the summary.
async fn resolve_notes_model(cx: &TurnContext, state: &LoopState) -> Result<ResolvedModel, TurnStopped> {
    let Some(named) = &cx.settings.context.compaction_model else {
        return Ok(state.model.clone());
    };
    let choice = ModelChoice {
        model: Some(named.clone()),
        has_provider: false,
        cheap: false,
        ..cx.settings.choice.clone()
    };
    // Resolving may ask the editor for a key; a cancel does not wait for that.
    let resolved = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(TurnStopped),
        resolved = cx.settings.models.resolve_model(&choice) => resolved,
    };
    match resolved {
        Ok(model) => Ok(model),
        Err(error) => {
            let message =
                // A setting that does not work must not keep the conversation from being compacted.
                format!("compaction_model {named:?} is unavailable: {error}; using the session's model");
            emit_warning(cx, "compaction_model", message).await?;
            Ok(state.model.clone())
        }
    }
}

/// Builds a compaction that does not change anything yet.
fn as_it_is(state: &LoopState, items: &[Arc<HistoryItem>], trigger: CompactTrigger) -> Compaction {
    Compaction {
        trigger,
        tokens_before: state.estimate_tokens(items),
        tokens_after: 0,
        messages_before: u32::try_from(items.len()).unwrap_or(u32::MAX),
        messages_after: 0,
        summary: None,
        stubs: Vec::new(),
        shortened: Vec::new(),
        pictures: false,
        kept_pictures: 0,
    }
}

async fn emit_compaction(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    smaller: Compaction,
) -> Result<(), TurnStopped> {
    let after = compact::apply_to_copy(items, &smaller);
    emit_reduction(cx, state, &after, smaller).await
}

/// Emits what has led to the messages `after`.
async fn emit_reduction(
    cx: &TurnContext,
    state: &LoopState,
    after: &[Arc<HistoryItem>],
    mut smaller: Compaction,
) -> Result<(), TurnStopped> {
    smaller.tokens_after = state.estimate_tokens(after);
    smaller.messages_after = u32::try_from(after.len()).unwrap_or(u32::MAX);
    cx.link.emit_event(Event::Compacted(Arc::new(smaller))).await
}
