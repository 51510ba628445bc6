//! Walks the workspace for `glob` and `grep`: where to start, what to skip, when to stop.
//!
//! Links are not followed, so a walk that starts inside stays inside (I12). Names come in a fixed order. Must not read
//! contents; [`crate::workspace::tree`] does the walking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::overrides::{Override, OverrideBuilder};

use super::{ToolContext, ToolError, files};
use crate::base::CancellationToken;
use crate::base::clock::{self, Instant};
use crate::base::glob::{GlobPattern, check_limits};
use crate::base::nofollow::FileKind;
use crate::workspace::ignore_rules::UnusableRules;
use crate::workspace::tree::{Walk, WalkOptions};
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

/// A walk over the regular files below the folder `start`, in order.
///
/// It skips what `.gitignore` and similar files exclude, version control's own folders, and hidden files unless
/// `hidden`.
pub(super) struct FileWalk<'a> {
    walk: Walk<Box<dyn Fn() -> bool + 'a>>,
}

impl<'a> FileWalk<'a> {
    pub(super) fn new(
        cx: &ToolContext,
        start: &Path,
        hidden: bool,
        max_depth: Option<usize>,
        bound: &'a WalkBound,
    ) -> Self {
        let roots = cx.workspace.resolve_roots(&cx.cwd);
        // In a repository, ignore files above `start` count up to its top. Outside of one, they count up to the
        // workspace folder: a `.gitignore` that excludes everything is not rare in a home folder.
        let top = roots.find_containing(start).map(Root::path);
        let options = WalkOptions {
            hidden,
            max_depth,
            with_status: false,
            with_folders: false,
        };
        let halt = || bound.check_end().is_some();
        Self {
            walk: Walk::new(start, top, options, Box::new(halt)),
        }
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
        self.walk
            .find(|entry| entry.kind == FileKind::Regular)
            .map(|entry| entry.path)
    }
}

/// Builds the matcher of a pattern for paths relative to the start of a walk.
///
/// A pattern without `/` matches names at any depth.
pub(super) fn build_glob_matcher(pattern: &str) -> Result<GlobPattern, ToolError> {
    let deep = if pattern.contains('/') {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    GlobPattern::for_paths(&deep)
        .map_err(|error| ToolError::WrongInput(format!("`{pattern}` is not a valid pattern: {error}")))
}

/// Builds the filter of files that `grep` searches, relative to the start of a walk. It is read as ripgrep reads its
/// `--glob`, and may be a list: `*.ts,!*.test.ts`.
pub(super) fn build_file_filter(globs: &str, cx: &ToolContext) -> Result<Override, ToolError> {
    let mut filter = OverrideBuilder::new("");
    for stated in split_list(globs) {
        let (mark, glob) = match stated.strip_prefix('!') {
            Some(glob) => ("!", glob),
            None => ("", stated),
        };
        let below = Path::new(glob).strip_prefix(&cx.cwd).ok().and_then(Path::to_str);
        let glob = below.unwrap_or(glob);
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        // The files in a folder, not the folder.
        let all = if glob.ends_with('/') { "**" } else { "" };
        let invalid =
            |error: String| ToolError::WrongInput(format!("`{stated}` is not a valid pattern: {error}"));
        check_limits(glob).map_err(|error| invalid(error.to_string()))?;
        let added = filter.add(&format!("{mark}{glob}{all}"));
        added.map_err(|error| invalid(error.to_string()))?;
    }
    filter
        .build()
        .map_err(|error| ToolError::WrongInput(format!("`{globs}` is not a valid pattern: {error}")))
}

/// Splits a list at its commas, except those in braces.
fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|glob| !glob.is_empty())
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

    #[test]
    fn patterns_without_a_separator_match_at_any_depth() {
        for (pattern, path, matches) in [
            ("*.rs", "a/b.rs", true),
            ("a/*.rs", "a/b.rs", true),
            ("a/*.rs", "a/b/c.rs", false),
            ("**/c.rs", "a/b/c.rs", true),
            ("*.{rs,toml}", "Cargo.toml", true),
        ] {
            assert_eq!(
                build_glob_matcher(pattern).unwrap().is_match(path),
                matches,
                "{pattern} {path}"
            );
        }
        assert!(
            build_glob_matcher("a[")
                .unwrap_err()
                .to_string()
                .contains("not a valid pattern")
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
