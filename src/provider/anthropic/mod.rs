//! Anthropic's Messages API, streaming.
//!
//! Knows only this API's shape: `encode` writes requests and `decode` reads events. See `call` for the HTTP part.

mod decode;
mod encode;

pub(crate) use decode::MessagesDecoder;

use reqwest::header::{HeaderMap, HeaderValue};
use url::Url;

use super::account::is_local;
use super::build_endpoint_url;
use super::decode::StreamDecoder;
use super::http_api::{ApiCall, HttpApi};
use super::request::ModelRequest;
use crate::config::CacheTtl;

/// The API version that we request.
pub(super) const VERSION: &str = "2023-06-01";

/// Lets Claude 4 to 4.5 think between tool calls. Later versions do so by themselves.
const INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";

const BETA: &str = "anthropic-beta";

/// The API of Anthropic, and of servers with the same one.
pub(crate) struct Anthropic {
    /// How long the prompt cache lives.
    pub(crate) cache_ttl: CacheTtl,
}

impl HttpApi for Anthropic {
    const ORIGIN: &'static str = "";

    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall {
        ApiCall {
            url: build_endpoint_url(base, "v1/messages"),
            body: encode::build_body(request, origin, self.cache_ttl),
            decoder: StreamDecoder::new(MessagesDecoder::new(is_local(base))),
            is_silent: false,
        }
    }

    fn add_headers(&self, request: &ModelRequest, origin: &str, headers: &mut HeaderMap) {
        if encode::needs_interleaving(request, origin) {
            add_beta(headers, INTERLEAVED_THINKING);
        }
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
