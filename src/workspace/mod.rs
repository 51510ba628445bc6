//! Files inside the roots, unsaved buffers, edits, and child processes.
//!
//! Knows the disk and processes. Must not know tools, models, session histories, or clients. Anything that resolves
//! paths, reads, or writes here blocks: call it off the async threads.
//! Start reading at [`Workspace`], the view of one session, and [`WorkspaceShared`], which all sessions use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

mod background;
pub mod checkpoint;
mod command_files;
pub mod command_sandbox;
pub mod diff;
pub mod edit;
pub mod excluded_files;
pub mod file_stamp;
mod folder_watch;
pub mod git_files;
mod git_folder;
mod git_guard;
pub mod git_index;
mod git_names;
mod git_reader;
pub mod git_summary;
pub mod git_traces;
pub mod ignore_rules;
mod left_files;
mod line_diff;
mod live_tree;
pub mod load;
pub mod media_file;
pub mod notebook;
pub mod overlay;
mod own_command;
pub mod own_files;
pub mod process;
pub mod prompts;
mod read_deny;
mod read_log;
mod real_path;
pub mod reference;
mod reserved_names;
pub mod resolve;
mod roots;
pub mod running_commands;
mod sandbox_access;
pub mod sandbox_method;
mod secret_links;
mod steering;
mod steering_change;
mod steering_record;
mod steering_snapshot;
mod steering_watch;
pub mod text_edits;
pub mod text_file;
pub mod tree;
pub mod watch;
pub mod write;

pub use background::{
    Background, BackgroundError, BackgroundOutput, BackgroundStatus, GatheredOutput, MAX_BACKGROUND,
    MakeCollector, OutputCollector, StartedCommand, StopOnCancel,
};
use git_reader::GitReader;
pub use left_files::LeftFiles;
pub use live_tree::LiveTree;
pub use load::{LoadError, LoadedFile};
pub use overlay::{Buffer, OpenedDocument, Overlay};
pub use own_command::explain_other_folder;
pub use read_deny::ReadDeny;
pub use read_log::{ReadLog, SeenVersion};
pub use resolve::{PathError, ResolvedPath};
pub use roots::{Folder, Root, Roots};
pub use sandbox_access::{CommandConfinement, SandboxAccess};
pub use steering_change::{SteeringChange, SteeringOutcome};
pub use steering_watch::{EarlierChanges, WatchedCommand};
pub use write::{WriteError, WriteLocks};

pub use crate::proxy::{HostPrompt, NoPrompt};
pub use crate::sandbox::PathRule;
use crate::sandbox::find_outer_repository;

use crate::proxy::{CommandProxy, SessionHosts};
use command_sandbox::{CallSandbox, CommandPlace, SandboxDetection, SessionTemp};
use git_guard::GitGuard;
use git_names::GitNames;
use live_tree::LiveTrees;
use process::{Command, Launcher, SpawnError, StopMode};
use running_commands::RunningCommands;
use secret_links::SecretLinkCache;
use steering_watch::SteeringWatch;

use crate::base::spawn::run_blocking;
use crate::config::{FolderItem, SandboxSettings};
use crate::domain::{CommandFiles, FileFinding, FindingKind, SandboxPolicy};

/// The folder in the data folder that says what background processes may change.
const STEERING_RECORDS: &str = "watched-files";

/// What a cancel does to a running command (R-CANCEL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancel {
    #[default]
    Interrupt,
    /// Lets it finish for up to this long before it is interrupted.
    Finish(Duration),
}

impl From<OnCancel> for StopMode {
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
    /// Whether the user trusts each folder that is known.
    trusted: RwLock<BTreeMap<PathBuf, bool>>,
    /// The entries of `read_deny` in the settings of each folder.
    read_deny: RwLock<BTreeMap<PathBuf, Vec<String>>>,
    /// Our own data: keys, sessions, and copies of files.
    data_folder: RwLock<Option<PathBuf>>,
    secret_links: Arc<SecretLinkCache>,
    git_guard: GitGuard,
    git_names: GitNames,
    sandbox: SandboxDetection,
    steering: SteeringWatch,
    live_trees: LiveTrees,
}

impl WorkspaceShared {
    /// Creates the shared state for these workspace folders; `home` is the folder that `~` stands for.
    pub fn new(folders: &[Folder], home: Option<PathBuf>) -> Arc<Self> {
        let shared = Self {
            home,
            ..Self::default()
        };
        shared.set_folders(folders);
        Arc::new(shared)
    }

    /// Replaces the workspace folders; paths resolved from now on use the new ones.
    pub fn set_folders(&self, folders: &[Folder]) {
        let roots = Arc::new(Roots::new(folders));
        let paths: Vec<PathBuf> = roots.iter().map(|root| root.path().to_path_buf()).collect();
        self.change_launcher(|launcher| launcher.add_workspace_folders(paths));
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// Notes that sessions work in a folder, which may not be a workspace folder. It does not provide programs that we
    /// choose ourselves, nor do the repositories around it. Blocks briefly.
    pub fn note_session_folder(&self, folder: &Path) {
        let folders = process::list_folders_without_programs(folder, self.home.as_deref());
        self.change_launcher(|launcher| launcher.add_workspace_folders(folders));
    }

    /// Returns the current workspace folders; empty if the client named none.
    pub fn workspace_folders(&self) -> Arc<Roots> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the editor's open documents.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Returns the launcher of child processes.
    pub fn launcher(&self) -> Arc<Launcher> {
        self.launcher
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps what background processes may change in our data folder, so that the next agentls finds it. That folder is a
    /// secret, and its keys are under any other name, too.
    pub fn use_data_folder(&self, data: &Path) {
        self.steering.keep_records(data.join(STEERING_RECORDS));
        *self.data_folder.write().unwrap_or_else(PoisonError::into_inner) = Some(data.to_owned());
    }

    /// Replaces the launcher (default: this binary as the helper, no variables stripped).
    pub fn set_launcher(&self, launcher: Launcher) {
        *self.launcher.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(launcher);
    }

    /// Replaces the names of the variables that no child receives from now on (R-SEC).
    pub fn set_stripped_env(&self, names: BTreeSet<String>) {
        self.change_launcher(|launcher| launcher.with_stripped_env(names));
    }

    /// Records whether the user trusts a folder.
    pub fn set_trusted(&self, folder: &Path, trusted: bool) {
        let mut folders = self.trusted.write().unwrap_or_else(PoisonError::into_inner);
        folders.insert(folder.to_path_buf(), trusted);
    }

    /// Returns whether the user trusts a folder: the nearest known one, itself or around it, decides.
    pub fn is_trusted(&self, folder: &Path) -> bool {
        let folders = self.trusted.read().unwrap_or_else(PoisonError::into_inner);
        let known = folder.ancestors().find_map(|around| folders.get(around));
        known.copied().unwrap_or(false)
    }

    /// Replaces the paths that need approval to be read by the settings of a folder.
    pub fn set_read_deny(&self, folder: &Path, entries: Vec<String>) {
        let mut all = self.read_deny.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(folder.to_path_buf(), entries);
    }

    /// Returns the paths that need approval to be read in a session in `cwd`, by the settings of the folders around it;
    /// for `None`, by those of any folder. Blocks briefly.
    pub fn read_deny(&self, cwd: Option<&Path>) -> ReadDeny {
        let entries: Vec<PathBuf> = {
            let all = self.read_deny.read().unwrap_or_else(PoisonError::into_inner);
            let joined = all
                .iter()
                .filter(|(folder, _)| cwd.is_none_or(|cwd| cwd.starts_with(folder)))
                .flat_map(|(folder, entries)| entries.iter().map(|entry| folder.join(entry)));
            joined.collect()
        };
        // Reads the disk, so not under the lock.
        let data = self
            .data_folder
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let keys = data
            .iter()
            .flat_map(|data| ["keys.json", "mcp-tokens"].map(|name| data.join(name)));
        let keys: Vec<PathBuf> = keys.collect();
        let denied =
            ReadDeny::new(entries).with_links(self.home.as_deref(), cwd, &keys, self.secret_links.clone());
        // A workspace in it would have nothing else.
        match data.filter(|data| cwd.is_none_or(|cwd| !cwd.starts_with(data))) {
            Some(data) => denied.with_folder(data),
            None => denied,
        }
    }

    /// Returns the command, kept from running what a repository around its folder names, unless the user trusts that
    /// folder and `cwd`, the session's. The settings say whether git's listing of those names is confined.
    pub async fn guard_git(&self, cwd: &Path, settings: &Arc<SandboxSettings>, command: Command) -> Command {
        let folder = command.folder().to_owned();
        // A command that starts elsewhere can change to `cwd`.
        if self.is_trusted(cwd) && self.is_trusted(&folder) {
            command
        } else {
            let git = self.git_reader(settings.clone());
            self.git_guard.guard_command(&git, &folder, command).await
        }
    }

    /// Returns git for our own reading; the settings say whether it is confined.
    pub fn git_reader(&self, settings: Arc<SandboxSettings>) -> GitReader<'_> {
        GitReader {
            launcher: self.launcher(),
            detection: &self.sandbox,
            home: self.home.clone(),
            settings,
        }
    }

    /// Returns how commands are confined on this machine.
    pub fn sandbox(&self) -> &SandboxDetection {
        &self.sandbox
    }

    /// Lists what git runs in a folder only if the user trusts it.
    pub async fn list_git_activations(&self, folder: &Path) -> Vec<FolderItem> {
        let settings = Arc::default();
        self.git_guard
            .list_activations(&self.git_reader(settings), folder)
            .await
    }

    /// Replaces the launcher; a start in progress keeps the one that it took.
    fn change_launcher(&self, change: impl FnOnce(Launcher) -> Launcher) {
        let mut launcher = self.launcher.write().unwrap_or_else(PoisonError::into_inner);
        *launcher = Arc::new(change(Launcher::clone(&launcher)));
    }
}

/// The folders that a client has given one session, instead of the workspace folders. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SessionFolders(Arc<RwLock<Option<Arc<Roots>>>>);

impl SessionFolders {
    /// Replaces the folders; paths resolved from now on use the new ones.
    pub fn set(&self, roots: Option<Roots>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = roots.map(Arc::new);
    }

    /// Returns whether folders are set, or a session uses them.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.get().is_some()
    }

    /// Returns the folders; `None` if none are set.
    pub fn get(&self) -> Option<Arc<Roots>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A session's view of files and processes. A sub-agent has its own, which has read nothing yet.
#[derive(Debug, Default)]
pub struct Workspace {
    shared: Arc<WorkspaceShared>,
    folders: SessionFolders,
    read_log: ReadLog,
    known: Arc<watch::KnownFiles>,
    running_commands: Arc<RunningCommands>,
    live_tree: Mutex<Option<Arc<LiveTree>>>,
    background: Background,
    /// What ends the background processes with it; `None` for the session.
    background_owner: Option<&'static str>,
    on_cancel: RwLock<OnCancel>,
    temp: SessionTemp,
    has_explained_submodules: AtomicBool,
    hosts: Arc<SessionHosts>,
}

impl Workspace {
    /// Creates a view that has read nothing yet.
    pub fn new(shared: Arc<WorkspaceShared>) -> Self {
        Self::with_folders(shared, SessionFolders::default())
    }

    /// Creates a view of a session with folders of its own.
    pub fn with_folders(shared: Arc<WorkspaceShared>, folders: SessionFolders) -> Self {
        Self {
            shared,
            folders,
            ..Self::default()
        }
    }

    /// Creates a sub-agent's view: it has read nothing yet, and its background processes end with it.
    pub fn of_subagent(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            folders: self.folders.clone(),
            // Kept contents are valid for every agent, but what was read is not.
            known: self.known.clone(),
            running_commands: self.running_commands.clone(),
            temp: self.temp.clone(),
            hosts: self.hosts.clone(),
            on_cancel: RwLock::new(self.on_cancel()),
            background_owner: Some("this agent"),
            ..Self::default()
        }
    }

    /// Returns a temporary folder that ends with this; `None` if it cannot be created. Blocks briefly.
    pub fn temp_folder(&self) -> Option<&Path> {
        self.temp.path()
    }

    /// Returns what all sessions share.
    pub fn shared(&self) -> &Arc<WorkspaceShared> {
        &self.shared
    }

    /// Returns the editor's open documents.
    pub fn overlay(&self) -> &Overlay {
        &self.shared.overlay
    }

    /// Returns the record of what the model has seen of files.
    pub fn read_log(&self) -> &ReadLog {
        &self.read_log
    }

    /// Returns the files whose content is kept.
    pub fn known_files(&self) -> &watch::KnownFiles {
        &self.known
    }

    /// Returns the session's commands that run, sub-agents' included.
    pub fn running_commands(&self) -> &RunningCommands {
        &self.running_commands
    }

    /// Returns the files below the roots of a session in `cwd`, shared with the sessions there.
    pub fn live_tree(&self, cwd: &Path) -> Arc<LiveTree> {
        let roots = self.resolve_roots(cwd);
        let roots: Vec<PathBuf> = roots.iter().map(|root| root.path().to_owned()).collect();
        let mut held = self.live_tree.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref().filter(|tree| tree.roots() == roots) {
            Some(tree) => tree.clone(),
            None => held.insert(self.shared.live_trees.get(roots)).clone(),
        }
    }

    /// Returns the record of writes by others.
    pub fn external_writes(&self) -> &watch::ExternalWrites {
        self.shared.overlay.external_writes()
    }

    /// Returns the background processes. They end with this view.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// Names for the model what ends the background processes with it.
    pub fn background_owner(&self) -> &'static str {
        self.background_owner.unwrap_or("the session")
    }

    /// Returns what a cancel does to a running command of the session (default: interrupts it).
    pub fn on_cancel(&self) -> OnCancel {
        *self.on_cancel.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what a cancel does to a command, for those that are running too.
    pub fn set_on_cancel(&self, policy: OnCancel) {
        *self.on_cancel.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Returns the roots of a session in `cwd`: its own folders, or else the workspace folders, or `cwd` itself if there
    /// are none.
    pub fn resolve_roots(&self, cwd: &Path) -> Arc<Roots> {
        if let Some(own) = self.folders.get() {
            return own;
        }
        let folders = self.shared.workspace_folders();
        if folders.is_empty() {
            Arc::new(Roots::of_cwd(cwd))
        } else {
            folders
        }
    }

    /// Confines a command that runs in `cwd`, if the settings and this machine allow that.
    ///
    /// # Errors
    /// The sandbox is required, and does not hold in full on this machine.
    pub async fn confine_command(
        &self,
        cwd: &Path,
        sandbox: &CallSandbox,
        command: Command,
    ) -> Result<Command, SpawnError> {
        let folders = self.list_folders(cwd).await;
        let named = match sandbox.policy {
            SandboxPolicy::Workspace if sandbox.settings.enabled => {
                self.list_named_files(&folders, sandbox).await
            }
            SandboxPolicy::Workspace | SandboxPolicy::ReadOnly | SandboxPolicy::Off => Vec::new(),
        };
        let place = CommandPlace {
            cwd,
            detection: &self.shared.sandbox,
            temp: &self.temp,
            folders,
            read_only: named,
            home: self.shared.home.clone(),
        };
        command_sandbox::confine_command(place, sandbox, command).await
    }

    /// Takes what confined commands left in their temporary folder since the last call; `None` if that is nothing.
    /// `access` is that of the last command.
    pub async fn take_left_files(&self, access: &SandboxAccess) -> Option<LeftFiles> {
        self.temp.take_left_files(access).await
    }

    /// Gives a confined command its proxy, if its sandbox has a place for one. `prompt` asks about hosts that neither the
    /// settings nor an answer in this session allow.
    pub fn connect_command(
        &self,
        settings: &SandboxSettings,
        prompt: Arc<dyn HostPrompt>,
        command: Command,
    ) -> Command {
        if !command.needs_proxy() {
            return command;
        }
        let proxy = CommandProxy::new(settings.host_rules(), self.hosts.clone(), prompt);
        command.proxy(Arc::new(proxy))
    }

    /// Lists the folders that confined commands write: the workspace folders, and the `.git` of repositories around them.
    pub async fn list_folders(&self, cwd: &Path) -> Vec<PathBuf> {
        let roots = self.resolve_roots(cwd);
        let mut folders: Vec<PathBuf> = roots.iter().map(|root| root.path().to_owned()).collect();
        let (inner, home) = (folders.clone(), self.shared.home.clone());
        let outer = run_blocking(move || {
            let home = home.map(|home| resolve::real_path(&home).unwrap_or(home));
            let found = inner
                .iter()
                .filter_map(|folder| find_outer_repository(folder, home.as_deref()));
            // Several folders may be in the same repository, and one of them may be its root.
            let found = found.filter(|dot_git| !inner.iter().any(|folder| dot_git.parent() == Some(folder)));
            found.collect::<BTreeSet<PathBuf>>()
        });
        folders.extend(outer.await.unwrap_or_default());
        folders
    }

    /// Resolves a path as a user or a model wrote it. Reads only link targets, so it is quick.
    ///
    /// # Errors
    /// The path cannot be resolved; see [`PathError`].
    pub fn resolve_path(&self, cwd: &Path, given: &str) -> Result<ResolvedPath, PathError> {
        let home = self.shared.home.as_deref();
        let mut resolved = resolve::resolve_path(&self.resolve_roots(cwd), home, cwd, given)?;
        resolved.secret |= self.shared.read_deny(Some(cwd)).covers(&resolved.absolute);
        Ok(resolved)
    }

    /// Returns what is special about the files that a command line names. Reads names on the disk, so it blocks.
    pub fn look_up_files(&self, cwd: &Path, files: &CommandFiles) -> Vec<FileFinding> {
        let (roots, denied) = (self.resolve_roots(cwd), self.shared.read_deny(Some(cwd)));
        let launcher = self.shared.launcher();
        let programs = files.programs.iter().filter_map(|(part, name)| {
            let program = launcher.find_workspace_program(name)?;
            Some(FileFinding {
                part: *part,
                kind: FindingKind::WorkspaceProgram,
                file: program.display().to_string(),
                tracked_as: None,
            })
        });
        // First, as the reason that matters most to a user who is asked.
        let mut findings: Vec<FileFinding> = programs.collect();
        findings.extend(command_files::look_up(
            &roots,
            self.shared.home.as_deref(),
            &denied,
            cwd,
            files,
        ));
        findings
    }

    /// Returns the paths that bash makes of a word in `folder`; `None` if there are too many. Blocks.
    pub fn expand_word(&self, cwd: &Path, folder: &Path, text: &str, glob: bool) -> Option<Vec<PathBuf>> {
        let (roots, denied) = (self.resolve_roots(cwd), self.shared.read_deny(Some(cwd)));
        command_files::expand_word(&roots, self.shared.home.as_deref(), &denied, folder, (text, glob))
    }

    /// Formats the resolved path `real` for the model, such that the result resolves to it again.
    pub fn format_for_model(&self, cwd: &Path, real: &Path) -> String {
        // `for_model` needs a resolved cwd.
        let resolved = resolve::real_path(cwd);
        let cwd = resolved.as_deref().unwrap_or(cwd);
        resolve::for_model(&self.resolve_roots(cwd), cwd, real)
    }

    /// Loads a file's current text: the editor's if it is unsaved, else the disk's. Blocks.
    ///
    /// # Errors
    /// The file has no text; see [`LoadError`].
    pub fn load_file(&self, path: &Path) -> Result<LoadedFile, LoadError> {
        load::load_file(&self.shared.overlay, path)
    }

    /// Waits until no other call writes the resolved `path`. Hold the guard while reading, changing, and writing it.
    pub async fn lock(&self, path: &Path) -> OwnedMutexGuard<()> {
        let guard = self.lock_unannounced(path).await;
        self.announce_write(path);
        guard
    }

    /// As [`Self::lock`]. Call [`Self::announce_write`] before you write.
    pub async fn lock_unannounced(&self, path: &Path) -> OwnedMutexGuard<()> {
        self.shared.locks.lock(path).await
    }

    /// Announces a write of the resolved `path`: a command that runs meanwhile must not be charged with it. Returns the
    /// number of the announcement.
    pub fn announce_write(&self, path: &Path) -> u64 {
        self.external_writes().write(path)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn trust_in_a_folder_does_not_cover_a_known_folder_in_it() {
        let shared = WorkspaceShared::new(&[], None);
        let is_trusted = |folder: &str| shared.is_trusted(Path::new(folder));
        shared.set_trusted(Path::new("/src"), true);
        assert!(is_trusted("/src/clone/lib") && !is_trusted("/other") && !is_trusted("/src2"));
        shared.set_trusted(Path::new("/src/clone"), false);
        assert!(is_trusted("/src/mine") && !is_trusted("/src/clone") && !is_trusted("/src/clone/lib"));
        shared.set_trusted(Path::new("/src"), false);
        shared.set_trusted(Path::new("/src/clone"), true);
        assert!(is_trusted("/src/clone/lib") && !is_trusted("/src/mine"));
    }

    #[test]
    fn workspace_folders_can_be_replaced_at_run_time() {
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
        // Without folders, the session's cwd is the root.
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
