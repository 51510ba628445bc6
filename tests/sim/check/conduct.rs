//! Policies of a turn: bounds on hook objections, planning, reflection and the doom-loop guard.
//! Also checks tool circuits and how failure policies affect the end of a turn.

use super::Checker;
use super::memory::{ShownSession, ShownTurn};
use crate::coverage::TurnPhase;
use agentls::base::clock;
use agentls::config::{FailurePolicy, HookMoment};
use agentls::domain::{
    CircuitState, CircuitSubject, ContinueReason, Event, SessionId, TerminalReason, ToolCallId,
    ToolCallStatus, ToolCallUpdate, Transition, TurnEnd, TurnId, TurnState,
};
use agentls::turn::AgentPolicy;

/// How often stop hooks may object in one turn.
const MAX_OBJECTIONS: u32 = 3;
/// How many consecutive steps the doom-loop guard may hold back.
const MAX_HELD_BACK_STEPS: u32 = 3;

/// The policies that a world sets for its turns.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyRecord {
    pub(super) policies: AgentPolicy,
    /// The moments at which hooks run, one bit each; see `has_hooks`.
    pub(super) hooks_at: u8,
    /// A turn that reaches its limit may write a summary.
    pub(super) degrade: bool,
    /// Neither a slow client nor a failing disk delays events.
    pub(super) prompt: bool,
}

impl PolicyRecord {
    fn has_hooks(&self, on: HookMoment) -> bool {
        let bit = match on {
            HookMoment::Prompt => 0,
            HookMoment::PreTool => 1,
            HookMoment::PostTool => 2,
            HookMoment::Stop => 3,
        };
        self.hooks_at & (1 << bit) != 0
    }

    /// Whether a prompt hook may hold back user input: a turn may then complete and still return that input.
    pub(super) fn holds_back(&self) -> bool {
        self.has_hooks(HookMoment::Prompt)
    }
}

impl Checker {
    /// A hook of the turn starts.
    pub(crate) fn note_hook_run(&mut self, session: &SessionId, turn: &TurnId) {
        self.count_case("hook");
        let shown_session = self.sessions.get_mut(session);
        if let Some(known) = shown_session.and_then(|shown_session| shown_session.turns.get_mut(turn)) {
            known.hooks += 1;
            known.conditions.phase = TurnPhase::Hook;
        }
    }

    /// A hook of the turn ends.
    pub(crate) fn hook_ended(&mut self, session: &SessionId, turn: &TurnId) {
        let shown_session = self.sessions.get_mut(session);
        if let Some(known) = shown_session.and_then(|shown_session| shown_session.turns.get_mut(turn)) {
            known.hooks = known.hooks.saturating_sub(1);
        }
    }
}

impl Checker {
    /// A hook replaces a call's arguments.
    pub(crate) fn hook_changes(&mut self, call: &str, input: &serde_json::Value) {
        self.log_line(format!("a hook changes {call} to {input}"));
        self.by_hook
            .insert(ToolCallId::from(call.to_owned()), input.clone());
    }
}

impl ShownTurn {
    /// Checks a decision to continue against the policies.
    pub(super) fn check_continue(
        &mut self,
        decision: Transition,
        policy_record: PolicyRecord,
    ) -> Result<(), String> {
        let Transition::Continue(reason) = decision else {
            return Ok(());
        };
        let is_violation = match reason {
            ContinueReason::StopHookBlocking => {
                self.objections += 1;
                self.objections > MAX_OBJECTIONS || !policy_record.has_hooks(HookMoment::Stop)
            }
            ContinueReason::Planning => {
                let was_planned = std::mem::replace(&mut self.planned, true);
                was_planned || !policy_record.policies.planning || self.transitions > 1
            }
            ContinueReason::Reflection => match policy_record.policies.reflection {
                Some(every) => std::mem::take(&mut self.calls) < every,
                None => true,
            },
            _ => false,
        };
        if is_violation {
            return Err(format!("I13: the policies do not allow {} here", reason.name()));
        }
        self.held_back = if std::mem::take(&mut self.nudged) {
            self.held_back + 1
        } else {
            0
        };
        if self.held_back > MAX_HELD_BACK_STEPS {
            Err(format!(
                "I13: the doom-loop guard held back more than {MAX_HELD_BACK_STEPS} consecutive steps"
            ))
        } else {
            Ok(())
        }
    }
}

impl ShownSession {
    /// Records a change of a tool's circuit.
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

    /// R-TOOL-4: a call to a tool whose circuit is open does not run.
    pub(super) fn check_open_circuit(
        &mut self,
        turn: &TurnId,
        update: &ToolCallUpdate,
        policy_record: PolicyRecord,
    ) -> Result<(), String> {
        let known = self.turns.entry(turn.clone()).or_default();
        match update.status {
            ToolCallStatus::Pending => {
                let (open, now) = (known.circuits.get(&update.name), clock::wall_ms());
                // Sub-agents run in parallel: one call may start before another's failure and be shown after
                // it. If nothing delays events, that can only happen within the same virtual millisecond.
                let is_known = |opened_at| update.parent.is_none() || policy_record.prompt && opened_at < now;
                if open.is_some_and(|(opened_at, until)| now < *until && is_known(*opened_at)) {
                    known.barred.insert(update.id.clone(), update.name.clone());
                }
            }
            ToolCallStatus::Running if known.barred.contains_key(&update.id) => {
                return Err(format!(
                    "R-TOOL-4: {} ran while its tool's circuit was open",
                    update.id
                ));
            }
            // A sub-agent's calls count toward its own turn.
            _ if update.parent.is_some() => {}
            ToolCallStatus::Running => known.calls += 1,
            status if status.is_final() => {
                let result_text = update.result.as_ref().map_or("", |result| &result.text);
                known.nudged |= result_text.starts_with("Not run: this is what you did");
                // The call broke before it ran, but still counts as a failed call.
                let has_run = update.duration_ms.is_some();
                known.calls += u32::from(status == ToolCallStatus::Failed && !has_run);
                known.failed |= status == ToolCallStatus::Failed;
            }
            _ => {}
        }
        Ok(())
    }

    /// R-ERR-3: a turn's final state agrees with its failure policies.
    pub(super) fn state_fits(
        &self,
        turn: &TurnId,
        end: &TurnEnd,
        policy_record: PolicyRecord,
    ) -> Result<(), String> {
        let agent = &policy_record.policies;
        let policies = [agent.tool_failure, agent.tool_timeout, agent.subagent_failure];
        let has_policy = |policy| policies.contains(&policy);
        let failed = self.turns.get(turn).is_some_and(|known| known.failed);
        let usual = end.reason.to_turn_state(false);
        let degrades = has_policy(FailurePolicy::Degrade) && failed && end.state == usual.after_failure();
        let reason = match end.reason {
            TerminalReason::ToolFailed => has_policy(FailurePolicy::Fail) && failed,
            TerminalReason::SubagentFailed => agent.subagent_failure == FailurePolicy::Fail && failed,
            TerminalReason::JoinViolated => failed,
            TerminalReason::HookStopped => policy_record.hooks_at & 0b0111 != 0,
            TerminalReason::StopHookPrevented => policy_record.has_hooks(HookMoment::Stop),
            _ => true,
        };
        let limited = matches!(
            end.reason,
            TerminalReason::MaxTurns | TerminalReason::MaxToolCalls
        );
        let summed_up =
            policy_record.degrade && limited && end.state == TurnState::Degraded && end.error.is_none();
        if reason && (end.state == usual || degrades || summed_up) {
            Ok(())
        } else {
            Err(format!(
                "R-ERR-3: the policies do not allow {turn} to end with {end:?}"
            ))
        }
    }
}
