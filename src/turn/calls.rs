//! The tool calls of one step: checked, judged, approved, run, each answered exactly once (I4).
//!
//! Calls run at the same time unless `call_order` makes one wait for another. `permission` decides whether a call may
//! run, and `tool_execution` runs it. The effect of results on the turn is `tool_step`'s.

use std::sync::Arc;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;

use super::call_order::{CallOrder, CallPlace};
use super::circuit::CallReport;
use super::context::TurnContext;
use super::permission::{self, Permission, request_permission, run_permission_hooks};
use super::redact;
use super::session_link::TurnStopped;
use super::tool_execution::execute_call;
use super::tool_guard::{self, ToolCircuitGuard};
use super::tool_run::{
    StopFlag, ToolRun, ToolRunDisposition, ToolRunResult, fingerprint_result, prepare_call,
};
use crate::domain::{Event, ToolCallStatus, ToolResult};
use crate::tool::PreparedCall;

/// Runs the calls of one step to their results, or answers all of them with `instead`. A call that waits for approval
/// delays only those that depend on it (R-TOOL-1).
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
    let order = CallOrder::new(ready.len());
    let mut running: FuturesUnordered<_> = (0usize..)
        .zip(ready)
        .map(|(at, (call, prepared))| {
            run_call(cx, call, prepared, order.place(at), &halt).map(move |end| (at, end))
        })
        .collect();
    let (mut ends, mut stopped) = (Vec::new(), false);
    // After a stop the loop still waits for the other calls, so that no effect outlives the turn (I8).
    while let Some((at, result)) = running.next().await {
        match result {
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

async fn run_call(
    cx: &TurnContext,
    mut call: ToolRun,
    prepared: Result<Box<dyn PreparedCall>, String>,
    place: CallPlace<'_>,
    halt: &StopFlag,
) -> Result<ToolRunResult, TurnStopped> {
    let fail = |reason, disposition| {
        finish_without_run(cx, &call, ToolCallStatus::Failed, reason, disposition, halt)
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return fail(reason, ToolRunDisposition::Refused).await,
    };
    let gate = match ToolCircuitGuard::enter_circuit(cx, &call.name).await? {
        Ok(gate) => gate,
        Err(reason) => return fail(reason, ToolRunDisposition::Failed).await,
    };
    // Hooks precede the approval, so that people approve what runs.
    let (prepared, objection) = match run_permission_hooks(cx, &mut call, prepared).await? {
        (Permission::Granted(prepared), _) => (
            request_permission(cx, &mut call, prepared, &place, halt).await?,
            None,
        ),
        (refused, objection) => (refused, objection),
    };
    let refused =
        |status, reason, disposition| finish_without_run(cx, &call, status, reason, disposition, halt);
    let mut run_result = match prepared {
        Permission::Granted(prepared) if !halt.is_set() => execute_call(cx, &call, prepared, halt).await?,
        Permission::Granted(_) => {
            let reason = permission::HALTED.to_owned();
            refused(ToolCallStatus::Cancelled, reason, ToolRunDisposition::Refused).await?
        }
        Permission::Refused(ToolCallStatus::Failed, reason) => {
            refused(ToolCallStatus::Failed, reason, ToolRunDisposition::Failed).await?
        }
        Permission::Refused(status, reason) => refused(status, reason, ToolRunDisposition::Refused).await?,
        Permission::Invalid(reason) => {
            refused(ToolCallStatus::Failed, reason, ToolRunDisposition::Refused).await?
        }
    };
    let input = call.requested_arguments().unwrap_or(&Value::Null);
    let failed = |message| CallReport::Failed { message, input };
    let report = match run_result.disposition {
        ToolRunDisposition::Ran => CallReport::Succeeded,
        ToolRunDisposition::Failed if run_result.has_failed_command => CallReport::Succeeded,
        ToolRunDisposition::Failed | ToolRunDisposition::SubagentFailed => {
            failed(run_result.failure_text.as_str())
        }
        ToolRunDisposition::TimedOut => failed("timed out"),
        ToolRunDisposition::Refused | ToolRunDisposition::WrongInput | ToolRunDisposition::JoinViolated => {
            CallReport::Nothing
        }
    };
    gate.record_call_end(report).await?;
    run_result.ended_by = run_result.ended_by.or(objection);
    halt.observe(cx, run_result.disposition, run_result.ended_by.as_ref());
    Ok(run_result)
}

/// Answers a call that did not run.
async fn finish_without_run(
    cx: &TurnContext,
    call: &ToolRun,
    status: ToolCallStatus,
    reason: String,
    disposition: ToolRunDisposition,
    halt: &StopFlag,
) -> Result<ToolRunResult, TurnStopped> {
    halt.observe(cx, disposition, None);
    let mut update = call.to_update(status);
    let reason = redact::text(&cx.services.redactor, reason);
    let mut result = ToolResult::error(reason.clone());
    let fingerprint = fingerprint_result(&result);
    if let Some(note) = &call.note {
        tool_guard::append_note(&mut result, note);
    }
    update.result = Some(Arc::new(result));
    cx.link.emit_event(Event::ToolCall(update)).await?;
    Ok(ToolRunResult {
        tool: call.name.clone(),
        disposition,
        failure_text: reason,
        has_failed_command: false,
        result: fingerprint,
        ended_by: None,
    })
}
