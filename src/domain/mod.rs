//! The vocabulary: plain values that every module shares.
//!
//! No I/O. The durable values derive serde for the store: their JSON is the disk format. It only grows: a field is added
//! with a default and never renamed, and the golden files in `store` freeze the rest. Wire formats live in `protocol`,
//! and `server::to_wire` converts with exhaustive matches. Read `event` first; it ties the others together.

pub mod answer;
pub mod approval;
#[cfg(test)]
pub(crate) mod arbitrary;
mod argument_schema;
pub mod checkpoint;
pub mod circuit;
pub mod delta;
pub mod error;
pub mod event;
pub mod foreign_content;
pub mod host_rule;
pub mod ids;
pub mod instructions;
pub mod loss;
pub mod mcp;
pub mod media;
pub mod message;
mod optional;
pub mod reason;
pub mod sandbox;
pub mod tool_call;
pub mod tool_definition;
pub mod usage;
pub mod user_request;
mod web_source;
pub(crate) mod words;

pub use answer::FinalAnswer;
pub use approval::{
    Approval, CommandFiles, Decision, DecisionKind, Effect, EffectKind, FileFinding, FileUsage, FileWord,
    FindingKind, ForeignTool, GitContents, Grant, GrantScope, HiddenCommits, Mode, NarrowedCommand,
    OpenApproval, ResolvedBy, Risk,
};
pub use argument_schema::ArgumentSchema;
pub use checkpoint::{ChangeKind, ChangeState, FileChange, FileDiff, FileState, TurnDiff};
pub use delta::{Delta, DeltaEnvelope};
pub use error::{AgentError, ErrorCause, ErrorClass, ErrorCode};
pub use event::{
    CircuitState, CircuitSubject, CompactTrigger, Compaction, Envelope, Event, EventSink, PlanItem,
    PlanStatus, PromptQueue, QueuedPrompt, ShortenedPrompt, ShortenedResult, SubagentEvent, Summary, TurnEnd,
    TurnTrigger,
};
pub use foreign_content::ForeignContent;
pub use host_rule::{HostRule, HostTarget};
pub use ids::{ApprovalId, InquiryId, MessageId, SessionId, ToolCallId, TurnId};
pub use instructions::{InstructionFile, InstructionKind};
pub use loss::{
    CommandLosses, Loss, LossList, LossReach, LossTarget, Losses, MAX_LISTED_LOSSES, NamedLosses,
};
pub use mcp::{McpLoginStatus, McpServerState, McpServerStatus};
pub use media::{MediaData, PDF};
pub use message::{Block, Message, ProviderCall, Reference, ReferenceKind, Role, Signature};
pub use reason::{ContinueReason, TerminalReason, Transition, TurnState};
pub use sandbox::{Confinement, SandboxLevel, SandboxMethod, SandboxNetwork, SandboxPolicy};
pub use tool_call::{
    ContentRef, FileLocation, FreeformInput, ToolCallStatus, ToolCallUpdate, ToolResult, ToolSpec,
};
pub use tool_definition::{FirstUses, GrantedTool, ToolDefinition};
pub use usage::{Cost, Price, PriceTier, Usage};
pub use user_request::{
    AgentQuestion, Answers, Attendance, FieldChoice, FieldType, Inquiry, InquiryReply, LimitName,
    LimitReached, OpenInquiry, QuestionField, RequestSubject,
};
pub use web_source::WebSource;
