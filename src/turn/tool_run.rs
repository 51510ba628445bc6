//! A tool call of a turn: what it is, how it ended, and what every stage of it needs.
//!
//! The stages are `calls`, `permission`, and `tool_execution`; `call_order` says which call waits for which.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc;

use super::accumulate::RequestedCall;
use super::context::{CarriedCall, TurnContext};
use super::hook_runs::Objection;
use super::redact::RedactingSink;
use super::settings::AgentPolicy;
use crate::base::spawn::panic_text;
use crate::base::text;
use crate::config::FailurePolicy;
use crate::domain::{
    ApprovalId, Effect, NarrowedCommand, SandboxPolicy, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolResult,
};
use crate::tool::{PreparedCall, ToolContext, ToolError, ToolProgress, lenient};
use crate::workspace::command_sandbox::CallSandbox;

/// A tool call in progress.
pub(super) struct ToolRun {
    pub(super) id: ToolCallId,
    pub(super) name: String,
    pub(super) input: Result<Arc<Value>, String>,
    pub(super) title: String,
    /// An earlier turn requested it and has announced it.
    pub(super) carried: bool,
    pub(super) approval: Option<ApprovalId>,
    /// A note for the model, appended to the result.
    pub(super) note: Option<String>,
    /// The user allowed it although its change cannot be reverted.
    pub(super) uncheckpointed: bool,
    /// The resolved paths by which it was judged.
    pub(super) judged: Option<Arc<[PathBuf]>>,
    /// The line that runs in place of its command.
    pub(super) narrowed: Option<Arc<NarrowedCommand>>,
    /// What the user allowed, if the user was asked.
    pub(super) approved: Option<Effect>,
    /// What its command may do.
    pub(super) sandbox: SandboxPolicy,
}

/// The result of a call.
pub(super) struct ToolRunResult {
    pub(super) tool: String,
    pub(super) disposition: ToolRunDisposition,
    /// What the model reads about a failure; empty otherwise.
    pub(super) failure_text: String,
    /// Whether a command of the shell failed, and not the shell.
    pub(super) has_failed_command: bool,
    /// A fingerprint of the result, for loop detection.
    pub(super) result: u64,
    /// The hook's objection that ended the turn, if one did.
    pub(super) ended_by: Option<Objection>,
}

/// How a call ended, as failure policies and circuits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolRunDisposition {
    Ran,
    /// The tool failed or panicked.
    Failed,
    /// The tool works, but the call asks for what is not there.
    WrongInput,
    TimedOut,
    /// A sub-agent failed under the join policy `all_required`.
    SubagentFailed,
    /// Fewer sub-agents succeeded than the join policy requires.
    JoinViolated,
    /// It did not run: invalid arguments, a denial, a hook, or a cancel.
    Refused,
}

/// Set when the turn ends after this step, so that calls that have not started do not start.
#[derive(Default)]
pub(super) struct StopFlag(AtomicBool);

impl StopFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag if a call that ended like this ends the turn.
    pub(super) fn observe(
        &self,
        cx: &TurnContext,
        disposition: ToolRunDisposition,
        ended_by: Option<&Objection>,
    ) {
        if ended_by.is_some() || disposition.failure_policy(&cx.settings.policy) == FailurePolicy::Fail {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl ToolRunDisposition {
    /// Returns the policy for this end. Denials and invalid arguments are for the model alone (R-ERR-2).
    pub(super) fn failure_policy(self, policy: &AgentPolicy) -> FailurePolicy {
        match self {
            Self::Ran | Self::Refused => FailurePolicy::Continue,
            Self::Failed | Self::WrongInput => policy.tool_failure,
            Self::TimedOut => policy.tool_timeout,
            Self::SubagentFailed => policy.subagent_failure,
            // R-ERR-2: a violated join is terminal, whatever the policy.
            Self::JoinViolated => FailurePolicy::Fail,
        }
    }
}

impl ToolRun {
    pub(super) fn new(wanted: RequestedCall) -> Self {
        let title = wanted.name.clone();
        Self {
            id: wanted.id,
            name: wanted.name,
            input: wanted.input,
            title,
            carried: false,
            approval: None,
            note: None,
            uncheckpointed: false,
            judged: None,
            narrowed: None,
            approved: None,
            sandbox: SandboxPolicy::default(),
        }
    }

    pub(super) fn from_carried(carried: CarriedCall) -> Self {
        Self {
            carried: true,
            approval: carried.approval,
            ..Self::new(RequestedCall {
                id: carried.call.id,
                name: carried.call.name,
                input: Ok(carried.call.input),
            })
        }
    }

    pub(super) fn id(&self) -> &ToolCallId {
        &self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments, or why they are not a JSON object.
    pub(super) fn requested_arguments(&self) -> Result<&Value, &str> {
        self.input.as_deref().map_err(String::as_str)
    }

    /// Adds a note for the model.
    pub(super) fn add_note(&mut self, note: &str) {
        match &mut self.note {
            Some(notes) => {
                notes.push('\n');
                notes.push_str(note);
            }
            None => self.note = Some(note.to_owned()),
        }
    }

    /// Returns whether the tool is meant to be called repeatedly while waiting.
    pub(super) fn is_of_mcp(&self, cx: &TurnContext) -> bool {
        (cx.tools.get(&self.name)).is_some_and(|tool| tool.rule_name().starts_with("mcp:"))
    }

    pub(super) fn is_wait_call(&self, cx: &TurnContext) -> bool {
        cx.tools.get(&self.name).is_some_and(|tool| tool.is_wait_tool())
    }

    pub(super) fn to_update(&self, status: ToolCallStatus) -> ToolCallUpdate {
        ToolCallUpdate::new(self.id.clone(), self.name.clone(), self.title.clone(), status)
    }
}

/// Checks the name and the arguments, and makes the arguments regular, so that hooks, rules, people, and the tool see the
/// same ones. The error is for the model.
pub(super) fn prepare_call(cx: &TurnContext, call: &mut ToolRun) -> Result<Box<dyn PreparedCall>, String> {
    let Some(tool) = cx.tools.get(&call.name) else {
        let reason = (cx.tools.source()).and_then(|source| source.explain_missing_tool(&call.name));
        return Err(reason.unwrap_or_else(|| {
            let known = cx.tools.tool_names().join(", ");
            format!("unknown tool {:?}; the tools are: {known}", call.name)
        }));
    };
    // What judges the call knows the tool's own names.
    if let Some(own) = tool.restore_names(call.input.as_deref().map_err(Clone::clone)?)? {
        call.input = Ok(Arc::new(own));
    }
    let input = call.input.as_ref().map_err(Clone::clone)?;
    // R-TOOL-5: a panic in a tool's argument check is that call's failure, nothing more.
    let checked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let (prepared, regular) = lenient::prepare_call(&tool, input, &tool_context(cx, call, None))?;
        let title = text::one_line(&prepared.title(), 200);
        Ok((prepared, title, regular))
    }));
    let checked =
        checked.unwrap_or_else(|payload| Err(internal_error_message(call, &panic_text(payload.as_ref()))));
    let (prepared, title, regular) = checked?;
    call.title = title;
    if let Some(regular) = regular {
        call.input = Ok(Arc::new(regular.arguments));
        call.add_note(&regular.note);
    }
    Ok(prepared)
}

/// Logs an internal error of a tool, and returns what the model reads about it.
pub(super) fn internal_error_message(call: &ToolRun, reason: &str) -> String {
    tracing::error!(tool = call.name, error = reason, "tool failed");
    format!("the tool failed with an internal error ({reason}); try another way")
}

pub(super) fn fingerprint_result(result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&result.text, result.is_error).hash(&mut hasher);
    hasher.finish()
}

/// Turns a panic of a tool into the failure of that call (R-TOOL-5).
pub(super) async fn catch_tool_panic<T>(
    run: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    AssertUnwindSafe(run)
        .catch_unwind()
        .await
        .unwrap_or_else(|payload| Err(ToolError::Internal(panic_text(payload.as_ref()))))
}

pub(super) fn tool_context(
    cx: &TurnContext,
    call: &ToolRun,
    progress_sender: Option<mpsc::Sender<ToolProgress>>,
) -> ToolContext {
    ToolContext {
        session: cx.session.clone(),
        call: call.id.clone(),
        cwd: cx.services.cwd.clone(),
        workspace: cx.workspace.clone(),
        skills: cx.prompt.skills.clone(),
        asker: Arc::new(cx.link.clone()),
        spawner: cx.spawner.clone(),
        model: cx.tools.current_model(),
        editor: cx.services.editor.clone(),
        cancel: cx.cancel.clone(),
        force_cancel: cx.services.force_cancel.clone(),
        time_limit: (cx.settings.tool_timeouts)(&call.name),
        // Without a receiver: outside its run, a tool has nobody to report progress to.
        progress: progress_sender.unwrap_or_else(|| mpsc::channel(1).0),
        content_sink: Arc::new(RedactingSink::new(
            cx.services.content_sink.clone(),
            cx.services.redactor.clone(),
        )),
        checkpoints: cx.services.checkpoints.clone(),
        new_errors_wait: cx.settings.policy.new_errors_wait,
        allows_uncheckpointed: call.uncheckpointed,
        is_carried: call.carried,
        judged: call.judged.clone(),
        narrowed: call.narrowed.clone(),
        sandbox: CallSandbox {
            settings: cx.settings.sandbox.clone(),
            policy: call.sandbox,
        },
    }
}
