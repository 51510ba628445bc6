//! What the store takes and gives: plain values over `domain`, no SQL and no JSON.

use crate::domain::{
    ApprovalId, Block, Cost, Decision, Event, InquiryId, InquiryReply, MessageId, Mode, OpenApproval,
    OpenInquiry, SessionId, TurnId, Usage,
};

/// What a person chose last in a folder, with an agent. What is absent was never chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentChoice {
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// The approval mode.
    pub mode: Option<Mode>,
}

/// A session as the list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// The workspace folder that grants and trust go by.
    pub folder: String,
    /// Where it works.
    pub cwd: String,
    /// The first prompt, cut, or what the person called it.
    pub title: Option<String>,
    /// The agent's name; none is the default agent.
    pub agent: Option<String>,
    /// The approval mode.
    pub mode: Mode,
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// When it was made, in ms since the epoch.
    pub created_ms: i64,
    /// When its last event happened, in ms since the epoch.
    pub updated_ms: i64,
    /// The number of its last event; 0 when there is none. Events count from 1.
    pub last_seq: u64,
    /// The turn that has no stored end.
    pub open_turn: Option<TurnId>,
    /// Tokens so far.
    pub usage: Usage,
    /// Cost so far, as far as it is known.
    pub cost: Option<Cost>,
}

impl SessionRow {
    /// A session that begins now.
    pub fn new(id: SessionId, folder: impl Into<String>, cwd: impl Into<String>, now_ms: i64) -> Self {
        Self {
            id,
            folder: folder.into(),
            cwd: cwd.into(),
            title: None,
            agent: None,
            mode: Mode::default(),
            model: None,
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

/// A change of a session's own data; only what is set changes. `agent/setMode` and the like emit
/// `SessionUpdated`, which the writer applies by itself; this is for changes without an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChange {
    /// The title.
    pub title: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The approval mode.
    pub mode: Option<Mode>,
    /// The model.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
}

/// What was accepted or shown but is not settled by an event yet; one row each.
#[derive(Clone, Debug, PartialEq)]
pub enum PendingEvent {
    /// A piece of a message in progress: what it grew by since the piece before. Dropped by the event that
    /// completes or retracts the message.
    Partial {
        /// The message.
        message: MessageId,
        /// Bytes of text and reasoning in the pieces before: one that does not go on where they end is alone.
        before: u64,
        /// Its turn.
        turn: Option<TurnId>,
        /// The text.
        text: String,
        /// The reasoning.
        reasoning: String,
    },
    /// A steer that was accepted and has not joined the history.
    Steer {
        /// The caller's key.
        key: String,
        /// The turn it was meant for.
        turn: Option<TurnId>,
        /// What was said.
        content: Vec<Block>,
    },
    /// A prompt that waits for the turn's end.
    Queued {
        /// The caller's key.
        key: String,
        /// What was said.
        content: Vec<Block>,
    },
    /// A decision that was accepted and not yet acted upon. Dropped by `ApprovalResolved`.
    Decision {
        /// The question.
        approval: ApprovalId,
        /// The answer.
        decision: Decision,
    },
    /// An open question. Kept by the writer itself from `ApprovalRequested` to `ApprovalResolved`.
    Approval(OpenApproval),
    /// An open inquiry. Kept by the writer itself from `InquiryRequested` to `InquiryResolved`.
    Inquiry(OpenInquiry),
    /// What was said to an inquiry and not yet acted upon. Dropped by `InquiryResolved`.
    Reply {
        /// The inquiry.
        inquiry: InquiryId,
        /// The answer.
        reply: InquiryReply,
    },
}

impl PendingEvent {
    /// What it is stored under.
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

/// The kind of a [`PendingEvent`] row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PendingKind {
    Partial,
    Steer,
    Queued,
    Decision,
    Approval,
    Inquiry,
    Reply,
}

impl PendingKind {
    pub(super) fn as_word(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Steer => "steer",
            Self::Queued => "queued",
            Self::Decision => "decision",
            Self::Approval => "approval",
            Self::Inquiry => "inquiry",
            Self::Reply => "reply",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "partial" => Some(Self::Partial),
            "steer" => Some(Self::Steer),
            "queued" => Some(Self::Queued),
            "decision" => Some(Self::Decision),
            "approval" => Some(Self::Approval),
            "inquiry" => Some(Self::Inquiry),
            "reply" => Some(Self::Reply),
            _ => None,
        }
    }
}

/// Stands between a message's id and the place of a piece of it.
pub(super) const PIECE: char = '/';

/// Comes right after [`PIECE`]: the end of the range of all pieces.
pub(super) const AFTER_PIECES: char = '0';

/// Names one [`PendingEvent`] row of a session, or all pieces of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PendingKey {
    pub(super) kind: PendingKind,
    pub(super) key: String,
}

impl PendingKey {
    /// The partial text of a message: all its pieces.
    pub fn for_partial(message: &MessageId) -> Self {
        Self {
            kind: PendingKind::Partial,
            key: message.to_string(),
        }
    }

    fn for_piece(message: &MessageId, before: u64) -> Self {
        Self {
            kind: PendingKind::Partial,
            key: format!("{message}{PIECE}{before}"),
        }
    }

    /// Whether a row with the key `other` is meant.
    pub(super) fn matches_key(&self, other: &Self) -> bool {
        let rest = other.key.strip_prefix(&self.key);
        let piece = self.kind == PendingKind::Partial && rest.is_some_and(|rest| rest.starts_with(PIECE));
        self.kind == other.kind && (rest == Some("") || piece)
    }

    /// A steer.
    pub fn for_steer(key: &str) -> Self {
        Self {
            kind: PendingKind::Steer,
            key: key.to_owned(),
        }
    }

    /// A queued prompt.
    pub fn for_queued(key: &str) -> Self {
        Self {
            kind: PendingKind::Queued,
            key: key.to_owned(),
        }
    }

    /// A decision on a question.
    pub fn for_decision(approval: &ApprovalId) -> Self {
        Self {
            kind: PendingKind::Decision,
            key: approval.to_string(),
        }
    }

    /// An open inquiry.
    pub fn for_inquiry(inquiry: &InquiryId) -> Self {
        Self {
            kind: PendingKind::Inquiry,
            key: inquiry.to_string(),
        }
    }

    /// What was said to an inquiry.
    pub fn for_reply(inquiry: &InquiryId) -> Self {
        Self {
            kind: PendingKind::Reply,
            key: inquiry.to_string(),
        }
    }

    /// An open question.
    pub fn for_approval(approval: &ApprovalId) -> Self {
        Self {
            kind: PendingKind::Approval,
            key: approval.to_string(),
        }
    }
}

/// An event as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its number in the session.
    pub seq: u64,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    /// When, in ms since the epoch.
    pub at_ms: i64,
    /// What happened.
    pub event: Event,
}

/// A record that could not be read and was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which: `event 12`, `steer k`.
    pub record: String,
    /// Why.
    pub why: String,
}

impl Skipped {
    /// The code of the warning.
    pub const CODE: &'static str = "store_record_skipped";

    /// One sentence about what was skipped in a session, for a warning; none when nothing was.
    pub fn format_warning(session: &SessionId, skipped: &[Self]) -> Option<String> {
        let first = skipped.first()?;
        let count = match skipped.len() {
            1 => "one unreadable record".to_owned(),
            n => format!("{n} unreadable records"),
        };
        Some(format!(
            "session {session}: skipped {count} (first: {}: {})",
            first.record, first.why
        ))
    }
}

/// Which part of a session's events is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The first ones after this number.
    After(u64),
    /// The last ones before this number.
    Before(u64),
    /// The last ones.
    Tail,
}

/// A page of a session's events, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    /// The events.
    pub events: Vec<StoredEvent>,
    /// What could not be read in this page.
    pub skipped: Vec<Skipped>,
    /// Numbers of the first and last record of the page, skipped ones included; none when it is empty.
    pub span: Option<(u64, u64)>,
    /// Whether there are older events.
    pub more_before: bool,
    /// Whether there are newer events.
    pub more_after: bool,
}

/// A session with a page of its events and all that is pending, read at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSession {
    /// Its row.
    pub session: SessionRow,
    /// The page.
    pub page: EventPage,
    /// What is pending, in the order it was accepted.
    pub pending: Vec<PendingEvent>,
    /// Pending rows that could not be read.
    pub skipped: Vec<Skipped>,
}

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only sessions that work here.
    pub cwd: Option<String>,
    /// Only sessions in whose title, prompts or final texts all these words stand together.
    pub query: Option<String>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most; 0 stands for 50.
    pub limit: usize,
}

/// A page of the list, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionHit>,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}

/// A listed session and where the query was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHit {
    /// The session.
    pub session: SessionRow,
    /// The newest place where it was found, when a query was given.
    pub found: Option<SearchHit>,
}

/// Where a query was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The event; none when it is the title.
    pub seq: Option<u64>,
    /// The text around it, one line.
    pub excerpt: String,
}
