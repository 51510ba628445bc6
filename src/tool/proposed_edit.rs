//! Makes the edit that language servers propose for a call, of one file or of several (R-LANG).
//!
//! The language servers say once what to replace; [`super::change`] makes the changes, file by file, as for edits. All
//! files are approved together, and what was approved is what is made: in all files, or in none. Must not know what an
//! edit is for; the tools ask.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::change;
use super::content_change::{self, ContentChange, load_editable_file};
use super::files::{self, build_location};
use super::language::QueryTarget;
use super::new_errors;
use super::output::{fail_with_message, refuse_input};
use super::{CallPreview, DocumentEdits, ToolContext, ToolError, ToolOutput};
use crate::base::position;
use crate::domain::{Effect, EffectKind};
use crate::workspace::ResolvedPath;
use crate::workspace::diff::{DiffSides, build_unified_diff};
use crate::workspace::text_edits::TextEdit;
use crate::workspace::text_file::{TextFile, unix_lines, with_line_ends_of};

/// Most files that one call changes.
pub(super) const MAX_FILES: u32 = 500;
/// The longest diff that the model gets, in bytes.
const MAX_SHOWN_DIFF: usize = 8 << 10;

/// What the language servers proposed for a call.
#[derive(Debug, Default)]
pub(super) struct ProposedEdit(Mutex<EditState>);

#[derive(Debug, Default)]
struct EditState {
    /// `None` until they are asked.
    files: Option<Arc<[FileEdit]>>,
    /// Whether the user has seen the change.
    is_shown: bool,
}

/// The change of one file.
#[derive(Debug)]
pub(super) struct FileEdit {
    target: ResolvedPath,
    before: TextFile,
    after: TextFile,
    /// How many places change.
    pub(super) places: usize,
}

impl ProposedEdit {
    /// Completes the effect of a call whose arguments name one file. `request` asks the language servers.
    pub(super) async fn complete_effect(
        &self,
        cx: &ToolContext,
        effect: Effect,
        request: impl Future<Output = Result<Vec<FileEdit>, ToolError>>,
    ) -> Result<Effect, ToolError> {
        if effect.outside || effect.secret {
            // The language servers are asked before anybody else can be.
            return refuse_input("a file outside the workspace, or with secrets, is only changed by edits");
        }
        let edited = self.find(cx, request).await?;
        if edited.is_empty() {
            let kind = EffectKind::Read;
            return Ok(Effect { kind, ..effect });
        }
        let targets: Vec<ResolvedPath> = edited.iter().map(|file| file.target.clone()).collect();
        Ok(files::build_effect(EffectKind::Write, &targets))
    }

    pub(super) async fn preview(
        &self,
        cx: &ToolContext,
        request: impl Future<Output = Result<Vec<FileEdit>, ToolError>>,
    ) -> Result<CallPreview, ToolError> {
        let edited = self.find(cx, request).await?;
        let targets = edited.iter().map(|file| &file.target.absolute);
        let locations = targets.map(|path| build_location(path, None)).collect();
        let diff = compute_diff(cx, edited).await?;
        self.lock().is_shown = true;
        Ok(CallPreview {
            diff: Some(diff.into()),
            locations,
        })
    }

    /// Returns the changes, with the file of the call first. The language servers are asked once, and again if a file
    /// changes before the user has seen the change. After that, the call is refused: only what was approved is made.
    pub(super) async fn find(
        &self,
        cx: &ToolContext,
        request: impl Future<Output = Result<Vec<FileEdit>, ToolError>>,
    ) -> Result<Arc<[FileEdit]>, ToolError> {
        let (known, is_shown) = {
            let state = self.lock();
            (state.files.clone(), state.is_shown)
        };
        if let Some(known) = known {
            let (inner, checked) = (cx.clone(), known.clone());
            let changed = files::run_blocking(cx, move |_| {
                let is_changed = |edit: &&FileEdit| {
                    let now = inner.workspace.load_file(&edit.target.absolute);
                    now.ok().is_none_or(|now| now.file != edit.before)
                };
                let changed = checked.iter().find(is_changed);
                Ok(changed.map(|edit| edit.target.display.clone()))
            });
            match changed.await? {
                None => return Ok(known),
                Some(file) if is_shown => {
                    return refuse_input(format!(
                        "`{file}` has changed since the user was asked; nothing was changed. Call the tool again"
                    ));
                }
                Some(_) => {}
            }
        }
        let edited: Arc<[FileEdit]> = request.await?.into();
        self.lock().files = Some(edited.clone());
        Ok(edited)
    }

    fn lock(&self) -> MutexGuard<'_, EditState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Computes the changes of files from what language servers answered about `asked`. Files that stay as they are are left
/// out. `allow_edit` judges an edit of a text: the place, and what is put there.
pub(super) async fn compute_changes(
    cx: &ToolContext,
    asked: QueryTarget,
    found: Vec<DocumentEdits>,
    allow_edit: impl Fn(&str, Range<usize>, &str) -> bool + Send + 'static,
) -> Result<Vec<FileEdit>, ToolError> {
    if found.len() > MAX_FILES as usize {
        return refuse_input(format!(
            "more than {MAX_FILES} files would change; edit them by a command"
        ));
    }
    let inner = cx.clone();
    files::run_blocking(cx, move |_| {
        let mut edited = Vec::with_capacity(found.len());
        for DocumentEdits { uri, edits } in found {
            let target = inner.workspace.resolve_path(&inner.cwd, &uri)?;
            if !target.inside {
                return refuse_input(format!(
                    "the change also concerns `{}`, which is outside the workspace; edit the files instead",
                    target.display
                ));
            }
            let Some(before) = load_editable_file(&inner, &target)? else {
                return unknown_text(&target);
            };
            if target.absolute == asked.file.absolute && before.text != asked.text {
                return unknown_text(&target);
            }
            let places = edits.len();
            let text = apply_edits(&inner, &target, &before.text, edits, &allow_edit)?;
            let after = content_change::with_text(&target, &before, text)?;
            edited.push(FileEdit {
                target,
                before,
                after,
                places,
            });
        }
        edited.sort_by_key(|edit| {
            let path = &edit.target.absolute;
            (*path != asked.file.absolute, path.clone())
        });
        let is_twice = |pair: &[FileEdit]| pair[0].target.absolute == pair[1].target.absolute;
        if edited.windows(2).any(is_twice) {
            return refuse_input("the language servers named a file twice; edit the files instead");
        }
        edited.retain(|edit| edit.before != edit.after);
        Ok(edited)
    })
    .await
}

fn unknown_text<T>(target: &ResolvedPath) -> Result<T, ToolError> {
    fail_with_message(format!(
        "`{}` is not as the language servers know it; try again",
        target.display
    ))
}

fn apply_edits(
    cx: &ToolContext,
    target: &ResolvedPath,
    before: &str,
    mut edits: Vec<TextEdit>,
    allow_edit: impl Fn(&str, Range<usize>, &str) -> bool,
) -> Result<String, ToolError> {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    if (edits.windows(2)).any(|pair| pair[0].range.end > pair[1].range.start) {
        return fail_with_message(format!(
            "the language servers replace a part of `{}` twice; edit the files instead",
            target.display
        ));
    }
    let encoding = cx.workspace.overlay().position_encoding();
    let mut text = before.to_owned();
    // From the end, so that the positions before stay valid.
    for edit in edits.iter().rev() {
        let start = position::offset_of(&text, edit.range.start, encoding);
        let end = position::offset_of(&text, edit.range.end, encoding);
        if start > end || edit.range.start.line as usize >= before.split('\n').count() {
            return unknown_text(target);
        }
        if !allow_edit(&text, start..end, &edit.text) {
            return refuse_input(format!(
                "the language servers also change other text than the symbol's name, in line {} of `{}`; edit the files \
                 instead",
                edit.range.start.line + 1,
                target.display
            ));
        }
        text.replace_range(start..end, &with_line_ends_of(&edit.text, before));
    }
    Ok(text)
}

async fn compute_diff(cx: &ToolContext, edited: Arc<[FileEdit]>) -> Result<String, ToolError> {
    files::run_blocking(cx, move |_| {
        let diff_file = |edit: &FileEdit| {
            let (before, after) = (&edit.before.text, &edit.after.text);
            build_unified_diff(&edit.target.display, DiffSides::Both, before, after).text
        };
        Ok(edited.iter().map(diff_file).collect())
    })
    .await
}

/// Makes the changes. If one fails, those before it are undone. `shows_diff`: the model cannot know the new text without
/// its diff.
pub(super) async fn apply_changes(
    cx: &ToolContext,
    edited: Arc<[FileEdit]>,
    headline: String,
    shows_diff: bool,
) -> Result<ToolOutput, ToolError> {
    for edit in edited.iter() {
        cx.resolve_path(&edit.target.absolute.display().to_string())?;
    }
    let diff = compute_diff(cx, edited.clone()).await?;
    let targets = edited.iter().map(|edit| edit.target.clone()).collect();
    let baseline = new_errors::record_errors(cx, targets).await;
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let quiet = ToolContext {
        new_errors_wait: None,
        // Only a second cancel stops between two files.
        cancel: cx.force_cancel.clone(),
        ..cx.clone()
    };
    let is_clear = !shows_diff || diff.len() <= MAX_SHOWN_DIFF;
    let mut output = ToolOutput::text(headline);
    for (made, edit) in edited.iter().enumerate() {
        let written = edit.replace_text(&quiet, &edit.before, &edit.after, is_clear);
        match written.await {
            Ok(one) => {
                output.locations.extend(one.locations);
                output.text.push('\n');
                output.text.push_str(&one.text);
            }
            Err(error) if made == 0 => return Err(error),
            Err(error) => {
                let kept = undo_changes(&quiet, &edited[..made]).await;
                return fail_with_message(format!("no file was changed{kept}: {error}"));
            }
        }
    }
    if shows_diff {
        let too_long = "[the changes are too long to show; read the file again]";
        output.text.push('\n');
        output.text.push_str(if is_clear { &diff } else { too_long });
    }
    output.diff = Some(diff.into());
    if let Some(baseline) = baseline {
        baseline.add_new_errors(cx, &mut output).await;
    }
    Ok(output)
}

/// Gives files their old texts again. Returns a part of a sentence that names those that have changed since.
async fn undo_changes(cx: &ToolContext, made: &[FileEdit]) -> String {
    let mut kept = Vec::new();
    for edit in made.iter().rev() {
        if (edit.replace_text(cx, &edit.after, &edit.before, true).await).is_err() {
            kept.push(edit.target.display.as_str());
        }
    }
    if kept.is_empty() {
        return String::new();
    }
    format!(", except in {}, which could not be changed back", kept.join(", "))
}

impl FileEdit {
    /// `is_clear`: who knows the text `before` then knows `after`.
    async fn replace_text(
        &self,
        cx: &ToolContext,
        before: &TextFile,
        after: &TextFile,
        is_clear: bool,
    ) -> Result<ToolOutput, ToolError> {
        let seen = cx.workspace.read_log().find_text(&self.target.absolute);
        let change = ContentChange {
            new_mode: 0,
            is_known: is_clear && seen.is_some_and(|seen| unix_lines(&seen) == unix_lines(&before.text)),
            after: after.clone(),
            before: Some(before.clone()),
            done: self.target.display.clone(),
            notes: Vec::new(),
        };
        let path = self.target.absolute.display().to_string();
        change::apply_plan(cx, path, move |_, _, _| Ok(change)).await
    }
}
