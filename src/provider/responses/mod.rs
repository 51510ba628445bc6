//! OpenAI's Responses API, streaming. Nothing is kept on the other side (`store: false`): each request holds the whole
//! history, and the models' hidden reasoning comes and goes encrypted.

mod decode;
mod encode;
mod items;

pub(crate) use decode::ResponsesDecoder;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;

use super::account::Account;
use super::call::{StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::registry::CallLimits;
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};

/// An account at OpenAI, or at whoever speaks this API.
pub(crate) struct Responses {
    pub(crate) account: Arc<Account>,
    pub(crate) http: Arc<Http>,
    /// As Chat Completions has them.
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
}

impl Provider for Responses {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// By the address, not by the name: a name may be given to another address. With the API, because a gateway may
    /// speak several, each with proofs of its own.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/responses/{model}", self.account.host_and_port()).into()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let thinks = is_thinking_enabled(&request.model, request.effort);
        let call = StreamCall {
            url: build_endpoint_url(&self.account.base, "responses"),
            headers: self.headers.clone(),
            body: encode::build_body(&request, &self.model_origin(&request.model)),
            decoder: StreamDecoder::new(ResponsesDecoder::default()),
            // Reasoning shows as a summary at most: models may be silent for long.
            limits: self.limits.for_call(self.account.is_local(), thinks, thinks),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}
