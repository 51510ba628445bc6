//! Converts settings to the [`ProviderSpec`] from which `registry` builds a provider.
//!
//! The only file of this module that knows the configuration's schema. It decides no defaults: `config` does.

use url::Url;

use super::call::CallLimits;
use super::extra_fields::{ConfiguredFields, ExtraFields};
use super::models::ModelOverride;
use super::registry::ProviderSpec;
use crate::config::{ModelSettings, ProviderSettings, Redactor, Settings};

/// Returns the specification of `provider`, which must be one of the providers in `settings`.
///
/// `redactor` must know every secret in `settings`: a key of one provider must not reach another (I15).
pub fn build_spec(settings: &Settings, provider: &ProviderSettings, redactor: Redactor) -> ProviderSpec {
    let network = &settings.network;
    let address = Url::parse(&provider.base_url).ok();
    let proxy = address.and_then(|address| network.find_proxy(&address));
    ProviderSpec {
        base_url: (!provider.base_url.is_empty()).then(|| provider.base_url.clone()),
        api_key: provider.api_key.clone(),
        headers: provider.headers.clone(),
        verbosity: provider.verbosity,
        cache_ttl: provider.cache_ttl,
        num_ctx: provider.num_ctx,
        fields: configured_fields(settings, provider),
        model: provider.model.clone(),
        retry: provider.retry_policy(),
        limits: CallLimits {
            connect: Some(provider.connect_timeout_s.0),
            first_event: provider.first_event_timeout_s.map(|limit| limit.0),
            gap: provider.event_gap_timeout_s.map(|limit| limit.0),
        },
        ca_file: network.ca_file.clone(),
        proxy: proxy.cloned(),
        models: settings
            .models
            .iter()
            .map(|(name, model_settings)| (name.clone(), to_model_override(model_settings)))
            .collect(),
        cassette: provider.cassette.clone(),
        record: provider.record.clone(),
        redactor,
        ..ProviderSpec::new(&provider.name, provider.kind)
    }
}

fn configured_fields(settings: &Settings, provider: &ProviderSettings) -> ConfiguredFields {
    let models = settings.models.iter().map(|(name, model)| {
        let fields = ExtraFields {
            temperature: model.temperature,
            body: model.extra_body.clone(),
        };
        (name.clone(), fields)
    });
    ConfiguredFields {
        provider: ExtraFields {
            temperature: provider.temperature,
            body: provider.extra_body.clone(),
        },
        models: models.collect(),
    }
}

fn to_model_override(model_settings: &ModelSettings) -> ModelOverride {
    ModelOverride {
        window: model_settings.context_window,
        max_output: model_settings
            .max_output_tokens
            .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
        price: model_settings.price(),
        images: model_settings.images,
        tools: model_settings.tools,
        search: model_settings.web_search,
        ..ModelOverride::default()
    }
}
