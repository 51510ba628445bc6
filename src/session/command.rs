//! The commands that a session accepts, and their replies.
//!
//! Plain data: no logic of the actor, no wire shapes. The server translates requests into these types and back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::base::CancellationToken;
use crate::domain::{
    AgentError, ApprovalId, Block, ChangeKind, Cost, Decision, Grant, Inquiry, InquiryId, InquiryReply,
    InstructionFile, MessageId, Mode, OpenApproval, OpenInquiry, PromptQueue, RequestSubject, SessionId,
    ToolCallId, ToolCallUpdate, TurnEnd, TurnId, Usage,
};
use crate::provider::{CircuitView, Effort};
use crate::store::{Holder, SkippedRow, StoreError, StoreHealth};
use crate::turn::ModelChoice;

/// A command for a session. Commands are handled in the order in which they were posted.
#[derive(Debug)]
pub enum SessionCommand {
    Prompt {
        content: Vec<Block>,
        /// Canceled when the client gives up on the prompt before its turn has started.
        canceled: CancellationToken,
        /// Answered when the turn has started, or with the reason why not.
        reply: PromptReply,
    },
    /// Start a turn that continues where the last one stopped.
    Resume {
        /// As for a prompt.
        reply: PromptReply,
    },
    /// Start a turn that only makes the history smaller.
    Compact {
        /// What the summary must keep.
        instructions: Option<String>,
        /// As for a prompt.
        reply: PromptReply,
    },
    /// Add a message to the running turn.
    Steer {
        content: Vec<Block>,
        /// The turn to steer; the command is refused if another one runs.
        expected: Option<TurnId>,
        /// Canceled when the client gives up on the request.
        canceled: CancellationToken,
        /// Answered when the steer is accepted and stored.
        reply: Reply<TurnId>,
    },
    /// Read or change the queue of prompts.
    Queue {
        action: QueueAction,
        /// As for a steer.
        canceled: CancellationToken,
        /// The queue afterwards.
        reply: Reply<QueueReply>,
    },
    /// Restore the files of a turn and of all later ones.
    Revert {
        /// The first turn to revert.
        turn: TurnId,
        /// Only report what would be done.
        dry_run: bool,
        /// Undo the last revert of that turn instead.
        redo: bool,
        reply: Reply<RevertReply>,
    },
    Decide {
        approval: ApprovalId,
        decision: Decision,
        /// Answered when the decision is accepted and stored.
        reply: Reply<()>,
    },
    Answer {
        inquiry: InquiryId,
        answer: InquiryAnswer,
        /// Answered when the answer is accepted and stored.
        reply: Reply<()>,
    },
    SetMode {
        mode: Mode,
        reply: Reply<()>,
    },
    /// Change the model for future turns.
    SetModel {
        /// `provider/model`; unchanged if `None`.
        model: Option<String>,
        /// Unchanged if `None`.
        effort: Option<EffortChoice>,
        /// The number in the [`CommandError::NeedsModelList`] that it was refused with before. A choice that came in between
        /// stays.
        refused: Option<u64>,
        reply: Reply<()>,
    },
    /// Give a session without a turn to another agent. A history belongs to the agent that made it.
    SetAgent {
        /// `None` for the default agent.
        agent: Option<String>,
        reply: Reply<()>,
    },
    Rename {
        title: String,
        reply: Reply<()>,
    },
    /// Show the session to a client.
    Load {
        /// Do not take the session over: no lock, no repair.
        read_only: bool,
        reply: Reply<LoadReply>,
    },
    /// Report the session's state without taking it over.
    Inspect {
        reply: Reply<SessionSnapshot>,
    },
    /// Like `Inspect`, with the counts of its events. They are read from the store if the session is not open.
    Measure {
        reply: Reply<SessionSnapshot>,
    },
    /// Close the circuit of a tool. The reply says whether it was open.
    ResetCircuit {
        tool: String,
        reply: Reply<bool>,
    },
    /// Revoke a grant of this session.
    RevokeGrant {
        id: String,
        /// Answered with whether the grant existed.
        reply: oneshot::Sender<bool>,
    },
    /// Delete the session with everything that belongs to it.
    Delete {
        reply: Reply<()>,
    },
    /// Cancel the turn and unload the session. Answered with whether it was unloaded.
    Close {
        reply: Reply<bool>,
    },
    /// Answer when everything before it is done (test builds).
    #[cfg(feature = "sim")]
    Settle {
        reply: oneshot::Sender<()>,
    },
    /// Panic (test builds).
    #[cfg(feature = "sim")]
    Panic,
    /// The server ends: interrupt the turn, store its end, release the lock.
    End,
}

impl SessionCommand {
    /// Answers that the command is refused. The caller may be gone.
    pub(super) fn refuse(self, refused: CommandError) {
        match self {
            Self::Prompt { reply, .. } | Self::Resume { reply } | Self::Compact { reply, .. } => {
                _ = reply.send(Err(refused));
            }
            Self::Steer { reply, .. } => _ = reply.send(Err(refused)),
            Self::Queue { reply, .. } => _ = reply.send(Err(refused)),
            Self::Revert { reply, .. } => _ = reply.send(Err(refused)),
            Self::Decide { reply, .. }
            | Self::Answer { reply, .. }
            | Self::SetMode { reply, .. }
            | Self::SetModel { reply, .. }
            | Self::SetAgent { reply, .. }
            | Self::Rename { reply, .. }
            | Self::Delete { reply } => _ = reply.send(Err(refused)),
            Self::Load { reply, .. } => _ = reply.send(Err(refused)),
            Self::Inspect { reply } | Self::Measure { reply } => _ = reply.send(Err(refused)),
            Self::ResetCircuit { reply, .. } | Self::Close { reply } => _ = reply.send(Err(refused)),
            Self::RevokeGrant { reply, .. } => _ = reply.send(false),
            #[cfg(feature = "sim")]
            Self::Settle { reply } => _ = reply.send(()),
            #[cfg(feature = "sim")]
            Self::Panic => {}
            Self::End => {}
        }
    }
}

/// The result of a revert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevertReply {
    /// The affected turns, oldest first.
    pub turns: Vec<TurnId>,
    /// Restored files: absolute path, path as shown to the model, and kind of change. In a dry run, the planned ones.
    pub files: Vec<(String, String, ChangeKind)>,
    /// Files that were left alone: absolute path, path as shown to the model, and reason.
    pub conflicts: Vec<(String, String, String)>,
}

/// A change of the prompt queue.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueAction {
    List,
    Add(Vec<Block>),
    /// Replace the content of the prompt with this id.
    Edit(String, Vec<Block>),
    Remove(String),
    /// Send the prompt with this id now, or the next one.
    SendNow(Option<String>),
}

/// The prompt queue after a [`QueueAction`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueReply {
    /// The queue is paused: no prompt starts by itself.
    pub paused: bool,
    /// Ids and contents in order.
    pub prompts: Vec<(String, Vec<Block>)>,
    /// The id of the added prompt.
    pub added: Option<String>,
    /// The turn that took the prompt.
    pub turn: Option<TurnId>,
}

/// What a user answered to an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub enum InquiryAnswer {
    /// Raise the limit by this much, in the limit's unit: US dollars, steps, calls or seconds.
    RaiseBy(f64),
    /// An answer without a unit.
    Reply(InquiryReply),
}

impl InquiryAnswer {
    /// Converts the answer to the units of the inquiry.
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

/// The channel for a command's answer.
pub(super) type Reply<T> = oneshot::Sender<Result<T, CommandError>>;

/// The channel for a started turn.
pub(super) type PromptReply = Reply<TurnHandle>;

/// A turn that was started.
#[derive(Debug)]
pub struct TurnHandle {
    pub turn: TurnId,
    /// Answered with the turn's outcome.
    pub outcome: oneshot::Receiver<TurnOutcome>,
    /// Answered when `turnEnded` has been sent to the client.
    pub passed: oneshot::Receiver<()>,
}

impl TurnHandle {
    /// Waits until the turn's end has been sent to the client. Returns `None` if the session is gone.
    pub async fn wait_for_outcome(self) -> Option<TurnOutcome> {
        let outcome = self.outcome.await.ok()?;
        // The store ends with the server; then there is nothing left to wait for.
        let _ = self.passed.await;
        Some(outcome)
    }
}

/// How a turn ended, for its caller.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    pub turn: TurnId,
    pub end: TurnEnd,
    /// The final answer.
    pub text: String,
    /// Tokens of the conversation before and after a compaction by hand.
    pub compacted: Option<(u64, u64)>,
}

/// The fixed data of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub id: SessionId,
    /// The workspace folder that determines settings, grants and trust.
    pub folder: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
    /// The agent's name in the configuration.
    pub agent: Option<String>,
}

/// What a client needs to show a session and to follow it from there.
#[derive(Debug)]
pub struct LoadReply {
    pub snapshot: SessionSnapshot,
    /// The calls that have not ended, with all that is known about them.
    pub open_calls: Vec<ToolCallUpdate>,
    pub partial: Option<PartialMessage>,
    /// Records that could not be read so far. The loaded page may lack more.
    pub skipped: Vec<SkippedRow>,
    /// Answered when everything recorded so far is stored and sent. Then `partial` and `seq` match what the client has
    /// received, and a page that is read contains all of it.
    pub passed: oneshot::Receiver<StoreHealth>,
}

/// A message in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialMessage {
    pub message: MessageId,
    pub text: String,
    pub reasoning: String,
    /// Tool calls that the message has begun to request.
    pub tool_calls: Vec<ToolCallId>,
    /// Bytes of text and of reasoning that the store already has.
    pub(super) stored: (usize, usize),
}

impl PartialMessage {
    /// Starts an empty message.
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

/// A user's choice of the reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffortChoice {
    /// The effort of the configuration.
    Configured,
    Chosen(Effort),
}

impl EffortChoice {
    /// The name of [`Self::Configured`]. It is stored like an effort, and reads as none.
    pub const CONFIGURED: &str = "configured";

    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == Self::CONFIGURED {
            return Some(Self::Configured);
        }
        Effort::from_name(name).map(Self::Chosen)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Configured => Self::CONFIGURED,
            Self::Chosen(effort) => effort.name(),
        }
    }
}

/// What the user chose for a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChoice {
    pub title: Option<String>,
    pub mode: Mode,
    /// `provider/model`.
    pub model: Option<String>,
    /// The model as an earlier version stored it, perhaps without its provider.
    pub bare_model: Option<String>,
    /// The last announced reason for the choice of the model.
    pub model_reason: Option<String>,
    /// Reasoning effort.
    pub effort: Option<Effort>,
}

impl SessionChoice {
    /// Returns the model for the agent of a session.
    pub fn to_model_choice(&self, info: &SessionInfo) -> ModelChoice {
        ModelChoice {
            agent: info.agent.clone(),
            model: self.model.clone(),
            has_provider: self.model != self.bare_model,
            effort: self.effort,
            ..ModelChoice::default()
        }
    }
}

/// A snapshot of a session's state.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    pub info: SessionInfo,
    pub choice: SessionChoice,
    /// The number of the last durable event.
    pub seq: u64,
    pub turn: Option<TurnId>,
    /// A turn has begun.
    pub has_begun: bool,
    /// The last turn, if it can be resumed.
    pub resumable: Option<TurnId>,
    pub questions: OpenQuestions,
    pub queue: PromptQueue,
    /// The instruction files of the last turn.
    pub instructions: Option<Arc<[InstructionFile]>>,
    /// Grants of this session only.
    pub grants: Vec<Grant>,
    pub metrics: SessionMetrics,
    /// Circuits of tools that are not closed.
    pub circuits: BTreeMap<String, CircuitView>,
}

/// The open questions of a session, and which of them are already answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenQuestions {
    pub approvals: Vec<OpenApproval>,
    /// Open approvals that are already decided; they take effect when their turn is resumed.
    pub decided: BTreeSet<ApprovalId>,
    pub inquiries: Vec<OpenInquiry>,
    /// Open inquiries that are already answered; the answers take effect when their turn is resumed.
    pub replied: BTreeSet<InquiryId>,
}

impl OpenQuestions {
    /// Returns the open approvals that wait for a decision.
    pub fn undecided_approvals(&self) -> impl Iterator<Item = &OpenApproval> {
        let open = self.approvals.iter();
        open.filter(|open| !self.decided.contains(&open.approval.id))
    }

    /// Returns the open inquiries that wait for an answer.
    pub fn unanswered_inquiries(&self) -> impl Iterator<Item = &OpenInquiry> {
        let open = self.inquiries.iter();
        open.filter(|open| !self.replied.contains(&open.inquiry.id))
    }
}

/// What a session has done since it was created. Queued prompts and reverts count only since it was loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMetrics {
    /// When the session was created, in Unix milliseconds.
    pub started_at: i64,
    pub usage: Usage,
    /// As far as prices are known.
    pub cost: Option<Cost>,
    /// Model calls, counting each attempt.
    pub requests: u64,
    pub retries: u64,
    pub compactions: u64,
    /// Canceled turns.
    pub cancels: u64,
    pub queued_prompts: u64,
    /// Reverts and redos.
    pub reverts: u64,
    /// By tool name.
    pub tool_calls: BTreeMap<String, u64>,
    /// By error code, including errors that ended no turn.
    pub errors: BTreeMap<&'static str, u64>,
}

/// Why a session rejects a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    #[error("unknown session {0}; see agent/listSessions")]
    UnknownSession(SessionId),
    #[error("turn {0} is running; add to it with agent/steer, or stop it with agent/cancel")]
    TurnRunning(TurnId),
    #[error("no turn is running; send agent/prompt")]
    NoTurn,
    #[error("turn {expected} is no longer running; turn {running} is")]
    OtherTurn { expected: TurnId, running: TurnId },
    #[error("the last turn was not interrupted or canceled; send agent/prompt")]
    NothingToResume,
    #[error("turn {0} does not belong to this session")]
    UnknownTurn(TurnId),
    #[error("turn {0} was not reverted; there is nothing to redo")]
    NothingToRedo(TurnId),
    /// No turn of the session has ended yet.
    #[error("session {0} has no finished turn to fork")]
    NothingToFork(SessionId),
    #[error("no queued prompt {0}; list them with agent/queue")]
    UnknownPrompt(String),
    /// The queue is at its limit.
    #[error("queue full")]
    QueueFull,
    #[error("approval {0} is unknown or settled; see agent/listApprovals")]
    UnknownApproval(ApprovalId),
    #[error("question {0} is unknown or settled; see agent/listApprovals")]
    UnknownInquiry(InquiryId),
    #[error("{0}")]
    BadReply(String),
    /// No rule describes the call, so it can be allowed only once.
    #[error("this call can be allowed only once; no rule describes it safely")]
    NoRule,
    #[error("invalid rule: {0}")]
    BadRule(String),
    #[error("{0}")]
    BadCommand(String),
    #[error("canceled before the MCP server answered")]
    Canceled,
    /// The name of a model, or of an agent.
    #[error("{0}")]
    UnknownModel(String),
    /// Only the provider's own list shows whether the model exists, and that list was not loaded. The number is that of
    /// the command.
    #[error("the provider's list of models is needed first")]
    NeedsModelList(Box<SessionInfo>, u64),
    #[error("session {session} is open in another agentls: {holder}")]
    Locked { session: SessionId, holder: Holder },
    #[error("{message}", message = .0.message)]
    Store(Box<AgentError>),
    /// The mailbox of the session is full.
    #[error("the session has too many waiting requests; try again shortly")]
    Busy,
    #[error("the server is shutting down")]
    Ending,
    /// The session's actor panicked.
    #[error(
        "a bug in agentls stopped this request; the session is loaded again from the store, so try again"
    )]
    Bug,
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error.into()))
    }
}
