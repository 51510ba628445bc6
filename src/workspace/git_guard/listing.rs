//! Lists what git would run in a folder once the user trusts it: the settings that the guard replaces, and hooks.
//!
//! Starts nothing except git's own listing of settings. Bounded: a note tells what was not examined.

use std::path::{Path, PathBuf};

use super::{
    FileKind, GitGuard, GitReader, OpenFolder, Repository, find_replacement, find_work_tree, list_settings,
    nofollow, real_path, settings_state,
};
use crate::base::credential_env::is_credential;
use crate::config::{FolderItem, FolderItemKind};
use crate::workspace::process::is_always_replaced;

/// Most folders searched for repositories.
const MAX_FOLDERS: usize = 20_000;
/// Most items listed.
const MAX_ITEMS: usize = 200;
/// Most files with settings that are read of one repository, included ones too.
const MAX_SETTINGS_FILES: usize = 20;

impl GitGuard {
    /// Lists what trust in `folder` lets git run, in the repository around it and in all repositories inside.
    pub(crate) async fn list_activations(&self, git: &GitReader<'_>, folder: &Path) -> Vec<FolderItem> {
        let Ok(folder) = real_path(folder) else {
            return Vec::new();
        };
        let searched = folder.clone();
        let search = tokio::task::spawn_blocking(move || find_repositories(&searched));
        let (mut roots, is_complete) = search.await.unwrap_or_default();
        roots.extend(find_work_tree(&folder).filter(|root| *root != folder));
        let mut items = Vec::new();
        for root in roots {
            list_repository(git, &root, &folder, &mut items).await;
            if items.len() >= MAX_ITEMS {
                items.truncate(MAX_ITEMS - 1);
                let detail = "more is not listed, so the folder cannot be trusted here";
                items.push(FolderItem::new_omission(FolderItemKind::GitSetting, detail));
                return items;
            }
        }
        if !is_complete {
            items.push(build_item(
                "…",
                "not all folders were searched for repositories",
                None,
            ));
        }
        items
    }
}

/// Returns the folders with a repository at or below `folder`, sorted, and whether all folders were searched.
fn find_repositories(folder: &Path) -> (Vec<PathBuf>, bool) {
    let mut pending = vec![folder.to_path_buf()];
    let mut found = Vec::new();
    let mut searched = 0;
    while let Some(folder) = pending.pop() {
        searched += 1;
        if searched > MAX_FOLDERS {
            return (found, false);
        }
        let Ok(entries) = OpenFolder::open(&folder).and_then(|folder| folder.read_entries()) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.name == ".git" {
                found.push(folder.clone());
            } else if entry.kind == FileKind::Folder {
                pending.push(folder.join(entry.name));
            }
        }
    }
    found.sort();
    (found, true)
}

/// Adds the items of one repository.
async fn list_repository(git: &GitReader<'_>, root: &Path, folder: &Path, items: &mut Vec<FolderItem>) {
    let shown = |path: &Path| match path.strip_prefix(folder) {
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    };
    let unknown = |path: &Path| {
        let detail = format!("cannot be examined, from {}", shown(path));
        build_item("repository", &detail, None)
    };
    let Some(repository) = Repository::open_at(root) else {
        items.push(unknown(&root.join(".git")));
        return;
    };
    let mut names_work_tree = false;
    let mut files = repository.settings.clone();
    let mut at = 0;
    while let Some(path) = files.get(at).cloned() {
        at += 1;
        let settings = match settings_state(&path) {
            Some(None) => continue,
            Some(Some(_)) => list_settings(git, &path).await,
            None => None,
        };
        let Some(settings) = settings else {
            items.push(unknown(&path));
            continue;
        };
        let of_gitmodules = path.ends_with(".gitmodules");
        for (key, value) in settings {
            names_work_tree |= key == "core.worktree" && !of_gitmodules && repository.is_work_tree(&value);
            let is_activated = match find_replacement(&key, of_gitmodules) {
                Some(None) if key == "core.worktree" => !repository.is_work_tree(&value),
                // Only trust lets git fetch the missing objects of a partial clone.
                Some(None) => key == "extensions.partialclone" || key.ends_with(".promisor"),
                Some(Some(_)) | None => !is_always_replaced(&key),
            };
            if is_activated {
                let mut detail = format!("from {}", shown(&path));
                if let Some(included) = find_included(&key, &value, &path) {
                    detail.insert_str(0, "includes a file whose settings count too, ");
                    if files.len() < MAX_SETTINGS_FILES && !files.contains(&included) {
                        files.push(included);
                    }
                }
                let command = (!is_secret(&key, &value)).then_some(value);
                items.push(build_item(&key, &detail, command));
            }
        }
    }
    if !names_work_tree && !repository.belongs_to_work_tree() {
        items.push(unknown(&repository.dot_git));
    }
    let hooks = repository.common.join("hooks");
    for name in list_hooks(&hooks) {
        let detail = format!("from {}", shown(&hooks));
        items.push(build_item(&format!("hooks/{name}"), &detail, None));
    }
}

/// Lists the names of the hooks in a folder.
fn list_hooks(hooks: &Path) -> Vec<String> {
    let mut names: Vec<String> = OpenFolder::open(hooks)
        .and_then(|hooks| hooks.read_entries())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .filter(|name| !name.ends_with(".sample"))
        .collect();
    // A link leads to hooks that cannot be listed here.
    if nofollow::kind(hooks) == Some(FileKind::Link) {
        names.push(String::new());
    }
    names.sort();
    names
}

/// Returns the file that a setting of the file at `path` includes, if it includes one.
fn find_included(key: &str, value: &str, path: &Path) -> Option<PathBuf> {
    let (section, _) = key.split_once('.')?;
    let includes = matches!(section, "include" | "includeif") && key.ends_with(".path");
    // Git follows the link of a settings file first.
    let real = includes.then(|| real_path(path).ok())??;
    real_path(&real.parent()?.join(value)).ok()
}

/// Returns whether the value of a setting is a secret, which is not shown.
///
/// Only the last part of a key says what the value is: `helper` in `credential.helper`. With the other parts, or with
/// the name of an alias, a repository could hide a command.
fn is_secret(key: &str, value: &str) -> bool {
    let name = match key.split_once('.') {
        Some(("alias", _)) => "alias",
        _ => key.rsplit('.').next().unwrap_or(key),
    };
    is_credential(name, value)
}

fn build_item(name: &str, detail: &str, command: Option<String>) -> FolderItem {
    FolderItem::new(FolderItemKind::GitSetting, name, detail, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_listed_without_their_value() {
        for (key, value, is_hidden) in [
            ("credential.helper", "!evil", false),
            ("credential.https://auth.example.helper", "!evil", false),
            ("filter.secret.clean", "evil", false),
            ("alias.token", "!evil", false),
            ("http.proxy", "http://proxy.example:3128", false),
            ("http.proxy", "http://user:password@proxy.example", true),
            ("github.token", "abc", true),
            ("sendemail.smtppassword", "abc", true),
        ] {
            assert_eq!(is_secret(key, value), is_hidden, "{key} = {value}");
        }
    }
}
