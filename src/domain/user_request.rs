//! Inquiries: questions to the user that are not about one effect, such as a reached limit or a question by the agent.
//!
//! Plain values and the checks that an answer must pass. The server asks only clients that announced `questions`
//! (R-BUDGET). Questions about effects are in `approval`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{InquiryId, ToolCallId, TurnId};
use super::usage::Cost;
use super::words::word_enum;

/// Who answers what a turn asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// A person answers approvals, limits, and questions.
    Questions,
    /// Somebody may answer approvals, and nothing else is asked.
    #[default]
    Approvals,
    /// Every approval is given, and nothing else is asked.
    Automatic,
}

word_enum! {
    /// The limits of R-BUDGET that a user may be asked about.
    pub enum LimitName {
        /// Steps of a turn.
        Steps = "max_steps",
        /// Tool calls of a turn.
        ToolCalls = "max_tool_calls",
        /// Cost of a turn.
        TurnCost = "max_turn_cost",
        /// Cost of a session.
        SessionCost = "max_session_cost",
        /// Cost of a day, over all sessions.
        DayCost = "max_day_cost",
        /// Cost of a day at one provider.
        ProviderDayCost = "max_provider_day_cost",
        /// Seconds of a turn.
        WallTime = "max_wall_time_s",
        /// A spending limit applies to a model whose price is unknown.
        UnknownPrice = "unknown_price",
    }
}

impl LimitName {
    /// Returns whether amounts of this limit are money.
    pub fn is_money(self) -> bool {
        match self {
            Self::TurnCost | Self::SessionCost | Self::DayCost | Self::ProviderDayCost => true,
            Self::Steps | Self::ToolCalls | Self::WallTime | Self::UnknownPrice => false,
        }
    }

    /// Converts a number that a user enters: US dollars become nano-dollars; steps, calls, and seconds stay the same.
    pub fn convert_to_amount(self, number: f64) -> u64 {
        // A negative number becomes 0, which `find_reply_problem` refuses for a raise.
        if self.is_money() {
            Cost::from_usd(number).0
        } else {
            number.max(0.0) as u64
        }
    }

    /// Returns by how much an answer may raise the limit: no more than the configuration accepts.
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

    /// Returns the name shown to users.
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

    /// Formats an amount for users, with its unit.
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

/// A limit that blocks the turn. Amounts are nano-dollars if the limit is money, else steps, calls, or seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct LimitReached {
    pub limit: LimitName,
    /// The amount used, including the estimate of a call that was not made.
    pub used: u64,
    /// The limit's current value.
    pub most: u64,
    /// The provider that it concerns, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it concerns, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A one-line description for users.
    pub message: String,
}

/// A question that the agent asks the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct AgentQuestion {
    /// The call that waits for the answer, if the question belongs to one. The call stays open as long as the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallId>,
    pub text: String,
    /// Further explanation, shown below the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The fields to fill in; at least one.
    #[serde(default)]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub fields: Vec<QuestionField>,
    /// The address that the question is about, for clients that open addresses. The detail contains it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One field of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct QuestionField {
    /// The key of its answer.
    pub name: String,
    /// The label shown to users.
    pub label: String,
    /// The choices on offer; empty means free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub choices: Vec<FieldChoice>,
    /// Whether several choices may be selected.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub several: bool,
    /// Whether free text is accepted instead of a choice.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub free: bool,
    /// Whether the field must be answered.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub required: bool,
    /// What an answer is, if it is more than a text. Only whoever asked can check that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_type: Option<FieldType>,
    /// The answer that an empty one stands for, if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub default: Vec<String>,
    /// What a JSON Schema says of the field besides its type and choices (`title`, `description`, `format`, `minimum`,
    /// and others), for clients that show such forms. The label says it in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, proptest(value = "None"))]
    pub schema: Option<Arc<Value>>,
}

word_enum! {
    /// What the answer to a field is.
    pub enum FieldType {
        Integer = "integer",
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
    }
}

/// One choice of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FieldChoice {
    /// The value that the answer contains.
    pub value: String,
    /// The label shown to users.
    pub label: String,
}

/// The name of the only field of a single-choice question.
pub const CHOICE_FIELD: &str = "choice";

/// The choice that ends the turn with `stopped_by_user`.
pub const STOP: &str = "stop";

impl AgentQuestion {
    /// Returns a question with one required field, answered by one of `choices` (value and label).
    pub fn with_choices(text: impl Into<String>, detail: Option<String>, choices: &[(&str, &str)]) -> Self {
        let choice = |(value, label): &(&str, &str)| FieldChoice {
            value: (*value).to_owned(),
            label: (*label).to_owned(),
        };
        Self {
            tool_call: None,
            text: text.into(),
            detail,
            fields: vec![QuestionField {
                name: CHOICE_FIELD.to_owned(),
                choices: choices.iter().map(choice).collect(),
                required: true,
                ..QuestionField::default()
            }],
            url: None,
        }
    }

    /// Returns what is wrong with `answers`, in words for whoever answered, or `None` if they fit.
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
    /// Returns what is wrong with the answer to this field, or `None` if it fits.
    pub fn find_value_problem(&self, given: &[String]) -> Option<String> {
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

/// The answers to a question, keyed by field name.
pub type Answers = BTreeMap<String, Vec<String>>;

/// What an inquiry is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "snake_case")]
pub enum RequestSubject {
    /// A limit blocks the turn: raise it, or stop?
    Limit(LimitReached),
    /// A question that the agent asks.
    Question(AgentQuestion),
}

/// A pending question about a limit, or one that the agent asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Inquiry {
    /// Stays the same when the question is asked again after a restart.
    pub id: InquiryId,
    /// The call that started the sub-agent that asks; `None` if the turn itself asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ToolCallId>,
    #[serde(flatten)]
    pub subject: RequestSubject,
}

/// A pending inquiry with the event that asked it most recently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct OpenInquiry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The event's number in its session.
    pub seq: u64,
    /// When it was asked, in ms since the epoch.
    pub at_ms: i64,
    pub inquiry: Arc<Inquiry>,
}

/// How the user replied to an inquiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "snake_case")]
pub enum InquiryReply {
    /// Raise the limit by this amount: nano-dollars, steps, calls, or seconds.
    Raise(u64),
    /// Continue without the limit; valid only for an unknown price.
    Accept,
    /// Keep the limit and stop.
    Stop,
    /// The answers to the fields.
    Answers(#[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_answers()"))] Answers),
    /// The user declined to answer.
    Dismissed,
}

impl Inquiry {
    /// Returns the reply for an inquiry that no one answers.
    pub fn default_reply(&self) -> InquiryReply {
        match self.subject {
            RequestSubject::Limit(_) => InquiryReply::Stop,
            RequestSubject::Question(_) => InquiryReply::Dismissed,
        }
    }

    /// Returns the tool call that asked the question itself, if one did.
    pub fn tool_call(&self) -> Option<&ToolCallId> {
        match &self.subject {
            RequestSubject::Limit(_) => None,
            RequestSubject::Question(question) => question.tool_call.as_ref(),
        }
    }

    /// Returns whether whoever asked asks again after an interruption: a limit, a call, or the turn itself, whose own
    /// questions offer to stop it. What a running command asked has ended with it.
    pub fn can_be_repeated(&self) -> bool {
        match &self.subject {
            RequestSubject::Limit(_) => true,
            RequestSubject::Question(question) => {
                let mut choices = question.fields.iter().flat_map(|field| &field.choices);
                question.tool_call.is_some() || choices.any(|choice| choice.value == STOP)
            }
        }
    }

    /// Returns what is wrong with a reply, in words for whoever sent it, or `None` if it fits.
    pub fn find_reply_problem(&self, reply: &InquiryReply) -> Option<String> {
        match (&self.subject, reply) {
            (RequestSubject::Limit(limit), InquiryReply::Raise(_))
                if limit.limit == LimitName::UnknownPrice =>
            {
                Some("a price cannot be raised: omit raiseBy to continue, or send stop".to_owned())
            }
            (RequestSubject::Limit(_), InquiryReply::Raise(0)) => {
                Some("the limit must be raised by more than 0".to_owned())
            }
            (RequestSubject::Limit(limit), InquiryReply::Raise(by)) if *by > limit.limit.largest_raise() => {
                let most = limit.limit.format_amount(limit.limit.largest_raise());
                Some(format!("the limit can be raised by at most {most}"))
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
        let inquiry = Inquiry {
            id: InquiryId::from("ask_1"),
            parent: None,
            subject: RequestSubject::Question(question),
        };
        let wrong = |reply: InquiryReply| inquiry.find_reply_problem(&reply).unwrap_or_default();
        assert_eq!(wrong(answers(&[(CHOICE_FIELD, &[STOP])])), "");
        assert_eq!(wrong(InquiryReply::Dismissed), "");
        assert_eq!(wrong(answers(&[])), "\"choice\" must be answered");
        assert_eq!(
            wrong(answers(&[(CHOICE_FIELD, &["maybe"])])),
            "\"maybe\" is not a choice of \"choice\"; choose from go_on, stop"
        );
        assert_eq!(
            wrong(answers(&[(CHOICE_FIELD, &["stop", "go_on"])])),
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
            // Forms show this too, where the field has another name than on the wire.
            let nothing = about(limit).find_reply_problem(&InquiryReply::Raise(0)).unwrap();
            assert_eq!(nothing.contains("raiseBy"), unknown, "{nothing}");
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
