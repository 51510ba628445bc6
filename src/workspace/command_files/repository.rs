//! What a git command shows of its repository: where it is, and which secrets it tracks.
//!
//! Reads git's small files and the index. Starts nothing.

use std::path::{Path, PathBuf};

use super::{CommandFileLookup, holds_password, small_text};
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::secret_path::is_left_out_by_git;
use crate::base::text::one_line;
use crate::domain::{FileFinding, FindingKind, GitContents};
use crate::sandbox::{find_linked_repository, find_outer_repository};
use crate::workspace::git_folder::find_git_folder;
use crate::workspace::git_index::{GitIndex, TrackedPaths, UnknownIndex};
use crate::workspace::real_path::real_path;

/// Most tracked secrets that git leaves out. With more, somebody should look.
const MAX_LEFT_OUT: usize = 8;
/// Most other files that are named because the general pathspecs leave them out, too.
const MAX_NAMED: usize = 5;
/// How deeply submodules may be nested.
const MAX_SUBMODULES: usize = 8;

impl CommandFileLookup<'_> {
    /// Finds the repository as git does. It must be inside the roots, or around one as confined commands may write it, and
    /// its settings must not lead elsewhere.
    pub(super) fn check_repository(
        &mut self,
        part: usize,
        start: &Path,
        (urls, contents): (bool, GitContents),
    ) {
        for folder in start.ancestors() {
            let dot_git = folder.join(".git");
            let Some(kind) = nofollow::kind(&dot_git) else {
                if ["HEAD", "objects", "refs"]
                    .iter()
                    .all(|name| nofollow::kind(&folder.join(name)).is_some())
                {
                    // A bare repository among the files of another: which settings apply depends on git's own settings.
                    return self.record_finding(part, FindingKind::Unchecked, folder);
                }
                continue;
            };
            if self.roots.find_containing(folder).is_none() && !self.is_around_root(&dot_git, start) {
                return self.record_finding(part, FindingKind::Outside, folder);
            }
            let kind_in = |name: &str| nofollow::kind(&dot_git.join(name));
            // A `.git` folder with a `commondir` takes its settings from another place.
            let git_dir = match kind {
                FileKind::Folder => (kind_in("HEAD") == Some(FileKind::Regular)
                    && kind_in("commondir").is_none())
                .then(|| dot_git.clone()),
                _ => find_linked_repository(&dot_git).map(|(_, common)| common),
            };
            let config = git_dir.and_then(|git_dir| small_text(&git_dir.join("config")));
            // Git ignores the case of section names and keys.
            let Some(config) = config.map(|config| config.to_lowercase()) else {
                return self.record_finding(part, FindingKind::Unchecked, &dot_git);
            };
            // Either setting can lead git to files elsewhere.
            if config.contains("worktree") || config.contains("include") {
                self.record_finding(part, FindingKind::Unchecked, dot_git.join("config"));
            }
            if has_unusual_revisions_file(&config, folder) {
                self.record_finding(part, FindingKind::Unchecked, dot_git.join("config"));
            }
            if urls && holds_password(&config) {
                self.record_finding(part, FindingKind::Secret, dot_git.join("config"));
            }
            if contents != GitContents::None {
                self.check_tracked_files(part, folder, contents);
            }
            if contents == GitContents::Any {
                // Nobody knows which names there are in all commits.
                self.record_finding(part, FindingKind::History, &dot_git);
            }
            return;
        }
        // Outside a repository, `git diff a b` compares any two folders.
        self.record_finding(part, FindingKind::Unchecked, start);
    }

    /// Looks for secrets among the tracked files: git shows how they differ from what is committed.
    fn check_tracked_files(&mut self, part: usize, work_tree: &Path, contents: GitContents) {
        let mut others: Vec<String> = Vec::new();
        let Some(tracked) = self.find_tracked_secrets(part, work_tree, &mut others) else {
            return;
        };
        if contents == GitContents::Any && !others.is_empty() {
            let more = others.len().saturating_sub(MAX_NAMED);
            others.truncate(MAX_NAMED);
            let more = if more == 0 {
                String::new()
            } else {
                format!(", and {more} more")
            };
            let file = one_line(&others.join(", "), 400) + &more;
            self.record(FileFinding {
                part,
                kind: FindingKind::LeftOut,
                file,
                tracked_as: None,
            });
        }
        let names = tracked
            .wanted
            .iter()
            .map(|secret| secret.strip_prefix(work_tree).ok()?.to_str());
        let names = names
            .collect::<Option<Vec<&str>>>()
            .filter(|names| names.len() <= MAX_LEFT_OUT);
        for (at, secret) in tracked.wanted.iter().take(MAX_LEFT_OUT).enumerate() {
            self.record(FileFinding {
                part,
                kind: FindingKind::Secret,
                file: secret.to_string_lossy().into_owned(),
                tracked_as: names.as_ref().map(|names| names[at].to_owned()),
            });
        }
        self.check_submodules(part, tracked.submodules, MAX_SUBMODULES);
    }

    /// Looks for tracked secrets in submodules, which git includes if its settings say so.
    fn check_submodules(&mut self, part: usize, folders: Vec<PathBuf>, depth: usize) {
        for folder in folders {
            if nofollow::kind(&folder.join(".git")).is_none() {
                continue;
            }
            if depth == 0 || !self.has_time() {
                return self.record_finding(part, FindingKind::Unchecked, &folder);
            }
            let Some(tracked) = self.find_tracked_secrets(part, &folder, &mut Vec::new()) else {
                continue;
            };
            if let Some(secret) = tracked.wanted.first() {
                self.record_finding(part, FindingKind::Secret, secret);
            }
            self.check_submodules(part, tracked.submodules, depth - 1);
        }
    }

    /// Returns the secrets and the submodules that a work tree tracks; `None` if there are none, or they are unknown. Adds
    /// the names of other files that git would leave out with the secrets.
    fn find_tracked_secrets(
        &mut self,
        part: usize,
        work_tree: &Path,
        others: &mut Vec<String>,
    ) -> Option<TrackedPaths> {
        let folder = find_git_folder(work_tree)?;
        let index = folder.join("index");
        if nofollow::kind(&index).is_none() {
            if !is_new_repository(&folder) {
                // What is committed has no list.
                self.record_finding(part, FindingKind::Unchecked, &index);
            }
            return None;
        }
        let tracked = GitIndex::read(work_tree).ok_or(UnknownIndex);
        let name_in_git = |path: &Path| {
            let name = path.strip_prefix(work_tree).unwrap_or(path);
            name.to_string_lossy().into_owned()
        };
        let is_wanted = |path: &Path| self.is_secret(path) || is_left_out_by_git(&name_in_git(path));
        let tracked = tracked.and_then(|tracked| tracked.find_tracked_paths(is_wanted));
        let Ok(mut tracked) = tracked else {
            self.record_finding(part, FindingKind::Unchecked, &index);
            return None;
        };
        tracked.wanted.retain(|path| {
            let is_secret = self.is_secret(path);
            others.extend((!is_secret).then(|| name_in_git(path)));
            is_secret
        });
        Some(tracked)
    }

    /// Returns whether commands in the root that contains `folder` may write this `.git` around the root.
    fn is_around_root(&self, dot_git: &Path, folder: &Path) -> bool {
        let home = self.home.and_then(|home| real_path(home).ok());
        let root = self.roots.find_containing(folder);
        let outer = root.and_then(|root| find_outer_repository(root.path(), home.as_deref()));
        outer.as_deref() == Some(dot_git)
    }
}

/// Returns whether `blame.ignoreRevsFile` of a configuration in lower case names another file than the usual one in the work
/// tree. In its error, `git blame` prints a line of a file that has other content.
fn has_unusual_revisions_file(config: &str, work_tree: &Path) -> bool {
    let settings = config.lines().filter_map(|line| line.split_once('='));
    let mut named = settings
        .filter(|(key, _)| key.trim().ends_with("ignorerevsfile"))
        .map(|(_, value)| value.trim().trim_matches('"'));
    named.any(|name| {
        let is_link = nofollow::kind(&work_tree.join(name)) == Some(FileKind::Link);
        !matches!(
            name,
            "" | ".git-blame-ignore-revs" | ".gitblameignore" | ".git-ignore-revs"
        ) || is_link
    })
}

/// Returns whether nothing was ever committed: the only branch does not exist yet.
fn is_new_repository(git_folder: &Path) -> bool {
    let is_on_branch = small_text(&git_folder.join("HEAD")).is_some_and(|text| text.starts_with("ref: "));
    let heads = OpenFolder::open(&git_folder.join("refs/heads")).and_then(|folder| folder.read_entries());
    is_on_branch
        && heads.is_ok_and(|mut entries| entries.next().is_none())
        && nofollow::kind(&git_folder.join("packed-refs")).is_none()
}
