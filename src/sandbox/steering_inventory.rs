//! Lists the files of a workspace that make programs run, so that those created by a command can be found.
//!
//! Nothing can be bound over a file that does not exist yet, so `steering_files` cannot protect its name. Reads the same
//! places. Must not decide what happens to what it finds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::steering_files::{REPOSITORY_FILES, find_own_files, list_names};
use crate::base::nofollow::{self, FileKind};
use crate::base::steering::find_steering;

/// The entries by which git recognizes a folder as a repository, even without `.git`.
const BARE_REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];

/// Returns the paths in a workspace folder that steer programs: files, folders, or links.
///
/// Does not look into what is listed as a whole, except into a repository.
pub fn list_steering_paths(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let names = list_names(folder);
    for name in &names {
        let path = folder.join(name);
        let is_folder = nofollow::kind(&path) == Some(FileKind::Folder);
        if name.eq_ignore_ascii_case(".git") {
            let files = REPOSITORY_FILES.map(|file| path.join(file));
            found.extend(files.into_iter().filter(|file| is_folder && exists(file)));
            found.insert(path);
        } else if let Some(files) = find_own_files(name)
            && is_folder
        {
            let files = files.iter().map(|file| path.join(file));
            found.extend(files.filter(|file| exists(file)));
        } else if find_steering(Path::new(name)).is_some() {
            found.insert(path);
        } else if name.starts_with('.') && is_folder {
            let inner = list_names(&path).into_iter();
            let steering = inner.filter(|inner| find_steering(&Path::new(name).join(inner)).is_some());
            found.extend(steering.map(|inner| path.join(inner)));
        }
    }
    if BARE_REPOSITORY
        .iter()
        .all(|part| names.iter().any(|name| name == part))
    {
        found.insert(folder.join(BARE_REPOSITORY[0]));
    }
    found
}

/// Returns who obeys a path of [`list_steering_paths`], for people.
pub fn name_reader(path: &Path) -> &'static str {
    // Only a bare repository's file is on the list without being in the table.
    find_steering(path).map_or("git", |found| found.obeyed_by)
}

fn exists(path: &Path) -> bool {
    nofollow::kind(path).is_some()
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
            let found = list_steering_paths(ws).into_iter();
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
        fs::create_dir(ws.join("objects")).unwrap();
        assert!(list().contains(&"HEAD".to_owned()), "now it is a bare repository");
        assert_eq!(name_reader(&ws.join("HEAD")), "git");
        assert_eq!(name_reader(&ws.join(".vscode")), "VS Code");
    }
}
