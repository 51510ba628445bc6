//! A login, from the first question to the server to the stored tokens.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::client::{OAuthClient, bad_status, describe_refusal, endpoint, parse_body};
use super::discovery::Authorization;
use super::redirect::{RedirectAnswer, RedirectListener};
use super::secret::{challenge_of, random_secret};
use super::store::{ClientIdentity, StoredTokens, TokenStore};
use super::token::{add_scopes, request_tokens, run_blocking};
use super::{OAuthError, OAuthServer};
use crate::base::clock;

/// How long a user may take to log in.
const MINUTES: u64 = 10;

/// A login that waits for the user.
#[derive(Debug)]
pub struct PendingLogin {
    /// The address that the user opens.
    pub url: Url,
    client: OAuthClient,
    authorization: Authorization,
    identity: ClientIdentity,
    listener: RedirectListener,
    state: SecretString,
    verifier: SecretString,
    scopes: Vec<String>,
    extra_scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<SecretString>,
    token_endpoint_auth_method: Option<String>,
}

impl PendingLogin {
    /// Prepares a login: finds the authorization server, registers there if necessary, and listens on this machine.
    ///
    /// # Errors
    /// Fails if the server names no acceptable authorization server, or if that one refuses to register clients.
    pub async fn begin(client: OAuthClient, server: &OAuthServer) -> Result<Self, OAuthError> {
        let authorization = Authorization::discover(&client).await?;
        let listener = RedirectListener::open(server.callback_port).await?;
        let identity = match &server.client_id {
            // Only a registration shows that the endpoints exist.
            Some(_) if authorization.is_assumed => {
                return Err(OAuthError::NoMetadata(client.policy.server().clone()));
            }
            Some(id) => ClientIdentity {
                id: id.clone(),
                // The client knows the configured one.
                secret: None,
                is_basic: client.find_secret(id).is_some() && authorization.sends_secret_in_header()?,
            },
            None => match register(&client, &authorization, &listener.uri()).await {
                Err(_) if authorization.is_assumed => {
                    return Err(OAuthError::NoMetadata(client.policy.server().clone()));
                }
                registered => registered?,
            },
        };
        let (state, verifier) = (random_secret()?, random_secret()?);
        let mut url = authorization.authorize.clone();
        let mut scopes = if server.scopes.is_empty() {
            authorization.scopes.clone()
        } else {
            server.scopes.clone()
        };
        add_scopes(&mut scopes, &server.extra_scopes);
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &identity.id)
            .append_pair("redirect_uri", &listener.uri())
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge_of(&verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &authorization.resource);
        if !scopes.is_empty() {
            url.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        Ok(Self {
            url,
            client,
            authorization,
            identity,
            listener,
            state: state.into(),
            verifier: verifier.into(),
            scopes,
            extra_scopes: server.extra_scopes.clone(),
        })
    }

    /// Waits for the user, exchanges the code for tokens, and stores them. Dropping the future ends the login.
    ///
    /// # Errors
    /// Fails if the user or the authorization server refuses, or if nobody logs in within ten minutes.
    pub async fn finish(self, store: &TokenStore) -> Result<(), OAuthError> {
        use secrecy::ExposeSecret as _;
        let redirect = self.listener.uri();
        let waiting = self.listener.wait(self.state.expose_secret());
        let answer = clock::timeout(Duration::from_secs(MINUTES * 60), waiting)
            .await
            .map_err(|_| OAuthError::TimedOut(MINUTES))??;
        let code = check_answer(&self.authorization, &answer)?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", self.verifier.expose_secret()),
            ("resource", self.authorization.resource.as_str()),
        ];
        let tokens = request_tokens(&self.client, &self.authorization.token, &self.identity, &grant).await?;
        let tokens = tokens.into_tokens(&StoredTokens {
            issuer: self.authorization.issuer,
            token_endpoint: self.authorization.token.to_string(),
            revocation_endpoint: self.authorization.revoke.map(Into::into),
            resource: self.authorization.resource,
            client: self.identity,
            access: String::new().into(),
            refresh: None,
            expires_ms: None,
            scopes: self.scopes,
            extra_scopes: self.extra_scopes,
        });
        let (store, server) = (store.clone(), self.client.policy.server().clone());
        run_blocking(move || {
            let _lock = store.lock(&server)?;
            store.save(&server, &tokens)
        })
        .await
    }
}

/// Returns the code of a redirect.
fn check_answer<'a>(
    authorization: &Authorization,
    answer: &'a RedirectAnswer,
) -> Result<&'a str, OAuthError> {
    // Another issuer's answer must not reach this one's token endpoint (RFC 9207).
    match answer.get("iss") {
        Some(issuer) if issuer != authorization.issuer => {
            return Err(OAuthError::Mismatch {
                what: "redirect",
                expected: authorization.issuer.clone(),
                found: describe_refusal(issuer, None),
            });
        }
        None if authorization.names_issuer => {
            return Err(OAuthError::Mismatch {
                what: "redirect",
                expected: authorization.issuer.clone(),
                found: String::new(),
            });
        }
        _ => {}
    }
    if let Some(error) = answer.get("error") {
        let description = answer.get("error_description");
        return Err(OAuthError::Denied(describe_refusal(error, description)));
    }
    let code = answer.get("code").filter(|code| !code.is_empty());
    code.ok_or_else(|| endpoint("redirect", "it has no code".to_owned()))
}

/// Registers this program as a public client (RFC 7591).
async fn register(
    client: &OAuthClient,
    authorization: &Authorization,
    redirect: &str,
) -> Result<ClientIdentity, OAuthError> {
    const WHAT: &str = "registration endpoint";
    let Some(url) = &authorization.register else {
        return Err(OAuthError::Unsupported {
            issuer: authorization.issuer.clone(),
            lacks: "does not let clients register; set oauth_client_id",
        });
    };
    let request = json!({
        "client_name": "agentls",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let (status, body) = client.post_json(WHAT, url, &request).await?;
    if !status.is_success() {
        return Err(bad_status(WHAT, status, &body));
    }
    let registered: Registration = parse_body(WHAT, &body)?;
    // The default of the standard, for servers that give a secret without saying how to send it.
    let method = registered.token_endpoint_auth_method.as_deref();
    let is_basic = registered.client_secret.is_some() && method.is_none_or(|m| m == "client_secret_basic");
    Ok(ClientIdentity {
        id: registered.client_id,
        secret: registered.client_secret,
        is_basic,
    })
}
