//! Answers what an MCP server asks the current model, for the tools of that server.
//!
//! An answer is one auxiliary call with nothing but the messages of the server: no tools, and nothing of the
//! conversation. It shares budget, circuit, pacing, and retries with every other call of the turn, but never falls back
//! to another model.

use std::sync::Arc;

use super::admission::ProviderAccess;
use super::attempt::{ModelAnswer, OutputVisibility};
use super::context::TurnContext;
use super::model_call::{CallOutcome, build_auxiliary_request, call_auxiliary};
use super::model_choice::ResolvedModel;
use super::session_link::TurnStopped;
use super::usage_meter::UsageMeter;
use crate::provider::{HistoryItem, ModelRequest, StopReason, is_thinking_enabled};
use crate::tool::{SampleJob, SamplingAnswer, SamplingStop};

/// The system prompt if the server has none.
const SYSTEM: &str = "You answer a program, which reads nothing but your answer.";

/// What happens if a call fails, for people who watch its retries.
const WITHOUT: &str = "the MCP server gets no answer";

/// Tokens that a reasoning model may think, in addition to those of its answer.
const THOUGHTS: u32 = 8_000;

/// Makes the call. The inner error is for the user.
pub(super) async fn sample(
    cx: &TurnContext,
    model: &ResolvedModel,
    used: &UsageMeter,
    mut access: ProviderAccess,
    job: SampleJob,
) -> Result<Result<SamplingAnswer, String>, TurnStopped> {
    let system = job.system.as_deref().unwrap_or(SYSTEM);
    let template = build_auxiliary_request(model, system, String::new());
    let thoughts = if is_thinking_enabled(&model.model, template.effort) {
        THOUGHTS
    } else {
        0
    };
    let wanted = job.max_tokens.saturating_add(thoughts);
    let request = Arc::new(ModelRequest {
        messages: job.messages.into_iter().map(HistoryItem::new).collect(),
        max_output_tokens: wanted.min(template.max_output_tokens),
        ..template
    });
    access.disable_fallback(Some(WITHOUT));
    let mut learning = model.clone();
    let outcome = call_auxiliary(
        cx,
        &mut learning,
        &mut access,
        request,
        used,
        OutputVisibility::Nothing,
    )
    .await?;
    Ok(match outcome {
        CallOutcome::Answered(answer) => read_answer(model, &job.stops, *answer),
        CallOutcome::TooLong { error, .. }
        | CallOutcome::OutputRefused { error, .. }
        | CallOutcome::ImageRefused(error)
        | CallOutcome::Failed(error) => Err(error.to_string()),
        CallOutcome::Limited(end) => Err(match &end.error {
            Some(error) => error.to_string(),
            None => "a limit on costs is reached".to_owned(),
        }),
    })
}

fn read_answer(
    model: &ResolvedModel,
    stops: &[String],
    model_answer: ModelAnswer,
) -> Result<SamplingAnswer, String> {
    let message = model_answer.answer.message;
    let mut text = message.map(|message| message.text()).unwrap_or_default();
    let mut stop = match model_answer.stop {
        StopReason::Refusal(reason) => {
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            return Err(format!("{} declined{reason}", model.label()));
        }
        StopReason::MaxTokens | StopReason::WindowFull => SamplingStop::MaxTokens,
        StopReason::EndTurn | StopReason::ToolUse | StopReason::PauseTurn => SamplingStop::Complete,
    };
    // Not every API knows them, so they are found here.
    if let Some(end) = stops.iter().filter_map(|stop| text.find(stop)).min() {
        text.truncate(end);
        stop = SamplingStop::StopText;
    }
    if text.is_empty() && stop != SamplingStop::StopText {
        return Err(format!("{} gave no answer", model.label()));
    }
    Ok(SamplingAnswer {
        model: model.model.clone(),
        text,
        stop,
    })
}
