//! One step: a model call, and the tool calls that it requested.
//!
//! It must not decide what follows a step: that is `transition`'s.

use std::sync::Arc;

use super::accumulate::MAX_CALLS;
use super::attempt::{ModelAnswer, OutputVisibility};
use super::compact::{is_due, learn_window};
use super::context::TurnContext;
use super::emit::{emit_late_warning, emit_warning, retract_output};
use super::left_in_text::{CALL_QUESTION, CALL_SWITCHES, has_call, warn_of_marks};
use super::loop_state::{LoopState, describe_cut_calls};
use super::model_call::{CallOutcome, call_with_retries};
use super::model_choice::ResolvedModel;
use super::outcome::{DeferredMessage, StepOutcome};
use super::session_link::TurnStopped;
use super::tool_run::ToolRun;
use super::tool_step::run_tool_step;
use super::transition::Outcome;
use crate::base::clock;
use crate::domain::{AgentError, ErrorCause, ErrorCode, Event, Message};
use crate::provider::{HistoryItem, ModelRequest, RequestParts, StopReason};

/// The code of the warning that a provider rejected our output limit.
const OUTPUT_LIMIT: &str = "output_limit";

/// The code of the warning that a message had more tool calls than can run.
const CALLS_LEFT_OUT: &str = "tool_calls_left_out";

/// Runs one step with the given history.
pub(super) async fn run_step(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<StepOutcome, TurnStopped> {
    let started = clock::now();
    let model_answer = match call_with_accepted_request(cx, state, items).await? {
        CallOutcome::Answered(model_answer) => *model_answer,
        CallOutcome::TooLong { error, limit } => {
            if let Some(limit) = limit {
                learn_window(cx, state, limit);
            }
            let outcome = if state.auto_compact() {
                Outcome::PromptTooLong
            } else {
                Outcome::WindowFull
            };
            return Ok(StepOutcome {
                window_unknown: limit.is_none() && !is_due(cx, state, items),
                ..StepOutcome::from_failure(outcome, error)
            });
        }
        CallOutcome::ImageRefused(error) => {
            return Ok(StepOutcome::from_failure(Outcome::ImageRefused, error));
        }
        CallOutcome::Limited(end) => return Ok(*end),
        CallOutcome::OutputRefused { error, .. } | CallOutcome::Failed(error) => {
            return Ok(StepOutcome::from_failure(Outcome::ProviderFailed, error));
        }
    };
    let input_tokens = model_answer.spent.usage.total_input_tokens();
    if input_tokens > state.model.info.window {
        cx.settings.models.confirm_window(&state.model, input_tokens);
    }
    state.record_token_count(items, input_tokens);
    let output_tokens = model_answer.spent.usage.output;
    let mut end = process_answer(cx, state, model_answer).await?;
    end.output_tokens = output_tokens;
    cx.services.totals.step.record(started.elapsed());
    Ok(end)
}

/// Calls the model. If the provider rejects the output limit, lowers it and repeats the request.
///
/// This is not a retry: the request is a different one, and no answer is lost.
async fn call_with_accepted_request(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<CallOutcome, TurnStopped> {
    // What is left next to this prompt, if the provider names it.
    let mut room = u32::MAX;
    // Each limit is smaller than the last, so this loop ends.
    loop {
        let request = Arc::new(ModelRequest {
            model: state.model.model.clone(),
            system: cx.prompt.text.for_model(&state.model.model),
            messages: items.to_vec(),
            tools: cx.tools.specs_for(state.model.edit_tool),
            max_output_tokens: state.output_for(items).min(room),
            is_limit_assumed: state.is_output_assumed(),
            effort: state.model.effort,
            cache_key: Some(cx.session.as_str().into()),
            context_window: Some(state.model.info.window),
            web_search: false,
            omitted: RequestParts::new(),
        });
        let requested = request.max_output_tokens;
        let outcome = call_with_retries(
            cx,
            &state.model,
            &mut state.access,
            request,
            &state.used,
            OutputVisibility::Deltas,
        )
        .await?;
        let Some((named, words)) = refused_output(state, requested, &outcome) else {
            return Ok(outcome);
        };
        if let CallOutcome::TooLong {
            limit: Some(limit), ..
        }
        | CallOutcome::OutputRefused {
            window: Some(limit), ..
        } = &outcome
        {
            learn_window(cx, state, *limit);
        }
        if let CallOutcome::OutputRefused {
            window: Some(_),
            limit: Some(fits),
            ..
        } = &outcome
            && *fits < requested
        {
            // This prompt leaves less room; the model's own limit is as before.
            room = *fits;
            state.access.fallback_reason = None;
            continue;
        }
        let Some(limit) = state.lower_output(requested, named) else {
            return Ok(outcome);
        };
        // The rejected limit was our mistake, not a reason to fall back to another provider.
        state.access.fallback_reason = None;
        let message = format!(
            "{} rejected an output limit of {requested} tokens ({words}); using {limit} in this session",
            state.model.label()
        );
        tracing::warn!(model = %state.model.label(), requested, limit, "output limit rejected");
        emit_late_warning(cx, OUTPUT_LIMIT, message).await?;
    }
}

/// Returns the limit and the wording if a request was rejected for its output limit.
///
/// If the model's limit is only assumed, any 400, 402, 413 or 422 counts when we requested more than the assumption.
/// The window, or a credit balance that covers less output, may be the real reason.
fn refused_output(state: &LoopState, requested: u32, outcome: &CallOutcome) -> Option<(Option<u32>, String)> {
    let info = &state.model.info;
    let (named, error) = match outcome {
        CallOutcome::OutputRefused { error, limit, .. } => (*limit, error),
        CallOutcome::TooLong { error, .. } | CallOutcome::Failed(error)
            if !info.knows_max_output
                && requested > info.max_output
                && matches!(error.status, Some(400 | 402 | 413 | 422)) =>
        {
            (None, error)
        }
        CallOutcome::Answered(_)
        | CallOutcome::TooLong { .. }
        | CallOutcome::ImageRefused(_)
        | CallOutcome::Limited(_)
        | CallOutcome::Failed(_) => return None,
    };
    Some((named, provider_message(error)))
}

/// Returns the provider's own words about an error.
fn provider_message(error: &AgentError) -> String {
    let cause = error.cause.clone();
    cause.map_or_else(|| error.message.clone(), String::from)
}

/// Emits the answer's message, then runs its tool calls.
async fn process_answer(
    cx: &TurnContext,
    state: &mut LoopState,
    model_answer: ModelAnswer,
) -> Result<StepOutcome, TurnStopped> {
    let model = &state.model;
    let ModelAnswer {
        answer,
        stop,
        streamed,
        overlong,
        ..
    } = model_answer;
    let has_text = answer
        .message
        .as_ref()
        .is_some_and(|message| !message.text().trim().is_empty());
    let undecided = match stop {
        StopReason::MaxTokens | StopReason::WindowFull if overlong => {
            Some(StepOutcome::from_outcome(Outcome::Overlong))
        }
        StopReason::MaxTokens | StopReason::WindowFull => {
            state.conduct.pending_nudge = describe_cut_calls(&answer.cut_calls);
            Some(StepOutcome::from_outcome(Outcome::Truncated))
        }
        StopReason::EndTurn | StopReason::ToolUse if !has_text && answer.wanted.is_empty() => {
            Some(empty_answer_outcome(model))
        }
        // Refused and paused answers are handled below, after their text is in the history.
        StopReason::EndTurn | StopReason::ToolUse | StopReason::PauseTurn | StopReason::Refusal(_) => None,
    };
    // The transition decides between keeping this answer and requesting it again, so nothing is emitted yet.
    if let Some(mut end) = undecided {
        end.deferred = Some(DeferredMessage {
            message: answer.message,
            streamed,
        });
        return Ok(end);
    }
    let text = answer.message.as_ref().map(Message::text);
    match answer.message {
        Some(message) => cx.link.emit_event(Event::Message(Arc::new(message))).await?,
        None => retract_output(cx, streamed).await?,
    }
    match stop {
        StopReason::Refusal(words) => return Ok(refused_outcome(model, words)),
        StopReason::PauseTurn if answer.wanted.is_empty() => {
            return Ok(StepOutcome::from_outcome(Outcome::Paused));
        }
        _ => {}
    }
    if answer.wanted.is_empty() {
        return finish_answer(cx, state, text).await;
    }
    let mut calls: Vec<ToolRun> = answer.wanted.into_iter().map(ToolRun::new).collect();
    if answer.left_out > 0 {
        report_calls_left_out(cx, &mut calls, answer.left_out).await?;
    }
    run_tool_step(cx, &mut state.conduct, calls).await
}

/// Ends a step whose answer requested no tools, at least not in a way that the server recognized.
async fn finish_answer(
    cx: &TurnContext,
    state: &mut LoopState,
    text: Option<String>,
) -> Result<StepOutcome, TurnStopped> {
    let words = text.as_deref().unwrap_or_default();
    let tools = cx.tools.specs_for(state.model.edit_tool);
    let tools: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let has_call = has_call(words, &tools);
    warn_of_marks(cx, &state.model.label(), words, has_call).await?;
    if has_call {
        state.conduct.pending_nudge = Some(CALL_QUESTION.to_owned());
        return Ok(call_in_text_outcome(&state.model));
    }
    Ok(StepOutcome {
        answer: text,
        ..StepOutcome::from_outcome(Outcome::Answered)
    })
}

/// Reports to the user and the model that a message had too many tool calls.
async fn report_calls_left_out(
    cx: &TurnContext,
    calls: &mut [ToolRun],
    left_out: usize,
) -> Result<(), TurnStopped> {
    if let Some(last) = calls.last_mut() {
        last.add_note(&format!(
            "[{left_out} more calls of this message were not run: a message can have {MAX_CALLS}. Make those that are \
             still needed in later messages.]"
        ));
    }
    let message = format!(
        "the model made {} tool calls in one message; {left_out} of them were left out",
        calls.len() + left_out
    );
    emit_warning(cx, CALLS_LEFT_OUT, message).await
}

fn refused_outcome(model: &ResolvedModel, words: Option<String>) -> StepOutcome {
    let mut error = AgentError::new(
        ErrorCode::ProviderError,
        "the model or a content filter declined to answer",
    )
    .with_user_action("rephrase the request, or choose another model");
    error.cause = words.clone().map(ErrorCause::from);
    add_model_context(&mut error, model);
    StepOutcome {
        detail: words,
        error: Some(error),
        ..StepOutcome::from_outcome(Outcome::Refused)
    }
}

fn empty_answer_outcome(model: &ResolvedModel) -> StepOutcome {
    let mut error = AgentError::new(ErrorCode::EmptyResponse, "the model returned an empty answer")
        .with_user_action("send the prompt again, or choose another model");
    add_model_context(&mut error, model);
    StepOutcome {
        error: Some(error),
        ..StepOutcome::from_outcome(Outcome::Empty)
    }
}

fn call_in_text_outcome(model: &ResolvedModel) -> StepOutcome {
    let mut error = AgentError::new(
        ErrorCode::ProviderError,
        "the model wrote a tool call as text, and nothing was run",
    )
    .with_user_action(CALL_SWITCHES);
    add_model_context(&mut error, model);
    StepOutcome::from_failure(Outcome::CallInText, error)
}

fn add_model_context(error: &mut AgentError, model: &ResolvedModel) {
    error.provider = Some(model.provider.name().to_owned());
    error.model = Some(model.model.clone());
}
