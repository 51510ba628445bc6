//! Changes files for `write_file` and `edit_file` (R-TOOL-3).
//!
//! Changes a file one call at a time, never below a user's unsaved text. `edit_file` needs no earlier read, since the
//! old text must match. If the file is not as the model knows it, only exact matches are replaced, and the result says
//! what else has changed. `write_file` replaces a whole file, so an existing one must have been read and must still be
//! as the model knows it. Otherwise the call is refused with the current text.
//!
//! Must not compute the new text; the tools do. A file that is open in the editor is changed there, see `editor_edit`.

use std::path::PathBuf;

use super::command_record::WriteClaim;
use super::content_change::{
    ContentChange, changed_text, load_editable_file, not_kept, refuse_with_current_text,
};
use super::editor_edit::{self, EditorEdit};
use super::files::{self, build_location};
use super::new_errors;
use super::{CallPreview, ToolContext, ToolError, ToolOutput};
use crate::base::spawn::run_blocking;
use crate::domain::{Effect, EffectKind, FileChange};
use crate::workspace::text_file::TextFile;
use crate::workspace::{ResolvedPath, SeenVersion, checkpoint, file_stamp};

/// The purpose for which a change is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanPurpose {
    /// A preview for the user who approves. Its errors reach the model only if the model may read the file unasked.
    Show,
    /// The change itself.
    Make,
}

/// Computes a change without touching anything except the read log.
pub(super) trait EditPlan:
    FnOnce(&ToolContext, &ResolvedPath, PlanPurpose) -> Result<ContentChange, ToolError> + Send + 'static
{
}

impl<F: FnOnce(&ToolContext, &ResolvedPath, PlanPurpose) -> Result<ContentChange, ToolError> + Send + 'static>
    EditPlan for F
{
}

pub(super) fn predict_effect(cx: &ToolContext, path: &str) -> Result<Effect, ToolError> {
    let target = files::resolve_written_file(cx, path)?;
    Ok(files::build_effect(EffectKind::Write, &[target]))
}

/// Returns the diff of a change for the user who approves it.
pub(super) async fn build_preview(
    cx: &ToolContext,
    path: String,
    plan: impl EditPlan,
) -> Result<CallPreview, ToolError> {
    let inner = cx.clone();
    files::run_blocking(cx, move |_| {
        let target = inner.resolve_path(&path)?;
        let change = plan(&inner, &target, PlanPurpose::Show)?;
        Ok(CallPreview {
            diff: Some(change.compute_diff(&target).text.into()),
            locations: vec![build_location(&target.absolute, None)],
        })
    })
    .await
}

/// Computes and makes a change.
pub(super) async fn apply_plan(
    cx: &ToolContext,
    path: String,
    plan: impl EditPlan,
) -> Result<ToolOutput, ToolError> {
    let target = cx.resolve_path(&path)?;
    // Held from reading to writing: calls on the same file run one after the other (R-TOOL-1).
    let (claim, _) = WriteClaim::take(cx, &target.absolute).await?;
    let inner = cx.clone();
    let planned = files::run_blocking(cx, move |stop| {
        let change = plan(&inner, &target, PlanPurpose::Make)?;
        // The last moment at which a cancel stops the change; after it, a write to the disk finishes (R-CANCEL).
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if let Some(same) = change.nothing_to_do(&inner, &target) {
            return Ok(PlannedChange::Done(same));
        }
        // The old content is stored before anything changes, so that a revert can restore it (R-SESS-3).
        let record = change.store_contents(&inner, &target)?;
        let there = editor_edit::route_to_editor(&inner, &target, &change)?;
        Ok(PlannedChange::ToMake(Box::new(PlannedEdit {
            target,
            change,
            record,
            there,
        })))
    });
    match planned.await? {
        PlannedChange::Done(output) => Ok(output),
        PlannedChange::ToMake(change) => {
            let baseline = new_errors::record_errors(cx, vec![change.target.clone()]).await;
            let mut output = change.apply_change(cx).await?;
            claim.settle().await;
            if let Some(baseline) = baseline {
                baseline.add_new_errors(cx, &mut output).await;
            }
            Ok(output)
        }
    }
}

/// A computed change, with the record of its stored contents.
struct PlannedEdit {
    target: ResolvedPath,
    change: ContentChange,
    record: Option<FileChange>,
    there: Option<EditorEdit>,
}

impl PlannedEdit {
    async fn apply_change(self, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Self {
            target,
            change,
            record,
            there,
        } = self;
        // `unkept`: the user has approved the change although it cannot be undone (R-ERR-2).
        if let Some(record) = &record
            && let Err(reason) = cx.checkpoints.record_changes(vec![record.clone()]).await
            && !cx.allows_uncheckpointed
        {
            return not_kept(&target, &reason);
        }
        let path = target.absolute.clone();
        let output = match there {
            Some(there) => there.apply_edit(cx).await,
            None => write_file(cx, target, change).await,
        };
        match (&output, record) {
            (Ok(_), Some(record)) => record_final_state(cx, path, record).await,
            (Err(_), Some(record)) => record_failed_change(cx, path, record).await,
            (_, None) => {}
        }
        output
    }
}

/// Makes a change of a file that is not open in the editor.
async fn write_file(
    cx: &ToolContext,
    target: ResolvedPath,
    change: ContentChange,
) -> Result<ToolOutput, ToolError> {
    let is_new = change.before.is_none() && change.new_mode == 0;
    if is_new
        && cx.editor.abilities().create
        && let Some(output) = editor_edit::create_in_editor(cx, &target, &change).await?
    {
        return Ok(output);
    }
    let inner = cx.clone();
    files::run_blocking(cx, move |_| {
        // Someone else may have written the file while its contents were stored.
        let now = load_editable_file(&inner, &target)?;
        if now != change.before {
            let text = now.map(|file| file.text).unwrap_or_default();
            let problem = "has changed in the meantime; nothing was written";
            return Err(refuse_with_current_text(&inner, &target, &text, problem));
        }
        change.write(&inner, &target)
    })
    .await
}

/// Records what the file has become: an editor may have changed more (a formatter on save), which can be undone too.
async fn record_final_state(cx: &ToolContext, path: PathBuf, mut record: FileChange) {
    let inner = cx.clone();
    let looked = run_blocking(move || {
        let file = inner.workspace.load_file(&path).ok()?.file;
        let bytes = file.to_bytes();
        inner.checkpoints.store_content(&bytes).ok()?;
        let state = checkpoint::regular_file_state(&bytes, checkpoint::mode_of(&path));
        if let Some(stamp) = file_stamp::read_stamp(&path) {
            inner
                .workspace
                .known_files()
                .record_state(&path, stamp, state.clone());
        }
        Some(state)
    });
    if let Ok(Some(state)) = looked.await
        && state != record.after
    {
        record.after = state;
        // The change is already recorded as planned, which is nearly as good.
        let _ = cx.checkpoints.record_changes(vec![record]).await;
    }
}

/// Records a failed change as none, unless the file has the new content all the same.
pub(super) async fn record_failed_change(cx: &ToolContext, path: PathBuf, record: FileChange) {
    let looked = run_blocking(move || checkpoint::inspect_file(&path));
    let was_made = match looked.await {
        Ok(Ok(found)) => checkpoint::same_content(&found.state, &record.after),
        // If the file cannot be inspected, the change may have been made: keep the record.
        _ => true,
    };
    if !was_made {
        let after = record.before.clone();
        // If this fails, the record that remains is harmless.
        let _ = cx
            .checkpoints
            .record_changes(vec![FileChange { after, ..record }])
            .await;
    }
}

/// The result of planning a change.
enum PlannedChange {
    Done(ToolOutput),
    ToMake(Box<PlannedEdit>),
}

/// Refuses a file that has changed since the model knew it, showing the current text.
pub(super) fn check_unchanged(
    cx: &ToolContext,
    target: &ResolvedPath,
    file: &TextFile,
    aim: PlanPurpose,
) -> Result<SeenVersion, ToolError> {
    let read_log = cx.workspace.read_log();
    let seen_version = read_log.compare_text(&target.absolute, &file.text);
    if seen_version != SeenVersion::Changed {
        return Ok(seen_version);
    }
    Err(refuse_changed(cx, target, file, aim))
}

/// Refuses a change of a file that has changed since the model knew it.
pub(super) fn refuse_changed(
    cx: &ToolContext,
    target: &ResolvedPath,
    file: &TextFile,
    aim: PlanPurpose,
) -> ToolError {
    // The model does not receive this error, so it must not count as having seen the text.
    if aim == PlanPurpose::Show && (target.secret || !target.inside) {
        return ToolError::Misfit(changed_text(target, &file.text, CHANGED).0);
    }
    refuse_with_current_text(cx, target, &file.text, CHANGED)
}

const CHANGED: &str = "has changed since you read it; nothing was written";

#[cfg(test)]
mod tests {
    use super::super::testing::ToolHarness;
    use super::*;

    #[tokio::test]
    async fn a_cancel_before_the_write_leaves_the_file() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "one\n");
        let edit = apply_plan(&harness.cx, "a.txt".to_owned(), |cx, target, _| {
            cx.cancel.cancel();
            Ok(ContentChange {
                new_mode: 0,
                before: load_editable_file(cx, target)?,
                after: TextFile::default(),
                done: String::new(),
                notes: Vec::new(),
                is_known: true,
            })
        });
        assert!(matches!(edit.await, Err(ToolError::Cancelled)));
        assert_eq!(harness.read("a.txt"), "one\n");
    }

    /// An error in a preview of a secret file does not reach the model, so it does not count as a read.
    #[tokio::test]
    async fn a_preview_of_a_secret_file_does_not_count_as_a_read() {
        let harness = ToolHarness::new();
        harness.write(".env", "A=1\n");
        harness
            .call_tool("read_file", serde_json::json!({"path": ".env"}))
            .await
            .unwrap();
        harness.write(".env", "A=2\n");
        let args = serde_json::json!({"path": ".env", "content": "A=3\n"});
        harness
            .preview_change("write_file", args.clone())
            .await
            .unwrap_err();
        let refusal = harness.call_expecting_error("write_file", args).await;
        assert!(refusal.contains("changed since you read it"), "{refusal}");
        assert_eq!(harness.read(".env"), "A=2\n");
    }

    #[tokio::test]
    async fn a_panic_fails_only_the_call() {
        let harness = ToolHarness::new();
        let plan = |_: &ToolContext, _: &ResolvedPath, _: PlanPurpose| -> Result<ContentChange, ToolError> {
            panic!("a bug")
        };
        let error = apply_plan(&harness.cx, "a.txt".to_owned(), plan)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "internal error: a bug");
        // The lock is free again.
        drop(harness.cx.workspace.lock(&harness.path("a.txt")).await);
    }
}
