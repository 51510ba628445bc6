//! Chooses the models to offer for a provider: the newest of each family, so that no list of names goes stale.
//!
//! A family is a pattern with `*` for the version. The provider's own list decides if it is known, otherwise the
//! table. Requests nothing itself: see `probe` for the list.

use super::strip_date;
use super::table::{PROVIDERS_WITH_RETIREMENTS, TABLE, lookup_retirement};
use crate::base::clock;

/// The families to offer for each preset provider. The first one contains the default model.
#[rustfmt::skip]
const FAMILIES: &[(&str, &[&str])] = &[
    ("anthropic", &["claude-sonnet-*", "claude-opus-*", "claude-haiku-*", "claude-fable-*"]),
    ("openai", &["gpt-*-sol", "gpt-*-terra", "gpt-*-luna", "gpt-*-astra"]),
    ("openai-responses", &["gpt-*-sol", "gpt-*-terra", "gpt-*-luna", "gpt-*-astra"]),
    ("openrouter", &[
        "anthropic/claude-sonnet-*", "anthropic/claude-opus-*", "openai/gpt-*-sol", "google/gemini-*-flash",
        "deepseek/deepseek-v*-flash",
    ]),
    ("deepseek", &["deepseek-flash", "deepseek-v*-pro"]),
];

/// Returns today in days since the epoch, UTC.
pub fn current_day() -> i64 {
    clock::wall_ms().div_euclid(86_400_000)
}

/// Returns the models to offer for a preset provider, the default first; nothing for other providers. `list` is the
/// provider's own list, if known. `today` is in days since the epoch; models retired by then are omitted.
pub fn list_offered_models(provider: &str, list: Option<&[String]>, today: i64) -> Vec<String> {
    let families = FAMILIES.iter().find(|(name, _)| *name == provider);
    let families = families.map_or(&[][..], |(_, families)| families);
    let own_address = PROVIDERS_WITH_RETIREMENTS.contains(&provider);
    let is_retired = |name: &str| own_address && lookup_retirement(name).is_some_and(|end| end.day <= today);
    let newest = |names: &[String]| -> Vec<String> {
        let of_family = |family: &&str| {
            let versions = names.iter().filter(|name| !is_retired(name)).filter_map(|name| {
                let version = version_in(family, name)?;
                // Of equal versions the shorter name wins: the one without a date.
                Some((version, std::cmp::Reverse(name.len()), name))
            });
            versions.max().map(|(_, _, name)| name.clone())
        };
        families.iter().filter_map(of_family).collect()
    };
    let listed = list.map(&newest).unwrap_or_default();
    if !listed.is_empty() {
        return listed;
    }
    // A list without any of these families says nothing, so the table decides.
    let vendors = families.iter().filter_map(|family| family.split_once('/'));
    let mut names: Vec<String> = TABLE.iter().map(|row| row.name.to_owned()).collect();
    names.extend(vendors.flat_map(|(vendor, _)| {
        let rows = TABLE.iter();
        rows.map(move |row| format!("{vendor}/{}", to_openrouter_name(row.name)))
    }));
    newest(&names)
}

/// Converts the name of a Claude model to OpenRouter's: `claude-sonnet-4-5` → `claude-sonnet-4.5`.
fn to_openrouter_name(name: &str) -> String {
    let parts = name.rsplit_once('-').filter(|(before, minor)| {
        let ends_in_digit = before.ends_with(|last: char| last.is_ascii_digit());
        name.starts_with("claude-") && ends_in_digit && minor.parse::<u32>().is_ok()
    });
    parts.map_or_else(|| name.to_owned(), |(before, minor)| format!("{before}.{minor}"))
}

/// Returns the version of `name` if it belongs to `family`; an empty one for a family without a `*`.
fn version_in(family: &str, name: &str) -> Option<Vec<u32>> {
    let Some((prefix, suffix)) = family.split_once('*') else {
        return (family == name).then(Vec::new);
    };
    let version = strip_date(name).strip_prefix(prefix)?.strip_suffix(suffix)?;
    // Anything other than short numbers is a variant or a preview.
    let numbers = version.split(['.', '-']).map(|part| match part.len() {
        1..=3 => part.parse().ok(),
        _ => None,
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::models::lookup_model;

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
        let all: Vec<(&str, String)> = FAMILIES
            .iter()
            .flat_map(|(provider, _)| {
                let names = list_offered_models(provider, None, 0).into_iter();
                names.map(move |name| (*provider, name))
            })
            .collect();
        let all: Vec<(&str, &str)> = all
            .iter()
            .map(|(provider, name)| (*provider, name.as_str()))
            .collect();
        assert_eq!(stale(&all, current_day()), [""; 0]);
        // The check finds the default of an older table.
        let end = lookup_retirement("claude-sonnet-4").unwrap();
        let old = [("anthropic", "claude-sonnet-4-20250514")];
        assert_eq!(stale(&old, end.day), ["claude-sonnet-4-20250514"]);
        assert_eq!(stale(&old, end.day - 1), [""; 0]);
    }

    #[test]
    fn every_offered_model_is_in_the_table() {
        for (provider, families) in FAMILIES {
            let names = list_offered_models(provider, None, current_day());
            assert_eq!(names.len(), families.len(), "{provider}: {names:?}");
            for name in names {
                assert_ne!(lookup_model(&name), lookup_model("made-up"), "{name}");
                assert_eq!(strip_date(&name), name);
            }
        }
        assert!(list_offered_models("work", None, 0).is_empty());
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
            default("deepseek", &["deepseek-v4-pro", "deepseek-flash"]),
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

    #[test]
    fn openrouter_writes_versions_with_dots() {
        for (name, there) in [
            ("claude-sonnet-5-5", "claude-sonnet-5.5"),
            ("claude-sonnet-5", "claude-sonnet-5"),
            ("claude-3-7-sonnet", "claude-3-7-sonnet"),
            ("gpt-6.1-sol", "gpt-6.1-sol"),
        ] {
            assert_eq!(to_openrouter_name(name), there);
        }
    }
}
