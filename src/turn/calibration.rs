//! What a session has learned about its providers: how they count tokens, their output limits, and what they refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::model_choice::ResolvedModel;
use crate::domain::{Block, MessageId, ToolSpec};
use crate::provider::{Effort, HistoryItem, ModelRequest, RequestPart};

/// What the providers of a session count per estimated token (R-CTX-1), by `provider/model`. Each turn starts with what
/// the previous ones have learned.
#[derive(Debug, Default)]
pub struct TokenCalibration {
    ratios: Mutex<BTreeMap<String, f64>>,
    /// Output limits learned from a provider's rejections, by `provider/model`.
    outputs: Mutex<BTreeMap<String, u32>>,
    /// What models have refused, with the last message that contained it.
    refused: Mutex<BTreeMap<Refusal, Option<MessageId>>>,
    /// The tools that models have refused.
    refused_tools: Mutex<BTreeSet<(String, String)>>,
    /// The codes of warnings that the session has shown.
    notices: Mutex<BTreeSet<&'static str>>,
}

/// A part of requests that a model has refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refusal {
    /// `provider/model`.
    model: String,
    part: RequestPart,
    /// The effort of the request, where it decides about the part: a model may lack one effort and have another.
    effort: Option<Effort>,
}

impl Refusal {
    fn new(model: &ResolvedModel, part: &RequestPart, effort: Option<Effort>) -> Self {
        Self {
            model: model.label(),
            part: part.clone(),
            effort: effort.filter(|_| matches!(part, RequestPart::Effort | RequestPart::Thinking)),
        }
    }
}

impl TokenCalibration {
    pub(super) fn limit_output(&self, model: &mut ResolvedModel) {
        if let Some(limit) = self.learned_output(&model.label()) {
            model.info.max_output = limit;
            model.info.knows_max_output = true;
        }
    }

    /// Returns the output limit that a model has been learned to have.
    pub(super) fn learned_output(&self, model: &str) -> Option<u32> {
        let known = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied()
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

    /// Records that a warning is shown. Returns whether it is the first with this code.
    pub(super) fn record_notice(&self, code: &'static str) -> bool {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.insert(code)
    }

    /// Records that `model` refused a part of a request that began with `effort`. Returns whether it was in the request.
    pub(super) fn record_refusal(
        &self,
        model: &ResolvedModel,
        part: &RequestPart,
        effort: Option<Effort>,
        items: &[Arc<HistoryItem>],
    ) -> bool {
        let last = items
            .iter()
            .rfind(|item| item.message.content.iter().any(is_signed));
        let last = last.filter(|_| *part == RequestPart::Reasoning);
        let last = last.map(|item| item.message.id.clone());
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        // Without any signed reasoning, something else is wrong.
        (*part != RequestPart::Reasoning || last.is_some())
            && refused.insert(Refusal::new(model, part, effort), last.clone()) != Some(last)
    }

    /// Forgets a refusal after which the request failed as before.
    pub(super) fn forget_refusal(&self, model: &ResolvedModel, part: &RequestPart, effort: Option<Effort>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.remove(&Refusal::new(model, part, effort));
    }

    /// Records that `model` refused these tools.
    pub(super) fn record_refused_tools(&self, model: &ResolvedModel, tools: impl Iterator<Item = String>) {
        let mut refused = self.refused_tools.lock().unwrap_or_else(PoisonError::into_inner);
        refused.extend(tools.map(|tool| (model.label(), tool)));
    }

    /// Forgets refusals of tools after which the request failed as before.
    pub(super) fn forget_refused_tools(&self, model: &ResolvedModel, tools: impl Iterator<Item = String>) {
        let mut refused = self.refused_tools.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            refused.remove(&(model.label(), tool));
        }
    }

    /// Leaves out of a request what `model` has refused. `effort` is the one with which the request began.
    pub(super) fn adapt_request(
        &self,
        model: &ResolvedModel,
        effort: Option<Effort>,
        request: &mut ModelRequest,
    ) {
        let label = model.label();
        request.messages = self.strip_refused_reasoning(model, &request.messages);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = refused.keys().map(|refusal| &refusal.part);
        request.omitted = parts
            .filter(|part| refused.contains_key(&Refusal::new(model, part, effort)))
            .cloned()
            .collect();
        request.effort = effort.filter(|_| !request.omitted.contains(&RequestPart::Effort));
        let refused = self.refused_tools.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused = |tool: &ToolSpec| refused.contains(&(label.clone(), tool.name.clone()));
        if !refused.is_empty() && request.tools.iter().any(is_refused) {
            request.tools = request
                .tools
                .iter()
                .filter(|tool| !is_refused(tool))
                .cloned()
                .collect();
        }
    }

    /// Returns the history as `model` accepts it: without the signed reasoning that it has refused. Later reasoning
    /// stays.
    fn strip_refused_reasoning(
        &self,
        model: &ResolvedModel,
        items: &[Arc<HistoryItem>],
    ) -> Vec<Arc<HistoryItem>> {
        let refused = self.find_refusal(model, &RequestPart::Reasoning).flatten();
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

    fn find_refusal(&self, model: &ResolvedModel, part: &RequestPart) -> Option<Option<MessageId>> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&Refusal::new(model, part, None)).cloned()
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
