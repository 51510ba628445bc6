//! Ollama's own API, streaming (`/api/chat`).
//!
//! Unlike its compatible APIs, this one takes the size of the window (`num_ctx`). Without it, Ollama cuts long prompts
//! silently. Knows only this API's shape: `encode` writes requests and `decode` reads lines. See `call` for the HTTP
//! part.

mod decode;
mod encode;

pub(crate) use decode::OllamaDecoder;

use serde_json::Value;
use url::Url;

use super::build_endpoint_url;
use super::decode::StreamDecoder;
use super::http_api::{ApiCall, HttpApi};
use super::models::ModelOverride;
use super::request::ModelRequest;

/// The window that is requested unless the configuration says otherwise, in tokens. Ollama advises agents to use at least
/// 64,000.
pub(super) const DEFAULT_WINDOW: u64 = 65_536;

/// The API of Ollama.
pub(crate) struct Ollama;

impl HttpApi for Ollama {
    /// The compatible APIs have the same host.
    const ORIGIN: &'static str = "ollama/";

    const TEMPERATURE_IN: Option<&'static str> = Some("options");

    fn build_call(&self, base: &Url, request: &ModelRequest, origin: &str) -> ApiCall {
        ApiCall {
            url: build_endpoint_url(&without_version(base), "api/chat"),
            body: encode::build_body(request, origin),
            decoder: StreamDecoder::for_lines(OllamaDecoder::default()),
            is_silent: false,
        }
    }
}

/// Returns the address without the `/v1` of the compatible APIs.
pub(super) fn without_version(base: &Url) -> Url {
    let mut base = base.clone();
    let path = base.path().trim_end_matches('/').to_owned();
    if let Some(root) = path.strip_suffix("/v1") {
        base.set_path(root);
    }
    base
}

/// Reads the answer of `/api/show`.
pub(super) fn read_show(answer: &Value) -> ModelOverride {
    let facts = answer["model_info"].as_object().into_iter().flatten();
    // The key begins with the architecture: `qwen3.context_length`.
    let mut windows = facts.filter(|(name, _)| name.ends_with(".context_length"));
    let abilities = answer["capabilities"].as_array();
    let can = |ability: &str| abilities.map(|all| all.iter().any(|known| known == ability));
    ModelOverride {
        window: windows.find_map(|(_, window)| window.as_u64()),
        reasoning: can("thinking"),
        images: can("vision"),
        tools: can("tools"),
        ..ModelOverride::default()
    }
}

/// Reads the window that the Modelfile sets from the answer of `/api/show`, which has one parameter per line.
pub(super) fn read_set_window(answer: &Value) -> Option<u64> {
    let mut lines = answer["parameters"].as_str()?.lines();
    let value = lines.find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    value.filter(|window| *window > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_model_tells_its_window_and_abilities() {
        let answer = json!({"capabilities": ["completion", "tools", "thinking"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960, "qwen3.block_count": 36}});
        let facts = read_show(&answer);
        assert_eq!(
            (facts.window, facts.reasoning, facts.images, facts.tools),
            (Some(40_960), Some(true), Some(false), Some(true))
        );
        assert_eq!(read_show(&json!({"error": "no"})), ModelOverride::default());
    }

    #[test]
    fn the_modelfile_sets_a_window() {
        for (parameters, window) in [
            (
                "stop      \"<|im_end|>\"\nnum_ctx                        131072\ntemperature 0.6",
                Some(131_072),
            ),
            ("num_ctx many", None),
            ("temperature 0.6", None),
        ] {
            assert_eq!(
                read_set_window(&json!({"parameters": parameters})),
                window,
                "{parameters}"
            );
        }
        assert_eq!(read_set_window(&json!({})), None);
    }

    #[test]
    fn the_version_of_the_compatible_api_is_dropped() {
        for (given, expected) in [
            ("http://127.0.0.1:11434", "http://127.0.0.1:11434/"),
            ("http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/"),
            ("http://host/ollama/v1", "http://host/ollama"),
        ] {
            assert_eq!(without_version(&Url::parse(given).unwrap()).as_str(), expected);
        }
    }
}
