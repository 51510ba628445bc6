//! What a session has learned about how its providers count tokens, and about their output limits.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::model_choice::ResolvedModel;

/// What the providers of a session count per estimated token (R-CTX-1), by `provider/model`. Each turn starts with what
/// the previous ones have learned.
#[derive(Debug, Default)]
pub struct TokenCalibration {
    ratios: Mutex<BTreeMap<String, f64>>,
    /// Output limits learned from a provider's rejections, by `provider/model`.
    outputs: Mutex<BTreeMap<String, u32>>,
}

impl TokenCalibration {
    pub(super) fn limit_output(&self, model: &mut ResolvedModel) {
        let known = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = known.get(&model.label()) {
            model.info.max_output = *limit;
            model.info.knows_max_output = true;
        }
    }

    pub(super) fn learn_output(&self, model: String, limit: u32) {
        let mut known = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(model, limit);
    }

    pub(super) fn ratio_for(&self, model: &str) -> f64 {
        let known = self.ratios.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied().unwrap_or(1.0)
    }

    pub(super) fn record_ratio(&self, model: String, ratio: f64) {
        let mut known = self.ratios.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(model, ratio);
    }
}
