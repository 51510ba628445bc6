//! What the checker remembers of a session: everything a perfect client would know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::reverts::MadeChange;
use super::spent::CountedTokens;
use crate::coverage::SeenConditions;
use agentls::domain::{
    ApprovalId, Cost, Decision, DecisionKind, ForeignContent, InquiryId, InquiryReply, MessageId, Mode,
    SessionId, ToolCallId, ToolCallStatus, TurnId, Usage,
};
use agentls::provider::HistoryItem;
use agentls::session::{SessionChoice, SessionState};
use agentls::store::StoredEvent;

/// A session, as events show it.
pub(super) struct ShownSession {
    /// The mode at its creation.
    pub(super) first_mode: Mode,
    /// The durable events in the order shown.
    pub(super) events: Vec<StoredEvent>,
    /// The sequence number before the first event: above 0 if the store lost some.
    pub(super) base: u64,
    /// The store reported that it lost some of the events.
    pub(super) is_cut_off: bool,
    /// A crash came while the store was failing: everything only in memory is lost, including file changes.
    pub(super) cut_short: bool,
    /// How many of the events are certainly stored.
    pub(super) safe: usize,
    pub(super) fold: SessionState,
    pub(super) tokens: CountedTokens,
    /// Where outside content came from that has reached the session.
    pub(super) foreign: ForeignContent,
    pub(super) turns: BTreeMap<TurnId, ShownTurn>,
    pub(super) messages: BTreeMap<MessageId, ShownMessage>,
    pub(super) calls: BTreeMap<ToolCallId, ShownCall>,
    pub(super) approvals: BTreeMap<ApprovalId, ShownQuestion>,
    pub(super) inquiries: BTreeMap<InquiryId, ShownInquiry>,
    /// Models that the server may have called since the start of the turn; empty if unknown.
    pub(super) models: BTreeSet<String>,
    /// Modes that may have been in force since the end of the last turn.
    pub(super) modes: Vec<Mode>,
    /// Modes that the user sent and no event has confirmed.
    pub(super) unconfirmed: Vec<Mode>,
    /// The agent that the server has confirmed.
    pub(super) agent: Option<&'static str>,
    /// Whether `first_mode` is the mode without a choice of the user. An agent that was sent brings another one.
    pub(super) is_first_mode_known: bool,
    /// Rules that the user sent with a decision.
    pub(super) rules_sent: Vec<String>,
    /// Rules of decisions that have taken effect (R-APPR-4: not before the turn resumes).
    pub(super) rules: Vec<String>,
    /// An approval that a rule grants and the next event must resolve.
    pub(super) granted: Option<ApprovalId>,
    /// Cancels that the user sent.
    pub(super) cancels: Vec<Cancel>,
    /// Histories sent to providers that the events shown have not reached yet.
    pub(super) sent: VecDeque<Vec<Arc<HistoryItem>>>,
    /// The last history sent to a provider.
    pub(super) last_sent: Vec<Arc<HistoryItem>>,
    /// The last history sent that the events shown have reached.
    pub(super) matched: Vec<Arc<HistoryItem>>,
    /// The turn that a crash cut.
    pub(super) cut: Option<TurnId>,
    /// When a crash cut the turn, in virtual ms.
    pub(super) cut_at: i64,
    /// Titles and modes whose change the server confirmed to the user.
    pub(super) confirmed: Vec<String>,
    /// The sender of a prompt disconnected, so its turn may be canceled.
    pub(super) abandoned: bool,
    /// How many requests to close it have no answer yet. Each cancels what runs until then.
    pub(super) closing: u32,
    /// The last turn did not complete, so the queue is paused.
    pub(super) is_paused: bool,
    /// The user asked the server to send the queued prompts now.
    pub(super) sent_now: bool,
    /// The last revert, if nothing was written since.
    pub(super) reverted: Option<MadeChange>,
    /// The length of the last queue shown and when, in virtual ms; none if the queue is paused.
    pub(super) due: Option<(usize, i64)>,
    /// Compactions requested in this server run that were neither refused nor shown to start.
    pub(super) compactions: u32,
}

/// A turn, as events show it.
#[derive(Default)]
pub(super) struct ShownTurn {
    pub(super) ended: bool,
    pub(super) resumes: bool,
    pub(super) prompts: u32,
    /// All decisions to continue, and their counts by reason. Counts of compaction retries restart at each
    /// step that leads to another.
    pub(super) transitions: u32,
    pub(super) took: BTreeMap<&'static str, u32>,
    /// Steps that led to another.
    pub(super) steps: u32,
    /// Consecutive low-yield nudges before the last one, and the output tokens since the last one.
    pub(super) low_yield_nudges: u32,
    pub(super) nudge_tokens: Option<u64>,
    /// The turn only compacts the history.
    pub(super) upkeep: bool,
    /// A queued prompt started the turn.
    pub(super) queued: bool,
    pub(super) usage: Usage,
    pub(super) cost: Cost,
    /// By how much users raised its limits: tool calls and steps.
    pub(super) more_calls: u64,
    pub(super) more_steps: u64,
    /// Tool calls that the turn announced, and how many of them ran.
    pub(super) announced: BTreeSet<ToolCallId>,
    pub(super) run_count: u64,
    /// The number of objections from stop hooks.
    pub(super) objections: u32,
    pub(super) planned: bool,
    /// Tool calls since the turn last reflected on its progress.
    pub(super) calls: u32,
    /// The doom-loop guard held back calls since the last decision.
    pub(super) nudged: bool,
    /// Consecutive steps with held-back calls.
    pub(super) held_back: u32,
    /// A tool call failed.
    pub(super) failed: bool,
    /// Tool circuits that opened in the turn: when the event arrived, and until when they stay open.
    pub(super) circuits: BTreeMap<String, (i64, i64)>,
    /// Calls that the model requested while their tool's circuit was open.
    pub(super) barred: BTreeMap<ToolCallId, String>,
    /// The number of hooks running.
    pub(super) hooks: u32,
    /// The phase and the faults since the last decision.
    pub(super) conditions: SeenConditions,
}

/// A message, as its deltas show it.
#[derive(Default)]
pub(super) struct ShownMessage {
    pub(super) turn: Option<TurnId>,
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The length of the text over time.
    pub(super) trail: Vec<(i64, usize)>,
    pub(super) tools: Vec<ToolCallId>,
    pub(super) end: Option<CallEnd>,
    /// The store was failing while the message arrived.
    pub(super) degraded: bool,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    Done,
    Retracted,
}

/// A tool call, as events show it.
pub(super) struct ShownCall {
    pub(super) turn: TurnId,
    pub(super) name: String,
    pub(super) input: Arc<serde_json::Value>,
    pub(super) status: Option<ToolCallStatus>,
    /// Where outside content came from that had reached the model when it requested the call.
    pub(super) foreign: ForeignContent,
}

/// An approval, as events show it.
pub(super) struct ShownQuestion {
    pub(super) call: ToolCallId,
    pub(super) name: String,
    pub(super) open: bool,
    pub(super) sent: Vec<Decision>,
    pub(super) accepted: Option<Decision>,
    /// The last resolution allowed the call.
    pub(super) allowed: bool,
}

/// An inquiry, about a limit or a question.
#[derive(Default)]
pub(super) struct ShownInquiry {
    pub(super) open: bool,
    pub(super) sent: Vec<InquiryReply>,
    pub(super) accepted: Option<InquiryReply>,
}

/// A cancel that the user sent.
pub(super) struct Cancel {
    pub(super) turn: Option<TurnId>,
    pub(super) at: i64,
    /// The turn that was running, according to the events shown.
    pub(super) running: Option<TurnId>,
    /// A running tool may finish before the turn ends.
    pub(super) patient: bool,
}

/// A tool effect in progress.
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
            is_cut_off: false,
            cut_short: false,
            safe: 0,
            fold,
            tokens: CountedTokens::default(),
            foreign: ForeignContent::None,
            turns: BTreeMap::new(),
            messages: BTreeMap::new(),
            calls: BTreeMap::new(),
            approvals: BTreeMap::new(),
            inquiries: BTreeMap::new(),
            modes: vec![mode],
            unconfirmed: Vec::new(),
            agent: None,
            is_first_mode_known: true,
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
            closing: 0,
            is_paused: false,
            sent_now: false,
            due: None,
            reverted: None,
            compactions: 0,
        }
    }
}

impl ShownQuestion {
    /// Whether the user sent a decision that allows the call.
    pub(super) fn allow_sent(&self) -> bool {
        self.sent.iter().any(|decision| is_permission(decision.kind))
    }
}

/// Whether the decision lets the call run.
pub(super) fn is_permission(kind: DecisionKind) -> bool {
    match kind {
        DecisionKind::Allow | DecisionKind::AllowSession | DecisionKind::AllowAlways => true,
        DecisionKind::Deny => false,
    }
}
