//! Finds the folders where git keeps what belongs to a work tree. Reads nothing else inside them.

use std::path::{Path, PathBuf};

use super::real_path::real_path;
use crate::base::nofollow::{self, FileKind};
use crate::sandbox::{COMMON_POINTER, read_pointer};

/// Returns the real folder where git keeps what belongs to the work tree: `.git`, or where that file points.
pub(super) fn find_git_folder(root: &Path) -> Option<PathBuf> {
    let dot = real_path(&root.join(".git")).ok()?;
    if nofollow::kind(&dot)? == FileKind::Folder {
        return Some(dot);
    }
    real_path(&root.join(read_pointer(&dot)?.strip_prefix("gitdir: ")?)).ok()
}

/// Returns the real folder that a linked work tree with the folder `own` shares with the main one; in that, `own`.
pub(super) fn find_common_folder(own: &Path) -> Option<PathBuf> {
    let pointer = own.join(COMMON_POINTER);
    if nofollow::kind(&pointer).is_none() {
        return Some(own.to_owned());
    }
    real_path(&own.join(read_pointer(&pointer)?)).ok()
}
