//! The settings of one turn, resolved from the configuration at its start. A reload never changes a running turn.
//!
//! It must not know where a setting comes from.

use std::sync::Arc;
use std::time::Duration;

use super::hooks::Hooks;
use super::model_choice::{ModelChoice, ModelSource};
use super::transition::TurnLimits;
use crate::config::{FailurePolicy, SandboxSettings};
use crate::context::{SystemText, max_result_bytes, usable_tokens};
use crate::domain::{InstructionFile, Mode};
use crate::workspace::prompts::Skills;

/// What a turn may do, and how.
#[derive(Clone)]
pub struct TurnSettings {
    /// Resolves the provider and the model to call.
    pub models: Arc<dyn ModelSource>,
    /// The agent, model and effort that the session selects.
    pub choice: ModelChoice,
    /// Builds the system prompt.
    pub prompt_source: SystemPromptSource,
    pub limits: TurnLimits,
    /// How the turn keeps its history within the window.
    pub context: ContextPolicy,
    /// The configured time limit of a tool, by name.
    pub tool_timeouts: ToolTimeouts,
    /// How long the circuit of a failing tool stays open, by tool name.
    pub tool_cooldowns: ToolCooldowns,
    /// The sandbox of commands.
    pub sandbox: Arc<SandboxSettings>,
    /// The session's mode when the turn started.
    pub mode: Mode,
    /// The model is told about mode, sandbox, folder, system, and git.
    pub describes_environment: bool,
    /// The user's commands that run at certain points of the turn.
    pub hooks: Hooks,
    /// Planning, reflection and failure policies.
    pub policy: AgentPolicy,
}

/// Returns the configured time limit of the named tool, if there is one.
pub type ToolTimeouts = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// Returns the configured cool-down of the named tool's circuit.
pub type ToolCooldowns = Arc<dyn Fn(&str) -> Duration + Send + Sync>;

/// The configured behavior of a session's agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPolicy {
    /// The session's first prompt asks for a plan (R-LOOP-2).
    pub planning: bool,
    /// The prompt that asks for it; `None` for the built-in one.
    pub planning_prompt: Option<String>,
    /// The number of tool calls after which the model judges its progress (R-LOOP-3); off if `None`.
    pub reflection: Option<u32>,
    /// The prompt that asks for that; `None` for the built-in one.
    pub reflection_prompt: Option<String>,
    /// What a failed tool does to the turn (R-ERR-3).
    pub tool_failure: FailurePolicy,
    /// What a tool's timeout does to the turn (R-ERR-3).
    pub tool_timeout: FailurePolicy,
    /// What a failed sub-agent does to the turn under the join `all_required` (R-ERR-3).
    pub subagent_failure: FailurePolicy,
    /// How long the result of an edit waits for the errors that it brought; `None` if it does not name them.
    pub new_errors_wait: Option<Duration>,
}

/// How a turn keeps its requests within the window.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextPolicy {
    /// Compacts the history automatically.
    pub auto_compact: bool,
    /// `provider/model`, `provider` or `model` that writes summaries; the turn's own model if `None`.
    pub compaction_model: Option<String>,
    /// The part of the available tokens, 0 to 1, above which the history is compacted before the call (R-CTX-1).
    pub threshold: f64,
    /// The tokens above which it is compacted however large the window is.
    pub limit: u64,
    /// Tokens of the window that stay free for the answer (R-CTX-1), but at most a quarter of the window.
    pub reserve: u64,
}

impl Default for ContextPolicy {
    fn default() -> Self {
        Self {
            auto_compact: true,
            compaction_model: None,
            threshold: 0.75,
            limit: 200_000,
            reserve: 8_192,
        }
    }
}

impl ContextPolicy {
    /// Returns whether a request with `tokens` tokens is compacted before it is sent.
    pub(super) fn is_due(&self, tokens: u64, window: u64) -> bool {
        tokens > self.compaction_limit(window)
    }

    /// Returns the tokens above which a request is compacted before it is sent.
    pub(super) fn compaction_limit(&self, window: u64) -> u64 {
        let share = self.available_tokens(window) as f64 * self.threshold;
        self.limit.min(share as u64)
    }

    /// Returns the longest result of one tool call, in bytes, for a model with this window.
    pub(super) fn max_result_bytes(&self, window: u64) -> usize {
        max_result_bytes(usable_tokens(window, self.compaction_limit(window)))
    }

    /// Returns whether a request with `tokens` tokens leaves no room for an answer.
    pub(super) fn is_full(&self, tokens: u64, window: u64) -> bool {
        tokens > self.available_tokens(window)
    }

    /// Returns the tokens that a request may use.
    fn available_tokens(&self, window: u64) -> u64 {
        // A fixed reserve would take most of a small window.
        window - self.reserve.min(window / 4)
    }
}

/// A system prompt and its sources.
#[derive(Clone, Debug, Default)]
pub struct SystemPrompt {
    pub text: SystemText,
    /// The instruction files that it was built from.
    pub files: Arc<[InstructionFile]>,
    /// The skills that `read_skill` can load.
    pub skills: Arc<Skills>,
}

/// Where a turn gets its system prompt.
#[derive(Clone)]
pub enum SystemPromptSource {
    /// A fixed text.
    Fixed(SystemText),
    /// Built from files. The function blocks.
    Files(SystemPromptReader),
}

/// Builds a system prompt.
pub type SystemPromptReader = Arc<dyn Fn() -> SystemPrompt + Send + Sync>;

impl From<&str> for SystemPromptSource {
    fn from(text: &str) -> Self {
        Self::Fixed(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_threshold_matches_r_ctx_1() {
        let policy = ContextPolicy::default();
        assert!(!policy.is_due(143_856, 200_000));
        assert!(policy.is_due(143_857, 200_000));
        assert!(!policy.is_full(191_808, 200_000));
        assert!(policy.is_full(191_809, 200_000));
        // A small window keeps at most a quarter free.
        assert!(!policy.is_due(2_304, 4_096));
        assert!(policy.is_due(2_305, 4_096));
        assert!(policy.is_full(3_073, 4_096));
        assert!(policy.is_due(1, 0));
        // Long requests cost more than they help, so a large window is not filled.
        assert!(!policy.is_due(200_000, 1_000_000));
        assert!(policy.is_due(200_001, 1_000_000));
    }

    #[test]
    fn threshold_and_reserve_are_configurable() {
        let policy = ContextPolicy {
            threshold: 0.5,
            reserve: 20_000,
            ..ContextPolicy::default()
        };
        assert!(!policy.is_due(90_000, 200_000));
        assert!(policy.is_due(90_001, 200_000));
        assert!(!policy.is_full(180_000, 200_000));
        assert!(policy.is_full(180_001, 200_000));
        assert!(!policy.is_full(3_072, 4_096), "a quarter at most is kept free");
    }
}
