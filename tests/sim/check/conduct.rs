//! How turns conduct themselves: bounds of the rows that hooks, planning, reflection and the doom-loop guard have;
//! circuits of tools; what policies make of failures.

use super::Checker;
use super::seen::{ShownSession, ShownTurn};
use crate::coverage::TurnPhase;
use agentls::base::clock;
use agentls::config::{FailurePolicy, HookMoment};
use agentls::domain::{
    CircuitState, CircuitSubject, ContinueReason, Event, SessionId, TerminalReason, ToolCallId,
    ToolCallStatus, ToolCallUpdate, Transition, TurnEnd, TurnId, TurnState,
};
use agentls::turn::AgentPolicy;

/// So often a stop hook may object in one turn.
const OBJECTIONS: u32 = 3;
/// So many steps in a row the doom-loop guard may hold back.
const HELD_BACK: u32 = 3;

/// What a world's turns may do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PolicyRecord {
    pub(super) conducts: AgentPolicy,
    /// At which moments hooks run, as bits in the order of the moments' names.
    pub(super) hooks_at: u8,
    /// A turn at its limit may sum up.
    pub(super) degrade: bool,
    /// Neither a slow client nor a failing disk holds up what is shown.
    pub(super) prompt: bool,
}

impl PolicyRecord {
    fn has_hooks(self, on: HookMoment) -> bool {
        let bit = match on {
            HookMoment::Prompt => 0,
            HookMoment::PreTool => 1,
            HookMoment::PostTool => 2,
            HookMoment::Stop => 3,
        };
        self.hooks_at & (1 << bit) != 0
    }

    /// Whether what was said may be held back, so that a turn ends well and gives it back.
    pub(super) fn holds_back(self) -> bool {
        self.has_hooks(HookMoment::Prompt)
    }
}

impl Checker {
    /// A hook of the turn runs.
    pub(crate) fn note_hook_run(&mut self, session: &SessionId, turn: &TurnId) {
        self.count_case("hook");
        let seen = self.sessions.get_mut(session);
        if let Some(known) = seen.and_then(|seen| seen.turns.get_mut(turn)) {
            known.hooks += 1;
            known.met.phase = TurnPhase::Hook;
        }
    }

    /// It runs no more.
    pub(crate) fn hook_ended(&mut self, session: &SessionId, turn: &TurnId) {
        let seen = self.sessions.get_mut(session);
        if let Some(known) = seen.and_then(|seen| seen.turns.get_mut(turn)) {
            known.hooks = known.hooks.saturating_sub(1);
        }
    }
}

impl Checker {
    /// A hook changes a call's arguments.
    pub(crate) fn hook_changes(&mut self, call: &str, input: &serde_json::Value) {
        self.log_line(format!("a hook changes {call} to {input}"));
        self.by_hook
            .insert(ToolCallId::from(call.to_owned()), input.clone());
    }
}

impl ShownTurn {
    /// A continue of the loop.
    pub(super) fn check_continue(
        &mut self,
        decision: Transition,
        manners: PolicyRecord,
    ) -> Result<(), String> {
        let Transition::Continue(reason) = decision else {
            return Ok(());
        };
        let wrong = match reason {
            ContinueReason::StopHookBlocking => {
                self.objections += 1;
                self.objections > OBJECTIONS || !manners.has_hooks(HookMoment::Stop)
            }
            ContinueReason::Planning => {
                let again = std::mem::replace(&mut self.planned, true);
                again || !manners.conducts.planning || self.transitions > 1
            }
            ContinueReason::Reflection => match manners.conducts.reflection {
                Some(every) => std::mem::take(&mut self.calls) < every,
                None => true,
            },
            _ => false,
        };
        if wrong {
            return Err(format!("I13: {} where it may not be", reason.name()));
        }
        self.held_back = if std::mem::take(&mut self.nudged) {
            self.held_back + 1
        } else {
            0
        };
        if self.held_back > HELD_BACK {
            Err("I13: calls are held back for ever".to_owned())
        } else {
            Ok(())
        }
    }
}

impl ShownSession {
    /// A circuit changes.
    pub(super) fn track_circuit(&mut self, turn: &TurnId, event: &Event) {
        let Event::Circuit {
            subject: CircuitSubject::Tool,
            name,
            state,
            until,
        } = event
        else {
            return;
        };
        let known = self.turns.entry(turn.clone()).or_default();
        match (state, until) {
            (CircuitState::Open, Some(until)) => {
                known.circuits.insert(name.clone(), (clock::wall_ms(), *until));
            }
            (CircuitState::Open, None) | (CircuitState::Closed | CircuitState::HalfOpen, _) => {
                known.circuits.remove(name);
                known.barred.retain(|_, tool| tool != name);
            }
        }
    }

    /// R-TOOL-4: what is asked of a tool whose circuit is open does not run.
    pub(super) fn check_open_circuit(
        &mut self,
        turn: &TurnId,
        update: &ToolCallUpdate,
        manners: PolicyRecord,
    ) -> Result<(), String> {
        let known = self.turns.entry(turn.clone()).or_default();
        match update.status {
            ToolCallStatus::Pending => {
                let (open, now) = (known.circuits.get(&update.name), clock::wall_ms());
                // Sub-agents work side by side: one's call may have begun before another's failed, and be shown after
                // it; but not later than in the same moment, where nothing holds up what is shown.
                let knows = |told| update.parent.is_none() || manners.prompt && told < now;
                if open.is_some_and(|(told, until)| now < *until && knows(*told)) {
                    known.barred.insert(update.id.clone(), update.name.clone());
                }
            }
            ToolCallStatus::Running if known.barred.contains_key(&update.id) => {
                return Err(format!("R-TOOL-4: {} runs though its circuit is open", update.id));
            }
            // A sub-agent's calls are its own turn's.
            _ if update.parent.is_some() => {}
            ToolCallStatus::Running => known.calls += 1,
            status if status.is_final() => {
                let said = update.result.as_ref().map_or("", |result| &result.text);
                known.nudged |= said.starts_with("Not run: this is what you did");
                // Broken before it ran: a call that failed all the same.
                let ran = update.duration_ms.is_some();
                known.calls += u32::from(status == ToolCallStatus::Failed && !ran);
                known.failed |= status == ToolCallStatus::Failed;
            }
            _ => {}
        }
        Ok(())
    }

    /// R-ERR-3: a turn is as good as its policies let it be.
    pub(super) fn state_fits(
        &self,
        turn: &TurnId,
        end: &TurnEnd,
        manners: PolicyRecord,
    ) -> Result<(), String> {
        let conducts = manners.conducts;
        let policies = [
            conducts.tool_failure,
            conducts.tool_timeout,
            conducts.subagent_failure,
        ];
        let has = |policy| policies.contains(&policy);
        let failed = self.turns.get(turn).is_some_and(|known| known.failed);
        let usual = end.reason.to_turn_state(false);
        let degrades = has(FailurePolicy::Degrade) && failed && end.state == usual.after_failure();
        let reason = match end.reason {
            TerminalReason::ToolFailed => has(FailurePolicy::Fail) && failed,
            TerminalReason::SubagentFailed => conducts.subagent_failure == FailurePolicy::Fail && failed,
            TerminalReason::JoinViolated => failed,
            TerminalReason::HookStopped => manners.hooks_at & 0b0111 != 0,
            TerminalReason::StopHookPrevented => manners.has_hooks(HookMoment::Stop),
            _ => true,
        };
        let limited = matches!(
            end.reason,
            TerminalReason::MaxTurns | TerminalReason::MaxToolCalls
        );
        let summed_up = manners.degrade && limited && end.state == TurnState::Degraded && end.error.is_none();
        if reason && (end.state == usual || degrades || summed_up) {
            Ok(())
        } else {
            Err(format!("R-ERR-3: {turn} cannot end so: {end:?}"))
        }
    }
}
