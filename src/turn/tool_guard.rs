//! What stands around each tool call: the circuit of its tool, and the `pre_tool` and `post_tool` hooks.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use super::circuit::{CallReport, CircuitChange, ToolAdmission, ToolCircuits};
use super::hooks::{HookVerdict, Objection, run};
use super::session_link::Stopped;
use super::{TurnContext, calls::ToolRun};
use crate::base::clock;
use crate::config::HookMoment;
use crate::domain::{CircuitState, CircuitSubject, Event, ToolResult};

/// A call's place at its tool's circuit. Dropped before it was told anything, it tells nothing.
pub(super) struct ToolCircuitGuard<'a> {
    cx: &'a TurnContext,
    tool: String,
    trial: bool,
    told: bool,
}

impl<'a> ToolCircuitGuard<'a> {
    /// Lets a call of `tool` through; an error is for the model.
    pub(super) async fn enter(cx: &'a TurnContext, tool: &str) -> Result<Result<Self, String>, Stopped> {
        let admitted = lock(cx).admit(tool, clock::now());
        let trial = match admitted {
            ToolAdmission::Go => false,
            ToolAdmission::Trial => true,
            ToolAdmission::Open { left, pattern } => return Ok(Err(open(tool, left, &pattern))),
        };
        let gate = Self {
            cx,
            tool: tool.to_owned(),
            trial,
            told: false,
        };
        if trial {
            gate.tell(CircuitState::HalfOpen, None).await?;
        }
        Ok(Ok(gate))
    }

    /// The call ended.
    pub(super) async fn ended(mut self, told: CallReport<'_>) -> Result<(), Stopped> {
        let cooldown = (self.cx.tool_cooldowns)(&self.tool);
        self.told = true;
        let change = lock(self.cx).ended(&self.tool, self.trial, told, clock::now(), cooldown);
        match change {
            None => Ok(()),
            Some(CircuitChange::Closed) => self.tell(CircuitState::Closed, None).await,
            Some(CircuitChange::Opened) => {
                let until = clock::wall_ms().saturating_add_unsigned(cooldown.as_millis() as u64);
                self.tell(CircuitState::Open, Some(until)).await
            }
        }
    }

    async fn tell(&self, state: CircuitState, until: Option<i64>) -> Result<(), Stopped> {
        let event = Event::Circuit {
            subject: CircuitSubject::Tool,
            name: self.tool.clone(),
            state,
            until,
        };
        self.cx.port.emit_late(event).await
    }
}

impl Drop for ToolCircuitGuard<'_> {
    fn drop(&mut self) {
        if !self.told {
            lock(self.cx).ended(
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
    // Whole after every statement: a panic elsewhere does not spoil it.
    cx.circuits.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(tool: &str, left: Duration, pattern: &str) -> String {
    let until = match left.as_secs_f64().ceil() {
        0.0 => "it is being retried now".to_owned(),
        seconds => format!("it will be retried in {seconds} s at the earliest"),
    };
    format!(
        "the tool {tool} was not run: it failed again and again in the same way ({pattern}), so its circuit is open; \
         {until}. Do without it for now, or tell the person"
    )
}

/// What the `pre_tool` hooks said of a call.
pub(super) enum PreToolOutcome {
    /// It may go on, maybe with other arguments, by these hooks.
    GoOn(Option<(Value, Vec<String>)>),
    /// It does not run.
    Blocked(Objection),
    /// It does not run, and the turn ends.
    Ended(Objection),
}

/// Asks the `pre_tool` hooks.
pub(super) async fn before(cx: &TurnContext, call: &ToolRun) -> Result<PreToolOutcome, Stopped> {
    if !cx.hooks.any(HookMoment::PreTool) {
        return Ok(PreToolOutcome::GoOn(None));
    }
    let verdict = run(cx, HookMoment::PreTool, Some(call.name()), about(call), "input").await?;
    Ok(match verdict {
        HookVerdict::Pass { changed, by } => PreToolOutcome::GoOn(changed.map(|input| (input, by))),
        HookVerdict::Block(objection) => PreToolOutcome::Blocked(objection),
        HookVerdict::End(objection) => PreToolOutcome::Ended(objection),
    })
}

/// Asks the `post_tool` hooks. What they say follows the result; `Some`: one ended the turn.
pub(super) async fn after(
    cx: &TurnContext,
    call: &ToolRun,
    result: &mut ToolResult,
) -> Result<Option<Objection>, Stopped> {
    if !cx.hooks.any(HookMoment::PostTool) {
        return Ok(None);
    }
    let mut about = about(call);
    about.insert("output".to_owned(), result.text.clone().into());
    about.insert("isError".to_owned(), result.is_error.into());
    let verdict = run(cx, HookMoment::PostTool, Some(call.name()), about, "").await?;
    Ok(match verdict {
        HookVerdict::Pass { .. } => None,
        HookVerdict::Block(objection) => {
            add(result, &said(&objection));
            None
        }
        HookVerdict::End(objection) => {
            add(result, &said(&objection));
            Some(objection)
        }
    })
}

/// What the model reads of a hook's objection.
pub(super) fn said(objection: &Objection) -> String {
    format!("[the hook `{}` says: {}]", objection.hook, objection.words)
}

/// Adds a note to a result.
pub(super) fn add(result: &mut ToolResult, note: &str) {
    result.text.push_str("\n\n");
    result.text.push_str(note);
}

fn about(call: &ToolRun) -> Map<String, Value> {
    let mut about = Map::new();
    about.insert("toolCallId".to_owned(), call.id().as_str().into());
    about.insert("tool".to_owned(), call.name().into());
    about.insert("input".to_owned(), call.asked().cloned().unwrap_or_default());
    about
}
