//! Records of values that were accepted or shown, but are not settled by an event yet. Their kinds and keys are columns.

use serde::{Deserialize, Serialize};

use super::{RecordError, parse, to_json};
use crate::domain::{Block, TurnId};
use crate::store::rows::{PIECE, PendingEvent, PendingKind};

#[derive(Debug, Serialize, Deserialize)]
struct PartialRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SteerRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    content: Vec<Block>,
}

#[derive(Debug, Serialize, Deserialize)]
struct QueuedRecord {
    content: Vec<Block>,
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
            turn: turn.clone(),
            text: text.clone(),
            reasoning: reasoning.clone(),
        }),
        PendingEvent::Steer {
            key: _,
            turn,
            content,
        } => to_json(&SteerRecord {
            turn: turn.clone(),
            content: content.clone(),
        }),
        PendingEvent::Queued { key: _, content } => to_json(&QueuedRecord {
            content: content.clone(),
        }),
        PendingEvent::Decision {
            approval: _,
            decision,
        } => to_json(decision),
        PendingEvent::Approval(open) => to_json(open),
        PendingEvent::Inquiry(open) => to_json(open),
        PendingEvent::Reply { inquiry: _, reply } => to_json(reply),
    }
}

/// Decodes the pending value of a row.
pub(in crate::store) fn decode_pending(
    kind: &str,
    key: &str,
    text: &str,
) -> Result<PendingEvent, RecordError> {
    let kind = PendingKind::from_name(kind).ok_or_else(|| RecordError::UnknownKind(kind.to_owned()))?;
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
                turn,
                text,
                reasoning,
            }
        }
        PendingKind::Steer => {
            let SteerRecord { turn, content } = parse(text)?;
            PendingEvent::Steer {
                key: key.to_owned(),
                turn,
                content,
            }
        }
        PendingKind::Queued => {
            let QueuedRecord { content } = parse(text)?;
            PendingEvent::Queued {
                key: key.to_owned(),
                content,
            }
        }
        PendingKind::Decision => PendingEvent::Decision {
            approval: key.into(),
            decision: parse(text)?,
        },
        PendingKind::Approval => PendingEvent::Approval(parse(text)?),
        PendingKind::Inquiry => PendingEvent::Inquiry(parse(text)?),
        PendingKind::Reply => PendingEvent::Reply {
            inquiry: key.into(),
            reply: parse(text)?,
        },
    })
}
