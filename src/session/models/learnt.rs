//! What errors have told about models: windows that providers have named, and models that they lack.
//!
//! All sessions of a server share it. It owns what is stored of it: windows, so that a later server does not meet the same
//! refusal again. What else limits a window is decided in `models`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::base::clock;
use crate::store::{ModelKey, NamedWindow, RowWrite, Store, StoreWrite};

/// How long a stored window counts, in ms: 30 days. A provider may serve a larger one by then.
const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// What errors have told about models, by provider, address and model.
#[derive(Debug, Default)]
pub struct LearntFacts {
    facts: Mutex<HashMap<ModelKey, LearntFact>>,
    /// Where windows are kept; `None` keeps them in memory only.
    store: Option<Store>,
    /// Set once the stored windows were read.
    is_read: OnceCell<()>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LearntFact {
    /// The window that an overflow has named (R-CTX-3).
    pub(super) window: Option<NamedWindow>,
    /// The window was learned before the configuration was read, or by an earlier server.
    pub(super) is_old: bool,
    /// The provider does not have the model.
    pub(super) is_missing: bool,
}

impl LearntFacts {
    /// Keeps windows in this store.
    pub fn with_store(store: Store) -> Self {
        Self {
            store: Some(store),
            ..Self::default()
        }
    }

    /// Reads the stored windows, once.
    pub(super) async fn read_stored(&self) {
        let Some(store) = &self.store else {
            return;
        };
        let read = async {
            let before_ms = clock::wall_ms().saturating_sub(KEPT_MS);
            let stored = store.reader.list_windows().await.unwrap_or_else(|error| {
                // Providers name them again.
                tracing::warn!(%error, "the stored windows of models were not read");
                Vec::new()
            });
            let (valid, expired): (Vec<_>, Vec<_>) =
                stored.into_iter().partition(|(_, _, at_ms)| *at_ms >= before_ms);
            if !expired.is_empty() {
                self.write(RowWrite::ForgetWindows { before_ms });
            }
            for (model, window, _) in valid {
                let mut facts = self.lock();
                let fact = facts.entry(model).or_default();
                if fact.window.is_none() {
                    (fact.window, fact.is_old) = (Some(window), true);
                }
            }
        };
        self.is_read.get_or_init(|| read).await;
    }

    /// Records a window that an overflow has named. The smallest new one counts.
    pub(super) fn record_window(&self, model: ModelKey, window: NamedWindow) {
        let known = self.find(&model);
        let known = known.window.filter(|_| !known.is_old);
        let tokens = known.map_or(window.tokens, |known| known.tokens.min(window.tokens));
        self.set_window(model, Some(NamedWindow { tokens, ..window }));
    }

    /// Records that a request of this many tokens was answered. A smaller window is forgotten.
    pub(super) fn record_success(&self, model: ModelKey, tokens: u64) {
        if self
            .find(&model)
            .window
            .is_some_and(|known| known.tokens < tokens)
        {
            self.set_window(model, None);
        }
    }

    /// Records the window that the provider reports now. A smaller one is forgotten, unless the provider reported the same
    /// when it named that: then its report is wrong.
    pub(super) fn record_report(&self, model: &ModelKey, reported: u64) {
        let is_outdated = |known: NamedWindow| known.tokens < reported && known.reported != Some(reported);
        if self.find(model).window.is_some_and(is_outdated) {
            self.set_window(model.clone(), None);
        }
    }

    pub(super) fn record_missing(&self, model: ModelKey) {
        self.lock().entry(model).or_default().is_missing = true;
    }

    pub(super) fn find(&self, model: &ModelKey) -> LearntFact {
        self.lock().get(model).copied().unwrap_or_default()
    }

    /// Forgets which models are missing. New settings may say more about the windows than what was learned before.
    pub fn note_reload(&self) {
        for fact in self.lock().values_mut() {
            (fact.is_missing, fact.is_old) = (false, true);
        }
    }

    fn set_window(&self, model: ModelKey, window: Option<NamedWindow>) {
        let mut facts = self.lock();
        let fact = facts.entry(model.clone()).or_default();
        (fact.window, fact.is_old) = (window, false);
        drop(facts);
        let at_ms = clock::wall_ms();
        self.write(RowWrite::NoteWindow { model, window, at_ms });
    }

    fn write(&self, write: RowWrite) {
        if let Some(store) = &self.store
            && store.writes.try_send(StoreWrite::Row(write)).is_err()
        {
            tracing::warn!("what was learned of the windows of models was not stored");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ModelKey, LearntFact>> {
        // The map is consistent after every statement, so a panic elsewhere does not spoil it.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
