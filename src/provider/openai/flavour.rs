//! Tells servers with this API apart, by address or name. Must not know what depends on it; see `encode`.

use serde_json::json;
use url::Url;

use crate::config::Verbosity;
use crate::provider::account::{ProviderAccount, is_openai_model};
use crate::provider::azure::is_azure_host;
use crate::provider::models::{plain_name, reasoning_controls};
use crate::provider::request::{Effort, ModelRequest};
use crate::provider::request_part::{OptionalField, RequestPart};

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

/// The field with which a vendor's models switch their reasoning, in place of an effort `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwitchField {
    /// `"thinking": {"type": "disabled"}`
    Thinking,
    /// `"enable_thinking": false`
    EnableThinking,
}

/// The vendors whose models have a switch, by their section of the catalogue. Sources: api-docs.deepseek.com,
/// docs.z.ai, and platform.kimi.ai (thinking modes), help.aliyun.com/model-studio (deep thinking).
const SWITCH_FIELDS: [(&str, SwitchField); 4] = [
    ("alibaba", SwitchField::EnableThinking),
    ("deepseek", SwitchField::Thinking),
    ("moonshotai", SwitchField::Thinking),
    ("zai", SwitchField::Thinking),
];

/// The switch of a model's reasoning at its vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReasoningSwitch {
    field: SwitchField,
    /// The model takes an effort too.
    has_efforts: bool,
}

impl ReasoningSwitch {
    /// Returns the switch of `model` at the vendor with this section of the catalogue; `None` if it has none.
    pub(crate) fn find(section: &str, model: &str) -> Option<Self> {
        let (_, field) = SWITCH_FIELDS.iter().find(|(name, _)| *name == section)?;
        let controls = reasoning_controls(section, model)?;
        controls.has_switch.then_some(Self {
            field: *field,
            has_efforts: controls.has_efforts,
        })
    }

    /// Returns the options that request `effort`.
    pub(super) fn build_options(self, effort: Effort) -> Vec<OptionalField> {
        let is_on = effort != Effort::None;
        let switch = match self.field {
            SwitchField::Thinking => {
                let word = if is_on { "enabled" } else { "disabled" };
                (RequestPart::Thinking, "thinking", json!({"type": word}))
            }
            SwitchField::EnableThinking => (RequestPart::Thinking, "enable_thinking", json!(is_on)),
        };
        let level = (is_on && self.has_efforts)
            .then(|| (RequestPart::Effort, "reasoning_effort", json!(effort.name())));
        std::iter::once(switch).chain(level).collect()
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

/// Returns the verbosity to request at `base`: the configured one, or `low` where OpenAI's models are known to accept it.
/// Its Codex and chat models accept only their own.
pub(crate) fn choose_verbosity(
    configured: Option<Verbosity>,
    base: &Url,
    request: &ModelRequest,
) -> Option<&'static str> {
    if let Some(configured) = configured {
        return configured.wire_name();
    }
    let name = plain_name(&request.model);
    let version = name.strip_prefix("gpt-")?.split(['.', '-']).next()?;
    let is_current = version.parse::<u32>().is_ok_and(|version| version >= 5);
    let has_fixed = name.contains("codex") || name.contains("chat");
    let is_openai = base.host_str() == Some("api.openai.com");
    (is_openai && is_current && !has_fixed).then_some("low")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::request::tests::build_request;
    use serde_json::Value;

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
    fn vendors_switch_reasoning_with_their_own_field() {
        let (on, off) = (json!({"type": "enabled"}), json!({"type": "disabled"}));
        for (section, model, effort, expected) in [
            ("zai", "glm-4.7", Effort::None, vec![("thinking", off.clone())]),
            ("zai", "glm-5", Effort::High, vec![("thinking", on.clone())]),
            (
                "moonshotai",
                "kimi-k2.6",
                Effort::None,
                vec![("thinking", off.clone())],
            ),
            (
                "deepseek",
                "deepseek-v4-pro",
                Effort::None,
                vec![("thinking", off)],
            ),
            (
                "deepseek",
                "deepseek-v4-pro",
                Effort::High,
                vec![("thinking", on), ("reasoning_effort", json!("high"))],
            ),
            (
                "alibaba",
                "qwen3.7-plus",
                Effort::None,
                vec![("enable_thinking", json!(false))],
            ),
            (
                "alibaba",
                "qwen3.8-max",
                Effort::Low,
                vec![
                    ("enable_thinking", json!(true)),
                    ("reasoning_effort", json!("low")),
                ],
            ),
        ] {
            let switch = ReasoningSwitch::find(section, model).unwrap();
            let options: Vec<(&str, Value)> = switch
                .build_options(effort)
                .into_iter()
                .map(|(_, key, value)| (key, value))
                .collect();
            assert_eq!(options, expected, "{model} {effort:?}");
        }
        // They always reason, or their vendor documents no switch, or another host serves them.
        for (section, model) in [
            ("zai", "glm-5.3"),
            ("moonshotai", "kimi-k3"),
            ("moonshotai", "kimi-k2.7-code"),
            ("zai", "made-up"),
            ("openrouter", "z-ai/glm-4.7"),
        ] {
            assert_eq!(ReasoningSwitch::find(section, model), None, "{section} {model}");
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
            let request = build_request(model, Vec::new());
            assert_eq!(
                choose_verbosity(configured, base, &request),
                sent,
                "{model} {base}"
            );
        }
    }
}
