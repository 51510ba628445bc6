//! Builds providers from their specifications, and limits concurrent calls.
//!
//! One provider is one account: every user shares its connections and, through [`AccountHealth`], its pacer and
//! circuit. Building connects to nothing. The configuration's schema stays outside: see `configured`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::Provider;
use super::account::{ProviderAccount, is_local, naming_at};
use super::account_health::AccountHealth;
use super::anthropic::{self, Anthropic};
use super::azure;
use super::call::CallLimits;
use super::error::{Failure, ProviderError, ProviderFault};
use super::gemini::Gemini;
use super::http::{Http, HttpSettings};
use super::list_facts::ModelList;
use super::models::{
    FREE, ModelInfo, ModelNaming, ModelOverride, PriceSource, Retirement, lookup_local, lookup_model,
    lookup_model_at, lookup_retirement, nearest_effort, parse_day, reads_documents, section_of,
};
use super::ollama::{self, Ollama};
use super::openai::{Flavour, OpenAi};
use super::record::RecordingProvider;
use super::request::Effort;
use super::responses::Responses;
use super::retry::RetryPolicy;
use super::script::Script;
use crate::config::ApiKind;
use crate::config::{CacheTtl, Redactor, Verbosity, long_words, preset_at};
use crate::domain::circuit::CircuitPolicy;

/// Concurrent calls over all providers of a server.
pub const MAX_CONCURRENT_CALLS: usize = 256;

/// Everything that the configuration says about a provider. `Debug` shows no key, header value or proxy.
#[derive(Clone, Debug)]
pub struct ProviderSpec {
    /// The NAME of `[provider.NAME]`.
    pub name: String,
    pub kind: ApiKind,
    /// `None` for the vendor's own address.
    pub base_url: Option<String>,
    /// Local servers usually need no key.
    pub api_key: Option<SecretString>,
    /// Extra headers of every call; they override ours.
    pub headers: BTreeMap<String, SecretString>,
    /// How long OpenAI's models answer; `None` for our default.
    pub verbosity: Option<Verbosity>,
    /// How long Anthropic keeps the prompt cache.
    pub cache_ttl: CacheTtl,
    /// The window that Ollama gives a model at most, in tokens; `None` for our default.
    pub num_ctx: Option<u64>,
    /// The default model.
    pub model: Option<String>,
    pub retry: RetryPolicy,
    pub limits: CallLimits,
    /// A PEM file with additional root certificates.
    pub ca_file: Option<PathBuf>,
    /// The address of the proxy, which may contain a password. `None`: no proxy.
    pub proxy: Option<SecretString>,
    /// Hosts that bypass the proxy, separated by commas as in `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// The user's corrections to the facts about models, by full model name.
    pub models: BTreeMap<String, ModelOverride>,
    /// The provider's own list, if it was read. It knows better than the catalogue, and the user knows better still.
    pub list: Option<Arc<ModelList>>,
    /// The file that [`ApiKind::Script`] replays.
    pub cassette: Option<PathBuf>,
    /// Shared by every user of the account.
    pub account_health: Arc<AccountHealth>,
    /// The file to which calls are recorded, if any.
    pub record: Option<PathBuf>,
    /// Knows the keys of all providers, so that none reaches another (I15).
    pub redactor: Redactor,
}

impl ProviderSpec {
    /// Creates a specification with defaults for everything but name and kind.
    pub fn new(name: impl Into<String>, kind: ApiKind) -> Self {
        let name = name.into();
        Self {
            account_health: AccountHealth::new(&name, CircuitPolicy::default()),
            name,
            kind,
            base_url: None,
            api_key: None,
            headers: BTreeMap::new(),
            verbosity: None,
            cache_ttl: CacheTtl::default(),
            num_ctx: None,
            model: None,
            retry: RetryPolicy::default(),
            limits: CallLimits::default(),
            ca_file: None,
            proxy: None,
            no_proxy: None,
            models: BTreeMap::new(),
            list: None,
            cassette: None,
            record: None,
            redactor: Redactor::default(),
        }
    }

    /// Returns what is known about `model` at this provider. A model that runs on a local engine is free. A vendor's
    /// model keeps its price even behind a local proxy, so that spending limits hold there.
    pub fn model_info(&self, model: &str) -> ModelInfo {
        let known = self.unconfigured_info(model);
        self.models.get(model).map_or(known, |better| better.apply(known))
    }

    /// Returns where the price in [`ProviderSpec::model_info`] comes from.
    pub fn price_source(&self, model: &str) -> PriceSource {
        if self
            .models
            .get(model)
            .is_some_and(|better| better.price.is_some())
        {
            return PriceSource::Configured;
        }
        match self.unconfigured_info(model).price {
            None => PriceSource::Unknown,
            Some(FREE) => PriceSource::Free,
            Some(_) => PriceSource::List,
        }
    }

    fn unconfigured_info(&self, model: &str) -> ModelInfo {
        let mut info = self.listed_info(model);
        // Other APIs have no common form of a document.
        info.documents = matches!(
            self.kind,
            ApiKind::Anthropic | ApiKind::Responses | ApiKind::Gemini
        ) && reads_documents(model);
        if self.kind == ApiKind::Ollama {
            info.window = info.window.min(self.num_ctx.unwrap_or(ollama::DEFAULT_WINDOW));
            // The prompt needs room too.
            info.max_output = info
                .max_output
                .min(u32::try_from(info.window / 2).unwrap_or(u32::MAX));
        }
        if (self.kind, self.cache_ttl) == (ApiKind::Anthropic, CacheTtl::OneHour)
            && let Some(price) = info.price.as_mut().filter(|price| **price != FREE)
        {
            price.cache_write = 2.0 * price.input;
            for tier in price.tiers.iter_mut().flatten() {
                tier.cache_write = 2.0 * tier.input;
            }
        }
        info
    }

    /// Returns what the provider's own list says, and else the catalogue.
    fn listed_info(&self, model: &str) -> ModelInfo {
        let known = self.catalog_info(model);
        let Some(facts) = self.list.as_ref().and_then(|list| list.facts.get(model)) else {
            return known;
        };
        let mut info = facts.apply(known);
        if let (Some(listed), Some(known)) = (&mut info.price, known.price)
            && (listed.input, listed.output) == (known.input, known.output)
        {
            // Lists lack the prices of long prompts.
            listed.tiers = known.tiers;
        }
        info
    }

    /// Returns the day on which the called vendor retires `model`: as its own list says, or else as the catalogue does.
    /// Gateways and local servers may keep the model.
    pub fn retirement(&self, model: &str) -> Option<Retirement<'_>> {
        if !matches!(self.model_naming(), ModelNaming::Vendor(_)) {
            return None;
        }
        let listed = self.list.as_ref().and_then(|list| list.retirements.get(model));
        let listed = listed.and_then(|date| {
            Some(Retirement {
                date,
                day: parse_day(date)?,
            })
        });
        listed.or_else(|| lookup_retirement(model))
    }

    fn catalog_info(&self, model: &str) -> ModelInfo {
        if self.kind == ApiKind::Script {
            return ModelInfo {
                price: Some(FREE),
                ..lookup_model(model)
            };
        }
        if self.is_local() {
            lookup_local(model)
        } else {
            lookup_model_at(Some(self.catalog_section()), model)
        }
    }

    /// Returns the effort that `model` accepts and that is nearest to `wanted`.
    pub fn nearest_effort(&self, model: &str, wanted: Effort) -> Effort {
        nearest_effort(self.catalog_section(), model, wanted)
    }

    /// Returns the section of the catalogue for this provider: by its address, so that the name does not matter, or
    /// else by its name, so that a proxy in front of a vendor does not matter.
    fn catalog_section(&self) -> &str {
        let address = self.resolve_base_url().ok();
        let known = address.as_ref().and_then(Url::host_str).and_then(preset_at);
        section_of(known.unwrap_or(&self.name))
    }

    fn is_local(&self) -> bool {
        self.resolve_base_url().is_ok_and(|url| is_local(&url))
    }

    /// Returns who names the models of this provider.
    pub fn model_naming(&self) -> ModelNaming {
        // An invalid address fails in `build`, with a message; until then any name is acceptable.
        self.resolve_base_url()
            .map_or(ModelNaming::Free, |address| naming_at(self.kind, &address))
    }

    /// Returns the configured address, or the default one of the kind.
    pub(super) fn resolve_base_url(&self) -> Result<Url, Failure> {
        let default = self.kind.default_base_url();
        let text = self.base_url.as_deref().or(default).unwrap_or("script:");
        let wrong = |problem: String| {
            Failure::new(
                ProviderFault::Local,
                format!("base_url of provider {} {problem}", self.name),
            )
            .with_user_action(format!(
                "set [provider.{}] base_url to an http or https address",
                self.name
            ))
        };
        let url = Url::parse(text).map_err(|error| wrong(format!("is not an address: {error}")))?;
        match (self.kind, url.scheme()) {
            (ApiKind::Script, _) => Ok(url),
            (_, "http" | "https") => Ok(azure::complete_address(url)),
            _ => Err(wrong("is neither http nor https".to_owned())),
        }
    }

    /// Returns the configured extra headers, marked as sensitive.
    pub(super) fn extra_headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = || {
                Failure::new(
                    ProviderFault::Local,
                    // The value stays out of the message: headers often carry a key.
                    format!("header {name} of provider {} is not valid", self.name),
                )
                .with_user_action(format!("check [provider.{}] headers", self.name))
            };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            headers.insert(
                name,
                to_sensitive_header(value.expose_secret()).ok_or_else(wrong)?,
            );
        }
        Ok(headers)
    }

    /// Returns the headers of every call: ours, the one that carries the key, and the configured ones, which override
    /// the others.
    pub(super) fn build_headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if self.kind == ApiKind::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some((name, value)) = self.build_key_header()? {
            headers.insert(name, value);
        }
        headers.extend(self.extra_headers()?);
        Ok(headers)
    }

    /// Returns the header that carries the key; `None` without a key.
    fn build_key_header(&self) -> Result<Option<(HeaderName, HeaderValue)>, Failure> {
        let Some(key) = &self.api_key else { return Ok(None) };
        // A key from a file or a command may end with a newline, which is invalid in a header.
        let key = key.expose_secret().trim();
        let is_azure = self.resolve_base_url().is_ok_and(|base| azure::is_azure(&base));
        let (name, value) = match self.kind {
            ApiKind::Anthropic => (HeaderName::from_static("x-api-key"), to_sensitive_header(key)),
            ApiKind::Gemini => (
                HeaderName::from_static("x-goog-api-key"),
                to_sensitive_header(key),
            ),
            _ if is_azure && !azure::is_access_token(key) => {
                (HeaderName::from_static("api-key"), to_sensitive_header(key))
            }
            _ => (AUTHORIZATION, to_sensitive_header(&format!("Bearer {key}"))),
        };
        value.map(|value| Some((name, value))).ok_or_else(|| {
            Failure::new(
                ProviderFault::Local,
                format!("the key of provider {} contains invalid characters", self.name),
            )
            .with_user_action(format!("check [provider.{}] api_key", self.name))
        })
    }
}

fn to_sensitive_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Debug output of a sensitive header shows no value (I15).
    value.set_sensitive(true);
    Some(value)
}

/// Returns the secrets in an address: its password, and query values that look like a key.
fn secrets_in(address: &str) -> Vec<SecretString> {
    let Ok(url) = Url::parse(address) else {
        return Vec::new();
    };
    let password = url.password().map(str::to_owned);
    let query = url.query_pairs();
    let keys = query
        .filter(|(name, _)| is_secret(name))
        .map(|(_, value)| value.into_owned());
    password.into_iter().chain(keys).map(SecretString::from).collect()
}

/// Reports whether a query parameter with this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "sig", "password", "auth"]
        .iter()
        .any(|word| name.contains(word))
}

/// Builds the provider without connecting to it.
///
/// # Errors
///
/// Fails if the settings are unusable: an invalid address, header or key, or a missing or unreadable cassette.
pub fn build(spec: &ProviderSpec) -> Result<Arc<dyn Provider>, ProviderError> {
    let provider = build_unwrapped_provider(spec)?;
    let redactor = spec.redactor.clone();
    // Recordings and logs must not contain these values either, so the redactor learns them before any call.
    spec.api_key
        .iter()
        .for_each(|key| redactor.learn_provider_key(key));
    let header_values = spec.headers.values();
    header_values.for_each(|secret| redactor.learn_secret(secret));
    in_addresses(spec).for_each(|secret| redactor.learn_secret(&secret));
    let Some(path) = spec.record.clone() else {
        return Ok(provider);
    };
    Ok(Arc::new(RecordingProvider::new(
        provider, spec.kind, path, redactor,
    )))
}

/// Returns the secrets in the provider's address and in its proxy's address.
fn in_addresses(spec: &ProviderSpec) -> impl Iterator<Item = SecretString> {
    let addresses = spec.base_url.iter().map(String::as_str);
    let proxy = spec.proxy.iter().map(ExposeSecret::expose_secret);
    addresses.chain(proxy).flat_map(secrets_in)
}

/// Builds the provider without the recording around it.
fn build_unwrapped_provider(spec: &ProviderSpec) -> Result<Arc<dyn Provider>, ProviderError> {
    let model = spec.model.clone().unwrap_or_default();
    let nobody = |failure: Failure| unusable_provider_error(spec, &model, failure);
    if spec.kind == ApiKind::Script {
        let Some(path) = &spec.cassette else {
            let failure = Failure::new(
                ProviderFault::Local,
                format!("provider {} has no cassette", spec.name),
            );
            return Err(nobody(failure.with_user_action(format!(
                "set [provider.{}] cassette to a file",
                spec.name
            ))));
        };
        return Ok(Arc::new(Script::read(&spec.name, path).map_err(nobody)?));
    }
    let configured_secrets = || spec.api_key.iter().chain(spec.headers.values());
    // A provider that echoes `Bearer …` often repeats the key alone, so each long word counts as a secret too.
    let words = configured_secrets().flat_map(long_words).map(SecretString::from);
    let account = Arc::new(ProviderAccount {
        name: spec.name.clone(),
        kind: spec.kind,
        base: spec.resolve_base_url().map_err(nobody)?,
        secrets: configured_secrets()
            .cloned()
            .chain(words)
            .chain(in_addresses(spec))
            .collect(),
        redactor: spec.redactor.clone(),
        health: spec.account_health.clone(),
    });
    let with_account = |failure: Failure| account.build_provider_error(&model, failure);
    let headers = spec.build_headers().map_err(with_account)?;
    let settings = HttpSettings {
        ca_file: spec.ca_file.clone(),
        proxy: spec.proxy.clone(),
        no_proxy: spec.no_proxy.clone(),
        connect: spec.limits.connect_or_default(),
    };
    let http = Http::new(account.clone(), settings);
    let limits = spec.limits;
    Ok(match spec.kind {
        ApiKind::Anthropic => Arc::new(Anthropic {
            account,
            http,
            headers,
            limits,
            cache_ttl: spec.cache_ttl,
        }),
        ApiKind::Responses => Arc::new(Responses {
            account,
            http,
            headers,
            limits,
            verbosity: spec.verbosity,
        }),
        ApiKind::Gemini => Arc::new(Gemini {
            account,
            http,
            headers,
            limits,
        }),
        ApiKind::Ollama => Arc::new(Ollama {
            account,
            http,
            headers,
            limits,
        }),
        ApiKind::OpenAi | ApiKind::Script => {
            let flavour = Flavour::from_account(&account);
            Arc::new(OpenAi {
                account,
                http,
                headers,
                limits,
                flavour,
                section: spec.catalog_section().to_owned(),
                verbosity: spec.verbosity,
            })
        }
    })
}

/// Builds an error for a provider without an [`ProviderAccount`]. `failure` must not contain a secret: nothing is redacted.
pub(super) fn unusable_provider_error(spec: &ProviderSpec, model: &str, failure: Failure) -> ProviderError {
    ProviderError {
        fault: failure.fault,
        provider: spec.name.clone(),
        model: model.to_owned(),
        message: failure.message,
        status: None,
        request_id: None,
        retry_after: None,
        user_action: failure.user_action,
        should_retry: None,
    }
}

/// The slots for concurrent calls. A call holds a slot only while it runs and needs no second one meanwhile.
/// So every slot comes back, and no caller can wait for itself.
#[derive(Clone, Debug)]
pub struct CallSlots {
    slots: Arc<Semaphore>,
}

/// One slot; dropping it returns the slot.
#[derive(Debug)]
pub struct CallSlot {
    _permit: OwnedSemaphorePermit,
}

impl CallSlots {
    /// Creates `limit` slots. A server has [`MAX_CONCURRENT_CALLS`].
    pub fn new(limit: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(limit)),
        }
    }

    /// Takes a slot if one is free.
    pub fn try_acquire(&self) -> Option<CallSlot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        Some(CallSlot { _permit: permit })
    }

    /// Waits for a slot; callers get one in the order in which they asked.
    pub async fn acquire(&self) -> CallSlot {
        let permit = self.slots.clone().acquire_owned().await;
        #[expect(clippy::expect_used, reason = "the semaphore is never closed")]
        let permit = permit.expect("an open semaphore");
        CallSlot { _permit: permit }
    }

    /// Returns the number of free slots.
    pub fn available_permits(&self) -> usize {
        self.slots.available_permits()
    }
}

impl Default for CallSlots {
    fn default() -> Self {
        Self::new(MAX_CONCURRENT_CALLS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(spec: &ProviderSpec) -> ProviderError {
        build(spec).err().expect("settings that cannot be used")
    }

    #[test]
    fn unusable_settings_fail_without_leaking_secrets() {
        let good = ProviderSpec::new("work", ApiKind::OpenAi);
        assert_eq!(build(&good).unwrap().name(), "work");
        let bad_url = ProviderSpec {
            base_url: Some("ftp://x".into()),
            ..good.clone()
        };
        assert_eq!(
            refused(&bad_url).message,
            "base_url of provider work is neither http nor https"
        );
        let bad_key = ProviderSpec {
            api_key: Some("canary\nkey".to_owned().into()),
            ..good.clone()
        };
        let error = refused(&bad_key);
        assert!(error.fault == ProviderFault::Local && !format!("{error:?}").contains("canary"));
        let headers = BTreeMap::from([("bad name".to_owned(), "canary".to_owned().into())]);
        let error = refused(&ProviderSpec { headers, ..good });
        assert_eq!(error.message, "header bad name of provider work is not valid");
        let error = refused(&ProviderSpec::new("demo", ApiKind::Script));
        assert_eq!(error.message, "provider demo has no cassette");
    }

    #[test]
    fn debug_output_of_a_spec_contains_no_secret() {
        let mut spec = ProviderSpec::new("work", ApiKind::OpenAi);
        spec.api_key = Some("canary".to_owned().into());
        spec.headers.insert("x".into(), "canary".to_owned().into());
        spec.proxy = Some("http://me:canary@proxy".to_owned().into());
        assert!(!format!("{spec:?}").contains("canary"));
    }

    #[test]
    fn model_info_depends_on_the_address_and_the_settings() {
        let mut spec = ProviderSpec::new("work", ApiKind::OpenAi);
        assert_eq!(spec.model_info("made-up").price, None);
        spec.models.insert(
            "made-up".into(),
            ModelOverride {
                window: Some(9),
                ..Default::default()
            },
        );
        assert_eq!(spec.model_info("made-up").window, 9);
        spec.base_url = Some("http://localhost:11434/v1".into());
        assert_eq!(
            spec.model_info("made-up").price.map(|price| price.output),
            Some(0.0)
        );
    }

    #[test]
    fn documents_need_a_model_and_an_api_that_accept_them() {
        let reads = |kind, model| ProviderSpec::new("work", kind).model_info(model).documents;
        for model in ["claude-sonnet-5-5", "claude-haiku-4-5-20251001"] {
            assert!(reads(ApiKind::Anthropic, model), "{model}");
        }
        assert!(reads(ApiKind::Gemini, "gemini-3.5-flash"));
        assert!(reads(ApiKind::Responses, "gpt-6.1-sol"));
        assert!(!reads(ApiKind::OpenAi, "gpt-6.1-sol"));
        assert!(!reads(ApiKind::Anthropic, "glm-5.2"));
        assert!(!reads(ApiKind::Responses, "o3-mini"));
    }

    #[test]
    fn the_own_list_overrides_the_catalogue_and_the_user_overrides_both() {
        let listed = |input, output| ModelOverride {
            window: Some(300_000),
            price: Some(crate::domain::Price {
                input,
                output,
                ..Default::default()
            }),
            ..ModelOverride::default()
        };
        let facts = [
            ("gpt-6.1-sol", listed(2.0, 10.0)),
            ("gpt-6-luna", listed(9.0, 9.0)),
        ];
        let list = ModelList {
            facts: facts.map(|(name, facts)| (name.to_owned(), facts)).into(),
            ..ModelList::default()
        };
        let mut spec = ProviderSpec {
            list: Some(Arc::new(list)),
            ..ProviderSpec::new("openai", ApiKind::Responses)
        };
        let sol = spec.model_info("gpt-6.1-sol");
        assert_eq!((sol.window, sol.max_output), (300_000, 128_000));
        // The list has no prices for long prompts, but the same base price.
        assert_eq!(
            sol.price.unwrap().tiers,
            lookup_model("gpt-6.1-sol").price.unwrap().tiers
        );
        assert_eq!(spec.model_info("gpt-6-luna").price.unwrap().tiers, [None; 2]);
        let user = ModelOverride {
            window: Some(9),
            ..ModelOverride::default()
        };
        spec.models.insert("gpt-6.1-sol".to_owned(), user);
        assert_eq!(spec.model_info("gpt-6.1-sol").window, 9);
    }

    #[test]
    fn a_host_has_its_own_prices_under_any_name() {
        let price = |name: &str, url: Option<&str>| {
            let spec = ProviderSpec {
                base_url: url.map(str::to_owned),
                ..ProviderSpec::new(name, ApiKind::OpenAi)
            };
            spec.model_info("openai/gpt-oss-120b")
                .price
                .map(|price| price.output)
        };
        let groq = Some("https://api.groq.com/openai/v1");
        assert_eq!(price("fast", groq), Some(0.6));
        assert_eq!(price("groq", Some("https://proxy.example.com/v1")), Some(0.6));
        assert_eq!(price("work", Some("https://llm.example.com/v1")), None);
    }

    #[test]
    fn a_vendor_model_keeps_its_price_at_every_address() {
        let claude = lookup_model("claude-sonnet-5").price;
        for (kind, address, free) in [
            (ApiKind::Anthropic, "https://api.anthropic.com", false),
            (ApiKind::Anthropic, "https://llm.example.com", false),
            (ApiKind::Anthropic, "http://127.0.0.1:4000", true),
            (ApiKind::OpenAi, "http://localhost:4000/v1", true),
            (ApiKind::OpenAi, "http://10.1.2.3:4000/v1", true),
            (ApiKind::Responses, "http://192.168.1.5/v1", true),
            (ApiKind::OpenAi, "http://litellm:4000/v1", true),
            (ApiKind::OpenAi, "http://host.docker.internal:4000/v1", true),
            (ApiKind::OpenAi, "http://host.containers.internal:4000/v1", true),
            (ApiKind::OpenAi, "http://[::1]:4000/v1", true),
            (ApiKind::OpenAi, "http://[::ffff:127.0.0.1]:4000/v1", true),
            (ApiKind::OpenAi, "http://[::ffff:10.0.0.1]:4000/v1", true),
            (ApiKind::OpenAi, "http://[fd00::1]:4000/v1", true),
        ] {
            let spec = ProviderSpec {
                base_url: Some(address.to_owned()),
                ..ProviderSpec::new("work", kind)
            };
            let found = |model| (spec.model_info(model).price, spec.price_source(model));
            assert_eq!(found("claude-sonnet-5"), (claude, PriceSource::List), "{address}");
            assert_eq!(
                found("claude-sonnet-99"),
                (None, PriceSource::Unknown),
                "{address}"
            );
            for model in ["made-up", "qwen3:latest", "gpt-oss:20b"] {
                let local = if free {
                    (Some(FREE), PriceSource::Free)
                } else {
                    (None, PriceSource::Unknown)
                };
                assert_eq!(found(model), local, "{model} at {address}");
            }
        }
    }

    #[test]
    fn model_naming_follows_from_kind_and_address() {
        for (name, kind, address, naming) in [
            (
                "anthropic",
                ApiKind::Anthropic,
                None,
                ModelNaming::Vendor(&["claude-"]),
            ),
            (
                "anthropic",
                ApiKind::Anthropic,
                Some("https://llm.example.com"),
                ModelNaming::Gateway,
            ),
            (
                "ollama",
                ApiKind::Anthropic,
                Some("http://127.0.0.1:11434"),
                ModelNaming::Free,
            ),
            (
                "openrouter",
                ApiKind::OpenAi,
                Some("https://openrouter.ai/api/v1"),
                ModelNaming::Free,
            ),
            (
                "work",
                ApiKind::OpenAi,
                Some("https://llm.example.com/v1"),
                ModelNaming::Free,
            ),
            ("demo", ApiKind::Script, None, ModelNaming::Free),
        ] {
            let base_url = address.map(str::to_owned);
            let spec = ProviderSpec {
                base_url,
                ..ProviderSpec::new(name, kind)
            };
            assert_eq!(spec.model_naming(), naming, "{name} {address:?}");
        }
    }

    #[test]
    fn default_limits_depend_on_host_and_reasoning() {
        let seconds = |local, thinks, silent| {
            let limits = CallLimits::default().for_call(local, thinks, silent);
            [limits.connect, limits.first_event, limits.gap].map(|limit| limit.as_secs())
        };
        assert_eq!(seconds(false, false, false), [10, 60, 90]);
        assert_eq!(seconds(true, false, false), [10, 300, 90]);
        assert_eq!(seconds(false, true, false), [10, 300, 90]);
        assert_eq!(seconds(false, true, true), [10, 300, 300]);
        let set = CallLimits {
            gap: Some(Duration::from_secs(1)),
            ..Default::default()
        };
        assert_eq!(set.for_call(true, true, true).gap.as_secs(), 1);
    }

    #[tokio::test]
    async fn call_slots_are_bounded_and_returned_on_drop() {
        let slots = CallSlots::new(1);
        let permit = slots.try_acquire().unwrap();
        assert!(slots.try_acquire().is_none());
        let mut waiting = Box::pin(slots.acquire());
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(permit);
        drop(waiting.await);
        assert_eq!(slots.available_permits(), 1);
    }
}
