//! The windows that local engines report, read before a turn and cached for a while.
//!
//! Owns only windows: an engine may answer to other names than it lists, so its list must not decide about names here.
//! Ollama's list does, see `lists`.

use std::sync::Arc;
use std::time::Duration;

use super::Models;
use super::lists::FRESH;
use crate::config::{ApiKind, ProviderSettings};
use crate::provider::{self, ModelList, ModelOverride, ProviderSpec};

/// How long an engine may take to list its models. A turn waits for that.
const LIMIT: Duration = Duration::from_secs(1);

/// How long nobody asks again after a failure, or for the window of a model that was not loaded. An engine that hangs would
/// delay each turn.
const RETRY: Duration = Duration::from_secs(30);

impl Models {
    /// Reads the windows of a local engine, unless they are cached or the user has set that of `model`.
    pub(super) async fn read_engine_windows(&self, settings: &ProviderSettings, model: Option<&str>) {
        let spec = self.provider_spec(settings);
        let is_engine = spec.kind == ApiKind::OpenAi && spec.is_local();
        let is_set = model.is_some_and(|model| spec.has_configured_window(model));
        if !is_engine || is_set || self.lists.find_engine(settings, RETRY).is_some() {
            return;
        }
        let cached = self.lists.find_engine(settings, FRESH);
        if cached.is_some_and(|list| !is_unloaded(&list, model)) {
            return;
        }
        // Without a list, the catalogue decides.
        let read = provider::fetch_engine_list(&spec, LIMIT).await;
        let (list, is_whole) = read.unwrap_or_else(|error| {
            tracing::info!(provider = spec.name, %error, "its windows were not read");
            // One that does not answer now still has what it had.
            let last = self.lists.find_last_engine(settings).unwrap_or_default();
            (ModelList::clone(&last), false)
        });
        let valid_for = if is_whole { FRESH } else { RETRY };
        self.lists.store_engine(settings, Arc::new(list), valid_for);
    }

    /// Returns what a local engine has reported about the window of `model`, unless the user has set it.
    pub(super) fn find_engine_facts(&self, spec: &ProviderSpec, model: &str) -> Option<ModelOverride> {
        let settings = self.settings.providers.get(&spec.name)?;
        // One that has not answered lately still has what it had.
        let list = self.lists.find_last_engine(settings)?;
        let facts = find_facts(&list, model).copied();
        facts.filter(|_| !spec.has_configured_window(model))
    }

    /// Returns the window that the provider itself reports for `model`, if it was asked lately.
    pub(super) fn reported_window(&self, spec: &ProviderSpec, model: &str) -> Option<u64> {
        let engine = self.find_engine_facts(spec, model).and_then(|facts| facts.window);
        engine.or_else(|| spec.list.as_ref()?.find_window(model))
    }
}

/// Returns whether `model` was not loaded. The next request loads it.
fn is_unloaded(list: &ModelList, model: Option<&str>) -> bool {
    let facts = model.and_then(|model| find_facts(list, model));
    facts.is_some_and(|facts| facts.window.is_none() && facts.max_window.is_some())
}

/// Returns what is known about `model`. An engine with a single model answers with it to any name.
fn find_facts<'a>(list: &'a ModelList, model: &str) -> Option<&'a ModelOverride> {
    list.facts.get(model).or_else(|| match &list.names[..] {
        [only] => list.facts.get(only),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_window(list: &ModelList, model: &str) -> Option<u64> {
        find_facts(list, model)?.window
    }

    #[test]
    fn the_only_model_of_an_engine_has_every_name() {
        let list = |names: &[(&str, Option<u64>)]| ModelList {
            names: names.iter().map(|(name, _)| (*name).to_owned()).collect(),
            facts: names
                .iter()
                .map(|(name, window)| {
                    let facts = ModelOverride {
                        window: *window,
                        ..ModelOverride::default()
                    };
                    ((*name).to_owned(), facts)
                })
                .collect(),
            ..ModelList::default()
        };
        let one = list(&[("qwen3.gguf", Some(16_384))]);
        assert_eq!(find_window(&one, "qwen3.gguf"), Some(16_384));
        assert_eq!(find_window(&one, "default"), Some(16_384));
        let two = list(&[("a", Some(16_384)), ("b", None)]);
        assert_eq!(find_window(&two, "a"), Some(16_384));
        assert_eq!(find_window(&two, "b"), None);
        assert_eq!(find_window(&two, "c"), None);
        assert_eq!(find_window(&list(&[]), "a"), None);
    }
}
