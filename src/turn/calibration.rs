//! What a session has learned about its providers: how they count tokens, their output limits, and what they refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::model_choice::ResolvedModel;
use crate::domain::{Block, MessageId};
use crate::provider::{HistoryItem, RequestPart};

/// What the providers of a session count per estimated token (R-CTX-1), by `provider/model`. Each turn starts with what
/// the previous ones have learned.
#[derive(Debug, Default)]
pub struct TokenCalibration {
    ratios: Mutex<BTreeMap<String, f64>>,
    /// Output limits learned from a provider's rejections, by `provider/model`.
    outputs: Mutex<BTreeMap<String, u32>>,
    /// What models have refused, with the last message that contained it.
    refused: Mutex<BTreeMap<(String, RequestPart), Option<MessageId>>>,
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

    /// Returns whether `model` has refused to be told how long its answers shall be.
    pub(super) fn has_refused_verbosity(&self, model: &ResolvedModel) -> bool {
        self.find_refusal(model, RequestPart::Verbosity).is_some()
    }

    /// Records that `model` refused a part of a request with these messages. Returns whether it was in the request.
    pub(super) fn record_refusal(
        &self,
        model: &ResolvedModel,
        part: RequestPart,
        items: &[Arc<HistoryItem>],
    ) -> bool {
        let last = items
            .iter()
            .rfind(|item| item.message.content.iter().any(is_signed));
        let last = last.filter(|_| part == RequestPart::Reasoning);
        let last = last.map(|item| item.message.id.clone());
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        // Without any signed reasoning, something else is wrong.
        (part == RequestPart::Verbosity || last.is_some())
            && refused.insert((model.label(), part), last.clone()) != Some(last)
    }

    /// Returns the history as `model` accepts it: without the signed reasoning that it has refused. Later reasoning
    /// stays.
    pub(super) fn strip_refused_reasoning(
        &self,
        model: &ResolvedModel,
        items: &[Arc<HistoryItem>],
    ) -> Vec<Arc<HistoryItem>> {
        let refused = self.find_refusal(model, RequestPart::Reasoning).flatten();
        let last = items
            .iter()
            .rposition(|item| refused.as_ref() == Some(&item.message.id));
        let strip = |(at, item): (usize, &Arc<HistoryItem>)| {
            if last.is_none_or(|last| at > last) || !item.message.content.iter().any(is_signed) {
                return item.clone();
            }
            let mut message = item.message.clone();
            message.content.retain(|block| !is_signed(block));
            HistoryItem::new(message)
        };
        items.iter().enumerate().map(strip).collect()
    }

    fn find_refusal(&self, model: &ResolvedModel, part: RequestPart) -> Option<Option<MessageId>> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&(model.label(), part)).cloned()
    }
}

fn is_signed(block: &Block) -> bool {
    matches!(
        block,
        Block::Reasoning {
            signature: Some(_),
            ..
        }
    )
}
