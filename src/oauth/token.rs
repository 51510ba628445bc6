//! Requests for tokens, and the access token of a server, which is refreshed before it expires.

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::client::{OAuthClient, bad_status, endpoint, parse_body, read_refusal};
use super::store::{ClientIdentity, StoreLock, StoredTokens, TokenStore};
use crate::base::clock;

/// How long before its end a token is refreshed. A short token is refreshed in the last half of its life.
const EARLY_MS: i64 = 60_000;
const WHAT: &str = "token endpoint";
/// Codes of refusals after which no refresh can succeed any more; the last one is GitHub's.
const UNUSABLE: [&str; 3] = ["invalid_grant", "invalid_client", "bad_refresh_token"];

/// The longest list of scopes that a server may demand, in bytes.
const MAX_SCOPES: usize = 1_000;

/// Adds the scopes that the list does not have.
pub(super) fn add_scopes(list: &mut Vec<String>, more: &[String]) {
    for scope in more {
        if !list.contains(scope) {
            list.push(scope.clone());
        }
    }
}

/// Returns whether a list of scopes may contain the byte (RFC 6749, section 3.3).
fn is_scope_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// The answer of a token endpoint.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    access_token: SecretString,
    token_type: String,
    expires_in: Option<i64>,
    refresh_token: Option<SecretString>,
}

impl TokenAnswer {
    /// Returns the tokens to store. A refresh that gives no refresh token keeps the old one.
    pub(super) fn into_tokens(self, template: &StoredTokens) -> StoredTokens {
        let now = clock::wall_ms();
        StoredTokens {
            access: self.access_token,
            refresh: self.refresh_token.or_else(|| template.refresh.clone()),
            expires_ms: self.expires_in.map(|seconds| {
                let life = seconds.clamp(0, 10 * 365 * 86_400) * 1000;
                now + life - EARLY_MS.min(life / 2)
            }),
            ..template.clone()
        }
    }
}

/// Requests tokens for a grant.
pub(super) async fn request_tokens(
    client: &OAuthClient,
    url: &Url,
    identity: &ClientIdentity,
    grant: &[(&str, &str)],
) -> Result<TokenAnswer, OAuthError> {
    let body = post_as_client(client, WHAT, url, identity, grant).await?;
    let answer: TokenAnswer = parse_body(WHAT, &body)?;
    let token = answer.access_token.expose_secret();
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(endpoint(WHAT, "its token is not a bearer token".to_owned()));
    }
    // What goes into a header must not contain line breaks.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(endpoint(WHAT, "its token cannot be sent in a header".to_owned()));
    }
    Ok(answer)
}

/// Posts a form as the registered client, and returns the body of the answer.
pub(super) async fn post_as_client(
    client: &OAuthClient,
    what: &'static str,
    url: &Url,
    identity: &ClientIdentity,
    fields: &[(&str, &str)],
) -> Result<Vec<u8>, OAuthError> {
    let mut fields = fields.to_vec();
    let mut basic = None;
    let secret = identity
        .secret
        .as_ref()
        .or_else(|| client.find_secret(&identity.id));
    match secret {
        Some(secret) if identity.is_basic => basic = Some((identity.id.as_str(), secret.expose_secret())),
        Some(secret) => {
            fields.push(("client_id", &identity.id));
            fields.push(("client_secret", secret.expose_secret()));
        }
        None => fields.push(("client_id", &identity.id)),
    }
    let (status, body) = client.post_form(what, url, &fields, basic).await?;
    // GitHub refuses with HTTP 200.
    if !status.is_success() || read_refusal(&body).is_some() {
        return Err(bad_status(what, status, &body));
    }
    Ok(body)
}

/// The access token of one server.
#[derive(Debug)]
pub struct TokenSource {
    client: OAuthClient,
    server: Url,
    store: TokenStore,
    /// One refresh at a time: a refresh token is valid once.
    refreshing: tokio::sync::Mutex<()>,
}

impl TokenSource {
    /// Creates a source for the client's server.
    pub fn new(client: OAuthClient, store: TokenStore) -> Self {
        Self {
            server: client.policy.server().clone(),
            client,
            store,
            refreshing: tokio::sync::Mutex::new(()),
        }
    }

    /// Returns the server's token; `None` if nobody has logged in.
    ///
    /// # Errors
    /// Fails with [`OAuthError::LoginNeeded`] if the token has expired and cannot be refreshed, and with other errors
    /// if a later attempt may succeed.
    pub async fn get_access_token(&self) -> Result<Option<SecretString>, OAuthError> {
        let Some(tokens) = self.load().await? else {
            return Ok(None);
        };
        if tokens.is_fresh() {
            return Ok(Some(tokens.access));
        }
        self.refresh(&tokens.access).await.map(Some)
    }

    /// Returns a token in place of one that the server has refused.
    ///
    /// # Errors
    /// As [`Self::get_access_token`]; [`OAuthError::LoginNeeded`] also if nobody has logged in.
    pub async fn replace_refused(&self, refused: &SecretString) -> Result<SecretString, OAuthError> {
        self.refresh(refused).await
    }

    /// Notes scopes that the server demands, so that the next login requests them too. Returns whether a login can help:
    /// the last one has not requested all of them.
    ///
    /// # Errors
    /// The file of tokens cannot be used.
    pub async fn note_demanded_scopes(&self, demanded: &str) -> Result<bool, OAuthError> {
        let _lock = self.lock().await?;
        let Some(mut tokens) = self.load().await? else {
            return Ok(false);
        };
        let scopes = demanded.split_whitespace().map(str::to_owned);
        let missing: Vec<String> = scopes.filter(|scope| !tokens.scopes.contains(scope)).collect();
        let is_usable = demanded.len() <= MAX_SCOPES && demanded.bytes().all(is_scope_byte);
        if missing.is_empty() || !is_usable {
            return Ok(false);
        }
        add_scopes(&mut tokens.extra_scopes, &missing);
        self.save(tokens).await?;
        Ok(true)
    }

    /// Refreshes, unless another task or process has replaced the token `old` in the meantime.
    async fn refresh(&self, old: &SecretString) -> Result<SecretString, OAuthError> {
        let _one = self.refreshing.lock().await;
        let _lock = self.lock().await?;
        let tokens = self.load().await?.ok_or(OAuthError::LoginNeeded)?;
        if tokens.access.expose_secret() != old.expose_secret() && tokens.is_fresh() {
            return Ok(tokens.access);
        }
        let refresh = tokens.refresh.as_ref().ok_or(OAuthError::LoginNeeded)?;
        // Checked again, since the file could have been changed.
        let url = self.client.policy.parse(WHAT, &tokens.token_endpoint)?;
        let grant = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose_secret()),
            ("resource", &tokens.resource),
        ];
        let answer = match request_tokens(&self.client, &url, &tokens.client, &grant).await {
            Ok(answer) => answer,
            Err(OAuthError::Denied(reason)) => {
                if UNUSABLE.iter().any(|code| reason.starts_with(code)) {
                    self.save(StoredTokens {
                        refresh: None,
                        expires_ms: Some(0),
                        ..tokens
                    })
                    .await?;
                }
                return Err(OAuthError::LoginNeeded);
            }
            Err(error) => return Err(error),
        };
        let tokens = answer.into_tokens(&tokens);
        let access = tokens.access.clone();
        self.save(tokens).await?;
        Ok(access)
    }

    async fn save(&self, tokens: StoredTokens) -> Result<(), OAuthError> {
        let (store, server) = (self.store.clone(), self.server.clone());
        run_blocking(move || store.save(&server, &tokens)).await
    }

    async fn load(&self) -> Result<Option<StoredTokens>, OAuthError> {
        let (store, server) = (self.store.clone(), self.server.clone());
        run_blocking(move || store.load(&server)).await
    }

    async fn lock(&self) -> Result<StoreLock, OAuthError> {
        let (store, server) = (self.store.clone(), self.server.clone());
        run_blocking(move || store.lock(&server)).await
    }
}

/// Runs file access on the runtime's threads for blocking work.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OAuthError> + Send + 'static,
) -> Result<T, OAuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(OAuthError::Local(error.to_string())))
}
