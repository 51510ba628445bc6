//! Paths by their words alone. It must not look at the disk.

use std::path::{Component, Path, PathBuf};

/// Resolves `.` and `..` by name. Where links make a difference, the system follows them instead.
pub fn normalize_path(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            part => path.push(part),
        }
        path
    })
}
