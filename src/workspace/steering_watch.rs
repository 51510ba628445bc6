//! Watches for files that make programs run and that confined commands create or change: puts them aside, by another
//! name, and puts back what was there.
//!
//! The sandbox protects such files only where they exist, and no link. What a confined process alone can have made is
//! renamed before anything else happens, and comes back if the user keeps it. What others can have made too keeps its
//! name until the user has answered. Must not know how users are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::steering_snapshot::{SnapshotOptions, SteeringDifference, SteeringSnapshot, SteeringState};
use super::watch::ExternalWriteWatch;
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::spawn::run_blocking;
use crate::sandbox::name_reader;

/// Goes before the name of what is put aside. No program obeys such a name.
const ASIDE: &str = "put-aside-";
/// Most names tried for one file.
const MAX_NAMES: u32 = 100;
/// Most files that are looked at in a created folder.
const MAX_FILES: usize = 1_000;

/// The watches of all workspace folders, which sessions share: a process of one may write in the folder of another.
#[derive(Debug, Default)]
pub(super) struct SteeringWatch {
    folders: Mutex<BTreeMap<PathBuf, Arc<FolderWatch>>>,
}

#[derive(Debug, Default)]
struct FolderWatch {
    /// Confined processes that run, in the background too.
    running: AtomicUsize,
    /// From before the first of them started, until the first look after the last has ended. Locked while the disk is
    /// read, so never on an async thread.
    since: Mutex<Option<Since>>,
}

/// What was there when the watch began, and who else has written since.
#[derive(Debug)]
struct Since {
    known: SteeringSnapshot,
    options: SnapshotOptions,
    /// Also knows what tools write, whose changes were judged or approved.
    external: ExternalWriteWatch,
    /// When the last process had ended. What is newer comes from others.
    ended: Option<SteeringSnapshot>,
    /// The user is being asked about these, as long as the change exists.
    asked: BTreeMap<PathBuf, Weak<()>>,
}

/// One confined process; it counts as running until [`Self::finish`], or until this is dropped.
#[derive(Debug)]
pub struct WatchedCommand {
    folders: Vec<(PathBuf, Arc<FolderWatch>)>,
    has_closed_submodules: bool,
}

/// A file or folder that makes programs run, and that a confined process created, changed, or removed.
#[derive(Debug)]
pub struct SteeringChange {
    pub path: PathBuf,
    /// Who obeys it, for people.
    pub reader: &'static str,
    pub outcome: SteeringOutcome,
    /// What to put back when it is put aside.
    original: Option<SteeringState>,
    /// Undecided changes are not reported again while this exists.
    asked: Arc<()>,
}

/// What was done about a change.
#[derive(Debug)]
pub enum SteeringOutcome {
    /// It has this name now, and what was there before is back, if anything was.
    Aside(PathBuf),
    /// Nothing yet: others may have made it.
    Undecided,
    /// It was removed, and is back.
    PutBack,
    /// It could not be put aside or back.
    Failed(io::Error),
}

impl SteeringWatch {
    /// Registers a process that starts. Reads the folders, so it blocks.
    pub(super) fn start_command(
        &self,
        folders: Vec<PathBuf>,
        options: &SnapshotOptions,
        external: impl Fn() -> ExternalWriteWatch,
    ) -> WatchedCommand {
        let mut watched = WatchedCommand {
            folders: Vec::new(),
            has_closed_submodules: false,
        };
        for folder in folders {
            let watch = self.lock().entry(folder.clone()).or_default().clone();
            let mut since = watch.lock();
            let since = since.get_or_insert_with(|| Since {
                // Before the snapshot, so that no write of others during it is missed.
                external: external(),
                known: SteeringSnapshot::take(&folder, options, None),
                options: options.clone(),
                ended: None,
                asked: BTreeMap::new(),
            });
            since.resume(&folder, options);
            watched.has_closed_submodules |= since.known.has_closed_submodules;
            watch.running.fetch_add(1, Ordering::Relaxed);
            watched.folders.push((folder, watch.clone()));
        }
        watched
    }

    /// Lists what has changed up to now. Blocks.
    pub(super) fn list_changed_paths(&self, folders: &[PathBuf]) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        for (folder, watch) in self.find_watches(folders) {
            if let Some(since) = &*watch.lock() {
                let found = since.find_differences(&folder, |_| false);
                paths.extend(found.into_iter().map(|difference| difference.path));
            }
        }
        paths
    }

    /// Puts aside what a confined process has made, and puts back what it has replaced or removed. Blocks.
    ///
    /// `earlier` lists what had changed when the only process started that ran since; without it, others may have made
    /// everything, and `can_ask` says whether the user can be asked about it now. `is_plain_repository` returns whether a path is of a new repository that runs nothing.
    pub(super) fn settle(
        &self,
        folders: &[PathBuf],
        earlier: Option<&BTreeSet<PathBuf>>,
        can_ask: bool,
        is_plain_repository: impl Fn(&Path) -> bool,
    ) -> Vec<SteeringChange> {
        let mut changes = Vec::new();
        for (folder, watch) in self.find_watches(folders) {
            // Locked to the end: two commands that end at once must not rename the same file.
            let mut locked = watch.lock();
            let Some(since) = &mut *locked else { continue };
            for difference in since.find_differences(&folder, &is_plain_repository) {
                let is_certain = earlier.is_some_and(|earlier| !earlier.contains(&difference.path));
                if is_certain || can_ask {
                    changes.extend(since.settle_difference(difference, is_certain));
                }
            }
            if can_ask && watch.running.load(Ordering::Relaxed) == 0 {
                *locked = None;
            }
        }
        changes
    }

    /// Accepts a change, because the user keeps it: it gets its name back, if it has lost it. Blocks.
    ///
    /// # Errors
    /// Something else has the name now, or the system refuses.
    pub(super) fn keep(&self, folders: &[PathBuf], change: &SteeringChange) -> io::Result<()> {
        if let SteeringOutcome::Aside(aside) = &change.outcome {
            if change.original.is_some() && nofollow::kind(&change.path).is_some() {
                exchange_beside(aside, &change.path)?;
            } else {
                rename_beside(aside, &change.path)?;
            }
        }
        for (folder, watch) in self.find_watches(folders) {
            if let Some(since) = &mut *watch.lock() {
                let now = SteeringSnapshot::take(&folder, &since.options, Some(&since.known));
                since.known.accept(&change.path, &now);
            }
        }
        Ok(())
    }

    fn find_watches(&self, folders: &[PathBuf]) -> Vec<(PathBuf, Arc<FolderWatch>)> {
        let watches = self.lock();
        let found = folders.iter();
        found
            .filter_map(|folder| Some((folder.clone(), watches.get(folder)?.clone())))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<FolderWatch>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FolderWatch {
    fn lock(&self) -> MutexGuard<'_, Option<Since>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedCommand {
    /// Returns whether the sandbox makes all submodules read-only, because there are too many.
    pub fn has_closed_submodules(&self) -> bool {
        self.has_closed_submodules
    }

    /// Records that nothing of the process is left. What appears from now on comes from others.
    pub async fn finish(mut self) {
        let folders = std::mem::take(&mut self.folders);
        // After a panic, everything up to the next look is taken for the process's.
        let _ = run_blocking(move || {
            for (folder, watch) in folders {
                let mut since = watch.lock();
                if watch.running.fetch_sub(1, Ordering::Relaxed) == 1
                    && let Some(since) = &mut *since
                {
                    since.ended = Some(since.take_snapshot(&folder));
                }
            }
        })
        .await;
    }
}

impl Drop for WatchedCommand {
    fn drop(&mut self) {
        for (_, watch) in &self.folders {
            watch.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Since {
    /// Lets another process start. What others have made since the last one ended is theirs.
    fn resume(&mut self, folder: &Path, options: &SnapshotOptions) {
        for named in &options.named {
            if !self.options.named.contains(named) {
                self.options.named.push(named.clone());
                let now = self.take_snapshot(folder);
                self.known.accept(named, &now);
            }
        }
        let Some(ended) = self.ended.take() else { return };
        let now = self.take_snapshot(folder);
        for difference in ended.find_differences(&now) {
            self.known.accept(&difference.path, &now);
        }
    }

    fn take_snapshot(&self, folder: &Path) -> SteeringSnapshot {
        SteeringSnapshot::take(folder, &self.options, Some(&self.known))
    }

    fn is_asked(&self, path: &Path) -> bool {
        self.asked.get(path).is_some_and(|asked| asked.strong_count() > 0)
    }

    /// Lists what a confined process can have changed: not what tools or the editor have written, nor a new repository
    /// that runs nothing.
    fn find_differences(
        &self,
        folder: &Path,
        is_plain_repository: impl Fn(&Path) -> bool,
    ) -> Vec<SteeringDifference> {
        let now = self.ended.clone().unwrap_or_else(|| self.take_snapshot(folder));
        let (mut found, mut examined) = (Vec::new(), Vec::<PathBuf>::new());
        for difference in self.known.find_differences(&now) {
            let path = &difference.path;
            // A folder comes before what is in it.
            let is_covered = examined.last().is_some_and(|outer| path.starts_with(outer));
            let is_missing = nofollow::kind(path).is_none();
            if is_covered || self.is_asked(path) || is_missing != difference.is_gone {
                continue;
            }
            if difference.before.is_some() {
                if !self.external.has_external_write(path) {
                    found.push(difference);
                }
                continue;
            }
            examined.push(path.clone());
            if !is_plain_repository(path) {
                found.extend(self.exclude_other_writers(difference.path));
            }
        }
        found
    }

    fn settle_difference(
        &mut self,
        difference: SteeringDifference,
        is_certain: bool,
    ) -> Option<SteeringChange> {
        let can_put_back = |before: &SteeringState| match before {
            SteeringState::Link { .. } | SteeringState::File(Some(_)) => true,
            SteeringState::Folder => self.options.keeps_contents,
            SteeringState::File(None) | SteeringState::TodoList(_) | SteeringState::Other => false,
        };
        let mut change = SteeringChange {
            reader: name_reader(&difference.path),
            outcome: SteeringOutcome::Undecided,
            original: difference.before.filter(can_put_back),
            path: difference.path,
            asked: Arc::default(),
        };
        if difference.is_gone {
            // What the user has removed stays away.
            let original = change.original.as_ref().filter(|_| is_certain)?;
            change.outcome = match original.put_back(&change.path) {
                Ok(()) => SteeringOutcome::PutBack,
                Err(error) => SteeringOutcome::Failed(error),
            };
        } else if is_certain {
            change.put_aside();
        } else {
            self.asked
                .insert(change.path.clone(), Arc::downgrade(&change.asked));
            return Some(change);
        }
        if let Some(ended) = &mut self.ended {
            // What has the name from now on is not the process's.
            ended.accept(&change.path, &self.known);
        }
        Some(change)
    }

    /// Returns what of a new path no one but a command can have written.
    fn exclude_other_writers(&self, path: PathBuf) -> Vec<SteeringDifference> {
        let is_others = |file: &Path| self.external.has_external_write(file);
        let is_folder = nofollow::kind(&path) == Some(FileKind::Folder);
        let mut files = BTreeSet::new();
        let paths = if !is_folder || !list_files(&path, &mut files) {
            if is_others(&path) { Vec::new() } else { vec![path] }
        } else if files.iter().any(|file| is_others(file)) {
            files.into_iter().filter(|file| !is_others(file)).collect()
        } else {
            vec![path]
        };
        let to_difference = |path| SteeringDifference {
            path,
            before: None,
            is_gone: false,
        };
        paths.into_iter().map(to_difference).collect()
    }
}

impl SteeringChange {
    /// Renames it, and puts back what was there. Blocks.
    pub(super) fn put_aside(&mut self) {
        self.outcome = match rename_aside(&self.path) {
            Ok(aside) => SteeringOutcome::Aside(aside),
            Err(error) => SteeringOutcome::Failed(error),
        };
        if let (SteeringOutcome::Aside(_), Some(original)) = (&self.outcome, &self.original)
            && let Err(error) = original.put_back(&self.path)
        {
            // Nothing that runs is left there, which is what counts.
            tracing::warn!(%error, "cannot put back what a command has replaced");
        }
    }
}

/// Lists the files below a folder. Returns false if there are too many, or if it cannot be listed.
fn list_files(folder: &Path, files: &mut BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = OpenFolder::open(folder).and_then(|folder| folder.read_entries()) else {
        return false;
    };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let path = folder.join(&entry.name);
        let is_listed = match entry.kind {
            FileKind::Folder => list_files(&path, files),
            _ => files.insert(path),
        };
        if !is_listed || files.len() > MAX_FILES {
            return false;
        }
    }
    true
}

/// Renames a path so that no program obeys it, and returns its new path.
fn rename_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    for number in 1..=MAX_NAMES {
        let mut aside = OsString::from(ASIDE);
        if number > 1 {
            aside.push(format!("{number}-"));
        }
        aside.push(name);
        let aside = path.with_file_name(aside);
        match rename_beside(path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| aside),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Renames an entry to a new name in the same folder, which no part of the path may reach through a link.
fn rename_beside(from: &Path, to: &Path) -> io::Result<()> {
    let (Some(parent), Some(name), Some(new)) = (from.parent(), from.file_name(), to.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    OpenFolder::open_for_traversal(parent)?.rename_to_new(name, new)
}

/// Exchanges the names of two entries in the same folder, as [`rename_beside`], and removes the second one if it is a
/// file or a link.
fn exchange_beside(from: &Path, to: &Path) -> io::Result<()> {
    let (Some(parent), Some(name), Some(other)) = (from.parent(), from.file_name(), to.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = OpenFolder::open_for_traversal(parent)?;
    folder.exchange_entries(name, other)?;
    // A folder stays: the user may want something in it.
    let _ = folder.remove_file(name);
    Ok(())
}

#[cfg(test)]
mod tests;
