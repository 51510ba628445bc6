//! The tools that change while a turn runs: waiting for their start, and taking over changes between steps (R-MCP).
//!
//! Decides whether their definitions are deferred. Which tools there are is the job of [`crate::tool::TurnTools`].

use std::time::Duration;

use futures::FutureExt;

use super::compact::estimate_prefix_tokens;
use super::context::TurnContext;
use super::current_model::current_model;
use super::emit::emit_warning;
use super::loop_state::LoopState;
use super::session_link::TurnStopped;
use crate::base::clock;
use crate::context::estimate_tool_tokens;
use crate::domain::{AgentError, ErrorCode, Event};

/// The code of the warning that an MCP server failed.
const MCP_FAILED: &str = "mcp_failed";
/// A start that takes longer is announced.
const SLOW: Duration = Duration::from_millis(300);
/// How long a step waits for tools whose change was announced. A server may announce changes all the time.
const MAX_REFRESH: Duration = Duration::from_secs(2);
/// Definitions are deferred from this many tools on.
const MANY_TOOLS: usize = 60;
/// Definitions are deferred if they take more than this part of the window.
const WINDOW_SHARE: u64 = 10;

/// Waits, visibly, for what provides tools and is starting. Returns an error if something that is required failed.
pub(super) async fn await_tools(cx: &TurnContext) -> Result<Result<(), AgentError>, TurnStopped> {
    let Some(source) = cx.tools.source() else {
        return Ok(Ok(()));
    };
    source.start();
    let announce = async {
        clock::sleep(SLOW).await;
        let why = format!(
            "MCP servers are starting: {}",
            source.names_of_starting().join(", ")
        );
        // An error means that the turn is stopped, which the cancel below reports.
        let _ = cx.link.emit_event(Event::Wait { why, until: None }).await;
    };
    let mut announce = std::pin::pin!(announce.fuse());
    let mut started = source.wait_until_started();
    loop {
        tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            () = &mut started => break,
            () = &mut announce => {}
        }
    }
    warn_of_failures(cx).await?;
    Ok(match source.find_missing_required() {
        Some((name, reason)) => Err(AgentError::new(
            ErrorCode::Config,
            format!("the MCP server {name} is required and does not work: {reason}"),
        )
        .with_user_action(format!("repair it, or remove `required` from [mcp.{name}]"))),
        None => Ok(()),
    })
}

async fn warn_of_failures(cx: &TurnContext) -> Result<(), TurnStopped> {
    let failures = cx.tools.source().map(|source| source.take_new_failures());
    for (name, reason) in failures.unwrap_or_default() {
        // It may quote what the server has written.
        let reason = cx.services.redactor.redact_text(&reason);
        emit_warning(cx, MCP_FAILED, format!("MCP server {name}: {reason}")).await?;
    }
    Ok(())
}

/// Takes over the tools that there are now, and reports what failed. Called between steps, because a step needs the same
/// tools throughout.
pub(super) async fn refresh_tools(cx: &TurnContext, state: &mut LoopState) -> Result<(), TurnStopped> {
    if let Some(source) = cx.tools.source() {
        tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(TurnStopped),
            // Late tools count at a later step.
            _ = clock::timeout(MAX_REFRESH, source.wait_until_current()) => {}
        }
    }
    warn_of_failures(cx).await?;
    let window = state.model.info.window;
    let has_changed = cx.tools.refresh(Some(current_model(cx, state)), |specs| {
        specs.len() > MANY_TOOLS || estimate_tool_tokens(specs) > window / WINDOW_SHARE
    });
    if has_changed {
        state.set_prefix_tokens(estimate_prefix_tokens(cx, &state.model));
    }
    Ok(())
}
