//! Reserves the names of missing folders that make programs run, so that no background process creates them.
//!
//! Nothing can be mounted on what is missing, so an empty folder is created: the sandbox makes it read-only like one
//! that was there before. Only names are reserved at which an empty folder changes nothing for the program that obeys it.
//! Follows no link, and removes only what is still empty. Must not decide when: `steering_watch` does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::steering::RESERVED_FOLDERS;

/// The folder of git's hooks in a repository's own folder.
const HOOKS: &str = "hooks";

/// The folders that were created for this in one workspace folder.
#[derive(Debug, Default)]
pub(super) struct ReservedNames(BTreeSet<PathBuf>);

impl ReservedNames {
    /// Restores what another process has reserved.
    pub(super) fn from_paths(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().collect())
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter()
    }

    /// Creates the folders that are missing in a workspace folder, or in the `.git` of a repository around it. Returns
    /// whether it created one. Blocks.
    pub(super) fn reserve(&mut self, folder: &Path) -> bool {
        let is_folder = |path: &Path| nofollow::kind(path) == Some(FileKind::Folder);
        let (names, repository): (&[&str], _) = if folder.ends_with(".git") {
            (&[], folder.to_owned())
        } else {
            (&RESERVED_FOLDERS, folder.join(".git"))
        };
        let hooks = is_folder(&repository).then(|| repository.join(HOOKS));
        let wanted = names.iter().map(|name| folder.join(name)).chain(hooks);
        let mut has_created = false;
        for path in wanted {
            // Where that fails, what appears is found afterwards.
            if nofollow::kind(&path).is_none() && OpenFolder::create_all(&path).is_ok() {
                self.0.insert(path);
                has_created = true;
            }
        }
        has_created
    }

    /// Removes the folders that are still empty, and returns their paths. The others are in use by now. Blocks.
    pub(super) fn release(&mut self) -> Vec<PathBuf> {
        let mut reserved = std::mem::take(&mut self.0).into_iter().collect::<Vec<_>>();
        reserved.retain(|path| {
            let removed = OpenFolder::open_parent(path).and_then(|(folder, name)| folder.remove_folder(name));
            removed.is_ok()
        });
        reserved
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path, paths: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
        paths.into_iter().map(name).collect()
    }

    #[test]
    fn only_missing_folders_are_reserved_and_only_empty_ones_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (ws, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        for folder in [&ws.join(".idea"), &ws.join(".git"), &outside] {
            fs::create_dir_all(folder).unwrap();
        }
        symlink(dir.path().join("missing"), ws.join(".zed")).unwrap();
        let mut reserved = ReservedNames::default();
        assert!(reserved.reserve(&ws));
        let wanted = [".claude", ".cursor", ".git/hooks", ".vscode"];
        assert_eq!(names(&ws, reserved.paths().cloned()), wanted);
        assert!(!reserved.reserve(&ws), "all of them are there");
        assert!(!dir.path().join("missing").exists());
        // The user's editor uses one, and another leads elsewhere by now.
        fs::write(ws.join(".vscode/settings.json"), "{}").unwrap();
        fs::remove_dir(ws.join(".cursor")).unwrap();
        symlink(&outside, ws.join(".cursor")).unwrap();
        assert_eq!(names(&ws, reserved.release()), [".claude", ".git/hooks"]);
        assert!(ws.join(".vscode/settings.json").exists() && ws.join(".idea").exists() && outside.exists());
        assert_eq!(reserved.paths().count(), 0);
    }

    #[test]
    fn of_a_repository_around_the_workspace_only_the_hooks_are_reserved() {
        let dir = tempfile::tempdir().unwrap();
        let dot_git = dir.path().join(".git");
        fs::create_dir(&dot_git).unwrap();
        let mut reserved = ReservedNames::default();
        assert!(reserved.reserve(&dot_git));
        assert_eq!(names(&dot_git, reserved.paths().cloned()), ["hooks"]);
    }
}
