//! Confines the commands of tools: finds the method once, and builds the plan of each command.
//!
//! Must not know tools or approvals. Which commands run confined is decided where they are judged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use super::left_files::{LeftFiles, LeftFilesLog};
use super::process::{Command, Launcher, SpawnError};
use super::read_deny::ReadDeny;
use super::real_path::real_path;
use super::sandbox_access::SandboxAccess;
use super::sandbox_method::{DetectedMethod, METHOD_VARIABLE, detect_sandbox_method};
use crate::base::spawn::{AbortOnDrop, run_blocking, spawn};
use crate::config::{HomeAccess, SandboxSettings};
use crate::domain::{SandboxMethod, SandboxPolicy};
use crate::sandbox::{
    CommandNeeds, PrivateTemp, SandboxScope, find_linked_repository, find_outer_repository, locate_layers,
    remove_old_layers,
};

/// What one call's command may do.
#[derive(Clone, Debug, Default)]
pub struct CallSandbox {
    pub settings: Arc<SandboxSettings>,
    pub policy: SandboxPolicy,
}

/// How commands are confined on this machine, found when the first one runs.
#[derive(Debug, Default)]
pub struct SandboxDetection {
    detected: OnceCell<DetectedMethod>,
}

impl SandboxDetection {
    /// Claims that nothing confines commands, so that no process has to find out.
    #[cfg(test)]
    pub(crate) fn assume_none(&self) {
        let none = DetectedMethod {
            method: SandboxMethod::None,
            failures: Vec::new(),
        };
        self.detected.set(none).expect("nothing was detected yet");
    }

    /// Returns the strongest method that works. Tries them on the first call, which takes some milliseconds.
    pub async fn detect(&self) -> &DetectedMethod {
        let detect = async {
            // The first part that fails names the problem, and nothing is confined in a weaker way than detected.
            let none = |reason: String| DetectedMethod {
                method: SandboxMethod::None,
                failures: vec![reason],
            };
            let forced = match read_path_variable(METHOD_VARIABLE) {
                Some(name) => match name.to_str().and_then(SandboxMethod::from_name) {
                    Some(method) => Some(method),
                    None => return none(format!("{METHOD_VARIABLE} names no method")),
                },
                None => None,
            };
            let create = || {
                PrivateTemp::remove_abandoned(&std::env::temp_dir());
                PrivateTemp::create_for_commands(&std::env::temp_dir())
            };
            match run_blocking(create)
                .await
                .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            {
                Ok(temp) => detect_sandbox_method(&Launcher::default(), forced, temp.path().to_owned()).await,
                Err(error) => none(format!("no temporary folder: {error}")),
            }
        };
        self.detected.get_or_init(|| detect).await
    }
}

/// The temporary folder of a session's commands, and their caches. They are created for the first one; the temporary
/// folder goes with the session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTemp {
    folder: Arc<OnceLock<Option<PrivateTemp>>>,
    /// Set once the missing caches of build tools were created. What goes on is the removal of old layers.
    caches: Arc<OnceCell<Option<AbortOnDrop<()>>>>,
    left_files: Arc<LeftFilesLog>,
}

impl SessionTemp {
    pub(super) fn path(&self) -> Option<&Path> {
        let create = || PrivateTemp::create_for_commands(&std::env::temp_dir()).ok();
        self.folder.get_or_init(create).as_ref().map(PrivateTemp::path)
    }

    /// Creates the missing caches of build tools, and starts to remove old layers of caches, once in a session.
    async fn create_caches(&self, scope: &SandboxScope, settings: &SandboxSettings) {
        if scope.policy != SandboxPolicy::Workspace {
            return;
        }
        let create = || async {
            let (scope, data) = (scope.clone(), settings.own_data.clone());
            // A panic leaves some missing, which only makes their programs fail.
            let _ = run_blocking(move || scope.create_missing_caches(read_path_variable)).await;
            let remove = async |data: PathBuf| {
                // A panic leaves old layers to the next session.
                let _ = run_blocking(move || remove_old_layers(&data)).await;
            };
            data.map(|data| spawn(remove(data)))
        };
        self.caches.get_or_init(create).await;
    }

    /// Takes what commands left in the folder since the last call.
    pub(super) async fn take_left_files(&self, access: &SandboxAccess) -> Option<LeftFiles> {
        let (temp, log) = (self.path()?.to_owned(), self.left_files.clone());
        let taken = run_blocking(move || {
            // The folder for temporary files may be behind a link, which is not of a command.
            let temp = real_path(&temp).unwrap_or(temp);
            log.take_new(&temp)
        });
        let (names, is_first) = taken.await.ok()?;
        (!names.is_empty()).then(|| LeftFiles {
            names,
            folder: access.visible_temp().to_owned(),
            has_own_tmp: access.has_mounts(),
            is_first,
        })
    }
}

/// Where a command runs, as far as its sandbox depends on it.
pub(super) struct CommandPlace<'a> {
    pub(super) cwd: &'a Path,
    pub(super) detection: &'a SandboxDetection,
    pub(super) temp: &'a SessionTemp,
    pub(super) folders: Vec<PathBuf>,
    /// Further paths in the folders that are not written.
    pub(super) read_only: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

/// Confines a command, if the settings and this machine allow that.
///
/// # Errors
/// The sandbox is required, and does not hold in full on this machine.
pub(super) async fn confine_command(
    place: CommandPlace<'_>,
    sandbox: &CallSandbox,
    command: Command,
) -> Result<Command, SpawnError> {
    let settings = &sandbox.settings;
    if !settings.enabled || sandbox.policy == SandboxPolicy::Off {
        return Ok(command);
    }
    let detected = place.detection.detect().await;
    detected.check_required(settings.required).map_err(refuse)?;
    if detected.method == SandboxMethod::None {
        return Ok(command);
    }
    let Some(temp) = place.temp.path() else {
        return Err(refuse("cannot create its temporary folder".to_owned()));
    };
    let needs = command.list_needs(read_path_variable);
    let (visible, shown_home) = list_visible_paths(&place, settings, needs).await;
    let (data, workspace) = (settings.own_data.clone(), place.folders.clone());
    let looked_up = run_blocking(move || {
        // The workspace folders are resolved, and are compared with it.
        let home = place.home.map(|home| real_path(&home).unwrap_or(home));
        (home, data.map(|data| locate_layers(&data, &workspace)))
    });
    let (home, cache_layers) = looked_up.await.unwrap_or_default();
    let scope = SandboxScope {
        policy: sandbox.policy,
        method: detected.method,
        workspace: place.folders,
        home,
        temp: temp.to_owned(),
        network: settings.network,
        extra_write: join_all(place.cwd, &settings.write),
        extra_hide: list_hidden(place.cwd, settings).await?,
        extra_read_only: place.read_only,
        visible,
        shown_home,
        cache_layers,
    };
    place.temp.create_caches(&scope, settings).await;
    let plan = scope.build_plan(read_path_variable);
    place.temp.left_files.add_mounted(plan.list_mounted_temporary());
    let visible_temp = plan.visible_temp().to_owned();
    Ok(command.sandbox(plan).env("TMPDIR", visible_temp))
}

/// Lists the paths that the command needs: those below the machine's temporary folders, and with an allowlist all that it
/// sees of the home folder. Some may be in folders that it writes.
async fn list_visible_paths(
    place: &CommandPlace<'_>,
    settings: &SandboxSettings,
    needs: CommandNeeds,
) -> (Vec<PathBuf>, Option<Vec<PathBuf>>) {
    let (home, workspace) = (place.home.clone(), place.folders.clone());
    let written = join_all(place.cwd, &settings.write);
    let has_allowlist = settings.read == HomeAccess::Allowlist;
    let allowed = join_all(place.cwd, &settings.read_allow);
    let listed = run_blocking(move || {
        let mut needs = CommandNeeds {
            workspace,
            temp_dir: std::env::temp_dir(),
            ..needs
        };
        // A linked work tree has most of its repository elsewhere.
        let linked = needs.workspace.iter().map(|folder| folder.join(".git"));
        let linked = linked.filter_map(|dot_git| find_linked_repository(&dot_git));
        let repositories: Vec<PathBuf> = linked.map(|(_, common)| common).collect();
        needs.folders.extend(repositories);
        let shown = has_allowlist.then(|| list_shown(&needs, home.as_deref(), &written, allowed));
        needs.folders.extend(home.into_iter().chain(written));
        (needs.list_visible_paths(), shown)
    });
    // Without it, the command sees less.
    listed
        .await
        .unwrap_or_else(|_| (Vec::new(), has_allowlist.then(Vec::new)))
}

/// Lists what a command sees of the home folder, of which it sees nothing else.
fn list_shown(
    needs: &CommandNeeds,
    home: Option<&Path>,
    written: &[PathBuf],
    allowed: Vec<PathBuf>,
) -> Vec<PathBuf> {
    let Some(home) = home else { return allowed };
    let mut needs = needs.clone();
    // Git compares the whole work tree of the repository around a workspace.
    let outer = needs
        .workspace
        .iter()
        .filter_map(|folder| find_outer_repository(folder, Some(home)));
    let roots: Vec<PathBuf> = outer
        .filter_map(|dot_git| Some(dot_git.parent()?.to_owned()))
        .collect();
    needs.folders.extend(roots);
    // A command could have made the links there, too.
    needs.workspace.extend_from_slice(written);
    let mut shown = needs.list_home_paths(home);
    // The environment may name it by either path.
    if let Ok(real) = real_path(home)
        && real != *home
    {
        shown.extend(needs.list_home_paths(&real));
    }
    shown.extend(allowed);
    shown
}

/// Returns the paths, absolute: those of the editor's settings may start at the command's folder.
fn join_all(cwd: &Path, paths: &[String]) -> Vec<PathBuf> {
    paths.iter().map(|path| cwd.join(path)).collect()
}

/// Returns the paths that commands must not read: our own files, and those of the settings.
async fn list_hidden(cwd: &Path, settings: &SandboxSettings) -> Result<Vec<PathBuf>, SpawnError> {
    let own = settings.own_secrets.clone();
    let entries = join_all(cwd, &settings.read_deny);
    let listed = run_blocking(move || ReadDeny::new(entries).list_paths());
    let too_many =
        || refuse("the patterns in [sandbox] read_deny match too many files; name folders".to_owned());
    let denied = listed.await.ok().flatten().ok_or_else(too_many)?;
    Ok(own.into_iter().chain(denied).collect())
}

fn refuse(reason: String) -> SpawnError {
    SpawnError::Sandbox { reason }
}

/// Returns a variable that commands inherit.
#[expect(
    clippy::disallowed_methods,
    reason = "commands inherit these variables, which say where their caches are"
)]
pub(super) fn read_path_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}
