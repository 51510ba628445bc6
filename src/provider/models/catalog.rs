//! The catalogue of models: the built-in snapshot, and a newer one that the user has downloaded.
//!
//! The snapshot is `catalog/snapshot.json`, which `catalog/reduce.rs` makes from models.dev. `catalog/overlay.toml` has
//! what the snapshot lacks. Both are decoded at the first lookup. Owns names and lookups; knows no settings, no
//! network, and no fallback for unknown models: see the parent module.

mod download;
mod reduce;
mod row;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};

pub use self::download::{CatalogDownload, DownloadState};
pub(in crate::provider) use self::row::ReasoningField;
pub(super) use self::row::{CatalogModel, Section};
use super::name::{is_digit_after, lookup_names, plain_name, version_pattern};
use crate::provider::classify::days_since_epoch;

/// The sections of the catalogue, by models.dev's names. Where several have a model, the first one counts.
const SECTIONS: [&str; 19] = [
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

/// The sections of providers that have another name in agentls than in models.dev, or none of their own.
const SECTION_NAMES: [(&str, &str); 10] = [
    ("openai-responses", "openai"),
    ("alibaba-cn", "alibaba"),
    ("fireworks", "fireworks-ai"),
    ("kimi-code", "moonshotai"),
    ("minimax-cn", "minimax"),
    ("moonshot", "moonshotai"),
    ("moonshot-cn", "moonshotai"),
    ("together", "togetherai"),
    ("zai-coding-plan", "zai"),
    ("zhipuai", "zai"),
];

/// How many of [`SECTIONS`] are vendors.
const VENDORS: usize = 10;

/// Reduced model data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Catalog {
    /// The day of the newest entry, such as `2026-09-30`.
    pub(super) date: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) providers: BTreeMap<String, Section>,
}

/// What people have added to the snapshot.
#[derive(Deserialize)]
struct Overlay {
    #[serde(flatten)]
    models: Catalog,
    /// The announced days on which vendors end models at their own address, by plain name.
    retirements: BTreeMap<String, String>,
}

/// The catalogue in use.
pub(super) struct CatalogIndex {
    /// The day of its newest entry.
    pub(super) date: String,
    pub(super) download: DownloadState,
    providers: BTreeMap<String, Section>,
    retirements: BTreeMap<String, String>,
    /// Where to find a model, by its plain name.
    by_name: BTreeMap<String, Place>,
}

/// The place of a model in the catalogue.
struct Place {
    /// An index into [`SECTIONS`].
    section: usize,
    id: String,
}

/// A model that was found.
#[derive(Clone, Copy)]
pub(super) struct FoundModel<'a> {
    pub(super) row: &'a CatalogModel,
    /// The price is one of the called provider, or the vendor's list price.
    pub(super) has_price: bool,
}

static DOWNLOAD_FILE: OnceLock<PathBuf> = OnceLock::new();

static CATALOG: LazyLock<CatalogIndex> = LazyLock::new(|| {
    let built_in = read_built_in();
    let overlay = read_overlay();
    match DOWNLOAD_FILE.get() {
        Some(file) => download::load(file, built_in, overlay),
        None => CatalogIndex::new(built_in, overlay, None, DownloadState::Absent),
    }
});

/// Names the file of the downloaded catalogue. Has an effect only before the first lookup.
pub fn set_download_file(file: PathBuf) {
    // A second call comes only from tests that start several servers in one process.
    let _ = DOWNLOAD_FILE.set(file);
}

/// Returns the catalogue in use, decoded at the first call.
pub(super) fn catalog() -> &'static CatalogIndex {
    &CATALOG
}

/// Returns the section of a provider that agentls knows by this name; the name itself for others.
pub(in crate::provider) fn section_of(provider: &str) -> &str {
    let known = SECTION_NAMES.iter().find(|(name, _)| *name == provider);
    known.map_or(provider, |(_, section)| section)
}

/// Returns the date of the catalogue in use, and what became of a downloaded one.
pub fn catalog_source() -> (&'static str, &'static DownloadState) {
    (&CATALOG.date, &CATALOG.download)
}

fn read_built_in() -> Catalog {
    const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/catalog.gz"));
    let mut text = String::new();
    let decoded = flate2::read::GzDecoder::new(PACKED).read_to_string(&mut text);
    // A test decodes the same bytes, so this cannot fail in a built program.
    let parsed = decoded.ok().and_then(|_| serde_json::from_str(&text).ok());
    parsed.unwrap_or_default()
}

fn read_overlay() -> Overlay {
    let empty = Overlay {
        models: Catalog::default(),
        retirements: BTreeMap::new(),
    };
    // Tested like the snapshot.
    toml::from_str(include_str!("catalog/overlay.toml")).unwrap_or(empty)
}

impl CatalogIndex {
    /// Merges the parts; later ones override earlier ones.
    fn new(built_in: Catalog, overlay: Overlay, newer: Option<Catalog>, download: DownloadState) -> Self {
        let mut date = built_in.date;
        let mut providers = built_in.providers;
        let newer_date = newer.as_ref().map(|newer| newer.date.clone());
        let newer = newer.map(|newer| newer.providers).unwrap_or_default();
        for (provider, section) in overlay.models.providers.into_iter().chain(newer) {
            providers.entry(provider).or_default().extend(section);
        }
        date = newer_date.unwrap_or(date);
        let by_name = index_names(&providers);
        Self {
            date,
            download,
            providers,
            retirements: overlay.retirements,
            by_name,
        }
    }

    /// Returns what the section of a provider says about `model`, or else another section.
    pub(super) fn find(&self, section: Option<&str>, model: &str) -> Option<FoundModel<'_>> {
        let own = section.and_then(|section| self.providers.get(section));
        let untagged = model.split(':').next().unwrap_or(model);
        let own = own.and_then(|own| own.get(model).or_else(|| own.get(untagged)));
        if let Some(row) = own {
            return Some(FoundModel { row, has_price: true });
        }
        lookup_names(model).iter().find_map(|name| self.find_plain(name))
    }

    /// Returns the model with this plain name.
    fn find_plain(&self, name: &str) -> Option<FoundModel<'_>> {
        let place = self.by_name.get(name)?;
        let row = self.providers.get(SECTIONS[place.section])?.get(&place.id)?;
        let has_price = place.section < VENDORS;
        Some(FoundModel { row, has_price })
    }

    /// Returns a model whose facts are a good guess for `model`: the one whose name `model` extends, or else the newest
    /// version of the same vendor's family. Its price is not a good guess.
    pub(super) fn find_sibling(&self, model: &str) -> Option<&CatalogModel> {
        let name = plain_name(model);
        let mut start = name.as_str();
        // The dash matters: `gpt-50` is not a sibling of `gpt-5`.
        while let Some((shorter, _)) = start.rsplit_once('-') {
            if let Some(found) = self.find_plain(shorter) {
                return Some(found.row);
            }
            start = shorter;
        }
        if !is_closed(&name) {
            return None;
        }
        let (pattern, _) = version_pattern(&name);
        let siblings = self.by_name.iter().filter_map(|(known, place)| {
            let (of, version) = version_pattern(known);
            (place.section < VENDORS && of == pattern).then_some((version, known))
        });
        let (_, newest) = siblings.max()?;
        self.find_plain(newest).map(|found| found.row)
    }

    /// Returns the models of a section; nothing for an unknown one.
    pub(super) fn section(&self, name: &str) -> impl Iterator<Item = (&str, &CatalogModel)> {
        let rows = self.providers.get(name).into_iter().flatten();
        rows.map(|(id, row)| (id.as_str(), row))
    }

    /// Returns the plain names of all vendors' models.
    pub(super) fn vendor_names(&self) -> impl Iterator<Item = &str> {
        let names = self.by_name.iter().filter(|(_, place)| place.section < VENDORS);
        names.map(|(name, _)| name.as_str())
    }

    fn retirement_of(&self, name: &str) -> Option<Retirement<'_>> {
        let date = self.retirements.get(name)?;
        Some(Retirement {
            date,
            day: parse_day(date)?,
        })
    }
}

/// Indexes all models by plain name. A name that is plain already wins over one with a date, then the earlier section.
fn index_names(providers: &BTreeMap<String, Section>) -> BTreeMap<String, Place> {
    let mut by_name = BTreeMap::new();
    for (section, name) in SECTIONS.iter().enumerate() {
        let ids = providers.get(*name).into_iter().flat_map(BTreeMap::keys);
        let (plain, derived): (Vec<&String>, Vec<&String>) =
            ids.partition(|id| plain_name(id) == id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase());
        for id in plain.into_iter().chain(derived) {
            let place = Place {
                section,
                id: id.clone(),
            };
            by_name.entry(plain_name(id)).or_insert(place);
        }
    }
    by_name
}

/// The day on which a vendor retires a model. From that day on it counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retirement<'a> {
    /// As announced: `2026-12-11`.
    pub date: &'a str,
    /// Days since the epoch, UTC.
    pub day: i64,
}

/// Returns when its vendor retires `model`; `None` if no date is known.
pub fn lookup_retirement(model: &str) -> Option<Retirement<'static>> {
    catalog().retirement_of(&plain_name(model))
}

/// Reports whether its vendor advises against `model` without having announced a day.
pub fn is_deprecated(model: &str) -> bool {
    catalog()
        .find(None, model)
        .is_some_and(|found| found.has_price && found.row.deprecated)
}

/// Returns the day of a date like `2026-12-11`, in days since the epoch.
pub fn parse_day(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-').map(str::parse);
    let mut part = || parts.next()?.ok();
    days_since_epoch(part()?, part()?, part()?)
}

/// Reports whether the weights of `model` are closed, so that any other server only relays it.
pub(super) fn is_closed(model: &str) -> bool {
    let name = plain_name(model);
    let hosted_only = ["claude", "chatgpt-", "gemini", "grok-", "mistral-medium"];
    // Only numbered GPTs: gpt-oss and gpt-j have open weights.
    let numbered = |family: &str| is_digit_after(&name, family);
    // Qwen hosts only these; its other models are open.
    let qwen = name.starts_with("qwen") && (name.ends_with("-max") || name.ends_with("-plus"));
    hosted_only.iter().any(|family| name.starts_with(family))
        || numbered("gpt-")
        || is_o_series(&name)
        || qwen
}

/// Recognizes `o1`, `o3-mini`, ….
fn is_o_series(name: &str) -> bool {
    let family = name.split('-').next().unwrap_or_default();
    family.len() == 2 && is_digit_after(family, "o")
}

#[cfg(test)]
pub(in crate::provider) use self::tests::overlay_day;

#[cfg(test)]
mod tests;
