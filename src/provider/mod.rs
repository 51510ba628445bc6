//! LLM APIs as one typed stream, their failures as one typed error, and the arithmetic of retries.
//!
//! Knows HTTP and the shape of each API. Knows nothing about turns, sessions, clients or what a tool means.
//! A provider never retries by itself: a failed call is one [`ProviderError`]. `turn` decides what follows, with
//! [`retry`] and [`account_health`] (circuit and pacing), which all users of an account share.
//!
//! In reading order: `request`, `stream` and `error` are the contract. [`registry`] builds a provider from its
//! settings. `call` makes one call over `http` within the limits of `idle_timeout`. `sse` and `decode` turn bytes
//! into events, and one folder per API encodes and decodes its shape. Only `classify` interprets a provider's
//! failures. `script` plays a `cassette` without a network; `record` writes one.
//! No secret leaves this module (I15): see `account`.

mod account;
pub mod account_health;
mod anthropic;
#[cfg(test)]
mod any_bytes_tests;

mod azure;
mod body;
mod call;
mod cassette;
mod catalog_fetch;
pub mod classify;
mod configured;
#[cfg(test)]
mod contract_tests;
mod decode;
mod error;
mod extra_fields;
mod fields;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz_tests;
mod gemini;
mod health_tracking;
mod http;
mod http_api;
mod idle_timeout;
mod list_facts;
pub mod models;
mod ollama;
mod openai;
pub mod pacing;
mod probe;
mod record;
pub mod registry;
mod request;
mod request_part;
mod responses;
pub mod retry;
mod script;
mod sse;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
mod thought_tags;

pub use crate::config::ApiKind;
pub use account_health::{AccountHealth, Accounts, CallLease, CircuitView};
pub use call::CallLimits;
pub use catalog_fetch::{MAX_CATALOG_SOURCE, fetch_catalog};
pub use configured::build_spec;
pub use error::{Disposition, ProviderError, ProviderFault, TimeoutPhase};
pub use health_tracking::{Health, WatchedProvider};
pub use list_facts::ModelList;
pub use models::{ModelInfo, ModelOverride, PriceSource, SearchFee, is_thinking_enabled, least_effort};
pub use probe::{ProbeResult, fetch_engine_list, fetch_list, list_models, probe_provider};
pub use registry::{CallSlot, CallSlots, ProviderSpec, build};
pub use request::{Effort, HistoryItem, ModelRequest, RequestShape};
pub use request_part::{RequestPart, RequestParts, ToolPointer};
pub use retry::{GiveUp, RetryPolicy, RetryState, RetryVerdict};
pub use script::Script;
pub use stream::{EventStream, SearchReport, StopReason, StreamEvent};

use std::sync::Arc;

use futures::future::BoxFuture;
use url::Url;

/// An LLM API with an account. Dropping a call's future or stream closes its connection immediately (R-PROV-8).
pub trait Provider: Send + Sync + 'static {
    /// Returns the configured name: `anthropic`, `work`, ….
    fn name(&self) -> &str;

    /// Returns the mark for reasoning by `model`. Reasoning goes back only to the origin that produced it (R-LOOP-4).
    /// The mark is stored, so it must not contain a secret.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/{model}", self.name()).into()
    }

    /// Returns the health of the account, or `None` if it is not tracked (a cassette).
    fn account_health(&self) -> Option<&Arc<AccountHealth>> {
        None
    }

    /// Takes the next warning for the user that belongs to no failed call, such as a recording that cannot be written.
    fn take_pending_notice(&self) -> Option<String> {
        None
    }

    /// Makes the call. The stream ends after exactly one [`StreamEvent::Stop`] or exactly one error.
    ///
    /// # Errors
    ///
    /// The future fails if no answer begins: no connection, a time limit, or a response that is not an event stream.
    /// Every later failure is the last item of the stream.
    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>>;
}

/// Appends `path` to `base`, except for the part that `base` already ends with. A query (Azure's `api-version`)
/// stays.
fn build_endpoint_url(base: &Url, path: &str) -> Url {
    let base_path = base.path().trim_end_matches('/').to_owned();
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    // A base URL may come with or without `/v1`, or as the full endpoint.
    let full = if base_path.ends_with(&format!("/{path}")) {
        base_path
    } else if base_path.ends_with(&format!("/{first}")) {
        format!("{base_path}/{rest}")
    } else {
        format!("{base_path}/{path}")
    };
    let mut url = base.clone();
    url.set_path(&full);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_path_is_appended_only_once() {
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
