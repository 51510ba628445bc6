//! Why a turn continues or ends (R-LOOP-1), and which state and error code each end has.
//!
//! Plain values and total functions; `turn::transition` makes the decisions.

use serde::{Deserialize, Serialize};

use super::error::ErrorCode;
use super::words::word_enum;

word_enum! {
    /// Why the loop calls the model again.
    pub enum ContinueReason {
        /// Tool calls ran, or a steer waits.
        NextTurn = "next_turn",
        /// Output was cut for the first time: the same request with a larger limit.
        MaxOutputTokensEscalate = "max_output_tokens_escalate",
        /// Output was cut again: keep what arrived and ask the model to continue.
        MaxOutputTokensRecovery = "max_output_tokens_recovery",
        /// The prompt was too long: stubs replaced old tool results.
        CollapseDrainRetry = "collapse_drain_retry",
        /// The prompt was still too long: a summary replaced part of the history.
        ReactiveCompactRetry = "reactive_compact_retry",
        /// The API refused an image: it was shrunk or removed.
        ImageRetry = "image_retry",
        /// The answer was empty: the same request again.
        EmptyResponseRetry = "empty_response_retry",
        /// The provider paused a long turn.
        PauseTurn = "pause_turn",
        /// The provider or the model was switched.
        ModelFallback = "model_fallback",
        /// A stop hook objected.
        StopHookBlocking = "stop_hook_blocking",
        /// The token target is not reached yet.
        TokenBudgetContinuation = "token_budget_continuation",
        /// The session's first prompt: the model is asked for a plan (R-LOOP-2).
        Planning = "planning",
        /// Tool calls ran, and the model is asked to judge its progress (R-LOOP-3).
        Reflection = "reflection",
    }
}

word_enum! {
    /// Why a turn has ended.
    pub enum TerminalReason {
        /// There is nothing more to do.
        Completed = "completed",
        /// The prompt does not fit the window, even after compaction.
        PromptTooLong = "prompt_too_long",
        /// The answer was cut at the output limit; what arrived is kept.
        MaxOutputTokens = "max_output_tokens",
        /// The provider failed for good.
        ModelError = "model_error",
        /// The model sent nothing.
        EmptyResponse = "empty_response",
        /// The image is still refused.
        ImageError = "image_error",
        /// The model or a filter declined.
        Refused = "refused",
        /// The user canceled while the model streamed, or before.
        AbortedStreaming = "aborted_streaming",
        /// The user canceled while tools ran.
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
        /// The turn reached its step limit.
        MaxTurns = "max_turns",
        /// A spending limit was reached.
        BudgetExceeded = "budget_exceeded",
        /// The limit of tool calls was reached.
        MaxToolCalls = "max_tool_calls",
        /// The time limit was reached.
        WallTime = "wall_time",
        /// The user chose to stop when asked.
        StoppedByUser = "stopped_by_user",
        /// No provider is configured.
        NotConfigured = "not_configured",
        /// The store can no longer be written.
        StoreFailed = "store_failed",
        /// The server stopped or crashed.
        ServerStopped = "server_stopped",
        /// A bug in agentls.
        InternalError = "internal_error",
    }
}

word_enum! {
    /// How a turn ended, in one word for clients.
    pub enum TurnState {
        /// Did what the user asked for.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Answered, but with less than the user asked for.
        Degraded = "degraded",
        /// Stopped by a limit, by the user's choice when asked, or by the end of the server.
        Interrupted = "interrupted",
        /// Canceled by the user.
        Cancelled = "cancelled",
    }
}

impl TurnState {
    /// Returns the state after something failed under policy `degrade`: at best `Degraded` (R-ERR-3).
    #[must_use]
    pub fn after_failure(self) -> Self {
        match self {
            Self::Completed => Self::Degraded,
            Self::Failed | Self::Degraded | Self::Interrupted | Self::Cancelled => self,
        }
    }
}

impl TerminalReason {
    /// Returns the turn's state for this reason.
    ///
    /// `degraded` means that something failed under policy `degrade`, or that the reached limit has that policy.
    pub fn to_turn_state(self, degraded: bool) -> TurnState {
        match self {
            Self::Completed if degraded => TurnState::Degraded,
            Self::Completed | Self::StopHookPrevented | Self::HookStopped => TurnState::Completed,
            // The answer is incomplete, so the turn never counts as completed (R-LOOP-1).
            Self::MaxOutputTokens => TurnState::Degraded,
            Self::MaxTurns | Self::MaxToolCalls if degraded => TurnState::Degraded,
            Self::AbortedStreaming | Self::AbortedTools => TurnState::Cancelled,
            Self::WallTime | Self::StoppedByUser | Self::ServerStopped => TurnState::Interrupted,
            // No wildcard: a new reason must choose its state here.
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

    /// Returns the error code of a turn that ends for this reason, or `None` if the end is not an error.
    ///
    /// A `model_error` may carry a more precise code (`quota_exhausted`, `circuit_open`), which its error holds.
    pub fn to_error_code(self) -> Option<ErrorCode> {
        match self {
            // A choice of the user, a hook's decision, or the end of the server is not an error.
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

/// The effect of a step's outcome on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// Call the model again.
    Continue(ContinueReason),
    /// End the turn.
    Terminal(TerminalReason),
}

impl Transition {
    /// Returns the name of the reason, continue or terminal.
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
    fn every_reason_is_found_by_its_name() {
        for reason in ContinueReason::ALL {
            assert_eq!(ContinueReason::from_name(reason.name()), Some(reason));
        }
        for reason in TerminalReason::ALL {
            assert_eq!(TerminalReason::from_name(reason.name()), Some(reason));
        }
    }

    #[test]
    fn only_completed_and_degradable_limits_can_end_degraded() {
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
