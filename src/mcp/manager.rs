//! The owner of all MCP servers of the process.
//!
//! It hands out one [`McpFolder`] for each workspace folder and its settings, and awaits every supervisor at the end.
//! Servers that a client names for one session run until it forgets them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;

use super::connection::McpConnector;
use super::folder::{FolderServer, McpFolder, describe_server};
use super::login_registry::LoginRegistry;
use super::opening::KnownOpenings;
use super::registration::{McpRegistration, UnusableServer};
use super::server::McpServer;
use super::server_state::{McpHost, Phase, ServerSetup};
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::config::{McpServerSettings, Redactor};
use crate::domain::{McpServerState, McpServerStatus, SessionId};
use crate::oauth::TokenStore;
use crate::workspace::WorkspaceShared;

/// How long the servers may take to end with the process. What is left then, the helpers of the programs end.
const SHUTDOWN: Duration = Duration::from_millis(1_500);

/// The owner of all servers.
pub struct McpManager {
    host: Arc<McpHost>,
    logins: LoginRegistry,
    state: Mutex<ManagerState>,
}

#[derive(Default)]
struct ManagerState {
    folders: HashMap<PathBuf, Weak<McpFolder>>,
    sessions: HashMap<SessionId, NamedServers>,
    supervisors: Vec<AbortOnDrop<()>>,
    is_closed: bool,
}

/// The servers that a client names for one session.
struct NamedServers {
    servers: Vec<FolderServer>,
    /// These and the folder's, as last handed out.
    opened: Weak<McpFolder>,
}

impl McpManager {
    /// Creates the owner; nothing starts. The tokens of logins are below `data`, and are registered with
    /// `redactor`; so are the folders in which servers of the user's run.
    pub fn new(workspace: Arc<WorkspaceShared>, data: Option<&Path>, redactor: Redactor) -> Arc<Self> {
        Self::with_host(workspace, data, redactor, None)
    }

    /// Creates the owner of servers that `connector` connects to.
    pub fn with_connector(workspace: Arc<WorkspaceShared>, connector: Arc<dyn McpConnector>) -> Arc<Self> {
        Self::with_host(workspace, None, Redactor::default(), Some(connector))
    }

    fn with_host(
        workspace: Arc<WorkspaceShared>,
        data: Option<&Path>,
        redactor: Redactor,
        connector: Option<Arc<dyn McpConnector>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::new(McpHost {
                workspace,
                own_folders: data.map(|data| data.join("mcp-servers")),
                tokens: data.map(TokenStore::new),
                redactor,
                connector,
                changes: watch::channel(0).0,
                roots: watch::channel(0).0,
                openings: KnownOpenings::default(),
            }),
            logins: LoginRegistry::default(),
            state: Mutex::default(),
        })
    }

    /// Returns the servers of a folder; `None` if its settings name none. Servers whose settings are as before go on
    /// running.
    ///
    /// Starts no program; see [`McpFolder::need_servers`].
    pub fn open_folder(&self, folder: &Path, registration: &McpRegistration) -> Option<Arc<McpFolder>> {
        let mut state = self.lock();
        let enabled: Vec<_> = registration
            .servers
            .iter()
            .filter(|server| server.enabled)
            .collect();
        let unusable = registration.list_unusable();
        if enabled.is_empty() && unusable.is_empty() || state.is_closed {
            return None;
        }
        let before = state.folders.get(folder).and_then(Weak::upgrade);
        if let Some(known) = &before
            && is_unchanged(known, &enabled, &unusable)
        {
            return before;
        }
        let known = before.as_ref().map_or(&[][..], |before| before.servers());
        let servers = self.open_servers(&mut state, known, enabled, (folder, registration));
        let opened = Arc::new(McpFolder::new(folder.to_path_buf(), servers, unusable));
        state
            .folders
            .insert(folder.to_path_buf(), Arc::downgrade(&opened));
        state.folders.retain(|_, folder| folder.strong_count() > 0);
        Some(opened)
    }

    /// Returns a handle for each server: that of `known` if its connection has the same settings, or else a new one.
    fn open_servers<'a>(
        &self,
        state: &mut ManagerState,
        known: &[FolderServer],
        wanted: impl IntoIterator<Item = &'a McpServerSettings>,
        (folder, registration): (&Path, &McpRegistration),
    ) -> Vec<FolderServer> {
        state.supervisors.retain(|supervisor| !supervisor.is_finished());
        let open = |settings: &McpServerSettings| {
            let fingerprint = settings.connection_fingerprint();
            let running = known
                .iter()
                .find(|known| known.server.fingerprint() == fingerprint);
            let server = match running {
                Some(known) => known.server.clone(),
                None => {
                    let setup = ServerSetup {
                        settings: settings.clone(),
                        folder: folder.to_path_buf(),
                        sandbox: registration.sandbox.clone(),
                        network: registration.network.clone(),
                    };
                    let (server, supervisor) = McpServer::new(self.host.clone(), setup);
                    state.supervisors.push(spawn(supervisor));
                    server
                }
            };
            FolderServer {
                settings: Arc::new(settings.clone()),
                server,
            }
        };
        wanted.into_iter().map(open).collect()
    }

    /// Sets the servers that a client names for a session. They count like those of the user's own settings, and come
    /// before the folder's of the same name. Nothing starts; those that are not named any more end.
    pub fn name_servers(
        &self,
        session: &SessionId,
        folder: &Path,
        servers: &[McpServerSettings],
        registration: &McpRegistration,
    ) {
        let mut state = self.lock();
        let before = state.sessions.remove(session);
        if servers.is_empty() || state.is_closed {
            return;
        }
        let known = before.as_ref().map_or(&[][..], |before| &before.servers);
        let named = NamedServers {
            servers: self.open_servers(&mut state, known, servers, (folder, registration)),
            opened: before
                .as_ref()
                .map(|before| before.opened.clone())
                .unwrap_or_default(),
        };
        state.sessions.insert(session.clone(), named);
    }

    /// Ends the servers that a client has named for a session.
    pub fn forget_session(&self, session: &SessionId) {
        self.lock().sessions.remove(session);
    }

    /// Returns the servers of a session: those that its client names, and those of its folder. `None` if there are
    /// none. Starts no program.
    pub fn open_session(
        &self,
        session: &SessionId,
        folder: &Path,
        registration: &McpRegistration,
    ) -> Option<Arc<McpFolder>> {
        let shared = self.open_folder(folder, registration);
        let mut state = self.lock();
        let Some(named) = state.sessions.get_mut(session) else {
            return shared;
        };
        let before = named.opened.upgrade();
        let opened = McpFolder::with_named(folder.to_path_buf(), named.servers.clone(), shared);
        // The one before knows which failures were reported.
        let opened = before
            .filter(|before| before.has_same_servers(&opened))
            .unwrap_or_else(|| Arc::new(opened));
        named.opened = Arc::downgrade(&opened);
        Some(opened)
    }

    /// Returns the servers of a folder if a session holds them.
    pub fn find_folder(&self, folder: &Path) -> Option<Arc<McpFolder>> {
        self.lock().folders.get(folder).and_then(Weak::upgrade)
    }

    /// Returns the servers of a session, those that its client names included, if it holds them.
    pub fn find_session(&self, session: &SessionId, folder: &Path) -> Option<Arc<McpFolder>> {
        let named = self
            .lock()
            .sessions
            .get(session)
            .map(|named| named.opened.clone());
        let opened = named.and_then(|opened| opened.upgrade());
        opened.or_else(|| self.find_folder(folder))
    }

    /// Returns the state of all servers that the settings of a folder name, sorted by name.
    pub fn list_servers(&self, folder: &Path, registration: &McpRegistration) -> Vec<McpServerStatus> {
        let live = self.find_folder(folder);
        let servers = registration.servers.iter();
        let mut servers: Vec<McpServerStatus> = servers
            .map(|settings| {
                let known = live.as_ref().and_then(|live| live.find_server(&settings.name));
                let mut status = self.describe(folder, settings, known.map(|known| known.server.as_ref()));
                self.describe_tokens(settings, &mut status);
                status
            })
            .chain(registration.unusable.iter().cloned())
            .collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    /// Returns the state of the servers of all folders that a session holds, and of those with a login that waits or
    /// has failed.
    pub fn list_live(&self) -> Vec<McpServerStatus> {
        let folders: Vec<_> = self.lock().folders.values().filter_map(Weak::upgrade).collect();
        let mut live = Vec::new();
        for folder in &folders {
            let servers = folder.servers().iter();
            live.extend(
                servers.map(|known| self.describe(folder.path(), &known.settings, Some(&known.server))),
            );
        }
        for (folder, settings) in self.logins.list_servers() {
            let is_server = |known: &McpServerStatus| known.folder == folder && known.name == settings.name;
            if !live.iter().any(is_server) {
                live.push(self.describe(&folder, &settings, None));
            }
        }
        live.sort_by(|a, b| (&a.folder, &a.name).cmp(&(&b.folder, &b.name)));
        live
    }

    fn describe(
        &self,
        folder: &Path,
        settings: &McpServerSettings,
        server: Option<&McpServer>,
    ) -> McpServerStatus {
        let mut status = describe_server(folder, settings, server);
        self.logins.describe_login(settings, &mut status);
        status
    }

    /// Adds whether there are tokens of a login, and whether they still work.
    fn describe_tokens(&self, settings: &McpServerSettings, status: &mut McpServerStatus) {
        let Some((url, tokens)) = settings.login_address().zip(self.tokens()) else {
            return;
        };
        if !tokens.needs_new_login(&url) {
            status.login.has_tokens = tokens.has_tokens(&url);
            return;
        }
        if status.state == McpServerState::Idle {
            status.state = McpServerState::NeedsLogin;
        }
        if status.state == McpServerState::NeedsLogin && status.login.url.is_none() {
            let problem = || "the last login is no longer valid".to_owned();
            status.login.problem.get_or_insert_with(problem);
        }
    }

    /// Stops and starts a server. Returns false if no session holds one of this name.
    pub fn restart_server(&self, folder: &Path, name: &str) -> bool {
        let live = self.find_folder(folder);
        let known = live.as_ref().and_then(|live| live.find_server(name));
        if let Some(known) = known {
            known.server.restart();
        }
        known.is_some()
    }

    /// Stops and starts a server, unless nobody has needed it yet.
    pub(super) fn restart_started(&self, folder: &Path, name: &str) {
        let live = self.find_folder(folder);
        let known = live.as_ref().and_then(|live| live.find_server(name));
        if let Some(known) = known.filter(|known| !matches!(known.server.phase(), Phase::Idle)) {
            known.server.restart();
        }
    }

    /// Stops the servers of a folder at once, even if sessions hold them.
    pub fn close_folder(&self, folder: &Path) {
        self.logins.end_logins(Some(folder));
        let closed = self
            .lock()
            .folders
            .remove(folder)
            .and_then(|folder| folder.upgrade());
        for server in closed.iter().flat_map(|folder| folder.servers()) {
            server.server.stop();
        }
    }

    /// Returns whether a running server has a tool that models know by this name.
    pub fn has_tool(&self, name: &str) -> bool {
        let folders: Vec<_> = self.lock().folders.values().filter_map(Weak::upgrade).collect();
        let mut tools = folders.iter().flat_map(|folder| folder.list_tools());
        tools.any(|tool| tool.name == name)
    }

    /// Returns a counter that changes whenever the state of a server does.
    pub fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.host.changes.subscribe()
    }

    /// Tells the servers that the workspace folders have changed.
    pub fn note_roots_changed(&self) {
        self.host.roots.send_modify(|count| *count += 1);
    }

    /// Ends all servers. None starts afterwards. Call it when no session holds any.
    pub async fn shut_down(&self) {
        self.logins.end_logins(None);
        let supervisors = {
            let mut state = self.lock();
            state.is_closed = true;
            state.folders.clear();
            state.sessions.clear();
            std::mem::take(&mut state.supervisors)
        };
        if clock::timeout(SHUTDOWN, join_all(supervisors)).await.is_err() {
            tracing::debug!("an MCP server is left to its helper");
        }
    }

    pub(super) fn logins(&self) -> &LoginRegistry {
        &self.logins
    }

    /// Returns the tokens of logins; `None` if there is no folder for them.
    pub(super) fn tokens(&self) -> Option<&TokenStore> {
        self.host.tokens.as_ref()
    }

    pub(super) fn note_change(&self) {
        self.host.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, ManagerState> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the folder has exactly these servers.
fn is_unchanged(known: &McpFolder, enabled: &[&McpServerSettings], unusable: &[UnusableServer]) -> bool {
    let mut pairs = known.servers().iter().zip(enabled);
    known.unusable() == unusable
        && known.servers().len() == enabled.len()
        && pairs.all(|(known, stated)| known.settings.is_same(stated))
}
