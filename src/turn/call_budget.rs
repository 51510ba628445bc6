//! The spending limits around a model call (R-BUDGET): it is admitted before, and its cost is booked after.
//!
//! The arithmetic is `budget`'s and the lock is `ledger`'s. This module asks the user, and words the outcome.

use super::attempt::{CallUsage, search_cost};
use super::budget::{BudgetWarning, CallEstimate, unknown_price};
use super::context::TurnContext;
use super::emit::{emit_late_warning, emit_warning};
use super::ledger::{BudgetDecision, Reservation};
use super::model_choice::ResolvedModel;
use super::outcome::StepOutcome;
use super::session_link::{LimitAnswer, TurnStopped};
use super::transition::{Limit, Outcome};
use crate::context::{compact, estimate_text, estimate_tool_tokens};
use crate::domain::{AgentError, Cost, ErrorCode, LimitName, LimitReached, Usage};
use crate::provider::ModelRequest;

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
            let tokens = price.calculate_cost(&Usage {
                input: input_tokens(request),
                ..Usage::default()
            });
            tokens + search_cost(model, u32::from(request.web_search))
        }),
    };
    loop {
        // Reading the day's spending may wait for the store; a cancel does not.
        let decision = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            leave = cx.services.budget.request_call(&planned) => leave,
        };
        if let Some(result) = to_reservation_result(decision) {
            return Ok(result.map(Some));
        }
        // One question at a time for a turn and its sub-agents: one answer may be enough for all of them.
        // Ask the ledger again under the lock: the limit may have been raised while this call waited for it.
        let _asking = cx
            .link
            .pause_clock_during(cx.services.budget.lock_limit_prompt())
            .await?;
        let reached = match cx.services.budget.request_call(&planned).await {
            BudgetDecision::Reached(reached) => *reached,
            decision => match to_reservation_result(decision) {
                Some(result) => return Ok(result.map(Some)),
                None => continue,
            },
        };
        let unknown = reached.limit == LimitName::UnknownPrice;
        match cx.link.ask_about_limit(reached.clone()).await? {
            LimitAnswer::Raised(by) => cx.services.budget.raise_limit(reached.limit, by),
            LimitAnswer::Stop => {
                cx.services.budget.stop();
                return Ok(Err(Box::new(StepOutcome::stopped_at(reached.limit.name()))));
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
fn to_reservation_result(decision: BudgetDecision) -> Option<Result<Reservation, Box<StepOutcome>>> {
    match decision {
        BudgetDecision::Go(reservation) => Some(Ok(reservation)),
        BudgetDecision::Stopped => Some(Err(Box::new(StepOutcome::stopped_at("stopped at a limit")))),
        BudgetDecision::Reached(_) => None,
    }
}

/// Estimates the input tokens of a request.
fn input_tokens(request: &ModelRequest) -> u64 {
    estimate_text(&request.system)
        + estimate_tool_tokens(&request.tools)
        + compact::estimate_total_tokens(&request.messages)
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
    for warning in cx.services.budget.charge_cost(provider, cost) {
        log_budget_warning(&warning);
        // Late, because the cost is spent even if the turn is being canceled.
        emit_late_warning(cx, LIMIT_NEAR, warning.to_message(provider)).await?;
    }
    Ok(())
}

fn log_budget_warning(warning: &BudgetWarning) {
    let (spent, most) = (warning.spent.to_usd(), warning.most.to_usd());
    let message = "much of a limit is used";
    match warning.limit {
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
