//! Leaves out of requests what a provider has refused: optional parts, earlier reasoning, and tools.
//!
//! This is no retry: the next request is a different one, and no answer is lost. `calibration` remembers refusals for the
//! session.

use std::sync::Arc;

use super::context::TurnContext;
use super::emit::emit_late_warning;
use super::model_choice::ResolvedModel;
use super::session_link::TurnStopped;
use crate::provider::{Effort, ModelRequest, ProviderError, ProviderFault, RequestPart, ToolPointer};

/// The code of the warning that a provider rejected a part of our requests.
const PART_LEFT_OUT: &str = "part_left_out";

/// What is left out, in words of the user, and what follows from that.
type RefusalWarning = (String, &'static str);

/// What one call has left out of its request.
pub(super) struct RefusedParts {
    /// The effort with which the request began.
    effort: Option<Effort>,
    /// The parts that have left the request since its failures have this message.
    parts: Vec<RequestPart>,
    message: String,
}

impl RefusedParts {
    pub(super) fn new(effort: Option<Effort>) -> Self {
        Self {
            effort,
            parts: Vec::new(),
            message: String::new(),
        }
    }

    /// Leaves out of `request` what `error` refuses. Returns whether the request is another one then.
    pub(super) async fn leave_out(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        request: &mut Arc<ModelRequest>,
        error: &mut ProviderError,
    ) -> Result<bool, TurnStopped> {
        let calibration = &cx.services.statistics.calibration;
        if error.message != self.message {
            self.message.clone_from(&error.message);
            self.parts.clear();
        }
        let warnings = match &error.fault {
            ProviderFault::PartRefused(part) => self.record_refusal(cx, model, request, part),
            ProviderFault::ToolsRefused(pointers) => {
                let tools = find_refused_tools(cx, request, pointers);
                record_refused_tools(cx, model, tools, error)
            }
            _ => None,
        };
        let Some(warnings) = warnings else {
            // The parts were not what the provider meant: the message stays the same without them.
            for part in self.parts.drain(..) {
                calibration.forget_refusal(model, &part, self.effort);
            }
            return Ok(false);
        };
        tracing::warn!(model = %model.label(), fault = ?error.fault, "a part of the request was rejected");
        calibration.adapt_request(model, self.effort, Arc::make_mut(request));
        for (what, effect) in warnings {
            let message = format!(
                "{} rejected {what} ({}); leaving it out in this session{effect}",
                model.label(),
                error.message
            );
            emit_late_warning(cx, PART_LEFT_OUT, message).await?;
        }
        Ok(true)
    }

    /// Records that the model refuses a part. Returns what to warn of; `None` if the request did not have the part.
    fn record_refusal(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        request: &ModelRequest,
        part: &RequestPart,
    ) -> Option<Vec<RefusalWarning>> {
        let calibration = &cx.services.statistics.calibration;
        let is_new = calibration.record_refusal(model, part, self.effort, &request.messages);
        // Another request may have learned it meanwhile.
        if !is_new && (*part == RequestPart::Reasoning || request.omitted.contains(part)) {
            return None;
        }
        self.parts.push(part.clone());
        let warning = part.warning().filter(|_| is_new);
        Some(
            warning
                .map(|(what, effect)| (what.into_owned(), effect))
                .into_iter()
                .collect(),
        )
    }
}

/// Records that the model refuses tools. Returns what to warn of; `None` if all are agentls's own, which stay.
fn record_refused_tools(
    cx: &TurnContext,
    model: &ResolvedModel,
    tools: Vec<(String, Option<String>)>,
    error: &mut ProviderError,
) -> Option<Vec<RefusalWarning>> {
    let foreign: Vec<_> = tools
        .iter()
        .filter_map(|(name, owner)| Some((name, owner.as_ref()?)))
        .collect();
    if foreign.is_empty() {
        if let Some((own, _)) = tools.first() {
            error.user_action = Some(format!(
                "choose a model other than {}, or take agentls's own tool `{own}` from the agent with deny_tools",
                model.model
            ));
        }
        return None;
    }
    let calibration = &cx.services.statistics.calibration;
    calibration.record_refused_tools(model, foreign.iter().map(|(name, _)| (*name).clone()));
    let describe = |(name, owner): &(&String, &String)| (format!("the tool {name} of {owner}"), "");
    Some(foreign.iter().map(describe).collect())
}

/// Returns the names of the refused tools that the request has, each with who has added it; `None` for agentls itself.
fn find_refused_tools(
    cx: &TurnContext,
    request: &ModelRequest,
    pointers: &[ToolPointer],
) -> Vec<(String, Option<String>)> {
    let named = pointers.iter().filter_map(|pointer| match pointer {
        ToolPointer::Index(index) => request.tools.get(*index),
        ToolPointer::Name(name) => request
            .tools
            .iter()
            .find(|tool| tool.name.eq_ignore_ascii_case(name)),
    });
    named
        .map(|tool| {
            let owner = cx.tools.get(&tool.name).and_then(|tool| tool.owner());
            (tool.name.clone(), owner)
        })
        .collect()
}
