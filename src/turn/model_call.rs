//! One model call, with retries where they may help (R-PROV-1 to -3), and the accounting of each attempt.
//!
//! `attempt` makes a single call; `admission` and `failure_policy` decide whether and when to make the next. It must
//! not decide what an answer means for the turn: that is `step`'s.

use std::sync::Arc;

use super::admission::{
    AdmissionDecision, ProviderAccess, ProviderAdmission, admit_provider_call, decide_after_failure,
    emit_circuit,
};
use super::attempt::{Attempt, CallUsage, ModelAnswer, OutputVisibility, run_attempt, sleep_unless_stopped};
use super::call_budget::{admit_within_budget, compute_call_cost, record_call_cost};
use super::context::TurnContext;
use super::emit::{emit_late_warning, retract_output};
use super::failure_policy::RetryPlan;
use super::model_choice::ResolvedModel;
use super::outcome::StepOutcome;
use super::refused_parts::RefusedParts;
use super::session_link::TurnStopped;
use super::usage_meter::UsageMeter;
use crate::base::{clock, random};
use crate::domain::{AgentError, Cost, Event, Message, Usage};
use crate::provider::{
    HistoryItem, ModelRequest, ProviderError, ProviderFault, RequestParts, RetryState, is_thinking_enabled,
    least_effort,
};

/// The code of the warning that provider calls are not recorded to the cassette.
const RECORDING_FAILED: &str = "recording_failed";

/// The longest answer to an auxiliary call, in tokens. A reasoning model gets more, because its thoughts count too.
const MAX_AUXILIARY_TOKENS: u32 = 8_000;
const ANSWER_AND_THOUGHTS: u32 = 16_000;

/// The shortest output limit that is lowered further if a provider refuses it without naming its own.
const LEAST_AUXILIARY_TOKENS: u32 = 1_024;

/// The result of calling a model, retries included.
pub(super) enum CallOutcome {
    Answered(Box<ModelAnswer>),
    /// The prompt does not fit. `limit` is the real window, if the provider names it.
    TooLong {
        error: AgentError,
        limit: Option<u64>,
    },
    /// The output limit exceeds the model's. `limit` is the model's own, if the provider names it.
    OutputRefused {
        error: AgentError,
        limit: Option<u32>,
        /// The real window, if the limit is what the prompt leaves of it.
        window: Option<u64>,
    },
    ImageRefused(AgentError),
    /// A spending limit forbids the call, or the user chose to stop at one.
    Limited(Box<StepOutcome>),
    /// The call failed, and retries cannot help.
    Failed(AgentError),
}

/// Builds the request of an auxiliary call, such as a summary: it knows nothing of the conversation but `prompt`.
pub(super) fn build_auxiliary_request(model: &ResolvedModel, system: &str, prompt: String) -> ModelRequest {
    let effort = least_effort(&model.model);
    let longest = if is_thinking_enabled(&model.model, effort) {
        ANSWER_AND_THOUGHTS
    } else {
        MAX_AUXILIARY_TOKENS
    };
    ModelRequest {
        model: model.model.clone(),
        system: system.into(),
        messages: vec![HistoryItem::new(Message::user_text(prompt))],
        tools: Arc::new([]),
        // In a small window, the prompt needs room too.
        max_output_tokens: longest
            .min(model.info.max_output)
            .min(u32::try_from(model.info.window / 4).unwrap_or(u32::MAX).max(1)),
        is_limit_assumed: false,
        effort,
        cache_key: None,
        context_window: Some(model.info.window),
        web_search: false,
        omitted: RequestParts::new(),
    }
}

/// Makes an auxiliary call. A request whose output limit the provider refuses is repeated with a smaller one. `model`
/// learns the window and the limit that errors name.
pub(super) async fn call_auxiliary(
    cx: &TurnContext,
    model: &mut ResolvedModel,
    access: &mut ProviderAccess,
    mut request: Arc<ModelRequest>,
    used: &UsageMeter,
    visibility: OutputVisibility,
) -> Result<CallOutcome, TurnStopped> {
    let calibration = &cx.services.statistics.calibration;
    if let Some(limit) = calibration.learned_output(&model.label())
        && limit < request.max_output_tokens
    {
        Arc::make_mut(&mut request).max_output_tokens = limit;
    }
    // Each limit is smaller than the last, so this loop ends.
    loop {
        let requested = request.max_output_tokens;
        let outcome = call_with_retries(cx, model, access, request.clone(), used, visibility).await?;
        if let CallOutcome::TooLong {
            limit: Some(window), ..
        }
        | CallOutcome::OutputRefused {
            window: Some(window), ..
        } = &outcome
        {
            cx.settings.models.learn_window(model, *window);
            model.info.window = model.info.window.min((*window).max(1));
        }
        let CallOutcome::OutputRefused { limit, window, .. } = &outcome else {
            return Ok(outcome);
        };
        let named = limit.filter(|limit| *limit < requested);
        let Some(limit) = named.or_else(|| (requested > LEAST_AUXILIARY_TOKENS).then_some(requested / 2))
        else {
            return Ok(outcome);
        };
        tracing::warn!(model = %model.label(), requested, limit, "output limit of an auxiliary call rejected");
        if window.is_none() {
            calibration.learn_output(model.label(), limit);
        }
        // The rejected limit was our mistake, not a reason to fall back to another provider.
        access.fallback_reason = None;
        Arc::make_mut(&mut request).max_output_tokens = limit;
    }
}

/// Calls the model, and retries visibly where that may help (R-PROV-1 to -3). Leaves out of the request what the model
/// refuses or has refused, if the request works without it.
pub(super) async fn call_with_retries(
    cx: &TurnContext,
    model: &ResolvedModel,
    access: &mut ProviderAccess,
    mut request: Arc<ModelRequest>,
    used: &UsageMeter,
    visibility: OutputVisibility,
) -> Result<CallOutcome, TurnStopped> {
    let mut retry = RetryState::new(model.retry);
    let calibration = &cx.services.statistics.calibration;
    let mut refused = RefusedParts::new(request.effort);
    calibration.adapt_request(model, request.effort, Arc::make_mut(&mut request));
    // A refusal changes the request once for each part and tool, so this loop ends.
    loop {
        // The budget comes first and holds the estimate while the call waits, so that parallel calls cannot overspend
        // (I14).
        let reserved = match admit_within_budget(cx, model, &request).await? {
            Ok(reserved) => reserved,
            Err(end) => return Ok(CallOutcome::Limited(end)),
        };
        let permit = match admit_provider_call(cx, model, access).await? {
            ProviderAdmission::Place(permit) => permit,
            ProviderAdmission::Shut(mut error) => {
                error.attempts = Some(retry.failed_attempts());
                return Ok(CallOutcome::Failed(*error));
            }
        };
        if reserved.as_ref().is_some_and(|reserved| !reserved.fits_limits()) {
            // While this call waited, others may have spent what was left.
            continue;
        }
        let attempt = run_attempt(cx, model, request.clone(), visibility).await;
        // Free the provider slot before the accounting, which may wait for a slow client.
        drop(permit);
        // Account for the cost first: a cancel may interrupt any of the later events.
        match &attempt {
            Attempt::Answered(model_answer) => {
                let cost = compute_call_cost(model, &request, &model_answer.spent);
                let spent = CallUsage {
                    cost,
                    ..model_answer.spent
                };
                charge_usage(cx, model, used, spent, visibility).await?;
            }
            Attempt::Stopped { spent } | Attempt::Failed { spent, .. } => {
                charge_part(cx, model, used, (&request, *spent), visibility).await?;
            }
        }
        // The real cost is booked by now; releasing the estimate earlier would leave a gap for another call.
        drop(reserved);
        if !matches!(attempt, Attempt::Stopped { .. }) {
            emit_circuit(cx, model, access).await?;
            emit_model_notice(cx, model).await?;
        }
        match attempt {
            Attempt::Answered(model_answer) => return Ok(CallOutcome::Answered(model_answer)),
            Attempt::Stopped { .. } => return Err(TurnStopped),
            Attempt::Failed {
                mut error, streamed, ..
            } => {
                if refused.leave_out(cx, model, &mut request, &mut error).await? {
                    retract_output(cx, streamed).await?;
                    continue;
                }
                let verdict = retry.next(&error, random::random_unit());
                match decide_after_failure(access, model, &error, verdict, retry.failed_attempts()) {
                    AdmissionDecision::Retry(plan) => {
                        retract_output(cx, streamed).await?;
                        // Before the event, which a slow client can delay: the wait ends when it says.
                        let deadline = clock::now() + plan.delay;
                        emit_retry(cx, model, &error, &plan).await?;
                        cx.services.totals.retries.add(1);
                        sleep_unless_stopped(cx, deadline).await?;
                    }
                    AdmissionDecision::GiveUp(mut agent_error) => {
                        agent_error.attempts = Some(retry.failed_attempts());
                        let outcome = gave_up(&error, *agent_error);
                        // Text stays as an incomplete message if the turn ends here; tool calls alone are retracted.
                        // Output that will be requested again, from any model, is retracted too.
                        let will_retry = !matches!(outcome, CallOutcome::Failed(_)) || access.may_continue();
                        let (kept_output, retracted_output) = match streamed {
                            Some(streamed) if streamed.has_text && !will_retry => (Some(streamed), None),
                            streamed => (None, streamed),
                        };
                        access.kept_output = kept_output;
                        retract_output(cx, retracted_output).await?;
                        return Ok(outcome);
                    }
                }
            }
        }
    }
}

/// Reports a pending notice of the provider, such as a failed recording.
async fn emit_model_notice(cx: &TurnContext, model: &ResolvedModel) -> Result<(), TurnStopped> {
    let Some(message) = model.provider.take_pending_notice() else {
        return Ok(());
    };
    emit_late_warning(cx, RECORDING_FAILED, message).await
}

fn gave_up(error: &ProviderError, agent_error: AgentError) -> CallOutcome {
    match error.fault {
        ProviderFault::PromptTooLong { limit } => CallOutcome::TooLong {
            error: agent_error,
            limit,
        },
        ProviderFault::OutputLimit { limit, window } => CallOutcome::OutputRefused {
            error: agent_error,
            limit,
            window,
        },
        ProviderFault::ImageRefused => CallOutcome::ImageRefused(agent_error),
        _ => CallOutcome::Failed(agent_error),
    }
}

async fn emit_retry(
    cx: &TurnContext,
    model: &ResolvedModel,
    error: &ProviderError,
    plan: &RetryPlan,
) -> Result<(), TurnStopped> {
    let RetryPlan {
        attempt,
        delay,
        max_retries,
        ref next,
    } = *plan;
    let delay_ms = delay.as_millis() as u64;
    tracing::warn!(error = %error, attempt, backoff = delay_ms, model = %model.label(), "provider call failed");
    cx.link
        .emit_event(Event::Retry {
            provider: error.provider.clone(),
            model: error.model.clone(),
            attempt,
            max_retries,
            delay_ms,
            resume_at: clock::wall_ms().saturating_add_unsigned(delay_ms),
            error: error.to_agent_error(),
            next: next.clone(),
        })
        .await
}

/// Accounts for a call that did not complete. A partial answer is paid for, even if the provider reports usage only at
/// its end. A call with neither output nor usage was refused and costs nothing.
async fn charge_part(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &UsageMeter,
    (request, spent): (&ModelRequest, CallUsage),
    visibility: OutputVisibility,
) -> Result<(), TurnStopped> {
    let is_free = spent.cost.is_none_or(|cost| cost == Cost(0));
    if spent.usage == Usage::default() && spent.received_bytes == 0 && is_free {
        return Ok(());
    }
    let cost = compute_call_cost(model, request, &spent);
    if spent.usage == Usage::default() && cost.is_none_or(|cost| cost == Cost(0)) {
        return Ok(());
    }
    charge_usage(cx, model, used, CallUsage { cost, ..spent }, visibility).await
}

/// Records and reports the usage of a call, even while the turn is being stopped.
async fn charge_usage(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &UsageMeter,
    spent: CallUsage,
    visibility: OutputVisibility,
) -> Result<(), TurnStopped> {
    cx.services
        .totals
        .input_tokens
        .add(spent.usage.total_input_tokens());
    cx.services.totals.output_tokens.add(spent.usage.output);
    let report = used.lock_reports().await;
    let used = used.update(|used| {
        used.add(spent);
        if visibility == OutputVisibility::Deltas {
            // Some local servers report no token counts; the estimate stays.
            if spent.usage.total_input_tokens() > 0 {
                used.context = spent.usage.total_input_tokens() + spent.usage.output;
            }
            used.window = model.info.window;
        }
        *used
    });
    tracing::info!(
        model = %model.label(),
        input_tokens = spent.usage.total_input_tokens(),
        output_tokens = spent.usage.output,
        cost = spent.cost.map(Cost::to_usd),
        "provider response"
    );
    cx.link
        .emit_late(Event::Usage {
            step: spent.usage,
            turn: used.usage,
            // The actor fills in the session's totals.
            session: Usage::default(),
            step_cost: spent.cost,
            turn_cost: used.cost,
            session_cost: None,
            context_used: used.context,
            window: used.window,
            provider: Some(model.provider.name().to_owned()),
        })
        .await?;
    drop(report);
    record_call_cost(cx, model, spent.cost).await
}
