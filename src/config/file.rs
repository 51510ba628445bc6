//! The shape of a config file: serde, and the JSON Schema whose descriptions are these comments. Times are numbers of
//! seconds (`_s`, fractions allowed) or whole milliseconds (`_ms`). What the rest of the program uses is
//! [`settings`](super::settings).

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
    /// `mistral`, `eachlabs`, `lmstudio`, `vllm` and `llamacpp` know their `kind` and `base_url`, and the first nine but
    /// `ollama` take their key from the environment (`ANTHROPIC_API_KEY` and so on) when `api_key` is not set.
    pub provider: BTreeMap<String, ProviderTable>,
    /// Agents by name. What a named agent leaves out it takes from `default`.
    pub agent: BTreeMap<String, AgentTable>,
    /// Prices and limits of models, by the name that is sent to the provider; they go before the built-in ones.
    pub model: BTreeMap<String, ModelTable>,
    /// What is allowed, denied, or asked, beyond the mode. Lists of several config files are joined.
    pub approvals: ApprovalsTable,
    /// Tools by name; `default` holds for all that say nothing else.
    pub tool: ToolTables,
    /// Commands of yours that run at moments of every turn, by name; several run in the order of their names.
    pub hook: BTreeMap<String, HookTable>,
    /// How providers are reached.
    pub network: NetworkTable,
    /// The server's own knobs.
    pub server: ServerTable,
    /// The log.
    pub logging: LoggingTable,
    /// Workspace folders (absolute paths, `~/…` or file URIs) whose own config files are trusted. Has no effect in a
    /// workspace's own files.
    pub trusted: Vec<String>,
}

/// An LLM API with an account.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTable {
    /// Which API it speaks. Default: by the provider's name.
    pub kind: Option<KindSetting>,
    /// Where the API is, as in `https://llm.example.com/v1`. Default: by the provider's name.
    pub base_url: Option<String>,
    /// The API key; best written `"${NAME_OF_A_VARIABLE}"`. Not accepted in `initializationOptions`.
    pub api_key: Option<String>,
    /// The model to use when the agent names none.
    pub model: Option<String>,
    /// Numbers for trying again: `interactive` (3 retries, first after 1 s, at most 30 s), `persistent` (10, 0.5 s,
    /// 32 s), `patient` (10, 1 s, 60 s, and as long as the provider says). Default: `interactive`.
    #[schemars(extend("default" = "interactive"))]
    pub retry: Option<RetryName>,
    /// How often a failed call is made again. Default: by `retry`.
    #[schemars(range(max = 100))]
    pub max_retries: Option<u32>,
    /// How many of these retries may follow a call that reached a time limit. Default: 1.
    #[schemars(range(max = 100), extend("default" = 1))]
    pub max_timeout_retries: Option<u32>,
    /// Wait before the first retry, in ms. Default: by `retry`.
    #[schemars(range(max = 3_600_000))]
    pub initial_backoff_ms: Option<u64>,
    /// How the wait grows from one retry to the next. Default: 2.
    #[schemars(range(min = 1, max = 10), extend("default" = 2.0))]
    pub backoff_factor: Option<f64>,
    /// The longest wait between retries, in ms, before `backoff_jitter`. Default: by `retry`.
    #[schemars(range(max = 3_600_000))]
    pub max_backoff_ms: Option<u64>,
    /// The part of a wait that is added at most, at random, so that many clients do not come back at once: 0 adds
    /// nothing, 1 doubles it at most. Default: 0.25.
    #[schemars(range(min = 0, max = 1), extend("default" = 0.25))]
    pub backoff_jitter: Option<f64>,
    /// The longest wait that a provider may ask for (`Retry-After`), in seconds. Default: 60.
    #[schemars(range(min = 0, max = 86_400), extend("default" = 60.0))]
    pub max_retry_after_s: Option<f64>,
    /// Time limit for connecting, in seconds. Default: 10.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 10.0))]
    pub connect_timeout_s: Option<f64>,
    /// Time limit for the first event of an answer, in seconds. Default: 60; 300 for local addresses and with
    /// reasoning on.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub first_event_timeout_s: Option<f64>,
    /// Time limit between two pieces of content, in seconds. Default: 90; 300 where the API streams no reasoning.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub event_gap_timeout_s: Option<f64>,
    /// Extra HTTP headers of every request.
    pub headers: BTreeMap<String, String>,
    /// What all sessions of a day (UTC) may cost together at this provider, in US dollars. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_day_cost: Option<f64>,
    /// The provider (or list of providers) that takes over when this one fails: its retries are used up, its quota is,
    /// or its circuit is open. Each takes over with its own model and numbers.
    pub fallback: Option<StringOrList>,
    /// The model of this provider that answers after it was overloaded (529) 3 times in a row, before `fallback`.
    pub fallback_model: Option<String>,
    /// How long the provider is not called after 5 failures in a row, in seconds; then one call is a trial.
    /// Default: 30.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 30.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// For kind `script`: the cassette to replay. A relative path starts at the config file's folder.
    pub cassette: Option<String>,
    /// A file to which every call is added as a line of a cassette, without secrets: `kind = "script"` plays it. A
    /// relative path starts at the config file's folder. Default: nothing is recorded.
    pub record: Option<String>,
}

/// An API that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KindSetting {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, and all that speak it.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Replays a cassette; no network, no key.
    Script,
}

/// A set of numbers for trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryName {
    /// For a person who waits.
    Interactive,
    /// For work that should get through.
    Persistent,
    /// Waits as long as the provider says.
    Patient,
}

/// One text or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StringOrList {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl StringOrList {
    /// As a list.
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
    /// What it is for, in a line, for lists.
    pub description: Option<String>,
    /// The provider to ask. Default: the one whose key is there.
    pub provider: Option<String>,
    /// The model. Default: the provider's.
    pub model: Option<String>,
    /// How freely the agent may act. Default: `ask`.
    #[schemars(extend("default" = "ask"))]
    pub mode: Option<ModeName>,
    /// How many model calls one prompt may cause. Also accepted: `max_iterations`. Default: 50.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 50))]
    pub max_steps: Option<u32>,
    /// What a session may cost, in US dollars. Also accepted: `max_total_cost_usd`. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_session_cost: Option<f64>,
    /// What a turn may cost, in US dollars. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_turn_cost: Option<f64>,
    /// What all sessions of a day (UTC) may cost together, in US dollars. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_day_cost: Option<f64>,
    /// How many tool calls one prompt may cause. Default: no limit.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tool_calls: Option<u32>,
    /// How many sub-agents one prompt may start, those of sub-agents included. Default: 100.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 100))]
    pub max_subagents: Option<u32>,
    /// How long a turn may run, in seconds, waiting for a person not counted. Default: no limit.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    pub max_wall_time_s: Option<f64>,
    /// What a turn does at its limit of steps or tool calls: `fail`, or `degrade`: one last model call without tools
    /// that sums up what was reached. Default: `fail`.
    #[schemars(extend("default" = "fail"))]
    pub limit_reached: Option<LimitPolicyName>,
    /// How hard the model thinks before it answers. Default: `off`.
    #[schemars(extend("default" = "off"))]
    pub reasoning_effort: Option<EffortName>,
    /// Instructions that stand in the place of the built-in ones.
    pub system_prompt: Option<String>,
    /// A file with such instructions, read again at each turn; goes before `system_prompt`. A relative path starts at
    /// the config file's folder.
    pub prompt_file: Option<String>,
    /// Who takes over when its provider cannot be asked, in order: `provider`, or `provider/model`. Default: the
    /// provider's `fallback`.
    pub route: Option<StringOrList>,
    /// The only tools it has; `*` stands for any letters. Default: all.
    pub tools: Option<StringOrList>,
    /// Tools that it has not; goes before `tools`.
    pub deny_tools: Option<StringOrList>,
    /// How the output limit grows after an answer that was cut: `large` at once (64,000 tokens), or `double`, up to
    /// three times. Default: `large`.
    #[schemars(extend("default" = "large"))]
    pub output_escalation: Option<EscalationName>,
    /// Whether a history that grows too long for the model's window is summarised by itself. Default: true.
    #[schemars(extend("default" = true))]
    pub auto_compact: Option<bool>,
    /// The model that writes such summaries: `provider/model`, `provider` or `model`. Default: the session's.
    pub compaction_model: Option<String>,
    /// How full the room for a request may be, as a part of it, before the history is summarised. Default: 0.75.
    #[schemars(range(min = 0.2, max = 0.95), extend("default" = 0.75))]
    pub compaction_threshold: Option<f64>,
    /// How many tokens of the model's window stay free for the answer; of a small window a quarter at most. Default:
    /// 8192.
    #[schemars(range(min = 1_024, max = 1_000_000), extend("default" = 8_192))]
    pub output_reserve: Option<u64>,
    /// How many tokens a turn shall write at least: an agent that ends under 90 % of them is asked to keep working.
    /// Default: it ends when it likes.
    #[schemars(range(min = 1))]
    pub token_target: Option<u64>,
    /// Whether a session's first prompt asks for an analysis, a plan of at most 5 steps and likely problems before the
    /// agent acts. Default: false.
    #[schemars(extend("default" = false))]
    pub planning: Option<bool>,
    /// After how many tool calls the agent is asked to judge its progress; `true` is 3. Default: false.
    #[schemars(extend("default" = false))]
    pub reflection: Option<Reflection>,
    /// What a tool that failed does to the turn: `continue` tells the model and nothing more, `degrade` also makes the
    /// turn end no better than `degraded`, `fail` ends it. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub tool_failure: Option<PolicyName>,
    /// The same for a tool that ran out of its time. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub tool_timeout: Option<PolicyName>,
    /// The same for a sub-agent that failed where all of its call were required. Default: `continue`.
    #[schemars(extend("default" = "continue"))]
    pub subagent_failure: Option<PolicyName>,
}

/// Whether, or after how many tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reflection {
    /// After 3, or never.
    On(bool),
    /// After so many.
    Every(#[schemars(range(min = 1, max = 100_000))] u32),
}

/// What a failure does to the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// The model is told, and goes on.
    Continue,
    /// The same, and the turn ends no better than `degraded`.
    Degrade,
    /// The turn ends.
    Fail,
}

/// What a turn does at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitPolicyName {
    /// It fails.
    Fail,
    /// It sums up, and ends degraded.
    Degrade,
}

/// How the output limit grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationName {
    /// To 64,000 tokens at once.
    Large,
    /// To twice the last limit, up to three times.
    Double,
}

/// How freely the agent may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModeName {
    /// Reads only.
    Plan,
    /// Reads are free; commands, writes and network ask.
    Ask,
    /// Edits inside the workspace are free too.
    AutoEdit,
    /// All is free.
    Full,
}

/// How hard the model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffortName {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
}

/// What a model costs (US dollars per million tokens) and can hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTable {
    /// Input. Prices count only when `input` and `output` are both there.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub input: Option<f64>,
    /// Output.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub output: Option<f64>,
    /// Input read from the provider's cache. Default: as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_read: Option<f64>,
    /// Input written to the provider's cache. Default: as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_write: Option<f64>,
    /// How many tokens it can read.
    #[schemars(range(min = 1))]
    pub context_window: Option<u64>,
    /// How many tokens it can write in one answer.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u64>,
    /// Whether it can see pictures. Default: as is known of it; of an unknown one yes.
    pub images: Option<bool>,
    /// Whether it can use tools; one that cannot never takes over from another. Default: yes.
    #[schemars(extend("default" = true))]
    pub tools: Option<bool>,
}

/// Rules on top of the mode. A rule is a tool's name, or a name and a pattern: `bash(git status *)`, `edit_file(src/**)`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsTable {
    /// What happens without asking.
    pub allow: Option<StringOrList>,
    /// What never happens. Goes before everything else.
    pub deny: Option<StringOrList>,
    /// What is asked, whatever mode and `allow` say.
    pub require_approval: Option<StringOrList>,
    /// After this many seconds an unanswered question counts as denied. Default: never.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    pub timeout_s: Option<f64>,
}

/// Tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolTables {
    /// The shell.
    pub bash: BashTable,
    /// Reading pages of the web.
    pub web_fetch: WebFetchTable,
    /// Other tools, by name. One with a `command` is a tool of your own.
    #[serde(flatten)]
    pub others: BTreeMap<String, ToolTable>,
}

/// A tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolTable {
    /// How long a call may run, in seconds, waiting for a person not counted. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// A tool that failed three times in a row in the same way is not tried again for this many seconds. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// A tool of your own: the command that it is. One text for the shell, or a list of a program and its arguments. It
    /// reads its arguments as one JSON object, runs in the session's folder, and what it writes is its result; an exit
    /// code other than 0 is a failure.
    pub command: Option<StringOrList>,
    /// Of a tool of your own: what it does and when to use it, for the model.
    pub description: Option<String>,
    /// Of a tool of your own: the JSON Schema of its arguments (`type`, `properties`, `required`,
    /// `additionalProperties`, `items`, `enum`, `minimum`, `maximum`, `pattern`, `description`). Default: it takes none.
    pub schema: Option<Map<String, Value>>,
    /// Of a tool of your own: what calling it amounts to, by which it is allowed, asked or denied. Default: `execute`.
    #[schemars(extend("default" = "execute"))]
    pub effect: Option<ToolEffect>,
}

/// Reading pages of the web.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebFetchTable {
    /// How long a call may take, in seconds, waiting for a person not counted. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// As for every tool. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// Hosts of this machine or the private network that may be read, as in `localhost:3000` or `wiki.example.com`;
    /// without a port all of its ports. Default: none.
    pub private_hosts: Option<Vec<String>>,
}

/// The shell.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BashTable {
    /// How long a command may run, in seconds, waiting for a person not counted. Default: 120.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 120.0))]
    pub timeout_s: Option<f64>,
    /// As for every tool. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub circuit_cooldown_s: Option<f64>,
    /// What a cancel does to a running command. Default: `interrupt`.
    #[schemars(extend("default" = "interrupt"))]
    pub on_cancel: Option<OnCancelName>,
    /// How long `on_cancel = "finish"` waits for the command's end, in seconds. Default: 5.
    #[schemars(range(min = 1, max = 600), extend("default" = 5.0))]
    pub finish_timeout_s: Option<f64>,
    /// Variables that commands get although this configuration names them (in `${…}`) or they hold a known API key.
    pub pass_env: Option<Vec<String>>,
}

/// What a cancel does to a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnCancelName {
    /// Interrupts it at once; ends it within 2.5 s.
    Interrupt,
    /// Waits up to `finish_timeout_s` for its end, then interrupts it.
    Finish,
}

/// How providers are reached.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// Proxy for all requests, as in `http://proxy.example.com:3128`. Default: `HTTPS_PROXY`, `http_proxy`, `ALL_PROXY`.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy, with commas between. Default: `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of certificate authorities that are trusted besides the system's. A relative path starts at the
    /// config file's folder.
    pub ca_file: Option<String>,
}

/// The server's own knobs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTable {
    /// Text that arrives faster than two notifications in this many milliseconds is merged until they are over; 0 sends
    /// each piece. Default: 16.
    #[schemars(range(max = 10_000), extend("default" = 16))]
    pub delta_frame_ms: Option<u64>,
}

/// The log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingTable {
    /// From which level on. Default: `info`.
    #[schemars(extend("default" = "info"))]
    pub level: Option<LevelName>,
    /// Levels by module, as in `info,agentls::provider=debug`; goes before `level`.
    pub filter: Option<String>,
    /// The file; a new one is begun every day, and old ones get the day's date and are kept for a week. Default:
    /// `agentls.log` in the state folder.
    pub file: Option<String>,
    /// Default: `text`.
    #[schemars(extend("default" = "text"))]
    pub format: Option<FormatName>,
}

/// A log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LevelName {
    /// No log at all.
    Off,
    /// Failures.
    Error,
    /// And what is doubtful.
    Warn,
    /// And what happens.
    Info,
    /// And details.
    Debug,
    /// And everything.
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
