//! Watches for files that make programs run and that confined commands create or change: puts them aside, by another
//! name, and puts back what was there.
//!
//! The sandbox protects such files only where they exist, and no link. What a confined process alone can have made is
//! renamed before anything else happens, and comes back if the user keeps it. What others can have made too keeps its
//! name until the user has answered. Nothing is deleted. Must not know how users are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::git_guard::find_new_repository;
use super::steering_change::{
    SteeringChange, SteeringOutcome, UnreportedChanges, rename_aside, rename_beside,
};
use super::steering_snapshot::{SnapshotOptions, SteeringDifference, SteeringSnapshot, SteeringState};
use super::watch::ExternalWriteWatch;
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::spawn::run_blocking;
use crate::sandbox::name_reader;

/// Most files and folders that are looked at in a created folder.
const MAX_ENTRIES: usize = 1_000;

/// The watches of all workspace folders, which sessions share: a process of one may write in the folder of another.
#[derive(Debug, Default)]
pub(super) struct SteeringWatch {
    folders: Mutex<BTreeMap<PathBuf, Arc<FolderWatch>>>,
    unconfined: Arc<UnconfinedCommands>,
}

/// How many commands started and ended outside of the sandbox, where they can write everything.
#[derive(Debug, Default)]
struct UnconfinedCommands {
    started: AtomicUsize,
    ended: AtomicUsize,
}

/// What had changed when a process started, to tell its changes from those of others. By default, others may have made
/// everything.
#[derive(Debug, Default)]
pub struct EarlierChanges {
    /// Whether something was there before, by path.
    paths: BTreeMap<PathBuf, bool>,
    /// How many commands had ended outside of the sandbox.
    unconfined_ended: Option<usize>,
}

#[derive(Debug, Default)]
struct FolderWatch {
    /// Confined processes that run, in the background too.
    running: AtomicUsize,
    /// From before the first of them started, until the first look after the last has ended. Locked while the disk is
    /// read, so never on an async thread.
    since: Mutex<Option<Since>>,
    unreported: UnreportedChanges,
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

/// One process; it counts as running until [`Self::finish`], or until this is dropped. The default counts as none.
#[derive(Debug, Default)]
pub struct WatchedCommand {
    /// Where it can write although it is confined.
    folders: Vec<(PathBuf, Arc<FolderWatch>)>,
    has_closed_submodules: bool,
    /// Set if it is not confined.
    unconfined: Option<Arc<UnconfinedCommands>>,
}

/// What [`SteeringWatch::settle`] has found.
#[derive(Debug, Default)]
pub(super) struct SettledChanges {
    pub(super) changes: Vec<SteeringChange>,
    /// New paths that may belong to a new repository. Nothing was done about them.
    pub(super) postponed: BTreeSet<PathBuf>,
}

impl SteeringWatch {
    /// Registers a process that starts. Reads the folders, so it blocks.
    pub(super) fn start_command(
        &self,
        folders: Vec<PathBuf>,
        options: &SnapshotOptions,
        external: impl Fn() -> ExternalWriteWatch,
    ) -> WatchedCommand {
        let mut watched = WatchedCommand::default();
        for folder in folders {
            let watch = self.lock().entry(folder.clone()).or_default().clone();
            let mut since = watch.lock();
            let since = since.get_or_insert_with(|| Since {
                // Before the snapshot, so that no write of others during it is missed.
                external: external(),
                known: SteeringSnapshot::take(&folder, options),
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

    /// Registers a process outside of the sandbox: while it runs, no change is certainly that of another.
    pub(super) fn start_unconfined(&self) -> WatchedCommand {
        self.unconfined.started.fetch_add(1, Ordering::SeqCst);
        WatchedCommand {
            folders: Vec::new(),
            has_closed_submodules: false,
            unconfined: Some(self.unconfined.clone()),
        }
    }

    /// Lists what has changed up to now. Blocks.
    pub(super) fn list_changes(&self, folders: &[PathBuf]) -> EarlierChanges {
        let mut earlier = EarlierChanges {
            paths: BTreeMap::new(),
            unconfined_ended: Some(self.unconfined.ended.load(Ordering::SeqCst)),
        };
        for (folder, watch) in self.find_watches(folders) {
            if let Some(since) = &*watch.lock() {
                let found = since.find_differences(&folder, |_| false).into_iter();
                earlier
                    .paths
                    .extend(found.map(|difference| (difference.path, difference.before.is_some())));
            }
        }
        earlier
    }

    /// Puts aside what a confined process has made, and puts back what it has replaced or removed. Blocks.
    ///
    /// `earlier` is from when the process started. `plain` lists the paths of new repositories that run nothing; without
    /// it, new repositories are postponed. Undecided changes are found again until the user has answered.
    pub(super) fn settle(
        &self,
        folders: &[PathBuf],
        earlier: &EarlierChanges,
        plain: Option<&BTreeSet<PathBuf>>,
    ) -> SettledChanges {
        let mut settled = SettledChanges::default();
        for (folder, watch) in self.find_watches(folders) {
            // Locked to the end: two commands that end at once must not rename the same file.
            let mut locked = watch.lock();
            let Some(since) = &mut *locked else { continue };
            let is_idle = watch.running.load(Ordering::Relaxed) == 0;
            if is_idle {
                since.end(&folder);
            }
            let mut postponed = BTreeSet::new();
            let differences = since.find_differences(&folder, |path| match plain {
                Some(plain) => plain.contains(path),
                None => find_new_repository(path).is_some() && postponed.insert(path.to_owned()),
            });
            for difference in differences {
                if !since.is_asked(&difference.path) {
                    let is_certain = self.is_certain(earlier, &difference.path);
                    let change = since.settle_difference(difference, is_certain);
                    settled.changes.extend(change.map(|change| watch.track(change)));
                }
            }
            if is_idle && postponed.is_empty() && !since.has_open_questions() {
                *locked = None;
            }
            settled.postponed.append(&mut postponed);
        }
        settled
    }

    /// Returns whether no one but confined processes can have made a change since `earlier`.
    fn is_certain(&self, earlier: &EarlierChanges, path: &Path) -> bool {
        earlier.unconfined_ended == Some(self.unconfined.started.load(Ordering::SeqCst))
            && !earlier.paths.keys().any(|changed| path.starts_with(changed))
    }

    /// Takes the changes that an earlier check has found and that nobody was told about.
    pub(super) fn take_unreported(&self, folders: &[PathBuf]) -> Vec<SteeringChange> {
        let mut found = Vec::new();
        for (_, watch) in self.find_watches(folders) {
            let mut unreported = watch.unreported.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = std::mem::take(&mut *unreported).into_iter();
            found.extend(taken.map(|change| watch.track(change)));
        }
        found
    }

    /// Accepts a change, because the user keeps it: it gets its name back, if it has lost it. Blocks.
    ///
    /// Returns the new path of what had the name meanwhile.
    ///
    /// # Errors
    /// Something else has the name now, or the system refuses.
    pub(super) fn keep(
        &self,
        folders: &[PathBuf],
        change: &mut SteeringChange,
    ) -> io::Result<Option<PathBuf>> {
        let mut replaced = None;
        if let SteeringOutcome::Aside(aside) = &change.outcome {
            // The user may have edited what was put back.
            if change.original.is_some() && nofollow::kind(&change.path).is_some() {
                replaced = Some(rename_aside(&change.path)?);
            }
            if let Err(error) = rename_beside(aside, &change.path) {
                if let Some(replaced) = &replaced {
                    rename_beside(replaced, &change.path)?;
                }
                return Err(error);
            }
        }
        for (folder, watch) in self.find_watches(folders) {
            if let Some(since) = &mut *watch.lock() {
                let now = since.known.take_with_new(&folder, &since.options);
                since.known.accept(&change.path, &now);
                since.exclude_from_end(&change.path);
            }
        }
        match &replaced {
            Some(replaced) => change.outcome = SteeringOutcome::Aside(replaced.clone()),
            None => change.mark_reported(),
        }
        Ok(replaced)
    }

    /// Puts aside an undecided change, because the user does not keep it. Blocks.
    pub(super) fn put_aside(&self, folders: &[PathBuf], change: &mut SteeringChange) {
        change.put_aside();
        for (_, watch) in self.find_watches(folders) {
            if let Some(since) = &mut *watch.lock() {
                since.exclude_from_end(&change.path);
            }
        }
    }

    /// Returns whether a confined process has run in one of the folders.
    pub(super) fn has_watches(&self, folders: &[PathBuf]) -> bool {
        !self.find_watches(folders).is_empty()
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

    /// Keeps a change if it is dropped before anybody was told.
    fn track(&self, mut change: SteeringChange) -> SteeringChange {
        change.unreported = Some(self.unreported.clone());
        change
    }
}

impl EarlierChanges {
    /// Lists the outermost changed paths, and whether something was there before.
    pub fn list_outermost(&self) -> Vec<(&Path, bool)> {
        let mut outermost: Vec<(&Path, bool)> = Vec::new();
        for (path, existed) in &self.paths {
            // A folder comes before what is in it.
            if outermost.last().is_none_or(|(outer, _)| !path.starts_with(outer)) {
                outermost.push((path, *existed));
            }
        }
        outermost
    }
}

impl WatchedCommand {
    /// Returns whether the sandbox makes all submodules read-only, because there are too many.
    pub fn has_closed_submodules(&self) -> bool {
        self.has_closed_submodules
    }

    /// Returns whether it is confined and can write nevertheless.
    pub fn is_watched(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Passes on what the start of the process has returned. If it failed, nothing is left of the process.
    ///
    /// # Errors
    /// The start failed.
    pub async fn finish_unless_started<T, E>(self, started: Result<T, E>) -> Result<(T, Self), E> {
        match started {
            Ok(started) => Ok((started, self)),
            Err(error) => {
                self.finish().await;
                Err(error)
            }
        }
    }

    /// Records that nothing of the process is left. What appears from now on comes from others.
    pub async fn finish(mut self) {
        if !self.is_watched() {
            return;
        }
        let folders = std::mem::take(&mut self.folders);
        // After a panic, everything up to the next look is taken for the process's.
        let _ = run_blocking(move || {
            for (folder, watch) in folders {
                let mut since = watch.lock();
                if watch.running.fetch_sub(1, Ordering::Relaxed) == 1
                    && let Some(since) = &mut *since
                {
                    since.end(&folder);
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
        if let Some(unconfined) = &self.unconfined {
            unconfined.ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Since {
    /// Lets another process start. What others have made since the last one ended is theirs.
    fn resume(&mut self, folder: &Path, options: &SnapshotOptions) {
        let named = options.named.iter();
        let mut theirs: Vec<PathBuf> = named
            .filter(|path| !self.options.named.contains(path))
            .cloned()
            .collect();
        self.options.named.extend(theirs.iter().cloned());
        if let Some(ended) = self.ended.take() {
            let now = self.take_snapshot(folder);
            let differences = ended.find_differences(&now).into_iter();
            theirs.extend(differences.map(|difference| difference.path));
        }
        if !theirs.is_empty() {
            let now = self.known.take_with_new(folder, &self.options);
            theirs.iter().for_each(|path| self.known.accept(path, &now));
        }
    }

    /// Records that no process runs any more.
    fn end(&mut self, folder: &Path) {
        if self.ended.is_none() {
            self.ended = Some(self.take_snapshot(folder));
        }
    }

    /// Records that what has the name from now on is not the process's.
    fn exclude_from_end(&mut self, path: &Path) {
        if let Some(ended) = &mut self.ended {
            ended.accept(path, &self.known);
        }
    }

    fn take_snapshot(&self, folder: &Path) -> SteeringSnapshot {
        self.known.take_again(folder, &self.options)
    }

    fn is_asked(&self, path: &Path) -> bool {
        self.asked.get(path).is_some_and(|asked| asked.strong_count() > 0)
    }

    fn has_open_questions(&self) -> bool {
        self.asked.values().any(|asked| asked.strong_count() > 0)
    }

    /// Lists what a confined process can have changed: not what tools or the editor have written, nor a new repository
    /// that runs nothing.
    fn find_differences(
        &self,
        folder: &Path,
        mut is_plain_repository: impl FnMut(&Path) -> bool,
    ) -> Vec<SteeringDifference> {
        let taken;
        let now = match &self.ended {
            Some(ended) => ended,
            None => {
                taken = self.take_snapshot(folder);
                &taken
            }
        };
        let (mut found, mut examined) = (Vec::new(), Vec::<PathBuf>::new());
        for difference in self.known.find_differences(now) {
            let path = &difference.path;
            // A folder comes before what is in it.
            let is_covered = examined.last().is_some_and(|outer| path.starts_with(outer));
            let is_missing = nofollow::kind(path).is_none();
            if is_covered || is_missing != difference.is_gone {
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
            SteeringState::Folder { is_expanded } => *is_expanded,
            SteeringState::File(None) | SteeringState::TodoList(_) | SteeringState::Other => false,
        };
        let mut change = SteeringChange {
            reader: name_reader(&difference.path),
            original: difference.before.filter(can_put_back),
            path: difference.path,
            outcome: SteeringOutcome::Undecided,
            not_put_back: None,
            asked: Arc::default(),
            unreported: None,
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
        self.exclude_from_end(&change.path);
        Some(change)
    }

    /// Returns what of a new path no one but a command can have written.
    fn exclude_other_writers(&self, path: PathBuf) -> Vec<SteeringDifference> {
        let is_others = |file: &PathBuf| self.external.has_external_write(file);
        let paths = match list_files(&path) {
            Some(files) if files.iter().any(is_others) => {
                files.into_iter().filter(|file| !is_others(file)).collect()
            }
            None if is_others(&path) => Vec::new(),
            _ => vec![path],
        };
        let to_difference = |path| SteeringDifference {
            path,
            before: None,
            is_gone: false,
        };
        paths.into_iter().map(to_difference).collect()
    }
}

/// Lists the files below a folder, in order. `None` if it has too many entries, or if it cannot be listed.
fn list_files(folder: &Path) -> Option<BTreeSet<PathBuf>> {
    let (mut files, mut pending, mut room) = (BTreeSet::new(), vec![folder.to_owned()], MAX_ENTRIES);
    while let Some(folder) = pending.pop() {
        for entry in OpenFolder::open(&folder).ok()?.read_entries().ok()? {
            let entry = entry.ok()?;
            room = room.checked_sub(1)?;
            let path = folder.join(entry.name);
            if entry.kind == FileKind::Folder {
                pending.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests;
