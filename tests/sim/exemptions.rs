//! Which cells of the coverage table are no gap though they are empty, and why (quality §4).
//!
//! Pure: a few general rules, no list of single cells. A rule says what cannot be; where a rule only says that a moment
//! is too short to be asked for, a run may meet it all the same, and the table shows its count.

use super::coverage::{SimFault, TurnPhase};
use agentls::domain::{ContinueReason as Go, TerminalReason as End, Transition};

/// A crash.
pub(super) const CRASH: &str = "a crash ends a turn as server_stopped and nothing else";
const NO_END: &str = "a continue is no end: what stops a turn from outside ends it as what it is";
const DECIDED: &str =
    "a cancel and the server's end have ends of their own: any other end was decided before them";
const NOTHING_DONE: &str = "nothing was done yet since the last decision, so nothing can have failed";
const NOT_ASKED: &str = "no provider was asked yet";
const CAUSE: &str = "these ends have a cause: the fault of their own is among what was met";
const NO_TOOLS: &str = "tools come after the answer: before it none has failed or was denied, but for what an interrupted \
                        turn left open";
const NO_HOOKS: &str =
    "in this phase a hook has failed only if it ran before the call: at a turn's start and after a steer";
const TWO_AT_ONCE: &str =
    "two things that are rare by themselves, independent of each other, within one step";
const A_BUG: &str = "it would be a bug: the checker takes it for a violation";

/// All rules, for the legend.
pub(super) const RULES: [&str; 10] = [
    CRASH,
    NO_END,
    DECIDED,
    NOTHING_DONE,
    NOT_ASKED,
    CAUSE,
    NO_TOOLS,
    NO_HOOKS,
    TWO_AT_ONCE,
    A_BUG,
];

/// Why a reason is never met at all.
pub(super) fn why_never_met(reason: Transition) -> Option<&'static str> {
    match reason {
        Transition::Terminal(End::InternalError) => Some(A_BUG),
        Transition::Continue(_) | Transition::Terminal(_) => None,
    }
}

/// Whether the decision can fall in the phase; a run may show others where what is shown lags behind what is asked.
pub(super) fn can_fall_in(reason: Transition, phase: TurnPhase) -> bool {
    use TurnPhase::{Asking, Compacting, Hook, Question, Starting, Streaming, Tools, Waiting};
    match reason {
        Transition::Continue(reason) => match reason {
            // By the model's answer and what its calls came to.
            Go::NextTurn => matches!(phase, Streaming | Question | Tools | Hook),
            // A hook after a tool runs before the call's end is told.
            Go::Reflection => matches!(phase, Question | Tools),
            Go::TokenBudgetContinuation => phase == Streaming,
            // By the answer alone, of which nothing need have been shown.
            Go::MaxOutputTokensEscalate
            | Go::MaxOutputTokensRecovery
            | Go::EmptyResponseRetry
            | Go::PauseTurn
            | Go::CollapseDrainRetry
            | Go::ReactiveCompactRetry
            | Go::ImageRetry => matches!(phase, Asking | Streaming),
            // By a call that failed, or by a circuit before the call.
            Go::ModelFallback => matches!(phase, Starting | Asking | Streaming | Waiting | Compacting | Hook),
            Go::StopHookBlocking => phase == Hook,
            Go::Planning => matches!(phase, Starting | Hook),
        },
        Transition::Terminal(reason) => match reason {
            End::Completed => matches!(phase, Starting | Streaming | Compacting | Hook),
            End::MaxOutputTokens | End::EmptyResponse | End::Refused | End::ImageError => {
                matches!(phase, Asking | Streaming)
            }
            End::PromptTooLong | End::BlockingLimit => {
                matches!(phase, Starting | Asking | Streaming | Compacting | Hook)
            }
            End::ModelError => {
                matches!(phase, Starting | Asking | Streaming | Waiting | Compacting | Hook)
            }
            // After the summary that policy `degrade` asks for, too.
            End::MaxTurns => matches!(phase, Asking | Streaming | Question | Tools | Hook),
            // What goes beyond the limit is answered, as tools are.
            End::MaxToolCalls => matches!(phase, Asking | Streaming | Tools),
            // Before each call, a retry's too.
            End::BudgetExceeded => matches!(phase, Starting | Waiting | Compacting | Hook),
            End::StopHookPrevented => phase == Hook,
            End::HookStopped => matches!(phase, Question | Tools | Hook),
            End::ToolFailed => matches!(phase, Question | Tools),
            End::SubagentFailed | End::JoinViolated => phase == Tools,
            End::AbortedTools => matches!(phase, Streaming | Question | Tools | Hook),
            End::NotConfigured => phase == Starting,
            End::AbortedStreaming => phase != Tools,
            End::WallTime | End::StoppedByUser | End::StoreFailed | End::ServerStopped => true,
            End::InternalError => false,
        },
    }
}

/// Why the decision need not have fallen in the phase after the fault.
pub(super) fn find_exemption(reason: Transition, phase: TurnPhase, fault: SimFault) -> Option<&'static str> {
    if let Some(why) = why_never_met(reason) {
        return Some(why);
    }
    let stops = |ends: &[End]| matches!(reason, Transition::Terminal(end) if ends.contains(&end));
    let goes_on = matches!(reason, Transition::Continue(_));
    let (of_call, of_tools) = (
        matches!(fault, SimFault::Refused | SimFault::Broken),
        matches!(fault, SimFault::Tool | SimFault::Denied),
    );
    match fault {
        SimFault::Crashed if !stops(&[End::ServerStopped]) => Some(CRASH),
        SimFault::Cancelled | SimFault::Ended if goes_on => Some(NO_END),
        SimFault::Ended if !stops(&[End::ServerStopped]) => Some(DECIDED),
        SimFault::Cancelled if !stops(&[End::AbortedStreaming, End::AbortedTools]) => Some(DECIDED),
        SimFault::None if has_cause(reason, phase) => Some(CAUSE),
        _ if phase == TurnPhase::Starting && (of_call || of_tools || fault == SimFault::Hook) => {
            Some(NOTHING_DONE)
        }
        _ if of_call && (before_calls(reason) || phase == TurnPhase::Hook && before_call(reason)) => {
            Some(NOT_ASKED)
        }
        _ if of_tools && (before_tools(phase) || !by_tools(reason)) => Some(NO_TOOLS),
        SimFault::Hook if before_tools(phase) => Some(NO_HOOKS),
        _ if of_call && two_at_once(reason, phase) => Some(TWO_AT_ONCE),
        // The last step's hook still runs, and the user has just denied another call of it.
        SimFault::Denied if phase == TurnPhase::Hook && stops(&[End::MaxTurns]) => Some(TWO_AT_ONCE),
        _ => None,
    }
}

/// An end by time while a user is asked: the time stands meanwhile, so it was due when the question came. An
/// overflow in mid-stream: most are told before the answer begins.
fn two_at_once(reason: Transition, phase: TurnPhase) -> bool {
    matches!(
        (reason, phase),
        (Transition::Terminal(End::WallTime), TurnPhase::Question)
            | (Transition::Continue(Go::CollapseDrainRetry), TurnPhase::Streaming)
    )
}

/// Decisions before any call of a turn.
fn before_calls(reason: Transition) -> bool {
    matches!(
        reason,
        Transition::Continue(Go::Planning) | Transition::Terminal(End::NotConfigured)
    )
}

/// Decisions that a call's outcome brings, or what stands before a call: in the hooks' phase nothing was asked yet.
fn before_call(reason: Transition) -> bool {
    matches!(
        reason,
        Transition::Continue(Go::ModelFallback)
            | Transition::Terminal(
                End::PromptTooLong | End::BlockingLimit | End::ModelError | End::BudgetExceeded
            )
    )
}

/// Phases before an answer is there.
fn before_tools(phase: TurnPhase) -> bool {
    matches!(
        phase,
        TurnPhase::Starting
            | TurnPhase::Asking
            | TurnPhase::Streaming
            | TurnPhase::Waiting
            | TurnPhase::Compacting
    )
}

/// Decisions that fall after tools, or at any moment.
fn by_tools(reason: Transition) -> bool {
    match reason {
        Transition::Continue(go) => matches!(go, Go::NextTurn | Go::Reflection),
        Transition::Terminal(end) => matches!(
            end,
            End::MaxTurns
                | End::MaxToolCalls
                | End::HookStopped
                | End::ToolFailed
                | End::SubagentFailed
                | End::JoinViolated
                | End::AbortedTools
                | End::AbortedStreaming
                | End::WallTime
                | End::StoppedByUser
                | End::StoreFailed
                | End::ServerStopped
        ),
    }
}

/// Decisions that come of a fault which is among those of the table.
fn has_cause(reason: Transition, phase: TurnPhase) -> bool {
    let asked = matches!(
        phase,
        TurnPhase::Asking | TurnPhase::Streaming | TurnPhase::Compacting
    );
    match reason {
        Transition::Terminal(end) => match end {
            End::AbortedStreaming
            | End::AbortedTools
            | End::StopHookPrevented
            | End::HookStopped
            | End::ToolFailed
            | End::SubagentFailed
            | End::JoinViolated
            | End::StoreFailed
            | End::ServerStopped
            | End::ImageError
            // The calls beyond it have failed.
            | End::MaxToolCalls => true,
            End::PromptTooLong | End::BlockingLimit | End::ModelError => asked,
            _ => false,
        },
        Transition::Continue(go) => match go {
            Go::StopHookBlocking | Go::CollapseDrainRetry | Go::ReactiveCompactRetry | Go::ImageRetry => true,
            Go::ModelFallback => asked,
            _ => false,
        },
    }
}
