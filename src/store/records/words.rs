//! Enums as stable words on disk. An unknown word makes its record unreadable, but never causes a panic.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::{
    ChangeKind, ChangeState, CircuitState, CircuitSubject, CompactTrigger, ContinueReason, DecisionKind,
    ErrorClass, ErrorCode, InstructionKind, LimitName, Mode, PlanStatus, ReferenceKind, ResolvedBy, Risk,
    Role, TerminalReason, ToolCallStatus, TurnState, TurnTrigger,
};

/// An enum that is stored as a word.
pub(in crate::store) trait StoredWord: Sized {
    fn as_word(&self) -> &'static str;
    /// Returns `None` for a word that this version does not know.
    fn from_word(word: &str) -> Option<Self>;
}

/// Serializes an enum as its word.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnumName<T>(pub(super) T);

impl<T: StoredWord> Serialize for EnumName<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_word())
    }
}

impl<'de, T: StoredWord> Deserialize<'de> for EnumName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::from_word(&word)
            .map(Self)
            .ok_or_else(|| D::Error::custom(format_args!("unknown word `{word}`")))
    }
}

/// Enums whose words exist only on disk.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl StoredWord for $name {
            fn as_word(&self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

/// Enums whose public name is already a stable word; the golden records detect a change.
macro_rules! named {
    ($($name:ident),*) => {
        $(impl StoredWord for $name {
            fn as_word(&self) -> &'static str {
                self.name()
            }
            fn from_word(word: &str) -> Option<Self> {
                Self::from_name(word)
            }
        })*
    };
}

named!(
    Mode,
    LimitName,
    ErrorCode,
    TerminalReason,
    ContinueReason,
    TurnState,
    CompactTrigger,
    InstructionKind
);

words!(ChangeState { Made = "made", Reverted = "reverted", Redone = "redone" });
words!(ChangeKind { Created = "created", Modified = "modified", Deleted = "deleted" });
words!(TurnTrigger { Prompt = "prompt", Resume = "resume", Compact = "compact", Queue = "queue" });
words!(CircuitSubject { Provider = "provider", Tool = "tool" });
words!(CircuitState { Closed = "closed", Open = "open", HalfOpen = "half_open" });
words!(Role { User = "user", Assistant = "assistant", Tool = "tool" });
words!(ReferenceKind { File = "file", Selection = "selection", Diagnostic = "diagnostic" });
words!(Risk { Low = "low", Medium = "medium", High = "high" });
words!(PlanStatus { Pending = "pending", InProgress = "in_progress", Completed = "completed" });
words!(ErrorClass { Retryable = "retryable", Terminal = "terminal", NonFatal = "non_fatal" });
words!(ResolvedBy {
    Person = "person",
    Rule = "rule",
    Cancel = "cancel",
    Timeout = "timeout",
    NewPrompt = "new_prompt",
});
words!(DecisionKind {
    Allow = "allow",
    AllowSession = "allow_session",
    AllowAlways = "allow_always",
    Deny = "deny",
});
words!(ToolCallStatus {
    Pending = "pending",
    AwaitingApproval = "awaiting_approval",
    Running = "running",
    Completed = "completed",
    Failed = "failed",
    Denied = "denied",
    Cancelled = "cancelled",
});
