//! Tool effects: I8 (no effect of a turn after its end) and I9 (no effect before its approval).

use super::Checker;
use super::events::policy_allows;
use super::memory::{ShownCallState, ShownSession, is_permission};
use crate::tools;
use agentls::base::sim_schedule;
use agentls::domain::{SessionId, ToolCallId, ToolCallStatus};

impl Checker {
    /// A tool starts to act. Events may lag behind the effect, so an unknown call is not a violation.
    pub(crate) fn effect_begins(
        &mut self,
        session: &SessionId,
        call: &ToolCallId,
        name: &str,
        ending: &str,
        patient: bool,
    ) {
        if sim_schedule::is_frozen() {
            return;
        }
        self.log_line(format!("effect {call} {name} {ending}"));
        let call_state = ShownCallState {
            session: session.clone(),
            patient,
        };
        if self.in_hand.insert(call.clone(), call_state).is_some() {
            return self.record_violation(format!("{call} runs twice at the same time"));
        }
        let Some(shown_session) = self.sessions.get(session) else {
            return self.record_violation(format!("{call} runs for the unknown session {session}"));
        };
        let checked = shown_session
            .may_begin(call, (name, ending), self.by_hook.get(call), &self.folder_rules)
            .and_then(|()| shown_session.is_alive(call));
        if let Err(violation) = checked {
            self.record_violation(violation);
        }
    }

    /// A tool continues to act.
    pub(crate) fn effect_goes_on(&mut self, session: &SessionId, call: &ToolCallId) {
        if sim_schedule::is_frozen() {
            return;
        }
        let alive = self
            .sessions
            .get(session)
            .map(|shown_session| shown_session.is_alive(call));
        if let Some(Err(violation)) = alive {
            self.record_violation(violation);
        }
    }

    /// A tool ended or was dropped.
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
        (name, ending): (&str, &str),
        by_hook: Option<&serde_json::Value>,
        folder_rules: &[String],
    ) -> Result<(), String> {
        let questions = || self.approvals.values().filter(|question| question.call == *call);
        if questions().any(|question| {
            question
                .accepted
                .as_ref()
                .is_some_and(|first| !is_permission(first.kind))
        }) {
            return Err(format!("I9: {call} runs although the user denied it"));
        }
        let effect = tools::declared_effect(name, crate::simulation::FOLDER.as_ref());
        let mut modes = self.modes.iter().chain(&self.unconfirmed);
        let rules = [&self.rules_sent, folder_rules].concat();
        let foreign = self.calls.get(call).map(|call| call.foreign.clone());
        let foreign = foreign.unwrap_or_default();
        let by_policy = modes.any(|mode| policy_allows(*mode, &rules, &foreign, name, &effect));
        if !by_policy && !questions().any(|question| question.allow_sent()) {
            return Err(format!(
                "I9: {call} ({name}) runs although neither the user nor a rule allowed it"
            ));
        }
        let Some(known) = self.calls.get(call) else {
            return Ok(());
        };
        let matches_how =
            |input: &serde_json::Value| input.get("how").and_then(|value| value.as_str()) == Some(ending);
        let edited = || {
            questions()
                .flat_map(|question| &question.sent)
                .filter_map(|sent| sent.input.as_ref())
        };
        if known.name != name
            || !(matches_how(&known.input)
                || by_hook.is_some_and(matches_how)
                || edited().any(|input| matches_how(input)))
        {
            return Err(format!(
                "I9: {call} runs with arguments from neither the model, a hook nor the user: {name} {ending}"
            ));
        }
        Ok(())
    }

    /// Its turn is running, or the call was still waiting for approval when its turn ended.
    fn is_alive(&self, call: &ToolCallId) -> Result<(), String> {
        let Some(known) = self.calls.get(call) else {
            return Ok(());
        };
        let has_ended = self.turns.get(&known.turn).is_some_and(|turn| turn.ended);
        if has_ended && known.status != Some(ToolCallStatus::AwaitingApproval) {
            Err(format!("I8: {call} acts after its turn {} ended", known.turn))
        } else {
            Ok(())
        }
    }
}
