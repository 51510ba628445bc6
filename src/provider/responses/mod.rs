//! OpenAI's Responses API, streaming.
//!
//! The server stores nothing (`store: false`): each request contains the whole history, and hidden reasoning travels
//! encrypted in both directions. Knows only this API's shape; see `call` for the HTTP part.

mod decode;
mod encode;
mod freeform;
mod items;

pub(crate) use decode::ResponsesDecoder;

use url::Url;

use super::account::is_local;
use super::build_endpoint_url;
use super::decode::StreamDecoder;
use super::http_api::{ApiCall, HttpApi};
use super::openai::choose_verbosity;
use super::request::ModelRequest;
use crate::config::Verbosity;

/// The Responses API of OpenAI, and of servers with the same one.
pub(crate) struct Responses {
    /// How long the models answer; `None` for our default.
    pub(crate) verbosity: Option<Verbosity>,
}

impl HttpApi for Responses {
    /// A gateway may offer several APIs, each with its own signatures.
    const ORIGIN: &'static str = "responses/";

    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall {
        let verbosity = choose_verbosity(self.verbosity, base, request);
        ApiCall {
            url: build_endpoint_url(base, "responses"),
            body: encode::build_body(request, origin, verbosity),
            decoder: StreamDecoder::new(ResponsesDecoder::new(&request.tools, is_local(base))),
            is_silent: true,
        }
    }
}
