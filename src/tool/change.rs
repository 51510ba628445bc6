//! How `write_file` and `edit_file` change a file: one at a time per file, never what the model has not
//! seen, never under a person's unsaved text (R-TOOL-3). Where the file is open in the editor it is changed there:
//! see `editor_edit`.
//!
//! What may be changed: `edit_file` needs no reading first, since the old text has to match exactly; a file
//! that was read or written before must still have the text that the model knows, else the call is refused
//! with the present text. `write_file` replaces all of a file, so an existing one must have been read.

use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::{Effect, EffectKind, FileChange, FileState};
use crate::workspace::diff::{Diff, Sides, build_unified_diff};
use crate::workspace::text_file::TextFile;
use crate::workspace::{Buffer, LoadError, Resolved, SeenVersion, checkpoint, watch, write};

use super::editor_edit::{self, InEditor};
use super::files::{self, Numbered, build_location, count_lines, fail_with_message};
use super::{Preview, ToolContext, ToolError, ToolOutput};

/// Most of a changed file's text that a refusal shows, in bytes.
const MAX_SHOWN: usize = 16 << 10;

/// What a file was and what it shall be.
pub(super) struct Change {
    /// None when it does not exist yet.
    pub(super) before: Option<TextFile>,
    /// The new content.
    pub(super) after: TextFile,
    /// What is said of it when it is done, before the counts of lines.
    pub(super) done: String,
}

/// What a change is worked out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To be shown to the person who is asked. What is wrong with it reaches the model only where the model
    /// may read without asking.
    Show,
    /// To be made.
    Make,
}

/// Works out a change; touches nothing but the log of what was read.
pub(super) trait EditPlan:
    FnOnce(&ToolContext, &Resolved, Target) -> Result<Change, ToolError> + Send + 'static
{
}

impl<F: FnOnce(&ToolContext, &Resolved, Target) -> Result<Change, ToolError> + Send + 'static> EditPlan
    for F
{
}

pub(super) fn predict_effect(cx: &ToolContext, path: &str) -> Result<Effect, ToolError> {
    let target = cx.resolve_path(path)?;
    Ok(files::build_effect(EffectKind::Write, &[target]))
}

/// What the change would be, for the person who is asked.
pub(super) async fn build_preview(
    cx: &ToolContext,
    path: String,
    plan: impl EditPlan,
) -> Result<Preview, ToolError> {
    let inner = cx.clone();
    files::run_blocking(cx, move |_| {
        let target = inner.resolve_path(&path)?;
        let change = plan(&inner, &target, Target::Show)?;
        Ok(Preview {
            diff: Some(change.compute_diff(&target).text.into()),
            locations: vec![build_location(&target.absolute, None)],
        })
    })
    .await
}

/// Makes the change.
pub(super) async fn apply_plan(
    cx: &ToolContext,
    path: String,
    plan: impl EditPlan,
) -> Result<ToolOutput, ToolError> {
    let target = cx.resolve_path(&path)?;
    let _only_writer = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        guard = cx.workspace.lock(&target.absolute) => guard,
    };
    let inner = cx.clone();
    let planned = files::run_blocking(cx, move |stop| {
        let change = plan(&inner, &target, Target::Make)?;
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if let Some(same) = change.nothing_to_do(&inner, &target) {
            return Ok(PlannedChange::Done(same));
        }
        let kept = change.store_contents(&inner, &target)?;
        let there = editor_edit::route_to_editor(&inner, &target, &change)?;
        Ok(PlannedChange::ToMake(Box::new(ToMake {
            target,
            change,
            kept,
            there,
        })))
    });
    match planned.await? {
        PlannedChange::Done(output) => Ok(output),
        PlannedChange::ToMake(change) => change.apply_change(cx).await,
    }
}

/// A change that is worked out, with what is kept of it.
struct ToMake {
    target: Resolved,
    change: Change,
    kept: Option<FileChange>,
    there: Option<InEditor>,
}

impl ToMake {
    async fn apply_change(self, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Self {
            target,
            change,
            kept,
            there,
        } = self;
        if let Some(kept) = &kept
            && let Err(why) = cx.checkpoints.record_changes(vec![kept.clone()]).await
            && !cx.unkept
        {
            return not_kept(&target, &why);
        }
        let path = target.absolute.clone();
        let output = match there {
            Some(there) => there.apply_edit(cx).await,
            None => {
                let inner = cx.clone();
                files::run_blocking(cx, move |_| {
                    // While it was kept, nobody else may have written it.
                    let now = load_editable_file(&inner, &target)?;
                    if now != change.before {
                        let text = now.map(|file| file.text).unwrap_or_default();
                        return Err(refuse_with_current_text(
                            &inner,
                            &target,
                            &text,
                            "has changed in the meantime; nothing was written",
                        ));
                    }
                    change.write(&inner, &target)
                })
                .await
            }
        };
        match (&output, kept) {
            (Ok(_), Some(kept)) => as_it_came(cx, path, kept).await,
            (Err(_), Some(kept)) => not_made(cx, path, kept).await,
            (_, None) => {}
        }
        output
    }
}

/// An editor may have made more of it (a formatter, when it was saved): that too can be taken back.
async fn as_it_came(cx: &ToolContext, path: PathBuf, mut kept: FileChange) {
    let inner = cx.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let file = inner.workspace.load_file(&path).ok()?.file;
        let bytes = file.to_bytes();
        inner.checkpoints.store_content(&bytes).ok()?;
        let state = checkpoint::of_bytes(&bytes, checkpoint::mode_of(&path));
        if let Some(stamp) = watch::read_stamp(&path) {
            inner
                .workspace
                .known_files()
                .record_state(&path, stamp, state.clone());
        }
        Some(state)
    });
    if let Ok(Some(state)) = looked.await
        && state != kept.after
    {
        kept.after = state;
        // It is recorded as it was meant to be; that is nearly as good.
        let _ = cx.checkpoints.record_changes(vec![kept]).await;
    }
}

/// It failed: unless something was made of it all the same, it was no change.
async fn not_made(cx: &ToolContext, path: PathBuf, kept: FileChange) {
    let looked = tokio::task::spawn_blocking(move || checkpoint::inspect_file(&path));
    let made = match looked.await {
        Ok(Ok(found)) => checkpoint::same_content(&found.state, &kept.after),
        _ => true,
    };
    if !made {
        let after = kept.before.clone();
        // What is recorded of it is harmless.
        let _ = cx
            .checkpoints
            .record_changes(vec![FileChange { after, ..kept }])
            .await;
    }
}

fn not_kept<T>(target: &Resolved, why: &str) -> Result<T, ToolError> {
    fail_with_message(format!(
        "`{}` was not changed, because its old content could not be kept ({why}); try again",
        target.display
    ))
}

/// What is left to do once a change was worked out.
enum PlannedChange {
    Done(ToolOutput),
    ToMake(Box<ToMake>),
}

impl Change {
    /// Keeps what the file was and shall be; none where that cannot be done and the person knows.
    fn store_contents(&self, cx: &ToolContext, target: &Resolved) -> Result<Option<FileChange>, ToolError> {
        let path = &target.absolute;
        let keep = |file: &TextFile| {
            let bytes = file.to_bytes();
            cx.checkpoints.store_content(&bytes)?;
            Ok::<_, String>(checkpoint::of_bytes(&bytes, checkpoint::mode_of(path)))
        };
        let kept = || {
            let before = self.before.as_ref().map(keep).transpose()?;
            Ok::<_, String>(FileChange {
                path: path.to_str().ok_or("its name is not UTF-8")?.to_owned(),
                before: before.unwrap_or(FileState::Absent),
                after: keep(&self.after)?,
            })
        };
        match kept() {
            Ok(kept) => Ok(Some(kept)),
            Err(_) if cx.unkept => Ok(None),
            Err(why) => not_kept(target, &why),
        }
    }

    fn compute_diff(&self, target: &Resolved) -> Diff {
        let (sides, before) = match &self.before {
            Some(file) => (Sides::Both, file.text.as_str()),
            None => (Sides::OnlyNew, ""),
        };
        build_unified_diff(&target.display, sides, before, &self.after.text)
    }

    fn nothing_to_do(&self, cx: &ToolContext, target: &Resolved) -> Option<ToolOutput> {
        (self.before.as_ref() == Some(&self.after)).then(|| {
            cx.workspace
                .read_log()
                .record_text(&target.absolute, &self.after.text);
            ToolOutput::text(format!("{} already has this text", target.display))
        })
    }

    fn write(self, cx: &ToolContext, target: &Resolved) -> Result<ToolOutput, ToolError> {
        let output = self.build_output(target);
        write::write(&target.absolute, &self.after.to_bytes())?;
        cx.workspace
            .read_log()
            .record_text(&target.absolute, &self.after.text);
        Ok(output)
    }

    /// What is told of it when it is made.
    pub(super) fn build_output(&self, target: &Resolved) -> ToolOutput {
        let diff = self.compute_diff(target);
        let line = first_changed_line(
            self.before.as_ref().map_or("", |file| &file.text),
            &self.after.text,
        );
        ToolOutput {
            text: format!("{} (+{} −{} lines)", self.done, diff.added, diff.removed),
            diff: Some(Arc::from(diff.text)),
            locations: vec![build_location(&target.absolute, Some(line))],
            ..ToolOutput::default()
        }
    }
}

/// The file as it is now, if it may be changed; none when it does not exist.
pub(super) fn load_editable_file(cx: &ToolContext, target: &Resolved) -> Result<Option<TextFile>, ToolError> {
    let path = &target.absolute;
    match cx.workspace.overlay().lookup_buffer(path) {
        Buffer::Saved => {}
        Buffer::Unsaved(_) if cx.editor.abilities().apply => {}
        Buffer::Unsaved(_) => return cannot_edit_unsaved(target, "has unsaved changes in the editor"),
        Buffer::Unknown => {
            return fail_with_message(format!(
                "`{}` may have unknown unsaved changes in the editor; ask the user to save it, then try again",
                target.display
            ));
        }
    }
    match cx.workspace.load_file(path) {
        Ok(loaded) => Ok(Some(loaded.file)),
        Err(LoadError::Missing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The refusal of a change under unsaved text, by a client that takes no edits.
pub(super) fn cannot_edit_unsaved<T>(target: &Resolved, why: &str) -> Result<T, ToolError> {
    fail_with_message(format!(
        "`{}` {why}, and this editor does not accept edits; ask the user to save it, then try again",
        target.display
    ))
}

/// Refuses what the model does not know as it is, with the present text.
pub(super) fn must_be_unchanged(
    cx: &ToolContext,
    target: &Resolved,
    file: &TextFile,
    aim: Target,
) -> Result<SeenVersion, ToolError> {
    let reads = cx.workspace.read_log();
    let seen = reads.compare_text(&target.absolute, &file.text);
    if seen != SeenVersion::Changed {
        return Ok(seen);
    }
    // The model will not see it.
    if aim == Target::Show && (target.secret || !target.inside) {
        return fail_with_message(changed_text(target, &file.text, CHANGED).0);
    }
    Err(refuse_with_current_text(cx, target, &file.text, CHANGED))
}

const CHANGED: &str = "has changed since you read it; nothing was written";

/// A refusal with the present text, which the model has then seen, if all of it fits.
pub(super) fn refuse_with_current_text(
    cx: &ToolContext,
    target: &Resolved,
    now: &str,
    why: &str,
) -> ToolError {
    let (refusal, whole) = changed_text(target, now, why);
    if whole {
        cx.workspace.read_log().record_text(&target.absolute, now);
    }
    ToolError::Reported(refusal)
}

/// The words of a refusal with the present text, and whether that is all of it.
fn changed_text(target: &Resolved, now: &str, why: &str) -> (String, bool) {
    let mut shown = Numbered::default();
    for (number, line) in (1..).zip(now.lines()) {
        shown.push(number, line, line.len(), MAX_SHOWN);
        if shown.full {
            break;
        }
    }
    let mut refusal = format!("`{}` {why}. Its text now:\n{}", target.display, shown.text);
    if shown.full {
        refusal.push_str(&format!(
            "[lines 1 to {} of {}; read the rest with read_file first]",
            shown.last,
            count_lines(now)
        ));
    }
    (refusal, !shown.full)
}

fn first_changed_line(before: &str, after: &str) -> usize {
    let same = before
        .lines()
        .zip(after.lines())
        .take_while(|(a, b)| a == b)
        .count();
    (same + 1).min(count_lines(after).max(1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::ToolHarness;
    use super::*;

    #[tokio::test]
    async fn a_cancel_before_the_write_leaves_the_file() {
        let bench = ToolHarness::new();
        bench.write("a.txt", "one\n");
        let made = apply_plan(&bench.cx, "a.txt".to_owned(), |cx, target, _| {
            cx.cancel.cancel();
            Ok(Change {
                before: load_editable_file(cx, target)?,
                after: TextFile::default(),
                done: String::new(),
            })
        });
        assert!(matches!(made.await, Err(ToolError::Cancelled)));
        assert_eq!(bench.read("a.txt"), "one\n");
    }

    /// What a preview of a secret file finds wrong does not reach the model: it has not seen the file by that.
    #[tokio::test]
    async fn a_preview_of_a_secret_file_is_no_reading_of_it() {
        let bench = ToolHarness::new();
        bench.write(".env", "A=1\n");
        bench
            .call_tool("read_file", serde_json::json!({"path": ".env"}))
            .await
            .unwrap();
        bench.write(".env", "A=2\n");
        let args = serde_json::json!({"path": ".env", "content": "A=3\n"});
        bench
            .preview_change("write_file", args.clone())
            .await
            .unwrap_err();
        let refusal = bench.call_expecting_error("write_file", args).await;
        assert!(refusal.contains("changed since you read it"), "{refusal}");
        assert_eq!(bench.read(".env"), "A=2\n");
    }

    #[tokio::test]
    async fn a_panic_is_this_calls_failure() {
        let bench = ToolHarness::new();
        let plan =
            |_: &ToolContext, _: &Resolved, _: Target| -> Result<Change, ToolError> { panic!("a bug") };
        let error = apply_plan(&bench.cx, "a.txt".to_owned(), plan).await.unwrap_err();
        assert_eq!(error.to_string(), "internal error: a bug");
        // Its lock is free again.
        drop(bench.cx.workspace.lock(&bench.path("a.txt")).await);
    }
}
