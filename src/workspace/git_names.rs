//! Finds the files and folders that git's settings name and that make git run programs, such as `core.hooksPath`.
//!
//! Reads the settings of the user and of the repository as git does. Must not decide how the paths are protected.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::command_sandbox::read_path_variable;
use super::git_guard::{SizeAndTime, find_work_tree, read_file_state, read_git};
use super::git_reader::GitReader;
use super::process::git_command;
use crate::base::lexical_path::normalize_path;
use crate::base::spawn::run_blocking;

/// Longest listing of settings that is read, in bytes.
const MAX_LISTING: usize = 1 << 20;
/// Values that switch a setting on or off, and name no path.
const NO_PATHS: [&str; 8] = ["", "true", "false", "yes", "no", "on", "off", "1"];

/// Remembers the paths by workspace folder, while the files of settings stay the same.
#[derive(Debug, Default)]
pub(super) struct GitNames {
    known: Mutex<HashMap<PathBuf, KnownNames>>,
}

#[derive(Clone, Debug)]
struct KnownNames {
    named: Vec<PathBuf>,
    settings: Vec<(PathBuf, Option<SizeAndTime>)>,
}

impl GitNames {
    /// Lists the paths, some of which may be missing.
    pub(super) async fn list(&self, git: &GitReader<'_>, folder: &Path) -> Vec<PathBuf> {
        let known = self.lock().get(folder).cloned();
        let (at, home) = (folder.to_owned(), git.home.clone());
        let checked = run_blocking(move || match known {
            Some(known) if known.is_current() => Ok(known.named),
            _ => Err(find_work_tree(&at).map(|root| {
                let files = list_settings_files(&root, home.as_deref(), read_path_variable);
                (files, root)
            })),
        });
        let (files, root) = match checked.await {
            Ok(Ok(named)) => return named,
            // Without a repository, git runs nothing here.
            Ok(Err(None)) | Err(_) => return Vec::new(),
            Ok(Err(Some(found))) => found,
        };
        let command = git_command(["config", "--list", "-z", "--show-origin", "--includes"]);
        let listed = read_git(git, &root, command.current_dir(&root), MAX_LISTING).await;
        let Some(listed) = listed else {
            tracing::warn!(folder = %root.display(), "git does not list its settings");
            return self
                .lock()
                .get(folder)
                .map_or_else(Vec::new, |known| known.named.clone());
        };
        let home = git.home.clone();
        let found = run_blocking(move || KnownNames::parse(&listed, &root, home.as_deref(), files));
        let Ok(found) = found.await else { return Vec::new() };
        let named = found.named.clone();
        self.lock().insert(folder.to_owned(), found);
        named
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, KnownNames>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownNames {
    /// Parses pairs of an origin, and of a key and its value in two lines.
    fn parse(listed: &[u8], root: &Path, home: Option<&Path>, mut files: Vec<PathBuf>) -> Self {
        let mut named = Vec::new();
        let mut fields = listed.split(|byte| *byte == 0);
        while let (Some(origin), Some(setting)) = (fields.next(), fields.next()) {
            // Our own settings have no file.
            let Some(origin) = origin.strip_prefix(b"file:").map(|path| root.join(to_path(path))) else {
                continue;
            };
            let mut parts = setting.splitn(2, |byte| *byte == b'\n');
            let key = parts.next().unwrap_or_default().to_ascii_lowercase();
            let value = parts.next().unwrap_or_default();
            let base = match &*key {
                b"core.hookspath" | b"core.fsmonitor" | b"core.attributesfile" => Some(root),
                key if key.starts_with(b"include") && key.ends_with(b".path") => origin.parent(),
                _ => None,
            };
            let is_path = !NO_PATHS
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
            if let Some(base) = base.filter(|_| is_path) {
                // This one is a command line.
                let value = match &*key {
                    b"core.fsmonitor" => value.split(u8::is_ascii_whitespace).next().unwrap_or_default(),
                    _ => value,
                };
                let value = to_path(value);
                let path = match (value.strip_prefix("~"), home) {
                    (Ok(rest), Some(home)) => home.join(rest),
                    _ => base.join(value),
                };
                named.push(normalize_path(&path));
            }
            files.push(origin);
        }
        // An included file may be missing, and appear later.
        files.extend(named.iter().cloned());
        files.sort();
        files.dedup();
        Self {
            named,
            settings: files
                .into_iter()
                .map(|path| (path.clone(), read_file_state(&path)))
                .collect(),
        }
    }

    fn is_current(&self) -> bool {
        self.settings
            .iter()
            .all(|(path, before)| read_file_state(path) == *before)
    }
}

/// Lists the files that git reads settings from, whether they exist or not.
fn list_settings_files(
    root: &Path,
    home: Option<&Path>,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let own = home
        .into_iter()
        .flat_map(|home| [".gitconfig", ".config/git/config"].map(|name| home.join(name)));
    let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].map(&variable);
    let moved = variable("XDG_CONFIG_HOME").map(|folder| folder.join("git/config"));
    let repository = [".git", ".git/config", ".git/config.worktree", "/etc/gitconfig"].map(PathBuf::from);
    let files = own
        .chain(named.into_iter().flatten())
        .chain(moved)
        .chain(repository);
    // Git reads what is relative from there.
    files.map(|file| root.join(file)).collect()
}

fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_variables_name_are_watched_too() {
        let variable = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(PathBuf::from("/xdg")),
            "GIT_CONFIG_GLOBAL" => Some(PathBuf::from("own")),
            _ => None,
        };
        let files = list_settings_files(Path::new("/ws"), Some(Path::new("/home/u")), variable);
        for file in [
            "/xdg/git/config",
            "/ws/own",
            "/home/u/.gitconfig",
            "/ws/.git/config",
            "/etc/gitconfig",
        ] {
            assert!(files.contains(&PathBuf::from(file)), "{file}: {files:?}");
        }
    }

    #[test]
    fn paths_are_read_as_git_reads_them() {
        let listed =
            b"file:/home/u/.gitconfig\0core.hookspath\nhooks\0file:.git/config\0include.path\n../own\0\
            file:.git/config\0includeif.onbranch:x.path\n~/x\0file:.git/config\0core.fsmonitor\ntrue\0file:.git/config\0core.fsmonitor\ntools/fs --x\0\
            command line:\0core.hookspath\n/dev/null\0file:.git/config\0core.bare\0";
        let found = KnownNames::parse(listed, Path::new("/ws"), Some(Path::new("/home/u")), Vec::new());
        let expected = ["/ws/hooks", "/ws/own", "/home/u/x", "/ws/tools/fs"].map(PathBuf::from);
        assert_eq!(found.named, expected);
    }
}
