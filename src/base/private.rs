//! Folders and files that only their owner may read (R-SEC).
//!
//! For the folders of agentls itself (store, logs), whose paths no repository provides; those go through `nofollow`.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// For `custom_flags`: makes an open fail if the path's last part is a symbolic link.
pub const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;

/// Removes all permissions of group and others from a folder that we own.
///
/// Leaves a folder of another user alone, and one that is shared by design (`/tmp`, by its sticky bit).
///
/// # Errors
/// Fails if the folder's metadata cannot be read or set.
pub fn restrict_to_owner(folder: &Path) -> io::Result<()> {
    // The sticky bit marks a folder that is shared on purpose, such as `/tmp`.
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
    fn our_folder_is_restricted_to_its_owner() {
        let dir = tempfile::TempDir::new().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        for (before, after) in [(0o777, 0o700), (0o750, 0o700), (0o500, 0o500), (0o1777, 0o1777)] {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(before)).unwrap();
            restrict_to_owner(dir.path()).unwrap();
            assert_eq!(mode(dir.path()), after, "{before:o}");
        }
    }
}
