//! The health of a provider account: its circuit, its pacer, and its consecutive overloads. All sessions that use
//! the account share it, across folders and configuration reloads.
//!
//! Only failures that are the provider's and may pass by themselves count ([`is_failure`]). A call is admitted
//! or refused, and its outcome is recorded later. No caller holds a slot or a lock while it waits, so nothing can
//! deadlock (R-PROV-6). A dropped trial frees its place ([`CallLease`]). `turn` decides who waits, and how long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderMap;
use tokio::sync::watch;

use super::error::{ProviderError, ProviderFault};
use super::pacing::{Pacer, PacingDelay, parse_rate_limits};
use crate::base::clock::{self, Instant};
use crate::domain::CircuitState;
use crate::domain::circuit::{Admission, Caller, Circuit, CircuitPolicy};

/// Consecutive 529 responses after which the account's `fallback_model` answers (R-PROV-4).
pub const MAX_CONSECUTIVE_OVERLOADS: u32 = 3;

/// The circuit, pacer and overload count of one account.
#[derive(Debug)]
pub struct AccountHealth {
    name: String,
    inner: Mutex<AccountHealthState>,
    changed: watch::Sender<u64>,
    /// Shared by all accounts of the server; bumped when any circuit changes.
    board: watch::Sender<u64>,
}

#[derive(Debug)]
struct AccountHealthState {
    circuit: Circuit,
    pacer: Pacer,
    /// Consecutive 529 responses. Any success resets the count.
    overloads: u32,
    /// The message of the last failure that counted.
    last_failure: Option<String>,
    /// When an open circuit admits a trial, in ms since the epoch. Converted once, so that all clients see one time.
    until_ms: Option<i64>,
}

/// A circuit's state for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitView {
    pub state: CircuitState,
    /// When an open circuit admits a trial, in ms since the epoch.
    pub until: Option<i64>,
}

/// Reports whether a failure is the provider's and may pass by itself. Overload, 5xx, time limits, refused or
/// broken connections, and errors inside a stream count. Problems with our request, our key, a quota or this
/// machine do not. Nor does a throttle: the provider is healthy and says when to return.
pub fn is_failure(fault: &ProviderFault) -> bool {
    // Exhaustive, so that a new fault does not compile without a decision here.
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
        | ProviderFault::PartRefused(_)
        | ProviderFault::ToolsRefused(_)
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
    /// Creates the health of an account that has made no call, outside any [`Accounts`].
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

    /// Returns the provider's configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state of the circuit for display.
    pub fn circuit_view(&self) -> CircuitView {
        let inner = self.lock();
        CircuitView {
            state: inner.circuit.state().0,
            until: inner.until_ms,
        }
    }

    /// Reports whether an automatic call would be admitted now. Does not start a trial.
    pub fn would_admit(&self) -> bool {
        self.lock().circuit.would_admit(clock::now())
    }

    /// Returns how many more consecutive failures open the circuit; 0 when it is not closed.
    pub fn failures_left(&self) -> u32 {
        self.lock().circuit.failures_left()
    }

    /// Returns the number of 529 responses since the last success.
    pub fn consecutive_overloads(&self) -> u32 {
        self.lock().overloads
    }

    /// Returns the message of the last failure that counted, until a success clears it.
    pub fn last_failure(&self) -> Option<String> {
        self.lock().last_failure.clone()
    }

    /// Admits a call if the circuit allows one.
    ///
    /// # Errors
    ///
    /// Fails with the time of the next trial while the circuit is open, or with `None` while a trial is running.
    pub fn admit_call(self: &Arc<Self>, caller: Caller) -> Result<CallLease, Option<Instant>> {
        let admission = self.update_and_notify(|inner| inner.circuit.admit_call(caller, clock::now()));
        let trial = match admission {
            Admission::Pass => None,
            Admission::Trial(number) => Some(number),
            Admission::Refused { until } => return Err(until),
        };
        Ok(CallLease {
            health: self.clone(),
            trial,
        })
    }

    /// Returns how long a call that is due now waits, and why. `None`: it does not wait.
    pub fn current_pace(&self) -> Option<PacingDelay> {
        self.lock().pacer.current_pace(&self.name, clock::now())
    }

    /// Feeds the rate-limit headers of a response to the pacer (R-PROV-6).
    pub fn observe_headers(&self, headers: &HeaderMap) {
        let readings = parse_rate_limits(headers, clock::wall_ms());
        if !readings.is_empty() {
            // The pacer does not change the circuit, so no watcher needs to wake.
            self.lock().pacer.observe_rate_limits(&readings, clock::now());
        }
    }

    /// Records that the first event of an answer arrived.
    pub fn record_answer_start(&self) {
        self.update_and_notify(|inner| inner.circuit.record_answer_start());
    }

    /// Records that an answer is complete.
    pub fn record_success(&self) {
        self.update_and_notify(|inner| {
            inner.circuit.record_success();
            inner.overloads = 0;
            inner.last_failure = None;
        });
    }

    /// Records a failed call. Ignores failures that [`is_failure`] does not count.
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

    /// Closes the circuit on the user's request. Returns whether it was not closed before.
    pub fn reset(&self) -> bool {
        self.update_and_notify(|inner| {
            inner.overloads = 0;
            inner.last_failure = None;
            inner.circuit.reset()
        })
    }

    /// Returns a receiver that wakes when this circuit changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn update_and_notify<T>(&self, change: impl FnOnce(&mut AccountHealthState) -> T) -> T {
        // The lock ends before watchers wake, because they lock again to read the new state.
        let (result, differs) = {
            let mut inner = self.lock();
            let before = inner.circuit.state();
            let result = change(&mut inner);
            let after = inner.circuit.state();
            if after != before {
                inner.until_ms = after.1.map(to_wall_ms);
            }
            (result, after != before)
        };
        if differs {
            self.changed.send_modify(|number| *number += 1);
            self.board.send_modify(|number| *number += 1);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, AccountHealthState> {
        // The state is consistent after every statement, so a panic while the lock is held leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts a monotonic instant to wall time in ms since the epoch.
fn to_wall_ms(at: Instant) -> i64 {
    let remaining = at.saturating_duration_since(clock::now());
    clock::wall_ms().saturating_add_unsigned(remaining.as_millis() as u64)
}

/// Permission to make one call. Dropping a trial that ended without an outcome (a cancel, a failure that does not
/// count) lets the next call try.
#[derive(Debug)]
pub struct CallLease {
    health: Arc<AccountHealth>,
    trial: Option<u64>,
}

impl Drop for CallLease {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            // After an outcome the circuit has left this trial, so this changes nothing.
            self.health
                .update_and_notify(|inner| inner.circuit.abandon_trial(trial, clock::now()));
        }
    }
}

/// What identifies an account: the provider's name, its address, and a hash of its key. The hash keeps the key
/// itself out of this long-lived map.
type AccountKey = (String, String, u64);

/// All accounts of one server.
#[derive(Debug, Default)]
pub struct Accounts {
    known: Mutex<BTreeMap<AccountKey, Arc<AccountHealth>>>,
    board: watch::Sender<u64>,
}

impl Accounts {
    /// Returns the account of a provider: the same one as long as name, address and key do not change.
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
        let health = known
            .entry(key)
            .or_insert_with(|| Arc::new(AccountHealth::with_board(name, policy, self.board.clone())));
        // A reload may have changed the policy of an account that exists already.
        health.update_and_notify(|inner| inner.circuit.set_policy(policy, clock::now()));
        health.clone()
    }

    /// Returns the circuit of every known account by provider name; of accounts that share a name, the worst.
    /// An open circuit whose rest is over ranks last. It may belong to an address or key that is no longer
    /// configured, so no call would ever close it.
    pub fn circuit_views(&self) -> BTreeMap<String, CircuitView> {
        let mut all: BTreeMap<String, (u8, CircuitView)> = BTreeMap::new();
        for health in self.lock().values() {
            let view = health.circuit_view();
            let bad = match (view.state, health.would_admit()) {
                (CircuitState::Open, true) => 0,
                (CircuitState::Closed, _) => 1,
                (CircuitState::Open | CircuitState::HalfOpen, _) => 2,
            };
            match all.get_mut(&health.name) {
                Some(known) if known.0 >= bad => {}
                Some(known) => *known = (bad, view),
                None => _ = all.insert(health.name.clone(), (bad, view)),
            }
        }
        all.into_iter().map(|(name, (_, view))| (name, view)).collect()
    }

    /// Closes all circuits of a provider. Returns whether one was not closed before; `None`: no such account.
    pub fn reset_circuits(&self, name: &str) -> Option<bool> {
        let of_name: Vec<_> = self
            .lock()
            .values()
            .filter(|health| health.name == name)
            .cloned()
            .collect();
        // The map is unlocked by now: a reset wakes watchers, which read it. `fold` instead of `any`, because every
        // circuit must close, not only the first open one.
        let mut done = of_name.iter().map(|health| health.reset());
        let first = done.next()?;
        Some(done.fold(first, |any, one| any | one))
    }

    /// Returns a receiver that wakes when any circuit changes.
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

    fn build_health() -> Arc<AccountHealth> {
        AccountHealth::new("p", CircuitPolicy::default())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_our_own_requests_do_not_count() {
        let health = build_health();
        for _ in 0..9 {
            health.record_failure(&error(ProviderFault::Unauthorized));
            health.record_failure(&error(ProviderFault::Throttled));
        }
        assert_eq!(health.failures_left(), 5);
        for _ in 0..5 {
            health.record_failure(&error(ProviderFault::Server));
        }
        assert_eq!(health.circuit_view().state, CircuitState::Open);
        assert_eq!(health.last_failure().as_deref(), Some("x"));
    }

    #[tokio::test(start_paused = true)]
    async fn overloads_are_counted_until_a_success() {
        let health = build_health();
        health.record_failure(&error(ProviderFault::Overloaded));
        health.record_failure(&error(ProviderFault::Server));
        health.record_failure(&error(ProviderFault::Overloaded));
        assert_eq!(health.consecutive_overloads(), 2);
        health.record_success();
        assert_eq!(health.consecutive_overloads(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_trial_frees_its_place_and_a_finished_one_does_not() {
        let health = build_health();
        for _ in 0..5 {
            health.record_failure(&error(ProviderFault::Server));
        }
        assert!(health.admit_call(Caller::Machine).is_err());
        tokio::time::advance(Duration::from_secs(30)).await;
        let trial = health.admit_call(Caller::Machine).unwrap();
        assert!(trial.trial.is_some());
        assert_eq!(health.admit_call(Caller::Machine).err(), Some(None));
        drop(trial);
        let trial = health.admit_call(Caller::Machine).unwrap();
        health.record_success();
        drop(trial);
        assert_eq!(health.circuit_view().state, CircuitState::Closed);
        assert_eq!(health.admit_call(Caller::Machine).unwrap().trial, None);
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_are_shared_by_key_and_changes_wake_subscribers() {
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
        let circuit_state = || accounts.circuit_views()["p"].state;
        assert_eq!(circuit_state(), CircuitState::Open);
        // The key was corrected since, so the account with the wrong key gets no more calls.
        tokio::time::advance(policy.rest).await;
        assert_eq!(
            (circuit_state(), one.circuit_view().state),
            (CircuitState::Closed, CircuitState::Open)
        );
        let trial = one.admit_call(Caller::Machine).unwrap();
        assert_eq!(circuit_state(), CircuitState::HalfOpen);
        drop(trial);
        assert_eq!(accounts.reset_circuits("p"), Some(true));
        assert_eq!(accounts.reset_circuits("p"), Some(false));
        assert_eq!(accounts.reset_circuits("q"), None);
    }
}
