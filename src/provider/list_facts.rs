//! A provider's own list of models, and what it says about them: windows, limits, prices, and abilities.
//!
//! Every provider has other fields; what is missing or implausible is left out, so that the catalogue decides. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::models::{ModelOverride, is_same_model, parse_day};
use crate::domain::Price;

/// The fields that contain the window: what an engine has loaded (LM Studio), then by frequency (OpenRouter, Groq, Mistral,
/// vLLM and SGLang, Anthropic, Google).
const WINDOW_FIELDS: [&str; 7] = [
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_model_len",
    "max_input_tokens",
    "inputTokenLimit",
];

/// The fields that contain the output limit (OpenRouter and Groq, others, Anthropic, Google).
const OUTPUT_FIELDS: [&str; 4] = [
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "outputTokenLimit",
];

/// The plausible windows in tokens. Some lists have a 0 for "unknown".
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1_024..=100_000_000;

/// The models that a provider lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelList {
    /// All names, in the provider's order.
    pub names: Vec<String>,
    /// The names of chat models, as far as the list reveals that.
    pub chat: Vec<String>,
    /// What the list says about its models, by name.
    pub facts: BTreeMap<String, ModelOverride>,
    /// The windows that Ollama's Modelfiles set (`num_ctx`), by name.
    pub windows_set: BTreeMap<String, u64>,
    /// The days on which the vendor ends its models, such as `2026-12-11`, by name.
    pub retirements: BTreeMap<String, String>,
}

impl ModelList {
    /// Reports whether the list contains `model`.
    pub fn contains(&self, model: &str) -> bool {
        self.names.iter().any(|name| is_same_model(name, model))
    }

    /// Returns the window of `model`, if the list says it.
    pub fn find_window(&self, model: &str) -> Option<u64> {
        find_entry(&self.facts, model)?.window
    }

    /// Returns the first model that can chat and call tools, as far as the list says.
    pub fn first_agent_model(&self) -> Option<&String> {
        let lacks_tools =
            |name: &str| find_entry(&self.facts, name).is_some_and(|facts| facts.tools == Some(false));
        self.chat.iter().find(|name| !lacks_tools(name))
    }

    /// Returns the chat models that the vendor has not shut down by `today`, in days since the epoch.
    pub fn current_chat_models(&self, today: i64) -> Vec<String> {
        let end = |name: &str| self.retirements.get(name).and_then(|date| parse_day(date));
        let is_current = |name: &&String| end(name).is_none_or(|day| day > today);
        self.chat.iter().filter(is_current).cloned().collect()
    }
}

/// Returns the entry of `model`: of the name itself, or of its tag `latest`, which Ollama's users leave out.
pub(super) fn find_entry<'a, T>(entries: &'a BTreeMap<String, T>, model: &str) -> Option<&'a T> {
    let tagged = || entries.get(&format!("{model}:latest"));
    entries.get(model).or_else(tagged)
}

/// Reads one entry of a list.
pub(super) fn read_facts(entry: &Value) -> ModelOverride {
    // LM Studio says of each model whether it is loaded, and llama.cpp has `meta`. For a model that is not loaded, and in
    // older versions of llama.cpp, they have only the window that it was trained with.
    let meta = &entry["meta"];
    let trained = meta["n_ctx_train"].as_u64();
    let most = entry["max_context_length"].as_u64();
    let trained = trained.or_else(|| most.filter(|_| entry["state"].is_string()));
    let known_names = WINDOW_FIELDS.iter();
    let mut names = known_names.filter(|name| trained.is_none() || **name != "max_context_length");
    let window = names.find_map(|name| entry[*name].as_u64());
    let loaded = meta["n_ctx"].as_u64().filter(|window| *window > 0);
    let window = window.or(loaded);
    // OpenRouter's best provider may have a smaller window than the model.
    let served = entry["top_provider"]["context_length"].as_u64();
    let window = window.map(|window| served.map_or(window, |served| served.min(window)));
    let window = window.filter(|window| PLAUSIBLE.contains(window));
    let outputs = [&entry["top_provider"], entry];
    let output = outputs
        .iter()
        .find_map(|at| OUTPUT_FIELDS.iter().find_map(|name| at[*name].as_u64()));
    let output =
        output.filter(|output| PLAUSIBLE.contains(output) && window.is_none_or(|window| *output <= window));
    let parameters = entry["supported_parameters"].as_array();
    let has_parameter = |name: &str| parameters.map(|all| all.iter().any(|parameter| parameter == name));
    let kinds = entry["architecture"]["input_modalities"].as_array();
    ModelOverride {
        window,
        max_window: trained.filter(|window| PLAUSIBLE.contains(window)),
        max_output: output.and_then(|output| u32::try_from(output).ok()),
        price: read_price(&entry["pricing"]),
        // Google's field.
        reasoning: has_parameter("reasoning").or_else(|| entry["thinking"].as_bool()),
        images: kinds.map(|kinds| kinds.iter().any(|kind| kind == "image")),
        tools: has_parameter("tools"),
        search: None,
    }
}

/// Reads prices as OpenRouter writes them: dollars per token, as text. Other notations are ambiguous.
fn read_price(pricing: &Value) -> Option<Price> {
    let price = |name: &str| {
        let price: f64 = pricing[name].as_str()?.parse().ok()?;
        // A price of -1 means that it depends on the model that a router chooses. Rounding removes the noise of the
        // multiplication.
        (0.0..1.0).contains(&price).then(|| (price * 1e12).round() / 1e6)
    };
    let (input, output) = (price("prompt")?, price("completion")?);
    Some(Price {
        input,
        output,
        cache_read: price("input_cache_read").unwrap_or(input),
        cache_write: price("input_cache_write").unwrap_or(input),
        ..Price::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_are_read_in_the_notations_of_several_providers() {
        let openrouter = json!({
            "id": "z-ai/glm-9", "context_length": 1_000_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "pricing": {"prompt": "0.0000014", "completion": "0.0000044", "input_cache_read": "0.00000026"},
            "top_provider": {"context_length": 200_000, "max_completion_tokens": 65_536},
            "supported_parameters": ["tools", "max_tokens"],
        });
        let price = Price {
            input: 1.4,
            output: 4.4,
            cache_read: 0.26,
            cache_write: 1.4,
            ..Price::default()
        };
        assert_eq!(
            read_facts(&openrouter),
            ModelOverride {
                window: Some(200_000),
                max_window: None,
                max_output: Some(65_536),
                price: Some(price),
                reasoning: Some(false),
                images: Some(true),
                tools: Some(true),
                search: None,
            }
        );
        let sizes = |entry: Value| {
            let facts = read_facts(&entry);
            (facts.window, facts.max_output)
        };
        let groq = json!({"context_window": 131_072, "max_completion_tokens": 32_768});
        assert_eq!(sizes(groq), (Some(131_072), Some(32_768)));
        assert_eq!(sizes(json!({"max_model_len": 40_960})), (Some(40_960), None));
        let llama_cpp = json!({"id": "qwen3", "meta": {"n_ctx": 16_384, "n_ctx_train": 131_072}});
        assert_eq!(sizes(llama_cpp), (Some(16_384), None));
        for meta in [
            json!({"n_ctx_train": 131_072}),
            json!({"n_ctx": 0, "n_ctx_train": 131_072}),
        ] {
            let facts = read_facts(&json!({"id": "qwen3", "meta": meta}));
            assert_eq!((facts.window, facts.max_window), (None, Some(131_072)), "{meta}");
        }
        // A trained maximum is not what is loaded, except in lists that have no other.
        let lm_studio = |state: &str, loaded: Value| {
            let facts = read_facts(
                &json!({"max_context_length": 131_072, "loaded_context_length": loaded, "state": state}),
            );
            (facts.window, facts.max_window)
        };
        assert_eq!(lm_studio("loaded", json!(4_096)), (Some(4_096), Some(131_072)));
        assert_eq!(lm_studio("not-loaded", json!(null)), (None, Some(131_072)));
        assert_eq!(sizes(json!({"max_context_length": 32_768})), (Some(32_768), None));
        assert_eq!(
            sizes(json!({"context_length": 0, "max_tokens": "many"})),
            (None, None)
        );
    }

    #[test]
    fn what_is_shut_down_is_not_current_and_a_name_means_its_latest_tag() {
        let names = ["gpt-old", "gpt-new", "qwen3:latest"].map(str::to_owned);
        let list = ModelList {
            names: names.to_vec(),
            chat: names.to_vec(),
            windows_set: [("qwen3:latest".to_owned(), 9)].into(),
            retirements: [("gpt-old".to_owned(), "1970-01-11".to_owned())].into(),
            ..ModelList::default()
        };
        assert_eq!(list.current_chat_models(9), names);
        assert_eq!(list.current_chat_models(10), names[1..]);
        assert!(
            ["qwen3", "qwen3:latest", "gpt-new"]
                .iter()
                .all(|name| list.contains(name))
        );
        assert!(!list.contains("qwen3:8b"));
        assert_eq!(find_entry(&list.windows_set, "qwen3"), Some(&9));
    }

    #[test]
    fn unclear_facts_are_left_out() {
        let router = json!({"pricing": {"prompt": "-1", "completion": "-1"}});
        assert_eq!(read_facts(&router), ModelOverride::default());
        // Per million tokens, not per token.
        let numbers = json!({"pricing": {"prompt": 0.5, "completion": 1.5}});
        assert_eq!(read_facts(&numbers), ModelOverride::default());
    }
}
