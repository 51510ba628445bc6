//! What git may use of a repository that nobody trusts: its data, and settings that are known to be harmless (R-SEC).
//!
//! Settings of a repository can name programs: filters, diff drivers, editors, aliases. An archive brings a `.git/config`
//! along, and a clone may hold a whole repository in a folder. So for a command that names git, the settings of the
//! nearest repository and its submodules are listed by git itself, which runs nothing, and all that is not known to be harmless is replaced.
//! git refuses every other repository, whose settings nobody has looked at. Knows no approvals; who is trusted is said.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::process::{Command, Launcher, git_command};
use super::resolve::real_path;
use crate::base::nofollow::{self, FileKind, OpenError, RegularFile};

/// A larger file of settings is not read, nor what a listing of it has beyond this, in bytes.
const MAX_CONFIG: usize = 1 << 20;
/// How long git may take to list settings.
const LISTING: Duration = Duration::from_secs(5);
/// How many repositories may be looked at, submodules included.
const MAX_REPOSITORIES: usize = 200;
/// The largest listing of an index that is read, in bytes.
const MAX_INDEX: usize = 32 << 20;

/// Sections whose settings run nothing, whatever they are.
const SECTIONS: [&str; 10] = [
    "advice",
    "author",
    "color",
    "column",
    "committer",
    "extensions",
    "http",
    "index",
    "pack",
    "user",
];
/// Settings that run nothing, by section and name; whatever stands between them.
const SETTINGS: [(&str, &[&str]); 15] = [
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "preloadindex",
            "protecthfs",
            "protectntfs",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "branch",
        &[
            "description",
            "github-pr-owner-number",
            "merge",
            "pushremote",
            "rebase",
            "remote",
            "sort",
            "vscode-merge-base",
        ],
    ),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "context",
            "mnemonicprefix",
            "noprefix",
            "renamelimit",
            "renames",
        ],
    ),
    (
        "fetch",
        &["fsckobjects", "prune", "prunetags", "writecommitgraph"],
    ),
    ("init", &["defaultbranch"]),
    (
        "lfs",
        &["access", "locksverify", "repositoryformatversion", "url"],
    ),
    ("log", &["date", "decorate", "follow"]),
    ("merge", &["conflictstyle", "ff", "renamelimit", "renames"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("rebase", &["autosquash", "autostash", "updaterefs"]),
    (
        "remote",
        &[
            "fetch",
            "gh-resolved",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "push",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("status", &["branch", "short", "showuntrackedfiles"]),
    ("submodule", &["active", "branch", "url"]),
    ("tag", &["sort"]),
];

/// Instead of an external diff: the plain one.
const PLAIN_DIFF: &str = "f() { diff -u -- \"$2\" \"$5\"; :; }; f";

/// Settings for git, which win over those of the repository.
type Overrides = Arc<[(String, String)]>;

/// What was found of repositories, as long as their settings stay the same.
#[derive(Debug, Default)]
pub(super) struct GitGuard {
    known: Mutex<Known>,
}

/// The overrides of a work tree, and the files that they were made from.
type Known = HashMap<PathBuf, (Vec<(PathBuf, FileState)>, Overrides)>;

/// By which a change of a file is noticed; none where there is none.
type FileState = Option<(u64, SystemTime)>;

/// A repository and the files that decide what git runs there.
struct Repository {
    /// The work tree.
    root: PathBuf,
    /// Its `.git`, a folder or a file.
    dot_git: PathBuf,
    settings: Vec<PathBuf>,
    index: PathBuf,
}

impl GitGuard {
    /// The command with settings that keep the repository around `cwd` from running anything.
    pub(super) async fn guard_command(&self, launcher: &Launcher, cwd: &Path, command: Command) -> Command {
        if !command.names_git() {
            return command;
        }
        let mut settings = vec![
            // Only those that follow count.
            ("safe.directory".to_owned(), String::new()),
            ("core.hooksPath".to_owned(), "/dev/null".to_owned()),
            ("diff.ignoreSubmodules".to_owned(), "all".to_owned()),
        ];
        let mut allow = |folder: &Path| {
            settings.push(("safe.directory".to_owned(), folder.display().to_string()));
        };
        match Repository::find_enclosing(cwd) {
            Some(repository) => {
                if let Some(overrides) = self.load_overrides(launcher, &repository).await {
                    allow(&repository.root);
                    allow(&repository.dot_git);
                    settings.extend(overrides.iter().cloned());
                }
            }
            // The command makes the repository itself, and goes on to work in it.
            None if command.has_argument_containing("git init") => {
                let root = real_path(cwd).unwrap_or_else(|_| cwd.to_owned());
                allow(&root);
                allow(&root.join(".git"));
            }
            None => {}
        }
        command
            .git_settings(settings)
            // As if the folders were another user's: then git takes those that are named, and no other.
            .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    }

    /// None where the settings cannot be known, so that git must not run there.
    async fn load_overrides(&self, launcher: &Launcher, repository: &Repository) -> Option<Overrides> {
        let root = repository.root.clone();
        let known = self.lock().get(&root).cloned();
        if let Some((states, overrides)) = known
            && states
                .iter()
                .all(|(path, before)| read_file_state(path).as_ref() == Some(before))
        {
            return Some(overrides);
        }
        let (mut states, mut overrides) = (Vec::new(), Vec::new());
        let mut open = vec![Repository::open_at(&root)?];
        let mut looked_at = 0;
        while let Some(repository) = open.pop() {
            looked_at += 1;
            if looked_at > MAX_REPOSITORIES {
                return None;
            }
            for path in &repository.settings {
                let found = settings_state(path)?;
                for key in if found.is_some() {
                    list_setting_names(launcher, path).await?
                } else {
                    Vec::new()
                } {
                    if key == "core.worktree" && repository.is_main(path) {
                        return None;
                    }
                    overrides.extend(find_replacement(&key, path.ends_with(".gitmodules"))?);
                }
                states.push((path.clone(), found));
            }
            let index = repository.index.clone();
            states.push((index.clone(), read_file_state(&index)?));
            for folder in list_submodules(launcher, &repository.root).await? {
                // One that is not there is not looked into by git either.
                if nofollow::kind(&folder.join(".git")).is_some() {
                    open.push(Repository::open_at(&folder)?);
                }
            }
        }
        let overrides: Overrides = overrides.into();
        self.lock().insert(root, (states, overrides.clone()));
        Some(overrides)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Repository {
    /// The nearest one, as git finds it.
    fn find_enclosing(cwd: &Path) -> Option<Self> {
        let cwd = real_path(cwd).ok()?;
        let mut folders = cwd.ancestors();
        folders
            .find(|folder| nofollow::kind(&folder.join(".git")).is_some())
            .and_then(Self::open_at)
    }

    /// The one whose work tree is this folder.
    fn open_at(root: &Path) -> Option<Self> {
        let dot_git = root.join(".git");
        let folder = match nofollow::kind(&dot_git) {
            Some(FileKind::Folder) => dot_git.clone(),
            _ => real_path(&root.join(pointed_at(&dot_git, "gitdir: ")?)).ok()?,
        };
        let common = match folder.join("commondir") {
            file if nofollow::kind(&file).is_some() => folder.join(pointed_at(&file, "")?),
            _ => folder.clone(),
        };
        Some(Self {
            root: root.to_path_buf(),
            dot_git,
            settings: vec![
                common.join("config"),
                folder.join("config.worktree"),
                root.join(".gitmodules"),
            ],
            index: folder.join("index"),
        })
    }

    /// Whether these are the settings of a repository whose work tree is around its `.git`, and may be nowhere else.
    fn is_main(&self, file: &Path) -> bool {
        file.parent() == Some(self.dot_git.as_path())
    }
}

/// The folders that the index has as repositories of their own. Commands such as `git diff-files` look into them, by
/// their own settings.
async fn list_submodules(launcher: &Launcher, root: &Path) -> Option<Vec<PathBuf>> {
    let command = git_command(["ls-files", "--stage", "-z"]).current_dir(root);
    let listed = collect_git_output(launcher, command, MAX_INDEX).await?;
    let mut found = Vec::new();
    for entry in listed.split(|byte| *byte == 0) {
        if entry.starts_with(b"160000 ") {
            let at = memchr::memchr(b'\t', entry)? + 1;
            found.push(root.join(std::ffi::OsStr::from_bytes(&entry[at..])));
        }
    }
    Some(found)
}

/// What a command of git that runs nothing has to say.
async fn collect_git_output(launcher: &Launcher, command: Command, most: usize) -> Option<Vec<u8>> {
    let listed = async { Some(launcher.spawn(command).await.ok()?.collect_output(most).await) };
    let listed = tokio::time::timeout(LISTING, listed).await.ok()??;
    (listed.status.success() && !listed.cut).then_some(listed.stdout)
}

/// The path in a small regular file of git.
fn pointed_at(file: &Path, before: &str) -> Option<PathBuf> {
    let text = String::from_utf8(nofollow::read(&real_path(file).ok()?, 4096).ok()?).ok()?;
    Some(PathBuf::from(text.strip_prefix(before)?.trim_end()))
}

/// None for what is neither missing nor a regular file of a usual size: reading a pipe would never end.
fn read_file_state(path: &Path) -> Option<FileState> {
    state_up_to(path, u64::MAX)
}

fn settings_state(path: &Path) -> Option<FileState> {
    state_up_to(path, MAX_CONFIG as u64)
}

fn state_up_to(path: &Path, most: u64) -> Option<FileState> {
    // Git follows links here, so the file that they lead to counts.
    let Ok(real) = real_path(path) else {
        return None;
    };
    match RegularFile::open(&real) {
        Ok(file) if file.metadata().len() <= most => {
            Some(Some((file.metadata().len(), file.metadata().modified().ok()?)))
        }
        Err(OpenError::Missing) => Some(None),
        Ok(_) | Err(_) => None,
    }
}

/// The names of all settings of a file. Other files that it includes are not read.
async fn list_setting_names(launcher: &Launcher, file: &Path) -> Option<Vec<String>> {
    let command = git_command([
        "config",
        "--file",
        file.to_str()?,
        "--list",
        "-z",
        "--no-includes",
    ]);
    let text = String::from_utf8(collect_git_output(launcher, command, MAX_CONFIG).await?).ok()?;
    let keys = text.split_terminator('\0');
    Some(
        keys.map(|entry| entry.split('\n').next().unwrap_or_default().to_owned())
            .collect(),
    )
}

/// What a setting is replaced by, if it has to be; none where nothing can replace it. Keys come as git writes them:
/// section and name in lower case.
fn find_replacement(key: &str, of_gitmodules: bool) -> Option<Option<(String, String)>> {
    let (section, rest) = key.split_once('.')?;
    let name = rest.rsplit('.').next().unwrap_or(rest);
    let with = |value: &str| Some(Some((key.to_owned(), value.to_owned())));
    if section == "submodule" && name == "ignore" {
        // Else git looks into it, by its own settings.
        return with("all");
    }
    // git itself takes nothing else from that file that could run a program.
    if of_gitmodules {
        return Some(None);
    }
    let harmless = SECTIONS.contains(&section)
        || SETTINGS
            .iter()
            .any(|(known, names)| *known == section && names.contains(&name));
    match (section, name) {
        _ if harmless => Some(None),
        // What is included may change with the branch.
        ("include" | "includeif", _) => None,
        // It cannot be replaced; that of a submodule says where the submodule is.
        ("core", "worktree") => Some(None),
        ("diff", "textconv") => with("cat"),
        ("diff", "command" | "external") => with(PLAIN_DIFF),
        ("protocol", "allow") => with("never"),
        ("core", "fsmonitor") => with("false"),
        _ => with(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_harmless_stays() {
        for key in [
            "core.repositoryformatversion",
            "core.bare",
            "user.email",
            "remote.origin.url",
            "remote.a.b.fetch",
            "branch.feature.x.merge",
            "submodule.lib.url",
            "extensions.worktreeconfig",
            "pull.rebase",
        ] {
            assert_eq!(find_replacement(key, false), Some(None), "{key}");
        }
        for (key, value) in [
            ("filter.x.clean", ""),
            ("filter.a.b.process", ""),
            ("filter.x.required", ""),
            ("diff.x.textconv", "cat"),
            ("diff.external", PLAIN_DIFF),
            ("diff.x.command", PLAIN_DIFF),
            ("core.editor", ""),
            ("core.sshcommand", ""),
            ("core.hookspath", ""),
            ("core.fsmonitor", "false"),
            ("alias.statusx", ""),
            ("credential.https://x.helper", ""),
            ("gpg.ssh.program", ""),
            ("remote.origin.uploadpack", ""),
            ("submodule.lib.update", ""),
            ("submodule.lib.ignore", "all"),
            ("protocol.ext.allow", "never"),
            ("whatever.comes.next", ""),
        ] {
            let want = Some(Some((key.to_owned(), value.to_owned())));
            assert_eq!(find_replacement(key, false), want, "{key}");
        }
        for key in ["include.path", "includeif.onbranch:x.path", "nodot"] {
            assert_eq!(find_replacement(key, false), None, "{key}");
        }
        assert_eq!(find_replacement("submodule.lib.update", true), Some(None));
        assert_eq!(
            find_replacement("submodule.lib.ignore", true),
            Some(Some(("submodule.lib.ignore".to_owned(), "all".to_owned())))
        );
    }
}
