//! Which models search the web by themselves, and what a search costs. The prices are the vendors' list prices.

use super::name::{claude_version, plain_name};
use crate::config::ApiKind;
use crate::domain::Cost;

/// One search costs a cent at Anthropic and at OpenAI.
const CENT: Cost = Cost(10_000_000);
/// A search by Gemini 3 or later.
const GEMINI_SEARCH: Cost = Cost(14_000_000);
/// An answer of an older Gemini that searched, however often.
const OLD_GEMINI_ANSWER: Cost = Cost(35_000_000);

/// What the provider's own web search costs, in addition to its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchFee {
    PerSearch(Cost),
    /// For an answer with at least one search.
    PerAnswer(Cost),
}

impl SearchFee {
    /// Returns the cost of an answer with this many searches.
    pub fn calculate_cost(self, searches: u32) -> Cost {
        match self {
            Self::PerSearch(Cost(nanos)) => Cost(nanos.saturating_mul(u64::from(searches))),
            Self::PerAnswer(cost) if searches > 0 => cost,
            Self::PerAnswer(_) => Cost(0),
        }
    }
}

/// Returns what a search costs over this API; `None` if the API has no search.
pub(in crate::provider) fn search_fee(kind: ApiKind, model: &str) -> Option<SearchFee> {
    match kind {
        ApiKind::Anthropic | ApiKind::Responses => Some(SearchFee::PerSearch(CENT)),
        ApiKind::Gemini if is_old_gemini(model) => Some(SearchFee::PerAnswer(OLD_GEMINI_ANSWER)),
        ApiKind::Gemini => Some(SearchFee::PerSearch(GEMINI_SEARCH)),
        // A recording plays its searches for free.
        ApiKind::Script => Some(SearchFee::PerSearch(Cost(0))),
        ApiKind::OpenAi | ApiKind::Ollama => None,
    }
}

/// Reports whether `model` is known to search at this host. Other servers with the same API may not.
pub(in crate::provider) fn is_search_known(kind: ApiKind, host: &str, model: &str) -> bool {
    let name = plain_name(model);
    match (kind, host) {
        (ApiKind::Anthropic, "api.anthropic.com") => claude_version(model).is_some_and(|at| at >= (3, 5)),
        (ApiKind::Responses, "api.openai.com") => {
            let families = ["gpt-4o", "gpt-4.1", "o3", "o4"];
            !name.starts_with("gpt-4.1-nano")
                && (families.iter().any(|family| name.starts_with(family)) || gpt_version(&name) >= Some(5))
        }
        (ApiKind::Gemini, "generativelanguage.googleapis.com") => {
            name.starts_with("gemini-") && !name.starts_with("gemini-1")
        }
        _ => false,
    }
}

fn is_old_gemini(model: &str) -> bool {
    ["gemini-1", "gemini-2"]
        .iter()
        .any(|old| plain_name(model).starts_with(old))
}

/// Returns the 5 of `gpt-5-mini`.
fn gpt_version(name: &str) -> Option<u32> {
    let version = name.strip_prefix("gpt-")?;
    let end = version
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(version.len());
    version[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_models_search_only_at_their_own_address() {
        for (kind, host, model, expected) in [
            (
                ApiKind::Anthropic,
                "api.anthropic.com",
                "claude-sonnet-4-5-20250929",
                true,
            ),
            (
                ApiKind::Anthropic,
                "api.anthropic.com",
                "claude-3-haiku-20240307",
                false,
            ),
            (ApiKind::Anthropic, "api.z.ai", "glm-4.6", false),
            (ApiKind::Anthropic, "127.0.0.1", "claude-sonnet-4-5", false),
            (ApiKind::Responses, "api.openai.com", "gpt-5-mini", true),
            (ApiKind::Responses, "api.openai.com", "gpt-6.1-sol", true),
            (ApiKind::Responses, "api.openai.com", "gpt-4.1-nano", false),
            (ApiKind::Responses, "api.openai.com", "gpt-4-turbo", false),
            (ApiKind::Responses, "openrouter.ai", "gpt-5", false),
            (ApiKind::OpenAi, "api.openai.com", "gpt-5", false),
            (
                ApiKind::Gemini,
                "generativelanguage.googleapis.com",
                "gemini-2.5-pro",
                true,
            ),
            (
                ApiKind::Gemini,
                "generativelanguage.googleapis.com",
                "gemini-1.5-pro",
                false,
            ),
            (
                ApiKind::Gemini,
                "generativelanguage.googleapis.com",
                "gemma-3-27b-it",
                false,
            ),
        ] {
            assert_eq!(is_search_known(kind, host, model), expected, "{host} {model}");
        }
    }

    #[test]
    fn searches_cost_what_the_vendors_ask() {
        for (kind, model, searches, usd) in [
            (ApiKind::Anthropic, "claude-opus-5", 3, 0.03),
            (ApiKind::Responses, "gpt-5", 1, 0.01),
            (ApiKind::Gemini, "gemini-3.8-flash", 2, 0.028),
            (ApiKind::Gemini, "gemini-2.5-flash", 2, 0.035),
            (ApiKind::Gemini, "gemini-2.5-flash", 0, 0.0),
        ] {
            let fee = search_fee(kind, model).unwrap();
            assert_eq!(fee.calculate_cost(searches), Cost::from_usd(usd), "{model}");
        }
        assert_eq!(search_fee(ApiKind::OpenAi, "gpt-5"), None);
    }
}
