//! Lists the files of a workspace that make programs run, so that those created by a command can be found.
//!
//! Nothing can be bound over a file that does not exist yet, so `steering_files` cannot protect its name. Reads the same
//! places. Must not decide what happens to what it finds.

use std::fs::canonicalize;
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
/// The file in a linked work tree's own folder that names the repository.
pub const COMMON_POINTER: &str = "commondir";
/// The list of what a stopped rebase does next, from the folder of a repository or a linked work tree.
const TODO_LIST: &str = "rebase-merge/git-rebase-todo";
/// The merge strategy with which a stopped rebase goes on.
const REBASE_STRATEGY: &str = "rebase-merge/strategy";
/// The options with which a stopped cherry-pick or revert goes on, in the format of git's settings.
const PICK_OPTIONS: &str = "sequencer/opts";
/// Longest of these files that is read, in bytes.
const MAX_TODO_LIST: u64 = 1 << 20;
/// Git's own merge strategies. Any other is a program: `git-merge-NAME`, which is a path if it contains a slash.
const STRATEGIES: [&[u8]; 6] = [b"octopus", b"ort", b"ours", b"recursive", b"resolve", b"subtree"];

/// Calls `visit` with every path of a workspace folder that makes programs run. The folder may be the `.git` of a
/// repository around another one.
///
/// With `false`, it is called with files that run nothing as they are: linked work trees find their repository by them.
///
/// With `closes_submodules`, the sandbox makes all of `.git/modules` read-only if there are too many submodules. Then
/// they are not visited, and the result is true. Otherwise, their folder counts as one path then.
pub fn visit_steering_files(
    folder: &Path,
    closes_submodules: bool,
    visit: &mut dyn FnMut(PathBuf, bool),
) -> bool {
    let mut walk = SteeringWalk {
        closes_submodules,
        has_closed_submodules: false,
        visit,
    };
    if folder.ends_with(".git") {
        let repository = find_repository_folder(folder);
        repository.iter().for_each(|folder| walk.visit_repository(folder));
    } else {
        walk.visit_workspace(folder);
    }
    walk.has_closed_submodules
}

struct SteeringWalk<'a> {
    closes_submodules: bool,
    has_closed_submodules: bool,
    visit: &'a mut dyn FnMut(PathBuf, bool),
}

impl SteeringWalk<'_> {
    /// Does not look into what is visited as a whole, except into a repository.
    fn visit_workspace(&mut self, folder: &Path) {
        let entries = list_entries(folder);
        for (name, kind) in &entries {
            let path = folder.join(name);
            let is_folder = *kind == FileKind::Folder;
            if name.eq_ignore_ascii_case(".git") {
                if let Some(repository) = find_repository_folder(&path) {
                    self.visit_repository(&repository);
                }
                self.add(path);
            } else if let Some(files) = find_own_files(name)
                && is_folder
            {
                self.add_existing(&path, files);
            } else if steers_as_whole(name, *kind) {
                self.add(path);
            } else if name.starts_with('.') && is_folder {
                let inner = list_names(&path).into_iter();
                let steering = inner.filter(|inner| find_steering(&Path::new(name).join(inner)).is_some());
                steering.for_each(|inner| self.add(path.join(inner)));
            }
        }
        let is_listed = |part: &&str| entries.iter().any(|(name, _)| name == part);
        if BARE_REPOSITORY.iter().all(is_listed) {
            self.add(folder.join(BARE_REPOSITORY[0]));
        }
    }

    fn visit_repository(&mut self, folder: &Path) {
        self.add_repository_files(folder);
        let modules = folder.join("modules");
        self.add_link(&modules);
        let most = if self.closes_submodules {
            MAX_SUBMODULES
        } else {
            MAX_LISTED_SUBMODULES
        };
        match find_submodules(folder, most) {
            Some(submodules) => {
                for submodule in submodules {
                    self.add_link(&submodule);
                    self.add_repository_files(&submodule);
                }
            }
            None if self.closes_submodules => self.has_closed_submodules = true,
            None => self.add(modules),
        }
    }

    fn add(&mut self, path: PathBuf) {
        (self.visit)(path, true);
    }

    /// Adds a link in the place of a folder: git obeys what is behind it, which is not visited.
    fn add_link(&mut self, path: &Path) {
        if is_link(path) {
            self.add(path.to_owned());
        }
    }

    fn add_repository_files(&mut self, folder: &Path) {
        self.add_existing(folder, &REPOSITORY_FILES);
        self.add_todo_lists(folder);
        let worktrees = folder.join("worktrees");
        self.add_link(&worktrees);
        for name in list_names(&worktrees) {
            let worktree = worktrees.join(name);
            self.add_link(&worktree);
            self.add_existing(&worktree, &WORKTREE_FILES);
            self.add_todo_lists(&worktree);
            let pointer = worktree.join(COMMON_POINTER);
            if nofollow::kind(&pointer).is_some() {
                let common = read_pointer(&pointer).and_then(|named| canonicalize(worktree.join(named)).ok());
                (self.visit)(pointer, common != canonicalize(folder).ok());
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
                self.add(path);
            }
        }
    }

    /// Adds the files by which a stopped rebase, cherry-pick, or revert runs commands when it goes on.
    fn add_todo_lists(&mut self, folder: &Path) {
        for name in ["rebase-merge", "sequencer"] {
            self.add_link(&folder.join(name));
        }
        for name in [TODO_LIST, REBASE_STRATEGY, PICK_OPTIONS] {
            let path = folder.join(name);
            if read_todo_commands(&path).is_none_or(|commands| !commands.is_empty()) {
                self.add(path);
            }
        }
    }
}

/// Returns the commands and the merge strategies that a file of a stopped rebase, cherry-pick, or revert runs, in order,
/// if the path is such a file; `None` if it cannot be read.
pub fn read_todo_commands(path: &Path) -> Option<Vec<Vec<u8>>> {
    let name = [TODO_LIST, REBASE_STRATEGY, PICK_OPTIONS]
        .into_iter()
        .find(|name| path.ends_with(name));
    let Some(name) = name.filter(|_| nofollow::kind(path).is_some()) else {
        return Some(Vec::new());
    };
    let text = nofollow::read(path, MAX_TODO_LIST).ok()?;
    Some(match name {
        TODO_LIST => list_commands(&text),
        REBASE_STRATEGY => list_programs([text.strip_suffix(b"\n").unwrap_or(&text)]),
        _ => list_option_programs(&text),
    })
}

/// Lists the lines of a rebase's list that run commands.
fn list_commands(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let runs = |line: &&[u8]| {
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        matches!(word, b"exec" | b"x")
    };
    lines.filter(runs).map(<[u8]>::to_vec).collect()
}

/// Lists the values of `strategy` that are programs. A line that git reads in another way counts as one.
fn list_option_programs(text: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let settings = text.split("strategy").skip(1);
    let settings = settings.filter(|rest| !rest.starts_with("-option"));
    list_programs(settings.map(|rest| {
        let line = rest.lines().next().unwrap_or_default().trim();
        line.strip_prefix('=').unwrap_or(line).trim_start().as_bytes()
    }))
}

fn list_programs<'a>(strategies: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let programs = strategies.into_iter().filter(|name| !STRATEGIES.contains(name));
    programs.map(<[u8]>::to_vec).collect()
}

/// Returns who obeys a path that makes programs run, for people.
pub fn name_reader(path: &Path) -> &'static str {
    let is_own = || path.ends_with("agentls") || path.ends_with("agentls/config.toml");
    match find_steering(path) {
        Some(found) => found.obeyed_by,
        None if is_own() => "agentls",
        // A bare repository's file, or what git's settings name.
        None => "git",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn a_merge_strategy_counts_unless_it_is_one_of_git() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["rebase-merge", "sequencer"] {
            fs::create_dir(path(name)).unwrap();
        }
        let read = |name: &str, text: &str| {
            fs::write(path(name), text).unwrap();
            let commands = read_todo_commands(&path(name)).unwrap().into_iter();
            commands
                .map(|command| String::from_utf8(command).unwrap())
                .collect::<Vec<_>>()
        };
        for (text, want) in [
            ("ort\n", None),
            ("resolve", None),
            ("x/evil\n", Some("x/evil")),
            ("foo\n", Some("foo")),
            ("ort\n\n", Some("ort\n")),
        ] {
            assert_eq!(read(REBASE_STRATEGY, text), Vec::from_iter(want), "{text}");
        }
        for (text, want) in [
            ("[options]\n\tedit = true\n\tstrategy-option = theirs\n", None),
            ("[options]\n\tstrategy = ort\n\tstrategy-option = theirs\n", None),
            ("[Options]\n\tStrategy=x/evil\n", Some("x/evil")),
            ("[options] strategy\t= x/evil ; ort\n", Some("x/evil ; ort")),
            ("[options]\nstrategy = ort\\\n/evil\n", Some("ort\\")),
            ("[options]\nstrategy = ort\nstrategy = x/evil", Some("x/evil")),
            ("[options]\nstrategy = \"x/evil\"\r\n", Some("\"x/evil\"")),
        ] {
            assert_eq!(read(PICK_OPTIONS, text), Vec::from_iter(want), "{text}");
        }
    }

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
            let mut found = BTreeSet::new();
            visit_steering_files(ws, true, &mut |path, _| {
                found.insert(path.strip_prefix(ws).unwrap().display().to_string());
            });
            found.into_iter().collect()
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
        let links = [
            ".git/worktrees",
            ".git/modules",
            ".git/rebase-merge",
            ".git/sequencer",
            ".jj/repo",
        ];
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
