//! What came of sub-agents (R-SUB): whether a call of `delegate` ends as its join says, counted by the ends that its result
//! tells; and the table of joins and ends.

use super::Checker;
use super::seen::ShownCall;
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
        let (join, joined) = match result.text.split_once("; ") {
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
        let calls = self.sessions.get(session).map(|seen| &seen.calls);
        let call = calls.and_then(|calls| calls.get(&update.id));
        // What a sub-agent said may tell of its own ones too: then nobody knows whose ends these are.
        let told: usize = ends.iter().sum();
        let tasks = |call: &ShownCall| call.input["tasks"].as_array().map_or(1, Vec::len);
        let asked = call
            .filter(|call| told == tasks(call))
            .map(|call| call.input["join"].as_str().unwrap_or("all_required").to_owned());
        if let (Some(joined), Some(asked)) = (joined, &asked) {
            self.joins.came_to(asked, joined, ends);
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
        match (update.status, asked) {
            (ToolCallStatus::Completed | ToolCallStatus::Failed, Some(asked)) => {
                let met = update.status == ToolCallStatus::Completed;
                check_join(&asked, ends, met).map_err(|why| format!("R-SUB: {}: {why}", update.id))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a call with this join, whose sub-agents ended so, is rightly `met` or not.
fn check_join(join: &str, ends: [usize; ChildState::ALL.len()], met: bool) -> Result<(), String> {
    let all: usize = ends.iter().sum();
    let well = |(state, times): (ChildState, usize)| match state {
        ChildState::Completed | ChildState::Degraded => times,
        ChildState::Failed | ChildState::TimedOut | ChildState::Cancelled | ChildState::Stopped => 0,
    };
    let well: usize = ChildState::ALL.into_iter().zip(ends).map(well).sum();
    let needed = match join.trim() {
        "all_required" => all,
        "allow_failures" => 0,
        "first_success" => 1,
        quorum => {
            let number = quorum.trim_start_matches("quorum(").trim_end_matches(')');
            number.parse().map_err(|_| format!("{quorum} was run"))?
        }
    };
    if (well >= needed) == met {
        Ok(())
    } else {
        Err(format!("{join}: {well} of {all} did well, and it is met: {met}"))
    }
}
