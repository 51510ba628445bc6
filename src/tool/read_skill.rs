//! `read_skill`: reads the text of a skill when it is needed. `workspace::prompts` finds and confines the files.

use schemars::JsonSchema;
use serde::Deserialize;

use super::files::run_blocking;
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::text;
use crate::domain::Effect;

/// The `read_skill` tool.
pub struct ReadSkill;

/// The arguments of `read_skill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadSkillInput {
    /// The skill's name, as it is listed.
    name: String,
    /// Another file of the skill, relative to its folder. Default: its instructions.
    #[serde(default)]
    file: Option<String>,
}

impl Tool for ReadSkill {
    type Input = ReadSkillInput;

    const NAME: &'static str = "read_skill";

    const DESCRIPTION: &'static str = "Reads the instructions of a skill that is listed in your instructions. \
        Call it before you begin a task that the skill's description fits; follow what it says as far as it serves \
        what the user asked for.";

    fn call_title(&self, input: &ReadSkillInput) -> String {
        let title = match &input.file {
            Some(file) => format!("Read skill {}: {file}", input.name),
            None => format!("Read skill {}", input.name),
        };
        text::one_line(&text::reveal_hidden_characters(&title), 120)
    }

    fn predict_effect(&self, _: &ReadSkillInput, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, input: ReadSkillInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let skills = cx.skills.clone();
        run_blocking(&cx, move |_| {
            skills
                .read(&input.name, input.file.as_deref())
                .map(ToolOutput::text)
                .map_err(|error| ToolError::WrongInput(error.to_string()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use crate::workspace::prompts::Sources;

    #[tokio::test]
    async fn a_skill_of_the_session_is_read() {
        let mut harness = ToolHarness::new();
        harness.write("skills/a/SKILL.md", "---\ndescription: d\n---\nbody");
        assert!(
            harness
                .call_expecting_error("read_skill", json!({"name": "a"}))
                .await
                .contains("available: none")
        );
        let sources = Sources {
            user: Some(harness.root.clone()),
            ..Sources::default()
        };
        harness.cx.skills = sources.load_instructions().skills;
        let read = harness
            .call_tool("read_skill", json!({"name": "a"}))
            .await
            .unwrap();
        assert!(read.text.starts_with("body"), "{}", read.text);
        let missing = harness
            .call_expecting_error("read_skill", json!({"name": "a", "file": "x"}))
            .await;
        assert_eq!(missing, "the skill has no file `x`");
    }
}
