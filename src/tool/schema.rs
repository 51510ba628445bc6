//! The JSON Schema of a tool's arguments.
//!
//! Generated from the input type for the model, and used to explain what is wrong with arguments (R-TOOL-2). Covers the
//! part of JSON Schema that our types and configured tools use; must not reject what it does not understand.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::base::nearest::nearest_name;

/// Returns the schema of `T` for models: self-contained, with optional fields simply not required.
///
/// Each is generated once: a turn lists all tools, and each call checks its arguments.
pub fn input_schema<T: JsonSchema + 'static>() -> Arc<Value> {
    static SCHEMAS: LazyLock<Mutex<HashMap<TypeId, Arc<Value>>>> = LazyLock::new(Mutex::default);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = schemas.entry(TypeId::of::<T>());
    schema.or_insert_with(|| Arc::new(generate_schema::<T>())).clone()
}

fn generate_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        // Not every API follows `$ref`.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify_schema(&mut schema);
    if let Value::Object(root) = &mut schema {
        // It says only that these are the arguments of the tool.
        root.remove("description");
    }
    schema
}

/// Removes what tells a model nothing and what some APIs reject: titles, integer formats, `null`, and choices that are
/// not a plain `enum`. The field's description has to say what its words mean.
fn simplify_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("format");
            if object.get("title").is_some_and(Value::is_string) {
                object.remove("title");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                // Lines of the source mean nothing, paragraphs do.
                let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
                *text = paragraphs.collect::<Vec<_>>().join("\n\n");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    object.remove("anyOf");
                    // The description of the field wins over that of its type.
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(words) = list_words(object) {
                object.remove("oneOf");
                object.insert("type".to_owned(), "string".into());
                object.insert("enum".to_owned(), words);
            }
            object.values_mut().for_each(simplify_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify_schema),
        _ => {}
    }
}

/// Returns the words of an enumeration whose words are described one by one.
fn list_words(schema: &Map<String, Value>) -> Option<Value> {
    let words: Option<Vec<Value>> = (schema.get("oneOf")?.as_array()?.iter())
        .map(|choice| choice.get("const").filter(|word| word.is_string()).cloned())
        .collect();
    words.map(Value::Array)
}

/// Explains the first mismatch between `input` and the schema, naming the field; `None` if all that is understood fits.
pub fn explain_mismatch(schema: &Value, input: &Value) -> Option<String> {
    check_value(schema, input, "")
}

/// Explains the first mismatch of the value with the name `at`, as [`explain_mismatch`] does.
pub fn explain_mismatch_at(schema: &Value, value: &Value, at: &str) -> Option<String> {
    check_value(schema, value, at)
}

/// Explains the first number in `input` outside of its range, naming the field.
pub fn out_of_range(schema: &Value, input: &Value) -> Option<String> {
    check_range(schema, input, "")
}

fn check_range(schema: &Value, value: &Value, at: &str) -> Option<String> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(field, value)| {
            let schema = schema.get("properties")?.get(field)?;
            check_range(schema, value, &join_field_path(at, field))
        }),
        Value::Array(items) => (0..).zip(items).find_map(|(index, item)| {
            check_range(item_schema(schema, index)?, item, &format!("{at}[{index}]"))
        }),
        Value::Number(_) if schema.get("type").and_then(Value::as_str) == Some("integer") => {
            check_integer(schema, value, at)
        }
        _ => None,
    }
}

/// Returns the schema of a list's item. Without one, any item fits.
pub(super) fn item_schema(list: &Value, index: usize) -> Option<&Value> {
    let prefix = list.get("prefixItems").and_then(Value::as_array);
    prefix
        .and_then(|prefix| prefix.get(index))
        .or_else(|| list.get("items"))
}

/// Returns whether the schema refuses fields that it does not name. Elsewhere such a field may have a meaning.
pub(super) fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none()
}

/// Returns the path of a field inside the value at `at`.
fn join_field_path(at: &str, field: &str) -> String {
    match at {
        "" => field.to_owned(),
        at => format!("{at}.{field}"),
    }
}

fn check_value(schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(names) = list_choices(schema) {
        let known = value.as_str().is_some_and(|value| names.contains(&value));
        return (!known).then(|| {
            format!(
                "{}: expected one of {}, got {}",
                name(at),
                names.join(", "),
                describe_value(value)
            )
        });
    }
    match schema.get("type").and_then(Value::as_str)? {
        "object" => match value {
            Value::Object(fields) => check_fields(schema, fields, at),
            _ => Some(format_type_mismatch(at, "an object", value)),
        },
        "array" => match value {
            Value::Array(items) => (0..).zip(items).find_map(|(index, item)| {
                check_value(item_schema(schema, index)?, item, &format!("{at}[{index}]"))
            }),
            _ => Some(format_type_mismatch(at, "a list", value)),
        },
        "string" => match value.as_str() {
            Some(text) => check_pattern(schema, text, at),
            None => Some(format_type_mismatch(at, "a string", value)),
        },
        "boolean" => (!value.is_boolean()).then(|| format_type_mismatch(at, "true or false", value)),
        "number" => {
            if value.is_number() {
                check_bounds(schema, value, at)
            } else {
                Some(format_type_mismatch(at, "a number", value))
            }
        }
        "integer" => check_integer(schema, value, at),
        _ => None,
    }
}

fn check_integer(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let is_whole =
        value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    if is_whole {
        check_bounds(schema, value, at)
    } else {
        Some(format_type_mismatch(at, "a whole number", value))
    }
}

fn check_bounds(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let number = value.as_f64()?;
    let bound = |key: &str| schema.get(key).filter(|bound| bound.is_number());
    let beyond = |bound: &Value, beyond: fn(f64, f64) -> bool| {
        bound.as_f64().is_some_and(|bound| beyond(number, bound))
    };
    match (bound("minimum"), bound("maximum")) {
        (Some(min), _) if beyond(min, |number, min| number < min) => {
            Some(format!("{}: must be at least {min}, got {value}", name(at)))
        }
        (_, Some(max)) if beyond(max, |number, max| number > max) => {
            Some(format!("{}: must be at most {max}, got {value}", name(at)))
        }
        _ => None,
    }
}

/// Patterns occur only in schemas that a user configures. Loading the configuration has checked that they compile.
fn check_pattern(schema: &Value, text: &str, at: &str) -> Option<String> {
    use grep_matcher::Matcher;
    let pattern = schema.get("pattern")?.as_str()?;
    let matcher = grep_regex::RegexMatcher::new(pattern).ok()?;
    let fits = matcher.is_match(text.as_bytes()).unwrap_or(false);
    (!fits).then(|| {
        let text = crate::base::text::one_line(text, 40);
        format!(
            "{}: must match the pattern {pattern}, got the string \"{text}\"",
            name(at)
        )
    })
}

fn check_fields(schema: &Value, fields: &Map<String, Value>, at: &str) -> Option<String> {
    let empty = Map::new();
    let known = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    // First: a misspelled name explains why a required field is missing.
    if is_closed(schema)
        && let Some(stray) = fields.keys().find(|field| !known.contains_key(*field))
    {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let hint = nearest_name(stray, names.iter().copied()).map_or_else(String::new, |suggestion| {
            format!("; did you mean `{suggestion}`?")
        });
        return Some(format!(
            "{}: unknown field{hint} (known: {})",
            name(&join_field_path(at, stray)),
            names.join(", ")
        ));
    }
    if let Some(missing) = required.iter().find(|field| !fields.contains_key(**field)) {
        return Some(format!("{}: is missing", name(&join_field_path(at, missing))));
    }
    fields.iter().find_map(|(field, value)| {
        // Models write null for fields that they omit.
        if value.is_null() && !required.contains(&field.as_str()) {
            return None;
        }
        check_value(known.get(field)?, value, &join_field_path(at, field))
    })
}

/// Returns the words that an enumeration allows.
fn list_choices(schema: &Value) -> Option<Vec<&str>> {
    if let Some(Value::Array(names)) = schema.get("enum") {
        return names.iter().map(Value::as_str).collect();
    }
    let Value::Array(kinds) = schema.get("oneOf")? else {
        return None;
    };
    let mut names = Vec::new();
    for kind in kinds {
        match (kind.get("const"), kind.get("enum")) {
            (Some(Value::String(name)), _) => names.push(name.as_str()),
            (None, Some(Value::Array(some))) => {
                names.extend(some.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?);
            }
            _ => return None,
        }
    }
    Some(names)
}

fn format_type_mismatch(at: &str, expected: &str, got: &Value) -> String {
    format!("{}: expected {expected}, got {}", name(at), describe_value(got))
}

fn name(at: &str) -> String {
    match at {
        "" => "the arguments".to_owned(),
        at => format!("`{at}`"),
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", crate::base::text::one_line(text, 40)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum SchemaKind {
        /// The one.
        First,
        /// The other.
        Second,
    }

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        /// A word.
        old_text: String,
        /// A kind.
        kind: Option<SchemaKind>,
    }

    /// The arguments of nothing.
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Outer {
        /// Several.
        edits: Vec<Inner>,
        /// How
        /// many.
        #[schemars(range(min = 1, max = 9))]
        limit: Option<u32>,
        /// Whether.
        flag: Option<bool>,
    }

    #[test]
    fn the_schema_is_plain() {
        let schema = generate_schema::<Outer>();
        assert_eq!(schema["required"], json!(["edits"]));
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(
            schema["properties"]["limit"],
            json!({"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9})
        );
        assert_eq!(
            schema["properties"]["edits"]["items"]["properties"]["kind"],
            json!({"type": "string", "description": "A kind.", "enum": ["first", "second"]})
        );
        assert_eq!(schema.get("description"), None);
        let text = schema.to_string();
        for word in [
            "$ref", "$defs", "$schema", "null", "title", "format", "oneOf", "const",
        ] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn mismatches_name_the_field() {
        let schema = generate_schema::<Outer>();
        for (input, expected) in [
            (
                json!("x"),
                "the arguments: expected an object, got the string \"x\"",
            ),
            (json!({}), "`edits`: is missing"),
            (json!({"edits": 1}), "`edits`: expected a list, got the number 1"),
            (
                json!({"edits": [{"old_text": 3}]}),
                "`edits[0].old_text`: expected a string, got the number 3",
            ),
            (
                json!({"edits": [{"oldText": "a", "old_text": "a"}]}),
                "`edits[0].oldText`: unknown field; did you mean `old_text`? (known: old_text, kind)",
            ),
            (
                json!({"edits": [{"old_text": "a", "kind": "third"}]}),
                "`edits[0].kind`: expected one of first, second, got the string \"third\"",
            ),
            (
                json!({"edits": [], "limit": "5"}),
                "`limit`: expected a whole number, got the string \"5\"",
            ),
            (
                json!({"edits": [], "limit": 0}),
                "`limit`: must be at least 1, got 0",
            ),
            (
                json!({"edits": [], "flag": []}),
                "`flag`: expected true or false, got a list",
            ),
        ] {
            let text = explain_mismatch(&schema, &input).unwrap();
            let sorted = |text: &str| {
                let mut chars: Vec<char> = text.chars().collect();
                chars.sort_unstable();
                chars
            };
            // The order of known names depends on how JSON maps are built.
            assert_eq!(sorted(&text), sorted(expected), "{text}");
        }
        for (schema, fits, wrong, expected) in [
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}),
                json!(["x", 1, 2]),
                json!(["x", "y"]),
                "`[1]`: expected a number",
            ),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
                json!(["x", 1, {}]),
                json!([1]),
                "`[0]`: expected a string",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "patternProperties": {"^x-": {}},
                       "additionalProperties": false}),
                json!({"x-b": 1}),
                json!({"a": 1}),
                "`a`: expected a string",
            ),
            (
                json!({"oneOf": [{"const": "a"}, {"enum": ["b", 1]}]}),
                json!(1),
                json!(null),
                "",
            ),
            (
                json!({"type": "integer"}),
                json!(u64::MAX),
                json!(1.5),
                "the arguments: expected a whole number",
            ),
        ] {
            assert_eq!(explain_mismatch(&schema, &fits), None, "{schema}");
            let text = explain_mismatch(&schema, &wrong).unwrap_or_default();
            assert!(text.starts_with(expected), "{text}");
        }
        for fits in [
            json!({"edits": [], "limit": null}),
            json!({"edits": [{"old_text": "", "kind": "first"}]}),
        ] {
            assert_eq!(explain_mismatch(&schema, &fits), None);
        }
    }
}
