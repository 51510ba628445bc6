//! `bash_kill`: ends a background process. The work is done by `workspace::Background`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::bash_output::{build_output, to_tool_error};
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::text::{one_line, strip_control_characters};
use crate::domain::Effect;

/// The `bash_kill` tool.
pub struct BashKill;

/// The arguments of `bash_kill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashKillInput {
    /// The id that `bash` gave, such as `bg1`.
    id: String,
}

impl Tool for BashKill {
    type Input = BashKillInput;

    const NAME: &'static str = "bash_kill";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Ends a background process and all that it started (SIGTERM, after a \
        second SIGKILL), and gives the last of its output.";

    /// None: ending a process takes at most 1.5 s.
    const TIMEOUT: Option<Duration> = None;

    fn call_title(&self, input: &BashKillInput) -> String {
        format!("End {}", one_line(&strip_control_characters(&input.id), 40))
    }

    /// Predicts no effect: it ends only what this session started.
    fn predict_effect(&self, _input: &BashKillInput, _cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    /// Returns true: it takes at most 1.5 s, and a half-ended process is useless.
    async fn run(&self, input: BashKillInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let killed = cx
            .workspace
            .background()
            .kill_job(&input.id, &cx.force_cancel)
            .await;
        Ok(build_output(killed.map_err(to_tool_error)?, &cx).await)
    }
}
