//! A provider wrapper that records the outcome of every call. The last one is for model lists and status bars; all
//! of them feed the account's circuit.
//!
//! It changes nothing about a call. Whether a call may be made at all is asked before, at [`AccountHealth`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;

use super::error::ProviderFault;
use super::{AccountHealth, EventStream, ModelRequest, Provider, ProviderError, StreamEvent};

/// How the last call of a provider went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// No call was made yet.
    Unknown,
    /// The last call has not failed so far; it may still be streaming.
    Ok,
    Failing,
}

/// A provider whose outcomes feed its [`Health`] and its account's circuit.
pub struct WatchedProvider {
    inner: Arc<dyn Provider>,
    last: Arc<AtomicU8>,
    key_refused: Arc<AtomicBool>,
    health: Arc<AccountHealth>,
}

impl WatchedProvider {
    /// Wraps `inner`; its health is [`Health::Unknown`] until the first call.
    pub fn new(inner: Arc<dyn Provider>, health: Arc<AccountHealth>) -> Self {
        Self {
            inner,
            last: Arc::default(),
            key_refused: Arc::default(),
            health,
        }
    }

    /// Returns how the last call went.
    pub fn health(&self) -> Health {
        match self.last.load(Ordering::Relaxed) {
            0 => Health::Unknown,
            1 => Health::Ok,
            _ => Health::Failing,
        }
    }

    /// Reports whether any call was ever refused because of its key.
    pub fn key_refused(&self) -> bool {
        self.key_refused.load(Ordering::Relaxed)
    }
}

impl Provider for WatchedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model_origin(&self, model: &str) -> Arc<str> {
        self.inner.model_origin(model)
    }

    fn account_health(&self) -> Option<&Arc<AccountHealth>> {
        Some(&self.health)
    }

    fn take_pending_notice(&self) -> Option<String> {
        self.inner.take_pending_notice()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let (last, health) = (self.last.clone(), self.health.clone());
        let key_refused = self.key_refused.clone();
        let opened = self.inner.open_stream(request);
        async move {
            let opened = opened.await;
            record_health(&last, opened.is_ok());
            // A canceled call is dropped before this point or stops polling, so it records no outcome.
            let events = opened.inspect_err(|error| {
                key_refused.fetch_or(error.fault == ProviderFault::Unauthorized, Ordering::Relaxed);
                health.record_failure(error);
            })?;
            let mut has_started = false;
            let events = events.inspect(move |event| {
                record_health(&last, event.is_ok());
                match event {
                    // Success counts only at the stop event: a stream that breaks before it is a failure (R-PROV-2).
                    Ok(StreamEvent::Stop(_)) => health.record_success(),
                    Ok(_) if !std::mem::replace(&mut has_started, true) => health.record_answer_start(),
                    Ok(_) => {}
                    Err(error) => health.record_failure(error),
                }
            });
            Ok(events.boxed())
        }
        .boxed()
    }
}

fn record_health(last: &AtomicU8, ok: bool) {
    // Relaxed: the value is only displayed, and no other memory depends on it.
    last.store(if ok { 1 } else { 2 }, Ordering::Relaxed);
}
