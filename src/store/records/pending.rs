//! Records of values that were accepted or shown, but are not settled by an event yet.

use serde::{Deserialize, Serialize};

use super::RecordError;
use super::event::{parse, to_json};
use super::inquiry::{InquiryRecord, ReplyRecord};
use super::message::BlockRecord;
use super::parts::{ApprovalRecord, DecisionRecord};
use crate::domain::{OpenApproval, OpenInquiry};
use crate::store::rows::{PIECE, PendingEvent, PendingKind};

#[derive(Debug, Serialize, Deserialize)]
struct PartialRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SteerRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    content: Vec<BlockRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct QueuedRecord {
    content: Vec<BlockRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OpenApprovalRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    at_ms: i64,
    approval: ApprovalRecord,
}

#[derive(Debug, Serialize, Deserialize)]
struct OpenInquiryRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    seq: u64,
    at_ms: i64,
    inquiry: InquiryRecord,
}

/// Encodes a pending row; its kind and key are columns.
pub(in crate::store) fn encode_pending(pending: &PendingEvent) -> Result<String, RecordError> {
    match pending {
        // The key identifies the message and the piece.
        PendingEvent::Partial {
            message: _,
            before: _,
            turn,
            text,
            reasoning,
        } => to_json(&PartialRecord {
            turn: turn.as_ref().map(ToString::to_string),
            text: text.clone(),
            reasoning: reasoning.clone(),
        }),
        PendingEvent::Steer {
            key: _,
            turn,
            content,
        } => to_json(&SteerRecord {
            turn: turn.as_ref().map(ToString::to_string),
            content: content.iter().map(Into::into).collect(),
        }),
        PendingEvent::Queued { key: _, content } => to_json(&QueuedRecord {
            content: content.iter().map(Into::into).collect(),
        }),
        PendingEvent::Decision {
            approval: _,
            decision,
        } => to_json(&DecisionRecord::from(decision)),
        PendingEvent::Approval(open) => to_json(&OpenApprovalRecord {
            turn: open.turn.as_ref().map(ToString::to_string),
            seq: open.seq,
            at_ms: open.at_ms,
            approval: (&open.approval).into(),
        }),
        PendingEvent::Inquiry(open) => to_json(&OpenInquiryRecord {
            turn: open.turn.as_ref().map(ToString::to_string),
            seq: open.seq,
            at_ms: open.at_ms,
            inquiry: open.inquiry.as_ref().into(),
        }),
        PendingEvent::Reply { inquiry: _, reply } => to_json(&ReplyRecord::from(reply)),
    }
}

/// Decodes the pending value of a row.
pub(in crate::store) fn decode_pending(
    kind: &str,
    key: &str,
    text: &str,
) -> Result<PendingEvent, RecordError> {
    let kind = PendingKind::from_word(kind).ok_or_else(|| RecordError::UnknownKind(kind.to_owned()))?;
    Ok(match kind {
        PendingKind::Partial => {
            let PartialRecord {
                turn,
                text,
                reasoning,
            } = parse(text)?;
            let (message, before) = key.split_once(PIECE).unwrap_or((key, "0"));
            PendingEvent::Partial {
                message: message.into(),
                before: before.parse().unwrap_or_default(),
                turn: turn.map(Into::into),
                text,
                reasoning,
            }
        }
        PendingKind::Steer => {
            let SteerRecord { turn, content } = parse(text)?;
            PendingEvent::Steer {
                key: key.to_owned(),
                turn: turn.map(Into::into),
                content: content.into_iter().map(Into::into).collect(),
            }
        }
        PendingKind::Queued => {
            let QueuedRecord { content } = parse(text)?;
            PendingEvent::Queued {
                key: key.to_owned(),
                content: content.into_iter().map(Into::into).collect(),
            }
        }
        PendingKind::Decision => PendingEvent::Decision {
            approval: key.into(),
            decision: parse::<DecisionRecord>(text)?.into(),
        },
        PendingKind::Approval => {
            let OpenApprovalRecord {
                turn,
                seq,
                at_ms,
                approval,
            } = parse(text)?;
            PendingEvent::Approval(OpenApproval {
                approval: approval.into(),
                seq,
                turn: turn.map(Into::into),
                at_ms,
            })
        }
        PendingKind::Inquiry => {
            let OpenInquiryRecord {
                turn,
                seq,
                at_ms,
                inquiry,
            } = parse(text)?;
            PendingEvent::Inquiry(OpenInquiry {
                inquiry: inquiry.into(),
                seq,
                turn: turn.map(Into::into),
                at_ms,
            })
        }
        PendingKind::Reply => PendingEvent::Reply {
            inquiry: key.into(),
            reply: parse::<ReplyRecord>(text)?.into(),
        },
    })
}
