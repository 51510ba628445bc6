//! Folders and files that only their owner may read (R-SEC).
//!
//! For the folders of agentls itself (store, logs), whose paths no repository provides; those go through `nofollow`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::base::random;

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

/// Reads at most `max` bytes of a file of ours with secrets.
///
/// # Errors
/// Fails if it cannot be read, or if others can read it: then its secrets may be known.
pub fn read_file(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can read it; remove it and log in again"));
    }
    let mut text = Vec::new();
    file.take(max).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces a file with secrets as a whole. Only its owner can read it.
///
/// # Errors
/// Fails if it cannot be written; the old file stays.
pub fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", random::random_token(8)));
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new);
    let written = created.and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&new, path));
    if moved.is_err() {
        let _ = fs::remove_file(&new);
    }
    moved
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
