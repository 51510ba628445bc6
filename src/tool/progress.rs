//! What a running tool reports to the turn. Plain values.

use crate::domain::PlanItem;

/// What a tool reports while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolProgress {
    /// Live output, raw.
    Output(String),
    /// The complete plan.
    Plan(Vec<PlanItem>),
    /// A question of an MCP server was declined. The text is for the user.
    QuestionDeclined(String),
    /// The same, because nobody can answer it here. Once for each server and turn is enough.
    QuestionUnheard { server: String, message: String },
}

/// The turn has ended, so progress has no receiver any more.
#[derive(Debug, thiserror::Error)]
#[error("the turn has ended")]
pub struct OutputClosed;
