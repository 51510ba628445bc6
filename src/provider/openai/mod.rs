//! Chat Completions, streaming: OpenAI and the many servers with the same API.
//!
//! [`Flavour`] tells servers apart by address or name. `encode` adapts requests to it, and `decode` accepts every
//! variant. See `call` for the HTTP part.

mod decode;
mod encode;
mod flavour;
mod opaque;

pub(crate) use decode::ChatDecoder;
pub(super) use encode::{own_reasoning, result_text, write_tools};
pub(crate) use flavour::{Flavour, ReasoningSwitch, choose_verbosity, is_openai_host, takes_cache_key};

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;

use super::account::ProviderAccount;
use super::call::{CallLimits, StreamCall, open};
use super::decode::StreamDecoder;
use super::error::ProviderError;
use super::http::Http;
use super::models::{is_thinking_enabled, reasoning_field};
use super::request::ModelRequest;
use super::stream::EventStream;
use super::{Provider, build_endpoint_url};
use crate::config::Verbosity;

/// An account at a server with this API.
pub(crate) struct OpenAi {
    pub(crate) account: Arc<ProviderAccount>,
    pub(crate) http: Arc<Http>,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: CallLimits,
    pub(crate) flavour: Flavour,
    /// The section of the catalogue that has the server's models.
    pub(crate) section: String,
    /// How long the models answer; `None` for our default.
    pub(crate) verbosity: Option<Verbosity>,
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.account.name
    }

    /// Uses the address, not the name, because the name may later point to another address. Includes the API, because a
    /// gateway may offer several.
    fn model_origin(&self, model: &str) -> Arc<str> {
        format!("{}/chat/{model}", self.account.host_and_port()).into()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let thinks = is_thinking_enabled(&request.model, request.effort);
        // OpenAI does not stream its models' reasoning, so they may be silent for a long time.
        let silent = thinks && self.flavour == Flavour::OpenAi;
        let call = StreamCall {
            url: build_endpoint_url(&self.account.base, "chat/completions"),
            headers: self.headers.clone(),
            body: encode::build_body(
                &request,
                self.flavour,
                &self.model_origin(&request.model),
                encode::ReasoningFields {
                    gives_back: reasoning_field(&self.section, &request.model),
                    switch: ReasoningSwitch::find(&self.section, &request.model),
                },
                choose_verbosity(self.verbosity, &self.account.base, &request),
            ),
            decoder: StreamDecoder::new(ChatDecoder::default()),
            limits: self.limits.for_call(self.account.is_local(), thinks, silent),
            model: request.model.clone(),
        };
        open(self.account.clone(), self.http.clone(), call).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiKind;
    use crate::provider::account::tests::build_account;

    #[test]
    fn flavour_follows_from_host_or_name() {
        for (name, base, flavour) in [
            ("openai", "https://api.openai.com/v1", Flavour::OpenAi),
            ("azure", "https://me.openai.azure.com/openai/v1", Flavour::OpenAi),
            ("openrouter", "https://openrouter.ai/api/v1", Flavour::OpenRouter),
            ("mistral", "http://127.0.0.1:1/v1", Flavour::Mistral),
            ("m", "https://api.mistral.ai/v1", Flavour::Mistral),
            ("d", "https://api.deepseek.com", Flavour::ReasoningBack),
            ("ollama", "http://localhost:11434/v1", Flavour::Other),
        ] {
            assert_eq!(
                Flavour::from_account(&build_account(name, ApiKind::OpenAi, base)),
                flavour,
                "{name} {base}"
            );
        }
    }
}
