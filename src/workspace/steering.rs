//! A session's checks of files that make programs run: before a confined process, and after it.
//!
//! Brings together what the sandbox cannot protect (`steering_watch`) and what git's settings name (`git_names`). Must
//! not know how users are asked.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Workspace;
use super::command_sandbox::CallSandbox;
use super::git_guard;
use super::process::{Command, SpawnError};
use super::real_path::real_path;
use super::steering_change::SteeringChange;
use super::steering_snapshot::SnapshotOptions;
use super::steering_watch::{AnnouncedChanges, EarlierChanges, SettledChanges, WatchedCommand};
use crate::base::clock;
use crate::base::nofollow::OpenFolder;
use crate::base::spawn::run_blocking;
use crate::base::steering::may_run_soon;
use crate::base::text::reveal_hidden_characters;
use crate::domain::SandboxPolicy;
use crate::sandbox::name_reader;

/// How long files are looked for that nobody was told about. Turns and sessions end with it.
const LOOKING: Duration = Duration::from_secs(2);
/// Most files that a warning names.
const MAX_NAMED: usize = 10;

impl Workspace {
    /// Watches from now on for files that make programs run, until the process of a command that
    /// [`Self::confine_command`] has returned has ended and [`Self::settle_steering`] was called. Does nothing if it is not
    /// confined, or cannot write in the workspace.
    ///
    /// For a background process, missing folders such as `.vscode` are created until it has ended, where the sandbox can
    /// make them read-only.
    ///
    /// # Errors
    /// The watch panicked.
    pub async fn watch_command(
        &self,
        cwd: &Path,
        sandbox: &CallSandbox,
        command: &Command,
        is_background: bool,
    ) -> Result<WatchedCommand, SpawnError> {
        let named = match command.list_read_only() {
            Some(named) if sandbox.policy != SandboxPolicy::ReadOnly => named,
            Some(_) | None => return Ok(WatchedCommand::default()),
        };
        let folders = self.list_folders(cwd).await;
        let has_mounts = self.shared.sandbox.detect().await.method.has_namespaces();
        let options = SnapshotOptions {
            keeps_contents: !has_mounts,
            named,
        };
        let shared = self.shared.clone();
        let started = run_blocking(move || {
            let home = shared.home.as_deref().and_then(|home| real_path(home).ok());
            // The hidden files of a home folder are read-only anyway.
            let may_reserve = |folder: &Path| {
                let is_home = home.as_ref().is_some_and(|home| home.starts_with(folder));
                is_background && has_mounts && !is_home
            };
            let external = || shared.overlay.external_writes().start_watch();
            shared
                .steering
                .start_command(folders, &options, may_reserve, external)
        });
        started.await.map_err(|error| SpawnError::Sandbox {
            reason: format!("cannot watch what it creates: {error}"),
        })
    }

    /// Counts a process outside of the sandbox, which may make what would be taken for that of a confined one.
    pub fn count_unconfined_command(&self) -> WatchedCommand {
        self.shared.steering.start_unconfined()
    }

    /// Lists the files that make programs run and have changed since confined processes started to run here.
    pub async fn list_steering_changes(&self, cwd: &Path) -> EarlierChanges {
        let (shared, folders) = (self.shared.clone(), self.list_folders(cwd).await);
        let listed = run_blocking(move || shared.steering.list_changes(&folders));
        listed.await.unwrap_or_default()
    }

    /// Puts aside files that make programs run and that a confined process has made, and puts back what it has replaced.
    ///
    /// `earlier` is [`Self::list_steering_changes`] from before a process that has ended by now. What others may have
    /// made is undecided: the caller asks about it. Without an answer, it is found again.
    pub async fn settle_steering(&self, cwd: &Path, earlier: EarlierChanges) -> Vec<SteeringChange> {
        let folders = self.list_folders(cwd).await;
        let (shared, earlier) = (self.shared.clone(), Arc::new(earlier));
        if !shared.steering.has_watches(&folders) {
            return Vec::new();
        }
        // First what belongs to no new repository: git is asked about those, and a cancel may drop this future meanwhile.
        let settle = |plain: Option<BTreeSet<PathBuf>>| {
            let (shared, folders, earlier) = (shared.clone(), folders.clone(), earlier.clone());
            run_blocking(move || shared.steering.settle(&folders, &earlier, plain.as_ref()))
        };
        let SettledChanges {
            mut changes,
            postponed,
        } = settle(None).await.unwrap_or_default();
        if postponed.is_empty() {
            return changes;
        }
        let plain = self.find_plain_repositories(postponed).await;
        changes.extend(settle(Some(plain)).await.unwrap_or_default().changes);
        changes
    }

    /// Returns the paths that belong to a new repository that runs nothing.
    async fn find_plain_repositories(&self, paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let git = self.shared.git_reader(Arc::default());
        let mut plain = BTreeSet::new();
        for path in paths {
            if let Some(repository) = git_guard::find_new_repository(&path)
                && git_guard::is_plain_repository(&git, repository).await
            {
                plain.insert(path);
            }
        }
        plain
    }

    /// Returns a warning about files that make programs run, that confined processes or others may have made, and that
    /// nobody was told about yet. They keep their names; the user is asked with the next command.
    ///
    /// To be called while none of the session's commands runs, except in the background.
    pub async fn warn_of_new_steering(&self, cwd: &Path) -> Option<String> {
        if !self.shared.steering.is_used() {
            return None;
        }
        // On a disk that hangs, the next check finds them.
        let found = clock::timeout(LOOKING, self.find_unannounced_steering(cwd));
        let found = found.await.unwrap_or_default();
        let count = found.len();
        if found.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = sort_by_urgency(found)
            .iter()
            .take(MAX_NAMED)
            .map(|(path, obeyed_by)| {
                let shown = self.format_for_model(cwd, path);
                let shown = reveal_hidden_characters(&shown);
                format!("`{shown}` (obeyed by {obeyed_by})")
            })
            .collect();
        if count > MAX_NAMED {
            lines.push(format!("and {} more", count - MAX_NAMED));
        }
        Some(format!(
            "files that make other programs run are new, and a background process in the sandbox or you made them: {}. \
             They keep their names; you are asked about them with the next command",
            lines.join(", ")
        ))
    }

    async fn find_unannounced_steering(&self, cwd: &Path) -> Vec<PathBuf> {
        let folders = self.list_folders(cwd).await;
        let announce = |plain: Option<BTreeSet<PathBuf>>| {
            let (shared, folders) = (self.shared.clone(), folders.clone());
            run_blocking(move || shared.steering.announce(&folders, plain.as_ref()))
        };
        let AnnouncedChanges { mut paths, postponed } = announce(None).await.unwrap_or_default();
        if !postponed.is_empty() {
            let plain = self.find_plain_repositories(postponed).await;
            paths.extend(announce(Some(plain)).await.unwrap_or_default().paths);
        }
        paths
    }

    /// Goes on with what background processes of an earlier agentls have left in the folders, once for each `cwd`.
    pub async fn adopt_steering_records(&self, cwd: &Path) {
        if !self.shared.steering.must_adopt(cwd) {
            return;
        }
        let (shared, folders) = (self.shared.clone(), self.list_folders(cwd).await);
        let adopted = run_blocking(move || {
            let external = || shared.overlay.external_writes().start_watch();
            shared.steering.adopt_records(&folders, external);
        });
        // After a panic, it is as if there were no records.
        let _ = adopted.await;
    }

    /// Takes the changes that an earlier check has found, but was cut short before anybody was told.
    pub async fn take_unreported_steering(&self, cwd: &Path) -> Vec<SteeringChange> {
        let folders = self.list_folders(cwd).await;
        self.shared.steering.take_unreported(&folders)
    }

    /// Lets a file keep its name, or gives it back, because the user keeps it. Also returns the new path of what was put
    /// back in its place, or why that failed: something else has the name now, or the system refuses.
    pub async fn keep_steering(
        &self,
        cwd: &Path,
        mut change: SteeringChange,
    ) -> (SteeringChange, io::Result<Option<PathBuf>>) {
        let (shared, folders) = (self.shared.clone(), self.list_folders(cwd).await);
        let kept = run_blocking(move || {
            let kept = shared.steering.keep(&folders, &mut change);
            (change, kept)
        });
        let failed = |error| (SteeringChange::default(), Err(io::Error::other(error)));
        kept.await.unwrap_or_else(failed)
    }

    /// Puts aside a file that was undecided, because the user does not keep it. `None` after a panic.
    pub async fn put_steering_aside(&self, cwd: &Path, mut change: SteeringChange) -> Option<SteeringChange> {
        let (shared, folders) = (self.shared.clone(), self.list_folders(cwd).await);
        let put = run_blocking(move || {
            shared.steering.put_aside(&folders, &mut change);
            change
        });
        put.await.ok()
    }

    /// Returns a note about submodules that the sandbox closes because there are too many, once in a session.
    pub fn explain_closed_submodules(&self, watched: &WatchedCommand) -> Option<String> {
        let is_new =
            watched.has_closed_submodules() && !self.has_explained_submodules.swap(true, Ordering::Relaxed);
        let text =
            "[the repository has so many submodules that commands in the sandbox cannot write .git/modules]";
        is_new.then(|| text.to_owned())
    }

    /// Lists the paths in workspace folders that steer a program, but not by their names: what git's settings name, and
    /// the folder of our own configuration. Creates that folder, since nothing can be mounted on what is missing.
    pub async fn list_named_files(&self, folders: &[PathBuf], sandbox: &CallSandbox) -> Vec<PathBuf> {
        let git = self.shared.git_reader(sandbox.settings.clone());
        let mut named = BTreeSet::new();
        if let Some(own) = sandbox.settings.own_folder.clone() {
            let around = folders.to_vec();
            let own = run_blocking(move || {
                let own = real_path(&own).ok()?;
                if around.iter().any(|folder| own.starts_with(folder)) {
                    // Without it, a file in it is put aside after the command.
                    let _ = OpenFolder::create_all(&own);
                }
                Some([own.join("config.toml"), own])
            });
            named.extend(own.await.ok().flatten().into_iter().flatten());
        }
        for folder in folders {
            named.extend(self.shared.git_names.list(&git, folder).await);
        }
        let is_inside = |path: &PathBuf| {
            let holds = |folder: &PathBuf| path.starts_with(folder) && path != folder;
            // Read-only as a whole, another workspace folder could not be used.
            folders.iter().any(holds) && !folders.iter().any(|folder| folder.starts_with(path))
        };
        named.into_iter().filter(is_inside).collect()
    }
}

/// Returns files with who obeys them: first those that may run something soon, and of each kind first one per reader, so
/// that many alike hide no other.
fn sort_by_urgency(found: Vec<PathBuf>) -> Vec<(PathBuf, &'static str)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<_> = found
        .into_iter()
        .map(|path| {
            let obeyed_by = name_reader(&path);
            let earlier = seen.entry(obeyed_by).or_default();
            *earlier += 1;
            ((!may_run_soon(obeyed_by), *earlier), path, obeyed_by)
        })
        .collect();
    ranked.sort_by_key(|(rank, ..)| *rank);
    ranked
        .into_iter()
        .map(|(_, path, obeyed_by)| (path, obeyed_by))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_soon_comes_first_in_a_long_warning() {
        let many = (0..200).map(|at| PathBuf::from(format!(".github/workflows/{at}.yml")));
        let hooks = (0..20).map(|at| PathBuf::from(format!("a/.git/hooks/{at}")));
        let others = ["z/.vscode/tasks.json", "AGENTS.md", ".envrc"].map(PathBuf::from);
        let sorted = sort_by_urgency(many.chain(hooks).chain(others).collect());
        let readers: Vec<&str> = sorted.iter().map(|(_, reader)| *reader).collect();
        assert_eq!(readers[..4], ["git", "VS Code", "direnv", "git"]);
        assert_eq!(readers[22..24], ["continuous integration", "agents"]);
        assert_eq!(sorted.len(), 223);
    }
}
