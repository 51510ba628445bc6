//! API keys from the editor (R-SEC), requested if a provider has none, and known only to this process.
//!
//! A key is registered with the redactor before anyone else sees it (I15). It is in no stored settings, event or
//! record.
//!
//! The answer that the editor has no key is cached too. A missing answer is not, except for fallbacks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;

use crate::config::Redactor;
use crate::tool::{EditorError, EditorLink};

/// The editor's answer: a key, or that it has none.
type CredentialAnswer = Result<Option<SecretString>, EditorError>;

/// The editor's keys, by provider.
pub struct EditorKeys {
    editor: Arc<dyn EditorLink>,
    redactor: Redactor,
    /// By provider. Concurrent requests share one question.
    answers: Mutex<HashMap<String, Arc<OnceCell<CredentialAnswer>>>>,
}

impl EditorKeys {
    /// Creates the cache; the editor is not asked yet.
    pub fn new(editor: Arc<dyn EditorLink>, redactor: Redactor) -> Self {
        Self {
            editor,
            redactor,
            answers: Mutex::default(),
        }
    }

    /// Returns the redactor, which knows every key so far.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns whether the editor can provide keys.
    pub(super) fn can_ask(&self) -> bool {
        self.editor.abilities().credentials
    }

    /// Returns the key of a provider, if the editor has provided one.
    pub(super) fn known_key(&self, provider: &str) -> Option<SecretString> {
        self.lock().get(provider)?.get()?.as_ref().ok()?.clone()
    }

    /// Requests the key of a provider, unless the answer is cached. Dropping the future is safe.
    pub(super) async fn request_key(&self, provider: &str) -> CredentialAnswer {
        // The editor did not answer last time; do not cache that.
        if let Some(Err(_)) = self.answer_cell(provider).get() {
            self.lock().remove(provider);
        }
        self.ask_once(provider).await
    }

    /// Requests a key like [`Self::request_key`], but does not ask again if the editor did not answer before.
    pub(super) async fn ask_once(&self, provider: &str) -> CredentialAnswer {
        if !self.can_ask() {
            return Ok(None);
        }
        let cell = self.answer_cell(provider);
        cell.get_or_init(|| self.fetch_key(provider)).await.clone()
    }

    fn answer_cell(&self, provider: &str) -> Arc<OnceCell<CredentialAnswer>> {
        self.lock().entry(provider.to_owned()).or_default().clone()
    }

    async fn fetch_key(&self, provider: &str) -> CredentialAnswer {
        let answer = self.editor.request_credential(provider.to_owned()).await;
        let key = answer.inspect_err(|error| tracing::warn!(provider, %error, "no key from the editor"))?;
        let key = key.filter(|key| !key.expose_secret().trim().is_empty());
        if let Some(key) = &key {
            self.redactor.learn_provider_key(key);
        }
        Ok(key)
    }

    /// Forgets a key that the provider rejected, so that the editor is asked again when one is needed.
    pub(super) fn forget_refused_key(&self, provider: &str, key: &SecretString) {
        let is_it = |cell: &OnceCell<CredentialAnswer>| {
            let known = cell.get().and_then(|answer| answer.as_ref().ok()?.as_ref());
            // Only this key: a newer one may have arrived meanwhile.
            known.is_some_and(|known| known.expose_secret() == key.expose_secret())
        };
        self.lock().retain(|name, cell| name != provider || !is_it(cell));
    }

    /// Forgets all answers.
    pub(super) fn forget_keys(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<CredentialAnswer>>>> {
        // The map is consistent after every statement, so a panic elsewhere does not spoil it.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::BoxFuture;

    use super::*;
    use crate::tool::{DocumentEdit, EditorAbilities};

    /// Knows the key of `anthropic`, does not answer about `slow`, and has no other.
    #[derive(Default)]
    struct Safe(AtomicUsize);

    impl EditorLink for Safe {
        fn abilities(&self) -> EditorAbilities {
            EditorAbilities {
                credentials: true,
                ..EditorAbilities::default()
            }
        }

        fn apply(&self, _: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
            unreachable!("nothing is edited")
        }

        fn save_document(&self, _: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
            unreachable!("nothing is saved")
        }

        fn request_credential(&self, provider: String) -> BoxFuture<'static, CredentialAnswer> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                tokio::task::yield_now().await;
                match provider.as_str() {
                    "anthropic" => Ok(Some(format!("sk-canary-{number}").into())),
                    "blank" => Ok(Some(" ".into())),
                    "slow" => Err(EditorError::Silent(Duration::from_secs(10))),
                    _ => Ok(None),
                }
            })
        }
    }

    fn keys() -> (EditorKeys, Arc<Safe>, Redactor) {
        let (safe, redactor) = (Arc::new(Safe::default()), Redactor::default());
        (EditorKeys::new(safe.clone(), redactor.clone()), safe, redactor)
    }

    fn exposed(answer: CredentialAnswer) -> Option<String> {
        answer.unwrap().map(|key| key.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_question_and_a_missing_key_is_cached() {
        let (keys, safe, redactor) = keys();
        let (one, two) = futures::join!(keys.request_key("anthropic"), keys.request_key("anthropic"));
        assert_eq!(exposed(one), Some("sk-canary-0".to_owned()));
        assert_eq!(exposed(two), Some("sk-canary-0".to_owned()));
        assert_eq!(redactor.redact_text("is sk-canary-0 there"), "is *** there");
        for _ in 0..2 {
            assert_eq!(exposed(keys.request_key("openai").await), None);
            assert_eq!(exposed(keys.request_key("blank").await), None);
        }
        assert_eq!(safe.0.load(Ordering::Relaxed), 3);
        assert!(keys.known_key("openai").is_none() && keys.known_key("never asked").is_none());
    }

    #[tokio::test]
    async fn silence_is_not_cached_and_a_rejected_key_is_requested_again() {
        let (keys, safe, _) = keys();
        assert!(keys.request_key("slow").await.is_err() && keys.request_key("slow").await.is_err());
        assert!(keys.ask_once("slow").await.is_err());
        assert_eq!(safe.0.load(Ordering::Relaxed), 2);
        let first = keys.request_key("anthropic").await.unwrap().unwrap();
        keys.forget_refused_key("anthropic", &"another".into());
        assert!(keys.known_key("anthropic").is_some());
        keys.forget_refused_key("anthropic", &first);
        assert!(keys.known_key("anthropic").is_none());
        assert_eq!(
            exposed(keys.request_key("anthropic").await),
            Some("sk-canary-3".to_owned())
        );
        keys.forget_keys();
        assert_eq!(
            exposed(keys.request_key("anthropic").await),
            Some("sk-canary-4".to_owned())
        );
    }
}
