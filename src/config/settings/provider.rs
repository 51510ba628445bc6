//! The settings of a provider: its API, account, retries, time limits and fallbacks.
//!
//! `resolve` completes what depends on the provider's name and on the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::backoff::{Backoff, JITTER};
use crate::config::api_kind::ApiKind;
use crate::config::names::find_preset;
use crate::config::untrusted::Untrusted;
use crate::config::values::{Milliseconds, Seconds, StringList, read_usd};
use crate::domain::Cost;

/// The fields of `extra_body` that agentls always writes itself, because requests or their limits fail otherwise.
#[rustfmt::skip]
const OWN_BODY_FIELDS: [&str; 15] = [
    "model", "stream", "messages", "input", "contents", "system", "instructions", "systemInstruction",
    "tools", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "generationConfig.maxOutputTokens", "options.num_ctx", "options.num_predict",
];

/// Removes the fields that agentls always writes itself. Returns their paths.
pub(in crate::config) fn take_own_body_fields(body: &mut Map<String, Value>) -> Vec<&'static str> {
    let mut take = |path: &&str| {
        match path.split_once('.') {
            Some((table, field)) => body.get_mut(table)?.as_object_mut()?.remove(field),
            None => body.remove(*path),
        }
        .map(|_| ())
    };
    OWN_BODY_FIELDS
        .into_iter()
        .filter(|path| take(path).is_some())
        .collect()
}

/// A provider: an LLM API with an account.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderSettings {
    /// The NAME of `[provider.NAME]`.
    #[serde(skip)]
    pub name: String,
    /// True if the configuration contains it; false for a mere preset.
    #[serde(skip)]
    pub configured: bool,
    /// The host is this machine or in its private network.
    #[serde(skip)]
    pub local: bool,
    /// The key is from `agentls login`.
    #[serde(skip)]
    pub is_login_key: bool,
    /// The API that the provider speaks. Default: by the provider's name.
    pub kind: ApiKind,
    /// The address of the API, such as `https://llm.example.com/v1`. Default: by the provider's name.
    pub base_url: String,
    /// The API key, preferably as `"${NAME_OF_A_VARIABLE}"`. Not accepted in `initializationOptions`.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// The model for agents that name none.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub model: Option<String>,
    /// The retry profile: `interactive` (3 retries, the first after 1 s, at most 30 s apart), `persistent` (10, 0.5 s,
    /// 32 s), or `patient` (10, 1 s, 60 s, and as long as the provider asks). Default: `interactive`.
    #[schemars(extend("x-untrusted" = Untrusted::FewerRetries))]
    pub retry: RetryProfile,
    /// How often to retry a failed call. Default: by `retry`.
    #[schemars(range(max = 100), extend("x-untrusted" = Untrusted::FewerRetries))]
    pub max_retries: Option<u32>,
    /// How many of these retries may follow a timeout. Default: 1.
    #[schemars(range(max = 100), extend("x-untrusted" = Untrusted::Lower))]
    pub max_timeout_retries: u32,
    /// The wait before the first retry, in ms. Default: by `retry`.
    #[schemars(range(max = 3_600_000), extend("x-untrusted" = Untrusted::Any))]
    pub initial_backoff_ms: Option<Milliseconds>,
    /// The factor by which the wait grows from one retry to the next. Default: 2.
    #[schemars(range(min = 1, max = 10), extend("x-untrusted" = Untrusted::Any))]
    pub backoff_factor: f64,
    /// The longest wait between retries, in ms, before `backoff_jitter`. Default: by `retry`.
    #[schemars(range(max = 3_600_000), extend("x-untrusted" = Untrusted::Any))]
    pub max_backoff_ms: Option<Milliseconds>,
    /// The largest random extension of a wait, as a fraction of it, so that many clients do not retry together. 0 adds
    /// nothing, 1 at most doubles the wait. Default: 0.25.
    #[schemars(range(min = 0, max = 1), extend("x-untrusted" = Untrusted::Any))]
    pub backoff_jitter: f64,
    /// The longest wait that a provider may ask for (`Retry-After`), in seconds. Default: 60.
    #[schemars(range(min = 0, max = 86_400), extend("x-untrusted" = Untrusted::Any))]
    pub max_retry_after_s: Seconds,
    /// The time limit for connecting, in seconds. Default: 10.
    #[schemars(range(min = 0.001, max = 86_400), extend("x-untrusted" = Untrusted::Any))]
    pub connect_timeout_s: Seconds,
    /// The time limit for the first event of an answer, in seconds. Keep-alives extend it to up to 300. Default: 60; 300
    /// for local addresses and with reasoning on.
    #[schemars(range(min = 0.001, max = 86_400), extend("x-untrusted" = Untrusted::Any))]
    pub first_event_timeout_s: Option<Seconds>,
    /// The time limit between two pieces of content, in seconds. Keep-alives extend it to up to 300. Default: 90; 300 if
    /// the API does not stream reasoning.
    #[schemars(range(min = 0.001, max = 86_400), extend("x-untrusted" = Untrusted::Any))]
    pub event_gap_timeout_s: Option<Seconds>,
    /// How long OpenAI's models answer: `low`, `medium`, `high`, or `off` to leave that to the model. A value that you
    /// set is sent for every model of the provider. Default: `low` for GPT-5 and newer at OpenAI's own address, except
    /// Codex and chat models.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub verbosity: Option<Verbosity>,
    /// How long Anthropic keeps the prompt cache: `5m` or `1h`. With `1h`, writing to it costs twice the input price
    /// instead of 1.25 times. Default: `5m`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub cache_ttl: CacheTtl,
    /// The window that Ollama gives a model at most, in tokens. A larger one takes more memory. Default: what the model's
    /// Modelfile sets, or else 65,536.
    #[schemars(range(min = 1_024, max = 100_000_000), extend("x-untrusted" = Untrusted::Any))]
    pub num_ctx: Option<u64>,
    /// The randomness of answers, from 0 to 2; many providers accept at most 1. Claude accepts it only without reasoning
    /// (`reasoning_effort = "none"`). Default: the provider's own.
    #[schemars(range(min = 0, max = 2), extend("x-untrusted" = Untrusted::Any))]
    pub temperature: Option<f64>,
    /// Fields that are added to the body of every request, such as `{ top_k = 20 }`. Tables are merged, and other values
    /// override those of agentls. Fields without which requests would fail cannot be set; the page about models lists
    /// them.
    // Never from an untrusted folder: a gateway may let fields redirect, store, or bill a request.
    #[schemars(with = "BTreeMap<String, Value>", extend("x-untrusted" = Untrusted::Never))]
    pub extra_body: Map<String, Value>,
    /// Extra HTTP headers for every request.
    #[schemars(with = "BTreeMap<String, String>", extend("x-untrusted" = Untrusted::Never))]
    pub headers: BTreeMap<String, SecretString>,
    /// The most that all sessions together may cost at this provider in one day (UTC), in US dollars. Default: no
    /// limit.
    #[serde(deserialize_with = "read_usd")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1_000_000), extend("x-untrusted" = Untrusted::Lower))]
    pub max_day_cost: Option<Cost>,
    /// The provider, or list of providers, that takes over when this one fails: its retries or its quota are used up,
    /// or its circuit is open. Each takes over with its own model and settings.
    #[schemars(extend("x-untrusted" = Untrusted::Repeat))]
    pub fallback: StringList,
    /// The model of this provider that answers after 3 overload errors (529) in a row, before `fallback`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub fallback_model: Option<String>,
    /// How long to pause calls to the provider after 5 failures in a row, in seconds; one trial call follows.
    /// Default: 30.
    #[schemars(range(min = 0.001, max = 86_400), extend("x-untrusted" = Untrusted::Any))]
    pub circuit_cooldown_s: Seconds,
    /// For kind `script`: the cassette to replay. A relative path starts at the config file's folder.
    #[schemars(extend("x-path" = true))]
    pub cassette: Option<PathBuf>,
    /// A file that records every call as a line of a cassette, without secrets; `kind = "script"` replays it. A
    /// relative path starts at the config file's folder. Default: no recording.
    // Never from an untrusted folder: it would write to any of the user's files.
    #[schemars(extend("x-path" = true))]
    pub record: Option<PathBuf>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            configured: false,
            local: false,
            is_login_key: false,
            kind: ApiKind::default(),
            base_url: String::new(),
            api_key: None,
            model: None,
            retry: RetryProfile::default(),
            max_retries: None,
            max_timeout_retries: 1,
            initial_backoff_ms: None,
            backoff_factor: 2.0,
            max_backoff_ms: None,
            backoff_jitter: JITTER,
            max_retry_after_s: Seconds::from(60.0),
            connect_timeout_s: Seconds::from(10.0),
            first_event_timeout_s: None,
            event_gap_timeout_s: None,
            verbosity: None,
            cache_ttl: CacheTtl::default(),
            num_ctx: None,
            temperature: None,
            extra_body: Map::new(),
            headers: BTreeMap::new(),
            max_day_cost: None,
            fallback: StringList::default(),
            fallback_model: None,
            circuit_cooldown_s: Seconds::from(30.0),
            cassette: None,
            record: None,
        }
    }
}

impl ProviderSettings {
    /// Returns whether the API usually requires a key.
    pub fn needs_key(&self) -> bool {
        self.kind != ApiKind::Script
            && find_preset(&self.name).is_some_and(|known| known.key_variable.is_some())
    }

    /// Returns whether the user has set the provider up: by a table of its own, or by its key.
    pub fn is_selectable(&self) -> bool {
        self.configured || self.api_key.is_some()
    }

    /// Returns whether the provider would use a key from the editor: it has no other key and may need one.
    pub fn takes_editor_key(&self) -> bool {
        self.api_key.is_none()
            && self.kind != ApiKind::Script
            && (self.needs_key() || !self.local && self.headers.is_empty())
    }

    /// Returns how to retry failed calls.
    pub fn retry_policy(&self) -> RetryPolicy {
        let profile = RetryPolicy::from_profile(self.retry);
        RetryPolicy {
            max_retries: self.max_retries.unwrap_or(profile.max_retries),
            max_timeout_retries: self.max_timeout_retries,
            backoff: Backoff {
                initial: self
                    .initial_backoff_ms
                    .map_or(profile.backoff.initial, |wait| wait.0),
                factor: self.backoff_factor,
                max: self.max_backoff_ms.map_or(profile.backoff.max, |wait| wait.0),
                jitter: self.backoff_jitter,
            },
            max_retry_after: self.max_retry_after_s.0,
            ..profile
        }
    }
}

/// How long an answer shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verbosity {
    /// As the model decides; nothing is sent.
    Off,
    /// Short.
    Low,
    /// Neither short nor long.
    Medium,
    /// Long.
    High,
}

impl Verbosity {
    /// Returns the value to send; `None` for [`Verbosity::Off`].
    pub fn wire_name(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::Low => Some("low"),
            Self::Medium => Some("medium"),
            Self::High => Some("high"),
        }
    }
}

/// How long a prompt cache lives after its last use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// A retry profile (R-PROV-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryProfile {
    /// For a user who waits.
    #[default]
    Interactive,
    /// For work that must get through.
    Persistent,
    /// Waits as long as the provider asks.
    Patient,
}

/// How often, and after which waits, a failed call is made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// How many of the retries may follow a time limit. Default 1 (R-PROV-2).
    pub max_timeout_retries: u32,
    /// The waits when the provider names none.
    pub backoff: Backoff,
    /// The longest wait for which the provider may ask unless `patient` is set. Default 60 s.
    pub max_retry_after: Duration,
    /// Whether to wait as long as the provider asks.
    pub patient: bool,
    /// Whether to wait for the trial of an open circuit when no other provider is left; otherwise the call fails.
    pub persists: bool,
}

impl RetryPolicy {
    /// Returns the policy of a profile.
    pub fn from_profile(profile: RetryProfile) -> Self {
        let (max_retries, initial_ms, max_ms) = match profile {
            RetryProfile::Interactive => (3, 1_000, 30_000),
            RetryProfile::Persistent => (10, 500, 32_000),
            RetryProfile::Patient => (10, 1_000, 60_000),
        };
        let usual = ProviderSettings::default();
        Self {
            max_retries,
            max_timeout_retries: usual.max_timeout_retries,
            backoff: Backoff {
                initial: Duration::from_millis(initial_ms),
                factor: usual.backoff_factor,
                max: Duration::from_millis(max_ms),
                jitter: usual.backoff_jitter,
            },
            max_retry_after: usual.max_retry_after_s.0,
            patient: profile == RetryProfile::Patient,
            persists: profile != RetryProfile::Interactive,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::from_profile(RetryProfile::default())
    }
}
