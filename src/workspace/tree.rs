//! Walks a folder in a fixed order, without what ignore files exclude and without version control's own folders.
//!
//! Never follows a link, and opens every folder through [`crate::base::nofollow`], so a walk stays where it began
//! (I12). Bounded whatever the tree contains: it calls `halt` for every folder, and repeatedly in a large one. No
//! descriptor stays open between two entries. Must not read files other than ignore files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::ignore_rules::{IGNORE_FILES, IgnoreRules, IgnoreVerdict, UnusableRules};
use crate::base::glob::GlobPattern;
use crate::base::nofollow::{FileKind, FolderEntry, OpenFolder};

/// Folders of version control, whose contents are not the user's work.
pub(super) const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// Number of entries in a folder between two calls of `halt`.
const CHECK_INTERVAL: usize = 1_024;

/// What a walk returns.
#[derive(Clone, Copy, Debug)]
pub struct WalkOptions {
    /// Includes names that begin with a dot.
    pub hidden: bool,
    /// Most levels of folders; `None` for all.
    pub max_depth: Option<usize>,
    /// Fills [`TreeEntry::status`].
    pub with_status: bool,
    /// Returns folders too, each before it is opened.
    pub with_folders: bool,
    /// Returns entries that are left out too, with [`TreeEntry::left_out`].
    pub with_left_out: bool,
}

/// Why a walk leaves an entry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Its name begins with a dot.
    Hidden,
    /// An ignore file excludes it.
    Ignored,
    /// It is a folder of version control that [`Walk::with_hidden_names`] names.
    VersionControl,
}

/// A file, link, pipe, or the like, or a folder if [`WalkOptions::with_folders`] requests them.
#[derive(Debug)]
pub struct TreeEntry {
    pub path: PathBuf,
    pub kind: FileKind,
    /// The status when the folder was read, if [`WalkOptions::with_status`] requests it.
    pub status: Option<Stat>,
    /// Why it is left out, if [`WalkOptions::with_left_out`] requests such entries. What a folder contains is unknown.
    pub left_out: Option<LeftOut>,
}

/// A walk in progress: an iterator over [`TreeEntry`].
pub struct Walk<H> {
    options: WalkOptions,
    halt: H,
    rules: IgnoreRules,
    /// Entries still to return or walk, the next one last.
    pending: Vec<PendingScan>,
    /// The folder returned last, which is opened next.
    announced: Option<PendingScan>,
    repositories: Vec<PathBuf>,
    /// Hidden names that are included whatever the options say.
    hidden_names: Vec<GlobPattern>,
    /// The only folders below `start` whose contents are returned; empty for all.
    wanted: Vec<PathBuf>,
    unreadable: usize,
    is_halted: bool,
}

#[derive(Debug)]
struct PendingScan {
    entry: TreeEntry,
    depth: usize,
}

impl<H: Fn() -> bool> Walk<H> {
    /// Creates a walk below the resolved folder `start`, which ends early once `halt` returns true.
    ///
    /// Ignore files above `start` count from the top of its repository, or from `top` outside of one.
    pub fn new(start: &Path, top: Option<&Path>, options: WalkOptions, halt: H) -> Self {
        let start = TreeEntry {
            path: start.to_owned(),
            kind: FileKind::Folder,
            status: None,
            left_out: None,
        };
        Self {
            options,
            halt,
            rules: IgnoreRules::from_ancestors(&start.path, top),
            pending: vec![PendingScan {
                entry: start,
                depth: 0,
            }],
            announced: None,
            repositories: Vec::new(),
            hidden_names: Vec::new(),
            wanted: Vec::new(),
            unreadable: 0,
            is_halted: false,
        }
    }

    /// Includes hidden entries whose name matches one of the patterns.
    pub fn with_hidden_names(mut self, names: Vec<GlobPattern>) -> Self {
        self.hidden_names = names;
        self
    }

    /// Opens only these folders, what they contain, and those around them.
    pub fn with_wanted_folders(mut self, folders: Vec<PathBuf>) -> Self {
        self.wanted = folders;
        self
    }

    /// Returns the number of folders that could not be read.
    pub fn unreadable_folders(&self) -> usize {
        self.unreadable
    }

    /// Returns whether the walk ended early.
    pub fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Returns the ignore files that had no effect.
    pub fn unusable_rules(&self) -> &[UnusableRules] {
        self.rules.unusable_files()
    }

    /// Returns the folders with a `.git` that the walk has visited.
    pub fn repositories(&self) -> &[PathBuf] {
        &self.repositories
    }

    fn open(&mut self, folder: &Path, depth: usize) {
        let leads_to = |wanted: &PathBuf| folder.starts_with(wanted) || wanted.starts_with(folder);
        if self.options.max_depth.is_some_and(|max| depth >= max)
            || !self.wanted.is_empty() && !self.wanted.iter().any(leads_to)
        {
            return;
        }
        if (self.halt)() {
            self.is_halted = true;
            return;
        }
        let Some((opened, mut entries)) = self.list_folder(folder) else {
            return;
        };
        self.rules.leave_to(folder);
        // Only names that exist are opened, which spares failed lookups in every folder.
        let mut own: Vec<&str> = Vec::new();
        for name in IGNORE_FILES.into_iter().chain([".git"]) {
            own.extend(entries.iter().any(|entry| entry.name == name).then_some(name));
        }
        if own.contains(&".git") {
            self.repositories.push(folder.to_owned());
        }
        if !own.is_empty() {
            self.rules.enter_folder(folder, |name| own.contains(&name));
        }
        // In reverse, since the next entry is popped from the end.
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        for (at, entry) in entries.into_iter().enumerate() {
            if at % CHECK_INTERVAL == CHECK_INTERVAL - 1 && (self.halt)() {
                self.is_halted = true;
                return;
            }
            let path = folder.join(&entry.name);
            let is_folder = entry.kind == FileKind::Folder;
            let left_out = match self.judge(&path, &entry.name, is_folder) {
                EntryVerdict::Shown => None,
                EntryVerdict::LeftOut(reason) if self.options.with_left_out => Some(reason),
                EntryVerdict::LeftOut(_) | EntryVerdict::Unmentioned => continue,
            };
            let status = (self.options.with_status && !is_folder)
                .then(|| opened.entry_status(&entry.name).ok())
                .flatten();
            let entry = TreeEntry {
                path,
                kind: entry.kind,
                status,
                left_out,
            };
            let depth = depth + 1;
            self.pending.push(PendingScan { entry, depth });
        }
    }

    /// Opens a folder and reads its entries; `None` if it cannot be read or the walk must end.
    fn list_folder(&mut self, folder: &Path) -> Option<(OpenFolder, Vec<FolderEntry>)> {
        // A folder that has been replaced by a link since it was listed is not opened.
        let listed = OpenFolder::open(folder).and_then(|opened| Ok((opened.read_entries()?, opened)));
        let Ok((read, opened)) = listed else {
            self.unreadable += 1;
            return None;
        };
        let mut entries = Vec::new();
        for entry in read.filter_map(Result::ok) {
            if entries.len() % CHECK_INTERVAL == CHECK_INTERVAL - 1 && (self.halt)() {
                self.is_halted = true;
                return None;
            }
            entries.push(entry);
        }
        Some((opened, entries))
    }

    fn judge(&self, path: &Path, name: &OsStr, is_folder: bool) -> EntryVerdict {
        let has_dot = name.as_encoded_bytes().starts_with(b".");
        let is_named = has_dot && self.hidden_names.iter().any(|pattern| pattern.is_match(name));
        // No rule of an ignore file can bring these folders back.
        if VERSION_CONTROL.iter().any(|own| name == *own) {
            return if is_named {
                EntryVerdict::LeftOut(LeftOut::VersionControl)
            } else {
                EntryVerdict::Unmentioned
            };
        }
        let is_hidden = has_dot && !is_named && !self.options.hidden;
        match self.rules.evaluate_path(path, is_folder) {
            IgnoreVerdict::Unnamed if is_hidden => EntryVerdict::LeftOut(LeftOut::Hidden),
            IgnoreVerdict::Unnamed | IgnoreVerdict::Included => EntryVerdict::Shown,
            IgnoreVerdict::Excluded => EntryVerdict::LeftOut(LeftOut::Ignored),
        }
    }
}

/// What a walk does with an entry.
enum EntryVerdict {
    Shown,
    LeftOut(LeftOut),
    /// A folder of version control.
    Unmentioned,
}

impl<H: Fn() -> bool> Iterator for Walk<H> {
    type Item = TreeEntry;

    fn next(&mut self) -> Option<TreeEntry> {
        if let Some(PendingScan { entry, depth }) = self.announced.take() {
            self.open(&entry.path, depth);
        }
        while !self.is_halted
            && let Some(PendingScan { entry, depth }) = self.pending.pop()
        {
            if entry.kind != FileKind::Folder || entry.left_out.is_some() {
                return Some(entry);
            }
            if self.options.with_folders {
                let folder = TreeEntry {
                    path: entry.path.clone(),
                    kind: entry.kind,
                    status: None,
                    left_out: None,
                };
                self.announced = Some(PendingScan { entry, depth });
                return Some(folder);
            }
            self.open(&entry.path, depth);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const ALL: WalkOptions = WalkOptions {
        hidden: true,
        max_depth: None,
        with_status: false,
        with_folders: false,
        with_left_out: false,
    };

    fn create_tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, root)
    }

    fn names(start: &Path, options: WalkOptions) -> Vec<String> {
        let walk = Walk::new(start, Some(start), options, || false);
        walk.filter(|entry| !IGNORE_FILES.iter().any(|name| entry.path.ends_with(name)))
            .map(|entry| {
                entry
                    .path
                    .strip_prefix(start)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn only_wanted_folders_are_opened() {
        let (_dir, root) = create_tree(&[
            ("a/b/c.txt", ""),
            ("a/d/e.txt", ""),
            ("f/g.txt", ""),
            ("h.txt", ""),
        ]);
        let halts = std::cell::Cell::new(0);
        let halt = || {
            halts.set(halts.get() + 1);
            false
        };
        let walk = Walk::new(&root, Some(&root), ALL, halt).with_wanted_folders(vec![root.join("a/b")]);
        let found: Vec<PathBuf> = walk.map(|entry| entry.path).collect();
        assert_eq!(found, [root.join("a/b/c.txt"), root.join("h.txt")]);
        assert_eq!(halts.get(), 3, "the start, a, and a/b");
    }

    #[test]
    fn rules_nest_as_in_git() {
        let (_dir, root) = create_tree(&[
            (".git/HEAD", ""),
            (".git/info/exclude", "local.txt\n"),
            (".gitignore", "*.log\n!keep.log\n/top.txt\nbuild/\n.hidden\n"),
            ("a/.gitignore", "!deep.log\n*.tmp\r\n"),
            ("a/.ignore", "!x.tmp\n"),
            ("a/b/.gitignore", "*.md\n"),
            ("a/b/deep.log", ""),
            ("a/b/read.md", ""),
            ("a/b/top.txt", ""),
            ("a/b/x.tmp", ""),
            ("a/b/y.tmp", ""),
            ("a/build", "a file, not a folder"),
            ("b/build/out.txt", ""),
            ("b/read.md", ""),
            (".hidden", ""),
            ("keep.log", ""),
            ("local.txt", ""),
            ("other.log", ""),
            ("top.txt", ""),
            // Another repository, where the outer rules do not apply.
            ("c/.git/HEAD", ""),
            ("c/other.log", ""),
        ]);
        let expected = [
            "a/b/deep.log",
            "a/b/top.txt",
            "a/b/x.tmp",
            "a/build",
            "b/read.md",
            "c/other.log",
            "keep.log",
        ];
        assert_eq!(names(&root, ALL), expected);
        // Rules above the start apply too.
        assert_eq!(names(&root.join("a/b"), ALL), ["deep.log", "top.txt", "x.tmp"]);
    }

    #[test]
    fn hidden_names_links_and_depth_follow_the_options() {
        let (_dir, root) = create_tree(&[
            (".ignore", "!.shown\n"),
            (".shown", ""),
            (".not", ""),
            ("a/b/c", ""),
            ("a/d", ""),
            (".git/x", ""),
        ]);
        symlink("a", root.join("link")).unwrap();
        mkfifoat(CWD, root.join("pipe"), Mode::RUSR).unwrap();
        let visible = WalkOptions { hidden: false, ..ALL };
        assert_eq!(names(&root, visible), [".shown", "a/b/c", "a/d", "link", "pipe"]);
        let flat = WalkOptions {
            max_depth: Some(1),
            ..visible
        };
        assert_eq!(names(&root, flat), [".shown", "link", "pipe"]);
        let halted = std::cell::Cell::new(0);
        let mut walk = Walk::new(&root, None, ALL, || halted.replace(halted.get() + 1) > 0);
        assert_eq!(walk.by_ref().count(), 3, "the start alone was read");
        assert!(walk.is_halted());
    }

    #[test]
    fn entries_left_out_are_returned_with_the_reason() {
        let (_dir, root) = create_tree(&[
            (".gitignore", "*.log\n/build/\n.cache\n"),
            (".git/HEAD", ""),
            (".github/ci.yml", ""),
            (".env", ""),
            (".cache/x", ""),
            ("a.log", ""),
            ("build/x", ""),
            ("src/a", ""),
        ]);
        let options = WalkOptions {
            hidden: false,
            with_left_out: true,
            ..ALL
        };
        let walk = |names: &[&str]| -> Vec<(String, Option<LeftOut>)> {
            let names = names.iter().map(|name| GlobPattern::for_names(name).unwrap());
            let walk = Walk::new(&root, None, options, || false).with_hidden_names(names.collect());
            let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            walk.map(|entry| (relative(&entry.path), entry.left_out))
                .collect()
        };
        let entry = |path: &str, left_out| (path.to_owned(), left_out);
        let (hidden, ignored) = (Some(LeftOut::Hidden), Some(LeftOut::Ignored));
        assert_eq!(
            walk(&[]),
            [
                entry(".cache", ignored),
                entry(".env", hidden),
                entry(".github", hidden),
                entry(".gitignore", hidden),
                entry("a.log", ignored),
                entry("build", ignored),
                entry("src/a", None),
            ]
        );
        assert_eq!(
            walk(&[".git", ".gith*", ".cache"]),
            [
                entry(".cache", ignored),
                entry(".env", hidden),
                entry(".git", Some(LeftOut::VersionControl)),
                entry(".github/ci.yml", None),
                entry(".gitignore", hidden),
                entry("a.log", ignored),
                entry("build", ignored),
                entry("src/a", None),
            ]
        );
        let mut gone = Walk::new(&root.join("gone"), None, options, || false);
        assert_eq!((gone.next().is_none(), gone.unreadable_folders()), (true, 1));
    }

    #[test]
    fn unusable_ignore_files_are_reported_and_have_no_effect() {
        let (_dir, root) = create_tree(&[("file", "")]);
        let path = root.join(".gitignore");
        let unusable = || {
            let mut walk = Walk::new(&root, None, ALL, || false);
            assert!(
                walk.by_ref().any(|entry| entry.path.ends_with("file")),
                "not obeyed"
            );
            let reasons: Vec<String> = walk
                .unusable_rules()
                .iter()
                .map(|rules| rules.reason.clone())
                .collect();
            let _ = fs::remove_file(&path);
            reasons.join("; ")
        };
        mkfifoat(CWD, &path, Mode::RUSR).unwrap();
        assert_eq!(unusable(), "it is a named pipe; only regular files are read");
        symlink("/dev/zero", &path).unwrap();
        assert_eq!(unusable(), "it is a symbolic link; only regular files are read");
        fs::write(&path, "*\n".repeat(200_000)).unwrap();
        assert_eq!(unusable(), "it has 400000 bytes; at most 262144 are read");
        fs::write(&path, "*\n".repeat(10_001)).unwrap();
        assert_eq!(unusable(), "it has more than 10000 lines");
        fs::write(&path, format!("*\n{}\n", "x".repeat(5_000))).unwrap();
        assert_eq!(unusable(), "it has a line of more than 4096 bytes");
        fs::write(&path, "fi*e\n".repeat(1_001)).unwrap();
        assert_eq!(
            unusable(),
            "with the ignore files above it, it has more than 1000 patterns with wildcards"
        );
        fs::write(&path, "*.o\nname\n/dir/\n".repeat(3_000)).unwrap();
        assert_eq!(unusable(), "");
        fs::write(&path, "nothing\n").unwrap();
        assert_eq!(unusable(), "");
    }
}
