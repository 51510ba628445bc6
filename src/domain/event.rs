//! The one enum that flows outward: from the turn, through the actor and the store, to the clients.

use std::sync::Arc;

use super::approval::{Approval, Decision, Mode, ResolvedBy};
use super::checkpoint::TurnDiff;
use super::error::AgentError;
use super::ids::{ApprovalId, MessageId, SessionId, ToolCallId, TurnId};
use super::instructions::InstructionFile;
use super::message::{Block, Message};
use super::reason::{TerminalReason, Transition, TurnState};
use super::tool_call::ToolCallUpdate;
use super::usage::{Cost, Usage};
use super::user_request::{Inquiry, InquiryReply};
use crate::base::backpressure::Permit;

/// By what a turn was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnTrigger {
    /// A prompt.
    Prompt,
    /// The wish to go on with a turn that was stopped.
    Resume,
    /// The wish to make the history smaller.
    Compact,
    /// A prompt that waited for the end of the turn before.
    Queue,
}

/// Something that happened in a session. All but [`Event::Delta`] are durable: numbered, stored before
/// they are shown, and folded into the session's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// By what the person asked for it.
        by: TurnTrigger,
        /// The turn that it goes on with.
        resumes: Option<TurnId>,
    },
    /// A turn ended; the last event of its turn, exactly one.
    TurnEnded(TurnEnd),
    /// A completed (or cut) message.
    Message(Arc<Message>),
    /// What was shown of a broken attempt is void.
    MessageRetracted {
        /// The message.
        message: MessageId,
        /// The tool calls it had begun to ask for.
        tool_calls: Vec<ToolCallId>,
    },
    /// A tool call changed.
    ToolCall(ToolCallUpdate),
    /// A person is asked about an effect.
    ApprovalRequested(Approval),
    /// The question is settled.
    ApprovalResolved {
        /// Which.
        approval: ApprovalId,
        /// The call it was about.
        tool_call: ToolCallId,
        /// What was decided.
        decision: Decision,
        /// By what.
        by: ResolvedBy,
    },
    /// A person is asked about a limit, or something else than an effect.
    InquiryRequested(Arc<Inquiry>),
    /// It is settled.
    InquiryResolved {
        /// What was asked.
        inquiry: Arc<Inquiry>,
        /// What it came to.
        reply: InquiryReply,
        /// By what.
        by: ResolvedBy,
    },
    /// The plan, whole.
    Plan(Vec<PlanItem>),
    /// A decision of the loop.
    Transition {
        /// What it decided.
        transition: Transition,
        /// More, for people.
        detail: Option<String>,
    },
    /// A provider call failed and will be made again.
    Retry {
        /// The provider's name.
        provider: String,
        /// The model.
        model: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// How many retries there are in all, of failures like this one.
        max_retries: u32,
        /// The wait before the next.
        delay_ms: u64,
        /// When it ends, in ms since the epoch.
        resume_at: i64,
        /// What failed.
        error: AgentError,
        /// What happens if the next fails too.
        next: String,
    },
    /// The turn waits for something that is not an error.
    Wait {
        /// For what.
        why: String,
        /// Until when, in ms since the epoch, where it is known.
        until: Option<i64>,
    },
    /// What is sent became smaller; what is kept did not (R-CTX-4).
    Compacted(Arc<Compaction>),
    /// Another model answers from now on: the next of the route, or the first again.
    ModelSwitched {
        /// As `provider/model`.
        from: String,
        /// As `provider/model`.
        to: String,
        /// A line for people.
        why: String,
    },
    /// A circuit that the turn met: why a provider or a tool is not called, or is again.
    Circuit {
        /// What it guards.
        subject: CircuitSubject,
        /// The name of the provider or the tool.
        name: String,
        /// How it stands.
        state: CircuitState,
        /// When an open one lets a trial through, in ms since the epoch.
        until: Option<i64>,
    },
    /// Tokens and cost of a step.
    Usage {
        /// The step's.
        step: Usage,
        /// The turn's so far.
        turn: Usage,
        /// The session's so far.
        session: Usage,
        /// Cost of the step; none when the model's price is unknown.
        step_cost: Option<Cost>,
        /// Cost of the turn so far; none when a call's is unknown.
        turn_cost: Option<Cost>,
        /// Cost of the session so far; none when a call's is unknown.
        session_cost: Option<Cost>,
        /// Tokens of context used.
        context_used: u64,
        /// The model's window.
        window: u64,
        /// The provider that was asked; none in records of the first days.
        provider: Option<String>,
    },
    /// Something a person should know; the turn goes on.
    Warning {
        /// A stable word.
        code: String,
        /// For people.
        message: String,
    },
    /// The session's own data changed; only what changed is set.
    SessionUpdated {
        /// The title.
        title: Option<String>,
        /// The approval mode.
        mode: Option<Mode>,
        /// The model, as `provider/model`.
        model: Option<String>,
        /// The reasoning effort.
        effort: Option<String>,
    },
    /// The prompts that wait for the turn's end changed: all of them, and whether they are held.
    QueueChanged(PromptQueue),
    /// What a turn has changed: at its end, and when that was taken back or made again.
    TurnDiff(Arc<TurnDiff>),
    /// What files of instructions the system prompt is made of from now on, whole (R-LOOP-5).
    Instructions(Arc<[InstructionFile]>),
    /// Something of a sub-agent (R-SUB), for people: nothing of the session changes by it. Its tool calls are no such
    /// events, they are calls with a parent.
    Nested(Box<SubagentEvent>),
    /// An increment; never the only carrier of a fact.
    Delta(Delta),
}

/// Something that happened in a sub-agent.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentEvent {
    /// The call that delegated to it.
    pub parent: ToolCallId,
    /// What happened; never nested itself.
    pub event: Event,
}

/// The prompts that wait for the turn's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptQueue {
    /// The last turn did not complete: nothing of it starts by itself (R-CANCEL).
    pub paused: bool,
    /// The prompts, the next one first.
    pub prompts: Vec<QueuedPrompt>,
}

/// A prompt that waits, as it is shown in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPrompt {
    /// What it is edited and removed by.
    pub id: String,
    /// The start of its text, on one line.
    pub text: String,
}

/// How the history became smaller for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Why.
    pub trigger: CompactTrigger,
    /// Estimated tokens of the whole request before.
    pub tokens_before: u64,
    /// The same after.
    pub tokens_after: u64,
    /// Messages before.
    pub messages_before: u32,
    /// Messages after.
    pub messages_after: u32,
    /// What stands in the place of the messages that are left out.
    pub summary: Option<Summary>,
    /// Tool calls whose results became stubs.
    pub stubs: Vec<ToolCallId>,
    /// All pictures so far became stubs.
    pub pictures: bool,
}

/// A summary of messages that are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The message that stands there instead.
    pub message: MessageId,
    /// What it says.
    pub text: String,
    /// The first message that is left out.
    pub from: MessageId,
    /// The first message behind it that stays.
    pub until: MessageId,
    /// No model wrote it: its call failed, and a digest made by rules stands in.
    pub digest: bool,
}

/// Why a history was made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactTrigger {
    /// The estimate passed the threshold.
    Threshold,
    /// The provider said that the prompt is too long.
    Overflow,
    /// The provider refused a picture.
    Picture,
    /// A person asked for it.
    Manual,
}

impl CompactTrigger {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Threshold, Self::Overflow, Self::Picture, Self::Manual];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
            Self::Picture => "picture",
            Self::Manual => "manual",
        }
    }

    /// The trigger of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trigger| trigger.name() == name)
    }
}

/// An increment to a message or an output in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text of a message.
    Text {
        /// The message.
        message: MessageId,
        /// Bytes of the message's text before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// Reasoning of a message, counted apart.
    Reasoning {
        /// The message.
        message: MessageId,
        /// Bytes of the message's reasoning before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// A tool call's input as it is written.
    ToolInput {
        /// The message that asks.
        message: MessageId,
        /// The call.
        tool_call: ToolCallId,
        /// The tool's name.
        name: String,
        /// A piece of its JSON.
        text: String,
    },
    /// Live output of a running tool, already safe to show.
    ToolOutput {
        /// The call.
        tool_call: ToolCallId,
        /// The piece.
        text: String,
    },
}

impl Delta {
    /// The piece.
    pub fn text(&self) -> &str {
        match self {
            Self::Text { text, .. }
            | Self::Reasoning { text, .. }
            | Self::ToolInput { text, .. }
            | Self::ToolOutput { text, .. } => text,
        }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// Why.
    pub reason: TerminalReason,
    /// In one word.
    pub state: TurnState,
    /// The turn's tokens.
    pub usage: Usage,
    /// The turn's cost, as far as it is known.
    pub cost: Option<Cost>,
    /// What went wrong.
    pub error: Option<AgentError>,
    /// Steers that were accepted and not used; given back to the person.
    pub unused_steers: Vec<Vec<Block>>,
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a line of the plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

/// What a circuit guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CircuitSubject {
    Provider,
    Tool,
}

/// How a circuit stands (R-PROV-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// One call passes, as a trial.
    HalfOpen,
}

/// An event on its way out.
#[derive(Debug)]
pub struct Envelope {
    /// The session.
    pub session: SessionId,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    /// Its number in the session; none for deltas.
    pub seq: Option<u64>,
    /// When, in ms since the epoch.
    pub at_ms: i64,
    /// What happened.
    pub event: Event,
    /// The room it takes in the pipe; given back when it has been written.
    pub permit: Option<Permit>,
    /// The client reads it in the page it is loading: stored, and not sent as well.
    pub in_page: bool,
}

/// Where stored events go next. Called in order, from one thread; must not block.
pub trait EventSink: Send {
    /// Takes an event that may now be seen.
    fn publish_event(&mut self, envelope: Envelope);

    /// A server-wide warning that belongs to no session.
    fn publish_warning(&mut self, code: &str, message: &str);
}

impl Event {
    /// Whether it is numbered, stored and folded.
    pub fn is_durable(&self) -> bool {
        !matches!(self, Self::Delta(_))
    }

    /// A rough size in bytes, for back pressure. Deltas count by their text: most of them merge, and then
    /// nothing else of them is left.
    pub fn estimate_size(&self) -> usize {
        const FRAME: usize = 256;
        const MERGED: usize = 16;
        match self {
            Self::Delta(delta) => MERGED + delta.text().len(),
            Self::TurnDiff(diff) => {
                let text = |file: &super::FileDiff| {
                    file.path.len() + file.diff.as_ref().map_or(0, |diff| diff.len())
                };
                FRAME + diff.files.iter().map(text).sum::<usize>().min(128 << 10)
            }
            Self::Message(message) => FRAME + message.text().len().min(64 << 10),
            Self::ToolCall(update) => {
                FRAME
                    + update
                        .result
                        .as_ref()
                        .map_or(0, |result| result.text.len().min(128 << 10))
            }
            _ => FRAME,
        }
    }
}
