//! The commands of a session that run now, each with the files as it has found them.
//!
//! Must not compare or record anything; `tool::command_record` does.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use super::git_index::GitIndex;
use super::watch::{ExternalWriteWatch, KnownStates, WatchedTree};

/// The files from which a command's changes are computed. A copy costs little.
#[derive(Clone, Debug)]
pub struct CommandBase {
    pub watched: WatchedTree,
    /// What is kept of them. Later, a file may be known in a later state only.
    pub known: KnownStates,
    /// What git had when the command began.
    pub indexes: Arc<[GitIndex]>,
    pub external_writes: ExternalWriteWatch,
}

/// The base of a command that runs. Another call moves it when it has recorded what the command has changed so far.
#[derive(Debug)]
pub struct SharedBase(Mutex<CommandBase>);

impl SharedBase {
    /// Gives access to the base. Hold the guard briefly.
    pub fn lock(&self) -> MutexGuard<'_, CommandBase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The commands that run.
#[derive(Debug, Default)]
pub struct RunningCommands {
    bases: Mutex<Vec<Weak<SharedBase>>>,
    recording: Arc<tokio::sync::Mutex<()>>,
}

impl RunningCommands {
    /// Adds a command, until the returned base is dropped.
    pub fn add(&self, base: CommandBase) -> Arc<SharedBase> {
        let base = Arc::new(SharedBase(Mutex::new(base)));
        self.lock_bases().push(Arc::downgrade(&base));
        base
    }

    /// Lists the commands that run.
    pub fn list(&self) -> Vec<Arc<SharedBase>> {
        let mut bases = self.lock_bases();
        bases.retain(|base| base.strong_count() > 0);
        bases.iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until no other call compares and records. Hold the guard meanwhile: a revert needs the records in the order
    /// of the changes.
    pub async fn lock_recording(&self) -> OwnedMutexGuard<()> {
        self.recording.clone().lock_owned().await
    }

    /// Forgets one announcement of a write: what the commands make of the file from now on is theirs again.
    pub fn forget_external_write(&self, path: &Path, number: u64) {
        for base in self.list() {
            base.lock().external_writes.forget(path, number);
        }
    }

    fn lock_bases(&self) -> MutexGuard<'_, Vec<Weak<SharedBase>>> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
