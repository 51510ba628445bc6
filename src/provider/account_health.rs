//! How a provider account stands: its circuit, its pacer, and how often it was overloaded in a row; shared by all
//! sessions that use the account, across folders and reloads.
//!
//! What counts as a failure of the provider: what may pass by itself and is not about us ([`is_failure`]). Nobody
//! holds anything here while waiting: a call asks, is let through or not, and its outcome is noted. A trial that
//! is dropped gives its right back ([`CallLease`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderMap;
use tokio::sync::watch;

use super::circuit::{Admission, Caller, Circuit, CircuitPolicy};
use super::error::{ProviderError, ProviderFault};
use super::pacing::{Pace, Pacer, parse_rate_limits};
use crate::base::clock::{self, Instant};
use crate::domain::CircuitState;

/// So many 529 in a row, and the account's `fallback_model` answers (R-PROV-4).
pub const OVERLOADS: u32 = 3;

/// How an account stands.
#[derive(Debug)]
pub struct AccountHealth {
    name: String,
    inner: Mutex<AccountHealthState>,
    changed: watch::Sender<u64>,
    /// Of all accounts; woken when a circuit changes.
    board: watch::Sender<u64>,
}

#[derive(Debug)]
struct AccountHealthState {
    circuit: Circuit,
    pacer: Pacer,
    /// 529 in a row; any success sets it back.
    overloads: u32,
    /// The last failure that counted, for people.
    last_failure: Option<String>,
    /// When an open circuit lets a trial through, in ms since the epoch: told alike to everybody.
    until_ms: Option<i64>,
}

/// A circuit as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitView {
    /// How it stands.
    pub state: CircuitState,
    /// When an open one lets a trial through, in ms since the epoch.
    pub until: Option<i64>,
}

/// Whether a failure is the provider's and may pass by itself: overload, 5xx, time limits, connections that are
/// refused or break, errors inside a stream. Not: what is wrong with our request or key, a quota, a throttle (the
/// provider is well and says when), what is wrong on this side.
pub fn is_failure(fault: &ProviderFault) -> bool {
    match fault {
        ProviderFault::Overloaded
        | ProviderFault::Server
        | ProviderFault::TimedOut(_)
        | ProviderFault::Connection
        | ProviderFault::BrokenStream
        | ProviderFault::ErrorEvent => true,
        ProviderFault::Throttled
        | ProviderFault::Tls
        | ProviderFault::PromptTooLong { .. }
        | ProviderFault::OutputLimit { .. }
        | ProviderFault::ImageRefused
        | ProviderFault::Unauthorized
        | ProviderFault::QuotaExhausted { .. }
        | ProviderFault::NotFound
        | ProviderFault::ContentPolicy
        | ProviderFault::InvalidRequest
        | ProviderFault::NotTheApi
        | ProviderFault::Local => false,
    }
}

impl AccountHealth {
    /// Of an account of which nothing is known.
    pub fn new(name: &str, policy: CircuitPolicy) -> Arc<Self> {
        Arc::new(Self::with_board(name, policy, watch::Sender::default()))
    }

    fn with_board(name: &str, policy: CircuitPolicy, board: watch::Sender<u64>) -> Self {
        Self {
            name: name.to_owned(),
            inner: Mutex::new(AccountHealthState {
                circuit: Circuit::new(policy),
                pacer: Pacer::default(),
                overloads: 0,
                last_failure: None,
                until_ms: None,
            }),
            changed: watch::Sender::default(),
            board,
        }
    }

    /// The provider's configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its circuit stands.
    pub fn circuit_view(&self) -> CircuitView {
        let inner = self.lock();
        CircuitView {
            state: inner.circuit.state().0,
            until: inner.until_ms,
        }
    }

    /// Whether an automatic call would be let through now.
    pub fn would_admit(&self) -> bool {
        self.lock().circuit.would_admit(clock::now())
    }

    /// So many further failures in a row open the circuit; 0 when it is not closed.
    pub fn failures_left(&self) -> u32 {
        self.lock().circuit.failures_left()
    }

    /// 529 in a row.
    pub fn consecutive_overloads(&self) -> u32 {
        self.lock().overloads
    }

    /// The last failure that counted, while it stands.
    pub fn last_failure(&self) -> Option<String> {
        self.lock().last_failure.clone()
    }

    /// Lets a call through, or says until when not (none: a trial is under way).
    pub fn admit_call(self: &Arc<Self>, caller: Caller) -> Result<CallLease, Option<Instant>> {
        let admission = self.update_and_notify(|inner| inner.circuit.admit_call(caller, clock::now()));
        let trial = match admission {
            Admission::Pass => None,
            Admission::Trial(number) => Some(number),
            Admission::Refused { until } => return Err(until),
        };
        Ok(CallLease {
            standing: self.clone(),
            trial,
        })
    }

    /// Whether, how long and why a call that is due now waits.
    pub fn current_pace(&self) -> Option<Pace> {
        self.lock().pacer.current_pace(&self.name, clock::now())
    }

    /// Takes in the headers of a response.
    pub fn observe_headers(&self, headers: &HeaderMap) {
        let readings = parse_rate_limits(headers, clock::wall_ms());
        if !readings.is_empty() {
            self.lock().pacer.observe_rate_limits(&readings, clock::now());
        }
    }

    /// A call begins to be answered.
    pub fn record_answer_start(&self) {
        self.update_and_notify(|inner| inner.circuit.record_answer_start());
    }

    /// A call has come to its end.
    pub fn record_success(&self) {
        self.update_and_notify(|inner| {
            inner.circuit.record_success();
            inner.overloads = 0;
            inner.last_failure = None;
        });
    }

    /// A call has failed.
    pub fn record_failure(&self, error: &ProviderError) {
        if !is_failure(&error.fault) {
            return;
        }
        self.update_and_notify(|inner| {
            inner.circuit.record_failure(clock::now());
            if error.fault == ProviderFault::Overloaded {
                inner.overloads = inner.overloads.saturating_add(1);
            }
            inner.last_failure = Some(error.message.clone());
        });
    }

    /// A person says that it is well again; whether its circuit was not closed.
    pub fn reset(&self) -> bool {
        self.update_and_notify(|inner| {
            inner.overloads = 0;
            inner.last_failure = None;
            inner.circuit.reset()
        })
    }

    /// Wakes when the circuit changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn update_and_notify<T>(&self, change: impl FnOnce(&mut AccountHealthState) -> T) -> T {
        let (told, differs) = {
            let mut inner = self.lock();
            let before = inner.circuit.state();
            let told = change(&mut inner);
            let after = inner.circuit.state();
            if after != before {
                inner.until_ms = after.1.map(wall_of);
            }
            (told, after != before)
        };
        if differs {
            self.changed.send_modify(|number| *number += 1);
            self.board.send_modify(|number| *number += 1);
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, AccountHealthState> {
        // Whole after every statement: a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment of the monotonic clock on the wall's.
fn wall_of(at: Instant) -> i64 {
    let left = at.saturating_duration_since(clock::now());
    clock::wall_ms().saturating_add_unsigned(left.as_millis() as u64)
}

/// The right to make one call. A trial that ends without an outcome (a cancel, a failure that does not count)
/// gives its right back when it is dropped.
#[derive(Debug)]
pub struct CallLease {
    standing: Arc<AccountHealth>,
    trial: Option<u64>,
}

impl CallLease {
    /// Whether the call is the trial of a circuit.
    pub fn is_trial(&self) -> bool {
        self.trial.is_some()
    }
}

impl Drop for CallLease {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.standing
                .update_and_notify(|inner| inner.circuit.abandon_trial(trial, clock::now()));
        }
    }
}

/// What makes an account: the provider's name, its address and its key.
type AccountKey = (String, String, u64);

/// The accounts of a server.
#[derive(Debug, Default)]
pub struct Accounts {
    known: Mutex<BTreeMap<AccountKey, Arc<AccountHealth>>>,
    board: watch::Sender<u64>,
}

impl Accounts {
    /// The account of a provider; the same one as long as name, address and key are.
    pub fn get_or_create(
        &self,
        name: &str,
        address: &str,
        key: Option<&str>,
        policy: CircuitPolicy,
    ) -> Arc<AccountHealth> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let key = (name.to_owned(), address.to_owned(), hasher.finish());
        let mut known = self.lock();
        let standing = known
            .entry(key)
            .or_insert_with(|| Arc::new(AccountHealth::with_board(name, policy, self.board.clone())));
        standing.update_and_notify(|inner| inner.circuit.set_policy(policy, clock::now()));
        standing.clone()
    }

    /// The circuits of all accounts that were asked for, by name; of accounts of one name the worst. One whose rest is
    /// over and that nobody has asked since may be of an address or a key that is configured no more: another of that
    /// name stands before it.
    pub fn circuit_views(&self) -> BTreeMap<String, CircuitView> {
        let mut all: BTreeMap<String, (u8, CircuitView)> = BTreeMap::new();
        for standing in self.lock().values() {
            let view = standing.circuit_view();
            let bad = match (view.state, standing.would_admit()) {
                (CircuitState::Open, true) => 0,
                (CircuitState::Closed, _) => 1,
                (CircuitState::Open | CircuitState::HalfOpen, _) => 2,
            };
            match all.get_mut(&standing.name) {
                Some(known) if known.0 >= bad => {}
                Some(known) => *known = (bad, view),
                None => _ = all.insert(standing.name.clone(), (bad, view)),
            }
        }
        all.into_iter().map(|(name, (_, view))| (name, view)).collect()
    }

    /// Closes the circuits of a provider; whether one was not closed. None: there is no such account.
    pub fn reset_circuits(&self, name: &str) -> Option<bool> {
        let of_name: Vec<_> = self
            .lock()
            .values()
            .filter(|standing| standing.name == name)
            .cloned()
            .collect();
        let mut done = of_name.iter().map(|standing| standing.reset());
        let first = done.next()?;
        Some(done.fold(first, |any, one| any | one))
    }

    /// Wakes when a circuit changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.board.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AccountKey, Arc<AccountHealth>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn error(fault: ProviderFault) -> ProviderError {
        ProviderError {
            fault,
            provider: "p".into(),
            model: "m".into(),
            message: "x".into(),
            status: None,
            request_id: None,
            retry_after: None,
            user_action: None,
            should_retry: None,
        }
    }

    fn standing() -> Arc<AccountHealth> {
        AccountHealth::new("p", CircuitPolicy::default())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_ours_do_not_count() {
        let standing = standing();
        for _ in 0..9 {
            standing.record_failure(&error(ProviderFault::Unauthorized));
            standing.record_failure(&error(ProviderFault::Throttled));
        }
        assert_eq!(standing.failures_left(), 5);
        for _ in 0..5 {
            standing.record_failure(&error(ProviderFault::Server));
        }
        assert_eq!(standing.circuit_view().state, CircuitState::Open);
        assert_eq!(standing.last_failure().as_deref(), Some("x"));
    }

    #[tokio::test(start_paused = true)]
    async fn overloads_are_counted_until_a_success() {
        let standing = standing();
        standing.record_failure(&error(ProviderFault::Overloaded));
        standing.record_failure(&error(ProviderFault::Server));
        standing.record_failure(&error(ProviderFault::Overloaded));
        assert_eq!(standing.consecutive_overloads(), 2);
        standing.record_success();
        assert_eq!(standing.consecutive_overloads(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_trial_gives_its_right_back_and_a_finished_one_does_not() {
        let standing = standing();
        for _ in 0..5 {
            standing.record_failure(&error(ProviderFault::Server));
        }
        assert!(standing.admit_call(Caller::Machine).is_err());
        tokio::time::advance(Duration::from_secs(30)).await;
        let trial = standing.admit_call(Caller::Machine).unwrap();
        assert!(trial.is_trial());
        assert_eq!(standing.admit_call(Caller::Machine).err(), Some(None));
        drop(trial);
        let trial = standing.admit_call(Caller::Machine).unwrap();
        standing.record_success();
        drop(trial);
        assert_eq!(standing.circuit_view().state, CircuitState::Closed);
        assert!(!standing.admit_call(Caller::Machine).unwrap().is_trial());
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_is_shared_and_its_changes_wake() {
        let accounts = Accounts::default();
        let policy = CircuitPolicy {
            failures: 1,
            ..CircuitPolicy::default()
        };
        let of = |name, key| accounts.get_or_create(name, "https://x", Some(key), policy);
        let (one, same, other) = (of("p", "k"), of("p", "k"), of("p", "l"));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        let board = accounts.subscribe();
        assert!(!board.has_changed().unwrap());
        one.record_failure(&error(ProviderFault::Server));
        assert!(board.has_changed().unwrap());
        let shown = || accounts.circuit_views()["p"].state;
        assert_eq!(shown(), CircuitState::Open);
        // The key was set right since: the account of the wrong one is asked no more.
        tokio::time::advance(policy.rest).await;
        assert_eq!(
            (shown(), one.circuit_view().state),
            (CircuitState::Closed, CircuitState::Open)
        );
        let trial = one.admit_call(Caller::Machine).unwrap();
        assert_eq!(shown(), CircuitState::HalfOpen);
        drop(trial);
        assert_eq!(accounts.reset_circuits("p"), Some(true));
        assert_eq!(accounts.reset_circuits("p"), Some(false));
        assert_eq!(accounts.reset_circuits("q"), None);
    }
}
