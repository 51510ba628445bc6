//! What a turn watches about itself: failures under a policy, calls since the last reflection, repeated steps.
//!
//! Pure, no I/O. It also words the planning and reflection prompts (R-LOOP-2, R-LOOP-3).

use super::loop_guard::LoopDetector;

/// The turn's own observations so far.
#[derive(Debug, Default)]
pub(super) struct PolicyState {
    /// A tool or sub-agent failed under policy `degrade`.
    pub(super) degraded: bool,
    /// The plan was requested.
    pub(super) planned: bool,
    /// The prompt of the next continue: the objection of a stop hook, what follows a call in a text, or what is said of
    /// calls that were cut off.
    pub(super) pending_nudge: Option<String>,
    /// Tool calls since the last reflection.
    pub(super) calls: u32,
    /// Detects repeated steps.
    pub(super) repeats: LoopDetector,
}

impl PolicyState {
    /// Returns whether a reflection is due; `every` is the number of tool calls between two.
    pub(super) fn should_reflect(&self, every: Option<u32>) -> bool {
        every.is_some_and(|every| self.calls >= every)
    }

    /// Returns the reflection prompt, which may be `configured`, and starts counting again.
    pub(super) fn take_reflection_prompt(&mut self, configured: Option<&str>) -> String {
        let calls = std::mem::take(&mut self.calls);
        if let Some(prompt) = configured {
            return prompt.to_owned();
        }
        format!(
            "Pause after {calls} tool calls and judge your progress, in two or three sentences: what is done, does the \
             way you took lead to what was asked, what is to be done differently? Then go on, or finish if all is done."
        )
    }
}

/// The prompt that asks for a plan before the first step.
pub(super) const PLANNING_PROMPT: &str = "Before you act, think the task through and write down: what is asked and what is known; a plan of at most 5 \
     steps; what is likely to go wrong, and how you would notice. Keep it short. Then begin with the first step.";
