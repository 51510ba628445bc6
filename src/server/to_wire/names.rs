//! Conversions between enums with the same variants on both sides. The matches are exhaustive over the source's.

use crate::domain;
use crate::protocol as wire;

macro_rules! to_wire {
    ($($from:ident => $to:ident { $($variant:ident)* })*) => {$(
        impl From<domain::$from> for wire::$to {
            fn from(value: domain::$from) -> Self {
                match value { $(domain::$from::$variant => Self::$variant,)* }
            }
        }
    )*};
}

macro_rules! from_wire {
    ($($from:ident => $to:ident { $($variant:ident)* })*) => {$(
        impl From<wire::$from> for domain::$to {
            fn from(value: wire::$from) -> Self {
                match value { $(wire::$from::$variant => Self::$variant,)* }
            }
        }
    )*};
}

to_wire! {
    Mode => Mode { Plan Ask AutoEdit Full }
    Risk => Risk { Low Medium High }
    SandboxLevel => SandboxLevel { None Partial Full }
    SandboxNetwork => SandboxNetwork { Offline Proxy Open }
    SandboxPolicy => SandboxPolicy { ReadOnly Workspace Off }
    DecisionKind => Decision { Allow AllowSession AllowAlways Deny }
    ResolvedBy => SettledBy { Person Rule Cancel Timeout NewPrompt }
    GrantScope => GrantScope { Session Workspace }
    ToolCallStatus => ToolCallStatus { Pending AwaitingApproval Running Completed Failed Denied Cancelled }
    TurnTrigger => TurnAsker { Prompt Resume Compact Queue }
    CompactTrigger => CompactTrigger { Threshold Overflow Picture Manual }
    Role => Role { User Assistant Tool }
    ReferenceKind => ReferenceKind { File Selection Diagnostic Resource Prompt }
    PlanStatus => PlanStatus { Pending InProgress Completed }
    CircuitSubject => CircuitSubject { Provider Tool }
    CircuitState => CircuitState { Closed Open HalfOpen }
    TurnState => TurnState { Completed Failed Degraded Interrupted Cancelled }
    ErrorClass => ErrorClass { Retryable Terminal NonFatal }
    ErrorCode => ErrorCode {
        MaxIterations ProviderError ToolExecution ContextLimit BudgetExceeded Cancelled CircuitOpen
        QuotaExhausted EmptyResponse ToolCallsExceeded WallTimeExceeded Config Session Protocol Store Internal
    }
    ContinueReason => ContinueReason {
        NextTurn MaxOutputTokensEscalate MaxOutputTokensRecovery CollapseDrainRetry ReactiveCompactRetry
        ImageRetry EmptyResponseRetry PauseTurn ModelFallback StopHookBlocking TokenBudgetContinuation
        Planning Reflection
    }
    TerminalReason => TerminalReason {
        Completed PromptTooLong MaxOutputTokens ModelError EmptyResponse ImageError Refused AbortedStreaming
        AbortedTools StopHookPrevented HookStopped ToolFailed SubagentFailed JoinViolated BlockingLimit
        MaxTurns BudgetExceeded MaxToolCalls WallTime StoppedByUser NotConfigured StoreFailed ServerStopped
        InternalError
    }
}

from_wire! {
    Mode => Mode { Plan Ask AutoEdit Full }
    Decision => DecisionKind { Allow AllowSession AllowAlways Deny }
}

/// Parses the name of an effort. The domain stores it as text.
pub fn parse_effort(name: &str) -> Option<wire::Effort> {
    serde_json::from_value(name.into()).ok()
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    fn on_wire(value: impl Serialize) -> String {
        serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn names_on_the_wire_equal_the_domains_names() {
        for mode in domain::Mode::ALL {
            assert_eq!(on_wire(wire::Mode::from(mode)), mode.name());
        }
        for code in domain::ErrorCode::ALL {
            assert_eq!(on_wire(wire::ErrorCode::from(code)), code.name());
        }
        for state in domain::TurnState::ALL {
            assert_eq!(on_wire(wire::TurnState::from(state)), state.name());
        }
        for reason in domain::ContinueReason::ALL {
            assert_eq!(on_wire(wire::ContinueReason::from(reason)), reason.name());
        }
        for reason in domain::TerminalReason::ALL {
            assert_eq!(on_wire(wire::TerminalReason::from(reason)), reason.name());
        }
        for class in [
            domain::ErrorClass::Retryable,
            domain::ErrorClass::Terminal,
            domain::ErrorClass::NonFatal,
        ] {
            assert_eq!(on_wire(wire::ErrorClass::from(class)), class.name());
        }
    }

    #[test]
    fn a_transitions_reason_round_trips_as_the_same_kind() {
        for reason in domain::TerminalReason::ALL {
            let reason = wire::TransitionReason::Terminal(reason.into());
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(
                serde_json::from_str::<wire::TransitionReason>(&text).unwrap(),
                reason
            );
        }
    }
}
