//! Inputs and results of the store: plain values over `domain`, without SQL and JSON.

use crate::domain::words::word_enum;
use crate::domain::{
    ApprovalId, Block, Cost, Decision, Event, FirstUses, Grant, InquiryId, InquiryReply, MessageId, Mode,
    OpenApproval, OpenInquiry, SessionId, TurnId, Usage,
};

/// What the user has permitted in a folder and a session.
#[derive(Debug, Default)]
pub struct StoredPermissions {
    pub grants: Vec<Grant>,
    /// The tools of MCP servers that a rule has allowed in the folder, as they were first.
    pub first_uses: FirstUses,
}

/// The user's last choice in a folder, for an agent. Absent values were never chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentChoice {
    /// As `provider/model`.
    pub model: Option<String>,
    pub effort: Option<String>,
    pub mode: Option<Mode>,
}

/// A session's row, as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub id: SessionId,
    /// The workspace folder whose grants and trust apply.
    pub folder: String,
    /// The folder that it works in.
    pub cwd: String,
    /// The first prompt, shortened, or the name that the user gave it.
    pub title: Option<String>,
    /// `None` for the default agent.
    pub agent: Option<String>,
    pub mode: Mode,
    /// As `provider/model`.
    pub model: Option<String>,
    /// The model as an earlier version stored it, perhaps without its provider.
    pub bare_model: Option<String>,
    pub effort: Option<String>,
    /// Creation time, in ms since the epoch.
    pub created_ms: i64,
    /// Time of its last event, in ms since the epoch.
    pub updated_ms: i64,
    /// Number of its last event; 0 if there is none. Events count from 1.
    pub last_seq: u64,
    /// The turn without a stored end.
    pub open_turn: Option<TurnId>,
    pub usage: Usage,
    /// The known cost so far.
    pub cost: Option<Cost>,
}

impl SessionRow {
    /// Creates the row of a session that starts now.
    pub fn new(id: SessionId, folder: impl Into<String>, cwd: impl Into<String>, now_ms: i64) -> Self {
        Self {
            id,
            folder: folder.into(),
            cwd: cwd.into(),
            title: None,
            agent: None,
            mode: Mode::default(),
            model: None,
            bare_model: None,
            effort: None,
            created_ms: now_ms,
            updated_ms: now_ms,
            last_seq: 0,
            open_turn: None,
            usage: Usage::default(),
            cost: None,
        }
    }
}

/// A change of a session's own data; absent values stay.
///
/// For changes without an event: the writer applies `SessionUpdated` by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChange {
    pub title: Option<String>,
    /// Empty for the default agent.
    pub agent: Option<String>,
    pub mode: Option<Mode>,
    /// As `provider/model`. Empty for that of the agent.
    pub model: Option<String>,
    /// Empty for that of the model.
    pub effort: Option<String>,
}

/// A value that was accepted or shown, but is not settled by an event yet. Each is one row.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub enum PendingEvent {
    /// The growth of a message in progress since the previous piece. The event that completes or retracts the message
    /// removes it.
    Partial {
        message: MessageId,
        /// Bytes of text and reasoning in the pieces before. A piece that does not continue there stands alone.
        before: u64,
        turn: Option<TurnId>,
        text: String,
        reasoning: String,
    },
    /// An accepted steer that has not joined the history.
    Steer {
        /// Key that the caller chose.
        key: String,
        /// The turn that it is meant for.
        turn: Option<TurnId>,
        #[cfg_attr(test, proptest(strategy = "crate::domain::arbitrary::arb_list()"))]
        content: Vec<Block>,
    },
    /// A prompt that waits for the end of the turn.
    Queued {
        /// Key that the caller chose.
        key: String,
        #[cfg_attr(test, proptest(strategy = "crate::domain::arbitrary::arb_list()"))]
        content: Vec<Block>,
    },
    /// An accepted decision that has not taken effect. `ApprovalResolved` removes it.
    Decision {
        approval: ApprovalId,
        decision: Decision,
    },
    /// An open approval. The writer itself keeps it from `ApprovalRequested` to `ApprovalResolved`.
    Approval(OpenApproval),
    /// An open inquiry. The writer itself keeps it from `InquiryRequested` to `InquiryResolved`.
    Inquiry(OpenInquiry),
    /// An accepted reply to an inquiry that has not taken effect. `InquiryResolved` removes it.
    Reply { inquiry: InquiryId, reply: InquiryReply },
}

impl PendingEvent {
    /// Returns the key under which it is stored.
    pub fn key(&self) -> PendingKey {
        match self {
            Self::Partial { message, before, .. } => PendingKey::for_piece(message, *before),
            Self::Steer { key, .. } => PendingKey::for_steer(key),
            Self::Queued { key, .. } => PendingKey::for_queued(key),
            Self::Decision { approval, .. } => PendingKey::for_decision(approval),
            Self::Approval(open) => PendingKey::for_approval(&open.approval.id),
            Self::Inquiry(open) => PendingKey::for_inquiry(&open.inquiry.id),
            Self::Reply { inquiry, .. } => PendingKey::for_reply(inquiry),
        }
    }
}

word_enum! {
    /// The kind of a [`PendingEvent`] row.
    pub(super) enum PendingKind {
        Partial = "partial",
        Steer = "steer",
        Queued = "queued",
        Decision = "decision",
        Approval = "approval",
        Inquiry = "inquiry",
        Reply = "reply",
    }
}

/// Separates a message's id from the position of a piece.
pub(super) const PIECE: char = '/';

/// The character after [`PIECE`], which ends the range of all pieces.
pub(super) const AFTER_PIECES: char = '0';

/// Identifies one [`PendingEvent`] row of a session, or all pieces of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PendingKey {
    pub(super) kind: PendingKind,
    pub(super) key: String,
}

impl PendingKey {
    fn new(kind: PendingKind, key: impl ToString) -> Self {
        Self {
            kind,
            key: key.to_string(),
        }
    }

    /// Returns the key of all pieces of a message.
    pub fn for_partial(message: &MessageId) -> Self {
        Self::new(PendingKind::Partial, message)
    }

    fn for_piece(message: &MessageId, before: u64) -> Self {
        Self::new(PendingKind::Partial, format_args!("{message}{PIECE}{before}"))
    }

    /// Whether this key covers the row with the key `other`.
    pub(super) fn matches_key(&self, other: &Self) -> bool {
        let rest = other.key.strip_prefix(&self.key);
        let piece = self.kind == PendingKind::Partial && rest.is_some_and(|rest| rest.starts_with(PIECE));
        self.kind == other.kind && (rest == Some("") || piece)
    }

    /// Returns the key of a steer.
    pub fn for_steer(key: &str) -> Self {
        Self::new(PendingKind::Steer, key)
    }

    /// Returns the key of a queued prompt.
    pub fn for_queued(key: &str) -> Self {
        Self::new(PendingKind::Queued, key)
    }

    /// Returns the key of a decision on an approval.
    pub fn for_decision(approval: &ApprovalId) -> Self {
        Self::new(PendingKind::Decision, approval)
    }

    /// Returns the key of an open inquiry.
    pub fn for_inquiry(inquiry: &InquiryId) -> Self {
        Self::new(PendingKind::Inquiry, inquiry)
    }

    /// Returns the key of a reply to an inquiry.
    pub fn for_reply(inquiry: &InquiryId) -> Self {
        Self::new(PendingKind::Reply, inquiry)
    }

    /// Returns the key of an open approval.
    pub fn for_approval(approval: &ApprovalId) -> Self {
        Self::new(PendingKind::Approval, approval)
    }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Number in the session.
    pub seq: u64,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    /// Time of the event, in ms since the epoch.
    pub at_ms: i64,
    pub event: Event,
}

/// A record that could not be read and was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRow {
    /// Names the record: `event 12`, `steer k`.
    pub record: String,
    pub reason: String,
}

impl SkippedRow {
    /// Code of the warning about skipped records.
    pub const CODE: &'static str = "store_record_skipped";

    /// Formats one warning about the skipped records of a session; returns `None` if there are none.
    pub fn format_warning(session: &SessionId, skipped: &[Self]) -> Option<String> {
        let first = skipped.first()?;
        let count = match skipped.len() {
            1 => "one unreadable record".to_owned(),
            n => format!("{n} unreadable records"),
        };
        Some(format!(
            "session {session}: skipped {count} (first: {}: {})",
            first.record, first.reason
        ))
    }
}

/// Selects a part of a session's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventWindow {
    /// The first events after this number.
    After(u64),
    /// The last events before this number.
    Before(u64),
    /// The last events.
    Tail,
}

/// A page of a session's events, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    /// Records of this page that could not be read.
    pub skipped: Vec<SkippedRow>,
    /// Numbers of the first and the last record, including skipped ones; `None` for an empty page.
    pub span: Option<(u64, u64)>,
    /// Whether there are older events.
    pub more_before: bool,
    /// Whether there are newer events.
    pub more_after: bool,
}

/// A session with a page of its events and everything pending, all from the same moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSession {
    pub session: SessionRow,
    pub page: EventPage,
    /// In the order of acceptance.
    pub pending: Vec<PendingEvent>,
    /// Pending rows that could not be read.
    pub skipped: Vec<SkippedRow>,
}

/// A query of the session list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only sessions that work in this folder.
    pub cwd: Option<String>,
    /// Only sessions with a title, prompt or final text that contains all these words.
    pub query: Option<String>,
    /// End of the previous page.
    pub cursor: Option<String>,
    /// Size of the page; 0 means 50.
    pub limit: usize,
}

/// A page of the session list, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    pub sessions: Vec<SessionHit>,
    /// Start of the next page; `None` at the end.
    pub next_cursor: Option<String>,
}

/// A listed session, and where the query matched.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHit {
    pub session: SessionRow,
    /// The newest match, if there was a query.
    pub found: Option<SearchHit>,
}

/// A match of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The event; `None` for the title.
    pub seq: Option<u64>,
    /// The text around the match, on one line.
    pub excerpt: String,
}
