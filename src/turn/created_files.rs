//! Warns of files that make programs run and that appeared while nobody looked: during background processes, and before
//! an earlier agentls was killed.
//!
//! A command's own check is the job of its tool, and a hook's that of `hook_runs`.

use super::context::TurnContext;
use super::emit::emit_late_warning;
use super::session_link::TurnStopped;

/// The code of the warning that files which make programs run are new.
pub const NEW_STEERING_FILES: &str = "background_created_files";

/// Warns of what an earlier agentls did not see. To be called before anything of the turn runs.
pub(super) async fn warn_of_left_files(cx: &TurnContext) -> Result<(), TurnStopped> {
    if cx.depth > 0 {
        return Ok(());
    }
    cx.workspace.adopt_steering_records(&cx.services.cwd).await;
    warn_of_new_files(cx).await
}

/// Warns of what has appeared up to the turn's end, also of a canceled one. A sub-agent leaves that to its turn.
pub(super) async fn warn_of_new_files(cx: &TurnContext) -> Result<(), TurnStopped> {
    if cx.depth > 0 {
        return Ok(());
    }
    match cx.workspace.warn_of_new_steering(&cx.services.cwd).await {
        Some(message) => emit_late_warning(cx, NEW_STEERING_FILES, message).await,
        None => Ok(()),
    }
}
