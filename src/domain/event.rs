//! Events: what flows outward, from the turn through the session actor and the store to the clients.
//!
//! Plain values, in the form that the store keeps; wire names live in `protocol`. Every event is durable. What is only
//! shown is a [`super::delta`].

use std::sync::Arc;

#[cfg(test)]
use proptest::strategy::Strategy as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::Value;

use super::approval::{Approval, Decision, Mode, ResolvedBy};
use super::checkpoint::TurnDiff;
use super::delta::DeltaEnvelope;
use super::error::AgentError;
use super::ids::{ApprovalId, MessageId, SessionId, ToolCallId, TurnId};
use super::instructions::InstructionFile;
use super::message::{Block, Message};
use super::reason::{TerminalReason, Transition, TurnState};
use super::tool_call::ToolCallUpdate;
use super::usage::{Cost, Usage};
use super::user_request::{Inquiry, InquiryReply};
use super::words::word_enum;
use crate::base::backpressure::Permit;

word_enum! {
    /// What started a turn.
    pub enum TurnTrigger {
        /// A prompt sent by the user.
        Prompt = "prompt",
        /// A request to continue a stopped turn.
        Resume = "resume",
        /// A request to compact the history.
        Compact = "compact",
        /// A queued prompt that waited for the previous turn to end.
        Queue = "queue",
    }
}

/// Something that happened in a session.
///
/// Every event is numbered, stored before clients see it, and folded into the session's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A turn began.
    #[serde(deserialize_with = "deserialize_turn_started")]
    TurnStarted {
        /// What started it.
        by: TurnTrigger,
        /// The stopped turn that this one continues.
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
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
    Plan {
        #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
        items: Vec<PlanItem>,
    },
    /// A decision of the loop.
    Transition {
        /// The decision with its reason.
        #[serde(rename = "to")]
        transition: Transition,
        /// More details, for users.
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(skip_serializing_if = "Option::is_none")]
        step_cost: Option<Cost>,
        /// Cost of the turn so far; `None` if the cost of any call is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_cost: Option<Cost>,
        /// Cost of the session so far; `None` if the cost of any call is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_cost: Option<Cost>,
        /// Tokens in the model's context now.
        context_used: u64,
        /// Tokens that the model's context window holds.
        window: u64,
        /// The provider that was called; `None` in records of early versions.
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// The model, as `provider/model`.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The reasoning effort.
        #[serde(skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
    },
    /// The prompt queue changed: all its prompts, and whether it is paused.
    QueueChanged(PromptQueue),
    /// All changes of a turn: at its end, and whenever they are reverted or applied again.
    TurnDiff(Arc<TurnDiff>),
    /// All instruction files that make up the system prompt from now on (R-LOOP-5).
    Instructions {
        #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list().prop_map(Arc::from)"))]
        files: Arc<[InstructionFile]>,
    },
    /// Something that happened in a sub-agent (R-SUB), for display only: it does not change the session's state. The
    /// tool calls of a sub-agent are [`Event::ToolCall`] events with a parent instead.
    Nested(Box<SubagentEvent>),
}

/// An event of a sub-agent, and the tool call that started the sub-agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(try_from = "SubagentEventFields")]
pub struct SubagentEvent {
    /// The call that delegated to it.
    pub parent: ToolCallId,
    /// The event; never [`Event::Nested`] itself.
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_inner_event()"))]
    pub event: Event,
}

/// The stored form of a [`SubagentEvent`]: its event is taken apart into kind and fields, like the row of any event.
#[derive(Serialize, Deserialize)]
struct SubagentEventFields {
    parent: ToolCallId,
    kind: String,
    event: Value,
}

impl Serialize for SubagentEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(tagged) =
            serde_json::to_value(&self.event).map_err(<S::Error as ser::Error>::custom)?
        else {
            return Err(ser::Error::custom("an event without fields"));
        };
        let mut tagged = tagged.into_iter();
        let (kind, event) = tagged.next().unwrap_or_default();
        let parent = self.parent.clone();
        SubagentEventFields { parent, kind, event }.serialize(serializer)
    }
}

impl TryFrom<SubagentEventFields> for SubagentEvent {
    type Error = serde_json::Error;

    fn try_from(fields: SubagentEventFields) -> Result<Self, Self::Error> {
        let SubagentEventFields { parent, kind, event } = fields;
        let event = Event::deserialize(Value::Object([(kind, event)].into_iter().collect()))?;
        Ok(Self { parent, event })
    }
}

/// Reads the start of a turn. Early records do not say what started it, except that a resumed turn has `resumes`.
fn deserialize_turn_started<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(TurnTrigger, Option<TurnId>), D::Error> {
    #[derive(Deserialize)]
    struct TurnStartedFields {
        by: Option<TurnTrigger>,
        resumes: Option<TurnId>,
    }
    let TurnStartedFields { by, resumes } = TurnStartedFields::deserialize(deserializer)?;
    let by = by.unwrap_or(match resumes {
        Some(_) => TurnTrigger::Resume,
        None => TurnTrigger::Prompt,
    });
    Ok((by, resumes))
}

/// The prompts that wait for the running turn to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct PromptQueue {
    /// Whether the queue is paused: the last turn did not complete, so no prompt starts by itself (R-CANCEL).
    pub paused: bool,
    /// The prompts, next one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub prompts: Vec<QueuedPrompt>,
}

/// A waiting prompt, as shown in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct QueuedPrompt {
    /// Identifies the prompt when the user edits or removes it.
    pub id: String,
    /// The start of the text, on one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// How the history that the model receives became smaller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Compaction {
    pub trigger: CompactTrigger,
    /// Estimated tokens of the whole request before the compaction.
    #[serde(default)]
    pub tokens_before: u64,
    /// Estimated tokens of the whole request after it.
    #[serde(default)]
    pub tokens_after: u64,
    #[serde(default)]
    pub messages_before: u32,
    #[serde(default)]
    pub messages_after: u32,
    /// The summary that replaces the omitted messages; `None` if no message was omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The tool calls whose results were replaced by stubs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub stubs: Vec<ToolCallId>,
    /// The results that were too long for the request, shortened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub shortened: Vec<ShortenedResult>,
    /// Whether images and documents were replaced by stubs.
    #[serde(default)]
    pub pictures: bool,
    /// How many of the newest of them stay nevertheless.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_pictures: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A tool result of which only a part stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ShortenedResult {
    pub call: ToolCallId,
    /// What the model reads now.
    pub text: String,
}

/// A message of the user of which only a part stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ShortenedPrompt {
    pub message: MessageId,
    /// What the model reads now, besides pictures.
    pub text: String,
}

/// A summary that replaces a range of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Summary {
    /// The id of the message that contains the summary.
    pub message: MessageId,
    pub text: String,
    /// The first omitted message.
    pub from: MessageId,
    /// The first message after the range that stays.
    pub until: MessageId,
    /// The user's messages of the range that stay, before the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<MessageId>,
    /// Those of them that were too long to stay word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub shortened: Vec<ShortenedPrompt>,
    /// Whether rules built the text because the model call for the summary failed.
    #[serde(default)]
    pub digest: bool,
}

word_enum! {
    /// Why a history was compacted.
    pub enum CompactTrigger {
        /// The token estimate exceeded the threshold (R-CTX-1).
        Threshold = "threshold",
        /// The provider reported that the prompt is too long.
        Overflow = "overflow",
        /// The provider refused an image.
        Picture = "picture",
        /// The user asked for it.
        Manual = "manual",
    }
}

/// How a turn ended, with its totals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct TurnEnd {
    pub reason: TerminalReason,
    /// The state that clients show.
    pub state: TurnState,
    /// The tokens of the whole turn.
    pub usage: Usage,
    /// The cost of the turn, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The error, if the turn ended with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<AgentError>,
    /// Accepted steers that the model never saw; returned to the user so that nothing typed is lost (I16).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        test,
        proptest(strategy = "proptest::collection::vec(super::arbitrary::arb_list(), 0..2)")
    )]
    pub unused_steers: Vec<Vec<Block>>,
}

/// One item of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct PlanItem {
    /// What to do.
    pub text: String,
    pub status: PlanStatus,
}

word_enum! {
    /// The progress of one plan item.
    pub enum PlanStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
    }
}

word_enum! {
    /// The kind of thing that a circuit breaker guards.
    pub enum CircuitSubject {
        Provider = "provider",
        Tool = "tool",
    }
}

word_enum! {
    /// The state of a circuit breaker (R-PROV-5).
    pub enum CircuitState {
        /// Calls pass.
        Closed = "closed",
        /// No call passes.
        Open = "open",
        /// One call passes, as a trial.
        HalfOpen = "half_open",
    }
}

/// An event with its address, on its way to the clients.
#[derive(Debug)]
pub struct Envelope {
    pub session: SessionId,
    /// The turn that caused it.
    pub turn: Option<TurnId>,
    /// The event's number in the session.
    pub seq: u64,
    /// When it happened, in ms since the epoch.
    pub at_ms: i64,
    pub event: Event,
    /// The reserved bytes in the output pipe; dropping it releases them once the event is written.
    pub permit: Option<Permit>,
    /// Whether the client receives the event in the page that it is loading: it is stored, but not also sent.
    pub in_page: bool,
}

/// The consumer of stored events, and of the deltas between them. Called in order, from one thread; must not block.
pub trait EventSink: Send {
    /// Delivers an event that is stored and may now be seen.
    fn publish_event(&mut self, envelope: Envelope);

    /// Delivers a delta, after everything that happened before it.
    fn publish_delta(&mut self, envelope: DeltaEnvelope);

    /// Delivers a server-wide warning that belongs to no session.
    fn publish_warning(&mut self, code: &str, message: &str);
}

impl Event {
    /// Returns a rough size in bytes, for back pressure.
    pub fn estimate_size(&self) -> usize {
        const FRAME: usize = 256;
        // Only the fields that usually grow large count: a rough size is enough.
        match self {
            // The wire cuts long fields (R-WIRE-3), so larger contents take no more room in the pipe than these caps.
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
