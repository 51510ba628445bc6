//! Prepared durable writes: their JSON, their size, and their effect on the session's row.
//!
//! They are prepared before the transaction, so that they can stay in memory and be retried. Contains no SQL.

use super::records::{self, RecordError};
use super::rows::{PendingEvent, PendingKey, PendingKind, SessionChange};
use super::write::RowWrite;
use crate::base::text;
use crate::domain::{
    Cost, Envelope, Event, FileChange, Inquiry, InquiryReply, LimitName, Message, OpenApproval, OpenInquiry,
    RequestSubject, Role, SessionId, TurnId, Usage,
};

/// Bytes of one message that full-text search covers.
const INDEXED: usize = 64 << 10;

/// A prepared durable write, which can be applied repeatedly.
#[derive(Debug)]
pub(super) enum WriteOp {
    Row(RowWrite),
    Event(Box<EventOp>),
    Put {
        session: SessionId,
        put: PutOp,
    },
    Changes {
        session: SessionId,
        cause: String,
        replaces_earlier: bool,
        /// Path and JSON of each change.
        rows: Vec<(String, String)>,
    },
}

/// Decides which writes survive while the disk fails and memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// Dropped first.
    Low,
    /// The user's input and small rows: the last part of the memory is reserved for them.
    High,
    /// Later records depend on it: a session and its settings, the end of a turn, a settled question, spending, or a
    /// withdrawn permission. Never dropped. The amount stays small, because nothing starts while memory is full.
    Critical,
}

/// A durable event with all its effects on the store.
#[derive(Debug)]
pub(super) struct EventOp {
    pub(super) session: SessionId,
    pub(super) turn: Option<TurnId>,
    pub(super) seq: u64,
    pub(super) at_ms: i64,
    pub(super) kind: String,
    pub(super) json: String,
    pub(super) effect: WriteEffect,
    pub(super) searchable: Option<String>,
    pub(super) puts: Vec<PutOp>,
    pub(super) drops: Vec<PendingKey>,
    pub(super) priority: Priority,
    pub(super) day: Option<DayOp>,
}

/// The contribution of an event to the spending of its day.
#[derive(Debug)]
pub(super) struct DayOp {
    pub(super) account: String,
    pub(super) spent: Cost,
    pub(super) raised: Cost,
}

/// A pending row in its stored form.
#[derive(Debug)]
pub(super) struct PutOp {
    pub(super) key: PendingKey,
    pub(super) json: String,
}

/// The effect of an event on its session's row.
#[derive(Debug, Default)]
pub(super) struct WriteEffect {
    pub(super) change: SessionChange,
    /// The new value of the open turn, if it changes.
    pub(super) open_turn: Option<Option<TurnId>>,
    pub(super) spent: Option<(Usage, Option<Cost>)>,
}

impl WriteOp {
    /// Prepares a pending row.
    pub(super) fn from_pending(session: SessionId, pending: &PendingEvent) -> Result<Self, RecordError> {
        Ok(Self::Put {
            session,
            put: PutOp::new(pending)?,
        })
    }

    /// Prepares the changes of files by one cause. With `replaces_earlier`, its earlier changes are removed.
    pub(super) fn from_changes(
        session: SessionId,
        cause: String,
        replaces_earlier: bool,
        changes: &[FileChange],
    ) -> Result<Self, RecordError> {
        let row = |change: &FileChange| -> Result<(String, String), RecordError> {
            Ok((change.path.clone(), records::encode_change(change)?))
        };
        Ok(Self::Changes {
            session,
            cause,
            replaces_earlier,
            rows: changes.iter().map(row).collect::<Result<_, _>>()?,
        })
    }

    /// Estimates the memory that it occupies, in bytes.
    pub(super) fn estimate_bytes(&self) -> usize {
        const FRAME: usize = 256;
        FRAME
            + match self {
                Self::Event(event) => {
                    event.json.len()
                        + event.searchable.as_ref().map_or(0, String::len)
                        + event.puts.iter().map(PutOp::estimate_bytes).sum::<usize>()
                }
                Self::Put { put, .. } => put.estimate_bytes(),
                Self::Changes { rows, .. } => rows.iter().map(|(path, json)| path.len() + json.len()).sum(),
                Self::Row(_) => FRAME,
            }
    }

    /// Whether it is a piece of a message in progress. Losing one is not a failure: the complete message follows.
    pub(super) fn is_piece(&self) -> bool {
        matches!(self, Self::Put { put, .. } if put.key.kind == PendingKind::Partial)
    }

    /// Whether it removes the pieces of a message.
    pub(super) fn drops_pieces(&self) -> bool {
        let partial = |key: &PendingKey| key.kind == PendingKind::Partial;
        match self {
            Self::Event(event) => event.drops.iter().any(partial),
            Self::Row(RowWrite::Drop { key, .. }) => partial(key),
            _ => false,
        }
    }

    /// Whether it removes the pieces that `other` writes.
    pub(super) fn can_supersede(&self, other: &Self) -> bool {
        let Self::Put { session: of, put } = other else {
            return false;
        };
        match self {
            Self::Event(event) => {
                event.session == *of && event.drops.iter().any(|key| key.matches_key(&put.key))
            }
            Self::Row(RowWrite::Drop { session, key }) => session == of && key.matches_key(&put.key),
            _ => false,
        }
    }

    /// Returns how long it survives while the disk fails.
    pub(super) fn priority(&self) -> Priority {
        match self {
            Self::Row(
                RowWrite::CreateSession(_) | RowWrite::RevokeGrant { .. } | RowWrite::SetTrust { .. },
            ) => Priority::Critical,
            Self::Event(event) => event.priority,
            Self::Put { .. } if self.is_piece() => Priority::Low,
            Self::Changes { .. }
            | Self::Put { .. }
            | Self::Row(
                RowWrite::Drop { .. }
                | RowWrite::UpdateSession { .. }
                | RowWrite::AddGrant { .. }
                | RowWrite::NoteFirstUse { .. }
                | RowWrite::RememberChoice { .. },
            ) => Priority::High,
            // The next refusal names it again.
            Self::Row(RowWrite::NoteWindow { .. } | RowWrite::ForgetWindows { .. }) => Priority::Low,
        }
    }
}

impl PutOp {
    fn new(pending: &PendingEvent) -> Result<Self, RecordError> {
        Ok(Self {
            key: pending.key(),
            json: records::encode_pending(pending)?,
        })
    }

    fn estimate_bytes(&self) -> usize {
        self.json.len() + self.key.key.len()
    }
}

impl EventOp {
    /// Prepares the stored form of an event.
    pub(super) fn new(
        envelope: &Envelope,
        drops: Vec<PendingKey>,
        puts: &[PendingEvent],
    ) -> Result<Self, RecordError> {
        let (kind, json) = records::encode_event(&envelope.event)?;
        let mut op = Self {
            session: envelope.session.clone(),
            turn: envelope.turn.clone(),
            seq: envelope.seq,
            at_ms: envelope.at_ms,
            kind,
            json,
            effect: WriteEffect::default(),
            searchable: None,
            puts: puts.iter().map(PutOp::new).collect::<Result<_, _>>()?,
            drops,
            // Pending rows may carry the user's input.
            priority: if puts.is_empty() {
                Priority::Low
            } else {
                Priority::High
            },
            day: None,
        };
        op.derive_effects(envelope)?;
        Ok(op)
    }

    /// Derives the changes to other rows from the event.
    fn derive_effects(&mut self, envelope: &Envelope) -> Result<(), RecordError> {
        match &envelope.event {
            Event::TurnStarted { .. } => self.effect.open_turn = Some(envelope.turn.clone()),
            Event::TurnEnded(_) => {
                self.effect.open_turn = Some(None);
                self.priority = Priority::Critical;
            }
            Event::Message(message) => {
                self.drops.push(PendingKey::for_partial(&message.id));
                self.searchable = extract_search_text(message);
                if message.role == Role::User {
                    self.priority = Priority::High;
                }
            }
            Event::MessageRetracted { message, .. } => self.drops.push(PendingKey::for_partial(message)),
            Event::ApprovalRequested(approval) => {
                self.puts.push(PutOp::new(&PendingEvent::Approval(OpenApproval {
                    approval: approval.clone(),
                    seq: self.seq,
                    turn: self.turn.clone(),
                    at_ms: self.at_ms,
                }))?)
            }
            Event::ApprovalResolved { approval, .. } => {
                self.priority = Priority::Critical;
                self.drops.push(PendingKey::for_approval(approval));
                self.drops.push(PendingKey::for_decision(approval));
            }
            Event::InquiryRequested(inquiry) => {
                self.puts.push(PutOp::new(&PendingEvent::Inquiry(OpenInquiry {
                    inquiry: inquiry.clone(),
                    seq: self.seq,
                    turn: self.turn.clone(),
                    at_ms: self.at_ms,
                }))?)
            }
            Event::InquiryResolved { inquiry, reply, .. } => {
                self.day = to_day_op(inquiry, reply);
                self.priority = Priority::Critical;
                self.drops.push(PendingKey::for_inquiry(&inquiry.id));
                self.drops.push(PendingKey::for_reply(&inquiry.id));
            }
            Event::Usage {
                session,
                session_cost,
                step_cost,
                provider,
                ..
            } => {
                self.priority = Priority::Critical;
                self.day = match (provider, step_cost) {
                    (Some(provider), Some(spent)) => Some(DayOp {
                        account: provider.clone(),
                        spent: *spent,
                        raised: Cost::default(),
                    }),
                    (Some(_) | None, _) => None,
                };
                self.effect.spent = Some((*session, *session_cost));
            }
            Event::SessionUpdated {
                title,
                mode,
                model,
                effort,
            } => {
                self.priority = Priority::Critical;
                self.effect.change = SessionChange {
                    title: title.clone(),
                    agent: None,
                    mode: *mode,
                    model: model.clone(),
                    effort: effort.clone(),
                };
            }
            // A lost change of the queue would send a prompt a second time.
            Event::QueueChanged(_) => self.priority = self.priority.max(Priority::High),
            Event::ToolCall(_)
            | Event::Plan { .. }
            | Event::TurnDiff(_)
            | Event::Transition { .. }
            | Event::Retry { .. }
            | Event::Wait { .. }
            | Event::Compacted(_)
            | Event::ModelSwitched { .. }
            | Event::Circuit { .. }
            | Event::Warning { .. }
            | Event::Instructions { .. }
            | Event::Nested(_) => {}
        }
        Ok(())
    }
}

/// Returns the raise of a day's limit, if the reply is one.
fn to_day_op(inquiry: &Inquiry, reply: &InquiryReply) -> Option<DayOp> {
    let (RequestSubject::Limit(reached), InquiryReply::Raise(by)) = (&inquiry.subject, reply) else {
        return None;
    };
    let account = match reached.limit {
        // The empty account is the limit over all providers.
        LimitName::DayCost => String::new(),
        LimitName::ProviderDayCost => reached.provider.clone()?,
        _ => return None,
    };
    Some(DayOp {
        account,
        spent: Cost::default(),
        raised: Cost(*by),
    })
}

/// Returns the searchable text: the user's prompts, and answers without tool calls (R-SESS-2).
pub(super) fn extract_search_text(message: &Message) -> Option<String> {
    if message.hidden {
        return None;
    }
    match message.role {
        Role::User => {}
        Role::Assistant if message.tool_uses().next().is_none() => {}
        Role::Assistant | Role::Tool => return None,
    }
    let mut text = message.text();
    text.truncate(text::prefix_within(&text, INDEXED).len());
    (!text.trim().is_empty()).then_some(text)
}
