//! State that the handlers share: sessions, configuration, the client's abilities, and trust of folders.
//!
//! Decides which folder and which trust apply to a path. It never decides what a tool may do.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc;

use super::client_info::ClientInfo;
use super::error::RequestError;
use super::server_warnings::ServerWarnings;
use super::to_wire;
use crate::base::CancellationToken;
use crate::base::uri;
use crate::config::{Diagnostic, Settings};
use crate::domain::SessionId;
use crate::session::{ConfigStore, SessionManager, StoredTrust};
use crate::store::{StoreError, StoreHealth};
use crate::transport::outbox::{Outbox, Outgoing};
use crate::workspace::resolve::real_path;
use crate::workspace::{Folder, Roots, WorkspaceShared};

/// State that the handlers share.
pub(super) struct ServerContext {
    pub(super) sessions: SessionManager,
    pub(super) configured: Arc<ConfigStore>,
    pub(super) workspace: Arc<WorkspaceShared>,
    /// The folder where the server was started; used for clients that name no folder.
    pub(super) cwd: PathBuf,
    pub(super) client: Arc<Mutex<ClientInfo>>,
    pub(super) outbox: Outbox,
    pub(super) notices: ServerWarnings,
    /// Called with the settings of the first folder after each read.
    pub(super) on_settings: SettingsHook,
    /// Set at the end of the server: canceled requests no longer come from the user.
    pub(super) ending: CancellationToken,
}

/// A function that is called with the settings after they are read.
pub type SettingsHook = Box<dyn Fn(&Settings) + Send + Sync>;

impl ServerContext {
    pub(super) fn lock_client(&self) -> MutexGuard<'_, ClientInfo> {
        // The lock guards plain values: a panic elsewhere leaves them valid.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the paths of the workspace folders, or the start folder if there are none.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let folders: Vec<PathBuf> = self
            .lock_client()
            .folders
            .iter()
            .map(|folder| folder.path.clone())
            .collect();
        if folders.is_empty() {
            vec![self.cwd.clone()]
        } else {
            folders
        }
    }

    /// Applies the workspace folders of the client, and warns if it names more than are used.
    pub(super) fn apply_folders(&self) {
        let client = self.lock_client();
        self.workspace.set_folders(&client.folders);
        self.notices.set_unused_folders(client.describe_unused_folders());
    }

    /// Returns the same folders as roots, for checks of paths.
    pub(super) fn build_roots(&self) -> Roots {
        let folder = |path| Folder {
            name: String::new(),
            path,
        };
        let folders: Vec<Folder> = self.folders().into_iter().map(folder).collect();
        Roots::new(&folders)
    }

    /// Returns the workspace folder that contains `cwd`, or `cwd` itself. Its settings, grants and trust apply there.
    pub(super) fn find_folder(&self, cwd: &Path) -> PathBuf {
        self.lock_client()
            .folders
            .iter()
            .map(|folder| &folder.path)
            .filter(|folder| cwd.starts_with(folder))
            // Workspace folders may be nested: the innermost one applies.
            .max_by_key(|folder| folder.components().count())
            .cloned()
            .unwrap_or_else(|| cwd.to_path_buf())
    }

    /// Applies the settings for the whole server and reports configuration problems to the user.
    pub(super) fn apply_settings(&self) {
        for (n, folder) in self.folders().iter().enumerate() {
            let loaded = self.configured.folder_config(folder);
            if n == 0 {
                self.outbox
                    .set_delta_frame(loaded.loaded.settings.server.delta_frame_ms.0);
                (self.on_settings)(&loaded.loaded.settings);
            }
            self.report_problems(folder);
        }
    }

    /// Reads all loaded configuration again. Returns the problems in the workspace folders' own files.
    pub(super) fn reload_config(&self) -> Vec<Diagnostic> {
        let folders = self.folders();
        let problems = self.configured.reload_config(&folders);
        self.apply_settings();
        for other in self.notices.folders() {
            if !folders.contains(&other) {
                self.report_problems(&other);
            }
        }
        problems
    }

    /// Reports the problems in a folder's configuration, once after each read. They stay in the status while they last.
    pub(super) fn report_problems(&self, folder: &Path) {
        let known = self.configured.folder_config(folder);
        let lines = known.loaded.diagnostics.iter().map(ToString::to_string);
        let sandbox = &known.loaded.settings.sandbox;
        let network = sandbox.enabled.then_some(sandbox.network);
        self.notices.set_folder(folder, lines.collect(), network);
        for problem in known.untold_problems() {
            let body = to_wire::encode_frame(&to_wire::server_warning("config", &problem.to_string()));
            self.outbox.push(Outgoing::Notification {
                body,
                group: None,
                permit: None,
            });
        }
    }

    /// Decides whether a folder is trusted, before its settings are read.
    ///
    /// A decision of the user (`agent/setTrust`) takes precedence. Otherwise the editor's option applies, which covers
    /// its workspace folders only.
    pub(super) async fn resolve_trust(&self, folder: &Path) {
        loop {
            let (decisions, trust_override) = {
                let client = self.lock_client();
                (client.decisions, client.trust_overrides.get(folder).cloned())
            };
            let stored = self.sessions.read_trust(folder).await;
            let client = self.lock_client();
            if client.decisions != decisions {
                // A decision arrived during the read, and the read may have missed it.
                continue;
            }
            // Fail closed: an unreadable store must not make a folder trusted.
            let stored = stored.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read a folder's trust; treating it as untrusted");
                StoredTrust::denied()
            });
            let (trusted, accepted) = match &trust_override {
                Some(trust_override) => (trust_override.trusted, trust_override.accepted.clone()),
                None => (
                    stored.trusted.unwrap_or_else(|| client.is_trusted_folder(folder)),
                    stored.accepted,
                ),
            };
            let mut redirects = stored.redirects;
            if let Some(trust_override) = trust_override {
                if !trust_override.keeps_stored {
                    redirects.clear();
                }
                redirects.extend(trust_override.redirects);
            }
            return self.configured.set_trust(folder, trusted, accepted, &redirects);
        }
    }

    /// Returns how many decisions about trust the user has made.
    pub(super) fn count_trust_decisions(&self) -> u64 {
        self.lock_client().count_decisions()
    }

    /// Stores whether a folder is trusted, and which of its redirects (provider and target) are accepted.
    ///
    /// The decision applies immediately, and is in the store on return.
    ///
    /// # Errors
    /// A [`StoreError`] if the store has ended or refuses the write.
    pub(super) async fn set_trust(
        &self,
        folder: &Path,
        trusted: bool,
        redirects: Vec<(String, String)>,
    ) -> Result<(), StoreError> {
        let accepted = trusted.then(|| self.configured.describe_folder(folder).fingerprint);
        let number = self
            .lock_client()
            .decide_trust(folder, trusted, accepted.clone(), &redirects);
        self.resolve_trust(folder).await;
        if self.folders().iter().any(|known| known == folder) {
            self.apply_settings();
        } else if self.notices.folders().iter().any(|known| known == folder) {
            self.report_problems(folder);
        }
        let health = self
            .sessions
            .store_trust(folder, trusted, accepted, redirects)
            .await?;
        // A degraded store may still hold the older decision on disk: keep this one in memory.
        if health == StoreHealth::Ok {
            let mut client = self.lock_client();
            // A later decision has its own number and must survive until it is stored too.
            if client
                .trust_overrides
                .get(folder)
                .is_some_and(|last| last.number == number)
            {
                client.trust_overrides.remove(folder);
            }
        }
        Ok(())
    }
}

/// Returns the form in which folders are compared and stored: links resolved, no trailing slash.
pub(super) fn folder_key(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.components().collect())
}

/// Parses a folder parameter and returns its key.
pub(super) fn folder_param(field: &'static str, text: &str) -> Result<PathBuf, jsonrpc::Error> {
    Ok(folder_key(&path_param(field, text)?))
}

/// Parses a path parameter: a file URI or an absolute path.
fn path_param(field: &'static str, text: &str) -> Result<PathBuf, jsonrpc::Error> {
    let path = if text.contains("://") {
        uri::path_of(text).map_err(|error| invalid_param(field, error.to_string()))?
    } else {
        PathBuf::from(text)
    };
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(invalid_param(
            field,
            format!("{text:?} is neither a file URI nor an absolute path"),
        ))
    }
}

/// Converts a session id parameter. An unknown id is detected later, by the session manager.
pub(super) fn session_param(text: &str) -> SessionId {
    SessionId::from(text)
}

/// Builds the error for a wrong parameter.
pub(super) fn invalid_param(field: &'static str, message: impl Into<String>) -> jsonrpc::Error {
    RequestError::invalid_param(field, message).into()
}
