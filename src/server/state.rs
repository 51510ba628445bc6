//! What the handlers share.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc;

use super::editor::ClientEditor;
use super::error::RequestError;
use super::server_warnings::ServerWarnings;
use super::to_wire;
use crate::base::CancellationToken;
use crate::base::{clock, uri};
use crate::config::{Diagnostic, Settings};
use crate::domain::SessionId;
use crate::session::{ConfigStore, SessionManager};
use crate::store::{StoreError, StoreHealth, StoreWrite};
use crate::tool::EditorAbilities;
use crate::transport::outbox::{Outbox, Outgoing};
use crate::workspace::resolve::real_path;
use crate::workspace::{Folder, Roots, WorkspaceShared};

/// What the handlers share.
pub(super) struct ServerState {
    pub(super) sessions: SessionManager,
    pub(super) configured: Arc<ConfigStore>,
    pub(super) workspace: Arc<WorkspaceShared>,
    /// The folder the server was started in: for clients that name none.
    pub(super) cwd: PathBuf,
    pub(super) client: Arc<Mutex<ClientInfo>>,
    pub(super) editor: Arc<ClientEditor>,
    pub(super) outbox: Outbox,
    pub(super) notices: ServerWarnings,
    /// Told the settings of the first folder when they were read.
    pub(super) on_settings: SettingsHook,
    /// The server ends: cancels of requests are not a person's any more.
    pub(super) ending: CancellationToken,
}

/// Told settings when they were read.
pub type SettingsHook = Box<dyn Fn(&Settings) + Send + Sync>;

/// What the client said of itself.
#[derive(Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) utf8: bool,
    /// It shows limits and questions to a person.
    pub(super) questions: bool,
    /// What it does in the editor.
    pub(super) editor: EditorAbilities,
    pub(super) folders: Vec<Folder>,
    /// The editor's own word on trust, for its workspace folders.
    pub(super) trusted: Option<bool>,
    /// What the person says of folders now, until the store has it.
    said: HashMap<PathBuf, TrustDecision>,
    /// How many such decisions there were.
    decisions: u64,
}

/// A person's word on a folder that the store may not have yet.
#[derive(Clone, Debug)]
struct TrustDecision {
    number: u64,
    trusted: bool,
    /// Redirects that were accepted since: provider and target.
    redirects: BTreeMap<String, String>,
    /// What the store has of redirects still counts.
    keeps_stored: bool,
}

impl ServerState {
    pub(super) fn lock_client(&self) -> MutexGuard<'_, ClientInfo> {
        // Plain values: a panic elsewhere does not spoil them.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace folders' paths; the start folder where there is none.
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

    /// The same, to judge paths by.
    pub(super) fn build_roots(&self) -> Roots {
        let folder = |path| Folder {
            name: String::new(),
            path,
        };
        let folders: Vec<Folder> = self.folders().into_iter().map(folder).collect();
        Roots::new(&folders)
    }

    /// The workspace folder that `cwd` is in, whose settings, grants and trust hold there; else itself.
    pub(super) fn folder_of(&self, cwd: &Path) -> PathBuf {
        self.lock_client()
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
            let loaded = self.configured.folder_config(folder);
            if n == 0 {
                self.outbox
                    .set_delta_frame(loaded.loaded.settings.server.delta_frame);
                (self.on_settings)(&loaded.loaded.settings);
            }
            self.tell_problems(folder);
        }
    }

    /// Reads all configuration again that was read; what is wrong in the workspace folders' own.
    pub(super) fn reload_config(&self) -> Vec<Diagnostic> {
        let folders = self.folders();
        let problems = self.configured.reload_config(&folders);
        self.apply_settings();
        for other in self.notices.folders() {
            if !folders.contains(&other) {
                self.tell_problems(&other);
            }
        }
        problems
    }

    /// Warns of what is wrong in a folder's configuration, once after each time it was read; it stands in the
    /// status while it holds.
    pub(super) fn tell_problems(&self, folder: &Path) {
        let known = self.configured.folder_config(folder);
        let lines = known.loaded.diagnostics.iter().map(ToString::to_string);
        self.notices.set_folder(folder, lines.collect());
        for problem in known.untold_problems() {
            let body = to_wire::encode_frame(&to_wire::server_warning("config", &problem.to_string()));
            self.outbox.push(Outgoing::Notification {
                body,
                group: None,
                permit: None,
            });
        }
    }

    /// Decides whether a folder is trusted, before its settings are read: what a person said with
    /// `agent/setTrust` goes before all; then the editor's option, which speaks for its workspace folders only.
    pub(super) async fn learn_trust(&self, folder: &Path) {
        loop {
            let (decisions, said) = {
                let client = self.lock_client();
                (client.decisions, client.said.get(folder).cloned())
            };
            let stored = self.stored_trust(folder).await;
            let client = self.lock_client();
            if client.decisions != decisions {
                // Something was said meanwhile, and may not have been read.
                continue;
            }
            let (stored, mut redirects) = stored.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read a folder's trust; treating it as untrusted");
                (Some(false), BTreeMap::new())
            });
            let trusted = match &said {
                Some(said) => said.trusted,
                None => stored.unwrap_or_else(|| client.is_trusted_folder(folder)),
            };
            if let Some(said) = said {
                if !said.keeps_stored {
                    redirects.clear();
                }
                redirects.extend(said.redirects);
            }
            return self.configured.set_trust(folder, trusted, &redirects);
        }
    }

    /// What the store has on a folder: whether it is trusted, and where it may send each provider's key.
    async fn stored_trust(
        &self,
        folder: &Path,
    ) -> Result<(Option<bool>, BTreeMap<String, String>), StoreError> {
        let reader = &self.sessions.services().store.reader;
        let trusted = reader.read_trust(&folder.display().to_string()).await?;
        let redirects = reader.list_redirects().await?;
        let of_folder = redirects.into_iter().filter(|(of, _, _)| of == folder);
        Ok((
            trusted,
            of_folder.map(|(_, provider, to)| (provider, to)).collect(),
        ))
    }

    /// A person says whether a folder is trusted, and which redirects (provider and target) of its are accepted: holds
    /// at once, and after the return in the store too.
    pub(super) async fn set_trust(
        &self,
        folder: &Path,
        trusted: bool,
        redirects: Vec<(String, String)>,
    ) -> Result<(), StoreError> {
        let number = self.lock_client().decide_trust(folder, trusted, &redirects);
        self.learn_trust(folder).await;
        if self.folders().iter().any(|known| known == folder) {
            self.apply_settings();
        } else if self.notices.folders().iter().any(|known| known == folder) {
            self.tell_problems(folder);
        }
        let writes = &self.sessions.services().store.writes;
        let write = StoreWrite::SetTrust {
            folder: folder.display().to_string(),
            trusted,
            redirects,
            at_ms: clock::wall_ms(),
        };
        writes.send(write).await?;
        if writes.flush_writes().await? == StoreHealth::Ok {
            let mut client = self.lock_client();
            if client.said.get(folder).is_some_and(|last| last.number == number) {
                client.said.remove(folder);
            }
        }
        Ok(())
    }
}

impl ClientInfo {
    /// Notes a person's word on a folder; its number.
    fn decide_trust(&mut self, folder: &Path, trusted: bool, accepted: &[(String, String)]) -> u64 {
        self.decisions += 1;
        let number = self.decisions;
        let before = self.said.remove(folder).filter(|_| trusted);
        // Trust that was withdrawn takes the acceptances with it, also those that the store still has.
        let keeps_stored = trusted
            && before
                .as_ref()
                .is_none_or(|before| before.trusted && before.keeps_stored);
        let mut redirects = before.map(|before| before.redirects).unwrap_or_default();
        redirects.extend(accepted.iter().cloned());
        let decision = TrustDecision {
            number,
            trusted,
            redirects,
            keeps_stored,
        };
        self.said.insert(folder.to_path_buf(), decision);
        number
    }

    /// Whether the editor trusts this folder: only its workspace folders are its own to speak of.
    fn is_trusted_folder(&self, folder: &Path) -> bool {
        self.trusted == Some(true) && self.folders.iter().any(|own| own.path == folder)
    }
}

/// A folder as it is compared and stored, however it was spelled: links followed, no slash at its end.
pub(super) fn folder_key(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.components().collect())
}

/// A folder, as clients send it, by its key.
pub(super) fn folder_param(field: &'static str, text: &str) -> Result<PathBuf, jsonrpc::Error> {
    Ok(folder_key(&path_param(field, text)?))
}

/// A path from a URI or an absolute path, as clients send it.
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

/// A session id, as clients send it.
pub(super) fn session_param(text: &str) -> SessionId {
    SessionId::from(text)
}

/// A param that is wrong.
pub(super) fn invalid_param(field: &'static str, message: impl Into<String>) -> jsonrpc::Error {
    RequestError::invalid_param(field, message).into()
}
