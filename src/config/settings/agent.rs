//! The settings of an agent: its model, mode, limits, instructions and tools.
//!
//! A named agent inherits from `default`; `resolve` fills in what it does not set.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::untrusted::Untrusted;
use crate::config::values::{Seconds, StringList, read_usd};
use crate::domain::{Cost, Mode};

/// How many tool calls pass between progress checks when reflection is on without a number (R-LOOP-3).
const REFLECTION: u32 = 3;

/// How long the result of an edit waits for new errors (R-LANG).
const DIAGNOSTICS_WAIT: Duration = Duration::from_secs(2);

/// An agent.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// The NAME of `[agent.NAME]`.
    #[serde(skip)]
    pub name: String,
    /// The agent names a provider or a model itself instead of inheriting both from `default`.
    #[serde(skip)]
    pub names_model: bool,
    /// Which provider the first part of `model` may select.
    #[serde(skip)]
    pub model_prefix: ModelPrefix,
    /// The agent or `default` sets `max_steps`.
    #[serde(skip)]
    pub names_max_steps: bool,
    /// The agent's purpose, in one line, for lists.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub description: Option<String>,
    /// The provider to use. Default: the one whose key is available.
    #[schemars(extend("x-untrusted" = Untrusted::Repeat))]
    pub provider: Option<String>,
    /// The model to use. Default: the provider's.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub model: Option<String>,
    /// Whether the agent, as a sub-agent, uses the cheapest current model of the session's provider. Only if it names no
    /// model itself. Default: false; true for `explore`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub cheap_model: bool,
    /// How freely the agent may act. Default: `ask`.
    #[schemars(with = "ModeSchema", extend("x-untrusted" = Untrusted::StricterMode))]
    pub mode: Mode,
    /// How many model calls one prompt may cause. Alias: `max_iterations`. Default: 50, or 200 if the client takes no
    /// questions, so that nobody can raise it, as in `agentls run`.
    #[schemars(range(min = 1, max = 100_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_steps: u32,
    /// The most that a session may cost, in US dollars. Alias: `max_total_cost_usd`. Default: no limit.
    #[serde(deserialize_with = "read_usd")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_session_cost: Option<Cost>,
    /// The most that a turn may cost, in US dollars. Default: no limit.
    #[serde(deserialize_with = "read_usd")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_turn_cost: Option<Cost>,
    /// The most that all sessions together may cost in one day (UTC), in US dollars. Default: no limit.
    #[serde(deserialize_with = "read_usd")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_day_cost: Option<Cost>,
    /// How many tool calls one prompt may cause. Default: no limit.
    #[schemars(range(min = 1, max = 1_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_tool_calls: Option<u32>,
    /// How many sub-agents one prompt may start, including those that sub-agents start. Default: 100.
    #[schemars(range(min = 1, max = 100_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_subagents: u32,
    /// How long a turn may run, in seconds, without the time it waits for a user. Default: no limit.
    #[schemars(range(min = 0.001, max = 31_536_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_wall_time_s: Option<Seconds>,
    /// What happens at the limit of steps or tool calls. `fail` ends the turn; `degrade` makes one last model call
    /// without tools, which sums up the results. Default: `fail`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub limit_reached: LimitPolicy,
    /// How hard the model thinks before it answers. A model that lacks an effort gets the nearest one that it has, with a
    /// warning. Default: `off`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub reasoning_effort: ReasoningEffort,
    /// Instructions that replace the built-in ones.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub system_prompt: Option<String>,
    /// A file with such instructions, read again in each turn; overrides `system_prompt`. A relative path starts at the
    /// config file's folder.
    // Never from an untrusted folder: it would send any of the user's files to a model.
    #[schemars(extend("x-path" = true))]
    pub prompt_file: Option<PathBuf>,
    /// Who takes over when the agent's provider is not available, in order: `provider`, or `provider/model`. Default:
    /// the provider's `fallback`.
    #[schemars(extend("x-untrusted" = Untrusted::Repeat))]
    pub route: Option<StringList>,
    /// The tools that the agent has, and no others; `*` matches any characters. Default: all.
    #[schemars(extend("x-untrusted" = Untrusted::IfUnset))]
    pub tools: Option<StringList>,
    /// Tools that the agent does not have; overrides `tools`.
    #[schemars(extend("x-untrusted" = Untrusted::IfUnset))]
    pub deny_tools: StringList,
    /// How the output limit grows after an answer was cut off: `large` raises it once to 64,000 tokens, `double`
    /// doubles it up to three times. Default: `large`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub output_escalation: OutputEscalation,
    /// Whether to summarize a history automatically before it exceeds the model's context window. Default: true.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub auto_compact: bool,
    /// The model that writes such summaries: `provider/model`, `provider` or `model`. Default: the session's.
    #[schemars(extend("x-untrusted" = Untrusted::Repeat))]
    pub compaction_model: Option<String>,
    /// The fraction of the available context at which the history is summarized. Default: 0.75.
    #[schemars(range(min = 0.2, max = 0.95), extend("x-untrusted" = Untrusted::Any))]
    pub compaction_threshold: f64,
    /// The number of tokens at which the history is summarized, even if the context window is larger. Many models answer
    /// worse and cost more beyond it. Default: 200000.
    #[schemars(range(min = 10_000, max = 10_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub compaction_limit: u64,
    /// How many tokens of the context window stay free for the answer; at most a quarter of a small window. Default:
    /// 8192.
    #[schemars(range(min = 1_024, max = 1_000_000), extend("x-untrusted" = Untrusted::Any))]
    pub output_reserve: u64,
    /// How many tokens a turn should write at least. An agent that stops below 90% of them is asked to continue.
    /// Default: the agent stops on its own.
    // Without a target the agent ends on its own, so any target makes turns longer.
    #[schemars(range(min = 1), extend("x-untrusted" = Untrusted::LowerOrZero))]
    pub token_target: Option<u64>,
    /// Whether a session's first prompt asks for an analysis, a plan of at most 5 steps and likely problems before the
    /// agent acts. Default: false.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub planning: bool,
    /// The prompt that asks for the plan, in place of the built-in one. Has an effect only with `planning`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub planning_prompt: Option<String>,
    /// How many tool calls pass before the agent is asked to judge its progress; `true` means 3. Default: false.
    // Never from an untrusted folder: it would cause model calls that the user did not ask for.
    pub reflection: Reflection,
    /// The prompt that asks the agent to judge its progress, in place of the built-in one. Has an effect only with
    /// `reflection`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub reflection_prompt: Option<String>,
    /// What a failed tool does to the turn. `continue` only tells the model, `degrade` also ends the turn no better
    /// than `degraded`, `fail` ends it. Default: `continue`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub tool_failure: FailurePolicy,
    /// The same for a tool that exceeded its time limit. Default: `continue`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub tool_timeout: FailurePolicy,
    /// The same for a failed sub-agent, if its call required all sub-agents to succeed. Default: `continue`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub subagent_failure: FailurePolicy,
    /// Whether the result of an edit names the new errors that the editor reports, and for how many seconds it waits for
    /// them at most after the edit, and half as long before it; `true` means 2. Default: true.
    // Never from an untrusted folder: it could slow down every edit.
    pub diagnostics_after_edit: DiagnosticsAfterEdit,
}

/// The schema of [`Mode`], which has no form outside the store of its own.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ModeSchema {
    /// Reads only.
    Plan,
    /// Reads need no approval; commands, writes and network access do.
    Ask,
    /// Edits inside the workspace need no approval either, nor do commands that the sandbox confines in full.
    AutoEdit,
    /// Nothing needs approval.
    Full,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            names_model: false,
            model_prefix: ModelPrefix::default(),
            names_max_steps: false,
            description: None,
            provider: None,
            model: None,
            cheap_model: false,
            mode: Mode::default(),
            max_steps: 50,
            max_session_cost: None,
            max_turn_cost: None,
            max_day_cost: None,
            max_tool_calls: None,
            max_subagents: 100,
            max_wall_time_s: None,
            limit_reached: LimitPolicy::default(),
            reasoning_effort: ReasoningEffort::default(),
            system_prompt: None,
            prompt_file: None,
            route: None,
            tools: None,
            deny_tools: StringList::default(),
            output_escalation: OutputEscalation::default(),
            auto_compact: true,
            compaction_model: None,
            compaction_threshold: 0.75,
            compaction_limit: 200_000,
            output_reserve: 8_192,
            token_target: None,
            planning: false,
            planning_prompt: None,
            reflection: Reflection::default(),
            reflection_prompt: None,
            tool_failure: FailurePolicy::default(),
            tool_timeout: FailurePolicy::default(),
            subagent_failure: FailurePolicy::default(),
            diagnostics_after_edit: DiagnosticsAfterEdit::On(true),
        }
    }
}

impl AgentSettings {
    /// Returns which tools the agent has.
    pub fn tool_choice(&self) -> ToolChoice {
        ToolChoice {
            only: self.tools.clone(),
            never: self.deny_tools.clone(),
        }
    }

    /// Iterates over the agent's own route: each provider, and the model to use there if the route names one.
    pub fn iter_route(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.route
            .iter()
            .flat_map(|route| route.iter())
            .map(|step| parse_route_step(step))
    }
}

/// Splits a step of a route into the provider and the model.
pub(in crate::config) fn parse_route_step(step: &str) -> (&str, Option<&str>) {
    step.split_once('/')
        .map_or((step, None), |(provider, model)| (provider, Some(model)))
}

/// Which provider the first part of an agent's model name may select.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelPrefix {
    /// Any configured one: no provider was stated together with the model, or only by a lower layer.
    #[default]
    Selects,
    /// None but the provider that was stated together with the model.
    Agrees,
    /// None: an untrusted folder states the model, and must not send code to another provider.
    Ignored,
}

/// A tool that does the work of others. An agent has it if it has all of them, and lists need not name it.
const COMBINED_TOOL: (&str, [&str; 2]) = ("apply_patch", ["edit_file", "write_file"]);

/// The tools that an agent has, by names in which `*` matches any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Only these; `None` allows all.
    pub only: Option<StringList>,
    /// None of these.
    pub never: StringList,
}

impl ToolChoice {
    /// Returns whether the agent has the tool with this name.
    pub fn is_allowed(&self, tool: &str) -> bool {
        let (combined, parts) = COMBINED_TOOL;
        let is_listed = if tool == combined {
            parts.iter().all(|part| self.is_allowed(part))
        } else {
            self.only.as_ref().is_none_or(|only| only.matches_name(tool))
        };
        is_listed && !self.never.matches_name(tool)
    }

    /// Returns whether the agent has a tool with two names.
    pub fn is_allowed_by_either(&self, name: &str, other: &str) -> bool {
        let is_in = |list: &StringList| list.matches_name(name) || list.matches_name(other);
        self.only.as_ref().is_none_or(is_in) && !is_in(&self.never)
    }

    /// Returns whether the agent may have tools of the MCP server with this name.
    pub fn may_have_tools_of(&self, server: &str) -> bool {
        let prefixes = [format!("mcp:{server}/"), format!("mcp__{server}__")];
        let any = |test: &dyn Fn(&str) -> bool| prefixes.iter().any(|prefix| test(prefix));
        let may_match = |only: &StringList| any(&|prefix| only.may_match_below(prefix));
        self.only.as_ref().is_none_or(may_match) && !any(&|prefix| self.never.matches_all_below(prefix))
    }
}

/// Whether to ask for progress checks, or after how many tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reflection {
    /// After 3 tool calls, or never.
    On(bool),
    /// After this many tool calls.
    Every(#[schemars(range(min = 1, max = 100_000))] u32),
}

impl Default for Reflection {
    fn default() -> Self {
        Self::On(false)
    }
}

impl Reflection {
    /// Returns after how many tool calls the agent is asked; `None` means never.
    pub fn interval(self) -> Option<u32> {
        match self {
            Self::On(false) => None,
            Self::On(true) => Some(REFLECTION),
            Self::Every(calls) => Some(calls),
        }
    }
}

/// Whether the result of an edit names the new errors, or how long it waits for them (R-LANG).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DiagnosticsAfterEdit {
    /// After at most 2 seconds, or never.
    On(bool),
    /// After at most this many seconds.
    Seconds(#[schemars(range(min = 1, max = 60))] u32),
}

impl DiagnosticsAfterEdit {
    /// Returns the longest wait; `None` if the errors are not named.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Self::On(false) => None,
            Self::On(true) => Some(DIAGNOSTICS_WAIT),
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds.into())),
        }
    }
}

/// The effect of a failure on the turn (R-ERR-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// The model sees the failure and continues.
    #[default]
    Continue,
    /// The model continues, and the turn ends no better than `degraded`.
    Degrade,
    /// The turn ends.
    Fail,
}

/// The effect of a limit on the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitPolicy {
    /// The turn fails.
    #[default]
    Fail,
    /// The turn sums up and ends degraded.
    Degrade,
}

/// How the output limit grows after an answer was cut off (R-LOOP-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputEscalation {
    /// Once, to 64,000 tokens.
    #[default]
    Large,
    /// To twice the previous limit, up to three times.
    Double,
}

/// How hard a model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningEffort {
    /// As the model's vendor decides; agentls requests nothing, except of Claude 4 to 4.8 to think at all.
    #[default]
    Off,
    /// Not at all.
    None,
    /// Hardly at all.
    Minimal,
    /// A little.
    Low,
    /// More.
    Medium,
    /// A lot.
    High,
    /// More than a lot.
    Xhigh,
    /// As much as the model can.
    Max,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_takes_the_right_to_edit_and_to_write() {
        let list = |names: &[&str]| StringList(names.iter().map(|name| (*name).to_owned()).collect());
        for (only, never, is_allowed) in [
            (None, &[][..], true),
            (Some(&["edit_file", "write_file"][..]), &[], true),
            (Some(&["*_file"]), &[], true),
            (Some(&["edit_file"]), &[], false),
            (Some(&["apply_patch"]), &[], false),
            (None, &["edit_file"], false),
            (None, &["write_*"], false),
            (None, &["apply_patch"], false),
        ] {
            let choice = ToolChoice {
                only: only.map(list),
                never: list(never),
            };
            assert_eq!(choice.is_allowed("apply_patch"), is_allowed, "{choice:?}");
        }
    }

    #[test]
    fn a_server_counts_if_one_of_its_tools_may() {
        let list = |names: &[&str]| StringList(names.iter().map(|name| (*name).to_owned()).collect());
        for (only, never, may) in [
            (None, &[][..], true),
            (Some(&["read_file"][..]), &[], false),
            (Some(&[]), &[], false),
            (Some(&["*"]), &[], true),
            (Some(&["*x"]), &[], true),
            (Some(&["mcp:i/x"]), &[], true),
            (Some(&["mcp__i__x"]), &[], true),
            (Some(&["mcp:i*"]), &[], true),
            (Some(&["mcp:in/*"]), &[], false),
            (Some(&["mcp:i"]), &[], false),
            (None, &["*"], false),
            (None, &["mcp:*"], false),
            (None, &["mcp__*"], false),
            (None, &["mcp:i/*"], false),
            (None, &["mcp:i/x*"], true),
            (None, &["mcp:i/*x"], true),
            (None, &["mcp:in/*", "mcp:i/x"], true),
            (Some(&["mcp:i/x"]), &["mcp:*"], false),
        ] {
            let choice = ToolChoice {
                only: only.map(list),
                never: list(never),
            };
            assert_eq!(choice.may_have_tools_of("i"), may, "{choice:?}");
        }
    }
}
