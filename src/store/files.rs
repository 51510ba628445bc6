//! The data folder: the paths and modes of its files, and where blocking work on them runs.
//!
//! Every path that contains a client's name passes [`validate_name`], so it stays inside the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::StoreError;
#[cfg(unix)]
use crate::base::private;
use crate::base::random;
use crate::domain::SessionId;

/// The data folder, and the id of this server process.
#[derive(Clone, Debug)]
pub(super) struct DataDir {
    root: Arc<Path>,
    server: Arc<str>,
}

impl DataDir {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root: root.into(),
            server: random::random_token(16).into(),
        }
    }

    /// Distinguishes the rows of this server from those of others.
    pub(super) fn server_id(&self) -> &str {
        &self.server
    }

    /// Returns the path of the database.
    pub(super) fn database_path(&self) -> PathBuf {
        self.root.join("store.db")
    }

    /// Returns the path of a session's lock file.
    pub(super) fn lock(&self, session: &SessionId) -> Result<PathBuf, StoreError> {
        Ok(self
            .root
            .join("locks")
            .join(format!("{}.lock", validate_name(session.as_str())?)))
    }

    /// Returns the folder of a session's long outputs.
    pub(super) fn content_dir(&self, session: &SessionId) -> Result<PathBuf, StoreError> {
        Ok(self.root.join("content").join(validate_name(session.as_str())?))
    }
}

/// Returns `name` if it is one plain path component. Session ids and content names also come from clients.
pub(super) fn validate_name(name: &str) -> Result<&str, StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    // A leading dot would allow `.` and `..`, which leave the folder.
    if name.is_empty() || name.len() > 128 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(StoreError::BadName(crate::base::text::one_line(name, 80)));
    }
    Ok(name)
}

/// Creates a folder and its parents for the owner only. An existing folder of ours is restricted too.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    private::restrict_to_owner(path)?;
    Ok(())
}

/// Returns options that create files for the owner only.
pub(super) fn private_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Returns the path of a file that belongs to the one at `path`.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn remove_database(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the file system of the database at `path` has room for `bytes` more, as `action` needs. If that is unknown, it
/// has.
///
/// # Errors
/// It has less, and nothing was changed.
pub(super) fn check_free_space(action: &'static str, path: &Path, bytes: u64) -> Result<(), StoreError> {
    let system = path.parent().and_then(|folder| rustix::fs::statvfs(folder).ok());
    let free = system.map_or(u64::MAX, |system| system.f_bavail.saturating_mul(system.f_frsize));
    if free >= bytes {
        return Ok(());
    }
    let (needed, free) = (bytes.div_ceil(1 << 20), free >> 20);
    let reason =
        format!("it needs {needed} MB of free disk space, and {free} MB are free; nothing was changed");
    let full = io::Error::new(io::ErrorKind::StorageFull, reason);
    Err(StoreError::from_io(action, path, full))
}

/// The device and number of a file; `None` if there is none.
pub(super) type FileIdentity = Option<(u64, u64)>;

/// Identifies the file at `path`, so that a replacement is noticed.
pub(super) fn identify_file(path: &Path) -> FileIdentity {
    let meta = fs::metadata(path).ok()?;
    Some((
        std::os::unix::fs::MetadataExt::dev(&meta),
        std::os::unix::fs::MetadataExt::ino(&meta),
    ))
}

/// Where blocking work runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum StorePlace {
    /// On the runtime's threads for blocking work.
    BlockingPool,
    /// In the caller (simulator, tests).
    Inline,
}

impl StorePlace {
    /// Runs `work` there.
    pub(super) async fn run_work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Inline => work(),
            // This fails only if the runtime ends or `work` panicked; the log reports a panic.
            Self::BlockingPool => tokio::task::spawn_blocking(work)
                .await
                .unwrap_or(Err(StoreError::Closed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_an_error_that_says_how_much_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        check_free_space("replacing", &path, 1).unwrap();
        let error = check_free_space("replacing", &path, u64::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("store.db failed: it needs 17592186044416 MB")
                && error.contains("nothing was changed"),
            "{error}"
        );
        // A folder that cannot be asked.
        check_free_space("replacing", &folder.path().join("gone/store.db"), u64::MAX).unwrap();
    }

    #[test]
    fn names_stay_inside_the_folder() {
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "a\0b",
            ".hidden",
            "é",
            &"x".repeat(129),
        ] {
            assert!(validate_name(bad).is_err(), "{bad:?}");
        }
        for good in ["ses_0123abc", "call_1.out", "a-b"] {
            assert!(validate_name(good).is_ok(), "{good:?}");
        }
    }
}
