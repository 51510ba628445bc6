//! The catalogue in use: the snapshot, the overlay, and perhaps a download in one, with lookups by name.
//!
//! Knows names and data; reads nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::data::{Catalog, CatalogModel, DownloadState, SECTIONS, Section, VENDORS, parse_day};
use crate::provider::models::name::{is_digit_after, lookup_names, plain_name, version_pattern};

/// What people have added to the snapshot.
#[derive(Deserialize)]
pub(in crate::provider::models) struct Overlay {
    #[serde(flatten)]
    pub(in crate::provider::models) models: Catalog,
    /// The announced days on which vendors end models at their own address, by plain name.
    pub(in crate::provider::models) retirements: BTreeMap<String, String>,
}

/// The catalogue in use.
pub(in crate::provider::models) struct CatalogIndex {
    /// The day of its newest entry.
    pub(in crate::provider::models) date: String,
    pub(in crate::provider::models) download: DownloadState,
    pub(in crate::provider::models) providers: BTreeMap<String, Section>,
    retirements: BTreeMap<String, String>,
    /// Where to find a model, by its plain name.
    pub(in crate::provider::models) by_name: BTreeMap<String, Place>,
}

/// The place of a model in the catalogue.
pub(in crate::provider::models) struct Place {
    /// An index into [`SECTIONS`].
    section: usize,
    id: String,
}

/// A model that was found.
#[derive(Clone, Copy)]
pub(in crate::provider::models) struct FoundModel<'a> {
    pub(in crate::provider::models) row: &'a CatalogModel,
    /// The price is one of the called provider, or the vendor's list price.
    pub(in crate::provider::models) has_price: bool,
}

impl CatalogIndex {
    /// Merges the parts; later ones override earlier ones.
    pub(in crate::provider::models) fn new(
        built_in: Catalog,
        overlay: Overlay,
        newer: Option<Catalog>,
        download: DownloadState,
    ) -> Self {
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
    pub(in crate::provider::models) fn find(
        &self,
        section: Option<&str>,
        model: &str,
    ) -> Option<FoundModel<'_>> {
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
    pub(in crate::provider::models) fn find_sibling(&self, model: &str) -> Option<&CatalogModel> {
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
    pub(in crate::provider::models) fn section(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&str, &CatalogModel)> {
        let rows = self.providers.get(name).into_iter().flatten();
        rows.map(|(id, row)| (id.as_str(), row))
    }

    /// Returns the plain names of all vendors' models.
    pub(in crate::provider::models) fn vendor_names(&self) -> impl Iterator<Item = &str> {
        let names = self.by_name.iter().filter(|(_, place)| place.section < VENDORS);
        names.map(|(name, _)| name.as_str())
    }

    pub(in crate::provider::models) fn retirement_of(&self, name: &str) -> Option<Retirement<'_>> {
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

/// Reports whether the weights of `model` are closed, so that any other server only relays it.
pub(in crate::provider::models) fn is_closed(model: &str) -> bool {
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
