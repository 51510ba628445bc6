//! The tool calls of one step: checked, judged, approved, run in parallel, each answered exactly once (I4).
//!
//! Everything that all tools share is here: the time limit, cutting of output, redaction, cancel, panics. `permission`
//! decides whether a call may run. The effect of results on the turn is `tool_step`'s.

mod permission;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::FusedFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;

use self::permission::{Permission, request_permission, run_permission_hooks};
use super::accumulate::RequestedCall;
use super::circuit::CallReport;
use super::context::{CarriedCall, TurnContext};
use super::hook_runs::Objection;
use super::redact::{self, RedactingSink};
use super::session_link::TurnStopped;
use super::tool_guard::{self, ToolCircuitGuard};
use super::tool_step::failure_policy_for;
use crate::base::spawn::panic_text;
use crate::base::{clock, text};
use crate::config::FailurePolicy;
use crate::domain::{
    ApprovalId, ContentRef, Delta, Event, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolResult,
};
use crate::tool::{DelegateResult, PreparedCall, ToolContext, ToolError, ToolOutput, ToolProgress};
use crate::workspace::OnCancel;

/// Characters beyond which a result is cut in the middle for the model (R-TOOL-1).
const MODEL_CHARS: usize = 30_000;
/// Pieces of live output that may wait for a slow client; beyond it the tool waits.
const NEWS_QUEUE: usize = 16;
/// How much longer than the configured wait a tool may take to finish after a cancel. The tool's own bounds are tighter
/// (R-CANCEL: 2.5 s).
const FINISH_LIMIT: Duration = Duration::from_secs(5);

/// A tool call in progress.
pub(super) struct ToolRun {
    id: ToolCallId,
    name: String,
    input: Result<Arc<Value>, String>,
    title: String,
    /// An earlier turn requested it and has announced it.
    carried: bool,
    approval: Option<ApprovalId>,
    /// A note for the model, appended to the result.
    note: Option<String>,
    /// The user allowed it although its change cannot be reverted.
    uncheckpointed: bool,
    /// The resolved paths by which it was judged.
    judged: Option<Arc<[PathBuf]>>,
}

/// The result of a call.
pub(super) struct ToolRunResult {
    pub(super) tool: String,
    pub(super) fate: ToolRunDisposition,
    /// What the model reads about a failure; empty otherwise.
    pub(super) said: String,
    /// A fingerprint of the result, for loop detection.
    pub(super) result: u64,
    /// The hook's objection that ended the turn, if one did.
    pub(super) ended_by: Option<Objection>,
}

/// How a call ended, as failure policies and circuits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolRunDisposition {
    Ran,
    /// The tool failed or panicked.
    Failed,
    TimedOut,
    /// A sub-agent failed under the join policy `all_required`.
    SubagentFailed,
    /// Fewer sub-agents succeeded than the join policy requires.
    JoinViolated,
    /// It did not run: invalid arguments, a denial, a hook, or a cancel.
    Refused,
}

/// Set when the turn ends after this step, so that calls that have not started do not start.
#[derive(Default)]
struct StopFlag(AtomicBool);

/// What the model reads about a call that did not start because the turn ended first.
const HALTED: &str = "Not run: the turn ended first";

impl ToolRun {
    pub(super) fn new(wanted: RequestedCall) -> Self {
        let title = wanted.name.clone();
        Self {
            id: wanted.id,
            name: wanted.name,
            input: wanted.input,
            title,
            carried: false,
            approval: None,
            note: None,
            uncheckpointed: false,
            judged: None,
        }
    }

    pub(super) fn from_carried(carried: CarriedCall) -> Self {
        Self {
            id: carried.call.id,
            title: carried.call.name.clone(),
            name: carried.call.name,
            input: Ok(carried.call.input),
            carried: true,
            approval: carried.approval,
            note: None,
            uncheckpointed: false,
            judged: None,
        }
    }

    pub(super) fn id(&self) -> &ToolCallId {
        &self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments, or why they are not a JSON object.
    pub(super) fn requested_arguments(&self) -> Result<&Value, &str> {
        self.input.as_deref().map_err(String::as_str)
    }

    /// Returns whether the tool is meant to be called repeatedly while waiting.
    pub(super) fn is_wait_call(&self, cx: &TurnContext) -> bool {
        cx.tools.get(&self.name).is_some_and(|tool| tool.is_wait_tool())
    }

    fn to_update(&self, status: ToolCallStatus) -> ToolCallUpdate {
        ToolCallUpdate {
            id: self.id.clone(),
            name: self.name.clone(),
            title: self.title.clone(),
            status,
            input: None,
            result: None,
            diff: None,
            locations: Vec::new(),
            duration_ms: None,
            exit_code: None,
            parent: None,
        }
    }
}

/// Runs the calls of one step to their results, or answers all of them with `instead`. A call that waits for approval
/// delays no other (R-TOOL-1).
pub(super) async fn run_calls(
    cx: &TurnContext,
    calls: Vec<ToolRun>,
    instead: Option<&str>,
) -> Result<Vec<ToolRunResult>, TurnStopped> {
    let mut ready = Vec::with_capacity(calls.len());
    for mut call in calls {
        let prepared = prepare_call(cx, &mut call);
        let prepared = match instead {
            Some(answer) => Err(answer.to_owned()),
            None => prepared,
        };
        if !call.carried {
            let mut pending = call.to_update(ToolCallStatus::Pending);
            pending.input = call.input.as_ref().ok().cloned();
            cx.link.emit_event(Event::ToolCall(pending)).await?;
        }
        ready.push((call, prepared));
    }
    // All calls are announced as pending before any runs, in call order.
    let halt = StopFlag::default();
    let mut running: FuturesUnordered<_> = (0usize..)
        .zip(ready)
        .map(|(at, (call, prepared))| run_call(cx, call, prepared, &halt).map(move |end| (at, end)))
        .collect();
    let (mut ends, mut stopped) = (Vec::new(), false);
    // After a stop the loop still waits for the other calls, so that no effect outlives the turn (I8).
    while let Some((at, ended)) = running.next().await {
        match ended {
            Ok(end) => ends.push((at, end)),
            Err(TurnStopped) => stopped = true,
        }
    }
    if stopped {
        return Err(TurnStopped);
    }
    // R-TOOL-1: results in call order.
    ends.sort_unstable_by_key(|(at, _)| *at);
    Ok(ends.into_iter().map(|(_, end)| end).collect())
}

/// Checks the name and the arguments. The error is for the model.
fn prepare_call(cx: &TurnContext, call: &mut ToolRun) -> Result<Box<dyn PreparedCall>, String> {
    let Some(tool) = cx.tools.get(&call.name) else {
        let known = cx.tools.tool_names().join(", ");
        return Err(format!("unknown tool {:?}; the tools are: {known}", call.name));
    };
    let input = call.input.as_ref().map_err(Clone::clone)?;
    // R-TOOL-5: a panic in a tool's argument check is that call's failure, nothing more.
    let checked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let prepared = tool.clone().prepare_call(input)?;
        let title = text::one_line(&prepared.title(), 200);
        Ok((prepared, title))
    }));
    let checked =
        checked.unwrap_or_else(|payload| Err(internal_error_message(call, &panic_text(payload.as_ref()))));
    let (prepared, title) = checked?;
    call.title = title;
    Ok(prepared)
}

/// Logs an internal error of a tool, and returns what the model reads about it.
fn internal_error_message(call: &ToolRun, why: &str) -> String {
    tracing::error!(tool = call.name, error = why, "tool failed");
    format!("the tool failed with an internal error ({why}); try another way")
}

async fn run_call(
    cx: &TurnContext,
    mut call: ToolRun,
    prepared: Result<Box<dyn PreparedCall>, String>,
    halt: &StopFlag,
) -> Result<ToolRunResult, TurnStopped> {
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            return finish_without_run(
                cx,
                &call,
                ToolCallStatus::Failed,
                why,
                ToolRunDisposition::Refused,
            )
            .await;
        }
    };
    let gate = match ToolCircuitGuard::enter_circuit(cx, &call.name).await? {
        Ok(gate) => gate,
        Err(why) => {
            let ended =
                finish_without_run(cx, &call, ToolCallStatus::Failed, why, ToolRunDisposition::Failed)
                    .await?;
            return Ok(halt.observe_result(cx, ended));
        }
    };
    // Hooks precede the approval, so that people approve what runs.
    let (prepared, objection) = match run_permission_hooks(cx, &mut call, prepared).await? {
        (Permission::Granted(prepared), _) if !halt.is_set() => {
            (request_permission(cx, &mut call, prepared).await?, None)
        }
        // Do not ask the user about a call that will not run.
        (Permission::Granted(_), _) => (Permission::halted(), None),
        (refused, objection) => (refused, objection),
    };
    let mut ended = match prepared {
        Permission::Granted(_) if halt.is_set() => {
            finish_without_run(
                cx,
                &call,
                ToolCallStatus::Cancelled,
                HALTED.to_owned(),
                ToolRunDisposition::Refused,
            )
            .await?
        }
        Permission::Granted(prepared) => execute_call(cx, &call, prepared).await?,
        Permission::Refused(status, why) => {
            let fate = match status {
                ToolCallStatus::Failed => ToolRunDisposition::Failed,
                _ => ToolRunDisposition::Refused,
            };
            finish_without_run(cx, &call, status, why, fate).await?
        }
        Permission::Invalid(why) => {
            finish_without_run(
                cx,
                &call,
                ToolCallStatus::Failed,
                why,
                ToolRunDisposition::Refused,
            )
            .await?
        }
    };
    let told = match ended.fate {
        ToolRunDisposition::Ran => CallReport::Well,
        ToolRunDisposition::Failed | ToolRunDisposition::SubagentFailed => CallReport::Failed(&ended.said),
        ToolRunDisposition::TimedOut => CallReport::Failed("timed out"),
        ToolRunDisposition::Refused | ToolRunDisposition::JoinViolated => CallReport::Nothing,
    };
    gate.record_call_end(told).await?;
    ended.ended_by = ended.ended_by.or(objection);
    Ok(halt.observe_result(cx, ended))
}

impl StopFlag {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops calls from starting once one has ended the turn.
    fn observe_result(&self, cx: &TurnContext, ended: ToolRunResult) -> ToolRunResult {
        if ended.ended_by.is_some() || failure_policy_for(cx, ended.fate) == FailurePolicy::Fail {
            self.0.store(true, Ordering::Relaxed);
        }
        ended
    }
}

/// Runs an approved call, streams its output, and answers it.
async fn execute_call(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: Box<dyn PreparedCall>,
) -> Result<ToolRunResult, TurnStopped> {
    let mut running = call.to_update(ToolCallStatus::Running);
    running.input = call.input.as_ref().ok().cloned();
    cx.link.emit_event(Event::ToolCall(running)).await?;
    cx.services.totals.tool_calls.add(1);
    let started = clock::now();
    let result = run_to_end(cx, call, prepared).await?;
    let took = started.elapsed();
    cx.services.totals.tool.record(took);
    let (status, output) = to_status_and_output(call, result);
    // Before anything leaves this function: neither the model nor a client may read an API key (I15).
    let output = redact::redact_output(&cx.services.redactor, output);
    let mut result = for_the_model(cx, call, &output);
    // Notes and hook messages are added later, so that they do not hide a repeated result from the loop guard.
    let (fate, fingerprint) = (to_disposition(status, &output), fingerprint_result(&result));
    let said = match fate {
        ToolRunDisposition::Ran | ToolRunDisposition::Refused => String::new(),
        ToolRunDisposition::Failed
        | ToolRunDisposition::TimedOut
        | ToolRunDisposition::SubagentFailed
        | ToolRunDisposition::JoinViolated => result.text.clone(),
    };
    if let Some(note) = &call.note {
        tool_guard::append_note(&mut result, note);
    }
    let ended_by = match fate {
        ToolRunDisposition::Refused => None,
        // A cancel in the hook does not undo what the tool did. The turn notices the cancel next.
        ToolRunDisposition::Ran
        | ToolRunDisposition::Failed
        | ToolRunDisposition::TimedOut
        | ToolRunDisposition::SubagentFailed
        | ToolRunDisposition::JoinViolated => tool_guard::run_post_tool_hooks(cx, call, &mut result)
            .await
            .unwrap_or_default(),
    };
    let mut ended = call.to_update(status);
    ended.result = Some(Arc::new(result));
    ended.diff = output.diff;
    ended.locations = output.locations;
    ended.duration_ms = Some(took.as_millis() as u64);
    ended.exit_code = output.exit_code;
    // Late, because the tool has run: its result is recorded even after a cancel.
    cx.link.emit_late(Event::ToolCall(ended)).await?;
    Ok(ToolRunResult {
        tool: call.name.clone(),
        fate,
        said,
        result: fingerprint,
        ended_by,
    })
}

fn to_disposition(status: ToolCallStatus, output: &ToolOutput) -> ToolRunDisposition {
    match (status, output.delegated) {
        (ToolCallStatus::Failed, Some(DelegateResult::Failed)) => return ToolRunDisposition::SubagentFailed,
        (ToolCallStatus::Failed, Some(DelegateResult::Violated)) => return ToolRunDisposition::JoinViolated,
        _ => {}
    }
    match status {
        ToolCallStatus::Failed if output.timed_out => ToolRunDisposition::TimedOut,
        ToolCallStatus::Failed => ToolRunDisposition::Failed,
        ToolCallStatus::Cancelled | ToolCallStatus::Denied => ToolRunDisposition::Refused,
        ToolCallStatus::Completed
        | ToolCallStatus::Pending
        | ToolCallStatus::AwaitingApproval
        | ToolCallStatus::Running => ToolRunDisposition::Ran,
    }
}

fn fingerprint_result(result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&result.text, result.is_error).hash(&mut hasher);
    hasher.finish()
}

/// Runs a call while streaming its live output. A slow client delays the output, never the end. Once the turn is
/// canceled, no more live output is sent, but the result is kept.
async fn run_to_end(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: Box<dyn PreparedCall>,
) -> Result<Result<ToolOutput, ToolError>, TurnStopped> {
    let (news, mut told) = mpsc::channel(NEWS_QUEUE);
    let patient = prepared.finishes_on_cancel();
    let limit = time_limit(cx, call, prepared.timeout());
    // R-TOOL-1: the time limit covers the run, not the wait for a user before it.
    let run = run_with_timeout(
        limit,
        catch_tool_panic(prepared.run(tool_context(cx, call, Some(news)))),
    );
    let mut run = std::pin::pin!(run.fuse());
    let mut ended = None;
    {
        let mut telling = std::pin::pin!(forward_progress(cx, call, &mut told).fuse());
        // Until both are done: the run's output may still be on its way when the run has ended.
        while ended.is_none() || !telling.is_terminated() {
            tokio::select! { biased;
                () = cx.cancel.cancelled() => break,
                result = &mut run => ended = Some(result),
                () = &mut telling => {}
            }
        }
    }
    // Unblock a tool that waits to report something.
    told.close();
    let result = match ended {
        Some(result) => result,
        None if !patient => return Err(TurnStopped),
        None => tokio::time::timeout(finish_limit(cx), run)
            .await
            .unwrap_or(Err(ToolError::Cancelled)),
    };
    // Live output is in the result as well, but a plan is only here.
    while let Ok(news) = told.try_recv() {
        if let ToolProgress::Plan(items) = news {
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
async fn forward_progress(cx: &TurnContext, call: &ToolRun, told: &mut mpsc::Receiver<ToolProgress>) {
    // A key may be split over two pieces, so the redactor holds back what could be its start.
    let mut pieces = cx.services.redactor.redact_pieces();
    while let Some(news) = told.recv().await {
        let sent = match news {
            ToolProgress::Output(raw) => {
                emit_output(cx, call, pieces.push(&text::strip_control_characters(&raw))).await
            }
            ToolProgress::Plan(items) => cx.link.emit_event(Event::Plan { items }).await,
        };
        if sent.is_err() {
            return;
        }
    }
    // An error means that the turn was stopped; there is nothing left to forward.
    let _ = emit_output(cx, call, pieces.flush_held()).await;
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
        Err(ToolError::Reported(why)) => (ToolCallStatus::Failed, failed(why)),
        Err(ToolError::Cancelled) => (
            ToolCallStatus::Cancelled,
            failed("cancelled by the user".to_owned()),
        ),
        // A cancel keeps what the command had printed.
        Err(ToolError::CutShort(output)) => (
            ToolCallStatus::Cancelled,
            ToolOutput {
                is_error: true,
                ..*output
            },
        ),
        Err(ToolError::Internal(why)) => (ToolCallStatus::Failed, failed(internal_error_message(call, &why))),
    }
}

/// Cuts a result that is too long for the model, and stores the whole.
fn for_the_model(cx: &TurnContext, call: &ToolRun, output: &ToolOutput) -> ToolResult {
    let mut result = ToolResult {
        text: output.text.clone(),
        images: output.images.clone(),
        is_error: output.is_error,
        full: output.full.clone(),
    };
    if !output.paged
        && let Some(cut) = text::cut_middle(&output.text, MODEL_CHARS)
    {
        if result.full.is_none() {
            match store_output(cx, call, &output.text) {
                Ok(kept) => result.full = Some(kept),
                // The cut result still serves the model, so a failing disk does not fail the call.
                Err(error) => tracing::warn!(error, "long tool output was not kept"),
            }
        }
        result.text = cut;
    }
    if result.text.is_empty() && result.images.is_empty() {
        // R-LOOP-4: providers reject empty content.
        result.text = "(no output)".to_owned();
    }
    result
}

fn store_output(cx: &TurnContext, call: &ToolRun, whole: &str) -> Result<ContentRef, String> {
    let mut kept = cx.services.content_sink.create_writer(call.id.as_str())?;
    kept.append_text(whole)?;
    kept.finish()
}

/// Answers a call that did not run.
async fn finish_without_run(
    cx: &TurnContext,
    call: &ToolRun,
    status: ToolCallStatus,
    why: String,
    fate: ToolRunDisposition,
) -> Result<ToolRunResult, TurnStopped> {
    let mut ended = call.to_update(status);
    let why = redact::text(&cx.services.redactor, why);
    let mut result = ToolResult::error(why.clone());
    let fingerprint = fingerprint_result(&result);
    if let Some(note) = &call.note {
        tool_guard::append_note(&mut result, note);
    }
    ended.result = Some(Arc::new(result));
    cx.link.emit_event(Event::ToolCall(ended)).await?;
    Ok(ToolRunResult {
        tool: call.name.clone(),
        fate,
        said: why,
        result: fingerprint,
        ended_by: None,
    })
}

fn time_limit(cx: &TurnContext, call: &ToolRun, own: Option<Duration>) -> Option<Duration> {
    own.map(|own| (cx.settings.tool_timeouts)(&call.name).unwrap_or(own))
}

async fn run_with_timeout(
    limit: Option<Duration>,
    run: impl Future<Output = Result<ToolOutput, ToolError>>,
) -> Result<ToolOutput, ToolError> {
    let Some(limit) = limit else { return run.await };
    tokio::time::timeout(limit, run).await.unwrap_or_else(|_| {
        Ok(ToolOutput {
            is_error: true,
            timed_out: true,
            ..ToolOutput::text(format!("timed out after {} s", limit.as_secs_f64()))
        })
    })
}

/// Turns a panic of a tool into the failure of that call (R-TOOL-5).
async fn catch_tool_panic<T>(run: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
    AssertUnwindSafe(run)
        .catch_unwind()
        .await
        .unwrap_or_else(|payload| Err(ToolError::Internal(panic_text(payload.as_ref()))))
}

fn tool_context(cx: &TurnContext, call: &ToolRun, news: Option<mpsc::Sender<ToolProgress>>) -> ToolContext {
    ToolContext {
        session: cx.session.clone(),
        call: call.id.clone(),
        cwd: cx.services.cwd.clone(),
        workspace: cx.workspace.clone(),
        skills: cx.prompt.skills.clone(),
        asker: Arc::new(cx.link.clone()),
        spawner: cx.spawner.clone(),
        editor: cx.services.editor.clone(),
        cancel: cx.cancel.clone(),
        force_cancel: cx.services.force_cancel.clone(),
        time_limit: (cx.settings.tool_timeouts)(&call.name),
        // Without a receiver: outside its run, a tool has nobody to report progress to.
        progress: news.unwrap_or_else(|| mpsc::channel(1).0),
        content_sink: Arc::new(RedactingSink::new(
            cx.services.content_sink.clone(),
            cx.services.redactor.clone(),
        )),
        checkpoints: cx.services.checkpoints.clone(),
        allows_uncheckpointed: call.uncheckpointed,
        judged: call.judged.clone(),
    }
}
