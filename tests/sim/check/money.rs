//! I14: no call goes beyond a limit. When the server calls a provider, the spending shown so far fits every
//! limit, including the amounts by which users raised it. So only calls in flight can take the total past a
//! limit.

use std::collections::BTreeMap;

use super::Checker;
use super::typed::{TypedKind, label_of};
use crate::model::PRICE;
use agentls::base::clock;
use agentls::context::estimate_message_tokens;
use agentls::domain::{
    Cost, Event, Inquiry, InquiryReply, LimitName, RequestSubject, SessionId, ToolCallStatus, TurnId, Usage,
};
use agentls::provider::ModelRequest;
use agentls::store::StoredEvent;
use agentls::turn::{Budgets, day_of};

/// The check ignores spending this soon after midnight: the server may have booked it on the previous day.
const MIDNIGHT_GRACE_MS: i64 = 600_000;

/// The spending that events report, and the limits on it.
pub(super) struct MoneyChecker {
    budgets: Budgets,
    max_tool_calls: Option<u32>,
    days: BTreeMap<i64, MoneySpent>,
    /// By how much users raised each limit, counted once sent: the turn may continue before the event
    /// appears.
    raised: BTreeMap<(LimitName, Option<SessionId>), Cost>,
    /// The minimum cost of the calls in flight, by provider; zero if prices are unknown.
    in_flight: BTreeMap<String, Cost>,
    priced: bool,
    /// The store lost records, so its own totals are lower than the spending that was shown.
    lost: bool,
}

#[derive(Clone, Copy, Default)]
struct MoneySpent {
    cost: Cost,
    /// The part spent at the provider that has its own limit.
    provider_cost: Cost,
}

impl MoneyChecker {
    pub(super) fn new(budgets: Budgets, max_tool_calls: Option<u32>, priced: bool) -> Self {
        Self {
            in_flight: BTreeMap::new(),
            priced,
            budgets,
            max_tool_calls,
            days: BTreeMap::new(),
            raised: BTreeMap::new(),
            lost: false,
        }
    }

    /// The store reported lost events.
    pub(super) fn note_lost_events(&mut self) {
        self.lost = true;
    }

    /// A user raises a limit.
    pub(super) fn record_raise(&mut self, session: &SessionId, inquiry: &Inquiry, reply: &InquiryReply) {
        let (RequestSubject::Limit(reached), InquiryReply::Raise(by)) = (&inquiry.subject, reply) else {
            return;
        };
        let session = match reached.limit {
            LimitName::TurnCost | LimitName::SessionCost => Some(session.clone()),
            LimitName::DayCost | LimitName::ProviderDayCost => None,
            _ => return,
        };
        *self.raised.entry((reached.limit, session)).or_default() += Cost(*by);
    }

    /// The minimum cost of a call: the cost of its messages.
    pub(super) fn least_cost(&self, request: &ModelRequest) -> Cost {
        let input = request
            .messages
            .iter()
            .map(|item| item.estimated_tokens(estimate_message_tokens))
            .sum();
        let usage = Usage {
            input,
            ..Usage::default()
        };
        if self.priced {
            PRICE.calculate_cost(&usage)
        } else {
            Cost(0)
        }
    }

    fn raised_amount(&self, limit: LimitName, session: Option<&SessionId>) -> Cost {
        let raised = self.raised.get(&(limit, session.cloned()));
        raised.copied().unwrap_or_default()
    }
}

impl Checker {
    /// Records what an event reports about spending and about the turn's limits.
    pub(super) fn check_spending(&mut self, session: &SessionId, stored: &StoredEvent) -> Result<(), String> {
        if let Event::Usage {
            step_cost: Some(cost),
            provider,
            ..
        } = &stored.event
            && stored.at_ms.rem_euclid(86_400_000) > MIDNIGHT_GRACE_MS
        {
            let has_limit = |provider: &String| self.money.budgets.providers.contains_key(provider);
            let has_provider_limit = provider.as_ref().is_some_and(has_limit);
            let day = self.money.days.entry(day_of(stored.at_ms)).or_default();
            day.cost += *cost;
            if has_provider_limit {
                day.provider_cost += *cost;
            }
        }
        let max_tool_calls = self.money.max_tool_calls;
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let turn = stored
            .turn
            .as_ref()
            .and_then(|turn| shown_session.turns.get_mut(turn));
        let Some(turn) = turn else { return Ok(()) };
        match &stored.event {
            Event::Usage {
                step_cost: Some(cost),
                ..
            } => turn.cost += *cost,
            Event::InquiryResolved {
                inquiry,
                reply: InquiryReply::Raise(by),
                ..
            } => match &inquiry.subject {
                RequestSubject::Limit(reached) if reached.limit == LimitName::ToolCalls => {
                    turn.more_calls += by
                }
                // A sub-agent's steps count toward its own limit.
                RequestSubject::Limit(reached)
                    if reached.limit == LimitName::Steps && inquiry.parent.is_none() =>
                {
                    turn.more_steps += by;
                }
                RequestSubject::Limit(_) | RequestSubject::Question(_) => {}
            },
            Event::ToolCall(update) if update.status == ToolCallStatus::Pending => {
                turn.announced.insert(update.id.clone());
            }
            // An earlier turn may have announced the call; that turn counted it.
            Event::ToolCall(update)
                if update.status == ToolCallStatus::Running && turn.announced.contains(&update.id) =>
            {
                turn.run_count += 1;
                let limit = max_tool_calls.map(|limit| u64::from(limit) + turn.more_calls);
                if limit.is_some_and(|limit| turn.run_count > limit) {
                    return Err(format!(
                        "{} tool calls ran; the limit is {limit:?}",
                        turn.run_count
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The server calls a provider.
    pub(super) fn takes_off(&mut self, provider: &str, about: Cost) {
        *self.money.in_flight.entry(provider.to_owned()).or_default() += about;
    }

    /// A call has ended, in whatever way.
    pub(crate) fn settle_call(&mut self, provider: &str, about: Cost) {
        if let Some(in_flight) = self.money.in_flight.get_mut(provider) {
            in_flight.0 = in_flight.0.saturating_sub(about.0);
        }
    }

    /// Whether a request is the first of the next turn, before the end of this one is shown. Such a request
    /// ends with user input that did not join this turn.
    fn begins_another(&self, request: &ModelRequest, turn: &TurnId) -> bool {
        let last_label = request
            .messages
            .last()
            .and_then(|item| label_of(&item.message.content));
        let typed = last_label.and_then(|label| self.typed.get(&label));
        typed.is_some_and(|typed| typed.kind != TypedKind::Steer && typed.joined.as_ref() != Some(turn))
    }

    /// The server calls a provider: the limits cover the spending shown, the calls in flight and this call's
    /// minimum cost.
    pub(super) fn may_spend(
        &self,
        session: &SessionId,
        provider: &str,
        (request, about): (&ModelRequest, Cost),
    ) -> Result<(), String> {
        let Some(shown_session) = self.sessions.get(session) else {
            return Ok(());
        };
        let check_limit = |scope: &str, spent: Cost, limit: Option<Cost>, raised: Cost| match limit {
            Some(limit) if spent > limit + raised => Err(format!(
                "I14: {session} raises the cost of {scope} to {}; the limit is {}, raised by {}",
                spent.0, limit.0, raised.0
            )),
            Some(_) | None => Ok(()),
        };
        let budgets = &self.money.budgets;
        let raised = |limit, session| self.money.raised_amount(limit, session);
        if !shown_session.is_cut_off {
            check_limit(
                "the session",
                shown_session.fold.spending.known_cost + about,
                budgets.session,
                raised(LimitName::SessionCost, Some(session)),
            )?;
            if let Some(turn) = shown_session.fold.turns.open_turn.as_ref()
                && !self.begins_another(request, turn)
                && let Some(turn) = shown_session.turns.get(turn)
            {
                check_limit(
                    "the turn",
                    turn.cost + about,
                    budgets.turn,
                    raised(LimitName::TurnCost, Some(session)),
                )?;
            }
        }
        let today = self.money.days.get(&day_of(clock::wall_ms()));
        if let Some(today) = today.filter(|_| !self.money.lost) {
            check_limit(
                "the day",
                today.cost + about + self.money.in_flight.values().copied().sum(),
                budgets.day,
                raised(LimitName::DayCost, None),
            )?;
            let provider_in_flight = self.money.in_flight.get(provider).copied().unwrap_or_default();
            let provider_limit = budgets.providers.get(provider).copied();
            check_limit(
                "the provider's day",
                today.provider_cost + about + provider_in_flight,
                provider_limit,
                raised(LimitName::ProviderDayCost, None),
            )?;
        }
        Ok(())
    }
}
