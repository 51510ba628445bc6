//! Tells servers with this API apart, by address or name. Must not know what depends on it; see `encode`.

use url::Url;

use crate::config::Verbosity;
use crate::provider::account::{ProviderAccount, is_openai_model};
use crate::provider::azure::is_azure_host;
use crate::provider::models::plain_name;

/// The server behind the API, as far as it affects what may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// OpenAI itself, also on Azure.
    OpenAi,
    OpenRouter,
    /// Requires ids of nine characters, and refuses unknown fields.
    Mistral,
    /// Requires its reasoning back within a tool loop (DeepSeek, Moonshot).
    ReasoningBack,
    Other,
}

impl Flavour {
    /// Recognizes the server by its host or its configured name.
    pub(crate) fn from_account(account: &ProviderAccount) -> Self {
        let host = account.base.host_str().unwrap_or_default().to_ascii_lowercase();
        // The name counts too, so that a proxy in front of a vendor keeps the vendor's dialect.
        let is = |name: &str, hosts: &[&str]| {
            account.name.eq_ignore_ascii_case(name) || hosts.iter().any(|end| host.ends_with(end))
        };
        if is("mistral", &["mistral.ai"]) {
            Self::Mistral
        } else if is("deepseek", &["deepseek.com"]) || is("moonshot", &["moonshot.ai", "moonshot.cn"]) {
            Self::ReasoningBack
        } else if host.ends_with("openrouter.ai") {
            Self::OpenRouter
        } else if is_openai_host(&host) {
            Self::OpenAi
        } else {
            Self::Other
        }
    }

    /// Reports whether a request must mark where the cached prompt ends. Anthropic's models cache nothing by themselves.
    pub(super) fn marks_cache(self, model: &str) -> bool {
        self == Self::OpenRouter && model.starts_with("anthropic/")
    }
}

/// Recognizes OpenAI's own API, also on Azure.
pub(crate) fn is_openai_host(host: &str) -> bool {
    host == "openai.com" || host.ends_with(".openai.com") || is_azure_host(host)
}

/// Reports whether `prompt_cache_key` goes with a request for `model` at `origin`; see `Provider::model_origin`. On Azure,
/// models of other vendors refuse it, and a deployment may have any name.
pub(crate) fn takes_cache_key(origin: &str, model: &str) -> bool {
    let host = origin.split(['/', ':']).next().unwrap_or_default();
    is_openai_host(host) && (!is_azure_host(host) || is_openai_model(model))
}

/// Returns the verbosity to request from `model` at `base`: the configured one, or `low` where OpenAI's models are known
/// to accept it. Its Codex and chat models accept only their own.
pub(crate) fn choose_verbosity(
    configured: Option<Verbosity>,
    base: &Url,
    model: &str,
) -> Option<&'static str> {
    if let Some(configured) = configured {
        return configured.wire_name();
    }
    let name = plain_name(model);
    let version = name.strip_prefix("gpt-")?.split(['.', '-']).next()?;
    let is_current = version.parse::<u32>().is_ok_and(|version| version >= 5);
    let has_fixed = name.contains("codex") || name.contains("chat");
    let is_openai = base.host_str() == Some("api.openai.com");
    (is_openai && is_current && !has_fixed).then_some("low")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_key_goes_to_models_of_openai_only() {
        for (origin, model, sent) in [
            ("api.openai.com/chat/any", "any", true),
            ("me.openai.azure.com:443/chat/gpt-5", "gpt-5", true),
            ("me.services.ai.azure.com/responses/o3-mini", "o3-mini", true),
            ("me.services.ai.azure.com/chat/kimi-k3", "kimi-k3", false),
            ("me.openai.azure.com/chat/DeepSeek-V4", "DeepSeek-V4", false),
            ("me.openai.azure.com/chat/gpt-oss-120b", "gpt-oss-120b", false),
            ("me.openai.azure.com/chat/my-deployment", "my-deployment", false),
            ("llm.example.com/chat/gpt-5", "gpt-5", false),
        ] {
            assert_eq!(takes_cache_key(origin, model), sent, "{origin} {model}");
        }
    }

    #[test]
    fn verbosity_is_low_for_current_models_of_openai() {
        let openai = Url::parse("https://api.openai.com/v1").unwrap();
        let other = Url::parse("https://llm.example.com/v1").unwrap();
        for (configured, base, model, sent) in [
            (None, &openai, "gpt-5", Some("low")),
            (None, &openai, "gpt-6.1-sol", Some("low")),
            (None, &openai, "gpt-5.3-codex", None),
            (None, &openai, "gpt-5-chat-latest", None),
            (None, &openai, "gpt-4o", None),
            (None, &openai, "gpt-oss-120b", None),
            (None, &openai, "o3", None),
            (None, &other, "gpt-5", None),
            (Some(Verbosity::High), &other, "m", Some("high")),
            (Some(Verbosity::Off), &openai, "gpt-5", None),
        ] {
            assert_eq!(choose_verbosity(configured, base, model), sent, "{model} {base}");
        }
    }
}
