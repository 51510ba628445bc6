//! Writes a file through a temporary file next to it and a rename (R-TOOL-3). Every reader sees the old or the new
//! content, never a part, and a failure loses nothing.
//!
//! The temporary file is flushed (`fdatasync`) before the rename. That takes a few milliseconds, but a power cut cannot
//! leave a user's file empty. Mode and, where permitted, owner and group are kept. Access control lists and extended
//! attributes are not kept. Other names of a hard link keep the old content: they may be outside of the workspace, or in a
//! package manager's store, where nobody has approved a change.
//!
//! Everything goes through a descriptor of the file's folder, so a link swapped in meanwhile leads nowhere. Must not
//! resolve or judge paths; callers do.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{Gid, Mode, Stat, Uid, fchmod, fchown, fstat};
use tokio::sync::OwnedMutexGuard;

use super::resolve::{PathError, real_path};
use crate::base::nofollow::{FileKind, OpenFolder, is_link_error, kind_of, status_of};
use crate::base::random;

/// The reason why a file was not written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The mode forbids it.
    #[error("`{0}` is read-only; make it writable first")]
    ReadOnly(PathBuf),
    /// A folder, a pipe, or a device.
    #[error("`{0}` is {1}; only regular files are written")]
    NotAFile(PathBuf, FileKind),
    /// A link has appeared since the path was resolved.
    #[error("`{0}` now leads elsewhere; try again")]
    Moved(PathBuf),
    /// The path cannot be resolved.
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot write `{path}`: {}; the file is unchanged", describe_error(.source))]
    Io { path: PathBuf, source: io::Error },
}

/// Writes `bytes` as the content of the resolved `path` and creates missing folders. Blocks.
///
/// # Errors
/// The file is read-only or not regular, a link has appeared on its path, or the disk fails.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with_mode(path, bytes, 0)
}

/// Writes like [`write()`]. A new file gets the permission bits `mode`, or the usual ones for 0.
///
/// # Errors
/// See [`write()`].
pub fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    write_with(path, |file| {
        file.write_all(bytes)?;
        if mode != 0 {
            // A file that existed gets its own bits back afterwards.
            fchmod(&*file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    })
}

/// Creates the folders of the file at the resolved `path`.
///
/// # Errors
/// See [`write()`].
pub fn create_folders(path: &Path) -> Result<(), WriteError> {
    open_folder(path).map(|_| ())
}

/// Returns whether the file at the resolved `path` has other names (hard links), which a write leaves as they are.
pub fn has_other_names(path: &Path) -> bool {
    status_of(path).is_ok_and(|status| kind_of(&status) == FileKind::Regular && status.st_nlink > 1)
}

/// Opens the folder of a file, which is created if it is missing. Returns the file's name in it, too.
fn open_folder(path: &Path) -> Result<(OpenFolder, &OsStr), WriteError> {
    // The path was resolved earlier; a link may have appeared on it since.
    if real_path(path)? != path {
        return Err(WriteError::Moved(path.to_owned()));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(WriteError::NotAFile(path.to_owned(), FileKind::Folder));
    };
    let folder = OpenFolder::create_all(parent).map_err(|source| failed_at(path, source))?;
    Ok((folder, name))
}

fn failed_at(path: &Path, source: io::Error) -> WriteError {
    if is_link_error(&source) {
        WriteError::Moved(path.to_owned())
    } else {
        WriteError::Io {
            path: path.to_owned(),
            source,
        }
    }
}

fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), WriteError> {
    let failed = |source| failed_at(path, source);
    let (folder, name) = open_folder(path)?;
    let before = match folder.entry_status(name) {
        Ok(status) => Some(status),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(status) = &before {
        match kind_of(status) {
            FileKind::Regular => {}
            FileKind::Link => return Err(WriteError::Moved(path.to_owned())),
            kind => return Err(WriteError::NotAFile(path.to_owned(), kind)),
        }
        // A rename over it would work if the folder is writable, but the mode says that it should not change.
        if Mode::from_raw_mode(status.st_mode) & WRITABLE == Mode::empty() || !folder.is_writable(name) {
            return Err(WriteError::ReadOnly(path.to_owned()));
        }
    }
    // The file may be private: keep it unreadable until it has its mode.
    let mode = if before.is_some() { 0o600 } else { 0o666 };
    let (mut temporary, mut file) = TemporaryFile::create_in(&folder, mode).map_err(failed)?;
    fill(&mut file).map_err(failed)?;
    if let Some(before) = &before {
        keep_owner_and_mode(&file, before).map_err(failed)?;
    }
    // Before the rename, so that a power cut cannot leave an empty file under the name.
    file.sync_data().map_err(failed)?;
    temporary.rename_to(name).map_err(failed)
}

/// Write permission for anyone.
const WRITABLE: Mode = Mode::WUSR.union(Mode::WGRP).union(Mode::WOTH);

/// Returns a name for a file in progress, which is renamed when complete.
fn unfinished_name() -> String {
    format!(".agentls-{}.tmp", random::random_token(12))
}

/// Returns whether this is the name of a file in progress.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".agentls-") && name.ends_with(b".tmp")
}

/// A file or link in a folder that is deleted unless it is renamed.
pub(super) struct TemporaryFile<'a> {
    folder: &'a OpenFolder,
    name: Option<OsString>,
}

impl<'a> TemporaryFile<'a> {
    /// Creates a new file with this mode.
    pub(super) fn create_in(folder: &'a OpenFolder, mode: u32) -> io::Result<(Self, File)> {
        let name = OsString::from(unfinished_name());
        let file = folder.create_file(&name, mode)?;
        let name = Some(name);
        Ok((Self { folder, name }, file))
    }

    /// Creates a new link.
    pub(super) fn create_link(folder: &'a OpenFolder, target: &str) -> io::Result<Self> {
        let name = OsString::from(unfinished_name());
        folder.create_link(target, &name)?;
        let name = Some(name);
        Ok(Self { folder, name })
    }

    /// Renames it to its final name, replacing an existing entry.
    pub(super) fn rename_to(&mut self, to: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename_entry(name, to)?;
        }
        // It has its final name now, so `drop` must not remove it.
        self.name = None;
        Ok(())
    }

    /// Renames it to its final name, which must not exist yet.
    pub(super) fn rename_to_new(&mut self, to: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename_to_new(name, to)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Best effort: `is_unfinished` recognizes what is left behind.
            let _ = self.folder.remove_file(name);
        }
    }
}

fn keep_owner_and_mode(file: &File, before: &Stat) -> io::Result<()> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        let (uid, gid) = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
        // Without root, at most the group can be restored; the user then owns the file, as after any editor's atomic
        // save.
        if fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = fchown(file, None, Some(gid));
        }
    }
    // After the owner: changing the owner clears the set-id bits.
    Ok(fchmod(file, Mode::from_raw_mode(before.st_mode))?)
}

fn describe_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "its folder is not writable".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}

/// One lock per file: writes to a file run one after the other, in order of arrival, across sessions (R-TOOL-1).
#[derive(Debug, Default)]
pub struct WriteLocks {
    locks: Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
}

impl WriteLocks {
    /// Waits for the file's lock; dropping the guard releases it.
    pub async fn lock(&self, path: &Path) -> OwnedMutexGuard<()> {
        // The lock on the map is released before waiting for the lock on the file.
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            match locks.get(path).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(tokio::sync::Mutex::new(()));
                    locks.insert(path.to_owned(), Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn create_temp_dir() -> (TempDir, PathBuf) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn list_names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn writes_new_files_and_their_folders() {
        let (_dir, dir) = create_temp_dir();
        write(&dir.join("a/b/c.txt"), b"new").unwrap();
        assert_eq!(fs::read(dir.join("a/b/c.txt")).unwrap(), b"new");
        assert_eq!(list_names(&dir.join("a/b")), ["c.txt"]);
    }

    #[test]
    fn keeps_the_mode() {
        let (_dir, dir) = create_temp_dir();
        let path = dir.join("run.sh");
        for mode in [0o755, 0o640, 0o600] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new");
        }
    }

    #[test]
    fn other_names_keep_the_old_content() {
        let (_dir, dir) = create_temp_dir();
        let [path, other] = ["a", "b"].map(|name| dir.join(name));
        fs::write(&path, "old").unwrap();
        assert!(!has_other_names(&path) && !has_other_names(&dir) && !has_other_names(&other));
        fs::hard_link(&path, &other).unwrap();
        assert!(has_other_names(&path));
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"old");
        assert!(!has_other_names(&path));
    }

    #[test]
    fn refuses_what_must_not_be_written() {
        let (_dir, dir) = create_temp_dir();
        let path = dir.join("fixed");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(matches!(write(&path, b"new"), Err(WriteError::ReadOnly(_))));
        assert!(matches!(
            write(&dir, b"new"),
            Err(WriteError::NotAFile(_, FileKind::Folder))
        ));
        assert!(matches!(
            write(&path.join("below"), b"new"),
            Err(WriteError::Path(PathError::NotAFolder(_)))
        ));
        symlink(&path, dir.join("link")).unwrap();
        assert!(matches!(
            write(&dir.join("link"), b"new"),
            Err(WriteError::Moved(_))
        ));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(list_names(&dir), ["fixed", "link"]);
    }

    #[test]
    fn a_full_disk_leaves_the_old_content_and_no_litter() {
        let (_dir, dir) = create_temp_dir();
        let path = dir.join("file");
        fs::write(&path, "old").unwrap();
        let error = write_with(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("the disk is full; the file is unchanged"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(list_names(&dir), ["file"]);
    }

    #[tokio::test]
    async fn a_file_has_one_writer_at_a_time() {
        let locks = WriteLocks::default();
        let first = locks.lock(Path::new("/a")).await;
        let mut second = Box::pin(locks.lock(Path::new("/a")));
        assert!(futures::poll!(&mut second).is_pending());
        let _other = locks.lock(Path::new("/b")).await;
        drop(first);
        drop(second.await);
        assert_eq!(locks.locks.lock().unwrap().len(), 2);
        drop(locks.lock(Path::new("/c")).await);
        // Unused locks are removed at the next lock.
        assert!(!locks.locks.lock().unwrap().contains_key(Path::new("/a")));
    }
}
