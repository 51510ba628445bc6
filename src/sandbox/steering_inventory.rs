//! Lists the files of a workspace that make programs run, so that those created by a command can be found.
//!
//! Nothing can be bound over a file that does not exist yet, so `steering_files` cannot protect its name. Reads the same
//! places. Must not decide what happens to what it finds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::steering_files::{
    MAX_SUBMODULES, REPOSITORY_FILES, find_own_files, find_repository_folder, find_submodules, is_link,
    list_entries, list_names, read_pointer, steers_as_whole,
};
use crate::base::nofollow::{self, FileKind};
use crate::base::steering::find_steering;

/// The entries by which git recognizes a folder as a repository, even without `.git`.
const BARE_REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];
/// Files that git obeys in the folder of a linked work tree. The first two are never there, unless `commondir` is gone.
const WORKTREE_FILES: [&str; 3] = ["config", "hooks", "config.worktree"];
/// Most submodules that are listed after a command. With more, their folder counts as changed.
const MAX_LISTED_SUBMODULES: usize = 2_000;
/// The list of what a stopped rebase does next, from the folder of a repository or a linked work tree.
const TODO_LIST: &str = "rebase-merge/git-rebase-todo";
/// Longest such list that is read, in bytes.
const MAX_TODO_LIST: u64 = 1 << 20;

/// The files of a workspace folder that make programs run.
#[derive(Debug, Default)]
pub struct SteeringInventory {
    /// Files, folders, or links.
    pub paths: BTreeSet<PathBuf>,
    /// There are so many submodules that the sandbox makes all of `.git/modules` read-only, so they are not listed.
    pub has_closed_submodules: bool,
}

impl SteeringInventory {
    /// Lists a folder before a command.
    pub fn before_command(folder: &Path) -> Self {
        Self::list(folder, MAX_SUBMODULES)
    }

    /// Lists a folder after a command, and what is new in `.git/modules` too, unless the command could not write it.
    pub fn after_command(folder: &Path, had_closed_submodules: bool) -> Self {
        let most = if had_closed_submodules {
            MAX_SUBMODULES
        } else {
            MAX_LISTED_SUBMODULES
        };
        Self::list(folder, most)
    }

    /// Does not look into what is listed as a whole, except into a repository.
    fn list(folder: &Path, most_submodules: usize) -> Self {
        let mut inventory = Self::default();
        let entries = list_entries(folder);
        for (name, kind) in &entries {
            let path = folder.join(name);
            let is_folder = *kind == FileKind::Folder;
            if name.eq_ignore_ascii_case(".git") {
                if let Some(repository) = find_repository_folder(&path) {
                    inventory.add_repository(&repository, most_submodules);
                }
                inventory.paths.insert(path);
            } else if let Some(files) = find_own_files(name)
                && is_folder
            {
                inventory.add_existing(&path, files);
            } else if steers_as_whole(name, *kind) {
                inventory.paths.insert(path);
            } else if name.starts_with('.') && is_folder {
                let inner = list_names(&path).into_iter();
                let steering = inner.filter(|inner| find_steering(&Path::new(name).join(inner)).is_some());
                inventory.paths.extend(steering.map(|inner| path.join(inner)));
            }
        }
        if BARE_REPOSITORY
            .iter()
            .all(|part| entries.iter().any(|(name, _)| name == part))
        {
            inventory.paths.insert(folder.join(BARE_REPOSITORY[0]));
        }
        inventory
    }

    fn add_repository(&mut self, folder: &Path, most_submodules: usize) {
        self.add_repository_files(folder);
        let modules = folder.join("modules");
        self.add_link(&modules);
        match find_submodules(folder, most_submodules) {
            Some(submodules) => {
                for submodule in submodules {
                    self.add_link(&submodule);
                    self.add_repository_files(&submodule);
                }
            }
            None if most_submodules == MAX_SUBMODULES => self.has_closed_submodules = true,
            None => {
                self.paths.insert(modules);
            }
        }
    }

    /// Adds a link in the place of a folder: git obeys what is behind it, which is not listed.
    fn add_link(&mut self, path: &Path) {
        if is_link(path) {
            self.paths.insert(path.to_owned());
        }
    }

    fn add_repository_files(&mut self, folder: &Path) {
        self.add_existing(folder, &REPOSITORY_FILES);
        self.add_todo_list(folder);
        let worktrees = folder.join("worktrees");
        self.add_link(&worktrees);
        for name in list_names(&worktrees) {
            let worktree = worktrees.join(name);
            self.add_link(&worktree);
            self.add_existing(&worktree, &WORKTREE_FILES);
            self.add_todo_list(&worktree);
            if leads_elsewhere(&worktree, folder) {
                self.paths.insert(worktree.join("commondir"));
            }
        }
    }

    fn add_existing(&mut self, folder: &Path, names: &[&str]) {
        for name in names {
            if let Some((inner, _)) = name.split_once('/') {
                self.add_link(&folder.join(inner));
            }
            let path = folder.join(name);
            if nofollow::kind(&path).is_some() {
                self.paths.insert(path);
            }
        }
    }

    /// Adds the list of a stopped rebase if it runs commands.
    fn add_todo_list(&mut self, folder: &Path) {
        let path = folder.join(TODO_LIST);
        self.add_link(&folder.join("rebase-merge"));
        if read_todo_commands(&path).is_none_or(|commands| !commands.is_empty()) {
            self.paths.insert(path);
        }
    }
}

/// Returns the lines of a rebase's list that run commands, in order, if the path is such a list; `None` if it cannot be
/// read.
pub fn read_todo_commands(path: &Path) -> Option<Vec<Vec<u8>>> {
    if !path.ends_with(TODO_LIST) || nofollow::kind(path).is_none() {
        return Some(Vec::new());
    }
    let text = nofollow::read(path, MAX_TODO_LIST).ok()?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let runs = |line: &&[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        matches!(word, b"exec" | b"x")
    };
    Some(lines.filter(runs).map(<[u8]>::to_vec).collect())
}

/// Returns whether a linked work tree uses the settings of another repository than the one that it belongs to.
fn leads_elsewhere(worktree: &Path, repository: &Path) -> bool {
    let file = worktree.join("commondir");
    let common = read_pointer(&file).and_then(|named| std::fs::canonicalize(worktree.join(named)).ok());
    // A file that is missing or unreadable has no name to lead anywhere.
    nofollow::kind(&file).is_some() && common != std::fs::canonicalize(repository).ok()
}

/// Returns who obeys a path of [`SteeringInventory`], for people.
pub fn name_reader(path: &Path) -> &'static str {
    // Only a bare repository's file is on the list without being in the table.
    find_steering(path).map_or("git", |found| found.obeyed_by)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn everything_that_steers_is_listed_at_its_outermost_name() {
        let folder = tempfile::tempdir().unwrap();
        let ws = folder.path();
        for file in [
            ".git/config",
            ".git/objects/aa",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            ".github/CODEOWNERS",
            ".cargo/config.toml",
            ".hg/hgrc",
            ".hg/store/x",
            ".yarn/cache/a.zip",
            "AGENTS.md",
            "src/AGENTS.md",
            "HEAD",
            "refs/heads/main",
        ] {
            let path = ws.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("src", ws.join(".idea")).unwrap();
        let list = || -> Vec<String> {
            let found = SteeringInventory::before_command(ws).paths.into_iter();
            let relative = found.map(|path| path.strip_prefix(ws).unwrap().to_owned());
            relative.map(|path| path.display().to_string()).collect()
        };
        let expected = [
            ".cargo/config.toml",
            ".git",
            ".git/config",
            ".github/workflows",
            ".hg/hgrc",
            ".idea",
            ".vscode",
            "AGENTS.md",
        ];
        assert_eq!(list(), expected);
        let links = [".git/worktrees", ".git/modules", ".git/rebase-merge", ".jj/repo"];
        for link in links {
            let link = ws.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(ws.join("src"), link).unwrap();
        }
        assert!(links.iter().all(|link| list().iter().any(|found| found == link)));
        fs::create_dir(ws.join("objects")).unwrap();
        assert!(list().contains(&"HEAD".to_owned()), "now it is a bare repository");
        assert_eq!(name_reader(&ws.join("HEAD")), "git");
        assert_eq!(name_reader(&ws.join(".vscode")), "VS Code");
    }
}
