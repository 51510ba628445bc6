//! Google's Gemini API, streaming (`streamGenerateContent`).
//!
//! Knows only this API's shape: `encode` writes requests, `schema` reduces the schemas of tools, and `decode` reads
//! events. See `call` for the HTTP part.

mod decode;
mod encode;
mod schema;

pub(crate) use decode::GeminiDecoder;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use url::Url;

use super::account::ProviderAccount;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};

/// An account at Google or at a server with the same API.
pub(crate) struct Gemini {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
}

impl Provider for Gemini {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// Uses the address, not the name, because the name may later point to another address. Includes the API, because
    /// Google's compatible API has the same host.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/gemini/{model}", self.account.host_and_port()).into()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let thinks = is_thinking_enabled(&request.model, request.effort);
        let call = StreamCall {
            url: build_url(&self.account.base, &request.model),
            headers: self.headers.clone(),
            body: encode::build_body(&request, &self.model_origin(&request.model)),
            decoder: StreamDecoder::new(GeminiDecoder::default()),
            // At most a summary of the reasoning is streamed, so a model may be silent for a long time.
            limits: self.limits.for_call(self.account.is_local(), thinks, thinks),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}

/// Returns the address of a streaming call. The model is in the path.
fn build_url(base: &Url, model: &str) -> Url {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let mut url = build_endpoint_url(base, &format!("models/{model}:streamGenerateContent"));
    url.query_pairs_mut().append_pair("alt", "sse");
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_in_the_path() {
        let base = Url::parse("https://generativelanguage.googleapis.com/v1beta").unwrap();
        for model in ["gemini-3.8-flash", "models/gemini-3.8-flash"] {
            assert_eq!(
                build_url(&base, model).as_str(),
                "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
            );
        }
        assert!(!build_url(&base, "../../x?y#z").as_str().contains("#"));
    }
}
