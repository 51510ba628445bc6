//! Walks a folder: what is below it in a fixed order, without what ignore files exclude and without version control's
//! own folders. Never follows a link and opens every folder by [`nofollow`], so a walk stays where it began (I12).
//!
//! Bounded whatever the tree holds: the caller's `halt` is asked at every folder and now and then within one. No
//! descriptor stays open between two entries.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::ignore_rules::{IGNORE_FILES, IgnoreRules, UnusableRules, Verdict};
use crate::base::nofollow::{FileKind, FolderEntry, OpenFolder};

/// Folders of version control, whose content is nobody's work.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// The halt is asked once for so many entries of a folder.
const ASK_EVERY: usize = 1_024;

/// What a walk shows.
#[derive(Clone, Copy, Debug)]
pub struct WalkOptions {
    /// Also what has a name that begins with a dot.
    pub hidden: bool,
    /// How many folders deep; all where none.
    pub max_depth: Option<usize>,
    /// Fill [`TreeEntry::status`].
    pub with_status: bool,
}

/// A file, link, pipe … that a walk has come to. Folders are walked, not shown.
#[derive(Debug)]
pub struct TreeEntry {
    /// Its path.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its status when its folder was read, where that was asked for.
    pub status: Option<Stat>,
}

/// A walk under way: an iterator over [`TreeEntry`].
pub struct Walk<H> {
    options: WalkOptions,
    halt: H,
    rules: IgnoreRules,
    /// What is still to be shown or walked, the next one last.
    pending: Vec<Pending>,
    repositories: Vec<PathBuf>,
    is_halted: bool,
}

#[derive(Debug)]
struct Pending {
    entry: TreeEntry,
    depth: usize,
}

impl<H: Fn() -> bool> Walk<H> {
    /// A walk below the resolved folder `start`, which is as deep as ignore files above it count from `top` on (from the
    /// top of the repository where there is one). It ends early once `halt` says so.
    pub fn new(start: &Path, top: Option<&Path>, options: WalkOptions, halt: H) -> Self {
        let start = TreeEntry {
            path: start.to_owned(),
            kind: FileKind::Folder,
            status: None,
        };
        Self {
            options,
            halt,
            rules: IgnoreRules::above(&start.path, top),
            pending: vec![Pending {
                entry: start,
                depth: 0,
            }],
            repositories: Vec::new(),
            is_halted: false,
        }
    }

    /// Whether it ended early.
    pub fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Ignore files that were not obeyed.
    pub fn unusable_rules(&self) -> &[UnusableRules] {
        self.rules.unusable()
    }

    /// The folders with a `.git` that it has come to.
    pub fn repositories(&self) -> &[PathBuf] {
        &self.repositories
    }

    fn open(&mut self, folder: &Path, depth: usize) {
        if self.options.max_depth.is_some_and(|max| depth >= max) {
            return;
        }
        if (self.halt)() {
            self.is_halted = true;
            return;
        }
        // Swapped for a link since it was seen, it is not opened.
        let Ok(opened) = OpenFolder::open(folder) else {
            return;
        };
        let Ok(read) = opened.entries() else { return };
        let mut entries: Vec<FolderEntry> = Vec::new();
        for entry in read.filter_map(Result::ok) {
            if entries.len() % ASK_EVERY == ASK_EVERY - 1 && (self.halt)() {
                self.is_halted = true;
                return;
            }
            entries.push(entry);
        }
        self.rules.leave_to(folder);
        let mut own: Vec<&str> = Vec::new();
        for name in IGNORE_FILES.into_iter().chain([".git"]) {
            own.extend(entries.iter().any(|entry| entry.name == name).then_some(name));
        }
        if own.contains(&".git") {
            self.repositories.push(folder.to_owned());
        }
        if !own.is_empty() {
            self.rules.enter(folder, |name| own.contains(&name));
        }
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        for (at, entry) in entries.into_iter().enumerate() {
            if at % ASK_EVERY == ASK_EVERY - 1 && (self.halt)() {
                self.is_halted = true;
                return;
            }
            let path = folder.join(&entry.name);
            let is_folder = entry.kind == FileKind::Folder;
            if !self.is_shown(&path, &entry.name, is_folder) {
                continue;
            }
            let status = (self.options.with_status && !is_folder)
                .then(|| opened.status(&entry.name).ok())
                .flatten();
            let entry = TreeEntry {
                path,
                kind: entry.kind,
                status,
            };
            let depth = depth + 1;
            self.pending.push(Pending { entry, depth });
        }
    }

    fn is_shown(&self, path: &Path, name: &OsStr, is_folder: bool) -> bool {
        let is_hidden = !self.options.hidden && name.as_encoded_bytes().starts_with(b".");
        if VERSION_CONTROL.iter().any(|own| name == *own) {
            return false;
        }
        match self.rules.judge(path, is_folder) {
            Verdict::Unnamed => !is_hidden,
            Verdict::Excluded => false,
            Verdict::Included => true,
        }
    }
}

impl<H: Fn() -> bool> Iterator for Walk<H> {
    type Item = TreeEntry;

    fn next(&mut self) -> Option<TreeEntry> {
        while !self.is_halted
            && let Some(Pending { entry, depth }) = self.pending.pop()
        {
            if entry.kind != FileKind::Folder {
                return Some(entry);
            }
            self.open(&entry.path, depth);
        }
        None
    }
}
