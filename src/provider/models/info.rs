//! What is known about a model, and how the configuration overrides it. Plain values; knows no model.

use super::search::SearchFee;
use crate::domain::Price;

/// The known or assumed facts about a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelInfo {
    /// Tokens that fit into a prompt and its answer together.
    pub window: u64,
    /// The most tokens in one answer.
    pub max_output: u32,
    /// Whether `max_output` is known rather than assumed.
    pub knows_max_output: bool,
    /// `None` means unknown, not free (R-PROV-7).
    pub price: Option<Price>,
    /// The model can reason.
    pub reasoning: bool,
    /// The model accepts images.
    pub images: bool,
    /// The model accepts PDFs, and so does the API that it is called through.
    pub documents: bool,
    pub tools: bool,
    /// What a web search by the provider costs; `None` if the model cannot search.
    pub search: Option<SearchFee>,
}

/// Configured facts about a model; each set field overrides the table. See [`ModelInfo`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelOverride {
    pub window: Option<u64>,
    /// The most that the window can be: what the model was trained with. A local engine may have loaded less.
    pub max_window: Option<u64>,
    pub max_output: Option<u32>,
    pub price: Option<Price>,
    pub reasoning: Option<bool>,
    pub images: Option<bool>,
    pub tools: Option<bool>,
    /// Whether the model can search the web, if its API has a search. Applied where the API is known.
    pub search: Option<bool>,
}

impl ModelOverride {
    /// Returns `info` with the fields that are set here.
    pub fn apply(&self, info: ModelInfo) -> ModelInfo {
        ModelInfo {
            window: self
                .window
                .unwrap_or(info.window)
                .min(self.max_window.unwrap_or(u64::MAX)),
            max_output: self.max_output.unwrap_or(info.max_output),
            knows_max_output: info.knows_max_output || self.max_output.is_some(),
            price: self.price.or(info.price),
            reasoning: self.reasoning.unwrap_or(info.reasoning),
            images: self.images.unwrap_or(info.images),
            documents: info.documents,
            tools: self.tools.unwrap_or(info.tools),
            search: info.search,
        }
    }
}
