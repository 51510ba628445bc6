//! The files of tokens: one for each server, readable by their owner alone, bound to the server's URL.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::OAuthError;
use crate::base::spawn::run_blocking;
use crate::base::{clock, hash, private};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 256 * 1024;

/// The folder of the tokens of all servers.
#[derive(Clone, Debug)]
pub struct TokenStore {
    folder: PathBuf,
}

/// What a login gave.
#[derive(Clone, Debug)]
pub(super) struct StoredTokens {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) client: ClientIdentity,
    pub(super) access: SecretString,
    pub(super) refresh: Option<SecretString>,
    /// When the access token expires, in milliseconds since 1970.
    pub(super) expires_ms: Option<i64>,
    /// The scopes that the login has requested.
    pub(super) scopes: Vec<String>,
    /// Scopes that the server has demanded since the first login.
    pub(super) extra_scopes: Vec<String>,
}

/// The tokens that were removed from this machine.
#[derive(Debug)]
pub struct RemovedTokens {
    /// `None` if their file could not be read.
    pub(super) tokens: Option<StoredTokens>,
}

impl StoredTokens {
    /// Returns whether the access token can be used without a refresh.
    pub(super) fn is_fresh(&self) -> bool {
        self.expires_ms.is_none_or(|end| clock::wall_ms() < end)
    }
}

/// How this program identifies itself to an authorization server.
#[derive(Clone, Debug)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    pub(super) secret: Option<SecretString>,
    /// The secret is sent in the header instead of the body.
    pub(super) is_basic: bool,
}

/// The format of a file.
#[derive(Serialize, Deserialize)]
struct TokenFile {
    server: String,
    issuer: String,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    resource: String,
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(default)]
    basic_auth: bool,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extra_scopes: Vec<String>,
}

/// Keeps other processes from using the tokens of a server.
#[derive(Debug)]
pub(super) struct StoreLock(#[expect(dead_code, reason = "the open file holds the lock")] File);

impl TokenStore {
    /// Uses a folder inside the data folder. It is created when the first token is saved.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            folder: data_dir.join("mcp-tokens"),
        }
    }

    fn path(&self, server: &Url) -> PathBuf {
        let name = hash::sha256(server.as_str().as_bytes());
        self.folder.join(format!("{}.json", &name[..32]))
    }

    /// Returns the tokens of a server. Blocks for file access.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(super) fn load(&self, server: &Url) -> Result<Option<StoredTokens>, OAuthError> {
        let path = self.path(server);
        let failed = |why: String| fail(&path, "read", why);
        let text = match private::read_file(&path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        // The error would quote the file.
        let file: TokenFile =
            serde_json::from_slice(&text).map_err(|_| failed("it has the wrong form".to_owned()))?;
        if file.server != server.as_str() {
            return Err(failed("it belongs to another server".to_owned()));
        }
        Ok(Some(StoredTokens {
            issuer: file.issuer,
            token_endpoint: file.token_endpoint,
            revocation_endpoint: file.revocation_endpoint,
            resource: file.resource,
            client: ClientIdentity {
                id: file.client_id,
                secret: file.client_secret.map(Into::into),
                is_basic: file.basic_auth,
            },
            access: file.access_token.into(),
            refresh: file.refresh_token.map(Into::into),
            expires_ms: file.expires_ms,
            scopes: file.scopes,
            extra_scopes: file.extra_scopes,
        }))
    }

    /// Saves the tokens of a server. Blocks for file access.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn save(&self, server: &Url, tokens: &StoredTokens) -> Result<(), OAuthError> {
        let path = self.path(server);
        let expose =
            |secret: &Option<SecretString>| (secret.as_ref()).map(|secret| secret.expose_secret().to_owned());
        let file = TokenFile {
            server: server.to_string(),
            issuer: tokens.issuer.clone(),
            token_endpoint: tokens.token_endpoint.clone(),
            revocation_endpoint: tokens.revocation_endpoint.clone(),
            resource: tokens.resource.clone(),
            client_id: tokens.client.id.clone(),
            client_secret: expose(&tokens.client.secret),
            basic_auth: tokens.client.is_basic,
            access_token: tokens.access.expose_secret().to_owned(),
            refresh_token: expose(&tokens.refresh),
            expires_ms: tokens.expires_ms,
            scopes: tokens.scopes.clone(),
            extra_scopes: tokens.extra_scopes.clone(),
        };
        let text = serde_json::to_vec(&file).map_err(|error| fail(&path, "written", error.to_string()))?;
        let write = || {
            self.create_folder()?;
            private::replace_file(&path, &text)
        };
        write().map_err(|error: io::Error| fail(&path, "written", error.to_string()))
    }

    /// Removes the tokens of a server. Returns whether there were any. Blocks for file access.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn remove(&self, server: &Url) -> Result<bool, OAuthError> {
        let path = self.path(server);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(fail(&path, "removed", error.to_string())),
        }
    }

    /// Removes the tokens of a server once no other process uses them. Returns them; `None` if there were none.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub async fn forget_tokens(&self, server: &Url) -> Result<Option<RemovedTokens>, OAuthError> {
        let (store, server) = (self.clone(), server.clone());
        let done = run_blocking(move || {
            if !store.has_tokens(&server) {
                return Ok(None);
            }
            // A refresh that runs meanwhile would write them again.
            let _lock = store.lock(&server)?;
            // A file that cannot be read is removed all the same.
            let tokens = store.load(&server).ok().flatten();
            let was_removed = store.remove(&server)?;
            Ok(was_removed.then_some(RemovedTokens { tokens }))
        });
        let done = done.await;
        done.unwrap_or_else(|error| Err(OAuthError::Local(error.to_string())))
    }

    /// Returns the scopes that a server has demanded since the first login. They are forgotten with a logout.
    pub async fn load_extra_scopes(&self, server: &Url) -> Vec<String> {
        let (store, server) = (self.clone(), server.clone());
        let read = run_blocking(move || store.load(&server).ok().flatten()).await;
        let tokens = read.ok().flatten();
        tokens.map_or_else(Vec::new, |tokens| tokens.extra_scopes)
    }

    /// Returns when the tokens of a server changed last; `None` if there are none.
    pub async fn find_last_change(&self, server: &Url) -> Option<SystemTime> {
        let path = self.path(server);
        let read = run_blocking(move || fs::metadata(&path).and_then(|meta| meta.modified()).ok()).await;
        read.ok().flatten()
    }

    /// Returns whether there are tokens of a server. Blocks for file access.
    pub fn has_tokens(&self, server: &Url) -> bool {
        self.path(server).exists()
    }

    /// Returns whether the tokens of a server have expired and cannot be refreshed. Blocks for file access.
    pub fn needs_new_login(&self, server: &Url) -> bool {
        let tokens = self.load(server).ok().flatten();
        tokens.is_some_and(|tokens| tokens.refresh.is_none() && !tokens.is_fresh())
    }

    /// Waits until no other process uses the tokens of a server. Blocks.
    ///
    /// # Errors
    /// Fails if the lock file cannot be opened.
    pub(super) fn lock(&self, server: &Url) -> Result<StoreLock, OAuthError> {
        let path = self.path(server).with_extension("lock");
        let open = || {
            self.create_folder()?;
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .custom_flags(private::NO_FOLLOW)
                .open(&path)?;
            file.lock()?;
            Ok(StoreLock(file))
        };
        open().map_err(|error: io::Error| fail(&path, "locked", error.to_string()))
    }

    fn create_folder(&self) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        private::restrict_to_owner(&self.folder)
    }
}

fn fail(path: &Path, action: &'static str, why: String) -> OAuthError {
    OAuthError::Store {
        path: path.display().to_string(),
        action,
        why,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn tokens() -> StoredTokens {
        StoredTokens {
            issuer: "https://auth.example.com".to_owned(),
            token_endpoint: "https://auth.example.com/token".to_owned(),
            revocation_endpoint: None,
            resource: "https://mcp.example.com/mcp".to_owned(),
            client: ClientIdentity {
                id: "client".to_owned(),
                secret: None,
                is_basic: false,
            },
            access: "secret-access".into(),
            refresh: Some("secret-refresh".into()),
            expires_ms: Some(7),
            scopes: Vec::new(),
            extra_scopes: Vec::new(),
        }
    }

    #[test]
    fn tokens_are_private_and_bound_to_their_server() {
        let dir = tempfile::TempDir::new().unwrap();
        let store = TokenStore::new(dir.path());
        let server = Url::parse("https://mcp.example.com/mcp").unwrap();
        let other = Url::parse("https://mcp.example.com/mcp2").unwrap();
        assert!(store.load(&server).unwrap().is_none());
        store.save(&server, &tokens()).unwrap();
        let path = store.path(&server);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            store.folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        let loaded = store.load(&server).unwrap().unwrap();
        assert_eq!(loaded.access.expose_secret(), "secret-access");
        assert!(store.load(&other).unwrap().is_none());
        assert!(!format!("{loaded:?}").contains("secret-"), "{loaded:?}");
        // A file that was copied to another server's name.
        fs::copy(&path, store.path(&other)).unwrap();
        let error = store.load(&other).unwrap_err().to_string();
        assert!(error.contains("another server"), "{error}");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let error = store.load(&server).unwrap_err().to_string();
        assert!(error.contains("others can read it"), "{error}");
        assert!(store.remove(&server).unwrap() && !store.remove(&server).unwrap());
    }
}
