//! Finds what of a command's targets would be gone for good: neither in git, nor kept, nor a product of a build.
//!
//! Blocks, within limits on names and time. What could be kept is kept here, so a revert brings it back. Fails closed: what
//! was not looked at may be lost. Must not read the command's text; `approval` does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::own_work::{self, UnkeptFiles};
use super::{RoomKind, ToolContext};
use crate::base::clock::{self, Instant};
use crate::base::glob::GlobPattern;
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::word_list::WordList;
use crate::domain::{CommandLosses, Loss, LossList, LossReach, LossTarget, Losses, MAX_LISTED_LOSSES};
use crate::workspace::ReadDeny;
use crate::workspace::excluded_files::is_product_folder;
use crate::workspace::file_stamp::read_stamp;
use crate::workspace::git_index::GitIndex;
use crate::workspace::resolve::real_path;
use crate::workspace::watch::WatchedTree;

/// Most names looked at per command.
const MAX_NAMES: usize = 50_000;
/// What is said about files with names that only the shell knows.
const UNKNOWN_FILES: &str = "files whose names only the shell knows";
/// Time limit per command.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Finds what a command would make disappear for good. `is_recorded` says that its changes are recorded, so a revert brings
/// back what was kept.
pub fn find_losses(cx: &ToolContext, command: &CommandLosses, is_recorded: bool) -> Losses {
    if command.targets.is_empty() {
        return Losses::default();
    }
    let live_tree = cx.workspace.live_tree(&cx.cwd);
    let watched = live_tree.take_snapshot();
    let indexes = own_work::read_indexes(cx, &watched);
    let unkept = if is_recorded {
        own_work::keep_own_work(cx, &watched, &indexes)
    } else {
        own_work::list_own_work(cx, &watched, &indexes)
    };
    let mut lookup = LossLookup {
        cx,
        denied: own_work::read_denied(cx),
        is_recorded,
        roots: live_tree.roots().to_vec(),
        watched,
        unkept,
        files: BTreeMap::new(),
        others: Vec::new(),
        others_outside: Vec::new(),
        has_restorable: false,
        names: MAX_NAMES,
        until: clock::now() + MAX_TIME,
        is_partial: false,
    };
    let mut folders = vec![cx.cwd.clone()];
    for folder in &command.folders {
        match cx.workspace.expand_word(&cx.cwd, &cx.cwd, folder, false) {
            Some(paths) => folders.extend(paths),
            None => lookup.is_partial = true,
        }
    }
    for target in &command.targets {
        lookup.look_at(&folders, target);
    }
    lookup.into_losses()
}

struct LossLookup<'a> {
    cx: &'a ToolContext,
    denied: ReadDeny,
    is_recorded: bool,
    roots: Vec<PathBuf>,
    watched: WatchedTree,
    unkept: UnkeptFiles,
    /// The files that would be lost, with their sizes if they are known.
    files: BTreeMap<PathBuf, Option<u64>>,
    others: Vec<String>,
    /// What is outside the workspace, in words.
    others_outside: Vec<String>,
    has_restorable: bool,
    /// Names that may still be looked at.
    names: usize,
    until: Instant,
    is_partial: bool,
}

impl LossLookup<'_> {
    fn look_at(&mut self, folders: &[PathBuf], target: &LossTarget) {
        match target {
            LossTarget::Files { text, glob, reach } => {
                for folder in folders {
                    self.look_at_word(folder, text, *glob, reach);
                }
            }
            LossTarget::Into {
                names,
                place,
                with_folders,
            } => {
                for folder in folders {
                    self.look_at_place(folder, names, place, *with_folders);
                }
            }
            LossTarget::Workspace { ignored } => {
                self.files.extend(
                    self.unkept
                        .iter()
                        .map(|(path, bytes)| (path.clone(), Some(*bytes))),
                );
                self.is_partial |= self.watched.partial;
                self.has_restorable |= self.is_recorded;
                if *ignored {
                    for root in self.roots.clone() {
                        self.look_below(&root, None, true);
                    }
                }
            }
            LossTarget::AnyFile { named, is_inner } => self.look_at_any(folders, named.as_deref(), *is_inner),
            LossTarget::Unpacked { place } => {
                for path in self.expand_in(folders, place) {
                    if let Some(path) = real_path(&path).ok().filter(|path| !self.is_inside(path)) {
                        self.look_below(&path, None, true);
                    }
                }
            }
            LossTarget::WorkTree {
                folder: place,
                with_untracked,
            } => {
                for path in self.expand_in(folders, place) {
                    self.look_at_work_tree(&path, *with_untracked);
                }
            }
            LossTarget::Other(what) => self.others.push((*what).to_owned()),
            LossTarget::Unknown => self.others.push(UNKNOWN_FILES.to_owned()),
        }
    }

    /// Returns the paths of a place that is relative to one of these folders.
    fn expand_in(&mut self, folders: &[PathBuf], place: &str) -> Vec<PathBuf> {
        let (cwd, workspace) = (&self.cx.cwd, &self.cx.workspace);
        let paths = folders
            .iter()
            .map(|folder| workspace.expand_word(cwd, folder, place, false));
        let paths: Vec<_> = paths.collect();
        self.is_partial |= paths.contains(&None);
        paths.into_iter().flatten().flatten().collect()
    }

    /// Looks at files with names that only the shell knows.
    fn look_at_any(&mut self, folders: &[PathBuf], named: Option<&str>, is_inner: bool) {
        let reach = LossReach::Inside {
            named: named.map(str::to_owned),
        };
        for root in self.roots.clone() {
            self.look_at_path(&root, &reach);
        }
        if !is_inner {
            self.others_outside.push(UNKNOWN_FILES.to_owned());
        }
        for folder in folders.iter().filter(|_| is_inner) {
            if !self.is_inside(folder) {
                self.look_at_path(folder, &reach);
            }
        }
    }

    /// Looks at the work tree around a folder outside the workspace: what git does not have of its tracked files.
    fn look_at_work_tree(&mut self, folder: &Path, with_untracked: bool) {
        let Ok(folder) = real_path(folder) else { return };
        let top = (folder.ancestors()).find(|above| nofollow::kind(&above.join(".git")).is_some());
        // Around the workspace, git leaves what commands there do not name.
        let is_around = |top: &Path| self.roots.iter().any(|root| root.starts_with(top));
        let Some(top) = top.filter(|top| !self.is_inside(top) && !is_around(top) && self.counts(top)) else {
            return;
        };
        let tracked = GitIndex::read(top).and_then(|index| {
            let tracked = index.find_tracked_paths(|_| true).ok()?;
            Some((index, tracked.wanted))
        });
        let Some((index, tracked)) = tracked else {
            self.others_outside.push(format!("changes in {}", top.display()));
            return;
        };
        let stamps = tracked
            .iter()
            .filter_map(|path| Some((path.as_path(), read_stamp(path)?)));
        let stamps: Vec<_> = stamps.collect();
        let clean: BTreeSet<PathBuf> = (index.find_clean_files(stamps.iter().copied()).into_iter())
            .map(|clean| clean.path)
            .collect();
        let changed = stamps.iter().filter(|(path, _)| !clean.contains(*path));
        self.files
            .extend(changed.map(|(path, stamp)| ((*path).to_owned(), Some(stamp.bytes()))));
        if with_untracked {
            let new = format!("files of {} that git does not have", top.display());
            self.others_outside.push(new);
        }
    }

    fn look_at_word(&mut self, folder: &Path, text: &str, glob: bool, reach: &LossReach) {
        let Some(paths) = self.cx.workspace.expand_word(&self.cx.cwd, folder, text, glob) else {
            self.is_partial = true;
            return;
        };
        for path in paths {
            self.look_at_path(&path, reach);
        }
    }

    fn look_at_place(&mut self, folder: &Path, names: &[String], place: &str, with_folders: bool) {
        let Some(paths) = self.cx.workspace.expand_word(&self.cx.cwd, folder, place, false) else {
            self.is_partial = true;
            return;
        };
        for path in paths {
            let real = real_path(&path).ok();
            let is_folder = real.is_some_and(|real| nofollow::kind(&real) == Some(FileKind::Folder));
            if !is_folder {
                self.look_at_path(&path, &LossReach::Content);
            }
            for name in names.iter().filter(|_| is_folder) {
                let reach = if with_folders {
                    LossReach::Tree { named: None }
                } else {
                    LossReach::Content
                };
                self.look_at_path(&path.join(name), &reach);
            }
        }
    }

    fn look_at_path(&mut self, path: &Path, reach: &LossReach) {
        let resolved = match reach {
            LossReach::Content | LossReach::Inside { .. } => real_path(path).ok(),
            LossReach::Entry | LossReach::Tree { .. } => resolve_entry(path),
        };
        // No program gets to where the path cannot be resolved.
        let Some(path) = resolved else { return };
        match (nofollow::kind(&path), reach) {
            (None, _) => {}
            // What is kept of a repository's own data may not fit the rest later. Locks are in the way at most.
            _ if is_in_repository(&path) => {
                if path.extension() != Some(OsStr::new("lock")) && self.counts(&path) {
                    self.files.insert(path, None);
                }
            }
            (Some(FileKind::Folder), LossReach::Tree { named } | LossReach::Inside { named }) => {
                let keeps_git = matches!(reach, LossReach::Inside { .. });
                let named = named.as_deref().map(GlobPattern::for_names);
                match named.transpose() {
                    Ok(named) => self.look_below(&path, named.as_ref(), keeps_git),
                    Err(_) => self.is_partial = true,
                }
            }
            (Some(_), LossReach::Inside { .. }) => {}
            // No program here takes a folder without being told to.
            (Some(FileKind::Folder), _) => {}
            (Some(_), _) => self.look_at_file(&path),
        }
    }

    /// Looks at all files below a folder. With `keeps_git`, those of version control stay.
    fn look_below(&mut self, top: &Path, named: Option<&GlobPattern>, keeps_git: bool) {
        let mut folders = vec![top.to_owned()];
        while let Some(folder) = folders.pop() {
            let is_git = folder.ends_with(".git");
            if is_git && keeps_git || self.is_product(&folder) {
                continue;
            }
            if is_git && named.is_none() {
                if self.counts(&folder) {
                    self.files.insert(folder, None);
                }
                continue;
            }
            let entries = OpenFolder::open(&folder).and_then(|folder| folder.read_entries());
            for entry in entries.into_iter().flatten().flatten() {
                self.names = self.names.saturating_sub(1);
                if self.names == 0 || self.names.is_multiple_of(256) && clock::now() >= self.until {
                    if self.is_inside(top) {
                        self.is_partial = true;
                    } else {
                        self.others_outside
                            .push(format!("further files in {}", top.display()));
                    }
                    return;
                }
                let path = folder.join(&entry.name);
                if keeps_git && self.is_surely_kept(&path) {
                    self.has_restorable |= self.is_recorded;
                } else if entry.kind == FileKind::Folder {
                    folders.push(path);
                } else if named.is_none_or(|named| named.is_match(&entry.name)) {
                    self.look_at_file(&path);
                }
            }
        }
    }

    /// Returns whether git ignores the folder, and a build makes its content again.
    fn is_product(&self, folder: &Path) -> bool {
        let is_inside = self
            .roots
            .iter()
            .any(|root| folder.starts_with(root) && folder != root);
        is_inside
            && is_product_folder(folder)
            // Beyond the limit of the snapshot, a folder that git does not ignore looks the same.
            && !self.watched.partial
            && !self.watched.has_files_below(folder)
    }

    /// Returns whether a revert brings a file back, as far as the snapshot shows.
    fn is_surely_kept(&self, path: &Path) -> bool {
        !self.watched.is_excluded(path)
            && self.watched.get_stamp(path).is_some()
            && !self.unkept.contains_key(path)
    }

    /// Returns whether people keep things at this resolved path.
    fn counts(&self, path: &Path) -> bool {
        self.is_inside(path) || !is_temporary(path)
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    fn look_at_file(&mut self, path: &Path) {
        let Some(stamp) = read_stamp(path) else {
            // A device, for example. Nobody keeps anything in a pipe or a socket.
            if nofollow::kind(path) == Some(FileKind::Device)
                && self.counts(path)
                && !is_harmless_device(path)
            {
                self.files.insert(path.to_owned(), None);
            }
            return;
        };
        let is_lost = if !self.is_inside(path) {
            self.counts(path)
        } else if !self.watched.is_excluded(path)
            && (self.watched.get_stamp(path)).is_some_and(|was| was.is_same_file(&stamp))
        {
            self.unkept.contains_key(path)
        } else {
            !(self.is_recorded
                && own_work::keep_file(self.cx, &self.denied, (path, stamp), RoomKind::OwnWork))
        };
        if is_lost {
            self.files.insert(path.to_owned(), Some(stamp.bytes()));
        }
        self.has_restorable |= !is_lost && self.is_recorded && self.is_inside(path);
    }

    fn into_losses(self) -> Losses {
        let (inside, outside): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|(path, _)| self.is_inside(path));
        let inside = add_others(self.list_files(inside), &self.others);
        let outside = add_others(self.list_files(outside), &self.others_outside);
        Losses {
            inside,
            outside,
            is_partial: self.is_partial,
            has_restorable: self.has_restorable,
        }
    }

    fn list_files(&self, mut files: Vec<(&PathBuf, &Option<u64>)>) -> LossList {
        // What has no size is a whole repository or a device.
        files.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.unwrap_or(u64::MAX)));
        let listed = files.iter().take(MAX_LISTED_LOSSES).map(|(path, bytes)| Loss {
            what: self.cx.workspace.format_for_model(&self.cx.cwd, path),
            bytes: **bytes,
        });
        LossList {
            listed: listed.collect(),
            count: files.len() as u64,
        }
    }
}

/// Adds what is lost besides files, first.
fn add_others(mut list: LossList, others: &[String]) -> LossList {
    let others: BTreeSet<&String> = others.iter().collect();
    list.count += others.len() as u64;
    let others = others.into_iter().map(|what| Loss {
        what: what.clone(),
        bytes: None,
    });
    list.listed.splice(0..0, others);
    list.listed.truncate(MAX_LISTED_LOSSES);
    list
}

/// Resolves the folder that contains an entry. A link at the end stays a link.
fn resolve_entry(path: &Path) -> Option<PathBuf> {
    match (path.parent(), path.components().next_back()?) {
        (Some(parent), Component::Normal(name)) => Some(real_path(parent).ok()?.join(name)),
        // `..`, or the top folder.
        _ => real_path(path).ok(),
    }
}

/// Returns whether a path is a part of a repository's own data.
fn is_in_repository(path: &Path) -> bool {
    let above = path.parent().into_iter().flat_map(Path::components);
    above.into_iter().any(|part| part.as_os_str() == ".git")
}

/// Returns whether a path is in a folder for temporary files.
fn is_temporary(path: &Path) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm", "/run"]
        .iter()
        .any(|folder| path.starts_with(folder))
        || real_path(&std::env::temp_dir()).is_ok_and(|own| path.starts_with(own))
}

/// Returns whether a device keeps nothing.
fn is_harmless_device(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    WordList("null zero full random urandom tty stdin stdout stderr console ptmx").contains(name)
        || path.starts_with("/dev/pts")
        || path.starts_with("/dev/fd")
}
