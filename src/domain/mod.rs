//! The vocabulary: plain values that every module shares.
//!
//! No I/O and no serde: wire formats live in `protocol`, disk formats in `store`. The converters between them are
//! exhaustive matches, so that a new variant cannot be forgotten. Read `event` first; it ties the others together.

pub mod answer;
pub mod approval;
pub mod checkpoint;
pub mod circuit;
pub mod error;
pub mod event;
pub mod ids;
pub mod instructions;
pub mod message;
pub mod reason;
pub mod tool_call;
pub mod usage;
pub mod user_request;

pub use answer::FinalAnswer;
pub use approval::{
    Approval, CommandFiles, Decision, DecisionKind, Effect, EffectKind, FileFinding, FileUsage, FileWord,
    FindingKind, Grant, GrantScope, Mode, OpenApproval, ResolvedBy, Risk,
};
pub use checkpoint::{ChangeKind, ChangeState, FileChange, FileDiff, FileState, TurnDiff};
pub use error::{AgentError, ErrorCause, ErrorClass, ErrorCode};
pub use event::{
    CircuitState, CircuitSubject, CompactTrigger, Compaction, Delta, Envelope, Event, EventSink, PlanItem,
    PlanStatus, PromptQueue, QueuedPrompt, SubagentEvent, Summary, TurnEnd, TurnTrigger,
};
pub use ids::{ApprovalId, InquiryId, MessageId, SessionId, ToolCallId, TurnId};
pub use instructions::{InstructionFile, InstructionKind};
pub use message::{Block, ImageData, Message, ProviderCall, Reference, ReferenceKind, Role, Signature};
pub use reason::{ContinueReason, TerminalReason, Transition, TurnState};
pub use tool_call::{ContentRef, FileLocation, ToolCallStatus, ToolCallUpdate, ToolResult, ToolSpec};
pub use usage::{Cost, Price, Usage};
pub use user_request::{
    AgentQuestion, Answers, FieldChoice, Inquiry, InquiryReply, LimitName, LimitReached, OpenInquiry,
    QuestionField, RequestSubject,
};
