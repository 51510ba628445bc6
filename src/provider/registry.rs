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
use super::extra_fields::ConfiguredFields;
use super::gemini::Gemini;
use super::http::{Http, HttpSettings};
use super::http_api::HttpProvider;
use super::list_facts::{ModelList, find_entry};
use super::models::{
    FREE, ModelInfo, ModelNaming, ModelOverride, PriceSource, Retirement, SearchFee, claude_version,
    is_in_section, is_search_known, lookup_local, lookup_model, lookup_model_at, lookup_retirement,
    nearest_effort, parse_day, reads_documents, reasoning_controls, search_fee, section_of,
};
use super::ollama::{self, Ollama};
use super::openai::{Flavour, OpenAi, ReasoningSwitch};
use super::record::RecordingProvider;
use super::request::Effort;
use super::responses::Responses;
use super::retry::RetryPolicy;
use super::script::Script;
use crate::base::web_address::secrets_in;
use crate::config::ApiKind;
use crate::config::{CacheTtl, ProxyAddress, Redactor, Verbosity, long_words, preset_at};
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
    /// What is added to request bodies.
    pub fields: ConfiguredFields,
    /// The default model.
    pub model: Option<String>,
    pub retry: RetryPolicy,
    pub limits: CallLimits,
    /// A PEM file with additional root certificates.
    pub ca_file: Option<PathBuf>,
    /// `None`: no proxy.
    pub proxy: Option<ProxyAddress>,
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
            fields: ConfiguredFields::default(),
            model: None,
            retry: RetryPolicy::default(),
            limits: CallLimits::default(),
            ca_file: None,
            proxy: None,
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
        let mut info = self.models.get(model).map_or(known, |better| better.apply(known));
        info.search = self.search_fee(model);
        info
    }

    /// Returns what a web search by the provider costs; `None` if `model` cannot search or shall not.
    fn search_fee(&self, model: &str) -> Option<SearchFee> {
        let configured = self.models.get(model).and_then(|better| better.search);
        let can_search = configured.unwrap_or_else(|| {
            let address = self.resolve_base_url().ok();
            let host = address.as_ref().and_then(Url::host_str);
            host.is_some_and(|host| is_search_known(self.kind, host, model))
        });
        search_fee(self.kind, model).filter(|_| can_search)
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

    /// Returns the window that the user sets for a model of Ollama, in the configuration or in the Modelfile.
    pub fn num_ctx_for(&self, model: &str) -> Option<u64> {
        let set = (self.list.as_ref()).and_then(|list| find_entry(&list.windows_set, model));
        let limit = set.into_iter().chain(&self.num_ctx).min();
        limit.copied().filter(|_| self.kind == ApiKind::Ollama)
    }

    fn unconfigured_info(&self, model: &str) -> ModelInfo {
        let mut info = self.listed_info(model);
        // Other APIs have no common form of a document.
        info.documents = matches!(
            self.kind,
            ApiKind::Anthropic | ApiKind::Responses | ApiKind::Gemini
        ) && reads_documents(model);
        if self.kind == ApiKind::Ollama {
            // Our default counts only without the user's.
            let limit = self.num_ctx_for(model).unwrap_or(ollama::DEFAULT_WINDOW);
            info.window = info.window.min(limit);
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

    /// Returns whether the user has set the window of `model`.
    pub fn has_configured_window(&self, model: &str) -> bool {
        let configured = self.models.get(model);
        configured.is_some_and(|configured| configured.window.is_some())
    }

    /// Returns what the provider's own list says, and else the catalogue.
    fn listed_info(&self, model: &str) -> ModelInfo {
        let known = self.catalog_info(model);
        let Some(facts) = (self.list.as_ref()).and_then(|list| find_entry(&list.facts, model)) else {
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

    /// Returns the effort that `model` accepts and that is nearest to `wanted`; `None` if it is known to accept none.
    pub fn nearest_effort(&self, model: &str, wanted: Effort) -> Option<Effort> {
        let section = self.catalog_section();
        let has_switch = || {
            // Over Anthropic's API, all vendors have the same switch.
            let is_relayed = self.kind == ApiKind::Anthropic && claude_version(model).is_none();
            self.kind == ApiKind::OpenAi && ReasoningSwitch::find(section, model).is_some()
                || is_relayed && reasoning_controls(section, model).is_some_and(|known| known.has_switch)
        };
        if wanted == Effort::None && has_switch() {
            return Some(wanted);
        }
        // Ollama says what each model can, and refuses `think` for the others.
        let listed = (self.list.as_ref()).and_then(|list| find_entry(&list.facts, model)?.reasoning);
        let configured = self.models.get(model).and_then(|better| better.reasoning);
        if self.kind == ApiKind::Ollama && configured.or(listed) == Some(false) {
            return None;
        }
        nearest_effort(section, model, wanted)
    }

    /// Returns the section of the catalogue for this provider: by its address, so that the name does not matter, or
    /// else by its name, so that a proxy in front of a vendor does not matter.
    pub fn catalog_section(&self) -> &str {
        let address = self.resolve_base_url().ok();
        let known = address.as_ref().and_then(Url::host_str).and_then(preset_at);
        section_of(known.unwrap_or(&self.name))
    }

    /// Reports whether the provider is on the user's own machine or network.
    pub fn is_local(&self) -> bool {
        self.resolve_base_url().is_ok_and(|url| is_local(&url))
    }

    /// Returns whether the provider has a model of exactly this name; `None` if that is not known.
    pub fn has_model(&self, model: &str) -> Option<bool> {
        if let Some(list) = &self.list {
            return Some(list.names.iter().any(|name| name == model));
        }
        match (self.model_naming(), is_in_section(self.catalog_section(), model)) {
            (_, Some(true)) => Some(true),
            (ModelNaming::Vendor(_), _) => Some(false),
            (_, known) => known,
        }
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
    let proxy = spec.proxy.iter().map(|proxy| proxy.url.expose_secret());
    let secrets = addresses.chain(proxy).flat_map(secrets_in);
    secrets.map(SecretString::from)
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
        connect: spec.limits.connect_or_default(),
    };
    let http = Http::new(account.clone(), settings);
    let limits = spec.limits;
    let flavour = Flavour::from_account(&account);
    let server = HttpProvider {
        account,
        http,
        headers,
        limits,
        fields: spec.fields.clone(),
        api: (),
    };
    let verbosity = spec.verbosity;
    Ok(match spec.kind {
        ApiKind::Anthropic => server.with_api(Anthropic {
            cache_ttl: spec.cache_ttl,
        }),
        ApiKind::Responses => server.with_api(Responses { verbosity }),
        ApiKind::Gemini => server.with_api(Gemini),
        ApiKind::Ollama => server.with_api(Ollama),
        ApiKind::OpenAi | ApiKind::Script => server.with_api(OpenAi {
            flavour,
            section: spec.catalog_section().to_owned(),
            verbosity,
        }),
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
#[path = "registry_tests.rs"]
mod tests;
