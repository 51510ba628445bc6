//! Reduces the data of models.dev (`api.json`) to what agentls uses. Pure; reads and writes no file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::data::{Catalog, CatalogModel, ReasoningField, SECTIONS, Section, parse_day};

/// The most models of a section. More are a mistake, or an attack.
const MAX_MODELS: usize = 5_000;

/// Longer names are skipped, in bytes.
const MAX_NAME: usize = 200;

#[derive(Deserialize)]
struct SourceProvider {
    models: BTreeMap<String, SourceModel>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceModel {
    tool_call: bool,
    reasoning: bool,
    reasoning_options: Vec<SourceReasoning>,
    interleaved: serde_json::Value,
    release_date: String,
    last_updated: String,
    status: String,
    modalities: SourceModalities,
    limit: SourceLimit,
    cost: Option<SourceCost>,
}

#[derive(Deserialize)]
struct SourceReasoning {
    r#type: String,
    /// An effort may be `null`: the model's own default.
    #[serde(default)]
    values: Vec<Option<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceModalities {
    input: Vec<String>,
    output: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceLimit {
    context: u64,
    input: u64,
    output: u64,
}

#[derive(Deserialize)]
struct SourceCost {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    #[serde(default)]
    tiers: Vec<SourceTier>,
}

#[derive(Deserialize)]
struct SourceTier {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    tier: SourceTierBound,
}

#[derive(Deserialize)]
struct SourceTierBound {
    r#type: String,
    size: f64,
}

/// Reduces the text of models.dev's `api.json`.
///
/// # Errors
/// The text is not such a file; says why, or that none of the expected providers is in it.
pub(super) fn reduce(text: &[u8]) -> Result<Catalog, String> {
    let all: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let mut catalog = Catalog::default();
    for (name, provider) in all {
        if !SECTIONS.contains(&name.as_str()) {
            continue;
        }
        let provider: SourceProvider = serde_json::from_value(provider)
            .map_err(|error| format!("it is not a list of models.dev: {name}: {error}"))?;
        let mut section = Section::new();
        for (id, model) in provider.models {
            // An image or an audio model is no help to an agent, however it is called.
            let is_chat = model.tool_call && model.modalities.output == ["text"] && model.limit.context > 0;
            let is_plain = id.len() <= MAX_NAME && id.chars().all(|c| c.is_ascii_graphic());
            if !is_chat || !is_plain || section.len() >= MAX_MODELS {
                continue;
            }
            let newest = model.last_updated.as_str().max(&model.release_date);
            if parse_day(newest).is_some() && *newest > *catalog.date {
                catalog.date = newest.to_owned();
            }
            section.insert(id, reduce_model(&model));
        }
        if !section.is_empty() {
            catalog.providers.insert(name, section);
        }
    }
    if catalog.providers.is_empty() {
        return Err("it is not a list of models.dev: no known provider is in it".to_owned());
    }
    Ok(catalog)
}

fn reduce_model(model: &SourceModel) -> CatalogModel {
    let limit = &model.limit;
    // Where input has a limit of its own, both together are the window.
    let split = limit.input.saturating_add(limit.output);
    let window = if limit.input > 0 {
        limit.context.min(split)
    } else {
        limit.context
    };
    let cost = model.cost.as_ref();
    CatalogModel {
        window,
        output: u32::try_from(limit.output.min(window)).unwrap_or(u32::MAX),
        price: cost.map_or_else(Vec::new, |cost| {
            join_prices(&[], cost.input, cost.output, cost.cache_read, cost.cache_write)
        }),
        tiers: cost.map_or_else(Vec::new, reduce_tiers),
        reasoning: reduce_reasoning(model),
        gives_back: match model.interleaved["field"].as_str() {
            Some("reasoning_content") => Some(ReasoningField::ReasoningContent),
            Some("reasoning_details") => Some(ReasoningField::ReasoningDetails),
            _ => None,
        },
        images: model.modalities.input.iter().any(|kind| kind == "image"),
        released: model.release_date.clone(),
        deprecated: model.status == "deprecated",
    }
}

fn reduce_tiers(cost: &SourceCost) -> Vec<Vec<f64>> {
    let by_size = cost.tiers.iter().filter(|tier| tier.tier.r#type == "context");
    let mut tiers: Vec<Vec<f64>> = by_size
        .map(|tier| {
            let above = [tier.tier.size];
            join_prices(&above, tier.input, tier.output, tier.cache_read, tier.cache_write)
        })
        .collect();
    tiers.sort_by(|a, b| a[0].total_cmp(&b[0]));
    tiers
}

fn join_prices(
    start: &[f64],
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
) -> Vec<f64> {
    let mut prices = start.to_vec();
    prices.extend([input, output]);
    match (cache_read, cache_write) {
        (None, None) => {}
        (read, None) => prices.extend(read),
        (read, Some(write)) => prices.extend([read.unwrap_or(input), write]),
    }
    prices
}

fn reduce_reasoning(model: &SourceModel) -> String {
    if !model.reasoning {
        return String::new();
    }
    let mut words: Vec<&str> = Vec::new();
    for option in &model.reasoning_options {
        match option.r#type.as_str() {
            "effort" => words.extend(option.values.iter().flatten().map(String::as_str)),
            "toggle" => words.push("toggle"),
            "budget_tokens" => words.push("budget"),
            _ => {}
        }
    }
    if words.is_empty() {
        words.push("fixed");
    }
    words.join(" ")
}
