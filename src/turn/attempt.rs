//! One provider call: from request to message. Retrying is `step`'s.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::accumulate::{Accumulator, CompletedMessage, PushResult};
use super::session_link::Stopped;
use super::{ResolvedModel, TurnContext};
use crate::base::clock;
use crate::domain::{Cost, Delta, Event, MessageId, ToolCallId, Usage};
use crate::provider::{ModelRequest, ProviderError, ProviderFault, StopReason, StreamEvent};

/// Deltas of one read are joined up to this size before they are sent on.
const BATCH_BYTES: usize = 16 << 10;

/// How a call ended.
pub(super) enum Attempt {
    /// With a message.
    Answered(Box<ModelAnswer>),
    /// With an error; what was shown is void or stays as an incomplete message.
    Failed {
        error: Box<ProviderError>,
        shown: Option<StreamedOutput>,
        spent: CallUsage,
    },
    /// The turn was stopped. The provider has read the prompt all the same.
    Stopped {
        /// As far as the provider had told.
        spent: CallUsage,
    },
}

/// A call that came to its end.
pub(super) struct ModelAnswer {
    pub(super) answer: CompletedMessage,
    pub(super) stop: StopReason,
    pub(super) spent: CallUsage,
    /// What was shown of it.
    pub(super) shown: Option<StreamedOutput>,
    /// It was cut at our limit, not at the model's.
    pub(super) overlong: bool,
}

/// What was shown of a call.
pub(super) struct StreamedOutput {
    pub(super) message: MessageId,
    pub(super) tool_calls: Vec<ToolCallId>,
    /// Whether some of it was text or reasoning.
    pub(super) said: bool,
}

/// What a call cost.
#[derive(Clone, Copy, Default)]
pub(super) struct CallUsage {
    pub(super) usage: Usage,
    pub(super) cost: Option<Cost>,
    /// What has come of the answer, in bytes.
    pub(super) came: usize,
}

/// Whether an answer is shown as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// As deltas.
    Deltas,
    /// Not at all: it is not for people.
    Nothing,
}

/// Makes one call and shows its answer as it comes. What it has used by then is known however it ends.
pub(super) async fn run_attempt(
    cx: &TurnContext,
    model: &ResolvedModel,
    request: Arc<ModelRequest>,
    shows: Visibility,
) -> Attempt {
    let mut accumulator = Accumulator::new(MessageId::new_random());
    cx.totals.requests.add(1);
    cx.requests.add(1);
    match stream_response(cx, model, request.clone(), shows, &mut accumulator).await {
        Ok(Ok(stop)) => build_answered_attempt(accumulator, stop, model, shows, &request),
        Ok(Err(error)) => build_failed_attempt(accumulator, error, model, shows),
        Err(Stopped) => Attempt::Stopped {
            spent: call_usage(&accumulator, model),
        },
    }
}

async fn stream_response(
    cx: &TurnContext,
    model: &ResolvedModel,
    request: Arc<ModelRequest>,
    shows: Visibility,
    accumulator: &mut Accumulator,
) -> Result<Result<StopReason, ProviderError>, Stopped> {
    let started = clock::now();
    let opened = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Stopped),
        opened = model.provider.open_stream(request) => opened,
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(error)),
    };
    let mut first = true;
    loop {
        let next = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(Stopped),
            next = stream.next() => next,
        };
        let mut batch = DeltaBatch::default();
        let mut event = Some(next);
        let mut ended = None;
        // Whatever has arrived already is taken together: one delta instead of many.
        while let Some(next) = event.take() {
            match next {
                Some(Ok(piece)) => {
                    if std::mem::take(&mut first) {
                        cx.totals.first_token.record(started.elapsed());
                    }
                    match push(accumulator, &mut batch, piece) {
                        Some(stop) => ended = Some(Ok(stop)),
                        None if batch.bytes < BATCH_BYTES => event = stream.next().now_or_never(),
                        None => {}
                    }
                }
                Some(Err(error)) => ended = Some(Err(error)),
                None => ended = Some(Err(missing_stop_error(model))),
            }
        }
        batch.flush(cx, shows).await?;
        if let Some(ended) = ended {
            return Ok(ended);
        }
    }
}

/// Takes one piece in; tells when the message has ended.
fn push(accumulator: &mut Accumulator, batch: &mut DeltaBatch, piece: StreamEvent) -> Option<StopReason> {
    match accumulator.push(piece) {
        PushResult::Show(delta) => batch.push_delta(delta),
        PushResult::Quiet => {}
        PushResult::Stopped(reason) => return Some(reason),
    }
    accumulator.is_full().then_some(StopReason::MaxTokens)
}

fn build_answered_attempt(
    accumulator: Accumulator,
    stop: StopReason,
    model: &ResolvedModel,
    shows: Visibility,
    request: &ModelRequest,
) -> Attempt {
    let spent = call_usage(&accumulator, model);
    let cut = matches!(stop, StopReason::MaxTokens | StopReason::WindowFull);
    Attempt::Answered(Box::new(ModelAnswer {
        shown: streamed_output(&accumulator, shows),
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
    shows: Visibility,
) -> Attempt {
    let spent = call_usage(&accumulator, model);
    let shown = streamed_output(&accumulator, shows);
    let error = Box::new(error);
    Attempt::Failed { error, shown, spent }
}

fn streamed_output(accumulator: &Accumulator, shows: Visibility) -> Option<StreamedOutput> {
    (shows == Visibility::Deltas && accumulator.has_shown()).then(|| StreamedOutput {
        message: accumulator.id().clone(),
        tool_calls: accumulator.begun_calls(),
        said: accumulator.has_said(),
    })
}

fn call_usage(accumulator: &Accumulator, model: &ResolvedModel) -> CallUsage {
    let (usage, told) = accumulator.usage_and_cost();
    CallUsage {
        usage,
        cost: told.or_else(|| model.info.price.map(|price| price.calculate_cost(&usage))),
        came: accumulator.received_bytes(),
    }
}

/// A stream that ended without a stop event: the provider layer never does so, a wrong one might.
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

/// Adjacent deltas of one kind, joined.
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

    async fn flush(self, cx: &TurnContext, shows: Visibility) -> Result<(), Stopped> {
        if shows == Visibility::Nothing {
            return Ok(());
        }
        for delta in self.deltas {
            cx.port.emit_event(Event::Delta(delta)).await?;
        }
        Ok(())
    }
}

/// Waits, unless the turn is stopped first.
pub(super) async fn sleep_unless_stopped(cx: &TurnContext, time: Duration) -> Result<(), Stopped> {
    tokio::select! { biased;
        () = cx.cancel.cancelled() => Err(Stopped),
        () = tokio::time::sleep(time) => Ok(()),
    }
}
