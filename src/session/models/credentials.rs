//! Provider keys from the editor (R-SEC): which key is requested when, and whether an address and a key work.
//!
//! The keys themselves are held by [`EditorKeys`](super::EditorKeys). They are added to copies of the settings only,
//! never to the settings that are kept.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use secrecy::SecretString;

use super::keys::FailedCredentials;
use super::{ChosenModel, ListedProvider, Models};
use crate::config::{
    AgentSettings, DefaultChoice, ProviderSettings, Settings, provider_prefix, selected_by_key,
};
use crate::provider::{self, Health, ProbeResult, ProviderFault};

/// How long a provider may take to say whether its key is valid.
const CHECK: Duration = Duration::from_secs(10);

impl Models {
    /// Returns the settings, with the keys that the editor has provided so far.
    pub(super) fn current_settings(&self) -> Arc<Settings> {
        let editor_keys: Vec<(&String, SecretString)> = self
            .settings
            .providers
            .iter()
            .filter(|(_, provider)| provider.takes_editor_key())
            .filter_map(|(name, _)| Some((name, self.keys.known_key(name)?)))
            .collect();
        if editor_keys.is_empty() {
            return self.settings.clone();
        }
        let mut settings = Settings::clone(&self.settings);
        for (name, key) in editor_keys {
            if let Some(provider) = settings.providers.get_mut(name) {
                provider.api_key = Some(key);
            }
        }
        Arc::new(settings)
    }

    /// Returns the provider's settings, with the key that the editor has provided.
    pub(super) fn with_editor_key(&self, settings: &ProviderSettings) -> ProviderSettings {
        let mut own = settings.clone();
        if settings.takes_editor_key() {
            own.api_key = self.keys.known_key(&settings.name);
        }
        own
    }

    /// Requests the keys that a choice may need from the editor, each only once.
    ///
    /// They are those of the named provider, or else of the configured ones. If none of those will do, they are those
    /// of the providers that a key alone selects.
    pub(super) async fn gather_credentials(
        &self,
        agent: Option<&str>,
        model: Option<&str>,
    ) -> FailedCredentials {
        self.forget_refused();
        if !self.keys.can_ask() {
            return FailedCredentials::new();
        }
        let agent = self.agent_settings(agent);
        let named = model.or(agent.model.as_deref()).map(provider_prefix);
        let named = named.filter(|name| self.settings.providers.contains_key(*name));
        if let Some(name) = named.or(agent.provider.as_deref()) {
            return self.request_keys([name]).await;
        }
        let configured = self.settings.providers.values();
        let configured = configured.filter(|provider| provider.configured);
        let mut unanswered = self
            .request_keys(configured.map(|provider| provider.name.as_str()))
            .await;
        // R-PROV: a key alone selects a provider before a local Ollama is probed.
        if let DefaultChoice::ProbeOllama { .. } = self.default_choice(agent) {
            unanswered.extend(self.request_keys(selected_by_key()).await);
        }
        unanswered
    }

    /// Requests the keys of the fallbacks, once for each: an editor that does not answer must not delay every turn.
    pub(super) async fn gather_route(&self, agent: &AgentSettings, chosen: &ChosenModel) {
        let ChosenModel::Known { provider, .. } = chosen else {
            return;
        };
        let Some(first) = self.settings.providers.get(provider) else {
            return;
        };
        let route = self.resolve_route(agent, first);
        let takers = route.iter().filter_map(|name| self.settings.providers.get(name));
        let takers = takers.filter(|provider| provider.takes_editor_key());
        join_all(takers.map(|provider| self.keys.ask_once(&provider.name))).await;
    }

    /// Requests the keys in parallel.
    async fn request_keys<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> FailedCredentials {
        let takers = names.into_iter().filter(|name| {
            self.settings
                .providers
                .get(*name)
                .is_some_and(ProviderSettings::takes_editor_key)
        });
        let requests = takers.map(|name| async move { (name, self.keys.request_key(name).await) });
        // In parallel, because the editor may take 10 s for each (R-WIRE).
        let answers = join_all(requests).await;
        let failed = answers
            .into_iter()
            .filter_map(|(name, answer)| Some((name.to_owned(), answer.err()?)));
        failed.collect()
    }

    /// Forgets keys that a provider rejected, so that the editor is asked again.
    fn forget_refused(&self) {
        self.lock().retain(|name, built| {
            let refused = built.provider.key_refused();
            if let Some(key) = built.key.as_ref().filter(|_| refused) {
                self.keys.forget_refused_key(name, key);
            }
            !refused
        });
    }

    /// Tries the address and key of a provider with one request that costs nothing. Returns `None` if there is no such
    /// provider.
    pub async fn check_provider(&self, name: &str) -> Option<ListedProvider> {
        if let Some(reason) = self.settings.broken_providers.get(name) {
            return Some(ListedProvider::from_broken_settings(name, reason));
        }
        let settings = self.settings.providers.get(name)?;
        let unanswered = self.request_keys([name]).await;
        let own = self.with_editor_key(settings);
        let mut listed = self.to_listed_provider(&own);
        if listed.health.is_none() {
            if let Some(error) = unanswered.get(name) {
                listed.message = Some(format!("missing API key: {error}"));
            }
            return Some(listed);
        }
        let reached = provider::probe_provider(&self.provider_spec(&own), CHECK).await;
        let key = own.api_key.as_ref().filter(|_| settings.api_key.is_none());
        (listed.health, listed.message) = match reached {
            Ok(ProbeResult::Models(_) | ProbeResult::Key) => (Some(Health::Ok), None),
            Ok(ProbeResult::Address) => {
                let untried = "it answers but has no model list, so the key was not checked";
                (Some(Health::Unknown), Some(untried.to_owned()))
            }
            Err(error) => {
                // Other failures say nothing about the key.
                if let Some(key) = key.filter(|_| error.fault == ProviderFault::Unauthorized) {
                    self.keys.forget_refused_key(name, key);
                }
                (Some(Health::Failing), Some(error.message))
            }
        };
        Some(listed)
    }
}
