//! Watches for files that make programs run and that confined commands create or change: puts them aside, by another
//! name, and puts back what was there.
//!
//! The sandbox protects such files only where they exist, and no link. For background processes, `reserved_names` lets
//! some exist, and `steering_record` keeps what was there before in case that agentls is killed. What a confined process alone can have made is
//! renamed before anything else happens, and comes back if the user keeps it. What others can have made too keeps its
//! name until the user has answered. Nothing is deleted. Must not know how users are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::git_guard::find_new_repository;
use super::reserved_names::ReservedNames;
use super::steering_change::{
    SteeringChange, SteeringOutcome, UnreportedChanges, rename_aside, rename_beside,
};
use super::steering_record::{RecordFile, WatchRecord};
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
    /// Where records are kept; unset if they are not.
    records: Arc<OnceLock<PathBuf>>,
    /// The folders of sessions for which records were looked for.
    adopted: Mutex<BTreeSet<PathBuf>>,
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
    records: Arc<OnceLock<PathBuf>>,
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
    /// The user was told about these without a question.
    announced: BTreeSet<PathBuf>,
    reserved: ReservedNames,
    record: Option<RecordFile>,
}

/// One process; it counts as running until [`Self::finish`], or until this is dropped. The default counts as none.
#[derive(Debug, Default)]
pub struct WatchedCommand {
    /// Where it can write although it is confined.
    folders: Vec<(PathBuf, Arc<FolderWatch>)>,
    has_closed_submodules: bool,
    /// Folders whose names are reserved while it runs.
    reserved: Vec<PathBuf>,
    /// Set if it is not confined.
    unconfined: Option<Arc<UnconfinedCommands>>,
}

/// What [`SteeringWatch::announce`] has found.
#[derive(Debug, Default)]
pub(super) struct AnnouncedChanges {
    pub(super) paths: Vec<PathBuf>,
    /// As in [`SettledChanges`].
    pub(super) postponed: BTreeSet<PathBuf>,
}

/// What [`SteeringWatch::settle`] has found.
#[derive(Debug, Default)]
pub(super) struct SettledChanges {
    pub(super) changes: Vec<SteeringChange>,
    /// New paths that may belong to a new repository. Nothing was done about them.
    pub(super) postponed: BTreeSet<PathBuf>,
}

impl SteeringWatch {
    /// Keeps records in a folder, which is created when there is something to keep.
    pub(super) fn keep_records(&self, records: PathBuf) {
        let _ = self.records.set(records);
    }

    /// Registers a process that starts. Reads the folders, so it blocks.
    ///
    /// `may_reserve` says for which of them missing names may be reserved until the process has ended.
    pub(super) fn start_command(
        &self,
        folders: Vec<PathBuf>,
        options: &SnapshotOptions,
        may_reserve: impl Fn(&Path) -> bool,
        external: impl Fn() -> ExternalWriteWatch,
    ) -> WatchedCommand {
        let mut watched = WatchedCommand::default();
        for folder in folders {
            let watch = self.open_watch(&folder);
            let mut since = watch.lock();
            let since = since.get_or_insert_with(|| Since::begin(&folder, options, external()));
            since.resume(&folder, options);
            // A process that runs already has no mount over a new folder, and what it creates in one would not be found.
            if watch.running.load(Ordering::Relaxed) == 0 && may_reserve(&folder) {
                since.reserve_names(&folder);
            }
            watched.reserved.extend(since.reserved.paths().cloned());
            watched.has_closed_submodules |= since.known.has_closed_submodules;
            watch.running.fetch_add(1, Ordering::Relaxed);
            watched.folders.push((folder, watch.clone()));
        }
        watched
    }

    /// Returns whether records of an earlier agentls must be looked for in a session's folder: the first time.
    pub(super) fn must_adopt(&self, cwd: &Path) -> bool {
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        self.records.get().is_some() && adopted.insert(cwd.to_owned())
    }

    /// Goes on with what processes of an earlier agentls, which was killed or ended with open questions, have left in the
    /// folders. Blocks.
    pub(super) fn adopt_records(&self, folders: &[PathBuf], external: impl Fn() -> ExternalWriteWatch) {
        let Some(records) = self.records.get() else {
            return;
        };
        for folder in folders {
            for (file, record) in RecordFile::take_abandoned(records, folder) {
                let paths = record.find_changes();
                if !paths.is_empty() {
                    let watch = self.open_watch(folder);
                    let mut since = watch.lock();
                    let options = SnapshotOptions {
                        keeps_contents: false,
                        named: record.named,
                    };
                    let since = since.get_or_insert_with(|| Since::begin(folder, &options, external()));
                    paths.iter().for_each(|path| since.known.forget(path));
                    if watch.running.load(Ordering::Relaxed) == 0 {
                        since.end(folder);
                    }
                    since.store(folder, Some(records));
                }
                file.remove();
            }
        }
    }

    /// Registers a process outside of the sandbox: while it runs, no change is certainly that of another.
    pub(super) fn start_unconfined(&self) -> WatchedCommand {
        self.unconfined.started.fetch_add(1, Ordering::SeqCst);
        WatchedCommand {
            folders: Vec::new(),
            has_closed_submodules: false,
            reserved: Vec::new(),
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

    /// Returns what a confined process or others may have made and nobody was told about, each path once. Changes nothing
    /// on the disk. Blocks.
    ///
    /// `plain` is as in [`Self::settle`]. The user is still asked with the next command.
    pub(super) fn announce(
        &self,
        folders: &[PathBuf],
        plain: Option<&BTreeSet<PathBuf>>,
    ) -> AnnouncedChanges {
        let mut announced = AnnouncedChanges::default();
        for (folder, watch) in self.find_watches(folders) {
            let mut locked = watch.lock();
            let Some(since) = &mut *locked else { continue };
            let is_idle = watch.running.load(Ordering::Relaxed) == 0;
            if is_idle {
                since.end(&folder);
            }
            let (mut differences, mut postponed) = since.find_settleable(&folder, plain);
            differences.retain(|difference| !difference.is_gone);
            let is_over = differences.is_empty() && postponed.is_empty();
            let paths = differences.into_iter().map(|difference| difference.path);
            let is_new = |path: &PathBuf| !since.is_asked(path) && since.announced.insert(path.clone());
            announced.paths.extend(paths.filter(is_new));
            if is_idle {
                watch.close_or_store(&folder, &mut locked, is_over);
            }
            announced.postponed.append(&mut postponed);
        }
        announced
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
            let (differences, mut postponed) = since.find_settleable(&folder, plain);
            for difference in differences {
                if !since.is_asked(&difference.path) {
                    let is_certain = self.is_certain(earlier, &difference.path);
                    let change = since.settle_difference(difference, is_certain);
                    settled.changes.extend(change.map(|change| watch.track(change)));
                }
            }
            if is_idle {
                watch.close_or_store(&folder, &mut locked, postponed.is_empty());
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

    /// Returns whether a confined process has run, or an earlier agentls has left a record.
    pub(super) fn is_used(&self) -> bool {
        !self.lock().is_empty()
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

    fn open_watch(&self, folder: &Path) -> Arc<FolderWatch> {
        let mut watches = self.lock();
        let watch = watches.entry(folder.to_owned()).or_insert_with(|| {
            Arc::new(FolderWatch {
                records: self.records.clone(),
                ..FolderWatch::default()
            })
        });
        watch.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<FolderWatch>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FolderWatch {
    fn lock(&self) -> MutexGuard<'_, Option<Since>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the watch if nothing is left to ask about. Otherwise stores it, so that the next agentls asks.
    fn close_or_store(&self, folder: &Path, locked: &mut Option<Since>, is_settled: bool) {
        let Some(since) = locked else { return };
        if !is_settled || since.has_open_questions() {
            since.store(folder, self.records.get().map(PathBuf::as_path));
        } else if let Some(record) = locked.take().and_then(|since| since.record) {
            record.remove();
        }
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

    /// Returns the folders whose names are reserved while it runs.
    pub(super) fn reserved(&self) -> &[PathBuf] {
        &self.reserved
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

    /// Keeps what was there before the process on the disk. If agentls is killed, the next one finds what the process has
    /// created.
    pub async fn store(&self) {
        if !self.is_watched() {
            return;
        }
        let folders = self.folders.clone();
        // Without a record, only a kill leaves files unnoticed.
        let _ = run_blocking(move || {
            for (folder, watch) in folders {
                if let Some(since) = &mut *watch.lock() {
                    since.store(&folder, watch.records.get().map(PathBuf::as_path));
                }
            }
        })
        .await;
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

impl WatchRecord {
    /// Lists the paths that may make programs run, were not there before or were different, and still exist. Removes the
    /// folders that were only created to reserve their names. Blocks.
    fn find_changes(&self) -> Vec<PathBuf> {
        let inside = |path: &&PathBuf| path.starts_with(&self.folder);
        ReservedNames::from_paths(self.reserved.iter().filter(inside).cloned()).release();
        let options = SnapshotOptions {
            keeps_contents: false,
            named: self.named.clone(),
        };
        let now = self.known.take_again(&self.folder, &options);
        let differences = self
            .known
            .find_differences(self.ended.as_ref().unwrap_or(&now))
            .into_iter();
        differences
            .filter(|difference| !difference.is_gone && nofollow::kind(&difference.path).is_some())
            .map(|difference| difference.path)
            .collect()
    }
}

impl Since {
    fn begin(folder: &Path, options: &SnapshotOptions, external: ExternalWriteWatch) -> Self {
        Self {
            // Taken before the snapshot, so that no write of others during it is missed.
            external,
            known: SteeringSnapshot::take(folder, options),
            options: options.clone(),
            ended: None,
            asked: BTreeMap::new(),
            announced: BTreeSet::new(),
            reserved: ReservedNames::default(),
            record: None,
        }
    }

    /// Creates the folders whose names are reserved. What is in them is protected like what was there before.
    fn reserve_names(&mut self, folder: &Path) {
        if self.reserved.reserve(folder) {
            let now = self.known.take_with_new(folder, &self.options);
            for path in self.reserved.paths() {
                self.known.accept(path, &now);
            }
        }
    }

    /// Stores what the next agentls needs to find what has changed, unless that is stored.
    fn store(&mut self, folder: &Path, records: Option<&Path>) {
        let Some(records) = records else { return };
        let has_end = self.ended.is_some();
        if self
            .record
            .as_ref()
            .is_some_and(|record| record.has_end == has_end)
        {
            return;
        }
        let record = WatchRecord {
            folder: folder.to_owned(),
            known: self.known.clone(),
            ended: self.ended.clone(),
            named: self.options.named.clone(),
            reserved: self.reserved.paths().cloned().collect(),
        };
        let stored = match &mut self.record {
            Some(file) => file.write(&record),
            None => RecordFile::begin(records, &record).map(|file| self.record = Some(file)),
        };
        if let Err(error) = stored {
            tracing::warn!(folder = %folder.display(), %error, "cannot store what a background process may change");
        }
    }

    /// Finds the differences that must be settled, and new paths that may belong to a new repository: without `plain`, the
    /// list of those that run nothing, they are postponed.
    fn find_settleable(
        &self,
        folder: &Path,
        plain: Option<&BTreeSet<PathBuf>>,
    ) -> (Vec<SteeringDifference>, BTreeSet<PathBuf>) {
        let mut postponed = BTreeSet::new();
        let differences = self.find_differences(folder, |path| match plain {
            Some(plain) => plain.contains(path),
            None => find_new_repository(path).is_some() && postponed.insert(path.to_owned()),
        });
        (differences, postponed)
    }

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
        for path in self.reserved.release() {
            self.known.forget(&path);
        }
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
