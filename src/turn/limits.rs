//! The step limit of a turn (R-BUDGET), and the final summary of a turn that ends at a limit.
//!
//! Spending limits are `call_budget`'s, and the limit of tool calls is `tool_limit`'s.

use std::sync::Arc;

use super::attempt::OutputVisibility;
use super::context::TurnContext;
use super::emit::{push_hidden_message, retract_output};
use super::loop_state::LoopState;
use super::model_call::{CallOutcome, build_auxiliary_request, call_auxiliary};
use super::outcome::StepOutcome;
use super::session_link::{LimitAnswer, TurnStopped};
use super::transition::{Outcome, TransitionFacts, next_transition};
use crate::context::compact;
use crate::domain::{AgentError, ErrorCode, Event, LimitName, LimitReached, TerminalReason, Transition};
use crate::provider::ModelRequest;

/// Asks the user for more steps at the step limit. Returns the new decision.
pub(super) async fn at_step_limit(
    cx: &TurnContext,
    state: &mut LoopState,
    end: &mut StepOutcome,
    facts: &TransitionFacts,
    mut next: Transition,
) -> Result<Transition, TurnStopped> {
    while next == Transition::Terminal(TerminalReason::MaxTurns) {
        let most = state.effective_limits(&cx.settings.limits).max_steps;
        let message = format!("reached {most} iterations without completion");
        let reached = LimitReached {
            limit: LimitName::Steps,
            used: u64::from(most),
            most: u64::from(most),
            provider: None,
            model: None,
            message: message.clone(),
        };
        match cx.link.ask_about_limit(reached).await? {
            LimitAnswer::Raised(by) => {
                state.raise_steps(by);
                next = next_transition(
                    &state.progress,
                    &state.effective_limits(&cx.settings.limits),
                    end.outcome,
                    facts,
                );
            }
            LimitAnswer::Stop => {
                end.detail = StepOutcome::stopped_at(LimitName::Steps.name()).detail;
                return Ok(Transition::Terminal(TerminalReason::StoppedByUser));
            }
            LimitAnswer::Accepted | LimitAnswer::Holds => {
                let error = AgentError::new(ErrorCode::MaxIterations, message)
                    .with_user_action("send a prompt to continue, or raise max_steps in the configuration");
                end.error = Some(error);
                return Ok(next);
            }
        }
    }
    Ok(next)
}

/// Lets a turn at its step or tool-call limit summarize under policy `degrade`, in one last call without tools. Returns
/// whether it did. A turn that ends in a loop always says what it lacks, and fails nevertheless.
pub(super) async fn summarize_at_limit(
    cx: &TurnContext,
    state: &mut LoopState,
    outcome: Outcome,
    next: Transition,
) -> Result<bool, TurnStopped> {
    const WITHOUT: &str = "the turn ends without a summary";
    if outcome == Outcome::Looping {
        final_summary(cx, state, LOOPED, WITHOUT).await?;
        return Ok(false);
    }
    let limited = matches!(
        next,
        Transition::Terminal(TerminalReason::MaxTurns | TerminalReason::MaxToolCalls)
    );
    if !limited || !cx.settings.limits.degrade {
        return Ok(false);
    }
    final_summary(cx, state, SUM_UP, WITHOUT).await
}

/// Makes one last call without tools, with `words` as its prompt. `without` says what happens if it fails, for people.
/// Returns whether the model answered with text.
pub(super) async fn final_summary(
    cx: &TurnContext,
    state: &mut LoopState,
    words: &str,
    without: &'static str,
) -> Result<bool, TurnStopped> {
    push_hidden_message(cx, words.to_owned()).await?;
    let items = cx.link.begin_step().await?.items;
    let mut model = state.model.clone();
    // As plain text: some APIs reject a history with tool calls if the request has no tools.
    let transcript = compact::format_transcript(&items);
    let request = Arc::new(ModelRequest {
        system: cx.prompt.text.for_model(&model.model),
        max_output_tokens: state.max_output,
        is_limit_assumed: state.is_output_assumed(),
        effort: model.effort,
        ..build_auxiliary_request(&model, "", transcript)
    });
    // An auxiliary call never falls back: what `without` says happens instead.
    let fallbacks = state.access.disable_fallback(Some(without));
    let outcome = call_auxiliary(
        cx,
        &mut model,
        &mut state.access,
        request,
        &state.used,
        OutputVisibility::Deltas,
    )
    .await?;
    state.access.restore_fallback(fallbacks);
    let CallOutcome::Answered(model_answer) = outcome else {
        return Ok(false);
    };
    let is_text_only = model_answer.answer.wanted.is_empty();
    match model_answer.answer.message {
        Some(message) if is_text_only && !message.text().trim().is_empty() => {
            cx.link.emit_event(Event::Message(Arc::new(message))).await?;
            Ok(true)
        }
        Some(_) | None => {
            retract_output(cx, model_answer.streamed).await?;
            Ok(false)
        }
    }
}

/// The prompt of the final summary.
const SUM_UP: &str = "The limit of this task is reached, and no more tools can be used. Say in a few sentences what \
                      was done, what was found, and what is left to do.";

/// The prompt of the last answer of a turn that ends in a loop.
const LOOPED: &str = "You kept making the same calls, and they led nowhere, so the turn ends, and no more tools can be \
                      used. Say in a few sentences what was done, what you tried to reach with these calls, and what \
                      you would need from the user to get on.";
