//! What the handlers share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc;

use super::error::RequestError;
use crate::base::CancellationToken;
use crate::base::uri;
use crate::domain::SessionId;
use crate::session::{Configured, Sessions};
use crate::workspace::{Folder, Shared};

/// What the handlers share.
pub(super) struct State {
    pub(super) sessions: Sessions,
    pub(super) configured: Arc<Configured>,
    pub(super) workspace: Arc<Shared>,
    /// The folder the server was started in: for clients that name none.
    pub(super) cwd: PathBuf,
    pub(super) client: Arc<Mutex<Client>>,
    /// The server ends: cancels of requests are not a person's any more.
    pub(super) ending: CancellationToken,
}

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
