//! One step: a model call, made again where that may help, and the tool calls it asked for.

use std::sync::Arc;

use super::admission::{
    AdmissionDecision, ProviderAccess, ProviderAdmission, admit_provider_call, decide_after_failure,
    tell_circuit,
};
use super::attempt::{
    Attempt, CallUsage, ModelAnswer, StreamedOutput, Visibility, run_attempt, sleep_unless_stopped,
};
use super::calls::ToolRun;
use super::compact::learn_window;
use super::failure_policy::RetryPlan;
use super::limits::{admit_within_budget, compute_call_cost, record_call_cost};
use super::loop_state::LoopState;
use super::session_link::Stopped;
use super::tool_step::take;
use super::transition::Outcome;
use super::{ResolvedModel, TurnContext};
use crate::base::{clock, random};
use crate::domain::{AgentError, Cause, Cost, ErrorCode, Event, Message, Usage};
use crate::provider::{HistoryItem, ModelRequest, ProviderError, ProviderFault, RetryState, StopReason};

/// The code of the warning that calls are not recorded.
const RECORDING_FAILED: &str = "recording_failed";

/// The code of the warning that a model was asked for less output.
const OUTPUT_LIMIT: &str = "output_limit";

/// What the turn has used so far.
#[derive(Clone, Copy, Default)]
pub(super) struct TurnUsage {
    pub(super) usage: Usage,
    /// Known as long as every call's is.
    pub(super) cost: Option<Cost>,
    /// Tokens that the conversation takes of the window.
    pub(super) context: u64,
    /// The window.
    pub(super) window: u64,
    pub(super) calls: u32,
}

/// What a step came to, with the error it carries.
pub(super) struct StepOutcome {
    pub(super) outcome: Outcome,
    pub(super) error: Option<AgentError>,
    pub(super) detail: Option<String>,
    /// An answer that is kept or taken back as the loop decides.
    pub(super) held: Option<DeferredMessage>,
    /// Tokens that the answer took.
    pub(super) output_tokens: u64,
    /// What was said, where that is all.
    pub(super) answer: Option<String>,
}

/// An answer of which it is not decided whether it stays.
pub(super) struct DeferredMessage {
    /// What would stay of it.
    pub(super) message: Option<Message>,
    /// What was shown of it.
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

    /// The next request cannot fit.
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

/// Takes one step with the history as it is sent.
pub(super) async fn run_step(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<StepOutcome, Stopped> {
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
    cx.totals.step.record(started.elapsed());
    Ok(end)
}

/// Asks the model; a refused output limit is lowered, and the request made again. That is not a retry: the request is
/// another one, and the person loses nothing.
async fn ask_within_output_limit(
    cx: &TurnContext,
    state: &mut LoopState,
    items: &[Arc<HistoryItem>],
) -> Result<CallOutcome, Stopped> {
    loop {
        let request = Arc::new(ModelRequest {
            model: state.model.model.clone(),
            system: cx.system.clone(),
            messages: items.to_vec(),
            tools: cx.tools.tool_specs().clone(),
            max_output_tokens: state.output_for(items),
            effort: state.model.effort,
        });
        let requested = request.max_output_tokens;
        let asked = call_with_retries(
            cx,
            &state.model,
            &mut state.way,
            request,
            &mut state.used,
            Visibility::Deltas,
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
        state.way.left = None;
        let message = format!(
            "{} rejected an output limit of {requested} tokens ({words}); using {limit} in this session",
            state.model.label()
        );
        tracing::warn!(model = %state.model.label(), requested, limit, "output limit rejected");
        let code = OUTPUT_LIMIT.to_owned();
        cx.port.emit_late(Event::Warning { code, message }).await?;
    }
}

/// Whether a request failed for its output limit: the limit and the words of the refusal. Where the model's limit is
/// only assumed, every refusal of a larger one counts: for the window, or for credit that would do for less.
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

/// Takes the answer in: the message, then its tool calls.
async fn process_answer(
    cx: &TurnContext,
    state: &mut LoopState,
    answered: ModelAnswer,
) -> Result<StepOutcome, Stopped> {
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
        StopReason::EndTurn | StopReason::ToolUse | StopReason::PauseTurn | StopReason::Refusal(_) => None,
    };
    if let Some(mut end) = undecided {
        end.held = Some(DeferredMessage {
            message: answer.message,
            shown,
        });
        return Ok(end);
    }
    let text = answer.message.as_ref().map(Message::text);
    match answer.message {
        Some(message) => cx.port.emit_event(Event::Message(Arc::new(message))).await?,
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
    take(
        cx,
        &mut state.conduct,
        answer.wanted.into_iter().map(ToolRun::new).collect(),
    )
    .await
}

fn refused_outcome(model: &ResolvedModel, words: Option<String>) -> StepOutcome {
    let mut error = AgentError::new(ErrorCode::ProviderError, "the model declined to answer")
        .with_user_action("rephrase the request, or choose another model");
    error.cause = words.clone().map(Cause::from);
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

/// What came of asking a model, retries included.
pub(super) enum CallOutcome {
    /// An answer.
    Answered(Box<ModelAnswer>),
    /// The prompt does not fit; the real window, where the provider names it.
    TooLong { error: AgentError, limit: Option<u64> },
    /// The output limit is more than the model has; the model's own, where the provider names it.
    OutputRefused { error: AgentError, limit: Option<u32> },
    /// A picture was refused.
    ImageRefused(AgentError),
    /// A limit in money stands in the way, or the person said stop at one.
    Limited(Box<StepOutcome>),
    /// It failed for good.
    Failed(AgentError),
}

/// Calls the model, and again while that may help (R-PROV-1 to -3), in plain sight.
pub(super) async fn call_with_retries(
    cx: &TurnContext,
    model: &ResolvedModel,
    way: &mut ProviderAccess,
    request: Arc<ModelRequest>,
    used: &mut TurnUsage,
    shows: Visibility,
) -> Result<CallOutcome, Stopped> {
    let mut retry = RetryState::new(model.retry);
    loop {
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
            // While it waited for its place, others have spent what was left.
            continue;
        }
        let ended = run_attempt(cx, model, request.clone(), shows).await;
        drop(place);
        // What it cost comes first: a cancel may fall into whatever is told after it.
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
        drop(reserved);
        if !matches!(ended, Attempt::Stopped { .. }) {
            tell_circuit(cx, model, way).await?;
            tell_notice(cx, model).await?;
        }
        match ended {
            Attempt::Answered(answered) => return Ok(CallOutcome::Answered(answered)),
            Attempt::Stopped { .. } => return Err(Stopped),
            Attempt::Failed { error, shown, .. } => {
                let verdict = retry.next(&error, random::random_unit());
                match decide_after_failure(way, model, &error, verdict, retry.failed_attempts()) {
                    AdmissionDecision::Retry(again) => {
                        retract_output(cx, shown).await?;
                        tell_retry(cx, model, &error, &again).await?;
                        cx.totals.retries.add(1);
                        sleep_unless_stopped(cx, again.delay).await?;
                    }
                    AdmissionDecision::GiveUp(mut told) => {
                        told.attempts = Some(retry.failed_attempts());
                        let asked = gave_up(&error, *told);
                        // Text stays, as an incomplete message; of calls alone nothing would. What is asked for
                        // again, of whomever, leaves nothing.
                        let again = !matches!(asked, CallOutcome::Failed(_)) || way.goes_on();
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

/// What the provider has to tell beside its calls.
async fn tell_notice(cx: &TurnContext, model: &ResolvedModel) -> Result<(), Stopped> {
    let Some(message) = model.provider.take_pending_notice() else {
        return Ok(());
    };
    let code = RECORDING_FAILED.to_owned();
    cx.port.emit_late(Event::Warning { code, message }).await
}

fn gave_up(error: &ProviderError, told: AgentError) -> CallOutcome {
    match error.fault {
        ProviderFault::PromptTooLong { limit } => CallOutcome::TooLong { error: told, limit },
        ProviderFault::OutputLimit { limit } => CallOutcome::OutputRefused { error: told, limit },
        ProviderFault::ImageRefused => CallOutcome::ImageRefused(told),
        _ => CallOutcome::Failed(told),
    }
}

pub(super) async fn retract_output(cx: &TurnContext, shown: Option<StreamedOutput>) -> Result<(), Stopped> {
    let Some(shown) = shown else { return Ok(()) };
    cx.port
        .emit_event(Event::MessageRetracted {
            message: shown.message,
            tool_calls: shown.tool_calls,
        })
        .await
}

async fn tell_retry(
    cx: &TurnContext,
    model: &ResolvedModel,
    error: &ProviderError,
    again: &RetryPlan,
) -> Result<(), Stopped> {
    let RetryPlan {
        attempt,
        delay,
        max_retries,
        ref next,
    } = *again;
    let delay_ms = delay.as_millis() as u64;
    tracing::warn!(error = %error, attempt, backoff = delay_ms, model = %model.label(), "provider call failed");
    cx.port
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

/// A call that did not come to its end. What came of an answer is paid for, also where the provider counts only at its
/// end; a call of which nothing came and nothing was told was refused.
async fn charge_part(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &mut TurnUsage,
    (request, spent): (&ModelRequest, CallUsage),
    shows: Visibility,
) -> Result<(), Stopped> {
    if spent.usage == Usage::default() && spent.came == 0 {
        return Ok(());
    }
    let cost = compute_call_cost(model, request, &spent);
    if spent.usage == Usage::default() && cost.is_none_or(|cost| cost == Cost(0)) {
        return Ok(());
    }
    charge_usage(cx, model, used, CallUsage { cost, ..spent }, shows).await
}

/// What was spent is told also when the turn is being stopped.
async fn charge_usage(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &mut TurnUsage,
    spent: CallUsage,
    shows: Visibility,
) -> Result<(), Stopped> {
    cx.totals.input_tokens.add(spent.usage.total_input_tokens());
    cx.totals.output_tokens.add(spent.usage.output);
    used.usage += spent.usage;
    used.cost = match (used.calls, used.cost, spent.cost) {
        (0, _, cost) => cost,
        (_, Some(sum), Some(cost)) => Some(sum + cost),
        _ => None,
    };
    used.calls += 1;
    if shows == Visibility::Deltas {
        // Some local servers count nothing: the estimate stays.
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
    cx.port
        .emit_late(Event::Usage {
            step: spent.usage,
            turn: used.usage,
            // The actor knows the session's sums and fills them in.
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
