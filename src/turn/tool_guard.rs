//! What surrounds each tool call: the circuit of its tool (R-TOOL-4), and the `pre_tool` and `post_tool` hooks.
//!
//! It connects the pure `circuit` to the clock and to events, and words what the model reads. It must not run the tool.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use super::circuit::{CallReport, CircuitChange, ToolAdmission, ToolCircuits};
use super::context::TurnContext;
use super::hook_runs::{HookVerdict, Objection, run_hooks};
use super::session_link::TurnStopped;
use super::tool_run::ToolRun;
use crate::base::clock;
use crate::config::HookMoment;
use crate::domain::{CircuitState, CircuitSubject, Event, ToolResult};

/// A call's admission by its tool's circuit. Dropped without a report, it counts as neither success nor failure.
pub(super) struct ToolCircuitGuard<'a> {
    cx: &'a TurnContext,
    tool: String,
    trial: Option<u64>,
    was_reported: bool,
}

impl<'a> ToolCircuitGuard<'a> {
    /// Admits a call of `tool`. The error is for the model.
    pub(super) async fn enter_circuit(
        cx: &'a TurnContext,
        tool: &str,
    ) -> Result<Result<Self, String>, TurnStopped> {
        // The lock is released before anything is awaited.
        let admitted = lock(cx).admit_call(tool, clock::now());
        let trial = match admitted {
            ToolAdmission::Go => None,
            ToolAdmission::Trial(number) => Some(number),
            ToolAdmission::Open { remaining, failure } => return Ok(Err(open(tool, remaining, &failure))),
        };
        let gate = Self {
            cx,
            tool: tool.to_owned(),
            trial,
            was_reported: false,
        };
        if trial.is_some() {
            gate.emit_circuit_state(CircuitState::HalfOpen, None).await?;
        }
        Ok(Ok(gate))
    }

    /// Records how the call ended, and reports a change of the circuit.
    pub(super) async fn record_call_end(mut self, report: CallReport<'_>) -> Result<(), TurnStopped> {
        let cooldown = (self.cx.settings.tool_cooldowns)(&self.tool);
        self.was_reported = true;
        let change = lock(self.cx).record_call_end(&self.tool, self.trial, report, clock::now(), cooldown);
        match change {
            None => Ok(()),
            Some(CircuitChange::Closed) => self.emit_circuit_state(CircuitState::Closed, None).await,
            Some(CircuitChange::Opened) => {
                let until = clock::wall_ms().saturating_add_unsigned(cooldown.as_millis() as u64);
                self.emit_circuit_state(CircuitState::Open, Some(until)).await
            }
        }
    }

    async fn emit_circuit_state(&self, state: CircuitState, until: Option<i64>) -> Result<(), TurnStopped> {
        let event = Event::Circuit {
            subject: CircuitSubject::Tool,
            name: self.tool.clone(),
            state,
            until,
        };
        // Late, because the circuit has changed even if the turn is being canceled.
        self.cx.link.emit_late(event).await
    }
}

impl Drop for ToolCircuitGuard<'_> {
    fn drop(&mut self) {
        // A canceled call must give back the right to the trial, or the circuit would stay half-open.
        if !self.was_reported {
            lock(self.cx).record_call_end(
                &self.tool,
                self.trial,
                CallReport::Nothing,
                clock::now(),
                Duration::ZERO,
            );
        }
    }
}

fn lock(cx: &TurnContext) -> MutexGuard<'_, ToolCircuits> {
    // The circuits are consistent after every statement, so a panic elsewhere does not spoil them.
    cx.services
        .statistics
        .circuits
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn open(tool: &str, remaining: Duration, failure: &str) -> String {
    let until = match remaining.as_secs_f64().ceil() {
        0.0 => "it is being retried now".to_owned(),
        seconds => format!("it will be retried in {seconds} s at the earliest"),
    };
    format!(
        "the tool {tool} was not run: it failed again and again in the same way ({failure}), so its circuit is open; \
         {until}. Do without it for now, or tell the user"
    )
}

/// What the `pre_tool` hooks said about a call.
pub(super) enum PreToolOutcome {
    /// It may run, possibly with new arguments from the named hooks.
    GoOn(Option<(Value, Vec<String>)>),
    /// It does not run.
    Blocked(Objection),
    /// It does not run, and the turn ends.
    Ended(Objection),
}

/// Runs the `pre_tool` hooks.
pub(super) async fn run_pre_tool_hooks(
    cx: &TurnContext,
    call: &ToolRun,
) -> Result<PreToolOutcome, TurnStopped> {
    if !cx.settings.hooks.has_hooks_for(HookMoment::PreTool) {
        return Ok(PreToolOutcome::GoOn(None));
    }
    let verdict = run_hooks(
        cx,
        HookMoment::PreTool,
        Some(call.name()),
        build_hook_fields(call),
        "input",
    )
    .await?;
    Ok(match verdict {
        HookVerdict::Pass { changed, by } => PreToolOutcome::GoOn(changed.map(|input| (input, by))),
        HookVerdict::Block(objection) => PreToolOutcome::Blocked(objection),
        HookVerdict::End(objection) => PreToolOutcome::Ended(objection),
    })
}

/// Runs the `post_tool` hooks, and appends what they say to the result. Returns the objection if one ended the turn.
pub(super) async fn run_post_tool_hooks(
    cx: &TurnContext,
    call: &ToolRun,
    result: &mut ToolResult,
) -> Result<Option<Objection>, TurnStopped> {
    if !cx.settings.hooks.has_hooks_for(HookMoment::PostTool) {
        return Ok(None);
    }
    let mut about = build_hook_fields(call);
    about.insert("output".to_owned(), result.text.clone().into());
    about.insert("isError".to_owned(), result.is_error.into());
    let verdict = run_hooks(cx, HookMoment::PostTool, Some(call.name()), about, "").await?;
    Ok(match verdict {
        HookVerdict::Pass { .. } => None,
        HookVerdict::Block(objection) => {
            append_note(result, &format_objection(&objection));
            None
        }
        HookVerdict::End(objection) => {
            append_note(result, &format_objection(&objection));
            Some(objection)
        }
    })
}

/// Returns what the model reads about a hook's objection.
pub(super) fn format_objection(objection: &Objection) -> String {
    format!("[the hook `{}` says: {}]", objection.hook, objection.words)
}

/// Appends a note to a result.
pub(super) fn append_note(result: &mut ToolResult, note: &str) {
    result.text.push_str("\n\n");
    result.text.push_str(note);
}

fn build_hook_fields(call: &ToolRun) -> Map<String, Value> {
    let mut about = Map::new();
    about.insert("toolCallId".to_owned(), call.id().as_str().into());
    about.insert("tool".to_owned(), call.name().into());
    about.insert(
        "input".to_owned(),
        call.requested_arguments().cloned().unwrap_or_default(),
    );
    about
}
