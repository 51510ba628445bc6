//! The limits of a turn (R-BUDGET): budget admission of model calls, the limits of steps and tool calls, and the final
//! summary of a degraded turn.
//!
//! The arithmetic is `budget`'s and the lock is `ledger`'s. This module asks the user, words the outcome, and books
//! costs.

use std::sync::Arc;

use super::attempt::{CallUsage, OutputVisibility};
use super::budget::{BudgetWarning, CallEstimate, unknown_price};
use super::calls::{ToolRun, run_calls};
use super::context::TurnContext;
use super::ledger::{BudgetDecision, Reservation};
use super::loop_state::LoopState;
use super::model_choice::ResolvedModel;
use super::run::push_hidden_message;
use super::session_link::{LimitAnswer, TurnStopped};
use super::step::{CallOutcome, StepOutcome, call_with_retries, retract_output};
use super::transition::{Limit, Outcome, TransitionFacts, next_transition};
use crate::context::{compact, estimate_text};
use crate::domain::{
    AgentError, Cost, ErrorCode, Event, LimitName, LimitReached, Message, TerminalReason, Transition, Usage,
};
use crate::provider::{HistoryItem, ModelRequest};

/// The code of the warning that a model's price is unknown. Every turn sends it; the session suppresses repeats.
pub const UNKNOWN_PRICE: &str = "unknown_price";

/// The code of the warning that 80 % of a limit is used.
const LIMIT_NEAR: &str = "limit_near";

/// Reserves the estimate of a call. If a limit forbids the call, asks the user. Hold the reservation while the call is
/// in flight.
///
/// Returns no reservation if no spending limit applies.
pub(super) async fn admit_within_budget(
    cx: &TurnContext,
    model: &ResolvedModel,
    request: &ModelRequest,
) -> Result<Result<Option<Reservation>, Box<StepOutcome>>, TurnStopped> {
    let provider = model.provider.name();
    if !cx.services.budget.has_money_limit(provider) {
        return Ok(Ok(None));
    }
    let planned = CallEstimate {
        provider: provider.to_owned(),
        model: model.label(),
        estimate: model.info.price.map(|price| {
            price.calculate_cost(&Usage {
                input: input_tokens(request),
                ..Usage::default()
            })
        }),
    };
    loop {
        // Reading the day's spending may wait for the store; a cancel does not.
        let leave = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            leave = cx.services.budget.request_call(&planned) => leave,
        };
        if let Some(left) = to_reservation_result(leave) {
            return Ok(left.map(Some));
        }
        // One question at a time for a turn and its sub-agents: one answer may be enough for all of them.
        // Ask the ledger again under the lock: the limit may have been raised while this call waited for it.
        let _asking = cx
            .link
            .pause_clock_during(cx.services.budget.lock_limit_prompt())
            .await?;
        let reached = match cx.services.budget.request_call(&planned).await {
            BudgetDecision::Reached(reached) => *reached,
            leave => match to_reservation_result(leave) {
                Some(left) => return Ok(left.map(Some)),
                None => continue,
            },
        };
        let unknown = reached.limit == LimitName::UnknownPrice;
        match cx.link.ask_about_limit(reached.clone()).await? {
            LimitAnswer::Raised(by) => cx.services.budget.raise_limit(reached.limit, by),
            LimitAnswer::Stop => {
                cx.services.budget.stop();
                return Ok(Err(Box::new(stopped_at_limit_outcome(reached.limit.name()))));
            }
            LimitAnswer::Accepted => cx.services.budget.accept_unknown_price(&planned.model),
            // R-BUDGET: without a client that takes questions, an unknown price is one warning and no obstacle.
            LimitAnswer::Holds if unknown => {
                cx.services.budget.accept_unknown_price(&planned.model);
                emit_warning(cx, UNKNOWN_PRICE, unknown_price(&planned.model)).await?;
            }
            LimitAnswer::Holds => return Ok(Err(Box::new(limit_exceeded_outcome(&reached)))),
        }
    }
}

/// Converts a budget decision. Returns `None` if a limit forbids the call.
fn to_reservation_result(leave: BudgetDecision) -> Option<Result<Reservation, Box<StepOutcome>>> {
    match leave {
        BudgetDecision::Go(reservation) => Some(Ok(reservation)),
        BudgetDecision::Stopped => Some(Err(Box::new(stopped_at_limit_outcome("stopped at a limit")))),
        BudgetDecision::Reached(_) => None,
    }
}

/// Estimates the input tokens of a request.
fn input_tokens(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|spec| {
        let schema = spec.schema.to_string();
        estimate_text(&spec.name) + estimate_text(&spec.description) + estimate_text(&schema)
    });
    estimate_text(&request.system) + tools.sum::<u64>() + compact::estimate_total_tokens(&request.messages)
}

/// Returns what a complete or partial answer cost. If the provider reported no usage, the cost is estimated from the
/// bytes: unknown is not zero, or a limit would never fill.
pub(super) fn compute_call_cost(
    model: &ResolvedModel,
    request: &ModelRequest,
    spent: &CallUsage,
) -> Option<Cost> {
    let (true, Some(Cost(0)), Some(price)) = (spent.usage == Usage::default(), spent.cost, model.info.price)
    else {
        return spent.cost;
    };
    Some(price.calculate_cost(&Usage {
        input: input_tokens(request),
        // R-CTX-1: about four bytes per token.
        output: (spent.received_bytes as u64).div_ceil(4),
        ..Usage::default()
    }))
}

/// Books the cost of a call, and warns about limits that it brings near.
pub(super) async fn record_call_cost(
    cx: &TurnContext,
    model: &ResolvedModel,
    cost: Option<Cost>,
) -> Result<(), TurnStopped> {
    let Some(cost) = cost else { return Ok(()) };
    let provider = model.provider.name();
    for near in cx.services.budget.charge_cost(provider, cost) {
        log_budget_warning(&near);
        let told = Event::Warning {
            code: LIMIT_NEAR.to_owned(),
            message: near.to_message(provider),
        };
        // Late, because the cost is spent even if the turn is being canceled.
        cx.link.emit_late(told).await?;
    }
    Ok(())
}

fn log_budget_warning(near: &BudgetWarning) {
    let (spent, most) = (near.spent.to_usd(), near.most.to_usd());
    let message = "much of a limit is used";
    match near.limit {
        LimitName::SessionCost => {
            tracing::warn!(session_cost = spent, max_session_cost = most, "{message}");
        }
        LimitName::TurnCost => tracing::warn!(turn_cost = spent, max_turn_cost = most, "{message}"),
        LimitName::DayCost => tracing::warn!(day_cost = spent, max_day_cost = most, "{message}"),
        LimitName::ProviderDayCost => {
            tracing::warn!(provider_day_cost = spent, max_day_cost = most, "{message}");
        }
        LimitName::Steps | LimitName::ToolCalls | LimitName::WallTime | LimitName::UnknownPrice => {}
    }
}

async fn emit_warning(cx: &TurnContext, code: &str, message: String) -> Result<(), TurnStopped> {
    let code = code.to_owned();
    cx.link.emit_event(Event::Warning { code, message }).await
}

fn limit_exceeded_outcome(reached: &LimitReached) -> StepOutcome {
    let error =
        AgentError::new(ErrorCode::BudgetExceeded, reached.message.clone()).with_user_action(format!(
            "raise {} in the configuration, or choose a cheaper model",
            match reached.limit {
                LimitName::ProviderDayCost => "max_day_cost of the provider",
                limit => limit.name(),
            }
        ));
    StepOutcome::from_failure(Outcome::LimitReached(Limit::Money), error)
}

fn stopped_at_limit_outcome(at: &str) -> StepOutcome {
    StepOutcome {
        detail: Some(format!("stopped by the user: {at}")),
        ..StepOutcome::from_outcome(Outcome::StoppedByUser)
    }
}

/// The calls of a step that may run, those that may not, and what that means for the turn.
pub(super) struct LimitApproval {
    pub(super) run: Vec<ToolRun>,
    refused: Vec<ToolRun>,
    end: Option<StepOutcome>,
}

/// Applies the tool-call limit to a step's calls (R-BUDGET). Asks the user if the limit is reached.
pub(super) async fn apply_tool_call_limit(
    cx: &TurnContext,
    mut calls: Vec<ToolRun>,
) -> Result<LimitApproval, TurnStopped> {
    loop {
        if cx.services.budget.take_tool_calls(calls.len()).is_ok() {
            return Ok(LimitApproval::allow_all(calls));
        }
        let _asking = cx
            .link
            .pause_clock_during(cx.services.budget.lock_limit_prompt())
            .await?;
        // Another part of the turn may have raised the limit meanwhile.
        let Err(left) = cx.services.budget.take_tool_calls(calls.len()) else {
            return Ok(LimitApproval::allow_all(calls));
        };
        let most = cx.settings.limits.max_tool_calls.unwrap_or_default();
        let reached = LimitReached {
            limit: LimitName::ToolCalls,
            used: u64::from(most).saturating_add(calls.len() as u64) - left as u64,
            most: u64::from(most),
            provider: None,
            model: None,
            message: format!("the turn has used its {most} tool calls"),
        };
        let (end, may) = match cx.link.ask_about_limit(reached.clone()).await? {
            LimitAnswer::Raised(by) => {
                cx.services.budget.raise_limit(LimitName::ToolCalls, by);
                continue;
            }
            LimitAnswer::Stop => (stopped_at_limit_outcome(reached.limit.name()), 0),
            LimitAnswer::Accepted | LimitAnswer::Holds => {
                // The calls that still fit run; only the rest is refused.
                (
                    tool_calls_used_up(most),
                    cx.services.budget.take_up_to(calls.len()),
                )
            }
        };
        let refused = calls.split_off(may);
        return Ok(LimitApproval {
            run: calls,
            refused,
            end: Some(end),
        });
    }
}

impl LimitApproval {
    fn allow_all(calls: Vec<ToolRun>) -> Self {
        Self {
            run: calls,
            refused: Vec::new(),
            end: None,
        }
    }

    /// Answers the calls that did not run. Returns the step's outcome if the limit decides it.
    pub(super) async fn settle_denied_calls(
        self,
        cx: &TurnContext,
    ) -> Result<Option<StepOutcome>, TurnStopped> {
        if !self.refused.is_empty() {
            run_calls(
                cx,
                self.refused,
                Some("Not run: the limit of tool calls is reached"),
            )
            .await?;
        }
        Ok(self.end)
    }
}

fn tool_calls_used_up(most: u32) -> StepOutcome {
    let error = AgentError::new(
        ErrorCode::ToolCallsExceeded,
        format!("reached {most} tool calls without completion"),
    )
    .with_user_action("send a prompt to continue, or raise max_tool_calls in the configuration");
    StepOutcome::from_failure(Outcome::LimitReached(Limit::ToolCalls), error)
}

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
                end.detail = stopped_at_limit_outcome(LimitName::Steps.name()).detail;
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
/// whether it did.
pub(super) async fn summarize_at_limit(
    cx: &TurnContext,
    state: &mut LoopState,
    next: Transition,
) -> Result<bool, TurnStopped> {
    let limited = matches!(
        next,
        Transition::Terminal(TerminalReason::MaxTurns | TerminalReason::MaxToolCalls)
    );
    if !limited || !cx.settings.limits.degrade {
        return Ok(false);
    }
    final_summary(cx, state, SUM_UP, "the turn ends without a summary").await
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
    let model = state.model.clone();
    // As plain text: some APIs reject a history with tool calls if the request has no tools.
    let told = Message::user_text(compact::format_transcript(&items));
    let request = Arc::new(ModelRequest {
        model: model.model.clone(),
        system: cx.prompt.text.clone(),
        messages: vec![HistoryItem::new(told)],
        tools: Arc::default(),
        max_output_tokens: state.max_output,
        effort: model.effort,
    });
    // An auxiliary call never falls back: what `without` says happens instead.
    let kept = state.access.disable_fallback(Some(without));
    let asked = call_with_retries(
        cx,
        &model,
        &mut state.access,
        request,
        &mut state.used,
        OutputVisibility::Deltas,
    )
    .await?;
    state.access.restore_fallback(kept);
    let CallOutcome::Answered(answered) = asked else {
        return Ok(false);
    };
    let said = answered.answer.wanted.is_empty();
    match answered.answer.message {
        Some(message) if said && !message.text().trim().is_empty() => {
            cx.link.emit_event(Event::Message(Arc::new(message))).await?;
            Ok(true)
        }
        Some(_) | None => {
            retract_output(cx, answered.shown).await?;
            Ok(false)
        }
    }
}

/// The prompt of the final summary.
const SUM_UP: &str = "The limit of this task is reached, and no more tools can be used. Say in a few sentences what \
                      was done, what was found, and what is left to do.";
