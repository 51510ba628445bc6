//! Keeps a workspace from providing what the hooks and tools of the user's own settings run.
//!
//! They work on the project, so they run in the session's folder: in the sandbox, or if the user trusts the folder. Must
//! not decide what is confined; a command comes here once that is known.

use std::path::Path;

use super::WorkspaceShared;
use super::process::Command;

/// Where an own command runs that must not run in the session's folder. Nothing in a sandbox can put code there.
const OTHER_FOLDER: &str = "/";

impl WorkspaceShared {
    /// Returns a command of the user's own settings, confined or not, such that a folder that is not trusted decides
    /// nothing about what runs outside of the sandbox.
    ///
    /// `PATH` and variables such as `PYTHONPATH` lead into workspace folders only if the user trusts `cwd`.
    pub fn shield_own_command(&self, cwd: &Path, command: Command) -> Command {
        if self.is_trusted(cwd) {
            return command;
        }
        let is_confined = command.confinement().is_some();
        let command = command.look_up_outside();
        if is_confined {
            command
        } else {
            command.current_dir(OTHER_FOLDER)
        }
    }
}

/// Explains to people and the model why an own command does not run in `cwd`. It may not have started.
pub fn explain_other_folder(cwd: &Path) -> String {
    format!(
        "It runs in {OTHER_FOLDER}, since it is not confined and you have not trusted {}",
        cwd.display()
    )
}
