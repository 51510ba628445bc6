//! Records of the durable events, one per variant, with exhaustive conversions in both directions.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RecordError;
use super::checkpoint::TurnDiffRecord;
use super::compaction::CompactedRecord;
use super::inquiry::{InquiryRecord, InquiryResolvedRecord};
use super::instructions::InstructionsRecord;
use super::message::{BlockRecord, MessageRecord, ToolResultRecord};
use super::parts::{
    ApprovalRecord, CostRecord, DecisionRecord, ErrorRecord, Json, LocationRecord, SharedText, UsageRecord,
    deserialize_present,
};
use super::queue::QueueRecord;
use super::words::EnumName;
use crate::domain::{
    CircuitState, CircuitSubject, ContinueReason, Event, Mode, PlanItem, PlanStatus, ResolvedBy,
    SubagentEvent, TerminalReason, ToolCallStatus, ToolCallUpdate, Transition, TurnEnd, TurnState,
    TurnTrigger,
};

/// Kind of the record that ends a turn.
pub(in crate::store) const TURN_ENDED: &str = "turn_ended";

/// Encodes an event as its kind and its JSON. Returns `None` for a delta, which is never stored.
pub(in crate::store) fn encode_event(event: &Event) -> Result<Option<(&'static str, String)>, RecordError> {
    let (kind, json) = match event {
        Event::TurnStarted { by, resumes } => (
            "turn_started",
            to_json(&TurnStartedRecord {
                by: Some(EnumName(*by)),
                resumes: resumes.as_ref().map(ToString::to_string),
            })?,
        ),
        Event::TurnEnded(end) => (TURN_ENDED, to_json(&TurnEndedRecord::from(end))?),
        Event::Message(message) => ("message", to_json(&MessageRecord::from(message.as_ref()))?),
        Event::MessageRetracted { message, tool_calls } => (
            "message_retracted",
            to_json(&MessageRetractedRecord {
                message: message.to_string(),
                tool_calls: tool_calls.iter().map(ToString::to_string).collect(),
            })?,
        ),
        Event::ToolCall(update) => ("tool_call", to_json(&ToolCallRecord::from(update))?),
        Event::ApprovalRequested(approval) => {
            ("approval_requested", to_json(&ApprovalRecord::from(approval))?)
        }
        Event::ApprovalResolved {
            approval,
            tool_call,
            decision,
            by,
        } => (
            "approval_resolved",
            to_json(&ApprovalResolvedRecord {
                approval: approval.to_string(),
                tool_call: tool_call.to_string(),
                decision: decision.into(),
                by: EnumName(*by),
            })?,
        ),
        Event::InquiryRequested(inquiry) => (
            "inquiry_requested",
            to_json(&InquiryRecord::from(inquiry.as_ref()))?,
        ),
        Event::InquiryResolved { inquiry, reply, by } => (
            "inquiry_resolved",
            to_json(&InquiryResolvedRecord {
                inquiry: inquiry.as_ref().into(),
                reply: reply.into(),
                by: EnumName(*by),
            })?,
        ),
        Event::Plan(items) => (
            "plan",
            to_json(&PlanRecord {
                items: items.iter().map(Into::into).collect(),
            })?,
        ),
        Event::Transition { transition, detail } => (
            "transition",
            to_json(&TransitionRecord {
                to: (*transition).into(),
                detail: detail.clone(),
            })?,
        ),
        Event::Retry {
            provider,
            model,
            attempt,
            max_retries,
            delay_ms,
            resume_at,
            error,
            next,
        } => (
            "retry",
            to_json(&RetryRecord {
                provider: provider.clone(),
                model: model.clone(),
                attempt: *attempt,
                max_retries: *max_retries,
                delay_ms: *delay_ms,
                resume_at: *resume_at,
                error: error.into(),
                next: next.clone(),
            })?,
        ),
        Event::Wait { why, until } => (
            "wait",
            to_json(&WaitRecord {
                why: why.clone(),
                until: *until,
            })?,
        ),
        Event::Compacted(compaction) => ("compacted", to_json(&CompactedRecord::from(compaction.as_ref()))?),
        Event::ModelSwitched { from, to, why } => (
            "model_switched",
            to_json(&ModelSwitchedRecord {
                from: from.clone(),
                to: to.clone(),
                why: why.clone(),
            })?,
        ),
        Event::Circuit {
            subject,
            name,
            state,
            until,
        } => (
            "circuit",
            to_json(&CircuitRecord {
                subject: EnumName(*subject),
                name: name.clone(),
                state: EnumName(*state),
                until: *until,
            })?,
        ),
        Event::Usage {
            step,
            turn,
            session,
            step_cost,
            turn_cost,
            session_cost,
            context_used,
            window,
            provider,
        } => (
            "usage",
            to_json(&UsageEventRecord {
                step: (*step).into(),
                turn: (*turn).into(),
                session: (*session).into(),
                step_cost: step_cost.map(Into::into),
                turn_cost: turn_cost.map(Into::into),
                session_cost: session_cost.map(Into::into),
                context_used: *context_used,
                window: *window,
                provider: provider.clone(),
            })?,
        ),
        Event::Warning { code, message } => (
            "warning",
            to_json(&WarningRecord {
                code: code.clone(),
                message: message.clone(),
            })?,
        ),
        Event::SessionUpdated {
            title,
            mode,
            model,
            effort,
        } => (
            "session_updated",
            to_json(&SessionUpdatedRecord {
                title: title.clone(),
                mode: mode.map(EnumName),
                model: model.clone(),
                effort: effort.clone(),
            })?,
        ),
        Event::QueueChanged(queue) => ("queue_changed", to_json(&QueueRecord::from(queue))?),
        Event::TurnDiff(diff) => ("turn_diff", to_json(&TurnDiffRecord::from(diff.as_ref()))?),
        Event::Instructions(files) => ("instructions", to_json(&InstructionsRecord::from(&files[..]))?),
        Event::Nested(nested) => {
            let Some((kind, event)) = encode_event(&nested.event)? else {
                return Ok(None);
            };
            let record = NestedRecord {
                parent: nested.parent.to_string(),
                kind: kind.to_owned(),
                event: parse(&event)?,
            };
            ("nested", to_json(&record)?)
        }
        Event::Delta(_) => return Ok(None),
    };
    Ok(Some((kind, json)))
}

/// Decodes the event of a row.
pub(in crate::store) fn decode_event(kind: &str, text: &str) -> Result<Event, RecordError> {
    Ok(match kind {
        "turn_started" => {
            let TurnStartedRecord { by, resumes } = parse(text)?;
            let told = match resumes {
                Some(_) => TurnTrigger::Resume,
                None => TurnTrigger::Prompt,
            };
            Event::TurnStarted {
                by: by.map_or(told, |EnumName(by)| by),
                resumes: resumes.map(Into::into),
            }
        }
        TURN_ENDED => Event::TurnEnded(parse::<TurnEndedRecord>(text)?.into()),
        "message" => Event::Message(Arc::new(parse::<MessageRecord>(text)?.into())),
        "message_retracted" => {
            let MessageRetractedRecord { message, tool_calls } = parse(text)?;
            Event::MessageRetracted {
                message: message.into(),
                tool_calls: tool_calls.into_iter().map(Into::into).collect(),
            }
        }
        "tool_call" => Event::ToolCall(parse::<ToolCallRecord>(text)?.into()),
        "approval_requested" => Event::ApprovalRequested(parse::<ApprovalRecord>(text)?.into()),
        "approval_resolved" => {
            let ApprovalResolvedRecord {
                approval,
                tool_call,
                decision,
                by,
            } = parse(text)?;
            Event::ApprovalResolved {
                approval: approval.into(),
                tool_call: tool_call.into(),
                decision: decision.into(),
                by: by.0,
            }
        }
        "inquiry_requested" => Event::InquiryRequested(parse::<InquiryRecord>(text)?.into()),
        "inquiry_resolved" => {
            let InquiryResolvedRecord { inquiry, reply, by } = parse(text)?;
            Event::InquiryResolved {
                inquiry: inquiry.into(),
                reply: reply.into(),
                by: by.0,
            }
        }
        "plan" => {
            let PlanRecord { items } = parse(text)?;
            Event::Plan(items.into_iter().map(Into::into).collect())
        }
        "transition" => {
            let TransitionRecord { to, detail } = parse(text)?;
            Event::Transition {
                transition: to.into(),
                detail,
            }
        }
        "retry" => parse::<RetryRecord>(text)?.into(),
        "wait" => {
            let WaitRecord { why, until } = parse(text)?;
            Event::Wait { why, until }
        }
        "compacted" => parse::<CompactedRecord>(text)?.into(),
        "model_switched" => {
            let ModelSwitchedRecord { from, to, why } = parse(text)?;
            Event::ModelSwitched { from, to, why }
        }
        "circuit" => {
            let CircuitRecord {
                subject,
                name,
                state,
                until,
            } = parse(text)?;
            Event::Circuit {
                subject: subject.0,
                name,
                state: state.0,
                until,
            }
        }
        "usage" => parse::<UsageEventRecord>(text)?.into(),
        "warning" => {
            let WarningRecord { code, message } = parse(text)?;
            Event::Warning { code, message }
        }
        "session_updated" => {
            let SessionUpdatedRecord {
                title,
                mode,
                model,
                effort,
            } = parse(text)?;
            Event::SessionUpdated {
                title,
                mode: mode.map(|word| word.0),
                model,
                effort,
            }
        }
        "turn_diff" => Event::TurnDiff(Arc::new(parse::<TurnDiffRecord>(text)?.into())),
        "queue_changed" => Event::QueueChanged(parse::<QueueRecord>(text)?.into()),
        "instructions" => Event::Instructions(parse::<InstructionsRecord>(text)?.into()),
        "nested" => {
            let NestedRecord { parent, kind, event } = parse(text)?;
            Event::Nested(Box::new(SubagentEvent {
                parent: parent.into(),
                event: decode_event(&kind, &to_json(&event)?)?,
            }))
        }
        _ => return Err(RecordError::UnknownKind(kind.to_owned())),
    })
}

pub(super) fn to_json<T: Serialize>(record: &T) -> Result<String, RecordError> {
    Ok(serde_json::to_string(record)?)
}

pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, RecordError> {
    Ok(serde_json::from_str(text)?)
}

#[derive(Debug, Serialize, Deserialize)]
struct TurnStartedRecord {
    /// Absent in early records; there only `resumes` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<EnumName<TurnTrigger>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TurnEndedRecord {
    reason: EnumName<TerminalReason>,
    state: EnumName<TurnState>,
    usage: UsageRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<CostRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unused_steers: Vec<Vec<BlockRecord>>,
}

impl From<&TurnEnd> for TurnEndedRecord {
    fn from(end: &TurnEnd) -> Self {
        let TurnEnd {
            reason,
            state,
            usage,
            cost,
            error,
            unused_steers,
        } = end;
        Self {
            reason: EnumName(*reason),
            state: EnumName(*state),
            usage: (*usage).into(),
            cost: cost.map(Into::into),
            error: error.as_ref().map(Into::into),
            unused_steers: unused_steers
                .iter()
                .map(|blocks| blocks.iter().map(Into::into).collect())
                .collect(),
        }
    }
}

impl From<TurnEndedRecord> for TurnEnd {
    fn from(record: TurnEndedRecord) -> Self {
        let TurnEndedRecord {
            reason,
            state,
            usage,
            cost,
            error,
            unused_steers,
        } = record;
        Self {
            reason: reason.0,
            state: state.0,
            usage: usage.into(),
            cost: cost.map(Into::into),
            error: error.map(Into::into),
            unused_steers: unused_steers
                .into_iter()
                .map(|blocks| blocks.into_iter().map(Into::into).collect())
                .collect(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct MessageRetractedRecord {
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToolCallRecord {
    id: String,
    name: String,
    title: String,
    status: EnumName<ToolCallStatus>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ToolResultRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<SharedText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    locations: Vec<LocationRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
}

impl From<&ToolCallUpdate> for ToolCallRecord {
    fn from(update: &ToolCallUpdate) -> Self {
        let ToolCallUpdate {
            id,
            name,
            title,
            status,
            input,
            result,
            diff,
            locations,
            duration_ms,
            exit_code,
            parent,
        } = update;
        Self {
            id: id.to_string(),
            name: name.clone(),
            title: title.clone(),
            status: EnumName(*status),
            input: input.clone().map(Json),
            result: result.as_deref().map(Into::into),
            diff: diff.clone().map(SharedText),
            locations: locations.iter().map(Into::into).collect(),
            duration_ms: *duration_ms,
            exit_code: *exit_code,
            parent: parent.as_ref().map(ToString::to_string),
        }
    }
}

impl From<ToolCallRecord> for ToolCallUpdate {
    fn from(record: ToolCallRecord) -> Self {
        let ToolCallRecord {
            id,
            name,
            title,
            status,
            input,
            result,
            diff,
            locations,
            duration_ms,
            exit_code,
            parent,
        } = record;
        Self {
            id: id.into(),
            name,
            title,
            status: status.0,
            input: input.map(|json| json.0),
            result: result.map(|result| Arc::new(result.into())),
            diff: diff.map(|text| text.0),
            locations: locations.into_iter().map(Into::into).collect(),
            duration_ms,
            exit_code,
            parent: parent.map(Into::into),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct ApprovalResolvedRecord {
    approval: String,
    tool_call: String,
    decision: DecisionRecord,
    by: EnumName<ResolvedBy>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlanRecord {
    items: Vec<PlanItemRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlanItemRecord {
    text: String,
    status: EnumName<PlanStatus>,
}

impl From<&PlanItem> for PlanItemRecord {
    fn from(item: &PlanItem) -> Self {
        let PlanItem { text, status } = item;
        Self {
            text: text.clone(),
            status: EnumName(*status),
        }
    }
}

impl From<PlanItemRecord> for PlanItem {
    fn from(record: PlanItemRecord) -> Self {
        let PlanItemRecord { text, status } = record;
        Self {
            text,
            status: status.0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct TransitionRecord {
    to: StoredTransitionKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTransitionKind {
    Continue(EnumName<ContinueReason>),
    Terminal(EnumName<TerminalReason>),
}

impl From<Transition> for StoredTransitionKind {
    fn from(transition: Transition) -> Self {
        match transition {
            Transition::Continue(reason) => Self::Continue(EnumName(reason)),
            Transition::Terminal(reason) => Self::Terminal(EnumName(reason)),
        }
    }
}

impl From<StoredTransitionKind> for Transition {
    fn from(record: StoredTransitionKind) -> Self {
        match record {
            StoredTransitionKind::Continue(reason) => Self::Continue(reason.0),
            StoredTransitionKind::Terminal(reason) => Self::Terminal(reason.0),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RetryRecord {
    provider: String,
    model: String,
    attempt: u32,
    max_retries: u32,
    delay_ms: u64,
    resume_at: i64,
    error: ErrorRecord,
    next: String,
}

impl From<RetryRecord> for Event {
    fn from(record: RetryRecord) -> Self {
        let RetryRecord {
            provider,
            model,
            attempt,
            max_retries,
            delay_ms,
            resume_at,
            error,
            next,
        } = record;
        Self::Retry {
            provider,
            model,
            attempt,
            max_retries,
            delay_ms,
            resume_at,
            error: error.into(),
            next,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct WaitRecord {
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ModelSwitchedRecord {
    from: String,
    to: String,
    why: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct CircuitRecord {
    subject: EnumName<CircuitSubject>,
    name: String,
    state: EnumName<CircuitState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UsageEventRecord {
    step: UsageRecord,
    turn: UsageRecord,
    session: UsageRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_cost: Option<CostRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn_cost: Option<CostRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_cost: Option<CostRecord>,
    context_used: u64,
    window: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

impl From<UsageEventRecord> for Event {
    fn from(record: UsageEventRecord) -> Self {
        let UsageEventRecord {
            step,
            turn,
            session,
            step_cost,
            turn_cost,
            session_cost,
            context_used,
            window,
            provider,
        } = record;
        Self::Usage {
            step: step.into(),
            turn: turn.into(),
            session: session.into(),
            step_cost: step_cost.map(Into::into),
            turn_cost: turn_cost.map(Into::into),
            session_cost: session_cost.map(Into::into),
            context_used,
            window,
            provider,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct WarningRecord {
    code: String,
    message: String,
}

/// An event of a sub-agent, with the record that it would have on its own.
#[derive(Debug, Serialize, Deserialize)]
struct NestedRecord {
    parent: String,
    kind: String,
    event: serde_json::Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct SessionUpdatedRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<EnumName<Mode>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
}
