//! Runs the hooks of one point of a turn: what they read, and what their answers do (R-CONF).
//!
//! A hook's own failure is one warning, and the turn continues. `hook_output` interprets the answer.

use std::time::Duration;

use futures::FutureExt;
use serde_json::{Map, Value, json};

use super::context::TurnContext;
use super::emit::{emit_late_warning, emit_warning};
use super::hook_output::{HookDecision, parse_hook_decision};
use super::hooks::{HookContext, HookExit};
use super::redact;
use super::session_link::TurnStopped;
use crate::base::{clock, text};
use crate::config::{HookMoment, HookSettings};
use crate::domain::{Event, SandboxPolicy};
use crate::tool::DynTool;
use crate::workspace::{EarlierChanges, SteeringOutcome};

/// The code of the warning that a hook failed.
const FAILED: &str = "hook_failed";
/// The code of the warning that a confined hook changed files that make programs run.
const CREATED_FILES: &str = "hook_created_files";
/// A hook that takes longer than this is announced as a wait.
const SLOW: Duration = Duration::from_secs(2);

/// The combined answer of all hooks of one point.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HookVerdict {
    /// No hook objected. `changed` is the new input, and `by` names the hooks that changed it.
    Pass {
        changed: Option<Value>,
        by: Vec<String>,
    },
    Block(Objection),
    /// A hook ended the turn.
    End(Objection),
}

/// A hook's name and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub(super) hook: String,
    pub(super) words: String,
}

impl Objection {
    /// Formats the objection as one line for people.
    pub(super) fn to_detail(&self) -> String {
        text::one_line(&format!("hook `{}`: {}", self.hook, self.words), 500)
    }
}

/// Runs the hooks of one point in order until one objects. `about` holds the fields that they read beyond the common
/// ones; `input` names the field that they may change.
pub(super) async fn run_hooks(
    cx: &TurnContext,
    moment: HookMoment,
    tool: Option<&str>,
    mut about: Map<String, Value>,
    input: &str,
) -> Result<HookVerdict, TurnStopped> {
    let (mut changed, mut by) = (None, Vec::new());
    // A tool of an MCP server has one name for models, and another for rules.
    let known = tool.and_then(|tool| cx.tools.get(tool));
    let names: Vec<&str> = tool
        .into_iter()
        .chain(known.as_deref().map(DynTool::rule_name))
        .collect();
    for hook in cx.settings.hooks.find_hooks(moment, &names) {
        let exit = redact_hook_exit(cx, run_one(cx, hook, build_hook_input(cx, hook, &about)).await?);
        let objection = |words: String| Objection {
            hook: hook.name.clone(),
            // A hook may print a key, and its message goes to the model and to clients (I15).
            words: redact::text(&cx.services.redactor, words),
        };
        match parse_hook_decision(moment, &exit) {
            Ok(HookDecision::Pass(None)) => {}
            Ok(HookDecision::Pass(Some(to))) => {
                // The next hook reads what this one changed.
                about.insert(input.to_owned(), to.clone());
                changed = Some(to);
                by.push(hook.name.clone());
            }
            Ok(HookDecision::Block(words)) => return Ok(HookVerdict::Block(objection(words))),
            Ok(HookDecision::End(words)) => return Ok(HookVerdict::End(objection(words))),
            // R-CONF: a hook's own failure never blocks anything.
            Err(reason) => report_hook_failure(cx, hook, &reason).await?,
        }
    }
    Ok(HookVerdict::Pass { changed, by })
}

/// Builds the JSON that a hook reads.
fn build_hook_input(cx: &TurnContext, hook: &HookSettings, about: &Map<String, Value>) -> Vec<u8> {
    let mut input = Map::new();
    for (key, value) in [
        ("event", json!(hook.on.name())),
        ("hook", json!(hook.name)),
        ("sessionId", json!(cx.session.as_str())),
        ("turnId", json!(cx.turn.as_str())),
        ("cwd", json!(cx.services.cwd.display().to_string())),
    ] {
        input.insert(key.to_owned(), value);
    }
    input.extend(about.clone());
    Value::Object(input).to_string().into_bytes()
}

/// Redacts keys before the text is cut, because a cut could leave a part of a key.
fn redact_hook_exit(cx: &TurnContext, mut exit: HookExit) -> HookExit {
    // Standard output is parsed first; the message in it is redacted after that.
    if let HookExit::Exited { stderr, .. } = &mut exit {
        *stderr = redact::text(&cx.services.redactor, std::mem::take(stderr));
    }
    exit
}

/// Runs one hook, and announces a wait if it is slow.
async fn run_one(cx: &TurnContext, hook: &HookSettings, input: Vec<u8>) -> Result<HookExit, TurnStopped> {
    let until = clock::wall_ms().saturating_add_unsigned(hook.timeout_s.0.as_millis() as u64);
    let context = HookContext {
        session: &cx.session,
        turn: &cx.turn,
        cwd: &cx.services.cwd,
        workspace: &cx.workspace,
        sandbox: &cx.settings.sandbox,
        mode: cx.settings.mode,
        cancel: &cx.cancel,
    };
    let policy = hook.sandbox_policy(context.mode, context.is_trusted());
    let is_confined = context.sandbox.enabled && policy == SandboxPolicy::Workspace;
    let earlier = if is_confined {
        Some(cx.workspace.list_steering_changes(&cx.services.cwd).await)
    } else {
        None
    };
    let mut run = cx.settings.hooks.run_hook(context, hook, input);
    let telling = async {
        clock::sleep(SLOW).await;
        let reason = format!("waiting for the hook `{}` ({})", hook.name, hook.on);
        // An error means that the turn is stopped; the run itself returns that.
        let _ = cx
            .link
            .emit_event(Event::Wait {
                why: reason,
                until: Some(until),
            })
            .await;
    };
    let mut telling = std::pin::pin!(telling.fuse());
    let ran = loop {
        tokio::select! { biased;
            ran = &mut run => break ran,
            () = &mut telling => {}
        }
    };
    if let Some(earlier) = earlier {
        put_created_aside(cx, hook, earlier).await?;
    }
    ran
}

/// Puts aside the files that make programs run and that a confined hook has created, and warns about them.
async fn put_created_aside(
    cx: &TurnContext,
    hook: &HookSettings,
    earlier: EarlierChanges,
) -> Result<(), TurnStopped> {
    let cwd = &cx.services.cwd;
    for mut change in cx.workspace.settle_steering(cwd, earlier).await {
        // The user is asked with the next command or call.
        if matches!(change.outcome, SteeringOutcome::Undecided) {
            continue;
        }
        let change_text = change.describe(|path| {
            text::reveal_hidden_characters(&cx.workspace.format_for_model(cwd, path)).into_owned()
        });
        let message = format!(
            "the hook `{}` ({}) runs in the sandbox and changed a file that makes programs run: {change_text}",
            hook.name, hook.on
        );
        emit_late_warning(cx, CREATED_FILES, message).await?;
        change.mark_reported();
    }
    Ok(())
}

/// Reports a hook's failure as a warning; the turn continues.
async fn report_hook_failure(cx: &TurnContext, hook: &HookSettings, reason: &str) -> Result<(), TurnStopped> {
    let reason = redact::text(
        &cx.services.redactor,
        text::strip_control_characters(reason).into_owned(),
    );
    tracing::warn!(
        hook = hook.name,
        moment = hook.on.name(),
        error = reason,
        "a hook failed"
    );
    let message = format!(
        "the hook `{}` ({}) failed and was skipped: {reason}",
        hook.name, hook.on
    );
    emit_warning(cx, FAILED, message).await
}
