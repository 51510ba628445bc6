//! The user's own tools: a command with a schema (R-TOOL). Validates their tables and builds their settings.
//!
//! Running them is `tool`'s job. This module accepts exactly the JSON Schema keywords that `tool::schema` checks: an
//! unknown keyword would let arguments pass that do not fit.

use serde_json::{Map, Value, json};

use super::settings::{CommandToolSettings, ToolTable};

/// The longest tool name that all providers accept.
const MAX_NAME: usize = 64;
/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 20;

/// A problem with one key of a tool's table.
pub(super) struct SchemaError {
    pub(super) key: &'static str,
    pub(super) reason: String,
}

fn reject_key<T>(key: &'static str, reason: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError {
        key,
        reason: reason.into(),
    })
}

/// Returns whether a table describes an own tool, even an incomplete one.
pub(super) fn is_command_tool(table: &ToolTable) -> bool {
    table.command.is_some() || table.description.is_some() || table.schema.is_some() || table.effect.is_some()
}

/// Builds the tool that a table describes.
///
/// # Errors
///
/// Names the key that is missing or does not fit.
pub(super) fn command_tool(name: &str, table: &ToolTable) -> Result<CommandToolSettings, SchemaError> {
    let Some(command) = table.command.clone().filter(|command| !command.is_empty()) else {
        return reject_key(
            "command",
            "needs a `command`: a script, or a program and its arguments",
        );
    };
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() > MAX_NAME || !name.chars().all(usable) {
        return reject_key(
            "command",
            "a tool's name has at most 64 letters, digits, `_` and `-`; not available",
        );
    }
    let description = table.description.as_deref().unwrap_or_default().trim().to_owned();
    if description.is_empty() {
        return reject_key(
            "description",
            "needs a `description`: what it does and when to use it, for the model",
        );
    }
    let schema = match build_schema(table.schema.clone().unwrap_or_default()) {
        Ok(schema) => schema,
        Err(reason) => return reject_key("schema", format!("{reason}; the tool is not available")),
    };
    Ok(CommandToolSettings {
        name: name.to_owned(),
        description,
        command,
        schema: schema.into(),
        effect: table.effect.unwrap_or_default(),
        sandbox: table.sandbox,
        is_from_folder: false,
    })
}

/// Completes the schema of an object. An empty one means no arguments.
fn build_schema(mut written: Map<String, Value>) -> Result<Value, String> {
    if written.is_empty() {
        return Ok(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    }
    match written.get("type") {
        None => {
            written.insert("type".to_owned(), json!("object"));
        }
        Some(kind) if kind == "object" => {}
        Some(_) => return Err("its `type` must be \"object\"".to_owned()),
    }
    written.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(written);
    validate_schema(&schema, "", 0)?;
    Ok(schema)
}

/// The types that `tool::schema` can check.
const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

/// Checks that every keyword of a schema is supported.
fn validate_schema(schema: &Value, at: &str, depth: usize) -> Result<(), String> {
    let format_problem = |problem: &str| match at {
        "" => problem.to_owned(),
        at => format!("`{at}`: {problem}"),
    };
    let Value::Object(words) = schema else {
        return Err(format_problem("must be a table, a JSON Schema"));
    };
    if depth > MAX_DEPTH {
        return Err(format_problem("is nested too deeply"));
    }
    let kind = words.get("type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(format_problem(&format!(
            "needs a `type`: one of {}",
            TYPES.join(", ")
        )));
    }
    for (word, value) in words {
        let good = match word.as_str() {
            "type" | "description" | "title" | "default" | "examples" | "$comment" => true,
            "properties" => {
                let Value::Object(properties) = value else {
                    return Err(format_problem("`properties` must be a table"));
                };
                for (name, schema) in properties {
                    let at = match at {
                        "" => name.clone(),
                        at => format!("{at}.{name}"),
                    };
                    validate_schema(schema, &at, depth + 1)?;
                }
                kind == Some("object")
            }
            "required" => kind == Some("object") && are_texts(value),
            "additionalProperties" => kind == Some("object") && value.is_boolean(),
            "items" => {
                validate_schema(value, &format!("{at}[]"), depth + 1)?;
                kind == Some("array")
            }
            "enum" => kind == Some("string") && are_texts(value) && *value != json!([]),
            "minimum" | "maximum" => matches!(kind, Some("integer" | "number")) && value.is_number(),
            "pattern" => kind == Some("string") && value.as_str().is_some_and(is_pattern),
            _ => {
                return Err(format_problem(&format!(
                    "`{word}` is not supported in a tool's schema"
                )));
            }
        };
        if !good {
            return Err(format_problem(&format!("`{word}` does not fit here")));
        }
    }
    Ok(())
}

fn are_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_pattern(pattern: &str) -> bool {
    // The engine that `tool::schema` matches with.
    grep_regex::RegexMatcher::new(pattern).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Result<Value, String> {
        build_schema(schema.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn schema_is_supported_completely_or_refused() {
        for (schema, expected) in [
            (json!({"type": "array"}), "its `type` must be \"object\""),
            (json!({"properties": {"a": {}}}), "`a`: needs a `type`"),
            (json!({"properties": {"a": 3}}), "`a`: must be a table"),
            (
                json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "text"}}}}}),
                "`a.b`: needs a `type`",
            ),
            (
                json!({"properties": {"a": {"type": "array", "items": {"type": "string", "format": "x"}}}}),
                "`a[]`: `format` is not supported",
            ),
            (
                json!({"properties": {"a": {"type": "string", "minimum": 1}}}),
                "`a`: `minimum` does not fit here",
            ),
            (
                json!({"properties": {"a": {"type": "integer", "enum": [1]}}}),
                "`a`: `enum` does not fit here",
            ),
            (
                json!({"properties": {"a": {"type": "string", "pattern": "("}}}),
                "`a`: `pattern` does not fit here",
            ),
            (json!({"oneOf": []}), "`oneOf` is not supported"),
            (json!({"required": "a"}), "`required` does not fit here"),
        ] {
            let error = of(schema.clone()).unwrap_err();
            assert!(error.contains(expected), "{schema}: {error}");
        }
        let full_schema = json!({"properties": {
            "env": {"type": "string", "enum": ["test", "live"], "description": "Where."},
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "tag": {"type": "string", "pattern": "^v[0-9]+$"},
            "files": {"type": "array", "items": {"type": "string"}},
        }, "required": ["env"], "additionalProperties": false});
        assert_eq!(of(full_schema).unwrap()["type"], "object");
        assert_eq!(of(json!({})).unwrap()["additionalProperties"], false);
    }
}
