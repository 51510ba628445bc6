//! Files inside the roots, unsaved buffers, edits, child processes.
//!
//! Knows the disk and processes; knows nothing of tools, models, sessions' histories or clients. What
//! resolves paths, reads or writes here blocks: call it off the async threads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

mod background;
pub mod checkpoint;
pub mod command_files;
pub mod diff;
pub mod edit;
pub mod git_files;
mod git_guard;
pub mod git_index;
pub mod ignore_rules;
pub mod load;
pub mod overlay;
pub mod process;
pub mod prompts;
mod read_log;
pub mod reference;
pub mod resolve;
mod roots;
pub mod text_edits;
pub mod text_file;
pub mod tree;
pub mod watch;
pub mod write;

pub use background::{
    Background, BackgroundError, BackgroundOutput, BackgroundStatus, MAX_BACKGROUND, MAX_UNREAD,
};
pub use load::{LoadError, LoadedFile};
pub use overlay::{Buffer, Opened, Overlay};
pub use read_log::{ReadLog, SeenVersion};
pub use resolve::{PathError, Resolved};
pub use roots::{Folder, Root, Roots};
pub use write::{WriteError, WriteLocks};

use git_guard::GitGuard;
use process::{Command, Launcher, Stop};

use crate::domain::{CommandFiles, FileFinding};

/// What a cancel does to a running command (R-CANCEL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancel {
    /// Stops it.
    #[default]
    Interrupt,
    /// Lets it finish for up to this long first.
    Finish(Duration),
}

impl From<OnCancel> for Stop {
    fn from(policy: OnCancel) -> Self {
        match policy {
            OnCancel::Interrupt => Self::Interrupt,
            OnCancel::Finish(limit) => Self::Finish(limit),
        }
    }
}

/// What all sessions of the server share.
#[derive(Debug, Default)]
pub struct WorkspaceShared {
    roots: RwLock<Arc<Roots>>,
    overlay: Overlay,
    locks: WriteLocks,
    home: Option<PathBuf>,
    launcher: RwLock<Arc<Launcher>>,
    trusted: RwLock<BTreeSet<PathBuf>>,
    git_guard: GitGuard,
}

impl WorkspaceShared {
    /// The workspace folders, and the home folder that `~` stands for.
    pub fn new(folders: &[Folder], home: Option<PathBuf>) -> Arc<Self> {
        let shared = Self {
            home,
            ..Self::default()
        };
        shared.set_folders(folders);
        Arc::new(shared)
    }

    /// Replaces the workspace folders; what is resolved from now on follows them.
    pub fn set_folders(&self, folders: &[Folder]) {
        let roots = Arc::new(Roots::new(folders));
        let paths: Vec<PathBuf> = roots.iter().map(|root| root.path().to_path_buf()).collect();
        self.change_launcher(|launcher| launcher.with_workspace_folders(paths));
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// The workspace folders now; empty when the client named none.
    pub fn workspace_folders(&self) -> Arc<Roots> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The editor's open documents.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// What starts child processes.
    pub fn launcher(&self) -> Arc<Launcher> {
        self.launcher
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces what starts child processes (default: this binary as helper, nothing stripped).
    pub fn set_launcher(&self, launcher: Launcher) {
        *self.launcher.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(launcher);
    }

    /// Replaces the names of the variables that no child gets from now on (R-SEC).
    pub fn set_stripped_env(&self, names: BTreeSet<String>) {
        self.change_launcher(|launcher| launcher.with_stripped_env(names));
    }

    /// Says whether the person trusts a folder.
    pub fn set_trusted(&self, folder: &Path, trusted: bool) {
        let mut folders = self.trusted.write().unwrap_or_else(PoisonError::into_inner);
        if trusted {
            folders.insert(folder.to_path_buf())
        } else {
            folders.remove(folder)
        };
    }

    /// The command, kept from running what a repository around `cwd` names, unless the person trusts the folder.
    pub async fn guard_git(&self, cwd: &Path, command: Command) -> Command {
        let trusted = {
            let folders = self.trusted.read().unwrap_or_else(PoisonError::into_inner);
            folders.iter().any(|folder| cwd.starts_with(folder))
        };
        if trusted {
            command
        } else {
            self.git_guard.guard_command(&self.launcher(), cwd, command).await
        }
    }

    fn change_launcher(&self, change: impl FnOnce(Launcher) -> Launcher) {
        let mut launcher = self.launcher.write().unwrap_or_else(PoisonError::into_inner);
        *launcher = Arc::new(change(Launcher::clone(&launcher)));
    }
}

/// A session's view of files and processes. A sub-agent gets one of its own: it has read nothing yet.
#[derive(Debug, Default)]
pub struct Workspace {
    shared: Arc<WorkspaceShared>,
    reads: ReadLog,
    known: Arc<watch::KnownFiles>,
    background: Background,
    on_cancel: RwLock<OnCancel>,
}

impl Workspace {
    /// A view that has read nothing yet.
    pub fn new(shared: Arc<WorkspaceShared>) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    /// A sub-agent's view: it has read nothing yet, and its background processes end with it.
    pub fn of_subagent(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            known: self.known.clone(),
            on_cancel: RwLock::new(self.on_cancel()),
            ..Self::default()
        }
    }

    /// What all sessions share.
    pub fn shared(&self) -> &Arc<WorkspaceShared> {
        &self.shared
    }

    /// The editor's open documents.
    pub fn overlay(&self) -> &Overlay {
        &self.shared.overlay
    }

    /// What the model has seen of files.
    pub fn read_log(&self) -> &ReadLog {
        &self.reads
    }

    /// Files whose content is kept.
    pub fn known_files(&self) -> &watch::KnownFiles {
        &self.known
    }

    /// Who else writes files.
    pub fn external_writes(&self) -> &watch::ExternalWrites {
        self.shared.overlay.external_writes()
    }

    /// The background processes. They die with this.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// What a cancel does to a running command of the session (default: it is stopped).
    pub fn on_cancel(&self) -> OnCancel {
        *self.on_cancel.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what a cancel does to a running command, also to those that run already.
    pub fn set_on_cancel(&self, policy: OnCancel) {
        *self.on_cancel.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The roots of a session in `cwd`: the workspace folders, or `cwd` itself where there are none.
    pub fn resolve_roots(&self, cwd: &Path) -> Arc<Roots> {
        let folders = self.shared.workspace_folders();
        if folders.is_empty() {
            Arc::new(Roots::of_cwd(cwd))
        } else {
            folders
        }
    }

    /// Resolves a path as somebody wrote it. Reads link targets only, so it is quick.
    pub fn resolve_path(&self, cwd: &Path, given: &str) -> Result<Resolved, PathError> {
        resolve::resolve_path(&self.resolve_roots(cwd), self.shared.home.as_deref(), cwd, given)
    }

    /// What is special about the files that a command line names. Looks at names on the disk, so it blocks.
    pub fn look_up_files(&self, cwd: &Path, files: &CommandFiles) -> Vec<FileFinding> {
        command_files::look_up(&self.resolve_roots(cwd), self.shared.home.as_deref(), cwd, files)
    }

    /// How the resolved path `real` is told to the model, so that it leads back.
    pub fn format_for_model(&self, cwd: &Path, real: &Path) -> String {
        let resolved = resolve::real_path(cwd);
        let cwd = resolved.as_deref().unwrap_or(cwd);
        resolve::for_model(&self.resolve_roots(cwd), cwd, real)
    }

    /// A file's present text: the editor's where it is not saved, else the disk's. Blocks.
    pub fn load_file(&self, path: &Path) -> Result<LoadedFile, LoadError> {
        load::load_file(&self.shared.overlay, path)
    }

    /// Waits until nobody else writes the resolved `path`; held while it is read, changed and written.
    pub async fn lock(&self, path: &Path) -> OwnedMutexGuard<()> {
        let guard = self.shared.locks.lock(path).await;
        self.external_writes().write(path);
        guard
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn folders_are_replaced_at_run_time() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let folder = |name: &str| Folder {
            name: name.to_owned(),
            path: base.join(name),
        };
        let shared = WorkspaceShared::new(&[], None);
        let session = Workspace::new(shared.clone());
        let inside = |given: &str| session.resolve_path(&base.join("a"), given).unwrap().inside;
        // No folders: the session's cwd is the root.
        assert_eq!((inside("x"), inside("../b/x")), (true, false));
        shared.set_folders(&[folder("a"), folder("b")]);
        assert_eq!((inside("x"), inside("../b/x")), (true, true));
        shared.set_folders(&[folder("b")]);
        assert_eq!((inside("x"), inside("../b/x")), (false, true));
        assert_eq!(
            session.format_for_model(&base.join("a"), &base.join("b/x")),
            "b/x"
        );
    }
}
