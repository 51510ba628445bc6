//! Requests to the user besides approvals: limits that were reached, and questions of the agent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::is_false;
use super::{EventHeader, SettledBy, TruncatedFields};

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Steps of the turn.
    MaxSteps,
    /// Tool calls of the turn.
    MaxToolCalls,
    /// US dollars of the turn.
    MaxTurnCost,
    /// US dollars of the session.
    MaxSessionCost,
    /// US dollars of the day (UTC), over all sessions.
    MaxDayCost,
    /// US dollars of the day (UTC) at one provider.
    MaxProviderDayCost,
    /// Seconds of the turn.
    MaxWallTimeS,
    /// A money limit is set, and the model's price is unknown.
    UnknownPrice,
}

/// Params of `agent/limitRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRequestedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; it stays the same if the request is repeated after a restart.
    pub limit_id: String,
    /// The limit.
    pub limit: LimitName,
    /// The amount used, with the estimate of a call that was not made: US dollars, steps, calls or seconds.
    pub used: f64,
    /// The allowed amount; 0 for `unknown_price`.
    pub max: f64,
    /// The provider that is affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that is affected, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// One line for the user.
    pub message: String,
    /// The call that delegated to the sub-agent that asks; absent if the turn itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// The outcome of a limit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitOutcome {
    /// The limit was raised by `raisedBy`.
    Raised,
    /// The turn continues although the price is unknown.
    Accepted,
    /// The limit stays, and the turn ends.
    Stopped,
}

/// Params of `agent/limitResolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitResolvedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The limit request.
    pub limit_id: String,
    /// The limit.
    pub limit: LimitName,
    /// The outcome.
    pub outcome: LimitOutcome,
    /// The increase: US dollars, steps, calls or seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_by: Option<f64>,
    /// What settled it.
    pub by: SettledBy,
}

/// Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price`, neither means to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRespondParams {
    /// The limit request.
    pub limit_id: String,
    /// The increase: US dollars, steps, calls or seconds. It lasts for the turn, session or day that the limit covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raise_by: Option<f64>,
    /// Whether the limit stays and the turn ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stop: bool,
}

/// Params of `agent/questionRequested`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRequestedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; it stays the same if the request is repeated after a restart.
    pub question_id: String,
    /// The call that waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The call that delegated to the sub-agent that asks; absent if the turn itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// The question.
    pub text: String,
    /// More detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The fields to answer.
    pub fields: Vec<QuestionField>,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// One field of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionField {
    /// The key of its answer.
    pub name: String,
    /// The label for the user; empty if the question needs none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The choices; empty for free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<QuestionChoice>,
    /// Whether several choices are allowed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub several: bool,
    /// Whether free text is allowed instead of a choice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub free: bool,
    /// Whether an answer is required.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// The answer that an empty one stands for; empty if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default: Vec<String>,
    /// What a JSON Schema says about a field of a form: `title`, `description`, `type`, `format`, `minimum`, and so on.
    /// The label says the same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A choice of a question's field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionChoice {
    /// The value for the answer.
    pub value: String,
    /// The label for the user.
    pub label: String,
}

/// Params of `agent/questionResolved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionResolvedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The question.
    pub question_id: String,
    /// The answers by field name; absent if the question was not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// What settled it.
    pub by: SettledBy,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/questionRespond`: one of `answers` and `dismissed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRespondParams {
    /// The question.
    pub question_id: String,
    /// The answers by field name. Each is a list, with one entry unless several choices are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// Whether the user declines to answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dismissed: bool,
}
