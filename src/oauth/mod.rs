//! OAuth 2.1 for MCP servers over HTTP: login through the user's browser, tokens, and their refresh (R-MCP).
//!
//! Owns discovery ([`Authorization`]), the login ([`PendingLogin`]), and the tokens of each server
//! ([`TokenSource`]). Knows HTTP and files; must not know MCP messages or sessions. It never opens a browser: the
//! caller shows the address.
//!
//! It fails closed. Endpoints are `https`, or on this machine if the server is too; they are public unless the user
//! named their host; issuer, resource, and `state` must match; PKCE with S256 is required; redirects of endpoints are
//! errors. A token is bound to its server's URL and sent nowhere else. Nothing here is logged.
//!
//! `rmcp` has an implementation of its own. It logs authorization codes, guesses endpoints that no metadata names,
//! accepts plain HTTP for tokens, and adds 19 crates.

mod client;
mod discovery;
mod endpoint;
mod login;
mod logout;
mod redirect;
mod secret;
mod store;
mod token;

use url::Url;

use crate::base::web_address::hide_secrets;

pub use client::OAuthClient;
pub use discovery::Authorization;
pub use login::PendingLogin;
pub use store::{RemovedTokens, TokenStore};
pub use token::TokenSource;

/// A server that may need a login, and what the user has configured about it.
#[derive(Clone, Debug)]
pub struct OAuthServer {
    /// The name for the user who logs in.
    pub name: String,
    /// Its address; tokens are bound to it.
    pub url: Url,
    /// The client id, if one is registered by hand.
    pub client_id: Option<String>,
    /// The scopes to request; empty for those that the server asks for.
    pub scopes: Vec<String>,
    /// More scopes to request, which earlier refusals have named; see [`TokenStore::load_extra_scopes`].
    pub extra_scopes: Vec<String>,
    /// The port for the browser's redirect; `None` for any free one.
    pub callback_port: Option<u16>,
}

/// Why a login or a refresh failed. The texts contain no password and no query of an address.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    /// The server's own address cannot be used with tokens.
    #[error("{} is not https, so no token is sent there", hide_secrets(.0.as_str()))]
    PlainServer(Url),
    /// A URL that a document named is not acceptable.
    #[error("the {what} {} is refused: {why}", hide_secrets(.url))]
    Refused {
        what: &'static str,
        url: String,
        why: &'static str,
    },
    /// Nothing says how to log in.
    #[error(
        "{} does not say how to log in; if it takes a fixed token, set bearer_token_env", hide_secrets(.0.as_str())
    )]
    NoMetadata(Url),
    /// A document names something else than what was asked for.
    #[error("the {what} names {:?} instead of {:?}", hide_secrets(.found), hide_secrets(.expected))]
    Mismatch {
        what: &'static str,
        expected: String,
        found: String,
    },
    /// The authorization server lacks something that a login needs.
    #[error("the authorization server {} {lacks}", hide_secrets(.issuer))]
    Unsupported { issuer: String, lacks: &'static str },
    /// An endpoint did not answer, or answered with what cannot be used.
    #[error("{what}: {why}")]
    Endpoint { what: &'static str, why: String },
    /// The authorization server refused.
    #[error("the authorization server refused: {0}")]
    Denied(String),
    /// Nobody logged in within the time limit.
    #[error("nobody logged in within {0} minutes")]
    TimedOut(u64),
    /// There is no token, or it can no longer be refreshed.
    #[error("a login is needed")]
    LoginNeeded,
    /// The file of tokens cannot be used.
    #[error("the tokens in {path} cannot be {action}: {why}")]
    Store {
        path: String,
        action: &'static str,
        why: String,
    },
    /// Something on this machine failed.
    #[error("{0}")]
    Local(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_hide_passwords_and_queries_of_addresses() {
        let text = "https://ada:canary-1@h.example/mcp?key=canary-2";
        let url = || Url::parse(text).unwrap();
        let (what, why) = ("resource metadata", "why");
        for error in [
            OAuthError::PlainServer(url()),
            OAuthError::Refused {
                what,
                url: text.to_owned(),
                why,
            },
            OAuthError::NoMetadata(url()),
            OAuthError::Mismatch {
                what,
                expected: text.to_owned(),
                found: text.to_owned(),
            },
            OAuthError::Unsupported {
                issuer: text.to_owned(),
                lacks: why,
            },
        ] {
            let shown = error.to_string();
            assert!(
                shown.contains("ada:hidden@h.example/mcp?hidden") && !shown.contains("canary"),
                "{shown}"
            );
        }
    }
}
