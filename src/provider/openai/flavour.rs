//! Tells servers with this API apart, by address or name. Must not know what depends on it; see `encode`.

use crate::provider::account::ProviderAccount;

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
        } else if host.ends_with("openai.com") || host.ends_with("openai.azure.com") {
            Self::OpenAi
        } else {
            Self::Other
        }
    }
}
