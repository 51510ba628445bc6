//! Presets of well-known providers: what their name alone implies. Knows no models.

use url::Url;

use super::api_kind::ApiKind;

/// The defaults of a well-known provider.
pub(super) struct ProviderPreset {
    pub(super) name: &'static str,
    pub(super) kind: ApiKind,
    pub(super) base_url: &'static str,
    /// The variable that usually contains the key; `None` if the provider needs none.
    pub(super) key_variable: Option<&'static str>,
    pub(super) availability: Availability,
}

/// When a provider can be selected without a table of its own in the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// Always.
    Always,
    /// If its key is in the environment, or an agent names it. Until then, its name may be the first part of a model's
    /// name at a gateway, such as `google/gemini-3.8-flash`.
    WithKey,
    /// Never.
    Configured,
}

const fn preset(name: &'static str, base_url: &'static str, key: Option<&'static str>) -> ProviderPreset {
    ProviderPreset {
        name,
        kind: ApiKind::OpenAi,
        base_url,
        key_variable: key,
        availability: Availability::Always,
    }
}

/// A provider that is available only with its key.
const fn other(name: &'static str, base_url: &'static str, key: &'static str) -> ProviderPreset {
    ProviderPreset {
        availability: Availability::WithKey,
        ..preset(name, base_url, Some(key))
    }
}

/// The presets. A key in the environment can select the first [`BY_KEY`], in this order.
#[rustfmt::skip]
pub(super) const PROVIDER_PRESETS: [ProviderPreset; 52] = [
    preset("anthropic", "https://api.anthropic.com", Some("ANTHROPIC_API_KEY")).with_kind(ApiKind::Anthropic),
    preset("openai", "https://api.openai.com/v1", Some("OPENAI_API_KEY")),
    preset("openrouter", "https://openrouter.ai/api/v1", Some("OPENROUTER_API_KEY")),
    preset("ollama", "http://127.0.0.1:11434", None).with_kind(ApiKind::Ollama),
    preset("deepseek", "https://api.deepseek.com/v1", Some("DEEPSEEK_API_KEY")),
    preset("groq", "https://api.groq.com/openai/v1", Some("GROQ_API_KEY")),
    preset("mistral", "https://api.mistral.ai/v1", Some("MISTRAL_API_KEY")),
    preset("eachlabs", "https://api.eachlabs.ai/v1", Some("EACHLABS_API_KEY")),
    preset("lmstudio", "http://127.0.0.1:1234/v1", None),
    preset("vllm", "http://127.0.0.1:8000/v1", None),
    preset("llamacpp", "http://127.0.0.1:8080/v1", None),
    // The other API of `openai`, with the same key.
    ProviderPreset {
        kind: ApiKind::Responses,
        availability: Availability::Configured,
        ..preset("openai-responses", "https://api.openai.com/v1", Some("OPENAI_API_KEY"))
    },
    // Addresses and variables from models.dev and the providers' own pages.
    other("alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    other("alibaba-cn", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    other("baseten", "https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    other("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    other("chutes", "https://llm.chutes.ai/v1", "CHUTES_API_KEY"),
    other("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    other("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    other("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    other("friendli", "https://api.friendli.ai/serverless/v1", "FRIENDLI_TOKEN"),
    other("google", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY").with_kind(ApiKind::Gemini),
    other("gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY").with_kind(ApiKind::Gemini),
    other("helicone", "https://ai-gateway.helicone.ai/v1", "HELICONE_API_KEY"),
    other("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    other("inception", "https://api.inceptionlabs.ai/v1", "INCEPTION_API_KEY"),
    other("kimi-code", "https://api.kimi.ai/coding/v1", "KIMI_API_KEY"),
    other("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    other("moonshot-cn", "https://api.moonshot.cn/v1", "MOONSHOT_API_KEY"),
    other("nebius", "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    other("novita", "https://api.novita.ai/openai", "NOVITA_API_KEY"),
    other("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    other("ollama-cloud", "https://ollama.com/v1", "OLLAMA_API_KEY"),
    other("opencode-zen", "https://opencode.ai/zen/v1", "OPENCODE_API_KEY"),
    other("ovhcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "OVHCLOUD_API_KEY"),
    other("poe", "https://api.poe.com/v1", "POE_API_KEY"),
    other("requesty", "https://router.requesty.ai/v1", "REQUESTY_API_KEY"),
    other("scaleway", "https://api.scaleway.ai/v1", "SCALEWAY_API_KEY"),
    other("siliconflow", "https://api.siliconflow.com/v1", "SILICONFLOW_API_KEY"),
    other("stepfun", "https://api.stepfun.com/v1", "STEPFUN_API_KEY"),
    other("synthetic", "https://api.synthetic.new/openai/v1", "SYNTHETIC_API_KEY"),
    other("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    other("upstage", "https://api.upstage.ai/v1/solar", "UPSTAGE_API_KEY"),
    other("vercel", "https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY"),
    other("wandb", "https://api.inference.wandb.ai/v1", "WANDB_API_KEY"),
    other("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    other("xiaomi", "https://api.xiaomimimo.com/v1", "XIAOMI_API_KEY"),
    other("zai", "https://api.z.ai/api/paas/v4", "ZHIPU_API_KEY"),
    other("zai-coding-plan", "https://api.z.ai/api/coding/paas/v4", "ZHIPU_API_KEY"),
    other("zhipuai", "https://open.bigmodel.cn/api/paas/v4", "ZHIPU_API_KEY"),
    // These speak Anthropic's API.
    other("minimax", "https://api.minimax.io/anthropic", "MINIMAX_API_KEY").with_kind(ApiKind::Anthropic),
    other("minimax-cn", "https://api.minimax.cn/anthropic", "MINIMAX_API_KEY").with_kind(ApiKind::Anthropic),
];

/// How many presets of [`PROVIDER_PRESETS`] a key in the environment can select without any configuration.
pub(super) const BY_KEY: usize = 3;

/// Returns the variables that usually contain API keys, each once. No child process gets them, unless `pass_env` lists
/// them.
pub fn key_variables() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in PROVIDER_PRESETS.iter().filter_map(|known| known.key_variable) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the variable that usually contains the key of a provider.
pub fn key_variable(provider: &str) -> Option<&'static str> {
    find_preset(provider).and_then(|known| known.key_variable)
}

/// Returns whether a provider may take a key: known engines on the own machine do not.
pub fn takes_key(provider: &str) -> bool {
    find_preset(provider).is_none_or(|known| known.key_variable.is_some())
}

/// Returns the known providers that take a key of their own.
pub fn providers_with_key() -> impl Iterator<Item = &'static str> {
    let has_key = |known: &&ProviderPreset| {
        known.key_variable.is_some() && known.availability != Availability::Configured
    };
    PROVIDER_PRESETS.iter().filter(has_key).map(|known| known.name)
}

/// Returns how to give `provider` the key that it lacks, for the user.
pub fn missing_key_hint(provider: &str) -> String {
    match find_preset(provider).and_then(|known| known.key_variable) {
        Some(variable) => format!(
            "run `agentls login {provider}`, set {variable}, or put the key into [provider.{provider}] api_key"
        ),
        None => format!(
            "run `agentls login {provider}`, or set [provider.{provider}] api_key, preferably as \"${{NAME_OF_A_VARIABLE}}\""
        ),
    }
}

/// The path of Google's API that is compatible with Chat Completions, below the address of its own.
const GOOGLE_COMPATIBLE: &str = "/openai";

/// The path of the compatible APIs of Ollama.
const COMPATIBLE: &str = "/v1";

impl ProviderPreset {
    /// Returns the same preset with another API than OpenAI's.
    const fn with_kind(self, kind: ApiKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the API at a configured address, which is empty for the preset's own. Google and Ollama have
    /// compatible APIs too, and most gateways of Google's and OpenAI's models speak that one.
    pub(super) fn kind_at(&self, address: &str) -> ApiKind {
        // OpenAI's current models call tools only through the newer API.
        if self.name == "openai" && (address.is_empty() || is_openai_address(address)) {
            return ApiKind::Responses;
        }
        let is_own = address.is_empty() || address.contains("googleapis.com");
        let is_compatible = address.trim_end_matches('/').ends_with(GOOGLE_COMPATIBLE);
        let is_openai = match self.kind {
            ApiKind::Gemini => is_compatible || !is_own,
            ApiKind::Ollama => address.trim_end_matches('/').ends_with(COMPATIBLE),
            _ => false,
        };
        if is_openai { ApiKind::OpenAi } else { self.kind }
    }

    /// Returns the preset's address for an API; `None` if it does not serve that one.
    pub(super) fn address_for(&self, kind: ApiKind) -> Option<String> {
        match (self.kind, kind) {
            (own, kind) if own == kind => Some(self.base_url.to_owned()),
            // OpenAI serves both of its APIs at one address.
            (ApiKind::OpenAi, ApiKind::Responses) => Some(self.base_url.to_owned()),
            (ApiKind::Gemini, ApiKind::OpenAi) => Some(format!("{}{GOOGLE_COMPATIBLE}", self.base_url)),
            (ApiKind::Ollama, ApiKind::OpenAi | ApiKind::Responses) => {
                Some(format!("{}{COMPATIBLE}", self.base_url))
            }
            _ => None,
        }
    }
}

/// Reports whether an address is OpenAI's own, which may name a region: `eu.api.openai.com`.
fn is_openai_address(address: &str) -> bool {
    let url = Url::parse(address).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

/// Returns the name of the preset whose address has this host; for a vendor with several, the first.
pub fn preset_at(host: &str) -> Option<&'static str> {
    let is_there = |known: &&ProviderPreset| {
        let rest = known.base_url.split_once("//").map(|(_, rest)| rest);
        known.key_variable.is_some() && rest.and_then(|rest| rest.split('/').next()) == Some(host)
    };
    PROVIDER_PRESETS.iter().find(is_there).map(|known| known.name)
}

/// Returns the preset with this name.
pub(super) fn find_preset(name: &str) -> Option<&'static ProviderPreset> {
    PROVIDER_PRESETS.iter().find(|known| known.name == name)
}

/// Returns the providers whose key this variable usually contains.
pub fn providers_of_key(variable: &str) -> impl Iterator<Item = &'static str> {
    let holds = move |known: &&ProviderPreset| {
        known.availability != Availability::Configured && known.key_variable == Some(variable)
    };
    PROVIDER_PRESETS.iter().filter(holds).map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_variable_of_a_known_provider() {
        assert_eq!(
            missing_key_hint("groq"),
            "run `agentls login groq`, set GROQ_API_KEY, or put the key into [provider.groq] api_key"
        );
        assert!(
            missing_key_hint("work")
                .starts_with("run `agentls login work`, or set [provider.work] api_key, ")
        );
    }

    #[test]
    fn presets_are_complete_and_unique() {
        for (at, known) in PROVIDER_PRESETS.iter().enumerate() {
            let url = url::Url::parse(known.base_url).unwrap();
            assert_eq!(
                url.scheme() == "http",
                known.key_variable.is_none(),
                "{}",
                known.name
            );
            assert!(!known.base_url.ends_with('/'), "{}", known.name);
            assert!(
                PROVIDER_PRESETS[..at]
                    .iter()
                    .all(|other| other.name != known.name),
                "{}",
                known.name
            );
        }
        assert!(
            PROVIDER_PRESETS[..BY_KEY]
                .iter()
                .all(|known| known.key_variable.is_some())
        );
        assert_eq!(preset_at("api.z.ai"), Some("zai"));
        assert_eq!(preset_at("api.openai.com"), Some("openai"));
        assert_eq!(preset_at("127.0.0.1:1234"), None);
    }
}
