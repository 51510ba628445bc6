//! Records of the parts of events: approvals, errors, usage, locations, and shared JSON and text.
//!
//! Every converter takes its source apart field by field, so that a new field or variant in `domain` does
//! not compile until its form on disk is decided.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::words::EnumName;
use crate::domain::{
    AgentError, Approval, Cost, Decision, DecisionKind, ErrorCause, ErrorClass, ErrorCode, FileLocation,
    Risk, Usage,
};

/// Whether a flag can be left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Shared JSON, stored inline.
#[derive(Clone, Debug)]
pub(super) struct Json(pub(super) Arc<Value>);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Arc::new(value)))
    }
}

/// Reads a present field, `null` included; an absent field is `None`.
pub(super) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

#[derive(Clone, Debug)]
pub(super) struct SharedText(pub(super) Arc<str>);

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LocationRecord {
    uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl From<&FileLocation> for LocationRecord {
    fn from(location: &FileLocation) -> Self {
        let FileLocation { uri, line } = location;
        Self {
            uri: uri.clone(),
            line: *line,
        }
    }
}

impl From<LocationRecord> for FileLocation {
    fn from(record: LocationRecord) -> Self {
        let LocationRecord { uri, line } = record;
        Self { uri, line }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ApprovalRecord {
    id: String,
    tool_call: String,
    name: String,
    input: Json,
    title: String,
    cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<SharedText>,
    risk: EnumName<Risk>,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

impl From<&Approval> for ApprovalRecord {
    fn from(approval: &Approval) -> Self {
        let Approval {
            id,
            tool_call,
            name,
            input,
            title,
            cwd,
            diff,
            risk,
            why,
            rule,
        } = approval;
        Self {
            id: id.to_string(),
            tool_call: tool_call.to_string(),
            name: name.clone(),
            input: Json(input.clone()),
            title: title.clone(),
            cwd: cwd.clone(),
            diff: diff.clone().map(SharedText),
            risk: EnumName(*risk),
            why: why.clone(),
            rule: rule.clone(),
        }
    }
}

impl From<ApprovalRecord> for Approval {
    fn from(record: ApprovalRecord) -> Self {
        let ApprovalRecord {
            id,
            tool_call,
            name,
            input,
            title,
            cwd,
            diff,
            risk,
            why,
            rule,
        } = record;
        Self {
            id: id.into(),
            tool_call: tool_call.into(),
            name,
            input: input.0,
            title,
            cwd,
            diff: diff.map(|text| text.0),
            risk: risk.0,
            why,
            rule,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DecisionRecord {
    kind: EnumName<DecisionKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

impl From<&Decision> for DecisionRecord {
    fn from(decision: &Decision) -> Self {
        let Decision {
            kind,
            feedback,
            input,
            rule,
        } = decision;
        Self {
            kind: EnumName(*kind),
            feedback: feedback.clone(),
            input: input.clone().map(Json),
            rule: rule.clone(),
        }
    }
}

impl From<DecisionRecord> for Decision {
    fn from(record: DecisionRecord) -> Self {
        let DecisionRecord {
            kind,
            feedback,
            input,
            rule,
        } = record;
        Self {
            kind: kind.0,
            feedback,
            input: input.map(|json| json.0),
            rule,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErrorRecord {
    code: EnumName<ErrorCode>,
    class: EnumName<ErrorClass>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reset_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
}

impl From<&AgentError> for ErrorRecord {
    fn from(error: &AgentError) -> Self {
        let AgentError {
            code,
            class,
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        } = error.clone();
        Self {
            code: EnumName(code),
            class: EnumName(class),
            message,
            cause: cause.map(String::from),
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        }
    }
}

impl From<ErrorRecord> for AgentError {
    fn from(record: ErrorRecord) -> Self {
        let ErrorRecord {
            code,
            class,
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        } = record;
        Self {
            code: code.0,
            class: class.0,
            message,
            cause: cause.map(ErrorCause::from),
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsageRecord {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl From<Usage> for UsageRecord {
    fn from(usage: Usage) -> Self {
        let Usage {
            input,
            output,
            cache_read,
            cache_write,
        } = usage;
        Self {
            input,
            output,
            cache_read,
            cache_write,
        }
    }
}

impl From<UsageRecord> for Usage {
    fn from(record: UsageRecord) -> Self {
        let UsageRecord {
            input,
            output,
            cache_read,
            cache_write,
        } = record;
        Self {
            input,
            output,
            cache_read,
            cache_write,
        }
    }
}

/// Money in nano-dollars.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct CostRecord(u64);

impl From<Cost> for CostRecord {
    fn from(cost: Cost) -> Self {
        let Cost(nanos) = cost;
        Self(nanos)
    }
}

impl From<CostRecord> for Cost {
    fn from(record: CostRecord) -> Self {
        Self(record.0)
    }
}
