//! Runs one approved tool call to its result: the time limit, live output, cutting of long output, redaction, cancel.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::FusedFuture;
use tokio::sync::mpsc;

use super::context::TurnContext;
use super::emit::{emit_late_warning, emit_warning};
use super::live_output::LiveOutput;
use super::redact;
use super::session_link::TurnStopped;
use super::tool_guard;
use super::tool_run::{
    StopFlag, ToolRun, ToolRunDisposition, ToolRunResult, catch_tool_panic, fingerprint_result,
    internal_error_message, tool_context,
};
use crate::base::{clock, text};
use crate::domain::{ContentRef, Delta, Event, ToolCallStatus, ToolResult};
use crate::tool::bash::Bash;
use crate::tool::{
    ContentSink, DelegateResult, PreparedCall, Tool as _, ToolError, ToolOutput, ToolProgress, stored_output,
    terminal_output,
};
use crate::workspace::OnCancel;

/// Bytes beyond which the result of a tool that does not limit its results is cut in the middle for the model (R-TOOL-1).
const MODEL_BYTES: usize = 30_000;
/// The code of the warning that a question of an MCP server was declined.
const MCP_QUESTION_DECLINED: &str = "mcp_question_declined";
/// The code of the warning that commands keep failing in the same way.
const REPEATED_FAILURE: &str = "repeated_failure";
/// Pieces of live output that may wait for a slow client; beyond it the tool waits.
const NEWS_QUEUE: usize = 16;
/// How much longer than the configured wait a tool may take to finish after a cancel. The tool's own bounds are tighter
/// (R-CANCEL: 2.5 s).
const FINISH_LIMIT: Duration = Duration::from_secs(5);

/// Runs an approved call, streams its output, and answers it.
pub(super) async fn execute_call(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: Box<dyn PreparedCall>,
    halt: &StopFlag,
) -> Result<ToolRunResult, TurnStopped> {
    let mut running = call.to_update(ToolCallStatus::Running);
    running.input = call.input.as_ref().ok().cloned();
    cx.link.emit_event(Event::ToolCall(running)).await?;
    cx.services.totals.tool_calls.add(1);
    let started = clock::now();
    let result = run_to_end(cx, call, prepared).await?;
    let took = started.elapsed();
    cx.services.totals.tool.record(took);
    let wrong_input = match result {
        Err(ToolError::Misfit(_)) => Some(ToolRunDisposition::Refused),
        Err(ToolError::WrongInput(_)) => Some(ToolRunDisposition::WrongInput),
        _ => None,
    };
    let (status, output) = to_status_and_output(call, result);
    // Before anything leaves this function: neither the model nor a client may read an API key (I15).
    let output = redact::redact_output(&cx.services.redactor, output);
    let mut result = for_the_model(cx, call, &output);
    // What differs by call (where the whole output is, notes, messages of hooks) is added later, so that it does not hide
    // a repeated result from the loop guard.
    let fingerprint = fingerprint_result(&result);
    let disposition = wrong_input.unwrap_or_else(|| to_disposition(status, &output));
    let failure_text = match disposition {
        ToolRunDisposition::Ran | ToolRunDisposition::Refused => String::new(),
        _ => result.text.clone(),
    };
    if let Some(location) = locate_full_output(cx, &result) {
        result.text.push('\n');
        result.text.push_str(&location);
    }
    if let Some(note) = &call.note {
        tool_guard::append_note(&mut result, note);
    }
    let has_failed_command = call.name == Bash::NAME && output.exit_code.is_some() && !output.timed_out;
    if has_failed_command {
        report_repeated_failure(cx, call, disposition, &failure_text, &mut result).await?;
    }
    let ended_by = if disposition == ToolRunDisposition::Refused {
        None
    } else {
        // A cancel in the hook does not undo what the tool did. The turn notices the cancel next.
        let ended = tool_guard::run_post_tool_hooks(cx, call, &mut result).await;
        ended.unwrap_or_default()
    };
    // Before the client learns of the failure: its answer to another question must not start that call.
    halt.observe(cx, disposition, ended_by.as_ref());
    let mut update = call.to_update(status);
    update.result = Some(Arc::new(result));
    update.diff = output.diff;
    update.locations = output.locations;
    update.duration_ms = Some(took.as_millis() as u64);
    update.exit_code = output.exit_code;
    // Late, because the tool has run: its result is recorded even after a cancel.
    cx.link.emit_late(Event::ToolCall(update)).await?;
    Ok(ToolRunResult {
        tool: call.name.clone(),
        disposition,
        failure_text,
        has_failed_command,
        result: fingerprint,
        ended_by,
    })
}

/// Tells the model and the user if a command failed in the same way as others before it.
async fn report_repeated_failure(
    cx: &TurnContext,
    call: &ToolRun,
    disposition: ToolRunDisposition,
    output: &str,
    result: &mut ToolResult,
) -> Result<(), TurnStopped> {
    let input = call.requested_arguments().ok();
    let Some(command) = input.and_then(|input| input["command"].as_str()) else {
        return Ok(());
    };
    let failed = (disposition == ToolRunDisposition::Failed).then_some(output);
    // The lock is released before anything is awaited.
    let repeated = {
        let failures = cx.services.statistics.command_failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.record_end(&cx.turn, command, failed)
    };
    let Some(repeated) = repeated else { return Ok(()) };
    tool_guard::append_note(result, &repeated.to_note());
    if repeated.is_first_report {
        emit_late_warning(cx, REPEATED_FAILURE, repeated.to_warning()).await?;
    }
    Ok(())
}

fn to_disposition(status: ToolCallStatus, output: &ToolOutput) -> ToolRunDisposition {
    match (status, output.delegated) {
        (ToolCallStatus::Failed, Some(DelegateResult::Failed)) => return ToolRunDisposition::SubagentFailed,
        (ToolCallStatus::Failed, Some(DelegateResult::Violated)) => return ToolRunDisposition::JoinViolated,
        _ => {}
    }
    match status {
        ToolCallStatus::Failed if output.timed_out => ToolRunDisposition::TimedOut,
        ToolCallStatus::Failed if output.is_wrong_input => ToolRunDisposition::WrongInput,
        ToolCallStatus::Failed => ToolRunDisposition::Failed,
        ToolCallStatus::Cancelled | ToolCallStatus::Denied => ToolRunDisposition::Refused,
        ToolCallStatus::Completed
        | ToolCallStatus::Pending
        | ToolCallStatus::AwaitingApproval
        | ToolCallStatus::Running => ToolRunDisposition::Ran,
    }
}

/// Runs a call while streaming its live output. A slow client delays the output, never the end. Once the turn is
/// canceled, no more live output is sent, but the result is kept.
async fn run_to_end(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: Box<dyn PreparedCall>,
) -> Result<Result<ToolOutput, ToolError>, TurnStopped> {
    let (progress_sender, mut progress_receiver) = mpsc::channel(NEWS_QUEUE);
    let patient = prepared.finishes_on_cancel();
    let limit = time_limit(cx, call, prepared.timeout());
    // R-TOOL-1: the time limit covers the run, not the wait for a user before it.
    let run = run_with_timeout(
        limit,
        catch_tool_panic(prepared.run(tool_context(cx, call, Some(progress_sender)))),
    );
    let mut run = std::pin::pin!(run.fuse());
    let mut outcome = None;
    {
        let mut telling = std::pin::pin!(forward_progress(cx, call, &mut progress_receiver).fuse());
        // Until both are done: the run's output may still be on its way when the run has ended.
        while outcome.is_none() || !telling.is_terminated() {
            tokio::select! { biased;
                () = cx.cancel.cancelled() => break,
                result = &mut run => outcome = Some(result),
                () = &mut telling => {}
            }
        }
    }
    // Unblock a tool that waits to report something.
    progress_receiver.close();
    let result = match outcome {
        Some(result) => result,
        None if !patient => return Err(TurnStopped),
        None => clock::timeout(finish_limit(cx), run)
            .await
            .unwrap_or(Err(ToolError::Cancelled)),
    };
    // Live output is in the result as well, but a plan is only here.
    while let Ok(progress) = progress_receiver.try_recv() {
        if let ToolProgress::Plan(items) = progress {
            cx.link.emit_late(Event::Plan { items }).await?;
        }
    }
    Ok(result)
}

/// Returns how long a canceled call may continue.
fn finish_limit(cx: &TurnContext) -> Duration {
    FINISH_LIMIT
        + match cx.workspace.on_cancel() {
            OnCancel::Interrupt => FINISH_LIMIT,
            OnCancel::Finish(limit) => limit,
        }
}

/// Forwards all progress of a call until it ends or the receiver is gone.
async fn forward_progress(
    cx: &TurnContext,
    call: &ToolRun,
    progress_receiver: &mut mpsc::Receiver<ToolProgress>,
) {
    // A key may be split over two pieces, so the redactor holds back what could be its start.
    let mut pieces = cx.services.redactor.redact_pieces();
    let mut live = LiveOutput::new(clock::now());
    loop {
        let due = live.due_at();
        let progress = tokio::select! { biased;
            () = clock::sleep_until(due.unwrap_or_else(clock::now)), if due.is_some() => None,
            progress = progress_receiver.recv() => match progress {
                Some(progress) => Some(progress),
                None => break,
            },
        };
        let sent = match progress {
            None => emit_output(cx, call, live.take_held(clock::now())).await,
            Some(ToolProgress::Output(raw)) => {
                let text = pieces.push(&text::strip_control_characters(&raw));
                let text = live.push(text, clock::now()).unwrap_or_default();
                emit_output(cx, call, text).await
            }
            Some(ToolProgress::Plan(items)) => cx.link.emit_event(Event::Plan { items }).await,
            Some(ToolProgress::QuestionDeclined(message)) => {
                emit_warning(cx, MCP_QUESTION_DECLINED, message).await
            }
            Some(ToolProgress::QuestionUnheard { server, message }) => {
                if !cx.services.note_unheard_server(server) {
                    continue;
                }
                emit_warning(cx, MCP_QUESTION_DECLINED, message).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
    // An error means that the turn was stopped; there is nothing left to forward.
    let _ = emit_output(cx, call, live.take_held(clock::now()) + &pieces.flush_held()).await;
}

/// Shows live output of a call, if there is any.
async fn emit_output(cx: &TurnContext, call: &ToolRun, text: String) -> Result<(), TurnStopped> {
    if text.is_empty() {
        return Ok(());
    }
    let tool_call = call.id.clone();
    cx.link.emit_delta(Delta::ToolOutput { tool_call, text }).await
}

fn to_status_and_output(
    call: &ToolRun,
    result: Result<ToolOutput, ToolError>,
) -> (ToolCallStatus, ToolOutput) {
    let failed = |text: String| ToolOutput {
        text,
        is_error: true,
        ..ToolOutput::default()
    };
    match result {
        // A command that exits with an error is a failed call, but the model reads its plain result (R-TOOL-2).
        Ok(output) if output.is_error || output.exit_code.is_some_and(|code| code != 0) => {
            (ToolCallStatus::Failed, output)
        }
        Ok(output) => (ToolCallStatus::Completed, output),
        Err(ToolError::Reported(reason) | ToolError::WrongInput(reason) | ToolError::Misfit(reason)) => {
            (ToolCallStatus::Failed, failed(reason))
        }
        Err(ToolError::Cancelled) => (
            ToolCallStatus::Cancelled,
            failed("canceled while it ran".to_owned()),
        ),
        // A cancel keeps what the command had printed.
        Err(ToolError::CutShort(output)) => (
            ToolCallStatus::Cancelled,
            ToolOutput {
                is_error: true,
                ..*output
            },
        ),
        Err(ToolError::Internal(reason)) => (
            ToolCallStatus::Failed,
            failed(internal_error_message(call, &reason)),
        ),
    }
}

/// Cuts a result that is too long for the model, and stores the whole.
fn for_the_model(cx: &TurnContext, call: &ToolRun, output: &ToolOutput) -> ToolResult {
    let mut result = ToolResult {
        text: output.text.clone(),
        media: output.media.clone(),
        is_error: output.is_error,
        full: output.full.clone(),
    };
    if let Some(most) = max_result_bytes(cx, output)
        && let Some(cut) = terminal_output::cut_long_text(&output.text, most)
    {
        if result.full.is_none() {
            match store_output(&*cx.services.content_sink, call.id.as_str(), &output.text) {
                Ok(reference) => result.full = Some(reference),
                // The cut result still serves the model, so a failing disk does not fail the call.
                Err(error) => tracing::warn!(error, "long tool output was not kept"),
            }
        }
        result.text = cut;
    }
    if result.text.is_empty() && result.media.is_empty() {
        // R-LOOP-4: providers reject empty content.
        result.text = "(no output)".to_owned();
    }
    result
}

/// Returns the longest text of a result for the model in bytes, if there is a limit besides the tool's own.
fn max_result_bytes(cx: &TurnContext, output: &ToolOutput) -> Option<usize> {
    let model = cx.tools.current_model();
    let share = model.map(|model| model.max_result_bytes());
    if output.paged {
        // Status lines and outlines may follow what the tool has limited.
        share.map(|share| share + share / 2)
    } else {
        Some(share.map_or(MODEL_BYTES, |share| share.min(MODEL_BYTES)))
    }
}

/// Describes for the model where the complete output can be read, if the result is only a part of it.
fn locate_full_output(cx: &TurnContext, result: &ToolResult) -> Option<String> {
    let full = result.full.as_ref()?;
    stored_output::describe_location(full, |tool| cx.tools.get(tool).is_some())
}

/// Stores the text of a result under a name that is unique within the session.
pub(super) fn store_output(sink: &dyn ContentSink, name: &str, text: &str) -> Result<ContentRef, String> {
    let mut writer = sink.create_writer(name)?;
    writer.append_text(text)?;
    writer.finish()
}

fn time_limit(cx: &TurnContext, call: &ToolRun, own: Option<Duration>) -> Option<Duration> {
    own.map(|own| (cx.settings.tool_timeouts)(&call.name).unwrap_or(own))
}

async fn run_with_timeout(
    limit: Option<Duration>,
    run: impl Future<Output = Result<ToolOutput, ToolError>>,
) -> Result<ToolOutput, ToolError> {
    let Some(limit) = limit else { return run.await };
    let ended = clock::timeout(limit, run).await;
    ended.unwrap_or_else(|_| Ok(ToolOutput::timed_out(limit)))
}
