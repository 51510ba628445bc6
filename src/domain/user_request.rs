//! Inquiries: what a person is asked that is not about one effect. A limit that was reached, or a question of the
//! agent. Asked only where the client announced `questions` (R-BUDGET).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::ids::{InquiryId, ToolCallId, TurnId};
use super::usage::Cost;

/// The limits of R-BUDGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitName {
    /// Steps of a turn.
    Steps,
    /// Tool calls of a turn.
    ToolCalls,
    /// Money of a turn.
    TurnCost,
    /// Money of a session.
    SessionCost,
    /// Money of a day, over all sessions.
    DayCost,
    /// Money of a day at one provider.
    ProviderDayCost,
    /// Seconds of a turn.
    WallTime,
    /// A limit in money meets a model whose price nobody knows.
    UnknownPrice,
}

impl LimitName {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Steps,
        Self::ToolCalls,
        Self::TurnCost,
        Self::SessionCost,
        Self::DayCost,
        Self::ProviderDayCost,
        Self::WallTime,
        Self::UnknownPrice,
    ];

    /// Its name in protocol and configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "max_steps",
            Self::ToolCalls => "max_tool_calls",
            Self::TurnCost => "max_turn_cost",
            Self::SessionCost => "max_session_cost",
            Self::DayCost => "max_day_cost",
            Self::ProviderDayCost => "max_provider_day_cost",
            Self::WallTime => "max_wall_time_s",
            Self::UnknownPrice => "unknown_price",
        }
    }

    /// The limit of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether its amounts are money.
    pub fn is_money(self) -> bool {
        match self {
            Self::TurnCost | Self::SessionCost | Self::DayCost | Self::ProviderDayCost => true,
            Self::Steps | Self::ToolCalls | Self::WallTime | Self::UnknownPrice => false,
        }
    }

    /// What a person means by a number: US dollars where it is money, else steps, calls or seconds.
    pub fn convert_to_amount(self, number: f64) -> u64 {
        if self.is_money() {
            Cost::from_usd(number).0
        } else {
            number.max(0.0) as u64
        }
    }

    /// By so much it can be raised at once: as much as the configuration takes.
    pub fn largest_raise(self) -> u64 {
        match self {
            Self::Steps => 100_000,
            Self::ToolCalls => 1_000_000,
            Self::TurnCost | Self::SessionCost | Self::DayCost | Self::ProviderDayCost => {
                self.convert_to_amount(1_000_000.0)
            }
            Self::WallTime => 31_536_000,
            Self::UnknownPrice => 0,
        }
    }

    /// What is limited, for people.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::ToolCalls => "tool calls",
            Self::TurnCost => "turn cost",
            Self::SessionCost => "session cost",
            Self::DayCost => "day cost",
            Self::ProviderDayCost => "provider day cost",
            Self::WallTime => "wall time",
            Self::UnknownPrice => "unknown price",
        }
    }

    /// An amount of it, for people.
    pub fn format_amount(self, amount: u64) -> String {
        match self {
            Self::TurnCost | Self::SessionCost | Self::DayCost | Self::ProviderDayCost => {
                Cost(amount).to_string()
            }
            Self::WallTime => format!("{amount} s"),
            Self::Steps | Self::ToolCalls | Self::UnknownPrice => amount.to_string(),
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit that stands in the way. Amounts are nano-dollars where the limit is money, else steps, calls, seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which.
    pub limit: LimitName,
    /// What is used, with the estimate of a call that was not made.
    pub used: u64,
    /// What may be used.
    pub most: u64,
    /// The provider that it concerns.
    pub provider: Option<String>,
    /// The model that it concerns.
    pub model: Option<String>,
    /// A line for people.
    pub message: String,
}

/// A question of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentQuestion {
    /// The call that waits for the answer, if it is one's own question. Such a call stays open with it.
    pub tool_call: Option<ToolCallId>,
    /// The question.
    pub text: String,
    /// More about it.
    pub detail: Option<String>,
    /// What is to be filled in; at least one.
    pub fields: Vec<QuestionField>,
}

/// One field of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionField {
    /// The key of its answer.
    pub name: String,
    /// For people.
    pub label: String,
    /// What can be chosen; none: free text.
    pub choices: Vec<Choice>,
    /// Several may be chosen.
    pub several: bool,
    /// Free text may be given instead of a choice.
    pub free: bool,
    /// It must be answered.
    pub required: bool,
}

/// One thing that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What the answer says.
    pub value: String,
    /// For people.
    pub label: String,
}

/// The field of a question that offers one choice of several.
pub const CHOICE: &str = "choice";

/// The choice that ends the turn with `stopped_by_user`.
pub const STOP: &str = "stop";

impl AgentQuestion {
    /// A question that is answered by one of `choices` (value and label).
    pub fn with_choices(text: impl Into<String>, detail: Option<String>, choices: &[(&str, &str)]) -> Self {
        let choice = |(value, label): &(&str, &str)| Choice {
            value: (*value).to_owned(),
            label: (*label).to_owned(),
        };
        Self {
            tool_call: None,
            text: text.into(),
            detail,
            fields: vec![QuestionField {
                name: CHOICE.to_owned(),
                label: String::new(),
                choices: choices.iter().map(choice).collect(),
                several: false,
                free: false,
                required: true,
            }],
        }
    }

    /// What is wrong with `answers`; for whoever answered.
    pub fn find_answer_problem(&self, answers: &Answers) -> Option<String> {
        let known = |name: &String| self.fields.iter().any(|field| field.name == *name);
        if let Some(name) = answers.keys().find(|name| !known(name)) {
            return Some(format!("there is no field named {name:?}"));
        }
        self.fields.iter().find_map(|field| {
            let given: &[String] = answers.get(&field.name).map_or(&[], Vec::as_slice);
            field.find_value_problem(given)
        })
    }
}

impl QuestionField {
    fn find_value_problem(&self, given: &[String]) -> Option<String> {
        let name = &self.name;
        if given.is_empty() {
            return self.required.then(|| format!("{name:?} must be answered"));
        }
        if given.len() > 1 && !self.several {
            return Some(format!("{name:?} takes one answer"));
        }
        if self.free || self.choices.is_empty() {
            return None;
        }
        let offered = |value: &&String| self.choices.iter().any(|choice| choice.value == **value);
        let alien = given.iter().find(|value| !offered(value))?;
        let values: Vec<_> = self.choices.iter().map(|choice| choice.value.as_str()).collect();
        Some(format!(
            "{alien:?} is not a choice of {name:?}; choose from {}",
            values.join(", ")
        ))
    }
}

/// The answers to a question's fields, by their names.
pub type Answers = BTreeMap<String, Vec<String>>;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestSubject {
    /// A limit stands in the way: raise it, or stop?
    Limit(LimitReached),
    /// A question of the agent.
    Question(AgentQuestion),
}

/// Something that a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// Its id; stays the same when it is asked again after a restart.
    pub id: InquiryId,
    /// What is asked.
    pub subject: RequestSubject,
    /// The call that delegated to the sub-agent which asks; none: the turn itself asks.
    pub parent: Option<ToolCallId>,
}

/// An open inquiry, and the event that asked it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInquiry {
    /// The inquiry.
    pub inquiry: Arc<Inquiry>,
    /// The event's number in its session.
    pub seq: u64,
    /// The turn that asks.
    pub turn: Option<TurnId>,
    /// When it was asked, in ms since the epoch.
    pub at_ms: i64,
}

/// What a person said to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InquiryReply {
    /// Raise the limit by this much: nano-dollars, steps, calls, seconds.
    Raise(u64),
    /// Go on without the limit: only where a price is not known.
    Accept,
    /// The limit holds: stop.
    Stop,
    /// The answers to the fields.
    Answers(Answers),
    /// No answer.
    Dismissed,
}

impl Inquiry {
    /// What an inquiry that nobody answers comes to.
    pub fn default_reply(&self) -> InquiryReply {
        match self.subject {
            RequestSubject::Limit(_) => InquiryReply::Stop,
            RequestSubject::Question(_) => InquiryReply::Dismissed,
        }
    }

    /// The call whose own question it is.
    pub fn tool_call(&self) -> Option<&ToolCallId> {
        match &self.subject {
            RequestSubject::Limit(_) => None,
            RequestSubject::Question(question) => question.tool_call.as_ref(),
        }
    }

    /// What is wrong with an answer; for whoever gave it.
    pub fn find_reply_problem(&self, reply: &InquiryReply) -> Option<String> {
        match (&self.subject, reply) {
            (RequestSubject::Limit(limit), InquiryReply::Raise(_))
                if limit.limit == LimitName::UnknownPrice =>
            {
                Some("a price cannot be raised: omit raiseBy to continue, or send stop".to_owned())
            }
            (RequestSubject::Limit(_), InquiryReply::Raise(0)) => {
                Some("raiseBy must be more than 0".to_owned())
            }
            (RequestSubject::Limit(limit), InquiryReply::Raise(by)) if *by > limit.limit.largest_raise() => {
                let most = limit.limit.format_amount(limit.limit.largest_raise());
                Some(format!("raiseBy can be at most {most}"))
            }
            (RequestSubject::Limit(limit), InquiryReply::Accept)
                if limit.limit != LimitName::UnknownPrice =>
            {
                Some("send raiseBy or stop".to_owned())
            }
            (
                RequestSubject::Limit(_),
                InquiryReply::Raise(_) | InquiryReply::Accept | InquiryReply::Stop,
            )
            | (RequestSubject::Question(_), InquiryReply::Dismissed) => None,
            (RequestSubject::Question(question), InquiryReply::Answers(answers)) => {
                question.find_answer_problem(answers)
            }
            (RequestSubject::Limit(_), InquiryReply::Answers(_) | InquiryReply::Dismissed) => {
                Some("this is a limit; answer with agent/limitRespond".to_owned())
            }
            (
                RequestSubject::Question(_),
                InquiryReply::Raise(_) | InquiryReply::Accept | InquiryReply::Stop,
            ) => Some("this is a question; answer with agent/questionRespond".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(given: &[(&str, &[&str])]) -> InquiryReply {
        let pair = |(name, values): &(&str, &[&str])| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            ((*name).to_owned(), values)
        };
        InquiryReply::Answers(given.iter().map(pair).collect())
    }

    #[test]
    fn an_answer_must_fit_its_question() {
        let question = AgentQuestion::with_choices("Go on?", None, &[("go_on", "Go on"), (STOP, "Stop")]);
        let asked = Inquiry {
            id: InquiryId::from("ask_1"),
            parent: None,
            subject: RequestSubject::Question(question),
        };
        let wrong = |reply: InquiryReply| asked.find_reply_problem(&reply).unwrap_or_default();
        assert_eq!(wrong(answers(&[(CHOICE, &[STOP])])), "");
        assert_eq!(wrong(InquiryReply::Dismissed), "");
        assert_eq!(wrong(answers(&[])), "\"choice\" must be answered");
        assert_eq!(
            wrong(answers(&[(CHOICE, &["maybe"])])),
            "\"maybe\" is not a choice of \"choice\"; choose from go_on, stop"
        );
        assert_eq!(
            wrong(answers(&[(CHOICE, &["stop", "go_on"])])),
            "\"choice\" takes one answer"
        );
        assert_eq!(wrong(answers(&[("x", &["y"])])), "there is no field named \"x\"");
        assert!(wrong(InquiryReply::Stop).contains("agent/questionRespond"));
    }

    #[test]
    fn an_answer_must_fit_its_limit() {
        let about = |limit| Inquiry {
            id: InquiryId::from("ask_1"),
            parent: None,
            subject: RequestSubject::Limit(LimitReached {
                limit,
                used: 2,
                most: 1,
                provider: None,
                model: None,
                message: String::new(),
            }),
        };
        for limit in LimitName::ALL {
            assert_eq!(LimitName::from_name(limit.name()), Some(limit));
            let unknown = limit == LimitName::UnknownPrice;
            assert_eq!(about(limit).find_reply_problem(&InquiryReply::Stop), None);
            assert_eq!(
                about(limit).find_reply_problem(&InquiryReply::Raise(1)).is_some(),
                unknown
            );
            assert_eq!(
                about(limit).find_reply_problem(&InquiryReply::Accept).is_none(),
                unknown
            );
            assert!(about(limit).find_reply_problem(&InquiryReply::Raise(0)).is_some());
            assert!(
                about(limit)
                    .find_reply_problem(&InquiryReply::Raise(u64::MAX))
                    .is_some()
            );
            assert!(
                about(limit)
                    .find_reply_problem(&InquiryReply::Dismissed)
                    .is_some()
            );
        }
    }
}
