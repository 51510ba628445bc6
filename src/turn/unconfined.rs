//! Warns of hooks and MCP servers that run with less of a sandbox than their settings say (R-BOX).
//!
//! Nobody approves them, so a question cannot say it. Commands and tools are the job of `permission`.

use std::sync::PoisonError;

use super::context::TurnContext;
use super::emit::emit_warning;
use super::session_link::TurnStopped;
use crate::domain::SandboxLevel;

/// The code of the warning that something runs unconfined.
const UNCONFINED: &str = "sandbox_missing";

/// Warns of each hook and MCP server once in a session.
pub(super) async fn warn_of_unconfined(cx: &TurnContext) -> Result<(), TurnStopped> {
    let settings = &cx.settings.sandbox;
    // A sub-agent has the hooks and servers of its turn.
    if cx.depth > 0 {
        return Ok(());
    }
    let hooks = cx.settings.hooks.names_of_confined(settings);
    // With `required`, none of them runs.
    let may_lack = settings.enabled && !settings.required;
    let source = cx.tools.source().filter(|_| may_lack);
    let servers = source.map(|source| source.names_of_confined());
    let servers = servers.into_iter().flatten();
    let mut names: Vec<String> = hooks
        .map(|name| format!("the hook `{name}`"))
        .chain(servers.map(|name| format!("the MCP server {name}")))
        .collect();
    let known = &cx.services.statistics.unconfined;
    names.retain(|name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.clone())
    });
    if names.is_empty() {
        return Ok(());
    }
    let detected = cx.workspace.shared().sandbox().detect().await;
    let (holds, rights) = match detected.method.level() {
        SandboxLevel::Full => return Ok(()),
        SandboxLevel::Partial => ("holds only in part", "can read your keys"),
        SandboxLevel::None => ("does not work", "run with all your rights"),
    };
    let message = format!(
        "the sandbox {holds} here ({}), so these {rights}: {}; `required = true` under [sandbox] stops them",
        detected.explain(),
        names.join(", ")
    );
    emit_warning(cx, UNCONFINED, message).await
}
