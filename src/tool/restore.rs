//! Putting a file back as it was: in the editor where it is open there, as edits are made, else on the disk.

use std::path::Path;

use super::change::{Change, present};
use super::{ToolContext, ToolError, through_editor};
use crate::domain::FileState;
use crate::workspace::checkpoint::{self, same_content};
use crate::workspace::text_file::{TextFile, unix_lines};
use crate::workspace::{Buffer, Resolved};

use super::files;

/// What is at a path as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Current {
    /// On the disk, with its content.
    Disk(checkpoint::Found),
    /// Text of the editor's that is not saved.
    Unsaved(String),
}

/// What is at the resolved `path` now. Blocks.
///
/// # Errors
/// It cannot be read, or what the editor holds is not known.
pub fn current(cx: &ToolContext, path: &Path) -> Result<Current, String> {
    match cx.workspace.overlay().look(path) {
        Buffer::Unsaved(document) => Ok(Current::Unsaved(document.text.to_string())),
        Buffer::Unknown => Err("the editor may hold unsaved text of it that is not known".to_owned()),
        Buffer::Saved => checkpoint::look(path)
            .map(Current::Disk)
            .map_err(|error| error.to_string()),
    }
}

impl Current {
    /// Whether it is `state`; `kept` reads what is kept under a hash.
    pub fn is(&self, state: &FileState, kept: impl Fn(&str) -> Option<Vec<u8>>) -> bool {
        match (self, state) {
            (Self::Disk(found), state) => same_content(&found.state, state),
            (Self::Unsaved(text), FileState::File { hash, .. }) => {
                let known = kept(hash).and_then(|bytes| TextFile::decode(bytes).ok());
                known.is_some_and(|file| unix_lines(&file.text) == unix_lines(text))
            }
            (Self::Unsaved(_), FileState::Absent | FileState::Link { .. } | FileState::Unknown) => false,
        }
    }

    /// Its content, to be kept.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Disk(found) => found.bytes.as_deref(),
            Self::Unsaved(text) => Some(text.as_bytes()),
        }
    }

    /// Its state.
    pub fn state(&self) -> FileState {
        match self {
            Self::Disk(found) => found.state.clone(),
            Self::Unsaved(text) => checkpoint::of_bytes(text.as_bytes(), 0),
        }
    }
}

/// Makes the resolved `path` what `to` says, if it is still `from`. Waits for the editor where it is open there.
///
/// # Errors
/// Why it was left as it is, for people.
pub async fn restore(
    cx: &ToolContext,
    path: &Path,
    from: Current,
    to: FileState,
    bytes: Option<Vec<u8>>,
) -> Result<(), String> {
    let _only_writer = cx.workspace.lock(path).await;
    let target = Resolved {
        absolute: path.to_owned(),
        display: cx.workspace.show(&cx.cwd, path),
        inside: true,
        secret: false,
    };
    let inner = cx.clone();
    let planned = files::blocking(cx, move |_| {
        let path = &target.absolute;
        let now = current(&inner, path).map_err(ToolError::Reported)?;
        if now != from {
            return Err(ToolError::Reported("it was changed just now".to_owned()));
        }
        let text = bytes
            .as_ref()
            .and_then(|bytes| TextFile::decode(bytes.clone()).ok());
        if let Some(after) = text
            && matches!(to, FileState::File { .. })
            && inner.workspace.overlay().opened(path).is_some()
        {
            let before = present(&inner, &target)?;
            let change = Change {
                before,
                after,
                done: format!("restored {}", target.display),
            };
            if let Some(there) = through_editor::route(&inner, &target, &change)? {
                return Ok(Some(there));
            }
        } else if matches!(from, Current::Unsaved(_)) {
            return Err(ToolError::Reported(
                "the editor holds unsaved changes of it".to_owned(),
            ));
        }
        checkpoint::put_back(path, &to, bytes.as_deref()).map_err(ToolError::Reported)?;
        Ok(None)
    });
    let done = match planned.await {
        Ok(Some(there)) => there.make(cx).await.map(|_| ()),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    done.map_err(|error| error.to_string())
}
