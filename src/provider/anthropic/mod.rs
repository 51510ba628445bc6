//! Anthropic's Messages API, streaming.
//!
//! Knows only this API's shape: `encode` writes requests and `decode` reads events. See `call` for the HTTP part.

mod decode;
mod encode;

pub(crate) use decode::MessagesDecoder;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderValue};

use super::account::ProviderAccount;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};
use crate::config::CacheTtl;

/// The API version that we request.
pub(super) const VERSION: &str = "2023-06-01";

/// Lets Claude 4 to 4.5 think between tool calls. Later versions do so by themselves.
const INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";

const BETA: &str = "anthropic-beta";

/// An account at Anthropic or at a server with the same API.
pub(crate) struct Anthropic {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
    /// How long the prompt cache lives.
    pub(crate) cache_ttl: CacheTtl,
}

impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// Uses the address, not the name, because the name may later point to another address.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/{model}", self.account.host_and_port()).into()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let origin = self.model_origin(&request.model);
        let mut headers = self.headers.clone();
        if encode::needs_interleaving(&request, &origin) {
            add_beta(&mut headers, INTERLEAVED_THINKING);
        }
        let call = StreamCall {
            url: build_endpoint_url(&self.account.base, "v1/messages"),
            headers,
            body: encode::build_body(&request, &origin, self.cache_ttl),
            decoder: StreamDecoder::new(MessagesDecoder::default()),
            // This API streams its reasoning, so silence is never reasoning.
            limits: self.limits.for_call(
                self.account.is_local(),
                is_thinking_enabled(&request.model, request.effort),
                false,
            ),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}

/// Requests a beta feature, besides those that the configuration requests.
fn add_beta(headers: &mut HeaderMap, feature: &'static str) {
    let configured = headers.get(BETA).and_then(|value| value.to_str().ok());
    let joined = match configured {
        Some(configured) if configured.contains(feature) => return,
        Some(configured) => HeaderValue::from_str(&format!("{configured},{feature}")),
        None => Ok(HeaderValue::from_static(feature)),
    };
    if let Ok(joined) = joined {
        headers.insert(BETA, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beta_feature_joins_the_configured_ones() {
        let mut headers = HeaderMap::new();
        add_beta(&mut headers, INTERLEAVED_THINKING);
        assert_eq!(headers[BETA], INTERLEAVED_THINKING);
        headers.insert(BETA, HeaderValue::from_static("own-1"));
        add_beta(&mut headers, INTERLEAVED_THINKING);
        add_beta(&mut headers, INTERLEAVED_THINKING);
        assert_eq!(headers[BETA], "own-1,interleaved-thinking-2025-05-14");
    }
}
