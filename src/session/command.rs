//! What a session can be asked, and what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::{
    AgentError, ApprovalId, Block, ChangeKind, Cost, Decision, Grant, Inquiry, InquiryId, InquiryReply,
    InstructionFile, MessageId, Mode, OpenApproval, OpenInquiry, PromptQueue, RequestSubject, SessionId,
    ToolCallId, TurnEnd, TurnId, Usage,
};
use crate::provider::{CircuitView, Effort};
use crate::store::{Holder, Skipped, StoreHealth};

/// Something asked of a session. Commands are handled in the order they were posted.
#[derive(Debug)]
pub enum SessionCommand {
    /// Start a turn.
    Prompt {
        /// What the person says.
        content: Vec<Block>,
        /// Told when the turn has started, or why it has not.
        reply: PromptReply,
    },
    /// Start a turn that goes on where the last one stopped.
    Resume {
        /// As for a prompt.
        reply: PromptReply,
    },
    /// Start a turn that does nothing but make the history smaller.
    Compact {
        /// What the summary shall keep.
        instructions: Option<String>,
        /// As for a prompt.
        reply: PromptReply,
    },
    /// Say something while a turn runs.
    Steer {
        /// What the person says.
        content: Vec<Block>,
        /// Refused when another turn runs.
        expected: Option<TurnId>,
        /// Told when it is accepted and stored.
        reply: Reply<TurnId>,
    },
    /// Something about the prompts that wait for the turn's end.
    Queue {
        /// What.
        action: QueueAction,
        /// What waits then.
        reply: Reply<QueueReply>,
    },
    /// Put the files of a turn and of those after it back.
    Revert {
        /// The first turn.
        turn: TurnId,
        /// Only say what would be done.
        dry_run: bool,
        /// Take the last revert of that turn back instead.
        redo: bool,
        /// What was done.
        reply: Reply<RevertReply>,
    },
    /// Decide an open approval.
    Decide {
        /// Which.
        approval: ApprovalId,
        /// How.
        decision: Decision,
        /// Told when it is accepted.
        reply: Reply<()>,
    },
    /// Answer an open inquiry.
    Answer {
        /// Which.
        inquiry: InquiryId,
        /// What.
        said: InquiryAnswer,
        /// Told when it is accepted.
        reply: Reply<()>,
    },
    /// Change the approval mode.
    SetMode {
        /// To this.
        mode: Mode,
        /// Told when done.
        reply: Reply<()>,
    },
    /// Change the model for the turns to come.
    SetModel {
        /// `provider/model`; none leaves it.
        model: Option<String>,
        /// How hard it shall think; none leaves it.
        effort: Option<Effort>,
        /// Told when done.
        reply: Reply<()>,
    },
    /// Change the title.
    Rename {
        /// To this.
        title: String,
        /// Told when done.
        reply: Reply<()>,
    },
    /// Show the session to a client.
    Load {
        /// Without taking the session over: no lock, nothing mended.
        read_only: bool,
        /// The answer.
        reply: Reply<LoadReply>,
    },
    /// What is open and what it has done; takes nothing over.
    Inspect {
        /// The answer.
        reply: Reply<SessionSnapshot>,
    },
    /// The same with the counts of its events, which are read for it where the session is not open.
    Measure {
        /// The answer.
        reply: Reply<SessionSnapshot>,
    },
    /// Close the circuit of a tool by hand; whether it was open.
    ResetCircuit {
        /// The tool.
        tool: String,
        /// The answer.
        reply: Reply<bool>,
    },
    /// Take a grant of this session back.
    RevokeGrant {
        /// Its id.
        id: String,
        /// Whether there was one.
        reply: oneshot::Sender<bool>,
    },
    /// Delete the session with all that belongs to it.
    Delete {
        /// Told when it is gone.
        reply: Reply<()>,
    },
    /// The server ends: interrupt the turn, store its end, release the lock.
    End,
}

/// What became of files that were to be put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevertReply {
    /// The turns that it concerned, the first one first.
    pub turns: Vec<TurnId>,
    /// Files that were put back, or would be: absolute, as told to the model, and what becomes of them.
    pub files: Vec<(String, String, ChangeKind)>,
    /// Files that were left as they are: absolute, as told to the model, and why.
    pub conflicts: Vec<(String, String, String)>,
}

/// What is done with the prompts that wait.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueAction {
    /// They are told.
    List,
    /// One more.
    Add(Vec<Block>),
    /// Another text in its place.
    Edit(String, Vec<Block>),
    /// One less.
    Remove(String),
    /// This one now, else the next one.
    SendNow(Option<String>),
}

/// What waits, and what became of the one that was meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueReply {
    /// Nothing starts by itself.
    pub paused: bool,
    /// Ids and contents, the next one first.
    pub prompts: Vec<(String, Vec<Block>)>,
    /// The one that was added.
    pub added: Option<String>,
    /// The turn that took it.
    pub turn: Option<TurnId>,
}

/// What a person said to an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub enum InquiryAnswer {
    /// Raise the limit by this much: US dollars, steps, calls, seconds; which of them, the limit says.
    RaiseBy(f64),
    /// What needs no unit.
    Reply(InquiryReply),
}

impl InquiryAnswer {
    /// In the unit of the inquiry.
    pub(super) fn into_inquiry_reply(self, inquiry: &Inquiry) -> InquiryReply {
        match (self, &inquiry.subject) {
            (Self::RaiseBy(by), RequestSubject::Limit(reached)) => {
                InquiryReply::Raise(reached.limit.convert_to_amount(by))
            }
            (Self::RaiseBy(_), RequestSubject::Question(_)) => InquiryReply::Raise(0),
            (Self::Reply(reply), _) => reply,
        }
    }
}

/// Where a command's answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, CommandError>>;

/// Where a started turn is told.
pub(super) type PromptReply = Reply<TurnHandle>;

/// A turn that was started.
#[derive(Debug)]
pub struct TurnHandle {
    /// Its id.
    pub turn: TurnId,
    /// How it ended.
    pub ended: oneshot::Receiver<TurnOutcome>,
    /// Told when its `turnEnded` has been passed on.
    pub passed: oneshot::Receiver<()>,
}

impl TurnHandle {
    /// Waits for the end, until it has been passed on to the client. None when the session is gone.
    pub async fn wait_for_outcome(self) -> Option<TurnOutcome> {
        let outcome = self.ended.await.ok()?;
        // The store ends with the server; then there is nothing to wait for.
        let _ = self.passed.await;
        Some(outcome)
    }
}

/// How a turn ended, for the one who asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The turn.
    pub turn: TurnId,
    /// Its end.
    pub end: TurnEnd,
    /// The final answer: the last message's text.
    pub text: String,
    /// Tokens of the conversation before and after, where it was made smaller by hand.
    pub compacted: Option<(u64, u64)>,
}

/// A session's own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// The workspace folder that settings, grants and trust go by.
    pub folder: PathBuf,
    /// Where it works.
    pub cwd: PathBuf,
    /// The agent's name in the configuration.
    pub agent: Option<String>,
}

/// What a client needs to show a session and follow it from there.
#[derive(Debug)]
pub struct LoadReply {
    /// The session's own data.
    pub snapshot: SessionSnapshot,
    /// The message in progress.
    pub partial: Option<PartialMessage>,
    /// What could not be read while it was made live or looked at; the page may lack more.
    pub skipped: Vec<Skipped>,
    /// Told when all that was recorded up to now is stored and passed on: then `partial` and `seq` fit what
    /// the client has been sent, and a page that is read holds all of it.
    pub passed: oneshot::Receiver<StoreHealth>,
}

/// A message in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialMessage {
    /// The message.
    pub message: MessageId,
    /// Its text so far.
    pub text: String,
    /// Its reasoning so far.
    pub reasoning: String,
    /// Tool calls that it has begun to ask for.
    pub tool_calls: Vec<ToolCallId>,
    /// Bytes of text and of reasoning that were given to the store.
    pub(super) stored: (usize, usize),
}

impl PartialMessage {
    /// Of a message that begins.
    pub(super) fn from_message_id(message: MessageId) -> Self {
        Self {
            message,
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            stored: (0, 0),
        }
    }
}

/// Where a session stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    /// Its own data.
    pub info: SessionInfo,
    /// Its title.
    pub title: Option<String>,
    /// Its mode.
    pub mode: Mode,
    /// Its model, as `provider/model`.
    pub model: Option<String>,
    /// How hard the model shall think.
    pub effort: Option<Effort>,
    /// The number of its last event.
    pub seq: u64,
    /// The running turn.
    pub turn: Option<TurnId>,
    /// The last turn, when it can be gone on with.
    pub resumable: Option<TurnId>,
    /// Open approvals.
    pub approvals: Vec<OpenApproval>,
    /// Those of them that are decided, until their turn is resumed.
    pub decided: BTreeSet<ApprovalId>,
    /// Open inquiries.
    pub inquiries: Vec<OpenInquiry>,
    /// Those of them that are answered, until their turn is resumed.
    pub replied: BTreeSet<InquiryId>,
    /// The prompts that wait for the turn's end.
    pub queue: PromptQueue,
    /// The files that the last turn's instructions were made of.
    pub instructions: Option<Arc<[InstructionFile]>>,
    /// Grants of this session alone.
    pub grants: Vec<Grant>,
    /// What it has done.
    pub metrics: SessionMetrics,
    /// The circuits of tools that are not closed.
    pub circuits: BTreeMap<String, CircuitView>,
}

impl SessionSnapshot {
    /// Open approvals that wait for an answer.
    pub fn undecided_approvals(&self) -> impl Iterator<Item = &OpenApproval> {
        let open = self.approvals.iter();
        open.filter(|open| !self.decided.contains(&open.approval.id))
    }

    /// Open inquiries that wait for an answer.
    pub fn unanswered_inquiries(&self) -> impl Iterator<Item = &OpenInquiry> {
        let open = self.inquiries.iter();
        open.filter(|open| !self.replied.contains(&open.inquiry.id))
    }
}

/// What a session has done, also before it was loaded; waiting prompts and reverts count since then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMetrics {
    /// When the session was made, in ms since the epoch.
    pub started_at: i64,
    /// Tokens of the whole session.
    pub usage: Usage,
    /// Cost of the whole session, as far as it is known.
    pub cost: Option<Cost>,
    /// Model calls, each try of its own.
    pub requests: u64,
    /// Calls made again.
    pub retries: u64,
    /// Summaries made of a history that grew too long.
    pub compactions: u64,
    /// Turns cancelled.
    pub cancels: u64,
    /// Prompts that were to wait for a turn's end.
    pub queued_prompts: u64,
    /// Times that files were taken back, or made again.
    pub reverts: u64,
    /// Tool calls by tool.
    pub tool_calls: BTreeMap<String, u64>,
    /// Errors by code, those included that ended no turn.
    pub errors: BTreeMap<&'static str, u64>,
}

/// Why a session does not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// There is no such session.
    #[error("unknown session {0}; see agent/listSessions")]
    UnknownSession(SessionId),
    /// One turn at a time.
    #[error("turn {0} is running; add to it with agent/steer, or stop it with agent/cancel")]
    TurnRunning(TurnId),
    /// A steer without a turn.
    #[error("no turn is running; send agent/prompt")]
    NoTurn,
    /// A steer for another turn.
    #[error("turn {expected} is no longer running; turn {running} is")]
    OtherTurn {
        /// What was expected.
        expected: TurnId,
        /// What runs.
        running: TurnId,
    },
    /// Nothing was interrupted.
    #[error("the last turn was not interrupted or cancelled; send agent/prompt")]
    NothingToResume,
    /// The session has no such turn.
    #[error("turn {0} does not belong to this session")]
    UnknownTurn(TurnId),
    /// The turn was not reverted.
    #[error("turn {0} was not reverted; there is nothing to redo")]
    NothingToRedo(TurnId),
    /// No turn of the session has ended yet.
    #[error("session {0} has no finished turn to fork")]
    NothingToFork(SessionId),
    /// No such prompt waits.
    #[error("no queued prompt {0}; list them with agent/queue")]
    UnknownPrompt(String),
    /// As many prompts wait as may.
    #[error("queue full")]
    QueueFull,
    /// The approval is unknown or settled.
    #[error("approval {0} is unknown or settled; see agent/listApprovals")]
    UnknownApproval(ApprovalId),
    /// The inquiry is unknown or settled.
    #[error("question {0} is unknown or settled; see agent/listApprovals")]
    UnknownInquiry(InquiryId),
    /// The answer does not fit the question.
    #[error("{0}")]
    BadReply(String),
    /// This call cannot be allowed beyond this once.
    #[error("this call can be allowed only once; no rule describes it safely")]
    NoRule,
    /// The rule that the person edited cannot be read.
    #[error("invalid rule: {0}")]
    BadRule(String),
    /// The slash command that was sent cannot be used.
    #[error("{0}")]
    BadCommand(String),
    /// The model cannot be there.
    #[error("{0}")]
    UnknownModel(String),
    /// Only the provider's own list can tell whether the model is there, and it is not at hand.
    #[error("the provider's list of models is needed first")]
    NeedsModelList(Box<SessionInfo>),
    /// Another server has it.
    #[error("session {session} is open in another agentls: {holder}")]
    Locked {
        /// The session.
        session: SessionId,
        /// Who has it.
        holder: Holder,
    },
    /// The store failed.
    #[error("{message}", message = .0.message)]
    Store(Box<AgentError>),
    /// Its mailbox is full.
    #[error("the session has too many waiting requests; try again shortly")]
    Busy,
    /// The server ends.
    #[error("the server is shutting down")]
    Ending,
}
