//! The server's only ledger of money: what turns have spent today, and what their calls in flight may cost.
//!
//! It owns the one lock under which calls are admitted, so that parallel calls cannot each take the last of a budget
//! (I14). It must not decide what a limit says: `budget` does, purely. The store is reached only through
//! [`DailySpendSource`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::budget::{self, BudgetWarning, CallEstimate, DaySpend, SpendSheet, TurnSpend};
use crate::base::clock;
use crate::domain::{Cost, LimitName, LimitReached};

/// Milliseconds of a day. Days are UTC days, so that several servers with one store agree on them.
const DAY_MS: i64 = 86_400_000;

/// Reads from the store what a day has cost.
pub trait DailySpendSource: Send + Sync {
    /// Returns what other servers have spent and raised on that day, or `None` if it cannot be read now.
    fn load_other_spend(&self, day: i64) -> BoxFuture<'static, Option<SpendSheet>>;
}

/// The ledger of a server, shared by all its sessions.
pub struct Ledger {
    days: Arc<dyn DailySpendSource>,
    books: Mutex<LedgerState>,
}

#[derive(Default)]
struct LedgerState {
    /// The day that `day` describes, in days since the epoch.
    number: i64,
    day: DaySpend,
    /// What this server spent on other days, in case the clock is set back.
    past: BTreeMap<i64, SpendSheet>,
    turns: BTreeMap<u64, OpenTurn>,
    opened: u64,
}

/// An open turn: its spending, and its limits that are not about money.
struct OpenTurn {
    turn_spend: TurnSpend,
    /// Tool calls that it may still make.
    tool_calls: Option<u32>,
    /// The user chose to stop.
    stopped: bool,
}

/// A turn's account in the ledger, closed when it is dropped. Sub-agents share their parent's (I10).
pub struct TurnBudget {
    ledger: Arc<Ledger>,
    turn_number: u64,
    /// Held while the user is asked about a limit, so that they are asked only once at a time.
    asking: tokio::sync::Mutex<()>,
    /// Sub-agents that were started, at all depths.
    subagents: AtomicU32,
}

/// What the budget says about a planned call.
pub(super) enum BudgetDecision {
    /// The call may be made. Its estimate is reserved while this lives.
    Go(Reservation),
    Reached(Box<LimitReached>),
    /// The user has chosen to stop.
    Stopped,
}

/// The reserved estimate of a call in flight. Dropping it releases the estimate, however the call ends.
pub(super) struct Reservation {
    ledger: Arc<Ledger>,
    turn_number: u64,
    call: CallEstimate,
}

impl Ledger {
    /// Creates a ledger that reads other servers' spending from `days`.
    pub fn new(days: Arc<dyn DailySpendSource>) -> Arc<Self> {
        Arc::new(Self {
            days,
            books: Mutex::default(),
        })
    }

    /// Opens an account for a turn, with the number of tool calls that it may make.
    pub fn open(self: &Arc<Self>, turn_spend: TurnSpend, tool_calls: Option<u32>) -> TurnBudget {
        let mut books = self.lock();
        books.opened += 1;
        let number = books.opened;
        let open = OpenTurn {
            turn_spend,
            tool_calls,
            stopped: false,
        };
        books.turns.insert(number, open);
        TurnBudget {
            ledger: self.clone(),
            turn_number: number,
            asking: tokio::sync::Mutex::default(),
            subagents: AtomicU32::new(0),
        }
    }

    /// Records that the user has raised a limit of the day.
    pub fn raise_day(&self, limit: LimitName, provider: Option<&str>, by: Cost) {
        let account = match limit {
            LimitName::DayCost => "",
            LimitName::ProviderDayCost => provider.unwrap_or_default(),
            _ => return,
        };
        let mut books = self.lock();
        books.turn_to(current_day());
        *books.day.own.raised.entry(account.to_owned()).or_default() += by;
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        // The books are consistent after every statement, so a panic elsewhere does not spoil them.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the UTC day of a time in Unix milliseconds, in days since the epoch.
pub fn day_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

fn current_day() -> i64 {
    day_of(clock::wall_ms())
}

impl LedgerState {
    /// Switches to another day with nothing spent yet. Estimates of calls in flight stay reserved.
    fn turn_to(&mut self, day: i64) {
        if self.number != day {
            let restored = self.past.remove(&day).unwrap_or_default();
            let own = std::mem::replace(&mut self.day.own, restored);
            self.past.insert(self.number, own);
            // Only a clock that is set back needs old days, so few are kept.
            if self.past.len() > 3 {
                self.past.pop_first();
            }
            self.number = day;
            self.day.others = SpendSheet::default();
        }
    }
}

impl TurnBudget {
    /// Requests permission to make a call. If a limit per day applies, other servers' spending is read first.
    pub(super) async fn request_call(&self, call: &CallEstimate) -> BudgetDecision {
        let day = current_day();
        let of_day = self.with_open_turn(|open, _| open.turn_spend.budgets.limit_day(&call.provider));
        let other_spend = match of_day {
            // Read before the lock is taken: the store may be slow, and the lock is the whole server's.
            Some(true) => self.ledger.days.load_other_spend(day).await,
            Some(false) | None => None,
        };
        let mut books = self.ledger.lock();
        books.turn_to(day);
        // While the store cannot be read, the last known spending of others counts.
        if let Some(other_spend) = other_spend {
            books.day.others = other_spend;
        }
        let LedgerState { day, turns, .. } = &mut *books;
        let Some(open) = turns.get_mut(&self.turn_number) else {
            return BudgetDecision::Stopped;
        };
        if open.stopped {
            return BudgetDecision::Stopped;
        }
        if let Some(reached) = budget::check_limits(&open.turn_spend, day, call) {
            return BudgetDecision::Reached(Box::new(reached));
        }
        let reservation = Reservation {
            ledger: self.ledger.clone(),
            turn_number: self.turn_number,
            call: call.clone(),
        };
        reservation.hold_amount(open, day);
        drop(books);
        BudgetDecision::Go(reservation)
    }

    /// Counts a sub-agent that is about to start. Returns the new total at all depths.
    pub fn count_subagent(&self) -> u32 {
        self.subagents.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Acquires the right to ask the user about a limit.
    pub(super) async fn lock_limit_prompt(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.asking.lock().await
    }

    /// Returns whether a call to `provider` has any spending limit.
    pub(super) fn has_money_limit(&self, provider: &str) -> bool {
        self.with_open_turn(|open, _| open.turn_spend.budgets.has_money_limit(provider))
            .unwrap_or_default()
    }

    /// Books the cost of a call. Returns the limits of which it crosses the warning mark.
    pub(super) fn charge_cost(&self, provider: &str, cost: Cost) -> Vec<BudgetWarning> {
        let mut books = self.ledger.lock();
        books.turn_to(current_day());
        let LedgerState { day, turns, .. } = &mut *books;
        let mut warnings = Vec::new();
        if let Some(open) = turns.get_mut(&self.turn_number) {
            warnings = budget::collect_budget_warnings(&open.turn_spend, day, provider, cost);
            open.turn_spend.session += cost;
            open.turn_spend.turn += cost;
        }
        *day.own.spent.entry(provider.to_owned()).or_default() += cost;
        warnings
    }

    /// Records that the user has raised a limit of the turn or the session. The actor records those of the day.
    pub(super) fn raise_limit(&self, limit: LimitName, by: u64) {
        self.with_open_turn(|open, _| match limit {
            LimitName::TurnCost => open.turn_spend.turn_raised += Cost(by),
            LimitName::SessionCost => open.turn_spend.session_raised += Cost(by),
            LimitName::ToolCalls => {
                if let Some(remaining) = open.tool_calls.as_mut() {
                    *remaining = remaining.saturating_add(u32::try_from(by).unwrap_or(u32::MAX));
                }
            }
            LimitName::Steps
            | LimitName::DayCost
            | LimitName::ProviderDayCost
            | LimitName::WallTime
            | LimitName::UnknownPrice => {}
        });
    }

    /// Allows calls to a model whose price is unknown.
    pub(super) fn accept_unknown_price(&self, model: &str) {
        self.with_open_turn(|open, _| open.turn_spend.unpriced.insert(model.to_owned()));
    }

    /// Records that the user chose to stop: no further call is admitted.
    pub(super) fn stop(&self) {
        self.with_open_turn(|open, _| open.stopped = true);
    }

    /// Takes `count` tool calls. If fewer are left it takes none and returns how many are left.
    pub(super) fn take_tool_calls(&self, count: usize) -> Result<(), usize> {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        let result = self.with_open_turn(|open, _| match open.tool_calls.as_mut() {
            None => Ok(()),
            Some(remaining) if *remaining >= wanted => {
                *remaining -= wanted;
                Ok(())
            }
            Some(remaining) => Err(*remaining as usize),
        });
        result.unwrap_or(Ok(()))
    }

    /// Takes up to `count` tool calls. Returns how many it took.
    pub(super) fn take_up_to(&self, count: usize) -> usize {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        let granted = self.with_open_turn(|open, _| match open.tool_calls.as_mut() {
            None => wanted,
            Some(remaining) => {
                let granted = wanted.min(*remaining);
                *remaining -= granted;
                granted
            }
        });
        granted.unwrap_or(wanted) as usize
    }

    fn with_open_turn<T>(&self, act: impl FnOnce(&mut OpenTurn, &mut DaySpend) -> T) -> Option<T> {
        let mut books = self.ledger.lock();
        let LedgerState { day, turns, .. } = &mut *books;
        turns.get_mut(&self.turn_number).map(|open| act(open, day))
    }
}

impl Drop for TurnBudget {
    // Estimates of calls in flight stay reserved for the day; see the drop of `Reservation`.
    fn drop(&mut self) {
        self.ledger.lock().turns.remove(&self.turn_number);
    }
}

impl Reservation {
    /// Returns whether the call still fits its limits, as far as this server knows. Calls that were in flight when it
    /// was admitted may have cost more than their estimates.
    pub(super) fn fits_limits(&self) -> bool {
        let mut books = self.ledger.lock();
        books.turn_to(current_day());
        let LedgerState { day, turns, .. } = &mut *books;
        let Some(open) = turns.get_mut(&self.turn_number) else {
            return false;
        };
        // Its own estimate must not count twice.
        self.release_amount(open, day);
        let fits = !open.stopped && budget::check_limits(&open.turn_spend, day, &self.call).is_none();
        self.hold_amount(open, day);
        fits
    }

    fn reserved_amount(&self) -> Cost {
        self.call.estimate.unwrap_or_default()
    }

    fn hold_amount(&self, open: &mut OpenTurn, day: &mut DaySpend) {
        open.turn_spend.reserved += self.reserved_amount();
        *day.reserved.entry(self.call.provider.clone()).or_default() += self.reserved_amount();
    }

    fn release_amount(&self, open: &mut OpenTurn, day: &mut DaySpend) {
        give_back(&mut open.turn_spend.reserved, self.reserved_amount());
        self.release_day(day);
    }

    fn release_day(&self, day: &mut DaySpend) {
        if let Some(reserved) = day.reserved.get_mut(&self.call.provider) {
            give_back(reserved, self.reserved_amount());
        }
    }
}

fn give_back(reserved: &mut Cost, amount: Cost) {
    reserved.0 = reserved.0.saturating_sub(amount.0);
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.ledger.lock();
        let LedgerState { day, turns, .. } = &mut *books;
        match turns.get_mut(&self.turn_number) {
            Some(open) => self.release_amount(open, day),
            // The turn may be gone before its last call; the day's share is released all the same.
            None => self.release_day(day),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Budgets;

    struct NoOtherSpend;

    impl DailySpendSource for NoOtherSpend {
        fn load_other_spend(&self, _day: i64) -> BoxFuture<'static, Option<SpendSheet>> {
            Box::pin(async { None })
        }
    }

    fn budget(ledger: &Arc<Ledger>, day: f64) -> TurnBudget {
        let budgets = Budgets {
            day: Some(Cost::from_usd(day)),
            ..Budgets::default()
        };
        let turn_spend = TurnSpend {
            budgets,
            ..TurnSpend::default()
        };
        ledger.open(turn_spend, Some(2))
    }

    fn call(estimate: f64) -> CallEstimate {
        CallEstimate {
            provider: "p".to_owned(),
            model: "p/m".to_owned(),
            estimate: Some(Cost::from_usd(estimate)),
        }
    }

    fn go(decision: BudgetDecision) -> Reservation {
        match decision {
            BudgetDecision::Go(reservation) => reservation,
            BudgetDecision::Reached(reached) => panic!("{}", reached.message),
            BudgetDecision::Stopped => panic!("stopped"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parallel_calls_share_the_remaining_budget() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let (one, two) = (budget(&ledger, 1.0), budget(&ledger, 1.0));
        let first = go(one.request_call(&call(0.6)).await);
        let BudgetDecision::Reached(reached) = two.request_call(&call(0.6)).await else {
            panic!("both are made");
        };
        assert_eq!(reached.message, "day cost $1.20 exceeds limit $1.00");
        // The call was cheaper than estimated, or never made.
        drop(first);
        drop(go(two.request_call(&call(0.6)).await));
        one.charge_cost("p", Cost::from_usd(0.5));
        assert!(matches!(
            two.request_call(&call(0.6)).await,
            BudgetDecision::Reached(_)
        ));
        ledger.raise_day(LimitName::DayCost, None, Cost::from_usd(0.2));
        go(two.request_call(&call(0.6)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_for_a_slot_is_checked_again() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let (one, two) = (budget(&ledger, 1.0), budget(&ledger, 1.0));
        let waiting = go(one.request_call(&call(0.4)).await);
        let flies = go(two.request_call(&call(0.4)).await);
        assert!(waiting.fits_limits());
        // The other call's output cost more than its estimate.
        two.charge_cost("p", Cost::from_usd(0.7));
        drop(flies);
        assert!(!waiting.fits_limits());
        drop(waiting);
        assert!(matches!(
            one.request_call(&call(0.4)).await,
            BudgetDecision::Reached(_)
        ));
        go(one.request_call(&call(0.3)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_survives_its_turn_and_a_stop_refuses_calls() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let one = budget(&ledger, 1.0);
        let reservation = go(one.request_call(&call(0.9)).await);
        drop(one);
        let two = budget(&ledger, 1.0);
        assert!(matches!(
            two.request_call(&call(0.9)).await,
            BudgetDecision::Reached(_)
        ));
        drop(reservation);
        go(two.request_call(&call(0.9)).await);
        two.stop();
        assert!(matches!(
            two.request_call(&call(0.0)).await,
            BudgetDecision::Stopped
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn tool_calls_are_taken_all_or_none() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let budget = budget(&ledger, 1.0);
        assert_eq!(budget.take_tool_calls(3), Err(2));
        assert_eq!(budget.take_tool_calls(1), Ok(()));
        assert_eq!(budget.take_tool_calls(2), Err(1));
        budget.raise_limit(LimitName::ToolCalls, 1);
        assert_eq!(budget.take_tool_calls(2), Ok(()));
        budget.raise_limit(LimitName::ToolCalls, 2);
        assert_eq!(budget.take_up_to(5), 2);
        assert_eq!(budget.take_up_to(5), 0);
    }
}
