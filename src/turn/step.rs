//! One step: a model call, with retries where they may help, and the tool calls that it requested.
//!
//! It owns the retry loop (R-PROV-1 to -3) and the accounting of each call. It must not decide what follows a step:
//! that is `transition`'s. `attempt` makes a single call; `admission` and `failure_policy` decide whether and when to
//! make the next.

use std::sync::Arc;

use super::admission::{
    AdmissionDecision, ProviderAccess, ProviderAdmission, admit_provider_call, decide_after_failure,
    emit_circuit,
};
use super::attempt::{
    Attempt, CallUsage, ModelAnswer, OutputVisibility, StreamedOutput, run_attempt, sleep_unless_stopped,
};
use super::calls::ToolRun;
use super::compact::learn_window;
use super::context::TurnContext;
use super::failure_policy::RetryPlan;
use super::limits::{admit_within_budget, compute_call_cost, record_call_cost};
use super::loop_state::LoopState;
use super::model_choice::ResolvedModel;
use super::session_link::TurnStopped;
use super::tool_step::run_tool_step;
use super::transition::Outcome;
use crate::base::{clock, random};
use crate::domain::{AgentError, Cost, ErrorCause, ErrorCode, Event, Message, Usage};
use crate::provider::{HistoryItem, ModelRequest, ProviderError, ProviderFault, RetryState, StopReason};

/// The code of the warning that provider calls are not recorded to the cassette.
const RECORDING_FAILED: &str = "recording_failed";

/// The code of the warning that a provider rejected our output limit.
const OUTPUT_LIMIT: &str = "output_limit";

/// What the turn has used so far.
#[derive(Clone, Copy, Default)]
pub(super) struct TurnUsage {
    pub(super) usage: Usage,
    /// Known as long as the cost of every call is known.
    pub(super) cost: Option<Cost>,
    /// Tokens of the window that the conversation occupies.
    pub(super) context: u64,
    pub(super) window: u64,
    pub(super) calls: u32,
}

/// The result of a step, with its error if there is one.
pub(super) struct StepOutcome {
    pub(super) outcome: Outcome,
    pub(super) error: Option<AgentError>,
    pub(super) detail: Option<String>,
    /// An answer that is kept or retracted, as the next transition decides.
    pub(super) held: Option<DeferredMessage>,
    pub(super) output_tokens: u64,
    /// The answer's text, if the model requested no tools.
    pub(super) answer: Option<String>,
}

/// An answer whose fate the next transition decides.
pub(super) struct DeferredMessage {
    /// The message, if the answer contains anything to keep.
    pub(super) message: Option<Message>,
    /// What clients have already seen of it.
    pub(super) shown: Option<StreamedOutput>,
}

impl StepOutcome {
    pub(super) fn from_outcome(outcome: Outcome) -> Self {
        Self {
            outcome,
            error: None,
            detail: None,
            held: None,
            output_tokens: 0,
            answer: None,
        }
    }

    /// Builds the outcome for a request that cannot fit the window.
    pub(super) fn no_room(outcome: Outcome, window: u64) -> Self {
        let error = AgentError::new(
            ErrorCode::ContextLimit,
            format!("the next request exceeds the model's window of {window} tokens"),
        )
        .with_user_action("compact the session, start a new one, choose a model with a larger window, or set auto_compact = true");
        Self::from_failure(outcome, error)
    }

    pub(super) fn from_failure(outcome: Outcome, error: AgentError) -> Self {
        Self {
            detail: Some(error.to_string()),
            error: Some(error),
            ..Self::from_outcome(outcome)
        }
    }
}

/// Runs one step with the given history.
pub(super) async fn run_step(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<StepOutcome, TurnStopped> {
    let started = clock::now();
    let answered = match ask_within_output_limit(cx, state, items).await? {
        CallOutcome::Answered(answered) => *answered,
        CallOutcome::TooLong { error, limit } => {
            if let Some(limit) = limit {
                learn_window(cx, state, &state.model.clone(), limit);
            }
            let outcome = if state.auto_compact() {
                Outcome::PromptTooLong
            } else {
                Outcome::WindowFull
            };
            return Ok(StepOutcome::from_failure(outcome, error));
        }
        CallOutcome::ImageRefused(error) => {
            return Ok(StepOutcome::from_failure(Outcome::ImageRefused, error));
        }
        CallOutcome::Limited(end) => return Ok(*end),
        CallOutcome::OutputRefused { error, .. } | CallOutcome::Failed(error) => {
            return Ok(StepOutcome::from_failure(Outcome::ProviderFailed, error));
        }
    };
    state.record_token_count(items, answered.spent.usage.total_input_tokens());
    let output_tokens = answered.spent.usage.output;
    let mut end = process_answer(cx, state, answered).await?;
    end.output_tokens = output_tokens;
    cx.services.totals.step.record(started.elapsed());
    Ok(end)
}

/// Calls the model. If the provider rejects the output limit, lowers it and repeats the request.
///
/// This is not a retry: the request is a different one, and no answer is lost.
async fn ask_within_output_limit(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<CallOutcome, TurnStopped> {
    // `lower_output` only returns a smaller limit than the last, so this loop ends.
    loop {
        let request = Arc::new(ModelRequest {
            model: state.model.model.clone(),
            system: cx.prompt.text.clone(),
            messages: items.to_vec(),
            tools: cx.tools.tool_specs().clone(),
            max_output_tokens: state.output_for(items),
            effort: state.model.effort,
        });
        let requested = request.max_output_tokens;
        let asked = call_with_retries(
            cx,
            &state.model,
            &mut state.access,
            request,
            &mut state.used,
            OutputVisibility::Deltas,
        )
        .await?;
        let Some((named, words)) = refused_output(state, requested, &asked) else {
            return Ok(asked);
        };
        if let CallOutcome::TooLong {
            limit: Some(limit), ..
        } = &asked
        {
            learn_window(cx, state, &state.model.clone(), *limit);
        }
        let Some(limit) = state.lower_output(requested, named) else {
            return Ok(asked);
        };
        // The rejected limit was our mistake, not a reason to fall back to another provider.
        state.access.left = None;
        let message = format!(
            "{} rejected an output limit of {requested} tokens ({words}); using {limit} in this session",
            state.model.label()
        );
        tracing::warn!(model = %state.model.label(), requested, limit, "output limit rejected");
        let code = OUTPUT_LIMIT.to_owned();
        cx.link.emit_late(Event::Warning { code, message }).await?;
    }
}

/// Returns the limit and the wording if a request was rejected for its output limit.
///
/// If the model's limit is only assumed, any 400, 402, 413 or 422 counts when we requested more than the assumption.
/// The window, or a credit balance that covers less output, may be the real reason.
fn refused_output(state: &LoopState, requested: u32, asked: &CallOutcome) -> Option<(Option<u32>, String)> {
    let info = &state.model.info;
    let (named, error) = match asked {
        CallOutcome::OutputRefused { error, limit } => (*limit, error),
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
    Some((
        named,
        error
            .cause
            .clone()
            .map_or_else(|| error.message.clone(), String::from),
    ))
}

/// Emits the answer's message, then runs its tool calls.
async fn process_answer(
    cx: &TurnContext,
    state: &mut LoopState,
    answered: ModelAnswer,
) -> Result<StepOutcome, TurnStopped> {
    let model = &state.model;
    let ModelAnswer {
        answer,
        stop,
        shown,
        overlong,
        ..
    } = answered;
    let said = answer
        .message
        .as_ref()
        .is_some_and(|message| !message.text().trim().is_empty());
    let undecided = match stop {
        StopReason::MaxTokens | StopReason::WindowFull if overlong => {
            Some(StepOutcome::from_outcome(Outcome::Overlong))
        }
        StopReason::MaxTokens | StopReason::WindowFull => Some(StepOutcome::from_outcome(Outcome::Truncated)),
        StopReason::EndTurn | StopReason::ToolUse if !said && answer.wanted.is_empty() => {
            Some(empty_answer_outcome(model))
        }
        // Refused and paused answers are handled below, after their text is in the history.
        StopReason::EndTurn | StopReason::ToolUse | StopReason::PauseTurn | StopReason::Refusal(_) => None,
    };
    // The transition decides between keeping this answer and requesting it again, so nothing is emitted yet.
    if let Some(mut end) = undecided {
        end.held = Some(DeferredMessage {
            message: answer.message,
            shown,
        });
        return Ok(end);
    }
    let text = answer.message.as_ref().map(Message::text);
    match answer.message {
        Some(message) => cx.link.emit_event(Event::Message(Arc::new(message))).await?,
        None => retract_output(cx, shown).await?,
    }
    match stop {
        StopReason::Refusal(words) => return Ok(refused_outcome(model, words)),
        StopReason::PauseTurn if answer.wanted.is_empty() => {
            return Ok(StepOutcome::from_outcome(Outcome::Paused));
        }
        _ => {}
    }
    if answer.wanted.is_empty() {
        return Ok(StepOutcome {
            answer: text,
            ..StepOutcome::from_outcome(Outcome::Answered)
        });
    }
    run_tool_step(
        cx,
        &mut state.conduct,
        answer.wanted.into_iter().map(ToolRun::new).collect(),
    )
    .await
}

fn refused_outcome(model: &ResolvedModel, words: Option<String>) -> StepOutcome {
    let mut error = AgentError::new(ErrorCode::ProviderError, "the model declined to answer")
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

fn add_model_context(error: &mut AgentError, model: &ResolvedModel) {
    error.provider = Some(model.provider.name().to_owned());
    error.model = Some(model.model.clone());
}

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
    },
    ImageRefused(AgentError),
    /// A spending limit forbids the call, or the user chose to stop at one.
    Limited(Box<StepOutcome>),
    /// The call failed, and retries cannot help.
    Failed(AgentError),
}

/// Calls the model, and retries visibly where that may help (R-PROV-1 to -3).
pub(super) async fn call_with_retries(
    cx: &TurnContext,
    model: &ResolvedModel,
    way: &mut ProviderAccess,
    request: Arc<ModelRequest>,
    used: &mut TurnUsage,
    shows: OutputVisibility,
) -> Result<CallOutcome, TurnStopped> {
    let mut retry = RetryState::new(model.retry);
    loop {
        // The budget comes first and holds the estimate while the call waits, so that parallel calls cannot overspend
        // (I14).
        let reserved = match admit_within_budget(cx, model, &request).await? {
            Ok(reserved) => reserved,
            Err(end) => return Ok(CallOutcome::Limited(end)),
        };
        let place = match admit_provider_call(cx, model, way).await? {
            ProviderAdmission::Place(place) => place,
            ProviderAdmission::Shut(mut error) => {
                error.attempts = Some(retry.failed_attempts());
                return Ok(CallOutcome::Failed(*error));
            }
        };
        if reserved.as_ref().is_some_and(|reserved| !reserved.fits_limits()) {
            // While this call waited, others may have spent what was left.
            continue;
        }
        let ended = run_attempt(cx, model, request.clone(), shows).await;
        // Free the provider slot before the accounting, which may wait for a slow client.
        drop(place);
        // Account for the cost first: a cancel may interrupt any of the later events.
        match &ended {
            Attempt::Answered(answered) => {
                let cost = compute_call_cost(model, &request, &answered.spent);
                let spent = CallUsage {
                    cost,
                    ..answered.spent
                };
                charge_usage(cx, model, used, spent, shows).await?;
            }
            Attempt::Stopped { spent } | Attempt::Failed { spent, .. } => {
                charge_part(cx, model, used, (&request, *spent), shows).await?;
            }
        }
        // The real cost is booked by now; releasing the estimate earlier would leave a gap for another call.
        drop(reserved);
        if !matches!(ended, Attempt::Stopped { .. }) {
            emit_circuit(cx, model, way).await?;
            emit_model_notice(cx, model).await?;
        }
        match ended {
            Attempt::Answered(answered) => return Ok(CallOutcome::Answered(answered)),
            Attempt::Stopped { .. } => return Err(TurnStopped),
            Attempt::Failed { error, shown, .. } => {
                let verdict = retry.next(&error, random::random_unit());
                match decide_after_failure(way, model, &error, verdict, retry.failed_attempts()) {
                    AdmissionDecision::Retry(again) => {
                        retract_output(cx, shown).await?;
                        emit_retry(cx, model, &error, &again).await?;
                        cx.services.totals.retries.add(1);
                        sleep_unless_stopped(cx, again.delay).await?;
                    }
                    AdmissionDecision::GiveUp(mut told) => {
                        told.attempts = Some(retry.failed_attempts());
                        let asked = gave_up(&error, *told);
                        // Text stays as an incomplete message if the turn ends here; tool calls alone are retracted.
                        // Output that will be requested again, from any model, is retracted too.
                        let again = !matches!(asked, CallOutcome::Failed(_)) || way.may_continue();
                        let (stays, goes) = match shown {
                            Some(shown) if shown.said && !again => (Some(shown), None),
                            shown => (None, shown),
                        };
                        way.stays = stays;
                        retract_output(cx, goes).await?;
                        return Ok(asked);
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
    let code = RECORDING_FAILED.to_owned();
    cx.link.emit_late(Event::Warning { code, message }).await
}

fn gave_up(error: &ProviderError, told: AgentError) -> CallOutcome {
    match error.fault {
        ProviderFault::PromptTooLong { limit } => CallOutcome::TooLong { error: told, limit },
        ProviderFault::OutputLimit { limit } => CallOutcome::OutputRefused { error: told, limit },
        ProviderFault::ImageRefused => CallOutcome::ImageRefused(told),
        _ => CallOutcome::Failed(told),
    }
}

pub(super) async fn retract_output(
    cx: &TurnContext,
    shown: Option<StreamedOutput>,
) -> Result<(), TurnStopped> {
    let Some(shown) = shown else { return Ok(()) };
    cx.link
        .emit_event(Event::MessageRetracted {
            message: shown.message,
            tool_calls: shown.tool_calls,
        })
        .await
}

async fn emit_retry(
    cx: &TurnContext,
    model: &ResolvedModel,
    error: &ProviderError,
    again: &RetryPlan,
) -> Result<(), TurnStopped> {
    let RetryPlan {
        attempt,
        delay,
        max_retries,
        ref next,
    } = *again;
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
    used: &mut TurnUsage,
    (request, spent): (&ModelRequest, CallUsage),
    shows: OutputVisibility,
) -> Result<(), TurnStopped> {
    if spent.usage == Usage::default() && spent.received_bytes == 0 {
        return Ok(());
    }
    let cost = compute_call_cost(model, request, &spent);
    if spent.usage == Usage::default() && cost.is_none_or(|cost| cost == Cost(0)) {
        return Ok(());
    }
    charge_usage(cx, model, used, CallUsage { cost, ..spent }, shows).await
}

/// Records and reports the usage of a call, even while the turn is being stopped.
async fn charge_usage(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &mut TurnUsage,
    spent: CallUsage,
    shows: OutputVisibility,
) -> Result<(), TurnStopped> {
    cx.services
        .totals
        .input_tokens
        .add(spent.usage.total_input_tokens());
    cx.services.totals.output_tokens.add(spent.usage.output);
    used.usage += spent.usage;
    used.cost = match (used.calls, used.cost, spent.cost) {
        (0, _, cost) => cost,
        (_, Some(sum), Some(cost)) => Some(sum + cost),
        _ => None,
    };
    used.calls += 1;
    if shows == OutputVisibility::Deltas {
        // Some local servers report no token counts; the estimate stays.
        if spent.usage.total_input_tokens() > 0 {
            used.context = spent.usage.total_input_tokens() + spent.usage.output;
        }
        used.window = model.info.window;
    }
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
    record_call_cost(cx, model, spent.cost).await
}
