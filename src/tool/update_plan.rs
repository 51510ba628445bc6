//! `update_plan`: shows the complete plan to the user. Must not store it; the turn does.

use schemars::JsonSchema;
use serde::Deserialize;

use super::output::refuse_input;
use super::{Tool, ToolContext, ToolError, ToolOutput, ToolProgress};
use crate::base::text::one_line;
use crate::domain::{Effect, PlanItem, PlanStatus};

const MAX_ITEMS: usize = 100;
/// Longest text of an item, in characters.
const MAX_TEXT: usize = 500;

/// The `update_plan` tool.
pub struct UpdatePlan;

/// The arguments of `update_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdatePlanInput {
    /// The whole plan in order; it replaces the one before.
    items: Vec<PlanEntry>,
}

/// One item of the plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEntry {
    /// What is to be done, in one short line.
    text: String,
    /// How far it is. Usually only one item is `in_progress`.
    status: Status,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not begun.
    Pending,
    /// Being worked on; usually only one is.
    InProgress,
    /// Done.
    Completed,
}

impl Tool for UpdatePlan {
    type Input = UpdatePlanInput;

    const NAME: &'static str = "update_plan";

    const DESCRIPTION: &'static str = "Shows the user your plan for work of several steps, and how far it \
        is. Give the whole plan each time; call it again when an item is begun or done. Not needed for \
        simple tasks.";

    fn call_title(&self, input: &UpdatePlanInput) -> String {
        let done = input
            .items
            .iter()
            .filter(|item| item.status == Status::Completed)
            .count();
        format!("Plan: {done} of {} done", input.items.len())
    }

    fn predict_effect(&self, _: &UpdatePlanInput, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, input: UpdatePlanInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        if input.items.len() > MAX_ITEMS {
            return refuse_input(format!(
                "a plan has at most {MAX_ITEMS} items, got {}",
                input.items.len()
            ));
        }
        let plan = input.items.into_iter().map(PlanItem::from).collect();
        let sent = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            sent = cx.send_progress(ToolProgress::Plan(plan)) => sent,
        };
        // A closed channel means that the turn has ended.
        sent.map_err(|_| ToolError::Cancelled)?;
        Ok(ToolOutput::text("the plan is shown"))
    }
}

impl From<PlanEntry> for PlanItem {
    fn from(item: PlanEntry) -> Self {
        Self {
            text: one_line(&item.text, MAX_TEXT),
            status: match item.status {
                Status::Pending => PlanStatus::Pending,
                Status::InProgress => PlanStatus::InProgress,
                Status::Completed => PlanStatus::Completed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    #[tokio::test]
    async fn the_complete_plan_is_reported() {
        let mut harness = ToolHarness::new();
        let items = json!({"items": [
            {"text": "look\nround", "status": "completed"}, {"text": "act", "status": "in_progress"}]});
        harness.call_tool("update_plan", items).await.unwrap();
        let item = |text: &str, status| PlanItem {
            text: text.to_owned(),
            status,
        };
        assert_eq!(
            harness.progress.try_recv().unwrap(),
            ToolProgress::Plan(vec![
                item("look round", PlanStatus::Completed),
                item("act", PlanStatus::InProgress)
            ])
        );
        let many: Vec<_> = (0..=MAX_ITEMS)
            .map(|_| json!({"text": "x", "status": "pending"}))
            .collect();
        assert!(
            harness
                .call_expecting_error("update_plan", json!({"items": many}))
                .await
                .contains("at most 100 items")
        );
        // After the end of the turn, nobody receives the plan.
        harness.progress.close();
        assert_eq!(
            harness
                .call_expecting_error("update_plan", json!({"items": []}))
                .await,
            "canceled"
        );
    }
}
