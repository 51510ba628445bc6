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

/// Leaves out of `request` what `error` refuses. Returns whether the request is another one then. `effort` is the one
/// with which the request began.
pub(super) async fn leave_out_refused(
    cx: &TurnContext,
    model: &ResolvedModel,
    effort: Option<Effort>,
    request: &mut Arc<ModelRequest>,
    error: &mut ProviderError,
) -> Result<bool, TurnStopped> {
    let calibration = &cx.services.statistics.calibration;
    let warnings: Vec<(String, &str)> = match &error.fault {
        ProviderFault::PartRefused(part)
            if calibration.record_refusal(model, *part, effort, &request.messages) =>
        {
            part.warning()
                .map(|(what, effect)| (what.to_owned(), effect))
                .into_iter()
                .collect()
        }
        // Another request has learned it meanwhile.
        ProviderFault::PartRefused(part)
            if *part != RequestPart::Reasoning && !request.omitted.contains(part) =>
        {
            Vec::new()
        }
        ProviderFault::ToolsRefused(pointers) => {
            let tools = find_refused_tools(cx, request, pointers);
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
                return Ok(false);
            }
            let describe = |(name, owner): &(&String, &String)| (format!("the tool {name} of {owner}"), "");
            calibration.record_refused_tools(model, foreign.iter().map(|(name, _)| (*name).clone()));
            foreign.iter().map(describe).collect::<Vec<_>>()
        }
        _ => return Ok(false),
    };
    tracing::warn!(model = %model.label(), fault = ?error.fault, "a part of the request was rejected");
    calibration.adapt_request(model, effort, Arc::make_mut(request));
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
