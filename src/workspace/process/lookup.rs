//! Where programs are: in absolute entries of PATH only, so that no folder that a command runs in decides which program
//! a name means. What we start by ourselves (bash, git) comes from no workspace folder either.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// What the system looks through without a PATH.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";
/// Folders of the system; they count as outside of any workspace, also of one that is `/`.
const OF_THE_SYSTEM: [&str; 7] = [
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/sbin",
    "/usr/sbin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
];

/// A PATH without its relative and empty entries, both of which mean the folder that a command runs in.
pub(super) fn absolute_entries(path: Option<&OsStr>) -> OsString {
    let entries = path.map(std::env::split_paths).into_iter().flatten();
    match std::env::join_paths(entries.filter(|entry| entry.is_absolute())) {
        Ok(path) if !path.is_empty() => path,
        Ok(_) | Err(_) => USUAL.into(),
    }
}

/// The program of that name in `path`, as [`absolute_entries`] gives it, unless it lies in one of `folders`.
pub(super) fn find_outside(name: &OsStr, path: &OsStr, folders: &[PathBuf]) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|entry| is_outside(entry, folders))
        .map(|entry| entry.join(name))
        .find(|program| {
            access(program, Access::EXEC_OK).is_ok()
                && program.is_file()
                && program
                    .canonicalize()
                    .is_ok_and(|real| real.parent().is_some_and(|folder| is_outside(folder, folders)))
        })
}

/// Where a program that we start ourselves is, by this PATH, in a workspace of `folders`.
pub fn find_own_program(name: &str, path: Option<&OsStr>, folders: &[PathBuf]) -> Option<PathBuf> {
    find_outside(OsStr::new(name), &absolute_entries(path), folders)
}

fn is_outside(folder: &Path, folders: &[PathBuf]) -> bool {
    OF_THE_SYSTEM.iter().any(|system| folder == Path::new(system))
        || !folders.iter().any(|inside| folder.starts_with(inside))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_absolute_entries_stay() {
        for (given, want) in [
            (Some("/usr/bin:node_modules/.bin:/bin"), "/usr/bin:/bin"),
            (Some(":/bin:"), "/bin"),
            (Some("./bin::."), USUAL),
            (Some(""), USUAL),
            (None, USUAL),
        ] {
            assert_eq!(absolute_entries(given.map(OsStr::new)), want, "{given:?}");
        }
    }

    #[test]
    fn finds_programs_outside_of_folders_only() {
        let dir = tempfile::TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["ws/bin", "tools", "links"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        for (name, mode) in [("ws/bin/git", 0o755), ("tools/git", 0o755), ("tools/data", 0o644)] {
            let path = base.join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        symlink(base.join("ws/bin/git"), base.join("links/git")).unwrap();
        let find = |name: &str, entries: &[&str]| {
            let path = std::env::join_paths(entries.iter().map(|entry| base.join(entry))).unwrap();
            find_outside(OsStr::new(name), &path, &[base.join("ws")])
        };
        assert_eq!(
            find("git", &["ws/bin", "links", "tools"]),
            Some(base.join("tools/git"))
        );
        assert_eq!(find("git", &["ws/bin", "links"]), None);
        // A folder is no program, and neither is a file that is not executable.
        assert_eq!(find("bin", &["ws", "."]), None);
        assert_eq!(find("data", &["tools"]), None);
        // A workspace that holds the whole system does not hide the system's own programs.
        assert!(find_outside(OsStr::new("sh"), OsStr::new("/usr/bin:/bin"), &["/".into()]).is_some());
    }
}
