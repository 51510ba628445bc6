//! The windows that local engines report, read before a turn and cached for a while.
//!
//! Owns only windows: an engine may answer to other names than it lists, so its list must not decide about names here.
//! Ollama's list does, see `lists`.

use std::sync::Arc;
use std::time::Duration;

use super::Models;
use crate::config::{ApiKind, ProviderSettings};
use crate::provider::{self, ModelList, ProviderSpec};

/// How long an engine may take to list its models. A turn waits for that.
const LIMIT: Duration = Duration::from_secs(1);

impl Models {
    /// Reads the windows of a local engine, unless they are cached or the user has set that of `model`.
    pub(super) async fn read_engine_windows(&self, settings: &ProviderSettings, model: Option<&str>) {
        let spec = self.provider_spec(settings);
        let is_engine = spec.kind == ApiKind::OpenAi && spec.is_local();
        let is_set = model.is_some_and(|model| has_configured_window(&spec, model));
        if !is_engine || is_set || self.lists.find_engine(settings).is_some() {
            return;
        }
        match provider::fetch_engine_list(&spec, LIMIT).await {
            // Without a list, the catalogue decides.
            Ok(list) => self
                .lists
                .store_engine(settings, Arc::new(list.unwrap_or_default())),
            Err(error) => tracing::info!(provider = spec.name, %error, "its windows were not read"),
        }
    }

    /// Returns the window that a local engine has reported for `model`, unless the user has set it.
    pub(super) fn find_engine_window(&self, spec: &ProviderSpec, model: &str) -> Option<u64> {
        let settings = self.settings.providers.get(&spec.name)?;
        // One that has not answered lately still has what it had.
        let list = self.lists.find_last_engine(settings)?;
        find_window(&list, model).filter(|_| !has_configured_window(spec, model))
    }
}

fn has_configured_window(spec: &ProviderSpec, model: &str) -> bool {
    let configured = spec.models.get(model);
    configured.is_some_and(|configured| configured.window.is_some())
}

/// Returns the window of `model`. An engine with a single model answers with it to any name.
fn find_window(list: &ModelList, model: &str) -> Option<u64> {
    let facts = list.facts.get(model).or_else(|| match &list.names[..] {
        [only] => list.facts.get(only),
        _ => None,
    });
    facts?.window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ModelOverride;

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
