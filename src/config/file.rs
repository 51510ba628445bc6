//! The shape of a config file, as serde types. Their comments are the descriptions in the JSON Schema and the
//! reference.
//!
//! Durations are numbers of seconds (`_s`, fractions allowed) or whole milliseconds (`_ms`). Defaults and references
//! between settings are not resolved here; the rest of the program uses [`settings`](super::settings).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::command_tools::ToolEffect;
use super::hooks::HookTable;

/// Configuration of agentls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// LLM providers by name. `anthropic`, `openai`, `openai-responses`, `openrouter`, `ollama`, `deepseek`, `groq`,
    /// `mistral`, `eachlabs`, `lmstudio`, `vllm` and `llamacpp` have a preset `kind` and `base_url`. Without
    /// `api_key`, the first nine except `ollama` take their key from the environment (`ANTHROPIC_API_KEY` and so on).
    pub provider: BTreeMap<String, ProviderTable>,
    /// Agents by name. A named agent inherits from `default`; set only what differs.
    pub agent: BTreeMap<String, AgentTable>,
    /// Prices and limits of models, by the name sent to the provider. They override the built-in ones.
    pub model: BTreeMap<String, ModelTable>,
    /// What is allowed, denied, or asked, in addition to the mode. Lists of several config files are joined.
    pub approvals: ApprovalsTable,
    /// Tools by name; `default` applies to every tool that does not set the value itself.
    pub tool: ToolTables,
    /// Your commands that run at certain moments of every turn, by name. Several run in the order of their names.
    pub hook: BTreeMap<String, HookTable>,
    /// How to reach providers.
    pub network: NetworkTable,
    /// Settings of the server itself.
    pub server: ServerTable,
    /// The log.
    pub logging: LoggingTable,
    /// Workspace folders (absolute paths, `~/…` or file URIs) whose own config files are trusted. Has no effect in a
    /// workspace's own files.
    pub trusted: Vec<String>,
}

/// A provider: an LLM API with an account.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTable {
    /// The API that the provider speaks. Default: by the provider's name.
    pub kind: Option<KindSetting>,
    /// The address of the API, such as `https://llm.example.com/v1`. Default: by the provider's name.
    pub base_url: Option<String>,
    /// The API key, preferably as `"${NAME_OF_A_VARIABLE}"`. Not accepted in `initializationOptions`.
    pub api_key: Option<String>,
    /// The model for agents that name none.
    pub model: Option<String>,
    /// The retry profile: `interactive` (3 retries, the first after 1 s, at most 30 s apart), `persistent` (10, 0.5 s,
    /// 32 s), or `patient` (10, 1 s, 60 s, and as long as the provider asks). Default: `interactive`.
    #[schemars(extend("default" = "interactive"))]
    pub retry: Option<RetryName>,
    /// How often to retry a failed call. Default: by `retry`.
    #[schemars(range(max = 100))]
    pub max_retries: Option<u32>,
    /// How many of these retries may follow a timeout. Default: 1.
    #[schemars(range(max = 100), extend("default" = 1))]
    pub max_timeout_retries: Option<u32>,
    /// The wait before the first retry, in ms. Default: by `retry`.
    #[schemars(range(max = 3_600_000))]
    pub initial_backoff_ms: Option<u64>,
    /// The factor by which the wait grows from one retry to the next. Default: 2.
    #[schemars(range(min = 1, max = 10), extend("default" = 2.0))]
    pub backoff_factor: Option<f64>,
    /// The longest wait between retries, in ms, before `backoff_jitter`. Default: by `retry`.
    #[schemars(range(max = 3_600_000))]
    pub max_backoff_ms: Option<u64>,
    /// The largest random extension of a wait, as a fraction of it, so that many clients do not retry together. 0 adds
    /// nothing, 1 at most doubles the wait. Default: 0.25.
    #[schemars(range(min = 0, max = 1), extend("default" = 0.25))]
    pub backoff_jitter: Option<f64>,
    /// The longest wait that a provider may ask for (`Retry-After`), in seconds. Default: 60.
    #[schemars(range(min = 0, max = 86_400), extend("default" = 60.0))]
    pub max_retry_after_s: Option<f64>,
    /// The time limit for connecting, in seconds. Default: 10.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 10.0))]
    pub connect_timeout_s: Option<f64>,
    /// The time limit for the first event of an answer, in seconds. Default: 60; 300 for local addresses and with
    /// reasoning on.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub first_event_timeout_s: Option<f64>,
    /// The time limit between two pieces of content, in seconds. Default: 90; 300 if the API does not stream reasoning.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub event_gap_timeout_s: Option<f64>,
    /// Extra HTTP headers for every request.
    pub headers: BTreeMap<String, String>,
    /// The most that all sessions together may cost at this provider in one day (UTC), in US dollars. Default: no
    /// limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_day_cost: Option<f64>,
    /// The provider, or list of providers, that takes over when this one fails: its retries or its quota are used up,
    /// or its circuit is open. Each takes over with its own model and settings.
    pub fallback: Option<StringOrList>,
    /// The model of this provider that answers after 3 overload errors (529) in a row, before `fallback`.
    pub fallback_model: Option<String>,
    /// How long to pause calls to the provider after 5 failures in a row, in seconds; one trial call follows.
    /// Default: 30.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 30.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// For kind `script`: the cassette to replay. A relative path starts at the config file's folder.
    pub cassette: Option<String>,
    /// A file that records every call as a line of a cassette, without secrets; `kind = "script"` replays it. A
    /// relative path starts at the config file's folder. Default: no recording.
    pub record: Option<String>,
}

/// The API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KindSetting {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which most other providers speak too.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Replays a cassette; needs no network and no key.
    Script,
}

/// A retry profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryName {
    /// For a user who waits.
    Interactive,
    /// For work that must get through.
    Persistent,
    /// Waits as long as the provider asks.
    Patient,
}

/// A text or a list of texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StringOrList {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

impl StringOrList {
    /// Returns a list in either case.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// An agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// The agent's purpose, in one line, for lists.
    pub description: Option<String>,
    /// The provider to use. Default: the one whose key is available.
    pub provider: Option<String>,
    /// The model to use. Default: the provider's.
    pub model: Option<String>,
    /// How freely the agent may act. Default: `ask`.
    #[schemars(extend("default" = "ask"))]
    pub mode: Option<ModeName>,
    /// How many model calls one prompt may cause. Alias: `max_iterations`. Default: 50.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 50))]
    pub max_steps: Option<u32>,
    /// The most that a session may cost, in US dollars. Alias: `max_total_cost_usd`. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_session_cost: Option<f64>,
    /// The most that a turn may cost, in US dollars. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_turn_cost: Option<f64>,
    /// The most that all sessions together may cost in one day (UTC), in US dollars. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_day_cost: Option<f64>,
    /// How many tool calls one prompt may cause. Default: no limit.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tool_calls: Option<u32>,
    /// How many sub-agents one prompt may start, including those that sub-agents start. Default: 100.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 100))]
    pub max_subagents: Option<u32>,
    /// How long a turn may run, in seconds, without the time it waits for a user. Default: no limit.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    pub max_wall_time_s: Option<f64>,
    /// What happens at the limit of steps or tool calls. `fail` ends the turn; `degrade` makes one last model call
    /// without tools, which sums up the results. Default: `fail`.
    #[schemars(extend("default" = "fail"))]
    pub limit_reached: Option<LimitPolicyName>,
    /// How hard the model thinks before it answers. Default: `off`.
    #[schemars(extend("default" = "off"))]
    pub reasoning_effort: Option<EffortName>,
    /// Instructions that replace the built-in ones.
    pub system_prompt: Option<String>,
    /// A file with such instructions, read again in each turn; overrides `system_prompt`. A relative path starts at the
    /// config file's folder.
    pub prompt_file: Option<String>,
    /// Who takes over when the agent's provider is not available, in order: `provider`, or `provider/model`. Default:
    /// the provider's `fallback`.
    pub route: Option<StringOrList>,
    /// The tools that the agent has, and no others; `*` matches any characters. Default: all.
    pub tools: Option<StringOrList>,
    /// Tools that the agent does not have; overrides `tools`.
    pub deny_tools: Option<StringOrList>,
    /// How the output limit grows after an answer was cut off: `large` raises it once to 64,000 tokens, `double`
    /// doubles it up to three times. Default: `large`.
    #[schemars(extend("default" = "large"))]
    pub output_escalation: Option<EscalationName>,
    /// Whether to summarize a history automatically before it exceeds the model's context window. Default: true.
    #[schemars(extend("default" = true))]
    pub auto_compact: Option<bool>,
    /// The model that writes such summaries: `provider/model`, `provider` or `model`. Default: the session's.
    pub compaction_model: Option<String>,
    /// The fraction of the available context at which the history is summarized. Default: 0.75.
    #[schemars(range(min = 0.2, max = 0.95), extend("default" = 0.75))]
    pub compaction_threshold: Option<f64>,
    /// How many tokens of the context window stay free for the answer; at most a quarter of a small window. Default:
    /// 8192.
    #[schemars(range(min = 1_024, max = 1_000_000), extend("default" = 8_192))]
    pub output_reserve: Option<u64>,
    /// How many tokens a turn should write at least. An agent that stops below 90 % of them is asked to continue.
    /// Default: the agent stops on its own.
    #[schemars(range(min = 1))]
    pub token_target: Option<u64>,
    /// Whether a session's first prompt asks for an analysis, a plan of at most 5 steps and likely problems before the
    /// agent acts. Default: false.
    #[schemars(extend("default" = false))]
    pub planning: Option<bool>,
    /// How many tool calls pass before the agent is asked to judge its progress; `true` means 3. Default: false.
    #[schemars(extend("default" = false))]
    pub reflection: Option<Reflection>,
    /// What a failed tool does to the turn. `continue` only tells the model, `degrade` also ends the turn no better
    /// than `degraded`, `fail` ends it. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub tool_failure: Option<PolicyName>,
    /// The same for a tool that exceeded its time limit. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub tool_timeout: Option<PolicyName>,
    /// The same for a failed sub-agent, if its call required all sub-agents to succeed. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub subagent_failure: Option<PolicyName>,
}

/// Whether to ask for progress checks, or after how many tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reflection {
    /// After 3 tool calls, or never.
    On(bool),
    /// After this many tool calls.
    Every(#[schemars(range(min = 1, max = 100_000))] u32),
}

/// The effect of a failure on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// The model sees the failure and continues.
    Continue,
    /// The model continues, and the turn ends no better than `degraded`.
    Degrade,
    /// The turn ends.
    Fail,
}

/// The effect of a limit on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitPolicyName {
    /// The turn fails.
    Fail,
    /// The turn sums up and ends degraded.
    Degrade,
}

/// How the output limit grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationName {
    /// Once, to 64,000 tokens.
    Large,
    /// To twice the previous limit, up to three times.
    Double,
}

/// How freely the agent may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModeName {
    /// Reads only.
    Plan,
    /// Reads need no approval; commands, writes and network access do.
    Ask,
    /// Edits inside the workspace need no approval either.
    AutoEdit,
    /// Nothing needs approval.
    Full,
}

/// How hard the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffortName {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// A lot.
    High,
}

/// A model's prices (US dollars per million tokens) and capabilities.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTable {
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
}

/// Rules in addition to the mode. A rule is a tool's name, or a name and a pattern: `bash(git status *)`,
/// `edit_file(src/**)`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsTable {
    /// What runs without approval.
    pub allow: Option<StringOrList>,
    /// What never runs. Overrides everything else.
    pub deny: Option<StringOrList>,
    /// What always needs approval, regardless of the mode and `allow`.
    pub require_approval: Option<StringOrList>,
    /// After this many seconds an unanswered approval counts as denied. Default: never.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    pub timeout_s: Option<f64>,
}

/// Tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolTables {
    /// The shell.
    pub bash: BashTable,
    /// Reading web pages.
    pub web_fetch: WebFetchTable,
    /// Other tools, by name. One with a `command` is a tool of your own.
    #[serde(flatten)]
    pub others: BTreeMap<String, ToolTable>,
}

/// A tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolTable {
    /// How long a call may run, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// How long to pause a tool after it failed three times in a row in the same way, in seconds. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// For a tool of your own: the command to run. One text for the shell, or a list of a program and its arguments.
    /// It reads its arguments as one JSON object and runs in the session's folder. Its output is the result; an exit
    /// code other than 0 is a failure.
    pub command: Option<StringOrList>,
    /// For a tool of your own: what it does and when to use it, for the model.
    pub description: Option<String>,
    /// For a tool of your own: the JSON Schema of its arguments (`type`, `properties`, `required`,
    /// `additionalProperties`, `items`, `enum`, `minimum`, `maximum`, `pattern`, `description`). Default: no arguments.
    pub schema: Option<Map<String, Value>>,
    /// For a tool of your own: the kind of effect that a call has, which decides whether it needs approval. Default:
    /// `execute`.
    #[schemars(extend("default" = "execute"))]
    pub effect: Option<ToolEffect>,
}

/// Reading web pages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebFetchTable {
    /// How long a call may take, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// The same as for other tools. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// Hosts on this machine or the private network that may be read, such as `localhost:3000` or `wiki.example.com`. A
    /// host without a port includes all its ports. Default: none.
    pub private_hosts: Option<Vec<String>>,
}

/// The shell.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BashTable {
    /// How long a command may run, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// The same as for other tools. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// What a cancel does to a running command. Default: `interrupt`.
    #[schemars(extend("default" = "interrupt"))]
    pub on_cancel: Option<OnCancelName>,
    /// How long `on_cancel = "finish"` waits for the command to end, in seconds. Default: 5.
    #[schemars(range(min = 1, max = 600), extend("default" = 5.0))]
    pub finish_timeout_s: Option<f64>,
    /// Variables that commands receive even if this configuration names them (in `${…}`) or they contain a known API
    /// key.
    pub pass_env: Option<Vec<String>>,
}

/// What a cancel does to a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnCancelName {
    /// Interrupts it immediately; it ends within 2.5 s.
    Interrupt,
    /// Waits up to `finish_timeout_s` for it to end, then interrupts it.
    Finish,
}

/// How to reach providers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// The proxy for all requests, such as `http://proxy.example.com:3128`. Default: `HTTPS_PROXY`, `http_proxy`,
    /// `ALL_PROXY`.
    pub proxy: Option<String>,
    /// Hosts to reach without the proxy, separated by commas. Default: `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of certificate authorities to trust in addition to the system's. A relative path starts at the config
    /// file's folder.
    pub ca_file: Option<String>,
}

/// Settings of the server itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTable {
    /// Merges streamed text that arrives faster than two notifications in this many milliseconds; 0 sends each piece.
    /// Default: 16.
    #[schemars(range(max = 10_000), extend("default" = 16))]
    pub delta_frame_ms: Option<u64>,
}

/// The log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingTable {
    /// The least severe level to log. Default: `info`.
    #[schemars(extend("default" = "info"))]
    pub level: Option<LevelName>,
    /// Levels by module, such as `info,agentls::provider=debug`; overrides `level`.
    pub filter: Option<String>,
    /// The log file. A new one starts every day; old ones get the day's date and are kept for a week. Default:
    /// `agentls.log` in the state folder.
    pub file: Option<String>,
    /// The format of a log line. Default: `text`.
    #[schemars(extend("default" = "text"))]
    pub format: Option<FormatName>,
}

/// A log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LevelName {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Also doubtful situations.
    Warn,
    /// Also normal events.
    Info,
    /// Also details.
    Debug,
    /// Everything.
    Trace,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}
