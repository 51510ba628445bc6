//! Chat Completions, streaming: OpenAI and the many servers with the same API.
//!
//! [`Flavour`] tells servers apart by address or name. `encode` adapts requests to it, and `decode` accepts every
//! variant. See `call` for the HTTP part.

mod decode;
mod encode;
mod flavour;
mod opaque;
mod roles;

pub(crate) use decode::ChatDecoder;
pub(super) use encode::{own_reasoning, result_text, write_tools};
pub(crate) use flavour::{Flavour, ReasoningSwitch, choose_verbosity, is_openai_host, takes_cache_key};

use url::Url;

use super::build_endpoint_url;
use super::decode::StreamDecoder;
use super::http_api::{ApiCall, HttpApi};
use super::models::reasoning_field;
use super::request::ModelRequest;
use crate::config::Verbosity;

/// Chat Completions at one server.
pub(crate) struct OpenAi {
    pub(crate) flavour: Flavour,
    /// The section of the catalogue that has the server's models.
    pub(crate) section: String,
    /// How long the models answer; `None` for our default.
    pub(crate) verbosity: Option<Verbosity>,
}

impl HttpApi for OpenAi {
    /// A gateway may offer several APIs.
    const ORIGIN: &'static str = "chat/";

    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall {
        let reasoning = encode::ReasoningFields {
            gives_back: reasoning_field(&self.section, &request.model),
            switch: ReasoningSwitch::find(&self.section, &request.model),
        };
        let verbosity = choose_verbosity(self.verbosity, base, request);
        ApiCall {
            url: build_endpoint_url(base, "chat/completions"),
            body: encode::build_body(request, self.flavour, origin, reasoning, verbosity),
            decoder: StreamDecoder::new(ChatDecoder::new(self.flavour != Flavour::OpenAi)),
            is_silent: self.flavour == Flavour::OpenAi,
        }
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
