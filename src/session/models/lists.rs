//! The providers' own lists of models, read on demand and cached for a while.
//!
//! The cache outlives changes of the configuration, by address and key. No command of a session waits for a list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use secrecy::SecretString;

use super::Models;
use super::keys::is_same_key;
use crate::base::clock::{self, Instant};
use crate::config::{ApiKind, ProviderSettings};
use crate::provider::{self, ModelList, models};

/// The time within which all providers together must list their models.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a cached list is valid.
pub(super) const FRESH: Duration = Duration::from_secs(600);

/// The cached lists, and the default models that were derived from them.
#[derive(Debug, Default)]
pub struct ModelLists {
    entries: Mutex<ListCache>,
    /// What local engines say about their windows; see `engines`.
    engines: Mutex<ListCache>,
    /// The default model of each provider at an address, once it was needed. A list that is read later must not change
    /// the model of a conversation.
    defaults: Mutex<HashMap<String, String>>,
}

/// Lists by the name of their provider.
type ListCache = HashMap<String, CachedModelList>;

#[derive(Debug)]
struct CachedModelList {
    address: String,
    key: Option<SecretString>,
    read_at: Instant,
    valid_for: Duration,
    list: Arc<ModelList>,
}

impl ModelLists {
    /// Returns the cached list of a provider, if it is fresh and was read with this address and key.
    fn get(&self, provider: &ProviderSettings) -> Option<Arc<ModelList>> {
        find_fresh(&self.entries, provider, FRESH)
    }

    fn store_list(&self, provider: &ProviderSettings, list: Arc<ModelList>) {
        store(&self.entries, provider, list, FRESH);
    }

    /// Returns what a local engine has said about its windows, under the same conditions, and not longer ago than `within`.
    pub(super) fn find_engine(
        &self,
        provider: &ProviderSettings,
        within: Duration,
    ) -> Option<Arc<ModelList>> {
        find_fresh(&self.engines, provider, within)
    }

    /// Returns the same, however long ago it was said.
    pub(super) fn find_last_engine(&self, provider: &ProviderSettings) -> Option<Arc<ModelList>> {
        let lists = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        lists
            .get(&provider.name)
            .filter(|entry| entry.is_of(provider))
            .map(|entry| entry.list.clone())
    }

    pub(super) fn store_engine(
        &self,
        provider: &ProviderSettings,
        list: Arc<ModelList>,
        valid_for: Duration,
    ) {
        store(&self.engines, provider, list, valid_for);
    }
}

impl CachedModelList {
    /// Returns whether it is the list of this address, read with this key.
    fn is_of(&self, provider: &ProviderSettings) -> bool {
        self.address == provider.base_url && is_same_key(self.key.as_ref(), provider.api_key.as_ref())
    }
}

fn find_fresh(
    cache: &Mutex<ListCache>,
    provider: &ProviderSettings,
    age: Duration,
) -> Option<Arc<ModelList>> {
    let lists = cache.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = lists.get(&provider.name)?;
    let is_fresh = clock::now().saturating_duration_since(entry.read_at) < entry.valid_for.min(age);
    (is_fresh && entry.is_of(provider)).then(|| entry.list.clone())
}

fn store(cache: &Mutex<ListCache>, provider: &ProviderSettings, list: Arc<ModelList>, valid_for: Duration) {
    let entry = CachedModelList {
        address: provider.base_url.clone(),
        key: provider.api_key.clone(),
        read_at: clock::now(),
        valid_for,
        list,
    };
    let mut lists = cache.lock().unwrap_or_else(PoisonError::into_inner);
    lists.insert(provider.name.clone(), entry);
}

impl Models {
    /// Returns the provider's own list, if it is cached.
    pub(super) fn find_list(&self, provider: &ProviderSettings) -> Option<Arc<ModelList>> {
        self.lists.get(&self.keyed_or_own(provider))
    }

    /// Returns the default model of a provider. The provider's list decides if it is cached, without the models that the
    /// provider has refused nevertheless.
    pub(super) fn default_model(&self, provider: &str) -> Option<String> {
        let settings = self.settings.providers.get(provider)?;
        let list = self.find_list(settings);
        let today = models::current_day();
        let is_refused = |name: &String| self.learnt.find(&self.model_key(provider, name)).is_missing;
        let names = list.map(|list| {
            let mut names = list.current_chat_models(today);
            names.retain(|name| !is_refused(name));
            names
        });
        let names = names.as_deref();
        let mut defaults = self.lists.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        // A remembered default that the provider no longer lists is replaced.
        let is_there = |remembered: &&String| {
            names.is_none_or(|names| {
                names
                    .iter()
                    .any(|name| name == *remembered || models::strip_date(name) == *remembered)
            })
        };
        let key = format!("{provider} {}", settings.base_url);
        if let Some(remembered) = defaults.get(&key).filter(is_there) {
            return Some(remembered.clone());
        }
        // Without a family that is known here, as at a gateway, no model of a list is better than another.
        let default = models::list_offered_models(provider, names, today)
            .into_iter()
            .next()?;
        defaults.insert(key, default.clone());
        Some(default)
    }

    /// Returns the default model of a provider that has just refused `missing`; `None` without a list of the provider's
    /// own.
    pub(super) async fn replace_default(&self, provider: &str, missing: &str) -> Option<String> {
        let list = self.read_list(self.settings.providers.get(provider)?).await?;
        self.learnt.record_missing(self.model_key(provider, missing));
        self.default_model(provider).filter(|name| list.contains(name))
    }

    /// Reads the lists of all providers that can be called, unless they are cached.
    pub(super) async fn read_lists(&self) {
        let now = self.current_settings();
        let can_be_asked = |provider: &&ProviderSettings| {
            let has_key = provider.api_key.is_some();
            provider.kind != ApiKind::Script && (has_key || provider.configured && !provider.needs_key())
        };
        let providers = now.providers.values().filter(can_be_asked);
        join_all(providers.map(|provider| self.read_list(provider))).await;
    }

    /// Returns the provider's own list, cached or read now. `None` if it has none or does not answer.
    pub(super) async fn read_list(&self, provider: &ProviderSettings) -> Option<Arc<ModelList>> {
        let provider = self.keyed_or_own(provider);
        if let Some(list) = self.lists.get(&provider) {
            return Some(list);
        }
        match provider::fetch_list(&self.provider_spec(&provider), LIMIT).await {
            Ok(list) => {
                let list = Arc::new(list?);
                self.lists.store_list(&provider, list.clone());
                Some(list)
            }
            // Not a failure: without a list, names are checked without it.
            Err(error) => {
                tracing::info!(provider = provider.name, %error, "its list of models was not read");
                None
            }
        }
    }

    /// Adds the editor's key if the configuration has none.
    fn keyed_or_own(&self, provider: &ProviderSettings) -> ProviderSettings {
        match provider.api_key {
            Some(_) => provider.clone(),
            None => self.with_editor_key(provider),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::config::Redactor;
    use crate::config::{ConfigSource, Env, Trust};
    use crate::provider::Accounts;
    use crate::session::editor_credentials::EditorKeys;
    use crate::session::models::{LearntFacts, ModelVerdict};
    use crate::tool::NoEditor;
    use crate::turn::{ModelChoice, ModelSource};

    /// Serves Ollama's API with these models, each with its capabilities. Returns the address.
    fn serve_ollama(models: &'static [(&str, &str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while stream.read_line(&mut head).unwrap() > 2 {
                    let line = head.lines().last().unwrap().to_ascii_lowercase();
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.parse().unwrap();
                    }
                }
                let mut asked = vec![0; length];
                stream.read_exact(&mut asked).unwrap();
                let asked = String::from_utf8(asked).unwrap();
                let body = if head.starts_with("GET /api/tags ") {
                    let names = models.iter().map(|(name, _)| serde_json::json!({"name": name}));
                    serde_json::json!({"models": names.collect::<Vec<_>>()})
                } else {
                    let (_, can) = models.iter().find(|(name, _)| asked.contains(name)).unwrap();
                    serde_json::json!({"capabilities": can.split(' ').collect::<Vec<_>>()})
                };
                let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}");
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        format!("http://{address}")
    }

    /// Returns the providers of an empty configuration, with the local Ollama at `address`.
    fn without_settings(address: String) -> Arc<Models> {
        let loaded = ConfigSource::default().load_settings(None, &Trust::default());
        let mut settings = (*loaded.settings).clone();
        settings.providers.get_mut("ollama").unwrap().base_url = address;
        let keys = EditorKeys::new(Arc::new(NoEditor), Redactor::default());
        let (accounts, learnt) = (Arc::new(Accounts::default()), Arc::new(LearntFacts::default()));
        let lists = Arc::default();
        Arc::new(Models::new(
            settings.into(),
            Env::default(),
            accounts,
            learnt,
            keys.into(),
            lists,
        ))
    }

    #[tokio::test]
    async fn a_local_ollama_is_used_with_its_newest_model_that_can_call_tools() {
        let address = serve_ollama(&[
            ("bge-m3:latest", "embedding"),
            ("plain:7b", "completion"),
            ("qwen3:8b", "completion tools"),
            ("old:8b", "completion tools"),
        ]);
        let models = without_settings(address);
        let label = |model: Result<crate::turn::ResolvedModel, _>| model.map(|model| model.label()).unwrap();
        let before = models.list_models(&ModelChoice::default(), false).await;
        assert!(before.models.is_empty() && before.providers.is_empty());
        let listed = models.list_models(&ModelChoice::default(), true).await;
        let names: Vec<_> = listed
            .models
            .iter()
            .map(|one| (one.model.as_str(), one.current))
            .collect();
        assert_eq!(names[0], ("qwen3:8b", true));
        assert_eq!(names.len(), 4, "{names:?}");
        assert_eq!(listed.providers[0].name, "ollama");
        assert_eq!(
            label(models.resolve_model(&ModelChoice::default()).await),
            "ollama/qwen3:8b"
        );
        // Only what it has can be chosen.
        assert_eq!(models.judge_model(None, "old:8b"), ModelVerdict::Accept);
        let ModelVerdict::Refuse(reason) = models.judge_model(None, "qwen9") else {
            panic!()
        };
        assert!(reason.contains("unknown model ollama/qwen9"), "{reason}");
    }

    #[tokio::test]
    async fn only_a_model_that_a_session_stores_with_its_provider_can_be_gone() {
        const CAN: &str = "completion tools";
        let models = without_settings(serve_ollama(&[("qwen3:8b", CAN), ("Org/model", CAN)]));
        for (has_provider, label) in [(false, "ollama/Org/model"), (true, "ollama/qwen3:8b")] {
            let choice = ModelChoice {
                model: Some("Org/model".to_owned()),
                has_provider,
                ..ModelChoice::default()
            };
            let resolved = models.resolve_model(&choice).await.unwrap();
            assert_eq!(resolved.label(), label);
            let reason = resolved.choice_reason.unwrap_or_default();
            assert_eq!(
                reason.contains("Org/model, is not used"),
                has_provider,
                "{reason}"
            );
        }
    }

    #[tokio::test]
    async fn an_ollama_without_a_model_that_can_call_tools_says_so() {
        let models = without_settings(serve_ollama(&[("bge-m3:latest", "embedding")]));
        let error = models
            .resolve_model(&ModelChoice::default())
            .await
            .map(drop)
            .unwrap_err();
        assert!(
            error.message.contains("no model that can call tools"),
            "{}",
            error.message
        );
    }
}
