//! Settings as the rest of the program uses them: complete, checked, in proper types. Every field has its default
//! here or in `names`, so nobody else fills gaps.

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

/// Shorter keys are common words (`ollama`): a variable that holds one is no secret for that.
const SHORTEST_KEY: usize = 16;

/// A workspace root's whole configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Providers by name: the configured ones and those known by name. Broken ones are in `broken_providers` instead.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Providers whose configuration cannot be used, and why; nothing may be sent in their place.
    pub broken_providers: BTreeMap<String, String>,
    /// What the user says of models, by the name that is sent.
    pub models: BTreeMap<String, ModelSettings>,
    /// Agents by name; `default` is always there.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Rules on top of the mode.
    pub approvals: ApprovalSettings,
    /// Tools.
    pub tools: ToolSettings,
    /// Hooks, in the order in which they run.
    pub hooks: Vec<HookSettings>,
    /// How providers are reached.
    pub network: NetworkSettings,
    /// The server's knobs.
    pub server: ServerSettings,
    /// The log.
    pub logging: LoggingSettings,
    /// Folders that user file and `initializationOptions` trust.
    pub trusted: BTreeSet<PathBuf>,
    /// Variables that the configuration names in `${…}`.
    pub(super) named_variables: BTreeSet<String>,
}

impl Settings {
    /// The agent of that name.
    pub fn find_agent(&self, name: &str) -> Option<&AgentSettings> {
        self.agents.get(name)
    }

    /// The agent that is used when none is named.
    pub fn default_agent(&self) -> &AgentSettings {
        &self.agents["default"]
    }

    /// Variables that no child process may get: those that the configuration names, the usual API keys, and whatever
    /// in `env` looks like a credential or holds a configured one; but for `pass_env`, and for those without which no
    /// command works (`HOME`, `PATH`, …).
    pub fn secret_env_names(&self, env: &Env) -> BTreeSet<String> {
        const HARMLESS: [&str; 10] = [
            "HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TERM", "LANG", "HOSTNAME",
        ];
        let harmless =
            |name: &str| HARMLESS.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_");
        let holds_key = |value: &str| {
            let mut keys = self.iter_provider_keys().map(ExposeSecret::expose_secret);
            keys.any(|key| key.len() >= SHORTEST_KEY && value.contains(key))
        };
        let found = env.iter().filter_map(|(name, value)| {
            let value = value.to_string_lossy();
            let name = name.to_str()?;
            let is_secret = is_credential(name, &value) || holds_key(&value);
            // git refuses to run when one of the numbered settings is missing.
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

    /// The keys: what content must not hold. Of the headers those that are not usually public.
    pub(super) fn iter_provider_keys(&self) -> impl Iterator<Item = &SecretString> {
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

    /// Every secret in here, for a [`Redactor`](super::Redactor).
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

/// Which API a provider speaks.
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

/// An LLM API with an account.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Its name in the config.
    pub name: String,
    /// It stands in the config (else: only known by name).
    pub configured: bool,
    /// Which API it speaks.
    pub kind: ProviderKind,
    /// Where the API is, no `/` at the end. Empty for `script`.
    pub base_url: String,
    /// The host is this machine or in its private network.
    pub local: bool,
    /// The key, from the config or the variable usual for this name.
    pub api_key: Option<SecretString>,
    /// It usually wants a key.
    pub needs_key: bool,
    /// The model for agents that name none.
    pub model: Option<String>,
    /// How failed calls are made again.
    pub retry: RetrySettings,
    /// Time limits of a call.
    pub limits: TimeLimits,
    /// Extra headers of every request.
    pub headers: BTreeMap<String, SecretString>,
    /// What a day may cost there, over all sessions.
    pub max_day_cost: Option<Cost>,
    /// Who takes over, in order. Known names, no cycle.
    pub fallback: Vec<String>,
    /// Its model that answers while the usual one is overloaded.
    pub fallback_model: Option<String>,
    /// How long it is not called after too many failures in a row.
    pub circuit_cooldown: Duration,
    /// The cassette of a `script` provider.
    pub cassette: Option<PathBuf>,
    /// Where its calls are recorded.
    pub record: Option<PathBuf>,
}

/// The name of a set of retry numbers (R-PROV-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetryProfile {
    /// 3 retries, 1 s, at most 30 s.
    #[default]
    Interactive,
    /// 10 retries, 0.5 s, at most 32 s.
    Persistent,
    /// 10 retries, 1 s, at most 60 s; a wait that the provider asks for is kept however long it is.
    Patient,
}

/// How failed calls are made again (R-PROV-1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrySettings {
    /// The profile; `Patient` also waits longer than `max_retry_after`.
    pub profile: RetryProfile,
    /// Retries after the first try.
    pub max_retries: u32,
    /// How many of them may follow a time limit.
    pub max_timeout_retries: u32,
    /// How the waits grow.
    pub backoff: Backoff,
    /// The longest wait that a provider may ask for.
    pub max_retry_after: Duration,
}

impl RetrySettings {
    /// The numbers of a profile.
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
    /// For connecting.
    pub connect: Duration,
    /// For response headers or the first event, as configured.
    pub first_event: Option<Duration>,
    /// Between two content events, as configured.
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
    /// Whether a key of the editor would be used: there is none of another source, and the provider may want one.
    pub fn takes_editor_key(&self) -> bool {
        self.api_key.is_none()
            && self.kind != ProviderKind::Script
            && (self.needs_key || !self.local && self.headers.is_empty())
    }

    /// The limit for response headers or the first event: as configured, else 60 s; 300 s for local addresses and with
    /// reasoning on.
    pub fn first_event_limit(&self, reasoning: bool) -> Duration {
        let usual = if self.local || reasoning { 300 } else { 60 };
        self.limits.first_event.unwrap_or(Duration::from_secs(usual))
    }

    /// The limit between two content events: as configured, else 90 s; 300 s where the API streams no reasoning.
    pub fn event_gap_limit(&self, streams_reasoning: bool) -> Duration {
        let usual = if streams_reasoning { 90 } else { 300 };
        self.limits.event_gap.unwrap_or(Duration::from_secs(usual))
    }
}

/// What the user says of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Its price.
    pub price: Option<Price>,
    /// How many tokens it can read.
    pub context_window: Option<u64>,
    /// How many tokens it can write in one answer.
    pub max_output_tokens: Option<u64>,
    /// Whether it can see pictures.
    pub images: Option<bool>,
    /// Whether it can use tools.
    pub tools: Option<bool>,
}

/// How hard a model thinks; without one it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasoningEffort {
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
}

impl ReasoningEffort {
    /// Its name in config and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How the output limit grows after an answer that was cut (R-LOOP-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputEscalation {
    /// To the large limit at once.
    #[default]
    Large,
    /// To twice the last one, up to three times.
    Double,
}

/// What a failure does to the turn (R-ERR-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The model is told, and goes on.
    #[default]
    Continue,
    /// The same, and the turn ends no better than `degraded`.
    Degrade,
    /// The turn ends.
    Fail,
}

/// Who takes over from a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStep {
    /// The provider.
    pub provider: String,
    /// Its model; its own when none is named.
    pub model: Option<String>,
}

/// Which tools an agent has, by names in which `*` stands for any letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// These alone; none: all.
    pub only: Option<Vec<String>>,
    /// Never these.
    pub never: Vec<String>,
}

impl ToolChoice {
    /// Whether a tool of that name is among them.
    pub fn is_allowed(&self, tool: &str) -> bool {
        let names = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, tool));
        self.only.as_deref().is_none_or(names) && !names(&self.never)
    }

    /// Whether nothing is chosen.
    pub fn is_all(&self) -> bool {
        self.only.is_none() && self.never.is_empty()
    }
}

/// Whether a name fits a pattern: what stands between its `*` comes in this order, the ends at the ends.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// An agent. What a named one leaves out is filled from `default`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// Its name.
    pub name: String,
    /// It names a provider or a model itself, not by `default`.
    pub names_model: bool,
    /// The provider it names.
    pub provider: Option<String>,
    /// The model it names.
    pub model: Option<String>,
    /// How freely it may act.
    pub mode: Mode,
    /// How hard its model thinks; `None`: not.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// What it is for.
    pub description: Option<String>,
    /// Instructions in the place of the built-in ones.
    pub system_prompt: Option<String>,
    /// A file that holds them instead.
    pub prompt_file: Option<PathBuf>,
    /// Who takes over from its provider, with which model, in order. Known names.
    pub route: Option<Vec<RouteStep>>,
    /// Which tools it has.
    pub tools: ToolChoice,
    /// How the output limit grows after an answer that was cut.
    pub output_escalation: OutputEscalation,
    /// A history that grows too long is summarised by itself.
    pub auto_compact: bool,
    /// Who writes such summaries.
    pub compaction_model: Option<String>,
    /// Above this part of the room for a request, 0 to 1, that happens.
    pub compaction_threshold: f64,
    /// So many tokens of the window stay free for the answer.
    pub output_reserve: u64,
    /// Output tokens that a turn shall use.
    pub token_target: Option<u64>,
    /// A session's first prompt asks for a plan (R-LOOP-2).
    pub planning: bool,
    /// After so many tool calls it is asked to judge its progress (R-LOOP-3).
    pub reflection: Option<u32>,
    /// What a tool that failed does to the turn.
    pub tool_failure: FailurePolicy,
    /// What a tool that ran out of time does to the turn.
    pub tool_timeout: FailurePolicy,
    /// What a sub-agent that failed does to the turn.
    pub subagent_failure: FailurePolicy,
    /// Model calls a prompt may cause.
    pub max_steps: u32,
    /// What a session may cost.
    pub max_session_cost: Option<Cost>,
    /// What a turn may cost.
    pub max_turn_cost: Option<Cost>,
    /// What a day may cost, over all sessions.
    pub max_day_cost: Option<Cost>,
    /// Tool calls a prompt may cause.
    pub max_tool_calls: Option<u32>,
    /// Sub-agents a prompt may start, those of sub-agents included.
    pub max_subagents: u32,
    /// How long a turn may run, less what it waits for people.
    pub max_wall_time: Option<Duration>,
    /// Steps or tool calls used up end the turn with a summary instead of an error.
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

/// Rules on top of the mode, as written (R-APPR-1); deny wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// What happens without asking.
    pub allow: Vec<String>,
    /// What never happens.
    pub deny: Vec<String>,
    /// What is asked whatever else is said.
    pub require_approval: Vec<String>,
    /// Why rules of `deny` and `require_approval` may be missing, each for people. While there is one, all but plain
    /// reading asks.
    pub unreadable: Vec<String>,
    /// After this an open question is denied; `None`: never.
    pub timeout: Option<Duration>,
}

/// What a cancel does to a running command (R-CANCEL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnCancel {
    /// SIGINT at once.
    #[default]
    Interrupt,
    /// Waits up to this long first.
    Finish(Duration),
}

/// Tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSettings {
    /// How long a call may run.
    pub default_timeout: Duration,
    /// The same for single tools.
    pub timeouts: BTreeMap<String, Duration>,
    /// How long a tool that keeps failing is left alone (R-TOOL-4).
    pub default_cooldown: Duration,
    /// The same for single tools.
    pub cooldowns: BTreeMap<String, Duration>,
    /// What a cancel does to a running `bash`.
    pub on_cancel: OnCancel,
    /// Variables that children get although they would be held back.
    pub pass_env: Vec<String>,
    /// Hosts of this machine or the private network that `web_fetch` may read: `host` or `host:port`, in lower case.
    pub private_hosts: Vec<String>,
    /// Tools of the person's own, by name.
    pub commands: Vec<CommandToolSettings>,
}

/// How long a sub-agent may work (R-SUB).
const DELEGATE_TIMEOUT: Duration = Duration::from_secs(300);

impl ToolSettings {
    /// How long a call of this tool may run, waiting for a person not counted.
    pub fn timeout_for(&self, tool: &str) -> Duration {
        let own = self.timeouts.get(tool).copied();
        own.unwrap_or(match tool {
            "delegate" => DELEGATE_TIMEOUT,
            _ => self.default_timeout,
        })
    }

    /// How long this tool is left alone after it has failed in the same way again and again.
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

/// How providers are reached (R-PROV-8). Config before environment, already decided here.
#[derive(Clone, Debug, Default)]
pub struct NetworkSettings {
    /// Proxy URL for `https:` addresses; may hold a password.
    pub https_proxy: Option<SecretString>,
    /// Proxy URL for `http:` addresses; may hold a password.
    pub http_proxy: Option<SecretString>,
    /// Hosts that are reached directly, with commas between.
    pub no_proxy: Option<String>,
    /// Certificate authorities besides the system's, PEM.
    pub ca_file: Option<PathBuf>,
}

/// The server's knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Frame for merging deltas by rate (R-WIRE-3); zero: off.
    pub delta_frame: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            delta_frame: Duration::from_millis(16),
        }
    }
}

/// A log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
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
    /// Its name.
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

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The log (R-OBS).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggingSettings {
    /// From which level on.
    pub level: LogLevel,
    /// Levels by module; goes before `level`. Its syntax has been checked.
    pub filter: Option<String>,
    /// The file; `None` only where the platform gives no place for it.
    pub file: Option<PathBuf>,
    /// How a line looks.
    pub format: LogFormat,
}

impl LoggingSettings {
    /// The filter in tracing's language: our own modules at `level`, libraries at most at `warn`.
    pub fn to_filter_directives(&self) -> String {
        match (&self.filter, self.level) {
            (Some(filter), _) => filter.clone(),
            (None, LogLevel::Off | LogLevel::Error) => self.level.name().to_owned(),
            (None, level) => format!("warn,agentls={}", level.name()),
        }
    }
}
