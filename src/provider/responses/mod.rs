//! OpenAI's Responses API, streaming.
//!
//! The server stores nothing (`store: false`): each request contains the whole history, and hidden reasoning travels
//! encrypted in both directions. Knows only this API's shape; see `call` for the HTTP part.

mod decode;
mod encode;
mod freeform;
mod items;

pub(crate) use decode::ResponsesDecoder;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;

use super::account::ProviderAccount;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::openai::choose_verbosity;
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};
use crate::config::Verbosity;

/// An account at OpenAI or at a server with the same API.
pub(crate) struct Responses {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    /// The same as for Chat Completions.
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
    /// How long the models answer; `None` for our default.
    pub(crate) verbosity: Option<Verbosity>,
}

impl Provider for Responses {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// Uses the address, not the name, because the name may later point to another address. Includes the API, because a
    /// gateway may offer several, each with its own signatures.
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
            body: encode::build_body(
                &request,
                &self.model_origin(&request.model),
                choose_verbosity(self.verbosity, &self.account.base, &request),
            ),
            decoder: StreamDecoder::new(ResponsesDecoder::for_tools(&request.tools)),
            // At most a summary of the reasoning is streamed, so a model may be silent for a long time.
            limits: self.limits.for_call(self.account.is_local(), thinks, thinks),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}
