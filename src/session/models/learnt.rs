//! What errors have told about models: windows that providers have named, and models that they lack.
//!
//! All sessions of a server share it. It owns what is stored of it: windows, so that a later server does not meet the same
//! refusal again. What else limits a window is decided in `models`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::base::clock;
use crate::store::{ModelKey, RowWrite, Store, StoreWrite};

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
    pub(super) window: Option<LearntWindow>,
    /// The provider does not have the model.
    pub(super) is_missing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LearntWindow {
    pub(super) tokens: u64,
    /// It was learned before the configuration was read, or by an earlier server.
    pub(super) is_old: bool,
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
            let since = clock::wall_ms().saturating_sub(KEPT_MS);
            match store.reader.list_windows(since).await {
                Ok(windows) => {
                    for (model, tokens) in windows {
                        let old = LearntWindow { tokens, is_old: true };
                        self.lock().entry(model).or_default().window.get_or_insert(old);
                    }
                }
                // Providers name them again.
                Err(error) => tracing::warn!(%error, "the stored windows of models were not read"),
            }
        };
        self.is_read.get_or_init(|| read).await;
    }

    /// Records a window that an overflow has named. The smallest new one counts.
    pub(super) fn record_window(&self, model: ModelKey, tokens: u64) {
        let known = self.find(&model).window.filter(|known| !known.is_old);
        let tokens = known.map_or(tokens, |known| known.tokens.min(tokens));
        let window = LearntWindow {
            tokens,
            is_old: false,
        };
        self.lock().entry(model.clone()).or_default().window = Some(window);
        let at_ms = clock::wall_ms();
        self.write(RowWrite::NoteWindow { model, tokens, at_ms });
    }

    /// Records that a request of this many tokens was answered. A smaller window is forgotten.
    pub(super) fn record_success(&self, model: ModelKey, tokens: u64) {
        if self
            .find(&model)
            .window
            .is_some_and(|known| known.tokens < tokens)
        {
            self.lock().entry(model.clone()).or_default().window = None;
            self.write(RowWrite::ForgetWindow { model });
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
            fact.is_missing = false;
            if let Some(window) = &mut fact.window {
                window.is_old = true;
            }
        }
    }

    fn write(&self, write: RowWrite) {
        let Some(store) = &self.store else {
            return;
        };
        if store.writes.try_send(StoreWrite::Row(write)).is_err() {
            tracing::warn!("the window of a model was not stored");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ModelKey, LearntFact>> {
        // The map is consistent after every statement, so a panic elsewhere does not spoil it.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
