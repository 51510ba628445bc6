//! LLM APIs as one typed stream; what may go wrong with them, and the arithmetic of trying again.
//!
//! Knows HTTP and the APIs' shapes; knows nothing of turns, tools' meaning, sessions or clients.
//! A provider never retries by itself: a failed call is one [`ProviderError`], and `turn` decides with
//! the help of [`retry`], and of [`account_health`] (circuit and pacing), which all users of an account share.
//!
//! In reading order: `request`, `stream` and `error` are the contract; [`registry`] builds a provider
//! from its settings; `call` makes one call over `http`, with its time limits from `patience`; `sse` and
//! `decode` turn bytes into events, one folder per API writes and reads its shape; `classify` is the
//! only place that judges what a provider says when it fails; `script` is a provider without a network, which plays a
//! `cassette`; `record` makes one.
//! No secret leaves this module (I15): see `account`.

mod account;
pub mod account_health;
mod anthropic;
#[cfg(test)]
mod any_bytes_tests;
mod body;
mod call;
mod cassette;
pub mod circuit;
mod classify;
mod configured;
#[cfg(test)]
mod contract_tests;
mod decode;
mod error;
mod fields;
mod health_tracking;
mod http;
mod idle_timeout;
pub mod models;
mod openai;
pub mod pacing;
mod probe;
mod record;
pub mod registry;
mod request;
mod responses;
pub mod retry;
mod script;
mod sse;
mod stream;

pub use account_health::{AccountHealth, Accounts, CallLease, CircuitView};
pub use circuit::{Caller, CircuitPolicy};
pub use configured::build_spec;
pub use error::{Disposition, ProviderError, ProviderFault, TimeoutPhase};
pub use health_tracking::{Health, WatchedProvider};
pub use models::{ModelInfo, ModelOverride, PriceSource, is_thinking_enabled};
pub use probe::{ModelList, ProbeResult, fetch_list, list_models, probe_provider};
pub use registry::{ApiKind, CallLimits, CallSlot, CallSlots, ProviderSpec, build};
pub use request::{Effort, HistoryItem, ModelRequest, RequestShape};
pub use retry::{GiveUp, RetryPolicy, RetryState, RetryVerdict};
pub use script::Script;
pub use stream::{EventStream, StopReason, StreamEvent};

use std::sync::Arc;

use futures::future::BoxFuture;
use url::Url;

/// An LLM API with an account. One streaming call; dropping the future or the stream closes the
/// connection at once (R-PROV-8).
pub trait Provider: Send + Sync + 'static {
    /// The configured name: `anthropic`, `work`, ….
    fn name(&self) -> &str;

    /// Who `model` is here, as its reasoning is marked: what was given under one origin is sent back to the same
    /// one alone (R-LOOP-4). Holds no secret; it is stored.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/{model}", self.name()).into()
    }

    /// How its account stands; none where nothing is known of that (a cassette).
    fn account_health(&self) -> Option<&Arc<AccountHealth>> {
        None
    }

    /// What people should be told that is no call's failure (a recording that cannot be written); each once.
    fn take_pending_notice(&self) -> Option<String> {
        None
    }

    /// Makes the call. The stream yields events, then ends after exactly one [`StreamEvent::Stop`], or
    /// yields exactly one error and ends.
    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>>;
}

/// Where a call goes: `base` with `path` behind it, as far as it does not end with it already. A query
/// (Azure's `api-version`) stays.
fn build_endpoint_url(base: &Url, path: &str) -> Url {
    let given = base.path().trim_end_matches('/').to_owned();
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let full = if given.ends_with(&format!("/{path}")) {
        given
    } else if given.ends_with(&format!("/{first}")) {
        format!("{given}/{rest}")
    } else {
        format!("{given}/{path}")
    };
    let mut url = base.clone();
    url.set_path(&full);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_joined_once() {
        for (base, path, expected) in [
            (
                "https://api.anthropic.com",
                "v1/messages",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                "https://api.anthropic.com/",
                "v1/messages",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                "https://x.example/v1",
                "v1/messages",
                "https://x.example/v1/messages",
            ),
            (
                "https://x.example/a/v1/messages",
                "v1/messages",
                "https://x.example/a/v1/messages",
            ),
            (
                "https://x.example/v1",
                "chat/completions",
                "https://x.example/v1/chat/completions",
            ),
            (
                "https://x.example/chat/completions",
                "chat/completions",
                "https://x.example/chat/completions",
            ),
            (
                "https://x.example/v1?api-version=2",
                "chat/completions",
                "https://x.example/v1/chat/completions?api-version=2",
            ),
        ] {
            assert_eq!(
                build_endpoint_url(&Url::parse(base).unwrap(), path).as_str(),
                expected
            );
        }
    }
}
