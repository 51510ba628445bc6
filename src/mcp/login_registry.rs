//! Which logins at servers wait or have failed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use url::Url;

use crate::base::spawn::AbortOnDrop;
use crate::config::McpServerSettings;
use crate::domain::{McpServerState, McpServerStatus};

/// The logins that wait or have failed, by the address of their server.
#[derive(Default)]
pub(super) struct LoginRegistry {
    logins: Mutex<HashMap<Url, Login>>,
}

/// A login at one server.
pub(super) struct Login {
    pub(super) folder: PathBuf,
    pub(super) settings: McpServerSettings,
    /// The address for the browser, while it waits.
    pub(super) address: Option<Url>,
    pub(super) problem: Option<String>,
    /// Dropping it ends the login.
    pub(super) task: Option<AbortOnDrop<()>>,
}

impl Login {
    /// Returns whether it waits or has failed.
    pub(super) fn is_open(&self) -> bool {
        self.address.is_some() || self.problem.is_some()
    }
}

impl LoginRegistry {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Url, Login>> {
        // The map is consistent after every statement.
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is known of the login at a server to its status.
    pub(super) fn describe_login(&self, settings: &McpServerSettings, status: &mut McpServerStatus) {
        let Some(url) = settings.login_address() else {
            return;
        };
        let logins = self.lock();
        let Some(login) = logins.get(&url).filter(|login| login.is_open()) else {
            return;
        };
        status.login.url = login.address.as_ref().map(Url::to_string);
        if status.state == McpServerState::Idle {
            status.state = McpServerState::NeedsLogin;
        }
        if status.state == McpServerState::NeedsLogin {
            status.login.problem.clone_from(&login.problem);
        }
    }

    /// Returns the folders and servers of all logins that wait or have failed.
    pub(super) fn list_servers(&self) -> Vec<(PathBuf, McpServerSettings)> {
        let logins = self.lock();
        let servers = logins.values().filter(|login| login.is_open());
        servers
            .map(|login| (login.folder.clone(), login.settings.clone()))
            .collect()
    }

    /// Ends the logins of a folder, or all.
    pub(super) fn end_logins(&self, folder: Option<&Path>) {
        self.lock()
            .retain(|_, login| folder.is_some_and(|folder| login.folder != folder));
    }
}
