//! Selects the provider that answers (R-PROV, "with no configuration").
//!
//! Knows no models: the caller passes each provider's default model. Sends nothing; whether a local Ollama runs is for
//! the caller to find out.

use super::Env;
use super::api_kind::ApiKind;
use super::model_name::{HasModel, follow_prefix, provider_prefix, read_model_name};
use super::names::{BY_KEY, PROVIDER_PRESETS};
use super::settings::{AgentSettings, ModelPrefix, ProviderSettings, Settings};
use crate::base::nearest::nearest_name;

/// The selected provider and model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultChoice {
    /// The configuration selects them.
    Configured {
        /// A name in [`Settings::providers`].
        provider: String,
        /// `None`: ask the provider which models it has.
        model: Option<String>,
    },
    /// A login, or a key from the environment or from the editor, selects them.
    ByKey {
        /// A name in [`Settings::providers`].
        provider: String,
        model: String,
        /// The choice and its reason, for people.
        reason: String,
    },
    /// Nothing is configured and there is no key: the caller may look for a local Ollama (provider `ollama`).
    ProbeOllama {
        /// The model that the agent names.
        model: Option<String>,
    },
    /// The configured provider is unusable. No other may take its place.
    NotConfigured {
        /// The reason, for people.
        reason: String,
    },
}

/// Returns the default model of the provider with this name.
pub type DefaultModel<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Selects for the agent `default`.
pub fn select_default(
    settings: &Settings,
    env: &Env,
    default_model: DefaultModel<'_>,
    has_model: HasModel<'_>,
) -> DefaultChoice {
    select_for(settings, settings.default_agent(), env, default_model, has_model)
}

/// Selects for an agent. The first of these wins: the provider that its model's name begins with; the provider it
/// names; a configured provider (the first [`BY_KEY`] presets, then by name, never a script); the newest login; a key in
/// the environment; a key from the editor; perhaps Ollama.
pub fn select_for(
    settings: &Settings,
    agent: &AgentSettings,
    env: &Env,
    default_model: DefaultModel<'_>,
    has_model: HasModel<'_>,
) -> DefaultChoice {
    let mut agent = agent.clone();
    if agent.model_prefix == ModelPrefix::Selects {
        follow_prefix(&mut agent, settings, |provider| {
            provider.is_selectable() || !provider.needs_key()
        });
    }
    let choice = select_provider(settings, &agent, env, default_model);
    if agent.model_prefix == ModelPrefix::Ignored {
        return choice;
    }
    complete_choice(choice, settings, &agent, has_model)
}

/// Replaces the model's name as it was written by the name that its provider knows.
fn complete_choice(
    choice: DefaultChoice,
    settings: &Settings,
    agent: &AgentSettings,
    has_model: HasModel<'_>,
) -> DefaultChoice {
    let (provider, named) = match &choice {
        DefaultChoice::Configured {
            provider,
            model: Some(model),
        }
        | DefaultChoice::ByKey { provider, model, .. } => (provider.as_str(), model.as_str()),
        // Nothing is configured, so the name says which key is missing.
        DefaultChoice::ProbeOllama { model: Some(model) }
            if settings.providers.contains_key(provider_prefix(model)) =>
        {
            (provider_prefix(model), model.as_str())
        }
        _ => return choice,
    };
    // Names in a provider's own table are that provider's.
    let is_agents = agent.model.is_some();
    if !is_agents && provider_prefix(named) != provider {
        return choice;
    }
    let is_stated_together = is_agents && agent.model_prefix == ModelPrefix::Agrees;
    match read_model_name(settings, provider, named, is_stated_together, has_model) {
        Ok(read) if read == (provider, named) => choice,
        Ok((provider, model)) => DefaultChoice::Configured {
            provider: provider.to_owned(),
            model: Some(model.to_owned()),
        },
        Err(reason) => DefaultChoice::NotConfigured { reason },
    }
}

fn select_provider(
    settings: &Settings,
    agent: &AgentSettings,
    env: &Env,
    default_model: DefaultModel<'_>,
) -> DefaultChoice {
    if let Some(name) = &agent.provider {
        return match settings.providers.get(name) {
            Some(provider) => build_configured_choice(provider, agent, default_model),
            None => DefaultChoice::NotConfigured {
                reason: explain_unusable_provider(settings, name),
            },
        };
    }
    let usable = |provider: &&ProviderSettings| {
        provider.configured
            && provider.kind != ApiKind::Script
            && (provider.api_key.is_some() || !provider.needs_key())
    };
    let first = PROVIDER_PRESETS[..BY_KEY]
        .iter()
        .filter_map(|known| settings.providers.get(known.name));
    if let Some(provider) = first.chain(settings.providers.values()).find(usable) {
        return build_configured_choice(provider, agent, default_model);
    }
    // Fail closed: the user configured this provider, so another account must not answer instead.
    if let Some(name) = settings.broken_providers.keys().next() {
        return DefaultChoice::NotConfigured {
            reason: explain_unusable_provider(settings, name),
        };
    }
    // A login is a choice; a variable may be set for other programs.
    let logins = settings.logins.providers();
    let mut logins = logins.filter_map(|name| settings.providers.get(name));
    if let Some(provider) = logins.find(|provider| provider.api_key.is_some()) {
        return build_login_choice(provider, agent, default_model);
    }
    let by_key = |from_editor: bool| {
        PROVIDER_PRESETS[..BY_KEY].iter().find_map(|known| {
            let variable = known.key_variable?;
            let provider = settings.providers.get(known.name)?;
            let because = match (env.non_empty(variable).is_some(), from_editor) {
                (true, false) => format!("{variable} is set"),
                (false, true) if provider.api_key.is_some() => "the editor has its key".to_owned(),
                _ => return None,
            };
            // This provider was configured with a key whose variable is not set. Do not use another key for it.
            if provider.configured {
                return None;
            }
            let model = agent.model.clone().or_else(|| default_model(known.name))?;
            let reason = format!("using {} with {model}, because {because}", known.name);
            Some(DefaultChoice::ByKey {
                provider: known.name.to_owned(),
                model,
                reason,
            })
        })
    };
    if let Some(choice) = by_key(false).or_else(|| by_key(true)) {
        return choice;
    }
    DefaultChoice::ProbeOllama {
        model: agent.model.clone(),
    }
}

fn build_login_choice(
    provider: &ProviderSettings,
    agent: &AgentSettings,
    default_model: DefaultModel<'_>,
) -> DefaultChoice {
    match agent.model.clone().or_else(|| default_model(&provider.name)) {
        Some(model) => DefaultChoice::ByKey {
            reason: format!(
                "using {} with {model}, because you are logged in to it",
                provider.name
            ),
            provider: provider.name.clone(),
            model,
        },
        None => build_configured_choice(provider, agent, default_model),
    }
}

fn build_configured_choice(
    provider: &ProviderSettings,
    agent: &AgentSettings,
    default_model: DefaultModel<'_>,
) -> DefaultChoice {
    let named = agent.model.clone().or_else(|| provider.model.clone());
    DefaultChoice::Configured {
        provider: provider.name.clone(),
        model: named.or_else(|| default_model(&provider.name)),
    }
}

fn explain_unusable_provider(settings: &Settings, name: &str) -> String {
    match settings.broken_providers.get(name) {
        Some(reason) => format!("the provider `{name}` cannot be used: {reason}"),
        None => {
            let names = settings.providers.keys().map(String::as_str);
            let perhaps = nearest_name(name, names);
            let perhaps = perhaps.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!("the provider `{name}` is not configured{perhaps}")
        }
    }
}

/// Returns the providers that a key alone selects, the preferred one first.
pub fn selected_by_key() -> impl Iterator<Item = &'static str> {
    PROVIDER_PRESETS[..BY_KEY].iter().map(|known| known.name)
}
