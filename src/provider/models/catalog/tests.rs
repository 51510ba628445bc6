//! Tests of the catalogue, and the maker of its snapshot.

use std::fs;

use super::data::SECTIONS;
use super::*;
use crate::provider::models::name::lookup_names;
use crate::provider::models::{ModelInfo, lookup_model, lookup_model_at};

const SNAPSHOT: &str = "src/provider/models/catalog/snapshot.json";

/// Returns the day of the hand-kept part, the latest day that the built-in catalogue knows of.
pub(in crate::provider) fn overlay_day() -> i64 {
    parse_day(&read_overlay().models.date).unwrap()
}

/// Writes one model a line, so that a new snapshot can be reviewed.
fn write_snapshot(catalog: &Catalog) -> String {
    let sections = catalog.providers.iter().map(|(name, section)| {
        let rows = section.iter().map(|(id, row)| {
            format!(
                "{}:{}",
                serde_json::json!(id),
                serde_json::to_string(row).unwrap()
            )
        });
        let rows: Vec<String> = rows
            .map(|row| row.replace(".0,", ",").replace(".0]", "]"))
            .collect();
        format!("\"{name}\":{{\n{}\n}}", rows.join(",\n"))
    });
    let sections: Vec<String> = sections.collect();
    format!(
        "{{\"date\":\"{}\",\"providers\":{{\n{}\n}}}}\n",
        catalog.date,
        sections.join(",\n")
    )
}

/// `UPDATE_CATALOG=FILE` makes a new snapshot from a copy of models.dev's `api.json`.
#[test]
fn the_snapshot_is_as_the_reducer_writes_it() {
    #[expect(clippy::disallowed_methods, reason = "a test has no other way")]
    if let Some(source) = std::env::var_os("UPDATE_CATALOG") {
        let reduced = reduce::reduce(&fs::read(source).unwrap()).unwrap();
        fs::write(SNAPSHOT, write_snapshot(&reduced)).unwrap();
    }
    let text = fs::read_to_string(SNAPSHOT).unwrap();
    let parsed: Catalog = serde_json::from_str(&text).unwrap();
    assert_eq!(write_snapshot(&parsed), text);
}

#[test]
fn the_built_in_catalogue_is_complete() {
    let catalog = read_built_in();
    assert!(parse_day(&catalog.date).is_some());
    for name in SECTIONS.iter().filter(|name| **name != "ollama") {
        assert!(catalog.providers.contains_key(*name), "{name}");
    }
    let overlay: Overlay = toml::from_str(include_str!("overlay.toml")).unwrap();
    assert!(!overlay.models.providers.is_empty());
    assert!(overlay.retirements.values().all(|date| parse_day(date).is_some()));
    let rows = catalog
        .providers
        .values()
        .chain(overlay.models.providers.values())
        .flatten();
    for (id, row) in rows {
        assert!(row.window >= 1_000 && u64::from(row.output) <= row.window, "{id}");
        assert!(row.price.is_empty() || row.list_price().is_some(), "{id}");
        assert!(
            row.tiers.is_empty() || row.list_price().unwrap().tiers[0].is_some(),
            "{id}"
        );
    }
}

#[test]
fn every_plain_name_is_found() {
    let catalog = catalog();
    for name in catalog.by_name.keys() {
        assert_eq!(plain_name(name), *name);
        assert!(catalog.find(None, name).is_some(), "{name}");
    }
}

#[test]
fn a_provider_has_its_own_facts_and_others_the_vendors() {
    let window = |section, model: &str| lookup_model_at(section, model).window;
    assert_eq!(window(Some("mistral"), "mistral-large-2411"), 131_072);
    // Names of the gateway, with a variant or without.
    for model in ["anthropic/claude-sonnet-5.5", "anthropic/claude-sonnet-5.5:nitro"] {
        assert_eq!(window(Some("openrouter"), model), 1_000_000, "{model}");
    }
    // A host's price is its own; elsewhere, the price of open weights is unknown.
    let price = |section, model: &str| lookup_model_at(section, model).price.map(|price| price.output);
    assert_eq!(price(Some("groq"), "openai/gpt-oss-120b"), Some(0.6));
    assert_eq!(price(None, "openai/gpt-oss-120b"), None);
    assert_eq!(price(Some("groq"), "openai/gpt-4o"), Some(10.0));
}

#[test]
fn the_price_of_a_long_prompt_is_known() {
    let price = lookup_model("gpt-6.1-sol").price.unwrap();
    let tier = price.tiers[0].unwrap();
    assert_eq!((tier.above, tier.input, tier.output), (272_000, 4.0, 15.0));
    assert_eq!(lookup_model("gpt-5.6-sol").price.unwrap().cache_write, 5.0);
    assert_eq!(lookup_model("claude-sonnet-5-5").price.unwrap().tiers, [None; 2]);
}

#[test]
fn names_with_a_colon_are_found() {
    let facts = |model: &str| {
        let ModelInfo {
            window, reasoning, ..
        } = lookup_model(model);
        (window, reasoning)
    };
    assert_eq!(facts("gpt-oss:20b"), facts("gpt-oss-20b"));
    assert_ne!(facts("gpt-oss:20b"), facts("made-up"));
    assert_eq!(facts("qwen3:latest"), (40_960, true));
    assert_eq!(facts("library/llama3.3:70b-instruct-q4_K_M").0, 131_072);
    assert_eq!(lookup_names("qwen3:8b"), ["qwen3-8b", "qwen3"]);
    assert_eq!(lookup_names("claude-opus-5"), ["claude-opus-5"]);
}

#[test]
fn a_newer_version_is_like_the_newest_known_one() {
    let newest = lookup_model("gemini-3.8-flash");
    let next = lookup_model("gemini-9-flash");
    assert_eq!(
        (next.window, next.max_output, next.price),
        (newest.window, newest.max_output, None)
    );
    // Anybody may give open weights such a name.
    assert_eq!(
        lookup_model("mistral-9-flash").window,
        lookup_model("made-up").window
    );
}

#[test]
fn only_data_of_models_dev_is_reduced() {
    let wrong = |text: &str| reduce::reduce(text.as_bytes()).unwrap_err();
    assert!(wrong("<html>").starts_with("it is not JSON"));
    assert_eq!(
        wrong("{}"),
        "it is not a list of models.dev: no known provider is in it"
    );
    assert!(wrong(r#"{"openai":{"models":[]}}"#).starts_with("it is not a list of models.dev: openai"));
    let text = r#"{"openai":{"models":{
        "a":{"tool_call":true,"reasoning":true,"last_updated":"2026-02-03","release_date":"2026-01-01",
            "reasoning_options":[{"type":"effort","values":["low",null]}],"interleaved":{"field":"reasoning_content"},
            "modalities":{"input":["text","image"],"output":["text"]},"limit":{"context":100,"input":60,"output":30},
            "cost":{"input":1,"output":2,"tiers":[{"input":2,"output":3,"tier":{"type":"context","size":50}}]}},
        "no tools":{"modalities":{"output":["text"]},"limit":{"context":9}}}}}"#;
    let catalog = reduce::reduce(text.as_bytes()).unwrap();
    assert_eq!(
        serde_json::to_value(&catalog).unwrap(),
        serde_json::json!({"date": "2026-02-03", "providers": {"openai": {"a": {
            "window": 90, "output": 30, "price": [1.0, 2.0], "tiers": [[50.0, 2.0, 3.0]], "reasoning": "low",
            "gives_back": "reasoning_content", "images": true, "released": "2026-01-01"}}}})
    );
}
