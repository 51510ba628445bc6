//! The shape of a configuration, as serde types, and what the rest of the program uses of it.
//!
//! Each setting is written once: its comment is its description in the JSON Schema and the reference, its range is
//! `#[schemars(range)]`, and its default is in the `Default` of its table. `x-untrusted` says what an untrusted folder
//! may do with it (see [`Untrusted`]); `x-path` marks a path that may start at the config file's folder. A value is
//! optional only where "not set" has a meaning of its own.
//!
//! Fields that are not read from a file (`#[serde(skip)]`) are filled in by `resolve`. Knows nothing about files and
//! layers.

mod agent;
mod mcp;
mod provider;
mod sandbox;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::base::credential_env::is_credential;
use crate::domain::Price;

use super::env::Env;
use super::expand::ExpandedSecrets;
use super::login_keys::LoginKeys;
use super::names::key_variables;
use super::untrusted::Untrusted;
use super::values::{Milliseconds, Seconds, StringList};

pub(super) use agent::parse_route_step;
pub use agent::{
    AgentSettings, DiagnosticsAfterEdit, FailurePolicy, LimitPolicy, ModelPrefix, OutputEscalation,
    ReasoningEffort, Reflection, ToolChoice,
};
pub use mcp::McpServerSettings;
pub(super) use provider::take_own_body_fields;
pub use provider::{CacheTtl, ProviderSettings, RetryPolicy, RetryProfile, Verbosity};
pub use sandbox::{HomeAccess, SandboxSettings};
pub use tool::{
    BashSettings, CommandToolSettings, HookMoment, HookSettings, OnCancel, ToolEffect, ToolSettings,
    ToolTable, WebFetchSettings,
};

/// Shorter keys are common words (`ollama`), so a variable is not secret merely because it contains one.
const SHORTEST_KEY: usize = 16;

/// Configuration of agentls.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ConfigFile")]
pub struct Settings {
    /// LLM providers by name. Some fifty well-known ones, such as `anthropic`, `openai`, `openrouter`, `google`, and
    /// `ollama`, have a preset `kind` and `base_url`, and without `api_key` they take their key from its usual variable,
    /// such as `ANTHROPIC_API_KEY`. The page about providers lists them.
    // After `resolve`, presets are here too, and unusable ones are in `broken_providers` instead.
    #[serde(rename = "provider")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Agents by name. A named agent inherits from `default`; set only what differs.
    // After `resolve`, `default` always exists.
    #[serde(rename = "agent")]
    pub agents: BTreeMap<String, AgentSettings>,
    /// Prices and limits of models, by the name sent to the provider. They override the built-in ones.
    // Never from an untrusted folder: a price of zero would disable a cost limit.
    #[serde(rename = "model")]
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub models: BTreeMap<String, ModelSettings>,
    /// What is allowed, denied, or asked, in addition to the mode. Lists of several config files are joined.
    pub approvals: ApprovalSettings,
    /// Tools by name; `default` applies to every tool that does not set the value itself.
    #[serde(rename = "tool")]
    pub tools: ToolSettings,
    /// The sandbox that confines commands.
    pub sandbox: SandboxSettings,
    /// Your commands that run at certain moments of every turn, by name. Several run in the order of their names.
    // Never from an untrusted folder: it would start commands, or disable the user's own hooks.
    #[serde(rename = "hook")]
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub hooks: BTreeMap<String, HookSettings>,
    /// MCP servers by name, whose tools the agent can use. The files `.mcp.json` and `.vscode/mcp.json` of a workspace
    /// are read too.
    // Never from an untrusted folder: it would start programs.
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub mcp: BTreeMap<String, McpServerSettings>,
    /// How to reach providers.
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub network: NetworkSettings,
    /// Settings of the server itself.
    pub server: ServerSettings,
    /// The Agent Client Protocol (`agentls acp`).
    pub acp: AcpSettings,
    /// The log.
    // Never from an untrusted folder: it would append to any of the user's files.
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub logging: LoggingSettings,
    /// Workspace folders (absolute paths, `~/…` or file URIs) whose own config files are trusted. Has no effect in a
    /// workspace's own files.
    pub trusted: Vec<String>,
    /// Providers whose configuration is unusable, with the reason. Nothing may be sent to a default in their place.
    #[serde(skip)]
    pub broken_providers: BTreeMap<String, String>,
    /// MCP servers that are configured but cannot be used. One without `command` and `url` only adjusts a server that a
    /// workspace may name.
    #[serde(skip)]
    pub unusable_mcp: BTreeMap<String, McpServerSettings>,
    /// Variables that the configuration names in `${…}`.
    #[serde(skip)]
    pub(super) named_variables: BTreeSet<String>,
    /// What those variables have put into settings.
    #[serde(skip)]
    pub(super) expanded: ExpandedSecrets,
    /// The keys from `agentls login`, also those that are not in effect.
    #[serde(skip)]
    pub logins: LoginKeys,
}

impl Settings {
    /// Returns the agent with this name.
    pub fn find_agent(&self, name: &str) -> Option<&AgentSettings> {
        self.agents.get(name)
    }

    /// Returns the agent that is used when none is named.
    pub fn default_agent(&self) -> &AgentSettings {
        // `resolve` always inserts it.
        &self.agents["default"]
    }

    /// Returns the variables that no child process may get: those that the configuration names, the usual API keys, and
    /// whatever in `env` looks like a credential or contains a configured one. Exceptions are `pass_env`, and variables
    /// that commands need in order to work (`HOME`, `PATH`, …).
    pub fn secret_env_names(&self, env: &Env) -> BTreeSet<String> {
        const HARMLESS: [&str; 10] = [
            "HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TERM", "LANG", "HOSTNAME",
        ];
        let harmless =
            |name: &str| HARMLESS.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_");
        let holds_key = |value: &str| {
            let mut keys = self.iter_provider_keys().map(ExposeSecret::expose_secret);
            // Not equality: a variable may embed a key in a URL or a header.
            keys.any(|key| key.len() >= SHORTEST_KEY && value.contains(key))
        };
        let found = env.iter().filter_map(|(name, value)| {
            let value = value.to_string_lossy();
            let name = name.to_str()?;
            let is_secret = is_credential(name, &value) || holds_key(&value);
            // git refuses to run if one of the numbered settings is missing, so the count goes too.
            let companion = if name.starts_with("GIT_CONFIG_VALUE_") {
                "GIT_CONFIG_COUNT"
            } else {
                name
            };
            is_secret.then_some([name, companion])
        });
        let bearer = self
            .mcp
            .values()
            .flat_map(|server| [&server.bearer_token_env, &server.oauth_client_secret_env])
            .filter_map(|name| name.as_deref());
        self.named_variables
            .iter()
            .map(String::as_str)
            .chain(bearer)
            .chain(found.flatten())
            .filter(|name| !harmless(name))
            .chain(key_variables())
            .filter(|name| !self.tools.bash.pass_env.iter().any(|passed| passed == name))
            .map(str::to_owned)
            .collect()
    }

    /// Iterates over the keys that content must not contain: API keys and tokens, and headers that are not usually
    /// public.
    pub(super) fn iter_provider_keys(&self) -> impl Iterator<Item = &SecretString> {
        // The values of these headers are ordinary text, and redacting them would garble content.
        #[rustfmt::skip]
        const PUBLIC: [&str; 12] = [
            "accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type",
            "http-referer", "openai-beta", "openai-organization", "openai-project", "referer",
            "user-agent", "x-title",
        ];
        let is_public = |name: &str| PUBLIC.iter().any(|public| name.eq_ignore_ascii_case(public));
        let providers = self
            .providers
            .values()
            .map(|provider| (&provider.api_key, &provider.headers));
        let servers = self
            .mcp
            .values()
            .map(|server| (&server.bearer_token, &server.headers));
        let keys = providers.chain(servers).flat_map(move |(key, headers)| {
            let secret = headers.iter().filter(move |(name, _)| !is_public(name));
            key.iter().chain(secret.map(|(_, value)| value))
        });
        keys.chain(self.logins.keys()).chain(self.iter_mcp_credentials())
    }

    /// Iterates over every secret in the settings, for a [`Redactor`](super::Redactor).
    pub fn iter_secrets(&self) -> impl Iterator<Item = &SecretString> {
        let keys = self
            .providers
            .values()
            .filter_map(|provider| provider.api_key.as_ref());
        let headers = self
            .providers
            .values()
            .flat_map(|provider| provider.headers.values());
        let network = &self.network;
        let proxies = [network.https_proxy.as_ref(), network.http_proxy.as_ref()]
            .into_iter()
            .flatten()
            .map(|proxy| &proxy.url);
        let servers = self.mcp.values();
        let mcp = servers.flat_map(|server| server.headers.values().chain(&server.bearer_token));
        keys.chain(headers)
            .chain(self.logins.keys())
            .chain(proxies)
            .chain(mcp)
            .chain(&self.expanded.bodies)
            .chain(self.iter_mcp_credentials())
    }

    /// Iterates over the client secrets of MCP servers, their variables that look like credentials, and the credentials
    /// that their settings contain. Others may be ordinary words.
    pub(super) fn iter_mcp_credentials(&self) -> impl Iterator<Item = &SecretString> {
        let variables = self.mcp.values().flat_map(|server| &server.env);
        let secret = variables.filter(|(name, value)| is_credential(name, value.expose_secret()));
        let clients = self.mcp.values().flat_map(|server| &server.oauth_client_secret);
        secret
            .map(|(_, value)| value)
            .chain(clients)
            .chain(&self.expanded.mcp)
    }
}

/// A model's prices (US dollars per million tokens), capabilities, and parameters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// The input price. Prices have an effect only if `input` and `output` are both set.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub input: Option<f64>,
    /// The output price.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub output: Option<f64>,
    /// The price of input read from the provider's cache. Default: the same as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_read: Option<f64>,
    /// The price of input written to the provider's cache. Default: the same as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_write: Option<f64>,
    /// The size of the context window, in tokens.
    #[schemars(range(min = 1))]
    pub context_window: Option<u64>,
    /// How many tokens the model can write in one answer.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u64>,
    /// Whether the model accepts images. Default: as built in; yes for an unknown model.
    pub images: Option<bool>,
    /// Whether the model can use tools; one that cannot never takes over from another. Default: yes.
    #[schemars(extend("default" = true))]
    pub tools: Option<bool>,
    /// The tool with which the model changes files. Default: `apply_patch` for GPT-5 and later over OpenAI's Responses
    /// API, `edit_file` for all others.
    pub edit_tool: Option<EditTool>,
    /// Whether the provider searches the web for this model, so that the agent has `web_search`. `true` has an effect
    /// for the kinds `anthropic`, `openai-responses`, `gemini`, and `script`. Default: yes for models that are known to search,
    /// at their vendor's own address.
    pub web_search: Option<bool>,
    /// The randomness of answers, from 0 to 2; overrides the provider's.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Fields that are added to the body of every request; they override those of the provider's `extra_body`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub extra_body: serde_json::Map<String, serde_json::Value>,
}

/// The tool with which a model changes parts of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditTool {
    /// Replaces pieces of text in one file.
    #[default]
    EditFile,
    /// Applies a patch to any number of files.
    ApplyPatch,
}

impl ModelSettings {
    /// Returns the configured price; `None` without both `input` and `output`.
    pub fn price(&self) -> Option<Price> {
        let (input, output) = (self.input?, self.output?);
        Some(Price {
            input,
            output,
            cache_read: self.cache_read.unwrap_or(input),
            cache_write: self.cache_write.unwrap_or(input),
            ..Price::default()
        })
    }

    /// Returns whether some prices are set, but not both `input` and `output`.
    pub(super) fn has_partial_price(&self) -> bool {
        let prices = [self.input, self.output, self.cache_read, self.cache_write];
        self.price().is_none() && prices.iter().any(Option::is_some)
    }
}

/// Rules in addition to the mode. A rule is a tool's name, or a name and a pattern: `bash(git status *)`,
/// `edit_file(src/**)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalSettings {
    /// What runs without approval.
    pub allow: StringList,
    /// What never runs. Overrides everything else.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub deny: StringList,
    /// What always needs approval, regardless of the mode and `allow`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub require_approval: StringList,
    /// What happens with a command that runs in the sandbox: `allow` runs it without approval, `ask` asks. Default:
    /// `allow` in the mode `autoEdit`, `ask` in the mode `ask`. Has an effect only if the sandbox holds in full.
    #[schemars(extend("x-untrusted" = Untrusted::Ask))]
    pub sandboxed: Option<SandboxedCommands>,
    /// After this many seconds an unanswered approval counts as denied. Default: never.
    #[schemars(range(min = 0.001, max = 31_536_000), extend("x-untrusted" = Untrusted::Any))]
    pub timeout_s: Option<Seconds>,
    /// Reasons, for people, why rules of `deny` and `require_approval` may be missing. With any such reason, everything
    /// except plain reading needs approval.
    #[serde(skip)]
    pub unreadable: Vec<String>,
}

/// What happens with commands that run in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxedCommands {
    /// They run without approval.
    Allow,
    /// They need approval, like other commands.
    Ask,
}

/// How to reach providers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// The proxy for all requests, such as `http://proxy.example.com:3128`. Default: `HTTPS_PROXY`, `http_proxy`,
    /// `ALL_PROXY`.
    // The choice between the configuration and the environment is in `https_proxy` and `http_proxy`.
    #[schemars(with = "Option<String>")]
    pub proxy: Option<SecretString>,
    /// Hosts to reach without the proxy, separated by commas. Default: `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of certificate authorities to trust in addition to the system's. A relative path starts at the config
    /// file's folder.
    #[schemars(extend("x-path" = true))]
    pub ca_file: Option<PathBuf>,
    /// The proxy for `https:` addresses.
    #[serde(skip)]
    pub https_proxy: Option<ProxyAddress>,
    /// The proxy for `http:` addresses.
    #[serde(skip)]
    pub http_proxy: Option<ProxyAddress>,
}

/// A proxy, and where it is set.
#[derive(Clone, Debug)]
pub struct ProxyAddress {
    /// It may contain a password.
    pub url: SecretString,
    /// The variable or the setting.
    pub set_by: &'static str,
}

/// Settings of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Merges streamed text that arrives faster than two notifications in this many milliseconds; 0 sends each piece.
    /// Default: 16.
    #[schemars(range(max = 10_000), extend("x-untrusted" = Untrusted::Any))]
    pub delta_frame_ms: Milliseconds,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            delta_frame_ms: Milliseconds::from(16),
        }
    }
}

/// The Agent Client Protocol (`agentls acp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AcpSettings {
    /// How long the text of a message waits for the end of the message. If the answer breaks off meanwhile and is
    /// requested again, you never see the broken text. Text that was shown before is followed by a line that it was
    /// discarded. Once more than 32 KiB wait, the text is shown at once. Default: 0, which shows all text at once.
    #[schemars(range(max = 600_000), extend("x-untrusted" = Untrusted::Any))]
    pub hold_text_ms: Milliseconds,
}

/// The log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingSettings {
    /// The least severe level to log. Default: `info`.
    pub level: LogLevel,
    /// Levels by module, such as `info,agentls::provider=debug`; overrides `level`.
    pub filter: Option<String>,
    /// The log file. A new one starts every day; old ones get the day's date and are kept for a week. Default:
    /// `agentls.log` in the state folder.
    #[schemars(extend("x-path" = true))]
    pub file: Option<PathBuf>,
    /// The format of a log line. Default: `text`.
    pub format: LogFormat,
}

/// A log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Also doubtful situations.
    Warn,
    /// Also normal events.
    #[default]
    Info,
    /// Also details.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Returns the name in the configuration and in filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LoggingSettings {
    /// Returns the filter in tracing's syntax: our own modules at `level`, libraries at most at `warn`.
    pub fn to_filter_directives(&self) -> String {
        match (&self.filter, self.level) {
            (Some(filter), _) => filter.clone(),
            (None, LogLevel::Off | LogLevel::Error) => self.level.name().to_owned(),
            (None, level) => format!("warn,agentls={}", level.name()),
        }
    }
}
