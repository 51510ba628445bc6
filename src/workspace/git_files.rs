//! Decides whether git can read what a repository provides without blocking. A pipe as `.git/HEAD` or
//! `.gitattributes` would make `git` wait forever.
//!
//! Examines the files that our own git commands read; starts nothing and must not decide anything else. Fails closed:
//! what it does not understand counts as unreadable.

use std::path::{Path, PathBuf};

use super::git_folder::{find_common_folder, find_git_folder};
use super::real_path::{PathError, real_path};
use crate::base::nofollow::{self, FileKind, OpenError, OpenFolder};

/// Largest config file, attributes file, or pointer, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Most config files that include one another.
const MAX_SETTINGS: usize = 16;
/// Most object stores that borrow from one another.
const MAX_STORES: usize = 8;
/// Most packs of a store.
const MAX_PACKS: usize = 10_000;

/// Returns whether git reads only regular files when it looks up attributes and stored contents of `files`.
///
/// `root` is the work tree, `objects` are the contents' names in hexadecimal. What is not understood counts as no.
/// Blocks.
pub fn reads_only_regular_files<'a>(
    root: &Path,
    files: impl IntoIterator<Item = &'a Path>,
    objects: impl IntoIterator<Item = &'a str>,
) -> bool {
    check_repository_files(root, files, objects).is_some()
}

fn check_repository_files<'a>(
    root: &Path,
    files: impl IntoIterator<Item = &'a Path>,
    objects: impl IntoIterator<Item = &'a str>,
) -> Option<()> {
    let own = find_git_folder(root)?;
    // A linked work tree shares settings and objects with the main repository.
    let common = find_common_folder(&own)?;
    for folder in [&own, &common] {
        for name in [
            "HEAD",
            "index",
            "shallow",
            "packed-refs",
            "info/attributes",
            "info/grafts",
        ] {
            is_regular(&folder.join(name))?;
        }
    }
    check_settings([
        own.join("config.worktree"),
        own.join("config"),
        common.join("config"),
    ])?;
    let mut folders: Vec<&Path> = Vec::new();
    for file in files {
        let inside = |folder: &&Path| folder.starts_with(root);
        folders.extend(file.ancestors().skip(1).take_while(inside));
    }
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        match real_path(folder) {
            // Git follows a link that a folder has become.
            Ok(real) => is_regular(&real.join(".gitattributes"))?,
            // The folder has become a file, which has no attributes.
            Err(PathError::NotAFolder(_)) => {}
            Err(_) => return None,
        }
    }
    let objects: Vec<&str> = objects.into_iter().collect();
    check_stores(common.join("objects"), &objects)
}

/// Checks config files and the files that they name.
fn check_settings(files: impl IntoIterator<Item = PathBuf>) -> Option<()> {
    let mut pending: Vec<PathBuf> = files.into_iter().collect();
    let mut visits = 0;
    while let Some(file) = pending.pop() {
        visits += 1;
        // Counts visits, so a cycle of includes ends here too.
        if visits > MAX_SETTINGS {
            return None;
        }
        let Some(text) = text(&file)? else { continue };
        for line in text.lines() {
            // Git accepts a key on the line of its section header.
            let line = line.rsplit_once(']').map_or(line, |(_, rest)| rest);
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            // A value that continues on the next line could be anything.
            if line.ends_with('\\') {
                return None;
            }
            // Only these keys name files that our commands would read.
            if !matches!(key.as_str(), "path" | "attributesfile" | "excludesfile") {
                continue;
            }
            let value = value.trim_matches('"');
            // Escapes and comments would need git's own parser.
            if value.contains(['"', '\\', '#', ';']) {
                return None;
            }
            // The home folder belongs to the user, not to the repository.
            if value.starts_with('~') || value.is_empty() {
                continue;
            }
            let named = real_path(&file.parent()?.join(value)).ok()?;
            is_regular(&named)?;
            if key == "path" {
                pending.push(named);
            }
        }
    }
    Some(())
}

/// Checks the stores that may hold the objects.
fn check_stores(store: PathBuf, objects: &[&str]) -> Option<()> {
    let mut pending = vec![store];
    let mut visits = 0;
    while let Some(store) = pending.pop() {
        visits += 1;
        if visits > MAX_STORES {
            return None;
        }
        let store = real_path(&store).ok()?;
        for id in objects {
            let (folder, name) = id.split_at_checked(2)?;
            is_regular(&store.join(folder).join(name))?;
        }
        for folder in ["pack", "info"] {
            let Ok(folder) = OpenFolder::open(&store.join(folder)) else {
                continue;
            };
            for (count, entry) in folder.read_entries().ok()?.enumerate() {
                let kind = entry.ok()?.kind;
                if count > MAX_PACKS || !matches!(kind, FileKind::Regular | FileKind::Folder) {
                    return None;
                }
            }
        }
        let Some(alternates) = text(&store.join("info/alternates"))? else {
            continue;
        };
        let lines = alternates
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        pending.extend(lines.map(|line| store.join(line)));
    }
    Some(())
}

/// Reads a bounded regular file. The inner `None` means that it does not exist.
fn text(path: &Path) -> Option<Option<String>> {
    match nofollow::read(path, MAX_FILE) {
        Ok(bytes) => Some(Some(String::from_utf8(bytes).ok()?)),
        Err(OpenError::Missing) => Some(None),
        Err(_) => None,
    }
}

/// Returns `Some` for a regular file and for a path where nothing is.
fn is_regular(path: &Path) -> Option<()> {
    match nofollow::status_of(path) {
        Ok(status) if nofollow::kind_of(&status) == FileKind::Regular => Some(()),
        Ok(_) => None,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Some(())
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in [
            "sub",
            ".git/info",
            ".git/objects/info",
            ".git/objects/pack",
            ".git/objects/01",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in [
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/config", "[core]\n\tbare = false\n[include] path = more\n"),
            (".git/more", "[core]\n\tattributesFile = \"../attributes\"\n"),
            (".gitattributes", "*.txt text\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        (dir, root)
    }

    fn is_fine(root: &Path) -> bool {
        let file = root.join("sub/file.txt");
        reads_only_regular_files(root, [file.as_path()], [ID])
    }

    #[test]
    fn git_is_not_run_where_it_would_read_an_irregular_file() {
        let (_dir, root) = repository();
        assert!(is_fine(&root));
        for name in [
            ".git/HEAD",
            ".git/config",
            ".git/index",
            ".git/info/attributes",
            ".git/commondir",
            ".git/config.worktree",
            ".git/more",
            ".git/objects/info/alternates",
            ".git/objects/pack/x.pack",
            ".git/objects/01/23456789012345678901234567890123456789",
            "attributes",
            ".gitattributes",
            "sub/.gitattributes",
        ] {
            let path = root.join(name);
            let was = fs::read(&path).ok();
            let _ = fs::remove_file(&path);
            mkfifoat(CWD, &path, Mode::RUSR).unwrap();
            assert!(!is_fine(&root), "a pipe as {name}");
            fs::remove_file(&path).unwrap();
            symlink("/dev/zero", &path).unwrap();
            assert!(!is_fine(&root), "a link as {name}");
            fs::remove_file(&path).unwrap();
            if let Some(was) = was {
                fs::write(&path, was).unwrap();
            }
            assert!(is_fine(&root), "{name}");
        }
        for settings in [
            "[include]\npath = loop\n",
            "[core]\nattributesFile = \\\n/dev/stdin\n",
            "[core]\nattributesfile = /dev/zero\n",
        ] {
            fs::write(root.join(".git/loop"), "[include]\npath = loop\n").unwrap();
            fs::write(root.join(".git/config"), settings).unwrap();
            assert!(!is_fine(&root), "{settings}");
        }
    }
}
