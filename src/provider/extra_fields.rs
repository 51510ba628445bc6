//! What the configuration adds to request bodies, for a provider and for single models.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Configured fields of a request body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraFields {
    /// The randomness of answers. Each API has its own place for it.
    pub temperature: Option<f64>,
    /// Fields that are added as they are.
    pub body: Map<String, Value>,
}

/// The configured fields of all models of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfiguredFields {
    pub provider: ExtraFields,
    /// By full model name. They override those of the provider.
    pub models: BTreeMap<String, ExtraFields>,
}

impl ConfiguredFields {
    /// Returns the fields for requests to `model`. Tables are merged.
    pub fn fields_for(&self, model: &str) -> ExtraFields {
        let mut fields = self.provider.clone();
        if let Some(own) = self.models.get(model) {
            fields.temperature = own.temperature.or(fields.temperature);
            merge_fields(&mut fields.body, Value::Object(own.body.clone()), "", &mut |_| {
                true
            });
        }
        fields
    }
}

/// Merges `added`, an object, into `fields`. Tables are merged, and other values replaced. Leaves out each field whose
/// path, such as `options.top_k`, is not admitted. `within` is the path of `fields`, with a dot at its end.
pub(super) fn merge_fields(
    fields: &mut Map<String, Value>,
    added: Value,
    within: &str,
    admits: &mut dyn FnMut(&str) -> bool,
) {
    let Value::Object(added) = added else { return };
    for (key, value) in added {
        let path = format!("{within}{key}");
        if !admits(&path) {
            continue;
        }
        if value.is_object() {
            let field = fields.entry(key).or_insert_with(|| json!({}));
            if !field.is_object() {
                *field = json!({});
            }
            if let Value::Object(inner) = field {
                merge_fields(inner, value, &format!("{path}."), admits);
            }
        } else {
            fields.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_model_are_merged_with_those_of_its_provider() {
        let fields = |body: Value| ExtraFields {
            temperature: None,
            body: body.as_object().cloned().unwrap_or_default(),
        };
        let provider = fields(json!({"options": {"top_k": 20, "seed": 7}, "stop": ["a"], "user": "me"}));
        let model = fields(json!({"options": {"top_k": 30}, "stop": ["b"], "user": {"id": 1}}));
        let configured = ConfiguredFields {
            provider: provider.clone(),
            models: BTreeMap::from([("m".to_owned(), model)]),
        };
        let merged = json!({"options": {"top_k": 30, "seed": 7}, "stop": ["b"], "user": {"id": 1}});
        assert_eq!(configured.fields_for("m"), fields(merged));
        assert_eq!(configured.fields_for("other"), provider);
    }
}
