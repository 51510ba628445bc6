//! Settings as the rest of the program uses them: complete, validated, in proper types.
//!
//! Every field has its default here or in `names`, so no other module fills gaps. Knows nothing about files and layers;
//! `resolve` builds these values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::base::backoff::{Backoff, JITTER};
use crate::base::credential_env::is_credential;
use crate::domain::{Cost, Mode, Price};

use super::command_tools::CommandToolSettings;
use super::env::Env;
use super::hooks::HookSettings;
use super::names::KEY_VARIABLES;

/// Shorter keys are common words (`ollama`), so a variable is not secret merely because it contains one.
const SHORTEST_KEY: usize = 16;

/// The complete configuration of a workspace root.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Providers by name, both configured and preset. Broken ones are in `broken_providers` instead.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Providers whose configuration is unusable, with the reason. Nothing may be sent to a default in their place.
    pub broken_providers: BTreeMap<String, String>,
    /// The user's settings for models, by the name that is sent.
    pub models: BTreeMap<String, ModelSettings>,
    /// Agents by name; `default` always exists.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Rules in addition to the mode.
    pub approvals: ApprovalSettings,
    /// Tools.
    pub tools: ToolSettings,
    /// Hooks in the order in which they run.
    pub hooks: Vec<HookSettings>,
    /// How to reach providers.
    pub network: NetworkSettings,
    /// Settings of the server itself.
    pub server: ServerSettings,
    /// The log.
    pub logging: LoggingSettings,
    /// Folders that the user file and `initializationOptions` trust.
    pub trusted: BTreeSet<PathBuf>,
    /// Variables that the configuration names in `${…}`.
    pub(super) named_variables: BTreeSet<String>,
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
            let whole = if name.starts_with("GIT_CONFIG_VALUE_") {
                "GIT_CONFIG_COUNT"
            } else {
                name
            };
            is_secret.then_some([name, whole])
        });
        self.named_variables
            .iter()
            .map(String::as_str)
            .chain(found.flatten())
            .filter(|name| !harmless(name))
            .chain(KEY_VARIABLES)
            .filter(|name| !self.tools.pass_env.iter().any(|passed| passed == name))
            .map(str::to_owned)
            .collect()
    }

    /// Iterates over the keys that content must not contain: API keys, and headers that are not usually public.
    pub(super) fn iter_provider_keys(&self) -> impl Iterator<Item = &SecretString> {
        // The values of these headers are ordinary text, and redacting them would garble content.
        const PUBLIC: [&str; 12] = [
            "accept",
            "accept-language",
            "anthropic-beta",
            "anthropic-version",
            "content-type",
            "http-referer",
            "openai-beta",
            "openai-organization",
            "openai-project",
            "referer",
            "user-agent",
            "x-title",
        ];
        let is_public = |name: &str| PUBLIC.iter().any(|public| name.eq_ignore_ascii_case(public));
        self.providers.values().flat_map(move |provider| {
            let headers = provider.headers.iter();
            let secret = headers.filter(move |(name, _)| !is_public(name));
            provider.api_key.iter().chain(secret.map(|(_, value)| value))
        })
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
            .flatten();
        keys.chain(headers).chain(proxies)
    }
}

/// The API that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API.
    OpenAi,
    /// OpenAI's Responses API.
    Responses,
    /// Replays a cassette.
    Script,
}

/// A provider: an LLM API with an account.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The name in the configuration.
    pub name: String,
    /// True if the configuration contains it; false for a mere preset.
    pub configured: bool,
    /// The API that it speaks.
    pub kind: ProviderKind,
    /// The address of the API, without a trailing `/`. Empty for `script`.
    pub base_url: String,
    /// The host is this machine or in its private network.
    pub local: bool,
    /// The key, from the configuration or from the variable that is usual for this name.
    pub api_key: Option<SecretString>,
    /// The API usually requires a key.
    pub needs_key: bool,
    /// The model for agents that name none.
    pub model: Option<String>,
    /// How to retry failed calls.
    pub retry: RetrySettings,
    /// The time limits of a call.
    pub limits: TimeLimits,
    /// Extra headers for every request.
    pub headers: BTreeMap<String, SecretString>,
    /// The most that a day may cost at this provider, over all sessions.
    pub max_day_cost: Option<Cost>,
    /// The providers that take over, in order. Only known names, without cycles.
    pub fallback: Vec<String>,
    /// The model that answers while the usual one is overloaded.
    pub fallback_model: Option<String>,
    /// How long to pause calls after too many failures in a row.
    pub circuit_cooldown: Duration,
    /// The cassette of a `script` provider.
    pub cassette: Option<PathBuf>,
    /// The file that records its calls.
    pub record: Option<PathBuf>,
}

/// A retry profile (R-PROV-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetryProfile {
    /// 3 retries; the waits start at 1 s and reach at most 30 s.
    #[default]
    Interactive,
    /// 10 retries; the waits start at 0.5 s and reach at most 32 s.
    Persistent,
    /// 10 retries; the waits start at 1 s and reach at most 60 s. A wait that the provider asks for has no limit.
    Patient,
}

/// How to retry failed calls (R-PROV-1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrySettings {
    /// The profile. `Patient` also waits longer than `max_retry_after`.
    pub profile: RetryProfile,
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// How many of the retries may follow a timeout.
    pub max_timeout_retries: u32,
    /// How the waits grow.
    pub backoff: Backoff,
    /// The longest wait that a provider may ask for.
    pub max_retry_after: Duration,
}

impl RetrySettings {
    /// Returns the settings of a profile.
    pub fn from_profile(profile: RetryProfile) -> Self {
        let (max_retries, initial_ms, max_s) = match profile {
            RetryProfile::Interactive => (3, 1_000, 30),
            RetryProfile::Persistent => (10, 500, 32),
            RetryProfile::Patient => (10, 1_000, 60),
        };
        Self {
            profile,
            max_retries,
            max_timeout_retries: 1,
            backoff: Backoff {
                initial: Duration::from_millis(initial_ms),
                factor: 2.0,
                max: Duration::from_secs(max_s),
                jitter: JITTER,
            },
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// Time limits of a call (R-PROV-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// The limit for connecting.
    pub connect: Duration,
    /// The limit for response headers or the first event, if configured.
    pub first_event: Option<Duration>,
    /// The limit between two content events, if configured.
    pub event_gap: Option<Duration>,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_event: None,
            event_gap: None,
        }
    }
}

impl ProviderSettings {
    /// Returns whether the provider would use a key from the editor: it has no other key and may need one.
    pub fn takes_editor_key(&self) -> bool {
        self.api_key.is_none()
            && self.kind != ProviderKind::Script
            && (self.needs_key || !self.local && self.headers.is_empty())
    }

    /// Returns the limit for response headers or the first event: as configured, else 60 s, or 300 s for local
    /// addresses and with reasoning on.
    pub fn first_event_limit(&self, reasoning: bool) -> Duration {
        let usual = if self.local || reasoning { 300 } else { 60 };
        self.limits.first_event.unwrap_or(Duration::from_secs(usual))
    }

    /// Returns the limit between two content events: as configured, else 90 s, or 300 s if the API streams no
    /// reasoning.
    pub fn event_gap_limit(&self, streams_reasoning: bool) -> Duration {
        let usual = if streams_reasoning { 90 } else { 300 };
        self.limits.event_gap.unwrap_or(Duration::from_secs(usual))
    }
}

/// The user's settings for a model. They override what is built in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Its price.
    pub price: Option<Price>,
    /// The size of the context window, in tokens.
    pub context_window: Option<u64>,
    /// The output limit of one answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether it accepts images.
    pub images: Option<bool>,
    /// Whether it can use tools.
    pub tools: Option<bool>,
}

/// How hard a model thinks. Where it is optional, `None` turns reasoning off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasoningEffort {
    /// A little.
    Low,
    /// More.
    Medium,
    /// A lot.
    High,
}

impl ReasoningEffort {
    /// Returns the name in the configuration and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How the output limit grows after an answer was cut off (R-LOOP-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputEscalation {
    /// Once, to the large limit.
    #[default]
    Large,
    /// To twice the previous limit, up to three times.
    Double,
}

/// The effect of a failure on the turn (R-ERR-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The model sees the failure and continues.
    #[default]
    Continue,
    /// The model continues, and the turn ends no better than `degraded`.
    Degrade,
    /// The turn ends.
    Fail,
}

/// A provider that takes over from another, and its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStep {
    /// The name of the provider.
    pub provider: String,
    /// The model to use; `None` uses the provider's own.
    pub model: Option<String>,
}

/// The tools that an agent has, by names in which `*` matches any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Only these; `None` allows all.
    pub only: Option<Vec<String>>,
    /// None of these.
    pub never: Vec<String>,
}

impl ToolChoice {
    /// Returns whether the agent has the tool with this name.
    pub fn is_allowed(&self, tool: &str) -> bool {
        let names = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, tool));
        self.only.as_deref().is_none_or(names) && !names(&self.never)
    }

    /// Returns whether there is no restriction.
    pub fn is_all(&self) -> bool {
        self.only.is_none() && self.never.is_empty()
    }
}

/// Returns whether a name matches a pattern. The texts between its `*` must occur in order, the outer ones at the ends.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        // The leftmost match leaves the most text for the remaining parts, so there is no need to backtrack.
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// An agent. Values that a named one leaves out come from `default`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The name in the configuration.
    pub name: String,
    /// The agent names a provider or a model itself instead of inheriting both from `default`.
    pub names_model: bool,
    /// The provider it names.
    pub provider: Option<String>,
    /// The model it names.
    pub model: Option<String>,
    /// What may run without approval.
    pub mode: Mode,
    /// How hard its model thinks; `None` turns reasoning off.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The purpose of the agent, for lists.
    pub description: Option<String>,
    /// Instructions that replace the built-in ones.
    pub system_prompt: Option<String>,
    /// A file with such instructions, read again in each turn; overrides `system_prompt`.
    pub prompt_file: Option<PathBuf>,
    /// Who takes over from its provider, in order. Only known providers.
    pub route: Option<Vec<RouteStep>>,
    /// Which tools it has.
    pub tools: ToolChoice,
    /// How the output limit grows after an answer was cut off.
    pub output_escalation: OutputEscalation,
    /// Summarize the history automatically when it gets too long.
    pub auto_compact: bool,
    /// The model that writes such summaries.
    pub compaction_model: Option<String>,
    /// The fraction of the available context, 0 to 1, at which the history is summarized.
    pub compaction_threshold: f64,
    /// Tokens of the context window to keep free for the answer.
    pub output_reserve: u64,
    /// The number of output tokens that a turn should reach.
    pub token_target: Option<u64>,
    /// Ask for a plan at a session's first prompt (R-LOOP-2).
    pub planning: bool,
    /// Ask the agent to judge its progress after this many tool calls (R-LOOP-3).
    pub reflection: Option<u32>,
    /// The effect of a failed tool on the turn.
    pub tool_failure: FailurePolicy,
    /// The effect of a tool's timeout on the turn.
    pub tool_timeout: FailurePolicy,
    /// The effect of a failed sub-agent on the turn.
    pub subagent_failure: FailurePolicy,
    /// The most model calls that a prompt may cause.
    pub max_steps: u32,
    /// The most that a session may cost.
    pub max_session_cost: Option<Cost>,
    /// The most that a turn may cost.
    pub max_turn_cost: Option<Cost>,
    /// The most that a day may cost, over all sessions.
    pub max_day_cost: Option<Cost>,
    /// The most tool calls that a prompt may cause.
    pub max_tool_calls: Option<u32>,
    /// The most sub-agents that a prompt may start, including those that sub-agents start.
    pub max_subagents: u32,
    /// How long a turn may run, without the time it waits for people.
    pub max_wall_time: Option<Duration>,
    /// At the limit of steps or tool calls, the turn ends with a summary instead of an error.
    pub degrade_at_limit: bool,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            names_model: false,
            provider: None,
            model: None,
            mode: Mode::default(),
            reasoning_effort: None,
            description: None,
            system_prompt: None,
            prompt_file: None,
            route: None,
            tools: ToolChoice::default(),
            output_escalation: OutputEscalation::default(),
            auto_compact: true,
            compaction_model: None,
            compaction_threshold: 0.75,
            output_reserve: 8_192,
            token_target: None,
            planning: false,
            reflection: None,
            tool_failure: FailurePolicy::default(),
            tool_timeout: FailurePolicy::default(),
            subagent_failure: FailurePolicy::default(),
            max_steps: 50,
            max_session_cost: None,
            max_turn_cost: None,
            max_day_cost: None,
            max_tool_calls: None,
            max_subagents: 100,
            max_wall_time: None,
            degrade_at_limit: false,
        }
    }
}

/// Rules in addition to the mode, as written (R-APPR-1). `deny` wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// What runs without approval.
    pub allow: Vec<String>,
    /// What never runs.
    pub deny: Vec<String>,
    /// What always needs approval.
    pub require_approval: Vec<String>,
    /// Reasons, for people, why rules of `deny` and `require_approval` may be missing. With any such reason, everything
    /// except plain reading needs approval.
    pub unreadable: Vec<String>,
    /// After this time an open approval is denied; `None` means never.
    pub timeout: Option<Duration>,
}

/// The effect of a cancel on a running command (R-CANCEL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnCancel {
    /// Sends SIGINT immediately.
    #[default]
    Interrupt,
    /// Waits up to this long for the command to end, then interrupts it.
    Finish(Duration),
}

/// Tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSettings {
    /// How long a call may run.
    pub default_timeout: Duration,
    /// How long a call may run, for tools with a limit of their own.
    pub timeouts: BTreeMap<String, Duration>,
    /// How long a tool is paused after repeated failures (R-TOOL-4).
    pub default_cooldown: Duration,
    /// How long a tool is paused, for tools with a pause of their own.
    pub cooldowns: BTreeMap<String, Duration>,
    /// The effect of a cancel on a running `bash`.
    pub on_cancel: OnCancel,
    /// Variables that children receive although they would otherwise be withheld.
    pub pass_env: Vec<String>,
    /// Hosts of this machine or the private network that `web_fetch` may read: `host` or `host:port`, in lower case.
    pub private_hosts: Vec<String>,
    /// The user's own tools, in the order of their names.
    pub commands: Vec<CommandToolSettings>,
}

/// How long a sub-agent may work (R-SUB).
const DELEGATE_TIMEOUT: Duration = Duration::from_secs(300);

impl ToolSettings {
    /// Returns how long a call of this tool may run, without the time it waits for a user.
    pub fn timeout_for(&self, tool: &str) -> Duration {
        let own = self.timeouts.get(tool).copied();
        own.unwrap_or(match tool {
            "delegate" => DELEGATE_TIMEOUT,
            _ => self.default_timeout,
        })
    }

    /// Returns how long this tool is paused after it repeatedly failed in the same way.
    pub fn cooldown_for(&self, tool: &str) -> Duration {
        self.cooldowns.get(tool).copied().unwrap_or(self.default_cooldown)
    }
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(120),
            timeouts: BTreeMap::new(),
            default_cooldown: Duration::from_secs(60),
            cooldowns: BTreeMap::new(),
            on_cancel: OnCancel::default(),
            pass_env: Vec::new(),
            private_hosts: Vec::new(),
            commands: Vec::new(),
        }
    }
}

/// How to reach providers (R-PROV-8). The choice between configuration and environment is already made.
#[derive(Clone, Debug, Default)]
pub struct NetworkSettings {
    /// The proxy URL for `https:` addresses; may contain a password.
    pub https_proxy: Option<SecretString>,
    /// The proxy URL for `http:` addresses; may contain a password.
    pub http_proxy: Option<SecretString>,
    /// Hosts to reach directly, separated by commas.
    pub no_proxy: Option<String>,
    /// A PEM file of certificate authorities in addition to the system's.
    pub ca_file: Option<PathBuf>,
}

/// Settings of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The period in which streamed deltas are merged (R-WIRE-3); zero disables merging.
    pub delta_frame: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            delta_frame: Duration::from_millis(16),
        }
    }
}

/// A log level, from none to most verbose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The log (R-OBS).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggingSettings {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// Levels by module; overrides `level`. The syntax is valid.
    pub filter: Option<String>,
    /// The log file; `None` only without a state folder.
    pub file: Option<PathBuf>,
    /// The format of a line.
    pub format: LogFormat,
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
