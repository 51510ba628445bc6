//! Reduces the schema of a tool to the keywords that the Gemini API knows. Pure.

use serde_json::{Map, Value, json};

/// The keywords that the API documents for JSON Schema.
#[rustfmt::skip]
const KNOWN: [&str; 19] = [
    "$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format",
    "items", "maxItems", "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties",
    "required", "title",
];

/// Returns the schema of a tool's parameters; `None` if it has none, because the API refuses an empty object.
pub(super) fn reduce_parameters(schema: &Value) -> Option<Value> {
    let has_parameters = schema["properties"]
        .as_object()
        .is_some_and(|all| !all.is_empty());
    has_parameters.then(|| reduce(schema))
}

fn reduce(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let mut reduced = Map::new();
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("const", value) => {
                reduced.insert("enum".to_owned(), json!([value]));
            }
            ("properties" | "$defs", Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), reduce(schema)));
                reduced.insert(keyword.clone(), Value::Object(named.collect()));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => {
                reduced.insert(keyword.clone(), all.iter().map(reduce).collect());
            }
            ("items" | "additionalProperties", value) => {
                reduced.insert(keyword.clone(), reduce(value));
            }
            // One alternative that all of the value must match is the value's own schema.
            ("allOf", Value::Array(all)) if all.len() == 1 => {
                if let Value::Object(inner) = reduce(&all[0]) {
                    reduced.extend(inner);
                }
            }
            (word, value) if word == "type" || KNOWN.contains(&word) => {
                reduced.insert(keyword.clone(), value.clone());
            }
            // Everything else only narrows what is valid, and the tool checks its input itself.
            _ => {}
        }
    }
    Value::Object(reduced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keywords_are_dropped_at_every_depth() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {
                "default": {"type": ["string", "null"], "default": "x", "pattern": "^x"},
                "mode": {"oneOf": [{"const": "a", "description": "A."}, {"const": "b"}]},
                "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}, "uniqueItems": true},
                "one": {"allOf": [{"$ref": "#/$defs/Edit"}], "description": "One."}
            },
            "required": ["mode"], "additionalProperties": false,
            "$defs": {"Edit": {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}}}},
        });
        assert_eq!(
            reduce_parameters(&schema).unwrap(),
            json!({
                "type": "object",
                "properties": {
                    "default": {"type": ["string", "null"]},
                    "mode": {"oneOf": [{"enum": ["a"], "description": "A."}, {"enum": ["b"]}]},
                    "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
                    "one": {"$ref": "#/$defs/Edit", "description": "One."}
                },
                "required": ["mode"], "additionalProperties": false,
                "$defs": {"Edit": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            })
        );
        assert_eq!(
            reduce_parameters(&json!({"type": "object", "properties": {}})),
            None
        );
        assert_eq!(reduce_parameters(&json!({"type": "object"})), None);
    }
}
