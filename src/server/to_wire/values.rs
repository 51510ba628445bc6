//! Converts small values: errors, usage, grants, tools, metrics, and the answer to a prompt.

use std::collections::BTreeMap;

use super::message::to_message_blocks;
use super::truncate::FieldBudget;
use crate::base::counters::{BUCKETS_US, HistogramSnapshot, Totals};
use crate::base::text::{one_line, prefix_within, strip_control_characters};
use crate::config::AgentSettings;
use crate::domain::{
    AgentError, Block, CircuitState, Cost, FileLocation, Grant, Mode, PlanItem, PromptQueue, QueuedPrompt,
    SandboxMethod, SandboxNetwork, SandboxPolicy, ToolSpec, TurnEnd, TurnId, Usage,
};
use crate::protocol as wire;
use crate::provider::CircuitView;
use crate::workspace::prompts::{CommandArgument, PromptCommand};

/// Locations of a tool call that a notification lists at most.
pub(super) const MAX_LOCATIONS: usize = 100;

/// Longest text of an error in bytes. Providers also produce texts, and may send a whole page.
const ERROR_TEXT: usize = 2 * 1024;

/// Converts an error for clients.
pub fn error_data(error: &AgentError) -> wire::ErrorData {
    // Destructured, so that a new field does not compile until its wire form is decided.
    let AgentError {
        code,
        class,
        message,
        cause,
        provider,
        model,
        status,
        request_id,
        retry_after_ms,
        reset_at,
        user_action,
        attempts,
        // The user action says it.
        needs_login: _,
    } = error;
    let short = |text: &Option<String>| text.as_deref().map(clip_text);
    wire::ErrorData {
        code: (*code).into(),
        message: clip_text(message),
        class: (*class).into(),
        cause: cause.as_deref().map(clip_text),
        provider: short(provider),
        model: short(model),
        status: *status,
        request_id: short(request_id),
        retry_after_ms: *retry_after_ms,
        reset_at: *reset_at,
        user_action: short(user_action),
        attempts: *attempts,
        refusal: None,
        field: None,
        holder: None,
    }
}

/// Builds the answer to a request that started a turn. `text` is the final answer; empty without one.
pub fn prompt_result(turn: &TurnId, end: &TurnEnd, text: String) -> wire::PromptResult {
    wire::PromptResult {
        turn_id: turn.to_string(),
        reason: end.reason.into(),
        state: end.state.into(),
        text,
        usage: to_token_usage(&end.usage),
        cost_usd: end.cost.map(Cost::to_usd),
        error: end.error.as_ref().map(error_data),
        tokens_before: None,
        tokens_after: None,
    }
}

/// Converts token counts.
pub fn to_token_usage(usage: &Usage) -> wire::TokenUsage {
    let Usage {
        input,
        output,
        cache_read,
        cache_write,
    } = *usage;
    wire::TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
    }
}

/// Converts token counts and their cost.
pub fn to_spent(tokens: &Usage, cost: Option<Cost>) -> wire::UsageTotals {
    wire::UsageTotals {
        tokens: to_token_usage(tokens),
        cost_usd: cost.map(Cost::to_usd),
    }
}

/// Converts a grant.
pub fn to_grant(grant: &Grant) -> wire::Grant {
    let Grant {
        id,
        rule,
        scope,
        folder,
        at_ms,
        tool: _,
    } = grant;
    wire::Grant {
        grant_id: id.clone(),
        rule: rule.clone(),
        scope: (*scope).into(),
        folder: folder.clone(),
        granted_at: *at_ms,
    }
}

/// Converts a tool's specification.
pub fn tool_info(spec: &ToolSpec) -> wire::ToolInfo {
    let ToolSpec {
        name,
        description,
        schema,
        freeform: _,
    } = spec;
    wire::ToolInfo {
        name: name.clone(),
        description: description.clone(),
        input_schema: serde_json::Value::clone(schema),
    }
}

/// Converts a configured agent. `tools` are the names of all tools.
pub fn agent_info(agent: &AgentSettings, tools: &[&str], current: Option<&str>) -> wire::AgentInfo {
    let choice = agent.tool_choice();
    let has = tools.iter().filter(|tool| choice.is_allowed(tool));
    wire::AgentInfo {
        name: agent.name.clone(),
        description: agent.description.as_ref().map(|text| one_line(text, 300)),
        provider: agent.provider.clone(),
        model: agent.model.clone(),
        mode: agent.mode.into(),
        tools: has.map(|tool| (*tool).to_owned()).collect(),
        current: current == Some(agent.name.as_str()),
    }
}

/// Converts a slash command.
pub fn command_info(command: &PromptCommand) -> wire::CommandInfo {
    wire::CommandInfo {
        name: command.name.clone(),
        description: command.description.clone(),
        argument_hint: command.argument_hint.clone(),
        arguments: command.arguments.iter().map(command_argument).collect(),
        path: command.path().map(|path| path.display().to_string()),
        server: command.server().map(str::to_owned),
        trusted: command.trusted,
        problem: command.problem.clone(),
    }
}

fn command_argument(argument: &CommandArgument) -> wire::CommandArgument {
    wire::CommandArgument {
        name: argument.name.clone(),
        description: argument.description.clone(),
        required: argument.is_required,
    }
}

/// Converts the server's counters. `session` adds the requested session's part.
pub fn to_metrics(totals: &Totals, session: Option<wire::SessionMetrics>) -> wire::MetricsResult {
    wire::MetricsResult {
        totals: wire::Counts {
            input_tokens: totals.input_tokens.get(),
            output_tokens: totals.output_tokens.get(),
            requests: totals.requests.get(),
            errors: totals.errors.get(),
            tool_calls: totals.tool_calls.get(),
            retries: totals.retries.get(),
            compactions: totals.compactions.get(),
            cancels: totals.cancels.get(),
            queued_prompts: totals.queued_prompts.get(),
            reverts: totals.reverts.get(),
        },
        latencies: wire::Latencies {
            first_token: to_histogram(totals.first_token.take_snapshot()),
            step: to_histogram(totals.step.take_snapshot()),
            tool: to_histogram(totals.tool.take_snapshot()),
            cancel: to_histogram(totals.cancel.take_snapshot()),
        },
        circuits: Vec::new(),
        session,
    }
}

/// Converts the circuit of a provider; `None` while it is closed.
pub fn to_provider_circuit(name: &str, view: &CircuitView) -> Option<wire::CircuitInfo> {
    (view.state != CircuitState::Closed).then(|| circuit_info(wire::CircuitSubject::Provider, name, view))
}

/// Converts how commands are confined with these settings of the network; `None` if the settings disable the sandbox.
pub fn to_sandbox_status(method: SandboxMethod, network: Option<SandboxNetwork>) -> wire::SandboxStatus {
    let is_enabled = network.is_some();
    let policies = Mode::ALL.map(|mode| wire::ModePolicy {
        mode: mode.into(),
        policy: if is_enabled {
            mode.sandbox_policy()
        } else {
            SandboxPolicy::Off
        }
        .into(),
    });
    let network = network.filter(|_| method != SandboxMethod::None);
    wire::SandboxStatus {
        method: if is_enabled { method.name() } else { "off" }.to_owned(),
        level: method.level().into(),
        network: network.map(|network| method.limit_network(network).into()),
        policies: policies.into(),
    }
}

/// Converts the circuits of providers, or of a session's tools.
pub fn to_circuits(
    subject: wire::CircuitSubject,
    views: &BTreeMap<String, CircuitView>,
) -> impl Iterator<Item = wire::CircuitInfo> {
    let info = move |(name, view): (&String, &CircuitView)| circuit_info(subject, name, view);
    views.iter().map(info)
}

fn circuit_info(subject: wire::CircuitSubject, name: &str, view: &CircuitView) -> wire::CircuitInfo {
    wire::CircuitInfo {
        subject,
        name: name.to_owned(),
        state: view.state.into(),
        until: view.until,
    }
}

pub(super) fn to_location(cutter: &mut FieldBudget, location: &FileLocation) -> wire::Location {
    wire::Location {
        uri: cutter.fit_line(&location.uri),
        line: location.line,
    }
}

pub(super) fn plan_item(cutter: &mut FieldBudget, item: &PlanItem) -> wire::PlanItem {
    wire::PlanItem {
        text: cutter.fit_line(&item.text),
        status: item.status.into(),
    }
}

fn to_histogram(snapshot: HistogramSnapshot) -> wire::Histogram {
    let HistogramSnapshot {
        buckets,
        sum_us,
        count,
    } = snapshot;
    wire::Histogram {
        bounds_us: BUCKETS_US.to_vec(),
        counts: buckets,
        sum_us,
        count,
    }
}

fn clip_text(text: &str) -> String {
    let begin = prefix_within(text, ERROR_TEXT);
    let head = strip_control_characters(begin);
    if begin.len() < text.len() {
        format!("{head}…")
    } else {
        head.into_owned()
    }
}

/// Converts the queued prompts for display; long texts are cut.
pub fn to_queue_state(queue: &PromptQueue) -> wire::QueueState {
    let mut cutter = FieldBudget::new(0);
    let prompt = |prompt: &QueuedPrompt| wire::QueuedPrompt {
        prompt_id: prompt.id.clone(),
        text: cutter.fit_line(&prompt.text),
    };
    wire::QueueState {
        paused: queue.paused,
        prompts: queue.prompts.iter().map(prompt).collect(),
    }
}

/// Converts the whole queued prompts, with the outcome of the request's action.
pub fn queue_result(
    paused: bool,
    prompts: &[(String, Vec<Block>)],
    added: Option<String>,
    turn: Option<TurnId>,
) -> wire::QueueResult {
    let prompt = |(id, content): &(String, Vec<Block>)| wire::QueuedContent {
        prompt_id: id.clone(),
        content: to_message_blocks(content),
    };
    wire::QueueResult {
        paused,
        prompts: prompts.iter().map(prompt).collect(),
        prompt_id: added,
        turn_id: turn.map(|turn| turn.to_string()),
    }
}
