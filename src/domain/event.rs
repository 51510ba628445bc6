//! Events: the one enum that flows outward, from the turn through the session actor and the store to the clients.
//!
//! Plain values; wire names live in `protocol`, disk shapes in `store`. Every event but a [`Delta`] is durable, so a
//! client that misses deltas is still right once the completing event arrives (R-WIRE).

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

/// What started a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnTrigger {
    /// A prompt sent by the user.
    Prompt,
    /// A request to continue a stopped turn.
    Resume,
    /// A request to compact the history.
    Compact,
    /// A queued prompt that waited for the previous turn to end.
    Queue,
}

/// Something that happened in a session.
///
/// All but [`Event::Delta`] are durable: numbered, stored before clients see them, and folded into the session's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// What started it.
        by: TurnTrigger,
        /// The stopped turn that this one continues.
        resumes: Option<TurnId>,
    },
    /// A turn ended: the last event of its turn, exactly one (I3).
    TurnEnded(TurnEnd),
    /// A completed (or cut) message.
    Message(Arc<Message>),
    /// The streamed output of a broken attempt is void; clients remove it from the display.
    MessageRetracted {
        message: MessageId,
        /// The tool calls that the attempt had started.
        tool_calls: Vec<ToolCallId>,
    },
    /// A tool call changed.
    ToolCall(ToolCallUpdate),
    /// The user is asked to approve an effect.
    ApprovalRequested(Approval),
    /// An approval is settled.
    ApprovalResolved {
        approval: ApprovalId,
        /// The call that needed the approval.
        tool_call: ToolCallId,
        decision: Decision,
        by: ResolvedBy,
    },
    /// The user is asked about a limit, or asked a question by the agent.
    InquiryRequested(Arc<Inquiry>),
    /// An inquiry is settled.
    InquiryResolved {
        /// The inquiry, repeated in full.
        inquiry: Arc<Inquiry>,
        reply: InquiryReply,
        by: ResolvedBy,
    },
    /// The whole plan, which replaces the previous one.
    Plan(Vec<PlanItem>),
    /// A decision of the loop.
    Transition {
        /// The decision with its reason.
        transition: Transition,
        /// More details, for users.
        detail: Option<String>,
    },
    /// A provider call failed and will be made again.
    Retry {
        provider: String,
        model: String,
        /// The number of the failed attempt, from 1.
        attempt: u32,
        /// The maximum number of retries for failures of this kind.
        max_retries: u32,
        /// The wait before the next attempt.
        delay_ms: u64,
        /// When the wait ends, in ms since the epoch.
        resume_at: i64,
        /// Why the attempt failed.
        error: AgentError,
        /// What happens if the next attempt fails too.
        next: String,
    },
    /// The turn waits for something that is not an error.
    Wait {
        /// What it waits for.
        why: String,
        /// When the wait ends, in ms since the epoch, if known.
        until: Option<i64>,
    },
    /// The model receives a smaller history from now on; the stored history is unchanged (R-CTX-4).
    Compacted(Arc<Compaction>),
    /// Another model answers from now on: the next of the route, or the first one again.
    ModelSwitched {
        /// The previous model, as `provider/model`.
        from: String,
        /// The new model, as `provider/model`.
        to: String,
        /// A one-line reason for users.
        why: String,
    },
    /// The turn met a circuit breaker: calls of a provider or a tool are blocked, or allowed again.
    Circuit {
        /// Whether the circuit guards a provider or a tool.
        subject: CircuitSubject,
        /// The name of the provider or the tool.
        name: String,
        state: CircuitState,
        /// When an open circuit lets a trial call through, in ms since the epoch.
        until: Option<i64>,
    },
    /// Tokens and cost of a step.
    Usage {
        /// Tokens of the step.
        step: Usage,
        /// Tokens of the turn so far.
        turn: Usage,
        /// Tokens of the session so far.
        session: Usage,
        /// Cost of the step; `None` if the model's price is unknown.
        step_cost: Option<Cost>,
        /// Cost of the turn so far; `None` if the cost of any call is unknown.
        turn_cost: Option<Cost>,
        /// Cost of the session so far; `None` if the cost of any call is unknown.
        session_cost: Option<Cost>,
        /// Tokens in the model's context now.
        context_used: u64,
        /// Tokens that the model's context window holds.
        window: u64,
        /// The provider that was called; `None` in records of early versions.
        provider: Option<String>,
    },
    /// Something the user should know; the turn continues.
    Warning {
        /// A stable, machine-readable name.
        code: String,
        /// The text for users.
        message: String,
    },
    /// The session's own data changed; only the changed fields are set.
    SessionUpdated {
        title: Option<String>,
        mode: Option<Mode>,
        /// The model, as `provider/model`.
        model: Option<String>,
        /// The reasoning effort.
        effort: Option<String>,
    },
    /// The prompt queue changed: all its prompts, and whether it is paused.
    QueueChanged(PromptQueue),
    /// All changes of a turn: at its end, and whenever they are reverted or applied again.
    TurnDiff(Arc<TurnDiff>),
    /// All instruction files that make up the system prompt from now on (R-LOOP-5).
    Instructions(Arc<[InstructionFile]>),
    /// Something that happened in a sub-agent (R-SUB), for display only: it does not change the session's state. The
    /// tool calls of a sub-agent are [`Event::ToolCall`] events with a parent instead.
    Nested(Box<SubagentEvent>),
    /// An increment; never the only carrier of a fact.
    Delta(Delta),
}

/// An event of a sub-agent, and the tool call that started the sub-agent.
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentEvent {
    /// The call that delegated to it.
    pub parent: ToolCallId,
    /// The event; never [`Event::Nested`] itself.
    pub event: Event,
}

/// The prompts that wait for the running turn to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptQueue {
    /// Whether the queue is paused: the last turn did not complete, so no prompt starts by itself (R-CANCEL).
    pub paused: bool,
    /// The prompts, next one first.
    pub prompts: Vec<QueuedPrompt>,
}

/// A waiting prompt, as shown in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPrompt {
    /// Identifies the prompt when the user edits or removes it.
    pub id: String,
    /// The start of the text, on one line.
    pub text: String,
}

/// How the history that the model receives became smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub trigger: CompactTrigger,
    /// Estimated tokens of the whole request before the compaction.
    pub tokens_before: u64,
    /// Estimated tokens of the whole request after it.
    pub tokens_after: u64,
    pub messages_before: u32,
    pub messages_after: u32,
    /// The summary that replaces the omitted messages; `None` if no message was omitted.
    pub summary: Option<Summary>,
    /// The tool calls whose results were replaced by stubs.
    pub stubs: Vec<ToolCallId>,
    /// Whether all images so far were replaced by stubs.
    pub pictures: bool,
}

/// A summary that replaces a range of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The id of the message that contains the summary.
    pub message: MessageId,
    pub text: String,
    /// The first omitted message.
    pub from: MessageId,
    /// The first message after the range that stays.
    pub until: MessageId,
    /// Whether rules built the text because the model call for the summary failed.
    pub digest: bool,
}

/// Why a history was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompactTrigger {
    /// The token estimate exceeded the threshold (R-CTX-1).
    Threshold,
    /// The provider reported that the prompt is too long.
    Overflow,
    /// The provider refused an image.
    Picture,
    /// The user asked for it.
    Manual,
}

impl CompactTrigger {
    /// All triggers.
    pub const ALL: [Self; 4] = [Self::Threshold, Self::Overflow, Self::Picture, Self::Manual];

    /// Returns the name used on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
            Self::Picture => "picture",
            Self::Manual => "manual",
        }
    }

    /// Returns the trigger called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trigger| trigger.name() == name)
    }
}

/// An increment to a message or an output in progress. Offsets let a client detect that it missed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text of a message.
    Text {
        message: MessageId,
        /// Bytes of the message's text before this increment.
        offset: u64,
        text: String,
    },
    /// Reasoning of a message, with its own offset count.
    Reasoning {
        message: MessageId,
        /// Bytes of the message's reasoning before this increment.
        offset: u64,
        text: String,
    },
    /// A tool call's input while the model writes it.
    ToolInput {
        /// The message that contains the call.
        message: MessageId,
        tool_call: ToolCallId,
        name: String,
        /// The next piece of its JSON, incomplete on its own.
        text: String,
    },
    /// Live output of a running tool, already safe to show.
    ToolOutput { tool_call: ToolCallId, text: String },
}

impl Delta {
    /// Returns the added text, whatever the kind of increment.
    pub fn text(&self) -> &str {
        match self {
            Self::Text { text, .. }
            | Self::Reasoning { text, .. }
            | Self::ToolInput { text, .. }
            | Self::ToolOutput { text, .. } => text,
        }
    }
}

/// How a turn ended, with its totals.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub reason: TerminalReason,
    /// The state that clients show.
    pub state: TurnState,
    /// The tokens of the whole turn.
    pub usage: Usage,
    /// The cost of the turn, as far as known.
    pub cost: Option<Cost>,
    /// The error, if the turn ended with one.
    pub error: Option<AgentError>,
    /// Accepted steers that the model never saw; returned to the user so that nothing typed is lost (I16).
    pub unused_steers: Vec<Vec<Block>>,
}

/// One item of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanItem {
    /// What to do.
    pub text: String,
    pub status: PlanStatus,
}

/// The progress of one plan item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

/// The kind of thing that a circuit breaker guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitSubject {
    Provider,
    Tool,
}

/// The state of a circuit breaker (R-PROV-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// One call passes, as a trial.
    HalfOpen,
}

/// An event with its address, on its way to the clients.
#[derive(Debug)]
pub struct Envelope {
    pub session: SessionId,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    /// The event's number in the session; `None` for deltas.
    pub seq: Option<u64>,
    /// When it happened, in ms since the epoch.
    pub at_ms: i64,
    pub event: Event,
    /// The reserved bytes in the output pipe; dropping it releases them once the event is written.
    pub permit: Option<Permit>,
    /// Whether the client receives the event in the page that it is loading: it is stored, but not also sent.
    pub in_page: bool,
}

/// The consumer of stored events. Called in order, from one thread; must not block.
pub trait EventSink: Send {
    /// Delivers an event that is stored and may now be seen.
    fn publish_event(&mut self, envelope: Envelope);

    /// Delivers a server-wide warning that belongs to no session.
    fn publish_warning(&mut self, code: &str, message: &str);
}

impl Event {
    /// Returns whether the event is numbered, stored, and folded into the session's state.
    pub fn is_durable(&self) -> bool {
        !matches!(self, Self::Delta(_))
    }

    /// Returns a rough size in bytes, for back pressure. A delta counts mostly by its text: when deltas merge, only
    /// their text remains.
    pub fn estimate_size(&self) -> usize {
        const FRAME: usize = 256;
        const MERGED: usize = 16;
        // Only the fields that usually grow large count: a rough size is enough.
        match self {
            // The wire cuts long fields (R-WIRE-3), so larger contents take no more room in the pipe than these caps.
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
