//! The APIs that a provider may speak, and what the name of each implies.
//!
//! `provider::registry` builds a provider for each.

use schemars::JsonSchema;
use serde::Deserialize;

/// The API of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApiKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which most other providers speak too.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Google's Gemini API.
    Gemini,
    /// Ollama's own API.
    Ollama,
    /// Replays a cassette; needs no network and no key.
    Script,
}

impl ApiKind {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Script => "script",
        }
    }

    /// Returns the vendor's own address; `None` for an API without a network.
    pub fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::OpenAi | Self::Responses => Some("https://api.openai.com/v1"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::Ollama => Some("http://127.0.0.1:11434"),
            Self::Script => None,
        }
    }
}
