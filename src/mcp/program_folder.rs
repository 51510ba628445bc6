//! The folder in which a server's program runs.
//!
//! `npx`, `python -m` and the like look for code there first. So a program of the user's has a folder of its own, where no
//! repository has put anything. It must not start anything.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::connection::McpError;
use super::server_state::ServerShared;
use crate::base::spawn::run_blocking;
use crate::workspace::Workspace;

/// Returns the folder in which a server's program runs.
///
/// # Errors
/// That folder is not trusted, or cannot be created.
pub(super) async fn choose_folder(shared: &ServerShared, workspace: &Workspace) -> Result<PathBuf, McpError> {
    let setup = &shared.setup;
    if let Some(stated) = &setup.settings.cwd {
        return Ok(stated.clone());
    }
    if setup.settings.in_workspace && !shared.host.workspace.is_trusted(&setup.folder) {
        let reason = "it runs in the workspace folder (`in_workspace`), which you have not trusted";
        return Err(McpError::Failed(reason.to_owned()));
    }
    if !setup.settings.has_own_folder() {
        return Ok(setup.folder.clone());
    }
    let folder = match &shared.host.own_folders {
        Some(folders) => folders.join(to_folder_name(&setup.settings.name)),
        // It ends with the program.
        None => {
            let temp = workspace.temp_folder().map(|temp| temp.join("mcp-server"));
            temp.ok_or_else(|| McpError::Failed("cannot create its temporary folder".to_owned()))?
        }
    };
    let shown = folder.display().to_string();
    let created = run_blocking(move || create_own_folder(&folder).map(|()| folder)).await;
    let failed = |error: String| McpError::Failed(format!("cannot create its folder {shown}: {error}"));
    created
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))
}

/// Returns the name of a server, which a client may have chosen, as that of a folder.
fn to_folder_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{plain:_<1}")
}

/// Creates a folder in which npm looks for packages, and not in a folder above it.
fn create_own_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(folder.join("node_modules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_become_names_of_folders() {
        for (name, folder) in [
            ("tickets", "tickets"),
            ("My-Server_2", "My-Server_2"),
            ("../../x", "______x"),
            ("ü", "_"),
            ("", "_"),
        ] {
            assert_eq!(to_folder_name(name), folder);
        }
    }
}
