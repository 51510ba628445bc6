//! The limit of a turn's tool calls (R-BUDGET): which calls of a step may run, and what the others mean for the turn.

use super::calls::run_calls;
use super::context::TurnContext;
use super::outcome::StepOutcome;
use super::session_link::{LimitAnswer, TurnStopped};
use super::tool_run::ToolRun;
use super::transition::{Limit, Outcome};
use crate::domain::{AgentError, ErrorCode, LimitName, LimitReached};

/// The calls of a step that may run, those that may not, and what that means for the turn.
pub(super) struct LimitApproval {
    pub(super) run: Vec<ToolRun>,
    refused: Vec<ToolRun>,
    end: Option<StepOutcome>,
}

/// Applies the tool-call limit to a step's calls (R-BUDGET). Asks the user if the limit is reached.
pub(super) async fn apply_tool_call_limit(
    cx: &TurnContext,
    mut calls: Vec<ToolRun>,
) -> Result<LimitApproval, TurnStopped> {
    loop {
        if cx.services.budget.take_tool_calls(calls.len()).is_ok() {
            return Ok(LimitApproval::allow_all(calls));
        }
        let _asking = cx
            .link
            .pause_clock_during(cx.services.budget.lock_limit_prompt())
            .await?;
        // Another part of the turn may have raised the limit meanwhile.
        let Err(remaining) = cx.services.budget.take_tool_calls(calls.len()) else {
            return Ok(LimitApproval::allow_all(calls));
        };
        let most = cx.settings.limits.max_tool_calls.unwrap_or_default();
        let reached = LimitReached {
            limit: LimitName::ToolCalls,
            used: u64::from(most).saturating_add(calls.len() as u64) - remaining as u64,
            most: u64::from(most),
            provider: None,
            model: None,
            message: format!("the turn has used its {most} tool calls"),
        };
        let (end, may) = match cx.link.ask_about_limit(reached.clone()).await? {
            LimitAnswer::Raised(by) => {
                cx.services.budget.raise_limit(LimitName::ToolCalls, by);
                continue;
            }
            LimitAnswer::Stop => (StepOutcome::stopped_at(reached.limit.name()), 0),
            LimitAnswer::Accepted | LimitAnswer::Holds => {
                // The calls that still fit run; only the rest is refused.
                (
                    tool_calls_used_up(most),
                    cx.services.budget.take_up_to(calls.len()),
                )
            }
        };
        let refused = calls.split_off(may);
        return Ok(LimitApproval {
            run: calls,
            refused,
            end: Some(end),
        });
    }
}

impl LimitApproval {
    fn allow_all(calls: Vec<ToolRun>) -> Self {
        Self {
            run: calls,
            refused: Vec::new(),
            end: None,
        }
    }

    /// Answers the calls that did not run. Returns the step's outcome if the limit decides it.
    pub(super) async fn settle_denied_calls(
        self,
        cx: &TurnContext,
    ) -> Result<Option<StepOutcome>, TurnStopped> {
        if !self.refused.is_empty() {
            run_calls(
                cx,
                self.refused,
                Some("Not run: the limit of tool calls is reached"),
            )
            .await?;
        }
        Ok(self.end)
    }
}

fn tool_calls_used_up(most: u32) -> StepOutcome {
    let error = AgentError::new(
        ErrorCode::ToolCallsExceeded,
        format!("reached {most} tool calls without completion"),
    )
    .with_user_action("send a prompt to continue, or raise max_tool_calls in the configuration");
    StepOutcome::from_failure(Outcome::LimitReached(Limit::ToolCalls), error)
}
