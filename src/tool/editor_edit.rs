//! Makes a change in the editor if the file is open there (R-TOOL-3). Unsaved text is never lost, and the user sees
//! the change and can undo it.
//!
//! The editor's claim that it applied an edit does not count: the document's text must show the edit soon. A document
//! without unsaved changes is saved afterwards, so that commands see the edit. One with unsaved changes stays unsaved,
//! and the model learns that it differs from the disk.
//!
//! A document without unsaved changes is changed on the disk instead in three cases: the client cannot edit and save
//! it, its text is not known for certain, or an editor may not preserve it (mixed line ends, an old encoding). Must not
//! compute the change; see `content_change`.

use std::sync::Arc;
use std::time::Duration;

use super::content_change::{self, ContentChange};
use super::editor::{DocumentEdit, EditorError};
use super::files;
use super::output::{fail_with_message, refuse_input};
use super::{ToolContext, ToolError, ToolOutput};
use crate::base::clock;
use crate::workspace::text_edits::{self, TextEdit};
use crate::workspace::text_file::{Encoding, unix_lines};
use crate::workspace::{Buffer, LoadError, OpenedDocument, ResolvedPath, write};

/// How soon the document must show the edit after the editor reported success (R-TOOL-3).
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// Time left for the editor to answer once the turn is canceled.
const AFTER_CANCEL: Duration = Duration::from_millis(50);

/// A change to be made in the editor.
pub(super) struct EditorEdit {
    target: ResolvedPath,
    opened: OpenedDocument,
    edits: Vec<TextEdit>,
    after: Arc<str>,
    /// Whether the model knows all of `after`.
    is_known: bool,
    /// The result once the change is made.
    output: ToolOutput,
}

/// Decides how to make the change in the editor; `None` means on the disk. Blocks.
pub(super) fn route_to_editor(
    cx: &ToolContext,
    target: &ResolvedPath,
    change: &ContentChange,
) -> Result<Option<EditorEdit>, ToolError> {
    let overlay = cx.workspace.overlay();
    let Some(opened) = overlay.find_open_document(&target.absolute) else {
        return Ok(None);
    };
    let before = change.before.as_ref().map_or("", |file| file.text.as_str());
    // Editors may report other line ends than the file has.
    let known = unix_lines(before) == unix_lines(&opened.text);
    let blank = change.before.is_none() && opened.text.trim().is_empty();
    if !known && !blank {
        // The user has typed since the file was loaded.
        return Err(changed_meanwhile(cx, target, &opened.text));
    }
    let can = cx.editor.abilities();
    let is_guessed =
        (change.before.as_ref()).is_some_and(|file| matches!(file.encoding, Encoding::Guessed(_)));
    let edits = text_edits::compute_text_edits(&opened.text, &change.after.text, overlay.position_encoding());
    let edits = match edits {
        Some(edits) if opened.unsaved && can.apply => edits,
        // Without unsaved text, edit there only if the document can be saved and the editor keeps its line ends.
        Some(edits) if can.apply && can.save && !mixed_line_ends(before) && !is_guessed => edits,
        _ if !opened.unsaved => return Ok(None),
        Some(_) => return content_change::cannot_edit_unsaved(target, "has unsaved changes in the editor"),
        None => {
            return refuse_input(format!(
                "`{}` has unsaved changes in the editor and carriage returns that end no line, which editors count in \
                 different ways; ask the user to save it, then try again",
                target.display
            ));
        }
    };
    Ok(Some(EditorEdit {
        target: target.clone(),
        opened,
        edits,
        after: change.after.text.as_str().into(),
        is_known: change.is_known,
        output: change.build_output(target),
    }))
}

/// Has the editor create a new file, so that its user can review it there. Returns `None` if the file is not on the disk
/// afterwards.
pub(super) async fn create_in_editor(
    cx: &ToolContext,
    target: &ResolvedPath,
    change: &ContentChange,
) -> Result<Option<ToolOutput>, ToolError> {
    let (inner, found) = (cx.clone(), target.clone());
    let prepared = files::run_blocking(cx, move |_| {
        // Someone else may have created it while its content was stored.
        let is_free = content_change::load_editable_file(&inner, &found)?.is_none();
        if is_free {
            write::create_folders(&found.absolute)?;
        }
        Ok(is_free)
    });
    if !prepared.await? {
        return Ok(None);
    }
    let text = &change.after.text;
    let request = cx
        .editor
        .create_file(&cx.session, target.absolute.clone(), text.clone());
    match within_cancel(cx, request).await {
        None => {
            return Err(ToolError::CutShort(Box::new(ToolOutput::text(format!(
                "canceled; the editor had been asked to create `{}` and may have done it",
                target.display
            )))));
        }
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "the editor did not create a file"),
    }
    // The editor's answer does not count, only what is on the disk.
    let (inner, path) = (cx.clone(), target.absolute.clone());
    let looked = files::run_blocking(cx, move |_| match inner.workspace.load_file(&path) {
        Ok(loaded) => Ok(Some(loaded.file.text)),
        Err(LoadError::Missing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    });
    let Some(now) = looked.await? else {
        return Ok(None);
    };
    cx.workspace.read_log().record_text(&target.absolute, text);
    let mut output = change.build_output(target);
    if ends_apart(&now) != ends_apart(text) {
        output.text.push_str("; ");
        output
            .text
            .push_str(&describe_change_on_save(cx, target, change.is_known, Some(&now)));
    }
    Ok(Some(output))
}

fn mixed_line_ends(text: &str) -> bool {
    let crlf = text.matches("\r\n").count();
    crlf > 0 && crlf < memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

impl EditorEdit {
    /// Makes the change. A cancel does not wait: the result says what the editor had done by then.
    pub(super) async fn apply_edit(self, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = &self.target.absolute;
        // Before the request: the user may type on as soon as the edit is made.
        let confirmation = cx.workspace.overlay().expect_text(&self.opened.uri, &self.after);
        let request = async {
            let mut confirmation = confirmation;
            let edit = DocumentEdit {
                uri: self.opened.uri.clone(),
                version: self.opened.version,
                edits: self.edits.clone(),
                label: self.output.text.clone(),
            };
            let answer = cx.editor.apply(edit).await;
            // What the document shows counts, whatever the editor answers.
            if confirmation.try_recv().is_ok() {
                return Ok(());
            }
            answer.map_err(|error| error.to_string())?;
            match clock::timeout(CONFIRM_TIMEOUT, confirmation).await {
                Ok(Ok(())) => Ok(()),
                _ => {
                    Err("the editor reported success, but the document does not contain the edit".to_owned())
                }
            }
        };
        match within_cancel(cx, request).await {
            Some(Ok(())) => {}
            Some(Err(reason)) => return self.not_made(cx, reason).await,
            None => {
                return Err(ToolError::CutShort(Box::new(ToolOutput::text(format!(
                    "canceled; the editor had been asked for the edit of `{}` and may have made it",
                    self.target.display
                )))));
            }
        }
        if self.is_known {
            cx.workspace.read_log().record_text(path, &self.after);
        }
        let note = if self.opened.unsaved && !cx.editor.abilities().saves_edits {
            Some(
            "it had unsaved changes in the editor, so it was edited there and not saved; the file on disk and commands do not have this edit yet"
                .to_owned(),
        )
        } else {
            self.save_document(cx).await
        };
        let mut output = self.output;
        if let Some(note) = note {
            output.text.push_str("; ");
            output.text.push_str(&note);
        }
        Ok(output)
    }

    /// Saves the document; returns what the model must know about that.
    async fn save_document(&self, cx: &ToolContext) -> Option<String> {
        let unseen = "the file on disk does not have this edit yet, and commands do not see it";
        let request = cx.editor.save_document(self.opened.uri.clone());
        let refused = match within_cancel(cx, request).await {
            None => return Some(format!("canceled before it was saved: {unseen}")),
            Some(Ok(refused)) => refused,
            Some(Err(EditorError::Refused(reason))) => Some(reason),
            Some(Err(error @ (EditorError::Silent(_) | EditorError::Failed(_)))) => Some(error.to_string()),
        };
        // The editor's answer does not count, only what is on the disk.
        let (inner, path, uri) = (cx.clone(), self.target.absolute.clone(), self.opened.uri.clone());
        let looked = files::run_blocking(cx, move |_| {
            inner.workspace.overlay().reconcile_with_disk(&uri);
            let buffer = inner.workspace.overlay().lookup_buffer(&path);
            let text = inner
                .workspace
                .load_file(&path)
                .ok()
                .map(|loaded| loaded.file.text);
            Ok((buffer, text))
        });
        let (buffer, text) = looked.await.ok()?;
        let same = text
            .as_ref()
            .is_some_and(|text| ends_apart(text) == ends_apart(&self.after));
        match (buffer, refused) {
            (Buffer::Saved, _) if same => None,
            (Buffer::Saved, _) => {
                let text = text.as_deref();
                Some(describe_change_on_save(cx, &self.target, self.is_known, text))
            }
            (Buffer::Unsaved(_) | Buffer::Unknown, Some(reason)) => {
                Some(format!("it was not saved ({reason}): {unseen}"))
            }
            (Buffer::Unsaved(_) | Buffer::Unknown, None) => {
                Some(format!("the editor has newer text than it saved: {unseen}"))
            }
        }
    }

    /// Explains why the edit was not made, with the current text if the model does not know it.
    async fn not_made(self, cx: &ToolContext, reason: String) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        files::run_blocking(cx, move |_| {
            let now = inner.workspace.load_file(&self.target.absolute)?.file.text;
            if unix_lines(&now) != unix_lines(&self.opened.text) {
                return Err(changed_meanwhile(&inner, &self.target, &now));
            }
            fail_with_message(format!("`{}` was not changed: {reason}", self.target.display))
        })
        .await
    }
}

/// Says what the editor changed further when it saved a text. If it all fits, the model knows it then.
fn describe_change_on_save(
    cx: &ToolContext,
    target: &ResolvedPath,
    is_known: bool,
    now: Option<&str>,
) -> String {
    let changed = "the text changed further when the editor saved it (a formatter, say)";
    let difference = now.and_then(|now| Some((now, content_change::format_change_since(cx, target, now)?)));
    match difference {
        Some((now, (difference, true))) if is_known => {
            cx.workspace.read_log().record_text(&target.absolute, now);
            format!("{changed}:\n{difference}")
        }
        _ => format!("{changed}: read it again before you change it"),
    }
}

fn changed_meanwhile(cx: &ToolContext, target: &ResolvedPath, now: &str) -> ToolError {
    content_change::refuse_with_current_text(
        cx,
        target,
        now,
        "has changed in the editor in the meantime; this edit was not made",
    )
}

/// Normalizes what editors store apart from a text: line ends and the final line feed.
fn ends_apart(text: &str) -> String {
    let text = unix_lines(text);
    text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
}

/// Returns `None` if the turn is canceled and the editor does not answer soon afterwards.
async fn within_cancel<T>(cx: &ToolContext, request: impl Future<Output = T>) -> Option<T> {
    let grace_period = async {
        cx.cancel.cancelled().await;
        clock::sleep(AFTER_CANCEL).await;
    };
    tokio::select! { biased;
        answer = request => Some(answer),
        () = grace_period => None,
    }
}

#[cfg(test)]
#[path = "editor_edit_tests.rs"]
mod tests;
