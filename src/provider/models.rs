//! Facts about models: window, output limit, prices and abilities (R-PROV-7).
//!
//! Prices are list prices in US dollars per million tokens. A cost that the provider reports overrides them, and the
//! configuration may override every number. Knows no provider's settings and no network. `catalog` has the facts,
//! `name` takes names apart, `defaults` chooses the models to offer, and `judge` decides whether a name can be a model.

mod catalog;
mod defaults;
mod info;
mod judge;
mod name;
mod search;

pub use self::catalog::{
    CatalogDifference, CatalogDownload, DownloadState, Retirement, catalog_source, compare_download,
    is_deprecated, lookup_retirement, parse_day, set_download_file,
};
pub use self::defaults::{current_day, list_offered_models, list_sibling_models};
pub use self::info::{ModelInfo, ModelOverride};
pub use self::judge::{KnownList, ModelNaming, NameVerdict, check_model_name, suggest_model_names};
pub(crate) use self::name::{claude_version, gpt_version, is_same_model, major_version, plain_name};
pub use self::name::{strip_date, strip_latest};
pub use self::search::SearchFee;
pub(super) use self::search::{is_search_known, search_fee};

pub(super) use self::catalog::{ReasoningField, is_in_section, section_of};
use self::catalog::{catalog, is_closed};
use super::request::Effort;
use crate::domain::Price;

/// The assumed window of an unknown model, in tokens (R-CTX-1).
pub const DEFAULT_WINDOW: u64 = 200_000;

/// The assumed output limit of an unknown model, in tokens. A smaller one would cut off large files, which cannot be
/// continued; an API that allows less says so.
pub const DEFAULT_MAX_OUTPUT: u32 = 32_000;

/// The price of a free model.
pub(super) const FREE: Price = Price {
    input: 0.0,
    output: 0.0,
    cache_read: 0.0,
    cache_write: 0.0,
    tiers: [None; 2],
};

/// Returns what is known about `model`. The name may have a vendor prefix and a date suffix.
pub fn lookup_model(model: &str) -> ModelInfo {
    lookup_model_at(None, model)
}

/// Returns what is known about `model` at the provider with this section of the catalogue.
pub(super) fn lookup_model_at(section: Option<&str>, model: &str) -> ModelInfo {
    let catalog = catalog();
    let found = catalog.find(section, model);
    let mut info = match (found, catalog.find_sibling(model)) {
        (Some(found), _) => {
            let info = found.row.to_model_info();
            ModelInfo {
                price: info.price.filter(|_| found.has_price),
                ..info
            }
        }
        // A sibling's abilities are a good guess; its price is not. That a model accepts no images must be known, because
        // they are left out then.
        (None, Some(sibling)) => ModelInfo {
            price: None,
            images: true,
            ..sibling.to_model_info()
        },
        (None, None) => ModelInfo {
            window: DEFAULT_WINDOW,
            max_output: 0,
            knows_max_output: false,
            price: None,
            reasoning: false,
            images: true,
            documents: false,
            tools: true,
            search: None,
        },
    };
    if !info.knows_max_output {
        info.max_output = DEFAULT_MAX_OUTPUT;
    }
    if model.ends_with(":free") {
        info.price = Some(FREE);
    }
    info
}

/// Returns the field in which the reasoning of `model` must go back within a tool loop.
pub(super) fn reasoning_field(section: &str, model: &str) -> Option<ReasoningField> {
    let catalog = catalog();
    let found = catalog.find(Some(section), model).map(|found| found.row);
    found.or_else(|| catalog.find_sibling(model))?.gives_back
}

/// How a model's reasoning is controlled, as far as the catalogue knows.
pub(super) struct ReasoningControls {
    /// It can be switched off.
    pub(super) has_switch: bool,
    pub(super) has_efforts: bool,
}

/// Returns how the reasoning of `model` is controlled; `None` if that is unknown.
pub(super) fn reasoning_controls(section: &str, model: &str) -> Option<ReasoningControls> {
    let row = catalog().find(Some(section), model)?.row;
    let mut words = row.reasoning.split(' ');
    Some(ReasoningControls {
        has_switch: words.clone().any(|word| word == "toggle"),
        has_efforts: words.any(|word| Effort::from_name(word).is_some()),
    })
}

/// Returns the effort that `model` accepts and that is nearest to `wanted`; of two equally near ones, the lower. Whoever
/// asks for more than the least reasoning gets some. `None` for a model that accepts no such effort: APIs refuse the field
/// then, or would switch reasoning off. A model whose efforts are unknown gets `wanted`.
pub(super) fn nearest_effort(section: &str, model: &str, wanted: Effort) -> Option<Effort> {
    let catalog = catalog();
    let found = catalog.find(Some(section), model).map(|found| found.row);
    if found.is_some_and(|row| ["", "fixed"].contains(&&*row.reasoning)) {
        return None;
    }
    let Some(row) = found.or_else(|| catalog.find_sibling(model)) else {
        return Some(wanted);
    };
    // The catalogue lists the efforts of these models only, but they think on request.
    if wanted == Effort::None && claude_version(model).is_some() && !is_thinking_enabled(model, Some(wanted))
    {
        return Some(wanted);
    }
    let accepted: Vec<Effort> = row.reasoning.split(' ').filter_map(Effort::from_name).collect();
    if accepted.is_empty() {
        return Some(wanted);
    }
    let fits = |effort: &Effort| *effort != Effort::None || wanted <= Effort::Minimal;
    let distance = |effort: &Effort| (*effort as u8).abs_diff(wanted as u8);
    let fitting = accepted.into_iter().filter(fits);
    fitting.min_by_key(|effort| (distance(effort), *effort))
}

/// Reports whether `model` is exactly known, so that its name is not a typo.
fn is_known(model: &str) -> bool {
    catalog().find(None, model).is_some()
}

/// Reports whether `model` reasons before it answers, given `effort`. Old Claude models cannot, 3.7 does on request, those
/// from 4 do unless told otherwise, as in their vendor's own agent, and those from 5 always do. Every other model that can
/// reason always does.
pub fn is_thinking_enabled(model: &str, effort: Option<Effort>) -> bool {
    match claude_version(model) {
        Some((5.., _)) => true,
        _ if effort == Some(Effort::None) => false,
        Some(version) => version >= (4, 0) || (effort.is_some() && version >= (3, 7)),
        None => effort.is_some() || lookup_model(model).reasoning,
    }
}

/// Returns the effort for work that needs no reasoning, such as a summary. Models of other vendors than Claude's may refuse
/// to do without.
pub fn least_effort(model: &str) -> Option<Effort> {
    claude_version(model).map(|_| Effort::None)
}

/// Reports whether `model` accepts PDFs. Decided by family, because the catalogue says it of some members only: Claude
/// from 3, Gemini, and OpenAI's models that accept pictures do.
pub(super) fn reads_documents(model: &str) -> bool {
    let name = plain_name(model);
    let is_openai = ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4"]
        .iter()
        .any(|family| name.starts_with(family));
    claude_version(model).is_some_and(|version| version >= (3, 0))
        || name.starts_with("gemini-")
        || is_openai && lookup_model(model).images
}

/// Returns what is known about `model` on a server in the user's own machine or network. Such a server can only
/// relay a model with closed weights, so that one keeps its price and its output limit. All others are free, and a
/// vendor's limit says nothing about them.
pub(super) fn lookup_local(model: &str) -> ModelInfo {
    let info = lookup_model(model);
    if is_closed(model) {
        info
    } else {
        ModelInfo {
            price: Some(FREE),
            max_output: DEFAULT_MAX_OUTPUT,
            knows_max_output: false,
            ..info
        }
    }
}

/// Where a model's price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// The vendor's list price.
    List,
    Configured,
    /// The model is free: a local engine runs it, or its name says so.
    Free,
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::name::version_pattern;
    use super::*;

    #[test]
    fn table_has_the_specified_prices() {
        for (model, input, output) in [
            ("claude-sonnet-4-20250514", 3.0, 15.0),
            ("claude-opus-4-20250514", 15.0, 75.0),
            ("claude-3-5-haiku-20241022", 0.8, 4.0),
            ("openai/gpt-4o", 2.5, 10.0),
            ("deepseek/deepseek-chat", 0.14, 0.28),
        ] {
            let price = lookup_model(model).price.unwrap();
            assert_eq!((price.input, price.output), (input, output), "{model}");
        }
    }

    #[test]
    fn plain_names_drop_vendor_date_variant_and_region() {
        for (model, name) in [
            ("claude-sonnet-4-20250514", "claude-sonnet-4"),
            ("anthropic/claude-sonnet-4", "claude-sonnet-4"),
            ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
            ("anthropic/claude-3.5-haiku:beta", "claude-3-5-haiku"),
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "claude-sonnet-4-5",
            ),
            ("claude-opus-4-1@20250805", "claude-opus-4-1"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
            ("claude-opus-4-8[1m]", "claude-opus-4-8"),
            ("gpt-4o-2024-11-20", "gpt-4o"),
            ("openai/gpt-4.1-mini", "gpt-4.1-mini"),
            ("qwen3:8b", "qwen3"),
            ("é-20250514", "é"),
            ("20250514", "20250514"),
            ("", ""),
        ] {
            assert_eq!(plain_name(model), name, "{model}");
        }
    }

    #[test]
    fn an_unlisted_model_gets_no_price_from_its_family() {
        let info = lookup_model("gpt-5-ultra");
        assert_eq!((info.price, info.window), (None, 400_000));
        // Nor the lack of images, without which they would be left out.
        assert!(!lookup_model("o3-mini").images && lookup_model("o3-mini-next").images);
        let unknown = lookup_model("made-up");
        assert_eq!((unknown.price, unknown.window), (None, DEFAULT_WINDOW));
        assert_eq!(lookup_model("llama3.1x").window, DEFAULT_WINDOW);
    }

    #[test]
    fn local_and_free_models_cost_nothing() {
        for model in [
            "made-up",
            "gpt-oss:20b",
            "openai/gpt-oss-120b",
            "deepseek-chat",
            "mistral-large:123b",
            "gpt-j-6b",
        ] {
            assert_eq!(lookup_local(model).price, Some(FREE), "{model}");
        }
        assert_eq!(lookup_local("qwen3:latest").window, 40_960);
        assert!(lookup_model("qwen3-8b").knows_max_output && !lookup_local("qwen3-8b").knows_max_output);
        assert_eq!(lookup_model("deepseek/deepseek-chat:free").price, Some(FREE));
    }

    #[test]
    fn an_effort_that_a_model_lacks_becomes_the_nearest() {
        for (section, model, wanted, sent) in [
            ("openai", "gpt-5", Effort::Max, Effort::High),
            ("openai", "gpt-5", Effort::None, Effort::Minimal),
            ("openai", "gpt-6.1-terra", Effort::Minimal, Effort::None),
            ("openai", "gpt-6.1-terra", Effort::XHigh, Effort::XHigh),
            ("anthropic", "claude-sonnet-5-5", Effort::None, Effort::Low),
            ("anthropic", "claude-opus-4-6", Effort::None, Effort::None),
            ("anthropic", "claude-opus-4-6", Effort::Minimal, Effort::Low),
            ("anthropic", "claude-sonnet-4-5", Effort::Max, Effort::Max),
            ("openai", "made-up", Effort::Max, Effort::Max),
            ("mistral", "mistral-medium-2604", Effort::Low, Effort::High),
            ("mistral", "mistral-medium-2604", Effort::Minimal, Effort::None),
        ] {
            assert_eq!(
                nearest_effort(section, model, wanted),
                Some(sent),
                "{model} {wanted:?}"
            );
        }
        // The first two do not reason, the next one always does, and the last one by default.
        for (section, model) in [
            ("openai", "gpt-4o"),
            ("mistral", "mistral-large-2512"),
            ("xai", "grok-build-0.1"),
            ("groq", "qwen/qwen3.6-27b"),
        ] {
            assert_eq!(nearest_effort(section, model, Effort::High), None, "{model}");
        }
    }

    #[test]
    fn a_closed_model_keeps_its_price_at_a_local_address() {
        for model in [
            "claude-sonnet-5",
            "anthropic/claude-opus-4.8",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "vertex_ai/claude-opus-4-1@20250805",
            "openai/gpt-6.1-sol",
            "gpt-4o-2024-11-20",
            "o3",
            "gemini-2.5-pro",
            "x-ai/grok-4.3",
            "mistral-medium-latest",
        ] {
            let price = lookup_local(model).price;
            assert!(
                price.is_some() && price != Some(FREE) && price == lookup_model(model).price,
                "{model}"
            );
        }
        // Only its vendor has the model, so it is not free, but its price is unknown.
        for model in [
            "claude-sonnet-99",
            "gpt-99",
            "o9-mini",
            "gemini-99-ultra",
            "qwen99-max",
        ] {
            assert_eq!(lookup_local(model).price, None, "{model}");
        }
    }

    #[test]
    fn configured_facts_override_the_table() {
        let wins = ModelOverride {
            window: Some(7),
            price: Some(FREE),
            ..Default::default()
        };
        let info = wins.apply(lookup_model("gpt-4o"));
        assert_eq!(
            (info.window, info.price, info.max_output),
            (7, Some(FREE), 16_384)
        );
    }

    #[test]
    fn names_are_split_into_family_and_version() {
        for (model, family, version) in [
            ("claude-sonnet-5-5", "claude-sonnet-*", &[5, 5][..]),
            ("claude-3-7-sonnet-20250219", "claude-*-sonnet", &[3, 7]),
            ("openai/gpt-6.1-sol", "openai/gpt-*-sol", &[6, 1]),
            ("kimi-k2.7-code", "kimi-k*-code", &[2, 7]),
            ("MiniMax-M3", "MiniMax-M*", &[3]),
            ("mistral-medium-2604", "mistral-medium-*", &[2604]),
            ("deepseek-v4-pro-0813", "deepseek-v*-pro", &[4]),
            ("gpt-4-0613", "gpt-*", &[4]),
            ("gpt-oss-120b", "gpt-oss-120b", &[]),
            ("deepseek-flash", "deepseek-flash", &[]),
        ] {
            assert_eq!(
                version_pattern(model),
                (family.to_owned(), version.to_vec()),
                "{model}"
            );
        }
    }

    #[test]
    fn versions_of_gpt_are_read() {
        for (model, version) in [
            ("gpt-5", Some(5)),
            ("openai/gpt-5.3-codex", Some(5)),
            ("gpt-6.1-sol-2026-05-01", Some(6)),
            ("gpt-10", Some(10)),
            ("gpt-4o", Some(4)),
            ("gpt-oss:20b", None),
            ("o4-mini", None),
        ] {
            assert_eq!(gpt_version(model), version, "{model}");
        }
    }

    #[test]
    fn claude_versions_are_read() {
        for (model, version) in [
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("anthropic/claude-opus-4.8", Some((4, 8))),
            ("claude-fable-5-1", Some((5, 1))),
            ("claude-instant", None),
            ("gpt-4o", None),
        ] {
            assert_eq!(claude_version(model), version, "{model}");
        }
    }
}
