//! What tools do: I8 (nothing of a turn after its end) and I9 (nothing before its decision).

use super::Checker;
use super::events::policy_allows;
use super::seen::{ShownCallState, ShownSession, is_permission};
use crate::tools;
use agentls::base::sim_schedule;
use agentls::domain::{SessionId, ToolCallId, ToolCallStatus};

impl Checker {
    /// A tool begins to act. What is shown may lag behind, so that an unknown call is no fault.
    pub(crate) fn effect_begins(
        &mut self,
        session: &SessionId,
        call: &ToolCallId,
        name: &str,
        how: &str,
        patient: bool,
    ) {
        if sim_schedule::is_frozen() {
            return;
        }
        self.log_line(format!("effect {call} {name} {how}"));
        let hand = ShownCallState {
            session: session.clone(),
            patient,
        };
        if self.in_hand.insert(call.clone(), hand).is_some() {
            return self.record_violation(format!("{call} runs twice at once"));
        }
        let Some(seen) = self.sessions.get(session) else {
            return self.record_violation(format!("{call} of {session}, which is not there"));
        };
        let checked = seen
            .may_begin(call, (name, how), self.by_hook.get(call), &self.folder_rules)
            .and_then(|()| seen.is_alive(call));
        if let Err(why) = checked {
            self.record_violation(why);
        }
    }

    /// A tool acts on.
    pub(crate) fn effect_goes_on(&mut self, session: &SessionId, call: &ToolCallId) {
        if sim_schedule::is_frozen() {
            return;
        }
        let alive = self.sessions.get(session).map(|seen| seen.is_alive(call));
        if let Some(Err(why)) = alive {
            self.record_violation(why);
        }
    }

    /// A tool has ended or was dropped.
    pub(crate) fn effect_ended(&mut self, call: &ToolCallId) {
        if !sim_schedule::is_frozen() {
            self.in_hand.remove(call);
        }
    }
}

impl ShownSession {
    fn may_begin(
        &self,
        call: &ToolCallId,
        (name, how): (&str, &str),
        by_hook: Option<&serde_json::Value>,
        folder_rules: &[String],
    ) -> Result<(), String> {
        let asked = || self.approvals.values().filter(|asked| asked.call == *call);
        if asked().any(|asked| {
            asked
                .accepted
                .as_ref()
                .is_some_and(|first| !is_permission(first.kind))
        }) {
            return Err(format!("I9: {call} runs, which the user has denied"));
        }
        let effect = tools::declared_effect(name, crate::simulation::FOLDER.as_ref());
        let mut modes = self.modes.iter().chain(&self.unconfirmed);
        let rules = [&self.rules_sent, folder_rules].concat();
        let tainted = self.calls.get(call).is_some_and(|call| call.tainted);
        let by_policy = modes.any(|mode| policy_allows(*mode, &rules, tainted, name, &effect));
        if !by_policy && !asked().any(|asked| asked.allow_sent()) {
            return Err(format!("I9: {call} ({name}) runs and nobody has allowed it"));
        }
        let Some(known) = self.calls.get(call) else {
            return Ok(());
        };
        let wants = |input: &serde_json::Value| input.get("how").and_then(|how| how.as_str()) == Some(how);
        let edited = || {
            asked()
                .flat_map(|asked| &asked.sent)
                .filter_map(|sent| sent.input.as_ref())
        };
        if known.name != name
            || !(wants(&known.input) || by_hook.is_some_and(wants) || edited().any(|input| wants(input)))
        {
            return Err(format!(
                "I9: {call} runs with arguments that nobody gave: {name} {how}"
            ));
        }
        Ok(())
    }

    /// Its turn runs, or it waited for an answer over its turn's end.
    fn is_alive(&self, call: &ToolCallId) -> Result<(), String> {
        let Some(known) = self.calls.get(call) else {
            return Ok(());
        };
        let over = self.turns.get(&known.turn).is_some_and(|turn| turn.ended);
        if over && known.status != Some(ToolCallStatus::AwaitingApproval) {
            Err(format!("I8: {call} acts after the end of {}", known.turn))
        } else {
            Ok(())
        }
    }
}
