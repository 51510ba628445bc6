//! One provider call: from request to message.
//!
//! It streams the answer to clients and reports what the call used, however it ends. It must not retry: that is
//! `step`'s. It knows nothing of budgets and circuits.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};

use super::accumulate::{Accumulator, CompletedMessage, PushResult};
use super::context::TurnContext;
use super::model_choice::ResolvedModel;
use super::outcome::StreamedOutput;
use super::session_link::TurnStopped;
use crate::base::clock::{self, Instant};
use crate::domain::{Cost, Delta, MessageId, Usage};
use crate::provider::{ModelRequest, ProviderError, ProviderFault, StopReason, StreamEvent};

/// Deltas that arrive together are joined up to this size, in bytes.
const BATCH_BYTES: usize = 16 << 10;

/// How a call ended.
pub(super) enum Attempt {
    Answered(Box<ModelAnswer>),
    /// The call failed. What was shown is retracted, or stays as an incomplete message.
    Failed {
        error: Box<ProviderError>,
        streamed: Option<StreamedOutput>,
        spent: CallUsage,
    },
    /// The turn was stopped. The provider has read the prompt nevertheless, so the call may still cost something.
    Stopped {
        /// As far as the provider had reported it.
        spent: CallUsage,
    },
}

/// A call that ended with an answer.
pub(super) struct ModelAnswer {
    pub(super) answer: CompletedMessage,
    pub(super) stop: StopReason,
    pub(super) spent: CallUsage,
    pub(super) streamed: Option<StreamedOutput>,
    /// Our own size limit cut it, not the model's output limit.
    pub(super) overlong: bool,
}

/// What a call used and cost.
#[derive(Clone, Copy, Default)]
pub(super) struct CallUsage {
    pub(super) usage: Usage,
    pub(super) cost: Option<Cost>,
    /// Bytes of the answer that arrived. They allow an estimate where the provider reports no usage.
    pub(super) received_bytes: usize,
}

/// Whether clients see an answer while it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputVisibility {
    Deltas,
    /// Clients see nothing: the answer is internal, such as a compaction summary.
    Nothing,
}

/// Makes one call and shows its answer as it arrives. The usage so far is known however the call ends.
pub(super) async fn run_attempt(
    cx: &TurnContext,
    model: &ResolvedModel,
    request: Arc<ModelRequest>,
    visibility: OutputVisibility,
) -> Attempt {
    let mut accumulator = Accumulator::new(MessageId::new_random());
    cx.services.totals.requests.add(1);
    cx.services.statistics.requests.add(1);
    match stream_response(cx, model, request.clone(), visibility, &mut accumulator).await {
        Ok(Ok(stop)) => build_answered_attempt(accumulator, stop, model, visibility, &request),
        Ok(Err(error)) => build_failed_attempt(accumulator, error, model, visibility),
        Err(TurnStopped) => Attempt::Stopped {
            spent: call_usage(&accumulator, model),
        },
    }
}

async fn stream_response(
    cx: &TurnContext,
    model: &ResolvedModel,
    request: Arc<ModelRequest>,
    visibility: OutputVisibility,
    accumulator: &mut Accumulator,
) -> Result<Result<StopReason, ProviderError>, TurnStopped> {
    let started = clock::now();
    // A cancel drops the future or the stream, which closes the connection (R-PROV-8).
    let opened = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(TurnStopped),
        opened = model.provider.open_stream(request) => opened,
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(error)),
    };
    let mut first = true;
    loop {
        let next = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            next = stream.next() => next,
        };
        let mut batch = DeltaBatch::default();
        let mut event = Some(next);
        let mut stream_end = None;
        // Take everything that has already arrived in one go: one delta instead of many.
        while let Some(next) = event.take() {
            match next {
                Some(Ok(mut piece)) => {
                    if std::mem::take(&mut first) {
                        cx.services.totals.first_token.record(started.elapsed());
                    }
                    if let StreamEvent::ToolUseStarted { name, .. } = &mut piece {
                        // Everything else, such as a rule, sees only the name of the real tool.
                        *name = cx.tools.resolve_name(std::mem::take(name));
                    }
                    match push(accumulator, &mut batch, piece) {
                        Some(stop) => stream_end = Some(Ok(stop)),
                        None if batch.bytes < BATCH_BYTES => event = stream.next().now_or_never(),
                        None => {}
                    }
                }
                Some(Err(error)) => stream_end = Some(Err(error)),
                // R-PROV-2: a stream without its stop event is a transient failure.
                None => stream_end = Some(Err(missing_stop_error(model))),
            }
        }
        // Also before an end: the finished message must equal the deltas that clients have (I5).
        batch.flush(cx, visibility).await?;
        if let Some(stream_end) = stream_end {
            return Ok(stream_end);
        }
    }
}

/// Adds one piece to the message. Returns the stop reason once the message has ended.
fn push(accumulator: &mut Accumulator, batch: &mut DeltaBatch, piece: StreamEvent) -> Option<StopReason> {
    match accumulator.push(piece) {
        PushResult::Show(delta) => batch.push_delta(delta),
        PushResult::Quiet => {}
        PushResult::Stopped(reason) => return Some(reason),
    }
    // Over 8 MiB the answer counts as cut, so that a runaway stream ends (R-WIRE-3).
    accumulator.is_full().then_some(StopReason::MaxTokens)
}

fn build_answered_attempt(
    accumulator: Accumulator,
    stop: StopReason,
    model: &ResolvedModel,
    visibility: OutputVisibility,
    request: &ModelRequest,
) -> Attempt {
    let spent = call_usage(&accumulator, model);
    let cut = matches!(stop, StopReason::MaxTokens | StopReason::WindowFull);
    Attempt::Answered(Box::new(ModelAnswer {
        streamed: streamed_output(&accumulator, visibility),
        overlong: accumulator.is_full(),
        answer: accumulator.into_message(cut, &model.provider.model_origin(&model.model), |id| {
            request.has_call(id)
        }),
        stop,
        spent,
    }))
}

fn build_failed_attempt(
    accumulator: Accumulator,
    error: ProviderError,
    model: &ResolvedModel,
    visibility: OutputVisibility,
) -> Attempt {
    let spent = call_usage(&accumulator, model);
    let streamed = streamed_output(&accumulator, visibility);
    let error = Box::new(error);
    Attempt::Failed {
        error,
        streamed,
        spent,
    }
}

fn streamed_output(accumulator: &Accumulator, visibility: OutputVisibility) -> Option<StreamedOutput> {
    (visibility == OutputVisibility::Deltas && accumulator.has_shown()).then(|| StreamedOutput {
        message: accumulator.id().clone(),
        tool_calls: accumulator.started_calls(),
        has_text: accumulator.has_output(),
    })
}

fn call_usage(accumulator: &Accumulator, model: &ResolvedModel) -> CallUsage {
    let (usage, reported_cost) = accumulator.usage_and_cost();
    CallUsage {
        usage,
        // R-PROV-7: a cost that the provider reports wins over the price table.
        cost: reported_cost.or_else(|| {
            let price = model.info.price?;
            Some(price.calculate_cost(&usage) + search_cost(model, accumulator.search_count()))
        }),
        received_bytes: accumulator.received_bytes(),
    }
}

/// Returns what the provider charges for searches, in addition to their tokens.
pub(super) fn search_cost(model: &ResolvedModel, searches: u32) -> Cost {
    let fee = model.info.search;
    fee.map_or(Cost(0), |fee| fee.calculate_cost(searches))
}

/// Builds the error for a stream that ended without a stop event. Our providers never do that; a faulty one might.
fn missing_stop_error(model: &ResolvedModel) -> ProviderError {
    ProviderError {
        fault: ProviderFault::BrokenStream,
        provider: model.provider.name().to_owned(),
        model: model.model.clone(),
        message: "the answer ended without its stop event".to_owned(),
        status: None,
        request_id: None,
        retry_after: None,
        user_action: None,
        should_retry: None,
    }
}

/// Adjacent deltas of the same kind, joined.
#[derive(Default)]
struct DeltaBatch {
    deltas: Vec<Delta>,
    bytes: usize,
}

impl DeltaBatch {
    fn push_delta(&mut self, delta: Delta) {
        self.bytes += delta.text().len();
        let joined = match (self.deltas.last_mut(), &delta) {
            (Some(Delta::Text { text, .. }), Delta::Text { text: more, .. })
            | (Some(Delta::Reasoning { text, .. }), Delta::Reasoning { text: more, .. }) => {
                text.push_str(more);
                true
            }
            (
                Some(Delta::ToolInput { tool_call, text, .. }),
                Delta::ToolInput {
                    tool_call: same,
                    text: more,
                    ..
                },
            ) if tool_call == same => {
                text.push_str(more);
                true
            }
            _ => false,
        };
        if !joined {
            self.deltas.push(delta);
        }
    }

    async fn flush(self, cx: &TurnContext, visibility: OutputVisibility) -> Result<(), TurnStopped> {
        if visibility == OutputVisibility::Nothing {
            return Ok(());
        }
        for delta in self.deltas {
            cx.link.emit_delta(delta).await?;
        }
        Ok(())
    }
}

/// Sleeps until `deadline`, unless the turn is stopped first.
pub(super) async fn sleep_unless_stopped(cx: &TurnContext, deadline: Instant) -> Result<(), TurnStopped> {
    tokio::select! { biased;
        () = cx.cancel.cancelled() => Err(TurnStopped),
        () = clock::sleep_until(deadline) => Ok(()),
    }
}
