//! Presets of well-known providers: what their name alone implies. Knows no models.

use super::api_kind::ApiKind;

/// The defaults of a well-known provider.
pub(super) struct ProviderPreset {
    pub(super) name: &'static str,
    pub(super) kind: ApiKind,
    pub(super) base_url: &'static str,
    /// The variable that usually contains the key; `None` if the provider needs none.
    pub(super) key_variable: Option<&'static str>,
    /// It can be selected without being configured.
    pub(super) offered: bool,
}

const fn new_keyed_preset(name: &'static str, base_url: &'static str, key: &'static str) -> ProviderPreset {
    ProviderPreset {
        name,
        kind: ApiKind::OpenAi,
        base_url,
        key_variable: Some(key),
        offered: true,
    }
}

const fn new_local_preset(name: &'static str, base_url: &'static str) -> ProviderPreset {
    ProviderPreset {
        name,
        kind: ApiKind::OpenAi,
        base_url,
        key_variable: None,
        offered: true,
    }
}

/// The presets. A key in the environment can select the first [`BY_KEY`], in this order.
pub(super) const PROVIDER_PRESETS: [ProviderPreset; 12] = [
    ProviderPreset {
        name: "anthropic",
        kind: ApiKind::Anthropic,
        base_url: "https://api.anthropic.com",
        key_variable: Some("ANTHROPIC_API_KEY"),
        offered: true,
    },
    new_keyed_preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    new_keyed_preset("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    new_local_preset("ollama", "http://127.0.0.1:11434/v1"),
    new_keyed_preset("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    new_keyed_preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    new_keyed_preset("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    new_keyed_preset("eachlabs", "https://api.eachlabs.ai/v1", "EACHLABS_API_KEY"),
    new_local_preset("lmstudio", "http://127.0.0.1:1234/v1"),
    new_local_preset("vllm", "http://127.0.0.1:8000/v1"),
    new_local_preset("llamacpp", "http://127.0.0.1:8080/v1"),
    // The other API of `openai`, with the same key.
    ProviderPreset {
        name: "openai-responses",
        kind: ApiKind::Responses,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        offered: false,
    },
];

/// How many presets of [`PROVIDER_PRESETS`] a key in the environment can select without any configuration.
pub(super) const BY_KEY: usize = 3;

/// Variables that usually contain API keys. No child process gets them, unless `pass_env` lists them.
pub const KEY_VARIABLES: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "EACHLABS_API_KEY",
];

/// Returns the preset with this name.
pub(super) fn find_preset(name: &str) -> Option<&'static ProviderPreset> {
    PROVIDER_PRESETS.iter().find(|known| known.name == name)
}

/// Returns the providers whose key this variable usually contains.
pub fn providers_of_key(variable: &str) -> impl Iterator<Item = &'static str> {
    let holds = move |known: &&ProviderPreset| known.offered && known.key_variable == Some(variable);
    PROVIDER_PRESETS.iter().filter(holds).map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_variable_is_kept_from_children() {
        let offered = PROVIDER_PRESETS.iter().filter(|known| known.offered);
        let named: Vec<_> = offered.filter_map(|known| known.key_variable).collect();
        assert_eq!(named, KEY_VARIABLES);
        assert!(
            PROVIDER_PRESETS
                .iter()
                .filter_map(|known| known.key_variable)
                .all(|name| KEY_VARIABLES.contains(&name))
        );
        assert!(
            PROVIDER_PRESETS[..BY_KEY]
                .iter()
                .all(|known| known.key_variable.is_some())
        );
    }
}
