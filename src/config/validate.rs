//! Validates a layer against the published schema: reports and removes what does not fit, and keeps the rest.
//!
//! The schema is the only source of names, types and ranges; `resolve` checks what a schema cannot express.

use std::collections::BTreeSet;

use serde_json::Value;

use super::diagnostics::{Diagnostic, nearest_name};
use super::schema::{self, AGENT_ALIASES};
use super::tree::{Node, SpannedValue, join, join_keys, split_keys};

/// Settings that are planned but not available in this version. `*` matches any one name.
const PLANNED_SETTINGS: &[&str] = &[
    "command",
    "skills",
    "telemetry",
    "agent.*.skills",
    "provider.*.credential_command",
    "tool.*.sandbox",
];

/// The problems that the validation found.
#[derive(Default)]
pub(super) struct ValidatedTree {
    pub(super) problems: Vec<Diagnostic>,
    /// Settings that were removed because of their value.
    pub(super) failed: BTreeSet<String>,
}

/// Validates a layer in place. Removes what does not fit, and replaces aliases by the proper names.
pub(super) fn validate_tree(tree: &mut SpannedValue) -> ValidatedTree {
    let mut checked = ValidatedTree::default();
    rename_aliases(tree, &mut checked);
    checked.value(tree, schema::annotated_schema(), "");
    checked
}

/// Replaces aliases such as `max_iterations` by the proper names.
fn rename_aliases(tree: &mut SpannedValue, checked: &mut ValidatedTree) {
    let Node::Table(top) = &mut tree.node else { return };
    let Some(Node::Table(agents)) = top.get_mut("agent").map(|agents| &mut agents.node) else {
        return;
    };
    for (name, agent) in agents {
        let Node::Table(keys) = &mut agent.node else {
            continue;
        };
        for (alias, canonical) in AGENT_ALIASES {
            let Some(value) = keys.remove(alias) else { continue };
            if keys.contains_key(canonical) {
                let path = join_keys(&["agent", name, alias]);
                let message = format!("is another name of `{canonical}`, which is also set; ignored");
                checked
                    .problems
                    .push(Diagnostic::new_warning(&value.at, path, message));
            } else {
                keys.insert(canonical.to_owned(), value);
            }
        }
    }
}

impl ValidatedTree {
    /// Validates one value. Returns false if it must be removed.
    fn value(&mut self, tree: &mut SpannedValue, schema: &Value, path: &str) -> bool {
        match self.validate_value(tree, schema, path) {
            Ok(()) => true,
            Err(problem) => {
                self.problems.push(problem);
                self.failed.insert(path.to_owned());
                false
            }
        }
    }

    fn validate_value(
        &mut self,
        tree: &mut SpannedValue,
        schema: &Value,
        path: &str,
    ) -> Result<(), Diagnostic> {
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            // The alternatives differ in type (a text or a list of texts), so the type selects one.
            let fitting = choices
                .iter()
                .find(|choice| has_type(&tree.node, &choice["type"]));
            return match fitting {
                Some(choice) => self.validate_value(tree, choice, path),
                None => Err(wrong_type(tree, &format_expected(choices), path)),
            };
        }
        if let Some(words) = list_enum_values(schema) {
            return fits_words(tree, &words, path);
        }
        if !has_type(&tree.node, &schema["type"]) {
            return Err(wrong_type(tree, describe_type(&schema["type"]), path));
        }
        fits_limits(tree, schema, path)?;
        match &mut tree.node {
            Node::Table(entries) => {
                let mut all = std::mem::take(entries);
                all.retain(|key, value| self.validate_entry(key, value, schema, path));
                tree.node = Node::Table(all);
            }
            Node::List(items) => {
                if let Some(schema) = schema.get("items") {
                    items.retain_mut(|item| self.value(item, schema, path));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn validate_entry(&mut self, key: &str, value: &mut SpannedValue, schema: &Value, path: &str) -> bool {
        let path = join(path, key);
        if let Some(property) = schema.get("properties").and_then(|all| all.get(key)) {
            return self.value(value, property, &path);
        }
        // A warning rather than "unknown": the configuration may be written for a later version.
        if not_yet(&path) {
            self.problems.push(Diagnostic::new_warning(
                &value.at,
                path,
                "is not available in this version; ignored",
            ));
            return false;
        }
        match schema.get("additionalProperties") {
            Some(more @ Value::Object(_)) => self.value(value, more, &path),
            Some(Value::Bool(false)) | None => {
                let problem = Diagnostic::new_warning(&value.at, path, "unknown setting; ignored");
                self.problems
                    .push(match nearest_name(key, list_property_names(schema)) {
                        Some(suggestion) => problem.with_hint(format!("did you mean `{suggestion}`?")),
                        None => problem,
                    });
                false
            }
            Some(_) => true,
        }
    }
}

fn list_property_names(schema: &Value) -> impl Iterator<Item = &str> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
}

/// Returns whether a path is in [`PLANNED_SETTINGS`].
fn not_yet(path: &str) -> bool {
    let have = split_keys(path);
    PLANNED_SETTINGS.iter().any(|pattern| {
        let want: Vec<&str> = pattern.split('.').collect();
        want.len() == have.len()
            && want
                .iter()
                .zip(&have)
                .all(|(want, have)| *want == "*" || want == have)
    })
}

/// Returns the words that an enumeration allows; `None` if the schema is not an enumeration.
fn list_enum_values(schema: &Value) -> Option<Vec<&str>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let choices = schema.get("oneOf")?.as_array()?;
    let mut words = Vec::new();
    for choice in choices {
        match choice.get("const").and_then(Value::as_str) {
            Some(word) => words.push(word),
            None => words.extend(
                choice["enum"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str),
            ),
        }
    }
    Some(words)
}

fn fits_words(tree: &SpannedValue, words: &[&str], path: &str) -> Result<(), Diagnostic> {
    let list = || {
        words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let Some(text) = tree.text() else {
        return Err(wrong_type(tree, &format!("one of {}", list()), path));
    };
    if words.contains(&text) {
        return Ok(());
    }
    // An expanded variable may be a secret, so messages do not quote it.
    let quoted = if tree.raw.is_some() {
        "this value".to_owned()
    } else {
        format!("`{}`", shorten_for_message(text))
    };
    let problem = Diagnostic::new_error(&tree.at, path, format!("{quoted} is not one of {}", list()));
    Err(match nearest_name(text, words.iter().copied()) {
        Some(suggestion) if tree.raw.is_none() => problem.with_hint(format!("did you mean `{suggestion}`?")),
        _ => problem,
    })
}

/// Shortens a value for a message.
pub(super) fn shorten_for_message(text: &str) -> String {
    crate::base::text::one_line(&crate::base::text::strip_control_characters(text), 40)
}

fn fits_limits(tree: &SpannedValue, schema: &Value, path: &str) -> Result<(), Diagnostic> {
    let Some(number) = tree.as_f64() else {
        return Ok(());
    };
    let min = schema.get("minimum").and_then(Value::as_f64);
    let max = schema.get("maximum").and_then(Value::as_f64);
    // TOML has `inf` and `nan`, and neither is a useful limit, duration or price.
    let inside =
        number.is_finite() && min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max);
    if inside {
        return Ok(());
    }
    let limits = match (min, max) {
        (Some(min), Some(max)) => format!("must be from {min} to {max}"),
        (Some(min), None) => format!("must be at least {min} and within the range of a number"),
        (None, Some(max)) => format!("must be at most {max}"),
        (None, None) => "must be a finite number".to_owned(),
    };
    Err(Diagnostic::new_error(&tree.at, path, limits))
}

fn has_type(node: &Node, schema_type: &Value) -> bool {
    match (node, schema_type.as_str()) {
        (_, None) => true,
        (Node::Text(_), Some(name)) => name == "string",
        // NaN stands for an integer beyond i64. The range check reports it better than a type error.
        (Node::Float(number), Some("integer")) => number.is_nan(),
        (Node::Integer(_), Some(name)) => name == "integer" || name == "number",
        (Node::Float(_), Some(name)) => name == "number",
        (Node::Bool(_), Some(name)) => name == "boolean",
        (Node::Date(_), Some(_)) => false,
        (Node::List(_), Some(name)) => name == "array",
        (Node::Table(_), Some(name)) => name == "object",
    }
}

fn describe_type(schema_type: &Value) -> &'static str {
    match schema_type.as_str() {
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        _ => "a table",
    }
}

fn format_expected(choices: &[Value]) -> String {
    choices
        .iter()
        .map(|choice| describe_type(&choice["type"]))
        .collect::<Vec<_>>()
        .join(" or ")
}

fn wrong_type(tree: &SpannedValue, expected: &str, path: &str) -> Diagnostic {
    let found = match tree.node {
        Node::Text(_) => "text",
        Node::Integer(_) | Node::Float(_) => "a number",
        Node::Bool(_) => "true or false",
        Node::Date(_) => "a date",
        Node::List(_) => "a list",
        Node::Table(_) => "a table",
    };
    Diagnostic::new_error(&tree.at, path, format!("expected {expected}, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse_toml;
    use super::*;
    use std::path::Path;

    fn problems(text: &str) -> Vec<String> {
        let mut tree = parse_toml(text.as_bytes(), Path::new("c")).tree;
        validate_tree(&mut tree)
            .problems
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn problems_name_location_and_suggestion() {
        for (text, want) in [
            (
                "[agent.default]\nmodle = 'x'",
                "c:2:1: warning: agent.default.modle: unknown setting; ignored (did you mean `model`?)",
            ),
            (
                "[providers.x]\nmodel = 'x'",
                "c:1:2: warning: providers: unknown setting; ignored (did you mean `provider`?)",
            ),
            (
                "[agent.default]\nmode = 'autoedit'",
                "c:2:1: error: agent.default.mode: `autoedit` is not one of `plan`, `ask`, `autoEdit`, `full` \
                 (did you mean `autoEdit`?)",
            ),
            (
                "[agent.default]\nmax_steps = 'many'",
                "c:2:1: error: agent.default.max_steps: expected a whole number, found text",
            ),
            (
                "[agent.default]\nmax_iterations = 0",
                "c:2:1: error: agent.default.max_steps: must be from 1 to 100000",
            ),
            (
                "[agent.default]\nmax_steps = 99999999999999999999",
                "c:2:1: error: agent.default.max_steps: must be from 1 to 100000",
            ),
            (
                "[agent.default]\nmax_session_cost = nan",
                "c:2:1: error: agent.default.max_session_cost: must be from 0 to 1000000",
            ),
            (
                "[agent.default]\nmax_steps = 1\nmax_iterations = 2",
                "c:3:1: warning: agent.default.max_iterations: is another name of `max_steps`, which is also set; ignored",
            ),
            (
                "[approvals]\nallow = [1]",
                "c:2:10: error: approvals.allow: expected text, found a number",
            ),
            (
                "[approvals]\nallow = 1",
                "c:2:1: error: approvals.allow: expected text or a list, found a number",
            ),
            (
                "provider = 3",
                "c:1:1: error: provider: expected a table, found a number",
            ),
            (
                "trusted = 2020-01-01",
                "c:1:1: error: trusted: expected a list, found a date",
            ),
            (
                "[tool.bash]\non_cancle = 'finish'",
                "c:2:1: warning: tool.bash.on_cancle: unknown setting; ignored \
              (did you mean `on_cancel`?)",
            ),
            (
                "[tool.grep]\non_cancel = 'finish'",
                "c:2:1: warning: tool.grep.on_cancel: unknown setting; ignored",
            ),
            (
                "[telemetry]\ncontent = true",
                "c:1:2: warning: telemetry: is not available in this version; ignored",
            ),
            (
                "[agent.a]\nskills = ['x']",
                "c:2:1: warning: agent.a.skills: is not available in this version; ignored",
            ),
        ] {
            assert_eq!(problems(text), [want], "{text}");
        }
    }

    #[test]
    fn valid_settings_survive_invalid_neighbors() {
        let mut tree = parse_toml(
            b"[agent.default]\nmode = 'bad'\nmodel = 'm'\nmax_iterations = 7\n[approvals]\nallow = ['a', 1]",
            Path::new("c"),
        )
        .tree;
        let checked = validate_tree(&mut tree);
        assert_eq!(checked.problems.len(), 2);
        assert_eq!(
            tree.to_json(),
            serde_json::json!({"agent": {"default": {"model": "m", "max_steps": 7}}, "approvals": {"allow": ["a"]}})
        );
        assert!(checked.failed.contains("agent.default.mode"));
    }
}
