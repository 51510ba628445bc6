//! Makes the arguments of a call regular: what a model means without doubt, but does not write as the schema says.
//!
//! It runs before anything judges the call, so hooks, rules, people, and the tool all see the regular arguments. Each
//! correction is told to the model in a note. Fails closed: whatever has two readings stays as it is, and the schema
//! refuses it. Knows schemas and common misspellings, but no single tool.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::schema::{is_closed, item_schema};
use super::{DynTool, PreparedCall, ToolContext, stored_output};
use crate::base::nofollow;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::workspace::Buffer;

/// Other names of fields: what models have learned from other tools, and our field.
const ALIASES: [(&str, &str); 44] = [
    ("absolute_path", "path"),
    ("file", "path"),
    ("file_path", "path"),
    ("filename", "path"),
    ("filepath", "path"),
    ("target_file", "path"),
    ("dir", "path"),
    ("dir_path", "path"),
    ("directory", "path"),
    ("folder", "path"),
    ("new", "new_text"),
    ("new_str", "new_text"),
    ("new_string", "new_text"),
    ("replace", "new_text"),
    ("old", "old_text"),
    ("old_str", "old_text"),
    ("old_string", "old_text"),
    ("search", "old_text"),
    ("contents", "content"),
    ("file_text", "content"),
    ("text", "content"),
    ("diff", "patch"),
    ("input", "patch"),
    ("cmd", "command"),
    ("cwd", "workdir"),
    ("dir", "workdir"),
    ("directory", "workdir"),
    ("working_directory", "workdir"),
    ("query", "pattern"),
    ("query", "name"),
    ("symbol", "name"),
    ("name", "symbol"),
    ("regex", "pattern"),
    ("include", "glob"),
    ("head_limit", "limit"),
    ("-i", "ignore_case"),
    ("-A", "context"),
    ("-B", "context"),
    ("-C", "context"),
    ("run_in_background", "background"),
    ("plan", "items"),
    ("todos", "items"),
    ("step", "text"),
    ("content", "text"),
];

/// Fields in which models explain a call. They ask for nothing, so a call without them means the same.
#[rustfmt::skip]
const REMARKS: [&str; 10] = [
    "comment", "description", "explanation", "instruction", "justification", "purpose", "rationale",
    "reason", "reasoning", "thought",
];

/// Regular arguments, and what was changed.
#[derive(Debug, PartialEq)]
pub struct RegularArguments {
    pub arguments: Value,
    /// What was changed, as one line for the model.
    pub note: String,
}

/// Checks the arguments of a call after making them regular, and returns them if that changed anything.
///
/// # Errors
/// What is wrong with the arguments, as text for the model.
pub fn prepare_call(
    tool: &Arc<dyn DynTool>,
    arguments: &Value,
    cx: &ToolContext,
) -> Result<(Box<dyn PreparedCall>, Option<RegularArguments>), String> {
    let exists_inside = |path: &str| exists_inside(cx, path);
    let paths: Option<&dyn Fn(&str) -> bool> = tool.has_workspace_path().then_some(&exists_inside);
    let regular = make_regular(&tool.spec().schema, arguments, paths);
    let arguments = regular.as_ref().map_or(arguments, |regular| &regular.arguments);
    let prepared = tool.clone().prepare_call(arguments)?;
    Ok((prepared, regular))
}

/// Returns whether there is such a file or folder inside the workspace. Elsewhere, nobody has allowed to look.
fn exists_inside(cx: &ToolContext, path: &str) -> bool {
    let Ok(path) = cx.workspace.resolve_path(&cx.cwd, path) else {
        return false;
    };
    let is_in_editor = || cx.workspace.overlay().lookup_buffer(&path.absolute) != Buffer::Saved;
    path.inside && (nofollow::kind(&path.absolute).is_some() || is_in_editor())
}

/// Makes arguments regular; `None` if nothing has to change.
///
/// `exists` is given for tools whose field `path` names a file of the workspace.
fn make_regular(
    schema: &Value,
    arguments: &Value,
    exists: Option<&dyn Fn(&str) -> bool>,
) -> Option<RegularArguments> {
    let mut changed = Correction::default();
    let mut arguments = arguments.clone();
    if let Value::Object(fields) = &mut arguments {
        changed.wrap_flat_item(schema, fields);
        let known = schema.get("properties").and_then(Value::as_object);
        // Tools of others may count otherwise.
        if let Some(known) = known.filter(|_| exists.is_some()) {
            changed.convert_lines(known, fields);
            changed.convert_timeout(known, fields);
        }
    }
    changed.correct_value(schema, &mut arguments, "");
    if let (Some(exists), Some(given)) = (exists, arguments.get("path").and_then(Value::as_str))
        && let Some(path) = clean_path(given, exists)
    {
        let note = format!("`{}` for the path `{}`", quote(&path), quote(given));
        arguments["path"] = path.into();
        changed.notes.push(note);
    }
    (!changed.notes.is_empty()).then(|| RegularArguments {
        arguments,
        note: format!("[arguments corrected: {}]", changed.notes.join("; ")),
    })
}

#[derive(Default)]
struct Correction {
    notes: Vec<String>,
}

impl Correction {
    /// Corrects a value, with all values inside it. `at` is its place, for notes.
    fn correct_value(&mut self, schema: &Value, value: &mut Value, at: &str) {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {
                self.decode_text(value, at, Value::is_object);
                if let Value::Object(fields) = value {
                    self.correct_fields(schema, fields, at);
                }
            }
            Some("array") => self.correct_list(schema, value, at),
            Some(name @ ("boolean" | "integer" | "number" | "string")) => {
                if let Some(meant) = read_scalar(name, value) {
                    self.notes.push(format!(
                        "{} for {} in `{}`",
                        quote(&meant.to_string()),
                        quote(&value.to_string()),
                        quote(at)
                    ));
                    *value = meant;
                }
            }
            Some(_) | None => {}
        }
    }

    fn correct_list(&mut self, schema: &Value, value: &mut Value, at: &str) {
        let first = item_schema(schema, 0).and_then(|item| item.get("type"));
        let holds_objects = first.and_then(Value::as_str) == Some("object");
        self.decode_text(value, at, |value| {
            value.is_array() || (holds_objects && value.is_object())
        });
        if holds_objects && value.is_object() {
            self.notes.push(format!("a list of one for `{at}`"));
            *value = Value::Array(vec![value.take()]);
        }
        if let Value::Array(items) = value {
            for (index, value) in items.iter_mut().enumerate() {
                if let Some(schema) = item_schema(schema, index) {
                    self.correct_value(schema, value, &format!("{at}[{index}]"));
                }
            }
        }
    }

    /// Decodes JSON that was written as text.
    fn decode_text(&mut self, value: &mut Value, at: &str, fits: impl Fn(&Value) -> bool) {
        let Value::String(text) = &*value else { return };
        if !text.trim_start().starts_with(['{', '[']) {
            return;
        }
        if let Ok(decoded) = serde_json::from_str::<Value>(text)
            && fits(&decoded)
        {
            let at = if at.is_empty() { "the arguments" } else { at };
            self.notes.push(format!("the JSON in the text of `{at}`"));
            *value = decoded;
        }
    }

    fn correct_fields(&mut self, schema: &Value, fields: &mut Map<String, Value>, at: &str) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        if is_closed(schema) {
            let stray: Vec<String> = fields
                .keys()
                .filter(|name| !known.contains_key(*name))
                .cloned()
                .collect();
            for name in stray {
                self.settle_stray_field(known, fields, &name);
            }
        }
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = known.get(name) {
                let at = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                self.correct_value(schema, value, &at);
            }
        }
    }

    /// Renames or drops a field that the schema does not know, if that has only one reading.
    fn settle_stray_field(
        &mut self,
        known: &Map<String, Value>,
        fields: &mut Map<String, Value>,
        name: &str,
    ) {
        if let Some(field) = find_meant_field(known, name) {
            if fields.get(field) == fields.get(name) {
                fields.remove(name);
                self.notes
                    .push(format!("`{field}` alone, without the same `{}`", quote(name)));
            } else if !fields.contains_key(field)
                && !others_mean(known, fields, name, field)
                && let Some(value) = fields.remove(name)
            {
                fields.insert(field.to_owned(), value);
                self.notes.push(format!("`{field}` for `{}`", quote(name)));
            } else if ["-A", "-B", "-C"].contains(&name)
                && let Some(lines) = fields.get(name).and_then(Value::as_u64)
                && let Some(others) = fields.get(field).map_or(Some(0), Value::as_u64)
            {
                // The lines before and after a match cannot differ, so the most count.
                let most = lines.max(others);
                fields.remove(name);
                fields.insert(field.to_owned(), most.into());
                self.notes.push(format!("`{field}` {most} for `{name}`"));
            }
            return;
        }
        let says_nothing = match fields.get(name) {
            Some(Value::Null) => true,
            Some(Value::String(_)) => REMARKS.contains(&name),
            // Of ripgrep: our lines always have numbers.
            Some(Value::Bool(_)) => name == "-n",
            _ => false,
        };
        if says_nothing {
            fields.remove(name);
            self.notes
                .push(format!("without the unknown field `{}`", quote(name)));
        }
    }

    /// Converts the first and the last line to read into our fields.
    fn convert_lines(&mut self, known: &Map<String, Value>, fields: &mut Map<String, Value>) {
        // The offset of a search counts results, not lines.
        let counts_lines = known.contains_key("offset") && !known.contains_key("pattern");
        if !counts_lines || fields.contains_key("offset") || fields.contains_key("limit") {
            return;
        }
        let is_given = |name: &&String| matches!(to_snake_case(name).as_str(), "start_line" | "end_line");
        let given: Vec<String> = fields.keys().filter(is_given).cloned().collect();
        let (mut first, mut last) = (1, None);
        for name in &given {
            let Some(line) = read_count(&fields[name]) else {
                return;
            };
            if to_snake_case(name).starts_with("start") {
                first = line.max(1);
            } else {
                last = Some(line);
            }
        }
        if given.is_empty() || last.is_some_and(|last| last < first) {
            return;
        }
        fields.retain(|name, _| !given.contains(name));
        let count = last.map(|last| last - first + 1);
        let ours = [("offset", Some(first)), ("limit", count)];
        for (name, value) in ours.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            fields.insert(name.to_owned(), value.into());
            self.notes
                .push(format!("`{name}` {value} for `{}`", given.join("` and `")));
        }
    }

    /// Converts a time limit into seconds. A number without a unit is one of seconds or of milliseconds if the other would
    /// be absurd.
    fn convert_timeout(&mut self, known: &Map<String, Value>, fields: &mut Map<String, Value>) {
        const FIELD: &str = "timeout_s";
        let given = |name: &&String| matches!(to_snake_case(name).as_str(), "timeout" | "timeout_ms");
        let Some(name) = fields.keys().find(given).cloned() else {
            return;
        };
        let value = &fields[&name];
        let number = read_scalar("number", value).as_ref().unwrap_or(value).as_f64();
        // At most 600 s are allowed.
        let seconds = number.and_then(|number| match number {
            _ if to_snake_case(&name) != "timeout" => Some(number / 1_000.0),
            ..=600.0 => Some(number),
            10_000.0.. => Some(number / 1_000.0),
            _ => None,
        });
        if let Some(seconds) = seconds.filter(|_| known.contains_key(FIELD) && !fields.contains_key(FIELD)) {
            fields.remove(&name);
            fields.insert(FIELD.to_owned(), seconds.into());
            self.notes.push(format!("`{FIELD}` {seconds} for `{name}`"));
        }
    }

    /// Wraps the fields of an item that were written without the list that holds it: one edit without `edits`.
    fn wrap_flat_item(&mut self, schema: &Value, fields: &mut Map<String, Value>) {
        let Some((list, item, known)) = find_required_list(schema, fields) else {
            return;
        };
        let Some(in_item) = item.get("properties").and_then(Value::as_object) else {
            return;
        };
        let belongs = |name: &String| {
            !known.contains_key(name)
                && find_meant_field(known, name).is_none()
                && (in_item.contains_key(name) || find_meant_field(in_item, name).is_some())
        };
        let names: Vec<String> = fields.keys().filter(|name| belongs(name)).cloned().collect();
        if names.is_empty() {
            return;
        }
        let item: Map<String, Value> = (names.iter())
            .filter_map(|name| Some((name.clone(), fields.remove(name)?)))
            .collect();
        self.notes.push(format!("a list of one for `{list}`"));
        fields.insert(list.to_owned(), Value::Array(vec![Value::Object(item)]));
    }
}

/// Returns the required list of objects that is missing, its items' schema, and all known fields.
fn find_required_list<'s>(
    schema: &'s Value,
    fields: &Map<String, Value>,
) -> Option<(&'s str, &'s Value, &'s Map<String, Value>)> {
    let known = schema.get("properties")?.as_object()?;
    if !is_closed(schema) {
        return None;
    }
    let required = schema.get("required")?.as_array()?;
    let mut missing = (required.iter())
        .filter_map(Value::as_str)
        .filter(|name| !fields.contains_key(*name))
        .filter_map(|name| Some((name, item_schema(known.get(name)?, 0)?)))
        .filter(|(_, item)| item.get("type").and_then(Value::as_str) == Some("object"));
    let (list, item) = missing.next()?;
    missing.next().is_none().then_some((list, item, known))
}

/// Returns the known field that `name` means: the same in another case, or by an alias.
fn find_meant_field<'k>(known: &'k Map<String, Value>, name: &str) -> Option<&'k str> {
    let snake = to_snake_case(name);
    let direct = known.get_key_value(&snake).map(|(field, _)| field.as_str());
    let mut aliases = (ALIASES.iter())
        .filter(|(alias, _)| *alias == snake || *alias == name)
        .filter_map(|(_, field)| known.get_key_value(*field));
    // An alias with two fields that the tool knows has two readings.
    let alias = aliases.next().filter(|_| aliases.next().is_none());
    direct.or(alias.map(|(field, _)| field.as_str()))
}

/// Returns whether another unknown field means the same one, with another value.
fn others_mean(known: &Map<String, Value>, fields: &Map<String, Value>, name: &str, field: &str) -> bool {
    fields.keys().any(|other| {
        fields.get(other) != fields.get(name)
            && !known.contains_key(other)
            && find_meant_field(known, other) == Some(field)
    })
}

fn to_snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        match letter {
            '-' => snake.push('_'),
            letter if letter.is_ascii_uppercase() => {
                if !snake.is_empty() {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            letter => snake.push(letter),
        }
    }
    snake
}

fn read_count(value: &Value) -> Option<u64> {
    read_scalar("integer", value).as_ref().unwrap_or(value).as_u64()
}

/// Returns the value of the type `name` that `value` spells; `None` if it has that type, or spells no such value.
fn read_scalar(name: &str, value: &Value) -> Option<Value> {
    match (name, value) {
        ("boolean", Value::String(text)) => match text.trim() {
            "true" | "True" | "TRUE" => Some(true.into()),
            "false" | "False" | "FALSE" => Some(false.into()),
            _ => None,
        },
        ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        // The largest whole number that is exact in this type is 2^53.
        ("integer", Value::Number(number)) if number.is_f64() => number
            .as_f64()
            .filter(|number| number.fract() == 0.0 && number.abs() < 9e15)
            .map(|number| Value::from(number as i64)),
        ("number", Value::String(text)) => {
            let number = text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())?;
            serde_json::Number::from_f64(number).map(Value::Number)
        }
        ("string", Value::Number(number)) if !number.is_f64() => Some(number.to_string().into()),
        _ => None,
    }
}

/// Returns the path that `given` means without quotes, a leading `@`, or a line number, if it has such an addition.
///
/// A file of exactly that name wins. Quotes are removed from the name of a new file too; for the others, which are
/// common in names, the file without the addition must exist.
fn clean_path(given: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    if stored_output::stored_name(given).is_some() || exists(given) {
        return None;
    }
    let unquoted = ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| given.trim().strip_prefix(quote)?.strip_suffix(quote))
        .filter(|path| !path.is_empty());
    let bare = unquoted.unwrap_or(given);
    let mentioned = bare.strip_prefix('@').unwrap_or(bare);
    let candidates = [
        bare,
        mentioned,
        strip_line_number(bare),
        strip_line_number(mentioned),
    ];
    let existing = candidates.into_iter().find(|path| exists(path));
    existing
        .or(unquoted)
        .filter(|path| *path != given)
        .map(str::to_owned)
}

/// Removes `:12`, `:12:3`, or `:12-20` from the end.
fn strip_line_number(path: &str) -> &str {
    let mut rest = path;
    for _ in 0..2 {
        let Some((before, number)) = rest.rsplit_once(':') else {
            break;
        };
        let is_number = !number.is_empty()
            && number.starts_with(|first: char| first.is_ascii_digit())
            && number
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '-');
        if !is_number || before.is_empty() {
            break;
        }
        rest = before;
    }
    rest
}

fn quote(text: &str) -> String {
    one_line(&reveal_hidden_characters(text), 60)
}

#[cfg(test)]
#[path = "lenient_tests.rs"]
mod tests;
