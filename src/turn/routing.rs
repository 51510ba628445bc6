//! The switches between models (R-PROV-4): which model takes over from one that cannot be called, and the way back.
//!
//! Whether to fall back is `transition`'s decision. This module finds the next model, makes the switch, and announces
//! it. It must not retry calls.

use std::sync::Arc;

use super::admission::look_ahead;
use super::compact::{PICTURES_LEFT_OUT, fits_after_hop};
use super::context::TurnContext;
use super::emit::{emit_session_model, emit_warning, retract_output};
use super::failure_policy::FallbackReason;
use super::loop_state::LoopState;
use super::model_choice::ResolvedModel;
use super::outcome::StepOutcome;
use super::session_link::TurnStopped;
use super::transition::Outcome;
use crate::context::compact::{self, MediaStubs};
use crate::domain::{AgentError, CircuitState, Event, Role};
use crate::provider::{AccountHealth, HistoryItem};

/// The code of the warning that a provider of the route is skipped.
const ROUTE_SKIPPED: &str = "route_skipped";

/// Returns the provider's model, if it can be called now.
fn callable_model(cx: &TurnContext, name: &str) -> Result<ResolvedModel, String> {
    let model = cx
        .settings
        .models
        .take_over(&cx.settings.choice, name, None)
        .map_err(|error| error.message)?;
    if model
        .provider
        .account_health()
        .is_some_and(|health| !health.would_admit())
    {
        return Err("it failed too often in a row and is paused".to_owned());
    }
    check_tool_support(cx, model)
}

/// Returns the model for an overloaded provider `from`, if one is configured; the error says why it cannot be used.
fn find_substitute_model(cx: &TurnContext, from: &ResolvedModel) -> Option<Result<ResolvedModel, String>> {
    find_other_model(cx, from, from.fallbacks.model.as_deref())
}

/// Returns the model `name` of the same provider.
fn find_other_model(
    cx: &TurnContext,
    from: &ResolvedModel,
    name: Option<&str>,
) -> Option<Result<ResolvedModel, String>> {
    let name = name?;
    let model = cx
        .settings
        .models
        .take_over(&cx.settings.choice, from.provider.name(), Some(name));
    Some(
        model
            .map_err(|error| error.message)
            .and_then(|model| check_tool_support(cx, model)),
    )
}

fn check_tool_support(cx: &TurnContext, model: ResolvedModel) -> Result<ResolvedModel, String> {
    if model.info.tools || cx.tools.is_empty() {
        Ok(model)
    } else {
        Err(format!("{} cannot use tools", model.model))
    }
}

/// Prepares a step: returns to the primary if its circuit admits calls again, and finds out who would take over.
/// Returns the step's outcome if it is known without a call.
pub(super) async fn before_step(
    cx: &TurnContext,
    state: &mut LoopState,
) -> Result<Option<StepOutcome>, TurnStopped> {
    if let Some(error) = state.route.exhausted.take() {
        state.access.fallback_reason = None;
        return Ok(Some(StepOutcome::from_failure(Outcome::ProviderFailed, error)));
    }
    let health = state.route.first.provider.account_health();
    // R-PROV-4: the primary comes back as soon as its circuit would admit the trial.
    if state.route.shut && health.is_some_and(|health| health.would_admit()) {
        (state.route.shut, state.route.at) = (false, 0);
        let first = state.route.first.clone();
        let reason = format!("trying {} again", first.provider.name());
        switch_model(cx, state, first, reason).await?;
    }
    (state.access.fallback_reason, state.access.kept_output) = (None, None);
    state.access.substitute = find_substitute_model(cx, &state.model)
        .and_then(Result::ok)
        .map(|model| model.model);
    state
        .access
        .if_missing
        .clone_from(&state.model.fallbacks.if_missing);
    state.access.next = state
        .route
        .next(|name| callable_model(cx, name))
        .0
        .map(|(model, _)| model.label());
    let health = state.route.first.provider.account_health();
    // With a fallback and an open circuit the primary is not called, so there is no switch to announce.
    let is_asked = state.access.next.is_none() || health.is_none_or(|health| health.would_admit());
    if state.route.before.is_some() && is_asked {
        let first = state.route.first.clone();
        let reason = format!("new turn: back to {}", first.provider.name());
        announce_model_switch(cx, state, &first, &first, reason).await?;
    }
    let shut = look_ahead(cx, &state.model, &mut state.access).await?;
    Ok(shut.map(|error| StepOutcome::from_failure(Outcome::ProviderFailed, error)))
}

/// Returns whether a fallback is available after the last call. If the provider lacks a default, its list decides.
pub(super) async fn has_fallback(cx: &TurnContext, state: &mut LoopState) -> Result<bool, TurnStopped> {
    match &state.access.fallback_reason {
        None => Ok(false),
        Some(FallbackReason::Overloaded) => Ok(true),
        Some(FallbackReason::NoSuchModel(_)) => {
            if state.model.fallbacks.if_missing.is_none() {
                state.model.fallbacks.if_missing = tokio::select! { biased;
                    () = cx.cancel.cancelled() => return Err(TurnStopped),
                    other = cx.settings.models.find_other_default(&state.model) => other,
                };
            }
            Ok(state.model.fallbacks.if_missing.is_some())
        }
        Some(FallbackReason::Circuit | FallbackReason::Failed(_)) => {
            Ok(state.route.next(|name| callable_model(cx, name)).0.is_some())
        }
    }
}

/// Falls back to the next model (R-PROV-4). If none is left after all, the turn ends with `error`.
pub(super) async fn fall_back(
    cx: &TurnContext,
    state: &mut LoopState,
    error: Option<AgentError>,
) -> Result<(), TurnStopped> {
    let from = state.model.clone();
    let Some(fallback_reason) = state.access.fallback_reason.take() else {
        state.route.exhausted = error;
        return Ok(());
    };
    // A fallback became available after the call was given up, so the kept output is retracted now.
    retract_output(cx, state.access.kept_output.take()).await?;
    let other = match &fallback_reason {
        FallbackReason::Overloaded => find_substitute_model(cx, &from),
        FallbackReason::NoSuchModel(_) => {
            cx.settings.models.learn_missing(&from);
            find_other_model(cx, &from, from.fallbacks.if_missing.as_deref())
        }
        FallbackReason::Circuit | FallbackReason::Failed(_) => None,
    };
    if let Some(Ok(mut model)) = other {
        // The caller's model may be a default as well.
        model.fallbacks.is_default = from.fallbacks.is_default;
        state.switch_model(model.clone());
        if fits_after_hop(cx, state).await? {
            let reason = match fallback_reason {
                FallbackReason::NoSuchModel(reason) => {
                    if from.fallbacks.is_default {
                        emit_session_model(cx, model.label()).await?;
                    }
                    reason
                }
                _ => format!("Switched to {} due to high demand", model.model),
            };
            return announce_model_switch(cx, state, &from, &model, reason).await;
        }
        emit_too_small(cx, &model).await?;
    }
    let closed = |health: &Arc<AccountHealth>| health.circuit_view().state == CircuitState::Closed;
    let open = !from.provider.account_health().is_none_or(closed);
    state.route.record_departure(&from, open);
    let reason = match fallback_reason {
        FallbackReason::Failed(reason) | FallbackReason::NoSuchModel(reason) => reason,
        FallbackReason::Overloaded => format!("{} is overloaded", from.provider.name()),
        FallbackReason::Circuit => {
            format!("{} failed too often in a row and is paused", from.provider.name())
        }
    };
    loop {
        let (next, skipped) = state.route.next(|name| callable_model(cx, name));
        for message in skipped {
            emit_warning(cx, ROUTE_SKIPPED, message).await?;
        }
        let Some((model, at)) = next else {
            state.route.exhausted = error;
            // No fallback fits, so the turn stays with the model that failed.
            state.switch_model(from);
            return Ok(());
        };
        state.route.at = at;
        state.switch_model(model.clone());
        if fits_after_hop(cx, state).await? {
            return announce_model_switch(cx, state, &from, &model, reason).await;
        }
        emit_too_small(cx, &model).await?;
    }
}

async fn emit_too_small(cx: &TurnContext, model: &ResolvedModel) -> Result<(), TurnStopped> {
    let message = format!(
        "skipping {}: the conversation exceeds its window of {} tokens",
        model.label(),
        model.info.window
    );
    emit_warning(cx, ROUTE_SKIPPED, message).await
}

/// Returns the history as `state.model` receives it: with text in place of the media that it does not support.
pub(super) async fn strip_unsupported_media(
    cx: &TurnContext,
    state: &mut LoopState,
    items: Vec<Arc<HistoryItem>>,
) -> Result<Vec<Arc<HistoryItem>>, TurnStopped> {
    let info = &state.model.info;
    // An unknown model counts as accepting images: if its API refuses them, `image_retry` applies.
    let stubs = MediaStubs::for_model(info.images, info.documents);
    let Some(stripped) = compact::replace_media(&items, stubs) else {
        return Ok(items);
    };
    // The model itself learns why it does not see a picture. People learn it if another model would have seen it, or if
    // they attached it to their last prompt.
    let label = state.model.label();
    let took_over = label != state.route.first.label();
    let is_prompt = |item: &&Arc<HistoryItem>| item.message.role == Role::User && !item.message.hidden;
    let prompt = items.iter().rev().find(is_prompt).map(std::slice::from_ref);
    let is_attached = prompt.is_some_and(|prompt| compact::replace_media(prompt, stubs).is_some());
    if (took_over || is_attached)
        && state.route.media_stripped_for.replace(label.clone()).as_ref() != Some(&label)
    {
        let kind = match (info.images, info.documents) {
            (true, _) => "PDFs",
            (false, true) => "images",
            (false, false) => "images or PDFs",
        };
        let message = format!("{label} does not support {kind}; leaving them out");
        emit_warning(cx, PICTURES_LEFT_OUT, message).await?;
    }
    Ok(stripped)
}

async fn switch_model(
    cx: &TurnContext,
    state: &mut LoopState,
    to: ResolvedModel,
    reason: String,
) -> Result<(), TurnStopped> {
    let from = state.model.clone();
    state.switch_model(to.clone());
    announce_model_switch(cx, state, &from, &to, reason).await
}

/// Announces the model that answers from now on, if it changed.
async fn announce_model_switch(
    cx: &TurnContext,
    state: &mut LoopState,
    from: &ResolvedModel,
    to: &ResolvedModel,
    reason: String,
) -> Result<(), TurnStopped> {
    let Some((from, to)) = state.route.model_change(from, to) else {
        return Ok(());
    };
    tracing::warn!(from, to, reason, "model switched");
    cx.link
        .emit_event(Event::ModelSwitched {
            from,
            to,
            why: reason,
        })
        .await
}
