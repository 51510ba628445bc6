//! What the handlers share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc;

use super::editor::ClientEditor;
use super::error::RequestError;
use super::notices::Notices;
use super::to_wire;
use crate::base::CancellationToken;
use crate::base::{clock, uri};
use crate::config::{Diagnostic, Settings};
use crate::domain::SessionId;
use crate::session::{Configured, Sessions};
use crate::store::{Health, StoreError, Write};
use crate::tool::EditorAbilities;
use crate::transport::outbox::{Item, Outbox};
use crate::workspace::resolve::real_path;
use crate::workspace::{Folder, Roots, Shared};

/// What the handlers share.
pub(super) struct State {
    pub(super) sessions: Sessions,
    pub(super) configured: Arc<Configured>,
    pub(super) workspace: Arc<Shared>,
    /// The folder the server was started in: for clients that name none.
    pub(super) cwd: PathBuf,
    pub(super) client: Arc<Mutex<Client>>,
    pub(super) editor: Arc<ClientEditor>,
    pub(super) outbox: Outbox,
    pub(super) notices: Notices,
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
    /// It shows limits and questions to a person.
    pub(super) questions: bool,
    /// What it does in the editor.
    pub(super) editor: EditorAbilities,
    pub(super) folders: Vec<Folder>,
    /// The editor's own word on trust, for its workspace folders.
    pub(super) trusted: Option<bool>,
    /// What the person says of folders now, until the store has it: the number of the word, and the word.
    said: HashMap<PathBuf, (u64, bool)>,
    /// How many such words there were.
    words: u64,
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

    /// The same, to judge paths by.
    pub(super) fn roots(&self) -> Roots {
        let folder = |path| Folder {
            name: String::new(),
            path,
        };
        let folders: Vec<Folder> = self.folders().into_iter().map(folder).collect();
        Roots::new(&folders)
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

    /// Reads all configuration again that was read; what is wrong in the workspace folders' own.
    pub(super) fn reload(&self) -> Vec<Diagnostic> {
        let folders = self.folders();
        let problems = self.configured.reload(&folders);
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
        let known = self.configured.folder(folder);
        let lines = known.loaded.diagnostics.iter().map(ToString::to_string);
        self.notices.set_folder(folder, lines.collect());
        for problem in known.untold_problems() {
            let body = to_wire::frame(&to_wire::server_warning("config", &problem.to_string()));
            self.outbox.push(Item::Notification {
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
            let (words, said) = {
                let client = self.client();
                (client.words, client.said.get(folder).copied())
            };
            let stored = match said {
                Some((_, word)) => Ok(Some(word)),
                None => {
                    let reader = &self.sessions.house().store.reader;
                    reader.trust(&folder.display().to_string()).await
                }
            };
            let client = self.client();
            if client.words != words {
                // Something was said meanwhile, and may not have been read.
                continue;
            }
            let trusted = match stored {
                Ok(Some(word)) => word,
                Ok(None) => client.trusts(folder),
                Err(error) => {
                    tracing::warn!(%error, "what was said of a folder's trust cannot be read: it is not trusted");
                    false
                }
            };
            return self.configured.set_trust(folder, trusted);
        }
    }

    /// A person says whether a folder is trusted: holds at once, and after the return in the store too.
    pub(super) async fn set_trust(&self, folder: &Path, trusted: bool) -> Result<(), StoreError> {
        let number = {
            let mut client = self.client();
            client.words += 1;
            let number = client.words;
            client.said.insert(folder.to_path_buf(), (number, trusted));
            number
        };
        self.configured.set_trust(folder, trusted);
        if self.folders().iter().any(|known| known == folder) {
            self.apply_settings();
        } else if self.notices.folders().iter().any(|known| known == folder) {
            self.tell_problems(folder);
        }
        let writes = &self.sessions.house().store.writes;
        let write = Write::SetTrust {
            folder: folder.display().to_string(),
            trusted,
            at_ms: clock::wall_ms(),
        };
        writes.send(write).await?;
        if writes.barrier().await? == Health::Ok {
            let mut client = self.client();
            if client.said.get(folder).is_some_and(|(last, _)| *last == number) {
                client.said.remove(folder);
            }
        }
        Ok(())
    }
}

impl Client {
    /// Whether the editor trusts this folder: only its workspace folders are its own to speak of.
    fn trusts(&self, folder: &Path) -> bool {
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
