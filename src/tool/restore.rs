//! Restores a file to an earlier state: in the editor if it is open there, else on the disk.
//!
//! Uses the same path as edits, so unsaved text is never lost. Must not decide what to restore; the session does.

use std::path::Path;

use super::content_change::{ContentChange, load_editable_file};
use super::{ToolContext, ToolError, editor_edit};
use crate::domain::FileState;
use crate::workspace::checkpoint::{self, same_content};
use crate::workspace::text_file::{TextFile, is_displayed_as, unix_lines};
use crate::workspace::{Buffer, ResolvedPath};

use super::files;

/// The content of a path as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Current {
    /// On the disk, with its content.
    Disk(checkpoint::FoundFile),
    /// Unsaved text in the editor.
    Unsaved(String),
    /// On the disk, but not as text that could be written back; with the text that the editor shows for it.
    ///
    /// What was done to the file decides whether bytes or text count: see [`Current::resolve_display`].
    Shown(checkpoint::FoundFile, String),
}

/// Reads what is at the resolved `path` now. Blocks.
///
/// # Errors
/// The file cannot be read, or the editor's text is unknown.
pub fn read_current_file(cx: &ToolContext, path: &Path) -> Result<Current, String> {
    match cx.workspace.overlay().lookup_buffer(path) {
        Buffer::Unsaved(document) => {
            let text = document.text.to_string();
            Ok(match checkpoint::inspect_file(path) {
                Ok(found) if is_displayed_text(&found, &text) => Current::Shown(found, text),
                Ok(_) | Err(_) => Current::Unsaved(text),
            })
        }
        Buffer::Unknown => Err("the editor may have unsaved text that is unknown here".to_owned()),
        Buffer::Saved => checkpoint::inspect_file(path)
            .map(Current::Disk)
            .map_err(|error| error.to_string()),
    }
}

fn is_displayed_text(found: &checkpoint::FoundFile, text: &str) -> bool {
    let raw = found.bytes.as_ref().filter(|bytes| !is_text(bytes));
    raw.is_some_and(|bytes| is_displayed_as(bytes, text))
}

fn is_text(bytes: &[u8]) -> bool {
    TextFile::from_bytes(bytes.to_vec()).is_ok()
}

impl Current {
    /// Resolves [`Current::Shown`]: to the text in the editor if `unsaved`, else to the bytes on the disk.
    #[must_use]
    pub fn resolve_display(self, unsaved: bool) -> Self {
        match self {
            Self::Shown(_, text) if unsaved => Self::Unsaved(text),
            Self::Shown(found, _) => Self::Disk(found),
            other @ (Self::Disk(_) | Self::Unsaved(_)) => other,
        }
    }

    /// Returns whether the content is `state`; `read_content` reads the content stored under a hash.
    pub fn is_in_state(&self, state: &FileState, read_content: impl Fn(&str) -> Option<Vec<u8>>) -> bool {
        match (self, state) {
            (Self::Disk(found) | Self::Shown(found, _), state) => same_content(&found.state, state),
            (Self::Unsaved(text), FileState::File { hash, .. }) => {
                let known = read_content(hash).and_then(|bytes| TextFile::from_bytes(bytes).ok());
                known.is_some_and(|file| unix_lines(&file.text) == unix_lines(text))
            }
            (Self::Unsaved(_), FileState::Absent | FileState::Link { .. } | FileState::Unknown) => false,
        }
    }

    /// Returns the content to keep.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Disk(found) | Self::Shown(found, _) => found.bytes.as_deref(),
            Self::Unsaved(text) => Some(text.as_bytes()),
        }
    }

    /// Returns the content as a file state; unsaved text has mode 0, which means unknown.
    pub fn to_file_state(&self) -> FileState {
        match self {
            Self::Disk(found) | Self::Shown(found, _) => found.state.clone(),
            Self::Unsaved(text) => checkpoint::regular_file_state(text.as_bytes(), 0),
        }
    }
}

/// Restores the resolved `path` to the state `to` if it is still `from`. Waits for the editor if the file is open
/// there.
///
/// # Errors
/// Returns the reason, for people, if the file is left unchanged.
pub async fn restore_file(
    cx: &ToolContext,
    path: &Path,
    from: Current,
    to: FileState,
    bytes: Option<Vec<u8>>,
) -> Result<(), String> {
    // One writer per file, as for an edit (R-TOOL-1).
    let _only_writer = cx.workspace.lock(path).await;
    let target = ResolvedPath {
        absolute: path.to_owned(),
        display: cx.workspace.format_for_model(&cx.cwd, path),
        inside: true,
        secret: false,
    };
    let inner = cx.clone();
    let planned = files::run_blocking(cx, move |_| {
        let path = &target.absolute;
        let unsaved = matches!(from, Current::Unsaved(_));
        let now = read_current_file(&inner, path)
            .map_err(ToolError::Reported)?
            .resolve_display(unsaved);
        // Checked under the write lock: nobody may change the file between this and the restore.
        if now != from {
            return Err(ToolError::Reported("it has just changed".to_owned()));
        }
        let text = bytes
            .as_ref()
            .and_then(|bytes| TextFile::from_bytes(bytes.clone()).ok());
        // An editor that shows bytes which are not text may not write a text correctly.
        let raw = matches!(&from, Current::Disk(found) if found.bytes.as_ref().is_some_and(|bytes| !is_text(bytes)));
        if let Some(after) = text
            && !raw
            && matches!(to, FileState::File { .. })
            && inner.workspace.overlay().find_open_document(path).is_some()
        {
            let before = load_editable_file(&inner, &target)?;
            let change = ContentChange {
                new_mode: 0,
                before,
                after,
                done: format!("restored {}", target.display),
                notes: Vec::new(),
                is_known: true,
            };
            if let Some(there) = editor_edit::route_to_editor(&inner, &target, &change)? {
                return Ok(Some(there));
            }
        } else if unsaved {
            return Err(ToolError::Reported(
                "it has unsaved changes in the editor".to_owned(),
            ));
        }
        checkpoint::restore_file_state(path, &to, bytes.as_deref()).map_err(ToolError::Reported)?;
        Ok(None)
    });
    let done = match planned.await {
        Ok(Some(there)) => there.apply_edit(cx).await.map(|_| ()),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    done.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::ToolHarness;
    use super::*;

    #[test]
    fn non_text_is_recognized_by_its_bytes_and_as_it_is_shown() {
        let harness = ToolHarness::new();
        let raw = b"T\xf6ne\0";
        for (editor_text, is) in [
            ("T\u{fffd}ne\0", true),
            ("T\u{f6}ne\0", true),
            ("typed T\u{f6}ne\0", false),
        ] {
            std::fs::write(harness.path("raw"), raw).unwrap();
            harness.open("raw", editor_text);
            let now = read_current_file(&harness.cx, &harness.path("raw")).unwrap();
            let bytes = checkpoint::regular_file_state(raw, 0);
            assert_eq!(now.is_in_state(&bytes, |_| None), is, "{editor_text:?}");
            let (disk, editor) = (now.clone().resolve_display(false), now.resolve_display(true));
            assert_eq!(disk.bytes() == Some(raw.as_slice()), is, "{editor_text:?}");
            assert_eq!(editor, Current::Unsaved(editor_text.to_owned()));
        }
        harness.write("text", "one\n");
        harness.open("text", "one\n");
        assert!(matches!(
            read_current_file(&harness.cx, &harness.path("text")),
            Ok(Current::Disk(_))
        ));
        harness.open("text", "two\n");
        assert!(
            matches!(read_current_file(&harness.cx, &harness.path("text")), Ok(Current::Unsaved(text)) if text == "two\n")
        );
    }
}
