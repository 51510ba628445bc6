//! The reference of all settings, from the schema that validates them and the examples in `examples.toml`.

use std::collections::BTreeMap;

use agentls::config::generate_annotated_schema;
use serde_json::{Map, Value};

use super::cell;

const INTRO: &str = "\
# Configuration keys

<!-- Generated from src/config/settings: UPDATE_PROTOCOL=1 cargo test --test repository -->

Every key of `config.toml`. [Configuration](../configuration.md) explains where the files are and which one wins.
`agentls config check` checks yours. `agentls config schema` prints this reference as a JSON Schema for your editor.

Keys that end in `_s` are seconds, and may have a fraction; keys that end in `_ms` are whole milliseconds. `NAME` is a
name of your choice.
";

/// Renders `docs/reference/configuration.md`.
pub(crate) fn page() -> String {
    let schema = generate_annotated_schema();
    let mut examples = examples();
    let mut page = INTRO.to_owned();
    let mut top_level = Map::new();
    for (name, property) in properties(&schema) {
        if property["type"] == "object" {
            tables(name, property, &mut examples, &mut page);
        } else {
            top_level.insert(name.clone(), property.clone());
        }
    }
    page.push_str("\n## Top level\n\nThese keys stand before the first table.\n");
    keys("top", &top_level, &mut examples, &mut page);
    assert!(
        examples.is_empty(),
        "examples.toml: unused sections {:?}",
        examples.keys()
    );
    page
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Reads the sections of `examples.toml`: `#: NAME`, then the lines of the example.
fn examples() -> BTreeMap<String, String> {
    let text = include_str!("examples.toml");
    let (_, sections) = text.split_once("\n#: ").unwrap();
    sections
        .split("\n#: ")
        .map(|section| {
            let (name, example) = section.split_once('\n').unwrap();
            (name.to_owned(), example.trim().to_owned())
        })
        .collect()
}

/// Renders a table and the tables in it.
fn tables(path: &str, table: &Value, examples: &mut BTreeMap<String, String>, page: &mut String) {
    let more = &table["additionalProperties"];
    let named = more.get("properties").is_some();
    let (nested, own): (Map<_, _>, Map<_, _>) = properties(table)
        .map(|(name, property)| (name.clone(), property.clone()))
        .partition(|(_, property)| property.get("properties").is_some());
    if !own.is_empty() {
        heading(path, &table["description"], page);
        keys(path, &own, examples, page);
    }
    for (name, property) in &nested {
        tables(&format!("{path}.{name}"), property, examples, page);
    }
    if named {
        let path = format!("{path}.NAME");
        heading(&path, &table["description"], page);
        keys(&path, more["properties"].as_object().unwrap(), examples, page);
    }
}

fn heading(path: &str, description: &Value, page: &mut String) {
    let description = description.as_str().unwrap_or_default();
    page.push_str(&format!("\n## {path}\n\n{}\n", description.replace('\n', " ")));
}

/// Renders the keys of one table and an example that uses each of them.
fn keys(path: &str, keys: &Map<String, Value>, examples: &mut BTreeMap<String, String>, page: &mut String) {
    page.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
    let example = examples.remove(path);
    let example = example.unwrap_or_else(|| panic!("examples.toml has no section {path}"));
    for (name, property) in keys {
        let description = property["description"].as_str().unwrap_or_default();
        let uses = |line: &str| {
            let line = line.trim_start();
            line.strip_prefix(name.as_str())
                .is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
                || line.starts_with('[') && line.ends_with(&format!(".{name}]"))
        };
        assert!(
            description.starts_with("Another name of") || example.lines().any(uses),
            "examples.toml: section {path} does not use {name}"
        );
        let (meaning, default) = split_default(property, description);
        page.push_str(&format!(
            "| `{name}` | {} | {} | {} |\n",
            type_of(property),
            cell(&default),
            cell(&(meaning + &values(property))),
        ));
    }
    page.push_str(&format!("\n```toml\n{example}\n```\n"));
}

/// Splits a description into its meaning and its default, which the last sentence or the schema names.
fn split_default(property: &Value, description: &str) -> (String, String) {
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match (description.rsplit_once("Default: "), property.get("default")) {
        (Some((meaning, default)), _) => (
            meaning.trim_end().to_owned(),
            default.trim_end_matches('.').to_owned(),
        ),
        (None, Some(default)) => (description, format!("`{default}`")),
        (None, None) => (description, String::new()),
    }
}

fn type_of(property: &Value) -> String {
    let choices = property
        .get("anyOf")
        .or(property.get("oneOf"))
        .and_then(Value::as_array);
    if let Some(choices) = choices {
        let names: Vec<String> = choices.iter().map(type_of).collect();
        return names.join(" or ");
    }
    if let Some(value) = property["const"].as_str() {
        return format!("`{value}`");
    }
    let number = |name: &str| match (&property["minimum"], &property["maximum"]) {
        (Value::Null, Value::Null) => name.to_owned(),
        (least, Value::Null) => format!("{name}, at least {least}"),
        (Value::Null, most) => format!("{name}, at most {most}"),
        (least, most) if *most == u32::MAX => format!("{name}, at least {least}"),
        (least, most) => format!("{name}, {least} to {most}"),
    };
    match property["type"].as_str().unwrap_or_default() {
        "array" => "list of strings".to_owned(),
        "object" => "table".to_owned(),
        "integer" => number("integer"),
        "number" => number("number"),
        other => other.to_owned(),
    }
}

/// Returns the meaning of each allowed value.
fn values(property: &Value) -> String {
    let choices = property["oneOf"].as_array().into_iter().flatten();
    choices
        .filter_map(|choice| Some((choice["const"].as_str()?, choice["description"].as_str()?)))
        .map(|(value, meaning)| format!(" `{value}`: {meaning}"))
        .collect()
}
