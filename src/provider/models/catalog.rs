//! The catalogue of models: the built-in snapshot, and a newer one that the user has downloaded.
//!
//! The snapshot is `catalog/snapshot.json`, which `catalog/reduce.rs` makes from models.dev. `catalog/overlay.toml` has
//! what the snapshot lacks. Both are decoded at the first lookup. Owns the catalogue in use; `index` has the lookups.
//! Knows no settings, no network, and no fallback for unknown models: see the parent module.

mod data;
mod download;
mod index;
mod reduce;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use self::data::Catalog;
pub(super) use self::data::CatalogModel;
pub(in crate::provider) use self::data::ReasoningField;
pub use self::data::{DownloadState, parse_day};
pub use self::download::{CatalogDifference, CatalogDownload};
pub use self::index::Retirement;
pub(super) use self::index::is_closed;
use self::index::{CatalogIndex, Overlay};
use super::name::plain_name;

/// The sections of providers that have another name in agentls than in models.dev, or none of their own.
const SECTION_NAMES: [(&str, &str); 11] = [
    ("gemini", "google"),
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

/// Returns whether a section contains exactly this name. Where every name has a vendor, none without one can exist;
/// otherwise `None`, because a catalogue is never complete.
pub(in crate::provider) fn is_in_section(section: &str, model: &str) -> Option<bool> {
    let mut has_names = false;
    let mut have_vendors = true;
    for (name, _) in catalog().section(section) {
        if name == model {
            return Some(true);
        }
        has_names = true;
        have_vendors &= name.contains('/');
    }
    (has_names && have_vendors && !model.contains('/')).then_some(false)
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

/// Compares downloaded data with the catalogue in use.
pub fn compare_download(download: &CatalogDownload) -> CatalogDifference {
    let built_in = CatalogIndex::new(read_built_in(), read_overlay(), None, DownloadState::Absent);
    download.compare(&CATALOG, &built_in)
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

#[cfg(test)]
pub(in crate::provider) use self::tests::overlay_day;

#[cfg(test)]
mod tests;
