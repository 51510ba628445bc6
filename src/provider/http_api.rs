//! A provider over HTTP: an account, and what is particular about its API.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use url::Url;

use super::Provider;
use super::account::ProviderAccount;
use super::body::BodyPieces;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::extra_fields::ConfiguredFields;
use super::http::Http;
use super::models::is_thinking_enabled;
use super::request::ModelRequest;
use super::stream::EventStream;

/// What is particular about an API.
pub(crate) trait HttpApi: Send + Sync + 'static {
    /// Distinguishes the API, in the mark of its reasoning, from others at the same address. Ends with `/` unless empty.
    const ORIGIN: &'static str;

    /// The field of the body that contains the temperature; `None` for the body itself.
    const TEMPERATURE_IN: Option<&'static str> = None;

    /// Encodes a call to a server at `base`. `origin` is the mark of the called model.
    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall;

    /// Adds the headers that only some calls have.
    fn add_headers(&self, request: &ModelRequest, origin: &str, headers: &mut HeaderMap) {
        let (_, _, _) = (request, origin, headers);
    }
}

/// What an API makes of a request.
pub(crate) struct ApiCall {
    pub(crate) url: Url,
    pub(crate) body: BodyPieces,
    pub(crate) decoder: StreamDecoder,
    /// The reasoning of a model is not streamed, or only a summary, so the model may be silent for a long time.
    pub(crate) is_silent: bool,
}

/// An account at a server with an API.
pub(crate) struct HttpProvider<A> {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
    pub(crate) fields: ConfiguredFields,
    pub(crate) api: A,
}

impl HttpProvider<()> {
    /// Completes the provider by its API.
    pub(crate) fn with_api<A: HttpApi>(self, api: A) -> Arc<dyn Provider> {
        Arc::new(HttpProvider {
            account: self.account,
            http: self.http,
            headers: self.headers,
            limits: self.limits,
            fields: self.fields,
            api,
        })
    }
}

impl<A: HttpApi> Provider for HttpProvider<A> {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// Uses the address, not the name, because the name may later point to another address.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/{}{model}", self.account.host_and_port(), A::ORIGIN).into()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let origin = self.model_origin(&request.model);
        let mut headers = self.headers.clone();
        self.api.add_headers(&request, &origin, &mut headers);
        let mut call = self.api.build_call(&self.account.base, &request, &origin);
        let fields = self.fields.fields_for(&request.model);
        call.body.add_extras(&request.omitted, &fields, A::TEMPERATURE_IN);
        let thinks = is_thinking_enabled(&request.model, request.effort);
        let is_silent = thinks && call.is_silent;
        let call = StreamCall {
            url: call.url,
            headers,
            body: call.body,
            decoder: call.decoder,
            limits: self.limits.for_call(self.account.is_local(), thinks, is_silent),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}
