//! Which model a session selects, and what a turn gets for it: a provider and a model that can be called.
//!
//! It only defines the values and the interface [`ModelSource`]. How a choice is resolved is the session's matter; which
//! model a turn falls back to is `routing`'s.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::config::EditTool;
use crate::domain::{AgentError, ErrorCode};
use crate::provider::{Effort, ModelInfo, Provider, RetryPolicy};

/// The model that a session selects. Fields that are `None` are resolved by the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// A named agent of the configuration.
    pub agent: Option<String>,
    /// The agent whose model and route count, if not those of `agent`.
    pub model_agent: Option<String>,
    /// `provider/model`, `provider` or `model`.
    pub model: Option<String>,
    /// `model` is a session's choice with its provider, without which it does not count.
    pub has_provider: bool,
    /// Use the cheapest current model of the provider that this selects, if it is known to be cheaper.
    pub cheap: bool,
    /// Reasoning effort.
    pub effort: Option<Effort>,
}

impl ModelChoice {
    /// Returns the agent whose model and route count; `None` for the default agent.
    pub fn model_agent(&self) -> Option<&str> {
        self.model_agent.as_deref().or(self.agent.as_deref())
    }
}

/// A provider and a model, ready to be called.
#[derive(Clone)]
pub struct ResolvedModel {
    pub provider: Arc<dyn Provider>,
    /// The model's name in the provider's API.
    pub model: String,
    /// Window, output limit and price.
    pub info: ModelInfo,
    pub retry: RetryPolicy,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// The tool with which it changes parts of files.
    pub edit_tool: EditTool,
    /// Why this model was chosen, if the user named none; shown once per session.
    pub choice_reason: Option<String>,
    pub fallbacks: Fallbacks,
}

/// The fallbacks of a model (R-PROV-4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    /// Another model of the same provider, used while the provider is overloaded.
    pub model: Option<String>,
    /// Other providers in order, each with its own model.
    pub providers: Vec<String>,
    /// The model of the same provider to call if that lacks this one: the caller's, in whose place a cheaper one was
    /// chosen, or another default.
    pub if_missing: Option<String>,
    /// Nobody has named this model, so another default may be called if the provider lacks it.
    pub is_default: bool,
}

impl ResolvedModel {
    /// Returns `provider/model`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider.name(), self.model)
    }
}

/// Resolves the provider and the model to call.
pub trait ModelSource: Send + Sync {
    /// Resolves the selected model. May probe a local server.
    ///
    /// # Errors
    /// No provider is configured or reachable; the error says what to do.
    fn resolve_model(&self, choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>>;

    /// Resolves `provider` as a fallback for the rest of the turn, with `model` or the provider's own default.
    ///
    /// # Errors
    /// The provider is not configured. The default implementation always returns this error.
    fn take_over(
        &self,
        choice: &ModelChoice,
        provider: &str,
        model: Option<&str>,
    ) -> Result<ResolvedModel, AgentError> {
        let (_, _) = (choice, model);
        Err(AgentError::new(
            ErrorCode::Config,
            format!("the provider {provider:?} is not configured"),
        ))
    }

    /// Records the real window of a model, as the provider named it (R-CTX-3). The default implementation ignores it.
    fn learn_window(&self, model: &ResolvedModel, window: u64) {
        let _ = (model, window);
    }

    /// Records that a request of this many tokens was answered, which may be more than a window that was learned. The
    /// default implementation ignores it.
    fn confirm_window(&self, model: &ResolvedModel, tokens: u64) {
        let _ = (model, tokens);
    }

    /// Records that the provider does not have a model that agentls chose. The default implementation ignores it.
    fn learn_missing(&self, model: &ResolvedModel) {
        let _ = model;
    }

    /// Returns another default of the provider, from its own list, in place of one that it does not have. May request
    /// that list. The default implementation knows none.
    fn find_other_default(&self, missing: &ResolvedModel) -> BoxFuture<'static, Option<String>> {
        let _ = missing;
        Box::pin(std::future::ready(None))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::provider::{EventStream, ModelRequest, ProviderError};

    struct SilentProvider;

    impl Provider for SilentProvider {
        fn name(&self) -> &str {
            "silent"
        }

        fn open_stream(
            &self,
            _request: Arc<ModelRequest>,
        ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
            Box::pin(std::future::pending())
        }
    }

    /// Returns a model that never answers.
    pub(in crate::turn) fn model(window: u64, max_output: u32) -> ResolvedModel {
        ResolvedModel {
            provider: Arc::new(SilentProvider),
            model: "m".to_owned(),
            info: ModelInfo {
                window,
                max_output,
                knows_max_output: true,
                ..crate::provider::models::lookup_model("m")
            },
            retry: RetryPolicy::default(),
            effort: None,
            edit_tool: EditTool::default(),
            choice_reason: None,
            fallbacks: Fallbacks::default(),
        }
    }
}
