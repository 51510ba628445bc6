//! A computed change of one file, and the texts that refuse one.
//!
//! Must not decide whether the disk or the editor gets the change; see `change` and `editor_edit`.

use std::path::Path;
use std::sync::Arc;

use super::files::{NumberedLines, build_location, count_lines};
use super::output::{fail_with_message, refuse_input};
use super::{ToolContext, ToolError, ToolOutput};
use crate::domain::{FileChange, FileState};
use crate::workspace::diff::{Diff, DiffSides, build_file_header, build_unified_diff};
use crate::workspace::text_file::{Encoding, TextFile, unix_lines};
use crate::workspace::{Buffer, LoadError, ResolvedPath, checkpoint, write};

/// Most of a changed file's text that a refusal shows, in bytes.
const MAX_SHOWN: usize = 16 << 10;

/// Tells of a hard link.
const OTHER_NAMES: &str = "[the file had another name (a hard link): that one keeps the old content, and is a file of its \
     own from now on]";

/// A change of one file: its old and its new content.
pub(super) struct ContentChange {
    /// `None` if the file does not exist yet.
    pub(super) before: Option<TextFile>,
    pub(super) after: TextFile,
    /// The report once the change is made, without the line counts.
    pub(super) done: String,
    /// What the model should know besides, a line or more each.
    pub(super) notes: Vec<String>,
    /// Whether the model knows the whole new text.
    pub(super) is_known: bool,
    /// The permission bits of a new file; 0 for the usual ones.
    pub(super) new_mode: u32,
}

impl ContentChange {
    /// Stores the old and the new content; `None` if that fails and the user has approved the call anyway.
    pub(super) fn store_contents(
        &self,
        cx: &ToolContext,
        target: &ResolvedPath,
    ) -> Result<Option<FileChange>, ToolError> {
        let path = &target.absolute;
        let mode = match self.before {
            None => self.new_mode,
            Some(_) => checkpoint::mode_of(path),
        };
        let keep = |file: &TextFile| {
            let bytes = file.to_bytes();
            cx.checkpoints.store_content(&bytes)?;
            Ok::<_, String>(checkpoint::regular_file_state(&bytes, mode))
        };
        let build_record = || {
            let before = self.before.as_ref().map(keep).transpose()?;
            Ok::<_, String>(FileChange {
                path: path.to_str().ok_or("its name is not UTF-8")?.to_owned(),
                before: before.unwrap_or(FileState::Absent),
                after: keep(&self.after)?,
            })
        };
        match build_record() {
            Ok(record) => Ok(Some(record)),
            Err(_) if cx.allows_uncheckpointed => Ok(None),
            Err(reason) => not_kept(target, &reason),
        }
    }

    pub(super) fn compute_diff(&self, target: &ResolvedPath) -> Diff {
        if self.before.is_none() && self.after.text.is_empty() {
            return Diff {
                text: build_file_header(&target.display, DiffSides::OnlyNew),
                ..Diff::default()
            };
        }
        let (sides, before) = match &self.before {
            Some(file) => (DiffSides::Both, file.text.as_str()),
            None => (DiffSides::OnlyNew, ""),
        };
        build_unified_diff(&target.display, sides, before, &self.after.text)
    }

    pub(super) fn nothing_to_do(&self, cx: &ToolContext, target: &ResolvedPath) -> Option<ToolOutput> {
        (self.before.as_ref() == Some(&self.after)).then(|| {
            if self.is_known {
                cx.workspace
                    .read_log()
                    .record_text(&target.absolute, &self.after.text);
            }
            ToolOutput::text(self.add_notes(format!("{} already has this text", target.display)))
        })
    }

    pub(super) fn write(mut self, cx: &ToolContext, target: &ResolvedPath) -> Result<ToolOutput, ToolError> {
        if write::has_other_names(&target.absolute) {
            self.notes.push(OTHER_NAMES.to_owned());
        }
        let output = self.build_output(target);
        write::write_with_mode(&target.absolute, &self.after.to_bytes(), self.new_mode)?;
        // Only a successful write counts as text that the model knows.
        if self.is_known {
            cx.workspace
                .read_log()
                .record_text(&target.absolute, &self.after.text);
        }
        Ok(output)
    }

    fn add_notes(&self, mut text: String) -> String {
        for note in &self.notes {
            text.push('\n');
            text.push_str(note);
        }
        text
    }

    /// Reports the change with its line counts and notes.
    pub(super) fn describe(&self, diff: &Diff) -> String {
        self.add_notes(format!("{} (+{} −{} lines)", self.done, diff.added, diff.removed))
    }

    /// Builds the result of the change.
    pub(super) fn build_output(&self, target: &ResolvedPath) -> ToolOutput {
        let diff = self.compute_diff(target);
        let line = first_changed_line(
            self.before.as_ref().map_or("", |file| &file.text),
            &self.after.text,
        );
        ToolOutput {
            text: self.describe(&diff),
            diff: Some(Arc::from(diff.text)),
            locations: vec![build_location(&target.absolute, Some(line))],
            ..ToolOutput::default()
        }
    }
}

fn is_in_old_encoding(path: &Path) -> bool {
    match crate::workspace::load::from_disk(path) {
        Ok(file) => matches!(file.encoding, Encoding::Guessed(_)),
        Err(error) => matches!(error, LoadError::NotText { .. }),
    }
}

/// Returns the file with another text.
///
/// # Errors
/// The text cannot be written for certain.
pub(super) fn with_text(
    target: &ResolvedPath,
    before: &TextFile,
    text: String,
) -> Result<TextFile, ToolError> {
    let name = &target.display;
    before.with_text(text).or_else(|error| {
        refuse_input(format!(
            "`{name}`: {error}. If the user wants that, convert it with a command such as iconv first"
        ))
    })
}

/// Loads the file if it may be changed; `None` if it does not exist.
pub(super) fn load_editable_file(
    cx: &ToolContext,
    target: &ResolvedPath,
) -> Result<Option<TextFile>, ToolError> {
    let path = &target.absolute;
    match cx.workspace.overlay().lookup_buffer(path) {
        Buffer::Saved => {}
        Buffer::Unsaved(document) if document.text.contains('\u{fffd}') && is_in_old_encoding(path) => {
            return refuse_input(format!(
                "`{}` has unsaved changes in the editor, which cannot read its encoding and would damage it; ask the \
                 user to undo them, then try again",
                target.display
            ));
        }
        Buffer::Unsaved(_) if cx.editor.abilities().apply => {}
        Buffer::Unsaved(_) => return cannot_edit_unsaved(target, "has unsaved changes in the editor"),
        Buffer::Unknown => {
            return refuse_input(format!(
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

/// Refuses to change unsaved text if the client does not accept edits.
pub(super) fn cannot_edit_unsaved<T>(target: &ResolvedPath, problem: &str) -> Result<T, ToolError> {
    refuse_input(format!(
        "`{}` {problem}, and this editor does not accept edits; ask the user to save it, then try again",
        target.display
    ))
}

/// Refuses a change whose old content could not be kept.
pub(super) fn not_kept<T>(target: &ResolvedPath, reason: &str) -> Result<T, ToolError> {
    fail_with_message(format!(
        "`{}` was not changed, because its old content could not be kept ({reason}); try again",
        target.display
    ))
}

/// Builds a refusal with the current text. If all of it fits, the model has seen it then.
pub(super) fn refuse_with_current_text(
    cx: &ToolContext,
    target: &ResolvedPath,
    now: &str,
    problem: &str,
) -> ToolError {
    let (refusal, is_complete) = changed_text(target, now, problem);
    if is_complete {
        cx.workspace.read_log().record_text(&target.absolute, now);
    }
    ToolError::Misfit(refusal)
}

/// Formats a refusal with the current text, and returns whether all of it fits.
pub(super) fn changed_text(target: &ResolvedPath, now: &str, problem: &str) -> (String, bool) {
    let mut listing = NumberedLines::default();
    for (number, line) in (1..).zip(now.lines()) {
        listing.push(number, line, line.len(), MAX_SHOWN);
        if listing.full {
            break;
        }
    }
    let mut refusal = format!("`{}` {problem}. Its text now:\n{}", target.display, listing.text);
    if listing.full {
        refusal.push_str(&format!(
            "[lines 1 to {} of {}; read the rest with read_file first]",
            listing.last,
            count_lines(now)
        ));
    }
    (refusal, !listing.full)
}

/// Formats what has changed in a text that the model knows, and returns whether all of it fits.
///
/// `None` if the text is no longer known, so that nothing can be said.
pub(super) fn format_change_since(
    cx: &ToolContext,
    target: &ResolvedPath,
    now: &str,
) -> Option<(String, bool)> {
    const MOST_LINES: usize = 40;
    let known = cx.workspace.read_log().find_text(&target.absolute)?;
    let (known, now) = (unix_lines(&known), unix_lines(now));
    let diff = build_unified_diff(&target.display, DiffSides::Both, &known, &now).text;
    // Without the two lines that name the file.
    let lines: Vec<&str> = diff.lines().skip(2).collect();
    let shown = lines[..lines.len().min(MOST_LINES)].join("\n");
    match lines.len().saturating_sub(MOST_LINES) {
        0 => Some((shown, true)),
        more => Some((format!("{shown}\n[{more} more lines]"), false)),
    }
}

fn first_changed_line(before: &str, after: &str) -> usize {
    let same = before
        .lines()
        .zip(after.lines())
        .take_while(|(a, b)| a == b)
        .count();
    (same + 1).min(count_lines(after).max(1))
}
