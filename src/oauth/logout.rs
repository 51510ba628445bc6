//! The end of a login: tokens that were removed here are revoked at the authorization server (RFC 7009).

use std::time::Duration;

use crate::base::clock::timeout;
use secrecy::ExposeSecret as _;

use super::OAuthError;
use super::client::OAuthClient;
use super::store::{RemovedTokens, StoredTokens};
use super::token::post_as_client;

/// How long the authorization server may take.
const LIMIT: Duration = Duration::from_secs(5);

impl RemovedTokens {
    /// Revokes them, if the authorization server has an endpoint for that. With a refresh token, it revokes the access
    /// tokens too. Returns the reason if they may still be valid, for people. `client` is for their server.
    pub async fn revoke(&self, client: &OAuthClient) -> Option<String> {
        let tokens = self.tokens.as_ref()?;
        let endpoint = tokens.revocation_endpoint.as_deref()?;
        match timeout(LIMIT, request(client, tokens, endpoint)).await {
            Ok(revoked) => revoked.err().map(|error| error.to_string()),
            Err(_) => Some(format!("no answer within {} s", LIMIT.as_secs())),
        }
    }
}

async fn request(client: &OAuthClient, tokens: &StoredTokens, endpoint: &str) -> Result<(), OAuthError> {
    const WHAT: &str = "revocation endpoint";
    // Checked again, since the file could have been changed.
    let url = client.policy.parse(WHAT, endpoint)?;
    let (kind, token) = match &tokens.refresh {
        Some(refresh) => ("refresh_token", refresh),
        None => ("access_token", &tokens.access),
    };
    let mut fields = vec![("token", token.expose_secret()), ("token_type_hint", kind)];
    let mut revoked = post_as_client(client, WHAT, &url, &tokens.client, &fields).await;
    // The MCP SDK for Python demands the field also of clients that have no secret. An empty one counts as none.
    if tokens.client.secret.is_none()
        && matches!(&revoked, Err(OAuthError::Denied(reason)) if reason.contains("client_secret"))
    {
        fields.push(("client_secret", ""));
        revoked = post_as_client(client, WHAT, &url, &tokens.client, &fields).await;
    }
    revoked.map(drop)
}
