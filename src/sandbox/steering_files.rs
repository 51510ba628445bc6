//! Finds what must stay read-only in a writable workspace: files that make programs run when nobody expects it.
//!
//! Looks only at what exists, at the top of the workspace and in its repository; runs in the helper.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::plan::{PathRule, REPLACED};
use crate::base::nofollow::{self, FileKind, FolderEntry, OpenFolder};
use crate::base::steering::{find_steering, may_hold_steering};

/// How deep submodules are looked for in `.git/modules`.
const MODULE_DEPTH: u32 = 6;
/// Most submodules that are protected one by one, since each needs several mounts.
pub(super) const MAX_SUBMODULES: usize = 100;
/// Most folders examined in `.git/modules`, as a multiple of the most submodules.
const FOLDERS_PER_SUBMODULE: usize = 20;
/// Files of a repository that make git run programs. The rest of `.git` stays writable, or nothing could be committed.
pub(super) const REPOSITORY_FILES: [&str; 5] = [
    "config",
    "config.worktree",
    "hooks",
    "commondir",
    "info/attributes",
];

/// Visible entries of a home folder that are programs, or the settings of a system.
const HOME_PROGRAMS: [&str; 4] = ["bin", "Applications", "Library", "snap"];
/// Most entries of a home folder that are writable, since each is a mount.
const MAX_HOME_ENTRIES: usize = 500;
/// Folders of programs in visible folders of a home folder.
const HOME_PROGRAM_FOLDERS: [&str; 1] = ["go/bin"];

/// Largest file of settings that is searched for a work tree elsewhere, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Returns the rules of a workspace folder: the folder itself, then its files that make programs run. For a `.git` it
/// returns those of the repository.
pub(super) fn expand_workspace(folder: &Path) -> Vec<(PathRule, PathBuf)> {
    if folder.ends_with(".git") {
        let mut rules = Vec::new();
        protect_repository(folder, &mut rules);
        return rules;
    }
    let mut rules = vec![(PathRule::Write, folder.to_owned())];
    for (name, kind) in list_entries(folder) {
        let path = folder.join(&name);
        if name.eq_ignore_ascii_case(".git") {
            protect_repository(&path, &mut rules);
        } else if let Some(files) = find_own_files(&name)
            && kind == FileKind::Folder
        {
            // A mount point cannot be renamed, so the folder around the files must be one.
            rules.push((PathRule::Write, path.clone()));
            rules.extend(files.iter().map(|file| (PathRule::ReadOnly, path.join(file))));
        } else if steers_as_whole(&name, kind) {
            rules.push((PathRule::ReadOnly, path));
        } else if name.starts_with('.') {
            protect_folder(&path, &name, &mut rules);
        }
    }
    rules
}

/// Returns the rules of the home folder as a workspace: its visible files and folders, less those of programs.
///
/// The folder itself is read-only, so that no new settings appear in it.
pub(super) fn expand_home(folder: &Path) -> Vec<(PathRule, PathBuf)> {
    let mut rules = vec![(PathRule::ReadOnly, folder.to_owned())];
    // Folders that are mount points already, such as a disk, are copied with what is mounted below them.
    let is_writable = |(name, kind): &(String, FileKind)| {
        matches!(kind, FileKind::Folder | FileKind::Regular)
            && !name.starts_with('.')
            && !HOME_PROGRAMS.contains(&name.as_str())
            && find_steering(Path::new(name)).is_none()
    };
    let files = list_entries(folder).into_iter().filter(is_writable);
    // The rest stays read-only.
    rules.extend(
        files
            .take(MAX_HOME_ENTRIES)
            .map(|(name, _)| (PathRule::Write, folder.join(name))),
    );
    let programs = HOME_PROGRAM_FOLDERS.map(|path| (PathRule::ReadOnly, folder.join(path)));
    rules.extend(programs);
    rules
}

/// Returns the files that run something in a folder whose rest must stay writable, such as those of version control.
pub(super) fn find_own_files(name: &str) -> Option<&'static [&'static str]> {
    match name {
        ".hg" => Some(&["hgrc"]),
        ".jj" => Some(&["repo/config.toml"]),
        ".svn" => Some(&[]),
        ".yarn" => Some(&["releases", "plugins"]),
        _ => None,
    }
}

/// Returns whether an entry at the top of a workspace is protected with everything in it.
///
/// A link in the place of a folder such as `.github` is: nothing else could protect what is behind it.
pub(super) fn steers_as_whole(name: &str, kind: FileKind) -> bool {
    find_steering(Path::new(name)).is_some() || (kind == FileKind::Link && may_hold_steering(name))
}

/// Protects entries such as `.github/workflows` and `.cargo/config.toml`.
fn protect_folder(folder: &Path, name: &str, rules: &mut Vec<(PathRule, PathBuf)>) {
    let found: Vec<PathBuf> = list_names(folder)
        .into_iter()
        .filter(|inner| find_steering(&Path::new(name).join(inner)).is_some())
        .map(|inner| folder.join(inner))
        .collect();
    if !found.is_empty() {
        rules.push((PathRule::Write, folder.to_owned()));
    }
    rules.extend(found.into_iter().map(|path| (PathRule::ReadOnly, path)));
}

/// Protects a repository: its folder, or the file that says where that is.
fn protect_repository(dot_git: &Path, rules: &mut Vec<(PathRule, PathBuf)>) {
    if nofollow::kind(dot_git) == Some(FileKind::Folder) {
        protect_repository_folder(dot_git, rules);
        return;
    }
    rules.push((PathRule::ReadOnly, dot_git.to_owned()));
    let Some((folder, common)) = find_linked_repository(dot_git) else {
        return;
    };
    protect_repository_folder(&common, rules);
    // A submodule has no other.
    if folder != common {
        protect_repository_files(&folder, rules);
        rules.push((PathRule::ReadOnly, folder.join("gitdir")));
    }
}

/// Returns the folders of a repository that commands may write: `.git`, or for a linked work tree that of the main one,
/// which contains its own.
pub(super) fn find_repository_folder(dot_git: &Path) -> Option<PathBuf> {
    match nofollow::kind(dot_git)? {
        FileKind::Folder => Some(dot_git.to_owned()),
        _ => find_linked_repository(dot_git).map(|(_, common)| common),
    }
}

/// Returns the `.git` of the repository around a workspace folder, if commands in the folder may write it.
///
/// It must be the one that git finds there and accepts: the nearest one, on the same file system, of this user, with its
/// work tree around it. None that contains the home folder is, nor any if that is not known: its history is that of the
/// user's own settings. None in a folder such as `/tmp` is either: commands do not see the rest of the work tree there, and
/// would commit its removal.
pub fn find_outer_repository(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let dot_gits = folder.ancestors().map(|around| around.join(".git"));
    let dot_git = dot_gits.into_iter().find(|path| nofollow::kind(path).is_some())?;
    let root = dot_git.parent().filter(|root| *root != folder)?;
    let repository = find_repository_folder(&dot_git)?;
    let user = rustix::process::geteuid().as_raw();
    let look_at = |path: &Path| std::fs::symlink_metadata(path).ok();
    let is_own = |path: &Path| look_at(path).is_some_and(|found| found.uid() == user);
    let is_accepted = [root, &dot_git, &repository].into_iter().all(is_own)
        && look_at(root)?.dev() == look_at(folder)?.dev()
        && home.is_some_and(|home| !home.starts_with(root))
        && !REPLACED.iter().any(|replaced| root.starts_with(replaced))
        && !["config", "config.worktree"]
            .iter()
            .any(|name| names_work_tree(&repository.join(name)));
    is_accepted.then_some(dot_git)
}

/// Returns whether a file of git's settings says where the work tree is. A line that git reads in another way counts too.
fn names_work_tree(config: &Path) -> bool {
    let text = nofollow::read(config, MAX_CONFIG).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let mut settings = text.split("worktree").skip(1);
    settings.any(|rest| rest.trim_start().starts_with('='))
}

fn protect_repository_folder(folder: &Path, rules: &mut Vec<(PathRule, PathBuf)>) {
    protect_repository_files(folder, rules);
    let modules = folder.join("modules");
    match find_submodules(folder, MAX_SUBMODULES) {
        Some(_) if is_link(&modules) => rules.push((PathRule::ReadOnly, modules)),
        Some(submodules) => {
            for submodule in submodules {
                protect_repository_files(&submodule, rules);
            }
        }
        None => rules.push((PathRule::ReadOnly, modules)),
    }
}

fn protect_repository_files(folder: &Path, rules: &mut Vec<(PathRule, PathBuf)>) {
    rules.push((PathRule::Write, folder.to_owned()));
    rules.extend(REPOSITORY_FILES.map(|name| (PathRule::ReadOnly, folder.join(name))));
    let worktrees = folder.join("worktrees");
    // What git obeys behind a link is found by no other rule.
    if is_link(&worktrees) {
        rules.push((PathRule::ReadOnly, worktrees.clone()));
    }
    rules.extend(list_entries(&worktrees).into_iter().map(|(name, kind)| {
        let worktree = worktrees.join(name);
        let path = match kind {
            FileKind::Link => worktree,
            _ => worktree.join("config.worktree"),
        };
        (PathRule::ReadOnly, path)
    }));
}

/// Finds the repositories of submodules, which `.git/modules` contains at any depth, the outer ones first, and links in
/// their place. `None` if there are more than `most`, or too many other folders.
pub(super) fn find_submodules(repository: &Path, most: usize) -> Option<Vec<PathBuf>> {
    let (mut found, mut pending) = (Vec::new(), vec![(repository.join("modules"), 1)]);
    let mut examined = 0;
    while let Some((folder, depth)) = pending.pop() {
        for entry in read_entries(&folder) {
            let path = folder.join(entry.name);
            let exists = |name: &str| nofollow::kind(&path.join(name)).is_some();
            let is_repository = match entry.kind {
                FileKind::Folder => exists("config") || exists("HEAD"),
                FileKind::Link => true,
                _ => continue,
            };
            examined += 1;
            if (is_repository && found.len() == most) || examined > most.saturating_mul(FOLDERS_PER_SUBMODULE)
            {
                return None;
            }
            let inner = if is_repository {
                path.join("modules")
            } else {
                path.clone()
            };
            if is_repository {
                found.push(path);
            }
            if depth < MODULE_DEPTH {
                pending.push((inner, depth + 1));
            }
        }
    }
    Some(found)
}

/// Returns the folders of a linked work tree: its own, and the one that it shares with the main work tree. A submodule has
/// only one, in the repository around it.
///
/// Only if the repository agrees: a `.git` file that a stranger wrote could name any repository of the machine.
pub fn find_linked_repository(dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    let parent = dot_git.parent()?;
    let named = read_pointer(dot_git)?;
    let folder = std::fs::canonicalize(parent.join(named.strip_prefix("gitdir: ")?)).ok()?;
    if is_submodule(&folder, parent) {
        return Some((folder.clone(), folder));
    }
    let back = std::fs::canonicalize(folder.join(read_pointer(&folder.join("gitdir"))?)).ok()?;
    if back != std::fs::canonicalize(dot_git).ok()? {
        return None;
    }
    let common = std::fs::canonicalize(folder.join(read_pointer(&folder.join("commondir"))?)).ok()?;
    folder
        .starts_with(common.join("worktrees"))
        .then_some((folder, common))
}

/// Returns whether `folder` is the repository of a submodule in `modules` of another one, and names `work_tree` as its work
/// tree, wherever its settings do.
fn is_submodule(folder: &Path, work_tree: &Path) -> bool {
    let is_modules = |around: &Path| around.ends_with("modules");
    let has_other_files = ["commondir", "gitdir", "config.worktree"];
    if !folder.ancestors().skip(1).any(is_modules)
        || has_other_files
            .iter()
            .any(|name| nofollow::kind(&folder.join(name)).is_some())
    {
        return false;
    }
    let Ok(work_tree) = std::fs::canonicalize(work_tree) else {
        return false;
    };
    let text = nofollow::read(&folder.join("config"), MAX_CONFIG).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let settings = text.lines().filter_map(|line| line.trim().split_once('='));
    let mut trees = settings
        .filter(|(key, _)| key.trim().eq_ignore_ascii_case("worktree"))
        .peekable();
    let is_there =
        |value: &str| std::fs::canonicalize(folder.join(value.trim())).is_ok_and(|tree| tree == work_tree);
    trees.peek().is_some() && trees.all(|(_, value)| is_there(value))
}

/// Reads a small file of git that names a path.
pub fn read_pointer(file: &Path) -> Option<String> {
    let text = String::from_utf8(nofollow::read(file, 4096).ok()?).ok()?;
    Some(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Lists what is in a folder; names that are not UTF-8 steer nothing. Does not follow a link to a folder.
pub(super) fn list_entries(folder: &Path) -> Vec<(String, FileKind)> {
    let entries = read_entries(folder).into_iter();
    let entries = entries.filter_map(|entry| Some((entry.name.into_string().ok()?, entry.kind)));
    entries.collect()
}

/// Lists the names in a folder, as [`list_entries`] does.
pub(super) fn list_names(folder: &Path) -> Vec<String> {
    let entries = list_entries(folder).into_iter();
    entries.map(|(name, _)| name).collect()
}

fn read_entries(folder: &Path) -> Vec<FolderEntry> {
    let Ok(entries) = OpenFolder::open(folder).and_then(|folder| folder.read_entries()) else {
        return Vec::new();
    };
    entries.filter_map(Result::ok).collect()
}

/// Returns whether a path is a link, on a way without links.
pub(super) fn is_link(path: &Path) -> bool {
    nofollow::kind(path) == Some(FileKind::Link)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn is_writable(rules: &[(PathRule, PathBuf)], path: &Path) -> bool {
        let found = rules.iter().rev().find(|(_, named)| path.starts_with(named));
        found.is_some_and(|(rule, _)| *rule == PathRule::Write)
    }

    #[test]
    fn steering_files_are_read_only_and_the_rest_is_writable() {
        let folder = tempfile::tempdir().unwrap();
        let ws = folder.path();
        for file in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/index",
            ".git/info/attributes",
            ".git/info/exclude",
            ".git/modules/lib/config",
            ".git/modules/lib/worktrees/side/index",
            ".git/modules/group/sub/config",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            ".github/CODEOWNERS",
            ".cargo/config.toml",
            ".yarn/cache/a.zip",
            ".yarn/releases/yarn.cjs",
            ".hg/hgrc",
            "AGENTS.md",
            "src/lib.rs",
        ] {
            write(&ws.join(file), "");
        }
        let rules = expand_workspace(ws);
        for file in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/modules/lib/config",
            ".git/modules/lib/hooks/x",
            ".git/modules/lib/worktrees/side/config.worktree",
            ".git/modules/group/sub/config",
            ".vscode/tasks.json",
            ".github/workflows/new.yml",
            ".cargo/config.toml",
            ".yarn/releases/yarn.cjs",
            ".hg/hgrc",
            "AGENTS.md",
        ] {
            assert!(!is_writable(&rules, &ws.join(file)), "{file}");
        }
        for file in [
            ".git/index",
            ".git/objects/aa",
            ".git/modules/lib/index",
            ".git/modules/lib/worktrees/side/index",
            ".github/CODEOWNERS",
            ".yarn/cache/b.zip",
            ".hg/store/x",
            "src/lib.rs",
            "new/file",
        ] {
            assert!(is_writable(&rules, &ws.join(file)), "{file}");
        }
    }

    #[test]
    fn what_is_hidden_in_a_home_folder_stays_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        for file in [
            ".bashrc",
            ".config/autostart/x",
            "bin/tool",
            "go/bin/tool",
            "go/src/a.go",
            "AGENTS.md",
            "notes.txt",
            "project/src/lib.rs",
        ] {
            write(&home.join(file), "");
        }
        std::os::unix::fs::symlink(home.join(".config"), home.join("config")).unwrap();
        let rules = expand_home(home);
        for (file, writable) in [
            (".bashrc", false),
            (".new", false),
            ("new", false),
            (".config/autostart/x", false),
            ("config/autostart/x", false),
            ("bin/tool", false),
            ("go/bin/tool", false),
            ("go/src/a.go", true),
            ("AGENTS.md", false),
            ("notes.txt", true),
            ("project/src/lib.rs", true),
        ] {
            assert_eq!(is_writable(&rules, &home.join(file)), writable, "{file}");
        }
    }

    #[test]
    fn a_link_in_the_workspace_makes_nothing_writable() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (ws, outside) = (root.join("ws"), root.join("outside"));
        for file in ["hgrc", "config", "workflows/a", "modules/x/config"] {
            write(&outside.join(file), "");
        }
        write(&ws.join("src/lib.rs"), "");
        for name in [".hg", ".jj", ".svn", ".yarn", ".git", ".github", ".cargo"] {
            std::os::unix::fs::symlink(&outside, ws.join(name)).unwrap();
        }
        let writable = |(rule, path): &(PathRule, PathBuf)| *rule == PathRule::Write && *path != ws;
        assert_eq!(expand_workspace(&ws).iter().find(|rule| writable(rule)), None);
        fs::remove_file(ws.join(".git")).unwrap();
        write(&ws.join(".git/config"), "");
        std::os::unix::fs::symlink(outside.join("modules"), ws.join(".git/modules")).unwrap();
        let leaves = |(rule, path): &(PathRule, PathBuf)| {
            *rule == PathRule::Write && !fs::canonicalize(path).unwrap().starts_with(&ws)
        };
        assert_eq!(expand_workspace(&ws).iter().find(|rule| leaves(rule)), None);
    }

    #[test]
    fn a_linked_work_tree_may_write_its_repository_only_if_that_agrees() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let (main, linked) = (root.join("main/.git"), root.join("linked"));
        let own = main.join("worktrees/linked");
        write(&main.join("config"), "");
        write(&own.join("commondir"), "../..\n");
        write(&linked.join(".git"), &format!("gitdir: {}\n", own.display()));
        write(&own.join("gitdir"), &format!("{}/.git\n", linked.display()));
        let rules = expand_workspace(&linked);
        assert!(is_writable(&rules, &main.join("objects/aa")));
        assert!(is_writable(&rules, &own.join("index")));
        assert!(!is_writable(&rules, &main.join("config")));
        assert!(!is_writable(&rules, &own.join("gitdir")));
        assert!(!is_writable(&rules, &linked.join(".git")));

        // A submodule.
        let (module, tree) = (main.join("modules/group/lib"), root.join("main/lib"));
        write(
            &module.join("config"),
            "[core]\n\tbare = false\n\tworktree = ../../../../lib\n",
        );
        write(&module.join("modules/inner/config"), "");
        write(&tree.join(".git"), "gitdir: ../.git/modules/group/lib\n");
        let rules = expand_workspace(&tree);
        for (file, writable) in [
            ("objects/aa", true),
            ("index", true),
            ("logs/HEAD", true),
            ("config", false),
            ("hooks/pre-commit", false),
            ("modules/inner/config", false),
            ("modules/inner/index", true),
        ] {
            assert_eq!(is_writable(&rules, &module.join(file)), writable, "{file}");
        }
        for path in [main.join("objects/aa"), main.join("index"), tree.join(".git")] {
            assert!(!is_writable(&rules, &path), "{}", path.display());
        }
        // It names another work tree, or several.
        for config in [
            "",
            "[core]\nworktree = ..",
            "[core]\nworktree = ../../../../lib\nworktree = ..",
        ] {
            write(&module.join("config"), config);
            assert!(
                !is_writable(&expand_workspace(&tree), &module.join("index")),
                "{config}"
            );
        }

        // Another folder that only claims to be the work tree.
        let stranger = root.join("stranger");
        write(&stranger.join(".git"), &format!("gitdir: {}\n", own.display()));
        let rules = expand_workspace(&stranger);
        assert!(!is_writable(&rules, &main.join("objects/aa")));
    }
}
