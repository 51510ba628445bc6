//! `bash_output`: reads what a background process has written since the last read, and whether it still runs.
//!
//! Also formats that output for `bash_kill`. Must not start or end processes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::created_files::settle_created_files;
use super::left_files::note_left_files;
use super::refusal::{CommandOrigin, Refusals};
use super::run_command::{end_notes, with_notes};
use super::{DEFAULT_TIMEOUT, Tool, ToolContext, ToolError, ToolOutput};
use crate::base::clock;
use crate::base::text::{one_line, strip_control_characters};
use crate::domain::Effect;
use crate::workspace::{BackgroundError, BackgroundOutput, EarlierChanges};

/// The `bash_output` tool.
pub struct BashOutput;

/// The arguments of `bash_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashOutputInput {
    /// The id that `bash` gave, such as `bg1`.
    id: String,
    /// Wait so many seconds for it to end before reading, less if it ends sooner. Default: 0, at most
    /// 120 or what the settings say.
    wait_s: Option<f64>,
}

impl Tool for BashOutput {
    type Input = BashOutputInput;

    const NAME: &'static str = "bash_output";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Gives what a background process wrote since this was last called, and \
        whether it still runs. To wait for a process that ends by itself, set wait_s instead of calling \
        again and again.";

    /// None: the wait has its own limit.
    const TIMEOUT: Option<Duration> = None;

    const WAITS: bool = true;

    fn call_title(&self, input: &BashOutputInput) -> String {
        format!(
            "Read the output of {}",
            one_line(&strip_control_characters(&input.id), 40)
        )
    }

    fn predict_effect(&self, _input: &BashOutputInput, _cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    /// Returns true: output that was taken must reach the history. The wait itself obeys a cancel immediately.
    async fn run(&self, input: BashOutputInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let background = cx.workspace.background();
        let wait = wait(input.wait_s, cx.time_limit);
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            ended = background.wait_until_ended(&input.id) => ended.map_err(to_tool_error)?,
            () = clock::sleep(wait) => {}
        }
        // Take the output only now, so that a canceled wait loses nothing.
        let output = background.read(&input.id).await.map_err(to_tool_error)?;
        Ok(build_output(output, &cx).await)
    }
}

fn wait(requested: Option<f64>, configured: Option<Duration>) -> Duration {
    let most = configured.unwrap_or(DEFAULT_TIMEOUT);
    Duration::try_from_secs_f64(requested.unwrap_or(0.0).max(0.0))
        .unwrap_or(most)
        .min(most)
}

pub(super) fn to_tool_error(error: BackgroundError) -> ToolError {
    ToolError::WrongInput(error.to_string())
}

/// Formats what was read for the model.
pub(super) async fn build_output(output: BackgroundOutput, cx: &ToolContext) -> ToolOutput {
    let id = output.status.id;
    let mut notes = vec![match output.status.ending {
        None => format!("{id} is running"),
        Some(_) => format!("{id} has ended"),
    }];
    notes.extend(output.status.ending.into_iter().flat_map(end_notes));
    let body = output.output.text;
    if let Some(access) = output.access {
        notes.extend(note_left_files(cx, &access).await);
        let status = output.status.ending.map(|ending| ending.status);
        let refusals = Refusals::new(CommandOrigin::Bash, access, &cx.sandbox, status);
        let refused = output.refused_hosts.unwrap_or_default();
        notes.extend(refusals.explain(&body, refused).await);
    }
    let mut created = settle_created_files(cx, EarlierChanges::default()).await;
    notes.append(&mut created.notes);
    created.mark_reported();
    ToolOutput {
        text: with_notes(&body, notes),
        full: output.output.full,
        paged: true,
        ..ToolOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_clamped() {
        let second = Duration::from_secs;
        for (requested, configured, want) in [
            (None, None, second(0)),
            (Some(5.0), None, second(5)),
            (Some(500.0), None, second(120)),
            (Some(f64::INFINITY), Some(second(7)), second(7)),
            (Some(-1.0), None, second(0)),
        ] {
            assert_eq!(wait(requested, configured), want, "{requested:?} {configured:?}");
        }
    }
}
