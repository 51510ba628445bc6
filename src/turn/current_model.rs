//! Gives tools access to the model of the current step.
//!
//! What is asked, and what an answer means, is decided by `web_search` and `sampling`.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::admission::{ReportedCircuits, build_tool_access};
use super::context::TurnContext;
use super::loop_state::LoopState;
use super::model_choice::ResolvedModel;
use super::sampling::sample;
use super::session_link::TurnStopped;
use super::usage_meter::UsageMeter;
use super::web_search::search_web;
use crate::base::CancellationToken;
use crate::config::EditTool;
use crate::tool::{
    CurrentModel, ModelFailure, NoSpawner, Registry, SampleJob, SamplingAnswer, SearchAnswer, SearchJob,
    TurnTools,
};

/// The model of the current step.
#[derive(Clone)]
struct TurnModel {
    cx: TurnContext,
    model: ResolvedModel,
    used: Arc<UsageMeter>,
    circuits: ReportedCircuits,
}

/// Returns the model of the next step, for tools.
pub(super) fn current_model(cx: &TurnContext, state: &LoopState) -> Arc<dyn CurrentModel> {
    Arc::new(TurnModel {
        cx: TurnContext {
            // A call for a tool calls no tools. Without them, the turn's tools can hold the model and be freed.
            tools: TurnTools::from(Arc::new(Registry::new(Vec::new()))),
            spawner: Arc::new(NoSpawner),
            ..cx.clone()
        },
        model: state.model.clone(),
        used: state.used.clone(),
        circuits: state.access.reported_circuits.clone(),
    })
}

impl TurnModel {
    /// Returns the turn's context for a call that ends with `cancel`.
    fn context_until(&self, cancel: CancellationToken) -> TurnContext {
        TurnContext {
            link: self.cx.link.with_cancel_token(cancel.clone()),
            cancel,
            ..self.cx.clone()
        }
    }
}

/// Returns what was answered, or the reason for whoever asked.
fn to_result<T>(answer: Result<Result<T, String>, TurnStopped>) -> Result<T, ModelFailure> {
    match answer {
        Ok(result) => result.map_err(ModelFailure::Failed),
        Err(TurnStopped) => Err(ModelFailure::Cancelled),
    }
}

impl CurrentModel for TurnModel {
    fn edit_tool(&self) -> EditTool {
        self.model.edit_tool
    }

    fn max_result_bytes(&self) -> usize {
        self.cx.settings.context.max_result_bytes(self.model.info.window)
    }

    fn can_search(&self) -> bool {
        self.model.info.search.is_some()
    }

    fn search(&self, job: SearchJob) -> BoxFuture<'static, Result<SearchAnswer, ModelFailure>> {
        let cx = self.context_until(job.cancel);
        let access = build_tool_access(&cx, self.circuits.clone());
        let (model, used) = (self.model.clone(), self.used.clone());
        async move { to_result(search_web(&cx, &model, &used, access, job.query).await) }.boxed()
    }

    fn sample(&self, job: SampleJob) -> BoxFuture<'static, Result<SamplingAnswer, ModelFailure>> {
        let cx = self.context_until(job.cancel.clone());
        let access = build_tool_access(&cx, self.circuits.clone());
        let (model, used) = (self.model.clone(), self.used.clone());
        async move { to_result(sample(&cx, &model, &used, access, job).await) }.boxed()
    }
}
