//! One live holder per session: a file per session, locked with `flock`, whose content names the holder.
//!
//! The system releases the lock of a process that dies, so that no lock is ever stale. Knows only ids and files.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::files::{self, DataDir};
use crate::base::clock;
use crate::domain::SessionId;

/// Interval between attempts to take a lock that another server holds.
///
/// `flock` itself could wait, but only on a thread that nothing can interrupt. This is the only polling loop here; it
/// lasts 5 s at most.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// Hands out session locks.
#[derive(Clone, Debug)]
pub struct Locks {
    folder: DataDir,
}

/// A session held by this server. Dropping it releases the session.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    // Closing the file releases the lock.
    _file: File,
}

/// The holder of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Process id; 0 if unknown, for example because the disk was full.
    pub pid: u32,
    /// When it took the session, in ms since the epoch.
    pub started_ms: i64,
    /// Name of the client that it serves.
    pub client: String,
}

/// The reason why a session could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server, or another task of this one, holds it.
    #[error("the session is open in {holder}; close it there first")]
    Held { holder: Holder },
    /// The lock file is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Holder {
    /// Returns this process as a holder, on behalf of `client`.
    pub fn for_this_process(client: impl Into<String>) -> Self {
        Self {
            pid: std::process::id(),
            started_ms: clock::wall_ms(),
            client: client.into(),
        }
    }

    fn name(&self) -> &str {
        if self.client.is_empty() {
            "another client"
        } else {
            &self.client
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            0 => f.write_str(self.name()),
            pid => write!(f, "{} (process {pid})", self.name()),
        }
    }
}

impl Locks {
    pub(super) fn new(folder: DataDir) -> Self {
        Self { folder }
    }

    /// Takes a session; waits up to `wait` for its holder (R-SESS-1: 5 s).
    ///
    /// # Errors
    /// [`LockError::Held`] with the remaining holder, or [`LockError::Store`] if the lock file is unusable.
    pub async fn acquire_session(
        &self,
        session: &SessionId,
        holder: &Holder,
        wait: Duration,
    ) -> Result<SessionLock, LockError> {
        let until = clock::now() + wait;
        loop {
            match self.try_acquire(session, holder) {
                Err(LockError::Held { .. }) if clock::now() < until => {
                    clock::sleep(RETRY_INTERVAL.min(until - clock::now())).await;
                }
                other => return other,
            }
        }
    }

    /// Whether the session is held now. The check blocks a concurrent attempt to take it for a moment; that one
    /// retries.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for an id that cannot be a file name, or an I/O error.
    pub fn is_held(&self, session: &SessionId) -> Result<bool, StoreError> {
        let path = self.folder.lock(session)?;
        let failed = |error| StoreError::from_io("looking at", &path, error);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        // A shared lock, so that concurrent checks do not take each other for holders.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Takes a session if it is free.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder, or [`LockError::Store`] if the lock file is unusable.
    pub fn try_acquire(&self, session: &SessionId, holder: &Holder) -> Result<SessionLock, LockError> {
        let path = self.folder.lock(session)?;
        let failed = |error| LockError::Store(StoreError::from_io("locking", &path, error));
        if let Some(parent) = path.parent() {
            files::private_folder(parent).map_err(failed)?;
        }
        loop {
            // Not truncated on opening: the file may name another holder.
            let mut file = files::private_file()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)
                .map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held {
                        holder: read_holder(&mut file),
                    });
                }
                Err(errno) => return Err(failed(errno.into())),
            }
            // The previous holder may have removed the file after our open and before our lock: then we hold a lock on
            // a file that no other process will find.
            if !is_same(&file, &path).map_err(failed)? {
                continue;
            }
            // The lock is valid without a name; a full disk has no space for one (R-SESS-4).
            if let Err(error) = write_holder(&mut file, holder) {
                tracing::warn!(%session, %error, "the lock file does not name its holder");
            }
            return Ok(SessionLock { path, _file: file });
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Removed while the lock is held, so that it is our own file. A file that stays does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // The name may be incomplete; that there is a holder matters more than who it is.
    let _ = file.take(4_096).read_to_string(&mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec(holder)?)
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let mine = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (mine.dev(), mine.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> (tempfile::TempDir, Locks) {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::new(DataDir::new(folder.path().join("data")));
        (folder, locks)
    }

    fn holder(client: &str) -> Holder {
        Holder {
            pid: 7,
            started_ms: 1,
            client: client.into(),
        }
    }

    #[test]
    fn a_held_session_is_refused_with_its_holder() {
        let (_folder, locks) = locks();
        let session = SessionId::from("ses_1");
        assert!(!locks.is_held(&session).unwrap());
        let session_lock = locks.try_acquire(&session, &holder("vim")).unwrap();
        assert!(locks.is_held(&session).unwrap());
        let error = locks.try_acquire(&session, &holder("code")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the session is open in vim (process 7); close it there first"
        );
        locks
            .try_acquire(&SessionId::from("ses_2"), &holder("code"))
            .unwrap();
        drop(session_lock);
        let session_lock = locks.try_acquire(&session, &holder("code")).unwrap();
        let error = locks.try_acquire(&session, &holder("vim")).unwrap_err();
        assert!(matches!(error, LockError::Held { holder } if holder.client == "code"));
        drop(session_lock);
    }

    #[tokio::test(start_paused = true)]
    async fn acquire_waits_for_a_release_up_to_its_limit() {
        let (_folder, locks) = locks();
        let session = SessionId::from("ses_1");
        let wait = Duration::from_secs(5);
        let session_lock = locks.try_acquire(&session, &holder("vim")).unwrap();
        let start = clock::now();
        assert!(matches!(
            locks.acquire_session(&session, &holder("code"), wait).await,
            Err(LockError::Held { .. })
        ));
        assert_eq!(start.elapsed(), wait);
        let me = holder("code");
        let mut waiting = Box::pin(locks.acquire_session(&session, &me, wait));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(session_lock);
        waiting.await.unwrap();
    }

    #[test]
    fn a_lock_left_by_a_dead_process_is_free() {
        let (_folder, locks) = locks();
        let session = SessionId::from("ses_1");
        let path = locks.folder.lock(&session).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, r#"{"pid": 1, "client": "gone"}"#).unwrap();
        locks.try_acquire(&session, &holder("vim")).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_loses_the_holders_name_but_not_the_lock() {
        let (_folder, locks) = locks();
        let session = SessionId::from("ses_1");
        let path = locks.folder.lock(&session).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let session_lock = locks.try_acquire(&session, &holder("vim")).unwrap();
        drop(session_lock);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        let file = File::open(&path).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = locks.try_acquire(&session, &holder("code")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the session is open in another client; close it there first"
        );
    }

    #[test]
    fn a_removed_or_replaced_file_is_not_a_lock() {
        let (folder, _) = locks();
        let path = folder.path().join("x");
        let file = File::create(&path).unwrap();
        assert!(is_same(&file, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_same(&file, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!is_same(&file, &path).unwrap());
    }

    #[test]
    fn concurrent_takers_never_hold_a_session_together() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (_folder, locks) = locks();
        let session = SessionId::from("ses_1");
        let (inside, acquisitions) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while acquisitions.load(Ordering::SeqCst) < 500 {
                        let Ok(session_lock) = locks.try_acquire(&session, &holder("x")) else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        acquisitions.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(session_lock);
                    }
                });
            }
        });
    }

    #[test]
    fn session_ids_cannot_leave_the_folder() {
        let (_folder, locks) = locks();
        let error = locks
            .try_acquire(&SessionId::from("../x"), &holder("x"))
            .unwrap_err();
        assert!(matches!(error, LockError::Store(StoreError::BadName(_))));
    }
}
