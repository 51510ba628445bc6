//! What the configuration adds to request bodies, for a provider and for single models.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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
    /// Returns the fields for requests to `model`.
    pub fn fields_for(&self, model: &str) -> ExtraFields {
        let mut fields = self.provider.clone();
        if let Some(own) = self.models.get(model) {
            fields.temperature = own.temperature.or(fields.temperature);
            fields.body.extend(own.body.clone());
        }
        fields
    }
}
