//! The folder that sandboxed commands see as `/tmp`: private to this process, removed with it.
//!
//! Those of all sessions are in one folder for each user, which the sandbox hides: a command sees only its own. A lock
//! says that the owner of one is alive, so that those of processes that were killed can be removed.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::base::random::random_token;

/// The start of the names of folders of this kind.
const PREFIX: &str = "agentls-sandbox-";
/// Most folders that are created before one can be locked.
const MAX_TRIES: usize = 10;

/// A temporary folder that only its owner can enter. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct PrivateTemp {
    path: PathBuf,
    /// Locked while the owner is alive.
    _lock: Option<File>,
}

impl PrivateTemp {
    /// Creates a folder of a new name in `parent`.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_in(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", random_token(20)));
        create_private(&path)?;
        Ok(Self { path, _lock: None })
    }

    /// Creates a folder in the one of this user in `parent`, a folder for temporary files, or beside it if others can
    /// enter that one.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_for_commands(parent: &Path) -> io::Result<Self> {
        for _ in 0..MAX_TRIES {
            let created = create_shared(parent).and_then(|shared| {
                let path = shared.join(random_token(20));
                create_private(&path).map(|()| path)
            });
            let path = match created {
                Ok(path) => path,
                // Another process has removed the folder of the user, which was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Another user must not prevent the sandbox by creating the folder first.
                Err(_) => return Self::create_in(parent),
            };
            let Ok(lock) = File::open(&path) else { continue };
            if lock.lock().is_err() {
                // Some file systems have no locks.
                return Ok(Self { path, _lock: None });
            }
            // Another process may have taken it for one without an owner just before.
            if fs::symlink_metadata(&path).is_ok() {
                return Ok(Self {
                    path,
                    _lock: Some(lock),
                });
            }
        }
        Err(io::Error::other(format!(
            "what is created in {} disappears",
            shared_path(parent).display()
        )))
    }

    /// Removes the folders of commands in `parent` whose owner is gone, since it was killed. Blocks.
    pub fn remove_abandoned(parent: &Path) {
        let shared = shared_path(parent);
        let entries = check_private(&shared).and_then(|()| fs::read_dir(&shared));
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            // Opening a pipe could wait forever.
            if !is_folder {
                continue;
            }
            let Ok(folder) = File::open(&path) else { continue };
            match folder.try_lock() {
                // Locked until it is gone, so that only one process removes it.
                Ok(()) => {
                    let _ = fs::remove_dir_all(&path);
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateTemp {
    fn drop(&mut self) {
        // Whatever cannot be removed is left to the system, which tidies its temporary folder.
        let _ = fs::remove_dir_all(&self.path);
        if let Some(shared) = self.path.parent().filter(|folder| is_shared_temp(folder)) {
            // Fails while it has another one.
            let _ = fs::remove_dir(shared);
        }
    }
}

/// Returns whether a folder contains the temporary folders of all commands of a user.
pub(super) fn is_shared_temp(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX))
}

/// Returns the folder of this user in `parent`.
fn shared_path(parent: &Path) -> PathBuf {
    parent.join(format!("{PREFIX}{}", getuid().as_raw()))
}

/// Creates the folder of this user in `parent` if it is missing.
fn create_shared(parent: &Path) -> io::Result<PathBuf> {
    let path = shared_path(parent);
    match create_private(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_private(&path)?,
        created => created?,
    }
    Ok(path)
}

/// Fails unless only this user can enter the folder. Another user can create the name first in a folder for everybody.
fn check_private(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_private = found.uid() == getuid().as_raw() && found.permissions().mode() & 0o077 == 0;
    if !found.is_dir() || !is_private {
        let reason = format!(
            "{} is not a private folder of this user; remove it",
            path.display()
        );
        return Err(io::Error::other(reason));
    }
    Ok(())
}

/// Fails if the path exists, so nobody else can have prepared it.
fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_enter_it_and_it_goes_with_its_content() {
        let parent = tempfile::tempdir().unwrap();
        let temp = PrivateTemp::create_in(parent.path()).unwrap();
        let mode = temp.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::create_dir(temp.path().join("a")).unwrap();
        let path = temp.path().to_owned();
        drop(temp);
        assert!(!path.exists());
    }

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let alive = PrivateTemp::create_for_commands(parent.path()).unwrap();
        let shared = alive.path().parent().unwrap().to_owned();
        assert!(is_shared_temp(&shared));
        let abandoned = shared.join("abandoned");
        fs::create_dir_all(abandoned.join("inner")).unwrap();
        PrivateTemp::remove_abandoned(parent.path());
        assert!(alive.path().exists() && !abandoned.exists());
        drop(alive);
        assert!(!shared.exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let shared = create_shared(parent.path()).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        let is_beside = || {
            let temp = PrivateTemp::create_for_commands(parent.path()).unwrap();
            temp.path().parent() == Some(parent.path())
        };
        assert!(is_beside());
        fs::remove_dir(&shared).unwrap();
        std::os::unix::fs::symlink(parent.path(), &shared).unwrap();
        assert!(is_beside());
    }
}
