//! Starts git for our own reading of a repository (R-TOOL-7, R-BOX).
//!
//! A hostile repository may try to exploit git itself. So git can only read here, where the sandbox works and the
//! settings enable it. Must not decide what is read: `git_guard` and the tools do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command_sandbox::{CallSandbox, CommandPlace, SandboxDetection, SessionTemp, confine_command};
use super::git_folder::find_git_folder;
use super::process::{Collected, Command, Launcher};
use crate::config::SandboxSettings;
use crate::domain::SandboxPolicy;

/// Starts git commands that only read.
pub struct GitReader<'a> {
    pub(super) launcher: Arc<Launcher>,
    pub(super) detection: &'a SandboxDetection,
    pub(super) home: Option<PathBuf>,
    pub(super) settings: Arc<SandboxSettings>,
}

impl GitReader<'_> {
    /// Runs a command that reads in `folder`, and returns its output up to `limit` bytes; `None` if it cannot start.
    pub async fn run(&self, folder: &Path, command: Command, limit: usize) -> Option<Collected> {
        let temp = SessionTemp::default();
        let sandbox = CallSandbox {
            settings: self.settings.clone(),
            policy: SandboxPolicy::ReadOnly,
        };
        let place = CommandPlace {
            cwd: folder,
            detection: self.detection,
            temp: &temp,
            folders: list_visible_folders(folder),
            read_only: Vec::new(),
            home: self.home.clone(),
        };
        let confined = confine_command(place, &sandbox, command).await;
        let child = self.launcher.spawn(confined.ok()?).await.ok()?;
        // Not returned before its end: without the temporary folder, it loses its view of `/tmp`.
        Some(child.collect_output(limit).await)
    }
}

/// Returns what must stay visible, even below `/tmp`: the folder, git's folder for it, and for a linked work tree that
/// of the main repository.
fn list_visible_folders(folder: &Path) -> Vec<PathBuf> {
    let mut visible = vec![folder.to_path_buf()];
    if let Some(git) = find_git_folder(folder) {
        let is_linked = git.parent().is_some_and(|parent| parent.ends_with("worktrees"));
        let main = git.ancestors().nth(2).filter(|_| is_linked);
        visible.extend(main.map(Path::to_path_buf));
        visible.push(git);
    }
    visible
}
