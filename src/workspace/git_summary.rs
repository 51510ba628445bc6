//! What a repository looks like now: its branches, uncommitted changes, and last commits.
//!
//! The names of the branches come from plain files, without git. The rest comes from git as [`super::git_reader`] and
//! [`super::git_guard`] start it: it reads only, and runs nothing that the repository names. All texts are the
//! repository's own and may be hostile.

use std::path::Path;
use std::sync::Arc;

use super::WorkspaceShared;
use super::git_folder::{find_common_folder, find_git_folder};
use super::git_guard::find_work_tree;
use super::process::git_command;
use super::real_path::real_path;
use crate::base::nofollow;
use crate::base::text::one_line;
use crate::config::SandboxSettings;

/// Longest file of a branch that is read, in bytes.
const MAX_HEAD: u64 = 4 << 10;
/// Longest `packed-refs` that is read, in bytes.
const MAX_REFS: u64 = 4 << 20;
/// Longest output of git that is read, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Most lines of the status.
const MAX_CHANGES: usize = 30;
/// Longest path, branch, or subject, in characters.
const MAX_TEXT: usize = 120;

/// The branches of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitBranches {
    /// The branch that is checked out, or `detached at …`; `None` if only git can tell.
    pub current: Option<String>,
    /// The branch that the work starts from.
    pub main: Option<String>,
}

/// The state of a work tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitSummary {
    /// The changes, as `git status --short` shows them, with paths relative to the session's folder; a last line counts
    /// those left out.
    pub changes: Vec<String>,
    /// The subjects of the last commits, the newest first.
    pub commits: Vec<String>,
}

/// Returns the branches of the repository around `cwd`; `None` if there is none. Blocks.
pub fn read_branches(cwd: &Path) -> Option<GitBranches> {
    let folder = find_git_folder(&find_work_tree(cwd)?)?;
    let head = read_text(&folder.join("HEAD"), MAX_HEAD)?;
    let head = head.trim();
    let current = match head.strip_prefix("ref: ") {
        // Where the references are not files, git writes this.
        Some("refs/heads/.invalid") => None,
        Some(name) => Some(one_line(name.trim_start_matches("refs/heads/"), MAX_TEXT)),
        None => Some(format!("detached at {}", head.get(..12)?)),
    };
    // A linked work tree shares its branches with the main repository.
    let main = find_main_branch(&find_common_folder(&folder)?);
    Some(GitBranches { current, main })
}

fn find_main_branch(common: &Path) -> Option<String> {
    let remote = read_text(&common.join("refs/remotes/origin/HEAD"), MAX_HEAD);
    let named = remote
        .as_deref()
        .and_then(|text| text.trim().strip_prefix("ref: refs/remotes/origin/"));
    if let Some(name) = named {
        return Some(one_line(name, MAX_TEXT));
    }
    let packed = read_text(&common.join("packed-refs"), MAX_REFS).unwrap_or_default();
    let exists = |name: &&str| {
        let reference = format!("refs/heads/{name}");
        nofollow::kind(&common.join(&reference)).is_some()
            || packed
                .lines()
                .any(|line| line.split_once(' ').is_some_and(|(_, found)| found == reference))
    };
    ["main", "master"].into_iter().find(exists).map(str::to_owned)
}

fn read_text(path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(nofollow::read(path, limit).ok()?).ok()
}

impl WorkspaceShared {
    /// Asks git for the branch that is checked out; `None` if it does not tell.
    pub async fn find_current_branch(&self, cwd: &Path, settings: &Arc<SandboxSettings>) -> Option<String> {
        let lines = self.list_with_git(cwd, settings, &["branch", "--show-current"]);
        Some(lines.await?.pop().unwrap_or_else(|| "detached".to_owned()))
    }

    /// Returns the state of the work tree around `cwd`; `None` if git cannot read it.
    pub async fn summarize_git(&self, cwd: &Path, settings: &Arc<SandboxSettings>) -> Option<GitSummary> {
        let status = self.list_with_git(cwd, settings, &["status", "--short", "--untracked-files=normal"]);
        let commits = self.list_with_git(cwd, settings, &["log", "-5", "--format=%s"]);
        let (status, commits) = tokio::join!(status, commits);
        let mut changes = status?;
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        if more > 0 {
            changes.push(format!("({more} more)"));
        }
        Some(GitSummary {
            changes,
            // A new repository has none.
            commits: commits.unwrap_or_default(),
        })
    }

    /// Returns the lines that a command of git prints; `None` if it fails.
    async fn list_with_git(
        &self,
        cwd: &Path,
        settings: &Arc<SandboxSettings>,
        args: &[&str],
    ) -> Option<Vec<String>> {
        let root = find_work_tree(cwd)?;
        let command = git_command(args.iter().copied()).current_dir(real_path(cwd).ok()?);
        // The tools take these paths as they are.
        let paths = [("status.relativePaths", "true"), ("core.quotePath", "false")];
        let paths = paths.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let command = self.guard_git(&root, settings, command).await.git_settings(paths);
        let output = self
            .git_reader(settings.clone())
            .run(&root, command, MAX_OUTPUT)
            .await?;
        if !output.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Some(text.lines().map(one_line_keeping_indent).collect())
    }
}

/// Cuts a line. The space before a status is part of it.
fn one_line_keeping_indent(line: &str) -> String {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    format!("{indent}{}", one_line(text, MAX_TEXT))
}
