//! Deletes a file for `apply_patch` (R-TOOL-3): what it was is stored first, and unsaved text is never lost.
//!
//! Must not decide which file goes. Changes of content are `change`'s.

use std::path::Path;

use super::change::{self, PlanPurpose};
use super::command_record::WriteClaim;
use super::content_change::not_kept;
use super::files::{self, build_location};
use super::output::{fail_with_message, refuse_input};
use super::{ToolContext, ToolError, ToolOutput};
use crate::domain::{FileChange, FileState};
use crate::workspace::checkpoint::{self, FoundFile};
use crate::workspace::diff::{Diff, DiffSides, build_file_header, build_unified_diff};
use crate::workspace::text_file::TextFile;
use crate::workspace::{Buffer, ResolvedPath};

/// A file that may be deleted, as it is now.
pub(super) struct FileRemoval {
    found: FoundFile,
    pub(super) file: TextFile,
}

impl FileRemoval {
    /// Reads the file that `given` names, if it may be deleted. Blocks.
    pub(super) fn plan(
        cx: &ToolContext,
        given: &str,
        target: &ResolvedPath,
        aim: PlanPurpose,
    ) -> Result<Self, ToolError> {
        let name = &target.display;
        if is_link(cx, given, target)? {
            return refuse_input(format!(
                "`{name}` is reached through a link, so it is not deleted"
            ));
        }
        match cx.workspace.overlay().lookup_buffer(&target.absolute) {
            Buffer::Saved => {}
            Buffer::Unsaved(_) | Buffer::Unknown => {
                return refuse_input(format!(
                    "`{name}` has unsaved changes in the editor, so it is not deleted; ask the user to save or close \
                     it, then try again"
                ));
            }
        }
        let found = checkpoint::inspect_file(&target.absolute)
            .map_err(|error| ToolError::Reported(format!("cannot read `{name}`: {error}")))?;
        let bytes = match (&found.state, &found.bytes) {
            (FileState::Absent, _) => {
                return refuse_input(format!(
                    "`{name}` does not exist{}",
                    files::suggest_similar_paths(cx, &target.absolute)
                ));
            }
            (FileState::File { .. }, Some(bytes)) => bytes.clone(),
            _ => return refuse_input(format!("`{name}` is not a regular file, so it is not deleted")),
        };
        let Ok(file) = TextFile::from_any_bytes(bytes) else {
            return refuse_input(format!("`{name}` is not a text file; delete it with a command"));
        };
        change::check_unchanged(cx, target, &file, aim)?;
        Ok(Self { found, file })
    }

    /// Returns the permission bits of the file.
    pub(super) fn mode(&self) -> u32 {
        match self.found.state {
            FileState::File { mode, .. } => mode,
            _ => 0,
        }
    }

    pub(super) fn compute_diff(&self, target: &ResolvedPath) -> Diff {
        if self.file.text.is_empty() {
            return Diff {
                text: build_file_header(&target.display, DiffSides::OnlyOld),
                ..Diff::default()
            };
        }
        build_unified_diff(&target.display, DiffSides::OnlyOld, &self.file.text, "")
    }

    /// Stores the content; `None` if that fails and the user has approved the call anyway.
    fn store_content(
        &self,
        cx: &ToolContext,
        target: &ResolvedPath,
    ) -> Result<Option<FileChange>, ToolError> {
        let build_record = || {
            cx.checkpoints
                .store_content(self.found.bytes.as_deref().unwrap_or_default())?;
            Ok::<_, String>(FileChange {
                path: target
                    .absolute
                    .to_str()
                    .ok_or("its name is not UTF-8")?
                    .to_owned(),
                before: self.found.state.clone(),
                after: FileState::Absent,
            })
        };
        match build_record() {
            Ok(record) => Ok(Some(record)),
            Err(_) if cx.allows_uncheckpointed => Ok(None),
            Err(reason) => not_kept(target, &reason),
        }
    }
}

/// Deletes the file that `given` names. With `expected`, only if that is still its text.
pub(super) async fn remove_file(
    cx: &ToolContext,
    given: String,
    expected: Option<String>,
) -> Result<ToolOutput, ToolError> {
    let target = cx.resolve_path(&given)?;
    // Held from reading to deleting, as for an edit (R-TOOL-1).
    let (claim, _) = WriteClaim::take(cx, &target.absolute).await?;
    let (inner, looked_up) = (cx.clone(), target.clone());
    let planned = files::run_blocking(cx, move |stop| {
        let removal = FileRemoval::plan(&inner, &given, &looked_up, PlanPurpose::Make)?;
        if expected.is_some_and(|expected| expected != removal.file.text) {
            return fail_with_message(format!("`{}` has just changed", looked_up.display));
        }
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let record = removal.store_content(&inner, &looked_up)?;
        Ok((removal, record))
    });
    let (removal, record) = planned.await?;
    if let Some(record) = &record
        && let Err(reason) = cx.checkpoints.record_changes(vec![record.clone()]).await
        && !cx.allows_uncheckpointed
    {
        return not_kept(&target, &reason);
    }
    let diff = removal.compute_diff(&target);
    let (path, name) = (target.absolute.clone(), target.display.clone());
    let removed = files::run_blocking(cx, move |_| {
        checkpoint::restore_file_state(&path, &FileState::Absent, None)
            .map_err(|reason| ToolError::Reported(format!("cannot delete `{name}`: {reason}")))
    });
    if let Err(error) = removed.await {
        if let Some(record) = record {
            change::record_failed_change(cx, target.absolute, record).await;
        }
        return Err(error);
    }
    claim.settle().await;
    Ok(ToolOutput {
        text: format!("deleted {} (−{} lines)", target.display, diff.removed),
        diff: Some(diff.text.into()),
        locations: vec![build_location(&target.absolute, None)],
        ..ToolOutput::default()
    })
}

/// Returns whether the last part of the path as given is a link, so that the file is elsewhere.
fn is_link(cx: &ToolContext, given: &str, target: &ResolvedPath) -> Result<bool, ToolError> {
    let path = Path::new(given);
    let Some(name) = path.file_name() else {
        return Ok(true);
    };
    let parent = path
        .parent()
        .and_then(Path::to_str)
        .filter(|parent| !parent.is_empty());
    let parent = cx.workspace.resolve_path(&cx.cwd, parent.unwrap_or("."))?;
    Ok(parent.absolute.join(name) != target.absolute)
}
