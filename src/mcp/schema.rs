//! Adapts the JSON Schema of a tool's arguments to what every provider accepts.
//!
//! Providers refuse a whole request for one schema that they do not like, so a schema must be an object with
//! `properties`, without references, and not huge. What is dropped here the server still checks itself.

use serde_json::{Map, Value, json};

/// The deepest nesting that is kept.
const MAX_DEPTH: usize = 24;
/// The most values that are kept.
const MAX_VALUES: usize = 4_000;
/// The longest text that is kept.
const MAX_TEXT: usize = 4_000;

/// Keywords with a schema for each of their entries.
const SCHEMA_MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
];

/// Returns whether our regular expressions may read a pattern differently than those of JSON Schema.
pub(super) fn is_odd_pattern(pattern: &str) -> bool {
    ["&&", "--", "~~", "\\A", "\\z", "\\a"]
        .iter()
        .any(|odd| pattern.contains(odd))
}

/// Keywords that some provider refuses, or that mean nothing without the rest of a document.
#[rustfmt::skip]
const DROPPED: [&str; 9] = [
    "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$dynamicRef", "$dynamicAnchor",
];
/// The names of types.
const TYPES: [&str; 7] = [
    "object", "array", "string", "integer", "number", "boolean", "null",
];

/// Returns the schema in a form that every provider accepts.
pub(super) fn adapt_schema(stated: &Value) -> Value {
    let mut adapter = SchemaAdapter {
        root: stated,
        left: MAX_VALUES,
    };
    let mut object = match adapter.adapt(stated, 0) {
        Value::Object(object) if is_object_schema(&object) => object,
        _ => Map::new(),
    };
    merge_alternatives(&mut object);
    for word in ["not", "enum", "const", "if", "then", "else"] {
        object.remove(word);
    }
    object.insert("type".to_owned(), json!("object"));
    Value::Object(object)
}

/// Replaces the alternatives at the top, which providers refuse, by the properties of all of them. What only some
/// alternatives require is optional.
fn merge_alternatives(object: &mut Map<String, Value>) {
    let mut take = |word: &str| object.remove(word).unwrap_or_default();
    let mut properties = match take("properties") {
        Value::Object(properties) => properties,
        _ => Map::new(),
    };
    let stated = take("required");
    let mut required = stated.as_array().cloned().unwrap_or_default();
    for word in ["allOf", "anyOf", "oneOf"] {
        let branches = take(word);
        let branches = branches
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object);
        let branches: Vec<_> = branches.filter(|branch| is_object_schema(branch)).collect();
        let more = branches
            .iter()
            .filter_map(|branch| branch.get("properties")?.as_object());
        for (name, schema) in more.flatten() {
            let known = properties.entry(name).or_insert_with(|| schema.clone());
            if known != schema {
                *known = json!({"anyOf": [known.take(), schema]});
            }
        }
        let names = branches
            .iter()
            .filter_map(|branch| branch.get("required")?.as_array());
        let names: Vec<&Value> = names.flatten().collect();
        let needed = if word == "allOf" { 1 } else { branches.len() };
        for name in &names {
            let count = names.iter().filter(|other| *other == name).count();
            if count >= needed && !required.contains(name) {
                required.push((*name).clone());
            }
        }
    }
    if stated.is_array() || !required.is_empty() {
        object.insert("required".to_owned(), Value::Array(required));
    }
    object.insert("properties".to_owned(), Value::Object(properties));
}

fn is_object_schema(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_none_or(|kind| {
        kind == "object"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!("object")))
    })
}

struct SchemaAdapter<'a> {
    root: &'a Value,
    /// Values that may still be kept.
    left: usize,
}

impl SchemaAdapter<'_> {
    fn adapt(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(words) = schema else {
            // `true` and `false` are schemas too.
            return json!({});
        };
        if depth > MAX_DEPTH || !self.take(words.len() + 1) {
            return json!({});
        }
        if let Some(reference) = words.get("$ref").and_then(Value::as_str) {
            let target = reference
                .strip_prefix('#')
                .and_then(|path| self.root.pointer(path));
            let mut adapted = match target {
                Some(target) => self.adapt(target, depth + 1),
                None => json!({}),
            };
            if let (Value::Object(adapted), Some(description)) = (&mut adapted, words.get("description")) {
                adapted.insert("description".to_owned(), self.copy(description, depth));
            }
            return adapted;
        }
        let mut adapted = Map::new();
        let is_old_tuple = words.get("items").is_some_and(Value::is_array);
        for (word, value) in words {
            // Older dialects name the items of a tuple differently.
            let name = match word.as_str() {
                "items" if is_old_tuple => "prefixItems",
                "additionalItems" if is_old_tuple => "items",
                name => name,
            };
            if DROPPED.contains(&name) {
                continue;
            }
            let value = match name {
                name if SCHEMA_MAPS.contains(&name) => match value {
                    Value::Object(entries) => {
                        let mut kept = Map::new();
                        for (name, schema) in entries {
                            if self.left == 0 {
                                break;
                            }
                            kept.insert(name.clone(), self.adapt(schema, depth + 1));
                        }
                        Value::Object(kept)
                    }
                    _ => continue,
                },
                "items" | "contains" | "not" | "propertyNames" | "if" | "then" | "else" => {
                    self.adapt(value, depth + 1)
                }
                "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems"
                    if value.is_object() =>
                {
                    self.adapt(value, depth + 1)
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value {
                    Value::Array(choices) if !choices.is_empty() => Value::Array(
                        choices
                            .iter()
                            .map(|choice| self.adapt(choice, depth + 1))
                            .collect(),
                    ),
                    _ => continue,
                },
                "type" if !is_known_type(value) => continue,
                "required" => match filter_required(value, &adapted) {
                    Some(required) => required,
                    None => continue,
                },
                // Older dialects have flags here.
                "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => continue,
                "enum" if value.as_array().is_none_or(Vec::is_empty) => continue,
                "pattern" if value.as_str().is_some_and(is_odd_pattern) => continue,
                _ if self.left == 0 => continue,
                _ => self.copy(value, depth),
            };
            adapted.insert(name.to_owned(), value);
        }
        if adapted.contains_key("prefixItems") {
            // Some providers refuse a list without it.
            adapted.entry("items").or_insert_with(|| json!({}));
        }
        if self.left == 0 {
            // It would refuse the fields that were left out.
            adapted.remove("additionalProperties");
        }
        Value::Object(adapted)
    }

    /// Copies a plain value, such as a default, within the bounds.
    fn copy(&mut self, value: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.take(1) {
            return Value::Null;
        }
        match value {
            Value::String(text) => Value::String(crate::base::text::prefix_within(text, MAX_TEXT).to_owned()),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.copy(item, depth + 1)).collect())
            }
            Value::Object(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), self.copy(value, depth + 1)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    fn take(&mut self, count: usize) -> bool {
        let enough = self.left >= count;
        self.left = self.left.saturating_sub(count);
        enough
    }
}

fn is_known_type(value: &Value) -> bool {
    let is_known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_known),
        one => is_known(one),
    }
}

/// Keeps the required names that are properties: some providers refuse others. Properties come first, in the order of
/// names.
fn filter_required(value: &Value, adapted: &Map<String, Value>) -> Option<Value> {
    let properties = adapted.get("properties").and_then(Value::as_object)?;
    let names = value.as_array()?.iter();
    let known = names.filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
    Some(Value::Array(known.cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_schemas_stay() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "A path.", "enum": ["a", "b"]},
                "limits": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                "more": {"type": ["string", "null"], "default": null},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(adapt_schema(&schema), schema);
    }

    #[test]
    fn odd_schemas_become_objects() {
        let empty = json!({"type": "object", "properties": {}});
        for (stated, expected) in [
            (Value::Null, empty.clone()),
            (json!("object"), empty.clone()),
            (json!({"type": "banana"}), empty.clone()),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                empty.clone(),
            ),
            (
                json!({"anyOf": [{"type": "object"}, {"type": "null"}]}),
                empty.clone(),
            ),
            (json!({"$ref": "http://127.0.0.1:9/schema.json"}), empty.clone()),
            (
                json!({"type": "object", "properties": {}, "required": ["none"]}),
                json!({"type": "object", "properties": {}, "required": []}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/none"}}}),
                json!({"type": "object", "properties": {"a": {}}}),
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/A", "description": "An a."}}, "$defs": {"A": {"type": "string"}}}),
                json!({"type": "object", "properties": {"a": {"type": "string", "description": "An a."}}}),
            ),
            (
                json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "number", "exclusiveMinimum": true}}}),
                json!({"type": "object", "properties": {"a": {"type": "number"}}}),
            ),
        ] {
            assert_eq!(adapt_schema(&stated), expected, "{stated}");
        }
    }

    #[test]
    fn alternatives_at_the_top_become_properties() {
        let branch = |name: &str, kind: &str| {
            json!({"type": "object", "properties": {name: {"type": kind}, "mode": {"const": name}},
                   "required": [name, "mode"]})
        };
        for word in ["anyOf", "oneOf"] {
            let stated = json!({
                "type": "object", "properties": {"all": {"type": "string"}}, "required": ["all"],
                word: [branch("a", "string"), branch("b", "integer"), {"type": "null"}],
            });
            let expected = json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string"}, "all": {"type": "string"}, "b": {"type": "integer"},
                    "mode": {"anyOf": [{"const": "a"}, {"const": "b"}]},
                },
                "required": ["all", "mode"],
            });
            assert_eq!(adapt_schema(&stated), expected);
        }
        let both = adapt_schema(&json!({"allOf": [branch("a", "string"), branch("b", "integer")]}));
        assert_eq!(both["required"], json!(["a", "mode", "b"]));
    }

    #[test]
    fn tuples_of_all_dialects_have_the_newest_form() {
        for (stated, expected) in [
            (
                json!({"type": "array", "items": [{"type": "string"}, {"$ref": "#/$defs/N"}], "minItems": 2}),
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": {}, "minItems": 2}),
            ),
            (
                json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "number"}}),
                json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}),
            ),
            (
                json!({"type": "array", "prefixItems": [{"$ref": "#/$defs/N"}], "items": false}),
                json!({"type": "array", "prefixItems": [{"type": "number"}], "items": {}}),
            ),
            (json!({"type": "array", "items": []}), json!({"type": "array"})),
        ] {
            let root =
                json!({"type": "object", "properties": {"a": stated}, "$defs": {"N": {"type": "number"}}});
            assert_eq!(adapt_schema(&root)["properties"]["a"], expected);
        }
    }

    #[test]
    fn what_is_read_differently_or_cut_refuses_nothing() {
        let pattern = |pattern: &str| {
            let stated =
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
            adapt_schema(&stated)["properties"]["a"].clone()
        };
        assert_eq!(
            pattern("^[a-z]+$"),
            json!({"type": "string", "pattern": "^[a-z]+$"})
        );
        assert_eq!(pattern(r"[\w+--/]"), json!({"type": "string"}));
        let wide: Map<String, Value> = (0..MAX_VALUES)
            .map(|number| (format!("p{number}"), json!({"type": "string"})))
            .collect();
        let stated = json!({"type": "object", "properties": wide, "additionalProperties": false});
        assert_eq!(adapt_schema(&stated)["additionalProperties"], Value::Null);
    }

    #[test]
    fn of_too_many_properties_the_first_stay_whole() {
        let described = |number| {
            (
                format!("p{number:04}"),
                json!({"type": "string", "description": "d"}),
            )
        };
        let properties: Map<String, Value> = (0..2_000).map(described).collect();
        let stated = json!({"type": "object", "properties": properties, "required": ["p0000", "p1999"]});
        let adapted = adapt_schema(&stated);
        let kept = adapted["properties"].as_object().unwrap();
        assert!(kept.len() > 500 && kept.len() < 2_000, "{}", kept.len());
        assert_eq!(kept["p0000"], stated["properties"]["p0000"]);
        assert!(kept.values().filter(|schema| schema["type"] != "string").count() <= 1);
        assert!(
            !kept
                .values()
                .any(|schema| schema["type"].is_null() && !schema.as_object().unwrap().is_empty())
        );
    }

    #[test]
    fn endless_and_huge_schemas_are_bounded() {
        let endless = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(adapt_schema(&endless).to_string().len() < 200_000);
        let mut deep = json!({"type": "string"});
        for _ in 0..200 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        assert!(adapt_schema(&deep).to_string().len() < 2_000);
        let wide: Map<String, Value> = (0..50_000)
            .map(|number| (format!("p{number}"), json!({"type": "string"})))
            .collect();
        let adapted = adapt_schema(&json!({"type": "object", "properties": wide}));
        assert!(adapted["properties"].as_object().unwrap().len() <= MAX_VALUES);
    }
}
