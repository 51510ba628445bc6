//! Finds the files that ignore files exclude and that no build makes again: people keep settings, notes, and data there.
//!
//! Blocks, within limits. Files of programs are left out by their names, and by the number of files in their folder. Reads
//! no contents, and must not know commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_stamp::{FileStamp, read_stamp, stamp_of};
use super::folder_watch::FolderWatch;
use super::tree::{TreeEntry, VERSION_CONTROL};
use super::write::is_unfinished;
use crate::base::clock::{self, Instant};
use crate::base::nofollow::{self, FileKind, FolderEntry, OpenFolder};
use crate::base::word_list::WordList;

/// Most files that are looked at.
const MAX_FILES: usize = 2_000;
/// Most folders that are excluded as a whole and looked at. Each takes an inotify watch.
const MAX_FOLDERS: usize = 500;
/// Most entries of such a folder. Programs make folders with more.
const MAX_ENTRIES: usize = 1_000;

/// Folders that builds and package managers make, and make again. They count only where git ignores them.
const PRODUCTS: WordList = WordList(
    "node_modules target build dist out bin obj __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox .nox .venv venv \
    .gradle .next .nuxt .turbo .parcel-cache .cache coverage .nyc_output htmlcov .eggs _build .dart_tool .terraform",
);
/// Files that programs make again: names, and ends of names.
const PRODUCT_FILES: WordList =
    WordList(".coverage .eslintcache .stylelintcache .DS_Store Thumbs.db CACHEDIR.TAG");
const PRODUCT_ENDS: WordList = WordList("o obj lo pyc pyo class gcda gcno gch rlib rmeta tsbuildinfo");

/// Marks a folder whose content can be made again (the Cache Directory Tagging Specification, bford.info/cachedir).
pub(super) const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Returns whether a path has the name of a folder that builds make.
pub fn has_product_name(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| PRODUCTS.contains(name))
}

/// Returns whether a build makes the content of a folder again, if git ignores it. Blocks.
pub fn is_product_folder(folder: &Path) -> bool {
    has_product_name(folder) || nofollow::kind(&folder.join(CACHE_TAG)) == Some(FileKind::Regular)
}

fn is_product_file(path: &Path) -> bool {
    let has = |words: WordList, part: Option<&OsStr>| {
        part.and_then(OsStr::to_str)
            .is_some_and(|part| words.contains(part))
    };
    has(PRODUCT_FILES, path.file_name()) || has(PRODUCT_ENDS, path.extension())
}

/// The files that are excluded and looked at all the same. A copy costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExcludedFiles {
    files: Arc<BTreeMap<PathBuf, FileStamp>>,
    /// The folders that are excluded as a whole, with those below them.
    folders: Arc<BTreeSet<PathBuf>>,
}

impl ExcludedFiles {
    pub(super) fn files(&self) -> &BTreeMap<PathBuf, FileStamp> {
        &self.files
    }

    /// Returns whether both are copies of the same look.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files)
    }

    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// Adds an entry that a walk leaves out. Returns the path of a folder, for [`Self::look_below`].
    pub(super) fn add_entry(&mut self, entry: TreeEntry) -> Option<PathBuf> {
        if entry.kind == FileKind::Folder {
            return Some(entry.path);
        }
        if let Some(stamp) = entry.status.as_ref().and_then(stamp_of) {
            self.insert(entry.path, stamp);
        }
        None
    }

    fn insert(&mut self, path: PathBuf, stamp: FileStamp) {
        let has_room = self.files.len() < MAX_FILES || self.files.contains_key(&path);
        if has_room && !is_product_file(&path) && !path.file_name().is_some_and(is_unfinished) {
            Arc::make_mut(&mut self.files).insert(path, stamp);
        }
    }

    /// Adds what is below folders that are excluded as a whole, the files near the top first.
    pub(super) fn look_below(
        &mut self,
        folders: Vec<PathBuf>,
        until: Instant,
        mut watch: Option<&mut FolderWatch>,
    ) {
        let mut queue = VecDeque::from(folders);
        while let Some(folder) = queue.pop_front() {
            if self.files.len() >= MAX_FILES || self.folders.len() >= MAX_FOLDERS || clock::now() >= until {
                return;
            }
            // Where changes would be missed, it is not looked at, unless everything is looked at each time.
            let is_watched = watch
                .as_deref_mut()
                .is_none_or(|watch| watch.try_add(&folder) || !watch.is_complete());
            if is_product_folder(&folder) || !is_watched {
                forget_watch(&mut watch, &folder);
                continue;
            }
            let Some((opened, entries)) = list_folder(&folder) else {
                forget_watch(&mut watch, &folder);
                continue;
            };
            for entry in entries {
                let path = folder.join(&entry.name);
                if entry.kind != FileKind::Folder {
                    let status = opened.entry_status(&entry.name).ok();
                    if let Some(stamp) = status.as_ref().and_then(stamp_of) {
                        self.insert(path, stamp);
                    }
                } else if !VERSION_CONTROL.iter().any(|own| entry.name == *own) {
                    queue.push_back(path);
                }
            }
            Arc::make_mut(&mut self.folders).insert(folder);
        }
    }

    /// Reads the stamp of a file in `folder` again. Returns false if the rules of its folder decide about it.
    pub(super) fn update_file(&mut self, folder: &Path, path: &Path) -> bool {
        if !self.has_folder(folder) && !self.files.contains_key(path) {
            return false;
        }
        match read_stamp(path) {
            Some(stamp) => self.insert(path.to_owned(), stamp),
            None => self.remove(path),
        }
        true
    }

    pub(super) fn set_stamp(&mut self, path: &Path, stamp: FileStamp) {
        Arc::make_mut(&mut self.files).insert(path.to_owned(), stamp);
    }

    pub(super) fn remove(&mut self, path: &Path) {
        if self.files.contains_key(path) {
            Arc::make_mut(&mut self.files).remove(path);
        }
    }

    /// Forgets a folder with all that is below it.
    pub(super) fn forget_below(&mut self, folder: &Path) {
        let from = (Bound::Included(folder), Bound::Unbounded);
        let is_below = |path: &&PathBuf| path.starts_with(folder);
        let files = self.files.range::<Path, _>(from).map(|(path, _)| path);
        for path in files.take_while(is_below).cloned().collect::<Vec<_>>() {
            self.remove(&path);
        }
        let folders = self.folders.range::<Path, _>(from);
        for path in folders.take_while(is_below).cloned().collect::<Vec<_>>() {
            Arc::make_mut(&mut self.folders).remove(&path);
        }
    }
}

fn forget_watch(watch: &mut Option<&mut FolderWatch>, folder: &Path) {
    if let Some(watch) = watch {
        watch.forget_below(folder);
    }
}

/// Lists a folder in the order of its names; `None` if it has too many entries or cannot be read.
fn list_folder(folder: &Path) -> Option<(OpenFolder, Vec<FolderEntry>)> {
    let opened = OpenFolder::open(folder).ok()?;
    let read = opened.read_entries().ok()?;
    let mut entries: Vec<FolderEntry> = read.take(MAX_ENTRIES + 1).filter_map(Result::ok).collect();
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    (entries.len() <= MAX_ENTRIES).then_some((opened, entries))
}
