//! Logins at servers: each waits in a task of its own for the browser's redirect, then starts its server.
//!
//! The client opens the address; nothing here does. A login ends with its folder's trust and with the process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::clock::{sleep, timeout};
use url::Url;

use super::connection::McpError;
use super::http::open_login_client;
use super::login_registry::Login;
use super::manager::McpManager;
use super::registration::McpRegistration;
use super::server_state::Phase;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::config::McpServerSettings;
use crate::oauth::{OAuthError, OAuthServer, PendingLogin, TokenStore};

/// Time limit for everything before the address is known.
const BEGIN: Duration = Duration::from_secs(60);
/// How long a server that no session uses goes on running after a login, so that the next turn finds it started.
const GRACE: Duration = Duration::from_secs(60);

/// Why a login or logout was not possible.
#[derive(Debug, thiserror::Error)]
pub enum McpLoginError {
    /// There is no such server, or it never starts.
    #[error("{0}")]
    Unusable(String),
    #[error("the MCP server {name} has no login: {reason}")]
    NotPossible { name: String, reason: &'static str },
    #[error("the login could not begin within {} s", BEGIN.as_secs())]
    TimedOut,
    #[error(transparent)]
    Failed(#[from] OAuthError),
}

/// How a logout ended.
#[derive(Debug, Default)]
pub struct McpLogout {
    /// There were tokens.
    pub had_tokens: bool,
    /// Why the authorization server may still accept them.
    pub revocation_problem: Option<String>,
}

impl McpManager {
    /// Begins a login, and returns the address that the user opens. What waits for the redirect ends by itself.
    ///
    /// # Errors
    /// There is no such server, or the way to log in there is not acceptable.
    pub async fn begin_login(
        self: &Arc<Self>,
        folder: &Path,
        registration: &McpRegistration,
        name: &str,
    ) -> Result<Url, McpLoginError> {
        let (settings, url) = find_login(registration, name)?;
        let store = self.find_store(name)?;
        let server = OAuthServer {
            name: name.to_owned(),
            url: url.clone(),
            client_id: settings.oauth_client_id.clone(),
            scopes: settings.oauth_scopes.to_vec(),
            extra_scopes: store.load_extra_scopes(&url).await,
            callback_port: settings.oauth_callback_port,
        };
        let client = open_login_client(settings, &url, &registration.network)?;
        if server.callback_port.is_some() {
            // A login that waits already holds the port.
            self.cancel_login(registration, name)?;
        }
        let begun = timeout(BEGIN, PendingLogin::begin(client, &server)).await;
        let pending = begun.map_err(|_| McpLoginError::TimedOut)??;
        let address = pending.url.clone();
        let ticket = LoginTicket {
            manager: Arc::downgrade(self),
            folder: folder.to_path_buf(),
            registration: registration.clone(),
            name: name.to_owned(),
            server: url.clone(),
            address: address.clone(),
        };
        let login = Login {
            folder: folder.to_path_buf(),
            settings: settings.clone(),
            address: Some(address.clone()),
            problem: None,
            task: None,
        };
        {
            let mut logins = self.logins().lock();
            let is_running =
                |task: &Option<AbortOnDrop<()>>| task.as_ref().is_some_and(|task| !task.is_finished());
            logins.retain(|_, login| login.is_open() || is_running(&login.task));
            // A login that waits already ends here, with its listener.
            let login = logins.entry(url).insert_entry(login);
            login.into_mut().task = Some(spawn(ticket.finish(pending, store)));
        }
        self.note_change();
        Ok(address)
    }

    /// Ends a login that waits. Has no effect if none does.
    ///
    /// # Errors
    /// There is no such server.
    pub fn cancel_login(&self, registration: &McpRegistration, name: &str) -> Result<(), McpLoginError> {
        let (_, url) = find_login(registration, name)?;
        if let Some(login) = self.logins().lock().get_mut(&url)
            && login.address.take().is_some()
        {
            login.task = None;
            login.problem = Some("the login was canceled".to_owned());
        }
        self.note_change();
        Ok(())
    }

    /// Removes the tokens of a server, ends a login that waits, and revokes the tokens.
    ///
    /// # Errors
    /// There is no such server, or the tokens cannot be removed.
    pub async fn log_out(
        &self,
        folder: &Path,
        registration: &McpRegistration,
        name: &str,
    ) -> Result<McpLogout, McpLoginError> {
        let (settings, url) = find_login(registration, name)?;
        self.logins().lock().remove(&url);
        let removed = self.find_store(name)?.forget_tokens(&url).await?;
        // It must not go on using what it was given.
        self.restart_started(folder, name);
        self.note_change();
        Ok(match removed {
            Some(removed) => McpLogout {
                had_tokens: true,
                revocation_problem: match open_login_client(settings, &url, &registration.network) {
                    Ok(client) => removed.revoke(&client).await,
                    Err(error) => Some(error.to_string()),
                },
            },
            None => McpLogout::default(),
        })
    }

    fn find_store(&self, name: &str) -> Result<TokenStore, McpLoginError> {
        let store = self.tokens().cloned();
        store.ok_or_else(|| McpLoginError::NotPossible {
            name: name.to_owned(),
            reason: "no home folder was found to keep its tokens in",
        })
    }
}

fn find_login<'a>(
    registration: &'a McpRegistration,
    name: &str,
) -> Result<(&'a McpServerSettings, Url), McpLoginError> {
    let settings = registration.find_usable(name).map_err(McpLoginError::Unusable)?;
    let reason = match &settings.url {
        None => "it is a program",
        Some(_) => "its settings state a token or a header that takes its place",
    };
    let url = settings
        .login_address()
        .ok_or_else(|| McpLoginError::NotPossible {
            name: name.to_owned(),
            reason,
        })?;
    Ok((settings, url))
}

/// What the task of a login knows.
struct LoginTicket {
    manager: Weak<McpManager>,
    folder: PathBuf,
    registration: McpRegistration,
    name: String,
    server: Url,
    address: Url,
}

impl LoginTicket {
    /// Waits for the redirect, then starts the server.
    async fn finish(self, pending: PendingLogin, store: TokenStore) {
        let ended = pending.finish(&store).await;
        let Some(manager) = self.manager.upgrade() else {
            return;
        };
        if let Err(error) = ended {
            self.update(&manager, Some(error.to_string()));
            return;
        }
        let known = manager.find_folder(&self.folder);
        let is_used = known.is_some();
        let folder = known.or_else(|| manager.open_folder(&self.folder, &self.registration));
        let server = folder.as_ref().and_then(|folder| folder.find_server(&self.name));
        let server = server.inspect(|known| known.server.restart());
        self.update(&manager, None);
        if let Some(known) = server {
            known.server.wait_until_settled().await;
            if matches!(known.server.phase(), Phase::Failed(McpError::NeedsLogin, _)) {
                // They have never worked.
                let _ = store.forget_tokens(&self.server).await;
                let problem = "the server refuses the token of the last login";
                self.update(&manager, Some(problem.to_owned()));
            }
        }
        drop(manager);
        if !is_used {
            sleep(GRACE).await;
        }
    }

    /// Notes how the login ended, unless another one waits.
    fn update(&self, manager: &McpManager, problem: Option<String>) {
        {
            let mut logins = manager.logins().lock();
            let Some(login) = logins.get_mut(&self.server) else {
                return;
            };
            if login.address.iter().any(|waiting| *waiting != self.address) {
                return;
            }
            login.address = None;
            login.problem = problem;
        }
        manager.note_change();
    }
}
