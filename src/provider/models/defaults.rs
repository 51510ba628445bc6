//! Chooses the models to offer for a provider, by role and not by name, so that no list of names goes stale.
//!
//! The default is the newest of the capable models at a medium price that think. The catalogue decides which family that
//! is, and the provider's own list, if it is known, which version. Requests nothing itself: see `probe` for the list.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::catalog::{CatalogModel, catalog, lookup_retirement, parse_day, section_of};
use super::name::version_pattern;
use crate::base::clock;

/// A medium price: at most this many US dollars per million output tokens.
const MEDIUM_PRICE: f64 = 15.0;

/// A model is as capable as the most expensive one at a medium price if it costs at least this share of it.
const CAPABLE_SHARE: f64 = 0.6;

/// A family is current if its newest version is at most this many days older than the provider's newest model.
const CURRENT_DAYS: i64 = 180;

/// The most models that are offered for a provider, and vendors for a gateway.
const MAX_OFFERED: usize = 5;

/// Words in names of models that are not for everyone, or that change without notice.
#[rustfmt::skip]
const UNSTABLE_WORDS: [&str; 16] = [
    "preview", "beta", "exp", "latest", "fast", "highspeed", "free", "image", "live", "vision", "cyber",
    "safeguard", "non", "thinking", "customtools", "search",
];

/// A gateway, and what it puts before the names of the vendors that it offers first.
const GATEWAY: &str = "openrouter";
const GATEWAY_VENDORS: [&str; MAX_OFFERED] = ["anthropic/", "openai/", "google/", "deepseek/", "z-ai/"];

/// A vendor that also serves the models of others, and what the names of its own begin with.
const RESELLER: &str = "alibaba";
const RESELLER_PREFIX: &str = "qwen";

/// The provider names that stand for the vendors' own addresses, where retirements apply.
const PROVIDERS_WITH_RETIREMENTS: [&str; 4] = ["anthropic", "openai", "openai-responses", "deepseek"];

/// Returns today in days since the epoch, UTC.
pub fn current_day() -> i64 {
    clock::wall_ms().div_euclid(86_400_000)
}

/// Returns the models to offer for a provider that agentls knows by name: the default, the cheapest, then others;
/// nothing for other providers. `list` is the provider's own list, if known. `today` is in days since the epoch; models
/// retired by then are omitted.
pub fn list_offered_models(provider: &str, list: Option<&[String]>, today: i64) -> Vec<String> {
    let section = section_of(provider);
    let is_retired = |name: &str| is_retired_at(provider, name, today);
    let families: Vec<Family> = if section == GATEWAY {
        let ranked = GATEWAY_VENDORS
            .iter()
            .map(|vendor| rank_families(section, vendor, is_retired));
        let (mut defaults, mut others) = (Vec::new(), Vec::new());
        for families in ranked {
            let mut families = families.into_iter();
            defaults.extend(families.next());
            others.extend(families);
        }
        defaults.into_iter().chain(others).collect()
    } else {
        let own = if section == RESELLER { RESELLER_PREFIX } else { "" };
        rank_families(section, own, is_retired)
    };
    let mut offered = find_newest_models(section, &families, list, is_retired);
    offered.truncate(MAX_OFFERED);
    offered
}

/// Returns all current models that may do the simple work of `model` at a provider that agentls knows by name: of the same
/// vendor and line, such as `gpt` or `gemini`, and no larger variant. See [`list_offered_models`] for `list` and `today`.
pub fn list_sibling_models(provider: &str, model: &str, list: Option<&[String]>, today: i64) -> Vec<String> {
    let section = section_of(provider);
    let is_retired = |name: &str| is_retired_at(provider, name, today);
    let prefix = match model.split_once('/') {
        Some((vendor, _)) => format!("{vendor}/"),
        None if section == RESELLER => RESELLER_PREFIX.to_owned(),
        None => String::new(),
    };
    let families = rank_families(section, &prefix, is_retired);
    let mut found = find_newest_models(section, &families, list, is_retired);
    found.retain(|name| first_word(name) == first_word(model) && !name.split('-').any(|word| word == "pro"));
    found
}

/// Returns the first word of a model's name, without its vendor: `gemini` of `google/gemini-3.8-flash`.
fn first_word(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let end = name.find(|letter: char| !letter.is_ascii_alphabetic());
    end.map_or(name, |end| &name[..end])
}

fn is_retired_at(provider: &str, model: &str, today: i64) -> bool {
    let own_address = PROVIDERS_WITH_RETIREMENTS.contains(&provider);
    own_address && lookup_retirement(model).is_some_and(|end| end.day <= today)
}

/// Returns the newest model of each family, in their order.
fn find_newest_models(
    section: &str,
    families: &[Family],
    list: Option<&[String]>,
    is_retired: impl Fn(&str) -> bool + Copy,
) -> Vec<String> {
    let newest = |names: &[&str]| -> Vec<String> {
        let newest = find_newest_versions(names, is_retired);
        let found = families.iter().filter_map(|family| newest.get(&family.pattern));
        found.map(|(.., name)| (*name).to_owned()).collect()
    };
    let listed: Vec<&str> = list.unwrap_or_default().iter().map(String::as_str).collect();
    let listed = newest(&listed);
    if !listed.is_empty() {
        return listed;
    }
    // A list without any of these families says nothing, so the catalogue decides.
    newest(&catalog().section(section).map(|(id, _)| id).collect::<Vec<_>>())
}

/// A family of models, such as `claude-sonnet-*`.
struct Family {
    pattern: String,
    /// The price of output of its newest version.
    price: f64,
    /// The day on which its newest version was released; `None` if it is newer than the snapshot.
    released: Option<i64>,
}

/// Returns the current families of models that think, the default one first, then the cheapest, then by falling price.
fn rank_families(section: &str, prefix: &str, is_retired: impl Fn(&str) -> bool) -> Vec<Family> {
    let mut newest: BTreeMap<String, (Vec<u32>, Family)> = BTreeMap::new();
    let stable = catalog()
        .section(section)
        .filter(|(id, row)| id.starts_with(prefix) && is_offerable(id, row) && !is_retired(id));
    for (id, row) in stable {
        let (pattern, version) = version_pattern(id);
        let family = Family {
            pattern: pattern.clone(),
            price: row.list_price().map_or(0.0, |price| price.output),
            released: release_day(row),
        };
        match newest.get(&pattern) {
            Some((known, _)) if *known >= version => {}
            _ => {
                newest.insert(pattern, (version, family));
            }
        }
    }
    let mut families: Vec<Family> = newest.into_values().map(|(_, family)| family).collect();
    let latest = families.iter().filter_map(|family| family.released).max();
    let is_current = |family: &Family| {
        family
            .released
            .zip(latest)
            .is_none_or(|(day, latest)| latest - day <= CURRENT_DAYS)
    };
    families.retain(is_current);
    // Of those at the lowest price, the plainest and newest comes last.
    families.sort_by(|a, b| {
        let released = |family: &Family| family.released.unwrap_or(i64::MAX);
        let by_price = b.price.total_cmp(&a.price);
        let by_name = by_price.then(b.pattern.len().cmp(&a.pattern.len()));
        by_name.then(released(a).cmp(&released(b)))
    });
    // If even the cheapest is expensive, it is the default.
    let medium = families
        .iter()
        .find(|family| family.price <= MEDIUM_PRICE)
        .or(families.last());
    let Some(limit) = medium.map(|family| family.price) else {
        return families;
    };
    let is_capable = |family: &Family| family.price <= limit && family.price >= limit * CAPABLE_SHARE;
    let capable = families
        .iter()
        .enumerate()
        .filter(|(_, family)| is_capable(family));
    let newest = capable
        .max_by_key(|(_, family)| (family.released.unwrap_or(i64::MAX), Reverse(family.pattern.len())));
    let default = families.remove(newest.map_or(0, |(at, _)| at));
    let cheapest = families.pop();
    [Some(default), cheapest]
        .into_iter()
        .flatten()
        .chain(families)
        .collect()
}

/// Returns the day of a release; `None` for a model that is newer than the snapshot.
fn release_day(row: &CatalogModel) -> Option<i64> {
    let date = row.released.as_str();
    // Of some old models, only the month is known.
    let day = parse_day(date).or_else(|| parse_day(&format!("{date}-01")));
    (!date.is_empty()).then(|| day.unwrap_or_default())
}

/// Reports whether a model is stable, priced, and thinks.
fn is_offerable(id: &str, row: &CatalogModel) -> bool {
    let name = id.to_ascii_lowercase();
    let is_unstable = name.contains(':')
        || name
            .split(['-', '/', '.'])
            .any(|word| UNSTABLE_WORDS.contains(&word));
    let is_priced = row.list_price().is_some_and(|price| price.output > 0.0);
    !is_unstable && is_priced && !row.deprecated && !row.reasoning.is_empty()
}

/// Returns the newest version of each family among `names`, by the family's pattern.
fn find_newest_versions<'a>(
    names: &[&'a str],
    is_retired: impl Fn(&str) -> bool,
) -> BTreeMap<String, (Vec<u32>, Reverse<usize>, &'a str)> {
    let mut newest = BTreeMap::new();
    for name in names.iter().filter(|name| !is_retired(name)) {
        let (pattern, version) = version_pattern(name);
        // Of equal versions the shorter name wins: the one without a date.
        let candidate = (version, Reverse(name.len()), *name);
        match newest.get(&pattern) {
            Some(known) if *known > candidate => {}
            _ => {
                newest.insert(pattern, candidate);
            }
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::models::catalog::overlay_day;

    /// The providers that have defaults.
    const PROVIDERS: [&str; 12] = [
        "anthropic",
        "openai",
        "openai-responses",
        "openrouter",
        "deepseek",
        "google",
        "xai",
        "mistral",
        "zai",
        "moonshot",
        "alibaba",
        "minimax",
    ];

    /// Returns the offered models that are retired on a day.
    fn stale(offered: &[(&str, &str)], today: i64) -> Vec<String> {
        let old = offered.iter().filter(|(provider, name)| {
            PROVIDERS_WITH_RETIREMENTS.contains(provider)
                && lookup_retirement(name).is_some_and(|end| end.day <= today)
        });
        old.map(|(_, name)| (*name).to_owned()).collect()
    }

    #[test]
    fn no_offered_model_is_past_its_retirement() {
        // Day 0 is before every retirement, so nothing is omitted silently.
        let all: Vec<(&str, String)> = PROVIDERS
            .iter()
            .flat_map(|provider| {
                let names = list_offered_models(provider, None, 0).into_iter();
                names.map(move |name| (*provider, name))
            })
            .collect();
        let all: Vec<(&str, &str)> = all
            .iter()
            .map(|(provider, name)| (*provider, name.as_str()))
            .collect();
        assert_eq!(stale(&all, overlay_day()), [""; 0]);
        // The check finds the default of an older table.
        let end = lookup_retirement("claude-sonnet-4").unwrap();
        let old = [("anthropic", "claude-sonnet-4-20250514")];
        assert_eq!(stale(&old, end.day), ["claude-sonnet-4-20250514"]);
        assert_eq!(stale(&old, end.day - 1), [""; 0]);
    }

    #[test]
    fn every_provider_offers_a_medium_default_then_the_cheapest() {
        let offered = |provider| list_offered_models(provider, None, overlay_day());
        for (provider, first) in [
            (
                "anthropic",
                &[
                    "claude-sonnet-5-5",
                    "claude-haiku-5-5",
                    "claude-fable-5-1",
                    "claude-opus-5-5",
                ][..],
            ),
            ("openai", &["gpt-6.1-sol", "gpt-6-luna"]),
            ("openai-responses", &["gpt-6.1-sol", "gpt-6-luna"]),
            (
                "openrouter",
                &["anthropic/claude-sonnet-5.5", "openai/gpt-6.1-sol"],
            ),
            ("deepseek", &["deepseek-flash", "deepseek-v4-pro"]),
            ("google", &["gemini-3.8-flash"]),
            ("xai", &["grok-4.7"]),
            ("mistral", &["mistral-medium-2604"]),
            ("zai", &["glm-5.3"]),
            ("moonshot", &["kimi-k3"]),
            ("alibaba", &["qwen3.8-max", "qwen3.8-flash"]),
            ("minimax", &["MiniMax-M3"]),
        ] {
            let names = offered(provider);
            assert!(names.len() <= MAX_OFFERED);
            assert_eq!(
                names.get(..first.len()),
                Some(
                    first
                        .iter()
                        .map(|name| (*name).to_owned())
                        .collect::<Vec<_>>()
                        .as_slice()
                ),
                "{provider}: {names:?}"
            );
        }
        assert!(offered("alibaba").len() > 1);
        assert!(offered("work").is_empty());
    }

    #[test]
    fn the_newest_stable_model_of_a_family_is_the_default() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let default = |provider, names: &[&str]| {
            list_offered_models(provider, Some(&list(names)), current_day()).swap_remove(0)
        };
        for (names, newest) in [
            (
                &["claude-sonnet-4-6", "claude-sonnet-12-1", "claude-opus-20"][..],
                "claude-sonnet-12-1",
            ),
            (
                &["claude-sonnet-9-20270101", "claude-sonnet-9"],
                "claude-sonnet-9",
            ),
            (
                &["claude-haiku-5-5", "claude-sonnet-9-20270101"],
                "claude-sonnet-9-20270101",
            ),
            (
                &[
                    "claude-sonnet-9-preview",
                    "claude-sonnet-9-fast",
                    "claude-sonnet-8",
                ],
                "claude-sonnet-8",
            ),
            // The vendor has retired it but still lists it.
            (
                &["claude-sonnet-4-20250514", "claude-haiku-4-5-20251001"],
                "claude-haiku-4-5-20251001",
            ),
        ] {
            assert_eq!(default("anthropic", names), newest, "{names:?}");
        }
        assert_eq!(
            default("openai", &["gpt-6.1-sol", "gpt-10-sol", "gpt-7-luna"]),
            "gpt-10-sol"
        );
        assert_eq!(
            default("deepseek", &["deepseek-flash", "deepseek-v4-pro"]),
            "deepseek-flash"
        );
        // A list without any model of the families falls back to the table.
        let known = list_offered_models("anthropic", None, current_day());
        assert_eq!(
            list_offered_models("anthropic", Some(&list(&["mine"])), current_day()),
            known
        );
    }

    #[test]
    fn models_for_simple_work_are_of_the_same_line_and_no_larger_variant() {
        for (model, line, simple) in [
            ("openai/gpt-6.1-sol", "openai/gpt-", "openai/gpt-6-luna"),
            (
                "google/gemini-3.8-pro",
                "google/gemini-",
                "google/gemini-3.8-flash",
            ),
        ] {
            let all = list_sibling_models("openrouter", model, None, overlay_day());
            assert!(all.contains(&simple.to_owned()), "{all:?}");
            let fits = |name: &String| name.starts_with(line) && !name.contains("-pro");
            assert!(all.iter().all(fits), "{all:?}");
        }
    }

    #[test]
    fn a_model_is_offered_until_the_day_before_its_retirement() {
        let names = ["claude-opus-4-1".to_owned()];
        let end = lookup_retirement("claude-opus-4-1").unwrap();
        assert_eq!(end.date, "2026-08-05");
        assert_eq!(list_offered_models("anthropic", Some(&names), end.day - 1), names);
        assert!(!list_offered_models("anthropic", Some(&names), end.day).contains(&names[0]));
        // A gateway may get the model from elsewhere.
        let names = ["anthropic/claude-opus-4-1".to_owned()];
        assert_eq!(list_offered_models("openrouter", Some(&names), end.day), names);
    }
}
