//! Why a turn goes on or ends (R-LOOP-1), and what state and error code an end has.

use super::error::ErrorCode;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All of them, in the order of R-LOOP-1's table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The reason of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

reasons! {
    /// Why the loop calls the model again.
    ContinueReason {
        /// Tool calls were run, or a steer waits.
        NextTurn = "next_turn",
        /// Output was cut for the first time: the same request with a larger limit.
        MaxOutputTokensEscalate = "max_output_tokens_escalate",
        /// Output was cut again: keep what came and ask to go on.
        MaxOutputTokensRecovery = "max_output_tokens_recovery",
        /// The prompt was too long: old tool results became stubs.
        CollapseDrainRetry = "collapse_drain_retry",
        /// Still too long: the history was summarised.
        ReactiveCompactRetry = "reactive_compact_retry",
        /// The API refused an image: it was shrunk or taken out.
        ImageRetry = "image_retry",
        /// Nothing came: asked again.
        EmptyResponseRetry = "empty_response_retry",
        /// The provider paused a long turn.
        PauseTurn = "pause_turn",
        /// The provider or the model was switched.
        ModelFallback = "model_fallback",
        /// A stop hook objected.
        StopHookBlocking = "stop_hook_blocking",
        /// The token target is not reached.
        TokenBudgetContinuation = "token_budget_continuation",
        /// The session's first prompt: the model is asked for a plan (R-LOOP-2).
        Planning = "planning",
        /// Tool calls were run, and the model is asked to judge its progress (R-LOOP-3).
        Reflection = "reflection",
    }
}

reasons! {
    /// Why a turn has ended.
    TerminalReason {
        /// Nothing more to do.
        Completed = "completed",
        /// The prompt does not fit the window, even compacted.
        PromptTooLong = "prompt_too_long",
        /// The answer was cut at the output limit; what came is kept.
        MaxOutputTokens = "max_output_tokens",
        /// The provider failed for good.
        ModelError = "model_error",
        /// The model said nothing.
        EmptyResponse = "empty_response",
        /// The image is still refused.
        ImageError = "image_error",
        /// The model or a filter declined.
        Refused = "refused",
        /// The person cancelled while the model streamed, or before.
        AbortedStreaming = "aborted_streaming",
        /// The person cancelled while tools ran.
        AbortedTools = "aborted_tools",
        /// A stop hook ended the turn.
        StopHookPrevented = "stop_hook_prevented",
        /// A hook ended the turn.
        HookStopped = "hook_stopped",
        /// A tool failed under policy `fail`.
        ToolFailed = "tool_failed",
        /// A sub-agent failed under policy `fail`.
        SubagentFailed = "subagent_failed",
        /// A join policy could not be met.
        JoinViolated = "join_violated",
        /// The window is full and automatic compaction is off.
        BlockingLimit = "blocking_limit",
        /// The step limit.
        MaxTurns = "max_turns",
        /// A money limit.
        BudgetExceeded = "budget_exceeded",
        /// The limit of tool calls.
        MaxToolCalls = "max_tool_calls",
        /// The time limit.
        WallTime = "wall_time",
        /// The person chose to stop at a question.
        StoppedByUser = "stopped_by_user",
        /// There is no provider to ask.
        NotConfigured = "not_configured",
        /// The store is gone.
        StoreFailed = "store_failed",
        /// The server ended or crashed.
        ServerStopped = "server_stopped",
        /// A bug of ours.
        InternalError = "internal_error",
    }
}

/// How a turn has ended, in one word for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnState {
    /// As asked.
    Completed,
    /// It could not.
    Failed,
    /// An answer, but less than was asked for.
    Degraded,
    /// Stopped by a limit, a person's choice at a question, or the server's end.
    Interrupted,
    /// Stopped by the person.
    Cancelled,
}

impl TurnState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Completed,
        Self::Failed,
        Self::Degraded,
        Self::Interrupted,
        Self::Cancelled,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Degraded => "degraded",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl TurnState {
    /// The state of a turn in which something failed under policy `degrade`: no better than `degraded` (R-ERR-3).
    #[must_use]
    pub fn after_failure(self) -> Self {
        match self {
            Self::Completed => Self::Degraded,
            Self::Failed | Self::Degraded | Self::Interrupted | Self::Cancelled => self,
        }
    }
}

impl TerminalReason {
    /// The turn's state for this reason. `degraded`: something failed under policy `degrade` on the way,
    /// or the reached limit has that policy.
    pub fn to_turn_state(self, degraded: bool) -> TurnState {
        match self {
            Self::Completed if degraded => TurnState::Degraded,
            Self::Completed | Self::StopHookPrevented | Self::HookStopped => TurnState::Completed,
            Self::MaxOutputTokens => TurnState::Degraded,
            Self::MaxTurns | Self::MaxToolCalls if degraded => TurnState::Degraded,
            Self::AbortedStreaming | Self::AbortedTools => TurnState::Cancelled,
            Self::WallTime | Self::StoppedByUser | Self::ServerStopped => TurnState::Interrupted,
            Self::PromptTooLong
            | Self::ModelError
            | Self::EmptyResponse
            | Self::ImageError
            | Self::Refused
            | Self::ToolFailed
            | Self::SubagentFailed
            | Self::JoinViolated
            | Self::BlockingLimit
            | Self::MaxTurns
            | Self::BudgetExceeded
            | Self::MaxToolCalls
            | Self::NotConfigured
            | Self::StoreFailed
            | Self::InternalError => TurnState::Failed,
        }
    }

    /// The error code that such an end carries, where it carries one. `model_error` may carry a more
    /// precise one (`quota_exhausted`, `circuit_open`).
    pub fn to_error_code(self) -> Option<ErrorCode> {
        match self {
            Self::Completed
            | Self::MaxOutputTokens
            | Self::StopHookPrevented
            | Self::HookStopped
            | Self::StoppedByUser
            | Self::ServerStopped => None,
            Self::PromptTooLong | Self::BlockingLimit => Some(ErrorCode::ContextLimit),
            Self::ModelError | Self::ImageError | Self::Refused => Some(ErrorCode::ProviderError),
            Self::EmptyResponse => Some(ErrorCode::EmptyResponse),
            Self::AbortedStreaming | Self::AbortedTools => Some(ErrorCode::Cancelled),
            Self::ToolFailed | Self::SubagentFailed | Self::JoinViolated => Some(ErrorCode::ToolExecution),
            Self::MaxTurns => Some(ErrorCode::MaxIterations),
            Self::BudgetExceeded => Some(ErrorCode::BudgetExceeded),
            Self::MaxToolCalls => Some(ErrorCode::ToolCallsExceeded),
            Self::WallTime => Some(ErrorCode::WallTimeExceeded),
            Self::NotConfigured => Some(ErrorCode::Config),
            Self::StoreFailed => Some(ErrorCode::Store),
            Self::InternalError => Some(ErrorCode::Internal),
        }
    }
}

/// What a step's outcome does to the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Call the model again.
    Continue(ContinueReason),
    /// The turn ends.
    Terminal(TerminalReason),
}

impl Transition {
    /// The reason's name.
    pub fn reason_name(self) -> &'static str {
        match self {
            Self::Continue(reason) => reason.name(),
            Self::Terminal(reason) => reason.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for reason in ContinueReason::ALL {
            assert_eq!(ContinueReason::from_name(reason.name()), Some(*reason));
        }
        for reason in TerminalReason::ALL {
            assert_eq!(TerminalReason::from_name(reason.name()), Some(*reason));
        }
    }

    #[test]
    fn only_limits_soften_to_degraded() {
        let softened: Vec<_> = TerminalReason::ALL
            .iter()
            .filter(|reason| reason.to_turn_state(false) != reason.to_turn_state(true))
            .map(|reason| reason.name())
            .collect();
        assert_eq!(softened, ["completed", "max_turns", "max_tool_calls"]);
    }

    #[test]
    fn failed_and_cancelled_ends_carry_a_code() {
        for reason in TerminalReason::ALL {
            match reason.to_turn_state(false) {
                TurnState::Failed | TurnState::Cancelled => {
                    assert!(reason.to_error_code().is_some(), "{reason:?}")
                }
                TurnState::Completed | TurnState::Degraded => {
                    assert!(reason.to_error_code().is_none(), "{reason:?}")
                }
                TurnState::Interrupted => {}
            }
        }
    }
}
