//! What the handlers share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc;

use super::error::RequestError;
use super::to_wire;
use crate::base::CancellationToken;
use crate::base::uri;
use crate::config::Settings;
use crate::domain::SessionId;
use crate::session::{Configured, Sessions};
use crate::transport::outbox::{Item, Outbox};
use crate::workspace::{Folder, Shared};

/// What the handlers share.
pub(super) struct State {
    pub(super) sessions: Sessions,
    pub(super) configured: Arc<Configured>,
    pub(super) workspace: Arc<Shared>,
    /// The folder the server was started in: for clients that name none.
    pub(super) cwd: PathBuf,
    pub(super) client: Arc<Mutex<Client>>,
    pub(super) outbox: Outbox,
    /// Told the settings of the first folder when they were read.
    pub(super) on_settings: SettingsHook,
    /// The server ends: cancels of requests are not a person's any more.
    pub(super) ending: CancellationToken,
}

/// Told settings when they were read.
pub type SettingsHook = Box<dyn Fn(&Settings) + Send + Sync>;

/// What the client said of itself.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) utf8: bool,
    pub(super) folders: Vec<Folder>,
    /// The editor's own word on trust, for all workspace folders.
    pub(super) trusted: Option<bool>,
}

impl State {
    pub(super) fn client(&self) -> MutexGuard<'_, Client> {
        // Plain values: a panic elsewhere does not spoil them.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace folders' paths; the start folder where there is none.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let folders: Vec<PathBuf> = self
            .client()
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

    /// The workspace folder that `cwd` is in, whose settings, grants and trust hold there; else itself.
    pub(super) fn folder_of(&self, cwd: &Path) -> PathBuf {
        self.client()
            .folders
            .iter()
            .map(|folder| &folder.path)
            .filter(|folder| cwd.starts_with(folder))
            .max_by_key(|folder| folder.components().count())
            .cloned()
            .unwrap_or_else(|| cwd.to_path_buf())
    }

    /// Takes over what concerns the server as a whole, and tells the person what is wrong in the files.
    pub(super) fn apply_settings(&self) {
        for (n, folder) in self.folders().iter().enumerate() {
            let loaded = self.configured.folder(folder);
            if n == 0 {
                self.outbox
                    .set_delta_frame(loaded.loaded.settings.server.delta_frame);
                (self.on_settings)(&loaded.loaded.settings);
            }
            self.tell_problems(folder);
        }
    }

    /// Warns of what is wrong in a folder's configuration, once after each time it was read.
    pub(super) fn tell_problems(&self, folder: &Path) {
        for problem in self.configured.folder(folder).untold_problems() {
            let body = to_wire::frame(&to_wire::server_warning("config", &problem.to_string()));
            self.outbox.push(Item::Notification {
                body,
                group: None,
                permit: None,
            });
        }
    }

    /// Makes what the store knows of a folder's trust known, before its settings are read.
    pub(super) async fn learn_trust(&self, folder: &Path) {
        let said = self.client().trusted;
        let trusted = match said {
            Some(trusted) => Some(trusted),
            None => {
                let asked = self
                    .sessions
                    .house()
                    .store
                    .reader
                    .trust(&folder.display().to_string())
                    .await;
                asked.unwrap_or_else(|error| {
                    tracing::warn!(%error, "trust was not read");
                    None
                })
            }
        };
        if let Some(trusted) = trusted {
            self.configured.set_trust(folder, trusted);
        }
    }
}

/// A path from a URI or an absolute path, as clients send it.
pub(super) fn path_param(field: &'static str, text: &str) -> Result<PathBuf, jsonrpc::Error> {
    let path = match text.contains("://") {
        true => uri::path_of(text).map_err(|error| bad(field, error.to_string()))?,
        false => PathBuf::from(text),
    };
    match path.is_absolute() {
        true => Ok(path),
        false => Err(bad(
            field,
            format!("{text:?} is neither a file URI nor an absolute path"),
        )),
    }
}

/// A session id, as clients send it.
pub(super) fn session_param(text: &str) -> SessionId {
    SessionId::from(text)
}

/// A param that is wrong.
pub(super) fn bad(field: &'static str, message: impl Into<String>) -> jsonrpc::Error {
    RequestError::bad(field, message).into()
}
