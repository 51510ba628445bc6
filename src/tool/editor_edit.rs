//! A change of a file that is open in the editor, made there (R-TOOL-3): what a person has not saved is never lost,
//! what they see is what is changed, and they can undo it.
//!
//! The editor's word that an edit was applied counts for nothing: the document's text has to show it, soon. A document
//! that held nothing unsaved is saved afterwards, so that commands see the edit; one that did is left unsaved, and the
//! model is told that it differs from the disk.
//!
//! Changed on the disk all the same is a document without unsaved text that the client cannot edit and save, whose
//! text is not known for sure, or that an editor may not hold as the file has it (line ends of both kinds).

use std::sync::Arc;
use std::time::Duration;

use super::change::{self, Change};
use super::editor::{DocumentEdit, EditorError};
use super::files::{self, fail_with_message};
use super::{ToolContext, ToolError, ToolOutput};
use crate::workspace::text_edits::{self, TextEdit};
use crate::workspace::text_file::unix_lines;
use crate::workspace::{Buffer, Opened, Resolved};

/// The expected text has to be shown this soon after the editor said that it was applied.
const BELIEVED: Duration = Duration::from_secs(1);
/// What the editor has left of its time once the turn is cancelled.
const AFTER_CANCEL: Duration = Duration::from_millis(50);

/// A change to be made in the editor.
pub(super) struct InEditor {
    target: Resolved,
    opened: Opened,
    edits: Vec<TextEdit>,
    after: Arc<str>,
    /// What is told when it is made.
    output: ToolOutput,
}

/// How the change is to be made in the editor; none when on the disk. Blocks.
pub(super) fn route_to_editor(
    cx: &ToolContext,
    target: &Resolved,
    change: &Change,
) -> Result<Option<InEditor>, ToolError> {
    let overlay = cx.workspace.overlay();
    let Some(opened) = overlay.find_open_document(&target.absolute) else {
        return Ok(None);
    };
    let before = change.before.as_ref().map_or("", |file| file.text.as_str());
    let known = unix_lines(before) == unix_lines(&opened.text);
    let blank = change.before.is_none() && opened.text.trim().is_empty();
    if !known && !blank {
        // A person has typed since it was looked at.
        return Err(changed_meanwhile(cx, target, &opened.text));
    }
    let can = cx.editor.abilities();
    let edits = text_edits::compute_text_edits(&opened.text, &change.after.text, overlay.position_encoding());
    let edits = match edits {
        Some(edits) if opened.unsaved && can.apply => edits,
        Some(edits) if can.apply && can.save && !mixed_line_ends(before) => edits,
        _ if !opened.unsaved => return Ok(None),
        Some(_) => return change::cannot_edit_unsaved(target, "has unsaved changes in the editor"),
        None => {
            return fail_with_message(format!(
                "`{}` has unsaved changes in the editor and carriage returns that end no line, which editors count in \
                 different ways; ask the person to save it, then try again",
                target.display
            ));
        }
    };
    Ok(Some(InEditor {
        target: target.clone(),
        opened,
        edits,
        after: change.after.text.as_str().into(),
        output: change.build_output(target),
    }))
}

fn mixed_line_ends(text: &str) -> bool {
    let crlf = text.matches("\r\n").count();
    crlf > 0 && crlf < memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

impl InEditor {
    /// Makes it. A cancel is not held up: what the editor has done until then is told.
    pub(super) async fn apply_edit(self, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = &self.target.absolute;
        let shown = cx.workspace.overlay().expect_text(&self.opened.uri, &self.after);
        let asked = async {
            let mut shown = shown;
            let edit = DocumentEdit {
                uri: self.opened.uri.clone(),
                version: self.opened.version,
                edits: self.edits.clone(),
                label: self.output.text.clone(),
            };
            let answer = cx.editor.apply(edit).await;
            if shown.try_recv().is_ok() {
                return Ok(());
            }
            answer.map_err(|error| error.to_string())?;
            match tokio::time::timeout(BELIEVED, shown).await {
                Ok(Ok(())) => Ok(()),
                _ => {
                    Err("the editor reported success, but the document does not contain the edit".to_owned())
                }
            }
        };
        match within_cancel(cx, asked).await {
            Some(Ok(())) => {}
            Some(Err(why)) => return self.not_made(cx, why).await,
            None => {
                return Err(ToolError::CutShort(Box::new(ToolOutput::text(format!(
                    "cancelled; the editor had been asked for the edit of `{}` and may have made it",
                    self.target.display
                )))));
            }
        }
        cx.workspace.read_log().record_text(path, &self.after);
        let note = if self.opened.unsaved {
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

    /// Saves it; what the model has to know of that.
    async fn save_document(&self, cx: &ToolContext) -> Option<String> {
        let unseen = "the file on disk does not have this edit yet, and commands do not see it";
        let asked = cx.editor.save_document(self.opened.uri.clone());
        let refused = match within_cancel(cx, asked).await {
            None => return Some(format!("cancelled before it was saved: {unseen}")),
            Some(Ok(refused)) => refused,
            Some(Err(EditorError::Refused(why))) => Some(why),
            Some(Err(error @ (EditorError::Silent(_) | EditorError::Failed(_)))) => Some(error.to_string()),
        };
        // What the editor says is one thing, what is on the disk another.
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
        let same = text.is_some_and(|text| ends_apart(&text) == ends_apart(&self.after));
        match (buffer, refused) {
            (Buffer::Saved, _) if same => None,
            (Buffer::Saved, _) => Some(
                "the text changed further when the editor saved it (a formatter, say): read it again before you \
                 change it"
                    .to_owned(),
            ),
            (Buffer::Unsaved(_) | Buffer::Unknown, Some(why)) => {
                Some(format!("it was not saved ({why}): {unseen}"))
            }
            (Buffer::Unsaved(_) | Buffer::Unknown, None) => {
                Some(format!("the editor has newer text than it saved: {unseen}"))
            }
        }
    }

    /// Why the edit was not made, with the text as it is now if that is not what the model knows.
    async fn not_made(self, cx: &ToolContext, why: String) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        files::run_blocking(cx, move |_| {
            let now = inner.workspace.load_file(&self.target.absolute)?.file.text;
            if unix_lines(&now) != unix_lines(&self.opened.text) {
                return Err(changed_meanwhile(&inner, &self.target, &now));
            }
            fail_with_message(format!("`{}` was not changed: {why}", self.target.display))
        })
        .await
    }
}

fn changed_meanwhile(cx: &ToolContext, target: &Resolved, now: &str) -> ToolError {
    change::refuse_with_current_text(
        cx,
        target,
        now,
        "has changed in the editor in the meantime; this edit was not made",
    )
}

/// A text without what editors keep apart from it.
fn ends_apart(text: &str) -> String {
    let text = unix_lines(text);
    text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
}

/// None when the turn is cancelled and the editor does not hurry.
async fn within_cancel<T>(cx: &ToolContext, asked: impl Future<Output = T>) -> Option<T> {
    let over = async {
        cx.cancel.cancelled().await;
        tokio::time::sleep(AFTER_CANCEL).await;
    };
    tokio::select! { biased;
        answer = asked => Some(answer),
        () = over => None,
    }
}

#[cfg(test)]
#[path = "editor_edit_tests.rs"]
mod tests;
