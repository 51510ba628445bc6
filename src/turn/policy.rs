//! What a turn watches about itself: failures under a policy, calls since the last reflection, repeated steps.
//!
//! Pure, no I/O. It also words the planning and reflection prompts (R-LOOP-2, R-LOOP-3).

use super::TurnContext;
use super::loop_guard::LoopDetector;
use crate::config::FailurePolicy;

/// The configured behavior of a session's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentPolicy {
    /// The session's first prompt asks for a plan (R-LOOP-2).
    pub planning: bool,
    /// The number of tool calls after which the model judges its progress (R-LOOP-3); off if `None`.
    pub reflection: Option<u32>,
    /// What a failed tool does to the turn (R-ERR-3).
    pub tool_failure: FailurePolicy,
    /// What a tool's timeout does to the turn (R-ERR-3).
    pub tool_timeout: FailurePolicy,
    /// What a failed sub-agent does to the turn under the join `all_required` (R-ERR-3).
    pub subagent_failure: FailurePolicy,
}

/// The turn's own observations so far.
#[derive(Debug, Default)]
pub(super) struct PolicyState {
    /// A tool or sub-agent failed under policy `degrade`.
    pub(super) degraded: bool,
    /// The plan was requested.
    pub(super) planned: bool,
    /// The prompt of the next continue, from a stop hook.
    pub(super) pending_nudge: Option<String>,
    /// Tool calls since the last reflection.
    pub(super) calls: u32,
    /// Detects repeated steps.
    pub(super) repeats: LoopDetector,
}

impl PolicyState {
    /// Returns whether a reflection is due.
    pub(super) fn should_reflect(&self, cx: &TurnContext) -> bool {
        cx.policy.reflection.is_some_and(|every| self.calls >= every)
    }

    /// Returns the reflection prompt, and starts counting again.
    pub(super) fn take_reflection_prompt(&mut self) -> String {
        let calls = std::mem::take(&mut self.calls);
        format!(
            "Pause after {calls} tool calls and judge your progress, in two or three sentences: what is done, does the \
             way you took lead to what was asked, what is to be done differently? Then go on, or finish if all is done."
        )
    }
}

/// Returns the prompt that asks for a plan before the first step.
pub(super) fn planning_prompt() -> String {
    "Before you act, think the task through and write down: what is asked and what is known; a plan of at most 5 \
     steps; what is likely to go wrong, and how you would notice. Keep it short. Then begin with the first step."
        .to_owned()
}
