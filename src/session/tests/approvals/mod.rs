//! Approvals of tool calls: what asks, what an answer does, and how long it counts (I4, I9).

mod decisions;
mod effects;
mod grants;
mod rules;

use serde_json::{Value, json};

use super::mock_llm;
use super::scenario::{self, Client};
use crate::domain::*;

/// What the model reads after each denial.
const AFTER_DENIAL: &str =
    "\n[Do not reach the same end by other means. Go on with what else there is to do, or ask.]";

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
}

/// Returns an answer that allows the call with these arguments.
fn allow_with(input: Value) -> Decision {
    Decision {
        input: Some(input.into()),
        ..Decision::from_kind(DecisionKind::Allow)
    }
}

/// Returns the decision on the next question, and who made it.
fn next_resolution(client: &Client, session: &SessionId) -> (DecisionKind, ResolvedBy) {
    client.next(session, |event| match event {
        Event::ApprovalResolved { decision, by, .. } => Some((decision.kind, *by)),
        _ => None,
    })
}
