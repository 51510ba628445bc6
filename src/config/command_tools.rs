//! Tools of the person's own: a command with a schema (R-TOOL), what its table says and what is made of it.
//!
//! Who runs them is `tool`'s affair. The words of JSON Schema that are understood here are those that `tool::schema`
//! checks arguments by; others are refused, or arguments that do not fit would pass.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::file::{StringOrList, ToolTable};
use super::hooks::CommandLine;

/// Longest name of a tool that all providers take.
const MAX_NAME: usize = 64;
/// How deep a schema may be nested.
const MAX_DEPTH: usize = 20;

/// What calling a tool of one's own amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolEffect {
    /// It reads and changes nothing: free in every mode.
    Read,
    /// It changes files of the workspace: free in `autoEdit`.
    Write,
    /// It may do anything: asks, but in `full`.
    #[default]
    Execute,
    /// It talks to the network: asks, but in `full`.
    Network,
}

/// A command that the model can call.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandToolSettings {
    /// Its name.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// What runs; it reads the arguments as one JSON object.
    pub command: CommandLine,
    /// The JSON Schema of its arguments.
    pub schema: Value,
    /// What calling it amounts to.
    pub effect: ToolEffect,
}

/// Without its command, which may hold what no log should.
impl fmt::Debug for CommandToolSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandToolSettings")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a key of a table.
pub(super) struct SchemaError {
    pub(super) key: &'static str,
    pub(super) why: String,
}

fn reject_key<T>(key: &'static str, why: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError { key, why: why.into() })
}

/// Whether a table is of such a tool, or tries to be.
pub(super) fn is_command_tool(table: &ToolTable) -> bool {
    table.command.is_some() || table.description.is_some() || table.schema.is_some() || table.effect.is_some()
}

/// The tool that a table describes.
pub(super) fn command_tool(name: &str, table: &ToolTable) -> Result<CommandToolSettings, SchemaError> {
    let command = match &table.command {
        Some(StringOrList::One(script)) if !script.trim().is_empty() => CommandLine::Shell(script.clone()),
        Some(StringOrList::Many(argv)) if argv.first().is_some_and(|program| !program.is_empty()) => {
            CommandLine::Argv(argv.clone())
        }
        Some(_) | None => {
            return reject_key(
                "command",
                "needs a `command`: a script, or a program and its arguments",
            );
        }
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
    let schema = match schema_of(table.schema.clone().unwrap_or_default()) {
        Ok(schema) => schema,
        Err(why) => return reject_key("schema", format!("{why}; the tool is not available")),
    };
    Ok(CommandToolSettings {
        name: name.to_owned(),
        description,
        command,
        schema,
        effect: table.effect.unwrap_or_default(),
    })
}

/// The schema of an object, whole: nothing said is no arguments.
fn schema_of(mut written: Map<String, Value>) -> Result<Value, String> {
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

const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

/// Whether all of a schema is understood.
fn validate_schema(schema: &Value, at: &str, depth: usize) -> Result<(), String> {
    let said = |what: &str| match at {
        "" => what.to_owned(),
        at => format!("`{at}`: {what}"),
    };
    let Value::Object(words) = schema else {
        return Err(said("must be a table, a JSON Schema"));
    };
    if depth > MAX_DEPTH {
        return Err(said("is nested too deeply"));
    }
    let kind = words.get("type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(said(&format!("needs a `type`: one of {}", TYPES.join(", "))));
    }
    for (word, value) in words {
        let good = match word.as_str() {
            "type" | "description" | "title" | "default" | "examples" | "$comment" => true,
            "properties" => {
                let Value::Object(properties) = value else {
                    return Err(said("`properties` must be a table"));
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
            _ => return Err(said(&format!("`{word}` is not supported in a tool's schema"))),
        };
        if !good {
            return Err(said(&format!("`{word}` does not fit here")));
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
    grep_regex::RegexMatcher::new(pattern).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Result<Value, String> {
        schema_of(schema.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn a_schema_is_understood_whole_or_refused() {
        for (schema, why) in [
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
            assert!(error.contains(why), "{schema}: {error}");
        }
        let whole = json!({"properties": {
            "env": {"type": "string", "enum": ["test", "live"], "description": "Where."},
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "tag": {"type": "string", "pattern": "^v[0-9]+$"},
            "files": {"type": "array", "items": {"type": "string"}},
        }, "required": ["env"], "additionalProperties": false});
        assert_eq!(of(whole).unwrap()["type"], "object");
        assert_eq!(of(json!({})).unwrap()["additionalProperties"], false);
    }
}
