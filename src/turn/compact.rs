//! Keeping requests within the window (R-CTX): when the history is made smaller, and the call that writes the notes.
//!
//! What goes and what stands in its place is `context::compact`'s, pure; here are the calls and the events.

use std::sync::Arc;

use super::attempt::{ModelAnswer, Visibility};
use super::loop_state::LoopState;
use super::session_link::Stopped;
use super::step::{CallOutcome, StepOutcome, call_with_retries};
use super::transition::Outcome;
use super::{ResolvedModel, TurnContext};
use crate::context::compact::{self, CompactionRange};
use crate::context::estimate_text;
use crate::domain::{AgentError, CompactTrigger, Compaction, ErrorCode, Event, Message};
use crate::provider::{HistoryItem, ModelRequest, StopReason, is_thinking_enabled};

/// So often a notes call that does not fit itself is made again, each time without the older half.
const SHORTER: u32 = 3;

/// So many failures in a row, and automatic compaction rests (R-CTX-2).
pub(super) const FAILURES: u32 = 3;

/// The longest notes, in tokens; of a model that thinks its thoughts too.
const NOTES: u32 = 4_000;
const NOTES_AND_THOUGHTS: u32 = 16_000;

/// The code of the warning that notes could not be had. A session counts them.
pub const COMPACTION_FAILED: &str = "compaction_failed";

/// The code of the warning that no more compactions are tried.
const COMPACTION_RESTS: &str = "compaction_rests";

/// What a turn does about a full window.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextPolicy {
    /// Makes the history smaller by itself.
    pub auto_compact: bool,
    /// `provider/model`, `provider` or `model` that writes the notes; none: the one that is asked.
    pub compaction_model: Option<String>,
    /// Above this part of the room for a request, 0 to 1, the history is made smaller before the call (R-CTX-1).
    pub threshold: f64,
    /// Of the window so many tokens stay free for the answer (R-CTX-1); of a small one a quarter.
    pub reserve: u64,
}

impl Default for ContextPolicy {
    fn default() -> Self {
        Self {
            auto_compact: true,
            compaction_model: None,
            threshold: 0.75,
            reserve: 8_192,
        }
    }
}

impl ContextPolicy {
    /// Whether a request of so many tokens is made smaller before it is sent.
    fn is_due(&self, tokens: u64, window: u64) -> bool {
        tokens as f64 > self.available_tokens(window) as f64 * self.threshold
    }

    /// Whether a request of so many tokens leaves no room for an answer.
    fn is_full(&self, tokens: u64, window: u64) -> bool {
        tokens > self.available_tokens(window)
    }

    /// The tokens that a request may have.
    fn available_tokens(&self, window: u64) -> u64 {
        window - self.reserve.min(window / 4)
    }
}

/// Estimated tokens of what stands before every history.
pub(super) fn estimate_prefix_tokens(cx: &TurnContext) -> u64 {
    let tools = cx.tools.tool_specs().iter().map(|spec| {
        let schema = spec.schema.to_string();
        estimate_text(&spec.name) + estimate_text(&spec.description) + estimate_text(&schema)
    });
    estimate_text(&cx.system) + tools.sum::<u64>()
}

/// The history for the next call, made smaller before it is too long (R-CTX-1).
pub(super) async fn fit_history(
    cx: &TurnContext,
    state: &mut LoopState,
) -> Result<Vec<Arc<HistoryItem>>, Stopped> {
    let items = begin(cx, state).await?;
    let due = cx
        .context
        .is_due(state.estimate_tokens(&items), state.model.info.window);
    if !due || state.just_compacted || !state.may_compact() || lacks_floor(state, &items) {
        return Ok(items);
    }
    match summarize_history(cx, state, &items, CompactTrigger::Threshold, None).await? {
        Summarised::Smaller => begin(cx, state).await,
        // After a stop at a limit the step's own call is not made either.
        Summarised::Same(_) | Summarised::Failed(_) | Summarised::Limited(_) => Ok(items),
    }
}

/// Before a hop along the route (R-PROV-4), with `state.model` set to where it leads: makes the history smaller
/// if that model's window asks for it, and tells whether it fits. The notes are written by that model, or by
/// `compaction_model`. The loop's own look before the next call then finds nothing more to do.
pub(super) async fn fits_after_hop(cx: &TurnContext, state: &mut LoopState) -> Result<bool, Stopped> {
    let items = fit_history(cx, state).await?;
    let full = cx
        .context
        .is_full(state.estimate_tokens(&items), state.model.info.window);
    Ok(!full && !lacks_floor(state, &items))
}

async fn begin(cx: &TurnContext, state: &mut LoopState) -> Result<Vec<Arc<HistoryItem>>, Stopped> {
    let begun = cx.port.begin_step().await?;
    state.failed_compactions = begun.failed_compactions;
    state.used.context = state.estimate_tokens(&begun.items);
    Ok(begun.items)
}

/// Whether what no compaction takes away is too long: system prompt, tools, and the last message.
pub(super) fn lacks_floor(state: &LoopState, items: &[Arc<HistoryItem>]) -> bool {
    let last = items.last().map_or(&items[..0], std::slice::from_ref);
    state.estimate_tokens(last) > state.model.info.window
}

/// The end of a turn whose next request cannot fit.
pub(super) fn no_room(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Option<StepOutcome> {
    let window = state.model.info.window;
    if lacks_floor(state, items) {
        return Some(StepOutcome::no_room(Outcome::PromptTooLong, window));
    }
    let full = !state.may_compact() && cx.context.is_full(state.estimate_tokens(items), window);
    full.then(|| StepOutcome::no_room(Outcome::WindowFull, window))
}

/// Replaces large old results by stubs; whether there were any.
pub(super) async fn collapse_large_results(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<bool, Stopped> {
    let stubs = compact::large_results(items);
    if stubs.is_empty() {
        return Ok(false);
    }
    let smaller = Compaction {
        stubs,
        ..as_it_is(state, items, CompactTrigger::Overflow)
    };
    tell(cx, state, items, smaller).await?;
    Ok(true)
}

/// Replaces all pictures by stubs.
pub(super) async fn drop_pictures(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<(), Stopped> {
    let smaller = Compaction {
        pictures: true,
        ..as_it_is(state, items, CompactTrigger::Picture)
    };
    tell(cx, state, items, smaller).await
}

/// What came of a summary.
pub(super) enum Summarised {
    /// The history is smaller.
    Smaller,
    /// It is what it was; why, for people.
    Same(&'static str),
    /// The model could not be asked, and the person who wanted a summary is told so.
    Failed(AgentError),
    /// A limit stands in the way of asking it, or the person said stop at one: the history stays as it is.
    Limited(Box<StepOutcome>),
}

/// Why there are no notes.
enum NoNotes {
    /// The model could not be asked.
    Failed(AgentError),
    /// It wrote none.
    Useless(AgentError),
    /// A limit stands in the way, or the person said stop at one.
    Limited(Box<StepOutcome>),
}

/// Replaces the middle of the history by notes, or by a digest where no good ones can be had.
pub(super) async fn summarize_history(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    trigger: CompactTrigger,
    instructions: Option<&str>,
) -> Result<Summarised, Stopped> {
    let Some(middle) = compact::find_compaction_range(items) else {
        return Ok(Summarised::Same("the conversation is short; nothing to compact"));
    };
    state.just_compacted = true;
    let before = compact::estimate_total_tokens(items);
    let kept = before - compact::estimate_total_tokens(middle.slice_items(items));
    let after = |text: &str| kept + compact::summary_tokens(text);
    let why = match write_notes(cx, state, middle, items, trigger, instructions).await? {
        Ok(text) if compact::is_sufficient_reduction(before, after(&text)) => {
            state.failed_compactions = 0;
            replace_middle(cx, state, items, middle, text, trigger, false).await?;
            return Ok(Summarised::Smaller);
        }
        Ok(_) => "the summary would save less than a fifth".to_owned(),
        Err(NoNotes::Failed(error)) if trigger == CompactTrigger::Manual => {
            return Ok(Summarised::Failed(error));
        }
        Err(NoNotes::Failed(error) | NoNotes::Useless(error)) => error.to_string(),
        Err(NoNotes::Limited(end)) => match &end.error {
            // At a limit that holds the smaller request may fit still.
            Some(error) if trigger != CompactTrigger::Manual => error.to_string(),
            Some(_) | None => return Ok(Summarised::Limited(end)),
        },
    };
    let digest = compact::build_digest(middle.slice_items(items));
    let helps = after(&digest) < before;
    tell_failure(cx, state, &why, helps).await?;
    if !helps {
        return Ok(Summarised::Same("no summary made the conversation shorter"));
    }
    replace_middle(cx, state, items, middle, digest, trigger, true).await?;
    Ok(Summarised::Smaller)
}

async fn replace_middle(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    middle: CompactionRange,
    text: String,
    trigger: CompactTrigger,
    digest: bool,
) -> Result<(), Stopped> {
    let smaller = Compaction {
        summary: Some(middle.build_summary(items, text, digest)),
        ..as_it_is(state, items, trigger)
    };
    cx.totals.compactions.add(1);
    tell(cx, state, items, smaller).await
}

/// Says why there are no notes, and after the third time in a row that no more are asked for.
async fn tell_failure(
    cx: &TurnContext,
    state: &mut LoopState,
    why: &str,
    digest: bool,
) -> Result<(), Stopped> {
    let then = if digest {
        "a rule-based digest is used instead"
    } else {
        "it stays as it is"
    };
    let message = format!("could not summarize the conversation: {why}; {then}");
    cx.port
        .emit_event(build_warning(COMPACTION_FAILED, message))
        .await?;
    state.failed_compactions += 1;
    if state.failed_compactions == FAILURES {
        let message =
            "three summaries in a row failed; automatic compaction is off for this session. Compact it by hand, or start a new session"
                .to_owned();
        cx.port
            .emit_event(build_warning(COMPACTION_RESTS, message))
            .await?;
    }
    Ok(())
}

/// Has a model write the notes, or says why there are none.
async fn write_notes(
    cx: &TurnContext,
    state: &mut LoopState,
    middle: CompactionRange,
    items: &[Arc<HistoryItem>],
    trigger: CompactTrigger,
    instructions: Option<&str>,
) -> Result<Result<String, NoNotes>, Stopped> {
    let model = resolve_notes_model(cx, state).await?;
    let mut part = middle;
    // By hand nothing else is done.
    let without =
        (trigger != CompactTrigger::Manual).then_some("the conversation continues without a summary");
    for shorter in 0.. {
        let request = notes_request(
            &model,
            compact::build_summary_prompt(part.slice_items(items), instructions),
        );
        // Nobody takes over from who writes the notes.
        let kept = state.way.disable_fallback(without);
        let asked = call_with_retries(
            cx,
            &model,
            &mut state.way,
            request,
            &mut state.used,
            Visibility::Nothing,
        )
        .await?;
        state.way.restore_fallback(kept);
        match asked {
            CallOutcome::Answered(answered) => {
                let unread = compact::build_digest(
                    &middle.slice_items(items)
                        [..middle.slice_items(items).len() - part.slice_items(items).len()],
                );
                return Ok(extract_notes(&model, *answered)
                    .map(|text| format!("{unread}\n{text}").trim().to_owned())
                    .map_err(NoNotes::Useless));
            }
            CallOutcome::TooLong { error, limit } => {
                if let Some(limit) = limit {
                    learn_window(cx, state, &model, limit);
                }
                match part.without_older_half(items) {
                    Some(smaller) if shorter < SHORTER => part = smaller,
                    _ => return Ok(Err(NoNotes::Failed(error))),
                }
            }
            CallOutcome::ImageRefused(error)
            | CallOutcome::OutputRefused { error, .. }
            | CallOutcome::Failed(error) => {
                return Ok(Err(NoNotes::Failed(error)));
            }
            CallOutcome::Limited(end) => return Ok(Err(NoNotes::Limited(end))),
        }
    }
    unreachable!("it ends by itself")
}

fn notes_request(model: &ResolvedModel, transcript: String) -> Arc<ModelRequest> {
    let longest = if is_thinking_enabled(&model.model, None) {
        NOTES_AND_THOUGHTS
    } else {
        NOTES
    };
    Arc::new(ModelRequest {
        model: model.model.clone(),
        system: compact::SUMMARY_SYSTEM.into(),
        messages: vec![HistoryItem::new(Message::user_text(transcript))],
        tools: Arc::new([]),
        max_output_tokens: longest.min(model.info.max_output),
        effort: None,
    })
}

/// What the model wrote.
fn extract_notes(model: &ResolvedModel, answered: ModelAnswer) -> Result<String, AgentError> {
    let text = answered
        .answer
        .message
        .map(|message| message.text())
        .unwrap_or_default();
    match answered.stop {
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

/// An overflow named the real window (R-CTX-3).
pub(super) fn learn_window(cx: &TurnContext, state: &mut LoopState, model: &ResolvedModel, limit: u64) {
    cx.models.learn_window(model, limit);
    if model.label() == state.model.label() {
        state.learn_window(limit);
    }
}

/// Who writes the notes.
async fn resolve_notes_model(cx: &TurnContext, state: &LoopState) -> Result<ResolvedModel, Stopped> {
    let Some(named) = &cx.context.compaction_model else {
        return Ok(state.model.clone());
    };
    let choice = super::ModelChoice {
        model: Some(named.clone()),
        ..cx.choice.clone()
    };
    let resolved = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Stopped),
        resolved = cx.models.resolve_model(&choice) => resolved,
    };
    match resolved {
        Ok(model) => Ok(model),
        Err(error) => {
            let message =
                format!("compaction_model {named:?} is unavailable: {error}; using the session's model");
            cx.port
                .emit_event(build_warning("compaction_model", message))
                .await?;
            Ok(state.model.clone())
        }
    }
}

fn build_warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

/// A compaction that changes nothing yet.
fn as_it_is(state: &LoopState, items: &[Arc<HistoryItem>], trigger: CompactTrigger) -> Compaction {
    Compaction {
        trigger,
        tokens_before: state.estimate_tokens(items),
        tokens_after: 0,
        messages_before: u32::try_from(items.len()).unwrap_or(u32::MAX),
        messages_after: 0,
        summary: None,
        stubs: Vec::new(),
        pictures: false,
    }
}

async fn tell(
    cx: &TurnContext,
    state: &LoopState,
    items: &[Arc<HistoryItem>],
    mut smaller: Compaction,
) -> Result<(), Stopped> {
    let after = compact::apply_to_copy(items, &smaller);
    smaller.tokens_after = state.estimate_tokens(&after);
    smaller.messages_after = u32::try_from(after.len()).unwrap_or(u32::MAX);
    cx.port.emit_event(Event::Compacted(Arc::new(smaller))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_the_specifications() {
        let policy = ContextPolicy::default();
        assert!(!policy.is_due(143_856, 200_000));
        assert!(policy.is_due(143_857, 200_000));
        assert!(!policy.is_full(191_808, 200_000));
        assert!(policy.is_full(191_809, 200_000));
        // Of a small window not all is kept free.
        assert!(!policy.is_due(2_304, 4_096));
        assert!(policy.is_due(2_305, 4_096));
        assert!(policy.is_full(3_073, 4_096));
        assert!(policy.is_due(1, 0));
    }

    #[test]
    fn the_threshold_and_the_reserve_can_be_set() {
        let policy = ContextPolicy {
            threshold: 0.5,
            reserve: 20_000,
            ..ContextPolicy::default()
        };
        assert!(!policy.is_due(90_000, 200_000));
        assert!(policy.is_due(90_001, 200_000));
        assert!(!policy.is_full(180_000, 200_000));
        assert!(policy.is_full(180_001, 200_000));
        assert!(!policy.is_full(3_072, 4_096), "a quarter at most is kept free");
    }
}
