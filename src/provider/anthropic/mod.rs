//! Anthropic's Messages API, streaming.
//!
//! Knows only this API's shape: `encode` writes requests and `decode` reads events. See `call` for the HTTP part.

mod decode;
mod encode;

pub(crate) use decode::MessagesDecoder;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::account::ProviderAccount;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};

/// The API version that we request.
const VERSION: &str = "2023-06-01";

/// An account at Anthropic or at a server with the same API.
pub(crate) struct Anthropic {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
}

impl Anthropic {
    /// Returns the headers of every call. Extra headers from the configuration override ours.
    pub(crate) fn build_headers(key: Option<HeaderValue>, extra: HeaderMap) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        if let Some(key) = key {
            headers.insert(HeaderName::from_static("x-api-key"), key);
        }
        headers.extend(extra);
        headers
    }
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
        let call = StreamCall {
            url: build_endpoint_url(&self.account.base, "v1/messages"),
            headers: self.headers.clone(),
            body: encode::build_body(&request, &self.model_origin(&request.model)),
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
