//! Decides whether a name can be a model of a provider (R-CAT), and suggests the nearest names if it cannot.
//!
//! Pure: the caller passes in what is known and makes any request. In doubt a name is accepted: the provider has
//! the last word.

use std::sync::LazyLock;

use super::catalog::{catalog, lookup_retirement};
use super::defaults::list_offered_models;
use super::{is_known, is_same_model, plain_name};
use crate::base::nearest::nearest_few;

/// How many names an error suggests.
const NAMED: usize = 3;

/// Who names the models of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelNaming {
    /// A vendor at its own address; its model names begin with one of these prefixes.
    Vendor(&'static [&'static str]),
    /// A gateway with its own list.
    Gateway,
    /// Any name is possible: a local engine, a gateway with aliases, or a cassette.
    Free,
}

/// The decision about the name of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameVerdict {
    Accept,
    /// The name is refused; contains the suggested names.
    Refuse(Vec<String>),
    /// Only the provider's own list can decide.
    NeedsList,
}

/// What is known about a provider's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownList<'a> {
    /// The list was not requested yet.
    NotAsked,
    /// The provider has no list, or did not answer.
    Missing,
    /// The models in the list.
    Names(&'a [String]),
}

/// Decides whether `model` can be a model of `provider`. A vendor's retired models cannot. `today` is in days since
/// the epoch.
pub fn check_model_name(
    model: &str,
    provider: &str,
    naming: ModelNaming,
    list: KnownList<'_>,
    today: i64,
) -> NameVerdict {
    // The provider's own list has the last word, even over a retirement date.
    if let KnownList::Names(names) = list
        && names.iter().any(|name| is_same_model(name, model))
    {
        return NameVerdict::Accept;
    }
    let is_retired = matches!(naming, ModelNaming::Vendor(_))
        && lookup_retirement(model).is_some_and(|end| end.day <= today);
    let is_ours = match naming {
        ModelNaming::Vendor(families) => has_family(model, families),
        ModelNaming::Gateway | ModelNaming::Free => true,
    };
    if is_ours && !is_retired && is_known(model) {
        return NameVerdict::Accept;
    }
    let is_similar = match naming {
        ModelNaming::Vendor(families) => is_retired || is_ours || is_similar(model, families),
        ModelNaming::Gateway | ModelNaming::Free => is_misspelled(model),
    };
    let refuse = || NameVerdict::Refuse(suggest_model_names(model, provider, naming, list, today));
    match (list, naming, is_similar) {
        (KnownList::NotAsked, _, true) => NameVerdict::NeedsList,
        (KnownList::Missing, _, true) | (KnownList::Names(_), ModelNaming::Free, true) => refuse(),
        // The list of a vendor or a gateway is complete, so a name outside it does not exist.
        (KnownList::Names(_), ModelNaming::Vendor(_) | ModelNaming::Gateway, _) => refuse(),
        (KnownList::NotAsked | KnownList::Missing, _, false)
        | (KnownList::Names(_), ModelNaming::Free, false) => NameVerdict::Accept,
    }
}

/// Returns the other names most similar to `model`, nearest first; without any, the models that are offered.
pub fn suggest_model_names(
    model: &str,
    provider: &str,
    naming: ModelNaming,
    list: KnownList<'_>,
    today: i64,
) -> Vec<String> {
    let listed = match list {
        KnownList::Names(names) => Some(names),
        KnownList::NotAsked | KnownList::Missing => None,
    };
    let mut offered = list_offered_models(provider, listed, today);
    offered.retain(|name| name != model);
    let mut names = offered.clone();
    match listed {
        Some(listed) => names.extend(listed.iter().cloned()),
        None => names.extend(catalog().vendor_names().map(str::to_owned).filter(|name| {
            let is_ours = match naming {
                ModelNaming::Vendor(families) => has_family(name, families),
                ModelNaming::Gateway | ModelNaming::Free => true,
            };
            is_ours && lookup_retirement(name).is_none_or(|end| end.day > today)
        })),
    }
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| name != model && seen.insert(name.clone()));
    let find_near = |given: &str| nearest_few(given, names.iter().map(String::as_str), NAMED);
    let mut nearest = find_near(model);
    // What is before the slash may have been meant as a provider.
    if let (true, Some((_, rest))) = (nearest.is_empty(), model.split_once('/')) {
        nearest = find_near(rest);
    }
    if nearest.is_empty() {
        offered.truncate(NAMED);
        return offered;
    }
    nearest.into_iter().map(str::to_owned).collect()
}

fn has_family(model: &str, families: &[&str]) -> bool {
    let name = plain_name(model);
    families.iter().any(|family| name.starts_with(family))
}

/// Reports whether `model` is similar to a vendor's name from these families.
fn is_similar(model: &str, families: &[&str]) -> bool {
    let names = catalog().vendor_names();
    let names = names.filter(|name| has_family(name, families));
    !nearest_few(&plain_name(model), names, 1).is_empty()
}

/// The words in the vendors' names that are long enough to compare.
static WORDS: LazyLock<std::collections::BTreeSet<&'static str>> = LazyLock::new(|| {
    let words = catalog().vendor_names().flat_map(|name| name.split(['-', '.']));
    words.filter(|word| is_word(word)).collect()
});

fn is_word(word: &str) -> bool {
    word.len() >= 4 && word.bytes().all(|b| b.is_ascii_lowercase())
}

/// Reports whether `model` looks misspelled, like `claude-sonet-9`. Every long word must be known or one edit
/// away from one that is, and at least one must be misspelled.
fn is_misspelled(model: &str) -> bool {
    let name = plain_name(model);
    let mut wrong = 0;
    for word in name.split(['-', '.']).filter(|word| is_word(word)) {
        if WORDS.contains(word) {
            continue;
        }
        let has_similar_word = WORDS
            .iter()
            .any(|known| known.len() >= 5 && strsim::damerau_levenshtein(word, known) == 1);
        if !has_similar_word {
            return false;
        }
        wrong += 1;
    }
    // Only for vendors that alone name their models. Other families resemble each other (mistral, mixtral).
    let first = name.split(['-', '.']).next().unwrap_or_default();
    let is_vendors = |known: &&str| strsim::damerau_levenshtein(first, known) <= 1;
    wrong > 0 && (first == "gpt" || ["claude", "gemini", "deepseek"].iter().any(is_vendors))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: ModelNaming = ModelNaming::Vendor(&["claude-"]);
    const GPT: ModelNaming = ModelNaming::Vendor(&["gpt-", "o1", "o3", "o4"]);
    /// 2026-11-23.
    const TODAY: i64 = 20_780;

    fn decide(model: &str, naming: ModelNaming, list: KnownList<'_>) -> String {
        let provider = match naming {
            CLAUDE => "anthropic",
            GPT => "openai",
            _ => "work",
        };
        match check_model_name(model, provider, naming, list, TODAY) {
            NameVerdict::Accept => "yes".to_owned(),
            NameVerdict::NeedsList => "ask".to_owned(),
            NameVerdict::Refuse(names) => names.join(" "),
        }
    }

    #[test]
    fn names_are_checked_against_list_table_and_similar_names() {
        let list = ["claude-sonnet-7", "claude-opus-7", "text-embedding-1"].map(str::to_owned);
        let list = KnownList::Names(&list);
        let (not_asked, missing) = (KnownList::NotAsked, KnownList::Missing);
        for (model, naming, known, expected) in [
            ("claude-sonnet-5", CLAUDE, not_asked, "yes"),
            ("claude-sonnet-5-20260630", CLAUDE, not_asked, "yes"),
            ("claude-sonet-9", CLAUDE, not_asked, "ask"),
            (
                "claude-sonet-9",
                CLAUDE,
                missing,
                "claude-sonnet-5 claude-sonnet-5-5 claude-sonnet-4-5",
            ),
            ("claude-sonet-9", CLAUDE, list, "claude-sonnet-7"),
            ("claude-sonnet-7", CLAUDE, list, "yes"),
            ("claude-sonnet-7", CLAUDE, not_asked, "ask"),
            ("frobnicate", CLAUDE, list, "claude-sonnet-7 claude-opus-7"),
            ("frobnicate", CLAUDE, not_asked, "yes"),
            ("gpt-5.2", CLAUDE, list, "claude-sonnet-7 claude-opus-7"),
            ("gpt-5.2", GPT, not_asked, "yes"),
            ("gpt-5.22", GPT, missing, "gpt-5.2 gpt-5.6 gpt-5.1"),
            ("openai/gpt-5.22", GPT, missing, "gpt-5.2 gpt-5.6 gpt-5.1"),
            // The vendor has retired it; a gateway may still have it.
            ("claude-sonnet-4-20250514", CLAUDE, not_asked, "ask"),
            ("claude-sonnet-4-20250514", ModelNaming::Gateway, not_asked, "yes"),
            // A free name may be anything but an obvious typo.
            ("our-own", ModelNaming::Free, list, "yes"),
            ("claude-sonnet-prod", ModelNaming::Free, not_asked, "yes"),
            ("qwen3-coder:30b", ModelNaming::Free, not_asked, "yes"),
            ("llama4-scout", ModelNaming::Free, not_asked, "yes"),
            ("claude-sonet-9", ModelNaming::Free, not_asked, "ask"),
            ("anthropic/cluade-sonnet-9", ModelNaming::Free, not_asked, "ask"),
            (
                "our-own",
                ModelNaming::Gateway,
                list,
                "claude-sonnet-7 claude-opus-7 text-embedding-1",
            ),
            ("our-own", ModelNaming::Gateway, missing, "yes"),
        ] {
            let decided = decide(model, naming, known);
            // Without a similar name in the list, the offered models are suggested, and this provider has none.
            let expected = if model == "our-own" && expected.contains(' ') {
                ""
            } else {
                expected
            };
            assert_eq!(decided, expected, "{model} {naming:?} {known:?}");
        }
    }

    #[test]
    fn a_name_is_not_suggested_instead_of_itself() {
        let names = suggest_model_names("gpt-5", "openai", GPT, KnownList::NotAsked, TODAY);
        assert!(
            !names.is_empty() && !names.contains(&"gpt-5".to_owned()),
            "{names:?}"
        );
    }

    #[test]
    fn a_vendor_model_is_accepted_until_the_day_before_its_retirement() {
        let end = lookup_retirement("gpt-5").unwrap();
        assert_eq!(end.date, "2026-12-11");
        let judged = |day| check_model_name("gpt-5", "openai", GPT, KnownList::NotAsked, day);
        assert_eq!(judged(end.day - 1), NameVerdict::Accept);
        assert_eq!(judged(end.day), NameVerdict::NeedsList);
    }

    #[test]
    fn real_model_names_are_not_misspellings() {
        for name in catalog().vendor_names() {
            assert!(!is_misspelled(name), "{name}");
        }
        for name in [
            "mixtral-8x7b",
            "phi-4",
            "gemma-4-31b-it",
            "codellama",
            "devstral-small",
            "mistral-nemo",
            "o5",
            "",
            "grok-build-0.1",
            "glm-5-turbo",
            "qwen3-next-80b",
            "command-a-plus",
            "hermes-4",
            "deepseek-r1",
            "claude-instant",
            "gpt-7-nova",
            "minimax-m4",
            "starcoder2",
            "solar-pro",
            "llama-3.3-70b-versatile",
        ] {
            assert!(!is_misspelled(name), "{name}");
        }
        for name in [
            "claude-sonet-9",
            "claud-opus-4-8",
            "gpt-6.1-tera",
            "gemini-3.8-flahs",
            "deepsek-flash",
        ] {
            assert!(is_misspelled(name), "{name}");
        }
    }
}
