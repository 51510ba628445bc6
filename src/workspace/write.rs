//! Writing a file so that every reader sees the old or the new content, never a part, and nothing is lost
//! when it fails half-way (R-TOOL-3): a temporary file beside it, then a rename.
//!
//! The temporary file is flushed (`fdatasync`) before the rename: a few milliseconds, for which a power cut
//! cannot leave a person's file empty. Mode and, where we may, owner and group are kept; access lists and
//! extended attributes are not, and a hard link's other names keep the old content.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use super::resolve::{PathError, real_path};
use crate::base::random;

/// Why a file was not written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Its mode forbids it.
    #[error("`{0}` is read-only; make it writable first if it is meant to change")]
    ReadOnly(PathBuf),
    /// A folder, a pipe, a device.
    #[error("`{0}` is not a regular file")]
    NotAFile(PathBuf),
    /// A link now stands where none stood when the path was resolved.
    #[error("`{0}` now leads somewhere else; ask for it again")]
    Moved(PathBuf),
    /// The path leads nowhere.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The disk said no.
    #[error("cannot write `{path}`: {}; it is as it was", reason(.source))]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Writes `bytes` as the content of `path`, a resolved path; its folders are created. Blocks.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(bytes))
}

fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), WriteError> {
    if real_path(path)? != path {
        return Err(WriteError::Moved(path.to_owned()));
    }
    let failed = |source| WriteError::Io {
        path: path.to_owned(),
        source,
    };
    let before = match path.symlink_metadata() {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(meta) = &before {
        if !meta.is_file() {
            return Err(WriteError::NotAFile(path.to_owned()));
        }
        // Renaming over it would work where the folder is writable; its mode says that it should not.
        if meta.permissions().readonly() || !writable(path) {
            return Err(WriteError::ReadOnly(path.to_owned()));
        }
    }
    let folder = path
        .parent()
        .ok_or_else(|| WriteError::NotAFile(path.to_owned()))?;
    fs::create_dir_all(folder).map_err(failed)?;
    let mut temporary = Temporary::create(folder, before.is_some()).map_err(failed)?;
    fill(&mut temporary.file).map_err(failed)?;
    if let Some(meta) = &before {
        keep_owner_and_mode(&temporary.file, meta).map_err(failed)?;
    }
    temporary.file.sync_data().map_err(failed)?;
    temporary.rename(path).map_err(failed)
}

/// A name for a file that is being written, and is renamed when it is whole.
pub(super) fn unfinished_name() -> String {
    format!(".agentls-{}.tmp", random::token(12))
}

/// Whether that is such a name.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".agentls-") && name.ends_with(b".tmp")
}

/// A file that goes away unless it is renamed.
struct Temporary {
    file: File,
    path: Option<PathBuf>,
}

impl Temporary {
    fn create(folder: &Path, private: bool) -> io::Result<Self> {
        let path = folder.join(unfinished_name());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if private {
            use std::os::unix::fs::OpenOptionsExt as _;
            // Nobody else may look into what may be a private file before it has its mode.
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = private;
        Ok(Self {
            file: options.open(&path)?,
            path: Some(path),
        })
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, to)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(unix)]
fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn writable(_path: &Path) -> bool {
    true
}

#[cfg(unix)]
fn keep_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{Gid, Uid, fchown};

    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let (uid, gid) = (Uid::from_raw(before.uid()), Gid::from_raw(before.gid()));
        // Who is not root may at most give it back to a group of theirs; the file then is theirs, as
        // after any editor's atomic save.
        if fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = fchown(file, None, Some(gid));
        }
    }
    // After the owner: changing that clears the set-id bits.
    file.set_permissions(before.permissions())
}

#[cfg(not(unix))]
fn keep_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    file.set_permissions(before.permissions())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "its folder may not be written to".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}

/// One lock per file, so that writes to one file run one after the other, in the order they came
/// (R-TOOL-1), whichever sessions they come from.
#[derive(Debug, Default)]
pub struct WriteLocks {
    locks: Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
}

impl WriteLocks {
    /// Waits for the file's lock; dropping the guard gives it back.
    pub async fn lock(&self, path: &Path) -> OwnedMutexGuard<()> {
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn place() -> (TempDir, PathBuf) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn writes_new_files_and_their_folders() {
        let (_dir, dir) = place();
        write(&dir.join("a/b/c.txt"), b"new").unwrap();
        assert_eq!(fs::read(dir.join("a/b/c.txt")).unwrap(), b"new");
        assert_eq!(names(&dir.join("a/b")), ["c.txt"]);
    }

    #[test]
    fn keeps_the_mode() {
        let (_dir, dir) = place();
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
    fn refuses_what_must_not_be_written() {
        let (_dir, dir) = place();
        let path = dir.join("fixed");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(matches!(write(&path, b"new"), Err(WriteError::ReadOnly(_))));
        assert!(matches!(write(&dir, b"new"), Err(WriteError::NotAFile(_))));
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
        assert_eq!(names(&dir), ["fixed", "link"]);
    }

    #[test]
    fn a_full_disk_leaves_the_old_content_and_no_litter() {
        let (_dir, dir) = place();
        let path = dir.join("file");
        fs::write(&path, "old").unwrap();
        let error = write_with(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert!(
            error.to_string().ends_with("the disk is full; it is as it was"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&dir), ["file"]);
    }

    #[tokio::test]
    async fn one_file_one_writer() {
        let locks = WriteLocks::default();
        let first = locks.lock(Path::new("/a")).await;
        let mut second = Box::pin(locks.lock(Path::new("/a")));
        assert!(futures::poll!(&mut second).is_pending());
        let _other = locks.lock(Path::new("/b")).await;
        drop(first);
        drop(second.await);
        assert_eq!(locks.locks.lock().unwrap().len(), 2);
        drop(locks.lock(Path::new("/c")).await);
        // What nobody holds any more is forgotten at the next lock.
        assert!(!locks.locks.lock().unwrap().contains_key(Path::new("/a")));
    }
}
