//! Limits what git uses of an untrusted repository to its data and to settings known to be harmless (R-SEC).
//!
//! Settings of a repository can name programs: filters, diff drivers, editors, aliases. An archive may bring a
//! `.git/config` along, and a clone may contain a whole repository in a folder. So for a command that names git, git
//! itself lists the settings of the nearest repository and its submodules, which runs nothing.
//! Every setting that is not known to be harmless is replaced. Git refuses all other repositories, whose settings were
//! not examined. Must not know approvals; the caller knows which folders are trusted.

mod listing;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::git_reader::GitReader;
use super::process::unattended::{CORE_EDITOR, SEQUENCE_EDITOR};
use super::process::{Command, git_command};
use super::real_path::real_path;
use crate::base::clock;
use crate::base::nofollow::{self, FileKind, OpenError, OpenFolder, RegularFile};

/// Largest config file that is read, and longest listing of one, in bytes.
const MAX_CONFIG: usize = 1 << 20;
/// Time limit for git to list settings.
const LISTING: Duration = Duration::from_secs(5);
/// Most repositories examined, submodules included.
const MAX_REPOSITORIES: usize = 200;
/// Folders of a repository whose files git never shows, by name. They may be large, as may those of loose objects,
/// whose names have two letters. The repositories in `modules` are examined separately.
const UNREAD_FOLDERS: [&str; 7] = ["annex", "lfs", "logs", "modules", "pack", "refs", "rr-cache"];
/// Most entries examined in one repository.
const MAX_ENTRIES: usize = 10_000;
/// Longest listing of an index that is read, in bytes.
const MAX_INDEX: usize = 32 << 20;

/// Sections whose settings never run anything.
#[rustfmt::skip]
const SECTIONS: [&str; 10] = [
    "advice", "author", "color", "column", "committer", "extensions", "http", "index", "pack", "user",
];
/// Settings that never run anything: sections and the names of their settings, whatever subsection is between them.
const SETTINGS: [(&str, &str); 19] = [
    (
        "core",
        "abbrev autocrlf bare bigfilethreshold checkstat commentchar compression createobject \
         deltabasecachelimit disambiguate eol filemode filesreflocktimeout fsync fsyncmethod \
         ignorecase logallrefupdates longpaths loosecompression maxtreedepth packedgitlimit \
         packedgitwindowsize packedrefstimeout precomposeunicode preloadindex protecthfs \
         protectntfs quotepath repositoryformatversion safecrlf sharedrepository sparsecheckout \
         sparsecheckoutcone splitindex symlinks trustctime untrackedcache whitespace",
    ),
    (
        "blame",
        "coloring date markignoredlines markunblamablelines showemail showroot",
    ),
    (
        "branch",
        "description github-pr-owner-number merge pushremote rebase remote sort vscode-merge-base",
    ),
    ("commitgraph", "generationversion maxnewfilters readchangedpaths"),
    (
        "diff",
        "algorithm colormoved colormovedws context indentheuristic interhunkcontext mnemonicprefix \
         noprefix renamelimit renames statgraphwidth statnamewidth suppressblankempty wserrorhighlight",
    ),
    (
        "fetch",
        "fsckobjects negotiationalgorithm output prune prunetags writecommitgraph",
    ),
    ("gc", "auto"),
    (
        "grep",
        "column extendedregexp fullname linenumber patterntype threads",
    ),
    ("init", "defaultbranch"),
    ("lfs", "access locksverify repositoryformatversion url"),
    ("log", "abbrevcommit date decorate follow showroot"),
    ("merge", "conflictstyle ff renamelimit renames"),
    ("pull", "ff rebase"),
    ("push", "autosetupremote default followtags"),
    ("rebase", "autosquash autostash updaterefs"),
    (
        "remote",
        "fetch gh-resolved mirror partialclonefilter promisor prune push pushurl tagopt url",
    ),
    (
        "status",
        "branch relativepaths renamelimit renames short showuntrackedfiles",
    ),
    ("submodule", "active branch url"),
    ("tag", "sort"),
];

/// Settings of a repository that `git init` has just made.
#[rustfmt::skip]
const NEW_SETTINGS: [&str; 9] = [
    "core.bare", "core.filemode", "core.ignorecase", "core.logallrefupdates", "core.precomposeunicode",
    "core.repositoryformatversion", "core.symlinks", "extensions.objectformat", "extensions.refstorage",
];

/// Replaces an external diff by a plain one.
const PLAIN_DIFF: &str = "f() { diff -u -- \"$2\" \"$5\"; :; }; f";

/// Git settings that win over those of the repository.
type Overrides = Arc<[(String, String)]>;

/// Caches the overrides of repositories while their settings stay the same.
#[derive(Debug, Default)]
pub(super) struct GitGuard {
    known: Mutex<Known>,
}

/// By work tree: the files that the overrides were made from, and the overrides.
type Known = HashMap<PathBuf, (Vec<(PathBuf, SizeAndTime)>, Overrides)>;

/// Size and modification time, by which a change is noticed; `None` if the file does not exist.
pub(super) type SizeAndTime = Option<(u64, SystemTime)>;

/// A repository, and the files that decide what git runs in it.
struct Repository {
    root: PathBuf,
    /// The `.git` folder or file.
    dot_git: PathBuf,
    /// The folder of the repository's own files: `.git`, or where it leads.
    folder: PathBuf,
    /// The same, or for a linked work tree that of the main repository.
    common: PathBuf,
    settings: Vec<PathBuf>,
    index: PathBuf,
}

impl GitGuard {
    /// Returns the command with settings that keep the repository around `cwd` from running anything.
    pub(super) async fn guard_command(&self, git: &GitReader<'_>, cwd: &Path, command: Command) -> Command {
        if !command.names_git() {
            return command;
        }
        let mut settings = vec![
            // An empty value resets the list, so only the entries that follow count.
            ("safe.directory".to_owned(), String::new()),
            ("core.hooksPath".to_owned(), "/dev/null".to_owned()),
            ("diff.ignoreSubmodules".to_owned(), "all".to_owned()),
        ];
        let mut allow = |folder: &Path| {
            settings.push(("safe.directory".to_owned(), folder.display().to_string()));
        };
        // The command creates a repository itself and goes on to work in it.
        let cwd = real_path(cwd).unwrap_or_else(|_| cwd.to_owned());
        if command.has_argument_containing("git init") && nofollow::kind(&cwd.join(".git")).is_none() {
            allow(&cwd);
            allow(&cwd.join(".git"));
        }
        if let Some(root) = find_work_tree(&cwd)
            && let Some(repository) = Repository::open_at(&root)
            && let Some(overrides) = self.load_overrides(git, &repository).await
        {
            allow(&repository.root);
            allow(&repository.dot_git);
            settings.extend(overrides.iter().cloned());
        }
        command
            .git_settings(settings)
            // Makes git treat every folder as another user's: it then accepts only those that are named.
            .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
            // The remote of a partial clone may be any address, and commands that only read would connect to it.
            .env("GIT_NO_LAZY_FETCH", "1")
    }

    /// Returns `None` if the settings cannot be known, so that git must not run there.
    async fn load_overrides(&self, git: &GitReader<'_>, repository: &Repository) -> Option<Overrides> {
        let root = repository.root.clone();
        // Clone, so that the lock is free while git runs.
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
            let mut names_work_tree = false;
            for path in &repository.settings {
                let of_gitmodules = path.ends_with(".gitmodules");
                let found = settings_state(path)?;
                for (key, value) in if found.is_some() {
                    list_settings(git, path).await?
                } else {
                    Vec::new()
                } {
                    // Nothing can override it, and it could move the work tree anywhere.
                    if key == "core.worktree" && !of_gitmodules {
                        names_work_tree = repository.is_work_tree(&value);
                        if !names_work_tree {
                            return None;
                        }
                    }
                    overrides.extend(find_replacement(&key, of_gitmodules)?);
                }
                states.push((path.clone(), found));
            }
            if !names_work_tree && !repository.belongs_to_work_tree() {
                return None;
            }
            if repository.folder != repository.dot_git {
                states.push((repository.dot_git.clone(), read_file_state(&repository.dot_git)?));
            }
            // A changed index may add a submodule, so it is part of the cached state.
            let index = repository.index.clone();
            states.push((index.clone(), read_file_state(&index)?));
            for folder in list_submodules(git, &repository.root).await? {
                // Git does not look into a submodule that is not checked out.
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

/// Returns the repository that a new path may belong to as a part of every repository.
pub(super) fn find_new_repository(path: &Path) -> Option<&Path> {
    let dot_git = Path::new(".git").as_os_str();
    if path.ends_with(dot_git) {
        return Some(path);
    }
    // Not in any folder that looks like a repository: other programs have files of these names.
    let is_part = path.ends_with("config") || path.ends_with("hooks");
    let folder = path.parent().filter(|_| is_part)?;
    folder.iter().any(|part| part == dot_git).then_some(folder)
}

/// Returns whether a folder is a repository that runs nothing, as after `git init`, or that of a submodule as after
/// `git submodule update`: harmless settings, and no hooks. Those of further submodules in it are others.
pub(super) async fn is_plain_repository(git: &GitReader<'_>, folder: &Path) -> bool {
    let is_submodule = !folder.ends_with(".git");
    let is_missing = |name: &str| nofollow::kind(&folder.join(name)).is_none();
    let is_plain = nofollow::kind(folder) == Some(FileKind::Folder)
        && !is_missing("objects")
        && ["commondir", "config.worktree", "rebase-merge", "sequencer"]
            .into_iter()
            .all(is_missing)
        && (is_submodule || is_missing("modules"))
        && is_self_contained(folder)
        && (is_missing("hooks") || has_only_samples(&folder.join("hooks")));
    // Where its work tree is says nothing about what runs.
    let is_harmless = |key: &str| {
        NEW_SETTINGS.contains(&key) || (is_submodule && find_replacement(key, false) == Some(None))
    };
    is_plain
        && list_settings(git, &folder.join("config"))
            .await
            .is_some_and(|settings| settings.iter().all(|(key, _)| is_harmless(key)))
}

/// Returns whether git runs no hook in a folder.
fn has_only_samples(hooks: &Path) -> bool {
    let entries = OpenFolder::open(hooks).and_then(|folder| folder.read_entries());
    entries.is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.name.as_bytes().ends_with(b".sample")))
    })
}

/// Returns the nearest folder with a repository, as git finds it.
pub(super) fn find_work_tree(cwd: &Path) -> Option<PathBuf> {
    let cwd = real_path(cwd).ok()?;
    let mut folders = cwd.ancestors();
    let root = folders.find(|folder| nofollow::kind(&folder.join(".git")).is_some());
    root.map(Path::to_path_buf)
}

impl Repository {
    /// Returns the repository whose work tree is this folder; `None` if its files lead to another repository, or to
    /// files that git would show.
    fn open_at(root: &Path) -> Option<Self> {
        let dot_git = root.join(".git");
        let folder = match nofollow::kind(&dot_git) {
            Some(FileKind::Folder) => dot_git.clone(),
            _ => real_path(&root.join(read_pointer_file(&dot_git, "gitdir: ")?)).ok()?,
        };
        // A linked work tree uses the settings of the main repository.
        let common = match folder.join("commondir") {
            file if nofollow::kind(&file).is_some() => {
                let common = real_path(&folder.join(read_pointer_file(&file, "")?)).ok()?;
                let is_linked = folder.parent() == Some(common.join("worktrees").as_path());
                is_linked.then_some(common)?
            }
            _ => folder.clone(),
        };
        if !is_self_contained(&folder) || !is_self_contained(&common) {
            return None;
        }
        let repository = Self {
            root: root.to_path_buf(),
            dot_git,
            settings: vec![
                common.join("config"),
                folder.join("config.worktree"),
                root.join(".gitmodules"),
            ],
            index: folder.join("index"),
            folder,
            common,
        };
        Some(repository)
    }

    /// Returns whether a value of `core.worktree` names the folder around `.git`.
    fn is_work_tree(&self, value: &str) -> bool {
        real_path(&self.folder.join(value)).is_ok_and(|tree| tree == self.root)
    }

    /// Returns whether the repository is inside its work tree, or names it as one of its linked work trees. Otherwise
    /// a `.git` file could lead to any repository of the user's.
    fn belongs_to_work_tree(&self) -> bool {
        self.folder.starts_with(&self.root)
            || read_pointer_file(&self.folder.join("gitdir"), "")
                .and_then(|back| real_path(&self.folder.join(back)).ok())
                .is_some_and(|back| back == self.dot_git)
    }
}

/// Returns whether no link in a repository leads out of it, it takes no objects from elsewhere, and no pipe in it could
/// block git.
///
/// Git prints lines of files that it cannot parse, such as `shallow`, so a link could show any file.
fn is_self_contained(repository: &Path) -> bool {
    let Ok(repository) = real_path(repository) else {
        return false;
    };
    // Git would show commits of any repository that this file names, and suggests those with a similar hash.
    let alternates = real_path(&repository.join("objects/info/alternates"));
    if !alternates.is_ok_and(|file| nofollow::kind(&file).is_none()) {
        return false;
    }
    let mut pending = vec![repository.clone()];
    let mut examined = 0;
    while let Some(folder) = pending.pop() {
        let Ok(entries) = OpenFolder::open(&folder).and_then(|folder| folder.read_entries()) else {
            return false;
        };
        for entry in entries {
            examined += 1;
            let Ok(entry) = entry else { return false };
            let path = folder.join(&entry.name);
            let is_harmless = match entry.kind {
                // Hooks do not run here, and people link them.
                _ if entry.name == "hooks" => true,
                FileKind::Link => real_path(&path).is_ok_and(|real| real.starts_with(&repository)),
                FileKind::Folder => {
                    if !UNREAD_FOLDERS.iter().any(|unread| entry.name == *unread) && entry.name.len() != 2 {
                        pending.push(path);
                    }
                    true
                }
                FileKind::Pipe => false,
                FileKind::Regular | FileKind::Socket | FileKind::Device => true,
            };
            if !is_harmless || examined > MAX_ENTRIES {
                return false;
            }
        }
    }
    true
}

/// Lists the folders that the index records as repositories of their own.
///
/// Commands such as `git diff-files` look into them, using the settings there.
async fn list_submodules(git: &GitReader<'_>, root: &Path) -> Option<Vec<PathBuf>> {
    let command = git_command(["ls-files", "--stage", "-z"]).current_dir(root);
    let listed = read_git(git, root, command, MAX_INDEX).await?;
    let mut found = Vec::new();
    for entry in listed.split(|byte| *byte == 0) {
        // The mode of a gitlink, which is how the index records a submodule.
        if entry.starts_with(b"160000 ") {
            let at = memchr::memchr(b'\t', entry)? + 1;
            found.push(root.join(std::ffi::OsStr::from_bytes(&entry[at..])));
        }
    }
    Some(found)
}

/// Returns the output of a git command; `None` if it fails, is too long, or takes longer than [`LISTING`].
pub(super) async fn read_git(
    git: &GitReader<'_>,
    folder: &Path,
    command: Command,
    most: usize,
) -> Option<Vec<u8>> {
    let listed = clock::timeout(LISTING, git.run(folder, command, most));
    let listed = listed.await.ok()??;
    (listed.status.success() && !listed.cut).then_some(listed.stdout)
}

/// Returns the path in a small file of git, without the prefix `before`.
fn read_pointer_file(file: &Path, before: &str) -> Option<PathBuf> {
    let text = String::from_utf8(nofollow::read(&real_path(file).ok()?, 4096).ok()?).ok()?;
    Some(PathBuf::from(text.strip_prefix(before)?.trim_end()))
}

/// Returns `None` for anything that is neither missing nor a regular file: reading a pipe would never end.
pub(super) fn read_file_state(path: &Path) -> Option<SizeAndTime> {
    state_up_to(path, u64::MAX)
}

fn settings_state(path: &Path) -> Option<SizeAndTime> {
    state_up_to(path, MAX_CONFIG as u64)
}

fn state_up_to(path: &Path, most: u64) -> Option<SizeAndTime> {
    // Git follows links here, so the target counts.
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

/// Lists the names and values of all settings in a file. Files that it includes are not read.
async fn list_settings(git: &GitReader<'_>, file: &Path) -> Option<Vec<(String, String)>> {
    let command = git_command([
        "config",
        "--file",
        file.to_str()?,
        "--list",
        "-z",
        "--no-includes",
    ])
    // Not next to the file: there, git would look for the work tree, too.
    .current_dir("/");
    let text = String::from_utf8(read_git(git, file.parent()?, command, MAX_CONFIG).await?).ok()?;
    let settings = text.split_terminator('\0');
    // A setting without a value is true.
    let split = settings.map(|setting| setting.split_once('\n').unwrap_or((setting, "true")));
    Some(
        split
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    )
}

/// Returns the replacement for a setting, if it needs one; the outer `None` means that nothing can replace it.
///
/// Expects a key as git writes it, with section and name in lower case.
fn find_replacement(key: &str, of_gitmodules: bool) -> Option<Option<(String, String)>> {
    let (section, rest) = key.split_once('.')?;
    let name = rest.rsplit('.').next().unwrap_or(rest);
    let with = |value: &str| Some(Some((key.to_owned(), value.to_owned())));
    if section == "submodule" && name == "ignore" {
        // Otherwise git looks into the submodule, using its settings.
        return with("all");
    }
    // Git itself takes nothing else from `.gitmodules` that could run a program.
    if of_gitmodules {
        return Some(None);
    }
    let harmless = SECTIONS.contains(&section)
        || SETTINGS
            .iter()
            .any(|(known, names)| *known == section && names.split(' ').any(|known| known == name));
    match (section, name) {
        // They run nothing, but together they show the user's credentials for other hosts to whoever names them.
        ("http", "proxy") => with(""),
        ("http", "sslverify") => with("true"),
        // Git reads every file of these lists, and shows lines that it does not understand.
        ("blame", "ignorerevsfile") | ("fsck" | "fetch" | "receive", "skiplist") => None,
        _ if harmless => Some(None),
        // Git refuses an empty value for these, so each gets its default.
        ("commit", "cleanup") => with("default"),
        ("checkout", "workers") | ("fetch", "parallel") | ("submodule", "fetchjobs") => with("1"),
        ("diff", "orderfile") => with("/dev/null"),
        ("gc", "pruneexpire") => with("2.weeks.ago"),
        ("gc", "reflogexpire") => with("90.days.ago"),
        ("gc", "reflogexpireunreachable") => with("30.days.ago"),
        ("log", "diffmerges") => with("separate"),
        // The included file may change with the branch.
        ("include" | "includeif", _) => None,
        // It cannot be replaced. It may only say where the work tree is, which the caller checks.
        ("core", "worktree") => Some(None),
        // Git has no value that means "none" for these: an empty program would only be missing.
        ("diff", "textconv") => with("cat"),
        ("diff", "command" | "external") => with(PLAIN_DIFF),
        ("protocol", "allow") => with("never"),
        ("core", "fsmonitor") => with("false"),
        // They win over the settings of an unattended command, so they are the same.
        ("core", "editor") => with(CORE_EDITOR),
        ("sequence", "editor") => with(SEQUENCE_EDITOR),
        _ => with(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_known_to_be_harmless_are_kept() {
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
            "http.postbuffer",
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
            ("core.editor", CORE_EDITOR),
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
            ("http.proxy", ""),
            ("http.https://x.proxy", ""),
            ("http.sslverify", "true"),
            ("log.diffmerges", "separate"),
            ("diff.orderfile", "/dev/null"),
            ("checkout.workers", "1"),
            ("whatever.comes.next", ""),
        ] {
            let want = Some(Some((key.to_owned(), value.to_owned())));
            assert_eq!(find_replacement(key, false), want, "{key}");
        }
        for key in [
            "include.path",
            "includeif.onbranch:x.path",
            "blame.ignorerevsfile",
            "fetch.fsck.skiplist",
            "nodot",
        ] {
            assert_eq!(find_replacement(key, false), None, "{key}");
        }
        assert_eq!(find_replacement("submodule.lib.update", true), Some(None));
        assert_eq!(
            find_replacement("submodule.lib.ignore", true),
            Some(Some(("submodule.lib.ignore".to_owned(), "all".to_owned())))
        );
    }
}
