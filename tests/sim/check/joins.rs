//! Results of sub-agents (R-SUB): a `delegate` call ends as its join requires, given the ends that its result
//! lists. Also fills the coverage table of joins and ends.

use super::Checker;
use super::memory::ShownCall;
use crate::joins::JoinOutcome;
use agentls::domain::{SessionId, ToolCallStatus, ToolCallUpdate};
use agentls::tool::delegate::Delegate;
use agentls::tool::{ChildState, Tool};

impl Checker {
    pub(super) fn joined_agents(
        &mut self,
        session: &SessionId,
        update: &ToolCallUpdate,
    ) -> Result<(), String> {
        let Some(result) = update.result.as_ref().filter(|_| update.name == Delegate::NAME) else {
            return Ok(());
        };
        let ends = ChildState::ALL.map(|state| result.text.matches(&format!(": {}", state.name())).count());
        let (join, outcome) = match result.text.split_once("; ") {
            _ if update.status == ToolCallStatus::Cancelled => ("cancelled", Some(JoinOutcome::Cancelled)),
            Some((_, rest)) if rest.starts_with("all of them were required") => {
                ("one failed of all", Some(JoinOutcome::Failed))
            }
            Some((_, rest)) if rest.starts_with("that is too few") => {
                ("violated", Some(JoinOutcome::Violated))
            }
            _ if update.status == ToolCallStatus::Completed => ("met", Some(JoinOutcome::Met)),
            _ => ("refused, or its only one failed", None),
        };
        let calls = self
            .sessions
            .get(session)
            .map(|shown_session| &shown_session.calls);
        let call = calls.and_then(|calls| calls.get(&update.id));
        // A sub-agent's answer may list the ends of its own sub-agents. Then the counts are ambiguous, so no
        // check applies.
        let reported_ends: usize = ends.iter().sum();
        let tasks = |call: &ShownCall| call.input["tasks"].as_array().map_or(1, Vec::len);
        let requested_join = call
            .filter(|call| reported_ends == tasks(call))
            .map(|call| call.input["join"].as_str().unwrap_or("all_required").to_owned());
        if let (Some(outcome), Some(requested_join)) = (outcome, &requested_join) {
            self.joins.count_join(requested_join, outcome, ends);
        }
        let depth = if update.parent.is_some() {
            "delegate below"
        } else {
            "delegate"
        };
        self.count_case(format!("{depth}: {join}"));
        for (state, times) in ChildState::ALL.into_iter().zip(ends) {
            self.count_many(
                &format!("sub-agent {} in a call that is {join}", state.name()),
                times,
            );
        }
        match (update.status, requested_join) {
            (ToolCallStatus::Completed | ToolCallStatus::Failed, Some(requested_join)) => {
                let is_met = update.status == ToolCallStatus::Completed;
                check_join(&requested_join, ends, is_met)
                    .map_err(|violation| format!("R-SUB: {}: {violation}", update.id))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that `is_met` is correct for a call with this join and these ends of its sub-agents.
fn check_join(join: &str, ends: [usize; ChildState::ALL.len()], is_met: bool) -> Result<(), String> {
    let all: usize = ends.iter().sum();
    let succeeded = |(state, times): (ChildState, usize)| match state {
        ChildState::Completed | ChildState::Degraded => times,
        ChildState::Failed | ChildState::TimedOut | ChildState::Cancelled | ChildState::Stopped => 0,
    };
    let succeeded: usize = ChildState::ALL.into_iter().zip(ends).map(succeeded).sum();
    let needed = match join.trim() {
        "all_required" => all,
        "allow_failures" => 0,
        "first_success" => 1,
        quorum => {
            let number = quorum.trim_start_matches("quorum(").trim_end_matches(')');
            number
                .parse()
                .map_err(|_| format!("the unknown join {quorum} was accepted"))?
        }
    };
    if (succeeded >= needed) == is_met {
        Ok(())
    } else {
        Err(format!(
            "join {join}: {succeeded} of {all} sub-agents succeeded, but the call reports met = {is_met}"
        ))
    }
}
