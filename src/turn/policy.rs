//! What a turn watches about itself: failures under a policy, calls since it last judged its progress, calls that are
//! made again and again. Pure, no I/O; with it the words for the model that go with planning and reflection.

use super::TurnContext;
use super::loop_guard::LoopDetector;
use crate::config::FailurePolicy;

/// How a session's agent shall conduct itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentPolicy {
    /// A session's first prompt asks for a plan (R-LOOP-2).
    pub planning: bool,
    /// After so many tool calls it judges its progress (R-LOOP-3).
    pub reflection: Option<u32>,
    /// What a tool that failed does to the turn (R-ERR-3).
    pub tool_failure: FailurePolicy,
    /// What a tool that ran out of time does to it.
    pub tool_timeout: FailurePolicy,
    /// What a sub-agent does to it that failed where all were required.
    pub subagent_failure: FailurePolicy,
}

/// How a turn has conducted itself so far.
#[derive(Debug, Default)]
pub(super) struct PolicyState {
    /// Something failed under policy `degrade`.
    pub(super) degraded: bool,
    /// The plan was asked for.
    pub(super) planned: bool,
    /// What the model is told with the next continue.
    pub(super) words: Option<String>,
    /// Tool calls that ran since the model last judged its progress.
    pub(super) calls: u32,
    /// Steps that are made again and again.
    pub(super) repeats: LoopDetector,
}

impl PolicyState {
    /// Whether it is time to judge the progress.
    pub(super) fn should_reflect(&self, cx: &TurnContext) -> bool {
        cx.conducts.reflection.is_some_and(|every| self.calls >= every)
    }

    /// Asks the model to judge its progress; the next time is as far away again.
    pub(super) fn take_reflection_prompt(&mut self) -> String {
        let calls = std::mem::take(&mut self.calls);
        format!(
            "Pause after {calls} tool calls and judge your progress, in two or three sentences: what is done, does the \
             way you took lead to what was asked, what is to be done differently? Then go on, or finish if all is done."
        )
    }
}

/// Asks for a plan before anything is done.
pub(super) fn planning_prompt() -> String {
    "Before you act, think the task through and write down: what is asked and what is known; a plan of at most 5 \
     steps; what is likely to go wrong, and how you would notice. Keep it short. Then begin with the first step."
        .to_owned()
}
