//! What the doctor reports about the chosen model: its price, whether the provider lists it, whether it retires soon.
//!
//! Pure: the caller passes the list and the date, and `doctor` prints the checks.

use serde::Serialize;

use super::models::describe_catalog;
use crate::config::{DefaultChoice, Env, Redactor, Settings, select_default};
use crate::provider::models::{
    DownloadState, KnownList, ModelNaming, Retirement, catalog_source, current_day, is_deprecated,
    list_offered_models, parse_day, plain_name, suggest_model_names,
};
use crate::provider::{self, ModelList, PriceSource, ProviderSpec};

/// The doctor warns this many days before a retirement.
const SOON: i64 = 60;

/// The doctor warns if the data about models is older than this many days.
const OLD_CATALOG: i64 = 90;

/// How many models the doctor suggests instead of one that ends.
const REPLACEMENTS: usize = 2;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    Ok,
    /// A fact without a judgment.
    Info,
    Warn,
    Fail,
}

/// One check. Its shape is what `--json` promises: names and states stay, new ones may be added.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: CheckState,
    pub(super) message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl Check {
    pub(super) fn new(
        state: CheckState,
        name: &'static str,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        let message = message.into();
        Self {
            name,
            state,
            message,
            hint,
        }
    }
}

/// Reports how old the data about models is. Old data has wrong prices and misses new models.
pub(super) fn check_catalog(today: i64) -> Check {
    let (date, download) = catalog_source();
    let text = describe_catalog(today);
    let todo = Some("run `agentls models update`".to_owned());
    let is_old = parse_day(date).is_none_or(|day| today - day > OLD_CATALOG);
    match download {
        DownloadState::Unreadable(problem) => {
            Check::new(CheckState::Warn, "model data", format!("{text}: {problem}"), todo)
        }
        _ if is_old => Check::new(CheckState::Warn, "model data", text, todo),
        _ => Check::new(CheckState::Info, "model data", text, None),
    }
}

/// Selects the provider and model as a first prompt does, without any request.
pub(super) fn select_default_model(settings: &Settings, env: &Env) -> DefaultChoice {
    let has_model = |provider: &str, model: &str| {
        let provider = settings.providers.get(provider)?;
        provider::build_spec(settings, provider, Redactor::default()).has_model(model)
    };
    select_default(settings, env, &default_model, &has_model)
}

/// Returns the model that a provider uses when none is configured.
fn default_model(provider: &str) -> Option<String> {
    list_offered_models(provider, None, current_day())
        .into_iter()
        .next()
}

/// Returns what is known about `model` without any request.
pub(super) fn check_model_offline(spec: &ProviderSpec, model: &str, today: i64) -> Vec<Check> {
    let price = report_price(spec, model);
    std::iter::once(price)
        .chain(check_retirement(spec, model, today))
        .collect()
}

/// Reports a model that its vendor has retired, will retire soon, or advises against.
pub(super) fn check_retirement(spec: &ProviderSpec, model: &str, today: i64) -> Option<Check> {
    // Only a vendor retires its models; a local server or a gateway may keep them.
    if !matches!(spec.model_naming(), ModelNaming::Vendor(_)) {
        return None;
    }
    match spec.retirement(model) {
        Some(end) if end.day - today <= SOON => Some(report_retirement(spec, model, end, today)),
        None if is_deprecated(model) => {
            let todo = suggest_setting(spec, &find_replacements(spec, model, today));
            let text = format!("{model} is deprecated by its vendor");
            Some(Check::new(CheckState::Warn, "retirement", text, Some(todo)))
        }
        _ => None,
    }
}

/// Reports whether the provider's own list contains `model`, and which one takes the place of a default that has gone.
pub(super) fn check_model_list(
    spec: &ProviderSpec,
    (model, is_default): (&str, bool),
    list: &ModelList,
    today: i64,
) -> Check {
    let count = list.names.len();
    let plural = if count == 1 { "" } else { "s" };
    // Lists contain full names; an alias may omit the date or the tag.
    let is_listed = |name: &String| name == model || plain_name(name) == plain_name(model);
    let current = list.current_chat_models(today);
    let offered = list_offered_models(&spec.name, Some(&current), today);
    if let Some(other) = offered.first().filter(|name| current.contains(name))
        && is_default
        && !current.iter().any(is_listed)
    {
        let text = format!("{} no longer offers {model}; prompts go to {other}", spec.name);
        let todo = suggest_setting(spec, std::slice::from_ref(other));
        return Check::new(CheckState::Warn, "model", text, Some(todo));
    }
    if list.names.iter().any(is_listed) {
        let text = format!("{} lists {model} ({count} model{plural} in all)", spec.name);
        return Check::new(CheckState::Ok, "model", text, None);
    }
    let text = format!("{} lists {count} model{plural}, but not {model}", spec.name);
    let known = KnownList::Names(&list.names);
    let similar = suggest_model_names(model, &spec.name, spec.model_naming(), known, today);
    let todo = suggest_setting(spec, &similar);
    Check::new(CheckState::Fail, "model", text, Some(todo))
}

fn report_price(spec: &ProviderSpec, model: &str) -> Check {
    let price = spec.model_info(model).price;
    let dollars = price.map_or_else(String::new, |price| {
        format!("${} in, ${} out per million tokens", price.input, price.output)
    });
    let text = match spec.price_source(model) {
        PriceSource::List => format!("priced at list price: {dollars}"),
        PriceSource::Configured => format!("priced as configured: {dollars}"),
        PriceSource::Free if spec.is_local() => "free: local model".to_owned(),
        PriceSource::Free => "free".to_owned(),
        PriceSource::Unknown => {
            "price unknown: with a spending limit you are asked once before it is used".to_owned()
        }
    };
    let todo = format!("set [model.\"{model}\"] input and output");
    let todo = (spec.price_source(model) == PriceSource::Unknown).then_some(todo);
    Check::new(CheckState::Info, "price", text, todo)
}

fn report_retirement(spec: &ProviderSpec, model: &str, end: Retirement<'_>, today: i64) -> Check {
    let text = match end.day - today {
        ..=0 => format!("{model} was retired on {}", end.date),
        days => format!("{model} will be retired on {}, in {days} days", end.date),
    };
    let todo = suggest_setting(spec, &find_replacements(spec, model, today));
    Check::new(CheckState::Warn, "retirement", text, Some(todo))
}

/// Returns the models to use instead of one that ends: the provider's default and its cheapest, without those that end
/// soon as well.
fn find_replacements(spec: &ProviderSpec, model: &str, today: i64) -> Vec<String> {
    let chat = spec.list.as_ref().map(|list| list.current_chat_models(today));
    let lasts = |name: &String| spec.retirement(name).is_none_or(|end| end.day - today > SOON);
    let offered = list_offered_models(spec.catalog_section(), chat.as_deref(), today).into_iter();
    offered
        .filter(|name| plain_name(name) != plain_name(model) && lasts(name))
        .take(REPLACEMENTS)
        .collect()
}

fn suggest_setting(spec: &ProviderSpec, models: &[String]) -> String {
    let hint = if models.is_empty() {
        String::new()
    } else {
        format!(" to {}", models.join(" or "))
    };
    format!(
        "set [provider.{}] model{hint}, or [agent.default] model if that names it",
        spec.name
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::provider::ApiKind;

    /// 2026-11-23 in days since 1970-01-01.
    const TODAY: i64 = 20_780;

    fn texts(findings: &[Check]) -> Vec<String> {
        let text = |finding: &Check| format!("{:?} {}", finding.state, finding.message);
        findings.iter().map(text).collect()
    }

    #[test]
    fn price_and_retirement_are_reported() {
        let vendor = |name: &str, kind| ProviderSpec::new(name, kind);
        let local = ProviderSpec {
            base_url: Some("http://127.0.0.1:4000/v1".to_owned()),
            ..ProviderSpec::new("work", ApiKind::OpenAi)
        };
        let (openai, anthropic) = (
            vendor("openai", ApiKind::Responses),
            vendor("anthropic", ApiKind::Anthropic),
        );
        let list = "Info priced at list price: ";
        for (spec, model, expected) in [
            (
                &anthropic,
                "claude-sonnet-5",
                vec![format!("{list}$2 in, $10 out per million tokens")],
            ),
            (
                &local,
                "claude-sonnet-5",
                vec![format!("{list}$2 in, $10 out per million tokens")],
            ),
            (&local, "qwen3:8b", vec!["Info free: local model".to_owned()]),
            (
                &vendor("openrouter", ApiKind::OpenAi),
                "made-up:free",
                vec!["Info free".to_owned()],
            ),
            (
                &anthropic,
                "claude-sonnet-4-20250514",
                vec![
                    format!("{list}$3 in, $15 out per million tokens"),
                    "Warn claude-sonnet-4-20250514 was retired on 2026-06-15".to_owned(),
                ],
            ),
            (
                &openai,
                "gpt-5",
                vec![
                    format!("{list}$1.25 in, $10 out per million tokens"),
                    "Warn gpt-5 will be retired on 2026-12-11, in 18 days".to_owned(),
                ],
            ),
            (
                &openai,
                "gpt-4o",
                vec![
                    format!("{list}$2.5 in, $10 out per million tokens"),
                    "Warn gpt-4o will be retired on 2027-01-14, in 52 days".to_owned(),
                ],
            ),
            (
                &openai,
                "gpt-5.1",
                vec![format!("{list}$1.25 in, $10 out per million tokens")],
            ),
            (
                &openai,
                "gpt-99",
                vec![
                    "Info price unknown: with a spending limit you are asked once before it is used"
                        .to_owned(),
                ],
            ),
        ] {
            assert_eq!(
                texts(&check_model_offline(spec, model, TODAY)),
                expected,
                "{model}"
            );
        }
    }

    #[test]
    fn a_model_that_ends_is_replaced_by_one_that_lasts() {
        let vendor = |name: &str, list: Option<ModelList>| ProviderSpec {
            base_url: Some("https://api.openai.com/v1".to_owned()),
            list: list.map(Arc::new),
            ..ProviderSpec::new(name, ApiKind::Responses)
        };
        let chat = ["gpt-6.1-sol", "gpt-6-luna"].map(str::to_owned);
        let list = ModelList {
            chat: chat.to_vec(),
            names: chat.to_vec(),
            retirements: [("gpt-6.1-sol".to_owned(), "2026-12-10".to_owned())].into(),
            ..ModelList::default()
        };
        for (spec, model, expected) in [
            (vendor("openai", None), "gpt-5", "gpt-6.1-sol or gpt-6-luna"),
            (vendor("work", None), "gpt-4o", "gpt-6.1-sol or gpt-6-luna"),
            (vendor("openai", Some(list)), "gpt-6.1-sol", "gpt-6-luna"),
        ] {
            let check = check_retirement(&spec, model, TODAY).unwrap();
            let setting = format!("set [provider.{}] model to {expected}, or [agent", spec.name);
            let hint = check.hint.unwrap();
            assert!(hint.starts_with(&setting), "{hint}");
        }
    }

    #[test]
    fn unlisted_model_is_a_problem() {
        let spec = ProviderSpec::new("anthropic", ApiKind::Anthropic);
        let names: Vec<String> = ["claude-sonnet-5", "claude-haiku-4-5-20251001"]
            .map(str::to_owned)
            .into();
        let list = ModelList {
            chat: names.clone(),
            names,
            ..ModelList::default()
        };
        for model in ["claude-sonnet-5", "claude-haiku-4-5", "claude-haiku-4-5-20251001"] {
            assert_eq!(
                check_model_list(&spec, (model, false), &list, TODAY).state,
                CheckState::Ok,
                "{model}"
            );
        }
        let missing = check_model_list(&spec, ("claude-sonet-5", false), &list, TODAY);
        assert_eq!(
            texts(std::slice::from_ref(&missing)),
            ["Fail anthropic lists 2 models, but not claude-sonet-5"]
        );
        assert_eq!(
            missing.hint.as_deref(),
            Some(
                "set [provider.anthropic] model to claude-sonnet-5, or [agent.default] model if that names it"
            )
        );
    }
}
