//! Spending limits (R-BUDGET), pure: what is spent, what is in flight, what a call may add, and which limit that
//! breaks.
//!
//! No I/O, no clock, no lock: `ledger` owns the numbers and the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::{Cost, LimitName, LimitReached};

/// The percentage of a limit at which a warning is due (R-BUDGET).
const WARN_PERCENT: u128 = 80;

/// The spending limits of a turn, its session, and its day. `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    pub turn: Option<Cost>,
    pub session: Option<Cost>,
    /// Over all sessions and servers of the store.
    pub day: Option<Cost>,
    /// Per day at a provider, by its name.
    pub providers: Arc<BTreeMap<String, Cost>>,
}

impl Budgets {
    /// Returns whether a call to `provider` has any spending limit.
    pub fn has_money_limit(&self, provider: &str) -> bool {
        [self.turn, self.session].iter().any(Option::is_some) || self.limit_day(provider)
    }

    /// Returns whether a call to `provider` has a limit per day.
    pub fn limit_day(&self, provider: &str) -> bool {
        self.day.is_some() || self.providers.contains_key(provider)
    }
}

/// What a day has cost, and by how much its limits were raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendSheet {
    /// By provider.
    pub spent: BTreeMap<String, Cost>,
    /// By provider; the empty name is the limit over all providers.
    pub raised: BTreeMap<String, Cost>,
}

impl SpendSheet {
    fn spent_at(&self, provider: Option<&str>) -> Cost {
        match provider {
            Some(provider) => self.spent.get(provider).copied().unwrap_or_default(),
            None => self.spent.values().copied().sum(),
        }
    }

    fn raised_at(&self, provider: Option<&str>) -> Cost {
        let account = provider.unwrap_or_default();
        self.raised.get(account).copied().unwrap_or_default()
    }
}

/// The spending of a turn together with its sub-agents.
#[derive(Clone, Debug, Default)]
pub struct TurnSpend {
    pub budgets: Budgets,
    /// What the session has cost, as far as prices are known.
    pub session: Cost,
    pub turn: Cost,
    /// Estimates of its calls in flight.
    pub reserved: Cost,
    pub session_raised: Cost,
    pub turn_raised: Cost,
    /// Models that the turn may call although their price is unknown.
    pub unpriced: BTreeSet<String>,
}

/// The spending of a day over all sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct DaySpend {
    /// What this server has spent and raised.
    pub own: SpendSheet,
    /// What other servers have, and this one before its last start.
    pub others: SpendSheet,
    /// Estimates of calls in flight, by provider.
    pub reserved: BTreeMap<String, Cost>,
}

impl DaySpend {
    fn spent_cost(&self, provider: Option<&str>) -> Cost {
        self.own.spent_at(provider) + self.others.spent_at(provider)
    }

    fn raised_cost(&self, provider: Option<&str>) -> Cost {
        self.own.raised_at(provider) + self.others.raised_at(provider)
    }

    fn reserved_cost(&self, provider: Option<&str>) -> Cost {
        match provider {
            Some(provider) => self.reserved.get(provider).copied().unwrap_or_default(),
            None => self.reserved.values().copied().sum(),
        }
    }
}

/// A call that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallEstimate {
    pub provider: String,
    /// `provider/model`.
    pub model: String,
    /// The estimated cost of its input; `None` if the price is unknown.
    pub estimate: Option<Cost>,
}

/// One limit and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitStatus {
    limit: LimitName,
    spent: Cost,
    reserved: Cost,
    most: Cost,
}

impl LimitStatus {
    /// Returns whether `more` exceeds the limit.
    fn is_reached(&self, more: Cost) -> bool {
        self.spent + self.reserved + more > self.most
    }

    /// Returns whether spending `cost` crosses the warning mark.
    fn would_cross_warning(&self, cost: Cost) -> bool {
        // In 128 bits, because a cost in nano-dollars times 100 may overflow 64.
        let is_near_limit = |spent: Cost| u128::from(spent.0) * 100 >= u128::from(self.most.0) * WARN_PERCENT;
        cost > Cost(0) && !is_near_limit(self.spent) && is_near_limit(self.spent + cost)
    }
}

fn limit_statuses(turn_spend: &TurnSpend, day: &DaySpend, provider: &str) -> Vec<LimitStatus> {
    let budgets = &turn_spend.budgets;
    let at = |limit, most: Option<Cost>, raised, spent, reserved| {
        most.map(|most| LimitStatus {
            limit,
            spent,
            reserved,
            most: most + raised,
        })
    };
    // The order matters: the first limit that a call breaks is the one that the user is asked about.
    let one = Some(provider);
    [
        at(
            LimitName::TurnCost,
            budgets.turn,
            turn_spend.turn_raised,
            turn_spend.turn,
            turn_spend.reserved,
        ),
        at(
            LimitName::SessionCost,
            budgets.session,
            turn_spend.session_raised,
            turn_spend.session,
            turn_spend.reserved,
        ),
        at(
            LimitName::ProviderDayCost,
            budgets.providers.get(provider).copied(),
            day.raised_cost(one),
            day.spent_cost(one),
            day.reserved_cost(one),
        ),
        at(
            LimitName::DayCost,
            budgets.day,
            day.raised_cost(None),
            day.spent_cost(None),
            day.reserved_cost(None),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the first limit that a call would break, or `None` if the call may be made.
pub(super) fn check_limits(
    turn_spend: &TurnSpend,
    day: &DaySpend,
    call: &CallEstimate,
) -> Option<LimitReached> {
    if !turn_spend.budgets.has_money_limit(&call.provider) {
        return None;
    }
    let reached = |limit, used: Cost, most: Cost, message| LimitReached {
        limit,
        used: used.0,
        most: most.0,
        provider: Some(call.provider.clone()),
        model: Some(call.model.clone()),
        message,
    };
    // Spending limits cannot cover a call without a price, so the user is asked about that first.
    if call.estimate.is_none() && !turn_spend.unpriced.contains(&call.model) {
        let message = unknown_price(&call.model);
        return Some(reached(LimitName::UnknownPrice, Cost(0), Cost(0), message));
    }
    let more = call.estimate.unwrap_or_default();
    let standings = limit_statuses(turn_spend, day, &call.provider);
    let first = standings.into_iter().find(|status| status.is_reached(more))?;
    let used = first.spent + first.reserved + more;
    let message = format_limit_exceeded(first.limit, &call.provider, used, first.most);
    Some(reached(first.limit, used, first.most, message))
}

/// Returns the limits that `cost` takes over their warning mark. Each limit warns only once, when it is crossed.
pub(super) fn collect_budget_warnings(
    turn_spend: &TurnSpend,
    day: &DaySpend,
    provider: &str,
    cost: Cost,
) -> Vec<BudgetWarning> {
    limit_statuses(turn_spend, day, provider)
        .into_iter()
        .filter(|status| status.would_cross_warning(cost))
        .map(|status| BudgetWarning {
            limit: status.limit,
            spent: status.spent + cost,
            most: status.most,
        })
        .collect()
}

/// A limit that is nearly used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BudgetWarning {
    pub limit: LimitName,
    pub spent: Cost,
    pub most: Cost,
}

impl BudgetWarning {
    /// Returns the warning for people.
    pub(super) fn to_message(self, provider: &str) -> String {
        let subject = describe_limit_subject(self.limit, provider);
        let (spent, most) = format_amounts(self.spent, self.most);
        format!("{subject} is {spent} of the limit of {most}")
    }
}

/// Returns what an unknown price means for spending limits, for people.
pub(super) fn unknown_price(model: &str) -> String {
    format!("the price of {model} is unknown, so spending limits cannot cover it")
}

fn format_limit_exceeded(limit: LimitName, provider: &str, used: Cost, most: Cost) -> String {
    let subject = describe_limit_subject(limit, provider);
    let (used, most) = format_amounts(used, most);
    format!("{subject} {used} exceeds limit {most}")
}

fn describe_limit_subject(limit: LimitName, provider: &str) -> String {
    match limit {
        LimitName::ProviderDayCost => format!("day cost at {provider}"),
        other => other.display_name().to_owned(),
    }
}

/// Formats two amounts in cents, or with as many digits as it takes to tell them apart.
fn format_amounts(used: Cost, most: Cost) -> (String, String) {
    let in_digits = |digits: usize| {
        let show = |cost: Cost| format!("${:.digits$}", cost.to_usd());
        (show(used), show(most))
    };
    (2..=9)
        .map(in_digits)
        .find(|(used, most)| used != most)
        .unwrap_or_else(|| in_digits(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(amount: f64) -> Cost {
        Cost::from_usd(amount)
    }

    fn call(estimate: Option<f64>) -> CallEstimate {
        CallEstimate {
            provider: "p".to_owned(),
            model: "p/m".to_owned(),
            estimate: estimate.map(usd),
        }
    }

    fn build_turn_spend(budgets: Budgets) -> TurnSpend {
        TurnSpend {
            budgets,
            session: usd(4.0),
            turn: usd(1.0),
            ..TurnSpend::default()
        }
    }

    fn day(own: f64, others: f64, reserved: f64) -> DaySpend {
        let sheet = |amount| SpendSheet {
            spent: BTreeMap::from([("p".to_owned(), usd(amount)), ("q".to_owned(), usd(1.0))]),
            raised: BTreeMap::new(),
        };
        DaySpend {
            own: sheet(own),
            others: sheet(others),
            reserved: BTreeMap::from([("p".to_owned(), usd(reserved))]),
        }
    }

    fn session(most: f64) -> Budgets {
        Budgets {
            session: Some(usd(most)),
            ..Budgets::default()
        }
    }

    #[test]
    fn spending_plus_the_estimate_must_fit_the_limit() {
        let limit_message = |turn_spend: &TurnSpend, call: &CallEstimate| {
            check_limits(turn_spend, &DaySpend::default(), call).map(|r| r.message)
        };
        let mut five = build_turn_spend(session(5.0));
        assert_eq!(limit_message(&five, &call(Some(1.0))), None);
        assert_eq!(
            limit_message(&five, &call(Some(1.12))).unwrap(),
            "session cost $5.12 exceeds limit $5.00"
        );
        // Calls in flight count.
        five.reserved = usd(0.5);
        assert_eq!(
            limit_message(&five, &call(Some(0.6))).unwrap(),
            "session cost $5.10 exceeds limit $5.00"
        );
        five.session_raised = usd(0.1);
        assert_eq!(limit_message(&five, &call(Some(0.6))), None);
        // An overrun of less than a cent is shown with enough digits.
        assert_eq!(
            limit_message(&build_turn_spend(session(4.001)), &call(Some(0.0014))).unwrap(),
            "session cost $4.0014 exceeds limit $4.0010"
        );
        assert_eq!(
            limit_message(&build_turn_spend(Budgets::default()), &call(Some(1e6))),
            None
        );
        assert!(limit_message(&build_turn_spend(session(0.0)), &call(Some(0.0))).is_some());
    }

    #[test]
    fn a_day_limit_covers_all_servers_and_providers() {
        let budgets = Budgets {
            day: Some(usd(10.0)),
            providers: Arc::new(BTreeMap::from([("p".to_owned(), usd(5.0))])),
            ..Budgets::default()
        };
        let reached =
            |day: &DaySpend, more| check_limits(&build_turn_spend(budgets.clone()), day, &call(Some(more)));
        assert_eq!(reached(&day(1.0, 2.0, 1.0), 1.0), None);
        let at_p = reached(&day(1.0, 2.0, 1.0), 1.5).unwrap();
        assert_eq!(at_p.limit, LimitName::ProviderDayCost);
        assert_eq!(at_p.message, "day cost at p $5.50 exceeds limit $5.00");
        let only_day = Budgets {
            providers: Arc::default(),
            ..budgets
        };
        let all = check_limits(&build_turn_spend(only_day), &day(4.0, 4.0, 0.5), &call(Some(0.0))).unwrap();
        assert_eq!(all.message, "day cost $10.50 exceeds limit $10.00");
        assert_eq!((all.used, all.most), (10_500_000_000, 10_000_000_000));
    }

    #[test]
    fn an_unknown_price_is_reported_first_and_only_once() {
        let mut turn_spend = build_turn_spend(session(5.0));
        let reached = check_limits(&turn_spend, &DaySpend::default(), &call(None)).unwrap();
        assert_eq!(reached.limit, LimitName::UnknownPrice);
        turn_spend.unpriced.insert("p/m".to_owned());
        assert_eq!(check_limits(&turn_spend, &DaySpend::default(), &call(None)), None);
        // Known spending still counts.
        turn_spend.session = usd(6.0);
        assert!(check_limits(&turn_spend, &DaySpend::default(), &call(None)).is_some());
    }

    #[test]
    fn warnings_are_due_when_80_percent_are_crossed() {
        let turn_spend = build_turn_spend(session(5.0));
        let warnings = |turn_spend: &TurnSpend, cost| {
            collect_budget_warnings(turn_spend, &DaySpend::default(), "p", usd(cost))
        };
        // 4.0 of 5.0 are already 80 %.
        assert!(warnings(&turn_spend, 0.5).is_empty());
        let below = TurnSpend {
            session: usd(3.9),
            ..turn_spend
        };
        assert!(warnings(&below, 0.05).is_empty());
        let crossed = warnings(&below, 0.1);
        assert_eq!(crossed.len(), 1);
        assert_eq!(
            crossed[0].to_message("p"),
            "session cost is $4.00 of the limit of $5.00"
        );
        assert_eq!(
            warnings(&below, 9.0).len(),
            1,
            "also when it goes beyond the limit"
        );
    }
}
