//! Finds programs, in absolute entries of PATH only: no folder that a command runs in decides what a name means.
//!
//! Programs that we choose ourselves (bash, git) never come from a workspace folder. Must not start anything.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::base::nofollow;

/// The system's default without a PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// System folders, which count as outside of any workspace, even one that is `/`.
const SYSTEM_FOLDERS: [&str; 7] = [
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/sbin",
    "/usr/sbin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
];

/// Returns a PATH without relative and empty entries, both of which mean the folder that a command runs in.
pub(super) fn absolute_entries(path: Option<&OsStr>) -> OsString {
    let entries = path.map(std::env::split_paths).into_iter().flatten();
    match std::env::join_paths(entries.filter(|entry| entry.is_absolute())) {
        Ok(path) if !path.is_empty() => path,
        Ok(_) | Err(_) => DEFAULT_PATH.into(),
    }
}

/// Variables that may name a workspace folder and decide nothing: where a program is, where it may leave files, and whose
/// it is. PATH is treated by itself.
const HARMLESS_VARIABLES: [&str; 5] = ["HOME", "OLDPWD", "PATH", "PWD", "TMPDIR"];

/// Variables by which a shell runs a file before its script.
const SHELL_STARTERS: [&str; 2] = ["BASH_ENV", "ENV"];

/// Returns those of the variables that may let a shell run a file in one of `folders`, or what the value computes. Only a
/// file of the user's own elsewhere counts.
pub(super) fn list_shell_starters(
    folders: &BTreeSet<PathBuf>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<OsString> {
    let is_own_file = |value: &OsStr| {
        let path = Path::new(value);
        let is_computed = value.as_encoded_bytes().iter().any(|byte| b"$`".contains(byte));
        path.is_absolute() && !is_computed && comes_from_outside(path, folders)
    };
    variables
        .filter(|(name, value)| SHELL_STARTERS.iter().any(|starter| *starter == name) && !is_own_file(value))
        .map(|(name, _)| name)
        .collect()
}

/// Returns a PATH without the entries that are inside one of `folders`, by name or through a link.
pub(super) fn entries_outside(path: &OsStr, folders: &BTreeSet<PathBuf>) -> OsString {
    let entries = std::env::split_paths(path).filter(|entry| {
        is_outside(entry, folders)
            && entry
                .canonicalize()
                .map_or(true, |real| is_outside(&real, folders))
    });
    match std::env::join_paths(entries) {
        Ok(path) if !path.is_empty() => path,
        Ok(_) | Err(_) => DEFAULT_PATH.into(),
    }
}

/// Returns the variables, except PATH, by which one of `folders` might decide what runs: nobody knows what programs make of
/// a path.
pub(super) fn list_code_variables(
    folders: &BTreeSet<PathBuf>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<OsString> {
    let names_folder = |text: &str| {
        // `--require=/ws/x`, and lists of paths.
        let mut parts = text.split([':', '=', ' ', ',', '"', '\'']);
        parts.any(|part| {
            let path = Path::new(part);
            path.is_absolute() && {
                let real = path.canonicalize();
                !is_outside(path, folders) || real.is_ok_and(|real| !is_outside(&real, folders))
            }
        })
    };
    variables
        .filter(|(name, value)| {
            let is_harmless = HARMLESS_VARIABLES.iter().any(|harmless| *harmless == name);
            !is_harmless && names_folder(&value.to_string_lossy())
        })
        .map(|(name, _)| name)
        .collect()
}

/// Returns the program of that name in `path` (see [`absolute_entries`]), unless it is inside one of `folders`.
pub(super) fn find_outside(name: &OsStr, path: &OsStr, folders: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    find_programs(name, path).find(|program| comes_from_outside(program, folders))
}

/// Returns the first program of that name in `path`, if it is inside one of `folders`.
pub(super) fn find_inside(name: &OsStr, path: &OsStr, folders: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let first = find_programs(name, path).next();
    first.filter(|program| !comes_from_outside(program, folders))
}

fn find_programs(name: &OsStr, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let programs = std::env::split_paths(path).map(move |entry| entry.join(name));
    programs.filter(|program| access(program, Access::EXEC_OK).is_ok() && program.is_file())
}

/// Returns whether neither the program nor what a link there leads to is inside one of `folders`.
fn comes_from_outside(program: &Path, folders: &BTreeSet<PathBuf>) -> bool {
    let has_folder_outside = |path: &Path| path.parent().is_some_and(|folder| is_outside(folder, folders));
    has_folder_outside(program) && program.canonicalize().is_ok_and(|real| has_folder_outside(&real))
}

/// Returns the path of a program that we choose ourselves, by this PATH, in a workspace of `folder`.
pub fn find_own_program(name: &str, path: Option<&OsStr>, folder: Option<&Path>) -> Option<PathBuf> {
    let folders = folder.map(Path::to_path_buf).into_iter().collect();
    find_outside(OsStr::new(name), &absolute_entries(path), &folders)
}

/// Returns the folders that provide no programs of ours to a session in `folder`: itself and the repositories around it.
/// None of them contains the home folder, which has programs of the user's own. Reads the disk.
pub fn list_folders_without_programs(folder: &Path, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (folder, home) = (resolve(folder), home.map(resolve));
    let below_home = folder
        .ancestors()
        .take_while(|around| !home.as_ref().is_some_and(|home| home.starts_with(around)));
    let is_workspace = |around: &&Path| *around == folder || nofollow::kind(&around.join(".git")).is_some();
    below_home.filter(is_workspace).map(Path::to_path_buf).collect()
}

/// Returns `path` without a workspace of `folder`, and the other variables by which it might decide what runs.
pub fn look_up_outside(
    folder: &Path,
    home: Option<&Path>,
    path: Option<&OsStr>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (OsString, Vec<OsString>) {
    let folders = list_folders_without_programs(folder, home);
    let path = entries_outside(&absolute_entries(path), &folders);
    (path, list_code_variables(&folders, variables))
}

fn is_outside(folder: &Path, folders: &BTreeSet<PathBuf>) -> bool {
    SYSTEM_FOLDERS.iter().any(|system| folder == Path::new(system))
        || !folders.iter().any(|inside| folder.starts_with(inside))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_absolute_entries_are_kept() {
        for (given, want) in [
            (Some("/usr/bin:node_modules/.bin:/bin"), "/usr/bin:/bin"),
            (Some(":/bin:"), "/bin"),
            (Some("./bin::."), DEFAULT_PATH),
            (Some(""), DEFAULT_PATH),
            (None, DEFAULT_PATH),
        ] {
            assert_eq!(absolute_entries(given.map(OsStr::new)), want, "{given:?}");
        }
    }

    #[test]
    fn a_workspace_decides_nothing_by_path_or_other_variables() {
        let dir = tempfile::TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["ws/node_modules/.bin", "tools"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        symlink(base.join("ws/node_modules/.bin"), base.join("link")).unwrap();
        let folders = BTreeSet::from([base.join("ws")]);
        let join =
            |entries: &[&str]| std::env::join_paths(entries.iter().map(|entry| base.join(entry))).unwrap();
        let path = join(&["ws/node_modules/.bin", "tools", "link", "ws/missing", "missing"]);
        assert_eq!(entries_outside(&path, &folders), join(&["tools", "missing"]));
        assert_eq!(entries_outside(&join(&["ws"]), &folders), DEFAULT_PATH);

        let inside = base.join("ws/x").display().to_string();
        let variables = [
            ("PYTHONPATH", format!("/usr/lib:{inside}")),
            ("NODE_OPTIONS", format!("--require={inside}/a.js")),
            ("RUBYLIB", base.join("tools").display().to_string()),
            ("npm_config_userconfig", format!("{inside}/.npmrc")),
            ("PWD", inside.clone()),
            ("LD_PRELOAD", base.join("link/a.so").display().to_string()),
            ("HOME", inside),
        ];
        std::fs::write(base.join("ws/node_modules/.bin/a.so"), "").unwrap();
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        let found = list_code_variables(&folders, variables);
        assert_eq!(
            found,
            [
                "PYTHONPATH",
                "NODE_OPTIONS",
                "npm_config_userconfig",
                "LD_PRELOAD"
            ]
        );
    }

    #[test]
    fn a_shell_starts_with_no_file_of_a_workspace() {
        let dir = tempfile::TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("ws")).unwrap();
        for name in ["ws/start.sh", "own.sh"] {
            std::fs::write(base.join(name), "").unwrap();
        }
        symlink(base.join("ws/start.sh"), base.join("link.sh")).unwrap();
        let folders = BTreeSet::from([base.join("ws")]);
        let is_listed = |name: &str, value: &str| {
            let value = value.replace("BASE", &base.display().to_string());
            !list_shell_starters(&folders, std::iter::once((name.into(), value.into()))).is_empty()
        };
        for (name, value, expected) in [
            ("BASH_ENV", "BASE/ws/start.sh", true),
            ("ENV", "BASE/ws/start.sh", true),
            ("BASH_ENV", "BASE/link.sh", true),
            ("BASH_ENV", "BASE/ws/missing", true),
            ("BASH_ENV", "start.sh", true),
            ("BASH_ENV", "$PWD/start.sh", true),
            ("BASH_ENV", "/`cat start`", true),
            ("BASH_ENV", "BASE/own.sh", false),
            ("HOME", "BASE/ws", false),
        ] {
            assert_eq!(is_listed(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn only_programs_outside_the_folders_are_found() {
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
            let folders = BTreeSet::from([base.join("ws")]);
            let inside = find_inside(OsStr::new(name), &path, &folders);
            assert_eq!(
                inside.is_some(),
                entries[0] != "tools" && name == "git",
                "{entries:?}"
            );
            find_outside(OsStr::new(name), &path, &folders)
        };
        assert_eq!(
            find("git", &["ws/bin", "links", "tools"]),
            Some(base.join("tools/git"))
        );
        assert_eq!(find("git", &["ws/bin", "links"]), None);
        assert_eq!(find("git", &["links", "tools"]), Some(base.join("tools/git")));
        assert_eq!(find("git", &["tools", "ws/bin"]), Some(base.join("tools/git")));
        // A folder is not a program, and neither is a file that is not executable.
        assert_eq!(find("bin", &["ws", "."]), None);
        assert_eq!(find("data", &["tools"]), None);
        // A workspace that contains the whole system does not hide the system's own programs.
        assert!(
            find_outside(
                OsStr::new("sh"),
                OsStr::new("/usr/bin:/bin"),
                &BTreeSet::from(["/".into()])
            )
            .is_some()
        );
    }
}
