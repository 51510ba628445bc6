//! Folders and files that are their owner's alone (R-SEC).

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// For `custom_flags`: an open that fails where the path's last part is a symbolic link.
pub const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;

/// Takes a folder of ours from group and others. Leaves one of another user's, and one that is shared by design (`/tmp`).
///
/// # Errors
/// Its metadata cannot be read or set.
pub fn restrict_to_owner(folder: &Path) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    let meta = folder.metadata()?;
    let mode = meta.mode() & 0o7777;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if ours && mode & 0o077 != 0 && mode & STICKY == 0 {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
        tracing::warn!(folder = %folder.display(), "was open to others (mode {mode:o}); restricted it to its owner");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_ours_is_taken_from_others() {
        let dir = tempfile::TempDir::new().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        for (before, after) in [(0o777, 0o700), (0o750, 0o700), (0o500, 0o500), (0o1777, 0o1777)] {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(before)).unwrap();
            restrict_to_owner(dir.path()).unwrap();
            assert_eq!(mode(dir.path()), after, "{before:o}");
        }
    }
}
