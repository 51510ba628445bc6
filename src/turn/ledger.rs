//! The one ledger of a server: what turns have spent today and what their calls may come to, under one lock, so that
//! calls that begin at once cannot each take the last of a budget (I14). Judging is `budget`'s.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::budget::{self, BudgetWarning, CallEstimate, DaySpend, SpendSheet, TurnSpend};
use crate::base::clock;
use crate::domain::{Cost, LimitName, LimitReached};

/// Milliseconds of a day. Days are UTC's: several servers, and the one store, must mean the same.
const DAY_MS: i64 = 86_400_000;

/// What the store knows of a day.
pub trait DailySpendSource: Send + Sync {
    /// What was spent and raised by others than this server; none when it cannot be read now.
    fn load_other_spend(&self, day: i64) -> BoxFuture<'static, Option<SpendSheet>>;
}

/// The ledger of a server.
pub struct Ledger {
    days: Arc<dyn DailySpendSource>,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// The day that `day` is of, since the epoch.
    number: i64,
    day: DaySpend,
    /// What this server spent on other days: a clock that is set back finds it again.
    past: BTreeMap<i64, SpendSheet>,
    trees: BTreeMap<u64, OpenTurn>,
    opened: u64,
}

/// An open tree, and what its turn may do beside money.
struct OpenTurn {
    tree: TurnSpend,
    /// Tool calls that it may still make.
    tool_calls: Option<u32>,
    /// The person said stop.
    stopped: bool,
}

/// A turn's way to the ledger; its tree is closed when it goes. Sub-agents share their parent's.
pub struct TurnBudget {
    ledger: Arc<Ledger>,
    tree: u64,
    /// Held by whoever asks a person about a limit.
    asking: tokio::sync::Mutex<()>,
    /// Sub-agents that were started.
    subagents: AtomicU32,
}

/// What a planned call may do.
pub(super) enum BudgetDecision {
    /// It is made, and holds its estimate as long as this lives.
    Go(Reservation),
    /// A limit stands in the way.
    Reached(Box<LimitReached>),
    /// The person has said stop.
    Stopped,
}

/// The estimate of a call on its way; given back when it goes, however the call ends.
pub(super) struct Reservation {
    ledger: Arc<Ledger>,
    tree: u64,
    call: CallEstimate,
}

impl Ledger {
    /// A ledger that knows of others what `days` tells.
    pub fn new(days: Arc<dyn DailySpendSource>) -> Arc<Self> {
        Arc::new(Self {
            days,
            books: Mutex::default(),
        })
    }

    /// Opens a turn's tree.
    pub fn open(self: &Arc<Self>, tree: TurnSpend, tool_calls: Option<u32>) -> TurnBudget {
        let mut books = self.lock();
        books.opened += 1;
        let number = books.opened;
        let open = OpenTurn {
            tree,
            tool_calls,
            stopped: false,
        };
        books.trees.insert(number, open);
        TurnBudget {
            ledger: self.clone(),
            tree: number,
            asking: tokio::sync::Mutex::default(),
            subagents: AtomicU32::new(0),
        }
    }

    /// The person has raised a limit of the day.
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

    fn lock(&self) -> MutexGuard<'_, Books> {
        // Whole after every statement: a panic elsewhere does not spoil it.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a day.
pub fn day_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

fn current_day() -> i64 {
    day_of(clock::wall_ms())
}

impl Books {
    /// A new day begins with nothing spent; what is on its way is not forgotten.
    fn turn_to(&mut self, day: i64) {
        if self.number != day {
            let again = self.past.remove(&day).unwrap_or_default();
            let own = std::mem::replace(&mut self.day.own, again);
            self.past.insert(self.number, own);
            if self.past.len() > 3 {
                self.past.pop_first();
            }
            self.number = day;
            self.day.others = SpendSheet::default();
        }
    }
}

impl TurnBudget {
    /// Asks for leave to make a call; where a limit of the day holds, what other servers spent is looked up first.
    pub(super) async fn request_call(&self, call: &CallEstimate) -> BudgetDecision {
        let day = current_day();
        let of_day = self.with_open_turn(|open, _| open.tree.budgets.limit_day(&call.provider));
        let others = match of_day {
            Some(true) => self.ledger.days.load_other_spend(day).await,
            Some(false) | None => None,
        };
        let mut books = self.ledger.lock();
        books.turn_to(day);
        if let Some(others) = others {
            books.day.others = others;
        }
        let Books { day, trees, .. } = &mut *books;
        let Some(open) = trees.get_mut(&self.tree) else {
            return BudgetDecision::Stopped;
        };
        if open.stopped {
            return BudgetDecision::Stopped;
        }
        if let Some(reached) = budget::check_limits(&open.tree, day, call) {
            return BudgetDecision::Reached(Box::new(reached));
        }
        let reservation = Reservation {
            ledger: self.ledger.clone(),
            tree: self.tree,
            call: call.clone(),
        };
        reservation.hold_amount(open, day);
        drop(books);
        BudgetDecision::Go(reservation)
    }

    /// Counts a sub-agent that is about to start; how many that makes, in all depths together.
    pub fn count_subagent(&self) -> u32 {
        self.subagents.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// The right to ask a person about a limit.
    pub(super) async fn lock_limit_prompt(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.asking.lock().await
    }

    /// Whether a call to `provider` has a limit in money at all.
    pub(super) fn has_money_limit(&self, provider: &str) -> bool {
        self.with_open_turn(|open, _| open.tree.budgets.has_money_limit(provider))
            .unwrap_or_default()
    }

    /// A call has cost so much; the limits that this brings near.
    pub(super) fn charge_cost(&self, provider: &str, cost: Cost) -> Vec<BudgetWarning> {
        let mut books = self.ledger.lock();
        books.turn_to(current_day());
        let Books { day, trees, .. } = &mut *books;
        let mut told = Vec::new();
        if let Some(open) = trees.get_mut(&self.tree) {
            told = budget::collect_budget_warnings(&open.tree, day, provider, cost);
            open.tree.session += cost;
            open.tree.turn += cost;
        }
        *day.own.spent.entry(provider.to_owned()).or_default() += cost;
        told
    }

    /// The person has raised a limit of the turn or the session; those of the day are the actor's to note.
    pub(super) fn raise_limit(&self, limit: LimitName, by: u64) {
        self.with_open_turn(|open, _| match limit {
            LimitName::TurnCost => open.tree.turn_raised += Cost(by),
            LimitName::SessionCost => open.tree.session_raised += Cost(by),
            LimitName::ToolCalls => {
                if let Some(left) = open.tool_calls.as_mut() {
                    *left = left.saturating_add(u32::try_from(by).unwrap_or(u32::MAX));
                }
            }
            LimitName::Steps
            | LimitName::DayCost
            | LimitName::ProviderDayCost
            | LimitName::WallTime
            | LimitName::UnknownPrice => {}
        });
    }

    /// The model is asked although nobody knows what it costs.
    pub(super) fn accept_unknown_price(&self, model: &str) {
        self.with_open_turn(|open, _| open.tree.unpriced.insert(model.to_owned()));
    }

    /// The person has said stop: no call is made any more.
    pub(super) fn stop(&self) {
        self.with_open_turn(|open, _| open.stopped = true);
    }

    /// Takes so many tool calls; if there are fewer left, none, and how many there are.
    pub(super) fn take_tool_calls(&self, count: usize) -> Result<(), usize> {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        let taken = self.with_open_turn(|open, _| match open.tool_calls.as_mut() {
            None => Ok(()),
            Some(left) if *left >= wanted => {
                *left -= wanted;
                Ok(())
            }
            Some(left) => Err(*left as usize),
        });
        taken.unwrap_or(Ok(()))
    }

    /// Takes so many tool calls, or as many as are left; how many.
    pub(super) fn take_what_is_left(&self, count: usize) -> usize {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        let taken = self.with_open_turn(|open, _| match open.tool_calls.as_mut() {
            None => wanted,
            Some(left) => {
                let taken = wanted.min(*left);
                *left -= taken;
                taken
            }
        });
        taken.unwrap_or(wanted) as usize
    }

    fn with_open_turn<T>(&self, act: impl FnOnce(&mut OpenTurn, &mut DaySpend) -> T) -> Option<T> {
        let mut books = self.ledger.lock();
        let Books { day, trees, .. } = &mut *books;
        trees.get_mut(&self.tree).map(|open| act(open, day))
    }
}

impl Drop for TurnBudget {
    fn drop(&mut self) {
        self.ledger.lock().trees.remove(&self.tree);
    }
}

impl Reservation {
    /// Whether the call still fits its limits, as far as this server knows: calls that were under way when it was
    /// admitted may have cost more than their estimates.
    pub(super) fn fits_limits(&self) -> bool {
        let mut books = self.ledger.lock();
        books.turn_to(current_day());
        let Books { day, trees, .. } = &mut *books;
        let Some(open) = trees.get_mut(&self.tree) else {
            return false;
        };
        self.release_amount(open, day);
        let fits = !open.stopped && budget::check_limits(&open.tree, day, &self.call).is_none();
        self.hold_amount(open, day);
        fits
    }

    fn reserved_amount(&self) -> Cost {
        self.call.estimate.unwrap_or_default()
    }

    fn hold_amount(&self, open: &mut OpenTurn, day: &mut DaySpend) {
        open.tree.reserved += self.reserved_amount();
        *day.reserved.entry(self.call.provider.clone()).or_default() += self.reserved_amount();
    }

    fn release_amount(&self, open: &mut OpenTurn, day: &mut DaySpend) {
        give_back(&mut open.tree.reserved, self.reserved_amount());
        self.release_day(day);
    }

    fn release_day(&self, day: &mut DaySpend) {
        if let Some(held) = day.reserved.get_mut(&self.call.provider) {
            give_back(held, self.reserved_amount());
        }
    }
}

fn give_back(held: &mut Cost, amount: Cost) {
    held.0 = held.0.saturating_sub(amount.0);
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.ledger.lock();
        let Books { day, trees, .. } = &mut *books;
        match trees.get_mut(&self.tree) {
            Some(open) => self.release_amount(open, day),
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
        let tree = TurnSpend {
            budgets,
            ..TurnSpend::default()
        };
        ledger.open(tree, Some(2))
    }

    fn call(estimate: f64) -> CallEstimate {
        CallEstimate {
            provider: "p".to_owned(),
            model: "p/m".to_owned(),
            estimate: Some(Cost::from_usd(estimate)),
        }
    }

    fn go(leave: BudgetDecision) -> Reservation {
        match leave {
            BudgetDecision::Go(reservation) => reservation,
            BudgetDecision::Reached(reached) => panic!("{}", reached.message),
            BudgetDecision::Stopped => panic!("stopped"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_at_once_share_what_is_left() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let (one, two) = (budget(&ledger, 1.0), budget(&ledger, 1.0));
        let first = go(one.request_call(&call(0.6)).await);
        let BudgetDecision::Reached(reached) = two.request_call(&call(0.6)).await else {
            panic!("both are made");
        };
        assert_eq!(reached.message, "day cost $1.20 exceeds limit $1.00");
        // The call was cheaper than it could have been, or never made.
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
    async fn a_call_that_waited_for_its_place_is_judged_again() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let (one, two) = (budget(&ledger, 1.0), budget(&ledger, 1.0));
        let waits = go(one.request_call(&call(0.4)).await);
        let flies = go(two.request_call(&call(0.4)).await);
        assert!(waits.fits_limits());
        // The other's output cost more than anyone could know.
        two.charge_cost("p", Cost::from_usd(0.7));
        drop(flies);
        assert!(!waits.fits_limits());
        drop(waits);
        assert!(matches!(
            one.request_call(&call(0.4)).await,
            BudgetDecision::Reached(_)
        ));
        go(one.request_call(&call(0.3)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_outlives_no_turn_and_a_stop_is_a_stop() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let one = budget(&ledger, 1.0);
        let held = go(one.request_call(&call(0.9)).await);
        drop(one);
        let two = budget(&ledger, 1.0);
        assert!(matches!(
            two.request_call(&call(0.9)).await,
            BudgetDecision::Reached(_)
        ));
        drop(held);
        go(two.request_call(&call(0.9)).await);
        two.stop();
        assert!(matches!(
            two.request_call(&call(0.0)).await,
            BudgetDecision::Stopped
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn tool_calls_are_taken_whole() {
        let ledger = Ledger::new(Arc::new(NoOtherSpend));
        let budget = budget(&ledger, 1.0);
        assert_eq!(budget.take_tool_calls(3), Err(2));
        assert_eq!(budget.take_tool_calls(1), Ok(()));
        assert_eq!(budget.take_tool_calls(2), Err(1));
        budget.raise_limit(LimitName::ToolCalls, 1);
        assert_eq!(budget.take_tool_calls(2), Ok(()));
        budget.raise_limit(LimitName::ToolCalls, 2);
        assert_eq!(budget.take_what_is_left(5), 2);
        assert_eq!(budget.take_what_is_left(5), 0);
    }
}
