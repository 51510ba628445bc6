//! What the checker remembers of a session: what a perfect client would know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::reverts::MadeChange;
use super::spent::CountedTokens;
use crate::coverage::SeenConditions;
use agentls::domain::{
    ApprovalId, Cost, Decision, DecisionKind, InquiryId, InquiryReply, MessageId, Mode, SessionId,
    ToolCallId, ToolCallStatus, TurnId, Usage,
};
use agentls::provider::HistoryItem;
use agentls::session::{SessionChoice, SessionState};
use agentls::store::StoredEvent;

/// A session.
pub(super) struct ShownSession {
    /// What it was made with.
    pub(super) first_mode: Mode,
    /// Its durable events, as they were shown.
    pub(super) events: Vec<StoredEvent>,
    /// The number before the first of them: not 0 where the store has lost some.
    pub(super) base: u64,
    /// The store has lost some of its events, as it said.
    pub(super) torn: bool,
    /// A crash came while the store failed: what was only in memory is gone, of changes of files too.
    pub(super) cut_short: bool,
    /// So many of them are surely stored.
    pub(super) safe: usize,
    pub(super) fold: SessionState,
    pub(super) tokens: CountedTokens,
    /// Something has come from outside (R-TOOL-7).
    pub(super) foreign: bool,
    pub(super) turns: BTreeMap<TurnId, ShownTurn>,
    pub(super) messages: BTreeMap<MessageId, ShownMessage>,
    pub(super) calls: BTreeMap<ToolCallId, ShownCall>,
    pub(super) approvals: BTreeMap<ApprovalId, ShownQuestion>,
    pub(super) inquiries: BTreeMap<InquiryId, ShownInquiry>,
    /// Models that may have been asked since the turn's start; empty where that is not known.
    pub(super) models: BTreeSet<String>,
    /// Modes that may have been in force since the last turn's end.
    pub(super) modes: Vec<Mode>,
    /// Modes that were sent and not seen.
    pub(super) unconfirmed: Vec<Mode>,
    /// Rules that were sent with a decision.
    pub(super) rules_sent: Vec<String>,
    /// Rules of decisions that were acted upon (R-APPR-4: not before the turn is resumed).
    pub(super) rules: Vec<String>,
    /// A question that a rule answers, and that must be settled next.
    pub(super) granted: Option<ApprovalId>,
    /// Cancels that were sent: which turn, when.
    pub(super) cancels: Vec<Cancel>,
    /// Histories that providers were sent and that what is shown has not come to yet.
    pub(super) sent: VecDeque<Vec<Arc<HistoryItem>>>,
    /// The last history that a provider was sent.
    pub(super) last_sent: Vec<Arc<HistoryItem>>,
    /// The last one that what is shown has caught up with.
    pub(super) matched: Vec<Arc<HistoryItem>>,
    /// The turn that a crash has cut.
    pub(super) cut: Option<TurnId>,
    /// When it was cut, in virtual ms.
    pub(super) cut_at: i64,
    /// Titles and modes whose change was confirmed to the user.
    pub(super) confirmed: Vec<String>,
    /// Prompts whose asker went away: their turns may be canceled.
    pub(super) abandoned: bool,
    /// The last turn did not complete: what waits for its end is held.
    pub(super) held: bool,
    /// The user has asked for what waits.
    pub(super) sent_now: bool,
    /// Files were put back, and nothing was written since.
    pub(super) reverted: Option<MadeChange>,
    /// How many wait, as was shown last, and when, in virtual ms; none where they are held.
    pub(super) due: Option<(usize, i64)>,
    /// Compactions that were asked for in this life, neither refused nor shown to have begun.
    pub(super) compactions: u32,
}

/// A turn.
#[derive(Default)]
pub(super) struct ShownTurn {
    pub(super) ended: bool,
    pub(super) resumes: bool,
    pub(super) prompts: u32,
    /// Continues, all of them and by reason; those that make the history smaller since the last step that led on.
    pub(super) transitions: u32,
    pub(super) took: BTreeMap<&'static str, u32>,
    /// Steps that led on.
    pub(super) steps: u32,
    /// Nudges in a row, before the last one, that brought next to nothing, and what that one has brought.
    pub(super) vain: u32,
    pub(super) brought: Option<u64>,
    /// It only makes the history smaller.
    pub(super) upkeep: bool,
    /// What waited began it.
    pub(super) queued: bool,
    pub(super) usage: Usage,
    pub(super) cost: Cost,
    /// What people raised its limits by: tool calls, steps.
    pub(super) more_calls: u64,
    pub(super) more_steps: u64,
    /// Tool calls that it has announced, and how many of them ran.
    pub(super) announced: BTreeSet<ToolCallId>,
    pub(super) ran: u64,
    /// Objections of stop hooks.
    pub(super) objections: u32,
    pub(super) planned: bool,
    /// Tool calls since it last judged its progress.
    pub(super) calls: u32,
    /// Calls were held back since its last decision.
    pub(super) nudged: bool,
    /// Steps in a row whose calls were held back.
    pub(super) held_back: u32,
    /// A call failed.
    pub(super) failed: bool,
    /// Circuits of tools that opened in it: when that was told, and until when.
    pub(super) circuits: BTreeMap<String, (i64, i64)>,
    /// Calls that were asked for while their tool's circuit was open.
    pub(super) barred: BTreeMap<ToolCallId, String>,
    /// So many hooks run.
    pub(super) hooks: u32,
    /// Since its last decision.
    pub(super) met: SeenConditions,
}

/// A message that has been shown in part.
#[derive(Default)]
pub(super) struct ShownMessage {
    pub(super) turn: Option<TurnId>,
    pub(super) text: String,
    pub(super) reasoning: String,
    /// When its text had which length.
    pub(super) trail: Vec<(i64, usize)>,
    pub(super) tools: Vec<ToolCallId>,
    pub(super) over: Option<CallEnd>,
    /// The store failed while it came.
    pub(super) degraded: bool,
}

/// How a message came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    Done,
    Retracted,
}

/// A tool call.
pub(super) struct ShownCall {
    pub(super) turn: TurnId,
    pub(super) name: String,
    pub(super) input: Arc<serde_json::Value>,
    pub(super) status: Option<ToolCallStatus>,
    /// Content from outside had reached the model when it asked for the call.
    pub(super) tainted: bool,
}

/// A question.
pub(super) struct ShownQuestion {
    pub(super) call: ToolCallId,
    pub(super) name: String,
    pub(super) open: bool,
    pub(super) sent: Vec<Decision>,
    pub(super) accepted: Option<Decision>,
    /// The last settlement allowed it.
    pub(super) allowed: bool,
}

/// A limit or a question.
#[derive(Default)]
pub(super) struct ShownInquiry {
    pub(super) open: bool,
    pub(super) sent: Vec<InquiryReply>,
    pub(super) accepted: Option<InquiryReply>,
}

/// A cancel.
pub(super) struct Cancel {
    pub(super) turn: Option<TurnId>,
    pub(super) at: i64,
    /// The turn that was seen to run.
    pub(super) running: Option<TurnId>,
    /// A tool ran that may finish.
    pub(super) patient: bool,
}

/// A tool's effect that goes on.
pub(super) struct ShownCallState {
    pub(super) session: SessionId,
    pub(super) patient: bool,
}

impl ShownSession {
    pub(super) fn new(mode: Mode) -> Self {
        let fold = SessionState {
            choice: SessionChoice {
                mode,
                ..SessionChoice::default()
            },
            ..SessionState::default()
        };
        Self {
            models: BTreeSet::new(),
            first_mode: mode,
            events: Vec::new(),
            base: 0,
            torn: false,
            cut_short: false,
            safe: 0,
            fold,
            tokens: CountedTokens::default(),
            foreign: false,
            turns: BTreeMap::new(),
            messages: BTreeMap::new(),
            calls: BTreeMap::new(),
            approvals: BTreeMap::new(),
            inquiries: BTreeMap::new(),
            modes: vec![mode],
            unconfirmed: Vec::new(),
            rules_sent: Vec::new(),
            rules: Vec::new(),
            granted: None,
            cancels: Vec::new(),
            sent: VecDeque::new(),
            last_sent: Vec::new(),
            matched: Vec::new(),
            cut: None,
            cut_at: 0,
            confirmed: Vec::new(),
            abandoned: false,
            held: false,
            sent_now: false,
            due: None,
            reverted: None,
            compactions: 0,
        }
    }
}

impl ShownQuestion {
    /// A decision to allow was sent.
    pub(super) fn allow_sent(&self) -> bool {
        self.sent.iter().any(|decision| is_permission(decision.kind))
    }
}

/// Whether it lets the call run.
pub(super) fn is_permission(kind: DecisionKind) -> bool {
    match kind {
        DecisionKind::Allow | DecisionKind::AllowSession | DecisionKind::AllowAlways => true,
        DecisionKind::Deny => false,
    }
}
