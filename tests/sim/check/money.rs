//! I14: no call is made beyond a limit. What is shown as spent when a provider is asked fits the limits with all that
//! people raised them by; so a limit is passed by no more than the calls in flight bring.

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

/// What is spent this soon after midnight is counted for no day: it was booked before it was shown.
const DUSK_MS: i64 = 600_000;

/// What was spent, as it was shown.
pub(super) struct MoneyChecker {
    budgets: Budgets,
    max_tool_calls: Option<u32>,
    days: BTreeMap<i64, MoneySpent>,
    /// By how much people have raised limits, as they sent it: the turn may go on before it is shown.
    raised: BTreeMap<(LimitName, Option<SessionId>), Cost>,
    /// What the calls on their way will cost at least, by provider; where prices are known.
    flights: BTreeMap<String, Cost>,
    priced: bool,
    /// The store has lost something: what it counts is less than what was shown.
    lost: bool,
}

#[derive(Clone, Copy, Default)]
struct MoneySpent {
    cost: Cost,
    /// At the provider that has a limit of its own.
    there: Cost,
}

impl MoneyChecker {
    pub(super) fn new(budgets: Budgets, max_tool_calls: Option<u32>, priced: bool) -> Self {
        Self {
            flights: BTreeMap::new(),
            priced,
            budgets,
            max_tool_calls,
            days: BTreeMap::new(),
            raised: BTreeMap::new(),
            lost: false,
        }
    }

    /// Events were lost, as the store said.
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

    /// What a call will cost at least: its messages.
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
    /// Takes in what an event says of money and of the turn's limits.
    pub(super) fn check_spending(&mut self, session: &SessionId, stored: &StoredEvent) -> Result<(), String> {
        if let Event::Usage {
            step_cost: Some(cost),
            provider,
            ..
        } = &stored.event
            && stored.at_ms.rem_euclid(86_400_000) > DUSK_MS
        {
            let of_limit = |provider: &String| self.money.budgets.providers.contains_key(provider);
            let there = provider.as_ref().is_some_and(of_limit);
            let day = self.money.days.entry(day_of(stored.at_ms)).or_default();
            day.cost += *cost;
            if there {
                day.there += *cost;
            }
        }
        let max_tool_calls = self.money.max_tool_calls;
        let Some(seen) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let turn = stored.turn.as_ref().and_then(|turn| seen.turns.get_mut(turn));
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
                // A sub-agent's steps are its own.
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
            // Those that an earlier turn has announced were counted there.
            Event::ToolCall(update)
                if update.status == ToolCallStatus::Running && turn.announced.contains(&update.id) =>
            {
                turn.ran += 1;
                let most = max_tool_calls.map(|most| u64::from(most) + turn.more_calls);
                if most.is_some_and(|most| turn.ran > most) {
                    return Err(format!("{} tool calls run of {most:?}", turn.ran));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A provider is asked.
    pub(super) fn takes_off(&mut self, provider: &str, about: Cost) {
        *self.money.flights.entry(provider.to_owned()).or_default() += about;
    }

    /// A call has come to its end, whichever.
    pub(crate) fn settle_call(&mut self, provider: &str, about: Cost) {
        if let Some(held) = self.money.flights.get_mut(provider) {
            held.0 = held.0.saturating_sub(about.0);
        }
    }

    /// Whether a request is the first of a turn after this one, whose end is not shown yet: it says what nobody has said in
    /// this one.
    fn begins_another(&self, request: &ModelRequest, turn: &TurnId) -> bool {
        let said = request
            .messages
            .last()
            .and_then(|item| label_of(&item.message.content));
        let typed = said.and_then(|label| self.typed.get(&label));
        typed.is_some_and(|typed| typed.kind != TypedKind::Steer && typed.joined.as_ref() != Some(turn))
    }

    /// A provider is asked: all that is shown as spent, what is on its way and what the call costs at least fit.
    pub(super) fn may_spend(
        &self,
        session: &SessionId,
        provider: &str,
        (request, about): (&ModelRequest, Cost),
    ) -> Result<(), String> {
        let Some(seen) = self.sessions.get(session) else {
            return Ok(());
        };
        let over = |what: &str, spent: Cost, most: Option<Cost>, raised: Cost| match most {
            Some(most) if spent > most + raised => Err(format!(
                "I14: {session} asks though {what} is {} of {}, raised by {}",
                spent.0, most.0, raised.0
            )),
            Some(_) | None => Ok(()),
        };
        let budgets = &self.money.budgets;
        let raised = |limit, session| self.money.raised_amount(limit, session);
        if !seen.torn {
            over(
                "the session",
                seen.fold.spending.known_cost + about,
                budgets.session,
                raised(LimitName::SessionCost, Some(session)),
            )?;
            if let Some(turn) = seen.fold.turns.open_turn.as_ref()
                && !self.begins_another(request, turn)
                && let Some(turn) = seen.turns.get(turn)
            {
                over(
                    "the turn",
                    turn.cost + about,
                    budgets.turn,
                    raised(LimitName::TurnCost, Some(session)),
                )?;
            }
        }
        let today = self.money.days.get(&day_of(clock::wall_ms()));
        if let Some(today) = today.filter(|_| !self.money.lost) {
            over(
                "the day",
                today.cost + about + self.money.flights.values().copied().sum(),
                budgets.day,
                raised(LimitName::DayCost, None),
            )?;
            let on_way = self.money.flights.get(provider).copied().unwrap_or_default();
            let there = budgets.providers.get(provider).copied();
            over(
                "the provider's day",
                today.there + about + on_way,
                there,
                raised(LimitName::ProviderDayCost, None),
            )?;
        }
        Ok(())
    }
}
