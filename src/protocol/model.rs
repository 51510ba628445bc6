//! Models, agents, commands, and providers with their health; the choice of a model and a mode.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::is_false;
use super::{CircuitInfo, Mode};

/// The reasoning effort of a model. A model that lacks an effort gets the nearest one that it has, with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Effort {
    /// No reasoning.
    None,
    /// Hardly any reasoning.
    Minimal,
    /// Little reasoning.
    Low,
    /// As much reasoning as needed.
    Medium,
    /// Long reasoning.
    High,
    /// Longer reasoning.
    Xhigh,
    /// As much reasoning as the model can do.
    Max,
}

/// Params of `agent/setMode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetModeParams {
    /// The session.
    pub session_id: String,
    /// The mode; it applies from the next tool call.
    pub mode: Mode,
}

/// Params of `agent/setModel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetModelParams {
    /// The session.
    pub session_id: String,
    /// The model, as `provider/model`; it applies from the next model call.
    pub model: String,
    /// The reasoning effort; absent for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// Params of `agent/listModels`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListModelsParams {
    /// The session whose configuration applies, with its model marked; absent for the user's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The provider whose address and key are tested first, by one request that costs nothing. Its `health` and
    /// `message` report the result. Takes at most 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Whether to first request the list of every provider that has a key. Takes at most 5 s. A provider that does not
    /// answer counts as having no list.
    #[serde(default, skip_serializing_if = "is_false")]
    pub live: bool,
}

/// Result of `agent/listModels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListModelsResult {
    /// The models to choose from.
    pub models: Vec<ModelInfo>,
    /// The configured providers.
    pub providers: Vec<ProviderInfo>,
}

/// A model to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The name for `agent/setModel`: `provider/model`.
    pub model: String,
    /// The provider's name in the configuration.
    pub provider: String,
    /// Whether it is the session's model, or the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub current: bool,
    /// Whether the provider's own list contains it; absent while that list is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<bool>,
    /// Size of its context window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Its output limit, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The price of its tokens; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The source of its price; absent from older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
}

/// The source of a model's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Pricing {
    /// The vendor's list price, regardless of who serves the model.
    List,
    /// The configuration.
    Configured,
    /// The model is free: a local engine runs it.
    Free,
    /// The price is unknown.
    Unknown,
}

/// Params of `agent/listAgents`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ListAgentsParams {
    /// The session whose folder's agents are listed, with its own marked; absent for the first workspace folder.
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

/// A configured agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInfo {
    /// Its name, for `agent/newSession`.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The provider that it sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The initial mode of its sessions.
    pub mode: Mode,
    /// Its tools.
    pub tools: Vec<String>,
    /// Whether it is the session's agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub current: bool,
}

/// Params of `agent/listCommands`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ListCommandsParams {
    /// The session whose commands are listed; absent for the first workspace folder.
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

/// A prompt stored as a slash command: a file, or a prompt of an MCP server that runs. A prompt that starts with `/` and
/// its name expands to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandInfo {
    /// Its name, without the `/`.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A hint at its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Its arguments, in order, if a server defines them. The last one takes the rest of the words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<CommandArgument>,
    /// The absolute path of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The MCP server that offers it, instead of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether it belongs to the user, or lies in a folder that the user trusts.
    pub trusted: bool,
    /// The reason why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An argument of a slash command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgument {
    /// Its name.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the command needs it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
}

/// Prices of a model's tokens, in US dollars per million.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Input without a cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the prompt cache.
    pub cache_read: f64,
    /// Input written to the prompt cache.
    pub cache_write: f64,
}

/// A configured provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderInfo {
    /// Its name in the configuration.
    pub provider: String,
    /// The kind of its API.
    pub kind: String,
    /// Its health.
    pub health: ProviderHealth,
    /// The state of its account's circuit breaker, while it is not closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<CircuitInfo>,
    /// More detail for the user: what fails, or what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The health of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProviderHealth {
    /// It has not been called.
    Unknown,
    /// Its last call succeeded.
    Ok,
    /// Its last call failed.
    Failing,
    /// It cannot be called: a key is missing.
    NotConfigured,
}
