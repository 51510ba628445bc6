//! What a person is asked besides approvals: limits that were reached, and questions of the agent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::is_false;
use super::{EventHeader, MoreFields, SettledBy};

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
    /// A limit in money is set, and nobody knows what the model costs.
    UnknownPrice,
}

/// Params of `agent/limitRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRequestedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; the same when it is asked again after a restart.
    pub limit_id: String,
    /// Which limit.
    pub limit: LimitName,
    /// What is used, with the estimate of a call that was not made: US dollars, steps, calls or seconds.
    pub used: f64,
    /// What may be used; 0 for `unknown_price`.
    pub max: f64,
    /// The provider that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it concerns, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A line for people.
    pub message: String,
    /// The call that delegated to the sub-agent which asks; absent: the turn itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitOutcome {
    /// It was raised; `raisedBy` says by how much.
    Raised,
    /// The turn goes on although the price is not known.
    Accepted,
    /// It holds, and the turn ends.
    Stopped,
}

/// Params of `agent/limitResolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitResolvedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The question.
    pub limit_id: String,
    /// Which limit.
    pub limit: LimitName,
    /// What became of it.
    pub outcome: LimitOutcome,
    /// By how much it was raised: US dollars, steps, calls or seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_by: Option<f64>,
    /// By what.
    pub by: SettledBy,
}

/// Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price` neither means to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRespondParams {
    /// The question.
    pub limit_id: String,
    /// By how much the limit is raised: US dollars, steps, calls or seconds. It holds for the turn, the session or the
    /// day that the limit is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raise_by: Option<f64>,
    /// The limit holds: the turn ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stop: bool,
}

/// Params of `agent/questionRequested`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRequestedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; the same when it is asked again after a restart.
    pub question_id: String,
    /// The call that waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The call that delegated to the sub-agent which asks; absent: the turn itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
    /// The question.
    pub text: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What is to be answered.
    pub fields: Vec<QuestionField>,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// One field of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionField {
    /// The key of its answer.
    pub name: String,
    /// For people; empty where the question says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What can be chosen; empty: any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<QuestionChoice>,
    /// Several may be chosen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub several: bool,
    /// Any text may be given instead of a choice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub free: bool,
    /// It must be answered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
}

/// One thing that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionChoice {
    /// What the answer says.
    pub value: String,
    /// For people.
    pub label: String,
}

/// Params of `agent/questionResolved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionResolvedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The question.
    pub question_id: String,
    /// The answers by the names of the fields; absent when it was not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// By what.
    pub by: SettledBy,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/questionRespond`: one of `answers` and `dismissed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRespondParams {
    /// The question.
    pub question_id: String,
    /// The answers by the names of the fields; each is a list, of one unless several may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// The person will not answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dismissed: bool,
}
