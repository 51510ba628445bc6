//! Decides what to do about a failed call (R-PROV-1 to -5): retry it, leave it to another model, or give up. It also
//! words what happens next, and the tests check that this really happens.
//!
//! Pure: `admission` passes the facts in, and `step` acts on the decision.

use std::time::Duration;

use crate::provider::account_health::MAX_CONSECUTIVE_OVERLOADS;
use crate::provider::{Disposition, GiveUp, ProviderError, ProviderFault, RetryPolicy, RetryVerdict};

/// The models that may take over.
#[derive(Clone, Copy, Default)]
pub(super) struct Alternatives<'a> {
    /// The next model on the route.
    pub(super) next: Option<&'a str>,
    /// The model for an overloaded provider.
    pub(super) substitute: Option<&'a str>,
    /// Another model may be called if the provider lacks this one.
    pub(super) is_replaceable: bool,
    /// For an auxiliary call: what happens without it, for people.
    pub(super) consequence: Option<&'a str>,
}

/// The state of the account after the failure.
#[derive(Clone, Copy, Default)]
pub(super) struct CircuitOutlook {
    /// Consecutive 529 responses.
    pub(super) overloads: u32,
    /// Further failures of this kind that open the circuit; `None` if this kind does not count.
    pub(super) until_open: Option<u32>,
    /// How long the circuit stays open, if it is open.
    pub(super) open: Option<Duration>,
}

/// What to do about a failed call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    Retry(RetryPlan),
    /// Give up because of the call's own error. The reason is set if another model may do better.
    Leave(Option<FallbackReason>),
    /// Give up because the circuit is open.
    CircuitOpen,
}

/// How to retry a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RetryPlan {
    /// The attempt that failed, from 1.
    pub(super) attempt: u32,
    /// The wait before the next attempt.
    pub(super) delay: Duration,
    /// The total number of retries for failures of this kind.
    pub(super) max_retries: u32,
    /// What happens if the next attempt fails too, for people.
    pub(super) next: String,
}

/// Why another model is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FallbackReason {
    /// The provider is overloaded (529) and has another model for that.
    Overloaded,
    Circuit,
    /// The provider lacks a model that agentls chose. The text is for people.
    NoSuchModel(String),
    /// Retries are used up, or the wait would be too long. The text is for people.
    Failed(String),
}

/// Decides about a failed call, given the retry policy's `verdict` after `attempts` attempts.
pub(super) fn plan_failure_action(
    alternatives: &Alternatives<'_>,
    outlook: &CircuitOutlook,
    policy: &RetryPolicy,
    error: &ProviderError,
    (verdict, attempts): (RetryVerdict, u32),
) -> FailureAction {
    // R-PROV-4: repeated 529 switch at once, even if retries are left.
    if error.fault == ProviderFault::Overloaded
        && outlook.overloads >= MAX_CONSECUTIVE_OVERLOADS
        && alternatives.substitute.is_some()
    {
        return FailureAction::Leave(Some(FallbackReason::Overloaded));
    }
    if error.fault == ProviderFault::NotFound && alternatives.is_replaceable {
        let reason = format!("{} has no {}: {}", error.provider, error.model, error.message);
        return FailureAction::Leave(Some(FallbackReason::NoSuchModel(reason)));
    }
    let (attempt, mut delay, remaining) = match verdict {
        RetryVerdict::Retry {
            attempt,
            delay,
            remaining,
        } => (attempt, delay, remaining),
        RetryVerdict::GiveUp { reason } => {
            return FailureAction::Leave(to_fallback_reason(reason, error, attempts));
        }
    };
    let long = error.retry_after.filter(|wait| *wait > policy.max_retry_after);
    if let Some(wait) = long.filter(|_| alternatives.next.is_some()) {
        // Even under a patient policy: another provider can answer sooner.
        return FailureAction::Leave(to_fallback_reason(GiveUp::WaitTooLong(wait), error, attempts));
    }
    // Without a fallback, a persistent policy waits until the circuit admits a call again.
    let rests_it_out = policy.persists && alternatives.next.is_none();
    match outlook.open {
        Some(_) if !rests_it_out => return FailureAction::CircuitOpen,
        // One millisecond more: the clocks differ by fractions of a millisecond.
        Some(rest) => delay = delay.max(rest + Duration::from_millis(1)),
        None => {}
    }
    let next = what_next(alternatives, outlook, error, remaining, rests_it_out);
    FailureAction::Retry(RetryPlan {
        attempt,
        delay,
        max_retries: attempt + remaining,
        next,
    })
}

/// Returns why another model may do better after a call was given up, if one may.
fn to_fallback_reason(cause: GiveUp, error: &ProviderError, attempts: u32) -> Option<FallbackReason> {
    let reason = match cause {
        GiveUp::NotRetryable(Disposition::NextOnRoute) => format!("{}: {}", error.provider, error.message),
        GiveUp::NotRetryable(_) => return None,
        GiveUp::Exhausted if attempts == 1 => format!("{} failed: {}", error.provider, error.message),
        GiveUp::Exhausted => format!("{} failed {attempts} times: {}", error.provider, error.message),
        GiveUp::TimedOutAgain => format!("{} was silent again: {}", error.provider, error.message),
        GiveUp::WaitTooLong(wait) => format!(
            "{} asks to wait for {} s: {}",
            error.provider,
            wait.as_secs_f64().ceil(),
            error.message
        ),
    };
    Some(FallbackReason::Failed(reason))
}

/// Words what happens if the next attempt, and all later ones, fail in the same way. `left` is the number of retries
/// after the next, as far as the retry policy goes.
fn what_next(
    alternatives: &Alternatives<'_>,
    outlook: &CircuitOutlook,
    error: &ProviderError,
    remaining: u32,
    rests: bool,
) -> String {
    // Before the last retry the circuit may open, or the provider may count as overloaded.
    let until_open = outlook.until_open.filter(|_| !rests);
    let until_open = until_open.map_or(u32::MAX, |failures| failures.saturating_sub(1));
    let substitute = alternatives
        .substitute
        .filter(|_| error.fault == ProviderFault::Overloaded);
    let until_substitute = MAX_CONSECUTIVE_OVERLOADS.saturating_sub(outlook.overloads + 1);
    let tries = remaining.min(until_open);
    let (tries, then) = match (substitute, alternatives.next) {
        (Some(substitute), _) if until_substitute <= tries => {
            (until_substitute, Some(format!("{substitute} takes over")))
        }
        (_, Some(next)) => (tries, Some(format!("{next} takes over"))),
        (_, None) => (tries, alternatives.consequence.map(str::to_owned)),
    };
    match (tries, then) {
        (0, Some(then)) => then,
        (0, None) if remaining > 0 => "the turn will fail: the circuit breaker will be open".to_owned(),
        (0, None) => "the turn will fail with this error".to_owned(),
        (1, None) => "one more attempt".to_owned(),
        (n, None) => format!("{n} more attempts"),
        (1, Some(then)) => format!("one more attempt, then {then}"),
        (n, Some(then)) => format!("{n} more attempts, then {then}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RetryProfile;
    use crate::provider::{RetryState, TimeoutPhase};

    fn error(fault: ProviderFault) -> ProviderError {
        ProviderError {
            fault,
            provider: "p".into(),
            model: "m".into(),
            message: "words".into(),
            status: None,
            request_id: None,
            retry_after: None,
            user_action: None,
            should_retry: None,
        }
    }

    const ALONE: Alternatives<'_> = Alternatives {
        next: None,
        substitute: None,
        is_replaceable: false,
        consequence: None,
    };
    const ROUTE: Alternatives<'_> = Alternatives {
        next: Some("q/n"),
        ..ALONE
    };
    const ASIDE: Alternatives<'_> = Alternatives {
        consequence: Some("it goes on without"),
        ..ALONE
    };
    const BOTH: Alternatives<'_> = Alternatives {
        next: Some("q/n"),
        substitute: Some("small"),
        ..ALONE
    };

    #[test]
    fn a_missing_model_gives_way_only_if_it_is_replaceable() {
        let replaceable = Alternatives {
            is_replaceable: true,
            ..ALONE
        };
        let lost = |alternatives: &Alternatives<'_>, fault| {
            let verdict = RetryVerdict::GiveUp {
                reason: GiveUp::NotRetryable(Disposition::Fail),
            };
            let policy = RetryPolicy::default();
            let outlook = CircuitOutlook::default();
            plan_failure_action(alternatives, &outlook, &policy, &error(fault), (verdict, 1))
        };
        let reason = FallbackReason::NoSuchModel("p has no m: words".to_owned());
        assert_eq!(
            lost(&replaceable, ProviderFault::NotFound),
            FailureAction::Leave(Some(reason))
        );
        assert_eq!(
            lost(&replaceable, ProviderFault::Unauthorized),
            FailureAction::Leave(None)
        );
        assert_eq!(lost(&ROUTE, ProviderFault::NotFound), FailureAction::Leave(None));
    }

    /// Simulates an account whose circuit opens with the fifth failure. Returns the announced texts and the final
    /// action.
    fn state(
        alternatives: &Alternatives<'_>,
        policy: RetryPolicy,
        fault: &ProviderFault,
    ) -> (Vec<String>, FailureAction) {
        let mut retry = RetryState::new(policy);
        let mut announcements = Vec::new();
        for failures in 1.. {
            let outlook = CircuitOutlook {
                overloads: if *fault == ProviderFault::Overloaded {
                    failures
                } else {
                    0
                },
                until_open: (*fault != ProviderFault::Throttled).then(|| 5_u32.saturating_sub(failures)),
                open: (failures >= 5 && *fault != ProviderFault::Throttled)
                    .then_some(Duration::from_secs(30)),
            };
            let error = error(fault.clone());
            let verdict = retry.next(&error, 0.0);
            match plan_failure_action(
                alternatives,
                &outlook,
                &policy,
                &error,
                (verdict, retry.failed_attempts()),
            ) {
                FailureAction::Retry(plan) => announcements.push(plan.next),
                done => return (announcements, done),
            }
        }
        unreachable!()
    }

    /// Returns how many further attempts a text announces.
    fn tries(text: &str) -> usize {
        match text.split_once(" more attempt") {
            Some(("one", _)) => 1,
            Some((n, _)) => n.parse().unwrap(),
            None => 0,
        }
    }

    #[test]
    fn the_announced_next_action_happens() {
        let nine = RetryPolicy {
            max_retries: 9,
            ..RetryPolicy::default()
        };
        let three = RetryPolicy::default();
        let silent = ProviderFault::TimedOut(TimeoutPhase::Gap);
        let failed = |reason: &str| FailureAction::Leave(Some(FallbackReason::Failed(reason.to_owned())));
        let ends = "the turn will fail with this error";
        let rests = "the turn will fail: the circuit breaker will be open";
        let hop = "q/n takes over";
        let small = "small takes over";
        let without = "it goes on without";
        let cases: [(
            &Alternatives<'_>,
            RetryPolicy,
            &ProviderFault,
            usize,
            &str,
            FailureAction,
        ); 14] = [
            // (alternatives, policy, fault, retries, last text, final action)
            (
                &ALONE,
                three,
                &ProviderFault::Server,
                3,
                ends,
                failed("p failed 4 times: words"),
            ),
            (
                &ALONE,
                nine,
                &ProviderFault::Server,
                4,
                rests,
                FailureAction::CircuitOpen,
            ),
            (
                &ALONE,
                nine,
                &ProviderFault::Throttled,
                9,
                ends,
                failed("p failed 10 times: words"),
            ),
            (
                &ALONE,
                nine,
                &silent,
                1,
                ends,
                failed("p was silent again: words"),
            ),
            (
                &ALONE,
                three,
                &ProviderFault::Overloaded,
                3,
                ends,
                failed("p failed 4 times: words"),
            ),
            (
                &ROUTE,
                three,
                &ProviderFault::Server,
                3,
                hop,
                failed("p failed 4 times: words"),
            ),
            (
                &ROUTE,
                nine,
                &ProviderFault::Connection,
                4,
                hop,
                FailureAction::CircuitOpen,
            ),
            (&ROUTE, nine, &silent, 1, hop, failed("p was silent again: words")),
            (
                &BOTH,
                nine,
                &ProviderFault::Overloaded,
                2,
                small,
                FailureAction::Leave(Some(FallbackReason::Overloaded)),
            ),
            (
                &BOTH,
                three,
                &ProviderFault::Server,
                3,
                hop,
                failed("p failed 4 times: words"),
            ),
            (
                &ASIDE,
                three,
                &ProviderFault::Server,
                3,
                without,
                failed("p failed 4 times: words"),
            ),
            (
                &ASIDE,
                nine,
                &ProviderFault::Server,
                4,
                without,
                FailureAction::CircuitOpen,
            ),
            (
                &ASIDE,
                nine,
                &silent,
                1,
                without,
                failed("p was silent again: words"),
            ),
            (
                &ROUTE,
                RetryPolicy::from_profile(RetryProfile::Persistent),
                &ProviderFault::Server,
                4,
                hop,
                FailureAction::CircuitOpen,
            ),
        ];
        for (alternatives, policy, fault, retries, last, done) in cases {
            let (announcements, then) = state(alternatives, policy, fault);
            assert_eq!(
                (announcements.len(), &then),
                (retries, &done),
                "{fault:?}: {announcements:?}"
            );
            assert_eq!(announcements.last().map(String::as_str), Some(last), "{fault:?}");
            for (at, text) in announcements.iter().enumerate() {
                assert_eq!(tries(text), retries - at - 1, "{fault:?}: {announcements:?}");
                // The fallback is named from the first text on.
                assert_eq!(
                    text.ends_with(last),
                    ![ends, rests].contains(&last) || at + 1 == retries,
                    "{announcements:?}"
                );
            }
        }
    }

    #[test]
    fn a_persistent_policy_without_fallback_waits_for_the_circuit() {
        let policy = RetryPolicy::from_profile(RetryProfile::Persistent);
        let (announcements, done) = state(&ALONE, policy, &ProviderFault::Server);
        assert_eq!(announcements.len(), 10);
        assert_eq!(
            done,
            FailureAction::Leave(Some(FallbackReason::Failed(
                "p failed 11 times: words".to_owned()
            )))
        );
        let mut retry = RetryState::new(policy);
        let error = error(ProviderFault::Server);
        let verdict = retry.next(&error, 0.0);
        let outlook = CircuitOutlook {
            open: Some(Duration::from_secs(30)),
            until_open: Some(0),
            ..CircuitOutlook::default()
        };
        let FailureAction::Retry(plan) = plan_failure_action(&ALONE, &outlook, &policy, &error, (verdict, 1))
        else {
            panic!("no retry");
        };
        assert_eq!(plan.delay, Duration::from_millis(30_001));
        assert_eq!((plan.attempt, plan.max_retries), (1, 10));
        assert_eq!(plan.next, "9 more attempts");
    }

    #[test]
    fn a_long_retry_after_prefers_a_fallback() {
        let hour = ProviderError {
            retry_after: Some(Duration::from_secs(3_600)),
            ..error(ProviderFault::Throttled)
        };
        let done = |alternatives: &Alternatives<'_>, policy: RetryPolicy| {
            let verdict = RetryState::new(policy).next(&hour, 0.0);
            plan_failure_action(
                alternatives,
                &CircuitOutlook::default(),
                &policy,
                &hour,
                (verdict, 1),
            )
        };
        let expected = FailureAction::Leave(Some(FallbackReason::Failed(
            "p asks to wait for 3600 s: words".to_owned(),
        )));
        assert_eq!(
            done(&ROUTE, RetryPolicy::from_profile(RetryProfile::Patient)),
            expected
        );
        assert_eq!(done(&ROUTE, RetryPolicy::default()), expected);
        assert_eq!(done(&ALONE, RetryPolicy::default()), expected);
        let FailureAction::Retry(plan) = done(&ALONE, RetryPolicy::from_profile(RetryProfile::Patient))
        else {
            panic!("no patience");
        };
        assert_eq!(plan.delay, Duration::from_secs(3_600));
    }

    #[test]
    fn permanent_errors_do_not_fall_back() {
        let policy = RetryPolicy::from_profile(RetryProfile::Persistent);
        for (fault, fallback_reason) in [
            (ProviderFault::Unauthorized, None),
            (ProviderFault::InvalidRequest, None),
            (ProviderFault::PromptTooLong { limit: None }, None),
            (
                ProviderFault::QuotaExhausted { reset_at: None },
                Some(FallbackReason::Failed("p: words".to_owned())),
            ),
        ] {
            let error = error(fault);
            let verdict = RetryState::new(policy).next(&error, 0.0);
            let done = plan_failure_action(&BOTH, &CircuitOutlook::default(), &policy, &error, (verdict, 1));
            assert_eq!(done, FailureAction::Leave(fallback_reason), "{error:?}");
        }
    }
}
