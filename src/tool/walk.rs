//! Walks the workspace for `glob` and `grep`: where to start, what to skip, when to stop.
//!
//! Links are not followed, so a walk that starts inside stays inside (I12). Names come in a fixed order. Must not read
//! contents; [`crate::workspace::tree`] does the walking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::skipped::{SkipReason, SkippedEntries};
use super::{ToolContext, ToolError, files};
use crate::base::CancellationToken;
use crate::base::clock::{self, Instant};
use crate::base::glob::GlobPattern;
use crate::base::nofollow::FileKind;
use crate::base::secret_path::is_secret_like;
use crate::workspace::ignore_rules::UnusableRules;
use crate::workspace::tree::{LeftOut, TreeEntry, Walk, WalkOptions};
use crate::workspace::{ResolvedPath, Root, resolve};

/// Most results of a search (R-TOOL).
pub(super) const MAX_RESULTS: usize = 1_000;
/// Time limit of a search (R-TOOL).
pub(super) const MAX_TIME: Duration = Duration::from_secs(10);

/// The limits of a search: the cancel and the time.
#[derive(Clone)]
pub(super) struct WalkBound {
    stop: CancellationToken,
    until: Instant,
}

/// The reason why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    Cancelled,
    TimeUp,
}

impl WalkBound {
    pub(super) fn new(stop: &CancellationToken, time: Duration) -> Self {
        Self {
            stop: stop.clone(),
            until: clock::now() + time,
        }
    }

    /// Returns whether the search must end now, and why.
    pub(super) fn check_end(&self) -> Option<WalkEnd> {
        if self.stop.is_cancelled() {
            return Some(WalkEnd::Cancelled);
        }
        (clock::now() >= self.until).then_some(WalkEnd::TimeUp)
    }
}

/// Returns where a search without a path starts: the working directory and every other workspace folder.
pub(super) fn resolve_default_starts(cx: &ToolContext) -> Result<Vec<ResolvedPath>, ToolError> {
    let cwd = resolve::real_path(&cx.cwd)?;
    let roots = cx.workspace.resolve_roots(&cx.cwd);
    let resolved = |path: &Path| ResolvedPath {
        absolute: path.to_owned(),
        display: resolve::display_path(&roots, &cwd, path),
        inside: true,
        secret: false,
    };
    let mut starts = Vec::new();
    if roots.find_containing(&cwd).is_some() {
        starts.push(resolved(&cwd));
    }
    for root in roots.iter() {
        // A folder inside another start would be searched twice.
        let within_other = starts
            .iter()
            .any(|start: &ResolvedPath| root.path().starts_with(&start.absolute));
        if !cwd.starts_with(root.path()) && !within_other {
            starts.push(resolved(root.path()));
        }
    }
    // These starts are not named in the arguments, so `resolve_path` has not checked them.
    for start in &starts {
        cx.check_judged(&start.display, &start.absolute)?;
    }
    Ok(starts)
}

/// What a search walks over.
#[derive(Debug, Default)]
pub(super) struct WalkScope {
    /// Includes hidden files and folders.
    pub(super) hidden: bool,
    /// Includes those with such names anyway.
    pub(super) hidden_names: Vec<GlobPattern>,
    /// The only folders that are searched, relative to the start; empty for all.
    pub(super) folders: Vec<PathBuf>,
    pub(super) max_depth: Option<usize>,
    /// Counts folders whose name matches as left out.
    pub(super) counts_folders: bool,
    /// Counts hidden or ignored files as secrets if they look like it.
    pub(super) counts_secrets: bool,
}

/// A walk over the regular files that a search wants below the folder `start`, in order.
///
/// It skips what `.gitignore` and similar files exclude, version control's own folders, and hidden files unless the
/// scope includes them, and counts what it skips.
pub(super) struct FileWalk<'a> {
    walk: Walk<Box<dyn Fn() -> bool + 'a>>,
    cx: &'a ToolContext,
    start: PathBuf,
    scope: WalkScope,
    /// Returns whether a search wants a file, by its path and the part below `start`.
    is_wanted: &'a dyn Fn(&Path, &Path) -> bool,
    skipped: SkippedEntries,
}

impl<'a> FileWalk<'a> {
    pub(super) fn new(
        cx: &'a ToolContext,
        start: &Path,
        mut scope: WalkScope,
        is_wanted: &'a dyn Fn(&Path, &Path) -> bool,
        bound: &'a WalkBound,
    ) -> Self {
        let roots = cx.workspace.resolve_roots(&cx.cwd);
        // In a repository, ignore files above `start` count up to its top. Outside of one, they count up to the
        // workspace folder: a `.gitignore` that excludes everything is not rare in a home folder.
        let top = roots.find_containing(start).map(Root::path);
        let options = WalkOptions {
            hidden: scope.hidden,
            max_depth: scope.max_depth,
            with_status: false,
            with_folders: scope.counts_folders,
            with_left_out: true,
        };
        let names = std::mem::take(&mut scope.hidden_names);
        let folders = scope.folders.iter().map(|folder| start.join(folder)).collect();
        let halt: Box<dyn Fn() -> bool + 'a> = Box::new(move || bound.check_end().is_some());
        Self {
            walk: Walk::new(start, top, options, halt)
                .with_hidden_names(names)
                .with_wanted_folders(folders),
            cx,
            start: start.to_owned(),
            scope,
            is_wanted,
            skipped: SkippedEntries::default(),
        }
    }

    /// Returns what was left out so far.
    pub(super) fn take_skipped(&mut self) -> SkippedEntries {
        let mut skipped = std::mem::take(&mut self.skipped);
        skipped.unreadable_folders = self.walk.unreadable_folders();
        skipped.is_narrowed = !self.scope.folders.is_empty();
        skipped
    }

    /// Returns whether the entry is a file that the search wants, and counts it if not.
    fn judge(&mut self, entry: &TreeEntry) -> bool {
        let below = entry.path.strip_prefix(&self.start).unwrap_or(&entry.path);
        let is_folder = entry.kind == FileKind::Folder;
        let is_wanted = (self.is_wanted)(&entry.path, below);
        // A folder at the lowest level would not be opened anyway.
        let is_reachable = self
            .scope
            .max_depth
            .is_none_or(|most| below.components().count() < most);
        let reason = match (entry.left_out, entry.kind) {
            (Some(left_out), _) => {
                if !(is_wanted || is_folder && is_reachable) {
                    return false;
                }
                if self.scope.counts_secrets && !is_folder && is_secret_like(&entry.path) {
                    self.skipped.unvisited_secrets += 1;
                    return false;
                }
                match left_out {
                    LeftOut::Hidden => SkipReason::Hidden,
                    LeftOut::Ignored => SkipReason::Ignored,
                    LeftOut::VersionControl => SkipReason::VersionControl,
                }
            }
            (None, FileKind::Regular) if is_wanted => {
                self.skipped.matched += 1;
                return true;
            }
            (None, FileKind::Regular) => {
                self.skipped.unmatched += 1;
                return false;
            }
            // It may lead to a folder.
            (None, FileKind::Link) if is_wanted || is_reachable => SkipReason::Link,
            (None, FileKind::Folder) if is_wanted && entry.path != self.start => SkipReason::FolderName,
            _ => return false,
        };
        let cx = self.cx;
        self.skipped
            .add(reason, is_folder, || files::display_path(cx, &entry.path));
        false
    }

    /// Describes for the model the ignore files that had no effect, one per line.
    pub(super) fn unusable_rules(&self, cx: &ToolContext) -> String {
        let line = |unusable: &UnusableRules| {
            let path = files::display_path(cx, &unusable.path);
            format!("[ignored the rules of `{path}`: {}]\n", unusable.reason)
        };
        self.walk.unusable_rules().iter().map(line).collect()
    }
}

impl Iterator for FileWalk<'_> {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        loop {
            let entry = self.walk.next()?;
            if self.judge(&entry) {
                return Some(entry.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    #[test]
    fn a_search_ends_in_time_and_on_cancel() {
        let stop = CancellationToken::new();
        assert_eq!(WalkBound::new(&stop, Duration::from_secs(60)).check_end(), None);
        assert_eq!(
            WalkBound::new(&stop, Duration::ZERO).check_end(),
            Some(WalkEnd::TimeUp)
        );
        stop.cancel();
        assert_eq!(
            WalkBound::new(&stop, Duration::ZERO).check_end(),
            Some(WalkEnd::Cancelled)
        );
    }

    #[tokio::test]
    async fn ignore_files_count_from_the_workspace_folder_or_repository() {
        let harness = ToolHarness::with_folders(&["app"]);
        harness.write("../.gitignore", "*\n");
        harness.write(".gitignore", "/sub/out.txt\n");
        harness.write("sub/out.txt", "needle\n");
        harness.write("sub/in.txt", "needle\n");
        let found = harness
            .call_tool("grep", json!({"pattern": "needle"}))
            .await
            .unwrap()
            .text;
        assert_eq!(found, "sub/in.txt:1:needle\n");
        harness.write(".git/HEAD", "");
        for args in [
            json!({"pattern": "needle", "path": "sub"}),
            json!({"pattern": "needle"}),
        ] {
            let found = harness.call_tool("grep", args).await.unwrap().text;
            assert_eq!(found, "sub/in.txt:1:needle\n");
        }
    }

    #[tokio::test]
    async fn nested_folders_are_walked_once() {
        let harness = ToolHarness::with_folders(&["app", "app/inner", "lib"]);
        harness.write("inner/x", "needle\n");
        let found = harness
            .call_tool("grep", json!({"pattern": "needle"}))
            .await
            .unwrap()
            .text;
        assert_eq!(found, "inner/x:1:needle\n");
    }
}
