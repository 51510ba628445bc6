//! The driver of the loop, on one screen.
//!
//! It owns the order of a turn: hooks, step, stop hooks, facts, decision, consequences. The decision itself is
//! [`next_transition`]'s, and the meaning of the end is the session actor's.
//!
//! It must not decide what continues or ends a turn. Read `step` next for the model call, `tool_step` for tool calls.

use std::sync::Arc;

use super::admission::build_provider_access;
use super::compact::{
    SummaryOutcome, can_shorten, collapse_large_results, drop_pictures, estimate_prefix_tokens,
    find_overflow_range, fit_history, has_collapsible_results, lacks_floor, no_room, shorten_recent_results,
    summarize_history,
};
use super::context::{TurnContext, TurnTask};
use super::created_files::{warn_of_left_files, warn_of_new_files};
use super::emit::{emit_session_model, emit_transition, emit_warning, push_hidden_message, retract_output};
use super::environment::describe_environment;
use super::limits::{at_step_limit, summarize_at_limit};
use super::loop_state::{LoopState, recovery_prompt, target_prompt};
use super::model_choice::ResolvedModel;
use super::outcome::{StepOutcome, TurnFinish};
use super::policy::PolicyState;
use super::prompt_hooks::{before_stop, objected_too_often, review_prompts_and_plan, steer_waits};
use super::reopen_inquiries::reopen_inquiries;
use super::route::Route;
use super::routing::{before_step, fall_back, has_fallback, strip_unsupported_media};
use super::session_link::TurnStopped;
use super::step::run_step;
use super::tool_refresh::{await_tools, refresh_tools};
use super::tool_step::settle_carried_calls;
use super::transition::{Outcome, TransitionFacts, TurnProgress, next_transition};
use super::unconfined::warn_of_unconfined;
use crate::context::compact;
use crate::domain::{
    AgentError, CompactTrigger, ContinueReason, ErrorCode, Event, LimitName, TerminalReason, Transition,
};
use crate::provider::HistoryItem;

/// The code of the warning that says why a model was chosen that the user did not name. Every turn sends it; the
/// session suppresses repeats.
pub const MODEL_CHOSEN: &str = "model_chosen";

/// Runs a turn to its end; `task` is its purpose.
///
/// # Errors
/// [`TurnStopped`] if the turn was canceled or the session's actor is gone. The actor knows the reason.
pub async fn run_turn(cx: &TurnContext, task: &TurnTask) -> Result<TurnFinish, TurnStopped> {
    warn_of_left_files(cx).await?;
    // Boxed, because the compiler limits how deep futures may nest.
    let finish = Box::pin(drive_turn(cx, task)).await;
    warn_of_new_files(cx).await?;
    finish
}

async fn drive_turn(cx: &TurnContext, task: &TurnTask) -> Result<TurnFinish, TurnStopped> {
    let mut conduct = PolicyState::default();
    warn_of_unconfined(cx).await?;
    let reopened = reopen_inquiries(cx).await?;
    if let Some(detail) = reopened.stop {
        return end_early(cx, &conduct, StepOutcome::stopped_at(&detail)).await;
    }
    if !cx.resumption.carried.is_empty() {
        // They may be calls of tools that are only starting.
        let _ = await_tools(cx).await?;
        cx.tools.refresh(None, |_| false);
    }
    // Carried calls come before the model is resolved: their approvals need a result even if no model is available.
    if let Some(end) = settle_carried_calls(cx, &mut conduct).await? {
        return end_early(cx, &conduct, end).await;
    }
    let mut state = match resolve_model(cx).await? {
        Ok(model) => {
            let prefix = estimate_prefix_tokens(cx, &model);
            LoopState::new(model, prefix, cx.settings.context.auto_compact)
        }
        Err(error) => return finish_without_model(cx, error).await,
    };
    state.adopt_calibration(cx.services.statistics.calibration.clone());
    state.conduct = conduct;
    state.access = build_provider_access(cx);
    state.route = Route::new(state.model.clone(), cx.resumption.answering.clone());
    // The user answered these limits of the interrupted turn when they were asked again.
    for (limit, by) in reopened.raised {
        cx.services.budget.raise_limit(limit, by);
        if limit == LimitName::Steps {
            state.raise_steps(by);
        }
    }
    if let TurnTask::Compact { instructions } = task {
        return compact_by_hand(cx, &mut state, instructions.as_deref()).await;
    }
    if let Err(error) = await_tools(cx).await? {
        return finish_without_model(cx, error).await;
    }
    loop {
        if let Some(end) = review_prompts_and_plan(cx, &mut state.conduct).await? {
            return end_early(cx, &state.conduct, end).await;
        }
        let (items, mut end) = take_step(cx, &mut state).await?;
        let joined = before_stop(cx, &mut state, &mut end).await?;
        let facts = gather_facts(cx, &mut state, &items, (&mut end, joined)).await?;
        let next = next_transition(
            &state.progress,
            &state.effective_limits(&cx.settings.limits),
            end.outcome,
            &facts,
        );
        // The user may raise the limit, which replaces the decision, so this precedes everything that acts on it.
        let next = at_step_limit(cx, &mut state, &mut end, &facts, next).await?;
        settle_held(cx, &mut end, next).await?;
        objected_too_often(cx, &end, next).await?;
        let summed_up = summarize_at_limit(cx, &mut state, end.outcome, next).await?;
        emit_transition(cx, next, end.detail.clone()).await?;
        state.record_transition(next, &facts);
        match next {
            Transition::Continue(reason) => prepare_continuation(cx, &mut state, &items, reason, end).await?,
            Transition::Terminal(reason) => {
                let error = end.error.filter(|_| !summed_up);
                return Ok(TurnFinish {
                    summed_up,
                    ..build_turn_finish(&state.conduct, reason, error)
                });
            }
        }
    }
}

/// Ends the turn before the loop, whatever the model would say.
async fn end_early(
    cx: &TurnContext,
    conduct: &PolicyState,
    end: StepOutcome,
) -> Result<TurnFinish, TurnStopped> {
    let next = next_transition(
        &TurnProgress::default(),
        &cx.settings.limits,
        end.outcome,
        &TransitionFacts::default(),
    );
    emit_transition(cx, next, end.detail).await?;
    match next {
        Transition::Terminal(reason) => Ok(build_turn_finish(conduct, reason, end.error)),
        Transition::Continue(_) => Err(TurnStopped),
    }
}

/// Runs a turn that only makes the history smaller (`agent/compact`).
async fn compact_by_hand(
    cx: &TurnContext,
    state: &mut LoopState,
    instructions: Option<&str>,
) -> Result<TurnFinish, TurnStopped> {
    let items = cx.link.begin_step().await?.items;
    let context = state.estimate_tokens(&items);
    state.used.update(|used| used.context = context);
    let (reason, detail, error) =
        match summarize_history(cx, state, &items, CompactTrigger::Manual, instructions).await? {
            SummaryOutcome::Smaller => (TerminalReason::Completed, None, None),
            SummaryOutcome::Same(message) => (TerminalReason::Completed, Some(message.to_owned()), None),
            SummaryOutcome::Failed(error) => {
                (TerminalReason::ModelError, Some(error.to_string()), Some(error))
            }
            SummaryOutcome::Limited(end) => return end_early(cx, &state.conduct, *end).await,
        };
    emit_transition(cx, Transition::Terminal(reason), detail).await?;
    Ok(build_turn_finish(&state.conduct, reason, error))
}

/// Runs one step with the history fitted to the current model.
async fn take_step(
    cx: &TurnContext,
    state: &mut LoopState,
) -> Result<(Vec<Arc<HistoryItem>>, StepOutcome), TurnStopped> {
    if let Some(end) = before_step(cx, state).await? {
        return Ok((Vec::new(), end));
    }
    refresh_tools(cx, state).await?;
    let items = fit_history(cx, state).await?;
    // Boxed, because the compiler limits how deep futures may nest.
    let items = Box::pin(describe_environment(cx, state, items)).await?;
    let items = strip_unsupported_media(cx, state, items).await?;
    let end = match no_room(cx, state, &items) {
        Some(end) => end,
        None => run_step(cx, state, &items).await?,
    };
    Ok((items, end))
}

pub(super) async fn resolve_model(
    cx: &TurnContext,
) -> Result<Result<ResolvedModel, AgentError>, TurnStopped> {
    // Resolving may ask the editor for a key or probe a local server; a cancel does not wait for that.
    let resolved = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(TurnStopped),
        resolved = cx.settings.models.resolve_model(&cx.settings.choice) => resolved,
    };
    if let Ok(model) = &resolved {
        emit_session_model(cx, model.label()).await?;
        if let Some(choice_reason) = &model.choice_reason {
            emit_warning(cx, MODEL_CHOSEN, choice_reason.clone()).await?;
        }
    }
    Ok(resolved)
}

/// Ends a turn for which no model could be resolved.
async fn finish_without_model(cx: &TurnContext, error: AgentError) -> Result<TurnFinish, TurnStopped> {
    let reason = match error.code {
        ErrorCode::Config => TerminalReason::NotConfigured,
        _ => TerminalReason::ModelError,
    };
    // Messages that arrived meanwhile are not lost: the actor returns them with the turn's end (I16).
    emit_transition(cx, Transition::Terminal(reason), Some(error.to_string())).await?;
    Ok(build_turn_finish(&PolicyState::default(), reason, Some(error)))
}

/// Gathers what is possible at the end of a step.
async fn gather_facts(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    (end, joined): (&mut StepOutcome, bool),
) -> Result<TransitionFacts, TurnStopped> {
    // Asking whether a steer waits closes the turn to later steers, so it happens only where the turn may end.
    let rests = matches!(end.outcome, Outcome::Answered | Outcome::StopBlocked);
    let steer_waits = joined || rests && steer_waits(cx, end, true).await?;
    // Compaction cannot shrink the system prompt, the tools and the last message.
    let may_shrink = !lacks_floor(state, items);
    Ok(TransitionFacts {
        steer_waits,
        larger_output: state.larger_output(cx.settings.limits.max_escalations).is_some(),
        collapsible: may_shrink
            && end.outcome == Outcome::PromptTooLong
            && has_collapsible_results(cx, state, items),
        shortenable: end.outcome == Outcome::PromptTooLong
            && state.auto_compact()
            && can_shorten(cx, state, items, end.window_unknown),
        window_unknown: end.window_unknown,
        compactable: may_shrink && state.may_compact() && find_overflow_range(cx, state, items).is_some(),
        pictures: end.outcome == Outcome::ImageRefused && compact::has_media(items),
        under_target: state.target_used(cx.settings.limits.token_target).is_some(),
        next_on_route: end.outcome == Outcome::ProviderFailed && has_fallback(cx, state).await?,
        output_tokens: end.output_tokens,
        reflects: state.conduct.should_reflect(cx.settings.policy.reflection),
        call_in_text: end.outcome == Outcome::CallInText,
    })
}

/// Keeps or retracts the message that the step deferred.
async fn settle_held(cx: &TurnContext, end: &mut StepOutcome, next: Transition) -> Result<(), TurnStopped> {
    let Some(deferred) = end.deferred.take() else {
        return Ok(());
    };
    // The same request follows, so this answer is retracted: clients must not show both (R-LOOP-1).
    let will_retry = matches!(
        next,
        Transition::Continue(ContinueReason::MaxOutputTokensEscalate | ContinueReason::EmptyResponseRetry)
    );
    match deferred.message {
        Some(message) if !will_retry => cx.link.emit_event(Event::Message(Arc::new(message))).await,
        Some(_) | None => retract_output(cx, deferred.streamed).await,
    }
}

/// Performs what a continue reason requires before the next call.
async fn prepare_continuation(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
    reason: ContinueReason,
    end: StepOutcome,
) -> Result<(), TurnStopped> {
    let nudge = state.conduct.pending_nudge.take();
    match reason {
        ContinueReason::CollapseDrainRetry if state.progress.has_shortened() => {
            shorten_recent_results(cx, state, items, end.window_unknown).await
        }
        ContinueReason::CollapseDrainRetry => collapse_large_results(cx, state, items).await.map(drop),
        ContinueReason::ReactiveCompactRetry => {
            let trigger = CompactTrigger::Overflow;
            summarize_history(cx, state, items, trigger, None).await.map(drop)
        }
        ContinueReason::ImageRetry => drop_pictures(cx, state, items).await,
        ContinueReason::MaxOutputTokensEscalate => {
            state.raise_output_limit(cx.settings.limits.max_escalations);
            Ok(())
        }
        ContinueReason::MaxOutputTokensRecovery => push_hidden_message(cx, recovery_prompt(nudge)).await,
        ContinueReason::TokenBudgetContinuation => match state.target_used(cx.settings.limits.token_target) {
            Some(percent) => push_hidden_message(cx, target_prompt(percent)).await,
            None => Ok(()),
        },
        ContinueReason::Reflection => {
            let prompt = cx.settings.policy.reflection_prompt.as_deref();
            push_hidden_message(cx, state.conduct.take_reflection_prompt(prompt)).await
        }
        // The objection of a stop hook that is overruled is not for the model.
        ContinueReason::NextTurn if end.outcome != Outcome::CallInText => Ok(()),
        ContinueReason::NextTurn | ContinueReason::StopHookBlocking => match nudge {
            Some(words) => push_hidden_message(cx, words).await,
            None => Ok(()),
        },
        ContinueReason::ModelFallback => fall_back(cx, state, end.error).await,
        ContinueReason::Planning | ContinueReason::EmptyResponseRetry | ContinueReason::PauseTurn => Ok(()),
    }
}

fn build_turn_finish(conduct: &PolicyState, reason: TerminalReason, error: Option<AgentError>) -> TurnFinish {
    TurnFinish {
        reason,
        error,
        degraded: conduct.degraded,
        summed_up: false,
    }
}
