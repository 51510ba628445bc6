//! Whether one tool call may run: hooks, rules, the user, and the calls before it, in this order (I9).
//!
//! What was allowed is what runs. Edited arguments are prepared and judged again, and an effect that has grown since
//! the question is refused. Running the call is `calls`'s job.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::call_order::CallPlace;
use super::context::TurnContext;
use super::hook_runs::Objection;
use super::redact;
use super::session_link::TurnStopped;
use super::tool_guard::{self, PreToolOutcome};
use super::tool_run::{
    StopFlag, ToolRun, catch_tool_panic, internal_error_message, prepare_call, tool_context,
};
use crate::approval::{self, Verdict, command_files, explain_waiting_editor, leave_out_secrets};
use crate::base::spawn::{panic_text, run_blocking};
use crate::base::text::reveal_hidden_characters;
use crate::domain::{
    Approval, ApprovalId, Confinement, Decision, DecisionKind, Effect, EffectKind, Event, FileLocation,
    Losses, Risk, SandboxLevel, SandboxMethod, SandboxNetwork, SandboxPolicy, ToolCallStatus,
};
use crate::tool::bash::Bash;
use crate::tool::{CallPreview, PreparedCall, Tool, ToolError, find_losses};
use crate::workspace::checkpoint;

/// What the model reads about a call that did not start because the turn ended first.
pub(super) const HALTED: &str = "Not run: the turn ended first";

/// What the model reads after the user's denial.
const AFTER_DENIAL: &str =
    "[Do not reach the same end by other means. Go on with what else there is to do, or ask.]";

pub(super) enum Permission {
    Granted(Box<dyn PreparedCall>),
    Refused(ToolCallStatus, String),
    /// The arguments cannot be used: they are not valid, or do not fit what is there.
    Invalid(String),
}

impl Permission {
    pub(super) fn halted() -> Self {
        Self::Refused(ToolCallStatus::Cancelled, HALTED.to_owned())
    }
}

/// Runs the hooks before the approval, so that people approve what runs. Arguments that a hook changed are checked like
/// the model's. A carried call was judged by its hooks in the earlier turn.
pub(super) async fn run_permission_hooks(
    cx: &TurnContext,
    call: &mut ToolRun,
    prepared: Box<dyn PreparedCall>,
) -> Result<(Permission, Option<Objection>), TurnStopped> {
    if call.carried {
        return Ok((Permission::Granted(prepared), None));
    }
    let (input, by) = match tool_guard::run_pre_tool_hooks(cx, call).await? {
        PreToolOutcome::GoOn(None) => return Ok((Permission::Granted(prepared), None)),
        PreToolOutcome::GoOn(Some(changed)) => changed,
        PreToolOutcome::Blocked(objection) => {
            let reason = format!("Blocked: {}", tool_guard::format_objection(&objection));
            return Ok((Permission::Refused(ToolCallStatus::Denied, reason), None));
        }
        PreToolOutcome::Ended(objection) => {
            let reason = format!("Not run: {}", tool_guard::format_objection(&objection));
            return Ok((
                Permission::Refused(ToolCallStatus::Denied, reason),
                Some(objection),
            ));
        }
    };
    let by = by.join("`, `");
    call.add_note(&format!("[the hook `{by}` changed the arguments to: {input}]"));
    call.input = Ok(Arc::new(input));
    let permission = match prepare_call(cx, call) {
        Ok(prepared) => Permission::Granted(prepared),
        Err(reason) => Permission::Invalid(reason),
    };
    Ok((permission, None))
}

/// Judges the call by rules, then asks the user if the rules say so. A call that must wait for others is granted when
/// they have ended, and only if what was judged is still true.
pub(super) async fn request_permission(
    cx: &TurnContext,
    call: &mut ToolRun,
    prepared: Box<dyn PreparedCall>,
    place: &CallPlace<'_>,
    halt: &StopFlag,
) -> Result<Permission, TurnStopped> {
    // A refusal is the same whatever other calls do.
    if let Ok(mut effect) = declared_effect(cx, call, prepared.as_ref()) {
        if prepared.effect_may_grow() {
            // Until it is complete, it stands for all files.
            effect.paths.clear();
        }
        declare_effect(place, prepared.as_ref(), &effect);
    }
    place.wait_to_ask(cx).await?;
    // Do not ask the user about a call that will not run.
    if halt.is_set() {
        return Ok(Permission::halted());
    }
    let prepared = match judge_or_ask(cx, call, prepared, place).await? {
        Permission::Granted(prepared) => prepared,
        refused => return Ok(refused),
    };
    // The user may have edited its arguments.
    if let Some(approved) = &call.approved {
        declare_effect(place, prepared.as_ref(), approved);
    }
    if !place.wait_to_run(cx).await? {
        return Ok(Permission::Granted(prepared));
    }
    if halt.is_set() {
        return Ok(Permission::halted());
    }
    // Meanwhile, earlier calls may have changed files, and the user may have changed the mode or the rules.
    call.judged = None;
    match call.approved.take() {
        Some(approved) => grant_approved(cx, call, prepared, Some(&approved)).await,
        None => judge_or_ask(cx, call, prepared, place).await,
    }
}

/// Sets what the call touches for the order of the calls, which may be more than what rules judge.
fn declare_effect(place: &CallPlace<'_>, prepared: &dyn PreparedCall, effect: &Effect) {
    let mut effect = effect.clone();
    if prepared.reads_workspace() {
        effect.paths.clear();
    }
    place.declare(&effect);
}

async fn judge_or_ask(
    cx: &TurnContext,
    call: &mut ToolRun,
    prepared: Box<dyn PreparedCall>,
    place: &CallPlace<'_>,
) -> Result<Permission, TurnStopped> {
    let effect = match resolve_effect(cx, call, prepared.as_ref()).await {
        Ok(effect) => effect,
        Err(refused) => return Ok(refused),
    };
    declare_effect(place, prepared.as_ref(), &effect);
    // Nobody needs to be asked about a command that would only wait.
    if effect.kind == EffectKind::Execute
        && effect.foreign.is_none()
        && let Some(reason) = explain_waiting_editor(&effect.subject)
    {
        return Ok(Permission::Refused(ToolCallStatus::Failed, reason));
    }
    let open = call.approval.clone();
    let unkept = not_kept(cx, &effect).await;
    let judgement = cx.link.judge_effect(&call.name, effect.clone(), open).await?;
    call.sandbox = judgement.sandbox;
    if let Some(reason) = refuse_without_sandbox(cx, &effect, call.sandbox).await {
        return Ok(Permission::Refused(ToolCallStatus::Failed, reason));
    }
    let verdict = match (judgement.verdict, &unkept) {
        // R-ERR-2: without its old content an edit cannot be reverted, so the user is asked even if rules allow it.
        (Verdict::Allow { .. }, Some(reason)) => Verdict::Ask {
            reason: format!("its old content cannot be kept, so the change could not be reverted: {reason}"),
            risk: Risk::High,
            rule: None,
            losses: None,
        },
        (verdict, _) => verdict,
    };
    match verdict {
        Verdict::Allow { .. } => {
            place.mark_asked();
            Ok(grant_permission(call, prepared, effect))
        }
        Verdict::Deny { reason } => Ok(Permission::Refused(ToolCallStatus::Denied, reason)),
        Verdict::Ask {
            reason,
            risk,
            rule,
            losses,
        } => {
            let preview = match build_preview(cx, call, &effect, prepared.as_ref()).await? {
                Ok(preview) => preview,
                // A change that cannot be previewed cannot be made, such as an edit that does not apply.
                Err(reason) => return Ok(Permission::Invalid(reason)),
            };
            let approval = Approval {
                id: call.approval.take().unwrap_or_else(ApprovalId::new_random),
                tool_call: call.id.clone(),
                name: call.name.clone(),
                input: call.input.clone().unwrap_or_else(|_| Arc::new(Value::Null)),
                title: call.title.clone(),
                cwd: find_run_folder(cx, &effect).display().to_string(),
                diff: preview.diff.clone(),
                risk,
                why: reveal_hidden_characters(&reason).into_owned(),
                sandbox: describe_confinement(cx, &effect, call.sandbox).await,
                rule,
                losses,
            };
            call.uncheckpointed = unkept.is_some();
            place.wait_for_earlier_questions(cx).await?;
            ask_for_approval(cx, call, prepared, (approval, effect), preview.locations, place).await
        }
    }
}

/// Returns the folder that a call runs in. A command has no other path.
fn find_run_folder<'a>(cx: &'a TurnContext, effect: &'a Effect) -> &'a Path {
    match effect.paths.as_slice() {
        [folder] if effect.kind == EffectKind::Execute => folder,
        _ => &cx.services.cwd,
    }
}

/// Returns why the current content of the files that a call writes cannot be stored, or `None` if it is stored.
async fn not_kept(cx: &TurnContext, effect: &Effect) -> Option<String> {
    if effect.kind != EffectKind::Write {
        return None;
    }
    let (paths, checkpoints) = (effect.paths.clone(), cx.services.checkpoints.clone());
    let task = run_blocking(move || {
        for path in paths {
            path.to_str().ok_or("its name is not UTF-8")?;
            // An unreadable file is reported by the call itself.
            let found = checkpoint::inspect_file(&path);
            let bytes = found.ok().and_then(|found| found.bytes).unwrap_or_default();
            checkpoints.store_content(&bytes)?;
        }
        Ok::<(), String>(())
    });
    task.await.ok()?.err()
}

/// Builds the preview for the approval. The error is for the model and may quote the file or its neighbors.
///
/// For a file that may not be read without asking, a failed preview is left out instead. The call reports the problem
/// itself once it is allowed (R-SEC, I9).
async fn build_preview(
    cx: &TurnContext,
    call: &ToolRun,
    effect: &Effect,
    prepared: &dyn PreparedCall,
) -> Result<Result<CallPreview, String>, TurnStopped> {
    let context = tool_context(cx, call, None);
    let preview_result = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(TurnStopped),
        shown = catch_tool_panic(prepared.preview_change(&context)) => shown,
    };
    let reason = match preview_result {
        Ok(preview) => return Ok(Ok(redact::redact_preview(&cx.services.redactor, preview))),
        Err(ToolError::Cancelled | ToolError::CutShort(_)) => return Err(TurnStopped),
        Err(ToolError::Reported(reason) | ToolError::WrongInput(reason) | ToolError::Misfit(reason)) => {
            reason
        }
        Err(ToolError::Internal(reason)) => internal_error_message(call, &reason),
    };
    if effect.secret || effect.outside {
        tracing::debug!(tool = call.name, "asking without a preview, which failed");
        return Ok(Ok(CallPreview::default()));
    }
    Ok(Err(reason))
}

async fn ask_for_approval(
    cx: &TurnContext,
    call: &mut ToolRun,
    prepared: Box<dyn PreparedCall>,
    (approval, effect): (Approval, Effect),
    locations: Vec<FileLocation>,
    place: &CallPlace<'_>,
) -> Result<Permission, TurnStopped> {
    let mut waiting = call.to_update(ToolCallStatus::AwaitingApproval);
    waiting.diff.clone_from(&approval.diff);
    waiting.locations = locations;
    if call.note.is_some() {
        // The user approves the arguments as the hook changed them.
        waiting.input = call.input.as_ref().ok().cloned();
    }
    cx.link.emit_event(Event::ToolCall(waiting)).await?;
    let approved = effect.clone();
    let answer = (cx.link).request_approval(approval, effect, call.uncheckpointed);
    // Only now: the next call sends its question after this one.
    place.mark_asked();
    match answer.await? {
        denial if denial.kind == DecisionKind::Deny => {
            let reason = format!("{}\n{AFTER_DENIAL}", denial.describe_denial());
            Ok(Permission::Refused(ToolCallStatus::Denied, reason))
        }
        Decision {
            input: Some(edited), ..
        } => {
            call.input = Ok(edited);
            match prepare_call(cx, call) {
                Ok(prepared) => grant_approved(cx, call, prepared, None).await,
                Err(reason) => Ok(Permission::Invalid(reason)),
            }
        }
        Decision { input: None, .. } => grant_approved(cx, call, prepared, Some(&approved)).await,
    }
}

/// Grants a call that the user allowed. A denying rule still denies.
///
/// If the user has edited its arguments, `shown` is `None`. Otherwise, the call must touch what was shown and nothing
/// more: meanwhile, a link may have been swapped, or an earlier call may have changed files.
async fn grant_approved(
    cx: &TurnContext,
    call: &mut ToolRun,
    prepared: Box<dyn PreparedCall>,
    shown: Option<&Effect>,
) -> Result<Permission, TurnStopped> {
    let effect = match resolve_effect(cx, call, prepared.as_ref()).await {
        Ok(effect) => effect,
        Err(refused) => return Ok(refused),
    };
    if shown.is_some_and(|shown| !effect.stays_within(shown)) {
        let reason = "the files of this call changed while it waited; read them again";
        return Ok(Permission::Invalid(reason.to_owned()));
    }
    let judgement = cx.link.judge_effect(&call.name, effect.clone(), None).await?;
    if shown.is_none() {
        call.sandbox = judgement.sandbox;
    }
    if let Some(reason) = refuse_without_sandbox(cx, &effect, call.sandbox).await {
        return Ok(Permission::Refused(ToolCallStatus::Failed, reason));
    }
    match judgement.verdict {
        // The user has decided about exactly this call, so a rule that asks has its answer.
        Verdict::Allow { .. } | Verdict::Ask { .. } => {
            call.approved = Some(effect.clone());
            Ok(grant_permission(call, prepared, effect))
        }
        Verdict::Deny { reason } => Ok(Permission::Refused(ToolCallStatus::Denied, reason)),
    }
}

/// Grants the call, and binds it to the paths that were judged.
fn grant_permission(call: &mut ToolRun, prepared: Box<dyn PreparedCall>, effect: Effect) -> Permission {
    call.judged = Some(effect.paths.into());
    call.narrowed = effect.narrowed;
    Permission::Granted(prepared)
}

async fn resolve_effect(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: &dyn PreparedCall,
) -> Result<Effect, Permission> {
    let mut effect = declared_effect(cx, call, prepared)?;
    if effect.foreign.is_some() {
        return Ok(effect);
    }
    if cx.settings.sandbox.enabled
        && effect.relies_on_sandbox()
        && detect_method(cx).await.level() != SandboxLevel::Full
    {
        // It may do anything, whatever its tool declares.
        effect.kind = EffectKind::Execute;
    }
    // Before anything reads the files: the preview, and the call itself.
    let sync = cx.services.editor.sync_documents(&cx.session, &effect.paths);
    tokio::select! { biased;
        () = cx.cancel.cancelled() => {}
        () = sync => {}
    }
    effect = complete_effect(cx, call, prepared, effect).await?;
    if effect.kind == EffectKind::Execute
        && let Some(files) = command_files(&effect.subject)
    {
        let context = tool_context(cx, call, None);
        let found = run_blocking(move || context.workspace.look_up_files(&context.cwd, &files));
        // Without findings, no part of the command runs unasked.
        effect.findings = found.await.ok();
        if call.name == Bash::NAME
            && effect.confinement != Confinement::Declined
            && let Some(findings) = &mut effect.findings
        {
            effect.narrowed = leave_out_secrets(&effect.subject, findings).map(Arc::new);
        }
    }
    if effect.kind == EffectKind::Execute {
        effect.confinement = find_confinement(cx, &effect).await;
        effect.losses = find_command_losses(cx, call, &effect, prepared).await?;
    }
    Ok(effect)
}

/// Looks for what a command would make disappear for good; a cancel does not wait for that.
async fn find_command_losses(
    cx: &TurnContext,
    call: &ToolRun,
    effect: &Effect,
    prepared: &dyn PreparedCall,
) -> Result<Option<Losses>, Permission> {
    let command = approval::find_command_losses(&effect.subject);
    if command.targets.is_empty() {
        return Ok(None);
    }
    let context = tool_context(cx, call, None);
    let is_recorded = !prepared.goes_on_afterwards();
    let looking = run_blocking(move || find_losses(&context, &command, is_recorded));
    let found = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Permission::halted()),
        found = looking => found,
    };
    // After a panic, which has been reported, anything may be lost.
    Ok(Some(found.unwrap_or_else(|_| Losses {
        is_partial: true,
        ..Losses::default()
    })))
}

/// Returns how a command would run. Its declared effect says whether its call or its tool asks for no sandbox.
async fn find_confinement(cx: &TurnContext, declared: &Effect) -> Confinement {
    if !cx.settings.sandbox.enabled || declared.sandbox == Some(SandboxPolicy::Off) {
        return Confinement::None;
    }
    if declared.confinement == Confinement::Declined {
        return declared.confinement;
    }
    // With the open network, it could send what it reads. What the proxy lets through, the user has allowed.
    if cx.settings.sandbox.network == SandboxNetwork::Open {
        return Confinement::None;
    }
    match detect_method(cx).await.level() {
        SandboxLevel::Full => Confinement::Sandboxed,
        SandboxLevel::Partial | SandboxLevel::None => Confinement::None,
    }
}

async fn detect_method(cx: &TurnContext) -> SandboxMethod {
    cx.workspace.shared().sandbox().detect().await.method
}

/// Returns why a command must not run although it may: the settings require a sandbox that it would not have.
async fn refuse_without_sandbox(cx: &TurnContext, effect: &Effect, policy: SandboxPolicy) -> Option<String> {
    let settings = &cx.settings.sandbox;
    if !settings.enabled || !settings.required || effect.kind != EffectKind::Execute {
        return None;
    }
    if effect.confinement == Confinement::Declined {
        let reason = "not run: the user's settings require the sandbox ([sandbox] required), so no command runs outside \
                      of it; call again without outside_sandbox, or tell the user";
        return Some(reason.to_owned());
    }
    if policy == SandboxPolicy::Off || effect.foreign.is_some() {
        return None;
    }
    let detected = cx.workspace.shared().sandbox().detect().await;
    let refused = detected.check_required(true).err()?;
    Some(format!("cannot set up the sandbox: {refused}"))
}

/// Says how a call's program would run, for the user; `None` if it has none or the sandbox is not enabled.
async fn describe_confinement(cx: &TurnContext, effect: &Effect, policy: SandboxPolicy) -> Option<String> {
    if !cx.settings.sandbox.enabled || !effect.has_program {
        return None;
    }
    // The program of an MCP server runs already, as its own settings say.
    let (subject, policy) = match effect.foreign {
        Some(_) => ("its server ", effect.sandbox.unwrap_or(SandboxPolicy::Off)),
        None => ("", policy),
    };
    let method = detect_method(cx).await;
    let place = match (policy, method.level()) {
        (SandboxPolicy::Off, _) => "outside the sandbox".to_owned(),
        (_, SandboxLevel::None) => "outside the sandbox, which does not work here".to_owned(),
        (_, SandboxLevel::Partial | SandboxLevel::Full) => {
            let level = method.describe(cx.settings.sandbox.network);
            let limit = match policy {
                SandboxPolicy::ReadOnly => "read-only",
                SandboxPolicy::Workspace | SandboxPolicy::Off => "writes in the workspace",
            };
            format!("in the sandbox ({level}, {limit})")
        }
    };
    Some(format!("{subject}runs {place}"))
}

/// Lets the tool complete its effect; a cancel does not wait for that.
async fn complete_effect(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: &dyn PreparedCall,
    effect: Effect,
) -> Result<Effect, Permission> {
    let context = tool_context(cx, call, None);
    let completed = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Permission::halted()),
        completed = catch_tool_panic(prepared.complete_effect(effect, &context)) => completed,
    };
    completed.map_err(|error| refuse_unknown_effect(call, error))
}

fn declared_effect(
    cx: &TurnContext,
    call: &ToolRun,
    prepared: &dyn PreparedCall,
) -> Result<Effect, Permission> {
    let context = tool_context(cx, call, None);
    std::panic::catch_unwind(AssertUnwindSafe(|| prepared.predict_effect(&context)))
        .unwrap_or_else(|payload| Err(ToolError::Internal(panic_text(payload.as_ref()))))
        .map_err(|error| refuse_unknown_effect(call, error))
}

fn refuse_unknown_effect(call: &ToolRun, error: ToolError) -> Permission {
    let reason = match error {
        ToolError::WrongInput(reason) | ToolError::Misfit(reason) => return Permission::Invalid(reason),
        ToolError::Internal(reason) => internal_error_message(call, &reason),
        ToolError::Reported(_) | ToolError::Cancelled | ToolError::CutShort(_) => error.to_string(),
    };
    Permission::Refused(ToolCallStatus::Failed, reason)
}
