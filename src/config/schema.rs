//! The JSON Schema of a config file. [`validate`](super::validate) checks against the published schema itself, so both
//! always agree.
//!
//! The annotated schema also contains what the fields state for us: keywords that begin with `x-`. It is generated from
//! [`Settings`] into a file of its own, because every start of the program needs it, and to generate it takes ten times
//! as long as to read it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::settings::Settings;
use super::tree::split_keys;
use super::untrusted::Untrusted;

/// Aliases of agent settings, and their proper names.
pub(super) const AGENT_ALIASES: [(&str, &str); 2] = [
    ("max_iterations", "max_steps"),
    ("max_total_cost_usd", "max_session_cost"),
];

/// A file without a schema knows no settings and trusts nothing; a test compares it with [`generate_annotated_schema`].
static ANNOTATED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).unwrap_or_default());

/// Returns the JSON Schema of a config file, as `agentls config schema` prints it.
pub fn export_json_schema() -> Value {
    let mut schema = ANNOTATED.clone();
    remove_annotations(&mut schema);
    schema
}

/// Returns the same schema with the annotations of the fields.
pub(super) fn annotated_schema() -> &'static Value {
    &ANNOTATED
}

/// Returns the schema of an entry of a table.
pub(super) fn find_property<'a>(table: &'a Value, key: &str) -> Option<&'a Value> {
    let named = table.get("properties").and_then(|all| all.get(key));
    named.or_else(|| table.get("additionalProperties").filter(|more| more.is_object()))
}

/// A setting as far as trust is concerned.
pub(super) struct TrustRule {
    pub(super) untrusted: Untrusted,
    /// The default, if it is a number.
    pub(super) default: Option<f64>,
}

/// Returns what an untrusted folder may do with the setting at a path, or below it. What the schema does not know is
/// not a setting: it has no effect.
pub(super) fn find_trust_rule(path: &str) -> TrustRule {
    let mut schema = annotated_schema();
    for key in split_keys(path) {
        // Applies to everything below, too.
        if untrusted_rule(schema) == Untrusted::Never {
            break;
        }
        match find_property(schema, &key) {
            Some(property) => schema = property,
            None => {
                return TrustRule {
                    untrusted: Untrusted::Any,
                    default: None,
                };
            }
        }
    }
    TrustRule {
        untrusted: untrusted_rule(schema),
        default: schema.get("default").and_then(Value::as_f64),
    }
}

fn untrusted_rule(schema: &Value) -> Untrusted {
    if let Some(stated) = schema.get("x-untrusted") {
        return Untrusted::deserialize(stated).unwrap_or_default();
    }
    // The settings of a table state it one by one.
    let is_table = schema.get("properties").is_some()
        || schema.get("additionalProperties").is_some_and(Value::is_object);
    if is_table {
        Untrusted::Any
    } else {
        Untrusted::Never
    }
}

/// Generates the annotated schema from the types, for `schema.json`.
pub fn generate_annotated_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Settings>()
        .to_value();
    normalize_schema(&mut schema);
    if let Some(Value::Object(agent)) =
        schema.pointer_mut("/properties/agent/additionalProperties/properties")
    {
        for (alias, canonical) in AGENT_ALIASES {
            if let Some(mut property) = agent.get(canonical).cloned() {
                property["description"] = json!(format!("Another name of `{canonical}`."));
                agent.insert(alias.to_owned(), property);
            }
        }
    }
    schema
}

fn remove_annotations(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.retain(|key, _| !key.starts_with("x-"));
            object.values_mut().for_each(remove_annotations);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_annotations),
        _ => {}
    }
}

/// Removes `null` from types, because TOML has none. Turns number formats into limits, which every validator knows.
fn normalize_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    // The keys are names of settings, not keywords of the schema language.
                    Value::Object(named) if key == "properties" => {
                        named.values_mut().for_each(normalize_schema)
                    }
                    _ => normalize_schema(value),
                }
            }
            drop_null(object);
            if let Some(format) = object.remove("format")
                && format == "uint32"
                && !object.contains_key("maximum")
            {
                object.insert("maximum".to_owned(), json!(u32::MAX));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_schema),
        _ => {}
    }
}

fn drop_null(object: &mut Map<String, Value>) {
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    // The default of a whole table repeats what its entries say, and an empty text stands for none.
    if object
        .get("default")
        .is_some_and(|default| default.is_object() || default.is_array() || default == "")
    {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = &mut choices[..] {
            let only = std::mem::take(only);
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_described_without_references() {
        fn walk(schema: &Value, path: &str, undescribed: &mut Vec<String>) {
            assert!(schema.get("$ref").is_none(), "{path}");
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                if property.get("description").is_none() {
                    undescribed.push(path.clone());
                }
                walk(property, &path, undescribed);
            }
            if let Some(more @ Value::Object(_)) = schema.get("additionalProperties") {
                walk(more, &format!("{path}.*"), undescribed);
            }
        }
        let mut undescribed = Vec::new();
        walk(annotated_schema(), "", &mut undescribed);
        assert!(undescribed.is_empty(), "{undescribed:?}");
        assert!(!export_json_schema().to_string().contains("null"));
    }

    #[test]
    fn setting_without_a_rule_is_closed_to_untrusted_folders() {
        for (path, rule) in [
            ("provider.x.base_url", Untrusted::Never),
            ("provider.x.headers.a", Untrusted::Never),
            ("agent.x.prompt_file", Untrusted::Never),
            ("tool.bash.pass_env", Untrusted::Never),
            ("tool.x.schema.properties", Untrusted::Never),
            ("hook.x.on", Untrusted::Never),
            ("trusted", Untrusted::Never),
            ("agent.x.model", Untrusted::Any),
            ("agent.x.max_iterations", Untrusted::Lower),
            ("agent.x", Untrusted::Any),
            ("agent.x.nonsense", Untrusted::Any),
        ] {
            assert_eq!(find_trust_rule(path).untrusted, rule, "{path}");
        }
    }

    #[test]
    fn published_schema_contains_no_annotations() {
        assert!(!export_json_schema().to_string().contains("\"x-"));
    }

    #[test]
    fn aliases_types_and_limits_are_in_the_schema() {
        let agent = "/properties/agent/additionalProperties/properties";
        let at = |path: &str| annotated_schema().pointer(path).cloned().unwrap_or_default();
        assert_eq!(at(&format!("{agent}/max_iterations/maximum")), 100_000);
        assert_eq!(at(&format!("{agent}/max_steps/type")), "integer");
        assert_eq!(at(&format!("{agent}/max_steps/default")), 50);
        assert_eq!(at("/properties/server/properties/delta_frame_ms/default"), 16);
        assert_eq!(
            at("/properties/provider/additionalProperties/additionalProperties"),
            false
        );
    }
}
