//! The data of the catalogue in the compact form that is stored. Plain data; knows no lookups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{Price, PriceTier};
use crate::provider::classify::days_since_epoch;
use crate::provider::models::info::ModelInfo;

/// The sections of the catalogue, by models.dev's names. Where several have a model, the first one counts.
pub(in crate::provider::models) const SECTIONS: [&str; 19] = [
    // The vendors, whose prices are list prices.
    "anthropic",
    "openai",
    "google",
    "deepseek",
    "mistral",
    "xai",
    "zai",
    "moonshotai",
    "alibaba",
    "minimax",
    // Hosts of others' models.
    "groq",
    "cerebras",
    "togetherai",
    "fireworks-ai",
    "deepinfra",
    "huggingface",
    "nvidia",
    "openrouter",
    // Names that only Ollama uses; see the overlay.
    "ollama",
];

/// How many of [`SECTIONS`] are vendors.
pub(in crate::provider::models) const VENDORS: usize = 10;

/// Reduced model data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::provider::models) struct Catalog {
    /// The day of the newest entry, such as `2026-09-30`.
    pub(in crate::provider::models) date: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::provider::models) providers: BTreeMap<String, Section>,
}

/// The models of a provider by the names that it uses.
pub(in crate::provider::models) type Section = BTreeMap<String, CatalogModel>;

/// The facts about one model that can use tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::provider::models) struct CatalogModel {
    /// Tokens that fit into a prompt and its answer together.
    pub(in crate::provider::models) window: u64,
    /// The most tokens in one answer; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) output: u32,
    /// Input, output, cache read, and cache write, in US dollars per million tokens. The last two may be absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) price: Vec<f64>,
    /// Prices for prompts above a size: that size, then as in `price`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) tiers: Vec<Vec<f64>>,
    /// How its reasoning is controlled: its efforts, `toggle`, `budget`, or `fixed`; empty if it does not reason.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) reasoning: String,
    /// The field in which its reasoning must go back within a tool loop.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) gives_back: Option<ReasoningField>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) images: bool,
    /// The day of its release.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) released: String,
    /// Its provider advises against it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(in crate::provider::models) deprecated: bool,
}

/// The field of a message that carries reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::provider) enum ReasoningField {
    ReasoningContent,
    ReasoningDetails,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl CatalogModel {
    /// Converts the row to the facts. Every model in the catalogue can use tools.
    pub(in crate::provider::models) fn to_model_info(&self) -> ModelInfo {
        ModelInfo {
            window: self.window,
            max_output: self.output,
            knows_max_output: self.output > 0,
            price: self.list_price(),
            reasoning: !self.reasoning.is_empty(),
            images: self.images,
            documents: false,
            tools: true,
            search: None,
        }
    }

    /// Returns the price; `None` if it is unknown.
    pub(in crate::provider::models) fn list_price(&self) -> Option<Price> {
        let [input, output, cache_read, cache_write] = read_prices(&self.price)?;
        let mut tiers = self.tiers.iter().filter_map(|tier| {
            let (above, prices) = tier.split_first()?;
            let [input, output, cache_read, cache_write] = read_prices(prices)?;
            Some(PriceTier {
                above: *above as u64,
                input,
                output,
                cache_read,
                cache_write,
            })
        });
        Some(Price {
            input,
            output,
            cache_read,
            cache_write,
            tiers: [tiers.next(), tiers.next()],
        })
    }
}

/// Reads prices. Without prices of its own, the cache costs as much as other input.
fn read_prices(prices: &[f64]) -> Option<[f64; 4]> {
    let (input, output) = (*prices.first()?, *prices.get(1)?);
    let cached = |at: usize| prices.get(at).copied().unwrap_or(input);
    Some([input, output, cached(2), cached(3)])
}

/// What became of the downloaded catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadState {
    /// There is none.
    Absent,
    /// It is in use.
    Used {
        /// The day on which it was fetched.
        fetched: String,
        /// Where it came from.
        from: String,
    },
    /// The built-in catalogue is newer than the downloaded one.
    Older {
        /// The day of its newest entry.
        date: String,
    },
    /// It cannot be read; contains the reason.
    Unreadable(String),
}

/// Returns the day of a date like `2026-12-11`, in days since the epoch.
pub fn parse_day(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-').map(str::parse);
    let mut part = || parts.next()?.ok();
    days_since_epoch(part()?, part()?, part()?)
}
