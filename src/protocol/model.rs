//! Models, providers and their health; the choice of a model and a mode.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::is_false;
use super::{CircuitInfo, Mode};

/// How hard a model shall think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Effort {
    /// A little.
    Low,
    /// As needed.
    Medium,
    /// Long.
    High,
}

/// Params of `agent/setMode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetModeParams {
    /// The session.
    pub session_id: String,
    /// The mode; it holds from the next tool call on.
    pub mode: Mode,
}

/// Params of `agent/setModel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetModelParams {
    /// The session.
    pub session_id: String,
    /// The model, as `provider/model`; it holds from the next model call on.
    pub model: String,
    /// How hard it shall think; absent: as the provider has it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// Params of `agent/listModels`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListModelsParams {
    /// With this session's configuration, and its model marked; absent: the user's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tries the address and the key of this provider before answering, by one request that costs nothing; its `health`
    /// and `message` tell what came of it. Takes at most 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Asks every provider that has a key for its own list first. Takes at most 5 s; a provider that does not answer is
    /// listed as without it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub live: bool,
}

/// Result of `agent/listModels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListModelsResult {
    /// The models that can be chosen.
    pub models: Vec<ModelInfo>,
    /// The providers that are configured.
    pub providers: Vec<ProviderInfo>,
}

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// What `agent/setModel` takes: `provider/model`.
    pub model: String,
    /// The provider's name in the configuration.
    pub provider: String,
    /// Whether it is the session's (or the default) model.
    #[serde(default, skip_serializing_if = "is_false")]
    pub current: bool,
    /// Whether the provider's own list contains it; absent while that list is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<bool>,
    /// Its window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Its output limit, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// What its tokens cost; absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Where its price comes from; absent from older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
}

/// Where a model's price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Pricing {
    /// The vendor's list price, wherever it is served.
    List,
    /// The configuration.
    Configured,
    /// It is free: a local engine runs it.
    Free,
    /// Nobody knows it.
    Unknown,
}

/// Params of `agent/listAgents`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ListAgentsParams {
    /// The agents of this session's folder, with its own marked; the first workspace folder's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listAgents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListAgentsResult {
    /// The agents of the configuration, `default` first.
    pub agents: Vec<AgentInfo>,
}

/// An agent of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInfo {
    /// Its name, as `agent/newSession` takes it.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The provider that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode in which its sessions begin.
    pub mode: Mode,
    /// The tools that it has.
    pub tools: Vec<String>,
    /// Whether it is the session's agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub current: bool,
}

/// Params of `agent/listCommands`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ListCommandsParams {
    /// The commands of this session; the first workspace folder's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listCommands`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListCommandsResult {
    /// The commands, by name.
    pub commands: Vec<CommandInfo>,
}

/// A prompt that a person has written down: a prompt that begins with `/` and its name stands for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandInfo {
    /// Its name, without the `/`.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its arguments are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The absolute path of its file.
    pub path: String,
    /// Whether it is the person's own, or lies in a folder that the person trusts.
    pub trusted: bool,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a model's tokens cost, in US dollars per million.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Plain input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the prompt cache.
    pub cache_read: f64,
    /// Input written to the prompt cache.
    pub cache_write: f64,
}

/// A provider that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderInfo {
    /// Its name in the configuration.
    pub provider: String,
    /// Its kind: which API it speaks.
    pub kind: String,
    /// How it fares.
    pub health: ProviderHealth,
    /// How the circuit of its account stands, while it is not closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<CircuitInfo>,
    /// More, for people: what fails, or what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a provider fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProviderHealth {
    /// It was not called yet.
    Unknown,
    /// Its last call succeeded.
    Ok,
    /// Its last call failed.
    Failing,
    /// It cannot be called: a key is missing.
    NotConfigured,
}
