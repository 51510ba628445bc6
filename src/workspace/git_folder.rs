//! Finds the folder where git keeps what belongs to a work tree. Reads nothing inside it.

use std::path::{Path, PathBuf};

use super::real_path::real_path;
use crate::base::nofollow::{self, FileKind};

/// Longest `.git` file that counts as a pointer, in bytes.
const MAX_POINTER: u64 = 4 << 10;

/// Returns the folder where git keeps what belongs to the work tree: `.git`, or where that file points.
pub(super) fn find_git_folder(root: &Path) -> Option<PathBuf> {
    let dot = real_path(&root.join(".git")).ok()?;
    if nofollow::kind(&dot)? == FileKind::Folder {
        return Some(dot);
    }
    let pointer = String::from_utf8(nofollow::read(&dot, MAX_POINTER).ok()?).ok()?;
    Some(root.join(pointer.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r'])))
}
