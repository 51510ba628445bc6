//! The JSON Schema of a config file. [`validate`](super::validate) checks against the published schema itself, so both
//! always agree.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::file::ConfigFile;

/// Aliases of agent settings, and their proper names.
pub(super) const AGENT_ALIASES: [(&str, &str); 2] = [
    ("max_iterations", "max_steps"),
    ("max_total_cost_usd", "max_session_cost"),
];

static SCHEMA: LazyLock<Value> = LazyLock::new(build);

/// Returns the JSON Schema of a config file, as `agentls config schema` prints it.
pub fn export_json_schema() -> Value {
    SCHEMA.clone()
}

/// Returns the same schema without a copy.
pub(super) fn shared_schema() -> &'static Value {
    &SCHEMA
}

fn build() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<ConfigFile>()
        .to_value();
    normalize_schema(&mut schema);
    if let Some(Value::Object(agent)) =
        schema.pointer_mut("/properties/agent/additionalProperties/properties")
    {
        for (alias, meant) in AGENT_ALIASES {
            if let Some(mut property) = agent.get(meant).cloned() {
                property["description"] = json!(format!("Another name of `{meant}`."));
                agent.insert(alias.to_owned(), property);
            }
        }
    }
    schema
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
    // The default of a whole table repeats what its entries say.
    if object
        .get("default")
        .is_some_and(|default| default.is_object() || default.is_array())
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
        walk(shared_schema(), "", &mut undescribed);
        assert!(undescribed.is_empty(), "{undescribed:?}");
        assert!(!export_json_schema().to_string().contains("null"));
    }

    #[test]
    fn aliases_types_and_limits_are_in_the_schema() {
        let agent = "/properties/agent/additionalProperties/properties";
        let at = |path: &str| shared_schema().pointer(path).cloned().unwrap_or_default();
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
