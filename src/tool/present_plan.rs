//! `present_plan`: asks the user to approve a finished plan, and so to end plan mode.
//!
//! Only asks and tells the model the answer. It must not set the mode: the session does, when the user's own answer to
//! the question of this tool names one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::output::refuse_input;
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::text::strip_control_characters;
use crate::domain::{
    AgentQuestion, Answers, Effect, FieldChoice, InquiryReply, Mode, QuestionField, SandboxPolicy,
};

/// Longest plan, in characters.
const MAX_PLAN: usize = 12_000;
/// Name of the only field in the reply.
const ANSWER: &str = "answer";
/// The choice that keeps plan mode.
const KEEP: &str = "keep";

/// The `present_plan` tool.
pub struct PresentPlan;

/// The arguments of `present_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PresentPlanInput {
    /// The whole plan, in Markdown: what changes in which files, in which order, and how it is checked.
    plan: String,
}

impl Tool for PresentPlan {
    type Input = PresentPlanInput;

    const NAME: &'static str = "present_plan";

    const DESCRIPTION: &'static str = "Only in plan mode: shows the user your finished plan and asks whether to carry \
        it out. Their answer alone ends plan mode.";

    /// None: people take their time.
    const TIMEOUT: Option<Duration> = None;

    fn call_title(&self, _: &PresentPlanInput) -> String {
        "Present the plan".to_owned()
    }

    fn predict_effect(&self, _: &PresentPlanInput, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, input: PresentPlanInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        // Plan mode is the only one with this policy. If the user has approved the plan while the turn was interrupted,
        // it is off already, and the answer waits.
        if !cx.is_carried && cx.sandbox.policy != SandboxPolicy::ReadOnly {
            return refuse_input("plan mode is off, so there is nothing to approve; go on with the work");
        }
        if input.plan.trim().is_empty() || input.plan.chars().count() > MAX_PLAN {
            return refuse_input(format!("the plan must have from 1 to {MAX_PLAN} characters"));
        }
        let reply = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            reply = cx.asker.request_reply(build_question(&input, &cx)) => reply,
        };
        Ok(ToolOutput::text(match reply {
            Some(InquiryReply::Answers(answers)) => match (chosen_mode(&answers), answers.get(ANSWER)) {
                (Some(mode), _) => {
                    format!("The user approved the plan and chose the mode {mode}. Carry the plan out.")
                }
                (None, Some(words)) if !words.iter().any(|word| word == KEEP) => format!(
                    "The user did not approve the plan and says: {}\nPlan mode stays on. Revise the plan and present \
                     it again.",
                    words.join("\n")
                ),
                (None, _) => {
                    "The user did not approve the plan yet. Plan mode stays on. Ask what is missing, or look \
                              further and present the plan again."
                        .to_owned()
                }
            },
            Some(
                InquiryReply::Dismissed | InquiryReply::Stop | InquiryReply::Accept | InquiryReply::Raise(_),
            ) => "The user did not answer. Plan mode stays on. End with the plan as your last message."
                .to_owned(),
            None => {
                "Nobody can be asked here, so plan mode stays on. End with the plan as your last message."
                    .to_owned()
            }
        }))
    }
}

/// Returns the mode that an answer to the question of this tool chooses; `None` if plan mode stays on.
pub fn chosen_mode(answers: &Answers) -> Option<Mode> {
    match answers.get(ANSWER)?.first()?.as_str() {
        "autoEdit" => Some(Mode::AutoEdit),
        "ask" => Some(Mode::Ask),
        _ => None,
    }
}

fn build_question(input: &PresentPlanInput, cx: &ToolContext) -> AgentQuestion {
    let choice = |value: &str, label: &str| FieldChoice {
        value: value.to_owned(),
        label: label.to_owned(),
    };
    AgentQuestion {
        url: None,
        tool_call: Some(cx.call.clone()),
        text: "The plan is ready. Carry it out?".to_owned(),
        detail: Some(strip_control_characters(&input.plan).into_owned()),
        fields: vec![QuestionField {
            name: ANSWER.to_owned(),
            choices: vec![
                choice(Mode::AutoEdit.name(), "Yes, edit freely"),
                choice(Mode::Ask.name(), "Yes, ask before each edit"),
                choice(KEEP, "No, keep planning"),
            ],
            // What the user writes instead is for the next version of the plan.
            free: true,
            required: true,
            ..QuestionField::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    #[test]
    fn only_an_approval_chooses_a_mode() {
        for (answer, mode) in [
            ("autoEdit", Some(Mode::AutoEdit)),
            ("ask", Some(Mode::Ask)),
            ("keep", None),
            ("full", None),
            ("ask me later", None),
        ] {
            let answers = Answers::from([(ANSWER.to_owned(), vec![answer.to_owned()])]);
            assert_eq!(chosen_mode(&answers), mode, "{answer}");
        }
    }

    #[tokio::test]
    async fn outside_of_plan_mode_there_is_nothing_to_approve() {
        let harness = ToolHarness::new();
        let error = harness
            .call_expecting_error("present_plan", json!({"plan": "1. x"}))
            .await;
        assert!(error.contains("plan mode is off"), "{error}");
    }
}
