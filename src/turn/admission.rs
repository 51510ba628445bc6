//! Admission before each provider call: the circuit and the pacer of the account, and the server's call limit
//! (R-PROV-5, -6, R-WIRE-2). After a failed call it gathers the facts that `failure_policy` decides by.
//!
//! Every wait is announced first and ends with the turn's cancel. The circuit is checked last, so that nothing is
//! waited for between the check and the call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::attempt::sleep_unless_stopped;
use super::context::TurnContext;
use super::failure_policy::{
    Alternatives, CircuitOutlook, FailureAction, FallbackReason, RetryPlan, plan_failure_action,
};
use super::model_choice::ResolvedModel;
use super::outcome::StreamedOutput;
use super::session_link::TurnStopped;
use crate::base::clock;
use crate::domain::circuit::Caller;
use crate::domain::{AgentError, CircuitState, CircuitSubject, ErrorCause, ErrorCode, Event};
use crate::provider::account_health::is_failure;
use crate::provider::{AccountHealth, CallLease, CallSlot, CircuitView, ProviderError, RetryVerdict};

/// The last reported state of a circuit, and until when it stays open, in Unix milliseconds.
type ReportedState = (CircuitState, Option<i64>);

/// The circuit states that a turn last reported, by provider. The calls of its tools report to the same session, so they
/// share them.
#[derive(Clone, Default)]
pub(super) struct ReportedCircuits(Arc<Mutex<BTreeMap<String, ReportedState>>>);

impl ReportedCircuits {
    /// Takes over the state of a circuit. Returns whether the session does not know it yet.
    fn update(&self, name: &str, now: &CircuitView) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reported = all.get(name);
        let before = reported.map_or(CircuitState::Closed, |reported| reported.0);
        // A new open period is reported. A trial that was given up and is due again is not.
        let reopened =
            now.state == CircuitState::Open && reported.is_some_and(|reported| reported.1 < now.until);
        let is_new = before != now.state || reopened;
        if is_new {
            all.insert(name.to_owned(), (now.state, now.until));
        }
        is_new
    }
}

/// What a turn knows about the access to its providers.
#[derive(Default)]
pub(super) struct ProviderAccess {
    pub(super) reported_circuits: ReportedCircuits,
    /// The turn has made a call.
    has_called: bool,
    /// The next model on the route.
    pub(super) next: Option<String>,
    /// The model that takes over while the provider is overloaded.
    pub(super) substitute: Option<String>,
    /// The model to call if the provider lacks this one.
    pub(super) if_missing: Option<String>,
    /// Why the last call was given up, if another model may do better.
    pub(super) fallback_reason: Option<FallbackReason>,
    /// The output of the last failed call, kept because no fallback was available then.
    pub(super) kept_output: Option<StreamedOutput>,
    /// For an auxiliary call, such as a summary: what happens if it fails, for people.
    consequence: Option<&'static str>,
}

impl ProviderAccess {
    /// Creates the state at a turn's start. `open_circuits` are providers whose circuits were announced to the session as not
    /// closed.
    pub(super) fn new(open_circuits: impl IntoIterator<Item = String>) -> Self {
        let open = |name| (name, (CircuitState::Open, None));
        let open_circuits = open_circuits.into_iter().map(open).collect();
        Self {
            reported_circuits: ReportedCircuits(Arc::new(Mutex::new(open_circuits))),
            ..Self::default()
        }
    }

    /// Marks the access as a sub-agent's: no user requested its calls, so none of them may be the trial of an open
    /// circuit.
    pub(super) fn by_machine(self) -> Self {
        Self {
            has_called: true,
            ..self
        }
    }

    /// Disables fallbacks for an auxiliary call. `without` says what happens if it fails, unless the turn then ends
    /// with its error. Returns the fallbacks, for [`Self::restore_fallback`].
    pub(super) fn disable_fallback(&mut self, without: Option<&'static str>) -> [Option<String>; 3] {
        self.consequence = without;
        [self.next.take(), self.substitute.take(), self.if_missing.take()]
    }

    /// Restores the fallbacks after an auxiliary call.
    pub(super) fn restore_fallback(&mut self, fallbacks: [Option<String>; 3]) {
        [self.next, self.substitute, self.if_missing] = fallbacks;
        (self.fallback_reason, self.consequence) = (None, None);
    }

    /// Returns whether a fallback is available for the call that was given up.
    pub(super) fn may_continue(&self) -> bool {
        match &self.fallback_reason {
            None => false,
            Some(FallbackReason::Overloaded) => self.substitute.is_some(),
            Some(FallbackReason::NoSuchModel(_)) => self.if_missing.is_some(),
            Some(FallbackReason::Circuit | FallbackReason::Failed(_)) => self.next.is_some(),
        }
    }

    /// Returns who makes the call. Only a user's new prompt without a fallback may be the trial of an open circuit
    /// (R-PROV-5).
    fn caller_kind(&self) -> Caller {
        if self.has_called || self.next.is_some() {
            Caller::Machine
        } else {
            Caller::Person
        }
    }
}

/// Builds the state of the access to providers. Only the turn itself may be the trial of an open circuit.
pub(super) fn build_provider_access(cx: &TurnContext) -> ProviderAccess {
    let access = ProviderAccess::new(cx.resumption.open_circuits.iter().cloned());
    match cx.depth {
        0 => access,
        _ => access.by_machine(),
    }
}

/// Builds the access of a call that a tool makes. Nobody asked for the call itself, so it is never the trial of an open
/// circuit.
pub(super) fn build_tool_access(cx: &TurnContext, reported_circuits: ReportedCircuits) -> ProviderAccess {
    ProviderAccess {
        reported_circuits,
        ..build_provider_access(cx).by_machine()
    }
}

/// Whether a call may be made.
pub(super) enum ProviderAdmission {
    Place(CallPermit),
    Shut(Box<AgentError>),
}

/// The right to make one call: a slot of the server, and a lease of the account. Both end when it is dropped.
pub(super) struct CallPermit {
    _slot: CallSlot,
    _pass: Option<CallLease>,
}

/// Returns the error of a call that need not be prepared, because the circuit is open and a fallback is available.
pub(super) async fn look_ahead(
    cx: &TurnContext,
    model: &ResolvedModel,
    access: &mut ProviderAccess,
) -> Result<Option<AgentError>, TurnStopped> {
    let health = model.provider.account_health();
    let Some(health) = health.filter(|health| access.next.is_some() && !health.would_admit()) else {
        return Ok(None);
    };
    emit_circuit(cx, model, access).await?;
    access.fallback_reason = Some(FallbackReason::Circuit);
    Ok(Some(circuit_open_error(model, health, None)))
}

/// Waits for the pacer and for a slot of the server, then admits the call unless the circuit is open.
pub(super) async fn admit_provider_call(
    cx: &TurnContext,
    model: &ResolvedModel,
    access: &mut ProviderAccess,
) -> Result<ProviderAdmission, TurnStopped> {
    let Some(health) = model.provider.account_health() else {
        let slot = wait_for_slot(cx).await?;
        access.has_called = true;
        return Ok(ProviderAdmission::Place(CallPermit {
            _slot: slot,
            _pass: None,
        }));
    };
    let mut wait_count = 0;
    loop {
        // Subscribe before the check, so that a change between the check and the wait is not missed.
        let mut changes = health.subscribe();
        if access.caller_kind() == Caller::Person || health.would_admit() {
            wait_for_pacer(cx, health).await?;
            let slot = wait_for_slot(cx).await?;
            // The waits above may have been long: only now does the lease say whether the circuit admits the call.
            if let Ok(pass) = health.admit_call(access.caller_kind()) {
                emit_circuit(cx, model, access).await?;
                // Reporting may wait for a slow client, so the circuit may have opened again meanwhile.
                if health.circuit_view().state == CircuitState::Open {
                    continue;
                }
                access.has_called = true;
                return Ok(ProviderAdmission::Place(CallPermit {
                    _slot: slot,
                    _pass: Some(pass),
                }));
            }
        }
        emit_circuit(cx, model, access).await?;
        // Without the `patient` or `persistent` profile an open circuit fails the call at once; the bound keeps I13.
        if access.next.is_some() || !model.retry.persists || wait_count > model.retry.max_retries {
            access.fallback_reason = Some(FallbackReason::Circuit);
            return Ok(ProviderAdmission::Shut(Box::new(circuit_open_error(
                model, health, None,
            ))));
        }
        wait_count += 1;
        let circuit = health.circuit_view();
        let reason = match circuit.state {
            CircuitState::Open => format!("{} failed too often in a row; waiting to retry it", health.name()),
            CircuitState::HalfOpen | CircuitState::Closed => {
                format!("{} is being tried by another session", health.name())
            }
        };
        let until = circuit.until;
        cx.link.emit_event(Event::Wait { why: reason, until }).await?;
        let rest = until.map(|until| until.saturating_sub(clock::wall_ms()).max(0).unsigned_abs());
        tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            _ = changes.changed() => {}
            () = wait_for_rest(rest) => {}
        }
    }
}

/// Sleeps for `rest_ms`; without a value, forever.
async fn wait_for_rest(rest_ms: Option<u64>) {
    match rest_ms {
        // One millisecond more: the clocks differ by fractions of a millisecond.
        Some(ms) => clock::sleep(Duration::from_millis(ms + 1)).await,
        None => std::future::pending().await,
    }
}

/// Waits, visibly, for one of the server's 256 concurrent calls (R-WIRE-2).
async fn wait_for_slot(cx: &TurnContext) -> Result<CallSlot, TurnStopped> {
    if let Some(slot) = cx.services.slots.try_acquire() {
        return Ok(slot);
    }
    let reason = "the server's limit of model calls is reached; waiting for a free one".to_owned();
    cx.link
        .emit_event(Event::Wait {
            why: reason,
            until: None,
        })
        .await?;
    tokio::select! { biased;
        () = cx.cancel.cancelled() => Err(TurnStopped),
        slot = cx.services.slots.acquire() => Ok(slot),
    }
}

async fn wait_for_pacer(cx: &TurnContext, health: &AccountHealth) -> Result<(), TurnStopped> {
    let Some(pace) = health.current_pace() else {
        return Ok(());
    };
    let deadline = clock::now() + pace.wait;
    let until = clock::wall_ms().saturating_add_unsigned(pace.wait.as_millis() as u64);
    let wait = Event::Wait {
        why: pace.reason,
        until: Some(until),
    };
    cx.link.emit_event(wait).await?;
    sleep_unless_stopped(cx, deadline).await
}

/// Reports the circuit's state if the session knows another one.
pub(super) async fn emit_circuit(
    cx: &TurnContext,
    model: &ResolvedModel,
    access: &ProviderAccess,
) -> Result<(), TurnStopped> {
    let Some(health) = model.provider.account_health() else {
        return Ok(());
    };
    let now = health.circuit_view();
    if !access.reported_circuits.update(health.name(), &now) {
        return Ok(());
    }
    let circuit = Event::Circuit {
        subject: CircuitSubject::Provider,
        name: health.name().to_owned(),
        state: now.state,
        until: now.until,
    };
    cx.link.emit_event(circuit).await
}

/// What to do about a failed call.
pub(super) enum AdmissionDecision {
    Retry(RetryPlan),
    GiveUp(Box<AgentError>),
}

/// Decides about a failed call. `attempts` counts it from 1; `verdict` is the retry policy's.
pub(super) fn decide_after_failure(
    access: &mut ProviderAccess,
    model: &ResolvedModel,
    error: &ProviderError,
    verdict: RetryVerdict,
    attempts: u32,
) -> AdmissionDecision {
    let health = model.provider.account_health();
    // A circuit that would admit a trial now does not block: a throttled trial returned its right.
    let circuit = health
        .filter(|health| !health.would_admit())
        .map(|health| health.circuit_view());
    let open = circuit.filter(|circuit| circuit.state == CircuitState::Open);
    let outlook = CircuitOutlook {
        overloads: health.map_or(0, |health| health.consecutive_overloads()),
        until_open: health
            .filter(|_| is_failure(&error.fault))
            .map(|health| health.failures_left()),
        open: open.map(|open| {
            let rest = open.until.unwrap_or_default().saturating_sub(clock::wall_ms());
            Duration::from_millis(rest.max(0).unsigned_abs())
        }),
    };
    let alternatives = Alternatives {
        next: access.next.as_deref(),
        substitute: access.substitute.as_deref(),
        is_replaceable: access.if_missing.is_some() || model.fallbacks.is_default,
        consequence: access.consequence,
    };
    let (fallback_reason, agent_error) =
        match plan_failure_action(&alternatives, &outlook, &model.retry, error, (verdict, attempts)) {
            FailureAction::Retry(plan) => return AdmissionDecision::Retry(plan),
            FailureAction::Leave(fallback_reason) => (fallback_reason, error.to_agent_error()),
            FailureAction::CircuitOpen => {
                let circuit_error = health.map(|health| circuit_open_error(model, health, Some(error)));
                (
                    Some(FallbackReason::Circuit),
                    circuit_error.unwrap_or_else(|| error.to_agent_error()),
                )
            }
        };
    access.fallback_reason = fallback_reason;
    AdmissionDecision::GiveUp(Box::new(agent_error))
}

/// Builds the error of a call that an open circuit rejected, or after which it opened.
fn circuit_open_error(
    model: &ResolvedModel,
    health: &AccountHealth,
    error: Option<&ProviderError>,
) -> AgentError {
    let circuit = health.circuit_view();
    let rest = circuit
        .until
        .map(|until| until.saturating_sub(clock::wall_ms()).max(0).unsigned_abs());
    let when = match rest {
        Some(ms) => format!("it will be tried again in {} s", ms.div_ceil(1_000)),
        None => "it is being tried".to_owned(),
    };
    let message = format!(
        "{} failed too often in a row and is paused; {when}",
        health.name()
    );
    AgentError {
        cause: error
            .map(|error| error.message.clone())
            .or_else(|| health.last_failure())
            .map(ErrorCause::from),
        provider: Some(health.name().to_owned()),
        model: Some(model.model.clone()),
        status: error.and_then(|error| error.status),
        request_id: error.and_then(|error| error.request_id.clone()),
        retry_after_ms: rest,
        reset_at: circuit.until,
        ..AgentError::new(ErrorCode::CircuitOpen, message)
    }
    .with_user_action(format!(
        "send a new prompt to try it now\nor set a fallback in [provider.{}]",
        health.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_persons_first_call_without_a_fallback_is_the_trial() {
        for (has_called, next, caller) in [
            (false, None, Caller::Person),
            (true, None, Caller::Machine),
            (false, Some("q/n"), Caller::Machine),
            (true, Some("q/n"), Caller::Machine),
        ] {
            let access = ProviderAccess {
                has_called,
                next: next.map(str::to_owned),
                ..ProviderAccess::default()
            };
            assert_eq!(access.caller_kind(), caller, "{has_called} {next:?}");
        }
    }

    #[test]
    fn a_fallback_is_available_only_for_a_matching_reason() {
        let failed = Some(FallbackReason::Failed("words".to_owned()));
        for (fallback_reason, next, substitute, goes_on) in [
            (None, true, true, false),
            (Some(FallbackReason::Overloaded), false, true, true),
            (Some(FallbackReason::Overloaded), true, false, false),
            (Some(FallbackReason::Circuit), true, false, true),
            (Some(FallbackReason::Circuit), false, true, false),
            (failed.clone(), true, false, true),
            (failed, false, false, false),
            (
                Some(FallbackReason::NoSuchModel("words".to_owned())),
                false,
                false,
                true,
            ),
        ] {
            let mut access = ProviderAccess {
                fallback_reason,
                next: next.then(|| "q/n".to_owned()),
                substitute: substitute.then(|| "small".to_owned()),
                if_missing: Some("large".to_owned()),
                ..ProviderAccess::default()
            };
            assert_eq!(access.may_continue(), goes_on, "{:?}", access.fallback_reason);
            // An auxiliary call has no fallback.
            let fallbacks = access.disable_fallback(Some("without"));
            assert!(!access.may_continue());
            access.restore_fallback(fallbacks);
            assert_eq!(
                (access.next.is_some(), access.substitute.is_some()),
                (next, substitute)
            );
            assert_eq!((access.fallback_reason, access.consequence), (None, None));
        }
    }
}
