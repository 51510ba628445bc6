//! Merges one agent's table with the default agent's settings.
//!
//! Knows nothing about files and their locations; `resolve` adds `prompt_file` and `route`, which need them.

use super::super::file::{
    AgentTable, EffortName, EscalationName, LimitPolicyName, ModeName, PolicyName, Reflection, StringOrList,
};
use super::super::settings::{AgentSettings, FailurePolicy, OutputEscalation, ReasoningEffort, ToolChoice};
use super::{REFLECTION, duration_from_secs};
use crate::domain::{Cost, Mode};

/// Merges an agent's own values over those of `base`, the default agent.
pub(super) fn merge_agent_table(name: &str, table: AgentTable, base: &AgentSettings) -> AgentSettings {
    AgentSettings {
        name: name.to_owned(),
        names_model: table.provider.is_some() || table.model.is_some(),
        // A model name of another provider means nothing here.
        model: match &table.provider {
            Some(provider) if base.provider.as_ref() != Some(provider) => table.model,
            _ => table.model.or_else(|| base.model.clone()),
        },
        provider: table.provider.or_else(|| base.provider.clone()),
        mode: table.mode.map_or(base.mode, |mode| match mode {
            ModeName::Plan => Mode::Plan,
            ModeName::Ask => Mode::Ask,
            ModeName::AutoEdit => Mode::AutoEdit,
            ModeName::Full => Mode::Full,
        }),
        reasoning_effort: table
            .reasoning_effort
            .map_or(base.reasoning_effort, |effort| match effort {
                EffortName::Off => None,
                EffortName::Low => Some(ReasoningEffort::Low),
                EffortName::Medium => Some(ReasoningEffort::Medium),
                EffortName::High => Some(ReasoningEffort::High),
            }),
        // Not inherited: it says what this agent is for.
        description: table.description,
        system_prompt: table.system_prompt.or_else(|| base.system_prompt.clone()),
        prompt_file: None,
        route: None,
        tools: ToolChoice {
            only: table
                .tools
                .map(StringOrList::into_vec)
                .or_else(|| base.tools.only.clone()),
            never: table
                .deny_tools
                .map_or_else(|| base.tools.never.clone(), StringOrList::into_vec),
        },
        output_escalation: table
            .output_escalation
            .map_or(base.output_escalation, |escalation| match escalation {
                EscalationName::Large => OutputEscalation::Large,
                EscalationName::Double => OutputEscalation::Double,
            }),
        auto_compact: table.auto_compact.unwrap_or(base.auto_compact),
        compaction_model: table.compaction_model.or_else(|| base.compaction_model.clone()),
        compaction_threshold: table.compaction_threshold.unwrap_or(base.compaction_threshold),
        output_reserve: table.output_reserve.unwrap_or(base.output_reserve),
        token_target: table.token_target.or(base.token_target),
        planning: table.planning.unwrap_or(base.planning),
        reflection: match table.reflection {
            None => base.reflection,
            Some(Reflection::On(false)) => None,
            Some(Reflection::On(true)) => Some(REFLECTION),
            Some(Reflection::Every(calls)) => Some(calls),
        },
        tool_failure: resolve_failure_policy(table.tool_failure, base.tool_failure),
        tool_timeout: resolve_failure_policy(table.tool_timeout, base.tool_timeout),
        subagent_failure: resolve_failure_policy(table.subagent_failure, base.subagent_failure),
        max_steps: table.max_steps.unwrap_or(base.max_steps),
        max_session_cost: table
            .max_session_cost
            .map(Cost::from_usd)
            .or(base.max_session_cost),
        max_turn_cost: table.max_turn_cost.map(Cost::from_usd).or(base.max_turn_cost),
        max_day_cost: table.max_day_cost.map(Cost::from_usd).or(base.max_day_cost),
        max_tool_calls: table.max_tool_calls.or(base.max_tool_calls),
        max_subagents: table.max_subagents.unwrap_or(base.max_subagents),
        max_wall_time: table
            .max_wall_time_s
            .map(duration_from_secs)
            .or(base.max_wall_time),
        degrade_at_limit: table
            .limit_reached
            .map_or(base.degrade_at_limit, |policy| policy == LimitPolicyName::Degrade),
    }
}

fn resolve_failure_policy(named: Option<PolicyName>, base: FailurePolicy) -> FailurePolicy {
    named.map_or(base, |name| match name {
        PolicyName::Continue => FailurePolicy::Continue,
        PolicyName::Degrade => FailurePolicy::Degrade,
        PolicyName::Fail => FailurePolicy::Fail,
    })
}
