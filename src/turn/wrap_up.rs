//! The last short step of a sub-agent whose time is up (R-SUB): one model call without tools that reports the results.
//!
//! The bridge of the sub-agent decides when the time is up; here is only the call.

use super::admission::build_provider_access;
use super::compact;
use super::context::TurnContext;
use super::limits::final_summary;
use super::loop_state::LoopState;
use super::run::resolve_model;
use super::session_link::TurnStopped;

/// Asks the model to summarize what the sub-agent reached. Returns whether it answered.
///
/// # Errors
/// [`TurnStopped`] if the turn was canceled or the session's actor is gone.
pub async fn wrap_up(cx: &TurnContext) -> Result<bool, TurnStopped> {
    let Ok(model) = resolve_model(cx).await? else {
        return Ok(false);
    };
    let prefix = compact::estimate_prefix_tokens(cx, &model);
    let mut state = LoopState::new(model, prefix, false);
    state.adopt_calibration(cx.services.statistics.calibration.clone());
    state.access = build_provider_access(cx);
    final_summary(cx, &mut state, TIME_IS_UP, "the sub-agent ends without a summary").await
}

/// The prompt of the last step.
const TIME_IS_UP: &str = "The time for this task is up, and no more tools can be used. Say in a few sentences what was \
                          done, what was found, and what is left to do: it is all that the agent gets which gave you \
                          the task.";
