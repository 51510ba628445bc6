//! How a model's name is read, wherever somebody writes one: `provider/model`, a provider, or a model of the provider
//! that is selected otherwise.
//!
//! Model names may contain slashes themselves, so a name is judged by the configured providers, and by what is known
//! about their models. Sends nothing.

use std::collections::BTreeMap;

use super::settings::{AgentSettings, ModelPrefix, ProviderSettings, Settings};
use super::tree::{Node, SpannedValue};

/// Returns whether a provider has a model of this name; `None` if that is not known.
pub type HasModel<'a> = &'a dyn Fn(&str, &str) -> Option<bool>;

/// Records what the models of the agents in a layer may select. The prefix of a name overrides a provider from a lower
/// layer only.
pub(super) fn update_prefixes(
    prefixes: &mut BTreeMap<String, ModelPrefix>,
    layer: &SpannedValue,
    is_restrained: bool,
) {
    let Some(Node::Table(agents)) = layer.find(&["agent"]).map(|agents| &agents.node) else {
        return;
    };
    for (name, agent) in agents {
        let has_provider = agent.find(&["provider"]).is_some();
        let prefix = prefixes.entry(name.clone()).or_default();
        if agent.find(&["model"]).is_some() {
            *prefix = match (is_restrained, has_provider) {
                (true, _) => ModelPrefix::Ignored,
                (false, true) => ModelPrefix::Agrees,
                (false, false) => ModelPrefix::Selects,
            };
        } else if has_provider && *prefix == ModelPrefix::Selects {
            *prefix = ModelPrefix::Agrees;
        }
    }
}

/// Returns the part of a model's name that may be a provider.
pub fn provider_prefix(named: &str) -> &str {
    named.split_once('/').map_or(named, |(provider, _)| provider)
}

/// Makes an agent's provider the one that its model's name begins with, or is, if there is such a provider and
/// `is_usable` accepts it. A broken provider is followed too, because no other may answer instead.
pub fn follow_prefix(
    agent: &mut AgentSettings,
    settings: &Settings,
    is_usable: impl Fn(&ProviderSettings) -> bool,
) {
    let Some(named) = &agent.model else { return };
    let prefix = provider_prefix(named).to_owned();
    let provider = settings.providers.get(&prefix);
    if !provider.is_some_and(is_usable) && !settings.broken_providers.contains_key(&prefix) {
        return;
    }
    if *named == prefix {
        agent.model = None;
    }
    agent.provider = Some(prefix);
}

/// Returns a provider's own name of a model that may be written with the provider.
pub fn strip_provider<'n>(provider: &str, named: &'n str, has_model: HasModel<'_>) -> &'n str {
    let rest = named
        .strip_prefix(provider)
        .and_then(|rest| rest.strip_prefix('/'));
    let Some(rest) = rest else { return named };
    // OpenRouter's own models are such: the name of `openrouter/auto` contains the prefix.
    let has_rest = has_model(provider, rest);
    let is_exact = match has_model(provider, named) {
        Some(is_known) => is_known && has_rest != Some(true),
        None => has_rest == Some(false),
    };
    if is_exact { named } else { rest }
}

/// Reads `named`, which is meant for `provider`. Returns the provider and its own name of the model. If the two were
/// stated together, a name about which nothing is known stays as it is.
///
/// # Errors
/// The name begins with another configured provider, and is not known as a model of `provider`.
pub(super) fn read_model_name<'n>(
    settings: &Settings,
    provider: &'n str,
    named: &'n str,
    is_stated_together: bool,
    has_model: HasModel<'_>,
) -> Result<(&'n str, &'n str), String> {
    let Some((prefix, rest)) = named.split_once('/') else {
        return Ok((provider, named));
    };
    if prefix == provider {
        // Its own name may begin like this: Groq has a `groq/compound`.
        let is_unknown = has_model(provider, named).is_none() && has_model(provider, rest).is_none();
        if is_stated_together && is_unknown {
            return Ok((provider, named));
        }
        return Ok((provider, strip_provider(provider, named, has_model)));
    }
    let is_known = has_model(provider, named);
    match settings.providers.get(prefix) {
        Some(other) if is_known != Some(true) && other.is_selectable() => Err(format!(
            "the model `{named}` names the provider `{prefix}`, but the provider is set to `{provider}`: leave one out, \
             or write `{provider}/{named}`"
        )),
        // Its key is missing, which the call reports. `provider` certainly does not have the model.
        Some(_) if is_known == Some(false) => Ok((prefix, rest)),
        _ => Ok((provider, named)),
    }
}
