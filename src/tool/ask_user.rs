//! `ask_user`: asks the user a question, if the client supports questions.
//!
//! Checks the question and formats the reply. Must not know how the client asks; [`super::UserPrompt`] does.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::files::format_title;
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::text::strip_control_characters;
use crate::domain::{AgentQuestion, Effect, FieldChoice, InquiryReply, QuestionField};

/// Longest question and longest detail, in characters.
const MAX_TEXT: usize = 4_000;
/// Longest choice, in characters.
const MAX_CHOICE: usize = 200;
/// Most choices of a question.
const MAX_CHOICES: usize = 10;
/// Name of the only field in the reply.
const ANSWER: &str = "answer";

/// The `ask_user` tool.
pub struct AskUser;

/// The arguments of `ask_user`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskUserInput {
    /// The question, in one or two sentences.
    question: String,
    /// What the user should know to decide.
    #[serde(default)]
    detail: Option<String>,
    /// Up to 10 answers to choose of; the user may always write another one. Default: free text.
    #[serde(default)]
    choices: Option<Vec<String>>,
    /// Whether several choices may be taken. Default: false.
    #[serde(default)]
    several: Option<bool>,
}

impl Tool for AskUser {
    type Input = AskUserInput;

    const NAME: &'static str = "ask_user";

    const DESCRIPTION: &'static str = "Asks the user a question and waits for the answer. For decisions that are \
        theirs and that you cannot find out yourself: what they meant, which of several ways they want. Not for \
        permission (that is asked by itself), and not for what can be looked up.";

    /// None: people take their time.
    const TIMEOUT: Option<Duration> = None;

    fn call_title(&self, input: &AskUserInput) -> String {
        format_title("Ask:", &input.question)
    }

    fn predict_effect(&self, _: &AskUserInput, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, input: AskUserInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let question = build_question(&input, &cx).map_err(ToolError::WrongInput)?;
        let reply = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            reply = cx.asker.request_reply(question) => reply,
        };
        Ok(ToolOutput::text(match reply {
            Some(InquiryReply::Answers(answers)) => {
                let answer = answers.get(ANSWER).map(|values| values.join("\n"));
                answer.unwrap_or_else(|| "(no answer)".to_owned())
            }
            Some(
                InquiryReply::Dismissed | InquiryReply::Stop | InquiryReply::Accept | InquiryReply::Raise(_),
            ) => "The user did not answer. Go on as you think best, and say what you assumed.".to_owned(),
            None => "Nobody can be asked here. Go on as you think best, and say what you assumed.".to_owned(),
        }))
    }
}

fn build_question(input: &AskUserInput, cx: &ToolContext) -> Result<AgentQuestion, String> {
    let fits = |text: &str, most: usize| text.chars().count() <= most;
    let choices = input.choices.as_deref().unwrap_or_default();
    if input.question.trim().is_empty() {
        return Err("the question is empty".to_owned());
    }
    if !fits(&input.question, MAX_TEXT) || !input.detail.as_deref().is_none_or(|text| fits(text, MAX_TEXT)) {
        return Err(format!(
            "question and detail have at most {MAX_TEXT} characters each"
        ));
    }
    if choices.len() > MAX_CHOICES
        || !choices
            .iter()
            .all(|text| fits(text, MAX_CHOICE) && !text.trim().is_empty())
    {
        return Err(format!(
            "there can be at most {MAX_CHOICES} choices, each a text of at most {MAX_CHOICE} characters"
        ));
    }
    let choice = |text: &String| FieldChoice {
        // The value returns to the model unchanged; only the label is for people.
        value: text.clone(),
        label: strip_control_characters(text).into_owned(),
    };
    Ok(AgentQuestion {
        url: None,
        tool_call: Some(cx.call.clone()),
        text: strip_control_characters(&input.question).into_owned(),
        detail: input
            .detail
            .as_ref()
            .map(|text| strip_control_characters(text).into_owned()),
        fields: vec![QuestionField {
            name: ANSWER.to_owned(),
            choices: choices.iter().map(choice).collect(),
            several: input.several.unwrap_or(false),
            // The user can always write an answer of their own.
            free: true,
            required: true,
            ..QuestionField::default()
        }],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;

    #[tokio::test]
    async fn invalid_questions_are_refused_and_a_missing_person_is_not_an_error() {
        let harness = ToolHarness::new();
        let answer = harness
            .call_tool("ask_user", json!({"question": "which?"}))
            .await
            .unwrap();
        assert!(answer.text.starts_with("Nobody can be asked"), "{}", answer.text);
        for (input, expected) in [
            (json!({"question": " "}), "is empty"),
            (json!({"question": "x".repeat(5_000)}), "at most 4000"),
            (
                json!({"question": "x", "choices": vec!["a"; 11]}),
                "at most 10 choices",
            ),
            (json!({"question": "x", "choices": [""]}), "at most 10 choices"),
        ] {
            let error = harness.call_expecting_error("ask_user", input).await;
            assert!(error.contains(expected), "{error}");
        }
    }
}
