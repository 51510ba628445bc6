//! Google's Gemini API, streaming (`streamGenerateContent`).
//!
//! Knows only this API's shape: `encode` writes requests, `schema` reduces the schemas of tools, and `decode` reads
//! events. See `call` for the HTTP part.

mod decode;
mod encode;
mod schema;

pub(crate) use decode::GeminiDecoder;

use url::Url;

use super::build_endpoint_url;
use super::decode::StreamDecoder;
use super::http_api::{ApiCall, HttpApi};
use super::request::ModelRequest;

/// The API of Google, and of servers with the same one.
pub(crate) struct Gemini;

impl HttpApi for Gemini {
    /// Google's compatible API has the same host.
    const ORIGIN: &'static str = "gemini/";

    const TEMPERATURE_IN: Option<&'static str> = Some("generationConfig");

    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall {
        ApiCall {
            url: build_url(base, &request.model),
            body: encode::build_body(request, origin),
            decoder: StreamDecoder::new(GeminiDecoder::default()),
            is_silent: true,
        }
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
